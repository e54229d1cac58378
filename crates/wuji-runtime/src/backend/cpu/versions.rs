//! The versions of the code of each task, and which of them runs.
//!
//! A task starts with first code. When better code exists, a [trial](super::trial) compares both. Where better code is
//! vectorized and gains little or nothing, a third version is compiled: optimized like better code, but scalar. It is
//! compared with the winner. All versions give the same bits, so any chunk may run any of them.

use super::trial::{CodeTrial, TrialArm, TrialResult};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use wuji_compile::{Decision, KeptCode};
use wuji_llvm::{CompiledKernel, CompiledTask};

/// A version of the code of a task.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum CodeVersion {
    /// The code that the kernel started with.
    First,
    /// Code of the best tier: vectorized, if that seemed better.
    Better,
    /// Optimized, but not vectorized.
    Scalar,
}

impl CodeVersion {
    pub(crate) const ALL: [CodeVersion; 3] =
        [CodeVersion::First, CodeVersion::Better, CodeVersion::Scalar];

    fn of(number: u8) -> CodeVersion {
        CodeVersion::ALL[usize::from(number).min(2)]
    }
}

/// What happens to chunks of a task.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// The current version runs.
    Settled,
    /// Better code may come. Times are noted: they tell which task is compiled first, and those of whole tasks are compared.
    Early,
    /// The current version is compared with better code.
    TryBetter,
    /// The current version is compared with scalar code.
    TryScalar,
}

impl Stage {
    const ALL: [Stage; 4] = [
        Stage::Settled,
        Stage::Early,
        Stage::TryBetter,
        Stage::TryScalar,
    ];

    fn of(number: u8) -> Stage {
        Stage::ALL[usize::from(number).min(3)]
    }

    /// The version that is tried.
    fn rival(self) -> Option<CodeVersion> {
        match self {
            Stage::Settled | Stage::Early => None,
            Stage::TryBetter => Some(CodeVersion::Better),
            Stage::TryScalar => Some(CodeVersion::Scalar),
        }
    }
}

/// Where vectorized code is this much faster than first code, scalar code will not be faster still: optimizations other than
/// the vectorizer gain a factor of two to four.
const SCALAR_GAIN: f64 = 4.0;

/// What is to be done in the background.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// Code of the best tier is to be compiled.
    CompileBetter,
    /// Scalar code is to be compiled.
    CompileScalar,
    /// The decision is final, and is to be remembered.
    Remember,
}

/// The decision about a task.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptVersion {
    pub(crate) version: CodeVersion,
    /// The time of better code in percent of that of the version that is kept.
    pub(crate) percent: u32,
}

impl KeptVersion {
    /// What `explain` says about it: nothing about better code that is kept.
    pub(crate) fn remark(self, vectorized: bool) -> Option<Decision> {
        let kept = match self.version {
            CodeVersion::First => KeptCode::First,
            CodeVersion::Scalar => KeptCode::Scalar,
            CodeVersion::Better => return None,
        };
        Some(Decision::Slower {
            kept,
            vectorized,
            percent: self.percent,
        })
    }
}

/// A chunk that is being measured.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Measurement {
    task: usize,
    /// `None` before better code exists.
    arm: Option<(CodeVersion, TrialArm)>,
    units: u64,
    whole: bool,
    started: Instant,
}

/// The versions of one task.
#[derive(Debug)]
pub(crate) struct TaskVersions {
    current: AtomicU8,
    stage: AtomicU8,
    /// It is not launched as a task of the kernel, so it is not measured.
    exempt: AtomicBool,
    trial: Mutex<TaskTrial>,
    /// Nanoseconds of all threads in first code.
    spent: AtomicU64,
    better: OnceLock<CompiledKernel>,
    scalar: OnceLock<CompiledKernel>,
}

/// A request for scalar code.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum ScalarRequest {
    None,
    Wanted,
    Compiling,
}

