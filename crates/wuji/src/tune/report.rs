//! The result as text: a table, a plot, and code for the chosen point.

use super::packing::{NodeLayout, Pack};
use super::search::{Goal, Point, Tuned};
use super::storage::{Storage, TunedField};
use std::fmt;
use std::fmt::Write;

/// Columns and rows of the plot of characters.
const WIDTH: usize = 60;
const HEIGHT: usize = 12;

impl Tuned {
    /// The ranges of the fields, the front, a plot and the chosen types.
    pub fn report(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}",
            self.ranges(),
            self.table(),
            self.plot(),
            self.summary()
        )
    }

    /// The fields and the numbers that they had.
    pub fn ranges(&self) -> String {
        let mut rows = vec![
            ["field", "type", "smallest", "largest", "least nonzero"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for field in &self.fields {
            let range = &field.range;
            let least = if range.least.is_finite() {
                number(range.least)
            } else {
                "-".to_owned()
            };
            let last = if range.not_finite {
                "not finite: kept".to_owned()
            } else {
                least
            };
            rows.push(vec![
                field.name.clone(),
                type_name(field),
                number(range.min),
                number(range.max),
                last,
            ]);
        }
        aligned(&rows)
    }

    /// Memory and error of the points of the front. `>` is the chosen one.
    pub fn table(&self) -> String {
        let names = self.fields.iter().map(|f| f.name.clone());
        let head = ["", "bytes", "memory", "error"].map(str::to_owned);
        let mut rows = vec![head.into_iter().chain(names).collect::<Vec<_>>()];
        for (n, point) in self.front.iter().enumerate() {
            let mut row = vec![
                if n == self.chosen { ">" } else { "" }.to_owned(),
                point.bytes.to_string(),
                format!("{:.0}%", 100.0 * self.part(point)),
                format!("{:.1e}", point.error),
            ];
            row.extend(point.plan.fields.iter().map(|f| short(f.1)));
            rows.push(row);
        }
        aligned(&rows)
    }

    /// Its memory, relative to that of the compute types.
    fn part(&self, point: &Point) -> f64 {
        point.bytes as f64 / self.reference_bytes.max(1) as f64
    }

    /// Memory against error, as characters: `*` is the front, `@` the chosen point, `.` other points that were run.
    pub fn plot(&self) -> String {
        let axes = Axes::of(self);
        let mut grid = vec![vec![' '; WIDTH]; HEIGHT];
        let mut put = |point: &Point, mark: char| {
            if let Some((x, y)) = axes.place(point) {
                let column = (x * (WIDTH - 1) as f64).round() as usize;
                let row = ((1.0 - y) * (HEIGHT - 1) as f64).round() as usize;
                grid[row.min(HEIGHT - 1)][column.min(WIDTH - 1)] = mark;
            }
        };
        self.others.iter().for_each(|p| put(p, '.'));
        self.front.iter().for_each(|p| put(p, '*'));
        put(self.point(), '@');
        let mut text = String::new();
        for (n, row) in grid.iter().enumerate() {
            let y = 1.0 - n as f64 / (HEIGHT - 1) as f64;
            let label = if n % 4 == 0 || n == HEIGHT - 1 {
                format!("{:.0e}", axes.error_at(y))
            } else {
                String::new()
            };
            let line: String = row.iter().collect();
            let _ = writeln!(text, "{label:>7} |{}", line.trim_end());
        }
        let _ = writeln!(text, "{:>7} +{}", "error", "-".repeat(WIDTH));
        let ends = format!("{} bytes", axes.bytes.1 as u64);
        let first = axes.bytes.0 as u64;
        let _ = writeln!(
            text,
            "{:9}{first:<20}{ends:>width$}",
            "",
            width = WIDTH - 20
        );
        text
    }

    /// Memory against error as an SVG picture.
    pub fn svg(&self) -> String {
        let axes = Axes::of(self);
        let (left, right, top, bottom) = (70.0, 620.0, 20.0, 340.0);
        let x = |at: f64| left + (right - left) * at;
        let y = |at: f64| bottom - (bottom - top) * at;
        let mut svg = String::from(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"640\" height=\"400\" fill=\"#ffffff\"/>\n",
        );
        for power in axes.decades() {
            let at = y(axes.height(10f64.powi(power)));
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#dfe3ea\"/><text x=\"62\" y=\"{:.1}\" text-anchor=\"end\">1e{power}</text>",
                at + 4.0
            );
        }
        for k in 0..=4 {
            let part = f64::from(k) / 4.0;
            let bytes = axes.bytes.0 + (axes.bytes.1 - axes.bytes.0) * part;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"360\" text-anchor=\"middle\">{}</text>",
                x(part),
                bytes as u64
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#30343c\"/>\n\
             <text x=\"345\" y=\"385\" text-anchor=\"middle\">bytes of all tuned fields</text>\n\
             <text x=\"8\" y=\"14\">error</text>"
        );
        if let Goal::Error(bound) = self.request.goal {
            let at = y(axes.height(bound));
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#d9480f\" stroke-dasharray=\"6 4\"/>"
            );
        }
        let mut dot = |point: &Point, radius: u32, color: &str| {
            if let Some((px, py)) = axes.place(point) {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{color}\"><title>{} bytes, error {:.1e}</title></circle>",
                    x(px),
                    y(py),
                    point.bytes,
                    point.error
                );
            }
        };
        self.others.iter().for_each(|p| dot(p, 3, "#b6bcc8"));
        self.front.iter().for_each(|p| dot(p, 5, "#1f6feb"));
        dot(self.point(), 7, "#d9480f");
        svg + "</svg>\n"
    }

    /// One line on the chosen point.
    pub fn summary(&self) -> String {
        let point = self.point();
        format!(
            "chosen: {} instead of {} bytes ({:.0}%), error {:.1e}; {} runs\n",
            point.bytes,
            self.reference_bytes,
            100.0 * self.part(point),
            point.error,
            self.runs
        )
    }

    /// The layout of the chosen point in Rust.
    pub fn rust(&self) -> String {
        let plan = &self.point().plan;
        let mut text = String::new();
        for (node, layout) in plan.nodes.iter().enumerate() {
            self.comment(&mut text, "//", node, layout);
            for (k, pack) in layout.packs.iter().enumerate() {
                let word = pack_name(layout, k);
                let kind = if pack.used.len() > 1 {
                    "bit_structs"
                } else {
                    "bit_struct"
                };
                let _ = writeln!(
                    text,
                    "let {word} = node.{kind}({}); // {}",
                    layout.word,
                    usage(pack, layout.word)
                );
                for (n, _) in &pack.fields {
                    let (name, storage) = &plan.fields[*n];
                    let group = if storage.is_shared() {
                        ".shared_exponent()"
                    } else {
                        ""
                    };
                    let id = identifier(name);
                    let _ = writeln!(text, "let {id} = {word}{group}.place({name:?}, {storage});");
                }
            }
            for n in &layout.plain {
                let name = &plan.fields[*n].0;
                let _ = writeln!(text, "let {} = node.place({name:?});", identifier(name));
            }
        }
        text
    }

    /// The layout of the chosen point in Python.
    pub fn python(&self) -> String {
        let plan = &self.point().plan;
        let mut text = String::new();
        for (node, layout) in plan.nodes.iter().enumerate() {
            self.comment(&mut text, "#", node, layout);
            for (k, pack) in layout.packs.iter().enumerate() {
                for (n, _) in &pack.fields {
                    self.python_field(&mut text, *n, &plan.fields[*n].1.python());
                }
                python_words(&mut text, self, layout, k);
            }
            for n in &layout.plain {
                let ty = format!("ti.{}", self.fields[*n].compute);
                self.python_field(&mut text, *n, &ty);
                let _ = writeln!(text, "node.place({})", identifier(&self.fields[*n].name));
            }
        }
        text
    }

    fn python_field(&self, text: &mut String, n: usize, ty: &str) {
        let field = &self.fields[n];
        let id = identifier(&field.name);
        let made = match &field.shape[..] {
            [] => format!("ti.field({ty})"),
            [n] => format!("ti.Vector.field({n}, {ty})"),
            [n, m, ..] => format!("ti.Matrix.field({n}, {m}, {ty})"),
        };
        let _ = writeln!(text, "{id} = {made}");
    }

    /// The fields of a node and the bytes of a cell, above its code.
    fn comment(&self, text: &mut String, mark: &str, node: usize, layout: &NodeLayout) {
        let members: Vec<&TunedField> = self.fields.iter().filter(|f| f.node == node).collect();
        let names: Vec<&str> = members.iter().map(|f| f.name.as_str()).collect();
        let bytes: u32 = members.iter().map(|f| f.plain_bits() / 8).sum();
        let _ = writeln!(
            text,
            "{mark} node of {}: {} instead of {bytes} bytes per cell",
            names.join(", "),
            layout.bytes
        );
    }
}

