//! The target machine.

use crate::{exit, library, threads};
use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};
use std::sync::{Mutex, Once, PoisonError};
use wuji_ir::{Error, Result};

/// A processor in LLVM's terms. It is part of the cache key of compiled code.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Host {
    /// The target triple of LLVM.
    pub triple: String,
    /// The name of a processor that LLVM knows. Never `native`, which aborts the process.
    pub cpu: String,
    /// `+avx2,-amx-tile,...`
    pub features: String,
}

impl Host {
    /// The host processor. An error if LLVM is not available.
    pub fn detect() -> Result<Host> {
        initialize()?;
        Ok(Host {
            triple: text(TargetMachine::get_default_triple().as_str()),
            cpu: text(&TargetMachine::get_host_cpu_name()),
            features: text(&TargetMachine::get_host_cpu_features()),
        })
    }

    /// Whether the processor has a feature, by LLVM's name.
    pub fn has(&self, feature: &str) -> bool {
        self.features
            .split(',')
            .any(|f| f.strip_prefix('+') == Some(feature))
    }

    /// The widest vectors of the processor, in bits.
    pub fn vector_bits(&self) -> u32 {
        if self.has("avx512f") {
            512
        } else if self.has("avx") {
            256
        } else {
            128
        }
    }

    /// The vector width that is fastest for most code: the widest, except where using it reduces the clock
    /// frequency.
    pub fn preferred_vector_bits(&self) -> u32 {
        match self.cpu.as_str() {
            "skylake-avx512" | "cascadelake" | "cooperlake" | "cannonlake" => 256,
            _ => self.vector_bits(),
        }
    }

    /// A target machine of this optimization level.
    pub(crate) fn machine(&self, level: OptimizationLevel) -> Result<TargetMachine> {
        initialize()?;
        let triple = TargetTriple::create(&self.triple);
        let target = Target::from_triple(&triple).map_err(|e| {
            Error::new(
                "W0501",
                format!("LLVM has no backend for `{}`", self.triple),
            )
            .note(e.to_string())
        })?;
        let (reloc, model) = if self.triple.starts_with("nvptx") {
            (RelocMode::Default, CodeModel::Default)
        } else {
            (RelocMode::PIC, CodeModel::Small)
        };
        target
            .create_target_machine(&triple, &self.cpu, &self.features, level, reloc, model)
            .ok_or_else(|| {
                Error::new(
                    "W0501",
                    format!(
                        "LLVM cannot generate code for `{}` `{}`",
                        self.triple, self.cpu
                    ),
                )
            })
    }
}

/// A pool of target machines for one host. Creating one, and parsing the features of a processor, takes about
/// as long as compiling a small kernel.
#[derive(Debug, Default)]
pub(crate) struct Machines(Mutex<Vec<Idle>>);

#[derive(Debug)]
struct Idle(OptimizationLevel, TargetMachine);

// SAFETY: a target machine is not tied to a thread; two threads must not use it at the same time, and it is
// removed from the list while in use.
unsafe impl Send for Idle {}

impl Machines {
    pub(crate) fn take(&self, host: &Host, level: OptimizationLevel) -> Result<TargetMachine> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = idle.iter().position(|m| m.0 == level) {
            return Ok(idle.swap_remove(at).1);
        }
        drop(idle);
        host.machine(level)
    }

    pub(crate) fn release(&self, level: OptimizationLevel, machine: TargetMachine) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Idle(level, machine));
    }
}

fn text(c: &std::ffi::CStr) -> String {
    c.to_string_lossy().into_owned()
}

/// Loads LLVM, prepares it for its errors and for the exit of the process, and registers its targets; once per process.
fn initialize() -> Result<()> {
    static ONCE: Once = Once::new();
    library::find()?;
    ONCE.call_once(|| {
        exit::watch();
        threads::catch_fatal_errors();
        Target::initialize_x86(&InitializationConfig::default());
        Target::initialize_nvptx(&InitializationConfig {
            asm_parser: false,
            disassembler: false,
            ..InitializationConfig::default()
        });
    });
    Ok(())
}

/// The version of LLVM.
pub fn llvm_version() -> Result<String> {
    library::find()?;
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three numbers are ours to write to.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    Ok(format!("{major}.{minor}.{patch}"))
}
