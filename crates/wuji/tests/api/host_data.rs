//! Copies between fields and host data: nested arrays, `ndarray`, images, other fields.

use ndarray::{Array2, ShapeBuilder, array, s};
use std::path::PathBuf;
use wuji::prelude::*;

fn world() -> World {
    World::builder().threads(2).build().unwrap()
}

#[test]
fn nested_arrays_go_in_and_out() {
    let world = world();
    let x = world.field::<i32, 3>("x", [2, 1, 3]).unwrap();
    x.copy_from_nested(&[[[1, 2, 3]], [[4, 5, 6]]]).unwrap();
    assert_eq!(x.get([1, 0, 2]).unwrap(), 6);
    assert_eq!(
        x.to_nested().unwrap(),
        vec![vec![vec![1, 2, 3]], vec![vec![4, 5, 6]]]
    );
    let line = world.field::<f32, 1>("line", 2).unwrap();
    line.copy_from_nested(&vec![1.5, 2.5]).unwrap();
    line.copy_from_nested(&[1.5, 2.5][..]).unwrap();
    assert_eq!(line.to_nested().unwrap(), vec![1.5, 2.5]);
}

#[test]
fn nested_arrays_of_other_shapes_are_refused() {
    let world = world();
    let x = world.field::<i32, 2>("x", [2, 3]).unwrap();
    let ragged = vec![vec![1, 2, 3], vec![4]];
    let error = x.copy_from_nested(&ragged).unwrap_err();
    assert_eq!(error.code, "W0112");
    assert!(
        error.message.contains("rows of different lengths"),
        "{error}"
    );
    let error = x.copy_from_nested(&[[1, 2], [3, 4], [5, 6]]).unwrap_err();
    assert!(
        error.message.contains("cannot take values of shape [3, 2]"),
        "{error}"
    );
    assert!(error.at.is_some_and(|at| at.file.ends_with("host_data.rs")));
    let none: Vec<Vec<i32>> = Vec::new();
    assert_eq!(x.copy_from_nested(&none).unwrap_err().code, "W0112");
    assert_eq!(x.to_vec().unwrap(), [0; 6]);
}

#[test]
fn arrays_of_ndarray_go_in_and_out_in_any_order() {
    let world = world();
    let x = world
        .layout(|root| root.dense(JI, [3, 2]).place::<f64, 2>("x"))
        .unwrap();
    let a = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    x.copy_from_ndarray(&a).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), a);
    let columns = Array2::from_shape_fn((2, 3).f(), |(i, j)| (10 * i + j) as f64);
    x.copy_from_ndarray(&columns).unwrap();
    assert_eq!(x.get([1, 2]).unwrap(), 12.0);
    x.copy_from_ndarray(&a.slice(s![.., ..;-1])).unwrap();
    assert_eq!(x.get([0, 0]).unwrap(), 3.0);
    let error = x.copy_from_ndarray(&a.t().to_owned()).unwrap_err();
    assert!(
        error.message.contains("cannot take an array of [3, 2]"),
        "{error}"
    );
}

#[kernel]
fn weigh(_world: &World, x: &Array<f32, 2>, y: &mut ArrayMut<f32, 2>) {
    for [i, j] in x {
        y[[i, j]] = x[[i, j]] + 100.0 * i as f32 + 10.0 * j as f32;
    }
}

#[test]
fn kernels_take_arrays_of_ndarray() {
    let world = world();
    let x = Array2::from_shape_fn((2, 3), |(i, j)| (i + j) as f32);
    let mut y = Array2::zeros((2, 3).f());
    weigh(
        &world,
        &Array::of_ndarray(&x).unwrap(),
        &mut ArrayMut::of_ndarray(&mut y).unwrap(),
    )
    .unwrap();
    assert_eq!(y, array![[0.0, 11.0, 22.0], [101.0, 112.0, 123.0]]);
    let mut upside = y.clone();
    upside.invert_axis(ndarray::Axis(0));
    let mut z = Array2::zeros((2, 3));
    match Array::of_ndarray(&upside) {
        // Whether memory that is read backwards counts as whole is up to `ndarray`.
        Ok(upside) => {
            weigh(&world, &upside, &mut ArrayMut::of_ndarray(&mut z).unwrap()).unwrap();
            assert_eq!(z[[0, 0]], 101.0);
        }
        Err(error) => assert_eq!(error.code, "W0111"),
    }
    let gaps = x.slice(s![.., ..;2]);
    let error = Array::of_ndarray(&gaps).unwrap_err();
    assert_eq!(error.code, "W0111");
    assert!(error.at.is_some_and(|at| at.file.ends_with("host_data.rs")));
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wuji-{}-{name}", std::process::id()))
}

