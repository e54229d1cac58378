//! Which kernels depend on the active cells of sparse trees, and which change them.

use super::normalize;
use crate::rewrite::Structure;
use wuji_ir::entities::{Field, Inst, Tree};
use wuji_ir::module::{Function, Module, Span, ValueDef};
use wuji_ir::ops::{Access, Activation, CellOp, Domain, Op, OpClass, Place};

/// How a kernel uses the active cells of a sparse tree, as far as it concerns gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellUse {
    /// The tree.
    pub tree: Tree,
    /// Which cells its gradient kernel must find active, and where the kernel depends on them.
    pub needs: Option<(CellVersion, Span)>,
    /// Where it may activate cells.
    pub activates: Option<Span>,
    /// Where it deactivates some.
    pub deactivates: Option<Span>,
}

/// Which active cells of a tree a gradient kernel visits.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum CellVersion {
    /// Those that are active before the kernel runs.
    Old,
    /// Those that it leaves, or does not change.
    New,
    /// Both, or others in between.
    Mixed,
}

/// A loop over active cells or a query of them.
struct Need {
    unit: usize,
    /// The cells are those from before the unit.
    at_start: bool,
    span: Span,
}

#[derive(Default)]
struct Found {
    needs: Vec<Need>,
    activates: Vec<(usize, Span)>,
    deactivates: Vec<(usize, Span)>,
}

/// The uses of all sparse trees.
pub fn cell_uses(module: &Module) -> Vec<CellUse> {
    let sparse: Vec<Tree> = module.trees.keys().collect();
    let sparse: Vec<Tree> = sparse
        .into_iter()
        .filter(|t| module.trees[*t].is_sparse())
        .collect();
    if sparse.is_empty() {
        return Vec::new();
    }
    let mut normal = module.clone();
    // Without normal form, indices are not recognized, and more accesses count.
    let m = if normalize(&mut normal).is_ok() {
        &normal
    } else {
        module
    };
    let uses = sparse.into_iter().map(|tree| {
        let mut found = Found::default();
        for (func, f) in m.funcs.iter() {
            // What other functions do may happen at any time.
            found.collect(m, f, tree, m.kernel != Some(func));
        }
        found.summary(tree)
    });
    uses.filter(|u| u.needs.is_some() || u.activates.is_some() || u.deactivates.is_some())
        .collect()
}

impl Found {
    fn collect(&mut self, m: &Module, f: &Function, tree: Tree, anywhere: bool) {
        let structure = Structure::of(f);
        for (unit, outer) in f.regions[f.entry].insts.iter().enumerate() {
            let unit = if anywhere { usize::MAX } else { unit };
            let regions = f.insts[*outer].regions.iter();
            let inside = regions.flat_map(|r| f.insts_in(*r));
            for inst in std::iter::once(*outer).chain(inside) {
                let first = inst == *outer && !anywhere;
                self.add(m, f, &structure, inst, (unit, first), tree);
            }
        }
    }

    fn add(
        &mut self,
        m: &Module,
        f: &Function,
        structure: &Structure,
        inst: Inst,
        (unit, first): (usize, bool),
        tree: Tree,
    ) {
        let span = f.spans[inst];
        let op = &f.insts[inst].op;
        if let Op::ForEach(_, Domain::Field(field), _) = op {
            if m.fields[*field].tree == tree && is_sparse(m, *field) {
                self.needs.push(Need {
                    unit,
                    at_start: first,
                    span,
                });
            }
            return;
        }
        if let OpClass::Cell(op, field) = op.class() {
            if m.fields[field].tree != tree {
                return;
            }
            match op {
                CellOp::IsActive | CellOp::Length => self.needs.push(Need {
                    unit,
                    at_start: false,
                    span,
                }),
                CellOp::Activate | CellOp::Append => self.activates.push((unit, span)),
                CellOp::Deactivate | CellOp::DeactivateChunk => self.deactivates.push((unit, span)),
            }
            return;
        }
        if let Some(access) = op.written_access()
            && may_activate(m, f, structure, inst, access, tree)
        {
            self.activates.push((unit, span));
        }
    }

    fn summary(&self, tree: Tree) -> CellUse {
        let changes = || self.activates.iter().chain(&self.deactivates);
        let mut needs: Option<(CellVersion, Span)> = None;
        for need in &self.needs {
            let before = changes().any(|c| c.0 < need.unit || (c.0 == need.unit && !need.at_start));
            let after = changes().any(|c| c.0 >= need.unit);
            let version = match (before, after) {
                (_, false) => CellVersion::New,
                (false, true) => CellVersion::Old,
                (true, true) => CellVersion::Mixed,
            };
            needs = match needs {
                Some((known, span)) if known == version => Some((known, span)),
                Some((_, span)) => Some((CellVersion::Mixed, span)),
                None => Some((version, need.span)),
            };
        }
        CellUse {
            tree,
            needs,
            activates: self.activates.first().map(|c| c.1),
            deactivates: self.deactivates.first().map(|c| c.1),
        }
    }
}

/// Whether the elements of a field are in cells that may be inactive. Other fields of the tree need not be.
fn is_sparse(m: &Module, field: Field) -> bool {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let mut path = tree.path(data.node).into_iter();
    path.any(|node| tree.nodes[node].kind.is_sparse())
}

/// Whether a write may activate cells of a tree. Not where a loop visits the same element, which is active.
fn may_activate(
    m: &Module,
    f: &Function,
    structure: &Structure,
    inst: Inst,
    access: &Access,
    tree: Tree,
) -> bool {
    let Place::Field(field) = access.place else {
        return false;
    };
    let data = &m.fields[field];
    if data.tree != tree || !is_sparse(m, field) || access.activation == Activation::Never {
        return false;
    }
    let address = &f.insts[inst].args[..data.rank()];
    let mut outer = structure.parent(inst);
    while let Some(control) = outer {
        if let Op::ForEach(_, Domain::Field(visited), _) = &f.insts[control].op {
            let visited = &m.fields[*visited];
            let region = f.insts[control].regions[0];
            let own = address.iter().enumerate().all(|(k, v)| {
                matches!(f.values[*v].def, ValueDef::Param(r, n) if r == region && usize::from(n) == k)
            });
            if own && (visited.tree, visited.node, &visited.axes) == (tree, data.node, &data.axes) {
                return false;
            }
        }
        outer = structure.parent(control);
    }
    true
}
