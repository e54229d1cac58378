//! The normal form of kernels: no calls but recursive ones, no local memory, no early exits.

use super::{arrays, exits};
use crate::options::{Math, Options};
use crate::passes::Cx;
use crate::pipeline::run_pass;
use cranelift_entity::EntitySet;
use wuji_ir::entities::*;
use wuji_ir::module::{Function, Module, Term};
use wuji_ir::ops::{ControlOp, Op};
use wuji_ir::verify::verify;
use wuji_ir::{Error, Result};

/// Brings a module into normal form.
///
/// Results stay the same. Only accesses of local arrays out of range are not reported any more.
#[doc(hidden)]
pub fn normalize(module: &mut Module) -> Result<()> {
    let options = Options {
        math: Math::Strict,
        ..Options::default()
    };
    let mut cx = Cx::new(&options);
    cx.keeps_reverse = true;
    for pass in ["promote", "inline", "simplify"] {
        run_pass(pass, module, &mut cx)?;
    }
    for f in module.funcs.values_mut() {
        arrays::arrays_to_values(&mut module.env, f)?;
        exits::remove_exits(&mut module.env, f);
    }
    // Exits at many levels may nest too deep.
    verify(module)?;
    if cfg!(debug_assertions) {
        module.funcs.values().try_for_each(check_form)?;
    }
    Ok(())
}

/// Checks that a function is in normal form.
fn check_form(f: &Function) -> Result<()> {
    let wrong = |why: &str| {
        let error = Error::new(
            "W0302",
            format!("`{}` is not in normal form: {why}", f.name),
        );
        Err(error.note("this is a bug in the compiler, not in the kernel"))
    };
    if f.locals.values().any(|l| !l.shared) {
        return wrong("it has locals");
    }
    if !matches!(f.regions[f.entry].term, Term::Return(_)) {
        return wrong("it does not end in `return`");
    }
    let mut ends: EntitySet<Inst> = EntitySet::new();
    for inst in f.insts_in(f.entry) {
        let data = &f.insts[inst];
        let term = |k: usize| &f.regions[data.regions[k]].term;
        let is_right = match data.op.control() {
            None => true,
            Some(ControlOp::Block(_)) => false,
            Some(ControlOp::If) => {
                ends.contains(inst) || (0..2).all(|k| matches!(term(k), Term::Yield(_)))
            }
            Some(ControlOp::For(label, _) | ControlOp::ForEach(label, ..)) => {
                matches!(term(0), Term::Continue(l, _) if *l == label)
            }
            Some(ControlOp::Loop(label)) => {
                let last = end_of_loop(f, data.regions[0], label);
                ends.extend(last);
                last.is_some()
            }
        };
        if !is_right {
            return wrong(&format!("{:?}", data.op));
        }
    }
    Ok(())
}

/// The `if` at the end of a loop's body, if it only leaves or repeats the loop.
fn end_of_loop(f: &Function, body: Region, label: Label) -> Option<Inst> {
    let last = *f.regions[body].insts.last()?;
    let data = &f.insts[last];
    let sides: Vec<_> = data.regions.iter().map(|r| &f.regions[*r]).collect();
    let [leave, repeat] = sides[..] else {
        return None;
    };
    let is_right = data.op == Op::If
        && f.regions[body].term == Term::Unreachable
        && leave.insts.is_empty()
        && repeat.insts.is_empty()
        && matches!(leave.term, Term::Break(l, _) if l == label)
        && matches!(repeat.term, Term::Continue(l, _) if l == label);
    is_right.then_some(last)
}
