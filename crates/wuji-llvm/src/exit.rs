//! Keeps the globals of LLVM alive while a thread uses them.
//!
//! The exit of a process destroys the globals of its libraries while other threads still run. LLVM creates some on first
//! use, for example the table of value types of its instruction selection. A thread that compiles meanwhile reads freed
//! memory: it crashes, or LLVM reports a fatal error about an operation that does not exist. So every use of LLVM is
//! counted, and each destructor waits until no thread uses LLVM.
//!
//! Destructors run in reverse order of registration. For the globals that exist when LLVM is loaded, a handler that is
//! registered afterwards is early enough. The others are intercepted: [`got::redirect`] replaces the function with
//! which LLVM registers them.

use crate::{got, library};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use wuji_ir::{Error, Result};

/// Threads that use LLVM.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many [`Use`]s this thread has.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A use of LLVM by this thread, which the destructors of LLVM's globals wait for.
#[derive(Debug)]
pub(crate) struct Use(());

impl Use {
    /// An error if the process exits.
    pub(crate) fn begin() -> Result<Use> {
        if DEPTH.get() == 0 {
            ACTIVE.fetch_add(1, Ordering::SeqCst);
            if EXITING.load(Ordering::SeqCst) {
                ACTIVE.fetch_sub(1, Ordering::SeqCst);
                return Err(cancelled());
            }
        }
        DEPTH.set(DEPTH.get() + 1);
        wait_at_exit();
        Ok(Use(()))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            ACTIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Ends the uses of a thread that will not run again.
pub(crate) fn abandon() {
    if DEPTH.replace(0) > 0 {
        ACTIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the process exits: compilations are given up.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}

pub(crate) fn cancelled() -> Error {
    Error::new("W0511", "the compilation was cancelled")
}

/// Waits until no other thread uses LLVM: those that do stop after the step they are at. From then on none begins to. For
/// programs that know that they are about to exit; otherwise the exit does it.
pub fn before_exit() {
    EXITING.store(true, Ordering::SeqCst);
    let own = usize::from(DEPTH.get() > 0);
    while ACTIVE.load(Ordering::SeqCst) > own {
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn wait() {
    before_exit();
}

/// Where destructors are not intercepted, each use registers a handler anew, up to this many: LLVM creates most globals
/// while it compiles for the first time.
const MOST_HANDLERS: usize = 256;
static HANDLERS: AtomicUsize = AtomicUsize::new(0);

fn wait_at_exit() {
    let more = |count| (count < MOST_HANDLERS).then_some(count + 1);
    if (HANDLERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)).is_ok() {
        // SAFETY: the handler only accesses counters, and sleeps.
        unsafe { libc::atexit(wait) };
    }
}

type Destructor = extern "C" fn(*mut c_void);
type Register = unsafe extern "C" fn(Destructor, *mut c_void, *mut c_void) -> c_int;

/// `__cxa_atexit` of the C library.
static REGISTER: OnceLock<Register> = OnceLock::new();

/// The destructor of a global.
struct Destroy {
    destructor: Destructor,
    global: *mut c_void,
}

/// Replaces `__cxa_atexit` for LLVM.
extern "C" fn register(destructor: Destructor, global: *mut c_void, library: *mut c_void) -> c_int {
    let Some(register) = REGISTER.get() else {
        return -1;
    };
    let destroy = Box::into_raw(Box::new(Destroy { destructor, global }));
    // SAFETY: the function of the C library; `destroy` gets what it expects, once.
    unsafe { register(wait_and_destroy, destroy.cast(), library) }
}

extern "C" fn wait_and_destroy(destroy: *mut c_void) {
    wait();
    // SAFETY: `register` made the box, and the C library calls this once.
    let destroy = unsafe { Box::from_raw(destroy.cast::<Destroy>()) };
    (destroy.destructor)(destroy.global);
}

/// Must be called once, after LLVM was loaded and before threads use it.
pub(crate) fn watch() {
    extern "C" fn forked() {
        // Of the threads of the parent, only this one exists here.
        ACTIVE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
    }
    // SAFETY: the handler only accesses a counter.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    wait_at_exit();
    if intercept() {
        HANDLERS.store(MOST_HANDLERS, Ordering::Relaxed);
    }
}

/// Covers the globals that LLVM creates from now on, if the library imports `__cxa_atexit`.
fn intercept() -> bool {
    let name = c"__cxa_atexit";
    // SAFETY: looks up a symbol; the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: the function has this type.
    REGISTER.get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, Register>(found) });
    // SAFETY: `register` has the same type, and is part of this program.
    unsafe { got::redirect(library::address(), name, register as *const c_void) }
}

#[cfg(test)]
mod tests {
    use crate::Host;
    use crate::jit::tests::assembly;
    use crate::threads::on_large_stack;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn destructors_of_later_globals_are_intercepted() {
        Host::detect().unwrap();
        assert!(super::intercept());
    }

    /// LLVM creates globals in the first compilation of the process, and uses them in the second, during the exit. The
    /// test starts itself.
    #[test]
    fn exit_waits_for_threads_that_use_llvm() {
        const CHILD: &str = "WUJI_TEST_EXIT_WHILE_LLVM_RUNS";
        if std::env::var_os(CHILD).is_some() {
            exit_while_llvm_runs();
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "exit::tests::exit_waits_for_threads_that_use_llvm",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(7), "{child:?}");
        let text = String::from_utf8_lossy(&child.stderr);
        assert_eq!(text, "the same code\nW0511\n", "{child:?}");
    }

    const IR: &str = "define <6 x double> @f(<6 x double> %a, <6 x double> %b) {\n%c = fadd <6 x double> %a, %b\nret <6 x double> %c\n}\n";

    fn exit_while_llvm_runs() -> ! {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            on_large_stack(move || {
                let before = assembly(IR)?;
                let _ = sender.send(());
                while !super::is_exiting() {
                    std::thread::yield_now();
                }
                // Long enough for destructors that do not wait.
                std::thread::sleep(Duration::from_millis(100));
                let same = assembly(IR)? == before;
                eprintln!("{} code", if same { "the same" } else { "other" });
                // Another thread may not begin to use LLVM.
                let error = on_large_stack(|| assembly(IR)).unwrap_err();
                eprintln!("{}", error.code);
                Ok(())
            })
        });
        let _ = receiver.recv();
        std::process::exit(7);
    }
}
