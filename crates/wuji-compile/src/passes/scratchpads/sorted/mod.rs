//! Sums of floats in scratchpads of a GPU whose shared memory cannot add floats.
//!
//! All iterations of an entry add to elements around a cell of their own, at the same distances. The threads of a block
//! sort the iterations by cell, so that the iterations of a cell are neighbouring lanes of a warp; these add up their
//! values by shuffles, and the first of them adds the sum to the scratchpad of the warp. Sums at one distance from
//! different cells belong to different elements, so that needs no atomics. At the end, the threads add the scratchpads of
//! all warps to the field. If an iteration of an entry is not near the block, as was assumed, all of the entry's add to the
//! field instead.

mod emit;

use super::{Block, Pad, leaves_early};
use crate::analysis::affine::Affine;
use crate::analysis::cost::{sorting_pays, trips};
use crate::analysis::uses::used_by;
use crate::rewrite::Structure;
use cranelift_entity::EntitySet;
use rustc_hash::FxHashSet;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// The most iterations of an entry: their numbers are in shared memory.
const MOST_ITERATIONS: u64 = 1024;
/// The most cells that iterations are sorted by.
const MOST_CELLS: u64 = 1024;
/// The most bytes of shared memory: what every GPU has per block, without rounding.
const MOST_BYTES: u64 = 47 << 10;

/// What is to be transformed.
pub(super) struct SortedSums {
    block: Block,
    /// The loop over the iterations of an entry.
    inner: Inst,
    iterations: u64,
    /// The number of warps of a block.
    warps: u32,
    index: Value,
    /// Instructions before the guard.
    head: Vec<Inst>,
    /// Whether an iteration exists.
    guard: Option<Value>,
    /// Instructions that only existing iterations execute.
    effects: Vec<Inst>,
    /// Pure instructions that only sums need.
    rest: EntitySet<Inst>,
    /// The position of the cell along each axis, and its range.
    cell: Vec<(Affine, (i64, i64))>,
    /// All sums.
    sums: Vec<Sum>,
}

/// A sum.
struct Sum {
    inst: Inst,
    /// The number of its scratchpad.
    pad: usize,
    /// How far its element is from that of the cell, in the scratchpad.
    distance: i64,
}

type Planned<T> = Result<T, String>;

impl SortedSums {
    /// For sums into these fields, by blocks of so many threads.
    pub(super) fn new(m: &Env, f: &Function, pads: &[Pad], threads: u32) -> Planned<SortedSums> {
        let first = pads.first().ok_or("there are no sums")?;
        if !threads.is_multiple_of(WARP) {
            return Err("the block size is not a multiple of 32".into());
        }
        let structure = Structure::of(f);
        let touches = || pads.iter().flat_map(|p| &p.touches);
        let region = (touches().next())
            .and_then(|t| structure.region_of[t.inst].expand())
            .ok_or("there are no sums")?;
        if touches().any(|t| structure.region_of[t.inst].expand() != Some(region)) {
            return Err("some are in nested control flow".into());
        }
        let block = first.block;
        let (inner, label) = iterations_in(f, block.body, region)?;
        let iterations = trips(f, inner).unwrap_or(0);
        if iterations > MOST_ITERATIONS {
            return Err(format!("blocks have {iterations} iterations"));
        }
        let mut sums: Vec<Sum> = Vec::new();
        for (k, pad) in pads.iter().enumerate() {
            if let Type::Struct(_) = m.fields[pad.field].elem {
                return Err("their elements are structs".into());
            }
            for touch in &pad.touches {
                let value = f.insts[touch.inst].args.last().map(|v| f.ty(*v));
                if !value.is_some_and(|ty| is_float(m, ty)) {
                    return Err("they are not floats".into());
                }
                let distances = touch.offsets.iter().map(|o| o.constant);
                sums.push(Sum {
                    inst: touch.inst,
                    pad: k,
                    distance: distances.zip(strides(pad)).map(|(d, s)| d * s).sum(),
                });
            }
        }
        sums.sort_by_key(|s| s.inst);
        let cell = common_cell(pads)?;
        let mut plan = SortedSums {
            block,
            inner,
            iterations,
            index: f.regions[region].params[0],
            head: Vec::new(),
            guard: None,
            effects: Vec::new(),
            rest: EntitySet::new(),
            warps: threads / WARP,
            cell,
            sums,
        };
        let cells = plan.cells();
        if !sorting_pays(iterations, cells) {
            return Err(format!(
                "few of {iterations} iterations have one of {cells} cells in common"
            ));
        }
        let own = 4 * (cells + 2) + 8 * iterations;
        let sums = pads.iter().map(|pad| pad.bytes(m)).sum::<u64>();
        let bytes = own + u64::from(plan.warps) * sums;
        if bytes > MOST_BYTES {
            return Err(format!("they would need {bytes} bytes of shared memory"));
        }
        plan.divide(f, region, label)?;
        let slice = plan.slice(f)?;
        if slice.iter().any(|inst| may_change(f, *inst)) {
            return Err("their indices follow from what the loop writes".into());
        }
        Ok(plan)
    }

