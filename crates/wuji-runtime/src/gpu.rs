//! Whether there is a GPU driver. Wuji does not need one.

use std::fmt;

/// NVIDIA's driver.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Driver {
    /// The version of CUDA that it can run, as it gives it: 12040 is 12.4. `None` when it does not say.
    pub cuda: Option<u32>,
}

impl Driver {
    /// Looks for the driver's library; `None` when this machine has none.
    pub fn find() -> Option<Driver> {
        let find = |library: &std::ffi::CStr| {
            // SAFETY: the name ends in a zero; the library is the driver's, whose initialization any program may run.
            let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY) };
            (!handle.is_null()).then_some(handle)
        };
        // It stays loaded: drivers do not like to be taken out.
        let library = find(c"libcuda.so.1").or_else(|| find(c"libcuda.so"))?;
        // SAFETY: the handle is one that was just opened, the name ends in a zero.
        let symbol = unsafe { libc::dlsym(library, c"cuDriverGetVersion".as_ptr()) };
        if symbol.is_null() {
            return Some(Driver { cuda: None });
        }
        // SAFETY: the driver's interface says that the function has this type. It can be called before anything else.
        let get: unsafe extern "C" fn(*mut libc::c_int) -> libc::c_int =
            unsafe { std::mem::transmute(symbol) };
        let mut version = 0;
        // SAFETY: as above; it writes one number.
        let failed = unsafe { get(&mut version) };
        let version = u32::try_from(version).ok().filter(|_| failed == 0);
        Some(Driver {
            cuda: version.filter(|v| *v != 0),
        })
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cuda {
            Some(version) => write!(f, "CUDA {}.{}", version / 1000, version % 1000 / 10),
            None => write!(f, "CUDA, of unknown version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_does_not_fail() {
        assert_eq!(Driver::find(), Driver::find());
        let told = Driver { cuda: Some(12040) }.to_string();
        assert_eq!(told, "CUDA 12.4");
    }
}
