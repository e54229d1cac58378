//! Kernels that come as modules.

use crate::dynamic::ArrayOwner;
use crate::launch::{Compiled, Launch, Launched};
use crate::layout::{Tree, TreeInner};
use crate::world::World;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use wuji_ir::layout::{FieldData, NodeData};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_runtime::array::ArrayArg;

/// A kernel that is ready to run, with the trees it works on.
pub struct Kernel {
    pub(super) world: World,
    pub(super) compiled: Arc<Compiled>,
    pub(super) trees: SmallVec<[Arc<TreeInner>; 4]>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.compiled.program().module().name)
    }
}

impl Kernel {
    /// Compiles a module, whose trees are these: they were entered into it by [`enter`](super::enter), in this order.
    pub fn load(world: &World, module: Module, trees: &[Tree]) -> Result<Kernel> {
        let name = &module.name;
        if trees.len() != module.trees.len() {
            let (n, m) = (trees.len(), module.trees.len());
            let what = format!("kernel `{name}` has {m} trees and was given {n}");
            return Err(Error::new("W0118", what));
        }
        if trees.iter().any(|t| t.inner.world != *world) {
            return Err(
                Error::new("W0114", format!("kernel `{name}` got fields of two worlds"))
                    .help("copy the data into one world"),
            );
        }
        let mut first = SmallVec::<[u32; 4]>::new();
        for (number, tree) in module.trees.keys().zip(trees) {
            let body = tree.inner.body()?;
            // What code is made for has to be what it is run on.
            let mut own = Module::default();
            body.shape.enter(&mut own, &body.names);
            let fields: Vec<_> = module
                .fields
                .iter()
                .filter(|f| f.1.tree == number)
                .collect();
            let node = |n: &NodeData| (n.kind, n.order, n.parent, n.extents.clone());
            let field = |f: &FieldData| (f.elem.elem().zip(f.elem.lanes()), f.node, f.axes.clone());
            let nodes = module.trees[number].nodes.values().map(node);
            let same = nodes.eq(body.shape.data.nodes.values().map(node))
                && (fields.iter().map(|f| field(f.1))).eq(own.fields.values().map(field));
            if !same {
                let what =
                    format!("tree {number} of kernel `{name}` is another one than it was given");
                return Err(Error::new("W0118", what));
            }
            let start = fields.first().map_or(0, |f| f.0.as_u32());
            first.push(start);
        }
        Ok(Kernel {
            world: world.clone(),
            compiled: world.load_kernel(module, &first)?,
            trees: trees.iter().map(|t| t.inner.clone()).collect(),
        })
    }

    /// Runs it on parameters, one slot for each scalar, and arrays; gives the scalars of its result, and what the launch reports.
    /// Lines that it prints go where the world's do.
    pub fn run(&self, params: &[u64], arrays: &[ArrayArg<'_>]) -> Result<Launched> {
        self.run_on(params, arrays, &[])
    }

    /// The same. The owners of arrays, by number, let the launch wait in a lazy world.
    pub fn run_on(
        &self,
        params: &[u64],
        arrays: &[ArrayArg<'_>],
        owners: &[Option<ArrayOwner>],
    ) -> Result<Launched> {
        self.world.ensure_open()?;
        Launch {
            compiled: &self.compiled,
            params,
            trees: &self.trees,
            arrays,
            scalars: &[],
            array_fields: &[],
            owners,
        }
        .run(&self.world)
    }

    /// The world it runs in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.compiled.name()
    }
}
