//! Gradients of gradients: tapes around tapes, and what the host writes in forward mode.

// Windows of fields with one index.
#![allow(clippy::single_range_in_vec_init)]

use wuji::Result;
use wuji::prelude::*;

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

fn field(world: &World, name: &str, n: u64) -> Field<f64, 1> {
    let field = world.field::<f64, 1>(name, n).unwrap();
    field.needs_grad().unwrap()
}

fn scalar(world: &World, name: &str) -> Field<f64, 0> {
    world.scalar(name).unwrap().needs_grad().unwrap()
}

fn gradient(field: &Field<f64, 1>) -> Vec<f64> {
    field.grad().unwrap().to_vec().unwrap()
}

#[kernel]
fn cubes(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += x[[i]] * x[[i]] * x[[i]];
    }
}

#[kernel]
fn squares(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += x[[i]] * x[[i]];
    }
}

#[kernel]
fn neighbors(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] = (x[[i]] * x[[(i + 1) % 3]]).sin();
    }
}

mod reverse_over_reverse {
    use super::*;

    #[test]
    fn the_gradient_of_a_squared_gradient() {
        for world in worlds() {
            let x = field(&world, "x", 2);
            let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
            x.copy_from(&[1.0, 2.0]).unwrap();
            for _ in 0..2 {
                outer.fill(0.0).unwrap();
                let run = || {
                    inner.fill(0.0)?;
                    world.tape(&inner, || cubes(&x, &inner))?;
                    squares(&x.grad()?, &outer)
                };
                world.tape(&outer, run).unwrap();
                // The inner gradient is 3 x^2, and 36 x^3 is the gradient of its square.
                assert_eq!(outer.get(()).unwrap(), 9.0 + 144.0);
                assert_eq!(gradient(&x), [36.0, 288.0]);
            }
        }
    }

