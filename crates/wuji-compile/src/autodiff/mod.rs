//! Differentiation of kernels, from module to module.
//!
//! [`reverse`] makes the kernel that accumulates gradients (a vector-Jacobian product), [`forward`] the kernel that
//! computes directional derivatives next to the values (a Jacobian-vector product). Both take a module of a frontend
//! and give one that the pipeline compiles like any other, so they compose. `docs/design/differentiation.md` has the
//! rules.

mod activity;
mod arrays;
mod cells;
mod element_variables;
mod exits;
mod forward;
mod forwarding;
mod iteration_elements;
mod nested;
mod normal;
mod partials;
mod parts;
mod presence;
mod reverse;
mod shape;
mod uses;

pub use cells::{CellUse, CellVersion, cell_uses, part_of, tree_uses};
#[doc(hidden)]
pub use normal::normalize;
pub use parts::parts;

use crate::passes::split_fields;
use crate::pipeline::explain;
use crate::remark::Remark;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Array, Field, Func};
use wuji_ir::layout::Child;
use wuji_ir::module::{Function, Module, Span};
use wuji_ir::ops::Place;
use wuji_ir::{Error, Result};

/// Where the derivatives of a kernel's data are: the adjoints of reverse mode, or the tangents of forward mode.
///
/// The fields and arrays are in the module already. What has no entry is a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derivatives {
    /// Fields with the fields of their derivatives.
    pub fields: FxHashMap<Field, Field>,
    /// Arrays with the arrays of their derivatives.
    pub arrays: FxHashMap<Array, Array>,
    /// For by-value parameters, by number: a field without axes.
    pub params: FxHashMap<u32, Field>,
    /// For the result of the kernel: a field without axes.
    pub result: Option<Field>,
    /// Fields whose adjoint becomes zero where the kernel has stored an element, because an earlier value of the
    /// element has an adjoint of its own. Reverse mode only. A tape adds those that earlier kernels access; `reverse`
    /// itself knows those that the kernel reads before it stores to them.
    pub overwritten: Vec<Field>,
    /// The same for arrays.
    pub overwritten_arrays: Vec<Array>,
    /// The kernel is a constant: what it stores has the tangent zero, whatever it computes it from. Forward mode only.
    pub constant: bool,
}

impl Derivatives {
    /// Adds a field or array to those whose adjoint becomes zero where the kernel has stored an element.
    pub fn add_overwritten(&mut self, place: Place) {
        match place {
            Place::Field(field) => self.overwritten.push(field),
            Place::Array(array) => self.overwritten_arrays.push(array),
            // They always are.
            Place::Local(_) | Place::Temp(_) => {}
        }
    }

    /// Whether the adjoint of an element becomes zero where the kernel has stored it.
    fn is_overwritten(&self, place: Place) -> bool {
        match place {
            Place::Field(field) => self.overwritten.contains(&field),
            Place::Array(array) => self.overwritten_arrays.contains(&array),
            Place::Temp(_) => true,
            Place::Local(_) => false,
        }
    }
}

/// A kernel of reverse mode, and what it relies on.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The derived kernel.
    pub module: Module,
    /// How it depends on fields of the kernel.
    pub uses: Vec<FieldUse>,
    /// How it depends on arrays of the kernel.
    pub array_uses: Vec<ArrayUse>,
    /// Remarks about serial loops.
    pub remarks: Vec<Remark>,
}

/// How a kernel uses a field, as far as it concerns gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldUse {
    /// The field.
    pub field: Field,
    /// What is done with it.
    pub kind: UseKind,
    /// The element, axis by axis.
    pub index: Vec<IndexRange>,
    /// Where in the source of the kernel.
    pub span: Span,
}

/// The same for an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayUse {
    /// The array.
    pub array: Array,
    /// What is done with it.
    pub kind: UseKind,
    /// The elements, one range per axis.
    pub index: Vec<IndexRange>,
    /// Where in the source of the kernel.
    pub span: Span,
}

/// What a kernel, or its gradient, does with a field.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum UseKind {
    /// The gradient kernel reads the values from before the kernel ran.
    NeedsOld,
    /// The gradient kernel reads the values that the kernel left, or that it did not change.
    NeedsNew,
    /// The kernel loads elements, so that the gradient kernel adds to their adjoints.
    Reads,
    /// The kernel stores to the field, or updates it by an atomic.
    Writes,
}

/// The index of an access along one axis.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexRange {
    /// A by-value parameter, if any, plus a constant.
    One {
        /// The number of the parameter.
        param: Option<u32>,
        /// The constant.
        offset: i64,
    },
    /// Any index.
    Any,
}

