//! Generates the page of the book about the differentiable simulators, and its pictures.

use super::{ALL, Options, Outcome, Report, Study, plot};
use std::path::{Path, PathBuf};
use wuji::viewer::Picture;

/// The most pixels that a frame is high.
const HEIGHT: usize = 128;

/// Some frames from the first to the last, and a plot of the losses, in the width of a page.
fn picture(report: &Report) -> Picture {
    let mut pictures: Vec<_> = report
        .stills(3)
        .map(|frame| frame.reduced(frame.height.div_ceil(HEIGHT)))
        .collect();
    pictures.push(plot::losses(&report.losses, report.goal, [336, 224]));
    let mut row = plot::beside(&pictures);
    // Files are small with fewer colors; the difference is invisible.
    for channel in row.pixels.as_flattened_mut() {
        *channel = ((u16::from(*channel) + 4) / 8 * 8).min(255) as u8;
    }
    row
}

/// Writes the pictures that are missing to a directory.
pub fn pictures(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for simulator in ALL {
        let file = folder.join(format!("{}.png", simulator.name));
        if file.exists() {
            continue;
        }
        let study = Study::new(simulator, &Options::default())?;
        let report = (simulator.run)(&study)?;
        if !report.is_reached() {
            return Err(format!("{} does not reach its goal", simulator.name).into());
        }
        picture(&report).save_png(&file)?;
        files.push(file);
    }
    Ok(files)
}

/// The text of `docs/differentiable-examples.md`.
pub fn page() -> String {
    let mut page = "\
# Differentiable simulators

These programs simulate or render, compute the gradient of a loss by a [tape](differentiation.md#tapes), and reach a goal by gradient descent.
They are the ten simulators of the paper on differentiable programming in Taichi, with `diffmpm` in two and three dimensions.
`newton` and `rollout` show second derivatives and long simulations.
A simulator contains only its kernels, its fields, its optimization and its pictures.
Shared code (optimizers, plots, files) is in `examples/src/differentiable`.

```sh
cargo run --release -p wuji-examples --bin differentiable                  # list the simulators
cargo run --release -p wuji-examples --bin differentiable -- wave          # write wave.gif, and wave.png with a plot of the losses
cargo run --release -p wuji-examples --bin differentiable -- wave --cuda   # on a GPU
cargo run --release -p wuji-examples --bin differentiable -- wave --help   # describe it, its goal and its options
```

Tests run each simulator at a small size, check that it reaches its goal, and compare its gradient with a central difference.

| simulator | | lines of code |
|---|---|---|
"
    .to_string();
    for simulator in ALL {
        page += &format!(
            "| [{0}](#{0}) | {1} | {2} |\n",
            simulator.name,
            simulator.about,
            simulator.lines(),
        );
    }
    page += "\nEach picture has frames of the result, and the loss before each iteration.\n";
    for simulator in ALL {
        page += &format!(
            "\n## {0}\n\n![{1}](pictures/differentiable/{0}.png)\n\n{2}\nGoal: {3}.\nSource: `{4}`, {5} lines.\n",
            simulator.name,
            simulator.about,
            simulator.long.replace(". ", ".\n"),
            simulator.goal,
            simulator.file,
            simulator.lines(),
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
        let path = docs().join("differentiable-examples.md");
        if std::env::var_os("WUJI_BLESS").is_some() {
            std::fs::write(&path, page()).expect("written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/differentiable-examples.md is out of date: WUJI_BLESS=1 rewrites it"
        );
    }

    #[test]
    fn every_picture_exists_and_is_small() {
        for simulator in ALL {
            let name = format!("pictures/differentiable/{}.png", simulator.name);
            let path = docs().join(name);
            let size = std::fs::metadata(&path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
                .len();
            assert!(size < 60_000, "{} has {size} bytes", path.display());
        }
    }
}
