//! Services: small kernels for host access to sparse trees, compiled at first use.
//!
//! Only compiled code knows how to find a cell. So the host reads and writes elements by kernels, too,
//! and all backends agree.

use crate::autodiff::{CellChange, Extent};
use crate::launch::Compiled;
use crate::layout::{TreeBody, TreeInner, TreeShape, nothing};
use smallvec::SmallVec;
use std::sync::Arc;
use wuji_compile::passes::split_fields;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Array, Field, Node, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::layout::{Child, FieldData};
use wuji_ir::module::{ArrayData, Function, Module, Param, TempData, Term, Values};
use wuji_ir::ops::{Access, Activation, AtomicOp, BinOp, CellOp, CmpOp, Domain, Op, Place};
use wuji_ir::random::GOLDEN;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};
use wuji_runtime::array::ArrayArg;
use wuji_runtime::{Bindings, CodeTime};

/// Which service. Parameters: indices as `i64`, then a value.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Service {
    /// An element.
    Get,
    Set,
    /// `bool`.
    IsActive,
    Activate,
    Deactivate,
    /// Number of the new cell of a list, which gets the value; of a view there is none.
    Append,
    Length,
    /// How many cells are active, `i64`.
    Count,
    /// Coordinates of the active cells to an array of `i32`, one row each. Returns how many there are;
    /// the array may be too short for them.
    List,
    /// As `List`, with the elements to another array.
    Export,
    /// As `List` and `Export`, of the cells of one [part](ServiceSpec::is_in_part). Parameters: which part, and of how many.
    ListPart,
    ExportPart,
    /// The opposite: elements at the coordinates in an array get the values in another one.
    Import,
    /// A value for all active elements.
    Fill,
    DeactivateAll,
    /// Coordinates of the active cells of a node to an array of `i64`, one row each, as `List`.
    ListCells,
    ListCellsPart,
    /// Activates the cells of a node at the coordinates in an array of `i64`.
    ActivateCells,
    /// As `Import`, only for elements that are active.
    ImportActive,
    /// The elements of a box to an array: the parameters are the box, half-open, first the lower
    /// ends.
    ReadBox,
    WriteBox,
    /// As `WriteBox`, of words of which only the bits of a mask are written; it is the value.
    WriteBits,
    FillBox,
}

impl Service {
    /// How much of a field it writes to.
    fn writes(self) -> Option<Extent> {
        match self {
            Service::Fill => Some(Extent::Whole),
            Service::Set | Service::Append | Service::Import => Some(Extent::Some),
            // Boxes know whether they are the whole field.
            Service::WriteBox
            | Service::WriteBits
            | Service::FillBox
            | Service::Get
            | Service::IsActive
            | Service::Activate
            | Service::Deactivate
            | Service::Length
            | Service::Count
            | Service::List
            | Service::ListPart
            | Service::Export
            | Service::ExportPart
            | Service::DeactivateAll
            | Service::ListCells
            | Service::ListCellsPart
            | Service::ActivateCells
            | Service::ImportActive
            | Service::ReadBox => None,
        }
    }

    /// How it changes which cells are active, as far as tapes have to know.
    fn changes_cells(self) -> Option<CellChange> {
        match self {
            Service::Set
            | Service::Activate
            | Service::Append
            | Service::Import
            | Service::WriteBox
            | Service::WriteBits
            | Service::FillBox => Some(CellChange::Activates),
            Service::Deactivate | Service::DeactivateAll => Some(CellChange::Deactivates),
            Service::Get
            | Service::IsActive
            | Service::Length
            | Service::Count
            | Service::List
            | Service::ListPart
            | Service::Export
            | Service::ExportPart
            | Service::Fill
            | Service::ReadBox => None,
            // Tapes themselves use these.
            Service::ListCells
            | Service::ListCellsPart
            | Service::ActivateCells
            | Service::ImportActive => None,
        }
    }
}

