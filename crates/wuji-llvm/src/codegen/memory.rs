//! Loads and stores of fields, arrays, temps and locals.

use super::function::{FunctionGen, Hoisted};
use crate::emit::{Ty, Val};
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntNE;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Local, Value};
use wuji_ir::ops::{AtomicOp, Op, Space, Step};
use wuji_ir::types::{Scalar, Type};

impl FunctionGen<'_, '_, '_> {
    /// A `bool` is a byte in memory; any byte but 0 is true.
    pub(super) fn loaded(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        match s {
            Scalar::Bool => e.icmp(LLVMIntNE, v, e.zero(e.ty_of(v))),
            _ => v,
        }
    }

    pub(super) fn storable(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        match s {
            Scalar::Bool => e.cast(LLVMOpcode::LLVMZExt, v, e.shaped(e.int_ty(8), e.ty_of(v))),
            Scalar::I8 | Scalar::U8 if self.unit.gpu.is_some() && e.ty_of(v) == e.int_ty(8) => {
                self.byte(v)
            }
            _ => v,
        }
    }

    /// A byte that was made by an integer instruction. LLVM stores the low byte of any 32-bit register, and ptxas takes the
    /// store of a byte for a conversion if a float instruction has written the register.
    fn byte(&self, v: Val) -> Val {
        let e = &self.unit.emit;
        let word = e.int_ty(32);
        let wide = e.cast(LLVMOpcode::LLVMZExt, v, word);
        let low = e.pure_assembly("and.b32 $0, $1, 255;", "=r,r", word, &[wide]);
        e.cast(LLVMOpcode::LLVMTrunc, low, e.int_ty(8))
    }

    pub(super) fn address(&mut self, space: Space, offset: Value) -> Result<Val> {
        let base = self.hoisted(match space {
            Space::Tree(tree, _)
            | Space::Nodes(tree)
            | Space::Bytes(tree)
            | Space::Streamed(tree) => Hoisted::Tree(tree),
            Space::Array(array) => Hoisted::ArrayBase(array),
            Space::Temps => Hoisted::Temps,
            Space::Private(tree, _) => Hoisted::Copy(tree),
        });
        let offset = self.wide_offset(offset)?;
        Ok(self.unit.emit.offset(base, offset))
    }

    /// Attaches the alias scope and the access groups of the enclosing parallel loops.
    pub(super) fn mark(&self, inst: Val, space: Space) {
        self.unit.scopes.mark(&self.unit.emit, inst, space);
        self.mark_loops(inst);
    }

    /// Attaches the access groups of the enclosing parallel loops.
    pub(super) fn mark_loops(&self, inst: Val) {
        let e = &self.unit.emit;
        match &self.groups[..] {
            [] => {}
            [one] => e.set_md(inst, e.kinds.access_group, *one),
            many => e.set_md(inst, e.kinds.access_group, e.md_node(many)),
        }
    }

    pub(super) fn mem_load(&mut self, space: Space, args: &[Value], result: Value) -> Result<Val> {
        if self.lane_count(result).is_some() {
            return self.load_lanes(space, args, result);
        }
        let s = self.scalar(result)?;
        let at = self.address(space, args[0])?;
        let e = &self.unit.emit;
        let v = match space {
            // Pointers are dereferenced after a comparison: load only once.
            Space::Nodes(_) if !self.unit.is_constant(space) => {
                e.load_unordered(e.memory_ty(s), at, s.bytes())
            }
            Space::Nodes(_)
            | Space::Tree(..)
            | Space::Bytes(_)
            | Space::Streamed(_)
            | Space::Array(_)
            | Space::Temps
            | Space::Private(..) => e.load(e.memory_ty(s), at, s.bytes()),
        };
        if self.unit.is_constant(space) {
            let e = &self.unit.emit;
            e.set_md(v, e.kinds.invariant_load, e.md_node(&[]));
        }
        self.mark(v, space);
        Ok(self.loaded(v, s))
    }

    pub(super) fn mem_store(&mut self, space: Space, args: &[Value]) -> Result<()> {
        let value = args[1];
        if self.lane_count(value).is_some() {
            return self.store_lanes(space, args);
        }
        let s = self.scalar(value)?;
        let at = self.address(space, args[0])?;
        let v = self.storable(self.get(value)?, s);
        let inst = self.unit.emit.store(v, at, s.bytes());
        self.mark(inst, space);
        if matches!(space, Space::Streamed(_)) {
            // Atomics are locked instructions on x86, which order non-temporal stores.
            self.stream(inst);
        }
        Ok(())
    }

    /// Makes a store non-temporal, on processors whose ordering rules for such stores are known.
    pub(super) fn stream(&self, inst: Val) {
        if cfg!(target_arch = "x86_64") && self.unit.gpu.is_none() {
            let e = &self.unit.emit;
            let one = e.md_value(e.const_int(e.int_ty(32), 1));
            e.set_md(inst, e.kinds.nontemporal, e.md_node(&[one]));
        }
    }

    /// Whether the function has non-temporal vector stores, which must be visible to other threads when it
    /// returns.
    pub(super) fn streams_vectors(&self) -> bool {
        let mut found = false;
        self.f.walk(|inst| {
            let data = &self.f.insts[inst];
            found |= matches!(data.op, Op::MemStore(Space::Streamed(_)))
                && self.lane_count(data.args[1]).is_some();
        });
        found
    }

    /// The stack slot of a local, zero-initialized at function entry.
    fn local(&mut self, local: Local) -> Result<Slot> {
        let data = &self.f.locals[local];
        let (s, lanes) = match data.ty {
            Type::Vector(s, n) => (s, Some(u32::from(n))),
            ty => (self.unit.only_scalar(self.f, ty)?, None),
        };
        let shared = data.shared;
        if shared && self.unit.gpu.is_none() {
            let span = wuji_ir::module::Span::UNKNOWN;
            return Err(self
                .unit
                .unlowered(span, "an array that threads share".into()));
        }
        let e = &self.unit.emit;
        // Scalar masks are only loaded and stored as a whole.
        let packed = s == Scalar::Bool && lanes.is_some() && data.len.is_none();
        let elem = if packed {
            e.scalar_ty(s)
        } else {
            e.memory_ty(s)
        };
        let ty = lanes.map_or(elem, |n| e.vector_ty(elem, n));
        let bytes = s.bytes() * lanes.unwrap_or(1);
        let slot = match (self.locals.get(&local), data.len) {
            (Some(slot), _) => *slot,
            (None, len) => {
                let align = match len {
                    None => bytes.min(64),
                    Some(len) if len >= 16 => 64,
                    Some(_) => bytes.clamp(8, 64),
                };
                let slot = self.at_entry(|g| {
                    let e = &g.unit.emit;
                    match len {
                        Some(len) if shared => g.shared_array(ty, len, bytes),
                        None => {
                            let slot = e.alloca(ty, align);
                            e.store(e.zero(ty), slot, align);
                            slot
                        }
                        Some(len) => {
                            let slot = e.alloca(e.array_ty(ty, u64::from(len)), align);
                            e.memset_zero(slot, u64::from(len) * u64::from(bytes), align);
                            slot
                        }
                    }
                });
                self.locals.insert(local, slot);
                slot
            }
        };
        Ok(Slot {
            at: slot,
            ty,
            scalar: s,
            packed,
            align: bytes.min(64),
        })
    }

    /// The address of a local, of an element of a local array (the index is in range), or of one lane of
    /// either.
    fn local_address(&mut self, local: Local, path: &[Step], index: &[Value]) -> Result<Slot> {
        let mut slot = self.local(local)?;
        if let Some(index) = index.first().filter(|_| self.f.locals[local].len.is_some()) {
            let from = self.scalar(*index)?;
            let wide = self.convert_value(self.get(*index)?, from, Scalar::I64);
            let e = &self.unit.emit;
            slot.at = e.element(slot.ty, slot.at, wide);
        }
        let lane = match path.first() {
            None => None,
            Some(Step::Const(lane)) => Some(self.unit.emit.const_i64(i64::from(*lane))),
            Some(Step::Dynamic) => {
                let number = index[index.len() - 1];
                let from = self.scalar(number)?;
                let v = self.get(number)?;
                Some(self.convert_value(v, from, Scalar::I64))
            }
        };
        if let Some(lane) = lane {
            let e = &self.unit.emit;
            let elem = e.memory_ty(slot.scalar);
            slot.at = e.element(elem, slot.at, lane);
            slot = Slot {
                ty: elem,
                align: slot.scalar.bytes(),
                ..slot
            };
        }
        Ok(slot)
    }

    /// An atomic update of an element of a shared array.
    pub(super) fn atomic_local(
        &mut self,
        op: AtomicOp,
        local: Local,
        args: &[Value],
    ) -> Result<Val> {
        let slot = self.local_address(local, &[], &args[..1])?;
        self.atomic_at(op, None, slot.at, args[1])
    }

    pub(super) fn exchange_local(&mut self, local: Local, args: &[Value]) -> Result<Val> {
        let slot = self.local_address(local, &[], &args[..1])?;
        self.compare_exchange_at(None, slot.at, args[1], args[2])
    }

    pub(super) fn load_local(
        &mut self,
        local: Local,
        path: &[Step],
        index: &[Value],
    ) -> Result<Val> {
        let slot = self.local_address(local, path, index)?;
        let v = self.unit.emit.load(slot.ty, slot.at, slot.align);
        Ok(if slot.packed {
            v
        } else {
            self.loaded(v, slot.scalar)
        })
    }

    pub(super) fn store_local(
        &mut self,
        local: Local,
        path: &[Step],
        args: &[Value],
    ) -> Result<()> {
        let Some((value, index)) = args.split_last() else {
            return Ok(());
        };
        let slot = self.local_address(local, path, index)?;
        let v = self.get(*value)?;
        let v = if slot.packed {
            v
        } else {
            self.storable(v, slot.scalar)
        };
        self.unit.emit.store(v, slot.at, slot.align);
        Ok(())
    }
}

/// The address and the type of a local.
struct Slot {
    at: Val,
    ty: Ty,
    scalar: Scalar,
    /// A mask with one bit per lane.
    packed: bool,
    align: u32,
}
