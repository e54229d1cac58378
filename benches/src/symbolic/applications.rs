//! The applications of the paper. The reference is the same code on numbers, or the same derivatives by hand.

use wuji_symbolic::applications::mesh::{self, Random};
use wuji_symbolic::applications::{arap, cloth, dirichlet, expressions, laplacian};
use wuji_symbolic::{Csr, Real, Sym};

use super::{Direct, prepare, side, text};
use crate::measure::Row;
use crate::study::{Bench, Study, agree};

/// A function of the elements of one input.
type Compute<T> = Box<dyn Fn(&[T]) -> wuji::Result<Vec<T>>>;

/// An application with its input.
pub(super) struct Setup {
    pub(super) input: Vec<f64>,
    pub(super) record: Compute<Sym>,
    pub(super) direct: Compute<f64>,
}

pub(super) struct Application {
    pub(super) name: &'static str,
    pub(super) size: &'static str,
    /// Seconds for trace, analysis and compilation.
    goal: f64,
    pub(super) setup: fn() -> wuji::Result<Setup>,
}

pub(super) const COTAN: Application = Application {
    name: "symbolic_cotan",
    size: "316x316 vertices",
    goal: 2.0,
    setup: || cotan(316),
};
const DUAL: Application = Application {
    name: "symbolic_dual",
    size: "16x16x16 vertices",
    goal: 2.4,
    setup: || dual(16),
};
const ARAP: Application = Application {
    name: "symbolic_arap",
    size: "100x100 vertices",
    goal: 2.0,
    setup: || local_step(100),
};
pub(super) const CLOTH_BY_HAND: Application = Application {
    name: "symbolic_cloth_by_hand",
    size: "70x70 vertices",
    goal: 1.5,
    setup: || {
        let (cloth, input) = square_of_cloth(70);
        let again = cloth.clone();
        Ok(Setup {
            input,
            record: Box::new(move |x| Ok(cloth.hessians_by_hand(x))),
            direct: Box::new(move |x| Ok(again.hessians_by_hand(x))),
        })
    },
};
pub(super) const CLOTH: Application = Application {
    name: "symbolic_cloth",
    size: "70x70 vertices",
    goal: 1.5,
    setup: || {
        let (cloth, input) = square_of_cloth(70);
        let again = cloth.clone();
        Ok(Setup {
            input,
            record: Box::new(move |x| cloth.hessians_derived(x)),
            direct: Box::new(move |x| Ok(again.hessians_by_hand(x))),
        })
    },
};
pub(super) const CLOTH_MATRIX: Application = Application {
    name: "symbolic_cloth_matrix",
    size: "70x70 vertices",
    goal: 1.5,
    setup: || {
        let (cloth, input) = square_of_cloth(70);
        let again = cloth.clone();
        Ok(Setup {
            input,
            record: Box::new(move |x| values(cloth.assemble(&cloth.hessians_derived(x)?)?)),
            direct: Box::new(move |x| values(again.assemble(&again.hessians_by_hand(x))?)),
        })
    },
};
const DIRICHLET: Application = Application {
    name: "symbolic_dirichlet",
    size: "100x100 vertices",
    goal: 1.0,
    setup: || symmetric_dirichlet(100),
};
pub(super) const CUBE: Application = Application {
    name: "symbolic_cube",
    size: "22500x22500",
    goal: 2.0,
    setup: || cube(150),
};
const NUMERIC: [Application; 3] = [
    Application {
        name: "symbolic_numeric_0",
        size: "20000x20000",
        goal: 2.0,
        setup: || numeric(0, 20_000),
    },
    Application {
        name: "symbolic_numeric_1",
        size: "20000x20000",
        goal: 2.0,
        setup: || numeric(1, 20_000),
    },
    Application {
        name: "symbolic_numeric_2",
        size: "20000x20000",
        goal: 2.0,
        setup: || numeric(2, 20_000),
    },
];

pub(super) fn all() -> Vec<Box<dyn Study>> {
    let mut all = vec![
        COTAN,
        DUAL,
        ARAP,
        CLOTH_BY_HAND,
        CLOTH,
        CLOTH_MATRIX,
        DIRICHLET,
        CUBE,
    ];
    all.extend(NUMERIC);
    let boxed = |application| -> Box<dyn Study> { Box::new(application) };
    all.into_iter().map(boxed).collect()
}

impl Study for Application {
    fn name(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> String {
        self.size.into()
    }

    fn metric(&self) -> &'static str {
        "runs/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let setup = (self.setup)().map_err(text)?;
        let Setup {
            input,
            record,
            direct,
        } = &setup;
        let (prepared, mut traced) = prepare(self, bench, input, &**record, self.goal)?;
        let evaluate = |out: &mut Vec<f64>| {
            *out = direct(input).map_err(text)?;
            Ok(())
        };
        let mut direct = Direct(evaluate, Vec::new());
        agree(self, &mut traced, &mut direct, 1e-4)?;
        let (first, second) = (side(&mut traced), side(&mut direct));
        let mut rows = vec![bench.compare(self, self.metric(), first, second)?];
        rows.extend(prepared);
        Ok(rows)
    }
}

fn values<T: Real>(matrix: Csr<T>) -> wuji::Result<Vec<T>> {
    Ok(matrix.values().to_vec())
}

fn with_rest<T: Real>((matrix, rest): (Csr<T>, Vec<T>)) -> Vec<T> {
    let mut all = matrix.values().to_vec();
    all.extend(rest);
    all
}

