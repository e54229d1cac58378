//! The profile as tables.

use super::{KernelHistory, TaskTimes};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The profile of a world. As text it is two tables: launches, and compilations.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The kernels, in the order of their first launch.
    pub kernels: Vec<KernelHistory>,
}

impl Report {
    pub(super) fn new(kernels: Vec<KernelHistory>) -> Report {
        Report { kernels }
    }

    /// Tasks grouped by name, the longest first.
    pub fn tasks(&self) -> Vec<TaskTimes> {
        let mut all: BTreeMap<(String, Option<String>), TaskTimes> = BTreeMap::new();
        for task in self.kernels.iter().flat_map(|k| &k.tasks) {
            let place = task.at.as_ref().map(ToString::to_string);
            let known = all.entry((task.name.clone(), place));
            known
                .and_modify(|t| {
                    t.count += task.count;
                    t.iterations = t.iterations.saturating_add(task.iterations);
                    t.total += task.total;
                    t.least = t.least.min(task.least);
                    t.most = t.most.max(task.most);
                })
                .or_insert_with(|| task.clone());
        }
        let mut tasks: Vec<TaskTimes> = all.into_values().collect();
        tasks.sort_by_key(|t| std::cmp::Reverse(t.total));
        tasks
    }

    /// The time of each kernel that the program has launched, the longest first. In lazy worlds, that of a fused task is divided
    /// among the kernels in it by the number of their instructions.
    pub fn by_kernel(&self) -> Vec<(String, Duration)> {
        let mut all: BTreeMap<&str, Duration> = BTreeMap::new();
        for kernel in &self.kernels {
            let time: Duration = kernel.tasks.iter().map(|t| t.total).sum();
            for part in &kernel.parts {
                *all.entry(&part.kernel).or_default() += time.mul_f64(part.share.clamp(0.0, 1.0));
            }
            if kernel.parts.is_empty() && !time.is_zero() {
                *all.entry(&kernel.name).or_default() += time;
            }
        }
        let all = all.into_iter().filter(|(_, time)| !time.is_zero());
        let mut all: Vec<(String, Duration)> = all.map(|(k, t)| (k.to_owned(), t)).collect();
        all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        all
    }

    /// The total time of each compilation step, the longest first: passes of Wuji by name, those of LLVM as `llvm:
    /// ...`.
    pub fn steps(&self) -> Vec<(String, Duration)> {
        let mut all: BTreeMap<String, Duration> = BTreeMap::new();
        for c in self.kernels.iter().flat_map(|k| &k.compilations) {
            for (pass, time) in &c.passes {
                *all.entry((*pass).to_owned()).or_default() += *time;
            }
            let b = &c.backend;
            for (step, time) in [
                ("llvm: build", b.build),
                ("llvm: optimize", b.optimize),
                ("llvm: emit", b.emit),
                ("llvm: link", b.link),
            ] {
                *all.entry(step.to_owned()).or_default() += time;
            }
        }
        let mut steps: Vec<_> = all.into_iter().filter(|s| !s.1.is_zero()).collect();
        steps.sort_by_key(|s| std::cmp::Reverse(s.1));
        steps
    }
}

impl Report {
    /// The times of kernels that are in fused tasks.
    fn fused(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ran = |k: &&KernelHistory| !k.parts.is_empty() && !k.tasks.is_empty();
        if !self.kernels.iter().any(|k| ran(&k)) {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:>10}  kernel (tasks with a plus sign were fused; their times are divided by instructions)",
            "total ms"
        )?;
        for (name, time) in self.by_kernel() {
            writeln!(f, "{:>10.3}  {name}", ms(time))?;
        }
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.tasks();
        let whole: Duration = tasks.iter().map(|t| t.total).sum();
        let share = |time: Duration| 100.0 * time.as_secs_f64() / whole.as_secs_f64().max(1e-12);
        writeln!(
            f,
            "{:>7} {:>10} {:>9} {:>9} {:>9} {:>9}  task",
            "share", "total ms", "launches", "mean us", "least us", "most us"
        )?;
        for t in &tasks {
            let mean = t.total / u32::try_from(t.count).unwrap_or(u32::MAX).max(1);
            write!(
                f,
                "{:>6.1}% {:>10.3} {:>9} {:>9.1} {:>9.1} {:>9.1}  {}",
                share(t.total),
                ms(t.total),
                t.count,
                ms(mean) * 1e3,
                ms(t.least) * 1e3,
                ms(t.most) * 1e3,
                t.name
            )?;
            match &t.at {
                Some(at) => writeln!(f, " ({at})")?,
                None => writeln!(f)?,
            }
        }
        if tasks.is_empty() {
            writeln!(
                f,
                "(no launches were recorded: call `world.profiler().start()` first)"
            )?;
        }
        self.fused(f)?;
        writeln!(f)?;
        writeln!(
            f,
            "{:>10}  {:<6}  {:<8}  {:>8}  kernel",
            "ms", "tier", "from", "bytes"
        )?;
        for k in &self.kernels {
            for c in &k.compilations {
                let tier = c.tier.label();
                let from = if c.cached { "cache" } else { "compiler" };
                writeln!(
                    f,
                    "{:>10.2}  {tier:<6}  {from:<8}  {:>8}  {}",
                    ms(c.time),
                    c.bytes,
                    k.name
                )?;
            }
        }
        let steps = self.steps();
        if !steps.is_empty() {
            writeln!(f, "\n{:>10}  compilation step", "ms")?;
            for (step, time) in steps {
                writeln!(f, "{:>10.2}  {step}", ms(time))?;
            }
        }
        Ok(())
    }
}
