//! CUDA worlds on a fake driver, `fake_cuda.c`, which has C functions in place of the kernels of these tests.
//!
//! The driver is configured per process, so each test runs in a process of its own.

mod copies;
mod devices;
mod graphs;
mod kernels;
mod launches;
mod sparse;

use crate::process::only;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use wuji::{CacheChoice, World, WorldBuilder};

/// The driver, compiled once.
fn driver() -> &'static PathBuf {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../wuji-cli/tests/commands/fake_cuda.c"
        );
        // Several processes of tests may do so at once.
        let made = folder.join(format!("libfake_cuda_{}.so", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", source, "-o"]);
        assert!(cc.arg(&made).status().unwrap().success());
        let library = folder.join("libfake_cuda.so");
        std::fs::rename(made, &library).unwrap();
        library
    })
}

/// Runs the test `name` in a process whose driver has this configuration. Returns what that process wrote to its standard error
/// output; `None` inside of that process.
fn with_driver(name: &str, config: &str, body: impl FnOnce()) -> Option<String> {
    const INSIDE: &str = "WUJI_INSIDE_TEST";
    if std::env::var_os(INSIDE).is_some() {
        body();
        return None;
    }
    let output = only(&format!("cuda::{name}"))
        .env(INSIDE, "1")
        .env("WUJI_CUDA_DRIVER", driver())
        .env("FAKE_CUDA", config)
        .env_remove("WUJI_LAUNCH_BLOCKING")
        .env_remove("CUDA_LAUNCH_BLOCKING")
        .env_remove("WUJI_DEBUG")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
    Some(errors)
}

fn builder() -> WorldBuilder {
    // The driver of the tests knows kernels by their names.
    let eager = World::builder().lazy(false);
    eager.cuda(0).cache(CacheChoice::Off)
}

/// The lines that kernels of a world print.
fn lines_of(world: &World) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let to = lines.clone();
    world.on_print(move |line| to.lock().unwrap().push(line.to_owned()));
    lines
}
