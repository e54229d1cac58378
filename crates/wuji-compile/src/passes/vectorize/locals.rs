//! The roles of locals in a loop: private to a lane, shared by all lanes, or a reduction.

use crate::rewrite::Structure;
use rustc_hash::FxHashMap;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Private to an iteration.
    Private,
    /// All iterations read it, or store the same value.
    Shared,
    /// Iterations combine values by a commutative operation.
    Sum(BinOp),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Roles(FxHashMap<Local, Role>);

impl Roles {
    pub(super) fn of(&self, local: Local) -> Role {
        self.0.get(&local).copied().unwrap_or(Role::Shared)
    }

    pub(super) fn sums(&self) -> impl Iterator<Item = (Local, BinOp)> + '_ {
        self.0.iter().filter_map(|(l, r)| match r {
            Role::Sum(op) => Some((*l, *op)),
            Role::Private | Role::Shared => None,
        })
    }

    /// The roles of the locals of a loop, or the reason why it cannot be vectorized.
    pub(super) fn find(f: &Function, structure: &Structure, body: Region) -> Result<Roles, String> {
        let mut roles = Roles::default();
        let mut inside: FxHashMap<Local, Vec<Inst>> = FxHashMap::default();
        let mut elsewhere: FxHashMap<Local, bool> = FxHashMap::default();
        f.walk(|inst| {
            let Some(local) = local_of(&f.insts[inst].op) else {
                return;
            };
            let Some(region) = structure.region_of[inst].expand() else {
                return;
            };
            if structure.is_inside(region, body) {
                inside.entry(local).or_default().push(inst);
            } else if !in_iteration(f, structure, region) {
                elsewhere.insert(local, true);
            }
        });
        for (local, insts) in inside {
            let data = &f.locals[local];
            let role = if data.role == LocalRole::Accumulator && data.len.is_none() {
                let why = || format!("`{}` is not a plain sum", data.name);
                Role::Sum(combination(f, local, &insts).ok_or_else(why)?)
            } else if !elsewhere.contains_key(&local) {
                if data.role == LocalRole::Scratchpad {
                    return Err(
                        "its iterations are blocks, and the inner ones share a scratchpad".into(),
                    );
                }
                Role::Private
            } else {
                shared(f, local, &insts)?
            };
            roles.0.insert(local, role);
        }
        Ok(roles)
    }
}

pub(super) fn local_of(op: &Op) -> Option<Local> {
    match op.access()?.place {
        Place::Local(l) => Some(l),
        Place::Field(_) | Place::Array(_) | Place::Temp(_) => None,
    }
}

/// Whether a region is part of one iteration: it is in an innermost loop over iterations. (Serial loops inside an
/// iteration may be `for.boundary`, too.)
fn in_iteration(f: &Function, structure: &Structure, mut region: Region) -> bool {
    while let Some(owner) = structure.owner[region].expand() {
        if is_iteration_loop(f, owner) {
            return !has_iteration_loop(f, f.insts[owner].regions[0]);
        }
        match structure.region_of[owner].expand() {
            Some(r) => region = r,
            None => return false,
        }
    }
    false
}

pub(super) fn is_iteration_loop(f: &Function, inst: Inst) -> bool {
    matches!(
        f.insts[inst].op,
        Op::For(_, ForKind::Parallel | ForKind::Boundary)
    )
}

/// Whether a region contains a parallel loop.
pub(super) fn has_iteration_loop(f: &Function, region: Region) -> bool {
    f.regions[region].insts.iter().any(|i| {
        matches!(f.insts[*i].op, Op::For(_, ForKind::Parallel))
            || f.insts[*i]
                .regions
                .iter()
                .any(|r| has_iteration_loop(f, *r))
    })
}

fn shared(f: &Function, local: Local, insts: &[Inst]) -> Result<Role, String> {
    let data = &f.locals[local];
    let reads = insts.iter().any(|i| matches!(f.insts[*i].op, Op::Load(_)));
    let writes = insts.iter().any(|i| !matches!(f.insts[*i].op, Op::Load(_)));
    if writes && (reads || data.len.is_some() || data.role == LocalRole::Scratchpad) {
        return Err(format!(
            "`{}` carries a value from one iteration to the next",
            data.name
        ));
    }
    Ok(Role::Shared)
}

/// The operation of all updates of an accumulator.
fn combination(f: &Function, local: Local, insts: &[Inst]) -> Option<BinOp> {
    let mut found = None;
    for inst in insts {
        let data = &f.insts[*inst];
        let Op::Store(_) = data.op else { continue };
        let op = update(f, local, data.args[0], 16)?;
        if found.is_some_and(|f| f != op) {
            return None;
        }
        found = Some(op);
    }
    found
}

/// The operation of a chain from the accumulator to a value.
fn update(f: &Function, local: Local, value: Value, depth: u32) -> Option<BinOp> {
    let data = &f.insts[f.def(value)?];
    let Op::Binary(op) = data.op else { return None };
    let commutes = matches!(
        op,
        BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or | BinOp::Xor
    );
    let leads = |v: &Value| {
        let Some(def) = f.def(*v).map(|d| &f.insts[d].op) else {
            return false;
        };
        let again = *def == Op::Binary(op) && depth > 0;
        matches!(def, Op::Load(_)) && local_of(def) == Some(local)
            || again && update(f, local, *v, depth - 1) == Some(op)
    };
    (commutes && data.args.iter().any(leads)).then_some(op)
}
