//! The body of one function while it is being built.

use super::binding::{ArrayVal, Binding, Closure, Data, Shape, Val};
use super::{Lowering, MISTAKE};
use crate::lang::ast::{At, Expr, Pat};
use crate::lang::recording::{Callee, Constant, Function, TypeTag};
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{File, Inst, Label, Local, Region, Value};
use wuji_ir::eval;
use wuji_ir::module::{self, MAX_NESTING, Span, Term, Values};
use wuji_ir::ops::{BinOp, CmpOp, Op, Place, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};
use wuji_ir::{Error, Result};

/// Expressions nested deeper than this are refused.
const DEEPEST: usize = 500;

/// Levels after which the walk continues on a stack of its own. A level of a build without optimization takes up to 10 KiB, and
/// threads may have little stack.
const LEVELS_PER_STACK: usize = 48;

/// The size of such a stack.
const STACK_BYTES: usize = 2 << 20;

/// The function of the recording that is being walked: the one that is lowered, or one that is inlined into it.
pub(super) struct Frame<'r> {
    pub(super) number: usize,
    pub(super) source: &'r Function,
    pub(super) file: File,
    pub(super) vars: Vec<Option<Binding>>,
    pub(super) loops: FxHashMap<u32, LoopTarget>,
    /// Where `return` goes; `None`: out of the function.
    pub(super) exit: Option<Exit>,
}

impl<'r> Frame<'r> {
    pub(super) fn new(number: usize, source: &'r Function, file: File) -> Frame<'r> {
        Frame {
            number,
            source,
            file,
            vars: vec![None; source.ast.vars.len()],
            loops: FxHashMap::default(),
            exit: None,
        }
    }
}

/// Where the `break` and `continue` of a loop go.
#[derive(Copy, Clone, Debug)]
pub(super) struct LoopTarget {
    pub(super) breaks: Exit,
    pub(super) continues: Next,
}

/// An instruction that `break` leaves, possibly with a value.
#[derive(Copy, Clone, Debug)]
pub(super) struct Exit {
    pub(super) label: Label,
    pub(super) inst: Inst,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum Next {
    Continue(Label),
    /// The body is a block inside of the loop.
    Break(Label),
}

pub(super) struct Body<'a, 'r> {
    pub(super) cx: &'a mut Lowering<'r>,
    pub(super) f: module::Function,
    region: Region,
    span: Span,
    frames: Vec<Frame<'r>>,
    pub(super) kernel: bool,
    /// Inside of a parallel loop.
    pub(super) parallel: bool,
    /// What the variables that the parallel loop uses are outside of it.
    pub(super) captured: Vec<(u32, Binding)>,
    /// The number of frames at the parallel loop.
    pub(super) captured_in: usize,
    /// What local arrays held when a parallel loop took them along, while that is so.
    pub(super) snapshots: FxHashMap<Local, ArrayVal>,
    depth: usize,
    /// How many regions are open.
    regions: usize,
}

/// Runs `work` on another thread, for its stack, and waits.
fn on_fresh_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("wuji-lower".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|e| Error::new("W0507", "cannot start a thread").note(e.to_string()))?;
        let outcome = thread.join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The value of an expression that has one, or leave with `Val::Never`.
macro_rules! get {
    ($value:expr) => {
        match $value? {
            Some(value) => value,
            None => return Ok(Val::Never),
        }
    };
}
pub(super) use get;

impl<'a, 'r> Body<'a, 'r> {
    pub(super) fn new(
        cx: &'a mut Lowering<'r>,
        f: module::Function,
        frame: Frame<'r>,
        kernel: bool,
    ) -> Body<'a, 'r> {
        let region = f.entry;
        Body {
            cx,
            f,
            region,
            span: Span::UNKNOWN,
            frames: vec![frame],
            kernel,
            parallel: false,
            captured: Vec::new(),
            captured_in: 0,
            snapshots: FxHashMap::default(),
            depth: 0,
            regions: 0,
        }
    }

    /// Lowers the body of the function and ends it.
    pub(super) fn finish(mut self, source: &'r Function) -> Result<module::Function> {
        let body = &source.ast.body;
        match self.expr(body)? {
            Val::Never => {}
            Val::Unit => self.end(Term::Return(Values::new())),
            Val::Value(v) => {
                let values: Values = [v].into_iter().collect();
                let values = if self.f.results.is_empty() {
                    Values::new()
                } else {
                    values
                };
                self.end(Term::Return(values));
            }
            Val::Array(_) => return Err(self.no_array(body.at)),
        }
        Ok(self.f)
    }

    /// How many calls are being inlined, with the kernel.
    pub(super) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn frame(&self) -> &Frame<'r> {
        // There is always the frame of the function itself.
        &self.frames[self.frames.len() - 1]
    }

