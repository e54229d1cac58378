//! Tests of the search for layouts.

use super::*;
use crate::prelude::*;
use crate::tune::{Output, Step};
use wuji_ir::Error;
use wuji_ir::interp::{Config, Machine};
use wuji_ir::layout::Axis;
use wuji_ir::text::parse;

fn grid(extents: &[u64], sparse: bool) -> GridInfo {
    GridInfo {
        name: "grid".into(),
        extents: (extents.iter().enumerate())
            .filter_map(|(k, n)| Some((Axis::new(k)?, *n)))
            .collect(),
        sparse,
        fields: vec![("mass".into(), false), ("velocity".into(), true)],
        original: None,
    }
}

/// A search in which layouts have the time that a function says.
fn searched(grid: &GridInfo, seconds: impl Fn(LayoutChoice) -> f64) -> TunedLayout {
    let mut run = |plan: &LayoutPlan| {
        let choice = plan
            .choice("grid")
            .unwrap_or(LayoutChoice::plain(grid.sparse));
        // Morton order is wrong in this program.
        let value = if choice.order == MemoryOrder::Morton {
            2.0
        } else {
            1.0
        };
        Ok::<_, Error>(LayoutRun {
            grids: vec![grid.clone()],
            seconds: seconds(choice),
            bytes: 4096,
            outputs: vec![Output {
                name: "x".into(),
                values: vec![value],
            }],
        })
    };
    search_layout(&LayoutRequest::default(), &mut run, &mut |_: &Step<'_>| ()).unwrap()
}

fn cost(choice: LayoutChoice) -> f64 {
    let block = match choice.block {
        Some(8) => 0.5,
        Some(_) => 0.8,
        None => 1.0,
    };
    let placement = match choice.placement {
        Placement::Together => 1.0,
        Placement::Apart => 0.7,
        Placement::Components => 0.6,
    };
    let order = match choice.order {
        MemoryOrder::RowMajor => 1.0,
        MemoryOrder::ColumnMajor => 1.5,
        MemoryOrder::Morton => 0.1,
    };
    block * placement * order * 1e-3
}

#[test]
fn the_fastest_layout_whose_outputs_agree_is_chosen() {
    let tuned = searched(&grid(&[64, 64], false), cost);
    let chosen = tuned.point().plan.choice("grid").unwrap();
    assert_eq!(chosen.to_string(), "dense > dense 8, SoA by component");
    assert!(!tuned.agrees(&tuned.points[tuned.points.len() - 1]));
    expect_test::expect![[r#"
        // grid: dense > dense 8, SoA by component
        let block = root.dense(IJ, [8, 8]);
        let mass = block.dense(IJ, [8, 8]).place("mass");
        let velocity = block.place_soa("velocity", |node| node.dense(IJ, [8, 8]));
    "#]]
    .assert_eq(&tuned.rust());
    expect_test::expect![[r#"
        # grid: dense > dense 8, SoA by component
        block = ti.root.dense(ti.ij, (8, 8))
        block.dense(ti.ij, (8, 8)).place(mass)
        for k in range(velocity.n * velocity.m):
            block.dense(ti.ij, (8, 8)).place(velocity.get_scalar_field(*divmod(k, velocity.m)))
    "#]]
    .assert_eq(&tuned.python());
}

#[test]
fn sparse_grids_have_sparse_nodes() {
    let cost = |choice: LayoutChoice| match choice.node {
        CellNode::Hash => 0.5,
        CellNode::Pointer | CellNode::Bitmasked | CellNode::Dense => 1.0,
    };
    let tuned = searched(&grid(&[64], true), cost);
    let chosen = tuned.point().plan.choice("grid").unwrap();
    assert_eq!(chosen.to_string(), "hash > dense 4, AoS");
    let nodes = tuned.points.iter().filter_map(|p| p.plan.choice("grid"));
    assert!(nodes.clone().all(|c| c.node != CellNode::Dense));
    assert!(nodes.clone().any(|c| c.node == CellNode::Pointer));
}

#[test]
fn extents_that_blocks_do_not_divide_have_none() {
    let tuned = searched(&grid(&[30, 7], false), cost);
    let blocked = |p: &LayoutPoint| p.plan.choice("grid").is_some_and(|c| c.block.is_some());
    assert!(!tuned.points.iter().any(blocked));
    assert!(tuned.points.len() > 2);
}

const KERNEL: &str = "
module \"m\"
tree T0 { dense S1 [i: 8, j: 16] { place f0, f1 } }
field f0 \"x\": f32 in T0.S1 (i, j from -3)
field f1 \"v\": f32x2 in T0.S1 (i, j from -3)
kernel fn0 \"k\"() {
  foreach L0 (v0: i32, v1: i32) in f1 {
    v2: f32x2 = load f1[v0, v1]
    v3: f32 = reduce add v2
    v4: i32 = const 1
    v5: i32 = add v1, v4
    v6: f32 = load f0[v0, v5]
    v7: f32 = add v3, v6
    store f1[v0, v1].1, v7
    continue L0
  }
  return
}
";

#[test]
fn modules_compute_the_same_in_all_layouts() {
    let module = parse(KERNEL, "kernel").unwrap();
    let mut seen = Vec::new();
    let mut run = |plan: &LayoutPlan| {
        let m = relayout(&module, plan)?;
        let text = m.to_string();
        assert_eq!(parse(&text, "again").unwrap(), m.compacted(), "{text}");
        let mut machine = Machine::new(&m, Config::default())?;
        let fields: Vec<_> = module.fields.keys().collect();
        for field in &fields {
            let zeros = machine.field(*field)?;
            let values = zeros.iter().enumerate();
            let values = values
                .map(|(k, v)| wuji_ir::types::Imm::from_bits(v.ty, (k as f32).to_bits().into()));
            machine.fill(*field, &values.collect::<Vec<_>>())?;
        }
        machine.run(&[])?;
        let values = machine.field(fields[1])?;
        seen.push(plan.clone());
        Ok::<_, Error>(LayoutRun {
            grids: grids(&module),
            seconds: 1.0 / seen.len() as f64,
            bytes: 0,
            outputs: vec![Output {
                name: "v".into(),
                values: values.iter().map(|v| v.as_float().unwrap()).collect(),
            }],
        })
    };
    let request = LayoutRequest {
        repeats: 1,
        ..LayoutRequest::default()
    };
    let tuned = search_layout(&request, &mut run, &mut |_: &Step<'_>| ()).unwrap();
    assert!(tuned.points.iter().all(|p| p.error == 0.0));
    let placements = tuned.points.iter().filter_map(|p| p.plan.choice("T0"));
    assert!(
        placements
            .clone()
            .any(|c| c.placement == Placement::Components)
    );
    assert!(placements.clone().any(|c| c.order == MemoryOrder::Morton));
}

#[kernel]
fn grow(mass: &Field<f32, 2>, velocity: &Field<Vec2, 2>) {
    for [i, j] in mass {
        mass[[i, j]] += velocity[[i, j + 1]].x;
    }
}

#[test]
fn programs_are_run_in_all_layouts() {
    let world = World::interpreter().unwrap();
    let tuned = crate::tune::layout().repeats(1).run(|trial| {
        let (mass, velocity) = world.layout(|root| {
            let grid = trial.sparse_grid(root, "grid", IJ, [16, 8]);
            (
                grid.place::<f32, 2>("mass"),
                grid.place::<Vec2, 2>("velocity"),
            )
        })?;
        mass.set([3, 4], 1.0)?;
        velocity.set([3, 5], vec2(2.0, 0.0))?;
        trial.time(&world, || grow(&mass, &velocity))?;
        trial.output("mass", &mass)
    });
    let tuned = tuned.unwrap();
    assert!(
        tuned.points.iter().all(|p| tuned.agrees(p)),
        "{}",
        tuned.report()
    );
    assert!(tuned.points.len() > 5);
}

#[test]
fn programs_without_grids_outputs_or_times_are_refused() {
    let world = World::interpreter().unwrap();
    let run = |measure: bool, output: bool, keep: &str| {
        let search = crate::tune::layout().keep(keep);
        let done = search.run(|trial| {
            let x = world.layout(|root| trial.grid(root, "grid", I, 8).place::<f32, 1>("x"))?;
            if measure {
                trial.time(&world, || Ok(()))?;
            }
            if output {
                trial.output("x", &x)?;
            }
            Ok(())
        });
        done.unwrap_err()
    };
    let errors = [
        run(false, true, "grid"),
        run(true, false, "grid"),
        run(true, true, "grid"),
        run(true, true, "other"),
    ];
    assert!(errors.iter().all(|e| e.code == "W0160"));
    let messages: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
    expect_test::expect![[r#"
        [
            "the program measures nothing",
            "the program has no outputs to compare",
            "there is no layout to choose",
            "there is no grid `other` to keep",
        ]
    "#]]
    .assert_debug_eq(&messages);
}
