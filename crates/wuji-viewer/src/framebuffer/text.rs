//! Text in a stroke font.

use super::font::{LINE, WIDTH, for_strokes};
use super::shapes::for_line;
use super::{Framebuffer, Pixel, blend, clip};
use std::ops::DerefMut;

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Draws text. `x` is the left edge and `top` the upper edge of its first line, `size` the height of a line, at least 1.
    pub fn text(&mut self, content: &str, [x, top]: [f64; 2], size: f64, color: Pixel) {
        if !(x.is_finite() && top.is_finite() && size.is_finite()) {
            return;
        }
        let mut pen = Pen::new(size.max(1.0), color);
        // Equal letters look alike.
        let (x, baseline) = (x.round(), (top - 0.85 * pen.size).round());
        for (row, line) in content.split('\n').enumerate() {
            let y = baseline - row as f64 * pen.size;
            if y - pen.size > self.height as f64 || y + pen.size < 0.0 {
                continue;
            }
            for (column, letter) in line.chars().enumerate() {
                let left = x + column as f64 * pen.advance;
                if left - pen.size > self.width as f64 {
                    break;
                }
                if left + pen.size >= 0.0 {
                    pen.glyph(self, letter, [left, y]);
                }
            }
        }
    }
}

/// A size, a color and memory for a glyph.
struct Pen {
    size: f64,
    scale: f64,
    advance: f64,
    radius: f64,
    color: Pixel,
    mask: Vec<f32>,
}

impl Pen {
    fn new(size: f64, color: Pixel) -> Pen {
        let scale = size / LINE;
        Pen {
            size,
            scale,
            advance: WIDTH * scale,
            // A stroke covers half a pixel less on both sides.
            radius: (size / 26.0).max(0.55) + 0.5,
            color,
            mask: Vec::new(),
        }
    }

    /// Draws a glyph with the left end of its baseline at `x`, `y`. Strokes that meet cover a pixel once.
    fn glyph<P>(&mut self, frame: &mut Framebuffer<P>, letter: char, [x, y]: [f64; 2])
    where
        P: DerefMut<Target = [Pixel]>,
    {
        let (scale, radius) = (self.scale, self.radius);
        let columns = clip(x - radius, x + 4.0 * scale + radius, frame.width);
        let rows = clip(
            y - 2.0 * scale - radius,
            y + 6.0 * scale + radius,
            frame.height,
        );
        let size = [columns.len(), rows.len()];
        self.mask.clear();
        self.mask.resize(size[0] * size[1], 0.0);
        let mask = &mut self.mask;
        let origin = [x - columns.start as f64, y - rows.start as f64];
        for_strokes(letter, |from, to| {
            let ends = [from, to].map(|p| [0, 1].map(|k| origin[k] + p[k] * scale));
            for_line(size, ends, radius, |i, j, coverage| {
                let covered = &mut mask[i * size[1] + j];
                *covered = covered.max(coverage);
            });
        });
        if !rows.is_empty() {
            for (i, mask) in columns.zip(self.mask.chunks_exact(size[1])) {
                for (pixel, coverage) in frame.column(i, rows.clone()).iter_mut().zip(mask) {
                    blend(pixel, self.color, *coverage);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::opaque;
    use super::*;

    /// The pixels that text covers at least by half: x, y.
    fn covered(content: &str, at: [f64; 2], size: f64) -> Vec<[usize; 2]> {
        let mut frame = Framebuffer::new(100, 60, opaque(0));
        frame.text(content, at, size, [1.0; 4]);
        let pixels = frame.pixels().iter().enumerate();
        let seen = pixels.filter(|(_, p)| p[0] >= 0.5);
        seen.map(|(k, _)| [k / 60, k % 60]).collect()
    }

    #[test]
    fn text_starts_at_its_upper_left_corner() {
        let seen = covered("HI", [10.0, 50.0], 19.0);
        let [left, low] = [0, 1].map(|k| seen.iter().map(|p| p[k]).min());
        let [right, high] = [0, 1].map(|k| seen.iter().map(|p| p[k]).max());
        assert!((9..=10).contains(&left.unwrap()), "{left:?}");
        assert!((27..=30).contains(&right.unwrap()), "{right:?}");
        assert!((32..=34).contains(&low.unwrap()), "{low:?}");
        assert!((45..=47).contains(&high.unwrap()), "{high:?}");
        let shifted = covered("\nHI", [10.0, 69.0], 19.0);
        assert_eq!(seen, shifted);
    }

    #[test]
    fn text_outside_is_clipped() {
        for at in [[-500.0, 30.0], [300.0, 30.0], [10.0, -9.0], [10.0, 1e300]] {
            assert_eq!(covered("nowhere", at, 15.0), [[0; 2]; 0]);
        }
        for bad in [f64::NAN, f64::INFINITY] {
            assert_eq!(covered("x", [bad, 10.0], 15.0), [[0; 2]; 0]);
            assert_eq!(covered("x", [10.0, 10.0], bad), [[0; 2]; 0]);
        }
        assert!(!covered("clipped", [-5.0, 64.0], 15.0).is_empty());
        covered("huge", [0.0, 0.0], 1e300);
        covered(&"long\n".repeat(10_000), [0.0, 60.0], 0.0);
    }
}
