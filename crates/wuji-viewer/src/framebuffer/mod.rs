//! A framebuffer: RGBA pixels, and shapes, text and color maps drawn on them.
//!
//! Positions are in pixels, x to the right and y up: pixel (i, j) is the square from (i, j) to (i + 1, j + 1).
//!
//! Circles, lines and text are anti-aliased. The coverage of a pixel is `radius - distance`, between 0 and 1, where `distance` is that of its
//! center from the center of the circle or from the line: a line of radius 1 is one pixel wide. Triangles have hard edges, so that a mesh has no
//! seams.
//!
//! Shapes are clipped to the framebuffer. A shape with a coordinate that is not finite, or with a radius that is NaN, is not drawn.
//!
//! ```
//! use wuji_viewer::{Framebuffer, opaque};
//!
//! let mut frame = Framebuffer::new(64, 48, opaque(0x112f41));
//! frame.circle([32.0, 24.0], 10.0, opaque(0xff8800));
//! frame.line([0.0, 0.0], [64.0, 48.0], 1.0, opaque(0xffffff));
//! let picture = frame.to_picture();
//! assert_eq!(picture.pixels[24 * 64 + 38], [0xff, 0x88, 0]);
//! ```

mod color_map;
mod font;
mod image;
pub(crate) mod shapes;
mod text;
pub(crate) mod vertices;

pub use font::text_width;

use crate::picture::Picture;
use crate::viewer::Frame;
use std::borrow::Cow;
use std::io;
use std::ops::{DerefMut, Range};

/// Red, green, blue and alpha, from 0 to 1.
pub type Pixel = [f32; 4];

/// An opaque color, `0xrrggbb`.
pub fn opaque(rgb: u32) -> Pixel {
    let [b, g, r, _] = rgb.to_le_bytes();
    [r, g, b, 255].map(|channel| CHANNELS[usize::from(channel)])
}

/// What each byte stands for. A table is faster than a division for each of many shapes.
static CHANNELS: [f32; 256] = {
    let mut channels = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        channels[byte] = byte as f32 / 255.0;
        byte += 1;
    }
    channels
};

/// Pixels to draw on: owned, or borrowed with `P = &mut [Pixel]`.
///
/// Columns come from left to right, and a column goes up: pixel (i, j) is number `i * height + j`.
#[derive(Clone, Debug, PartialEq)]
pub struct Framebuffer<P = Vec<Pixel>> {
    width: usize,
    height: usize,
    pixels: P,
}

impl Framebuffer {
    /// A framebuffer of one color.
    pub fn new(width: usize, height: usize, color: Pixel) -> Framebuffer {
        Framebuffer {
            width,
            height,
            pixels: vec![color; width * height],
        }
    }
}

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Draws on these pixels. `None` unless there are `width * height` of them.
    pub fn over(width: usize, height: usize, pixels: P) -> Option<Framebuffer<P>> {
        let fits = width.checked_mul(height) == Some(pixels.len());
        fits.then_some(Framebuffer {
            width,
            height,
            pixels,
        })
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// All pixels, column by column.
    pub fn pixels(&self) -> &[Pixel] {
        &self.pixels
    }

    /// All pixels, column by column.
    pub fn pixels_mut(&mut self) -> &mut [Pixel] {
        &mut self.pixels
    }

    /// Fills everything with one color.
    pub fn clear(&mut self, color: Pixel) {
        // Copies of a block use wider stores than single pixels.
        const BLOCK: usize = 256;
        let count = self.pixels.len();
        let (first, rest) = self.pixels.split_at_mut(BLOCK.min(count));
        first.fill(color);
        for block in rest.chunks_mut(BLOCK) {
            block.copy_from_slice(&first[..block.len()]);
        }
    }

    /// Some rows of a column, which are inside.
    fn column(&mut self, x: usize, rows: Range<usize>) -> &mut [Pixel] {
        let start = x * self.height;
        &mut self.pixels[start + rows.start..start + rows.end]
    }

    /// The picture, with 8 bits per channel and without alpha. What is below 0, above 1 or NaN becomes 0, 255 and 0.
    pub fn to_picture(&self) -> Picture {
        // Tiles of a few cache lines: columns are read and rows are written.
        const TILE: usize = 16;
        let (width, height) = (self.width, self.height);
        let mut pixels = vec![[0; 3]; width * height];
        for left in (0..width).step_by(TILE) {
            for low in (0..height).step_by(TILE) {
                for x in left..(left + TILE).min(width) {
                    let rows = low..(low + TILE).min(height);
                    let column = &self.pixels[x * height..][rows.clone()];
                    for (y, pixel) in rows.zip(column) {
                        let [r, g, b, _] = pixel.map(|c| (c * 255.0) as u8);
                        pixels[(height - 1 - y) * width + x] = [r, g, b];
                    }
                }
            }
        }
        Picture {
            width,
            height,
            pixels,
        }
    }
}

