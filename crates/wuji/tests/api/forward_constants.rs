//! Constants in forward mode: what `no_grad` stores, and cells that are deactivated, have no duals.

use wuji::Result;
use wuji::prelude::*;

fn worlds() -> [World; 2] {
    [
        World::builder().threads(2).build().unwrap(),
        World::interpreter().unwrap(),
    ]
}

fn with_dual(world: &World, name: &str) -> Field<f64, 1> {
    let field = world.field::<f64, 1>(name, 3).unwrap();
    let field = field.needs_dual().unwrap();
    field.fill(2.0).unwrap();
    field.dual().unwrap().fill(1.0).unwrap();
    field
}

fn dual(field: &Field<f64, 1>) -> Vec<f64> {
    field.dual().unwrap().to_vec().unwrap()
}

#[kernel]
fn triple(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] = 3.0 * x[[i]];
    }
}

#[kernel(no_grad)]
fn triple_constant(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] = 3.0 * x[[i]];
    }
}

#[kernel(no_grad)]
fn add_constant(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] += 3.0 * x[[i]];
    }
}

#[kernel]
fn double_back(y: &Field<f64, 1>, x: &Field<f64, 1>) {
    for [i] in y {
        x[[i]] = 2.0 * y[[i]];
    }
}

#[test]
fn what_a_kernel_without_gradient_stores_has_no_dual() {
    for world in worlds() {
        let [x, y, z] = ["x", "y", "z"].map(|n| with_dual(&world, n));
        let run = || {
            triple(&x, &y)?;
            triple_constant(&x, &y)?;
            double_back(&y, &z)
        };
        world.forward_mode(run).unwrap();
        assert_eq!(
            (y.to_vec().unwrap(), dual(&y)),
            (vec![6.0; 3], vec![0.0; 3])
        );
        assert_eq!(
            (z.to_vec().unwrap(), dual(&z)),
            (vec![12.0; 3], vec![0.0; 3])
        );
        assert_eq!(dual(&x), [1.0; 3]);
    }
}

#[test]
fn a_constant_that_is_added_keeps_the_dual() {
    for world in worlds() {
        let [x, y] = ["x", "y"].map(|n| with_dual(&world, n));
        world.forward_mode(|| add_constant(&x, &y)).unwrap();
        assert_eq!(
            (y.to_vec().unwrap(), dual(&y)),
            (vec![8.0; 3], vec![1.0; 3])
        );
    }
}

#[test]
fn launches_in_no_grad_are_constants_for_all_directions() {
    for world in worlds() {
        let [x, y] = ["x", "y"].map(|n| with_dual(&world, n).needs_duals(2).unwrap());
        y.dual_in(1).unwrap().fill(4.0).unwrap();
        let run = || world.no_grad(|| triple(&x, &y));
        world.forward_mode(run).unwrap();
        assert_eq!(dual(&y), [0.0; 3]);
        assert_eq!(y.dual_in(1).unwrap().to_vec().unwrap(), [0.0; 3]);
    }
}

#[test]
fn forward_mode_differentiates_a_function_with_a_gradient_of_its_own() {
    for world in worlds() {
        let [x, y] = ["x", "y"].map(|n| with_dual(&world, n));
        let run = || world.custom_grad(|| triple(&x, &y), || Ok(()));
        world.forward_mode(run).unwrap();
        assert_eq!(dual(&y), [3.0; 3]);
    }
}

#[test]
fn a_tape_around_forward_mode_refuses_gradients_of_your_own() {
    let world = World::interpreter().unwrap();
    let [x, y] = ["x", "y"].map(|n| with_dual(&world, n));
    let run = || {
        let inner = || world.custom_grad(|| triple(&x, &y), || Ok(()));
        world.forward_mode(inner)
    };
    assert_eq!(world.record_tape(run).unwrap_err().code, "W0734");
}

#[test]
fn a_tape_in_forward_mode_does_not_record_constants() {
    for world in worlds() {
        let [x, y] = ["x", "y"].map(|n| with_dual(&world, n).needs_grad().unwrap());
        let run = || world.record_tape(|| world.no_grad(|| triple(&x, &y)));
        let tape = world.forward_mode(run).unwrap();
        assert_eq!((tape.len(), dual(&y)), (0, vec![0.0; 3]));
    }
}

