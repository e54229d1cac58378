//! What LLVM reports while it compiles: errors, and the frames of functions.

use crate::exit::Use;
use crate::stack::Frame;
use inkwell::context::Context;
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription,
    LLVMGetDiagInfoSeverity,
};
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, PoisonError};
use wuji_ir::{Error, Result};

#[derive(Default)]
struct Diagnostics {
    errors: Vec<String>,
    frames: Vec<Frame>,
}

/// Runs `work` in a context of its own that turns LLVM's diagnostics into errors.
pub(crate) fn in_context<T>(work: impl FnOnce(&Context) -> Result<T>) -> Result<T> {
    Ok(with_frames(work)?.0)
}

/// As [`in_context`], with the frames of the functions that `work` makes machine code of.
pub(crate) fn with_frames<T>(work: impl FnOnce(&Context) -> Result<T>) -> Result<(T, Vec<Frame>)> {
    let _use = Use::begin()?;
    // Must outlive the context that points to it.
    let reported: Mutex<Diagnostics> = Mutex::default();
    let context = Context::create();
    // SAFETY: the context is live; `reported` outlives it.
    unsafe {
        LLVMContextSetDiagnosticHandler(
            context.raw(),
            Some(collect),
            (&raw const reported).cast_mut().cast(),
        );
    }
    let done = work(&context);
    let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
    match (done, reported.errors.first()) {
        (Ok(done), None) => Ok((done, std::mem::take(&mut reported.frames))),
        (Err(error), None) => Err(error),
        (Err(error), Some(problem)) => Err(error.note(problem.clone())),
        (Ok(_), Some(problem)) => {
            Err(Error::new("W0503", "LLVM could not compile the kernel").note(problem.clone()))
        }
    }
}

/// Collects diagnostics, which LLVM would otherwise print before it aborts.
extern "C" fn collect(info: LLVMDiagnosticInfoRef, reported: *mut c_void) {
    // SAFETY: LLVM hands us live information; the text is disposed of after the copy; `with_frames`
    // keeps the collection alive.
    unsafe {
        let is_error = LLVMGetDiagInfoSeverity(info) == LLVMDiagnosticSeverity::LLVMDSError;
        let text = LLVMGetDiagInfoDescription(info);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        let reported = &*reported.cast::<Mutex<Diagnostics>>();
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = Frame::reported(&copy) {
            reported.frames.push(frame);
        } else if is_error {
            reported.errors.push(copy.trim_end().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Host;
    use inkwell::OptimizationLevel;
    use inkwell::memory_buffer::MemoryBuffer;
    use inkwell::targets::FileType;

    #[test]
    fn frames_of_functions_are_reported() {
        let ir = "
declare void @use(ptr)
define void @large() \"warn-stack-size\"=\"0\" {
  %array = alloca [1000 x i64]
  call void @use(ptr %array)
  ret void
}
define void @again() \"warn-stack-size\"=\"1\" {
  call void @again()
  %array = alloca [10 x i64]
  call void @use(ptr %array)
  ret void
}
";
        let machine = Host::detect()
            .and_then(|host| host.machine(OptimizationLevel::Default))
            .unwrap();
        let (_, mut frames) = with_frames(|context| {
            let buffer = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "ir");
            let module = context
                .create_module_from_ir(buffer)
                .map_err(crate::jit::refused)?;
            let text = machine.write_to_memory_buffer(&module, FileType::Assembly);
            text.map(|_| ()).map_err(crate::jit::refused)
        })
        .unwrap();
        frames.sort_by_key(|frame| frame.bytes);
        let [again, large] = &frames[..] else {
            panic!("{frames:?}");
        };
        assert_eq!((again.function.as_str(), again.recursive), ("again", true));
        assert_eq!((large.function.as_str(), large.recursive), ("large", false));
        assert!((80..200).contains(&again.bytes), "{again:?}");
        assert!((8000..8200).contains(&large.bytes), "{large:?}");
    }
}
