//! OpenVDB files: sparse volumes for renderers and other programs.
//!
//! A volume is a tree of four levels: a table of nodes with 32^3 children, which have 16^3 children, which are leaves with 8^3 voxels.
//! The file has the masks and values of the nodes from the root to the leaves, and then the values of all leaves, without compression.

use super::stream::Output;
use super::{at_caller, scalars};
use crate::element::Element;
use crate::field::Field;
use crate::lang::Vec3;
use std::collections::BTreeMap;
use std::panic::Location;
use std::path::Path;
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};
use wuji_runtime::cache::checksum;

/// ` BDV`, in eight bytes.
const MAGIC: u64 = 0x5644_4220;
const FILE_VERSION: u32 = 224;
/// The version of the library whose files these are.
const LIBRARY_VERSION: [u32; 2] = [10, 0];
/// All values of a node follow, whatever its masks are.
const ALL_VALUES: u8 = 6;

/// Fields of three axes as an OpenVDB file (`.vdb`), which Blender, Houdini and most renderers open.
///
/// The active elements of a sparse field are the active voxels. Of a dense field, these are the elements that are not zero: the rest costs
/// no space. Elements are `f32`, `f64`, `i32`, `i64`, or vectors of three `f32`, `f64` or `i32`.
///
/// ```
/// use wuji::files::Vdb;
/// use wuji::prelude::*;
/// # fn main() -> wuji::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wuji-{}.vdb", std::process::id()));
/// let world = World::cpu()?;
/// let density = world.layout(|root| root.pointer(IJK, 64).dense(IJK, 8).place::<f32, 3>("density"))?;
/// density.set([100, 20, 30], 0.5)?;
/// Vdb::new().voxel_size(0.01).field(&density)?.save(&path)?;
/// # std::fs::remove_file(&path).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Vdb {
    voxel_size: f64,
    origin: Vec3,
    volumes: Vec<Volume>,
}

impl Default for Vdb {
    fn default() -> Vdb {
        Vdb::new()
    }
}

impl Vdb {
    /// A file without volumes. Neighbours have the distance 1.
    pub fn new() -> Vdb {
        Vdb {
            voxel_size: 1.0,
            origin: Vec3::ZERO,
            volumes: Vec::new(),
        }
    }

    /// The distance of neighbours.
    pub fn voxel_size(mut self, size: f64) -> Vdb {
        self.voxel_size = size;
        self
    }

    /// The position of the element with the indices 0.
    pub fn origin(mut self, origin: Vec3) -> Vdb {
        self.origin = origin;
        self
    }

    /// Adds the elements that a field has now, under its name.
    #[track_caller]
    pub fn field<T: Element, const D: usize>(self, field: &Field<T, D>) -> Result<Vdb> {
        at_caller(self.add(field), Location::caller())
    }

    fn add<T: Element, const D: usize>(mut self, field: &Field<T, D>) -> Result<Vdb> {
        let name = field.name().to_string();
        let fail = |what: String| Err(Error::new("W0533", what));
        if D != 3 {
            return fail(format!("field `{name}` has {D} axes, and a volume three"));
        }
        if self.volumes.iter().any(|v| v.name == name) {
            return fail(format!("a file has two volumes `{name}`"));
        }
        let (scalar, components) = scalars::<T>("an OpenVDB file")?;
        let Some(kind) = tree_kind(scalar, &components) else {
            let what = format!("OpenVDB has no volumes with elements like those of `{name}`");
            return Err(Error::new("W0533", what).help(
                "use `f32`, `f64`, `i32`, `i64`, or vectors of three `f32`, `f64` or `i32`",
            ));
        };
        let mut volume = Volume {
            name,
            kind,
            size: T::SIZE,
            leaves: BTreeMap::new(),
        };
        let (coordinates, values) = field.export()?;
        let sparse = field.tree_inner().body()?.shape.data.is_sparse();
        let mut bytes = vec![0; T::SIZE];
        for (at, value) in coordinates.iter().zip(values) {
            value.write(&mut bytes);
            if sparse || bytes.iter().any(|b| *b != 0) {
                volume.set([at[0], at[1], at[2]], &bytes);
            }
        }
        self.volumes.push(volume);
        Ok(self)
    }