/// Adds a field for the derivatives of each field that has floats, in a tree of the same structure.
pub fn add_derivatives(m: &mut Module) -> Derivatives {
    let mut out = Derivatives::default();
    for tree in m.trees.keys().collect::<Vec<_>>() {
        let mut copy = m.trees[tree].clone();
        let new = m.trees.next_key();
        for node in copy.nodes.values_mut() {
            for child in &mut node.children {
                let Child::Place(field) = child else {
                    continue;
                };
                let mut data = m.fields[*field].clone();
                data.tree = new;
                data.name += ".grad";
                let added = m.fields.push(data);
                out.fields.insert(*field, added);
                *child = Child::Place(added);
            }
        }
        m.trees.push(copy);
    }
    let floats = |f: &Field| {
        let scalars = m.structs.flatten(m.fields[*f].elem);
        scalars.iter().any(|s| s.is_float())
    };
    out.fields.retain(|f, _| floats(f));
    out
}

/// The kernel that adds to the adjoints of its inputs what those of its outputs imply.
///
/// It runs after the kernel itself, on the values that the kernel has left or, where `uses` says so, those from before.
/// If it needs others, which the kernel overwrites, the kernel has [`parts`] with gradients of their own.
pub fn reverse(module: &Module, adjoints: &Derivatives) -> Result<Gradient> {
    let mut m = module.clone();
    normalize(&mut m)?;
    let Some(kernel) = m.kernel else {
        return Err(Error::new("W0330", format!("`{}` has no kernel", m.name)));
    };
    let mut second = None;
    for keep in [Keep::Nothing, Keep::SameMeaning, Keep::SameGradient] {
        keep.apply(&mut m, kernel)?;
        let f = &m.funcs[kernel];
        let uses = match uses::of(&m, f, adjoints) {
            Err(error) if !is_about_overwriting(&error) => return Err(error),
            uses => uses,
        };
        let suffices = uses.as_ref().is_ok_and(|u| keep.suffices(u, f));
        if keep == Keep::Nothing && !suffices {
            continue;
        }
        let found = uses.and_then(|uses| gradient_of_normal(&m, kernel, adjoints, uses));
        match found {
            Ok(found) if suffices => {
                explain(&found.remarks);
                return Ok(found);
            }
            Err(error) if !is_about_overwriting(&error) => return Err(error),
            found if keep == Keep::SameMeaning => second = Some(found),
            Ok(_) | Err(_) => {}
        }
    }
    // What the kernel itself can be run with says best why it has parts, or none.
    let found = second.unwrap_or_else(|| Err(Error::new("W0302", "no gradient was tried")))?;
    explain(&found.remarks);
    Ok(found)
}

/// Whether an error may disappear where elements are in variables.
fn is_about_overwriting(error: &Error) -> bool {
    matches!(error.code, "W0701" | "W0705" | "W0706")
}

/// Which elements become variables, so that the gradient needs values of one time only.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Keep {
    Nothing,
    /// Those where the kernel still does the same.
    SameMeaning,
    /// Those where it has the same gradient.
    SameGradient,
}

impl Keep {
    fn apply(self, m: &mut Module, kernel: Func) -> Result<()> {
        let Module { env, funcs, .. } = m;
        let f = &mut funcs[kernel];
        match self {
            Keep::Nothing => return Ok(()),
            Keep::SameMeaning => element_variables::promote_elements(env, f)?,
            Keep::SameGradient => iteration_elements::promote_for_gradient(env, f)?,
        }
        forwarding::forward_stores(env, f);
        Ok(())
    }

    /// Whether keeping more is of no use.
    fn suffices(self, uses: &uses::Uses, f: &Function) -> bool {
        !uses.needs_both() && (self != Keep::Nothing || !forwarding::has_products(f))
    }
}

/// The gradient of a kernel in normal form.
fn gradient_of_normal(
    m: &Module,
    kernel: Func,
    adjoints: &Derivatives,
    uses: uses::Uses,
) -> Result<Gradient> {
    let mut m = m.clone();
    let funcs = m.funcs.clone();
    let mut adjoints = adjoints.clone();
    for place in uses::read_and_overwritten(&funcs[kernel]) {
        adjoints.add_overwritten(place);
    }
    let (gradient, remarks) = reverse::gradient(&mut m.env, &funcs, kernel, &adjoints)?;
    m.set_func(kernel, gradient);
    m.add_defined();
    m.env.name += ".grad";
    wuji_ir::verify::verify(&m)?;
    Ok(Gradient {
        module: m,
        uses: uses.fields,
        array_uses: uses.arrays,
        remarks,
    })
}

/// The kernel that also computes the tangents of its outputs, once for each entry of `tangents`.
pub fn forward(module: &Module, tangents: &[Derivatives]) -> Result<Module> {
    forward::forward(module, tangents)
}

/// The gradient kernel of a module, with a derivative for each field that has floats.
pub fn gradient_of(mut m: Module) -> Result<Module> {
    split_fields::split(&mut m);
    let adjoints = add_derivatives(&mut m);
    Ok(reverse(&m, &adjoints)?.module)
}

/// The kernel of a module that computes derivatives along one direction too.
pub fn tangent_of(mut m: Module) -> Result<Module> {
    split_fields::split(&mut m);
    let tangents = add_derivatives(&mut m);
    forward(&m, &[tangents])
}
