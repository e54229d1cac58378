//! Gradients of kernels with several loops that overwrite values which the gradients of earlier loops need.

use wuji::Result;
use wuji::prelude::*;

fn worlds() -> [World; 2] {
    [
        World::builder().threads(2).build().unwrap(),
        World::interpreter().unwrap(),
    ]
}

fn scalar(world: &World, name: &str) -> Field<f64, 0> {
    world.scalar(name).unwrap().needs_grad().unwrap()
}

fn field(world: &World, name: &str, n: u64) -> Field<f64, 1> {
    let field = world.field::<f64, 1>(name, n).unwrap();
    field.needs_grad().unwrap()
}

/// Particles and a grid in one dimension.
struct Mpm {
    first: Field<f64, 1>,
    x: Field<f64, 1>,
    v: Field<f64, 1>,
    momentum: Field<f64, 1>,
    mass: Field<f64, 1>,
    loss: Field<f64, 0>,
}

const PARTICLES: u64 = 5;
const CELLS: u64 = 8;

#[kernel]
fn begin(first: &Field<f64, 1>, x: &Field<f64, 1>, v: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [p] in x {
        x[[p]] = first[[p]];
        v[[p]] = 0.1 * first[[p]] * first[[p]];
    }
    loss[[]] = 0.0;
}

/// One step: clears the grid, adds particles to it, updates it in place, and moves the particles.
#[kernel(grad)]
fn substep(
    x: &Field<f64, 1>,
    v: &Field<f64, 1>,
    momentum: &Field<f64, 1>,
    mass: &Field<f64, 1>,
    dt: f64,
) {
    for [i] in mass {
        momentum[[i]] = 0.0;
        mass[[i]] = 0.0;
    }
    for [p] in x {
        let cell = x[[p]].floor() as i32;
        let part = x[[p]] - cell as f64;
        mass[[cell]] += 1.0 - part;
        mass[[cell + 1]] += part;
        momentum[[cell]] += (1.0 - part) * v[[p]];
        momentum[[cell + 1]] += part * v[[p]];
    }
    for [i] in mass {
        if mass[[i]] > 0.0 {
            momentum[[i]] = (momentum[[i]] / mass[[i]]).sin();
        }
    }
    for [p] in x {
        let cell = x[[p]].floor() as i32;
        let part = x[[p]] - cell as f64;
        v[[p]] = (1.0 - part) * momentum[[cell]] + part * momentum[[cell + 1]];
        x[[p]] += dt * v[[p]] * v[[p]];
    }
}

#[kernel]
fn energy(x: &Field<f64, 1>, v: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [p] in x {
        loss[[]] += x[[p]] * x[[p]] + v[[p]].sin();
    }
}

impl Mpm {
    fn new(world: &World) -> Mpm {
        let mpm = Mpm {
            first: field(world, "first", PARTICLES),
            x: field(world, "x", PARTICLES),
            v: field(world, "v", PARTICLES),
            momentum: field(world, "momentum", CELLS),
            mass: field(world, "mass", CELLS),
            loss: scalar(world, "loss"),
        };
        mpm.first.copy_from(&[1.3, 1.7, 2.4, 3.1, 4.6]).unwrap();
        mpm
    }

    fn begin(&self) -> Result<()> {
        begin(&self.first, &self.x, &self.v, &self.loss)
    }

    fn step(&self) -> Result<()> {
        substep(&self.x, &self.v, &self.momentum, &self.mass, 0.1)
    }

    fn run(&self, steps: usize) -> Result<()> {
        self.begin()?;
        (0..steps).try_for_each(|_| self.step())?;
        energy(&self.x, &self.v, &self.loss)
    }

