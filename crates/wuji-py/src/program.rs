//! Compiled kernels.

use crate::buffer::{BorrowedArray, StreamOrder};
use crate::convert::{flat, slot, value};
use crate::dlpack::{Consumer, consumer};
use crate::error::{raised, unfit};
use crate::waiting::{detached, failed};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyNotImplemented, PyTuple};
use smallvec::SmallVec;
use wuji::dynamic::autodiff::{self, IndexRange, UseKind};
use wuji::dynamic::{ArrayArg, ArrayOwner, Kernel, Launched, is_recording, unaliased};
use wuji::{Error, Position};
use wuji_ir::entities::{Array, Node, Tree};
use wuji_ir::module::{ArrayData, Module, Span};
use wuji_ir::types::{Scalar, Type};

/// A compiled kernel.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Program {
    kernel: Kernel,
    /// The module before any pass.
    module: Module,
    /// The GPU and stream that use foreign arrays, if the world is on a GPU.
    consumer: Consumer,
    /// How each argument of a call is passed.
    passing: Vec<Argument>,
    slots: usize,
    arrays: Vec<ArraySpec>,
    /// Whether the result is a single scalar, and its scalars.
    result: Option<(bool, Vec<Scalar>)>,
    /// Of a gradient kernel: how it and its kernel use fields.
    uses: Vec<Use>,
    /// The same for arrays.
    array_uses: Vec<Use>,
    /// How its kernel uses the active cells of sparse trees.
    cells: Vec<CellUseTuple>,
}

/// How a kernel and its gradient use a field or array.
pub(crate) struct Use {
    number: u32,
    kind: &'static str,
    /// Along each axis: a parameter, if any, plus a constant; or anything.
    index: Vec<Option<(Option<u32>, i64)>>,
    /// The source line.
    at: String,
}

impl Use {
    /// How a kernel and its gradient use fields, and arrays.
    pub(crate) fn all(module: &Module, gradient: &autodiff::Gradient) -> (Vec<Use>, Vec<Use>) {
        let fields = gradient.uses.iter();
        let fields = fields.map(|u| Use::of(module, u.field.as_u32(), u.kind, &u.index, u.span));
        let arrays = gradient.array_uses.iter();
        let arrays = arrays.map(|u| Use::of(module, u.array.as_u32(), u.kind, &u.index, u.span));
        (fields.collect(), arrays.collect())
    }

    fn of(module: &Module, number: u32, kind: UseKind, index: &[IndexRange], span: Span) -> Use {
        Use {
            number,
            kind: match kind {
                UseKind::NeedsOld => "old",
                UseKind::NeedsNew => "new",
                UseKind::Reads => "reads",
                UseKind::Writes => "writes",
            },
            index: (index.iter())
                .map(|range| match range {
                    IndexRange::One { param, offset } => Some((*param, *offset)),
                    IndexRange::Any => None,
                })
                .collect(),
            at: Position::of(module, span).map_or_else(String::new, |at| at.to_string()),
        }
    }

    fn tuple(&self) -> UseTuple<'_> {
        (self.number, self.kind, self.index.clone(), &*self.at)
    }
}

/// How an argument is passed.
#[derive(Clone)]
pub(crate) enum Argument {
    /// A scalar in one slot.
    Number(Scalar, usize),
    /// Scalars in consecutive slots, from this one on.
    Flat(Vec<Scalar>, usize),
    /// The n-th array.
    Array(usize),
}

/// What the compiled code requires of an array.
struct ArraySpec {
    scalar: Scalar,
    lanes: usize,
    rank: usize,
    /// Shape of an element.
    element: SmallVec<[i64; 2]>,
    writable: bool,
    contiguous: bool,
    unaliased: bool,
}

impl ArraySpec {
    fn of(data: &ArrayData) -> Option<ArraySpec> {
        Some(ArraySpec {
            scalar: data.elem.elem()?,
            lanes: data.elem.lanes()? as usize,
            rank: data.rank.into(),
            element: match data.elem {
                Type::Scalar(_) | Type::Struct(_) => SmallVec::new(),
                Type::Vector(_, n) => SmallVec::from_slice(&[n.into()]),
                Type::Matrix(_, r, c) => SmallVec::from_slice(&[r.into(), c.into()]),
            },
            writable: data.writable,
            contiguous: data.contiguous,
            unaliased: data.unaliased,
        })
    }

