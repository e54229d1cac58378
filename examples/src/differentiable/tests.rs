//! Checks of all simulators, and the functions that their own tests call.

use super::*;
use std::path::Path;
use wuji::{Field, World};

/// Runs a simulator at a small size, without files. Its goal must be reached.
pub(super) fn reaches_its_goal(
    simulator: &'static Simulator,
    size: u32,
    iterations: u32,
) -> Report {
    let options = Options {
        size: Some(size),
        iterations: Some(iterations),
        // One thread adds in the same order each time.
        threads: Some(1),
        ..Options::default()
    };
    let study = Study::new(simulator, &options).expect("a study");
    let report = (simulator.run)(&study).unwrap_or_else(|e| panic!("{}: {e}", simulator.name));
    assert!(
        report.is_reached(),
        "{}: goal {}, losses {:?}",
        simulator.name,
        report.goal,
        report.losses
    );
    let frames = &report.frames;
    let same = |frame: &wuji::viewer::Picture| {
        (frame.width, frame.height) == (frames[0].width, frames[0].height)
    };
    assert!(frames.len() > 1 && frames.iter().all(same));
    assert!(frames.windows(2).any(|pair| pair[0] != pair[1]));
    report
}

/// A world whose sums are the same each time.
pub(super) fn world() -> World {
    let world = World::builder().threads(1).build();
    world.expect("a world")
}

/// Compares one component of the gradient of `x` with a central difference of `loss`. The tape ran for the values that `x` has.
///
/// `at` is the number of the element, `step` the difference, `tolerance` relative to the derivative.
#[track_caller]
pub(super) fn gradient_is_a_difference<T: Parameter, const D: usize>(
    x: &Field<T, D>,
    (at, component): (usize, usize),
    (step, tolerance): (f64, f64),
    mut loss: impl FnMut() -> wuji::Result<f64>,
) {
    let gradient = x.grad().expect("a gradient").to_vec().expect("values")[at].component(component);
    let values = x.to_vec().expect("values");
    let mut moved = |by: f64| {
        let mut values = values.clone();
        let value = values[at].component(component);
        values[at].set_component(component, value + by);
        x.copy_from(&values).expect("copied");
        loss().expect("a loss")
    };
    let difference = (moved(step) - moved(-step)) / (2.0 * step);
    x.copy_from(&values).expect("copied");
    assert!(
        gradient != 0.0,
        "the gradient is zero, the difference {difference}"
    );
    assert!(
        (gradient - difference).abs() <= tolerance * difference.abs().max(gradient.abs()),
        "gradient {gradient}, difference {difference}"
    );
}

#[test]
fn descriptions_are_short_and_names_are_unique() {
    for (n, simulator) in ALL.iter().enumerate() {
        assert!(ALL[..n].iter().all(|other| other.name != simulator.name));
        assert!(
            simulator.about.len() <= 80 && !simulator.about.ends_with('.'),
            "{}",
            simulator.name
        );
        assert!(!simulator.goal.ends_with('.'), "{}", simulator.name);
        assert!(
            simulator
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        );
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(root.join(simulator.file).is_file());
        assert!(simulator.lines() > 20);
    }
    assert_eq!(list().lines().count(), ALL.len());
}

#[test]
fn a_run_writes_an_animation_and_a_picture() {
    let folder = std::env::temp_dir().join(format!("wuji-differentiable-{}", std::process::id()));
    let options = |out| Options {
        out: Some(out),
        size: Some(16),
        iterations: Some(2),
        ..Options::default()
    };
    let results = perform(&wave::WAVE, &options(folder.clone())).expect("results");
    let expected = ["wave.gif", "wave.png"].map(|name| folder.join(name));
    assert_eq!(results.files, expected);
    let magic: [&[u8]; 2] = [b"GIF89a", b"\x89PNG"];
    for (file, magic) in expected.iter().zip(magic) {
        assert!(std::fs::read(file).expect("a file").starts_with(magic));
    }
    assert!(
        results.summary.contains("after 2 iterations"),
        "{}",
        results.summary
    );
    let still = folder.join("only.png");
    let results = perform(&wave::WAVE, &options(still.clone())).expect("results");
    assert_eq!(results.files, [still]);
    std::fs::remove_dir_all(folder).expect("cleaned up");
    for out in ["/proc/none/x.gif", "x.jpeg"] {
        let error = perform(&wave::WAVE, &options(out.into())).expect_err("an error");
        assert!(error.to_string().contains(out), "{error}");
    }
}

/// The help of a simulator describes it.
#[test]
fn every_simulator_has_its_help() {
    use clap::{Args, CommandFactory, Parser};
    let mut command = Choice::augment_args(clap::Command::new("differentiable"));
    command.clone().debug_assert();
    for simulator in ALL {
        let help = command
            .find_subcommand_mut(simulator.name)
            .expect("a command")
            .render_long_help()
            .to_string();
        for part in [
            simulator.about,
            simulator.goal,
            simulator.size.0,
            "--iterations",
            "--cuda",
            simulator.file,
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
    Cli::try_parse_from(["x", "wave", "--iterations", "3", "--cuda"]).expect("a choice");
    assert!(Cli::try_parse_from(["x"]).is_ok());
    for bad in [
        &["x", "wav"][..],
        &["x", "wave", "--size", "0"],
        &["x", "wave", "--iterations", "many"],
        &["x", "wave", "--cuda", "--threads", "2"],
    ] {
        assert!(Cli::try_parse_from(bad).is_err(), "{bad:?}");
    }
}
