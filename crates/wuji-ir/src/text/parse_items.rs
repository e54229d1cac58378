//! Items of a module, except function bodies.

use super::lex::shortened;
use super::literal;
use super::parse::{Parser, type_from};
use crate::diag::Result;
use crate::entities::*;
use crate::layout::*;
use crate::module::*;
use crate::ops::AtomicOp;
use crate::types::StructType;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::num::NonZeroU32;

/// A parsed node, with the numbers of the text.
struct ReadNode {
    number: u32,
    at: usize,
    data: NodeData,
}

impl Parser<'_> {
    /// `[-1, 5]`
    pub(super) fn range(&mut self) -> Result<(i64, i64)> {
        self.c.expect("[")?;
        let lo = self.c.signed("the start of a range")?;
        self.c.expect(",")?;
        let hi = self.c.signed("the end of a range")?;
        self.c.expect("]")?;
        Ok((lo, hi))
    }

    /// `of 64`, or nothing
    pub(super) fn count(&mut self) -> Result<Option<u64>> {
        let counted = self.c.eat_word("of");
        let count = counted.then(|| self.c.number("a count", u64::MAX));
        count.transpose()
    }

    pub(super) fn item(&mut self) -> Result<()> {
        let at = self.c.here();
        let word = self.c.word("a definition")?;
        match word {
            "module" => {
                if !self.m.name.is_empty() {
                    return Err(self.c.error("W0004", at, "the module has a name already"));
                }
                self.m.name = self.c.string("the name of the module")?;
            }
            "file" => {
                let id: File = self.next_id("F", self.m.files.len())?;
                let path = self.c.string("the path of the file")?;
                debug_assert_eq!(self.m.files.next_key(), id);
                self.m.files.push(path);
            }
            "struct" => self.struct_type()?,
            "tree" => self.tree()?,
            "field" => self.field_item()?,
            "array" => self.array_item()?,
            "temp" => {
                let _: Temp = self.next_id("t", self.m.temps.len())?;
                self.c.expect(":")?;
                let ty = self.ty()?;
                self.m.temps.push(TempData { ty });
            }
            "message" => {
                let _: Message = self.next_id("m", self.m.messages.len())?;
                let at = self.c.here();
                let text = self.c.string("a format string")?;
                let structs = &self.m.structs;
                let message = literal::message(&text, |word| type_from(word, structs))
                    .map_err(|why| self.c.error("W0007", at, why))?;
                self.m.messages.push(message);
            }
            "param" => self.param()?,
            "site" => self.site()?,
            "fn" => self.function()?,
            "kernel" => {
                let id = Func::from_u32(self.m.funcs.len() as u32);
                if self.m.kernel.is_some() {
                    return Err(self.c.error("W0004", at, "the module has a kernel already"));
                }
                self.function()?;
                self.m.kernel = Some(id);
            }
            "task" => self.task()?,
            "result" => {
                if self.m.result.is_some() {
                    return Err(self.c.error("W0004", at, "the module has a result already"));
                }
                let temps = self.m.temps.len();
                self.m.result = Some(self.known("t", "a temp like `t0`", temps)?);
            }
            other => {
                return Err(self
                    .c
                    .error(
                        "W0002",
                        at,
                        format!("`{}` starts no definition", shortened(other)),
                    )
                    .help(
                        "a module has: module, file, struct, tree, field, array, temp, message, \
                         param, site, fn, kernel, task, result",
                    ));
            }
        }
        Ok(())
    }

    fn struct_type(&mut self) -> Result<()> {
        let _: StructId = self.next_id("s", self.m.structs.0.len())?;
        let name = self.name()?;
        self.c.expect("{")?;
        let fields = self.list("}", |p| {
            let name = if p.c.peeks("\"") {
                p.c.string("a name")?
            } else {
                p.c.word("the name of a struct field")?.to_owned()
            };
            p.c.expect(":")?;
            Ok((name, p.ty()?))
        })?;
        self.m.structs.0.push(StructType { name, fields });
        Ok(())
    }

    fn tree(&mut self) -> Result<()> {
        let _: Tree = self.next_id("T", self.m.trees.len())?;
        let mut nodes = Vec::new();
        let mut numbers = FxHashSet::default();
        let mut tree = TreeData::default();
        let root = tree.root();
        tree.nodes[root].children = self.children(root, 0, &mut nodes, &mut numbers)?;
        nodes.sort_by_key(|n: &ReadNode| n.number);
        for node in nodes {
            let expected = tree.nodes.next_key();
            if node.data.parent >= Some(expected) || node.number != expected.as_u32() {
                return Err(self.c.error(
                    "W0004",
                    node.at,
                    format!("the nodes of a tree are numbered from S1 without gaps, parents first: S{} does not fit", node.number),
                ));
            }
            tree.nodes.push(node.data);
        }
        self.m.trees.push(tree);
        Ok(())
    }

    /// `{ dense S1 [i: 4] { ... }  place f0, f1 }`
    fn children(
        &mut self,
        parent: Node,
        depth: usize,
        nodes: &mut Vec<ReadNode>,
        numbers: &mut FxHashSet<u32>,
    ) -> Result<Vec<Child>> {
        let at = self.c.here();
        self.c.expect("{")?;
        if depth > MAX_NESTING {
            return Err(too_deep(self, at, "nodes"));
        }
        let mut children = Vec::new();
        while !self.c.eat("}") {
            if self.c.eat_word("place") {
                loop {
                    let (field, at) = self.c.id("f", "a field like `f0`")?;
                    self.placed.push((field, at));
                    children.push(Child::Place(field));
                    if !self.c.eat(",") {
                        break;
                    }
                }
            } else if let Some(kind) = self.c.peek_word().and_then(NodeKind::from_name) {
                self.c.word("a node")?;
                let (node, at) = self.c.id::<Node>("S", "a node like `S1`")?;
                if node.as_u32() == 0 || !numbers.insert(node.as_u32()) {
                    let why = format!("{node} is defined twice");
                    return Err(self.c.error("W0004", at, why));
                }
                self.c.expect("[")?;
                let extents = self.list("]", |p| {
                    let axis = p.axis()?;
                    p.c.expect(":")?;
                    Ok((axis, p.c.number("an extent", u64::MAX)?))
                })?;
                let order = if self.c.eat_word("morton") {
                    CellOrder::Morton
                } else {
                    CellOrder::RowMajor
                };
                let mut values: SmallVec<[u32; 1]> = SmallVec::new();
                for parameter in kind.format().parameters() {
                    self.c.expect_word(parameter.keyword)?;
                    let value = self.c.number(parameter.meaning, u64::from(u32::MAX))?;
                    values.push(value as u32);
                }
                let kind = kind.format().with_parameters(&values);
                let children_of = self.children(node, depth + 1, nodes, numbers)?;
                children.push(Child::Node(node));
                nodes.push(ReadNode {
                    number: node.as_u32(),
                    at,
                    data: NodeData {
                        kind,
                        order,
                        parent: Some(parent),
                        extents: SmallVec::from_vec(extents),
                        children: children_of,
                    },
                });
            } else {
                return Err(self.c.expected("a node like `dense`, `place` or `}`"));
            }
        }
        Ok(children)
    }

    fn axis(&mut self) -> Result<Axis> {
        match self.c.peek_word().and_then(Axis::from_name) {
            Some(axis) => {
                self.c.word("an axis")?;
                Ok(axis)
            }
            None => Err(self.c.expected("an axis, `i` to `p`")),
        }
    }

    fn field_item(&mut self) -> Result<()> {
        let _: Field = self.next_id("f", self.m.fields.len())?;
        let name = self.name()?;
        self.c.expect(":")?;
        let elem = self.ty()?;
        self.c.expect_word("in")?;
        let trees = self.m.trees.len();
        let tree: Tree = self.known("T", "a tree like `T0`", trees)?;
        self.c.expect(".")?;
        let nodes = self.m.trees[tree].nodes.len();
        let node = self.known("S", "a node like `S1`", nodes)?;
        self.c.expect("(")?;
        let axes = self.list(")", |p| {
            let axis = p.axis()?;
            let from = if p.c.eat_word("from") {
                p.c.signed("a coordinate")?
            } else {
                0
            };
            Ok((axis, from))
        })?;
        let packing = self.packing()?;
        let components = self.components()?;
        self.m.fields.push(FieldData {
            name,
            elem,
            tree,
            node,
            axes: SmallVec::from_vec(axes),
            packing,
            components,
        });
        Ok(())
    }

    /// `split (f0, f1)`. The verifier looks for the fields.
    fn components(&mut self) -> Result<Vec<Field>> {
        if !self.c.eat_word("split") {
            return Ok(Vec::new());
        }
        self.c.expect("(")?;
        self.list(")", |p| Ok(p.c.id::<Field>("f", "a field like `f0`")?.0))
    }

    fn array_item(&mut self) -> Result<()> {
        let _: Array = self.next_id("a", self.m.arrays.len())?;
        let name = self.name()?;
        self.c.expect(":")?;
        let elem = self.ty()?;
        self.c.expect_word("rank")?;
        let rank = self.c.number("a rank", Axis::COUNT as u64)? as u8;
        let data = ArrayData {
            name,
            elem,
            rank,
            writable: self.c.eat_word("writable"),
            contiguous: self.c.eat_word("contiguous"),
            unaliased: self.c.eat_word("unaliased"),
            shape: self.shape(rank)?,
        };
        self.m.arrays.push(data);
        Ok(())
    }

    /// `shape [64, 64] align 16`, or nothing
    fn shape(&mut self, rank: u8) -> Result<Option<ArrayShape>> {
        if !self.c.eat_word("shape") {
            return Ok(None);
        }
        let at = self.c.here();
        self.c.expect("[")?;
        let extents = self.list("]", |p| {
            let extent = p.c.number("an extent", i64::MAX as u64)?;
            Ok(extent as i64)
        })?;
        if extents.len() != usize::from(rank) {
            let why = format!("an array of rank {rank} has {rank} extents");
            return Err(self.c.error("W0002", at, why));
        }
        self.c.expect_word("align")?;
        let at = self.c.here();
        let align = self.c.number("an alignment", 1 << 16)? as u32;
        if !align.is_power_of_two() {
            let why = "an alignment is a power of two".to_owned();
            return Err(self.c.error("W0002", at, why));
        }
        Ok(Some(ArrayShape {
            extents: SmallVec::from_vec(extents),
            align,
        }))
    }

    fn param(&mut self) -> Result<()> {
        let at = self.c.here();
        let count = self.m.params.len();
        if self.c.peek_id("p") != Some(count as u32) {
            let mut error = self.c.expected(&format!("`p{count}`"));
            if self.c.peek_id("p").is_some() {
                error = self.c.error(
                    "W0004",
                    at,
                    format!("definitions are numbered in order: expected p{count}"),
                );
            }
            return Err(error);
        }
        self.c.word("a parameter")?;
        let name = self.name()?;
        self.c.expect(":")?;
        let ty = self.ty()?;
        self.m.params.push(Param { name, ty });
        Ok(())
    }

    fn site(&mut self) -> Result<()> {
        let start = self.c.here();
        let _: Site = self.next_id("w", self.m.sites.len())?;
        let at = self.c.here();
        let kind = match self.c.word("what a site reports")? {
            "out_of_range" => SiteKind::OutOfRange(self.place(None)?),
            "read_out_of_range" => SiteKind::ReadOutOfRange(self.place(None)?),
            "bad_index" => SiteKind::BadIndex {
                len: self.c.number("a length", u64::from(u32::MAX))? as u32,
            },
            "assert" => SiteKind::Assert(self.message()?),
            "print" => SiteKind::Print(self.message()?),
            "too_deep" => SiteKind::TooDeep(self.func()?),
            "out_of_memory" => {
                let (tree, node) = self.node_of_tree()?;
                SiteKind::OutOfMemory(tree, node)
            }
            "list_full" => SiteKind::ListFull(self.field()?),
            other => {
                let why = format!("`{}` is not a kind of report", shortened(other));
                return Err(self.c.error("W0002", at, why).help(
                    "there are: out_of_range, read_out_of_range, bad_index, assert, print, too_deep, \
                         out_of_memory, list_full",
                ));
            }
        };
        let span = self.position(start)?;
        self.m.sites.push(SiteData { kind, span });
        Ok(())
    }

    fn task(&mut self) -> Result<()> {
        let start = self.c.here();
        let name = self.name()?;
        let at = self.c.here();
        let mut kind = match self.c.word("a kind of task")? {
            "serial" => TaskKind::Serial,
            "range" => TaskKind::Range {
                dims: self.dims()?,
                hints: Default::default(),
            },
            "cells" => TaskKind::Cells {
                field: self.field()?,
                hints: Default::default(),
            },
            "chunks" => {
                let dims = self.dims()?;
                self.c.expect_word("unit")?;
                TaskKind::Chunks {
                    dims,
                    unit: self.c.number("a unit", u64::MAX)?,
                    hints: Default::default(),
                }
            }
            other => {
                let why = format!("`{}` is not a kind of task", shortened(other));
                return Err(self
                    .c
                    .error("W0002", at, why)
                    .help("there are: serial, range, cells, chunks"));
            }
        };
        let func = self.func()?;
        self.c.expect_word("ordinal")?;
        let ordinal = self.c.number("an ordinal", u64::from(u32::MAX))? as u32;
        match &mut kind {
            TaskKind::Serial => {}
            TaskKind::Range { hints, .. }
            | TaskKind::Cells { hints, .. }
            | TaskKind::Chunks { hints, .. } => *hints = self.hints()?,
        }
        let lists = if self.c.eat_word("lists") {
            Some(self.node_of_tree()?)
        } else {
            None
        };
        let slices = self.slices()?;
        let copies = self.copies()?;
        let flow = self.flow()?;
        let span = self.position(start)?;
        self.m.tasks.push(Task {
            flow,
            lists,
            slices,
            copies,
            name,
            kind,
            func,
            ordinal,
            span,
        });
        Ok(())
    }

    /// `step 4 repeat t0 from 1`
    fn flow(&mut self) -> Result<TaskFlow> {
        let mut flow = TaskFlow::default();
        if self.c.eat_word("step") {
            flow.step = self.c.number("a step", u64::from(u32::MAX))? as u32;
        }
        if self.c.eat_word("repeat") {
            let temps = self.m.temps.len();
            let temp = self.known("t", "a temp like `t0`", temps)?;
            self.c.expect_word("from")?;
            let from = self.c.number("a step", u64::from(u32::MAX))? as u32;
            flow.repeat = Some(Repeat { temp, from });
        }
        Ok(flow)
    }

    /// `slices (f0 at p0 plus -1, f1 at 3)`
    fn slices(&mut self) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        if !self.c.eat_word("slices") {
            return Ok(slices);
        }
        self.c.expect("(")?;
        self.list(")", |p| {
            let field = p.field()?;
            p.c.expect_word("at")?;
            let at = p.c.here();
            let (param, offset) = match p.bound()? {
                Bound::Const(index) => (None, index),
                Bound::Param(param) if p.c.eat_word("plus") => {
                    (Some(param), p.c.signed("a distance")?)
                }
                Bound::Param(param) => (Some(param), 0),
                Bound::Sum { .. } | Bound::Temp(_) | Bound::List(..) => {
                    let why = "a slice is at a number or a parameter".to_owned();
                    return Err(p.c.error("W0002", at, why));
                }
            };
            slices.push(Slice {
                field,
                param,
                offset,
            });
            Ok(())
        })?;
        Ok(slices)
    }

    /// `private (add f0, max a1) updates 3`, `fills T0`, `merges T0`
    fn copies(&mut self) -> Result<Copies> {
        if self.c.eat_word("private") {
            self.c.expect("(")?;
            let (mut fields, mut arrays, mut temps) = (Vec::new(), Vec::new(), Vec::new());
            self.list(")", |p| {
                let at = p.c.here();
                let word = p.c.word("an operation")?;
                let op = AtomicOp::from_name(word).ok_or_else(|| {
                    let why = format!("`{}` is not an atomic operation", shortened(word));
                    p.c.error("W0002", at, why)
                })?;
                if p.c.peek_id("t").is_some() {
                    let known = p.m.temps.len();
                    temps.push((p.known("t", "a temp like `t0`", known)?, op));
                } else if p.c.peek_id("a").is_some() {
                    arrays.push((p.array()?, op));
                } else {
                    fields.push((p.field()?, op));
                }
                Ok(())
            })?;
            self.c.expect_word("updates")?;
            let updates = self.c.number("a number of updates", u64::MAX)?;
            return Ok(Copies::Uses {
                fields,
                arrays,
                temps,
                updates,
            });
        }
        let fills = self.c.eat_word("fills");
        if !fills && !self.c.eat_word("merges") {
            return Ok(Copies::None);
        }
        let trees = self.m.trees.len();
        let tree: Tree = self.known("T", "a tree like `T0`", trees)?;
        Ok(if fills {
            Copies::Fills(tree)
        } else {
            Copies::Merges(tree)
        })
    }

    /// `T0.S1`
    pub(super) fn node_of_tree(&mut self) -> Result<(Tree, Node)> {
        let trees = self.m.trees.len();
        let tree: Tree = self.known("T", "a tree like `T0`", trees)?;
        self.c.expect(".")?;
        let nodes = self.m.trees[tree].nodes.len();
        Ok((tree, self.known("S", "a node like `S1`", nodes)?))
    }

    fn dims(&mut self) -> Result<Vec<RangeDim>> {
        self.c.expect("(")?;
        self.list(")", |p| {
            let lo = p.bound_of_range()?;
            p.c.expect("..")?;
            let hi = p.bound_of_range()?;
            let mut dim = RangeDim::new(lo, hi);
            if p.c.eat_word("by") {
                let at = p.c.here();
                let step = p.c.number("a step", u32::MAX.into())? as u32;
                dim.step = NonZeroU32::new(step)
                    .ok_or_else(|| p.c.error("W0002", at, "a step is at least 1".to_owned()))?;
            }
            Ok(dim)
        })
    }

    /// `p0 plus -1 as i32`, `extent a1.0 plus 0 as i64`, or another bound.
    fn bound_of_range(&mut self) -> Result<Bound> {
        let base = if self.c.eat_word("extent") {
            let array = self.array()?;
            self.c.expect(".")?;
            BoundBase::Extent(array, self.c.number("an axis", 255)? as u8)
        } else {
            match self.bound()? {
                Bound::Param(p) if self.c.peek_word() == Some("plus") => BoundBase::Param(p),
                other => return Ok(other),
            }
        };
        self.c.expect_word("plus")?;
        let plus = self.c.signed("a number")?;
        self.c.expect_word("as")?;
        let at = self.c.here();
        let scalar = self.ty()?.as_scalar().ok_or_else(|| {
            let why = "a bound has a scalar type".to_owned();
            self.c.error("W0002", at, why)
        })?;
        Ok(Bound::Sum { base, plus, scalar })
    }

    fn bound(&mut self) -> Result<Bound> {
        let at = self.c.here();
        if let Some(p) = self.c.peek_id("p") {
            self.c.word("a parameter")?;
            if p as usize >= self.m.params.len() {
                return Err(self.undefined(at, &format!("p{p}")));
            }
            Ok(Bound::Param(p))
        } else if self.c.peek_id("t").is_some() {
            let temps = self.m.temps.len();
            self.known("t", "a temp", temps).map(Bound::Temp)
        } else if self.c.eat_word("list") {
            let (tree, node) = self.node_of_tree()?;
            Ok(Bound::List(tree, node))
        } else {
            self.c.signed("a bound").map(Bound::Const)
        }
    }
}

pub(super) fn too_deep(p: &Parser<'_>, at: usize, what: &str) -> crate::Error {
    p.c.error(
        "W0006",
        at,
        format!("{what} nest at most {MAX_NESTING} deep"),
    )
}
