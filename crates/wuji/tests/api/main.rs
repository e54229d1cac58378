//! Integration tests of the public API, as one program: each further program is linked once more.

// `limits` has macros that call themselves a few hundred times.
#![recursion_limit = "1024"]

mod accuracy;
#[macro_use]
mod agree;
mod algorithms;
mod array_gradients;
mod backend;
mod bad_input;
mod bundles;
mod cache;
mod checkpoints;
mod cuda;
mod debug;
mod deterministic;
mod enums;
mod errors;
mod explain;
mod files;
mod flat_memory;
mod forward_constants;
mod functions;
mod gradient_api;
mod gradient_parts;
mod gradients;
mod host_data;
mod kernels;
mod language;
mod lazy;
mod lazy_arrays;
mod lazy_random;
mod libraries;
mod limits;
mod linalg;
mod math;
mod nested_hash;
mod nested_tapes;
mod operators;
mod ordinary;
mod printing;
#[path = "../../../wuji-runtime/tests/runtime/process.rs"]
mod process;
mod quantized;
mod quantized_gradients;
mod reverse;
mod scatter;
mod scratchpads;
mod simt;
mod sparse;
mod sparse_gradients;
mod sparse_growth;
mod sparse_interrupt;
mod sparse_random;
mod sparse_semantics;
mod sparse_stress;
mod specialize;
mod split_fields;
mod split_sums;
mod stopping;
mod task_loops;
mod tiers;
mod vdb;
mod viewer;
