//! Packed fields: words, and quantized types for their elements.
//!
//! Updates of floats depend on their order, because they are rounded, except sums of fixed-point numbers.

use super::Generator;
use wuji_ir::entities::{Field, Node, Tree};
use wuji_ir::layout::{Axis, Child, FieldData, NodeKind};
use wuji_ir::ops::{AtomicOp, Place};
use wuji_ir::quant::{Member, Packing, Quantized, Rounding, Scale, SharedExponent};
use wuji_ir::types::{Scalar, Type};

const WORDS: [Scalar; 4] = [Scalar::U8, Scalar::U16, Scalar::U32, Scalar::U64];

/// A word with bits left, and the axes of its fields.
pub(super) struct OpenWord {
    tree: Tree,
    node: Node,
    axes: Vec<(Axis, i64)>,
    word: Field,
    used: u32,
}

impl Generator<'_> {
    /// The axes of the fields of a word that has bits left in these cells.
    pub(super) fn open_word(&self, tree: Tree, node: Node) -> Option<Vec<(Axis, i64)>> {
        let open = self.word.as_ref()?;
        (open.tree == tree && open.node == node).then(|| open.axes.clone())
    }

    pub(super) fn is_packed(&self, place: Place) -> bool {
        match place {
            Place::Field(field) => {
                let leaves = self.m.leaves(field);
                (leaves.iter()).any(|leaf| self.m.fields[leaf.field].packing.is_some())
            }
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => false,
        }
    }

    /// A bit array below a node, along an axis that no list has.
    pub(super) fn bit_array(&mut self, tree: Tree, parent: Node) -> Option<Node> {
        let lists = self.list_axes(tree, parent);
        let mut axes = self.m.trees[tree].axes(parent);
        axes.retain(|a| !lists.contains(a));
        if axes.is_empty() {
            return None;
        }
        let axis = *self.dice.pick(&axes);
        let extent = *self.dice.pick(&[1, 3, 8, 8, 16, 32]);
        Some(self.m.trees[tree].add(parent, NodeKind::BitArray, &[(axis, extent)]))
    }

    /// The type of elements of a bit array.
    pub(super) fn bits_type(&mut self) -> Type {
        let types = [
            Scalar::Bool,
            Scalar::U32,
            Scalar::I32,
            Scalar::I64,
            Scalar::U8,
        ];
        Type::Scalar(*self.dice.pick(&types))
    }

    /// Bits for the scalars of an element, in words of its cell; `None` if some have no quantized type.
    pub(super) fn packing(
        &mut self,
        (tree, node): (Tree, Node),
        axes: &[(Axis, i64)],
        elem: Type,
    ) -> Option<Packing> {
        if let Some(array) = self.m.trees[tree].bit_array(node).cloned() {
            return self.packing_in_array(tree, (node, array.cells()), elem);
        }
        let scalars = self.m.structs.flatten(elem);
        if scalars.is_empty() || scalars.len() > 12 || scalars.contains(&Scalar::F16) {
            return None;
        }
        if self.dice.chance(40)
            && let Some(packing) = self.sharing_exponent((tree, node), axes, &scalars)
        {
            return Some(packing);
        }
        let mut members = Vec::new();
        for scalar in scalars {
            let ty = self.quantized(scalar);
            let fits = |open: &OpenWord, m: &wuji_ir::module::Module| {
                let bits = m.fields[open.word].elem.as_scalar().map_or(0, Scalar::bits);
                open.tree == tree
                    && open.node == node
                    && open.axes == axes
                    && open.used + ty.bits() <= bits
            };
            if !self.word.as_ref().is_some_and(|open| fits(open, &self.m)) {
                let wide = WORDS.iter().filter(|w| w.bits() >= ty.bits());
                let wide: Vec<Scalar> = wide.copied().collect();
                let word = *self.dice.pick(&wide);
                let word = self.add_word(tree, node, axes, word);
                self.word = Some(OpenWord {
                    tree,
                    node,
                    axes: axes.to_vec(),
                    word,
                    used: 0,
                });
            }
            let open = self.word.as_mut()?;
            members.push(Member {
                word: open.word,
                at: open.used as u8,
                ty,
            });
            open.used += ty.bits();
        }
        Some(Packing {
            members: members.into(),
        })
    }

    /// A word for floats that share an exponent, with bits left for other fields.
    fn sharing_exponent(
        &mut self,
        (tree, node): (Tree, Node),
        axes: &[(Axis, i64)],
        scalars: &[Scalar],
    ) -> Option<Packing> {
        let (first, count) = (*scalars.first()?, scalars.len() as i64);
        let same = scalars.iter().all(|s| *s == first && s.is_float());
        if !same || !(2..=6).contains(&count) {
            return None;
        }
        let bits = self.dice.between(4, 8);
        let word = self.add_word(tree, node, axes, Scalar::U64);
        let exponent = SharedExponent {
            at: 0,
            bits: bits as u8,
        };
        let mut used = bits;
        let mut members = Vec::new();
        for _ in scalars {
            let bits = self.dice.between(2, (56 / count).min(24));
            let ty = Quantized::Fraction {
                bits: bits as u8,
                signed: self.dice.chance(70),
                exponent,
            };
            let at = used as u8;
            members.push(Member { word, at, ty });
            used += bits;
        }
        self.word = Some(OpenWord {
            tree,
            node,
            axes: axes.to_vec(),
            word,
            used: used as u32,
        });
        Some(Packing {
            members: members.into(),
        })
    }

    /// The types of the packed floats of a place.
    pub(super) fn packed_floats(&self, place: Place) -> Vec<Quantized> {
        let Place::Field(field) = place else {
            return Vec::new();
        };
        let leaves = self.m.leaves(field).into_iter();
        let packings = leaves.filter_map(|leaf| self.m.fields[leaf.field].packing.as_ref());
        let types = packings.flat_map(|p| p.members.iter().map(|m| m.ty));
        types
            .filter(|ty| match ty {
                Quantized::Int { .. } => false,
                Quantized::Fixed { .. } | Quantized::Float { .. } | Quantized::Fraction { .. } => {
                    true
                }
            })
            .collect()
    }

    /// Whether atomics of several iterations give the same numbers in any order.
    pub(super) fn packed_commutes(&self, place: Place, op: AtomicOp) -> bool {
        let floats = self.packed_floats(place);
        let fixed = |ty: &Quantized| matches!(ty, Quantized::Fixed { .. });
        floats.is_empty() || op == AtomicOp::Add && floats.iter().all(fixed)
    }

    /// Whether a store of one component changes others.
    pub(super) fn shares_exponents(&self, place: Place) -> bool {
        let floats = self.packed_floats(place);
        (floats.iter()).any(|ty| matches!(ty, Quantized::Fraction { .. }))
    }

    fn packing_in_array(
        &mut self,
        tree: Tree,
        (node, cells): (Node, u64),
        elem: Type,
    ) -> Option<Packing> {
        let parent = self.m.trees[tree].nodes[node].parent?;
        let scalar = elem.as_scalar()?;
        let most = (64 / cells.max(1)) as i64;
        let bits = if self.dice.chance(60) {
            1
        } else {
            self.dice.between(1, most.min(scalar.bits().into()))
        };
        let ty = Quantized::Int {
            bits: bits as u8,
            signed: scalar.is_signed_int(),
        };
        let all = cells as u32 * bits as u32;
        let word = *WORDS.iter().find(|w| w.bits() >= all)?;
        let axes: Vec<(Axis, i64)> = self.m.trees[tree]
            .axes(parent)
            .into_iter()
            .map(|a| (a, 0))
            .collect();
        let word = self.add_word(tree, parent, &axes, word);
        let members = vec![Member { word, at: 0, ty }];
        Some(Packing {
            members: members.into(),
        })
    }

    fn quantized(&mut self, scalar: Scalar) -> Quantized {
        if scalar.is_float() {
            let scales = [1.0, 0.5, 0.1];
            let scale = Scale::new(*self.dice.pick(&scales));
            return match scale {
                Some(scale) if self.dice.chance(60) => Quantized::Fixed {
                    bits: self.dice.between(2, 24) as u8,
                    signed: self.dice.chance(70),
                    scale,
                    rounding: Rounding::Nearest,
                },
                _ => Quantized::Float {
                    exponent: self.dice.between(4, 8) as u8,
                    fraction: self.dice.between(4, 20) as u8,
                    signed: self.dice.chance(70),
                    rounding: Rounding::Nearest,
                },
            };
        }
        Quantized::Int {
            bits: self.dice.between(1, scalar.bits().into()) as u8,
            signed: scalar.is_signed_int(),
        }
    }

    fn add_word(&mut self, tree: Tree, node: Node, axes: &[(Axis, i64)], word: Scalar) -> Field {
        let number = self.m.fields.len();
        let field = self.m.fields.push(FieldData {
            name: format!("w{number}"),
            elem: Type::Scalar(word),
            tree,
            node,
            axes: axes.iter().copied().collect(),
            packing: None,
            components: Vec::new(),
        });
        let children = &mut self.m.trees[tree].nodes[node].children;
        children.push(Child::Place(field));
        // Its contents are those of the packed fields.
        self.inputs.fields.push(Vec::new());
        field
    }
}