    /// Whether the compiled code can work on an array.
    fn fits(&self, lent: &BorrowedArray<'_>) -> bool {
        if lent.scalar != self.scalar || (self.writable && !lent.writable) {
            return false;
        }
        let (extents, strides) = (lent.extents(), lent.strides());
        if extents.len() != self.rank + self.element.len()
            || extents[self.rank..] != self.element[..]
        {
            return false;
        }
        let mut step = i64::from(self.scalar.bytes());
        for (extent, stride) in self.element.iter().zip(&strides[self.rank..]).rev() {
            if *extent != 1 && *stride != step {
                return false;
            }
            step *= extent;
        }
        !self.contiguous || lent.is_contiguous()
    }
}

/// A launch that runs without the GIL: parameters, arrays and their owners, stream order.
struct Launch<'a>(
    &'a [u64],
    &'a [ArrayArg<'a>],
    &'a [Option<ArrayOwner>],
    &'a [&'a StreamOrder],
);

// SAFETY: the arrays are borrowed from objects that the caller holds until the launch returns. Python threads that access them meanwhile
// race, as with any array shared by two threads.
unsafe impl Send for Launch<'_> {}

impl Launch<'_> {
    fn run(self, kernel: &Kernel) -> wuji::Result<Launched> {
        let mut order = self.3.iter().flat_map(|o| o.before.iter().chain(&o.after));
        if order.next().is_some() && is_recording(kernel.world()) {
            let name = kernel.name();
            let what = format!(
                "kernel `{name}` cannot be recorded in a graph: other libraries share its arrays"
            );
            return Err(Error::new("W0134", what).help("launch it outside the graph"));
        }
        StreamOrder::around(self.3, kernel.world(), || {
            kernel.run_on(self.0, self.1, self.2)
        })
    }
}

impl Program {
    pub(crate) fn new(
        kernel: Kernel,
        module: Module,
        passing: Vec<Argument>,
        slots: usize,
        result: Option<Type>,
    ) -> Option<Program> {
        let arrays = module.arrays.values().map(ArraySpec::of);
        Some(Program {
            consumer: consumer(kernel.world()),
            arrays: arrays.collect::<Option<_>>()?,
            result: result.map(|ty| (ty.as_scalar().is_some(), module.structs.flatten(ty))),
            kernel,
            module,
            passing,
            slots,
            uses: Vec::new(),
            array_uses: Vec::new(),
            cells: Vec::new(),
        })
    }

    pub(crate) fn with_uses(
        mut self,
        (fields, arrays): (Vec<Use>, Vec<Use>),
        cells: &[autodiff::CellUse],
    ) -> Program {
        self.uses = fields;
        self.array_uses = arrays;
        let fields_of = |part: (Tree, Node)| {
            let fields = self.module.fields.keys();
            let own = fields.filter(|f| autodiff::part_of(&self.module, *f) == Some(part));
            own.map(|field| field.as_u32()).collect()
        };
        let cells = cells.iter().map(|used| {
            let changes = (used.activates.is_some(), used.deactivates.is_some());
            (
                fields_of((used.tree, used.node)),
                used.needs.is_some(),
                changes.0,
                changes.1,
            )
        });
        self.cells = cells.collect();
        self
    }
}

/// The fields of a part of a sparse tree, and whether the kernel depends on its active cells, activates and deactivates some.
type CellUseTuple = (Vec<u32>, bool, bool, bool);

/// A field or array, a kind of use, an index for each axis, and the source line.
type UseTuple<'a> = (u32, &'static str, Vec<Option<(Option<u32>, i64)>>, &'a str);

#[pymethods]
impl Program {
    #[getter]
    fn name(&self) -> &str {
        self.kernel.name()
    }

    fn text(&self) -> String {
        self.module.to_string()
    }

