//! Gradients of by-value arguments, gradients of one's own, checks, plans for many steps, and what is reported.

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

fn field(world: &World, name: &str, n: u64) -> Field<f64, 1> {
    let field = world.field::<f64, 1>(name, n).unwrap();
    field.needs_grad().unwrap()
}

fn loss(world: &World) -> Field<f64, 0> {
    world.scalar("loss").unwrap().needs_grad().unwrap()
}

fn values(field: &Field<f64, 1>) -> Vec<f64> {
    field.grad().unwrap().to_vec().unwrap()
}

#[kernel]
fn total(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += x[[i]];
    }
}

#[kernel]
fn square(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] = x[[i]] * x[[i]];
    }
}

mod parameters {
    use super::*;

    #[kernel(grad)]
    fn scale(x: &Field<f64, 1>, by: &Param<f64>, n: i32, plus: &Param<f64>) {
        for [i] in x {
            let all = by * by + plus;
            x[[i]] = x[[i]] * all * n as f64;
        }
    }

    #[kernel]
    fn only_values(loss: &Field<f64, 0>, at: &Param<DVec2>) {
        for _ in 0..1 {
            loss[[]] += at.x * at.y;
        }
    }

    #[test]
    fn have_gradients() {
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 2), loss(&world));
            x.copy_from(&[1.0, 2.0]).unwrap();
            let by = world.parameter("by", 3.0).unwrap();
            let plus = world.parameter("plus", 1.0).unwrap();
            world
                .tape(&loss, || {
                    scale(&x, &by, 2, &plus)?;
                    total(&x, &loss)
                })
                .unwrap();
            assert_eq!(loss.get(()).unwrap(), 60.0);
            assert_eq!((by.grad().unwrap(), plus.grad().unwrap()), (36.0, 6.0));
            assert_eq!(values(&x), [20.0, 20.0]);
            assert_eq!((by.get(), by.name()), (3.0, "by"));
        }
    }

    #[test]
    fn add_up_over_launches_with_their_own_values() {
        for world in worlds() {
            let loss = loss(&world);
            let at = world.parameter("at", dvec2(2.0, 5.0)).unwrap();
            let other = world.parameter("other", dvec2(7.0, 11.0)).unwrap();
            let tape = world
                .record_tape(|| {
                    only_values(&loss, &at)?;
                    only_values(&loss, &other)?;
                    only_values(&loss, &at)?;
                    // Another value has a gradient of its own.
                    at.set(dvec2(100.0, 100.0))?;
                    only_values(&loss, &at)
                })
                .unwrap();
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(at.grad().unwrap(), dvec2(10.0, 4.0));
            assert_eq!(other.grad().unwrap(), dvec2(11.0, 7.0));
            assert_eq!(at.get(), dvec2(100.0, 100.0));
        }
    }

    #[test]
    fn have_duals_and_gradient_kernels() {
        for world in worlds() {
            let x = field(&world, "x", 2).needs_dual().unwrap();
            x.fill(1.0).unwrap();
            let by = world.parameter("by", 3.0).unwrap();
            let plus = world.parameter("plus", 1.0).unwrap();
            x.grad().unwrap().fill(1.0).unwrap();
            scale::grad(&x, &by, 1, &plus).unwrap();
            assert_eq!(plus.grad().unwrap(), 2.0);
            by.set_dual(1.0).unwrap();
            world.forward_mode(|| scale(&x, &by, 1, &plus)).unwrap();
            assert_eq!(x.dual().unwrap().get(0).unwrap(), 6.0);
            assert_eq!(code(world.parameter("n", 1i32)), "W0732");
        }
    }

    #[test]
    fn are_found_by_steps() {
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 1), loss(&world));
            x.fill(1.0).unwrap();
            let by = world.parameter("by", 1.1).unwrap();
            let plus = world.parameter("plus", 0.0).unwrap();
            world
                .tape_steps(&loss, 5, 1, |t| {
                    scale(&x, &by, 1, &plus)?;
                    if t == 4 { total(&x, &loss) } else { Ok(()) }
                })
                .unwrap();
            let expected = 10.0 * 1.1f64.powi(9);
            assert!((by.grad().unwrap() - expected).abs() < 1e-9);
        }
    }
}

mod attributes {
    use super::*;

