//! Searches for programs that round numbers, and for kernels.

use super::*;
use crate::prelude::*;
use expect_test::expect;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// What a field stores for a number. A shared exponent is that of the largest number, 2.
fn stored(storage: Storage, x: f64) -> f64 {
    let Some(ty) = storage.quantized() else {
        return x;
    };
    if let Storage::SharedExponent { fraction, .. } = storage {
        let step = 2f64.powi(2 - fraction as i32);
        return (x / step).round() * step;
    }
    let compute = match storage {
        Storage::Int { .. } => Scalar::I32,
        _ => Scalar::F32,
    };
    let value = match compute {
        Scalar::I32 => Imm::int(compute, x as i128),
        _ => Imm::float(compute, x),
    };
    let ty = ty.lower(compute, None).expect("a type");
    let read = ty.decode(ty.encode(value, 0), compute);
    read.as_float()
        .unwrap_or_else(|| read.as_int().unwrap_or(0) as f64)
}

const NUMBERS: usize = 64;

/// Numbers of both signs, up to 1.8.
fn number(n: usize) -> f64 {
    f64::from((1.8 * (n as f64 * 0.37).sin()) as f32)
}

/// A program with a vector, a density of very different magnitudes, and a kind.
fn program(plan: &StoragePlan) -> Observation {
    let density = |n: usize| f64::from(0.9f32.powi(2 * n as i32 % 97));
    let kind = |n: usize| (n % 4) as f64;
    let storage = |name: &str| {
        let number = plan.number(name);
        number.map_or(Storage::Plain, |n| plan.fields[n].1)
    };
    let field = |name: &str, compute, shape: &[usize], f: &dyn Fn(usize) -> f64| {
        let mut range = Range::default();
        (0..NUMBERS).for_each(|n| range.add(f(n)));
        TunedField {
            name: name.to_owned(),
            compute,
            shape: shape.to_vec(),
            node: 0,
            cells: NUMBERS as u64,
            range,
        }
    };
    let output = |name: &str, f: &dyn Fn(usize) -> f64| Output {
        name: name.to_owned(),
        values: (0..NUMBERS).map(|n| stored(storage(name), f(n))).collect(),
    };
    Observation {
        fields: vec![
            field("x", Scalar::F32, &[3], &number),
            field("density", Scalar::F32, &[], &density),
            field("kind", Scalar::I32, &[], &kind),
        ],
        outputs: vec![
            output("x", &number),
            output("density", &density),
            output("kind", &kind),
        ],
    }
}

fn tune(goal: Goal) -> Result<Tuned> {
    let request = Request {
        goal,
        ..Request::default()
    };
    let run = &mut |plan: &StoragePlan| Ok::<_, Error>(program(plan));
    search(&request, run, &mut |_| ())
}

#[test]
fn the_least_memory_below_an_error_bound() {
    for bound in [1e-1, 1e-2, 1e-3, 1e-4] {
        let tuned = tune(Goal::Error(bound)).expect("types");
        let point = tuned.point();
        assert!(point.error <= bound, "{tuned}");
        for other in tuned.front.iter().chain(&tuned.others) {
            assert!(other.error > bound || other.bytes >= point.bytes, "{tuned}");
        }
        assert!(tuned.runs < 60, "{}", tuned.runs);
    }
    // About 10 bits for each of three components and for the density, and 2 for the kind.
    let tuned = tune(Goal::Error(1e-3)).expect("types");
    assert_eq!(tuned.reference_bytes, 20 * NUMBERS as u64);
    assert_eq!(tuned.point().bytes, 8 * NUMBERS as u64, "{tuned}");
}

