//! Run-time detection of the CPU's vector instructions.

/// The vector instruction set that the references use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Baseline,
    Avx2,
    Avx512,
}

impl Level {
    /// The best one that this CPU supports.
    #[inline]
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            // The standard library caches each query.
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi2")
            {
                return Level::Avx512;
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi2")
            {
                return Level::Avx2;
            }
        }
        Level::Baseline
    }
}

/// Compiles a function twice, for AVX2 with FMA and for the baseline, and calls the best version that this CPU
/// supports. Callees must be inlined (`#[inline(always)]`) to benefit. 512-bit vectors made these loops slower, because
/// they are memory-bound; a workload that benefits uses them explicitly.
#[macro_export]
macro_rules! host_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                if $crate::host::Level::detect() != $crate::host::Level::Baseline {
                    // SAFETY: the CPU has these features.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

/// Floats aligned to a cache line.
#[derive(Debug)]
pub struct Floats {
    lines: Vec<Line>,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; 16]);

impl Floats {
    pub fn new(length: usize, value: impl Fn(usize) -> f32) -> Floats {
        let mut lines: Vec<Line> = Vec::with_capacity(length.div_ceil(16));
        large_pages(&mut lines);
        lines.resize(length.div_ceil(16), Line([0.0; 16]));
        let mut floats = Floats { lines, length };
        for (i, x) in floats.iter_mut().enumerate() {
            *x = value(i);
        }
        floats
    }

    pub fn zeros(length: usize) -> Floats {
        Floats::new(length, |_| 0.0)
    }
}

/// Requests huge pages, as Wuji's runtime does for its trees: the comparison should measure code, not page size.
fn large_pages(lines: &mut Vec<Line>) {
    const PAGE: usize = 1 << 12;
    let spare = lines.spare_capacity_mut();
    let (start, bytes) = (spare.as_mut_ptr() as usize, size_of_val(spare));
    let (first, last) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
    if first < last {
        #[cfg(target_os = "linux")]
        // SAFETY: whole pages of memory that the vector owns; the advice does not change contents. It may fail without
        // harm.
        unsafe {
            libc::madvise(
                first as *mut libc::c_void,
                last - first,
                libc::MADV_HUGEPAGE,
            );
        }
    }
}

impl std::ops::Deref for Floats {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: lines are arrays of floats without gaps, and hold at least `length` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }
}

impl std::ops::DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}
