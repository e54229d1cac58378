"""What expressions of a kernel are while it is compiled.

An expression is a number or other object of Python's, known now; or an `Expr`, known when the kernel runs; or a
`StructVal` of those. `Ref` is an `Expr` that can be written to as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import WujiTypeError
from . import context
from .compound import MatrixType, StructType
from .dtypes import DataType
from .operators import Operators

if TYPE_CHECKING:
    from collections.abc import Iterator


class Expr(Operators):
    """A value that the kernel computes. Operators on it are instructions of the kernel."""

    __slots__ = ("_id", "ty")

    def __init__(self, id: int, ty: Any) -> None:
        self._id = id
        self.ty: DataType | MatrixType = ty

    @property
    def id(self) -> int:
        """Its number in the builder."""
        return self._id

    def load(self) -> Expr:
        """The value as it is now, which later writes do not change."""
        return self

    # What is asked of vectors and matrices.
    @property
    def shape(self) -> tuple[int, ...]:
        return self.ty.shape if isinstance(self.ty, MatrixType) else ()

    @property
    def n(self) -> int:
        return tensor(self).n

    @property
    def m(self) -> int:
        return tensor(self).m

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DataType:
        return self.ty.dtype if isinstance(self.ty, MatrixType) else self.ty

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def __len__(self) -> int:
        return tensor(self).n

    def __iter__(self) -> Iterator[Any]:
        ty = tensor(self)
        return (self[k] for k in range(ty.n))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a kernel: {self.ty}>"

    def __bool__(self) -> bool:
        raise WujiTypeError(
            "this is known only when the kernel runs, but Python needs to know it now\n"
            "  = help: inside `ti.static`, or in a function that is no `ti.func`, use constants and `ti.template()` arguments"
        )

    __hash__ = None  # type: ignore[assignment]


def tensor(value: Any) -> MatrixType:
    """The type of a vector or matrix."""
    ty = value.ty
    if isinstance(ty, MatrixType):
        return ty
    raise WujiTypeError(f"this is a number of type {ty}, not a vector or matrix")


class Ref(Expr):
    """An element of a field, array or local variable: read where it is used, and it can be written to."""

    __slots__ = ()

    def __init__(self, ty: Any) -> None:
        self.ty = ty

    @property
    def id(self) -> int:
        return self.load().id

    def load(self) -> Expr:
        raise NotImplementedError

    def store(self, value: Any) -> None:
        raise NotImplementedError

    def atomic(self, op: str, value: Any) -> Expr:
        """The value before."""
        raise NotImplementedError

    def part(self, step: int | Expr) -> Ref:
        """A component of a vector or matrix, by its number row by row."""
        raise NotImplementedError


class PlaceRef(Ref):
    """Something that one access of the IR reaches."""

    __slots__ = ("activate", "indices", "loop", "path", "place")

    def __init__(
        self,
        place: tuple[str, int],
        ty: Any,
        indices: tuple[int, ...] = (),
        path: tuple[Any, ...] = (),
        activate: bool = True,
        loop: object = None,
    ) -> None:
        self.ty = ty
        self.place = place
        self.indices = indices
        self.path = path
        self.activate = activate
        self.loop = loop  # of a local: the parallel loop it was made in

    @property
    def private(self) -> bool:
        """Whether no other iteration can reach it: a local that was made in the parallel loop that is being compiled."""
        return self.place[0] in "lt" and self.loop is context.current().loop

    def load(self) -> Expr:
        return Expr(context.builder().load(self.place, self.indices, self.path), self.ty)

    def store(self, value: Any) -> None:
        from .emit import fit

        stored = fit(value, self.ty)
        b = context.builder()
        if self.place[0] in "lt" and self.loop is not context.current().loop:
            # Iterations share it; the last one to come wins.
            b.atomic("exchange", self.place, stored.id, self.indices, self.path)
        else:
            b.store(self.place, stored.id, self.indices, self.path, self.activate)

    def atomic(self, op: str, value: Any) -> Expr:
        from .emit import fit

        operand = fit(value, self.ty)
        old = context.builder().atomic(op, self.place, operand.id, self.indices, self.path, self.activate)
        return Expr(old, self.ty)

    def part(self, step: int | Expr) -> Ref:
        path: Any = (*self.path, step if isinstance(step, int) else (step.id,))
        return PlaceRef(self.place, tensor(self).dtype, self.indices, path, self.activate, self.loop)


class Var(PlaceRef):
    """A local variable."""

    __slots__ = ("name",)

    def __init__(self, place: tuple[str, int], ty: Any, name: str, loop: object) -> None:
        super().__init__(place, ty, loop=loop)
        self.name = name


class SplitRef(Ref):
    """A vector or matrix whose components lie in places of their own."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Ref], ty: MatrixType) -> None:
        self.ty = ty
        self.parts = parts

    def load(self) -> Expr:
        return Expr(context.builder().compose(tensor(self).ir, [p.id for p in self.parts]), self.ty)

    def store(self, value: Any) -> None:
        from .emit import fit, take

        whole = fit(value, self.ty)
        for k, part in enumerate(self.parts):
            part.store(take(whole, k))

    def atomic(self, op: str, value: Any) -> Expr:
        from .emit import fit, take

        whole = fit(value, self.ty)
        old = [part.atomic(op, take(whole, k)).id for k, part in enumerate(self.parts)]
        return Expr(context.builder().compose(tensor(self).ir, old), self.ty)

    def part(self, step: int | Expr) -> Ref:
        if isinstance(step, int):
            return self.parts[step]
        return ChosenRef(self, step)


