//! Files as streams of bytes, with errors that name the file.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wuji_ir::{Error, Result};

/// A file that is being written under another name. [`Output::finish`] replaces the file of the wanted name at once: a reader finds
/// the old contents or the new ones, also if this process is killed.
pub(crate) struct Output {
    writer: Option<BufWriter<File>>,
    path: PathBuf,
    temporary: PathBuf,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Output> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = format!(".{name}.{}-{number}.tmp", std::process::id());
        let temporary = path.with_file_name(own);
        let file = File::create(&temporary).map_err(|e| not_written(path, &e))?;
        Ok(Output {
            writer: Some(BufWriter::with_capacity(1 << 16, file)),
            path: path.to_owned(),
            temporary,
        })
    }

    pub(crate) fn put(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let written = match &mut self.writer {
            Some(writer) => writer.write_all(bytes.as_ref()),
            None => Ok(()),
        };
        written.map_err(|e| not_written(&self.path, &e))
    }

    /// Makes it the file of the wanted name.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error);
        let done = file
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .and_then(|()| sync_folder(&self.path));
        done.map_err(|e| not_written(&self.path, &e))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After `finish` there is none.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Makes a rename in the folder of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cold]
fn not_written(path: &Path, why: &io::Error) -> Error {
    let what = format!("cannot write to {}", path.display());
    Error::new("W0530", what).note(why.to_string())
}

/// A file that is being read.
pub(crate) struct Input {
    reader: BufReader<File>,
    path: PathBuf,
    /// Bytes that are left.
    left: u64,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Input> {
        let refused = |e: io::Error| {
            let what = format!("cannot read {}", path.display());
            Error::new("W0530", what).note(e.to_string())
        };
        let file = File::open(path).map_err(refused)?;
        let data = file.metadata().map_err(refused)?;
        if data.is_dir() {
            return Err(refused(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Input {
            reader: BufReader::with_capacity(1 << 16, file),
            path: path.to_owned(),
            left: data.len(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// An error about the contents.
    #[cold]
    pub(crate) fn damaged(&self, kind: &str, why: impl Into<String>) -> Error {
        let what = format!("{} is not a valid {kind} file", self.path.display());
        Error::new("W0531", what).note(why)
    }

    /// Fills a buffer.
    pub(crate) fn take(&mut self, kind: &str, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() as u64 > self.left {
            let (wanted, left) = (bytes.len(), self.left);
            let why = format!("it is truncated: {wanted} more bytes are needed, and it has {left}");
            return Err(self.damaged(kind, why));
        }
        self.left -= bytes.len() as u64;
        self.reader.read_exact(bytes).map_err(|e| {
            let what = format!("cannot read {}", self.path.display());
            Error::new("W0530", what).note(e.to_string())
        })
    }

    /// So many bytes, which must be there.
    pub(crate) fn take_vec(&mut self, kind: &str, count: u64) -> Result<Vec<u8>> {
        if count > self.left {
            let left = self.left;
            let why = format!("it is truncated: {count} more bytes are needed, and it has {left}");
            return Err(self.damaged(kind, why));
        }
        let mut bytes = vec![0; count as usize];
        self.take(kind, &mut bytes)?;
        Ok(bytes)
    }

    /// A line without its end, of at most so many bytes.
    pub(crate) fn line(&mut self, kind: &str, most: usize) -> Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            // The last line may lack its end.
            if self.left == 0 && !line.is_empty() {
                break;
            }
            self.take(kind, &mut byte)?;
            match byte[0] {
                b'\n' => break,
                other if line.len() < most => line.push(other),
                _ => return Err(self.damaged(kind, "a line is too long")),
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(|_| self.damaged(kind, "a line is not text"))
    }
}
