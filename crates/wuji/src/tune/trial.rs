//! One run of a program in Rust, whose fields are stored by a plan.

use super::search::{Observation, Output, StoragePlan};
use super::storage::TunedField;
use super::watch::{Watch, to_f64};
use crate::dynamic;
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::layout::Node;
use crate::world::{World, here};
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result, entities};

/// One run of a program: it places the fields whose types are chosen, and takes the outputs.
#[derive(Debug)]
pub struct Trial<'p> {
    plan: &'p StoragePlan,
    watch: Arc<Watch>,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    placed: Vec<Placed>,
    /// Bit structs so far: the node, the number in the plan of the node, and the number in the layout.
    packs: Vec<(NodeKey, usize, usize)>,
    outputs: Vec<Output>,
    error: Option<Error>,
}

/// A node of a tree.
type NodeKey = (usize, entities::Node);

#[derive(Debug)]
struct Placed {
    name: String,
    handle: FieldHandle,
    node: NodeKey,
    compute: Scalar,
    shape: Vec<usize>,
}

impl<'p> Trial<'p> {
    pub(super) fn new(plan: &'p StoragePlan) -> Trial<'p> {
        Trial {
            plan,
            watch: Arc::default(),
            state: RefCell::default(),
        }
    }

    /// The types of this run.
    pub fn plan(&self) -> &StoragePlan {
        self.plan
    }

    /// Places a field whose type is chosen: the elements are scalars, vectors or matrices. Fields that are placed in the same
    /// node share words.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(&self, node: Node<'_>, name: &str) -> Field<T, D> {
        let at = Location::caller();
        let field = self.place_by_plan(node, name);
        let mut state = self.state.borrow_mut();
        let ty = T::ir_type(&mut Structs::default());
        match element(ty) {
            Some((compute, shape)) => state.placed.push(Placed {
                name: name.to_owned(),
                handle: Field::<T, D>::handle(&field).clone(),
                node: node.key(),
                compute,
                shape,
            }),
            None => {
                let what = format!(
                    "the types of field `{name}` cannot be chosen: its elements are structs"
                );
                let error = Error::new("W0160", what)
                    .at(Some(here(at)))
                    .help("place its members as fields of their own");
                state.error.get_or_insert(error);
            }
        }
        if self.plan.is_reference() {
            self.watch.add_handle(field.handle());
            self.watch.start(field.world());
        }
        field
    }

    #[track_caller]
    fn place_by_plan<T: Element, const D: usize>(&self, node: Node<'_>, name: &str) -> Field<T, D> {
        let number = self.plan.number(name);
        let storage = number.map(|n| self.plan.fields[n].1);
        let packed = storage.and_then(|s| Some((s, s.quantized()?)));
        let pack = number.and_then(|n| self.plan.pack(n));
        let (Some((storage, ty)), Some((group, pack))) = (packed, pack) else {
            return node.place(name);
        };
        let layout = &self.plan.nodes[group];
        let key = (node.key(), pack);
        let packs = &mut self.state.borrow_mut().packs;
        let known = packs.iter().find(|p| (p.0, p.1) == key).map(|p| p.2);
        let word = match known {
            Some(number) => node.known_bit_struct(number),
            None => {
                let new = if layout.packs[pack].used.len() > 1 {
                    node.bit_structs(layout.word)
                } else {
                    node.bit_struct(layout.word)
                };
                packs.push((key.0, key.1, new.number()));
                new
            }
        };
        if storage.is_shared() {
            word.shared_exponent().place(name, ty)
        } else {
            word.place(name, ty)
        }
    }

    /// An output: all elements of a field. Inactive ones are zero.
    #[track_caller]
    pub fn output<T: Element, const D: usize>(
        &self,
        name: &str,
        field: &Field<T, D>,
    ) -> Result<()> {
        self.output_numbers(name, &numbers(field)?);
        Ok(())
    }

    /// An output: numbers, such as an energy.
    pub fn output_numbers(&self, name: &str, values: &[f64]) {
        let output = Output::new(name, values);
        self.state.borrow_mut().outputs.push(output);
    }

    /// What the run gave.
    pub(super) fn finish(self) -> Result<Observation> {
        let mut state = self.state.take();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let mut found = Observation {
            fields: Vec::new(),
            outputs: state.outputs,
        };
        if !self.plan.is_reference() {
            return Ok(found);
        }
        for placed in &state.placed {
            Watch::stop(placed.handle.world());
        }
        let ranges = self.watch.ranges()?;
        let mut nodes: Vec<NodeKey> = Vec::new();
        for (placed, range) in state.placed.into_iter().zip(ranges) {
            let known = nodes.iter().position(|n| *n == placed.node);
            let node = known.unwrap_or_else(|| {
                nodes.push(placed.node);
                nodes.len() - 1
            });
            found.fields.push(TunedField {
                cells: cells(&placed.handle)?,
                name: placed.name,
                compute: placed.compute,
                shape: placed.shape,
                node,
                range,
            });
        }
        Ok(found)
    }

    /// Ends the observation of a run that failed.
    pub(super) fn stop(&self) {
        for placed in &self.state.borrow().placed {
            Watch::stop(placed.handle.world());
        }
    }
}

/// All scalars of a field, row by row; those of inactive elements are zero.
#[track_caller]
pub(super) fn numbers<T: Element, const D: usize>(field: &Field<T, D>) -> Result<Vec<f64>> {
    let mut structs = Structs::default();
    let ty = T::ir_type(&mut structs);
    let scalars = structs.flatten(ty);
    let mut slots = vec![0; T::SCALARS];
    let mut values = Vec::new();
    for element in field.to_vec()? {
        element.to_slots(&mut slots);
        let pairs = slots.iter().zip(&scalars);
        values.extend(pairs.map(|(slot, s)| to_f64(*s, *slot)));
    }
    Ok(values)
}

/// The elements that exist: all of a dense field, otherwise those that are active now.
fn cells(handle: &FieldHandle) -> Result<u64> {
    if handle.is_dense()? {
        let domain = handle.domain()?.iter();
        return Ok(domain.fold(1, |n: u64, d| n.saturating_mul(d.1)));
    }
    dynamic::Field::of(&handle.tree(), handle.field.as_u32())?.count_active()
}

/// The scalar type and the extents of an element; `None` for a struct.
pub fn element(ty: Type) -> Option<(Scalar, Vec<usize>)> {
    match ty {
        Type::Scalar(scalar) => Some((scalar, Vec::new())),
        Type::Vector(scalar, n) => Some((scalar, vec![n.into()])),
        Type::Matrix(scalar, n, m) => Some((scalar, vec![n.into(), m.into()])),
        Type::Struct(_) => None,
    }
}

impl World {
    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watch().is_some()
    }
}
