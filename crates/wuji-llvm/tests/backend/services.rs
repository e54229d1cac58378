//! Loading and unloading, symbols for tools, concurrent compilation.

use crate::harness::{Aligned, Launch, jit, lowered};
use crate::process::isolated;
use crate::shapes;
use wuji_compile::Math;
use wuji_llvm::{Effort, Jit, JitOptions};

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|p| p.parse().ok())
        .unwrap_or(0);
    pages * 4096
}

#[test]
fn dropped_kernels_free_their_memory() {
    isolated("services::dropped_kernels_free_their_memory", load_and_drop);
}

fn load_and_drop() {
    let object = jit().build(&lowered(shapes::SAXPY, Math::Strict)).unwrap();
    let round = |count: usize| {
        for _ in 0..count {
            let kernel = jit().load(&object).unwrap();
            assert!(kernel.task(0).is_some());
        }
    };
    round(200);
    let before = resident_bytes();
    round(2000);
    let grown = resident_bytes().saturating_sub(before);
    // One page each would be 8 MB.
    assert!(grown < 1 << 20, "{grown} bytes");
}

#[test]
fn profilers_find_symbols() {
    let options = JitOptions {
        perf: true,
        ..JitOptions::default()
    };
    let jit = Jit::new(&options).unwrap();
    let kernel = jit.compile(&lowered(shapes::SAXPY, Math::Strict)).unwrap();
    let address = kernel.task(0).unwrap().entry as usize;
    let path = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
    let map = std::fs::read_to_string(&path).unwrap();
    let line = map
        .lines()
        .find(|l| l.starts_with(&format!("{address:x} ")))
        .unwrap_or_else(|| panic!("{address:x} is not in\n{map}"));
    let mut words = line.split(' ');
    let size = u64::from_str_radix(words.nth(1).unwrap(), 16).unwrap();
    assert!(size > 16, "{line}");
    assert_eq!(words.next(), Some("wuji.saxpy.0"));
    let _ = std::fs::remove_file(path);
}

#[test]
fn debuggers_see_loaded_code() {
    let options = JitOptions {
        debugger: true,
        ..JitOptions::default()
    };
    let jit = Jit::new(&options).unwrap();
    let kernel = jit.compile(&lowered(shapes::SAXPY, Math::Strict)).unwrap();
    let mut x = Aligned::from(&[1f32; 8]);
    let mut y = Aligned::from(&[2f32; 8]);
    let mut launch = Launch {
        params: vec![u64::from(3f32.to_bits())],
        trees: vec![x.ptr(), y.ptr()],
        ..Launch::default()
    };
    launch.run(&kernel, 0, 0, 8);
    assert_eq!(y.values::<f32>(), [5.0; 8]);
    // SAFETY: the descriptor has the layout that gdb documents; a list of object files in memory.
    let names = unsafe {
        let descriptor = libc::dlsym(libc::RTLD_DEFAULT, c"__jit_debug_descriptor".as_ptr());
        if descriptor.is_null() {
            // LLVM is linked statically and does not export the symbol.
            return;
        }
        let mut entry = *descriptor.cast::<*const *const u8>().add(2);
        let mut names = Vec::new();
        while !entry.is_null() {
            let (next, file, size) = (*entry, *entry.add(2), *entry.add(3) as usize);
            let bytes = std::slice::from_raw_parts(file, size);
            names.push(String::from_utf8_lossy(bytes).into_owned());
            entry = next.cast();
        }
        names
    };
    assert!(names.iter().any(|n| n.contains("wuji.saxpy.0")));
}

/// Ten tasks in two modules behave like ten tasks in one.
#[test]
fn tasks_compile_in_parallel() {
    let mut text = String::from("module \"many\"\ntemp t0: i64\n");
    for k in 0..10 {
        text += &format!(
            "fn fn{k} \"f{k}\"() {{
  v0: i64 = const 0
  v1: i64 = const {k}
  v2: i64 = memload temps [v0]
  v3: i64 = add v2, v1
  memstore temps [v0], v3
  return
}}
"
        );
    }
    for k in 0..10 {
        text += &format!("task \"same name\" serial fn{k} ordinal {k}\n");
    }
    let lowered = lowered(&text, Math::Strict);
    for threads in [1, 2, 3, 100] {
        let options = JitOptions {
            threads: Some(threads),
            ..JitOptions::default()
        };
        let jit = Jit::new(&options).unwrap();
        let object = jit.build(&lowered).unwrap();
        assert_eq!(object.code.len(), threads.min(10));
        let kernel = jit.load(&object).unwrap();
        let mut launch = Launch {
            temps: vec![0],
            ..Launch::default()
        };
        for k in 0..10 {
            launch.run(&kernel, k, 0, 0);
            assert_eq!(launch.temps[0], (0..=k as u64).sum::<u64>());
        }
    }
}

