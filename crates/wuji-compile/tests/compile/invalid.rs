//! Passes that leave invalid modules.

use wuji_compile::{Cx, Options, Pass, PassKind, step};
use wuji_ir::Result;
use wuji_ir::module::{Module, Term};

const KERNEL: &str = "kernel fn0 \"k\"() {\n  return\n}\n";

/// Removes the terminator of a kernel.
fn forget_the_end(module: &mut Module, _: &mut Cx) -> Result<()> {
    for function in module.funcs.values_mut() {
        let entry = function.entry;
        function.regions[entry].term = Term::Unreachable;
    }
    Ok(())
}

static CARELESS: Pass = Pass {
    name: "careless",
    sentence: "leaves nonsense",
    kind: PassKind::Optimization,
    run: forget_the_end,
};

#[test]
fn the_pass_that_produces_an_invalid_module_is_named() {
    let mut module = wuji_ir::text::parse(KERNEL, "k.wir").unwrap();
    let mut cx = Cx::new(&Options::default());
    let error = step(&CARELESS, &mut module, &mut cx).unwrap_err();
    let message = error.to_string();
    assert_eq!(
        message,
        "error[W0302]: the pass `careless` produced an invalid module\n  \
         = note: `unreachable` is only allowed after an instruction that never falls through\n  \
         = note: this is a bug in the compiler, not in the kernel"
    );
    // The page shows the same message for an existing pass.
    let page = wuji_ir::codes::find("W0302").unwrap().page;
    assert!(page.contains(&message.replace("careless", "simplify")));
}
