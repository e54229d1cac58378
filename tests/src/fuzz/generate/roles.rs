//! The permitted accesses of a parallel loop to each place.

use super::sparse::Topology;
use super::{Generator, PlaceInfo};
use wuji_ir::entities::{Field, Value};
use wuji_ir::infer;
use wuji_ir::ops::{AtomicOp, Step};
use wuji_ir::types::{Scalar, Type};

/// The permitted operations at a point of the code.
#[derive(Clone, Debug)]
pub(super) enum Rights {
    /// Everything: the code is serial.
    All,
    /// By group of places, and by tree.
    Groups(Vec<Role>, Vec<Topology>),
}

/// How the iterations of a loop use a group of places.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Role {
    Untouched,
    /// Reads anywhere.
    Read,
    /// Reads and writes, in the iteration's own part of the place.
    Own(Own),
    /// One commutative atomic operation, anywhere; the old value is unused.
    Atomic(AtomicOp),
    /// Stores of one value by all iterations, anywhere in one place, by one path.
    Same(usize, Vec<Step>, Value),
    /// A role for each component of the element.
    Components(Vec<Role>),
}

/// The part of a place that one iteration owns.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Own {
    /// The index of the place, the first of its twins.
    pub(super) place: usize,
    pub(super) axes: Vec<OwnAxis>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum OwnAxis {
    /// `offset + scale * index` in some integer type.
    Index {
        index: usize,
        scale: i64,
        offset: i64,
        ty: Scalar,
    },
    /// Any index: other axes separate the iterations.
    Free,
}

/// The operations that a role allows for one access.
pub(super) enum Allowed<'a> {
    Nothing,
    Read,
    Anything,
    Own(&'a Own),
    Atomic(AtomicOp),
    Same(Value),
}

impl Rights {
    pub(super) fn at(&self, info: &PlaceInfo, number: usize, path: &[Step]) -> Allowed<'_> {
        match self {
            Rights::All => Allowed::Anything,
            Rights::Groups(roles, _) => roles[info.group].at(info, number, path),
        }
    }

    /// Whether code with `other` rights may run here.
    pub(super) fn cover(&self, other: &Rights) -> bool {
        match (self, other) {
            (Rights::All, _) => true,
            (Rights::Groups(..), Rights::All) => false,
            (Rights::Groups(have, have_trees), Rights::Groups(want, want_trees)) => {
                let mut places = have.iter().zip(want);
                let mut trees = have_trees.iter().zip(want_trees);
                places.all(|(h, w)| *w == Role::Untouched || h == w)
                    && trees.all(|(h, w)| *w == Topology::Untouched || h == w)
            }
        }
    }

    /// The rights of a function that is called from here: it does not depend on the loop.
    pub(super) fn for_function(&self) -> Rights {
        match self {
            Rights::All => Rights::All,
            Rights::Groups(roles, trees) => Rights::Groups(
                roles
                    .iter()
                    .map(|role| match role {
                        Role::Read | Role::Atomic(_) => role.clone(),
                        Role::Untouched | Role::Own(_) | Role::Same(..) | Role::Components(_) => {
                            Role::Untouched
                        }
                    })
                    .collect(),
                trees
                    .iter()
                    .map(|tree| match tree {
                        Topology::OwnCell(_) => Topology::Untouched,
                        Topology::Untouched
                        | Topology::Frozen
                        | Topology::Growing
                        | Topology::Appending(_)
                        | Topology::Shrinking => tree.clone(),
                    })
                    .collect(),
            ),
        }
    }
}

impl Role {
    fn at(&self, info: &PlaceInfo, number: usize, path: &[Step]) -> Allowed<'_> {
        match self {
            Role::Untouched => Allowed::Nothing,
            Role::Read => Allowed::Read,
            Role::Own(own) if own.place == info.twin => Allowed::Own(own),
            Role::Own(_) => Allowed::Nothing,
            Role::Atomic(op) => Allowed::Atomic(*op),
            Role::Same(place, at, value) if *place == number && at[..] == *path => {
                Allowed::Same(*value)
            }
            Role::Same(..) => Allowed::Nothing,
            Role::Components(roles) => match path.first() {
                Some(Step::Const(k)) => roles[*k as usize].at(info, number, path),
                Some(Step::Dynamic) | None => Allowed::Nothing,
            },
        }
    }
}

/// Whether an atomic on a type has the same result in any order.
pub(super) fn commutes(g: &Generator, op: AtomicOp, ty: Type, tally: bool) -> bool {
    let scalars = g.m.structs.flatten(ty);
    !scalars.is_empty()
        && scalars.into_iter().all(|s| {
            let float_sum = s.is_float() && matches!(op, AtomicOp::Add | AtomicOp::Mul);
            infer::atomic(op, s).is_ok() && (!float_sum || tally)
        })
}

