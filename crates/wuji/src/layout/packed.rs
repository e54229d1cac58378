//! Packed fields in layouts: bit structs and bit arrays.

use super::node::State;
use super::{Elem, Node, PlacedField, TreeShape};
use crate::axes::{Axes, Extents};
use crate::element::Element;
use crate::field::Field;
use crate::quantized::QuantizedType;
use crate::world::here;
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use wuji_ir::entities;
use wuji_ir::layout::Child;
use wuji_ir::quant::{Member, Packing, Quantized, mask};
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result};

/// Words in the cells of a node, in which numbers are packed; see [`Node::bit_struct`].
#[derive(Copy, Clone)]
pub struct BitStruct<'a> {
    node: Node<'a>,
    pack: usize,
    /// The group of numbers that share an exponent.
    group: Option<usize>,
}

/// Elements of one field, packed in a word; see [`Node::bit_array`].
#[derive(Copy, Clone)]
pub struct BitArray<'a> {
    node: Node<'a>,
    bits: u32,
}

impl fmt::Debug for BitStruct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitStruct({})", self.node.node)
    }
}

impl fmt::Debug for BitArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitArray({})", self.node.node)
    }
}

/// A bit struct under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pack {
    word: Option<Scalar>,
    /// Whether there can be several words.
    grows: bool,
    /// The words so far, and the bits in use in the last one.
    words: Vec<entities::Field>,
    used: u32,
    /// Groups with a shared exponent: the word, where the exponent is, and its bits.
    groups: Vec<Option<(entities::Field, u32, u32)>>,
}

impl<'a> Node<'a> {
    /// A word of 8, 16, 32 or 64 bits in every cell of this node, in which numbers are packed.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let (velocity, category) = world.layout(|root| {
    ///     let voxel = root.dense(IJ, 64).bit_struct(32);
    ///     let velocity = voxel.shared_exponent().place::<Vec3, 2>("velocity", qfloat(6, 8, true));
    ///     (velocity, voxel.place::<i32, 2>("category", qint(2, false)))
    /// })?;
    /// # let _ = (velocity, category);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn bit_struct(self, bits: u32) -> BitStruct<'a> {
        self.pack(bits, false, Location::caller())
    }

    /// As [`bit_struct`](Node::bit_struct), with as many words as the numbers need. A number is in one word, and so are
    /// those that share an exponent.
    #[track_caller]
    pub fn bit_structs(self, bits: u32) -> BitStruct<'a> {
        self.pack(bits, true, Location::caller())
    }

    /// A bit struct of this node, by its number in the layout.
    pub(crate) fn known_bit_struct(self, number: usize) -> BitStruct<'a> {
        BitStruct {
            node: self,
            pack: number,
            group: None,
        }
    }

    /// The node, in all trees.
    pub(crate) fn key(self) -> (usize, entities::Node) {
        (std::sync::Arc::as_ptr(&self.build.tree).addr(), self.node)
    }

    fn pack(self, bits: u32, grows: bool, at: &'static Location<'static>) -> BitStruct<'a> {
        let state = &mut *self.build.state.borrow_mut();
        let pack = match state.start_pack(bits, grows) {
            Ok(pack) => pack,
            Err(error) => {
                state.fail(error.at(Some(here(at))));
                0
            }
        };
        BitStruct {
            node: self,
            pack,
            group: None,
        }
    }

    /// Elements of one field along some axes, packed in a word of `bits` bits in every cell of this node.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let alive = world.layout(|root| {
    ///     root.dense(IJ, [1024, 32]).bit_array(J, 32, 32).place::<u32, 2>("alive", qint(1, false))
    /// })?;
    /// assert_eq!(alive.shape()?, [1024, 1024]);
    /// assert_eq!(alive.tree().memory_used(), 1024 * 1024 / 8);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn bit_array(
        self,
        axes: impl Into<Axes>,
        extents: impl Into<Extents>,
        bits: u32,
    ) -> BitArray<'a> {
        let at = Location::caller();
        let state = &mut *self.build.state.borrow_mut();
        let mut node = self;
        match state.add_bit_array(self.node, &axes.into().list(), extents.into()) {
            Ok(below) => node.node = below,
            Err(error) => state.fail(error.at(Some(here(at)))),
        }
        BitArray { node, bits }
    }
}

