//! Gradients of programs with packed fields: a store of a number rounds those that share its exponent again.

use wuji::WorldBuilder;
use wuji::prelude::*;

/// Numbers that share an exponent, and an integer in the same word.
struct Cells {
    world: World,
    a: Field<f32, 1>,
    c: Field<f32, 1>,
    k: Field<i32, 1>,
    loss: Field<f32, 0>,
}

const N: i32 = 8;
const LARGE: f32 = 1e6;

#[derive(Copy, Clone, PartialEq, Debug)]
enum Above {
    Dense,
    Pointer,
    Bitmasked,
    Hash,
}

const ALL: [Above; 4] = [Above::Dense, Above::Pointer, Above::Bitmasked, Above::Hash];

impl Cells {
    fn new(builder: WorldBuilder, above: Above) -> wuji::Result<Cells> {
        let world = builder.build()?;
        let (a, c, k) = world.layout(|root| {
            let node = match above {
                Above::Dense => root.dense(I, N as u64),
                Above::Pointer => root.pointer(I, 2).dense(I, N as u64 / 2),
                Above::Bitmasked => root.bitmasked(I, N as u64),
                Above::Hash => root.hash(I).dense(I, N as u64 / 2),
            };
            let word = node.bit_struct(32);
            let group = word.shared_exponent();
            (
                group.place::<f32, 1>("a", qfloat(6, 10, true)),
                group.place::<f32, 1>("c", qfloat(6, 10, true)),
                word.place::<i32, 1>("k", qint(6, true)),
            )
        })?;
        let loss = world.scalar::<f32>("loss")?.needs_grad()?;
        let (a, c) = (a.needs_grad()?, c.needs_grad()?);
        let cells = Cells {
            world,
            a,
            c,
            k,
            loss,
        };
        cells.start()?;
        Ok(cells)
    }

    fn start(&self) -> wuji::Result<()> {
        self.loss.fill(0.0)?;
        for i in 0..i64::from(N) {
            self.a.set([i], 0.0)?;
            self.c.set([i], 0.3 * (i + 1) as f32)?;
            self.k.set([i], i as i32 % 3)?;
        }
        Ok(())
    }

    /// Checks the gradients of `c` squared times `k + 1`, where `c` has its first values; `a` is large now.
    fn check(&self, why: &str) -> wuji::Result<()> {
        for i in 0..i64::from(N) {
            let k = i as i32 % 3;
            let first = self.c_at_first(i);
            let expected = 2.0 * first * (k + 1) as f32;
            assert_eq!(self.c.grad()?.get([i])?, expected, "{why}: gradient of {i}");
            assert_eq!(self.a.grad()?.get([i])?, 0.0, "{why}: gradient of {i}");
            assert_eq!(self.c.get([i])?, 0.0, "{why}: rounded {i}");
            assert!(self.a.get([i])? > 0.9 * LARGE, "{why}: stored {i}");
            assert_eq!(self.k.get([i])?, k, "{why}: beside {i}");
        }
        Ok(())
    }

    /// With nine digits behind the exponent of the number.
    fn c_at_first(&self, i: i64) -> f32 {
        let exact = 0.3 * (i + 1) as f32;
        let unit = exact.log2().floor().exp2() / 256.0;
        (exact / unit).round_ties_even() * unit
    }
}

#[kernel]
fn total(c: &Field<f32, 1>, k: &Field<i32, 1>, loss: &Field<f32, 0>) {
    for [i] in c {
        loss[[]] += c[[i]] * c[[i]] * (k[[i]] + 1) as f32;
    }
}

#[kernel]
fn store(a: &Field<f32, 1>) {
    for [i] in a {
        a[[i]] = 1e6;
    }
}

#[kernel]
fn add(a: &Field<f32, 1>) {
    for [i] in a {
        a[[i]] += 1e6;
    }
}

#[kernel]
fn store_after(a: &Field<f32, 1>, c: &Field<f32, 1>, k: &Field<i32, 1>, loss: &Field<f32, 0>) {
    for [i] in c {
        loss[[]] += c[[i]] * c[[i]] * (k[[i]] + 1) as f32;
    }
    for [i] in a {
        a[[i]] = 1e6;
    }
}

#[kernel]
fn store_beside(a: &Field<f32, 1>, c: &Field<f32, 1>, k: &Field<i32, 1>, loss: &Field<f32, 0>) {
    for [i] in c {
        loss[[]] += c[[i]] * c[[i]] * (k[[i]] + 1) as f32;
        a[[i]] = 1e6;
    }
}

