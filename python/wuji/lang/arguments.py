"""Arguments of kernels: parameters, specialization keys, and how a call passes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import WujiArrayError, WujiRuntimeError, WujiRuntimeTypeError, WujiSyntaxError, WujiTypeError
from . import dtypes
from .access import ArrayVal
from .compound import (
    ArgPackType,
    ElementRank,
    MatrixType,
    NdarrayType,
    RWTextureType,
    SparseMatrixBuilderType,
    StructType,
    TextureType,
    is_template,
    type_by_ir,
    value_type,
)
from .context import Compilation
from .dtypes import DataType
from .field import Field
from .matrix import Matrix
from .ndarray import Ndarray, flat_value
from .signatures import MISSING
from .values import Expr, StructVal

if TYPE_CHECKING:
    from .kernel import Kernel
    from .snode import Leaf


class Parameter:
    """A kernel parameter, classified by its annotation."""

    __slots__ = ("annotation", "default", "kind", "name", "type")

    def __init__(self, kernel: str, name: str, annotation: Any, default: Any, is_self: bool, position: int = 0) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.type: Any = None
        if is_self or is_template(annotation):
            self.kind = "template"
        elif annotation is MISSING:
            raise WujiSyntaxError(f"Taichi kernels parameters must be type annotated: parameter `{name}` of kernel `{kernel}` has no annotation\n  = help: annotate it, as in `{name}: ti.f32` or `{name}: ti.template()`")
        elif isinstance(annotation, NdarrayType) or annotation is NdarrayType:
            self.kind = "array"
            self.type = annotation if isinstance(annotation, NdarrayType) else NdarrayType()
        elif isinstance(annotation, ArgPackType):
            self.kind = "pack"
            self.type = annotation
        elif isinstance(annotation, (TextureType, RWTextureType, SparseMatrixBuilderType)) or annotation in (TextureType, RWTextureType, SparseMatrixBuilderType):
            self.kind = "object"
            self.type = annotation
        else:
            self.type = value_type(annotation)
            if self.type is None:
                if annotation.__class__.__module__ in ("numpy", "torch") or getattr(annotation, "__module__", "") == "numpy":
                    self.kind, self.type = "array", NdarrayType()
                    return
                raise WujiSyntaxError(f"Invalid type annotation (argument {position}) of Taichi kernel: {annotation!r} of parameter `{name}` of `{kernel}`")
            self.kind = "value"


def count(ty: Any) -> int:
    """Return the number of scalars, vectors and matrices."""
    if isinstance(ty, ArgPackType):
        return sum(count(t) for t in ty.members.values())
    if isinstance(ty, StructType):
        return sum(count(t) for t in ty.members.values())
    return 1 if isinstance(ty, (DataType, MatrixType)) else 0


# Lists in template arguments nest this deep.
_MAX_NESTED_LISTS = 100


def template_key(value: Any, depth: int = 0) -> Any:
    """Return the specialization key of a template argument. It distinguishes equal but different numbers, such as 0.0 and -0.0."""
    if depth > _MAX_NESTED_LISTS:
        raise WujiTypeError(f"a template argument contains itself, or has lists that nest more than {_MAX_NESTED_LISTS} deep")
    kind = type(value)
    if kind is float:
        return (kind, value.hex())
    if kind in (int, bool, str) or value is None:
        return (kind, value)
    if isinstance(value, (list, tuple)):
        return (kind, tuple(template_key(v, depth + 1) for v in value))
    if isinstance(value, Matrix):
        return (kind, value.shape, value._dtype, tuple(template_key(v) for v in value.entries))
    if dtypes.of_constant(value) is not None and hasattr(value, "item"):
        return (kind, template_key(value.item()))
    return id(value)


def identified(value: Any) -> Iterator[Any]:
    """Yield the objects whose identity is in the key of a template argument."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from identified(part)
    elif isinstance(value, Matrix):
        for part in value.entries:
            yield from identified(part)
    elif template_key(value) == id(value):
        yield value


