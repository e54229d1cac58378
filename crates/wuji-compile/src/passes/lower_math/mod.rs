//! Expands mathematical functions, for targets without a math library.
//!
//! Each operation that is used becomes a function of the module, one for `f32` and one for `f64`; `f16` is computed
//! in `f32` and rounded. The functions use only operations that every target has: addition, multiplication, `fma`,
//! division, square root, rounding and integer operations. They are `precise`: their error is known, and
//! compensated sums must not be reassociated. No function for `f32` uses `f64`, which is slow on many GPUs.
//!
//! GPUs have an instruction for `exp2` in `f32`, accurate to 2 ulp. Except in strict mode, `exp2` is left to the
//! backend, and others use it. So are the functions that are faster in NVIDIA's `libdevice`, if it is available.
//!
//! On a CPU the functions of the C library stay, but for those that are faster here.

mod arcs;
mod circular;
mod division;
mod exponential;
mod logarithm;
mod numbers;
mod write;

use crate::functions::Functions;
use crate::options::{Math, Options, Target};
use crate::passes::Cx;
use rustc_hash::FxHashMap;
use write::{Format, Writer};
use wuji_ir::Result;
use wuji_ir::entities::{Func, Inst, Region};
use wuji_ir::module::{Env, Function, Module, Values};
use wuji_ir::ops::{BinOp, Op, UnOp};
use wuji_ir::types::{Scalar, Type};

/// A function that this pass can emit.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum Routine {
    Round,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Exp,
    Exp2,
    Log,
    Log2,
    Log10,
    Rem,
    Pow,
    Atan2,
    /// Reduces a large angle by right angles.
    LargeAngle,
    /// The remainder for a large quotient.
    LargeRem,
}

impl Routine {
    /// Operations without a machine instruction.
    const UNARY: [(UnOp, Routine); 15] = [
        (UnOp::Round, Routine::Round),
        (UnOp::Sin, Routine::Sin),
        (UnOp::Cos, Routine::Cos),
        (UnOp::Tan, Routine::Tan),
        (UnOp::Asin, Routine::Asin),
        (UnOp::Acos, Routine::Acos),
        (UnOp::Atan, Routine::Atan),
        (UnOp::Sinh, Routine::Sinh),
        (UnOp::Cosh, Routine::Cosh),
        (UnOp::Tanh, Routine::Tanh),
        (UnOp::Exp, Routine::Exp),
        (UnOp::Exp2, Routine::Exp2),
        (UnOp::Log, Routine::Log),
        (UnOp::Log2, Routine::Log2),
        (UnOp::Log10, Routine::Log10),
    ];

    /// The same with two arguments. Only float remainders have a routine.
    const BINARY: [(BinOp, Routine); 3] = [
        (BinOp::Rem, Routine::Rem),
        (BinOp::Pow, Routine::Pow),
        (BinOp::Atan2, Routine::Atan2),
    ];

    /// The routine of an instruction, and its type.
    fn of(f: &Function, inst: Inst) -> Option<(Routine, Scalar)> {
        let data = &f.insts[inst];
        let routine = if let Op::Unary(op) = data.op {
            Routine::UNARY.iter().find(|row| row.0 == op)?.1
        } else if let Op::Binary(op) = data.op {
            Routine::BINARY.iter().find(|row| row.0 == op)?.1
        } else {
            return None;
        };
        let scalar = f.ty(data.args[0]).as_scalar()?;
        scalar.is_float().then_some((routine, scalar))
    }

    /// Whether the function is faster in NVIDIA's library, as measured (`docs/performance.md`).
    fn is_quicker_in_libdevice(self, scalar: Scalar) -> bool {
        match self {
            Routine::Sin
            | Routine::Cos
            | Routine::Tan
            | Routine::Asin
            | Routine::Atan
            | Routine::Sinh
            | Routine::Cosh
            | Routine::Tanh
            | Routine::Exp
            | Routine::Exp2
            | Routine::Atan2 => true,
            Routine::Acos | Routine::Log | Routine::Log2 | Routine::Log10 | Routine::Pow => {
                scalar == Scalar::F32
            }
            // These are exact.
            Routine::Round | Routine::Rem => false,
            Routine::LargeAngle | Routine::LargeRem => false,
        }
    }

    /// Whether the function is written out although there is a C library.
    fn replaces_system(self, options: &Options) -> bool {
        let written = |row: &(UnOp, Routine)| row.1 == self && options.is_written_out(row.0);
        Routine::UNARY.iter().any(written)
    }

    /// Whether the routine is for rare arguments.
    fn is_seldom(self) -> bool {
        matches!(self, Routine::LargeAngle | Routine::LargeRem)
    }

    fn arity(self) -> usize {
        match self {
            Routine::Rem | Routine::Pow | Routine::Atan2 | Routine::LargeRem => 2,
            _ => 1,
        }
    }
}

/// The pass; the [module](self) describes it.
pub fn lower_math(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let strict = cx.options.math == Math::Strict;
    let backend = match &cx.options.functions {
        Functions::System => Backend::System,
        Functions::Libdevice(_) if !strict => Backend::Libdevice,
        // Strict mode gives the same bits on every machine.
        Functions::Libdevice(_) | Functions::WrittenOut => Backend::None,
    };
    let mut library = Library {
        backend,
        options: cx.options.clone(),
        has_exp2: cx.options.target == Target::Cuda && !strict,
        made: FxHashMap::default(),
    };
    for f in m.funcs.values_mut() {
        for region in f.walk_regions() {
            library.rewrite(&mut m.env, f, region);
        }
    }
    m.add_defined();
    Ok(())
}

