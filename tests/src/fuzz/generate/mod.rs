//! Random programs whose results do not depend on the order of parallel iterations.
//!
//! This holds by construction: within one `foreach` every place has a [`Role`](roles::Role), and all accesses respect
//! it.

mod access;
mod body;
mod control;
mod functions;
mod index;
mod kernel;
mod packed;
mod places;
mod roles;
mod sparse;
mod split;
mod types;
mod value;

use super::dice::Dice;
use super::program::{Inputs, Program};
use roles::Rights;
pub(super) use types::any_imm;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Label, Local, Region, Value};
use wuji_ir::module::{Function, Module, Span};
use wuji_ir::ops::{Place, Step};
use wuji_ir::types::Type;

/// The program of a seed.
pub(crate) fn program(seed: u64) -> Program {
    generate(seed, false)
}

/// A program whose launches can wait in a window: it has no result, no arrays, and does nothing that is ordered.
pub(crate) fn waiting_program(seed: u64) -> Program {
    generate(seed, true)
}

fn generate(seed: u64, waits: bool) -> Program {
    let mut dice = Dice::new(seed);
    let mut generator = Generator {
        dice: &mut dice,
        waits,
        m: Module::new("fuzz"),
        inputs: Inputs::default(),
        types: Vec::new(),
        places: Vec::new(),
        hot: Vec::new(),
        groups: 0,
        word: None,
        functions: Vec::new(),
        size: 1,
        budget: 0,
        body: Body::new(Function::new("", &[], &[])),
    };
    // Small programs find most defects, and many of them fit into the time of a large one.
    generator.size = 1 + generator.dice.weighted(&[80, 13, 5, 2]) as i64;
    generator.choose_types();
    generator.make_trees();
    if !waits {
        generator.make_arrays();
    }
    generator.choose_hot_places();
    generator.make_params();
    generator.inputs.seed = generator.dice.bits();
    generator.inputs.launch = generator.dice.bits() >> 40;
    if !generator.inputs.sparse.is_empty() && generator.dice.chance(40) {
        generator.inputs.again = 1;
    }
    generator.kernel();
    Program {
        module: generator.m,
        inputs: generator.inputs,
    }
}

struct Generator<'d> {
    dice: &'d mut Dice,
    /// Nothing that is ordered: prints, checks, random numbers, recursion.
    waits: bool,
    m: Module,
    inputs: Inputs,
    types: Vec<Type>,
    places: Vec<PlaceInfo>,
    /// Places that are used more often, so that accesses conflict.
    hot: Vec<usize>,
    /// The number of groups of places that may share memory.
    groups: usize,
    /// A word with bits left.
    word: Option<packed::OpenWord>,
    functions: Vec<Callable>,
    /// The size of the program, 1 to 4.
    size: i64,
    /// The remaining number of instructions.
    budget: i64,
    body: Body,
}

/// A field or an array.
#[derive(Clone, Debug)]
struct PlaceInfo {
    place: Place,
    elem: Type,
    /// Smallest coordinate and extent along each index.
    domain: Vec<(i64, u64)>,
    /// Places of one group may share memory.
    group: usize,
    /// The first place with the same type and exactly the same memory.
    twin: usize,
    writable: bool,
    /// Different indices are different memory.
    distinct: bool,
    /// Holds only small integers, so that float sums are exact.
    tally: bool,
    paths: Vec<(Vec<Step>, Type)>,
}

/// A function that can be called.
#[derive(Clone, Debug)]
struct Callable {
    func: Func,
    /// Without the recursion depth, which is the first parameter of recursive ones.
    params: Vec<Type>,
    result: Option<Type>,
    recursive: bool,
    rights: Rights,
}

/// An enclosing loop or block.
#[derive(Clone, Debug)]
struct JumpTarget {
    label: Label,
    kind: JumpTargetKind,
}

#[derive(Clone, Debug)]
enum JumpTargetKind {
    /// Types of the results.
    Block(Vec<Type>),
    /// The counter, which is the first carried value; the bound; types of the other carried values; results.
    Loop {
        counter: Value,
        carried: Vec<Type>,
        results: Vec<Type>,
    },
    For(Vec<Type>),
    ForEach,
}

/// The function under construction, and the current position.
#[derive(Debug)]
struct Body {
    f: Function,
    region: Region,
    visible: Vec<Value>,
    rights: Rights,
    /// The enclosing loop indices, with their likely ranges.
    indices: Vec<(Value, i64, i64)>,
    targets: Vec<JumpTarget>,
    /// `return` is possible here.
    may_return: bool,
    /// Variables, and whether they may be stored to here.
    variables: Vec<(Local, bool)>,
    arrays: Vec<Local>,
    /// The remaining recursion depth.
    depth: Option<Value>,
    /// Enclosing functions that are under construction.
    unfinished: Vec<Callable>,
    loops: usize,
    nesting: usize,
    /// Serial code of the kernel itself.
    in_kernel: bool,
}

impl Body {
    fn new(f: Function) -> Body {
        Body {
            region: f.entry,
            visible: f.params().to_vec(),
            f,
            rights: Rights::All,
            indices: Vec::new(),
            targets: Vec::new(),
            may_return: true,
            variables: Vec::new(),
            arrays: Vec::new(),
            depth: None,
            unfinished: Vec::new(),
            loops: 0,
            nesting: 0,
            in_kernel: false,
        }
    }
}

impl Generator<'_> {
    fn b(&mut self) -> Builder<'_> {
        Builder {
            env: &mut self.m,
            func: &mut self.body.f,
            region: self.body.region,
            span: Span::UNKNOWN,
        }
    }

    fn ty(&self, value: Value) -> Type {
        self.body.f.ty(value)
    }

    /// Makes a value available to later code.
    fn keep(&mut self, value: Value) -> Value {
        self.body.visible.push(value);
        value
    }

    /// A new region; `fill` sets its terminator.
    fn region(&mut self, params: &[Type], fill: impl FnOnce(&mut Self, &[Value])) -> Region {
        let region = self.body.f.add_region(params);
        let outer = std::mem::replace(&mut self.body.region, region);
        let visible = self.body.visible.len();
        let values = self.body.f.regions[region].params.clone();
        self.body.visible.extend(&values);
        self.body.nesting += 1;
        fill(self, &values);
        self.body.nesting -= 1;
        self.body.visible.truncate(visible);
        self.body.region = outer;
        region
    }
}
