//! The search for programs in Rust.

use super::choice::{CellNode, LayoutChoice, Level, Placement};
use super::search::{GridInfo, LayoutPlan, LayoutRequest, LayoutRun, TunedLayout, search_layout};
use crate::axes::{Axes, Extents};
use crate::element::Element;
use crate::field::Field;
use crate::layout::Node;
use crate::tune::search::{Output, Step};
use crate::tune::trial::numbers;
use crate::world::World;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Instant;
use wuji_ir::layout::{Axis, CellOrder};
use wuji_ir::types::Structs;
use wuji_ir::{Error, Result};

/// A search for the layout of fields; see [`layout`].
pub struct LayoutSearch {
    request: LayoutRequest,
    progress: Box<dyn FnMut(&Step<'_>)>,
}

impl fmt::Debug for LayoutSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayoutSearch")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// Starts a search for the fastest layout of a program's fields: blocks, order, array of structs or structure of arrays, and
/// the kind of sparse nodes.
///
/// ```
/// use wuji::prelude::*;
///
/// #[kernel]
/// fn step(u: &Field<f32, 2>, v: &Field<Vec2, 2>) {
///     for [i, j] in u {
///         u[[i, j]] += v[[i, j]].x * 0.5;
///     }
/// }
///
/// # fn main() -> wuji::Result<()> {
/// let world = World::interpreter()?;
/// let tuned = wuji::tune::layout().repeats(1).run(|trial| {
///     let (u, v) = world.layout(|root| {
///         let grid = trial.grid(root, "grid", IJ, [16, 16]);
///         (grid.place::<f32, 2>("u"), grid.place::<Vec2, 2>("v"))
///     })?;
///     v.fill(vec2(1.0, 2.0))?;
///     trial.time(&world, || step(&u, &v))?;
///     trial.output("u", &u)
/// })?;
/// println!("{tuned}"); // a table, and the code of the fastest layout
/// assert!(tuned.points.len() > 4);
/// # Ok(())
/// # }
/// ```
pub fn layout() -> LayoutSearch {
    LayoutSearch {
        request: LayoutRequest::default(),
        progress: Box::new(|_| ()),
    }
}

impl LayoutSearch {
    /// The largest error of the outputs, relative to the original layout: 1e-4 by default. Sums of floats depend on the order of
    /// elements.
    pub fn tolerance(mut self, error: f64) -> LayoutSearch {
        self.request.tolerance = error;
        self
    }

    /// How often each layout is run: 3 times by default. The fastest run counts.
    pub fn repeats(mut self, count: usize) -> LayoutSearch {
        self.request.repeats = count.max(1);
        self
    }

    /// A grid that keeps its layout.
    pub fn keep(mut self, name: &str) -> LayoutSearch {
        self.request.keep.push(name.to_owned());
        self
    }

    /// What to do before each layout.
    pub fn progress(mut self, show: impl FnMut(&Step<'_>) + 'static) -> LayoutSearch {
        self.progress = Box::new(show);
        self
    }

    /// Runs the program repeatedly, each time with other layouts. It makes its fields with [`LayoutTrial::grid`], measures with
    /// [`LayoutTrial::time`], and ends with outputs.
    pub fn run(
        mut self,
        mut program: impl FnMut(&LayoutTrial<'_>) -> Result<()>,
    ) -> Result<TunedLayout> {
        let mut run = |plan: &LayoutPlan| {
            let trial = LayoutTrial {
                plan,
                state: Rc::default(),
            };
            program(&trial)?;
            trial.finish()
        };
        search_layout(&self.request, &mut run, &mut self.progress)
    }
}

/// One run of a program: it lays grids out, measures time, and takes the outputs.
#[derive(Debug)]
pub struct LayoutTrial<'p> {
    plan: &'p LayoutPlan,
    state: Rc<RefCell<State>>,
}

#[derive(Debug, Default)]
struct State {
    grids: Vec<GridInfo>,
    seconds: Option<f64>,
    bytes: u64,
    outputs: Vec<Output>,
    error: Option<Error>,
}

/// Cells over a box, in the layout of this run. Fields are placed in them.
#[derive(Debug)]
pub struct Grid<'a> {
    above: Node<'a>,
    inner: Level,
    /// The node of all fields, if they are together.
    cells: Option<Node<'a>>,
    placement: Placement,
    number: usize,
    state: Rc<RefCell<State>>,
}

impl<'p> LayoutTrial<'p> {
    /// The layouts of this run.
    pub fn plan(&self) -> &LayoutPlan {
        self.plan
    }

