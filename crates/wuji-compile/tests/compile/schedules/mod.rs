//! Allocation and recycling of tree cells under random thread schedules.
//!
//! After each round no cell may be in two states: in the tree, free, returned, or waiting for a collection. What
//! was activated or appended, and not deactivated, is there exactly once.

mod machine;
mod places;

use machine::{Call, Memory, run_concurrently};
use places::{Places, find, lists};
use wuji_compile::{Options, Target, compile};
use wuji_ir::entities::{Node, Tree};
use wuji_ir::layout::{TreeMemory, header, tree_header};
use wuji_ir::module::Module;
use wuji_ir::text::parse;

const THREADS: u64 = 6;

const TARGETS: [Target; 2] = [Target::Cpu, Target::Cuda];

/// A kernel on a tree. `f0` is a view of the given node.
fn module(tree: &str, view: (&str, &str), element: (&str, &str), body: &str) -> Module {
    module_for(Target::Cpu, tree, view, element, body)
}

fn module_for(
    target: Target,
    tree: &str,
    view: (&str, &str),
    element: (&str, &str),
    body: &str,
) -> Module {
    let params: Vec<String> = (0..3).map(|k| format!("param p{k}: i64\n")).collect();
    let text = format!(
        "module \"m\"\nstruct s0 {{ }}\ntree T0 {{ {tree} }}\n\
         field f0 \"cells\": s0 in T0.{} {}\nfield f1 \"x\": i64 in T0.{} {}\n{}\
         kernel fn0 \"m\"(v0: i64, v1: i64, v2: i64) {{\n{body}\nreturn\n}}\n",
        view.0,
        view.1,
        element.0,
        element.1,
        params.concat()
    );
    let options = Options {
        target,
        vector_bits: 0,
        ..Options::default()
    };
    let parsed = parse(&text, "m.wir").unwrap_or_else(|e| panic!("{e}\n{text}"));
    compile(parsed, &options)
        .unwrap_or_else(|e| panic!("{e}"))
        .module()
        .clone()
}

fn layout(m: &Module) -> TreeMemory {
    let tree = &m.trees[Tree::from_u32(0)];
    TreeMemory::of(tree, &m.fields, &m.structs).unwrap()
}

/// A tree with unlimited capacity.
fn empty(m: &Module) -> Memory {
    let tree = &m.trees[Tree::from_u32(0)];
    let limit = layout(m).tree_header(tree).unwrap() + tree_header::LIMIT;
    Memory::from([(limit as i64, i64::MAX as u64)])
}

/// The same for a target.
fn empty_for(target: Target, m: &Module) -> Memory {
    let mut memory = empty(m);
    if target == Target::Cuda {
        let layout = layout(m);
        for node in m.trees[Tree::from_u32(0)].nodes.keys() {
            let node = layout.node(node);
            let sized = node.and_then(|n| n.arena.as_ref().map(|a| (n.header, a.capacity)));
            if let Some((at, capacity)) = sized {
                memory.insert((at + header::ROOM) as i64, capacity);
            }
        }
    }
    memory
}

/// A tree whose first node has the given number of cells, some of them recycled, the others in use. Shards claim
/// several at a time if there are many.
fn used_before(target: Target, m: &Module, cells: u64, free: u64, ahead: bool) -> Memory {
    let layout = layout(m);
    let node = layout.node(Node::from_u32(1)).unwrap();
    let arena = node.arena.as_ref().unwrap();
    let queue = (0..free).map(|k| (arena.free + 8 * k, arena.data + k * arena.cell));
    let words = [
        (node.header + header::HIGH, cells),
        (node.header + header::FREE, free),
        (node.header + header::AHEAD, u64::from(ahead)),
    ];
    let words = queue.chain(words).map(|(at, v)| (at as i64, v));
    empty_for(target, m).into_iter().chain(words).collect()
}

/// A pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn shuffled<T>(&mut self, mut list: Vec<T>) -> Vec<T> {
        for k in (1..list.len()).rev() {
            list.swap(k, self.below(k + 1));
        }
        list
    }
}

/// The calls of each thread, generated with its own generator.
fn threads<'a>(seed: u64, calls: impl Fn(u64, &mut Dice) -> Vec<Call<'a>>) -> Vec<Vec<Call<'a>>> {
    (0..THREADS)
        .map(|t| calls(t, &mut Dice(seed.wrapping_mul(1000) + 17 * t)))
        .collect()
}

