//! The inputs of a launch.

use super::elements::{self, Cells};
use super::read::{Entry, ScriptTarget, View};
use wuji_ir::entities::{Array, Field};
use wuji_ir::module::{ArrayData, Module};
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// A run does not match its module.
pub(super) const MISFIT: &str = "W0130";
/// The largest array in bytes.
const LARGEST: i64 = 1 << 32;

/// The left side of a run, prepared for a module. Everything that it does not mention is zero.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// For random numbers.
    pub seed: u64,
    /// The number of the first launch, for random numbers.
    pub launch: u64,
    /// The scalars of all parameters.
    pub params: Vec<Imm>,
    /// The scalars of whole fields.
    pub fields: Vec<(Field, Vec<Imm>)>,
    /// The scalars of single elements.
    pub elements: Vec<(Field, Vec<i64>, Vec<Imm>)>,
    /// Active elements of fields below sparse nodes.
    pub sparse: Vec<(Field, Cells)>,
    /// The memory of arrays.
    pub buffers: Vec<Vec<u8>>,
    /// The arrays.
    pub arrays: Vec<Bound>,
}

/// An array and its layout, in bytes.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The array.
    pub array: Array,
    /// The number of its buffer.
    pub buffer: usize,
    /// The position of the first element in the buffer.
    pub base: i64,
    /// The lengths of the axes.
    pub extents: Vec<i64>,
    /// The distances along each axis.
    pub strides: Vec<i64>,
    /// Its initial values; `None` for one in the memory of another.
    pub(super) values: Option<Vec<Imm>>,
}

impl Start {
    /// The inputs of a run.
    pub fn new(m: &Module, entries: &[Entry]) -> Result<Start> {
        let types = m.params.iter().flat_map(|p| m.structs.flatten(p.ty));
        let sparse = elements::fields(m);
        let mut start = Start {
            params: types.map(Imm::zero).collect(),
            sparse: sparse.into_iter().map(|f| (f, Cells::new())).collect(),
            ..Start::default()
        };
        for entry in entries {
            start.set(m, entry)?;
        }
        Ok(start)
    }

    fn set(&mut self, m: &Module, entry: &Entry) -> Result<()> {
        let misfit = |why: String| entry.error(MISFIT, why);
        if entry.approximate {
            return Err(misfit("`~` stands behind `=>`".to_owned()));
        }
        if entry.view.is_some() && !matches!(entry.target, ScriptTarget::Array(..)) {
            let why = "only an array lies in the memory of another one";
            return Err(misfit(why.to_owned()));
        }
        match &entry.target {
            ScriptTarget::Seed => self.seed = whole(entry)?,
            ScriptTarget::Launch => self.launch = whole(entry)?,
            ScriptTarget::Param(n) => {
                let missing = || missing(m, entry, format!("p{n}"));
                let param = m.params.get(*n).ok_or_else(missing)?;
                let what = named(format!("p{n}"), &param.name);
                let values = scalars(entry, &what, &m.structs.flatten(param.ty), 1)?;
                let slot = m.param_slots()[*n];
                self.params[slot..][..values.len()].copy_from_slice(&values);
            }
            ScriptTarget::Field(f) => {
                let (what, elem) = field(m, entry, *f)?;
                let values = scalars(entry, &what, &elem, cells(m, *f))?;
                match self.sparse.iter_mut().find(|c| c.0 == *f) {
                    None => self.fields.push((*f, values)),
                    Some(held) => {
                        let values = values.chunks(elem.len().max(1)).map(<[Imm]>::to_vec);
                        held.1 = points(m, *f).zip(values).collect();
                    }
                }
            }
            ScriptTarget::Element(f, at) => {
                let (what, elem) = field(m, entry, *f)?;
                inside(m, entry, *f, at)?;
                let values = scalars(entry, &what, &elem, 1)?;
                match self.sparse.iter_mut().find(|c| c.0 == *f) {
                    None => self.elements.push((*f, at.clone(), values)),
                    Some(held) => {
                        held.1.insert(at.clone(), values);
                    }
                }
            }
            ScriptTarget::Active(f) => {
                let (what, elem) = field(m, entry, *f)?;
                let coordinates = coordinates(m, entry, *f)?;
                let held = self.sparse.iter_mut().find(|c| c.0 == *f);
                let held = held.ok_or_else(|| misfit(format!("all elements of {what} exist")))?;
                for at in coordinates {
                    inside(m, entry, *f, &at)?;
                    let zeros = || elem.iter().map(|s| Imm::zero(*s)).collect();
                    held.1.entry(at).or_insert_with(zeros);
                }
            }
            ScriptTarget::Array(a, extents) => self.bind(m, entry, *a, extents.as_deref())?,
            ScriptTarget::Result | ScriptTarget::Reports | ScriptTarget::Prints => {
                let why = "results, reports and prints stand behind `=>`";
                return Err(misfit(why.to_owned()));
            }
        }
        Ok(())
    }

