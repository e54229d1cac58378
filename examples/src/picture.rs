//! Pictures of 8-bit RGB, and PNG files.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Rows from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Writes a PNG file.
    pub fn save_png(&self, path: &Path) -> io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer
            .write_image_data(self.pixels.as_flattened())
            .map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)
    }
}
