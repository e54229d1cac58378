//! Compiles Wuji IR to PTX, which the NVIDIA driver compiles to machine code at load time.

use crate::codegen::{self, Tuning, block_size};
use crate::diagnostics::in_context;
use crate::jit::{self, Timings};
use crate::libdevice;
use crate::optimize;
use crate::stack;
use crate::target::Host;
use crate::threads::on_large_stack;
use inkwell::targets::FileType;
use std::time::Instant;
use wuji_compile::{Functions, Lowered};
use wuji_ir::module::{Module, Task};
use wuji_ir::{Error, Result};

pub use crate::abi::{
    DeviceHeader, DeviceLayout, DeviceLog, DeviceReports, REPORT_WORDS, REPORT_WRITTEN,
};

/// The largest size of kernel parameters, in bytes.
const MOST_BYTES: usize = 32_764;

/// The kernels of all tasks of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ptx {
    /// The PTX text.
    pub text: String,
    /// The name of the kernel of each task.
    pub kernels: Vec<String>,
    /// Bytes of stack per thread that recursive functions need; 0 without recursion.
    pub stack: usize,
    /// How long each step took.
    pub timings: Timings,
}

/// The block size of a task. If it is 1, the task has one block.
pub fn threads_of_block(task: &Task) -> u32 {
    block_size(task)
}

/// The target GPU of a compute capability: 90 is 9.0.
fn target(sm: u32) -> Result<Host> {
    // The architectures that LLVM knows; PTX for an older one runs on all newer ones.
    const KNOWN: [u32; 9] = [70, 75, 80, 86, 89, 90, 100, 103, 120];
    let Some(best) = KNOWN.into_iter().rfind(|k| *k <= sm) else {
        return Err(Error::new(
            "W0525",
            format!(
                "cannot compile for a GPU of compute capability {}.{}",
                sm / 10,
                sm % 10
            ),
        )
        .note("compute capability 7.0 or newer is required"));
    };
    let version = match best {
        ..=90 => "+ptx81",
        _ => "+ptx88",
    };
    Ok(Host {
        triple: "nvptx64-nvidia-cuda".into(),
        cpu: format!("sm_{best}"),
        features: version.into(),
    })
}

/// Compiles all tasks for a compute capability: 90 is 9.0.
pub fn ptx(lowered: &Lowered, sm: u32) -> Result<Ptx> {
    let host = target(sm)?;
    let module = lowered.module();
    let size = DeviceLayout::of(module).size;
    if size > MOST_BYTES {
        return Err(Error::new(
            "W0525",
            format!("kernel `{}` has too many arguments for a GPU", module.name),
        )
        .note(format!("they take {size} bytes, of at most {MOST_BYTES}"))
        .help("put some of them into fields"));
    }
    let kernels = names(module);
    let all: Vec<usize> = (0..kernels.len()).collect();
    let tuning = Tuning {
        vector_bits: 128,
        frame_pointers: false,
        vector_math: false,
    };
    let begun = Instant::now();
    on_large_stack(|| {
        let level = inkwell::OptimizationLevel::Default;
        let machine = host.machine(level)?;
        in_context(|context| {
            let llvm = codegen::build(context, lowered, &all, &kernels, &host, tuning)?;
            jit::finish_module(&llvm, &host, &machine, cfg!(debug_assertions))?;
            let options = lowered.options();
            if let Functions::Libdevice(library) = &options.functions {
                libdevice::link(&llvm, library, options.math, sm)?;
            }
            let built = Instant::now();
            optimize::run_for_gpu(&llvm, &machine)?;
            let optimized = Instant::now();
            let text = machine
                .write_to_memory_buffer(&llvm, FileType::Assembly)
                .map_err(jit::refused)?;
            let text = String::from_utf8_lossy(text.as_slice());
            let text = text.trim_end_matches('\0').to_owned();
            Ok(Ptx {
                stack: if codegen::recursive(module).is_empty() {
                    0
                } else {
                    stack::bytes(&text)
                },
                text,
                kernels: kernels.clone(),
                timings: Timings {
                    build: built - begun,
                    optimize: optimized - built,
                    emit: optimized.elapsed(),
                    total: begun.elapsed(),
                    ..Timings::default()
                },
            })
        })
    })
}

/// Unique names that are valid in PTX.
fn names(module: &Module) -> Vec<String> {
    let clean = |name: &str| -> String {
        let letters = name.chars();
        letters
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(64)
            .collect()
    };
    let tasks = module.tasks.iter().enumerate();
    tasks
        .map(|(k, task)| format!("wuji_{k}_{}", clean(&task.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_compile::Options;

    fn lowered() -> Lowered {
        let text = "module \"k\"\ntree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nkernel fn0 \"k\"() {\nv0: i32 = const 1\nstore f0[], v0\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "k.wir").unwrap();
        wuji_compile::compile(module, &Options::default().for_cuda(90)).unwrap()
    }

    #[test]
    fn code_for_old_gpus_is_refused() {
        let error = ptx(&lowered(), 61).unwrap_err();
        let page = wuji_ir::codes::find(error.code).unwrap().page;
        assert!(page.contains(&error.to_string()), "{error}");
    }

    #[test]
    fn unknown_newer_gpus_get_code_for_older_ones() {
        let made = ptx(&lowered(), 999).unwrap();
        assert!(made.text.contains(".target sm_120"), "{}", made.text);
        assert_eq!(made.kernels, ["wuji_0_k_0"]);
    }
}
