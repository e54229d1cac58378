//! Tangents in memory: every access of a value is one of its tangent too.

use super::Forward;
use super::operations::elementwise_tangent;
use wuji_ir::entities::*;
use wuji_ir::layout::{Child, FieldData, NodeData};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, StructType, Type};
use wuji_ir::{Error, Position, Result};

impl Forward<'_> {
    /// Accesses the tangents as a kept instruction accesses the values.
    pub(super) fn access(&mut self, data: &InstData, op: AccessOp, access: &Access) -> Result<()> {
        for seed in 0..self.seeds.len() {
            if let Some(place) = self.place(seed, access.place) {
                let tangents = Access {
                    place,
                    ..access.clone()
                };
                self.access_tangent(seed, data, op, tangents)?;
            }
        }
        Ok(())
    }

    /// Where the tangents of a place are.
    fn place(&self, seed: usize, place: Place) -> Option<Place> {
        let s = &self.seeds[seed];
        match place {
            Place::Field(f) => s.given.fields.get(&f).copied().map(Place::Field),
            Place::Array(a) => s.given.arrays.get(&a).copied().map(Place::Array),
            Place::Local(l) => self.locals[seed].get(&l).copied().map(Place::Local),
            Place::Temp(t) => s.temps.get(&t).copied().map(Place::Temp),
        }
    }

    fn access_tangent(
        &mut self,
        seed: usize,
        data: &InstData,
        op: AccessOp,
        tangents: Access,
    ) -> Result<()> {
        let (at, operands) = data.args.split_at(data.args.len() - op.operands());
        let value = operands.last().or(data.results.first()).copied();
        if !value.is_some_and(|v| self.has_float(v)) {
            return Ok(());
        }
        let reads = !self.seeds[seed].given.constant;
        let old = match op {
            AccessOp::Load if !reads => None,
            AccessOp::Atomic(AtomicOp::Add) if !reads => None,
            AccessOp::Load => Some(self.b.value(Op::Load(tangents), at)),
            AccessOp::Store => {
                self.store_tangent(seed, tangents, at, operands[0]);
                None
            }
            AccessOp::Atomic(AtomicOp::Add) => Some(match self.tangent(seed, operands[0]) {
                Some(tangent) => self.update(AtomicOp::Add, tangents, at, tangent),
                None => self.load_tangent(&tangents, at),
            }),
            AccessOp::Atomic(AtomicOp::Exchange) => {
                let tangent = self.tangent_or_zero(seed, operands[0]);
                Some(self.update(AtomicOp::Exchange, tangents, at, tangent))
            }
            AccessOp::Atomic(op @ (AtomicOp::Mul | AtomicOp::Min | AtomicOp::Max)) => {
                self.refuse_in_parallel(data, &tangents)?;
                Some(self.combine(seed, op, data, tangents, at, operands[0]))
            }
            // Not on floats.
            AccessOp::Atomic(AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => None,
            AccessOp::CompareExchange => {
                self.refuse_in_parallel(data, &tangents)?;
                Some(self.compare_exchange(seed, data, tangents, at, operands))
            }
        };
        if let (Some(old), Some(result)) = (old, data.results.first())
            && !self.seeds[seed].given.constant
        {
            self.set_tangent(seed, *result, old);
        }
        Ok(())
    }

    fn load_tangent(&mut self, tangents: &Access, at: &[Value]) -> Value {
        let read = Access {
            activation: Activation::Never,
            ..tangents.clone()
        };
        self.b.value(Op::Load(read), at)
    }

    fn store_tangent(&mut self, seed: usize, tangents: Access, at: &[Value], value: Value) {
        let tangent = self.tangent_or_zero(seed, value);
        self.store(tangents, at, tangent);
    }

    fn store(&mut self, tangents: Access, at: &[Value], tangent: Value) {
        let mut args: Values = at.iter().copied().collect();
        args.push(tangent);
        self.b.push(Op::Store(tangents), &args);
    }

    fn update(&mut self, op: AtomicOp, tangents: Access, at: &[Value], tangent: Value) -> Value {
        let mut args: Values = at.iter().copied().collect();
        args.push(tangent);
        self.b.value(Op::Atomic(op, tangents), &args)
    }

    /// The update of a value and its tangent are two atomics, between which another thread may have its own.
    /// Those of sums can be applied in any order.
    fn refuse_in_parallel(&self, data: &InstData, tangents: &Access) -> Result<()> {
        let shared = match tangents.place {
            Place::Field(_) | Place::Array(_) | Place::Temp(_) => true,
            Place::Local(l) => self.b.func.locals[l].shared,
        };
        let result = data.results.first().map(|r| self.b.func.ty(*r));
        let is_struct = matches!(result, Some(Type::Struct(_)));
        if !(shared && self.parallel || is_struct) {
            return Ok(());
        }
        let what = if is_struct {
            "an atomic on structs"
        } else {
            "this atomic in a parallel loop"
        };
        let error = Error::new("W0720", format!("{what} has no derivative in forward mode"));
        Err(error
            .at(Position::of(self.b.env, self.b.span))
            .note("a value and its tangent cannot be replaced at once")
            .help("run the loop serially, or use an atomic addition"))
    }

    /// The tangent of a product, minimum or maximum with a value in memory; gives the old one.
    fn combine(
        &mut self,
        seed: usize,
        op: AtomicOp,
        data: &InstData,
        tangents: Access,
        at: &[Value],
        operand: Value,
    ) -> Value {
        let old_tangent = self.load_tangent(&tangents, at);
        if let (Some(binary), Some(old)) = (op.binary(), data.results.first()) {
            let args = [*old, operand];
            let result = self.b.binary(binary, args[0], args[1]);
            let parts = [Some(old_tangent), self.tangent(seed, operand)];
            let op = ElementwiseOp::Binary(binary);
            let tangent = elementwise_tangent(&mut self.b, op, &args, result, &parts);
            self.store(tangents, at, tangent.unwrap_or(old_tangent));
        }
        old_tangent
    }

    /// Where the values have been exchanged, so are their tangents; gives the old one.
    fn compare_exchange(
        &mut self,
        seed: usize,
        data: &InstData,
        tangents: Access,
        at: &[Value],
        operands: &[Value],
    ) -> Value {
        let old_tangent = self.load_tangent(&tangents, at);
        let new_tangent = self.tangent_or_zero(seed, operands[1]);
        let found = self.bits(data.results[0]);
        let expected = self.bits(operands[0]);
        let is_same = self.b.compare(CmpOp::Eq, found, expected);
        let tangent = self.b.select(is_same, new_tangent, old_tangent);
        self.store(tangents, at, tangent);
        old_tangent
    }

    fn bits(&mut self, float: Value) -> Value {
        let to = match self.b.func.ty(float).elem() {
            Some(Scalar::F16) => Scalar::U16,
            Some(Scalar::F32) => Scalar::U32,
            Some(_) | None => Scalar::U64,
        };
        self.b.value(Op::Bitcast(to), &[float])
    }

    /// A deactivated cell loses its tangents too. New cells start with zeros, and stores activate those of tangents.
    pub(super) fn cell(&mut self, data: &InstData, op: CellOp, field: Field) -> Result<()> {
        match op {
            CellOp::Deactivate | CellOp::DeactivateChunk => {}
            CellOp::IsActive | CellOp::Activate | CellOp::Append | CellOp::Length => return Ok(()),
        }
        let mut found: Vec<(Tree, Node)> = Vec::new();
        for seed in self.seeds {
            let given = seed.given.fields.iter();
            let mut given: Vec<(Field, Field)> = given.map(|(f, t)| (*f, *t)).collect();
            given.sort_unstable();
            for (of, tangents) in given {
                if let Some(cells) = self.tangent_cells(field, of, tangents)?
                    && !found.contains(&cells)
                {
                    found.push(cells);
                }
            }
        }
        for (tree, node) in found {
            let view = self.view(tree, node, field);
            self.b.push(Op::Cell(CellOp::Deactivate, view), &data.args);
        }
        Ok(())
    }

    /// The node whose cells hold the tangents of a field, as those of `cells` hold its elements. `None` if the field is
    /// elsewhere, or its tangents are in the same cells.
    fn tangent_cells(
        &self,
        cells: Field,
        field: Field,
        tangents: Field,
    ) -> Result<Option<(Tree, Node)>> {
        let env = &self.b.env;
        let path = |f: Field| env.trees[env.fields[f].tree].path(env.fields[f].node);
        let (node, f, t) = (
            &env.fields[cells],
            &env.fields[field],
            &env.fields[tangents],
        );
        if f.tree != node.tree || !path(field).contains(&node.node) {
            return Ok(None);
        }
        let (own, theirs) = (path(cells), path(tangents));
        if t.tree == node.tree && theirs.contains(&node.node) {
            return Ok(None);
        }
        let shape = |tree: Tree, n: Node| {
            let data: &NodeData = &env.trees[tree].nodes[n];
            (data.kind, data.extents.clone())
        };
        let alike = own.len() <= theirs.len()
            && (own.iter().zip(&theirs))
                .all(|(ours, other)| shape(node.tree, *ours) == shape(t.tree, *other));
        if alike {
            return Ok(theirs.get(own.len() - 1).map(|n| (t.tree, *n)));
        }
        let error = Error::new(
            "W0721",
            format!("the tangents of `{}` cannot be deactivated with it", f.name),
        );
        Err(error
            .at(Position::of(self.b.env, self.b.span))
            .note("they have another layout, so other cells")
            .help("give the tangents the layout of the field"))
    }

    /// A field of a node that stands for its cells: one that is there, or one that takes no memory.
    fn view(&mut self, tree: Tree, node: Node, like: Field) -> Field {
        let env = &mut *self.b.env;
        let axes = env.fields[like].axes.clone();
        let mut known = env.fields.iter();
        if let Some((view, _)) =
            known.find(|(_, f)| (f.tree, f.node, &f.axes) == (tree, node, &axes) && f.has_memory())
        {
            return view;
        }
        let elem = Type::Struct(env.structs.intern(StructType {
            name: "cell".into(),
            fields: Vec::new(),
        }));
        let view = env.fields.push(FieldData {
            name: "tangent cells".into(),
            elem,
            tree,
            node,
            axes,
            packing: None,
            components: Vec::new(),
        });
        let place = Child::Place(view);
        env.trees[tree].nodes[node].children.push(place);
        view
    }
}
