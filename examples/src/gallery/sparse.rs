//! The five applications of the 2019 paper on sparse data structures; their code is in `examples/src/apps`.

use super::{Closing, Example, Media, Outcome, Stage};
use crate::apps::{App, Scale, conv, fem, mgpcg, mpm3d, volume};
use std::cell::RefCell;
use wuji::World;

const SIZE: (&str, usize) = ("1 for a quick look, 2 for the size of the paper", 1);

/// Plays an application: `steps` of it a frame.
fn play(
    stage: &mut Stage,
    make: impl Fn(&World, Scale) -> wuji::Result<Box<dyn App>>,
    steps: usize,
    unit: &'static str,
) -> Outcome<Closing> {
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
    Ok(Closing::new(what, steps, unit))
}

pub const MPM3D: Example = Example {
    name: "mpm3d",
    about: "two blocks of jelly fall in three dimensions, on a sparse grid",
    long: "Particles lie in lists (`dynamic`) of the blocks (`pointer`) they are in, so that a block is computed from start to end by one \
           thread, with the part of the grid it touches in a scratchpad: `cache(grid, ..)`.",
    size: SIZE,
    frames: 200,
    media: Media::Still,
    run: |stage| {
        let make = |w: &World, scale| mpm3d::app(w, scale, mpm3d::Variant::Buckets);
        play(stage, make, 25, "substeps")
    },
    file: "examples/src/apps/mpm3d.rs",
    source: include_str!("../apps/mpm3d.rs"),
};

pub const FEM: Example = Example {
    name: "fem",
    about: "a hollow ball sags under its weight: finite elements, conjugate gradients",
    long: "The matrix is never stored: each iteration computes its product with a vector from the elements around each node, which exist only \
           where there is material.",
    size: SIZE,
    frames: 150,
    media: Media::Still,
    run: |stage| play(stage, fem::app, 1, "iterations"),
    file: "examples/src/apps/fem.rs",
    source: include_str!("../apps/fem.rs"),
};

pub const MGPCG: Example = Example {
    name: "mgpcg",
    about: "Poisson's equation on a sparse domain, by multigrid and conjugate gradients",
    long: "Grids of four sizes, each with half the cells a side of the one before; every level has its own tree, and the same generic \
           kernels run on all of them.",
    size: SIZE,
    frames: 20,
    media: Media::Still,
    run: |stage| play(stage, mgpcg::app, 1, "iterations"),
    file: "examples/src/apps/mgpcg.rs",
    source: include_str!("../apps/mgpcg.rs"),
};

pub const CONVOLUTION: Example = Example {
    name: "sparse_conv",
    about: "a layer of a neural network on voxels that exist only near a surface",
    long: "A 3x3x3 convolution from channels to channels. Output appears where input is; everything else costs neither memory nor time.",
    size: SIZE,
    frames: 1,
    media: Media::Still,
    run: |stage| play(stage, conv::app, 1, "layers"),
    file: "examples/src/apps/conv.rs",
    source: include_str!("../apps/conv.rs"),
};

pub const VOLUME: Example = Example {
    name: "volume_renderer",
    about: "light in smoke: a path tracer through sparse densities",
    long: "Free paths are drawn at the greatest density and thinned out by the real one, so a ray only asks for single voxels; those that do not \
           exist are zero. Each frame adds a path to every pixel.",
    size: SIZE,
    frames: 32,
    media: Media::Still,
    run: |stage| play(stage, volume::app, 1, "passes"),
    file: "examples/src/apps/volume.rs",
    source: include_str!("../apps/volume.rs"),
};
