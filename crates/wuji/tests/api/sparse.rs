//! Sparse data from the side of its users: every test runs interpreted and compiled, on one thread and
//! on several.

use std::collections::{BTreeMap, BTreeSet};
use wuji::axes::*;
use wuji::prelude::*;
use wuji::{Node, Result};

/// Runs a test in every kind of world.
fn everywhere(test: impl Fn(&World) -> Result<()>) {
    let native = |threads| World::builder().threads(threads).build();
    let worlds = [World::interpreter(), native(1), native(4)];
    for world in worlds {
        let world = world.unwrap();
        test(&world).unwrap_or_else(|e| panic!("{world:?}: {e}"));
    }
}

const KINDS: [&str; 5] = ["dense", "bitmasked", "pointer", "hash", "dynamic"];

/// A node of a kind; `list` is the axis of a dynamic one.
fn hang<'a>(node: Node<'a>, kind: &str, list: Axes) -> Node<'a> {
    match kind {
        "dense" => node.dense(I, 6),
        "bitmasked" => node.bitmasked(I, 6),
        "pointer" => node.pointer(I, 6),
        "hash" => node.hash_sized(I, 6),
        "dynamic" => node.dynamic_chunked(list, 10, 4),
        _ => unreachable!(),
    }
}

/// What is found in a field must be what the model says: elements that exist, and their values.
fn same<const D: usize>(x: &Field<i32, D>, model: &BTreeMap<[i32; D], i32>) -> Result<()> {
    let (coordinates, values) = x.export()?;
    let found: Vec<([i32; D], i32)> = coordinates.iter().copied().zip(values).collect();
    let expected: Vec<([i32; D], i32)> = model.iter().map(|(c, v)| (*c, *v)).collect();
    assert_eq!(found, expected, "{x:?}");
    assert_eq!(x.count_active()?, expected.len() as u64);
    assert_eq!(x.active()?, coordinates);
    let listed: Vec<([i64; D], i32)> = x.iter()?.collect();
    let wide: Vec<([i64; D], i32)> = expected
        .iter()
        .map(|(c, v)| (c.map(i64::from), *v))
        .collect();
    assert_eq!(listed, wide);
    Ok(())
}

/// Runs a test that takes long to compile in two kinds of worlds.
fn in_two_worlds(test: impl Fn(&World) -> Result<()>) {
    for world in [World::interpreter(), World::builder().threads(3).build()] {
        let world = world.unwrap();
        test(&world).unwrap_or_else(|e| panic!("{world:?}: {e}"));
    }
}

