//! Generates the page of the book about the simulations with quantized storage, and its pictures.

use super::{ALL, Options, Outcome, perform};
use std::path::{Path, PathBuf};

/// Writes the pictures that are missing to a directory.
pub fn pictures(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for simulation in ALL {
        let file = folder.join(format!("{}.png", simulation.name));
        if file.exists() {
            continue;
        }
        let options = Options {
            out: Some(file),
            ..Options::default()
        };
        files.push(perform(simulation, &options)?.1);
    }
    Ok(files)
}

/// The text of `docs/quantized-examples.md`.
pub fn page() -> String {
    let mut page = "\
# Simulations with quantized storage

These programs run the same kernels twice: with fields of machine types, and with [packed fields](quantized.md).
Only the layout differs.
They print the bytes per particle or cell and the time per step of both, and compare the results.

```sh
cargo run --release -p wuji-examples --bin quantized                             # list the simulations
cargo run --release -p wuji-examples --bin quantized -- mpm                      # run one; writes mpm.png
cargo run --release -p wuji-examples --bin quantized -- mpm --size 512 --cuda    # at a large size, on a GPU
```

The default sizes run in seconds on two cores.
Tests compare energies, volumes and sums of both layouts at small sizes.

| simulation | | lines of code |
|---|---|---|
"
    .to_string();
    for simulation in ALL {
        page += &format!(
            "| [{0}](#{0}) | {1} | {2} |\n",
            simulation.name,
            simulation.about,
            simulation.lines(),
        );
    }
    for simulation in ALL {
        let (what, size, large) = simulation.size;
        page += &format!(
            "\n## {0}\n\n![{1}](pictures/quantized/{0}.png)\n\n{2}\n\n`--size` is the number of {what}: {size} by default, {large} on a large GPU.\nSource: `{3}`, {4} lines.\n",
            simulation.name,
            simulation.about,
            simulation.long.replace(". ", ".\n"),
            simulation.file,
            simulation.lines(),
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
    }

    #[test]
    fn the_page_is_up_to_date() {
        let path = docs().join("quantized-examples.md");
        if std::env::var_os("WUJI_BLESS").is_some() {
            std::fs::write(&path, page()).expect("written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/quantized-examples.md is out of date: WUJI_BLESS=1 rewrites it"
        );
    }

    #[test]
    fn every_picture_exists_and_is_small() {
        for simulation in ALL {
            let name = format!("pictures/quantized/{}.png", simulation.name);
            let path = docs().join(name);
            let size = std::fs::metadata(&path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
                .len();
            assert!(size < 150_000, "{} has {size} bytes", path.display());
        }
    }
}
