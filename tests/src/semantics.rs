//! Passes preserve the semantics of a module: the interpreter gives the same result before and after each of them,
//! and so does the machine code at the end.

use crate::seen::Seen;
use wuji_compile::{Cx, Math, Options, PASSES, PassKind, run_pass};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{ArrayView, Config, Machine, Order, Outcome};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::random::mix;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{Device, DeviceOptions, Instance, Tier};

/// The results of a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Left {
    pub fields: Vec<(Field, Vec<Imm>)>,
    pub arrays: Vec<(Array, Vec<Imm>)>,
    pub result: Option<Vec<Imm>>,
    pub printed: Vec<String>,
    /// Kinds and values of the reports, sorted and without duplicates.
    pub reports: Vec<(&'static str, Vec<String>)>,
}

/// The inputs of a launch, derived from one number.
#[derive(Copy, Clone, Debug)]
pub struct Start {
    pub seed: u64,
    pub order: Order,
}

impl Start {
    /// Small numbers whose sums and products are exact in any order, so that results can be compared.
    fn value(&self, ty: Scalar, what: u64, k: u64) -> Imm {
        let bits = mix(mix(mix(self.seed).wrapping_add(what)).wrapping_add(k));
        match ty {
            Scalar::Bool => Imm::bool(bits & 1 != 0),
            _ if ty.is_float() => Imm::float(ty, (bits % 33) as f64 / 4.0 - 4.0),
            _ => Imm::int(ty, i128::from(bits % 12) - 3),
        }
    }

    fn field(&self, m: &Module, f: Field) -> Vec<Imm> {
        let data = &m.fields[f];
        let elem = m.structs.flatten(data.elem);
        let cells: u64 = data.domain(&m.trees).iter().map(|d| d.1).product();
        (0..cells * elem.len() as u64)
            .map(|k| {
                self.value(
                    elem[k as usize % elem.len()],
                    100 + u64::from(f.as_u32()),
                    k,
                )
            })
            .collect()
    }

    /// Extents and scalars.
    fn array(&self, m: &Module, a: Array) -> (Vec<i64>, Vec<Imm>) {
        let data = &m.arrays[a];
        let n = u64::from(a.as_u32());
        let extents: Vec<i64> = (0..u64::from(data.rank))
            .map(|k| (mix(self.seed.wrapping_add(k * 8 + n)) % 6) as i64)
            .collect();
        let elem = m.structs.flatten(data.elem);
        let count = extents.iter().product::<i64>() as u64 * elem.len() as u64;
        let values = (0..count)
            .map(|k| self.value(elem[k as usize % elem.len()], 200 + n, k))
            .collect();
        (extents, values)
    }

    fn params(&self, m: &Module) -> Vec<Imm> {
        let mut params = Vec::new();
        for (p, param) in m.params.iter().enumerate() {
            for (k, ty) in m.structs.flatten(param.ty).into_iter().enumerate() {
                params.push(self.value(ty, 300 + p as u64, k as u64));
            }
        }
        params
    }
}

const LAUNCH: u64 = 3;

/// Runs a module on the interpreter.
pub fn interpret(m: &Module, lowered: bool, start: &Start) -> Result<Left, String> {
    let config = Config {
        order: start.order,
        seed: start.seed,
        launch: LAUNCH,
        max_steps: 1 << 24,
        check_reads: false,
    };
    let run = || {
        let mut machine = if lowered {
            Machine::lowered(m, config)?
        } else {
            Machine::new(m, config)?
        };
        for f in m.fields.keys() {
            machine.fill(f, &start.field(m, f))?;
        }
        for (a, data) in &m.arrays {
            let (extents, values) = start.array(m, a);
            machine.bind_values(a, &extents, &values)?;
            if !data.contiguous && start.seed % 3 == 1 {
                spread(&mut machine, a, &extents, &values)?;
            }
        }
        let outcome = machine.run(&start.params(m))?;
        let mut fields = Vec::new();
        for f in m.fields.keys() {
            fields.push((f, machine.field(f)?));
        }
        let arrays = m.arrays.keys().map(|a| (a, machine.array(a))).collect();
        Ok(left(outcome, fields, arrays))
    };
    run().map_err(|e: wuji_ir::Error| e.to_string())
}

