//! A volumetric path tracer: Woodcock tracking through a sparse density grid, an isotropic phase function, a lamp and a
//! sky.

use super::{App, Scale, blocks, from_middle};
use wuji::Result;
use wuji::prelude::*;
use wuji::viewer::Picture;

/// Voxels along each side of a block.
pub const BLOCK: i32 = 8;
const IMAGE: i64 = 512;
/// Maximum number of scattering events per path.
const BOUNCES: i32 = 64;
/// Extinction at the maximum density, which is 1.
pub const EXTINCTION: f32 = 60.0;
/// The part of the light that is scattered, not absorbed.
pub const ALBEDO: f32 = 0.95;
/// The position of the lamp.
pub const LAMP: Vec3 = vec3(1.4, 1.8, -0.6);
/// The light of the lamp.
pub const LAMP_POWER: Vec3 = vec3(60.0, 50.0, 38.0);
const SKY: Vec3 = vec3(0.16, 0.24, 0.4);

// ANCHOR: kernels
/// What a picture shows.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The extent of the volume.
    pub size: Vec3,
    /// Voxels per unit of length.
    pub resolution: f32,
    /// Pixels along each axis.
    pub pixels: f32,
    /// Light that comes from everywhere outside.
    pub sky: Vec3,
    /// Maximum number of scattering events per path.
    pub bounces: i32,
}

/// Entry and exit distances of a ray through the volume.
#[func]
fn through(origin: Vec3, direction: Vec3, size: Vec3) -> Vec2 {
    let a = -origin / direction;
    let b = (size - origin) / direction;
    let near = a.min(b).max_component().max(0.0);
    let far = a.max(b).min_component();
    vec2(near, far)
}

#[func]
fn sample(density: &Field<f32, 3>, at: Vec3, n: f32) -> f32 {
    density[(at * n).floor().cast::<i32>()]
}

/// The free path to the next real or null collision at the maximum density.
#[func]
fn free_path() -> f32 {
    -(1.0 - random::<f32>()).ln() / EXTINCTION
}

#[func]
fn any_direction() -> Vec3 {
    let z = random::<f32>() * 2.0 - 1.0;
    let phi = random::<f32>() * std::f32::consts::TAU;
    let r = (1.0 - z * z).max(0.0).sqrt();
    vec3(r * phi.cos(), r * phi.sin(), z)
}

/// A stochastic visibility test of the lamp.
#[func]
fn lit(density: &Field<f32, 3>, from: Vec3, view: View) -> Vec3 {
    let way = LAMP - from;
    let distance = way.norm();
    let direction = way / distance;
    let far = through(from, direction, view.size).y;
    let mut t = free_path();
    let mut seen = true;
    while t < far && seen {
        if random::<f32>() < sample(density, from + direction * t, view.resolution) {
            seen = false;
        }
        t += free_path();
    }
    let phase = 1.0 / (4.0 * std::f32::consts::PI);
    if seen {
        LAMP_POWER * (phase / (distance * distance))
    } else {
        Vec3::splat(0.0)
    }
}

/// Adds some paths per pixel to the image.
#[kernel]
fn trace(density: &Field<f32, 3>, image: &Field<Vec3, 2>, view: View, samples: i32) {
    for [i, j] in image {
        let mut sum = Vec3::splat(0.0);
        for _ in 0..samples {
            let u = (i as f32 + random::<f32>()) / view.pixels - 0.5;
            let v = (j as f32 + random::<f32>()) / view.pixels - 0.5;
            let mut origin = vec3(view.size.x * 0.5, view.size.y * 0.5, -1.5);
            let mut direction = vec3(u * 0.7, v * 0.7, 1.0).normalized();
            let span = through(origin, direction, view.size);
            let mut t = span.x;
            let mut far = span.y;
            let mut weight = 1.0;
            let mut light = Vec3::splat(0.0);
            let mut bounces = 0;
            while bounces < view.bounces {
                t += free_path();
                if t >= far {
                    break;
                }
                let at = origin + direction * t;
                if random::<f32>() < sample(density, at, view.resolution) {
                    weight *= ALBEDO;
                    light += lit(density, at, view) * weight;
                    origin = at;
                    direction = any_direction();
                    t = 0.0;
                    far = through(origin, direction, view.size).y;
                    bounces += 1;
                }
            }
            if bounces < view.bounces {
                light += view.sky * weight;
            }
            sum += light;
        }
        image[[i, j]] += sum;
    }
}
// ANCHOR_END: kernels

/// The density of a billowing ball.
#[kernel]
fn puff(density: &Field<f32, 3>, n: f32) {
    for [i, j, k] in density {
        let at = (vec3(i as f32, j as f32, k as f32) + Vec3::splat(0.5)) / n - Vec3::splat(0.5);
        let mut swell = 0.0;
        let mut size = 1.0;
        for o in 0..4 {
            let f = 9.0 * (1 << o) as f32;
            swell += size
                * (at.x * f + 1.3).sin()
                * (at.y * f * 1.1 + o as f32).sin()
                * (at.z * f * 0.9 - 0.4).cos();
            size *= 0.5;
        }
        let depth = 0.34 + 0.09 * swell - at.norm();
        density[[i, j, k]] = (depth * 12.0).clamp(0.0, 1.0);
    }
}

/// The progressive renderer.
#[derive(Debug)]
pub struct Volume {
    view: View,
    density: Field<f32, 3>,
    image: Field<Vec3, 2>,
    /// Samples of each pixel so far.
    samples: i32,
}

/// Smoke in 256^3 or 64^3 voxels.
pub fn app(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let n = if scale == Scale::Full { 256 } else { 64 };
    Ok(Box::new(Volume::new(world, n)?))
}

