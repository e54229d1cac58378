//! Effect summaries: what a task reads and writes, and where.

use crate::activation::{ActivatingWrite, activating_writes};
use crate::expression::loaded_expression;
use crate::storage::{Storage, is_fixed};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use wuji_compile::analysis::affine::{Affine, AffineAnalysis};
use wuji_compile::analysis::launch_bound::launch_bound;
use wuji_compile::analysis::uses::used_values;
use wuji_compile::rewrite::Structure;
use wuji_ir::entities::{Field, Inst, Region, Tree, Value};
use wuji_ir::module::{Bound, Function, Module, Term};
use wuji_ir::ops::{
    Access, AccessOp, AtomicOp, CellOp, CheckOp, Domain, Effect, HintOp, LoopHints, Op, OpClass,
    Step,
};
use wuji_ir::types::Scalar;

/// The elements that an iteration accesses: for each axis of the field that the loop's indices determine, the number of the axis,
/// what determines it, its factor (1 or -1) and an offset. Iterations access different elements.
pub type OwnElements = SmallVec<[(usize, IndexSource, i64, i64); 3]>;

/// What is different in every iteration.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IndexSource {
    /// An index of the loop, by its number.
    Loop(usize),
    /// A value that the program says is unique, by its number in [`Summary::uniques`].
    Unique(usize),
}

/// A value that the program says is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// How it is computed; fields and arrays are written as their position in `loads`.
    pub expression: String,
    /// The fields and arrays that the expression reads.
    pub loads: Vec<Storage>,
    /// All iterations together have the numbers below this one.
    pub count: Option<u64>,
}

/// Which elements of a field the iterations of a task access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every iteration accesses elements of its own.
    Own(OwnElements),
    /// Iterations may access the same elements.
    Anywhere,
}

/// How a task uses a field or an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageUse {
    /// The field or array.
    pub storage: Storage,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written to.
    pub writes: bool,
    /// All writes are updates by this operation, whose results are unused.
    pub updates: Option<AtomicOp>,
    /// Which elements iterations access.
    pub reach: Reach,
    /// Every access is to an element that exists, so no write is dropped or reported.
    pub exists: bool,
    /// Every element is stored to, and none is read before; of a sparse field, every element of an active cell.
    pub covers: bool,
    /// May activate cells that the loop is not at.
    pub activates: bool,
}

/// How a task uses the cells of a tree.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MaskUse {
    /// The tree.
    pub tree: Tree,
    /// Whether the activity of cells is read.
    pub reads: bool,
    /// Whether cells are activated.
    pub activates: bool,
    /// Whether cells are deactivated.
    pub deactivates: bool,
}

/// The iterations of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// No loop: one iteration.
    Serial,
    /// A box: bounds are constants or slots of the parameters.
    Box(Vec<(Bound, Bound)>),
    /// The active cells of a field below sparse nodes.
    Cells(Field),
    /// Several loops, or one whose bounds are computed.
    Unknown,
}

/// Why a task is never fused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Obstacle {
    /// Its loops share values.
    SeveralLoops,
    /// Its bounds are computed.
    ComputedBounds,
    /// It has hints of its own.
    Hints,
    /// Its iterations form thread blocks.
    Cooperative,
    /// It calls a recursive function.
    Calls,
    /// It asks which cells are active, or changes it.
    Cells,
    /// It has assertions.
    Checks,
    /// It prints.
    Prints,
    /// It draws random numbers.
    Random,
    /// It has a result or variables between loops.
    Temps,
    /// It accesses arrays of unknown shape, or that overlap.
    Arrays,
}

impl Obstacle {
    /// In words, for remarks.
    pub fn text(self) -> &'static str {
        match self {
            Obstacle::SeveralLoops => "its loops share values",
            Obstacle::ComputedBounds => "its bounds are computed",
            Obstacle::Hints => "it has hints of its own",
            Obstacle::Cooperative => "its iterations form blocks",
            Obstacle::Calls => "it calls a recursive function",
            Obstacle::Cells => "it asks which cells are active, or changes it",
            Obstacle::Checks => "it has assertions",
            Obstacle::Prints => "it prints",
            Obstacle::Random => "it draws random numbers",
            Obstacle::Temps => "it has a result or variables between loops",
            Obstacle::Arrays => "it accesses arrays of the host, or that overlap",
        }
    }
}

