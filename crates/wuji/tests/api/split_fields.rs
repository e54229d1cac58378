//! Structure of arrays: split fields work as others do, in every layout of their components.

use wuji::Result;
use wuji::prelude::*;

#[derive(Element, Copy, Clone, Debug, PartialEq)]
struct Particle {
    x: Vec2,
    mass: f32,
    kind: i32,
}

fn particle(n: usize) -> Particle {
    let x = n as f32;
    Particle {
        x: Vec2::new(x, -x),
        mass: 0.5 * x,
        kind: n as i32 % 3,
    }
}

fn worlds() -> [World; 3] {
    [
        World::builder().threads(2).build().unwrap(),
        World::interpreter().unwrap(),
        World::builder().threads(2).lazy(true).build().unwrap(),
    ]
}

fn code<T>(result: Result<T>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => error.code,
    }
}

/// The same field in all layouts: one array, one for each scalar, members apart, and components in nodes of several kinds.
fn particles(world: &World, n: i64) -> Vec<Field<Particle, 1>> {
    let whole = world.field("whole", n).unwrap();
    let soa = world.soa_field("soa", n).unwrap();
    let members = world.layout(|root| {
        let hot = root.dense(I, n);
        root.place_split("members", |root, k| match k {
            0 | 1 => hot,
            _ => root.dense(I, n / 8).dense(I, 8),
        })
    });
    let blocks = world.layout(|root| {
        let block = root.dense(I, n / 8);
        block.place_soa("blocks", |block| block.dense(I, 8))
    });
    vec![whole, soa, members.unwrap(), blocks.unwrap()]
}

#[kernel]
fn shift(p: &Field<Particle, 1>, q: &Field<Particle, 1>, axis: i32) {
    for [i] in p {
        q[[i]] = p[[i + 1]];
        q[[i]].x[axis] = 7.0;
    }
}

#[test]
fn kernels_and_the_host_see_no_difference() {
    const N: usize = 64;
    for world in worlds() {
        let all: Vec<Particle> = (0..N).map(particle).collect();
        let mut results = Vec::new();
        for p in particles(&world, N as i64) {
            let name = p.name().to_owned();
            p.copy_from(&all).unwrap();
            assert_eq!(p.to_vec().unwrap(), all, "{name}");
            assert_eq!(p.get(5).unwrap(), particle(5), "{name}");
            p.set(5, particle(50)).unwrap();
            assert_eq!(p.get(5).unwrap(), particle(50), "{name}");
            let rows = 8..10;
            p.window([rows]).unwrap().fill(particle(1)).unwrap();
            let q = world.soa_field::<Particle, 1>("q", N as i64).unwrap();
            shift(&p, &q, 1).unwrap();
            let q_values = q.to_vec().unwrap();
            assert_eq!(q_values[4].x, Vec2::new(50.0, 7.0), "{name}");
            assert_eq!(q_values[N - 1].mass, 0.0, "{name}");
            q.copy_from_field(&p).unwrap();
            assert_eq!(q.to_vec().unwrap(), p.to_vec().unwrap(), "{name}");
            p.fill(particle(2)).unwrap();
            assert_eq!(p.to_vec().unwrap(), [particle(2); N], "{name}");
            results.push(q_values);
        }
        assert!(results.windows(2).all(|w| w[0] == w[1]));
    }
}

#[test]
fn atomics_work_component_by_component() {
    for world in worlds() {
        let sum = world.scalar::<Vec2>("sum").unwrap();
        let mut found = Vec::new();
        for p in particles(&world, 8) {
            sum.fill(Vec2::new(0.0, 0.0)).unwrap();
            let first = 0..1;
            let one = p.window([first]).unwrap();
            one.copy_from(&[particle(4)]).unwrap();
            p.component_masses();
            step_first(&p, &sum).unwrap();
            found.push((p.get(0).unwrap(), sum.get(()).unwrap()));
        }
        assert!(found.windows(2).all(|w| w[0] == w[1]), "{found:?}");
        assert_eq!(found[0].0.kind, 2);
    }
}

#[kernel]
fn step_first(p: &Field<Particle, 1>, sum: &Field<Vec2, 0>) {
    for i in 0..1 {
        let mut here = p[[i]];
        here.x += Vec2::new(here.mass, 1.0);
        p[[i]].kind += 1;
        p[[i]].x += here.x;
        sum[[]] += p[[i]].x;
    }
}

/// What only split fields have.
trait Components {
    fn component_masses(&self);
}

impl Components for Field<Particle, 1> {
    fn component_masses(&self) {
        match self.component::<f32>(1) {
            Ok(mass) => assert_eq!(mass.get(0).unwrap(), particle(4).mass),
            Err(error) => assert_eq!(error.code, "W0138"),
        }
    }
}

