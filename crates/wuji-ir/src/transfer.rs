//! Kernels that copy elements of fields, with their coordinates, to and from arrays: the host uses them to
//! access sparse trees without knowing the layout.
//!
//! Both kinds process several fields in one launch. The k-th requested field has the arrays
//!
//! | array | elements | what |
//! |---|---|---|
//! | `3k` | `i64`, two axes | one row of coordinates for each element |
//! | `3k + 1` | those of the field | their values |
//! | `3k + 2` | `i64`, one axis | how many there are, in element 0 |

use crate::build::Builder;
use crate::entities::{Array, Field, Value};
use crate::module::{ArrayData, Function, Module, Term, Values};
use crate::ops::{Access, AtomicOp, CellOp, CmpOp, Domain, Op, Place};
use crate::types::{I64, Scalar, Type};

/// The arrays of field `k`: coordinates, values, count.
pub fn arrays(k: usize) -> [Array; 3] {
    [0, 1, 2].map(|a| Array::from_u32(3 * k as u32 + a))
}

/// Lists the active elements of the fields, unordered, as far as there is room in the arrays; the count
/// includes all. It has to be 0 before.
pub fn export(m: &Module, fields: &[Field]) -> Module {
    with_kernel(m, "export", fields, |b, k, field| {
        let [coords, values, count] = arrays(k);
        let rank = b.env.fields[field].rank();
        b.foreach(Domain::Field(field), &[], rank, |b, at| {
            let (zero, one) = (b.i64(0), b.i64(1));
            let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Array(count)));
            let row = b.value(add, &[zero, one]);
            let room = b.value(Op::ArrayExtent(coords, 0), &[]);
            let fits = b.compare(CmpOp::Lt, row, room);
            b.if_else(
                fits,
                &[],
                |b| {
                    for (axis, c) in at.iter().enumerate() {
                        let axis = b.i64(axis as i64);
                        b.store(Place::Array(coords), &[row, axis], *c);
                    }
                    if has_bytes(b, field) {
                        let value = b.load(Place::Field(field), at);
                        b.store(Place::Array(values), &[row], value);
                    }
                    Values::new()
                },
                |_| Values::new(),
            );
        });
    })
}

/// Writes the elements in the arrays, one per row of coordinates, which activates them.
pub fn import(m: &Module, fields: &[Field]) -> Module {
    with_kernel(m, "import", fields, |b, k, field| {
        let [coords, values, _] = arrays(k);
        let rank = b.env.fields[field].rank();
        let zero = b.i64(0);
        let rows = b.value(Op::ArrayExtent(coords, 0), &[]);
        b.foreach(Domain::Range { rank: 1 }, &[zero, rows], 1, |b, row| {
            let mut at: Vec<Value> = Vec::new();
            for axis in 0..rank {
                let axis = b.i64(axis as i64);
                at.push(b.load(Place::Array(coords), &[row[0], axis]));
            }
            if has_bytes(b, field) {
                let value = b.load(Place::Array(values), &[row[0]]);
                b.store(Place::Field(field), &at, value);
            } else {
                b.push(Op::Cell(CellOp::Activate, field), &at);
            }
        });
    })
}

fn has_bytes(b: &Builder<'_>, field: Field) -> bool {
    let elem = b.env.fields[field].elem;
    b.env.structs.size_align(elem).0 != 0
}

/// A module with the trees of another one and its own kernel.
fn with_kernel(
    m: &Module,
    name: &str,
    fields: &[Field],
    mut body: impl FnMut(&mut Builder<'_>, usize, Field),
) -> Module {
    let mut out = Module::new(name);
    out.structs = m.structs.clone();
    out.trees = m.trees.clone();
    out.fields = m.fields.clone();
    let byte = Type::Scalar(Scalar::U8);
    for field in fields {
        let elem = out.fields[*field].elem;
        let elem = match out.structs.size_align(elem).0 {
            0 => byte,
            _ => elem,
        };
        for (what, elem, rank) in [("at", I64, 2), ("of", elem, 1), ("count", I64, 1)] {
            out.arrays.push(ArrayData {
                name: format!("{what} {field}"),
                elem,
                rank,
                writable: true,
                contiguous: true,
                unaliased: true,
                shape: None,
            });
        }
    }
    let mut f = Function::new(name, &[], &[]);
    let mut b = Builder::new(&mut out, &mut f);
    for (k, field) in fields.iter().enumerate() {
        body(&mut b, k, *field);
    }
    b.end(Term::Return(Values::new()));
    out.kernel = Some(out.add_func(f));
    out
}