    /// Of a gradient kernel: how it and its kernel use fields.
    fn uses(&self) -> Vec<UseTuple<'_>> {
        self.uses.iter().map(Use::tuple).collect()
    }

    /// The same for arrays.
    fn array_uses(&self) -> Vec<UseTuple<'_>> {
        self.array_uses.iter().map(Use::tuple).collect()
    }

    /// How the kernel uses the active cells of each part of sparse trees.
    fn cell_uses(&self) -> Vec<CellUseTuple> {
        self.cells.clone()
    }

    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if arguments.len() != self.passing.len() {
            let (name, n, m) = (self.name(), self.passing.len(), arguments.len());
            let what = format!("kernel {name} takes {n} arguments, got {m}");
            return Err(unfit(py, PyTypeError::new_err(what)));
        }
        let unfit = |exception: PyErr| unfit(py, exception);
        let mut params: SmallVec<[u64; 16]> = SmallVec::new();
        params.resize(self.slots, 0);
        let mut lent: SmallVec<[Option<BorrowedArray<'py>>; 4]> = SmallVec::new();
        lent.resize_with(self.arrays.len(), || None);
        for (passing, argument) in self.passing.iter().zip(arguments.iter_borrowed()) {
            match passing {
                Argument::Number(scalar, at) => {
                    params[*at] = slot(*scalar, &argument).map_err(unfit)?;
                }
                Argument::Flat(scalars, at) => {
                    let mut at = *at;
                    flat(scalars.iter().copied(), &argument, |slot| {
                        params[at] = slot;
                        at += 1;
                    })
                    .map_err(unfit)?;
                }
                Argument::Array(n) => {
                    let world = self.kernel.world();
                    let lent_array = BorrowedArray::for_launch(&argument, self.consumer, world);
                    match lent_array.map_err(unfit)? {
                        Some(array) if self.arrays[*n].fits(&array) => lent[*n] = Some(array),
                        _ => return Ok(PyNotImplemented::get(py).to_owned().into_any()),
                    }
                }
            }
        }
        let mut views: SmallVec<[ArrayArg<'_>; 4]> = SmallVec::new();
        for (array, wanted) in lent.iter().zip(&self.arrays) {
            let Some(array) = array else {
                return Err(PyTypeError::new_err(
                    "an array of the kernel is missing from the arguments",
                ));
            };
            let rank = wanted.rank;
            // SAFETY: `lent` keeps the memory alive until the launch returns, and the owner describes its layout. Compiled code treats any nonzero
            // byte as `true`.
            let view = unsafe {
                ArrayArg::lent(
                    array.memory,
                    (wanted.scalar, wanted.lanes),
                    &array.extents()[..rank],
                    &array.strides()[..rank],
                    array.writable,
                )
            };
            views.push(view.map_err(|e| raised(&e))?);
        }
        if views.len() > 1 {
            let mut alone = self.arrays.iter().zip(unaliased(&views));
            if alone.any(|(wanted, alone)| wanted.unaliased && !alone) {
                return Ok(PyNotImplemented::get(py).to_owned().into_any());
            }
        }
        let owners: SmallVec<[Option<ArrayOwner>; 4]> = (lent.iter_mut().flatten())
            .map(|array| array.owner.take())
            .collect();
        let order: SmallVec<[&StreamOrder; 4]> =
            lent.iter().flatten().map(|array| &array.order).collect();
        let work = Launch(&params, &views, &owners, &order);
        let outcome = detached(py, move || work.run(&self.kernel))?;
        let launched = outcome.map_err(|error| failed(&error))?;
        let result = match &self.result {
            None => py.None().into_bound(py),
            Some((single, scalars)) if launched.result.len() == scalars.len() => {
                value(py, *single, scalars.iter().copied(), &launched.result)?
            }
            Some(_) if launched.error.is_some() => py.None().into_bound(py),
            Some(_) => {
                let what = format!("kernel `{}` returned no result", self.name());
                return Err(raised(&Error::new("W0502", what)));
            }
        };
        match &launched.error {
            None => Ok(result),
            Some(error) => {
                let raised = failed(error);
                raised.value(py).setattr("result", result)?;
                Err(raised)
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.kernel)
    }
}

/// How the arguments of a call are passed: parameters `("p", number)` and arrays `("a", number)` in the order of the call. They must name
/// each parameter and each array once. `slots` are those of the parameters.
pub(crate) fn passing(
    module: &Module,
    arguments: &[(String, usize)],
    slots: &[usize],
) -> Result<Vec<Argument>, String> {
    let mut passing = Vec::new();
    for (kind, number) in arguments {
        let argument = match kind.as_str() {
            "p" => module.params.get(*number).map(|p| match p.ty {
                Type::Scalar(scalar) => Argument::Number(scalar, slots[*number]),
                ty => Argument::Flat(module.structs.flatten(ty), slots[*number]),
            }),
            "a" => array_number(module, *number).map(Argument::Array),
            _ => None,
        };
        passing
            .push(argument.ok_or_else(|| format!("the kernel has no parameter {kind}{number}"))?);
    }
    let mut each: Vec<_> = arguments.iter().collect();
    each.sort();
    each.dedup();
    if each.len() != arguments.len() || each.len() != module.params.len() + module.arrays.len() {
        return Err("the arguments must name each parameter and each array once".into());
    }
    Ok(passing)
}

/// Checks the number of an array; `None` if it does not exist.
fn array_number(module: &Module, number: usize) -> Option<usize> {
    let array = Array::from_u32(u32::try_from(number).ok()?);
    module.arrays.is_valid(array).then_some(number)
}