    fn gradient(&self) -> Vec<f64> {
        self.first.grad().unwrap().to_vec().unwrap()
    }
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-9 * b.abs().max(1.0),
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn a_whole_step_in_one_kernel() {
    for world in worlds() {
        let mpm = Mpm::new(&world);
        let report = world
            .grad_check(&mpm.loss, &[&mpm.first], || mpm.run(3))
            .unwrap();
        assert!(report.error < 1e-6, "{report:?}");
    }
}

#[test]
fn the_values_are_those_of_the_kernel() {
    for world in worlds() {
        let mpm = Mpm::new(&world);
        mpm.run(3).unwrap();
        let expected = (mpm.x.to_vec().unwrap(), mpm.momentum.to_vec().unwrap());
        world.tape(&mpm.loss, || mpm.run(3)).unwrap();
        assert_close(&mpm.x.to_vec().unwrap(), &expected.0);
        assert_close(&mpm.momentum.to_vec().unwrap(), &expected.1);
    }
}

#[test]
fn a_tape_says_what_it_saves_inside_of_a_kernel() {
    let world = World::interpreter().unwrap();
    let mpm = Mpm::new(&world);
    mpm.begin().unwrap();
    let tape = world.record_tape(|| mpm.step()).unwrap();
    // The grid before it is updated, and particles before they move.
    let saved = tape.saved();
    let mut names: Vec<&str> = saved.iter().map(|s| &*s.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["momentum", "v", "x"], "{saved:?}");
    for copy in &saved {
        let (needed, overwritten) = (copy.needed_at.as_ref(), copy.overwritten_at.as_ref());
        assert!(
            needed.unwrap().line <= overwritten.unwrap().line,
            "{copy:?}"
        );
    }
    assert!(tape.len() >= 2, "{}", tape.len());
}

#[test]
fn checkpoints() {
    for world in worlds() {
        let mpm = Mpm::new(&world);
        world.tape(&mpm.loss, || mpm.run(9)).unwrap();
        let expected = mpm.gradient();
        let report = world.tape_steps(&mpm.loss, 9, 2, |t| {
            if t == 0 {
                mpm.begin()?;
            }
            mpm.step()?;
            if t == 8 {
                energy(&mpm.x, &mpm.v, &mpm.loss)?;
            }
            Ok(())
        });
        assert!(report.unwrap().runs > 9);
        assert_close(&mpm.gradient(), &expected);
    }
}

#[test]
fn the_gradient_of_one_launch() {
    for world in worlds() {
        let mpm = Mpm::new(&world);
        world.tape(&mpm.loss, || mpm.run(1)).unwrap();
        let expected = mpm.gradient();
        world.clear_gradients().unwrap();
        mpm.begin().unwrap();
        let (x, v) = (mpm.x.to_vec().unwrap(), mpm.v.to_vec().unwrap());
        mpm.step().unwrap();
        energy(&mpm.x, &mpm.v, &mpm.loss).unwrap();
        let grid = mpm.momentum.to_vec().unwrap();
        mpm.loss.grad().unwrap().fill(1.0).unwrap();
        world.grad(|| energy(&mpm.x, &mpm.v, &mpm.loss)).unwrap();
        // It runs the kernel again, from the values that it started with.
        mpm.x.copy_from(&x).unwrap();
        mpm.v.copy_from(&v).unwrap();
        substep::grad(&mpm.x, &mpm.v, &mpm.momentum, &mpm.mass, 0.1).unwrap();
        assert_eq!(mpm.x.to_vec().unwrap(), x);
        assert_close(&mpm.momentum.to_vec().unwrap(), &grid);
        world.grad(|| mpm.begin()).unwrap();
        assert_close(&mpm.gradient(), &expected);
    }
}

#[test]
fn a_gradient_that_runs_the_kernel_again_is_not_recorded() {
    let world = World::interpreter().unwrap();
    let mpm = Mpm::new(&world);
    mpm.begin().unwrap();
    let outer = scalar(&world, "outer");
    let error = world
        .tape(&outer, || world.grad(|| mpm.step()))
        .unwrap_err();
    assert_eq!(error.code, "W0739", "{error}");
}

#[test]
fn products_with_the_hessian() {
    for world in worlds() {
        let mpm = Mpm::new(&world);
        for f in [&mpm.first, &mpm.x, &mpm.v, &mpm.momentum, &mpm.mass] {
            f.clone().needs_dual().unwrap();
            f.grad().unwrap().needs_dual().unwrap();
        }
        mpm.loss.clone().needs_dual().unwrap();
        mpm.loss.grad().unwrap().needs_dual().unwrap();
        let start = mpm.first.to_vec().unwrap();
        let gradient_at = |step: f64| {
            let moved: Vec<f64> = start.iter().map(|x| x + step).collect();
            mpm.first.copy_from(&moved).unwrap();
            world.tape(&mpm.loss, || mpm.run(2)).unwrap();
            mpm.gradient()
        };
        let (plus, minus) = (gradient_at(1e-5), gradient_at(-1e-5));
        mpm.first.copy_from(&start).unwrap();
        mpm.first.dual().unwrap().fill(1.0).unwrap();
        world
            .forward_mode(|| world.tape(&mpm.loss, || mpm.run(2)))
            .unwrap();
        let duals = mpm.first.grad().unwrap().dual().unwrap().to_vec().unwrap();
        for (k, found) in duals.iter().enumerate() {
            let expected = (plus[k] - minus[k]) / 2e-5;
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}

mod arrays {
    use super::*;

    #[kernel]
    fn smooth(x: &NdArray<f64, 1>, y: &NdArray<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in x {
            y[[i]] = x[[i]].sin();
        }
        for [i] in x {
            x[[i]] = y[[i]] * y[[i]] * x[[i]];
        }
        for [i] in x {
            y[[i]] = x[[i]] * x[[i]];
        }
        for [i] in x {
            loss[[]] += x[[i]] * y[[i]] * y[[i]];
        }
    }

    #[test]
    fn of_the_world_are_saved_between_loops() {
        for world in worlds() {
            let x = world.nd_array::<f64, 1>("x", 3).unwrap();
            let y = world.nd_array::<f64, 1>("y", 3).unwrap();
            let (x, y) = (x.needs_grad().unwrap(), y.needs_grad().unwrap());
            let loss = scalar(&world, "loss");
            let start = [0.4, 0.9, 1.2];
            let at = |step: f64| {
                x.copy_from(&start.map(|x| x + step)).unwrap();
                loss.fill(0.0).unwrap();
                smooth(&x, &y, &loss).unwrap();
                loss.to_vec().unwrap()[0]
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            x.copy_from(&start).unwrap();
            world.tape(&loss, || smooth(&x, &y, &loss)).unwrap();
            let found: f64 = x.grad().unwrap().to_vec().unwrap().iter().sum();
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
    }
}

mod sparse {
    use super::*;

    /// Cells of the last step are deactivated, others activated, updated in place and read.
    #[kernel]
    fn spread(x: &Field<f64, 1>, grid: &Field<f64, 1>) {
        for [i] in grid {
            grid.deactivate([i]);
        }
        for [p] in x {
            let cell = x[[p]].floor() as i32;
            grid[[cell]] += x[[p]] * x[[p]];
        }
        for [i] in grid {
            grid[[i]] = grid[[i]].sin() * grid[[i]];
        }
        for [p] in x {
            let cell = x[[p]].floor() as i32;
            x[[p]] += 0.01 * grid[[cell]] * x[[p]];
        }
    }

    #[kernel]
    fn copy(from: &Field<f64, 1>, to: &Field<f64, 1>) {
        for [p] in from {
            to[[p]] = from[[p]];
        }
    }

    #[kernel]
    fn total(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
        loss[[]] = 0.0;
        for [p] in x {
            loss[[]] += x[[p]] * x[[p]];
        }
    }

    #[test]
    fn cells_change_between_loops() {
        for world in worlds() {
            let grid = world
                .layout(|root| root.bitmasked(I, 16).place::<f64, 1>("grid"))
                .unwrap()
                .needs_grad()
                .unwrap();
            let (first, x) = (field(&world, "first", 3), field(&world, "x", 3));
            let loss = scalar(&world, "loss");
            first.copy_from(&[1.4, 1.7, 5.2]).unwrap();
            let run = || {
                copy(&first, &x)?;
                (0..2).try_for_each(|_| spread(&x, &grid))?;
                total(&x, &loss)
            };
            let report = world.grad_check(&loss, &[&first], run).unwrap();
            assert!(report.error < 1e-6, "{report:?}");
        }
    }
}

mod one_iteration {
    use super::*;

    #[kernel]
    fn drag(x: &Field<f64, 1>, v: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in x {
            v[[i]] -= 0.1 * v[[i]] * v[[i]] + x[[i]].sin();
            x[[i]] += v[[i]] * v[[i]];
            v[[i]] = v[[i]] * x[[i]];
            loss[[]] += v[[i]] * x[[i]];
        }
    }

    #[kernel]
    fn begin(first: &Field<f64, 1>, x: &Field<f64, 1>, v: &Field<f64, 1>) {
        for [i] in x {
            x[[i]] = first[[i]];
            v[[i]] = first[[i]] * first[[i]];
        }
    }

    #[test]
    fn reads_what_it_has_just_stored() {
        for world in worlds() {
            let (first, x) = (field(&world, "first", 3), field(&world, "x", 3));
            let (v, loss) = (field(&world, "v", 3), scalar(&world, "loss"));
            first.copy_from(&[0.3, 0.8, 1.1]).unwrap();
            let run = || {
                loss.fill(0.0)?;
                begin(&first, &x, &v)?;
                (0..3).try_for_each(|_| drag(&x, &v, &loss))
            };
            let report = world.grad_check(&loss, &[&first], run).unwrap();
            assert!(report.error < 1e-6, "{report:?}");
            let tape = world.record_tape(run).unwrap();
            assert_eq!(tape.len(), 4, "a launch is not split for it");
        }
    }
}

#[kernel]
fn mean(x: &Field<f64, 1>, y: &Field<f64, 1>) -> f64 {
    for [i] in x {
        y[[i]] = x[[i]].sin();
    }
    for [i] in x {
        x[[i]] = y[[i]] * x[[i]] * x[[i]];
    }
    for [i] in x {
        y[[i]] = x[[i]] * x[[i]] * y[[i]];
    }
    y[[0]] + y[[1]]
}

#[test]
fn the_result_is_that_of_the_last_part() {
    for world in worlds() {
        let (x, y) = (field(&world, "x", 2), field(&world, "y", 2));
        x.copy_from(&[0.5, 0.25]).unwrap();
        let expected = mean(&x, &y).unwrap();
        x.copy_from(&[0.5, 0.25]).unwrap();
        let mut found = 0.0;
        let tape = world.record_tape(|| {
            found = mean(&x, &y)?;
            Ok(())
        });
        assert!(tape.unwrap().len() > 1);
        assert_eq!(found, expected);
    }
}

/// As in `docs/differentiation.md`.
#[kernel]
fn step_of_the_book(x: &Field<f64, 1>, grid: &Field<f64, 1>) {
    for [i] in grid {
        grid[[i]] = 0.0;
    }
    for [p] in x {
        grid[[p / 2]] += x[[p]] * x[[p]];
    }
    for [i] in grid {
        grid[[i]] = grid[[i]].sin();
    }
    for [p] in x {
        x[[p]] = x[[p]] * grid[[p / 2]];
    }
}

#[test]
fn parts_are_as_long_as_possible() {
    let world = World::interpreter().unwrap();
    let (x, grid) = (field(&world, "x", 8), field(&world, "grid", 4));
    x.fill(0.5).unwrap();
    let tape = world.record_tape(|| step_of_the_book(&x, &grid)).unwrap();
    assert_eq!(
        (tape.len(), tape.saved().len()),
        (3, 2),
        "{:?}",
        tape.saved()
    );
}
