//! What compilations tell about loops: what became of them, or why nothing did.

use std::fmt;
use wuji_ir::Position;

/// What became of a parallel loop.
///
/// As text it is one line: `src/main.rs:12:5: julia.1: 16 lanes, 4 vectors at a time`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The kernel's name and the number of the task.
    pub task: String,
    pub at: Option<Position>,
    pub decision: Decision,
}

/// One thing that was done to a loop, or was thought of and left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Several iterations run per instruction.
    Vectors {
        lanes: u8,
        /// Vectors at a time.
        vectors: usize,
        /// Whether rows of memory are shuffled apart or together.
        interleaved: bool,
        /// Whether something is stored past the caches.
        streamed: bool,
    },
    /// One iteration runs after the other, and why.
    Scalar(String),
    /// What a block touches of a field is kept in an array.
    Pad {
        field: String,
        elements: u64,
        /// How many iterations a block must have for that; 0 when any block will do.
        from: u64,
    },
    /// It is not, and why.
    NoPad { field: String, why: String },
}

impl Remark {
    /// Whether several iterations run per instruction.
    pub fn is_vector(&self) -> bool {
        matches!(self.decision, Decision::Vectors { .. })
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
        }
    }
}
