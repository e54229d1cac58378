//! The backends that tests run on: `WUJI_TEST_BACKEND=cuda` selects the first GPU.

use wuji::prelude::*;

/// Whether kernels run on the first GPU.
pub(crate) fn on_gpu() -> bool {
    std::env::var_os("WUJI_TEST_BACKEND").is_some_and(|v| v == "cuda")
}

/// A backend that compiles, and the interpreter.
pub(crate) fn worlds() -> [World; 2] {
    let native = if on_gpu() {
        World::cuda(0)
    } else {
        World::builder().threads(2).build()
    };
    [native.unwrap(), World::interpreter().unwrap()]
}

/// A world on the backend that compiles.
pub(crate) fn builder() -> wuji::WorldBuilder {
    if on_gpu() {
        World::builder().cuda(0)
    } else {
        World::builder().threads(2)
    }
}
