//! What each part of the compiler is worth to programs on sparse data.

use super::blocks::{self, ACTIVE, CELLS};
use super::jacobi::{Order, Sparse};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

pub struct Ablation;

/// Names of what is left out, and the optimizations behind them.
const PARTS: [(&str, &[&str]); 4] = [
    (
        "no_simplification",
        &["simplify", "simplify_lowered", "cleanup"],
    ),
    ("no_access", &["entries", "neighbours", "activations"]),
    ("no_list_reuse", &["list_reuse"]),
    (
        "none_of_these",
        &[
            "simplify",
            "simplify_lowered",
            "cleanup",
            "entries",
            "neighbours",
            "activations",
            "list_reuse",
        ],
    ),
];

impl Study for Ablation {
    fn name(&self) -> &'static str {
        "ablation"
    }
    fn size(&self) -> String {
        "sparse_jacobi".into()
    }
    fn metric(&self) -> &'static str {
        "no_simplification"
    }

    /// Rates without something, against everything.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let places = blocks::shell();
        let full = Sparse::new(&bench.world(&[])?, &places, Order::Soa).map_err(text)?;
        let mut full = full.contender();
        let variants = PARTS
            .iter()
            .map(|(name, without)| (*name, *without, Order::Soa))
            .chain([("aos", &[][..], Order::Aos)]);
        let mut rows = Vec::new();
        for (name, without, order) in variants {
            let grid = Sparse::new(&bench.world(without)?, &places, order).map_err(text)?;
            let mut less = grid.contender();
            agree(self, &mut *less, &mut *full, 1e-6)?;
            let work = (ACTIVE * CELLS) as f64 / 1e6;
            rows.push(bench.compare(
                self,
                name,
                Side {
                    contender: &mut *less,
                    work,
                },
                Side {
                    contender: &mut *full,
                    work,
                },
            )?);
        }
        Ok(rows)
    }
}
