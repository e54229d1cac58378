//! Arrays that belong to a world.

use crate::world::World;
use std::fmt;
use wuji_ir::Result;
use wuji_runtime::Memory;
use wuji_runtime::array::{ArrayArg, Owner};
use wuji_runtime::memory::Way;

/// Zeroed bytes where the kernels of a world find them: on a GPU, if it is one.
pub struct Array {
    world: World,
    memory: Memory,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} bytes)", self.memory.size())
    }
}

impl Array {
    /// So many bytes.
    pub fn new(world: &World, bytes: u64) -> Result<Array> {
        world.ensure_open()?;
        Ok(Array {
            memory: world.device().reserve(bytes)?,
            world: world.clone(),
        })
    }

    /// The world it belongs to.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Where kernels find it.
    pub fn place(&self) -> (Owner, *mut u8) {
        self.memory.place()
    }

    /// Bytes from an offset on, once everything is done that was launched before. They have to be inside.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        self.world.not_recording()?;
        let range = at..at + into.len();
        let mut guard = self.memory.lock();
        guard.fetch(range.clone())?;
        into.copy_from_slice(&guard.bytes()[range]);
        Ok(())
    }

    /// Puts bytes at an offset; they have to be inside.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.world.not_recording()?;
        let range = at..at + from.len();
        let mut guard = self.memory.lock();
        guard.bytes_mut()[range.clone()].copy_from_slice(from);
        guard.send(range)
    }

    /// Everything becomes this, again and again.
    pub fn fill(&self, pattern: &[u8]) -> Result<()> {
        self.world.not_recording()?;
        self.memory.fill(0..self.memory.size(), pattern)
    }

    /// Copies all bytes to an array without gaps on the same GPU, or from it. Gives whether that is done: it may be elsewhere, or have another
    /// number of bytes.
    pub fn exchange(&self, array: &ArrayArg<'_>, way: Way) -> Result<bool> {
        self.world.not_recording()?;
        self.memory.exchange(0..self.memory.size(), array, way)
    }

    /// Takes all bytes from another array of the same world and size.
    pub fn copy_from(&self, other: &Array) -> Result<()> {
        self.world.not_recording()?;
        self.memory.copy_from(&other.memory)
    }
}