/// The effects of a task.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The iterations.
    pub space: Space,
    /// What the program said about the loop.
    pub hints: LoopHints,
    /// How it uses fields and arrays.
    pub uses: Vec<StorageUse>,
    /// How it uses the cells of trees.
    pub masks: Vec<MaskUse>,
    /// Values that are unique by a hint.
    pub uniques: Vec<UniqueIndex>,
    /// Writes that may activate cells.
    pub activations: Vec<ActivatingWrite>,
    /// Parameters that are floats: the number of each, its type, and its slot.
    pub floats: Vec<(usize, Scalar, usize)>,
    /// The first reason why it cannot be fused.
    pub obstacle: Option<Obstacle>,
    /// Prints, checks and random numbers keep their order.
    pub ordered: bool,
    /// Estimated instructions of an iteration.
    pub cost: u64,
    /// The loop, in a task that has one.
    pub(crate) foreach: Option<Inst>,
}

impl Summary {
    /// The effects of a task.
    pub fn of(m: &Module) -> Summary {
        let Some(f) = m.kernel_func() else {
            return Summary::empty(Space::Unknown);
        };
        let structure = Structure::of(f);
        let loops: Vec<Inst> = entry_loops(f).collect();
        let (space, hints, foreach) = space_of(m, f, &loops);
        let mut summary = Summary {
            hints,
            foreach,
            activations: activating_writes(m, foreach),
            floats: float_params(m),
            ..Summary::empty(space)
        };
        let indices: Vec<Value> = foreach.map_or_else(Vec::new, |inst| {
            f.regions[f.insts[inst].regions[0]].params.to_vec()
        });
        let mut walk = Walk {
            m,
            f,
            affine: AffineAnalysis::new(f, &structure),
            indices,
            used: used_values(f),
            summary: &mut summary,
        };
        f.walk(|inst| walk.visit(inst));
        walk.find_covered();
        match summary.space {
            Space::Unknown if loops.len() == 1 => summary.refuse(Obstacle::ComputedBounds),
            Space::Unknown => summary.refuse(Obstacle::SeveralLoops),
            Space::Serial | Space::Box(_) | Space::Cells(_) => {}
        }
        if hints.cooperative {
            summary.refuse(Obstacle::Cooperative);
        }
        if hints.serial || hints.block_size.is_some() {
            summary.refuse(Obstacle::Hints);
        }
        if !m.arrays.values().all(is_fixed) {
            summary.refuse(Obstacle::Arrays);
        }
        if !m.temps.is_empty() || !f.results.is_empty() {
            summary.refuse(Obstacle::Temps);
        }
        summary.read_masks(m);
        summary
    }

    fn empty(space: Space) -> Summary {
        Summary {
            space,
            hints: LoopHints::default(),
            uses: Vec::new(),
            masks: Vec::new(),
            uniques: Vec::new(),
            activations: Vec::new(),
            floats: Vec::new(),
            obstacle: None,
            ordered: false,
            cost: 0,
            foreach: None,
        }
    }

    fn refuse(&mut self, obstacle: Obstacle) {
        self.obstacle.get_or_insert(obstacle);
    }

    /// The use of a field or array, if there is one.
    pub fn use_of(&self, storage: Storage) -> Option<&StorageUse> {
        self.uses.iter().find(|u| u.storage == storage)
    }

    /// Whether it changes anything.
    pub fn has_effects(&self) -> bool {
        self.ordered
            || self.uses.iter().any(|u| u.writes)
            || (self.masks.iter()).any(|u| u.activates || u.deactivates)
            || self.obstacle.is_some()
    }

    fn mask_mut(&mut self, tree: Tree) -> &mut MaskUse {
        let at = self.masks.iter().position(|u| u.tree == tree);
        let at = at.unwrap_or_else(|| {
            self.masks.push(MaskUse {
                tree,
                reads: false,
                activates: false,
                deactivates: false,
            });
            self.masks.len() - 1
        });
        &mut self.masks[at]
    }

    /// Loops over sparse fields read which cells are active, and so do writes that activate.
    fn read_masks(&mut self, m: &Module) {
        let mut loops: Vec<Field> = Vec::new();
        if let Some(f) = m.kernel_func() {
            for inst in entry_loops(f) {
                if let Op::ForEach(_, Domain::Field(field), _) = f.insts[inst].op {
                    loops.push(field);
                }
            }
        }
        for field in loops {
            if is_sparse(m, field) {
                self.mask_mut(m.fields[field].tree).reads = true;
            }
        }
        let activated: Vec<Tree> = (self.uses.iter())
            .filter(|used| used.activates && used.storage.is_sparse(m))
            .filter_map(|used| match used.storage {
                Storage::Field(field) => Some(m.fields[field].tree),
                Storage::Array(_) => None,
            })
            .collect();
        for tree in activated {
            self.mask_mut(tree).activates = true;
        }
    }
}

