//! The same loops in C++, from a shared library that `cargo xtask bench --cpp` compiles.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// A shared library of C++ loops. It is never closed, because its OpenMP threads may still be running.
#[derive(Debug)]
pub struct Cpp {
    handle: *mut c_void,
}

impl Cpp {
    pub fn open(path: &str) -> Result<Cpp, String> {
        let name = CString::new(path)
            .map_err(|_| "the path of the library has a zero byte".to_string())?;
        // SAFETY: the name is a valid C string; the initializers are those of the C++ and OpenMP runtimes.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: `dlerror` gives a C string or null, valid until the next call on this thread.
            let error = unsafe { libc::dlerror() };
            return Err(format!("cannot open {path}: {}", message(error)));
        }
        Ok(Cpp { handle })
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is the function's type, as declared in `benches/cpp`.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        assert_eq!(
            size_of::<F>(),
            size_of::<*mut c_void>(),
            "a function pointer"
        );
        // SAFETY: the handle is open and the name is a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(format!(
                "the C++ library has no `{}`",
                name.to_string_lossy()
            ));
        }
        // SAFETY: an address of the size of `F`; the caller guarantees the type.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// Sets the number of OpenMP threads.
    pub fn set_threads(&self, threads: usize) -> Result<(), String> {
        // SAFETY: the signature in `benches/cpp/threads.cpp`.
        let set = unsafe { self.function::<unsafe extern "C" fn(c_int)>(c"cpp_set_threads")? };
        // SAFETY: any positive number is fine.
        unsafe { set(threads as c_int) };
        Ok(())
    }
}

fn message(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown reason".to_string();
    }
    // SAFETY: not null, and a C string by the contract of `dlerror`.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
