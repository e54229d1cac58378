//! Mutated textual IR: what a text may become, and what must hold for it.
//!
//! A damaged file is refused with a coded error.
//! A file that is still a module compiles or is refused, and its results do not depend on passes.

use super::check::{self, Kind, Outcome};
use super::dice::Dice;
use super::inputs;
use super::observe::{Observation, interpret, reference};
use super::program::Program;
use std::ops::RangeInclusive;
use std::path::Path;
use wuji_compile::{Cx, Math, Options, PASSES, Pass, run_pass};
use wuji_ir::interp::Order;
use wuji_ir::module::{InstData, Module};
use wuji_ir::ops::{AtomicOp, Op};
use wuji_ir::text::parse;
use wuji_ir::verify::verify;
use wuji_ir::{Error, codes};
use wuji_tools::script::elements;

/// Longer texts are cut off: time goes into many short ones.
const MAX_LINES: usize = 120;
/// A mutated program that runs for longer is not compared.
const MAX_STEPS: u64 = 20_000;
const MAX_LOWERED_STEPS: u64 = MAX_STEPS * 200;

/// Texts to mutate, and the words that occur in them.
#[derive(Debug)]
pub struct Corpus {
    texts: Vec<String>,
    words: Vec<String>,
}

impl Corpus {
    /// Every `.wir` file below a folder, without comments.
    pub fn load(folder: &Path) -> std::io::Result<Corpus> {
        let mut texts = Vec::new();
        for path in crate::filetest::find(folder)? {
            let text = std::fs::read_to_string(path)?;
            let code = |line: &&str| !line.trim_start().starts_with(';') && !line.trim().is_empty();
            let lines: Vec<&str> = text.lines().filter(code).take(MAX_LINES).collect();
            texts.push(lines.join("\n"));
        }
        let mut words: Vec<String> = texts
            .iter()
            .flat_map(|text| tokens(text))
            .filter(|word| !word.trim().is_empty())
            .map(str::to_owned)
            .collect();
        words.sort();
        words.dedup();
        Ok(Corpus { texts, words })
    }

    /// One text with one to four mutations.
    pub(super) fn mutated(&self, dice: &mut Dice) -> String {
        let mut text = dice.pick(&self.texts).clone();
        for _ in 0..*dice.pick(&[1, 1, 1, 2, 2, 4]) {
            text = self.mutate(&text, dice);
        }
        text
    }

    /// A word of the same kind: another name of the same prefix, or another word without a number.
    fn alike(&self, word: &str, dice: &mut Dice) -> String {
        let (prefix, number) = split_number(word);
        let Some(number) = number else {
            let alike: Vec<&String> = self
                .words
                .iter()
                .filter(|w| split_number(w).1.is_none() && is_name(w) == is_name(word))
                .collect();
            return match alike[..] {
                [] => word.to_owned(),
                _ => dice.pick(&alike).to_string(),
            };
        };
        let near = dice.between(0, 3) as u64;
        let near = if dice.chance(50) {
            number.saturating_sub(near)
        } else {
            number + near
        };
        format!("{prefix}{near}")
    }

    fn mutate(&self, text: &str, dice: &mut Dice) -> String {
        match dice.weighted(&[5, 50, 10, 8, 5, 5, 6, 2, 1, 1]) {
            0 => replace_token(text, dice, |_, dice| dice.pick(&self.words).clone()),
            1 => replace_token(text, dice, |word, dice| self.alike(word, dice)),
            2 => replace_token(text, dice, edge_number),
            3 => edit_lines(text, dice, |lines, at, _| {
                lines.remove(at);
            }),
            4 => edit_lines(text, dice, |lines, at, _| lines.insert(at, lines[at])),
            5 => edit_lines(text, dice, |lines, at, dice| {
                let other = dice.below(lines.len());
                lines.swap(at, other);
            }),
            6 => {
                let other = dice.pick(&self.texts);
                edit_lines(text, dice, |lines, at, dice| {
                    let donor: Vec<&str> = other.lines().collect();
                    if !donor.is_empty() {
                        lines.insert(at, donor[dice.below(donor.len())]);
                    }
                })
            }
            7 => edit_char(text, dice),
            8 => text.chars().take(dice.below(text.len())).collect(),
            _ => nested(text, dice),
        }
    }
}

