//! Generates the page of the book about the examples, and its pictures.

use super::{ALL, Example, Options, Outcome, perform};
use std::path::{Path, PathBuf};

/// Size, frames and format of the picture of an example in the book. Files must stay small.
fn picture(example: &Example) -> (u32, u32, &'static str) {
    match example.name {
        "julia" => (200, 1, "png"),
        "life" => (72, 50, "gif"),
        "wave" => (400, 110, "png"),
        "gray_scott" => (256, 60, "png"),
        "nbody" => (3072, 70, "png"),
        "fluid" => (256, 110, "png"),
        "cloth" => (80, 55, "png"),
        "mpm88" => (400, 60, "png"),
        "lazy_mpm" => (400, 55, "png"),
        "newton" => (28, 80, "png"),
        "large_steps" => (18, 45, "png"),
        "arap" => (48, 41, "png"),
        "path_tracer" => (256, 96, "png"),
        "isosurface" => (80, 1, "png"),
        "coral" => (200, 24, "png"),
        // Applications in the large size, unless that takes minutes.
        "fem" | "mgpcg" | "sparse_conv" => (2, example.frames as u32, "png"),
        "mpm3d" => (1, example.frames as u32, "gif"),
        "mpm3d_snow" => (1, 32, "png"),
        "mpm3d_fluid" => (1, 27, "png"),
        _ => (1, example.frames as u32, "png"),
    }
}

/// Seconds from start to picture with default options and without the kernel cache, on two cores of a Sapphire Rapids
/// server. The limit is ten.
fn seconds(example: &Example) -> f32 {
    match example.name {
        "julia" | "fem" => 1.1,
        "life" | "gray_scott" => 1.0,
        "wave" => 0.7,
        "nbody" => 2.3,
        "fluid" => 0.8,
        "cloth" => 1.4,
        "mpm88" => 7.5,
        "lazy_mpm" => 4.8,
        // With an unoptimized tracer.
        "newton" => 9.0,
        // CPU time.
        "large_steps" => 7.9,
        "mpm3d" => 7.0,
        // Half of the CPU time.
        "mpm3d_snow" => 3.8,
        "mpm3d_sand" => 5.2,
        "mpm3d_fluid" => 6.5,
        "arap" => 6.3,
        "path_tracer" => 1.9,
        "isosurface" => 2.6,
        "coral" => 4.8,
        "volume_renderer" => 7.6,
        "mgpcg" | "sparse_conv" => 0.4,
        // Not measured yet: a test fails.
        _ => f32::INFINITY,
    }
}

/// Writes the pictures to a directory.
pub fn pictures(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for example in ALL {
        let (size, frames, end) = picture(example);
        let options = Options {
            out: Some(folder.join(format!("{}.{end}", example.name))),
            size: Some(size),
            frames: Some(frames),
            ..Options::default()
        };
        let report = perform(example, &options)?;
        // Scales large pictures down.
        if let Some(picture) = report
            .picture
            .filter(|picture| end == "png" && picture.width > 500)
        {
            let path = folder.join(format!("{}.png", example.name));
            picture
                .reduced(picture.width.div_ceil(500))
                .save_png(&path)?;
        }
        // The book does not contain meshes.
        for file in report
            .files
            .iter()
            .filter(|file| file.extension().is_some_and(|e| e == "ply"))
        {
            std::fs::remove_file(file)?;
        }
        files.extend(report.files.last().cloned());
    }
    Ok(files)
}

/// The text of `docs/examples.md`.
pub fn page() -> String {
    let mut page = "\
# Examples

Each example is a small program that renders a picture.
Examples are written to be read: they contain only kernels, fields and a picture.
Shared code (window, progress bar, files) is in `examples/src/gallery/stage.rs`.

```sh
wuji example                      # list the examples
wuji example fluid                # write fluid.gif
wuji example fluid --view         # live in a window; the mouse stirs the fluid
wuji example fluid --out fluid.mp4 --frames 600 --size 512
wuji example fluid --help         # describe it and its options
```

In a clone of the repository, `cargo run --release --bin gallery` is the same as `wuji example`.
Without a display, `--view` prints a message and writes the file.

| example | | lines of code | seconds |
|---|---|---|---|
"
    .to_string();
    for example in ALL {
        page += &format!(
            "| [{0}](#{0}) | {1} | {2} | {3:.1} |\n",
            example.name,
            example.about,
            example.lines(),
            seconds(example),
        );
    }
    page += "\nSeconds: from start to picture with default options, including compilation, on two cores of a Sapphire Rapids server.\n";
    for example in ALL {
        let (.., end) = picture(example);
        page += &format!(
            "\n## {0}\n\n![{1}](pictures/{0}.{end})\n\n{2}\nSource: `{3}`, {4} lines.\n",
            example.name,
            example.about,
            example.long.replace(". ", ".\n"),
            example.file,
            example.lines()
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
        let path = docs().join("examples.md");
        if std::env::var_os("WUJI_BLESS").is_some() {
            std::fs::write(&path, page()).expect("written");
        }
        let written = std::fs::read_to_string(&path).expect("docs/examples.md");
        assert!(
            written == page(),
            "docs/examples.md is out of date: WUJI_BLESS=1 rewrites it"
        );
    }

    #[test]
    fn no_example_takes_more_than_ten_seconds() {
        for example in ALL {
            assert!(seconds(example) <= 10.0, "{}", example.name);
        }
    }

    #[test]
    fn every_picture_exists_and_is_small() {
        let mut total = 0;
        for example in ALL {
            let (.., end) = picture(example);
            let path = docs()
                .join("pictures")
                .join(format!("{}.{end}", example.name));
            let size = std::fs::metadata(&path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
                .len();
            let most = if end == "gif" { 500_000 } else { 200_000 };
            assert!(size < most, "{} has {size} bytes", path.display());
            total += size;
        }
        assert!(total < 2_000_000, "{total}");
    }
}
