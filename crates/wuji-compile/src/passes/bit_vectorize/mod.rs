//! Loops over arrays of bits handle all elements of a word at once.
//!
//! The body of a parallel loop over single bits is evaluated symbolically, for all bits of a word: a Boolean becomes a word
//! with a bit for each element, an integer a few such words, one for each binary digit. Loads at constant distances
//! along the bits are shifts of two neighbouring words. Sums are carry-save adders, comparisons and selections bitwise
//! operations. The new loop runs over words, whose fields are like any others: bounds, sparse nodes, the vectorizer and
//! GPUs need to know nothing about it.
//!
//! A body with anything else stays as it is.

mod arithmetic;
mod evaluate;
mod lanes;
mod memory;

use crate::analysis::loop_ranges::loop_ranges;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use evaluate::Evaluator;
use lanes::Lane;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Func, Value};
use wuji_ir::layout::Axis;
use wuji_ir::module::*;
use wuji_ir::quant::Quantized;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Position, Result};

/// Why a loop is not over words.
type Refusal = String;

/// The pass; the [module](self) describes it.
pub fn bit_vectorize(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.check_reads {
        // A load of a word does not report which of its elements are outside.
        return Ok(());
    }
    for task in 0..m.tasks.len() {
        let found = candidates(m, task);
        if found.is_empty() || !cx.fuel() {
            continue;
        }
        let decision = vectorize_task(m, task, found);
        cx.remarks.push(Remark {
            task: m.tasks[task].name.clone(),
            at: Position::of(m, m.tasks[task].span),
            decision,
        });
    }
    Ok(())
}

