//! Compiled traces.

use crate::arrays::{Inputs, Number, Outputs, Shape, Symbols, Traced, Values};
use crate::cache;
use crate::explain::Explanation;
use crate::pipeline::emit::{Fields, emit};
use crate::pipeline::{Analysis, Options};
use crate::sym::Sym;
use crate::trace::Trace;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use wuji::dynamic::{self, Kernel};
use wuji::{Field, World};
use wuji_ir::entities;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// A computation that was traced once and is run with new values, on the device of a world.
///
/// ```
/// use wuji::World;
/// use wuji_symbolic::{Csr, Program};
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let mut a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 1, 3.0)])?;
/// let square = Program::trace(&world, &a, |a| a.mul(&a))?;
/// assert_eq!(square.run(&a)?.values(), [1.0, 8.0, 9.0]);
/// a.values_mut()[1] = 1.0;
/// assert_eq!(square.run(&a)?.values(), [1.0, 4.0, 9.0]);
/// # Ok(())
/// # }
/// ```
pub struct Program<T: Number, O: Outputs> {
    kernel: Kernel,
    inputs: Vec<Field<T, 1>>,
    outputs: Vec<Field<T, 1>>,
    shapes: Vec<Shape>,
    shape: O::Shape,
    /// Intermediates and tables, which live as long as the code.
    _memory: (Field<T, 1>, Field<i32, 1>, Field<T, 1>),
    analysis: Analysis,
    /// Whether the analysis is from the kernel cache.
    cached: bool,
    module: Module,
    /// Held by a run: inputs and outputs are shared.
    running: Mutex<()>,
}

impl<T: Number, O: Outputs> fmt::Debug for Program<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        write!(f, "Program({inputs} inputs, {outputs} outputs)")
    }
}

impl<T: Number, O: Outputs> Program<T, O> {
    /// Runs a function once on symbols, and compiles what it computes. Only the shapes and patterns of the inputs matter.
    pub fn trace<I: Inputs<Number = T>, R: Traced<Outputs = O>>(
        world: &World,
        inputs: I,
        compute: impl FnOnce(I::Symbols) -> R,
    ) -> Result<Program<T, O>> {
        Program::trace_with(world, &Options::default(), inputs, compute)
    }

    /// As [`Program::trace`], with options.
    pub fn trace_with<I: Inputs<Number = T>, R: Traced<Outputs = O>>(
        world: &World,
        options: &Options,
        inputs: I,
        compute: impl FnOnce(I::Symbols) -> R,
    ) -> Result<Program<T, O>> {
        let mut shapes = Vec::new();
        inputs.shapes(&mut shapes)?;
        let lengths: Vec<usize> = shapes.iter().map(|s| s.elements).collect();
        let (trace, shape) = Trace::record_with(&lengths, |symbols| {
            let symbols = inputs.symbols(&mut Symbols(symbols.iter()));
            let mut split: Vec<Vec<Sym>> = Vec::new();
            let shape = compute(symbols).outputs().map(|o| o.split(&mut split));
            (split, shape)
        })?;
        Program::build(world, &trace, options, shapes, shape?)
    }

    fn build(
        world: &World,
        trace: &Trace,
        options: &Options,
        shapes: Vec<Shape>,
        shape: O::Shape,
    ) -> Result<Program<T, O>> {
        let (analysis, cached) = cache::analysis(world, trace, options)?;
        let mut memory = Memory {
            world,
            module: Module::new("traced"),
            trees: Vec::new(),
        };
        let inputs = memory.fields("x", &analysis.inputs)?;
        let outputs = memory.fields("y", &analysis.outputs)?;
        let (intermediates, intermediates_number) = memory.field("t", analysis.intermediates)?;
        let tables = &analysis.tables;
        let (indices, indices_number) = memory.field::<i32>("indices", tables.indices.len())?;
        let (constants, constants_number) =
            memory.field::<T>("constants", tables.constants.len())?;
        let numbers: Vec<T> = tables.constants.iter().map(|c| T::from_f64(*c)).collect();
        fill(&indices, &tables.indices)?;
        fill(&constants, &numbers)?;
        let fields = Fields {
            inputs: inputs.iter().map(|f| f.1).collect(),
            outputs: outputs.iter().map(|f| f.1).collect(),
            intermediates: intermediates_number,
            indices: indices_number,
            constants: constants_number,
        };
        let module = emit(memory.module, &analysis, &fields, T::SCALAR)?;
        let kernel = Kernel::load(world, module.clone(), &memory.trees)?;
        let mut analysis = analysis;
        analysis.tables.indices = Vec::new();
        analysis.tables.constants = Vec::new();
        Ok(Program {
            kernel,
            inputs: inputs.into_iter().map(|f| f.0).collect(),
            outputs: outputs.into_iter().map(|f| f.0).collect(),
            shapes,
            shape,
            _memory: (intermediates, indices, constants),
            analysis,
            cached,
            module,
            running: Mutex::new(()),
        })
    }

