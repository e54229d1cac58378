//! Records frames to a file, whose name selects the format.

use std::io;
use std::path::{Path, PathBuf};

use crate::animation::Animation;
use crate::picture::{Picture, invalid};
use crate::video::{Video, find};

/// A file that is being recorded: `x.gif` and `x.mp4` are videos, `x.png` has the last frame, and `x-####.png`
/// becomes one file per frame, with its number instead of the `#`.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    fps: f64,
    frames: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Gif(Animation),
    Mp4 {
        ffmpeg: PathBuf,
        video: Option<Video>,
    },
    Last(Option<Picture>),
    Numbered,
}

impl Recording {
    /// Nothing is written yet, but an invalid path is an error now.
    pub fn new(path: impl Into<PathBuf>, fps: f64) -> io::Result<Recording> {
        let path = path.into();
        let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let kind = match end.as_deref() {
            Some("gif") => Kind::Gif(Animation::default()),
            Some("mp4") => Kind::Mp4 {
                ffmpeg: find(std::env::var_os("PATH").as_deref())?,
                video: None,
            },
            Some("png") if hashes(&path).is_some() => Kind::Numbered,
            Some("png") => Kind::Last(None),
            _ => {
                return Err(invalid(format!(
                    "unknown format of {}: the name must end in .png, .gif or .mp4",
                    path.display()
                )));
            }
        };
        let fps = if fps.is_finite() {
            fps.clamp(1.0, 240.0)
        } else {
            30.0
        };
        Ok(Recording {
            path,
            fps,
            frames: 0,
            kind,
        })
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Frames so far.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The next frame. All have the size of the first.
    pub fn push(&mut self, picture: &Picture) -> io::Result<()> {
        picture.check()?;
        match &mut self.kind {
            Kind::Gif(animation) => animation.push(picture.clone()),
            Kind::Mp4 { ffmpeg, video } => {
                if video.is_none() {
                    let size = (picture.width, picture.height);
                    *video = Some(Video::start(ffmpeg, &self.path, size, self.fps)?);
                }
                video.as_mut().map_or(Ok(()), |video| video.push(picture))?;
            }
            Kind::Last(last) => *last = Some(picture.clone()),
            Kind::Numbered => picture.save_png(&numbered(&self.path, self.frames))?,
        }
        self.frames += 1;
        Ok(())
    }

    /// Finishes the file. A recording without frames creates no file.
    pub fn finish(self) -> io::Result<Option<PathBuf>> {
        if self.frames == 0 {
            return Ok(None);
        }
        match self.kind {
            Kind::Gif(animation) => {
                let hundredths = (100.0 / self.fps).round().max(2.0) as u16;
                animation.save_gif(&self.path, hundredths)?;
            }
            Kind::Mp4 { video, .. } => {
                if let Some(mut video) = video {
                    video.finish()?;
                }
            }
            Kind::Last(Some(picture)) => picture.save_png(&self.path)?,
            Kind::Last(None) | Kind::Numbered => {}
        }
        Ok(Some(self.path))
    }
}

/// The position of the last run of `#` in a file name.
fn hashes(path: &Path) -> Option<(usize, usize)> {
    let name = path.file_name()?.to_str()?;
    let end = name.rfind('#')? + 1;
    let start = name[..end].trim_end_matches('#').len();
    Some((start, end))
}

fn numbered(path: &Path, frame: usize) -> PathBuf {
    let Some((start, end)) = hashes(path) else {
        return path.to_path_buf();
    };
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let width = end - start;
    path.with_file_name(format!("{}{frame:0width$}{}", &name[..start], &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_the_format() {
        let folder = std::env::temp_dir().join(format!("wuji-recording-{}", std::process::id()));
        let record = |name: &str| -> io::Result<Option<PathBuf>> {
            let mut recording = Recording::new(folder.join(name), 30.0)?;
            for n in 0..3u8 {
                recording.push(&Picture::from_fn(4, 4, |_, _| [n; 3]))?;
            }
            recording.finish()
        };
        for name in ["a.gif", "b.PNG", "c-###.png"] {
            let path = record(name).expect("written").expect("a file");
            assert_eq!(path, folder.join(name));
        }
        assert_eq!(
            Picture::load_png(&folder.join("b.PNG")).unwrap().pixels[0],
            [2; 3]
        );
        for n in 0..3u8 {
            let path = folder.join(format!("c-00{n}.png"));
            assert_eq!(Picture::load_png(&path).unwrap().pixels[5], [n; 3]);
        }
        let error = record("d.jpeg").unwrap_err().to_string();
        assert!(
            error.contains("d.jpeg") && error.contains(".gif"),
            "{error}"
        );
        assert!(
            Recording::new(folder.join("e.gif"), 30.0)
                .unwrap()
                .finish()
                .unwrap()
                .is_none()
        );
        let error = Recording::new("/proc/none/e.gif", 30.0).and_then(|mut r| {
            r.push(&Picture::from_fn(1, 1, |_, _| [0; 3]))?;
            r.finish()
        });
        assert!(error.unwrap_err().to_string().contains("/proc/none/e.gif"));
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }
}
