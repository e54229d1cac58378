//! The table of layouts, and the code of the fastest.

use super::choice::{LayoutChoice, Level, Placement};
use super::search::{GridInfo, LayoutPoint, TunedLayout};
use crate::tune::report::aligned;
use std::fmt::{self, Write};
use wuji_ir::layout::CellOrder;

impl fmt::Display for TunedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.report(), self.rust())
    }
}

impl TunedLayout {
    /// All layouts that were run, the fastest first, and a line about the chosen one.
    pub fn report(&self) -> String {
        let head = ["", "time", "speed", "memory", "error", "layout"].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by(|a, b| self.points[*a].seconds.total_cmp(&self.points[*b].seconds));
        for n in order {
            let point = &self.points[n];
            let mark = match (n == self.chosen, self.agrees(point)) {
                (true, _) => ">",
                (false, true) => "",
                (false, false) => "x",
            };
            rows.push(vec![
                mark.to_owned(),
                time(point.seconds),
                format!("{:.2}x", self.speed(point)),
                bytes(point.bytes),
                format!("{:.1e}", point.error),
                self.layouts(point),
            ]);
        }
        let mut text = aligned(&rows);
        let point = self.point();
        let _ = writeln!(
            text,
            "\nchosen: {}, {:.2} times the speed of the original layout; {} layouts",
            self.layouts(point),
            self.speed(point),
            self.points.len()
        );
        if self.points.iter().any(|p| !self.agrees(p)) {
            text += "x: the outputs differ from those of the original layout\n";
        }
        text
    }

    fn speed(&self, point: &LayoutPoint) -> f64 {
        self.points[0].seconds / point.seconds.max(1e-12)
    }

    /// The layouts of all grids in one line; names only where there are several.
    fn layouts(&self, point: &LayoutPoint) -> String {
        let grids = self.grids.iter().map(|g| {
            let shown = match point.plan.choice(&g.name) {
                Some(choice) => choice.to_string(),
                None => g.shown_original(),
            };
            if self.grids.len() > 1 {
                format!("{}: {shown}", g.name)
            } else {
                shown
            }
        });
        grids.collect::<Vec<_>>().join("; ")
    }

    /// The chosen layout in Rust.
    pub fn rust(&self) -> String {
        self.code("//", |grid, choice, text| {
            let Some((outer, inner)) = choice.levels(&grid.extents) else {
                return;
            };
            let mut above = "root".to_owned();
            if let Some(outer) = &outer {
                let _ = writeln!(text, "let block = root{};", rust(outer));
                "block".clone_into(&mut above);
            }
            if choice.placement == Placement::Together {
                let _ = writeln!(text, "let cell = {above}{};", rust(&inner));
            }
            for (name, compound) in &grid.fields {
                let var = variable(name);
                let _ = match choice.placement {
                    Placement::Together => writeln!(text, "let {var} = cell.place(\"{name}\");"),
                    Placement::Components if *compound => writeln!(
                        text,
                        "let {var} = {above}.place_soa(\"{name}\", |node| node{});",
                        rust(&inner)
                    ),
                    Placement::Components | Placement::Apart => writeln!(
                        text,
                        "let {var} = {above}{}.place(\"{name}\");",
                        rust(&inner)
                    ),
                };
            }
        })
    }

    /// The chosen layout in Python.
    pub fn python(&self) -> String {
        self.code("#", |grid, choice, text| {
            let Some((outer, inner)) = choice.levels(&grid.extents) else {
                return;
            };
            let mut above = "ti.root".to_owned();
            if let Some(outer) = &outer {
                let _ = writeln!(text, "block = ti.root{}", python(outer));
                "block".clone_into(&mut above);
            }
            let names: Vec<String> = grid.fields.iter().map(|f| variable(&f.0)).collect();
            if choice.placement == Placement::Together {
                let inner = python(&inner);
                let _ = writeln!(text, "{above}{inner}.place({})", names.join(", "));
                return;
            }
            for ((_, compound), var) in grid.fields.iter().zip(&names) {
                let inner = python(&inner);
                if choice.placement == Placement::Components && *compound {
                    let _ = writeln!(
                        text,
                        "for k in range({var}.n * {var}.m):\n    {above}{inner}.place({var}.get_scalar_field(*divmod(k, {var}.m)))"
                    );
                } else {
                    let _ = writeln!(text, "{above}{inner}.place({var})");
                }
            }
        })
    }

    fn code(&self, comment: &str, write: impl Fn(&GridInfo, LayoutChoice, &mut String)) -> String {
        let mut text = String::new();
        for grid in &self.grids {
            let Some(choice) = self.point().plan.choice(&grid.name) else {
                let _ = writeln!(text, "{comment} {}: the original layout", grid.name);
                continue;
            };
            let _ = writeln!(text, "{comment} {}: {choice}", grid.name);
            write(grid, choice, &mut text);
        }
        text
    }
}

impl GridInfo {
    fn shown_original(&self) -> String {
        let plain = || LayoutChoice::plain(self.sparse).to_string();
        let shown = self.original.clone().unwrap_or_else(plain);
        format!("{shown} (original)")
    }
}

/// `.dense(IJ, [64, 64])`.
fn rust(level: &Level) -> String {
    let names: Vec<String> = (level.extents.iter())
        .map(|e| e.0.to_string().to_uppercase())
        .collect();
    let axes = match names.concat() {
        known if KNOWN_AXES.contains(&known.as_str()) => known,
        _ => format!("[{}]", names.join(", ")),
    };
    let call = level.node.rust();
    let morton = morton(level);
    format!(".{call}({axes}, {}){morton}", list(level, '[', ']'))
}

/// Sequences of axes that have a name in Rust.
const KNOWN_AXES: [&str; 16] = [
    "I", "J", "K", "L", "IJ", "JI", "IK", "KI", "JK", "KJ", "IJK", "IKJ", "JIK", "KJI", "IJKL",
    "LKJI",
];

fn morton(level: &Level) -> &'static str {
    match level.order {
        CellOrder::RowMajor => "",
        CellOrder::Morton => ".morton()",
    }
}

/// `.dense(ti.ij, (64, 64))`. Python orders axes by the node, so other orders are nodes of one axis each.
fn python(level: &Level) -> String {
    let call = level.node.name();
    let ascending = level.extents.windows(2).all(|w| w[0].0 < w[1].0);
    if ascending {
        let names: String = level.extents.iter().map(|e| e.0.to_string()).collect();
        let morton = morton(level);
        return format!(".{call}(ti.{names}, {}){morton}", list(level, '(', ')'));
    }
    let nodes = level
        .extents
        .iter()
        .map(|(axis, n)| format!(".{call}(ti.{axis}, {n})"));
    nodes.collect()
}

fn list(level: &Level, open: char, close: char) -> String {
    let sizes: Vec<String> = level.extents.iter().map(|e| e.1.to_string()).collect();
    match &sizes[..] {
        [one] => one.clone(),
        _ => format!("{open}{}{close}", sizes.join(", ")),
    }
}

/// A name as an identifier.
fn variable(name: &str) -> String {
    let clean = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' });
    clean.collect()
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}
