//! Modules as text.

use super::lex::{is_plain_name, quote};
use super::print_body::BodyPrinter;
use crate::entities::*;
use crate::format::Format;
use crate::layout::{CellOrder, Child, FieldData, TreeData};
use crate::module::*;
use crate::ops::{LoopHints, Place};
use cranelift_entity::EntityRef;
use std::fmt::{self, Write};

/// The whole module; values, labels and instructions are numbered densely on the way.
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        print_module(self, &mut out)?;
        f.write_str(&out)
    }
}

/// The function as in a module, but without its id.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        print_function(self, "fn", None, usize::MAX, &mut out)?;
        f.write_str(&out)
    }
}

fn print_module(m: &Module, out: &mut String) -> fmt::Result {
    if !m.name.is_empty() {
        out.push_str("module");
        name(&m.name, out);
        out.push('\n');
    }
    for (id, path) in &m.files {
        write!(out, "file {id} ")?;
        quote(path, out);
        out.push('\n');
    }
    for (id, ty) in &m.structs.0 {
        write!(out, "struct {id}")?;
        name(&ty.name, out);
        out.push_str(" {");
        for (k, (field, ty)) in ty.fields.iter().enumerate() {
            out.push_str(if k == 0 { " " } else { ", " });
            if is_plain_name(field) {
                out.push_str(field);
            } else {
                quote(field, out);
            }
            write!(out, ": {ty}")?;
        }
        out.push_str(" }\n");
    }
    for (id, tree) in &m.trees {
        writeln!(out, "tree {id} {{")?;
        if !tree.nodes.is_empty() {
            print_children(tree, tree.root(), 1, out)?;
        }
        out.push_str("}\n");
    }
    for (id, field) in &m.fields {
        print_field(id, field, out)?;
    }
    for (id, a) in &m.arrays {
        write!(out, "array {id}")?;
        name(&a.name, out);
        write!(out, ": {} rank {}", a.elem, a.rank)?;
        for (flag, word) in [
            (a.writable, "writable"),
            (a.contiguous, "contiguous"),
            (a.unaliased, "unaliased"),
        ] {
            if flag {
                write!(out, " {word}")?;
            }
        }
        if let Some(shape) = &a.shape {
            let extents: Vec<String> = shape.extents.iter().map(i64::to_string).collect();
            write!(out, " shape [{}] align {}", extents.join(", "), shape.align)?;
        }
        out.push('\n');
    }
    for (id, t) in &m.temps {
        writeln!(out, "temp {id}: {}", t.ty)?;
    }
    for (id, message) in &m.messages {
        write!(out, "message {id} ")?;
        print_message(message, out)?;
        out.push('\n');
    }
    for (k, p) in m.params.iter().enumerate() {
        write!(out, "param p{k}")?;
        name(&p.name, out);
        writeln!(out, ": {}", p.ty)?;
    }
    for (id, site) in &m.sites {
        write!(out, "site {id} ")?;
        match &site.kind {
            SiteKind::OutOfRange(place) => write!(out, "out_of_range {}", PlaceName(*place))?,
            SiteKind::ReadOutOfRange(place) => {
                write!(out, "read_out_of_range {}", PlaceName(*place))?;
            }
            SiteKind::BadIndex { len } => write!(out, "bad_index {len}")?,
            SiteKind::Assert(message) => write!(out, "assert {message}")?,
            SiteKind::Print(message) => write!(out, "print {message}")?,
            SiteKind::TooDeep(func) => write!(out, "too_deep {func}")?,
            SiteKind::OutOfMemory(tree, node) => write!(out, "out_of_memory {tree}.{node}")?,
            SiteKind::ListFull(field) => write!(out, "list_full {field}")?,
        }
        position(site.span, m.files.len(), out)?;
        out.push('\n');
    }
    for (id, func) in &m.funcs {
        if !out.is_empty() {
            out.push('\n');
        }
        let keyword = if m.kernel == Some(id) { "kernel" } else { "fn" };
        print_function(func, keyword, Some(id), m.files.len(), out)?;
    }
    if !m.tasks.is_empty() || m.result.is_some() {
        out.push('\n');
    }
    for task in &m.tasks {
        print_task(m, task, out)?;
    }
    if let Some(temp) = m.result {
        writeln!(out, "result {temp}")?;
    }
    Ok(())
}

