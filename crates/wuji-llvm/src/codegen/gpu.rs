//! Code generation for GPUs.
//!
//! A task becomes a kernel that calls the task's function. The outermost loops are grid-stride loops: each
//! thread starts at its own index and advances by the number of threads, so that neighbouring threads run
//! neighbouring iterations. All threads execute the code before and after these loops; reductions end there,
//! with one atomic per thread block.
//!
//! A task without such a loop passes its range to a function, which is called for one unit at a time.

use super::Unit;
use super::function::{FunctionGen, Hoisted};
use crate::abi::{ArrayView, REPORT_DETAILS, REPORT_WORDS, REPORT_WRITTEN, offset};
use crate::emit::{Fun, On, Val};
use inkwell::llvm_sys::LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd;
use inkwell::llvm_sys::LLVMIntPredicate::*;
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::HashSet;
use std::mem::size_of;
use wuji_compile::nodes::{UPKEEP, memories};
use wuji_ir::Result;
use wuji_ir::entities::{Array, Func, Region, Value};
use wuji_ir::layout::header;
use wuji_ir::module::{Bound, BoundBase, Function, Module, RangeDim, SiteKind, Task, TaskKind};
use wuji_ir::ops::{AtomicOp, ControlOp, ForKind, MOST_THREADS, Op, Shuffle, Space, WARP};
use wuji_ir::types::Scalar;

/// Address spaces: global memory and shared memory.
pub(super) const GLOBAL: u32 = 1;
pub(super) const SHARED: u32 = 3;

/// Iterations of an endless loop between two polls of the interrupt flag: a poll costs about 100
/// instructions.
const TURNS: u64 = 1 << 10;

/// Bits of the clock that are zero when a recursive function polls: in one of 64 activations.
const POLLS_AT: u64 = 0x3f0;

/// Flags in a site's word: the report is printed; the report ends the iteration.
pub(super) const PRINTS: u64 = 1 << 31;
pub(super) const FAILS: u64 = 1 << 30;

/// Loops with this many loads and float operations hide memory latency without other threads.
const LONG_LOOP: usize = 128;
/// The number of resident threads per multiprocessor that suffices for such a loop, so that each may use more
/// registers.
const FEW_THREADS: u32 = 512;
/// The number of resident threads per multiprocessor where they hide latency rather than registers.
const MANY_THREADS: u32 = 768;

/// Whether a function has a loop that benefits more from registers than from occupancy.
fn has_long_loop(f: &Function) -> bool {
    let mut any = false;
    f.walk(|inst| {
        let data = &f.insts[inst];
        if let Op::For(_, ForKind::Serial) = data.op {
            let work = f.regions[data.regions[0]].insts.iter().filter(|i| {
                let results = &f.insts[**i].results;
                let float = |v: &Value| f.ty(*v).as_scalar().is_some_and(Scalar::is_float);
                results.iter().any(float)
            });
            any |= work.count() >= LONG_LOOP;
        }
    });
    any
}

/// The block size of a task; a single-threaded task has one block.
pub(crate) fn block_size(task: &Task) -> u32 {
    match &task.kind {
        TaskKind::Chunks { hints, .. } if !hints.serial => hints.threads(),
        TaskKind::Serial
        | TaskKind::Chunks { .. }
        | TaskKind::Range { .. }
        | TaskKind::Cells { .. } => 1,
    }
}

/// The first index of a thread, and its stride.
#[derive(Copy, Clone, Debug)]
pub(super) struct Stride {
    pub(super) first: Val,
    pub(super) step: Val,
    /// The step is a multiple of this.
    pub(super) multiple: u32,
}

/// The memory that a set of functions writes to.
#[derive(Debug, Default)]
pub(super) struct Written(HashSet<Space>);

impl Written {
    pub(super) fn of(module: &Module, funcs: &[Func]) -> Written {
        let mut all = HashSet::new();
        for func in funcs {
            let f = &module.funcs[*func];
            f.walk(|inst| all.extend(f.insts[inst].op.written_space()));
        }
        Written(all)
    }

    fn has_array(&self, array: Option<Array>) -> bool {
        self.0.iter().any(|s| match s {
            Space::Array(a) => array.is_none_or(|wanted| wanted == *a),
            _ => false,
        })
    }
}

