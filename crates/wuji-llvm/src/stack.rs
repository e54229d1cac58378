//! The stack that tasks need, with everything that they call.
//!
//! On a CPU, LLVM reports the frame of every function for which it makes machine code, with everything that is spilled. The
//! runtime runs a task on threads whose stack has room for it.
//!
//! On a GPU, the driver allocates a stack of fixed size for every thread, and cannot tell how much a recursive kernel needs. A frame
//! has the local arrays of a function, the registers that it saves and those that are spilled. The latter two are at most the
//! registers of the PTX that are live at the same time.

use std::collections::{HashMap, HashSet};
use wuji_ir::module::MAX_CALL_DEPTH;
use wuji_ir::{Error, Result};

/// The most bytes of stack that a task takes on a CPU, with everything that it calls.
pub const MOST_STACK: u64 = 6 << 20;

/// The return address, alignment, and registers that only machine code has.
const FRAME: u64 = 96;

/// The same on a CPU, where a frame may be aligned twice to vectors of 64 bytes.
const CPU_FRAME: u64 = 160;

/// The frame of a function on a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) bytes: u64,
    /// Whether the function calls itself, directly or not.
    pub(crate) recursive: bool,
}

impl Frame {
    /// The attribute that makes LLVM report the frame of a function: a limit that nearly every frame exceeds. The report contains the
    /// limit, which says whether the function is recursive.
    pub(crate) fn request(recursive: bool) -> (&'static str, &'static str) {
        ("warn-stack-size", if recursive { "1" } else { "0" })
    }

    /// `<unknown>:0:0: stack frame size (9000) exceeds limit (0) in function 'wuji.kernel.f'`
    pub(crate) fn reported(text: &str) -> Option<Frame> {
        let text = text.trim_end().split_once("stack frame size (")?.1;
        let (bytes, text) = text.split_once(") exceeds limit (")?;
        let (limit, text) = text.split_once(") in function '")?;
        Some(Frame {
            function: text.strip_suffix('\'')?.to_owned(),
            bytes: bytes.parse().ok()?,
            recursive: limit == "1",
        })
    }
}

/// The frames of functions, and those of recursive ones as often as they may be nested.
fn nested(frames: impl Iterator<Item = (u64, bool)>) -> u64 {
    // Activations of different recursive functions count together.
    let (mut once, mut deepest) = (0u64, 0);
    for (bytes, recursive) in frames {
        if recursive {
            deepest = bytes.max(deepest);
        } else {
            once = once.saturating_add(bytes);
        }
    }
    let depth = u64::from(MAX_CALL_DEPTH) + 2;
    once.saturating_add(deepest.saturating_mul(depth))
}

/// Bytes of stack for a task, from its own frame and those of functions that it may call.
pub(crate) fn task_stack(symbol: &str, own: Option<&Frame>, called: &[&Frame]) -> Result<u64> {
    let frames = own.iter().chain(called);
    let bytes = nested(frames.map(|f| (f.bytes + CPU_FRAME, f.recursive)));
    if bytes <= MOST_STACK {
        return Ok(bytes);
    }
    let name = symbol.strip_prefix("wuji.").unwrap_or(symbol);
    Err(Error::new(
        "W0331",
        format!(
            "the variables of `{name}` and of what it calls take {bytes} bytes; at most {MOST_STACK} fit on the stack"
        ),
    )
    .note("a function that calls itself is on the stack many times")
    .help("keep the data in a field, or make vectors, matrices and arrays smaller"))
}

/// Bytes per thread of a GPU for all calls that may be nested; 0 without recursion.
pub(crate) fn bytes(ptx: &str) -> usize {
    let functions = Function::all(ptx);
    let recursive = |f: &Function| reaches(&functions, f, f.name);
    if !functions.iter().any(recursive) {
        return 0;
    }
    let frames = functions.iter().map(|f| {
        let frame = FRAME + f.locals() + f.most_live();
        (frame, recursive(f))
    });
    usize::try_from(nested(frames)).unwrap_or(usize::MAX)
}

