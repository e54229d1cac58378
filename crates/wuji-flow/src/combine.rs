//! New modules from pieces of others: one task of a kernel, or several tasks as one.

use crate::storage::is_fixed;
use crate::summary::entry_loops;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use wuji_compile::analysis::uses::used_by;
use wuji_compile::rewrite::{Map, copy_body, copy_inst};
use wuji_ir::entities::{Array, Field, File, Inst, Label, Message, Region, Tree, Value};
use wuji_ir::layout::{Child, FieldData};
use wuji_ir::module::{Function, Module, Param, Piece as MessagePiece, Term, Values};
use wuji_ir::ops::{Domain, Op, Place};
use wuji_ir::types::{StructType, Type};

/// A piece of a kernel.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Instructions of its entry region.
    Serial(Vec<Inst>),
    Loop(Inst),
}

impl Piece {
    fn each_inst(&self, f: &Function, visit: &mut impl FnMut(Inst)) {
        match self {
            Piece::Serial(insts) => insts.iter().flat_map(|i| f.insts_of(*i)).for_each(visit),
            Piece::Loop(inst) => f.insts_of(*inst).for_each(visit),
        }
    }
}

/// A piece of a kernel, with a number for each tree and array of its module: equal numbers are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) module: &'a Module,
    pub(crate) piece: Piece,
    pub(crate) trees: &'a [u32],
    pub(crate) arrays: &'a [u32],
    /// For each parameter, the parameter of the first part that has the same value.
    pub(crate) equal: &'a [Option<u32>],
}

/// A module of one task, and the numbers of its trees and arrays.
#[derive(Debug)]
pub(crate) struct Combined {
    pub(crate) module: Module,
    pub(crate) trees: Vec<u32>,
    pub(crate) arrays: Vec<u32>,
}

impl Combined {
    /// A module with all its trees and arrays.
    pub(crate) fn whole(module: Module) -> Combined {
        Combined {
            trees: (0..module.trees.len() as u32).collect(),
            arrays: (0..module.arrays.len() as u32).collect(),
            module,
        }
    }
}