    /// The gradient of `clipped`: as if nothing were clipped.
    fn clipped_gradient(x: &Field<f64, 1>, y: &Field<f64, 1>, most: f64) -> Result<()> {
        assert!(most > 0.0);
        add(&y.grad()?, &x.grad()?)
    }

    #[kernel]
    fn add(x: &Field<f64, 1>, y: &Field<f64, 1>) {
        for [i] in x {
            y[[i]] += x[[i]];
        }
    }

    #[kernel(grad = clipped_gradient)]
    fn clipped(x: &Field<f64, 1>, y: &Field<f64, 1>, most: f64) -> i32 {
        for [i] in x {
            y[[i]] = x[[i]].min(most);
        }
        7
    }

    #[kernel(no_grad)]
    fn normalize(x: &Field<f64, 1>) -> i32 {
        for [i] in x {
            x[[i]] = x[[i]] / 2.0;
        }
        3
    }

    #[test]
    fn a_kernel_has_a_gradient_of_its_own() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.copy_from(&[1.0, 5.0]).unwrap();
            world
                .tape(&loss, || {
                    assert_eq!(clipped(&x, &y, 2.0)?, 7);
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(loss.get(()).unwrap(), 3.0);
            assert_eq!(values(&x), [1.0, 1.0]);
            // By hand, and outside of a tape.
            world.grad(|| clipped(&x, &y, 2.0).map(|_| ())).unwrap();
            assert_eq!(values(&x), [2.0, 2.0]);
            assert_eq!(clipped(&x, &y, 2.0).unwrap(), 7);
        }
    }

    #[test]
    fn a_kernel_without_gradient_writes_constants() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.fill(4.0).unwrap();
            let tape = world
                .record_tape(|| {
                    square(&x, &y)?;
                    assert_eq!(normalize(&x)?, 3);
                    total(&y, &loss)
                })
                .unwrap();
            assert_eq!(tape.len(), 2);
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(values(&x), [8.0, 8.0]);
            assert_eq!(x.get(0).unwrap(), 2.0);
            world.grad(|| normalize(&x).map(|_| ())).unwrap();
            assert_eq!(x.get(0).unwrap(), 2.0);
        }
    }
}

mod checks {
    use super::*;

    #[kernel]
    fn waves(x: &Field<DVec2, 1>, by: &Param<f64>, y: &Field<f64, 1>) {
        for [i] in x {
            y[[i]] = (x[[i]].x * by).sin() * x[[i]].y;
        }
    }

    #[test]
    fn right_gradients_pass() {
        for world in worlds() {
            let x = world.field::<DVec2, 1>("x", 5).unwrap();
            let x = x.needs_grad().unwrap();
            x.fill(dvec2(0.3, 2.0)).unwrap();
            let (y, loss) = (field(&world, "y", 5), loss(&world));
            let by = world.parameter("by", 1.5).unwrap();
            let report = world.grad_check(&loss, &[&x, &by], || {
                waves(&x, &by, &y)?;
                total(&y, &loss)
            });
            let report = report.unwrap();
            assert!(report.error < 1e-6, "{report}");
            assert_eq!(report.directions, 6);
            // Nothing has changed, but gradients are there.
            assert_eq!((loss.get(()).unwrap(), by.get()), (0.0, 1.5));
            assert_eq!(x.get(4).unwrap(), dvec2(0.3, 2.0));
            assert!(by.grad().unwrap() != 0.0);
            let inside = world.record_tape(|| {
                let check = world.grad_check(&loss, &[&by], || Ok(()));
                check.map(|_| ())
            });
            assert_eq!(code(inside), "W0734");
        }
    }

    #[test]
    fn single_precision_passes() {
        let world = World::interpreter().unwrap();
        let x = world.field::<f32, 1>("x", 4).unwrap().needs_grad().unwrap();
        let loss = world.scalar::<f32>("loss").unwrap().needs_grad().unwrap();
        x.fill(1.5).unwrap();
        #[kernel]
        fn cubes(x: &Field<f32, 1>, loss: &Field<f32, 0>) {
            for [i] in x {
                loss[[]] += x[[i]] * x[[i]] * x[[i]];
            }
        }
        let report = world.grad_check(&loss, &[&x], || cubes(&x, &loss)).unwrap();
        assert!(report.error < 1e-2, "{report}");
    }