fn float_params(m: &Module) -> Vec<(usize, Scalar, usize)> {
    let params = m.params.iter().zip(m.param_slots()).enumerate();
    let floats = params.filter_map(|(k, (param, slot))| {
        let scalar = param.ty.as_scalar().filter(|s| s.is_float())?;
        Some((k, scalar, slot))
    });
    floats.collect()
}

/// The loops of a kernel.
pub(crate) fn entry_loops(f: &Function) -> impl Iterator<Item = Inst> {
    let insts = f.regions[f.entry].insts.iter().copied();
    insts.filter(|i| matches!(f.insts[*i].op, Op::ForEach(..)))
}

/// Whether some cell above a field can be inactive.
pub(crate) fn is_sparse(m: &Module, field: Field) -> bool {
    Storage::Field(field).is_sparse(m)
}

/// The iterations of a kernel with one loop.
fn space_of(m: &Module, f: &Function, loops: &[Inst]) -> (Space, LoopHints, Option<Inst>) {
    let hints = LoopHints::default();
    let [inst] = *loops else {
        let space = if loops.is_empty() {
            Space::Serial
        } else {
            Space::Unknown
        };
        return (space, hints, None);
    };
    let Op::ForEach(_, domain, hints) = &f.insts[inst].op else {
        return (Space::Unknown, hints, None);
    };
    // What is before the loop gives its bounds and values that it uses, and nothing else.
    let entry = f.regions[f.entry].insts.iter();
    let quiet = entry
        .filter(|i| **i != inst)
        .all(|i| f.insts[*i].op.effect() == Effect::Pure);
    if !quiet {
        return (Space::Unknown, *hints, None);
    }
    let space = match domain {
        Domain::Field(field) if is_sparse(m, *field) => Space::Cells(*field),
        Domain::Field(field) => {
            let domain = m.fields[*field].domain(&m.trees);
            let end = |(lo, extent): &(i64, u64)| i64::try_from(*extent).ok()?.checked_add(*lo);
            let bounds = domain.iter().map(|axis| Some((axis.0, end(axis)?)));
            match bounds.collect::<Option<Vec<_>>>() {
                Some(bounds) => Space::Box(
                    bounds
                        .into_iter()
                        .map(|(lo, hi)| (Bound::Const(lo), Bound::Const(hi)))
                        .collect(),
                ),
                None => Space::Unknown,
            }
        }
        Domain::Range { .. } => {
            let bounds: Option<Vec<Bound>> = f.insts[inst]
                .args
                .iter()
                .map(|v| launch_bound(f, *v))
                .collect();
            match bounds {
                Some(b) => Space::Box(b.chunks_exact(2).map(|c| (c[0], c[1])).collect()),
                None => Space::Unknown,
            }
        }
    };
    (space, *hints, Some(inst))
}

struct Walk<'a> {
    m: &'a Module,
    f: &'a Function,
    affine: AffineAnalysis<'a>,
    /// Of the loop, in a task that has one.
    indices: Vec<Value>,
    used: FxHashSet<Value>,
    summary: &'a mut Summary,
}

