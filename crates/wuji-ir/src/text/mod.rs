//! The text format: printing, parsing, and the normal form of both.
//!
//! `docs/ir.md` has the grammar. For every module that verifies,
//! `parse(&m.to_string(), "m.wir") == Ok(m.compacted())`.
//!
//! ```
//! let text = r#"
//! fn fn0 "square"(v0: f32) -> f32 {
//!   v1: f32 = mul v0, v0
//!   return v1
//! }
//! "#;
//! let module = wuji_ir::text::parse(text, "square.wir")?;
//! assert_eq!(module.to_string().trim(), text.trim());
//! # Ok::<(), wuji_ir::Error>(())
//! ```

mod lex;
mod literal;
mod number;
mod packing;
mod parse;
mod parse_access;
mod parse_body;
mod parse_items;
mod print;
mod print_body;

pub use literal::constant;
pub use parse::{parse, parse_located};
pub(crate) use print_body::BodyPrinter;
