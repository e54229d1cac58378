//! A thin layer over LLVM's C API: values, types and blocks of one module under construction.
//!
//! Architecture invariant: code generation calls LLVM only through this module. The handles below can only be
//! made here, are owned by the context that [`Emit`] borrows, and never outlive it. So every call gets live
//! objects of the right kind. Callers are responsible for matching operand types; verified Wuji IR guarantees
//! it, and debug builds run LLVM's own verifier over the result.

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

/// The position of a function attribute.
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
    /// The synchronization scope of atomic operations; the whole system by default.
    scope: Option<u32>,
    /// Whether atomic operations are acquire-release instead of relaxed.
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

/// In a shuffle: this lane is undefined.
pub(crate) const ANY_LANE: u32 = u32::MAX;

const NO_NAME: *const libc::c_char = c"".as_ptr();

/// Calls one function of the C API.
macro_rules! llvm {
    ($($call:tt)*) => {
        // SAFETY: all handles are live and of the right kind, see the invariant of this module.
        unsafe { $($call)* }
    };
}

mod instructions;

impl<'c> Emit<'c> {
    /// Builds into `module`, which must live in `context`.
    pub(crate) fn new(context: &'c Context, module: &Module<'c>) -> Emit<'c> {
        let raw = context.raw();
        // Value and block names are never printed; discarding them saves time.
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

    /// Restricts the scope of atomic operations to the device.
    pub(crate) fn set_device_scope(&mut self) {
        let name = "device";
        self.scope = Some(llvm!(LLVMGetSyncScopeID(
            self.context,
            name.as_ptr().cast(),
            name.len()
        )));
    }

    /// Makes atomic operations from now on acquire-release: a thread that reads the result of one sees all
    /// earlier writes of its thread. Not needed on processors that do not reorder stores.
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

    /// A pointer into an address space of a GPU.
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

    /// The element type and the number of lanes of a vector type.
    pub(crate) fn lanes(&self, ty: Ty) -> Option<(Ty, u32)> {
        let vector = llvm!(LLVMGetTypeKind(ty.0)) == LLVMTypeKind::LLVMVectorTypeKind;
        vector.then(|| {
            (
                Ty(llvm!(LLVMGetElementType(ty.0))),
                llvm!(LLVMGetVectorSize(ty.0)),
            )
        })
    }

    /// A type with as many lanes as another one, or none.
    pub(crate) fn shaped(&self, elem: Ty, like: Ty) -> Ty {
        match self.lanes(like) {
            Some((_, n)) => self.vector_ty(elem, n),
            None => elem,
        }
    }

    /// A scalar type with as many lanes as a value.
    pub(crate) fn scalar_like(&self, s: Scalar, like: Val) -> Ty {
        self.shaped(self.scalar_ty(s), self.ty_of(like))
    }

    /// An integer constant from its low bits, in every lane.
    pub(crate) fn const_int(&self, ty: Ty, bits: u64) -> Val {
        if let Some((elem, n)) = self.lanes(ty) {
            let one = self.const_int(elem, bits);
            return self.const_vector(&vec![one; n as usize]);
        }
        // LLVM requires the bits above the width to be clear.
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
            // The cast is folded, and keeps the payload of a NaN.
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

    /// Gives a function internal linkage and the fast calling convention.
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

    /// Marks a pointer parameter as `byval` of this type.
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

    /// An uninitialized global variable in an address space of a GPU.
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

    /// A node whose first operand is itself, which makes it distinct.
    pub(crate) fn md_self_node(&self, rest: &[Md]) -> Md {
        use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
        let temporary = llvm!(LLVMTemporaryMDNode(self.context, std::ptr::null_mut(), 0));
        let mut parts = vec![Md(temporary)];
        parts.extend(rest);
        let node = self.md_node(&parts);
        // This also disposes of the temporary node.
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

/// Names come from users; LLVM accepts any bytes but NUL.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "_")).unwrap_or_default()
}
