//! Runs every example at a small size and compares its picture with a stored one.

use super::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The mean brightness of 4 x 4 tiles of a picture.
fn look(picture: &Picture) -> Vec<i32> {
    let part = |row: usize, column: usize| {
        let mut sum = (0, 0);
        for y in row * picture.height / 4..(row + 1) * picture.height / 4 {
            for x in column * picture.width / 4..(column + 1) * picture.width / 4 {
                sum.0 += picture.pixels[y * picture.width + x]
                    .iter()
                    .map(|c| u64::from(*c))
                    .sum::<u64>();
                sum.1 += 3;
            }
        }
        (sum.0 / sum.1) as i32
    };
    (0..16).map(|n| part(n / 4, n % 4)).collect()
}

/// Lines of `NAME BRIGHTNESS...`.
fn known(text: &str) -> BTreeMap<&str, Vec<i32>> {
    let entry = |line: &'_ str| {
        let (name, numbers) = line.split_once(' ')?;
        Some((
            &text[text.find(name)?..][..name.len()],
            numbers
                .split_whitespace()
                .map_while(|n| n.parse().ok())
                .collect(),
        ))
    };
    text.lines().filter_map(entry).collect()
}

#[test]
fn pictures_match_the_stored_brightness() {
    let folder = std::env::temp_dir().join(format!("wuji-gallery-{}", std::process::id()));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gallery/looks.txt");
    let bless = std::env::var_os("WUJI_BLESS").is_some();
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let known = known(&text);
    let (mut seen, mut wrong) = (String::new(), Vec::new());
    for example in ALL {
        let options = Options {
            out: Some(folder.clone()),
            ..small(example)
        };
        let report = perform(example, &options).unwrap_or_else(|e| panic!("{}: {e}", example.name));
        let picture = report.picture.expect("a picture");
        let look = look(&picture);
        let numbers: Vec<String> = look.iter().map(i32::to_string).collect();
        seen += &format!("{} {}\n", example.name, numbers.join(" "));
        // Threads add floats in any order, so a few levels of 255 may differ.
        let same = known.get(example.name).is_some_and(|known| {
            known.len() == 16 && known.iter().zip(&look).all(|(a, b)| a.abs_diff(*b) <= 6)
        });
        if !same && !bless {
            wrong.push(format!(
                "{}: {look:?}, expected {:?}",
                example.name,
                known.get(example.name)
            ));
        }
        let written = folder
            .join(example.name)
            .with_extension(example.extension());
        assert_eq!(report.files.last(), Some(&written));
        let bytes = std::fs::read(&written).expect("the picture on disk");
        let magic: &[u8] = match example.media {
            Media::Moving => b"GIF89a",
            Media::Still => b"\x89PNG",
        };
        assert!(bytes.starts_with(magic), "{}", example.name);
        assert!(
            report.summary.contains("/s on ") && report.summary.contains(" in "),
            "{}",
            report.summary
        );
    }
    if bless {
        std::fs::write(&file, &seen).expect("written");
    }
    check_ply(&folder.join("isosurface.ply"));
    std::fs::remove_dir_all(folder).expect("cleaned up");
    assert!(
        wrong.is_empty(),
        "WUJI_BLESS=1 accepts these:\n{}",
        wrong.join("\n")
    );
}

/// The mesh in a PLY file has normals, and vertices that triangles share.
fn check_ply(path: &Path) {
    let mesh = wuji::files::Mesh::load_ply(path).expect("a mesh");
    let (vertices, faces) = (mesh.positions().len(), mesh.triangles().len());
    assert!(faces > 100 && vertices < faces, "{vertices} {faces}");
    assert_eq!(mesh.normals().len(), vertices);
}

#[test]
fn names_and_lines_are_short() {
    for (n, example) in ALL.iter().enumerate() {
        assert!(ALL[..n].iter().all(|other| other.name != example.name));
        assert!(
            example.about.len() <= 80 && !example.about.ends_with('.'),
            "{}",
            example.name
        );
        assert!(
            example
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        );
        assert!(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("..")
                .join(example.file)
                .is_file()
        );
        assert!(example.lines() > 20);
    }
    assert_eq!(list().lines().count(), ALL.len());
}

#[test]
fn an_unwritable_output_is_an_error() {
    for out in ["/proc/none", "/proc/none/x.gif", "x.jpeg"] {
        let options = Options {
            out: Some(out.into()),
            ..small(&julia::JULIA)
        };
        let error = perform(&julia::JULIA, &options)
            .expect_err("an error")
            .to_string();
        assert!(error.contains(out), "{error}");
    }
}

/// The help of an example describes it.
#[test]
fn every_example_has_its_help() {
    use clap::{Args, CommandFactory, Parser};
    let mut command = Choice::augment_args(clap::Command::new("example"));
    command.clone().debug_assert();
    for example in ALL {
        let help = command
            .find_subcommand_mut(example.name)
            .expect("a command")
            .render_long_help()
            .to_string();
        for part in [
            example.about,
            example.size.0,
            "--view",
            "--out",
            example.file,
        ] {
            let (help, part) = (help.replace(['\n', ' '], ""), part.replace(' ', ""));
            assert!(help.contains(&part), "{part} in {help}");
        }
    }
    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        choice: Choice,
    }
    Cli::command().debug_assert();
    Cli::try_parse_from(["x", "julia", "--frames", "3", "--view"]).expect("a choice");
    assert!(Cli::try_parse_from(["x"]).is_ok());
    for bad in [
        &["x", "juli"][..],
        &["x", "julia", "--size", "0"],
        &["x", "julia", "--frames", "many"],
    ] {
        assert!(Cli::try_parse_from(bad).is_err(), "{bad:?}");
    }
}
