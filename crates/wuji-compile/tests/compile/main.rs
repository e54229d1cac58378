//! Integration tests of the passes, as one program: each further program is linked once more.

mod large;
mod schedules;