/// The field or node that a service works on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Subject {
    Field(Field),
    Node(Node),
}

/// The key of the code: the address of a shape, which the world keeps alive.
pub(crate) type ServiceKey = (usize, Subject, Service);

impl TreeInner {
    /// The code of a service.
    pub(crate) fn service(
        &self,
        subject: Subject,
        service: Service,
    ) -> Result<(Arc<Compiled>, &TreeBody)> {
        let body = self.body()?;
        let key = (Arc::as_ptr(&body.shape).addr(), subject, service);
        if let Some(compiled) = self.world.service(&key) {
            return Ok((compiled, body));
        }
        let module = module(body, subject, service)?;
        // A fill can wait in the window of a lazy world.
        let compiled = if self.world.lazy().is_some() && service == Service::Fill {
            let program = self.world.load_service(module.clone(), CodeTime::FirstRun);
            Compiled::new(program?).with_source(module)
        } else {
            Compiled::new(self.world.load_service(module, CodeTime::Load)?)
        };
        Ok((self.world.enter_service(key, compiled), body))
    }

    /// Runs a service; gives the scalars of its result.
    pub(crate) fn serve(
        &self,
        subject: Subject,
        service: Service,
        params: &[u64],
        arrays: &[ArrayArg<'_>],
    ) -> Result<SmallVec<[u64; 4]>> {
        let body = self.body()?;
        self.world.run_pending()?;
        if let Subject::Field(field) = subject
            && let Some(extent) = service.writes()
        {
            self.before_write(field, extent)?;
        }
        let change = service
            .changes_cells()
            .filter(|_| body.shape.data.is_sparse());
        let pending = change.map(|change| self.before_cells(change)).transpose()?;
        let (compiled, body) = self.service(subject, service)?;
        let bindings = Bindings {
            params,
            trees: &[&body.memory],
            arrays,
        };
        let (device, program) = (self.world.device(), compiled.program());
        let outcome = match service {
            // Asynchronous, as all launches.
            Service::Fill | Service::FillBox | Service::DeactivateAll => {
                device.run(program, &bindings)
            }
            _ => device.run_to_end(program, &bindings),
        }?;
        if let Some(pending) = pending {
            self.after_cells(pending)?;
        }
        match compiled.error_of(&[body], arrays, &outcome) {
            Some(error) => Err(error),
            None => Ok(outcome.result),
        }
    }
}

/// The kernel of a service, before any pass.
fn module(body: &TreeBody, subject: Subject, service: Service) -> Result<Module> {
    let mut m = Module::new(format!("{service:?}").to_lowercase());
    body.shape.enter(&mut m, &body.names);
    let field = match subject {
        Subject::Field(field) => field,
        Subject::Node(node) => view_of(&mut m, &body.shape, node),
    };
    let elem = m.fields[field].elem;
    let plan = ServiceSpec {
        field,
        elem,
        rank: m.fields[field].rank(),
        view: m.structs.size_align(elem).0 == 0,
    };
    let mut params = Vec::new();
    let indices = match service {
        Service::Get
        | Service::Set
        | Service::IsActive
        | Service::Activate
        | Service::Deactivate => plan.rank,
        Service::Append | Service::Length => plan.rank.saturating_sub(1),
        Service::Count
        | Service::List
        | Service::Export
        | Service::Import
        | Service::Fill
        | Service::ListCells
        | Service::ActivateCells
        | Service::ImportActive
        | Service::DeactivateAll => 0,
        Service::ListPart | Service::ListCellsPart | Service::ExportPart => 2,
        Service::ReadBox | Service::WriteBox | Service::WriteBits | Service::FillBox => {
            2 * plan.rank
        }
    };
    params.extend((0..indices).map(|_| Type::Scalar(Scalar::I64)));
    let valued = match service {
        Service::Set | Service::Fill | Service::FillBox | Service::WriteBits => true,
        Service::Append => !plan.view,
        _ => false,
    };
    params.extend(valued.then_some(elem));
    let result = match service {
        Service::Get => Some(elem),
        Service::IsActive => Some(Type::Scalar(Scalar::Bool)),
        Service::Append | Service::Length => Some(Type::Scalar(Scalar::I32)),
        Service::Count
        | Service::List
        | Service::ListPart
        | Service::ListCells
        | Service::ListCellsPart
        | Service::Export
        | Service::ExportPart => Some(I64),
        _ => None,
    };
    plan.add_arrays(&mut m, service);
    let results: Vec<Type> = result.into_iter().collect();
    let mut f = Function::new(m.name.clone(), &params, &results);
    m.params = params
        .iter()
        .map(|ty| Param {
            name: String::new(),
            ty: *ty,
        })
        .collect();
    let values = f.params().to_vec();
    let mut b = Builder::new(&mut m, &mut f);
    let value = plan.body(&mut b, service, &values)?;
    b.end(Term::Return(value.into_iter().collect()));
    m.kernel = Some(m.add_func(f));
    split_fields::split(&mut m);
    Ok(m)
}

/// A view of any node. It takes no bytes, so the memory of the tree stays as it is.
fn view_of(m: &mut Module, shape: &TreeShape, node: Node) -> Field {
    let elem = nothing(&mut m.structs);
    let field = m.fields.push(FieldData {
        name: "cells".into(),
        elem,
        tree: wuji_ir::entities::Tree::from_u32(0),
        node,
        axes: (shape.data.axes(node).into_iter())
            .map(|axis| (axis, 0))
            .collect(),
        packing: None,
        components: Vec::new(),
    });
    let tree = &mut m.trees[wuji_ir::entities::Tree::from_u32(0)];
    tree.nodes[node].children.push(Child::Place(field));
    field
}

struct ServiceSpec {
    field: Field,
    elem: Type,
    rank: usize,
    view: bool,
}

const I64: Type = Type::Scalar(Scalar::I64);

impl ServiceSpec {
    fn add_arrays(&self, m: &mut Module, service: Service) {
        let mut add = |elem: Type, rank: usize, writable: bool| {
            m.arrays.push(ArrayData {
                name: String::new(),
                elem,
                rank: rank as u8,
                writable,
                contiguous: true,
                unaliased: true,
                shape: None,
            });
        };
        match service {
            Service::ListCells | Service::ListCellsPart => add(I64, 2, true),
            Service::ActivateCells => add(I64, 2, false),
            Service::List | Service::ListPart => add(Type::Scalar(Scalar::I32), 2, true),
            Service::Export | Service::ExportPart | Service::Import | Service::ImportActive => {
                let writable = matches!(service, Service::Export | Service::ExportPart);
                add(Type::Scalar(Scalar::I32), 2, writable);
                if !self.view {
                    add(self.elem, 1, writable);
                }
            }
            Service::ReadBox => add(self.elem, self.rank.max(1), true),
            Service::WriteBox | Service::WriteBits => add(self.elem, self.rank.max(1), false),
            _ => {}
        }
    }

