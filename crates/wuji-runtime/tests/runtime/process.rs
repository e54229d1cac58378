//! Tests that need their own process: the test program starts itself again.

use std::process::Command;

/// This test program, restricted to the test `name`, which is a path such as `fork::a_child_works`.
pub(crate) fn only(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
}

/// Runs `body` in a process that runs nothing else. `name` is the path of the calling test.
///
/// For tests that fork, or that measure the memory and the threads of the process.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    const INSIDE: &str = "WUJI_ISOLATED_TEST";
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let output = only(name).env(INSIDE, "1").output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "no test `{name}`:\n{stdout}");
    println!("{stdout}");
}
