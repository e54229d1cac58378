//! Layouts and trees.

use crate::convert::parse_plain;
use crate::error::{OrRaise, raised};
use crate::field::Field;
use crate::quantized::Quantized;
use crate::waiting::waiting;
use crate::world::World;
use pyo3::prelude::*;
use wuji::Error;
use wuji::dynamic::{self, NodeKind};

/// A layout under construction. Node 0 is the root.
#[pyclass(module = "wuji._native")]
pub(crate) struct Layout {
    /// `None` after `finish`.
    layout: Option<dynamic::Layout>,
}

impl Layout {
    fn open(&mut self) -> PyResult<&mut dynamic::Layout> {
        self.layout.as_mut().ok_or_else(|| {
            raised(&Error::new("W0105", "the layout is already finished").help("create a new one"))
        })
    }
}

#[pymethods]
impl Layout {
    #[new]
    fn new(world: &World) -> Layout {
        Layout {
            layout: Some(dynamic::Layout::new(&world.world)),
        }
    }

    #[pyo3(signature = (parent, kind, axes, extents, chunk=0, morton=false))]
    fn node(
        &mut self,
        parent: u32,
        kind: &str,
        axes: Vec<usize>,
        extents: Vec<i64>,
        chunk: u32,
        morton: bool,
    ) -> PyResult<u32> {
        let Some(kind) = NodeKind::from_name(kind) else {
            let error = Error::new("W0102", format!("unknown node kind `{kind}`"));
            let names = NodeKind::BELOW_ROOT.map(|k| format!("`{}`", k.name()));
            let known = format!("the kinds are {}", names.join(", "));
            return Err(raised(&error.help(known)));
        };
        let kind = kind.format().with_parameters(&[chunk]);
        let layout = self.open()?;
        let node = layout.node(parent, kind, &axes, &extents).or_raise()?;
        if morton {
            layout.morton(node).or_raise()?;
        }
        Ok(node)
    }

    #[pyo3(signature = (node, name, r#type, offset=None))]
    fn place(
        &mut self,
        node: u32,
        name: &str,
        r#type: &str,
        offset: Option<Vec<i64>>,
    ) -> PyResult<u32> {
        let ty = parse_plain(r#type)?;
        let layout = self.open()?;
        layout.place(node, name, ty, offset.as_deref()).or_raise()
    }

    fn bit_struct(&mut self, bits: u32) -> PyResult<usize> {
        self.open()?.bit_struct(bits, false).or_raise()
    }

    fn shared_exponent(&mut self, bit_struct: usize) -> PyResult<usize> {
        self.open()?.shared_exponent(bit_struct).or_raise()
    }

    #[pyo3(signature = (node, bit_struct, group, name, r#type, quantized, offset=None))]
    fn place_packed(
        &mut self,
        node: u32,
        bit_struct: usize,
        group: Option<usize>,
        name: &str,
        r#type: &str,
        quantized: Vec<PyRef<'_, Quantized>>,
        offset: Option<Vec<i64>>,
    ) -> PyResult<u32> {
        let ty = parse_plain(r#type)?;
        let types: Vec<_> = quantized.iter().map(|q| q.ty).collect();
        let place = (bit_struct, group);
        self.open()?
            .place_packed(node, place, (name, ty), &types, offset.as_deref())
            .or_raise()
    }

    #[pyo3(signature = (node, bits, name, r#type, quantized, offset=None))]
    fn place_in_bit_array(
        &mut self,
        node: u32,
        bits: u32,
        name: &str,
        r#type: &str,
        quantized: Vec<PyRef<'_, Quantized>>,
        offset: Option<Vec<i64>>,
    ) -> PyResult<u32> {
        let ty = parse_plain(r#type)?;
        let types: Vec<_> = quantized.iter().map(|q| q.ty).collect();
        self.open()?
            .place_in_bit_array(node, bits, (name, ty), &types, offset.as_deref())
            .or_raise()
    }

    fn cells(&mut self, node: u32, name: &str) -> PyResult<u32> {
        self.open()?.cells(node, name).or_raise()
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Tree> {
        self.open()?;
        let layout = self.layout.take();
        let tree = layout.map(|layout| waiting(py, || layout.finish()));
        match tree {
            Some(tree) => Ok(Tree { tree: tree? }),
            None => Err(raised(&Error::new(
                "W0105",
                "the layout is already finished",
            ))),
        }
    }
}

/// An allocated layout.
#[pyclass(frozen, eq, module = "wuji._native")]
#[derive(PartialEq)]
pub(crate) struct Tree {
    pub(crate) tree: wuji::Tree,
}

#[pymethods]
impl Tree {
    fn field(&self, number: u32) -> PyResult<Field> {
        let field = dynamic::Field::of(&self.tree, number).or_raise()?;
        Ok(Field { field })
    }

    fn memory_used(&self) -> u64 {
        self.tree.memory_used()
    }

    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let report = waiting(py, || self.tree.memory_report())?;
        Ok(report.to_string())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || self.tree.clear())
    }

    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || dynamic::destroy(&self.tree))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.tree)
    }
}
