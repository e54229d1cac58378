//! Reads textual IR.

use clap::Args;
use std::io::Read;
use wuji_ir::module::Module;
use wuji_ir::text::{parse, parse_located};
use wuji_ir::verify::verify;
use wuji_ir::{Error, Result};

/// The source of a kernel.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// A kernel in textual IR (docs/ir.md); `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

/// A source file.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Text {
    pub(crate) fn read(file: &str) -> Result<Text> {
        let (name, bytes) = match file {
            "-" => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut bytes);
                ("<stdin>", read.map(|_| bytes))
            }
            path => (path, std::fs::read(path)),
        };
        let unreadable = |why: String| Error::new("W0515", format!("cannot read {name}")).note(why);
        let bytes = bytes.map_err(|e| unreadable(e.to_string()))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| unreadable("it is not valid UTF-8".to_owned()))?;
        Ok(Text {
            name: name.to_owned(),
            text,
        })
    }

    /// The verified module, with source positions in this file.
    pub(crate) fn module(&self) -> Result<Module> {
        let module = parse_located(&self.text, &self.name)?;
        verify(&module)?;
        Ok(module)
    }

    /// The module as written: not verified, without added positions.
    pub(crate) fn as_written(&self) -> Result<Module> {
        parse(&self.text, &self.name)
    }
}