/// Every legal cell of the matrix in `docs/sparse.md`, two axes where one of the nodes is a list.
#[test]
fn every_node_below_every_node() {
    in_two_worlds(|w| {
        for parent in KINDS {
            for child in KINDS {
                let lists = usize::from(parent == "dynamic") + usize::from(child == "dynamic");
                match (lists, parent) {
                    (0, _) => {
                        let (cells, x) = w.layout(|root| {
                            let node = hang(root, parent, L);
                            let below = hang(node, child, M);
                            (node.cells::<1>("cells"), below.place::<i32, 1>("x"))
                        })?;
                        let mut model = BTreeMap::new();
                        let mut seen = BTreeSet::new();
                        for i in [0, 5, 6, 23, 35] {
                            x.set(i, i + 100)?;
                            seen.insert([i / 6]);
                            model.insert([i], i + 100);
                        }
                        // What is not written to exists where the nodes say so.
                        for i in 0..36 {
                            let there = match (parent, child) {
                                ("dense", "dense") => true,
                                (_, "dense") => seen.contains(&[i / 6]),
                                _ => model.contains_key(&[i]),
                            };
                            assert_eq!(x.is_active(i)?, there, "{parent} {child} {i}");
                            if there {
                                model.entry([i]).or_insert(0);
                            }
                            assert_eq!(x.get(i)?, model.get(&[i]).copied().unwrap_or(0));
                        }
                        same(&x, &model)?;
                        assert!(!x.is_active(36)?);
                        assert!(x.get(36).is_err());
                        if parent != "dense" {
                            assert_eq!(cells.active()?, Vec::from_iter(seen.clone()));
                            cells.deactivate(3)?;
                            model.retain(|c, _| c[0] / 6 != 3);
                            same(&x, &model)?;
                            x.set(18, 7)?;
                            for i in 18..24 {
                                if child == "dense" || i == 18 {
                                    model.insert([i], 0);
                                }
                            }
                            model.insert([18], 7);
                            same(&x, &model)?;
                            cells.deactivate_all()?;
                            same(&x, &BTreeMap::new())?;
                        }
                    }
                    (1, "dynamic") => {
                        let x = w.layout(|root| {
                            hang(hang(root, parent, L), child, M).place::<i32, 2>("x")
                        })?;
                        x.set([4, 7], 5)?;
                        let mut model = BTreeMap::new();
                        for l in 0..8 {
                            for i in 0..6 {
                                if child == "dense" || (l, i) == (7, 4) {
                                    model.insert([i, l], 0);
                                }
                            }
                        }
                        model.insert([4, 7], 5);
                        same(&x, &model)?;
                    }
                    (1, _) => {
                        let x = w.layout(|root| {
                            hang(hang(root, parent, L), child, M).place::<i32, 2>("x")
                        })?;
                        let mut model = BTreeMap::new();
                        for n in 0..10 {
                            assert_eq!(x.append(2, n * n)?, n);
                            model.insert([2, n], n * n);
                        }
                        assert_eq!(x.append(4, 77)?, 0);
                        model.insert([4, 0], 77);
                        same(&x, &model)?;
                        assert_eq!(x.length(2)?, 10);
                        assert_eq!(x.length(3)?, 0);
                        assert_eq!(x.length(-1)?, 0);
                        assert!(x.append(6, 0).is_err());
                        x.deactivate([6, 0])?;
                        let full = x.append(2, 1).unwrap_err();
                        assert_eq!(full.code, "W0408", "{full}");
                        x.set([5, 2], 9)?;
                        model.extend([([5, 0], 0), ([5, 1], 0), ([5, 2], 9)]);
                        same(&x, &model)?;
                        x.deactivate([2, 0])?;
                        model.retain(|c, _| c[0] != 2);
                        same(&x, &model)?;
                    }
                    _ => {
                        let x = w.layout(|root| {
                            hang(hang(root, parent, L), child, M).place::<i32, 2>("x")
                        })?;
                        x.set([2, 1], 5)?;
                        assert_eq!(x.append(2, 6)?, 2);
                        assert_eq!(x.length(1)?, 0);
                        let model = [([2, 0], 0), ([2, 1], 5), ([2, 2], 6)];
                        same(&x, &BTreeMap::from(model))?;
                    }
                }
            }
        }
        Ok(())
    });
}

#[kernel]
fn spread(x: &Field<i32, 3>) {
    for [i, j, k] in x {
        // Nothing that is added here gets that large.
        if x[[i, j, k]] >= 10 {
            x[[i + 1, j, k]] += 1;
            x[[i, j - 1, k]] += 1;
        }
    }
}

#[kernel]
fn total(x: &Field<i32, 3>) -> i32 {
    let mut sum = 0;
    for [i, j, k] in x {
        sum += x[[i, j, k]];
    }
    sum
}

#[kernel]
fn visits(blocks: &Cells<3>) -> i32 {
    let mut n = 0;
    for [_, _, _] in blocks {
        n += 1;
    }
    n
}

