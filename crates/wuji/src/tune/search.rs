//! The search: measures each field by itself, predicts what combinations give, and verifies them by running the program.

use super::model::{Candidate, SAMPLED, Samples, candidates, drop_hopeless, unmeasured};
use super::packing::{NodeLayout, arrange};
use super::storage::{Storage, TunedField};
use std::collections::HashMap;
use wuji_ir::Error;

/// The numbers of an output of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// The numbers.
    pub values: Vec<f64>,
}

impl Output {
    /// Numbers under a name.
    pub(super) fn new(name: &str, values: &[f64]) -> Output {
        Output {
            name: name.to_owned(),
            values: values.to_vec(),
        }
    }
}

/// What a run gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observation {
    /// The fields and their ranges. Only those of the first run matter.
    pub fields: Vec<TunedField>,
    /// The outputs of the program.
    pub outputs: Vec<Output>,
}

/// How all fields are stored in a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoragePlan {
    /// Names and types; empty in the first run, in which all fields have their compute types.
    pub fields: Vec<(String, Storage)>,
    /// The memory layout of nodes.
    pub nodes: Vec<NodeLayout>,
}

impl StoragePlan {
    /// Whether this is the first run, in which ranges are observed.
    pub fn is_reference(&self) -> bool {
        self.fields.is_empty()
    }

    /// The number of a field.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.0 == name)
    }

    /// The bit struct of a field, by the number of its node and in the node.
    pub fn pack(&self, field: usize) -> Option<(usize, usize)> {
        self.nodes.iter().enumerate().find_map(|(node, layout)| {
            let has = |p: &super::packing::Pack| p.fields.iter().any(|f| f.0 == field);
            layout.packs.iter().position(has).map(|pack| (node, pack))
        })
    }
}

/// What is asked for.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Goal {
    /// The least memory with at most this error.
    Error(f64),
    /// The least error in at most this many bytes.
    Bytes(u64),
    /// The least error in at most this part of the memory that the compute types take.
    Part(f64),
}

/// How the outputs of two runs are compared. Errors are relative to the reference, unless it is zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Norm {
    /// Root mean square.
    #[default]
    Rms,
    /// The largest difference, relative to the largest number.
    Max,
}

/// The options of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// What is looked for.
    pub goal: Goal,
    /// How errors are measured.
    pub norm: Norm,
    /// The part that is added to the range of a field.
    pub reserve: f64,
    /// Fields that keep their types.
    pub keep: Vec<String>,
    /// How many combinations are run.
    pub points: usize,
}

/// A verified combination of types.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The types of the fields.
    pub plan: StoragePlan,
    /// Bytes of all fields.
    pub bytes: u64,
    /// The largest error of all outputs.
    pub error: f64,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// The options.
    pub request: Request,
    /// The fields of the program.
    pub fields: Vec<TunedField>,
    /// How much two runs with the compute types differ.
    pub noise: f64,
    /// Bytes of all fields with their compute types.
    pub reference_bytes: u64,
    /// The Pareto front: less memory or a smaller error than all others. The first has the least memory.
    pub front: Vec<Point>,
    /// All other points that were run.
    pub others: Vec<Point>,
    /// The number of the chosen point.
    pub chosen: usize,
    /// How often the program ran.
    pub runs: usize,
}

impl Tuned {
    /// The chosen combination.
    pub fn point(&self) -> &Point {
        &self.front[self.chosen]
    }
}

/// The progress of a search, before each run.
#[derive(Copy, Clone, Debug)]
pub struct Step<'s> {
    /// Runs that are done, and an estimate of all runs.
    pub done: usize,
    /// An estimate of all runs.
    pub total: usize,
    /// What is run next.
    pub note: &'s str,
}

