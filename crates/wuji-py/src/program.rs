//! Kernels that are ready to run.

use crate::buffer::{Lent, Orders};
use crate::convert::{flat, slot, value};
use crate::dlpack::{Consumer, consumer};
use crate::error::raised;
use crate::waiting::{failed, on_main_thread};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyNotImplemented, PyTuple};
use smallvec::SmallVec;
use wuji::dynamic::{ArrayArg, Kernel, Launched, is_recording, unaliased};
use wuji::{Error, Interrupter};
use wuji_ir::entities::Array;
use wuji_ir::module::{ArrayData, Module};
use wuji_ir::types::{Scalar, Type};

/// A kernel that is ready to run.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Program {
    kernel: Kernel,
    /// Before any pass.
    module: Module,
    interrupter: Interrupter,
    /// Who wants the arrays of others, if it is a GPU.
    consumer: Consumer,
    /// What becomes of each argument of a call.
    takes: Vec<Take>,
    slots: usize,
    arrays: Vec<Wanted>,
    /// Whether the result is one scalar, and the scalars it has.
    result: Option<(bool, Vec<Scalar>)>,
}

/// What becomes of one argument.
pub(crate) enum Take {
    /// A number in a slot.
    Number(Scalar, usize),
    /// Numbers in several slots, from one on.
    Flat(Vec<Scalar>, usize),
    /// The n-th array.
    Array(usize),
}

/// What an array has to be.
struct Wanted {
    scalar: Scalar,
    lanes: usize,
    rank: usize,
    /// Extents of an element.
    element: SmallVec<[i64; 2]>,
    writable: bool,
    contiguous: bool,
    unaliased: bool,
}

impl Wanted {
    fn of(data: &ArrayData) -> Option<Wanted> {
        Some(Wanted {
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

    /// Whether code that was made for this can work on an array.
    fn fits(&self, lent: &Lent<'_>) -> bool {
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

/// What goes into a launch without the interpreter.
struct Unattached<'a>(&'a [u64], &'a [ArrayArg<'a>], &'a [&'a Orders]);

// SAFETY: arrays are borrowed from objects that the caller holds until the launch is over. Threads of Python that touch them meanwhile
// race, as with any array that two threads share.
unsafe impl Send for Unattached<'_> {}

impl Unattached<'_> {
    fn run(self, kernel: &Kernel) -> wuji::Result<Launched> {
        let mut orders = self.2.iter().flat_map(|o| o.before.iter().chain(&o.after));
        if orders.next().is_some() && is_recording(kernel.world()) {
            let name = kernel.name();
            let what = format!("kernel `{name}` cannot be in a graph: others use its arrays, too");
            return Err(Error::new("W0134", what).help("launch it by itself"));
        }
        Orders::around(self.2, kernel.world(), || kernel.run(self.0, self.1))
    }
}

impl Program {
    pub(crate) fn new(
        kernel: Kernel,
        module: Module,
        takes: Vec<Take>,
        slots: usize,
        result: Option<Type>,
    ) -> Option<Program> {
        let arrays = module.arrays.values().map(Wanted::of);
        Some(Program {
            interrupter: kernel.world().interrupter(),
            consumer: consumer(kernel.world()),
            arrays: arrays.collect::<Option<_>>()?,
            result: result.map(|ty| (ty.as_scalar().is_some(), module.structs.flatten(ty))),
            kernel,
            module,
            takes,
            slots,
        })
    }
}

#[pymethods]
impl Program {
    #[getter]
    fn name(&self) -> &str {
        self.kernel.name()
    }

    fn text(&self) -> String {
        self.module.to_string()
    }

    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if arguments.len() != self.takes.len() {
            let (name, n, m) = (self.name(), self.takes.len(), arguments.len());
            let what = format!("kernel {name} takes {n} arguments, {m} were given");
            return Err(PyTypeError::new_err(what));
        }
        let mut params: SmallVec<[u64; 16]> = SmallVec::new();
        params.resize(self.slots, 0);
        let mut lent: SmallVec<[Option<Lent<'py>>; 4]> = SmallVec::new();
        lent.resize_with(self.arrays.len(), || None);
        for (take, argument) in self.takes.iter().zip(arguments.iter_borrowed()) {
            match take {
                Take::Number(scalar, at) => params[*at] = slot(*scalar, &argument)?,
                Take::Flat(scalars, at) => {
                    let mut at = *at;
                    flat(scalars.iter().copied(), &argument, |slot| {
                        params[at] = slot;
                        at += 1;
                    })?;
                }
                Take::Array(n) => match Lent::of(&argument, self.consumer)? {
                    Some(array) if self.arrays[*n].fits(&array) => lent[*n] = Some(array),
                    _ => return Ok(PyNotImplemented::get(py).to_owned().into_any()),
                },
            }
        }
        let mut views: SmallVec<[ArrayArg<'_>; 4]> = SmallVec::new();
        for (array, wanted) in lent.iter().zip(&self.arrays) {
            let Some(array) = array else {
                return Err(PyTypeError::new_err(
                    "an array of the kernel is not among its arguments",
                ));
            };
            let rank = wanted.rank;
            // SAFETY: `lent` keeps the memory until the launch is over, and its owner says where elements are. Code takes any byte but 0
            // for a `bool` that is true.
            let view = unsafe {
                ArrayArg::lent(
                    array.place,
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
        let foreground = on_main_thread().then(|| self.interrupter.foreground());
        if foreground.is_some() {
            // What came before ours was the handler would be looked at when the kernel has ended, if it ever does.
            py.check_signals()?;
        }
        let orders: SmallVec<[&Orders; 4]> =
            lent.iter().flatten().map(|array| &array.orders).collect();
        let work = Unattached(&params, &views, &orders);
        let outcome = py.detach(move || work.run(&self.kernel));
        let launched = outcome.map_err(|error| failed(py, &error))?;
        let result = match &self.result {
            None => py.None().into_bound(py),
            Some((single, scalars)) if launched.result.len() == scalars.len() => {
                value(py, *single, scalars.iter().copied(), &launched.result)?
            }
            Some(_) if launched.told.is_some() => py.None().into_bound(py),
            Some(_) => {
                let what = format!("kernel `{}` ended without its result", self.name());
                return Err(raised(&Error::new("W0502", what)));
            }
        };
        match &launched.told {
            None => Ok(result),
            Some(error) => {
                let raised = failed(py, error);
                raised.value(py).setattr("result", result)?;
                Err(raised)
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.kernel)
    }
}

/// Of an array that some argument is; `None` for a number that there is not.
pub(crate) fn array_number(module: &Module, number: usize) -> Option<usize> {
    let array = Array::from_u32(u32::try_from(number).ok()?);
    module.arrays.is_valid(array).then_some(number)
}
