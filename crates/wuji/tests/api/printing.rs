//! What kernels print to standard output.

use crate::process::only;
use wuji::prelude::*;

fn worlds() -> [World; 2] {
    [World::interpreter().unwrap(), World::cpu().unwrap()]
}

#[kernel]
fn countdown(x: &Field<i32, 1>) {
    print!("count:");
    for [i] in serial(x) {
        print!(" {i}");
    }
    println!();
    println!("{}", x[[1]]);
}

/// Runs as another process: see below.
#[test]
fn child_of_the_test_of_standard_output() {
    if std::env::var_os("WUJI_TEST_PRINT").is_none() {
        return;
    }
    for w in worlds() {
        let x = w.field::<i32, 1>("x", [3]).unwrap();
        x.fill(7).unwrap();
        countdown(&x).unwrap();
    }
}

#[test]
fn only_println_ends_a_line() {
    let output = only("printing::child_of_the_test_of_standard_output")
        .env("WUJI_TEST_PRINT", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "count: 0 1 2\n7\n".repeat(worlds().len());
    assert!(text.contains(&expected), "{text}");
}
