//! Programs with mistakes: each has one error, at the user's own code.
//!
//! `TRYBUILD=overwrite cargo test -p wuji-ui` rewrites the expected messages.

#[test]
fn mistakes_are_reported_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/mistakes/*.rs");
    // Methods of features that are off: the error names the feature.
    cases.compile_fail("tests/features/*.rs");
}
