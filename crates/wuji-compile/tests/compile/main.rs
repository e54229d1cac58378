//! Integration tests of the passes, in one binary to save link time.

mod large;
mod normal;
mod schedules;
