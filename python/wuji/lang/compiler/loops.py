"""Loops: outermost loops of a kernel are parallel, inner loops are serial, static loops are unrolled."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...exceptions import WujiSyntaxError, WujiTypeError
from .. import dtypes, emit
from ..access import ArrayVal, cell_number, leaf_number
from ..context import Compilation, LoopConfig
from ..field import Field
from ..matrix import Matrix
from ..ndrange import Grouped, NDRange, RangeVal
from ..snode import SNode
from ..values import Expr, is_device

if TYPE_CHECKING:
    from .scope import Scope


class Loop:
    """A loop that encloses the statement being compiled."""

    __slots__ = ("continue_label", "depth", "kind", "break_label")

    def __init__(self, kind: str, break_label: int | None, continue_label: int | None, depth: int = 0) -> None:
        self.depth = depth  # control-flow nesting at the loop
        self.kind = kind  # "parallel", "serial" or "static"
        self.break_label = break_label
        self.continue_label = continue_label


class Loops:
    cx: Compilation
    b: Any
    scope: Scope
    source: Any
    static_depth: int
    depth: int
    outermost: bool
    loops: list[Loop]

    if TYPE_CHECKING:

        def eval(self, node: ast.expr) -> Any: ...
        def value(self, node: ast.expr) -> Any: ...
        def body(self, nodes: list[ast.stmt]) -> None: ...
        def is_static(self, node: ast.expr) -> bool: ...
        def known(self, node: ast.expr, value: Any, what: str) -> bool: ...
        def assign(self, target: ast.expr, value: Any) -> None: ...
        def warn(self, text: str, node: ast.AST) -> None: ...

    def bind(self, target: ast.expr, value: Any) -> None:
        """Bind the loop variables for one iteration."""
        if isinstance(target, ast.Name):
            if is_device(value) and target.id in self.source.assigned:
                var = self.cx.new_var(target.id, value.ty)
                var.store(value)
                value = var
            self.scope.define(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            from .statements import unpacked

            for t, part in zip(target.elts, unpacked(value, len(target.elts)), strict=True):
                self.bind(t, part)
        else:
            raise WujiSyntaxError("a loop target must be a name or a tuple of names")

    def _check_fresh(self, target: ast.expr) -> None:
        """Reject loop variables that shadow a local. Python would overwrite the local; a kernel would create a second variable."""
        for name in ast.walk(target):
            if isinstance(name, ast.Name) and name.id != "_" and self.scope.is_local(name.id):
                raise WujiSyntaxError(f"Variable '{name.id}' is already declared in the outer scope and cannot be used as loop variable\n  = help: use a new name for the loop variable")

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            raise WujiSyntaxError("'else' clause for 'for' not supported in Taichi kernels")
        if self.is_static(node.iter):
            self._static_for(node)
            return
        config, self.cx.config = self.cx.config, LoopConfig()
        self._check_fresh(node.target)
        over = self.eval(node.iter)
        grouped = isinstance(over, Grouped)
        if isinstance(over, Grouped):
            over = over.over
        if isinstance(over, range):
            over = RangeVal(over.start, over.stop)
        if isinstance(over, RangeVal):
            over = self._whole_bounds(over, node)
        domain = self._domain(over, node)
        serial = config.serialize or config.parallelize == 1 or not _rank(domain)
        # Only a parallel loop finds the active cells; between other tasks it is one of them.
        outermost = self.outermost and not self.depth or _is_sparse(domain)
        if outermost and self.cx.loop is None and not serial:
            self._parallel(node, domain, grouped, config)
        else:
            self._serial(node, domain, grouped)

    def _whole_bounds(self, over: RangeVal, node: ast.For) -> RangeVal:
        """Convert float bounds of a range to integers, with a warning."""

        def whole(end: Any) -> Any:
            if not (isinstance(end, Expr) or emit.is_number(end)) or getattr(end, "shape", ()) != () or not emit.element(end).is_float:
                return end
            to = dtypes.defaults.ip
            self.warn(f"Casting range_for boundary values from {emit.element(end)} to {to}, which may cause numerical issues", node)
            return emit.convert(end, to) if isinstance(end, Expr) else int(end)

        low, high = over.axes[0]
        return RangeVal(whole(low), whole(high))

    def _domain(self, over: Any, node: ast.For) -> Any:
        if isinstance(over, (RangeVal, NDRange, Field, SNode, ArrayVal)):
            return over
        if hasattr(over, "_wuji_domain"):
            return over._wuji_domain(self.cx)
        text = f"Cannot loop over the object {type(over)} in Taichi scope: {emit.describe(over)}\n  = note: a loop iterates over a range, a field or an array"
        if isinstance(over, (list, tuple, Matrix, dict, str, zip, enumerate)) or is_device(over):
            text += "\n  = help: `for x in ti.static(...)` unrolls the loop at compile time"
        raise WujiTypeError(text)

    # Parallel.
    def _parallel(self, node: ast.For, domain: Any, grouped: bool, config: LoopConfig) -> None:
        cx, b = self.cx, self.b
        hints: dict[str, Any] = {}
        if config.block_dim:
            hints["block_size"] = config.block_dim
        if config.simd is not None:
            hints["simd"] = config.simd
        if config.bit_vectorize:
            cx.bit_loops.append(cx.location)
        over = self._native_domain(domain)
        label, ids = b.begin_foreach(over, **hints)
        cx.loop, before = object(), cx.loop
        cached, cx.__dict__["cached"] = cx.__dict__.get("cached", []), []
        inactive, elements = list(cx.inactive), cx.mesh_elements
        for number in cached:
            b.cache(number)
        self.scope.push()
        self.depth += 1
        self.loops.append(Loop("parallel", None, label))
        try:
            indices = [Expr(i, dtypes.by_ir(b.type_of(i))) for i in ids]
            self._bind_indices(node, domain, indices, grouped)
            self.body(node.body)
        finally:
            self.loops.pop()
            self.depth -= 1
            self.scope.pop()
            cx.loop, cx.mesh_elements = before, elements
            cx.inactive = [] if inactive else cx.inactive
        if b.end_foreach():
            raise WujiTypeError(
                "a struct-for over a sparse field inside of control flow neither draws random numbers nor prints nor calls real functions\n"
                "  = help: make the loop a kernel of its own, and launch it where it is now"
            )

    def _native_domain(self, domain: Any) -> Any:
        if isinstance(domain, (Field, SNode)):
            node = domain if isinstance(domain, SNode) else domain.node
            if node.is_sparse:
                self.cx.cells_of(node).loops = True
        if isinstance(domain, Field):
            return leaf_number(self.cx, domain._first)
        if isinstance(domain, SNode):
            return cell_number(self.cx, domain)
        return self._bounds(domain)

    def _bounds(self, domain: Any) -> list[tuple[int, int]]:
        """Return the bounds of each axis of a domain."""
        if isinstance(domain, ArrayVal):
            return domain.extents()
        if isinstance(domain, (Field, SNode)):
            return self._dense_bounds(domain)
        return [self._ends(low, high) for low, high in domain.axes]

    def _dense_bounds(self, domain: Any) -> list[tuple[int, int]]:
        node = domain if isinstance(domain, SNode) else domain.node
        if node.is_sparse:
            raise WujiTypeError(
                "a struct-for over a sparse field cannot be inside of a parallel loop, or serialized\n"
                "  = note: active cells are visited in parallel, in no particular order\n"
                "  = help: loop over a range and test `ti.is_active`, or make it an outermost loop of the kernel"
            )
        offset = domain.offset if isinstance(domain, Field) else (0,) * len(domain.shape)
        return [self._ends(o, o + n) for o, n in zip(offset, domain.shape, strict=True)]

    def _ends(self, low: Any, high: Any) -> tuple[int, int]:
        for end in (low, high):
            dtype = emit.element(end)
            if dtype.is_float or getattr(end, "shape", ()) != ():
                raise WujiTypeError(f"range bounds must be integers, not {emit.describe(end)}")
        known = [e for e in (low, high) if not isinstance(e, Expr)]
        dtype = dtypes.i32
        for end in (low, high):
            t = emit.element(end)
            if isinstance(end, Expr) and not t.is_bool:
                dtype = dtypes.promote(dtype, t) if dtype is not t else t
        least, most = dtype.range()
        if any(not least <= int(k) <= most for k in known):
            dtype = dtypes.i64
        return emit.convert(low, dtype).id, emit.convert(high, dtype).id

    def _bind_indices(self, node: ast.For, domain: Any, indices: list[Expr], grouped: bool) -> None:
        if isinstance(domain, RangeVal) and domain.item is not None:
            if grouped or not isinstance(node.target, ast.Name):
                found = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 1
                raise WujiSyntaxError(f"Mesh for should have 1 loop target, found {found}: a loop over elements of a mesh yields one element at a time" + ("; `ti.grouped` does not apply" if grouped else ""))
            self.bind(node.target, domain.item(self.cx, indices[0]))
            return
        if isinstance(domain, NDRange) and domain.nested:
            value = domain.shape_like(indices)
            self.bind(node.target, value)
            return
        if grouped:
            if not isinstance(node.target, ast.Name):
                count = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 0
                raise WujiSyntaxError(f"Group for should have 1 loop target, found {count}: `ti.grouped` yields one index vector")
            # The only element of something without axes has no index: `x[()]` is `x[None]`.
            self.bind(node.target, emit.compose(list(indices), (len(indices),)) if indices else ())
            return
        names = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 1
        if names != len(indices) or isinstance(node.target, (ast.Tuple, ast.List)) and names == 1 and len(indices) == 1:
            if names == len(indices):
                self.bind(node.target, tuple(indices))
                return
            raise WujiSyntaxError(
                f"Number of struct-for indices does not match loop variable dimensionality ({names} != {len(indices)})"
                + ("\n  = help: `for I in ti.grouped(...)` yields the indices as a vector" if names == 1 else "")
            )
        self.bind(node.target, indices[0] if names == 1 else tuple(indices))

    # Serial.
    def _serial(self, node: ast.For, domain: Any, grouped: bool) -> None:
        b = self.b
        bounds = self._bounds(domain)
        several = len(bounds) > 1
        break_label = b.begin_block() if several else None
        indices: list[Expr] = []
        labels: list[int] = []
        for low, high in bounds:
            one = b.const(b.type_of(low), 1)
            label, index = b.begin_for(low, high, one)
            labels.append(label)
            indices.append(Expr(index, dtypes.by_ir(b.type_of(index))))
        if not bounds:
            labels = [b.begin_block()]
        self.scope.push()
        self.depth += 1
        elements = self.cx.mesh_elements
        continue_label = labels[-1] if bounds else None
        self.loops.append(Loop("serial", break_label if several else labels[0], continue_label))
        try:
            self._bind_indices(node, domain, indices, grouped)
            self.body(node.body)
        finally:
            self.loops.pop()
            self.depth -= 1
            self.scope.pop()
            self.cx.mesh_elements = elements
        for _ in bounds:
            b.end_for()
        if several or not bounds:
            b.end_block()

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            raise WujiSyntaxError("'else' clause for 'while' not supported in Taichi kernels")
        b = self.b
        label = b.begin_loop()
        self.scope.push()
        self.depth += 1
        self.loops.append(Loop("serial", label, label))
        try:
            test = self.value(node.test)
            if is_device(test):
                b.begin_if(emit.logical_not(emit.condition(test, "while")).id)
                b.jump_break(label)
                b.end_if()
            elif not self.known(node.test, test, "a condition"):
                b.jump_break(label)
            self.body(node.body)
        finally:
            self.loops.pop()
            self.depth -= 1
            self.scope.pop()
        b.end_loop()

    # Static.
    def _static_for(self, node: ast.For) -> None:
        from .function import StaticBreak, StaticContinue

        items = list(static_iterable(self.value(node.iter)))
        limit = self.cx.runtime.config.unrolling_limit  # type: ignore[attr-defined]
        if limit and len(items) > limit:
            self.warn(
                f"You are unrolling more than {limit} iterations, so the compile time may be extremely long: the loop is unrolled {len(items)} times\n"
                "  = help: use a loop without `ti.static`, or disable this warning with `ti.init(unrolling_limit=0)`",
                node,
            )
        self.loops.append(Loop("static", None, None, self.depth))
        depth = self.depth
        try:
            for item in items:
                if self.b.closed():
                    return
                self.scope.push()
                try:
                    self.bind(node.target, item)
                    self.body(node.body)
                except StaticContinue:
                    pass
                except StaticBreak:
                    break
                finally:
                    self.scope.pop()
                    self.depth = depth
        finally:
            self.loops.pop()

    # Jumps.
    def _jump(self, word: str) -> None:
        from .function import StaticBreak, StaticContinue

        if not self.loops:
            raise WujiSyntaxError(f"`{word}` outside a loop")
        loop = self.loops[-1]
        if loop.kind == "static":
            if self.depth > loop.depth:
                raise WujiSyntaxError(
                    f"`{word}` in a static loop depends on a run-time condition\n"
                    "  = help: remove `ti.static` from the loop, or make the condition static"
                )
            raise StaticBreak if word == "break" else StaticContinue
        if word == "break":
            if loop.kind == "parallel":
                raise WujiSyntaxError(
                    "Cannot break in the outermost loop: a parallel loop runs its iterations concurrently\n"
                    "  = help: `ti.loop_config(serialize=True)` before the loop makes it serial; or move the `break` into an inner loop"
                )
            assert loop.break_label is not None
            self.b.jump_break(loop.break_label)
        else:
            if loop.continue_label is None:
                assert loop.break_label is not None
                self.b.jump_break(loop.break_label)
            else:
                self.b.jump_continue(loop.continue_label)

    def visit_Break(self, node: ast.Break) -> None:
        self._jump("break")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._jump("continue")


def _rank(domain: Any) -> int:
    """Return the number of axes that a loop iterates over."""
    if isinstance(domain, ArrayVal):
        return domain.ndim
    if isinstance(domain, (Field, SNode)):
        return len(domain.shape)
    return len(domain.axes)


def _is_sparse(domain: Any) -> bool:
    """Return whether a loop iterates over active cells."""
    if isinstance(domain, Field):
        domain = domain.node
    return isinstance(domain, SNode) and domain.is_sparse


def static_iterable(value: Any) -> Iterable[Any]:
    """Return the items that a static loop is unrolled over."""
    if isinstance(value, RangeVal):
        low, high = value.axes[0]
        if is_device(low) or is_device(high):
            raise WujiTypeError("the bounds of a static range must be compile-time constants")
        return range(int(low), int(high))
    if isinstance(value, Grouped):
        if isinstance(value.over, NDRange):
            return value.over.vectors()
        raise WujiTypeError("a static loop cannot iterate over a field\n  = help: remove `ti.static`")
    if isinstance(value, NDRange):
        return value.items()
    if isinstance(value, Expr):
        if value.shape:
            return [value[k] for k in range(value.shape[0])]
        raise WujiTypeError(f"{emit.describe(value)} cannot be iterated over")
    if isinstance(value, (Field, ArrayVal)):
        raise WujiTypeError("a static loop cannot iterate over a field\n  = help: remove `ti.static`")
    if not isinstance(value, Iterable):
        raise WujiTypeError(f"{emit.describe(value)} cannot be iterated over")
    return value
