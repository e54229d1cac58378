//! Derivatives of traced expressions, as expressions of the same trace.
//!
//! Reverse mode on the graph: the adjoint of a node is the sum of what its users contribute. Nodes are shared, so derivatives share
//! what they have in common with each other and with the values.

use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Compare, Unary};
use crate::recording::{Recording, with_recording};
use crate::sparse::Csr;
use crate::sym::Sym;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::panic::Location;
use wuji_ir::Result;

/// The derivatives of a value by variables: inputs, or other values that are then taken to be independent.
///
/// ```
/// use wuji_symbolic::{Trace, gradient};
/// # fn main() -> wuji::Result<()> {
/// let trace = Trace::record(&[2], |x| {
///     let y = x[0][0] * x[0][0] * x[0][1];
///     vec![gradient(y, &x[0])]
/// })?;
/// assert_eq!(trace.evaluate(&[&[3.0, 5.0]])?, [[30.0, 9.0]]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn gradient(value: Sym, variables: &[Sym]) -> Vec<Sym> {
    let caller = Location::caller();
    let mut all = vec![Sym::new(0.0); variables.len()];
    with_recording(|recording| {
        let stops = stops(recording, variables, caller);
        for (n, derivative) in row(recording, value, &stops, caller) {
            all[n as usize] = derivative;
        }
    });
    // A variable that is given twice has its derivative twice.
    let mut first: FxHashMap<u64, usize> = FxHashMap::default();
    for (n, variable) in variables.iter().enumerate() {
        let original = *first.entry(variable.key()).or_insert(n);
        all[n] = all[original];
    }
    all
}

/// The derivatives of values by variables: a row for each value. Its pattern has the derivatives that are not zero for all values of
/// the inputs.
#[track_caller]
pub fn jacobian(values: &[Sym], variables: &[Sym]) -> Result<Csr<Sym>> {
    let caller = Location::caller();
    let (mut starts, mut indices, mut entries) = (vec![0], Vec::new(), Vec::new());
    with_recording(|recording| {
        let stops = stops(recording, variables, caller);
        for value in values {
            for (n, derivative) in row(recording, *value, &stops, caller) {
                indices.push(n as usize);
                entries.push(derivative);
            }
            starts.push(indices.len());
        }
    });
    starts.resize(values.len() + 1, indices.len());
    Csr::new(values.len(), variables.len(), starts, indices, entries)
}

/// The second derivatives of a value by variables, a symmetric matrix. Its pattern has the derivatives that are not zero for all values
/// of the inputs.
///
/// ```
/// use wuji_symbolic::{Trace, hessian};
/// # fn main() -> wuji::Result<()> {
/// let trace = Trace::record(&[3], |x| {
///     let y = x[0][0] * x[0][0] * x[0][1] + x[0][2];
///     let second = hessian(y, &x[0]).unwrap();
///     assert_eq!(second.triplets().iter().map(|t| (t.0, t.1)).collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0)]);
///     vec![second.values().to_vec()]
/// })?;
/// assert_eq!(trace.evaluate(&[&[3.0, 5.0, 0.0]])?, [[10.0, 6.0, 6.0]]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn hessian(value: Sym, variables: &[Sym]) -> Result<Csr<Sym>> {
    let caller = Location::caller();
    let mut triplets = Vec::new();
    with_recording(|recording| {
        let stops = stops(recording, variables, caller);
        for (n, first) in row(recording, value, &stops, caller) {
            for (m, second) in row(recording, first, &stops, caller) {
                // One half is computed, so the matrix is symmetric to the last bit.
                if m <= n {
                    triplets.push((n as usize, m as usize, second));
                }
                if m < n {
                    triplets.push((m as usize, n as usize, second));
                }
            }
        }
    });
    Csr::from_triplets(variables.len(), variables.len(), &triplets)
}

/// The variables by their nodes. Of equal ones the first counts.
fn stops(
    recording: &mut Recording,
    variables: &[Sym],
    caller: &Location<'_>,
) -> FxHashMap<Id, u32> {
    let mut stops = FxHashMap::default();
    for (n, variable) in (0..).zip(variables) {
        if variable.as_const().is_none() {
            let node = variable.node_at(recording, caller);
            stops.entry(node).or_insert(n);
        }
    }
    stops
}

