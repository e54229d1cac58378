//! A stroke font, scalable to any size.

/// Height of a line, in units of the glyphs.
pub(super) const LINE: f64 = 9.5;
/// Advance width of a glyph.
pub(super) const WIDTH: f64 = 5.6;

/// The glyphs from `!` to `~`, as polylines on a grid: `"00 26 40,12 32"` goes from (0, 0) via (2, 6) to (4, 0), plus a bar from (1, 2) to
/// (3, 2). Lowercase letters are four units high, capitals six. `a` and `b` stand for y = -1 and -2, below the baseline.
#[rustfmt::skip]
const GLYPHS: [&str; 94] = [
    /* ! */ "26 22,20 21",
    /* " */ "16 14,36 34",
    /* # */ "10 16,30 36,02 42,04 44",
    /* $ */ "45 35 15 04 13 33 42 31 11 01,26 20",
    /* % */ "00 46,06 16 15 05 06,31 41 40 30 31",
    /* & */ "40 04 05 16 25 24 02 01 10 20 42",
    /* ' */ "26 24",
    /* ( */ "36 25 21 30",
    /* ) */ "16 25 21 10",
    /* * */ "21 25,02 44,04 42",
    /* + */ "03 43,21 25",
    /* , */ "21 20 1a",
    /* - */ "03 43",
    /* . */ "20 21",
    /* / */ "00 46",
    /* 0 */ "10 01 05 16 36 45 41 30 10,01 45",
    /* 1 */ "05 26 20,10 30",
    /* 2 */ "05 16 36 45 44 00 40",
    /* 3 */ "05 16 36 45 44 33 13,33 42 41 30 10 01",
    /* 4 */ "30 36 02 42",
    /* 5 */ "46 06 03 33 42 41 30 10 01",
    /* 6 */ "45 36 16 05 01 10 30 41 42 33 13 02",
    /* 7 */ "06 46 45 10",
    /* 8 */ "13 04 05 16 36 45 44 33 13 02 01 10 30 41 42 33",
    /* 9 */ "01 10 30 41 45 36 16 05 04 13 33 44",
    /* : */ "20 21,23 24",
    /* ; */ "21 20 1a,23 24",
    /* < */ "45 03 41",
    /* = */ "02 42,04 44",
    /* > */ "05 43 01",
    /* ? */ "05 16 36 45 44 33 23 22,20 21",
    /* @ */ "31 11 02 04 15 35 44 42 32 34 23 32",
    /* A */ "00 26 40,12 32",
    /* B */ "00 06 36 45 44 33 03,33 42 41 30 00",
    /* C */ "45 36 16 05 01 10 30 41",
    /* D */ "00 06 26 44 42 20 00",
    /* E */ "46 06 00 40,03 33",
    /* F */ "46 06 00,03 33",
    /* G */ "45 36 16 05 01 10 30 41 43 23",
    /* H */ "00 06,40 46,03 43",
    /* I */ "16 36,26 20,10 30",
    /* J */ "26 46,36 31 20 10 01",
    /* K */ "00 06,46 03 40",
    /* L */ "06 00 40",
    /* M */ "00 06 23 46 40",
    /* N */ "00 06 40 46",
    /* O */ "10 01 05 16 36 45 41 30 10",
    /* P */ "00 06 36 45 44 33 03",
    /* Q */ "10 01 05 16 36 45 41 30 10,22 40",
    /* R */ "00 06 36 45 44 33 03,23 40",
    /* S */ "45 36 16 05 04 13 33 42 41 30 10 01",
    /* T */ "06 46,26 20",
    /* U */ "06 01 10 30 41 46",
    /* V */ "06 20 46",
    /* W */ "06 10 23 30 46",
    /* X */ "00 46,06 40",
    /* Y */ "06 23 46,23 20",
    /* Z */ "06 46 00 40",
    /* [ */ "36 16 10 30",
    /* \ */ "06 40",
    /* ] */ "16 36 30 10",
    /* ^ */ "04 26 44",
    /* _ */ "0a 4a",
    /* ` */ "16 25",
    /* a */ "04 34 43 40,42 12 01 10 30 41",
    /* b */ "06 00,03 14 34 43 41 30 10 01",
    /* c */ "43 34 14 03 01 10 30 41",
    /* d */ "46 40,43 34 14 03 01 10 30 41",
    /* e */ "02 42 43 34 14 03 01 10 30 41",
    /* f */ "46 36 25 20,04 44",
    /* g */ "44 4a 3b 1b 0a,43 34 14 03 01 10 30 41",
    /* h */ "06 00,03 14 34 43 40",
    /* i */ "14 24 20,10 30,26 25",
    /* j */ "24 34 3a 2b 1b,36 35",
    /* k */ "06 00,44 02,12 40",
    /* l */ "16 26 20,10 30",
    /* m */ "00 04 14 23 20,23 34 43 40",
    /* n */ "00 04,03 14 34 43 40",
    /* o */ "10 01 03 14 34 43 41 30 10",
    /* p */ "04 0b,03 14 34 43 41 30 10 01",
    /* q */ "44 4b,43 34 14 03 01 10 30 41",
    /* r */ "04 00,02 14 34 43",
    /* s */ "43 34 14 03 12 32 41 30 10 01",
    /* t */ "26 21 30 40,04 44",
    /* u */ "04 01 10 30 41,44 40",
    /* v */ "04 20 44",
    /* w */ "04 10 23 30 44",
    /* x */ "00 44,04 40",
    /* y */ "04 20,44 20 1b 0b",
    /* z */ "04 44 00 40",
    /* { */ "36 26 24 13 22 20 30",
    /* | */ "26 2a",
    /* } */ "16 26 24 33 22 20 10",
    /* ~ */ "02 13 32 43",
];

