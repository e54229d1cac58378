//! Loads, stores and atomics: by coordinates and, after lowering, by byte offset.

use super::Memory;
use super::compute::reported;
use super::error::{BAD_ADDRESS, NOT_INSIDE, NOT_RUNNABLE};
use super::launch::Launch;
use super::prepare::zero;
use super::races::Cell;
use super::store::Relative;
use crate::Result;
use crate::entities::{Array, Field, Inst, Temp, Value};
use crate::eval;
use crate::module::{InstData, SiteKind, Span};
use crate::ops::{Access, Activation, AtomicOp, Guard, Interleaved, Place, Space, Step};
use crate::types::{Imm, Scalar, Type};
use smallvec::SmallVec;
use std::ops::Range;

/// An element that exists, and the scalars of it that are accessed.
struct ElementSlice {
    element: Element,
    start: usize,
    len: usize,
    /// Where they begin in the accessed value: 0 unless a split field has several elements.
    from: usize,
}

/// What an access touches: nothing if it is out of range or inactive, several elements if a field is split.
type Slices = SmallVec<[ElementSlice; 1]>;

enum Element {
    Field(Field, Relative),
    /// Byte offset from element zero.
    Array(Array, i64),
    /// The first scalar on the stack of locals.
    Local(usize),
    /// The first scalar in the shared memory of the thread block.
    Shared(usize),
    Temp(Temp),
}

impl Launch<'_, '_> {
    pub(super) fn load(&mut self, inst: Inst, access: &Access, span: Span) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let result = data.results[0];
        let (slices, _) = self.locate(data, access, span, false)?;
        if slices.iter().map(|t| t.len).sum::<usize>() < self.run_of(result).len() {
            self.set_zero(result);
        }
        for t in slices {
            for k in 0..t.len {
                let value = self.read(&t.element, t.start + k);
                let at = self.run_of(result).start + t.from + k;
                self.stacks.values[at] = value;
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, inst: Inst, access: &Access, span: Span) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let (slices, operands) = self.locate(data, access, span, true)?;
        for t in slices {
            for k in 0..t.len {
                let value = self.value(operands[0])[t.from + k];
                self.watch_element(&t.element, t.start + k, Some(value), span)?;
            }
            let values: SmallVec<[Imm; 4]> = self.value(operands[0])[t.from..t.from + t.len].into();
            self.write_all(&t, &values, span)?;
        }
        Ok(())
    }

    /// Stores consecutive scalars at once.
    fn write_all(&mut self, t: &ElementSlice, values: &[Imm], span: Span) -> Result<()> {
        if let Element::Field(field, at) = &t.element
            && self.machine.is_packed(*field)
        {
            let draws = self.draws(*field, t.start..t.start + t.len, span)?;
            let mut draws = draws.into_iter();
            let next = || draws.next().unwrap_or(0);
            self.machine
                .write_packed(*field, at, (t.start, values), next);
            return Ok(());
        }
        for (k, value) in values.iter().enumerate() {
            self.write(&t.element, t.start + k, *value);
        }
        Ok(())
    }

    /// Random numbers for the scalars of a packed field with stochastic rounding.
    fn draws(&mut self, field: Field, of: Range<usize>, span: Span) -> Result<SmallVec<[u64; 4]>> {
        let module = self.machine.module;
        let members = module.fields[field].packing.iter().flat_map(|p| &p.members);
        let random = members
            .skip(of.start)
            .take(of.len())
            .filter(|m| m.ty.is_stochastic());
        random.map(|_| self.draw(span)).collect()
    }

