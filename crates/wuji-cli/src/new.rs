//! `wuji new`: a project that builds, runs and shows a picture.

use crate::failure::{Done, Failure};
use clap::Args;
use clap::error::ErrorKind;
use std::io::Write;
use std::path::{Path, PathBuf};
use wuji_ir::Error;

const MANIFEST: &str = include_str!("../template/manifest.toml");
const PROGRAM: &str = include_str!("../template/src/main.rs");

/// A new project: a wave simulation with a bundle of fields, kernels as its methods, and a window.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji new waves                  create the folder `waves` with a project
  cd waves && cargo run           build it and run it
  wuji new waves --path ~/wuji    use the crates of a checkout of Wuji
")]
pub(crate) struct New {
    /// The folder to create. Its name is that of the package.
    folder: PathBuf,
    /// The name of the package, where the folder has another name.
    #[arg(long)]
    name: Option<String>,
    /// Use the crates of this checkout of Wuji instead of the released ones. Default: the checkout that this program was built from, if
    /// it still exists.
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

impl New {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => match self.folder.file_name() {
                Some(name) => name.to_string_lossy().into_owned(),
                None => return Err(self.wrong("the folder has no name; give one with `--name`")),
            },
        };
        if !is_package_name(&name) {
            return Err(self.wrong(&format!(
                "`{name}` cannot be the name of a package: use letters, digits, `-` and `_`; give another one with `--name`"
            )));
        }
        let manifest = MANIFEST
            .replace("{name}", &name)
            .replace("{source}", &self.source()?);
        if self.folder.exists() {
            let what = format!("`{}` exists already", self.folder.display());
            return Err(Error::new("W0515", what)
                .help("choose another folder")
                .into());
        }
        self.write("Cargo.toml", &manifest)?;
        self.write("src/main.rs", PROGRAM)?;
        self.write(".gitignore", "/target\n*.gif\n")?;
        writeln!(out, "created `{}`", self.folder.display())?;
        writeln!(
            out,
            "run it with `cargo run` in that folder; it needs LLVM 22, which `wuji doctor` looks for"
        )?;
        Ok(())
    }

    /// The dependency on `wuji`: a folder or a version.
    fn source(&self) -> Done<String> {
        let checkout = match &self.path {
            Some(path) if !is_checkout(path) => {
                let what = format!("`{}` is not a checkout of Wuji", path.display());
                return Err(Error::new("W0515", what)
                    .note("there is no `crates/wuji`")
                    .into());
            }
            Some(path) => Some(std::path::absolute(path)?),
            None => {
                let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                let own = own.canonicalize().ok();
                own.filter(|path| is_checkout(path))
            }
        };
        Ok(match checkout {
            Some(path) => format!(
                "path = {:?}",
                path.join("crates/wuji").display().to_string()
            ),
            None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
        })
    }

    fn write(&self, name: &str, text: &str) -> Done {
        let path = self.folder.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        written
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| {
                let what = format!("cannot write `{}`", path.display());
                Failure::from(Error::new("W0515", what).note(e.to_string()))
            })
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::usage("new", ErrorKind::ValueValidation, why)
    }
}

fn is_checkout(path: &Path) -> bool {
    path.join("crates/wuji/Cargo.toml").is_file()
}

/// Whether cargo accepts a name.
fn is_package_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    starts
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
