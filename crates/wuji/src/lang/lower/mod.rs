//! From a recording to the unlowered kernel.
//!
//! The walk over the source is direct: a mutable variable becomes a local, a `let` without `mut` names a
//! value, control becomes regions. What is cheaper to know here than to find out later is decided
//! here: closures and functions that take fields or arrays are inlined, loops in `unroll(..)` are
//! copied, constants fold.

mod active;
mod array;
mod array_method;
mod binding;
mod body;
mod call;
mod cell;
mod control;
mod enums;
mod expr;
mod group;
mod matching;
mod mentions;
mod method;
mod ops;
mod own;
mod place;
mod range;
mod simt;
mod struct_array;
#[cfg(test)]
mod tests;
mod text;

use super::ast::{At, Pat};
use super::recording::{Bound, CallTarget, Function, Recording, TypeTag};
use binding::Shape;
use body::{Body, Frame};
pub(super) use simt::is_simt;
use wuji_ir::entities::{File, Func};
use wuji_ir::module::{self, Module};
use wuji_ir::{Error, Position, Result, types::Type};

/// The error code for what rustc and the macros should have refused.
const MISTAKE: &str = "W0200";
const OURS: &str = "no kernel that rustc accepts should lead here: this is a mistake of Wuji";

/// Adds the functions of a recording to a module that has its structs, trees, fields, arrays and
/// by-value parameters already. `bounds` says what each parameter of the kernel is.
pub fn lower(recording: &Recording, bounds: &[Bound], module: Module) -> Result<Module> {
    let Some(kernel) = recording.functions.first() else {
        return Err(Error::new(MISTAKE, "nothing was recorded").note(OURS));
    };
    let mut lowering = Lowering {
        recording,
        module,
        declared: vec![None; recording.functions.len()],
        waiting: Vec::new(),
    };
    let result = lowering.result_types(kernel)?;
    let params: Vec<Type> = lowering.module.params.iter().map(|p| p.ty).collect();
    let stub = module::Function::new(kernel.ast.name, &params, &result);
    let id = lowering.module.add_func(stub);
    lowering.module.kernel = Some(id);
    let name = kernel.ast.name.to_string();
    if lowering.module.name.is_empty() {
        lowering.module.name = name;
    }
    let function = lowering.kernel(kernel, bounds, &params, &result)?;
    lowering.module.funcs[id] = function;
    lowering.fill()?;
    #[cfg(test)]
    tests::LOWERED.set(lowering.module.to_string());
    Ok(lowering.module)
}

/// Adds the functions of a recording that has no kernel to a module; the first of them is the one that is asked for.
pub(crate) fn lower_function(recording: &Recording, module: Module) -> Result<(Module, Func)> {
    let mut lowering = Lowering {
        recording,
        module,
        declared: vec![None; recording.functions.len()],
        waiting: Vec::new(),
    };
    let Some(func) = lowering.declare(0) else {
        return Err(Error::new(MISTAKE, "this function cannot be called").note(OURS));
    };
    lowering.fill()?;
    Ok((lowering.module, func))
}

/// A module that is being filled.
struct Lowering<'r> {
    recording: &'r Recording,
    module: Module,
    /// The functions that calls have asked for, by their number in the recording.
    declared: Vec<Option<Func>>,
    /// Those of them that have no body yet.
    waiting: Vec<(usize, Func)>,
}

impl<'r> Lowering<'r> {
    /// Gives the functions that calls have asked for their bodies.
    fn fill(&mut self) -> Result<()> {
        while let Some((number, id)) = self.waiting.pop() {
            let function = self.function(number)?;
            self.module.funcs[id] = function;
        }
        Ok(())
    }

    fn error(&self, f: &Function, at: At, code: &'static str, message: impl Into<String>) -> Error {
        let error = Error::new(code, message).at(Some(Position {
            file: f.ast.file.to_string(),
            line: at.0,
            column: at.1,
        }));
        match code {
            MISTAKE => error.note(OURS),
            _ => error,
        }
    }

    fn file(&mut self, name: &str) -> File {
        let known = self.module.files.iter().find(|f| f.1 == name).map(|f| f.0);
        known.unwrap_or_else(|| self.module.files.push(name.to_string()))
    }

    fn shape(&mut self, tag: &TypeTag) -> Shape {
        match tag {
            TypeTag::Unit => Shape::Unit,
            TypeTag::Element(ty) => Shape::Value(ty(&mut self.module.structs)),
            TypeTag::Array(part, n) => Shape::Array(Box::new(self.shape(part)), *n),
            TypeTag::Data | TypeTag::Bundle(_) => Shape::Data,
        }
    }

    fn result_types(&mut self, f: &Function) -> Result<Vec<Type>> {
        match self.shape(&f.result) {
            Shape::Unit => Ok(Vec::new()),
            Shape::Value(ty) => Ok(vec![ty]),
            Shape::Array(..) | Shape::Data => Err(self.error(
                f,
                f.ast.at,
                MISTAKE,
                format!("`{}` cannot return an array here", f.ast.name),
            )),
        }
    }

