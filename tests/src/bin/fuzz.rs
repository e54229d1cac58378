//! `cargo xtask fuzz`: random programs and mutated files, until the time is over or something fails.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wuji_tests::fuzz::{
    self, Campaign, Corpus, Finding, Limits, MutatedFiles, RandomGradients, RandomPrograms,
    RandomWindows,
};

struct Arguments {
    limits: Limits,
    /// Mutate the files of this folder instead of making programs.
    files: Option<PathBuf>,
    /// Differentiate random kernels.
    gradients: bool,
    /// Only run windows of launches, lazily and eagerly.
    windows: bool,
    /// How many of a hundred programs run as machine code too.
    native: usize,
    /// Print the program of the seed and the result of its checks.
    show: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        limits: Limits {
            progress: true,
            ..Limits::default()
        },
        files: None,
        gradients: false,
        windows: false,
        native: 5,
        show: false,
    };
    let limits = &mut found.limits;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| -> Result<u64, String> {
            text.parse()
                .map_err(|_| format!("`{text}` is not a number"))
        };
        match word.as_str() {
            "--seconds" => limits.time = Duration::from_secs(number(value()?)?),
            "--seed" => limits.first_seed = number(value()?)?,
            "--programs" => limits.attempts = number(value()?)?,
            "--threads" => limits.threads = number(value()?)? as usize,
            "--native" => found.native = number(value()?)? as usize,
            "--files" => found.files = Some(value()?.into()),
            "--gradients" => found.gradients = true,
            "--windows" => found.windows = true,
            "--folder" => limits.folder = value()?.into(),
            "--keep-going" => limits.keep_going = true,
            "--show" => found.show = true,
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(found)
}

fn write(folder: &Path, seed: u64, finding: &Finding) {
    let path = folder.join(format!("seed_{seed}.wir"));
    println!("seed {seed}: {}", finding.why);
    match std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, &finding.file)) {
        Ok(()) => println!("  written to {}", path.display()),
        Err(why) => println!("  cannot write {}: {why}", path.display()),
    }
}

fn run(campaign: &impl Campaign, limits: &Limits) -> ExitCode {
    fuzz::quiet();
    let tally = fuzz::run(campaign, limits, |seed, finding| {
        write(&limits.folder, seed, &finding)
    });
    println!("{tally}");
    if tally.failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let Arguments { native, limits, .. } = &arguments;
    if arguments.show {
        let describe = if arguments.gradients {
            fuzz::describe_gradient
        } else {
            fuzz::describe
        };
        print!("{}", describe(limits.first_seed));
        return ExitCode::SUCCESS;
    }
    if arguments.gradients {
        return run(&RandomGradients { native: *native }, limits);
    }
    if arguments.windows {
        return run(&RandomWindows, limits);
    }
    match &arguments.files {
        None => run(&RandomPrograms { native: *native }, limits),
        Some(folder) => match Corpus::load(folder) {
            Ok(corpus) => run(&MutatedFiles { corpus }, limits),
            Err(why) => {
                eprintln!("cannot read {}: {why}", folder.display());
                ExitCode::FAILURE
            }
        },
    }
}