/// Whether a task has a loop to distribute over threads: at the top level, or in a branch there.
fn has_outer_loop(f: &Function, region: Region) -> bool {
    f.regions[region].insts.iter().any(|i| {
        let data = &f.insts[*i];
        match data.op.control() {
            Some(ControlOp::For(_, ForKind::Parallel | ForKind::Boundary)) => true,
            Some(ControlOp::If | ControlOp::Block(_)) => {
                data.regions.iter().any(|r| has_outer_loop(f, *r))
            }
            Some(
                ControlOp::For(_, ForKind::Serial) | ControlOp::Loop(_) | ControlOp::ForEach(..),
            )
            | None => false,
        }
    })
}

impl Unit<'_, '_> {
    /// The compute capability to generate code for: 90 is 9.0.
    pub(super) fn sm(&self) -> u32 {
        let number = self.host.cpu.strip_prefix("sm_");
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Size of the launch context in bytes.
    pub(super) fn context_size(&self) -> u64 {
        self.gpu.map_or(offset::CONTEXT_SIZE, |l| l.size as u64)
    }

    /// Whether nothing writes to a space while the kernel runs.
    pub(super) fn is_constant(&self, space: Space) -> bool {
        if self.gpu.is_none() || !self.read_only_cache {
            return false;
        }
        let has = |s: Space| self.written.0.contains(&s);
        let whole =
            |tree| has(Space::Nodes(tree)) || has(Space::Bytes(tree)) || has(Space::Streamed(tree));
        match space {
            Space::Tree(tree, _) => !has(space) && !whole(tree),
            Space::Nodes(tree) => !whole(tree),
            Space::Array(a) => {
                let alone = self.module.arrays[a].unaliased;
                !self.written.has_array(alone.then_some(a))
            }
            Space::Temps => !has(Space::Temps),
            Space::Bytes(_) | Space::Streamed(_) | Space::Private(..) => false,
        }
    }

    /// The encoding of a site in code.
    pub(super) fn site_word(&self, site: u32) -> u64 {
        let word = u64::from(site);
        if self.gpu.is_none() {
            return word;
        }
        match self.module.sites[wuji_ir::entities::Site::from_u32(site)].kind {
            SiteKind::Print(_) => word | PRINTS,
            SiteKind::Assert(_) | SiteKind::TooDeep(_) => word | FAILS,
            SiteKind::OutOfRange(_)
            | SiteKind::ReadOutOfRange(_)
            | SiteKind::BadIndex { .. }
            | SiteKind::OutOfMemory(..)
            | SiteKind::ListFull(_) => word,
        }
    }

    /// Emits the kernel of a task. Returns the declaration of the function that it calls.
    pub(super) fn kernel(&mut self, index: usize, symbol: &str) -> Result<Fun> {
        let task = &self.module.tasks[index];
        let e = &self.emit;
        let ty = e.fn_ty(e.void_ty(), &[e.ptr_ty(), e.i64_ty(), e.i64_ty()]);
        let inner = e.add_function(&format!("{symbol}_body"), ty);
        e.set_internal(inner);
        e.add_attr(inner, On::Function, "alwaysinline", 0);
        e.add_attr(inner, On::Function, "convergent", 0);
        let outer = e.add_function(symbol, e.fn_ty(e.void_ty(), &[e.ptr_ty()]));
        e.set_kernel(outer);
        e.add_by_value(outer, 0, e.array_ty(e.int_ty(8), self.context_size()));
        e.add_attr(outer, On::Param(0), "align", 8);
        e.add_param_string_attr(outer, 0, "nvvm.grid_constant", "");
        e.add_string_attr(outer, "nvvm.maxntid", &block_size(task).to_string());
        let blocks = matches!(&task.kind, TaskKind::Chunks { hints, .. } if hints.blocks);
        let func = &self.module.funcs[task.func];
        let resident = if func.traits.many_threads {
            Some(MANY_THREADS)
        } else {
            (blocks || has_long_loop(func)).then_some(FEW_THREADS)
        };
        if let Some(threads) = resident {
            let blocks = (threads / block_size(task)).max(1);
            e.add_string_attr(outer, "nvvm.minctasm", &blocks.to_string());
        }
        self.function_attributes(outer);

        let e = &self.emit;
        let entry = e.append_block(outer, c"entry");
        e.position(entry);
        let context = e.param(outer, 0);
        let fails = self.module.sites.values();
        let fails = fails
            .map(|s| &s.kind)
            .any(|k| matches!(k, SiteKind::Assert(_) | SiteKind::TooDeep(_)));
        if fails && task.ordinal != UPKEEP {
            self.leave_if_failed(outer, context);
        }
        let e = &self.emit;
        let zero = e.const_i64(0);
        match &task.kind {
            TaskKind::Chunks { dims, hints, .. } => {
                let units = self.units(context, dims)?;
                let f = &self.module.funcs[task.func];
                if hints.serial || has_outer_loop(f, f.entry) {
                    self.emit.call(inner, &[context, zero, units]);
                } else {
                    self.call_for_each_unit(outer, inner, context, units);
                }
            }
            TaskKind::Serial | TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                e.call(inner, &[context, zero, zero]);
            }
        }
        self.emit.ret(self.emit.void_ty(), None);
        Ok(inner)
    }

