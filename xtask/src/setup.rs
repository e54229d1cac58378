//! What the build needs from the system: LLVM 22.1 with its headers, and a C++ linker.
//!
//! Collects facts first, decides in `plan` based on them alone, and then acts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::workspace::{on_path, output, run};

/// The LLVM version that the code generator requires.
const VERSION: &str = "22.1";

/// Debian and Ubuntu packages that the build needs.
const APT: [&str; 6] = [
    "llvm-22-dev",
    "libpolly-22-dev",
    "libzstd-dev",
    "zlib1g-dev",
    "libffi-dev",
    "libxml2-dev",
];

/// The package manager of this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packages {
    Apt,
    Other,
}

/// Permission to install packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    Root,
    /// `sudo` without a password.
    Sudo,
    None,
}

/// The state of this machine.
#[derive(Clone, Debug)]
struct Facts {
    /// Prefix of an LLVM of the right version, with headers.
    llvm: Option<PathBuf>,
    /// A C++ compiler: it provides the linker and the C++ library that LLVM needs.
    cxx: bool,
    packages: Packages,
    rights: Rights,
}

/// The action to take.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SetupAction {
    Ready(PathBuf),
    Install {
        packages: Vec<&'static str>,
        sudo: bool,
    },
    Ask(String),
}

fn plan(facts: &Facts) -> SetupAction {
    let mut missing = Vec::new();
    let mut packages = Vec::new();
    match (&facts.llvm, facts.cxx) {
        (Some(prefix), true) => return SetupAction::Ready(prefix.clone()),
        (llvm, cxx) => {
            if llvm.is_none() {
                missing.push(format!("LLVM {VERSION} with its headers"));
                packages.extend(APT);
            }
            if !cxx {
                missing.push("a C++ compiler".to_string());
                packages.push("g++");
            }
        }
    }
    match (facts.packages, facts.rights) {
        (Packages::Apt, Rights::Root) => SetupAction::Install {
            packages,
            sudo: false,
        },
        (Packages::Apt, Rights::Sudo) => SetupAction::Install {
            packages,
            sudo: true,
        },
        (Packages::Apt, Rights::None) | (Packages::Other, _) => {
            SetupAction::Ask(question(&missing, &packages))
        }
    }
}

/// Installation commands for all supported package managers.
fn question(missing: &[String], packages: &[&str]) -> String {
    format!(
        "missing: {}. Install it, then run the command again:

  Debian, Ubuntu   sudo apt-get update && sudo apt-get install -y {}
                   (if apt has no llvm-22: wget -qO- https://apt.llvm.org/llvm.sh | sudo bash -s -- 22)
  Fedora           sudo dnf install -y llvm22-devel llvm22-static libzstd-devel zlib-devel libffi-devel libxml2-devel gcc-c++
  macOS            brew install llvm@22 zstd

If LLVM is installed elsewhere, set LLVM_SYS_221_PREFIX to its directory (the one with bin/llvm-config).",
        missing.join(" and "),
        packages.join(" ")
    )
}

/// Whether the output of `llvm-config --version` is a supported version.
fn version_fits(version: &str) -> bool {
    version
        .strip_prefix(VERSION)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("git"))
}

/// The package manager, from the text of `/etc/os-release`.
fn package_manager(os_release: &str, has_apt_get: bool) -> Packages {
    let family = os_release
        .lines()
        .filter_map(|line| {
            line.strip_prefix("ID=")
                .or_else(|| line.strip_prefix("ID_LIKE="))
        })
        .flat_map(|value| value.trim_matches('"').split_whitespace())
        .any(|id| id == "debian" || id == "ubuntu");
    if family && has_apt_get {
        Packages::Apt
    } else {
        Packages::Other
    }
}

/// The value of one key of `/etc/os-release`.
fn os_release_value<'a>(os_release: &'a str, key: &str) -> Option<&'a str> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(|value| value.trim_matches('"'))
        .filter(|value| !value.is_empty())
}

/// Whether `apt-cache policy` lists an installable version.
fn has_candidate(policy: &str) -> bool {
    policy
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Candidate:"))
        .any(|version| !version.trim().is_empty() && version.trim() != "(none)")
}

/// The first usable LLVM among the known locations.
fn find_llvm() -> Option<PathBuf> {
    let mut prefixes: Vec<PathBuf> = std::env::var_os("LLVM_SYS_221_PREFIX")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    for place in [
        "/usr/lib/llvm-22",
        "/usr/lib64/llvm22",
        "/usr/lib/llvm22",
        "/opt/homebrew/opt/llvm@22",
        "/opt/homebrew/opt/llvm",
        "/usr/local/opt/llvm@22",
        "/usr/local/opt/llvm",
    ] {
        prefixes.push(PathBuf::from(place));
    }
    for name in ["llvm-config-22", "llvm-config"] {
        if let Some(prefix) = output(name, &["--prefix"]) {
            prefixes.push(PathBuf::from(prefix));
        }
    }
    prefixes.into_iter().find(|prefix| usable(prefix))
}