/// One kernel that runs the pieces one after the other; loops become one loop over the domain of the first. The parameters are
/// those of all parts. `None` if a tree has other fields in another part, or an array another shape, or if it is a tree there.
pub(crate) fn combine(name: &str, parts: &[Part<'_>]) -> Option<Combined> {
    let mut build = Build::new(name);
    let (mut f, entered) = build.enter_all(parts)?;
    let mut looped = None;
    for (part, entered) in parts.iter().zip(&entered) {
        entered.copy_into(&mut f).piece(&part.piece, &mut looped);
    }
    end_loop(&mut f, looped);
    Some(build.finish(f))
}

/// The body of the loop that pieces become, and its label.
pub(crate) type Looped = Option<(Region, Label)>;

/// The last instruction of a loop that has all its pieces.
pub(crate) fn end_loop(f: &mut Function, looped: Looped) {
    if let Some((region, label)) = looped {
        f.regions[region].term = Term::Continue(label, Values::new());
    }
}

/// The kernel of a part in terms of a new module, and its parameters there.
pub(crate) struct Entered {
    pub(crate) from: Function,
    own: Values,
}

impl Entered {
    pub(crate) fn copy_into<'a>(&'a self, f: &'a mut Function) -> Copy<'a> {
        Copy {
            from: &self.from,
            f,
            map: Map::of(self.from.params(), &self.own),
        }
    }
}

/// A module that is made of parts.
pub(crate) struct Build {
    pub(crate) module: Module,
    /// The number of each tree of the module.
    trees: Vec<u32>,
    /// The fields of each tree of the module.
    fields: Vec<Vec<Field>>,
    /// The number of each array of the module.
    arrays: Vec<u32>,
}

impl Build {
    pub(crate) fn new(name: &str) -> Build {
        Build {
            module: Module::new(name),
            trees: Vec::new(),
            fields: Vec::new(),
            arrays: Vec::new(),
        }
    }

    /// The kernels of all parts, and an empty kernel with the parameters of all of them.
    pub(crate) fn enter_all(&mut self, parts: &[Part<'_>]) -> Option<(Function, Vec<Entered>)> {
        let mut functions = Vec::new();
        for part in parts {
            functions.push(self.enter(part)?);
        }
        let mut params = Vec::new();
        for part in parts {
            for param in &part.module.params {
                let ty = self.ty(part.module, param.ty);
                params.push(Param {
                    name: param.name.clone(),
                    ty,
                });
            }
        }
        let types: Vec<Type> = params.iter().map(|p| p.ty).collect();
        self.module.params = params;
        let mut f = Function::new(self.module.name.clone(), &types, &[]);
        let entry = f.entry;
        f.regions[entry].term = Term::Return(Values::new());
        let mut first = 0;
        let entered = parts.iter().zip(functions).map(|(part, from)| {
            let count = from.params().len();
            let own = f.params()[first..first + count].iter().enumerate();
            let own = own.map(|(k, own)| match part.equal.get(k) {
                Some(Some(same)) => f.params()[*same as usize],
                Some(None) | None => *own,
            });
            let own = own.collect();
            first += count;
            Entered { from, own }
        });
        let entered = entered.collect();
        Some((f, entered))
    }

    pub(crate) fn finish(self, f: Function) -> Combined {
        let mut module = self.module;
        module.kernel = Some(module.add_func(f));
        Combined {
            module,
            trees: self.trees,
            arrays: self.arrays,
        }
    }

    /// The kernel of a part, in terms of the new module.
    fn enter(&mut self, part: &Part<'_>) -> Option<Function> {
        let m = part.module;
        let mut f = m.kernel_func()?.clone();
        let mut fields: SecondaryMap<Field, Option<Field>> = SecondaryMap::new();
        for field in fields_of(&f, &part.piece) {
            let tree = m.fields[field].tree;
            let to = self.tree(part, tree)?;
            let own = m.fields.iter().filter(|(_, data)| data.tree == tree);
            for ((old, _), new) in own.zip(&self.fields[to]) {
                fields[old] = Some(*new);
            }
        }
        let mut arrays: SecondaryMap<Array, Option<Array>> = SecondaryMap::new();
        for array in arrays_of(&f, &part.piece) {
            arrays[array] = Some(self.array(part, array)?);
        }
        let known = self.arrays.iter();
        if known.into_iter().any(|number| self.trees.contains(number)) {
            return None;
        }
        let mut files: FxHashMap<File, File> = FxHashMap::default();
        for inst in f.insts.keys().collect::<Vec<_>>() {
            let span = f.spans[inst];
            if span.is_known() {
                let file = *files
                    .entry(span.file)
                    .or_insert_with(|| self.file(&m.files[span.file]));
                f.spans[inst].file = file;
            }
            let op = &mut f.insts[inst].op;
            if let Some(access) = op.access_mut()
                && let Place::Field(field) = access.place
                && let Some(new) = fields[field]
            {
                access.place = Place::Field(new);
            }
            if let Some(access) = op.access_mut()
                && let Place::Array(array) = access.place
                && let Some(new) = arrays[array]
            {
                access.place = Place::Array(new);
            }
            if let Op::ArrayExtent(array, _) | Op::ArrayStride(array, _) = op
                && let Some(new) = arrays[*array]
            {
                *array = new;
            }
            if let Op::Cell(_, field) | Op::Cache(field) | Op::ForEach(_, Domain::Field(field), _) =
                op
                && let Some(new) = fields[*field]
            {
                *field = new;
            }
            if let Op::Splat(ty) | Op::Compose(ty) = op {
                *ty = self.ty(m, *ty);
            }
            if let Op::Print(message) | Op::Assert(message) = op {
                *message = self.message(m, *message);
            }
        }
        for value in f.values.values_mut() {
            value.ty = self.ty(m, value.ty);
        }
        for local in f.locals.values_mut() {
            local.ty = self.ty(m, local.ty);
        }
        Some(f)
    }

    /// The tree with the number that a tree of a part has.
    fn tree(&mut self, part: &Part<'_>, tree: Tree) -> Option<usize> {
        let m = part.module;
        let number = *part.trees.get(tree.as_u32() as usize)?;
        let own: Vec<Field> = (m.fields.iter())
            .filter(|(_, data)| data.tree == tree)
            .map(|(field, _)| field)
            .collect();
        if let Some(known) = self.trees.iter().position(|n| *n == number) {
            return (self.fields[known].len() == own.len()).then_some(known);
        }
        let first = self.module.fields.len() as u32;
        let renumber = |field: Field| {
            let at = own.iter().position(|f| *f == field);
            Field::from_u32(first + at.unwrap_or(0) as u32)
        };
        let mut data = m.trees[tree].clone();
        for node in data.nodes.values_mut() {
            for child in &mut node.children {
                if let Child::Place(field) = child {
                    *field = renumber(*field);
                }
            }
        }
        let new = self.module.trees.push(data);
        let mut fields = Vec::new();
        for field in &own {
            let old = &m.fields[*field];
            let mut packing = old.packing.clone();
            for member in packing.iter_mut().flat_map(|p| &mut p.members) {
                member.word = renumber(member.word);
            }
            let data = FieldData {
                name: old.name.clone(),
                elem: self.ty(m, old.elem),
                tree: new,
                node: old.node,
                axes: old.axes.clone(),
                packing,
                components: old.components.iter().map(|c| renumber(*c)).collect(),
            };
            fields.push(self.module.fields.push(data));
        }
        self.trees.push(number);
        self.fields.push(fields);
        Some(self.trees.len() - 1)
    }

    /// The array with the number that an array of a part has.
    fn array(&mut self, part: &Part<'_>, array: Array) -> Option<Array> {
        let number = *part.arrays.get(array.as_u32() as usize)?;
        let mut data = part.module.arrays[array].clone();
        data.elem = self.ty(part.module, data.elem);
        let Some(known) = self.arrays.iter().position(|n| *n == number) else {
            self.arrays.push(number);
            return Some(self.module.arrays.push(data));
        };
        let known = Array::from_u32(known as u32);
        let old = &mut self.module.arrays[known];
        old.writable |= data.writable;
        let same = old.elem == data.elem && old.rank == data.rank && old.shape == data.shape;
        (same && is_fixed(old) && is_fixed(&data)).then_some(known)
    }

    fn file(&mut self, name: &str) -> File {
        let known = self.module.files.iter().find(|(_, n)| *n == name);
        match known {
            Some((file, _)) => file,
            None => self.module.files.push(name.to_owned()),
        }
    }

    fn message(&mut self, m: &Module, message: Message) -> Message {
        let mut data = m.messages[message].clone();
        for piece in &mut data.pieces {
            if let MessagePiece::Hole { ty, .. } = piece {
                *ty = self.ty(m, *ty);
            }
        }
        let known = self.module.messages.iter().find(|(_, d)| **d == data);
        match known {
            Some((message, _)) => message,
            None => self.module.messages.push(data),
        }
    }

    fn ty(&mut self, m: &Module, ty: Type) -> Type {
        let Type::Struct(id) = ty else {
            return ty;
        };
        let old = &m.structs.0[id];
        let fields = old
            .fields
            .iter()
            .map(|(name, ty)| (name.clone(), self.ty(m, *ty)));
        let data = StructType {
            name: old.name.clone(),
            fields: fields.collect(),
        };
        Type::Struct(self.module.structs.intern(data))
    }
}

/// The fields that a piece mentions.
fn fields_of(f: &Function, piece: &Piece) -> Vec<Field> {
    let mut out = Vec::new();
    let mut visit = |inst: Inst| {
        let op = &f.insts[inst].op;
        let mut add = |field: Field| {
            if !out.contains(&field) {
                out.push(field);
            }
        };
        if let Some(Place::Field(field)) = op.access().map(|a| a.place) {
            add(field);
        }
        if let Op::Cell(_, field) | Op::Cache(field) | Op::ForEach(_, Domain::Field(field), _) = op
        {
            add(*field);
        }
    };
    piece.each_inst(f, &mut visit);
    out
}

/// The arrays that a piece mentions, or that values before it may have been computed from.
fn arrays_of(f: &Function, piece: &Piece) -> Vec<Array> {
    let mut out = Vec::new();
    let mut visit = |inst: Inst| {
        let op = &f.insts[inst].op;
        let array = match op.access().map(|a| a.place) {
            Some(Place::Array(array)) => Some(array),
            Some(Place::Field(_) | Place::Local(_) | Place::Temp(_)) => None,
            None => extent_of(op),
        };
        if let Some(array) = array.filter(|a| !out.contains(a)) {
            out.push(array);
        }
    };
    piece.each_inst(f, &mut visit);
    for inst in &f.regions[f.entry].insts {
        if extent_of(&f.insts[*inst].op).is_some() {
            visit(*inst);
        }
    }
    out
}

fn extent_of(op: &Op) -> Option<Array> {
    if let Op::ArrayExtent(array, _) | Op::ArrayStride(array, _) = op {
        Some(*array)
    } else {
        None
    }
}

/// Copies pieces of one function into another.
pub(crate) struct Copy<'a> {
    pub(crate) from: &'a Function,
    pub(crate) f: &'a mut Function,
    pub(crate) map: Map,
}

impl Copy<'_> {
    pub(crate) fn piece(&mut self, piece: &Piece, looped: &mut Looped) {
        match piece {
            Piece::Serial(insts) => self.serial(insts),
            Piece::Loop(inst) => self.iterate(*inst, looped),
        }
    }

    fn serial(&mut self, insts: &[Inst]) {
        let entry = self.f.entry;
        for inst in insts {
            self.provide_for(*inst);
            let copy = copy_inst(self.from, *inst, self.f, &mut self.map);
            self.f.regions[entry].insts.push(copy);
        }
    }

    /// Makes what an instruction uses of the entry region available: it is pure.
    pub(crate) fn provide_for(&mut self, inst: Inst) {
        for v in used_by(self.from, inst) {
            self.provide(v);
        }
    }

    fn provide(&mut self, v: Value) {
        if self.map.values.contains_key(&v) {
            return;
        }
        let Some(def) = self.from.def(v) else {
            return;
        };
        let in_entry = self.from.regions[self.from.entry].insts.contains(&def);
        let data = &self.from.insts[def];
        if !in_entry || !data.is_pure() {
            return;
        }
        for arg in self.from.insts[def].args.clone() {
            self.provide(arg);
        }
        let copy = copy_inst(self.from, def, self.f, &mut self.map);
        let entry = self.f.entry;
        // The loop of an earlier part becomes that of this one, too.
        let looped = entry_loops(self.f).next();
        let insts = &mut self.f.regions[entry].insts;
        let at = insts.iter().position(|inst| Some(*inst) == looped);
        insts.insert(at.unwrap_or(insts.len()), copy);
    }

    /// Adds the body of a loop to the loop that there is, or begins it.
    fn iterate(&mut self, inst: Inst, looped: &mut Looped) {
        self.provide_for(inst);
        let data = &self.from.insts[inst];
        let body = data.regions[0];
        let old_label = data.op.label();
        let params = self.from.regions[body].params.clone();
        let (region, _) = *looped.get_or_insert_with(|| {
            let types: Vec<Type> = params.iter().map(|p| self.from.ty(*p)).collect();
            let region = self.f.add_region(&types);
            let label = self.f.fresh_label();
            let mut op = data.op.clone();
            op.set_label(label);
            let args: Values = data.args.iter().map(|v| self.map.value(*v)).collect();
            let copy = self.f.add_inst(op, args, &[], self.from.spans[inst]);
            self.f.insts[copy].regions.push(region);
            let entry = self.f.entry;
            self.f.regions[entry].insts.push(copy);
            (region, label)
        });
        for (param, index) in params.iter().zip(self.f.regions[region].params.clone()) {
            let (wanted, has) = (self.from.ty(*param), self.f.ty(index));
            let value = match wanted {
                Type::Scalar(to) if wanted != has => {
                    let convert = Op::Convert(to);
                    let span = self.from.spans[inst];
                    let copy =
                        self.f
                            .add_inst(convert, [index].into_iter().collect(), &[wanted], span);
                    self.f.regions[region].insts.push(copy);
                    self.f.result(copy)
                }
                _ => index,
            };
            self.map.set(*param, value);
        }
        let early = crate::summary::leaves_early(self.from, body, Some(inst));
        if !early {
            copy_body(self.from, body, self.f, region, &mut self.map);
            return;
        }
        // An iteration that ends early continues with the next body: `continue` leaves a block.
        let block = self.f.fresh_label();
        if let Some(old) = old_label {
            self.map.labels.insert(old, block);
        }
        let inner = self.f.add_region(&[]);
        copy_body(self.from, body, self.f, inner, &mut self.map);
        self.f.regions[inner].term = Term::Yield(Values::new());
        let span = self.from.spans[inst];
        let copy = self.f.add_inst(Op::Block(block), Values::new(), &[], span);
        self.f.insts[copy].regions.push(inner);
        self.f.regions[region].insts.push(copy);
        for r in self.f.regions_of(copy) {
            let term = &mut self.f.regions[r].term;
            if let Term::Continue(to, values) = term
                && *to == block
            {
                *term = Term::Break(block, values.clone());
            }
        }
    }
}
