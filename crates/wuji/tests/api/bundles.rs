//! Bundles of fields: kernels as methods, arrays of fields, nested bundles, functions of bundles.

use expect_test::expect;
use wuji::prelude::*;

fn worlds() -> [World; 3] {
    let compiled = |lazy| {
        let builder = World::builder().math(Math::Strict).threads(2).lazy(lazy);
        builder.build().unwrap()
    };
    [
        World::interpreter().unwrap(),
        compiled(false),
        compiled(true),
    ]
}

#[derive(Copy, Clone, Debug, PartialEq, Element)]
struct Material {
    stiffness: f32,
    gravity: Vec2,
}

/// A level of a multigrid solver.
#[derive(Clone, Debug, Fields)]
struct Level {
    u: Field<f32, 2>,
    f: Field<f32, 2>,
    h: f32,
}

#[derive(Debug, Fields)]
struct Fluid {
    velocity: Field<Vec2, 2>,
    /// Current and next.
    dye: [Field<f32, 2>; 2],
    levels: [Level; 3],
    bottom: Level,
    material: Material,
    weights: [f32; 4],
    rotation: Mat2,
    steps: NdArray<i32, 1>,
    blocks: Cells<2>,
    sparse: Field<i32, 2>,
    #[fields(skip)]
    title: String,
}

impl Fluid {
    fn new(world: &World) -> Fluid {
        let level = |n: u64| Level {
            u: world.field("u", [n, n]).unwrap(),
            f: world.field("f", [n, n]).unwrap(),
            h: 1.0 / n as f32,
        };
        let (blocks, sparse) = world
            .layout(|root| {
                let block = root.pointer(IJ, 4);
                (
                    block.cells::<2>("blocks"),
                    block.dense(IJ, 4).place::<i32, 2>("sparse"),
                )
            })
            .unwrap();
        Fluid {
            velocity: world.field("velocity", [8, 8]).unwrap(),
            dye: [
                world.field("dye", [8, 8]).unwrap(),
                world.field("next", [8, 8]).unwrap(),
            ],
            levels: [level(8), level(4), level(2)],
            bottom: level(1),
            material: Material {
                stiffness: 3.0,
                gravity: vec2(0.0, -2.0),
            },
            weights: [1.0, 2.0, 3.0, 4.0],
            rotation: Matrix([[0.0, -1.0], [1.0, 0.0]]),
            steps: world.nd_array("steps", [3]).unwrap(),
            blocks,
            sparse,
            title: "fluid".into(),
        }
    }
}

#[kernel]
impl Fluid {
    /// Fields, and values of the bundle.
    fn accelerate(&self, dt: f32) {
        for [i, j] in self.velocity {
            self.velocity[[i, j]] += self.material.gravity * dt;
            self.velocity[[i, j]].x = self.material.stiffness;
        }
    }

    /// Arrays of fields, in a loop that is unrolled.
    fn swap(&self) -> f32 {
        let mut sum = 0.0;
        for [i, j] in self.dye[0] {
            let old = self.dye[1][[i, j]];
            self.dye[1][[i, j]] = self.dye[0][[i, j]];
            self.dye[0][[i, j]] = old;
            for k in unroll(0..2) {
                sum += self.dye[k][[i, j]];
            }
        }
        sum
    }

    /// Arrays of bundles, and queries of their fields.
    fn relax(&self) {
        for k in unroll(0..3) {
            let n = self.levels[k].u.shape();
            let level = &self.levels[k];
            for i in 0..n.x {
                for j in 0..n.y {
                    level.u[[i, j]] = level.f[[i, j]] * level.h + self.bottom.h;
                    self.levels[k].f.at([i, j]).fetch_add(1.0);
                }
            }
        }
    }

    /// Other names for fields.
    fn exchange(&self) {
        let (a, b) = (&self.dye[0], &self.bottom.u);
        for [i, j] in b {
            let old = a[[i, j]];
            a[[i, j]] = b[[i, j]];
            b[[i, j]] = old;
        }
    }

    /// Arrays and matrices of values; arrays of the world.
    fn count(&self) -> f32 {
        let mut sum = 0.0;
        for [i] in self.steps {
            self.steps[i] = i as i32 + self.steps.len() as i32;
            sum += self.weights[i] + self.rotation[[1, 0]];
        }
        sum
    }