    #[test]
    fn second_gradients_agree_with_differences() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 3), field(&world, "y", 3));
            let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
            x.copy_from(&[0.4, -0.7, 1.1]).unwrap();
            let run = || {
                let launches = || neighbors(&x, &y).and_then(|()| cubes(&y, &inner));
                world.tape(&inner, launches)?;
                squares(&x.grad()?, &outer)
            };
            let report = world.grad_check(&outer, &[&x], run).unwrap();
            assert!(report.error < 1e-6, "{report}");
        }
    }

    #[test]
    fn a_step_of_gradient_descent_has_a_gradient() {
        #[kernel]
        fn descend(x: &Field<f64, 1>, by: &Field<f64, 1>, rate: &Param<f64>, to: &Field<f64, 1>) {
            for [i] in x {
                to[[i]] = x[[i]] - rate * by[[i]];
            }
        }
        for world in worlds() {
            let (x, to) = (field(&world, "x", 3), field(&world, "to", 3));
            let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
            let rate = world.parameter("rate", 0.1).unwrap();
            x.copy_from(&[0.4, -0.7, 1.1]).unwrap();
            let run = || {
                world.tape(&inner, || cubes(&x, &inner))?;
                descend(&x, &x.grad()?, &rate, &to)?;
                squares(&to, &outer)
            };
            let report = world.grad_check(&outer, &[&x, &rate], run).unwrap();
            assert!(report.error < 1e-6, "{report}");
        }
    }

    #[test]
    fn gradients_of_branches_and_loops_have_gradients() {
        #[kernel]
        fn iterate(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
            for [i] in x {
                let mut v = x[[i]];
                if v > 0.0 {
                    v = v * v;
                }
                for k in 0..3 {
                    v = v.sin() + 0.5 * v * k as f64;
                }
                loss[[]] += v;
            }
        }
        for world in worlds() {
            let x = field(&world, "x", 3);
            let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
            x.copy_from(&[0.4, -0.7, 1.1]).unwrap();
            let run = || {
                world.tape(&inner, || iterate(&x, &inner))?;
                squares(&x.grad()?, &outer)
            };
            let report = world.grad_check(&outer, &[&x], run).unwrap();
            assert!(report.error < 1e-6, "{report}");
        }
    }

    #[test]
    fn gradient_kernels_by_hand_are_recorded() {
        for world in worlds() {
            let x = field(&world, "x", 2);
            let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
            x.copy_from(&[1.0, 2.0]).unwrap();
            inner.grad().unwrap().fill(1.0).unwrap();
            let tape = world.record_tape(|| {
                world.grad(|| cubes(&x, &inner))?;
                squares(&x.grad()?, &outer)
            });
            outer.grad().unwrap().fill(1.0).unwrap();
            tape.unwrap().backward().unwrap();
            assert_eq!(gradient(&x), [36.0, 288.0]);
        }
    }

    #[test]
    fn a_gradient_is_a_constant_of_a_tape_that_does_not_compute_it() {
        #[kernel]
        fn product(x: &Field<f64, 1>, by: &Field<f64, 1>, loss: &Field<f64, 0>) {
            for [i] in x {
                loss[[]] += x[[i]] * by[[i]];
            }
        }
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 2), scalar(&world, "loss"));
            let by = x.grad().unwrap();
            let tape = world.record_tape(|| {
                world.no_grad(|| by.fill(5.0))?;
                product(&x, &by, &loss)
            });
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.unwrap().backward().unwrap();
            assert_eq!(gradient(&x), [5.0, 5.0]);
        }
    }

    #[test]
    fn what_needs_third_derivatives_is_refused() {
        let world = World::interpreter().unwrap();
        let x = field(&world, "x", 2).needs_dual().unwrap();
        let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
        let nested = || {
            let run = || {
                world.tape(&inner, || cubes(&x, &inner))?;
                squares(&x.grad()?, &outer)
            };
            world.tape(&outer, run)
        };
        nested().unwrap();
        assert_eq!(code(world.forward_mode(nested)), "W0739");
        assert_eq!(code(world.record_tape(nested)), "W0739");
    }

    #[test]
    fn a_tape_that_has_overwritten_its_values_is_refused() {
        let world = World::interpreter().unwrap();
        let x = field(&world, "x", 2);
        let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
        let tape = world
            .record_tape(|| {
                world.tape(&inner, || cubes(&x, &inner))?;
                squares(&x.grad()?, &outer)
            })
            .unwrap();
        assert_eq!(code(tape.backward()), "");
        assert_eq!(code(tape.backward()), "W0739");
    }

    #[test]
    fn a_custom_gradient_cannot_add_to_a_value() {
        let world = World::interpreter().unwrap();
        let x = field(&world, "x", 2);
        let (inner, outer) = (scalar(&world, "inner"), scalar(&world, "outer"));
        let run = || {
            world.tape(&inner, || cubes(&x, &inner))?;
            world.custom_grad(|| squares(&x, &outer), || Ok(()))?;
            squares(&x.grad()?, &outer)
        };
        assert_eq!(code(world.tape(&outer, run)), "W0739");
    }
}

mod host_writes_in_forward_mode {
    use super::*;

    fn with_dual(world: &World, name: &str) -> Field<f64, 1> {
        let field = world.field::<f64, 1>(name, 3).unwrap();
        let field = field.needs_dual().unwrap();
        field.dual().unwrap().fill(1.0).unwrap();
        field
    }

    fn dual(field: &Field<f64, 1>) -> Vec<f64> {
        field.dual().unwrap().to_vec().unwrap()
    }

    #[test]
    fn a_field_that_the_host_fills_is_a_constant() {
        for world in worlds() {
            let (x, y) = (with_dual(&world, "x"), with_dual(&world, "y"));
            let run = || x.fill(3.0).and_then(|()| y.copy_from(&[1.0; 3]));
            world.forward_mode(run).unwrap();
            assert_eq!((dual(&x), dual(&y)), (vec![0.0; 3], vec![0.0; 3]));
            // Outside of forward mode, duals are as the user says.
            x.dual().unwrap().fill(2.0).unwrap();
            x.fill(4.0).unwrap();
            assert_eq!(dual(&x), [2.0; 3]);
        }
    }

    #[test]
    fn elements_that_the_host_writes_are_constants() {
        for world in worlds() {
            let (x, y) = (with_dual(&world, "x"), with_dual(&world, "y"));
            x.fill(0.5).unwrap();
            let run = || {
                x.set(1, 5.0)?;
                y.window([0..2])?.fill(7.0)?;
                neighbors(&x, &y)
            };
            world.forward_mode(run).unwrap();
            assert_eq!(dual(&x), [1.0, 0.0, 1.0]);
            world
                .forward_mode(|| y.window([0..2]).and_then(|w| w.fill(7.0)))
                .unwrap();
            assert_eq!(dual(&y)[..2], [0.0, 0.0]);
            assert_ne!(dual(&y)[2], 0.0);
        }
    }