    /// The number of cells.
    fn cells(&self) -> u64 {
        let extents = self.cell.iter().map(|(_, (lo, hi))| (hi - lo + 1) as u64);
        extents.product()
    }

    /// Divides the body into what has effects and what only sums need.
    fn divide(&mut self, f: &Function, region: Region, label: Label) -> Planned<()> {
        let insts = &f.regions[region].insts;
        let guard = insts.iter().position(|i| !f.insts[*i].regions.is_empty());
        let guard = guard.filter(|k| {
            is_guard(f, insts[*k], label) && insts[..*k].iter().all(|i| f.insts[*i].is_pure())
        });
        let start = guard.map_or(0, |k| k + 1);
        self.head = insts[..start.saturating_sub(1)].to_vec();
        self.guard = guard.map(|k| f.insts[insts[k]].args[0]);
        let exits = insts[start..].iter().flat_map(|i| &f.insts[*i].regions);
        if exits.into_iter().any(|r| exits_loop(f, *r, label)) {
            return Err("iterations of the loop exit early".into());
        }
        let sums: FxHashSet<Inst> = self.sums.iter().map(|s| s.inst).collect();
        let mut needed = FxHashSet::default();
        for inst in insts[start..].iter().rev() {
            if sums.contains(inst) {
                continue;
            }
            let used = f.insts[*inst].results.iter().any(|v| needed.contains(v));
            if f.insts[*inst].is_pure() && !used {
                self.rest.insert(*inst);
            } else {
                needed.extend(used_by(f, *inst));
                self.effects.push(*inst);
            }
        }
        self.effects.reverse();
        Ok(())
    }

    /// What the position of the cell follows from, in order.
    fn slice(&self, f: &Function) -> Planned<Vec<Inst>> {
        let mut needed: FxHashSet<Value> = self.positions().collect();
        let region = f.insts[self.inner].regions[0];
        let mut found = Vec::new();
        for inst in f.regions[region].insts.iter().rev() {
            let data = &f.insts[*inst];
            if self.head.contains(inst) || !data.results.iter().any(|v| needed.contains(v)) {
                continue;
            }
            let repeatable = matches!(data.op.effect(), Effect::Pure | Effect::Reads);
            if !data.regions.is_empty() || !repeatable {
                return Err("their indices follow from what has effects".into());
            }
            needed.extend(data.args.iter().copied());
            found.push(*inst);
        }
        found.reverse();
        Ok(found)
    }

    /// The values that the position of the cell is computed from.
    fn positions(&self) -> impl Iterator<Item = Value> {
        let terms = self.cell.iter().flat_map(|(expr, _)| &expr.terms);
        terms.map(|(v, _)| *v)
    }
}

