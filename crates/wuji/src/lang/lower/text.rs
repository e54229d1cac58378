//! Messages of `print!` and `assert!`.

use super::MISTAKE;
use super::body::Body;
use crate::lang::ast::{At, Piece, Text};
use wuji_ir::Result;
use wuji_ir::entities::{Message, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{self, MessageData};

impl Body<'_, '_> {
    /// Enters a message; gives it and the values for its holes.
    pub(super) fn text(
        &mut self,
        at: At,
        text: &'static Text,
    ) -> Result<Option<(Message, Vec<Value>)>> {
        let Some(args) = self.values(text.args)? else {
            return Ok(None);
        };
        let mut pieces: Vec<module::Piece> = Vec::new();
        let mut holes = Vec::new();
        for piece in text.pieces {
            match piece {
                Piece::Text(t) => match pieces.last_mut() {
                    Some(module::Piece::Text(before)) => before.push_str(t),
                    _ => pieces.push(module::Piece::Text(t.to_string())),
                },
                Piece::Hole(k, format) => {
                    let Some(v) = args.get(*k as usize) else {
                        return Err(self.fail(at, MISTAKE, "a value of the message is missing"));
                    };
                    let Some(format) = Format::parse(format) else {
                        return Err(self.fail(at, MISTAKE, format!("`{format}` is not a format")));
                    };
                    holes.push(*v);
                    pieces.push(module::Piece::Hole {
                        ty: self.ty(*v),
                        format,
                    });
                }
            }
        }
        let message = self.cx.module.messages.push(MessageData { pieces });
        Ok(Some((message, holes)))
    }
}