#[derive(Debug)]
struct TaskTrial {
    number: usize,
    trial: CodeTrial,
    /// Whether better code is vectorized.
    vectorized: bool,
    /// The time of better code as a multiple of that of first code, once it is known.
    better_to_first: Option<f64>,
    scalar: ScalarRequest,
    kept: Option<KeptVersion>,
}

impl TaskVersions {
    /// A task whose code is final.
    fn settled(number: usize) -> TaskVersions {
        TaskVersions {
            current: AtomicU8::new(CodeVersion::First as u8),
            stage: AtomicU8::new(Stage::Settled as u8),
            exempt: AtomicBool::new(false),
            trial: Mutex::new(TaskTrial {
                number,
                trial: CodeTrial::new(TrialArm::New, number as u64),
                vectorized: false,
                better_to_first: None,
                scalar: ScalarRequest::None,
                kept: None,
            }),
            spent: AtomicU64::new(0),
            better: OnceLock::new(),
            scalar: OnceLock::new(),
        }
    }

    fn trial(&self) -> MutexGuard<'_, TaskTrial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Acquire))
    }

    fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    fn current(&self) -> CodeVersion {
        CodeVersion::of(self.current.load(Ordering::Acquire))
    }

    fn set_current(&self, version: CodeVersion) {
        self.current.store(version as u8, Ordering::Release);
    }

    /// The newest version.
    fn newest(&self) -> CodeVersion {
        self.stage().rival().unwrap_or_else(|| self.current())
    }

    /// Settles the winner of a trial; returns what remains to be done.
    fn decide(&self, state: &mut TaskTrial, rival: CodeVersion, result: TrialResult) -> NextStep {
        let winner = match result.winner {
            TrialArm::Old => self.current(),
            TrialArm::New => rival,
        };
        let better_to_kept = match rival {
            // First code was current.
            CodeVersion::First | CodeVersion::Better => {
                state.better_to_first = Some(result.ratio);
                match winner {
                    CodeVersion::Better => 1.0,
                    CodeVersion::First | CodeVersion::Scalar => result.ratio,
                }
            }
            CodeVersion::Scalar => {
                let better_to_old = match self.current() {
                    CodeVersion::First => state.better_to_first.unwrap_or(1.0),
                    CodeVersion::Better | CodeVersion::Scalar => 1.0,
                };
                match result.winner {
                    TrialArm::Old => better_to_old,
                    TrialArm::New => better_to_old / result.ratio.max(1e-6),
                }
            }
        };
        self.set_current(winner);
        self.set_stage(Stage::Settled);
        state.kept = Some(KeptVersion {
            version: winner,
            percent: (better_to_kept * 100.0).round().clamp(1.0, 1e6) as u32,
        });
        let doubtful = result.ratio * SCALAR_GAIN > 1.0;
        if rival == CodeVersion::Better && state.vectorized && doubtful {
            state.scalar = ScalarRequest::Wanted;
            return NextStep::CompileScalar;
        }
        NextStep::Remember
    }
}

/// The versions of all tasks of a kernel.
#[derive(Debug)]
pub(crate) struct Versions {
    tasks: Box<[TaskVersions]>,
}

impl Versions {
    /// For a number of tasks. With `early`, better code may come.
    pub(crate) fn new(tasks: usize, early: bool) -> Versions {
        let tasks: Box<[TaskVersions]> = (0..tasks).map(TaskVersions::settled).collect();
        if early {
            for task in &tasks {
                task.set_stage(Stage::Early);
            }
        }
        Versions { tasks }
    }

    /// Tasks that are not launched by themselves are not measured.
    pub(crate) fn exempt(&self, is_measured: impl Fn(usize) -> bool) {
        for (number, task) in self.tasks.iter().enumerate() {
            if !is_measured(number) {
                task.exempt.store(true, Ordering::Relaxed);
                task.set_stage(Stage::Settled);
            }
        }
    }

