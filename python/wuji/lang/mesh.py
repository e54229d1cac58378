"""Meshes. Placeholders: not implemented yet."""

from __future__ import annotations

from .missing import function, refuse

_FEATURE = "meshes"


class Mesh:
    """A mesh: vertices, edges, faces and cells, and their relations."""

    def __init__(self) -> None:
        refuse("ti.Mesh", _FEATURE)

    load_meta = staticmethod(function("ti.Mesh.load_meta", _FEATURE))
    generate_meta = staticmethod(function("ti.Mesh.generate_meta", _FEATURE))
    _create_instance = staticmethod(function("ti.Mesh", _FEATURE))


class MeshInstance:
    """A mesh with attributes."""

    def __init__(self, *_: object) -> None:
        refuse("ti.MeshInstance", _FEATURE)


_TriMesh = function("ti._TriMesh", _FEATURE)
_TetMesh = function("ti._TetMesh", _FEATURE)

__all__ = ["Mesh", "MeshInstance"]