impl<'a> BitStruct<'a> {
    /// Its number in the layout.
    pub(crate) fn number(self) -> usize {
        self.pack
    }

    /// Numbers that are placed through what this returns share one exponent: that of the largest of them. Their types are
    /// `qfloat` with the same exponent.
    pub fn shared_exponent(self) -> BitStruct<'a> {
        let state = &mut *self.node.build.state.borrow_mut();
        // A bit struct that is missing was an error before.
        let group = state.start_group(self.pack).ok();
        BitStruct { group, ..self }
    }

    /// Packs an element of a field into every cell, with one type for all its scalars.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(self, name: &str, ty: QuantizedType) -> Field<T, D> {
        self.place_each(name, &[ty])
    }

    /// The same with a type for each scalar, in the order of the members of a struct.
    #[track_caller]
    pub fn place_each<T: Element, const D: usize>(
        self,
        name: &str,
        types: &[QuantizedType],
    ) -> Field<T, D> {
        let target = (self.pack, self.group);
        self.node.place_packed(name, types, |state, request| {
            state.put_packed(target, request)
        })
    }
}

impl BitArray<'_> {
    /// Places the field whose elements the array holds.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(self, name: &str, ty: QuantizedType) -> Field<T, D> {
        self.place_each(name, &[ty])
    }

    /// The same with a type for each scalar.
    #[track_caller]
    pub fn place_each<T: Element, const D: usize>(
        self,
        name: &str,
        types: &[QuantizedType],
    ) -> Field<T, D> {
        self.node.place_packed(name, types, |state, request| {
            state.put_in_array(self.bits, request)
        })
    }
}

impl Node<'_> {
    /// Places a packed field by `put`.
    #[track_caller]
    fn place_packed<T: Element, const D: usize>(
        self,
        name: &str,
        types: &[QuantizedType],
        put: impl FnOnce(&mut State, &PackRequest<'_>) -> Result<entities::Field>,
    ) -> Field<T, D> {
        let at = Location::caller();
        let state = &mut *self.build.state.borrow_mut();
        let request = PackRequest {
            node: self.node,
            name,
            elem: Elem::Typed(T::ir_type),
            types,
            offset: self.offset.as_ref().map(|(from, n)| (&from[..], *n)),
        };
        let put = state
            .can_place(self.node, name, D)
            .and_then(|()| put(state, &request));
        let field = put.unwrap_or_else(|error| {
            state.fail(error.at(Some(here(at))));
            entities::Field::from_u32(0)
        });
        Field::new(self.build.tree.clone(), field)
    }
}

/// A packed field to be placed.
pub(crate) struct PackRequest<'r> {
    pub(crate) node: entities::Node,
    pub(crate) name: &'r str,
    pub(crate) elem: Elem,
    /// One for all scalars, or one for each.
    pub(crate) types: &'r [QuantizedType],
    pub(crate) offset: Option<(&'r [i64], usize)>,
}

impl PackRequest<'_> {
    /// The scalars and their types, which are valid: of at most 64 bits.
    fn scalars(&self, shared: bool) -> Result<Vec<(Scalar, QuantizedType)>> {
        let scalars = self.typed_scalars()?;
        for (compute, ty) in &scalars {
            // Where the exponent is does not matter.
            ty.lower(*compute, shared.then_some(0))?;
        }
        Ok(scalars)
    }

    fn typed_scalars(&self) -> Result<Vec<(Scalar, QuantizedType)>> {
        let mut structs = Structs::default();
        let elem = self.elem.enter(&mut structs);
        let scalars = structs.flatten(elem);
        match self.types {
            [ty] => Ok(scalars.into_iter().map(|s| (s, *ty)).collect()),
            types if types.len() == scalars.len() => {
                Ok(scalars.into_iter().zip(types.iter().copied()).collect())
            }
            types => Err(Error::new(
                "W0150",
                format!(
                    "field `{}` has {} scalars, and {} quantized types",
                    self.name,
                    scalars.len(),
                    types.len()
                ),
            )
            .help("give one type for all scalars, or one for each")),
        }
    }
}

