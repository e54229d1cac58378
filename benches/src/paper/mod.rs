//! The applications of the 2019 paper on spatially sparse data structures, as it states them, against hand-written references.
//! `wuji-bench --paper` prints its tables.

mod by_colour;
mod conv;
pub mod cuda;
mod fem;
mod lines;
pub mod measure;
mod mgpcg;
mod mpm;
pub mod reference;
mod shapes;
pub mod tables;
mod volume;

use std::sync::Arc;

use wuji::World;

use crate::case::Contender;
use crate::pool::Pool;
use crate::sparse::ablation::ACCESS;
use cuda::Cuda;
use measure::{Device, Threads, Variant};

/// Prepares a program in a world.
pub type Make = fn(&World, Size) -> wuji::Result<Box<dyn Contender>>;

/// How large the problems are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Takes seconds on a few cores.
    Small,
    /// That of the paper.
    Paper,
}

/// One row of table 2.1.
#[derive(Clone, Copy)]
pub struct Application {
    /// For filters.
    pub name: &'static str,
    /// The name in the paper.
    pub title: &'static str,
    pub size: fn(Size) -> String,
    pub ours: Make,
    pub reference: fn(&Arc<Pool>, Size) -> Box<dyn Contender>,
    /// The largest accepted difference of the results, relative to the largest number.
    pub tolerance: f32,
    /// Lines of code of the reference and of ours.
    pub lines: fn() -> (usize, usize),
    /// The name of the reference in CUDA, in its source.
    pub kernels: &'static str,
    /// The reference in CUDA, if there is one.
    pub cuda: Option<fn(Size) -> wuji::Result<Cuda>>,
}

/// All of them, in the order of the paper.
pub const ALL: [Application; 6] = [
    mpm::MPM,
    fem::FEM,
    mgpcg::MGPCG,
    conv::SURFACE,
    conv::SOLID,
    volume::VOLUME,
];

pub use mpm::MATERIALS;

/// One of the tables 2.2 to 2.5.
pub struct Ablation {
    /// For filters.
    pub name: &'static str,
    pub title: &'static str,
    pub size: fn(Size) -> String,
    /// What the variants are compared with.
    pub full: Variant,
    pub variants: Vec<Variant>,
    /// Kernels whose times are also shown.
    pub kernels: &'static [&'static str],
    /// The largest accepted difference between the variants.
    pub tolerance: f32,
}

