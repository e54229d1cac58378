//! Images of another size.

use super::{Framebuffer, Pixel};
use std::ops::DerefMut;

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Fills everything with an image of `shape` pixels, column by column and each column upwards. An image of another size is
    /// interpolated; it has a pixel at least.
    pub fn stretch(&mut self, shape: [usize; 2], image: &[Pixel]) {
        let [width, height] = shape;
        if image.is_empty() || width.checked_mul(height) != Some(image.len()) {
            return;
        }
        if shape == [self.width, self.height] {
            return self.pixels.copy_from_slice(image);
        }
        let rows: Vec<_> = (0..self.height)
            .map(|y| sample(y, self.height, height))
            .collect();
        for x in 0..self.width {
            let (left, right, across) = sample(x, self.width, width);
            let [left, right] = [left, right].map(|c| &image[c * height..(c + 1) * height]);
            let frame = self.height;
            for (pixel, (low, high, up)) in self.column(x, 0..frame).iter_mut().zip(&rows) {
                *pixel = std::array::from_fn(|k| {
                    let below = mix(left[*low][k], right[*low][k], across);
                    let above = mix(left[*high][k], right[*high][k], across);
                    mix(below, above, *up)
                });
            }
        }
    }
}

/// The texels around the center of a pixel, and its position between them. The edges are repeated.
fn sample(pixel: usize, pixels: usize, texels: usize) -> (usize, usize, f32) {
    let at = (pixel as f32 + 0.5) / pixels as f32 * texels as f32 - 0.5;
    let last = texels - 1;
    let before = (at.max(0.0) as usize).min(last);
    (
        before,
        (before + 1).min(last),
        (at - before as f32).clamp(0.0, 1.0),
    )
}

fn mix(a: f32, b: f32, t: f32) -> f32 {
    if t == 0.0 { a } else { a + (b - a) * t }
}

#[cfg(test)]
mod tests {
    use super::super::opaque;
    use super::*;

    #[test]
    fn images_are_stretched() {
        let gray = |v: f32| [v, v, v, 1.0];
        let mut frame = Framebuffer::new(4, 2, opaque(0));
        frame.stretch([2, 1], &[gray(0.0), gray(1.0)]);
        let row: Vec<f32> = (0..4).map(|x| frame.pixels()[2 * x][0]).collect();
        assert_eq!(row, [0.0, 0.25, 0.75, 1.0]);
        assert_eq!(frame.pixels()[2], frame.pixels()[3]);
        // Of the same size, it is copied.
        let image: Vec<Pixel> = (0..8).map(|k| gray(k as f32)).collect();
        frame.stretch([4, 2], &image);
        assert_eq!(frame.pixels(), image);
        // A larger one is sampled.
        frame.stretch([8, 4], &vec![gray(0.5); 32]);
        assert_eq!(frame.pixels(), vec![gray(0.5); 8]);
        // One that does not fit its shape is not drawn.
        frame.stretch([3, 3], &image);
        frame.stretch([0, 0], &[]);
        assert_eq!(frame.pixels(), vec![gray(0.5); 8]);
    }
}