def array_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """Return the specialization key of an array: element type, rank, contiguity, writability."""
    spec: NdarrayType = p.type
    name = kernel.function.__name__

    def wrong(needed: Any, provided: Any) -> WujiArrayError:
        return WujiArrayError(f"Invalid value for argument {p.name} - required {needed}, but {provided} is provided (kernel `{name}`)")

    element: Any = None
    if isinstance(value, Ndarray):
        scalar, shape, contiguous, writable = value.dtype.ir, value.shape, True, True
        element = value.element_type
    else:
        found = _native.describe_array(value)
        if found is None:
            if isinstance(value, Field):
                raise wrong("an array", "a field (annotate it with `ti.template()`)")
            raise WujiRuntimeTypeError(f"Invalid type for argument {p.name}, got {_kind(value)}: kernel `{name}` needs {spec}")
        scalar, shape, contiguous, writable = found
        declared = spec.dtype
        if isinstance(declared, (MatrixType, ElementRank)):
            count = declared.ndim
            if len(shape) < count:
                raise wrong(f"ndim of at least {count}", f"{len(shape)}d array with shape {shape}")
            inner, shape = shape[len(shape) - count :], shape[: len(shape) - count]
            if isinstance(declared, MatrixType) and inner != declared.shape:
                raise wrong(f"element_shape={declared.shape}", f"{inner}")
            dtype = dtypes.by_ir(scalar)
            element = MatrixType(inner[0], inner[1] if count > 1 else 1, count, dtype)
        else:
            element = dtypes.by_ir(scalar)
    declared = spec.dtype
    if isinstance(declared, MatrixType):
        if element != declared:
            raise wrong(f"element type: {declared}", f"{element}")
    elif isinstance(declared, ElementRank):
        if not isinstance(element, MatrixType) or element.ndim != declared.ndim or declared.dtype not in (None, element.dtype):
            raise wrong(f"element_dim={declared.ndim}", f"{element}")
    elif declared is not None and declared is not element:
        if isinstance(value, Ndarray):
            raise WujiArrayError(f"Expect element type {declared} for argument {p.name}, but get {element} (kernel `{name}`)")
        raise WujiArrayError(f"Invalid value for argument {p.name} - required array has dtype={declared}, array with dtype={element} is provided (kernel `{name}`)")
    if spec.ndim is not None and spec.ndim != len(shape):
        raise wrong(f"ndim={spec.ndim}", f"{len(shape)}d ndarray with shape {shape}")
    return (element.ir, len(shape), contiguous, writable)


_WANTED = {TextureType: "texture", RWTextureType: "texture", SparseMatrixBuilderType: "sparse matrix builder"}


def object_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """Return the specialization key of a texture or a sparse matrix builder."""
    if not hasattr(value, "_wuji_key"):
        raise WujiRuntimeTypeError(
            f"Argument `{p.name}` must be a {_WANTED.get(type(p.type), p.type)}, got {type(value)} (kernel `{kernel.function.__name__}`)"
        )
    try:
        return value._wuji_key(p.type)
    except WujiRuntimeTypeError as e:
        raise WujiRuntimeTypeError(f"Argument `{p.name}` of kernel `{kernel.function.__name__}`: {e}") from None