    /// Writes the file.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(self.write(path.as_ref()), Location::caller())
    }

    fn write(&self, path: &Path) -> Result<()> {
        if self.volumes.is_empty() {
            let what = "an OpenVDB file without volumes cannot be written";
            return Err(Error::new("W0533", what).help("add one: `Vdb::new().field(&density)?`"));
        }
        if !(self.voxel_size > 0.0 && self.voxel_size.is_finite()) {
            let what = format!("voxels cannot have the size {}", self.voxel_size);
            return Err(Error::new("W0533", what).help("it is a positive number"));
        }
        let mut output = Output::create(path)?;
        let mut head = Bytes::default();
        head.put(MAGIC.to_le_bytes());
        head.number(FILE_VERSION);
        LIBRARY_VERSION.iter().for_each(|v| head.number(*v));
        // Positions of volumes follow their names.
        head.put([1]);
        head.put(self.identifier());
        head.metadata(&[("creator", "Wuji")]);
        head.number(self.volumes.len() as u32);
        output.put(&head.0)?;
        let mut position = head.0.len() as u64;
        for volume in &self.volumes {
            let topology = self.topology(volume);
            let descriptor = volume.descriptor();
            let start = position + descriptor.len() as u64 + 24;
            let values = start + topology.len() as u64;
            let end = values + volume.value_bytes();
            output.put(&descriptor)?;
            for place in [start, values, end] {
                output.put(place.to_le_bytes())?;
            }
            output.put(&topology)?;
            for leaf in volume.in_order() {
                output.put(leaf.mask_bytes())?;
                output.put([ALL_VALUES])?;
                output.put(&leaf.values)?;
            }
            position = end;
        }
        output.finish()
    }

    /// A UUID: files with the same names and values have the same one.
    fn identifier(&self) -> String {
        let sum = |salt: u8| {
            let parts = self.volumes.iter().flat_map(|v| {
                let sums = v.leaves.values().map(|l| checksum(&l.values).to_le_bytes());
                v.name.bytes().chain(sums.flatten()).collect::<Vec<u8>>()
            });
            let parts: Vec<u8> = parts.chain([salt]).collect();
            checksum(&parts)
        };
        let (a, b) = (sum(1), sum(2));
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            a >> 16 & 0xffff,
            a & 0xfff,
            b >> 48 & 0xfff,
            b & 0xffff_ffff_ffff
        )
    }

    /// Everything of a volume but the values of its leaves.
    fn topology(&self, volume: &Volume) -> Vec<u8> {
        let mut out = Bytes::default();
        // No compression.
        out.number(0);
        out.metadata(&[("class", "unknown"), ("name", &volume.name)]);
        out.text("UniformScaleTranslateMap");
        let size = self.voxel_size;
        let origin = self.origin.to_array().map(f64::from);
        let inverse = 1.0 / size;
        for vector in [
            origin,
            [size; 3],
            [size; 3],
            [inverse; 3],
            [inverse * inverse; 3],
            [0.5 * inverse; 3],
        ] {
            vector.iter().for_each(|x| out.put(x.to_le_bytes()));
        }
        // One buffer per leaf.
        out.number(1);
        out.put(vec![0; volume.size]);
        let tops = volume.tops();
        // No tiles in the table.
        out.number(0);
        out.number(tops.len() as u32);
        for (top, leaves) in tops {
            top.iter().for_each(|x| out.put(x.to_le_bytes()));
            out.node(TOP, &leaves, volume.size);
            for inner in nodes(leaves, MIDDLE).values() {
                out.node(MIDDLE, inner, volume.size);
                inner.iter().for_each(|l| out.put(l.1.mask_bytes()));
            }
        }
        out.0
    }
}

/// A level of inner nodes: the binary logarithms of their children along an axis, and of the voxels of a child.
#[derive(Copy, Clone)]
struct Level {
    children: u32,
    child: u32,
}

const TOP: Level = Level {
    children: 5,
    child: 7,
};
const MIDDLE: Level = Level {
    children: 4,
    child: 3,
};

impl Level {
    /// The first voxel of the node that a voxel is in.
    fn origin(self, at: [i32; 3]) -> [i32; 3] {
        let bits = self.children + self.child;
        at.map(|x| x >> bits << bits)
    }

    /// The number of the child that a voxel is in; z is fastest.
    fn number(self, at: [i32; 3]) -> usize {
        number(at.map(|x| x >> self.child), self.children)
    }
}

fn number(at: [i32; 3], bits: u32) -> usize {
    let low = at.map(|x| (x & ((1 << bits) - 1)) as usize);
    (low[0] << bits | low[1]) << bits | low[2]
}

