//! What a computation does, as a graph: inputs, nodes, outputs.

use crate::arena::{Arena, Id, Node};
use crate::op::Op;
use crate::recording::{Recorder, too_large};
use crate::sym::Sym;
use std::fmt::{self, Write};
use wuji_ir::{Error, Result};

/// A recorded computation.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(crate) arena: Arena,
    /// How many elements each input has.
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<Vec<Id>>,
    /// Values to compute together.
    pub(crate) blocks: Vec<Vec<Id>>,
}

/// The size of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Nodes, all of which are different.
    pub nodes: usize,
    /// Bytes of the nodes.
    pub bytes: usize,
    /// How many nodes each operation has, without operations that have none.
    pub operations: Vec<(Op, usize)>,
    /// The longest path from an input to an output.
    pub depth: u32,
    /// Elements of all inputs and outputs.
    pub inputs: usize,
    /// Elements of all outputs.
    pub outputs: usize,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, bytes) = (self.nodes, self.bytes);
        write!(f, "{n} nodes in {bytes} bytes, depth {}", self.depth)?;
        writeln!(f, ", {} inputs, {} outputs", self.inputs, self.outputs)?;
        for (op, count) in &self.operations {
            writeln!(f, "{count:>12} {}", op.name())?;
        }
        Ok(())
    }
}

/// Drawings of more nodes cannot be read.
const MOST_DRAWN: usize = 1000;

pub(crate) fn length(n: usize) -> Result<u32> {
    // Tables of positions have signed 32-bit numbers.
    u32::try_from(n)
        .ok()
        .filter(|n| *n <= i32::MAX as u32)
        .ok_or_else(|| {
            let what = format!("an input or output of a trace has {n} elements");
            Error::new("W0805", what).help("trace at most 2147483647 elements at once")
        })
}

impl Trace {
    /// Records what a function computes from inputs with these numbers of elements.
    pub fn record(
        lengths: &[usize],
        compute: impl FnOnce(&[Vec<Sym>]) -> Vec<Vec<Sym>>,
    ) -> Result<Trace> {
        let (trace, ()) = Trace::record_with(lengths, |x| (compute(x), ()))?;
        Ok(trace)
    }

    /// As [`Trace::record`]; also gives what the function returns beside its outputs.
    pub(crate) fn record_with<R>(
        lengths: &[usize],
        compute: impl FnOnce(&[Vec<Sym>]) -> (Vec<Vec<Sym>>, R),
    ) -> Result<(Trace, R)> {
        let mut recorder = Recorder::new(lengths)?;
        let inputs = recorder.inputs();
        let (outputs, rest) = recorder.record(|| compute(&inputs))?;
        Ok((recorder.finish(&outputs)?, rest))
    }

    /// Records parts of a computation on threads of their own. Its outputs are those of the parts, one after the other.
    pub fn record_parallel(
        lengths: &[usize],
        parts: usize,
        compute: impl Fn(usize, &[Vec<Sym>]) -> Vec<Vec<Sym>> + Sync,
    ) -> Result<Trace> {
        let recorded: Vec<Result<Trace>> = std::thread::scope(|scope| {
            let compute = &compute;
            let threads: Vec<_> = (0..parts)
                .map(|part| scope.spawn(move || Trace::record(lengths, |x| compute(part, x))))
                .collect();
            threads.into_iter().map(crate::parallel::join).collect()
        });
        let mut whole = Trace::record(lengths, |_| Vec::new())?;
        for part in recorded {
            whole.append(&part?);
        }
        if whole.arena.is_full() {
            return Err(too_large());
        }
        whole.arena.freeze();
        Ok(whole)
    }

    /// Adds the nodes and outputs of another trace of the same inputs.
    fn append(&mut self, other: &Trace) {
        let mut new: Vec<Id> = Vec::with_capacity(other.arena.len());
        for id in other.arena.ids() {
            let (op, a, b) = other.arena.raw(id);
            let moved = match op.arity() {
                0 => self.arena.intern(op, a, b),
                1 => self.arena.intern(op, new[a as usize].0, 0),
                _ => {
                    let (mut a, mut b) = (new[a as usize], new[b as usize]);
                    if op.commutes() && a > b {
                        std::mem::swap(&mut a, &mut b);
                    }
                    self.arena.intern(op, a.0, b.0)
                }
            };
            new.push(moved);
        }
        let moved = |ids: &Vec<Id>| ids.iter().map(|id| new[id.at()]).collect();
        self.outputs.extend(other.outputs.iter().map(moved));
        self.blocks.extend(other.blocks.iter().map(moved));
    }

