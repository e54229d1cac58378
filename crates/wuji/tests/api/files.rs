//! Files of other programs.

use expect_test::{Expect, expect};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use wuji::files::{Grid, Mesh};
use wuji::prelude::*;

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        // Tests of one process may use the same name.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wuji-{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The message of an error, without what differs from machine to machine.
    pub(crate) fn check<T: std::fmt::Debug>(&self, result: wuji::Result<T>, expected: Expect) {
        let error = result.unwrap_err().to_string();
        let error = error.replace(&format!("{}/", self.0.display()), "");
        let lines = error.lines().filter(|line| !line.starts_with("  -->"));
        expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn world() -> World {
    World::interpreter().unwrap()
}

/// Writes a field, compares the header, and reads it back.
fn round_trip<T: Element + PartialEq + std::fmt::Debug, const D: usize>(
    x: &Field<T, D>,
    header: &str,
) {
    let folder = Folder::new(&format!(
        "npy-{}",
        header.len() + T::SIZE * 100 + D * 10_000
    ));
    let path = folder.join("x.npy");
    x.save_npy(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + length) % 64, 0);
    assert_eq!(bytes[9 + length], b'\n');
    let text = String::from_utf8(bytes[10..9 + length].to_vec()).unwrap();
    assert_eq!(text.trim_end(), header);
    let values = x.to_vec().unwrap();
    assert_eq!(bytes.len(), 10 + length + values.len() * T::SIZE);
    let y = x.world().load_npy::<T, D>("y", &path).unwrap();
    assert_eq!(y.to_vec().unwrap(), values);
    y.fill(T::zero()).unwrap();
    y.load_npy(&path).unwrap();
    assert_eq!(y.to_vec().unwrap(), values);
    // Nothing else is left in the folder.
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn numpy_round_trips() {
    let world = world();
    let x = world.field::<f32, 2>("x", [3, 4]).unwrap();
    x.copy_from(&(0..12).map(|k| k as f32 * 0.5).collect::<Vec<_>>())
        .unwrap();
    round_trip(
        &x,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
    );
    let x = world.field::<u8, 1>("x", 5).unwrap();
    x.copy_from(&[1, 2, 3, 4, 255]).unwrap();
    round_trip(
        &x,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }",
    );
    let x = world.field::<bool, 1>("x", 2).unwrap();
    x.copy_from(&[true, false]).unwrap();
    round_trip(
        &x,
        "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }",
    );
    let x = world.field::<DVec3, 1>("x", 2).unwrap();
    x.copy_from(&[dvec3(1.0, 2.0, 3.0), dvec3(4.0, 5.0, 6.0)])
        .unwrap();
    round_trip(
        &x,
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
    );
    let x = world.field::<Mat2, 1>("x", 3).unwrap();
    x.copy_from(&[1.0, 2.0, 3.0].map(|k| mat2(k, k + 0.1, k + 0.2, k + 0.3)))
        .unwrap();
    round_trip(
        &x,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2), }",
    );
    let x = world.scalar::<i64>("x").unwrap();
    x.set([0i32; 0], -7).unwrap();
    round_trip(
        &x,
        "{'descr': '<i8', 'fortran_order': False, 'shape': (), }",
    );
}

#[test]
fn numpy_files_of_sparse_and_large_fields() {
    let world = World::cpu().unwrap();
    let sparse = world.layout(|root| {
        root.pointer(IJ, 2)
            .dense(IJ, 2)
            .offset([-2, 0])
            .place::<i32, 2>("x")
    });
    let sparse = sparse.unwrap();
    sparse.set([1, 3], 9).unwrap();
    round_trip(
        &sparse,
        "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 4), }",
    );
    // Several slabs.
    let large = world.field::<u64, 2>("x", [1500, 1500]).unwrap();
    large
        .copy_from(&(0..2_250_000u64).map(|k| k << 32).collect::<Vec<_>>())
        .unwrap();
    round_trip(
        &large,
        "{'descr': '<u8', 'fortran_order': False, 'shape': (1500, 1500), }",
    );
}

