//! Constitutive models: what a particle remembers of a deformation, and its stress.

use wuji::prelude::*;

const POISSON: f32 = 0.3;
/// Young's moduli, of a density of 1.
const JELLY: f32 = 5e3;
const SNOW: f32 = 4e2;
const SAND: f32 = 2e3;
/// Snow yields where it is compressed or stretched by more than this.
const COMPRESSION: f32 = 0.025;
const STRETCH: f32 = 0.0075;
/// How much the hardness of snow grows with its plastic compression, and its range.
const HARDENING: f32 = 10.0;
const HARDEST: f32 = 5.0;
const SOFTEST: f32 = 0.1;
/// The angle of repose of sand is near its friction angle, here 40 degrees.
const SIN_FRICTION: f32 = 0.642_787_6;
/// The square of the speed of sound in the fluid.
const STIFFNESS: f32 = 1e3;
/// The part of a node that sound travels in a time step (CFL condition).
const COURANT: f32 = 0.42;
/// The time step of elastic bodies, up to a resolution.
const ELASTIC_STEP: f32 = 4e-5;
const ELASTIC_NODES: f32 = 128.0;

// ANCHOR: corotated
/// A particle after a deformation.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
pub struct Response {
    /// The elastic part of the deformation.
    pub f: Mat3,
    /// What the particle remembers of plastic deformations.
    pub history: f32,
    /// Kirchhoff stress.
    pub stress: Mat3,
}

/// A constitutive model.
#[func]
pub(super) trait Constitutive {
    /// The response to a deformation, given the history of the particle.
    fn respond(self, f: Mat3, history: f32) -> Response;
    /// Whether particles have a history.
    fn remembers(self) -> bool;
}

/// Fixed corotated elasticity.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Corotated {
    mu: f32,
    lambda: f32,
}

#[func]
impl Constitutive for Corotated {
    fn respond(self, f: Mat3, history: f32) -> Response {
        let (u, sigma, v) = f.svd();
        let j = sigma.x * sigma.y * sigma.z;
        let stress = (f - u * v.transpose()) * f.transpose() * (2.0 * self.mu)
            + Mat3::identity() * (self.lambda * (j - 1.0) * j);
        Response { f, history, stress }
    }

    fn remembers(self) -> bool {
        false
    }
}
// ANCHOR_END: corotated

/// Neo-Hookean elasticity.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct NeoHookean {
    mu: f32,
    lambda: f32,
}

#[func]
impl Constitutive for NeoHookean {
    fn respond(self, f: Mat3, history: f32) -> Response {
        let stress = (f * f.transpose() - Mat3::identity()) * self.mu
            + Mat3::identity() * (self.lambda * f.determinant().ln());
        Response { f, history, stress }
    }

    fn remembers(self) -> bool {
        false
    }
}

// ANCHOR: materials
/// Snow: corotated elasticity whose singular values are clamped; the rest is plastic, and hardens where it is compressed. The
/// history is the plastic volume ratio.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Snow {
    mu: f32,
    lambda: f32,
}

#[func]
impl Constitutive for Snow {
    fn respond(self, f: Mat3, history: f32) -> Response {
        let (u, sigma, v) = f.svd();
        let kept = sigma.clamp(Vec3::splat(1.0 - COMPRESSION), Vec3::splat(1.0 + STRETCH));
        let j = kept.x * kept.y * kept.z;
        let plastic = (history * (sigma.x * sigma.y * sigma.z) / j).clamp(0.6, 20.0);
        let hardness = (HARDENING * (1.0 - plastic)).exp().clamp(SOFTEST, HARDEST);
        let elastic = u * Mat3::from_diagonal(kept) * v.transpose();
        let stress = (elastic - u * v.transpose()) * elastic.transpose() * (2.0 * self.mu)
            + Mat3::identity() * (self.lambda * (j - 1.0) * j);
        Response {
            f: elastic,
            history: plastic,
            stress: stress * hardness,
        }
    }

    fn remembers(self) -> bool {
        true
    }
}

/// Sand: elasticity in logarithmic (Hencky) strains with the Drucker-Prager yield condition. The history is the volume correction:
/// the logarithm of the volume that grains gained while they were apart, which compression closes before it causes stress.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Sand {
    mu: f32,
    lambda: f32,
    /// The slope of the yield surface.
    friction: f32,
}

