//! Windows of kernels that are given as modules, such as those of textual IR.

use crate::bank::Bank;
use crate::print::Names;
use crate::summary::number_in_tree;
use crate::window::{Launch, Window};
use wuji_ir::Result;
use wuji_ir::entities::Tree;
use wuji_ir::layout::Child;
use wuji_ir::module::Module;

impl Window {
    /// One launch of each kernel. Trees with the same nodes and fields are the same tree, and arrays with the same name, type and shape
    /// the same array; parameters by value are zero.
    pub fn of_modules(modules: &[Module], bank: &mut Bank) -> Result<(Window, Names)> {
        let mut known: Vec<String> = Vec::new();
        let mut names = Names::default();
        let mut window = Window::default();
        for module in modules {
            let mut number = |key: String, fields: Vec<String>| {
                let number = known.iter().position(|k| *k == key);
                number.unwrap_or_else(|| {
                    known.push(key);
                    names.0.push(fields);
                    known.len() - 1
                }) as u32
            };
            let trees = module.trees.keys();
            let trees = trees.map(|t| number(description(module, t), field_names(module, t)));
            let trees = trees.collect();
            let arrays = module.arrays.values();
            let arrays = arrays.map(|a| number(format!("{a:?}"), vec![a.name.clone()]));
            let arrays = arrays.collect();
            let slots = module.params.iter().map(|p| module.structs.arity(p.ty));
            window.launches.push(Launch {
                tasks: bank.tasks_of(module)?.into(),
                trees,
                arrays,
                params: vec![0; slots.sum::<u32>() as usize],
            });
        }
        Ok((window, names))
    }
}

fn field_names(m: &Module, tree: Tree) -> Vec<String> {
    let fields = m.fields.values().filter(|data| data.tree == tree);
    fields.map(|data| data.name.clone()).collect()
}

/// Everything about a tree, with fields by their number in it.
fn description(m: &Module, tree: Tree) -> String {
    let mut data = m.trees[tree].clone();
    for node in data.nodes.values_mut() {
        for child in &mut node.children {
            if let Child::Place(field) = child {
                *field = wuji_ir::entities::Field::from_u32(number_in_tree(m, *field));
            }
        }
    }
    let fields = m.fields.values().filter(|data| data.tree == tree);
    let fields = fields.map(|f| (&f.name, f.elem, f.node, &f.axes, &f.packing));
    format!("{data:?} {:?}", fields.collect::<Vec<_>>())
}
