//! Which kernels depend on the active cells of sparse trees, and which change them.

use super::normalize;
use crate::rewrite::Structure;
use wuji_ir::entities::{Field, Inst, Node, Tree};
use wuji_ir::module::{Function, Module, Span, ValueDef};
use wuji_ir::ops::{Access, Activation, CellOp, Domain, Op, OpClass, Place};

/// How a kernel uses the active cells of a part of a sparse tree, as far as it concerns gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellUse {
    /// The tree.
    pub tree: Tree,
    /// The outermost sparse node of the part. Cells of different parts are independent.
    pub node: Node,
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
    /// The kernel does not change them.
    Same,
    /// Those that are active before the kernel runs.
    Old,
    /// Those that it leaves.
    New,
    /// Both, or others in between.
    Mixed,
}

impl CellVersion {
    /// What visits the cells of both.
    fn and(self, other: CellVersion) -> CellVersion {
        match (self, other) {
            (CellVersion::Same, version) | (version, CellVersion::Same) => version,
            (a, b) if a == b => a,
            _ => CellVersion::Mixed,
        }
    }
}

/// The needs of two parts of a kernel or a tree. The place is that of the later one where the versions differ.
fn both(
    a: Option<(CellVersion, Span)>,
    b: Option<(CellVersion, Span)>,
) -> Option<(CellVersion, Span)> {
    let (Some((first, at)), Some((second, later))) = (a, b) else {
        return a.or(b);
    };
    let version = first.and(second);
    Some((version, if version == first { at } else { later }))
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

/// The uses of all parts of sparse trees.
pub fn cell_uses(module: &Module) -> Vec<CellUse> {
    let parts = sparse_parts(module);
    if parts.is_empty() {
        return Vec::new();
    }
    let mut normal = module.clone();
    // Without normal form, indices are not recognized, and more accesses count.
    let m = if normalize(&mut normal).is_ok() {
        &normal
    } else {
        module
    };
    let uses = parts.into_iter().map(|part| {
        let mut found = Found::default();
        for (func, f) in m.funcs.iter() {
            // What other functions do may happen at any time.
            found.collect(m, f, part, m.kernel != Some(func));
        }
        found.summary(part)
    });
    uses.filter(|u| u.needs.is_some() || u.activates.is_some() || u.deactivates.is_some())
        .collect()
}

/// The same for whole trees: a use of each. Its node is that of the first part.
pub fn tree_uses(parts: Vec<CellUse>) -> Vec<CellUse> {
    let mut trees: Vec<CellUse> = Vec::new();
    for part in parts {
        match trees.iter_mut().find(|u| u.tree == part.tree) {
            Some(tree) => {
                tree.needs = both(tree.needs, part.needs);
                tree.activates = tree.activates.or(part.activates);
                tree.deactivates = tree.deactivates.or(part.deactivates);
            }
            None => trees.push(part),
        }
    }
    trees
}

/// The outermost sparse node on the path to a node, if there is one.
fn outermost(m: &Module, tree: Tree, node: Node) -> Option<Node> {
    let tree = &m.trees[tree];
    let mut path = tree.path(node).into_iter();
    path.find(|node| tree.nodes[*node].kind.is_sparse())
}

/// The part of a sparse tree that a field is in. Elements of other fields are always active.
pub fn part_of(m: &Module, field: Field) -> Option<(Tree, Node)> {
    let data = &m.fields[field];
    outermost(m, data.tree, data.node).map(|node| (data.tree, node))
}

fn sparse_parts(m: &Module) -> Vec<(Tree, Node)> {
    let mut parts = Vec::new();
    for (tree, data) in m.trees.iter() {
        let sparse = data.nodes.iter().filter(|(_, n)| n.kind.is_sparse());
        let own = sparse.filter(|(node, _)| outermost(m, tree, *node) == Some(*node));
        parts.extend(own.map(|(node, _)| (tree, node)));
    }
    parts
}

impl Found {
    fn collect(&mut self, m: &Module, f: &Function, part: (Tree, Node), anywhere: bool) {
        let structure = Structure::of(f);
        for (unit, outer) in f.regions[f.entry].insts.iter().enumerate() {
            let unit = if anywhere { usize::MAX } else { unit };
            let regions = f.insts[*outer].regions.iter();
            let inside = regions.flat_map(|r| f.insts_in(*r));
            for inst in std::iter::once(*outer).chain(inside) {
                let first = inst == *outer && !anywhere;
                self.add(m, f, &structure, inst, (unit, first), part);
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
        part: (Tree, Node),
    ) {
        let span = f.spans[inst];
        let op = &f.insts[inst].op;
        if let Op::ForEach(_, Domain::Field(field), _) = op {
            if part_of(m, *field) == Some(part) {
                self.needs.push(Need {
                    unit,
                    at_start: first,
                    span,
                });
            }
            return;
        }
        if let OpClass::Cell(op, field) = op.class() {
            // What happens to cells of a dense node may concern all that is below it.
            let concerned = match part_of(m, field) {
                Some(own) => own == part,
                None => m.fields[field].tree == part.0,
            };
            if !concerned {
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
            && may_activate(m, f, structure, inst, access, part)
        {
            self.activates.push((unit, span));
        }
    }

    fn summary(&self, (tree, node): (Tree, Node)) -> CellUse {
        let changes = || self.activates.iter().chain(&self.deactivates);
        let mut needs: Option<(CellVersion, Span)> = None;
        for need in &self.needs {
            let before = changes().any(|c| c.0 < need.unit || (c.0 == need.unit && !need.at_start));
            let after = changes().any(|c| c.0 >= need.unit);
            let version = match (before, after) {
                (false, false) => CellVersion::Same,
                (true, false) => CellVersion::New,
                (false, true) => CellVersion::Old,
                (true, true) => CellVersion::Mixed,
            };
            needs = both(needs, Some((version, need.span)));
        }
        CellUse {
            tree,
            node,
            needs,
            activates: self.activates.first().map(|c| c.1),
            deactivates: self.deactivates.first().map(|c| c.1),
        }
    }
}

/// Whether a write may activate cells of a part of a tree. Not where a loop visits the same element, which is active.
fn may_activate(
    m: &Module,
    f: &Function,
    structure: &Structure,
    inst: Inst,
    access: &Access,
    part: (Tree, Node),
) -> bool {
    let Place::Field(field) = access.place else {
        return false;
    };
    let data = &m.fields[field];
    if part_of(m, field) != Some(part) || access.activation == Activation::Never {
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
            if own
                && (visited.tree, visited.node, &visited.axes) == (data.tree, data.node, &data.axes)
            {
                return false;
            }
        }
        outer = structure.parent(control);
    }
    true
}
