//! Trees, fields, arrays and parameters, with their contents.

use super::types::{any_imm, small_imm};
use super::{Generator, PlaceInfo};
use crate::fuzz::program::View;
use wuji_ir::entities::{Field, Node, Tree};
use wuji_ir::layout::*;
use wuji_ir::module::{ArrayData, ArrayShape, Param};
use wuji_ir::ops::{Place, Step};
use wuji_ir::quant::Packing;
use wuji_ir::types::{Imm, Scalar, Type};

/// The most elements of a field.
const MOST_CELLS: u64 = 300;

impl Generator<'_> {
    pub(super) fn make_trees(&mut self) {
        for _ in 0..*self.dice.pick(&[1, 1, 1, 2, 2, 3]) {
            let tree = self.m.trees.push(TreeData::default());
            let fields = self.m.fields.len();
            let sparse = self.dice.chance(55);
            self.grow(tree, 0, sparse);
            if self.m.fields.len() == fields {
                let node = self.m.trees[tree].nodes.keys().next_back();
                self.place_field(tree, node.unwrap_or(Node::from_u32(0)));
            }
        }
    }

    /// Adds children to the last node of a tree.
    fn grow(&mut self, tree: Tree, depth: usize, sparse: bool) {
        let Some(node) = self.m.trees[tree].nodes.keys().next_back() else {
            return;
        };
        let nodes = match depth {
            3 => 0,
            0 => self.dice.between(1, 2),
            _ => *self.dice.pick(&[0, 0, 1, 1, 2]),
        };
        for _ in 0..nodes {
            if self.dice.chance(25) {
                self.place_field(tree, node);
            }
            let kind = if sparse {
                self.any_kind()
            } else {
                NodeKind::Dense
            };
            self.add_node(tree, node, kind);
            self.grow(tree, depth + 1, sparse);
        }
        let places = match nodes {
            0 => self.dice.between(1, 3),
            _ if sparse => *self.dice.pick(&[0, 0, 1, 1]),
            _ => *self.dice.pick(&[0, 0, 0, 1]),
        };
        for _ in 0..places {
            self.place_field(tree, node);
        }
    }

    /// Random axes with room left below `parent`.
    pub(super) fn extents(&mut self, tree: Tree, parent: Node) -> Vec<(Axis, u64)> {
        let path = self.m.trees[tree].path(parent);
        // Sparse nodes have few active cells.
        let cells = |n: &Node| {
            if self.m.trees[tree].nodes[*n].kind.is_sparse() {
                self.m.trees[tree].nodes[*n].cells().min(4)
            } else {
                self.m.trees[tree].nodes[*n].cells()
            }
        };
        let above: u64 = path.iter().map(cells).product();
        let mut room = (MOST_CELLS / above).max(1);
        let mut axes: Vec<usize> = if self.dice.chance(10) {
            (0..Axis::COUNT).collect()
        } else {
            vec![0, 1, 2]
        };
        let lists = self.list_axes(tree, parent);
        axes.retain(|a| lists.iter().all(|l| l.number() != *a));
        self.dice.shuffle(&mut axes);
        axes.truncate(*self.dice.pick(&[1, 1, 2, 2, 2, 3]));
        // A field has at most four axes.
        let split = |axis: usize, tree: &TreeData| {
            path.iter()
                .any(|n| tree.nodes[*n].extents.iter().any(|e| e.0.number() == axis))
        };
        let tree = &self.m.trees[tree];
        let old = (0..Axis::COUNT).filter(|a| split(*a, tree)).count();
        let mut fresh = 0;
        axes.retain(|a| {
            if split(*a, tree) {
                return true;
            }
            fresh += 1;
            old + fresh <= 4
        });
        let mut extents = Vec::new();
        for axis in axes {
            let most = room.min(20);
            let extent = match self.dice.weighted(&[2, 4, 4]) {
                0 => 1 << self.dice.below(5),
                1 => 1 + self.dice.below(6) as u64,
                _ => 1 + self.dice.below(20) as u64,
            }
            .min(most);
            room /= extent;
            extents.extend(Axis::new(axis).map(|a| (a, extent)));
        }
        extents
    }

    fn place_field(&mut self, tree: Tree, node: Node) {
        if self.dice.chance(6) {
            let array = self.bit_array(tree, node);
            return self.place_in(tree, array.unwrap_or(node), array.is_some());
        }
        let packed = self.dice.chance(20);
        self.place_in(tree, node, packed);
    }

    /// Places a field, packed if possible.
    fn place_in(&mut self, tree: Tree, node: Node, packed: bool) {
        let data = &self.m.trees[tree];
        let mut axes: Vec<Axis> = (0..Axis::COUNT)
            .filter_map(Axis::new)
            .filter(|axis| {
                let mut splits = data
                    .path(node)
                    .into_iter()
                    .flat_map(|n| &data.nodes[n].extents);
                splits.any(|e| e.0 == *axis)
            })
            .collect();
        if self.dice.chance(40) {
            self.dice.shuffle(&mut axes);
        }
        let axes: Vec<(Axis, i64)> = axes
            .into_iter()
            .map(|axis| {
                let from = match self.dice.weighted(&[60, 22, 10, 3, 1]) {
                    0 => 0,
                    1 => self.dice.between(-20, 20),
                    // At the end of the range of a type.
                    2 => {
                        let ends = [120, 250, 32_760, 65_530, (1 << 31) - 5, (1 << 32) - 5];
                        let end = *self.dice.pick(&ends);
                        if self.dice.chance(30) { -end - 9 } else { end }
                    }
                    3 => self.dice.between(-3_000_000_000, 3_000_000_000),
                    _ => self.dice.between(-(1 << 61), 1 << 61),
                };
                (axis, from)
            })
            .collect();
        let axes = match self.open_word(tree, node) {
            Some(open) if packed => open,
            _ => axes,
        };
        let in_array = self.m.trees[tree].bit_array(node).is_some();
        let below_sparse = !self.m.trees[tree].sparse_path(node).is_empty();
        let elem = if in_array {
            self.bits_type()
        } else if below_sparse && self.dice.chance(12) {
            self.view_type()
        } else {
            self.any_type()
        };
        let packing = if packed {
            self.packing((tree, node), &axes, elem)
        } else {
            None
        };
        let tally = self.dice.chance(40);
        let field = if packing.is_none() && !in_array && self.dice.chance(20) {
            self.add_split((tree, node), &axes, elem, tally)
        } else {
            self.add_field((tree, node), &axes, (elem, packing), tally)
        };
        let domain = self.m.fields[field].domain(&self.m.trees);
        let group = self.groups;
        self.groups += 1;
        self.places.push(PlaceInfo {
            place: Place::Field(field),
            elem,
            domain,
            group,
            twin: self.places.len(),
            writable: true,
            distinct: true,
            tally,
            paths: self.paths(elem),
        });
    }

    /// A field with contents.
    pub(super) fn add_field(
        &mut self,
        (tree, node): (Tree, Node),
        axes: &[(Axis, i64)],
        (elem, packing): (Type, Option<Packing>),
        tally: bool,
    ) -> Field {
        let number = self.m.fields.len();
        let field = self.m.fields.push(FieldData {
            name: format!("x{number}"),
            elem,
            tree,
            node,
            axes: axes.iter().copied().collect(),
            packing,
            components: Vec::new(),
        });
        self.m.trees[tree].nodes[node]
            .children
            .push(Child::Place(field));
        if self.is_sparse(field) {
            let cells = self.sparse_contents(field, tally);
            self.inputs.sparse.push((field, cells));
            self.inputs.fields.push(Vec::new());
        } else {
            let domain = self.m.fields[field].domain(&self.m.trees);
            let cells: u64 = domain.iter().map(|d| d.1).product();
            let contents = (0..cells)
                .flat_map(|_| self.contents(elem, tally))
                .collect();
            self.inputs.fields.push(contents);
        }
        field
    }

    /// A place, and all that may share memory with it; arrays before fields.
    pub(super) fn choose_hot_places(&mut self) {
        let arrays: Vec<usize> = (0..self.places.len())
            .filter(|p| matches!(self.places[*p].place, Place::Array(_)))
            .collect();
        let one = if !arrays.is_empty() && self.dice.chance(50) {
            *self.dice.pick(&arrays)
        } else {
            self.dice.below(self.places.len())
        };
        let group = self.places[one].group;
        self.hot = (0..self.places.len())
            .filter(|p| self.places[*p].group == group)
            .collect();
    }

    /// The scalars of one element.
    pub(super) fn contents(&mut self, elem: Type, tally: bool) -> Vec<Imm> {
        let scalars = self.m.structs.flatten(elem);
        scalars
            .into_iter()
            .map(|s| {
                if tally {
                    small_imm(self.dice, s)
                } else {
                    any_imm(self.dice, s)
                }
            })
            .collect()
    }

    /// All paths into an element, with their types.
    pub(super) fn paths(&self, elem: Type) -> Vec<(Vec<Step>, Type)> {
        let mut out = vec![(Vec::new(), elem)];
        let mut at = 0;
        while at < out.len() && out.len() < 40 {
            let (path, ty) = out[at].clone();
            at += 1;
            for k in 0..self.m.structs.arity(ty) {
                let mut longer = path.clone();
                longer.push(Step::Const(k));
                out.extend(self.m.structs.component(ty, k).map(|t| (longer, t)));
            }
            if let Type::Vector(s, _) | Type::Matrix(s, _, _) = ty {
                let mut longer = path;
                longer.push(Step::Dynamic);
                out.push((longer, Type::Scalar(s)));
            }
        }
        out
    }

    pub(super) fn make_arrays(&mut self) {
        let groups = *self.dice.pick(&[0, 0, 1, 1, 2, 3]);
        for _ in 0..groups {
            let members = *self.dice.pick(&[1, 1, 1, 2, 2, 3]);
            self.array_group(members);
        }
    }

    /// Arrays in one buffer, which may overlap if there are several.
    fn array_group(&mut self, members: usize) {
        let tally = self.dice.chance(40);
        let group = self.groups;
        self.groups += 1;
        // Reading memory with another type would expose NaN payloads and bytes of `bool`: use one scalar type for
        // all.
        let shared = loop {
            let ty = self.any_plain_type();
            if let Some(s) = ty.elem() {
                break s;
            }
        };
        let mut views: Vec<(Type, View)> = Vec::new();
        for k in 0..members {
            let elem = match (members, k) {
                (1, _) => self.any_type(),
                _ if self.dice.chance(60) => Type::Scalar(shared),
                _ => self.any_shape(shared),
            };
            let view = match views.last() {
                Some((ty, view)) if *ty == elem && self.dice.chance(40) => view.clone(),
                _ => self.view(elem, members > 1),
            };
            views.push((elem, view));
        }
        // Shift all views, so that they fit into one buffer.
        let mut lowest = 0;
        let mut highest = 0;
        let mut reach = Vec::new();
        for (elem, view) in &views {
            let size = self.m.structs.size_align(*elem).0 as i64;
            let offsets = view.offsets();
            let lo = offsets.iter().min().copied().unwrap_or(0);
            let hi = offsets.iter().max().copied().map_or(0, |at| at + size);
            lowest = lowest.min(lo);
            highest = highest.max(hi);
            reach.push(offsets);
        }
        let buffer = self.inputs.buffers.len();
        let mut bytes = vec![0u8; (highest - lowest) as usize];
        for (elem, _) in &views {
            let scalars = self.m.structs.scalar_offsets(*elem);
            for at in reach.remove(0) {
                for (s, offset) in &scalars {
                    let imm = if tally {
                        small_imm(self.dice, *s)
                    } else {
                        any_imm(self.dice, *s)
                    };
                    let at = (at - lowest) as usize + *offset as usize;
                    let raw = imm.bits().to_le_bytes();
                    let width = s.bytes() as usize;
                    bytes[at..at + width].copy_from_slice(&raw[..width]);
                }
            }
        }
        self.inputs.buffers.push(bytes);
        for (elem, mut view) in views {
            view.buffer = buffer;
            view.base -= lowest;
            self.add_array(elem, view, group, members, tally);
        }
    }

    fn add_array(&mut self, elem: Type, view: View, group: usize, members: usize, tally: bool) {
        let size = self.m.structs.size_align(elem).0 as i64;
        let mut offsets = view.offsets();
        let mut step = size;
        let contiguous = view.extents.contains(&0)
            || view
                .extents
                .iter()
                .zip(&view.strides)
                .rev()
                .all(|(extent, stride)| {
                    let fits = *stride == step;
                    step *= extent;
                    fits
                });
        offsets.sort_unstable();
        let distinct = offsets.windows(2).all(|w| w[1] - w[0] >= size);
        let number = self.m.arrays.len();
        // The size of an array is not part of its type: an index may be out of range.
        let writable = distinct && self.dice.chance(75);
        let shape = (contiguous && self.dice.chance(30)).then(|| ArrayShape {
            extents: view.extents.iter().copied().collect(),
            align: 1,
        });
        let array = self.m.arrays.push(ArrayData {
            name: format!("y{number}"),
            elem,
            rank: view.extents.len() as u8,
            writable,
            contiguous: contiguous && self.dice.chance(80),
            unaliased: members == 1 && distinct && self.dice.chance(70),
            shape,
        });
        let twin = self.places.iter().position(|p| match p.place {
            Place::Array(a) => p.elem == elem && *self.inputs.view(a) == view,
            Place::Field(_) | Place::Local(_) | Place::Temp(_) => false,
        });
        self.places.push(PlaceInfo {
            twin: twin.unwrap_or(self.places.len()),
            place: Place::Array(array),
            elem,
            domain: view.extents.iter().map(|e| (0, *e as u64)).collect(),
            group,
            writable,
            distinct,
            tally,
            paths: self.paths(elem),
        });
        self.inputs.views.push(view);
    }

    /// A view around offset 0.
    fn view(&mut self, elem: Type, shifted: bool) -> View {
        let (size, align) = self.m.structs.size_align(elem);
        let (size, align) = (size as i64, align as i64);
        let rank = *self.dice.pick(&[1, 1, 1, 2, 2, 3, 0]);
        let extents: Vec<i64> = (0..rank)
            .map(|_| {
                if self.dice.chance(4) {
                    0
                } else {
                    self.dice.between(1, [0, 40, 10, 6][rank])
                }
            })
            .collect();
        let mut order: Vec<usize> = (0..rank).rev().collect();
        if self.dice.chance(25) {
            self.dice.shuffle(&mut order);
        }
        let plain = self.dice.chance(60);
        let mut strides = vec![0; rank];
        let mut step = size;
        for axis in order {
            strides[axis] = if plain {
                step
            } else {
                match self.dice.weighted(&[5, 2, 2, 1]) {
                    0 => step,
                    1 => step + align * self.dice.between(0, 3),
                    2 => -step,
                    _ => 0,
                }
            };
            step = step.max(strides[axis].abs()) * extents[axis].max(1);
        }
        let base = if shifted {
            align * self.dice.between(-4, 8)
        } else {
            0
        };
        View {
            buffer: 0,
            base,
            extents,
            strides,
        }
    }

    pub(super) fn make_params(&mut self) {
        for k in 0..self.dice.below(5) {
            let ty = if self.dice.chance(40) {
                Type::Scalar(super::types::any_int(self.dice))
            } else {
                self.any_type()
            };
            self.m.params.push(Param {
                name: format!("p{k}"),
                ty,
            });
            for s in self.m.structs.flatten(ty) {
                let imm = if s.is_int() && self.dice.chance(70) {
                    Imm::int(s, i128::from(self.dice.between(-3, 12)))
                } else {
                    any_imm(self.dice, s)
                };
                self.inputs.params.push(imm);
            }
        }
    }

    /// The value of an integer parameter.
    pub(super) fn known_param(&self, number: usize) -> Option<(Scalar, i128)> {
        let slot = *self.m.param_slots().get(number)?;
        let s = self.m.params.get(number)?.ty.as_scalar()?;
        let imm = self.inputs.params.get(slot)?;
        s.is_int().then_some((s, imm.as_int()?))
    }
}