/// Several threads compile and drop kernels concurrently.
#[test]
fn threads_share_a_jit() {
    std::thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || {
                let text = shapes::reduction("add", "i64", 8, &n.to_string());
                let lowered = lowered(&text, Math::Strict);
                for _ in 0..5 {
                    let kernel = jit().compile(&lowered).unwrap();
                    let mut x = Aligned::from(&[1i64, 2, 3]);
                    let mut total = Aligned::from(&[0i64]);
                    let mut launch = Launch {
                        trees: vec![x.ptr(), total.ptr()],
                        ..Launch::default()
                    };
                    launch.run(&kernel, 0, 0, 3);
                    assert_eq!(total.values::<i64>(), [6 + n]);
                }
            });
        }
    });
}

/// A kernel outlives the JIT that made it.
#[test]
fn kernels_outlive_their_jit() {
    let kernel = Jit::new(&JitOptions::default())
        .unwrap()
        .compile(&lowered(shapes::SAXPY, Math::Strict))
        .unwrap();
    let mut x = Aligned::from(&[1f32; 4]);
    let mut y = Aligned::from(&[0f32; 4]);
    let mut launch = Launch {
        params: vec![u64::from(1f32.to_bits())],
        trees: vec![x.ptr(), y.ptr()],
        ..Launch::default()
    };
    launch.run(&kernel, 0, 1, 3);
    assert_eq!(y.values::<f32>(), [0.0, 1.0, 1.0, 0.0]);
}

/// Long expressions make LLVM recurse; deep nesting makes code generation recurse.
#[test]
fn large_kernels_do_not_overflow_the_stack() {
    let mut chain = String::new();
    for k in 0..6000 {
        let op = ["add", "mul", "sub", "xor"][k % 4];
        chain += &format!(
            "  v{}: i32 = {op} v{}, v0\n",
            k + 10,
            if k == 0 { 0 } else { k + 9 }
        );
    }
    let (mut open, mut close) = (String::new(), String::new());
    for k in 0..180 {
        open += &format!("  v{}: i32 = if v1 {{\n", 20_000 + k);
        let value = if k == 0 {
            "v6009".into()
        } else {
            format!("v{}", 20_180 - k)
        };
        close += &format!("  yield {value}\n  }} else {{\n  yield v0\n  }}\n");
    }
    let text = format!(
        "module \"large\"
temp t0: i32
param p0 \"a\": i32
fn fn0 \"f\"(v0: i32) {{
  v2: i64 = const 0
  v1: bool = convert v0
{chain}{open}{close}
  memstore temps [v2], v20000
  return
}}
task \"large.0\" serial fn0 ordinal 0
"
    );
    let lowered = lowered(&text, Math::Strict);
    let kernel = jit().compile(&lowered).unwrap();
    println!("{:?}", kernel.timings());
    for a in [0i32, 1, -7] {
        let mut launch = Launch {
            params: vec![u64::from(a as u32)],
            temps: vec![0],
            ..Launch::default()
        };
        launch.run(&kernel, 0, 0, 0);
        let want = (0..6000).fold(a, |v, k| match k % 4 {
            0 => v.wrapping_add(a),
            1 => v.wrapping_mul(a),
            2 => v.wrapping_sub(a),
            _ => v ^ a,
        });
        assert_eq!(launch.temps[0] as i32, if a == 0 { 0 } else { want });
    }
}

#[test]
fn compilations_can_be_cancelled() {
    let lowered = lowered(shapes::SAXPY, Math::Strict);
    let error = jit()
        .build_in_background(&lowered, Effort::Full, &|| true)
        .unwrap_err();
    assert_eq!(error.code, "W0511");
}
