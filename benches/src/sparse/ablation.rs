//! What each part of the compiler is worth to programs on sparse data.

use wuji::World;
use wuji_examples::apps::{self, Scale};

use super::blocks;
use super::jacobi::{Order, Sparse};
use super::mpm::Steps;
use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// One program, with parts of the compiler left out.
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

/// Names of what is left out, and the optimizations behind them.
const PARTS: [(&str, &[&str]); 6] = [
    (
        "no_simplification",
        &["simplify", "simplify_lowered", "cleanup"],
    ),
    // Every access compares its indices and walks from the root, and LLVM makes of it what it can.
    (
        "no_access",
        &[
            "access_lowering",
            "entries",
            "neighbours",
            "activations",
            "bounds",
        ],
    ),
    // The same, with the comparisons that were proved to be needless left out.
    (
        "no_access_but_bounds",
        &["access_lowering", "entries", "neighbours", "activations"],
    ),
    // Walks are instructions that our own passes merge and move, but they all start at the root.
    ("no_entries", &["entries", "neighbours", "activations"]),
    ("no_list_reuse", &["list_reuse"]),
    (
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
        ],
    ),
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

    /// Samples a second without something, against everything.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let mut variants: Vec<(&str, &[&str], Order)> = PARTS
            .iter()
            .map(|(name, without)| (*name, *without, Order::Soa))
            .collect();
        if self.program == "sparse_jacobi" {
            variants.push(("aos", &[], Order::Aos));
        }
        let mut rows = Vec::new();
        for (name, without, order) in variants {
            let mut full = self.make(&bench.world(&[])?, Order::Soa).map_err(text)?;
            let mut less = self.make(&bench.world(without)?, order).map_err(text)?;
            agree(self, &mut *less, &mut *full, self.tolerance)?;
            rows.push(bench.compare(
                self,
                name,
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