impl Generator<'_> {
    /// Roles for a loop with the given indices.
    pub(super) fn roles(&mut self, indices: &[(Value, i64, i64)], over: Option<Field>) -> Rights {
        let mut roles = Vec::new();
        for group in 0..self.groups {
            let members: Vec<usize> = (0..self.places.len())
                .filter(|p| self.places[*p].group == group)
                .collect();
            let number = *self.dice.pick(&members);
            let split = members.len() == 1
                && self.m.structs.arity(self.places[number].elem) > 1
                && !self.shares_exponents(self.places[number].place)
                && self.dice.chance(25);
            let role = if split {
                let arity = self.m.structs.arity(self.places[number].elem);
                let roles = (0..arity)
                    .map(|k| self.role(number, Some(k), indices))
                    .collect();
                Role::Components(roles)
            } else {
                self.role(number, None, indices)
            };
            roles.push(role);
        }
        let trees = self.topologies(&mut roles, over, indices);
        Rights::Groups(roles, trees)
    }

    fn role(
        &mut self,
        number: usize,
        component: Option<u32>,
        indices: &[(Value, i64, i64)],
    ) -> Role {
        let info = self.places[number].clone();
        let prefix: Vec<Step> = component.map(Step::Const).into_iter().collect();
        let choice = if info.writable {
            self.dice.weighted(&[1, 5, 8, 5, 1])
        } else {
            self.dice.weighted(&[1, 5, 0, 0, 0])
        };
        match choice {
            0 => Role::Untouched,
            1 => Role::Read,
            2 if info.distinct => match self.own(number, indices) {
                Some(own) => Role::Own(own),
                None => Role::Read,
            },
            2 | 3 => {
                let under: Vec<Type> = info
                    .paths
                    .iter()
                    .filter(|(path, _)| path.starts_with(&prefix))
                    .map(|(_, ty)| *ty)
                    .collect();
                let ops: Vec<AtomicOp> = AtomicOp::ALL
                    .iter()
                    .copied()
                    .filter(|op| *op != AtomicOp::Exchange)
                    // Minima and maxima of numbers that are stored without their high bits depend on the order.
                    .filter(|op| {
                        let orders = matches!(op, AtomicOp::Min | AtomicOp::Max);
                        !orders || !self.is_packed(info.place)
                    })
                    .filter(|op| self.packed_commutes(info.place, *op))
                    .filter(|op| under.iter().any(|t| commutes(self, *op, *t, info.tally)))
                    .collect();
                if ops.is_empty() {
                    Role::Read
                } else if ops.contains(&AtomicOp::Add) && self.dice.chance(50) {
                    Role::Atomic(AtomicOp::Add)
                } else {
                    Role::Atomic(*self.dice.pick(&ops))
                }
            }
            _ if !info.distinct => Role::Untouched,
            _ => {
                let paths: Vec<(Vec<Step>, Type)> = info
                    .paths
                    .into_iter()
                    .filter(|(path, _)| path.starts_with(&prefix))
                    .filter(|(path, _)| !path.contains(&Step::Dynamic))
                    .collect();
                let (path, ty) = self.dice.pick(&paths).clone();
                let value = self.storable(ty, info.tally, 1);
                Role::Same(number, path, value)
            }
        }
    }

    /// Rows of a place for the iterations of a loop, if every iteration can own one.
    fn own(&mut self, number: usize, indices: &[(Value, i64, i64)]) -> Option<Own> {
        let info = self.places[number].clone();
        let rank = info.domain.len();
        if rank < indices.len() {
            return None;
        }
        let mut order: Vec<usize> = (0..rank).collect();
        if self.dice.chance(30) {
            self.dice.shuffle(&mut order);
        }
        let mut axes = vec![OwnAxis::Free; rank];
        for (index, (value, lo, hi)) in indices.iter().enumerate() {
            let axis = order[index];
            let from = info.domain[axis].0;
            let own = self.ty(*value).as_scalar().unwrap_or(Scalar::I64);
            let wide = [Scalar::I64, Scalar::I32, Scalar::I64, Scalar::U64];
            let ty = if self.dice.chance(60) {
                own
            } else {
                *self.dice.pick(&wide)
            };
            // Narrowing would make rows overlap.
            let ty = if ty.bits() < own.bits() { own } else { ty };
            let near = self.dice.between(-2, 2) * i64::from(self.dice.chance(40));
            let (scale, offset) = match self.dice.weighted(&[10, 2, 1]) {
                0 => (1, from.wrapping_sub(*lo)),
                1 => (-1, from.wrapping_add(*hi)),
                _ if ty == Scalar::I64 && lo.unsigned_abs() < 1 << 40 => {
                    (2, from.wrapping_sub(2 * lo))
                }
                _ => (1, 0),
            };
            axes[axis] = OwnAxis::Index {
                index,
                scale,
                offset: offset.wrapping_add(near),
                ty,
            };
        }
        Some(Own {
            place: info.twin,
            axes,
        })
    }
}
