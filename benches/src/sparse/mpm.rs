//! MLS-MPM of elastic bodies on a sparse grid: the example `mpm3d` against a hand-written version.

use std::sync::Arc;

use wuji_examples::apps::{self, App, Scale, noise};

use crate::case::{Contender, made};
use crate::measure::Row;
use crate::paper::reference::mpm::{Elastic, Material, Particle, State};
use crate::study::{Bench, Side, Study, agree};

/// Nodes along each axis, as in the example.
const N: usize = 128;
const COUNT: usize = 16 * (N / 4) * (N / 4) * (N / 4);
const DT: f32 = 4e-5;

pub struct SparseMpm;

/// The two cubes of the example.
fn start(p: usize) -> Particle {
    let side = N / 4;
    let (cube, cell) = (p / (8 * side.pow(3)), p / 8 % side.pow(3));
    let (corner, v) = match cube {
        0 => ([0.2, 0.1, 0.3], [2.0, 0.0, 0.0]),
        _ => ([0.55, 0.2, 0.4], [-2.0, -1.0, 0.0]),
    };
    let cell = [cell / (side * side), cell / side % side, cell % side];
    let x = std::array::from_fn(|d| corner[d] + (cell[d] as f32 + noise(3 * p + d)) / N as f32);
    let mut f = [0.0; 9];
    (f[0], f[4], f[8]) = (1.0, 1.0, 1.0);
    Particle {
        x,
        v,
        c: [0.0; 9],
        f,
    }
}

/// The sums of the example, except the number of blocks: the example activates only blocks that particles write to.
fn sums(state: &State) -> Vec<f32> {
    let mean = |f: &dyn Fn(&Particle) -> f32| {
        (state.particles.iter().map(|p| f64::from(f(p))).sum::<f64>() / COUNT as f64) as f32
    };
    let det = |f: &[f32; 9]| {
        f[0] * (f[4] * f[8] - f[5] * f[7]) - f[1] * (f[3] * f[8] - f[5] * f[6])
            + f[2] * (f[3] * f[7] - f[4] * f[6])
    };
    vec![
        mean(&|p| p.x[0]),
        mean(&|p| p.x[1]),
        mean(&|p| p.v.iter().map(|v| v * v).sum()),
        mean(&|p| det(&p.f)),
    ]
}

/// An application as a contender: one step per sample.
pub struct Steps(pub Box<dyn App>);

impl Contender for Steps {
    fn run(&mut self) -> Result<(), String> {
        self.0.step().map_err(|e| e.to_string())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        let sums = self.0.sums().map_err(|e| e.to_string())?;
        Ok(sums.into_iter().map(|(_, x)| x as f32).collect())
    }
}

/// The example, without its number of blocks.
struct Bodies(Steps);

impl Contender for Bodies {
    fn run(&mut self) -> Result<(), String> {
        self.0.run()
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.0.result()?.split_off(1))
    }
}

impl Study for SparseMpm {
    fn name(&self) -> &'static str {
        "sparse_mpm3d"
    }
    fn size(&self) -> String {
        "2^19 on 128^3".into()
    }
    fn metric(&self) -> &'static str {
        "substeps/s"
    }

    /// Sorted into buckets, and in the memory order of the particles.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        use apps::mpm3d::Variant;
        let mut rows = Vec::new();
        for (metric, variant) in [
            (self.metric(), Variant::Buckets),
            ("plain_substeps/s", Variant::Plain),
        ] {
            let world = bench.world(&[])?;
            let app = apps::mpm3d::app(&world, Scale::Full, variant).map_err(|e| e.to_string())?;
            let mut wuji = Bodies(Steps(app));
            let pool = Arc::clone(&bench.pool);
            let mut hand = made(
                State::new(
                    N,
                    (0..COUNT).map(start).collect(),
                    DT,
                    (Material::Elastic(Elastic::NeoHookean), 0.0),
                    pool.threads(),
                ),
                move |s| s.substep(&pool),
                sums,
            );
            agree(self, &mut wuji, &mut *hand, 1e-4)?;
            rows.push(bench.compare(
                self,
                metric,
                Side {
                    contender: &mut wuji,
                    work: 1.0,
                },
                Side {
                    contender: &mut *hand,
                    work: 1.0,
                },
            )?);
        }
        Ok(rows)
    }
}