/// The derivatives of a value that are not zero, by number of the variable.
fn row(
    recording: &mut Recording,
    value: Sym,
    stops: &FxHashMap<Id, u32>,
    caller: &Location<'_>,
) -> Vec<(u32, Sym)> {
    if value.as_const().is_some() {
        return Vec::new();
    }
    let node = value.node_at(recording, caller);
    let found = adjoints(&mut recording.arena, node, stops);
    let symbol = |(n, id)| (n, Sym::of(recording, id));
    found.into_iter().map(symbol).collect()
}

/// Nodes that a value depends on, down to variables; operands first.
fn nodes_of(arena: &Arena, value: Id, stops: &FxHashMap<Id, u32>) -> Vec<Id> {
    let mut seen: FxHashMap<Id, ()> = FxHashMap::default();
    let mut work = vec![value];
    while let Some(id) = work.pop() {
        if seen.insert(id, ()).is_none() && !stops.contains_key(&id) {
            work.extend(arena.children(id));
        }
    }
    let mut nodes: Vec<Id> = seen.into_keys().collect();
    nodes.sort_unstable();
    nodes
}

fn adjoints(arena: &mut Arena, value: Id, stops: &FxHashMap<Id, u32>) -> Vec<(u32, Id)> {
    let nodes = nodes_of(arena, value, stops);
    // Only what depends on a variable has an adjoint.
    let mut adjoint: FxHashMap<Id, Option<Id>> = FxHashMap::default();
    for id in &nodes {
        let depends = |c: Id| adjoint.contains_key(&c);
        if stops.contains_key(id) || arena.children(*id).any(depends) {
            adjoint.insert(*id, None);
        }
    }
    if let Some(seed) = adjoint.get_mut(&value) {
        *seed = Some(arena.constant(1.0));
    }
    let mut found = Vec::new();
    for id in nodes.into_iter().rev() {
        let Some(Some(own)) = adjoint.get(&id).copied() else {
            continue;
        };
        if let Some(number) = stops.get(&id) {
            found.push((*number, own));
            continue;
        }
        let wanted = |c: Id| adjoint.contains_key(&c);
        for (child, part) in contributions(arena, id, own, wanted) {
            if arena.as_const(part) == Some(0.0) {
                continue;
            }
            if let Some(sum) = adjoint.get_mut(&child) {
                *sum = Some(match *sum {
                    Some(sum) => arena.binary(Binary::Add, sum, part),
                    None => part,
                });
            }
        }
    }
    found.retain(|(_, id)| arena.as_const(*id) != Some(0.0));
    found.sort_unstable();
    found
}

type Parts = SmallVec<[(Id, Id); 2]>;

/// What a node contributes to the adjoints of its operands.
fn contributions(arena: &mut Arena, id: Id, own: Id, wanted: impl Fn(Id) -> bool) -> Parts {
    match arena.node(id) {
        // A truth value has no derivative; a `Select` knows its `Pair`.
        Node::Const(_)
        | Node::Input { .. }
        | Node::Not(_)
        | Node::Compare(..)
        | Node::Logic(..)
        | Node::Pair(..) => Parts::new(),
        Node::Unary(op, a) => match unary(arena, op, a, id) {
            Some(factor) => smallvec![(a, arena.binary(Binary::Mul, own, factor))],
            None => Parts::new(),
        },
        Node::Binary(op, a, b) => {
            let mut parts = Parts::new();
            for (operand, first) in [(a, true), (b, false)] {
                if wanted(operand) {
                    let factor = binary(arena, op, (a, b), id, first);
                    parts.push((operand, arena.binary(Binary::Mul, own, factor)));
                }
            }
            parts
        }
        Node::Select(c, a, b) => {
            let zero = arena.constant(0.0);
            let (left, right) = (arena.select(c, own, zero), arena.select(c, zero, own));
            smallvec![(a, left), (b, right)]
        }
    }
}

