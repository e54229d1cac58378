//! Code generation: lowered Wuji IR to LLVM IR.
//!
//! One LLVM module holds some tasks of a kernel and the functions they call. Every Wuji instruction becomes a
//! few LLVM instructions with exactly the meaning that `docs/ir.md` defines.

mod alias;
mod atomic;
mod contract;
mod control;
mod convert;
mod digits;
mod division;
mod for_loop;
mod function;
mod gpu;
mod interleave;
mod interleaved_add;
mod lanes;
mod math;
mod memory;
mod scalar;
mod threads;
mod vector_atomics;
mod warps;

pub(crate) use gpu::block_size;

use crate::abi::{DeviceLayout, offset};
use crate::emit::{Emit, Fun, On, Ty, Val};
use crate::target::Host;
use alias::{AccessGroups, AliasScopes};
use function::FunctionGen;
use gpu::Written;
use inkwell::context::Context;
use inkwell::llvm_sys::LLVMCallConv;
use inkwell::module::Module as LlvmModule;
use std::collections::HashMap;
use wuji_compile::nodes::UPKEEP;
use wuji_compile::{Lowered, Math, Target};
use wuji_ir::diag::Position;
use wuji_ir::entities::Func;
use wuji_ir::module::{Copies, Function, Module, Span, TaskKind};
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};

/// Options of code generation.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Tuning {
    /// Preferred vector width in bits.
    pub(crate) vector_bits: u32,
    /// Keep frame pointers, so that profilers can unwind the stack.
    pub(crate) frame_pointers: bool,
    /// Call glibc's vector math, except in strict mode.
    pub(crate) vector_math: bool,
}

/// Builds the LLVM module of some of the tasks; `symbols[k]` names task `tasks[k]`.
pub(crate) fn build<'c>(
    context: &'c Context,
    lowered: &Lowered,
    tasks: &[usize],
    symbols: &[String],
    host: &Host,
    tuning: Tuning,
) -> Result<LlvmModule<'c>> {
    let module = lowered.module();
    let reached = reachable(module, tasks);
    let llvm = AccessGroups::new_module(context, module, &reached)?;
    let mut unit = Unit::new(context, &llvm, lowered, host, tuning);
    for (task, symbol) in tasks.iter().zip(symbols) {
        unit.task(*task, symbol)?;
    }
    unit.written = Written::of(module, &reached);
    while let Some(func) = unit.pending.pop() {
        unit.helper(func)?;
    }
    Ok(llvm)
}

/// The functions of the tasks and all their callees.
fn reachable(module: &Module, tasks: &[usize]) -> Vec<Func> {
    module.reachable(tasks.iter().map(|t| module.tasks[*t].func))
}

/// Recursive functions, direct or mutual.
pub(crate) fn recursive(module: &Module) -> Vec<Func> {
    let tasks: Vec<usize> = (0..module.tasks.len()).collect();
    let reached = reachable(module, &tasks).into_iter();
    reached
        .filter(|f| module.called_from(&module.funcs[*f]).contains(f))
        .collect()
}

/// LLVM's encoding of `memory(argmem: read, inaccessiblemem: readwrite)`.
const READS_ARGUMENTS_CHANGES_HOST: u64 = 0b1101;

/// One LLVM module under construction.
struct Unit<'c, 'm> {
    emit: Emit<'c>,
    module: &'m Module,
    math: Math,
    host: &'m Host,
    tuning: Tuning,
    /// Set when generating code for a GPU.
    gpu: Option<DeviceLayout>,
    /// On a GPU: the memory that the generated code writes to.
    written: Written,
    /// On a GPU: whether other memory is read through the read-only cache.
    read_only_cache: bool,
    scopes: AliasScopes,
    groups: AccessGroups,
    /// Declared helper functions.
    helpers: HashMap<Func, Fun>,
    /// Declared, not yet defined.
    pending: Vec<Func>,
    /// Report functions by number of arguments.
    reporters: HashMap<usize, Fun>,
    poller: Option<Fun>,
    libm: HashMap<&'static str, Fun>,
}

impl<'c, 'm> Unit<'c, 'm> {
    fn new(
        context: &'c Context,
        llvm: &LlvmModule<'c>,
        lowered: &'m Lowered,
        host: &'m Host,
        tuning: Tuning,
    ) -> Unit<'c, 'm> {
        let mut emit = Emit::new(context, llvm);
        let module = lowered.module();
        let gpu = match lowered.options().target {
            Target::Cpu => None,
            Target::Cuda => {
                emit.set_device_scope();
                Some(DeviceLayout::of(module))
            }
        };
        let scopes = AliasScopes::new(&emit, module);
        let groups = AccessGroups::of(&emit);
        Unit {
            emit,
            module,
            math: lowered.options().math,
            host,
            tuning,
            gpu,
            written: Written::default(),
            read_only_cache: !(lowered.options().without.iter()).any(|w| w == "read_only_cache"),
            scopes,
            groups,
            helpers: HashMap::new(),
            pending: Vec::new(),
            reporters: HashMap::new(),
            poller: None,
            libm: HashMap::new(),
        }
    }

