//! Background compilation of better code, and of the versions it is compared with.

use super::load::{note_better, size};
use super::pool::forks;
use super::tiered::{Origin, TierState, TieredCode, vectorized};
use super::versions::NextStep;
use crate::backend::BackendEnv;
use crate::interrupt;
use crate::log::{Level, Log};
use crate::profile::{Compilation, Profiler};
use crate::progress::ProgressListeners;
use crate::tier::Tier;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wuji_ir::{Error, Result};
use wuji_llvm::{Jit, Object, Timings, is_exiting};

/// Compiles the best tier for the hot kernels of a device, on a thread that exists while the queue is not empty.
#[derive(Debug)]
pub(crate) struct Background {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jit: Arc<Jit>,
    profiler: Arc<Profiler>,
    log: Arc<Log>,
    listeners: Arc<ProgressListeners>,
    queue: Mutex<Queue>,
    /// The device was dropped: no launch uses the code any more.
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<(Weak<TieredCode>, NextStep)>,
    /// Set while a thread serves the queue: the number of forks when it started.
    served: Option<u32>,
}

impl Background {
    pub(crate) fn new(jit: Arc<Jit>, env: &BackendEnv) -> Background {
        Background {
            shared: Arc::new(Shared {
                jit,
                profiler: env.profiler.clone(),
                log: env.log.clone(),
                listeners: env.listeners.clone(),
                queue: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// Queues a kernel for better code, unless it was queued before.
    pub(crate) fn ask(&self, code: &Arc<TieredCode>) {
        if let Some(step) = code.ask() {
            self.push(code, step);
        }
    }

    /// Reports a decision about a task, and queues what remains to be done.
    pub(crate) fn follow(&self, code: &Arc<TieredCode>, task: usize, step: NextStep) {
        if let Some(remark) = code.remark(task) {
            self.shared
                .log
                .say(Level::Info, || format!("measured: {remark}"));
            wuji_compile::explain(std::slice::from_ref(&remark));
        }
        self.push(code, step);
    }

    fn push(&self, code: &Arc<TieredCode>, step: NextStep) {
        let job = (Arc::downgrade(code), step);
        self.shared.queue().jobs.push_back(job);
        self.start();
    }

    /// Starts the thread that serves the queue, if there is none.
    fn start(&self) {
        let mut queue = self.shared.queue();
        // A thread of the parent process does not exist here.
        if queue.served == Some(forks()) || queue.jobs.is_empty() {
            return;
        }
        queue.served = Some(forks());
        drop(queue);
        let shared = self.shared.clone();
        let started = std::thread::Builder::new()
            .name("wuji-tier-up".into())
            .spawn(move || shared.serve());
        if let Err(e) = started {
            let why = Error::new("W0507", "cannot start a compiler thread").note(e.to_string());
            let mut queue = self.shared.queue();
            queue.served = None;
            let jobs: Vec<(Weak<TieredCode>, NextStep)> = queue.jobs.drain(..).collect();
            drop(queue);
            for code in jobs.iter().filter_map(|(job, _)| job.upgrade()) {
                if code.begin().is_some() {
                    code.end(Err(why.clone()));
                }
            }
        }
    }

    /// Requests the best tier for a kernel, hot or not, and waits for it.
    pub(crate) fn finish(&self, code: &Arc<TieredCode>) -> Result<()> {
        if matches!(*code.progress(), TierState::Cold(_)) {
            self.ask(code);
        }
        let forked = forks();
        let mut progress = code.progress();
        loop {
            match &*progress {
                TierState::Settled => return Ok(()),
                TierState::Failed(_) => {
                    drop(progress);
                    return code.take_error().map_or(Ok(()), Err);
                }
                TierState::Compiling if self.shared.queue().served != Some(forked) => {
                    return Err(Error::new(
                        "W0509",
                        "this process was forked while its parent compiled a kernel",
                    )
                    .help("make a new world after the fork"));
                }
                TierState::Cold(_) | TierState::Waiting(_) | TierState::Compiling => {}
            }
            drop(progress);
            self.start();
            progress = code.progress();
            if matches!(*progress, TierState::Waiting(_) | TierState::Compiling) {
                // No thread wakes us in a forked process, so we poll.
                let waited = code
                    .changed
                    .wait_timeout(progress, Duration::from_millis(100));
                progress = waited.unwrap_or_else(PoisonError::into_inner).0;
                drop(progress);
                interrupt::check()?;
                progress = code.progress();
            }
        }
    }
}

impl Background {
    /// No better code is made from now on.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some((code, step)) = self.next() {
            let done = catch_unwind(AssertUnwindSafe(|| match step {
                NextStep::CompileBetter => {
                    if let Some(origin) = code.begin() {
                        let made = catch_unwind(AssertUnwindSafe(|| self.compile(&code, &origin)));
                        let panicked =
                            || Err(Error::new("W0507", "a compiler thread has panicked"));
                        code.end(made.unwrap_or_else(|_| panicked()));
                    }
                }
                NextStep::CompileScalar => self.compile_scalar(&code),
                NextStep::Remember => self.remember(&code),
            }));
            if done.is_err() {
                self.log.say(Level::Warn, || {
                    "a compiler thread has panicked; kernels keep their code".to_owned()
                });
            }
        }
    }

    /// The next kernel that still exists; with none left, the thread ends.
    fn next(&self) -> Option<(Arc<TieredCode>, NextStep)> {
        let mut queue = self.queue();
        while !self.is_stopped() {
            match queue.jobs.pop_front() {
                Some((job, step)) => {
                    if let Some(code) = job.upgrade() {
                        return Some((code, step));
                    }
                }
                None => break,
            }
        }
        queue.served = None;
        None
    }

    fn is_stopped(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || is_exiting()
    }

    /// Compiles code of the best tier, the hottest task first. Each task uses it as soon as it exists.
    fn compile(&self, code: &TieredCode, origin: &Origin) -> Result<()> {
        let begin = self.profiler.now();
        let (name, passes) = origin.work();
        let mut reporter = self.listeners.reporter(name, passes, Tier::Best, true);
        let better = origin.improve(&mut |pass| reporter.pass(pass))?;
        if let Some(remarks) = &code.remarks {
            remarks.set(better.remarks());
        }
        let vectorized = vectorized(better.module(), better.remarks());
        let mut objects = Vec::new();
        let mut backend = Timings::default();
        for task in code.versions.hottest_first() {
            let stopped = || self.is_stopped();
            let object = self.jit.build_task_in_background(&better, task, &stopped)?;
            let made = self.jit.load(&object)?;
            add_timings(&mut backend, made.timings());
            code.versions.try_better(task, made, vectorized[task]);
            objects.push((task, object));
        }
        reporter.machine_code();
        objects.sort_by_key(|(task, _)| *task);
        let parts = || objects.iter().map(|(_, object)| object);
        let object = Object {
            code: parts().flat_map(|o| o.code.iter().cloned()).collect(),
            symbols: parts().flat_map(|o| o.symbols.iter().cloned()).collect(),
            stacks: parts().flat_map(|o| o.stacks.iter().copied()).collect(),
            timings: backend,
        };
        if let Some(kernel) = &code.kernel {
            let noted_by = (&**kernel, &*self.profiler, &*self.log);
            note_better(noted_by, begin, &better, &object, backend);
        }
        if let Some(slot) = &origin.slot {
            slot.keep(&better, &object, Tier::Best, &self.log);
        }
        Ok(())
    }

    /// Compiles scalar code for the tasks that were requested. Without it, they keep their code.
    fn compile_scalar(&self, code: &TieredCode) {
        let Some(origin) = code.origin() else {
            return;
        };
        let tasks = code.versions.take_scalar_requests();
        if tasks.is_empty() {
            return;
        }
        if let Err(error) = self.compile_tasks(code, &origin, &tasks) {
            // Tasks that have their code are being tried.
            code.versions.drop_scalar_requests(&tasks);
            self.log.say(Level::Info, || {
                let name = origin.work().0;
                format!("kernel `{name}` gets no scalar code: {}", error.message)
            });
            self.remember(code);
        }
    }

    fn compile_tasks(&self, code: &TieredCode, origin: &Origin, tasks: &[usize]) -> Result<()> {
        let begin = self.profiler.now();
        let lowered = origin.lower(&mut |_| {})?;
        let scalar = wuji_compile::first_code(&lowered);
        for task in tasks {
            let stopped = || self.is_stopped();
            let object = self
                .jit
                .build_task_in_background(&scalar, *task, &stopped)?;
            let made = self.jit.load(&object)?;
            if let Some(kernel) = &code.kernel {
                kernel.compiled(Compilation {
                    tier: Tier::Scalar,
                    cached: false,
                    begin,
                    time: self.profiler.now().saturating_sub(begin),
                    passes: Vec::new(),
                    backend: *made.timings(),
                    bytes: size(&object),
                });
            }
            if origin.slot.is_some() {
                code.add_scalar(*task, object);
            }
            code.versions.try_scalar(*task, made);
        }
        Ok(())
    }

    /// Stores what was decided about the versions of a kernel.
    fn remember(&self, code: &TieredCode) {
        if let Some(origin) = code.origin()
            && let Some(slot) = &origin.slot
        {
            let decisions = code.decisions();
            slot.cache.put_kept(&slot.key, &decisions, &self.log);
        }
        code.release_origin();
    }
}

fn add_timings(all: &mut Timings, part: &Timings) {
    all.build += part.build;
    all.optimize += part.optimize;
    all.emit += part.emit;
    all.link += part.link;
    all.total += part.total;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DeviceOptions;
    use wuji_llvm::{Effort, JitOptions};

    fn code(jit: &Jit) -> Arc<TieredCode> {
        let text = "tree T0 { dense S1 [i: 4] { place f0 } }\nfield f0 \"x\": i32 in T0.S1 (i)\nkernel fn0 \"m\"() {\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "m.wir").unwrap();
        let lowered = wuji_compile::compile(module, &wuji_compile::Options::default()).unwrap();
        let kernel = jit.compile_with(&lowered, Effort::Fast).unwrap();
        let noted = Profiler::new().enter(lowered.module());
        let origin = Arc::new(Origin::lowered(Arc::new(lowered), None));
        let remarks = Arc::new(origin.remarks());
        Arc::new(TieredCode::first(kernel, origin, remarks, noted))
    }

    fn background_of(jit: &Arc<Jit>) -> Background {
        let env = BackendEnv::new(&DeviceOptions::default()).unwrap();
        Background::new(jit.clone(), &env)
    }

    #[test]
    fn an_error_is_returned_once_and_the_code_stays() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let code = code(&jit);
        assert_eq!(code.ask(), Some(NextStep::CompileBetter));
        assert_eq!(code.ask(), None);
        assert!(code.begin().is_some() && code.begin().is_none());
        code.end(Err(Error::new(
            "W0503",
            "LLVM could not compile the kernel",
        )));
        let reported = background.finish(&code).unwrap_err();
        assert_eq!(reported.code, "W0503");
        assert!(reported.notes[0].contains("continues with its current code"));
        assert!(code.take_error().is_none() && background.finish(&code).is_ok());
        assert_eq!(code.tier(), Tier::Fast);
    }

    #[test]
    fn the_best_tier_is_compiled_once() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let code = code(&jit);
        assert!(code.is_watched() && code.tier() == Tier::Fast);
        background.finish(&code).unwrap();
        assert!(!code.is_watched() && code.tier() == Tier::Best);
        background.ask(&code);
        background.finish(&code).unwrap();
        // The thread ends when the queue is empty.
        while background.shared.queue().served.is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn kernels_are_hot_after_the_time_of_the_first_compilation() {
        let jit = Jit::new(&JitOptions::default()).unwrap();
        let code = code(&jit);
        assert!(!code.hot_after(Duration::ZERO));
        assert!(code.hot_after(Duration::from_millis(250)));
        code.add_spent(Duration::from_millis(250));
        assert!(code.hot_after(Duration::ZERO));
    }

    #[test]
    fn dropped_kernels_are_not_compiled() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let gone = code(&jit);
        let step = gone.ask().unwrap();
        background
            .shared
            .queue()
            .jobs
            .push_back((Arc::downgrade(&gone), step));
        drop(gone);
        let code = code(&jit);
        background.finish(&code).unwrap();
        assert_eq!(code.tier(), Tier::Best);
    }
}