/// Searches. `run` runs the program with fields that are stored by a plan.
pub fn search<E: From<Error>>(
    request: &Request,
    run: &mut dyn FnMut(&StoragePlan) -> Result<Observation, E>,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Tuned, E> {
    check(request)?;
    let first = Step {
        done: 0,
        total: 2,
        note: "reference",
    };
    progress(&first);
    let reference = run(&StoragePlan::default())?;
    check_reference(request, &reference)?;
    let mut search = Search {
        request,
        nodes: nodes(&reference.fields),
        fields: &reference.fields,
        outputs: &reference.outputs,
        run,
        progress,
        done: 1,
        total: 2,
        verified: Vec::new(),
        bytes: HashMap::new(),
    };
    search.search()
}

/// The fields of each node.
fn nodes(fields: &[TunedField]) -> Vec<Vec<usize>> {
    let count = fields.iter().map(|f| f.node + 1).max().unwrap_or(0);
    let mut nodes = vec![Vec::new(); count];
    for (n, field) in fields.iter().enumerate() {
        nodes[field.node].push(n);
    }
    nodes
}

fn check(request: &Request) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::new("W0160", what));
    match request.goal {
        Goal::Error(bound) if !(bound.is_finite() && bound > 0.0) => wrong(format!(
            "the error bound {bound:?} is not a positive number"
        )),
        Goal::Part(part) if !(part > 0.0 && part <= 1.0) => wrong(format!(
            "{part:?} is not a part of the memory: it is not between 0 and 1"
        )),
        Goal::Error(_) | Goal::Part(_) | Goal::Bytes(_)
            if !(0.0..=1e6).contains(&request.reserve) =>
        {
            wrong(format!("the reserve {:?} is not positive", request.reserve))
        }
        Goal::Error(_) | Goal::Part(_) | Goal::Bytes(_) => Ok(()),
    }
}

fn check_reference(request: &Request, found: &Observation) -> Result<(), Error> {
    let Observation { fields, outputs } = found;
    if outputs.iter().all(|o| o.values.is_empty()) {
        return Err(Error::new("W0160", "the program has no outputs to compare")
            .help("name at least one output: a field, or numbers such as an energy"));
    }
    for name in &request.keep {
        if !fields.iter().any(|f| f.name == *name) {
            return Err(unknown(name, fields));
        }
    }
    if fields.iter().all(|f| request.keep.contains(&f.name)) {
        return Err(Error::new("W0160", "there is no field to tune")
            .help("place at least one field of numbers through the trial"));
    }
    for (n, field) in fields.iter().enumerate() {
        if fields[..n].iter().any(|f| f.name == field.name) {
            let what = format!("two fields are called `{}`", field.name);
            return Err(Error::new("W0160", what)
                .help("the name of a field selects its type: give each its own"));
        }
    }
    if fields.iter().all(|f| f.range.magnitude() == 0.0) {
        let what = "all numbers of the fields are zero in the reference";
        return Err(Error::new("W0160", what).help("give the program its inputs"));
    }
    for output in outputs {
        if let Some(x) = output.values.iter().find(|x| !x.is_finite()) {
            let what = format!(
                "the output `{}` of the reference has the number {x}",
                output.name
            );
            return Err(Error::new("W0161", what)
                .note("the reference runs with the compute types of all fields")
                .help("run fewer steps or a smaller time step, or take an output that is finite"));
        }
    }
    Ok(())
}

/// A field that does not exist.
pub fn unknown(name: &str, fields: &[TunedField]) -> Error {
    let names: Vec<String> = fields.iter().map(|f| format!("`{}`", f.name)).collect();
    Error::new("W0160", format!("there is no field `{name}` to tune"))
        .note(format!("the fields are {}", names.join(", ")))
}

/// The choice for each field, by its number in the candidates.
type State = Vec<usize>;

struct Search<'s, E> {
    request: &'s Request,
    fields: &'s [TunedField],
    nodes: Vec<Vec<usize>>,
    outputs: &'s [Output],
    run: &'s mut dyn FnMut(&StoragePlan) -> Result<Observation, E>,
    progress: &'s mut dyn FnMut(&Step<'_>),
    done: usize,
    total: usize,
    verified: Vec<Point>,
    /// The layouts of nodes that were arranged before, by the types of their fields.
    bytes: HashMap<(usize, Vec<usize>), u64>,
}

