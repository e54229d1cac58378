//! Fields are filled and copied where they are.

use super::{builder, with_driver};
use wuji::prelude::*;

#[test]
fn fields_are_filled_and_copied_on_the_device() {
    let name = "copies::fields_are_filled_and_copied_on_the_device";
    with_driver(name, "lazy=1", || {
        let world = builder().build().unwrap();
        for n in [1, 7, 1000, 30_000] {
            let x = world.field::<Vec3, 1>("x", [n]).unwrap();
            let y = world.field::<Vec3, 1>("y", [n]).unwrap();
            let value = vec3(1.0, 2.0, 3.0);
            x.fill(value).unwrap();
            y.copy_from_field(&x).unwrap();
            x.fill(vec3(0.0, 0.0, 0.0)).unwrap();
            assert!(y.to_vec().unwrap().iter().all(|v| *v == value), "{n}");
            let nothing = vec3(0.0, 0.0, 0.0);
            assert!(x.to_vec().unwrap().iter().all(|v| *v == nothing), "{n}");
            x.copy_from_field(&x).unwrap();
        }
    });
}

#[test]
fn copies_preserve_other_fields() {
    let name = "copies::copies_preserve_other_fields";
    with_driver(name, "lazy=1", || {
        let world = builder().build().unwrap();
        let (x, y) = world
            .layout(|root| {
                let cell = root.dense(I, 100);
                (cell.place::<f32, 1>("x"), cell.place::<f32, 1>("y"))
            })
            .unwrap();
        y.fill(2.0).unwrap();
        x.fill(1.0).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1.0; 100]);
        assert_eq!(y.to_vec().unwrap(), [2.0; 100]);
        y.copy_from_field(&x).unwrap();
        y.set(3, 5.0).unwrap();
        assert_eq!(
            (x.get(3).unwrap(), y.get(3).unwrap(), y.get(4).unwrap()),
            (1.0, 5.0, 1.0)
        );
        // Of another world, or device, they come by the host.
        let other = builder().build().unwrap();
        let z = other.field::<f32, 1>("z", [100]).unwrap();
        z.copy_from_field(&y).unwrap();
        assert_eq!((z.get(3).unwrap(), z.get(99).unwrap()), (5.0, 1.0));
    });
}
