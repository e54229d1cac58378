//! A module on a device with its own memory, accessed by scalars: for tools and tests that run textual IR. The
//! interface is that of the interpreter's `Machine`, so that the two can be compared.

use crate::array::ArrayArg;
use crate::device::Device;
use crate::launch::Bindings;
use crate::memory::packed::PackedField;
use crate::memory::{Memory, read_scalar};
use crate::program::{Program, field_address, tree_memory};
use crate::report::{Collected, ReportContext};
use std::cell::Cell;
use wuji_compile::Options;
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::Outcome;
use wuji_ir::module::Module;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// A program, its trees and its arrays.
#[derive(Debug)]
pub struct Instance<'d> {
    device: &'d Device,
    program: Program,
    trees: Vec<Memory>,
    buffers: Vec<Vec<u64>>,
    views: Vec<View>,
}

/// Host memory for arrays.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Buffer(usize);

/// The layout of an array, as in the interpreter.
#[derive(Clone, Debug)]
struct View {
    buffer: usize,
    base: i64,
    extents: Vec<i64>,
    strides: Vec<i64>,
}

fn misfit(what: impl Into<String>) -> Error {
    Error::new("W0118", what)
}

impl<'d> Instance<'d> {
    /// Compiles a kernel, and gives it zeroed trees and empty arrays.
    pub fn new(device: &'d Device, module: Module, options: &Options) -> Result<Instance<'d>> {
        Instance::with_program(device, device.load(module, options)?)
    }

    /// Memory for a program that has been loaded.
    pub fn with_program(device: &'d Device, program: Program) -> Result<Instance<'d>> {
        let mut instance = Instance {
            device,
            program,
            trees: Vec::new(),
            buffers: Vec::new(),
            views: Vec::new(),
        };
        instance.clear()?;
        Ok(instance)
    }

    /// Replaces trees and arrays by zeroed and empty ones.
    pub fn clear(&mut self) -> Result<()> {
        let m = &self.program.module;
        let trees = m.trees.iter();
        let trees = trees.map(|(id, tree)| self.device.reserve_tree(tree, &tree_memory(m, id)?));
        let views = m.arrays.values().map(|a| View {
            buffer: 0,
            base: 0,
            extents: vec![0; usize::from(a.rank)],
            strides: vec![0; usize::from(a.rank)],
        });
        let (trees, views) = (trees.collect::<Result<_>>()?, views.collect());
        self.trees = trees;
        self.views = views;
        self.buffers = vec![Vec::new()];
        Ok(())
    }

    /// Bytes of memory of all trees; of sparse ones, what their cells have taken.
    pub fn memory_used(&self) -> u64 {
        self.trees.iter().map(Memory::used).sum()
    }

    /// The device.
    pub fn device(&self) -> &'d Device {
        self.device
    }

    /// Replaces the program by another one with the same trees.
    pub fn swap(&mut self, program: Program) -> Program {
        std::mem::replace(&mut self.program, program)
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Exchanges trees with an instance of another module with equal trees.
    pub fn swap_trees(&mut self, other: &mut Instance<'_>) -> Result<()> {
        let (ours, theirs) = (&self.program.tree_sizes, &other.program.tree_sizes);
        if ours != theirs || !std::ptr::eq(self.device, other.device) {
            return Err(misfit("the modules have different trees"));
        }
        std::mem::swap(&mut self.trees, &mut other.trees);
        Ok(())
    }

    /// The module as the device runs it.
    pub fn module(&self) -> &Module {
        &self.program.module
    }

    fn tree(&self, field: Field) -> Result<&Memory> {
        let data = self.module().fields.get(field);
        let tree = data.map(|f| f.tree.as_u32() as usize);
        tree.and_then(|t| self.trees.get(t))
            .ok_or_else(|| misfit(format!("there is no field {field}")))
    }

    /// Every scalar of a field, elements in row-major order.
    pub fn field(&self, field: Field) -> Result<Vec<Imm>> {
        self.tree(field)?.read_field(self.module(), field)
    }

    /// Sets a whole field from its scalars, elements in row-major order.
    pub fn fill(&self, field: Field, values: &[Imm]) -> Result<()> {
        let data = &self.module().fields[field];
        let scalars = self.module().structs.flatten(data.elem);
        let elements: u64 = data
            .domain(&self.module().trees)
            .iter()
            .map(|d| d.1)
            .product();
        let fits = values.len() as u64 == elements * scalars.len() as u64
            && values
                .iter()
                .zip(scalars.iter().cycle())
                .all(|(v, s)| v.ty == *s);
        if !fits {
            let name = &data.name;
            return Err(misfit(format!(
                "field `{name}` gets values that do not fit"
            )));
        }
        self.tree(field)?.write_field(self.module(), field, values)
    }

    /// Sets one element from its scalars.
    pub fn set(&self, field: Field, coords: &[i64], values: &[Imm]) -> Result<()> {
        let at = self.locate(field, coords)?;
        let elem = self.module().fields[field].elem;
        let scalars = self.module().structs.scalar_offsets(elem);
        if scalars.len() != values.len() || scalars.iter().zip(values).any(|(s, v)| s.0 != v.ty) {
            let name = &self.module().fields[field].name;
            return Err(misfit(format!(
                "field `{name}` gets values that do not fit"
            )));
        }
        if self.module().fields[field].is_split() {
            for leaf in self.module().leaves(field) {
                self.set(leaf.field, coords, &values[leaf.scalars])?;
            }
            return Ok(());
        }
        if let Some(packed) = PackedField::new(self.module(), field)? {
            let mut guard = self.tree(field)?.lock()?;
            guard.fetch(packed.span())?;
            packed.write(&self.relative(field, coords), values, guard.bytes_mut());
            return guard.send(packed.span());
        }
        let size = self.module().structs.size_align(elem).0 as usize;
        let mut guard = self.tree(field)?.lock()?;
        guard.fetch(at..at + size)?;
        let bytes = guard.bytes_mut();
        for ((scalar, offset), value) in scalars.into_iter().zip(values) {
            let (at, n) = (at + offset as usize, scalar.bytes() as usize);
            bytes[at..at + n].copy_from_slice(&value.bits().to_le_bytes()[..n]);
        }
        guard.send(at..at + size)
    }

    /// The scalars of one element; an error if it is out of range.
    pub fn get(&self, field: Field, coords: &[i64]) -> Result<Vec<Imm>> {
        let at = self.locate(field, coords)?;
        if self.module().fields[field].is_split() {
            let leaves = self.module().leaves(field).into_iter();
            let values = leaves.map(|leaf| self.get(leaf.field, coords));
            return Ok(values.collect::<Result<Vec<_>>>()?.concat());
        }
        if let Some(packed) = PackedField::new(self.module(), field)? {
            let mut guard = self.tree(field)?.lock()?;
            guard.fetch(packed.span())?;
            return Ok(packed.read(&self.relative(field, coords), guard.bytes()));
        }
        let elem = self.module().fields[field].elem;
        let size = self.module().structs.size_align(elem).0 as usize;
        let mut guard = self.tree(field)?.lock()?;
        guard.fetch(at..at + size)?;
        let scalars = self.module().structs.scalar_offsets(elem);
        let bytes = guard.bytes();
        Ok(scalars
            .into_iter()
            .map(|(scalar, offset)| read_scalar(&bytes[at + offset as usize..], scalar))
            .collect())
    }

    fn locate(&self, field: Field, coords: &[i64]) -> Result<usize> {
        let address = field_address(self.module(), field)?;
        let inside = address.domain().count() == coords.len()
            && address
                .domain()
                .zip(coords)
                .all(|((from, extent), c)| *c >= from && (c.wrapping_sub(from) as u64) < extent);
        if !inside {
            let name = &self.module().fields[field].name;
            return Err(misfit(format!("field `{name}` has no such element")));
        }
        Ok(address.offset(coords.iter().copied()))
    }

    /// Coordinates counted from the smallest ones of a field.
    fn relative(&self, field: Field, coords: &[i64]) -> Vec<u64> {
        let domain = self.module().fields[field].domain(&self.module().trees);
        let coords = domain.iter().zip(coords);
        coords
            .map(|((lo, _), c)| c.wrapping_sub(*lo) as u64)
            .collect()
    }

    /// New host memory for arrays.
    pub fn add_buffer(&mut self, bytes: &[u8]) -> Buffer {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        self.buffers.push(words.collect());
        Buffer(self.buffers.len() - 1)
    }

    /// The bytes of a buffer, padded with up to 7 zeros.
    pub fn buffer(&self, buffer: Buffer) -> Vec<u8> {
        let words = self.buffers.get(buffer.0).into_iter().flatten();
        words.flat_map(|w| w.to_ne_bytes()).collect()
    }

    /// Binds an array: the byte offset of element zero, extents, and strides in bytes. An unbound array is empty.
    pub fn bind(
        &mut self,
        array: Array,
        buffer: Buffer,
        base: i64,
        extents: &[i64],
        strides: &[i64],
    ) -> Result<()> {
        let missing = || misfit(format!("there is no array {array}"));
        let view = self.views.get_mut(array.as_u32() as usize);
        *view.ok_or_else(missing)? = View {
            buffer: buffer.0,
            base,
            extents: extents.to_vec(),
            strides: strides.to_vec(),
        };
        Ok(())
    }

    /// Binds an array to its own memory, row-major, with the scalars of its elements.
    pub fn bind_values(&mut self, array: Array, extents: &[i64], values: &[Imm]) -> Result<()> {
        let elem = self.module().arrays[array].elem;
        let size = self.module().structs.size_align(elem).0 as usize;
        let scalars = self.module().structs.scalar_offsets(elem);
        let count = extents.iter().try_fold(1i64, |n, e| n.checked_mul(*e));
        let fits = count.is_some_and(|n| n >= 0 && n as usize * scalars.len() == values.len());
        if !fits {
            let name = &self.module().arrays[array].name;
            return Err(misfit(format!(
                "array `{name}` gets values that do not fit"
            )));
        }
        let mut bytes = vec![0; values.len() / scalars.len().max(1) * size];
        for (k, value) in values.iter().enumerate() {
            let (scalar, offset) = scalars[k % scalars.len()];
            let at = k / scalars.len() * size + offset as usize;
            let n = scalar.bytes() as usize;
            bytes[at..at + n].copy_from_slice(&value.bits().to_le_bytes()[..n]);
        }
        let buffer = self.add_buffer(&bytes);
        let mut strides = vec![0; extents.len()];
        let mut step = size as i64;
        for (stride, extent) in strides.iter_mut().zip(extents).rev() {
            *stride = step;
            step = step.saturating_mul((*extent).max(1));
        }
        self.bind(array, buffer, 0, extents, &strides)
    }

    /// Every scalar of an array, elements in row-major order.
    pub fn array(&self, array: Array) -> Result<Vec<Imm>> {
        let extents = self.extents(array)?.iter();
        let count = extents.fold(1i64, |n, extent| n.saturating_mul(*extent));
        let mut values = Vec::new();
        for n in 0..count {
            values.extend(self.array_element(array, n)?);
        }
        Ok(values)
    }

    /// The scalars of an array element, by its row-major index.
    pub fn array_element(&self, array: Array, number: i64) -> Result<Vec<Imm>> {
        let missing = || misfit(format!("there is no array {array}"));
        let outside = || misfit(format!("array {array} reaches beyond its buffer"));
        let data = self.module().arrays.get(array).ok_or_else(missing)?;
        let view = self
            .views
            .get(array.as_u32() as usize)
            .ok_or_else(missing)?;
        let words = self.buffers.get(view.buffer).ok_or_else(missing)?;
        let (mut at, mut n) = (i128::from(view.base), number);
        for (extent, stride) in view.extents.iter().zip(&view.strides).rev() {
            at += i128::from(n.checked_rem(*extent).ok_or_else(outside)?) * i128::from(*stride);
            n /= extent;
        }
        let scalars = self.module().structs.scalar_offsets(data.elem);
        let read = |(scalar, offset): (Scalar, u64)| {
            let from = usize::try_from(at + i128::from(offset)).map_err(|_| outside())?;
            let mut bytes = [0; 8];
            for (k, byte) in bytes[..scalar.bytes() as usize].iter_mut().enumerate() {
                let word = words.get((from + k) / 8).ok_or_else(outside)?;
                *byte = word.to_ne_bytes()[(from + k) % 8];
            }
            Ok(read_scalar(&bytes, scalar))
        };
        scalars.into_iter().map(read).collect()
    }

    /// Borrows the parts that a launch needs at the same time.
    fn arrays(&mut self) -> Result<(&Program, Vec<ArrayArg<'_>>)> {
        let buffers: Vec<&[Cell<u64>]> = self
            .buffers
            .iter_mut()
            .map(|b| Cell::from_mut(b.as_mut_slice()).as_slice_of_cells())
            .collect();
        let mut arrays = Vec::new();
        let elements = &self.program.array_elements;
        for (view, (size, _)) in self.views.iter().zip(elements) {
            let buffer = buffers.get(view.buffer).copied().unwrap_or(&[]);
            let size = *size as usize;
            arrays.push(ArrayArg::in_buffer(
                buffer,
                size,
                view.base,
                &view.extents,
                &view.strides,
            )?);
        }
        Ok((&self.program, arrays))
    }

    /// The extents of an array.
    pub fn extents(&self, array: Array) -> Result<&[i64]> {
        let missing = || misfit(format!("there is no array {array}"));
        let view = self.views.get(array.as_u32() as usize);
        Ok(&view.ok_or_else(missing)?.extents)
    }

    /// The reports of a launch as an error; `None` without reports.
    pub fn reported(&self, collected: &Collected) -> Option<Error> {
        let extents: Vec<Vec<i64>> = self.views.iter().map(|v| v.extents.clone()).collect();
        collected.error(&ReportContext {
            module: self.module(),
            field_name: &|_| None,
            array_extents: &extents,
        })
    }

    /// Runs the kernel once. `params` are the scalars of the by-value parameters; seed and launch number are for random
    /// numbers.
    pub fn run(&mut self, params: &[Imm], seed: u64, launch: u64) -> Result<Outcome> {
        let (result, collected) = self.launch(params, seed, launch)?;
        Ok(Outcome {
            result,
            reports: collected.reports,
            printed: collected.printed,
            steps: 0,
        })
    }

    /// Like [`Instance::run`]: the scalars of the kernel's result, and all reports.
    pub fn launch(
        &mut self,
        params: &[Imm],
        seed: u64,
        launch: u64,
    ) -> Result<(Option<Vec<Imm>>, Collected)> {
        let types = &self.program.params;
        if params.len() != types.len() || params.iter().zip(types).any(|(p, t)| p.ty != *t) {
            let name = &self.module().name;
            return Err(misfit(format!(
                "kernel `{name}` gets parameters that do not fit"
            )));
        }
        let slots: Vec<u64> = params.iter().map(|p| p.bits()).collect();
        let device = self.device;
        let trees = std::mem::take(&mut self.trees);
        let memories: Vec<&Memory> = trees.iter().collect();
        let run = self.arrays().and_then(|(program, arrays)| {
            let bindings = Bindings {
                params: &slots,
                trees: &memories,
                arrays: &arrays,
            };
            device.run_as(program, &bindings, seed, launch)
        });
        self.trees = trees;
        let outcome = run?;
        if let Some(earlier) = outcome.earlier {
            return Err(*earlier);
        }
        let collected = outcome.collected.unwrap_or_default();
        let result = self.program.result.as_ref().and_then(|types| {
            let values = types.iter().zip(&outcome.result);
            (outcome.result.len() == types.len())
                .then(|| values.map(|(t, bits)| Imm::from_bits(*t, *bits)).collect())
        });
        Ok((result, *collected))
    }
}