/// Fig. 6 (a): an unbounded hash table of blocks of 16^3 pointers to 8^3 voxels.
#[test]
fn vdb() {
    everywhere(|w| {
        let (tops, tiles, u, v) = w.layout(|root| {
            let top = root.hash(IJK);
            let tile = top.pointer(IJK, 16);
            let voxel = tile.dense(IJK, 8);
            (
                top.cells::<3>("tops"),
                tile.cells::<3>("tiles"),
                voxel.place::<i32, 3>("u"),
                voxel.place::<i32, 3>("v"),
            )
        })?;
        let far = [
            [0, 0, 0],
            [-1, -1, -1],
            [i32::MIN, i32::MAX, -129],
            [2_000_000_000, -2_000_000_000, 127],
            [128, 0, 0],
        ];
        u.import(&far, &[10, 20, 30, 40, 50])?;
        for (n, at) in far.iter().enumerate() {
            assert_eq!(u.get(*at)?, 10 * (n as i32 + 1));
            assert_eq!(v.get(*at)?, 0);
            assert!(v.is_active(*at)?);
        }
        assert!(!u.is_active([8, 0, 0])?);
        assert_eq!(u.get([8, 0, 0])?, 0);
        let floor = |at: [i32; 3], n: i32| at.map(|c| c.div_euclid(n));
        let mut expected: Vec<[i32; 3]> = far.iter().map(|at| floor(*at, 8)).collect();
        expected.sort();
        assert_eq!(tiles.active()?, expected);
        let mut expected: Vec<[i32; 3]> = far.iter().map(|at| floor(*at, 128)).collect();
        expected.sort();
        assert_eq!(tops.active()?, expected);
        assert_eq!(u.count_active()?, 5 * 512);
        assert_eq!(visits(&tiles)?, 5);
        assert_eq!(total(&u)?, 150);

        spread(&u)?;
        assert_eq!(u.get([0, 0, 0])?, 10);
        assert_eq!(u.get([1, 0, 0])?, 1);
        assert_eq!(u.get([0, -1, 0])?, 1);
        assert_eq!(u.get([0, -1, -1])?, 1);
        assert_eq!(u.get([-1, -2, -1])?, 1);
        assert_eq!(total(&u)?, 150 + 10);

        tops.deactivate(floor(far[3], 128))?;
        assert_eq!(u.get(far[3])?, 0);
        assert!(!tiles.is_active(floor(far[3], 8))?);
        u.deactivate_all()?;
        assert_eq!(u.count_active()?, 0);
        assert_eq!(tiles.count_active()?, 0);
        // Deactivating tiles leaves the tables above them alone.
        assert!(tops.count_active()? >= 4);
        tops.deactivate_all()?;
        assert_eq!(tops.count_active()?, 0);
        u.set([-5, 5, -5], 1)?;
        assert_eq!(u.window([-6..-4, 5..6, -5..-4])?.to_vec()?, [0, 1]);
        Ok(())
    });
}

/// Fig. 6 (b): a large bitmasked array of small blocks along a Z-curve.
#[test]
fn spgrid() {
    everywhere(|w| {
        let (blocks, flags, u) = w.layout(|root| {
            let block = root.bitmasked(IJK, 64).morton();
            let voxel = block.dense(IJK, [8, 4, 4]);
            (
                block.cells::<3>("blocks"),
                voxel.place::<i32, 3>("flags"),
                voxel.place::<f32, 3>("u"),
            )
        })?;
        assert_eq!(flags.shape()?, [512, 256, 256]);
        u.set([511, 255, 255], 2.0)?;
        flags.set([9, 17, 33], 40)?;
        assert_eq!(blocks.active()?, [[1, 4, 8], [63, 63, 63]]);
        assert!(u.is_active([8, 16, 32])? && !u.is_active([7, 16, 32])?);
        spread(&flags)?;
        assert_eq!(blocks.count_active()?, 2);
        flags.set([15, 16, 33], 10)?;
        spread(&flags)?;
        let expected = [[1, 3, 8], [1, 4, 8], [2, 4, 8], [63, 63, 63]];
        assert_eq!(blocks.active()?, expected);
        assert_eq!(u.get([511, 255, 255])?, 2.0);
        Ok(())
    });
}

#[kernel]
fn bucket(
    position: &Field<Vec3, 1>,
    bucket: &Field<i32, 4>,
    cells: &Cells<3>,
    counts: &Field<i32, 3>,
) {
    for [p] in position {
        let cell = position[p].floor().cast::<i32>();
        bucket.append([cell.x, cell.y, cell.z], p);
        if cells.is_active(cell) {
            counts[cell] += 1;
        }
    }
}

#[kernel]
fn neighbours(bucket: &Field<i32, 4>, sum: &Field<i32, 1>) {
    for [i, j, k, l] in bucket {
        let mut n = 0;
        for di in -1..2 {
            n += bucket.length([i + di, j, k]);
        }
        sum[bucket[[i, j, k, l]]] = n;
    }
}

