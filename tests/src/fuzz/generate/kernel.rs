//! The kernel: parallel loops with serial code between them.

use super::roles::{Rights, Role};
use super::{Body, Generator, JumpTarget, JumpTargetKind, PlaceInfo};
use wuji_ir::entities::{Array, Value};
use wuji_ir::module::{Function, Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// The approximate limit of iterations per loop.
const MOST_POINTS: i64 = 400;

impl Generator<'_> {
    pub(super) fn kernel(&mut self) {
        let params: Vec<Type> = self.m.params.iter().map(|p| p.ty).collect();
        let results: Vec<Type> = if self.dice.chance(40) && !self.waits {
            vec![self.any_type()]
        } else {
            Vec::new()
        };
        self.body = Body::new(Function::new("kernel", &params, &results));
        self.body.in_kernel = true;
        let loops = *self.dice.pick(&[1, 1, 1, 1, 2, 2, 3, 4]);
        let mut falls = true;
        for _ in 0..loops {
            falls = self.serial();
            if !falls {
                break;
            }
            self.foreach();
        }
        if falls {
            falls = self.serial();
        }
        self.budget = 10;
        let term = if falls {
            let values: Vec<Value> = results.into_iter().map(|t| self.value(t, 2)).collect();
            Term::Return(values.into_iter().collect())
        } else {
            Term::Unreachable
        };
        self.b().end(term);
        let body = std::mem::replace(&mut self.body, Body::new(Function::new("", &[], &[])));
        self.m.kernel = Some(self.m.add_func(body.f));
    }

    fn serial(&mut self) -> bool {
        self.budget = self.size * self.dice.between(2, 8);
        // A local array is used in one part of serial code only.
        self.body.arrays.clear();
        let count = self.dice.below(3 + self.size as usize);
        self.statements(count)
    }

    fn foreach(&mut self) {
        let over_field = self.dice.chance(45);
        let (domain, args, indices) = if over_field {
            self.field_domain()
        } else {
            self.range_domain()
        };
        let over = match domain {
            Domain::Field(field) => Some(field),
            Domain::Range { .. } => None,
        };
        // Active cells are unordered.
        let serial = self.dice.chance(18) && !over.is_some_and(|f| self.is_sparse(f));
        let hints = LoopHints {
            simd: [None, None, None, Some(true), Some(false)][self.dice.between(0, 4) as usize],
            block_size: self
                .dice
                .chance(15)
                .then(|| self.dice.between(1, 70) as u32),
            serial,
            grain_size: None,
            cooperative: false,
            blocks: false,
            uncounted: false,
        };
        let label = self.body.f.fresh_label();
        let types: Vec<Type> = indices.iter().map(|i| Type::Scalar(i.0)).collect();
        // The roles need the loop's indices, and values from before the loop.
        let region = self.body.f.add_region(&types);
        let params = self.body.f.regions[region].params.clone();
        let indices: Vec<(Value, i64, i64)> = params
            .iter()
            .zip(&indices)
            .map(|(v, (_, lo, hi))| (*v, *lo, *hi))
            .collect();
        self.budget = 20;
        let rights = if serial {
            Rights::All
        } else {
            self.roles(&indices, over)
        };
        let inst = self
            .b()
            .push_typed(Op::ForEach(label, domain, hints), &args, &[]);
        self.body.f.insts[inst].regions.push(region);

        let outer_region = std::mem::replace(&mut self.body.region, region);
        let outer_rights = std::mem::replace(&mut self.body.rights, rights);
        let outer_indices = std::mem::replace(&mut self.body.indices, indices);
        let outer_variables = self.body.variables.clone();
        let outer_arrays = std::mem::take(&mut self.body.arrays);
        let visible = self.body.visible.len();
        for v in &mut self.body.variables {
            v.1 = false;
        }
        self.body.visible.extend(&params);
        self.body.may_return = false;
        self.body.in_kernel = !serial;
        self.body.targets.push(JumpTarget {
            label,
            kind: JumpTargetKind::ForEach,
        });
        self.body.nesting += 1;

        if self.dice.chance(50) {
            self.cache();
        }
        self.budget = self.size * self.dice.between(5, 20);
        let count = self.dice.between(1, 3 + self.size) as usize;
        let mut falls = self.statements(count);
        if falls {
            self.budget = self.budget.max(12);
            falls = self.statements(1);
            if falls {
                self.write();
            }
        }
        let term = if falls {
            Term::Continue(label, Values::new())
        } else {
            Term::Unreachable
        };
        self.b().end(term);

        self.body.nesting -= 1;
        self.body.targets.pop();
        self.body.in_kernel = true;
        self.body.may_return = true;
        self.body.visible.truncate(visible);
        self.body.arrays = outer_arrays;
        self.body.variables = outer_variables;
        self.body.indices = outer_indices;
        self.body.rights = outer_rights;
        self.body.region = outer_region;
        // Serial code after the loop needs new local arrays.
        self.body.arrays.clear();
    }

    /// A cache hint: mostly for a field that the loop reads or adds to.
    fn cache(&mut self) {
        let useful = |info: &&PlaceInfo| match &self.body.rights {
            Rights::All => true,
            Rights::Groups(roles, _) => {
                matches!(roles[info.group], Role::Read | Role::Atomic(AtomicOp::Add))
            }
        };
        let field = |info: &PlaceInfo| match info.place {
            Place::Field(field) => Some(field),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
        };
        let hot = self.hot.iter().map(|h| &self.places[*h]);
        let mut fields: Vec<_> = hot.filter(useful).filter_map(field).collect();
        if fields.is_empty() || self.dice.chance(30) {
            fields = self
                .places
                .iter()
                .filter(useful)
                .filter_map(field)
                .collect();
        }
        if fields.is_empty() {
            fields = self.m.fields.keys().collect();
        }
        let field = *self.dice.pick(&fields);
        self.b().push(Op::Cache(field), &[]);
    }

    /// All cells of a field; the types and ranges of the indices.
    fn field_domain(&mut self) -> (Domain, Vec<Value>, Vec<(Scalar, i64, i64)>) {
        let fields: Vec<_> = self.m.fields.keys().collect();
        let field = *self.dice.pick(&fields);
        let domain = self.m.fields[field].domain(&self.m.trees);
        let indices = domain
            .into_iter()
            .map(|(lo, extent)| {
                let hi = lo + extent as i64 - 1;
                (self.int_for(lo, hi), lo, hi)
            })
            .collect();
        (Domain::Field(field), Vec::new(), indices)
    }

    /// A range of one to three dimensions, rarely of none.
    fn range_domain(&mut self) -> (Domain, Vec<Value>, Vec<(Scalar, i64, i64)>) {
        let rank = *self.dice.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 3, 0]);
        let mut room = MOST_POINTS;
        let (mut args, mut indices) = (Vec::new(), Vec::new());
        for _ in 0..rank {
            let (pair, index) = self.range(room);
            room /= (index.2 - index.1 + 1).max(1);
            args.extend(pair);
            indices.push(index);
        }
        (Domain::Range { rank }, args, indices)
    }

    fn range(&mut self, room: i64) -> ([Value; 2], (Scalar, i64, i64)) {
        let most = room.clamp(1, 60);
        match self.dice.weighted(&[6, 3, 2, 2]) {
            1 => {
                if let Some(range) = self.param_range(most) {
                    return range;
                }
            }
            2 => {
                if let Some(range) = self.extent_range(most) {
                    return range;
                }
            }
            3 => return self.computed_range(most),
            _ => {}
        }
        let extent = if self.dice.chance(8) {
            -self.dice.between(0, 3)
        } else {
            self.dice.between(1, most.min(24))
        };
        let lo = match self.dice.weighted(&[6, 3, 1]) {
            0 => 0,
            1 => self.dice.between(-12, 12),
            _ => self.dice.between(-(1 << 40), 1 << 40),
        };
        let s = self.int_for(lo.min(lo + extent), lo.max(lo + extent));
        // Sometimes right at the end of the type.
        let (lo, hi) = match (self.dice.chance(6), s.int_range()) {
            (true, Some((_, most))) => match i64::try_from(most) {
                Ok(most) => (most.saturating_sub(extent), most),
                Err(_) => (lo, lo + extent),
            },
            _ => (lo, lo + extent),
        };
        let first = self.b().int(s, i128::from(lo));
        let end = self.b().int(s, i128::from(hi));
        ([first, end], (s, lo, (hi - 1).max(lo)))
    }

    /// From a constant to a parameter.
    fn param_range(&mut self, most: i64) -> Option<([Value; 2], (Scalar, i64, i64))> {
        let params: Vec<usize> = (0..self.m.params.len())
            .filter(|p| {
                self.known_param(*p)
                    .is_some_and(|(_, n)| n.abs() <= i128::from(most))
            })
            .collect();
        if params.is_empty() {
            return None;
        }
        let p = *self.dice.pick(&params);
        let (s, n) = self.known_param(p)?;
        let n = n as i64;
        let value = self.body.f.params()[p];
        let other = self.b().int(s, 0);
        Some(if n < 0 && self.dice.chance(80) {
            ([value, other], (s, n, -1))
        } else {
            ([other, value], (s, 0, (n - 1).max(0)))
        })
    }

    /// Along an axis of an array.
    fn extent_range(&mut self, most: i64) -> Option<([Value; 2], (Scalar, i64, i64))> {
        let axes: Vec<(Array, u8)> = self
            .m
            .arrays
            .iter()
            .flat_map(|(a, d)| (0..d.rank).map(move |k| (a, k)))
            .filter(|(a, k)| self.inputs.view(*a).extents[usize::from(*k)] <= most)
            .collect();
        if axes.is_empty() {
            return None;
        }
        let (array, axis) = *self.dice.pick(&axes);
        let extent = self.inputs.view(array).extents[usize::from(axis)];
        let s = *self.dice.pick(&[Scalar::I64, Scalar::I32, Scalar::U64]);
        let end = self.b().value(Op::ArrayExtent(array, axis), &[]);
        let end = self.b().convert(end, s);
        let first = self.b().int(s, 0);
        Some(([first, end], (s, 0, (extent - 1).max(0))))
    }

    /// Computed bounds, within a small range.
    fn computed_range(&mut self, most: i64) -> ([Value; 2], (Scalar, i64, i64)) {
        let half = (most / 2).clamp(1, 10);
        let s = self.int_for(-half, half);
        let mut bound = || {
            let x = self.value(Type::Scalar(s), 3);
            let mut b = self.b();
            let (lo, hi) = (
                b.imm(Imm::int(s, i128::from(-half))),
                b.imm(Imm::int(s, i128::from(half))),
            );
            let x = b.binary(BinOp::Max, x, lo);
            b.binary(BinOp::Min, x, hi)
        };
        let pair = [bound(), bound()];
        (pair, (s, -half, half))
    }
}
