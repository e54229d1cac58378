//! Gradients where cells are activated and deactivated between launches.

use wuji::Result;
use wuji::prelude::*;

fn worlds() -> [World; 2] {
    [
        World::builder().threads(2).build().unwrap(),
        World::interpreter().unwrap(),
    ]
}

fn code<T>(result: Result<T>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => error.code,
    }
}

/// The layouts of the tests: all of them have 16 elements that can be active one by one, or in pairs.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Layout {
    Dense,
    Pointer,
    PointerLazy,
    Bitmasked,
    PointerBitmasked,
    Hash,
    HashLazy,
    PointerHash,
    Dynamic,
}

const SPARSE: [Layout; 7] = [
    Layout::Pointer,
    Layout::PointerLazy,
    Layout::Bitmasked,
    Layout::PointerBitmasked,
    Layout::Hash,
    Layout::HashLazy,
    Layout::PointerHash,
];

fn place(world: &World, layout: Layout) -> (Field<f64, 1>, Field<f64, 1>) {
    let lazy = matches!(layout, Layout::PointerLazy | Layout::HashLazy);
    let (a, b) = world
        .layout(|root| {
            let cell = match layout {
                Layout::Dense => root.dense(I, 16),
                Layout::Pointer | Layout::PointerLazy => root.pointer(I, 8).dense(I, 2),
                Layout::Bitmasked => root.bitmasked(I, 16),
                Layout::PointerBitmasked => root.pointer(I, 4).bitmasked(I, 4),
                Layout::Hash | Layout::HashLazy => root.hash(I).dense(I, 2),
                Layout::PointerHash => root.pointer(I, 2).hash_sized(I, 4).dense(I, 2),
                Layout::Dynamic => root.dynamic(I, 16),
            };
            let fields = (cell.place::<f64, 1>("a"), cell.place::<f64, 1>("b"));
            if lazy {
                root.lazy_grad();
            }
            fields
        })
        .unwrap();
    (a.needs_grad().unwrap(), b.needs_grad().unwrap())
}

fn dense(world: &World, name: &str, n: u64) -> Field<f64, 1> {
    let field = world.field::<f64, 1>(name, n).unwrap();
    field.needs_grad().unwrap()
}

fn loss(world: &World) -> Field<f64, 0> {
    world.scalar("loss").unwrap().needs_grad().unwrap()
}

/// Adds something for cells with zeros, too.
#[kernel]
fn weighted(x: &Field<f64, 1>, w: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += w[[i]] * (1.0 + x[[i]] * x[[i]]);
    }
}

#[kernel]
fn activate(x: &Field<f64, 1>, i: i32) {
    for _ in 0..1 {
        x.activate([i]);
    }
}

#[kernel]
fn deactivate_from(x: &Field<f64, 1>, first: i32) {
    for [i] in x {
        if i >= first {
            x.deactivate([i]);
        }
    }
}

fn gradient(field: &Field<f64, 1>, n: i32) -> Vec<f64> {
    let gradient = field.grad().unwrap();
    (0..n).map(|i| gradient.get(i).unwrap()).collect()
}

#[test]
fn a_loop_over_cells_is_reversed_over_the_cells_of_its_time() {
    for world in worlds() {
        for layout in SPARSE.into_iter().chain([Layout::Dynamic]) {
            let (x, _) = place(&world, layout);
            let (w, loss) = (dense(&world, "w", 16), loss(&world));
            w.fill(2.0).unwrap();
            for i in [0, 1] {
                x.set(i, 3.0).unwrap();
            }
            let tape = world
                .record_tape(|| {
                    weighted(&x, &w, &loss)?;
                    activate(&x, 2)?;
                    weighted(&x, &w, &loss)?;
                    x.activate(4)?;
                    weighted(&x, &w, &loss)
                })
                .unwrap();
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            let w = gradient(&w, 6);
            assert_eq!(w[..2], [30.0, 30.0], "{layout:?}");
            assert_eq!((w[2], w[4]), (2.0, 1.0), "{layout:?}");
            assert_eq!(gradient(&x, 2), [36.0, 36.0], "{layout:?}");
            assert_eq!(x.get(4).unwrap(), 0.0);
            assert!(x.is_active(4).unwrap() && x.is_active(2).unwrap());
        }
    }
}

