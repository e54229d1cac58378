"""Meshes: their elements and attributes, and how they are made."""

from __future__ import annotations

from typing import Any

from ...exceptions import WujiRuntimeError, WujiSyntaxError, WujiTypeError
from ..context import Compilation
from ..enums import Layout
from ..field import Field, field
from ..ndrange import RangeVal
from ..extents import Axis
from ..fields_builder import FieldsBuilder
from . import files, metadata, topology
from .elements import at_number, loop_over
from .metadata import MeshMetadata
from .relations import KINDS, MeshElementType, MeshRelationType, orders_of
from .reordered import StorageOrder, reordered
from .tables import Tables
from .topology import Topology

_ELEMENT_NAMES = {*KINDS, "id"}


class MeshAttrType:
    """The type of an attribute, and how it is stored."""

    def __init__(self, name: str, dtype: Any, reorder: bool, needs_grad: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.reorder = reorder
        self.needs_grad = needs_grad
        self.plain: Any = None  # the field, indexed by stored positions
        self.field: Any = None  # the same, indexed by numbers of elements


class MeshElementField:
    """The elements of one kind of a mesh, such as ``mesh.verts``, with their attributes as members."""

    def __init__(self, mesh: MeshInstance, order: int) -> None:
        self.mesh = mesh
        self.attr_dict: dict[str, MeshAttrType] = {}
        self._order = order
        self._type = MeshElementType(order)
        self._storage = StorageOrder(mesh._tables, order)

    def place(self, members: dict[str, Any], reorder: bool = False, needs_grad: bool = False, layout: Layout = Layout.SOA) -> None:
        """Add attributes: a field for each, with one element for each element of the mesh.

        Args:
            members: The types of the attributes, by name.
            reorder: Store the elements of a patch next to each other. Indices are numbers of elements in any case.
            needs_grad: Also allocate gradients.
            layout: `ti.Layout.AOS` interleaves the attributes.

        ```python
        mesh.verts.place({"x": ti.math.vec3, "mass": ti.f32}, reorder=True)
        ```
        """
        count = self._count()
        self._check_names(members)
        if layout not in (Layout.AOS, Layout.SOA):
            raise WujiTypeError(f"`layout` must be ti.Layout.AOS or ti.Layout.SOA, not {layout!r}")
        shape = count if layout is Layout.SOA else None
        fields = {name: field(dtype, shape, name=f"{KINDS[self._order]}.{name}", needs_grad=needs_grad) for name, dtype in members.items()}
        if shape is None:
            builder = FieldsBuilder()
            builder.root.dense(Axis(0), count).place(*fields.values())
            if needs_grad:
                builder.root.dense(Axis(0), count).place(*(made.grad for made in fields.values()))
        for name, made in fields.items():
            self._add(MeshAttrType(name, members[name], reorder, needs_grad), made)

    def link(self, members: dict[str, Field]) -> None:
        """Add attributes that are existing fields with one axis, indexed by the numbers of elements."""
        self._check_names(members)
        for name, given in members.items():
            if not isinstance(given, Field) or given.shape != (self._count(),) or any(given.offset):
                raise WujiTypeError(f"attribute `{name}` must be a field of shape ({self._count()},) without an offset, not {given!r}")
            if given._order is not None:
                raise WujiTypeError(f"attribute `{name}` is an attribute of a mesh that is stored in another order\n  = help: place it without `reorder`")
            self._add(MeshAttrType(name, getattr(given, "dtype", None), False, given.needs_grad), given)

    def _count(self) -> int:
        if not len(self):
            raise WujiRuntimeError(f"this mesh has no {KINDS[self._order]}, so they have no attributes", "W0612")
        return len(self)

    def _check_names(self, members: dict[str, Any]) -> None:
        for name in members:
            if name in _ELEMENT_NAMES:
                raise WujiSyntaxError(f"'{name}' cannot use as attribute name. It has been reserved as MeshTaichi's keyword.")
            if not name.isidentifier() or name.startswith("_") or hasattr(type(self), name) or name in ("mesh", "attr_dict"):
                raise WujiSyntaxError(f"'{name}' cannot be the name of an attribute: it is a member of `mesh.{KINDS[self._order]}`, or not a public name")
            if name in self.attr_dict:
                raise WujiSyntaxError(f"'{name}' has already use as attribute name.")

    def _add(self, attribute: MeshAttrType, plain: Any) -> None:
        attribute.plain = plain
        attribute.field = reordered(plain, self._storage) if attribute.reorder else plain
        self.attr_dict[attribute.name] = attribute

    def __getattr__(self, name: str) -> Any:
        attribute = self.__dict__.get("attr_dict", {}).get(name)
        if attribute is None:
            raise AttributeError(f"`mesh.{KINDS[self.__dict__.get('_order', 0)]}` has no attribute `{name}`; attributes are added with `place`")
        return attribute.field

    @property
    def keys(self) -> list[str]:
        return list(self.attr_dict)

    @property
    def field_dict(self) -> dict[str, Any]:
        return {name: attribute.field for name, attribute in self.attr_dict.items()}

    def get_member_field(self, key: str) -> Any:
        """Return the field of an attribute."""
        return self.attr_dict[key].field

    @property
    def _is_stored(self) -> bool:
        """Whether kernels number the elements by stored positions: the index of a loop is then the index of reordered attributes."""
        return any(attribute.reorder for attribute in self.attr_dict.values())

    def __len__(self) -> int:
        return self.mesh._topology.count(self._order)

    def _wuji_domain(self, cx: Compilation) -> RangeVal:
        return loop_over(self)

    def _wuji_subscript(self, cx: Compilation, indices: list[Any]) -> Any:
        return at_number(cx, self, indices)

    def __iter__(self) -> Any:
        raise TypeError(
            f"`mesh.{KINDS[self._order]}` can only be iterated over in kernels, at run time\n"
            f"  = help: in a kernel, remove `ti.static`; outside of kernels, use `range(len(mesh.{KINDS[self._order]}))`"
        )

    def __repr__(self) -> str:
        return f"<{len(self)} {KINDS[self._order]} of a mesh>"


class MeshInstance:
    """A mesh: vertices, edges, faces and cells, the relations between them, and their attributes."""

    def __init__(self, topology: Topology | None = None) -> None:
        if not isinstance(topology, Topology):
            raise WujiTypeError(f"a mesh is made by `ti.Mesh.from_arrays` or `ti.Mesh.load`, or from metadata by a builder, not from {type(topology).__name__}")
        self._topology = topology
        self._tables = Tables(topology)
        self._kinds = [MeshElementField(self, order) for order in range(4)]
        self.verts, self.edges, self.faces, self.cells = self._kinds
        self.patcher = getattr(topology, "patcher", None)

    @property
    def num_patches(self) -> int:
        return self._topology.num_patches

    @property
    def fields(self) -> dict[MeshElementType, MeshElementField]:
        return {kind._type: kind for kind in self._kinds if len(kind)}

    @property
    def relation_set(self) -> set[Any]:
        """The relations that are known or computed."""
        return {MeshRelationType(4 * start + end) for start, end in self._topology._relations}

    def get_position_as_numpy(self) -> Any:
        """Return the positions of the vertices, in the order of their numbers."""
        if self._topology.positions is None:
            raise WujiSyntaxError("Position info is not in the file.")
        return self._topology.positions

    def get_relation_as_numpy(self, relation: Any) -> Any:
        """Return a relation, such as ``"FV"``.

        If all elements have the same number of neighbors, the result is an array with a row of their numbers for each element.
        Otherwise it is a pair ``(offsets, numbers)``: the neighbors of element ``i`` are ``numbers[offsets[i]:offsets[i + 1]]``.
        """
        found = self._topology.relation(*orders_of(relation))
        return found.values.copy() if found.offsets is None else (found.offsets.copy(), found.values.copy())

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(kind)} {KINDS[kind._order]}" for kind in self._kinds if len(kind))
        return f"<ti.MeshInstance: {counts}>"


