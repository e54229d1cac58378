//! Plots of losses and of fields, and pictures beside each other.

use wuji::Field;
use wuji::viewer::{Framebuffer, Picture, opaque};

const PAPER: u32 = 0xffffff;
const INK: u32 = 0x30343c;
const GRID: u32 = 0xdfe3ea;
const CURVE: u32 = 0x1f6feb;
const GOAL: u32 = 0xd9480f;
/// The height of a line of text.
const TEXT: f64 = 14.0;

/// The losses over the iterations, and the goal as a dashed line. The axis is logarithmic if the losses span two decades.
pub fn losses(losses: &[f64], goal: f64, [width, height]: [usize; 2]) -> Picture {
    let mut frame = Framebuffer::new(width, height, opaque(PAPER));
    let (left, low) = (72.0, 34.0);
    let (right, high) = (width as f64 - 14.0, height as f64 - 26.0);
    let axis = Axis::of(losses.iter().copied().chain([goal]));
    let last = losses.len().saturating_sub(1).max(1);
    let x = |n: f64| left + (right - left) * n / last as f64;
    let y = |loss: f64| low + (high - low) * axis.position(loss);

    for tick in axis.ticks() {
        let at = y(tick);
        frame.line([left, at], [right, at], 0.8, opaque(GRID));
        let label = format!("{:>8}", short(tick));
        frame.text(&label, [2.0, at + TEXT / 2.0], TEXT, opaque(INK));
    }
    for n in steps(0.0, last as f64, (width / 110).max(2)) {
        frame.line([x(n), low], [x(n), high], 0.8, opaque(GRID));
        let label = short(n);
        let middle = x(n) - 4.0 * label.len() as f64;
        frame.text(&label, [middle, low - 2.0], TEXT, opaque(INK));
    }
    for corner in [[left, high], [right, low]] {
        frame.line([left, low], corner, 1.2, opaque(INK));
    }
    let mut from = left;
    while from < right {
        let to = (from + 7.0).min(right);
        frame.line([from, y(goal)], [to, y(goal)], 1.2, opaque(GOAL));
        from += 12.0;
    }
    let points: Vec<_> = (0..losses.len())
        .map(|n| [x(n as f64), y(losses[n])])
        .collect();
    for pair in points.windows(2) {
        frame.line(pair[0], pair[1], 1.6, opaque(CURVE));
    }
    frame.text("loss", [left, height as f64 - 6.0], TEXT, opaque(CURVE));
    frame.text(
        "goal",
        [left + 56.0, height as f64 - 6.0],
        TEXT,
        opaque(GOAL),
    );
    frame.text("iteration", [right - 80.0, 16.0], TEXT, opaque(INK));
    frame.to_picture()
}

/// Pixels along each side of a picture of a field.
pub const SIDE: usize = 224;

/// A scalar field as colors from dark blue to yellow.
pub fn heights(field: &Field<f32, 2>, range: [f64; 2]) -> wuji::Result<Picture> {
    let shape = field.shape()?.map(|extent| extent as usize);
    let values = field.to_vec()?;
    let mut frame = Framebuffer::new(SIDE, SIDE, opaque(PAPER));
    frame.contour(shape, |i, j| f64::from(values[i * shape[1] + j]), range);
    Ok(frame.to_picture())
}

/// Particles in the unit cube as shaded dots, seen from above and from the side; far ones are drawn first.
pub fn particles(mut dots: Vec<([f32; 3], [f32; 3])>, ground: f32, radius: f32) -> Picture {
    let (turn, tilt) = (0.6f32.sin_cos(), 0.45f32.sin_cos());
    // To the right, up, and away from the eye.
    let project = |[x, y, z]: [f32; 3]| {
        let (x, y, z) = (x - 0.5, y - 0.25, 0.5 - z);
        let (right, away) = (x * turn.1 - z * turn.0, x * turn.0 + z * turn.1);
        [
            right,
            y * tilt.1 + away * tilt.0,
            away * tilt.1 - y * tilt.0,
        ]
    };
    let scale = SIDE as f32 / 1.3;
    let place = |at: [f32; 3]| {
        let [right, up, _] = project(at);
        [right, up].map(|c| f64::from(c * scale + SIDE as f32 / 2.0))
    };
    let mut frame = Framebuffer::new(SIDE, SIDE, opaque(0x141a2c));
    let corner = |x: f32, z: f32| place([x, ground, z]);
    let [a, b, c, d] = [
        corner(0.0, 0.0),
        corner(1.0, 0.0),
        corner(1.0, 1.0),
        corner(0.0, 1.0),
    ];
    frame.triangle([a, b, c], opaque(0x2b3450));
    frame.triangle([a, c, d], opaque(0x2b3450));
    dots.sort_by(|a, b| project(b.0)[2].total_cmp(&project(a.0)[2]));
    let size = f64::from(radius * scale).max(1.0);
    for (at, color) in dots {
        // Near and high particles are brighter.
        let shade = (0.75 - 0.4 * project(at)[2] + 0.5 * (at[1] - ground)).clamp(0.3, 1.0);
        let [r, g, b] = color.map(|c| c.clamp(0.0, 1.0) * shade);
        frame.circle(place(at), size, [r, g, b, 1.0]);
    }
    frame.to_picture()
}