    pub(super) fn atomic(
        &mut self,
        inst: Inst,
        op: AtomicOp,
        access: &Access,
        span: Span,
    ) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let result = data.results[0];
        let (slices, operands) = self.locate(data, access, span, true)?;
        if slices.iter().map(|t| t.len).sum::<usize>() < self.run_of(result).len() {
            self.set_zero(result);
        }
        for t in slices {
            for k in 0..t.len {
                let operand = self.value(operands[0])[t.from + k];
                self.watch_element(&t.element, t.start + k, None, span)?;
                let old = self.update(&t.element, t.start + k, (op, operand), span)?;
                let at = self.run_of(result).start + t.from + k;
                self.stacks.values[at] = old;
            }
        }
        Ok(())
    }

    /// One atomic read-modify-write; returns the old value.
    fn update(
        &mut self,
        element: &Element,
        scalar: usize,
        (op, operand): (AtomicOp, Imm),
        span: Span,
    ) -> Result<Imm> {
        let old = self.read(element, scalar);
        let new = self.combine(op, old, operand, span)?;
        if let Element::Field(field, at) = element
            && self.machine.is_packed(*field)
        {
            let draws = self.draws(*field, scalar..scalar + 1, span)?;
            let next = || draws.first().copied().unwrap_or(0);
            let update = (op, operand);
            (self.machine).update_packed(*field, at, scalar, update, next);
        } else {
            self.write(element, scalar, new);
        }
        Ok(old)
    }

    pub(super) fn compare_exchange(
        &mut self,
        inst: Inst,
        access: &Access,
        span: Span,
    ) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let (slices, operands) = self.locate(data, access, span, true)?;
        // A scalar is in one element.
        let Some(t) = slices.into_iter().next() else {
            self.set_zero(data.results[0]);
            return Ok(());
        };
        let old = self.read(&t.element, t.start);
        self.watch_element(&t.element, t.start, None, span)?;
        let new = self.scalar(operands[1]);
        if old.bits() == self.scalar(operands[0]).bits() {
            self.write_all(&t, &[new], span)?;
        } else if let Element::Field(field, _) = &t.element {
            // The number of random numbers does not depend on what is stored.
            self.draws(*field, t.start..t.start + t.len, span)?;
        }
        self.set_scalar(data.results[0], old);
        Ok(())
    }

    fn combine(&self, op: AtomicOp, old: Imm, operand: Imm, span: Span) -> Result<Imm> {
        eval::combine(op, old, operand).ok_or_else(|| {
            let why = format!("atomic `{}` is not defined on `{}`", op.name(), old.ty);
            self.error(NOT_RUNNABLE, why, span)
        })
    }

    fn set_zero(&mut self, result: Value) {
        let zeros = zero(self.machine.module, self.func().ty(result));
        self.set(result, &zeros);
    }

    /// Locates the elements of an access; none if it is out of range, which has been reported if required.
    /// Also returns the arguments after indices and steps.
    fn locate<'d>(
        &mut self,
        data: &'d InstData,
        access: &Access,
        span: Span,
        writes: bool,
    ) -> Result<(Slices, &'d [Value])> {
        let f = self.func();
        let (elem, rank) = self.machine.module.place_elem(f, access.place);
        let (indices, mut rest) = data.args.split_at(rank);
        let int = |v: &Value| self.scalar(*v).as_int().unwrap_or(0);
        let indices: SmallVec<[i128; 4]> = indices.iter().map(int).collect();
        let element = self.element(access.place, &indices, span)?;

        let mut ty = elem;
        let mut start = 0;
        let mut found: SmallVec<[i128; 4]> = indices.clone();
        let mut bad_step = false;
        for step in &access.path {
            let component = match step {
                Step::Const(k) => *k,
                Step::Dynamic => {
                    let (step, others) = match rest.split_first() {
                        Some((step, others)) => (int(step), others),
                        None => return Err(self.error(NOT_RUNNABLE, "a step is missing", span)),
                    };
                    rest = others;
                    found.push(step);
                    let len = self.machine.module.structs.arity(ty);
                    let inside = 0 <= step && step < i128::from(len);
                    bad_step |= !inside;
                    if inside { step as u32 } else { 0 }
                }
            };
            start += self.machine.prepared.component_start(ty, component);
            ty = match self.machine.module.structs.component(ty, component) {
                Some(ty) => ty,
                None => return Err(self.error(NOT_RUNNABLE, "no such component", span)),
            };
        }

        let inside = element.is_some() && !bad_step;
        if access.guard == Guard::InBounds && !inside {
            let why = format!("an access of {:?} marked as inside is not", access.place);
            let note = format!("indices and components: {found:?}");
            return Err(self.error(NOT_INSIDE, why, span).note(note));
        }
        // An invalid component of a local is ignored, as in `insert`.
        let quiet = access.guard == Guard::Silent
            || element.is_some() && matches!(access.place, Place::Local(_));
        if (writes || self.machine.config.check_reads) && !inside && !quiet {
            let values = indices.into_iter().map(reported).collect();
            let kind = if writes {
                SiteKind::OutOfRange(access.place)
            } else {
                SiteKind::ReadOutOfRange(access.place)
            };
            self.report(kind, span, values);
        }
        let len = self.machine.prepared.scalars(ty);
        let slices = match element.filter(|_| inside) {
            None => Slices::new(),
            Some(Element::Field(field, at)) => {
                let reach = (access.activation, writes, span);
                self.field_slices(field, &at, start..start + len, reach)?
            }
            Some(element) => SmallVec::from_iter([ElementSlice {
                element,
                start,
                len,
                from: 0,
            }]),
        };
        Ok((slices, rest))
    }

    /// The elements that hold some scalars of an element of a field, as far as they exist.
    fn field_slices(
        &mut self,
        field: Field,
        at: &Relative,
        scalars: Range<usize>,
        (activation, writes, span): (Activation, bool, Span),
    ) -> Result<Slices> {
        let mut slices = Slices::new();
        for leaf in self.machine.module.leaves(field) {
            let first = scalars.start.max(leaf.scalars.start);
            let end = scalars.end.min(leaf.scalars.end);
            let (start, len, from) = if first < end {
                let from = first - scalars.start;
                (first - leaf.scalars.start, end - first, from)
            } else if scalars.is_empty() {
                // An access without scalars still activates.
                (0, 0, 0)
            } else {
                continue;
            };
            if self.reach(leaf.field, at, activation, writes, span)? {
                slices.push(ElementSlice {
                    element: Element::Field(leaf.field, at.clone()),
                    start,
                    len,
                    from,
                });
            }
        }
        Ok(slices)
    }

    fn element(&self, place: Place, indices: &[i128], span: Span) -> Result<Option<Element>> {
        let lowered = || {
            let why = "lowered memory is accessed by byte offset only";
            self.error(NOT_RUNNABLE, why, span)
        };
        Ok(match (place, &self.machine.memory) {
            (Place::Field(f), Memory::Abstract { fields, .. }) => {
                let at = fields[f].domain.locate(indices);
                at.map(|at| Element::Field(f, at))
            }
            (Place::Temp(t), Memory::Abstract { .. }) => Some(Element::Temp(t)),
            (Place::Array(a), Memory::Abstract { .. }) => {
                let at = self.machine.arrays.locate(a, indices);
                at.map(|offset| Element::Array(a, offset))
            }
            (Place::Field(_) | Place::Temp(_) | Place::Array(_), Memory::Lowered { .. }) => {
                return Err(lowered());
            }
            (Place::Local(l), _) => {
                let frame = &self.stacks.frames[self.stacks.frames.len() - 1];
                let local = &self.machine.prepared.funcs[frame.func].locals[l];
                let base = frame.locals + local.start;
                match local.len {
                    Some(len) if local.shared && self.block.is_some() => {
                        let index = indices.first().copied().unwrap_or(-1);
                        (0 <= index && index < i128::from(len))
                            .then(|| Element::Shared(local.start + index as usize * local.elem))
                    }
                    None => Some(Element::Local(base)),
                    Some(len) => {
                        let index = indices.first().copied().unwrap_or(-1);
                        (0 <= index && index < i128::from(len))
                            .then(|| Element::Local(base + index as usize * local.elem))
                    }
                }
            }
        })
    }

    fn read(&self, element: &Element, scalar: usize) -> Imm {
        match (element, &self.machine.memory) {
            (Element::Field(f, at), Memory::Abstract { .. }) if self.machine.is_packed(*f) => {
                self.machine.read_packed(*f, at, scalar)
            }
            (Element::Field(f, at), Memory::Abstract { fields, .. }) => fields[*f].get(at, scalar),
            (Element::Temp(t), Memory::Abstract { temps, .. }) => temps[t.0 as usize][scalar],
            (Element::Array(a, offset), _) => {
                let (ty, within) = self.machine.arrays.get(*a).scalars[scalar];
                self.machine.arrays.read(*a, offset + within as i64, ty)
            }
            (Element::Local(start), _) => self.stacks.locals[start + scalar],
            (Element::Shared(start), _) => self.read_shared(start + scalar),
            // `element` returns these for abstract memory only.
            (Element::Field(..) | Element::Temp(_), Memory::Lowered { .. }) => {
                Imm::zero(Scalar::Bool)
            }
        }
    }

    fn write(&mut self, element: &Element, scalar: usize, value: Imm) {
        match (element, &mut self.machine.memory) {
            (Element::Field(f, at), Memory::Abstract { fields, .. }) => {
                fields[*f].set(at, scalar, value);
            }
            (Element::Temp(t), Memory::Abstract { temps, .. }) => {
                temps[t.0 as usize][scalar] = value;
            }
            (Element::Array(a, offset), _) => {
                let (_, within) = self.machine.arrays.get(*a).scalars[scalar];
                self.machine.arrays.write(*a, offset + within as i64, value);
            }
            (Element::Local(start), _) => self.stacks.locals[start + scalar] = value,
            (Element::Shared(start), _) => self.write_shared(start + scalar, value),
            (Element::Field(..) | Element::Temp(_), Memory::Lowered { .. }) => {}
        }
    }
}

