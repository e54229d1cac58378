//! Mistakes in kernels: each gives one error, at the user's own code. A file in `ui/` that starts with
//! `good_` has none.
//!
//! `TRYBUILD=overwrite cargo test -p wuji compile_fail` rewrites the expected messages.

#[test]
fn mistakes_are_reported_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/bad_*.rs");
    cases.compile_fail("tests/ui/unsupported_*.rs");
}
