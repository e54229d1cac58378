//! The lock of a device.

use crate::backend::cpu::pool::forks;
use crate::interrupt::{self, PERIOD};
use crate::print_sink::PrintSink;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wuji_ir::{Error, Result};

/// Orders everything that happens to the memory of one device. A launch holds it from start to end; the host holds it
/// while it accesses bytes.
///
/// A thread that waits for it polls its interrupt callback. A thread that holds it and asks for it
/// again gets an error: that is the handler of a signal that arrived during a launch.
#[derive(Debug)]
pub(crate) struct DeviceLock {
    state: Mutex<LockState>,
    freed: Condvar,
    /// How often the process had been forked before. The threads of a parent process never free what they hold in the child's copy.
    forks: u32,
    /// Bytes of all memory that is alive.
    pub(super) used: AtomicU64,
    /// Receives the lines that kernels print.
    pub(crate) print_sink: Arc<PrintSink>,
}

#[derive(Debug, Default)]
struct LockState {
    /// The thread that holds it.
    holder: Option<usize>,
    waiting: usize,
    /// Launches so far.
    launches: u64,
}

/// The lock, held by this thread. It is the number of launches so far.
#[derive(Debug)]
pub(crate) struct DeviceGuard<'a> {
    lock: &'a DeviceLock,
    launches: u64,
}

impl Deref for DeviceGuard<'_> {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.launches
    }
}

impl DerefMut for DeviceGuard<'_> {
    fn deref_mut(&mut self) -> &mut u64 {
        &mut self.launches
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.launches = self.launches;
        state.holder = None;
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.lock.freed.notify_one();
        }
    }
}

/// A number of this thread.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Default for DeviceLock {
    fn default() -> DeviceLock {
        DeviceLock::new(&Arc::default())
    }
}

impl DeviceLock {
    pub(crate) fn new(print_sink: &Arc<PrintSink>) -> DeviceLock {
        DeviceLock {
            state: Mutex::default(),
            freed: Condvar::new(),
            forks: forks(),
            used: AtomicU64::new(0),
            print_sink: print_sink.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, LockState> {
        // Nothing that runs under the lock leaves memory in a state that others may not see.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error in a process that was forked after the device was made.
    pub(crate) fn ensure_not_forked(&self) -> Result<()> {
        if self.forks == forks() {
            return Ok(());
        }
        Err(Error::new(
            "W0509",
            "this process was forked after its world had been made",
        )
        .note("only the thread that forks goes on in the new process")
        .help("make a new world after the fork, or start the process anew"))
    }

    pub(crate) fn launches(&self) -> u64 {
        self.state().launches
    }

    pub(crate) fn set_launches(&self, launches: u64) {
        self.state().launches = launches;
    }

    /// Waits for the lock.
    pub(crate) fn take(&self) -> Result<DeviceGuard<'_>> {
        self.ensure_not_forked()?;
        let here = this_thread();
        let mut state = self.state();
        while let Some(holder) = state.holder {
            if holder == here {
                return Err(Error::new(
                    "W0135",
                    "this world is used while a kernel of it runs on the same thread",
                )
                .note("the handler of a signal runs in the middle of the kernel, which goes on afterwards")
                .help("let the handler set a flag or raise an exception, and use the world after the kernel"));
            }
            state = self.wait(state)?;
        }
        state.holder = Some(here);
        Ok(DeviceGuard {
            lock: self,
            launches: state.launches,
        })
    }

    /// Waits until the lock may be free.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, LockState>,
    ) -> Result<MutexGuard<'a, LockState>> {
        state.waiting += 1;
        if !interrupt::is_polled() {
            let woken = self.freed.wait(state);
            let mut state = woken.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            return Ok(state);
        }
        let woken = self.freed.wait_timeout(state, PERIOD);
        let (mut state, waited) = woken.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        if !waited.timed_out() || state.holder.is_none() {
            return Ok(state);
        }
        drop(state);
        if !interrupt::poll() {
            // Another thread may have been left asleep for us.
            self.freed.notify_one();
            return Err(interrupt::interrupted());
        }
        Ok(self.state())
    }

    /// Bytes of all live memory.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn a_thread_cannot_take_it_twice() {
        let lock = DeviceLock::default();
        let mut first = lock.take().unwrap();
        *first += 1;
        assert_eq!(lock.take().unwrap_err().code, "W0135");
        drop(first);
        assert_eq!(*lock.take().unwrap(), 1);
    }

    #[test]
    fn threads_take_turns() {
        let lock = DeviceLock::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *lock.take().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.take().unwrap(), 8000);
    }

    #[test]
    fn waiting_can_be_given_up() {
        let (lock, held) = (DeviceLock::default(), AtomicBool::new(false));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock.take().unwrap();
                held.store(true, Ordering::SeqCst);
                while !done.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            while !held.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let error = interrupt::with_poll(&|| false, || lock.take().map(|_| ()).unwrap_err());
            assert_eq!(error.code, "W0405");
            done.store(true, Ordering::SeqCst);
        });
        assert!(lock.take().is_ok());
    }
}