/// Checks writes for races.
impl Launch<'_, '_> {
    fn watch_element(
        &mut self,
        element: &Element,
        scalar: usize,
        plain: Option<Imm>,
        span: Span,
    ) -> Result<()> {
        let cell = |launch: &Self| match element {
            Element::Field(f, at) => Some(Cell::Field(*f, at.clone(), scalar)),
            Element::Array(a, offset) => {
                let within = launch.machine.arrays.get(*a).scalars[scalar].1 as i64;
                Some(launch.host_cell(*a, offset + within))
            }
            Element::Local(_) | Element::Shared(_) | Element::Temp(_) => None,
        };
        self.watch_write(cell, plain, span)
    }

    fn watch_bytes(
        &mut self,
        space: Space,
        offset: i64,
        plain: Option<Imm>,
        span: Span,
    ) -> Result<()> {
        let cell = |launch: &Self| match space {
            Space::Tree(tree, _) => Some(Cell::Tree(tree, offset)),
            // Only atomics, and the thread that has just allocated a cell, change which cells exist.
            Space::Nodes(_) | Space::Bytes(_) | Space::Streamed(_) => None,
            Space::Array(a) => Some(launch.host_cell(a, offset)),
            Space::Temps => None,
            // Private memory has no races, except worker 0's, which is the tree.
            Space::Private(tree, _) => (launch.worker == 0).then_some(Cell::Tree(tree, offset)),
        };
        self.watch_write(cell, plain, span)
    }

