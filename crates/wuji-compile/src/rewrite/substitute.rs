//! Replaces values by others.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use wuji_ir::entities::*;
use wuji_ir::module::Function;

/// Replacements of values, applied to a function in one walk.
#[derive(Clone, Debug, Default)]
pub struct Substitution {
    by: SecondaryMap<Value, PackedOption<Value>>,
    any: bool,
}

impl Substitution {
    /// No value is replaced.
    pub fn new() -> Substitution {
        Substitution::default()
    }

    /// Whether no value is replaced.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Replaces `from` by `to`. `to` may itself be replaced, before or later.
    pub fn set(&mut self, from: Value, to: Value) {
        let to = self.get(to);
        debug_assert!(from != to, "{from} cannot replace itself");
        self.by[from] = to.into();
        self.any = true;
    }

    /// The replacement of a value.
    pub fn get(&self, mut v: Value) -> Value {
        while let Some(next) = self.by[v].expand() {
            v = next;
        }
        v
    }

    /// Replaces the values in the arguments of one instruction.
    pub fn apply_to_inst(&self, f: &mut Function, inst: Inst) {
        for a in &mut f.insts[inst].args {
            *a = self.get(*a);
        }
    }

    /// Replaces the values in the terminator of one region.
    pub fn apply_to_term(&self, f: &mut Function, region: Region) {
        for a in f.regions[region].term.args_mut() {
            *a = self.get(*a);
        }
    }

    /// Replaces the values everywhere in the body.
    pub fn apply(&self, f: &mut Function) {
        if self.is_empty() {
            return;
        }
        for region in f.walk_regions() {
            for k in 0..f.regions[region].insts.len() {
                let inst = f.regions[region].insts[k];
                self.apply_to_inst(f, inst);
            }
            self.apply_to_term(f, region);
        }
    }
}

/// Replaces one value by another everywhere in the body. For several, use a [`Substitution`].
pub fn replace_uses(f: &mut Function, from: Value, to: Value) {
    let mut s = Substitution::new();
    s.set(from, to);
    s.apply(f);
}
