//! Remarks: the decisions of optimizations about loops, with reasons.

use std::fmt;
use wuji_ir::Position;

/// A remark about a parallel loop.
///
/// As text it is one line: `src/main.rs:12:5: julia.1: 16 lanes, 4 vectors at a time`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The kernel's name and the number of the task.
    pub task: String,
    /// Where the loop is in the source.
    pub at: Option<Position>,
    /// What was decided, and why.
    pub decision: Decision,
}

/// A decision of an optimization about a loop, or of a tape about a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The loop is vectorized.
    Vectors {
        /// The iterations in a vector.
        lanes: u8,
        /// The interleave factor.
        vectors: usize,
        /// Whether there are interleaved loads or stores.
        interleaved: bool,
        /// Whether there are non-temporal stores.
        streamed: bool,
    },
    /// The lanes of vectors are the components of the program's own vectors.
    Components {
        /// The components of the longest vector.
        lanes: u8,
        /// The iterations that run side by side.
        iterations: u8,
    },
    /// The loop is scalar, with the reason.
    Scalar(String),
    /// A field has a scratchpad.
    Pad {
        /// The name of the field.
        field: String,
        /// The elements of the scratchpad.
        elements: u64,
        /// The smallest trip count of a block for that; 0 if any block will do.
        from: u64,
    },
    /// A field has no scratchpad, with the reason.
    NoPad {
        /// The name of the field.
        field: String,
        /// The reason.
        why: String,
    },
    /// A field has a scratchpad for each warp, and iterations are sorted by the cell that they add to.
    SortedSums {
        /// The name of the field.
        field: String,
        /// The elements of a scratchpad.
        elements: u64,
    },
    /// The gradient of a serial loop.
    Reversed(Reversal),
    /// The loop handles all bits of a word at a time.
    Bits {
        /// The elements in a word.
        elements: u32,
    },
    /// A loop over single bits handles them one by one, with the reason.
    NoBits(String),
    /// A tape copies a field before it is overwritten, because a gradient needs its values.
    Saved {
        /// The name of the field.
        field: String,
        /// Bytes of one copy.
        bytes: u64,
        /// Where the value is read.
        needed_at: String,
    },
    /// How a word of packed fields is changed.
    Packed {
        /// The names of the fields.
        fields: String,
        /// How the word is changed.
        write: WordWrite,
    },
    /// The loop runs on one thread, because of what is around it.
    Serial(Enclosing),
    /// Divergent loops within an iteration are steps of the loops around them.
    Flattened {
        /// The number of loops.
        loops: u32,
    },
    /// Code of the best tier was measured to be slower than other code of the task, which is kept.
    Slower {
        /// The code that is kept.
        kept: KeptCode,
        /// Whether the slower code is vectorized.
        vectorized: bool,
        /// Its time, in percent of the time of the code that is kept.
        percent: u32,
    },
}

/// Code of a task that was measured to be faster than vectorized code.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeptCode {
    /// Code of the first tier.
    First,
    /// Code that is optimized, but not vectorized.
    Scalar,
}

/// What makes a loop of a kernel serial.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Enclosing {
    /// A `while`.
    While,
    /// An `if`.
    If,
}

/// How a loop changes words of packed fields.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WordWrite {
    /// A store of the whole word.
    Store,
    /// A load, an insertion and a store: no other iteration changes the word.
    Insert,
    /// A load and an atomic `xor`: no other iteration changes the same bits.
    Xor,
    /// An atomic `add` of integers.
    Add,
    /// A loop with a compare-and-swap.
    Swap,
}

impl WordWrite {
    /// All of them, in the order of their declaration.
    pub const ALL: [WordWrite; 5] = [
        WordWrite::Store,
        WordWrite::Insert,
        WordWrite::Xor,
        WordWrite::Add,
        WordWrite::Swap,
    ];
}

/// How a gradient kernel visits the iterations of a serial loop.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// They are independent of each other.
    AnyOrder,
    /// The last one first; what an iteration needs is computed from its index.
    Backwards,
    /// The last one first. Carried values are saved at some of them, and computed again at the others.
    Checkpoints {
        /// The number of checkpoints.
        count: u64,
        /// Bytes of each.
        bytes: u64,
    },
}