    fn host_cell(&self, array: Array, offset: i64) -> Cell {
        let view = &self.machine.arrays.get(array).view;
        Cell::Host(view.buffer.0, view.base + offset)
    }
}

/// After lowering.
impl Launch<'_, '_> {
    pub(super) fn mem_load(&mut self, data: &InstData, space: Space, span: Span) -> Result<()> {
        let result = data.results[0];
        let run = self.run_of(result);
        for (k, (ty, offset)) in self
            .bytes_of(data.args[0], self.func().ty(result))
            .enumerate()
        {
            self.stacks.values[run.start + k] = if self.is_off(data.args.get(1), k) {
                Imm::zero(ty)
            } else {
                self.check_bytes(space, offset, ty, false, span)?;
                self.read_bytes(space, offset, ty)
            };
        }
        Ok(())
    }

    /// Whether a mask disables a lane.
    fn is_off(&self, mask: Option<&Value>, lane: usize) -> bool {
        mask.is_some_and(|m| self.value(*m)[lane].as_bool() == Some(false))
    }

    pub(super) fn mem_store(&mut self, data: &InstData, space: Space, span: Span) -> Result<()> {
        let run = self.run_of(data.args[1]);
        let lanes = run.len() as i64;
        let places = self.bytes_of(data.args[0], self.func().ty(data.args[1]));
        for (k, (ty, offset)) in places.enumerate() {
            let whole = lanes * i64::from(ty.bytes());
            if k == 0 && matches!(space, Space::Streamed(_)) && offset % whole != 0 {
                let why = format!("a vector of {whole} bytes is streamed to byte {offset}");
                return Err(self.error(BAD_ADDRESS, why, span));
            }
            if self.is_off(data.args.get(2), k) {
                continue;
            }
            self.check_bytes(space, offset, ty, true, span)?;
            let value = self.stacks.values[run.start + k];
            self.watch_bytes(space, offset, Some(value), span)?;
            self.write_bytes(space, offset, value);
        }
        Ok(())
    }

    pub(super) fn mem_atomic(
        &mut self,
        data: &InstData,
        op: AtomicOp,
        space: Space,
        span: Span,
    ) -> Result<()> {
        let operand = self.run_of(data.args[1]).start;
        let result = self.run_of(data.results[0]).start;
        let places = self.bytes_of(data.args[0], self.func().ty(data.args[1]));
        for (k, (ty, offset)) in places.enumerate() {
            self.check_bytes(space, offset, ty, true, span)?;
            let old = self.read_bytes(space, offset, ty);
            let new = self.combine(op, old, self.stacks.values[operand + k], span)?;
            self.watch_bytes(space, offset, None, span)?;
            self.write_bytes(space, offset, new);
            self.stacks.values[result + k] = old;
        }
        Ok(())
    }