type Sparse = (Field<f64, 1>, Field<f64, 1>, Cells<1>);

/// Two fields in the same cells, with duals in trees of their own.
fn sparse(world: &World) -> Sparse {
    let (x, y, cells) = world
        .layout(|root| {
            let node = root.pointer(I, 4);
            let leaf = node.dense(I, 4);
            (leaf.place("x"), leaf.place("y"), node.cells("cells"))
        })
        .unwrap();
    let (x, y): (Field<f64, 1>, Field<f64, 1>) = (x, y);
    let (x, y) = (x.needs_dual().unwrap(), y.needs_dual().unwrap());
    for field in [&x, &y] {
        for at in [1, 9] {
            field.set(at, 5.0).unwrap();
            field.dual().unwrap().set(at, 1.0).unwrap();
        }
    }
    (x, y, cells)
}

fn duals((x, y, _): &Sparse) -> [f64; 4] {
    let get = |field: &Field<f64, 1>, at: i32| field.dual().unwrap().get(at).unwrap();
    [get(x, 1), get(x, 9), get(y, 1), get(y, 9)]
}

#[kernel]
fn drop_cells(cells: &Cells<1>, n: i32) {
    for i in 0..n {
        cells.deactivate([i]);
    }
}

#[kernel]
fn drop_and_refill(x: &Field<f64, 1>, cells: &Cells<1>) {
    for _ in 0..1 {
        cells.deactivate([0]);
        x[[0]] = 7.0;
    }
}

#[test]
fn elements_that_the_host_deactivates_have_no_duals() {
    for world in worlds() {
        let fields = sparse(&world);
        world.forward_mode(|| fields.2.deactivate([0])).unwrap();
        assert_eq!(duals(&fields), [0.0, 1.0, 0.0, 1.0]);
        world.forward_mode(|| fields.2.deactivate_all()).unwrap();
        assert_eq!(duals(&fields), [0.0; 4]);
    }
}

#[test]
fn outside_of_forward_mode_duals_stay() -> Result<()> {
    let world = World::interpreter()?;
    let fields = sparse(&world);
    fields.2.deactivate_all()?;
    assert_eq!(duals(&fields), [1.0; 4]);
    Ok(())
}

#[test]
fn elements_that_a_kernel_deactivates_have_no_duals() {
    for world in worlds() {
        let fields = sparse(&world);
        world.forward_mode(|| drop_cells(&fields.2, 1)).unwrap();
        assert_eq!(duals(&fields), [0.0, 1.0, 0.0, 1.0]);
        let fields = sparse(&world);
        world
            .forward_mode(|| world.no_grad(|| drop_cells(&fields.2, 4)))
            .unwrap();
        assert_eq!(duals(&fields), [0.0; 4]);
    }
}

#[test]
fn cells_that_are_filled_again_have_no_old_duals() {
    for world in worlds() {
        let fields = sparse(&world);
        let run = || drop_and_refill(&fields.0, &fields.2);
        world.forward_mode(run).unwrap();
        assert_eq!(fields.0.get(0).unwrap(), 7.0);
        assert_eq!(duals(&fields), [0.0, 1.0, 0.0, 1.0]);
    }
}

#[test]
fn duals_of_another_layout_cannot_be_deactivated_by_a_kernel() {
    let world = World::interpreter().unwrap();
    let fields = sparse(&world);
    let dense = world.field::<f64, 1>("dense", 16).unwrap();
    fields.0.set_dual(&dense).unwrap();
    let done = world.forward_mode(|| drop_cells(&fields.2, 1));
    assert_eq!(done.unwrap_err().code, "W0721");
    dense.fill(1.0).unwrap();
    world.forward_mode(|| fields.2.deactivate([0])).unwrap();
    assert_eq!((dense.get(1).unwrap(), dense.get(9).unwrap()), (0.0, 1.0));
}