#[func]
impl Constitutive for Sand {
    fn respond(self, f: Mat3, history: f32) -> Response {
        let (u, sigma, v) = f.svd();
        let trial = sigma.max(Vec3::splat(1e-4)).ln() + Vec3::splat(history / 3.0);
        let volume = trial.x + trial.y + trial.z;
        let mut strain = Vec3::splat(0.0);
        let mut correction = volume;
        if volume < 0.0 {
            let shear = trial - Vec3::splat(volume / 3.0);
            let size = shear.norm().max(1e-12);
            let pressure = volume * (3.0 * self.lambda + 2.0 * self.mu) / (2.0 * self.mu);
            let excess = (size + self.friction * pressure).max(0.0);
            strain = trial - shear * (excess / size);
            correction = 0.0;
        }
        let trace = self.lambda * (strain.x + strain.y + strain.z);
        let principal = strain * (2.0 * self.mu) + Vec3::splat(trace);
        Response {
            f: u * Mat3::from_diagonal(strain.exp()) * v.transpose(),
            history: correction,
            stress: u * Mat3::from_diagonal(principal) * u.transpose(),
        }
    }

    fn remembers(self) -> bool {
        true
    }
}

/// A weakly compressible fluid with the equation of state of Tait. Of a deformation only the volume is kept.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Fluid {
    stiffness: f32,
}

#[func]
impl Constitutive for Fluid {
    fn respond(self, f: Mat3, history: f32) -> Response {
        // Drops that fly apart do not pull at each other.
        let j = f.determinant().clamp(0.7, 1.05);
        let density = 1.0 / j;
        let cube = density * density * density;
        let pressure = self.stiffness * (cube * cube * density - 1.0) / 7.0;
        Response {
            f: Mat3::from_diagonal(vec3(j, 1.0, 1.0)),
            history,
            stress: Mat3::identity() * (-pressure * j),
        }
    }

    fn remembers(self) -> bool {
        false
    }
}

// ANCHOR_END: materials

/// The material of all particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Material {
    /// Neo-Hookean elasticity.
    NeoHookean,
    /// Fixed corotated elasticity.
    Corotated,
    /// Snow that hardens, with clamped singular values.
    Snow,
    /// Sand with the Drucker-Prager yield condition.
    Sand,
    /// A weakly compressible fluid.
    Fluid,
}

/// Something that is done with the model of a material.
pub(super) trait Apply {
    /// What it returns.
    type Output;
    /// Does it.
    fn apply<M: Constitutive + Element>(self, model: M) -> Self::Output;
}

impl Material {
    /// All of them.
    pub const ALL: [Material; 5] = [
        Material::NeoHookean,
        Material::Corotated,
        Material::Snow,
        Material::Sand,
        Material::Fluid,
    ];

