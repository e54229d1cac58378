//! A backend from outside of the crate: it counts calls, and uses the interpreter to run modules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wuji_compile::Options;
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::backend::{
    Backend, Capabilities, CodeTime, DeferredExecutable, Executable, InterpreterBackend,
    LaunchRequest, Loaded,
};
use wuji_runtime::memory::{Storage, repeat};
use wuji_runtime::{BackendKind, Bindings, Device, DeviceOptions, Instance, Outcome, Program};

#[derive(Debug, Default)]
struct Counts {
    loads: AtomicU64,
    launches: AtomicU64,
    bytes: AtomicU64,
    fills: AtomicU64,
    clears: AtomicU64,
    releases: AtomicU64,
    synchronizations: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[derive(Debug, Default)]
struct CountingBackend {
    inner: InterpreterBackend,
    counts: Arc<Counts>,
    /// Whether it passes a foreign program to the interpreter.
    confused: bool,
}

#[derive(Debug)]
struct CountedProgram {
    inner: DeferredExecutable,
}

impl Executable for CountedProgram {}

#[derive(Debug)]
struct CountedMemory(Arc<Counts>);

impl Storage for CountedMemory {
    fn fill(&self, host: &mut [u8], _at: usize, pattern: &[u8]) -> Result<()> {
        add(&self.0.fills, 1);
        repeat(host, pattern);
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        add(&self.0.clears, 1);
        Ok(())
    }

    fn release(&self) -> Result<()> {
        add(&self.0.releases, 1);
        Ok(())
    }
}

impl Backend for CountingBackend {
    fn name(&self) -> String {
        "Counting".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: 3,
            ..self.inner.capabilities()
        }
    }

    fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded> {
        add(&self.counts.loads, 1);
        let Loaded {
            module, executable, ..
        } = self.inner.load(module, options, when)?;
        let program = CountedProgram { inner: executable };
        Ok(Loaded::new(module, program))
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn Storage>> {
        add(&self.counts.bytes, size);
        Ok(Box::new(CountedMemory(self.counts.clone())))
    }

    fn allocate_tree(
        &self,
        _tree: &TreeData,
        layout: &TreeMemory,
        _limit: u64,
    ) -> Result<Box<dyn Storage>> {
        self.allocate(layout.size)
    }

    fn run(&self, launch: &LaunchRequest<'_>) -> Result<Outcome> {
        let program: &CountedProgram = launch.executable()?;
        add(&self.counts.launches, 1);
        if self.confused {
            return self.inner.run(launch);
        }
        self.inner.run(&LaunchRequest {
            executable: program.inner.get()?,
            ..*launch
        })
    }

    fn synchronize(&self) -> Result<()> {
        add(&self.counts.synchronizations, 1);
        Ok(())
    }
}

fn counting(confused: bool) -> (Device, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let backend = CountingBackend {
        counts: counts.clone(),
        confused,
        ..CountingBackend::default()
    };
    let device = Device::with_backend(&DeviceOptions::default(), |_| Ok(Box::new(backend)));
    (device.unwrap(), counts)
}

fn device(backend: BackendKind) -> Device {
    Device::new(&DeviceOptions {
        backend,
        threads: Some(1),
        ..DeviceOptions::default()
    })
    .unwrap()
}

fn increment() -> Module {
    let text = "module \"increment\"\ntree T0 { dense S1 [i: 8] { place f0 } }\nfield f0 \"x\": i32 in T0.S1 (i)\n\
        kernel fn0 \"increment\"() {\nforeach L0 (v0: i32) in f0 {\nv1: i32 = load f0[v0]\nv2: i32 = const 1\n\
        v3: i32 = add v1, v2\nstore f0[v0], v3\ncontinue L0\n}\nreturn\n}\n";
    parse(text, "increment.wir").unwrap()
}

#[test]
fn an_external_backend_runs_kernels() {
    let (device, counts) = counting(false);
    let mut instance = Instance::new(&device, increment(), &Options::default()).unwrap();
    assert_eq!(device.threads(), 3);
    assert_eq!(device.backend().name(), "Counting");
    assert_eq!((get(&counts.loads), get(&counts.bytes)), (1, 32));
    for _ in 0..2 {
        instance.run(&[], 0, 0).unwrap();
    }
    assert_eq!(get(&counts.launches), 2);
    let two = Imm::int(Scalar::I32, 2);
    assert_eq!(instance.field(Field::from_u32(0)).unwrap(), [two; 8]);
    assert_eq!(device.profiler().kernels()[0].launches, 2);
    device.synchronize().unwrap();
    assert_eq!(get(&counts.synchronizations), 1);
}

#[test]
fn an_external_backend_manages_memory() {
    let (device, counts) = counting(false);
    let memory = device.reserve(100).unwrap();
    assert_eq!((get(&counts.bytes), device.memory_used()), (100, 100));
    memory.fill(10..20, &[1, 2]).unwrap();
    assert_eq!(get(&counts.fills), 1);
    assert_eq!(memory.lock().unwrap().bytes()[9..13], [0, 1, 2, 1]);
    memory.lock().unwrap().clear().unwrap();
    assert_eq!(get(&counts.clears), 1);
    assert!(memory.lock().unwrap().bytes().iter().all(|byte| *byte == 0));
    memory.release().unwrap();
    assert_eq!((get(&counts.releases), device.memory_used()), (1, 0));
}

fn run(device: &Device, program: &Program) -> Result<()> {
    let memory = device.reserve(32)?;
    let bindings = Bindings {
        params: &[],
        trees: &[&memory],
        arrays: &[],
    };
    device.run(program, &bindings).map(|_| ())
}

#[test]
fn a_program_of_another_device_is_rejected() {
    let devices = [
        counting(false).0,
        counting(false).0,
        device(BackendKind::Interpreter),
        device(BackendKind::Cpu),
    ];
    for (k, owner) in devices.iter().enumerate() {
        let program = owner.load(increment(), &Options::default()).unwrap();
        for (n, other) in devices.iter().enumerate() {
            let done = run(other, &program);
            if n == k {
                done.unwrap();
                continue;
            }
            let error = done.unwrap_err();
            assert_eq!(error.code, "W0118");
            assert_eq!(error.message, "the program was loaded on another device");
            let error = other.finish_compiling(&program).unwrap_err();
            assert_eq!(error.code, "W0118");
        }
    }
}

#[test]
fn a_program_of_another_backend_is_rejected() {
    let (device, counts) = counting(true);
    let program = device.load(increment(), &Options::default()).unwrap();
    let error = run(&device, &program).unwrap_err();
    assert_eq!(error.code, "W0118");
    assert_eq!(error.message, "the program was loaded by another backend");
    assert_eq!(get(&counts.launches), 1);
}
