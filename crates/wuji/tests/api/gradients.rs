//! Gradients across kernels: adjoints of fields, gradient kernels, tapes.

use crate::backend::worlds;
use wuji::prelude::*;
use wuji::{Error, Result};

fn code<T>(result: Result<T>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => error.code,
    }
}

mod storage {
    use super::*;

    #[test]
    fn a_gradient_has_the_structure_of_its_field() {
        let world = World::interpreter().unwrap();
        let x = world.layout(|root| {
            let cell = root.pointer(IJ, [4, 2]).dense(IJ, 2).morton();
            cell.offset([-3, 7]).place::<f32, 2>("x")
        });
        let x = x.unwrap().needs_grad().unwrap();
        let g = x.grad().unwrap();
        assert_eq!(g.name(), "x.grad");
        assert_eq!((g.shape(), g.offset()), (x.shape(), x.offset()));
        assert_ne!(g.tree(), x.tree());
        g.set([-3, 7], 2.0).unwrap();
        assert_eq!(g.count_active().unwrap(), 4);
        assert_eq!(x.count_active().unwrap(), 0);
        // Once more changes nothing.
        assert_eq!(x.needs_grad().unwrap().grad().unwrap(), g);
    }

    #[test]
    fn a_gradient_of_an_unbounded_field_is_unbounded() {
        let world = World::interpreter().unwrap();
        let x = world.layout(|root| {
            let block = root.hash(I);
            (
                block.dense(I, 8).place::<f32, 1>("x"),
                block.dense(I, 16).place::<f32, 1>("y"),
            )
        });
        let x = x.unwrap().0.needs_grad().unwrap();
        let g = x.grad().unwrap();
        assert_eq!((g.shape(), g.offset()), (x.shape(), x.offset()));
        g.set(-1_000_000, 1.0).unwrap();
        assert_eq!(code(g.to_vec()), "W0129");
    }

    #[test]
    fn lazy_gradients_lie_beside_their_fields() {
        let world = World::interpreter().unwrap();
        let (x, n, v) = world
            .layout(|root| {
                let cells = root.dense(I, 8);
                let fields = (
                    cells.offset([-4]).place::<f32, 1>("x"),
                    cells.place::<i32, 1>("n"),
                    root.place::<DVec3, 0>("v"),
                );
                root.lazy_grad().lazy_grad().lazy_dual();
                fields
            })
            .unwrap();
        assert_eq!(x.grad().unwrap().tree(), x.tree());
        assert_eq!(x.grad().unwrap().offset().unwrap(), [-4]);
        assert_eq!(x.dual().unwrap().name(), "x.dual");
        assert_eq!(v.grad().unwrap().name(), "v.grad");
        assert_eq!(code(n.grad()), "W0730");
        assert!(!n.has_grad());
        assert_eq!(code(x.grad().unwrap().grad()), "W0730");
    }

    #[test]
    fn a_gradient_of_ones_own_has_the_same_type_and_extents() {
        let world = World::interpreter().unwrap();
        let other = World::interpreter().unwrap();
        let x = world.field::<f32, 1>("x", 8).unwrap();
        let g = world
            .layout(|root| root.bitmasked(I, 8).place("g"))
            .unwrap();
        x.set_grad(&g).unwrap();
        assert_eq!(x.grad().unwrap(), g);
        assert_eq!(code(x.set_grad(&x)), "W0731");
        assert_eq!(code(g.set_grad(&x)), "W0731");
        assert_eq!(code(x.set_grad(&world.field("y", 9).unwrap())), "W0731");
        assert_eq!(code(x.set_grad(&other.field("y", 8).unwrap())), "W0731");
        let n = world.field::<i32, 1>("n", 8).unwrap();
        assert_eq!(code(n.needs_grad()), "W0732");
    }

