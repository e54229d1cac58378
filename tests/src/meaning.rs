//! Passes keep the meaning of a module: the interpreter gives the same before and after each of them.

use wuji_compile::{Cx, Math, Options, PASSES, run_pass};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{ArrayView, Config, Machine, Order};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::random::mix;
use wuji_ir::types::{Imm, Scalar};

/// Everything that a launch leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Left {
    pub fields: Vec<(Field, Vec<Imm>)>,
    pub arrays: Vec<(Array, Vec<Imm>)>,
    pub result: Option<Vec<Imm>>,
    pub printed: Vec<String>,
    /// What kind, and the values that came with it; sorted.
    pub reports: Vec<(&'static str, Vec<String>)>,
}

/// What a launch starts from: everything follows from one number.
#[derive(Copy, Clone, Debug)]
pub struct Start {
    pub seed: u64,
    pub order: Order,
}

impl Start {
    /// Small numbers of which sums and products are exact in any order, so that orders compare.
    fn value(&self, ty: Scalar, what: u64, k: u64) -> Imm {
        let bits = mix(mix(mix(self.seed).wrapping_add(what)).wrapping_add(k));
        match ty {
            Scalar::Bool => Imm::bool(bits & 1 != 0),
            _ if ty.is_float() => Imm::float(ty, (bits % 33) as f64 / 4.0 - 4.0),
            _ => Imm::int(ty, i128::from(bits % 12) - 3),
        }
    }
}

/// Runs a module on the interpreter.
pub fn interpret(m: &Module, lowered: bool, start: &Start) -> Result<Left, String> {
    let config = Config {
        order: start.order,
        seed: start.seed,
        launch: 3,
        max_steps: 1 << 24,
    };
    let show = |e: wuji_ir::Error| e.to_string();
    let mut machine = match lowered {
        true => Machine::lowered(m, config),
        false => Machine::new(m, config),
    }
    .map_err(show)?;
    for (f, data) in &m.fields {
        let elem = m.structs.flatten(data.elem);
        let cells: u64 = data.domain(&m.trees).iter().map(|d| d.1).product();
        let values: Vec<Imm> = (0..cells * elem.len() as u64)
            .map(|k| {
                start.value(
                    elem[k as usize % elem.len()],
                    100 + u64::from(f.as_u32()),
                    k,
                )
            })
            .collect();
        machine.fill(f, &values).map_err(show)?;
    }
    for (a, data) in &m.arrays {
        let n = u64::from(a.as_u32());
        let extents: Vec<i64> = (0..u64::from(data.rank))
            .map(|k| (mix(start.seed.wrapping_add(k * 8 + n)) % 6) as i64)
            .collect();
        let elem = m.structs.flatten(data.elem);
        let count = extents.iter().product::<i64>() as u64 * elem.len() as u64;
        let values: Vec<Imm> = (0..count)
            .map(|k| start.value(elem[k as usize % elem.len()], 200 + n, k))
            .collect();
        machine.bind_values(a, &extents, &values).map_err(show)?;
        if !data.contiguous && start.seed % 3 == 1 {
            spread(&mut machine, a, &extents).map_err(show)?;
        }
    }
    let mut params = Vec::new();
    for (p, param) in m.params.iter().enumerate() {
        for (k, ty) in m.structs.flatten(param.ty).into_iter().enumerate() {
            params.push(start.value(ty, 300 + p as u64, k as u64));
        }
    }
    let outcome = machine.run(&params).map_err(show)?;
    let mut reports: Vec<(&'static str, Vec<String>)> = outcome
        .reports
        .iter()
        .map(|r| (kind(&r.kind), r.values.iter().map(Imm::to_string).collect()))
        .collect();
    reports.sort();
    let mut fields = Vec::new();
    for f in m.fields.keys() {
        fields.push((f, machine.field(f).map_err(show)?));
    }
    Ok(Left {
        fields,
        arrays: m.arrays.keys().map(|a| (a, machine.array(a))).collect(),
        result: outcome.result,
        printed: outcome.printed.into_iter().map(|p| p.text).collect(),
        reports,
    })
}

/// Lays an array out with gaps and, along its last axis, backwards.
fn spread(machine: &mut Machine<'_>, a: Array, extents: &[i64]) -> wuji_ir::Result<()> {
    let data = &machine.module().arrays[a];
    let size = machine.module().structs.size_align(data.elem).0 as i64;
    let padded: Vec<i64> = extents.iter().map(|e| e + 1).collect();
    let total: i64 = padded.iter().product::<i64>() * size;
    let pattern = (0..total as u64).map(|k| (mix(k) & 1) as u8).collect();
    let buffer = machine.add_buffer(pattern);
    let mut view = ArrayView::contiguous(buffer, &padded, size);
    view.extents = extents.to_vec();
    if let (Some(extent), Some(stride)) = (extents.last(), view.strides.last_mut()) {
        view.base = extent * *stride;
        *stride = -*stride;
    }
    machine.bind(a, view)
}

fn kind(kind: &SiteKind) -> &'static str {
    match kind {
        SiteKind::OutOfRange(_) => "out_of_range",
        SiteKind::BadIndex { .. } => "bad_index",
        SiteKind::Assert(_) => "assert",
        SiteKind::Print(_) => "print",
        SiteKind::TooDeep(_) => "too_deep",
    }
}