    /// Returns from the kernel if serial code of the same launch has failed.
    fn leave_if_failed(&self, kernel: Fun, context: Val) {
        let e = &self.emit;
        let at = |base: Val, bytes: u64| e.offset(base, e.const_i64(bytes as i64));
        let reports = e.load(e.ptr_ty(), at(context, offset::DEVICE_REPORTS), 8);
        let launch = e.load(e.i64_ty(), at(context, offset::DEVICE_LAUNCH), 8);
        let failed = e.load(
            e.i64_ty(),
            at(self.global(reports), offset::REPORTS_FAILED),
            8,
        );
        let over = e.icmp(LLVMIntEQ, failed, e.add(launch, e.const_i64(1)));
        let leave = e.append_block(kernel, c"over");
        let next = e.append_block(kernel, c"next");
        e.cond_br(over, leave, next);
        e.position(leave);
        e.ret(e.void_ty(), None);
        e.position(next);
    }

    /// Calls the function once for each of the thread's units.
    fn call_for_each_unit(&self, kernel: Fun, inner: Fun, context: Val, units: Val) {
        let e = &self.emit;
        let Stride { first, step, .. } = self.stride(1);
        let before = e.current();
        let head = e.append_block(kernel, c"unit");
        let body = e.append_block(kernel, c"run");
        let done = e.append_block(kernel, c"done");
        e.br(head);
        e.position(head);
        let unit = e.phi(e.i64_ty());
        e.add_incoming(unit, first, before);
        e.cond_br(e.icmp(LLVMIntSLT, unit, units), body, done);
        e.position(body);
        e.call(inner, &[context, unit, e.add(unit, e.const_i64(1))]);
        e.add_incoming(unit, e.add(unit, step), e.current());
        e.br(head);
        e.position(done);
    }

