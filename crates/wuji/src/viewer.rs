//! Fields as pictures, in a window or in files; needs the feature `viewer`.
//!
//! ```no_run
//! use wuji::prelude::*;
//! use wuji::viewer::Viewer;
//!
//! #[kernel]
//! fn paint(pixels: &Field<Vec3, 2>, t: f32) {
//!     for [i, j] in pixels {
//!         let (x, y) = (i as f32 / 640.0, j as f32 / 320.0);
//!         pixels[[i, j]] = vec3(x, y, 0.5 + 0.5 * t.sin());
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let world = World::cpu()?;
//!     let pixels = world.field::<Vec3, 2>("pixels", [640, 320])?;
//!     let mut viewer = Viewer::new("colours")?;   // without a display: writes colours.gif
//!     let mut t = 0.0;
//!     while viewer.is_open() {
//!         paint(&pixels, t)?;
//!         viewer.show(&pixels)?;                  // at 60 frames per second
//!         t += 0.02;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The first index goes to the right and the second one up, as in [PNG files](crate::pictures). Floats are shown from 0 (dark) to 1 without a
//! gamma curve: programs that compute linear light have to apply it.

use crate::field::Field;
use crate::lang::{Vec2, Vec3};
use crate::pictures::{Pixel, convert};
use crate::world::here;
use std::borrow::Cow;
use std::panic::Location;
use wuji_ir::{Error, Result};
pub use wuji_viewer::scene;
pub use wuji_viewer::{
    Animation, Button, Canvas, Event, Frame, Framebuffer, Key, Light, Picture, Recording, Viewer,
    ViewerBuilder, light, opaque,
};

impl<T: Pixel> Field<T, 2> {
    /// The field as a picture: the first index to the right, the second one up. Opacity is left out.
    #[track_caller]
    pub fn to_picture(&self) -> Result<Picture> {
        let [width, height] = self.shape()?.map(|e| e as usize);
        let values = self.to_vec()?;
        Ok(Picture::from_fn(width, height, |x, y| {
            let mut pixel = [0; 4];
            values[x * height + (height - 1 - y)].to_bytes(&mut pixel);
            match T::CHANNELS {
                1 => [pixel[0]; 3],
                _ => [pixel[0], pixel[1], pixel[2]],
            }
        }))
    }

    /// Takes the elements from a picture of the field's shape.
    #[track_caller]
    pub fn copy_from_picture(&self, picture: &Picture) -> Result<()> {
        let shape = self.shape()?;
        let (width, height) = (picture.width, picture.height);
        if shape != [width as u64, height as u64] || picture.pixels.len() != width * height {
            let [w, h] = shape;
            let name = self.name();
            return Err(Error::new(
                "W0112",
                format!("a picture of {width}x{height} pixels for field `{name}` of {w}x{h}"),
            )
            .at(Some(here(Location::caller())))
            .help("make a field of the picture's width and height"));
        }
        let pixels = (0..width * height).map(|n| {
            let mut pixel = [0; 4];
            let given = picture.pixels[(height - 1 - n % height) * width + n / height];
            convert(&given, &mut pixel[..T::CHANNELS]);
            T::from_bytes(&pixel)
        });
        self.copy_from(&pixels.collect::<Vec<T>>())
    }
}

fn not_shown(error: &std::io::Error) -> Error {
    Error::new("W0514", "cannot write what is shown").note(error.to_string())
}

impl<T: Pixel> Frame for Field<T, 2> {
    type Error = Error;

    #[track_caller]
    fn picture(&self) -> Result<Cow<'_, Picture>> {
        self.to_picture().map(Cow::Owned)
    }

    fn failed(error: std::io::Error) -> Error {
        not_shown(&error)
    }
}

/// Particles in the unit square as dots of light on a dark ground.
///
/// ```
/// use wuji::prelude::*;
/// use wuji::viewer::Particles;
/// # fn main() -> wuji::Result<()> {
/// let world = World::interpreter()?;
/// let x = world.field::<Vec2, 1>("x", 3)?;
/// x.copy_from(&[vec2(0.1, 0.1), vec2(0.5, 0.9), vec2(0.9, 0.1)])?;
/// let picture = Particles::new(&x).size(64).radius(0.05).color(0xffcc66).to_picture()?;
/// assert_eq!((picture.width, picture.height), (64, 64));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Particles {
    places: Field<Vec2, 1>,
    colors: Option<Field<Vec3, 1>>,
    color: u32,
    size: usize,
    radius: f32,
}

impl Particles {
    /// The particles of a field of places.
    pub fn new(places: &Field<Vec2, 1>) -> Particles {
        Particles {
            places: places.clone(),
            colors: None,
            color: 0x7cc4ff,
            size: 512,
            radius: 0.004,
        }
    }

    /// Pixels along each side.
    pub fn size(mut self, pixels: usize) -> Particles {
        self.size = pixels.clamp(1, 16_384);
        self
    }

    /// Half the width of a dot; the picture is 1 wide.
    pub fn radius(mut self, radius: f32) -> Particles {
        self.radius = radius;
        self
    }

    /// One colour for all, `0xrrggbb`.
    pub fn color(mut self, rgb: u32) -> Particles {
        self.color = rgb;
        self
    }

    /// A colour for each, in linear light.
    pub fn colors(mut self, colors: &Field<Vec3, 1>) -> Particles {
        self.colors = Some(colors.clone());
        self
    }

    /// Draws them.
    #[track_caller]
    pub fn to_picture(&self) -> Result<Picture> {
        let mut canvas = Canvas::new(self.size);
        let colors = match &self.colors {
            Some(colors) => colors.to_vec()?,
            None => Vec::new(),
        };
        let color = light(self.color);
        for (n, place) in self.places.to_vec()?.into_iter().enumerate() {
            let color = colors.get(n).map_or(color, |color| color.0);
            canvas.dot(place.0, self.radius, color);
        }
        Ok(canvas.develop(0.0))
    }
}

impl Frame for Particles {
    type Error = Error;

    fn picture(&self) -> Result<Cow<'_, Picture>> {
        self.to_picture().map(Cow::Owned)
    }

    fn failed(error: std::io::Error) -> Error {
        not_shown(&error)
    }
}
