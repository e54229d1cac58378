//! Memory effects of a task: the summary for optimizations across tasks and kernels.

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::rewrite::Structure;
use wuji_ir::entities::Value;
use wuji_ir::module::{Function, Module, Task, TaskKind};
use wuji_ir::ops::{AccessOp, Activation, Op, OpClass, Place};

/// How a task uses one field, array or temp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The memory.
    pub place: Place,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written to.
    pub writes: bool,
    /// Atomic updates.
    pub updates: bool,
    /// May activate cells.
    pub activates: bool,
    /// Every access uses the iteration's own indices, so iterations do not conflict.
    pub element_wise: bool,
}

/// A task before lowering, with its memory effects.
#[derive(Clone, Debug)]
pub struct Source {
    /// The task.
    pub task: Task,
    /// Its function.
    pub body: Function,
    /// One entry per field, array or temp, in order of first use.
    pub uses: Vec<Use>,
}

impl Source {
    /// The effects of a task.
    pub fn of(m: &Module, task: &Task) -> Source {
        let body = m.funcs[task.func].clone();
        let uses = uses(m, task, &body);
        Source {
            task: task.clone(),
            body,
            uses,
        }
    }

    /// The use of a place, if there is one.
    pub fn use_of(&self, place: Place) -> Option<&Use> {
        self.uses.iter().find(|u| u.place == place)
    }
}

fn uses(m: &Module, task: &Task, f: &Function) -> Vec<Use> {
    let own: &[Value] = match task.kind {
        TaskKind::Serial | TaskKind::Chunks { .. } => &[],
        TaskKind::Range { .. } | TaskKind::Cells { .. } => &f.params()[m.params.len()..],
    };
    let own: Vec<Affine> = own.iter().map(|v| Affine::atom(*v)).collect();
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut out: Vec<Use> = Vec::new();
    collect(f, &mut |place, args, op| {
        let rank = m.place_elem(f, place).1;
        let indices: Vec<Affine> = args[..rank].iter().map(|v| affine.expr(*v)).collect();
        let element_wise = !own.is_empty() && indices == own;
        let at = match out.iter().position(|u| u.place == place) {
            Some(at) => at,
            None => {
                out.push(Use {
                    place,
                    reads: false,
                    writes: false,
                    updates: false,
                    activates: false,
                    element_wise: true,
                });
                out.len() - 1
            }
        };
        let used = &mut out[at];
        used.element_wise &= element_wise;
        if let OpClass::Access(op, a) = op.class() {
            match op {
                AccessOp::Load => used.reads = true,
                AccessOp::Store => used.writes = true,
                AccessOp::Atomic(_) | AccessOp::CompareExchange => used.updates = true,
            }
            used.activates |= op != AccessOp::Load && a.activation == Activation::IfAbsent;
        }
    });
    // A function that is not inlined may access anything.
    for g in m.called_from(f) {
        let g = &m.funcs[g];
        collect(g, &mut |place, _, op| {
            let writes = !matches!(op, Op::Load(_));
            match out.iter_mut().find(|u| u.place == place) {
                Some(u) => {
                    u.element_wise = false;
                    u.reads |= !writes;
                    u.writes |= writes;
                }
                None => out.push(Use {
                    place,
                    reads: !writes,
                    writes,
                    updates: writes,
                    activates: writes,
                    element_wise: false,
                }),
            }
        });
    }
    out
}

fn collect(f: &Function, visit: &mut impl FnMut(Place, &[Value], &Op)) {
    f.walk(|inst| {
        let data = &f.insts[inst];
        if let Some(a) = data.op.access()
            && !matches!(a.place, Place::Local(_))
        {
            visit(a.place, &data.args, &data.op);
        }
    });
}
