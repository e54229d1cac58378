//! A thin layer over LLVM's C API: values, types and blocks of one module under construction.
//!
//! Architecture invariant: code generation calls LLVM only through this file. The handles below can
//! only be made here, belong to the context that [`Emit`] borrows, and never outlive it, so every
//! call gets live objects of the kind it asks for. What is left to the callers is that operand types
//! fit; verified Wuji IR guarantees it, and debug builds run LLVM's own verifier over the result.

use inkwell::context::Context;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMCallConv, LLVMInlineAsmDialect, LLVMIntPredicate,
    LLVMLinkage, LLVMOpcode, LLVMRealPredicate, LLVMTypeKind, LLVMUnnamedAddr,
};
use inkwell::module::Module;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use wuji_ir::types::Scalar;

/// An LLVM value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Val(LLVMValueRef);

/// An LLVM type.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ty(LLVMTypeRef);

/// A basic block.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block(LLVMBasicBlockRef);

/// A metadata node or string.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Md(LLVMMetadataRef);

/// A function with its type.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fun {
    pub(crate) value: Val,
    pub(crate) ty: Ty,
}

/// Where an attribute of a function sits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Function,
    Param(u32),
}

/// Kinds of metadata that code generation attaches.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct MdKinds {
    pub(crate) alias_scope: u32,
    pub(crate) noalias: u32,
    pub(crate) access_group: u32,
    pub(crate) invariant_load: u32,
    pub(crate) range: u32,
    pub(crate) nontemporal: u32,
    pub(crate) nonnull: u32,
    pub(crate) noundef: u32,
    pub(crate) align: u32,
    pub(crate) loop_: u32,
    pub(crate) prof: u32,
}

/// Builds instructions into one module.
#[derive(Debug)]
pub(crate) struct Emit<'c> {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    /// Who sees atomic operations; everybody, unless something else is said.
    scope: Option<u32>,
    /// Atomic operations order everything before and behind them.
    ordered: Cell<bool>,
    pub(crate) kinds: MdKinds,
    _context: PhantomData<&'c Context>,
}

impl Drop for Emit<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, disposed of once.
        unsafe { LLVMDisposeBuilder(self.builder) }
    }
}

/// In a shuffle: nobody looks at this lane.
pub(crate) const ANY_LANE: u32 = u32::MAX;

const NO_NAME: *const libc::c_char = c"".as_ptr();

/// Calls one function of the C API.
macro_rules! llvm {
    ($($call:tt)*) => {
        // SAFETY: all handles are live and of the right kind, see the invariant of this file.
        unsafe { $($call)* }
    };
}

