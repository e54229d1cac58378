//! LLVM as a library that is looked for when it is needed, not before `main`.
//!
//! A program that is linked to `libLLVM.so` does not start without it, and it is the system's loader that says so. So
//! nothing is linked to it: every function of LLVM that we call has a stand-in of the same name, which jumps to where a
//! slot says. [`find`] opens the library and fills the slots. A program without LLVM starts, interprets kernels, and gets
//! an error where it wants to compile one.
//!
//! With the feature `static` LLVM is part of the program and none of this is there.

#[cfg(not(feature = "dynamic"))]
pub(crate) fn find() -> wuji_ir::Result<()> {
    Ok(())
}

#[cfg(feature = "dynamic")]
pub(crate) use dynamic::find;

#[cfg(feature = "dynamic")]
mod functions;

#[cfg(feature = "dynamic")]
mod dynamic {
    use super::functions::{NAMES, slots};
    use std::ffi::{CStr, CString, c_void};
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use wuji_ir::{Error, Result};

    /// What the library of the version that we speak to is called.
    const FILE: &str = "libLLVM.so.22.1";

    /// Says where the library is; it is not looked for anywhere else then.
    const VARIABLE: &str = "WUJI_LLVM";

    /// Where LLVM was when this was built.
    const BUILT_WITH: Option<&str> = option_env!("LLVM_SYS_221_PREFIX");

    /// Sees to it that LLVM can be called. Everything that calls it comes after this.
    pub(crate) fn find() -> Result<()> {
        static FOUND: OnceLock<Result<()>> = OnceLock::new();
        FOUND.get_or_init(load).clone()
    }

    /// The places to look at, in order: names without a folder are looked for by the system.
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

    /// The library in a folder `lib` beside the program, or beside the extension module that this is part of: what travels
    /// has it there.
    fn beside() -> Option<PathBuf> {
        // SAFETY: all zeros are a value of it: pointers and no references.
        let mut of_us: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address is one of our own code; it writes to what is given.
        let found = unsafe { libc::dladdr(beside as *const c_void, &mut of_us) };
        let mut place = None;
        if found != 0 && !of_us.dli_fname.is_null() {
            use std::os::unix::ffi::OsStrExt;
            // SAFETY: a C string of the loader's, which stays while we are loaded.
            let name = unsafe { CStr::from_ptr(of_us.dli_fname) };
            place = Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
        }
        // Of a program the loader knows only how it was called; by its name alone, that is no path.
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

    /// A library that stays loaded for as long as the process lives, or why not.
    fn open(place: &std::path::Path) -> std::result::Result<*mut c_void, String> {
        use std::os::unix::ffi::OsStrExt;
        let name = CString::new(place.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: a library of LLVM does nothing to us when it is loaded; the name is a C string.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        if !library.is_null() {
            return Ok(library);
        }
        // SAFETY: the message belongs to the system until the next call of this thread; it is copied.
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
            // SAFETY: there is a slot for each name, in the same order. We are the only ones to write to them, and nobody
            // calls a function of LLVM before `find` has returned to him.
            unsafe { slots.add(number).write(function) };
        }
        Ok(())
    }
}
