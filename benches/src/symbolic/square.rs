//! The square of a Laplacian against faer's product with a known pattern (table 1).

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::matmul;
use faer::sparse::{SparseColMatMut, SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Accum, Par};
use wuji_symbolic::Sym;
use wuji_symbolic::applications::{laplacian, mesh};

use super::{Direct, prepare, side, text};
use crate::measure::Row;
use crate::study::{Bench, Study, agree};

pub(super) struct Square;

impl Study for Square {
    fn name(&self) -> &'static str {
        "symbolic_square"
    }
    fn size(&self) -> String {
        "50176x50176".into()
    }
    fn metric(&self) -> &'static str {
        "runs/s"
    }

    /// The references are faer's product with the pattern known, on one thread, and the traced code on numbers.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let mesh = mesh::grid(224);
        let (a, _) = laplacian::cotan(&mesh.elements, &mesh.points).map_err(text)?;
        let record = |x: &[Sym]| {
            let a = a.with_values(x.to_vec())?;
            Ok(a.mul(&a)?.values().to_vec())
        };
        let (prepared, mut traced) = prepare(self, bench, a.values(), &record, 2.0)?;
        // The matrix is symmetric, so rows are columns.
        let size = a.rows();
        let pattern =
            SymbolicSparseColMatRef::new_checked(size, size, a.starts(), None, a.indices());
        let matrix = SparseColMatRef::new(pattern, a.values());
        let (symbolic, info) = matmul::sparse_sparse_matmul_symbolic(pattern, pattern)
            .map_err(|e| format!("{e:?}"))?;
        let scratch =
            matmul::sparse_sparse_matmul_numeric_scratch::<usize, f64>(symbolic.as_ref(), Par::Seq);
        let mut memory = MemBuffer::new(scratch);
        let mut library = Direct(
            |out: &mut Vec<f64>| {
                out.resize(symbolic.row_idx().len(), 0.0);
                let to = SparseColMatMut::new(symbolic.as_ref(), out);
                let stack = MemStack::new(&mut memory);
                let replace = Accum::Replace;
                matmul::sparse_sparse_matmul_numeric(
                    to,
                    replace,
                    matrix,
                    matrix,
                    1.0,
                    &info,
                    Par::Seq,
                    stack,
                );
                Ok(())
            },
            Vec::new(),
        );
        agree(self, &mut traced, &mut library, 1e-4)?;
        let (first, second) = (side(&mut traced), side(&mut library));
        let mut rows = vec![bench.compare(self, self.metric(), first, second)?];
        let mut direct = Direct(
            |out: &mut Vec<f64>| {
                *out = a.mul(&a).map_err(text)?.values().to_vec();
                Ok(())
            },
            Vec::new(),
        );
        let (first, second) = (side(&mut traced), side(&mut direct));
        rows.push(bench.compare(self, "runs/s_direct", first, second)?);
        rows.extend(prepared);
        Ok(rows)
    }
}
