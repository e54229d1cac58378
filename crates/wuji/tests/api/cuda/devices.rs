//! Several devices, and what worlds on a GPU cannot be.

use super::kernels::add_one;
use super::{builder, with_driver};
use wuji::prelude::*;

#[kernel]
fn both(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = y[[i]];
    }
}

#[test]
fn two_devices() {
    with_driver("devices::two_devices", "lazy=1,devices=2", || {
        let worlds = [0, 1, 1].map(|n| builder().cuda(n).build().unwrap());
        let fields = worlds.clone().map(|w| w.field::<f32, 1>("x", [8]).unwrap());
        for _ in 0..3 {
            for x in &fields {
                add_one(x).unwrap();
            }
        }
        for x in &fields {
            assert_eq!(x.get(7).unwrap(), 3.0);
        }
        let [a, b, _] = &fields;
        let error = both(a, b).unwrap_err();
        assert_eq!(error.code, "W0114");
        assert_eq!(error.message, "kernel `both` got fields of two worlds");
        let error = builder().cuda(2).build().unwrap_err();
        assert_eq!(error.message, "there is no CUDA device 2");
    });
}

#[test]
fn deterministic_worlds_are_rejected_on_a_gpu() {
    let name = "devices::deterministic_worlds_are_rejected_on_a_gpu";
    with_driver(name, "", || {
        let error = builder().deterministic(true).build().unwrap_err();
        assert_eq!(error.code, "W0525");
        assert_eq!(
            error.message,
            "a deterministic world is not supported on a GPU"
        );
    });
}

#[test]
fn streams_are_exposed() {
    let name = "devices::streams_are_exposed";
    with_driver(name, "", || {
        let worlds = [builder(), builder()].map(|b| b.build().unwrap());
        let [a, b] = worlds.each_ref().map(|w| w.cuda_stream().unwrap());
        assert!(a != 0 && a != b);
        assert_eq!(worlds[0].cuda_stream(), Some(a));
    });
}

#[test]
fn a_missing_libdevice_is_an_error() {
    let name = "devices::a_missing_libdevice_is_an_error";
    with_driver(name, "", || {
        let absent = wuji::LibdeviceChoice::At("absent.bc".into());
        let mut error = builder().libdevice(absent).build().unwrap_err();
        error.at = None;
        let page = wuji_ir::codes::find(error.code).unwrap().page;
        assert!(page.contains(&error.to_string()), "{error}");
        let off = builder().libdevice(wuji::LibdeviceChoice::Off);
        assert!(off.build().is_ok());
    });
}