#[test]
fn no_cell_is_in_two_states() {
    const TREE: &str = "pointer S1 [i: 2048] { place f0, f1 }";
    /// Two slots that share a shard, and one far away.
    const SLOTS: [i64; 3] = [0, 1, 1500];
    for target in TARGETS {
        let order = |what: &str| {
            let body = format!("{what} f0[v0]");
            module_for(target, TREE, ("S1", "(i)"), ("S1", "(i)"), &body)
        };
        let (on, off) = (order("activate"), order("deactivate"));
        for seed in 0..100u64 {
            // Runs of one cell; of a few; of many; of many that were never used.
            let (cells, free) = [(0, 0), (300, 300), (1000, 1000), (1000, 4)][seed as usize % 4];
            let mut memory = used_before(target, &on, cells, free, seed % 8 < 4);
            for round in 0..4 {
                let calls = threads(seed * 4 + round, |_, dice| {
                    let call = |d: &mut Dice| {
                        let which = [&on, &off][d.below(2)];
                        (which, vec![SLOTS[d.below(3)], 0, 0])
                    };
                    (0..12).map(|_| call(dice)).collect()
                });
                memory = run_concurrently(memory, seed * 4 + round, calls);
                Places::of(&on, &memory).check(&[cells - free], seed);
            }
        }
    }
}

/// Coordinates with the same hash, more than the probes of one table.
fn crowd() -> Vec<i64> {
    let home = |c: i64| {
        let h = (0x51_7cc1_b727_220a_i64 ^ c).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        (h ^ (h as u64 >> 29) as i64) & 1023
    };
    let same = (0..1 << 20).filter(|c| home(*c) == home(0));
    same.take(20).collect()
}

#[test]
fn tables_hold_each_cell_once() {
    const TREE: &str = "hash S1 [i: 1048576] { place f0, f1 }";
    let order = |what: &str| module(TREE, ("S1", "(i)"), ("S1", "(i)"), what);
    let (on, off) = (order("store f1[v0], v1"), order("deactivate f0[v0]"));
    let crowd = crowd();
    for seed in 0..30u64 {
        let mut memory = empty(&on);
        for round in 0..3 {
            let seed = seed * 3 + round;
            // Concurrent activations and deactivations.
            let calls = threads(seed, |_, dice| {
                let call = |d: &mut Dice| {
                    let which = [&on, &on, &off][d.below(3)];
                    (which, vec![crowd[d.below(crowd.len())], 1, 0])
                };
                (0..10).map(|_| call(dice)).collect()
            });
            memory = run_concurrently(memory, seed, calls);
            Places::of(&on, &memory).check(&[0], seed);
            // All threads activate all of them.
            let calls = threads(seed, |t, dice| {
                let all = crowd.iter().filter(|c| (**c + t as i64) % 2 == 0);
                let all = all.map(|c| (&on, vec![*c, *c + 1, 0])).collect();
                dice.shuffled(all)
            });
            memory = run_concurrently(memory, seed, calls);
            let places = Places::of(&on, &memory);
            places.check(&[0], seed);
            for c in &crowd {
                let cell = places
                    .named(&[*c])
                    .unwrap_or_else(|| panic!("seed {seed}: {c} is lost"));
                assert_eq!(
                    find(&memory, cell),
                    *c as u64 + 1,
                    "seed {seed}: {c} is another one"
                );
            }
            assert_eq!(places.count(1), crowd.len(), "seed {seed}");
            if round == 1 {
                let calls = crowd.iter().map(|c| (&off, vec![*c, 0, 0])).collect();
                memory = run_concurrently(memory, seed, vec![calls]);
                let places = Places::of(&on, &memory);
                places.check(&[0], seed);
                assert_eq!(places.count(1), 0, "seed {seed}");
            }
        }
    }
}

