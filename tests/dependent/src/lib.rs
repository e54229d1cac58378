//! Kernels, elements and bundles where `wuji` has another name.

use other_name::prelude::*;

/// An element.
#[derive(Copy, Clone, Debug, PartialEq, Element)]
pub struct Particle {
    /// Where it is.
    pub x: Vec2,
    /// How heavy it is.
    pub mass: f32,
}

/// A bundle.
#[derive(Debug, Fields)]
pub struct Cloud {
    /// All of them.
    pub particles: Field<Particle, 1>,
    /// What is added to the mass in each step.
    pub growth: f32,
}

#[kernel]
impl Cloud {
    /// Lets all particles grow.
    pub fn grow(&self) {
        for [i] in self.particles {
            self.particles[[i]].mass += doubled(self.growth);
        }
    }
}

#[func]
fn doubled(x: f32) -> f32 {
    x * 2.0
}

/// A kernel with a gradient, whose expansion has the most paths.
#[kernel(grad)]
pub fn energy(x: &Field<f32, 1>, loss: &Field<f32, 0>) {
    for [i] in x {
        loss[[]] += x[[i]] * x[[i]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansions_use_the_name_of_the_dependency() -> other_name::Result<()> {
        let world = World::interpreter()?;
        let cloud = Cloud {
            particles: world.field("particles", 4)?,
            growth: 1.5,
        };
        cloud.grow()?;
        assert_eq!(cloud.particles.get(3)?.mass, 3.0);
        let x = world.field::<f32, 1>("x", 4)?.needs_grad()?;
        let loss = world.scalar::<f32>("loss")?.needs_grad()?;
        x.fill(3.0)?;
        loss.grad()?.fill(1.0)?;
        energy::grad(&x, &loss)?;
        assert_eq!(x.grad()?.to_vec()?, [6.0; 4]);
        Ok(())
    }
}
