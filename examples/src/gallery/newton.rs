//! A cloth hangs from two corners and falls over a ball, with implicit steps: Newton's method, whose Hessian is a traced program.

use super::cholesky::Cholesky;
use super::surface::{Screen, Sides, ball, squares};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;
use wuji_symbolic::{Csr, Program, Real, Sym, gradient, local_hessian, project_definite};

/// Seconds between frames, one step each.
const STEP: f64 = 1.0 / 40.0;
const ITERATIONS: usize = 2;
const STIFFNESS: f64 = 300.0;
const CONTACT: f64 = 800.0;
const GRAVITY: f64 = 9.8;
const RADIUS: f64 = 0.3;
/// Neighbours on one side. Structural, shear and bending springs.
const SPRINGS: [[i64; 2]; 6] = [[1, 0], [0, 1], [1, 1], [1, -1], [2, 0], [0, 2]];

/// A cloth that falls over a ball, by Newton's method.
pub const NEWTON: Example = Example {
    name: "newton",
    about: "a cloth with implicit steps, whose Hessian is a traced program",
    long: "The energy of a spring is a generic function. It runs once on symbols, and its gradient and Hessian are derived from the trace. \
           The Hessian of each spring is projected to a positive semidefinite matrix, so that Newton's method descends with large steps. \
           What all springs have in common becomes a parallel loop.",
    size: ("masses along each side", 18),
    frames: 50,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("newton.rs"),
};

fn length<T: Real>(d: &[T]) -> T {
    (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt()
}

/// The energy of a spring, by the way between its ends.
fn spring<T: Real>(way: &[T], rest: f64) -> T {
    let stretch = length(way) - T::from_f64(rest);
    stretch * stretch * T::from_f64(0.5 * STIFFNESS)
}

/// The energy of a contact with the ball.
fn contact<T: Real>(place: &[T]) -> T {
    let depth = (T::from_f64(RADIUS + 0.02) - length(place)).max(T::zero());
    depth * depth * T::from_f64(0.5 * CONTACT)
}

/// Pairs of masses with the length of the spring between them.
fn springs(n: usize) -> Vec<(usize, usize, f64)> {
    let mut all = Vec::new();
    let inside = |k: i64| (0..n as i64).contains(&k);
    for at in 0..n * n {
        for [i, j] in SPRINGS {
            let (a, b) = ((at / n) as i64 + i, (at % n) as i64 + j);
            if inside(a) && inside(b) {
                let rest = ((i * i + j * j) as f64).sqrt() / n as f64;
                all.push((at, (a * n as i64 + b) as usize, rest));
            }
        }
    }
    all
}

/// Gradient and projected Hessian of all energies.
struct System {
    gradient: Vec<Sym>,
    triplets: Vec<(usize, usize, Sym)>,
}

impl System {
    /// Adds an energy that depends on a vector, which is a sum of coordinates of masses with these signs.
    fn add(&mut self, energy: Sym, by: &[Sym], masses: &[(usize, f64)]) -> wuji::Result<()> {
        let slope = gradient(energy, by);
        let mut second = local_hessian(energy, by)?;
        project_definite(3, &mut second)?;
        wuji_symbolic::block(&[&slope[..], &second[..]].concat());
        for (mass, sign) in masses {
            for (k, slope) in slope.iter().enumerate() {
                self.gradient[3 * mass + k] += *slope * *sign;
            }
            for (other, other_sign) in masses {
                let entries = (0..9).map(|k| {
                    let entry = second[k] * (sign * other_sign);
                    (3 * mass + k / 3, 3 * other + k % 3, entry)
                });
                self.triplets.extend(entries);
            }
        }
        Ok(())
    }
}

/// What an implicit step from `target` minimizes: its gradient and Hessian at `x`.
fn system(n: usize, x: &[Sym], target: &[Sym]) -> wuji::Result<(Vec<Sym>, Csr<Sym>)> {
    let mut system = System {
        gradient: Vec::new(),
        triplets: Vec::new(),
    };
    for k in 0..x.len() {
        let inertia = weight(n, k / 3) / (STEP * STEP);
        system.gradient.push((x[k] - target[k]) * inertia);
        system.triplets.push((k, k, Sym::new(inertia)));
    }
    for (a, b, rest) in springs(n) {
        let way = [0, 1, 2].map(|k| x[3 * b + k] - x[3 * a + k]);
        system.add(spring(&way, rest), &way, &[(a, -1.0), (b, 1.0)])?;
    }
    for mass in 0..n * n {
        let place = [0, 1, 2].map(|k| x[3 * mass + k]);
        system.add(contact(&place), &place, &[(mass, 1.0)])?;
    }
    let hessian = Csr::from_triplets(x.len(), x.len(), &system.triplets)?;
    Ok((system.gradient, hessian))
}

/// Two corners are held: they are heavy.
fn is_held(n: usize, mass: usize) -> bool {
    mass == 0 || mass == n - 1
}

fn weight(n: usize, mass: usize) -> f64 {
    if is_held(n, mass) {
        1e3
    } else {
        1.0 / (n * n) as f64
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size().max(3);
    let place = |k: usize| (k as f64 + 0.5) / n as f64 - 0.5;
    let start = (0..n * n).flat_map(|k| [place(k % n), 0.36, place(k / n) + 0.14]);
    let mut x: Vec<f64> = start.collect();
    let mut velocity = vec![0.0; x.len()];
    let program = Program::trace(&world, (&x, &x), |(x, target)| system(n, &x, &target))?;
    // The pattern is the same in all steps, and so is the order of elimination.
    let (_, first) = program.run((&x, &x))?;
    let known = Cholesky::new(&first)?;

    let corners = world.field::<Vec3, 1>("corners", 6 * (n - 1) * (n - 1))?;
    let round = ball(vec3(0.0, 0.0, 0.0), RADIUS as f32);
    let sphere = world.field::<Vec3, 1>("ball", round.len())?;
    sphere.copy_from(&round)?;
    let screen = Screen::new(&world, 360)?;
    let state = std::cell::RefCell::new((&mut x, &mut velocity));
    stage.play(
        |_| {
            let (x, velocity) = &mut *state.borrow_mut();
            let before = x.to_vec();
            let mut target = before.clone();
            for (k, target) in target.iter_mut().enumerate() {
                if !is_held(n, k / 3) {
                    let fall = if k % 3 == 1 { GRAVITY * STEP } else { 0.0 };
                    *target += (velocity[k] - fall) * STEP;
                }
            }
            for _ in 0..ITERATIONS {
                let (mut way, hessian) = program.run((&**x, &target))?;
                known.factor(&hessian)?.solve(&mut way, 1);
                x.iter_mut().zip(&way).for_each(|(x, way)| *x -= way);
            }
            for (k, v) in velocity.iter_mut().enumerate() {
                *v = (x[k] - before[k]) / STEP;
            }
            Ok(())
        },
        || {
            let eye = [0.6, 0.35];
            screen.clear()?;
            corners.copy_from(&squares(n, n, state.borrow().0))?;
            let (front, back) = (vec3(0.85, 0.6, 0.25), vec3(0.16, 0.3, 0.65));
            let sides = Sides { front, back };
            screen.draw(&corners, 2 * (n - 1) * (n - 1), eye, sides)?;
            let gray = vec3(0.5, 0.52, 0.55);
            let (front, back) = (gray, gray);
            screen.draw(&sphere, round.len() / 3, eye, Sides { front, back })?;
            screen.picture()
        },
    )?;
    let what = format!("{} masses, {} springs", n * n, springs(n).len());
    Ok(Summary::new(what, 1, "steps"))
}
