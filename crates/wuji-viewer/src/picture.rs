//! Pictures of 8-bit RGB, and PNG files.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

/// Rows from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The number of columns.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// Red, green and blue, row by row from the top.
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// A picture by its pixels: `x` from the left, `y` from the top.
    pub fn from_fn(
        width: usize,
        height: usize,
        mut pixel: impl FnMut(usize, usize) -> [u8; 3],
    ) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Picture {
            width,
            height,
            pixels: pixels.map(|(x, y)| pixel(x, y)).collect(),
        }
    }

    /// Every pixel as a square of `times` by `times`.
    pub fn enlarged(&self, times: usize) -> Picture {
        let times = times.max(1);
        Picture::from_fn(self.width * times, self.height * times, |x, y| {
            self.pixels[y / times * self.width + x / times]
        })
    }

    /// One pixel for each square of `times` by `times`, with their mean colour; incomplete squares at the edge are
    /// dropped.
    pub fn reduced(&self, times: usize) -> Picture {
        let times = times.clamp(1, self.width.min(self.height).max(1));
        let count = (times * times) as u32;
        Picture::from_fn(self.width / times, self.height / times, |x, y| {
            let mut sum = [count / 2; 3];
            for row in y * times..(y + 1) * times {
                let start = row * self.width + x * times;
                for pixel in &self.pixels[start..start + times] {
                    (0..3).for_each(|c| sum[c] += u32::from(pixel[c]));
                }
            }
            sum.map(|c| (c / count) as u8)
        })
    }

    /// An error if width, height and number of pixels do not match, or if the picture is empty.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.width == 0 || self.height == 0 || self.width > 65_535 || self.height > 65_535 {
            let (w, h) = (self.width, self.height);
            return Err(invalid(format!(
                "a picture of {w}x{h} pixels: each side has 1 to 65535"
            )));
        }
        if self.pixels.len() != self.width * self.height {
            return Err(invalid(format!(
                "{} pixels for a picture of {}x{}",
                self.pixels.len(),
                self.width,
                self.height
            )));
        }
        Ok(())
    }

    /// Writes a PNG file.
    pub fn save_png(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        let file = BufWriter::new(create(path)?);
        let mut encoder = png::Encoder::new(file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer
            .write_image_data(self.pixels.as_flattened())
            .map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)
    }

    /// Reads a PNG file of any format; transparency is dropped.
    pub fn load_png(path: &Path) -> io::Result<Picture> {
        let named = |what: &dyn std::fmt::Display| {
            invalid(format!(
                "cannot read the picture {}: {what}",
                path.display()
            ))
        };
        let file = File::open(path).map_err(|e| named(&e))?;
        let mut decoder = png::Decoder::new(BufReader::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(|e| named(&e))?;
        let size = reader
            .output_buffer_size()
            .ok_or_else(|| named(&"it is too large"))?;
        let mut bytes = vec![0; size];
        let info = reader.next_frame(&mut bytes).map_err(|e| named(&e))?;
        bytes.truncate(info.buffer_size());
        let step = info.color_type.samples();
        let pixels = bytes.chunks_exact(step).map(|p| match step {
            1 | 2 => [p[0]; 3],
            _ => [p[0], p[1], p[2]],
        });
        Ok(Picture {
            width: info.width as usize,
            height: info.height as usize,
            pixels: pixels.collect(),
        })
    }
}

pub(crate) fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Creates a file, and its folder if needed; an error names it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| File::create(path))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn png_files_round_trip() {
        let folder = std::env::temp_dir().join(format!("wuji-png-{}", std::process::id()));
        let path = folder.join("deep/x.png");
        let picture = Picture::from_fn(5, 3, |x, y| [x as u8, y as u8 * 100, 7]);
        picture.save_png(&path).expect("written");
        assert_eq!(Picture::load_png(&path).expect("read"), picture);
        assert_eq!(picture.enlarged(3).pixels[3 * 15 + 14], [4, 100, 7]);
        assert_eq!(picture.enlarged(3).reduced(3), picture);
        assert_eq!(picture.reduced(2).pixels, [[1, 50, 7], [3, 50, 7]]);
        let error = Picture::load_png(&folder.join("none.png")).unwrap_err();
        assert!(error.to_string().contains("none.png"), "{error}");
        std::fs::write(&path, b"no picture").expect("written");
        assert!(Picture::load_png(&path).is_err());
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }

    #[test]
    fn invalid_pictures_are_errors() {
        let mut picture = Picture::from_fn(0, 3, |_, _| [0; 3]);
        assert!(picture.save_png(Path::new("/dev/null")).is_err());
        picture.width = 1;
        let error = picture.save_png(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "0 pixels for a picture of 1x3");
    }
}
