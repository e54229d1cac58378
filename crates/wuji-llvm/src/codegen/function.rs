//! Code generation for one function: values, regions, and the dispatch over instructions.

use super::Unit;
use super::gpu::Stride;
use crate::abi::offset;
use crate::emit::{Block, Fun, Md, Ty, Val};
use crate::stack::Frame;
use std::collections::{HashMap, HashSet};
use wuji_compile::Math;
use wuji_compile::analysis::accumulators::accumulations;
use wuji_compile::analysis::uses::used_values;
use wuji_ir::entities::{Array, Func, Inst, Label, Local, Region, Tree, Value};
use wuji_ir::module::{Function, Span, Term};
use wuji_ir::ops::{
    AccessOp, AtomicOp, CheckOp, ComponentOp, ControlOp, ElementwiseOp, MemoryOp, OpClass, Place,
    QueryOp, Sharing, Space,
};
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};

/// A control-flow join with its incoming values.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) block: Block,
    pub(super) incoming: Vec<(Block, Vec<Val>)>,
}

/// The targets of `break` and `continue` for a label.
#[derive(Debug)]
pub(super) struct JumpTarget {
    pub(super) exit: Join,
    /// Loops only.
    pub(super) next: Option<Join>,
}

/// Where `yield` goes: to the `if` or `block` that owns the region.
#[derive(Debug)]
pub(super) enum YieldTo {
    If(Join),
    Block(Label),
}

/// Values that are loaded from the launch context once, in the entry block.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Hoisted {
    Params,
    Trees,
    Arrays,
    Temps,
    Interrupt,
    RandomKey,
    Tree(Tree),
    Copies,
    Copy(Tree),
    ArrayBase(Array),
    ArrayExtent(Array, u8),
    ArrayStride(Array, u8),
}

pub(super) struct FunctionGen<'a, 'c, 'm> {
    pub(super) unit: &'a mut Unit<'c, 'm>,
    pub(super) f: &'m Function,
    pub(super) fun: Fun,
    pub(super) result: Ty,
    context: Val,
    /// Allocas and loads from the context; branches to the body at the end.
    entry: Block,
    pub(super) values: Vec<Option<Val>>,
    hoisted: HashMap<Hoisted, Val>,
    pub(super) locals: HashMap<Local, Val>,
    pub(super) targets: HashMap<Label, JumpTarget>,
    pub(super) yields: Vec<YieldTo>,
    /// Access groups of the enclosing parallel loops.
    pub(super) groups: Vec<Md>,
    /// Float operations of reductions, which may be reassociated in every math mode.
    pub(super) reductions: HashSet<Inst>,
    /// Products that are fused into each of their sums.
    pub(super) products: HashSet<Inst>,
    /// Scratch memory that inactive lanes write to.
    pub(super) discarded: Option<Val>,
    /// Whether counted loops poll the interrupt flag too. Not in the functions of tree nodes, which must not
    /// be interrupted halfway.
    pub(super) can_stop: bool,
    /// Calls itself, directly or not. Such a function is a loop: its calls poll the interrupt flag.
    pub(super) recursive: bool,
    /// On a GPU: the iterations of the outermost loops that this thread runs.
    pub(super) stride: Option<Stride>,
    /// On a GPU, if thread blocks take the iterations of the outermost loop: this thread's iterations of the
    /// loops inside.
    pub(super) inner_stride: Option<Stride>,
    /// On a GPU: all threads of the block that are still running are converged here.
    pub(super) converged: bool,
    /// Threads of cooperative blocks run one iteration each.
    pub(super) cooperative: bool,
    /// Block size of the task that this function belongs to.
    pub(super) threads: Option<u32>,
    /// On a GPU: values with at least one use.
    pub(super) used: HashSet<Value>,
    /// On a GPU: divisions whose results advance with the index of their loop.
    pub(super) advanced: HashSet<Inst>,
}