    #[test]
    fn a_wrong_gradient_is_shown_with_its_worst_elements() {
        fn wrong(x: &Field<f64, 1>, y: &Field<f64, 1>) -> Result<()> {
            let seeds = y.grad()?.to_vec()?;
            let mut gradient = x.grad()?.to_vec()?;
            for ((g, x), s) in gradient.iter_mut().zip(x.to_vec()?).zip(seeds) {
                *g += 2.0 * x * s;
            }
            gradient[3] += 0.5;
            x.grad()?.copy_from(&gradient)
        }
        #[kernel(grad = wrong)]
        fn squares(x: &Field<f64, 1>, y: &Field<f64, 1>) {
            for [i] in x {
                y[[i]] = x[[i]] * x[[i]];
            }
        }
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 6), field(&world, "y", 6), loss(&world));
            x.fill(1.0).unwrap();
            let error = world
                .grad_check(&loss, &[&x], || {
                    squares(&x, &y)?;
                    total(&x, &loss)?;
                    total(&y, &loss)
                })
                .unwrap_err();
            assert_eq!(error.code, "W0742");
            assert!(error.notes[0].starts_with("x[[3]]:"), "{error}");
            assert!(error.notes[1].contains("gradient_api.rs:"), "{error}");
            assert_eq!(error.notes.len(), 2, "{error}");
        }
    }
}

mod steps {
    use super::*;

    #[kernel]
    fn step(x: &Field<f64, 1>) {
        for [i] in x {
            x[[i]] += 0.01 * x[[i]].sin();
        }
    }

    #[kernel]
    fn push(x: &Field<f64, 1>, force: &Field<f64, 1>) {
        for [i] in x {
            force[[i]] += x[[i]] * x[[i]];
        }
    }

    #[kernel]
    fn pull(x: &Field<f64, 1>, force: &Field<f64, 1>) {
        for [i] in x {
            x[[i]] += 0.1 * force[[i]];
        }
    }

    #[test]
    fn memory_limits_the_copies() {
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 10), loss(&world));
            let mut gradients = Vec::new();
            // A state is 10 elements and the loss.
            for plan in [
                StepPlan::copies(3),
                StepPlan::within(88 * 5),
                StepPlan::within(88 * 5 + 87).on_host(),
            ] {
                x.fill(1.0).unwrap();
                loss.fill(0.0).unwrap();
                let report = world
                    .tape_steps(&loss, 30, plan, |t| {
                        step(&x)?;
                        if t == 29 || t == 0 {
                            total(&x, &loss)
                        } else {
                            Ok(())
                        }
                    })
                    .unwrap();
                assert!(report.copies <= 5, "{report}");
                assert_eq!(report.state_bytes, 88, "{report}");
                assert!(report.peak_bytes() <= 440, "{report}");
                assert!(report.runs_per_step() < 4.0, "{report}");
                assert!(report.to_string().starts_with("30 steps, each run "));
                gradients.push(values(&x));
            }
            assert_eq!(gradients[0], gradients[1]);
            assert_eq!(gradients[0], gradients[2]);
            let small = world.tape_steps(&loss, 30, StepPlan::within(160), |_| step(&x));
            assert_eq!(code(small), "");
            let small = world.tape_steps(&loss, 30, StepPlan::within(159), |_| step(&x));
            assert_eq!(code(small), "W0737");
        }
    }

    #[kernel(no_grad)]
    fn count(k: &Field<f64, 0>) {
        for _ in 0..1 {
            k[[]] += 1.0;
        }
    }

    #[kernel]
    fn multiply(x: &Field<f64, 1>, k: &Field<f64, 0>) {
        for [i] in x {
            x[[i]] = x[[i]] * k[[]];
        }
    }

    #[test]
    fn what_kernels_without_gradient_write_is_part_of_the_state() {
        for world in worlds() {
            let (x, loss) = (field(&world, "x", 1), loss(&world));
            let k = world.scalar::<f64>("k").unwrap();
            for slots in [0, 2] {
                x.fill(1.0).unwrap();
                k.fill(0.0).unwrap();
                world
                    .tape_steps(&loss, 5, slots, |t| {
                        count(&k)?;
                        multiply(&x, &k)?;
                        if t == 4 { total(&x, &loss) } else { Ok(()) }
                    })
                    .unwrap();
                assert_eq!((values(&x)[0], k.get(()).unwrap()), (120.0, 5.0));
            }
        }
    }

    #[test]
    fn what_the_host_fills_in_each_step_has_no_gradient_from_the_next_one() {
        for world in worlds() {
            let (x, force, loss) = (field(&world, "x", 1), field(&world, "f", 1), loss(&world));
            let run = |by_steps: bool| {
                x.fill(1.0).unwrap();
                let step = |t: usize| {
                    force.fill(0.0)?;
                    push(&x, &force)?;
                    pull(&x, &force)?;
                    if t == 3 { total(&x, &loss) } else { Ok(()) }
                };
                if by_steps {
                    world.tape_steps(&loss, 4, 1, step).map(|_| ())
                } else {
                    world.tape(&loss, || (0..4).try_for_each(step))
                }
                .unwrap();
                values(&x)[0]
            };
            let (a, b) = (run(false), run(true));
            assert!((a - b).abs() < 1e-12 && a > 1.0, "{a} {b}");
        }
    }
}