/// A file as NumPy would write it.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn numpy_files_in_other_orders() {
    let (folder, world) = (Folder::new("npy-orders"), world());
    let path = folder.join("x.npy");
    // Columns first: NumPy writes `[[0, 1, 2], [3, 4, 5]]` as 0 3 1 4 2 5.
    let data: Vec<u8> = [0i32, 3, 1, 4, 2, 5]
        .iter()
        .flat_map(|k| k.to_le_bytes())
        .collect();
    fs::write(
        &path,
        npy(
            "{'shape': (2, 3), 'fortran_order': True, 'descr': '<i4'}\n",
            &data,
        ),
    )
    .unwrap();
    let x = world.load_npy::<i32, 2>("x", &path).unwrap();
    assert_eq!(x.to_vec().unwrap(), [0, 1, 2, 3, 4, 5]);
    let x = world.load_npy::<IVec3, 1>("x", &path).unwrap();
    assert_eq!(x.get(1).unwrap(), ivec3(3, 4, 5));
    // The highest byte first.
    let data: Vec<u8> = [1.5f64, -2.0]
        .iter()
        .flat_map(|k| k.to_be_bytes())
        .collect();
    fs::write(
        &path,
        npy(
            "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }\n",
            &data,
        ),
    )
    .unwrap();
    let x = world.load_npy::<f64, 1>("x", &path).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1.5, -2.0]);
}

