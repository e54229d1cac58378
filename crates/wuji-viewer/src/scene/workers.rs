//! Runs jobs on all processor cores.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// The results of all jobs, in order. Jobs start in order.
pub(super) fn parallel<J: Send, R: Send>(jobs: Vec<J>, run: impl Fn(J) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = cores.min(jobs.len());
    if workers < 2 {
        return jobs.into_iter().map(run).collect();
    }
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || {
        let mut results = Vec::new();
        loop {
            // The guard is dropped before the job runs.
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, job)) = next else { break };
            results.push((number, run(job)));
        }
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.append(&mut results);
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Without another thread, this one does the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 7, 1000] {
            let jobs: Vec<usize> = (0..count).collect();
            let squares = parallel(jobs, |n| n * n);
            assert!(squares.iter().enumerate().all(|(n, s)| *s == n * n));
            assert_eq!(squares.len(), count);
        }
    }
}
