use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use wuji_compile::{Decision, Remark, compile};
use wuji_llvm::{Jit, JitOptions};

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wuji-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn open(&self, limit: u64) -> Cache {
        let choice = Choice::Folder(self.0.clone());
        Cache::open(&choice, Some(limit), &quiet())
            .unwrap()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn quiet() -> Log {
    Log::new(Some(Level::Off)).unwrap()
}

fn entry(jit: &Jit, times: u32) -> (Key, Entry) {
    let text = format!(
        "module \"m\"\nfile F0 \"m.rs\"\ntree T0 {{ dense S1 [i: 4] {{ place f0 }} }}\nfield f0 \"x\": i32 in T0.S1 (i)\n\
         kernel fn0 \"m\"() {{\nforeach L0 (v0: i32) in f0 {{\nv1: i32 = load f0[v0]\nv2: i32 = const {times}\n\
         v3: i32 = mul v1, v2\nstore f0[v0], v3\ncontinue L0\n}}\nreturn\n}}\n"
    );
    let module = wuji_ir::text::parse(&text, "m.wir");
    let module = module.unwrap_or_else(|e| panic!("{e}"));
    let options = Options::default();
    let key = Key::of(&module, &options, &jit.identity());
    let lowered = compile(module, &options).unwrap();
    let mut remarks = lowered.remarks().to_vec();
    let reported = remarks.first().cloned();
    let others = [
        Decision::Vectors {
            lanes: 8,
            vectors: 2,
            interleaved: true,
            streamed: false,
        },
        Decision::Components {
            lanes: 16,
            iterations: 4,
        },
        Decision::Scalar("why".into()),
        Decision::Pad {
            field: "x".into(),
            elements: 216,
            from: 8,
        },
        Decision::NoPad {
            field: "x".into(),
            why: "why".into(),
        },
        Decision::Bits { elements: 32 },
        Decision::Serial(wuji_compile::Enclosing::While),
        Decision::Serial(wuji_compile::Enclosing::If),
        Decision::NoBits("why not".into()),
        Decision::Flattened { loops: 2 },
        Decision::Slower {
            kept: wuji_compile::KeptCode::Scalar,
            vectorized: true,
            percent: 190,
        },
        Decision::SortedSums {
            field: "x".into(),
            elements: 216,
        },
        Decision::Packed {
            fields: "x, v".into(),
            write: wuji_compile::WordWrite::Swap,
        },
        Decision::Reversed(wuji_compile::Reversal::Checkpoints {
            count: 64,
            bytes: 8,
        }),
        Decision::Saved {
            field: "x".into(),
            bytes: 8,
            needed_at: "m.rs:1:2".into(),
        },
    ];
    remarks.extend(others.map(|decision| Remark {
        task: "m.1".into(),
        at: reported.as_ref().and_then(|r| r.at.clone()),
        decision,
    }));
    let entry = Entry {
        launch: lowered.module().without_bodies(),
        object: jit.build(&lowered).unwrap(),
        remarks,
    };
    (key, entry)
}

fn jit() -> Jit {
    Jit::new(&JitOptions::default()).unwrap()
}

#[test]
fn entries_round_trip() {
    let (folder, jit) = (Folder::new("back"), jit());
    let cache = folder.open(DEFAULT_LIMIT);
    let (key, entry) = entry(&jit, 3);
    assert!(cache.get(&key, Tier::Best, &quiet()).is_none());
    cache.put(&key, Tier::Best, &entry, &quiet());
    let back = cache.get(&key, Tier::Best, &quiet()).unwrap();
    assert_eq!(back.object.code, entry.object.code);
    assert_eq!(back.object.symbols, entry.object.symbols);
    assert_eq!(back.remarks, entry.remarks);
    assert_eq!(back.launch.to_string(), entry.launch.to_string());
    assert!(cache.get(&key, Tier::Fast, &quiet()).is_none());
    let info = cache.info().unwrap();
    assert_eq!(info.entries, 1);
    assert_eq!(cache.clear().unwrap(), (1, info.bytes));
    assert!(cache.get(&key, Tier::Best, &quiet()).is_none());
}

#[test]
fn entries_with_a_damaged_byte_are_rejected() {
    let jit = jit();
    let (key, entry) = entry(&jit, 3);
    let bytes = entry.encode(&key.0);
    assert!(Entry::decode(&bytes, &key.0).is_ok());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(Entry::decode(&damaged, &key.0).is_err(), "byte {at}");
    }
    for length in 0..bytes.len() {
        assert!(
            Entry::decode(&bytes[..length], &key.0).is_err(),
            "{length} bytes"
        );
    }
    let mut long = bytes.clone();
    long.push(0);
    assert!(Entry::decode(&long, &key.0).is_err());
    assert_eq!(
        Entry::decode(&bytes, "another").unwrap_err(),
        "it belongs to another kernel"
    );
}

