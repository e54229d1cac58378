//! The search: changes one property of one grid at a time, and keeps what is faster.

use super::choice::{CellNode, LayoutChoice, MemoryOrder, Placement};
use crate::tune::search::{Norm, Output, Step, distance};
use wuji_ir::Error;
use wuji_ir::layout::Axis;

/// A grid whose layout is chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct GridInfo {
    /// Its name.
    pub name: String,
    /// The axes of the grid and the cells along them, in the order of indices.
    pub extents: Vec<(Axis, u64)>,
    /// Whether cells can be inactive.
    pub sparse: bool,
    /// The fields, and whether their elements have components.
    pub fields: Vec<(String, bool)>,
    /// The layout of the program as it is, if it is not one of the choices.
    pub original: Option<String>,
}

/// The layouts of all grids of a run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LayoutPlan {
    /// By name; a grid that is missing has its original layout.
    pub grids: Vec<(String, LayoutChoice)>,
}

impl LayoutPlan {
    /// The layout of a grid.
    pub fn choice(&self, name: &str) -> Option<LayoutChoice> {
        let found = self.grids.iter().find(|g| g.0 == name);
        found.map(|g| g.1)
    }

    fn with(&self, name: &str, choice: LayoutChoice) -> LayoutPlan {
        let mut plan = self.clone();
        plan.grids.retain(|g| g.0 != name);
        plan.grids.push((name.to_owned(), choice));
        plan.grids.sort_by(|a, b| a.0.cmp(&b.0));
        plan
    }
}

/// What a run gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LayoutRun {
    /// The grids of the program.
    pub grids: Vec<GridInfo>,
    /// Seconds of what the program measures.
    pub seconds: f64,
    /// Bytes of memory of the world.
    pub bytes: u64,
    /// The outputs of the program.
    pub outputs: Vec<Output>,
}

/// The options of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct LayoutRequest {
    /// The largest error of the outputs, relative to the original layout.
    pub tolerance: f64,
    /// Runs of each layout; the fastest counts.
    pub repeats: usize,
    /// Grids that keep their layout.
    pub keep: Vec<String>,
}

impl Default for LayoutRequest {
    fn default() -> LayoutRequest {
        LayoutRequest {
            tolerance: 1e-4,
            repeats: 3,
            keep: Vec::new(),
        }
    }
}

/// A layout that was run.
#[derive(Clone, PartialEq, Debug)]
pub struct LayoutPoint {
    /// The layout of each grid.
    pub plan: LayoutPlan,
    /// Seconds of the fastest run.
    pub seconds: f64,
    /// Bytes of memory of the world.
    pub bytes: u64,
    /// The largest error of all outputs.
    pub error: f64,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct TunedLayout {
    /// The options.
    pub request: LayoutRequest,
    /// The grids of the program.
    pub grids: Vec<GridInfo>,
    /// All layouts that were run; the first is the original one.
    pub points: Vec<LayoutPoint>,
    /// The number of the fastest one whose outputs agree.
    pub chosen: usize,
}

impl TunedLayout {
    /// The chosen layout.
    pub fn point(&self) -> &LayoutPoint {
        &self.points[self.chosen]
    }

