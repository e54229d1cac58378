//! Strips of a frame: columns that one thread draws, and which primitives touch them.

use super::camera::Viewport;
use super::shading::Lights;
use crate::framebuffer::Pixel;
use std::ops::Range;

/// The number of columns of a strip.
const WIDTH: usize = 32;

/// What all threads share.
pub(super) struct Context {
    pub(super) viewport: Viewport,
    pub(super) lights: Lights,
    pub(super) size: [usize; 2],
}

impl Context {
    pub(super) fn strips(&self) -> usize {
        self.size[0].div_ceil(WIDTH)
    }
}

/// Neighboring columns of a frame and of its depth buffer.
pub(super) struct Strip<'a> {
    pub(super) columns: Range<usize>,
    pub(super) height: usize,
    pixels: &'a mut [Pixel],
    depths: &'a mut [f32],
}

impl<'a> Strip<'a> {
    /// Divides a frame.
    pub(super) fn all(
        height: usize,
        pixels: &'a mut [Pixel],
        depths: &'a mut [f32],
    ) -> Vec<Strip<'a>> {
        let count = (WIDTH * height).max(1);
        let parts = pixels.chunks_mut(count).zip(depths.chunks_mut(count));
        let strips = parts.enumerate().map(|(number, (pixels, depths))| {
            let first = number * WIDTH;
            Strip {
                columns: first..first + pixels.len() / height.max(1),
                height,
                pixels,
                depths,
            }
        });
        strips.collect()
    }

    /// The columns of a range that are in this strip.
    pub(super) fn within(&self, columns: &Range<usize>) -> Range<usize> {
        let start = columns.start.max(self.columns.start);
        start..columns.end.min(self.columns.end).max(start)
    }

    /// Pixels and depths of some rows of a column of this strip.
    pub(super) fn column(
        &mut self,
        x: usize,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (&mut Pixel, &mut f32)> {
        let start = (x - self.columns.start) * self.height;
        let range = start + rows.start..start + rows.end;
        self.pixels[range.clone()]
            .iter_mut()
            .zip(&mut self.depths[range])
    }
}

/// The numbers of the primitives that touch each strip, in order.
#[derive(Debug)]
pub(super) struct Bins(Vec<Vec<u32>>);

impl Bins {
    pub(super) fn new(strips: usize) -> Bins {
        Bins(vec![Vec::new(); strips])
    }

    pub(super) fn add(&mut self, number: usize, columns: &Range<usize>) {
        if columns.is_empty() {
            return;
        }
        let last = (columns.end - 1) / WIDTH;
        for bin in self.0.iter_mut().take(last + 1).skip(columns.start / WIDTH) {
            bin.push(number as u32);
        }
    }

    pub(super) fn of(&self, strip: usize) -> &[u32] {
        &self.0[strip]
    }
}

/// The pixels whose centers are from `low` to `high`. Empty where a bound is NaN.
pub(super) fn centers(low: f32, high: f32, extent: usize) -> Range<usize> {
    let end = extent as f32;
    let start = (low - 0.5).ceil().clamp(0.0, end) as usize;
    let stop = ((high - 0.5).floor() + 1.0).clamp(0.0, end) as usize;
    start..stop.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_cover_a_frame_once() {
        for (width, height) in [(1, 1), (32, 3), (33, 5), (100, 7)] {
            let (mut pixels, mut depths) =
                (vec![[0.0; 4]; width * height], vec![0.0; width * height]);
            for strip in &mut Strip::all(height, &mut pixels, &mut depths) {
                for x in strip.columns.clone() {
                    for (pixel, depth) in strip.column(x, 0..height) {
                        pixel[0] += 1.0;
                        *depth = x as f32;
                    }
                }
            }
            assert!(pixels.iter().all(|p| p[0] == 1.0));
            assert!(
                depths
                    .iter()
                    .enumerate()
                    .all(|(k, d)| *d == (k / height) as f32)
            );
        }
        assert!(Strip::all(0, &mut [], &mut []).is_empty());
    }

    #[test]
    fn bins_have_all_strips_of_a_range() {
        let mut bins = Bins::new(3);
        bins.add(7, &(31..33));
        bins.add(8, &(64..96));
        bins.add(9, &(5..5));
        assert_eq!(
            [0, 1, 2].map(|k| bins.of(k).to_vec()),
            [vec![7], vec![7], vec![8]]
        );
    }

    #[test]
    fn centers_are_clipped() {
        assert_eq!(centers(0.5, 2.5, 10), 0..3);
        assert_eq!(centers(0.6, 2.4, 10), 1..2);
        assert_eq!(centers(-9.0, 1e9, 10), 0..10);
        assert!(centers(f32::NAN, f32::NAN, 10).is_empty());
        assert!(centers(5.0, 4.0, 10).is_empty());
        assert!(centers(12.0, 14.0, 10).is_empty());
    }
}