#[test]
fn pictures_stand_upright() {
    let world = world();
    let path = file("upright.png");
    let rgb = world.field::<Vector<u8, 3>, 2>("rgb", [3, 2]).unwrap();
    rgb.set([0, 1], Vector::from([255, 0, 0])).unwrap();
    rgb.set([2, 0], Vector::from([0, 0, 255])).unwrap();
    rgb.save_png(&path).unwrap();
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((frame.width, frame.height), (3, 2));
    // Top left is [0, 1], bottom right [2, 0].
    assert_eq!(bytes[0..3], [255, 0, 0]);
    assert_eq!(bytes[15..18], [0, 0, 255]);
    let back = world.field::<Vector<u8, 3>, 2>("back", [3, 2]).unwrap();
    back.load_png(&path).unwrap();
    assert_eq!(back.to_vec().unwrap(), rgb.to_vec().unwrap());
    let gray = world.field::<f32, 2>("gray", [3, 2]).unwrap();
    gray.load_png(&path).unwrap();
    assert!((gray.get([0, 1]).unwrap() - 0.299).abs() < 0.01);
    let rgba = world.field::<Vector<f32, 4>, 2>("rgba", [3, 2]).unwrap();
    rgba.load_png(&path).unwrap();
    assert_eq!(
        rgba.get([0, 1]).unwrap(),
        Vector::from([1.0, 0.0, 0.0, 1.0])
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn non_finite_values_are_clamped_to_bytes() {
    let world = world();
    let path = file("wild.png");
    let gray = world.field::<f32, 2>("gray", [4, 1]).unwrap();
    gray.copy_from(&[f32::NAN, f32::INFINITY, -3.0, 0.5])
        .unwrap();
    gray.save_png(&path).unwrap();
    let back = world.field::<u8, 2>("back", [4, 1]).unwrap();
    back.load_png(&path).unwrap();
    assert_eq!(back.to_vec().unwrap(), [0, 255, 0, 128]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn pictures_that_cannot_be_had_are_errors() {
    let world = world();
    let gray = world.field::<f32, 2>("gray", [4, 1]).unwrap();
    let error = gray.save_png("/proc/none/x.png").unwrap_err();
    assert_eq!(error.code, "W0514");
    assert_eq!(gray.load_png("/proc/none/x.png").unwrap_err().code, "W0514");
    let path = file("bad.png");
    std::fs::write(&path, "no picture").unwrap();
    assert_eq!(gray.load_png(&path).unwrap_err().code, "W0514");
    world
        .field::<f32, 2>("small", [2, 2])
        .unwrap()
        .save_png(&path)
        .unwrap();
    let error = gray.load_png(&path).unwrap_err();
    assert!(
        error.notes[0].contains("it is 2 by 2 pixels, and field `gray` 4 by 1"),
        "{error}"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn fields_take_the_elements_of_others() {
    let (here, there) = (world(), World::interpreter().unwrap());
    let a = here.field::<i32, 2>("a", [4, 4]).unwrap();
    a.copy_from(&(0..16).collect::<Vec<_>>()).unwrap();
    let b = there
        .layout(|root| root.dense(JI, [4, 4]).place::<i32, 2>("b"))
        .unwrap();
    b.copy_from_field(&a).unwrap();
    assert_eq!(b.to_vec().unwrap(), a.to_vec().unwrap());
    let sparse = |name: &str| {
        here.layout(|root| root.pointer(IJ, 2).dense(IJ, 2).place::<i32, 2>(name))
            .unwrap()
    };
    let (p, q) = (sparse("p"), sparse("q"));
    p.set([0, 0], 7).unwrap();
    q.set([3, 3], 9).unwrap();
    q.copy_from_field(&p).unwrap();
    assert_eq!(q.get([0, 0]).unwrap(), 7);
    assert!(!q.is_active([3, 3]).unwrap());
    a.copy_from_field(&p).unwrap();
    assert_eq!(a.to_vec().unwrap().iter().sum::<i32>(), 7);
    let other = here.field::<i32, 2>("other", [4, 5]).unwrap();
    let error = other.copy_from_field(&a).unwrap_err();
    assert_eq!(error.code, "W0112");
}
