//! Race detection and wrong hints, on textual loops.

use super::*;
use wuji_ir::interp::error::{NOT_UNIQUE, RACE};
use wuji_ir::text::parse;

/// Whether a loop over `0..4` with these statements races; `v1` is its index.
fn races(hints: &str, statements: &str) -> bool {
    let code = error(hints, statements);
    assert!(code.is_none_or(|code| code == RACE), "{code:?}");
    code.is_some()
}

/// The code of the error of such a loop.
fn error(hints: &str, statements: &str) -> Option<&'static str> {
    let text = format!(
        "module \"m\"
        tree T0 {{ dense S1 [i: 8] {{ place f0 }} }}
        field f0: i32 in T0.S1 (i)
        array a0: i32 rank 1 writable
        kernel fn0() {{
          v0: i32 = const 0
          v2: i32 = const 4
          foreach L0 (v1: i32) in v0..v2 {hints} {{ {statements} continue L0 }}
          return
        }}
        fn fn1(v0: i32) {{
          v1: i32 = const 1
          for.parallel L0 v2: i32 in v1..v0 step v1 {{ continue L0 }}
          return
        }}"
    );
    let m = parse(&text, "text").expect("sound");
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    machine.watch_races = true;
    let values = [Imm::zero(Scalar::I32); 4];
    machine
        .bind_values(Array::from_u32(0), &[4], &values)
        .expect("fits");
    machine.run(&[]).err().map(|e| e.code)
}

#[test]
fn stores_of_different_values_race() {
    assert!(races("", "store f0[v0], v1"));
    assert!(races("", "store a0[v0], v1"));
    assert!(races(
        "",
        "v3: i32 = atomic add f0[v0], v1 store f0[v1], v1"
    ));
    assert!(!races("serial", "store f0[v0], v1"));
}

#[test]
fn own_elements_equal_values_and_atomics_do_not_race() {
    assert!(!races("", "store f0[v1], v1 store f0[v1], v2"));
    assert!(!races("", "store f0[v0], v2"));
    assert!(!races("", "v3: i32 = atomic add f0[v0], v1"));
    assert!(!races(
        "",
        "v3: i32 = atomic add a0[v1], v1 store a0[v1], v1"
    ));
}

#[test]
fn parallel_loops_of_called_functions_are_parts_of_an_iteration() {
    assert!(!races(
        "",
        "v3: i32 = atomic add a0[v1], v1 call fn1(v2) store a0[v1], v1"
    ));
}

#[test]
fn unique_numbers_are_unique_and_below_their_limit() {
    let hint = |statements: &str| error("", statements);
    assert_eq!(hint("v3: i32 = unique v1"), None);
    assert_eq!(hint("v3: i32 = sub v0, v1 v4: i32 = unique v3"), None);
    assert_eq!(hint("v3: i32 = unique v1 of 4"), None);
    assert_eq!(hint("v3: i32 = unique v1 of 3"), Some(NOT_UNIQUE));
    let half = "v3: i32 = const 2 v4: i32 = div v1, v3 v5: i32 = unique v4";
    assert_eq!(hint(half), Some(NOT_UNIQUE));
    // Two hints may have the same numbers, and in an inner loop there are several.
    assert_eq!(hint("v3: i32 = unique v1 v4: i32 = unique v1"), None);
    let inner =
        "v3: i32 = const 1 for L1 v4: i32 in v0..v2 step v3 { v5: i32 = unique v4 continue L1 }";
    assert_eq!(hint(inner), None);
}
