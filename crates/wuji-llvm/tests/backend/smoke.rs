//! Small whole kernels.

use crate::harness::{Aligned, Launch, compile, jit, lowered};
use crate::shapes::SAXPY;
use wuji_compile::Math;
use wuji_llvm::{CompiledKernel, Text};

#[test]
fn saxpy_runs() {
    let kernel = compile(SAXPY, Math::Contract);
    let n = 1000;
    let mut x = Aligned::from(&(0..n).map(|i| i as f32).collect::<Vec<_>>());
    let mut y = Aligned::from(&vec![1f32; n]);
    let mut launch = Launch {
        params: vec![u64::from(2f32.to_bits())],
        trees: vec![x.ptr(), y.ptr()],
        ..Launch::default()
    };
    launch.run(&kernel, 0, 3, n as i64 - 2);
    let y = y.values::<f32>();
    assert_eq!(y[2], 1.0);
    assert_eq!(y[3], 7.0);
    assert_eq!(y[n - 3], 2.0 * (n - 3) as f32 + 1.0);
    assert_eq!(y[n - 2], 1.0);
    assert_eq!(kernel.symbols(), ["wuji.saxpy.0"]);
}

#[test]
fn saxpy_is_vectorized() {
    let lowered = lowered(SAXPY, Math::Contract);
    let text = jit().text(&lowered, Text::Assembly).unwrap();
    if std::env::var_os("SHOW").is_some() {
        println!("{}", jit().text(&lowered, Text::Ir).unwrap());
        println!("{text}");
    }
    // Contraction is the business of the pass `relax_math`, which tests of the backend do without.
    assert!(text.contains("vmulps") && text.contains("vaddps"), "{text}");
}

#[test]
fn dropping_a_kernel_frees_its_symbols() {
    let lowered = lowered(SAXPY, Math::Strict);
    for _ in 0..3 {
        let a = jit().compile(&lowered).unwrap();
        let b = jit().compile(&lowered).unwrap();
        let entry = |kernel: &CompiledKernel| kernel.task(0).unwrap().entry as usize;
        assert_ne!(entry(&a), entry(&b));
    }
}
