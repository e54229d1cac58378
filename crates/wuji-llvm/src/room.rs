//! Room for the compiler in the address space of the process, which `ulimit -v` limits.
//!
//! Where memory runs out, LLVM aborts the process, and so does an allocation of the passes. So the error has to come before that.

use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// Address space that LLVM may need: for itself, and for each instruction of a function.
const LLVM_BYTES: usize = 64 << 20;
const LLVM_BYTES_PER_INSTRUCTION: usize = 16 << 10;
/// The same for the passes, which turn vectors and matrices into scalars.
const PASS_BYTES: usize = 16 << 20;
const PASS_BYTES_PER_COMPONENT: usize = 4 << 10;

/// An error if LLVM may run out of memory.
pub(crate) fn room_for_llvm(instructions: usize) -> Result<()> {
    let bytes = instructions.saturating_mul(LLVM_BYTES_PER_INSTRUCTION);
    ensure(LLVM_BYTES.saturating_add(bytes))
        .map_err(|e| e.error("LLVM could not compile the kernel"))
}

/// An error if the passes may run out of memory.
pub fn room_for_passes(module: &Module) -> Result<()> {
    let mut components = 0usize;
    for f in module.funcs.values() {
        for data in f.insts.values() {
            let lanes = |value| f.ty(value).lanes().unwrap_or(1) as usize;
            let values = data.args.iter().chain(&data.results);
            let most = values.map(|value| lanes(*value)).max();
            components = components.saturating_add(most.unwrap_or(1));
        }
    }
    let bytes = components.saturating_mul(PASS_BYTES_PER_COMPONENT);
    ensure(PASS_BYTES.saturating_add(bytes)).map_err(|e| {
        let what = format!("there is no memory to compile kernel `{}`", module.name);
        e.error(&what)
    })
}

/// Address space that is not available.
struct Missing {
    mib: usize,
}

impl Missing {
    fn error(&self, what: &str) -> Error {
        let mib = self.mib;
        Error::new("W0503", what)
            .note(format!("{mib} MiB of address space are not available"))
            .help("free memory, or raise the limit of the process (`ulimit -v`)")
    }
}

fn ensure(bytes: usize) -> std::result::Result<(), Missing> {
    // SAFETY: a fresh private mapping that is not touched; it is unmapped at once.
    let room = unsafe {
        let (none, flags) = (
            std::ptr::null_mut(),
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let at = libc::mmap(none, bytes, libc::PROT_NONE, flags, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, bytes) == 0
    };
    if room {
        Ok(())
    } else {
        Err(Missing { mib: bytes >> 20 })
    }
}
