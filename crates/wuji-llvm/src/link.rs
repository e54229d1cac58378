//! Loads object code into the process and unloads it, through LLVM's ORC.

use crate::exit::Use;
use crate::imports;
use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{
    LLVMConsumeError, LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage,
};
use inkwell::llvm_sys::orc2::LLVMOrcJITDylibLookupFlags::*;
use inkwell::llvm_sys::orc2::LLVMOrcLookupKind::*;
use inkwell::llvm_sys::orc2::LLVMOrcSymbolLookupFlags::*;
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, PoisonError, mpsc};
use wuji_ir::{Error, Result};

/// An ORC session that object code can be loaded into.
#[derive(Debug)]
pub(crate) struct Linker {
    jit: LLVMOrcLLJITRef,
    /// Unused name spaces, which hold only the imports. ORC cannot delete one, so those of unloaded kernels
    /// are reused.
    free: Mutex<Vec<NameSpace>>,
    /// Error messages that the session reports separately; boxed, because the session keeps the address.
    reasons: Box<Mutex<Vec<String>>>,
}

/// A JIT "dynamic library": names are unique in one, so every kernel gets its own.
#[derive(Copy, Clone, Debug)]
struct NameSpace(LLVMOrcJITDylibRef);

// SAFETY: ORC locks its session around every operation on it.
unsafe impl Send for NameSpace {}
// SAFETY: as above.
unsafe impl Send for Linker {}
// SAFETY: as above; `free` has its own lock.
unsafe impl Sync for Linker {}

/// Loaded code; [`Linker::unload`] frees its memory.
#[derive(Debug)]
pub(crate) struct Loaded {
    space: NameSpace,
    tracker: LLVMOrcResourceTrackerRef,
    pub(crate) addresses: Vec<u64>,
}

// SAFETY: only `unload` uses the tracker, and ORC locks its session there.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Linker {
    /// With `debugger`, loaded code is registered with gdb.
    pub(crate) fn new(debugger: bool) -> Result<Linker> {
        let _use = Use::begin()?;
        let mut jit = std::ptr::null_mut();
        // SAFETY: a null builder means the defaults.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, std::ptr::null_mut()) })?;
        let linker = Linker {
            jit,
            free: Mutex::new(Vec::new()),
            reasons: Box::default(),
        };
        // SAFETY: the session is disposed of when the linker is dropped, before the list that it reports to.
        unsafe {
            LLVMOrcExecutionSessionSetErrorReporter(
                linker.session(),
                note,
                (&raw const *linker.reasons).cast_mut().cast(),
            );
        }
        if debugger {
            // SAFETY: the linker is new, nothing is loaded yet.
            check(unsafe { LLVMOrcLLJITEnableDebugSupport(jit) })?;
        }
        Ok(linker)
    }

    fn session(&self) -> LLVMOrcExecutionSessionRef {
        // SAFETY: `jit` is live until drop.
        unsafe { LLVMOrcLLJITGetExecutionSession(self.jit) }
    }

    fn intern(&self, name: &str) -> LLVMOrcSymbolStringPoolEntryRef {
        let name = CString::new(name.replace('\0', "_")).unwrap_or_default();
        // SAFETY: `jit` is live, the name is a C string that is copied.
        unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) }
    }

    fn name_space(&self) -> Result<NameSpace> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = free.pop() {
            return Ok(space);
        }
        drop(free);
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = CString::new(format!("kernel{number}")).unwrap_or_default();
        // SAFETY: the session is live, the name is a C string that is copied and not yet taken.
        let space =
            unsafe { LLVMOrcExecutionSessionCreateBareJITDylib(self.session(), name.as_ptr()) };
        let mut symbols: Vec<LLVMOrcCSymbolMapPair> = imports::table()
            .iter()
            .map(|(name, address)| LLVMOrcCSymbolMapPair {
                Name: self.intern(name),
                Sym: LLVMJITEvaluatedSymbol {
                    Address: *address as u64,
                    Flags: LLVMJITSymbolFlags {
                        GenericFlags: EXPORTED_CALLABLE,
                        TargetFlags: 0,
                    },
                },
            })
            .collect();
        // SAFETY: the pairs are read and the names taken over; the unit is taken by the define.
        unsafe {
            let unit = LLVMOrcAbsoluteSymbols(symbols.as_mut_ptr(), symbols.len());
            let error = LLVMOrcJITDylibDefine(space, unit);
            if !error.is_null() {
                LLVMOrcDisposeMaterializationUnit(unit);
                check(error)?;
            }
        }
        Ok(NameSpace(space))
    }

    /// Loads the objects of one kernel and looks up the symbols.
    pub(crate) fn load(&self, objects: &[&[u8]], symbols: &[String]) -> Result<Loaded> {
        let _use = Use::begin()?;
        let space = self.name_space()?;
        // SAFETY: the name space is live.
        let tracker = unsafe { LLVMOrcJITDylibCreateResourceTracker(space.0) };
        let mut loaded = Loaded {
            space,
            tracker,
            addresses: Vec::new(),
        };
        let found = objects
            .iter()
            .try_for_each(|object| self.add_object(tracker, object))
            .and_then(|()| self.look_up(space, symbols));
        match found {
            Ok(addresses) => {
                loaded.addresses = addresses;
                Ok(loaded)
            }
            Err(error) => {
                self.unload(loaded);
                Err(error)
            }
        }
    }

    fn add_object(&self, tracker: LLVMOrcResourceTrackerRef, object: &[u8]) -> Result<()> {
        // SAFETY: the bytes are copied; adding takes the buffer over even when it fails.
        check(unsafe {
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
                object.as_ptr().cast(),
                object.len(),
                c"kernel".as_ptr(),
            );
            LLVMOrcLLJITAddObjectFileWithRT(self.jit, tracker, buffer)
        })
    }

    fn look_up(&self, space: NameSpace, symbols: &[String]) -> Result<Vec<u64>> {
        if symbols.is_empty() {
            return Ok(Vec::new());
        }
        let mut order = [LLVMOrcCJITDylibSearchOrderElement {
            JD: space.0,
            JDLookupFlags: LLVMOrcJITDylibLookupFlagsMatchAllSymbols,
        }];
        let mut set: Vec<LLVMOrcCLookupSetElement> = symbols
            .iter()
            .map(|s| LLVMOrcCLookupSetElement {
                Name: self.intern(s),
                LookupFlags: LLVMOrcSymbolLookupFlagsRequiredSymbol,
            })
            .collect();
        let (sender, receiver) = mpsc::channel::<Found>();
        // The callback owns it: it may run on another thread, and still send when this one has received.
        let sender = Box::into_raw(Box::new(sender));
        // SAFETY: the lists are read before the call returns, which takes ownership of the names; the callback is
        // called once.
        unsafe {
            LLVMOrcExecutionSessionLookup(
                self.session(),
                LLVMOrcLookupKindStatic,
                order.as_mut_ptr(),
                order.len(),
                set.as_mut_ptr(),
                set.len(),
                answer,
                sender.cast(),
            );
        }
        let found = receiver
            .recv()
            .map_err(|e| Error::new("W0506", "the linker did not respond").note(e.to_string()))?
            .map_err(|e| {
                let reasons = std::mem::take(
                    &mut *self.reasons.lock().unwrap_or_else(PoisonError::into_inner),
                );
                reasons.into_iter().fold(not_loaded(e), Error::note)
            })?;
        symbols
            .iter()
            .map(|s| {
                found
                    .get(s)
                    .copied()
                    .ok_or_else(|| Error::new("W0506", format!("compiled code lacks `{s}`")))
            })
            .collect()
    }

    pub(crate) fn unload(&self, loaded: Loaded) {
        // Where the process exits, there is nothing to free.
        let Ok(_use) = Use::begin() else {
            return;
        };
        // SAFETY: the tracker is live and released once; no thread runs the code any more.
        unsafe {
            let error = LLVMOrcResourceTrackerRemove(loaded.tracker);
            LLVMOrcReleaseResourceTracker(loaded.tracker);
            if !error.is_null() {
                LLVMConsumeError(error);
                return;
            }
        }
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(loaded.space);
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        let Ok(_use) = Use::begin() else {
            // The session reports to this list.
            std::mem::forget(std::mem::take(&mut self.reasons));
            return;
        };
        // SAFETY: disposed of once; every `Loaded` keeps the linker alive through its owner.
        unsafe {
            let error = LLVMOrcDisposeLLJIT(self.jit);
            if !error.is_null() {
                LLVMConsumeError(error);
            }
        }
    }
}

