//! Local arrays that several serial tasks use become temps: a task has no memory of an earlier one.

use super::crossing::each_inst;
use super::segments::Segment;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Inst, Local};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// Where an array is used.
struct Uses {
    segment: usize,
    is_crossing: bool,
    is_in_parallel_loop: bool,
}

/// Moves arrays of scalars to temps, which are zero at the start of a launch, as local arrays are. Arrays that a parallel
/// loop uses stay: its iterations have their own.
pub(super) fn move_crossing_arrays(env: &mut Env, f: &mut Function, segments: &[Segment]) {
    let mut uses: FxHashMap<Local, Uses> = FxHashMap::default();
    for (at, segment) in segments.iter().enumerate() {
        let (insts, is_parallel) = match segment {
            Segment::Serial(serial) => (serial.insts.as_slice(), false),
            Segment::Parallel { inst, .. } => (std::slice::from_ref(inst), true),
        };
        let mut visit = |inst: Inst| {
            let Some(local) = array_of(f, inst) else {
                return;
            };
            let found = uses.entry(local).or_insert(Uses {
                segment: at,
                is_crossing: false,
                is_in_parallel_loop: false,
            });
            found.is_crossing |= found.segment != at;
            found.is_in_parallel_loop |= is_parallel;
        };
        insts.iter().for_each(|i| each_inst(f, *i, &mut visit));
    }
    let mut moved: Vec<Local> = uses
        .into_iter()
        .filter(|(_, u)| u.is_crossing && !u.is_in_parallel_loop)
        .map(|(local, _)| local)
        .collect();
    moved.sort_unstable();
    for local in moved {
        let data = &f.locals[local];
        if let (Type::Scalar(s), Some(n)) = (data.ty, data.len)
            && let Some(ty) = type_of(s, n)
        {
            let temp = env.temps.push(TempData { ty });
            for inst in f.insts.values_mut() {
                if let Some(access) = inst.op.access_mut()
                    && access.place == Place::Local(local)
                {
                    access.place = Place::Temp(temp);
                    access.path.insert(0, Step::Dynamic);
                }
            }
        }
    }
}

fn array_of(f: &Function, inst: Inst) -> Option<Local> {
    match f.insts[inst].op.access()?.place {
        Place::Local(local) => f.locals[local].len.map(|_| local),
        Place::Field(_) | Place::Array(_) | Place::Temp(_) => None,
    }
}

/// A type with `n` components.
fn type_of(s: Scalar, n: u32) -> Option<Type> {
    if let Ok(n) = u16::try_from(n) {
        return Some(Type::Vector(s, n));
    }
    let mut rows = (2..=u16::MAX).filter(|r| n.is_multiple_of(u32::from(*r)));
    rows.find_map(|r| {
        let columns = u16::try_from(n / u32::from(r)).ok()?;
        Some(Type::Matrix(s, r, columns))
    })
}