/// Whether a call of `from` may call the function `to`.
fn reaches(functions: &[Function<'_>], from: &Function<'_>, to: &str) -> bool {
    let mut seen = HashSet::new();
    let mut work = from.calls();
    while let Some(name) = work.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            let callee = functions.iter().find(|f| f.name == name);
            work.extend(callee.into_iter().flat_map(Function::calls));
        }
    }
    false
}

/// A function with a body, in lines without comments.
struct Function<'a> {
    name: &'a str,
    body: Vec<&'a str>,
}

impl<'a> Function<'a> {
    fn all(ptx: &'a str) -> Vec<Function<'a>> {
        let mut functions = Vec::new();
        let mut name = None;
        let mut lines = ptx.lines();
        while let Some(line) = lines.next() {
            if line.contains(".func") || line.contains(".entry") {
                name = named(line);
            } else if line == ";" {
                // It is only declared.
                name = None;
            } else if line == "{"
                && let Some(name) = name.take()
            {
                let body = lines.by_ref().take_while(|line| *line != "}");
                let code = |line: &'a str| line.split("//").next().unwrap_or(line).trim();
                let body = body.map(code).collect();
                functions.push(Function { name, body });
            }
        }
        functions
    }

    /// Bytes of the local arrays.
    fn locals(&self) -> u64 {
        let locals = self.body.iter().filter(|line| line.starts_with(".local"));
        let bytes =
            locals.filter_map(|line| line.split_once('[')?.1.split_once(']')?.0.parse().ok());
        bytes.fold(0, u64::saturating_add)
    }

    /// The functions that it calls.
    fn calls(&self) -> Vec<&'a str> {
        let calls = self
            .body
            .iter()
            .filter(|line| operation(line).starts_with("call"));
        // `call.uni (result), name, (argument);`
        let name = |line: &&'a str| {
            let mut words = line.split([' ', '\t', ',', ';']).filter(|w| !w.is_empty());
            words.find(|w| !w.starts_with(['@', '(', '%']) && !w.starts_with("call"))
        };
        calls.filter_map(name).collect()
    }

    /// The most bytes in registers that are live at the same time.
    fn most_live(&self) -> u64 {
        let code = Code::of(&self.body);
        let before = code.live_before();
        (0..code.blocks.len())
            .map(|block| code.walk(block, &before).1)
            .max()
            .unwrap_or(0)
    }
}

/// `foo` of `.func  (.param .b64 result) foo(`, and of `.visible .entry foo(`.
fn named(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(".func").or(line.split_once(".entry"))?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start(),
        None => rest,
    };
    rest.split(['(', ' ']).next()
}

/// The operation of a line: `add.s32` of `@%p1 add.s32 %r1, %r2, 1;`.
fn operation(line: &str) -> &str {
    let words = line.split_whitespace();
    let mut words = words.skip_while(|word| word.starts_with('@'));
    words.next().unwrap_or("").trim_end_matches(';')
}

/// Registers in a text: `%rd12`.
fn registers(text: &str) -> impl Iterator<Item = &str> {
    text.split('%').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// The letters of a register: `rd` of `rd12`.
fn class(register: &str) -> &str {
    register.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Operations without a result.
const NO_RESULT: [&str; 12] = [
    "st", "bra", "brx", "ret", "call", "red", "bar", "barrier", "exit", "trap", "fence", "membar",
];

struct Instruction<'a> {
    /// Registers that are overwritten; none if that depends on a predicate.
    result: Vec<&'a str>,
    used: Vec<&'a str>,
}

impl<'a> Instruction<'a> {
    fn of(line: &'a str) -> Instruction<'a> {
        let operation = operation(line);
        let kind = operation.split('.').next().unwrap_or("");
        let all = || registers(line).collect();
        if line.starts_with('@') || NO_RESULT.contains(&kind) {
            let (result, used) = (Vec::new(), all());
            return Instruction { result, used };
        }
        let operands = line[operation.len()..].trim_start();
        let end = if operands.starts_with('{') { '}' } else { ',' };
        let (first, rest) = operands.split_once(end).unwrap_or((operands, ""));
        Instruction {
            result: registers(first).collect(),
            used: registers(rest).collect(),
        }
    }
}

#[derive(Default)]
struct Block<'a> {
    instructions: Vec<Instruction<'a>>,
    successors: Vec<usize>,
}

type Live<'a> = HashSet<&'a str>;

/// Basic blocks in order.
struct Code<'a> {
    blocks: Vec<Block<'a>>,
    /// Bytes of a register of each class.
    sizes: HashMap<&'a str, u64>,
}

