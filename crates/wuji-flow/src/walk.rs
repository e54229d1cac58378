//! Walks over an instruction and everything in its regions.

use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::Function;

/// The instruction, then those in its regions.
pub(crate) fn each_inst(f: &Function, inst: Inst, visit: &mut impl FnMut(Inst)) {
    visit(inst);
    for r in &f.insts[inst].regions {
        for i in &f.regions[*r].insts {
            each_inst(f, *i, visit);
        }
    }
}

/// Every value that it mentions as an operand, its own results included.
pub(crate) fn each_use(f: &Function, inst: Inst, visit: &mut impl FnMut(Value)) {
    f.insts[inst].args.iter().for_each(|v| visit(*v));
    for r in &f.insts[inst].regions {
        for i in &f.regions[*r].insts {
            each_use(f, *i, visit);
        }
        f.regions[*r].term.args().iter().for_each(|v| visit(*v));
    }
}

/// Its regions, and those nested in them.
pub(crate) fn regions_in(f: &Function, inst: Inst) -> Vec<Region> {
    let mut out = Vec::new();
    each_inst(f, inst, &mut |i| out.extend(&f.insts[i].regions));
    out
}
