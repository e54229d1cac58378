"""Types, layouts and fields as JSON, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _native
from ..exceptions import NotYet
from ..lang.compound import MatrixType, StructType, type_by_ir
from ..lang.dtypes import DataType
from ..lang.field import Field, MatrixField, StructField, field
from ..lang.naming import label
from ..lang.extents import Axis
from ..lang.fields_builder import FieldsBuilder
from ..lang.snode import SNode


# Types: the spelling of the IR for scalars, vectors and matrices, a dictionary for structs, a list for tuples.
def describe_type(ty: Any) -> Any:
    if isinstance(ty, tuple):
        return [describe_type(part) for part in ty]
    if isinstance(ty, StructType):
        return {name: describe_type(member) for name, member in ty.members.items()}
    assert isinstance(ty, (DataType, MatrixType))
    return ty.ir


def read_type(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(read_type(part) for part in data)
    if isinstance(data, dict):
        return StructType(**{name: read_type(member) for name, member in data.items()})
    return type_by_ir(data)


def scalars(ty: Any, get: Callable[[Any], Any]) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Return the scalars, vectors and matrices of a type, each with a function that takes it from a value of the type."""
    if not isinstance(ty, StructType):
        return [(ty, get)]
    return [part for name, member in ty.members.items() for part in scalars(member, lambda value, name=name: get(value)[name])]  # type: ignore[misc]


# Layouts.
def describe_tree(root: SNode, data: Callable[[Any], str | None]) -> dict[str, Any]:
    """Describe the tree below a root. ``data`` returns where the elements of a constant field are saved."""
    return _describe_node(root._structure, data)


def _describe_node(structure: Any, data: Callable[[Any], str | None]) -> dict[str, Any]:
    leaves = []
    for leaf in structure.leaves:
        if leaf.quantized or leaf.pack is not None:
            raise NotYet(f"field {label(leaf.name)} is quantized; modules with such fields cannot be saved yet", "W0607")
        found = {"name": leaf.name, "type": leaf.type, "offset": leaf.offset, "number": leaf.number, "data": data(leaf)}
        leaves.append({key: value for key, value in found.items() if value is not None})
    described = {
        "kind": structure.kind, "axes": structure.axes, "dims": structure.dims, "chunk": structure.chunk, "morton": structure.is_morton,
        "fields": leaves, "children": [_describe_node(child, data) for child in structure.children],
    }  # fmt: skip
    return {key: value for key, value in described.items() if value or key == "kind"}


class LoadedTree:
    """A tree like one that was saved, with its fields by number."""

    def __init__(self, description: dict[str, Any], load: Callable[[str], Any]) -> None:
        self._builder = FieldsBuilder()
        self._placed: list[tuple[Any, dict[str, Any]]] = []
        self._add(self._builder.root, description)
        self._builder.finalize()
        self.fields: dict[int, Any] = {}
        for made, leaf in self._placed:
            if made._first.number != int(leaf["number"]):
                raise ValueError(f"field {leaf['number']} of a tree is not at its place")
            self.fields[made._first.number] = made
            if "data" in leaf:
                made.from_numpy(load(leaf["data"]))
                made._first.constant = True
        first = next(iter(self.fields.values()), None)
        if first is None:
            raise ValueError("a tree has no fields")
        self.native = first._first.ready().tree

    def _add(self, node: SNode, description: dict[str, Any]) -> None:
        for leaf in description.get("fields", []):
            made = field(type_by_ir(leaf["type"]), name=str(leaf["name"]))
            node.place(made, offset=leaf.get("offset"))
            self._placed.append((made, leaf))
        for child in description.get("children", []):
            if child["kind"] not in _native.NODE_KINDS - {"bit_array"}:
                raise ValueError(f"there are no nodes of the kind {child['kind']!r}")
            below = node._add(child["kind"], Axis(*child["axes"]), tuple(child.get("dims", ())), int(child.get("chunk", 0)))
            if child.get("morton"):
                below.morton()
            self._add(below, child)


# Fields: a leaf of a tree; or components or members, each a field.
def describe_field(made: Any, tree_of: Callable[[Any], int]) -> dict[str, Any]:
    if isinstance(made, StructField):
        return {"type": describe_type(made.struct_type), "members": {name: describe_field(member, tree_of) for name, member in made._members.items()}}
    if isinstance(made, MatrixField) and made._parts is not None:
        return {"type": made.type.ir, "parts": [describe_field(part, tree_of) for part in made._parts]}
    return {"leaf": [tree_of(made), made._first.number]}


def read_field(data: dict[str, Any], trees: list[LoadedTree], name: str) -> Any:
    if "leaf" in data:
        tree, number = data["leaf"]
        return trees[tree].fields[number]
    if "members" in data:
        struct = StructField.__new__(StructField)
        Field.__init__(struct, name)
        struct.struct_type = read_type(data["type"])
        struct._members = {member: read_field(data["members"][member], trees, f"{name}.{member}") for member in struct.struct_type.members}
        return struct
    matrix = MatrixField(type_by_ir(data["type"]), name)
    matrix._leaf, matrix._parts = None, [read_field(part, trees, f"{name}.{k}") for k, part in enumerate(data["parts"])]
    if len(matrix._parts) != matrix.type.count:
        raise ValueError(f"field {name!r} has {len(matrix._parts)} of {matrix.type.count} components")
    return matrix
