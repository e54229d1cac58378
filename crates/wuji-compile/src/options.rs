//! Options of a compilation.

use crate::functions::Functions;
use wuji_ir::ops::UnOp;
use wuji_ir::types::Scalar;

/// How floating-point operations may be transformed. See `docs/ir.md`, section 2.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Math {
    /// Every operation is rounded as written.
    Strict,
    /// `a * b + c` may be fused.
    #[default]
    Contract,
    /// `Contract`, plus approximate functions, reciprocals and reassociation; NaN and infinities are preserved.
    Fast,
}

/// Whether accesses are checked against their domain.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bounds {
    /// Reads outside of a field give zero, writes are dropped and reported.
    #[default]
    Checked,
    /// The user guarantees that every access is in range.
    Unchecked,
}

/// The kind of machine that runs the tasks.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Target {
    /// A few threads that each take chunks of iterations.
    #[default]
    Cpu,
    /// An NVIDIA GPU: every thread runs one iteration at a time.
    Cuda,
}

/// Everything that decides which code a kernel becomes, besides the kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// What the code is for.
    pub target: Target,
    /// The compute capability of a GPU.
    pub sm: u32,
    /// How exact floating-point arithmetic is.
    pub math: Math,
    /// What happens with indices that are out of range.
    pub bounds: Bounds,
    /// The implementation of mathematical functions.
    pub functions: Functions,
    /// Vector width in bits; 0 leaves vectorization to the backend.
    pub vector_bits: u32,
    /// Whether the processor has fused multiply-add: products are contracted only then.
    pub fma: bool,
    /// The number of threads that will run parallel tasks; 0 if it is unknown.
    pub threads: u32,
    /// Results are bit-identical from run to run and for any number of threads.
    pub deterministic: bool,
    /// Adds costly checks: the arithmetic behind an index must not overflow.
    pub debug: bool,
    /// Reports reads outside of their field or array. They give zero in any case.
    pub check_reads: bool,
    /// Reports stores to packed fields that keep fewer significant bits; 0 is a number that is stored as zero.
    pub precision: Option<u32>,
    /// Loops that write at least this many bytes of a field use non-temporal stores; by default the measured
    /// threshold.
    pub stream_from: Option<u64>,
    /// Loops with at least this many iterations give each GPU thread a row of neighbours; by default enough to
    /// occupy all threads.
    pub rows_from: Option<u64>,
    /// Loops in serial code with at least this much work become tasks, if their iterations are independent; by default
    /// enough to pay for it.
    pub tasks_from: Option<u64>,
    /// Optimizations to disable, by their names in the pass table.
    pub without: Vec<String>,
    /// The number of optional rewrites, to find a wrong one by bisection.
    pub fuel: Option<u64>,
}

impl Options {
    /// Whether subnormal numbers of a type count as zero, as operands and as results.
    pub fn flushes(&self, s: Scalar) -> bool {
        let flushed: &[Scalar] = match self.target {
            Target::Cpu => &[Scalar::F32, Scalar::F64],
            Target::Cuda => &[Scalar::F32],
        };
        self.math == Math::Fast && flushed.contains(&s)
    }

    /// Whether a mathematical function is written out although there is a C library, because that is faster, as measured
    /// (`docs/performance.md`). Strict mode has the results of the library.
    pub fn is_written_out(&self, op: UnOp) -> bool {
        // The vector variant of `exp` calls libm for each number whose result is zero.
        let is_faster = op == UnOp::Exp && self.fma;
        let has_library = self.target == Target::Cpu && self.functions == Functions::System;
        is_faster && has_library && self.math != Math::Strict
    }

    /// The same options for an NVIDIA GPU of a compute capability: 90 is 9.0. The C library is not available there.
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