#[test]
fn appended_elements_appear_once() {
    // The second list is too short for all elements.
    for (target, most) in TARGETS.into_iter().flat_map(|t| [(t, 128usize), (t, 20)]) {
        let tree = format!(
            "pointer S1 [i: 4] {{ place f0 dynamic S2 [l: {most}] chunk 4 {{ place f1 }} }}"
        );
        let kernel = |body: &str| module_for(target, &tree, ("S1", "(i)"), ("S2", "(i, l)"), body);
        // A full list returns -1, which is out of range.
        let push = kernel("v3: i32 = append f1[v0]\nstore f1[v0, v3], v1");
        let off = kernel("deactivate f0[v0]");
        for seed in 0..25u64 {
            let mut memory = empty_for(target, &push);
            for round in 0..3 {
                let seed = seed * 3 + round;
                let value = |t: u64, k: i64| 1 + 100 * t as i64 + k;
                let calls = threads(seed, |t, dice| {
                    (0..10)
                        .map(|k| (&push, vec![dice.below(2) as i64, value(t, k), 0]))
                        .collect()
                });
                let mut expected = [0, 1].map(|list| {
                    let all = calls.iter().flatten();
                    let all = all.filter(|c| c.1[0] == list).map(|c| c.1[1] as u64);
                    all.collect::<Vec<u64>>()
                });
                memory = run_concurrently(memory, seed, calls);
                let places = Places::of(&push, &memory);
                places.check(&[0, 0], seed);
                for (list, expected) in expected.iter_mut().enumerate() {
                    let mut found = lists(&push, &memory, list as u64);
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(found.len(), expected.len().min(most), "seed {seed}");
                    let mut twice = found.clone();
                    twice.dedup();
                    assert_eq!(
                        twice.len(),
                        found.len(),
                        "seed {seed}: a number was given twice"
                    );
                    assert!(found.iter().all(|v| expected.contains(v)), "seed {seed}");
                }
                // Deactivate lists during appends, then all of them.
                let calls = threads(seed, |_, dice| {
                    let call = |d: &mut Dice| {
                        let which = [&push, &push, &off][d.below(3)];
                        (which, vec![d.below(2) as i64, 1, 0])
                    };
                    (0..8).map(|_| call(dice)).collect()
                });
                memory = run_concurrently(memory, seed + 1, calls);
                Places::of(&push, &memory).check(&[0, 0], seed);
                let calls = (0..4).map(|i| (&off, vec![i, 0, 0])).collect();
                memory = run_concurrently(memory, seed, vec![calls]);
                let places = Places::of(&push, &memory);
                places.check(&[0, 0], seed);
                assert_eq!((places.count(1), places.count(2)), (0, 0), "seed {seed}");
            }
        }
    }
}

#[test]
fn no_activation_is_lost() {
    const TREE: &str = "pointer S1 [i: 4] { place f0 bitmasked S2 [j: 128] { place f1 } }";
    let kernel = |body: &str| module(TREE, ("S1", "(i)"), ("S2", "(i, j)"), body);
    let (on, off) = (kernel("store f1[v0, v1], v2"), kernel("deactivate f0[v0]"));
    let layout = layout(&on);
    for seed in 0..40u64 {
        let mut memory = empty(&on);
        for round in 0..2 {
            // Each thread has its own bits, in words that all threads share.
            let calls = threads(seed * 2 + round, |t, dice| {
                let bits = (0..128).filter(|j| *j as u64 % THREADS == t && j % 5 < 3);
                dice.shuffled(bits.map(|j| (&on, vec![j % 2, j, j + 1])).collect())
            });
            memory = run_concurrently(memory, seed * 2 + round, calls);
            let places = Places::of(&on, &memory);
            places.check(&[0], seed);
            for j in (0..128).filter(|j| j % 5 < 3) {
                let block = places.cells(1)[j % 2];
                let mask = block + layout.node_offset[Node::from_u32(2)];
                let word = find(&memory, mask + 8 * (j as u64 / 64));
                assert_ne!(word >> (j % 64) & 1, 0, "seed {seed}: bit {j} is lost");
                let first = mask + layout.first_cell[Node::from_u32(2)];
                assert_eq!(
                    find(&memory, first + 8 * j as u64),
                    j as u64 + 1,
                    "seed {seed}"
                );
            }
            let calls = (0..2).map(|i| (&off, vec![i, 0, 0])).collect();
            memory = run_concurrently(memory, seed, vec![calls]);
        }
    }
}

