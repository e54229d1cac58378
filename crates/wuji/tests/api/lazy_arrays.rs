//! Lazy worlds: arrays of the world, and kernels with results, are part of windows.

use wuji::prelude::*;

type Line = NdArray<i32, 1>;

#[kernel]
fn add(x: &NdArray<f32, 1>, amount: f32) {
    for [i] in x {
        x[[i]] += amount;
    }
}

#[kernel]
fn copy_plus(from: &NdArray<f32, 1>, to: &NdArray<f32, 1>, amount: f32) {
    for [i] in from {
        to[[i]] = from[[i]] + amount;
    }
}

#[kernel]
fn smooth(from: &NdArray<f32, 1>, to: &NdArray<f32, 1>) {
    for [i] in to {
        to[[i]] = (from[[i - 1]] + from[[i + 1]]) * 0.5;
    }
}

#[kernel]
fn to_field(from: &NdArray<f32, 1>, to: &Field<f32, 1>) {
    for [i] in to {
        to[[i]] = from[[i]] * 2.0;
    }
}

#[kernel]
fn sum(x: &NdArray<f32, 1>) -> f32 {
    let mut all = 0.0;
    for [i] in x {
        all += x[[i]];
    }
    all
}

#[kernel]
fn far_write(target: &NdArray<f32, 1>) {
    for [i] in target {
        target[[i + 1]] = 1.0;
    }
}

#[kernel]
fn host_sum(_world: &World, x: &Array<f32, 1>) -> f32 {
    let mut all = 0.0;
    for [i] in x {
        all += x[[i]];
    }
    all
}

fn lazy() -> World {
    World::builder().lazy(true).threads(2).build().unwrap()
}

fn tasks(world: &World) -> u64 {
    world.lazy_statistics().tasks
}

#[test]
fn loops_over_arrays_become_one() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 1000).unwrap();
    let y = world.nd_array::<f32, 1>("y", 1000).unwrap();
    let z = world.field::<f32, 1>("z", 1000).unwrap();
    for k in 0..10 {
        add(&x, k as f32).unwrap();
    }
    copy_plus(&x, &y, 1.0).unwrap();
    to_field(&y, &z).unwrap();
    let (before, after) = world.flow_graph();
    assert_eq!((before.tasks(), after.tasks()), (12, 1), "{after}");
    assert_eq!(z.get(7).unwrap(), 92.0);
    assert_eq!(x.get(999).unwrap(), 45.0);
    assert_eq!(y.get(0).unwrap(), 46.0);
    assert_eq!(tasks(&world), 1);
}

#[test]
fn neighbours_of_arrays_are_not_fused_with_what_writes_them() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 100).unwrap();
    let y = world.nd_array::<f32, 1>("y", 100).unwrap();
    add(&x, 1.0).unwrap();
    smooth(&x, &y).unwrap();
    add(&x, 1.0).unwrap();
    let (_, after) = world.flow_graph();
    expect_test::expect![[r#"
        0: add
            reads x
            writes x
        1: smooth
            reads x
            writes y
            <- 0 (value: x)
            not fused with 0: an iteration accesses elements of x that other iterations write
        2: add
            reads x
            writes x
            <- 0 (value: x)
            <- 1 (after read: x)
            not fused with 1: an iteration accesses elements of x that other iterations write
    "#]]
    .assert_eq(&after.to_string());
    assert_eq!(y.get(5).unwrap(), 1.0);
    assert_eq!(y.get(0).unwrap(), 0.5);
    assert_eq!(x.get(5).unwrap(), 2.0);
}

#[test]
fn an_array_given_twice_is_one_state() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 100).unwrap();
    add(&x, 1.0).unwrap();
    copy_plus(&x, &x, 2.0).unwrap();
    add(&x, 3.0).unwrap();
    assert_eq!(x.get(99).unwrap(), 6.0);
    assert_eq!(tasks(&world), 1);
}