/// The words of a bit struct, and what is in each. In Python, numbers that are in different words are placed one by one.
fn python_words(text: &mut String, tuned: &Tuned, layout: &NodeLayout, k: usize) {
    let (pack, plan) = (&layout.packs[k], &tuned.point().plan);
    for (word, used) in pack.used.iter().enumerate() {
        let name = if pack.used.len() > 1 {
            format!("{}_{word}", pack_name(layout, k))
        } else {
            pack_name(layout, k)
        };
        let unused = layout.word - used;
        let _ = writeln!(
            text,
            "{name} = ti.BitpackedFields(max_num_bits={})  # {}",
            layout.word,
            bits_unused(unused)
        );
        for (n, at) in pack.fields.iter().filter(|f| f.1.contains(&word)) {
            let id = identifier(&plan.fields[*n].0);
            let shared = if plan.fields[*n].1.is_shared() {
                ", shared_exponent=True"
            } else {
                ""
            };
            if at.iter().all(|w| *w == word) {
                let _ = writeln!(text, "{name}.place({id}{shared})");
                continue;
            }
            for scalar in (0..at.len()).filter(|s| at[*s] == word) {
                let index = component(&tuned.fields[*n], scalar);
                let _ = writeln!(text, "{name}.place({id}.get_scalar_field({index}))");
            }
        }
        let _ = writeln!(text, "node.place({name})");
    }
}