/// Words, numbers, spaces and single signs: together they are the text.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut out = Vec::new();
    let mut start = 0;
    let mut last: Option<char> = None;
    for (at, c) in text.char_indices() {
        let joined = last.is_some_and(|l| {
            (is_word(l) && is_word(c)) || (l.is_whitespace() && c.is_whitespace())
        });
        if !joined && at > start {
            out.push(&text[start..at]);
            start = at;
        }
        last = Some(c);
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic())
}

/// A small number at the end of a word, and what is before it.
fn split_number(word: &str) -> (&str, Option<u64>) {
    let prefix = word.trim_end_matches(|c: char| c.is_ascii_digit());
    (
        prefix,
        word[prefix.len()..].parse().ok().filter(|n| *n < 1000),
    )
}

fn replace_token(text: &str, dice: &mut Dice, new: impl Fn(&str, &mut Dice) -> String) -> String {
    let parts = tokens(text);
    let solid: Vec<usize> = (0..parts.len())
        .filter(|k| !parts[*k].trim().is_empty())
        .collect();
    if solid.is_empty() {
        return new("", dice);
    }
    let chosen = *dice.pick(&solid);
    let mut out = String::with_capacity(text.len() + 16);
    for (k, part) in parts.iter().enumerate() {
        if k == chosen {
            out += &new(part, dice);
        } else {
            out += part;
        }
    }
    out
}

/// A number at the edge of some range, with the suffix that the word had.
fn edge_number(word: &str, dice: &mut Dice) -> String {
    const EDGES: [&str; 16] = [
        "0",
        "1",
        "-1",
        "2",
        "7",
        "255",
        "256",
        "65536",
        "2147483647",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1e400",
        "nan",
    ];
    let edge = *dice.pick(&EDGES);
    let suffix = [
        "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64",
    ]
    .into_iter()
    .find(|s| word.ends_with(s) && word.len() > s.len())
    .unwrap_or("");
    let prefix = ["v", "f", "a", "S", "r", "p", "fn", "l", "T"]
        .into_iter()
        .find(|p| {
            word.strip_prefix(p)
                .is_some_and(|n| n.parse::<u64>().is_ok())
        })
        .unwrap_or("");
    format!("{prefix}{edge}{suffix}")
}

fn edit_lines<'a>(
    text: &'a str,
    dice: &mut Dice,
    edit: impl FnOnce(&mut Vec<&'a str>, usize, &mut Dice),
) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    let at = dice.below(lines.len());
    edit(&mut lines, at, dice);
    lines.join("\n")
}

fn edit_char(text: &str, dice: &mut Dice) -> String {
    const SIGNS: [char; 14] = [
        '{', '}', '(', ')', '[', ']', '"', '\\', '%', '\0', 'é', '∞', '\u{202e}', '\t',
    ];
    let mut chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return String::new();
    }
    let at = dice.below(chars.len());
    if dice.chance(50) {
        chars.insert(at, *dice.pick(&SIGNS));
    } else {
        chars[at] = *dice.pick(&SIGNS);
    }
    chars.into_iter().collect()
}

/// One sign or line repeated until a recursive reader would run out of stack.
fn nested(text: &str, dice: &mut Dice) -> String {
    let times = *dice.pick(&[300, 3000, 100_000]);
    let at = dice.below(text.len());
    let at = (0..=at)
        .rev()
        .find(|k| text.is_char_boundary(*k))
        .unwrap_or(0);
    let sign = *dice.pick(&["(", "[", "{", "-", "block b {\n", "struct ", "\"", "9"]);
    format!("{}{}{}", &text[..at], sign.repeat(times), &text[at..])
}

/// How far a mutated text got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reached {
    Refused,
    /// It is a module, and compiles or is refused.
    Compiled,
    /// Its results were compared.
    Compared,
}

