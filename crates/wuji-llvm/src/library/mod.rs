//! Loads LLVM at run time, when it is first needed.
//!
//! A program that is linked to `libLLVM.so` does not start without it, and the error comes from the system's
//! loader. So nothing is linked to it: every LLVM function that we call has a stub of the same name, which
//! jumps through a slot. [`find`] opens the library and fills the slots. Without LLVM, a program starts,
//! interprets kernels, and gets an error only when it compiles one.
//!
//! With the feature `static`, LLVM is linked into the program and this module is empty.

#[cfg(not(feature = "dynamic"))]
pub(crate) fn find() -> wuji_ir::Result<()> {
    Ok(())
}

/// An address in LLVM.
#[cfg(not(feature = "dynamic"))]
pub(crate) fn address() -> *const std::ffi::c_void {
    inkwell::llvm_sys::core::LLVMGetVersion as *const std::ffi::c_void
}

#[cfg(feature = "dynamic")]
pub(crate) use dynamic::{address, find};

#[cfg(feature = "dynamic")]
mod functions;

#[cfg(feature = "dynamic")]
mod dynamic {
    use super::functions::{NAMES, slots};
    use std::ffi::{CStr, CString, c_void};
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use wuji_ir::{Error, Result};

    /// The file name of the required version.
    const FILE: &str = "libLLVM.so.22.1";

    /// Environment variable with the path of the library; if it is set, no other path is searched.
    const VARIABLE: &str = "WUJI_LLVM";

    /// The prefix of LLVM at build time.
    const BUILT_WITH: Option<&str> = option_env!("LLVM_SYS_221_PREFIX");

    /// Loads LLVM. Must be called before any LLVM function.
    pub(crate) fn find() -> Result<()> {
        static FOUND: OnceLock<Result<()>> = OnceLock::new();
        FOUND.get_or_init(load).clone()
    }

    /// An address in LLVM, which must be loaded.
    pub(crate) fn address() -> *const c_void {
        // SAFETY: there is at least one slot, and `find` has filled it.
        unsafe { slots().read() }
    }

    /// The paths to try, in order; the system's loader searches for names without a folder.
    fn places() -> Vec<PathBuf> {
        match std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
            Some(place) => vec![place.into()],
            None => {
                let built_with =
                    BUILT_WITH.map(|prefix| PathBuf::from(prefix).join("lib").join(FILE));
                beside()
                    .into_iter()
                    .chain([PathBuf::from(FILE)])
                    .chain(built_with)
                    .collect()
            }
        }
    }

    /// The library in a folder `lib` beside the program, or beside the extension module that contains this
    /// code: bundles and wheels have it there.
    fn beside() -> Option<PathBuf> {
        // SAFETY: all zeros are a valid value: it holds pointers, not references.
        let mut of_us: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address is in our own code; the call writes to `of_us`.
        let found = unsafe { libc::dladdr(beside as *const c_void, &mut of_us) };
        let mut place = None;
        if found != 0 && !of_us.dli_fname.is_null() {
            use std::os::unix::ffi::OsStrExt;
            // SAFETY: a C string of the loader, valid while this code is loaded.
            let name = unsafe { CStr::from_ptr(of_us.dli_fname) };
            place = Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
        }
        // For a program the loader only knows `argv[0]`, which may be a name without a path.
        let place = match place.filter(|p| p.components().count() > 1) {
            Some(place) => place.canonicalize().ok()?,
            None => std::env::current_exe().ok()?,
        };
        let library = place.parent()?.join("lib").join(FILE);
        library.exists().then_some(library)
    }

    fn load() -> Result<()> {
        let mut reasons = Vec::new();
        for place in places() {
            match open(&place) {
                Ok(library) => return fill(library),
                Err(why) => reasons.push(why),
            }
        }
        let error = Error::new("W0504", "LLVM 22.1 was not found")
            .help(format!("install `{FILE}` (Debian and Ubuntu: `libllvm22`), set {VARIABLE} to its path, or build with LLVM inside (`--no-default-features --features static`); interpreted worlds do without"));
        Err(reasons.into_iter().fold(error, Error::note))
    }

    /// Opens a library for the lifetime of the process, or returns the reason why it cannot be opened.
    fn open(place: &std::path::Path) -> std::result::Result<*mut c_void, String> {
        use std::os::unix::ffi::OsStrExt;
        let name = CString::new(place.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the initializers of LLVM are harmless; the name is a C string.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        if !library.is_null() {
            return Ok(library);
        }
        // SAFETY: the message is valid until the next call on this thread; it is copied.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                format!("{} cannot be loaded", place.display())
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(why)
    }

    fn fill(library: *mut c_void) -> Result<()> {
        let slots = slots();
        for (number, name) in NAMES.iter().enumerate() {
            // SAFETY: the library is open, the name is a C string.
            let function = unsafe { libc::dlsym(library, name.as_ptr()) };
            if function.is_null() {
                return Err(Error::new("W0504", "this LLVM is not LLVM 22.1")
                    .note(format!("it has no function `{}`", name.to_string_lossy()))
                    .help(format!("set {VARIABLE} to the path of `{FILE}`")));
            }
            // SAFETY: there is a slot for each name, in the same order. Only this function writes to them,
            // and no LLVM function is called before `find` returns.
            unsafe { slots.add(number).write(function) };
        }
        Ok(())
    }
}
