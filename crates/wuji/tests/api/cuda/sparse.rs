//! The memory of sparse trees, with and without pages on demand.

use super::{builder, with_driver};
use expect_test::expect;
use wuji::prelude::*;

/// The tests' driver does not know it, so it does nothing.
#[kernel]
fn activate(x: &Field<f32, 1>) {
    for i in 0..8 {
        x[[i]] = 1.0;
    }
}

#[test]
fn trees_are_created_cleared_and_dropped() {
    let name = "sparse::trees_are_created_cleared_and_dropped";
    for config in ["paging=1", "paging=0", "paging=1,lazy=1", "paging=0,lazy=1"] {
        with_driver(name, config, || {
            let world = builder().build().unwrap();
            for _ in 0..3 {
                let x = world
                    .layout(|root| {
                        let blocks = root.pointer(I, 1 << 10).pointer(I, 64);
                        blocks.dense(I, 64).place::<f32, 1>("x")
                    })
                    .unwrap();
                for _ in 0..3 {
                    activate(&x).unwrap();
                }
                x.tree().clear().unwrap();
                activate(&x).unwrap();
            }
            world.synchronize().unwrap();
        });
    }
}

#[test]
fn memory_that_is_there_from_the_start_must_fit() {
    let name = "sparse::memory_that_is_there_from_the_start_must_fit";
    for config in ["memory=16,paging=1", "memory=16,paging=0"] {
        with_driver(name, config, || {
            let world = builder().build().unwrap();
            let error = world
                .layout(|root| root.bitmasked(I, 1 << 24).place::<f32, 1>("x"))
                .unwrap_err();
            expect![[r#"
                error[W0522]: the CUDA device has no 74.2 MiB left
                  --> crates/wuji/tests/api/cuda/sparse.rs:46:18
                  = note: 5.6 MiB of its 16 MiB are free
                  = help: drop fields that are not needed, use smaller types, or a sparse layout; other programs on the device take memory too (`nvidia-smi`)"#]].assert_eq(&error.to_string());
        });
    }
}
