//! Errors of compiling and loading.

use wuji_compile::Options;
use wuji_ir::Error;
use wuji_llvm::{Host, Jit, JitOptions, Object};

/// The message is the one on the page of its code.
fn check(error: &Error, expected: &str) {
    assert_eq!(error.to_string(), expected);
    let page = wuji_ir::codes::find(error.code).unwrap().page;
    assert!(page.contains(expected), "{page}");
}

#[test]
fn unknown_processors_are_an_error() {
    let host = Host {
        triple: "riscv64-unknown-linux-gnu".into(),
        cpu: "generic-rv64".into(),
        features: String::new(),
    };
    let options = JitOptions {
        host: Some(host),
        ..JitOptions::default()
    };
    check(
        &Jit::new(&options).unwrap_err(),
        "error[W0501]: LLVM has no backend for `riscv64-unknown-linux-gnu`\n  \
         = note: No available targets are compatible with triple \"riscv64-unknown-linux-gnu\"",
    );
}

fn object(jit: &Jit) -> Object {
    let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nkernel fn0 \"k\"() {\nv0: i32 = const 1\nstore f0[], v0\nreturn\n}\n";
    let module = wuji_ir::text::parse(text, "k.wir").unwrap();
    let lowered = wuji_compile::compile(module, &Options::default()).unwrap();
    jit.build(&lowered).unwrap()
}

#[test]
fn code_without_its_symbol_is_an_error() {
    let jit = Jit::new(&JitOptions::default()).unwrap();
    let mut object = object(&jit);
    assert!(jit.load(&object).is_ok());
    object.symbols = vec!["wuji.other".into()];
    let error = jit.load(&object).unwrap_err();
    assert_eq!(error.code, "W0506");
    assert_eq!(error.message, "cannot load compiled code");
    assert!(error.notes[0].contains("wuji.other"), "{error}");
}

#[test]
fn invalid_objects_are_rejected() {
    let jit = Jit::new(&JitOptions::default()).unwrap();
    let mut object = object(&jit);
    object.code = vec![b"no object".to_vec()];
    let error = jit.load(&object).unwrap_err();
    assert_eq!(error.code, "W0506");
    assert!(!error.notes.is_empty(), "{error}");
    // A valid object can still be loaded.
    assert!(jit.load(&self::object(&jit)).is_ok());
}
