//! Threads that run LLVM. They survive its fatal errors.
//!
//! LLVM ends the process on a fatal error, unless its handler does not return. Ours reports the error to the thread that
//! waits, and then sleeps forever: unwinding through LLVM is not possible. The thread, its stack and its LLVM context are
//! lost. It holds no lock: LLVM releases that of the handler before the call, and every compilation has a context and a
//! target machine of its own.

use crate::exit::{self, Use};
use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;
use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use wuji_ir::{Error, Result};

/// LLVM recurses deeply on long expressions; its threads get this much stack.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    /// Where a fatal error on this thread is reported to.
    static WAITING: RefCell<Option<Sender<String>>> = const { RefCell::new(None) };
}

/// A thread that runs LLVM.
struct Running<T> {
    thread: JoinHandle<Result<T>>,
    /// A fatal error; disconnected when the thread ends.
    fatal: Receiver<String>,
}

/// Runs `work` on a thread with enough stack for LLVM.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = on_threads(vec![work]).pop();
    done.unwrap_or_else(|| Err(Error::new("W0507", "cannot start a compiler thread")))
}

/// Runs each work on a thread of its own, and waits for all of them.
pub(crate) fn on_threads<T: Send, W: FnOnce() -> Result<T> + Send>(work: Vec<W>) -> Vec<Result<T>> {
    // SAFETY: this function waits for all threads that it has started, and does not panic in between.
    let started: Vec<Result<Running<T>>> = work.into_iter().map(|w| unsafe { start(w) }).collect();
    started.into_iter().map(|s| s.and_then(wait)).collect()
}

/// # Safety
/// The caller calls [`wait`] before anything that `work` borrows ends.
unsafe fn start<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<Running<T>> {
    let (sender, fatal) = channel();
    let body = move || {
        WAITING.with(|w| w.replace(Some(sender)));
        let _use = Use::begin()?;
        work()
    };
    let builder = Builder::new()
        .name("wuji-compile".into())
        .stack_size(STACK_BYTES);
    // SAFETY: the thread ends before what it borrows, or never uses it again.
    let thread = unsafe { builder.spawn_unchecked(body) }
        .map_err(|e| Error::new("W0507", "cannot start a compiler thread").note(e.to_string()))?;
    Ok(Running { thread, fatal })
}

/// Waits until a thread ends, or will not run again.
fn wait<T>(running: Running<T>) -> Result<T> {
    match running.fatal.recv() {
        Ok(reason) => Err(Error::new("W0503", "LLVM could not compile the kernel").note(reason)),
        Err(_) => running
            .thread
            .join()
            .unwrap_or_else(|_| Err(Error::new("W0507", "a compiler thread has panicked"))),
    }
}

/// Makes LLVM report its fatal errors to the threads that wait. For the whole process.
pub(crate) fn catch_fatal_errors() {
    // SAFETY: the handler may be called on every thread.
    unsafe { LLVMInstallFatalErrorHandler(Some(fatal)) };
}

extern "C" fn fatal(reason: *const c_char) {
    // SAFETY: LLVM passes a C string.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    let waiting = WAITING.try_with(|w| w.try_borrow_mut().ok()?.take());
    let Ok(Some(waiting)) = waiting else {
        // Not a thread of ours: LLVM ends the process, and prints nothing where there is a handler.
        let _ = writeln!(std::io::stderr(), "LLVM ERROR: {reason}");
        return;
    };
    exit::abandon();
    let _ = waiting.send(reason.trim_end().to_owned());
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::tests::{assembly, check};

    const LEGAL: &str = "define i32 @f() { ret i32 1 }\n";

    /// An intrinsic of a GPU represents everything that instruction selection does not know.
    const ILLEGAL: &str = "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\ndefine i32 @f() {\n%v = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\nret i32 %v\n}\n";

    #[test]
    fn a_fatal_error_of_llvm_is_an_error_and_other_threads_continue() {
        for _ in 0..3 {
            let ir = vec![LEGAL, ILLEGAL, LEGAL];
            let mut done = on_threads(ir.into_iter().map(|ir| || assembly(ir)).collect());
            assert!(done.pop().unwrap().is_ok());
            check(
                &done.pop().unwrap().unwrap_err(),
                "error[W0503]: LLVM could not compile the kernel\n  = note: Cannot select: intrinsic %llvm.nvvm.read.ptx.sreg.tid.x",
            );
            assert!(done.pop().unwrap().is_ok());
        }
    }

    #[test]
    fn a_panic_of_the_compiler_is_an_error() {
        let error = on_large_stack::<()>(|| std::panic::panic_any("on purpose")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error[W0507]: a compiler thread has panicked"
        );
    }
}
