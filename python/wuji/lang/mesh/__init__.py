"""Meshes of triangles and tetrahedra. The names are those of Taichi's `lang.mesh`."""

from .elements import MeshElementFieldProxy, MeshRelationAccessProxy
from .instance import Mesh, MeshAttrType, MeshBuilder, MeshElement, MeshElementField, MeshInstance, _TetMesh, _TriMesh
from .metadata import MeshMetadata
from .relations import MeshElementType, MeshRelationType
from .reordered import MeshReorderedMatrixFieldProxy, MeshReorderedScalarFieldProxy

__all__ = [
    "Mesh",
    "MeshAttrType",
    "MeshBuilder",
    "MeshElement",
    "MeshElementField",
    "MeshElementFieldProxy",
    "MeshElementType",
    "MeshInstance",
    "MeshMetadata",
    "MeshRelationAccessProxy",
    "MeshRelationType",
    "MeshReorderedMatrixFieldProxy",
    "MeshReorderedScalarFieldProxy",
]
