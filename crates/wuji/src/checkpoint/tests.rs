//! The state of the random numbers with another seed; files of the old version.

use super::blocks::{Reader, Writer};
use super::random::RandomState;
use crate::axes::I;
use crate::field::Field;
use crate::world::World;
use std::path::{Path, PathBuf};
use wuji_ir::random::task_key;

#[test]
fn another_seed_has_the_same_numbers() {
    for (seed, launches, other) in [
        (0, 0, 1),
        (7, 3, u64::MAX),
        (1 << 63, 1 << 40, 0),
        (5, 9, 5),
    ] {
        let with_other = RandomState { seed, launches }.launches_with(other);
        for later in 0..4 {
            assert_eq!(
                task_key(seed, launches + later, 2),
                task_key(other, with_other.wrapping_add(later), 2)
            );
        }
    }
}

fn new_world() -> (World, Field<f32, 1>, Field<u8, 1>) {
    let world = World::builder().seed(3).build().unwrap();
    let sparse = world.layout(|root| root.pointer(I, 4).dense(I, 4).place("sparse"));
    let dense = world.field("dense", 5).unwrap();
    (world, sparse.unwrap(), dense)
}

/// Copies bytes of a checkpoint, and gives the first eight as a number.
fn copy(reader: &mut Reader, writer: &mut Writer, length: u64) -> u64 {
    let mut bytes = vec![0; length as usize];
    reader.take(&mut bytes).unwrap();
    writer.put(&bytes).unwrap();
    bytes
        .first_chunk()
        .map_or(0, |number| u64::from_le_bytes(*number))
}

/// A checkpoint of the world in the old format, from one in the current format.
fn write_old(path: &Path, old: &Path) {
    let mut reader = Reader::open(path).unwrap();
    let mut writer = Writer::of_version(old, 2).unwrap();
    let header = copy(&mut reader, &mut writer, 8);
    copy(&mut reader, &mut writer, header);
    assert_eq!(reader.take_number().unwrap(), 3, "the seed");
    copy(&mut reader, &mut writer, 8);
    assert_eq!(reader.take_number().unwrap(), 1, "parts of cells");
    let cells = copy(&mut reader, &mut writer, 8);
    copy(&mut reader, &mut writer, 8 * cells);
    assert_eq!(reader.take_number().unwrap(), 1, "parts of elements");
    let elements = copy(&mut reader, &mut writer, 8);
    copy(&mut reader, &mut writer, 4 * elements);
    copy(&mut reader, &mut writer, 5);
    reader.finish().unwrap();
    writer.finish().unwrap();
}

#[test]
fn old_files_are_read() {
    let name = |kind: &str| format!("wuji-checkpoint-{kind}-{}", std::process::id());
    let path = |kind: &str| -> PathBuf { std::env::temp_dir().join(name(kind)) };
    let (new, old) = (path("new"), path("old"));
    let (world, sparse, dense) = new_world();
    sparse.set(5, 1.5).unwrap();
    dense.fill(7).unwrap();
    world.save(&new).unwrap();
    let launches = world.device().launches();
    write_old(&new, &old);
    let (world, sparse, dense) = new_world();
    sparse.set(15, 3.0).unwrap();
    world.load(&old).unwrap();
    assert_eq!(world.device().launches(), launches);
    assert_eq!(sparse.export().unwrap().0, [[4], [5], [6], [7]]);
    assert_eq!(sparse.get(5).unwrap(), 1.5);
    assert_eq!(dense.to_vec().unwrap(), [7; 5]);
    for file in [new, old] {
        std::fs::remove_file(file).ok();
    }
}
