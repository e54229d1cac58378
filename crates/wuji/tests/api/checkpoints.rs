//! Worlds saved to files.

use crate::backend::{builder, worlds};
use crate::files::Folder;
use expect_test::expect;
use std::fs;
use std::sync::{Arc, Mutex};
use wuji::prelude::*;

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Particle {
    x: Vec3,
    kind: u8,
    mass: f64,
}

/// A field of each kind of layout.
struct Scene {
    world: World,
    dense: Field<Particle, 2>,
    blocks: Field<f32, 2>,
    flags: Field<i32, 2>,
    list: Field<u16, 2>,
    hashed: Field<Vec2, 2>,
    packed: Field<f32, 1>,
    array: NdArray<i64, 3>,
    scalar: Field<f64, 0>,
}

impl Scene {
    fn new(world: World) -> Scene {
        let (blocks, flags) = world
            .layout(|root| {
                let blocks = root.pointer(IJ, 8);
                let cells = blocks.bitmasked(IJ, 4);
                (cells.place("blocks"), cells.place("flags"))
            })
            .unwrap();
        Scene {
            dense: world
                .layout(|root| root.dense(IJ, 3).dense(IJ, 2).place("dense"))
                .unwrap(),
            blocks,
            flags,
            list: world
                .layout(|root| root.dense(I, 4).dynamic(J, 64).place("list"))
                .unwrap(),
            hashed: world
                .layout(|root| root.hash(IJ).dense(IJ, 4).place("hashed"))
                .unwrap(),
            packed: world
                .layout(|root| {
                    root.dense(I, 10)
                        .bit_array(I, 8, 32)
                        .place("packed", qfixed(4, true, 1.0))
                })
                .unwrap(),
            array: world.nd_array("array", [2, 3, 4]).unwrap(),
            scalar: world.scalar("scalar").unwrap(),
            world,
        }
    }

    fn fill(&self) {
        let particle = |k: i32| Particle {
            x: vec3(k as f32, 0.5, -1.0),
            kind: k as u8,
            mass: f64::from(k) * 0.1,
        };
        self.dense
            .copy_from(&(0..36).map(particle).collect::<Vec<_>>())
            .unwrap();
        for k in 0..10 {
            self.blocks.set([k * 3, k], k as f32 + 0.25).unwrap();
            self.packed.set(k * 8 + 3, k as f32 * 0.05).unwrap();
        }
        self.flags.activate([31, 31]).unwrap(); // active, and zero
        for (n, length) in [3, 0, 20, 1].into_iter().enumerate() {
            (0..length).for_each(|k| {
                self.list.append(n as i64, (n * 100 + k) as u16).unwrap();
            });
        }
        self.hashed.set([400, 9], vec2(1.0, 2.0)).unwrap();
        self.array
            .copy_from(&(0..24).collect::<Vec<i64>>())
            .unwrap();
        self.scalar.set([0i32; 0], 2.5).unwrap();
    }

    /// Everything that is in the fields.
    fn contents(&self) -> String {
        let lists: Vec<i32> = (0..4).map(|n| self.list.length(n).unwrap()).collect();
        format!(
            "{:?}\n{:?}\n{:?}\n{:?} {lists:?}\n{:?}\n{:?}\n{:?}\n{:?}",
            self.dense.to_vec().unwrap(),
            self.blocks.export().unwrap(),
            self.flags.export().unwrap(),
            self.list.export().unwrap(),
            self.hashed.export().unwrap(),
            self.packed.to_vec().unwrap(),
            self.array.to_vec().unwrap(),
            self.scalar.get([0i32; 0]).unwrap(),
        )
    }
}

#[test]
fn worlds_come_back() {
    for (n, (world, other)) in worlds().into_iter().zip(worlds()).enumerate() {
        let folder = Folder::new(&format!("save-{n}"));
        let path = folder.join("world");
        let scene = Scene::new(world);
        scene.fill();
        let expected = scene.contents();
        scene.world.save(&path).unwrap();
        assert_eq!(scene.contents(), expected, "saving changes nothing");
        // Into another world, where other cells are active.
        let second = Scene::new(other);
        second.blocks.set([20, 20], 1.0).unwrap();
        second.list.append(1, 5).unwrap();
        second.world.load(&path).unwrap();
        assert_eq!(second.contents(), expected);
        // The same bytes again.
        second.world.save(folder.join("again")).unwrap();
        second.blocks.deactivate_all().unwrap();
        second.world.load(folder.join("again")).unwrap();
        assert_eq!(second.contents(), expected);
    }
}