/// The position that all indices have in common, up to a constant, and its range.
fn common_cell(pads: &[Pad]) -> Planned<Vec<(Affine, (i64, i64))>> {
    let mut cell: Vec<(Affine, (i64, i64))> = Vec::new();
    for pad in pads {
        for (k, (lo, hi)) in pad.ranges.iter().enumerate() {
            let constants = || pad.touches.iter().map(|t| t.offsets[k].constant);
            let (Some(least), Some(most)) = (constants().min(), constants().max()) else {
                continue;
            };
            let range = (lo - least, hi - most);
            for touch in &pad.touches {
                let expr = Affine {
                    constant: 0,
                    ..touch.offsets[k].clone()
                };
                match cell.get(k) {
                    None => cell.push((expr, range)),
                    Some(known) if *known == (expr, range) => {}
                    Some(_) => return Err("their indices have different bases".into()),
                }
            }
        }
        let shared = &pads[0].shared;
        if pad.shared != *shared {
            return Err("their indices have different bases".into());
        }
    }
    let extents = cell.iter().map(|(_, (lo, hi))| (hi - lo + 1).max(0) as u64);
    match extents.product() {
        2..=MOST_CELLS => Ok(cell),
        count => Err(format!("they have {count} cells")),
    }
}

/// The loop with this body, and its label, directly in the body of a loop over entries.
fn iterations_in(f: &Function, body: Region, region: Region) -> Planned<(Inst, Label)> {
    for inst in &f.regions[body].insts {
        let data = &f.insts[*inst];
        if let Op::For(label, ForKind::Parallel) = data.op
            && data.regions[0] == region
            && data.results.is_empty()
        {
            let number = |k: usize| f.constant(data.args[k]).and_then(|n| n.as_int());
            if (number(0), number(2)) == (Some(0), Some(1)) {
                return Ok((*inst, label));
            }
        }
    }
    Err("they are not in the loop over the iterations of a block".into())
}

fn exits_loop(f: &Function, region: Region, label: Label) -> bool {
    let own = match &f.regions[region].term {
        Term::Continue(l, _) | Term::Break(l, _) => *l == label,
        Term::Return(_) => true,
        Term::Yield(_) | Term::Unreachable => false,
    };
    own || leaves_early(
        f,
        Block {
            body: region,
            label,
        },
    )
}

/// Whether an instruction ends iterations that do not exist.
fn is_guard(f: &Function, inst: Inst, label: Label) -> bool {
    let data = &f.insts[inst];
    let [then, otherwise] = data.regions[..] else {
        return false;
    };
    let empty = |r: Region| f.regions[r].insts.is_empty();
    data.op == Op::If
        && data.results.is_empty()
        && empty(then)
        && empty(otherwise)
        && matches!(f.regions[then].term, Term::Yield(_))
        && matches!(&f.regions[otherwise].term, Term::Continue(l, _) if *l == label)
}

/// The distances of neighbours along each axis in a scratchpad.
fn strides(pad: &Pad) -> Vec<i64> {
    let mut strides = Vec::new();
    let mut stride = 1;
    for extent in pad.extents().iter().rev() {
        strides.push(stride);
        stride *= *extent as i64;
    }
    strides.reverse();
    strides
}

/// Whether the loop may write what an instruction reads.
fn may_change(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    if data.op.effect() == Effect::Pure {
        return false;
    }
    let Some(read) = data.op.access() else {
        return true;
    };
    let mut changes = false;
    f.walk(|other| {
        let op = &f.insts[other].op;
        changes |=
            matches!(op, Op::Call(_)) || op.effect() == Effect::Writes && may_write(op, read);
    });
    changes
}

/// Whether an operation may write what is read. Operations on cells may change any field.
fn may_write(op: &Op, read: &Access) -> bool {
    let Some(written) = op.access() else {
        let says = matches!(op, Op::Print(_) | Op::Assert(_) | Op::CheckIndex(_));
        return !says && !matches!(op, Op::Cache(_) | Op::Random | Op::Report(_));
    };
    match (written.place, read.place) {
        // Arrays may overlap.
        (Place::Array(_), Place::Array(_)) => true,
        (written_to, read_from) => {
            let mut steps = written.path.iter().zip(&read.path);
            written_to == read_from && steps.all(|(a, b)| a == b)
        }
    }
}

/// Whether all components are floats that lanes can exchange.
fn is_float(m: &Env, ty: Type) -> bool {
    m.structs.flatten(ty).iter().all(|s| s.is_float())
}