#[test]
fn arrays_of_other_shapes_have_their_own_tasks() {
    let world = lazy();
    for n in [10u64, 20, 10] {
        let x = world.nd_array::<f32, 1>("x", n).unwrap();
        add(&x, 1.0).unwrap();
        add(&x, 2.0).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![3.0; n as usize]);
    }
    let statistics = world.lazy_statistics();
    assert_eq!((statistics.tasks, statistics.known_windows), (3, 1));
    // A kernel with a new shape every time runs by itself after some.
    for n in 30u64..60 {
        let x = world.nd_array::<f32, 1>("x", n).unwrap();
        add(&x, 1.0).unwrap();
        add(&x, 2.0).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![3.0; n as usize]);
    }
    let statistics = world.lazy_statistics();
    assert!(statistics.launches < 2 * 33, "{statistics:?}");
}

#[test]
fn arrays_without_handles_are_temporary() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 100).unwrap();
    let y = world.nd_array::<f32, 1>("y", 100).unwrap();
    add(&x, 3.0).unwrap();
    world.flush().unwrap();
    let between = world.nd_array::<f32, 1>("between", 100).unwrap();
    copy_plus(&x, &between, 1.0).unwrap();
    smooth(&between, &y).unwrap();
    drop(between);
    let (_, after) = world.flow_graph();
    assert_eq!(after.names(), ["copy_plus+smooth"]);
    assert!(!after.to_string().contains("between"), "{after}");
    assert_eq!(y.get(50).unwrap(), 4.0);
    assert_eq!(y.get(99).unwrap(), 2.0);
}

#[test]
fn a_kernel_with_a_result_is_in_the_window() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 100).unwrap();
    let y = world.nd_array::<f32, 1>("y", 100).unwrap();
    add(&x, 1.0).unwrap();
    // Overwritten: never computed.
    copy_plus(&x, &y, 9.0).unwrap();
    copy_plus(&x, &y, 1.0).unwrap();
    assert_eq!(sum(&y).unwrap(), 200.0);
    let statistics = world.lazy_statistics();
    assert_eq!((statistics.windows, statistics.launches), (1, 4));
    assert_eq!(statistics.tasks, 2, "{statistics:?}");
    // With nothing to wait for, it runs by itself.
    assert_eq!(sum(&x).unwrap(), 100.0);
    assert_eq!(world.lazy_statistics().windows, 1);
}

#[test]
fn errors_in_a_window_come_with_the_result() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 100).unwrap();
    let y = world.nd_array::<f32, 1>("y", 100).unwrap();
    far_write(&x).unwrap();
    add(&y, 1.0).unwrap();
    let error = sum(&y).unwrap_err();
    assert_eq!(error.code, "W0401");
    assert!(error.message.contains("`target`"), "{error}");
    let at = error.at.unwrap();
    assert!(at.file.ends_with("lazy_arrays.rs"), "{at}");
    assert_eq!(sum(&y).unwrap(), 100.0);
}

#[test]
fn arrays_of_the_host_are_used_at_once() {
    let world = lazy();
    let x = world.nd_array::<f32, 1>("x", 4).unwrap();
    add(&x, 1.0).unwrap();
    let data = [1.0f32, 2.0, 3.0];
    let given = Array::new(&data, [3]).unwrap();
    assert_eq!(host_sum(&world, &given).unwrap(), 6.0);
    assert_eq!(tasks(&world), 1);
}

#[kernel]
fn next(x: &Line, y: &Line, k: i32) {
    for [i] in x {
        y[[i]] = x[[i]] * 3 + k;
    }
}

#[kernel]
fn reversed(x: &Line, y: &Line) {
    let n = x.len() as i64;
    for [i] in x {
        y[[n - 1 - i]] = x[[i]];
    }
}

#[kernel]
fn stencil(x: &Line, y: &Line, k: i32) {
    for [i] in y {
        y[[i]] = x[[i - 1]] - x[[i + 1]] + k;
    }
}

#[kernel]
fn histogram(x: &Line, y: &Line) {
    let n = y.len() as i32;
    for [i] in x {
        y[[(x[[i]] % n + n) % n]] += 1;
    }
}

