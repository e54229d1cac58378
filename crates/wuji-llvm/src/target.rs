//! The machine that code is made for.

use crate::library;
use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};
use std::sync::{Mutex, Once, PoisonError};
use wuji_ir::{Error, Result};

/// A processor, in LLVM's words. It is part of what compiled code is keyed by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Host {
    pub triple: String,
    /// Never `native`, which kills the process: the name of a processor LLVM knows.
    pub cpu: String,
    /// `+avx2,-amx-tile,...`
    pub features: String,
}

impl Host {
    /// The processor we run on. An error where LLVM is not there to tell.
    pub fn detect() -> Result<Host> {
        initialize()?;
        Ok(Host {
            triple: text(TargetMachine::get_default_triple().as_str()),
            cpu: text(&TargetMachine::get_host_cpu_name()),
            features: text(&TargetMachine::get_host_cpu_features()),
        })
    }

    pub fn has(&self, feature: &str) -> bool {
        self.features
            .split(',')
            .any(|f| f.strip_prefix('+') == Some(feature))
    }

    /// How wide the vectors of the processor are, in bits.
    pub fn vector_bits(&self) -> u32 {
        if self.has("avx512f") {
            512
        } else if self.has("avx") {
            256
        } else {
            128
        }
    }

    /// The vector width that is quickest on most code: the widest, except where using it slows the
    /// clock down.
    pub fn preferred_vector_bits(&self) -> u32 {
        match self.cpu.as_str() {
            "skylake-avx512" | "cascadelake" | "cooperlake" | "cannonlake" => 256,
            _ => self.vector_bits(),
        }
    }

    /// A machine that puts this much work into choosing instructions and registers.
    pub(crate) fn machine(&self, level: OptimizationLevel) -> Result<TargetMachine> {
        initialize()?;
        let triple = TargetTriple::create(&self.triple);
        let target = Target::from_triple(&triple).map_err(|e| {
            Error::new(
                "W0501",
                format!("LLVM has no code generator for `{}`", self.triple),
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
                    format!("LLVM cannot make code for `{}` `{}`", self.triple, self.cpu),
                )
            })
    }
}

/// Target machines for one host that nobody uses at the moment. Making one, and parsing the features of
/// a processor, takes about as long as compiling a small kernel.
#[derive(Debug, Default)]
pub(crate) struct Machines(Mutex<Vec<Idle>>);

#[derive(Debug)]
struct Idle(OptimizationLevel, TargetMachine);

// SAFETY: a target machine belongs to no thread; it must only not be used by two at once, and it is
// taken out of the list for use.
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

    pub(crate) fn give_back(&self, level: OptimizationLevel, machine: TargetMachine) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Idle(level, machine));
    }
}

fn text(c: &std::ffi::CStr) -> String {
    c.to_string_lossy().into_owned()
}

/// Finds LLVM and registers the code generators of this build, once per process.
fn initialize() -> Result<()> {
    static ONCE: Once = Once::new();
    library::find()?;
    ONCE.call_once(|| {
        Target::initialize_x86(&InitializationConfig::default());
        Target::initialize_nvptx(&InitializationConfig {
            asm_parser: false,
            disassembler: false,
            ..InitializationConfig::default()
        });
    });
    Ok(())
}

/// The version of LLVM that makes the code.
pub fn llvm_version() -> Result<String> {
    library::find()?;
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three numbers are ours to write to.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    Ok(format!("{major}.{minor}.{patch}"))
}