#[test]
fn errors_of_numpy_files() {
    let (folder, world) = (Folder::new("npy-errors"), world());
    let path = folder.join("x.npy");
    let x = world.field::<f32, 2>("x", [2, 2]).unwrap();
    folder.check(
        x.load_npy(&path),
        expect![[r#"
        error[W0530]: cannot read x.npy
          = note: No such file or directory (os error 2)"#]],
    );
    folder.check(
        x.save_npy(folder.join("none/x.npy")),
        expect![[r#"
        error[W0530]: cannot write to none/x.npy
          = note: No such file or directory (os error 2)"#]],
    );
    folder.check(
        x.save_npy(folder.join("")),
        expect![[r#"
        error[W0530]: cannot write to 
          = note: Not a directory (os error 20)"#]],
    );
    folder.check(
        x.load_npy(folder.join("")),
        expect![[r#"
        error[W0530]: cannot read 
          = note: is a directory"#]],
    );
    let load = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        x.load_npy(&path)
    };
    folder.check(
        load(b"PK\x03\x04........"),
        expect![[r#"
        error[W0531]: x.npy is not a valid NPY file
          = note: it does not start with `\x93NUMPY`"#]],
    );
    folder.check(
        load(b"\x93NUM"),
        expect![[r#"
        error[W0531]: x.npy is not a valid NPY file
          = note: it is truncated: 8 more bytes are needed, and it has 4"#]],
    );
    folder.check(
        load(b"\x93NUMPY\x09\x00...."),
        expect![[r#"
        error[W0531]: x.npy is not a valid NPY file
          = note: it has version 9 of the format; 1 to 3 are known"#]],
    );
    folder.check(
        load(b"\x93NUMPY\x01\x00\xff\xff{"),
        expect![[r#"
        error[W0531]: x.npy is not a valid NPY file
          = note: it is truncated: 65535 more bytes are needed, and it has 1"#]],
    );
    folder.check(
        load(&npy("{'descr': [('a', '<f4')], 'shape': (2, 2)}", &[])),
        expect![[r#"
            error[W0531]: x.npy is not a valid NPY file
              = note: its header is not understood: {'descr': [('a', '<f4')], 'shape': (2, 2)}"#]],
    );
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    folder.check(load(&npy(header, &[0; 15])), expect![[r#"
        error[W0531]: x.npy is not a valid NPY file
          = note: it is truncated: its header names (2, 2) elements, and it has 15 bytes of them"#]]);
    folder.check(
        load(&npy(&header.replace("f4", "i4"), &[0; 16])),
        expect![[r#"
            error[W0532]: x.npy has elements of NumPy's type `i4`
              = note: field `x` has those of `f4`, f32
              = help: convert it in NumPy: `array.astype('f4')`"#]],
    );
    folder.check(
        load(&npy(&header.replace("(2, 2)", "(4,)"), &[0; 16])),
        expect![[r#"
            error[W0532]: x.npy has the shape (4,)
              = note: field `x` has (2, 2)
              = help: `world.load_npy(name, path)` makes a field of the right shape"#]],
    );
    folder.check(
        world.load_npy::<Vec3, 1>("v", &path),
        expect![[r#"
        error[W0532]: x.npy has the shape (4,)
          = note: field `v` needs 1 axes and one of 3 components"#]],
    );
    let huge = header.replace("(2, 2)", "(18446744073709551615, 18446744073709551615)");
    fs::write(&path, npy(&huge, &[])).unwrap();
    assert!(world.load_npy::<f32, 2>("v", &path).is_err());
    let pairs = world.field::<(f32, i32), 1>("pairs", 4).unwrap();
    folder.check(
        pairs.save_npy(&path),
        expect![[r#"
        error[W0532]: an NPY file cannot hold structs, tuples or enums
          = help: use a field of scalars or vectors for each member"#]],
    );
}

/// A failed write leaves the old file.
#[test]
fn files_are_replaced_when_they_are_complete() {
    let (folder, world) = (Folder::new("replace"), world());
    let path = folder.join("x.npy");
    let x = world.field::<f32, 1>("x", 2).unwrap();
    x.save_npy(&path).unwrap();
    let old = fs::read(&path).unwrap();
    world.close();
    assert!(x.save_npy(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), old);
    assert_eq!(fs::read_dir(folder.join("")).unwrap().count(), 1);
}

fn tetrahedron() -> Mesh {
    let corners = [
        vec3(0.0, 0.0, 0.0),
        vec3(1.0, 0.0, 0.0),
        vec3(0.0, 1.0, 0.0),
        vec3(0.0, 0.0, 0.25),
    ];
    Mesh::points(&corners)
        .with_normals(&corners.map(|c| (c - 0.3).normalized()))
        .with_colors(&[
            vec3(1.0, 0.0, 0.0),
            vec3(0.0, 1.0, 0.0),
            vec3(0.0, 0.0, 1.0),
            vec3(1.0, 1.0, 1.0),
        ])
        .with_attribute("heat", &[0.1, -2.5e-8, f32::INFINITY, 4.0])
        .with_triangles(&[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
}

#[test]
fn ply_round_trips() {
    let folder = Folder::new("ply");
    let path = folder.join("mesh.ply");
    let mesh = tetrahedron();
    mesh.save_ply(&path).unwrap();
    assert_eq!(Mesh::load_ply(&path).unwrap(), mesh);
    let header = "ply\nformat binary_little_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\nproperty float nx\nproperty float ny\nproperty float nz\nproperty uchar red\nproperty uchar green\nproperty uchar blue\nproperty float heat\nelement face 4\nproperty list uchar uint vertex_indices\nend_header\n";
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.starts_with(header.as_bytes()));
    assert_eq!(bytes.len(), header.len() + 4 * (7 * 4 + 3) + 4 * 13);
    mesh.save_ply_text(&path).unwrap();
    assert_eq!(Mesh::load_ply(&path).unwrap(), mesh);
    let points = Mesh::points(&[vec3(0.5, 1.0, -2.0), vec3(1e-30, 2.0, 3.0)]);
    points.save_ply_text(&path).unwrap();
    expect![[r#"
        ply
        format ascii 1.0
        element vertex 2
        property float x
        property float y
        property float z
        end_header
        0.5 1 -2
        0.000000000000000000000000000001 2 3
    "#]]
    .assert_eq(&fs::read_to_string(&path).unwrap());
    assert_eq!(Mesh::load_ply(&path).unwrap(), points);
}

#[test]
fn ply_files_of_others() {
    let folder = Folder::new("ply-others");
    let path = folder.join("mesh.ply");
    let text = "ply\r\nformat ascii 1.0\r\ncomment made by hand\r\nelement vertex 4\r\nproperty double x\r\nproperty double y\r\nproperty double z\r\nelement face 1\r\nproperty uchar flags\r\nproperty list uchar int vertex_index\r\nelement edge 1\r\nproperty int a\r\nend_header\r\n0 0 0\r\n1 0 0\r\n1 1 0\r\n0 1 0\r\n7 4 0 1 2 3\r\n5";
    fs::write(&path, text).unwrap();
    let mesh = Mesh::load_ply(&path).unwrap();
    assert_eq!(mesh.triangles(), [[0, 1, 2], [0, 2, 3]]);
    assert_eq!(mesh.positions()[2], vec3(1.0, 1.0, 0.0));
    assert_eq!(mesh.attribute_names().count(), 0);
    let mut bytes = b"ply\nformat binary_big_endian 1.0\nelement vertex 1\nproperty float x\nproperty short y\nproperty float z\nend_header\n".to_vec();
    bytes.extend(1.5f32.to_be_bytes());
    bytes.extend((-3i16).to_be_bytes());
    bytes.extend(8.0f32.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    assert_eq!(
        Mesh::load_ply(&path).unwrap().positions(),
        [vec3(1.5, -3.0, 8.0)]
    );
}

#[test]
fn errors_of_meshes() {
    let folder = Folder::new("ply-errors");
    let path = folder.join("mesh.ply");
    let mesh = tetrahedron();
    folder.check(
        mesh.clone()
            .with_normals(&[vec3(0.0, 0.0, 1.0)])
            .save_ply(&path),
        expect![[r#"
            error[W0533]: a mesh of 4 points has 1 values of `normals`
              = help: give one value for each point"#]],
    );
    folder.check(
        mesh.clone()
            .with_attribute("heat", &[0.0; 4])
            .save_vtp(&path),
        expect![[r#"
            error[W0533]: a mesh cannot have a further attribute `heat`
              = help: use another name, without spaces"#]],
    );
    folder.check(
        mesh.clone()
            .with_attribute("two words", &[0.0; 4])
            .save_ply(&path),
        expect![[r#"
            error[W0533]: a mesh cannot have a further attribute `two words`
              = help: use another name, without spaces"#]],
    );
    folder.check(
        mesh.clone().with_triangles(&[[0, 1, 4]]).save_ply(&path),
        expect![[r#"
            error[W0533]: a mesh of 4 points has a triangle with the corners [0, 1, 4]
              = help: corners are numbers of points, the first of which is 0"#]],
    );
    assert!(!path.exists());
    let load = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Mesh::load_ply(&path)
    };
    folder.check(
        load(b"solid stl\n"),
        expect![[r#"
        error[W0531]: mesh.ply is not a valid PLY file
          = note: it does not start with the line `ply`"#]],
    );
    folder.check(
        load(b"ply\nformat ascii 1.0\nelement vertex many\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: a line of its header is not understood: element vertex many"#]],
    );
    folder.check(
        load(b"ply\nelement vertex 1\nproperty float x\nend_header\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: its header has no line `format`"#]],
    );
    folder.check(
        load(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: its vertices have no `x`, `y` and `z`"#]],
    );
    folder.check(
        load(b"ply\nformat ascii 1.0\nelement vertex 2\nend_header\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: its element `vertex` has no properties"#]],
    );
    folder.check(
        load(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: a line of `vertex` lacks numbers: 1 2"#]],
    );
    folder.check(
        load(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n1 2 3\n3 0 0 1\n"),
        expect![[r#"
            error[W0531]: mesh.ply is not a valid PLY file
              = note: it has 1 points, and a face with the corners [0, 0, 1]"#]],
    );
    mesh.save_ply(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    folder.check(
        load(&whole[..whole.len() - 1]),
        expect![[r#"
        error[W0531]: mesh.ply is not a valid PLY file
          = note: it is truncated: 4 more bytes are needed, and it has 3"#]],
    );
    // Whatever is cut off or changed, there is an error or a mesh, and no panic.
    for at in (0..whole.len()).step_by(3) {
        let _ = load(&whole[..at]);
        let mut other = whole.clone();
        other[at] ^= 0x55;
        let _ = load(&other);
    }
}

/// The arrays of a VTK file, read as the format says: by their offsets after the underscore.
fn vtk_arrays(bytes: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let start = bytes.windows(2).position(|w| w == b"\n_").unwrap() + 2;
    let text = String::from_utf8(bytes[..start].to_vec()).unwrap();
    let value = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("{key}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let mut end = start;
    let mut arrays = Vec::new();
    for line in text.lines().filter(|l| l.starts_with("<DataArray")) {
        let at = start + value(line, "offset").parse::<usize>().unwrap();
        assert_eq!(at, end, "{line}");
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        end = at + 8 + length;
        let kind = format!(
            "{} x {}",
            value(line, "type"),
            value(line, "NumberOfComponents")
        );
        arrays.push((value(line, "Name"), kind, bytes[at + 8..end].to_vec()));
    }
    assert_eq!(&bytes[end..], b"\n</AppendedData>\n</VTKFile>\n");
    arrays
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

#[test]
fn grids() {
    let (folder, world) = (Folder::new("vti"), world());
    let path = folder.join("grid.vti");
    let density = world.field::<f32, 3>("density", [2, 3, 4]).unwrap();
    density
        .copy_from(&(0..24).map(|k| k as f32).collect::<Vec<_>>())
        .unwrap();
    let velocity = world.field::<Vec3, 3>("velocity", [2, 3, 4]).unwrap();
    velocity.set([1, 0, 0], vec3(1.0, 2.0, 3.0)).unwrap();
    let half = world.field::<f16, 3>("half", [2, 3, 4]).unwrap();
    half.fill(f16::from_f32(0.5)).unwrap();
    let grid = Grid::new().spacing(0.5).origin(vec3(1.0, 2.0, 3.0));
    let grid = grid.field(&density).unwrap().field(&velocity).unwrap();
    grid.field(&half).unwrap().save_vti(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let head: Vec<&str> = text.lines().take(10).collect();
    expect![[r#"
        <?xml version="1.0"?>
        <VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
        <ImageData WholeExtent="0 1 0 2 0 3" Origin="1 2 3" Spacing="0.5 0.5 0.5">
        <Piece Extent="0 1 0 2 0 3">
        <PointData>
        <DataArray type="Float32" Name="density" NumberOfComponents="1" format="appended" offset="0"/>
        <DataArray type="Float32" Name="velocity" NumberOfComponents="3" format="appended" offset="104"/>
        <DataArray type="Float32" Name="half" NumberOfComponents="1" format="appended" offset="400"/>
        </PointData>
        </Piece>"#]].assert_eq(&head.join("\n"));
    let arrays = vtk_arrays(&bytes);
    // x is fastest.
    assert_eq!(
        floats(&arrays[0].2)[..8],
        [0.0, 12.0, 4.0, 16.0, 8.0, 20.0, 1.0, 13.0]
    );
    assert_eq!(floats(&arrays[1].2)[..6], [0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    assert_eq!(floats(&arrays[2].2), [0.5; 24]);
    let flat = world.field::<u8, 2>("flat", [3, 2]).unwrap();
    Grid::new().field(&flat).unwrap().save_vti(&path).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("0 2 0 1 0 0"));
}

#[test]
fn errors_of_grids() {
    let (folder, world) = (Folder::new("vti-errors"), world());
    let path = folder.join("grid.vti");
    let density = world.field::<f32, 3>("density", [2, 3, 4]).unwrap();
    let flat = world.field::<u8, 2>("flat", [3, 2]).unwrap();
    let deep = world.field::<u8, 4>("deep", [3, 2, 1, 1]).unwrap();
    let pairs = world.field::<(u8, f32), 2>("pairs", [3, 2]).unwrap();
    folder.check(
        Grid::new().save_vti(&path),
        expect![[r#"
        error[W0533]: a grid without fields cannot be written
          = help: add one: `grid.field(&density)?`"#]],
    );
    let grid = || Grid::new().field(&density).unwrap();
    folder.check(grid().field(&flat), expect!["error[W0533]: field `flat` has the shape [3, 2, 1], and the others of the grid [2, 3, 4]"]);
    folder.check(
        grid().field(&density),
        expect!["error[W0533]: a grid has two fields `density`"],
    );
    folder.check(
        Grid::new().field(&deep),
        expect!["error[W0533]: field `deep` has 4 axes, and a grid one to three"],
    );
    folder.check(
        Grid::new().field(&pairs),
        expect![[r#"
        error[W0532]: a VTK file cannot hold structs, tuples or enums
          = help: use a field of scalars or vectors for each member"#]],
    );
}

#[test]
fn polygons() {
    let folder = Folder::new("vtp");
    let path = folder.join("mesh.vtp");
    tetrahedron().save_vtp(&path).unwrap();
    let arrays = vtk_arrays(&fs::read(&path).unwrap());
    let names: Vec<String> = arrays
        .iter()
        .map(|(name, kind, b)| format!("{name}: {kind}, {}", b.len()))
        .collect();
    expect![[r#"
        Normals: Float32 x 3, 48
        Colors: Float32 x 3, 48
        heat: Float32 x 1, 16
        Points: Float32 x 3, 48
        connectivity: Int64 x 1, 96
        offsets: Int64 x 1, 32"#]]
    .assert_eq(&names.join("\n"));
    let ints = |bytes: &[u8]| -> Vec<i64> {
        bytes
            .chunks(8)
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    assert_eq!(ints(&arrays[4].2), [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]);
    assert_eq!(ints(&arrays[5].2), [3, 6, 9, 12]);
    Mesh::points(&[vec3(1.0, 2.0, 3.0); 2])
        .save_vtp(&path)
        .unwrap();
    let arrays = vtk_arrays(&fs::read(&path).unwrap());
    assert_eq!(floats(&arrays[0].2), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(
        (ints(&arrays[1].2), ints(&arrays[2].2)),
        (vec![0, 1], vec![1, 2])
    );
}
