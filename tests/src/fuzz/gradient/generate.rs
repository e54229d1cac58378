//! Random kernels in textual IR: smooth arithmetic in `f64`, and all control flow.

use super::super::dice::Dice;
use std::fmt::Write as _;

/// `x` and `y` are read, `z` is stored, `w` and the losses are updated by atomics, `n` has small integers.
const FIELDS: &str = "tree T0 {
  dense S1 [i: 6] { place f0, f1, f2, f3 }
  dense S2 [i: 6] { place f4, f5 }
  dense S3 [i: 6] { place f6 }
  place f7, f8, f9
}
field f0 \"x\": f64 in T0.S1 (i)
field f1 \"y\": f64 in T0.S1 (i)
field f2 \"z\": f64 in T0.S1 (i)
field f3 \"w\": f64 in T0.S1 (i)
field f4 \"a\": f64x3 in T0.S2 (i)
field f5 \"m\": f64x2x2 in T0.S2 (i)
field f6 \"n\": i32 in T0.S3 (i)
field f7 \"loss\": f64 in T0.S0 ()
field f8 \"most\": f64 in T0.S0 ()
field f9 \"product\": f64 in T0.S0 ()
param p0 \"k\": i32
";

/// The elements along an axis.
const EXTENT: i64 = 6;

/// The numbers of a local array.
const LOCAL: i64 = 4;

/// A value by its number.
type Value = usize;

/// The kernel of a seed, with about so many statements.
pub(super) fn kernel(seed: u64, size: usize) -> String {
    let mut dice = Dice::new(seed);
    let functions = dice.below(3);
    let mut text = FIELDS.to_owned();
    for number in 0..functions {
        text += &function(&mut dice, number, size);
    }
    let mut body = Body::new(&mut dice, functions, size, 1);
    body.in_place = functions == 0 && body.dice.chance(30);
    body.kernel();
    let _ = write!(
        text,
        "kernel fn{functions} \"kernel\"(v0: i32) {{\n  local l0: f64[{LOCAL}]\n  local l1: f64[{LOCAL}]\n{}  return\n}}\n",
        body.text
    );
    text
}

/// `f(x, n)`, which may call earlier functions and, with a smaller `n`, itself.
fn function(dice: &mut Dice, number: usize, size: usize) -> String {
    let recursive = dice.chance(30);
    let mut body = Body::new(dice, number, size / 4 + 1, 2);
    body.in_function = true;
    body.floats.push(0);
    body.ints.push(1);
    let result = if recursive {
        let [zero, one] = [0, 1].map(|k| body.integer(k));
        let ends = body.value("bool", &format!("le v1, v{zero}"));
        let results = body.regions(&format!("if v{ends}"), 1, |body, side| {
            if side == 0 {
                body.statements(2);
                return vec![body.float()];
            }
            let fewer = body.value("i32", &format!("sub v1, v{one}"));
            let argument = body.float();
            let bounded = body.value("f64", &format!("sin v{argument}"));
            let called = body.value("f64", &format!("call fn{number}(v{bounded}, v{fewer})"));
            body.floats.push(called);
            body.statements(2);
            vec![body.float()]
        });
        results[0]
    } else {
        body.statements(size / 4);
        body.float()
    };
    let bounded = body.value("f64", &format!("sin v{result}"));
    format!(
        "fn fn{number} \"f{number}\"(v0: f64, v1: i32) -> f64 {{\n{}  return v{bounded}\n}}\n",
        body.text
    )
}

struct Body<'d> {
    dice: &'d mut Dice,
    text: String,
    next_value: usize,
    next_label: usize,
    /// Values in scope.
    floats: Vec<Value>,
    /// Small integers in scope.
    ints: Vec<Value>,
    /// Functions that can be called.
    functions: usize,
    /// Statements that are left.
    left: usize,
    depth: usize,
    in_function: bool,
    /// Iterations store to the element of `x` that they read.
    in_place: bool,
    /// The parallel loop around, which `continue` ends.
    parallel: Option<usize>,
    /// The variable of the parallel loop.
    iteration: Option<Value>,
}