/// A text that something gets wrong.
#[derive(Clone, Debug)]
pub struct Damage {
    pub(super) kind: Kind,
    pub why: String,
    pub text: String,
}

/// Checks one text: no panic, coded errors, printing and parsing, and the same results after all passes.
pub(super) fn check_text(text: &str, seed: u64) -> Result<Reached, Damage> {
    let mut reached = Reached::Refused;
    let outcome = check::guarded(|| {
        reached = examine(text, seed)?;
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(reached),
        Err((kind, why)) => Err(Damage {
            kind,
            why,
            text: text.to_owned(),
        }),
    }
}

/// A refusal is as it should be if its code is in the index and it can be shown.
fn refused(error: &Error) -> Outcome {
    let text = error.to_string();
    if codes::find(error.code).is_none() {
        return Err((Kind::Error(format!("unknown code {}", error.code)), text));
    }
    if INTERNAL.contains(&error.code) {
        return Err((Kind::Error(format!("internal error {}", error.code)), text));
    }
    Ok(())
}

/// Errors that only a defect of the compiler causes.
const INTERNAL: [&str; 2] = ["W0302", "W0330"];

fn examine(text: &str, seed: u64) -> Result<Reached, (Kind, String)> {
    let module = match parse(text, "mutated").and_then(|m| verify(&m).map(|()| m)) {
        Ok(module) => module,
        Err(e) => return refused(&e).map(|()| Reached::Refused),
    };
    let printed = module.to_string();
    let again = parse(&printed, "printed").map_err(|e| (Kind::Different, e.to_string()))?;
    if again.to_string() != printed {
        return Err((Kind::Different, "another text came back".to_owned()));
    }
    // Later stages are inputs of single passes, not of the compiler.
    if module.kernel.is_none() || !module.tasks.is_empty() {
        return Ok(Reached::Compiled);
    }
    let mut dice = Dice::new(seed);
    let options = Options {
        math: Math::Strict,
        vector_bits: 128,
        debug: dice.chance(20),
        tasks_from: dice.chance(50).then_some(0),
        ..Options::default()
    };
    let Some(inputs) = inputs::small(&module, &mut dice) else {
        compile(module, &options, PASSES)?;
        return Ok(Reached::Compiled);
    };
    // In debug mode, `overflow` adds checks: what is expected is what the module does with them.
    let checked = PASSES.iter().position(|pass| pass.name == "overflow");
    let (first, rest) = PASSES.split_at(checked.filter(|_| options.debug).map_or(0, |at| at + 1));
    let promises = promises(&module);
    let Some(module) = compile(module, &options, first)? else {
        return Ok(Reached::Compiled);
    };
    let program = Program { module, inputs };
    // Programs that fail, run for too long or depend on the order of iterations are only compiled.
    let expected = reference(&program, MAX_STEPS).ok().filter(|seen| {
        !promises && !sums_floats(&program.module) && agrees_in_orders(&program, seen, 1..=2)
    });
    let Some(lowered) = compile(program.module.clone(), &options, rest)? else {
        return Ok(Reached::Compiled);
    };
    let Some(expected) = expected.filter(|_| elements::is_runnable(&lowered, true)) else {
        return Ok(Reached::Compiled);
    };
    let movers = match program.inputs.sparse[..] {
        [] => None,
        _ => Some(
            elements::LoweredMovers::new(&program.module, &options)
                .map_err(|e| check::error(&e))?,
        ),
    };
    let order = Order::Shuffled(dice.bits());
    let found = interpret(
        &lowered,
        true,
        order,
        &program.inputs,
        MAX_LOWERED_STEPS,
        movers.as_ref(),
    )
    .map_err(|e| check::error(&e))?;
    match check::compare(found, &expected) {
        Ok(()) => Ok(Reached::Compared),
        // Two orders that agree by chance are common, many are not.
        Err(_) if !agrees_in_orders(&program, &expected, 3..=66) => Ok(Reached::Compiled),
        Err(why) => Err(why),
    }
}

/// Whether the interpreter sees the same in several random orders of iterations.
fn agrees_in_orders(
    program: &Program,
    expected: &Observation,
    mut orders: RangeInclusive<u64>,
) -> bool {
    orders.all(|order| {
        let found = interpret(
            &program.module,
            false,
            Order::Shuffled(order),
            &program.inputs,
            MAX_STEPS,
            None,
        );
        found.is_ok_and(|found| found.difference(expected).is_none())
    })
}

/// Whether a program says of numbers that they are unique: in a mutated one they are not, and that is a data race.
fn promises(module: &Module) -> bool {
    let hint = |inst: &InstData| matches!(inst.op, Op::Unique(_));
    module.funcs.values().any(|f| f.insts.values().any(hint))
}

/// Whether a result may depend on the order in which floats are summed.
fn sums_floats(module: &Module) -> bool {
    module.funcs.values().any(|f| {
        f.insts.values().any(|inst| {
            let sum = matches!(inst.op, Op::Atomic(AtomicOp::Add | AtomicOp::Mul, _));
            sum && inst.args.last().is_some_and(|operand| {
                let scalars = module.structs.flatten(f.ty(*operand));
                scalars.into_iter().any(|s| s.is_float())
            })
        })
    })
}

/// Takes a module through passes; `None` where one refuses it.
fn compile(
    mut module: Module,
    options: &Options,
    passes: &[Pass],
) -> Result<Option<Module>, (Kind, String)> {
    let mut cx = Cx::new(options);
    for pass in passes {
        if !cx.wants(pass) {
            continue;
        }
        if let Err(e) = run_pass(pass.name, &mut module, &mut cx) {
            return refused(&e).map(|()| None);
        }
        verify(&module).map_err(|e| {
            let (kind, why) = check::error(&e);
            (kind, format!("after {}: {why}", pass.name))
        })?;
    }
    Ok(Some(module))
}

/// The text without every part that the failure does not need: first lines, then words.
pub(super) fn shrink(damage: Damage, seed: u64) -> Damage {
    let fails = |text: &str| match check_text(text, seed) {
        Err(found) if found.kind == damage.kind => Some(found),
        Ok(_) | Err(_) => None,
    };
    let mut best = damage.clone();
    for split in [lines_of, tokens] {
        let mut size = split(&best.text).len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            loop {
                let parts = split(&best.text);
                if at >= parts.len() {
                    break;
                }
                let end = (at + size).min(parts.len());
                let smaller = parts[..at].concat() + &parts[end..].concat();
                match fails(&smaller) {
                    Some(found) => best = found,
                    None => at += size,
                }
            }
            size /= 2;
        }
    }
    best
}