#[kernel]
fn outside(x: &Line, k: i32) {
    for [i] in x {
        x[[i + 3]] += k;
    }
}

#[kernel]
fn to_line(x: &Line, f: &Field<i32, 1>, k: i32) {
    for [i] in f {
        f[[i]] = x[[i]] % 100 + k;
    }
}

#[kernel]
fn from_line(f: &Field<i32, 1>, x: &Line) {
    for [i] in x {
        x[[i]] += f[[i]];
    }
}

#[kernel]
fn largest(x: &Line, y: &Line) -> i32 {
    let mut most = 0;
    for [i] in x {
        most = most.max(x[[i]] % 1000);
        y[[i]] += 1;
    }
    most
}

#[kernel]
fn first(x: &Line) -> i32 {
    x[[0]] + x[[1]]
}

struct Data {
    world: World,
    arrays: Vec<Line>,
    fields: Vec<Field<i32, 1>>,
}

impl Data {
    fn new(builder: wuji::WorldBuilder) -> Data {
        let world = builder.build().unwrap();
        let sizes = [24u64, 24, 24, 17];
        let arrays = sizes.iter().map(|n| world.nd_array("a", *n).unwrap());
        let arrays = arrays.collect();
        let fields = [24u64, 17].map(|n| world.field::<i32, 1>("f", n).unwrap());
        Data {
            arrays,
            fields: fields.to_vec(),
            world,
        }
    }

    fn launch(&self, random: &mut u64) -> wuji::Result<i32> {
        let mut below = |n: u64| {
            *random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (*random >> 33) % n
        };
        let k = below(20) as i32;
        let (x, y) = (
            &self.arrays[below(4) as usize],
            &self.arrays[below(4) as usize],
        );
        let f = &self.fields[below(2) as usize];
        match below(12) {
            0..3 => next(x, y, k)?,
            3 => reversed(x, y)?,
            4 => stencil(x, y, k)?,
            5 => histogram(x, y)?,
            6 => outside(x, k)?,
            7 => to_line(x, f, k)?,
            8 => from_line(f, x)?,
            9 => x.fill(k)?,
            10 => return largest(x, y),
            _ => return first(x),
        }
        Ok(0)
    }

    fn run(&self, seed: u64) -> (Vec<Option<i32>>, Vec<Vec<i32>>) {
        let mut random = seed * 2 + 1;
        // In a lazy world, an error comes with a later call.
        let results = (0..25).map(|_| self.launch(&mut random).ok()).collect();
        let _ = self.world.flush();
        let arrays = self.arrays.iter().map(|x| x.to_vec().unwrap());
        let fields = self.fields.iter().map(|x| x.to_vec().unwrap());
        (results, arrays.chain(fields).collect())
    }
}

fn compare(lazy: &Data, eager: &Data, programs: u64) {
    for seed in 0..programs {
        let ((p, lazy), (q, eager)) = (lazy.run(seed), eager.run(seed));
        assert_eq!(lazy, eager, "program {seed}");
        for (k, (p, q)) in p.iter().zip(&q).enumerate() {
            let differs = matches!((p, q), (Some(p), Some(q)) if p != q);
            assert!(!differs, "result {k} of program {seed}: {p:?}, {q:?}");
        }
    }
}

#[test]
fn interpreted_programs_agree() {
    let lazy = Data::new(World::builder().interpreter().lazy(true));
    let eager = Data::new(World::builder().interpreter().lazy(false));
    compare(&lazy, &eager, 60);
    let statistics = lazy.world.lazy_statistics();
    assert!(
        statistics.tasks * 10 < statistics.launched_tasks * 9,
        "{statistics:?}"
    );
}

#[test]
fn compiled_programs_agree() {
    let lazy = Data::new(World::builder().lazy(true).threads(2));
    let eager = Data::new(World::builder().lazy(false).threads(2));
    compare(&lazy, &eager, 4);
}