#[kernel]
fn append_pairs(x: &Field<i32, 1>, y: &Field<i32, 1>, n: i32) {
    for i in 0..n {
        let at = x.append((), i);
        y[[at]] += 2 * i;
    }
}

#[kernel]
fn empty(x: &Field<i32, 1>) {
    x.deactivate([0]);
}

/// The chunks of a long list are freed in parallel; those of the next elements are zero.
#[test]
fn long_lists_are_emptied() {
    everywhere(|w| {
        let (x, y) = w.layout(|root| {
            let list = root.dynamic_chunked(I, 4096, 16);
            (list.place::<i32, 1>("x"), list.place::<i32, 1>("y"))
        })?;
        for (round, n) in [1000, 4096, 33, 0].into_iter().enumerate() {
            append_pairs(&x, &y, n)?;
            assert_eq!(x.length(())?, n);
            let all = 0..i64::from(n);
            let mut found = x.window([all.clone()])?.to_vec()?;
            let doubled = y.window([all])?.to_vec()?;
            assert!(found.iter().zip(&doubled).all(|(x, y)| *y == 2 * x));
            found.sort();
            assert_eq!(found, Vec::from_iter(0..n));
            if round % 2 == 0 {
                empty(&x)?;
            } else {
                x.deactivate_all()?;
            }
            assert_eq!((x.length(())?, x.count_active()?), (0, 0));
        }
        Ok(())
    });
}

/// Fig. 6 (c), HPB: lists of particles in an unbounded grid.
#[test]
fn hierarchical_particle_buckets() {
    everywhere(|w| {
        let (position, sum) = w.layout(|root| {
            let particle = root.dynamic(I, 2048);
            (
                particle.place::<Vec3, 1>("position"),
                particle.place::<i32, 1>("sum"),
            )
        })?;
        let (cells, buckets, counts) = w.layout(|root| {
            let cell = root.hash(IJK).pointer(IJK, 32).pointer(IJK, 8);
            (
                cell.cells::<3>("cells"),
                cell.dynamic_chunked(L, 2048, 16).place::<i32, 4>("bucket"),
                cell.place::<i32, 3>("counts"),
            )
        })?;
        let mut model: BTreeMap<[i32; 3], Vec<i32>> = BTreeMap::new();
        for n in 0..500 {
            let at = [n * n % 7 - 3, n % 5 - 2, -1000];
            let p = vec3(at[0] as f32 + 0.5, at[1] as f32 + 0.25, at[2] as f32);
            assert_eq!(position.append((), p)?, n);
            model.entry(at).or_default().push(n);
        }
        assert_eq!(position.length(())?, 500);
        bucket(&position, &buckets, &cells, &counts)?;
        assert_eq!(cells.active()?, Vec::from_iter(model.keys().copied()));
        for (at, particles) in &model {
            assert_eq!(buckets.length(*at)?, particles.len() as i32);
            let (i, j, k) = (at[0].into(), at[1].into(), at[2].into());
            let window = [i..i + 1, j..j + 1, k..k + 1, 0..particles.len() as i64];
            let mut found = buckets.window(window)?.to_vec()?;
            found.sort();
            assert_eq!(&found, particles);
        }
        neighbours(&buckets, &sum)?;
        for (at, particles) in &model {
            let expected: usize = (-1..2)
                .filter_map(|di| model.get(&[at[0] + di, at[1], at[2]]))
                .map(|p| p.len())
                .sum();
            for p in particles {
                assert_eq!(sum.get(*p)?, expected as i32);
            }
        }
        buckets.deactivate_all()?;
        assert_eq!(buckets.count_active()?, 0);
        assert_eq!(cells.count_active()?, model.len() as u64);
        Ok(())
    });
}

