//! Integration tests of the passes, in one binary to save link time.

mod bit_vectorize;
mod forward;
mod invalid;
mod large;
mod normal;
mod quant;
mod reverse;
mod reverse_nested;
mod schedules;
mod tasks;
