//! Removes unused entities from a module.

use super::program::Program;
use wuji_ir::entities::*;
use wuji_ir::layout::Child;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Imm;

/// Removes unused entities, if the program still fails.
pub(super) fn tidy(program: &Program, same: impl Fn(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut attempt = |edit: &dyn Fn(&mut Program)| {
        let mut smaller = best.clone();
        edit(&mut smaller);
        if same(&smaller) {
            best = smaller;
        }
    };
    attempt(&drop_functions);
    attempt(&drop_locals);
    attempt(&drop_messages);
    attempt(&drop_fields);
    attempt(&drop_arrays);
    for field in 0..program.inputs.fields.len() {
        attempt(&|p: &mut Program| {
            for imm in p.inputs.fields.get_mut(field).into_iter().flatten() {
                *imm = Imm::zero(imm.ty);
            }
        });
    }
    for field in 0..program.inputs.sparse.len() {
        attempt(&|p: &mut Program| {
            if let Some((_, cells)) = p.inputs.sparse.get_mut(field) {
                cells.clear();
            }
        });
        for k in (0..program.inputs.sparse[field].1.len()).rev() {
            attempt(&|p: &mut Program| {
                if let Some((_, cells)) = p.inputs.sparse.get_mut(field)
                    && let Some(at) = cells.keys().nth(k).cloned()
                {
                    cells.remove(&at);
                }
            });
        }
    }
    for buffer in 0..program.inputs.buffers.len() {
        attempt(&|p: &mut Program| {
            if let Some(bytes) = p.inputs.buffers.get_mut(buffer) {
                bytes.fill(0);
            }
        });
    }
    attempt(&|p: &mut Program| p.inputs.again = 0);
    attempt(&|p: &mut Program| (p.inputs.seed, p.inputs.launch) = (0, 0));
    best
}

fn each_op(m: &mut Module, mut visit: impl FnMut(&mut Op)) {
    for f in m.funcs.values_mut() {
        // Instructions that are in no region any more may refer to anything.
        let mut live = Vec::new();
        f.walk(|i| live.push(i));
        for i in live {
            visit(&mut f.insts[i].op);
        }
    }
}

/// Maps old numbers to new ones, for those that are used.
struct Renumbering(Vec<Option<u32>>);

impl Renumbering {
    fn new(used: &[bool]) -> Renumbering {
        let mut next = 0;
        let numbers = used.iter().map(|used| {
            used.then(|| {
                next += 1;
                next - 1
            })
        });
        Renumbering(numbers.collect())
    }

    fn get(&self, old: u32) -> Option<u32> {
        self.0.get(old as usize).copied().flatten()
    }

    fn keep<T>(&self, old: Vec<T>) -> Vec<T> {
        let kept = old.into_iter().zip(&self.0).filter(|(_, k)| k.is_some());
        kept.map(|(item, _)| item).collect()
    }
}

fn drop_functions(p: &mut Program) {
    let m = &mut p.module;
    let mut used = vec![false; m.funcs.len()];
    for func in m.reachable(m.kernel) {
        used[func.as_u32() as usize] = true;
    }
    let map = Renumbering::new(&used);
    each_op(m, |op| {
        if let Op::Call(callee) = op
            && let Some(new) = map.get(callee.as_u32())
        {
            *callee = Func::from_u32(new);
        }
    });
    let all: Vec<Function> = m.funcs.values().cloned().collect();
    m.set_funcs(map.keep(all).into_iter().collect());
    m.kernel = m
        .kernel
        .and_then(|k| map.get(k.as_u32()))
        .map(Func::from_u32);
}

fn drop_locals(p: &mut Program) {
    for f in p.module.funcs.values_mut() {
        let mut live = Vec::new();
        f.walk(|i| live.push(i));
        let mut used = vec![false; f.locals.len()];
        for i in &live {
            if let Some(Place::Local(l)) = f.insts[*i].op.access().map(|a| a.place) {
                used[l.as_u32() as usize] = true;
            }
        }
        let map = Renumbering::new(&used);
        for i in live {
            if let Some(access) = f.insts[i].op.access_mut()
                && let Place::Local(l) = &mut access.place
                && let Some(new) = map.get(l.as_u32())
            {
                *l = Local::from_u32(new);
            }
        }
        let all: Vec<LocalData> = f.locals.values().cloned().collect();
        f.locals = map.keep(all).into_iter().collect();
    }
}

fn drop_messages(p: &mut Program) {
    let m = &mut p.module;
    let mut used = vec![false; m.messages.len()];
    each_op(m, |op| {
        if let Op::Print(message) | Op::Assert(message) = op {
            used[message.as_u32() as usize] = true;
        }
    });
    let map = Renumbering::new(&used);
    each_op(m, |op| {
        if let Op::Print(message) | Op::Assert(message) = op
            && let Some(new) = map.get(message.as_u32())
        {
            *message = Message::from_u32(new);
        }
    });
    let all: Vec<MessageData> = m.messages.values().cloned().collect();
    m.messages = map.keep(all).into_iter().collect();
}

fn drop_fields(p: &mut Program) {
    let m = &mut p.module;
    let mut used = vec![false; m.fields.len()];
    let field_of = |op: &mut Op, visit: &mut dyn FnMut(&mut Field)| {
        if let Op::ForEach(_, Domain::Field(f), _) | Op::Cell(_, f) | Op::Cache(f) = op {
            visit(f);
        }
        if let Some(Access {
            place: Place::Field(f),
            ..
        }) = op.access_mut()
        {
            visit(f);
        }
    };
    each_op(m, |op| {
        field_of(op, &mut |f| used[f.as_u32() as usize] = true);
    });
    // Components and words are used by what they are parts of; both come before it.
    for (id, field) in m.fields.iter().rev() {
        if used[id.as_u32() as usize] {
            let members = field.packing.iter().flat_map(|p| &p.members);
            members.for_each(|member| used[member.word.as_u32() as usize] = true);
            let components = field.components.iter();
            components.for_each(|c| used[c.as_u32() as usize] = true);
        }
    }
    let map = Renumbering::new(&used);
    let rename = |f: &mut Field| {
        if let Some(new) = map.get(f.as_u32()) {
            *f = Field::from_u32(new);
        }
    };
    each_op(m, |op| field_of(op, &mut { rename }));
    for tree in m.trees.values_mut() {
        for node in tree.nodes.values_mut() {
            node.children.retain(|c| match c {
                Child::Place(f) => map.get(f.as_u32()).is_some(),
                Child::Node(_) => true,
            });
            for child in &mut node.children {
                if let Child::Place(f) = child {
                    rename(f);
                }
            }
        }
    }
    for field in m.fields.values_mut() {
        let members = field.packing.iter_mut().flat_map(|p| &mut p.members);
        members.for_each(|member| rename(&mut member.word));
        field.components.iter_mut().for_each(rename);
    }
    let all: Vec<_> = m.fields.values().cloned().collect();
    m.fields = map.keep(all).into_iter().collect();
    p.inputs.fields = map.keep(std::mem::take(&mut p.inputs.fields));
    let sparse = &mut p.inputs.sparse;
    sparse.retain(|c| map.get(c.0.as_u32()).is_some());
    sparse.iter_mut().for_each(|c| rename(&mut c.0));
    drop_trees(m);
}

fn drop_trees(m: &mut Module) {
    let mut used = vec![false; m.trees.len()];
    for field in m.fields.values() {
        used[field.tree.as_u32() as usize] = true;
    }
    let map = Renumbering::new(&used);
    for field in m.fields.values_mut() {
        if let Some(new) = map.get(field.tree.as_u32()) {
            field.tree = Tree::from_u32(new);
        }
    }
    let all: Vec<_> = m.trees.values().cloned().collect();
    m.trees = map.keep(all).into_iter().collect();
}

fn drop_arrays(p: &mut Program) {
    let m = &mut p.module;
    let mut used = vec![false; m.arrays.len()];
    let array_of = |op: &mut Op, visit: &mut dyn FnMut(&mut Array)| {
        if let Op::ArrayExtent(a, _) | Op::ArrayStride(a, _) = op {
            visit(a);
        }
        if let Some(Access {
            place: Place::Array(a),
            ..
        }) = op.access_mut()
        {
            visit(a);
        }
    };
    each_op(m, |op| {
        array_of(op, &mut |a| used[a.as_u32() as usize] = true);
    });
    let map = Renumbering::new(&used);
    each_op(m, |op| {
        array_of(op, &mut |a| {
            if let Some(new) = map.get(a.as_u32()) {
                *a = Array::from_u32(new);
            }
        });
    });
    let all: Vec<ArrayData> = m.arrays.values().cloned().collect();
    m.arrays = map.keep(all).into_iter().collect();
    p.inputs.views = map.keep(std::mem::take(&mut p.inputs.views));
}