impl Frame for Framebuffer {
    type Error = io::Error;

    fn picture(&self) -> io::Result<Cow<'_, Picture>> {
        Ok(Cow::Owned(self.to_picture()))
    }

    fn failed(error: io::Error) -> io::Error {
        error
    }
}

/// Draws a color over a part of a pixel.
fn blend(pixel: &mut Pixel, color: Pixel, coverage: f32) {
    if coverage >= 1.0 {
        *pixel = color;
    } else if coverage > 0.0 {
        for (pixel, color) in pixel.iter_mut().zip(color) {
            *pixel = *pixel * (1.0 - coverage) + color * coverage;
        }
    }
}

/// The integers from `low` to `high`, both included, that are below `extent`. Empty where a bound is NaN.
fn clip(low: f64, high: f64, extent: usize) -> Range<usize> {
    let low = low.clamp(0.0, extent as f64);
    let whole = low as i64 as usize;
    let start = whole + usize::from((whole as f64) < low);
    let end = (high + 1.0).clamp(0.0, extent as f64) as i64 as usize;
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped() {
        assert_eq!(clip(1.5, 3.5, 10), 2..4);
        assert_eq!(clip(2.0, 3.0, 10), 2..4);
        assert_eq!(clip(-5.0, 1e300, 10), 0..10);
        assert_eq!(clip(f64::NEG_INFINITY, f64::INFINITY, 10), 0..10);
        for (low, high) in [(3.2, 3.8), (12.0, 20.0), (-9.0, -1.0), (5.0, 2.0)] {
            assert!(clip(low, high, 10).is_empty(), "{low} to {high}");
        }
        assert!(clip(f64::NAN, f64::NAN, 10).is_empty());
        assert!(clip(0.0, 0.0, 0).is_empty());
    }

    #[test]
    fn clearing_reaches_every_pixel() {
        for (width, height) in [(0, 5), (1, 1), (16, 16), (17, 31), (64, 64)] {
            let mut frame = Framebuffer::new(width, height, opaque(0));
            frame.clear(opaque(0x336699));
            assert!(frame.pixels().iter().all(|p| *p == opaque(0x336699)));
        }
    }

    #[test]
    fn pictures_start_at_the_top_left() {
        let mut frame = Framebuffer::new(40, 20, opaque(0));
        frame.pixels_mut()[39 * 20] = opaque(0x010203);
        frame.pixels_mut()[19] = [f32::NAN, 7.0, -1.0, 0.0];
        let picture = frame.to_picture();
        assert_eq!(picture.pixels[19 * 40 + 39], [1, 2, 3]);
        assert_eq!(picture.pixels[0], [0, 255, 0]);
        assert_eq!(picture.pixels.iter().filter(|p| **p != [0; 3]).count(), 2);
    }

    #[test]
    fn bytes_come_back() {
        for byte in 0..=255 {
            let frame = Framebuffer::new(1, 1, opaque(byte));
            assert_eq!(frame.to_picture().pixels[0], [0, 0, byte as u8]);
        }
    }

    #[test]
    fn pixels_of_another_owner_must_fit() {
        let mut pixels = vec![opaque(0); 6];
        assert!(Framebuffer::over(4, 2, &mut pixels[..]).is_none());
        assert!(Framebuffer::over(usize::MAX, 2, &mut pixels[..]).is_none());
        let mut frame = Framebuffer::over(2, 3, &mut pixels[..]).expect("it fits");
        frame.clear(opaque(0xffffff));
        assert_eq!(pixels, vec![[1.0; 4]; 6]);
    }
}
