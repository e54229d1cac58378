//! Redirects a function that a loaded library imports, by replacing its address in the library's global offset table (GOT).

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An entry of the dynamic section of an ELF file.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A relocation of an ELF file.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;

/// What to replace, and in which library.
struct Request<'a> {
    /// An address in the library.
    inside: usize,
    name: &'a CStr,
    to: usize,
    replaced: bool,
}

/// Lets the library that contains the address `inside` call `to` for its import `name`. False if it has no such import.
///
/// # Safety
/// `to` is a function with the signature of `name`, and remains loaded.
pub(crate) unsafe fn redirect(inside: *const c_void, name: &CStr, to: *const c_void) -> bool {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return false;
    }
    let mut request = Request {
        inside: inside as usize,
        name,
        to: to as usize,
        replaced: false,
    };
    // SAFETY: the callback gets the request, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut request).cast()) };
    request.replaced
}

/// Handles one loaded library; 1 ends the search.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    request: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes valid information, and what `redirect` passed.
    let (info, request) = unsafe { (&*info, &mut *request.cast::<Request<'_>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the headers of a loaded library.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = info.dlpi_addr as usize;
    let within = |kind: u32, at: usize| {
        headers.iter().any(|h| {
            let start = base.wrapping_add(h.p_vaddr as usize);
            h.p_type == kind && at.wrapping_sub(start) < h.p_memsz as usize
        })
    };
    if !within(libc::PT_LOAD, request.inside) {
        return 0;
    }
    if let Some(dynamic) = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC) {
        // SAFETY: the dynamic section of a loaded library.
        let slots = unsafe { imports(base, dynamic.p_vaddr as usize, request.name) };
        for slot in slots {
            let read_only = within(libc::PT_GNU_RELRO, slot);
            // SAFETY: the slot holds the address of a function.
            request.replaced |= unsafe { replace(slot, request.to, read_only) };
        }
    }
    1
}

/// The addresses of the GOT slots for the import `name`.
unsafe fn imports(base: usize, dynamic: usize, name: &CStr) -> Vec<usize> {
    let first = base.wrapping_add(dynamic) as *const Dynamic;
    let value = |tag: i64| {
        let mut entry = first;
        // SAFETY: the section ends with an entry `DT_NULL`.
        unsafe {
            while (*entry).tag != DT_NULL {
                if (*entry).tag == tag {
                    return Some((*entry).value);
                }
                entry = entry.add(1);
            }
        }
        None
    };
    // The loader may have replaced offsets by addresses.
    let address = |tag| value(tag).map(|at| if at < base { at.wrapping_add(base) } else { at });
    let (Some(symbols), Some(names)) = (address(DT_SYMTAB), address(DT_STRTAB)) else {
        return Vec::new();
    };
    let tables = [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)];
    let mut slots = Vec::new();
    for (table, size) in tables {
        let (Some(table), Some(size)) = (address(table), value(size)) else {
            continue;
        };
        // SAFETY: the loader has used this table.
        let table = unsafe {
            std::slice::from_raw_parts(table as *const Relocation, size / size_of::<Relocation>())
        };
        for relocation in table {
            if !matches!(
                relocation.info & 0xffff_ffff,
                R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT
            ) {
                continue;
            }
            // SAFETY: the number of a symbol in the table of symbols, whose name is a C string.
            let symbol = unsafe {
                let symbol =
                    (symbols as *const libc::Elf64_Sym).add((relocation.info >> 32) as usize);
                CStr::from_ptr((names + (*symbol).st_name as usize) as *const _)
            };
            if symbol == name {
                slots.push(base.wrapping_add(relocation.offset));
            }
        }
    }
    slots
}

/// Writes to a slot; the loader may have made its page read-only.
unsafe fn replace(slot: usize, to: usize, read_only: bool) -> bool {
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (slot & !(page - 1)) as *mut c_void;
    let protect = |access| {
        // SAFETY: the page belongs to the library, which only reads it.
        !read_only || unsafe { libc::mprotect(start, page, access) } == 0
    };
    if !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    // SAFETY: a slot is aligned, and threads may read it meanwhile.
    unsafe { AtomicUsize::from_ptr(slot as *mut usize) }.store(to, Ordering::Release);
    protect(libc::PROT_READ)
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    extern "C" fn answer() -> libc::pid_t {
        42
    }

    /// An import of this program, whose GOT is read-only.
    #[test]
    fn imports_are_redirected() {
        let inside = answer as *const c_void;
        let name = c"getppid";
        // SAFETY: a call without arguments; the symbol exists.
        let (parent, original) = unsafe {
            let original = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            (libc::getppid(), original)
        };
        // SAFETY: both functions have the same signature.
        unsafe {
            assert!(redirect(inside, name, answer as *const c_void));
            assert_eq!(libc::getppid(), 42);
            assert!(redirect(inside, name, original));
            assert_eq!(libc::getppid(), parent);
        }
    }

    #[test]
    fn unknown_imports_and_addresses_are_not() {
        let to = answer as *const c_void;
        // SAFETY: nothing is redirected.
        unsafe {
            assert!(!redirect(to, c"no_such_function", to));
            assert!(!redirect(std::ptr::null(), c"getppid", to));
        }
    }
}
