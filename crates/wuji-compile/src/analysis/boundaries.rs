//! Arguments that the boundaries in indices depend on: `n` in `(i + 1) % n`, in `min(i + 1, n - 1)`, and in
//! `i + 1 if i + 1 < n else 0`.

use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Local, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{AccessOp, BinOp, ControlOp, ElementwiseOp, OpClass, Place, QueryOp};
use wuji_ir::types::Scalar;

/// The arguments of a kernel before any pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Boundaries {
    /// Integer parameters, by number.
    pub params: Vec<u32>,
    /// Whether extents of arrays are among them.
    pub extents: bool,
}

/// The arguments that boundaries in the indices of a kernel depend on.
pub fn boundaries(f: &Function) -> Boundaries {
    let mut slice = Slice {
        f,
        structure: Structure::of(f),
        stores: FxHashMap::default(),
        seen: FxHashSet::default(),
        work: Vec::new(),
        found: Boundaries::default(),
    };
    for inst in f.insts_in(f.entry) {
        slice.add_access(inst);
    }
    while let Some((v, behind)) = slice.work.pop() {
        if slice.seen.insert((v, behind)) {
            slice.visit(v, behind);
        }
    }
    slice.found.params.sort_unstable();
    slice.found.params.dedup();
    slice.found
}

/// The values that indices are computed from. Each is visited twice at most: as a summand, and behind a boundary.
struct Slice<'f> {
    f: &'f Function,
    structure: Structure,
    stores: FxHashMap<Local, Vec<Inst>>,
    seen: FxHashSet<(Value, bool)>,
    work: Vec<(Value, bool)>,
    found: Boundaries,
}

impl Slice<'_> {
    /// Adds the indices of an access, or a store to a local variable.
    fn add_access(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        let OpClass::Access(op, access) = data.op.class() else {
            return;
        };
        match access.place {
            Place::Local(local) => {
                if op == AccessOp::Store {
                    self.stores.entry(local).or_default().push(inst);
                }
            }
            Place::Field(_) | Place::Array(_) => {
                let indices = data.args.len() - op.operands();
                self.add(&data.args[..indices], false);
            }
            Place::Temp(_) => {}
        }
    }

    fn add(&mut self, values: &[Value], behind: bool) {
        self.work.extend(values.iter().map(|v| (*v, behind)));
    }

    fn visit(&mut self, v: Value, behind: bool) {
        let f = self.f;
        if let Some(p) = f.params().iter().position(|p| *p == v) {
            if behind && f.ty(v).as_scalar().is_some_and(Scalar::is_int) {
                self.found.params.push(p as u32);
            }
            return;
        }
        let Some(def) = f.def(v) else {
            return;
        };
        let data = &f.insts[def];
        match data.op.class() {
            // The divisor only, so that `t % 2` does not depend on `t`.
            OpClass::Elementwise(ElementwiseOp::Binary(BinOp::Rem)) => {
                self.add(&data.args[..1], behind);
                self.add(&data.args[1..], true);
            }
            OpClass::Elementwise(op) => self.add(&data.args, behind || is_boundary(op)),
            OpClass::Component(_) | OpClass::Reduce(_) | OpClass::Algebra(_) | OpClass::Hint(_) => {
                self.add(&data.args, behind);
            }
            OpClass::Query(QueryOp::ArrayExtent(..)) => self.found.extents |= behind,
            OpClass::Access(AccessOp::Load, access) => {
                if let Place::Local(local) = access.place {
                    self.visit_local(local, behind);
                }
            }
            OpClass::Control(ControlOp::If) => self.visit_if(def, v),
            OpClass::Call(_) => self.add(&data.args, true),
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => {}
        }
    }

    /// A variable with several values has a boundary in the conditions under which it is stored.
    fn visit_local(&mut self, local: Local, behind: bool) {
        let stores = self.stores.get(&local).cloned().unwrap_or_default();
        let behind = behind || stores.len() > 1;
        for store in &stores {
            self.add(&self.f.insts[*store].args, behind);
            if stores.len() > 1 {
                self.add_conditions(*store);
            }
        }
    }

    fn add_conditions(&mut self, inst: Inst) {
        let mut parent = self.structure.parent(inst);
        while let Some(inst) = parent {
            let data = &self.f.insts[inst];
            if let OpClass::Control(ControlOp::If) = data.op.class() {
                self.add(&data.args, true);
            }
            parent = self.structure.parent(inst);
        }
    }

    /// A result of a branch.
    fn visit_if(&mut self, inst: Inst, v: Value) {
        let f = self.f;
        let data = &f.insts[inst];
        self.add(&data.args, true);
        let number = data.results.iter().position(|r| *r == v);
        for region in &data.regions {
            let yielded = number.and_then(|k| f.regions[*region].term.args().get(k));
            self.work.extend(yielded.map(|v| (*v, true)));
        }
    }
}

/// Whether an operation chooses between an index inside and one at a boundary.
fn is_boundary(op: ElementwiseOp) -> bool {
    matches!(
        op,
        ElementwiseOp::Binary(BinOp::Min | BinOp::Max)
            | ElementwiseOp::Compare(_)
            | ElementwiseOp::Select
    )
}
