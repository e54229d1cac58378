"""Meshes: relations, attributes, loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import KINDS, LETTERS, metadata, neighbors, simplices, tetrahedra, triangles

import wuji as ti

RELATIONS = {2: [a + b for a in LETTERS[:3] for b in LETTERS[:3]], 3: [a + b for a in LETTERS for b in LETTERS]}


def from_arrays(order: int) -> Any:
    points, corners = tetrahedra() if order == 3 else triangles()
    return ti.Mesh.from_arrays(points, **{KINDS[order]: corners}, patch_size=8)


def from_metadata(order: int) -> Any:
    mesh = from_arrays(order)
    meta = ti.Mesh.generate_meta(metadata(mesh.get_position_as_numpy(), mesh, 3, RELATIONS[order]))
    return ti.Mesh._create_instance(meta)


@ti.kernel
def visit(mesh: ti.template(), start: ti.template(), end: ti.template(), count: ti.template(), found: ti.template()):
    for a in getattr(mesh, ti.static(KINDS[start])):
        count[a.id] = getattr(a, ti.static(KINDS[end])).size
        for b in getattr(a, ti.static(KINDS[end])):
            found[a.id, b.id] += 1


@ti.kernel
def visit_by_number(mesh: ti.template(), start: ti.template(), end: ti.template(), found: ti.template()):
    for a in getattr(mesh, ti.static(KINDS[start])):
        near = getattr(a, ti.static(KINDS[end]))
        for j in range(near.size):
            found[a.id, near[j].id] += 1


@pytest.mark.parametrize("make", [from_arrays, from_metadata])
@pytest.mark.parametrize("reordered", ["", "verts faces", "verts edges faces cells"])
@pytest.mark.parametrize("order", [2, 3])
def test_all_relations(order: int, reordered: str, make: Callable[[int], Any]) -> None:
    mesh = make(order)
    corners = (tetrahedra() if order == 3 else triangles())[1]
    for kind in reordered.split():
        if len(getattr(mesh, kind)):
            getattr(mesh, kind).place({"unused": ti.f32}, reorder=True)
    expected = [[frozenset([v]) for v in range(len(mesh.verts))], *simplices(corners)]
    # The elements of the mesh by their vertices: numbers of edges and faces are not prescribed.
    elements = [expected[0]] + [[frozenset(row) for row in mesh.get_relation_as_numpy((k, 0)).tolist()] for k in range(1, order + 1)]
    assert all(sorted(mine, key=sorted) == theirs for mine, theirs in zip(elements[1:], expected[1:], strict=True))
    for name in RELATIONS[order]:
        start, end = (LETTERS.index(letter) for letter in name)
        wanted = np.zeros((len(elements[start]), len(elements[end])), int)
        for row, near in enumerate(neighbors(elements, start, end)):
            wanted[row, sorted(near)] = 1
        count, found, again = ti.field(ti.i32, wanted.shape[0]), ti.field(ti.i32, wanted.shape), ti.field(ti.i32, wanted.shape)
        visit(mesh, start, end, count, found)
        visit_by_number(mesh, start, end, again)
        assert (found.to_numpy() == wanted).all() and (again.to_numpy() == wanted).all(), name
        assert (count.to_numpy() == wanted.sum(axis=1)).all(), name


def test_corners_keep_their_order() -> None:
    _, cells = tetrahedra()
    mesh = from_arrays(3)
    assert (mesh.get_relation_as_numpy("CV") == cells).all()
    # Face k is opposite to corner k, and faces are cycles of edges.
    faces, edges = mesh.get_relation_as_numpy("FV"), mesh.get_relation_as_numpy("EV")
    for cell, own in zip(cells, mesh.get_relation_as_numpy("CF"), strict=True):
        for k in range(4):
            assert set(faces[own[k]]) == set(cell) - {cell[k]}
    for face, own in zip(faces, mesh.get_relation_as_numpy("FE"), strict=True):
        assert [set(edges[e]) for e in own] == [{face[0], face[1]}, {face[1], face[2]}, {face[2], face[0]}]
    x = mesh.get_position_as_numpy()
    a, b, c, d = (x[cells[:, k]] for k in range(4))
    turned = np.where(np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a)[:, None] < 0, cells[:, [1, 0, 2, 3]], cells)
    outside = ti.Mesh.from_arrays(x, cells=turned)
    offsets, _ = outside.get_relation_as_numpy("FC")
    (boundary,) = np.nonzero(np.diff(offsets) == 1)
    p, q, r = (x[outside.get_relation_as_numpy("FV")[boundary][:, k]] for k in range(3))
    # The volume inside of the boundary, which is positive if all faces are counterclockwise from outside.
    assert np.einsum("ij,ij->i", np.cross(p, q), r).sum() / 6 == pytest.approx(8)


def test_lines() -> None:
    mesh = ti.Mesh.from_arrays(np.random.rand(5, 2), edges=[[0, 1], [1, 2], [2, 3]])
    assert repr(mesh) == "<ti.MeshInstance: 5 verts, 3 edges>"
    offsets, near = mesh.get_relation_as_numpy("VV")
    assert offsets.tolist() == [0, 1, 3, 5, 6, 6] and near.tolist() == [1, 0, 2, 1, 3, 2]


@pytest.mark.parametrize("make", [from_arrays, from_metadata])
@pytest.mark.parametrize("layout", [ti.Layout.SOA, ti.Layout.AOS])
@pytest.mark.parametrize("reorder", [False, True])
def test_attributes(reorder: bool, layout: Any, make: Callable[[int], Any]) -> None:
    mesh = make(3)
    points = mesh.get_position_as_numpy()
    mesh.verts.place({"x": ti.math.vec3, "mass": ti.f32, "body": ti.types.struct(a=ti.i32, b=ti.types.matrix(2, 2, ti.f64))}, reorder, layout=layout)
    mesh.verts.place({"other": ti.i32})
    assert mesh.verts.keys == ["x", "mass", "body", "other"] and len(mesh.verts) == 27
    x, mass = mesh.verts.x, mesh.verts.mass
    assert isinstance(x, ti.MatrixField) and isinstance(mass, ti.ScalarField) and mesh.verts.get_member_field("x") is x
    x.from_numpy(points.astype(np.float32))
    assert (x.to_numpy() == points).all() and (x[5] == ti.Vector(points[5].tolist())).all()
    x[5] = [7, 8, 9]
    x[6][1] = -1
    points[5], points[6, 1] = [7, 8, 9], -1
    mass.fill(2)
    mass[3] = 4

    @ti.kernel
    def run():
        for v in mesh.verts:
            v.mass += v.id
            v.other = v.id * 10
            v.body.a = v.id
            v.body.b = ti.Matrix([[1, 2], [3, 4]])
            v.x.x += 1
        for i in mesh.verts.mass:
            mesh.verts.mass[i] += 100 * i
            mesh.verts.x[i].z += i
        # An element by its number.
        mesh.verts[4].other = mesh.verts[5].id

    run()
    numbers = np.arange(27)
    points[:, 0] += 1
    points[:, 2] += numbers
    assert np.allclose(x.to_numpy(), points)
    assert (mass.to_numpy() == 2 + 2 * (numbers == 3) + 101 * numbers).all()
    assert (mesh.verts.other.to_numpy() == np.where(numbers == 4, 5, 10 * numbers)).all()
    assert (mesh.verts.body.to_numpy()["a"] == numbers).all() and mesh.verts.body.a[7] == 7 and mesh.verts.body[7].b[1, 0] == 3
    copy = ti.field(ti.f32, 27)
    copy.copy_from(mass)
    assert (copy.to_numpy() == mass.to_numpy()).all()
    copy.fill(1)
    mass.copy_from(copy)
    assert (mass.to_numpy() == 1).all()
    y = x.get_scalar_field(1)
    y[9] = 33
    assert y[9] == 33 and x[9][1] == 33 and (y.to_numpy() == x.to_numpy()[:, 1]).all()
    with pytest.raises(ti.TaichiRuntimeError, match="27"):
        mass.from_numpy(np.zeros(5, np.float32))
    with pytest.raises(IndexError):
        mass[27]


def test_reordered_attributes_are_stored_by_patch() -> None:
    mesh = from_metadata(2)
    mesh.verts.place({"n": ti.i32}, reorder=True)
    mesh.verts.n.from_numpy(np.arange(26, dtype=np.int32))
    numbering = mesh._topology.numbering(0)
    assert (mesh.verts.attr_dict["n"].plain.to_numpy() == numbering.to_element).all()
    assert not (numbering.to_element == np.arange(26)).all()


def test_linked_fields() -> None:
    mesh = from_arrays(2)
    x = ti.Vector.field(2, ti.f32, shape=26)
    mesh.verts.link({"x": x})

    @ti.kernel
    def run():
        for v in mesh.verts:
            v.x = [v.id, 1]

    run()
    assert x[7][0] == 7 and mesh.verts.x is x
    with pytest.raises(ti.TaichiTypeError, match=r"shape \(26,\)"):
        mesh.verts.link({"y": ti.field(ti.f32, shape=25)})


def test_functions_classes_and_arguments() -> None:
    @ti.func
    def degree(v, mesh: ti.template()):
        n = 0
        for e in v.edges:
            for u in e.verts:
                if u.id != v.id:
                    n += 1
        return n * len(mesh.verts)

    @ti.data_oriented
    class Solver:
        def __init__(self, mesh: Any) -> None:
            self.mesh = mesh
            mesh.verts.place({"n": ti.i32})

        @ti.func
        def area(self, f):
            a, b, c = f.verts[0], f.verts[1], f.verts[2]
            return (b.x - a.x).cross(c.x - a.x).norm() / 2

        @ti.kernel
        def run(self) -> ti.f32:
            total = 0.0
            for v in self.mesh.verts:
                v.n = degree(v, self.mesh)
            for f in self.mesh.faces:
                total += self.area(f)
            return total

    for mesh in (from_arrays(2), from_metadata(2)):
        mesh.verts.place({"x": ti.math.vec3}, reorder=True)
        mesh.verts.x.from_numpy(mesh.get_position_as_numpy().astype(np.float32))
        solver = Solver(mesh)
        assert solver.run() == pytest.approx(16)
        offsets, _ = mesh.get_relation_as_numpy("VV")
        assert (mesh.verts.n.to_numpy() == np.diff(offsets) * 26).all()

    @ti.kernel
    def count(elements: ti.template()) -> ti.i32:
        n = 0
        for _ in elements:
            n += 1
        return n

    assert [count(k) for k in (mesh.verts, mesh.edges, mesh.faces)] == [26, 56, 32]


def test_unrolled_and_compared() -> None:
    mesh = from_arrays(3)
    mesh.cells.place({"n": ti.i32, "own": ti.i32})

    @ti.kernel
    def run():
        for c in mesh.cells:
            for v in ti.static(c.verts):
                c.n += v.id
            for d in c.cells:
                for e in d.cells:
                    if e == c:
                        c.own += 1
                    if e != c:
                        c.own += 100
        ti.loop_config(serialize=True)
        for c in mesh.cells:
            c.n += ti.mesh_patch_idx()

    run()
    cells = mesh.get_relation_as_numpy("CV")
    patches = mesh._topology.numbering(3)
    assert (mesh.cells.n.to_numpy() == cells.sum(axis=1) + patches.patches()[patches.to_stored]).all()
    offsets, near = mesh.get_relation_as_numpy("CC")
    degree = np.diff(offsets)
    second = np.array([degree[near[offsets[i] : offsets[i + 1]]].sum() for i in range(len(degree))])
    assert (mesh.cells.own.to_numpy() == degree + 100 * (second - degree)).all()


def test_patches() -> None:
    for make in (from_arrays, from_metadata):
        mesh = make(3)
        mesh.verts.place({"patch": ti.i32}, reorder=make is from_arrays)
        mesh.faces.place({"patch": ti.i32})

        @ti.kernel
        def run(mesh: ti.template()):
            ti.mesh_local(mesh.verts.patch)
            for v in mesh.verts:
                v.patch = ti.mesh_patch_idx()
            for f in mesh.faces:
                for v in f.verts:
                    f.patch = ti.mesh_patch_idx()

        run(mesh)
        for kind, order in ((mesh.verts, 0), (mesh.faces, 2)):
            numbering = mesh._topology.numbering(order)
            patch = kind.patch.to_numpy()[numbering.to_element]
            assert (np.sort(patch) == patch).all() and set(patch) == set(range(mesh.num_patches)) and mesh.num_patches > 1


@pytest.mark.parametrize("reorder", [False, True])
def test_gradient(reorder: bool) -> None:
    mesh = from_metadata(3)
    mesh.verts.place({"x": ti.types.vector(3, ti.f64)}, reorder, needs_grad=True)
    mesh.cells.place({"volume": ti.f64}, needs_grad=True)
    energy = ti.field(ti.f64, (), needs_grad=True)
    points = mesh.get_position_as_numpy() + np.random.default_rng(3).random((27, 3)) / 4

    @ti.kernel
    def volumes():
        for c in mesh.cells:
            a = c.verts[0].x
            c.volume = (c.verts[1].x - a).cross(c.verts[2].x - a).dot(c.verts[3].x - a) / 6

    @ti.kernel
    def total():
        for c in mesh.cells:
            energy[None] += c.volume ** 2
        for v in mesh.verts:
            for u in v.verts:
                energy[None] += (u.x - v.x).norm_sqr() * 0.1

    def value(x: Any) -> float:
        cells, (offsets, near) = mesh.get_relation_as_numpy("CV"), mesh.get_relation_as_numpy("VV")
        a, b, c, d = (x[cells[:, k]] for k in range(4))
        volume = np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6
        rows = np.repeat(np.arange(27), np.diff(offsets))
        return float((volume**2).sum() + 0.1 * ((x[near] - x[rows]) ** 2).sum())

    mesh.verts.x.from_numpy(points)
    with ti.ad.Tape(energy):
        volumes()
        total()
    assert energy[None] == pytest.approx(value(points))
    numeric = np.zeros_like(points)
    for i in range(27):
        for k in range(3):
            step = np.zeros_like(points)
            step[i, k] = 1e-5
            numeric[i, k] = (value(points + step) - value(points - step)) / 2e-5
    assert np.allclose(mesh.verts.x.grad.to_numpy(), numeric, atol=1e-6)
    assert mesh.verts.x.grad[4][1] == pytest.approx(numeric[4, 1], abs=1e-6)


def test_tables_made_on_a_tape_are_no_writes() -> None:
    mesh = from_arrays(2)
    mesh.verts.place({"x": ti.f32}, needs_grad=True)
    loss = ti.field(ti.f32, (), needs_grad=True)
    mesh.verts.x.fill(3)

    @ti.kernel
    def run():
        for v in mesh.verts:
            for u in v.verts:
                loss[None] += u.x * v.x

    with ti.ad.Tape(loss, validation=True):
        run()
    offsets, _ = mesh.get_relation_as_numpy("VV")
    assert np.allclose(mesh.verts.x.grad.to_numpy(), 6 * np.diff(offsets))


def test_neighbors_that_do_not_exist() -> None:
    mesh = from_arrays(2)
    mesh.verts.place({"x": ti.i32}, reorder=True)
    mesh.verts.x.fill(5)
    seen = ti.field(ti.i32, 4)

    @ti.kernel
    def read(k: ti.i32):
        for v in mesh.verts:
            if v.id == 0:
                seen[0] = v.verts[k].x
                seen[1] = v.verts[k].verts[0].x
        for f in mesh.faces:
            seen[2] = f.verts[k].x
            seen[3] = f.verts[k].id

    read(100)
    assert seen.to_numpy().tolist() == [0, 0, 0, -1]
    read(0)
    assert seen.to_numpy()[:3].tolist() == [5, 5, 5]

    @ti.kernel
    def write(k: ti.i32) -> ti.i32:
        for v in mesh.verts:
            v.verts[k].x = 7
        return 1  # lazy worlds report now

    with pytest.warns(RuntimeWarning, match=r"`verts.x` outside of its bounds"):
        assert write(100) == 1
    assert (mesh.verts.x.to_numpy() == 5).all()


def test_debug_mode() -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, debug=True)
    mesh = from_metadata(3)
    mesh.verts.place({"x": ti.math.vec3, "n": ti.i32}, reorder=True)

    @ti.kernel
    def run(k: ti.i32):
        for v in mesh.verts:
            v.n = 0
            for c in v.cells:
                for u in c.verts:
                    v.n += 1
        for c in mesh.cells:
            c.verts[k].x = [1, 2, 3]

    run(3)
    offsets, _ = mesh.get_relation_as_numpy("VC")
    assert (mesh.verts.n.to_numpy() == 4 * np.diff(offsets)).all()
    with pytest.raises(ti.TaichiAssertionError, match="neighbor is out of range .*'CV'") as caught:
        run(4)
    assert "c.verts[k]" in str(caught.value)


def test_lazy_worlds() -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, async_mode=True)
    mesh = from_arrays(2)
    mesh.verts.place({"x": ti.f32, "y": ti.f32}, reorder=True)

    @ti.kernel
    def start():
        for v in mesh.verts:
            v.x = v.id

    @ti.kernel
    def average():
        for v in mesh.verts:
            v.y = v.x
            for u in v.verts:
                v.y += u.x
        for v in mesh.verts:
            v.x = v.y / (v.verts.size + 1)

    start()
    average()
    average()
    offsets, near = mesh.get_relation_as_numpy("VV")
    x = np.arange(26, dtype=np.float64)
    for _ in range(2):
        x = np.array([(x[i] + x[near[offsets[i] : offsets[i + 1]]].sum()) / (1 + offsets[i + 1] - offsets[i]) for i in range(26)])
    assert np.allclose(mesh.verts.x.to_numpy(), x)


def test_builders(tmp_path: Path) -> None:
    source = from_arrays(3)
    path = tmp_path / "cube.json"
    path.write_text(json.dumps(metadata(source.get_position_as_numpy(), source, 4, ["CV", "VC"])))
    meta = ti.Mesh.load_meta(str(path))
    assert meta.num_patches == 4 and meta.num_elements[ti.lang.mesh.MeshElementType.Cell] == 48
    for make in (ti.lang.mesh._TetMesh, ti.lang.mesh._TriMesh):
        builder = make()
        builder.verts.place({"x": ti.math.vec3, "m": ti.f32}, reorder=True)
        builder.cells.AOS = True
        builder.cells.place({"w": ti.f32, "v": ti.f32}, needs_grad=True)
        mesh = builder.build(meta)
        assert (mesh.get_position_as_numpy() == source.get_position_as_numpy()).all()

        @ti.kernel
        def run(mesh: ti.template()):
            for c in mesh.cells:
                for v in c.verts:
                    v.m += 1

        run(mesh)
        assert (mesh.verts.m.to_numpy() == np.diff(source.get_relation_as_numpy("VC")[0])).all()
        assert mesh.cells.w.grad.to_numpy().shape == (48,)


OPTIONS = "make_mesh_block_local optimize_mesh_reordered_mapping mesh_localize_all_attr_mappings demote_no_access_mesh_fors experimental_auto_mesh_local".split()


@pytest.mark.parametrize("option", OPTIONS)
def test_options(option: str) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, **{option: False})
    mesh = from_arrays(2)
    mesh.verts.place({"n": ti.i32})

    @ti.kernel
    def run():
        for v in mesh.verts:
            v.n = v.faces.size

    run()
    assert mesh.verts.n.to_numpy().sum() == 96


def test_sorted_attributes() -> None:
    mesh = from_metadata(2)
    mesh.verts.place({"key": ti.i32, "value": ti.i32}, reorder=True)
    keys = np.random.default_rng(1).permutation(26).astype(np.int32)
    mesh.verts.key.from_numpy(keys)
    mesh.verts.value.from_numpy(np.arange(26, dtype=np.int32))
    ti.algorithms.parallel_sort(mesh.verts.key, mesh.verts.value)
    assert (mesh.verts.key.to_numpy() == np.arange(26)).all() and (mesh.verts.value.to_numpy() == np.argsort(keys)).all()