/// The indices of a component.
fn component(field: &TunedField, scalar: usize) -> String {
    match &field.shape[..] {
        [_, columns, ..] => format!("{}, {}", scalar / columns, scalar % columns),
        [] | [_] => scalar.to_string(),
    }
}

fn pack_name(layout: &NodeLayout, k: usize) -> String {
    if layout.packs.len() == 1 {
        "word".to_owned()
    } else {
        format!("word{k}")
    }
}

fn usage(pack: &Pack, word: u32) -> String {
    let used: u32 = pack.used.iter().sum();
    let unused = word * pack.used.len() as u32 - used;
    match pack.used.len() {
        1 => bits_unused(unused),
        words => format!("{words} words, {}", bits_unused(unused)),
    }
}

fn bits_unused(unused: u32) -> String {
    match unused {
        0 => "no unused bits".to_owned(),
        1 => "1 unused bit".to_owned(),
        n => format!("{n} unused bits"),
    }
}

/// A name of a variable for a field.
fn identifier(name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut id: String = name
        .chars()
        .map(|c| if is_part(c) { c } else { '_' })
        .collect();
    if id.is_empty() || id.starts_with(|c: char| c.is_ascii_digit()) {
        id.insert(0, '_');
    }
    id
}

fn type_name(field: &TunedField) -> String {
    let extents: String = field.shape.iter().map(|n| format!("x{n}")).collect();
    format!("{}{extents}", field.compute)
}

fn number(x: f64) -> String {
    if x == 0.0 || (1e-3..1e5).contains(&x.abs()) {
        let text = format!("{x:.4}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{x:.2e}")
}

/// A type in a column of the table.
fn short(storage: Storage) -> String {
    match storage {
        Storage::Plain => "plain".to_owned(),
        Storage::Int { bits, .. } => format!("int {bits}"),
        Storage::Fixed { bits, .. } => format!("fixed {bits}"),
        Storage::Float {
            exponent, fraction, ..
        } => format!("float {exponent}+{fraction}"),
        Storage::SharedExponent {
            exponent, fraction, ..
        } => format!("shared {exponent}+{fraction}"),
    }
}

/// Columns of the width of their longest cell, the first row and the others alike.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| {
        rows.iter()
            .filter_map(|r| r.get(k))
            .map(|c| c.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|k| width(k).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The axes of a plot: bytes, and errors on a logarithmic scale.
struct Axes {
    bytes: (f64, f64),
    /// Decimal logarithms.
    errors: (f64, f64),
}

impl Axes {
    fn of(tuned: &Tuned) -> Axes {
        let all = || tuned.front.iter().chain(&tuned.others);
        let bound = match tuned.request.goal {
            Goal::Error(bound) => Some(bound),
            Goal::Bytes(_) | Goal::Part(_) => None,
        };
        let shown = all().map(|p| p.error).chain(bound);
        let shown = shown.filter(|e| e.is_finite() && *e > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for error in shown {
            low = low.min(error.log10().floor());
            high = high.max(error.log10().ceil());
        }
        if low > high {
            (low, high) = (-1.0, 0.0);
        }
        let bytes = all().map(|p| p.bytes as f64);
        let first = bytes.clone().fold(f64::INFINITY, f64::min);
        let last = bytes.fold(0.0, f64::max);
        Axes {
            bytes: (first, last.max(first + 1.0)),
            errors: (low, high.max(low + 1.0)),
        }
    }

    fn height(&self, error: f64) -> f64 {
        (error.log10() - self.errors.0) / (self.errors.1 - self.errors.0)
    }

    fn error_at(&self, height: f64) -> f64 {
        10f64.powf(self.errors.0 + (self.errors.1 - self.errors.0) * height)
    }

    /// From 0 to 1 along both axes; an error of zero is at the bottom. `None` if the error is not finite.
    fn place(&self, point: &Point) -> Option<(f64, f64)> {
        let x = (point.bytes as f64 - self.bytes.0) / (self.bytes.1 - self.bytes.0);
        let y = if point.error > 0.0 {
            self.height(point.error)
        } else {
            0.0
        };
        point.error.is_finite().then(|| (x, y.clamp(0.0, 1.0)))
    }

    fn decades(&self) -> impl Iterator<Item = i32> {
        let (first, last) = (self.errors.0 as i32, self.errors.1 as i32);
        let step = ((last - first) / 8 + 1) as usize;
        (first..=last).step_by(step)
    }
}

/// The report, and the code in Rust.
impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.report(), self.rust())
    }
}