    fn place(&self) -> Place {
        Place::Field(self.field)
    }

    /// Fills the kernel; gives its result.
    fn body(
        &self,
        b: &mut Builder<'_>,
        service: Service,
        params: &[Value],
    ) -> Result<Option<Value>> {
        let cell = |op: CellOp| Op::Cell(op, self.field);
        Ok(match service {
            Service::Get => Some(b.load(self.place(), params)),
            Service::Set => {
                b.push(Op::Store(Access::write(self.place())), params);
                None
            }
            Service::IsActive => Some(b.value(cell(CellOp::IsActive), params)),
            Service::Activate => {
                b.push(cell(CellOp::Activate), params);
                None
            }
            Service::Deactivate => {
                b.push(cell(CellOp::Deactivate), params);
                None
            }
            Service::Length => Some(b.value(cell(CellOp::Length), params)),
            Service::Append => Some(self.append(b, params)?),
            Service::Count => Some(self.count(b, params, |_, _, _| {})),
            Service::List | Service::ListPart => Some(self.export(b, params, Scalar::I32, false)),
            Service::ListCells | Service::ListCellsPart => {
                Some(self.export(b, params, Scalar::I64, false))
            }
            Service::Export | Service::ExportPart => {
                Some(self.export(b, params, Scalar::I32, true))
            }
            Service::Import | Service::ActivateCells => {
                self.import(b, Activation::IfAbsent);
                None
            }
            Service::ImportActive => {
                self.import(b, Activation::Never);
                None
            }
            Service::Fill => {
                let mut access = Access::write(self.place());
                access.activation = Activation::Never;
                self.each(b, |b, at| {
                    let mut args = at.to_vec();
                    args.extend(params);
                    b.push(Op::Store(access), &args);
                });
                None
            }
            Service::DeactivateAll => {
                // The iterations share the chunks of a list.
                let op = if dynamic_index(b.env, self.field).is_ok() {
                    CellOp::DeactivateChunk
                } else {
                    CellOp::Deactivate
                };
                self.each(b, |b, at| {
                    b.push(Op::Cell(op, self.field), at);
                });
                None
            }
            Service::ReadBox => {
                self.each_in_box(b, params, |b, at, from| {
                    let value = b.load(self.place(), at);
                    b.store(Place::Array(array(0)), from, value);
                });
                None
            }
            Service::WriteBox => {
                self.each_in_box(b, params, |b, at, from| {
                    let value = b.load(Place::Array(array(0)), from);
                    b.store(self.place(), at, value);
                });
                None
            }
            Service::WriteBits => {
                let (ends, mask) = params.split_at(2 * self.rank);
                self.each_in_box(b, ends, |b, at, from| {
                    let old = b.load(self.place(), at);
                    let new = b.load(Place::Array(array(0)), from);
                    let change = b.binary(BinOp::Xor, old, new);
                    let change = b.binary(BinOp::And, change, mask[0]);
                    let value = b.binary(BinOp::Xor, old, change);
                    b.store(self.place(), at, value);
                });
                None
            }
            Service::FillBox => {
                let (ends, value) = params.split_at(2 * self.rank);
                self.each_in_box(b, ends, |b, at, _| {
                    b.store(self.place(), at, value[0]);
                });
                None
            }
        })
    }