    #[test]
    fn gradients_live_with_their_field() {
        let world = World::cpu().unwrap();
        let x = world.field::<f32, 1>("x", 1000).unwrap();
        let x = x.needs_grad().unwrap().needs_duals(2).unwrap();
        let both = world.layout(|root| {
            let y = root.dense(I, 1000).place::<f32, 1>("y");
            root.lazy_grad();
            y
        });
        let y = both.unwrap();
        x.grad().unwrap().grad().unwrap_err();
        assert_eq!(world.memory_used(), 6 * 4000);
        assert!(x.dual_in(1).is_ok() && x.dual_in(2).is_err());
        drop((x, y));
        assert_eq!(world.memory_used(), 0);
    }

    #[test]
    fn gradients_are_cleared_in_any_layout() {
        for world in worlds() {
            let x = world.field::<Vec3, 1>("x", 100).unwrap();
            let x = x.needs_grad().unwrap();
            let (y, z) = world
                .layout(|root| {
                    let cells = root.pointer(I, 8).dense(I, 4);
                    let fields = (cells.place::<f64, 1>("y"), cells.place::<f32, 1>("z"));
                    root.lazy_grad();
                    fields
                })
                .unwrap();
            x.grad().unwrap().fill(Vec3::splat(1.0)).unwrap();
            y.grad().unwrap().set(17, 2.0).unwrap();
            y.set(17, 5.0).unwrap();
            z.grad().unwrap().set(18, 3.0).unwrap();
            z.clear_grad().unwrap();
            assert_eq!(z.grad().unwrap().get(18).unwrap(), 0.0);
            assert_eq!(y.grad().unwrap().get(17).unwrap(), 2.0);
            world.clear_gradients().unwrap();
            assert_eq!(x.grad().unwrap().to_vec().unwrap(), [Vec3::splat(0.0); 100]);
            assert_eq!(y.grad().unwrap().get(17).unwrap(), 0.0);
            assert_eq!(y.get(17).unwrap(), 5.0);
            x.grad().unwrap().tree().destroy();
            world.clear_gradients().unwrap();
        }
    }
}

#[kernel]
fn square(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = x[[i]] * x[[i]];
    }
}

#[kernel]
fn total(x: &Field<f32, 1>, loss: &Field<f32, 0>) {
    for [i] in x {
        loss[[]] += x[[i]];
    }
}

fn field(world: &World, name: &str, n: u64) -> Field<f32, 1> {
    let field = world.field::<f32, 1>(name, n).unwrap();
    field.needs_grad().unwrap()
}

fn loss(world: &World) -> Field<f32, 0> {
    world.scalar("loss").unwrap().needs_grad().unwrap()
}

fn values(field: &Field<f32, 1>) -> Vec<f32> {
    field.grad().unwrap().to_vec().unwrap()
}

mod tapes {
    use super::*;

