//! Finds NVIDIA's `libdevice`. Kernels do not need it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use wuji_compile::Libdevice;
use wuji_ir::Result;

/// Environment variable with the path of the library, or `off`.
const VARIABLE: &str = "WUJI_LIBDEVICE";

/// The path of the library in a CUDA installation.
const WITHIN: &str = "nvvm/libdevice/libdevice.10.bc";

/// Whether kernels on a GPU use functions of NVIDIA's `libdevice`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LibdeviceChoice {
    /// The environment variable `WUJI_LIBDEVICE` (a path, or `off`); otherwise the library of the CUDA installation, if
    /// there is one.
    #[default]
    Find,
    /// Use Wuji's own functions only.
    Off,
    /// This file.
    At(PathBuf),
}

impl LibdeviceChoice {
    /// The file to use, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            LibdeviceChoice::Off => None,
            LibdeviceChoice::At(path) => Some(path.clone()),
            LibdeviceChoice::Find => match std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
                Some(said) if said == "off" => None,
                Some(said) => Some(said.into()),
                None => installations().into_iter().find_map(within),
            },
        }
    }

    pub(crate) fn read(&self) -> Result<Option<Arc<Libdevice>>> {
        let library = self.path().map(|path| Libdevice::read(&path));
        Ok(library.transpose()?.map(Arc::new))
    }
}

/// The library of an installation, if it exists.
fn within(installation: PathBuf) -> Option<PathBuf> {
    let path = installation.join(WITHIN);
    path.is_file().then_some(path)
}

/// Folders that may contain CUDA, those from environment variables first.
fn installations() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].map(std::env::var_os);
    let named = named.into_iter().flatten().filter(|v| !v.is_empty());
    let mut all: Vec<PathBuf> = named.map(PathBuf::from).collect();
    all.extend(["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"].map(PathBuf::from));
    // Folders with a version in their name, newest first.
    let versions = std::fs::read_dir("/usr/local").into_iter().flatten();
    let versions = versions.flatten().map(|entry| entry.path());
    let mut versions: Vec<PathBuf> = versions.filter(|path| version(path).is_some()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(version(path)));
    all.extend(versions);
    all
}

/// The version in a folder name such as `cuda-12.9`.
fn version(path: &Path) -> Option<(u32, u32)> {
    let text = path.file_name()?.to_str()?.strip_prefix("cuda-")?;
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_folder_names() {
        assert_eq!(version(Path::new("/usr/local/cuda-12.9")), Some((12, 9)));
        assert_eq!(version(Path::new("/usr/local/cuda-13")), Some((13, 0)));
        assert_eq!(version(Path::new("/usr/local/cuda-next")), None);
        assert_eq!(version(Path::new("/usr/local/lib")), None);
    }

    #[test]
    fn files_that_are_not_libdevice_are_rejected() {
        let folder = std::env::temp_dir().join(format!("wuji-libdevice-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = folder.join("text.bc");
        std::fs::write(&text, "no bitcode").unwrap();
        for (path, why) in [
            (folder.join("absent.bc"), "No such file"),
            (folder.clone(), "it is not a file"),
            (text, "it is not LLVM's bitcode"),
        ] {
            let error = LibdeviceChoice::At(path).read().unwrap_err();
            assert_eq!(error.code, "W0526");
            assert!(error.to_string().contains(why), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(LibdeviceChoice::Off.read().unwrap().is_none());
    }
}