impl<'d> Body<'d> {
    fn new(dice: &'d mut Dice, functions: usize, size: usize, next_value: usize) -> Body<'d> {
        Body {
            dice,
            text: String::new(),
            next_value,
            next_label: 0,
            floats: Vec::new(),
            ints: Vec::new(),
            functions,
            left: size,
            depth: 0,
            in_function: false,
            in_place: false,
            parallel: None,
            iteration: None,
        }
    }

    fn line(&mut self, text: &str) {
        for _ in 0..=self.depth {
            self.text += "  ";
        }
        self.text += text;
        self.text.push('\n');
    }

    fn fresh(&mut self) -> Value {
        self.next_value += 1;
        self.next_value - 1
    }

    fn value(&mut self, ty: &str, op: &str) -> Value {
        let v = self.fresh();
        self.line(&format!("v{v}: {ty} = {op}"));
        v
    }

    fn integer(&mut self, number: i64) -> Value {
        self.value("i32", &format!("const {number}"))
    }

    fn constant(&mut self) -> Value {
        let number = self.dice.between(-12, 12) as f64 / 8.0;
        self.value("f64", &format!("const {number:?}"))
    }

    /// A float in scope, the later the likelier.
    fn float(&mut self) -> Value {
        if self.floats.is_empty() || self.dice.chance(8) {
            return self.constant();
        }
        let back = self.dice.below(self.floats.len()).min(self.dice.below(8));
        self.floats[self.floats.len() - 1 - back]
    }

    /// An element number, mostly inside.
    fn index(&mut self) -> Value {
        match self.iteration.filter(|_| self.dice.chance(50)) {
            Some(i) => i,
            None if self.ints.is_empty() => {
                let number = self.dice.between(0, EXTENT - 1);
                self.integer(number)
            }
            None => {
                let v = *self.dice.pick(&self.ints);
                if self.dice.chance(60) {
                    return v;
                }
                let by = self.dice.between(-1, 2);
                let by = self.integer(by);
                self.value("i32", &format!("add v{v}, v{by}"))
            }
        }
    }

    fn condition(&mut self) -> Value {
        let compare = *self.dice.pick(&["lt", "le", "gt", "ge"]);
        if !self.ints.is_empty() && self.dice.chance(40) {
            let a = *self.dice.pick(&self.ints);
            let b = self.dice.between(0, 4);
            let b = self.integer(b);
            return self.value("bool", &format!("{compare} v{a}, v{b}"));
        }
        let (a, b) = (self.float(), self.float());
        self.value("bool", &format!("{compare} v{a}, v{b}"))
    }

    /// A serial part, one or two parallel loops, and a serial part.
    fn kernel(&mut self) {
        self.ints.push(0);
        self.statements(3);
        for _ in 0..1 + self.dice.below(2) {
            let outer = (self.floats.len(), self.ints.len());
            let label = self.label();
            let i = self.fresh();
            self.line(&format!("foreach L{label} (v{i}: i32) in f0 {{"));
            (self.parallel, self.iteration) = (Some(label), Some(i));
            self.depth += 1;
            self.ints.push(i);
            let most = self.left;
            self.statements(most);
            self.end_of_iteration(i);
            self.line(&format!("continue L{label}"));
            self.depth -= 1;
            self.line("}");
            (self.parallel, self.iteration) = (None, None);
            self.leave(outer);
            self.left = self.left.max(4);
        }
        self.statements(3);
    }

    fn end_of_iteration(&mut self, i: Value) {
        let v = self.float();
        let bounded = self.value("f64", &format!("tanh v{v}"));
        let field = if self.in_place { 0 } else { 2 };
        self.line(&format!("store f{field}[v{i}], v{bounded}"));
    }

    fn label(&mut self) -> usize {
        self.next_label += 1;
        self.next_label - 1
    }

    fn leave(&mut self, (floats, ints): (usize, usize)) {
        self.floats.truncate(floats);
        self.ints.truncate(ints);
    }

    fn statements(&mut self, most: usize) {
        for _ in 0..1 + self.dice.below(most) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.statement();
        }
    }