    #[test]
    fn a_gradient_kernel_runs_on_request() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 4), field(&world, "y", 4));
            x.copy_from(&[1.0, 2.0, 3.0, 4.0]).unwrap();
            square(&x, &y).unwrap();
            y.grad().unwrap().fill(10.0).unwrap();
            world.grad(|| square(&x, &y)).unwrap();
            assert_eq!(values(&x), [20.0, 40.0, 60.0, 80.0]);
            // Once more adds to it.
            world.grad(|| square(&x, &y)).unwrap();
            assert_eq!(values(&x), [40.0, 80.0, 120.0, 160.0]);
        }
    }

    #[test]
    fn a_tape_runs_gradients_in_reverse_order() {
        for world in worlds() {
            let (x, y, z) = (
                field(&world, "x", 3),
                field(&world, "y", 3),
                field(&world, "z", 3),
            );
            let loss = loss(&world);
            x.copy_from(&[1.0, 2.0, 3.0]).unwrap();
            x.grad().unwrap().fill(100.0).unwrap();
            let n = world
                .tape(&loss, || {
                    square(&x, &y)?;
                    square(&y, &z)?;
                    total(&z, &loss)?;
                    Ok(7)
                })
                .unwrap();
            assert_eq!(n, 7);
            assert_eq!(loss.get(()).unwrap(), 98.0);
            assert_eq!(values(&x), [4.0, 32.0, 108.0]);
            assert_eq!(values(&y), [2.0, 8.0, 18.0]);
        }
    }

    #[test]
    fn several_outputs_have_seeds_of_their_own() {
        for world in worlds() {
            let (x, y, z) = (
                field(&world, "x", 2),
                field(&world, "y", 2),
                field(&world, "z", 2),
            );
            x.copy_from(&[1.0, 2.0]).unwrap();
            let tape = world
                .record_tape(|| {
                    square(&x, &y)?;
                    square(&x, &z)
                })
                .unwrap();
            assert_eq!((tape.len(), tape.saved()), (2, Vec::new()));
            y.grad().unwrap().copy_from(&[1.0, 0.0]).unwrap();
            z.grad().unwrap().copy_from(&[0.0, 5.0]).unwrap();
            tape.backward().unwrap();
            assert_eq!(values(&x), [2.0, 20.0]);
        }
    }

    #[test]
    fn paused_launches_have_no_gradient() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.fill(3.0).unwrap();
            world
                .tape(&loss, || {
                    world.no_grad(|| square(&x, &y))?;
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(values(&y), [1.0, 1.0]);
            assert_eq!(values(&x), [0.0, 0.0]);
        }
    }

    #[test]
    fn a_custom_gradient_replaces_that_of_its_kernels() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.fill(3.0).unwrap();
            let (x2, y2) = (x.clone(), y.clone());
            world
                .tape(&loss, || {
                    let backward = move || x2.grad()?.copy_from(&y2.grad()?.to_vec()?);
                    world.custom_grad(|| square(&x, &y), backward)?;
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(values(&x), [1.0, 1.0]);
            assert_eq!(y.to_vec().unwrap(), [9.0, 9.0]);
        }
    }

    #[test]
    fn wrong_use_of_tapes_is_reported() {
        let world = World::interpreter().unwrap();
        let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
        let plain = world.scalar::<f32>("plain").unwrap();
        assert_eq!(code(world.tape(&plain, || Ok(()))), "W0730");
        assert_eq!(code(world.tape(&x, || Ok(()))), "W0733");
        let count = world.scalar::<i32>("count").unwrap();
        assert_eq!(code(world.tape(&count, || Ok(()))), "W0733");
        let graph = world.record(|| world.tape(&loss, || Ok(())));
        assert_eq!(code(graph.map(|_| ())), "W0134");
        let graph = world.record(|| world.record_tape(|| Ok(())).map(|_| ()));
        assert_eq!(code(graph.map(|_| ())), "W0734");
        let inside = world.grad(|| world.record_tape(|| Ok(())).map(|_| ()));
        assert_eq!(code(inside), "W0734");
        let failed = world.tape(&loss, || -> Result<()> {
            square(&x, &y)?;
            Err(Error::new("W0001", "stop"))
        });
        assert_eq!(code(failed), "W0001");
        // The tape is over, so this is not recorded.
        square(&x, &y).unwrap();
        assert_eq!(world.record_tape(|| Ok(())).unwrap().len(), 0);
        let tape = world.record_tape(|| square(&x, &y)).unwrap();
        x.grad().unwrap().tree().destroy();
        assert_eq!(code(tape.backward()), "W0131");
    }
}

mod saves {
    use super::*;

    #[kernel]
    fn square_in_place(x: &Field<f32, 1>) {
        for [i] in x {
            x[[i]] = x[[i]] * x[[i]];
        }
    }

    #[kernel]
    fn add(x: &Field<f32, 1>, y: &Field<f32, 1>) {
        for [i] in x {
            y[[i]] = y[[i]] + x[[i]];
        }
    }

