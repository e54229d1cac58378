//! The contents of a cached kernel: its launch plan and its machine code.

use super::format::{Reader, Writer, open};
use std::time::Duration;
use wuji_compile::{Decision, Enclosing, KeptCode, Remark, Reversal, WordWrite};
use wuji_ir::diag::Position;
use wuji_ir::module::Module;
use wuji_llvm::{Object, Timings};

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"wujicod\x04";

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// The lowered module, with the names of its functions but without their bodies.
    pub(crate) launch: Module,
    pub(crate) object: Object,
    /// Remarks about parallel loops; unknown for first-tier code.
    pub(crate) remarks: Vec<Remark>,
}

impl Entry {
    pub(crate) fn encode(&self, key: &str) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, key);
        out.text(&self.launch.to_string());
        out.number(self.object.timings.total.as_nanos() as u64);
        out.number(self.object.code.len() as u64);
        for code in &self.object.code {
            out.bytes(code);
        }
        out.number(self.object.symbols.len() as u64);
        for symbol in &self.object.symbols {
            out.text(symbol);
        }
        out.number(self.object.stacks.len() as u64);
        for stack in &self.object.stacks {
            out.number(*stack);
        }
        out.number(self.remarks.len() as u64);
        for remark in &self.remarks {
            out.text(&remark.task);
            let nowhere = Position {
                file: String::new(),
                line: 0,
                column: 0,
            };
            let at = remark.at.as_ref().unwrap_or(&nowhere);
            out.text(&at.file);
            out.number(at.line.into());
            out.number(at.column.into());
            encode_decision(&mut out, &remark.decision);
        }
        out.finish()
    }

    /// Decodes an entry that was encoded with this key, or returns the reason why not.
    pub(crate) fn decode(bytes: &[u8], key: &str) -> Result<Entry, &'static str> {
        let mut all = open(bytes, MAGIC, key)?;
        let launch = wuji_ir::text::parse(all.text()?, "cache").map_err(|_| "it is malformed")?;
        let total = Duration::from_nanos(all.number()?);
        let code = all.list(|r| Ok(r.bytes()?.to_vec()))?;
        let symbols = all.list(|r| Ok(r.text()?.to_owned()))?;
        let stacks = all.list(Reader::number)?;
        let remarks = all.list(|r| {
            let task = r.text()?.to_owned();
            let file = r.text()?.to_owned();
            let (line, column) = (small(r.number()?)?, small(r.number()?)?);
            let at = (line != 0).then_some(Position { file, line, column });
            let decision = decode_decision(r)?;
            Ok(Remark { task, at, decision })
        })?;
        all.end()?;
        let timings = Timings {
            total,
            ..Timings::default()
        };
        Ok(Entry {
            launch,
            object: Object {
                code,
                symbols,
                stacks,
                timings,
            },
            remarks,
        })
    }
}

