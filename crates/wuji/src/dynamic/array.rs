//! Arrays that belong to a world.

use crate::world::World;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wuji_ir::Result;
use wuji_runtime::array::{ArrayArg, Owner};
use wuji_runtime::memory::Way;
use wuji_runtime::{HostBytes, Memory};

/// Zeroed bytes where the kernels of a world find them: on a GPU, if it is one.
pub struct Array {
    world: World,
    held: Arc<ArrayMemory>,
}

/// Memory of an array that is freed with its world.
pub(crate) trait FreedWithWorld: Send + Sync + fmt::Debug {
    /// Frees it, unless others use it: then it is freed with the last handle.
    fn release(&self) -> Result<()>;

    /// Elements of `size` bytes, row by row.
    fn view(&self, size: usize, extents: &[usize]) -> Result<ArrayArg<'_>>;
}

/// The owner of an array of a world. A launch in a lazy world that waits keeps it.
#[derive(Clone, Debug)]
pub struct ArrayOwner {
    pub(crate) world: World,
    pub(crate) memory: Arc<dyn FreedWithWorld>,
}

impl ArrayOwner {
    /// The world whose launches may wait.
    pub fn world(&self) -> &World {
        &self.world
    }
}

#[derive(Debug)]
struct ArrayMemory {
    memory: Memory,
    /// Others have its address.
    exported: AtomicBool,
}

impl FreedWithWorld for ArrayMemory {
    fn release(&self) -> Result<()> {
        if self.exported.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.memory.release()
    }

    fn view(&self, size: usize, extents: &[usize]) -> Result<ArrayArg<'_>> {
        ArrayArg::in_memory(&self.memory, size, extents, true)
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} bytes)", self.held.memory.size())
    }
}

impl Array {
    /// So many bytes.
    pub fn new(world: &World, bytes: u64) -> Result<Array> {
        world.ensure_open()?;
        let held = Arc::new(ArrayMemory {
            memory: world.device().reserve(bytes)?,
            exported: AtomicBool::new(false),
        });
        let entered: Arc<dyn FreedWithWorld> = held.clone();
        world.enter_array(&entered);
        Ok(Array {
            held,
            world: world.clone(),
        })
    }

    /// The world it belongs to.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// An error when its world was closed.
    pub fn ensure_open(&self) -> Result<()> {
        self.world.ensure_open()
    }

    /// Where kernels find it, for others that may use it as long as the array lives. It is not freed with its world then, and launches
    /// on it do not wait any more.
    pub fn export(&self) -> Result<(Owner, *mut u8)> {
        self.held.exported.store(true, Ordering::SeqCst);
        self.world.run_pending()?;
        Ok(self.place())
    }

    /// For launches that wait; `None` if others use it, or the world is not lazy.
    pub fn owner(&self) -> Option<ArrayOwner> {
        let exported = self.held.exported.load(Ordering::SeqCst);
        (!exported && self.may_wait()).then(|| ArrayOwner {
            world: self.world.clone(),
            memory: self.held.clone(),
        })
    }

    /// Where kernels find it.
    pub fn place(&self) -> (Owner, *mut u8) {
        self.held.memory.place()
    }

    /// Whether launches on it may wait.
    pub fn may_wait(&self) -> bool {
        self.world.lazy().is_some()
    }

    /// Before something else than a launch of its world uses it: runs launches that wait.
    pub fn before_access(&self) -> Result<()> {
        self.world.run_pending()
    }