/// Pictures in a row, on white, with a gap between them. The tallest one sets the height.
pub fn beside(pictures: &[Picture]) -> Picture {
    const GAP: usize = 6;
    let height = pictures.iter().map(|p| p.height).max().unwrap_or(1);
    let mut columns: Vec<Option<(&Picture, usize)>> = Vec::new();
    for (n, picture) in pictures.iter().enumerate() {
        if n > 0 {
            columns.extend([None; GAP]);
        }
        columns.extend((0..picture.width).map(|x| Some((picture, x))));
    }
    Picture::from_fn(columns.len().max(1), height, |x, y| {
        let pixel = |(picture, x): (&Picture, usize)| {
            let row = y.checked_sub((height - picture.height) / 2)?;
            (row < picture.height).then(|| picture.pixels[row * picture.width + x])
        };
        let found = columns.get(x).copied().flatten().and_then(pixel);
        found.unwrap_or([255; 3])
    })
}

/// Pictures of the same width, the first one on top.
pub fn above(pictures: &[Picture]) -> Picture {
    Picture {
        width: pictures.first().map_or(0, |picture| picture.width),
        height: pictures.iter().map(|picture| picture.height).sum(),
        pixels: pictures
            .iter()
            .flat_map(|p| p.pixels.iter().copied())
            .collect(),
    }
}

/// An axis of losses.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let is_log = low > 0.0 && high / low > 100.0;
        if is_log {
            (low, high) = (low.log10(), high.log10());
        }
        let margin = ((high - low) * 0.05).max(1e-9 * high.abs().max(1e-3));
        Axis {
            low: low - margin,
            high: high + margin,
            is_log,
        }
    }

    /// From 0 to 1 along the axis.
    fn position(&self, value: f64) -> f64 {
        let value = if self.is_log { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            return steps(self.low, self.high, 5);
        }
        let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
        // Labels of more decades than that would overlap.
        let step = (last - first) / MOST_DECADES + 1;
        let decades = (first..=last).filter(|decade| decade.rem_euclid(step) == 0);
        decades.map(|decade| 10f64.powi(decade)).collect()
    }
}

/// The most decades with a label each.
const MOST_DECADES: i32 = 8;

/// Round numbers in a range: multiples of 1, 2 or 5 times a power of ten, at most `count + 1` of them.
fn steps(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last.min(first + count as i64))
        .map(|n| n as f64 * step)
        .collect()
}

/// A number in at most eight characters.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(steps(0.0, 9.7, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(1e-7), "1e-7");
        assert_eq!(short(-120.0), "-120");
        let axis = Axis::of([1e-3, 20.0].into_iter());
        assert!(axis.is_log && axis.ticks() == [1e-3, 1e-2, 1e-1, 1.0, 10.0]);
        // Many decades have a tick now and then.
        let ticks = Axis::of([1e-16, 2.0].into_iter()).ticks();
        let expected = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0];
        let near = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() < 1e-9;
        assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
        assert!(ticks.iter().zip(&expected).all(near), "{ticks:?}");
    }

    #[test]
    fn the_curve_falls_from_left_to_right() {
        let picture = losses(&[3.0, 2.0, 1.0], 0.5, [300, 200]);
        let curve = [0x1f, 0x6f, 0xeb];
        let rows = |columns: std::ops::Range<usize>| {
            let pixels = (30..180).flat_map(|y| columns.clone().map(move |x| (x, y)));
            let mut seen = pixels.filter(|(x, y)| picture.pixels[y * 300 + x] == curve);
            seen.next().map(|(_, y)| y)
        };
        assert!(rows(80..90) < rows(270..280), "{:?}", rows(80..90));
        // Losses that are not numbers, and no losses, are no panic.
        losses(&[f64::NAN, f64::INFINITY], 0.0, [300, 200]);
        losses(&[], 1.0, [300, 200]);
    }

    #[test]
    fn pictures_lie_beside_each_other() {
        let square = |n, c| Picture::from_fn(n, n, |_, _| [c; 3]);
        let row = beside(&[square(4, 1), square(2, 2)]);
        assert_eq!((row.width, row.height), (12, 4));
        assert_eq!(row.pixels[11], [255; 3]);
        assert_eq!(row.pixels[12 + 11], [2; 3]);
    }
}
