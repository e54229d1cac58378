//! Modules that ran already.

use std::collections::HashMap;
use std::hash::Hash;
use wuji_ir::module::Module;

/// Remembers modules and how they ran, so that none runs twice with the same inputs: most passes leave most modules as
/// they are, and pipelines that differ in one pass begin alike. The interpreter is a function of both.
#[derive(Debug)]
pub(crate) struct Seen<How> {
    /// By the text, because modules have no hash. Modules with equal texts may differ, for example in spans.
    modules: HashMap<(How, String), Vec<Module>>,
}

impl<How> Default for Seen<How> {
    fn default() -> Self {
        Seen {
            modules: HashMap::new(),
        }
    }
}

impl<How: Eq + Hash> Seen<How> {
    /// Whether an equal module comes for the first time, to run so.
    pub(crate) fn is_new(&mut self, module: &Module, how: How) -> bool {
        let equal = self.modules.entry((how, module.to_string())).or_default();
        let new = !equal.contains(module);
        if new {
            equal.push(module.clone());
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_ir::text::parse;

    #[test]
    fn a_module_is_new_once_for_each_way_to_run_it() {
        let module = |value| {
            let text = format!(
                "kernel fn0 \"k\"() -> i32 {{\n  v0: i32 = const {value}\n  return v0\n}}\n"
            );
            parse(&text, "k").expect("a module")
        };
        let mut seen = Seen::default();
        assert!(seen.is_new(&module(1), false));
        assert!(!seen.is_new(&module(1), false));
        assert!(seen.is_new(&module(1), true));
        assert!(seen.is_new(&module(2), false));
        // The text does not show the number of labels.
        let mut left_over = module(1);
        left_over.funcs.values_mut().for_each(|f| f.labels += 1);
        assert!(seen.is_new(&left_over, false));
    }
}
