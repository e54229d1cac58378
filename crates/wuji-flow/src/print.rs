//! Graphs as text, DOT and SVG, and the names in them.

use crate::graph::{EdgeKind, Graph, Node, State};
use crate::rules::fusion::Unfused;
use std::fmt::Write as _;

/// The names of the fields of each tree of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<Vec<String>>);

impl Names {
    /// A state in words.
    pub fn state(&self, state: &State) -> String {
        let of_tree = |tree: u32| {
            let fields = self.0.get(tree as usize);
            fields.map_or_else(|| format!("T{tree}"), |names| names.join(", "))
        };
        match *state {
            State::Value { tree, field } => {
                let fields = self.0.get(tree as usize);
                let name = fields.and_then(|names| names.get(field as usize));
                name.cloned().unwrap_or_else(|| state.to_string())
            }
            State::Mask(tree) => format!("mask of {}", of_tree(tree)),
            State::List(tree) => format!("list of {}", of_tree(tree)),
            State::Allocator(tree) => format!("allocator of {}", of_tree(tree)),
            State::Output => "output".to_owned(),
        }
    }
}

/// One line for each task, one for each edge into it, and one for each task before it that it was not fused with.
pub fn text(graph: &Graph, unfused: &[Unfused], names: &Names) -> String {
    let mut out = String::new();
    for (k, node) in graph.nodes.iter().enumerate() {
        let list = |states: &[State]| {
            let list: Vec<String> = states.iter().map(|s| names.state(s)).collect();
            list.join(", ")
        };
        let _ = writeln!(out, "{k}: {}", label(node));
        if !node.reads.is_empty() {
            let _ = writeln!(out, "    reads {}", list(&node.reads));
        }
        if !node.writes.is_empty() {
            let _ = writeln!(out, "    writes {}", list(&node.writes));
        }
        for edge in graph.edges.iter().filter(|e| e.to == k) {
            let what = match edge.kind {
                EdgeKind::ReadAfterWrite => "value",
                EdgeKind::WriteAfterWrite => "overwrites",
                EdgeKind::WriteAfterRead => "after read",
            };
            let _ = writeln!(
                out,
                "    <- {} ({what}: {})",
                edge.from,
                names.state(&edge.state)
            );
        }
        for pair in unfused.iter().filter(|pair| pair.second == k) {
            let why = pair.refusal.text(names);
            let _ = writeln!(out, "    not fused with {}: {why}", pair.first);
        }
    }
    out
}

/// For Graphviz: `dot -Tsvg`.
pub fn dot(graph: &Graph, names: &Names) -> String {
    let mut out = String::from("digraph flow {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (k, node) in graph.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{k} [label=\"{}\"];", escaped(&label(node)));
    }
    for edge in &graph.edges {
        let style = match edge.kind {
            EdgeKind::ReadAfterWrite => "solid",
            EdgeKind::WriteAfterWrite => "bold",
            EdgeKind::WriteAfterRead => "dashed",
        };
        let _ = writeln!(
            out,
            "  n{} -> n{} [style={style}, label=\"{}\"];",
            edge.from,
            edge.to,
            escaped(&names.state(&edge.state))
        );
    }
    out.push_str("}\n");
    out
}

const ROW: usize = 64;
const COLUMN: usize = 220;

/// A drawing: tasks in rows by the length of the longest path to them.
pub fn svg(graph: &Graph, names: &Names) -> String {
    let level = graph.levels();
    let mut filled: Vec<usize> = Vec::new();
    let mut places = Vec::new();
    for row in &level {
        filled.resize(filled.len().max(row + 1), 0);
        places.push((filled[*row] * COLUMN + 10, row * ROW + 10));
        filled[*row] += 1;
    }
    let width = filled.iter().max().copied().unwrap_or(1) * COLUMN + 20;
    let height = filled.len() * ROW + 20;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    for edge in &graph.edges {
        let ((x1, y1), (x2, y2)) = (places[edge.from], places[edge.to]);
        let dash = match edge.kind {
            EdgeKind::ReadAfterWrite | EdgeKind::WriteAfterWrite => "",
            EdgeKind::WriteAfterRead => " stroke-dasharray=\"4\"",
        };
        let _ = writeln!(
            out,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#888\"{dash}><title>{}</title></line>",
            x1 + 90,
            y1 + 30,
            x2 + 90,
            y2,
            escaped_xml(&names.state(&edge.state))
        );
    }
    for (node, (x, y)) in graph.nodes.iter().zip(&places) {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"180\" height=\"30\" rx=\"4\" fill=\"#eef\" stroke=\"#446\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 8,
            y + 20,
            escaped_xml(&label(node))
        );
    }
    out.push_str("</svg>\n");
    out
}

fn label(node: &Node) -> String {
    node.task.name().to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn escaped_xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