    /// Reads a special register that identifies the thread or block.
    fn special_register(&self, name: &str) -> Val {
        let e = &self.emit;
        let v = e.intrinsic(&format!("llvm.nvvm.read.ptx.sreg.{name}.x"), &[], &[]);
        e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty())
    }

    /// The global index of this thread, and the number of threads, in blocks of a multiple of this many.
    fn stride(&self, multiple: u32) -> Stride {
        let e = &self.emit;
        let (block, thread) = (self.block_stride(), self.thread_stride());
        let mul = |a: Val, b: Val| e.binary(LLVMOpcode::LLVMMul, a, b);
        Stride {
            first: e.add(mul(block.first, thread.step), thread.first),
            step: mul(block.step, thread.step),
            multiple,
        }
    }

    /// The index of this block, and the number of blocks.
    fn block_stride(&self) -> Stride {
        Stride {
            first: self.special_register("ctaid"),
            step: self.special_register("nctaid"),
            multiple: 1,
        }
    }

    /// The index of this thread in its block, and the block size.
    fn thread_stride(&self) -> Stride {
        Stride {
            first: self.special_register("tid"),
            step: self.special_register("ntid"),
            multiple: 1,
        }
    }

    /// Casts a pointer to the global address space.
    pub(super) fn global(&self, pointer: Val) -> Val {
        let e = &self.emit;
        let there = e.cast(
            LLVMOpcode::LLVMAddrSpaceCast,
            pointer,
            e.space_ptr_ty(GLOBAL),
        );
        e.cast(LLVMOpcode::LLVMAddrSpaceCast, there, e.ptr_ty())
    }

    /// What is known about the loaded address of a tree. Every load of it says so: equal loads become one, which has only what
    /// all of them say.
    fn describe_tree(&self, address: Val) {
        let e = &self.emit;
        e.set_md(address, e.kinds.nonnull, e.md_node(&[]));
        let align = e.const_i64(crate::abi::TREE_ALIGN as i64);
        e.set_md(address, e.kinds.align, e.md_node(&[e.md_value(align)]));
    }

    /// The number of units of a task, saturated.
    fn units(&self, context: Val, dims: &[RangeDim]) -> Result<Val> {
        let e = &self.emit;
        let mut units = e.const_i64(1);
        for dim in dims {
            let extent = match dim.constant_count() {
                Some(count) => e.const_i64(i64::try_from(count).unwrap_or(i64::MAX)),
                None => {
                    let (lo, hi) = (self.bound(context, dim.lo)?, self.bound(context, dim.hi)?);
                    let long = e.intrinsic("llvm.ssub.sat", &[e.i64_ty()], &[hi, lo]);
                    let long = e.intrinsic("llvm.smax", &[e.i64_ty()], &[long, e.const_i64(0)]);
                    self.steps(long, dim.step.get())
                }
            };
            if e.is_constant(units) && e.is_constant(extent) {
                // LLVM folds this; the host has checked that the product fits.
                units = e.binary(LLVMOpcode::LLVMMul, units, extent);
                continue;
            }
            let pair = e.intrinsic("llvm.smul.with.overflow", &[e.i64_ty()], &[units, extent]);
            let (product, over) = (e.extract(pair, 0), e.extract(pair, 1));
            units = e.select(over, e.const_i64(i64::MAX), product);
        }
        Ok(units)
    }

    /// How many steps it takes to reach or pass a distance that is not negative.
    fn steps(&self, distance: Val, step: u32) -> Val {
        let e = &self.emit;
        if step == 1 {
            return distance;
        }
        let by = e.const_i64(step.into());
        let whole = e.binary(LLVMOpcode::LLVMUDiv, distance, by);
        let rest = e.binary(LLVMOpcode::LLVMURem, distance, by);
        let more = e.icmp(LLVMIntNE, rest, e.const_i64(0));
        e.add(whole, e.cast(LLVMOpcode::LLVMZExt, more, e.i64_ty()))
    }

    fn bound(&self, context: Val, bound: Bound) -> Result<Val> {
        let e = &self.emit;
        let layout = self
            .gpu
            .unwrap_or(crate::abi::DeviceLayout::of(self.module));
        let at = |base: Val, bytes: u64| e.offset(base, e.const_i64(bytes as i64));
        let wide = |v: Val, s: Scalar| match (s.bits(), s.is_signed_int()) {
            (64, _) => v,
            (_, true) => e.cast(LLVMOpcode::LLVMSExt, v, e.i64_ty()),
            (_, false) => e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty()),
        };
        // Bounds beyond the range of `i64` are saturated.
        let saturated = |v: Val, s: Scalar| match s {
            Scalar::U64 => e.intrinsic("llvm.umin", &[e.i64_ty()], &[v, e.const_i64(i64::MAX)]),
            _ => v,
        };
        let raw = |base: Val, bytes: u64, s: Scalar| {
            wide(e.load(e.memory_ty(s), at(base, bytes), s.bytes().min(8)), s)
        };
        let number = |base: Val, bytes: u64, s: Scalar| saturated(raw(base, bytes, s), s);
        let param = |p: u32| {
            let ty = self.module.params[p as usize].ty;
            let slot = self.module.param_slots()[p as usize];
            let s = ty.as_scalar().unwrap_or(Scalar::I64);
            ((layout.params + 8 * slot) as u64, s)
        };
        Ok(match bound {
            Bound::Const(c) => e.const_i64(c),
            Bound::Param(p) => {
                let (at, s) = param(p);
                number(context, at, s)
            }
            Bound::Sum { base, plus, scalar } => {
                let base = match base {
                    BoundBase::Param(p) => {
                        let (at, s) = param(p);
                        raw(context, at, s)
                    }
                    BoundBase::Extent(a, axis) => {
                        let view = layout.arrays + size_of::<ArrayView>() * a.as_u32() as usize;
                        let extent = offset::ARRAY_EXTENTS + 8 * u64::from(axis);
                        raw(context, view as u64 + extent, Scalar::I64)
                    }
                };
                let sum = e.add(base, e.const_i64(plus));
                let own = match scalar.bits() {
                    64 => sum,
                    bits => e.cast(LLVMOpcode::LLVMTrunc, sum, e.int_ty(bits)),
                };
                saturated(wide(own, scalar), scalar)
            }
            Bound::Temp(t) => {
                let temps = e.load(e.ptr_ty(), at(context, offset::DEVICE_TEMPS), 8);
                let s = self.module.temps[t].ty.as_scalar().unwrap_or(Scalar::I64);
                let offsets = self.module.temp_offsets().0;
                number(self.global(temps), offsets[t.as_u32() as usize], s)
            }
            Bound::List(tree, node) => {
                let base = at(context, layout.trees as u64 + 8 * u64::from(tree.as_u32()));
                let base = e.load(e.ptr_ty(), base, 8);
                self.describe_tree(base);
                let base = self.global(base);
                let memory = memories(self.module)?;
                let head = memory[tree].node(node).map_or(0, |n| n.header);
                number(base, head + header::LISTED, Scalar::I64)
            }
        })
    }

    /// The body of the report function: it increments the counter of the site and appends a record to the
    /// device's log if there is room.
    pub(super) fn report_on_gpu(&self, fun: Fun, count: usize) {
        let e = &self.emit;
        let (context, word) = (e.param(fun, 0), e.param(fun, 1));
        let i64_ty = e.i64_ty();
        let at = |base: Val, bytes: u64| e.offset(base, e.const_i64(bytes as i64));
        let word = e.cast(LLVMOpcode::LLVMZExt, word, i64_ty);
        let reports = e.load(e.ptr_ty(), at(context, offset::DEVICE_REPORTS), 8);
        let reports = self.global(reports);
        let log = self.global(e.load(e.ptr_ty(), at(context, offset::DEVICE_LOG), 8));
        let launch = e.load(i64_ty, at(context, offset::DEVICE_LAUNCH), 8);
        let ordinal = e.load(i64_ty, at(context, offset::DEVICE_ORDINAL), 8);
        let site = e.and(word, e.const_i64((FAILS - 1) as i64));
        let counters = at(reports, offset::REPORTS_SIZE);
        let counter = e.element(i64_ty, counters, site);
        let one = e.const_i64(1);
        let before = e.atomic_rmw(LLVMAtomicRMWBinOpAdd, counter, one);

        let when = |condition: Val, then: &dyn Fn()| {
            let (yes, no) = (e.append_block(fun, c"then"), e.append_block(fun, c"else"));
            e.cond_br(condition, yes, no);
            e.position(yes);
            then();
            e.br(no);
            e.position(no);
        };
        let has = |bit: u64| {
            let bits = e.and(word, e.const_i64(bit as i64));
            e.icmp(LLVMIntNE, bits, e.const_i64(0))
        };
        when(e.icmp(LLVMIntEQ, before, e.const_i64(0)), &|| {
            let reported = e.load(e.ptr_ty(), at(log, offset::LOG_REPORTED), 8);
            e.store(one, reported, 8);
        });
        // Ordinals of serial tasks are even.
        let serial = e.icmp(LLVMIntEQ, e.and(ordinal, one), e.const_i64(0));
        when(e.and(has(FAILS), serial), &|| {
            e.store(e.add(launch, one), at(reports, offset::REPORTS_FAILED), 8);
        });
        let few = e.icmp(LLVMIntULT, before, e.const_i64(REPORT_DETAILS as i64));
        when(e.or(has(PRINTS), few), &|| {
            let words = e.const_i64(REPORT_WORDS as i64 + count as i64);
            let used = at(log, offset::LOG_USED);
            let from = e.atomic_rmw(LLVMAtomicRMWBinOpAdd, used, words);
            let room = e.load(i64_ty, at(log, offset::LOG_ROOM), 8);
            let fits = e.icmp(LLVMIntULE, e.add(from, words), room);
            when(fits, &|| {
                let base = e.element(i64_ty, at(log, offset::LOG_SIZE), from);
                let high = e.const_i64(((count as u64) << 32 | REPORT_WRITTEN) as i64);
                for (k, v) in [e.or(site, high), launch, ordinal].into_iter().enumerate() {
                    e.store(v, at(base, 8 * k as u64), 8);
                }
                for k in 0..count {
                    let to = at(base, 8 * (REPORT_WORDS + k as u64));
                    e.store(e.param(fun, k as u32 + 2), to, 8);
                }
            });
        });
        e.ret(e.void_ty(), None);
    }
}

