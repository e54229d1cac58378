//! Copies of fields and sparse trees that a tape keeps, because a later launch overwrites what a gradient kernel needs.

use crate::autodiff::Derivative;
use crate::autodiff::packed::{PackedCopy, PackedFields};
use crate::autodiff::trees::{First, TreeCopy};
use crate::host::{ElementBox, FieldHandle, HostAccess};
use crate::layout::TreeInner;
use crate::world::World;
use std::sync::Arc;
use wuji_ir::entities::Field;
use wuji_ir::{Error, Result};
use wuji_runtime::Memory;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::Way;

/// What is copied as a whole: a field, packed fields that round each other, or a sparse tree, because its fields share their cells.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Unit {
    Field(FieldHandle),
    Packed(PackedFields),
    Tree(WholeTree),
}

/// A sparse tree. Two are equal if they are the same one.
#[derive(Clone)]
pub(crate) struct WholeTree(pub(crate) Arc<TreeInner>);

impl PartialEq for WholeTree {
    fn eq(&self, other: &WholeTree) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WholeTree {}

/// Where copies of dense fields are. Those of sparse trees are on the host.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Storage {
    /// In the memory of the device.
    #[default]
    Near,
    Host,
}

/// A copy of a unit.
pub(crate) enum Snapshot {
    Field(Copy, Tangents),
    Packed(PackedCopy, Tangents),
    Tree(TreeCopy, Tangents),
}

/// Copies of the tangents of a unit that are not in it: gradient kernels in forward mode read both.
pub(crate) type Tangents = Vec<(Unit, Snapshot)>;

impl Unit {
    pub(crate) fn of(field: &FieldHandle) -> Result<Unit> {
        if !field.is_dense()? {
            return Ok(Unit::Tree(WholeTree(field.tree.clone())));
        }
        let packed = PackedFields::with(field)?;
        Ok(packed.map_or_else(|| Unit::Field(field.clone()), Unit::Packed))
    }

    pub(crate) fn world(&self) -> &World {
        match self {
            Unit::Field(field) => &field.tree.world,
            Unit::Packed(packed) => packed.world(),
            Unit::Tree(WholeTree(tree)) => &tree.world,
        }
    }