fn usable(prefix: &Path) -> bool {
    let config = prefix.join("bin/llvm-config");
    output(&config, &["--version"]).is_some_and(|version| version_fits(&version))
        && output(&config, &["--includedir"])
            .is_some_and(|dir| Path::new(&dir).join("llvm-c/Core.h").is_file())
}

fn os_release() -> String {
    std::fs::read_to_string("/etc/os-release").unwrap_or_default()
}

fn facts() -> Facts {
    let root = output("id", &["-u"]).is_some_and(|id| id == "0");
    Facts {
        llvm: find_llvm(),
        cxx: ["c++", "g++", "clang++"].into_iter().any(on_path),
        packages: package_manager(&os_release(), on_path("apt-get")),
        rights: if root {
            Rights::Root
        } else if output("sudo", &["-n", "true"]).is_some() {
            Rights::Sudo
        } else {
            Rights::None
        },
    }
}

/// Ensures that the build dependencies are installed; returns the prefix of LLVM.
pub(crate) fn setup() -> Result<PathBuf, String> {
    match plan(&facts()) {
        SetupAction::Ready(prefix) => Ok(prefix),
        SetupAction::Ask(question) => Err(question),
        SetupAction::Install { packages, sudo } => {
            install(&packages, sudo)?;
            match plan(&facts()) {
                SetupAction::Ready(prefix) => Ok(prefix),
                _ => Err(format!(
                    "apt-get installed {}, but LLVM {VERSION} is still not found",
                    packages.join(" ")
                )),
            }
        }
    }
}

/// `cargo xtask setup`.
pub(crate) fn command(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let dry = args.flag("--dry-run");
    args.finish("setup")?;
    if dry {
        match plan(&facts()) {
            SetupAction::Ready(prefix) => {
                println!("LLVM {VERSION} is in {}: nothing to do", prefix.display())
            }
            SetupAction::Install { packages, sudo } => {
                println!(
                    "{}apt-get install -y {}",
                    if sudo { "sudo " } else { "" },
                    packages.join(" ")
                );
            }
            SetupAction::Ask(question) => println!("{question}"),
        }
        return Ok(());
    }
    println!("LLVM {VERSION} is in {}", setup()?.display());
    Ok(())
}

/// Whether there is a virtual display for the tests of the viewer; installs one if permitted.
pub(crate) fn virtual_display() -> bool {
    if on_path("Xvfb") {
        return true;
    }
    let facts = facts();
    let allowed = facts.packages == Packages::Apt && facts.rights != Rights::None;
    // Without it, those tests are skipped.
    allowed && install(&["xvfb"], facts.rights == Rights::Sudo).is_ok() && on_path("Xvfb")
}

/// Installs packages if permitted; otherwise the error contains the command to run.
pub(crate) fn install_missing(packages: &[&str]) -> Outcome {
    let facts = facts();
    let names = packages.join(" ");
    match (facts.packages, facts.rights) {
        (Packages::Apt, Rights::Root) => install(packages, false),
        (Packages::Apt, Rights::Sudo) => install(packages, true),
        _ => Err(format!(
            "{names} is missing; on Debian and Ubuntu: sudo apt-get install -y {names}"
        )),
    }
}

fn install(packages: &[&str], sudo: bool) -> Outcome {
    println!("installing build dependencies: {}", packages.join(" "));
    run(&mut privileged(sudo, &["apt-get", "update"]))?;
    let wants_llvm = packages.contains(&APT[0]);
    if wants_llvm
        && !output("apt-cache", &["policy", APT[0]]).is_some_and(|policy| has_candidate(&policy))
    {
        add_llvm_source(sudo)?;
    }
    let mut words = vec!["apt-get", "install", "-y", "--no-install-recommends"];
    words.extend(packages);
    run(&mut privileged(sudo, &words))
}