impl FunctionGen<'_, '_, '_> {
    /// Determines the iterations that this thread runs.
    pub(super) fn assign_iterations(&mut self, task: &Task) {
        let TaskKind::Chunks { hints, .. } = &task.kind else {
            return;
        };
        if self.unit.gpu.is_some() {
            self.threads = Some(block_size(task));
        }
        if self.unit.gpu.is_none() || hints.serial || !has_outer_loop(self.f, self.f.entry) {
            return;
        }
        if hints.blocks {
            self.stride = Some(self.at_entry(|g| g.unit.block_stride()));
            self.inner_stride = Some(self.at_entry(|g| g.unit.thread_stride()));
        } else {
            let threads = block_size(task);
            self.stride = Some(self.at_entry(|g| g.unit.stride(threads)));
        }
        self.cooperative = hints.cooperative;
        // Threads of cooperative blocks end after their iteration, so they cannot take part in a block-wide
        // reduction at the end.
        self.converged = !hints.cooperative;
    }

    pub(super) fn load_hoisted_on_gpu(&mut self, what: Hoisted) -> Val {
        let Some(layout) = self.unit.gpu else {
            return self.context();
        };
        let ptr = self.unit.emit.ptr_ty();
        let i64_ty = self.unit.emit.i64_ty();
        let context = self.context();
        let array = |a: Array, at: u64| {
            (layout.arrays + size_of::<ArrayView>() * a.as_u32() as usize) as u64 + at
        };
        let place = |at: usize| {
            let e = &self.unit.emit;
            e.offset(context, e.const_i64(at as i64))
        };
        let (at, ty) = match what {
            Hoisted::Params => return place(layout.params),
            Hoisted::Trees | Hoisted::Copies => return place(layout.trees),
            Hoisted::Arrays => return place(layout.arrays),
            Hoisted::Temps => (offset::DEVICE_TEMPS, ptr),
            Hoisted::Interrupt => (offset::DEVICE_INTERRUPT, ptr),
            Hoisted::RandomKey => (offset::DEVICE_RANDOM_KEY, i64_ty),
            Hoisted::Tree(t) | Hoisted::Copy(t) => {
                (layout.trees as u64 + 8 * u64::from(t.as_u32()), ptr)
            }
            Hoisted::ArrayBase(a) => (array(a, offset::ARRAY_BASE), ptr),
            Hoisted::ArrayExtent(a, axis) => (
                array(a, offset::ARRAY_EXTENTS + 8 * u64::from(axis)),
                i64_ty,
            ),
            Hoisted::ArrayStride(a, axis) => (
                array(a, offset::ARRAY_STRIDES + 8 * u64::from(axis)),
                i64_ty,
            ),
        };
        let v = self.load_invariant(context, at, ty, 8);
        self.align_array(what, v);
        if let Hoisted::Tree(_) | Hoisted::Copy(_) = what {
            self.unit.describe_tree(v);
        }
        if ty == ptr { self.unit.global(v) } else { v }
    }

    /// Polls the interrupt flag every `TURNS` iterations.
    pub(super) fn poll_periodically(&mut self) {
        let i32_ty = self.unit.emit.int_ty(32);
        let counter = self.at_entry(|g| {
            let e = &g.unit.emit;
            let slot = e.alloca(i32_ty, 4);
            e.store(e.zero(i32_ty), slot, 4);
            slot
        });
        let e = &self.unit.emit;
        let turns = e.add(e.load(i32_ty, counter, 4), e.const_int(i32_ty, 1));
        e.store(turns, counter, 4);
        self.poll_where_zero(e.and(turns, e.const_int(i32_ty, TURNS - 1)));
    }

    /// Polls the interrupt flag in some activations of a recursive function. They have no counter in common, so the clock of the
    /// multiprocessor chooses.
    pub(super) fn poll_by_clock(&mut self) {
        let e = &self.unit.emit;
        let clock = e.intrinsic("llvm.nvvm.read.ptx.sreg.clock", &[], &[]);
        self.poll_where_zero(e.and(clock, e.const_int(e.int_ty(32), POLLS_AT)));
    }

    /// Polls the interrupt flag if a number is zero.
    fn poll_where_zero(&mut self, number: Val) {
        let e = &self.unit.emit;
        let due = e.icmp(LLVMIntEQ, number, e.zero(e.int_ty(32)));
        let poll = e.append_block(self.fun, c"poll");
        let next = e.append_block(self.fun, c"polled");
        e.cond_br(due, poll, next);
        e.position(poll);
        self.poll_now();
        let e = &self.unit.emit;
        e.br(next);
        e.position(next);
    }

    /// An atomic on one address that all threads execute and whose old value is unused: reduces within each
    /// block, then one thread updates memory.
    pub(super) fn block_reduced_atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        offset: Value,
        operand: Value,
    ) -> Result<Val> {
        let s = self.scalar(operand)?;
        let Some(binary) = op.binary().filter(|_| s.bits() >= 32) else {
            return self.mem_atomic(op, space, offset, operand);
        };
        let mut v = self.get(operand)?;
        let mut delta = WARP / 2;
        while delta > 0 {
            let e = &self.unit.emit;
            let by = e.const_int(e.int_ty(32), u64::from(delta));
            let other = self.shuffled(Shuffle::Down, v, s, by);
            v = self.combined(binary, s, v, other);
            delta /= 2;
        }
        let ty = self.unit.emit.scalar_ty(s);
        let warps = u64::from(MOST_THREADS / WARP);
        let e = &self.unit.emit;
        let shared = e.add_global(e.array_ty(ty, warps), SHARED, 8);
        let shared = e.cast(LLVMOpcode::LLVMAddrSpaceCast, shared, e.ptr_ty());
        let thread = e.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", &[], &[]);
        let threads = e.intrinsic("llvm.nvvm.read.ptx.sreg.ntid.x", &[], &[]);
        let i32_ty = e.int_ty(32);
        let number = |n: u32| e.const_int(i32_ty, u64::from(n));
        let wide = |v: Val| e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty());
        let lane = e.and(thread, number(WARP - 1));
        let warp = e.binary(LLVMOpcode::LLVMLShr, thread, number(WARP.ilog2()));
        let (first, after) = (
            e.append_block(self.fun, c"first_lane"),
            e.append_block(self.fun, c"all"),
        );
        e.cond_br(e.icmp(LLVMIntEQ, lane, number(0)), first, after);
        e.position(first);
        e.store(v, e.element(ty, shared, wide(warp)), s.bytes());
        e.br(after);
        e.position(after);
        self.barrier();
        let (one, done) = (
            e.append_block(self.fun, c"one"),
            e.append_block(self.fun, c"cooperative"),
        );
        e.cond_br(e.icmp(LLVMIntEQ, thread, number(0)), one, done);
        e.position(one);
        // The first thread combines the partial results of the others.
        let head = e.append_block(self.fun, c"add_up");
        let (add, added) = (
            e.append_block(self.fun, c"next_warp"),
            e.append_block(self.fun, c"added_up"),
        );
        let count = e.binary(LLVMOpcode::LLVMLShr, threads, number(WARP.ilog2()));
        e.br(head);
        e.position(head);
        let (index, sum) = (e.phi(i32_ty), e.phi(ty));
        e.add_incoming(index, number(1), one);
        e.add_incoming(sum, v, one);
        e.cond_br(e.icmp(LLVMIntULT, index, count), add, added);
        e.position(add);
        let part = e.load(ty, e.element(ty, shared, wide(index)), s.bytes());
        let more = self.combined(binary, s, sum, part);
        let e = &self.unit.emit;
        e.add_incoming(index, e.add(index, e.const_int(i32_ty, 1)), e.current());
        e.add_incoming(sum, more, e.current());
        e.br(head);
        e.position(added);
        let saved = self.values[operand.as_u32() as usize].replace(sum);
        self.mem_atomic(op, space, offset, operand)?;
        self.values[operand.as_u32() as usize] = saved;
        let e = &self.unit.emit;
        e.br(done);
        e.position(done);
        Ok(e.zero(ty))
    }

    fn combined(&mut self, op: wuji_ir::ops::BinOp, s: Scalar, a: Val, b: Val) -> Val {
        self.binary_op(op, s, (a, b), 0, None)
    }
}
