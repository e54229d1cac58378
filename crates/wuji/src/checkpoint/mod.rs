//! Checkpoints: all fields of a world in one file.
//!
//! The file has a description of the trees, the state of the random numbers, and then the values: of dense trees all elements row by
//! row, whatever their layout; of sparse trees the active cells of each sparse node, and then the values of the active elements. Active
//! cells are in [parts](CellPart) that fit into memory, and the elements of a part are sorted by their coordinates.

mod blocks;
mod random;
#[cfg(test)]
mod tests;

use crate::autodiff::{NodeCells, active, active_part, import};
use crate::files::at_caller;
use crate::host::{ActiveCells, CellPart, ElementBox, FieldHandle, Window};
use crate::layout::TreeInner;
use crate::world::World;
use blocks::{Reader, Writer};
use random::RandomState;
use std::fmt::Write;
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use wuji_ir::entities::{Field, Node};
use wuji_ir::module::Module;
use wuji_ir::types::{Structs, Type};
use wuji_ir::{Error, Result};

/// About as many bytes of a field are in memory at a time.
const SLAB: u64 = 1 << 24;

impl World {
    /// Writes all fields and arrays of this world to a file, with the active cells of sparse trees and the state of the random numbers.
    /// [`World::load`] reads it.
    ///
    /// The old file is replaced at once when the new one is complete: a process that is killed leaves the old one. Fields are written
    /// piece by piece, so that the host needs little memory.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// struct Simulation {
    ///     world: World,
    ///     x: Field<f32, 1>,
    /// }
    ///
    /// fn new_simulation() -> wuji::Result<Simulation> {
    ///     let world = World::cpu()?;
    ///     let x = world.layout(|root| root.pointer(I, 100).dense(I, 8).place("x"))?;
    ///     Ok(Simulation { world, x })
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wuji-checkpoint-{}", std::process::id()));
    /// let first = new_simulation()?;
    /// first.x.set(300, 1.5)?;
    /// first.world.save(&path)?;
    ///
    /// let second = new_simulation()?; // perhaps in another process
    /// second.world.load(&path)?;
    /// assert_eq!(second.x.get(300)?, 1.5);
    /// assert_eq!(second.x.count_active()?, 8);
    /// # std::fs::remove_file(&path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(save(self, path.as_ref()), Location::caller())
    }

    /// Gives all fields and arrays of this world the values and active cells that [`World::save`] wrote to a file. The random numbers of
    /// later launches are those that the saved world would have drawn, whatever the [seed](crate::WorldBuilder::seed) of this one.
    ///
    /// The world has the same fields as the one that was saved, made in the same order. Dense trees may have another layout, sparse
    /// ones not. The whole file is checked first: if it is damaged, or of other fields, nothing changes.
    #[track_caller]
    pub fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(load(self, path.as_ref()), Location::caller())
    }
}

fn save(world: &World, path: &Path) -> Result<()> {
    world.ensure_open()?;
    world.synchronize()?;
    let launches = world.device().launches();
    let written = write_world(world, path, launches);
    // Reading the fields does not change the random numbers of later launches.
    world.device().set_launches(launches);
    written
}

fn write_world(world: &World, path: &Path, launches: u64) -> Result<()> {
    let trees = saved_trees(world)?;
    let mut writer = Writer::create(path)?;
    let descriptions: Vec<&str> = trees.iter().map(|t| t.description.as_str()).collect();
    let header = descriptions.join("\n");
    writer.put_number(header.len() as u64)?;
    writer.put(header.as_bytes())?;
    writer.put_number(world.seed())?;
    writer.put_number(launches)?;
    for tree in &trees {
        tree.write(&mut writer)?;
    }
    writer.finish()
}

fn load(world: &World, path: &Path) -> Result<()> {
    world.ensure_open()?;
    world.synchronize()?;
    Reader::open(path)?.verify()?;
    let trees = saved_trees(world)?;
    let mut reader = Reader::open(path)?;
    let length = reader.take_number()?;
    if length > blocks::BLOCK as u64 * 64 {
        return Err(reader.damaged(format!("it claims to have a header of {length} bytes")));
    }
    let mut header = vec![0; length as usize];
    reader.take(&mut header)?;
    let header = String::from_utf8_lossy(&header).into_owned();
    check_trees(path, &header, &trees)?;
    let random = RandomState::read(&mut reader, world.seed())?;
    for tree in &trees {
        tree.read(&mut reader)?;
    }
    world
        .device()
        .set_launches(random.launches_with(world.seed()));
    reader.finish()
}

/// A tree, and what a checkpoint has of it.
struct SavedTree {
    tree: Arc<TreeInner>,
    sparse: bool,
    /// A line for the tree, and further ones with an indent.
    description: String,
    /// Those with memory of their own: no views, and words instead of what is packed in them.
    fields: Vec<FieldHandle>,
    /// The sparse nodes and their ranks, outer ones first.
    nodes: Vec<(Node, usize)>,
}

