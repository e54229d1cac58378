//! Scalar fields as colors.

use super::{Framebuffer, Pixel, opaque};
use std::ops::DerefMut;

/// From dark blue to yellow through red, with increasing lightness.
const COLORS: [u32; 10] = [
    0x0b0887, 0x46039f, 0x7601a8, 0x9d189d, 0xbd3786, 0xd8576b, 0xec7853, 0xfb9f3a, 0xfdca26,
    0xf0f724,
];

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Draws a scalar field of another size as colors: dark blue is `range[0]` or less, yellow `range[1]` or more, NaN black.
    /// The first index goes to the right and the second one up; corners stay corners, and values between elements are interpolated.
    pub fn contour(
        &mut self,
        shape: [usize; 2],
        value: impl Fn(usize, usize) -> f64,
        [low, high]: [f64; 2],
    ) {
        if shape.contains(&0) {
            return;
        }
        let colors = COLORS.map(opaque);
        let scale = if high > low { 1.0 / (high - low) } else { 0.0 };
        let height = self.height;
        let samples: Vec<_> = (0..height).map(|j| sample(j, height, shape[1])).collect();
        let same = shape == [self.width, self.height];
        for i in 0..self.width {
            let (x, x_next, right) = sample(i, self.width, shape[0]);
            let column = self.column(i, 0..height).iter_mut();
            for (j, (pixel, (y, y_next, up))) in column.zip(&samples).enumerate() {
                let found = if same {
                    value(i, j)
                } else {
                    let low = mix(value(x, *y), value(x_next, *y), right);
                    let high = mix(value(x, *y_next), value(x_next, *y_next), right);
                    mix(low, high, *up)
                };
                *pixel = color(&colors, (found - low) * scale);
            }
        }
    }
}

/// The elements before and after a pixel, and its position between them.
fn sample(pixel: usize, pixels: usize, elements: usize) -> (usize, usize, f64) {
    let steps = pixels.saturating_sub(1).max(1) as f64;
    let at = pixel as f64 / steps * (elements - 1) as f64;
    let before = (at as usize).min(elements - 1);
    (before, (before + 1).min(elements - 1), at - before as f64)
}

/// Exact at both ends, even where the other one is infinite.
fn mix(a: f64, b: f64, t: f64) -> f64 {
    if t == 0.0 { a } else { a * (1.0 - t) + b * t }
}

fn color(colors: &[Pixel; COLORS.len()], part: f64) -> Pixel {
    if part.is_nan() {
        return opaque(0);
    }
    let at = part.clamp(0.0, 1.0) * (COLORS.len() - 1) as f64;
    let number = (at as usize).min(COLORS.len() - 2);
    let t = (at - number as f64) as f32;
    let (a, b) = (colors[number], colors[number + 1]);
    [0, 1, 2, 3].map(|k| a[k] + (b[k] - a[k]) * t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_colors() {
        let mut frame = Framebuffer::new(4, 1, opaque(0));
        let values = [0.0, 2.0, f64::INFINITY, f64::NAN];
        frame.contour([4, 1], |i, _| values[i], [0.0, 2.0]);
        let expected = [COLORS[0], COLORS[9], COLORS[9], 0].map(opaque);
        assert_eq!(frame.pixels(), expected);
        frame.contour([4, 1], |_, _| 7.0, [7.0, 7.0]);
        assert_eq!(frame.pixels(), [opaque(COLORS[0]); 4]);
        frame.contour([0, 3], |_, _| unreachable!("it is empty"), [0.0, 1.0]);
    }

    #[test]
    fn small_fields_are_interpolated() {
        let value = |i: usize, j: usize| (i + 2 * j) as f64 / 3.0;
        let mut large = Framebuffer::new(7, 5, opaque(0));
        large.contour([2, 2], value, [0.0, 1.0]);
        let mut expected = Framebuffer::new(7, 5, opaque(0));
        let exact = |i: usize, j: usize| i as f64 / 18.0 + j as f64 / 6.0;
        expected.contour([7, 5], exact, [0.0, 1.0]);
        let pairs = large.pixels().iter().zip(expected.pixels());
        assert!(pairs.clone().all(|(a, b)| (a[0] - b[0]).abs() < 1e-5));
        let mut one = Framebuffer::new(1, 1, opaque(0));
        one.contour([2, 2], value, [0.0, 1.0]);
        assert_eq!(one.pixels(), [opaque(COLORS[0])]);
    }
}
