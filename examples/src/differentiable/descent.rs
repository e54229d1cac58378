//! Optimizers of fields.

use wuji::prelude::*;
use wuji::{Element, Result};

/// An element of floats, which an optimizer changes.
pub trait Parameter: Element {
    /// The number of scalars.
    const COMPONENTS: usize;

    /// A scalar, by its number.
    fn component(&self, at: usize) -> f64;
    /// Sets a scalar.
    fn set_component(&mut self, at: usize, value: f64);
}

macro_rules! parameter {
    ($($float:ty),*) => {$(
        impl Parameter for $float {
            const COMPONENTS: usize = 1;

            fn component(&self, _: usize) -> f64 {
                f64::from(*self)
            }

            fn set_component(&mut self, _: usize, value: f64) {
                *self = value as $float;
            }
        }

        impl<const N: usize> Parameter for Vector<$float, N>
        where
            Vector<$float, N>: Element,
        {
            const COMPONENTS: usize = N;

            fn component(&self, at: usize) -> f64 {
                f64::from(self.0[at])
            }

            fn set_component(&mut self, at: usize, value: f64) {
                self.0[at] = value as $float;
            }
        }
    )*};
}

parameter!(f32, f64);

/// Small numbers to start from, the same in each run: from `-scale` to `scale`.
pub fn noise(count: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        scale * (state as f32 / u32::MAX as f32 * 2.0 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

/// Takes a step against the gradient of a field: `x -= rate * gradient`.
pub fn descend<T: Parameter, const D: usize>(x: &Field<T, D>, rate: f64) -> Result<()> {
    update(x, |_, gradient| -rate * gradient)
}

/// Adds to each component of a field a function of its number and its gradient.
fn update<T: Parameter, const D: usize>(
    x: &Field<T, D>,
    mut step: impl FnMut(usize, f64) -> f64,
) -> Result<()> {
    let (mut values, gradient) = (x.to_vec()?, x.grad()?.to_vec()?);
    for (n, (value, gradient)) in values.iter_mut().zip(&gradient).enumerate() {
        for c in 0..T::COMPONENTS {
            let change = step(n * T::COMPONENTS + c, gradient.component(c));
            value.set_component(c, value.component(c) + change);
        }
    }
    x.copy_from(&values)
}

/// Adam: gradient descent with a step size of its own for each component.
#[derive(Debug)]
pub struct Adam<T: Parameter, const D: usize> {
    x: Field<T, D>,
    rate: f64,
    steps: i32,
    /// Running means of gradients and of their squares.
    means: Vec<[f64; 2]>,
}

/// How much the running means keep in each step.
const KEPT: [f64; 2] = [0.9, 0.999];

impl<T: Parameter, const D: usize> Adam<T, D> {
    /// An optimizer of the elements of a field, with a learning rate.
    pub fn new(x: &Field<T, D>, rate: f64) -> Result<Adam<T, D>> {
        let count = x.len()? as usize * T::COMPONENTS;
        Ok(Adam {
            x: x.clone(),
            rate,
            steps: 0,
            means: vec![[0.0; 2]; count],
        })
    }

    /// Changes the field by its gradient.
    pub fn step(&mut self) -> Result<()> {
        self.steps += 1;
        // The means start at zero, which this corrects.
        let correction = KEPT.map(|kept| 1.0 / (1.0 - kept.powi(self.steps)));
        let (rate, means) = (self.rate, &mut self.means);
        update(&self.x, |n, gradient| {
            let [mean, square] = &mut means[n];
            *mean += (1.0 - KEPT[0]) * (gradient - *mean);
            *square += (1.0 - KEPT[1]) * (gradient * gradient - *square);
            -rate * *mean * correction[0] / ((*square * correction[1]).sqrt() + 1e-8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[kernel]
    fn distance(x: &Field<Vec2, 1>, loss: &Field<f32, 0>) {
        for [i] in x {
            let d = x[[i]] - vec2(i as f32, 1.0);
            loss[[]] += d.x * d.x + 100.0 * d.y * d.y;
        }
    }

    fn loss_after(
        steps: usize,
        step: impl Fn(&Field<Vec2, 1>) -> Box<dyn FnMut() -> Result<()>>,
    ) -> f32 {
        let world = World::interpreter().expect("a world");
        let x = world
            .field("x", 3)
            .and_then(Field::needs_grad)
            .expect("a field");
        let loss = world
            .scalar("loss")
            .and_then(Field::needs_grad)
            .expect("a field");
        let mut step = step(&x);
        for _ in 0..steps {
            loss.fill(0.0).expect("filled");
            world
                .tape(&loss, || distance(&x, &loss))
                .expect("gradients");
            step().expect("a step");
        }
        loss.get(()).expect("a loss")
    }

    #[test]
    fn optimizers_find_the_minimum() {
        let plain = |x: &Field<Vec2, 1>| -> Box<dyn FnMut() -> Result<()>> {
            let x = x.clone();
            Box::new(move || descend(&x, 0.009))
        };
        let adam = |x: &Field<Vec2, 1>| -> Box<dyn FnMut() -> Result<()>> {
            let mut adam = Adam::new(x, 0.1).expect("an optimizer");
            Box::new(move || adam.step())
        };
        assert!(loss_after(300, plain) < 0.1);
        assert!(loss_after(300, adam) < 1e-3);
    }
}