class MeshElement:
    """The elements of one kind of a mesh that is to be built."""

    def __init__(self, order: int) -> None:
        self._order = order
        self._placed: list[tuple[dict[str, Any], bool, bool]] = []
        self.layout = Layout.SOA

    def _set_soa(self, soa: bool = True) -> None:
        self.layout = Layout.SOA if soa else Layout.AOS

    def _set_aos(self, aos: bool = True) -> None:
        self.layout = Layout.AOS if aos else Layout.SOA

    SOA = property(fset=_set_soa)
    AOS = property(fset=_set_aos)

    def place(self, members: dict[str, Any], reorder: bool = False, needs_grad: bool = False) -> None:
        """Declare attributes. `build` allocates them."""
        for name in members:
            if name in KINDS:
                raise WujiSyntaxError(f"'{name}' cannot use as attribute name. It has been reserved as MeshTaichi's keyword.")
        self._placed.append((dict(members), reorder, needs_grad))


class MeshBuilder:
    """Builds meshes with the same attributes from metadata."""

    def __init__(self) -> None:
        self.verts, self.edges, self.faces, self.cells = (MeshElement(order) for order in range(4))

    def build(self, metadata: MeshMetadata) -> MeshInstance:
        """Return a mesh with this metadata."""
        mesh = MeshInstance(metadata)
        for declared, kind in zip((self.verts, self.edges, self.faces, self.cells), mesh._kinds, strict=True):
            for members, reorder, needs_grad in declared._placed:
                kind.place(members, reorder, needs_grad, declared.layout)
        return mesh


