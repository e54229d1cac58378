//! Precomputed data of a module: the number of scalars of everything.
//!
//! Values of every type are stored as runs of scalars. A frame has one run for each value of its function,
//! and one for each local.

use super::error::{TOO_LARGE, stop};
use crate::Result;
use crate::entities::{Func, Local, StructId, Value};
use crate::module::{Function, Module, SiteKind};
use crate::types::{Imm, Scalar, Type};
use cranelift_entity::{PrimaryMap, SecondaryMap};

/// The most scalars in one type or one activation.
const MAX_SCALARS: u64 = 1 << 24;

/// A run of scalars, relative to the start of a frame.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
}

#[derive(Debug)]
pub(super) struct Prepared {
    /// The offset of each field of a struct in scalars; the last entry is the total.
    structs: PrimaryMap<StructId, Vec<usize>>,
    pub(super) funcs: PrimaryMap<Func, FrameLayout>,
}

#[derive(Debug)]
pub(super) struct FrameLayout {
    pub(super) values: SecondaryMap<Value, Run>,
    pub(super) size: usize,
    /// The run of one element; arrays have `len` of them.
    pub(super) locals: PrimaryMap<Local, LocalRun>,
    /// All locals of a new activation.
    pub(super) zeros: Vec<Imm>,
    /// Whether it is recursive, directly or not.
    pub(super) recursive: bool,
    /// Whether lowered code itself checks the recursion depth.
    pub(super) reports_depth: bool,
}

#[derive(Debug)]
pub(super) struct LocalRun {
    pub(super) start: usize,
    pub(super) elem: usize,
    pub(super) len: Option<u32>,
    pub(super) shared: bool,
}

impl LocalRun {
    pub(super) fn scalars(&self) -> usize {
        self.elem * self.len.unwrap_or(1) as usize
    }
}

impl Prepared {
    pub(super) fn new(m: &Module) -> Result<Prepared> {
        let mut structs: PrimaryMap<StructId, Vec<usize>> = PrimaryMap::new();
        for st in m.structs.0.values() {
            let mut starts = vec![0];
            let mut at = 0u64;
            for (_, ty) in &st.fields {
                at += scalars(&structs, *ty) as u64;
                if at > MAX_SCALARS {
                    return Err(stop(TOO_LARGE, format!("`{}` is too large", st.name)));
                }
                starts.push(at as usize);
            }
            structs.push(starts);
        }
        let recursive = recursive_funcs(m);
        let mut funcs: PrimaryMap<Func, FrameLayout> = PrimaryMap::new();
        for (id, f) in &m.funcs {
            funcs.push(FrameLayout::new(m, f, &structs, recursive[id])?);
        }
        for site in m.sites.values() {
            if let SiteKind::TooDeep(f) = site.kind {
                funcs[f].reports_depth = true;
            }
        }
        Ok(Prepared { structs, funcs })
    }

    pub(super) fn scalars(&self, ty: Type) -> usize {
        scalars(&self.structs, ty)
    }

    /// Where component `k`, one level down, starts among the scalars of a type.
    pub(super) fn component_start(&self, ty: Type, k: u32) -> usize {
        match ty {
            Type::Scalar(_) => 0,
            Type::Vector(..) | Type::Matrix(..) => k as usize,
            Type::Struct(id) => self.structs[id][k as usize],
        }
    }
}

fn scalars(structs: &PrimaryMap<StructId, Vec<usize>>, ty: Type) -> usize {
    match ty {
        Type::Scalar(_) => 1,
        Type::Vector(..) | Type::Matrix(..) => ty.lanes().unwrap_or(0) as usize,
        Type::Struct(id) => structs[id].last().copied().unwrap_or(0),
    }
}

impl FrameLayout {
    fn new(
        m: &Module,
        f: &Function,
        structs: &PrimaryMap<StructId, Vec<usize>>,
        recursive: bool,
    ) -> Result<FrameLayout> {
        let too_large = || stop(TOO_LARGE, format!("`{}` needs too much memory", f.name));
        let mut values = SecondaryMap::new();
        let mut size = 0;
        for (v, data) in &f.values {
            let len = scalars(structs, data.ty);
            values[v] = Run { start: size, len };
            size += len;
            if size as u64 > MAX_SCALARS {
                return Err(too_large());
            }
        }
        let mut locals: PrimaryMap<Local, LocalRun> = PrimaryMap::new();
        let mut zeros = Vec::new();
        for local in f.locals.values() {
            let elem = scalars(structs, local.ty);
            let count = u64::from(local.len.unwrap_or(1));
            if count * elem as u64 + zeros.len() as u64 > MAX_SCALARS {
                return Err(too_large());
            }
            locals.push(LocalRun {
                start: zeros.len(),
                elem,
                len: local.len,
                shared: local.shared,
            });
            let element: Vec<Imm> = zero(m, local.ty);
            for _ in 0..count {
                zeros.extend_from_slice(&element);
            }
        }
        Ok(FrameLayout {
            values,
            size,
            locals,
            zeros,
            recursive,
            reports_depth: false,
        })
    }
}

/// The scalars of the zero value of a type.
pub(super) fn zero(m: &Module, ty: Type) -> Vec<Imm> {
    match ty {
        Type::Scalar(s) => vec![Imm::zero(s)],
        _ => m.structs.flatten(ty).into_iter().map(Imm::zero).collect(),
    }
}

/// The type of an empty slot.
pub(super) const EMPTY: Scalar = Scalar::Bool;

/// Functions on a cycle of the call graph.
fn recursive_funcs(m: &Module) -> SecondaryMap<Func, bool> {
    let mut recursive = SecondaryMap::new();
    for (id, f) in &m.funcs {
        recursive[id] = m.called_from(f).contains(&id);
    }
    recursive
}