    /// The names of its fields.
    pub(crate) fn name(&self) -> String {
        match self {
            Unit::Field(field) => field.name().to_owned(),
            Unit::Packed(packed) => {
                let names = packed.handles().map(|field| field.name().to_owned());
                names.collect::<Vec<_>>().join(", ")
            }
            Unit::Tree(WholeTree(tree)) => {
                let Ok(body) = tree.body() else {
                    return String::new();
                };
                let named = body.names.iter().zip(&body.shape.fields).enumerate();
                let named = named.filter(|(n, (_, f))| {
                    !f.view && !body.shape.is_word(Field::from_u32(*n as u32))
                });
                let names = named.map(|(_, (name, _))| &**name);
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The units of tangents of its fields, in all directions.
    fn tangents(&self) -> Result<Vec<Unit>> {
        let fields = match self {
            Unit::Field(field) => vec![field.clone()],
            Unit::Packed(packed) => packed.handles().collect(),
            Unit::Tree(WholeTree(tree)) => {
                let count = tree.body()?.shape.fields.len() as u32;
                let handle = |n: u32| FieldHandle {
                    tree: tree.clone(),
                    field: Field::from_u32(n),
                };
                (0..count).map(handle).collect()
            }
        };
        let mut found = Vec::new();
        for field in fields {
            let directions = (0..).map_while(|n| field.derivative(Derivative::Tangent(n)));
            for tangent in directions {
                let unit = Unit::of(&tangent)?;
                if unit != *self && !found.contains(&unit) {
                    found.push(unit);
                }
            }
        }
        Ok(found)
    }

    /// Bytes of a copy of all fields but some, or about as many.
    pub(crate) fn bytes(&self, skipped: &[Field]) -> Result<u64> {
        let own = match self {
            Unit::Field(field) => Copy::bytes_of(field),
            Unit::Packed(packed) => packed.bytes(),
            Unit::Tree(WholeTree(tree)) => TreeCopy::bytes_of(tree, skipped),
        };
        let tangents = self.tangents()?.into_iter();
        let tangents = tangents.map(|unit| unit.bytes(&[]));
        tangents.fold(own, |sum, bytes| Ok(sum? + bytes?))
    }

    /// A copy of all fields but some, where kernels find it.
    pub(crate) fn take(&self, skipped: &[Field]) -> Result<Snapshot> {
        self.take_to(Storage::Near, skipped)
    }

    pub(crate) fn take_to(&self, storage: Storage, skipped: &[Field]) -> Result<Snapshot> {
        let mut tangents = Tangents::new();
        for unit in self.tangents()? {
            let copy = unit.take_to(storage, &[])?;
            tangents.push((unit, copy));
        }
        match self {
            Unit::Field(field) => Ok(Snapshot::Field(Copy::take(field, storage)?, tangents)),
            Unit::Packed(packed) => Ok(Snapshot::Packed(packed.take(storage)?, tangents)),
            Unit::Tree(WholeTree(tree)) => {
                Ok(Snapshot::Tree(TreeCopy::take(tree, skipped)?, tangents))
            }
        }
    }

    /// What is active in it now.
    pub(crate) fn first(&self) -> Result<First> {
        match self {
            Unit::Field(_) | Unit::Packed(_) => Ok(First::default()),
            Unit::Tree(WholeTree(tree)) => First::of(tree),
        }
    }

    /// Makes it what it was. With `first`, it is an error if one of its gradients is lost.
    pub(crate) fn restore(&self, snapshot: &Snapshot, first: Option<&First>) -> Result<()> {
        let tangents = match (self, snapshot) {
            (Unit::Field(field), Snapshot::Field(copy, tangents)) => {
                copy.restore(field)?;
                tangents
            }
            (Unit::Packed(packed), Snapshot::Packed(copy, tangents)) => {
                packed.restore(copy)?;
                tangents
            }
            (Unit::Tree(WholeTree(tree)), Snapshot::Tree(copy, tangents)) => {
                copy.restore(tree, first)?;
                tangents
            }
            // A unit has snapshots of its own.
            (Unit::Field(_), Snapshot::Packed(..) | Snapshot::Tree(..))
            | (Unit::Packed(_), Snapshot::Field(..) | Snapshot::Tree(..))
            | (Unit::Tree(_), Snapshot::Field(..) | Snapshot::Packed(..)) => return Ok(()),
        };
        let mut tangents = tangents.iter();
        tangents.try_for_each(|(unit, copy)| unit.restore(copy, None))
    }
}

/// The elements of a field of a dense tree at some time.
pub(crate) enum Copy {
    /// All elements, row by row, on the host.
    Host(Vec<u8>),
    /// All elements, row by row, on the device.
    Device(Memory),
}

impl Copy {
    /// Bytes that a copy of a field takes, or about as many.
    pub(crate) fn bytes_of(field: &FieldHandle) -> Result<u64> {
        let (access, size) = (field.access()?, field.size()?);
        Ok(ElementBox::whole(&access, size, "")?.bytes())
    }

    pub(crate) fn take(field: &FieldHandle, storage: Storage) -> Result<Copy> {
        let (access, size) = (field.access()?, field.size()?);
        let whole = ElementBox::whole(&access, size, "")?;
        if access.body.memory.is_on_device() && storage == Storage::Near {
            let memory = access.allocate_on_device(whole.bytes())?;
            whole.exchange(Way::ToArray, array(&memory, &access, size, true)?)?;
            return Ok(Copy::Device(memory));
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(whole.bytes() as usize).is_err() {
            let what = format!("no memory for a copy of field `{}`", field.name());
            return Err(Error::new("W0110", what));
        }
        whole.read(|piece, stride| {
            if stride == size {
                bytes.extend_from_slice(piece);
            } else {
                piece
                    .chunks(stride)
                    .for_each(|element| bytes.extend_from_slice(&element[..size]));
            }
        })?;
        Ok(Copy::Host(bytes))
    }

    /// Gives the field the values that it had.
    pub(crate) fn restore(&self, field: &FieldHandle) -> Result<()> {
        let (access, size) = (field.access()?, field.size()?);
        match self {
            Copy::Host(bytes) => {
                let mut rest = &bytes[..];
                let mut next = |to: &mut [u8]| {
                    let (now, later) = rest.split_at(to.len().min(rest.len()));
                    to[..now.len()].copy_from_slice(now);
                    rest = later;
                };
                ElementBox::whole(&access, size, "")?.write(|piece, stride| {
                    if stride == size {
                        next(piece);
                    } else {
                        let elements = piece.chunks_mut(stride);
                        elements.for_each(|element| next(&mut element[..size]));
                    }
                })
            }
            Copy::Device(memory) => {
                let whole = ElementBox::whole(&access, size, "")?;
                whole.exchange(Way::FromArray, array(memory, &access, size, false)?)
            }
        }
    }
}

impl Copy {
    /// Gives some bits of the words of a field the values that they had.
    pub(crate) fn restore_bits(&self, field: &FieldHandle, mask: u64) -> Result<()> {
        let (access, size) = (field.access()?, field.size()?);
        let whole = ElementBox::whole(&access, size, "")?;
        match self {
            Copy::Host(bytes) => {
                let mut new = Vec::with_capacity(bytes.len());
                whole.read(|piece, stride| {
                    for word in piece.chunks(stride.max(1)) {
                        new.extend_from_slice(&word[..size]);
                    }
                })?;
                let (now, then) = (new.chunks_exact_mut(size), bytes.chunks_exact(size));
                now.zip(then).for_each(|(now, then)| merge(now, then, mask));
                Copy::Host(new).restore(field)
            }
            Copy::Device(memory) => whole.write_bits(mask, array(memory, &access, size, false)?),
        }
    }
}

/// Some bits of a word of at most 64 bits become those of another one.
pub(crate) fn merge(word: &mut [u8], from: &[u8], mask: u64) {
    let bytes = mask.to_ne_bytes();
    let unused = bytes.len().saturating_sub(word.len());
    let mask = if cfg!(target_endian = "big") {
        &bytes[unused..]
    } else {
        &bytes[..]
    };
    for ((own, from), mask) in word.iter_mut().zip(from).zip(mask) {
        *own = *own & !mask | from & mask;
    }
}

/// Memory as an array of the shape of a field.
fn array<'m>(
    memory: &'m Memory,
    access: &HostAccess<'_>,
    size: usize,
    writable: bool,
) -> Result<ArrayArg<'m>> {
    let domain = access.domain();
    let extents: Vec<usize> = if domain.is_empty() {
        vec![1]
    } else {
        domain.iter().map(|d| d.1 as usize).collect()
    };
    ArrayArg::in_memory(memory, size, &extents, writable)
}