fn word_type(bits: u32) -> Result<Scalar> {
    match bits {
        8 => Ok(Scalar::U8),
        16 => Ok(Scalar::U16),
        32 => Ok(Scalar::U32),
        64 => Ok(Scalar::U64),
        _ => Err(Error::new(
            "W0151",
            format!("a word has 8, 16, 32 or 64 bits, not {bits}"),
        )),
    }
}

impl State {
    /// A bit struct without words.
    pub(crate) fn start_pack(&mut self, bits: u32, grows: bool) -> Result<usize> {
        self.packs.push(Pack {
            word: Some(word_type(bits)?),
            grows,
            ..Pack::default()
        });
        Ok(self.packs.len() - 1)
    }

    /// A group of numbers that share an exponent.
    pub(crate) fn start_group(&mut self, pack: usize) -> Result<usize> {
        let groups = &mut self.known_pack(pack)?.groups;
        groups.push(None);
        Ok(groups.len() - 1)
    }

    fn known_pack(&mut self, pack: usize) -> Result<&mut Pack> {
        let missing = || Error::new("W0151", format!("the layout has no bit struct {pack}"));
        self.packs.get_mut(pack).ok_or_else(missing)
    }

    /// Packs a field into a bit struct.
    pub(crate) fn put_packed(
        &mut self,
        (pack, group): (usize, Option<usize>),
        request: &PackRequest<'_>,
    ) -> Result<entities::Field> {
        let groups = self.known_pack(pack)?.groups.len();
        if let Some(group) = group.filter(|g| *g >= groups) {
            let why = format!("the bit struct has no group {group}");
            return Err(Error::new("W0151", why));
        }
        let scalars = request.scalars(group.is_some())?;
        let mut members = SmallVec::new();
        for (compute, ty) in scalars {
            let shared = match group {
                None => None,
                Some(group) => Some(self.exponent(request, (pack, group), ty)?),
            };
            let bits = ty.bits(shared.is_some());
            let (word, at) = match shared {
                // Beside its exponent.
                Some((word, _)) => (word, self.take_bits(request, pack, bits, Some(word))?.1),
                None => self.take_bits(request, pack, bits, None)?,
            };
            let ty = ty.lower(compute, shared.map(|s| s.1))?;
            members.push(Member { word, at, ty });
        }
        self.add_packed(request, members)
    }

    /// Where the exponent of a group is.
    fn exponent(
        &mut self,
        request: &PackRequest<'_>,
        (pack, group): (usize, usize),
        ty: QuantizedType,
    ) -> Result<(entities::Field, u8)> {
        let Some(bits) = ty.exponent() else {
            let why = format!(
                "`{ty}` of field `{}` has no exponent to share",
                request.name
            );
            return Err(
                Error::new("W0150", why).help("numbers that share an exponent are `qfloat`")
            );
        };
        match self.packs[pack].groups[group] {
            Some((word, at, known)) if known == bits => Ok((word, at as u8)),
            Some((_, _, known)) => Err(Error::new(
                "W0150",
                format!(
                    "`{ty}` of field `{}` shares an exponent of {known} bits",
                    request.name
                ),
            )
            .help(format!("give it an exponent of {known} bits"))),
            None => {
                // The exponent and all numbers of the element are in one word.
                let scalars = request.scalars(true)?;
                let all: u32 = scalars.iter().map(|s| s.1.bits(true)).sum();
                self.make_room(request, pack, bits.saturating_add(all))?;
                let (word, at) = self.take_bits(request, pack, bits, None)?;
                self.packs[pack].groups[group] = Some((word, at.into(), bits));
                Ok((word, at))
            }
        }
    }

