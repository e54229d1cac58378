//! Tries one seed after another on all cores.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a campaign tries.
pub trait Campaign: Sync {
    type Failure;

    /// Tries the input of a seed.
    fn attempt(&self, seed: u64) -> Attempt<Self::Failure>;

    /// Failures with the same key have the same cause, as far as is known; `None` where each may have its own.
    fn key(&self, failure: &Self::Failure) -> Option<String>;

    /// The smallest input that fails in the same way.
    fn shrink(&self, seed: u64, failure: Self::Failure) -> Finding;
}

/// How one attempt ended.
#[derive(Debug)]
pub enum Attempt<F> {
    Agreed,
    /// Nothing could be compared: the input runs for too long, or is refused as it should be.
    Skipped,
    Failed(F),
}

/// A failure, for people.
#[derive(Clone, Debug)]
pub struct Finding {
    pub why: String,
    /// A file that reproduces it.
    pub file: String,
}

/// When a campaign ends, and where it keeps its findings.
#[derive(Clone, Debug)]
pub struct Limits {
    pub first_seed: u64,
    pub time: Duration,
    pub attempts: u64,
    pub threads: usize,
    pub keep_going: bool,
    /// Print the counts every ten seconds.
    pub progress: bool,
    pub folder: PathBuf,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            first_seed: 1,
            time: Duration::from_secs(60),
            attempts: u64::MAX,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            keep_going: false,
            progress: false,
            folder: PathBuf::from("target/fuzz"),
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub attempts: u64,
    pub skipped: u64,
    pub failures: u64,
    pub time: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(
            f,
            "{} tried ({} not compared) in {seconds:.1} s, {:.0} a second, {} failures",
            self.attempts,
            self.skipped,
            self.attempts as f64 / seconds.max(1e-3),
            self.failures
        )
    }
}

/// Runs a campaign; `found` gets each new failure, shrunk.
pub fn run<C: Campaign>(
    campaign: &C,
    limits: &Limits,
    found: impl Fn(u64, Finding) + Sync,
) -> Tally {
    let start = Instant::now();
    let state = State {
        next: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        over: AtomicBool::new(false),
        seen: Mutex::new(HashSet::new()),
    };
    let tally = || Tally {
        attempts: state.next.load(Ordering::Relaxed).min(limits.attempts),
        skipped: state.skipped.load(Ordering::Relaxed),
        failures: state.failures.load(Ordering::Relaxed),
        time: start.elapsed(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..limits.threads.max(1))
            .map(|number| {
                let (state, found) = (&state, &found);
                // Passes recurse over nested regions: as deep as on the main thread.
                let worker = std::thread::Builder::new().stack_size(64 << 20);
                worker.spawn_scoped(scope, move || {
                    work(campaign, limits, state, start, number, found);
                })
            })
            .collect();
        if workers.iter().all(Result::is_err) {
            work(campaign, limits, &state, start, 0, &found);
        }
        let running = || workers.iter().flatten().any(|w| !w.is_finished());
        let mut shown = start;
        while limits.progress && running() {
            std::thread::sleep(Duration::from_millis(100));
            if shown.elapsed() > Duration::from_secs(10) {
                shown = Instant::now();
                println!("{}", tally());
            }
        }
    });
    tally()
}

/// What workers share.
struct State {
    next: AtomicU64,
    skipped: AtomicU64,
    failures: AtomicU64,
    over: AtomicBool,
    /// Keys of failures that were reported.
    seen: Mutex<HashSet<String>>,
}

fn work<C: Campaign>(
    campaign: &C,
    limits: &Limits,
    state: &State,
    start: Instant,
    number: usize,
    found: &impl Fn(u64, Finding),
) {
    let running = running(&limits.folder, number);
    while start.elapsed() < limits.time && !state.over.load(Ordering::Relaxed) {
        let count = state.next.fetch_add(1, Ordering::Relaxed);
        if count >= limits.attempts {
            break;
        }
        let seed = limits.first_seed.wrapping_add(count);
        if let Some(file) = &running {
            let _ = file.write_all_at(format!("{seed:<20}\n").as_bytes(), 0);
        }
        match campaign.attempt(seed) {
            Attempt::Agreed => {}
            Attempt::Skipped => {
                state.skipped.fetch_add(1, Ordering::Relaxed);
            }
            Attempt::Failed(failure) => {
                state.failures.fetch_add(1, Ordering::Relaxed);
                state.over.fetch_or(!limits.keep_going, Ordering::Relaxed);
                let is_new = match (campaign.key(&failure), state.seen.lock()) {
                    (Some(key), Ok(mut seen)) => seen.insert(key),
                    (None, _) | (_, Err(_)) => true,
                };
                if is_new {
                    found(seed, campaign.shrink(seed, failure));
                }
            }
        }
    }
    let _ = std::fs::remove_file(running_path(&limits.folder, number));
}

/// Where a worker keeps its seed, which is left behind if the process dies.
fn running_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("running-{number}"))
}

fn running(folder: &Path, number: usize) -> Option<File> {
    std::fs::create_dir_all(folder).ok()?;
    File::create(running_path(folder, number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every seventh seed fails, every third cannot be compared.
    struct Sevens;

    impl Campaign for Sevens {
        type Failure = u64;

        fn attempt(&self, seed: u64) -> Attempt<u64> {
            match (seed % 7, seed % 3) {
                (0, _) => Attempt::Failed(seed),
                (_, 0) => Attempt::Skipped,
                _ => Attempt::Agreed,
            }
        }

        fn key(&self, failure: &u64) -> Option<String> {
            Some((failure % 2).to_string())
        }

        fn shrink(&self, seed: u64, failure: u64) -> Finding {
            Finding {
                why: format!("{seed} is a multiple of 7"),
                file: failure.to_string(),
            }
        }
    }

    /// In a folder of its own for each test.
    fn limits(test: &str) -> Limits {
        let name = format!("wuji-campaign-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        Limits {
            attempts: 100,
            threads: 3,
            folder,
            ..Limits::default()
        }
    }

    #[test]
    fn counts_every_attempt_and_reports_a_cause_once() {
        let found = Mutex::new(Vec::new());
        let limits = Limits {
            keep_going: true,
            ..limits("counts")
        };
        let tally = run(&Sevens, &limits, |seed, finding| {
            found.lock().unwrap().push((seed, finding.file));
        });
        assert_eq!(
            (tally.attempts, tally.failures, tally.skipped),
            (100, 14, 29)
        );
        assert_eq!(found.into_inner().unwrap().len(), 2);
        assert!(!running_path(&limits.folder, 0).exists());
    }

    #[test]
    fn stops_at_the_first_failure() {
        let limits = Limits {
            threads: 1,
            ..limits("stops")
        };
        let tally = run(&Sevens, &limits, |_, _| {});
        assert_eq!((tally.attempts, tally.failures), (7, 1));
    }
}