impl<'c> Emit<'c> {
    /// Builds into `module`, which must live in `context`.
    pub(crate) fn new(context: &'c Context, module: &Module<'c>) -> Emit<'c> {
        let raw = context.raw();
        // Nobody reads the names of values and blocks; not keeping them saves time.
        // SAFETY: the context is live.
        unsafe { LLVMContextSetDiscardValueNames(raw, 1) };
        let kind = |name: &str| {
            // SAFETY: the context is live, the name has the given length.
            unsafe { LLVMGetMDKindIDInContext(raw, name.as_ptr().cast(), name.len() as u32) }
        };
        Emit {
            context: raw,
            module: module.as_mut_ptr(),
            // SAFETY: the context is live.
            builder: unsafe { LLVMCreateBuilderInContext(raw) },
            scope: None,
            ordered: Cell::new(false),
            kinds: MdKinds {
                alias_scope: kind("alias.scope"),
                noalias: kind("noalias"),
                access_group: kind("llvm.access.group"),
                invariant_load: kind("invariant.load"),
                range: kind("range"),
                nontemporal: kind("nontemporal"),
                nonnull: kind("nonnull"),
                noundef: kind("noundef"),
                align: kind("align"),
                loop_: kind("llvm.loop"),
                prof: kind("prof"),
            },
            _context: PhantomData,
        }
    }

    /// Atomic operations are for the threads of one device.
    pub(crate) fn set_device_scope(&mut self) {
        let name = "device";
        self.scope = Some(llvm!(LLVMGetSyncScopeID(
            self.context,
            name.as_ptr().cast(),
            name.len()
        )));
    }

    /// Whether atomic operations from now on order what is before and behind them: who sees what one of them has left sees all
    /// that its thread has done before. Processors that keep stores in order need not be told.
    pub(crate) fn set_ordered(&self, ordered: bool) {
        self.ordered.set(ordered);
    }

    fn ordering(&self) -> LLVMAtomicOrdering {
        if self.ordered.get() {
            LLVMAtomicOrdering::LLVMAtomicOrderingAcquireRelease
        } else {
            LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic
        }
    }

    fn scoped(&self, v: Val) -> Val {
        if let Some(scope) = self.scope {
            llvm!(LLVMSetAtomicSyncScopeID(v.0, scope));
        }
        v
    }

    // Types

    /// A pointer into one of the memories of a GPU.
    pub(crate) fn space_ptr_ty(&self, space: u32) -> Ty {
        Ty(llvm!(LLVMPointerTypeInContext(self.context, space)))
    }

    pub(crate) fn int_ty(&self, bits: u32) -> Ty {
        Ty(llvm!(LLVMIntTypeInContext(self.context, bits)))
    }

    pub(crate) fn i64_ty(&self) -> Ty {
        self.int_ty(64)
    }

    pub(crate) fn ptr_ty(&self) -> Ty {
        Ty(llvm!(LLVMPointerTypeInContext(self.context, 0)))
    }

    pub(crate) fn void_ty(&self) -> Ty {
        Ty(llvm!(LLVMVoidTypeInContext(self.context)))
    }

    /// The type a scalar has as a value: `i1` for `bool`.
    pub(crate) fn scalar_ty(&self, s: Scalar) -> Ty {
        match s {
            Scalar::F16 => Ty(llvm!(LLVMHalfTypeInContext(self.context))),
            Scalar::F32 => Ty(llvm!(LLVMFloatTypeInContext(self.context))),
            Scalar::F64 => Ty(llvm!(LLVMDoubleTypeInContext(self.context))),
            _ => self.int_ty(s.bits()),
        }
    }

    /// The type a scalar has in memory: `i8` for `bool`.
    pub(crate) fn memory_ty(&self, s: Scalar) -> Ty {
        match s {
            Scalar::Bool => self.int_ty(8),
            _ => self.scalar_ty(s),
        }
    }

    pub(crate) fn struct_ty(&self, fields: &[Ty]) -> Ty {
        let mut raw: Vec<LLVMTypeRef> = fields.iter().map(|t| t.0).collect();
        Ty(llvm!(LLVMStructTypeInContext(
            self.context,
            raw.as_mut_ptr(),
            raw.len() as u32,
            0
        )))
    }

    pub(crate) fn array_ty(&self, elem: Ty, len: u64) -> Ty {
        Ty(llvm!(LLVMArrayType2(elem.0, len)))
    }

    pub(crate) fn vector_ty(&self, elem: Ty, lanes: u32) -> Ty {
        Ty(llvm!(LLVMVectorType(elem.0, lanes)))
    }

    pub(crate) fn fn_ty(&self, result: Ty, params: &[Ty]) -> Ty {
        let mut raw: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        Ty(llvm!(LLVMFunctionType(
            result.0,
            raw.as_mut_ptr(),
            raw.len() as u32,
            0
        )))
    }

    pub(crate) fn ty_of(&self, v: Val) -> Ty {
        Ty(llvm!(LLVMTypeOf(v.0)))
    }

    fn is_void(&self, ty: Ty) -> bool {
        llvm!(LLVMGetTypeKind(ty.0)) == LLVMTypeKind::LLVMVoidTypeKind
    }

    // Constants

    /// The element type of a vector and how many it has.
    pub(crate) fn lanes(&self, ty: Ty) -> Option<(Ty, u32)> {
        let vector = llvm!(LLVMGetTypeKind(ty.0)) == LLVMTypeKind::LLVMVectorTypeKind;
        vector.then(|| {
            (
                Ty(llvm!(LLVMGetElementType(ty.0))),
                llvm!(LLVMGetVectorSize(ty.0)),
            )
        })
    }

    /// A type with the shape of another one: as many lanes, or none.
    pub(crate) fn shaped(&self, elem: Ty, like: Ty) -> Ty {
        match self.lanes(like) {
            Some((_, n)) => self.vector_ty(elem, n),
            None => elem,
        }
    }

    /// A scalar type with the shape of a value.
    pub(crate) fn scalar_like(&self, s: Scalar, like: Val) -> Ty {
        self.shaped(self.scalar_ty(s), self.ty_of(like))
    }

    /// An integer constant from its low bits, in every lane.
    pub(crate) fn const_int(&self, ty: Ty, bits: u64) -> Val {
        if let Some((elem, n)) = self.lanes(ty) {
            let one = self.const_int(elem, bits);
            return self.const_vector(&vec![one; n as usize]);
        }
        // LLVM wants the bits above the width to be clear.
        let width = llvm!(LLVMGetIntTypeWidth(ty.0));
        let mask = u64::MAX >> (64 - width.clamp(1, 64));
        Val(llvm!(LLVMConstInt(ty.0, bits & mask, 0)))
    }

    pub(crate) fn const_i64(&self, value: i64) -> Val {
        self.const_int(self.i64_ty(), value as u64)
    }

    pub(crate) fn const_bool(&self, value: bool) -> Val {
        self.const_int(self.int_ty(1), u64::from(value))
    }

    /// A constant of any scalar type from its bits.
    pub(crate) fn const_bits(&self, s: Scalar, bits: u64) -> Val {
        let int = self.const_int(self.int_ty(s.bits()), bits);
        if s.is_float() {
            // A cast of a constant is folded, and keeps the payload of a NaN.
            Val(llvm!(LLVMConstBitCast(int.0, self.scalar_ty(s).0)))
        } else {
            int
        }
    }

    /// A float constant, in every lane of a vector type.
    pub(crate) fn const_float(&self, ty: Ty, value: f64) -> Val {
        if let Some((elem, n)) = self.lanes(ty) {
            let one = self.const_float(elem, value);
            return self.const_vector(&vec![one; n as usize]);
        }
        Val(llvm!(LLVMConstReal(ty.0, value)))
    }

    pub(crate) fn const_vector(&self, lanes: &[Val]) -> Val {
        let mut raw: Vec<LLVMValueRef> = lanes.iter().map(|v| v.0).collect();
        Val(llvm!(LLVMConstVector(raw.as_mut_ptr(), raw.len() as u32)))
    }

    pub(crate) fn is_constant(&self, v: Val) -> bool {
        llvm!(LLVMIsConstant(v.0)) != 0
    }

    pub(crate) fn zero(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMConstNull(ty.0)))
    }

    // Functions and blocks

    pub(crate) fn add_function(&self, name: &str, ty: Ty) -> Fun {
        let name = c_string(name);
        Fun {
            value: Val(llvm!(LLVMAddFunction(self.module, name.as_ptr(), ty.0))),
            ty,
        }
    }

    pub(crate) fn named_function(&self, name: &str) -> Option<Val> {
        let name = c_string(name);
        let found = llvm!(LLVMGetNamedFunction(self.module, name.as_ptr()));
        (!found.is_null()).then_some(Val(found))
    }

    /// Hides a function from other objects and lets it take the quick calling convention.
    pub(crate) fn set_internal(&self, f: Fun) {
        llvm!(LLVMSetLinkage(f.value.0, LLVMLinkage::LLVMInternalLinkage));
        llvm!(LLVMSetUnnamedAddress(
            f.value.0,
            LLVMUnnamedAddr::LLVMGlobalUnnamedAddr
        ));
    }

    pub(crate) fn set_call_conv(&self, f: Fun, conv: LLVMCallConv) {
        llvm!(LLVMSetFunctionCallConv(f.value.0, conv as u32));
    }

    pub(crate) fn param(&self, f: Fun, index: u32) -> Val {
        Val(llvm!(LLVMGetParam(f.value.0, index)))
    }

    pub(crate) fn add_attr(&self, f: Fun, on: On, name: &str, value: u64) {
        let attr = self.enum_attr(name, value);
        llvm!(LLVMAddAttributeAtIndex(f.value.0, attr_index(on), attr));
    }

    /// Says that a pointer parameter is memory of this type, handed over by value.
    pub(crate) fn add_by_value(&self, f: Fun, param: u32, ty: Ty) {
        let name = "byval";
        let kind = llvm!(LLVMGetEnumAttributeKindForName(
            name.as_ptr().cast(),
            name.len()
        ));
        let attr = llvm!(LLVMCreateTypeAttribute(self.context, kind, ty.0));
        llvm!(LLVMAddAttributeAtIndex(
            f.value.0,
            attr_index(On::Param(param)),
            attr
        ));
    }

    pub(crate) fn add_param_string_attr(&self, f: Fun, param: u32, name: &str, value: &str) {
        let attr = self.string_attr(name, value);
        llvm!(LLVMAddAttributeAtIndex(
            f.value.0,
            attr_index(On::Param(param)),
            attr
        ));
    }

    /// Memory of a module, in one of the memories of a GPU, whose content nobody has set.
    pub(crate) fn add_global(&self, ty: Ty, space: u32, align: u32) -> Val {
        let global = llvm!(LLVMAddGlobalInAddressSpace(
            self.module,
            ty.0,
            c"shared".as_ptr(),
            space
        ));
        llvm!(LLVMSetLinkage(global, LLVMLinkage::LLVMInternalLinkage));
        llvm!(LLVMSetInitializer(global, LLVMGetUndef(ty.0)));
        llvm!(LLVMSetAlignment(global, align));
        Val(global)
    }

    pub(crate) fn set_kernel(&self, f: Fun) {
        // `ptx_kernel`
        llvm!(LLVMSetFunctionCallConv(f.value.0, 71));
    }

    pub(crate) fn add_string_attr(&self, f: Fun, name: &str, value: &str) {
        let attr = self.string_attr(name, value);
        llvm!(LLVMAddAttributeAtIndex(
            f.value.0,
            attr_index(On::Function),
            attr
        ));
    }

    pub(crate) fn add_call_string_attr(&self, call: Val, name: &str, value: &str) {
        let attr = self.string_attr(name, value);
        llvm!(LLVMAddCallSiteAttribute(
            call.0,
            attr_index(On::Function),
            attr
        ));
    }

    fn enum_attr(&self, name: &str, value: u64) -> LLVMAttributeRef {
        let kind = llvm!(LLVMGetEnumAttributeKindForName(
            name.as_ptr().cast(),
            name.len()
        ));
        debug_assert_ne!(kind, 0, "LLVM knows no attribute {name}");
        llvm!(LLVMCreateEnumAttribute(self.context, kind, value))
    }

    fn string_attr(&self, name: &str, value: &str) -> LLVMAttributeRef {
        llvm!(LLVMCreateStringAttribute(
            self.context,
            name.as_ptr().cast(),
            name.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32
        ))
    }

    /// Keeps functions that only attributes mention from being dropped.
    pub(crate) fn set_compiler_used(&self, values: &[Val]) {
        if values.is_empty() {
            return;
        }
        let mut raw: Vec<LLVMValueRef> = values.iter().map(|v| v.0).collect();
        let array = llvm!(LLVMConstArray2(
            self.ptr_ty().0,
            raw.as_mut_ptr(),
            raw.len() as u64
        ));
        let global = llvm!(LLVMAddGlobal(
            self.module,
            LLVMTypeOf(array),
            c"llvm.compiler.used".as_ptr()
        ));
        llvm!(LLVMSetInitializer(global, array));
        llvm!(LLVMSetLinkage(global, LLVMLinkage::LLVMAppendingLinkage));
        llvm!(LLVMSetSection(global, c"llvm.metadata".as_ptr()));
    }

    pub(crate) fn append_block(&self, f: Fun, name: &CStr) -> Block {
        Block(llvm!(LLVMAppendBasicBlockInContext(
            self.context,
            f.value.0,
            name.as_ptr()
        )))
    }

    pub(crate) fn position(&self, block: Block) {
        llvm!(LLVMPositionBuilderAtEnd(self.builder, block.0));
    }

    pub(crate) fn current(&self) -> Block {
        Block(llvm!(LLVMGetInsertBlock(self.builder)))
    }

    // Instructions

    pub(crate) fn binary(&self, op: LLVMOpcode, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildBinOp(self.builder, op, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn add(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMAdd, a, b)
    }

    pub(crate) fn sub(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMSub, a, b)
    }

    pub(crate) fn and(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMAnd, a, b)
    }

    pub(crate) fn or(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMOr, a, b)
    }

    pub(crate) fn xor(&self, a: Val, b: Val) -> Val {
        self.binary(LLVMOpcode::LLVMXor, a, b)
    }

    /// Addition that the caller knows not to wrap, signed or unsigned.
    pub(crate) fn add_no_wrap(&self, a: Val, b: Val, signed: bool) -> Val {
        if signed {
            Val(llvm!(LLVMBuildNSWAdd(self.builder, a.0, b.0, NO_NAME)))
        } else {
            Val(llvm!(LLVMBuildNUWAdd(self.builder, a.0, b.0, NO_NAME)))
        }
    }

    pub(crate) fn fneg(&self, a: Val) -> Val {
        Val(llvm!(LLVMBuildFNeg(self.builder, a.0, NO_NAME)))
    }

    pub(crate) fn freeze(&self, a: Val) -> Val {
        Val(llvm!(LLVMBuildFreeze(self.builder, a.0, NO_NAME)))
    }

    pub(crate) fn icmp(&self, p: LLVMIntPredicate, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildICmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn fcmp(&self, p: LLVMRealPredicate, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildFCmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn select(&self, c: Val, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildSelect(self.builder, c.0, a.0, b.0, NO_NAME)))
    }

    pub(crate) fn cast(&self, op: LLVMOpcode, v: Val, to: Ty) -> Val {
        Val(llvm!(LLVMBuildCast(self.builder, op, v.0, to.0, NO_NAME)))
    }

    pub(crate) fn bitcast(&self, v: Val, to: Ty) -> Val {
        self.cast(LLVMOpcode::LLVMBitCast, v, to)
    }

    /// Sets fast-math flags, unless the value was folded into a constant.
    pub(crate) fn set_fast_math(&self, v: Val, flags: u32) {
        if flags != 0
            && !llvm!(LLVMIsAInstruction(v.0)).is_null()
            && llvm!(LLVMCanValueUseFastMathFlags(v.0)) != 0
        {
            llvm!(LLVMSetFastMathFlags(v.0, flags));
        }
    }

    /// A phi at the current place; incoming values follow by [`Emit::add_incoming`].
    pub(crate) fn phi(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMBuildPhi(self.builder, ty.0, NO_NAME)))
    }

    pub(crate) fn add_incoming(&self, phi: Val, value: Val, from: Block) {
        let (mut v, mut b) = (value.0, from.0);
        llvm!(LLVMAddIncoming(phi.0, &mut v, &mut b, 1));
    }

    /// `base + offset` bytes, inside the object that `base` points into.
    pub(crate) fn offset(&self, base: Val, offset: Val) -> Val {
        let mut index = offset.0;
        Val(llvm!(LLVMBuildInBoundsGEP2(
            self.builder,
            self.int_ty(8).0,
            base.0,
            &mut index,
            1,
            NO_NAME
        )))
    }

    /// Address of an element of a local array.
    pub(crate) fn element(&self, elem: Ty, base: Val, index: Val) -> Val {
        let mut index = index.0;
        Val(llvm!(LLVMBuildInBoundsGEP2(
            self.builder,
            elem.0,
            base.0,
            &mut index,
            1,
            NO_NAME
        )))
    }

    pub(crate) fn alloca(&self, ty: Ty, align: u32) -> Val {
        let v = Val(llvm!(LLVMBuildAlloca(self.builder, ty.0, NO_NAME)));
        llvm!(LLVMSetAlignment(v.0, align));
        v
    }

    pub(crate) fn load(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = Val(llvm!(LLVMBuildLoad2(self.builder, ty.0, ptr.0, NO_NAME)));
        llvm!(LLVMSetAlignment(v.0, align));
        v
    }

    pub(crate) fn store(&self, v: Val, ptr: Val, align: u32) -> Val {
        let s = Val(llvm!(LLVMBuildStore(self.builder, v.0, ptr.0)));
        llvm!(LLVMSetAlignment(s.0, align));
        s
    }

    /// A load that is really done each time and never torn, but orders nothing.
    pub(crate) fn load_fresh(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        llvm!(LLVMSetVolatile(v.0, 1));
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingUnordered
        ));
        v
    }

    /// A load that other threads may race with: it gives one value that was there, once.
    pub(crate) fn load_unordered(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        if self.ordered.get() {
            let acquire = LLVMAtomicOrdering::LLVMAtomicOrderingAcquire;
            llvm!(LLVMSetOrdering(v.0, acquire));
            return self.scoped(v);
        }
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingUnordered
        ));
        v
    }

    pub(crate) fn load_relaxed(&self, ty: Ty, ptr: Val, align: u32) -> Val {
        let v = self.load(ty, ptr, align);
        llvm!(LLVMSetOrdering(
            v.0,
            LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic
        ));
        self.scoped(v)
    }

    pub(crate) fn memset_zero(&self, ptr: Val, bytes: u64, align: u32) -> Val {
        let zero = self.zero(self.int_ty(8));
        let len = self.const_i64(bytes as i64);
        Val(llvm!(LLVMBuildMemSet(
            self.builder,
            ptr.0,
            zero.0,
            len.0,
            align
        )))
    }

    pub(crate) fn atomic_rmw(&self, op: LLVMAtomicRMWBinOp, ptr: Val, v: Val) -> Val {
        self.scoped(Val(llvm!(LLVMBuildAtomicRMW(
            self.builder,
            op,
            ptr.0,
            v.0,
            self.ordering(),
            0
        ))))
    }

    /// The pair of old value and success, before it is taken apart.
    pub(crate) fn cmpxchg(&self, ptr: Val, expected: Val, new: Val) -> Val {
        self.scoped(Val(llvm!(LLVMBuildAtomicCmpXchg(
            self.builder,
            ptr.0,
            expected.0,
            new.0,
            self.ordering(),
            if self.ordered.get() {
                LLVMAtomicOrdering::LLVMAtomicOrderingAcquire
            } else {
                LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic
            },
            0
        ))))
    }

    pub(crate) fn extract(&self, aggregate: Val, index: u32) -> Val {
        Val(llvm!(LLVMBuildExtractValue(
            self.builder,
            aggregate.0,
            index,
            NO_NAME
        )))
    }

    pub(crate) fn insert(&self, aggregate: Val, v: Val, index: u32) -> Val {
        Val(llvm!(LLVMBuildInsertValue(
            self.builder,
            aggregate.0,
            v.0,
            index,
            NO_NAME
        )))
    }

    /// A vector with one value in every lane.
    pub(crate) fn splat(&self, v: Val, lanes: u32) -> Val {
        if self.is_constant(v) {
            return self.const_vector(&vec![v; lanes as usize]);
        }
        let ty = self.vector_ty(self.ty_of(v), lanes);
        let poison = Val(llvm!(LLVMGetPoison(ty.0)));
        let first = self.set_lane(poison, self.const_i64(0), v);
        let mask = self.zero(self.vector_ty(self.int_ty(32), lanes));
        Val(llvm!(LLVMBuildShuffleVector(
            self.builder,
            first.0,
            poison.0,
            mask.0,
            NO_NAME
        )))
    }

    pub(crate) fn compose(&self, lanes: &[Val]) -> Val {
        if lanes.iter().all(|v| self.is_constant(*v)) {
            return self.const_vector(lanes);
        }
        let ty = self.vector_ty(self.ty_of(lanes[0]), lanes.len() as u32);
        let mut all = Val(llvm!(LLVMGetPoison(ty.0)));
        for (k, v) in lanes.iter().enumerate() {
            all = self.set_lane(all, self.const_i64(k as i64), *v);
        }
        all
    }

    /// Lanes of two vectors of one type, numbered through, or [`ANY_LANE`].
    pub(crate) fn shuffle(&self, a: Val, b: Val, lanes: &[u32]) -> Val {
        let ty = self.int_ty(32);
        let numbers: Vec<Val> = lanes
            .iter()
            .map(|k| match *k {
                ANY_LANE => Val(llvm!(LLVMGetPoison(ty.0))),
                k => self.const_int(ty, u64::from(k)),
            })
            .collect();
        let mask = self.const_vector(&numbers);
        Val(llvm!(LLVMBuildShuffleVector(
            self.builder,
            a.0,
            b.0,
            mask.0,
            NO_NAME
        )))
    }

    pub(crate) fn lane(&self, vector: Val, index: Val) -> Val {
        Val(llvm!(LLVMBuildExtractElement(
            self.builder,
            vector.0,
            index.0,
            NO_NAME
        )))
    }

    pub(crate) fn set_lane(&self, vector: Val, index: Val, v: Val) -> Val {
        Val(llvm!(LLVMBuildInsertElement(
            self.builder,
            vector.0,
            v.0,
            index.0,
            NO_NAME
        )))
    }

    /// Sets the alignment that an intrinsic may rely on.
    pub(crate) fn add_call_align(&self, call: Val, param: u32, align: u32) {
        let attr = self.enum_attr("align", u64::from(align));
        llvm!(LLVMAddCallSiteAttribute(
            call.0,
            attr_index(On::Param(param)),
            attr
        ));
    }

    /// A direct call, by the callee's own calling convention.
    pub(crate) fn call(&self, f: Fun, args: &[Val]) -> Val {
        let call = self.call_indirect(f.ty, f.value, args);
        llvm!(LLVMSetInstructionCallConv(
            call.0,
            LLVMGetFunctionCallConv(f.value.0)
        ));
        call
    }

    pub(crate) fn call_indirect(&self, ty: Ty, target: Val, args: &[Val]) -> Val {
        let mut raw: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        Val(llvm!(LLVMBuildCall2(
            self.builder,
            ty.0,
            target.0,
            raw.as_mut_ptr(),
            raw.len() as u32,
            NO_NAME
        )))
    }

    /// A call of `llvm.<name>` overloaded on `types`.
    pub(crate) fn intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
        debug_assert_ne!(id, 0, "LLVM knows no intrinsic {name}");
        let mut raw: Vec<LLVMTypeRef> = types.iter().map(|t| t.0).collect();
        let value = Val(llvm!(LLVMGetIntrinsicDeclaration(
            self.module,
            id,
            raw.as_mut_ptr(),
            raw.len()
        )));
        let ty = Ty(llvm!(LLVMGlobalGetValueType(value.0)));
        self.call_indirect(ty, value, args)
    }

    /// An instruction of the machine that LLVM has no other word for. It gives nothing, and touches memory.
    pub(crate) fn assembly(&self, text: &str, constraints: &str, args: &[Val]) {
        let types: Vec<Ty> = args.iter().map(|a| self.ty_of(*a)).collect();
        let ty = self.fn_ty(self.void_ty(), &types);
        let value = Val(llvm!(LLVMGetInlineAsm(
            ty.0,
            text.as_ptr().cast(),
            text.len(),
            constraints.as_ptr().cast(),
            constraints.len(),
            1,
            0,
            LLVMInlineAsmDialect::LLVMInlineAsmDialectATT,
            0
        )));
        self.call_indirect(ty, value, args);
    }

    pub(crate) fn br(&self, to: Block) -> Val {
        Val(llvm!(LLVMBuildBr(self.builder, to.0)))
    }

    pub(crate) fn cond_br(&self, c: Val, then: Block, otherwise: Block) -> Val {
        Val(llvm!(LLVMBuildCondBr(
            self.builder,
            c.0,
            then.0,
            otherwise.0
        )))
    }

    /// Returns a value, or nothing when the result type is `void`.
    pub(crate) fn ret(&self, result: Ty, v: Option<Val>) {
        match v {
            Some(v) if !self.is_void(result) => llvm!(LLVMBuildRet(self.builder, v.0)),
            _ => llvm!(LLVMBuildRetVoid(self.builder)),
        };
    }

    // Metadata

    pub(crate) fn md_node(&self, parts: &[Md]) -> Md {
        let mut raw: Vec<LLVMMetadataRef> = parts.iter().map(|m| m.0).collect();
        Md(llvm!(LLVMMDNodeInContext2(
            self.context,
            raw.as_mut_ptr(),
            raw.len()
        )))
    }

    pub(crate) fn md_string(&self, text: &str) -> Md {
        Md(llvm!(LLVMMDStringInContext2(
            self.context,
            text.as_ptr().cast(),
            text.len()
        )))
    }

    pub(crate) fn md_value(&self, v: Val) -> Md {
        Md(llvm!(LLVMValueAsMetadata(v.0)))
    }

    /// A node whose first part is the node itself, which makes it unlike all others.
    pub(crate) fn md_self_node(&self, rest: &[Md]) -> Md {
        use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
        let temporary = llvm!(LLVMTemporaryMDNode(self.context, std::ptr::null_mut(), 0));
        let mut parts = vec![Md(temporary)];
        parts.extend(rest);
        let node = self.md_node(&parts);
        // Replacing its uses also disposes of the temporary node.
        llvm!(LLVMMetadataReplaceAllUsesWith(temporary, node.0));
        node
    }

    /// The nodes of a named metadata list of the module.
    pub(crate) fn named_md(&self, name: &CStr) -> Vec<Md> {
        let count = llvm!(LLVMGetNamedMetadataNumOperands(self.module, name.as_ptr()));
        let mut values = vec![std::ptr::null_mut(); count as usize];
        llvm!(LLVMGetNamedMetadataOperands(
            self.module,
            name.as_ptr(),
            values.as_mut_ptr()
        ));
        values
            .into_iter()
            .map(|v| Md(llvm!(LLVMValueAsMetadata(v))))
            .collect()
    }

    pub(crate) fn set_md(&self, inst: Val, kind: u32, node: Md) {
        let value = llvm!(LLVMMetadataAsValue(self.context, node.0));
        llvm!(LLVMSetMetadata(inst.0, kind, value));
    }
}

fn attr_index(on: On) -> u32 {
    match on {
        On::Function => u32::MAX,
        On::Param(k) => k + 1,
    }
}

/// Names come from users; LLVM takes any bytes but NUL.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "_")).unwrap_or_default()
}