impl<'a> Code<'a> {
    fn of(body: &[&'a str]) -> Code<'a> {
        let mut sizes = HashMap::new();
        let mut labels = HashMap::new();
        let mut blocks = vec![Block::default()];
        // The targets of the branch at the end of each block, and whether the next block follows it.
        let mut ends: Vec<(Vec<&str>, bool)> = vec![(Vec::new(), true)];
        for line in body.iter().copied() {
            if let Some(declared) = line.strip_prefix(".reg") {
                let bytes = if declared.contains("64") { 8 } else { 4 };
                sizes.extend(registers(declared).map(|register| (class(register), bytes)));
            } else if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, blocks.len());
                blocks.push(Block::default());
                ends.push((Vec::new(), true));
            } else if !line.is_empty() && !line.starts_with(['.', '{', '}', '$']) {
                let last = blocks.len() - 1;
                blocks[last].instructions.push(Instruction::of(line));
                let kind = operation(line).split('.').next().unwrap_or("");
                if matches!(kind, "bra" | "brx" | "ret" | "exit" | "trap") {
                    let target = line.split('$').nth(1).map(|t| t.trim_end_matches(';'));
                    ends[last] = (target.into_iter().collect(), line.starts_with('@'));
                    blocks.push(Block::default());
                    ends.push((Vec::new(), true));
                }
            }
        }
        let count = blocks.len();
        for (k, (targets, continues)) in ends.into_iter().enumerate() {
            let found = |target: &&str| labels.get(format!("${target}").as_str()).copied();
            // A table of targets has no label: all blocks may follow.
            let all = !targets.is_empty() && targets.iter().any(|t| found(t).is_none());
            let next = (continues && k + 1 < count).then_some(k + 1);
            blocks[k].successors = if all {
                (0..count).collect()
            } else {
                targets.iter().filter_map(found).chain(next).collect()
            };
        }
        Code { blocks, sizes }
    }

