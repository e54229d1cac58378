//! Errors of the driver.
//!
//! Some failures are fatal: after an invalid memory access of a kernel, every later call of the process on this device
//! fails. The first such failure is stored, and the driver is not called any more.

use super::library::{Code, Functions};
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use wuji_ir::Error;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: Code = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`: also returned in a process that was forked from one that uses CUDA.
const NOT_INITIALIZED: Code = 3;
/// `CUDA_ERROR_NOT_READY`: not a failure, the work is in flight.
pub(super) const NOT_READY: Code = 600;

/// A failed call.
#[derive(Copy, Clone, Debug)]
pub(super) struct Failed {
    driver: &'static Functions,
    call: &'static str,
    pub(super) code: Code,
}

/// The first fatal failure.
static FAULT: OnceLock<Failed> = OnceLock::new();

/// An error if a fatal failure has happened.
pub(super) fn healthy() -> Result<(), Failed> {
    match FAULT.get() {
        None => Ok(()),
        Some(fault) => Err(*fault),
    }
}

/// Converts the result of a call.
pub(super) fn checked(
    driver: &'static Functions,
    call: &'static str,
    code: Code,
) -> Result<(), Failed> {
    if code == 0 {
        return Ok(());
    }
    let failed = Failed { driver, call, code };
    if is_fault(code) {
        Err(*FAULT.get_or_init(|| failed))
    } else {
        Err(failed)
    }
}

/// Whether an error destroys the context: the driver's manual says that "the process must be terminated and
/// relaunched", or that the context is lost.
fn is_fault(code: Code) -> bool {
    matches!(
        code,
        // Uncorrectable memory error, link error to another device, contained error.
        214 | 220 | 226
        // Illegal address, launch timeout, destroyed context, device-side assertion.
        | 700 | 702 | 709 | 710
        // Hardware stack error, illegal instruction, misaligned address, invalid address space, invalid program
        // counter, other kernel exception, tensor memory leak.
        | 714..=719 | 721
    )
}

/// The error of an allocation for which the device of the current context has too little memory.
pub(super) fn out_of_memory(driver: &Functions, bytes: u64, why: Option<String>) -> Error {
    let what = format!("the CUDA device has no {} left", amount(bytes));
    let (mut free, mut total) = (0, 0);
    // SAFETY: it writes two numbers; callers have made a context current.
    let known = unsafe { (driver.cuMemGetInfo)(&mut free, &mut total) } == 0;
    let free = known.then(|| {
        let (free, total) = (amount(free as u64), amount(total as u64));
        format!("{free} of its {total} are free")
    });
    (why.into_iter().chain(free))
        .fold(Error::new("W0522", what), Error::note)
        .help("drop fields that are not needed, use smaller types, or a sparse layout; other programs on the device take memory too (`nvidia-smi`)")
}

impl Failed {
    /// `CUDA_ERROR_INVALID_VALUE: invalid argument`.
    pub(super) fn describe(driver: &Functions, code: Code) -> String {
        let ask = |get: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: it writes a pointer to text that is never freed, or a null one.
            let failed = unsafe { get(code, &mut text) };
            if failed != 0 || text.is_null() {
                return None;
            }
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(text) };
            Some(text.to_string_lossy().into_owned())
        };
        match (ask(driver.cuGetErrorName), ask(driver.cuGetErrorString)) {
            (Some(name), Some(text)) => format!("{name}: {text}"),
            (Some(text), None) | (None, Some(text)) => text,
            (None, None) => format!("CUDA error {code}"),
        }
    }

    fn why(&self) -> String {
        format!(
            "{}: {}",
            self.call,
            Failed::describe(self.driver, self.code)
        )
    }

    /// The error of an allocation, with its size and the free memory.
    pub(super) fn allocating(self, bytes: u64) -> Error {
        if self.code != OUT_OF_MEMORY {
            return self.error();
        }
        out_of_memory(self.driver, bytes, Some(self.why()))
    }

    /// The error of loading code, with the messages of the driver's assembler.
    pub(super) fn loading(self, log: &str) -> Error {
        if is_fault(self.code) || self.code == OUT_OF_MEMORY {
            return self.error();
        }
        let error =
            Error::new("W0524", "the CUDA driver rejects the kernel's code").note(self.why());
        let error = log.lines().take(20).fold(error, Error::note);
        error.help("a driver that is too old for the code says so above; otherwise please report it, with the kernel")
    }
}

impl Failed {
    /// The error of any other call.
    pub(super) fn error(self) -> Error {
        let failed = self;
        if is_fault(failed.code) {
            return Error::new("W0523", "the CUDA device has failed")
                .note(failed.why())
                .note("this process cannot use it any more, and its data is lost; worlds on the CPU still work")
                .help("restart the process; `compute-sanitizer` finds the kernel that caused it");
        }
        if failed.code == OUT_OF_MEMORY {
            return Error::new("W0522", "the CUDA device is out of memory")
                .note(failed.why())
                .help("drop fields that are not needed; other programs on the device take memory too (`nvidia-smi`)");
        }
        let error = Error::new(
            "W0521",
            format!("the CUDA driver call `{}` failed", failed.call),
        )
        .note(Failed::describe(failed.driver, failed.code));
        match failed.code {
            NOT_INITIALIZED => error.help("CUDA does not work in a process that was forked after it was used: make the world after the fork, or start a new process instead"),
            _ => error.help("if `wuji doctor --gpu-check` finds no problem, please report it"),
        }
    }
}

/// `1.5 GiB`.
pub fn amount(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if size >= 100.0 || size.fract() == 0.0 {
        format!("{size:.0} {}", UNITS[unit])
    } else {
        format!("{size:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_well() {
        let reported = [0, 1000, 1536, 2 << 20, 150_754_820_096, u64::MAX].map(amount);
        let expected = [
            "0 bytes",
            "1000 bytes",
            "1.5 KiB",
            "2 MiB",
            "140 GiB",
            "16777216 TiB",
        ];
        assert_eq!(reported, expected);
    }
}