#[test]
fn components_are_fields() {
    for world in worlds() {
        let v = world.soa_field::<Vec3, 2>("v", [3, 4]).unwrap();
        let y = v.component::<f32>(1).unwrap();
        assert_eq!(y.name(), "v.1");
        y.set([2, 3], 4.0).unwrap();
        assert_eq!(v.get([2, 3]).unwrap(), Vec3::new(0.0, 4.0, 0.0));
        assert_eq!(code(v.component::<f32>(3)), "W0138");
        assert_eq!(code(v.component::<i32>(0)), "W0138");
        let s = world.soa_field::<f32, 1>("s", 3).unwrap();
        s.set(1, 2.0).unwrap();
        assert_eq!(s.to_vec().unwrap(), [0.0, 2.0, 0.0]);
        assert_eq!(code(s.component::<f32>(0)), "W0138");
        let m = world.soa_field::<Mat2, 0>("m", 1).unwrap();
        m.fill(Mat2::identity()).unwrap();
        assert_eq!(m.component::<f32>(3).unwrap().get(()).unwrap(), 1.0);
    }
}

mod sparse {
    use super::*;

    #[kernel]
    fn write(p: &Field<Vec2, 1>) {
        for i in 0..3 {
            p[[10 * i]] = Vec2::new(i as f32, 1.0);
        }
        p[[33]].y = 5.0;
    }

    #[kernel]
    fn count(p: &Field<Vec2, 1>, n: &Field<i32, 0>) {
        for [_i] in p {
            n[[]] += 1;
        }
    }

    fn layouts(world: &World) -> Vec<Field<Vec2, 1>> {
        let same = world.layout(|root| {
            let blocks = root.pointer(I, 8).bitmasked(I, 8);
            root.place_soa("same", |_| blocks)
        });
        let apart = world.layout(|root| {
            root.place_split("apart", |root, k| match k {
                0 => root.pointer(I, 8).bitmasked(I, 8),
                _ => root.bitmasked(I, 64),
            })
        });
        vec![same.unwrap(), apart.unwrap()]
    }

    #[test]
    fn the_first_component_leads() {
        for world in worlds() {
            for p in layouts(&world) {
                let apart = p.name() == "apart";
                write(&p).unwrap();
                assert_eq!(p.get(20).unwrap(), Vec2::new(2.0, 1.0));
                assert_eq!(p.get(33).unwrap(), Vec2::new(0.0, 5.0));
                // The write to `y` activates `x` only where both are in one cell.
                let expected = if apart { 3 } else { 4 };
                assert_eq!(p.count_active().unwrap(), expected);
                assert_eq!(p.is_active(33).unwrap(), !apart);
                let n = world.scalar::<i32>("n").unwrap();
                count(&p, &n).unwrap();
                assert_eq!(n.get(()).unwrap() as u64, expected);
                let (at, values) = p.export().unwrap();
                assert_eq!(at.len() as u64, expected);
                p.activate(40).unwrap();
                assert!(p.component::<f32>(1).unwrap().is_active(40).unwrap());
                p.deactivate(20).unwrap();
                assert!(!p.component::<f32>(1).unwrap().is_active(20).unwrap());
                p.deactivate_all().unwrap();
                assert_eq!(p.count_active().unwrap(), 0);
                assert_eq!(p.component::<f32>(1).unwrap().count_active().unwrap(), 0);
                p.import(&at, &values).unwrap();
                assert_eq!(p.get(20).unwrap(), Vec2::new(2.0, 1.0));
            }
        }
    }

    #[test]
    fn lists_hold_all_components_or_cannot_be_appended_to() {
        for world in worlds() {
            let list = world
                .layout(|root| {
                    let list = root.dense(I, 2).dynamic(J, 16);
                    root.place_soa::<Vec2, 2>("list", |_| list)
                })
                .unwrap();
            assert_eq!(list.append(1, Vec2::new(1.0, 2.0)).unwrap(), 0);
            assert_eq!(list.length(1).unwrap(), 1);
            assert_eq!(list.get([1, 0]).unwrap(), Vec2::new(1.0, 2.0));
            let several = world
                .layout(|root| {
                    let lists = root.dense(I, 2);
                    lists.place_soa::<Vec2, 2>("several", |lists| lists.dynamic(J, 16))
                })
                .unwrap();
            assert_eq!(
                code(several.append(1, Vec2::new(1.0, 2.0))),
                "W0126",
                "a number is given once for all components"
            );
            several.set([1, 3], Vec2::new(1.0, 2.0)).unwrap();
            assert_eq!(several.count_active().unwrap(), 4);
            let dense = world
                .layout(|root| {
                    root.place_split::<Vec2, 1>("dense", |root, k| match k {
                        0 => root.bitmasked(I, 8),
                        _ => root.dense(I, 8),
                    })
                })
                .unwrap();
            assert_eq!(code(dense.deactivate(3)), "W0125");
        }
    }
}

