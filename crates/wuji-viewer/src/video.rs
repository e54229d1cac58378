//! MP4 files, encoded by the program `ffmpeg`, which is looked up when it is needed.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::picture::{Picture, create};

/// A running `ffmpeg` process that reads frames.
#[derive(Debug)]
pub(crate) struct Video {
    child: Child,
    frames: Option<ChildStdin>,
    size: (usize, usize),
}

/// Finds `ffmpeg` in a search path.
pub(crate) fn find(path: Option<&OsStr>) -> io::Result<PathBuf> {
    let names = ["ffmpeg", "ffmpeg.exe"];
    let found = path.and_then(|path| {
        std::env::split_paths(path)
            .flat_map(|folder| names.map(|name| folder.join(name)))
            .find(|file| file.is_file())
    });
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "an MP4 file needs the program `ffmpeg`, which is not on the PATH: install it \
             (`apt-get install ffmpeg`), or write a .gif instead",
        )
    })
}

impl Video {
    pub(crate) fn start(
        ffmpeg: &Path,
        file: &Path,
        size: (usize, usize),
        fps: f64,
    ) -> io::Result<Video> {
        // Report an invalid path ourselves.
        drop(create(file)?);
        let mut child = Command::new(ffmpeg)
            .args(["-y", "-loglevel", "error", "-f", "rawvideo"])
            .args(["-pix_fmt", "rgb24", "-s", &format!("{}x{}", size.0, size.1)])
            .args(["-r", &format!("{fps}"), "-i", "-", "-an"])
            // Players require even dimensions and this pixel format.
            .args([
                "-vf",
                "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                "-pix_fmt",
                "yuv420p",
            ])
            .args(["-movflags", "+faststart"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| {
                io::Error::new(e.kind(), format!("cannot start {}: {e}", ffmpeg.display()))
            })?;
        let frames = child.stdin.take();
        Ok(Video {
            child,
            frames,
            size,
        })
    }

    pub(crate) fn push(&mut self, picture: &Picture) -> io::Result<()> {
        if (picture.width, picture.height) != self.size {
            return Err(crate::picture::invalid(
                "all frames need the same size".to_string(),
            ));
        }
        let written = match &mut self.frames {
            Some(frames) => frames.write_all(picture.pixels.as_flattened()),
            None => Ok(()),
        };
        // If the encoder has exited, its own output explains more than the broken pipe.
        written.or_else(|error| self.finish().and(Err(error)))
    }

    /// Waits until the file is complete.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        drop(self.frames.take());
        let mut said = String::new();
        if let Some(mut text) = self.child.stderr.take() {
            text.read_to_string(&mut said)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "ffmpeg failed ({status}): {}",
            said.trim()
        )))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_missing_ffmpeg_is_reported_with_help() {
        let error = find(Some(OsStr::new("/nonexistent:/"))).unwrap_err();
        assert!(
            error.to_string().contains("apt-get install ffmpeg"),
            "{error}"
        );
        assert!(find(None).is_err());
    }

    /// A script in place of `ffmpeg`: it gets the frames, and its errors are returned.
    #[test]
    fn frames_go_to_ffmpeg() {
        let folder = std::env::temp_dir().join(format!("wuji-mp4-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let script = |text: &str| {
            let path = folder.join("ffmpeg");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
            find(Some(folder.as_os_str())).expect("found")
        };
        let file = folder.join("x.mp4");
        let picture = Picture::from_fn(4, 2, |x, y| [x as u8, y as u8, 9]);

        let ffmpeg = script("for last; do :; done; cat > \"$last\"");
        let mut video = Video::start(&ffmpeg, &file, (4, 2), 30.0).expect("started");
        video.push(&picture).expect("taken");
        video.push(&picture).expect("taken");
        assert!(video.push(&picture.enlarged(2)).is_err());
        video.finish().expect("finished");
        let bytes = std::fs::read(&file).expect("there");
        assert_eq!(bytes, picture.pixels.as_flattened().repeat(2));

        let ffmpeg = script("echo no such encoder >&2; exit 3");
        let mut video = Video::start(&ffmpeg, &file, (4, 2), 30.0).expect("started");
        let error = (0..).find_map(|_| video.push(&picture).err());
        let error = error.expect("an error").to_string();
        assert!(error.contains("no such encoder"), "{error}");
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }
}
