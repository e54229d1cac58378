//! Animated GIF files: one palette for all frames, and only the changed pixels of each frame.

use std::borrow::Cow;
use std::io::{self, BufWriter};
use std::path::Path;

use crate::picture::{Picture, create};

/// Frames are kept until the palette can be chosen from all of them.
#[derive(Debug, Default)]
pub struct Animation {
    frames: Vec<Picture>,
}

/// The last index of a palette of 256 is transparent: as in the previous frame.
const COLORS: usize = 255;
const SAME: u8 = 255;
/// The palette distinguishes colours by 5 bits per component.
const CUBE: usize = 1 << 15;

impl Animation {
    /// Adds a frame at the end.
    pub fn push(&mut self, frame: Picture) {
        self.frames.push(frame);
    }

    /// Writes a GIF that loops forever. All frames have the size of the first.
    pub fn save_gif(&self, path: &Path, hundredths_per_frame: u16) -> io::Result<()> {
        let Some(first) = self.frames.first() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an animation needs a frame",
            ));
        };
        first.check()?;
        let (width, height) = (first.width, first.height);
        if self
            .frames
            .iter()
            .any(|f| (f.width, f.height) != (width, height))
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "all frames need the same size",
            ));
        }
        let (mut palette, nearest) = self.palette();
        palette.resize(256 * 3, 0);
        let file = BufWriter::new(create(path)?);
        let mut encoder = gif::Encoder::new(file, width as u16, height as u16, &palette)
            .map_err(io::Error::other)?;
        encoder
            .set_repeat(gif::Repeat::Infinite)
            .map_err(io::Error::other)?;
        let mut shown: Vec<u8> = Vec::new();
        for frame in &self.frames {
            let indices: Vec<u8> = frame
                .pixels
                .iter()
                .map(|pixel| nearest[cell(*pixel)])
                .collect();
            let changes: Vec<u8> = if shown.is_empty() {
                indices.clone()
            } else {
                indices
                    .iter()
                    .zip(&shown)
                    .map(|(new, old)| if new == old { SAME } else { *new })
                    .collect()
            };
            let frame = gif::Frame {
                width: width as u16,
                height: height as u16,
                delay: hundredths_per_frame,
                dispose: gif::DisposalMethod::Keep,
                transparent: (!shown.is_empty()).then_some(SAME),
                buffer: Cow::Owned(changes),
                ..gif::Frame::default()
            };
            encoder.write_frame(&frame).map_err(io::Error::other)?;
            shown = indices;
        }
        Ok(())
    }

    /// A palette by median cut, and for each cell of the colour cube the index of its nearest colour.
    fn palette(&self) -> (Vec<u8>, Vec<u8>) {
        let mut counts = vec![0u32; CUBE];
        for pixel in self.frames.iter().flat_map(|frame| &frame.pixels) {
            counts[cell(*pixel)] += 1;
        }
        let used: Vec<(usize, f32)> =
            // The square root keeps large uniform areas from taking all colours.
            counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(c, n)| (c, (*n as f32).sqrt())).collect();
        let mut boxes = vec![used];
        while boxes.len() < COLORS {
            let widest = boxes
                .iter()
                .enumerate()
                .filter(|(_, cells)| cells.len() > 1)
                .max_by(|(_, a), (_, b)| spread(a).1.total_cmp(&spread(b).1));
            let Some((at, _)) = widest else { break };
            let mut cells = boxes.swap_remove(at);
            let axis = spread(&cells).0;
            cells.sort_by_key(|(c, _)| color(*c)[axis]);
            let half = 0.5 * cells.iter().map(|(_, n)| n).sum::<f32>();
            let mut sum = 0.0;
            let middle = cells.iter().position(|(_, n)| {
                sum += n;
                sum >= half
            });
            let middle = middle.map_or(1, |m| m + 1).clamp(1, cells.len() - 1);
            let upper = cells.split_off(middle);
            boxes.push(cells);
            boxes.push(upper);
        }
        let colors: Vec<[u8; 3]> = boxes.iter().map(|cells| average(cells)).collect();
        let mut nearest = vec![0u8; CUBE];
        for (at, nearest) in nearest
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| counts[*at] > 0)
        {
            let distance = |c: &[u8; 3]| -> i32 {
                let d: [i32; 3] =
                    std::array::from_fn(|k| i32::from(c[k]) - i32::from(color(at)[k]));
                2 * d[0] * d[0] + 4 * d[1] * d[1] + 3 * d[2] * d[2]
            };
            let best = colors.iter().enumerate().min_by_key(|(_, c)| distance(c));
            *nearest = best.map_or(0, |(index, _)| index as u8);
        }
        (colors.into_flattened(), nearest)
    }
}

/// The cell of a colour in the cube.
fn cell(pixel: [u8; 3]) -> usize {
    pixel
        .iter()
        .fold(0, |cell, c| cell << 5 | usize::from(c >> 3))
}

/// The colour in the middle of a cell.
fn color(cell: usize) -> [u8; 3] {
    [10, 5, 0].map(|shift| ((cell >> shift & 31) << 3 | 4) as u8)
}

/// The axis with the largest spread of the cells, and its weight.
fn spread(cells: &[(usize, f32)]) -> (usize, f32) {
    let total: f32 = cells.iter().map(|(_, n)| n).sum();
    (0..3)
        .map(|axis| {
            let mean = cells
                .iter()
                .map(|(c, n)| f32::from(color(*c)[axis]) * n)
                .sum::<f32>()
                / total;
            let sum = cells
                .iter()
                .map(|(c, n)| (f32::from(color(*c)[axis]) - mean).powi(2) * n)
                .sum::<f32>();
            (axis, sum)
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0))
}

fn average(cells: &[(usize, f32)]) -> [u8; 3] {
    let total: f32 = cells.iter().map(|(_, n)| n).sum::<f32>().max(1e-9);
    std::array::from_fn(|k| {
        (cells
            .iter()
            .map(|(c, n)| f32::from(color(*c)[k]) * n)
            .sum::<f32>()
            / total) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let frame = |blue: u8| Picture {
            width: 8,
            height: 4,
            pixels: (0..32u8)
                .map(|k| [(k * 8) | 4, 100, if k == 9 { blue } else { 4 }])
                .collect(),
        };
        let mut animation = Animation::default();
        assert!(
            animation
                .save_gif(Path::new("/nonexistent/x.gif"), 3)
                .is_err()
        );
        animation.push(frame(4));
        animation.push(frame(252));
        let folder = std::env::temp_dir().join(format!("wuji-gif-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("x.gif");
        animation.save_gif(&path, 3).expect("written");

        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options
            .read_info(std::fs::File::open(&path).expect("there"))
            .expect("a gif");
        let first = decoder
            .read_next_frame()
            .expect("valid")
            .expect("a frame")
            .buffer
            .to_vec();
        for (pixel, expected) in first.chunks(4).zip(&frame(4).pixels) {
            assert!(
                pixel.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 4),
                "{pixel:?} {expected:?}"
            );
        }
        let second = decoder
            .read_next_frame()
            .expect("valid")
            .expect("a frame")
            .buffer
            .to_vec();
        let opaque: Vec<usize> = (0..32).filter(|k| second[4 * k + 3] != 0).collect();
        assert_eq!(opaque, [9], "only what changed is drawn");
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }
}