/// A variant without some passes.
const fn without(name: &'static str, without: &'static [&'static str], make: Make) -> Variant {
    Variant {
        name,
        without,
        threads: Threads::All,
        make,
    }
}

/// The name of the row that has everything.
const COMPLETE: &str = "all optimizations";

/// Everything that can be switched off, one row for each.
fn switches(make: Make) -> Vec<Variant> {
    vec![
        Variant {
            threads: Threads::One,
            ..without("no multithreading", &[], make)
        },
        without("no vectorization", &["vectorize"], make),
        without("no vector loads", &["vectorize_loads"], make),
        without("no simplification I", &["simplify"], make),
        without("no access lowering", ACCESS, make),
        without(
            "no simplification II",
            &["simplify_lowered", "cleanup"],
            make,
        ),
        without("no scratchpads", &["scratchpads"], make),
        without("no sorted sums", &["sorted_sums"], make),
        without("no flattened loops", &["flatten_loops"], make),
        without("no read-only cache", &["read_only_cache"], make),
    ]
}

/// Optimizations for GPUs only.
const ON_GPUS: &[&str] = &[
    "read_only_cache",
    "vectorize_loads",
    "sorted_sums",
    "flatten_loops",
];

/// Whether a variant differs from the complete one on a device: worlds on a GPU have neither threads nor vectors.
fn exists(variant: &Variant, device: Device) -> bool {
    let lacks = |name: &str| variant.without.contains(&name);
    match device {
        Device::Cpu => !ON_GPUS.iter().any(|name| lacks(name)),
        Device::Gpu => variant.threads == Threads::All && !lacks("vectorize"),
    }
}

/// The tables of ablations, with the rows that exist on a device.
pub fn ablations(device: Device) -> Vec<Ablation> {
    let mut all = vec![
        particle_layouts(),
        scratchpads(),
        table("table_2_4", "Table 2.4: the elasticity operator", &fem::FEM)
            .with("AOS instead of SOA", fem::array_of_structs),
        table("table_2_5", "Table 2.5: the Poisson solver", &mgpcg::MGPCG)
            .with("dense fields instead of blocks", mgpcg::dense),
        table("table_2_5_mpm", "Table 2.5: MLS-MPM", &mpm::MPM),
        table(
            "table_2_5_conv_1",
            "Table 2.5: the convolution, 1%",
            &conv::SURFACE,
        ),
        table(
            "table_2_5_conv_10",
            "Table 2.5: the convolution, 10%",
            &conv::SOLID,
        ),
        table(
            "table_2_5_volume",
            "Table 2.5: the path tracer",
            &volume::VOLUME,
        ),
    ];
    for table in &mut all {
        table.variants.retain(|variant| exists(variant, device));
    }
    all
}

/// Every switch of an application, and the complete one against itself.
fn table(name: &'static str, title: &'static str, application: &Application) -> Ablation {
    let complete = without(COMPLETE, &[], application.ours);
    let mut variants = switches(application.ours);
    variants.push(complete);
    Ablation {
        name,
        title,
        size: application.size,
        full: complete,
        variants,
        kernels: &[],
        tolerance: application.tolerance,
    }
}

impl Ablation {
    /// Another program as a further row, before the complete one.
    fn with(mut self, name: &'static str, make: Make) -> Ablation {
        let last = self.variants.len() - 1;
        self.variants.insert(last, without(name, &[], make));
        self
    }
}

/// Table 2.2.
fn particle_layouts() -> Ablation {
    Ablation {
        full: without("AOS, ordered", &[], mpm::MPM.ours),
        variants: vec![
            without("SOA, ordered", &[], mpm::soa_sorted),
            without("SOA, shuffled", &[], mpm::soa_shuffled),
            without("AOS, ordered", &[], mpm::MPM.ours),
            without("AOS, shuffled", &[], mpm::aos_shuffled),
        ],
        ..table("table_2_2", "Table 2.2: layouts of particles", &mpm::MPM)
    }
}

/// Table 2.3.
fn scratchpads() -> Ablation {
    let make = mpm::MPM.ours;
    Ablation {
        full: without("with scratchpads", &[], make),
        variants: vec![
            without("no scratchpads", &["scratchpads"], make),
            without("not staggered", &[], mpm::not_staggered),
            without("AOS grid", &[], mpm::aos_grid),
            without("with scratchpads", &[], make),
        ],
        kernels: &["to_grid_by_bucket", "to_particles_by_bucket"],
        ..table(
            "table_2_3",
            "Table 2.3: scratchpads and lists of the material point method",
            &mpm::MPM,
        )
    }
}

/// Values in the order of their coordinates.
fn sorted<const C: usize>(
    coordinates: Vec<[i32; 3]>,
    values: impl Iterator<Item = [f32; C]>,
) -> Vec<f32> {
    let mut all: Vec<([i32; 3], [f32; C])> = coordinates.into_iter().zip(values).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().flat_map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::difference;
    use wuji::{CacheChoice, Tier};

    /// Runs an application, variants of it and its reference a few times and compares the results.
    fn check(application: &Application, variants: &[Make]) {
        let mut by_hand = (application.reference)(&Arc::new(Pool::new(2)), Size::Small);
        for _ in 0..2 {
            by_hand.run().expect("a run");
        }
        let b = by_hand.result().expect("theirs");
        assert!(
            b.iter().any(|x| *x != 0.0),
            "{}: no result",
            application.name
        );
        for (n, make) in [&[application.ours], variants].concat().iter().enumerate() {
            let builder = World::builder().cache(CacheChoice::Off).threads(2);
            let world = builder.tier(Tier::Fast).build().expect("a world");
            let mut ours = make(&world, Size::Small).expect("fields");
            for _ in 0..2 {
                ours.run().expect("a run");
            }
            let far = difference(&ours.result().expect("ours"), &b);
            let name = application.name;
            assert!(far <= application.tolerance, "{name}, {n}: {far:.1e}");
        }
        let (theirs, ours) = (application.lines)();
        assert!(theirs > 0 && ours > 0, "{}: no lines", application.name);
    }

    /// The references in CUDA have the results of those on the CPU, where there is a GPU.
    #[test]
    fn references_in_cuda_agree() {
        if let Err(e) = cuda::Cuda::device(&cuda::OPERATORS) {
            println!("skipped: {e}");
            return;
        }
        for application in &ALL {
            let make = application.cuda.expect("a reference");
            let mut by_hand = make(Size::Small).expect("kernels");
            let mut expected = (application.reference)(&Arc::new(Pool::new(2)), Size::Small);
            for _ in 0..2 {
                by_hand.run().expect("a run");
                expected.run().expect("a run");
            }
            let (a, b) = (by_hand.result().expect("numbers"), expected.result());
            let b = b.expect("numbers");
            let far = crate::case::compare(application.name, &a, &b, application.tolerance);
            println!("{}: {far:?}", application.name);
            far.expect("the same");
        }
    }

    #[test]
    fn fem() {
        check(&fem::FEM, &[fem::array_of_structs]);
    }

    #[test]
    fn mpm() {
        check(
            &mpm::MPM,
            &[
                mpm::soa_sorted,
                mpm::soa_shuffled,
                mpm::aos_shuffled,
                mpm::not_staggered,
                mpm::aos_grid,
            ],
        );
        for material in &mpm::MATERIALS {
            check(material, &[]);
        }
    }

    #[test]
    fn mgpcg() {
        check(&mgpcg::MGPCG, &[mgpcg::dense]);
    }

    #[test]
    fn volume() {
        check(&volume::VOLUME, &[]);
    }

    #[test]
    fn conv() {
        check(&conv::SURFACE, &[]);
        check(&conv::SOLID, &[]);
    }
}