    /// A parallel loop over the active cells.
    fn each(&self, b: &mut Builder<'_>, body: impl FnOnce(&mut Builder<'_>, &[Value])) {
        b.foreach(Domain::Field(self.field), &[], self.rank, body);
    }

    /// A loop over a box, with the coordinates and those counted from the corner of the box.
    fn each_in_box(
        &self,
        b: &mut Builder<'_>,
        ends: &[Value],
        body: impl FnOnce(&mut Builder<'_>, &[Value], &[Value]),
    ) {
        if self.rank == 0 {
            let zero = b.i64(0);
            return body(b, &[], &[zero]);
        }
        let (low, high) = ends.split_at(self.rank);
        let args: Vec<Value> = low.iter().zip(high).flat_map(|(l, h)| [*l, *h]).collect();
        let rank = self.rank as u8;
        b.foreach(Domain::Range { rank }, &args, self.rank, |b, at| {
            let from: Vec<Value> = (at.iter().zip(low))
                .map(|(c, l)| b.binary(BinOp::Sub, *c, *l))
                .collect();
            body(b, at, &from);
        });
    }

    /// A loop over the active cells that numbers them; gives how many there are. `part`: only over those of one part.
    fn count(
        &self,
        b: &mut Builder<'_>,
        part: &[Value],
        body: impl FnOnce(&mut Builder<'_>, &[Value], Value),
    ) -> Value {
        let temp = b.env.temps.push(TempData { ty: I64 });
        let zero = b.i64(0);
        b.store(Place::Temp(temp), &[], zero);
        self.each(b, |b, at| {
            let visit = |b: &mut Builder<'_>| {
                let one = b.i64(1);
                let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Temp(temp)));
                let number = b.value(add, &[one]);
                body(b, at, number);
                Values::new()
            };
            if let [part, parts] = *part {
                let is_in_part = ServiceSpec::is_in_part(b, at, part, parts);
                b.if_else(is_in_part, &[], visit, |_| Values::new());
            } else {
                visit(b);
            }
        });
        b.load(Place::Temp(temp), &[])
    }

    /// Whether a cell is in a part: by a hash of its coordinates, so that parts have about the same size, wherever the cells are.
    /// Checkpoints depend on it.
    fn is_in_part(b: &mut Builder<'_>, at: &[Value], part: Value, parts: Value) -> Value {
        let (factor, half) = (b.i64(GOLDEN as i64), b.i64(32));
        let mut hash = b.i64(0);
        for c in at {
            let sum = b.binary(BinOp::Add, hash, *c);
            let product = b.binary(BinOp::Mul, sum, factor);
            let high = b.binary(BinOp::Shr, product, half);
            hash = b.binary(BinOp::Xor, product, high);
        }
        let mask = b.i64(0x7fff_ffff);
        let hash = b.binary(BinOp::And, hash, mask);
        let own = b.binary(BinOp::Rem, hash, parts);
        b.compare(CmpOp::Eq, own, part)
    }

    fn export(
        &self,
        b: &mut Builder<'_>,
        part: &[Value],
        coordinate: Scalar,
        values: bool,
    ) -> Value {
        self.count(b, part, |b, at, number| {
            let room = b.value(Op::ArrayExtent(array(0), 0), &[]);
            let fits = b.compare(CmpOp::Lt, number, room);
            let store = |b: &mut Builder<'_>| {
                for (k, c) in at.iter().enumerate() {
                    let k = b.i64(k as i64);
                    let c = b.convert(*c, coordinate);
                    b.store(Place::Array(array(0)), &[number, k], c);
                }
                if values {
                    let value = b.load(self.place(), at);
                    b.store(Place::Array(array(1)), &[number], value);
                }
                Values::new()
            };
            b.if_else(fits, &[], store, |_| Values::new());
        })
    }

    fn import(&self, b: &mut Builder<'_>, activation: Activation) {
        let zero = b.i64(0);
        let count = b.value(Op::ArrayExtent(array(0), 0), &[]);
        let domain = Domain::Range { rank: 1 };
        b.foreach(domain, &[zero, count], 1, |b, n| {
            let at: Vec<Value> = (0..self.rank)
                .map(|k| {
                    let k = b.i64(k as i64);
                    b.load(Place::Array(array(0)), &[n[0], k])
                })
                .collect();
            if self.view {
                b.push(Op::Cell(CellOp::Activate, self.field), &at);
            } else {
                let value = b.load(Place::Array(array(1)), n);
                let mut access = Access::write(self.place());
                access.activation = activation;
                let mut args = at;
                args.push(value);
                b.push(Op::Store(access), &args);
            }
        });
    }

    fn append(&self, b: &mut Builder<'_>, params: &[Value]) -> Result<Value> {
        let list = dynamic_index(b.env, self.field).map_err(|e| Error::new("W0126", e))?;
        let (at, value) = params.split_at(self.rank.saturating_sub(1));
        let number = b.value(Op::Cell(CellOp::Append, self.field), at);
        if let [value] = *value {
            let zero = b.int(Scalar::I32, 0);
            let there = b.compare(CmpOp::Ge, number, zero);
            let mut indices = at.to_vec();
            indices.insert(list, number);
            let store = |b: &mut Builder<'_>| {
                b.store(self.place(), &indices, value);
                Values::new()
            };
            b.if_else(there, &[], store, |_| Values::new());
        }
        Ok(number)
    }
}

fn array(number: u32) -> Array {
    Array::from_u32(number)
}
