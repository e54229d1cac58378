//! Resets the guards of untrusted modules.

use wuji_ir::module::{Copies, Module};
use wuji_ir::ops::{Activation, Guard, Op};
use wuji_ir::{Error, Result};

/// A module may falsely declare accesses `inbounds`, so all of them are checked again. Accesses by byte offset cannot
/// be checked, so they are rejected.
pub(crate) fn reset_guards(module: &mut Module) -> Result<()> {
    // Only the compiler may generate lists of active cells.
    if module.tasks.iter().any(|t| t.lists.is_some()) {
        return Err(Error::new(
            "W0128",
            "a loaded module generates lists of active cells itself",
        )
        .help("write `foreach ... in f0`; the compiler generates the lists"));
    }
    if module.tasks.iter().any(|t| t.copies != Copies::None) {
        return Err(
            Error::new("W0128", "a loaded module uses copies of trees itself")
                .help("write `atomic add f0[i], x`; the compiler privatizes fields"),
        );
    }
    for f in module.funcs.values_mut() {
        for inst in f.insts.values_mut() {
            if let Some(access) = inst.op.access_mut() {
                if access.guard == Guard::InBounds {
                    access.guard = Guard::Checked;
                }
                if access.activation == Activation::KnownActive {
                    access.activation = Activation::IfAbsent;
                }
            }
            if let Op::MemLoad(..)
            | Op::MemStore(_)
            | Op::MemAtomic(..)
            | Op::MemCompareExchange(_)
            | Op::LoadInterleaved(_)
            | Op::StoreInterleaved(_)
            | Op::AddInterleaved(_)
            | Op::TreeAccess(..) = inst.op
            {
                return Err(
                    Error::new("W0128", "a loaded module accesses memory by byte offset")
                        .help("write `load f0[i]`; the compiler turns it into offsets"),
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, Device, DeviceOptions, Program};
    use wuji_compile::Options;

    fn load(body: &str) -> Result<Program> {
        let text = format!(
            "module \"m\"\ntree T0 {{ dense S1 [i: 4] {{ place f0 }} }}\nfield f0 \"x\": i32 in T0.S1 (i)\nkernel fn0 \"m\"() {{\n{body}\nreturn\n}}\n"
        );
        let device = Device::new(&DeviceOptions {
            backend: BackendKind::Interpreter,
            ..DeviceOptions::default()
        })?;
        device.load(wuji_ir::text::parse(&text, "m.wir")?, &Options::default())
    }

    #[test]
    fn lists_are_refused() {
        let device = Device::new(&DeviceOptions {
            backend: BackendKind::Interpreter,
            ..DeviceOptions::default()
        })
        .unwrap();
        let load = |node: &str| {
            let text = format!(
                "module \"m\"\ntree T0 {{ pointer S1 [i: 4] {{ place f0 }} }}\nfield f0: i32 in T0.S1 (i)\n\
                 fn fn0 \"list\"(v0: i64, v1: i64) {{\nreturn\n}}\n\
                 task \"list\" chunks (0..4) unit 1 fn0 ordinal 1 lists T0.{node}\n"
            );
            device.load(
                wuji_ir::text::parse(&text, "m.wir").unwrap(),
                &Options::default(),
            )
        };
        assert_eq!(load("S1").unwrap_err().code, "W0128");
        let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nfn fn0 \"x\"(v0: i64, v1: i64) {\nreturn\n}\ntask \"x\" chunks (0..4) unit 1 fn0 ordinal 1 lists T0.S0\n";
        let m = wuji_ir::text::parse(text, "m.wir").unwrap();
        assert_eq!(wuji_ir::verify::verify(&m).unwrap_err().code, "W0020");
    }

    #[test]
    fn copies_are_refused() {
        let device = Device::new(&DeviceOptions {
            backend: BackendKind::Interpreter,
            ..DeviceOptions::default()
        })
        .unwrap();
        let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nfn fn0 \"x\"(v0: i64, v1: i64) {\nreturn\n}\ntask \"x\" chunks (0..4) unit 1 fn0 ordinal 1 merges T0\n";
        let m = wuji_ir::text::parse(text, "m.wir").unwrap();
        let error = device.load(m, &Options::default()).unwrap_err();
        assert_eq!(error.code, "W0128");
    }

    #[test]
    fn byte_offsets_are_refused() {
        let error = load("v0: i64 = const 800\nv1: i32 = memload T0.f0 [v0]").unwrap_err();
        assert_eq!(error.code, "W0128");
        assert!(load("v0: i64 = const 800\nv1: i32 = load.inbounds f0[v0]").is_ok());
    }
}