    /// The nodes.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// How many elements each input has.
    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    /// The nodes of each output.
    pub fn outputs(&self) -> &[Vec<Id>] {
        &self.outputs
    }

    /// Values of the outputs, computed in `f64` node by node.
    pub fn evaluate(&self, inputs: &[&[f64]]) -> Result<Vec<Vec<f64>>> {
        let given: Vec<usize> = inputs.iter().map(|x| x.len()).collect();
        if !(given.iter().copied()).eq(self.inputs.iter().map(|n| *n as usize)) {
            let what = format!(
                "a trace of inputs with {:?} elements was given {given:?}",
                self.inputs
            );
            return Err(Error::new("W0803", what));
        }
        let values = self
            .arena
            .evaluate(|array, index| inputs[array as usize][index as usize]);
        let of = |ids: &Vec<Id>| ids.iter().map(|id| values[id.at()]).collect();
        Ok(self.outputs.iter().map(of).collect())
    }

    /// A number that is the same for equal traces, and almost always different for others.
    pub fn fingerprint(&self) -> u64 {
        self.digest()[0]
    }

    /// As [`Trace::fingerprint`], with as many bits as files need that are found by it alone.
    pub(crate) fn digest(&self) -> [u64; 2] {
        let mut hash = [0u64, 0x9e37_79b9_7f4a_7c15];
        let mut add = |n: u64| {
            hash[0] = crate::hash::mix(hash[0].rotate_left(5) ^ n);
            hash[1] = (hash[1].rotate_left(23) ^ n).wrapping_mul(0xd6e8_feb8_6659_fd93);
        };
        self.inputs.iter().for_each(|n| add(u64::from(*n)));
        for id in self.arena.ids() {
            let (op, a, b) = self.arena.raw(id);
            add(u64::from(op.code()));
            add(u64::from(a) << 32 | u64::from(b));
        }
        add(self.outputs.len() as u64);
        for list in self.outputs.iter().chain(&self.blocks) {
            add(list.len() as u64);
            list.iter().for_each(|id| add(u64::from(id.0)));
        }
        hash
    }

    /// Numbers about the trace.
    pub fn statistics(&self) -> Statistics {
        let mut counts = vec![0; Op::ALL.len()];
        let mut depth = vec![0u32; self.arena.len()];
        for id in self.arena.ids() {
            counts[usize::from(self.arena.op(id).code())] += 1;
            let below = self.arena.children(id).map(|c| depth[c.at()] + 1).max();
            depth[id.at()] = below.unwrap_or(0);
        }
        let outputs = || self.outputs.iter().flatten();
        let operations = Op::ALL.iter().copied().zip(counts);
        Statistics {
            nodes: self.arena.len(),
            bytes: self.arena.bytes(),
            operations: operations.filter(|o| o.1 > 0).collect(),
            depth: outputs().map(|id| depth[id.at()]).max().unwrap_or(0),
            inputs: self.inputs.iter().map(|n| *n as usize).sum(),
            outputs: outputs().count(),
        }
    }

    /// A drawing for Graphviz, of a small trace.
    pub fn dot(&self) -> Result<String> {
        if self.arena.len() > MOST_DRAWN {
            let what = format!("a trace of {} nodes cannot be drawn", self.arena.len());
            return Err(Error::new("W0805", what).help(format!(
                "draw at most {MOST_DRAWN} nodes, or print `statistics()`"
            )));
        }
        let mut text = String::from("digraph trace {\n");
        for id in self.arena.ids() {
            let label = match self.arena.node(id) {
                Node::Const(value) => format!("{value}"),
                Node::Input { array, index } => format!("x{array}[{index}]"),
                Node::Unary(..)
                | Node::Not(_)
                | Node::Binary(..)
                | Node::Compare(..)
                | Node::Logic(..)
                | Node::Select(..)
                | Node::Pair(..) => self.arena.op(id).name().to_string(),
            };
            let _ = writeln!(text, "  {id} [label=\"{label}\"];");
            for child in self.arena.children(id) {
                let _ = writeln!(text, "  {child} -> {id};");
            }
        }
        for (k, output) in self.outputs.iter().enumerate() {
            for (index, id) in output.iter().enumerate() {
                let _ = writeln!(text, "  y{k}_{index} [shape=box, label=\"y{k}[{index}]\"];");
                let _ = writeln!(text, "  {id} -> y{k}_{index};");
            }
        }
        text += "}\n";
        Ok(text)
    }
}