impl Remark {
    /// Whether the loop is vectorized.
    pub fn is_vector(&self) -> bool {
        matches!(
            self.decision,
            Decision::Vectors { .. } | Decision::Components { .. }
        )
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        write!(f, "{}: {}", self.task, self.decision)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Vectors {
                lanes,
                vectors,
                interleaved,
                streamed,
            } => {
                write!(f, "{lanes} lanes")?;
                if *vectors > 1 {
                    write!(f, ", {vectors} vectors at a time")?;
                }
                if *interleaved {
                    write!(f, ", interleaved")?;
                }
                if *streamed {
                    write!(f, ", non-temporal stores")?;
                }
                Ok(())
            }
            Decision::Components { lanes, iterations } => {
                write!(f, "{lanes} lanes, the components of its vectors")?;
                if *iterations > 1 {
                    write!(f, ", {iterations} iterations at a time")?;
                }
                Ok(())
            }
            Decision::Scalar(why) => write!(f, "scalar: {why}"),
            Decision::Pad {
                field,
                elements,
                from,
            } => {
                write!(f, "`{field}` in a scratchpad of {elements} elements")?;
                match from {
                    0 => Ok(()),
                    n => write!(f, ", for blocks of {n} iterations or more"),
                }
            }
            Decision::NoPad { field, why } => write!(f, "no scratchpad for `{field}`: {why}"),
            Decision::SortedSums { field, elements } => write!(
                f,
                "`{field}` in scratchpads of {elements} elements, iterations sorted by cell"
            ),
            Decision::Reversed(Reversal::AnyOrder) => write!(f, "gradient in any order"),
            Decision::Reversed(Reversal::Backwards) => {
                write!(
                    f,
                    "gradient from the last iteration to the first, nothing saved"
                )
            }
            Decision::Reversed(Reversal::Checkpoints { count, bytes }) => write!(
                f,
                "gradient from the last iteration to the first, {count} checkpoints of {bytes} bytes"
            ),
            Decision::Bits { elements } => write!(f, "{elements} bits at a time"),
            Decision::NoBits(why) => write!(f, "bit by bit: {why}"),
            Decision::Saved {
                field,
                bytes,
                needed_at,
            } => write!(
                f,
                "a tape saves `{field}`, {bytes} bytes a copy: the gradient needs the value that is read at {needed_at}"
            ),
            Decision::Packed { fields, write } => {
                let how = match write {
                    WordWrite::Store => "stores of whole words",
                    WordWrite::Insert => "bits inserted, without atomics",
                    WordWrite::Xor => "bits changed by an atomic xor",
                    WordWrite::Add => "atomic additions",
                    WordWrite::Swap => "compare-and-swap",
                };
                write!(f, "words of `{fields}`: {how}")
            }
            Decision::Flattened { loops: 1 } => {
                write!(f, "an inner loop is flattened: its trip count is divergent")
            }
            Decision::Flattened { loops } => write!(
                f,
                "{loops} inner loops are flattened: their trip counts are divergent"
            ),
            Decision::Slower {
                kept,
                vectorized,
                percent,
            } => {
                let slower = if *vectorized {
                    "vectorized code"
                } else {
                    "optimized code"
                };
                let kept = match kept {
                    KeptCode::First => "the code of the first tier",
                    KeptCode::Scalar => "scalar code",
                };
                let times = f64::from(*percent) / 100.0;
                write!(
                    f,
                    "{slower} took {times:.1} times as long as {kept}, which is kept"
                )
            }
            Decision::Serial(Enclosing::While) => write!(
                f,
                "one thread: the loop is under a `while`, and its iterations may depend on each other; to run them in parallel, make it a kernel of its own, and launch that in a loop"
            ),
            Decision::Serial(Enclosing::If) => write!(
                f,
                "one thread: the loop is under an `if`, and its iterations may depend on each other; to run them in parallel, move the `if` into the loop, or the loop into a kernel of its own"
            ),
        }
    }
}