    /// Binds an array to its own memory, or to part of the memory of another one.
    fn bind(
        &mut self,
        m: &Module,
        entry: &Entry,
        array: Array,
        extents: Option<&[i64]>,
    ) -> Result<()> {
        let misfit = |why: String| entry.error(MISFIT, why);
        let data = array_of(m, entry, array)?;
        let what = named(array, &data.name);
        let elem = m.structs.scalar_offsets(data.elem);
        let size = m.structs.size_align(data.elem).0 as i64;
        let extents = match (extents, data.rank) {
            (Some(extents), _) => extents.to_vec(),
            (None, 0) => Vec::new(),
            (None, 1) if entry.view.is_none() => {
                let elements = entry.items.len() / (elem.len() as u64).max(1);
                vec![i64::try_from(elements).unwrap_or(i64::MAX)]
            }
            (None, rank) => {
                let example = (2..).take(rank.into()).map(|n: u32| n.to_string());
                let example = example.collect::<Vec<_>>().join(", ");
                return Err(misfit(format!("{what} needs extents"))
                    .help(format!("it has {rank} axes: say `{array}({example}) = ..`")));
            }
        };
        if extents.len() != usize::from(data.rank) || extents.iter().any(|e| *e < 0) {
            return Err(misfit(format!(
                "{what} has {} axes, and no extents like {extents:?}",
                data.rank
            )));
        }
        let mut strides = vec![0; extents.len()];
        let mut step = size;
        for (stride, extent) in strides.iter_mut().zip(&extents).rev() {
            *stride = step;
            step = step.saturating_mul((*extent).max(1));
        }
        let bound = match &entry.view {
            Some(view) => self.view(entry, array, view, extents, strides)?,
            None if step > LARGEST => {
                return Err(misfit(format!("{what} has too many elements: {extents:?}")));
            }
            None => {
                let types: Vec<Scalar> = elem.iter().map(|e| e.0).collect();
                let count = extents.iter().product::<i64>() as u64;
                let values = scalars(entry, &what, &types, count)?;
                let mut bytes = vec![0; (count * size as u64) as usize];
                for (k, value) in values.iter().enumerate() {
                    let (scalar, offset) = elem[k % elem.len()];
                    let at = k / elem.len() * size as usize + offset as usize;
                    let width = scalar.bytes() as usize;
                    bytes[at..at + width].copy_from_slice(&value.bits().to_le_bytes()[..width]);
                }
                self.buffers.push(bytes);
                Bound {
                    array,
                    buffer: self.buffers.len() - 1,
                    base: 0,
                    extents,
                    strides,
                    values: Some(values),
                }
            }
        };
        self.arrays.push(bound);
        Ok(())
    }

    fn view(
        &self,
        entry: &Entry,
        array: Array,
        view: &View,
        extents: Vec<i64>,
        strides: Vec<i64>,
    ) -> Result<Bound> {
        let misfit = |why: String| entry.error(MISFIT, why);
        let owner = self.arrays.iter().find(|b| b.array == view.of);
        let unbound = || misfit(format!("{} is not bound before {array}", view.of));
        let owner = owner.ok_or_else(unbound)?;
        let strides = view.strides.clone().unwrap_or(strides);
        if strides.len() != extents.len() {
            return Err(misfit(format!("{array} has {} axes", extents.len())));
        }
        Ok(Bound {
            array,
            buffer: owner.buffer,
            base: view.at,
            extents,
            strides,
            values: None,
        })
    }
}

/// An id with its name.
pub(super) fn named(id: impl std::fmt::Display, name: &str) -> String {
    match name {
        "" => id.to_string(),
        name => format!("{id} (`{name}`)"),
    }
}

