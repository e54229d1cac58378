//! Which iterations may change a word at the same time.

use crate::analysis::ownership::Ownership;
use wuji_ir::entities::{Field, Func};
use wuji_ir::module::{Module, TaskKind};
use wuji_ir::ops::Place;

/// Who else may change the words that a function changes.
pub(super) enum Sharing {
    /// No other thread.
    Serial,
    /// Other iterations of a parallel loop.
    Parallel {
        /// Words that belong to one iteration.
        words: Ownership<Field>,
        /// Packed fields whose elements belong to one iteration.
        fields: Ownership<Field>,
    },
    /// Any iteration: a function that tasks call, or ownership is not to be used.
    Unknown,
}

/// How bits of a word are changed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Exclusive {
    /// No other iteration changes the word.
    Word,
    /// No other iteration changes these bits.
    Bits,
    /// Others may change these bits.
    Nothing,
}

impl Sharing {
    pub(super) fn of(m: &Module, func: Func, ownership: bool) -> Sharing {
        let Some(task) = m.tasks.iter().find(|t| t.func == func) else {
            return Sharing::Unknown;
        };
        match &task.kind {
            TaskKind::Serial => Sharing::Serial,
            TaskKind::Range { .. } | TaskKind::Cells { .. } if ownership => {
                let f = &m.funcs[func];
                let first = m.params.len();
                Sharing::Parallel {
                    words: Ownership::of(m, f, first, |place| words(m, place)),
                    fields: Ownership::of(m, f, first, packed),
                }
            }
            TaskKind::Range { .. } | TaskKind::Cells { .. } | TaskKind::Chunks { .. } => {
                Sharing::Unknown
            }
        }
    }

    pub(super) fn of_store(&self, m: &wuji_ir::env::Env, field: Field, word: Field) -> Exclusive {
        match self {
            Sharing::Serial => Exclusive::Word,
            Sharing::Parallel { words, fields } => {
                let data = &m.fields[field];
                let in_array = m.trees[data.tree].bit_array(data.node).is_some();
                if !in_array && words.contains(&word) {
                    Exclusive::Word
                } else if fields.contains(&field) {
                    Exclusive::Bits
                } else {
                    Exclusive::Nothing
                }
            }
            Sharing::Unknown => Exclusive::Nothing,
        }
    }
}

/// The words of a packed field.
fn words(m: &Module, place: Place) -> Vec<Field> {
    let Place::Field(field) = place else {
        return Vec::new();
    };
    let members = m.fields[field].packing.iter().flat_map(|p| &p.members);
    members.map(|member| member.word).collect()
}

fn packed(place: Place) -> Option<Field> {
    match place {
        Place::Field(field) => Some(field),
        Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
    }
}
