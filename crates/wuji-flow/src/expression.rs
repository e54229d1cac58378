//! Values as text that is the same in every task that computes them in the same way.

use crate::storage::Storage;
use std::fmt::Write as _;
use wuji_ir::entities::{Region, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{Effect, Op, Step};

/// The most instructions that are compared.
const LONGEST: usize = 32;

/// A value of loop indices, constants and parameters. Parameters are written with `$`. `None`: it depends on something else.
pub(crate) fn expression(f: &Function, body: Region, v: Value) -> Option<String> {
    Writer::new(f, body, None).text(v)
}

/// The same, of elements of fields and arrays, too; they are added to the list, and written as their position in it.
pub(crate) fn loaded_expression(
    f: &Function,
    body: Region,
    v: Value,
    loads: &mut Vec<Storage>,
) -> Option<String> {
    Writer::new(f, body, Some(loads)).text(v)
}

struct Writer<'a> {
    f: &'a Function,
    /// Of the loop, or of the function.
    body: Region,
    loads: Option<&'a mut Vec<Storage>>,
    left: usize,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(f: &'a Function, body: Region, loads: Option<&'a mut Vec<Storage>>) -> Writer<'a> {
        Writer {
            f,
            body,
            loads,
            left: LONGEST,
            out: String::new(),
        }
    }

    fn text(mut self, v: Value) -> Option<String> {
        self.value(v)?;
        Some(self.out)
    }

    fn value(&mut self, v: Value) -> Option<()> {
        let f = self.f;
        self.left = self.left.checked_sub(1)?;
        let position = |values: &[Value]| values.iter().position(|p| *p == v);
        if let Some(k) = position(f.params()) {
            let _ = write!(self.out, "${k}:{:?} ", f.ty(v));
            return Some(());
        }
        if let Some(k) = position(&f.regions[self.body].params) {
            let _ = write!(self.out, "i{k}:{:?} ", f.ty(v));
            return Some(());
        }
        let data = &f.insts[f.def(v)?];
        let plain = data.regions.is_empty() && data.results.len() == 1;
        if let Op::Load(access) = &data.op {
            let storage = Storage::of(access.place)?;
            let loads = self.loads.as_mut()?;
            let number = loads.iter().position(|known| *known == storage);
            let number = number.unwrap_or_else(|| {
                loads.push(storage);
                loads.len() - 1
            });
            let dynamic = access.path.contains(&Step::Dynamic);
            let _ = write!(self.out, "(load #{number} {:?} ", access.path);
            (!dynamic).then_some(())?;
        } else if plain && data.op.effect() == Effect::Pure {
            let _ = write!(self.out, "({:?} ", data.op);
        } else {
            return None;
        }
        for arg in &data.args {
            self.value(*arg)?;
        }
        self.out.push(')');
        Some(())
    }
}
