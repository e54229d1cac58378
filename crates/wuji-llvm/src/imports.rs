//! The external functions that compiled code may call: the C math library, the runtime functions that LLVM
//! emits calls to, and glibc's vector math. Nothing else can be linked.

use std::ffi::{CString, c_void};
use std::sync::OnceLock;
use wuji_ir::types::Scalar;

/// Declares functions of the C library and gives their names with their addresses.
macro_rules! c_functions {
    ($($name:ident ( $($arg:ty),* ) -> $result:ty;)*) => {{
        unsafe extern "C" { $(fn $name($(_: $arg),*) -> $result;)* }
        vec![$((stringify!($name), $name as *const () as usize)),*]
    }};
}

/// Names and addresses that compiled code may refer to.
pub(crate) fn table() -> &'static [(&'static str, usize)] {
    static TABLE: OnceLock<Vec<(&'static str, usize)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut all = c_functions! {
            sinf(f32) -> f32; cosf(f32) -> f32; tanf(f32) -> f32;
            asinf(f32) -> f32; acosf(f32) -> f32; atanf(f32) -> f32;
            sinhf(f32) -> f32; coshf(f32) -> f32; tanhf(f32) -> f32;
            expf(f32) -> f32; exp2f(f32) -> f32; logf(f32) -> f32; log2f(f32) -> f32;
            log10f(f32) -> f32; powf(f32, f32) -> f32; atan2f(f32, f32) -> f32;
            fmodf(f32, f32) -> f32; ldexpf(f32, i32) -> f32; cbrtf(f32) -> f32;
            floorf(f32) -> f32; ceilf(f32) -> f32; truncf(f32) -> f32; roundf(f32) -> f32;
            fmaf(f32, f32, f32) -> f32; sqrtf(f32) -> f32;
            sin(f64) -> f64; cos(f64) -> f64; tan(f64) -> f64;
            asin(f64) -> f64; acos(f64) -> f64; atan(f64) -> f64;
            sinh(f64) -> f64; cosh(f64) -> f64; tanh(f64) -> f64;
            exp(f64) -> f64; exp2(f64) -> f64; log(f64) -> f64; log2(f64) -> f64;
            log10(f64) -> f64; pow(f64, f64) -> f64; atan2(f64, f64) -> f64;
            fmod(f64, f64) -> f64; ldexp(f64, i32) -> f64; cbrt(f64) -> f64;
            floor(f64) -> f64; ceil(f64) -> f64; trunc(f64) -> f64; round(f64) -> f64;
            fma(f64, f64, f64) -> f64; sqrt(f64) -> f64;
            memset(*mut c_void, i32, usize) -> *mut c_void;
            memcpy(*mut c_void, *const c_void, usize) -> *mut c_void;
            memmove(*mut c_void, *const c_void, usize) -> *mut c_void;
        };
        // LLVM calls these only if the C library has them.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        all.extend(c_functions! {
            exp10f(f32) -> f32; sincosf(f32, *mut f32, *mut f32) -> (); roundevenf(f32) -> f32;
            exp10(f64) -> f64; sincos(f64, *mut f64, *mut f64) -> (); roundeven(f64) -> f64;
        });
        all.extend([
            ("__powisf2", power_single as *const () as usize),
            ("__powidf2", power_double as *const () as usize),
            ("__extendhfsf2", half_to_single as *const () as usize),
            ("__truncsfhf2", single_to_half as *const () as usize),
            ("__truncdfhf2", double_to_half as *const () as usize),
        ]);
        all.extend(vector_table().iter().map(|(n, a)| (n.as_str(), *a)));
        all
    })
}