    /// The types of all parameters, when all are plain values and so is the result: then the
    /// function can be called. Others are inlined.
    fn callable(&mut self, number: usize) -> Option<(Vec<Type>, Vec<Type>)> {
        let recording = self.recording;
        let f = &recording.functions[number];
        let mut params = Vec::new();
        for p in f.ast.params {
            let super::ast::ParamKind::Value(tag) = p.kind else {
                return None;
            };
            match self.shape(f.types.get(tag as usize)?) {
                Shape::Value(ty) => params.push(ty),
                Shape::Unit | Shape::Array(..) | Shape::Data => return None,
            }
        }
        match self.shape(&f.result) {
            Shape::Unit => Some((params, Vec::new())),
            Shape::Value(ty) => Some((params, vec![ty])),
            Shape::Array(..) | Shape::Data => None,
        }
    }

    /// The function in the module; `None` when it has to be inlined.
    fn declare(&mut self, number: usize) -> Option<Func> {
        if let Some(id) = self.declared[number] {
            return Some(id);
        }
        let (params, results) = self.callable(number)?;
        let recording = self.recording;
        let name = recording.functions[number].ast.name;
        let stub = module::Function::new(name, &params, &results);
        let id = self.module.add_func(stub);
        self.declared[number] = Some(id);
        self.waiting.push((number, id));
        Some(id)
    }

    fn kernel(
        &mut self,
        f: &'r Function,
        bounds: &[Bound],
        params: &[Type],
        results: &[Type],
    ) -> Result<module::Function> {
        let function = module::Function::new(f.ast.name, params, results);
        let file = self.file(f.ast.file);
        let mut body = Body::new(self, function, Frame::new(0, f, file), true);
        let mut arguments = group::Arguments::new(body.f.params().to_vec(), bounds);
        for param in f.ast.params {
            match body.argument(param, &mut arguments)? {
                group::Argument::Value(val) => body.bind(param.at, &param.pat, val)?,
                group::Argument::Data(binding) => {
                    if let Pat::Var { var, .. } = param.pat {
                        body.set(var, binding);
                    }
                }
            }
        }
        body.finish(f)
    }

    fn function(&mut self, number: usize) -> Result<module::Function> {
        let recording = self.recording;
        let f = &recording.functions[number];
        let Some((params, results)) = self.callable(number) else {
            return Err(self.error(f, f.ast.at, MISTAKE, "this function cannot be called"));
        };
        let function = module::Function::new(f.ast.name, &params, &results);
        let file = self.file(f.ast.file);
        let mut body = Body::new(self, function, Frame::new(number, f, file), false);
        let values = body.f.params().to_vec();
        for (param, value) in f.ast.params.iter().zip(values) {
            body.bind(param.at, &param.pat, binding::Val::Value(value))?;
        }
        let mut function = body.finish(f)?;
        function.reverse = self.reverse(f, &function)?;
        Ok(function)
    }

    /// The function for the reverse sweep of another one, if its source names one.
    fn reverse(&mut self, f: &Function, function: &module::Function) -> Result<Option<Func>> {
        let number = match &f.reverse {
            None => return Ok(None),
            Some(CallTarget::Function(number)) => *number,
            Some(
                CallTarget::Builtin(name) | CallTarget::Method(name) | CallTarget::Unknown(name),
            ) => {
                let name = name.rsplit("::").next().unwrap_or(name);
                return Err(self.bad_reverse(f, format!("`{name}` is not a `#[func]`")));
            }
            Some(CallTarget::Constructor | CallTarget::Variant(_)) => {
                return Err(self.bad_reverse(f, "a constructor is not a `#[func]`"));
            }
        };
        let recording = self.recording;
        let name = recording.functions[number].ast.name;
        let Some(id) = self.declare(number) else {
            return Err(self.bad_reverse(f, format!("`{name}` returns an array")));
        };
        let signature = &self.module.signatures[id];
        if function.is_reversed_by(signature, &self.module.structs) {
            return Ok(Some(id));
        }
        let returned = self.type_names(&signature.results);
        let wanted = function.reverse_signature(&self.module.structs).results;
        let wanted = self.type_names(&wanted);
        let why = format!("`{name}` returns `{returned}`, and not `{wanted}`");
        Err(self.bad_reverse(f, why))
    }

    fn bad_reverse(&self, f: &Function, why: impl std::fmt::Display) -> Error {
        let message = format!("the reverse sweep of `{}` does not fit: {why}", f.ast.name);
        self.error(f, f.ast.at, "W0254", message)
            .note("it takes the parameters, the result and the adjoint of the result, and returns the adjoints of the parameters that have floats")
            .help("return the adjoint itself if there is one, and a tuple if there are several")
    }

    /// Types of results as a message shows them.
    fn type_names(&self, types: &[Type]) -> String {
        let names: Vec<String> = types.iter().map(|t| self.type_name(*t)).collect();
        match &names[..] {
            [one] => one.clone(),
            several => format!("({})", several.join(", ")),
        }
    }

    fn type_name(&self, ty: Type) -> String {
        match ty {
            Type::Struct(s) if self.module.structs.0[s].name == "tuple" => {
                self.type_names(&self.module.structs.components(ty))
            }
            Type::Struct(s) => self.module.structs.0[s].name.clone(),
            Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => ty.to_string(),
        }
    }
}