    #[test]
    fn elements_of_sparse_fields_are_constants_too() {
        for world in worlds() {
            let x: Field<f64, 1> = world
                .layout(|root| root.pointer(I, 4).dense(I, 4).place("x"))
                .unwrap();
            let x = x.needs_dual().unwrap();
            let dual = x.dual().unwrap();
            for at in [0, 1, 9] {
                dual.set(at, 1.0).unwrap();
            }
            let run = || {
                x.set(1, 5.0)?;
                x.import(&[[9]], &[2.0])
            };
            world.forward_mode(run).unwrap();
            let found = [0, 1, 9].map(|at| dual.get(at).unwrap());
            assert_eq!(found, [1.0, 0.0, 0.0]);
            assert_eq!(x.get(9).unwrap(), 2.0);
        }
    }

    #[test]
    fn a_tape_around_forward_mode_sees_that_a_dual_ends() {
        for world in worlds() {
            let x = with_dual(&world, "x");
            let dual = x.dual().unwrap().needs_grad().unwrap();
            let loss = scalar(&world, "loss");
            let run = || {
                squares(&dual, &loss)?;
                world.forward_mode(|| x.fill(3.0))
            };
            world.tape(&loss, run).unwrap();
            assert_eq!(gradient(&dual), [2.0; 3]);
        }
    }
}

#[test]
fn explain_lists_what_tapes_save() {
    #[kernel]
    fn square_in_place(x: &Field<f64, 1>) {
        for [i] in x {
            x[[i]] = x[[i]] * x[[i]];
        }
    }
    let world = World::interpreter().unwrap();
    let (x, loss) = (field(&world, "x", 4), scalar(&world, "loss"));
    let run = || {
        for _ in 0..3 {
            square_in_place(&x)?;
        }
        squares(&x, &loss)
    };
    world.tape(&loss, run).unwrap();
    let lines: Vec<String> = world.explain().iter().map(ToString::to_string).collect();
    let saved: Vec<&String> = lines
        .iter()
        .filter(|l| l.contains("a tape saves"))
        .collect();
    assert_eq!(saved.len(), 1, "{lines:?}");
    assert!(
        saved[0].contains("square_in_place: a tape saves `x`, 32 bytes a copy")
            && saved[0].contains("read at "),
        "{saved:?}"
    );
}

/// Derivatives of higher order than the second are refused, and so is forward mode in forward mode.
mod third_derivatives {
    use super::*;

    #[kernel]
    fn quartic(x: &Field<f64, 1>, y: &Field<f64, 1>) {
        for [i] in x {
            y[[i]] = x[[i]] * x[[i]] * x[[i]] * x[[i]];
        }
    }

    #[kernel]
    fn total(y: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in y {
            loss[[]] += y[[i]];
        }
    }

    #[test]
    fn forward_mode_in_forward_mode_is_refused() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            let nested = world.forward_mode(|| world.forward_mode(|| quartic(&x, &y)));
            assert_eq!(code(nested), "W0739");
            // Launches after the error are in no mode.
            assert_eq!(code(world.forward_mode(|| quartic(&x, &y))), "");
        }
    }

    #[test]
    fn more_than_two_tapes_and_tapes_around_tapes_in_forward_mode_are_refused() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            let (one, two) = (scalar(&world, "one"), scalar(&world, "two"));
            let three = scalar(&world, "three");
            x.fill(2.0).unwrap();
            let tapes = world.tape(&three, || {
                world.tape(&two, || {
                    world.tape(&one, || {
                        quartic(&x, &y)?;
                        total(&y, &one)
                    })?;
                    total(&x.grad()?, &two)
                })?;
                total(&x.grad()?, &three)
            });
            assert_eq!(code(tapes), "W0739");
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            x.clone().needs_dual().unwrap();
            x.fill(2.0).unwrap();
            let forward = world.forward_mode(|| {
                world.tape(&two, || {
                    world.tape(&one, || {
                        quartic(&x, &y)?;
                        total(&y, &one)
                    })?;
                    total(&x.grad()?, &two)
                })
            });
            assert_eq!(code(forward), "W0739");
        }
    }
}
