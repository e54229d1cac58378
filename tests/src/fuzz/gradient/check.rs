//! Compares the derivatives of a kernel.

use super::super::check::guarded;
use super::super::dice::Dice;
use super::super::native;
use super::super::program::{Inputs, Program};
use wuji_compile::autodiff::{
    Derivatives, Gradient, UseKind, add_derivatives, forward, parts, reverse,
};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};

/// The numbers of all fields.
type Contents = Vec<Vec<Imm>>;

/// How a kernel fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Error,
    Forward,
    Differences,
    Native,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub(super) kind: Kind,
    pub(super) why: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Agreed,
    Skipped(#[allow(dead_code)] String),
    Failed(Failure),
}

/// The number of the kernel's parameter.
const PARAM: i64 = 3;

/// Relative errors that rounding explains.
const ROUNDING: f64 = 1e-8;

/// Numbers beyond this leave too few digits.
const LARGE: f64 = 1e6;

const MAX_STEPS: u64 = 400_000;

/// Errors with which a gradient is refused.
const REFUSALS: [&str; 2] = ["W0706", "W0720"];

/// A kernel, its inputs, and what its derivatives start from.
struct Experiment {
    primal: Module,
    start: Contents,
    end: Contents,
    weights: Contents,
    direction: Contents,
}

/// Gradient kernels, and what they give.
struct Reversed {
    /// With their inputs, the last part of the kernel first.
    launches: Vec<(Module, Contents)>,
    adjoints: Derivatives,
    /// Along the direction.
    derivative: f64,
    /// The sum of the absolute terms of the derivative.
    size: f64,
}

pub(super) fn check(text: &str, seed: u64, native: usize) -> Verdict {
    let fail = |kind, why| {
        Verdict::Failed(Failure {
            kind,
            why,
            text: text.to_owned(),
        })
    };
    let mut compared = Ok(Ok(()));
    let outcome = guarded(|| {
        compared = compare(text, seed, native);
        Ok(())
    });
    if let Err((_, why)) = outcome {
        return fail(Kind::Error, why);
    }
    match compared {
        Ok(Ok(())) => Verdict::Agreed,
        Ok(Err((kind, why))) => fail(kind, why),
        Err(why) => Verdict::Skipped(why),
    }
}

type Compared = std::result::Result<std::result::Result<(), (Kind, String)>, String>;

/// `Err` if nothing can be compared.
fn compare(text: &str, seed: u64, native: usize) -> Compared {
    let mut dice = Dice::new(seed ^ 0x6772_6164);
    let primal = match parse(text, "gradient.wir") {
        Ok(m) => m,
        Err(e) => return Ok(Err((Kind::Error, e.to_string()))),
    };
    let start = random(&primal, &mut dice, 0.2, 1.5);
    let end = run(&primal, &start).map_err(|e| e.to_string())?;
    let is_large = |c: &Contents| numbers(c).any(|x| x.is_nan() || x.abs() > LARGE);
    if is_large(&end) {
        return Err("large numbers".to_owned());
    }
    let experiment = Experiment {
        weights: random(&primal, &mut dice, -1.0, 1.0),
        direction: random(&primal, &mut dice, -1.0, 1.0),
        primal,
        start,
        end,
    };
    let reversed = match experiment.reverse() {
        Ok(found) => found,
        Err(e) if REFUSALS.contains(&e.code) => return Err(e.to_string()),
        Err(e) => return Ok(Err((Kind::Error, e.to_string()))),
    };
    let Reversed {
        derivative, size, ..
    } = reversed;
    if !derivative.is_finite() || size > LARGE {
        return Err("large derivatives".to_owned());
    }
    let tolerance = ROUNDING * size.max(1.0);
    match experiment.forward() {
        Ok(tangent) if (tangent - derivative).abs() <= tolerance => {}
        Ok(tangent) => {
            let why = format!("reverse mode gives {derivative}, forward mode {tangent}");
            return Ok(Err((Kind::Forward, why)));
        }
        Err(e) if REFUSALS.contains(&e.code) => {}
        Err(e) => return Ok(Err((Kind::Error, format!("forward mode: {e}")))),
    }
    if let Some(why) = experiment.differs(derivative, size) {
        return Ok(Err((Kind::Differences, why)));
    }
    if dice.chance(native) {
        for threads in [1, 3] {
            match reversed.native(threads, &experiment.direction) {
                Ok(found) if (found - derivative).abs() <= tolerance => {}
                Ok(found) => {
                    let why = format!(
                        "the interpreter gives {derivative}, machine code on {threads} threads {found}"
                    );
                    return Ok(Err((Kind::Native, why)));
                }
                Err(e) => return Ok(Err((Kind::Native, e.to_string()))),
            }
        }
    }
    Ok(Ok(()))
}