/// The derivative of an operation by its operand `x`, with the result `r`; `None` where it is zero.
fn unary(m: &mut Arena, op: Unary, x: Id, r: Id) -> Option<Id> {
    let one = m.constant(1.0);
    Some(match op {
        Unary::Neg => m.constant(-1.0),
        Unary::Abs => {
            let (zero, minus) = (m.constant(0.0), m.constant(-1.0));
            let (negative, positive) = (
                m.compare(Compare::Lt, x, zero),
                m.compare(Compare::Lt, zero, x),
            );
            let rest = m.select(positive, one, zero);
            m.select(negative, minus, rest)
        }
        Unary::Sqrt => {
            let half = m.constant(0.5);
            m.binary(Binary::Div, half, r)
        }
        Unary::Sin => m.unary(Unary::Cos, x),
        Unary::Cos => {
            let sine = m.unary(Unary::Sin, x);
            m.unary(Unary::Neg, sine)
        }
        Unary::Tan => {
            let square = m.power(r, 2);
            m.binary(Binary::Add, one, square)
        }
        Unary::Asin | Unary::Acos => {
            let (a, b) = (m.sub(one, x), m.binary(Binary::Add, one, x));
            let product = m.binary(Binary::Mul, a, b);
            let root = m.unary(Unary::Sqrt, product);
            let size = m.binary(Binary::Div, one, root);
            if op == Unary::Acos {
                m.unary(Unary::Neg, size)
            } else {
                size
            }
        }
        Unary::Atan => {
            let square = m.power(x, 2);
            let sum = m.binary(Binary::Add, one, square);
            m.binary(Binary::Div, one, sum)
        }
        Unary::Sinh => m.unary(Unary::Cosh, x),
        Unary::Cosh => m.unary(Unary::Sinh, x),
        Unary::Tanh => {
            let (a, b) = (m.sub(one, r), m.binary(Binary::Add, one, r));
            m.binary(Binary::Mul, a, b)
        }
        Unary::Exp => r,
        Unary::Exp2 => {
            let scale = m.constant(std::f64::consts::LN_2);
            m.binary(Binary::Mul, scale, r)
        }
        Unary::Log => m.binary(Binary::Div, one, x),
        Unary::Log2 => {
            let scale = m.constant(std::f64::consts::LOG2_E);
            m.binary(Binary::Div, scale, x)
        }
        Unary::Log10 => {
            let scale = m.constant(std::f64::consts::LOG10_E);
            m.binary(Binary::Div, scale, x)
        }
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => return None,
    })
}

/// The derivative of `op(x, y)` with the result `r` by one of its operands.
fn binary(m: &mut Arena, op: Binary, (x, y): (Id, Id), r: Id, by_first: bool) -> Id {
    let one = m.constant(1.0);
    let zero = m.constant(0.0);
    match (op, by_first) {
        (Binary::Add, _) | (Binary::Rem, true) => one,
        (Binary::Mul, true) => y,
        (Binary::Mul, false) => x,
        (Binary::Div, true) => m.binary(Binary::Div, one, y),
        (Binary::Div, false) => {
            let quotient = m.binary(Binary::Div, r, y);
            m.unary(Unary::Neg, quotient)
        }
        (Binary::Rem, false) => {
            let quotient = m.binary(Binary::Div, x, y);
            let whole = m.unary(Unary::Trunc, quotient);
            m.unary(Unary::Neg, whole)
        }
        // Of equal operands, the result is the second.
        (Binary::Min | Binary::Max, _) => {
            let first = if op == Binary::Min { (x, y) } else { (y, x) };
            let chosen = m.compare(Compare::Lt, first.0, first.1);
            if by_first {
                m.select(chosen, one, zero)
            } else {
                m.select(chosen, zero, one)
            }
        }
        (Binary::Pow, true) => {
            let less = m.sub(y, one);
            let power = m.binary(Binary::Pow, x, less);
            m.binary(Binary::Mul, y, power)
        }
        (Binary::Pow, false) => {
            let log = m.unary(Unary::Log, x);
            m.binary(Binary::Mul, r, log)
        }
        (Binary::Atan2, _) => {
            let (xx, yy) = (m.power(x, 2), m.power(y, 2));
            let squares = m.binary(Binary::Add, xx, yy);
            if by_first {
                m.binary(Binary::Div, y, squares)
            } else {
                let quotient = m.binary(Binary::Div, x, squares);
                m.unary(Unary::Neg, quotient)
            }
        }
    }
}
