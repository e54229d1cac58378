//! Sparse trees on an interpreting device.

use wuji_compile::Options;
use wuji_ir::entities::Field;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{BackendKind, Device, DeviceOptions, Instance};

/// Counts the active cells, and appends to a list.
const COUNT: &str = r#"
tree T0 {
  pointer S1 [i: 100] { dynamic S2 [j: 4] chunk 2 { place f0 } }
  place f1
}
field f0 "list": i32 in T0.S2 (i, j)
field f1 "count": i32 in T0.S0 ()
param p0: i32
kernel fn0 "count"(v0: i32) -> i32 {
  v1: i32 = const 1
  v2: i32 = append f0[v0]
  foreach L0 (v3: i32, v4: i32) in f0 {
    v5: i32 = atomic add f1[], v1
    continue L0
  }
  v6: i32 = load f1[]
  return v6
}
"#;

#[test]
fn cells_stay_from_launch_to_launch() {
    for backend in [BackendKind::Interpreter, BackendKind::Cpu] {
        let device = Device::new(&DeviceOptions {
            backend,
            threads: Some(1),
            ..DeviceOptions::default()
        })
        .unwrap();
        let module = parse(COUNT, "count.wir").unwrap();
        let mut instance = Instance::new(&device, module, &Options::default()).unwrap();
        let int = |n: i32| Imm::int(Scalar::I32, n.into());
        let count = Field::from_u32(1);
        let mut found = Vec::new();
        for at in [5, 5, 99, 5] {
            let outcome = instance.run(&[int(at)], 0, 0).unwrap();
            found.push(outcome.result.unwrap()[0]);
        }
        assert_eq!(found, [1, 3, 6, 10].map(int), "{backend:?}");
        // Elements that are always active are visible to the host, too.
        assert_eq!(instance.get(count, &[]).unwrap(), [int(10)]);
        instance.set(count, &[], &[int(0)]).unwrap();
        let outcome = instance.run(&[int(7)], 0, 0).unwrap();
        assert_eq!(outcome.result.unwrap(), [int(5)], "{backend:?}");
    }
}
