//! Every pass keeps the meaning: the interpreter runs each kernel of `tests/kernels` before the pipeline
//! and after each pass of it, with everything on, with each optimization left out, and with little fuel.

use std::path::{Path, PathBuf};
use wuji_compile::{Cx, Options, PASSES, PassKind, run_pass};
use wuji_ir::entities::Array;
use wuji_ir::interp::{Config, Machine, Order};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::ops::Place;
use wuji_ir::types::{Imm, Scalar};

/// Numbers that are small, often equal, and sometimes negative.
fn number(state: &mut u64, ty: Scalar) -> Imm {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    let n = (*state >> 33) % 21;
    if ty.is_float() {
        Imm::float(ty, n as f64 / 4.0 - 2.0)
    } else if ty.is_signed_int() {
        Imm::int(ty, i128::from(n) - 5)
    } else {
        Imm::int(ty, i128::from(n))
    }
}

/// What one can see of a run, as text: result, reports, prints, fields and arrays.
fn observe(m: &Module, lowered: bool, order: Order) -> String {
    let config = Config {
        order,
        seed: 3,
        max_steps: 1 << 24,
        ..Config::default()
    };
    let mut state = 42;
    let machine = if lowered {
        Machine::lowered(m, config)
    } else {
        Machine::new(m, config)
    };
    let mut machine = machine.unwrap_or_else(|e| panic!("{e}\n{m}"));
    for (f, data) in m.fields.iter() {
        let count: u64 = machine.domain(f).iter().map(|d| d.1).product();
        let values: Vec<Imm> = (0..count)
            .flat_map(|_| m.structs.flatten(data.elem))
            .map(|s| number(&mut state, s))
            .collect();
        machine.fill(f, &values).expect("fields fit");
    }
    for (a, data) in m.arrays.iter() {
        let extents: Vec<i64> = (0..data.rank).map(|k| 5 + i64::from(k)).collect();
        let count: i64 = extents.iter().product();
        let values: Vec<Imm> = (0..count)
            .flat_map(|_| m.structs.flatten(data.elem))
            .map(|s| number(&mut state, s))
            .collect();
        machine
            .bind_values(a, &extents, &values)
            .expect("arrays fit");
    }
    let params: Vec<Imm> = m
        .params
        .iter()
        .flat_map(|p| m.structs.flatten(p.ty))
        .map(|s| number(&mut state, s))
        .collect();
    let outcome = machine.run(&params).unwrap_or_else(|e| panic!("{e}\n{m}"));
    let mut out = format!("result {:?}\n", outcome.result);
    let mut reports: Vec<String> = outcome
        .reports
        .iter()
        .map(|r| match r.kind {
            // Locals are numbered anew by several passes.
            SiteKind::OutOfRange(Place::Local(_)) => format!("local {:?}\n", r.values),
            _ => format!("{:?} {:?}\n", r.kind, r.values),
        })
        .collect();
    reports.sort();
    // An optimized program may report the same place fewer times.
    reports.dedup();
    out.extend(reports);
    for p in &outcome.printed {
        out += &format!("printed {p:?}\n");
    }
    for f in m.fields.keys() {
        out += &format!("{f} {:?}\n", machine.field(f).expect("fields read"));
    }
    for a in m.arrays.keys().collect::<Vec<Array>>() {
        out += &format!("{a} {:?}\n", machine.array(a));
    }
    out
}

fn check(path: &Path, text: &str, options: &Options) {
    let mut m =
        wuji_ir::text::parse(text, &path.display().to_string()).unwrap_or_else(|e| panic!("{e}"));
    wuji_ir::verify::verify(&m).unwrap_or_else(|e| panic!("{e}"));
    let expected = observe(&m, false, Order::Serial);
    let mut cx = Cx::new(options);
    let mut lowered = false;
    for pass in PASSES {
        if !cx.wants(pass) {
            continue;
        }
        let before = m.to_string();
        run_pass(pass.name, &mut m, &mut cx)
            .unwrap_or_else(|e| panic!("{}: {}: {e}\n{before}\n{m}", path.display(), pass.name));
        lowered |= pass.name == "lower_access";
        let found = observe(&m, lowered, Order::Serial);
        assert!(
            found == expected,
            "{}: {} {options:?} changed the meaning\nexpected\n{expected}found\n{found}{before}\n===>\n{m}",
            path.display(),
            pass.name,
        );
    }
}

#[test]
fn passes_keep_the_meaning() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the kernels are there")
        .map(|e| e.expect("a file").path())
        .collect();
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a text");
        check(&path, &text, &Options::default());
        for pass in PASSES {
            if pass.kind == PassKind::Optimization {
                let without = vec![pass.name.to_owned()];
                check(
                    &path,
                    &text,
                    &Options {
                        without,
                        ..Options::default()
                    },
                );
            }
        }
        for fuel in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
            let fuel = Some(fuel);
            check(
                &path,
                &text,
                &Options {
                    fuel,
                    ..Options::default()
                },
            );
        }
    }
}
