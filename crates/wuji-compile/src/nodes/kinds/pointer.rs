//! Pointer nodes: each slot of the container points to a cell.

use crate::nodes::Services;
use crate::nodes::level::{At, LevelFunctions, PathStep, ScanSource, ScannedWord};
use crate::nodes::lists::{Entry, Scan};
use crate::nodes::words::load;
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::layout::NodeData;

pub(super) struct Pointer;

impl LevelFunctions for Pointer {
    fn step(&self, path: &mut dyn PathStep) {
        let operands = self.drop_operands(path);
        path.find(&operands);
    }

    fn find(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let slot = s.slot(b, at, operands[0], operands[1]);
        load(b, at.0, slot)
    }

    fn ensure(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let slot = s.slot(b, at, operands[0], operands[1]);
        s.ensure_slot(b, at, slot)
    }

    fn deactivate(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) {
        let slot = s.slot(b, at, operands[0], operands[1]);
        let retire = s.retire(b.env, at.0, at.1);
        s.drop_slot(b, at, slot, retire);
    }

    fn scan_source(&self, data: &NodeData) -> ScanSource {
        ScanSource::Words(data.cells())
    }

    fn word_entry(&self, scan: &Scan, b: &mut Builder, word: ScannedWord<'_>) -> Entry {
        let mut coords = word.coords.to_vec();
        scan.descend(b, word.number, &mut coords);
        Entry {
            offset: word.found,
            extra: b.i64(1),
            first: word.number,
            coords,
        }
    }

    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) {
        let slots = b.env.trees[at.0].nodes[at.1].cells();
        s.drop_slots(b, at, container, slots);
    }
}