    /// Runs it on new values. Inputs of another shape or pattern are an error. Runs on several threads wait for each other.
    pub fn run<I: Inputs<Number = T>>(&self, inputs: I) -> Result<O::Numbers<T>> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_inputs(inputs)?;
        self.launch()?;
        let mut values = Vec::with_capacity(self.outputs.len());
        for (output, n) in self.outputs.iter().zip(&self.analysis.outputs) {
            let mut all = output.to_vec()?;
            all.truncate(*n as usize);
            values.push(all);
        }
        let mut values = values.into_iter();
        Ok(O::join(&self.shape, &mut || {
            values.next().unwrap_or_default()
        }))
    }

    /// Copies values to [`Program::input`], after the check of their shapes and patterns.
    pub fn set_inputs<I: Inputs<Number = T>>(&self, inputs: I) -> Result<()> {
        let mut shapes = Vec::new();
        inputs.shapes(&mut shapes)?;
        self.check(&shapes)?;
        let mut fields = self.inputs.iter();
        inputs.values(&mut |values| {
            let Some(field) = fields.next() else {
                return Ok(());
            };
            match values {
                Values::Slice(slice) => fill(field, slice),
                Values::Field(other) => {
                    let own = dynamic::Field::typed(field)?;
                    own.copy_from(&dynamic::Field::typed(other)?)
                }
            }
        })
    }

    fn check(&self, given: &[Shape]) -> Result<()> {
        if given.len() != self.shapes.len() {
            let (n, m) = (self.shapes.len(), given.len());
            let what = format!("a program of {n} inputs was given {m}");
            return Err(Error::new("W0803", what));
        }
        for (number, (traced, given)) in self.shapes.iter().zip(given).enumerate() {
            if traced == given {
                continue;
            }
            let describe = |s: &Shape| format!("{} of {} entries", s.kind, s.elements);
            let (a, b) = (describe(traced), describe(given));
            let what = if a == b {
                format!(
                    "input {number} of a program has another sparsity pattern than when it was traced"
                )
            } else {
                format!("input {number} of a program was {a} when it was traced, and is {b}")
            };
            return Err(Error::new("W0803", what)
                .note("code is generated for one pattern")
                .help("trace the program again for the new pattern"));
        }
        Ok(())
    }

    /// Runs it on what [`Program::input`] has; the results are in [`Program::output`].
    pub fn launch(&self) -> Result<()> {
        self.kernel.run(&[], &[])?;
        Ok(())
    }

    /// The field that an input is read from. Kernels can write to it, and then nothing is copied.
    pub fn input(&self, number: usize) -> Option<&Field<T, 1>> {
        self.inputs.get(number)
    }

    /// The field that an output is written to.
    pub fn output(&self, number: usize) -> Option<&Field<T, 1>> {
        self.outputs.get(number)
    }

    /// Its kernel in the IR, before any pass.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// What the program consists of: groups, tables, bytes that a run moves.
    pub fn explain(&self) -> Explanation {
        let explanation = Explanation::new(&self.analysis, T::SCALAR);
        Explanation {
            cached: self.cached,
            ..explanation
        }
    }
}

impl<T: Number> Program<T, Vec<Vec<Sym>>> {
    /// Compiles a trace that was recorded or loaded before. Its inputs are vectors.
    pub fn compile(world: &World, trace: &Trace, options: &Options) -> Result<Self> {
        let shape = |n: &u32| Shape {
            kind: "a vector",
            elements: *n as usize,
            fingerprint: 0,
        };
        let shapes = trace.inputs.iter().map(shape).collect();
        Program::build(world, trace, options, shapes, trace.outputs.len())
    }
}

fn fill<T: wuji::Element>(field: &Field<T, 1>, values: &[T]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    field.copy_from(values)
}

/// The memory of a program: a tree for each field, so that offsets into it are small.
struct Memory<'a> {
    world: &'a World,
    module: Module,
    trees: Vec<wuji::Tree>,
}

impl Memory<'_> {
    fn field<T: wuji::Element>(
        &mut self,
        name: &str,
        elements: usize,
    ) -> Result<(Field<T, 1>, entities::Field)> {
        // A field has at least one element.
        let field = self.world.field::<T, 1>(name, elements.max(1) as i64)?;
        let tree = field.tree();
        let number = dynamic::enter(&mut self.module, &tree)?;
        self.trees.push(tree);
        Ok((field, entities::Field::from_u32(number)))
    }

    fn fields<T: wuji::Element>(
        &mut self,
        name: &str,
        lengths: &[u32],
    ) -> Result<Vec<(Field<T, 1>, entities::Field)>> {
        let named = lengths.iter().enumerate();
        named
            .map(|(k, n)| self.field(&format!("{name}{k}"), *n as usize))
            .collect()
    }
}
