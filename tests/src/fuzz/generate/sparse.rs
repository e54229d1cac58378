//! Sparse trees: nodes of all kinds, their initial contents, and the operations on their cells that a parallel loop
//! may have.

use super::Generator;
use super::roles::{Own, OwnAxis, Rights, Role};
use wuji_ir::entities::{Field, Node, Tree, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::layout::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, I32, Scalar, StructType, Type};
use wuji_tools::script::elements::Cells;

/// How the iterations of a loop change the cells of a tree.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Topology {
    Untouched,
    /// No cell is activated or deactivated, so all iterations may query them.
    Frozen,
    /// Cells are activated, and not queried.
    Growing,
    /// Like `Growing`; the lists of a node only grow by appends.
    Appending(Node),
    /// Cells are deactivated, and nothing else happens in the tree.
    Shrinking,
    /// Each iteration may deactivate the current cell of the loop.
    OwnCell(Field),
}

impl Rights {
    /// Whether code may query the cells of a tree.
    pub(super) fn may_ask(&self, tree: Tree) -> bool {
        match self {
            Rights::All => true,
            Rights::Groups(_, trees) => trees[tree.as_u32() as usize] == Topology::Frozen,
        }
    }

    /// The activation of a write to a field of a tree; `None` if both are allowed.
    pub(super) fn activation(&self, tree: Tree) -> Option<Activation> {
        match self {
            Rights::All => None,
            Rights::Groups(_, trees) => Some(match trees[tree.as_u32() as usize] {
                Topology::Frozen => Activation::Never,
                Topology::Untouched
                | Topology::Growing
                | Topology::Appending(_)
                | Topology::Shrinking
                | Topology::OwnCell(_) => Activation::IfAbsent,
            }),
        }
    }
}