    fn statement(&mut self) {
        let nested = if self.depth < 4 { 1 } else { 0 };
        let in_kernel = if self.in_function { 0 } else { 1 };
        let weights = [
            10,
            14,
            8,
            4,
            3,
            3 * nested,
            4 * nested,
            2 * nested,
            3 * in_kernel,
            3 * in_kernel,
            if self.functions > 0 { 3 } else { 0 },
            2,
        ];
        match self.dice.weighted(&weights) {
            0 => self.unary(),
            1 => self.binary(),
            2 => self.load(),
            3 => self.vectors(),
            4 => self.select(),
            5 => self.branch(),
            6 => self.counted_loop(),
            7 => self.open_loop(),
            8 => self.atomic(),
            9 => self.local(),
            10 => self.call(),
            _ => self.load_integer(),
        }
    }

    fn unary(&mut self) {
        let x = self.float();
        let v = match self.dice.below(9) {
            0 => self.value("f64", &format!("cos v{x}")),
            1 => self.value("f64", &format!("tanh v{x}")),
            2 => self.value("f64", &format!("neg v{x}")),
            3 => self.value("f64", &format!("abs v{x}")),
            4 => self.value("f64", &format!("atan v{x}")),
            kind @ 5..=7 => {
                let square = self.value("f64", &format!("mul v{x}, v{x}"));
                let half = self.value("f64", "const 0.5");
                let positive = self.value("f64", &format!("add v{square}, v{half}"));
                let name = ["sqrt", "log", "rsqrt"][kind - 5];
                self.value("f64", &format!("{name} v{positive}"))
            }
            _ => self.value("f64", &format!("sin v{x}")),
        };
        self.floats.push(v);
    }

    fn binary(&mut self) {
        let (x, y) = (self.float(), self.float());
        let v = match self.dice.below(9) {
            0 | 1 => self.value("f64", &format!("add v{x}, v{y}")),
            2 => self.value("f64", &format!("sub v{x}, v{y}")),
            3 | 4 => {
                let product = self.value("f64", &format!("mul v{x}, v{y}"));
                self.value("f64", &format!("sin v{product}"))
            }
            5 => {
                let square = self.value("f64", &format!("mul v{y}, v{y}"));
                let one = self.value("f64", "const 1.0");
                let positive = self.value("f64", &format!("add v{square}, v{one}"));
                self.value("f64", &format!("div v{x}, v{positive}"))
            }
            6 => self.value("f64", &format!("min v{x}, v{y}")),
            7 => self.value("f64", &format!("max v{x}, v{y}")),
            _ => {
                let z = self.float();
                let c = self.value("f64", &format!("cos v{z}"));
                self.value("f64", &format!("fma v{x}, v{c}, v{y}"))
            }
        };
        self.floats.push(v);
    }

    fn load(&mut self) {
        // Another iteration may store to other elements of `z`, and gradients that need old values are refused.
        let (field, i) = match (self.dice.weighted(&[10, 10, 1]), self.iteration) {
            (0, Some(i)) if self.in_place => (0, i),
            (0, None) if self.in_place => (1, self.index()),
            (2, Some(i)) => (2, i),
            (n, _) => (n % 2, self.index()),
        };
        let v = self.value("f64", &format!("load f{field}[v{i}]"));
        self.floats.push(v);
    }

    fn load_integer(&mut self) {
        let i = self.index();
        let v = self.value("i32", &format!("load f6[v{i}]"));
        self.ints.push(v);
    }

    fn vectors(&mut self) {
        let (i, x) = (self.index(), self.float());
        let v = match self.dice.below(4) {
            0 => {
                let a = self.value("f64x3", &format!("load f4[v{i}]"));
                let s = self.value("f64x3", &format!("splat v{x}"));
                let b = self.value("f64x3", &format!("mul v{a}, v{s}"));
                let c = self.value("f64x3", &format!("sin v{b}"));
                self.value("f64", &format!("dot v{c}, v{a}"))
            }
            1 => {
                let a = self.value("f64x3", &format!("load f4[v{i}]"));
                let b = self.value("f64x3", &format!("insert v{a}.1, v{x}"));
                let c = self.value("f64x3", &format!("cross v{a}, v{b}"));
                let k = *self.dice.pick(&["add", "max", "min"]);
                self.value("f64", &format!("reduce {k} v{c}"))
            }
            2 => {
                let m = self.value("f64x2x2", &format!("load f5[v{i}]"));
                let s = self.value("f64x2x2", &format!("splat v{x}"));
                let n = self.value("f64x2x2", &format!("mul v{m}, v{s}"));
                let p = self.value("f64x2x2", &format!("matmul v{n}, v{m}"));
                let t = self.value("f64x2x2", &format!("transpose v{p}"));
                let d = self.value("f64", &format!("determinant v{t}"));
                self.value("f64", &format!("tanh v{d}"))
            }
            _ => {
                let j = self.index();
                let m = self.value("f64", &format!("load f4[v{i}].[v{j}]"));
                self.value("f64", &format!("mul v{m}, v{x}"))
            }
        };
        self.floats.push(v);
    }

