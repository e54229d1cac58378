//! Accesses of packed fields become accesses of their words.
//!
//! A load decodes bits of the word. A store changes some of its bits, in one of four ways:
//!
//! | the store | becomes |
//! |---|---|
//! | covers all bits that are in use | a store of the word |
//! | in serial code, or of a word that one iteration owns | a load, an insertion and a store |
//! | of bits that one iteration owns | a load and an atomic `xor` of what changes |
//! | any other | a loop with a compare-and-swap |
//!
//! Stores of one iteration to several members of a word are fused.

mod bits;
mod place;
mod sharing;
mod update;

use crate::analysis::affine::AffineAnalysis;
use crate::analysis::loop_ranges::loop_ranges;
use crate::passes::Cx;
use crate::quant::{self, Bit};
use crate::remark::{Decision, Remark, WordWrite};
use crate::rewrite::{Structure, Substitution, expand_dynamic_components};
use bits::shifted;
use place::Element;
use sharing::Sharing;
use smallvec::SmallVec;
use update::{Part, Pending};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Func, Inst, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::quant::{PackedScalar, Quantized};
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Position, Result};

/// The pass; the [module](self) describes it.
pub fn lower_quantized(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if m.fields.values().all(|f| f.packing.is_none()) {
        return Ok(());
    }
    for f in m.funcs.values_mut() {
        expand_dynamic_components(&mut m.env, f, |data| data.packing.is_some());
    }
    let funcs: Vec<Func> = m.funcs.keys().collect();
    for func in funcs {
        let loop_ranges = loop_ranges(m, func);
        let sharing = Sharing::of(m, func, cx.uses("quantized_ownership"));
        let f = &mut m.funcs[func];
        // Affine expressions refer to the function before lowering; new instructions only add to it.
        let before = f.clone();
        let structure = Structure::of(&before);
        let mut lower = Lower {
            b: Builder::new(&mut m.env, f),
            affine: AffineAnalysis::new(&before, &structure),
            loop_ranges,
            sharing,
            subst: Substitution::new(),
            fuse: cx.uses("store_fusion"),
            check_reads: cx.options.check_reads,
            pending: Vec::new(),
            writes: Vec::new(),
        };
        for region in before.walk_regions() {
            lower.region(region);
        }
        let (subst, writes) = (lower.subst, lower.writes);
        subst.apply(f);
        remark(m, cx, func, &writes);
    }
    Ok(())
}

/// Says how a task changes words.
fn remark(m: &Module, cx: &mut Cx, func: Func, writes: &[(Field, WordWrite)]) {
    let Some(task) = m.tasks.iter().find(|t| t.func == func) else {
        return;
    };
    for (word, write) in writes {
        cx.remarks.push(Remark {
            task: task.name.clone(),
            at: Position::of(m, task.span),
            decision: Decision::Packed {
                fields: m.fields[*word].name.clone(),
                write: *write,
            },
        });
    }
}

struct Lower<'a> {
    b: Builder<'a>,
    affine: AffineAnalysis<'a>,
    /// The ranges of the indices of the parallel loop.
    loop_ranges: Vec<(Value, (i128, i128))>,
    sharing: Sharing,
    subst: Substitution,
    /// Whether stores to one word are fused.
    fuse: bool,
    /// Whether reads outside are reported.
    check_reads: bool,
    /// Stores that have not been written yet, each of another word.
    pending: Vec<Pending>,
    /// The ways in which words are changed, each once.
    writes: Vec<(Field, WordWrite)>,
}

/// An access of a packed field.
struct PackedAccess {
    field: Field,
    access: Access,
    /// The type of what is accessed.
    ty: Type,
    /// Its scalars, by their numbers in an element.
    first: usize,
    count: usize,
    element: Element,
}