impl Experiment {
    fn reverse(&self) -> Result<Reversed> {
        let mut m = self.primal.clone();
        let mut adjoints = add_derivatives(&mut m);
        adjoints.overwritten = self.primal.fields.keys().collect();
        let mut derivatives: Contents = (m.fields.keys().skip(self.start.len()))
            .map(|field| self.derivatives_of(&m, &adjoints, field, &self.weights))
            .collect();
        let parts = match reverse(&m, &adjoints) {
            Ok(_) => vec![m.clone()],
            Err(e) if e.code == "W0706" => parts(&m, &adjoints)?,
            Err(e) => return Err(e),
        };
        // The values before each part, and after the last one.
        let mut states = vec![self.start.clone()];
        for part in &parts {
            let before = states.last().into_iter().flatten();
            let mut after = run(part, &before.chain(&derivatives).cloned().collect())?;
            after.truncate(self.start.len());
            states.push(after);
        }
        let mut launches = Vec::new();
        for (k, part) in parts.iter().enumerate().rev() {
            let Gradient { module, uses, .. } = reverse(part, &adjoints)?;
            let mut contents = states[k + 1].clone();
            for found in uses.iter().filter(|u| u.kind == UseKind::NeedsOld) {
                let k_field = found.field.as_u32() as usize;
                contents[k_field] = states[k][k_field].clone();
            }
            contents.extend(derivatives);
            let mut result = run(&module, &contents)?;
            derivatives = result.split_off(self.start.len());
            launches.push((module, contents));
        }
        let result: Contents = self.end.iter().cloned().chain(derivatives).collect();
        let terms = products(&adjoints, &result, &self.direction);
        Ok(Reversed {
            derivative: terms.iter().sum(),
            size: terms.iter().map(|t| t.abs()).sum(),
            launches,
            adjoints,
        })
    }

    fn forward(&self) -> Result<f64> {
        let mut m = self.primal.clone();
        let tangents = add_derivatives(&mut m);
        let mut contents = self.start.clone();
        for field in m.fields.keys().skip(contents.len()) {
            contents.push(self.derivatives_of(&m, &tangents, field, &self.direction));
        }
        let derived = forward(&m, std::slice::from_ref(&tangents))?;
        let result = run(&derived, &contents)?;
        Ok(products(&tangents, &result, &self.weights).iter().sum())
    }

    /// The numbers of a derivative, from those of its field.
    fn derivatives_of(
        &self,
        m: &Module,
        of: &Derivatives,
        derivative: Field,
        values: &Contents,
    ) -> Vec<Imm> {
        let field = of.fields.iter().find(|(_, d)| **d == derivative);
        match field {
            Some((field, _)) => values[field.as_u32() as usize].clone(),
            None => vec![Imm::zero(Scalar::I32); count(m, derivative)],
        }
    }

    /// Why the derivative differs from finite differences, if it does and they agree among themselves.
    fn differs(&self, found: f64, size: f64) -> Option<String> {
        let at = |step: f64| -> Option<f64> {
            let moved = moved(&self.start, &self.direction, step);
            let end = run(&self.primal, &moved).ok()?;
            let pairs = numbers(&end).zip(numbers(&self.weights));
            Some(pairs.map(|(x, w)| x * w).sum())
        };
        let difference = |step: f64| Some((at(step)? - at(-step)?) / (2.0 * step));
        // One-sided ones tell kinks.
        let one_sided = |step: f64| Some((at(step)? - at(0.0)?) / step);
        let (coarse, fine) = (difference(2e-5)?, difference(1e-5)?);
        let (right, left) = (one_sided(1e-5)?, one_sided(-1e-5)?);
        let expected = fine + (fine - coarse) / 3.0;
        let scale = expected.abs().max(size).max(1e-2);
        let smooth = (coarse - fine).abs() <= 1e-4 * scale && (right - left).abs() <= 1e-2 * scale;
        (smooth && (found - expected).abs() > 1e-3 * scale)
            .then(|| format!("reverse mode gives {found}, differences {expected}"))
    }
}