fn print_children(tree: &TreeData, node: Node, depth: usize, out: &mut String) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let mut places: Vec<Field> = Vec::new();
    let flush = |places: &mut Vec<Field>, out: &mut String| -> fmt::Result {
        for (k, f) in places.drain(..).enumerate() {
            if k == 0 {
                write!(out, "{indent}place {f}")?;
            } else {
                write!(out, ", {f}")?;
            }
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    };
    for child in &tree.nodes[node].children {
        match *child {
            Child::Place(f) => places.push(f),
            Child::Node(n) => {
                flush(&mut places, out)?;
                let Some(data) = tree.nodes.get(n) else {
                    continue;
                };
                write!(out, "{indent}{} {n} [", data.kind.name())?;
                for (k, (axis, extent)) in data.extents.iter().enumerate() {
                    let comma = if k == 0 { "" } else { ", " };
                    write!(out, "{comma}{axis}: {extent}")?;
                }
                out.push(']');
                if data.order == CellOrder::Morton {
                    out.push_str(" morton");
                }
                for parameter in data.kind.format().parameters() {
                    write!(out, " {} {}", parameter.keyword, parameter.value)?;
                }
                if depth > MAX_NESTING {
                    out.push_str(" { ... }\n");
                    continue;
                }
                out.push_str(" {\n");
                print_children(tree, n, depth + 1, out)?;
                writeln!(out, "{indent}}}")?;
            }
        }
    }
    flush(&mut places, out)
}

fn print_field(id: Field, field: &FieldData, out: &mut String) -> fmt::Result {
    write!(out, "field {id}")?;
    name(&field.name, out);
    write!(out, ": {} in {}.{} (", field.elem, field.tree, field.node)?;
    for (k, (axis, from)) in field.axes.iter().enumerate() {
        let comma = if k == 0 { "" } else { ", " };
        write!(out, "{comma}{axis}")?;
        if *from != 0 {
            write!(out, " from {from}")?;
        }
    }
    out.push(')');
    if let Some(packing) = &field.packing {
        super::packing::print(packing, out)?;
    }
    if field.is_split() {
        let components: Vec<String> = field.components.iter().map(Field::to_string).collect();
        write!(out, " split ({})", components.join(", "))?;
    }
    out.push('\n');
    Ok(())
}

fn print_message(message: &MessageData, out: &mut String) -> fmt::Result {
    let mut text = String::new();
    for piece in &message.pieces {
        match piece {
            Piece::Text(t) => text.push_str(&t.replace('{', "{{").replace('}', "}}")),
            Piece::Hole { ty, format } if *format == Format::default() => {
                write!(text, "{{{ty}}}")?;
            }
            Piece::Hole { ty, format } => write!(text, "{{{ty}:{format}}}")?,
        }
    }
    quote(&text, out);
    Ok(())
}

fn print_function(
    f: &Function,
    keyword: &str,
    id: Option<Func>,
    files: usize,
    out: &mut String,
) -> fmt::Result {
    out.push_str(keyword);
    if let Some(id) = id {
        write!(out, " {id}")?;
    }
    let Traits {
        inline,
        uninterrupted,
        precise,
        once,
        ordered,
        outlined,
        many_threads,
    } = f.traits;
    if inline {
        out.push_str(" inline");
    }
    if uninterrupted {
        out.push_str(" uninterrupted");
    }
    if precise {
        out.push_str(" precise");
    }
    if once {
        out.push_str(" once");
    }
    if ordered {
        out.push_str(" ordered");
    }
    if outlined {
        out.push_str(" outlined");
    }
    if many_threads {
        out.push_str(" many_threads");
    }
    name(&f.name, out);
    let mut body = BodyPrinter::new(f, files, out);
    body.signature()?;
    for (id, local) in &f.locals {
        let word = if local.shared { "shared" } else { "local" };
        write!(body.out, "  {word} {id}")?;
        name(&local.name, body.out);
        write!(body.out, ": {}", local.ty)?;
        if let Some(len) = local.len {
            write!(body.out, "[{len}]")?;
        }
        if let Some(role) = local.role.name() {
            write!(body.out, " {role}")?;
        }
        body.out.push('\n');
    }
    body.region(f.entry, 1)?;
    body.out.push_str("}\n");
    Ok(())
}

fn print_task(m: &Module, task: &Task, out: &mut String) -> fmt::Result {
    out.push_str("task");
    name(&task.name, out);
    let hints = match &task.kind {
        TaskKind::Serial => {
            out.push_str(" serial");
            LoopHints::default()
        }
        TaskKind::Range { dims, hints } => {
            out.push_str(" range ");
            print_dims(dims, out)?;
            *hints
        }
        TaskKind::Cells { field, hints } => {
            write!(out, " cells {field}")?;
            *hints
        }
        TaskKind::Chunks { dims, unit, hints } => {
            out.push_str(" chunks ");
            print_dims(dims, out)?;
            write!(out, " unit {unit}")?;
            *hints
        }
    };
    write!(out, " {} ordinal {}", task.func, task.ordinal)?;
    print_hints(hints, out)?;
    if let Some((tree, node)) = task.lists {
        write!(out, " lists {tree}.{node}")?;
    }
    print_slices(&task.slices, out)?;
    print_copies(&task.copies, out)?;
    print_flow(task.flow, out)?;
    position(task.span, m.files.len(), out)?;
    out.push('\n');
    Ok(())
}

