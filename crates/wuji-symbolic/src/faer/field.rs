//! The traits of faer's scalars, so that code written against `RealField` traces unchanged.
//!
//! Questions about a value that is not known while tracing end the recording with an error. So products, sums, solutions of triangular
//! systems and norms trace, and decompositions with pivots do not. The scalar has no vectors: faer uses its loops over scalars.

use crate::real::Real;
use crate::sym::Sym;
use ::faer::traits::pulp::{Scalar, Simd};
use ::faer::traits::{ComplexField, RealField, SimdCapabilities};
use num_traits::Float;

impl RealField for Sym {
    fn epsilon_impl() -> Sym {
        Sym::new(f64::EPSILON)
    }

    fn nbits_impl() -> usize {
        f64::MANTISSA_DIGITS as usize
    }

    fn min_positive_impl() -> Sym {
        Sym::new(f64::MIN_POSITIVE)
    }

    fn max_positive_impl() -> Sym {
        Sym::new(f64::MAX)
    }

    fn sqrt_min_positive_impl() -> Sym {
        Sym::new(f64::MIN_POSITIVE.sqrt())
    }

    fn sqrt_max_positive_impl() -> Sym {
        Sym::new(f64::MAX.sqrt())
    }
}

/// Operations on vectors, which there are none of.
macro_rules! no_vectors {
    ($($name:ident($($operand:ident),*);)*) => {$(
        fn $name<S: Simd>(_: &S, $($operand: ()),*) {
            let _ = ($($operand,)*);
        }
    )*};
}

// The trait has unsafe methods; these do nothing.
#[allow(unsafe_code)]
impl ComplexField for Sym {
    const IS_REAL: bool = true;
    const SIMD_CAPABILITIES: SimdCapabilities = SimdCapabilities::Copy;

    type Arch = Scalar;
    type Unit = Sym;
    type Index = usize;
    type Real = Sym;
    type SimdCtx<S: Simd> = S;
    type SimdMask<S: Simd> = ();
    type SimdMemMask<S: Simd> = ();
    type SimdVec<S: Simd> = ();
    type SimdIndex<S: Simd> = ();

    fn zero_impl() -> Sym {
        Sym::new(0.0)
    }

    fn one_impl() -> Sym {
        Sym::new(1.0)
    }

    fn nan_impl() -> Sym {
        Sym::new(f64::NAN)
    }

    fn infinity_impl() -> Sym {
        Sym::new(f64::INFINITY)
    }

    fn from_real_impl(real: &Sym) -> Sym {
        *real
    }

    fn from_f64_impl(real: f64) -> Sym {
        Sym::new(real)
    }

    fn real_part_impl(value: &Sym) -> Sym {
        *value
    }

    fn imag_part_impl(_: &Sym) -> Sym {
        Sym::new(0.0)
    }

    fn copy_impl(value: &Sym) -> Sym {
        *value
    }

    fn conj_impl(value: &Sym) -> Sym {
        *value
    }

    #[track_caller]
    fn recip_impl(value: &Sym) -> Sym {
        Float::recip(*value)
    }

    #[track_caller]
    fn sqrt_impl(value: &Sym) -> Sym {
        Real::sqrt(*value)
    }

    #[track_caller]
    fn abs_impl(value: &Sym) -> Sym {
        Real::abs(*value)
    }

    #[track_caller]
    fn abs1_impl(value: &Sym) -> Sym {
        Real::abs(*value)
    }

    #[track_caller]
    fn abs2_impl(value: &Sym) -> Sym {
        *value * *value
    }

    #[track_caller]
    fn mul_real_impl(a: &Sym, b: &Sym) -> Sym {
        *a * *b
    }

    #[track_caller]
    fn mul_pow2_impl(a: &Sym, b: &Sym) -> Sym {
        *a * *b
    }

    #[track_caller]
    fn is_finite_impl(value: &Sym) -> bool {
        Float::is_finite(*value)
    }

    fn simd_ctx<S: Simd>(simd: S) -> S {
        simd
    }

    fn ctx_from_simd<S: Simd>(simd: &S) -> S {
        *simd
    }

    fn simd_mask_between<S: Simd>(_: &S, _: usize, _: usize) {}

    fn simd_mem_mask_between<S: Simd>(_: &S, _: usize, _: usize) {}

    unsafe fn simd_mask_load_raw<S: Simd>(_: &S, (): (), _: *const ()) {}

    unsafe fn simd_mask_store_raw<S: Simd>(_: &S, (): (), _: *mut (), (): ()) {}

    fn simd_splat<S: Simd>(_: &S, _: &Sym) {}

    fn simd_splat_real<S: Simd>(_: &S, _: &Sym) {}

    fn simd_reduce_sum<S: Simd>(_: &S, (): ()) -> Sym {
        Sym::new(0.0)
    }

    fn simd_reduce_max<S: Simd>(_: &S, (): ()) -> Sym {
        Sym::new(0.0)
    }

    fn simd_index_splat<S: Simd>(_: &S, _: usize) {}

    fn simd_first_true_mask<S: Simd>(_: &S, (): ()) -> usize {
        0
    }

    no_vectors! {
        simd_add(a, b);
        simd_sub(a, b);
        simd_neg(a);
        simd_conj(a);
        simd_abs1(a);
        simd_abs_max(a);
        simd_mul_real(a, b);
        simd_mul_pow2(a, b);
        simd_mul(a, b);
        simd_conj_mul(a, b);
        simd_mul_add(a, b, c);
        simd_conj_mul_add(a, b, c);
        simd_abs2(a);
        simd_abs2_add(a, b);
        simd_equal(a, b);
        simd_less_than(a, b);
        simd_less_than_or_equal(a, b);
        simd_greater_than(a, b);
        simd_greater_than_or_equal(a, b);
        simd_select(mask, a, b);
        simd_index_select(mask, a, b);
        simd_index_add(a, b);
        simd_index_less_than(a, b);
        simd_and_mask(a, b);
        simd_or_mask(a, b);
        simd_not_mask(a);
    }
}
