//! What a backend compiles a module to, now or when it first runs.

use crate::tier::Tier;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wuji_ir::{Error, Result};
use wuji_llvm::CompiledKernel;

/// A compiled module. Each backend has its own type, and runs no other.
pub trait Executable: Any + fmt::Debug + Send + Sync {
    /// The tier of the current code: `Fast` or `Best`. `None` if there is no code.
    fn tier(&self) -> Option<Tier> {
        None
    }

    /// The current machine code of the host.
    fn machine_code(&self) -> Option<&CompiledKernel> {
        None
    }

    /// An error of a compilation in the background, which the next launch returns once.
    fn take_error(&self) -> Option<Error> {
        None
    }
}

/// Downcasts an executable. An error if it is from another backend.
pub(crate) fn expect_executable<'a, E: Executable>(
    executable: &'a (dyn Executable + 'static),
) -> Result<&'a E> {
    (executable as &dyn Any)
        .downcast_ref()
        .ok_or_else(|| Error::new("W0118", "the program was loaded by another backend"))
}

/// When the machine code of a module is made.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CodeTime {
    /// When it is loaded.
    Load,
    /// When it first runs: it may never do, if it only runs fused with others.
    FirstRun,
}

type Make = dyn Fn() -> Result<Box<dyn Executable>> + Send + Sync;

/// An executable that exists, or is made when it is first used.
pub struct DeferredExecutable {
    made: OnceLock<Box<dyn Executable>>,
    make: Mutex<Option<Arc<Make>>>,
}

impl fmt::Debug for DeferredExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made.get() {
            Some(made) => made.fmt(f),
            None => f.write_str("DeferredExecutable"),
        }
    }
}

impl<E: Executable> From<E> for DeferredExecutable {
    fn from(executable: E) -> DeferredExecutable {
        DeferredExecutable {
            made: OnceLock::from(Box::new(executable) as Box<dyn Executable>),
            make: Mutex::new(None),
        }
    }
}

impl DeferredExecutable {
    /// One that `make` makes at the time `when`. If it fails later, for lack of memory or because it is interrupted, the next
    /// use tries again.
    pub fn new<E: Executable>(
        when: CodeTime,
        make: impl Fn() -> Result<E> + Send + Sync + 'static,
    ) -> Result<DeferredExecutable> {
        match when {
            CodeTime::Load => Ok(make()?.into()),
            CodeTime::FirstRun => Ok(DeferredExecutable {
                made: OnceLock::new(),
                make: Mutex::new(Some(Arc::new(move || {
                    make().map(|made| Box::new(made) as Box<dyn Executable>)
                }))),
            }),
        }
    }

    /// The executable, if it exists.
    pub fn made(&self) -> Option<&(dyn Executable + 'static)> {
        self.made.get().map(|made| &**made)
    }

    /// The executable, which is made if it does not exist.
    pub fn get(&self) -> Result<&(dyn Executable + 'static)> {
        if let Some(made) = self.made() {
            return Ok(made);
        }
        // Others that need it wait.
        let mut make = self.make.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = &*make {
            let made = work()?;
            *make = None;
            return Ok(&**self.made.get_or_init(|| made));
        }
        self.made()
            .ok_or_else(|| Error::new("W0502", "a program has no code and no way to make it"))
    }
}