    pub(super) fn load_interleaved(
        &mut self,
        data: &InstData,
        rows: &Interleaved,
        span: Span,
    ) -> Result<()> {
        let start = self.scalar(data.args[0]).as_int().unwrap_or(0) as i64;
        for ((space, at), result) in rows.columns.iter().zip(&data.results) {
            let run = self.run_of(*result);
            let ty = self.func().ty(*result).elem().unwrap_or(Scalar::I64);
            let mut offset = start.wrapping_add(*at);
            for (lane, to) in run.enumerate() {
                self.stacks.values[to] = if self.is_off(data.args.get(1), lane) {
                    Imm::zero(ty)
                } else {
                    self.check_bytes(*space, offset, ty, false, span)?;
                    self.read_bytes(*space, offset, ty)
                };
                offset = offset.wrapping_add(rows.stride);
            }
        }
        Ok(())
    }

    pub(super) fn store_interleaved(
        &mut self,
        data: &InstData,
        rows: &Interleaved,
        span: Span,
    ) -> Result<()> {
        let start = self.scalar(data.args[0]).as_int().unwrap_or(0) as i64;
        let mask = data.args.get(1 + rows.columns.len());
        for ((space, at), vector) in rows.columns.iter().zip(&data.args[1..]) {
            let mut offset = start.wrapping_add(*at);
            for (lane, from) in self.run_of(*vector).enumerate() {
                if !self.is_off(mask, lane) {
                    let value = self.stacks.values[from];
                    self.check_bytes(*space, offset, value.ty, true, span)?;
                    self.watch_bytes(*space, offset, Some(value), span)?;
                    self.write_bytes(*space, offset, value);
                }
                offset = offset.wrapping_add(rows.stride);
            }
        }
        Ok(())
    }

    pub(super) fn add_interleaved(
        &mut self,
        data: &InstData,
        spaces: &[Space],
        span: Span,
    ) -> Result<()> {
        let mask = data.args.get(1 + spaces.len());
        let starts: Vec<i64> = self
            .value(data.args[0])
            .iter()
            .map(|imm| imm.as_int().unwrap_or(0) as i64)
            .collect();
        for (lane, start) in starts.into_iter().enumerate() {
            if self.is_off(mask, lane) {
                continue;
            }
            let mut offset = start;
            for (space, part) in spaces.iter().zip(&data.args[1..]) {
                let operand = self.value(*part)[lane];
                self.check_bytes(*space, offset, operand.ty, true, span)?;
                let old = self.read_bytes(*space, offset, operand.ty);
                let new = self.combine(AtomicOp::Add, old, operand, span)?;
                self.watch_bytes(*space, offset, None, span)?;
                self.write_bytes(*space, offset, new);
                offset = offset.wrapping_add(i64::from(operand.ty.bytes()));
            }
        }
        Ok(())
    }

    pub(super) fn mem_compare_exchange(
        &mut self,
        data: &InstData,
        space: Space,
        span: Span,
    ) -> Result<()> {
        let (expected, new) = (self.scalar(data.args[1]), self.scalar(data.args[2]));
        let offset = self.scalar(data.args[0]).as_int().unwrap_or(0) as i64;
        self.check_bytes(space, offset, expected.ty, true, span)?;
        let old = self.read_bytes(space, offset, expected.ty);
        self.watch_bytes(space, offset, None, span)?;
        if old.bits() == expected.bits() {
            self.write_bytes(space, offset, new);
        }
        self.set_scalar(data.results[0], old);
        Ok(())
    }

    /// The offsets of the scalars of a value at a byte offset, or of a vector with an offset for each lane.
    fn bytes_of(&self, offset: Value, ty: Type) -> impl Iterator<Item = (Scalar, i64)> + use<> {
        let number = |imm: Imm| imm.as_int().unwrap_or(0) as i64;
        let bases: SmallVec<[i64; 1]> = self.value(offset).iter().copied().map(number).collect();
        let base = move |lane: usize| bases.get(lane).or(bases.first()).copied().unwrap_or(0);
        let lanes = matches!(self.func().ty(offset), Type::Vector(..));
        let scalars: SmallVec<[(Scalar, u64); 1]> = match ty {
            Type::Scalar(s) => SmallVec::from_slice(&[(s, 0)]),
            _ => self.machine.module.structs.scalar_offsets(ty).into(),
        };
        scalars.into_iter().enumerate().map(move |(k, (s, at))| {
            if lanes {
                (s, base(k))
            } else {
                (s, base(0).wrapping_add(at as i64))
            }
        })
    }