impl Walk<'_> {
    fn visit(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        self.summary.cost += data.op.cost().units();
        match data.op.class() {
            OpClass::Access(op, access) => self.access(inst, op, access),
            OpClass::Cell(op, field) => self.cell(op, field),
            OpClass::Random => {
                self.summary.ordered = true;
                self.summary.refuse(Obstacle::Random);
            }
            OpClass::Check(CheckOp::Print(_)) => {
                self.summary.ordered = true;
                self.summary.refuse(Obstacle::Prints);
            }
            OpClass::Check(CheckOp::Assert(_) | CheckOp::CheckIndex(_) | CheckOp::Report(_)) => {
                self.summary.ordered = true;
                self.summary.refuse(Obstacle::Checks);
            }
            OpClass::Call(_) | OpClass::TreeAccess(..) | OpClass::Memory(_) => {
                self.summary.ordered = true;
                self.summary.refuse(Obstacle::Calls);
                self.touch_everything();
            }
            OpClass::Thread(_) => self.summary.refuse(Obstacle::Cooperative),
            OpClass::Hint(HintOp::Cache(_)) => self.summary.refuse(Obstacle::Hints),
            OpClass::Hint(HintOp::AssumeRange(..) | HintOp::Unique(_))
            | OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Control(_) => {}
        }
    }

    /// A callee may access anything.
    fn touch_everything(&mut self) {
        let fields = self.m.fields.keys().map(Storage::Field);
        let arrays = self.m.arrays.keys().map(Storage::Array);
        for storage in fields.chain(arrays) {
            let used = self.entry(storage);
            used.reads = true;
            used.writes = true;
            used.updates = None;
            used.reach = Reach::Anywhere;
            used.exists = false;
            used.activates = true;
        }
        for tree in self.m.trees.keys() {
            let mask = self.summary.mask_mut(tree);
            (mask.reads, mask.activates, mask.deactivates) = (true, true, true);
        }
    }

    fn cell(&mut self, op: CellOp, field: Field) {
        let tree = self.m.fields[field].tree;
        let mask = self.summary.mask_mut(tree);
        match op {
            CellOp::IsActive | CellOp::Length => mask.reads = true,
            CellOp::Activate | CellOp::Append => (mask.reads, mask.activates) = (true, true),
            CellOp::Deactivate | CellOp::DeactivateChunk => {
                (mask.reads, mask.deactivates) = (true, true)
            }
        }
        self.summary.refuse(Obstacle::Cells);
    }

    fn entry(&mut self, storage: Storage) -> &mut StorageUse {
        let uses = &mut self.summary.uses;
        let at = uses.iter().position(|u| u.storage == storage);
        let at = at.unwrap_or_else(|| {
            uses.push(StorageUse {
                storage,
                reads: false,
                writes: false,
                updates: None,
                reach: Reach::Own(OwnElements::new()),
                exists: true,
                covers: false,
                activates: false,
            });
            uses.len() - 1
        });
        &mut uses[at]
    }

    fn access(&mut self, inst: Inst, op: AccessOp, access: &Access) {
        let Some(storage) = Storage::of(access.place) else {
            return;
        };
        let data = &self.f.insts[inst];
        let rank = storage.rank(self.m);
        let sparse = storage.is_sparse(self.m);
        let own = self.own_elements(&data.args[..rank]);
        let exists =
            rank == 0 && !sparse || own.as_ref().is_some_and(|own| self.exists(storage, own));
        let unused = data.results.iter().all(|r| !self.used.contains(r));
        // Cells of dense nodes are always active.
        let here = !sparse || self.is_own_cell(storage, own.as_ref());
        let first = self.summary.use_of(storage).is_none();
        let used = self.entry(storage);
        match own {
            Some(own) if first => used.reach = Reach::Own(own),
            Some(own) if used.reach == Reach::Own(own.clone()) => {}
            _ => used.reach = Reach::Anywhere,
        }
        used.exists &= exists;
        let writes_before = used.writes;
        match op {
            AccessOp::Load => used.reads = true,
            AccessOp::Store => {
                used.updates = None;
                used.writes = true;
            }
            AccessOp::Atomic(atomic) if unused => {
                let same = !writes_before || used.updates == Some(atomic);
                used.updates = same.then_some(atomic);
                used.writes = true;
            }
            AccessOp::Atomic(_) | AccessOp::CompareExchange => {
                used.updates = None;
                (used.reads, used.writes) = (true, true);
            }
        }
        let activates = wuji_ir::ops::Activation::IfAbsent == access.activation;
        used.activates |= op != AccessOp::Load && activates && !here;
        // A write that activates nothing depends on what is active.
        if op != AccessOp::Load
            && !activates
            && !here
            && let Storage::Field(field) = storage
        {
            self.summary.mask_mut(self.m.fields[field].tree).reads = true;
        }
    }

    /// The elements at these indices, if different iterations have different ones.
    fn own_elements(&mut self, at: &[Value]) -> Option<OwnElements> {
        let mut own = OwnElements::new();
        let mut seen: SmallVec<[bool; 3]> = SmallVec::from_elem(false, self.indices.len());
        for (axis, v) in at.iter().enumerate() {
            let expr = self.affine.expr(*v);
            if let Some((number, factor)) = self.unique_index(&expr) {
                return Some(smallvec![(axis, number, factor, expr.constant)]);
            }
            let (lo, hi) = self.affine.range_of(&expr);
            let bits = self.f.ty(*v).as_scalar().map_or(0, Scalar::bits);
            let has_index = self.indices.iter().any(|i| expr.coefficient(*i) != 0);
            if !has_index {
                continue;
            }
            let (number, factor, offset) = single(&expr, &self.indices)?;
            let wraps = hi.saturating_sub(lo) >= 1i128 << bits;
            if wraps || seen[number] {
                return None;
            }
            seen[number] = true;
            own.push((axis, IndexSource::Loop(number), factor, offset));
        }
        seen.iter().all(|s| *s).then_some(own)
    }

    /// The value in an expression that is unique by a hint, with its factor.
    fn unique_index(&mut self, expr: &Affine) -> Option<(IndexSource, i64)> {
        let [(v, factor)] = expr.terms[..] else {
            return None;
        };
        let f = self.f;
        let inst = f.def(v)?;
        let body = f.insts[self.summary.foreach?].regions[0];
        // In an inner loop it is many values.
        let Op::Unique(count) = f.insts[inst].op else {
            return None;
        };
        if !matches!(factor, 1 | -1) || !f.regions[body].insts.contains(&inst) {
            return None;
        }
        let mut loads = Vec::new();
        let expression = loaded_expression(f, body, f.insts[inst].args[0], &mut loads)?;
        let unique = UniqueIndex {
            expression,
            loads,
            count,
        };
        let uniques = &mut self.summary.uniques;
        let known = uniques.iter().position(|u| *u == unique);
        let number = known.unwrap_or_else(|| {
            uniques.push(unique);
            uniques.len() - 1
        });
        Some((IndexSource::Unique(number), factor))
    }

    /// Whether all elements that iterations have of their own exist.
    fn exists(&self, storage: Storage, own: &OwnElements) -> bool {
        if storage.is_sparse(self.m) {
            return self.is_own_cell(storage, Some(own));
        }
        if let [(0, IndexSource::Unique(_), 1, 0)] = own[..] {
            return self.covers_as(own, storage);
        }
        let Space::Box(bounds) = &self.summary.space else {
            return false;
        };
        let Some(domain) = storage.domain(self.m) else {
            return false;
        };
        own.len() == domain.len()
            && own.iter().all(|(axis, source, factor, offset)| {
                let IndexSource::Loop(number) = source else {
                    return false;
                };
                let (Bound::Const(lo), Bound::Const(hi)) = bounds[*number] else {
                    return false;
                };
                let at = |c: i64| i128::from(*factor) * i128::from(c) + i128::from(*offset);
                let (first, extent) = domain[*axis];
                let inside = |c: i128| {
                    let first = i128::from(first);
                    c >= first && c < first + i128::from(extent)
                };
                hi <= lo || inside(at(lo)) && inside(at(hi.saturating_sub(1)))
            })
    }

    /// Whether the own elements of all iterations are all elements of a field or array, by a hint.
    fn covers_as(&self, own: &OwnElements, storage: Storage) -> bool {
        let [(0, IndexSource::Unique(number), 1, 0)] = own[..] else {
            return false;
        };
        let Some(count) = self.summary.uniques[number].count else {
            return false;
        };
        storage
            .domain(self.m)
            .is_some_and(|domain| domain == [(0, count)])
    }

    /// Whether an access is to the cell that the loop is at.
    fn is_own_cell(&self, storage: Storage, own: Option<&OwnElements>) -> bool {
        let (Space::Cells(looped), Storage::Field(field)) = (&self.summary.space, storage) else {
            return false;
        };
        let (a, b) = (&self.m.fields[*looped], &self.m.fields[field]);
        let same = a.tree == b.tree && a.node == b.node && a.axes == b.axes;
        let plain = own.is_some_and(|own| {
            let axes = own.iter().enumerate();
            own.len() == a.rank()
                && axes.into_iter().all(|(k, (axis, source, factor, offset))| {
                    (*axis, *source, *factor, *offset) == (k, IndexSource::Loop(k), 1, 0)
                })
        });
        same && plain
    }

    /// Finds the fields and arrays that are stored to everywhere before they are read.
    fn find_covered(&mut self) {
        let region = match (&self.summary.space, self.summary.foreach) {
            (Space::Serial, _) => self.f.entry,
            (Space::Box(_) | Space::Cells(_), Some(inst)) => self.f.insts[inst].regions[0],
            (Space::Cells(_) | Space::Unknown | Space::Box(_), _) => return,
        };
        if leaves_early(self.f, region, self.summary.foreach) {
            return;
        }
        for k in 0..self.summary.uses.len() {
            let used = self.summary.uses[k].clone();
            let whole = self.covers_domain(&used);
            self.summary.uses[k].covers = whole && self.is_stored_first(region, used.storage);
        }
    }

    /// Whether the own elements of all iterations are all elements of a field or array; of a sparse field, those of active cells.
    fn covers_domain(&self, used: &StorageUse) -> bool {
        let Reach::Own(own) = &used.reach else {
            return false;
        };
        if !used.exists {
            return false;
        }
        // Every active cell has its iteration, and the others have no values.
        if used.storage.is_sparse(self.m) {
            return self.is_own_cell(used.storage, Some(own));
        }
        if self.covers_as(own, used.storage) {
            return true;
        }
        match &self.summary.space {
            Space::Serial => used.storage.rank(self.m) == 0,
            Space::Box(bounds) => {
                let Some(domain) = used.storage.domain(self.m) else {
                    return false;
                };
                own.len() == domain.len()
                    && bounds.len() == domain.len()
                    && own.iter().all(|(axis, source, _, _)| {
                        let IndexSource::Loop(number) = source else {
                            return false;
                        };
                        let (Bound::Const(lo), Bound::Const(hi)) = bounds[*number] else {
                            return false;
                        };
                        i128::from(hi) - i128::from(lo) == i128::from(domain[*axis].1)
                    })
            }
            Space::Cells(_) | Space::Unknown => false,
        }
    }

    /// Whether an iteration always stores to all of its element before it reads any of it.
    fn is_stored_first(&self, region: Region, storage: Storage) -> bool {
        let f = self.f;
        let arity = self.m.structs.arity(storage.elem(self.m));
        let mut stored: Vec<u32> = Vec::new();
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            if let Op::Store(access) = &data.op
                && access.place == storage.place()
            {
                match access.path[..] {
                    [] => return true,
                    [Step::Const(k)] => {
                        if !stored.contains(&k) {
                            stored.push(k);
                        }
                        if stored.len() as u32 == arity {
                            return true;
                        }
                    }
                    _ => {}
                }
                continue;
            }
            if mentions(f, *inst, storage) {
                return false;
            }
        }
        false
    }
}

