//! Compiled code runs where the stack has room for its frames, and so does the compiler.
//!
//! The compiler knows how much stack a task takes, and users' threads may have very small stacks. Where the calling thread has no
//! room, another thread with a stack of its own runs the code.

use crate::interrupt::park_until;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread};
use wuji_ir::{Error, Result};

/// What compiled code calls needs room, too: libm, reports, and the callback of the thread.
const RESERVE: u64 = 32 << 10;

/// The stack of a thread that is started here, if that is enough. It costs address space only.
const USUAL: u64 = 8 << 20;

thread_local! {
    /// The lowest usable address of this thread's stack; 0 before the first query.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread's stack has room for so many bytes.
pub(crate) fn has_room(bytes: u64) -> bool {
    let lowest = match LOWEST.get() {
        0 => {
            let found = lowest().unwrap_or(usize::MAX);
            LOWEST.set(found);
            found
        }
        known => known,
    };
    let here = (&raw const lowest).addr();
    // On the stack of a coroutine the distance is meaningless: no room at all, or more than any stack has.
    here.saturating_sub(lowest) as u64 >= bytes.saturating_add(RESERVE)
}

/// The lowest address of this thread's stack, above its guard pages.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut base, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: the attributes are initialized by the first call if that returns 0, and then destroyed.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut base, &raw mut size)
            == 0
            && libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        found.then(|| base.addr() + guard)
    }
}

/// The lowest address of this thread's stack.
#[cfg(not(target_os = "linux"))]
fn lowest() -> Option<usize> {
    // SAFETY: these calls only read what the system knows about this thread.
    let (top, size) = unsafe {
        let thread = libc::pthread_self();
        (
            libc::pthread_get_stackaddr_np(thread).addr(),
            libc::pthread_get_stacksize_np(thread),
        )
    };
    top.checked_sub(size)
}

/// Runs `work` on this thread if its stack has room for so many bytes, and else on another one while this one waits.
pub(crate) fn with_room<R: Send>(bytes: u64, work: impl FnOnce() -> R + Send) -> Result<R> {
    if has_room(bytes) {
        return Ok(work());
    }
    on_large_stack(bytes, work)
}

/// Runs the code of a launch on stacks that have room for it.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// Why some code could not run.
    failed: OnceLock<Error>,
}

impl Stacks {
    /// Runs `work`, which takes so many bytes of stack, as [`with_room`] does. After a failure it does nothing.
    pub(crate) fn run(&self, bytes: u64, work: impl FnOnce() + Send) {
        if self.failed.get().is_none()
            && let Err(error) = with_room(bytes, work)
        {
            // Another thread may have failed before.
            let _ = self.failed.set(error);
        }
    }

    /// An error if some code could not run.
    pub(crate) fn finish(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// Wakes the thread that waits, also after a panic.
struct Done<'a>(&'a AtomicBool, Thread);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

fn on_large_stack<R: Send>(bytes: u64, work: impl FnOnce() -> R + Send) -> Result<R> {
    let size = bytes.saturating_add(2 * RESERVE).max(USUAL) as usize;
    let is_done = AtomicBool::new(false);
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        let started = Builder::new()
            .name("wuji-stack".into())
            .stack_size(size)
            .spawn_scoped(scope, || {
                let _done = Done(&is_done, caller);
                work()
            });
        let thread = started.map_err(|e| {
            Error::new(
                "W0508",
                format!("cannot start a thread with {size} bytes of stack"),
            )
            .note(e.to_string())
            .note("the stack of the calling thread has no room for the kernel or its compilation")
            .help("use a thread with a larger stack")
        })?;
        park_until(|| is_done.load(Ordering::Acquire));
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    /// The thread that runs work which takes so many bytes, and the one that asks for it.
    fn threads(bytes: u64) -> (ThreadId, ThreadId) {
        let stacks = Stacks::default();
        let mut ran = None;
        stacks.run(bytes, || ran = Some(std::thread::current().id()));
        stacks.finish().unwrap();
        (ran.unwrap(), std::thread::current().id())
    }

    #[test]
    fn what_does_not_fit_runs_elsewhere() {
        let small = Builder::new().stack_size(256 << 10);
        let small = small.spawn(|| {
            let (ran, own) = threads(64 << 10);
            assert_eq!(ran, own);
            let (ran, own) = threads(240 << 10);
            assert_ne!(ran, own);
        });
        small.unwrap().join().unwrap();
        let (ran, own) = threads(1 << 10);
        assert_eq!(ran, own);
    }

    // Inlined, its array would be in the frame of the small thread.
    #[inline(never)]
    fn sum_of_large_array() -> usize {
        let mut array = [1u8; 1 << 20];
        std::hint::black_box(&mut array);
        array.iter().map(|b| usize::from(*b)).sum()
    }

    #[test]
    fn the_other_thread_has_room() {
        let small = Builder::new().stack_size(128 << 10);
        let small = small.spawn(|| {
            let stacks = Stacks::default();
            let mut sum = 0usize;
            stacks.run(1 << 20, || sum = sum_of_large_array());
            assert_eq!(sum, 1 << 20);
            stacks.finish().unwrap();
        });
        small.unwrap().join().unwrap();
    }

    #[test]
    fn a_stack_that_cannot_be_made_is_an_error() {
        let stacks = Stacks::default();
        stacks.run(1 << 60, || unreachable!("no stack is so large"));
        stacks.run(1 << 60, || unreachable!("no stack is so large"));
        let error = stacks.finish().unwrap_err();
        assert_eq!(error.code, "W0508");
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let outcome = std::thread::spawn(|| {
            Stacks::default().run(64 << 20, || std::panic::panic_any("on purpose"));
        });
        assert!(outcome.join().is_err());
    }
}
