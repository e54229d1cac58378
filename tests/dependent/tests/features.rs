//! Methods of features that are off: the error names the feature.

#[test]
fn features_that_are_off_are_named() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