    fn check_bytes(
        &self,
        space: Space,
        offset: i64,
        ty: Scalar,
        writes: bool,
        span: Span,
    ) -> Result<()> {
        let m = self.machine.module;
        let size = u64::from(ty.bytes());
        let (inside, owned) = match (space, &self.machine.memory) {
            (
                Space::Tree(tree, field) | Space::Private(tree, field),
                Memory::Lowered { trees, .. },
            ) => {
                let tree = &trees[tree];
                let inside = tree.bytes.holds(offset, ty);
                let ends = [offset as u64, (offset as u64).wrapping_add(size - 1)];
                // Loads may read next to a block that is absent, if the value is not used.
                let data = &m.fields[field];
                let stray = !writes && !m.trees[data.tree].sparse_path(data.node).is_empty();
                let owned = inside && (stray || ends.iter().all(|at| tree.belongs(m, field, *at)));
                (inside, owned)
            }
            (
                Space::Nodes(tree) | Space::Bytes(tree) | Space::Streamed(tree),
                Memory::Lowered { trees, .. },
            ) => {
                let tree = &trees[tree];
                let owned = !writes || !tree.is_zeros(offset as u64);
                (tree.bytes.holds(offset, ty), owned)
            }
            (Space::Temps, Memory::Lowered { temps, .. }) => (temps.holds(offset, ty), true),
            (Space::Array(a), Memory::Lowered { .. }) => {
                let aligned = offset % size as i64 == 0;
                (aligned && self.machine.arrays.covers(a, offset, size), true)
            }
            (
                Space::Tree(..)
                | Space::Nodes(_)
                | Space::Bytes(_)
                | Space::Streamed(_)
                | Space::Temps
                | Space::Private(..)
                | Space::Array(_),
                Memory::Abstract { .. },
            ) => {
                let why = "a lowered access on memory that has no bytes";
                return Err(self.error(NOT_RUNNABLE, why, span));
            }
        };
        if inside && owned {
            return Ok(());
        }
        let why = if inside {
            "belongs to something else"
        } else {
            "is outside or misaligned"
        };
        Err(self.error(
            BAD_ADDRESS,
            format!("`{ty}` at byte {offset} of {space:?} {why}"),
            span,
        ))
    }

    /// Callers have checked the offset.
    fn read_bytes(&self, space: Space, offset: i64, ty: Scalar) -> Imm {
        match (space, &self.machine.memory) {
            (
                Space::Tree(tree, _)
                | Space::Nodes(tree)
                | Space::Bytes(tree)
                | Space::Streamed(tree),
                Memory::Lowered { trees, .. },
            ) => trees[tree].bytes.read(offset as u64, ty),
            (Space::Private(tree, _), Memory::Lowered { trees, .. }) => match self.worker {
                0 => trees[tree].bytes.read(offset as u64, ty),
                _ => trees[tree].copy.read(offset as u64, ty),
            },
            (Space::Temps, Memory::Lowered { temps, .. }) => temps.read(offset as u64, ty),
            (Space::Array(a), _) => self.machine.arrays.read(a, offset, ty),
            (
                Space::Tree(..)
                | Space::Nodes(_)
                | Space::Bytes(_)
                | Space::Streamed(_)
                | Space::Temps
                | Space::Private(..),
                Memory::Abstract { .. },
            ) => Imm::zero(ty),
        }
    }

    fn write_bytes(&mut self, space: Space, offset: i64, value: Imm) {
        let worker = self.worker;
        match (space, &mut self.machine.memory) {
            (
                Space::Tree(tree, _)
                | Space::Nodes(tree)
                | Space::Bytes(tree)
                | Space::Streamed(tree),
                Memory::Lowered { trees, .. },
            ) => {
                trees[tree].bytes.write(offset as u64, value);
            }
            (Space::Private(tree, _), Memory::Lowered { trees, .. }) => match worker {
                0 => trees[tree].bytes.write(offset as u64, value),
                _ => trees[tree].copy.write(offset as u64, value),
            },
            (Space::Temps, Memory::Lowered { temps, .. }) => temps.write(offset as u64, value),
            (Space::Array(a), _) => self.machine.arrays.write(a, offset, value),
            (
                Space::Tree(..)
                | Space::Nodes(_)
                | Space::Bytes(_)
                | Space::Streamed(_)
                | Space::Temps
                | Space::Private(..),
                Memory::Abstract { .. },
            ) => {}
        }
    }
}
