//! The ABI between compiled tasks and the runtime.

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
    /// The arrays that are arguments.
    pub arrays: *const ArrayView,
    /// The values between tasks.
    pub temps: *mut u8,
    /// Compiled code calls `poll` at the next back edge of a `loop` when this is not zero.
    pub interrupt: *const AtomicU32,
    /// The key of `docs/ir.md`, section 5, for this task.
    pub random_key: u64,
    /// Called for `report`, possibly by several threads at once; it must not unwind.
    pub report: ReportFn,
    /// Called when `interrupt` is not zero, possibly by several threads at once; it must not unwind. Compiled code returns if it returns
    /// anything but zero.
    pub poll: PollFn,
    /// Opaque data of the runtime, for [`report`](LaunchContext::report) and [`poll`](LaunchContext::poll).
    pub host: *const c_void,
    /// Base address of the worker's private copy of each tree. Only tasks with privatized fields read it.
    pub copies: *const *mut u8,
}

/// A host array of run-time shape. Axes beyond the array's rank are unused.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct ArrayView {
    /// Address of the element whose indices are all 0.
    pub base: *mut u8,
    /// The lengths of the axes.
    pub extents: [i64; MAX_RANK],
    /// In bytes.
    pub strides: [i64; MAX_RANK],
}

/// The most axes of an array.
pub const MAX_RANK: usize = 8;

/// Alignment of the memory of a tree.
pub const TREE_ALIGN: usize = 64;

/// `args` has `count` slots, each with one scalar in its low bytes: integers are sign- or
/// zero-extended as their type says, floats are their bits.
pub type ReportFn =
    unsafe extern "C" fn(context: *const LaunchContext, site: u32, args: *const u64, count: u32);

/// It touches no memory that compiled code accesses.
pub type PollFn = unsafe extern "C" fn(context: *const LaunchContext) -> u32;

/// A compiled task: runs the units `begin..end`; serial tasks ignore the range.
pub type TaskFn = unsafe extern "C" fn(context: *const LaunchContext, begin: i64, end: i64);

/// The by-value parameter of a GPU kernel. It is followed by the addresses of the trees, the scalar
/// parameters and the array views, at the offsets of [`DeviceLayout`]. All addresses are device addresses.
#[repr(C)]
#[derive(Copy, Clone, Default, Debug)]
pub struct DeviceHeader {
    /// The address of the values between tasks.
    pub temps: u64,
    /// Address of the interrupt flag: loops exit when it is not zero.
    pub interrupt: u64,
    /// Address of this launch's [`DeviceReports`], which is followed by counters.
    pub reports: u64,
    /// Address of the [`DeviceLog`] that all launches share.
    pub log: u64,
    /// The key of random numbers in this launch.
    pub random_key: u64,
    /// Number of the launch.
    pub launch: u64,
    /// Ordinal of the task, an input of the random number generator.
    pub ordinal: u64,
}

/// The status of a launch on a GPU, initially zero. It is followed by a counter for each site.
#[repr(C)]
#[derive(Copy, Clone, Default, Debug)]
pub struct DeviceReports {
    /// The number of the launch plus 1 if it has failed in serial code; its remaining tasks do not run.
    pub failed: u64,
}

/// The report buffer of a GPU, to which all launches append records. It is followed by the words of the
/// records.
#[repr(C)]
#[derive(Copy, Clone, Default, Debug)]
pub struct DeviceLog {
    /// Words written so far, including those that did not fit.
    pub used: u64,
    /// Capacity in words.
    pub room: u64,
    /// Address of a host word that is set when something is reported.
    pub reported: u64,
}

/// Flag in the first word of a record: the record is complete.
pub const REPORT_WRITTEN: u64 = 1 << 63;
/// Header of a record in words: site and number of arguments, launch, ordinal of the task.
pub const REPORT_WORDS: u64 = 3;
/// The number of reports of one site whose arguments are kept.
pub const REPORT_DETAILS: u64 = 16;