    pub(super) fn frame_mut(&mut self) -> &mut Frame<'r> {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Runs `f` inside of another function.
    pub(super) fn inside<T>(
        &mut self,
        frame: Frame<'r>,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let span = self.span;
        self.frames.push(frame);
        let result = f(self);
        self.frames.pop();
        self.span = span;
        result
    }

    /// A closure that sees the variables of this function.
    pub(super) fn closure(&self, params: &'static [Pat], body: &'static Expr) -> Closure {
        Closure {
            params,
            body,
            frame: self.frames.len() - 1,
        }
    }

    /// Runs `f` with the variables of the function that a closure belongs to.
    pub(super) fn inside_closure<T>(
        &mut self,
        closure: &Closure,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let span = self.span;
        let callers = self.frames.split_off(closure.frame + 1);
        let result = f(self);
        self.frames.extend(callers);
        self.span = span;
        result
    }

    /// Whether a function is being inlined already.
    pub(super) fn is_open(&self, number: usize) -> bool {
        self.frames.iter().skip(1).any(|f| f.number == number)
    }

    pub(super) fn inlined(&self) -> usize {
        self.frames.len() - 1
    }

    pub(super) fn fail(&self, at: At, code: &'static str, message: impl Into<String>) -> Error {
        self.cx.error(self.frame().source, at, code, message)
    }

    fn too_deep(&self, at: At) -> Error {
        self.fail(at, "W0205", "this is nested too deep")
            .help("give parts of it names with `let`, or make a `#[func]` of them")
    }

    pub(super) fn no_array(&self, at: At) -> Error {
        self.fail(at, "W0204", "an array cannot be used as a value here")
            .help("bind it with `let` and use its elements")
    }

    pub(super) fn at(&mut self, at: At) {
        self.span = Span {
            file: self.frame().file,
            line: at.0,
            column: at.1,
        };
    }

    /// Where the walk is.
    pub(super) fn here(&self) -> At {
        At(self.span.line, self.span.column)
    }

    /// Goes one level deeper. The depth of an expression does not matter for the stack of the thread that launches a kernel.
    pub(super) fn deeper<T: Send>(
        &mut self,
        at: At,
        f: impl FnOnce(&mut Self) -> Result<T> + Send,
    ) -> Result<T> {
        if self.depth >= DEEPEST {
            return Err(self.too_deep(at));
        }
        self.depth += 1;
        let result = if self.depth.is_multiple_of(LEVELS_PER_STACK) {
            on_fresh_stack(|| f(self))
        } else {
            f(self)
        };
        self.depth -= 1;
        result
    }

    // What rustc found out.

    pub(super) fn tag(&self, at: At, number: u32) -> Result<TypeTag> {
        let tag = self.frame().source.types.get(number as usize);
        tag.cloned().ok_or_else(|| self.unrecorded(at))
    }

    pub(super) fn shape_of(&mut self, at: At, number: u32) -> Result<Shape> {
        let tag = self.tag(at, number)?;
        Ok(self.cx.shape(&tag))
    }

    pub(super) fn type_of(&mut self, at: At, number: u32) -> Result<Type> {
        match self.shape_of(at, number)? {
            Shape::Value(ty) => Ok(ty),
            Shape::Unit | Shape::Array(..) | Shape::Data => Err(self.no_array(at)),
        }
    }

    pub(super) fn constant_of(&self, at: At, number: u32) -> Result<&'r Constant> {
        let constants = &self.frame().source.constants;
        constants
            .get(number as usize)
            .ok_or_else(|| self.unrecorded(at))
    }

