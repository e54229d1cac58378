"""Mistakes with meshes: messages, word for word."""

from __future__ import annotations

import copy
import json
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import metadata, triangles

import wuji as ti

PROGRAM = """
@ti.kernel
def run(k: ti.i32):
{}
run(1)
"""

# The body of a kernel, and its message without the note of the kernel.
IN_KERNELS = [
    (
        "for v in mesh.verts:\n    for f in v.faces:\n        pass",
        """
error[W0612]: the metadata of this mesh does not have the relation 'VF'
  --> main.py:5:9
  |
5 |         for f in v.faces:
  |         ^^^^^^^^^^^^^^^^^
  = note: its relations: VV, FV
  = help: request it where the metadata is made: `relations=['VF', ...]`
""",
    ),
    (
        "for c in mesh.cells:\n    pass",
        """
error[W0612]: this mesh has no cells to loop over
  --> main.py:4:5
  |
4 |     for c in mesh.cells:
  |     ^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "for v in mesh.verts:\n    n = v.cells.size",
        """
error[W0612]: this mesh has no cells, so the relation 'VC' does not exist
  --> main.py:5:13
  |
5 |         n = v.cells.size
  |             ^^^^^^^^^^^^
""",
    ),
    (
        "for v in mesh.verts:\n    v.y = 1",
        """
error[W0600]: a vertex of this mesh has no attribute `y`
  --> main.py:5:9
  |
5 |         v.y = 1
  |         ^^^
  = note: its attributes: x
  = help: add it before the kernel runs: `mesh.verts.place({'y': ti.f32})`
""",
    ),
    (
        "for i, j in mesh.verts:\n    pass",
        """
error[W0601]: Mesh for should have 1 loop target, found 2: a loop over elements of a mesh yields one element at a time
  --> main.py:4:5
  |
4 |     for i, j in mesh.verts:
  |     ^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "for f in mesh.faces:\n    f.verts[3].x = 0.0",
        """
error[W0604]: a face has 3 verts, numbered from 0, and this is number 3
  --> main.py:5:9
  |
5 |         f.verts[3].x = 0.0
  |         ^^^^^^^^^^
""",
    ),
    (
        "for f in mesh.faces:\n    f.verts[0, 1].x = 0.0",
        """
error[W0604]: `verts` takes one index, the number of a neighbor, not 2
  --> main.py:5:9
  |
5 |         f.verts[0, 1].x = 0.0
  |         ^^^^^^^^^^^^^
""",
    ),
    (
        "for v in mesh.verts:\n    for u in ti.static(v.verts):\n        pass",
        """
error[W0603]: the number of verts of a vertex is not known at compile time
  --> main.py:5:9
  |
5 |         for u in ti.static(v.verts):
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: remove `ti.static`
""",
    ),
    (
        "for v in ti.static(mesh.verts):\n    pass",
        """
error[W0603]: `mesh.verts` can only be iterated over in kernels, at run time
  --> main.py:4:5
  |
4 |     for v in ti.static(mesh.verts):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: in a kernel, remove `ti.static`; outside of kernels, use `range(len(mesh.verts))`
""",
    ),
    (
        "for f in mesh.faces:\n    u = f.verts[0]\n    u = f.verts[1]",
        """
error[W0603]: `u` is a vertex of a mesh; it cannot be assigned to
  --> main.py:6:9
  |
6 |         u = f.verts[1]
  |         ^^^^^^^^^^^^^^
  = help: use another name, or a variable for its `id`: `mesh.verts[id]` is the vertex with this number
""",
    ),
    (
        "for v in mesh.verts:\n    if v == 1:\n        pass",
        """
error[W0603]: a vertex of a mesh can only be compared with another one of the same mesh, not with the number 1
  --> main.py:5:12
  |
5 |         if v == 1:
  |            ^^^^^^
  = help: compare their `id`s
""",
    ),
    (
        "for v in mesh.verts:\n    mesh.verts.x[v] = 1.0",
        """
error[W0603]: indices must be integers, however a vertex of a mesh is provided as index 0
  --> main.py:5:9
  |
5 |         mesh.verts.x[v] = 1.0
  |         ^^^^^^^^^^^^^^^
""",
    ),
    (
        "for i in range(3):\n    p = ti.mesh_patch_idx()",
        """
error[W0601]: `ti.mesh_patch_idx` is the patch of an element: it can only be called in a loop over the elements of a mesh
  --> main.py:5:13
  |
5 |         p = ti.mesh_patch_idx()
  |             ^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "ti.loop_config(serialize=True)\nfor v in mesh.verts:\n    pass\np = ti.mesh_patch_idx()",
        """
error[W0601]: `ti.mesh_patch_idx` is the patch of an element: it can only be called in a loop over the elements of a mesh
  --> main.py:7:9
  |
7 |     p = ti.mesh_patch_idx()
  |         ^^^^^^^^^^^^^^^^^^^
""",
    ),
]


@pytest.fixture
def square() -> Any:
    points, faces = triangles()
    return ti.Mesh.from_arrays(points, faces=faces)


@pytest.mark.parametrize(("body", "expected"), IN_KERNELS, ids=[body for body, _ in IN_KERNELS])
def test_messages_of_kernels(body: str, expected: str, square: Any) -> None:
    mesh = ti.Mesh._create_instance(ti.Mesh.generate_meta(metadata(square.get_position_as_numpy(), square, 2, ["FV", "VV"])))
    mesh.verts.place({"x": ti.math.vec3})
    text = PROGRAM.format("\n".join("    " + line for line in body.split("\n")))
    linecache.cache["main.py"] = (len(text), None, [line + "\n" for line in text.split("\n")], "main.py")
    with pytest.raises(ti.TaichiCompilationError) as caught:
        exec(compile(text, "main.py", "exec", dont_inherit=True), {"ti": ti, "mesh": mesh, "__name__": "main"})
    assert str(caught.value) == expected.strip("\n") + "\n  = note: in kernel `run`"


POINTS, FACES = triangles()
ON_THE_HOST: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: ti.Mesh.from_arrays(POINTS), "error[W0533]: a mesh is made of `edges`, `faces` or `cells`: pass the corners of one of these"),
    (lambda m: ti.Mesh.from_arrays(POINTS[0], faces=FACES), "error[W0533]: `positions` must have 2 or 3 coordinates for each vertex, not the shape (3,) and the type float64"),
    (lambda m: ti.Mesh.from_arrays(POINTS, cells=FACES), "error[W0533]: `cells` must have 4 integers for each cell, the numbers of its vertices, not the shape (32, 3) and the type int64"),
    (lambda m: ti.Mesh.from_arrays(POINTS, faces=[[0, 1, 26]]), "error[W0533]: face 0 has the corners [0, 1, 26], and the mesh has 26 vertices\n  = help: corners are numbers of vertices, the first of which is 0"),
    (lambda m: ti.Mesh.from_arrays(POINTS, faces=[[0, 1, 2], [3, 4, 3]]), "error[W0533]: face 1 has the corners [3, 4, 3], two of which are the same\n  = help: remove degenerate faces"),
    (lambda m: ti.Mesh.from_arrays(POINTS, faces=FACES, patch_size=0), "error[W0533]: `patch_size` must be a positive integer, not 0"),
    (lambda m: ti.Mesh.from_arrays(POINTS, faces=FACES, relations=["FX"]), "error[W0612]: 'FX' is not a relation\n  = help: use two of the letters V, E, F and C, as in `'FV'`: the vertices of each face"),
    (lambda m: m.cells.place({"a": ti.f32}), "error[W0612]: this mesh has no cells, so they have no attributes"),
    (lambda m: m.verts.place({"edges": ti.f32}), "'edges' cannot use as attribute name. It has been reserved as MeshTaichi's keyword."),
    (lambda m: m.verts.place({"x": ti.f32}), "'x' has already use as attribute name."),
    (lambda m: m.verts.place({"keys": ti.f32}), "'keys' cannot be the name of an attribute: it is a member of `mesh.verts`, or not a public name"),
    (lambda m: ti.MeshInstance(), "a mesh is made by `ti.Mesh.from_arrays` or `ti.Mesh.load`, or from metadata by a builder, not from NoneType"),
    (lambda m: ti.Mesh.load_meta("/nowhere/a.json"), "error[W0530]: cannot read /nowhere/a.json\n  = note: No such file or directory"),
    (lambda m: ti.Mesh.load("/nowhere/a.obj"), "error[W0530]: cannot read /nowhere/a.obj\n  = note: No such file or directory"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ON_THE_HOST)))
def test_messages_of_the_host(number: int, square: Any) -> None:
    square.verts.place({"x": ti.f32})
    use, expected = ON_THE_HOST[number]
    with pytest.raises(ti.WujiError) as caught:
        use(square)
    assert str(caught.value) == expected


# A change of the metadata, and what it is found to be.
DAMAGE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda d: d.pop("elements"), "it has no `elements`"),
    (lambda d: d.update(num_patches=-1), "`num_patches` of it is -1"),
    (lambda d: d.update(num_patches=3), "`owned_offsets` of the verts has 3 elements, not 4"),
    (lambda d: d["elements"][0].update(order=7), "`order` of an element type is 7"),
    (lambda d: d["elements"][1].update(num=55), "patches own 56 of 55 edges"),
    (lambda d: d["elements"][0]["owned_offsets"].reverse(), "`owned_offsets` of the verts does not ascend from 0"),
    (lambda d: d["elements"][0]["l2g_mapping"].pop(), "`l2g_mapping` of the verts has 51 elements, not 52"),
    (lambda d: d["elements"][0]["l2g_mapping"].__setitem__(3, 26), "`l2g_mapping` of the verts has the element 26, which is out of range"),
    (lambda d: d["elements"][0]["l2g_mapping"].__setitem__(0, d["elements"][0]["l2g_mapping"][1]), "not every one of the verts belongs to one patch"),
    (lambda d: d["elements"][0]["g2r_mapping"].__setitem__(0, d["elements"][0]["g2r_mapping"][1]), "`g2r_mapping` of the verts is not a permutation"),
    (lambda d: d["elements"][0].update(g2r_mapping=["a"] * 26), "`g2r_mapping` of the verts is not an array of integers"),
    (lambda d: d["relations"][0]["value"].append(1), "`value` of the relation 'FV' has 193 elements, not 192"),
    (lambda d: d["relations"][1]["offset"].__setitem__(1, 99), "`offset` of the relation 'VV' is out of range"),
    (lambda d: d["relations"][1]["offset"].pop(), "`offset` of the relation 'VV' has 27 elements, not 28"),
    (lambda d: d["relations"][0].update(from_order=3), "the relation 'CV' is between elements that the mesh does not have"),
    (lambda d: d["attrs"]["x"].pop(), "`x` does not have 3 coordinates for each vertex"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_damaged_metadata(number: int, square: Any, tmp_path: Path) -> None:
    data = metadata(square.get_position_as_numpy(), square, 2, ["FV", "VV"])
    change, expected = DAMAGE[number]
    damaged = copy.deepcopy(data)
    change(damaged)
    path = tmp_path / "mesh.json"
    path.write_text(json.dumps(damaged))
    with pytest.raises(ti.TaichiRuntimeError) as caught:
        ti.Mesh.load_meta(path)
    assert str(caught.value) == f"error[W0531]: the metadata of a mesh is damaged: {expected}"
    # It is read at all.
    path.write_text(json.dumps(data))
    assert ti.Mesh.load_meta(path).num_patches == 2


def test_every_change_of_metadata_is_read_or_refused(square: Any) -> None:
    data = metadata(square.get_position_as_numpy(), square, 2, ["FV", "VV", "EF"])
    random = np.random.default_rng(5)
    outcomes = set()
    for _ in range(300):
        damaged = copy.deepcopy(data)
        places = [part for group in (damaged["elements"], damaged["relations"]) for part in group]
        part = places[random.integers(len(places))]
        key = list(part)[random.integers(len(part))]
        if isinstance(part[key], list):
            part[key][random.integers(len(part[key]))] = int(random.choice([-1, 0, 3, 70, 1 << 40]))
        else:
            part[key] = random.choice([None, -3, 9, "x"])  # type: ignore[arg-type]
        try:
            mesh = ti.Mesh._create_instance(ti.Mesh.generate_meta(damaged))
            for name in ("FV", "VV", "EF"):
                mesh.get_relation_as_numpy(name)
            outcomes.add("read")
        except ti.WujiError as error:
            outcomes.add(error.code)
    assert outcomes == {"read", "W0531", "W0612"}


def test_neighbors_outside_of_their_patch(square: Any) -> None:
    data = metadata(square.get_position_as_numpy(), square, 2, ["FV", "EE"])
    data["relations"][1]["value"][3] = 65535
    mesh = ti.Mesh._create_instance(ti.Mesh.generate_meta(data))
    assert mesh.get_relation_as_numpy("FV").shape == (32, 3)
    with pytest.raises(ti.TaichiTypeError, match="does not have all of the relation 'EE': 1 neighbors are outside of their patches") as caught:
        mesh.get_relation_as_numpy("EE")
    assert caught.value.code == "W0612"


def test_metadata_without_positions(square: Any) -> None:
    data = metadata(square.get_position_as_numpy(), square, 1, ["FV"])
    del data["attrs"]
    with pytest.raises(ti.TaichiSyntaxError, match="Position info is not in the file"):
        ti.Mesh._create_instance(ti.Mesh.generate_meta(data)).get_position_as_numpy()


OBJ = "# a square and a triangle\nv 0 0 0\nv 1 0 0 1.0\nv 1 1 0\nv 0 1 0\nvn 0 0 1\nv 2 2 2\nf 1/1/1 2//1 3 4\nusemtl a\nf -1 3/2 4\n"
OFF = "OFF # comment\n5 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n2 2 2\n4 0 1 2 3\n3 4 2 3\n"


def test_files_of_triangles(tmp_path: Path) -> None:
    for name, text in (("a.obj", OBJ), ("a.OFF", OFF)):
        (tmp_path / name).write_text(text)
        mesh = ti.Mesh.load(tmp_path / name, relations=["FV", "VV"])
        assert mesh.get_relation_as_numpy("FV").tolist() == [[0, 1, 2], [0, 2, 3], [4, 2, 3]]
        assert mesh.get_position_as_numpy().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 2, 2]]


@pytest.mark.parametrize("first", [0, 1])
def test_files_of_tetrahedra(first: int, tmp_path: Path) -> None:
    points = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    cells = [[0, 1, 2, 3], [1, 2, 3, 4]]
    node = "5 3 0 0\n" + "".join(f"{k + first} {x} {y} {z}\n" for k, (x, y, z) in enumerate(points)) + "# end\n"
    ele = "2 4 0\n" + "".join(f"{k + first} " + " ".join(str(v + first) for v in cell) + "\n" for k, cell in enumerate(cells))
    (tmp_path / "b.node").write_text(node)
    (tmp_path / "b.ele").write_text(ele)
    for name in ("b.node", "b.ele"):
        mesh = ti.Mesh.load(tmp_path / name)
        assert mesh.get_relation_as_numpy("CV").tolist() == cells and mesh.get_position_as_numpy().tolist() == points


DAMAGED_FILES = [
    ("a.obj", "", "it has no vertices"),
    ("a.obj", "v 0 0 0\n", "it has no faces"),
    ("a.obj", "v 0 0\nv 1 1 1\nf 1 2 2\n", None),
    ("a.obj", "v 0 0 0\nf 1 1\n", "face 1 has 2 corners"),
    ("a.obj", "v 0 0 x\nf 1 1 1\n", "could not convert string to float: 'x'"),
    ("a.obj", "v 0 0 0\nf 1 1 9999999999999999999\n", None),
    ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 9999999999999999999\n", None),
    ("a.off", "OFF\n1 1000000000000 0\n0 0 0\n-1 0\n", "face 1 has -1 corners"),
    ("a.off", "PLY\n", "it does not start with the line `OFF`"),
    ("a.off", "OFF\n1 1 0\n0 0 0\n3 0", "it ends in a face"),
    ("a.off", "OFF\n3 1 0\n0 0 0\n", None),
    ("a.node", "3 3\n1 0 0 0\n", "it has 1 of 3 lines"),
    ("a.stl", "", None),
]


@pytest.mark.parametrize(("name", "text", "note"), DAMAGED_FILES)
def test_damaged_files(name: str, text: str, note: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ti.TaichiRuntimeError) as caught:
        ti.Mesh.load(tmp_path / name)
    assert caught.value.code == "W0531"
    assert note is None or note in str(caught.value)


def test_files_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_bytes(b"\xff\xfe\x00v 1 2 3")
    with pytest.raises(ti.TaichiRuntimeError, match="is not a valid OBJ file"):
        ti.Mesh.load(tmp_path / "a.obj")