    /// Lame parameters: of shear and of volume. In a fluid there is no shear.
    fn lame(self) -> (f32, f32) {
        let young = match self {
            Material::NeoHookean | Material::Corotated => JELLY,
            Material::Snow => SNOW,
            Material::Sand => SAND,
            Material::Fluid => return (0.0, STIFFNESS),
        };
        (
            young / (2.0 * (1.0 + POISSON)),
            young * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON)),
        )
    }

    /// Calls a generic function with the model.
    pub(super) fn apply<A: Apply>(self, what: A) -> A::Output {
        let (mu, lambda) = self.lame();
        match self {
            Material::NeoHookean => what.apply(NeoHookean { mu, lambda }),
            Material::Corotated => what.apply(Corotated { mu, lambda }),
            Material::Snow => what.apply(Snow { mu, lambda }),
            Material::Sand => what.apply(Sand {
                mu,
                lambda,
                friction: (2.0f32 / 3.0).sqrt() * 2.0 * SIN_FRICTION / (3.0 - SIN_FRICTION),
            }),
            Material::Fluid => what.apply(Fluid { stiffness: lambda }),
        }
    }

    /// The response of one particle, computed on the host.
    pub fn respond(self, f: Mat3, history: f32) -> Response {
        struct One(Mat3, f32);
        impl Apply for One {
            type Output = Response;
            fn apply<M: Constitutive + Element>(self, model: M) -> Response {
                model.respond(self.0, self.1)
            }
        }
        self.apply(One(f, history))
    }

    /// The history of a particle that was never deformed.
    pub fn fresh(self) -> f32 {
        match self {
            Material::Snow => 1.0,
            Material::NeoHookean | Material::Corotated | Material::Sand | Material::Fluid => 0.0,
        }
    }

    /// The largest stable time step on `n` nodes along each axis.
    pub fn time_step(self, n: i32) -> f32 {
        let (nodes, (mu, lambda)) = (n as f32, self.lame());
        let hardness = match self {
            Material::NeoHookean | Material::Corotated => {
                return ELASTIC_STEP * (ELASTIC_NODES / nodes).min(1.0);
            }
            Material::Snow => HARDEST,
            Material::Sand | Material::Fluid => 1.0,
        };
        // The speed of sound, from the modulus of a wave in one direction.
        let speed = (hardness * (lambda + 2.0 * mu)).sqrt();
        COURANT / (nodes * speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(x: f32, y: f32, z: f32) -> Mat3 {
        Mat3::from_diagonal(vec3(x, y, z))
    }

    #[test]
    fn a_rotation_causes_no_stress() {
        let (sin, cos) = 0.7f32.sin_cos();
        let turn = Matrix([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]);
        for material in Material::ALL {
            let r = material.respond(turn, material.fresh());
            let largest = r
                .stress
                .0
                .iter()
                .flatten()
                .fold(0.0f32, |m, s| m.max(s.abs()));
            assert!(largest < 0.05, "{material:?}: {r:?}");
        }
    }

    /// Compression is resisted in the compressed direction, and the stress is the same however the body is turned.
    #[test]
    fn compression_is_resisted() {
        for material in Material::ALL {
            let r = material.respond(stretch(1.0, 0.99, 1.0), material.fresh());
            assert!(r.stress.0[1][1] < -1.0, "{material:?}: {r:?}");
        }
    }

    #[test]
    fn the_time_step_shrinks_with_the_nodes() {
        for material in Material::ALL {
            let (coarse, fine) = (material.time_step(128), material.time_step(256));
            assert!((coarse / fine - 2.0).abs() < 1e-5, "{material:?}");
        }
    }

    #[test]
    fn compressed_snow_hardens_and_stretched_snow_softens() {
        let snow = Material::Snow;
        let pressed = snow.respond(stretch(1.0, 0.9, 1.0), 1.0);
        let pulled = snow.respond(stretch(1.0, 1.2, 1.0), 1.0);
        assert!(pressed.history < 0.95 && pulled.history > 1.15);
        // The elastic part is clamped, and the volume is kept.
        assert!((pressed.f.0[1][1] - 0.975).abs() < 1e-4, "{pressed:?}");
        assert!((pulled.f.0[1][1] - 1.0075).abs() < 1e-4, "{pulled:?}");
        let volume = pressed.f.determinant() * pressed.history;
        assert!((volume - 0.9).abs() < 1e-3, "{volume}");
        // The same elastic deformation causes more stress in hard snow, up to a limit.
        let at = |history| snow.respond(stretch(1.0, 0.98, 1.0), history).stress.0[1][1];
        assert!(at(0.9) < 2.0 * at(1.0) && at(1.1) > 0.5 * at(1.0));
        assert!((at(0.6) / at(1.0) - HARDEST).abs() < 0.01);
        assert!((at(20.0) / at(1.0) - SOFTEST).abs() < 0.01);
    }

    /// Below the friction angle sand is elastic, and above it slides at the yield stress.
    #[test]
    fn sand_yields_at_its_friction_angle() {
        let sand = Material::Sand;
        let inside = stretch(0.98, 0.978, 0.98);
        let r = sand.respond(inside, 0.0);
        assert!((r.f.0[1][1] - 0.978).abs() < 1e-5, "{r:?}");
        let r = sand.respond(stretch(1.1, 0.8, 1.1), 0.0);
        assert!(r.f.0[1][1] > 0.85, "{r:?}");
        // On the yield surface, the largest ratio of shear to normal stress is the tangent of the friction angle.
        let s = [r.stress.0[0][0], r.stress.0[1][1]];
        let sine = (s[0] - s[1]) / -(s[0] + s[1]);
        assert!((sine - SIN_FRICTION).abs() < 0.02, "{sine}");
    }

    /// Sand without pressure has no strength; what it gains in volume it must lose again before it has any.
    #[test]
    fn separated_grains_close_before_they_press() {
        let sand = Material::Sand;
        let apart = sand.respond(stretch(1.0, 1.1, 1.0), 0.0);
        assert!((apart.history - 1.1f32.ln()).abs() < 1e-4, "{apart:?}");
        assert!(apart.stress.0[1][1].abs() < 1e-3);
        let nearer = sand.respond(apart.f * stretch(1.0, 0.95, 1.0), apart.history);
        assert!(nearer.stress.0[1][1].abs() < 1e-3, "{nearer:?}");
        assert!(nearer.history > 0.0 && nearer.history < apart.history);
        let closed = sand.respond(nearer.f * stretch(1.0, 0.9, 1.0), nearer.history);
        assert!(closed.stress.0[1][1] < -1.0 && closed.history == 0.0);
    }

    #[test]
    fn a_fluid_resists_compression_but_not_shear() {
        let fluid = Material::Fluid;
        let shear = Matrix([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        let r = fluid.respond(shear, 0.0);
        assert!(r.stress.0.iter().flatten().all(|s| s.abs() < 1e-3), "{r:?}");
        // The slope of the equation of state is the square of the speed of sound.
        let pressed = fluid.respond(stretch(1.0, 0.999, 1.0), 0.0).stress.0[0][0];
        assert!((pressed / -(0.001 * STIFFNESS) - 1.0).abs() < 0.01);
        assert!((r.f.determinant() - 1.0).abs() < 1e-6);
    }
}
