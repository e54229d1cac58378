//! Fields as images, and images as fields.

use wuji::prelude::*;
use wuji::viewer::{Particles, Picture, Viewer};

fn world() -> World {
    World::interpreter().expect("a world")
}

/// Red grows to the right, green grows up.
fn colors() -> Picture {
    Picture::from_fn(6, 4, |x, y| [x as u8 * 40, (3 - y) as u8 * 80, 10])
}

#[test]
fn the_first_index_goes_right_and_the_second_up() {
    let world = world();
    let field = world.field::<Vec3, 2>("pixels", [6, 4]).unwrap();
    field.copy_from_picture(&colors()).unwrap();
    let pixel = field.get([5, 0]).unwrap() * 255.0;
    assert_eq!(pixel.round(), vec3(200.0, 0.0, 10.0));
    assert_eq!(field.get([0, 3]).unwrap().y, 240.0 / 255.0);
    assert_eq!(field.to_picture().unwrap(), colors());

    let bytes = world.field::<Vector<u8, 3>, 2>("bytes", [6, 4]).unwrap();
    bytes.copy_from_picture(&colors()).unwrap();
    assert_eq!(bytes.to_picture().unwrap(), colors());
}

#[test]
fn gray_is_how_bright_a_colour_is() {
    let world = world();
    let white = Picture::from_fn(3, 2, |x, _| [[255; 3], [0; 3], [0, 255, 0]][x]);
    let gray = world.field::<f32, 2>("gray", [3, 2]).unwrap();
    gray.copy_from_picture(&white).unwrap();
    assert_eq!(gray.to_vec().unwrap()[..4], [1.0, 1.0, 0.0, 0.0]);
    let byte = world.field::<u8, 2>("byte", [3, 2]).unwrap();
    byte.copy_from_picture(&white).unwrap();
    assert_eq!(byte.get([2, 0]).unwrap(), 150);
    gray.copy_from(&[-1.0, 2.0, f32::NAN, f32::INFINITY, 0.5, 0.0])
        .unwrap();
    let picture = gray.to_picture().unwrap();
    let expected: [u8; 6] = [255, 255, 0, 0, 0, 128];
    assert_eq!(picture.pixels, expected.map(|g| [g; 3]));
}

#[test]
fn a_picture_of_another_size_is_an_error() {
    let field = world().field::<f32, 2>("gray", [4, 6]).unwrap();
    let error = field.copy_from_picture(&colors()).unwrap_err().to_string();
    assert!(
        error.contains("W0112") && error.contains("6x4") && error.contains("4x6"),
        "{error}"
    );
    assert!(error.contains("viewer.rs"), "{error}");
}

#[test]
fn unwritable_files_are_errors() {
    let field = world().field::<f32, 2>("gray", [4, 6]).unwrap();
    let viewer = Viewer::builder("x")
        .headless(true)
        .quiet()
        .record("/proc/none/x-#.png");
    let error = viewer
        .build()
        .unwrap()
        .show(&field)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("W0514") && error.contains("/proc/none"),
        "{error}"
    );
}

#[test]
fn fields_and_particles_are_frames() {
    let world = world();
    let folder = std::env::temp_dir().join(format!("wuji-viewer-{}", std::process::id()));
    let path = folder.join("x-#.png");
    let viewer = Viewer::builder("x")
        .headless(true)
        .quiet()
        .record(&path)
        .frames(2);
    let mut viewer = viewer.build().unwrap();
    let field = world.field::<f32, 2>("gray", [64, 64]).unwrap();
    field.fill(0.5).unwrap();
    viewer.show(&field).unwrap();
    let x = world.field::<Vec2, 1>("x", 2).unwrap();
    x.copy_from(&[vec2(0.25, 0.75), vec2(f32::NAN, 9.0)])
        .unwrap();
    let colors = world.field::<Vec3, 1>("colors", 2).unwrap();
    colors.fill(vec3(1.0, 0.0, 0.0)).unwrap();
    viewer
        .show(&Particles::new(&x).size(64).radius(0.1).colors(&colors))
        .unwrap();
    assert!(!viewer.is_open());
    viewer.finish().unwrap();
    let gray = Picture::load_png(&folder.join("x-0.png")).unwrap();
    assert!(gray.pixels.iter().all(|p| *p == [128; 3]));
    let dots = Picture::load_png(&folder.join("x-1.png")).unwrap();
    let [red, green, _] = dots.pixels[16 * 64 + 16];
    assert!(red > 150 && green < 80, "{red} {green}");
    std::fs::remove_dir_all(folder).unwrap();
}
