//! The text of packed fields: `packed (fixed 21 scale 0.001 in f0 at 0, uint 2 in f0 at 21)`.

use super::lex::shortened;
use super::parse::Parser;
use crate::diag::Result;
use crate::entities::Field;
use crate::quant::{Member, Packing, Quantized, Rounding, Scale, SharedExponent};
use smallvec::SmallVec;
use std::fmt::{self, Write};

pub(super) fn print(packing: &Packing, out: &mut String) -> fmt::Result {
    out.push_str(" packed (");
    for (k, member) in packing.members.iter().enumerate() {
        let comma = if k == 0 { "" } else { ", " };
        write!(
            out,
            "{comma}{} in {} at {}",
            member.ty, member.word, member.at
        )?;
    }
    out.push(')');
    Ok(())
}

/// As in the text format: `fixed 21 scale 0.001`.
impl fmt::Display for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_signed() { "" } else { "u" };
        let rounding = match *self {
            Quantized::Int { bits, .. } => return write!(f, "{sign}int {bits}"),
            Quantized::Fraction { bits, exponent, .. } => {
                let SharedExponent { at, bits: e } = exponent;
                return write!(f, "{sign}fraction {bits} exponent {e} at {at}");
            }
            Quantized::Fixed {
                bits,
                scale,
                rounding,
                ..
            } => {
                write!(f, "{sign}fixed {bits} scale {scale:?}")?;
                rounding
            }
            Quantized::Float {
                exponent,
                fraction,
                rounding,
                ..
            } => {
                write!(f, "{sign}float {exponent} {fraction}")?;
                rounding
            }
        };
        match rounding {
            Rounding::Nearest => Ok(()),
            Rounding::Stochastic => f.write_str(" stochastic"),
        }
    }
}

impl Parser<'_> {
    pub(super) fn packing(&mut self) -> Result<Option<Packing>> {
        if !self.c.eat_word("packed") {
            return Ok(None);
        }
        self.c.expect("(")?;
        let members = self.list(")", |p| {
            let ty = p.quantized()?;
            p.c.expect_word("in")?;
            // Words may be defined later; the verifier looks for them.
            let (word, _) = p.c.id::<Field>("f", "a field like `f0`")?;
            p.c.expect_word("at")?;
            let at = p.byte("a bit")?;
            Ok(Member { word, at, ty })
        })?;
        Ok(Some(Packing {
            members: SmallVec::from_vec(members),
        }))
    }

    fn byte(&mut self, what: &str) -> Result<u8> {
        Ok(self.c.number(what, u64::from(u8::MAX))? as u8)
    }

    fn quantized(&mut self) -> Result<Quantized> {
        let at = self.c.here();
        let word = self.c.word("a quantized type")?;
        let (kind, signed) = match word.strip_prefix('u') {
            Some(kind) => (kind, false),
            None => (word, true),
        };
        let bits = |p: &mut Self| p.byte("a number of bits");
        Ok(match kind {
            "int" => Quantized::Int {
                bits: bits(self)?,
                signed,
            },
            "fixed" => {
                let bits = bits(self)?;
                self.c.expect_word("scale")?;
                let here = self.c.here();
                let text = self.c.literal()?;
                let scale = text.parse().ok().and_then(Scale::new);
                Quantized::Fixed {
                    bits,
                    signed,
                    scale: scale.ok_or_else(|| {
                        let why = format!("`{}` is not a positive scale", shortened(text));
                        self.c.error("W0002", here, why)
                    })?,
                    rounding: self.rounding(),
                }
            }
            "float" => Quantized::Float {
                exponent: bits(self)?,
                fraction: bits(self)?,
                signed,
                rounding: self.rounding(),
            },
            "fraction" => {
                let own = bits(self)?;
                self.c.expect_word("exponent")?;
                let exponent = bits(self)?;
                self.c.expect_word("at")?;
                Quantized::Fraction {
                    bits: own,
                    signed,
                    exponent: SharedExponent {
                        bits: exponent,
                        at: self.byte("a bit")?,
                    },
                }
            }
            _ => {
                let why = format!("`{}` is not a quantized type", shortened(word));
                return Err(self.c.error("W0002", at, why).help(
                    "there are: int, fixed, float, fraction, and uint, ufixed, ufloat, ufraction",
                ));
            }
        })
    }

    fn rounding(&mut self) -> Rounding {
        if self.c.eat_word("stochastic") {
            Rounding::Stochastic
        } else {
            Rounding::Nearest
        }
    }
}
