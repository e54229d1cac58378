//! The page of the book about the examples, and its pictures. Both are made from the gallery, so they cannot fall behind.

use super::{ALL, Example, Options, Outcome, perform};
use std::path::{Path, PathBuf};

/// What the picture of an example in the book is: size, frames, kind. The book is to stay small.
fn picture(example: &Example) -> (u32, u32, &'static str) {
    match example.name {
        "julia" => (200, 1, "png"),
        "life" => (72, 50, "gif"),
        "wave" => (200, 110, "png"),
        "gray_scott" => (256, 60, "png"),
        "nbody" => (3072, 70, "png"),
        "fluid" => (256, 110, "png"),
        "cloth" => (80, 55, "png"),
        "mpm88" => (400, 60, "png"),
        "path_tracer" => (256, 96, "png"),
        "isosurface" => (48, 1, "png"),
        "coral" => (200, 24, "png"),
        // The applications in the size of the paper, where that does not take minutes.
        "fem" | "mgpcg" | "sparse_conv" => (2, example.frames as u32, "png"),
        _ => (1, example.frames as u32, "png"),
    }
}

/// How long an example takes as it is, from start to picture, without cached kernels: seconds on two cores of a Sapphire
/// Rapids server. None may take more than ten.
fn seconds(example: &Example) -> f32 {
    match example.name {
        "julia" | "fem" => 1.1,
        "life" | "gray_scott" => 1.0,
        "wave" => 0.7,
        "nbody" => 2.3,
        "fluid" => 0.8,
        "cloth" => 1.4,
        "mpm88" => 7.5,
        "path_tracer" => 1.9,
        "isosurface" => 2.6,
        "coral" => 4.8,
        "mpm3d" => 9.3,
        "volume_renderer" => 7.6,
        "mgpcg" | "sparse_conv" => 0.4,
        // Measure it and write it down.
        _ => f32::INFINITY,
    }
}

/// Makes the pictures, in a folder.
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
        // Large pictures are shown smaller.
        if let Some(picture) = report
            .picture
            .filter(|picture| end == "png" && picture.width > 500)
        {
            let path = folder.join(format!("{}.png", example.name));
            picture
                .reduced(picture.width.div_ceil(500))
                .save_png(&path)?;
        }
        // Of a mesh the book shows the picture only.
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

/// The page `docs/examples.md`.
pub fn page() -> String {
    let mut page = "\
# Examples

Small programs, each with a picture. They are made to be read: kernels, fields, a picture, and nothing else. What they share, a window, a
progress bar and files, is in `examples/src/gallery/stage.rs`.

```sh
wuji example                      # the list
wuji example fluid                # writes fluid.gif
wuji example fluid --view         # live, in a window; the mouse stirs
wuji example fluid --out fluid.mp4 --frames 600 --size 512
wuji example fluid --help         # what it is about, and what its size means
```

In a clone of the repository `cargo run --release --bin gallery` does what `wuji example` does. Without a display `--view` says so and writes the file.

| | | lines of code | seconds |
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
    page += "\nSeconds: from start to picture as they are, compilation included, on two cores of a Sapphire Rapids server.\n";
    for example in ALL {
        let (.., end) = picture(example);
        page += &format!(
            "\n## {0}\n\n![{1}](pictures/{0}.{end})\n\n{2} Code: `{3}`, {4} lines.\n",
            example.name,
            example.about,
            example.long,
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
    fn the_page_is_the_gallery() {
        let path = docs().join("examples.md");
        if std::env::var_os("WUJI_BLESS").is_some() {
            std::fs::write(&path, page()).expect("written");
        }
        let written = std::fs::read_to_string(&path).expect("docs/examples.md");
        assert!(
            written == page(),
            "docs/examples.md is not what the gallery says: WUJI_BLESS=1 rewrites it"
        );
    }

    #[test]
    fn no_example_takes_long() {
        for example in ALL {
            assert!(seconds(example) <= 10.0, "{}", example.name);
        }
    }

    #[test]
    fn every_picture_is_there_and_small() {
        let mut total = 0;
        for example in ALL {
            let (.., end) = picture(example);
            let path = docs()
                .join("pictures")
                .join(format!("{}.{end}", example.name));
            let size = std::fs::metadata(&path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
                .len();
            assert!(size < 200_000, "{} has {size} bytes", path.display());
            total += size;
        }
        assert!(total < 2_000_000, "{total}");
    }
}