/// Adds the package repository of the LLVM project, for releases of Debian and Ubuntu without LLVM 22.
fn add_llvm_source(sudo: bool) -> Outcome {
    let os_release = os_release();
    let codename = os_release_value(&os_release, "UBUNTU_CODENAME")
        .or_else(|| os_release_value(&os_release, "VERSION_CODENAME"))
        .ok_or("unknown release of this system; see https://apt.llvm.org for LLVM 22")?;
    println!("this release has no LLVM 22: adding https://apt.llvm.org");
    run(&mut privileged(
        sudo,
        &[
            "apt-get",
            "install",
            "-y",
            "--no-install-recommends",
            "ca-certificates",
            "wget",
        ],
    ))?;
    let key = "/usr/share/keyrings/apt.llvm.org.asc";
    run(&mut privileged(
        sudo,
        &[
            "wget",
            "-qO",
            key,
            "https://apt.llvm.org/llvm-snapshot.gpg.key",
        ],
    ))?;
    let line = format!(
        "deb [signed-by={key}] https://apt.llvm.org/{codename}/ llvm-toolchain-{codename}-22 main"
    );
    let write = format!("echo '{line}' > /etc/apt/sources.list.d/llvm-22.list");
    run(&mut privileged(sudo, &["sh", "-c", &write]))?;
    run(&mut privileged(sudo, &["apt-get", "update"]))
}

fn privileged(sudo: bool, words: &[&str]) -> Command {
    // Set by `env`, since sudo drops the caller's variables.
    let quiet = ["env", "DEBIAN_FRONTEND=noninteractive"];
    let mut all: Vec<&str> = if sudo { vec!["sudo", "-n"] } else { Vec::new() };
    all.extend(quiet);
    all.extend(words);
    let mut command = Command::new(all[0]);
    command.args(&all[1..]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str =
        "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_CODENAME=bookworm\n";
    const MINT: &str =
        "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=zara\nUBUNTU_CODENAME=noble\n";
    const FEDORA: &str = "ID=fedora\nVERSION_ID=44\n";

    fn bare(packages: Packages, rights: Rights) -> Facts {
        Facts {
            llvm: None,
            cxx: true,
            packages,
            rights,
        }
    }

    #[test]
    fn nothing_to_do_when_all_is_there() {
        let mut facts = bare(Packages::Other, Rights::None);
        facts.llvm = Some(PathBuf::from("/opt/llvm"));
        assert_eq!(plan(&facts), SetupAction::Ready(PathBuf::from("/opt/llvm")));
    }

    #[test]
    fn apt_installs_as_root_and_by_sudo() {
        let expected = |sudo| SetupAction::Install {
            packages: APT.to_vec(),
            sudo,
        };
        assert_eq!(plan(&bare(Packages::Apt, Rights::Root)), expected(false));
        assert_eq!(plan(&bare(Packages::Apt, Rights::Sudo)), expected(true));
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        let facts = Facts {
            llvm: Some("/usr/lib/llvm-22".into()),
            cxx: false,
            packages: Packages::Apt,
            rights: Rights::Root,
        };
        assert_eq!(
            plan(&facts),
            SetupAction::Install {
                packages: vec!["g++"],
                sudo: false
            }
        );
        let facts = Facts {
            llvm: None,
            ..facts
        };
        let SetupAction::Install { packages, .. } = plan(&facts) else {
            panic!("expected an installation")
        };
        assert_eq!(packages.len(), APT.len() + 1);
    }

    #[test]
    fn without_rights_or_apt_the_command_is_printed() {
        for facts in [
            bare(Packages::Apt, Rights::None),
            bare(Packages::Other, Rights::Root),
        ] {
            let SetupAction::Ask(question) = plan(&facts) else {
                panic!("expected a question")
            };
            for part in [
                "LLVM 22.1",
                "apt-get install -y llvm-22-dev libpolly-22-dev",
                "dnf install",
                "brew install",
            ] {
                assert!(question.contains(part), "{question}");
            }
        }
    }

    #[test]
    fn versions() {
        for good in ["22.1", "22.1.8", "22.1.0-rc2", "22.1git"] {
            assert!(version_fits(good), "{good}");
        }
        for bad in ["22.0.1", "21.1.8", "22.10.0", "23.1.0", ""] {
            assert!(!version_fits(bad), "{bad}");
        }
    }

    #[test]
    fn systems() {
        assert_eq!(package_manager(DEBIAN, true), Packages::Apt);
        assert_eq!(package_manager(DEBIAN, false), Packages::Other);
        assert_eq!(package_manager(MINT, true), Packages::Apt);
        assert_eq!(package_manager(FEDORA, true), Packages::Other);
        assert_eq!(package_manager("", true), Packages::Other);
        assert_eq!(os_release_value(MINT, "UBUNTU_CODENAME"), Some("noble"));
        assert_eq!(os_release_value(DEBIAN, "UBUNTU_CODENAME"), None);
    }

    #[test]
    fn candidates() {
        assert!(has_candidate(
            "llvm-22-dev:\n  Installed: (none)\n  Candidate: 1:22.1.8-1\n"
        ));
        assert!(!has_candidate(
            "llvm-22-dev:\n  Installed: (none)\n  Candidate: (none)\n"
        ));
        assert!(!has_candidate(""));
    }
}
