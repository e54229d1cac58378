//! Tests of the materials as bodies: what is conserved, and what they do after a while.

use super::*;

/// Nodes along each axis.
const N: i32 = 24;

/// A scene after some seconds.
fn after(material: Material, n: i32, seconds: f32) -> Mpm3d {
    let world = World::cpu().expect("a world");
    let mut mpm = Mpm3d::of_material(&world, n, material).expect("fields");
    for _ in 0..(seconds / material.time_step(n)) as usize {
        mpm.step().expect("a step");
    }
    mpm
}

fn positions(mpm: &Mpm3d) -> Vec<Vec3> {
    let all = mpm.particles.to_vec().expect("particles");
    all.iter().map(|p| p.x).collect()
}

fn history(mpm: &Mpm3d) -> (f32, f32) {
    let all = mpm.history.to_vec().expect("numbers");
    let range = (f32::INFINITY, f32::NEG_INFINITY);
    all.iter()
        .fold(range, |(low, high), h| (low.min(*h), high.max(*h)))
}

/// The share of the particles for which something holds.
fn share(mpm: &Mpm3d, holds: impl Fn(Vec3) -> bool) -> f32 {
    let all = positions(mpm);
    all.iter().filter(|x| holds(**x)).count() as f32 / all.len() as f32
}

/// The grid has the mass and the momentum of the particles, and gravity is the only force on bodies that touch no wall.
#[test]
fn mass_and_momentum_are_conserved() {
    let world = World::cpu().expect("a world");
    let n = 16;
    for material in Material::ALL {
        let mut all: Vec<Particle> = scene::cubes(n, 3);
        for p in &mut all {
            // Away from the walls, and deformed.
            p.x = p.x * 0.7 + Vec3::splat(0.15);
            p.f = Matrix([[0.98, 0.02, 0.0], [0.0, 0.97, 0.01], [0.01, 0.0, 0.99]]);
        }
        let variant = Variant::Buckets;
        let mut mpm =
            Mpm3d::with_particles(&world, n, &all, variant, material, STORAGE).expect("fields");
        let steps = 5;
        for _ in 0..steps {
            mpm.step().expect("a step");
        }
        let mass: f64 = (mpm
            .mass
            .to_vec()
            .expect("mass")
            .iter()
            .map(|m| f64::from(*m)))
        .sum();
        let volume = 0.125 / f64::from(n).powi(3);
        let expected = volume * all.len() as f64;
        assert!((mass / expected - 1.0).abs() < 1e-4, "{material:?}: {mass}");
        let mean = |all: &[Particle], d: usize| {
            all.iter().map(|p| f64::from(p.v.0[d])).sum::<f64>() / all.len() as f64
        };
        let moved = mpm.particles.to_vec().expect("particles");
        let fall = -f64::from(GRAVITY * material.time_step(n)) * f64::from(steps);
        for (d, gained) in [0.0, fall, 0.0].into_iter().enumerate() {
            let change = mean(&moved, d) - mean(&all, d);
            assert!((change - gained).abs() < 2e-4, "{material:?} {d}: {change}");
        }
    }
}

#[test]
fn snowballs_harden_where_they_hit_each_other() {
    let mpm = after(Material::Snow, N, 0.08);
    let (low, high) = history(&mpm);
    assert!(low < 0.95 && high > 1.01, "{low} {high}");
    assert!(low >= 0.6 && high <= 20.0, "{low} {high}");
    // Elastic parts are within the yield limits.
    for p in mpm.particles.to_vec().expect("particles") {
        let (_, sigma, _) = p.f.svd();
        assert!(
            sigma.0.iter().all(|s| (0.974..1.008).contains(s)),
            "{sigma:?}"
        );
    }
}

/// A column collapses into a pile, which comes to rest before it is flat; the volume correction stays small.
#[test]
fn sand_piles_up() {
    let mpm = after(Material::Sand, N, 0.5);
    let floor = WALL as f32 / N as f32;
    let away = |x: Vec3| (x.x - 0.5).hypot(x.z - 0.5);
    let all = mpm.particles.to_vec().expect("particles");
    let speed = all.iter().map(|p| p.v.norm()).sum::<f32>() / all.len() as f32;
    assert!(speed < 0.03, "the pile flows: {speed}");
    let (high, wide) = (
        share(&mpm, |x| x.y > floor + 0.2),
        share(&mpm, |x| away(x) > 0.22),
    );
    assert!(
        high < 0.01 && wide > 0.2,
        "the column stands: {high} {wide}"
    );
    // The pile is higher in the middle than at its foot.
    let mean = |from: f32, to: f32| {
        let ring = all.iter().filter(|p| (from..to).contains(&away(p.x)));
        let (sum, count) = ring.fold((0.0, 0), |(sum, count), p| (sum + p.x.y, count + 1));
        sum / count.max(1) as f32 - floor
    };
    let (middle, foot) = (mean(0.0, 0.1), mean(0.25, 0.35));
    assert!(middle > 2.0 * foot && middle > 0.05, "{middle} {foot}");
    let (low, most) = history(&mpm);
    assert!(low >= 0.0 && most < 1.0, "{low} {most}");
}

/// A column of fluid spreads over the floor, where the same column of sand stays a pile.
#[test]
fn a_fluid_spreads() {
    let mpm = after(Material::Fluid, N, 0.5);
    let reached = share(&mpm, |x| x.x > 0.6);
    assert!(reached > 0.1, "{reached}");
    let volumes = mpm.particles.to_vec().expect("particles");
    let mean = volumes.iter().map(|p| p.f.determinant()).sum::<f32>() / volumes.len() as f32;
    assert!((0.93..=1.05).contains(&mean), "{mean}");
}