    /// A task becomes an exported function of the type [`crate::abi::TaskFn`].
    fn task(&mut self, index: usize, symbol: &str) -> Result<()> {
        let task = &self.module.tasks[index];
        let module = self.module;
        let f = &module.funcs[task.func];
        let slots = module.param_slots().last().copied().unwrap_or(0);
        let extra = match task.kind {
            TaskKind::Serial => 0,
            TaskKind::Chunks { .. } => 2,
            TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                return Err(self.unlowered(task.span, format!("task `{}`", task.name)));
            }
        };
        if f.params().len() != slots + extra || !f.results.is_empty() {
            return Err(self.unlowered(
                task.span,
                format!("the signature of the function of task `{}`", task.name),
            ));
        }
        let fun = match self.gpu {
            None => {
                let e = &self.emit;
                let ty = e.fn_ty(e.void_ty(), &[e.ptr_ty(), e.i64_ty(), e.i64_ty()]);
                e.add_function(symbol, ty)
            }
            Some(_) => {
                self.written = Written::of(module, &module.reachable([task.func]));
                self.kernel(index, symbol)?
            }
        };
        let e = &self.emit;
        self.function_attributes(fun);
        self.context_attributes(fun);
        let (context, begin, end) = (e.param(fun, 0), e.param(fun, 1), e.param(fun, 2));
        for k in 1..3 {
            e.add_attr(fun, On::Param(k), "noundef", 0);
        }
        let mut body = FunctionGen::new(self, task.func, fun, context)?;
        body.can_stop = task.ordinal != UPKEEP
            && match task.copies {
                Copies::None | Copies::Uses { .. } => true,
                Copies::Fills(_) | Copies::Merges(_) => false,
            };
        body.assign_iterations(task);
        for slot in 0..slots {
            let value = f.params()[slot];
            let scalar = body.scalar(value)?;
            let loaded = body.parameter(slot, scalar);
            body.set(value, loaded);
        }
        if extra == 2 {
            body.set(f.params()[slots], begin);
            body.set(f.params()[slots + 1], end);
        }
        body.body()
    }

    /// Defines a function that was called.
    fn helper(&mut self, func: Func) -> Result<()> {
        let f = &self.module.funcs[func];
        let fun = self.callee(func)?;
        let context = self.emit.param(fun, 0);
        let values: Vec<Val> = (0..f.params().len())
            .map(|k| self.emit.param(fun, k as u32 + 1))
            .collect();
        let mut body = FunctionGen::new(self, func, fun, context)?;
        body.can_stop = body.recursive && !f.traits.uninterrupted;
        for (param, value) in f.params().iter().zip(values) {
            body.set(*param, value);
        }
        body.body()
    }

    /// The LLVM function of a Wuji function; the first call declares it.
    fn callee(&mut self, func: Func) -> Result<Fun> {
        if let Some(fun) = self.helpers.get(&func) {
            return Ok(*fun);
        }
        let f = &self.module.funcs[func];
        let e = &self.emit;
        let mut params = vec![e.ptr_ty()];
        for p in f.params() {
            params.push(e.scalar_ty(self.only_scalar(f, f.ty(*p))?));
        }
        let ty = e.fn_ty(self.result_ty(f)?, &params);
        let fun = e.add_function(&format!("wuji.{}.{}", self.module.name, f.name), ty);
        e.set_internal(fun);
        if self.gpu.is_none() {
            e.set_call_conv(fun, LLVMCallConv::LLVMFastCallConv);
        }
        self.function_attributes(fun);
        self.context_attributes(fun);
        if f.traits.inline {
            e.add_attr(fun, On::Function, "alwaysinline", 0);
        }
        if f.traits.outlined {
            e.add_attr(fun, On::Function, "noinline", 0);
        }
        self.helpers.insert(func, fun);
        self.pending.push(func);
        Ok(fun)
    }

    /// Nothing, a scalar, or a struct of scalars.
    fn result_ty(&self, f: &Function) -> Result<Ty> {
        let e = &self.emit;
        let scalars = f
            .results
            .iter()
            .map(|t| Ok(e.scalar_ty(self.only_scalar(f, *t)?)))
            .collect::<Result<Vec<Ty>>>()?;
        Ok(match scalars[..] {
            [] => e.void_ty(),
            [one] => one,
            _ => e.struct_ty(&scalars),
        })
    }

    fn only_scalar(&self, f: &Function, ty: wuji_ir::types::Type) -> Result<Scalar> {
        ty.as_scalar().ok_or_else(|| {
            self.unlowered(
                Span::UNKNOWN,
                format!("a value of type `{ty}` in function `{}`", f.name),
            )
        })
    }

    fn function_attributes(&self, fun: Fun) {
        let e = &self.emit;
        e.add_attr(fun, On::Function, "nounwind", 0);
        if self.gpu.is_some() {
            if self.math == Math::Fast {
                // Flushing subnormal numbers is faster.
                e.add_string_attr(fun, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
            }
            return;
        }
        // Stack probes: a large frame must not skip the guard page.
        e.add_string_attr(fun, "probe-stack", "inline-asm");
        e.add_string_attr(
            fun,
            "prefer-vector-width",
            &self.tuning.vector_bits.to_string(),
        );
        if self.math == Math::Fast {
            // The runtime makes the processor flush subnormal numbers.
            e.add_string_attr(fun, "denormal-fp-math", "preserve-sign,preserve-sign");
        }
        if self.tuning.frame_pointers {
            e.add_string_attr(fun, "frame-pointer", "all");
        }
    }

    /// The launch context is the first parameter of every function.
    fn context_attributes(&self, fun: Fun) {
        let e = &self.emit;
        for (name, value) in [
            ("noalias", 0),
            ("nonnull", 0),
            ("noundef", 0),
            ("readonly", 0),
            ("align", 8),
            ("dereferenceable", self.context_size()),
        ] {
            e.add_attr(fun, On::Param(0), name, value);
        }
    }

    /// The function that passes a report with `count` arguments to the runtime. It is not inlined, so that a
    /// check costs the hot path a compare and a branch.
    fn reporter(&mut self, count: usize) -> Fun {
        if let Some(fun) = self.reporters.get(&count) {
            return *fun;
        }
        let e = &self.emit;
        let mut params = vec![e.ptr_ty(), e.int_ty(32)];
        params.extend(std::iter::repeat_n(e.i64_ty(), count));
        let fun = e.add_function(
            &format!("wuji.report.{count}"),
            e.fn_ty(e.void_ty(), &params),
        );
        e.set_internal(fun);
        if self.gpu.is_none() {
            e.set_call_conv(fun, LLVMCallConv::LLVMPreserveMostCallConv);
        }
        self.function_attributes(fun);
        for name in ["cold", "noinline", "minsize", "optsize"] {
            e.add_attr(fun, On::Function, name, 0);
        }
        let resume = e.current();
        let entry = e.append_block(fun, c"entry");
        e.position(entry);
        let context = e.param(fun, 0);
        if self.gpu.is_some() {
            self.report_on_gpu(fun, count);
            self.emit.position(resume);
            self.reporters.insert(count, fun);
            return fun;
        }
        let slots = e.alloca(e.array_ty(e.i64_ty(), count.max(1) as u64), 8);
        for k in 0..count {
            let at = e.offset(slots, e.const_i64(8 * k as i64));
            e.store(e.param(fun, k as u32 + 2), at, 8);
        }
        let at = e.offset(context, e.const_i64(offset::REPORT as i64));
        let target = e.load(e.ptr_ty(), at, 8);
        let ty = e.fn_ty(
            e.void_ty(),
            &[e.ptr_ty(), e.int_ty(32), e.ptr_ty(), e.int_ty(32)],
        );
        let count_value = e.const_int(e.int_ty(32), count as u64);
        e.call_indirect(ty, target, &[context, e.param(fun, 1), slots, count_value]);
        e.ret(e.void_ty(), None);
        e.position(resume);
        self.reporters.insert(count, fun);
        fun
    }

    /// The function that asks the runtime whether to leave. It touches no memory that kernels access, so loops around it are optimized
    /// as if it were not there.
    fn poller(&mut self) -> Fun {
        if let Some(fun) = self.poller {
            return fun;
        }
        let e = &self.emit;
        let ty = e.fn_ty(e.int_ty(32), &[e.ptr_ty()]);
        let fun = e.add_function("wuji.poll", ty);
        e.set_internal(fun);
        e.set_call_conv(fun, LLVMCallConv::LLVMPreserveMostCallConv);
        self.function_attributes(fun);
        for name in ["cold", "noinline", "minsize", "optsize"] {
            e.add_attr(fun, On::Function, name, 0);
        }
        e.add_attr(fun, On::Function, "memory", READS_ARGUMENTS_CHANGES_HOST);
        let resume = e.current();
        let entry = e.append_block(fun, c"entry");
        e.position(entry);
        let context = e.param(fun, 0);
        let at = e.offset(context, e.const_i64(offset::POLL as i64));
        let target = e.load(e.ptr_ty(), at, 8);
        let answer = e.call_indirect(ty, target, &[context]);
        e.ret(e.int_ty(32), Some(answer));
        e.position(resume);
        self.poller = Some(fun);
        fun
    }

    /// An error for an operation that should have been lowered.
    fn unlowered(&self, span: Span, what: String) -> Error {
        Error::new("W0502", format!("the CPU backend cannot compile {what}"))
            .at(Position::of(self.module, span))
            .note("this is a compiler bug: a pass should have lowered it")
    }
}