/// The only index in an expression, with its factor and the offset.
fn single(expr: &Affine, indices: &[Value]) -> Option<(usize, i64, i64)> {
    let [(v, factor)] = expr.terms[..] else {
        return None;
    };
    let number = indices.iter().position(|i| *i == v)?;
    matches!(factor, 1 | -1).then_some((number, factor, expr.constant))
}

/// Whether an instruction, or one in its regions, accesses a field or array.
fn mentions(f: &Function, inst: Inst, storage: Storage) -> bool {
    let data = &f.insts[inst];
    let access = data.op.access().map(|a| a.place) == Some(storage.place());
    let insts = |r: &Region| f.regions[*r].insts.clone();
    let region = |r: &Region| insts(r).into_iter().any(|i| mentions(f, i, storage));
    access || matches!(data.op, Op::Call(_)) || data.regions.iter().any(region)
}

/// Whether an iteration can end before the end of its region.
pub(crate) fn leaves_early(f: &Function, region: Region, foreach: Option<Inst>) -> bool {
    let label = foreach.and_then(|inst| f.insts[inst].op.label());
    let insts = f.regions[region].insts.iter();
    let regions: Vec<Region> = insts.flat_map(|inst| f.regions_of(*inst)).collect();
    regions.iter().any(|r| match &f.regions[*r].term {
        Term::Continue(l, _) => Some(*l) == label,
        Term::Return(_) => true,
        Term::Yield(_) | Term::Break(..) | Term::Unreachable => false,
    }) || regions.iter().any(|r| {
        // An assertion ends its iteration.
        (f.regions[*r].insts.iter()).any(|i| matches!(f.insts[*i].op, Op::Assert(_)))
    }) || (f.regions[region].insts.iter()).any(|i| matches!(f.insts[*i].op, Op::Assert(_)))
}

/// The number of a field in its tree.
pub(crate) fn number_in_tree(m: &Module, field: Field) -> u32 {
    let tree = m.fields[field].tree;
    let before = m.fields.iter().take_while(|(f, _)| *f != field);
    before.filter(|(_, data)| data.tree == tree).count() as u32
}