mod tapes {
    use super::*;

    #[test]
    fn many_launches_take_16_bytes_each() {
        let world = World::interpreter().unwrap();
        let (x, loss) = (field(&world, "x", 1), loss(&world));
        let tape = world
            .record_tape(|| (0..100_000).try_for_each(|_| total(&x, &loss)))
            .unwrap();
        assert_eq!(tape.len(), 100_000);
        // Vectors grow by doubling.
        assert!(tape.bytes() <= 2 * 16 * 100_000 + 4096, "{}", tape.bytes());
        assert!(tape.bytes() >= 16 * 100_000);
    }

    #[test]
    fn an_inner_tape_records_for_both() {
        for world in worlds() {
            let (x, y, loss) = (field(&world, "x", 2), field(&world, "y", 2), loss(&world));
            x.fill(3.0).unwrap();
            let mut inner = None;
            let outer = world
                .record_tape(|| {
                    square(&x, &y)?;
                    inner = Some(world.record_tape(|| {
                        world.no_grad(|| total(&x, &loss))?;
                        total(&y, &loss)
                    })?);
                    Ok(())
                })
                .unwrap();
            assert_eq!(outer.len(), 2);
            let inner = inner.unwrap();
            assert_eq!(inner.len(), 1);
            loss.grad().unwrap().fill(1.0).unwrap();
            inner.backward().unwrap();
            assert_eq!((values(&x), values(&y)), (vec![0.0; 2], vec![1.0; 2]));
            world.clear_gradients().unwrap();
            loss.grad().unwrap().fill(1.0).unwrap();
            outer.backward().unwrap();
            assert_eq!(values(&x), [6.0, 6.0]);
        }
    }

    #[test]
    fn several_losses_share_a_tape() {
        for world in worlds() {
            let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
            let (a, b) = (loss(&world), loss(&world));
            x.copy_from(&[1.0, 2.0]).unwrap();
            let tape = world
                .record_tape(|| {
                    square(&x, &y)?;
                    total(&x, &a)?;
                    total(&y, &b)
                })
                .unwrap();
            let mut rows = Vec::new();
            for seeds in [(1.0, 0.0), (0.0, 1.0), (2.0, 3.0)] {
                world.clear_gradients().unwrap();
                a.grad().unwrap().fill(seeds.0).unwrap();
                b.grad().unwrap().fill(seeds.1).unwrap();
                tape.backward().unwrap();
                rows.push(values(&x));
            }
            assert_eq!(rows, [[1.0, 1.0], [2.0, 4.0], [8.0, 14.0]]);
        }
    }
}

#[kernel]
fn iterate(x: &Field<f64, 1>, loss: &Field<f64, 0>, n: i32) {
    for [i] in x {
        let mut y = x[[i]];
        for _ in 0..n {
            y = y.sin() + 0.5;
        }
        loss[[]] += y;
    }
}

#[test]
fn what_gradient_kernels_save_is_explained() {
    let world = World::interpreter().unwrap();
    let (x, loss) = (field(&world, "x", 2), loss(&world));
    world.tape(&loss, || iterate(&x, &loss, 10)).unwrap();
    let lines: Vec<String> = world.explain().iter().map(ToString::to_string).collect();
    let line = lines.iter().find(|l| l.contains("checkpoints of"));
    let line = line.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(
        line.contains("gradient_api.rs:") && line.contains("of 8 bytes"),
        "{line}"
    );
}