    fn select(&mut self) {
        let (c, x, y) = (self.condition(), self.float(), self.float());
        let v = self.value("f64", &format!("select v{c}, v{x}, v{y}"));
        self.floats.push(v);
    }

    /// Two regions that yield values, which become values in scope.
    fn regions(
        &mut self,
        head: &str,
        results: usize,
        mut fill: impl FnMut(&mut Self, usize) -> Vec<Value>,
    ) -> Vec<Value> {
        let values: Vec<Value> = (0..results).map(|_| self.fresh()).collect();
        let names: Vec<String> = values.iter().map(|v| format!("v{v}: f64")).collect();
        let equals = if results == 0 { "" } else { " = " };
        self.line(&format!("{}{equals}{head} {{", names.join(", ")));
        for side in 0..2 {
            let outer = (self.floats.len(), self.ints.len());
            self.depth += 1;
            let yielded = fill(self, side);
            if yielded.len() == results {
                self.line(&arguments("yield", &yielded));
            }
            self.depth -= 1;
            self.leave(outer);
            self.line(if side == 0 { "} else {" } else { "}" });
        }
        values
    }

    fn branch(&mut self) {
        let c = self.condition();
        let results = self.dice.below(3);
        let exits = self.parallel.filter(|_| self.dice.chance(15));
        let values = self.regions(&format!("if v{c}"), results, |body, side| {
            body.statements(3);
            match exits.filter(|_| side == 1) {
                Some(label) => {
                    let i = body.iteration.unwrap_or_default();
                    body.end_of_iteration(i);
                    body.line(&format!("continue L{label}"));
                    // Too many for a `yield`.
                    vec![0; results + 1]
                }
                None => (0..results).map(|_| body.float()).collect(),
            }
        });
        self.floats.extend(values);
    }

    fn counted_loop(&mut self) {
        let lo = self.dice.between(0, 2);
        let hi = self.dice.between(0, 7);
        let step = *self.dice.pick(&[1, 1, 1, 2]);
        let down = self.dice.chance(25);
        let [lo, mut hi, step] = if down {
            [hi, lo, -step].map(|k| self.integer(k))
        } else {
            [lo, hi, step].map(|k| self.integer(k))
        };
        if !down && !self.ints.is_empty() && self.dice.chance(40) {
            hi = *self.dice.pick(&self.ints);
        }
        let carried = self.dice.below(4);
        let starts: Vec<Value> = (0..carried).map(|_| self.float()).collect();
        let results: Vec<Value> = (0..carried).map(|_| self.fresh()).collect();
        let (label, i) = (self.label(), self.fresh());
        let params: Vec<Value> = (0..carried).map(|_| self.fresh()).collect();
        let head = format!("for L{label} v{i}: i32 in v{lo}..v{hi} step v{step}");
        self.loop_head(&head, &results, &params, &starts);
        let outer = (self.floats.len(), self.ints.len());
        self.depth += 1;
        self.floats.extend(&params);
        self.ints.push(i);
        self.statements(4);
        if self.dice.chance(25) {
            self.exit(label, carried);
        }
        let next: Vec<Value> = (0..carried).map(|_| self.bounded()).collect();
        self.line(&arguments(&format!("continue L{label}"), &next));
        self.depth -= 1;
        self.line("}");
        self.leave(outer);
        self.floats.extend(results);
    }

    /// Leaves a loop, or an iteration, under a condition.
    fn exit(&mut self, label: usize, carried: usize) {
        let c = self.condition();
        let exit = *self.dice.pick(&["break", "continue"]);
        self.regions(&format!("if v{c}"), 0, |body, side| {
            if side == 1 {
                return Vec::new();
            }
            body.statements(2);
            let values: Vec<Value> = (0..carried).map(|_| body.bounded()).collect();
            body.line(&arguments(&format!("{exit} L{label}"), &values));
            vec![0]
        });
    }