fn encode_decision(out: &mut Writer, decision: &Decision) {
    match decision {
        Decision::Vectors {
            lanes,
            vectors,
            interleaved,
            streamed,
        } => {
            out.number(0);
            out.number(u64::from(*lanes));
            out.number(*vectors as u64);
            out.number((*interleaved).into());
            out.number((*streamed).into());
        }
        Decision::Scalar(why) => {
            out.number(1);
            out.text(why);
        }
        Decision::Pad {
            field,
            elements,
            from,
        } => {
            out.number(2);
            out.text(field);
            out.number(*elements);
            out.number(*from);
        }
        Decision::NoPad { field, why } => {
            out.number(3);
            out.text(field);
            out.text(why);
        }
        Decision::Reversed(reversal) => {
            out.number(4);
            let numbers = match reversal {
                Reversal::AnyOrder => [0, 0, 0],
                Reversal::Backwards => [1, 0, 0],
                Reversal::Checkpoints { count, bytes } => [2, *count, *bytes],
            };
            numbers.into_iter().for_each(|n| out.number(n));
        }
        Decision::Bits { elements } => {
            out.number(5);
            out.number((*elements).into());
        }
        Decision::NoBits(why) => {
            out.number(6);
            out.text(why);
        }
        Decision::Saved {
            field,
            bytes,
            needed_at,
        } => {
            out.number(7);
            out.text(field);
            out.number(*bytes);
            out.text(needed_at);
        }
        Decision::Packed { fields, write } => {
            out.number(8);
            out.text(fields);
            let number = WordWrite::ALL.iter().position(|w| w == write);
            out.number(number.unwrap_or(0) as u64);
        }
        Decision::Serial(under) => {
            out.number(9);
            out.number(match under {
                Enclosing::While => 0,
                Enclosing::If => 1,
            });
        }
        Decision::Components { lanes, iterations } => {
            out.number(10);
            out.number((*lanes).into());
            out.number((*iterations).into());
        }
        Decision::SortedSums { field, elements } => {
            out.number(11);
            out.text(field);
            out.number(*elements);
        }
        Decision::Flattened { loops } => {
            out.number(12);
            out.number((*loops).into());
        }
        Decision::Slower {
            kept,
            vectorized,
            percent,
        } => {
            out.number(13);
            out.number(match kept {
                KeptCode::First => 0,
                KeptCode::Scalar => 1,
            });
            out.number((*vectorized).into());
            out.number((*percent).into());
        }
    }
}

fn small(n: u64) -> Result<u32, &'static str> {
    u32::try_from(n).map_err(|_| "it is malformed")
}

fn decode_decision(r: &mut Reader<'_>) -> Result<Decision, &'static str> {
    Ok(match r.number()? {
        0 => Decision::Vectors {
            lanes: u8::try_from(r.number()?).map_err(|_| "it is malformed")?,
            vectors: r.number()? as usize,
            interleaved: r.number()? != 0,
            streamed: r.number()? != 0,
        },
        1 => Decision::Scalar(r.text()?.to_owned()),
        2 => Decision::Pad {
            field: r.text()?.to_owned(),
            elements: r.number()?,
            from: r.number()?,
        },
        3 => Decision::NoPad {
            field: r.text()?.to_owned(),
            why: r.text()?.to_owned(),
        },
        4 => Decision::Reversed(match (r.number()?, r.number()?, r.number()?) {
            (0, ..) => Reversal::AnyOrder,
            (1, ..) => Reversal::Backwards,
            (2, count, bytes) => Reversal::Checkpoints { count, bytes },
            _ => return Err("it is malformed"),
        }),
        5 => Decision::Bits {
            elements: small(r.number()?)?,
        },
        6 => Decision::NoBits(r.text()?.to_owned()),
        7 => Decision::Saved {
            field: r.text()?.to_owned(),
            bytes: r.number()?,
            needed_at: r.text()?.to_owned(),
        },
        8 => Decision::Packed {
            fields: r.text()?.to_owned(),
            write: {
                let write = WordWrite::ALL.get(r.number()? as usize);
                *write.ok_or("it is malformed")?
            },
        },
        9 => Decision::Serial(match r.number()? {
            0 => Enclosing::While,
            1 => Enclosing::If,
            _ => return Err("it is malformed"),
        }),
        10 => Decision::Components {
            lanes: u8::try_from(r.number()?).map_err(|_| "it is malformed")?,
            iterations: u8::try_from(r.number()?).map_err(|_| "it is malformed")?,
        },
        11 => Decision::SortedSums {
            field: r.text()?.to_owned(),
            elements: r.number()?,
        },
        12 => Decision::Flattened {
            loops: small(r.number()?)?,
        },
        13 => Decision::Slower {
            kept: match r.number()? {
                0 => KeptCode::First,
                1 => KeptCode::Scalar,
                _ => return Err("it is malformed"),
            },
            vectorized: r.number()? != 0,
            percent: small(r.number()?)?,
        },
        _ => return Err("it is malformed"),
    })
}
