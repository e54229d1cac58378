//! Kernel builder: appends one instruction at a time.

mod derivatives;
mod frame;
mod parts;

use crate::convert::integer;
use crate::error::OrRaise;
use crate::layout::Tree;
use crate::program::Program;
use crate::waiting::detached;
use crate::world::World;
use derivatives::DerivativesLike;
use frame::{Frame, Owner};
use parts::{DomainLike, PieceLike, PlaceLike, StepLike, activation, type_list};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use wuji::dynamic::{self, Decomposition, compile_aside};
use wuji_ir::build;
use wuji_ir::entities::{File, Func, Local};
use wuji_ir::module::{
    ArrayData, Function, InstData, LocalData, LocalRole, Module, Param, Span, TempData, Term,
    Values,
};
use wuji_ir::ops::{
    Activation, AlgebraOp, AtomicOp, BinOp, CellOp, CmpOp, ForKind, LoopHints, Op, ReduceOp,
    ThreadOp, UnOp,
};
use wuji_ir::types::{Imm, Scalar, StructType, Type};
use wuji_ir::verify::MAX_COMPONENTS;
use wuji_ir::verify::is_numbered;

/// A description of an invalid operand or structure.
struct Invalid(String);

/// A kernel under construction.
#[pyclass(module = "wuji._native")]
pub(crate) struct Builder {
    m: Module,
    /// The kernel, then nested function definitions.
    frames: Vec<Frame>,
    span: Span,
    trees: Vec<(wuji::Tree, u32)>,
    /// Functions with a body.
    defined: Vec<Func>,
    /// Functions of the library, which are added where they are needed.
    decompositions: Vec<((Decomposition, Type, usize), Func)>,
    finished: bool,
}

#[pymethods]
impl Builder {
    #[new]
    fn new(name: &str) -> Builder {
        Builder {
            m: Module::new(name),
            frames: vec![Frame::new(Function::new(name, &[], &[]), None)],
            span: Span::UNKNOWN,
            trees: Vec::new(),
            defined: Vec::new(),
            decompositions: Vec::new(),
            finished: false,
        }
    }

    fn file(&mut self, path: &str) -> u32 {
        let known = self.m.files.iter().find(|(_, f)| *f == path);
        match known {
            Some((file, _)) => file.as_u32(),
            None => self.m.files.push(path.to_owned()).as_u32(),
        }
    }

    fn span(&mut self, file: u32, line: u32, column: u32) -> PyResult<()> {
        let file = File::from_u32(file);
        if !self.m.files.is_valid(file) {
            return Err(self.invalid(format!("unknown file {file}")));
        }
        self.span = Span { file, line, column };
        Ok(())
    }

