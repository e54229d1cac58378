//! The five applications of the 2019 paper on sparse data structures, implemented in `examples/src/apps`.

use super::{Example, Media, Outcome, Stage, Summary};
use crate::apps::mpm3d::Material;
use crate::apps::{App, Scale, conv, fem, mgpcg, mpm3d, volume};
use std::cell::RefCell;
use wuji::World;

const SIZE: (&str, usize) = (
    "1 is small, 2 is large; `cargo xtask bench paper` has the sizes of the paper",
    1,
);

/// Runs an application with `steps` per frame.
fn play(
    stage: &mut Stage,
    make: impl Fn(&World, Scale) -> wuji::Result<Box<dyn App>>,
    steps: usize,
    unit: &'static str,
) -> Outcome<Summary> {
    let scale = if stage.size() < 2 {
        Scale::Small
    } else {
        Scale::Full
    };
    let app = RefCell::new(make(&stage.world(), scale)?);
    stage.play(
        |_| (0..steps).try_for_each(|_| app.borrow_mut().step()),
        || app.borrow().picture(),
    )?;
    let what = app.borrow().size()?;
    Ok(Summary::new(what, steps, unit))
}

/// The material point method in three dimensions, on a sparse grid.
pub const MPM3D: Example = Example {
    name: "mpm3d",
    about: "two blocks of jelly fall in three dimensions, on a sparse grid",
    long: "Particles are stored in `dynamic` lists of the `pointer` blocks that contain them. One thread processes a block, with the part of \
           the grid that it accesses in a scratchpad: `cache(grid, ..)`.",
    size: SIZE,
    frames: 48,
    media: Media::Moving,
    run: |stage| {
        let make = |w: &World, scale| mpm3d::app(w, scale, mpm3d::Variant::Buckets);
        play(stage, make, 60, "substeps")
    },
    file: "examples/src/apps/mpm3d.rs",
    source: include_str!("../apps/mpm3d.rs"),
};

/// The same program with another material.
const fn of_material(
    name: &'static str,
    about: &'static str,
    long: &'static str,
    run: fn(&mut Stage) -> Outcome<Summary>,
) -> Example {
    Example {
        name,
        about,
        long,
        run,
        file: "examples/src/apps/mpm3d/material.rs",
        source: include_str!("../apps/mpm3d/material.rs"),
        ..MPM3D
    }
}

/// Plays the scene of a material, with substeps of a frame.
fn play_material(stage: &mut Stage, material: Material, steps: usize) -> Outcome<Summary> {
    let make = |w: &World, scale| mpm3d::material_app(w, scale, material);
    play(stage, make, steps, "substeps")
}

/// Snow.
pub const SNOW: Example = of_material(
    "mpm3d_snow",
    "two snowballs hit each other: plasticity with hardening, on a sparse grid",
    "The kernels of `mpm3d` are generic over a trait. Singular values of the deformation are clamped; what is clamped is plastic, and makes \
     snow harder where it is compressed, and softer where it is pulled apart.",
    |stage| play_material(stage, Material::Snow, 16),
);

/// Sand.
pub const SAND: Example = of_material(
    "mpm3d_sand",
    "a column of sand collapses into a pile: Drucker-Prager, on a sparse grid",
    "The kernels of `mpm3d` with logarithmic strains that are projected onto the yield surface of dry friction. A volume correction keeps \
     grains that were apart from pressing before they touch again.",
    |stage| play_material(stage, Material::Sand, 30),
);

/// A fluid.
pub const FLUID: Example = of_material(
    "mpm3d_fluid",
    "a dam breaks in three dimensions: a weakly compressible fluid on a sparse grid",
    "The kernels of `mpm3d` with an equation of state: the pressure depends on the volume alone, so only the determinant of a deformation is \
     kept.",
    |stage| play_material(stage, Material::Fluid, 30),
);

/// Elasticity on a sparse grid.
pub const FEM: Example = Example {
    name: "fem",
    about: "a hollow ball sags under its weight: finite elements, conjugate gradients",
    long: "Matrix-free: each iteration computes the matrix-vector product from the elements around each node, which are active only where \
           there is material.",
    size: SIZE,
    frames: 150,
    media: Media::Still,
    run: |stage| play(stage, fem::app, 1, "iterations"),
    file: "examples/src/apps/fem.rs",
    source: include_str!("../apps/fem.rs"),
};

/// Conjugate gradients with multigrid, on a sparse grid.
pub const MGPCG: Example = Example {
    name: "mgpcg",
    about: "Poisson's equation on a sparse domain: multigrid and conjugate gradients",
    long: "A multigrid hierarchy: every level has half the resolution of the previous one and its own tree, and the same generic \
           kernels run on all of them.",
    size: SIZE,
    frames: 20,
    media: Media::Still,
    run: |stage| play(stage, mgpcg::app, 1, "iterations"),
    file: "examples/src/apps/mgpcg.rs",
    source: include_str!("../apps/mgpcg.rs"),
};

/// A convolution over the active cells of a sparse grid.
pub const CONVOLUTION: Example = Example {
    name: "sparse_conv",
    about: "a convolution on sparse voxels near a surface finds its normals",
    long: "A 3x3x3 convolution with 16 channels, as in a neural network, with Sobel's filters as weights. Left the input, how much of a voxel is \
           inside; right the output, as light on the surface. Output voxels are active where input voxels are; all others cost neither memory nor time.",
    size: SIZE,
    frames: 1,
    media: Media::Still,
    run: |stage| play(stage, conv::normals, 1, "layers"),
    file: "examples/src/apps/conv.rs",
    source: include_str!("../apps/conv.rs"),
};

/// A path tracer for a sparse volume.
pub const VOLUME: Example = Example {
    name: "volume_renderer",
    about: "a volumetric path tracer: smoke in a sparse grid",
    long: "Woodcock (delta) tracking: free paths are sampled at the maximum density and rejected by the actual one, so a ray reads single voxels; \
           inactive ones are zero. Each frame adds one path per pixel.",
    size: SIZE,
    frames: 32,
    media: Media::Still,
    run: |stage| play(stage, volume::app, 1, "passes"),
    file: "examples/src/apps/volume.rs",
    source: include_str!("../apps/volume.rs"),
};
