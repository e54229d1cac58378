//! `; test: run`.

use super::TestFile;

pub(super) fn runs(_: &TestFile, _: &str) -> Result<Option<String>, String> {
    Err("nothing runs IR yet".to_owned())
}