/// The number is read before it is rounded, and after it.
#[kernel]
fn store_between(a: &Field<f32, 1>, c: &Field<f32, 1>, k: &Field<i32, 1>, loss: &Field<f32, 0>) {
    for [i] in c {
        loss[[]] += c[[i]] * c[[i]] * (k[[i]] + 1) as f32;
    }
    for [i] in a {
        a[[i]] = 1e6;
    }
    for [i] in c {
        loss[[]] += c[[i]] * c[[i]];
    }
}

fn builders() -> [WorldBuilder; 3] {
    [
        World::builder().threads(2),
        World::builder().threads(2).lazy(true),
        World::builder().interpreter(),
    ]
}

#[test]
fn a_number_that_is_rounded_again_keeps_its_gradient() -> wuji::Result<()> {
    for above in ALL {
        for builder in builders() {
            let x = Cells::new(builder, above)?;
            let Cells {
                world,
                a,
                c,
                k,
                loss,
            } = &x;
            world.tape(loss, || {
                total(c, k, loss)?;
                store(a)
            })?;
            x.check("two kernels")?;
            x.start()?;
            world.tape(loss, || {
                total(c, k, loss)?;
                add(a)
            })?;
            x.check("an atomic")?;
            x.start()?;
            world.tape(loss, || store_after(a, c, k, loss))?;
            x.check("two loops")?;
            x.start()?;
            world.tape(loss, || store_beside(a, c, k, loss))?;
            x.check("one loop")?;
            x.start()?;
            world.tape(loss, || store_between(a, c, k, loss))?;
            x.check("read twice")?;
            x.start()?;
            world.tape(loss, || {
                total(c, k, loss)?;
                world.no_grad(|| store(a))
            })?;
            x.check("not recorded")?;
        }
    }
    Ok(())
}

#[test]
fn stores_of_the_host_round_numbers_on_a_tape() -> wuji::Result<()> {
    for above in ALL {
        for builder in builders() {
            let x = Cells::new(builder, above)?;
            let Cells {
                world,
                a,
                c,
                k,
                loss,
            } = &x;
            world.tape(loss, || {
                total(c, k, loss)?;
                a.fill(LARGE)
            })?;
            x.check("fill")?;
            x.start()?;
            world.tape(loss, || {
                total(c, k, loss)?;
                // No kernel on the tape has used `a`.
                (0..i64::from(N)).try_for_each(|i| a.set([i], LARGE))
            })?;
            x.check("set")?;
            if above == Above::Dense {
                x.start()?;
                world.tape(loss, || {
                    total(c, k, loss)?;
                    a.copy_from(&[LARGE; N as usize])
                })?;
                x.check("copy_from")?;
            }
            x.start()?;
            let tape = world.record_tape(|| {
                total(c, k, loss)?;
                a.fill(LARGE)
            })?;
            assert_eq!(tape.saved().len(), 1, "{:?}", tape.saved());
            world.clear_gradients()?;
            loss.grad()?.fill(1.0)?;
            tape.backward()?;
            x.check("record_tape")?;
        }
    }
    Ok(())
}

#[test]
fn the_gradient_of_a_kernel_that_rounds_what_it_reads_runs_in_parts() -> wuji::Result<()> {
    for above in ALL {
        let x = Cells::new(World::builder().threads(2), above)?;
        let Cells {
            world,
            a,
            c,
            k,
            loss,
        } = &x;
        world.clear_gradients()?;
        loss.grad()?.fill(1.0)?;
        // The fields have the values from before the kernel, and keep them.
        world.grad(|| store_between(a, c, k, loss))?;
        for i in 0..i64::from(N) {
            let expected = 2.0 * x.c_at_first(i) * (i % 3 + 1) as f32;
            assert_eq!(c.grad()?.get([i])?, expected, "{above:?}, {i}");
            assert_eq!(c.get([i])?, x.c_at_first(i), "{above:?}, {i}");
            assert_eq!((a.get([i])?, k.get([i])?), (0.0, i as i32 % 3));
        }
    }
    Ok(())
}

