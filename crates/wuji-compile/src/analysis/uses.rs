//! Uses of values.

use rustc_hash::FxHashSet;
use wuji_ir::entities::Value;
use wuji_ir::module::Function;

/// Values that instructions or terminators use.
pub fn used_values(f: &Function) -> FxHashSet<Value> {
    let mut used = FxHashSet::default();
    for r in f.walk_regions() {
        for i in &f.regions[r].insts {
            used.extend(f.insts[*i].args.iter().copied());
        }
        used.extend(f.regions[r].term.args().iter().copied());
    }
    used
}
