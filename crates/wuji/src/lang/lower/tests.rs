//! What kernels become, as text.

use crate::prelude::*;
use expect_test::{Expect, expect};
use std::cell::RefCell;

thread_local! {
    /// The last module that was lowered on this thread.
    pub(in crate::lang::lower) static LOWERED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Compares the functions of the last lowered module; what comes before them is the launch's business.
fn check(expected: Expect) {
    let text = LOWERED.take();
    let start = text
        .find("\nparam")
        .or(text.find("\nfn"))
        .or(text.find("\nkernel"));
    // Positions are tested elsewhere, and would change with every line of this file.
    let lines: Vec<String> = text[start.unwrap_or(0)..]
        .trim()
        .lines()
        .map(|l| l.split(" @F").next().unwrap_or(l).to_string())
        .collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

fn field<T: Element, const D: usize>(world: &World, shape: [u64; D]) -> Field<T, D> {
    world.field("x", shape).unwrap()
}

#[func]
fn complex_sqr(z: Vec2) -> Vec2 {
    vec2(z.x * z.x - z.y * z.y, z.x * z.y * 2.0)
}

#[test]
fn julia() {
    #[kernel]
    fn paint(pixels: &Field<f32, 2>, t: f32) {
        for [i, j] in pixels {
            let c = vec2(-0.8, t.cos() * 0.2);
            let mut z = vec2(i as f32 / 320.0 - 1.0, j as f32 / 320.0 - 0.5) * 2.0;
            let mut n = 0;
            while z.norm() < 20.0 && n < 50 {
                z = complex_sqr(z) + c;
                n += 1;
            }
            pixels[[i, j]] = 1.0 - n as f32 * 0.02;
        }
    }
    let world = World::interpreter().unwrap();
    let pixels = field::<f32, _>(&world, [2, 2]);
    paint(&pixels, 0.3).unwrap();
    check(expect![[r#"
        param p0 "t": f32

        kernel fn0 "paint"(v0: f32) {
          local l0 "z": f32x2
          local l1 "n": i32
          foreach L0 (v1: i32, v2: i32) in f0 {
            v3: f32 = const -0.8
            v4: f32 = cos v0
            v5: f32 = const 0.2
            v6: f32 = mul v4, v5
            v7: f32x2 = compose v3, v6
            v8: f32 = convert v1
            v9: f32 = const 320.0
            v10: f32 = div v8, v9
            v11: f32 = const 1.0
            v12: f32 = sub v10, v11
            v13: f32 = convert v2
            v14: f32 = const 320.0
            v15: f32 = div v13, v14
            v16: f32 = const 0.5
            v17: f32 = sub v15, v16
            v18: f32x2 = compose v12, v17
            v19: f32 = const 2.0
            v20: f32x2 = splat v19
            v21: f32x2 = mul v18, v20
            store l0[], v21
            v22: i32 = const 0
            store l1[], v22
            loop L1 {
              v23: f32x2 = load l0[]
              v24: f32 = dot v23, v23
              v25: f32 = sqrt v24
              v26: f32 = const 20.0
              v27: bool = lt v25, v26
              v28: bool = if v27 {
                v29: i32 = load l1[]
                v30: i32 = const 50
                v31: bool = lt v29, v30
                yield v31
              } else {
                v32: bool = const false
                yield v32
              }
              if v28 {
                yield
              } else {
                break L1
              }
              v33: f32x2 = load l0[]
              v34: f32x2 = call fn1(v33)
              v35: f32x2 = add v34, v7
              store l0[], v35
              v36: i32 = const 1
              v37: i32 = load l1[]
              v38: i32 = add v37, v36
              store l1[], v38
              continue L1
            }
            v39: f32 = const 1.0
            v40: i32 = load l1[]
            v41: f32 = convert v40
            v42: f32 = const 0.02
            v43: f32 = mul v41, v42
            v44: f32 = sub v39, v43
            store f0[v1, v2], v44
            continue L0
          }
          return
        }

        fn fn1 "complex_sqr"(v0: f32x2) -> f32x2 {
          v1: f32 = extract v0.0
          v2: f32 = extract v0.0
          v3: f32 = mul v1, v2
          v4: f32 = extract v0.1
          v5: f32 = extract v0.1
          v6: f32 = mul v4, v5
          v7: f32 = sub v3, v6
          v8: f32 = extract v0.0
          v9: f32 = extract v0.1
          v10: f32 = mul v8, v9
          v11: f32 = const 2.0
          v12: f32 = mul v10, v11
          v13: f32x2 = compose v7, v12
          return v13
        }
    "#]]);
}

#[test]
fn stencil_of_any_dimension() {
    #[kernel]
    fn laplace<const D: usize>(u: &Field<f32, D>, v: &Field<f32, D>) {
        for i in v {
            let mut s = 0.0;
            for d in unroll(0..D) {
                s += u[i + unit(d)] + u[i - unit(d)];
            }
            v[i] = s - 2.0 * D as f32 * u[i];
        }
    }
    let world = World::interpreter().unwrap();
    let u = field::<f32, _>(&world, [4]);
    let v = field::<f32, _>(&world, [4]);
    laplace(&u, &v).unwrap();
    check(expect![[r#"
        kernel fn0 "laplace"() {
          local l0 "s": f32
          foreach L0 (v0: i32) in f1 {
            v1: i32x1 = compose v0
            v2: f32 = const 0.0
            store l0[], v2
            v3: u64 = const 0
            v4: u64 = const 1
            v5: u64 = const 0
            v6: u64 = const 0
            v7: bool = const true
            v8: i32 = const 1
            v9: i32x1 = compose v8
            v10: i32x1 = add v1, v9
            v11: i32 = extract v10.0
            v12: f32 = load f0[v11]
            v13: u64 = const 0
            v14: bool = const true
            v15: i32 = const 1
            v16: i32x1 = compose v15
            v17: i32x1 = sub v1, v16
            v18: i32 = extract v17.0
            v19: f32 = load f0[v18]
            v20: f32 = add v12, v19
            v21: f32 = load l0[]
            v22: f32 = add v21, v20
            store l0[], v22
            v23: f32 = load l0[]
            v24: f32 = const 2.0
            v25: u64 = const 1
            v26: f32 = const 1.0
            v27: f32 = mul v24, v26
            v28: f32 = load f0[v0]
            v29: f32 = mul v27, v28
            v30: f32 = sub v23, v29
            store f1[v0], v30
            continue L0
          }
          return
        }
    "#]]);
}

#[test]
fn updates_of_vectors() {
    #[kernel]
    fn scatter(v: &Field<Vec2, 1>) {
        for [i] in block_size(32, v) {
            v[[i]] += v[[i + 1]] * 0.5;
            v[[i]].x -= 1.0;
            v[[i]][i] *= 2.0;
        }
    }
    let world = World::interpreter().unwrap();
    let v = field::<Vec2, _>(&world, [2]);
    scatter(&v).unwrap();
    check(expect![[r#"
        kernel fn0 "scatter"() {
          foreach L0 (v0: i32) in f0 block_size 32 {
            v1: i32 = const 1
            v2: i32 = add v0, v1
            v3: f32x2 = load f0[v2]
            v4: f32 = const 0.5
            v5: f32x2 = splat v4
            v6: f32x2 = mul v3, v5
            v7: f32x2 = atomic add f0[v0], v6
            v8: f32 = const 1.0
            v9: f32 = const -1.0
            v10: f32 = atomic add f0[v0].0, v9
            v11: f32 = const 2.0
            v12: f32 = atomic mul f0[v0].[v0], v11
            continue L0
          }
          return
        }
    "#]]);
}

#[test]
fn reductions_are_temps() {
    #[kernel]
    fn statistics(x: &Field<f32, 1>, n: i32) -> (f32, f32) {
        let mut sum = 0.0;
        let mut largest = 0.0;
        let mut scale = 1.0;
        scale += n as f32;
        for i in (0..n).step_by(2) {
            sum += x[i] * scale;
            largest = x[i].max(largest);
        }
        if n == 0 {
            return (0.0, 0.0);
        }
        (sum / n as f32, largest)
    }
    let world = World::interpreter().unwrap();
    let x = field::<f32, _>(&world, [4]);
    statistics(&x, 4).unwrap();
    check(expect![[r#"
        param p0 "n": i32

        kernel fn0 "statistics"(v0: i32) -> s0 {
          local l0 "scale": f32
          v1: f32 = const 0.0
          store t0[], v1
          v2: f32 = const 0.0
          store t1[], v2
          v3: f32 = const 1.0
          store l0[], v3
          v4: f32 = convert v0
          v5: f32 = load l0[]
          v6: f32 = add v5, v4
          store l0[], v6
          v7: i32 = const 0
          v8: u64 = const 2
          v9: u64 = const 2147483647
          v10: u64 = const 2
          v11: i32 = const 2
          v12: i32 = sub v0, v7
          v13: u32 = bitcast v12
          v14: u64 = convert v13
          v15: bool = lt v7, v0
          v16: u64 = const 0
          v17: u64 = select v15, v14, v16
          v18: u64 = const 2
          v19: u64 = const 0
          v20: u64 = const 1
          v21: u64 = sub v17, v20
          v22: u64 = div v21, v18
          v23: u64 = add v22, v20
          v24: bool = eq v17, v19
          v25: bool = const false
          v26: bool = or v24, v25
          v27: u64 = select v26, v19, v23
          v28: u64 = const 0
          v29: f32 = load l0[]
          foreach L0 (v30: u64) in v28..v27 {
            v31: i32 = convert v30
            v32: i32 = mul v31, v11
            v33: i32 = add v7, v32
            v34: f32 = load f0[v33]
            v35: f32 = mul v34, v29
            v36: f32 = atomic add t0[], v35
            v37: f32 = load f0[v33]
            v38: f32 = atomic max t1[], v37
            continue L0
          }
          v39: i32 = const 0
          v40: bool = eq v0, v39
          if v40 {
            v41: f32 = const 0.0
            v42: f32 = const 0.0
            v43: s0 = compose v41, v42
            return v43
          } else {
            yield
          }
          v44: f32 = load t0[]
          v45: f32 = convert v0
          v46: f32 = div v44, v45
          v47: f32 = load t1[]
          v48: s0 = compose v46, v47
          return v48
        }
    "#]]);
}

#[derive(Element, Clone, Copy, Debug)]
struct Ball {
    center: Vec2,
    radius: f32,
}

#[test]
fn structs_and_exits() {
    #[kernel]
    fn bounce(balls: &Field<Ball, 1>, dt: f32) {
        for [i] in balls {
            let mut b = balls[[i]];
            b.center.y -= dt;
            let hit = loop {
                b.radius += 1.0;
                if b.radius > 3.0 || b.center.y < 0.0 {
                    break b.radius;
                }
            };
            balls[[i]] = Ball { radius: hit, ..b };
        }
    }
    let world = World::interpreter().unwrap();
    let balls = field::<Ball, _>(&world, [2]);
    bounce(&balls, 0.5).unwrap();
    check(expect![[r#"
        param p0 "dt": f32

        kernel fn0 "bounce"(v0: f32) {
          local l0 "b": s0
          foreach L0 (v1: i32) in f0 {
            v2: s0 = load f0[v1]
            store l0[], v2
            v3: f32 = load l0[].0.1
            v4: f32 = sub v3, v0
            store l0[].0.1, v4
            v5: f32 = loop L1 {
              v6: f32 = const 1.0
              v7: f32 = load l0[].1
              v8: f32 = add v7, v6
              store l0[].1, v8
              v9: f32 = load l0[].1
              v10: f32 = const 3.0
              v11: bool = gt v9, v10
              v12: bool = if v11 {
                v13: bool = const true
                yield v13
              } else {
                v14: f32 = load l0[].0.1
                v15: f32 = const 0.0
                v16: bool = lt v14, v15
                yield v16
              }
              if v12 {
                v17: f32 = load l0[].1
                break L1 (v17)
              } else {
                yield
              }
              continue L1
            }
            v18: s0 = load l0[]
            v19: f32x2 = extract v18.0
            v20: s0 = compose v19, v5
            store f0[v1], v20
            continue L0
          }
          return
        }
    "#]]);
}

/// An empty recording is a bug of the macros, and the error says so.
#[test]
fn nothing_recorded() {
    let nothing = crate::lang::recording::Recording {
        functions: Vec::new(),
    };
    let error = crate::lang::lower(&nothing, &[], Default::default()).unwrap_err();
    assert_eq!(error.code, "W0200");
    assert!(error.notes[0].contains("a mistake of Wuji"), "{error}");
}