    /// The newest version of a task.
    pub(crate) fn newest(&self, task: usize) -> CodeVersion {
        self.tasks
            .get(task)
            .map_or(CodeVersion::First, TaskVersions::newest)
    }

    pub(crate) fn better(&self, task: usize) -> Option<CompiledTask> {
        self.tasks.get(task)?.better.get()?.task(0)
    }

    pub(crate) fn scalar(&self, task: usize) -> Option<CompiledTask> {
        self.tasks.get(task)?.scalar.get()?.task(0)
    }

    /// Whether chunks of a task are measured now.
    pub(crate) fn is_measured(&self, task: usize) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|t| t.stage() != Stage::Settled)
    }

    /// The version for the next chunk, or for a `whole` task, and how it is measured.
    pub(crate) fn choose(
        &self,
        task: usize,
        units: u64,
        whole: bool,
    ) -> (CodeVersion, Option<Measurement>) {
        let Some(versions) = self.tasks.get(task) else {
            return (CodeVersion::First, None);
        };
        let measured = |arm| Measurement {
            task,
            arm,
            units,
            whole,
            started: Instant::now(),
        };
        match versions.stage() {
            Stage::Settled => (versions.current(), None),
            Stage::Early => (versions.current(), Some(measured(None))),
            Stage::TryBetter | Stage::TryScalar => {
                let mut state = versions.trial();
                // Another thread may have decided meanwhile.
                let Some(rival) = versions.stage().rival() else {
                    return (versions.current(), None);
                };
                let (arm, counts) = state.trial.assign(units);
                let version = match arm {
                    TrialArm::Old => versions.current(),
                    TrialArm::New => rival,
                };
                drop(state);
                (version, counts.then(|| measured(Some((rival, arm)))))
            }
        }
    }

    /// Notes a chunk that has run to its end. Returns the task and what remains to be done, if that was decided now.
    pub(crate) fn note(&self, chunk: Measurement) -> Option<(usize, NextStep)> {
        let nanos = chunk.started.elapsed().as_nanos() as u64;
        self.note_time(chunk, nanos)
    }

    fn note_time(&self, chunk: Measurement, nanos: u64) -> Option<(usize, NextStep)> {
        let versions = self.tasks.get(chunk.task)?;
        let Some((rival, arm)) = chunk.arm else {
            versions.spent.fetch_add(nanos, Ordering::Relaxed);
            if chunk.whole && versions.stage() == Stage::Early {
                versions.trial().trial.note_before(chunk.units, nanos);
            }
            return None;
        };
        let mut state = versions.trial();
        // The trial may be over, or another one may have begun.
        if versions.stage().rival() != Some(rival) {
            return None;
        }
        let result = state.trial.note(arm, chunk.units, nanos)?;
        let next = versions.decide(&mut state, rival, result);
        Some((state.number, next))
    }

    /// All tasks, the hottest first.
    pub(crate) fn hottest_first(&self) -> Vec<usize> {
        let mut tasks: Vec<usize> = (0..self.tasks.len()).collect();
        tasks.sort_by_key(|task| Reverse(self.tasks[*task].spent.load(Ordering::Relaxed)));
        tasks
    }

    /// Better code of a task exists from now on.
    pub(crate) fn try_better(&self, task: usize, code: CompiledKernel, vectorized: bool) {
        let Some(versions) = self.tasks.get(task) else {
            return;
        };
        let mut state = versions.trial();
        if versions.better.set(code).is_err() {
            return;
        }
        state.vectorized = vectorized;
        if versions.exempt.load(Ordering::Relaxed) {
            versions.set_current(CodeVersion::Better);
        } else {
            versions.set_stage(Stage::TryBetter);
        }
    }

    /// There will be no more better code.
    pub(crate) fn settle(&self) {
        for versions in &self.tasks {
            let _state = versions.trial();
            if versions.stage() == Stage::Early {
                versions.set_stage(Stage::Settled);
            }
        }
    }

    /// Whether everything is decided.
    pub(crate) fn is_final(&self) -> bool {
        self.tasks.iter().all(|versions| {
            let state = versions.trial();
            let known = state.kept.is_some() || versions.exempt.load(Ordering::Relaxed);
            known && state.scalar == ScalarRequest::None && versions.stage() == Stage::Settled
        })
    }

    /// Better code was found in the cache, and it is known or not which version is best. Returns whether a trial remains.
    pub(crate) fn revive(
        &self,
        kept: &[Option<KeptVersion>],
        is_vectorized: impl Fn(usize) -> bool,
    ) -> bool {
        let mut remains = false;
        for (number, versions) in self.tasks.iter().enumerate() {
            let mut state = versions.trial();
            state.vectorized = is_vectorized(number);
            state.kept = kept.get(number).copied().flatten();
            versions.set_stage(Stage::Settled);
            versions.set_current(state.kept.map_or(CodeVersion::Better, |k| k.version));
            remains |= state.kept.is_none() && state.vectorized;
        }
        remains
    }

    /// Requests scalar code for vectorized tasks about which nothing is known. Returns whether there are any.
    pub(crate) fn ask_for_scalar(&self) -> bool {
        let mut any = false;
        for versions in &self.tasks {
            let mut state = versions.trial();
            if state.kept.is_none()
                && state.vectorized
                && !versions.exempt.load(Ordering::Relaxed)
                && versions.stage() == Stage::Settled
                && versions.scalar.get().is_none()
            {
                state.scalar = ScalarRequest::Wanted;
                any = true;
            }
        }
        any
    }

    /// Tasks for which scalar code was requested since the last call.
    pub(crate) fn take_scalar_requests(&self) -> Vec<usize> {
        let wanted = |versions: &TaskVersions| {
            let mut state = versions.trial();
            let wanted = state.scalar == ScalarRequest::Wanted;
            if wanted {
                state.scalar = ScalarRequest::Compiling;
            }
            wanted
        };
        let tasks = self.tasks.iter().enumerate();
        tasks.filter(|(_, t)| wanted(t)).map(|(n, _)| n).collect()
    }

    /// There will be no scalar code for some tasks.
    pub(crate) fn drop_scalar_requests(&self, tasks: &[usize]) {
        for versions in tasks.iter().filter_map(|t| self.tasks.get(*t)) {
            let mut state = versions.trial();
            state.scalar = ScalarRequest::None;
        }
    }

    /// Scalar code of a task exists from now on.
    pub(crate) fn try_scalar(&self, task: usize, code: CompiledKernel) {
        let Some(versions) = self.tasks.get(task) else {
            return;
        };
        let mut state = versions.trial();
        if versions.scalar.set(code).is_err() {
            return;
        }
        // Where better code has lost, scalar code is its optimized form; where it has won, it must be beaten clearly.
        let favoured = match versions.current() {
            CodeVersion::First => TrialArm::New,
            CodeVersion::Better | CodeVersion::Scalar => TrialArm::Old,
        };
        state.scalar = ScalarRequest::None;
        state.trial = CodeTrial::new(favoured, task as u64);
        versions.set_stage(Stage::TryScalar);
    }

    /// Scalar code of a task that was chosen in an earlier process.
    pub(crate) fn set_scalar(&self, task: usize, code: CompiledKernel) {
        if let Some(versions) = self.tasks.get(task) {
            // It is set once, before the kernel is launched.
            let _ = versions.scalar.set(code);
        }
    }

    /// The decisions so far, with whether better code is vectorized.
    pub(crate) fn kept(&self) -> Vec<(Option<KeptVersion>, bool)> {
        let kept = |versions: &TaskVersions| {
            let state = versions.trial();
            (state.kept, state.vectorized)
        };
        self.tasks.iter().map(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_llvm::{Jit, JitOptions};

    /// Runs chunks with the given times per version until a decision, and returns it.
    fn run(versions: &Versions, nanos: [u64; 3]) -> NextStep {
        for _ in 0..1000 {
            let (version, chunk) = versions.choose(0, 64, false);
            let chunk = chunk.expect("the chunk is measured");
            if let Some((task, next)) = versions.note_time(chunk, nanos[version as usize]) {
                assert_eq!(task, 0);
                return next;
            }
        }
        panic!("no decision")
    }

    fn kept(versions: &Versions) -> (CodeVersion, u32) {
        let kept = versions.kept()[0].0.unwrap();
        assert_eq!(versions.newest(0), kept.version);
        (kept.version, kept.percent)
    }

    fn any_code() -> CompiledKernel {
        let text =
            "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nkernel fn0 \"k\"() {\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "k.wir").unwrap();
        let lowered = wuji_compile::compile(module, &wuji_compile::Options::default()).unwrap();
        let jit = Jit::new(&JitOptions::default()).unwrap();
        jit.compile(&lowered).unwrap()
    }

    #[test]
    fn much_better_code_is_kept() {
        let versions = Versions::new(1, true);
        assert_eq!(versions.choose(0, 64, false).0, CodeVersion::First);
        versions.try_better(0, any_code(), true);
        assert_eq!(versions.newest(0), CodeVersion::Better);
        assert_eq!(run(&versions, [90_000, 10_000, 0]), NextStep::Remember);
        assert_eq!(kept(&versions), (CodeVersion::Better, 100));
        // No chunk is measured any more.
        assert!(!versions.is_measured(0));
        assert!(versions.choose(0, 64, true).1.is_none());
        assert!(versions.take_scalar_requests().is_empty());
    }

    /// Scalar code wins if it is faster than vectorized code, which was faster than first code.
    #[test]
    fn scalar_code_wins() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), true);
        let times = [30_000, 20_000, 10_000];
        assert_eq!(run(&versions, times), NextStep::CompileScalar);
        assert_eq!(kept(&versions), (CodeVersion::Better, 100));
        assert_eq!(versions.take_scalar_requests(), [0]);
        assert!(versions.take_scalar_requests().is_empty() && !versions.is_final());
        versions.try_scalar(0, any_code());
        assert_eq!(run(&versions, times), NextStep::Remember);
        assert!(versions.is_final());
        assert_eq!(kept(&versions), (CodeVersion::Scalar, 200));
        assert_eq!(
            kept_remark(&versions).as_deref(),
            Some("vectorized code took 2.0 times as long as scalar code, which is kept")
        );
    }

    fn kept_remark(versions: &Versions) -> Option<String> {
        let (kept, vectorized) = versions.kept()[0];
        Some(kept?.remark(vectorized)?.to_string())
    }

    #[test]
    fn scalar_code_loses() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), true);
        let times = [30_000, 10_000, 20_000];
        assert_eq!(run(&versions, times), NextStep::CompileScalar);
        versions.try_scalar(0, any_code());
        assert_eq!(run(&versions, times), NextStep::Remember);
        assert_eq!(kept(&versions), (CodeVersion::Better, 100));
        assert_eq!(kept_remark(&versions), None);
    }

    /// Vectorized code that is slower than first code is refused, and scalar code is compared with first code.
    #[test]
    fn slower_code_is_refused() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), true);
        let times = [20_000, 100_000, 10_000];
        assert_eq!(run(&versions, times), NextStep::CompileScalar);
        assert_eq!(kept(&versions), (CodeVersion::First, 500));
        assert_eq!(
            kept_remark(&versions).as_deref(),
            Some(
                "vectorized code took 5.0 times as long as the code of the first tier, which is kept"
            )
        );
        versions.try_scalar(0, any_code());
        assert_eq!(run(&versions, times), NextStep::Remember);
        assert_eq!(kept(&versions), (CodeVersion::Scalar, 1000));
    }

    /// Without scalar code, the winner of the first trial is kept.
    #[test]
    fn scalar_code_that_cannot_be_compiled() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), true);
        assert_eq!(run(&versions, [30_000, 20_000, 0]), NextStep::CompileScalar);
        let tasks = versions.take_scalar_requests();
        versions.drop_scalar_requests(&tasks);
        assert!(versions.is_final());
        assert_eq!(kept(&versions), (CodeVersion::Better, 100));
    }

    /// Where the vectorizer has changed nothing, there is no third version.
    #[test]
    fn scalar_tasks_have_two_versions() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), false);
        assert_eq!(run(&versions, [10_000, 20_000, 0]), NextStep::Remember);
        assert_eq!(kept(&versions), (CodeVersion::First, 200));
        assert_eq!(
            kept_remark(&versions).as_deref(),
            Some(
                "optimized code took 2.0 times as long as the code of the first tier, which is kept"
            )
        );
    }

    #[test]
    fn late_measurements_are_ignored() {
        let versions = Versions::new(1, true);
        versions.try_better(0, any_code(), false);
        let (_, late) = versions.choose(0, 64, false);
        run(&versions, [90_000, 10_000, 0]);
        assert!(versions.note_time(late.unwrap(), 1).is_none());
        assert_eq!(kept(&versions), (CodeVersion::Better, 100));
    }

    /// Times of earlier launches of a whole task save it from running first code again.
    #[test]
    fn whole_tasks_are_not_slowed_down() {
        let versions = Versions::new(1, true);
        for _ in 0..3 {
            let (version, launch) = versions.choose(0, 1, true);
            assert_eq!(version, CodeVersion::First);
            assert!(versions.note_time(launch.unwrap(), 5_000_000_000).is_none());
        }
        versions.try_better(0, any_code(), true);
        let mut launches = 0;
        loop {
            let (version, launch) = versions.choose(0, 1, true);
            assert_eq!(version, CodeVersion::Better);
            launches += 1;
            if versions.note_time(launch.unwrap(), 100_000_000).is_some() {
                break;
            }
        }
        assert_eq!(launches, 2);
    }

    #[test]
    fn upkeep_is_not_measured() {
        let versions = Versions::new(2, true);
        versions.exempt(|task| task == 0);
        versions.try_better(0, any_code(), true);
        versions.try_better(1, any_code(), true);
        assert!(versions.is_measured(0) && !versions.is_measured(1));
        assert_eq!(versions.newest(1), CodeVersion::Better);
        assert!(versions.choose(1, 64, true).1.is_none());
    }

    #[test]
    fn revived_decisions_are_final() {
        let versions = Versions::new(2, false);
        let scalar = KeptVersion {
            version: CodeVersion::Scalar,
            percent: 190,
        };
        assert!(versions.revive(&[Some(scalar), None], |_| true));
        assert_eq!(versions.newest(0), CodeVersion::Scalar);
        assert_eq!(versions.newest(1), CodeVersion::Better);
        assert!(versions.ask_for_scalar());
        assert_eq!(versions.take_scalar_requests(), [1]);
        let versions = Versions::new(1, false);
        assert!(!versions.revive(&[Some(scalar)], |_| true));
        assert!(!versions.ask_for_scalar());
    }

    #[test]
    fn the_hottest_task_is_first() {
        let versions = Versions::new(3, true);
        for (task, nanos) in [(0, 5), (1, 50), (2, 20), (2, 20)] {
            let (_, chunk) = versions.choose(task, 64, false);
            assert!(versions.note_time(chunk.unwrap(), nanos).is_none());
        }
        assert_eq!(versions.hottest_first(), [1, 2, 0]);
    }

    /// A compilation that fails leaves tasks as they are: those that have better code, and those that have none.
    #[test]
    fn failures_settle_the_rest() {
        let versions = Versions::new(2, true);
        versions.try_better(1, any_code(), true);
        versions.settle();
        assert!(!versions.is_measured(0) && versions.is_measured(1));
        assert_eq!(versions.newest(0), CodeVersion::First);
    }
}