/// Byte offsets in the by-value parameter of a GPU kernel.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DeviceLayout {
    /// The offset of the addresses of trees.
    pub trees: usize,
    /// The offset of the parameters.
    pub params: usize,
    /// The offset of the arrays.
    pub arrays: usize,
    /// Bytes in all.
    pub size: usize,
}

impl DeviceLayout {
    /// The layout for the arguments of a module.
    pub fn of(module: &wuji_ir::module::Module) -> DeviceLayout {
        let trees = size_of::<DeviceHeader>();
        let params = trees + 8 * module.trees.len();
        let slots = module.param_slots().last().copied().unwrap_or(0);
        let arrays = params + 8 * slots;
        DeviceLayout {
            trees,
            params,
            arrays,
            size: arrays + size_of::<ArrayView>() * module.arrays.len(),
        }
    }
}

/// Byte offsets that the code generator uses.
pub(crate) mod offset {
    use super::{ArrayView, DeviceHeader, DeviceLog, DeviceReports, LaunchContext};
    use std::mem::offset_of;

    pub(crate) const PARAMS: u64 = offset_of!(LaunchContext, params) as u64;
    pub(crate) const TREES: u64 = offset_of!(LaunchContext, trees) as u64;
    pub(crate) const ARRAYS: u64 = offset_of!(LaunchContext, arrays) as u64;
    pub(crate) const TEMPS: u64 = offset_of!(LaunchContext, temps) as u64;
    pub(crate) const INTERRUPT: u64 = offset_of!(LaunchContext, interrupt) as u64;
    pub(crate) const RANDOM_KEY: u64 = offset_of!(LaunchContext, random_key) as u64;
    pub(crate) const REPORT: u64 = offset_of!(LaunchContext, report) as u64;
    pub(crate) const POLL: u64 = offset_of!(LaunchContext, poll) as u64;
    pub(crate) const COPIES: u64 = offset_of!(LaunchContext, copies) as u64;
    pub(crate) const CONTEXT_SIZE: u64 = size_of::<LaunchContext>() as u64;

    pub(crate) const DEVICE_TEMPS: u64 = offset_of!(DeviceHeader, temps) as u64;
    pub(crate) const DEVICE_INTERRUPT: u64 = offset_of!(DeviceHeader, interrupt) as u64;
    pub(crate) const DEVICE_REPORTS: u64 = offset_of!(DeviceHeader, reports) as u64;
    pub(crate) const DEVICE_RANDOM_KEY: u64 = offset_of!(DeviceHeader, random_key) as u64;
    pub(crate) const DEVICE_LAUNCH: u64 = offset_of!(DeviceHeader, launch) as u64;
    pub(crate) const DEVICE_ORDINAL: u64 = offset_of!(DeviceHeader, ordinal) as u64;
    pub(crate) const DEVICE_LOG: u64 = offset_of!(DeviceHeader, log) as u64;
    pub(crate) const LOG_USED: u64 = offset_of!(DeviceLog, used) as u64;
    pub(crate) const LOG_ROOM: u64 = offset_of!(DeviceLog, room) as u64;
    pub(crate) const LOG_REPORTED: u64 = offset_of!(DeviceLog, reported) as u64;
    pub(crate) const LOG_SIZE: u64 = size_of::<DeviceLog>() as u64;
    pub(crate) const REPORTS_FAILED: u64 = offset_of!(DeviceReports, failed) as u64;
    pub(crate) const REPORTS_SIZE: u64 = size_of::<DeviceReports>() as u64;

    pub(crate) const ARRAY_BASE: u64 = offset_of!(ArrayView, base) as u64;
    pub(crate) const ARRAY_EXTENTS: u64 = offset_of!(ArrayView, extents) as u64;
    pub(crate) const ARRAY_STRIDES: u64 = offset_of!(ArrayView, strides) as u64;
    pub(crate) const ARRAY_SIZE: u64 = size_of::<ArrayView>() as u64;
}