    /// Cells over a box, all of which exist, below a node.
    #[track_caller]
    pub fn grid<'a>(
        &self,
        above: Node<'a>,
        name: &str,
        axes: impl Into<Axes>,
        extents: impl Into<Extents>,
    ) -> Grid<'a> {
        self.add(above, name, false, axes.into(), extents.into())
    }

    /// Cells over a box that are activated one by one, or block by block, depending on the layout: a loop over a field may visit
    /// inactive elements of an active block, which are zero.
    #[track_caller]
    pub fn sparse_grid<'a>(
        &self,
        above: Node<'a>,
        name: &str,
        axes: impl Into<Axes>,
        extents: impl Into<Extents>,
    ) -> Grid<'a> {
        self.add(above, name, true, axes.into(), extents.into())
    }

    #[track_caller]
    fn add<'a>(
        &self,
        above: Node<'a>,
        name: &str,
        sparse: bool,
        axes: Axes,
        extents: Extents,
    ) -> Grid<'a> {
        let state = &mut *self.state.borrow_mut();
        if state.grids.iter().any(|g| g.name == name) {
            let what = format!("two grids are called `{name}`");
            let error = Error::new("W0160", what);
            let error = error.help("the name of a grid selects its layout: give each its own");
            state.error.get_or_insert(error);
        }
        let extents = sizes(&axes.list(), &extents);
        let plain = LayoutChoice::plain(sparse);
        let choice = self.plan.choice(name).unwrap_or(plain);
        let levels = choice.levels(&extents).or_else(|| plain.levels(&extents));
        let inner = Level {
            node: plain.node,
            order: CellOrder::RowMajor,
            extents: extents.clone(),
        };
        let (outer, inner) = levels.unwrap_or((None, inner));
        let top = outer.map_or(above, |outer| outer.below(above));
        let cells = (choice.placement == Placement::Together).then(|| inner.below(top));
        state.grids.push(GridInfo {
            name: name.to_owned(),
            extents,
            sparse,
            fields: Vec::new(),
            original: None,
        });
        Grid {
            above: top,
            inner,
            cells,
            placement: choice.placement,
            number: state.grids.len() - 1,
            state: self.state.clone(),
        }
    }

    /// Measures launches, until the last of them has ended. Launch every kernel once before: its compilation counts otherwise.
    pub fn time<R>(&self, world: &World, launches: impl FnOnce() -> Result<R>) -> Result<R> {
        world.finish_compiling()?;
        world.synchronize()?;
        let start = Instant::now();
        let result = launches()?;
        world.synchronize()?;
        let state = &mut *self.state.borrow_mut();
        let before = state.seconds.unwrap_or(0.0);
        state.seconds = Some(before + start.elapsed().as_secs_f64());
        state.bytes = state.bytes.max(world.memory_used());
        Ok(result)
    }

    /// An output: all elements of a field. Inactive ones are zero.
    #[track_caller]
    pub fn output<T: Element, const D: usize>(
        &self,
        name: &str,
        field: &Field<T, D>,
    ) -> Result<()> {
        self.output_numbers(name, &numbers(field)?);
        Ok(())
    }

    /// An output: numbers, such as an energy.
    pub fn output_numbers(&self, name: &str, values: &[f64]) {
        let output = Output::new(name, values);
        self.state.borrow_mut().outputs.push(output);
    }

    fn finish(self) -> Result<LayoutRun> {
        let mut state = self.state.take();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(seconds) = state.seconds else {
            return Err(Error::new("W0160", "the program measures nothing")
                .help("put the launches that matter into `trial.time(&world, || ..)`"));
        };
        Ok(LayoutRun {
            grids: state.grids,
            seconds,
            bytes: state.bytes,
            outputs: state.outputs,
        })
    }
}

impl Grid<'_> {
    /// Places a field in the cells.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(&self, name: &str) -> Field<T, D> {
        let mut structs = Structs::default();
        let ty = T::ir_type(&mut structs);
        let compound = structs.arity(ty) > 0;
        let grid = &mut self.state.borrow_mut().grids[self.number];
        grid.fields.push((name.to_owned(), compound));
        match (self.cells, self.placement) {
            (Some(cells), _) => cells.place(name),
            (None, Placement::Components) => {
                (self.above).place_soa(name, |above| self.inner.below(above))
            }
            (None, Placement::Together | Placement::Apart) => {
                self.inner.below(self.above).place(name)
            }
        }
    }
}

impl Level {
    /// A node of this level below another one.
    #[track_caller]
    fn below<'a>(&self, above: Node<'a>) -> Node<'a> {
        let axes = Axes::of(self.extents.iter().map(|e| e.0));
        let extents = Extents::Each(self.extents.iter().map(|e| e.1.into()).collect());
        let node = match self.node {
            CellNode::Dense => above.dense(axes, extents),
            CellNode::Pointer => above.pointer(axes, extents),
            CellNode::Bitmasked => above.bitmasked(axes, extents),
            CellNode::Hash => above.hash_sized(axes, extents),
        };
        match self.order {
            CellOrder::RowMajor => node,
            CellOrder::Morton => node.morton(),
        }
    }
}

/// The extents of a box, in the order of axes. Wrong ones are reported when a node gets them.
fn sizes(axes: &[Axis], extents: &Extents) -> Vec<(Axis, u64)> {
    let mut all: Vec<(Axis, u64)> = axes
        .iter()
        .enumerate()
        .map(|(k, axis)| {
            let extent = match extents {
                Extents::All(n) => Some(n),
                Extents::Each(list) => list.get(k),
            };
            let size = extent.and_then(|n| u64::try_from(*n).ok());
            (*axis, size.unwrap_or(0))
        })
        .collect();
    all.sort_by_key(|e| e.0);
    all
}