/// From a CPU to the interpreter, and to another layout of the same fields.
#[test]
fn dense_trees_may_have_other_layouts() {
    let folder = Folder::new("save-layouts");
    let path = folder.join("world");
    let world = World::cpu().unwrap();
    let x = world
        .layout(|root| root.dense(IJ, 4).dense(IJ, 8).place::<f32, 2>("x"))
        .unwrap();
    let values: Vec<f32> = (0..1024).map(|k| k as f32).collect();
    x.copy_from(&values).unwrap();
    world.save(&path).unwrap();
    let world = World::interpreter().unwrap();
    let y = world
        .layout(|root| root.dense(JI, 32).place::<f32, 2>("x"))
        .unwrap();
    world.load(&path).unwrap();
    assert_eq!(y.to_vec().unwrap(), values);
}

/// More than one block, and more than one slab.
#[test]
fn large_worlds() {
    let folder = Folder::new("save-large");
    let path = folder.join("world");
    let world = World::cpu().unwrap();
    let x = world.field::<u32, 2>("x", [3000, 2000]).unwrap();
    let values: Vec<u32> = (0..6_000_000u32)
        .map(|k| k.wrapping_mul(2_654_435_761))
        .collect();
    x.copy_from(&values).unwrap();
    let sparse = world
        .layout(|root| root.pointer(I, 1000).dense(I, 1000).place::<f32, 1>("s"))
        .unwrap();
    let half = 0..500_000;
    sparse.window([half]).unwrap().fill(1.5).unwrap();
    world.save(&path).unwrap();
    x.fill(0).unwrap();
    sparse.deactivate_all().unwrap();
    world.load(&path).unwrap();
    assert_eq!(x.to_vec().unwrap(), values);
    assert_eq!(sparse.count_active().unwrap(), 500_000);
    assert_eq!(sparse.get(499_999).unwrap(), 1.5);
}

fn simple(extent: u64) -> (World, Field<f32, 1>) {
    let world = World::interpreter().unwrap();
    let x = world.field::<f32, 1>("x", extent).unwrap();
    x.fill(1.0).unwrap();
    (world, x)
}

