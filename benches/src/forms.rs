//! The same computation in several forms. A user does not know which form is the fast one, so none may be slower than the
//! best by more than a tenth.

mod boundary;
mod divergent;
mod memory;
mod scatter;
mod solver;

use wuji::World;

use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// One form of a program, and the world that runs it.
struct Form {
    name: &'static str,
    /// Optimizations that its world leaves out.
    without: &'static [&'static str],
    make: fn(&World) -> wuji::Result<Box<dyn Contender>>,
}

/// A program in several forms, of which the first is the best one.
struct Forms {
    name: &'static str,
    size: &'static str,
    metric: &'static str,
    /// The work of one sample, in units of the metric.
    work: f64,
    tolerance: f32,
    forms: Vec<Form>,
}

/// All programs.
pub fn all() -> Vec<Box<dyn Study>> {
    let boxed = |p: Forms| Box::new(p) as Box<dyn Study>;
    let programs = [
        memory::all(),
        boundary::all(),
        scatter::all(),
        solver::all(),
        divergent::all(),
    ];
    programs.into_iter().flatten().map(boxed).collect()
}

impl Forms {
    /// A form in a world of its own, which needs a first run and [`World::finish_compiling`] before it has its final code.
    fn start(&self, bench: &Bench, form: &Form) -> Result<(World, Box<dyn Contender>), String> {
        let world = bench.world(form.without)?;
        let contender = (form.make)(&world).map_err(|e| e.to_string())?;
        Ok((world, contender))
    }
}

impl Study for Forms {
    fn name(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> String {
        self.size.into()
    }

    fn metric(&self) -> &'static str {
        self.metric
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let Some((best, others)) = self.forms.split_first() else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        for form in others {
            // Afresh for each row, because a program may go on from where it was.
            let (reference_world, mut reference) = self.start(bench, best)?;
            let (world, mut contender) = self.start(bench, form)?;
            agree(self, &mut *contender, &mut *reference, self.tolerance)?;
            for world in [&reference_world, &world] {
                world.finish_compiling().map_err(|e| e.to_string())?;
            }
            let metric = format!("{}, {} : {}", self.metric, form.name, best.name);
            let side = |contender| Side {
                contender,
                work: self.work,
            };
            let (first, second) = (side(&mut *contender), side(&mut *reference));
            rows.push(bench.compare(self, &metric, first, second)?);
        }
        Ok(rows)
    }
}