    /// The other kinds of access.
    fn grow(&self, n: i32) {
        for i in 0..n {
            self.sparse[[i, i]] = i;
            if self.blocks.is_active([i / 4, 3]) {
                self.sparse.no_activate([0, 0]) = -1;
            }
        }
    }

    #[func]
    fn speed(&self, i: i32, j: i32) -> f32 {
        self.velocity[[i, j]].norm() * self.material.stiffness
    }

    #[func]
    fn twice(&self, i: i32, j: i32) -> f32 {
        self.speed(i, j) * 2.0
    }

    /// Functions that take the bundle, a member of it, and a part of an array.
    fn measure(&self, out: &Field<f32, 1>) {
        for [i] in out {
            out[[i]] = self.twice(i, i)
                + corner(&self.bottom)
                + corner(&self.levels[1])
                + first(&self.dye[0])
                + self.weights[1];
        }
    }

    /// No field at all: it runs in the world of the bundle.
    fn stiffness(&self) -> f32 {
        self.material.stiffness
    }
}

#[func]
fn corner(level: &Level) -> f32 {
    level.u[[0, 0]] + level.h
}

#[func]
fn first(x: &Field<f32, 2>) -> f32 {
    x[[0, 0]]
}

/// A bundle as an ordinary parameter.
#[kernel]
fn fill(level: &Level, fluid: &Fluid, value: f32) {
    for [i, j] in level.u {
        level.u[[i, j]] = value + fluid.twice(i, j) + corner(level);
    }
}

#[test]
fn kernels_are_methods() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        assert_eq!(fluid.title, "fluid");
        fluid.velocity.fill(vec2(1.0, 1.0)).unwrap();
        fluid.accelerate(0.5).unwrap();
        assert_eq!(fluid.velocity.get([3, 4]).unwrap(), vec2(3.0, 0.0));
        assert_eq!(fluid.stiffness().unwrap(), 3.0);
    }
}

#[test]
fn arrays_of_fields() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        fluid.dye[0].fill(1.0).unwrap();
        fluid.dye[1].fill(2.0).unwrap();
        assert_eq!(fluid.swap().unwrap(), 3.0 * 64.0);
        assert_eq!(fluid.dye[0].get([7, 7]).unwrap(), 2.0);
        assert_eq!(fluid.dye[1].get([0, 7]).unwrap(), 1.0);
        fluid.exchange().unwrap();
        assert_eq!(fluid.bottom.u.get([0, 0]).unwrap(), 2.0);
        assert_eq!(fluid.dye[0].get([0, 0]).unwrap(), 0.0);
    }
}

#[test]
fn arrays_of_bundles() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        for level in &fluid.levels {
            level.f.fill(8.0).unwrap();
        }
        fluid.relax().unwrap();
        for (level, u) in fluid.levels.iter().zip([2.0, 3.0, 5.0]) {
            assert_eq!(level.u.to_vec().unwrap()[0], u);
            assert!(level.f.to_vec().unwrap().iter().all(|f| *f == 9.0));
        }
    }
}

#[test]
fn values_and_arrays() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        assert_eq!(fluid.count().unwrap(), 9.0);
        assert_eq!(fluid.steps.to_vec().unwrap(), [3, 4, 5]);
    }
}

#[test]
fn cells_of_bundles() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        fluid.grow(5).unwrap();
        assert_eq!(fluid.sparse.get([4, 4]).unwrap(), 4);
        fluid.blocks.activate([1, 3]).unwrap();
        fluid.grow(5).unwrap();
        assert_eq!(fluid.sparse.get([0, 0]).unwrap(), -1);
    }
}

#[test]
fn functions_of_bundles() {
    for world in worlds() {
        let fluid = Fluid::new(&world);
        let out = world.field::<f32, 1>("out", 4).unwrap();
        fluid.velocity.fill(vec2(3.0, 4.0)).unwrap();
        fluid.dye[0].fill(100.0).unwrap();
        fluid.levels[1].u.fill(10.0).unwrap();
        fluid.measure(&out).unwrap();
        // 5 * 3 * 2, then 1, 10 + 1/4, 100 and 2.
        assert_eq!(out.to_vec().unwrap(), [30.0 + 1.0 + 10.25 + 100.0 + 2.0; 4]);
        fill(&fluid.bottom, &fluid, 0.5).unwrap();
        assert_eq!(fluid.bottom.u.get([0, 0]).unwrap(), 31.5);
    }
}

