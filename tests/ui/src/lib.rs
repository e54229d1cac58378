//! The programs are in `tests`.