impl Reversed {
    /// The derivative along a direction by machine code.
    fn native(&self, threads: usize, direction: &Contents) -> Result<f64> {
        let mut last: Option<Contents> = None;
        for (module, contents) in &self.launches {
            let mut fields = contents.clone();
            if let Some(last) = last {
                // Values are those of the interpreter; adjoints go from part to part.
                let values = direction.len();
                fields.truncate(values);
                fields.extend(last.into_iter().skip(values));
            }
            let program = Program {
                inputs: Inputs {
                    params: vec![Imm::int(Scalar::I32, PARAM.into())],
                    fields,
                    ..Inputs::default()
                },
                module: module.clone(),
            };
            let threads = native::thread_counts(&program)
                .iter()
                .copied()
                .find(|t| *t >= threads)
                .unwrap_or(1);
            last = Some(native::launch(&program, threads, &[])?.fields);
        }
        let last = last.unwrap_or_default();
        Ok(products(&self.adjoints, &last, direction).iter().sum())
    }
}

/// The products of the derivatives of fields with other numbers of the fields.
fn products(derivatives: &Derivatives, result: &Contents, with: &Contents) -> Vec<f64> {
    let of = |contents: &Contents, f: &Field| contents[f.as_u32() as usize].clone();
    let mut out = Vec::new();
    for (field, derivative) in &derivatives.fields {
        let pairs = of(result, derivative).into_iter().zip(of(with, field));
        out.extend(pairs.filter_map(|(d, x)| Some(d.as_float()? * x.as_float()?)));
    }
    out
}

fn run(m: &Module, contents: &Contents) -> Result<Contents> {
    let config = Config {
        max_steps: MAX_STEPS,
        ..Config::default()
    };
    let mut machine = Machine::new(m, config)?;
    for (field, values) in m.fields.keys().zip(contents) {
        machine.fill(field, values)?;
    }
    machine.run(&[Imm::int(Scalar::I32, PARAM.into())])?;
    m.fields.keys().map(|f| machine.field(f)).collect()
}

fn numbers(contents: &Contents) -> impl Iterator<Item = f64> {
    contents.iter().flatten().filter_map(|x| x.as_float())
}

fn moved(a: &Contents, by: &Contents, step: f64) -> Contents {
    let shift = |x: &Imm, d: &Imm| match (x.as_float(), d.as_float()) {
        (Some(at), Some(d)) => Imm::float(x.ty, at + step * d),
        _ => *x,
    };
    a.iter()
        .zip(by)
        .map(|(a, b)| a.iter().zip(b).map(|(x, d)| shift(x, d)).collect())
        .collect()
}

fn random(m: &Module, dice: &mut Dice, low: f64, high: f64) -> Contents {
    let mut number = |s: &Scalar| {
        if s.is_float() {
            let unit = (dice.bits() >> 11) as f64 / (1u64 << 53) as f64;
            Imm::float(*s, low + (high - low) * unit)
        } else {
            Imm::int(*s, (dice.bits() % 4).into())
        }
    };
    (m.fields.keys())
        .map(|f| {
            let scalars = m.structs.flatten(m.fields[f].elem);
            let elements = count(m, f) / scalars.len().max(1);
            (0..elements)
                .flat_map(|_| scalars.clone())
                .map(|s| number(&s))
                .collect()
        })
        .collect()
}

fn count(m: &Module, field: Field) -> usize {
    let domain = m.fields[field].domain(&m.trees);
    let elements: u64 = domain.iter().map(|d| d.1).product();
    elements as usize * m.structs.flatten(m.fields[field].elem).len()
}
