//! The nesting structure of a function.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use wuji_ir::entities::*;
use wuji_ir::module::{Function, ValueDef};

/// The enclosing regions and instructions of everything in a body. Invalidated when the body changes.
#[derive(Clone, Debug, Default)]
pub struct Structure {
    /// The region an instruction is in; none when it is in no body.
    pub region_of: SecondaryMap<Inst, PackedOption<Region>>,
    /// The instruction that owns a region; none for the entry.
    pub owner: SecondaryMap<Region, PackedOption<Inst>>,
    /// The instruction that defines a label.
    pub target: SecondaryMap<Label, PackedOption<Inst>>,
}

impl Structure {
    /// The structure of a function.
    pub fn of(f: &Function) -> Structure {
        let mut s = Structure::default();
        for region in f.walk_regions() {
            for inst in &f.regions[region].insts {
                s.region_of[*inst] = region.into();
                let data = &f.insts[*inst];
                for r in &data.regions {
                    s.owner[*r] = (*inst).into();
                }
                if let Some(label) = data.op.label() {
                    s.target[label] = (*inst).into();
                }
            }
        }
        s
    }

    /// The instruction whose region an instruction is in; none in the entry region.
    pub fn parent(&self, inst: Inst) -> Option<Inst> {
        self.owner[self.region_of[inst].expand()?].expand()
    }

    /// Whether a region is `outer` or nested in it.
    pub fn is_inside(&self, mut region: Region, outer: Region) -> bool {
        loop {
            if region == outer {
                return true;
            }
            let up = self.owner[region]
                .expand()
                .and_then(|owner| self.region_of[owner].expand());
            match up {
                Some(r) => region = r,
                None => return false,
            }
        }
    }

    /// The region a value is defined in; none when its instruction is in no body.
    pub fn def_region(&self, f: &Function, v: Value) -> Option<Region> {
        match f.values[v].def {
            ValueDef::Param(region, _) => Some(region),
            ValueDef::Result(inst, _) => self.region_of[inst].expand(),
        }
    }

    /// Whether a value is defined outside `region`, and so the same throughout it.
    pub fn is_invariant(&self, f: &Function, v: Value, region: Region) -> bool {
        self.def_region(f, v)
            .is_none_or(|d| !self.is_inside(d, region))
    }
}
