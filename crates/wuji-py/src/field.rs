//! Fields.

use crate::buffer::{BorrowedArray, Bytes, SendArray, StreamOrder};
use crate::convert::{element, index, number, slot, slots};
use crate::dlpack::{consumer, packed};
use crate::error::{OrRaise, unfit};
use crate::layout::Tree;
use crate::ndarray::Ndarray;
use crate::waiting::waiting;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use wuji::dynamic::{self, ArrayArg, Way};
use wuji_ir::types::Type;

/// A field, or the cells of a node.
#[pyclass(frozen, eq, module = "wuji._native")]
#[derive(PartialEq)]
pub(crate) struct Field {
    pub(crate) field: dynamic::Field,
}

impl Field {
    fn ty(&self) -> PyResult<Type> {
        self.field.parts().or_raise()?;
        Ok(self.field.ty())
    }

    /// Borrows a buffer that lies on the GPU of the field.
    fn on_same_gpu<'py>(
        &self,
        buffer: &Bound<'py, PyAny>,
        way: Way,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        let (scalar, _) = self.field.parts().or_raise()?;
        let bytes = self.field.bytes().or_raise()?;
        BorrowedArray::on_same_gpu(buffer, self.field.world(), (scalar, bytes), way)
    }

    /// Copies between the field and memory of its GPU, on the device.
    fn exchange(
        &self,
        py: Python<'_>,
        lent: &BorrowedArray<'_>,
        work: impl FnOnce(&dynamic::Field, ArrayArg<'_>) -> wuji::Result<()> + Send,
    ) -> PyResult<()> {
        let (scalar, lanes) = self.field.parts().or_raise()?;
        let domain = self.field.domain().or_raise()?;
        let mut extents: Vec<i64> = domain.iter().map(|d| d.1 as i64).collect();
        if extents.is_empty() {
            extents.push(1);
        }
        let strides = packed(&extents, i64::from(scalar.bytes()) * lanes as i64);
        // SAFETY: the borrowed memory has as many bytes as all elements, contiguously, and stays alive until this returns.
        let array = unsafe {
            ArrayArg::lent(
                lent.memory,
                (scalar, lanes),
                &extents,
                &strides,
                lent.writable,
            )
        };
        let (near, order) = (SendArray(array.or_raise()?), &lent.order);
        waiting(py, || {
            let work = || work(&self.field, near.array());
            StreamOrder::around(&[order], self.field.world(), work)
        })
    }
}

/// A copy of a packed field.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct PackedBits {
    bits: dynamic::PackedBits,
}

#[pymethods]
impl PackedBits {
    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || self.bits.restore())
    }
}

#[pymethods]
impl Field {
    #[getter]
    fn name(&self) -> PyResult<&str> {
        self.field.name().or_raise()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let domain = self.field.domain().or_raise()?;
        PyTuple::new(py, domain.iter().map(|d| d.1))
    }

    /// The number of the GPU that holds the elements.
    #[getter]
    fn gpu(&self) -> Option<u32> {
        consumer(self.field.world()).map(|(number, _)| number)
    }

