//! The thread pool of the references: a fixed number of threads, kept between calls, each with a fixed share of the
//! work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, Thread};

/// The function that workers call, as a pointer that is valid until `run` returns.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointee is `Sync`, and `run` keeps it alive until every worker is done with it.
unsafe impl Send for Job {}

struct Board {
    job: Option<Job>,
    /// The thread that waits for the job.
    caller: Option<Thread>,
    stop: bool,
}

struct Shared {
    board: Mutex<Board>,
    wake: Condvar,
    /// Number of the latest job. Workers spin on it briefly before they sleep.
    epoch: AtomicUsize,
    /// Workers that have not finished the latest job.
    pending: AtomicUsize,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A set of threads. The calling thread is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads())
            .finish()
    }
}

/// Iterations of the spin loop before a thread sleeps: some tens of microseconds.
const SPINS: usize = 1000;

impl Pool {
    pub fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            board: Mutex::new(Board {
                job: None,
                caller: None,
                stop: false,
            }),
            wake: Condvar::new(),
            epoch: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
        });
        let workers = (1..threads)
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || work(&shared, number))
            })
            .collect();
        Pool { shared, workers }
    }

    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f` once per thread, with the number of the thread.
    pub fn run(&self, f: impl Fn(usize) + Sync) {
        let f: &(dyn Fn(usize) + Sync) = &f;
        // SAFETY: only the lifetime changes; the pointer is dead once `pending` is zero, which is awaited below,
        // also when `f` unwinds on this thread.
        let job = Job(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(f)
        });
        self.shared
            .pending
            .store(self.workers.len(), Ordering::Relaxed);
        {
            let mut board = self.shared.board();
            board.job = Some(job);
            board.caller = Some(std::thread::current());
            self.shared.epoch.fetch_add(1, Ordering::Release);
        }
        self.shared.wake.notify_all();
        let _wait = WaitForAll(&self.shared);
        f(0);
    }

    /// Splits `data` into one range per thread, each a multiple of `unit`, and calls `f(offset, range)`.
    pub fn split<T: Send>(&self, data: &mut [T], unit: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        let units = data.len().div_ceil(unit);
        let threads = self.threads();
        let (length, base) = (data.len(), Base(data.as_mut_ptr()));
        self.run(|thread| {
            let begin = (units * thread / threads * unit).min(length);
            let end = (units * (thread + 1) / threads * unit).min(length);
            // SAFETY: ranges of different threads do not overlap and lie within `data`, which is borrowed mutably.
            f(begin, unsafe { base.range(begin, end) });
        });
    }

    /// Like `split`, but threads take one unit after another until none is left.
    pub fn share<T: Send>(&self, data: &mut [T], unit: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        let next = AtomicUsize::new(0);
        let (length, base) = (data.len(), Base(data.as_mut_ptr()));
        self.run(|_| {
            loop {
                let begin = next.fetch_add(1, Ordering::Relaxed) * unit;
                if begin >= length {
                    break;
                }
                // SAFETY: each unit is taken once and lies within `data`, which is borrowed mutably.
                f(begin, unsafe {
                    base.range(begin, (begin + unit).min(length))
                });
            }
        });
    }

    /// Calls `f` on one item per thread.
    pub fn each<T: Send>(&self, items: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
        assert_eq!(items.len(), self.threads(), "one item per thread");
        self.split(items, 1, |at, part| {
            for (i, item) in part.iter_mut().enumerate() {
                f(at + i, item);
            }
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let mut board = self.shared.board();
            board.stop = true;
            self.shared.epoch.fetch_add(1, Ordering::Release);
        }
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has already printed its message.
            let _ = worker.join();
        }
    }
}

struct WaitForAll<'a>(&'a Shared);

impl Drop for WaitForAll<'_> {
    fn drop(&mut self) {
        let mut turns = 0;
        while self.0.pending.load(Ordering::Acquire) != 0 {
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

/// Counts a worker out, also when it unwinds.
struct Finished<'a> {
    shared: &'a Shared,
    caller: Option<Thread>,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        if self.shared.pending.fetch_sub(1, Ordering::Release) == 1
            && let Some(caller) = self.caller.take()
        {
            caller.unpark();
        }
    }
}

fn work(shared: &Shared, number: usize) {
    let mut seen = 0;
    loop {
        let mut turns = 0;
        while shared.epoch.load(Ordering::Acquire) == seen && turns < SPINS {
            turns += 1;
            std::hint::spin_loop();
        }
        let (job, caller) = {
            let mut board = shared.board();
            while shared.epoch.load(Ordering::Acquire) == seen {
                board = shared
                    .wake
                    .wait(board)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if board.stop {
                return;
            }
            seen = shared.epoch.load(Ordering::Acquire);
            (board.job, board.caller.clone())
        };
        let _finished = Finished { shared, caller };
        if let Some(Job(f)) = job {
            // SAFETY: `run` keeps the closure alive until `pending` is zero.
            unsafe { (*f)(number) }
        }
    }
}

#[derive(Clone, Copy)]
struct Base<T>(*mut T);

// SAFETY: an address; `range` states the obligations of its callers.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    /// # Safety
    /// The range lies within the allocation, which is borrowed mutably, and no other thread uses it during the borrow.
    #[allow(clippy::mut_from_ref)]
    unsafe fn range(&self, begin: usize, end: usize) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(begin), end - begin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_visited_once() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            for length in [0, 1, 7, 1000] {
                let mut data = vec![0usize; length];
                pool.split(&mut data, 3, |at, part| {
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += at + i)
                });
                pool.share(&mut data, 3, |at, part| {
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += at + i)
                });
                assert!(data.iter().enumerate().all(|(i, x)| *x == 2 * i));
            }
            let mut counts = vec![0; threads];
            pool.each(&mut counts, |thread, count| *count += thread + 1);
            assert_eq!(counts, (1..=threads).collect::<Vec<_>>());
        }
    }
}