    /// Whether its outputs agree with those of the original layout.
    pub fn agrees(&self, point: &LayoutPoint) -> bool {
        point.error <= self.request.tolerance
    }
}

/// Searches. `run` runs the program with the layouts of a plan and measures it.
pub fn search_layout<E: From<Error>>(
    request: &LayoutRequest,
    run: &mut dyn FnMut(&LayoutPlan) -> Result<LayoutRun, E>,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<TunedLayout, E> {
    if !(request.tolerance.is_finite() && request.tolerance >= 0.0) {
        let what = format!(
            "the tolerance {:?} is not a number from 0 on",
            request.tolerance
        );
        return Err(Error::new("W0160", what).into());
    }
    let note = "the original layout";
    progress(&Step {
        done: 0,
        total: 1,
        note,
    });
    let original = measured(request, run, &LayoutPlan::default())?;
    check(request, &original)?;
    let grids = original.grids.clone();
    let tuned = |g: &&GridInfo| !request.keep.contains(&g.name);
    let total = 1 + grids.iter().filter(tuned).map(estimate).sum::<usize>();
    let mut search = Search {
        request,
        run,
        progress,
        total,
        outputs: original.outputs,
        points: vec![LayoutPoint {
            plan: LayoutPlan::default(),
            seconds: original.seconds,
            bytes: original.bytes,
            error: 0.0,
        }],
        best: 0,
    };
    for grid in grids.iter().filter(tuned) {
        search.grid(grid)?;
    }
    Ok(TunedLayout {
        request: request.clone(),
        chosen: search.best,
        points: search.points,
        grids,
    })
}

fn check(request: &LayoutRequest, original: &LayoutRun) -> Result<(), Error> {
    if original.outputs.iter().all(|o| o.values.is_empty()) {
        return Err(Error::new("W0160", "the program has no outputs to compare")
            .help("name at least one output: a field, or numbers such as an energy"));
    }
    let names: Vec<String> = original
        .grids
        .iter()
        .map(|g| format!("`{}`", g.name))
        .collect();
    for name in &request.keep {
        if !original.grids.iter().any(|g| g.name == *name) {
            return Err(
                Error::new("W0160", format!("there is no grid `{name}` to keep"))
                    .note(format!("the grids are {}", names.join(", "))),
            );
        }
    }
    if original
        .grids
        .iter()
        .all(|g| request.keep.contains(&g.name))
    {
        return Err(Error::new("W0160", "there is no layout to choose")
            .help("place at least one field through a grid of the trial"));
    }
    Ok(())
}

/// Runs a plan several times; the fastest run counts.
fn measured<E>(
    request: &LayoutRequest,
    run: &mut dyn FnMut(&LayoutPlan) -> Result<LayoutRun, E>,
    plan: &LayoutPlan,
) -> Result<LayoutRun, E> {
    let mut best = run(plan)?;
    for _ in 1..request.repeats {
        let again = run(plan)?;
        best.seconds = best.seconds.min(again.seconds);
    }
    Ok(best)
}

/// Edges of blocks.
const BLOCKS: [u64; 4] = [4, 8, 16, 32];

fn nodes(grid: &GridInfo) -> Vec<CellNode> {
    if grid.sparse {
        CellNode::SPARSE.to_vec()
    } else {
        vec![CellNode::Dense]
    }
}

fn placements(grid: &GridInfo) -> Vec<Placement> {
    let mut all = vec![Placement::Together];
    if grid.fields.len() > 1 {
        all.push(Placement::Apart);
    }
    if grid.fields.iter().any(|f| f.1) {
        all.push(Placement::Components);
    }
    all
}

fn orders(grid: &GridInfo) -> Vec<MemoryOrder> {
    if grid.extents.len() < 2 {
        return vec![MemoryOrder::RowMajor];
    }
    vec![
        MemoryOrder::RowMajor,
        MemoryOrder::ColumnMajor,
        MemoryOrder::Morton,
    ]
}

fn blocks(grid: &GridInfo) -> Vec<Option<u64>> {
    let mut all = vec![None];
    all.extend(BLOCKS.map(Some));
    all.retain(|block| {
        let choice = LayoutChoice {
            block: *block,
            ..LayoutChoice::plain(grid.sparse)
        };
        choice.levels(&grid.extents).is_some()
    });
    all
}

/// About how many layouts of a grid are run.
fn estimate(grid: &GridInfo) -> usize {
    blocks(grid).len() * nodes(grid).len() + placements(grid).len() + orders(grid).len() - 2
}

struct Search<'s, E> {
    request: &'s LayoutRequest,
    run: &'s mut dyn FnMut(&LayoutPlan) -> Result<LayoutRun, E>,
    progress: &'s mut dyn FnMut(&Step<'_>),
    total: usize,
    outputs: Vec<Output>,
    points: Vec<LayoutPoint>,
    best: usize,
}

impl<E: From<Error>> Search<'_, E> {
    /// Blocks and nodes first, which matter most; then where fields are; then the order.
    fn grid(&mut self, grid: &GridInfo) -> Result<(), E> {
        let start = self.current(grid);
        for node in nodes(grid) {
            for block in blocks(grid) {
                self.consider(
                    grid,
                    LayoutChoice {
                        node,
                        block,
                        ..start
                    },
                )?;
            }
        }
        let start = self.current(grid);
        for placement in placements(grid) {
            self.consider(grid, LayoutChoice { placement, ..start })?;
        }
        let start = self.current(grid);
        for order in orders(grid) {
            self.consider(grid, LayoutChoice { order, ..start })?;
        }
        Ok(())
    }

    fn current(&self, grid: &GridInfo) -> LayoutChoice {
        let best = self.points[self.best].plan.choice(&grid.name);
        best.unwrap_or_else(|| LayoutChoice::plain(grid.sparse))
    }

    fn consider(&mut self, grid: &GridInfo, choice: LayoutChoice) -> Result<(), E> {
        if choice.levels(&grid.extents).is_none() {
            return Ok(());
        }
        let plan = self.points[self.best].plan.with(&grid.name, choice);
        let plain = choice == LayoutChoice::plain(grid.sparse) && grid.original.is_none();
        if plain && plan.grids.len() == 1 || self.points.iter().any(|p| p.plan == plan) {
            return Ok(());
        }
        let note = format!("{}: {choice}", grid.name);
        (self.progress)(&Step {
            done: self.points.len(),
            total: self.total.max(self.points.len() + 1),
            note: &note,
        });
        let found = measured(self.request, self.run, &plan)?;
        let error = distance(Norm::Rms, &self.outputs, &found.outputs)?;
        let point = LayoutPoint {
            plan,
            seconds: found.seconds,
            bytes: found.bytes,
            error,
        };
        let faster = point.seconds < self.points[self.best].seconds;
        if faster && error <= self.request.tolerance {
            self.best = self.points.len();
        }
        self.points.push(point);
        Ok(())
    }
}
