//! Work on all cores.

use std::ops::Range;
use std::thread::{ScopedJoinHandle, available_parallelism, scope};

/// The result of a thread. A panic in it continues here.
pub(crate) fn join<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    thread
        .join()
        .unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Divides a range into consecutive parts of at least `least` numbers, one per core, and works on them at the same time. Results are in
/// the order of the parts.
pub(crate) fn parts<R: Send>(
    count: usize,
    least: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let cores = available_parallelism().map_or(1, usize::from);
    divided(count, (count / least.max(1)).clamp(1, cores), work)
}

/// As [`parts`], with a number of threads.
pub(crate) fn divided<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let part = |n: usize| count * n / threads..count * (n + 1) / threads;
    if threads == 1 {
        return vec![work(part(0))];
    }
    scope(|scope| {
        let work = &work;
        let started: Vec<_> = (0..threads)
            .map(|n| scope.spawn(move || work(part(n))))
            .collect();
        started.into_iter().map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_in_order() {
        for count in [0, 1, 7, 100] {
            for threads in [1, 2, 3, 8] {
                let found = divided(count, threads, |range| range.collect::<Vec<usize>>());
                assert_eq!(found.concat(), (0..count).collect::<Vec<usize>>());
                assert_eq!(found.len(), threads);
            }
        }
        assert_eq!(parts(10, 100, |range| range.len()), [10]);
    }
}
