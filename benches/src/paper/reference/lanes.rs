//! Vectors of floats for the references, as wide as the CPU allows.

/// A vector register of floats.
///
/// # Safety
/// The functions need the CPU features of the type: [`lanes_fn`](crate::lanes_fn) calls them only where those are present.
pub trait Lanes: Copy {
    const COUNT: usize;
    /// # Safety
    /// As for the trait.
    unsafe fn splat(x: f32) -> Self;
    /// # Safety
    /// As for the trait; `from` points to `COUNT` floats.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// As for the trait; `to` points to `COUNT` floats.
    unsafe fn store(self, to: *mut f32);
    /// # Safety
    /// As for the trait.
    unsafe fn add(self, other: Self) -> Self;
    /// `self * factor + sum`.
    ///
    /// # Safety
    /// As for the trait.
    unsafe fn fma(self, factor: Self, sum: Self) -> Self;
    /// The lanes of `other` where `odd` or, respectively, even; those of `self` elsewhere.
    ///
    /// # Safety
    /// As for the trait.
    unsafe fn alternate(self, other: Self, odd: bool) -> Self;
}

impl Lanes for [f32; 8] {
    const COUNT: usize = 8;
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { from.cast::<[f32; 8]>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<[f32; 8]>().write(self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|l| self[l] + other[l])
    }
    #[inline(always)]
    unsafe fn fma(self, factor: Self, sum: Self) -> Self {
        std::array::from_fn(|l| self[l] * factor[l] + sum[l])
    }
    #[inline(always)]
    unsafe fn alternate(self, other: Self, odd: bool) -> Self {
        std::array::from_fn(|l| {
            if (l % 2 == 1) == odd {
                other[l]
            } else {
                self[l]
            }
        })
    }
}

/// Implements [`Lanes`] for a vector type by its intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! lanes {
    ($name:ident, $count:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $fma:ident, |$a:ident, $b:ident, $odd:ident| $blend:expr) => {
        impl Lanes for std::arch::x86_64::$name {
            const COUNT: usize = $count;
            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: guaranteed by the caller, here and below.
                unsafe { std::arch::x86_64::$splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$store(to, self) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$add(self, other) }
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, sum: Self) -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$fma(self, factor, sum) }
            }
            #[inline(always)]
            unsafe fn alternate(self, other: Self, $odd: bool) -> Self {
                let ($a, $b) = (self, other);
                // SAFETY: as above.
                unsafe { $blend }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
lanes!(
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_fmadd_ps,
    |a, b, odd| {
        use std::arch::x86_64::_mm256_blend_ps;
        if odd {
            _mm256_blend_ps::<0xaa>(a, b)
        } else {
            _mm256_blend_ps::<0x55>(a, b)
        }
    }
);

#[cfg(target_arch = "x86_64")]
lanes!(
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_fmadd_ps,
    |a, b, odd| {
        use std::arch::x86_64::_mm512_mask_blend_ps;
        _mm512_mask_blend_ps(if odd { 0xaaaa } else { 0x5555 }, a, b)
    }
);

/// Compiles a function for [`Lanes`] of AVX-512, AVX2 and the baseline, and calls the best version that this CPU supports.
#[macro_export]
macro_rules! lanes_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$lanes:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) {
            /// # Safety
            /// The CPU has the features of the lanes; the body says why it keeps to its memory.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, unsafe_op_in_unsafe_fn)]
            unsafe fn body<$lanes: $crate::paper::reference::lanes::Lanes>($($arg: $ty),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::host::Level;
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx512($($arg: $ty),*) {
                    // SAFETY: the features of this function.
                    unsafe { body::<std::arch::x86_64::__m512>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,bmi2")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx2($($arg: $ty),*) {
                    // SAFETY: the features of this function.
                    unsafe { body::<std::arch::x86_64::__m256>($($arg),*) }
                }
                match Level::detect() {
                    // SAFETY: the CPU has these features.
                    Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: the CPU has these features.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Baseline => {}
                }
            }
            // SAFETY: arrays need no features.
            unsafe { body::<[f32; 8]>($($arg),*) }
        }
    };
}

#[cfg(test)]
mod tests {

    lanes_fn! {
        fn every_function<V>(x: &[f32], out: &mut [f32]) {
            let a = V::load(x.as_ptr());
            let b = V::load(x[1..].as_ptr());
            let sums = V::splat(2.0).fma(a, b).add(V::splat(0.5));
            sums.alternate(a, true).store(out.as_mut_ptr());
            sums.alternate(a, false).store(out[16..].as_mut_ptr());
        }
    }

    #[test]
    fn lanes_compute_what_scalars_do() {
        let x: Vec<f32> = (0..17).map(|i| i as f32).collect();
        let mut out = [0.0; 32];
        every_function(&x, &mut out);
        for l in 0..8 {
            let (sum, kept) = (3.0 * x[l] + 1.5, x[l]);
            let odd = l % 2 == 1;
            assert_eq!(out[l], if odd { kept } else { sum });
            assert_eq!(out[16 + l], if odd { sum } else { kept });
        }
    }
}