/// Runs compiled code.
fn launch(m: &Module, instance: &mut Instance<'_>, start: &Start) -> Result<Left, String> {
    let mut run = || {
        for f in m.fields.keys() {
            instance.fill(f, &start.field(m, f))?;
        }
        for a in m.arrays.keys() {
            let (extents, values) = start.array(m, a);
            instance.bind_values(a, &extents, &values)?;
        }
        let outcome = instance.run(&start.params(m), start.seed, LAUNCH)?;
        let mut fields = Vec::new();
        for f in m.fields.keys() {
            fields.push((f, instance.field(f)?));
        }
        let mut arrays = Vec::new();
        for a in m.arrays.keys() {
            arrays.push((a, instance.array(a)?));
        }
        Ok(left(outcome, fields, arrays))
    };
    run().map_err(|e: wuji_ir::Error| e.to_string())
}

fn left(outcome: Outcome, fields: Vec<(Field, Vec<Imm>)>, arrays: Vec<(Array, Vec<Imm>)>) -> Left {
    let mut reports: Vec<(&'static str, Vec<String>)> = outcome
        .reports
        .iter()
        .map(|r| (kind(&r.kind), r.values.iter().map(Imm::to_string).collect()))
        .collect();
    reports.sort();
    // A pass may merge equal accesses: one report then represents several.
    reports.dedup();
    Left {
        fields,
        arrays,
        result: outcome.result,
        printed: outcome.printed.into_iter().map(|p| p.text).collect(),
        reports,
    }
}

/// A layout with gaps and a reversed last axis, with the same elements.
fn spread(
    machine: &mut Machine<'_>,
    a: Array,
    extents: &[i64],
    values: &[Imm],
) -> wuji_ir::Result<()> {
    let m = machine.module();
    let elem = m.arrays[a].elem;
    let size = m.structs.size_align(elem).0 as i64;
    let padded: Vec<i64> = extents.iter().map(|e| e + 1).collect();
    let mut view = ArrayView::contiguous(machine.add_buffer(Vec::new()), &padded, size);
    view.extents = extents.to_vec();
    if let (Some(extent), Some(stride)) = (extents.last(), view.strides.last_mut()) {
        view.base = extent * *stride;
        *stride = -*stride;
    }
    let mut bytes = vec![0xaa; (padded.iter().product::<i64>() * size) as usize];
    let scalars = m.structs.scalar_offsets(elem);
    for (k, element) in values.chunks(scalars.len().max(1)).enumerate() {
        let mut rest = k as i64;
        let mut at = view.base;
        for (extent, stride) in extents.iter().zip(&view.strides).rev() {
            at += rest % extent * stride;
            rest /= extent;
        }
        for ((ty, offset), value) in scalars.iter().zip(element) {
            let (from, n) = (at as usize + *offset as usize, ty.bytes() as usize);
            bytes[from..from + n].copy_from_slice(&value.bits().to_le_bytes()[..n]);
        }
    }
    view.buffer = machine.add_buffer(bytes);
    machine.bind(a, view)
}

fn kind(kind: &SiteKind) -> &'static str {
    match kind {
        SiteKind::OutOfRange(_) => "out_of_range",
        SiteKind::ReadOutOfRange(_) => "read_out_of_range",
        SiteKind::BadIndex { .. } => "bad_index",
        SiteKind::Assert(_) => "assert",
        SiteKind::Print(_) => "print",
        SiteKind::TooDeep(_) => "too_deep",
        SiteKind::OutOfMemory(..) => "out_of_memory",
        SiteKind::ListFull(_) => "list_full",
    }
}

/// Compares a module with itself after every pass, for several inputs. A module that does not depend on the order of
/// its iterations also runs shuffled, and as machine code.
pub fn check(m: &Module, seeds: u64, any_order: bool) -> Result<(), String> {
    let inputs = inputs(m, seeds, any_order)?;
    let (all, none) = (options(), without(&optimizations()));
    let mut seen = Seen::default();
    check_passes(m, &all, &inputs, &mut seen)?;
    check_passes(m, &none, &inputs, &mut seen)?;
    for name in optimizations() {
        check_passes(m, &without(&[name]), &inputs, &mut seen)?;
    }
    // Fuel stops optimizations in the middle of a pass. This comes last: modules that ran with few inputs count as seen.
    let few = inputs.get(..FEW_INPUTS).unwrap_or(&inputs);
    for fuel in [0, 1, 2, 5, 13, 34, 89] {
        let limited = Options {
            fuel: Some(fuel),
            ..options()
        };
        check_passes(m, &limited, few, &mut seen)?;
    }
    if !any_order {
        return Ok(());
    }
    for options in [&all, &none] {
        for (threads, tier) in [(1, Tier::Fast), (1, Tier::Best), (4, Tier::Best)] {
            check_machine_code(m, options, &inputs, threads, tier)?;
        }
    }
    Ok(())
}

