//! Small whole kernels.

use crate::harness::{Aligned, Launch, compile, jit, lowered};
use wuji_compile::Math;
use wuji_llvm::Text;

pub(crate) const SAXPY: &str = r#"
module "saxpy"
tree T0 { dense S1 [i: 1048576] { place f0 } }
tree T1 { dense S1 [i: 1048576] { place f1 } }
field f0 "x": f32 in T0.S1 (i)
field f1 "y": f32 in T1.S1 (i)
param p0 "a": f32
fn fn0 "saxpy"(v0: f32, v1: i64, v2: i64) {
  v3: i64 = const 1
  v4: i64 = const 4
  for.parallel L0 v5: i64 in v1..v2 step v3 {
    v6: i64 = mul v5, v4
    v7: f32 = memload T0.f0 [v6]
    v8: f32 = memload T1.f1 [v6]
    v9: f32 = mul v0, v7
    v10: f32 = add v9, v8
    memstore T1.f1 [v6], v10
    continue L0
  }
  return
}
task "saxpy.0" chunks (0..1048576) unit 1 fn0 ordinal 1
"#;

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
    let y = y.to_vec::<f32>();
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
    assert!(text.contains("vfmadd"), "{text}");
}

#[test]
fn dropping_a_kernel_makes_room_for_its_names() {
    let lowered = lowered(SAXPY, Math::Strict);
    for _ in 0..3 {
        let a = jit().compile(&lowered).unwrap();
        let b = jit().compile(&lowered).unwrap();
        assert_ne!(a.task(0).map(|t| t as usize), b.task(0).map(|t| t as usize));
    }
}