/// Compares a module with itself after every pass, for several starts, with all optimizations and
/// without each. The program must not depend on the order of its iterations.
pub fn check(m: &Module, seeds: u64) -> Result<(), String> {
    let mut all_options = vec![Options {
        math: Math::Strict,
        ..Options::default()
    }];
    let optional: Vec<&str> = PASSES
        .iter()
        .filter(|p| p.kind == wuji_compile::PassKind::Optimization)
        .map(|p| p.name)
        .collect();
    let without = |names: &[&str]| Options {
        math: Math::Strict,
        without: names.iter().map(|n| (*n).to_owned()).collect(),
        ..Options::default()
    };
    all_options.extend(optional.iter().map(|name| without(&[name])));
    all_options.push(without(&optional));
    let mut expected = Vec::new();
    for seed in 0..seeds {
        let serial = Start {
            seed,
            order: Order::Serial,
        };
        let left = interpret(m, false, &serial)?;
        let shuffled = Start {
            order: Order::Shuffled(seed),
            ..serial
        };
        same(
            &left,
            &interpret(m, false, &shuffled)?,
            "as written, shuffled",
            m,
        )?;
        expected.push((serial, shuffled, left));
    }
    for options in &all_options {
        let mut cx = Cx::new(options);
        let mut now = m.clone();
        let mut lowered = false;
        for pass in PASSES.iter().filter(|p| cx_wants(options, p.name)) {
            let stage = format!("after {}, without {:?}", pass.name, options.without);
            run_pass(pass.name, &mut now, &mut cx).map_err(|e| format!("{stage}: {e}"))?;
            lowered |= pass.name == "lower_access";
            for (serial, shuffled, left) in &expected {
                for start in [serial, shuffled] {
                    let found = interpret(&now, lowered, start)
                        .map_err(|e| format!("{stage}, {start:?}: {e}\n{now}"))?;
                    same(left, &found, &format!("{stage}, {start:?}"), &now)?;
                }
            }
        }
    }
    Ok(())
}

fn cx_wants(options: &Options, pass: &str) -> bool {
    !options.without.iter().any(|w| w == pass)
}

fn same(expected: &Left, found: &Left, stage: &str, m: &Module) -> Result<(), String> {
    if same_values(expected, found) {
        return Ok(());
    }
    Err(format!(
        "{stage}\nexpected {expected:#?}\nfound {found:#?}\n{m}"
    ))
}

/// Equal but for the bits of NaNs.
fn same_values(a: &Left, b: &Left) -> bool {
    let plain = |left: &Left| {
        let mut left = left.clone();
        let nan = |v: &mut Imm| {
            if v.as_float().is_some_and(f64::is_nan) {
                *v = Imm::float(v.ty, f64::NAN);
            }
        };
        left.fields.iter_mut().flat_map(|f| &mut f.1).for_each(nan);
        left.arrays.iter_mut().flat_map(|a| &mut a.1).for_each(nan);
        left.result.iter_mut().flatten().for_each(nan);
        left
    };
    plain(a) == plain(b)
}