#[test]
fn deactivated_cells_have_their_values_when_gradients_run() {
    for world in worlds() {
        for layout in SPARSE {
            if matches!(layout, Layout::PointerLazy | Layout::HashLazy) {
                continue;
            }
            let (x, _) = place(&world, layout);
            let (w, loss) = (dense(&world, "w", 16), loss(&world));
            w.fill(2.0).unwrap();
            for i in [0, 1, 4, 5] {
                x.set(i, 3.0).unwrap();
            }
            let tape = world
                .record_tape(|| {
                    weighted(&x, &w, &loss)?;
                    x.deactivate_all()?;
                    weighted(&x, &w, &loss)
                })
                .unwrap();
            assert_eq!(tape.saved().len(), 1, "{layout:?}");
            loss.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(gradient(&w, 6)[4..], [10.0, 10.0], "{layout:?}");
            assert_eq!(gradient(&x, 6), [12.0, 12.0, 0.0, 0.0, 12.0, 12.0]);
            assert_eq!(x.count_active().unwrap(), 0);
        }
    }
}

#[kernel]
fn double(x: &Field<f64, 1>, y: &Field<f64, 1>) {
    for [i] in x {
        y[[i]] += 2.0 * x[[i]];
    }
}

#[test]
fn the_gradient_of_a_value_ends_where_its_cell_is_deactivated() {
    for world in worlds() {
        for layout in [Layout::Bitmasked, Layout::PointerBitmasked] {
            let (x, _) = place(&world, layout);
            let (y, loss) = (dense(&world, "y", 16), loss(&world));
            for i in 0..3 {
                x.set(i, 1.0).unwrap();
            }
            // The second launch sees new zeros in place of x[1] and x[2].
            let tape = world
                .record_tape(|| {
                    double(&x, &y)?;
                    deactivate_from(&x, 1)?;
                    activate(&x, 1)?;
                    weighted(&x, &y, &loss)?;
                    double(&x, &y)?;
                    x.deactivate(1)
                })
                .unwrap();
            y.grad().unwrap().fill(1.0).unwrap();
            tape.backward().unwrap();
            assert_eq!(gradient(&x, 4), [4.0, 2.0, 2.0, 0.0], "{layout:?}");
            assert_eq!(x.active().unwrap(), [[0]]);
        }
    }
}

#[test]
fn lists_that_grow_between_launches() {
    for world in worlds() {
        let (x, _) = place(&world, Layout::Dynamic);
        let (w, loss) = (dense(&world, "w", 16), loss(&world));
        w.fill(1.0).unwrap();
        world
            .tape(&loss, || {
                x.append((), 1.0)?;
                x.append((), 2.0)?;
                weighted(&x, &w, &loss)?;
                world.no_grad(|| x.append((), 3.0).map(|_| ()))?;
                weighted(&x, &w, &loss)?;
                x.deactivate_all()?;
                weighted(&x, &w, &loss)
            })
            .unwrap();
        assert_eq!(gradient(&w, 4), [4.0, 10.0, 10.0, 0.0]);
        assert_eq!(gradient(&x, 4), [4.0, 8.0, 6.0, 0.0]);
        assert_eq!(x.length(()).unwrap(), 0);
    }
}

mod particles {
    use super::*;

    #[kernel]
    fn to_grid(x: &Field<f64, 1>, v: &Field<f64, 1>, m: &Field<f64, 1>, g: &Field<f64, 1>) {
        for [p] in x {
            let base = x[[p]].floor();
            let i = base as i32;
            let f = x[[p]] - base;
            m[[i]] += 1.0 - f;
            m[[i + 1]] += f;
            g[[i]] += v[[p]] * (1.0 - f);
            g[[i + 1]] += v[[p]] * f;
        }
    }

    #[kernel]
    fn on_grid(m: &Field<f64, 1>, g: &Field<f64, 1>) {
        for [i] in m {
            if m[[i]] > 0.0 {
                g[[i]] = (g[[i]] / m[[i]]).sin();
            }
        }
    }

    #[kernel]
    fn to_particles(x: &Field<f64, 1>, v: &Field<f64, 1>, g: &Field<f64, 1>) {
        for [p] in x {
            let base = x[[p]].floor();
            let i = base as i32;
            let f = x[[p]] - base;
            let new = g[[i]] * (1.0 - f) + g[[i + 1]] * f;
            v[[p]] = new;
            x[[p]] += 0.7 * new;
        }
    }

    #[kernel]
    fn clear(m: &Field<f64, 1>, g: &Field<f64, 1>) {
        for [i] in m {
            m[[i]] = 0.0;
            g[[i]] = 0.0;
        }
    }

