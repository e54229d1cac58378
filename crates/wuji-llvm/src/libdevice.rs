//! Links functions of NVIDIA's `libdevice` into a module that calls them.
//!
//! Only called functions are linked. They query the target and the required precision by name
//! (`__nvvm_reflect`); the queries are replaced by constants.

use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::bit_reader::LLVMGetBitcodeModuleInContext2;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::*;
use inkwell::module::Module;
use std::ffi::CStr;
use wuji_compile::{Libdevice, Math};
use wuji_ir::Result;

/// The prefix of its functions.
const PREFIX: &[u8] = b"__nv_";

/// The query function.
const QUERY: &CStr = c"__nvvm_reflect";

/// Links the `libdevice` functions that a finished module calls, if there are any.
pub(crate) fn link(module: &Module<'_>, library: &Libdevice, math: Math, sm: u32) -> Result<()> {
    let raw = module.as_mut_ptr();
    if wanted(raw).is_empty() {
        return Ok(());
    }
    let parsed = parse(raw, library)?;
    // SAFETY: both modules are live and of one context; the second is taken over.
    let refused = unsafe {
        LLVMSetTarget(parsed, LLVMGetTarget(raw));
        LLVMSetDataLayout(parsed, LLVMGetDataLayoutStr(raw));
        // With `linkonce_odr` linkage, only called functions are linked.
        for function in functions(parsed) {
            if LLVMIsDeclaration(function) == 0 {
                LLVMSetLinkage(function, LLVMLinkage::LLVMLinkOnceODRLinkage);
            }
        }
        LLVMLinkModules2(raw, parsed)
    };
    if refused != 0 {
        return Err(library.unusable("LLVM cannot link it"));
    }
    if let Some(missing) = wanted(raw).first() {
        return Err(library.unusable(format!("it has no function `{missing}`")));
    }
    fold_queries(raw, math, sm);
    for function in functions(raw) {
        // SAFETY: functions of a live module.
        unsafe {
            if name(function).starts_with(PREFIX) {
                LLVMSetLinkage(function, LLVMLinkage::LLVMInternalLinkage);
            }
        }
    }
    Ok(())
}

/// Names of `libdevice` functions that the module declares but does not define.
fn wanted(module: LLVMModuleRef) -> Vec<String> {
    let all = functions(module);
    // SAFETY: functions of a live module.
    let missing = all.filter(|f| unsafe { LLVMIsDeclaration(*f) } != 0);
    missing
        .map(name)
        .filter(|n| n.starts_with(PREFIX))
        .map(|n| String::from_utf8_lossy(n).into_owned())
        .collect()
}

/// Parses the library into a module of the same context, with functions loaded lazily.
fn parse(module: LLVMModuleRef, library: &Libdevice) -> Result<LLVMModuleRef> {
    let bytes = library.bitcode();
    let mut parsed = std::ptr::null_mut();
    // SAFETY: the bytes outlive the module, which does not outlive linking; the buffer is taken over.
    let refused = unsafe {
        let buffer = LLVMCreateMemoryBufferWithMemoryRange(
            bytes.as_ptr().cast(),
            bytes.len(),
            c"libdevice".as_ptr(),
            0,
        );
        let context = LLVMGetModuleContext(module);
        LLVMGetBitcodeModuleInContext2(context, buffer, &mut parsed)
    };
    match refused {
        0 => Ok(parsed),
        _ => Err(library.unusable("LLVM cannot read it")),
    }
}

/// Replaces queries by constants.
fn fold_queries(module: LLVMModuleRef, math: Math, sm: u32) {
    // SAFETY: values of a live module; the next use is read before its call is erased.
    unsafe {
        let query = LLVMGetNamedFunction(module, QUERY.as_ptr());
        if query.is_null() {
            return;
        }
        let mut uses = LLVMGetFirstUse(query);
        while !uses.is_null() {
            let call = LLVMGetUser(uses);
            uses = LLVMGetNextUse(uses);
            let value = match query_name(LLVMGetOperand(call, 0)) {
                b"__CUDA_ARCH" => u64::from(sm) * 10,
                b"__CUDA_FTZ" => u64::from(math == Math::Fast),
                b"__CUDA_PREC_SQRT" | b"__CUDA_PREC_DIV" => 1,
                _ => 0,
            };
            LLVMReplaceAllUsesWith(call, LLVMConstInt(LLVMTypeOf(call), value, 0));
            LLVMInstructionEraseFromParent(call);
        }
        LLVMDeleteFunction(query);
    }
}

/// The name that a query passes.
///
/// # Safety
///
/// A value of a live module, which owns the text.
unsafe fn query_name<'m>(text: LLVMValueRef) -> &'m [u8] {
    // SAFETY: the kind of each value is checked before it is used as such.
    unsafe {
        let global = LLVMIsAGlobalVariable(text);
        if global.is_null() {
            return b"";
        }
        let text = LLVMGetInitializer(global);
        if text.is_null() || LLVMIsConstantString(text) == 0 {
            return b"";
        }
        let mut length = 0;
        let bytes = LLVMGetAsString(text, &mut length);
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
        bytes.strip_suffix(b"\0").unwrap_or(bytes)
    }
}

fn functions(module: LLVMModuleRef) -> impl Iterator<Item = LLVMValueRef> {
    let there = |f: LLVMValueRef| (!f.is_null()).then_some(f);
    // SAFETY: a live module, whose list of functions does not change.
    let (first, next) = unsafe {
        let next = |f: &LLVMValueRef| LLVMGetNextFunction(*f);
        (LLVMGetFirstFunction(module), next)
    };
    std::iter::successors(there(first), move |f| there(next(f)))
}

fn name<'m>(function: LLVMValueRef) -> &'m [u8] {
    let mut length = 0;
    // SAFETY: a function of a live module, which owns the name.
    unsafe {
        let bytes = LLVMGetValueName2(function, &mut length);
        std::slice::from_raw_parts(bytes.cast::<u8>(), length)
    }
}
