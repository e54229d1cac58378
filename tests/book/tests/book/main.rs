//! The book is complete, and everything that it shows is compiled, run and compared.

mod bless;
mod index;
mod rust;
mod wir;