    #[kernel]
    fn distance(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [p] in x {
            loss[[]] += x[[p]] * x[[p]];
        }
    }

    /// How the gradients are computed.
    #[derive(Copy, Clone, Debug, PartialEq)]
    enum How {
        Tape,
        Record,
        Steps(usize),
    }

    const STEPS: usize = 6;

    /// The loss, its gradients, and the number of active cells in the end.
    fn simulate(world: &World, layout: Layout, how: How) -> (f64, Vec<f64>, u64) {
        let (m, g) = place(world, layout);
        let (x, v, loss) = (dense(world, "x", 3), dense(world, "v", 3), loss(world));
        x.copy_from(&[1.3, 1.9, 4.2]).unwrap();
        v.copy_from(&[0.9, 0.4, 0.8]).unwrap();
        let step = |t: usize| -> Result<()> {
            if layout == Layout::Dense {
                clear(&m, &g)?;
            } else {
                m.deactivate_all()?;
            }
            to_grid(&x, &v, &m, &g)?;
            on_grid(&m, &g)?;
            to_particles(&x, &v, &g)?;
            if t + 1 == STEPS {
                distance(&x, &loss)?;
            }
            Ok(())
        };
        match how {
            How::Tape => world.tape(&loss, || (0..STEPS).try_for_each(step)).unwrap(),
            How::Record => {
                let tape = world.record_tape(|| (0..STEPS).try_for_each(step)).unwrap();
                loss.grad().unwrap().fill(1.0).unwrap();
                tape.backward().unwrap();
            }
            How::Steps(slots) => {
                world.tape_steps(&loss, STEPS, slots, step).unwrap();
            }
        }
        let mut all = gradient(&x, 3);
        all.extend(gradient(&v, 3));
        let active = if layout == Layout::Dense {
            0
        } else {
            m.count_active().unwrap()
        };
        (loss.get(()).unwrap(), all, active)
    }

    #[test]
    fn a_sparse_grid_has_the_gradients_of_a_dense_one() {
        for world in worlds() {
            let (loss, expected, _) = simulate(&world, Layout::Dense, How::Tape);
            assert!(expected.iter().all(|g| g.abs() > 1e-3), "{expected:?}");
            for layout in SPARSE {
                let mut cells = None;
                for how in [How::Tape, How::Record, How::Steps(0), How::Steps(2)] {
                    let (value, found, active) = simulate(&world, layout, how);
                    assert!((value - loss).abs() < 1e-9, "{layout:?} {how:?}");
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
                    assert!(
                        found.iter().zip(&expected).all(close),
                        "{layout:?} {how:?}: {found:?} {expected:?}"
                    );
                    assert_eq!(*cells.get_or_insert(active), active, "{layout:?} {how:?}");
                    assert!(active > 0);
                }
            }
        }
    }
}

mod refused {
    use super::*;

    /// Grows into the next cell, and depends on the cells that are active.
    #[kernel]
    fn grow(x: &Field<f64, 1>) {
        for [i] in x {
            x[[i + 1]] += 2.0 * x[[i]];
        }
    }

    #[kernel]
    fn grow_and_sum(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in x {
            x.activate([i + 2]);
            if x.is_active([i + 1]) {
                loss[[]] += x[[i]];
            }
        }
    }

    #[kernel]
    fn sum_and_deactivate(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in x {
            loss[[]] += x[[i]];
            x.deactivate([i]);
        }
    }

    #[test]
    fn a_kernel_that_changes_the_cells_that_it_needs() {
        let world = World::interpreter().unwrap();
        let loss = loss(&world);
        let (x, _) = place(&world, Layout::Bitmasked);
        x.set(0, 1.0).unwrap();
        let error = world
            .record_tape(|| grow_and_sum(&x, &loss))
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.code, "W0740");
        assert!(error.at.is_some(), "{error}");
        assert!(error.notes[0].contains("sparse_gradients.rs"), "{error}");
        let tape = world.record_tape(|| sum_and_deactivate(&x, &loss));
        assert_eq!(code(tape), "W0740");
        // Each launch goes one cell further.
        let (x, _) = place(&world, Layout::Bitmasked);
        x.set(0, 1.0).unwrap();
        let tape = world.record_tape(|| {
            grow(&x)?;
            weighted(&x, &x, &loss)
        });
        assert_eq!(code(tape), "");
        let (x, _) = place(&world, Layout::PointerLazy);
        x.set(0, 1.0).unwrap();
        assert_eq!(code(world.record_tape(|| grow(&x))), "W0740");
    }

    #[test]
    fn gradients_in_cells_that_are_gone() {
        for world in worlds() {
            let (x, _) = place(&world, Layout::PointerLazy);
            let (y, loss) = (dense(&world, "y", 16), loss(&world));
            x.set(0, 1.0).unwrap();
            let lost = world.tape(&loss, || {
                weighted(&x, &y, &loss)?;
                y.fill(1.0)?;
                weighted(&x, &y, &loss)?;
                x.deactivate_all()
            });
            assert_eq!(code(lost), "W0741");
        }
    }
}

