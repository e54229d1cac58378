"""Representation of expressions while a kernel is compiled.

An expression is a Python object (a compile-time constant), an `Expr` (a run-time value) or a `StructVal` of those.
A `Ref` is an `Expr` that can also be assigned to.
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
    """A run-time value of a kernel. Operators on it emit instructions."""

    __slots__ = ("_id", "ty")

    def __init__(self, id: int, ty: Any) -> None:
        self._id = id
        self.ty: DataType | MatrixType = ty

    @property
    def id(self) -> int:
        """The value's number in the builder."""
        return self._id

    def load(self) -> Expr:
        """Return the current value, unaffected by later writes."""
        return self

    # Vectors and matrices.
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
        return f"<{type(self).__name__} in a kernel: {self.ty}>"

    def __bool__(self) -> bool:
        raise WujiTypeError(
            "this is a run-time value, but Python needs a compile-time constant here\n"
            "  = help: in `ti.static`, and in functions without `@ti.func`, use constants and `ti.template()` arguments"
        )

    __hash__ = None  # type: ignore[assignment]


def tensor(value: Any) -> MatrixType:
    """Return the type of a vector or matrix."""
    ty = value.ty
    if isinstance(ty, MatrixType):
        return ty
    raise WujiTypeError(f"expected a vector or matrix, got a scalar of type {ty}")


class Ref(Expr):
    """An element of a field or array, or a local variable. It is loaded where it is used, and can be assigned to."""

    __slots__ = ()

    def __init__(self, ty: Any) -> None:
        self.ty = ty

    @property
    def private(self) -> bool:
        """Whether no other iteration of the current parallel loop can access it."""
        return False

    @property
    def is_variable(self) -> bool:
        """Whether this is a variable or a part of one."""
        return False

    @property
    def id(self) -> int:
        return self.load().id

    def load(self) -> Expr:
        raise NotImplementedError

    def store(self, value: Any) -> None:
        raise NotImplementedError

    def atomic(self, op: str, value: Any) -> Expr:
        """Apply an atomic operation and return the old value."""
        raise NotImplementedError

    def part(self, step: int | Expr) -> Ref:
        """Return a component of a vector or matrix, by row-major number."""
        raise NotImplementedError


class MemoryRef(Ref):
    """A reference that one IR access can load or store."""

    __slots__ = ("activate", "indices", "loop", "path", "base")

    def __init__(
        self,
        base: tuple[str, int],
        ty: Any,
        indices: tuple[int, ...] = (),
        path: tuple[Any, ...] = (),
        activate: bool = True,
        loop: object = None,
    ) -> None:
        self.ty = ty
        self.base = base
        self.indices = indices
        self.path = path
        self.activate = activate
        self.loop = loop  # locals: the parallel loop that defines it

    @property
    def private(self) -> bool:
        """Whether this is a local of the current parallel loop, so that no other iteration can access it."""
        return self.base[0] == "l" and self.loop is context.current().loop

    @property
    def is_variable(self) -> bool:
        return self.base[0] == "l" and not self.indices

    def _share(self) -> bool:
        """Return whether this is a variable of the kernel that a parallel loop updates. All iterations share such a variable."""
        if self.base[0] != "l" or self.loop is context.current().loop:
            return False
        context.builder().share(self.base[1])
        return True

    def load(self) -> Expr:
        b = context.builder()
        value = b.load(self.base, self.indices, self.path)
        cx = context.current()
        if self.base[0] == "f" and self.base[1] in cx.stopped:
            value = b.unary("stop_grad", value)
        elif self.base[0] != "l":
            cx.reads.add(self.base)
        return Expr(value, self.ty)

    def store(self, value: Any) -> None:
        from .emit import fit

        stored = fit(value, self.ty)
        b = context.builder()
        if self._share():
            # The last write wins.
            b.atomic("exchange", self.base, stored.id, self.indices, self.path)
        else:
            context.current().writes_to(self.base, stored.id)
            b.store(self.base, stored.id, self.indices, self.path, self.activate)

    def atomic(self, op: str, value: Any) -> Expr:
        from .emit import fit

        operand = fit(value, self.ty)
        context.current().writes_to(self.base, operand.id)
        self._share()
        old = context.builder().atomic(op, self.base, operand.id, self.indices, self.path, self.activate)
        return Expr(old, self.ty)

    def part(self, step: int | Expr) -> Ref:
        path: Any = (*self.path, step if isinstance(step, int) else (step.id,))
        return MemoryRef(self.base, tensor(self).dtype, self.indices, path, self.activate, self.loop)


class Var(MemoryRef):
    """A local variable."""

    __slots__ = ("name",)

    def __init__(self, base: tuple[str, int], ty: Any, name: str, loop: object) -> None:
        super().__init__(base, ty, loop=loop)
        self.name = name


class SplitRef(Ref):
    """A vector or matrix whose components are stored separately."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Ref], ty: MatrixType) -> None:
        self.ty = ty
        self.parts = parts

    @property
    def private(self) -> bool:
        return all(p.private for p in self.parts)

    @property
    def is_variable(self) -> bool:
        return all(p.is_variable for p in self.parts)

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
        return DynamicComponentRef(self, step)


class DynamicComponentRef(Ref):
    """A dynamically indexed component of a vector whose components are stored separately."""

    __slots__ = ("step", "whole")

    def __init__(self, whole: SplitRef, step: Expr) -> None:
        self.ty = tensor(whole).dtype
        self.whole = whole
        self.step = step.load()

    @property
    def private(self) -> bool:
        return self.whole.private

    @property
    def is_variable(self) -> bool:
        return self.whole.is_variable

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
    """A swizzle such as ``v.xz``, as an assignable vector."""

    __slots__ = ("parts", "whole")

    def __init__(self, whole: Ref, parts: list[int]) -> None:
        self.ty = MatrixType(len(parts), 1, 1, tensor(whole).dtype)
        self.whole = whole
        self.parts = parts

    @property
    def private(self) -> bool:
        return self.whole.private

    @property
    def is_variable(self) -> bool:
        return self.whole.is_variable

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
    """A struct in a kernel. Each member is a value or a reference."""

    __slots__ = ("members", "ty")

    def __init__(self, ty: StructType, members: dict[str, Any]) -> None:
        self.ty = ty
        self.members = members

    @property
    def private(self) -> bool:
        """Whether no other iteration of the current parallel loop can access a member."""
        return all(v.private for v in self.members.values() if isinstance(v, (Ref, StructVal)))

    def load(self) -> StructVal:
        return StructVal(self.ty, {k: v.load() if isinstance(v, (Expr, StructVal)) else v for k, v in self.members.items()})

    def store(self, value: Any) -> None:
        if not isinstance(value, StructVal):
            from .struct import Struct

            if isinstance(value, Struct):
                value = value.in_kernel()
            else:
                # A scalar is stored to all members, as for vectors.
                for member in self.members.values():
                    member.store(value)
                return
        if set(value.members) != set(self.members):
            raise WujiTypeError(f"cannot assign a struct with members {', '.join(value.members)} to {self.ty}")
        for name, member in self.members.items():
            member.store(value.members[name])

    def __repr__(self) -> str:
        return f"<struct in a kernel: {self.ty}>"


def is_device(value: Any) -> bool:
    """Return whether something is a run-time value."""
    return isinstance(value, (Expr, StructVal))
