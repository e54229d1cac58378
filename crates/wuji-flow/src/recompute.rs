//! Computes again what a task would load: the body of the loop that stores a field takes the place of the loads of another task.

use crate::combine::{Build, Combined, Copy, Part, Piece, end_loop};
use crate::storage::Storage;
use wuji_compile::rewrite::{Map, copy_inst, replace_uses};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function, Values};
use wuji_ir::ops::{BinOp, CmpOp, Op, Step};
use wuji_ir::types::{Scalar, Type};

/// The consumer, which computes every element of the field or array that it would load. The producer is a loop over all of it whose
/// iterations store their own element of it, once, and do nothing else. `None` if that cannot be done.
pub(crate) fn recompute(
    name: &str,
    producer: &Part<'_>,
    consumer: &Part<'_>,
    output: Storage,
) -> Option<Combined> {
    let Piece::Loop(foreach) = producer.piece else {
        return None;
    };
    let mut build = Build::new(name);
    let (mut f, entered) = build.enter_all(&[producer.clone(), consumer.clone()])?;
    let [first, second] = &entered[..] else {
        return None;
    };
    let mut looped = None;
    (second.copy_into(&mut f)).piece(&consumer.piece, &mut looped);
    end_loop(&mut f, looped);
    let body = first.from.insts[foreach].regions[0];
    let store = only_store(&first.from, body)?;
    let stored = Storage::of(first.from.insts[store].op.access()?.place)?;
    let domain = output.domain(producer.module)?;
    let mut copy = first.copy_into(&mut f);
    copy.provide_for(foreach);
    let Copy { map, .. } = copy;
    for (region, load) in loads_of(&f, stored) {
        let element = Element {
            from: &first.from,
            body,
            store,
            domain: &domain,
        };
        element.replace(&mut build.module.env, &mut f, map.clone(), region, load)?;
    }
    Some(build.finish(f))
}

/// The only store in the body of a loop, to a whole element.
pub(crate) fn only_store(f: &Function, body: Region) -> Option<Inst> {
    let insts = f.regions[body].insts.iter();
    let mut stores = insts.filter(|inst| matches!(f.insts[**inst].op, Op::Store(_)));
    let store = *stores.next()?;
    let whole = (f.insts[store].op.access()).is_some_and(|access| access.path.is_empty());
    (whole && stores.next().is_none()).then_some(store)
}

/// The loads of a field or array, with the regions that they are in.
pub(crate) fn loads_of(f: &Function, storage: Storage) -> Vec<(Region, Inst)> {
    let regions = f.walk_regions().into_iter();
    let all = regions.flat_map(|r| f.regions[r].insts.iter().map(move |inst| (r, *inst)));
    all.filter(|(_, inst)| {
        matches!(&f.insts[*inst].op, Op::Load(access) if access.place == storage.place())
    })
    .collect()
}

/// How an element is computed.
struct Element<'a> {
    from: &'a Function,
    body: Region,
    store: Inst,
    /// First index and extent of each axis.
    domain: &'a [(i64, u64)],
}

impl Element<'_> {
    /// Replaces a load by what the element is computed from; outside it is zero, as the load is.
    fn replace(
        &self,
        env: &mut Env,
        f: &mut Function,
        mut map: Map,
        region: Region,
        load: Inst,
    ) -> Option<()> {
        let Op::Load(access) = f.insts[load].op.clone() else {
            return None;
        };
        let rank = self.domain.len();
        let at: Values = f.insts[load].args[..rank].iter().copied().collect();
        let result = f.result(load);
        let place = f.add_region(&[]);
        let mut b = Builder::new(env, f);
        b.region = place;
        b.span = b.func.spans[load];
        self.map_indices(&mut b, &mut map, &at)?;
        for inst in &self.from.regions[self.body].insts {
            if *inst != self.store {
                let copy = copy_inst(self.from, *inst, b.func, &mut map);
                b.func.regions[place].insts.push(copy);
            }
        }
        let mut value = map.value(*self.from.insts[self.store].args.last()?);
        for step in &access.path {
            let Step::Const(k) = step else {
                return None;
            };
            value = b.value(Op::Extract(*k), &[value]);
        }
        let inside = self.inside(&mut b, &at);
        let zero = b.zero(b.func.ty(value));
        let value = match inside {
            Some(inside) => b.select(inside, value, zero),
            None => value,
        };
        replace_uses(f, result, value);
        let new = std::mem::take(&mut f.regions[place].insts);
        let insts = &mut f.regions[region].insts;
        let position = insts.iter().position(|inst| *inst == load)?;
        insts.splice(position..=position, new);
        Some(())
    }

    /// The indices of the producer's loop are those of the element: its store says which is which.
    fn map_indices(&self, b: &mut Builder<'_>, map: &mut Map, at: &[Value]) -> Option<()> {
        let params = &self.from.regions[self.body].params;
        for (axis, v) in at.iter().enumerate() {
            let index = self.from.insts[self.store].args[axis];
            let param = params.iter().find(|p| **p == self.converted(index))?;
            let Type::Scalar(scalar) = self.from.ty(*param) else {
                return None;
            };
            let same = b.func.ty(*v) == Type::Scalar(scalar);
            let value = if same { *v } else { b.convert(*v, scalar) };
            map.set(*param, value);
        }
        Some(())
    }

    /// A value before conversions to other integers.
    fn converted(&self, v: Value) -> Value {
        match self.from.def(v).map(|inst| &self.from.insts[inst]) {
            Some(data) if matches!(data.op, Op::Convert(_)) => self.converted(data.args[0]),
            Some(_) | None => v,
        }
    }

    /// Whether an element exists.
    fn inside(&self, b: &mut Builder<'_>, at: &[Value]) -> Option<Value> {
        let mut all: Option<Value> = None;
        for (v, (first, extent)) in at.iter().zip(self.domain) {
            let wide = b.convert(*v, Scalar::I64);
            let lower = b.i64(*first);
            let upper = b.i64(first.saturating_add_unsigned(*extent));
            let not_below = b.compare(CmpOp::Ge, wide, lower);
            let not_above = b.compare(CmpOp::Lt, wide, upper);
            let here = b.binary(BinOp::And, not_below, not_above);
            all = Some(match all {
                Some(all) => b.binary(BinOp::And, all, here),
                None => here,
            });
        }
        all
    }
}