fn missing(m: &Module, entry: &Entry, what: impl std::fmt::Display) -> Error {
    let list = |prefix: &str, names: Vec<&str>| -> Vec<String> {
        let ids = names.into_iter().enumerate();
        ids.map(|(k, name)| named(format!("{prefix}{k}"), name))
            .collect()
    };
    let params = m.params.iter().map(|p| p.name.as_str()).collect();
    let fields = m.fields.values().map(|f| f.name.as_str()).collect();
    let arrays = m.arrays.values().map(|a| a.name.as_str()).collect();
    let all = [list("p", params), list("f", fields), list("a", arrays)].concat();
    let has = if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    };
    entry
        .error(MISFIT, format!("there is no {what}"))
        .note(format!("the module has {has}"))
}

/// The name of a field, and the scalars of its elements.
pub(super) fn field(m: &Module, entry: &Entry, field: Field) -> Result<(String, Vec<Scalar>)> {
    let data = m.fields.get(field);
    let data = data.ok_or_else(|| missing(m, entry, field))?;
    Ok((named(field, &data.name), m.structs.flatten(data.elem)))
}

pub(super) fn array_of<'m>(m: &'m Module, entry: &Entry, array: Array) -> Result<&'m ArrayData> {
    let data = m.arrays.get(array);
    data.ok_or_else(|| missing(m, entry, array))
}

/// The largest number of elements of a field.
pub(super) fn cells(m: &Module, field: Field) -> u64 {
    let domain = m.fields[field].domain(&m.trees);
    domain.iter().fold(1, |n: u64, d| n.saturating_mul(d.1))
}

/// Checks that an element is in the domain of the field.
pub(super) fn inside(m: &Module, entry: &Entry, field: Field, at: &[i64]) -> Result<()> {
    let domain = m.fields[field].domain(&m.trees);
    let within = |((from, extent), c): (&(i64, u64), &i64)| {
        let distance = i128::from(*c) - i128::from(*from);
        (0..i128::from(*extent)).contains(&distance)
    };
    if domain.len() == at.len() && domain.iter().zip(at).all(within) {
        return Ok(());
    }
    let end = |d: &(i64, u64)| i128::from(d.0) + i128::from(d.1);
    let ranges: Vec<String> = domain
        .iter()
        .map(|d| format!("{}..{}", d.0, end(d)))
        .collect();
    let what = named(field, &m.fields[field].name);
    Err(entry
        .error(MISFIT, format!("{what} has no element {at:?}"))
        .note(format!("its elements are [{}]", ranges.join(", "))))
}

/// All coordinates of a field, row-major.
pub(super) fn points(m: &Module, field: Field) -> impl Iterator<Item = Vec<i64>> {
    let domain = m.fields[field].domain(&m.trees);
    (0..cells(m, field)).map(move |mut n| {
        let mut at = vec![0; domain.len()];
        for (c, (from, extent)) in at.iter_mut().zip(&domain).rev() {
            *c = from.wrapping_add((n % (*extent).max(1)) as i64);
            n /= (*extent).max(1);
        }
        at
    })
}

/// The coordinates that an entry lists.
pub(super) fn coordinates(m: &Module, entry: &Entry, field: Field) -> Result<Vec<Vec<i64>>> {
    let rank = m.fields[field].rank().max(1);
    let numbers = entry.items.numbers();
    let numbers = numbers.map_err(|why| entry.error(MISFIT, why))?;
    if !numbers.len().is_multiple_of(rank) {
        return Err(entry.error(MISFIT, format!("{field} has {rank} indices")));
    }
    Ok(numbers.chunks(rank).map(<[i64]>::to_vec).collect())
}

fn whole(entry: &Entry) -> Result<u64> {
    let words = entry.items.words();
    match words.as_deref() {
        Ok([word]) => {
            let why = || format!("`{word}` is not a whole number");
            word.parse().map_err(|_| entry.error(MISFIT, why()))
        }
        _ => Err(entry.error(MISFIT, "expected one number")),
    }
}

/// The scalars of `count` elements.
pub(super) fn scalars(entry: &Entry, what: &str, elem: &[Scalar], count: u64) -> Result<Vec<Imm>> {
    let values = entry.items.scalars(elem, count);
    values.map_err(|why| {
        entry
            .error(MISFIT, format!("{what} cannot have these values"))
            .note(why)
    })
}
