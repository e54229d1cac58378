//! The interpreter backend, which defines the semantics of kernels.

mod launch;

use super::{Backend, Capabilities, CodeTime, Executable, LaunchRequest, Loaded};
use crate::array::Owner;
use crate::flush::Flush;
use crate::launch::Outcome;
use crate::memory::Storage;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji_compile::{Cx, Options, run_pass};
use wuji_ir::Result;
use wuji_ir::interp::TreeState;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;

/// Runs modules without lowering, on one thread.
#[derive(Debug, Default)]
pub struct InterpreterBackend(());

/// The interpreter runs the module itself.
#[derive(Debug)]
struct InterpretedProgram {
    check_reads: bool,
    flush: Flush,
}

impl Executable for InterpretedProgram {}

/// The cells of a sparse tree. The interpreter does not use the bytes of such a tree.
#[derive(Debug, Default)]
struct InterpretedTree {
    state: Mutex<Option<TreeState>>,
}

impl InterpretedTree {
    fn take(&self) -> Option<TreeState> {
        self.state().take()
    }

    fn put(&self, state: TreeState) {
        *self.state() = Some(state);
    }

    fn state(&self) -> MutexGuard<'_, Option<TreeState>> {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for InterpretedTree {
    fn clear(&self) -> Result<()> {
        self.take();
        Ok(())
    }
}

impl InterpreterBackend {
    /// A backend without programs.
    pub fn new() -> InterpreterBackend {
        InterpreterBackend::default()
    }
}

impl Backend for InterpreterBackend {
    fn name(&self) -> String {
        "Interpreter".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: 1,
            owner: Owner::Host,
            asynchronous: false,
            graphs: false,
        }
    }

    fn load(&self, mut module: Module, options: &Options, _when: CodeTime) -> Result<Loaded> {
        let mut cx = Cx::new(options);
        run_pass("overflow", &mut module, &mut cx)?;
        let program = InterpretedProgram {
            check_reads: options.check_reads,
            flush: Flush::of(options.math),
        };
        Ok(Loaded::new(module, program))
    }

    fn allocate(&self, _size: u64) -> Result<Box<dyn Storage>> {
        Ok(Box::new(InterpretedTree::default()))
    }

    fn allocate_tree(
        &self,
        _tree: &TreeData,
        _layout: &TreeMemory,
        _limit: u64,
    ) -> Result<Box<dyn Storage>> {
        Ok(Box::new(InterpretedTree::default()))
    }

    fn run(&self, request: &LaunchRequest<'_>) -> Result<Outcome> {
        let program = request.executable::<InterpretedProgram>()?;
        let begin = request.profiler.map(|p| (p, p.now()));
        let outcome = program
            .flush
            .around(|| launch::run(request, program.check_reads));
        if let Some((profiler, begin)) = begin {
            profiler.task(&request.program.kernel, 0, 1, begin);
        }
        outcome
    }
}