impl<E: From<Error>> Search<'_, E> {
    fn search(&mut self) -> Result<Tuned, E> {
        let plain = vec![Storage::Plain; self.fields.len()];
        let noise = self.verify(&plain, "reference again")?.error;
        self.check_bound(noise)?;
        let candidates = self.measure()?;
        let states = self.descend(&candidates);
        match self.request.goal {
            Goal::Error(bound) => self.verify_bound(&candidates, &states, bound)?,
            Goal::Bytes(_) | Goal::Part(_) => {
                let budget = self.budget();
                self.verify_budget(&candidates, &states, budget)?;
            }
        }
        self.finish(noise)
    }

    fn budget(&self) -> u64 {
        let all = self.verified[0].bytes;
        match self.request.goal {
            Goal::Error(_) => all,
            Goal::Bytes(bytes) => bytes,
            Goal::Part(part) => (all as f64 * part) as u64,
        }
    }

    fn check_bound(&self, noise: f64) -> Result<(), E> {
        match self.request.goal {
            Goal::Error(bound) if noise > bound => Err(Error::new(
                "W0162",
                format!("no types have an error of {bound:e}: two runs of the reference differ by {noise:.1e}"),
            )
            .note("the results of the program depend on the order of its iterations, or on random numbers")
            .help("make the program deterministic, compare statistics instead of elements, or allow a larger error")
            .into()),
            Goal::Error(_) | Goal::Bytes(_) | Goal::Part(_) => Ok(()),
        }
    }

    fn plan(&self, storages: &[Storage]) -> StoragePlan {
        let names = self.fields.iter().map(|f| f.name.clone());
        StoragePlan {
            fields: names.zip(storages.iter().copied()).collect(),
            nodes: (self.nodes.iter())
                .map(|members| arrange(self.fields, storages, members))
                .collect(),
        }
    }

    fn cells(&self, node: usize) -> u64 {
        self.nodes[node]
            .first()
            .map_or(0, |n| self.fields[*n].cells)
    }

    fn bytes_of(&self, plan: &StoragePlan) -> u64 {
        let nodes = plan.nodes.iter().enumerate();
        nodes.map(|(n, layout)| layout.bytes * self.cells(n)).sum()
    }

    /// Runs the program with some types.
    fn verify(&mut self, storages: &[Storage], note: &str) -> Result<Point, E> {
        (self.progress)(&Step {
            done: self.done,
            total: self.total.max(self.done + 1),
            note,
        });
        let plan = self.plan(storages);
        let found = (self.run)(&plan)?;
        self.done += 1;
        let point = Point {
            bytes: self.bytes_of(&plan),
            error: distance(self.request.norm, self.outputs, &found.outputs)?,
            plan,
        };
        self.verified.push(point.clone());
        Ok(point)
    }

    /// Measures each field by itself, in the types that could store it.
    fn measure(&mut self) -> Result<Vec<Vec<Candidate>>, E> {
        let fields = self.fields;
        let mut all: Vec<Vec<Samples>> = Vec::new();
        for field in fields {
            all.push(if self.request.keep.contains(&field.name) {
                Vec::new()
            } else {
                unmeasured(field, self.request.reserve)
            });
        }
        let families: usize = all.iter().map(Vec::len).sum();
        self.total = self.done + families * SAMPLED.len() + self.request.points;
        for (n, samples) in all.iter_mut().enumerate() {
            for (k, digits) in SAMPLED.into_iter().enumerate() {
                for one in samples.iter_mut() {
                    self.sample(n, one, digits)?;
                }
                if k == 0 {
                    let before = samples.len();
                    drop_hopeless(samples, &fields[n]);
                    self.total -= (before - samples.len()) * (SAMPLED.len() - 1);
                }
            }
        }
        let all = all.iter().zip(fields);
        Ok(all
            .map(|(samples, field)| {
                if self.request.keep.contains(&field.name) {
                    vec![Candidate {
                        storage: Storage::Plain,
                        bits: field.plain_bits(),
                        error: 0.0,
                    }]
                } else {
                    candidates(field, samples)
                }
            })
            .collect())
    }

    fn sample(&mut self, field: usize, one: &mut Samples, digits: u32) -> Result<(), E> {
        let Some(storage) = one.family.storage(digits, &self.fields[field]) else {
            self.total -= 1;
            return Ok(());
        };
        let mut storages = vec![Storage::Plain; self.fields.len()];
        storages[field] = storage;
        let note = format!("{}: {storage}", self.fields[field].name);
        let error = self.verify(&storages, &note)?.error;
        one.measured.push((digits, error));
        Ok(())
    }

    /// Bytes of all fields in a state.
    fn state_bytes(&mut self, candidates: &[Vec<Candidate>], state: &State) -> u64 {
        let mut sum = 0;
        for node in 0..self.nodes.len() {
            let key = (node, self.nodes[node].iter().map(|n| state[*n]).collect());
            let known = self.bytes.get(&key).copied();
            let bytes = known.unwrap_or_else(|| {
                let storages = storages(candidates, state);
                arrange(self.fields, &storages, &self.nodes[node]).bytes
            });
            self.bytes.insert(key, bytes);
            sum += bytes * self.cells(node);
        }
        sum
    }

    /// Removes bits, those first that cost the least error, and keeps the state with the least error for each number of bytes.
    /// The first state has the most bytes.
    fn descend(&mut self, candidates: &[Vec<Candidate>]) -> Vec<(u64, State)> {
        let most = match self.request.goal {
            Goal::Error(bound) => (bound * 64.0).clamp(LEAST_SHOWN, 1.0),
            Goal::Bytes(_) | Goal::Part(_) => f64::INFINITY,
        };
        let mut state: State = candidates.iter().map(|c| c.len() - 1).collect();
        let mut bytes = self.state_bytes(candidates, &state);
        let mut found = vec![(bytes, state.clone())];
        loop {
            let costs = (0..state.len()).filter(|n| state[*n] > 0).map(|n| {
                let [now, next] = [state[n], state[n] - 1].map(|k| candidates[n][k]);
                let saved = f64::from(now.bits - next.bits) * self.fields[n].cells as f64;
                (n, (next.error.powi(2) - now.error.powi(2)) / saved)
            });
            let Some((n, _)) = costs.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                break;
            };
            state[n] -= 1;
            if predicted(candidates, &state) > most {
                break;
            }
            let now = self.state_bytes(candidates, &state);
            if now < bytes {
                bytes = now;
                let filled = self.fill(candidates, state.clone(), bytes);
                found.push((bytes, filled));
            }
        }
        found
    }

    /// Uses bits that are left in words, those first that reduce the error most.
    fn fill(&mut self, candidates: &[Vec<Candidate>], mut state: State, bytes: u64) -> State {
        let mut is_full = vec![false; state.len()];
        loop {
            let free =
                (0..state.len()).filter(|n| !is_full[*n] && state[*n] + 1 < candidates[*n].len());
            let gain = |n: usize| {
                let [now, next] = [state[n], state[n] + 1].map(|k| candidates[n][k].error);
                now.powi(2) - next.powi(2)
            };
            let Some(n) = free.max_by(|a, b| gain(*a).total_cmp(&gain(*b))) else {
                return state;
            };
            state[n] += 1;
            if self.state_bytes(candidates, &state) > bytes {
                state[n] -= 1;
                is_full[n] = true;
            }
        }
    }

    fn verify_state(&mut self, candidates: &[Vec<Candidate>], state: &State) -> Result<Point, E> {
        let storages = storages(candidates, state);
        let plan = self.plan(&storages);
        let known = self.verified.iter().find(|p| p.plan == plan);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        self.verify(&storages, "all fields")
    }

    /// Finds the least memory with an error below the bound by bisection, then tries to save more, then runs other points.
    fn verify_bound(
        &mut self,
        candidates: &[Vec<Candidate>],
        states: &[(u64, State)],
        bound: f64,
    ) -> Result<(), E> {
        let start = self.done;
        // The first state is the reference.
        let (mut good, mut bad) = (0, states.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.verify_state(candidates, &states[middle].1)?.error <= bound {
                good = middle;
            } else {
                bad = middle;
            }
        }
        while let Some((bytes, state)) = states.get(bad) {
            if !self.exchange(candidates, state, *bytes, bound)? {
                break;
            }
            bad += 1;
        }
        self.spread(candidates, states, start)
    }

    /// Moves bits from one field to another one, where the combination as a whole has a larger error than predicted.
    fn exchange(
        &mut self,
        candidates: &[Vec<Candidate>],
        state: &State,
        bytes: u64,
        bound: f64,
    ) -> Result<bool, E> {
        let mut moves = Vec::new();
        for up in 0..state.len() {
            for down in (0..state.len()).filter(|down| *down != up) {
                let mut moved = state.clone();
                if moved[down] == 0 || moved[up] + 1 >= candidates[up].len() {
                    continue;
                }
                moved[up] += 1;
                moved[down] -= 1;
                if self.state_bytes(candidates, &moved) <= bytes {
                    moves.push(self.fill(candidates, moved, bytes));
                }
            }
        }
        let errors = |state: &State| predicted(candidates, state);
        moves.sort_by(|a, b| errors(a).total_cmp(&errors(b)));
        moves.dedup();
        for state in moves.iter().take(EXCHANGES) {
            if self.verify_state(candidates, state)?.error <= bound {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Verifies the states that fit a budget with the most memory, then others.
    fn verify_budget(
        &mut self,
        candidates: &[Vec<Candidate>],
        states: &[(u64, State)],
        budget: u64,
    ) -> Result<(), E> {
        let start = self.done;
        let fitting: Vec<&(u64, State)> = states.iter().filter(|s| s.0 <= budget).collect();
        if fitting.is_empty() {
            let least = states.last().map_or(0, |s| s.0);
            let all = self.verified[0].bytes;
            return Err(Error::new(
                "W0163",
                format!(
                    "the fields do not fit {budget} bytes: with the fewest bits they have {least}"
                ),
            )
            .note(format!("with their compute types they have {all} bytes"))
            .help("allow more memory, or tune more of the fields")
            .into());
        }
        for (_, state) in fitting.iter().take(NEAR_BUDGET) {
            self.verify_state(candidates, state)?;
        }
        self.spread(candidates, states, start)
    }

    /// Verifies states at even distances, up to the number of points that is asked for.
    fn spread(
        &mut self,
        candidates: &[Vec<Candidate>],
        states: &[(u64, State)],
        start: usize,
    ) -> Result<(), E> {
        let left = self.request.points.saturating_sub(self.done - start);
        for k in 0..left.min(states.len()) {
            let (_, state) = &states[k * states.len() / left.min(states.len())];
            self.verify_state(candidates, state)?;
        }
        Ok(())
    }

    fn finish(&mut self, noise: f64) -> Result<Tuned, E> {
        let (reference_bytes, budget) = (self.verified[0].bytes, self.budget());
        let mut all = std::mem::take(&mut self.verified);
        // The reference, with itself.
        all[0].error = 0.0;
        // Packing that saves nothing comes before the same without it.
        let packed = |p: &Point| {
            p.plan
                .fields
                .iter()
                .filter(|f| f.1 != Storage::Plain)
                .count()
        };
        all.sort_by(|a, b| {
            let order = a.bytes.cmp(&b.bytes).then(b.error.total_cmp(&a.error));
            order.then(packed(b).cmp(&packed(a)))
        });
        let (mut front, mut others): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
        let mut least = f64::INFINITY;
        let mut kept = vec![false; all.len()];
        // Of those with the same memory, the last has the least error.
        for n in 0..all.len() {
            let is_last = all.get(n + 1).is_none_or(|next| next.bytes > all[n].bytes);
            if is_last && all[n].error < least {
                least = all[n].error;
                kept[n] = true;
            }
        }
        for (point, kept) in all.into_iter().zip(kept) {
            if kept { &mut front } else { &mut others }.push(point);
        }
        let chosen = match self.request.goal {
            Goal::Error(bound) => front.iter().position(|p| p.error <= bound),
            Goal::Bytes(_) | Goal::Part(_) => front.iter().rposition(|p| p.bytes <= budget),
        };
        let Some(chosen) = chosen else {
            let what = "no combination that was run has a finite error and fits the budget";
            return Err(Error::new("W0163", what).help("allow more memory").into());
        };
        self.check_saved(&front, chosen, reference_bytes)?;
        Ok(Tuned {
            request: self.request.clone(),
            fields: self.fields.to_vec(),
            noise,
            reference_bytes,
            front,
            others,
            chosen,
            runs: self.done,
        })
    }

    /// An error bound that only the compute types reach.
    fn check_saved(&self, front: &[Point], chosen: usize, reference_bytes: u64) -> Result<(), E> {
        let Goal::Error(bound) = self.request.goal else {
            return Ok(());
        };
        if front[chosen].bytes < reference_bytes {
            return Ok(());
        }
        let least = front[..chosen]
            .iter()
            .map(|p| p.error)
            .fold(f64::INFINITY, f64::min);
        let mut error = Error::new(
            "W0162",
            format!("no quantized types have an error of {bound:e}"),
        )
        .help("allow a larger error, or compare statistics instead of elements");
        if least.is_finite() {
            error = error.note(format!("the smallest error that was found is {least:.1e}"));
        }
        Err(error.into())
    }
}

/// The front includes points with errors down to this size, however small the bound is.
const LEAST_SHOWN: f64 = 1e-3;
/// How many exchanges of bits are tried.
const EXCHANGES: usize = 4;
/// How many points below a budget are run.
const NEAR_BUDGET: usize = 3;

fn storages(candidates: &[Vec<Candidate>], state: &State) -> Vec<Storage> {
    let chosen = candidates.iter().zip(state);
    chosen.map(|(c, k)| c[*k].storage).collect()
}

/// The error of a combination: rounding errors are independent.
fn predicted(candidates: &[Vec<Candidate>], state: &State) -> f64 {
    let squares = candidates
        .iter()
        .zip(state)
        .map(|(c, k)| c[*k].error.powi(2));
    squares.sum::<f64>().sqrt()
}

/// The largest error of all outputs; infinite if a number is not finite.
pub(super) fn distance(norm: Norm, reference: &[Output], found: &[Output]) -> Result<f64, Error> {
    let mut largest = 0.0f64;
    for a in reference {
        let other = found
            .iter()
            .find(|b| b.name == a.name && b.values.len() == a.values.len());
        let Some(b) = other else {
            let what = format!(
                "the output `{}` had {} numbers in the reference, and another number of them now",
                a.name,
                a.values.len()
            );
            return Err(
                Error::new("W0160", what).help("an output has the same numbers in all runs")
            );
        };
        let pairs = a.values.iter().zip(&b.values);
        let count = a.values.len().max(1) as f64;
        let (difference, size) = match norm {
            Norm::Rms => {
                let difference: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
                let size: f64 = a.values.iter().map(|a| a * a).sum();
                ((difference / count).sqrt(), (size / count).sqrt())
            }
            Norm::Max => {
                let difference = pairs.map(|(a, b)| (a - b).abs());
                // A NaN must not be lost.
                let difference =
                    difference.fold(0.0, |m: f64, d| if d > m || d.is_nan() { d } else { m });
                let size = a.values.iter().map(|a| a.abs()).fold(0.0, f64::max);
                (difference, size)
            }
        };
        let error = if size > 0.0 {
            difference / size
        } else {
            difference
        };
        if !error.is_finite() {
            return Ok(f64::INFINITY);
        }
        largest = largest.max(error);
    }
    Ok(largest)
}