#[test]
fn cells_below_a_deactivated_cell_are_recycled() {
    const TREES: [&str; 3] = [
        "pointer S1 [i: 4] { place f0 pointer S2 [j: 8] { place f1 } }",
        "bitmasked S1 [i: 4] { place f0 pointer S2 [j: 8] { place f1 } }",
        "bitmasked S1 [i: 4] { place f0 dense S2 [j: 2] { pointer S3 [j: 4] { place f1 } } }",
    ];
    for tree in TREES {
        let last = last_node(tree);
        let kernel = |body: &str| module(tree, ("S1", "(i)"), (&last, "(i, j)"), body);
        let (on, off) = (kernel("store f1[v0, v1], v2"), kernel("deactivate f0[v0]"));
        let away = kernel("deactivate f1[v0, v1]");
        let elsewhere = nowhere_else(&on);
        for seed in 0..40u64 {
            let mut memory = empty(&on);
            for round in 0..3 {
                let seed = seed * 3 + round;
                let calls = threads(seed, |_, dice| {
                    let call = |d: &mut Dice| {
                        let which = [&on, &on, &away, &off][d.below(4)];
                        (which, vec![d.below(3) as i64, d.below(4) as i64, 7])
                    };
                    (0..10).map(|_| call(dice)).collect()
                });
                memory = run_concurrently(memory, seed, calls);
                Places::of(&on, &memory).check(&elsewhere, seed);
            }
        }
    }
}

/// The name of the last node of a tree, which contains `f1`.
fn last_node(tree: &str) -> String {
    format!("S{}", tree.matches(" S").count())
}

/// All cells of all allocating nodes can be found.
fn nowhere_else(m: &Module) -> Vec<u64> {
    let nodes = m.trees[Tree::from_u32(0)].nodes.values();
    nodes.filter(|n| n.kind.allocates()).map(|_| 0).collect()
}

/// Hash nodes below each kind of sparse node. `f0` is a view of the first node, `f1` is in the hash node.
const NESTED_TABLES: [&str; 5] = [
    "pointer S1 [i: 4] { place f0 hash S2 [j: 64] { place f1 } }",
    "hash S1 [i: 4] { place f0 hash S2 [j: 64] { place f1 } }",
    "pointer S1 [i: 4] { place f0 dense S2 [j: 4] { hash S3 [j: 16] { place f1 } } }",
    "bitmasked S1 [i: 4] { place f0 hash S2 [j: 64] { place f1 } }",
    "bitmasked S1 [i: 4] { place f0 pointer S2 [j: 4] { hash S3 [j: 16] { place f1 } } }",
];

#[test]
fn tables_below_other_nodes_hold_each_cell_once() {
    for tree in NESTED_TABLES {
        let last = last_node(tree);
        let kernel = |body: &str| module(tree, ("S1", "(i)"), (&last, "(i, j)"), body);
        let on = kernel("store f1[v0, v1], v2");
        let away = kernel("deactivate f1[v0, v1]");
        let off = kernel("deactivate f0[v0]");
        let elsewhere = nowhere_else(&on);
        let node = on.trees[Tree::from_u32(0)].nodes.len() - 1;
        for seed in 0..25u64 {
            let mut memory = empty(&on);
            for round in 0..3 {
                let seed = seed * 3 + round;
                // Concurrent activations and deactivations, of cells and of their parents.
                let calls = threads(seed, |_, dice| {
                    let call = |d: &mut Dice| {
                        let which = [&on, &on, &away, &off][d.below(4)];
                        (which, vec![d.below(2) as i64, 7 * d.below(4) as i64, 5])
                    };
                    (0..8).map(|_| call(dice)).collect()
                });
                memory = run_concurrently(memory, seed, calls);
                Places::of(&on, &memory).check(&elsewhere, seed);
                // All threads activate the same cells.
                let calls = threads(seed, |_, dice| {
                    let all = (0..12).map(|k| (&on, vec![k % 2, 5 * k, k + 1]));
                    dice.shuffled(all.collect())
                });
                memory = run_concurrently(memory, seed, calls);
                let places = Places::of(&on, &memory);
                places.check(&elsewhere, seed);
                for k in 0..12 {
                    let cell = places
                        .named(&[k % 2, 5 * k])
                        .unwrap_or_else(|| panic!("{tree}, seed {seed}: {k} is lost"));
                    assert_eq!(find(&memory, cell), k as u64 + 1, "{tree}, seed {seed}");
                }
                // Nothing is left when the parents are deactivated.
                let calls = (0..2).map(|i| (&off, vec![i, 0, 0])).collect();
                memory = run_concurrently(memory, seed, vec![calls]);
                let places = Places::of(&on, &memory);
                places.check(&elsewhere, seed);
                assert_eq!(places.count(node), 0, "{tree}, seed {seed}");
            }
        }
    }
}