#[test]
fn a_number_that_is_rounded_again_keeps_its_tangent() -> wuji::Result<()> {
    for builder in builders() {
        let x = Cells::new(builder, Above::Dense)?;
        let (c, loss) = (x.c.clone().needs_dual()?, x.loss.clone().needs_dual()?);
        c.dual()?.fill(1.0)?;
        x.world.forward_mode(|| {
            total(&c, &x.k, &loss)?;
            store(&x.a)?;
            x.a.fill(LARGE)?;
            x.a.set([1], LARGE)
        })?;
        let each = (0..i64::from(N)).map(|i| 2.0 * x.c_at_first(i) * (i % 3 + 1) as f32);
        let sum: f32 = each.sum();
        assert!((loss.dual()?.get([0i32; 0])? - sum).abs() < 1e-4);
        assert_eq!(c.dual()?.to_vec()?, [1.0; N as usize]);
    }
    Ok(())
}

/// A step that rounds one number again and again, because the other one grows.
#[kernel]
fn step(a: &Field<f32, 1>, c: &Field<f32, 1>, t: i32) {
    for [i] in c {
        c[[i]] = c[[i]] * c[[i]] * 0.25 + 0.25;
    }
    for [i] in a {
        a[[i]] = (t * t) as f32;
    }
}

#[test]
fn steps_are_computed_again_from_the_same_bits() -> wuji::Result<()> {
    const STEPS: usize = 9;
    for above in ALL {
        for copies in [1, 3] {
            let x = Cells::new(World::builder().threads(2), above)?;
            let Cells {
                world,
                a,
                c,
                k,
                loss,
            } = &x;
            // What the program reads, by running it.
            let mut read = vec![Vec::new(); N as usize];
            for t in 0..STEPS {
                for (i, read) in read.iter_mut().enumerate() {
                    read.push(c.get([i as i64])?);
                }
                step(a, c, t as i32)?;
            }
            let last: Vec<f32> = (0..i64::from(N))
                .map(|i| c.get([i]))
                .collect::<wuji::Result<_>>()?;
            x.start()?;
            world.tape_steps(loss, STEPS, copies, |t| {
                step(a, c, t as i32)?;
                if t + 1 == STEPS {
                    total(c, k, loss)?;
                }
                Ok(())
            })?;
            for (i, read) in read.iter().enumerate() {
                let product: f32 = read.iter().rev().map(|c| 0.5 * c).product();
                let expected = 2.0 * last[i] * (i % 3 + 1) as f32 * product;
                let found = c.grad()?.get([i as i64])?;
                let close = (found - expected).abs() <= 1e-4 * expected.abs().max(1e-3);
                assert!(close, "{above:?}, {copies}, {i}: {found} {expected}");
                assert_eq!(c.get([i as i64])?, last[i], "{above:?}, {i}");
            }
        }
    }
    Ok(())
}

#[kernel]
fn cube(x: &Field<f32, 1>, loss: &Field<f32, 0>) {
    for [i] in x {
        loss[[]] += x[[i]] * x[[i]] * x[[i]];
    }
}

/// Adds some units of a fixed-point type.
#[kernel]
fn add_units(x: &Field<f32, 1>, n: f32) {
    for [i] in x {
        x[[i]] += n / 1_073_741_824.0;
    }
}

/// A tape keeps bits, since numbers with more digits than `f32` has change when they are read and stored.
#[test]
fn tapes_keep_all_digits() -> wuji::Result<()> {
    const HALF: f32 = 536_870_912.0;
    for sparse in [false, true] {
        let world = World::builder().threads(2).build()?;
        let x = world.layout(|root| {
            let node = if sparse {
                root.pointer(I, 4)
            } else {
                root.dense(I, 4)
            };
            let unit = 1.0 / 1_073_741_824.0;
            node.bit_struct(32)
                .place::<f32, 1>("x", qfixed_scaled(32, true, unit))
        })?;
        let x = x.needs_grad()?;
        let loss = world.scalar::<f32>("loss")?.needs_grad()?;
        (0..4).try_for_each(|i| x.set([i], 0.5))?;
        add_units(&x, 5.0)?;
        let tape = world.record_tape(|| {
            cube(&x, &loss)?;
            add_units(&x, 1.0)
        })?;
        assert_eq!(tape.saved().len(), 1);
        loss.grad()?.fill(1.0)?;
        tape.backward()?;
        assert_eq!(x.grad()?.get([2])?, 0.75);
        // The last digits are there still.
        add_units(&x, -HALF)?;
        assert_eq!(x.get([2])?, 6.0 / 1_073_741_824.0, "{sparse}");
    }
    Ok(())
}