    #[getter]
    fn offset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let domain = self.field.domain().or_raise()?;
        PyTuple::new(py, domain.iter().map(|d| d.0))
    }

    /// `cells` for a field that represents cells.
    #[getter]
    fn r#type(&self) -> String {
        if self.field.is_view() {
            "cells".to_owned()
        } else {
            self.field.ty().to_string()
        }
    }

    #[getter]
    fn tree(&self) -> Tree {
        Tree {
            tree: self.field.tree(),
        }
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = self::index(index)?;
        let slots = waiting(py, || self.field.get(&at))?;
        element(py, self.field.ty(), &slots)
    }

    fn set(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyTuple>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (at, value) = (
            self::index(index).map_err(|e| unfit(py, e))?,
            slots(self.ty()?, value).map_err(|e| unfit(py, e))?,
        );
        waiting(py, || self.field.set(&at, &value))
    }

    fn get_part<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
        component: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (scalar, _) = self.field.parts().or_raise()?;
        let at = self::index(index)?;
        let part = waiting(py, || self.field.get_part(&at, component))?;
        number(py, scalar, part)
    }

    fn set_part(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyTuple>,
        component: usize,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (scalar, _) = self.field.parts().or_raise()?;
        let (at, value) = (
            self::index(index).map_err(|e| unfit(py, e))?,
            slot(scalar, value).map_err(|e| unfit(py, e))?,
        );
        waiting(py, || self.field.set_part(&at, component, value))
    }

    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = slots(self.ty()?, value).map_err(|e| unfit(py, e))?;
        waiting(py, || self.field.fill(&value))
    }

    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(lent) = self.on_same_gpu(buffer, Way::ToArray)? {
            return self.exchange(py, &lent, |field, array| field.read_to(array));
        }
        let size = self.field.bytes().or_raise()?;
        if let Some(array) = Ndarray::on_device(buffer) {
            let mut bytes = Vec::with_capacity(size as usize);
            waiting(py, || {
                self.field.read(|piece| bytes.extend_from_slice(piece))
            })?;
            return array.get().write_all(py, &bytes);
        }
        let mut to = Bytes::writable(buffer, size)?;
        waiting(py, || self.field.read(|piece| to.put(piece)))
    }

    fn write_from(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(lent) = self.on_same_gpu(buffer, Way::FromArray)? {
            return self.exchange(py, &lent, |field, array| field.write_from(array));
        }
        let size = self.field.bytes().or_raise()?;
        if let Some(array) = Ndarray::on_device(buffer) {
            let bytes = array.get().all(py)?;
            let whole = PyBytes::new(py, &bytes);
            let mut from = Bytes::readable(&whole, size)?;
            return waiting(py, || self.field.write(|piece| from.take(piece)));
        }
        let mut from = Bytes::readable(buffer, size)?;
        waiting(py, || self.field.write(|piece| from.take(piece)))
    }

    fn copy_from(&self, py: Python<'_>, other: &Field) -> PyResult<()> {
        waiting(py, || self.field.copy_from(&other.field))
    }

    fn packed_bits(&self, py: Python<'_>) -> PyResult<Option<PackedBits>> {
        let bits = waiting(py, || self.field.packed_bits())?;
        Ok(bits.map(|bits| PackedBits { bits }))
    }

    fn is_active(&self, py: Python<'_>, index: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let at = self::index(index)?;
        waiting(py, || self.field.is_active(&at))
    }

    fn activate(&self, py: Python<'_>, index: &Bound<'_, PyTuple>) -> PyResult<()> {
        let at = self::index(index)?;
        waiting(py, || self.field.activate(&at))
    }

    fn deactivate(&self, py: Python<'_>, index: &Bound<'_, PyTuple>) -> PyResult<()> {
        let at = self::index(index)?;
        waiting(py, || self.field.deactivate(&at))
    }

    fn deactivate_all(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || self.field.deactivate_all())
    }

    /// For a field that represents cells, the value is `None`.
    fn append(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyTuple>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        let at = self::index(index)?;
        let value = if self.field.is_view() && value.is_none() {
            Default::default()
        } else {
            slots(self.ty()?, value).map_err(|e| unfit(py, e))?
        };
        waiting(py, || self.field.append(&at, &value))
    }

    fn length(&self, py: Python<'_>, index: &Bound<'_, PyTuple>) -> PyResult<i32> {
        let at = self::index(index)?;
        waiting(py, || self.field.length(&at))
    }

    fn count_active(&self, py: Python<'_>) -> PyResult<u64> {
        waiting(py, || self.field.count_active())
    }

    fn active<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rank = self.field.domain().or_raise()?.len();
        let (rows, all) = waiting(py, || self.field.active())?;
        let row = |n: usize| PyTuple::new(py, &all[n * rank..(n + 1) * rank]);
        (0..rows).map(row).collect()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.field)
    }
}
