//! Functions with a reverse sweep of their own.

use crate::backend::worlds;
use wuji::prelude::*;

/// The sweep is not the derivative, so that the tests can tell them apart.
#[func(reverse = square_reverse)]
fn square<T: Float>(x: T) -> T {
    x * x
}

#[func]
fn square_reverse<T: Float>(x: T, result: T, adjoint: T) -> T {
    (x + result) * adjoint
}

#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Spring {
    stiffness: f64,
    index: i32,
}

impl Spring {
    #[func(precise, reverse = Self::force_reverse)]
    fn force(self, length: f64, n: i32) -> f64 {
        self.stiffness * length * n as f64
    }

    #[func]
    fn force_reverse(self, length: f64, n: i32, result: f64, adjoint: f64) -> (Spring, f64) {
        let stiffness = 10.0 * adjoint * n as f64;
        let index = self.index;
        (Spring { stiffness, index }, result + length)
    }
}

#[kernel]
fn squares(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        loss[[]] += 2.0 * square(x[[i]]);
    }
}

#[kernel]
fn forces(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        let spring = Spring {
            stiffness: x[[i]] * 3.0,
            index: i,
        };
        loss[[]] += spring.force(x[[i]], 2);
    }
}

#[kernel]
fn rotations(x: &Field<DMat3, 1>, loss: &Field<f64, 0>) {
    for [i] in x {
        let (u, sigma, v) = x[[i]].svd();
        let (r, s) = x[[i]].polar();
        let (values, vectors) = (x[[i]] + x[[i]].transpose()).symmetric_eigen();
        let rotation = u * v.transpose();
        loss[[]] +=
            rotation[[0, 1]] * sigma[0] + r[[1, 0]] * s[[1, 2]] + values[1] * vectors[[2, 1]];
    }
}

/// The gradient of a loss by the first element.
fn gradient<T: Element>(
    world: &World,
    value: T,
    kernel: impl Fn(&Field<T, 1>, &Field<f64, 0>) -> wuji::Result<()>,
) -> T {
    let x = world.field::<T, 1>("x", 1).unwrap().needs_grad().unwrap();
    let loss = world.scalar::<f64>("loss").unwrap().needs_grad().unwrap();
    x.set(0, value).unwrap();
    world.tape(&loss, || kernel(&x, &loss)).unwrap();
    x.grad().unwrap().get(0).unwrap()
}

#[test]
fn gradients_use_the_reverse_sweep_of_a_function() {
    for world in worlds() {
        // Twice `x + x * x`.
        assert_eq!(gradient(&world, 3.0, squares), 24.0);
    }
}

#[test]
fn a_reverse_sweep_returns_a_tuple_for_several_parameters() {
    for world in worlds() {
        // The result is `3 * 5 * 5 * 2`, of which the length has the adjoint `150 + 5`; the stiffness has `10 * 2`.
        assert_eq!(gradient(&world, 5.0, forces), 20.0 * 3.0 + 155.0);
    }
}

#[test]
fn decompositions_have_gradients() {
    let value = |at: [usize; 2], step: f64| {
        let mut m = Matrix([[1.0, 0.2, -0.3], [0.4, -0.7, 0.1], [0.3, 0.5, 1.5]]);
        m[at] += step;
        m
    };
    let world = World::interpreter().unwrap();
    let x = world.field::<DMat3, 1>("x", 1).unwrap();
    let loss = world.scalar::<f64>("loss").unwrap();
    let evaluate = |m: DMat3| {
        x.set(0, m).unwrap();
        loss.set((), 0.0).unwrap();
        rotations(&x, &loss).unwrap();
        loss.get(()).unwrap()
    };
    let found = gradient(&world, value([0, 0], 0.0), rotations);
    for at in [[0, 0], [0, 1], [1, 0], [2, 1], [2, 2]] {
        let step = 1e-6;
        let change = evaluate(value(at, step)) - evaluate(value(at, -step));
        let expected = change / (2.0 * step);
        assert!(
            (found[at] - expected).abs() < 1e-6,
            "{at:?}: {} {expected}",
            found[at]
        );
    }
}