fn cotan(n: usize) -> wuji::Result<Setup> {
    let mesh::Mesh { elements, points } = mesh::grid(n);
    let again = elements.clone();
    Ok(Setup {
        input: points,
        record: Box::new(move |x| laplacian::cotan(&elements, x).map(with_rest)),
        direct: Box::new(move |x| laplacian::cotan(&again, x).map(with_rest)),
    })
}

fn dual(n: usize) -> wuji::Result<Setup> {
    let mesh::Mesh { elements, points } = mesh::tetrahedra(n);
    let again = elements.clone();
    Ok(Setup {
        input: points,
        record: Box::new(move |x| laplacian::dual(&elements, x).map(with_rest)),
        direct: Box::new(move |x| laplacian::dual(&again, x).map(with_rest)),
    })
}

/// The right-hand side of a surface that is bent.
fn local_step(n: usize) -> wuji::Result<Setup> {
    let mesh = mesh::grid(n);
    let surface = arap::Surface::new(&mesh.elements, &mesh.points)?;
    let again = surface.clone();
    let bend = |p: &[f64]| [p[0], 1.1 * p[1], p[2] + 0.01 * p[0] * p[0]];
    Ok(Setup {
        input: mesh.points.chunks(3).flat_map(bend).collect(),
        record: Box::new(move |x| Ok(surface.right_hand_side(x))),
        direct: Box::new(move |x| Ok(again.right_hand_side(x))),
    })
}

fn square_of_cloth(n: usize) -> (cloth::Cloth, Vec<f64>) {
    let mesh = mesh::grid(n);
    let material: Vec<f64> = mesh.points.chunks(3).flat_map(|p| [p[0], p[1]]).collect();
    let stiffness = cloth::Stiffness {
        stretch: 50.0,
        shear: 10.0,
        bend: 0.5,
        damping: 0.1,
    };
    let cloth = cloth::Cloth::new(&mesh.elements, &material, 0.1, stiffness);
    let bend = |p: &[f64]| [1.1 * p[0], p[1] + 0.1 * p[0], p[2] + 0.01 * p[1] * p[1]];
    (cloth, mesh.points.chunks(3).flat_map(bend).collect())
}

/// Gradients and Hessians of all triangles.
fn symmetric_dirichlet(n: usize) -> wuji::Result<Setup> {
    let mesh = mesh::grid(n);
    let at = |v: usize| [mesh.points[3 * v], mesh.points[3 * v + 1]];
    let rest = mesh
        .elements
        .iter()
        .map(|t| dirichlet::Rest::new(t.map(at)));
    let corners = mesh
        .elements
        .iter()
        .map(|t| t.map(|v| [2 * v, 2 * v + 1]).concat());
    let elements: Vec<(dirichlet::Rest, Vec<usize>)> = rest.zip(corners).collect();
    let again = elements.clone();
    let input =
        (0..mesh.vertices()).flat_map(|v| [1.2 * at(v)[0] + 0.1 * at(v)[1], 0.9 * at(v)[1]]);
    Ok(Setup {
        input: input.collect(),
        record: Box::new(move |x| {
            let mut all = Vec::with_capacity(42 * elements.len());
            for (rest, corners) in &elements {
                let own: Vec<Sym> = corners.iter().map(|k| x[*k]).collect();
                all.extend(dirichlet::derived(rest, &own)?);
            }
            Ok(all)
        }),
        direct: Box::new(move |x| {
            let mut all = Vec::with_capacity(42 * again.len());
            for (rest, corners) in &again {
                let own: Vec<f64> = corners.iter().map(|k| x[*k]).collect();
                all.extend(dirichlet::by_hand(rest, &own));
            }
            Ok(all)
        }),
    })
}

fn cube(n: usize) -> wuji::Result<Setup> {
    let mesh = mesh::grid(n);
    let (a, _) = laplacian::cotan(&mesh.elements, &mesh.points)?;
    let again = a.clone();
    Ok(Setup {
        input: a.values().to_vec(),
        record: Box::new(move |x| values(expressions::power(&a.with_values(x.to_vec())?, 3)?)),
        direct: Box::new(move |_| values(expressions::power(&again, 3)?)),
    })
}

/// Three random matrices, whose entries follow each other.
fn numeric(number: usize, n: usize) -> wuji::Result<Setup> {
    let mut random = Random::new(7);
    let mut matrices = Vec::new();
    for _ in 0..3 {
        matrices.push(expressions::random_matrix(&mut random, n)?);
    }
    let input = matrices.iter().flat_map(|m| m.values().to_vec()).collect();
    let again = matrices.clone();
    Ok(Setup {
        input,
        record: Box::new(move |x| {
            let matrices = split(&matrices, x)?;
            values(expressions::numeric::<Sym>()[number](&matrices)?)
        }),
        direct: Box::new(move |x| {
            let matrices = split(&again, x)?;
            values(expressions::numeric::<f64>()[number](&matrices)?)
        }),
    })
}

/// The patterns of three matrices with these entries.
fn split<T: Real>(patterns: &[Csr<f64>], mut x: &[T]) -> wuji::Result<[Csr<T>; 3]> {
    let mut next = |n: usize| {
        let (own, rest) = x.split_at(patterns[n].values().len());
        x = rest;
        patterns[n].with_values(own.to_vec())
    };
    Ok([next(0)?, next(1)?, next(2)?])
}
