//! Writes symbols of loaded code to the map file that `perf` reads.

use inkwell::llvm_sys::core::{
    LLVMCreateMemoryBufferWithMemoryRange, LLVMDisposeMemoryBuffer, LLVMDisposeMessage,
};
use inkwell::llvm_sys::object::*;
use std::collections::HashMap;
use std::ffi::CStr;
use std::io::Write;
use std::sync::Mutex;

/// Appends loaded functions to `/tmp/perf-PID.map`. Profiling is best effort: write errors are ignored.
pub(crate) fn note(objects: &[&[u8]], symbols: &[String], addresses: &[u64]) {
    static LOCK: Mutex<()> = Mutex::new(());
    let mut sizes = HashMap::new();
    for object in objects {
        sizes.extend(symbol_sizes(object));
    }
    let mut text = String::new();
    for (symbol, address) in symbols.iter().zip(addresses) {
        let size = sizes.get(symbol).copied().unwrap_or(1);
        text.push_str(&format!("{address:x} {size:x} {symbol}\n"));
    }
    let path = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
    let _guard = LOCK.lock();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(text.as_bytes());
    }
}

/// The size of each symbol of an object, in bytes.
fn symbol_sizes(object: &[u8]) -> HashMap<String, u64> {
    let mut sizes = HashMap::new();
    // SAFETY: the buffer borrows `object` and is disposed of before it, after what was made from it.
    unsafe {
        let buffer = LLVMCreateMemoryBufferWithMemoryRange(
            object.as_ptr().cast(),
            object.len(),
            c"object".as_ptr(),
            0,
        );
        let mut error = std::ptr::null_mut();
        let binary = LLVMCreateBinary(buffer, std::ptr::null_mut(), &mut error);
        if binary.is_null() {
            if !error.is_null() {
                LLVMDisposeMessage(error);
            }
            LLVMDisposeMemoryBuffer(buffer);
            return sizes;
        }
        let symbols = LLVMObjectFileCopySymbolIterator(binary);
        while !symbols.is_null() && LLVMObjectFileIsSymbolIteratorAtEnd(binary, symbols) == 0 {
            let name = LLVMGetSymbolName(symbols);
            if !name.is_null() {
                sizes.insert(
                    CStr::from_ptr(name).to_string_lossy().into_owned(),
                    LLVMGetSymbolSize(symbols),
                );
            }
            LLVMMoveToNextSymbol(symbols);
        }
        if !symbols.is_null() {
            LLVMDisposeSymbolIterator(symbols);
        }
        LLVMDisposeBinary(binary);
        LLVMDisposeMemoryBuffer(buffer);
    }
    sizes
}