#[derive(Fields)]
struct Heat<const D: usize> {
    x: Field<f32, D>,
    rate: f32,
}

#[kernel]
impl<const D: usize> Heat<D> {
    fn cool(&self) {
        for i in self.x {
            self.x[i] *= self.rate;
        }
    }
}

#[test]
fn generic_bundles() {
    for world in worlds() {
        let line = Heat {
            x: world.field::<f32, 1>("x", 4).unwrap(),
            rate: 0.5,
        };
        let square = Heat {
            x: world.field::<f32, 2>("x", [4, 4]).unwrap(),
            rate: 0.25,
        };
        line.x.fill(1.0).unwrap();
        square.x.fill(1.0).unwrap();
        line.cool().unwrap();
        square.cool().unwrap();
        square.cool().unwrap();
        assert_eq!(line.x.get([3]).unwrap(), 0.5);
        assert_eq!(square.x.get([3, 3]).unwrap(), 0.0625);
    }
}

#[derive(Fields)]
struct Spring {
    x: Field<f32, 1>,
    loss: Field<f32, 0>,
    k: f32,
}

#[kernel]
impl Spring {
    #[kernel(grad)]
    fn energy(&self, scale: f32) {
        for [i] in self.x {
            self.loss[[]] += scale * self.k * self.x[[i]] * self.x[[i]];
        }
    }

    #[kernel(no_grad)]
    fn reset(&self) {
        for [i] in self.x {
            self.x[[i]] = i as f32;
        }
    }
}

#[test]
fn gradients_of_methods() {
    let world = World::builder().lazy(false).build().unwrap();
    let spring = Spring {
        x: world.field::<f32, 1>("x", 3).unwrap().needs_grad().unwrap(),
        loss: world.scalar::<f32>("loss").unwrap().needs_grad().unwrap(),
        k: 2.0,
    };
    spring.reset().unwrap();
    world.tape(&spring.loss, || spring.energy(0.5)).unwrap();
    assert_eq!(spring.x.grad().unwrap().to_vec().unwrap(), [0.0, 2.0, 4.0]);
    spring.x.grad().unwrap().fill(0.0).unwrap();
    spring.loss.grad().unwrap().fill(10.0).unwrap();
    spring.energy_grad(0.5).unwrap();
    assert_eq!(
        spring.x.grad().unwrap().to_vec().unwrap(),
        [0.0, 20.0, 40.0]
    );
}

#[derive(Fields)]
struct Twenty {
    f: [Field<i32, 1>; 20],
    picked: Field<i32, 1>,
}

#[kernel]
impl Twenty {
    fn touch(&self) {
        for [i] in self.picked {
            self.picked[[i]] = i;
        }
    }

    fn number(&self) {
        for [i] in self.picked {
            for k in unroll(0..20) {
                self.f[k][[i]] = 100 * k + i;
            }
        }
    }

    fn pick(&self, k: i32) {
        for [i] in self.picked {
            self.picked[[i]] = self.f[k][[i]];
        }
    }

    fn beyond(&self) {
        for [i] in self.picked {
            self.picked[[i]] = self.f[20][[i]];
        }
    }
}

fn twenty(world: &World) -> Twenty {
    Twenty {
        f: std::array::from_fn(|k| world.field(&format!("f{k}"), 4).unwrap()),
        picked: world.field("picked", 4).unwrap(),
    }
}

#[test]
fn twenty_fields_are_one_argument() {
    for world in worlds() {
        let all = twenty(&world);
        all.number().unwrap();
        for (k, f) in all.f.iter().enumerate() {
            assert_eq!(f.get([3]).unwrap(), 100 * k as i32 + 3);
        }
        all.touch().unwrap();
        assert_eq!(all.picked.to_vec().unwrap(), [0, 1, 2, 3]);
    }
}

/// A kernel that uses one field does not depend on the others.
#[test]
fn unused_members_are_not_bound() {
    let (one, other) = (World::interpreter().unwrap(), World::interpreter().unwrap());
    let mut all = twenty(&one);
    all.f[0] = other.field("f0", 4).unwrap();
    all.touch().unwrap();
    let error = all.number().unwrap_err();
    assert_eq!(error.code, "W0114", "{error}");
}

