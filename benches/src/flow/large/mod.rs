//! The large programs of the paper.

mod advection;
mod mgpcg;
mod mpm;
mod nodal_forces;
mod texture;

use super::Program;

/// The programs, in the order of the paper.
pub const ALL: [Program; 6] = [
    advection::MACCORMACK,
    mpm::MLS_MPM,
    mgpcg::MGPCG_2D,
    mgpcg::MGPCG_3D,
    nodal_forces::AUTODIFF,
    texture::TEXTURE,
];
