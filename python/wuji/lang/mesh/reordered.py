"""Attributes that are stored in another order than that of the elements. Indices of the host and of kernels are numbers of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..context import Compilation, python_only
from ..field import Field, MatrixField, ScalarField, StructField

if TYPE_CHECKING:
    from .tables import Tables


class StorageOrder:
    """The order in which the attributes of one kind of elements are stored."""

    def __init__(self, tables: Tables, order: int) -> None:
        self.tables = tables
        self.order = order

    @property
    def to_stored(self) -> Any:
        return self.tables.topology.numbering(self.order).to_stored

    @property
    def to_element(self) -> Any:
        return self.tables.topology.numbering(self.order).to_element

    def stored(self, cx: Compilation, indices: list[Any]) -> list[Any]:
        """Return the stored position of an element in a kernel."""
        return [self.tables.convert(cx, self.order, indices[0], to_stored=True)]


class _Reordered(Field):
    """Base class of fields in another order. `_plain` has the same elements as they are stored."""

    _plain: Any
    _order: StorageOrder

    def _stored_key(self, key: Any) -> Any:
        at = self._key(key)
        table = self._order.to_stored
        if len(at) == 1 and hasattr(at[0], "__index__") and 0 <= at[0].__index__() < table.size:
            return (int(table[at[0].__index__()]),)
        return at  # an error of the field

    def _make_companion(self, kind: str) -> Any:
        plain = self._plain._companion(kind)
        return None if plain is None else reordered(plain, self._order)

    def __getitem__(self, key: Any) -> Any:
        return self._plain[self._stored_key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._plain[self._stored_key(key)] = value

    def fill(self, val: Any) -> None:
        self._plain.fill(val)

    def _core(self) -> Any:
        return None  # copies go through NumPy, which reorders

    @python_only
    def to_numpy(self, *args: Any, **named: Any) -> Any:
        """Copy to a NumPy array, in the order of the elements."""
        return self._plain.to_numpy(*args, **named)[self._order.to_stored]

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Copy all elements from a NumPy array, in the order of the elements."""
        fits = tuple(getattr(arr, "shape", ()))[:1] == self.shape
        self._plain.from_numpy(arr[self._order.to_element] if fits else arr)

    def _copy(self, other: Any) -> None:
        if isinstance(other, _Reordered) and other._order is self._order:
            self._plain._copy(other._plain)
        else:
            self.from_numpy(other.to_numpy())

    def get_scalar_field(self, *indices: int) -> Any:
        return reordered(self._plain.get_scalar_field(*indices), self._order)


class MeshReorderedScalarFieldProxy(_Reordered, ScalarField):
    """A scalar attribute of a mesh, stored in another order."""


class MeshReorderedMatrixFieldProxy(_Reordered, MatrixField):
    """A vector or matrix attribute of a mesh, stored in another order."""


class ReorderedStructField(StructField):
    """A struct attribute of a mesh. Its members are stored in another order."""


def reordered(plain: Any, order: StorageOrder) -> Any:
    """Return a view of a field in which indices are numbers of elements."""
    kind = MeshReorderedScalarFieldProxy if isinstance(plain, ScalarField) else MeshReorderedMatrixFieldProxy if isinstance(plain, MatrixField) else ReorderedStructField
    made: Any = kind.__new__(kind)  # type: ignore[type-abstract, unused-ignore]
    made.__dict__.update(plain.__dict__)
    made._companions = {}
    made._order = order
    if isinstance(plain, StructField):
        made._members = {name: reordered(member, order) for name, member in plain._members.items()}
    else:
        made._plain = plain
    return made