/// Fig. 6 (c), SPVDB: unbounded and shallow, with masks and a Z-curve.
#[test]
fn spvdb() {
    everywhere(|w| {
        let (blocks, flags) = w.layout(|root| {
            let block = root.hash(IJK).bitmasked(IJK, 16).morton();
            let voxel = block.dense(IJK, [8, 4, 4]);
            voxel.place::<f32, 3>("u");
            (block.cells::<3>("blocks"), voxel.place::<i32, 3>("flags"))
        })?;
        assert_eq!(flags.offset()?, [-(1 << 31); 3]);
        flags.set([-1, -1, -1], 30)?;
        flags.set([-1, 0, 0], 50)?;
        assert_eq!(blocks.active()?, [[-1, -1, -1], [-1, 0, 0]]);
        assert_eq!(blocks.offset()?, [-(1 << 28), -(1 << 29), -(1 << 29)]);
        spread(&flags)?;
        assert_eq!(
            blocks.active()?,
            [
                [-1, -1, -1],
                [-1, -1, 0],
                [-1, 0, 0],
                [0, -1, -1],
                [0, 0, 0]
            ]
        );
        assert_eq!(total(&flags)?, 84);
        Ok(())
    });
}

#[kernel]
fn advect(velocity: &Field<f32, 3>, position: &Field<f32, 3>) {
    for [i, j, l] in position {
        position[[i, j, l]] += velocity[[i, j, l]];
    }
}

#[kernel]
fn to_grid(position: &Field<f32, 3>, blocks: &Cells<2>, grid: &Field<f32, 2>) {
    for [i, j] in blocks {
        for l in 0..position.length([i, j]) {
            let offset = position[[i, j, l]] as i32;
            grid[[i * 4 + offset, j * 8]] += 1.0;
        }
    }
}

/// Fig. 6 (c), HLEG: a grid and particles in every block.
#[test]
fn hybrid_eulerian_lagrangian() {
    everywhere(|w| {
        let (blocks, grid, position, velocity) = w.layout(|root| {
            let block = root.hash(IJ).bitmasked(IJ, [16, 8]);
            let node = block.dense(IJ, [4, 8]);
            let particle = block.dynamic(L, 32);
            (
                block.cells::<2>("blocks"),
                node.place::<f32, 2>("grid"),
                particle.place::<f32, 3>("position"),
                particle.place::<f32, 3>("velocity"),
            )
        })?;
        for n in 0..20 {
            let l = position.append([-3, 7], n as f32 * 0.2)?;
            velocity.set([-3, 7, l], 0.01)?;
        }
        position.append([5, 5], 2.0)?;
        assert_eq!(blocks.active()?, [[-3, 7], [5, 5]]);
        assert!(grid.is_active([-12, 56])? && !grid.is_active([-13, 56])?);
        advect(&velocity, &position)?;
        to_grid(&position, &blocks, &grid)?;
        let row = grid.window([-12..-8, 56..57])?.to_vec()?;
        assert_eq!(row, [5.0, 5.0, 5.0, 5.0]);
        assert_eq!(grid.get([22, 40])?, 1.0);
        assert_eq!(velocity.get([5, 5, 0])?, 0.0);
        blocks.deactivate([-3, 7])?;
        assert_eq!(position.length([-3, 7])?, 0);
        assert_eq!(position.count_active()?, 1);
        Ok(())
    });
}

/// Fig. 5: blocks of pointers below a hash table.
#[test]
fn three_levels() {
    everywhere(|w| {
        let (u, v) = w.layout(|root| {
            let cell = root.hash_sized(IJ, 4).pointer(IJ, 4).dense(IJ, 16);
            (cell.place::<i32, 2>("u"), cell.place::<i32, 2>("v"))
        })?;
        assert_eq!(u.shape()?, [256, 256]);
        u.set([255, 0], 3)?;
        v.set([0, 255], 4)?;
        let all = u.to_vec()?;
        assert_eq!(all.iter().filter(|x| **x != 0).count(), 1);
        assert_eq!(all[255 * 256], 3);
        assert_eq!(u.count_active()?, 512);
        u.fill(1)?;
        assert_eq!(u.to_vec()?.iter().sum::<i32>(), 512);
        assert_eq!(v.to_vec()?.iter().sum::<i32>(), 4);
        Ok(())
    });
}