/// The most bytes that the locals of one function may take on the stack; less for recursive functions.
const MAX_LOCAL_BYTES: u64 = 256 << 10;
const MAX_RECURSIVE_LOCAL_BYTES: u64 = 4 << 10;

impl<'a, 'c, 'm> FunctionGen<'a, 'c, 'm> {
    pub(super) fn new(
        unit: &'a mut Unit<'c, 'm>,
        func: Func,
        fun: Fun,
        context: Val,
    ) -> Result<FunctionGen<'a, 'c, 'm>> {
        let f = &unit.module.funcs[func];
        let result = unit.result_ty(f)?;
        let entry = unit.emit.append_block(fun, c"entry");
        // Node functions publish their writes to other threads. A GPU's memory model does not order stores by
        // default.
        unit.emit
            .set_ordered(unit.gpu.is_some() && f.traits.ordered);
        // On the CPU, the pass `relax_math` has done it: tiers must agree.
        let fuses = unit.math != Math::Strict && !f.traits.precise && unit.gpu.is_some();
        let unit_gpu = unit.gpu.is_some();
        let recursive = unit.module.called_from(f).contains(&func);
        let this = FunctionGen {
            unit,
            f,
            fun,
            result,
            context,
            entry,
            values: vec![None; f.values.len()],
            hoisted: HashMap::new(),
            locals: HashMap::new(),
            targets: HashMap::new(),
            yields: Vec::new(),
            groups: Vec::new(),
            reductions: accumulations(f).into_iter().collect(),
            discarded: None,
            can_stop: false,
            recursive,
            stride: None,
            inner_stride: None,
            converged: false,
            cooperative: false,
            threads: None,
            advanced: HashSet::new(),
            used: if unit_gpu {
                used_values(f).into_iter().collect()
            } else {
                HashSet::new()
            },
            products: if fuses {
                super::contract::products(f)
            } else {
                HashSet::new()
            },
        };
        this.check_frame()?;
        Ok(this)
    }

    /// The math mode of this function.
    pub(super) fn math(&self) -> Math {
        if self.f.traits.precise {
            Math::Strict
        } else {
            self.unit.math
        }
    }

    /// Fast-math flags of ordinary float operations. On the CPU there are none: LLVM would use them in one tier and not in the
    /// other. What the math mode allows has been done by our own passes, before tiers part.
    pub(super) fn fast_math(&self) -> u32 {
        use inkwell::llvm_sys::{
            LLVMFastMathAllowContract, LLVMFastMathAllowReassoc, LLVMFastMathAllowReciprocal,
            LLVMFastMathApproxFunc, LLVMFastMathNoSignedZeros,
        };
        if self.unit.gpu.is_none() {
            return 0;
        }
        match self.math() {
            Math::Strict => 0,
            Math::Contract => LLVMFastMathAllowContract,
            Math::Fast => {
                LLVMFastMathAllowContract
                    | LLVMFastMathAllowReassoc
                    | LLVMFastMathAllowReciprocal
                    | LLVMFastMathApproxFunc
                    | LLVMFastMathNoSignedZeros
            }
        }
    }

    /// Rejects frames that could overflow a thread's stack.
    fn check_frame(&self) -> Result<()> {
        let bytes: u64 = self
            .f
            .locals
            .values()
            .map(|l| {
                let (size, _) = self.unit.module.structs.size_align(l.ty);
                size.saturating_mul(u64::from(l.len.unwrap_or(1)))
            })
            .fold(0, u64::saturating_add);
        let limit = if self.recursive {
            MAX_RECURSIVE_LOCAL_BYTES
        } else {
            MAX_LOCAL_BYTES
        };
        if self.unit.gpu.is_none() {
            // What is spilled is known only when there is code.
            let (name, value) = Frame::request(self.recursive);
            self.unit.emit.add_string_attr(self.fun, name, value);
        }
        if bytes <= limit {
            return Ok(());
        }
        Err(Error::new(
            "W0331",
            format!(
                "the local arrays of `{}` take {bytes} bytes; at most {limit} fit on the stack",
                self.f.name
            ),
        )
        .help("keep the data in a field, or make the arrays smaller"))
    }

    /// Emits everything from the entry region on.
    pub(super) fn body(mut self) -> Result<()> {
        let start = self.unit.emit.append_block(self.fun, c"body");
        self.unit.emit.position(start);
        if self.recursive && self.can_stop {
            if self.unit.gpu.is_some() {
                self.poll_by_clock();
            } else {
                self.poll_now();
            }
        }
        self.region(self.f.entry)?;
        self.unit.emit.position(self.entry);
        self.unit.emit.br(start);
        Ok(())
    }

    // Values

    pub(super) fn set(&mut self, value: Value, to: Val) {
        self.values[value.as_u32() as usize] = Some(to);
    }

    pub(super) fn get(&self, value: Value) -> Result<Val> {
        self.values
            .get(value.as_u32() as usize)
            .copied()
            .flatten()
            .ok_or_else(|| {
                Error::new(
                    "W0502",
                    format!("{value} of `{}` is used before it is defined", self.f.name),
                )
            })
    }

    pub(super) fn all(&self, values: &[Value]) -> Result<Vec<Val>> {
        values.iter().map(|v| self.get(*v)).collect()
    }

    /// The scalar type of a value, or of its lanes.
    pub(super) fn scalar(&self, value: Value) -> Result<Scalar> {
        match self.f.ty(value) {
            Type::Vector(s, _) => Ok(s),
            ty => self.unit.only_scalar(self.f, ty),
        }
    }

    /// The LLVM type of a scalar or of a vector of lanes.
    pub(super) fn ty(&self, ty: Type) -> Result<Ty> {
        let e = &self.unit.emit;
        match ty {
            Type::Vector(s, n) => Ok(e.vector_ty(e.scalar_ty(s), u32::from(n))),
            ty => Ok(e.scalar_ty(self.unit.only_scalar(self.f, ty)?)),
        }
    }

    pub(super) fn tys(&self, values: &[Value]) -> Result<Vec<Ty>> {
        values.iter().map(|v| self.ty(self.f.ty(*v))).collect()
    }

    pub(super) fn define_all(&mut self, values: &[Value], to: &[Val]) {
        for (value, v) in values.iter().zip(to) {
            self.set(*value, *v);
        }
    }

    // The launch context

    /// Emits code in the entry block.
    pub(super) fn at_entry<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let resume = self.unit.emit.current();
        self.unit.emit.position(self.entry);
        let made = make(self);
        self.unit.emit.position(resume);
        made
    }

    /// The alignment of the first element of an array, if it is known.
    pub(super) fn align_array(&self, what: Hoisted, base: Val) {
        let Hoisted::ArrayBase(a) = what else {
            return;
        };
        if let Some(shape) = &self.unit.module.arrays[a].shape {
            let e = &self.unit.emit;
            let align = e.const_i64(i64::from(shape.align));
            e.set_md(base, e.kinds.align, e.md_node(&[e.md_value(align)]));
        }
    }

    pub(super) fn hoisted(&mut self, what: Hoisted) -> Val {
        if let Some(v) = self.hoisted.get(&what) {
            return *v;
        }
        let v = self.at_entry(|g| g.load_hoisted(what));
        self.hoisted.insert(what, v);
        v
    }

    fn load_hoisted(&mut self, what: Hoisted) -> Val {
        if self.unit.gpu.is_some() {
            return self.load_hoisted_on_gpu(what);
        }
        let ptr = self.unit.emit.ptr_ty();
        let i64_ty = self.unit.emit.i64_ty();
        let array = |a: Array, at: u64| a.as_u32() as u64 * offset::ARRAY_SIZE + at;
        let (base, at, ty) = match what {
            Hoisted::Params => (self.context, offset::PARAMS, ptr),
            Hoisted::Trees => (self.context, offset::TREES, ptr),
            Hoisted::Arrays => (self.context, offset::ARRAYS, ptr),
            Hoisted::Temps => (self.context, offset::TEMPS, ptr),
            Hoisted::Interrupt => (self.context, offset::INTERRUPT, ptr),
            Hoisted::RandomKey => (self.context, offset::RANDOM_KEY, i64_ty),
            Hoisted::Tree(t) => (self.hoisted(Hoisted::Trees), u64::from(t.as_u32()) * 8, ptr),
            Hoisted::Copies => (self.context, offset::COPIES, ptr),
            Hoisted::Copy(t) => (
                self.hoisted(Hoisted::Copies),
                u64::from(t.as_u32()) * 8,
                ptr,
            ),
            Hoisted::ArrayBase(a) => (
                self.hoisted(Hoisted::Arrays),
                array(a, offset::ARRAY_BASE),
                ptr,
            ),
            Hoisted::ArrayExtent(a, axis) => (
                self.hoisted(Hoisted::Arrays),
                array(a, offset::ARRAY_EXTENTS + 8 * u64::from(axis)),
                i64_ty,
            ),
            Hoisted::ArrayStride(a, axis) => (
                self.hoisted(Hoisted::Arrays),
                array(a, offset::ARRAY_STRIDES + 8 * u64::from(axis)),
                i64_ty,
            ),
        };
        let v = self.load_invariant(base, at, ty, 8);
        self.align_array(what, v);
        let e = &self.unit.emit;
        match what {
            Hoisted::Tree(_) | Hoisted::Copy(_) => {
                e.set_md(v, e.kinds.nonnull, e.md_node(&[]));
                let align = e.const_i64(crate::abi::TREE_ALIGN as i64);
                e.set_md(v, e.kinds.align, e.md_node(&[e.md_value(align)]));
            }
            Hoisted::Params
            | Hoisted::Trees
            | Hoisted::Arrays
            | Hoisted::Temps
            | Hoisted::Interrupt
            | Hoisted::RandomKey
            | Hoisted::Copies
            | Hoisted::ArrayBase(_)
            | Hoisted::ArrayExtent(..)
            | Hoisted::ArrayStride(..) => {}
        }
        v
    }

    /// Loads a value that is constant during the launch.
    pub(super) fn load_invariant(&self, base: Val, at: u64, ty: Ty, align: u32) -> Val {
        let e = &self.unit.emit;
        let address = e.offset(base, e.const_i64(at as i64));
        let v = e.load(ty, address, align);
        let empty = e.md_node(&[]);
        e.set_md(v, e.kinds.invariant_load, empty);
        e.set_md(v, e.kinds.noundef, empty);
        self.unit.scopes.mark_context(e, v);
        v
    }

    /// A by-value parameter of the kernel.
    pub(super) fn parameter(&mut self, slot: usize, scalar: Scalar) -> Val {
        let params = self.hoisted(Hoisted::Params);
        self.at_entry(|g| {
            let ty = g.unit.emit.memory_ty(scalar);
            let v = g.load_invariant(params, 8 * slot as u64, ty, 8);
            g.loaded(v, scalar)
        })
    }

    pub(super) fn context(&self) -> Val {
        self.context
    }

    // Regions

    pub(super) fn region(&mut self, region: Region) -> Result<()> {
        let neighbours = self.neighbouring_updates(region);
        for k in 0..self.f.regions[region].insts.len() {
            let inst = self.f.regions[region].insts[k];
            match neighbours.iter().find(|t| t.contains(&inst)) {
                None => self.inst(inst)?,
                Some(all) if all.last() == Some(&inst) => self.vector_atomic(all)?,
                // Emitted with its group of neighbouring updates.
                Some(_) => {}
            }
        }
        self.term(region)
    }

    fn term(&mut self, region: Region) -> Result<()> {
        let data = &self.f.regions[region];
        let values = self.all(data.term.args())?;
        match &data.term {
            Term::Yield(_) => {
                let from = self.unit.emit.current();
                match self.yields.last_mut() {
                    Some(YieldTo::If(join)) => {
                        self.unit.emit.br(join.block);
                        join.incoming.push((from, values));
                    }
                    Some(YieldTo::Block(label)) => {
                        let label = *label;
                        self.jump(label, values, false)?;
                    }
                    None => return Err(self.misplaced("yield", data.term_span)),
                }
            }
            Term::Break(label, _) => self.jump(*label, values, false)?,
            Term::Continue(label, _) => self.jump(*label, values, true)?,
            Term::Return(_) => self.return_values(&values),
            // No edge leads here; a return is safe even if the IR is wrong.
            Term::Unreachable => self.return_zero(),
        }
        Ok(())
    }

    fn jump(&mut self, label: Label, values: Vec<Val>, again: bool) -> Result<()> {
        let from = self.unit.emit.current();
        let join = self.targets.get_mut(&label).and_then(|t| {
            if again {
                t.next.as_mut()
            } else {
                Some(&mut t.exit)
            }
        });
        let Some(join) = join else {
            return Err(self.misplaced("jump", Span::UNKNOWN));
        };
        self.unit.emit.br(join.block);
        join.incoming.push((from, values));
        Ok(())
    }

    fn misplaced(&self, what: &str, span: Span) -> Error {
        self.unit.unlowered(
            span,
            format!("a misplaced `{what}` in function `{}`", self.f.name),
        )
    }

    pub(super) fn unlowered(&self, inst: Inst) -> Error {
        let op = format!("{:?}", self.f.insts[inst].op);
        self.unit.unlowered(
            self.f.spans[inst],
            format!("`{op}` in function `{}`", self.f.name),
        )
    }

    pub(super) fn inst(&mut self, inst: Inst) -> Result<()> {
        if self.advanced.contains(&inst) {
            return Ok(());
        }
        let data = &self.f.insts[inst];
        let args = &data.args[..];
        let value = match data.op.class() {
            OpClass::Constant(imm) => self.unit.emit.const_bits(imm.ty, imm.bits()),
            OpClass::Elementwise(op) => self.elementwise(inst, op, args)?,
            OpClass::Component(op) => self.component(inst, op, args)?,
            OpClass::Reduce(op) => self.reduce(op, args[0])?,
            OpClass::Query(op) => match op {
                QueryOp::ArrayExtent(a, axis) => self.hoisted(Hoisted::ArrayExtent(a, axis)),
                QueryOp::ArrayStride(a, axis) => self.hoisted(Hoisted::ArrayStride(a, axis)),
                QueryOp::RandomKey => self.hoisted(Hoisted::RandomKey),
                QueryOp::Iteration => return Err(self.unlowered(inst)),
            },
            OpClass::Access(op, access) => {
                let Place::Local(l) = access.place else {
                    return Err(self.unlowered(inst));
                };
                match op {
                    AccessOp::Load => self.load_local(l, &access.path, args)?,
                    AccessOp::Store => return self.store_local(l, &access.path, args),
                    AccessOp::Atomic(op) => self.atomic_local(op, l, args)?,
                    AccessOp::CompareExchange => self.exchange_local(l, args)?,
                }
            }
            OpClass::Thread(_) if self.unit.gpu.is_none() => return Err(self.unlowered(inst)),
            OpClass::Thread(op) => match self.thread_op(op, args)? {
                Some(value) => value,
                None => return Ok(()),
            },
            OpClass::Memory(op) => match op {
                MemoryOp::MemLoad(space, _) => self.mem_load(space, args, data.results[0])?,
                MemoryOp::MemStore(space) => return self.mem_store(space, args),
                MemoryOp::MemAtomic(op, space, Sharing::Shared) => {
                    self.shared_atomic(op, space, args, data.results[0])?
                }
                MemoryOp::MemAtomic(op, space, Sharing::Owned) => {
                    self.owned_atomic(op, space, args[0], args[1])?
                }
                MemoryOp::MemCompareExchange(space) => {
                    self.mem_compare_exchange(space, args[0], args[1], args[2])?
                }
                MemoryOp::LoadInterleaved(rows) => {
                    return self.load_interleaved(rows, args, &data.results);
                }
                MemoryOp::StoreInterleaved(rows) => return self.store_interleaved(rows, args),
                MemoryOp::AddInterleaved(spaces) => return self.add_interleaved(spaces, args),
            },
            OpClass::Control(op) => {
                return match op {
                    ControlOp::If => self.if_else(inst),
                    ControlOp::Loop(label) => self.endless_loop(inst, label),
                    ControlOp::For(label, kind) => self.for_loop(inst, label, kind),
                    ControlOp::Block(label) => self.block(inst, label),
                    ControlOp::ForEach(..) => Err(self.unlowered(inst)),
                };
            }
            OpClass::Call(callee) => return self.call(inst, callee),
            OpClass::Check(CheckOp::Report(site)) => return self.report(site.as_u32(), args),
            OpClass::Check(CheckOp::Print(_) | CheckOp::Assert(_) | CheckOp::CheckIndex(_))
            | OpClass::Algebra(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Random => return Err(self.unlowered(inst)),
        };
        self.set(data.results[0], value);
        Ok(())
    }

    fn elementwise(&mut self, inst: Inst, op: ElementwiseOp, args: &[Value]) -> Result<Val> {
        match op {
            ElementwiseOp::Unary(op) => self.unary(inst, op, args[0]),
            ElementwiseOp::Binary(op) => self.binary(inst, op, args[0], args[1]),
            ElementwiseOp::Compare(op) => self.compare(op, args[0], args[1]),
            ElementwiseOp::Select => {
                let (c, a, b) = (self.get(args[0])?, self.get(args[1])?, self.get(args[2])?);
                Ok(self.unit.emit.select(c, a, b))
            }
            ElementwiseOp::Fma => self.fma(args),
            ElementwiseOp::Convert(to) => self.convert(args[0], to),
            ElementwiseOp::Bitcast(to) => {
                let v = self.get(args[0])?;
                let e = &self.unit.emit;
                Ok(e.bitcast(v, e.scalar_like(to, v)))
            }
        }
    }

    /// Vectors of lanes only; other aggregates have been scalarized.
    fn component(&mut self, inst: Inst, op: ComponentOp<'_>, args: &[Value]) -> Result<Val> {
        match op {
            ComponentOp::Splat(Type::Vector(_, n)) => {
                let v = self.get(args[0])?;
                Ok(self.unit.emit.splat(v, u32::from(n)))
            }
            ComponentOp::Compose(Type::Vector(..)) => {
                let lanes = self.all(args)?;
                Ok(self.unit.emit.compose(&lanes))
            }
            ComponentOp::Extract(k) => {
                let v = self.get(args[0])?;
                let e = &self.unit.emit;
                Ok(e.lane(v, e.const_i64(i64::from(k))))
            }
            ComponentOp::ExtractDyn => self.lane(args),
            ComponentOp::InsertDyn => self.set_lane(args),
            ComponentOp::Splat(_)
            | ComponentOp::Compose(_)
            | ComponentOp::Insert(_)
            | ComponentOp::Shuffle(_) => Err(self.unlowered(inst)),
        }
    }

    fn shared_atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        args: &[Value],
        result: Value,
    ) -> Result<Val> {
        if self.converged {
            return self.block_reduced_atomic(op, space, args[0], args[1]);
        }
        match self.added_by_all(op, space, args[0], args[1]) {
            Some(number) => {
                let used = self.used.contains(&result);
                self.add_for_all(space, args[0], number, used)
            }
            None => self.mem_atomic(op, space, args[0], args[1]),
        }
    }
}
