//! Parts of a kernel: kernels that do the same one after the other.
//!
//! The gradient kernel of a kernel reads the values from before it or those from after it. A kernel with several loops
//! may need others, which it overwrites itself. Its parts do not: a tape saves what one of them overwrites and another one needs.

use super::uses::{self, Uses};
use super::{CellUse, Derivatives, Keep, cells, normalize};
use crate::rewrite::sweep;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use wuji_ir::entities::{Func, Inst, Value};
use wuji_ir::module::{Function, Module, Span, Term};
use wuji_ir::ops::{AccessOp, Effect, OpClass, Place};
use wuji_ir::verify::verify;
use wuji_ir::{Error, Position, Result};

/// Splits a kernel into parts whose gradients need values from before or from after them only, as few as possible.
///
/// Parts take the parameters of the kernel; the last one gives its result. A kernel that needs no split is one part.
/// It is an error (W0706) if a loop overwrites what its own gradient needs, or if a later loop needs a
/// variable of an earlier one that cannot be computed again.
pub fn parts(module: &Module, adjoints: &Derivatives) -> Result<Vec<Module>> {
    let mut m = module.clone();
    normalize(&mut m)?;
    let Some(kernel) = m.kernel else {
        return Err(Error::new("W0330", format!("`{}` has no kernel", m.name)));
    };
    Keep::SameMeaning.apply(&mut m, kernel)?;
    let split = Split::new(&m, kernel, adjoints);
    let ranges = split.ranges()?;
    let count = ranges.len();
    let named = ranges.into_iter().enumerate().map(|(k, range)| {
        let mut part = split.module(range)?;
        if count > 1 {
            part.env.name = format!("{}.{k}", module.name);
        }
        verify(&part)?;
        Ok(part)
    });
    named.collect()
}

struct Split<'m> {
    m: &'m Module,
    kernel: Func,
    f: &'m Function,
    adjoints: &'m Derivatives,
    /// The instructions of the entry region that access memory or have another effect. A part is a range of them.
    anchors: Vec<Inst>,
    /// The number of the anchor that defines a value of the entry region.
    home: FxHashMap<Value, usize>,
}