class ChosenRef(Ref):
    """A component, known when the kernel runs, of a vector whose components lie in places of their own."""

    __slots__ = ("step", "whole")

    def __init__(self, whole: SplitRef, step: Expr) -> None:
        self.ty = tensor(whole).dtype
        self.whole = whole
        self.step = step.load()

    def load(self) -> Expr:
        return Expr(context.builder().extract_dyn(self.whole.id, self.step.id), self.ty)

    def store(self, value: Any) -> None:
        self._each(lambda part: part.store(value))

    def atomic(self, op: str, value: Any) -> Expr:
        old = context.current().new_var("old", self.ty)
        self._each(lambda part: old.store(part.atomic(op, value)))
        return old.load()

    def _each(self, act: Any) -> None:
        from .emit import constant

        b = context.builder()
        for k, part in enumerate(self.whole.parts):
            here = b.compare("eq", self.step.id, constant(k, self.step.dtype).id)
            b.begin_if(here)
            act(part)
            b.end_if()


class SwizzleRef(Ref):
    """Some components of a vector, such as ``v.xz``, as a vector to write to."""

    __slots__ = ("parts", "whole")

    def __init__(self, whole: Ref, parts: list[int]) -> None:
        self.ty = MatrixType(len(parts), 1, 1, tensor(whole).dtype)
        self.whole = whole
        self.parts = parts

    def load(self) -> Expr:
        return Expr(context.builder().shuffle(self.whole.id, self.parts), self.ty)

    def _split(self) -> SplitRef:
        return SplitRef([self.whole.part(k) for k in self.parts], tensor(self))

    def store(self, value: Any) -> None:
        self._split().store(value)

    def atomic(self, op: str, value: Any) -> Expr:
        return self._split().atomic(op, value)

    def part(self, step: int | Expr) -> Ref:
        return self._split().part(step)


class StructVal:
    """A struct in a kernel: its members, each a value or a place."""

    __slots__ = ("members", "ty")

    def __init__(self, ty: StructType, members: dict[str, Any]) -> None:
        self.ty = ty
        self.members = members

    def load(self) -> StructVal:
        return StructVal(self.ty, {k: v.load() if isinstance(v, (Expr, StructVal)) else v for k, v in self.members.items()})

    def store(self, value: Any) -> None:
        if not isinstance(value, StructVal):
            from .struct import Struct

            if isinstance(value, Struct):
                value = value.in_kernel()
            else:
                # One number for all members, as vectors take it.
                for member in self.members.values():
                    member.store(value)
                return
        if set(value.members) != set(self.members):
            raise WujiTypeError(f"a struct with members {', '.join(value.members)} does not fit {self.ty}")
        for name, member in self.members.items():
            member.store(value.members[name])

    def __repr__(self) -> str:
        return f"<struct of a kernel: {self.ty}>"


def is_device(value: Any) -> bool:
    """Whether something is known only when the kernel runs."""
    return isinstance(value, (Expr, StructVal))