const EXPORTED_CALLABLE: u8 = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
    | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8;

/// Addresses by name, or an error message.
type Found = std::result::Result<HashMap<String, u64>, String>;

extern "C" fn answer(
    error: LLVMErrorRef,
    pairs: LLVMOrcCSymbolMapPairs,
    count: usize,
    context: *mut c_void,
) {
    // SAFETY: `look_up` passes a sender, once.
    let sender = unsafe { Box::from_raw(context.cast::<mpsc::Sender<Found>>()) };
    let found = if error.is_null() {
        let mut found = HashMap::new();
        for k in 0..count {
            // SAFETY: there are `count` pairs, whose names are live C strings.
            let (name, address) = unsafe {
                let pair = &*pairs.add(k);
                let name = CStr::from_ptr(LLVMOrcSymbolStringPoolEntryStr(pair.Name));
                (name.to_string_lossy().into_owned(), pair.Sym.Address)
            };
            found.insert(name, address);
        }
        Ok(found)
    } else {
        Err(message(error))
    };
    // The receiver is waiting, so this cannot fail.
    let _ = sender.send(found);
}

/// Receives the message of an error whose call only returns failure.
extern "C" fn note(reasons: *mut c_void, error: LLVMErrorRef) {
    /// Older messages are dropped.
    const KEPT: usize = 8;
    // SAFETY: the linker passes its own list, which outlives its session.
    let reasons = unsafe { &*reasons.cast::<Mutex<Vec<String>>>() };
    let reason = message(error);
    let mut reasons = reasons.lock().unwrap_or_else(PoisonError::into_inner);
    if reasons.len() == KEPT {
        reasons.remove(0);
    }
    reasons.push(reason);
}

fn message(error: LLVMErrorRef) -> String {
    // SAFETY: the error is live and consumed here, the text is disposed of after the copy.
    unsafe {
        let text = LLVMGetErrorMessage(error);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        copy
    }
}

fn check(error: LLVMErrorRef) -> Result<()> {
    if error.is_null() {
        Ok(())
    } else {
        Err(not_loaded(message(error)))
    }
}

fn not_loaded(why: String) -> Error {
    Error::new("W0506", "cannot load compiled code")
        .note(why)
        .help("the system may forbid memory that is both writable and executable; interpreted worlds do not need it")
}
