//! What a compilation may be told.

use crate::functions::Functions;

/// How floats may be treated. See `docs/ir.md`, section 2.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Math {
    /// Every operation is rounded as written.
    Strict,
    /// `a * b + c` may be fused.
    #[default]
    Contract,
    /// Contract, approximate functions, reciprocals, reassociation; NaN and infinities stay.
    Fast,
}

/// Whether accesses are kept inside their places.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bounds {
    #[default]
    Checked,
    /// The user has promised that every access is inside.
    Unchecked,
}

/// What kind of machine runs the tasks.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Target {
    /// A few threads that take chunks of iterations each.
    #[default]
    Cpu,
    /// An NVIDIA GPU: every thread takes one iteration at a time.
    Cuda,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    pub target: Target,
    /// The compute capability of a GPU.
    pub sm: u32,
    pub math: Math,
    pub bounds: Bounds,
    /// Where mathematical functions come from.
    pub functions: Functions,
    /// How wide vectors are, in bits; 0: loops are left to the backend.
    pub vector_bits: u32,
    /// How many threads will run parallel tasks; 0 when nobody knows.
    pub threads: u32,
    /// Results are the same, bit for bit, from run to run and for any number of threads.
    pub deterministic: bool,
    /// Also checks what costs time: that the arithmetic behind an index does not overflow.
    pub debug: bool,
    /// A loop that writes so many bytes of a field stores them past the caches; what is measured to pay, if nothing is said.
    pub stream_from: Option<u64>,
    /// A loop of so many iterations has rows of neighbours for each thread of a GPU; what keeps all threads busy, if nothing is said.
    pub rows_from: Option<u64>,
    /// Optimizations to leave out, by their names in the pass table.
    pub without: Vec<String>,
    /// How many optional rewrites may be done, so that a wrong one can be found by bisection.
    pub fuel: Option<u64>,
}

impl Options {
    /// The same, for an NVIDIA GPU of a compute capability: 90 is 9.0. The functions of the system are not there.
    pub fn for_cuda(&self, sm: u32) -> Options {
        let functions = match &self.functions {
            Functions::System | Functions::WrittenOut => Functions::WrittenOut,
            Functions::Libdevice(library) => Functions::Libdevice(library.clone()),
        };
        Options {
            target: Target::Cuda,
            sm,
            functions,
            vector_bits: 0,
            threads: 0,
            ..self.clone()
        }
    }
}