    #[kernel]
    fn multiply(x: &Field<f32, 1>, y: &Field<f32, 1>) {
        for [i] in x {
            y[[i]] = y[[i]] * x[[i]];
        }
    }

    #[test]
    fn values_that_a_gradient_needs_are_saved_before_they_are_overwritten() {
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 2), loss(&world));
            x.copy_from(&[1.0, 1.5]).unwrap();
            world
                .tape(&loss, || {
                    for _ in 0..3 {
                        square_in_place(&x)?;
                    }
                    total(&x, &loss)
                })
                .unwrap();
            // The derivative of x^8.
            assert_eq!(values(&x), [8.0, 8.0 * 1.5f32.powi(7)]);
            // Fields have the values that they had before the gradients ran.
            assert_eq!(x.to_vec().unwrap(), [1.0, 1.5f32.powi(8)]);
        }
    }

    #[test]
    fn a_tape_can_run_backward_twice() {
        let world = World::interpreter().unwrap();
        let x = field(&world, "x", 1);
        x.fill(2.0).unwrap();
        let tape = world
            .record_tape(|| {
                square_in_place(&x)?;
                square_in_place(&x)
            })
            .unwrap();
        for _ in 0..2 {
            x.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(values(&x), [32.0]);
        }
        let saved = tape.saved();
        assert_eq!(saved.len(), 2);
        assert_eq!((&*saved[0].name, saved[0].bytes), ("x", 4));
        assert!(saved[0].needed_at.is_some() && saved[0].overwritten_at.is_some());
    }

    #[test]
    fn linear_kernels_need_no_copies() {
        let world = World::interpreter().unwrap();
        let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
        let tape = world.record_tape(|| {
            add(&x, &y)?;
            add(&y, &x)?;
            add(&x, &y)
        });
        let tape = tape.unwrap();
        assert!(tape.saved().is_empty());
        y.grad().unwrap().fill(1.0).unwrap();
        tape.backward().unwrap();
        assert_eq!((values(&x), values(&y)), (vec![3.0; 2], vec![2.0; 2]));
    }

    #[test]
    fn every_launch_gets_the_version_that_it_needs() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 1), field(&world, "y", 1), loss(&world));
            x.fill(2.0).unwrap();
            y.fill(3.0).unwrap();
            // y = x y; x = x^2 or more, in turn: the loss is 3 * 2 * 4 * 16.
            world
                .tape(&loss, || {
                    multiply(&x, &y)?;
                    square_in_place(&x)?;
                    multiply(&x, &y)?;
                    square_in_place(&x)?;
                    multiply(&x, &y)?;
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(loss.get(()).unwrap(), 384.0);
            // 3 x^7 and x^7.
            assert_eq!(
                (values(&x), values(&y)),
                (vec![3.0 * 7.0 * 64.0], vec![128.0])
            );
        }
    }

    #[kernel]
    fn step(x: &Field<f32, 2>, t: i32) {
        for i in 0..x.shape()[1] {
            x[[t + 1, i]] = x[[t, i]] * x[[t, i]];
        }
    }

    #[kernel]
    fn sum(x: &Field<f32, 2>, loss: &Field<f32, 0>, t: i32) {
        for i in 0..x.shape()[1] {
            loss[[]] += x[[t, i]];
        }
    }

    #[test]
    fn a_history_axis_needs_no_copies() {
        for world in worlds() {
            let x = world.field::<f32, 2>("x", [5, 3]).unwrap();
            let (x, loss) = (x.needs_grad().unwrap(), loss(&world));
            x.fill(1.0).unwrap();
            let tape = world
                .record_tape(|| {
                    for t in 0..4 {
                        step(&x, t)?;
                    }
                    sum(&x, &loss, 4)
                })
                .unwrap();
            assert!(tape.saved().is_empty());
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(x.grad().unwrap().get([0, 1]).unwrap(), 16.0);
            assert_eq!(x.grad().unwrap().get([3, 1]).unwrap(), 2.0);
        }
    }

    #[test]
    fn copies_have_a_limit() {
        let world = World::interpreter().unwrap();
        let x = field(&world, "x", 100);
        world.set_tape_memory_limit(1000);
        let error = world.record_tape(|| {
            for _ in 0..3 {
                square_in_place(&x)?;
            }
            Ok(())
        });
        let error = error.unwrap_err();
        assert_eq!(error.code, "W0737");
        assert!(error.message.contains("`x`"), "{error}");
        assert!(
            error.at.is_some() && error.notes[0].contains("gradients.rs:"),
            "{error}"
        );
    }

    #[test]
    fn copies_of_sparse_fields_keep_their_cells() {
        for world in worlds() {
            let x = world
                .layout(|root| {
                    let x = root.pointer(I, 4).dense(I, 2).place::<f32, 1>("x");
                    root.lazy_grad();
                    x
                })
                .unwrap();
            let loss = loss(&world);
            x.set(5, 3.0).unwrap();
            world
                .tape(&loss, || {
                    square_in_place(&x)?;
                    square_in_place(&x)?;
                    total(&x, &loss)
                })
                .unwrap();
            assert_eq!(x.grad().unwrap().get(5).unwrap(), 108.0);
            assert_eq!((x.get(5).unwrap(), x.count_active().unwrap()), (81.0, 2));
        }
    }

    #[test]
    fn many_launches_take_little_memory() {
        let world = World::builder().threads(1).build().unwrap();
        let (x, loss) = (field(&world, "x", 1), loss(&world));
        world
            .tape(&loss, || {
                for _ in 0..20_000 {
                    total(&x, &loss)?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(values(&x), [20_000.0]);
    }

    #[test]
    fn steps_are_computed_again_from_copies() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            for slots in [0, 1, 3, 100] {
                x.copy_from(&[1.0, 1.001]).unwrap();
                y.fill(1.0).unwrap();
                loss.fill(0.0).unwrap();
                let report = world
                    .tape_steps(&loss, 10, slots, |t| {
                        if t % 2 == 0 {
                            square_in_place(&x)?;
                        } else {
                            multiply(&x, &y)?;
                        }
                        if t == 9 { total(&y, &loss) } else { Ok(()) }
                    })
                    .unwrap();
                // The product of x^2, x^4, .. x^32 is x^62.
                assert_eq!(values(&x)[0], 62.0);
                assert!((values(&x)[1] - 62.0 * 1.001f32.powi(61)).abs() < 1e-3);
                assert_eq!(y.get(0).unwrap(), 1.0);
                assert_eq!(loss.get(()).unwrap(), 1.0 + y.get(1).unwrap());
                assert!(report.copies <= slots + 2, "{report:?}");
                assert!(
                    report.runs >= 10 && (slots > 0 || report.runs == 55),
                    "{report:?}"
                );
                assert_eq!(report.state_bytes, 20);
            }
            assert_eq!(code(world.tape_steps(&x, 1, 1, |_| Ok(()))), "W0733");
            let nested =
                world.record_tape(|| world.tape_steps(&loss, 1, 1, |_| Ok(())).map(|_| ()));
            assert_eq!(code(nested), "W0734");
        }
    }
}

