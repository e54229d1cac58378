//! `cargo xtask`: the commands of this repository.
//!
//! This program has no dependencies, so it builds in seconds on a machine that has only Rust. It installs missing
//! dependencies, or prints how, and calls cargo for the rest.

mod args;
mod bench;
mod bundle;
mod demo;
mod fuzz;
mod help;
mod peers;
mod publish;
mod python;
mod rules;
mod setup;
mod shared_llvm;
mod steps;
mod test;
mod wheel;
mod workspace;

use std::process::ExitCode;

/// The result of a command: success, or an error message.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_else(|| "help".to_string());
    let rest: Vec<String> = words.collect();
    if rest.iter().any(|word| word == "--help" || word == "-h") && help::of(&command).is_some() {
        println!("{}", help::of(&command).unwrap_or(help::OVERVIEW));
        return ExitCode::SUCCESS;
    }
    let outcome = match command.as_str() {
        "demo" => demo::demo(&rest),
        "test" => test::test(&rest),
        "bench" => bench::bench(&rest),
        "peers" => peers::peers(&rest),
        "fuzz" => fuzz::fuzz(&rest),
        "rules" => rules::rules(&rest),
        "bundle" => bundle::bundle(&rest),
        "publish" => publish::publish(&rest),
        "python" => python::python(&rest),
        "wheel" => wheel::wheel(&rest),
        "setup" => setup::command(&rest),
        "help" | "--help" | "-h" => {
            let topic = rest.first().and_then(|word| help::of(word));
            println!("{}", topic.unwrap_or(help::OVERVIEW));
            Ok(())
        }
        other => Err(format!(
            "there is no command `{other}`{}\n\n{}",
            help::nearest(other).map_or(String::new(), |name| format!("; did you mean `{name}`?")),
            help::OVERVIEW
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
