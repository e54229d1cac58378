//! Files of other programs: NumPy arrays, PLY meshes and points, VTK grids and meshes, OpenVDB volumes.
//!
//! [`Field::save_npy`](crate::Field::save_npy), [`Field::load_npy`](crate::Field::load_npy) and [`World::load_npy`](crate::World::load_npy)
//! exchange fields with NumPy. [`Mesh`] writes and reads PLY files, and writes VTK files; [`Grid`] writes fields of two or three axes for
//! ParaView, and [`Vdb`] sparse volumes for Blender, Houdini and renderers.
//!
//! A file is written under another name and then renamed, so a reader never sees half of it.
//!
//! ```
//! use wuji::files::{Grid, Mesh};
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("wuji-files-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).ok();
//! let world = World::cpu()?;
//! let x = world.field::<Vec3, 1>("x", 100)?;
//! let mass = world.field::<f32, 1>("mass", 100)?;
//! let points = Mesh::points(&x.to_vec()?).with_attribute("mass", &mass.to_vec()?);
//! points.save_ply(folder.join("particles.ply"))?;
//!
//! let density = world.field::<f32, 3>("density", [16, 16, 16])?;
//! let velocity = world.field::<Vec3, 3>("velocity", [16, 16, 16])?;
//! Grid::new().spacing(0.1).field(&density)?.field(&velocity)?.save_vti(folder.join("smoke.vti"))?;
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok(())
//! # }
//! ```

mod grid;
mod mesh;
mod npy;
mod ply;
pub(crate) mod stream;
mod vdb;

pub use grid::Grid;
pub use mesh::Mesh;
pub use vdb::Vdb;

use crate::element::Element;
use crate::world::here;
use std::panic::Location;
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result};

/// Errors of a call are at the line of the user.
pub(crate) fn at_caller<T>(result: Result<T>, caller: &'static Location<'static>) -> Result<T> {
    result.map_err(|error| error.or_at(here(caller)))
}

/// The scalar that elements consist of, and the extents of their components: none for scalars, one for vectors, two for matrices.
fn scalars<T: Element>(target: &str) -> Result<(Scalar, Vec<u64>)> {
    let mut structs = Structs::default();
    match T::ir_type(&mut structs) {
        Type::Scalar(scalar) => Ok((scalar, Vec::new())),
        Type::Vector(scalar, n) => Ok((scalar, vec![n.into()])),
        Type::Matrix(scalar, r, c) => Ok((scalar, vec![r.into(), c.into()])),
        Type::Struct(_) => {
            let what = format!("{target} cannot hold structs, tuples or enums");
            Err(Error::new("W0532", what).help("use a field of scalars or vectors for each member"))
        }
    }
}