fn saved_trees(world: &World) -> Result<Vec<SavedTree>> {
    let alive = world.trees().into_iter();
    // Of a destroyed tree there is nothing to save.
    let alive = alive.filter(|tree| tree.body().is_ok());
    alive.map(SavedTree::new).collect()
}

impl SavedTree {
    fn new(tree: Arc<TreeInner>) -> Result<SavedTree> {
        let body = tree.body()?;
        let sparse = body.shape.data.is_sparse();
        let own = body.shape.fields.iter().enumerate();
        let own = own.filter(|(_, f)| !f.view && f.packing.is_none());
        let fields = own.map(|(n, _)| FieldHandle {
            tree: tree.clone(),
            field: Field::from_u32(n as u32),
        });
        let fields: Vec<FieldHandle> = fields.collect();
        let shape = &body.shape.data;
        let nodes = shape.nodes.iter().filter(|(_, n)| n.kind.is_sparse());
        let nodes = nodes.map(|(node, _)| (node, shape.axes(node).len()));
        let nodes = nodes.collect();
        let description = if sparse {
            describe_sparse(&tree)?
        } else {
            describe_dense(&fields)?
        };
        Ok(SavedTree {
            sparse,
            description,
            fields,
            nodes,
            tree,
        })
    }

    fn write(&self, writer: &mut Writer) -> Result<()> {
        for (node, rank) in &self.nodes {
            let count = NodeCells::count(&self.tree, *node)?;
            let parts = Parts::of(count, 8 * *rank as u64);
            writer.put_number(parts.count)?;
            for part in parts.each() {
                let cells = NodeCells::list(&self.tree, (*node, *rank), part, parts.room)?;
                writer.put_number(cells.rows as u64)?;
                for word in &cells.coordinates {
                    writer.put_number(*word)?;
                }
            }
        }
        for field in &self.fields {
            if self.sparse {
                write_sparse(field, writer)?;
            } else {
                write_dense(field, writer)?;
            }
        }
        Ok(())
    }

    fn read(&self, reader: &mut Reader) -> Result<()> {
        if self.sparse {
            self.tree.clear()?;
        }
        for (node, rank) in &self.nodes {
            for _ in 0..reader.take_parts()? {
                let rows = reader.take_number()?;
                let words = rows.saturating_mul(*rank as u64);
                let cells = NodeCells {
                    node: *node,
                    rank: *rank,
                    rows: rows as usize,
                    coordinates: reader.take_words(words)?,
                };
                cells.activate(&self.tree)?;
            }
        }
        for field in &self.fields {
            if self.sparse {
                read_sparse(field, reader)?;
            } else {
                read_dense(field, reader)?;
            }
        }
        Ok(())
    }
}

/// The parts that the active cells of a node are written in.
struct Parts {
    count: u64,
    /// About as many cells are in each.
    room: u64,
}

impl Parts {
    /// For so many cells, and bytes of each.
    fn of(cells: u64, bytes: u64) -> Parts {
        let count = cells.saturating_mul(bytes).div_ceil(SLAB).max(1);
        Parts::new(cells, count)
    }

    fn new(cells: u64, count: u64) -> Parts {
        let even = cells.div_ceil(count.max(1));
        let room = if count == 1 {
            even
        } else {
            even + even / 16 + 64
        };
        Parts { count, room }
    }

    fn each(&self) -> impl Iterator<Item = Option<CellPart>> {
        let of = self.count;
        (0..of).map(move |number| (of > 1).then_some(CellPart { number, of }))
    }

    /// The active elements of a field in one of them.
    fn active(
        &self,
        field: &FieldHandle,
        values: bool,
        part: Option<CellPart>,
    ) -> Result<ActiveCells> {
        match part {
            Some(part) => active_part(field, values, part, self.room),
            None => active(field, values),
        }
    }
}

fn write_sparse(field: &FieldHandle, writer: &mut Writer) -> Result<()> {
    let access = field.access()?;
    let bytes = field.size()? as u64 + 4 * access.domain().len() as u64;
    let parts = Parts::of(access.count()?, bytes);
    writer.put_number(parts.count)?;
    for part in parts.each() {
        let cells = parts.active(field, true, part)?;
        writer.put_number(cells.rows as u64)?;
        for word in &cells.values {
            writer.put_number(*word)?;
        }
    }
    Ok(())
}

/// The values of the elements that are active, now that all cells are.
fn read_sparse(field: &FieldHandle, reader: &mut Reader) -> Result<()> {
    let parts = Parts::new(field.access()?.count()?, reader.take_parts()?);
    for part in parts.each() {
        let now = parts.active(field, false, part)?;
        let rows = reader.take_number()?;
        if rows != now.rows as u64 {
            let why = format!(
                "it has {rows} elements of `{}`, and its cells have {}",
                field.name(),
                now.rows
            );
            return Err(reader.damaged(why));
        }
        let bytes = rows.saturating_mul(field.size()? as u64);
        let cells = ActiveCells {
            rows: now.rows,
            coordinates: now.coordinates,
            values: reader.take_words(bytes.div_ceil(8))?,
        };
        import(field, &cells)?;
    }
    Ok(())
}