    /// The registers that are live at the start of each block.
    fn live_before(&self) -> Vec<Live<'a>> {
        let mut before = vec![Live::new(); self.blocks.len()];
        loop {
            let mut changed = false;
            for block in (0..self.blocks.len()).rev() {
                let (live, _) = self.walk(block, &before);
                changed |= live.len() != before[block].len();
                before[block] = live;
            }
            if !changed {
                return before;
            }
        }
    }

    /// The registers that are live before a block, and the most bytes of those that are live in it at the same time.
    fn walk(&self, block: usize, before: &[Live<'a>]) -> (Live<'a>, u64) {
        let bytes = |register: &&str| self.sizes.get(class(register)).copied().unwrap_or(0);
        let block = &self.blocks[block];
        let after = block.successors.iter().flat_map(|next| &before[*next]);
        let mut live: Live<'a> = after.copied().collect();
        let mut size: u64 = live.iter().map(bytes).sum();
        let mut most = size;
        for instruction in block.instructions.iter().rev() {
            for register in &instruction.result {
                if live.remove(register) {
                    size -= bytes(register);
                }
            }
            for register in &instruction.used {
                if live.insert(register) {
                    size += bytes(register);
                }
            }
            most = most.max(size);
        }
        (live, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function that calls itself while `r2` and `d1` are live, and 40 bytes of a local array are in use.
    const TEXT: &str = "
.func (.param .b32 result) deep
(
\t.param .b32 n
)
;
.visible .entry k(
\t.param .u64 out
)
{
\t.reg .b32 \t%r<3>;
\tmov.b32 \t%r1, 5;
\tcall.uni (retval0), deep, (param0);
\tret;
}
.func (.param .b32 result) deep(
\t.param .b32 n
)
{
\t.local .align 8 .b8 \t__local_depot0[40];
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<5>;
\t.reg .b64 \t%rd<3>;
\tld.param.b32 \t%r1, [n];
\tcvt.u64.u32 \t%rd1, %r1;
\tadd.s32 \t%r2, %r1, 1;
\tsetp.lt.s32 \t%p1, %r1, 1;
\t@%p1 bra \t$L__BB1_2;
\t{ // callseq 0, 0
\tst.param.b32 \t[param0], %r2;
\tcall.uni (retval0), deep, (param0);
\tld.param.b32 \t%r3, [retval0];
\t} // callseq 0
\tadd.s32 \t%r2, %r3, %r2;
$L__BB1_2:
\tcvt.u32.u64 \t%r4, %rd1;
\tadd.s32 \t%r4, %r4, %r2;
\tst.param.b32 \t[result], %r4;
\tret;
}
";

    #[test]
    fn frames_have_arrays_and_live_registers() {
        let functions = Function::all(TEXT);
        let names: Vec<&str> = functions.iter().map(|f| f.name).collect();
        assert_eq!(names, ["k", "deep"]);
        assert_eq!(functions[0].calls(), ["deep"]);
        assert_eq!((functions[0].locals(), functions[1].locals()), (0, 40));
        // At the comparison: `rd1`, `r1` and `r2`; before the branch `p1` instead of `r1`; after the call `r3`.
        assert_eq!(functions[1].most_live(), 16);
    }

    #[test]
    fn frames_are_what_llvm_reports() {
        let text =
            "<unknown>:0:0: stack frame size (9000) exceeds limit (1) in function 'wuji.it's.f'\n";
        let frame = Frame::reported(text).unwrap();
        assert_eq!((frame.bytes, frame.recursive), (9000, true));
        assert_eq!(frame.function, "wuji.it's.f");
        assert_eq!(Frame::reported("stack frame size (1)"), None);
    }

    #[test]
    fn a_task_has_room_for_what_it_calls() {
        let frame = |function: &str, bytes, recursive| Frame {
            function: function.into(),
            bytes,
            recursive,
        };
        let own = frame("wuji.k.0", 1 << 20, false);
        let called = [
            frame("wuji.k.f", 1000, true),
            frame("wuji.k.g", 2000, true),
            frame("wuji.k.h", 300, false),
        ];
        let called: Vec<&Frame> = called.iter().collect();
        let depth = u64::from(MAX_CALL_DEPTH) + 2;
        let stack = task_stack("wuji.k.0", Some(&own), &called).unwrap();
        assert_eq!(
            stack,
            (1 << 20) + 300 + 2 * CPU_FRAME + depth * (2000 + CPU_FRAME)
        );
        let many: Vec<&Frame> = (0..5).map(|_| &own).collect();
        let error = task_stack("wuji.k.0", Some(&own), &many).unwrap_err();
        assert_eq!(
            error.message,
            "the variables of `k.0` and of what it calls take 6292416 bytes; at most 6291456 fit on the stack"
        );
    }

    #[test]
    fn the_stack_has_room_for_all_nested_calls() {
        let depth = MAX_CALL_DEPTH as usize + 2;
        let frames = (FRAME as usize) + depth * (FRAME as usize + 40 + 16);
        assert_eq!(bytes(TEXT), frames);
        let without = TEXT.replace("\tcall.uni (retval0), deep, (param0);\n\tld", "\tld");
        assert_eq!(bytes(&without), 0);
    }
}
