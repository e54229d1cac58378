//! Traced programs against the code that they were traced from, and against a sparse product with a known pattern.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::matmul;
use faer::sparse::{SparseColMatMut, SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Accum, Par};
use wuji_symbolic::pipeline::analyze;
use wuji_symbolic::{Csr, Options, Program, Real, Sym, Trace};

use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

pub fn all() -> Vec<Box<dyn Study>> {
    vec![Box::new(Cotan), Box::new(Square)]
}

fn text(error: wuji::Error) -> String {
    error.to_string()
}

/// A grid of triangles with noise: corners of each triangle, and coordinates of each vertex.
fn mesh(n: usize) -> (Vec<[usize; 3]>, Vec<f64>) {
    let mut state = 41u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let (mut triangles, mut points) = (Vec::new(), Vec::new());
    for at in 0..n * n {
        let (i, j) = (at / n, at % n);
        points.extend([i as f64, j as f64, 0.0].map(|x| x + 0.3 * random()));
        if i > 0 && j > 0 {
            let (a, b, c, d) = (at - n - 1, at - n, at - 1, at);
            let halves = if random() < 0.5 {
                [[a, c, b], [b, c, d]]
            } else {
                [[a, c, d], [a, d, b]]
            };
            triangles.extend(halves);
        }
    }
    (triangles, points)
}

/// The cotan Laplacian.
fn cotan<T: Real>(triangles: &[[usize; 3]], points: &[T]) -> wuji::Result<Csr<T>> {
    let vertices = points.len() / 3;
    let mut triplets = Vec::with_capacity(12 * triangles.len());
    let edge = |a: usize, b: usize| [0, 1, 2].map(|k| points[3 * b + k] - points[3 * a + k]);
    let dot = |a: [T; 3], b: [T; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    for triangle in triangles {
        let (u, v) = (
            edge(triangle[0], triangle[1]),
            edge(triangle[0], triangle[2]),
        );
        let normal = [
            u[1] * v[2] - u[2] * v[1],
            u[2] * v[0] - u[0] * v[2],
            u[0] * v[1] - u[1] * v[0],
        ];
        let twice_area = dot(normal, normal).sqrt();
        for k in 0..3 {
            let (a, b, c) = (triangle[k], triangle[(k + 1) % 3], triangle[(k + 2) % 3]);
            let weight = dot(edge(a, b), edge(a, c)) / (twice_area * T::from_f64(2.0));
            triplets.extend([
                (b, c, -weight),
                (c, b, -weight),
                (b, b, weight),
                (c, c, weight),
            ]);
        }
    }
    Csr::from_triplets(vertices, vertices, &triplets)
}

/// A program whose inputs are in its memory.
struct Traced(Program<f64, Vec<Vec<Sym>>>);

impl Contender for Traced {
    fn run(&mut self) -> Result<(), String> {
        self.0.launch().map_err(text)
    }

    fn result(&mut self) -> Result<Vec<f32>, String> {
        let output = self.0.output(0).ok_or("no output")?;
        let numbers = output.to_vec().map_err(text)?;
        Ok(numbers.into_iter().map(|x| x as f32).collect())
    }
}

/// Direct evaluation into a vector.
struct Direct<F>(F, Vec<f64>);

impl<F: FnMut(&mut Vec<f64>) -> Result<(), String>> Contender for Direct<F> {
    fn run(&mut self) -> Result<(), String> {
        (self.0)(&mut self.1)
    }

    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.1.iter().map(|x| *x as f32).collect())
    }
}

fn row(study: &dyn Study, metric: &str, value: f64, goal: f64) -> Row {
    Row {
        workload: study.name().into(),
        size: study.size(),
        backend: "cpu".into(),
        metric: metric.into(),
        value,
        reference: goal,
        ratio: goal / value,
        compile_ms: None,
    }
}

/// The most memory that the process has had since it was last asked, in bytes; 0 where the system does not say.
fn peak_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kilobytes.unwrap_or(0.0) * 1024.0
}

/// Times of the stages in seconds, memory in bytes per node, and the program. Ratios are those of goals to values.
fn prepare(
    study: &dyn Study,
    bench: &Bench,
    input: &[f64],
    record: impl FnOnce(&[Sym]) -> Vec<Sym>,
    goal: f64,
) -> Result<(Vec<Row>, Traced), String> {
    let now = || bench.clock.now();
    let began = now();
    let trace = Trace::record(&[input.len()], |x| vec![record(&x[0])]).map_err(text)?;
    let recorded = now();
    let nodes = trace.arena().len() as f64;
    let arena = trace.statistics().bytes as f64 / nodes;
    peak_bytes();
    let before = peak_bytes();
    let start = now();
    analyze(&trace, &Options::default()).map_err(text)?;
    let analyzed = now() - start;
    let most = (peak_bytes() - before) / nodes;
    let world = bench.world(&[])?;
    let start = now();
    let program = Program::compile(&world, &trace, &Options::default()).map_err(text)?;
    program.set_inputs(input).map_err(text)?;
    program.launch().map_err(text)?;
    let compiled = (now() - start - analyzed).max(0.0);
    let traced = recorded - began;
    let rows = vec![
        row(study, "trace_s", traced, 0.5 * goal),
        row(study, "analysis_s", analyzed, 0.4 * goal),
        row(study, "compile_s", compiled, 0.1 * goal),
        row(study, "bytes_per_node", arena, 24.0),
        row(study, "analysis_bytes_per_node", most.max(1.0), 45.0),
    ];
    Ok((rows, Traced(program)))
}

struct Cotan;

impl Study for Cotan {
    fn name(&self) -> &'static str {
        "symbolic_cotan"
    }
    fn size(&self) -> String {
        "316x316 vertices".into()
    }
    fn metric(&self) -> &'static str {
        "runs/s"
    }

    /// The reference is the same code on numbers.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let (triangles, points) = mesh(316);
        let record = |x: &[Sym]| match cotan(&triangles, x) {
            Ok(matrix) => matrix.values().to_vec(),
            Err(_) => Vec::new(),
        };
        let (prepared, mut traced) = prepare(self, bench, &points, record, 2.0)?;
        let mut direct = Direct(
            |out: &mut Vec<f64>| {
                *out = cotan(&triangles, &points).map_err(text)?.values().to_vec();
                Ok(())
            },
            Vec::new(),
        );
        agree(self, &mut traced, &mut direct, 1e-4)?;
        let (first, second) = (side(&mut traced), side(&mut direct));
        let mut rows = vec![bench.compare(self, self.metric(), first, second)?];
        rows.extend(prepared);
        Ok(rows)
    }
}

fn side(contender: &mut dyn Contender) -> Side<'_> {
    Side {
        contender,
        work: 1.0,
    }
}

struct Square;

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
        let (triangles, points) = mesh(224);
        let a = cotan(&triangles, &points).map_err(text)?;
        let record = |x: &[Sym]| {
            let product = a.with_values(x.to_vec()).and_then(|a| a.mul(&a));
            product.map_or(Vec::new(), |p| p.values().to_vec())
        };
        let (prepared, mut traced) = prepare(self, bench, a.values(), record, 2.0)?;
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