/// Runs a loop over words in the first way that is possible.
fn vectorize_task(m: &mut Module, task: usize, candidates: Vec<Candidate>) -> Decision {
    let func = m.tasks[task].func;
    let mut refusal = None;
    for candidate in candidates {
        match candidate.evaluate(m, func) {
            Ok(new) => {
                m.env.signatures[func] = new.signature();
                m.funcs[func] = new;
                m.tasks[task].kind = candidate.kind;
                return Decision::Bits {
                    elements: candidate.bits,
                };
            }
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    Decision::NoBits(refusal.unwrap_or_default())
}

/// An array of single bits along one axis, a word at a time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct BitField {
    pub(super) word: Field,
    /// The axis of the bits.
    pub(super) axis: Axis,
    /// Elements per word: all its bits.
    pub(super) bits: u32,
    pub(super) signed: bool,
}

/// A field as an array of single bits that fill their words along one axis.
pub(super) fn bit_field(m: &Env, field: Field) -> Option<BitField> {
    let data = &m.fields[field];
    let [member] = data.packing.as_ref()?.members[..] else {
        return None;
    };
    let Quantized::Int { bits: 1, signed } = member.ty else {
        return None;
    };
    let array = m.trees[data.tree].bit_array(data.node)?;
    let [(axis, extent)] = array.extents[..] else {
        return None;
    };
    let bits = word_type(m, member.word).bits();
    (extent == u64::from(bits)).then_some(BitField {
        word: member.word,
        axis,
        bits,
        signed,
    })
}

fn word_type(m: &Env, word: Field) -> Scalar {
    m.fields[word].elem.as_scalar().unwrap_or(Scalar::U64)
}

/// A way to run a loop over words.
struct Candidate {
    kind: TaskKind,
    bits: u32,
    word: Scalar,
    /// The index of the loop that runs along the bits, counted among its indices.
    along: usize,
    /// The coordinate of the first bit of word 0.
    first: i64,
    /// The new indices: of each old one, the position of the new one and what is added to it.
    indices: Vec<Option<(usize, i64)>>,
    /// The new index that counts words; `None` if there is one word.
    counter: Option<(usize, i64)>,
    /// The coordinates of the loop along the bits, and whether they fill all words.
    range: (i64, i64),
    whole: bool,
}

fn candidates(m: &Module, task: usize) -> Vec<Candidate> {
    match &m.tasks[task].kind {
        TaskKind::Serial | TaskKind::Chunks { .. } => Vec::new(),
        TaskKind::Cells { field, hints } if !hints.cooperative => {
            cells(m, *field, *hints).into_iter().collect()
        }
        TaskKind::Range { dims, hints } if !hints.cooperative && !hints.serial => {
            ranges(m, m.tasks[task].func, dims, *hints)
        }
        TaskKind::Cells { .. } | TaskKind::Range { .. } => Vec::new(),
    }
}

/// A loop over all bits of a field.
fn cells(m: &Module, field: Field, hints: wuji_ir::ops::LoopHints) -> Option<Candidate> {
    let bits = bit_field(m, field)?;
    let (data, word) = (&m.fields[field], &m.fields[bits.word]);
    let along = data.axes.iter().position(|a| a.0 == bits.axis)?;
    let (lo, extent) = data.domain(&m.trees)[along];
    let of = |axis: Axis| word.axes.iter().position(|a| a.0 == axis);
    let indices = data.axes.iter().map(|(axis, lo)| {
        let k = of(*axis).filter(|_| *axis != bits.axis)?;
        Some((k, lo.checked_sub(word.axes[k].1)?))
    });
    Some(Candidate {
        kind: TaskKind::Cells {
            field: bits.word,
            hints,
        },
        bits: bits.bits,
        word: word_type(m, bits.word),
        along,
        first: data.axes[along].1,
        indices: indices.collect(),
        counter: of(bits.axis).map(|k| (k, word.axes[k].1.wrapping_neg())),
        range: (lo, lo.saturating_add_unsigned(extent)),
        whole: true,
    })
}

/// Loops over ranges that store bits: each index could run along the bits.
fn ranges(
    m: &Module,
    func: Func,
    dims: &[RangeDim],
    hints: wuji_ir::ops::LoopHints,
) -> Vec<Candidate> {
    let f = &m.funcs[func];
    let mut stored: Vec<Field> = Vec::new();
    f.walk(|inst| {
        if let Some(wuji_ir::ops::Place::Field(field)) =
            f.insts[inst].op.written_access().map(|a| a.place)
        {
            stored.push(field);
        }
    });
    let Some((field, bits)) = stored.iter().find_map(|f| Some((*f, bit_field(m, *f)?))) else {
        return Vec::new();
    };
    let data = &m.fields[field];
    let Some(axis) = data.axes.iter().position(|a| a.0 == bits.axis) else {
        return Vec::new();
    };
    let first = data.axes[axis].1;
    let mut found = Vec::new();
    for (along, dim) in dims.iter().enumerate().rev() {
        let (Bound::Const(lo), Bound::Const(hi)) = (dim.lo, dim.hi) else {
            continue;
        };
        let n = i64::from(bits.bits);
        let (Some(from), Some(to)) = (lo.checked_sub(first), hi.checked_sub(first)) else {
            continue;
        };
        if hi <= lo || to.checked_add(n).is_none() {
            continue;
        }
        let mut dims = dims.to_vec();
        let words = (from.div_euclid(n), (to + n - 1).div_euclid(n));
        dims[along] = RangeDim::new(Bound::Const(words.0), Bound::Const(words.1));
        let whole = from.rem_euclid(n) == 0 && to.rem_euclid(n) == 0;
        found.push(Candidate {
            indices: (0..dims.len())
                .map(|k| (k != along).then_some((k, 0)))
                .collect(),
            kind: TaskKind::Range { dims, hints },
            bits: bits.bits,
            word: word_type(m, bits.word),
            along,
            first,
            counter: Some((along, 0)),
            range: (lo, hi),
            whole,
        });
    }
    found
}

impl Candidate {
    /// The body for a word.
    fn evaluate(&self, m: &mut Module, func: Func) -> std::result::Result<Function, Refusal> {
        let old = m.funcs[func].clone();
        let loop_ranges = loop_ranges(m, func).into_iter().collect();
        let given = m.params.len();
        let (params, own) = old.params().split_at(given);
        let rank = match &self.kind {
            TaskKind::Cells { field, .. } => m.fields[*field].rank(),
            TaskKind::Range { dims, .. } => dims.len(),
            TaskKind::Serial | TaskKind::Chunks { .. } => 0,
        };
        let mut types: Vec<Type> = params.iter().map(|v| old.ty(*v)).collect();
        types.extend(std::iter::repeat_n(Type::Scalar(Scalar::I64), rank));
        for (index, old_index) in self.indices.iter().zip(own) {
            if let Some((at, _)) = index {
                types[given + at] = old.ty(*old_index);
            }
        }
        let mut new = Function::new(old.name.clone(), &types, &[]);
        let values = new.params().to_vec();
        let mut b = Builder::new(&mut m.env, &mut new);
        let mut lanes: FxHashMap<Value, Lane> = FxHashMap::default();
        for (old, new) in params.iter().zip(&values) {
            lanes.insert(*old, Lane::Uniform(*new));
        }
        for (k, old) in own.iter().enumerate() {
            let lane = match self.indices[k] {
                _ if k == self.along => Lane::Index(0),
                Some((at, by)) => Lane::Uniform(plus(&mut b, values[given + at], by)),
                None => return Err("an index of the loop has no axis".into()),
            };
            lanes.insert(*old, lane);
        }
        let counter = match self.counter {
            None => b.i64(0),
            Some((at, by)) => {
                let wide = b.convert(values[given + at], Scalar::I64);
                plus(&mut b, wide, by)
            }
        };
        let mut evaluator = Evaluator {
            b,
            old: &old,
            loop_ranges,
            lanes,
            counter,
            first: self.first,
            range: self.range,
            bits: self.bits,
            word: self.word,
            unrolled: 0,
            known: FxHashMap::default(),
        };
        let mask = (!self.whole).then(|| {
            let (before, inside) = self.range;
            let before = evaluator.lanes_below(before);
            let inside = evaluator.lanes_below(inside);
            let from = evaluator.not(before);
            evaluator.and(from, inside)
        });
        evaluator.body(old.entry, mask)?;
        evaluator.b.end(Term::Return(Values::new()));
        Ok(new)
    }
}

fn plus(b: &mut Builder, v: Value, by: i64) -> Value {
    if by == 0 {
        return v;
    }
    let ty = b.func.ty(v).as_scalar().unwrap_or(Scalar::I64);
    let by = b.int(ty, by.into());
    b.binary(wuji_ir::ops::BinOp::Add, v, by)
}