class Mesh:
    """Makes meshes of triangles or tetrahedra."""

    @staticmethod
    def from_arrays(positions: Any, *, faces: Any = None, cells: Any = None, edges: Any = None, relations: Any = (), patch_size: int = 256) -> MeshInstance:
        """Return a mesh with these vertices.

        Args:
            positions: Two or three coordinates for each vertex.
            faces: Three numbers of vertices for each triangle.
            cells: Four numbers of vertices for each tetrahedron. Its edges and faces are computed.
            edges: Two numbers of vertices for each edge, for a mesh without faces.
            relations: Relations to compute now, such as ``["FV", "VV"]``. All others are computed when a kernel first uses them.
            patch_size: The number of faces, cells or edges of a patch. Reordered attributes of a patch are next to each other.

        ```python
        mesh = ti.Mesh.from_arrays([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], cells=[[0, 1, 2, 3]])
        ```
        """
        made = topology.from_arrays(positions, {1: edges, 2: faces, 3: cells}, patch_size)
        for name in relations:
            made.relation(*orders_of(name))
        return MeshInstance(made)

    @staticmethod
    def load(path: Any, relations: Any = (), patch_size: int = 256) -> MeshInstance:
        """Return the mesh in an .obj or .off file (triangles; polygons are cut into triangles), or in a pair of .node and .ele files (tetrahedra)."""
        positions, parts = files.load(path)
        return Mesh.from_arrays(positions, faces=parts.get(2), cells=parts.get(3), relations=relations, patch_size=patch_size)

    @staticmethod
    def load_meta(filename: Any) -> MeshMetadata:
        """Read metadata from a JSON file of the patcher of MeshTaichi."""
        return metadata.load(filename)

    @staticmethod
    def generate_meta(data: Any) -> MeshMetadata:
        """Return metadata from the dictionary that the patcher of MeshTaichi makes."""
        return MeshMetadata(data)

    @staticmethod
    def _create_instance(metadata: MeshMetadata) -> MeshInstance:
        return MeshInstance(metadata)


def _TriMesh() -> MeshBuilder:
    """Return a builder for meshes of triangles."""
    return MeshBuilder()


def _TetMesh() -> MeshBuilder:
    """Return a builder for meshes of tetrahedra."""
    return MeshBuilder()
