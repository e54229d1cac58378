//! Parses, verifies and runs every textual IR block of the book, according to its attributes.

use crate::bless;
use std::fs;
use std::path::{Path, PathBuf};
use wuji::World;
use wuji_book::{Block, Page, pages};
use wuji_compile::{Cx, Options, autodiff, run_pass};
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::Module;
use wuji_ir::text::parse_located;
use wuji_ir::types::Imm;
use wuji_ir::verify::verify;
use wuji_ir::{Error, Result};

#[test]
fn blocks_are_as_the_book_says() {
    let mut wrong = Vec::new();
    for page in pages().unwrap() {
        let blocks = page.blocks().unwrap();
        for (number, block) in blocks.iter().enumerate() {
            if block.language() != "wir" {
                continue;
            }
            let follows = block.next.and_then(|n| blocks.get(n));
            let fails = follows.is_some_and(|b| b.info == "text" && !b.code.starts_with(';'));
            let check = || check(&page, number, block, fails);
            if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
                let message = panic.downcast_ref::<String>().cloned();
                wrong.push(message.unwrap_or_else(|| format!("{}:{}", page.path, block.line)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn check(page: &Page, number: usize, block: &Block, fails: bool) {
    // Written to a file, so that messages show the source line.
    let name = format!("{}.line{}.wir", page.path.replace('/', "_"), block.line);
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, &block.code).unwrap();
    let file = path.display().to_string();
    let at = format!("{}:{}", page.path, block.line);
    match (run(block, &file), fails) {
        (Ok(()), false) => {}
        (Ok(()), true) => panic!("{at}: this module should fail"),
        (Err(e), false) => panic!("{at}: {e}"),
        (Err(e), true) => {
            bless::compare(
                &page.path,
                number,
                &e.to_string().replace(&file, "main.wir"),
            );
        }
    }
}

fn run(block: &Block, file: &str) -> Result<()> {
    let mut module = parse_located(&block.code, file)?;
    verify(&module)?;
    let options = Options {
        deterministic: block.has("deterministic"),
        vector_bits: 256,
        ..Options::default()
    };
    for attribute in block.attributes() {
        match attribute.split_once('=') {
            Some(("pass", passes)) => {
                for pass in passes.split('+') {
                    run_pass(pass, &mut module, &mut Cx::new(&options))?;
                    verify(&module)?;
                }
            }
            _ => match attribute {
                "run" => launch(&module)?,
                "interpret" => interpret(Machine::new(&module, config())?, &module)?,
                "lowered" => interpret(Machine::lowered(&module, config())?, &module)?,
                "gradient" => module = autodiff::gradient_of(module)?,
                "tangent" => module = autodiff::tangent_of(module)?,
                "deterministic" => {}
                other => return Err(Error::new("W0000", format!("unknown attribute `{other}`"))),
            },
        }
    }
    Ok(())
}

/// Enough steps for every page, but a short limit.
fn config() -> Config {
    Config {
        max_steps: 1_000_000,
        ..Config::default()
    }
}

/// Zero for every scalar of the parameters.
fn zeros(module: &Module) -> Vec<Imm> {
    let params = module.params.iter();
    params
        .flat_map(|p| module.structs.flatten(p.ty))
        .map(Imm::zero)
        .collect()
}

fn interpret(mut machine: Machine<'_>, module: &Module) -> Result<()> {
    machine.run(&zeros(module)).map(|_| ())
}

fn launch(module: &Module) -> Result<()> {
    let world = World::cpu()?;
    let mut instance = world.instance(module.clone())?;
    instance.run(&zeros(module), 0, 0).map(|_| ())
}
