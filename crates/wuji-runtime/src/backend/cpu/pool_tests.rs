use super::*;
use std::sync::atomic::{AtomicI64, AtomicUsize};

/// Checks that every unit runs exactly once.
fn check_cover(pool: &Pool, total: i64, grain: i64) {
    let hits: Vec<AtomicU32> = (0..total).map(|_| AtomicU32::new(0)).collect();
    pool.run(total, grain, &|begin, end| {
        assert!(begin < end);
        for i in begin..end {
            hits[i as usize].fetch_add(1, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
}

#[test]
fn every_unit_runs_once() {
    for threads in [0, 1, 2, 3, 8, 33] {
        let pool = Pool::new(threads).unwrap();
        assert_eq!(pool.threads(), threads.max(1));
        for (total, grain) in [
            (1, 1),
            (7, 3),
            (1000, 1),
            (1000, 64),
            (1000, 5000),
            (4096, 0),
        ] {
            check_cover(&pool, total, grain);
        }
        pool.run(0, 1, &|_, _| panic!("nothing to do")).unwrap();
        pool.run(-5, 1, &|_, _| panic!("nothing to do")).unwrap();
    }
}

#[test]
fn huge_ranges_do_not_overflow() {
    let pool = Pool::new(3).unwrap();
    let (sum, calls) = (AtomicI64::new(0), AtomicUsize::new(0));
    pool.run(i64::MAX, i64::MAX, &|begin, end| {
        sum.fetch_add(end - begin, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(sum.into_inner(), i64::MAX);
    assert_eq!(calls.into_inner(), 3);
}

#[test]
fn many_short_launches() {
    for threads in [2, 4] {
        let pool = Pool::new(threads).unwrap();
        let sum = AtomicI64::new(0);
        for round in 0..20_000 {
            pool.run(16, 1, &|begin, end| {
                sum.fetch_add(end - begin, Ordering::Relaxed);
            })
            .unwrap();
            if round % 1000 == 0 {
                // Let the workers fall asleep now and then.
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        assert_eq!(sum.into_inner(), 20_000 * 16);
    }
}

#[test]
fn launches_of_several_threads_take_turns() {
    let pool = Pool::new(3).unwrap();
    let running = AtomicU32::new(0);
    let sum = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let id = std::thread::current().id();
                    let owner = Mutex::new(id);
                    pool.run(64, 4, &|begin, end| {
                        assert!(*owner.lock().unwrap() == id);
                        running.fetch_add(1, Ordering::Relaxed);
                        sum.fetch_add(end - begin, Ordering::Relaxed);
                        assert!(running.fetch_sub(1, Ordering::Relaxed) <= 3);
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 4 * 500 * 64);
}

#[test]
fn a_launch_inside_a_launch_runs_on_its_own_thread() {
    let pool = Pool::new(3).unwrap();
    let sum = AtomicI64::new(0);
    pool.run(8, 1, &|_, _| {
        pool.run(100, 10, &|begin, end| {
            sum.fetch_add(end - begin, Ordering::Relaxed);
        })
        .unwrap();
    })
    .unwrap();
    assert_eq!(sum.into_inner(), 800);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
    let pool = Pool::new(3).unwrap();
    for _ in 0..50 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, 1, &|begin, _| {
                if begin % 10 == 3 {
                    resume_unwind(Box::new("unit failed"));
                }
            })
        }));
        let payload = caught.expect_err("the panic is propagated");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"unit failed"));
        check_cover(&pool, 100, 1);
    }
}

#[test]
fn dropping_ends_the_threads() {
    let pool = Pool::new(20).unwrap();
    check_cover(&pool, 1000, 1);
    // Every thread holds a reference to the shared state.
    let shared = Arc::downgrade(&pool.shared);
    assert!(shared.strong_count() > 1);
    drop(pool);
    assert_eq!(shared.strong_count(), 0);
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    // SAFETY: the struct is plain data that the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        let time = |t: libc::timeval| {
            Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    }
}

/// Needs its own process: `cargo test -p wuji-runtime idle -- --ignored --nocapture`.
#[test]
#[ignore = "measures; run it alone"]
fn idle_pools_take_no_time() {
    let pool = Pool::new(Pool::default_threads()).unwrap();
    check_cover(&pool, 1000, 1);
    std::thread::sleep(Duration::from_millis(50));
    let (before, clock) = (cpu_time(), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let share = (cpu_time() - before).as_secs_f64() / clock.elapsed().as_secs_f64();
    println!("idle: {:.4}% of one core", share * 100.0);
    assert!(share < 0.01);
}

/// Prints the cost of a launch; the assertion is loose, since tests share the machine.
#[test]
fn launches_are_cheap() {
    let pool = Pool::new(Pool::default_threads()).unwrap();
    let mut data = vec![1f32; 1024];
    let address = data.as_mut_ptr() as usize;
    let work = |begin: i64, end: i64| {
        // SAFETY: the pieces do not overlap and lie inside `data`.
        let part = unsafe {
            std::slice::from_raw_parts_mut(
                (address as *mut f32).add(begin as usize),
                (end - begin) as usize,
            )
        };
        part.iter_mut().for_each(|x| *x *= 1.0001);
    };
    let median = |pause: Duration, rounds: usize, grain: i64| {
        let mut times: Vec<Duration> = (0..rounds)
            .map(|_| {
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
                let start = Instant::now();
                pool.run(1024, grain, &work).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let hot = median(Duration::ZERO, 5000, 256);
    let cold = median(Duration::from_micros(300), 300, 256);
    let alone = median(Duration::ZERO, 5000, 1024);
    println!("1024 elements: {hot:?} back to back, {cold:?} after sleep, {alone:?} in one chunk");
    assert!(hot < Duration::from_millis(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_process_gets_an_error() {
    let pool = Pool::new(2).unwrap();
    check_cover(&pool, 100, 1);
    // SAFETY: the child only uses this thread, and leaves without running destructors.
    let code = unsafe {
        let child = libc::fork();
        if child == 0 {
            let refused = pool.run(100, 1, &|_, _| {});
            let alone = pool.run(1, 1, &|_, _| {});
            let ok = refused.is_err_and(|e| e.code == "W0509") && alone.is_ok();
            drop(pool);
            libc::_exit(if ok { 0 } else { 1 });
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(code, 0);
    check_cover(&pool, 100, 1);
}

#[test]
fn shares_are_every_chunk_once() {
    for (total, grain) in [
        (1, 1),
        (5, 2),
        (1000, 7),
        (1 << 40, 1 << 20),
        (u64::MAX >> 1, 3),
    ] {
        for shares in [1, 2, 3, 16] {
            let cut = Cut {
                total,
                grain,
                shares,
            };
            assert_eq!(cut.first(0), 0);
            assert_eq!(cut.first(shares), total.div_ceil(grain));
            assert!((0..shares).all(|s| cut.first(s) <= cut.first(s + 1)));
            let (begin, end) = cut.units(cut.first(shares) - 1);
            assert!(begin < end && end as u64 == total);
        }
    }
}

/// Checks work stealing: a thread whose share is empty takes chunks from others.
#[test]
fn a_thread_that_is_done_takes_from_others() {
    let pool = Pool::new(3).unwrap();
    let slow = AtomicUsize::new(usize::MAX);
    let taken: Vec<AtomicUsize> = (0..90).map(|_| AtomicUsize::new(usize::MAX)).collect();
    pool.run_on(3, 90, 1, None, &|worker, begin, _| {
        taken[begin as usize].store(worker, Ordering::Relaxed);
        // The first worker takes long.
        let first = slow.compare_exchange(usize::MAX, worker, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
    .unwrap();
    assert!(taken.iter().all(|t| t.load(Ordering::Relaxed) < 3));
}

#[test]
fn a_stopped_launch_skips_what_is_left() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        let stop = AtomicU32::new(0);
        let ran = AtomicU64::new(0);
        // More chunks than could be looked at one by one.
        let work = |_: usize, _: i64, _: i64| {
            ran.fetch_add(1, Ordering::Relaxed);
            stop.store(1, Ordering::Relaxed);
        };
        pool.run_on(usize::MAX, i64::MAX, 1 << 10, Some(&stop), &work)
            .unwrap();
        assert!(ran.into_inner() <= threads as u64);
    }
}

#[test]
fn a_closed_pool_has_no_threads_and_still_runs() {
    let pool = Pool::new(4).unwrap();
    pool.close();
    pool.close();
    assert!(pool.handles().is_empty());
    let sum = AtomicI64::new(0);
    let add = |begin: i64, end: i64| {
        sum.fetch_add((begin..end).sum::<i64>(), Ordering::Relaxed);
    };
    pool.run(1000, 10, &add).unwrap();
    assert_eq!(sum.into_inner(), 499_500);
}