    /// A word with this many bits left.
    fn make_room(&mut self, request: &PackRequest<'_>, pack: usize, bits: u32) -> Result<()> {
        let Pack {
            word, grows, used, ..
        } = self.packs[pack];
        let word = word.unwrap_or(Scalar::U64);
        let started = !self.packs[pack].words.is_empty();
        let needed = used.saturating_add(bits);
        if started && needed <= word.bits() {
            return Ok(());
        }
        if bits > word.bits() || started && !grows {
            let over = if started { needed } else { bits } - word.bits();
            return Err(too_large(request.name, word.bits(), over, started));
        }
        let field = self.add_word(request, word)?;
        let pack = &mut self.packs[pack];
        pack.words.push(field);
        pack.used = 0;
        Ok(())
    }

    /// The word and the position of some bits. With `beside` given, they are in that word.
    fn take_bits(
        &mut self,
        request: &PackRequest<'_>,
        pack: usize,
        bits: u32,
        beside: Option<entities::Field>,
    ) -> Result<(entities::Field, u8)> {
        let last = self.packs[pack].words.last().copied();
        let word = self.packs[pack].word.unwrap_or(Scalar::U64);
        let full = self.packs[pack].used.saturating_add(bits) > word.bits();
        if let Some(beside) = beside
            && (last != Some(beside) || full)
        {
            let over = self.packs[pack]
                .used
                .saturating_add(bits)
                .saturating_sub(word.bits());
            return Err(too_large(
                request.name,
                word.bits(),
                if full { over } else { bits },
                true,
            )
            .note("numbers that share an exponent are in one word"));
        }
        if beside.is_none() {
            self.make_room(request, pack, bits)?;
        }
        let pack = &mut self.packs[pack];
        let at = pack.used as u8;
        pack.used += bits;
        match pack.words.last() {
            Some(word) => Ok((*word, at)),
            None => Err(Error::new("W0151", "a bit struct has no word")),
        }
    }

    /// A field of words, in the cells of a node.
    fn add_word(&mut self, request: &PackRequest<'_>, word: Scalar) -> Result<entities::Field> {
        let elem = Elem::Plain(Type::Scalar(word));
        self.put(request.node, "", elem, false, request.offset)
    }

    /// Packs the elements of a field into a bit array.
    pub(crate) fn put_in_array(
        &mut self,
        bits: u32,
        request: &PackRequest<'_>,
    ) -> Result<entities::Field> {
        let word = word_type(bits)?;
        let array = self.data.nodes[request.node].clone();
        if let Some(Child::Place(_)) = array.children.first() {
            let why = format!("a bit array holds one field; `{}` is another", request.name);
            return Err(Error::new("W0151", why)
                .help("give it a bit array of its own, or use a bit struct"));
        }
        let scalars = request.scalars(false)?;
        let each: u32 = scalars.iter().map(|s| s.1.bits(false)).sum();
        let all = array.cells().saturating_mul(each.into());
        if all > word.bits().into() {
            let cells = array.cells();
            let over = all - u64::from(word.bits());
            let fit = u64::from(word.bits()) / u64::from(each.max(1));
            return Err(Error::new(
                "W0151",
                format!(
                    "a bit array of {cells} elements of {each} bits does not fit {} bits: {over} bits over",
                    word.bits()
                ),
            )
            .help(format!(
                "put at most {fit} elements of field `{}` into a word, and the rest into the node above it",
                request.name
            )));
        }
        let Some(parent) = array.parent.filter(|_| array.kind.is_bit_array()) else {
            let what = self.data.describe(request.node);
            return Err(Error::new("W0151", format!("{what} is not a bit array")));
        };
        // The word of the elements, beside the array.
        let axes = self.data.axes(parent);
        let own = self.data.axes(request.node);
        let from = |axis| {
            let split = array.extents.iter().any(|e| e.0 == axis);
            let k = own.iter().position(|a| *a == axis);
            match (request.offset, k) {
                (Some((from, _)), Some(k)) if !split => from[k],
                _ => 0,
            }
        };
        let offset: Vec<i64> = axes.iter().map(|axis| from(*axis)).collect();
        let elem = Elem::Plain(Type::Scalar(word));
        let holder = self.put(parent, "", elem, false, Some((&offset, offset.len())))?;
        let mut members = SmallVec::new();
        let mut at = 0;
        for (compute, ty) in scalars {
            members.push(Member {
                word: holder,
                at: at as u8,
                ty: ty.lower(compute, None)?,
            });
            at += ty.bits(false);
        }
        self.add_packed(request, members)
    }