type Leaves<'v> = Vec<([i32; 3], &'v Leaf)>;

/// Leaves by the nodes of a level that they are in. Coordinates in a node are ordered like the numbers of its children.
fn nodes<'v>(
    leaves: impl IntoIterator<Item = ([i32; 3], &'v Leaf)>,
    level: Level,
) -> BTreeMap<[i32; 3], Leaves<'v>> {
    let mut nodes: BTreeMap<[i32; 3], Leaves<'v>> = BTreeMap::new();
    for (at, leaf) in leaves {
        let node = nodes.entry(level.origin(at)).or_default();
        node.push((at, leaf));
    }
    nodes
}

#[derive(Debug)]
struct Volume {
    name: String,
    /// The name of the type of its tree.
    kind: &'static str,
    /// Bytes of a value.
    size: usize,
    /// By their first voxels.
    leaves: BTreeMap<[i32; 3], Leaf>,
}

/// 8^3 voxels, z fastest.
#[derive(Debug)]
struct Leaf {
    mask: [u64; 8],
    values: Vec<u8>,
}

impl Leaf {
    fn mask_bytes(&self) -> Vec<u8> {
        self.mask.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

impl Volume {
    fn set(&mut self, at: [i32; 3], value: &[u8]) {
        let leaf = self.leaves.entry(at.map(|x| x >> 3 << 3));
        let leaf = leaf.or_insert_with(|| Leaf {
            mask: [0; 8],
            values: vec![0; 512 * value.len()],
        });
        let k = number(at, 3);
        leaf.mask[k / 64] |= 1 << (k % 64);
        leaf.values[k * value.len()..][..value.len()].copy_from_slice(value);
    }

    /// The nodes below the root.
    fn tops(&self) -> BTreeMap<[i32; 3], Leaves<'_>> {
        nodes(self.leaves.iter().map(|(at, leaf)| (*at, leaf)), TOP)
    }

    /// The leaves in the order of the tree.
    fn in_order(&self) -> impl Iterator<Item = &Leaf> {
        let tops = self.tops().into_values();
        let middles = tops.flat_map(|leaves| nodes(leaves, MIDDLE).into_values());
        middles.flatten().map(|l| l.1)
    }

    fn value_bytes(&self) -> u64 {
        self.leaves.len() as u64 * (64 + 1 + 512 * self.size as u64)
    }

    /// Its names; positions follow.
    fn descriptor(&self) -> Vec<u8> {
        let mut out = Bytes::default();
        out.text(&self.name);
        out.text(self.kind);
        // It shares its tree with no other volume.
        out.text("");
        out.0
    }
}

fn tree_kind(scalar: Scalar, components: &[u64]) -> Option<&'static str> {
    match (scalar, components) {
        (Scalar::F32, []) => Some("Tree_float_5_4_3"),
        (Scalar::F64, []) => Some("Tree_double_5_4_3"),
        (Scalar::I32, []) => Some("Tree_int32_5_4_3"),
        (Scalar::I64, []) => Some("Tree_int64_5_4_3"),
        (Scalar::F32, [3]) => Some("Tree_vec3s_5_4_3"),
        (Scalar::F64, [3]) => Some("Tree_vec3d_5_4_3"),
        (Scalar::I32, [3]) => Some("Tree_vec3i_5_4_3"),
        _ => None,
    }
}

/// Bytes with numbers and texts in them.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.extend_from_slice(bytes.as_ref());
    }

    fn number(&mut self, number: u32) {
        self.put(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.put(text);
    }

    fn metadata(&mut self, entries: &[(&str, &str)]) {
        self.number(entries.len() as u32);
        for (name, value) in entries {
            self.text(name);
            self.text("string");
            self.text(value);
        }
    }

    /// The masks of children and of active tiles of an inner node, and the values of its tiles: all are zero and inactive.
    fn node(&mut self, level: Level, leaves: &Leaves<'_>, size: usize) {
        let count = 1_usize << (3 * level.children);
        let mut mask = vec![0_u8; count / 8];
        for (at, _) in leaves {
            let k = level.number(*at);
            mask[k / 8] |= 1 << (k % 8);
        }
        self.put(&mask);
        self.put(vec![0; count / 8]);
        self.put([ALL_VALUES]);
        self.put(vec![0; count * size]);
    }
}
