//! OpenVDB files, read back by a reader that follows the public description of the format.

use crate::files::Folder;
use expect_test::expect;
use std::collections::BTreeMap;
use std::fs;
use wuji::files::Vdb;
use wuji::prelude::*;

/// The rest of a file.
struct Reader<'f> {
    file: &'f [u8],
    at: usize,
}

impl<'f> Reader<'f> {
    fn take(&mut self, count: usize) -> &'f [u8] {
        let bytes = &self.file[self.at..self.at + count];
        self.at += count;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn f64(&mut self) -> f64 {
        f64::from_bits(self.u64())
    }

    fn text(&mut self) -> String {
        let length = self.u32() as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn metadata(&mut self) -> Vec<(String, String)> {
        let entry = |r: &mut Self| {
            let name = r.text();
            assert_eq!(r.text(), "string");
            (name, r.text())
        };
        (0..self.u32()).map(|_| entry(self)).collect()
    }

    fn mask(&mut self, bits: usize) -> Vec<bool> {
        let bytes = self.take(bits / 8);
        (0..bits)
            .map(|k| bytes[k / 8] >> (k % 8) & 1 != 0)
            .collect()
    }

    fn place(&mut self) -> [i32; 3] {
        [0; 3].map(|_| self.u32() as i32)
    }
}

/// What a file says about a volume.
struct Volume {
    name: String,
    kind: String,
    /// Translation and scale.
    map: ([f64; 3], f64),
    /// The bytes of the active voxels.
    active: BTreeMap<[i32; 3], Vec<u8>>,
}

/// The first voxel of a child.
fn child(node: [i32; 3], number: usize, bits: u32, child_bits: u32) -> [i32; 3] {
    let low = (1 << bits) - 1;
    let at = [
        number >> (2 * bits) & low,
        number >> bits & low,
        number & low,
    ];
    std::array::from_fn(|k| node[k] + ((at[k] as i32) << child_bits))
}

/// An inner node: the first voxels of its children.
fn inner(
    r: &mut Reader<'_>,
    node: [i32; 3],
    bits: u32,
    child_bits: u32,
    size: usize,
) -> Vec<[i32; 3]> {
    let count = 1 << (3 * bits);
    let children = r.mask(count);
    assert!(
        r.mask(count).iter().all(|active| !active),
        "no active tiles"
    );
    assert_eq!(r.take(1), [6], "all values follow");
    assert!(r.take(count * size).iter().all(|b| *b == 0));
    let on = (0..count).filter(|k| children[*k]);
    on.map(|k| child(node, k, bits, child_bits)).collect()
}

fn read(file: &[u8]) -> Vec<Volume> {
    let mut r = Reader { file, at: 0 };
    assert_eq!(r.take(8), b" BDV\0\0\0\0");
    assert_eq!(r.u32(), 224);
    assert_eq!([r.u32(), r.u32()], [10, 0]);
    assert_eq!(r.take(1), [1], "positions of volumes");
    let uuid = String::from_utf8(r.take(36).to_vec()).unwrap();
    let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!(r.metadata(), [("creator".into(), "Wuji".into())]);
    let volumes = (0..r.u32()).map(|_| volume(&mut r)).collect();
    assert_eq!(r.at, file.len());
    volumes
}

fn volume(r: &mut Reader<'_>) -> Volume {
    let (name, kind) = (r.text(), r.text());
    assert_eq!(r.text(), "", "a tree of its own");
    let size = match kind.as_str() {
        "Tree_float_5_4_3" | "Tree_int32_5_4_3" => 4,
        "Tree_vec3s_5_4_3" => 12,
        "Tree_vec3d_5_4_3" => 24,
        other => panic!("{other}"),
    };
    let [start, values, end] = [0; 3].map(|_| r.u64() as usize);
    assert_eq!(r.at, start);
    assert_eq!(r.u32(), 0, "no compression");
    let metadata = r.metadata();
    assert_eq!(metadata[1], ("name".into(), name.clone()));
    assert_eq!(r.text(), "UniformScaleTranslateMap");
    let numbers: Vec<f64> = (0..18).map(|_| r.f64()).collect();
    let scale = numbers[3];
    assert_eq!(numbers[3..9], [scale; 6]);
    assert_eq!(numbers[9..12], [1.0 / scale; 3]);
    assert_eq!(numbers[15..18], [0.5 / scale; 3]);
    assert_eq!(r.u32(), 1, "buffers per leaf");
    assert!(r.take(size).iter().all(|b| *b == 0), "the background");
    assert_eq!(r.u32(), 0, "no tiles in the root");
    let mut leaves = Vec::new();
    for _ in 0..r.u32() {
        let top = r.place();
        for middle in inner(r, top, 5, 7, size) {
            for leaf in inner(r, middle, 4, 3, size) {
                leaves.push((leaf, r.mask(512)));
            }
        }
    }
    assert_eq!(r.at, values);
    let mut active = BTreeMap::new();
    for (leaf, mask) in leaves {
        assert_eq!(r.mask(512), mask, "once more");
        assert_eq!(r.take(1), [6]);
        for (k, on) in mask.iter().enumerate() {
            let value = r.take(size).to_vec();
            if *on {
                active.insert(child(leaf, k, 3, 0), value);
            } else {
                assert!(value.iter().all(|b| *b == 0));
            }
        }
    }
    assert_eq!(r.at, end);
    let translation = [numbers[0], numbers[1], numbers[2]];
    Volume {
        name,
        kind,
        map: (translation, scale),
        active,
    }
}

#[test]
fn dense_and_sparse_fields() {
    let folder = Folder::new("vdb");
    let world = World::interpreter().unwrap();
    let dense = world.field::<f32, 3>("dense", [20, 9, 3]).unwrap();
    dense.set([0, 0, 0], 1.5).unwrap();
    dense.set([19, 8, 2], -2.0).unwrap();
    let sparse = world
        .layout(|root| root.hash(IJK).dense(IJK, 4).place::<Vec3, 3>("sparse"))
        .unwrap();
    // In several nodes of each level, on both sides of zero.
    for at in [[-1, 5000, 0], [130, 0, -7], [-5000, 3, 4095]] {
        sparse.set(at, vec3(at[0] as f32, 1.0, 2.0)).unwrap();
    }
    let path = folder.join("both.vdb");
    let file = Vdb::new().voxel_size(0.25).origin(vec3(1.0, 2.0, 3.0));
    let file = file.field(&dense).unwrap().field(&sparse).unwrap();
    file.save(&path).unwrap();
    let [a, b] = &read(&fs::read(&path).unwrap())[..] else {
        panic!("two volumes");
    };
    assert_eq!(
        (a.name.as_str(), a.kind.as_str()),
        ("dense", "Tree_float_5_4_3")
    );
    assert_eq!(a.map, ([1.0, 2.0, 3.0], 0.25));
    let values: Vec<([i32; 3], f32)> = (a.active.iter())
        .map(|(at, v)| (*at, f32::from_le_bytes(v[..].try_into().unwrap())))
        .collect();
    assert_eq!(values, [([0, 0, 0], 1.5), ([19, 8, 2], -2.0)]);
    assert_eq!(
        (b.name.as_str(), b.kind.as_str()),
        ("sparse", "Tree_vec3s_5_4_3")
    );
    let (coordinates, values) = sparse.export().unwrap();
    assert_eq!(coordinates.len(), 3 * 64);
    let expected: BTreeMap<[i32; 3], Vec<u8>> = coordinates
        .into_iter()
        .zip(values)
        .map(|(at, v)| {
            (
                at,
                v.to_array().iter().flat_map(|x| x.to_le_bytes()).collect(),
            )
        })
        .collect();
    assert_eq!(b.active, expected);
    // The same file again.
    file.save(folder.join("again.vdb")).unwrap();
    assert_eq!(
        fs::read(&path).unwrap(),
        fs::read(folder.join("again.vdb")).unwrap()
    );
}

#[test]
fn empty_volumes_and_other_elements() {
    let folder = Folder::new("vdb-empty");
    let world = World::interpreter().unwrap();
    let nothing = world.field::<DVec3, 3>("nothing", [4, 4, 4]).unwrap();
    let numbers = world.field::<i32, 3>("numbers", [1, 1, 9]).unwrap();
    numbers.fill(7).unwrap();
    let path = folder.join("empty.vdb");
    let file = Vdb::new().field(&nothing).unwrap().field(&numbers).unwrap();
    file.save(&path).unwrap();
    let volumes = read(&fs::read(&path).unwrap());
    assert_eq!(volumes[0].kind, "Tree_vec3d_5_4_3");
    assert!(volumes[0].active.is_empty());
    assert_eq!(volumes[1].active.len(), 9);
}

#[test]
fn what_is_no_volume() {
    let folder = Folder::new("vdb-errors");
    let world = World::interpreter().unwrap();
    let flat = world.field::<f32, 2>("flat", [4, 4]).unwrap();
    let bytes = world.field::<u8, 3>("bytes", [4, 4, 4]).unwrap();
    let x = world.field::<f32, 3>("x", [4, 4, 4]).unwrap();
    folder.check(
        Vdb::new().field(&flat),
        expect!["error[W0533]: field `flat` has 2 axes, and a volume three"],
    );
    folder.check(
        Vdb::new().field(&bytes),
        expect![[r#"
            error[W0533]: OpenVDB has no volumes with elements like those of `bytes`
              = help: use `f32`, `f64`, `i32`, `i64`, or vectors of three `f32`, `f64` or `i32`"#]],
    );
    folder.check(
        Vdb::new().field(&x).unwrap().field(&x),
        expect!["error[W0533]: a file has two volumes `x`"],
    );
    let path = folder.join("x.vdb");
    folder.check(
        Vdb::new().save(&path),
        expect![[r#"
            error[W0533]: an OpenVDB file without volumes cannot be written
              = help: add one: `Vdb::new().field(&density)?`"#]],
    );
    folder.check(
        Vdb::new().voxel_size(0.0).field(&x).unwrap().save(&path),
        expect![[r#"
            error[W0533]: voxels cannot have the size 0
              = help: it is a positive number"#]],
    );
}
