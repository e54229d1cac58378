//! Alias metadata for memory accesses.
//!
//! Every field, every unaliased array, the temps and the launch context have their own *alias scope*; arrays
//! that may overlap share one. Accesses inside `for.parallel` are in the loop's *access group*, which states
//! that iterations are independent.

use crate::emit::{Emit, Md, Val};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module as LlvmModule;
use std::fmt::Write;
use wuji_ir::entities::Func;
use wuji_ir::module::Module;
use wuji_ir::ops::{ForKind, Op, Space};
use wuji_ir::{Error, Result};

/// The scopes of a module, each with the list of all others.
#[derive(Debug)]
pub(super) struct AliasScopes {
    scopes: Vec<Scope>,
    fields: usize,
    /// Scope number per array.
    arrays: Vec<usize>,
}

#[derive(Copy, Clone, Debug)]
struct Scope {
    own: Md,
    others: Md,
}

const TEMPS: usize = 0;
const CONTEXT: usize = 1;
const MIXED_ARRAYS: usize = 2;
const FIRST_FIELD: usize = 3;

impl AliasScopes {
    pub(super) fn new(emit: &Emit<'_>, module: &Module) -> AliasScopes {
        let domain = emit.md_self_node(&[emit.md_string("wuji")]);
        let mut names = vec!["temps".into(), "context".into(), "arrays".into()];
        names.extend(module.fields.keys().map(|f| f.to_string()));
        names.extend(module.trees.keys().map(|t| format!("{t}.nodes")));
        let mut arrays = Vec::new();
        for (a, data) in &module.arrays {
            if data.unaliased {
                arrays.push(names.len());
                names.push(a.to_string());
            } else {
                arrays.push(MIXED_ARRAYS);
            }
        }
        let nodes: Vec<Md> = names
            .iter()
            .map(|name| emit.md_self_node(&[domain, emit.md_string(name)]))
            .collect();
        let scopes = nodes
            .iter()
            .map(|own| {
                let others: Vec<Md> = nodes.iter().copied().filter(|n| n != own).collect();
                Scope {
                    own: emit.md_node(&[*own]),
                    others: emit.md_node(&others),
                }
            })
            .collect();
        AliasScopes {
            scopes,
            fields: module.fields.len(),
            arrays,
        }
    }

    pub(super) fn mark(&self, emit: &Emit<'_>, inst: Val, space: Space) {
        let scope = match space {
            // The private copy may be the tree itself; then no other access to the field exists.
            Space::Tree(_, field) | Space::Private(_, field) => {
                debug_assert!((field.as_u32() as usize) < self.fields);
                FIRST_FIELD + field.as_u32() as usize
            }
            Space::Nodes(tree) => FIRST_FIELD + self.fields + tree.as_u32() as usize,
            // May access any field of the tree.
            Space::Bytes(_) | Space::Streamed(_) => return,
            Space::Array(a) => self.arrays[a.as_u32() as usize],
            Space::Temps => TEMPS,
        };
        self.set(emit, inst, scope);
    }

    /// Marks an access to the launch context or to other memory that only the runtime writes.
    pub(super) fn mark_context(&self, emit: &Emit<'_>, inst: Val) {
        self.set(emit, inst, CONTEXT);
    }

    fn set(&self, emit: &Emit<'_>, inst: Val, scope: usize) {
        let Some(scope) = self.scopes.get(scope) else {
            return;
        };
        emit.set_md(inst, emit.kinds.alias_scope, scope.own);
        emit.set_md(inst, emit.kinds.noalias, scope.others);
    }
}

/// One access group per parallel loop. They must be distinct empty nodes, which the C API cannot create, so
/// the module is parsed from text that declares them.
#[derive(Debug)]
pub(super) struct AccessGroups {
    unused: Vec<Md>,
}

impl AccessGroups {
    /// A module with enough groups for the parallel loops of the functions.
    pub(super) fn new_module<'c>(
        context: &'c Context,
        module: &Module,
        funcs: &[Func],
    ) -> Result<LlvmModule<'c>> {
        let mut loops = 0usize;
        for func in funcs {
            let f = &module.funcs[*func];
            f.walk(|inst| {
                if matches!(f.insts[inst].op, Op::For(_, ForKind::Parallel)) {
                    loops += 1;
                }
            });
        }
        if loops == 0 {
            return Ok(context.create_module(&module.name));
        }
        let list: Vec<String> = (0..loops).map(|k| format!("!{k}")).collect();
        let mut text = format!("!wuji.groups = !{{{}}}\n", list.join(", "));
        for group in list {
            let _ = writeln!(text, "{group} = distinct !{{}}");
        }
        // The parser requires a NUL after the text.
        text.push('\0');
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "groups");
        context
            .create_module_from_ir(buffer)
            .map_err(|e| Error::new("W0503", "LLVM cannot parse the metadata").note(e.to_string()))
    }

    pub(super) fn of(emit: &Emit<'_>) -> AccessGroups {
        AccessGroups {
            unused: emit.named_md(c"wuji.groups"),
        }
    }

    pub(super) fn take(&mut self) -> Option<Md> {
        self.unused.pop()
    }
}
