//! Accesses as calls: the baseline without the rest of this pass.
//!
//! With the switch `access_lowering` off, every access of a field is a call of an *accessor*, a function that
//! checks the indices and follows the path from the root to the element, regardless of the surrounding code. Our
//! passes neither merge nor move these calls; a backend inlines and optimizes them. So the difference between the
//! switch on and off is the benefit of lowering accesses here.

use super::path::AccessMode;
use super::{Lower, Masked};
use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::rewrite::{Structure, Substitution};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Func, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, I64, Type};

/// The key of an accessor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Accessor {
    field: Field,
    path: SmallVec<[Step; 2]>,
    /// Of the indices, and of run-time steps of the path.
    types: Vec<Type>,
    mode: AccessMode,
    guard: Guard,
}

/// The accessors made so far.
pub(super) type Accessors = FxHashMap<Accessor, Func>;

/// The results of a call of an accessor.
struct Found {
    /// The indices that were passed.
    args: Values,
    /// A valid element, even if the indices are out of range.
    offset: Value,
    /// Whether the indices are in range; `None` if they are known to be.
    inside: Option<Value>,
    /// Whether the element is active; `None` if it is, or if that does not matter.
    there: Option<Value>,
}

impl Lower<'_> {
    /// An access of a field through its accessor. Returns its result, if it has one.
    pub(super) fn called_access(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        index_args: &[Value],
        operands: &[Value],
    ) -> Option<Value> {
        let found = self.find(op, access, index_args)?;
        if let Op::Load(_) = op {
            let value = self.emit(op, access, ty, found.offset, operands)?;
            let Some(inside) = found.inside else {
                return Some(value);
            };
            if self.check_reads {
                let rank = index_args.len() - access.dynamic_steps();
                self.when(
                    inside,
                    None,
                    |_| None,
                    |s| s.report_numbers(op, access.place, &found.args[..rank]),
                );
            }
            let zero = self.b.zero(ty);
            return Some(self.b.select(inside, value, zero));
        }
        let result = (!matches!(op, Op::Store(_))).then_some(ty);
        let place = access.place;
        let rank = index_args.len() - access.dynamic_steps();
        let write = |s: &mut Self| match found.there {
            None => s.emit(op, access, ty, found.offset, operands),
            Some(there) => s.when(
                there,
                result,
                |s| s.emit(op, access, ty, found.offset, operands),
                |_| {},
            ),
        };
        match found.inside {
            None => write(self),
            Some(inside) => self.when(inside, result, write, |s| {
                s.report_numbers(op, place, &found.args[..rank]);
            }),
        }
    }

    fn report_numbers(&mut self, op: &Op, place: Place, indices: &[Value]) {
        let numbers: Values = indices.iter().map(|v| self.widen(*v).0).collect();
        self.report(self.outside(op, place), &numbers);
    }

    /// Calls the accessor.
    fn find(&mut self, op: &Op, access: &Access, index_args: &[Value]) -> Option<Found> {
        let Place::Field(field) = access.place else {
            return None;
        };
        let mut args = Values::new();
        for v in index_args {
            // The accessor must compare the indices that its path uses.
            args.push(if self.affine.is_steady(*v) {
                *v
            } else {
                self.b.unary(UnOp::Freeze, *v)
            });
        }
        let key = Accessor {
            field,
            path: access.path.iter().copied().collect(),
            types: args.iter().map(|v| self.b.func.ty(*v)).collect(),
            mode: if self.is_sparse(field) {
                AccessMode::of(op, access)
            } else {
                AccessMode::Read
            },
            guard: match index_args {
                [] => Guard::InBounds,
                _ => access.guard,
            },
        };
        let func = self.accessor(key.clone(), access)?;
        let call = self.b.push(Op::Call(func), &args);
        let mut results = self.b.func.insts[call].results.clone().into_iter();
        Some(Found {
            args,
            offset: results.next()?,
            inside: key.guard.is_checked().then(|| results.next()).flatten(),
            there: (key.mode != AccessMode::Read)
                .then(|| results.next())
                .flatten(),
        })
    }

    /// The accessor for a kind of access, made when it is first needed.
    fn accessor(&mut self, key: Accessor, access: &Access) -> Option<Func> {
        if let Some(func) = self.accessors.as_ref()?.get(&key) {
            return Some(*func);
        }
        let mut name = format!("{:?}.{}", key.mode, key.field).to_lowercase();
        for step in &key.path {
            match step {
                Step::Const(k) => name.push_str(&format!(".{k}")),
                Step::Dynamic => name.push_str(".[]"),
            }
        }
        let mut results = vec![I64];
        results.extend(key.guard.is_checked().then_some(BOOL));
        results.extend((key.mode != AccessMode::Read).then_some(BOOL));
        let mut f = Function::new(name, &key.types, &results);
        f.traits.inline = true;
        let before = f.clone();
        let structure = Structure::of(&before);
        let mut inner = Lower {
            b: Builder::new(self.b.env, &mut f),
            affine: AffineAnalysis::new(&before, &structure),
            memory: self.memory,
            entries: Vec::new(),
            visible: Vec::new(),
            neighbours_wanted: false,
            losing: Vec::new(),
            appended: FxHashMap::default(),
            chunk: None,
            changing: Vec::new(),
            neighbours: FxHashMap::default(),
            temps: self.temps,
            accessors: None,
            subst: Substitution::new(),
            check_reads: false,
        };
        let values = inner.accessor_body(&key, access, before.params());
        inner.b.end(Term::Return(values));
        let func = self.b.env.add(f);
        self.accessors.as_mut()?.insert(key, func);
        Some(func)
    }

    fn accessor_body(&mut self, key: &Accessor, access: &Access, params: &[Value]) -> Values {
        if key.guard == Guard::InBounds {
            let limits = self.limits(access);
            let exprs: Vec<Affine> = params
                .iter()
                .zip(limits)
                .map(|(v, limit)| self.index_form(*v, limit))
                .collect();
            return self.located(key, access, &exprs);
        }
        let masked = self.mask(access, params);
        let mut values = match key.mode {
            // An out-of-range access activates nothing.
            AccessMode::Activate => self.located_inside(key, access, &masked),
            AccessMode::Read | AccessMode::Test => {
                let starts = self.starts(access);
                let safe = self.safe_indices(&masked, &starts);
                self.located(key, access, &safe)
            }
        };
        values.insert(1, masked.inside);
        values
    }

    /// The offset of an element whose indices are in range and, where it matters, whether it is active.
    fn located(&mut self, key: &Accessor, access: &Access, exprs: &[Affine]) -> Values {
        if !self.is_sparse(key.field) {
            return [self.offset(access, exprs)].into_iter().collect();
        }
        let (at, there) = self.sparse_offset(access, key.field, exprs, key.mode);
        let mut values: Values = [self.materialize(&at)].into_iter().collect();
        if key.mode != AccessMode::Read {
            values.push(there.unwrap_or_else(|| self.b.bool(true)));
        }
        values
    }

    /// The same if the indices are in range; otherwise the element counts as inactive.
    fn located_inside(&mut self, key: &Accessor, access: &Access, masked: &Masked) -> Values {
        let branch = self.b.push_typed(Op::If, &[masked.inside], &[I64, BOOL]);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let values = self.located(key, access, &masked.indices);
        self.b.end(Term::Yield(values));
        self.b.region = no;
        let none: Values = [self.b.i64(0), self.b.bool(false)].into_iter().collect();
        self.b.end(Term::Yield(none));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
        self.b.func.insts[branch].results.iter().copied().collect()
    }
}