/// Windows of a field along its first index, which fit into memory.
fn slabs(field: &FieldHandle, size: usize) -> Result<Vec<Window>> {
    let extents: Vec<u64> = field.domain()?.iter().map(|d| d.1).collect();
    let whole: Window = extents.iter().map(|e| (0, *e)).collect();
    let Some((first, others)) = extents.split_first() else {
        return Ok(vec![whole]);
    };
    let row = others.iter().fold(size as u64, |n, e| n.saturating_mul(*e));
    let rows = (SLAB / row.max(1)).max(1);
    let starts = (0..*first).step_by(rows as usize);
    let slab = |start: u64| {
        let mut slab = whole.clone();
        slab[0] = (start, (start + rows).min(*first));
        slab
    };
    Ok(starts.map(slab).collect())
}

fn write_dense(field: &FieldHandle, writer: &mut Writer) -> Result<()> {
    let size = field.size()?;
    for slab in slabs(field, size)? {
        let access = field.access()?;
        let mut bytes = Vec::new();
        ElementBox::new(&access, slab, size).read(|run, stride| {
            run.chunks(stride)
                .for_each(|element| bytes.extend(&element[..size]));
        })?;
        writer.put(&bytes)?;
    }
    Ok(())
}

fn read_dense(field: &FieldHandle, reader: &mut Reader) -> Result<()> {
    let size = field.size()?;
    for slab in slabs(field, size)? {
        let access = field.access()?;
        let elements = ElementBox::new(&access, slab, size);
        let mut bytes = vec![0; elements.bytes() as usize];
        reader.take(&mut bytes)?;
        let mut values = bytes.chunks_exact(size.max(1));
        elements.write(|run, stride| {
            for (element, value) in run.chunks_mut(stride).zip(&mut values) {
                element[..size].copy_from_slice(value);
            }
        })?;
    }
    Ok(())
}

/// The nodes and fields of a tree as textual IR.
fn describe_sparse(tree: &TreeInner) -> Result<String> {
    let body = tree.body()?;
    let mut module = Module::default();
    body.shape.enter(&mut module, &body.names);
    let text = module.to_string();
    let lines = text.lines().filter(|line| !line.starts_with("module"));
    let lines = lines.filter(|line| !line.trim().is_empty());
    Ok(lines.fold("sparse tree".to_owned(), |all, line| all + "\n  " + line))
}

/// The fields of a tree, without its nodes.
fn describe_dense(fields: &[FieldHandle]) -> Result<String> {
    let mut text = "dense tree".to_owned();
    for field in fields {
        let body = field.tree.body()?;
        let mut structs = Structs::default();
        let ty = body.shape.fields[field.index()].elem.enter(&mut structs);
        let domain = field.domain()?.iter();
        let domain: Vec<String> = domain
            .map(|(from, extent)| format!("{from}..{}", i128::from(*from) + i128::from(*extent)))
            .collect();
        let ty = type_text(&structs, ty);
        let _ = write!(
            text,
            "\n  field {:?}: {ty} [{}]",
            field.name(),
            domain.join(", ")
        );
    }
    Ok(text)
}

fn type_text(structs: &Structs, ty: Type) -> String {
    match ty {
        Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => ty.to_string(),
        Type::Struct(id) => {
            let fields = structs.0[id].fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, ty)| format!("{name}: {}", type_text(structs, *ty)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// An error unless the trees of a checkpoint are those of the world.
fn check_trees(path: &Path, header: &str, trees: &[SavedTree]) -> Result<()> {
    let mut saved: Vec<String> = Vec::new();
    for line in header.lines() {
        match saved.last_mut() {
            Some(tree) if line.starts_with(' ') => *tree += &format!("\n{line}"),
            _ => saved.push(line.to_owned()),
        }
    }
    let fail = |note: String| {
        let what = format!("the checkpoint {} is one of other fields", path.display());
        Err(Error::new("W0534", what)
            .note(note)
            .help("make the same fields, in the same order, and then load"))
    };
    for (saved, own) in saved.iter().zip(trees) {
        if let Some((saved, own)) = first_difference(saved, &own.description) {
            return fail(format!("it has `{saved}` where the world has `{own}`"));
        }
    }
    if saved.len() != trees.len() {
        let (n, m) = (saved.len(), trees.len());
        return fail(format!("it has {n} trees, and the world {m}"));
    }
    Ok(())
}

/// The first lines that differ.
fn first_difference<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let (mut a, mut b) = (a.lines(), b.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |line: Option<&'a str>| line.map_or("nothing", str::trim);
                return Some((shown(a), shown(b)));
            }
        }
    }
}