impl Generator<'_> {
    pub(super) fn is_sparse(&self, field: Field) -> bool {
        let data = &self.m.fields[field];
        !self.m.trees[data.tree].sparse_path(data.node).is_empty()
    }

    /// The node a field is in.
    fn node_of(&self, field: Field) -> &NodeData {
        let data = &self.m.fields[field];
        &self.m.trees[data.tree].nodes[data.node]
    }

    /// Whether the cells of an element can be deactivated.
    fn can_deactivate(&self, field: Field) -> bool {
        let leaves = self.m.leaves(field);
        (leaves.iter()).all(|leaf| self.node_of(leaf.field).kind.is_sparse())
    }

    /// A node kind.
    pub(super) fn any_kind(&mut self) -> NodeKind {
        match self.dice.weighted(&[4, 3, 4, 2, 3]) {
            0 => NodeKind::Dense,
            1 => NodeKind::Bitmasked,
            2 => NodeKind::Pointer,
            3 => NodeKind::dynamic(1),
            _ => NodeKind::Hash,
        }
    }

    /// Axes of lists on the path to a node: no other node may split them.
    pub(super) fn list_axes(&self, tree: Tree, node: Node) -> Vec<Axis> {
        let tree = &self.m.trees[tree];
        let path = tree.path(node);
        let lists = path
            .iter()
            .filter(|n| matches!(tree.nodes[**n].kind, NodeKind::Dynamic { .. }));
        lists
            .flat_map(|n| tree.nodes[*n].extents.iter().map(|e| e.0))
            .collect()
    }

    /// A type without bytes: a field of it is a view of its node.
    pub(super) fn view_type(&mut self) -> Type {
        Type::Struct(self.m.structs.intern(StructType {
            name: "View".to_owned(),
            fields: Vec::new(),
        }))
    }

    /// Adds a node of a kind, with the extents of a dense one or those that the kind requires.
    pub(super) fn add_node(&mut self, tree: Tree, parent: Node, kind: NodeKind) {
        let mut extents = self.extents(tree, parent);
        let mut kind = kind;
        if let NodeKind::Dynamic { .. } = kind {
            let split = self.m.trees[tree].axes(parent);
            let fresh: Vec<Axis> = (0..6)
                .filter_map(Axis::new)
                .filter(|a| !split.contains(a))
                .collect();
            if split.len() < 4 && !fresh.is_empty() {
                let extent = self.dice.between(1, 30) as u64;
                let chunk = self.dice.between(1, extent as i64) as u32;
                extents = vec![(*self.dice.pick(&fresh), extent)];
                kind = NodeKind::dynamic(chunk);
            } else {
                kind = NodeKind::Pointer;
            }
        }
        if kind == NodeKind::Hash {
            for (axis, extent) in &mut extents {
                let above = self.m.trees[tree].extent(parent, *axis);
                let wide = *self.dice.pick(&[3, 16, 1000, 1 << 20, 1 << 32]);
                *extent = wide.min(((1 << 36) / above).max(3));
            }
        }
        let ordered = matches!(
            kind,
            NodeKind::Dense | NodeKind::Bitmasked | NodeKind::Pointer
        );
        let morton = ordered && self.dice.chance(25);
        if morton {
            for e in &mut extents {
                e.1 = e.1.next_power_of_two().min(16);
            }
        }
        let node = self.m.trees[tree].add(parent, kind, &extents);
        if morton {
            self.m.trees[tree].nodes[node].order = CellOrder::Morton;
        }
    }

    /// Some elements of a sparse field that are active initially.
    pub(super) fn sparse_contents(&mut self, field: Field, tally: bool) -> Cells {
        let domain = self.m.fields[field].domain(&self.m.trees);
        let elem = self.m.fields[field].elem;
        let mut cells = Cells::new();
        let count = *self.dice.pick(&[0, 0, 1, 3, 8, 20]);
        let mut last: Vec<i64> = domain.iter().map(|d| d.0).collect();
        for _ in 0..self.dice.below(count + 1) {
            let near = self.dice.chance(50);
            let at: Vec<i64> = domain
                .iter()
                .zip(&last)
                .map(|((from, extent), last)| {
                    let end = from + (*extent as i64 - 1);
                    if near {
                        (last + self.dice.between(-2, 2)).clamp(*from, end)
                    } else {
                        self.dice.between(*from, end)
                    }
                })
                .collect();
            let values = self.contents(elem, tally);
            last = at.clone();
            cells.insert(at, values);
        }
        cells
    }

    /// The permitted changes of the cells of each tree in a loop, and their consequences for the roles of its fields.
    pub(super) fn topologies(
        &mut self,
        roles: &mut [Role],
        over: Option<Field>,
        indices: &[(Value, i64, i64)],
    ) -> Vec<Topology> {
        let trees: Vec<Tree> = self.m.trees.keys().collect();
        trees
            .into_iter()
            .map(|tree| self.topology(tree, roles, over, indices))
            .collect()
    }

    fn topology(
        &mut self,
        tree: Tree,
        roles: &mut [Role],
        over: Option<Field>,
        indices: &[(Value, i64, i64)],
    ) -> Topology {
        if !self.m.trees[tree].is_sparse() {
            return Topology::Growing;
        }
        let mut restrict =
            |g: &Self, fields: &dyn Fn(&FieldData) -> bool, to: &dyn Fn(&Role) -> Role| {
                for info in &g.places {
                    if let Place::Field(f) = info.place
                        && g.m.fields[f].tree == tree
                        && fields(&g.m.fields[f])
                    {
                        roles[info.group] = to(&roles[info.group]);
                    }
                }
            };
        match self.dice.weighted(&[1, 4, 6, 4, 2, 3]) {
            0 => {
                restrict(self, &|_| true, &|_| Role::Untouched);
                Topology::Untouched
            }
            1 => Topology::Frozen,
            3 => {
                let nodes = self.m.trees[tree].nodes.iter();
                let lists: Vec<Node> = nodes
                    .filter(|(_, n)| matches!(n.kind, NodeKind::Dynamic { .. }))
                    .map(|(id, _)| id)
                    .collect();
                if lists.is_empty() {
                    return Topology::Growing;
                }
                let list = *self.dice.pick(&lists);
                let data = self.m.trees[tree].clone();
                restrict(
                    self,
                    &|f| data.path(f.node).contains(&list),
                    &|role| match role {
                        Role::Untouched => Role::Untouched,
                        _ => Role::Read,
                    },
                );
                Topology::Appending(list)
            }
            4 => {
                restrict(self, &|_| true, &|_| Role::Untouched);
                Topology::Shrinking
            }
            5 => {
                let own = over.filter(|f| {
                    let list = matches!(self.node_of(*f).kind, NodeKind::Dynamic { .. });
                    self.m.fields[*f].tree == tree && self.can_deactivate(*f) && !list
                });
                let Some(own) = own else {
                    return Topology::Growing;
                };
                restrict(self, &|_| true, &|_| Role::Untouched);
                let place = self
                    .places
                    .iter()
                    .position(|p| p.place == Place::Field(own));
                if let Some(place) = place {
                    let axes =
                        indices
                            .iter()
                            .enumerate()
                            .map(|(index, (value, ..))| OwnAxis::Index {
                                index,
                                scale: 1,
                                offset: 0,
                                ty: self.body.f.ty(*value).as_scalar().unwrap_or(Scalar::I64),
                            });
                    roles[self.places[place].group] = Role::Own(Own {
                        place,
                        axes: axes.collect(),
                    });
                }
                Topology::OwnCell(own)
            }
            _ => {
                self.own_cells(tree, roles, over, indices);
                Topology::Growing
            }
        }
    }

    /// Fields in the node that a loop runs over are often owned by its iterations, cell by cell.
    fn own_cells(
        &mut self,
        tree: Tree,
        roles: &mut [Role],
        over: Option<Field>,
        indices: &[(Value, i64, i64)],
    ) {
        let Some(over) = over.map(|f| self.m.fields[f].clone()) else {
            return;
        };
        for place in 0..self.places.len() {
            let Place::Field(f) = self.places[place].place else {
                continue;
            };
            let data = self.m.fields[f].clone();
            if data.tree != tree || over.tree != tree || data.node != over.node {
                continue;
            }
            if !self.dice.chance(60) {
                continue;
            }
            let axes = data.axes.iter().filter_map(|(axis, from)| {
                let index = over.axes.iter().position(|a| a.0 == *axis)?;
                let (value, ..) = *indices.get(index)?;
                Some(OwnAxis::Index {
                    index,
                    scale: 1,
                    offset: from.wrapping_sub(over.axes[index].1),
                    ty: if from == &over.axes[index].1 {
                        self.body.f.ty(value).as_scalar().unwrap_or(Scalar::I64)
                    } else {
                        Scalar::I64
                    },
                })
            });
            let axes: Vec<OwnAxis> = axes.collect();
            if axes.len() == data.axes.len() {
                roles[self.places[place].group] = Role::Own(Own { place, axes });
            }
        }
    }

    /// A query of cells with a result of some type, if one is allowed.
    pub(super) fn ask(&mut self, ty: Type) -> Option<Value> {
        if ty != BOOL && ty != I32 {
            return None;
        }
        let fields: Vec<Field> = self
            .m
            .fields
            .keys()
            .filter(|f| self.is_sparse(*f))
            .filter(|f| self.body.rights.may_ask(self.m.fields[*f].tree))
            .filter(|f| ty == BOOL || dynamic_index(&self.m, *f).is_ok())
            .collect();
        if fields.is_empty() {
            return None;
        }
        let field = *self.dice.pick(&fields);
        let (op, args) = if ty == BOOL {
            (CellOp::IsActive, self.cell_address(field, None))
        } else {
            (CellOp::Length, self.list_address(field))
        };
        Some(self.b().value(Op::Cell(op, field), &args))
    }

    fn cell_address(&mut self, field: Field, skip: Option<usize>) -> Vec<Value> {
        let domain = self.m.fields[field].domain(&self.m.trees);
        let wanted = domain.into_iter().enumerate();
        let wanted: Vec<(i64, u64)> = wanted
            .filter(|(k, _)| Some(*k) != skip)
            .map(|d| d.1)
            .collect();
        wanted.into_iter().map(|d| self.any_index(d)).collect()
    }

    fn list_address(&mut self, field: Field) -> Vec<Value> {
        let along = dynamic_index(&self.m, field).ok();
        self.cell_address(field, along)
    }

    /// A change of cells, if one is allowed.
    pub(super) fn change_cells(&mut self) {
        let fields: Vec<Field> = self
            .m
            .fields
            .keys()
            .filter(|f| self.is_sparse(*f))
            .collect();
        if fields.is_empty() {
            return self.write();
        }
        let mut field = *self.dice.pick(&fields);
        let lists: Vec<Field> = fields
            .into_iter()
            .filter(|f| dynamic_index(&self.m, *f).is_ok())
            .collect();
        if !lists.is_empty() && self.dice.chance(30) {
            field = *self.dice.pick(&lists);
        }
        let tree = self.m.fields[field].tree;
        let is_list = dynamic_index(&self.m, field).is_ok();
        let can_go = self.can_deactivate(field);
        let topology = match &self.body.rights {
            Rights::All => None,
            Rights::Groups(_, trees) => Some(trees[tree.as_u32() as usize].clone()),
        };
        let op = match topology {
            None => match self.dice.weighted(&[
                3,
                if can_go { 3 } else { 0 },
                if is_list { 4 } else { 0 },
            ]) {
                0 => CellOp::Activate,
                1 => CellOp::Deactivate,
                _ => CellOp::Append,
            },
            Some(Topology::Growing) => CellOp::Activate,
            Some(Topology::Appending(list)) => {
                let data = &self.m.fields[field];
                if data.node == list {
                    CellOp::Append
                } else if self.m.trees[tree].path(data.node).contains(&list) {
                    return;
                } else {
                    CellOp::Activate
                }
            }
            Some(Topology::Shrinking) if can_go => CellOp::Deactivate,
            Some(Topology::OwnCell(own)) if own == field && self.body.in_kernel => {
                // Functions do not know the position of the loop and do not have its rights.
                let rank = self.m.fields[field].rank();
                let at: Vec<Value> = self.body.indices.iter().take(rank).map(|i| i.0).collect();
                self.b().push(Op::Cell(CellOp::Deactivate, field), &at);
                return;
            }
            Some(
                Topology::Untouched | Topology::Frozen | Topology::Shrinking | Topology::OwnCell(_),
            ) => {
                return;
            }
        };
        let args = match op {
            CellOp::Append | CellOp::Length => self.list_address(field),
            CellOp::Activate | CellOp::Deactivate | CellOp::DeactivateChunk | CellOp::IsActive => {
                self.cell_address(field, None)
            }
        };
        let inst = self.b().push(Op::Cell(op, field), &args);
        // The assignment of indices to iterations is unspecified.
        if let (Some(number), Rights::All) = (
            self.body.f.insts[inst].results.first().copied(),
            &self.body.rights,
        ) {
            self.keep(number);
        }
    }
}