mod gradient_kernels {
    use super::*;

    #[kernel(grad)]
    fn scale<T: Float>(x: &Field<T, 1>, y: &Field<T, 1>, mut by: T) -> i32 {
        by = by + by;
        for [i] in x {
            y[[i]] = x[[i]] * by;
        }
        7
    }

    #[test]
    fn a_kernel_has_a_gradient_of_its_own_name() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            assert_eq!(scale::<f32>(&x, &y, 3.0).unwrap(), 7);
            y.grad().unwrap().fill(1.0).unwrap();
            scale::grad::<f32>(&x, &y, 3.0).unwrap();
            assert_eq!(values(&x), [6.0, 6.0]);
            // The next launch is a plain one again.
            assert_eq!(scale::<f32>(&x, &y, 3.0).unwrap(), 7);
            assert_eq!(values(&x), [6.0, 6.0]);
        }
    }
}

mod host_writes {
    use super::*;

    #[kernel]
    fn multiply(x: &Field<f32, 1>, y: &Field<f32, 1>) {
        for [i] in x {
            y[[i]] = y[[i]] * x[[i]];
        }
    }

    #[test]
    fn what_the_host_overwrites_is_saved_and_constant() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.fill(2.0).unwrap();
            let tape = world
                .record_tape(|| {
                    y.fill(1.0)?;
                    multiply(&x, &y)?;
                    x.copy_from(&[5.0, 7.0])?;
                    multiply(&x, &y)?;
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(y.to_vec().unwrap(), [10.0, 14.0]);
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            // With respect to the x before the copy.
            assert_eq!(values(&x), [5.0, 7.0]);
            assert_eq!(x.to_vec().unwrap(), [5.0, 7.0]);
        }
    }

