//! Gradients against their forward programs and against hand-written adjoints.

mod adjoint;
mod diffmpm;
mod mass_spring;
mod smoke;
mod study;

use crate::study::Study;

pub fn all() -> Vec<Box<dyn Study>> {
    vec![
        Box::new(diffmpm::DiffMpm),
        Box::new(smoke::Smoke),
        Box::new(mass_spring::MassSpring),
    ]
}