#[test]
fn other_fields_are_refused() {
    let folder = Folder::new("save-others");
    let path = folder.join("world");
    let (world, _x) = simple(8);
    world.save(&path).unwrap();
    let (other, _x) = simple(9);
    folder.check(
        other.load(&path),
        expect![[r#"
        error[W0534]: the checkpoint world is one of other fields
          = note: it has `field "x": f32 [0..8]` where the world has `field "x": f32 [0..9]`
          = help: make the same fields, in the same order, and then load"#]],
    );
    let (other, _x) = simple(8);
    let y = other.field::<i32, 1>("y", 3).unwrap();
    folder.check(
        other.load(&path),
        expect![[r#"
        error[W0534]: the checkpoint world is one of other fields
          = note: it has 1 trees, and the world 2
          = help: make the same fields, in the same order, and then load"#]],
    );
    drop(y);
    other.load(&path).unwrap();
    let other = World::interpreter().unwrap();
    let _x = other
        .layout(|root| root.pointer(I, 4).dense(I, 2).place::<f32, 1>("x"))
        .unwrap();
    folder.check(
        other.load(&path),
        expect![[r#"
        error[W0534]: the checkpoint world is one of other fields
          = note: it has `dense tree` where the world has `sparse tree`
          = help: make the same fields, in the same order, and then load"#]],
    );
    other.save(&path).unwrap();
    let other = World::interpreter().unwrap();
    let _x = other
        .layout(|root| root.pointer(I, 2).dense(I, 4).place::<f32, 1>("x"))
        .unwrap();
    folder.check(
        other.load(&path),
        expect![[r#"
        error[W0534]: the checkpoint world is one of other fields
          = note: it has `pointer S1 [i: 4] {` where the world has `pointer S1 [i: 2] {`
          = help: make the same fields, in the same order, and then load"#]],
    );
    other.close();
    folder.check(
        other.load(&path),
        expect![[r#"
        error[W0132]: this world was closed
          = note: its fields and kernels went with it
          = help: make a new world"#]],
    );
    folder.check(
        other.save(&path),
        expect![[r#"
        error[W0132]: this world was closed
          = note: its fields and kernels went with it
          = help: make a new world"#]],
    );
}

/// Damaged files are found before anything changes.
#[test]
fn damaged_files() {
    let folder = Folder::new("save-damaged");
    let path = folder.join("world");
    let (world, x) = simple(300);
    folder.check(
        world.load(&path),
        expect![[r#"
        error[W0530]: cannot read world
          = note: No such file or directory (os error 2)"#]],
    );
    world.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    x.fill(2.0).unwrap();
    let load = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        world.load(&path)
    };
    folder.check(
        load(b"hello world, I am no checkpoint"),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: it does not start with `WUJICKPT`"#]],
    );
    folder.check(
        load(&whole[..7]),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: it is truncated: 12 more bytes are needed, and it has 7"#]],
    );
    let mut newer = whole.clone();
    newer[8] = 4;
    folder.check(
        load(&newer),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: it has version 4 of the format, and this program reads 2 and 3
          = help: load it with the version of Wuji that wrote it"#]],
    );
    let mut older = whole.clone();
    older[8] = 1;
    folder.check(
        load(&older),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: it has version 1 of the format, and this program reads 2 and 3
          = help: load it with the version of Wuji that wrote it"#]],
    );
    folder.check(
        load(&whole[..whole.len() / 2]),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: it is truncated: 1260 more bytes are needed, and it has 624"#]],
    );
    let mut wrong = whole.clone();
    wrong[200] ^= 1;
    folder.check(
        load(&wrong),
        expect![[r#"
        error[W0531]: world is not a valid checkpoint file
          = note: block 0 has a wrong checksum"#]],
    );
    for at in 0..whole.len() {
        assert_eq!(load(&whole[..at]).unwrap_err().code, "W0531", "{at}");
        let mut wrong = whole.clone();
        wrong[at] ^= 4;
        assert_eq!(load(&wrong).unwrap_err().code, "W0531", "{at}");
    }
    assert_eq!(x.to_vec().unwrap(), [2.0; 300]);
    load(&whole).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1.0; 300]);
}

/// Damaged files with active cells and the state of random numbers.
#[test]
fn damaged_sparse_files() {
    let folder = Folder::new("save-damaged-sparse");
    let path = folder.join("world");
    let world = World::builder().interpreter().seed(11).build().unwrap();
    let x = world.layout(|root| root.pointer(I, 4).bitmasked(I, 4).place("x"));
    let x: Field<f32, 1> = x.unwrap();
    (0..3).for_each(|k| x.set(5 * k, k as f32).unwrap());
    world.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    x.deactivate(5).unwrap();
    x.set(15, 9.0).unwrap();
    let now = x.export().unwrap();
    for at in (0..whole.len()).step_by(3) {
        fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(world.load(&path).unwrap_err().code, "W0531", "{at}");
        let mut wrong = whole.clone();
        wrong[at] ^= 1;
        fs::write(&path, &wrong).unwrap();
        assert_eq!(world.load(&path).unwrap_err().code, "W0531", "{at}");
    }
    assert_eq!(x.export().unwrap(), now);
    fs::write(&path, &whole).unwrap();
    world.load(&path).unwrap();
    assert_eq!(x.export().unwrap().0, [[0], [5], [10]]);
}

/// A sparse field with more active elements than are in memory at a time.
#[test]
fn sparse_fields_are_streamed() {
    let folder = Folder::new("save-streamed");
    let path = folder.join("world");
    let new = || {
        let world = World::cpu().unwrap();
        let x = world.layout(|root| root.pointer(IJ, 64).bitmasked(IJ, 64).place("x"));
        let x: Field<Row, 2> = x.unwrap();
        (world, x)
    };
    let (world, x) = new();
    scatter(&x).unwrap();
    let count = x.count_active().unwrap();
    assert!(count * size_of::<Row>() as u64 > 1 << 24, "several parts");
    let sums = (sum(&x).unwrap(), count);
    world.save(&path).unwrap();
    let (other, y) = new();
    y.set([1, 1], Row::splat(5)).unwrap();
    other.load(&path).unwrap();
    assert_eq!((sum(&y).unwrap(), y.count_active().unwrap()), sums);
    assert!(!y.is_active([1, 1]).unwrap());
    assert_eq!(y.get([2000, 5]).unwrap()[15], 2000 * 7 + 5 * 11);
}

/// A large element, so that few of them are several parts.
type Row = Vector<i64, 16>;

#[kernel]
fn scatter(x: &Field<Row, 2>) {
    for [i, j] in grid([0..2048, 0..384]) {
        if (i + j) % 5 == 0 {
            x[[i, j]] = Vector::splat(i as i64 * 7 + j as i64 * 11);
        }
    }
}

/// A sum that depends on the place of each element.
#[kernel]
fn sum(x: &Field<Row, 2>) -> i64 {
    let mut sum = 0;
    for [i, j] in x {
        let v = x[[i, j]];
        sum += (v[0] + 3 * v[15]) * (i as i64 + 4099 * j as i64);
    }
    sum
}

/// A simulation that prints, draws random numbers and grows.
struct Growth {
    world: World,
    x: Field<f32, 1>,
    seeds: Field<i32, 0>,
    lines: Arc<Mutex<Vec<String>>>,
}

#[kernel]
fn grow(x: &Field<f32, 1>, seeds: &Field<i32, 0>, step: i32) {
    for [i] in x {
        x[[i]] += random::<f32>();
    }
    for _k in serial(0..3) {
        let at = (random::<f32>() * 400.0) as i32;
        x[[at]] = 0.5;
        seeds[[]] += 1;
        println!("step {step}: {at}, seeds {}", seeds[[]]);
    }
}

impl Growth {
    fn new(builder: wuji::WorldBuilder) -> Growth {
        let world = builder.build().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        world.on_print(move |line| sink.lock().unwrap().push(line.to_owned()));
        let x = world.layout(|root| root.pointer(I, 50).dense(I, 8).place("x"));
        Growth {
            x: x.unwrap(),
            seeds: world.scalar("seeds").unwrap(),
            lines,
            world,
        }
    }

    fn steps(&self, steps: std::ops::Range<i32>) {
        for step in steps {
            grow(&self.x, &self.seeds, step).unwrap();
        }
        self.world.synchronize().unwrap();
    }

    /// What it printed, and what it is now.
    fn output(&self) -> String {
        let lines = self.lines.lock().unwrap().concat();
        format!("{lines}{:?}", self.x.export().unwrap())
    }
}

/// A program that saves, and goes on in a new world, prints what one prints that never stopped.
#[test]
fn runs_go_on_exactly() {
    let folder = Folder::new("save-goes-on");
    let path = folder.join("state");
    let whole = Growth::new(builder().seed(42));
    whole.steps(0..6);
    let first = Growth::new(builder().seed(42));
    first.steps(0..3);
    first.world.save(&path).unwrap();
    // Saving, and reading after it, do not disturb the run.
    first.output();
    let second = Growth::new(builder());
    second.x.set(3, 1.0).unwrap();
    second.world.load(&path).unwrap();
    second.steps(3..6);
    let printed = first.lines.lock().unwrap().concat();
    assert_eq!(printed + &second.output(), whole.output());
    assert!(whole.output().lines().count() > 18);
}

#[kernel]
fn draw(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] += random::<f32>();
    }
}

/// A run that goes on from a checkpoint draws the numbers of the run that was saved.
#[test]
fn random_numbers_go_on() {
    for (number, world) in worlds().into_iter().enumerate() {
        let folder = Folder::new(&format!("checkpoint-random-{number}"));
        let path = folder.join("state");
        let new = |world: &World| {
            let x = world.layout(|root| root.pointer(I, 4).dense(I, 8).place("x"));
            let x: Field<f32, 1> = x.unwrap();
            x.activate(20).unwrap();
            x
        };
        let x = new(&world);
        draw(&x).unwrap();
        draw(&x).unwrap();
        world.save(&path).unwrap();
        draw(&x).unwrap();
        let first = x.to_vec().unwrap();
        world.load(&path).unwrap();
        draw(&x).unwrap();
        assert_eq!(x.to_vec().unwrap(), first);
        draw(&x).unwrap();
        assert_ne!(x.to_vec().unwrap(), first);
        // In another process, with another seed.
        let other = World::builder().interpreter().seed(99).build().unwrap();
        let y = new(&other);
        other.load(&path).unwrap();
        draw(&y).unwrap();
        assert_eq!(y.to_vec().unwrap(), first);
    }
}