#[test]
fn the_smallest_error_within_a_budget() {
    let mut last = f64::INFINITY;
    for bytes in [4, 6, 8, 12] {
        let tuned = tune(Goal::Bytes(bytes * NUMBERS as u64)).expect("types");
        assert!(tuned.point().bytes <= bytes * NUMBERS as u64, "{tuned}");
        assert!(tuned.point().error < last, "{tuned}");
        last = tuned.point().error;
    }
    let tuned = tune(Goal::Part(0.4)).expect("types");
    assert_eq!(tuned.point().bytes, 8 * NUMBERS as u64);
}

#[test]
fn the_front_has_less_memory_for_larger_errors() {
    let tuned = tune(Goal::Error(1e-3)).expect("types");
    for pair in tuned.front.windows(2) {
        assert!(pair[0].bytes < pair[1].bytes && pair[0].error > pair[1].error);
    }
    assert!(tuned.front.len() >= 4, "{tuned}");
}

#[test]
fn integers_are_exact() {
    let tuned = tune(Goal::Error(0.5)).expect("types");
    let kind = tuned.point().plan.number("kind").expect("a field");
    let expected = Storage::Int {
        bits: 2,
        signed: false,
    };
    assert_eq!(tuned.point().plan.fields[kind].1, expected);
}

#[test]
fn a_kept_field_keeps_its_type() {
    let request = Request {
        goal: Goal::Error(1e-2),
        keep: vec!["x".to_owned()],
        ..Request::default()
    };
    let run = &mut |plan: &StoragePlan| Ok::<_, Error>(program(plan));
    let tuned = search(&request, run, &mut |_| ()).expect("types");
    let all = tuned.front.iter().chain(&tuned.others);
    assert!(all.clone().all(|p| p.plan.fields[0].1 == Storage::Plain));
    assert!(tuned.point().plan.fields[1].1 != Storage::Plain);
}

#[test]
fn progress_ends_near_its_total() {
    let mut steps = Vec::new();
    let run = &mut |plan: &StoragePlan| Ok::<_, Error>(program(plan));
    let tuned = search(&Request::default(), run, &mut |step| {
        steps.push((step.done, step.total));
        assert!(step.done < step.total && !step.note.is_empty());
    })
    .expect("types");
    assert_eq!(steps.len(), tuned.runs);
    assert!(steps.windows(2).all(|w| w[0].0 + 1 == w[1].0));
}

fn message(found: Result<Tuned>) -> String {
    found.expect_err("an error").to_string()
}

