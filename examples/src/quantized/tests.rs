//! Checks of all simulations.

use super::*;
use std::path::Path;

#[test]
fn descriptions_are_short_and_names_are_unique() {
    for (n, simulation) in ALL.iter().enumerate() {
        assert!(ALL[..n].iter().all(|other| other.name != simulation.name));
        assert!(
            simulation.about.len() <= 100 && !simulation.about.ends_with('.'),
            "{}",
            simulation.name
        );
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(root.join(simulation.file).is_file());
        assert!(simulation.lines() > 20);
    }
    assert_eq!(list().lines().count(), 2 * ALL.len());
}

#[test]
fn a_run_writes_a_picture_and_reports_both_layouts() {
    let folder = std::env::temp_dir().join(format!("wuji-quantized-{}", std::process::id()));
    let options = Options {
        out: Some(folder.clone()),
        size: Some(16),
        steps: Some(2),
        ..Options::default()
    };
    let (report, file) = perform(&mpm::MPM, &options).expect("a report");
    assert_eq!(file, folder.join("mpm.png"));
    let written = std::fs::read(&file).expect("a file");
    assert!(written.starts_with(b"\x89PNG"));
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows[1].bytes < report.rows[0].bytes);
    assert!(
        report.text().contains("bytes per particle"),
        "{}",
        report.text()
    );
    std::fs::remove_dir_all(folder).expect("cleaned up");
}

#[test]
fn the_bits_of_particles_are_chosen() {
    let options = Options {
        size: Some(16),
        steps: Some(10),
        threads: Some(1),
        ..Options::default()
    };
    let tuned = tune(&mpm::MPM, &options, 5e-2).expect("types");
    assert_eq!(tuned.reference_bytes, 72 * tuned.fields[0].cells);
    // Material and color are integers of 2 and 4 bits.
    assert!(2 * tuned.point().bytes < tuned.reference_bytes, "{tuned}");
    assert!(
        tuned.rust().contains("place(\"color\", qint(4, false))"),
        "{tuned}"
    );
    assert!(tune(&life::LIFE, &options, 1e-2).is_err());
}