    fn r#struct(&mut self, name: &str, fields: Vec<(String, String)>) -> PyResult<String> {
        let mut typed = Vec::new();
        let mut scalars = 0;
        for (name, ty) in fields {
            let ty = self.ty(&ty)?;
            scalars += self.m.structs.flatten(ty).len() as u64;
            typed.push((name, ty));
        }
        if scalars > MAX_COMPONENTS {
            return Err(self.invalid(format!(
                "struct `{name}` has {scalars} scalars, more than {MAX_COMPONENTS}"
            )));
        }
        let id = self.m.structs.intern(StructType {
            name: name.to_owned(),
            fields: typed,
        });
        Ok(id.to_string())
    }

    fn tree(&mut self, tree: &Tree) -> PyResult<u32> {
        self.ensure_open()?;
        if let Some((_, first)) = self.trees.iter().find(|(t, _)| *t == tree.tree) {
            return Ok(*first);
        }
        let first = dynamic::enter(&mut self.m, &tree.tree).or_raise()?;
        self.trees.push((tree.tree.clone(), first));
        Ok(first)
    }

    #[pyo3(signature = (name, r#type, rank, writable=true, contiguous=true, unaliased=false))]
    fn array(
        &mut self,
        name: &str,
        r#type: &str,
        rank: u8,
        writable: bool,
        contiguous: bool,
        unaliased: bool,
    ) -> PyResult<u32> {
        let elem = self.ty(r#type)?;
        if elem.elem().is_none() {
            return Err(self.invalid("array elements must be scalars, vectors or matrices"));
        }
        let array = self.m.arrays.push(ArrayData {
            name: name.to_owned(),
            elem,
            rank,
            writable,
            contiguous,
            unaliased,
            shape: None,
        });
        Ok(array.as_u32())
    }

    fn param(&mut self, name: &str, r#type: &str) -> PyResult<u32> {
        let ty = self.ty(r#type)?;
        if self.frames.len() != 1 || !self.frame()?.func.insts.is_empty() {
            return Err(self.invalid("parameters must precede the first instruction"));
        }
        let value = self.with(|frame, _| {
            let entry = frame.func.entry;
            Ok(frame.func.add_region_param(entry, ty))
        })?;
        self.m.params.push(Param {
            name: name.to_owned(),
            ty,
        });
        Ok(value.as_u32())
    }

    fn result(&mut self, r#type: &str) -> PyResult<()> {
        let ty = self.ty(r#type)?;
        if self.frames.len() != 1 {
            return Err(self.invalid("only the kernel can declare a result"));
        }
        self.with(|frame, _| {
            frame.func.results = vec![ty];
            Ok(())
        })
    }

    fn type_of(&self, value: u32) -> PyResult<String> {
        let frame = self.frame()?;
        let value = self.checked(frame.value(value))?;
        Ok(frame.func.ty(value).to_string())
    }

    fn r#const(&mut self, r#type: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
        let scalar = self.scalar(r#type)?;
        let imm = if value.is_instance_of::<PyFloat>() {
            Imm::float(scalar, value.extract()?)
        } else if value.is_instance_of::<PyInt>() && !scalar.is_float() {
            // Arbitrary precision: keep the low 64 bits.
            let mask = u64::MAX.into_pyobject(value.py())?;
            let low: u64 = value.bitand(mask)?.extract()?;
            match scalar {
                Scalar::Bool => Imm::bool(value.is_truthy()?),
                _ => Imm::from_bits(scalar, low),
            }
        } else if scalar.is_float() {
            Imm::float(scalar, value.extract()?)
        } else {
            Imm::int(scalar, integer(value)?)
        };
        self.one(Op::Const(imm), &[])
    }

    fn zero(&mut self, r#type: &str) -> PyResult<u32> {
        let ty = self.ty(r#type)?;
        self.ensure_open()?;
        let span = self.span;
        let Some(frame) = self.frames.last_mut() else {
            return Err(self.invalid("no function is open"));
        };
        let region = frame.func.add_region(&[]);
        let mut b = build::Builder::new(&mut self.m, &mut frame.func);
        (b.region, b.span) = (region, span);
        let value = b.zero(ty);
        // Built in a scratch region: instructions may move between regions.
        let insts = std::mem::take(&mut frame.func.regions[region].insts);
        let moved = frame.append(insts);
        self.checked(moved)?;
        Ok(value.as_u32())
    }

    fn unary(&mut self, op: &str, a: u32) -> PyResult<u32> {
        let op = self.op("unary operation", op, UnOp::from_name(op))?;
        self.one(Op::Unary(op), &[a])
    }

    fn binary(&mut self, op: &str, a: u32, b: u32) -> PyResult<u32> {
        let op = self.op("binary operation", op, BinOp::from_name(op))?;
        self.one(Op::Binary(op), &[a, b])
    }

    fn compare(&mut self, op: &str, a: u32, b: u32) -> PyResult<u32> {
        let op = self.op("comparison", op, CmpOp::from_name(op))?;
        self.one(Op::Compare(op), &[a, b])
    }

    fn select(&mut self, condition: u32, a: u32, b: u32) -> PyResult<u32> {
        self.one(Op::Select, &[condition, a, b])
    }

    fn fma(&mut self, a: u32, b: u32, c: u32) -> PyResult<u32> {
        self.one(Op::Fma, &[a, b, c])
    }

    fn convert(&mut self, a: u32, scalar: &str) -> PyResult<u32> {
        let scalar = self.scalar(scalar)?;
        self.one(Op::Convert(scalar), &[a])
    }

    fn bitcast(&mut self, a: u32, scalar: &str) -> PyResult<u32> {
        let scalar = self.scalar(scalar)?;
        self.one(Op::Bitcast(scalar), &[a])
    }

    fn splat(&mut self, r#type: &str, a: u32) -> PyResult<u32> {
        let ty = self.ty(r#type)?;
        self.one(Op::Splat(ty), &[a])
    }

    fn compose(&mut self, r#type: &str, parts: Vec<u32>) -> PyResult<u32> {
        let ty = self.ty(r#type)?;
        self.one(Op::Compose(ty), &parts)
    }

    fn extract(&mut self, a: u32, component: u32) -> PyResult<u32> {
        self.one(Op::Extract(component), &[a])
    }

    fn insert(&mut self, a: u32, component: u32, part: u32) -> PyResult<u32> {
        self.one(Op::Insert(component), &[a, part])
    }

    fn extract_dyn(&mut self, a: u32, index: u32) -> PyResult<u32> {
        self.one(Op::ExtractDyn, &[a, index])
    }

    fn insert_dyn(&mut self, a: u32, index: u32, part: u32) -> PyResult<u32> {
        self.one(Op::InsertDyn, &[a, index, part])
    }

    fn shuffle(&mut self, a: u32, components: Vec<u8>) -> PyResult<u32> {
        self.one(Op::Shuffle(components.into()), &[a])
    }

    fn matmul(&mut self, a: u32, b: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::MatMul), &[a, b])
    }

    fn transpose(&mut self, a: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Transpose), &[a])
    }

    fn dot(&mut self, a: u32, b: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Dot), &[a, b])
    }

    fn cross(&mut self, a: u32, b: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Cross), &[a, b])
    }

    fn outer(&mut self, a: u32, b: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Outer), &[a, b])
    }

    fn determinant(&mut self, a: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Determinant), &[a])
    }

    fn inverse(&mut self, a: u32) -> PyResult<u32> {
        self.one(Op::Algebra(AlgebraOp::Inverse), &[a])
    }

    fn reduce(&mut self, op: &str, a: u32) -> PyResult<u32> {
        let op = self.op("reduction", op, ReduceOp::from_name(op))?;
        self.one(Op::Reduce(op), &[a])
    }

    fn random(&mut self) -> PyResult<u32> {
        self.one(Op::Random, &[])
    }

    fn array_extent(&mut self, array: u32, axis: u8) -> PyResult<u32> {
        let array = self.array_id(array)?;
        self.one(Op::ArrayExtent(array, axis), &[])
    }

    #[pyo3(signature = (name, r#type, length=None, shared=false))]
    fn local(
        &mut self,
        name: &str,
        r#type: &str,
        length: Option<u32>,
        shared: bool,
    ) -> PyResult<u32> {
        let ty = self.ty(r#type)?;
        let data = LocalData {
            name: name.to_owned(),
            ty,
            len: length,
            shared,
            role: LocalRole::Variable,
        };
        let local = self.with(|frame, _| Ok(frame.func.locals.push(data)))?;
        Ok(local.as_u32())
    }

    /// Turns a variable of the kernel into one that iterations of parallel loops share, wherever it was and will be accessed.
    fn share(&mut self, local: u32) -> PyResult<()> {
        let local = Local::from_u32(local);
        let frame = self.frame()?;
        let data = (frame.func.locals.get(local)).filter(|data| data.len.is_none());
        let (None, Some(ty)) = (frame.target, data.map(|data| data.ty)) else {
            return Err(self.invalid(format!("{local} is not a variable of the kernel")));
        };
        if frame.shared.iter().any(|(known, _)| *known == local) {
            return Ok(());
        }
        let temp = self.m.temps.push(TempData { ty });
        self.with(|frame, _| {
            frame.share(local, temp);
            Ok(())
        })
    }

    #[pyo3(signature = (place, indices=Vec::new(), path=Vec::new()))]
    fn load(&mut self, place: PlaceLike, indices: Vec<u32>, path: Vec<StepLike>) -> PyResult<u32> {
        let (access, args) = self.access(&place, &indices, &path, Activation::Never)?;
        self.one(Op::Load(access), &args)
    }

    #[pyo3(signature = (place, value, indices=Vec::new(), path=Vec::new(), activate=true))]
    fn store(
        &mut self,
        place: PlaceLike,
        value: u32,
        indices: Vec<u32>,
        path: Vec<StepLike>,
        activate: bool,
    ) -> PyResult<()> {
        let (access, mut args) = self.access(&place, &indices, &path, activation(activate))?;
        args.push(value);
        self.push(Op::Store(access), &args).map(|_| ())
    }

    #[pyo3(signature = (op, place, value, indices=Vec::new(), path=Vec::new(), activate=true))]
    fn atomic(
        &mut self,
        op: &str,
        place: PlaceLike,
        value: u32,
        indices: Vec<u32>,
        path: Vec<StepLike>,
        activate: bool,
    ) -> PyResult<u32> {
        let op = self.op("atomic operation", op, AtomicOp::from_name(op))?;
        let (access, mut args) = self.access(&place, &indices, &path, activation(activate))?;
        args.push(value);
        self.one(Op::Atomic(op, access), &args)
    }

    #[pyo3(signature = (place, expected, new, indices=Vec::new(), path=Vec::new()))]
    fn compare_exchange(
        &mut self,
        place: PlaceLike,
        expected: u32,
        new: u32,
        indices: Vec<u32>,
        path: Vec<StepLike>,
    ) -> PyResult<u32> {
        let (access, mut args) = self.access(&place, &indices, &path, Activation::IfAbsent)?;
        args.extend([expected, new]);
        self.one(Op::CompareExchange(access), &args)
    }

    fn cell(&mut self, op: &str, field: u32, indices: Vec<u32>) -> PyResult<Option<u32>> {
        let op = self.op("cell operation", op, CellOp::from_name(op))?;
        let field = self.field(field)?;
        let inst = self.push(Op::Cell(op, field), &indices)?;
        match op {
            CellOp::Activate | CellOp::Deactivate | CellOp::DeactivateChunk => Ok(None),
            CellOp::IsActive | CellOp::Append | CellOp::Length => self.result_of(inst).map(Some),
        }
    }

    /// Appends a warp or block operation.
    fn thread(&mut self, op: &str, values: Vec<u32>) -> PyResult<Option<u32>> {
        let op = self.op("thread operation", op, ThreadOp::from_name(op))?;
        let inst = self.push(Op::Thread(op), &values)?;
        if self.frame()?.func.insts[inst].results.is_empty() {
            Ok(None)
        } else {
            self.result_of(inst).map(Some)
        }
    }

    fn cache(&mut self, field: u32) -> PyResult<()> {
        let field = self.field(field)?;
        self.push(Op::Cache(field), &[]).map(|_| ())
    }

    fn assume_range(&mut self, value: u32, base: u32, low: i64, high: i64) -> PyResult<u32> {
        self.one(Op::AssumeRange(low, high), &[value, base])
    }

    fn unique(&mut self, value: u32, count: Option<u64>) -> PyResult<u32> {
        self.one(Op::Unique(count), &[value])
    }

    fn print(&mut self, pieces: Vec<PieceLike>, values: Vec<u32>) -> PyResult<()> {
        let message = self.message(pieces)?;
        self.push(Op::Print(message), &values).map(|_| ())
    }

    fn check(&mut self, condition: u32, pieces: Vec<PieceLike>, values: Vec<u32>) -> PyResult<()> {
        let message = self.message(pieces)?;
        let mut args = vec![condition];
        args.extend(values);
        self.push(Op::Assert(message), &args).map(|_| ())
    }

    fn check_index(&mut self, index: u32, length: u32) -> PyResult<()> {
        self.push(Op::CheckIndex(length), &[index]).map(|_| ())
    }

    fn begin_if(&mut self, condition: u32) -> PyResult<()> {
        self.begin(Op::If, &[condition], Owner::If, &[]).map(|_| ())
    }

    fn begin_else(&mut self) -> PyResult<()> {
        let span = self.span;
        self.with(|frame, _| {
            let (owner, falls) = frame.leave(|o| matches!(o, Owner::If(_)), "if", span)?;
            match owner {
                Owner::If(inst) => frame.enter(inst, Owner::Else(inst, !falls), None, &[]),
                _ => Err(Invalid("`else` without `if`".into())),
            }
        })
        .map(|_| ())
    }

    fn end_if(&mut self) -> PyResult<()> {
        let span = self.span;
        self.with(|frame, _| {
            let fits = |o| matches!(o, Owner::If(_) | Owner::Else(..));
            match frame.leave(fits, "if", span)? {
                (Owner::If(inst), _) => {
                    let owner = Owner::Else(inst, false);
                    frame.enter(inst, owner, None, &[])?;
                    frame.leave(|o| o == owner, "else", span)?;
                    Ok(())
                }
                (Owner::Else(_, true), false) => frame.unreachable(span),
                _ => Ok(()),
            }
        })
    }

    fn begin_for(&mut self, low: u32, high: u32, step: u32) -> PyResult<(u32, u32)> {
        let label = self.fresh_label()?;
        let frame = self.frame()?;
        let ty = frame.func.ty(self.checked(frame.value(low))?);
        let op = Op::For(label, ForKind::Serial);
        let params = self.begin(op, &[low, high, step], |_| Owner::For, &[ty])?;
        Ok((label.as_u32(), params[0].as_u32()))
    }

    fn end_for(&mut self) -> PyResult<()> {
        self.end_region("for", |o| o == Owner::For)
    }

    fn begin_loop(&mut self) -> PyResult<u32> {
        let label = self.fresh_label()?;
        self.begin(Op::Loop(label), &[], |_| Owner::Loop, &[])?;
        Ok(label.as_u32())
    }

    fn end_loop(&mut self) -> PyResult<()> {
        self.end_region("loop", |o| o == Owner::Loop)
    }

    fn begin_block(&mut self) -> PyResult<u32> {
        let label = self.fresh_label()?;
        self.begin(Op::Block(label), &[], |_| Owner::Block, &[])?;
        Ok(label.as_u32())
    }

    fn end_block(&mut self) -> PyResult<()> {
        self.end_region("block", |o| o == Owner::Block)
    }

    #[pyo3(signature = (domain, *, block_size=None, serial=false, simd=None))]
    fn begin_foreach(
        &mut self,
        domain: DomainLike,
        block_size: Option<u32>,
        serial: bool,
        simd: Option<bool>,
    ) -> PyResult<(u32, Vec<u32>)> {
        let parallel = self.frame()?.open.iter().any(|o| o.owner == Owner::ForEach);
        if self.frames.len() != 1 || parallel {
            return Err(self.invalid("a parallel loop must be in the serial code of the kernel"));
        }
        if block_size == Some(0) {
            return Err(self.invalid("`block_size` must be at least 1"));
        }
        let hints = LoopHints {
            block_size,
            serial,
            simd,
            grain_size: None,
            cooperative: false,
            blocks: false,
            uncounted: false,
        };
        let label = self.fresh_label()?;
        let (domain, args, params, narrowed) = self.domain(domain)?;
        let op = Op::ForEach(label, domain, hints);
        let params = self.begin(op, &args, |_| Owner::ForEach, &params)?;
        let mut indices: Vec<u32> = params.iter().map(|v| v.as_u32()).collect();
        if narrowed {
            for index in &mut indices {
                *index = self.one(Op::Convert(Scalar::I32), &[*index])?;
            }
        }
        Ok((label.as_u32(), indices))
    }

    /// Ends a parallel loop. Returns whether it needs numbers of iterations that it does not have below control flow.
    fn end_foreach(&mut self) -> PyResult<bool> {
        let frame = self.frame()?;
        let label = frame.open.last().and_then(|open| open.label);
        let owns = |data: &&InstData| data.op.label() == label;
        let body = match frame.open.len() {
            0..=2 => None,
            _ => frame.func.insts.values().find(owns),
        };
        let numbered = body.is_some_and(|data| is_numbered(&frame.func, data.regions[0]));
        self.end_region("foreach", |o| o == Owner::ForEach)?;
        Ok(numbered)
    }

    fn jump_break(&mut self, label: u32) -> PyResult<()> {
        let label = self.with(|frame, _| match frame.target(label)? {
            (_, Owner::ForEach) => Err(Invalid("`break` cannot leave a parallel loop".into())),
            (label, _) => {
                frame.breaks(label);
                Ok(label)
            }
        })?;
        self.jump(Term::Break(label, Values::new()))
    }

    fn jump_continue(&mut self, label: u32) -> PyResult<()> {
        let label = self.with(|frame, _| match frame.target(label)? {
            (_, Owner::Block) => Err(Invalid(
                "`continue` needs the label of a loop, not of a block".into(),
            )),
            (label, _) => Ok(label),
        })?;
        self.jump(Term::Continue(label, Values::new()))
    }

    #[pyo3(signature = (value=None))]
    fn jump_return(&mut self, value: Option<u32>) -> PyResult<()> {
        let values = self.values(value.as_slice())?;
        self.with(|frame, _| {
            if frame.open.iter().any(|o| o.owner == Owner::ForEach) {
                return Err(Invalid("`return` cannot leave a parallel loop".into()));
            }
            let found: Vec<Type> = values.iter().map(|v| frame.func.ty(*v)).collect();
            if found == frame.func.results {
                Ok(())
            } else {
                Err(Invalid(format!(
                    "`{}` returns {}, not {}",
                    frame.func.name,
                    type_list(&frame.func.results),
                    type_list(&found)
                )))
            }
        })?;
        self.jump(Term::Return(values))
    }

    fn closed(&self) -> PyResult<bool> {
        Ok(self.frame()?.closed())
    }

    fn declare(&mut self, name: &str, params: Vec<String>, result: Option<&str>) -> PyResult<u32> {
        self.ensure_open()?;
        let params = params.iter().map(|p| self.ty(p));
        let params = params.collect::<PyResult<Vec<Type>>>()?;
        let results = result.map(|r| self.ty(r)).transpose()?;
        let function = Function::new(name, &params, results.as_slice());
        Ok(self.m.add_func(function).as_u32())
    }

    fn begin_function(&mut self, function: u32) -> PyResult<Vec<u32>> {
        self.ensure_open()?;
        let func = self.function(function)?;
        let begun = self.frames.iter().any(|f| f.target == Some(func));
        if begun || self.defined.contains(&func) {
            return Err(self.invalid(format!("{func} already has a body")));
        }
        let body = self.m.funcs[func].clone();
        let params = body.params().iter().map(|v| v.as_u32()).collect();
        self.frames.push(Frame::new(body, Some(func)));
        Ok(params)
    }

    fn end_function(&mut self) -> PyResult<()> {
        self.ensure_open()?;
        match self.frames.pop() {
            Some(frame) if frame.target.is_some() => {
                let (body, target) = self.checked(frame.finish(self.span))?;
                if let Some(func) = target {
                    self.m.funcs[func] = body;
                    self.defined.push(func);
                }
                Ok(())
            }
            other => {
                self.frames.extend(other);
                Err(self.invalid("no function is open"))
            }
        }
    }

    fn call(&mut self, function: u32, arguments: Vec<u32>) -> PyResult<Option<u32>> {
        let func = self.function(function)?;
        let inst = self.push(Op::Call(func), &arguments)?;
        match self.m.funcs[func].results.len() {
            0 => Ok(None),
            _ => self.result_of(inst).map(Some),
        }
    }

    /// Add a function of the library that decomposes matrices, once; return its number.
    fn decomposition(&mut self, name: &str, scalar: &str, size: usize) -> PyResult<u32> {
        self.ensure_open()?;
        let what = match name {
            "svd" => Decomposition::Svd,
            "polar" => Decomposition::Polar,
            "symmetric_eigen" => Decomposition::SymmetricEigen,
            "eigen" => Decomposition::Eigen,
            _ => return Err(self.invalid(format!("unknown decomposition `{name}`"))),
        };
        let ty = self.ty(scalar)?;
        let key = (what, ty, size);
        if let Some((_, known)) = self.decompositions.iter().find(|d| d.0 == key) {
            return Ok(known.as_u32());
        }
        let found = match ty {
            Type::Scalar(s) => dynamic::decomposition(&mut self.m, what, s, size).or_raise()?,
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => None,
        };
        let Some(func) = found else {
            let what = format!("no decomposition `{name}` of {size}x{size} matrices of {ty}");
            return Err(self.invalid(what));
        };
        // With it come those that it calls.
        self.defined
            .extend(self.m.funcs.keys().filter(|f| *f >= func));
        self.decompositions.push((key, func));
        Ok(func.as_u32())
    }

    fn text(&self) -> String {
        self.printed().to_string()
    }

    /// Compile the kernel, or one that computes derivatives of it: those of derivatives, where there are several modes.
    #[pyo3(signature = (world, arguments, derivatives=Vec::new()))]
    fn finish(
        &mut self,
        py: Python<'_>,
        world: &World,
        arguments: Vec<(String, usize)>,
        derivatives: Vec<DerivativesLike>,
    ) -> PyResult<Program> {
        let (finished, calls) = self.close(world, &arguments, derivatives)?;
        let load = move || finished.derived();
        let made = detached(py, || compile_aside(load))?.or_raise()?;
        self.program(calls, made)
    }

    /// Compile the parts of the kernel, each with the gradient of the part; both with tangents, if the second mode is forward mode.
    fn finish_parts(
        &mut self,
        py: Python<'_>,
        world: &World,
        arguments: Vec<(String, usize)>,
        derivatives: Vec<DerivativesLike>,
    ) -> PyResult<Vec<(Program, Program)>> {
        let (finished, calls) = self.close(world, &arguments, derivatives)?;
        let load = move || finished.parts();
        let made = detached(py, || compile_aside(load))?.or_raise()?;
        let pairs = made.into_iter().map(|(part, gradient)| {
            let part = self.program(calls.clone(), part)?;
            Ok((part, self.program(calls.clone(), gradient)?))
        });
        pairs.collect()
    }
}
