//! MLS-MPM of a fluid in three dimensions, on grids of two sizes.

/// A grid that fits in the L2 caches.
pub mod small {
    pub const GRID: usize = 64;
    const NAME: &str = "mpm3d";
    include!("mpm3d_case.rs");
}

/// A grid that fits in no cache, of which the particles touch a small part.
pub mod large {
    pub const GRID: usize = 128;
    const NAME: &str = "mpm3d_large";
    include!("mpm3d_case.rs");
}
