//! What compiled tasks and the runtime hand each other.

use std::ffi::c_void;
use std::sync::atomic::AtomicU32;

/// Everything a task needs besides its range of units. Compiled code reads it, never writes it.
///
/// The runtime keeps every pointer valid for the whole launch: `trees` has one entry per tree of the
/// module, each aligned to [`TREE_ALIGN`]; `arrays` one per array; `params` one slot per scalar
/// parameter; `temps` as many bytes as `Module::temp_offsets` says.
#[repr(C)]
#[derive(Debug)]
pub struct LaunchContext {
    /// One 8-byte slot per scalar parameter, the value in the low bytes.
    pub params: *const u64,
    /// Base address of the memory of each tree.
    pub trees: *const *mut u8,
    pub arrays: *const ArrayView,
    pub temps: *mut u8,
    /// Not zero: compiled code leaves at the next back-edge of a `loop`.
    pub interrupt: *const AtomicU32,
    /// The key of `docs/ir.md`, section 5, for this task.
    pub random_key: u64,
    /// Called for `report`, possibly by several threads at once; it must not unwind.
    pub report: ReportFn,
    /// The runtime's own.
    pub host: *const c_void,
    /// Base address of the running worker's copy of each tree; tasks that use none do not look.
    pub copies: *const *mut u8,
}

/// A host array of run-time shape. Axes beyond the array's rank are unused.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct ArrayView {
    /// Address of the element whose indices are all 0.
    pub base: *mut u8,
    pub extents: [i64; MAX_RANK],
    /// In bytes.
    pub strides: [i64; MAX_RANK],
}

pub const MAX_RANK: usize = 8;

/// Alignment of the memory of a tree.
pub const TREE_ALIGN: usize = 64;

/// `args` has `count` slots, each with one scalar in its low bytes: integers are sign- or
/// zero-extended as their type says, floats are their bits.
pub type ReportFn =
    unsafe extern "C" fn(context: *const LaunchContext, site: u32, args: *const u64, count: u32);

/// A compiled task: runs the units `begin..end`; serial tasks take no notice of them.
pub type TaskFn = unsafe extern "C" fn(context: *const LaunchContext, begin: i64, end: i64);

/// Byte offsets that the code generator uses.
pub(crate) mod offset {
    use super::{ArrayView, LaunchContext};
    use std::mem::offset_of;

    pub(crate) const PARAMS: u64 = offset_of!(LaunchContext, params) as u64;
    pub(crate) const TREES: u64 = offset_of!(LaunchContext, trees) as u64;
    pub(crate) const ARRAYS: u64 = offset_of!(LaunchContext, arrays) as u64;
    pub(crate) const TEMPS: u64 = offset_of!(LaunchContext, temps) as u64;
    pub(crate) const INTERRUPT: u64 = offset_of!(LaunchContext, interrupt) as u64;
    pub(crate) const RANDOM_KEY: u64 = offset_of!(LaunchContext, random_key) as u64;
    pub(crate) const REPORT: u64 = offset_of!(LaunchContext, report) as u64;
    pub(crate) const COPIES: u64 = offset_of!(LaunchContext, copies) as u64;
    pub(crate) const CONTEXT_SIZE: u64 = size_of::<LaunchContext>() as u64;

    pub(crate) const ARRAY_BASE: u64 = offset_of!(ArrayView, base) as u64;
    pub(crate) const ARRAY_EXTENTS: u64 = offset_of!(ArrayView, extents) as u64;
    pub(crate) const ARRAY_STRIDES: u64 = offset_of!(ArrayView, strides) as u64;
    pub(crate) const ARRAY_SIZE: u64 = size_of::<ArrayView>() as u64;
}
