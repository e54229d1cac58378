//! The five applications of the 2019 paper on spatially sparse data structures, each with its own sparse layout.
//!
//! An [`App`] is created for a world and a size, advances step by step, and computes checksums. The scripts in
//! `benches/peers` compare the checksums of other implementations.

mod balls;
pub mod conv;
pub mod fem;
pub mod mgpcg;
pub mod mpm3d;
pub mod volume;

use wuji::viewer::Picture;
use wuji::{Result, World};

/// A simulation, solver or renderer that advances step by step.
pub trait App {
    /// One substep, iteration, layer or pass.
    fn step(&mut self) -> Result<()>;
    /// Checksums of the current state.
    fn sums(&self) -> Result<Vec<(&'static str, f64)>>;
    /// Renders the current state.
    fn picture(&self) -> Result<Picture>;
    /// A description of the problem size.
    fn size(&self) -> Result<String>;
}

/// An application, and the number of steps until its picture.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// The name of a step.
    pub unit: &'static str,
    /// Number of steps until the picture.
    pub steps: usize,
    /// Makes the application in a world.
    pub make: fn(&World, Scale) -> Result<Box<dyn App>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The problem size: full for measurements, small for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// For measurements.
    Full,
    /// For tests.
    Small,
}

/// All applications, in the order of the paper; the material point method with several materials.
pub const ALL: [Entry; 10] = [
    Entry {
        name: "mpm3d",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::app(world, scale, mpm3d::Variant::Buckets),
    },
    Entry {
        name: "mpm3d_plain",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::app(world, scale, mpm3d::Variant::Plain),
    },
    Entry {
        name: "mpm3d_unbounded",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::app(world, scale, mpm3d::Variant::Unbounded),
    },
    Entry {
        name: "mpm3d_snow",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::material_app(world, scale, mpm3d::Material::Snow),
    },
    Entry {
        name: "mpm3d_sand",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::material_app(world, scale, mpm3d::Material::Sand),
    },
    Entry {
        name: "mpm3d_fluid",
        unit: "substep",
        steps: 600,
        make: |world, scale| mpm3d::material_app(world, scale, mpm3d::Material::Fluid),
    },
    Entry {
        name: "fem",
        unit: "iteration",
        steps: 150,
        make: fem::app,
    },
    Entry {
        name: "mgpcg",
        unit: "iteration",
        steps: 20,
        make: mgpcg::app,
    },
    Entry {
        name: "sparse_conv",
        unit: "layer",
        steps: 1,
        make: conv::app,
    },
    Entry {
        name: "volume_renderer",
        unit: "pass",
        steps: 64,
        make: volume::app,
    },
];

/// Reproducible pseudo-random numbers in 0..1: the top bits of a hash of `i`.
pub fn noise(i: usize) -> f32 {
    let mut x = (i as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}

/// The first cell of each block of `block^3` cells, in a cube of `n^3`, that contains a cell `inside`.
pub fn blocks(n: i32, block: i32, inside: impl Fn([f32; 3]) -> bool) -> Vec<[i32; 3]> {
    let mut found = Vec::new();
    let at = |c: i32| (c as f32 + 0.5) / n as f32;
    for i in (0..n).step_by(block as usize) {
        for j in (0..n).step_by(block as usize) {
            for k in (0..n).step_by(block as usize) {
                let cells = (0..block * block * block).map(|c| {
                    [
                        at(i + c / (block * block)),
                        at(j + c / block % block),
                        at(k + c % block),
                    ]
                });
                if cells.into_iter().any(&inside) {
                    found.push([i, j, k]);
                }
            }
        }
    }
    found
}

/// Distance of a point from the centre of the unit cube.
pub fn from_middle(at: [f32; 3]) -> f32 {
    at.iter().map(|c| (c - 0.5) * (c - 0.5)).sum::<f32>().sqrt()
}

/// A square false-colour image: `None` is the background, 0 to 1 maps from blue over white to red.
pub fn chart(size: usize, value: impl Fn(usize, usize) -> Option<f32>) -> Picture {
    const COLORS: [[f32; 3]; 5] = [
        [20.0, 50.0, 130.0],
        [80.0, 160.0, 220.0],
        [240.0, 240.0, 235.0],
        [240.0, 150.0, 80.0],
        [150.0, 20.0, 40.0],
    ];
    let color = |t: f32| {
        let t = t.clamp(0.0, 1.0) * 4.0;
        let n = (t as usize).min(3);
        let (a, b, f) = (COLORS[n], COLORS[n + 1], t - n as f32);
        std::array::from_fn(|c| (a[c] + (b[c] - a[c]) * f) as u8)
    };
    let pixels = (0..size * size)
        .map(|p| value(p % size, size - 1 - p / size).map_or([14, 18, 30], color))
        .collect();
    Picture {
        width: size,
        height: size,
        pixels,
    }
}
