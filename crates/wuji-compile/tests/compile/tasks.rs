//! How tasks use threads.

use std::fmt::Write;
use wuji_compile::nodes::UPKEEP;
use wuji_compile::{Cx, Options, compile, run_pass};
use wuji_ir::module::TaskKind;
use wuji_ir::ops::{Op, ThreadOp};

const HASH: &str = "\
tree T0 { hash S1 [i: 4096] { place f0 } }
field f0 \"x\": i32 in T0.S1 (i)
kernel fn0 \"hash\"() {
  v0: i32 = const 0
  v1: i32 = const 64
  foreach L0 (v2: i32) in v0..v1 {
    store f0[v2], v2
    deactivate f0[v2]
    continue L0
  }
  return
}
";

/// The tasks that rebuild tables: how many threads they have, and how many barriers.
fn rebuilds(options: &Options) -> Vec<(Option<u32>, usize)> {
    let module = wuji_ir::text::parse(HASH, "hash.wir").unwrap();
    let lowered = compile(module, options).unwrap();
    let module = lowered.module();
    let upkeep = module.tasks.iter().filter(|t| t.ordinal == UPKEEP);
    upkeep
        .filter_map(|task| {
            let f = &module.funcs[task.func];
            let mut barriers = 0;
            f.walk(|i| {
                barriers += usize::from(f.insts[i].op == Op::Thread(ThreadOp::Barrier));
            });
            match &task.kind {
                TaskKind::Chunks { hints, .. } if hints.blocks => {
                    Some((hints.block_size, barriers))
                }
                _ => None,
            }
        })
        .collect()
}

/// One before cells may be activated, and one after some were deactivated.
#[test]
fn thread_blocks_rebuild_hash_tables_on_a_gpu() {
    let gpu = rebuilds(&Options::default().for_cuda(90));
    assert_eq!(gpu, [(Some(1024), 2), (Some(1024), 2)]);
    assert_eq!(rebuilds(&Options::default()), []);
}

/// A loop whose iterations have so many atomics and about so many other instructions.
fn scatter(atomics: usize, others: usize) -> String {
    let mut text = String::from(
        "tree T0 { dense S1 [i: 512] { place f0 } }\n\
         tree T1 { dense S1 [i: 512] { place f1 } }\n\
         field f0 \"x\": i32 in T0.S1 (i)\n\
         field f1 \"count\": i32 in T1.S1 (i)\n\
         kernel fn0 \"scatter\"() {\n\
         foreach L0 (v0: i32) in f0 {\n\
         v1: i32 = load f0[v0]\n",
    );
    let end = 1 + others;
    for k in 1..end {
        writeln!(text, "v{}: i32 = mul v{k}, v{k}", k + 1).unwrap();
    }
    writeln!(text, "store f0[v0], v{end}").unwrap();
    for k in 0..atomics {
        writeln!(text, "v{}: i32 = atomic add f1[v0], v0", end + 1 + k).unwrap();
    }
    text + "continue L0\n}\nreturn\n}\n"
}

/// Whether one thread runs the loop, where so many threads could.
fn alone(atomics: usize, others: usize, threads: u32) -> bool {
    let text = scatter(atomics, others);
    let mut module = wuji_ir::text::parse(&text, "scatter.wir").unwrap();
    let options = Options {
        threads,
        ..Options::default()
    };
    let mut cx = Cx::new(&options);
    for pass in ["offload", "loops", "lower_access", "serialize_small"] {
        run_pass(pass, &mut module, &mut cx).unwrap();
    }
    let is_serial =
        |kind: &TaskKind| matches!(kind, TaskKind::Chunks { hints, .. } if hints.serial);
    module.tasks.iter().any(|task| is_serial(&task.kind))
}

#[test]
fn atomics_are_weighed_against_threads() {
    // A particle that scatters to 27 nodes.
    assert!(alone(108, 3000, 1) && alone(1, 5000, 1));
    assert!(alone(108, 3000, 2));
    assert!(!alone(108, 3000, 4));
    // One that does much work before it counts something.
    assert!(!alone(1, 100, 2));
    assert!(!alone(0, 10, 2));
}
