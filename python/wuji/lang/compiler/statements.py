"""Statements: assignments, branches, assertions and returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ...exceptions import WujiNameError, WujiSyntaxError, WujiTypeError
from .. import dtypes, emit, ops
from ..access import stop_grad
from ..compound import StructType, value_type
from ..context import Compilation
from ..field import Field
from ..matrix import Matrix
from ..struct import Struct
from ..text import FormattedText, kernel_assert
from ..values import Expr, Ref, StructVal, is_device
from .scope import MISSING
from .source import is_static_call

if TYPE_CHECKING:
    from .scope import Scope

# Augmented assignments that become atomic operations on memory that other threads can reach.
_ATOMIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}


class Statements:
    cx: Compilation
    b: Any
    scope: Scope
    source: Any
    static_depth: int
    depth: int
    is_kernel: bool
    is_real: bool
    outermost: bool
    returns: Any
    loops: list[Any]

    if TYPE_CHECKING:

        def eval(self, node: ast.expr) -> Any: ...
        def exec(self, node: ast.stmt) -> None: ...
        def value(self, node: ast.expr) -> Any: ...
        def is_static(self, node: ast.expr) -> bool: ...
        def known(self, node: ast.expr, value: Any, what: str) -> bool: ...
        def at(self, node: ast.AST) -> None: ...
        def check_overflow(self, node: ast.BinOp | ast.AugAssign, left: Any, right: Any, result: Any) -> None: ...
        def _located(self, node: Any, visit: Any, *args: Any) -> Any: ...
        def warn(self, text: str, node: ast.AST) -> None: ...

    def body(self, nodes: list[ast.stmt]) -> None:
        """Compile statements in order. Code behind a jump is skipped. Code behind an endless loop is compiled, so that mistakes in it are found."""
        unreachable = self.b.closed()
        before = len(self.cx.stopped)
        self._stop_gradients(nodes)
        try:
            self._statements(nodes, unreachable)
        finally:
            del self.cx.stopped[before:]

    def _stop_gradients(self, nodes: list[ast.stmt]) -> None:
        """Apply `ti.stop_grad(x)` of a field to its whole block, wherever it is there."""
        for node in nodes:
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call) or len(node.value.args) != 1:
                continue
            called, arg = node.value.func, node.value.args[0]
            name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            names = {part.id for part in ast.walk(arg) if isinstance(part, ast.Name)}
            if name == "stop_grad" and isinstance(arg, (ast.Name, ast.Attribute)) and not names & self.source.assigned:
                found = self.eval(arg)
                if isinstance(found, Field):
                    stop_grad(found)

    def _statements(self, nodes: list[ast.stmt], unreachable: bool) -> None:
        for node in nodes:
            self.exec(node)
            if not unreachable and self.b.closed():
                if not isinstance(node, ast.While):
                    return
                unreachable = True

    def block(self, nodes: list[ast.stmt]) -> None:
        """Compile statements in a scope of their own."""
        self.scope.push()
        self.depth += 1
        try:
            self.body(nodes)
        finally:
            self.depth -= 1
            self.scope.pop()

    # Assignment.
    def visit_Assign(self, node: ast.Assign) -> None:
        static = self.is_static(node.value)
        value = self.value(node.value)
        for target in node.targets:
            if static and isinstance(target, ast.Name):
                self._rebind(target.id, value)
            else:
                self.assign(target, value)

    def _rebind(self, name: str, value: Any) -> None:
        """Bind a name to a compile-time constant."""
        known = self.scope.local(name)
        if known is MISSING:
            self.scope.define(name, value)
        elif is_device(known):
            raise WujiTypeError(f"`{name}` is a run-time variable; it cannot be rebound to a `ti.static` value")
        else:
            self.scope.redefine(name, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise WujiSyntaxError("an annotated variable needs an initial value")
        ty = value_type(self.eval(node.annotation))
        if ty is None:
            raise WujiTypeError(f"`{ast.unparse(node.annotation)}` is not a value type")
        value = self.value(node.value)
        if not isinstance(node.target, ast.Name):
            ref = self._target(node.target)
            if ref.ty != ty:
                raise WujiSyntaxError(f"`{ast.unparse(node.target)}` has type {ref.ty}, not {ty}")
            self._store(ref, value, node.target)
            return
        known = self.scope.local(node.target.id)
        if known is not MISSING:
            if is_device(known) and known.ty == ty:
                self.assign(node.target, value)
                return
            raise WujiSyntaxError(f"`{node.target.id}` already has a type")
        ref = typed_storage(self.cx, ty, node.target.id)
        ref.store(value)
        self.scope.define(node.target.id, ref)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(t, ast.Starred) for t in target.elts):
                raise WujiSyntaxError("starred assignment targets are not supported in kernels")
            parts = unpacked(value, len(target.elts))
            # The values are already evaluated, so `a, b = b, a` swaps.
            for t, part in zip(target.elts, parts, strict=True):
                self.assign(t, part)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self._store(self._target(target), value, target)
        else:
            raise WujiSyntaxError(f"cannot assign to `{ast.unparse(target)}`")

    def _target(self, target: ast.expr) -> Ref | StructVal:
        """Evaluate an element or member that is assigned to."""
        ref = self.eval(target)
        if not isinstance(ref, (Ref, StructVal)):
            raise WujiTypeError(f"cannot assign to `{ast.unparse(target)}`, which is {emit.describe(ref)}")
        return ref

    def _store(self, ref: Ref | StructVal, value: Any, node: ast.expr) -> None:
        self._warn_loss(ref, value, node)
        ref.store(value)

    def _assign_name(self, target: ast.Name, value: Any) -> None:
        known = self.scope.local(target.id)
        if known is MISSING:
            self.scope.define(target.id, self._new(target.id, value))
            return
        if isinstance(known, (Ref, StructVal)):
            self._store(known, value, target)
        elif is_device(known):
            raise WujiTypeError(f"`{target.id}` cannot be assigned to: it is a loop index or a parameter")
        elif isinstance(known, (tuple, list)) and isinstance(value, (tuple, list)) and len(known) == len(value) and all(isinstance(k, Ref) for k in known):
            for ref, part in zip(known, value, strict=True):
                ref.store(part)
        elif not is_device(value) and not self.depth:
            self.scope.redefine(target.id, value)
        elif getattr(known, "_wuji_element", None):
            raise WujiTypeError(
                f"`{target.id}` is {emit.describe(known)}; it cannot be assigned to\n"
                "  = help: use another name, or a variable for its `id`: `mesh.verts[id]` is the vertex with this number"
            )
        else:
            raise WujiTypeError(
                f"`{target.id}` is {emit.describe(known)}, a compile-time constant; it cannot be assigned to\n"
                "  = help: use another name"
            )

    def _new(self, name: str, value: Any) -> Any:
        """Return what a new name is bound to: a variable, or a Python object."""
        if is_device(value) or emit.is_number(value) or isinstance(value, (Matrix, Struct)):
            ref = storage(self.cx, value, name)
            store_into(ref, value)
            return ref
        if isinstance(value, (str, FormattedText)):
            raise WujiTypeError(f"Invalid constant scalar data type: {emit.describe(value)} cannot be a variable\n  = help: `ti.static` binds a name to it")
        if isinstance(value, (list, tuple)) and (name in self.source.updated or any(is_device(v) for v in value)):
            return type(value)(self._new(name, v) for v in value)
        return value

    def _warn_loss(self, ref: Any, value: Any, node: ast.AST) -> None:
        if isinstance(ref, Ref) and isinstance(value, Expr):
            source, target = value.dtype, ref.dtype
        elif isinstance(ref, Ref) and type(value) is float and not ref.dtype.is_float:
            source, target = dtypes.defaults.fp, ref.dtype
        else:
            return
        if dtypes.loses(source, target):
            self.warn(f"Assign may lose precision: {target} <- {source}", node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        from .expressions import _BINARY

        ref = self.eval(node.target)
        value = self.value(node.value)
        kind = type(node.op)
        dual, plain, what = _BINARY[kind]
        if isinstance(ref, StructVal):
            raise WujiTypeError(f"`{what}=` is not defined for structs\n  = help: update the members")
        if not isinstance(ref, Ref):
            if hasattr(ref, "_wuji_update"):
                ref._wuji_update(what, value)
                return
            if isinstance(node.target, ast.Name) and not is_device(ref) and not is_device(value) and not self.depth:
                if self.scope.local(node.target.id) is MISSING:
                    raise WujiNameError(f'Name "{node.target.id}" is not defined in this function; kernels cannot assign to outer names')
                self.scope.redefine(node.target.id, plain(ref, value))
                return
            raise WujiTypeError(f"`{ast.unparse(node.target)}` is {emit.describe(ref)}, which cannot be modified")
        self._warn_update(ref, value, node, what)
        if kind in _ATOMIC and not (kind is ast.Mult and _multiplies_in_float(ref, value)):
            if ref.dtype.is_float and kind in (ast.BitAnd, ast.BitOr, ast.BitXor):
                raise WujiTypeError(f"`{what}=` needs integers, not {ref.dtype}")
            if not ref.private or ref.dtype is dtypes.u1:
                ops.update(ref, _ATOMIC[kind], value)
                return
            value = emit.fit(value, ref.ty)
        old = ref.load()
        result = dual(old, value)
        self.check_overflow(node, old, value, result)
        ref.store(result)

    def _warn_update(self, ref: Ref, value: Any, node: ast.AST, what: str) -> None:
        source = value.dtype if isinstance(value, Expr) else dtypes.of_constant(value)
        if what == "/" and not ref.dtype.is_float:
            source = dtypes.defaults.fp
        if source is not None and not isinstance(value, (list, tuple)) and source.is_float and not ref.dtype.is_float:
            self.warn(f"Augassign may lose precision: {ref.dtype} <- {source}", node)

    # Plain statements.
    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.eval(node.value)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        # Operands may have side effects, so they are evaluated whether assertions are checked or not.
        test = self.value(node.test)
        message = None if node.msg is None else self.value(node.msg)
        if not is_device(test) and not isinstance(test, Matrix):
            if self.known(node.test, test, "a condition"):
                return
            test = emit.constant(False, dtypes.u1)
        holds = emit.condition(test, "assert")
        if self.cx.runtime.config.debug:
            kernel_assert(holds, message, ast.unparse(node.test))

    # Branches.
    def visit_If(self, node: ast.If) -> None:
        # A loop instead of recursion: a chain of `elif`s may be long.
        outermost, depth, blocks = self.outermost, self.depth, len(self.scope.blocks)
        following: ast.If | None = node
        # Branches of a long chain leave a block, because nested `else`s would exceed the limit on nesting.
        label = self.b.begin_block() if _is_long(node) else None
        try:
            while following is not None:
                following = self._located(following, self._branch, label)
            if label is not None:
                self.b.end_block()
            else:
                for _ in range(self.depth - depth):
                    self.b.end_if()
        finally:
            while len(self.scope.blocks) > blocks:
                self.scope.pop()
            self.outermost, self.depth = outermost, depth

    def _branch(self, node: ast.If, label: int | None) -> ast.If | None:
        """Compile one branch of a chain, which leaves the block with this label. Return the `elif` that follows, if it is not compiled yet."""
        test = self.value(node.test)
        if self.is_static(node.test):
            if is_device(test):
                raise WujiTypeError("`ti.static` needs a compile-time constant, and this is a run-time value")
            return self._compile_or_follow(node.body if test else node.orelse)
        if is_device(test):
            self.b.begin_if(emit.condition(test, "if").id)
            self.block(node.body)
            if not node.orelse:
                self.b.end_if()
                return None
            if label is None:
                self.b.begin_else()
            else:
                if not self.b.closed():
                    self.b.jump_break(label)
                self.b.end_if()
            self.depth += 1
            self.scope.push()
            return self._compile_or_follow(node.orelse)
        if isinstance(test, Matrix):
            raise WujiTypeError("a vector cannot be a condition\n  = help: use `.all()` or `.any()`")
        holds = self.known(node.test, test, "a condition")
        # Without `ti.static` a branch is a block like any other: loops in it are serial.
        self.scope.push()
        self.outermost = False
        return self._compile_or_follow(node.body if holds else node.orelse)

    def _compile_or_follow(self, nodes: list[ast.stmt]) -> ast.If | None:
        if len(nodes) == 1 and isinstance(nodes[0], ast.If):
            self.at(nodes[0])
            return nodes[0]
        self.body(nodes)
        return None

    # Return.
    def visit_Return(self, node: ast.Return) -> None:
        if self.returns is None:
            raise WujiSyntaxError("`return` outside a function")
        if any(loop.kind == "parallel" for loop in self.loops):
            raise WujiSyntaxError(
                "Return inside non-static if/for is not supported: the loop is parallel\n  = note: its iterations run concurrently; the kernel returns when all of them have finished"
            )
        value = None if node.value is None else self.value(node.value)
        self.returns.emit_return(self, value)


# The most branches of a chain that are nested in each other.
_MAX_NESTED = 32


def _is_long(node: ast.If) -> bool:
    """Return whether a chain of `elif`s has more run-time branches than may be nested."""
    count = 1
    while count <= _MAX_NESTED and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        count += not is_static_call(node.test)
    return count > _MAX_NESTED


def _multiplies_in_float(ref: Ref, value: Any) -> bool:
    """Return whether `ref *= value` scales an integer by a float: the product, not the factor, is converted to an integer."""
    return not ref.dtype.is_float and emit.element(value).is_float


def unpacked(value: Any, count: int) -> list[Any]:
    """Return the parts of a value that is assigned to several targets."""
    if isinstance(value, Expr):
        if not value.shape:
            raise WujiSyntaxError(f"Cannot unpack type: {value.ty}, a scalar, into {count} targets")
        parts = [value[k] for k in range(value.shape[0])]
        parts = [p.load() for p in parts]
    elif isinstance(value, (tuple, list, Matrix, range)):
        parts = list(value)
    elif isinstance(value, StructVal):
        parts = list(value.members.values())
    elif hasattr(value, "__iter__"):
        parts = list(value)
    else:
        raise WujiSyntaxError(f"Cannot unpack type: {type(value)}")
    if len(parts) != count:
        raise WujiSyntaxError(f"The number of targets is not equal to value length: {count} targets, {len(parts)} values")
    return parts


def typed_storage(cx: Compilation, ty: Any, name: str) -> Any:
    """Create the variables that hold a value of a type."""
    if isinstance(ty, StructType):
        return StructVal(ty, {k: typed_storage(cx, t, f"{name}.{k}") for k, t in ty.members.items()})
    return cx.new_var(name, ty)


def storage(cx: Compilation, value: Any, name: str) -> Any:
    """Create the variables that hold a value. Python objects are returned unchanged."""
    if isinstance(value, (StructVal, Struct)):
        ty = value.ty if isinstance(value, StructVal) else value._type
        return typed_storage(cx, ty, name)
    if isinstance(value, (list, tuple)) and not isinstance(value, Matrix):
        return type(value)(storage(cx, v, name) for v in value)
    if is_device(value) or emit.is_number(value) or isinstance(value, Matrix):
        ty = emit.type_of(value)
        if ty is dtypes.defaults.ip and type(value) is int:
            emit.constant(value)  # reports values out of range
        return typed_storage(cx, ty, name)
    return value


def store_into(ref: Any, value: Any) -> None:
    if isinstance(ref, (Ref, StructVal)):
        ref.store(value)
    elif isinstance(ref, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(ref):
            raise WujiTypeError("the `return` statements return different numbers of values")
        for p, v in zip(ref, value, strict=True):
            store_into(p, v)