impl<'m> Split<'m> {
    fn new(m: &'m Module, kernel: Func, adjoints: &'m Derivatives) -> Split<'m> {
        let f = &m.funcs[kernel];
        let entry = f.regions[f.entry].insts.iter().copied();
        let anchors: Vec<Inst> = entry.filter(|i| !is_pure(f, *i)).collect();
        let results = |(k, inst): (usize, &Inst)| {
            let results = f.insts[*inst].results.clone();
            results.into_iter().map(move |v| (v, k))
        };
        Split {
            home: anchors.iter().enumerate().flat_map(results).collect(),
            m,
            kernel,
            f,
            adjoints,
            anchors,
        }
    }

    /// The parts, each as long as possible.
    fn ranges(&self) -> Result<Vec<Range<usize>>> {
        let mut out = Vec::new();
        let mut start = 0;
        while start < self.anchors.len() {
            let end = self.end_of_part(start)?;
            out.push(start..end);
            start = end;
        }
        if out.is_empty() {
            out.push(0..0);
        }
        Ok(out)
    }

    /// Where the part that begins at an anchor ends.
    fn end_of_part(&self, start: usize) -> Result<usize> {
        let all = self.anchors.len();
        let mut longest = start + 1;
        while longest < all && self.is_free(start..longest + 1)? {
            longest += 1;
        }
        if longest == all {
            // Of a single loop, the error is that of its own.
            self.check(start..all)?;
            return Ok(all);
        }
        let ends = (start + 1..=longest).rev();
        let mut refused = None;
        for end in ends {
            match self.crossing(end) {
                None => {
                    self.check(start..end)?;
                    return Ok(end);
                }
                Some(inst) => refused = refused.or(Some(inst)),
            }
        }
        Err(self.refuse(start..longest + 1, refused))
    }

    /// Whether the gradient of a part needs values and cells of one time only.
    fn is_free(&self, range: Range<usize>) -> Result<bool> {
        match self.uses(range.clone()) {
            Ok(uses) => Ok(!uses.needs_both() && !self.needs_both_cells(range)?),
            Err(error) if error.code == "W0706" => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check(&self, range: Range<usize>) -> Result<()> {
        self.uses(range).map(|_| ())
    }

    fn uses(&self, range: Range<usize>) -> Result<Uses> {
        let f = self.function(range);
        match uses::of(self.m, &f, self.adjoints) {
            Ok(uses) if !uses.needs_both() => Ok(uses),
            found => self.uses_of_variables(f).or(found),
        }
    }

    /// The uses if the gradient keeps the elements of iterations in variables.
    fn uses_of_variables(&self, f: Function) -> Result<Uses> {
        let mut m = self.m.clone();
        m.set_func(self.kernel, f);
        Keep::SameGradient.apply(&mut m, self.kernel)?;
        uses::of(&m, &m.funcs[self.kernel], self.adjoints)
    }

    fn needs_both_cells(&self, range: Range<usize>) -> Result<bool> {
        if !self.m.trees.values().any(|t| t.is_sparse()) {
            return Ok(false);
        }
        let uses = cells::cell_uses(&self.module(range)?);
        // Loops that depend on active cells are apart from those that change them.
        let mixes = |u: &CellUse| {
            let activates = u.needs.is_some() && u.activates.is_some();
            activates || u.deactivates.is_some()
        };
        Ok(uses.iter().any(mixes))
    }

    /// The kernel with only the anchors of a part, and what they need of the code before.
    fn function(&self, range: Range<usize>) -> Function {
        let mut f = self.f.clone();
        let mut kept: FxHashSet<Inst> = self.anchors[range.clone()].iter().copied().collect();
        let is_last = range.end == self.anchors.len();
        let mut waiting: Vec<Value> = Vec::new();
        for inst in &kept {
            waiting.extend(used(&f, *inst));
        }
        let entry = f.entry;
        if is_last {
            waiting.extend(f.regions[entry].term.args());
        } else {
            f.regions[entry].term = Term::Return(Default::default());
            f.results.clear();
        }
        while let Some(v) = waiting.pop() {
            if let Some(inst) = f.def(v)
                && f.regions[entry].insts.contains(&inst)
                && kept.insert(inst)
            {
                waiting.extend(used(&f, inst));
            }
        }
        f.regions[entry].insts.retain(|i| kept.contains(i));
        sweep(&mut f);
        f.compacted()
    }

    fn module(&self, range: Range<usize>) -> Result<Module> {
        let mut part = self.m.clone();
        part.set_func(self.kernel, self.function(range));
        Ok(part)
    }

    /// An anchor before a cut that code behind it depends on, and that cannot run again there.
    fn crossing(&self, cut: usize) -> Option<Inst> {
        let behind = &self.anchors[cut..];
        let mut waiting: Vec<Value> = behind.iter().flat_map(|i| used(self.f, *i)).collect();
        waiting.extend(self.f.regions[self.f.entry].term.args());
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        while let Some(v) = waiting.pop() {
            if !seen.insert(v) {
                continue;
            }
            let Some(inst) = self.f.def(v) else {
                continue;
            };
            if let Some(home) = self.home.get(&v).copied()
                && home < cut
                && !self.can_load_again(home, cut)
            {
                return Some(inst);
            }
            waiting.extend(used(self.f, inst));
        }
        let temps = |list: &[Inst]| -> FxHashSet<Place> {
            let inside = list.iter().flat_map(|i| subtree(self.f, *i));
            let places = inside.filter_map(|i| self.f.insts[i].op.access().map(|a| a.place));
            places.filter(|p| matches!(p, Place::Temp(_))).collect()
        };
        let (before, after) = (temps(&self.anchors[..cut]), temps(behind));
        let shared = self.anchors[..cut].iter().find(|i| {
            let own = temps(std::slice::from_ref(*i));
            own.intersection(&after).any(|t| before.contains(t))
        });
        shared.copied()
    }

    /// Whether an anchor is a load of a value that is the same at a cut.
    fn can_load_again(&self, home: usize, cut: usize) -> bool {
        let inst = self.anchors[home];
        let OpClass::Access(AccessOp::Load, access) = self.f.insts[inst].op.class() else {
            return false;
        };
        let between = self.anchors[home..cut].iter();
        let mut between = between.flat_map(|i| subtree(self.f, *i));
        !between.any(|i| {
            let op = &self.f.insts[i].op;
            let written = op.written_access().map(|a| a.place);
            let changes = match (written, access.place) {
                // Arrays may overlap.
                (Some(Place::Array(_)), Place::Array(_)) => true,
                (Some(written), place) => written == place,
                (None, _) => false,
            };
            changes || op.callee().is_some() || matches!(op.class(), OpClass::Cell(..))
        })
    }

    /// The error of a part that needs values from before and after it, and that cannot be split.
    fn refuse(&self, range: Range<usize>, crossing: Option<Inst>) -> Error {
        let position = |span: Span| Position::of(&self.m.env, span);
        let mut error = match self.uses(range).map(|uses| uses.both()) {
            Err(error) => error,
            Ok(both) => {
                let name =
                    both.map_or_else(|| "a field".to_owned(), |b| uses::name_of(self.m, b.0));
                let kernel = &self.m.name;
                let what = format!(
                    "kernel `{kernel}` overwrites values of {name} that its gradient needs"
                );
                let error = Error::new("W0706", what);
                match both.map(|b| b.1.map(position)) {
                    Some([Some(old), new]) => error
                        .at(new)
                        .note(format!("the value from before is needed at {old}")),
                    Some([None, _]) | None => error,
                }
            }
        };
        if let Some(inst) = crossing {
            let at = position(self.f.spans[inst]);
            let at = at.map_or_else(String::new, |at| format!(" of {at}"));
            error = error.note(format!(
                "it cannot be split there: its second part needs a variable{at}"
            ));
            error = error.help(
                "keep the variable in a field without axes, so that a tape can split the kernel",
            );
        }
        error
    }
}

/// Whether an instruction and all inside of it can run again anywhere.
fn is_pure(f: &Function, inst: Inst) -> bool {
    subtree(f, inst).all(|i| {
        let op = &f.insts[i].op;
        match op.effect() {
            Effect::Pure => true,
            Effect::Reads | Effect::Writes => false,
            Effect::Control => op.callee().is_none(),
        }
    })
}

fn subtree(f: &Function, inst: Inst) -> impl Iterator<Item = Inst> {
    let inside = f.insts[inst].regions.iter().flat_map(|r| f.insts_in(*r));
    std::iter::once(inst).chain(inside)
}

/// The values that an instruction and all inside of it use.
fn used(f: &Function, inst: Inst) -> Vec<Value> {
    let mut out = Vec::new();
    for i in subtree(f, inst) {
        out.extend(f.insts[i].args.iter().copied());
        for r in &f.insts[i].regions {
            out.extend(f.regions[*r].term.args().iter().copied());
        }
    }
    out
}
