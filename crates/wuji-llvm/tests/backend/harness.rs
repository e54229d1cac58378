//! Compiles a lowered module from text and runs its tasks on plain memory.

use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, OnceLock};
use wuji_compile::{Lowered, Math, Options};
use wuji_llvm::{ArrayView, CompiledKernel, Effort, Host, Jit, JitOptions, LaunchContext};

/// One JIT shared by all tests.
pub(crate) fn jit() -> &'static Jit {
    static JIT: OnceLock<Jit> = OnceLock::new();
    JIT.get_or_init(|| Jit::new(&JitOptions::default()).expect("a JIT for this processor"))
}

pub(crate) fn lowered(text: &str, math: Math) -> Lowered {
    let module = wuji_ir::text::parse(text, "test.wir").unwrap_or_else(|e| panic!("{e}\n{text}"));
    wuji_ir::verify::verify(&module).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = Options {
        math,
        ..Options::default()
    };
    Lowered::assume(module, &options)
}

/// A JIT without LLVM's passes.
pub(crate) fn plain_jit() -> &'static Jit {
    static JIT: OnceLock<Jit> = OnceLock::new();
    JIT.get_or_init(|| {
        let options = JitOptions {
            effort: Effort::None,
            ..JitOptions::default()
        };
        Jit::new(&options).expect("a JIT for this processor")
    })
}

/// A JIT for a given processor.
pub(crate) fn jit_for(cpu: &str) -> Jit {
    let host = Host {
        cpu: cpu.into(),
        features: String::new(),
        ..Host::detect().expect("LLVM")
    };
    let options = JitOptions {
        host: Some(host),
        ..JitOptions::default()
    };
    Jit::new(&options).expect("a JIT for an x86 processor")
}

pub(crate) fn compile(text: &str, math: Math) -> CompiledKernel {
    compile_with(jit(), text, math)
}

pub(crate) fn compile_with(jit: &Jit, text: &str, math: Math) -> CompiledKernel {
    let lowered = lowered(text, math);
    jit.compile(&lowered)
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Memory with the alignment of a tree.
pub(crate) struct Aligned {
    words: Vec<[u64; 8]>,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(bytes: usize) -> Aligned {
        Aligned {
            words: vec![[0; 8]; bytes.div_ceil(64) + 1],
            len: bytes,
        }
    }

    pub(crate) fn from<T: Copy>(values: &[T]) -> Aligned {
        let mut memory = Aligned::new(size_of_val(values));
        // SAFETY: the memory is new and as long as the values.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), memory.ptr().cast(), values.len());
        }
        memory
    }

    pub(crate) fn ptr(&mut self) -> *mut u8 {
        let start = self.words.as_mut_ptr().cast::<u8>();
        // SAFETY: the allocation has one extra cache line.
        unsafe { start.add(start.align_offset(64)) }
    }

    pub(crate) fn values<T: Copy>(&mut self) -> Vec<T> {
        let count = self.len / size_of::<T>();
        let start = self.ptr().cast::<T>();
        // SAFETY: `count` of them fit, and every pattern of bits is a value of the tests' types.
        unsafe { std::slice::from_raw_parts(start, count).to_vec() }
    }
}

/// The reports of a launch: site and arguments.
pub(crate) type Reports = Mutex<Vec<(u32, Vec<u64>)>>;

unsafe extern "C" fn poll(_: *const LaunchContext) -> u32 {
    1
}

unsafe extern "C" fn report(
    context: *const LaunchContext,
    site: u32,
    args: *const u64,
    count: u32,
) {
    // SAFETY: `Launch::run` has put its reports there; compiled code passes `count` slots.
    unsafe {
        let reports = &*(*context).host.cast::<Reports>();
        let args = std::slice::from_raw_parts(args, count as usize).to_vec();
        reports.lock().unwrap().push((site, args));
    }
}

/// The host side of the launch ABI.
#[derive(Default)]
pub(crate) struct Launch {
    pub params: Vec<u64>,
    pub trees: Vec<*mut u8>,
    pub arrays: Vec<ArrayView>,
    pub temps: Vec<u64>,
    pub interrupt: AtomicU32,
    pub random_key: u64,
    pub reports: Reports,
}

impl Launch {
    pub(crate) fn array(&mut self, base: *mut u8, extents: &[i64], strides: &[i64]) {
        let mut view = ArrayView {
            base,
            extents: [0; 8],
            strides: [0; 8],
        };
        view.extents[..extents.len()].copy_from_slice(extents);
        view.strides[..strides.len()].copy_from_slice(strides);
        self.arrays.push(view);
    }

    pub(crate) fn run(&mut self, kernel: &CompiledKernel, task: usize, begin: i64, end: i64) {
        let context = LaunchContext {
            params: self.params.as_ptr(),
            trees: self.trees.as_ptr(),
            arrays: self.arrays.as_ptr(),
            temps: self.temps.as_mut_ptr().cast(),
            interrupt: &self.interrupt,
            random_key: self.random_key,
            report,
            poll,
            copies: std::ptr::null(),
            host: (&raw const self.reports).cast::<c_void>(),
        };
        let task = kernel.task(task).expect("a task of the kernel");
        // SAFETY: the tests provide the memory that the module declares.
        unsafe { (task.entry)(&context, begin, end) }
    }

    pub(crate) fn reported(&self) -> Vec<(u32, Vec<u64>)> {
        self.reports.lock().unwrap().clone()
    }
}