mod derivatives {
    use super::*;

    #[kernel]
    fn energy(x: &Field<DVec2, 1>, loss: &Field<f64, 0>) {
        for [i] in x {
            loss[[]] += x[[i]].x * x[[i]].y + x[[i]].y;
        }
    }

    #[kernel]
    fn twice(x: &Field<DVec2, 1>, y: &Field<DVec2, 1>) {
        for [i] in x {
            y[[i]] = 2.0 * x[[i]];
        }
    }

    fn layouts(world: &World) -> Vec<Field<DVec2, 1>> {
        let whole = world.field("whole", 4).unwrap().needs_grad().unwrap();
        let soa = world.soa_field("soa", 4).unwrap().needs_grad().unwrap();
        let beside = world.layout(|root| {
            let x = root.place_soa("beside", |root| root.pointer(I, 2).dense(I, 2));
            root.lazy_grad();
            x
        });
        vec![whole, soa, beside.unwrap()]
    }

    #[test]
    fn gradients_are_split_as_their_fields_are() {
        for world in worlds() {
            for x in layouts(&world) {
                let loss = world.scalar::<f64>("loss").unwrap().needs_grad().unwrap();
                let values: Vec<DVec2> = (0..4).map(|n| DVec2::new(n as f64, 3.0)).collect();
                let tape = world.tape(&loss, || {
                    x.copy_from(&values)?;
                    energy(&x, &loss)
                });
                tape.unwrap_or_else(|e| panic!("{}: {e}", x.name()));
                let gradient = x.grad().unwrap().to_vec().unwrap();
                let expected: Vec<DVec2> =
                    (0..4).map(|n| DVec2::new(3.0, n as f64 + 1.0)).collect();
                assert_eq!(gradient, expected, "{}", x.name());
                x.clear_grad().unwrap();
                assert_eq!(
                    x.grad().unwrap().to_vec().unwrap(),
                    [DVec2::new(0.0, 0.0); 4]
                );
            }
        }
    }

    #[test]
    fn what_the_host_writes_in_forward_mode_has_no_dual() {
        for world in worlds() {
            let fields = ["x", "y"].map(|n| world.soa_field::<DVec2, 1>(n, 2).unwrap());
            let [x, y] = fields.map(|f| f.needs_dual().unwrap());
            x.dual().unwrap().fill(DVec2::new(1.0, 2.0)).unwrap();
            world
                .forward_mode(|| {
                    twice(&x, &y)?;
                    y.set(0, DVec2::new(8.0, 9.0))
                })
                .unwrap();
            let dual = y.dual().unwrap().to_vec().unwrap();
            assert_eq!(dual, [DVec2::new(0.0, 0.0), DVec2::new(2.0, 4.0)]);
        }
    }

    #[test]
    fn a_gradient_of_another_split_is_refused() {
        let world = World::interpreter().unwrap();
        let x = world.soa_field::<DVec2, 1>("x", 4).unwrap();
        let whole = world.field::<DVec2, 1>("whole", 4).unwrap();
        let soa = world.soa_field::<DVec2, 1>("soa", 4).unwrap();
        assert_eq!(code(x.set_grad(&whole)), "W0731");
        assert_eq!(code(whole.set_grad(&x)), "W0731");
        x.set_grad(&soa).unwrap();
        let component = x.component::<f64>(1).unwrap();
        assert_eq!(component.grad().unwrap(), soa.component::<f64>(1).unwrap());
    }
}

#[test]
fn layouts_of_components_that_do_not_fit_are_errors() {
    let world = World::interpreter().unwrap();
    let extents = world
        .layout(|root| root.place_split::<Vec2, 1>("v", |root, k| root.dense(I, 4 + k as i64)));
    assert_eq!(code(extents), "W0137");
    let offsets = world.layout(|root| {
        root.place_split::<Vec2, 1>("v", |root, k| root.dense(I, 4).offset([k as i64]))
    });
    assert_eq!(code(offsets), "W0137");
    let rank = world.layout(|root| root.place_soa::<Vec2, 2>("v", |root| root.dense(I, 4)));
    assert_eq!(code(rank), "W0103");
    let names = world.layout(|root| {
        root.place_soa::<Vec2, 1>("v", |root| root.dense(I, 4));
        root.place_soa::<Vec2, 1>("v", |root| root.dense(I, 4))
    });
    assert_eq!(code(names), "W0136");
}