def _kind(value: Any) -> str:
    """Describe an argument that is not an array, for error messages."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"


def pack_key(kernel: Kernel, ty: ArgPackType, value: Any) -> Any:
    from .argpack import ArgPack

    if not isinstance(value, ArgPack):
        raise WujiRuntimeTypeError(f"expected an argument pack, got {type(value)}")
    keys = []
    for name, spec in ty.members.items():
        if isinstance(spec, NdarrayType):
            keys.append(array_key(kernel, Parameter("argpack", name, spec, MISSING, False), value.entries[name]))
        elif isinstance(spec, ArgPackType):
            keys.append(pack_key(kernel, spec, value.entries[name]))
        elif isinstance(spec, (TextureType, RWTextureType)):
            keys.append(object_key(kernel, Parameter("argpack", name, spec, MISSING, False), value.entries[name]))
    return tuple(keys)


class Binder:
    """Maps kernel parameters to IR parameters and arrays, and records how a call marshals its arguments."""

    def __init__(self, kernel: Kernel, cx: Compilation, unaliased: bool, mode: str = "") -> None:
        self.kernel = kernel
        self.mode = mode
        self.gradients: dict[int, ArrayVal] = {}  # number of an array -> its gradient
        self.tangents: dict[int, int] = {}  # number of an array -> that of its tangent
        self.arrays: dict[int, tuple[str, Callable[[tuple[Any, ...]], Any]]] = {}  # number of an array -> its name, and where it is in a call
        self.cx = cx
        self.unaliased = unaliased
        self.arguments: list[tuple[str, int]] = []
        self.steps: list[Callable[[tuple[Any, ...]], Any]] = []
        self.position = 0
        self.plain = True  # what a call gets is what the program gets
        self.params = 0

    def parameter(self, p: Parameter, value: Any) -> Any:
        position = self.position
        self.position += 1
        if p.kind == "template":
            self.plain = False
            if isinstance(value, Ndarray):
                raise WujiRuntimeTypeError(
                    f"Ndarray shouldn't be passed in via `ti.template()`: argument `{p.name}`\n  = help: please annotate your kernel using `ti.types.ndarray(...)` instead"
                )
            return value
        return self.bind(p, p.type, p.name, value, lambda args: args[position])

    def bind(self, p: Parameter, ty: Any, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> Any:
        if isinstance(ty, NdarrayType):
            return self.array(p, ty, name, value, get)
        if isinstance(ty, ArgPackType):
            self.plain = False
            members = {
                k: self.bind(Parameter("argpack", k, t, MISSING, False), t if not _plain_type(t) else value_type(t), f"{name}.{k}", value.entries[k], lambda args, k=k: get(args).entries[k])  # type: ignore[misc]
                for k, t in ty.members.items()
            }
            return PackVal(members)
        if p.kind == "object":
            self.plain = False
            return value._wuji_bind(self, name, get)
        return self.value(ty, name, get)

    def value(self, ty: Any, name: str, get: Callable[[tuple[Any, ...]], Any]) -> Any:
        if isinstance(ty, StructType):
            self.plain = False
            return StructVal(ty, {k: self.value(t, f"{name}.{k}", _member(get, k)) for k, t in ty.members.items()})
        id = self.cx.builder.param(name, ty.ir)
        self.cx.constants.add(id)
        self.arguments.append(("p", self.params))
        self.params += 1
        if isinstance(ty, MatrixType):
            self.plain = False
            self.steps.append(lambda args: flat_value(ty, get(args)))
        else:
            self.steps.append(get)
        return Expr(id, ty)

    def array(self, p: Parameter, spec: NdarrayType, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> ArrayVal:
        ir, rank, contiguous, writable = array_key(self.kernel, p, value)
        number = self.cx.builder.array(name, ir, rank, writable, contiguous, self.unaliased)
        self.arguments.append(("a", number))
        self.arrays[number] = (name, get)
        self.steps.append(lambda args: _bare(get(args)))

        def grad() -> ArrayVal:
            return self.gradient(p, number, spec, name, value, get)

        if self.mode and gradient_of(value) is not None:
            made = grad()
            if self.mode == "second":
                self.tangent(p, made.number, f"{name}.grad", gradient_of(value), lambda args: gradient_of(get(args)))
        if self.mode in ("forward", "constant", "second"):
            self.tangent(p, number, name, value, get)
        return ArrayVal(number, type_by_ir(ir), rank, name, spec.boundary == "clamp", writable, grad)

    def gradient(self, p: Parameter, of: int, spec: NdarrayType, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> ArrayVal:
        """Return the gradient of an array: another array, which is passed along with it."""
        known = self.gradients.get(of)
        if known is not None:
            return known
        given = gradient_of(value)
        if given is None:
            raise WujiTypeError(f"array `{name}` has no gradient\n  = help: create it with `needs_grad=True`")
        ir, rank, contiguous, _ = array_key(self.kernel, p, given)
        number = self.cx.builder.array(f"{name}.grad", ir, rank, True, contiguous, self.unaliased)
        self.arguments.append(("a", number))
        self.steps.append(lambda args: _bare(_needed_gradient(name, get(args))))
        made = self.gradients[of] = ArrayVal(number, type_by_ir(ir), rank, f"{name}.grad", spec.boundary == "clamp")
        return made

    def tangent(self, p: Parameter, of: int, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> None:
        """Pass the tangent of an array along with it, if it has one."""
        given = tangent_of(value)
        if given is None:
            return
        ir, rank, contiguous, _ = array_key(self.kernel, p, given)
        number = self.cx.builder.array(f"{name}.dual", ir, rank, True, contiguous, self.unaliased)
        self.arguments.append(("a", number))
        self.steps.append(lambda args: _bare(tangent_of(get(args))))
        self.tangents[of] = number

    def derivatives(self) -> list[_native.Derivatives]:
        """Return where the derivatives of all fields and arrays are that the kernel accesses: one entry for each mode of differentiation, innermost first."""
        leaves: dict[int, Any] = dict(self.cx.leaves)
        if self.mode in ("forward", "constant"):
            self._add_deactivated(leaves)
            return [(self.mode, self._companions("dual", leaves), list(self.tangents.items()))]
        arrays = [(of, made.number) for of, made in self.gradients.items()]
        reverse: _native.Derivatives = ("reverse", self._companions("grad", leaves), arrays)
        if self.mode == "reverse":
            return [reverse]
        # Gradients are among the fields now, and have tangents.
        for number, gradient in reverse[1]:
            leaves[gradient] = leaves[number].grad
        return [reverse, ("forward", self._companions("dual", leaves), list(self.tangents.items()))]

    def _add_deactivated(self, leaves: dict[int, Any]) -> None:
        """Add the fields whose cells the kernel may deactivate: their tangents end."""
        for access in self.cx.sparse.values():
            if access.deactivates:
                for leaf in access.part._structure.companions(""):
                    leaves.setdefault(self.cx.field_number(leaf.ready().tree, leaf.number), leaf)

    def _companions(self, kind: str, leaves: dict[int, Any]) -> list[tuple[int, int]]:
        """Return the fields that have a gradient or tangent, each with that."""
        found = []
        for number, leaf in leaves.items():
            other: Leaf | None = getattr(leaf, kind)
            if other is not None and (other.node is not None or other.native is not None):
                primal, derivative = leaf.ready(), other.ready()
                if (primal.shape, primal.offset) != (derivative.shape, derivative.offset):
                    raise WujiRuntimeError(
                        f"`{leaf.name}.{kind}` has shape {derivative.shape} and offset {derivative.offset}, but `{leaf.name}` has shape {primal.shape} and offset {primal.offset}\n"
                        f"  = help: place both alike, or use `needs_{kind}=True`"
                    )
                found.append((number, self.cx.field_number(derivative.tree, other.number)))
        return found

    def taker(self) -> Any:
        steps = self.steps
        return lambda args: [step(args) for step in steps]


def gradient_of(array: Any) -> Any:
    """Return the gradient of an array argument, or None. A torch tensor that requires a gradient gets one."""
    if isinstance(array, Ndarray):
        return array.grad
    if getattr(array, "requires_grad", False):
        if array.grad is None:
            import torch

            array.grad = torch.zeros_like(array)
        return array.grad
    return None


def tangent_of(array: Any) -> Ndarray | None:
    """Return the tangent of an array argument, or None."""
    return array.dual if isinstance(array, Ndarray) else None


def has_derivatives(array: Any) -> tuple[bool, bool, bool]:
    """Return whether an array argument has a gradient, a tangent, and a tangent of its gradient."""
    gradient = gradient_of(array)
    return (gradient is not None, tangent_of(array) is not None, tangent_of(gradient) is not None)


def _needed_gradient(name: str, array: Any) -> Any:
    found = gradient_of(array)
    if found is None:
        raise TypeError(f"array `{name}` has no gradient")
    return found


def _plain_type(t: Any) -> bool:
    return not isinstance(t, (NdarrayType, ArgPackType))


def _bare(value: Any) -> Any:
    return value._native if isinstance(value, Ndarray) else value


def _member(get: Callable[[tuple[Any, ...]], Any], name: str) -> Callable[[tuple[Any, ...]], Any]:
    return lambda args: get(args)[name]


class PackVal:
    """An argpack inside a kernel."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.__dict__.update(members)
