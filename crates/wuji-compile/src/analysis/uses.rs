//! Uses of values.

use rustc_hash::FxHashSet;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::Function;

/// Values that instructions or terminators use.
pub fn used_values(f: &Function) -> FxHashSet<Value> {
    used_in(f, f.entry).into_iter().collect()
}

/// The values that a region and those inside it use.
pub fn used_in(f: &Function, region: Region) -> Vec<Value> {
    let args = f.insts_in(region).flat_map(|i| &f.insts[i].args);
    let terms = used_at_ends(f, f.regions_in(region));
    args.copied().chain(terms).collect()
}

/// The values that an instruction and its regions use.
pub fn used_by(f: &Function, inst: Inst) -> Vec<Value> {
    let args = f.insts_of(inst).flat_map(|i| &f.insts[i].args);
    let terms = used_at_ends(f, f.regions_of(inst));
    args.copied().chain(terms).collect()
}

fn used_at_ends(f: &Function, regions: Vec<Region>) -> impl Iterator<Item = Value> {
    let terms = regions.into_iter().map(|r| &f.regions[r].term);
    terms.flat_map(|term| term.args().iter().copied())
}