impl Lower<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        self.b.region = region;
        for inst in insts {
            self.b.span = self.b.func.spans[inst];
            let data = &self.b.func.insts[inst];
            let place = data.op.access().map(|a| a.place);
            if let Some(Place::Field(field)) = place
                && self.b.env.fields[field].packing.is_some()
            {
                self.access(inst, field);
                continue;
            }
            if place.is_none() && !keeps_order(&data.op) {
                self.flush_all();
            }
            self.b.func.regions[region].insts.push(inst);
        }
        self.b.span = self.b.func.regions[region].term_span;
        self.flush_all();
    }

    fn access(&mut self, inst: Inst, field: Field) {
        let data = self.b.func.insts[inst].clone();
        let OpClass::Access(op, access) = data.op.class() else {
            return;
        };
        let rank = self.b.env.fields[field].rank();
        let (indices, operands) = data.args.split_at(rank);
        let operands: Values = operands.iter().map(|v| self.subst.get(*v)).collect();
        let (ty, first) = quant::part(self.b.env, field, &access.path);
        let writes = match op {
            AccessOp::Load => false,
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => true,
        };
        let packed = PackedAccess {
            field,
            access: access.clone(),
            ty,
            first,
            count: self.b.env.structs.flatten(ty).len(),
            element: self.locate(field, access, indices, writes),
        };
        let result = match op {
            AccessOp::Load => Some(self.load(&packed)),
            AccessOp::Store => {
                self.store(&packed, operands[0]);
                None
            }
            AccessOp::Atomic(op) => Some(self.atomic(&packed, op, operands[0])),
            AccessOp::CompareExchange => Some(self.exchange(&packed, operands[0], operands[1])),
        };
        if let (Some(old), Some(new)) = (data.results.first(), result) {
            self.subst.set(*old, new);
        }
    }

    fn scalars(&self, packed: &PackedAccess) -> SmallVec<[PackedScalar; 4]> {
        let all = self.b.env.packed_scalars(packed.field);
        all[packed.first..packed.first + packed.count].into()
    }

    fn word_type(&self, word: Field) -> Scalar {
        let ty = self.b.env.fields[word].elem.as_scalar();
        ty.unwrap_or(Scalar::U64)
    }

    fn note(&mut self, word: Field, write: WordWrite) {
        if !self.writes.contains(&(word, write)) {
            self.writes.push((word, write));
        }
    }

    // ---- loads ----

    fn load(&mut self, packed: &PackedAccess) -> Value {
        let scalars = self.scalars(packed);
        let mut words: SmallVec<[(Field, Value); 2]> = SmallVec::new();
        let mut values = Values::new();
        for scalar in &scalars {
            let word = scalar.member.word;
            let known = words.iter().find(|w| w.0 == word);
            let bits = match known {
                Some((_, bits)) => *bits,
                None => {
                    self.flush(word);
                    let bits = self.load_word(packed, word);
                    words.push((word, bits));
                    bits
                }
            };
            values.push(self.decode(scalar, &packed.element, bits));
        }
        self.compose(packed.ty, &mut values.into_iter())
    }

    fn load_word(&mut self, packed: &PackedAccess, word: Field) -> Value {
        let access = Access {
            place: Place::Field(word),
            path: SmallVec::new(),
            activation: Activation::Never,
            guard: packed.element.read_guard,
        };
        let at = self.word_indices(packed, word);
        self.b.value(Op::Load(access), &at)
    }

    /// The scalar in a word.
    fn decode(&mut self, scalar: &PackedScalar, element: &Element, word: Value) -> Value {
        let at = self.position(element, &scalar.member);
        self.decode_at(scalar, at, word)
    }

    fn decode_at(&mut self, scalar: &PackedScalar, at: Bit, word: Value) -> Value {
        let b = &mut self.b;
        match scalar.member.ty {
            ty @ (Quantized::Int { .. } | Quantized::Fixed { .. } | Quantized::Float { .. }) => {
                quant::decode(b, ty, scalar.compute, word, at)
            }
            Quantized::Fraction {
                bits,
                signed,
                exponent,
            } => quant::decode_shared(b, exponent, bits, signed, scalar.compute, word, at),
        }
    }

    /// A value of a type from its scalars.
    fn compose(&mut self, ty: Type, scalars: &mut impl Iterator<Item = Value>) -> Value {
        if let Type::Scalar(_) = ty {
            return match scalars.next() {
                Some(value) => value,
                None => self.b.zero(ty),
            };
        }
        let types = self.b.env.structs.components(ty);
        let parts: Values = types
            .into_iter()
            .map(|t| self.compose(t, scalars))
            .collect();
        self.b.value(Op::Compose(ty), &parts)
    }

    // ---- stores ----

    fn store(&mut self, packed: &PackedAccess, value: Value) {
        let scalars = self.scalars(packed);
        let mut values = Values::new();
        quant::decompose(&mut self.b, value, &mut values);
        let mut parts: SmallVec<[(Field, Vec<Part>); 2]> = SmallVec::new();
        for (scalar, value) in scalars.iter().zip(values) {
            let word = scalar.member.word;
            let part = self.part_of(scalar, &packed.element, value);
            match parts.iter_mut().find(|p| p.0 == word) {
                Some((_, list)) => part.add_to(list),
                None => parts.push((word, vec![part])),
            }
        }
        for (word, parts) in parts {
            let parts = parts.into_iter().map(|p| self.complete(word, p)).collect();
            self.enqueue(packed, word, parts);
        }
    }

    /// The change of a word that stores one scalar.
    fn part_of(&mut self, scalar: &PackedScalar, element: &Element, value: Value) -> Part {
        let stochastic = scalar.member.ty.is_stochastic();
        let draw = stochastic.then(|| self.b.value(Op::Random, &[]));
        let at = self.position(element, &scalar.member);
        self.part_with(scalar, at, value, draw)
    }

    /// Bits of a word, moved to their place.
    fn bits_at(&mut self, bits: Value, width: u32, at: Bit) -> Part {
        let word = self.b.func.ty(bits).as_scalar().unwrap_or(Scalar::U64);
        let mask = wuji_ir::quant::mask(width);
        match at {
            Bit::Const(at) => Part::Bits {
                mask: mask << at,
                bits: shifted(&mut self.b, bits, Bit::Const(at)),
            },
            Bit::At(_) => {
                let mask = self.b.int(word, mask.into());
                Part::BitsAt {
                    mask: shifted(&mut self.b, mask, at),
                    bits: shifted(&mut self.b, bits, at),
                }
            }
        }
    }
}

/// Whether stores may be delayed over an operation that is not an access.
fn keeps_order(op: &Op) -> bool {
    match op.class() {
        OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Component(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Random => true,
        OpClass::Access(..)
        | OpClass::Cell(..)
        | OpClass::TreeAccess(..)
        | OpClass::Memory(_)
        | OpClass::Control(_)
        | OpClass::Call(_)
        | OpClass::Thread(_)
        | OpClass::Check(_) => false,
    }
}