    pub(super) fn callee_of(&self, at: At, number: u32) -> Result<&'r Callee> {
        let callees = &self.frame().source.callees;
        callees
            .get(number as usize)
            .ok_or_else(|| self.unrecorded(at))
    }

    fn unrecorded(&self, at: At) -> Error {
        let name = self.frame().source.ast.name;
        self.fail(at, MISTAKE, format!("`{name}` was not recorded completely"))
    }

    // Instructions.

    pub(super) fn build(&mut self) -> Builder<'_> {
        Builder {
            env: &mut self.cx.module,
            func: &mut self.f,
            region: self.region,
            span: self.span,
        }
    }

    pub(super) fn ty(&self, v: Value) -> Type {
        self.f.ty(v)
    }

    pub(super) fn push(&mut self, op: Op, args: &[Value]) -> Inst {
        self.build().push(op, args)
    }

    pub(super) fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.build().value(op, args)
    }

    pub(super) fn imm(&mut self, imm: Imm) -> Value {
        self.build().imm(imm)
    }

    pub(super) fn int(&mut self, ty: Scalar, value: i128) -> Value {
        self.build().int(ty, value)
    }

    pub(super) fn float(&mut self, ty: Scalar, value: f64) -> Value {
        self.build().float(ty, value)
    }

    pub(super) fn constant(&self, v: Value) -> Option<Imm> {
        self.f.constant(v)
    }

    /// The integer a value is known to be.
    pub(super) fn known(&self, v: Value) -> Option<i128> {
        self.constant(v)?.as_int()
    }

    /// Whether a value is a float in a precise function.
    fn is_precise(&self, a: Value) -> bool {
        self.frame().source.ast.precise && self.ty(a).elem().is_some_and(Scalar::is_float)
    }

    pub(super) fn unary(&mut self, op: UnOp, a: Value) -> Value {
        let op = if self.is_precise(a) { op.precise() } else { op };
        match self.constant(a).and_then(|a| eval::unary(op, a)) {
            Some(imm) => self.imm(imm),
            None => self.op(Op::Unary(op), &[a]),
        }
    }

    /// Integers fold, so that lengths and unrolled loops are known here.
    pub(super) fn binary(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        let op = if self.is_precise(a) { op.precise() } else { op };
        let folded = match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) if x.ty.is_int() && x.ty == y.ty => eval::binary(op, x, y),
            _ => None,
        };
        match folded {
            Some(imm) => self.imm(imm),
            None => self.op(Op::Binary(op), &[a, b]),
        }
    }

    pub(super) fn compare(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        let folded = match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) if x.ty.is_int() && x.ty == y.ty => eval::compare(op, x, y),
            _ => None,
        };
        match folded {
            Some(known) => self.imm(Imm::bool(known)),
            None => self.op(Op::Compare(op), &[a, b]),
        }
    }

    pub(super) fn convert(&mut self, a: Value, to: Scalar) -> Value {
        match self.constant(a) {
            Some(imm) if imm.ty != to => self.imm(eval::convert(imm, to)),
            _ => self.build().convert(a, to),
        }
    }

    pub(super) fn bitcast(&mut self, a: Value, to: Scalar) -> Value {
        if self.ty(a).elem() == Some(to) {
            return a;
        }
        self.op(Op::Bitcast(to), &[a])
    }

    pub(super) fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.op(Op::Select, &[c, a, b])
    }

    /// A value of the type of `like` with one number in every component.
    pub(super) fn filled(&mut self, like: Type, number: f64) -> Value {
        let scalar = like.elem().unwrap_or(Scalar::F32);
        let c = self.float(scalar, number);
        self.splat(c, like)
    }

    pub(super) fn splat(&mut self, v: Value, ty: Type) -> Value {
        match ty {
            Type::Scalar(_) => v,
            _ if self.ty(v) == ty => v,
            _ => self.op(Op::Splat(ty), &[v]),
        }
    }

    pub(super) fn extract(&mut self, v: Value, k: u32) -> Value {
        // Taking apart what was just put together gives the part.
        if let Some(inst) = self.f.def(v)
            && let Op::Compose(_) = self.f.insts[inst].op
            && let Some(part) = self.f.insts[inst].args.get(k as usize)
        {
            return *part;
        }
        self.op(Op::Extract(k), &[v])
    }

    pub(super) fn end(&mut self, term: Term) {
        self.build().end(term);
    }

    /// Fills a new region; the result of `fill` says how it goes on there.
    pub(super) fn region<T>(
        &mut self,
        params: &[Type],
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<T>,
    ) -> Result<(Region, T)> {
        if self.regions >= MAX_NESTING - 2 {
            return Err(self.too_deep(self.here()));
        }
        self.regions += 1;
        let region = self.f.add_region(params);
        let outer = std::mem::replace(&mut self.region, region);
        let values = self.f.regions[region].params.clone();
        let span = self.span;
        let result = fill(self, &values);
        self.regions -= 1;
        self.span = span;
        self.region = outer;
        Ok((region, result?))
    }

    /// The last instruction of the current region.
    pub(super) fn last(&self) -> Option<Inst> {
        self.f.regions[self.region].insts.last().copied()
    }

    /// Takes the last instruction of the current region out of it, to put others in front.
    pub(super) fn take_last(&mut self, inst: Inst) -> Region {
        let insts = &mut self.f.regions[self.region].insts;
        if insts.last() == Some(&inst) {
            insts.pop();
        }
        self.region
    }

    pub(super) fn put_last(&mut self, region: Region, inst: Inst) {
        self.f.regions[region].insts.push(inst);
    }

    pub(super) fn own(&mut self, inst: Inst, region: Region) {
        self.f.insts[inst].regions.push(region);
    }

    /// A value for the result of an instruction that control leaves with values, or without.
    pub(super) fn result_of(&mut self, inst: Inst) -> Val {
        match self.f.insts[inst].results.first() {
            Some(v) => Val::Value(*v),
            None => Val::Unit,
        }
    }

    /// Gives an instruction a result when control leaves it with a value.
    pub(super) fn leaves_with(&mut self, inst: Inst, v: &Val) {
        if let Val::Value(v) = v
            && self.f.insts[inst].results.is_empty()
        {
            let ty = self.f.ty(*v);
            self.f.add_result(inst, ty);
        }
    }

    // Variables.

    pub(super) fn set(&mut self, var: u32, binding: Binding) {
        if let Some(slot) = self.frame_mut().vars.get_mut(var as usize) {
            *slot = Some(binding);
        }
    }

    pub(super) fn var(&self, at: At, var: u32) -> Result<Binding> {
        match self.frame().vars.get(var as usize) {
            Some(Some(binding)) => Ok(binding.clone()),
            _ => Err(self.fail(at, MISTAKE, "this variable has no value yet")),
        }
    }

    pub(super) fn name(&self, var: u32) -> &'static str {
        self.frame()
            .source
            .ast
            .vars
            .get(var as usize)
            .unwrap_or(&"")
    }

    pub(super) fn data(&self, at: At, var: u32) -> Result<Data> {
        match self.var(at, var)? {
            Binding::Data(data) => Ok(data),
            _ => Err(self.fail(
                at,
                MISTAKE,
                format!("`{}` is not a field or array", self.name(var)),
            )),
        }
    }

    /// Binds the names of a pattern to the parts of a value.
    pub(super) fn bind(&mut self, at: At, pat: &'static Pat, val: Val) -> Result<()> {
        match pat {
            Pat::Wild => Ok(()),
            Pat::Var { var, mutable } => {
                let shared = self.frame().source.ast.shared.contains(var) && self.kernel;
                self.bind_var(at, *var, *mutable, shared, val)
            }
            Pat::Parts(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    let val = self.part(at, &val, k)?;
                    self.bind(at, part, val)?;
                }
                Ok(())
            }
            Pat::Fields(fields) => {
                for (name, part) in *fields {
                    let Val::Value(v) = val else {
                        return Err(self.no_array(at));
                    };
                    let field = self.struct_field(at, v, name)?;
                    self.bind(at, part, field)?;
                }
                Ok(())
            }
        }
    }

    /// Binds a name of a pattern that a value may match or not.
    pub(super) fn bind_name(&mut self, at: At, var: u32, mutable: bool, val: Val) -> Result<()> {
        self.bind_var(at, var, mutable, false, val)
    }

    fn bind_var(&mut self, at: At, var: u32, mutable: bool, shared: bool, val: Val) -> Result<()> {
        let binding = match val {
            Val::Unit | Val::Never => Binding::Unit,
            Val::Array(array) => Binding::Array(self.materialize(at, self.name(var), array)?),
            Val::Value(v) if shared => {
                let ty = self.ty(v);
                let temp = self.cx.module.temps.push(module::TempData { ty });
                self.build().store(Place::Temp(temp), &[], v);
                Binding::Temp(temp, ty)
            }
            Val::Value(v) if mutable => self.new_local(var, v),
            Val::Value(v) => Binding::Value(v),
        };
        self.set(var, binding);
        Ok(())
    }

    pub(super) fn new_local(&mut self, var: u32, v: Value) -> Binding {
        self.local_of(self.name(var).to_string(), v)
    }

    pub(super) fn nameless_local(&mut self, v: Value) -> Binding {
        self.local_of(String::new(), v)
    }

    fn local_of(&mut self, name: String, v: Value) -> Binding {
        let ty = self.ty(v);
        let local = self.f.locals.push(module::LocalData {
            name,
            ty,
            len: None,
            shared: false,
            role: module::LocalRole::Variable,
        });
        self.build().store(Place::Local(local), &[], v);
        Binding::Local(local, ty)
    }

    /// Part `k` of a tuple or array.
    fn part(&mut self, at: At, val: &Val, k: usize) -> Result<Val> {
        match val {
            Val::Value(v) => Ok(Val::Value(self.extract(*v, k as u32))),
            Val::Array(array) => self.array_item(at, array, k),
            Val::Unit | Val::Never => Ok(val.clone()),
        }
    }

    // Expressions in the forms that callers need.

    /// The value of an expression; `None` when control does not get past it.
    pub(super) fn value(&mut self, e: &'static Expr) -> Result<Option<Value>> {
        match self.expr(e)? {
            Val::Never => Ok(None),
            Val::Value(v) => Ok(Some(v)),
            Val::Unit => Err(self.fail(e.at, MISTAKE, "this has no value")),
            Val::Array(_) => Err(self.no_array(e.at)),
        }
    }

    pub(super) fn values(&mut self, list: &'static [Expr]) -> Result<Option<Vec<Value>>> {
        let mut values = Vec::with_capacity(list.len());
        for e in list {
            match self.value(e)? {
                Some(v) => values.push(v),
                None => return Ok(None),
            }
        }
        Ok(Some(values))
    }
}