/// The number of inputs if there are many options.
const FEW_INPUTS: usize = 2;

fn options() -> Options {
    Options {
        math: Math::Strict,
        ..Options::default()
    }
}

fn without(names: &[&str]) -> Options {
    Options {
        without: names.iter().map(|n| (*n).to_owned()).collect(),
        ..options()
    }
}

fn optimizations() -> Vec<&'static str> {
    let optional = PASSES.iter().filter(|p| p.kind == PassKind::Optimization);
    optional.map(|p| p.name).collect()
}

/// The inputs of a launch, in serial and shuffled order, and its results.
struct Input {
    serial: Start,
    shuffled: Start,
    left: Left,
}

/// The results of the original module for each input.
fn inputs(m: &Module, seeds: u64, any_order: bool) -> Result<Vec<Input>, String> {
    let input = |seed| {
        let start = |order| Start { seed, order };
        let other = if any_order {
            Order::Shuffled(seed)
        } else {
            Order::Serial
        };
        let (serial, shuffled) = (start(Order::Serial), start(other));
        let left = interpret(m, false, &serial)?;
        let found = interpret(m, false, &shuffled)?;
        same(&left, &found, "as written, shuffled", m)?;
        Ok(Input {
            serial,
            shuffled,
            left,
        })
    };
    (0..seeds).map(input).collect()
}

/// Runs the pipeline, and interprets the module after each pass, unless an equal one gave the right results already.
fn check_passes(
    m: &Module,
    options: &Options,
    inputs: &[Input],
    seen: &mut Seen<bool>,
) -> Result<(), String> {
    let mut cx = Cx::new(options);
    let mut now = m.clone();
    let mut lowered = false;
    for pass in PASSES {
        if !cx.wants(pass) {
            continue;
        }
        let (without, fuel) = (&options.without, options.fuel);
        let stage = format!("after {}, without {without:?}, fuel {fuel:?}", pass.name);
        run_pass(pass.name, &mut now, &mut cx).map_err(|e| format!("{stage}: {e}"))?;
        lowered |= pass.name == "lower_access";
        if !seen.is_new(&now, lowered) {
            continue;
        }
        for input in inputs {
            for start in [&input.serial, &input.shuffled] {
                let stage = format!("{stage}, {start:?}");
                let found = interpret(&now, lowered, start);
                let found = found.map_err(|e| format!("{stage}: {e}\n{now}"))?;
                same(&input.left, &found, &stage, &now)?;
            }
        }
    }
    Ok(())
}

/// Launches the result of the whole pipeline and LLVM.
fn check_machine_code(
    m: &Module,
    options: &Options,
    inputs: &[Input],
    threads: usize,
    tier: Tier,
) -> Result<(), String> {
    let stage = format!("machine code, {threads} threads, {tier:?}, {options:?}");
    let failed = |e: wuji_ir::Error| format!("{stage}: {e}\n{m}");
    let device = Device::new(&DeviceOptions {
        cache: wuji_runtime::cache::Choice::Off,
        threads: Some(threads),
        tier,
        // Unlimited: trees reserve much more than they use.
        memory_limit: Some(1 << 46),
        ..DeviceOptions::default()
    })
    .map_err(failed)?;
    let mut instance = Instance::new(&device, m.clone(), options).map_err(failed)?;
    for Input { serial, left, .. } in inputs {
        let stage = format!("{stage}, {serial:?}");
        let found = launch(m, &mut instance, serial);
        let mut found = found.map_err(|e| format!("{stage}: {e}"))?;
        some_reports(left, &mut found);
        same(left, &found, &stage, m)?;
    }
    Ok(())
}

/// A launch only keeps the first reports of each site. If those are among the expected ones, the reports count as
/// equal.
fn some_reports(expected: &Left, found: &mut Left) {
    let right = found.reports.iter().all(|r| expected.reports.contains(r));
    if right && found.reports.len() >= FEW_REPORTS.min(expected.reports.len()) {
        found.reports = expected.reports.clone();
    }
}

/// A launch keeps at least this many.
const FEW_REPORTS: usize = 16;

fn same(expected: &Left, found: &Left, stage: &str, m: &Module) -> Result<(), String> {
    if same_values(expected, found) {
        return Ok(());
    }
    Err(format!(
        "{stage}\nexpected {expected:#?}\nfound {found:#?}\n{m}"
    ))
}

/// Equal except for the bits of NaNs.
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