/// Even with a valid checksum, wild contents must not cause harm.
#[test]
fn wild_contents_with_a_good_checksum_do_no_harm() {
    let jit = jit();
    let (key, entry) = entry(&jit, 3);
    let bytes = entry.encode(&key.0);
    for at in (16..bytes.len()).step_by(7) {
        for value in [0, 0xff] {
            let mut wild = bytes.clone();
            wild[at] = value;
            let sum = checksum(&wild[16..]);
            wild[8..16].copy_from_slice(&sum.to_le_bytes());
            let _ = Entry::decode(&wild, &key.0);
        }
    }
}

#[test]
fn the_least_recently_used_entries_are_evicted() {
    let (folder, jit) = (Folder::new("full"), jit());
    let (_, one) = entry(&jit, 0);
    let size = one.encode(&entry(&jit, 0).0.0).len() as u64;
    let cache = folder.open(size * 10);
    let keys: Vec<Key> = (10..40).map(|n| entry(&jit, n).0).collect();
    for (age, key) in keys.iter().enumerate() {
        cache.put(key, Tier::Best, &one, &quiet());
        let file = fs::File::open(folder.0.join(key.file(Tier::Best)));
        if let Ok(file) = file {
            let past = Duration::from_secs(3600 - age as u64);
            file.set_modified(SystemTime::now() - past).unwrap();
        }
    }
    let info = cache.info().unwrap();
    assert!(info.bytes <= size * 12, "{info:?}");
    assert!(info.entries >= 7, "{info:?}");
    assert!(cache.get(&keys[29], Tier::Best, &quiet()).is_some());
    assert!(cache.get(&keys[0], Tier::Best, &quiet()).is_none());
}

#[test]
fn concurrent_writers_leave_a_complete_entry() {
    let (folder, jit) = (Folder::new("race"), jit());
    let cache = Arc::new(folder.open(DEFAULT_LIMIT));
    let (key, entry) = entry(&jit, 3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    cache.put(&key, Tier::Best, &entry, &quiet());
                    // Once it is written, it is always present and complete.
                    assert!(cache.get(&key, Tier::Best, &quiet()).is_some());
                }
            });
        }
    });
    assert_eq!(cache.info().unwrap().entries, 1);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn folders_that_others_can_write_to_are_rejected() {
    let folder = Folder::new("others");
    fs::create_dir(&folder.0).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let choice = Choice::Folder(folder.0.clone());
    let error = Cache::open(&choice, None, &quiet()).unwrap_err();
    assert_eq!(error.code, "W0512");
    assert!(
        error.notes[0].contains("other users may write to it"),
        "{error}"
    );
}

#[test]
fn a_file_is_rejected_as_a_folder() {
    let folder = Folder::new("file");
    fs::write(&folder.0, "x").unwrap();
    let choice = Choice::Folder(folder.0.join("cache"));
    let error = Cache::open(&choice, None, &quiet()).unwrap_err();
    assert_eq!(error.code, "W0512");
    fs::remove_file(&folder.0).unwrap();
}

#[test]
fn abandoned_files_are_removed() {
    let (folder, jit) = (Folder::new("left"), jit());
    let cache = folder.open(DEFAULT_LIMIT);
    let left = folder.0.join("new-1-1");
    fs::write(&left, "half").unwrap();
    let old = SystemTime::now() - ABANDONED * 2;
    fs::File::open(&left).unwrap().set_modified(old).unwrap();
    let (key, entry) = entry(&jit, 3);
    cache.put(&key, Tier::Best, &entry, &quiet());
    assert!(!left.exists());
}

#[test]
fn an_entry_that_is_no_regular_file_is_not_read() {
    let folder = Folder::new("pipe");
    let cache = folder.open(1 << 20);
    let (key, code) = entry(&Jit::new(&JitOptions::default()).unwrap(), 2);
    let path = folder.0.join(key.file(Tier::Best));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // A pipe without a writer would block.
    assert!(cache.get(&key, Tier::Best, &quiet()).is_none());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    // A device without an end.
    assert!(cache.get(&key, Tier::Best, &quiet()).is_none());
    cache.put(&key, Tier::Best, &code, &quiet());
    assert!(cache.get(&key, Tier::Best, &quiet()).is_some());
}

#[test]
fn a_file_in_the_way_of_a_new_entry_is_left_alone() {
    let folder = Folder::new("in-the-way");
    let cache = folder.open(1 << 20);
    let (_, first) = cache.unfinished().unwrap();
    let text = first.to_str().unwrap();
    let number: u64 = text.rsplit('-').next().unwrap().parse().unwrap();
    let next = text.replace(&format!("-{number}"), &format!("-{}", number + 1));
    let name = std::ffi::CString::new(next).unwrap();
    // SAFETY: the name is a string that ends with a zero.
    unsafe { libc::mkfifo(name.as_ptr(), 0o600) };
    let (_, second) = cache.unfinished().unwrap();
    assert_ne!(first, second);
}