/// The C name of an operation on `f32` or `f64`.
pub(crate) fn math_symbol(op: &'static str, s: Scalar) -> &'static str {
    names(op, s)[0]
}

/// The `libdevice` name of an operation.
pub(crate) fn libdevice_symbol(op: &'static str, s: Scalar) -> &'static str {
    names(op, s)[1]
}

/// The names in the C library and in `libdevice`.
fn names(op: &'static str, s: Scalar) -> [&'static str; 2] {
    macro_rules! names {
        ($($op:literal)*) => {
            match (op, s) {
                $(
                    ($op, Scalar::F32) => [concat!($op, "f"), concat!("__nv_", $op, "f")],
                    ($op, _) => [$op, concat!("__nv_", $op)],
                )*
                // Unreachable: the table has all operations.
                _ => [op, op],
            }
        };
    }
    // The names of the operations are the C names for `f64`.
    names! {
        "sin" "cos" "tan" "asin" "acos" "atan" "sinh" "cosh" "tanh" "exp" "exp2" "log" "log2" "log10" "pow" "atan2"
    }
}

/// The address of a function of glibc's vector math library, if it exists.
pub(crate) fn vector_math(symbol: &str) -> Option<usize> {
    let table = vector_table();
    let at = table.iter().position(|(name, _)| name == symbol)?;
    Some(table[at].1)
}

fn vector_table() -> &'static [(String, usize)] {
    static TABLE: OnceLock<Vec<(String, usize)>> = OnceLock::new();
    TABLE.get_or_init(load_vector_math)
}

const VECTOR_FUNCTIONS: [(&str, usize); 16] = [
    ("sin", 1),
    ("cos", 1),
    ("tan", 1),
    ("asin", 1),
    ("acos", 1),
    ("atan", 1),
    ("sinh", 1),
    ("cosh", 1),
    ("tanh", 1),
    ("exp", 1),
    ("exp2", 1),
    ("log", 1),
    ("log2", 1),
    ("log10", 1),
    ("pow", 2),
    ("atan2", 2),
];

/// Looks up the functions of the installed libmvec; its set depends on the version, and other systems have
/// none.
#[cfg(target_os = "linux")]
fn load_vector_math() -> Vec<(String, usize)> {
    // SAFETY: the name is a C string; a library without constructors of consequence is opened.
    let library = unsafe { libc::dlopen(c"libmvec.so.1".as_ptr(), libc::RTLD_NOW) };
    let mut found = Vec::new();
    if library.is_null() {
        return found;
    }
    for (name, arity) in VECTOR_FUNCTIONS {
        for (suffix, lanes) in [("f", [4, 8, 16]), ("", [2, 4, 8])] {
            for (isa, lanes) in ["b", "d", "e"].into_iter().zip(lanes) {
                let symbol = format!("_ZGV{isa}N{lanes}{}_{name}{suffix}", "v".repeat(arity));
                let Ok(c) = CString::new(symbol.as_str()) else {
                    continue;
                };
                // SAFETY: the library stays open for ever, the name is a C string.
                let address = unsafe { libc::dlsym(library, c.as_ptr()) };
                if !address.is_null() {
                    found.push((symbol, address as usize));
                }
            }
        }
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn load_vector_math() -> Vec<(String, usize)> {
    Vec::new()
}

// LLVM may turn a power with an integer exponent into one of these.

extern "C" fn power_single(base: f32, exponent: i32) -> f32 {
    base.powi(exponent)
}

extern "C" fn power_double(base: f64, exponent: i32) -> f64 {
    base.powi(exponent)
}

// LLVM calls these on processors without the instructions. A `half` is passed in the low bits of a vector
// register, like a `float` with those bits.

extern "C" fn half_to_single(bits: f32) -> f32 {
    half::f16::from_bits(bits.to_bits() as u16).to_f32()
}

extern "C" fn single_to_half(value: f32) -> f32 {
    f32::from_bits(u32::from(half::f16::from_f32(value).to_bits()))
}

extern "C" fn double_to_half(value: f64) -> f32 {
    f32::from_bits(u32::from(wuji_ir::eval::round_to_f16(value).to_bits()))
}
