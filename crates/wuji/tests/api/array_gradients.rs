//! Gradients of array arguments.

use wuji::prelude::*;
use wuji::{Result, StepPlan};

fn worlds() -> [World; 2] {
    [
        World::builder().threads(2).build().unwrap(),
        World::interpreter().unwrap(),
    ]
}

fn code<T>(result: Result<T>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => error.code,
    }
}

fn array(world: &World, name: &str, values: &[f64]) -> NdArray<f64, 1> {
    let array = world.nd_array::<f64, 1>(name, values.len()).unwrap();
    array.copy_from(values).unwrap();
    array.needs_grad().unwrap()
}

fn loss(world: &World) -> Field<f64, 0> {
    world.scalar("loss").unwrap().needs_grad().unwrap()
}

fn gradient(array: &NdArray<f64, 1>) -> Vec<f64> {
    array.grad().unwrap().to_vec().unwrap()
}

#[kernel(grad)]
fn product(x: &NdArray<f64, 1>, y: &NdArray<f64, 1>, z: &NdArray<f64, 1>) {
    for [i] in x {
        z[[i]] = x[[i]] * y[[i]];
    }
}

#[kernel]
fn total(x: &NdArray<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += x[[i]];
    }
}

#[kernel(grad)]
fn double_in_place(x: &NdArray<f64, 1>) {
    for [i] in x {
        x[[i]] = 2.0 * x[[i]];
    }
}

#[kernel]
fn step(x: &NdArray<f64, 1>) {
    for [i] in x {
        x[[i]] = x[[i]] * x[[i]];
    }
}

#[test]
fn an_array_of_a_world_is_read_and_written_by_the_host_and_by_kernels() {
    #[kernel]
    fn transpose(x: &NdArray<Vec3, 2>, y: &NdArray<Vec3, 2>) {
        for [i, j] in x {
            y[[j, i]] = x[[i, j]] * (x.shape()[1] as f32);
        }
    }
    for world in worlds() {
        // An odd shape has no gaps either.
        let x = world.nd_array::<Vec3, 2>("x", [3, 5]).unwrap();
        let y = world.nd_array::<Vec3, 2>("y", [5, 3]).unwrap();
        let values: Vec<Vec3> = (0..15).map(|n| vec3(n as f32, 1.0, 2.0)).collect();
        x.copy_from(&values).unwrap();
        transpose(&x, &y).unwrap();
        assert_eq!(y.get([3, 2]).unwrap(), vec3(65.0, 5.0, 10.0));
        y.set([0, 0], vec3(1.0, 2.0, 3.0)).unwrap();
        y.fill(vec3(1.0, 1.0, 1.0)).unwrap();
        assert_eq!(y.to_vec().unwrap(), [vec3(1.0, 1.0, 1.0); 15]);
        assert_eq!(x.to_vec().unwrap(), values);
        assert_eq!(x.shape().unwrap(), [3, 5]);
        assert_eq!(code(x.get([3, 0])), "W0111");
    }
}