#[test]
fn indices_of_arrays_of_fields_are_constants() {
    let world = World::interpreter().unwrap();
    let all = twenty(&world);
    let check = |error: wuji::Error, expected: expect_test::Expect| {
        expected.assert_eq(&error.to_string().replace("crates/wuji/tests/api/", ""));
    };
    check(
        all.pick(1).unwrap_err(),
        expect![[r#"
            error[W0243]: the index of an array of fields must be a constant
              --> bundles.rs:383:39
              = note: which field is accessed is decided when the kernel is compiled
              = help: loop over the fields with `for k in unroll(0..n)`, or use one field with one more axis"#]],
    );
    check(
        all.beyond().unwrap_err(),
        expect![[r#"
            error[W0213]: index 20 is outside of the 20 components
              --> bundles.rs:389:39
              = help: components are numbered from 0 to 19"#]],
    );
}

#[derive(Debug, Fields)]
struct Fall {
    x: Field<f32, 1>,
    v: Field<f32, 1>,
    dt: Param<f32>,
    wind: [Param<f32>; 2],
    gravity: Param<Vec2>,
    spring: Param<Stiffness>,
    loss: Field<f32, 0>,
}

#[derive(Copy, Clone, Debug, PartialEq, Element)]
struct Stiffness {
    k: f32,
}

#[func]
impl Stiffness {
    fn energy(&self, x: f32) -> f32 {
        self.k * x * x
    }
}

#[kernel]
impl Fall {
    fn run(&self) {
        for [i] in self.x {
            let g = &self.gravity;
            let twice = g * 2.0;
            self.loss[[]] += self.step(i) + twice.y * 0.5 * self.gravity.norm_sqr();
        }
    }

    /// Components of values with gradients, in every form.
    fn components(&self) -> f32 {
        let g = &self.gravity;
        let pair = &self.wind[0];
        self.gravity[0] * 1000.0
            + g.x * 100.0
            + self.wind[1] * 10.0
            + self.spring.k
            + g[1]
            + self.spring.energy(2.0) * self.wind[1].powi(2)
            + pair.abs() * self.dt * 2.0
            + by_value(*g, *pair + 1.0) * -pair
    }

    #[func]
    fn step(&self, i: i32) -> f32 {
        self.x[[i]] + self.v[[i]] * self.dt
    }
}

#[func]
fn by_value(v: Vec2, scale: f32) -> f32 {
    (v.x + v.y) * scale
}

#[test]
fn parameters_with_gradients() {
    for world in worlds() {
        let fall = Fall {
            x: world.field("x", 4).unwrap(),
            v: world.field("v", 4).unwrap(),
            dt: world.parameter("dt", 0.5).unwrap(),
            wind: [
                world.parameter("wind", 1.0).unwrap(),
                world.parameter("wind", 2.0).unwrap(),
            ],
            gravity: world.parameter("gravity", vec2(1.0, 2.0)).unwrap(),
            spring: world.parameter("spring", Stiffness { k: 3.0 }).unwrap(),
            loss: world.scalar::<f32>("loss").unwrap().needs_grad().unwrap(),
        };
        fall.x.fill(1.0).unwrap();
        fall.v.fill(3.0).unwrap();
        world.tape(&fall.loss, || fall.run()).unwrap();
        assert_eq!(fall.loss.get(()).unwrap(), 4.0 * (1.0 + 1.5 + 10.0));
        assert_eq!(fall.dt.grad().unwrap(), 12.0);
        assert_eq!(fall.gravity.grad().unwrap(), vec2(16.0, 52.0));
        assert_eq!(fall.wind[0].grad().unwrap(), 0.0);
        assert_eq!(
            fall.components().unwrap(),
            1000.0 + 100.0 + 20.0 + 3.0 + 2.0 + 48.0 + 1.0 - 6.0
        );
        fall.dt.set(2.0).unwrap();
        fall.loss.fill(0.0).unwrap();
        fall.run().unwrap();
        assert_eq!(fall.loss.get(()).unwrap(), 4.0 * (1.0 + 6.0 + 10.0));
    }
}

/// A bundle inside of another one, with functions of its own.
#[derive(Clone, Debug, Fields)]
struct Grid<const D: usize> {
    u: Field<f32, D>,
    h: f32,
    spacing: Param<Vec2>,
}

#[kernel]
impl<const D: usize> Grid<D> {
    fn fill(&self, value: f32) {
        for i in self.u {
            self.u[i] = value;
        }
    }

    #[func]
    fn value_at(&self, i: IVec<D>) -> f32 {
        self.u[i] * self.h
    }
}

type IVec<const D: usize> = Vector<i32, D>;

#[kernel]
impl Grid<1> {
    #[func]
    fn slope(&self, i: i32) -> f32 {
        (self.u[i + 1] - self.u[i]) / self.h * self.spacing.x
    }

    #[func]
    fn scaled<T: Num>(&self, i: i32, by: T) -> T {
        self.slope(i).cast::<T>() * by
    }

    /// Names of the language.
    #[func]
    fn dot(&self, other: &Grid<1>, i: i32) -> f32 {
        self.u[i] * other.u[i]
    }

    /// Changes a variable of its caller, and a field.
    #[func]
    fn add(&self, i: i32, sum: &mut f32, out: &Field<f32, 1>) {
        *sum += self.u[i];
        out[i] += *sum;
    }

    #[func]
    fn mapped(&self, i: i32, f: impl Fn(f32) -> f32) -> f32 {
        f(self.u[i])
    }
}

#[derive(Debug, Fields)]
struct Solver {
    fine: Grid<1>,
    levels: [Grid<1>; 2],
    plane: Grid<2>,
    out: Field<f32, 1>,
}

#[kernel]
impl Solver {
    fn run(&self) {
        for [i] in self.out {
            let mut sum = 1.0;
            self.fine.add(i, &mut sum, &self.out);
            self.out[i] += self.fine.slope(i) + self.levels[1].slope(i) * 10.0;
            let coarse = &self.levels[0];
            self.out[i] += coarse.slope(i) * 100.0 + self.fine.scaled(i, 1000.0);
            self.out[i] += self.through(i) + self.fine.dot(&self.levels[1], 1);
            self.out[i] += Grid::mapped(&self.fine, 2, |x| x * 0.5);
            self.out[i] += self.plane.value_at(ivec2(i, i)).abs();
        }
    }

    #[func]
    fn through(&self, i: i32) -> f32 {
        let mut sum = 0.0;
        for k in unroll(0..2) {
            sum += self.levels[k].slope(i) * 10000.0;
        }
        sum
    }
}

#[test]
fn methods_of_nested_bundles() {
    for world in worlds() {
        let spacing = world.parameter("spacing", vec2(2.0, 0.0)).unwrap();
        let grid = |slope: f32| {
            let u = world.field::<f32, 1>("u", 8).unwrap();
            let values: Vec<f32> = (0..8).map(|i| slope * i as f32).collect();
            u.copy_from(&values).unwrap();
            Grid {
                u,
                h: 0.5,
                spacing: spacing.clone(),
            }
        };
        let plane = Grid {
            u: world.field("plane", [4, 4]).unwrap(),
            h: 2.0,
            spacing: spacing.clone(),
        };
        plane.fill(-1.0).unwrap();
        let solver = Solver {
            fine: grid(1.0),
            levels: [grid(2.0), grid(3.0)],
            plane,
            out: world.field("out", 3).unwrap(),
        };
        solver.run().unwrap();
        let expected = |i: f32| {
            let own = 1.0 + i;
            own + 4.0 + 120.0 + 800.0 + 4000.0 + 200_000.0 + 3.0 + 1.0 + 2.0
        };
        let expected: Vec<f32> = (0..3).map(|i| expected(i as f32)).collect();
        assert_eq!(solver.out.to_vec().unwrap(), expected);
    }
}

/// Elements that are structs with arrays can be changed through a bundle.
#[derive(Copy, Clone, Debug, PartialEq, Element)]
struct Cell {
    weights: [f32; 3],
    at: Vec2,
}

#[derive(Debug, Fields)]
struct Cells2 {
    cells: Field<Cell, 1>,
}

#[kernel]
impl Cells2 {
    fn weigh(&self) {
        for [i] in self.cells {
            self.cells[[i]].weights[1] = 2.0;
            self.cells[i].at[1] = 3.0;
        }
    }
}

#[test]
fn parts_of_elements() {
    for world in worlds() {
        let cells = Cells2 {
            cells: world.field("cells", 2).unwrap(),
        };
        cells.weigh().unwrap();
        let expected = Cell {
            weights: [0.0, 2.0, 0.0],
            at: vec2(0.0, 3.0),
        };
        assert_eq!(cells.cells.to_vec().unwrap(), [expected; 2]);
    }
}
