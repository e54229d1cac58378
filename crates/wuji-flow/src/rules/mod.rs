//! The rules that change a graph. Each has a switch, and fuel.

pub mod activations;
pub mod dead_stores;
pub mod fusion;
pub mod halos;
pub mod horizontal;
pub mod locality;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod array_tests;

#[cfg(test)]
mod horizontal_tests;

#[cfg(test)]
mod sparse_tests;