#[test]
fn a_tape_computes_gradients_of_arrays() {
    for world in worlds() {
        let (x, y) = (
            array(&world, "x", &[1.0, 2.0, 3.0]),
            array(&world, "y", &[4.0, 5.0, 6.0]),
        );
        let (z, loss) = (array(&world, "z", &[0.0; 3]), loss(&world));
        for _ in 0..2 {
            // The second tape starts with gradients of zero.
            let run = || product(&x, &y, &z).and_then(|()| total(&z, &loss));
            world.tape(&loss, run).unwrap();
        }
        assert_eq!(gradient(&x), [4.0, 5.0, 6.0]);
        assert_eq!(gradient(&y), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn one_array_as_two_arguments_gets_both_parts_of_the_gradient() {
    for world in worlds() {
        let (x, z) = (
            array(&world, "x", &[3.0, 4.0]),
            array(&world, "z", &[0.0; 2]),
        );
        product(&x, &x, &z).unwrap();
        z.grad().unwrap().fill(1.0).unwrap();
        product::grad(&x, &x, &z).unwrap();
        assert_eq!(gradient(&x), [6.0, 8.0]);
        // It is written to as well: the old values are needed, which a launch of its own has lost.
        let loss = loss(&world);
        let run = || product(&x, &x, &x).and_then(|()| total(&x, &loss));
        world.tape(&loss, run).unwrap();
        assert_eq!(gradient(&x), [6.0, 8.0]);
        assert_eq!(x.to_vec().unwrap(), [9.0, 16.0]);
    }
}

#[test]
fn a_gradient_kernel_ends_the_adjoint_of_an_overwritten_element() {
    for world in worlds() {
        let x = array(&world, "x", &[1.0, 1.0]);
        double_in_place(&x).unwrap();
        x.grad().unwrap().fill(1.0).unwrap();
        double_in_place::grad(&x).unwrap();
        assert_eq!(gradient(&x), [2.0, 2.0]);
    }
}

#[test]
fn a_tape_saves_overwritten_arrays() {
    for world in worlds() {
        let (x, loss) = (array(&world, "x", &[3.0, 2.0]), loss(&world));
        let tape = world
            .record_tape(|| {
                step(&x)?;
                step(&x)?;
                total(&x, &loss)
            })
            .unwrap();
        let saved = tape.saved();
        assert_eq!(saved.len(), 2);
        assert_eq!((saved[0].name.as_str(), saved[0].bytes), ("x", 16));
        assert!(saved[0].needed_at.is_some() && saved[0].overwritten_at.is_some());
        loss.grad().unwrap().fill(1.0).unwrap();
        tape.backward().unwrap();
        assert_eq!(gradient(&x), [4.0 * 27.0, 4.0 * 8.0]);
        assert_eq!(x.to_vec().unwrap(), [81.0, 16.0]);
    }
}

#[test]
fn the_host_ends_the_adjoints_of_an_array() {
    for world in worlds() {
        let (x, loss) = (array(&world, "x", &[3.0, 2.0]), loss(&world));
        let run = || {
            step(&x)?;
            total(&x, &loss)?;
            x.fill(5.0)?;
            total(&x, &loss)
        };
        world.tape(&loss, run).unwrap();
        assert_eq!(gradient(&x), [6.0, 4.0]);
        let run = || total(&x, &loss).and_then(|()| x.set(0, 1.0));
        assert_eq!(code(world.tape(&loss, run)), "W0738");
    }
}

#[test]
fn a_constant_array_needs_no_gradient() {
    for world in worlds() {
        let x = array(&world, "x", &[1.0, 2.0]);
        let y = world.nd_array::<f64, 1>("y", 2).unwrap();
        y.fill(7.0).unwrap();
        let (z, loss) = (array(&world, "z", &[0.0; 2]), loss(&world));
        let run = || product(&x, &y, &z).and_then(|()| total(&z, &loss));
        world.tape(&loss, run).unwrap();
        assert_eq!(gradient(&x), [7.0, 7.0]);
        assert_eq!(code(y.grad()), "W0730");
        assert!(!y.has_grad());
    }
}

#[test]
fn forward_mode_computes_duals_of_arrays_in_several_directions() {
    for world in worlds() {
        let make = |name: &str, value: f64| {
            let array = world.nd_array::<f64, 1>(name, 2).unwrap();
            array.fill(value).unwrap();
            array.needs_duals(2).unwrap()
        };
        let (x, y, z) = (make("x", 3.0), make("y", 5.0), make("z", 0.0));
        x.dual_in(0).unwrap().fill(1.0).unwrap();
        y.dual_in(1).unwrap().fill(1.0).unwrap();
        world.forward_mode(|| product(&x, &y, &z)).unwrap();
        assert_eq!(z.to_vec().unwrap(), [15.0; 2]);
        assert_eq!(z.dual().unwrap().to_vec().unwrap(), [5.0; 2]);
        assert_eq!(z.dual_in(1).unwrap().to_vec().unwrap(), [3.0; 2]);
    }
}

#[test]
fn a_product_with_the_hessian_of_an_array_is_a_tape_in_forward_mode() {
    for world in worlds() {
        let x = array(&world, "x", &[2.0, 3.0]).needs_dual().unwrap();
        x.grad().unwrap().needs_dual().unwrap();
        let loss = loss(&world).needs_dual().unwrap();
        loss.grad().unwrap().needs_dual().unwrap();
        let y = array(&world, "y", &[0.0; 2]).needs_dual().unwrap();
        y.grad().unwrap().needs_dual().unwrap();
        x.dual().unwrap().fill(1.0).unwrap();
        let run = || product(&x, &x, &y).and_then(|()| total(&y, &loss));
        world.forward_mode(|| world.tape(&loss, run)).unwrap();
        assert_eq!(gradient(&x), [4.0, 6.0]);
        let dual = x.grad().unwrap().dual().unwrap().to_vec().unwrap();
        assert_eq!(dual, [2.0, 2.0]);
    }
}

#[test]
fn arrays_are_part_of_the_state_of_many_steps() {
    for world in worlds() {
        let (x, loss) = (array(&world, "x", &[1.1, 0.9]), loss(&world));
        let plan = StepPlan::from(2);
        let steps = |t: usize| {
            step(&x)?;
            if t == 5 { total(&x, &loss) } else { Ok(()) }
        };
        let report = world.tape_steps(&loss, 6, plan, steps).unwrap();
        assert!(report.runs > 6, "{report}");
        for (found, x) in gradient(&x).iter().zip([1.1f64, 0.9]) {
            let expected = 64.0 * x.powi(63);
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        }
    }
}

#[test]
fn gradients_of_arrays_agree_with_differences() {
    #[kernel]
    fn waves(x: &NdArray<f64, 1>, loss: &NdArray<f64, 0>) {
        for [i] in x {
            loss[[]] += x[[i]].sin() * x[[(i + 1) % 4]];
        }
    }
    for world in worlds() {
        let x = array(&world, "x", &[0.1, 0.7, -0.4, 1.3]);
        let loss = world.nd_array::<f64, 0>("loss", 1).unwrap();
        let loss = loss.needs_grad().unwrap();
        let report = world.grad_check(&loss, &[&x], || waves(&x, &loss)).unwrap();
        assert!(report.error < 1e-6, "{report}");
    }
}

#[test]
fn arrays_of_a_world_are_in_graphs() {
    for world in worlds() {
        let x = array(&world, "x", &[1.0, 3.0]);
        let graph = world.record(|| double_in_place(&x)).unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        assert_eq!(x.to_vec().unwrap(), [4.0, 12.0]);
    }
}

mod errors {
    use super::*;

    #[test]
    fn a_host_array_cannot_be_on_a_tape() {
        #[kernel]
        fn weigh(x: &NdArray<f64, 1>, by: &[f64], loss: &Field<f64, 0>) {
            for [i] in x {
                loss[[]] += x[[i]] * by[i];
            }
        }
        let world = World::interpreter().unwrap();
        let (x, loss) = (array(&world, "x", &[1.0, 2.0]), loss(&world));
        let error = world
            .tape(&loss, || weigh(&x, &[1.0, 1.0], &loss))
            .unwrap_err();
        assert_eq!(error.code, "W0735");
        assert!(error.to_string().contains("NdArray"), "{error}");
    }

    #[test]
    fn values_from_before_and_after_a_kernel_are_refused() {
        #[kernel]
        fn both(x: &NdArray<f64, 1>, y: &NdArray<f64, 1>) {
            for [i] in y {
                let a = x[[i]];
                x[[i]] = a * a;
                y[[i]] = x[[0]] * x[[0]];
            }
        }
        let world = World::interpreter().unwrap();
        let (x, y) = (array(&world, "x", &[1.0]), array(&world, "y", &[0.0]));
        assert_eq!(code(world.record_tape(|| both(&x, &y))), "W0736");
    }

    #[test]
    fn arrays_of_two_worlds_are_refused() {
        let (one, other) = (World::interpreter().unwrap(), World::interpreter().unwrap());
        let (x, y) = (array(&one, "x", &[1.0]), array(&other, "y", &[1.0]));
        assert_eq!(code(product(&x, &y, &y)), "W0114");
        assert_eq!(code(x.set_grad(&y)), "W0731");
        let counts = one.nd_array::<i32, 1>("n", 3).unwrap();
        assert_eq!(code(counts.needs_grad()), "W0732");
    }

    #[test]
    fn an_array_of_a_closed_world_is_refused() {
        let world = World::cpu().unwrap();
        let (x, z) = (array(&world, "x", &[1.0]), array(&world, "z", &[0.0]));
        world.close();
        assert!(product(&x, &x, &z).is_err());
        assert!(x.to_vec().is_err());
    }
}