/// All other characters are a box.
const BOX: &str = "00 06 46 40 00";

/// The width of a text in pixels.
pub fn text_width(content: &str, size: f64) -> f64 {
    let longest = content.split('\n').map(|line| line.chars().count()).max();
    longest.unwrap_or(0) as f64 * WIDTH * size / LINE
}

/// Calls `draw` with both ends of each stroke of a glyph. White space has none.
pub(super) fn for_strokes(letter: char, mut draw: impl FnMut([f64; 2], [f64; 2])) {
    if letter.is_whitespace() {
        return;
    }
    let number = (letter as usize).wrapping_sub('!' as usize);
    for polyline in GLYPHS.get(number).unwrap_or(&BOX).split(',') {
        let mut points = polyline.split(' ').map(point);
        if let Some(mut from) = points.next() {
            for to in points {
                draw(from, to);
                from = to;
            }
        }
    }
}

/// Two letters as a point of the grid.
fn point(text: &str) -> [f64; 2] {
    let coordinate = |letter: Option<&u8>| match letter {
        Some(b'a') => -1.0,
        Some(b'b') => -2.0,
        Some(digit) => f64::from(*digit) - f64::from(b'0'),
        None => 0.0,
    };
    let letters = text.as_bytes();
    [coordinate(letters.first()), coordinate(letters.get(1))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strokes(letter: char) -> Vec<[[f64; 2]; 2]> {
        let mut all = Vec::new();
        for_strokes(letter, |a, b| all.push([a, b]));
        all
    }

    #[test]
    fn glyphs_are_polylines_on_a_grid() {
        let bar = [[1.0, 2.0], [3.0, 2.0]];
        let (left, right) = ([[0.0, 0.0], [2.0, 6.0]], [[2.0, 6.0], [4.0, 0.0]]);
        assert_eq!(strokes('A'), [left, right, bar]);
        assert_eq!(strokes('|'), [[[2.0, 6.0], [2.0, -1.0]]]);
        assert_eq!((strokes(' '), strokes('\u{a0}')), (vec![], vec![]));
        assert_eq!(strokes('\u{e4}'), strokes('\u{7f}'));
    }

    #[test]
    fn glyphs_differ_and_stay_in_their_cell() {
        let all: Vec<_> = ('!'..='~').map(strokes).collect();
        for (k, glyph) in all.iter().enumerate() {
            assert!(!glyph.is_empty() && !all[..k].contains(glyph), "{k}");
            for [x, y] in glyph.as_flattened() {
                assert!((0.0..=4.0).contains(x) && (-2.0..=6.0).contains(y), "{k}");
            }
        }
    }

    #[test]
    fn text_is_as_wide_as_its_longest_line() {
        assert_eq!(text_width("two\nlines", LINE), 5.0 * WIDTH);
        assert_eq!(text_width("", 15.0), 0.0);
    }
}
