//! A volume renderer: a density is recovered from X-ray photos of it, from several sides.

use super::{Adam, Outcome, Report, Simulator, Study, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// A volume from pictures of it.
pub const VOLUME_RENDERER: Simulator = Simulator {
    name: "volume_renderer",
    about: "X-ray photos: a density is recovered from views of it",
    long: "Rays march through a density, which is interpolated between eight voxels, and are absorbed. The loss compares the photos \
           with those of a hidden density; the gradient scatters to the voxels that each ray passed.",
    goal: "the loss falls below 1% of the first one",
    size: ("voxels along each side", 48),
    iterations: 60,
    run,
    file: file!(),
    source: include_str!("volume_renderer.rs"),
};

const VIEWS: usize = 7;
const ABSORPTION: f32 = 4.0;

/// The density at a position in voxels; zero outside.
#[func]
fn sample(density: &Field<f32, 3>, p: Vec3) -> f32 {
    let base = p.floor();
    let (i, f) = (base.cast::<i32>(), p - base);
    let mut sum = 0.0;
    for corner in unroll(0..8) {
        let o = ivec3(corner / 4, corner / 2 % 2, corner % 2);
        let mut weight = 1.0;
        for d in unroll(0..3) {
            weight *= if o[d] == 1 { f[d] } else { 1.0 - f[d] };
        }
        sum += weight * density[i + o];
    }
    sum
}

/// The light that passes the volume, for each pixel of each view. The camera turns around the vertical axis.
#[kernel]
fn expose(density: &Field<f32, 3>, photo: &Field<f32, 3>) {
    let n = density.shape().x;
    let middle = 0.5 * (n - 1) as f32;
    for [view, i, j] in photo {
        let angle = view as f32 * (std::f32::consts::PI / VIEWS as f32);
        let (sin, cos) = (angle.sin(), angle.cos());
        let side = i as f32 - middle;
        let mut depth = 0.0;
        for k in 0..n {
            let along = k as f32 - middle;
            let p = vec3(
                middle + cos * side - sin * along,
                j as f32,
                middle + sin * side + cos * along,
            );
            depth += sample(density, p) / n as f32;
        }
        photo[[view, i, j]] = (-ABSORPTION * depth).exp();
    }
}

#[kernel]
fn compare(photo: &Field<f32, 3>, target: &Field<f32, 3>, loss: &Field<f32, 0>) {
    let pixels = photo.shape().product() as f32;
    for [view, i, j] in photo {
        let d = photo[[view, i, j]] - target[[view, i, j]];
        loss[[]] += d * d / pixels;
    }
}

struct Scanner {
    world: World,
    n: usize,
    /// The density, which is optimized.
    density: Field<f32, 3>,
    photo: Field<f32, 3>,
    target: Field<f32, 3>,
    loss: Field<f32, 0>,
}

impl Scanner {
    fn new(world: World, n: usize) -> wuji::Result<Scanner> {
        let scanner = Scanner {
            n,
            density: world.field("density", [n; 3])?.needs_grad()?,
            photo: world.field("photo", [VIEWS, n, n])?.needs_grad()?,
            target: world.field("target", [VIEWS, n, n])?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        scanner.density.copy_from(&hidden(n))?;
        expose(&scanner.density, &scanner.target)?;
        scanner.density.fill(0.0)?;
        Ok(scanner)
    }

    fn render(&self) -> wuji::Result<()> {
        expose(&self.density, &self.photo)?;
        self.loss.fill(0.0)?;
        compare(&self.photo, &self.target, &self.loss)
    }

    /// The loss; its gradient with respect to the density is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.render())?;
        Ok(f64::from(self.loss.get(())?))
    }

    /// Each view of the result, above the one of the hidden density.
    fn frames(&self) -> wuji::Result<Vec<Picture>> {
        let photos = [self.target.to_vec()?, self.photo.to_vec()?];
        let (side, n) = (plot::SIDE, self.n);
        let frame = |view: usize| {
            let mut frame = Framebuffer::new(side / 2, side, opaque(0xffffff));
            for (x, pixel) in frame.pixels_mut().chunks_mut(side).enumerate() {
                for (y, pixel) in pixel.iter_mut().enumerate() {
                    let photo = &photos[usize::from(y >= side / 2)];
                    let (i, j) = (x * 2 * n / side, y % (side / 2) * 2 * n / side);
                    let light = photo[(view * n + i) * n + j];
                    *pixel = [light, light, light, 1.0];
                }
            }
            frame.to_picture()
        };
        Ok((0..VIEWS).map(frame).collect())
    }
}

/// A ring around a ball, which the photos show.
fn hidden(n: usize) -> Vec<f32> {
    let place = |k: usize| (k as f32 + 0.5) / n as f32 * 2.0 - 1.0;
    let inside = |distance: f32| (0.5 - distance * n as f32 * 0.25).clamp(0.0, 1.0);
    let voxel = |k: usize| {
        let p = vec3(place(k / (n * n)), place(k / n % n), place(k % n));
        let ball = (p - vec3(0.0, 0.3, 0.0)).norm() - 0.3;
        let ring = vec2(vec2(p.x, p.z).norm() - 0.55, p.y + 0.2 - 0.4 * p.x).norm() - 0.15;
        inside(ball.min(ring))
    };
    (0..n * n * n).map(voxel).collect()
}

fn run(study: &Study) -> Outcome<Report> {
    let scanner = Scanner::new(study.world(), study.size())?;
    let mut adam = Adam::new(&scanner.density, 0.05)?;
    let losses = study.optimize(|_| {
        let loss = scanner.gradient()?;
        adam.step()?;
        // No density is negative.
        let density = scanner.density.to_vec()?;
        let density: Vec<_> = density.into_iter().map(|d| d.max(0.0)).collect();
        scanner.density.copy_from(&density)?;
        Ok(loss)
    })?;
    Ok(Report {
        what: format!("{0}x{0}x{0} voxels, {VIEWS} views", scanner.n),
        goal: 0.01 * losses[0],
        losses,
        frames: scanner.frames()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal};
    use super::*;

    #[test]
    fn photos_show_the_density() {
        reaches_its_goal(&VOLUME_RENDERER, 12, 40);
    }

    #[test]
    fn the_gradient_of_a_voxel_is_right() {
        let scanner = Scanner::new(World::cpu().expect("a world"), 8).expect("fields");
        scanner.density.fill(0.3).expect("filled");
        scanner.gradient().expect("a gradient");
        gradient_is_a_difference(
            &scanner.density,
            (4 * 64 + 3 * 8 + 4, 0),
            (0.1, 1e-2),
            || {
                scanner.render()?;
                Ok(f64::from(scanner.loss.get(())?))
            },
        );
    }
}