fn lines_of(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_whole_text() {
        for text in ["", "  v0 = add.f32 v1,\t-2.5f32\n}", "é∞ \"x"] {
            assert_eq!(tokens(text).concat(), text);
        }
    }

    #[test]
    fn programs_that_depend_on_the_order_are_not_compared() {
        // Minima and maxima of one element do not commute; two random orders agree for some inputs.
        let text = "tree T0 { dense S1[i: 4] { place f0 } }
            field f0: i8 in T0.S1(i)
            tree T1 { dense S1[i: 4] { place f1 } }
            field f1: i8 in T1.S1(i)
            kernel fn0() {
              v2: i32 = const 2
              foreach L0(v4: i32) in f1 {
                v5: i8 = load f1[v4]
                v8: i8 = atomic min f0[v2], v5
                v9: i8 = atomic max f0[v5], v5
                continue L0
              }
              return
            }";
        for seed in 0..300 {
            let reached = check_text(text, seed).map_err(|damage| damage.why);
            assert!(
                matches!(reached, Ok(Reached::Compiled | Reached::Compared)),
                "{seed}: {reached:?}"
            );
        }
    }

    #[test]
    fn mutations_depend_on_the_seed_alone() {
        let corpus = Corpus {
            texts: vec!["kernel {\n  v0 = 1i32\n}".to_owned()],
            words: vec!["foreach".to_owned()],
        };
        for seed in 0..200 {
            let first = corpus.mutated(&mut Dice::new(seed));
            assert_eq!(first, corpus.mutated(&mut Dice::new(seed)));
        }
    }
}