#[test]
fn cells_that_do_not_change_are_not_copied() {
    let world = World::interpreter().unwrap();
    let (a, b) = place(&world, Layout::Pointer);
    a.set(3, 1.0).unwrap();
    let tape = world
        .record_tape(|| {
            for _ in 0..3 {
                double(&a, &b)?;
                double(&b, &a)?;
            }
            Ok(())
        })
        .unwrap();
    assert!(tape.saved().is_empty(), "{:?}", tape.saved());
}

/// Particles in a list or in blocks, and the blocks of a grid that they touch, are parts of one tree.
mod parts_of_a_tree {
    use super::*;

    #[kernel]
    fn scatter(at: &Field<f64, 1>, grid: &Field<f64, 1>) {
        for [p] in at {
            let cell = (at[[p]] * 16.0) as i32;
            grid[[cell]] += at[[p]] * at[[p]];
            grid[[cell + 1]] += at[[p]] * 0.5;
        }
    }

    #[kernel]
    fn squares(grid: &Field<f64, 1>, loss: &Field<f64, 0>) {
        for [i] in grid {
            loss[[]] += grid[[i]] * grid[[i]];
        }
    }

    #[kernel]
    fn moved(at: &Field<f64, 1>, grid: &Field<f64, 1>) {
        for [p] in at {
            at[[p]] += grid[[(at[[p]] * 16.0) as i32]] * 0.125;
        }
    }

    fn fields(world: &World, list: bool, lazy: bool) -> (Field<f64, 1>, Field<f64, 1>) {
        let (at, grid) = world
            .layout(|root| {
                let particle = if list {
                    root.dynamic(I, 8)
                } else {
                    root.bitmasked(I, 8)
                };
                let fields = (
                    particle.place::<f64, 1>("at"),
                    root.pointer(I, 8).dense(I, 4).place::<f64, 1>("grid"),
                );
                if lazy {
                    root.lazy_grad();
                }
                fields
            })
            .unwrap();
        (at.needs_grad().unwrap(), grid.needs_grad().unwrap())
    }

    /// Two steps with a grid that is cleared between them.
    fn run((at, grid): &(Field<f64, 1>, Field<f64, 1>), loss: &Field<f64, 0>) -> Result<()> {
        for _ in 0..2 {
            grid.deactivate_all()?;
            scatter(at, grid)?;
            moved(at, grid)?;
        }
        squares(grid, loss)
    }

    #[test]
    fn a_loop_over_one_part_activates_cells_of_another() {
        for world in worlds() {
            for (list, lazy) in [(true, false), (true, true), (false, false), (false, true)] {
                let start: Vec<f64> = (0..8).map(|p| 0.1 + 0.11 * f64::from(p)).collect();
                let value = |start: &[f64]| {
                    let all = fields(&world, list, lazy);
                    let loss = loss(&world);
                    let cells: Vec<[i32; 1]> = (0..8).map(|p| [p]).collect();
                    all.0.import(&cells, start).unwrap();
                    (all, loss)
                };
                let (all, total) = value(&start);
                world.tape(&total, || run(&all, &total)).unwrap();
                let found = gradient(&all.0, 8);
                for p in 0..8 {
                    let at = |by: f64| {
                        let mut moved = start.clone();
                        moved[p] += by;
                        let (all, total) = value(&moved);
                        run(&all, &total).unwrap();
                        total.get(()).unwrap()
                    };
                    let expected = (at(1e-6) - at(-1e-6)) / 2e-6;
                    let what = format!("{world:?} {list} {lazy} {p}: {} {expected}", found[p]);
                    assert!((found[p] - expected).abs() < 1e-6, "{what}");
                }
            }
        }
    }
}