fn print_flow(flow: TaskFlow, out: &mut String) -> fmt::Result {
    if flow.step != 0 {
        write!(out, " step {}", flow.step)?;
    }
    match flow.repeat {
        None => Ok(()),
        Some(Repeat { temp, from }) => write!(out, " repeat {temp} from {from}"),
    }
}

fn print_slices(slices: &[Slice], out: &mut String) -> fmt::Result {
    if slices.is_empty() {
        return Ok(());
    }
    let text = |s: &Slice| {
        let (field, offset) = (s.field, s.offset);
        match s.param {
            None => format!("{field} at {offset}"),
            Some(p) if offset == 0 => format!("{field} at p{p}"),
            Some(p) => format!("{field} at p{p} plus {offset}"),
        }
    };
    let all: Vec<String> = slices.iter().map(text).collect();
    write!(out, " slices ({})", all.join(", "))
}

fn print_copies(copies: &Copies, out: &mut String) -> fmt::Result {
    match copies {
        Copies::None => Ok(()),
        Copies::Uses {
            fields,
            arrays,
            temps,
            updates,
        } => {
            let fields = fields
                .iter()
                .map(|(field, op)| format!("{} {field}", op.name()));
            let arrays = arrays
                .iter()
                .map(|(array, op)| format!("{} {array}", op.name()));
            let temps = temps
                .iter()
                .map(|(temp, op)| format!("{} {temp}", op.name()));
            let all: Vec<String> = fields.chain(arrays).chain(temps).collect();
            write!(out, " private ({}) updates {updates}", all.join(", "))
        }
        Copies::Fills(tree) => write!(out, " fills {tree}"),
        Copies::Merges(tree) => write!(out, " merges {tree}"),
    }
}

fn print_dims(dims: &[RangeDim], out: &mut String) -> fmt::Result {
    out.push('(');
    for (k, dim) in dims.iter().enumerate() {
        let comma = if k == 0 { "" } else { ", " };
        write!(out, "{comma}{}..{}", BoundName(dim.lo), BoundName(dim.hi))?;
        if dim.step.get() > 1 {
            write!(out, " by {}", dim.step)?;
        }
    }
    out.push(')');
    Ok(())
}

/// A quoted name after a space; nothing when there is none.
fn name(text: &str, out: &mut String) {
    if !text.is_empty() {
        out.push(' ');
        quote(text, out);
    }
}

pub(super) fn print_hints(hints: LoopHints, out: &mut String) -> fmt::Result {
    if let Some(size) = hints.block_size {
        write!(out, " block_size {size}")?;
    }
    if let Some(least) = hints.grain_size {
        write!(out, " least {least}")?;
    }
    if hints.serial {
        out.push_str(" serial");
    }
    match hints.simd {
        Some(true) => out.push_str(" simd"),
        Some(false) => out.push_str(" scalar"),
        None => {}
    }
    if hints.blocks {
        out.push_str(" blocks");
    }
    if hints.cooperative {
        out.push_str(" cooperative");
    }
    if hints.uncounted {
        out.push_str(" uncounted");
    }
    Ok(())
}

/// ` @F0:12:9`; nothing when unknown or not among the first `files` files.
pub(super) fn position(span: Span, files: usize, out: &mut String) -> fmt::Result {
    if span.is_known() && span.file.index() < files {
        write!(out, " @{}:{}:{}", span.file, span.line, span.column)?;
    }
    Ok(())
}

struct BoundName(Bound);

impl fmt::Display for BoundName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bound::Const(n) => write!(f, "{n}"),
            Bound::Param(p) => write!(f, "p{p}"),
            Bound::Sum { base, plus, scalar } => {
                match base {
                    BoundBase::Param(p) => write!(f, "p{p}")?,
                    BoundBase::Extent(a, axis) => write!(f, "extent {a}.{axis}")?,
                }
                write!(f, " plus {plus} as {scalar}")
            }
            Bound::Temp(t) => write!(f, "{t}"),
            Bound::List(tree, node) => write!(f, "list {tree}.{node}"),
        }
    }
}

pub(super) struct PlaceName(pub(super) Place);

impl fmt::Display for PlaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Field(id) => write!(f, "{id}"),
            Place::Array(id) => write!(f, "{id}"),
            Place::Local(id) => write!(f, "{id}"),
            Place::Temp(id) => write!(f, "{id}"),
        }
    }
}