/// Functions with at most this many instructions are inlined: on GPUs a call costs as much as a few dozen
/// instructions.
const SHORT: usize = 72;

/// Instructions that are not constants.
fn length(f: &Function) -> usize {
    let mut count = 0;
    f.walk(|inst| count += usize::from(!matches!(f.insts[inst].op, Op::Const(_))));
    count
}

/// What the backend can call.
enum Backend {
    None,
    System,
    Libdevice,
}

/// The functions emitted so far.
struct Library {
    backend: Backend,
    options: Options,
    /// The target has an instruction for `exp2` in `f32`.
    has_exp2: bool,
    made: FxHashMap<(Routine, Scalar), Func>,
}

impl Library {
    fn rewrite(&mut self, m: &mut Env, f: &mut Function, region: Region) {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for inst in insts {
            match Routine::of(f, inst) {
                Some((routine, scalar)) if !self.is_elsewhere(routine, scalar) => {
                    self.replace(m, f, (region, inst), routine, scalar);
                }
                Some(_) | None => f.regions[region].insts.push(inst),
            }
        }
    }

    /// Whether the backend has a better implementation.
    fn is_elsewhere(&self, routine: Routine, scalar: Scalar) -> bool {
        let float = Format::of(scalar).float;
        let instruction = self.has_exp2 && routine == Routine::Exp2 && float == Scalar::F32;
        instruction
            || match self.backend {
                Backend::None => false,
                Backend::System => !routine.replaces_system(&self.options),
                Backend::Libdevice => routine.is_quicker_in_libdevice(float),
            }
    }

    /// Replaces an operation by a call.
    fn replace(
        &mut self,
        m: &mut Env,
        f: &mut Function,
        (region, inst): (Region, Inst),
        routine: Routine,
        scalar: Scalar,
    ) {
        let wide = Format::of(scalar).float;
        let call = Op::Call(self.function(m, routine, wide));
        if wide == scalar {
            f.insts[inst].op = call;
            f.regions[region].insts.push(inst);
            return;
        }
        let span = f.spans[inst];
        let ty = [Type::Scalar(wide)];
        let mut args = Values::new();
        for arg in f.insts[inst].args.clone() {
            let widened = f.add_inst(Op::Convert(wide), [arg].into_iter().collect(), &ty, span);
            f.regions[region].insts.push(widened);
            args.push(f.result(widened));
        }
        let called = f.add_inst(call, args, &ty, span);
        f.regions[region].insts.push(called);
        let result = f.result(called);
        f.insts[inst].op = Op::Convert(scalar);
        f.insts[inst].args = [result].into_iter().collect();
        f.regions[region].insts.push(inst);
    }

    /// The function for `f32` or `f64`.
    fn function(&mut self, m: &mut Env, routine: Routine, scalar: Scalar) -> Func {
        if let Some(func) = self.made.get(&(routine, scalar)) {
            return *func;
        }
        let mut f = self.write(m, routine, Format::of(scalar));
        f.traits.precise = true;
        // The loops are bounded.
        f.traits.uninterrupted = true;
        f.traits.inline = !routine.is_seldom() && length(&f) <= SHORT;
        let func = m.add(f);
        self.made.insert((routine, scalar), func);
        func
    }

    fn write(&mut self, m: &mut Env, routine: Routine, format: Format) -> Function {
        let float = format.float;
        let name = format!("{routine:?}.{}", float.name()).to_lowercase();
        let results = match routine {
            Routine::LargeAngle => circular::parts(format).to_vec(),
            _ => vec![float],
        };
        let has_exp2 = self.has_exp2 && float == Scalar::F32;
        let w = Writer::new(
            name,
            &vec![float; routine.arity()],
            &results,
            format,
            write::Machine {
                has_exp2,
                flushes: self.options.flushes(float),
            },
        );
        let x = w.param(0);
        let y = match routine {
            Routine::LargeAngle => {
                let angle = circular::reduce_large(&w, x);
                let values: Vec<_> = angle.iter().map(|n| n.value).collect();
                return w.finish(&values);
            }
            Routine::Round => division::round(&w, x),
            Routine::Sin => circular::sin(&w, x, self.function(m, Routine::LargeAngle, float)),
            Routine::Cos => circular::cos(&w, x, self.function(m, Routine::LargeAngle, float)),
            Routine::Tan => circular::tan(&w, x, self.function(m, Routine::LargeAngle, float)),
            Routine::Asin => arcs::asin(&w, x),
            Routine::Acos => arcs::acos(&w, x),
            Routine::Atan => arcs::atan(&w, x),
            Routine::Sinh => exponential::sinh(&w, x),
            Routine::Cosh => exponential::cosh(&w, x),
            Routine::Tanh => exponential::tanh(&w, x),
            Routine::Exp => exponential::exp(&w, x),
            Routine::Exp2 => exponential::exp2(&w, x),
            Routine::Log => logarithm::log(&w, x),
            Routine::Log2 => logarithm::log2(&w, x),
            Routine::Log10 => logarithm::log10(&w, x),
            Routine::Rem => {
                let of_large = self.function(m, Routine::LargeRem, float);
                division::rem(&w, x, w.param(1), of_large)
            }
            Routine::LargeRem => division::rem_large(&w, x, w.param(1)),
            Routine::Pow => logarithm::pow(&w, x, w.param(1)),
            Routine::Atan2 => arcs::atan2(&w, x, w.param(1)),
        };
        let y = y.value;
        w.finish(&[y])
    }
}