/// Fig. 4's fork: dense blocks that hold an array and a list.
#[test]
fn forks() {
    everywhere(|w| {
        let (u, p) = w.layout(|root| {
            let block = root.dense(IJ, 16);
            (
                block.dense(IJ, 16).place::<f32, 2>("u"),
                block.dynamic(K, 256).place::<f32, 3>("p"),
            )
        })?;
        u.set([200, 3], 1.0)?;
        assert_eq!(p.append([12, 0], 2.0)?, 0);
        assert_eq!(p.append([12, 0], 3.0)?, 1);
        assert_eq!(p.active()?, [[12, 0, 0], [12, 0, 1]]);
        assert_eq!(u.count_active()?, 65536);
        assert_eq!(u.to_vec()?.iter().sum::<f32>(), 1.0);
        Ok(())
    });
}

#[kernel]
fn fill_buckets(buckets: &Field<i32, 3>, n: i32) {
    for p in 0..n {
        let i = (p * p) % 8;
        buckets.append([i, (p * 5) % 8], p);
    }
}

#[kernel]
fn splat_cached(buckets: &Field<i32, 3>, mass: &Field<f32, 2>) {
    for [i, j, l] in cache(mass, buckets) {
        let p = buckets[[i, j, l]];
        let x = assume_in_range(i * 4 + p % 7 - 1, i * 4, -1, 5);
        let y = assume_in_range(j * 4 - 1, j * 4, -1, 5);
        for a in 0..3 {
            for b in 0..3 {
                if x + a >= 0 && x + a < 32 && y + b >= 0 {
                    mass[[x + a, y + b]] += p as f32;
                }
            }
        }
    }
}

#[test]
fn cached_fields() {
    let expected = std::cell::OnceCell::new();
    everywhere(|world| {
        let (buckets, mass) = world.layout(|root| {
            let block = root.pointer(IJ, 8);
            let mass = block.dense(IJ, 4).place::<f32, 2>("mass");
            (block.dynamic(K, 64).place::<i32, 3>("buckets"), mass)
        })?;
        fill_buckets(&buckets, 300)?;
        splat_cached(&buckets, &mass)?;
        let found = mass.export()?;
        assert!(found.1.iter().any(|m| *m > 100.0));
        assert_eq!(expected.get_or_init(|| found.clone()), &found);
        Ok(())
    });
}

/// Long enough that the threads of a GPU share only the active cells of a mask.
#[kernel]
fn long_iterations(x: &Field<u32, 3>, rounds: i32) {
    for at in x {
        let mut h = x[at];
        for k in 0..rounds {
            for s in unroll(0..16) {
                h = (h ^ (h >> 15)) * 2_246_822_519u32 + (k * 16 + s) as u32;
            }
        }
        x[at] = h;
    }
}

fn long_iterations_on_host(mut h: u32, rounds: u32) -> u32 {
    for n in 0..16 * rounds {
        h = (h ^ (h >> 15)).wrapping_mul(2_246_822_519).wrapping_add(n);
    }
    h
}

/// Each active cell is visited once, however many of a word are active.
#[test]
fn long_iterations_over_masks() -> wuji::Result<()> {
    let w = super::backend::builder().build()?;
    let x = w.layout(|root| {
        let block = root.pointer(IJK, 8);
        block.bitmasked(IJK, 4).place::<u32, 3>("x")
    })?;
    let y = w.layout(|root| {
        let block = root.pointer(IJK, 4);
        block.bitmasked(IJK, [8, 4, 4]).place::<u32, 3>("y")
    })?;
    // From a single cell of a block to all of them.
    let mut at = Vec::new();
    for n in 0..32 * 16 * 16 {
        let [i, j, k] = [n / 256, n / 16 % 16, n % 16];
        let random = (n as u32).wrapping_mul(2_654_435_761) >> 16;
        if random % 8 <= (i / 4) as u32 {
            at.push([i, j, k]);
        }
    }
    for field in [&x, &y] {
        let values: Vec<u32> = (0..at.len() as u32).collect();
        field.import(&at, &values)?;
        long_iterations(field, 8)?;
        for (k, at) in at.iter().enumerate() {
            assert_eq!(
                field.get(*at)?,
                long_iterations_on_host(k as u32, 8),
                "{at:?}"
            );
        }
        assert_eq!(field.active()?.len(), at.len());
    }
    Ok(())
}
