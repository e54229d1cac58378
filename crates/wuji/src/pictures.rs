//! Fields of two axes as pictures: the first index goes to the right, the second up.
//!
//! ```
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! let world = World::cpu()?;
//! let gray = world.field::<f32, 2>("gray", [64, 32])?; // 64 wide, 32 high
//! gray.fill(0.5)?; // 0 is black, 1 white
//! # let path = std::env::temp_dir().join(format!("wuji-doc-{}.png", std::process::id()));
//! gray.save_png(&path)?;
//! let back = world.field::<f32, 2>("back", [64, 32])?;
//! back.load_png(&path)?;
//! assert!((back.get([3, 4])? - 0.5).abs() < 0.01);
//! # std::fs::remove_file(&path).ok();
//! # Ok(())
//! # }
//! ```

use crate::element::Element;
use crate::field::Field;
use crate::lang::Vector;
use crate::world::here;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::panic::Location;
use std::path::Path;
use wuji_ir::{Error, Result};

/// What one pixel of a picture can be: `f32` from 0 to 1 or `u8` from 0 to 255, alone for gray or in a vector of three or four
/// for red, green, blue and opacity.
pub trait Pixel: Element {
    /// 1, 3 or 4.
    const CHANNELS: usize;

    /// To the first `CHANNELS` bytes. What is not a number is 0.
    fn to_bytes(self, bytes: &mut [u8]);

    /// From the first `CHANNELS` bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
}

/// Part of a pixel.
trait Channel: Element {
    fn to_byte(self) -> u8;
    fn from_byte(byte: u8) -> Self;
}

impl Channel for u8 {
    fn to_byte(self) -> u8 {
        self
    }

    fn from_byte(byte: u8) -> u8 {
        byte
    }
}

impl Channel for f32 {
    fn to_byte(self) -> u8 {
        // Saturates, and makes 0 of NaN.
        (self * 255.0 + 0.5) as u8
    }

    fn from_byte(byte: u8) -> f32 {
        f32::from(byte) / 255.0
    }
}

macro_rules! pixels {
    ($($channel:ty)*) => {$(
        impl Pixel for $channel {
            const CHANNELS: usize = 1;

            fn to_bytes(self, bytes: &mut [u8]) {
                bytes[0] = self.to_byte();
            }

            fn from_bytes(bytes: &[u8]) -> $channel {
                <$channel>::from_byte(bytes[0])
            }
        }

        pixels!($channel: 3 4);
    )*};
    ($channel:ty: $($n:literal)*) => {$(
        impl Pixel for Vector<$channel, $n> {
            const CHANNELS: usize = $n;

            fn to_bytes(self, bytes: &mut [u8]) {
                for (k, byte) in bytes.iter_mut().take($n).enumerate() {
                    *byte = self[k].to_byte();
                }
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Vector::from(std::array::from_fn::<$channel, $n, _>(|k| {
                    <$channel>::from_byte(bytes[k])
                }))
            }
        }
    )*};
}

pixels!(u8 f32);

fn color(channels: usize) -> png::ColorType {
    match channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    }
}

impl<T: Pixel> Field<T, 2> {
    /// Writes the field as a PNG file: the first index goes to the right, the second up.
    #[track_caller]
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, caller) = (path.as_ref(), Location::caller());
        let [width, height] = self.shape()?.map(|e| e as usize);
        let values = self.to_vec()?;
        let mut bytes = vec![0; values.len() * T::CHANNELS];
        for (n, pixel) in bytes.chunks_exact_mut(T::CHANNELS).enumerate() {
            let (row, x) = (n / width, n % width);
            values[x * height + (height - 1 - row)].to_bytes(pixel);
        }
        let refused = |why: String| {
            Error::new(
                "W0514",
                format!("cannot write a picture to {}", path.display()),
            )
            .note(why)
            .at(Some(here(caller)))
        };
        let file = File::create(path).map_err(|e| refused(e.to_string()))?;
        let side = |n: usize| u32::try_from(n).map_err(|_| refused("it is too large".to_owned()));
        let mut encoder = png::Encoder::new(BufWriter::new(file), side(width)?, side(height)?);
        encoder.set_color(color(T::CHANNELS));
        encoder.set_depth(png::BitDepth::Eight);
        encoder
            .write_header()
            .and_then(|mut writer| {
                writer.write_image_data(&bytes)?;
                writer.finish()
            })
            .map_err(|e| refused(e.to_string()))
    }

    /// Takes all elements from a PNG file of as many pixels. Gray becomes color and color gray where the field needs it.
    #[track_caller]
    pub fn load_png(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, caller) = (path.as_ref(), Location::caller());
        let refused = |why: String| {
            Error::new(
                "W0514",
                format!("cannot read a picture from {}", path.display()),
            )
            .note(why)
            .at(Some(here(caller)))
        };
        let file = File::open(path).map_err(|e| refused(e.to_string()))?;
        let mut decoder = png::Decoder::new(BufReader::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(|e| refused(e.to_string()))?;
        let size = reader.output_buffer_size();
        let size = size.ok_or_else(|| refused("it is too large".to_owned()))?;
        let [width, height] = self.shape()?.map(|e| e as usize);
        let info = reader.info();
        if (info.width as usize, info.height as usize) != (width, height) {
            let name = self.name();
            let why = format!(
                "it is {} by {} pixels, and field `{name}` {width} by {height}",
                info.width, info.height
            );
            return Err(refused(why));
        }
        let mut bytes = vec![0; size];
        let frame = reader
            .next_frame(&mut bytes)
            .map_err(|e| refused(e.to_string()))?;
        let channels = frame.color_type.samples();
        let mut values = vec![T::zero(); width * height];
        let mut pixel = [0; 4];
        for (n, given) in bytes
            .chunks_exact(channels)
            .take(width * height)
            .enumerate()
        {
            convert(given, &mut pixel[..T::CHANNELS]);
            let (row, x) = (n / width, n % width);
            values[x * height + (height - 1 - row)] = T::from_bytes(&pixel);
        }
        self.copy_from(&values)
    }
}

/// One pixel of a file as one of a field.
pub(crate) fn convert(given: &[u8], wanted: &mut [u8]) {
    let rgb = match given {
        [gray] | [gray, _] => [*gray; 3],
        [r, g, b, ..] => [*r, *g, *b],
        [] => [0; 3],
    };
    let alpha = match given {
        [_, alpha] | [_, _, _, alpha] => *alpha,
        _ => 255,
    };
    match wanted {
        [gray] => {
            // How bright people see the three.
            let [r, g, b] = rgb.map(u32::from);
            *gray = ((r * 299 + g * 587 + b * 114 + 500) / 1000) as u8;
        }
        [r, g, b] => [*r, *g, *b] = rgb,
        [r, g, b, a] => [*r, *g, *b, *a] = [rgb[0], rgb[1], rgb[2], alpha],
        _ => {}
    }
}