impl Volume {
    /// A billowing ball in a cube of `n`^3 voxels, below a sky.
    pub fn new(world: &World, n: i32) -> Result<Volume> {
        let view = View {
            size: Vec3::splat(1.0),
            resolution: n as f32,
            pixels: IMAGE as f32,
            sky: SKY,
            bounces: BOUNCES,
        };
        let active = blocks(n, BLOCK, |at| from_middle(at) < 0.5);
        let volume = Volume::with_blocks(world, [n; 3], &active, view)?;
        puff(&volume.density, n as f32)?;
        Ok(volume)
    }

    /// Empty blocks in a volume of so many voxels, given by their first voxels.
    pub fn with_blocks(
        world: &World,
        voxels: [i32; 3],
        active: &[[i32; 3]],
        view: View,
    ) -> Result<Volume> {
        // ANCHOR: layout
        let (cells, density) = world.layout(|root| {
            let block = root.pointer(IJK, voxels.map(|n| (n / BLOCK) as i64));
            (
                block.cells::<3>("blocks"),
                block.dense(IJK, BLOCK as i64).place("density"),
            )
        })?;
        let image = world.field("image", [view.pixels as i64; 2])?;
        // ANCHOR_END: layout
        let at: Vec<[i32; 3]> = active.iter().map(|b| b.map(|c| c / BLOCK)).collect();
        cells.import(&at)?;
        Ok(Volume {
            view,
            density,
            image,
            samples: 0,
        })
    }

    /// The density of the volume.
    pub fn density(&self) -> &Field<f32, 3> {
        &self.density
    }

    /// Adds so many samples to every pixel.
    pub fn render(&mut self, samples: i32) -> Result<()> {
        trace(&self.density, &self.image, self.view, samples)?;
        self.samples += samples;
        Ok(())
    }

    /// The mean of all samples so far.
    pub fn image(&self) -> Result<Vec<Vec3>> {
        let scale = 1.0 / self.samples.max(1) as f32;
        let sums = self.image.to_vec()?;
        Ok(sums.into_iter().map(|sum| sum * scale).collect())
    }
}

impl App for Volume {
    fn step(&mut self) -> Result<()> {
        self.render(1)
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        let image = self.image()?;
        let scale = 1.0 / image.len() as f64;
        let mean = |c: usize| image.iter().map(|p| f64::from(p.0[c])).sum::<f64>() * scale;
        Ok(vec![
            ("voxels", self.density.count_active()? as f64),
            ("red", mean(0)),
            ("blue", mean(2)),
        ])
    }

    fn picture(&self) -> Result<Picture> {
        let size = self.view.pixels as usize;
        let image = self.image()?;
        let tone = |x: f32| ((x / (1.0 + x)).powf(1.0 / 2.2) * 255.0) as u8;
        let pixels = (0..size * size)
            .map(|p| image[p % size * size + size - 1 - p / size].0.map(tone))
            .collect();
        Ok(Picture {
            width: size,
            height: size,
            pixels,
        })
    }

    fn size(&self) -> Result<String> {
        let voxels = self.density.count_active()?;
        let (n, pixels) = (self.view.size * self.view.resolution, self.view.pixels);
        Ok(format!(
            "{voxels} of {}x{}x{} voxels, {pixels}x{pixels} pixels",
            n.x, n.y, n.z
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without scattering, transmittance through a slab follows the Beer-Lambert law.
    #[kernel]
    fn seen_through(density: &Field<f32, 3>, hits: &Field<i32, 1>, n: f32) {
        for [p] in hits {
            let origin = vec3(0.5, 0.5, -1.0);
            let direction = vec3(0.0001, 0.0001, 1.0);
            let span = through(origin, direction, Vec3::splat(1.0));
            let mut t = span.x + free_path();
            while t < span.y && hits[[p]] == 0 {
                if random::<f32>() < sample(density, origin + direction * t, n) {
                    hits[[p]] = 1;
                }
                t += free_path();
            }
        }
    }

    #[test]
    fn light_fades_exponentially() {
        let world = World::cpu().expect("a world");
        let volume = Volume::new(&world, 32).expect("fields");
        let hits = world.field::<i32, 1>("hits", 200_000).expect("a field");
        // A slab with the depth of one block and an optical depth of one.
        volume.density.tree().clear().expect("no smoke");
        let depth = 8.0 / 32.0;
        let density = 1.0 / (EXTINCTION * depth);
        let window = volume
            .density
            .window([16..17, 16..17, 8..16])
            .expect("a window");
        window.fill(density).expect("values");
        seen_through(&volume.density, &hits, 32.0).expect("a launch");
        let stopped = hits.to_vec().expect("hits").iter().sum::<i32>() as f32 / 200_000.0;
        let expected = 1.0 - (-1.0f32).exp();
        assert!((stopped - expected).abs() < 0.005, "{stopped} {expected}");
    }

    #[test]
    fn pictures_are_bounded() {
        let world = World::cpu().expect("a world");
        let mut volume = Volume::new(&world, 64).expect("fields");
        for _ in 0..2 {
            volume.step().expect("a pass");
        }
        let image = volume.image.to_vec().expect("pixels");
        // The corner sees only the sky.
        let corner = image[0] / 2.0;
        assert!((corner - SKY).norm() < 1e-6, "{corner:?}");
        let middle: Vec<Vec3> = (236..276)
            .flat_map(|i| (236..276).map(move |j| i * 512 + j))
            .map(|p| image[p] / 2.0)
            .collect();
        let mean = middle.iter().fold(Vec3::splat(0.0), |s, p| s + *p) / middle.len() as f32;
        assert!(mean.0[0] > SKY.0[0] && mean.0[0] < 10.0, "{mean:?}");
        assert!(image.iter().all(|p| p.0.iter().all(|c| c.is_finite())));
    }
}
