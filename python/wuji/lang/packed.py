"""Bit-packed layouts: fields of quantized types in one word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import WujiArgumentError, WujiError, WujiRuntimeError, WujiSyntaxError
from . import runtime
from .extents import shape_of
from .naming import label
from .quantized import wrong_type

if TYPE_CHECKING:
    from .field import Field
    from .snode import Leaf, SNode


class Pack:
    """A word, with the leaves that are packed in it in order."""

    __slots__ = ("bits", "groups", "leaves")

    def __init__(self, bits: Any) -> None:
        self.bits = check_word(bits)
        self.leaves: list[Leaf] = []
        self.groups = 0

    def add(self, leaves: list[Leaf], shared_exponent: bool) -> None:
        """Add leaves at the end, which share an exponent if that is asked for. Raise at once if they do not fit."""
        for leaf in leaves:
            if leaf.pack is not None or leaf.node is not None:
                raise WujiRuntimeError(f"This variable has been placed: field {label(leaf.name)}", "W0151")
            if not leaf.quantized:
                raise WujiRuntimeError(
                    f"field {label(leaf.name)} of type {leaf.type} is not quantized: only quantized fields can be packed\n"
                    "  = help: give it a type of `ti.types.quant`, or place it in the node itself",
                    "W0151",
                )
        if shared_exponent and sum(map(_scalars, leaves)) < 2:
            raise WujiSyntaxError("At least 2 fields need to be placed when shared_exponent=True", "W0151")
        for leaf in leaves:
            leaf.pack = self
            leaf.group = self.groups if shared_exponent else None
        groups = self.groups
        self.leaves += leaves
        self.groups += shared_exponent
        try:
            layout = _scratch()
            placing = Placing(layout)
            cell = layout.node(0, "dense", [0], [1])
            for leaf in self.leaves:
                placing.place(cell, leaf, None)
        except _native.NativeError as e:
            for leaf in leaves:
                leaf.pack = leaf.group = None
            del self.leaves[len(self.leaves) - len(leaves) :]
            self.groups = groups
            raise _does_not_fit(e, [*self.leaves, *leaves]) from None


class Placing:
    """Places leaves in the cells of one node of a native layout."""

    def __init__(self, layout: _native.Layout) -> None:
        self.layout = layout
        self.words: dict[int, int] = {}
        self.groups: dict[tuple[int, int], int] = {}

    def place(self, node: int, leaf: Leaf, offset: tuple[int, ...] | None) -> int:
        name = label(leaf.name)
        if leaf.pack is None:
            return self.layout.place(node, name, leaf.type, offset)
        key = id(leaf.pack)
        if key not in self.words:
            self.words[key] = self.layout.bit_struct(leaf.pack.bits)
        word = self.words[key]
        group = None
        if leaf.group is not None:
            if (key, leaf.group) not in self.groups:
                self.groups[key, leaf.group] = self.layout.shared_exponent(word)
            group = self.groups[key, leaf.group]
        return self.layout.place_packed(node, word, group, name, leaf.type, [q.native for q in leaf.quantized], offset)

    def place_in_array(self, node: int, bits: int, leaf: Leaf, offset: tuple[int, ...] | None) -> int:
        return self.layout.place_in_bit_array(node, bits, label(leaf.name), leaf.type, [q.native for q in leaf.quantized], offset)


def _scratch() -> _native.Layout:
    """Return a layout that is never allocated: it only checks whether fields fit."""
    return _native.Layout(runtime.current().native)


def check_word(bits: Any) -> int:
    """Return the bits of a word; raise if there is no such word."""
    if bits not in (8, 16, 32, 64):
        raise WujiRuntimeError(f"a word has 8, 16, 32 or 64 bits, not {bits!r}", "W0151")
    return int(bits)


def check_placed(leaf: Leaf, node: SNode) -> None:
    """Raise if a leaf does not belong into the cells of a node."""
    if node.kind != "bit_array":
        if leaf.quantized and leaf.pack is None:
            raise WujiRuntimeError(
                f"field {label(leaf.name)} of type {leaf.quantized[0]} cannot be placed in {node!r}: its numbers are parts of a word\n"
                "  = help: pack it with other fields, `pack = ti.BitpackedFields(max_num_bits=32)`, `pack.place(x)`, `node.place(pack)`, "
                "or place it in an array, `node.quant_array(ti.i, 8, max_num_bits=32).place(x)`",
                "W0151",
            )
        return
    if leaf.pack is not None:
        raise WujiRuntimeError(f"{node!r} holds one field, not bit-packed fields\n  = help: place them in the node above it", "W0151")
    if not leaf.quantized:
        raise WujiRuntimeError(
            f"field {label(leaf.name)} of type {leaf.type} cannot be placed in {node!r}: a quant array holds a field of a quantized type\n"
            "  = help: use a dense node",
            "W0151",
        )
    try:
        layout = _scratch()
        array = layout.node(0, "bit_array", node.axes, node.dims)
        placing = Placing(layout)
        for other in [*node.leaves, leaf]:
            placing.place_in_array(array, node.chunk, other, None)
    except _native.NativeError as e:
        raise _does_not_fit(e, [*node.leaves, leaf]) from None


def _does_not_fit(error: _native.NativeError, leaves: list[Leaf]) -> WujiError:
    """Convert an error of the core, with what to do in Python."""
    raised = wrong_type(error, [(q.native, q.text) for leaf in leaves for q in leaf.quantized])
    rust = "use a wider bit struct, or `bit_structs`, which takes as many words as it needs"
    words = str(raised).replace(rust, "use a wider word, or pack it in another `ti.BitpackedFields`")
    words = words.replace(rust.removeprefix("use a wider bit struct, or "), "pack it in another `ti.BitpackedFields`").replace("or use pack it", "or pack it")
    return type(raised)(words, error.code)


def check_shape(field: Field) -> None:
    """Raise if a field that gets a dense tree of its own is quantized."""
    for leaf in field._leaves():
        if leaf.quantized:
            raise WujiRuntimeError(
                f"field {label(leaf.name)} of type {leaf.quantized[0]} cannot have a shape: its layout says in which word its numbers are\n"
                "  = help: create it without a shape, and place it by way of `ti.BitpackedFields` or `quant_array`",
                "W0151",
            )


class BitpackedFields:
    """Fields of quantized types that share one word of 8, 16, 32 or 64 bits in every cell.

    ```python
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(category, density)
    pack.place(velocity, shared_exponent=True)
    ti.root.dense(ti.ij, 64).place(pack)
    ```
    """

    def __init__(self, max_num_bits: int) -> None:
        self._pack = Pack(max_num_bits)
        self._is_placed = False

    def place(self, *args: Any, shared_exponent: bool = False) -> None:
        """Pack fields, after those that are packed already. With ``shared_exponent``, these floats share one exponent."""
        if self._is_placed:
            raise WujiRuntimeError("these bit-packed fields are placed already\n  = help: pack all fields before the node places them", "W0151")
        self._pack.add(leaves_of(args), shared_exponent)

    def _place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        if self._is_placed:
            raise WujiRuntimeError("This variable has been placed: bit-packed fields can be placed once\n  = help: create another `ti.BitpackedFields`", "W0151")
        for leaf in self._pack.leaves:
            leaf.place(node, offset)
        self._is_placed = True

    def __repr__(self) -> str:
        return f"ti.BitpackedFields(max_num_bits={self._pack.bits})"


class BitStruct:
    """A word in every cell of a node: the older spelling of `BitpackedFields`, as in ``node.bit_struct(num_bits=32).place(x, y)``."""

    def __init__(self, node: SNode, num_bits: int) -> None:
        self._node = node
        self._pack = Pack(num_bits)

    def place(self, *args: Any, offset: Any = None, shared_exponent: bool = False) -> BitStruct:
        """Pack fields, after those that are packed already. With ``shared_exponent``, these floats share one exponent."""
        self._node._owner._open()
        leaves = leaves_of(args)
        self._pack.add(leaves, shared_exponent)
        for leaf in leaves:
            leaf.place(self._node, None if offset is None else shape_of(offset))
        return self

    def parent(self, n: int = 1) -> SNode | None:
        """Return the node of the words, or an ancestor of it."""
        return self._node if n == 1 else self._node.parent(n - 1)

    def __repr__(self) -> str:
        return f"{self._node!r}.bit_struct(num_bits={self._pack.bits})"


def leaves_of(fields: Any) -> list[Leaf]:
    from .field import Field

    found: list[Leaf] = []
    for field in fields:
        if isinstance(field, (list, tuple)):
            found += leaves_of(field)
        elif isinstance(field, Field):
            found += field._leaves()
        else:
            raise WujiArgumentError(f"{field!r} cannot be packed: it is not a field", "W0151")
    return found


def _scalars(leaf: Leaf) -> int:
    count = 1
    for extent in leaf.type.split("x")[1:]:
        count *= int(extent)
    return count
