//! Reading textual IR.

use clap::Args;
use std::io::Read;
use wuji_ir::module::Module;
use wuji_ir::text::{parse, parse_located};
use wuji_ir::verify::verify;
use wuji_ir::{Error, Result};

/// Where a kernel comes from.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// A kernel as textual IR (docs/ir.md); `-` reads the standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

/// A file, and the module that it is.
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
        let text = text.map_err(|_| unreadable("it is no text in UTF-8".to_owned()))?;
        Ok(Text {
            name: name.to_owned(),
            text,
        })
    }

    /// The module, verified, with positions in the file for what has none.
    pub(crate) fn module(&self) -> Result<Module> {
        let module = parse_located(&self.text, &self.name)?;
        verify(&module)?;
        Ok(module)
    }

    /// The module as it is written, without verifying it.
    pub(crate) fn as_written(&self) -> Result<Module> {
        parse(&self.text, &self.name)
    }
}
