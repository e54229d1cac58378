//! The rules that change a graph. Each has a switch, and fuel.

pub mod activations;
pub mod dead_stores;
pub mod fusion;

#[cfg(test)]
mod tests;