#[test]
fn wrong_requests_are_errors() {
    let mut text = String::new();
    for goal in [
        Goal::Error(-1.0),
        Goal::Error(f64::NAN),
        Goal::Part(2.0),
        Goal::Bytes(10),
        Goal::Error(1e-12),
    ] {
        text += &message(tune(goal));
        text.push('\n');
    }
    let run = |request: &Request, change: &dyn Fn(&mut Observation)| {
        let run = &mut |plan: &StoragePlan| {
            let mut found = program(plan);
            change(&mut found);
            Ok::<_, Error>(found)
        };
        message(search(request, run, &mut |_| ())) + "\n"
    };
    let request = Request::default();
    text += &run(&request, &|found| found.outputs.clear());
    text += &run(&request, &|found| found.fields.clear());
    text += &run(&request, &|found| found.outputs[0].values[3] = f64::NAN);
    text += &run(&request, &|found| found.fields[1].name = "x".to_owned());
    let keep = Request {
        keep: vec!["y".to_owned()],
        ..Request::default()
    };
    text += &run(&keep, &|_| ());
    expect![[r#"
        error[W0160]: the error bound -1.0 is not a positive number
        error[W0160]: the error bound NaN is not a positive number
        error[W0160]: 2.0 is not a part of the memory: it is not between 0 and 1
        error[W0163]: the fields do not fit 10 bytes: with the fewest bits they have 128
          = note: with their compute types they have 1280 bytes
          = help: allow more memory, or tune more of the fields
        error[W0162]: no quantized types have an error of 1e-12
          = note: the smallest error that was found is 2.1e-10
          = help: allow a larger error, or compare statistics instead of elements
        error[W0160]: the program has no outputs to compare
          = help: name at least one output: a field, or numbers such as an energy
        error[W0160]: there is no field to tune
          = help: place at least one field of numbers through the trial
        error[W0161]: the output `x` of the reference has the number NaN
          = note: the reference runs with the compute types of all fields
          = help: run fewer steps or a smaller time step, or take an output that is finite
        error[W0160]: two fields are called `x`
          = help: the name of a field selects its type: give each its own
        error[W0160]: there is no field `y` to tune
          = note: the fields are `x`, `density`, `kind`
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_program_that_differs_from_run_to_run_has_a_bound() {
    let mut runs = 0;
    let run = &mut |plan: &StoragePlan| {
        runs += 1;
        let mut found = program(plan);
        found.outputs[0].values[0] += 0.1 * f64::from(runs);
        Ok::<_, Error>(found)
    };
    let error = search(&Request::default(), run, &mut |_| ()).expect_err("an error");
    assert_eq!(error.code, "W0162");
    assert!(error.message.contains("differ by"), "{error}");
}

#[test]
fn the_report_has_code_in_rust_and_python() {
    let tuned = tune(Goal::Error(1e-3)).expect("types");
    let text = format!("{}\n{}\n{}", tuned.report(), tuned.rust(), tuned.python());
    expect![[r#"
        field    type   smallest  largest  least nonzero
        x        f32x3  -1.7914   1.7955   0.0123
        density  f32    0         1        4.05e-5
        kind     i32    0         3        1

           bytes  memory  error    x         density   kind
           256    20%     7.4e-3   fixed 7   fixed 9   int 2
           320    25%     4.0e-3   fixed 8   fixed 8   int 2
           384    30%     3.6e-3   fixed 8   fixed 16  int 2
        >  512    40%     2.8e-5   fixed 15  fixed 17  int 2
           768    60%     1.4e-5   fixed 16  plain     int 2
           1024   80%     2.1e-10  fixed 30  plain     int 2
           1280   100%    0.0e0    plain     plain     plain

           1e-1 |
                |*                             .                            .
                |    *  *                                                   .
                |                                            .              .
           5e-5 |               @
                |                              *             .              .
                |
                |
           3e-8 |
                |
                |
          1e-10 |                                            *              *
          error +------------------------------------------------------------
                 256                                               1280 bytes

        chosen: 512 instead of 1280 bytes (40%), error 2.8e-5; 20 runs

        // node of x, density, kind: 8 instead of 20 bytes per cell
        let word = node.bit_struct(64); // no unused bits
        let x = word.place("x", qfixed(15, true, 2.0));
        let density = word.place("density", qfixed(17, false, 1.1));
        let kind = word.place("kind", qint(2, false));

        # node of x, density, kind: 8 instead of 20 bytes per cell
        x = ti.Vector.field(3, ti.types.quant.fixed(15, max_value=2.0))
        density = ti.field(ti.types.quant.fixed(17, signed=False, max_value=1.1))
        kind = ti.field(ti.types.quant.int(2, signed=False))
        word = ti.BitpackedFields(max_num_bits=64)  # no unused bits
        word.place(x)
        word.place(density)
        word.place(kind)
        node.place(word)
    "#]]
    .assert_eq(&text);
    let svg = tuned.svg();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("r=\"7\"").count(), 1);
}

#[kernel]
fn swing(x: &Field<Vec2, 1>, v: &Field<Vec2, 1>, kind: &Field<i32, 1>, dt: f32) {
    for [i] in x {
        let force = if kind[[i]] == 0 { 1.0 } else { 2.0 };
        v[[i]] -= x[[i]] * (force * dt);
        x[[i]] += v[[i]] * dt;
    }
}

#[kernel]
fn overshoot(x: &Field<f32, 1>, by: f32) {
    for [i] in x {
        x[[i]] = by * (i as f32 + 1.0);
    }
}

fn oscillators(world: &World, trial: &Trial<'_>) -> Result<()> {
    let (x, v, kind) = world.layout(|root| {
        let node = root.dense(I, 32);
        (
            trial.place::<Vec2, 1>(node, "x"),
            trial.place::<Vec2, 1>(node, "v"),
            trial.place::<i32, 1>(node, "kind"),
        )
    })?;
    for i in 0..32 {
        let t = i as f32 * 0.2;
        x.set([i], vec2(t.cos(), t.sin()))?;
        kind.set([i], i % 2)?;
    }
    for _ in 0..20 {
        swing(&x, &v, &kind, 0.05)?;
    }
    let plan = trial.plan();
    if !plan.is_reference() {
        // What the search counts is what the tree has.
        assert_eq!(x.tree().memory_used(), 32 * plan.nodes[0].bytes);
    }
    trial.output("x", &x)
}

#[test]
fn a_program_is_tuned() {
    let world = World::builder().threads(1).build().expect("a world");
    let tuned = quant()
        .error(2e-3)
        .run(|trial| oscillators(&world, trial))
        .expect("types");
    assert!(tuned.point().error <= 2e-3, "{tuned}");
    assert_eq!(tuned.reference_bytes, 32 * 20);
    assert!(tuned.point().bytes <= 32 * 8, "{tuned}");
    assert!(!world.is_watched());
    let names: Vec<&str> = tuned.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["x", "v", "kind"]);
}

#[test]
fn ranges_are_those_of_all_launches() {
    let world = World::interpreter().expect("a world");
    let tuned = quant()
        .memory_part(0.5)
        .reserve(0.0)
        .run(|trial| {
            let x = world.layout(|root| trial.place::<f32, 1>(root.dense(I, 4), "x"))?;
            x.fill(-7.0)?;
            overshoot(&x, 3.0)?;
            overshoot(&x, 0.5)?;
            trial.output("x", &x)
        })
        .expect("types");
    // The host wrote -7, and the first launch up to 12; the end has up to 2.
    let range = tuned.fields[0].range;
    assert_eq!((range.min, range.max, range.least), (-7.0, 12.0, 0.5));
}

#[test]
fn sparse_fields_are_tuned() {
    let world = World::interpreter().expect("a world");
    let tuned = quant()
        .error(1e-2)
        .run(|trial| {
            let x = world.layout(|root| {
                let node = root.pointer(I, 1024).dense(I, 8);
                trial.place::<f32, 1>(node, "x")
            })?;
            for i in 0..16 {
                x.set([i], 0.1 * i as f32)?;
            }
            trial.output_numbers("sum", &[x.get([3])? as f64, x.get([9])? as f64]);
            Ok(())
        })
        .expect("types");
    assert_eq!((tuned.fields[0].cells, tuned.reference_bytes), (16, 64));
    assert!(tuned.point().bytes <= 16, "{tuned}");
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Pair {
    a: f32,
    b: f32,
}

#[test]
fn mistakes_of_programs_are_errors() {
    let world = World::interpreter().expect("a world");
    let no_goal = quant().run(|_| Ok(())).expect_err("an error");
    assert_eq!(no_goal.code, "W0160");
    let structs = quant().error(1e-3).run(|trial| {
        let x = world.layout(|root| trial.place::<Pair, 1>(root.dense(I, 4), "x"))?;
        trial.output("x", &x)
    });
    let error = structs.expect_err("an error");
    assert!(error.message.contains("structs"), "{error}");
    // The error of a program is returned, and nothing is observed afterwards.
    let failed = quant().error(1e-3).run(|trial| {
        let x = world.layout(|root| trial.place::<f32, 1>(root.dense(I, 4), "x"))?;
        x.get([4]).map(|_| ())
    });
    assert_eq!(failed.expect_err("an error").code, "W0111");
    assert!(!world.is_watched());
}