    #[test]
    fn paused_launches_do_not_destroy_what_gradients_need() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            let z = world.field::<f32, 1>("z", 2).unwrap();
            x.fill(3.0).unwrap();
            let tape = world
                .record_tape(|| {
                    square(&x, &y)?;
                    world.no_grad(|| square(&z, &x))?;
                    multiply(&x, &y)
                })
                .unwrap();
            y.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            // y = x^2 * 0, so only the second factor has a gradient, and that goes to x, too.
            assert_eq!(values(&x), [9.0, 9.0]);
            assert_eq!(x.to_vec().unwrap(), [0.0, 0.0]);
        }
    }

    #[test]
    fn single_elements_are_refused() {
        let world = World::interpreter().unwrap();
        let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
        let tape = world.record_tape(|| {
            x.set(0, 1.0)?;
            square(&x, &y)
        });
        assert_eq!(tape.unwrap().len(), 1);
        let tape = world.record_tape(|| {
            square(&x, &y)?;
            x.set(0, 1.0)
        });
        assert_eq!(code(tape), "W0738");
        let tape = world.record_tape(|| {
            square(&x, &y)?;
            world.no_grad(|| x.set(0, 1.0))
        });
        assert_eq!(code(tape), "");
    }

    #[test]
    fn inner_tapes_with_copies_are_refused() {
        let world = World::interpreter().unwrap();
        let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
        let outer = world.record_tape(|| {
            world.tape(&loss, || {
                multiply(&x, &y)?;
                square(&y, &x)?;
                total(&x, &loss)
            })
        });
        assert_eq!(code(outer), "W0739");
    }
}

mod second_derivatives {
    use super::*;

    #[test]
    fn products_with_the_hessian_do_not_add_up() {
        for world in worlds() {
            let x = field(&world, "x", 2).needs_dual().unwrap();
            let y = field(&world, "y", 2).needs_dual().unwrap();
            let loss = loss(&world).needs_dual().unwrap();
            for gradient in [&x, &y] {
                gradient.grad().unwrap().needs_dual().unwrap();
            }
            loss.grad().unwrap().needs_dual().unwrap();
            x.copy_from(&[3.0, 5.0]).unwrap();
            for direction in [[1.0, 0.0], [2.0, -1.0]] {
                x.dual().unwrap().copy_from(&direction).unwrap();
                let product = world.forward_mode(|| {
                    world.tape(&loss, || {
                        square(&x, &y)?;
                        total(&y, &loss)
                    })
                });
                product.unwrap();
                let product = x.grad().unwrap().dual().unwrap().to_vec().unwrap();
                assert_eq!(product, direction.map(|d| 2.0 * d));
                assert_eq!(values(&x), [6.0, 10.0]);
            }
            x.clear_grad().unwrap();
            assert_eq!(x.grad().unwrap().dual().unwrap().get(0).unwrap(), 0.0);
        }
    }
}