    fn add_packed(
        &mut self,
        request: &PackRequest<'_>,
        members: SmallVec<[Member; 1]>,
    ) -> Result<entities::Field> {
        let (node, name) = (request.node, request.name);
        let field = self.put(node, name, request.elem.clone(), false, request.offset)?;
        // A word is called what it holds.
        for member in &members {
            let word = &mut self.names[member.word.as_u32() as usize];
            if word.is_empty() {
                *word = name.to_owned();
            } else if !word.split(", ").any(|n| n == name) {
                word.push_str(", ");
                word.push_str(name);
            }
        }
        let placed: &mut PlacedField = &mut self.fields[field.as_u32() as usize];
        placed.packing = Some(Packing { members });
        Ok(field)
    }
}

impl TreeShape {
    /// A packed field, and the others whose numbers a store to it may round again, because they share an exponent. Empty for other fields.
    pub(crate) fn rounded_together(&self, field: entities::Field) -> Vec<entities::Field> {
        let own = self.exponents(field);
        let fields = (0..self.fields.len() as u32).map(entities::Field::from_u32);
        let shares = |other: &entities::Field| {
            let theirs = self.exponents(*other);
            *other == field || theirs.iter().any(|e| own.contains(e))
        };
        let is_packed = self.fields[field.as_u32() as usize].packing.is_some();
        fields.filter(|_| is_packed).filter(shares).collect()
    }

    /// The words and the positions of the exponents that a field shares with others.
    fn exponents(&self, field: entities::Field) -> SmallVec<[(entities::Field, u8); 1]> {
        let packing = self.fields[field.as_u32() as usize].packing.iter();
        let members = packing.flat_map(|p| &p.members);
        let shared = members.filter_map(|member| match member.ty {
            Quantized::Fraction { exponent, .. } => Some((member.word, exponent.at)),
            Quantized::Int { .. } | Quantized::Fixed { .. } | Quantized::Float { .. } => None,
        });
        shared.collect()
    }

    /// The words of some packed fields, and which bits of them are theirs, with their shared exponents.
    pub(crate) fn own_bits(&self, fields: &[entities::Field]) -> Vec<(entities::Field, u64)> {
        let mut found: Vec<(entities::Field, u64)> = Vec::new();
        for field in fields {
            let placed = &self.fields[field.as_u32() as usize];
            let Some(packing) = &placed.packing else {
                continue;
            };
            let cells = self.data.bit_array(placed.node).map_or(1, |n| n.cells());
            for member in &packing.members {
                let mut own = 0;
                for k in 0..cells {
                    let at = u32::from(member.at) + k as u32 * packing.stride();
                    own |= mask(member.ty.bits()) << at;
                }
                if let Quantized::Fraction { exponent, .. } = member.ty {
                    own |= mask(exponent.bits.into()) << exponent.at;
                }
                match found.iter_mut().find(|(word, _)| *word == member.word) {
                    Some((_, bits)) => *bits |= own,
                    None => found.push((member.word, own)),
                }
            }
        }
        found
    }

    /// Whether a field is the words of packed fields.
    pub(crate) fn is_word(&self, field: entities::Field) -> bool {
        let packings = self.fields.iter().filter_map(|f| f.packing.as_ref());
        let mut members = packings.flat_map(|p| &p.members);
        members.any(|member| member.word == field)
    }
}

#[cold]
fn too_large(name: &str, word: u32, over: u32, started: bool) -> Error {
    let what = if started {
        "what is left of"
    } else {
        "a bit struct of"
    };
    let bits = if over == 1 { "bit" } else { "bits" };
    Error::new(
        "W0151",
        format!("field `{name}` does not fit {what} {word} bits: {over} {bits} over"),
    )
    .help(if word < 64 {
        "give its type fewer bits, use a wider bit struct, or `bit_structs`, which takes as many words as it needs"
    } else {
        "give its type fewer bits, or use `bit_structs`, which takes as many words as it needs"
    })
}