    fn bounded(&mut self) -> Value {
        let v = self.float();
        if self.dice.chance(50) {
            return v;
        }
        self.value("f64", &format!("sin v{v}"))
    }

    fn loop_head(&mut self, head: &str, results: &[Value], params: &[Value], starts: &[Value]) {
        let names: Vec<String> = results.iter().map(|v| format!("v{v}: f64")).collect();
        let equals = if results.is_empty() { "" } else { " = " };
        let params: Vec<String> = params
            .iter()
            .zip(starts)
            .map(|(p, s)| format!("v{p}: f64 = v{s}"))
            .collect();
        let params = if params.is_empty() {
            String::new()
        } else {
            format!(" ({})", params.join(", "))
        };
        self.line(&format!("{}{equals}{head}{params} {{", names.join(", ")));
    }

    /// A loop that ends when its number is large, or after a few iterations.
    fn open_loop(&mut self) {
        let start = self.float();
        let (count, limit) = (self.value("f64", "const 0.0"), self.dice.between(1, 6));
        let limit = self.value("f64", &format!("const {limit}.5"));
        let one = self.value("f64", "const 1.0");
        let results = [self.fresh(), self.fresh()];
        let label = self.label();
        let params = [self.fresh(), self.fresh()];
        self.loop_head(
            &format!("loop L{label}"),
            &results,
            &params,
            &[start, count],
        );
        let outer = (self.floats.len(), self.ints.len());
        self.depth += 1;
        self.floats.push(params[0]);
        self.statements(3);
        let next = self.bounded();
        let counted = self.value("f64", &format!("add v{}, v{one}", params[1]));
        let ends = self.value("bool", &format!("gt v{counted}, v{limit}"));
        self.regions(&format!("if v{ends}"), 0, |body, side| {
            let exit = ["break", "continue"][side];
            body.line(&format!("{exit} L{label}(v{next}, v{counted})"));
            vec![0]
        });
        self.line("unreachable");
        self.depth -= 1;
        self.line("}");
        self.leave(outer);
        self.floats.push(results[0]);
    }

    fn atomic(&mut self) {
        let v = self.float();
        let bounded = self.value("f64", &format!("tanh v{v}"));
        match self.dice.weighted(&[6, 6, 2, 1]) {
            0 => self.value("f64", &format!("atomic add f7[], v{bounded}")),
            1 => {
                let i = self.index();
                self.value("f64", &format!("atomic add f3[v{i}], v{bounded}"))
            }
            2 => self.value("f64", &format!("atomic max f8[], v{bounded}")),
            _ => {
                let factor = self.constant();
                self.value("f64", &format!("atomic mul f9[], v{factor}"))
            }
        };
    }

    /// Stores to the local array, and loads from it.
    fn local(&mut self) {
        let (i, j, x) = (self.index(), self.index(), self.float());
        let length = self.integer(LOCAL);
        let i = self.value("i32", &format!("rem v{i}, v{length}"));
        let j = self.value("i32", &format!("rem v{j}, v{length}"));
        let (i, j) = (self.absolute(i), self.absolute(j));
        // A parallel loop does not assign variables from outside of it.
        let array = if self.parallel.is_some() { 0 } else { 1 };
        self.line(&format!("store l{array}[v{i}], v{x}"));
        let v = self.value("f64", &format!("load l{array}[v{j}]"));
        self.floats.push(v);
    }

    fn absolute(&mut self, i: Value) -> Value {
        self.value("i32", &format!("abs v{i}"))
    }

    fn call(&mut self) {
        let (x, depth) = (self.float(), self.dice.between(0, 3));
        let depth = self.integer(depth);
        let which = self.dice.below(self.functions);
        let v = self.value("f64", &format!("call fn{which}(v{x}, v{depth})"));
        self.floats.push(v);
    }
}

fn arguments(what: &str, values: &[Value]) -> String {
    let names: Vec<String> = values.iter().map(|v| format!("v{v}")).collect();
    match (what, names.is_empty()) {
        (_, true) => what.to_owned(),
        ("yield", false) => format!("yield {}", names.join(", ")),
        (_, false) => format!("{what}({})", names.join(", ")),
    }
}
