//! Ablation of compiler passes on sparse programs.

use wuji::World;
use wuji_examples::apps::{self, Scale};

use super::blocks;
use super::jacobi::{Order, Sparse};
use super::mpm::Steps;
use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// One program, with some passes disabled.
pub struct Ablation {
    name: &'static str,
    program: &'static str,
    tolerance: f32,
}

impl Ablation {
    pub const ALL: [Ablation; 5] = [
        Ablation {
            name: "ablation_jacobi",
            program: "sparse_jacobi",
            tolerance: 1e-6,
        },
        Ablation {
            name: "ablation_mpm3d",
            program: "mpm3d",
            tolerance: 1e-3,
        },
        Ablation {
            name: "ablation_fem",
            program: "fem",
            tolerance: 1e-3,
        },
        Ablation {
            name: "ablation_mgpcg",
            program: "mgpcg",
            tolerance: 1e-3,
        },
        Ablation {
            name: "ablation_conv",
            program: "sparse_conv",
            tolerance: 1e-3,
        },
    ];

    fn make(&self, world: &World, order: Order) -> wuji::Result<Box<dyn Contender>> {
        match apps::ALL.iter().find(|app| app.name == self.program) {
            Some(app) => Ok(Box::new(Steps((app.make)(world, Scale::Full)?))),
            None => Ok(Sparse::new(world, &blocks::shell(), order)?.contender()),
        }
    }
}

/// The passes to disable.
struct Part {
    name: &'static str,
    without: &'static [&'static str],
    /// Passes that are disabled on both sides.
    neither: &'static [&'static str],
    order: Order,
    /// The programs to run; empty for all of them.
    only: &'static [&'static str],
}

impl Part {
    const fn of(name: &'static str, without: &'static [&'static str]) -> Part {
        Part {
            name,
            without,
            neither: &[],
            order: Order::Soa,
            only: &[],
        }
    }
}

/// Every access checks its indices and starts at the root; only LLVM optimizes it.
pub const ACCESS: &[&str] = &[
    "access_lowering",
    "entries",
    "neighbours",
    "activations",
    "bounds",
];

const PARTS: [Part; 11] = [
    Part::of(
        "no_simplification",
        &["simplify", "simplify_lowered", "cleanup"],
    ),
    Part::of("no_access", ACCESS),
    // Compare scalar code: both sides without our vectorizer.
    Part {
        neither: &["vectorize"],
        ..Part::of("no_access_scalar", ACCESS)
    },
    // Like `no_access`, but without the checks that `bounds` proved redundant.
    Part::of(
        "no_access_but_bounds",
        &["access_lowering", "entries", "neighbours", "activations"],
    ),
    // Tree accesses are instructions that our passes merge and move, but all start at the root.
    Part::of("no_entries", &["entries", "neighbours", "activations"]),
    Part::of("no_list_reuse", &["list_reuse"]),
    Part {
        only: &["mpm3d"],
        ..Part::of("no_scratchpad", &["scratchpads"])
    },
    // Scratchpads where the cost model chooses them, not where the program asks for them.
    Part {
        only: &["mpm3d"],
        ..Part::of("no_cache_hints", &["cache_hints"])
    },
    // The cost model's scratchpads against none.
    Part {
        only: &["mpm3d"],
        neither: &["cache_hints"],
        ..Part::of("no_tiles", &["tiles"])
    },
    Part::of(
        "none_of_these",
        &[
            "simplify",
            "simplify_lowered",
            "cleanup",
            "access_lowering",
            "entries",
            "neighbours",
            "activations",
            "bounds",
            "list_reuse",
            "scratchpads",
        ],
    ),
    Part {
        order: Order::Aos,
        only: &["sparse_jacobi"],
        ..Part::of("aos", &[])
    },
];

impl Study for Ablation {
    fn name(&self) -> &'static str {
        self.name
    }
    fn size(&self) -> String {
        self.program.into()
    }
    fn metric(&self) -> &'static str {
        "no_simplification"
    }

    /// Samples per second with some passes disabled, against all enabled.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let mut rows = Vec::new();
        let wanted = |p: &&Part| p.only.is_empty() || p.only.contains(&self.program);
        for part in PARTS.iter().filter(wanted) {
            let without: Vec<&str> = [part.without, part.neither].concat();
            let mut full = self
                .make(&bench.world(part.neither)?, Order::Soa)
                .map_err(text)?;
            let mut less = self
                .make(&bench.world(&without)?, part.order)
                .map_err(text)?;
            agree(self, &mut *less, &mut *full, self.tolerance)?;
            rows.push(bench.compare(
                self,
                part.name,
                Side {
                    contender: &mut *less,
                    work: 1.0,
                },
                Side {
                    contender: &mut *full,
                    work: 1.0,
                },
            )?);
        }
        Ok(rows)
    }
}

/// The device time of one sample, in milliseconds.
fn on_gpu_ms(world: &World, contender: &mut dyn Contender) -> Result<f64, String> {
    let text = |e: wuji::Error| e.to_string();
    let mut times = Vec::new();
    for _ in 0..3 {
        contender.run()?;
    }
    for _ in 0..9 {
        world.synchronize().map_err(text)?;
        let begun = std::time::Instant::now();
        contender.run()?;
        world.synchronize().map_err(text)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// The same on a GPU: program, disabled passes, milliseconds without them and with all passes.
pub fn on_gpu(
    world: impl Fn(&[&str]) -> wuji::Result<World>,
) -> Result<Vec<(&'static str, &'static str, f64, f64)>, String> {
    let text = |e: wuji::Error| e.to_string();
    let mut rows = Vec::new();
    // Vectorization and automatic scratchpads exist only on the CPU.
    let parts = [
        "no_simplification",
        "no_access",
        "no_access_but_bounds",
        "no_entries",
        "no_list_reuse",
        "no_scratchpad",
        "none_of_these",
    ];
    for ablation in &Ablation::ALL {
        let wanted = |p: &&Part| {
            parts.contains(&p.name) && (p.only.is_empty() || p.only.contains(&ablation.program))
        };
        let full_world = world(&[]).map_err(text)?;
        let mut full = ablation.make(&full_world, Order::Soa).map_err(text)?;
        let with = on_gpu_ms(&full_world, &mut *full)?;
        for part in PARTS.iter().filter(wanted) {
            let less_world = world(part.without).map_err(text)?;
            let mut less = ablation.make(&less_world, part.order).map_err(text)?;
            match on_gpu_ms(&less_world, &mut *less) {
                Ok(ms) => rows.push((ablation.program, part.name, ms, with)),
                Err(why) => eprintln!("{} {}: {why}", ablation.program, part.name),
            }
        }
    }
    Ok(rows)
}