    /// Bytes from an offset on, once everything is done that was launched before. They have to be inside.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        self.ensure_open()?;
        self.world.before_host_access()?;
        let range = at..at + into.len();
        let mut guard = self.held.memory.lock()?;
        guard.fetch(range.clone())?;
        into.copy_from_slice(&guard.bytes()[range]);
        Ok(())
    }

    /// Puts bytes at an offset; they have to be inside.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.ensure_open()?;
        self.world.before_host_access()?;
        let range = at..at + from.len();
        let mut guard = self.held.memory.lock()?;
        guard.bytes_mut()[range.clone()].copy_from_slice(from);
        guard.send(range)
    }

    /// Everything becomes this, again and again.
    pub fn fill(&self, pattern: &[u8]) -> Result<()> {
        self.ensure_open()?;
        self.world.before_host_access()?;
        self.held.memory.fill(0..self.held.memory.size(), pattern)
    }

    /// Copies all bytes to an array without gaps on the same GPU, or from it. Gives whether that is done: it may be elsewhere, or have another
    /// number of bytes.
    pub fn exchange(&self, array: &ArrayArg<'_>, way: Way) -> Result<bool> {
        self.ensure_open()?;
        self.world.before_host_access()?;
        self.held
            .memory
            .exchange(0..self.held.memory.size(), array, way)
    }

    /// Takes all bytes from another array of the same world and size.
    pub fn copy_from(&self, other: &Array) -> Result<()> {
        self.ensure_open()?;
        self.world.before_host_access()?;
        self.held.memory.copy_from(&other.held.memory)
    }
}

/// Zeroed bytes of the host, which kernels access as an array of the host. They need no lock.
#[derive(Debug)]
pub struct HostArray {
    /// `None`: they belong to no world.
    world: Option<World>,
    held: Arc<HeldBytes>,
}

#[derive(Debug)]
struct HeldBytes {
    bytes: HostBytes,
    exported: AtomicBool,
}

impl FreedWithWorld for HeldBytes {
    fn release(&self) -> Result<()> {
        if !self.exported.load(Ordering::SeqCst) {
            self.bytes.release();
        }
        Ok(())
    }

    fn view(&self, size: usize, extents: &[usize]) -> Result<ArrayArg<'_>> {
        ArrayArg::in_host_bytes(&self.bytes, size, extents)
    }
}

impl HostArray {
    /// So many bytes. They count for the world, and are freed with it.
    pub fn new(world: Option<&World>, bytes: u64) -> Result<HostArray> {
        let bytes = match world {
            Some(world) => {
                world.ensure_open()?;
                world.device().host_bytes(bytes)?
            }
            None => HostBytes::uncounted(bytes)?,
        };
        let held = Arc::new(HeldBytes {
            bytes,
            exported: AtomicBool::new(false),
        });
        if let Some(world) = world {
            let entered: Arc<dyn FreedWithWorld> = held.clone();
            world.enter_array(&entered);
        }
        Ok(HostArray {
            world: world.cloned(),
            held,
        })
    }

    /// The address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.held.bytes.base()
    }

    /// Others may use the bytes as long as the array lives. They are not freed with their world then, and launches on them do not wait
    /// any more.
    pub fn export(&self) -> Result<()> {
        self.held.exported.store(true, Ordering::SeqCst);
        self.before_access()
    }

    /// For launches that wait; `None` if others use it, or it belongs to no lazy world.
    pub fn owner(&self) -> Option<ArrayOwner> {
        let exported = self.held.exported.load(Ordering::SeqCst);
        let world = self.world.as_ref();
        let world = world.filter(|w| !exported && w.lazy().is_some())?;
        Some(ArrayOwner {
            world: world.clone(),
            memory: self.held.clone(),
        })
    }

    /// Whether launches on it may wait.
    pub fn may_wait(&self) -> bool {
        self.world.as_ref().is_some_and(|w| w.lazy().is_some())
    }

    /// Before the host accesses the bytes: runs launches that wait.
    pub fn before_access(&self) -> Result<()> {
        match &self.world {
            Some(world) => world.run_pending(),
            None => Ok(()),
        }
    }

    /// An error when its world was closed.
    pub fn ensure_open(&self) -> Result<()> {
        match &self.world {
            Some(world) => world.ensure_open(),
            None => Ok(()),
        }
    }
}
