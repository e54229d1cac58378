"""Reverse mode across kernels."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .. import _native
from ..exceptions import WujiAssertionError, WujiError, WujiRuntimeError
from ..lang import recording
from ..lang.access_log import AccessLog
from ..lang.allocation import allocate_tangent
from ..lang.arguments import gradient_of
from ..lang.field import Field
from ..lang.kernel import Kernel, Specialization
from ..lang.ndarray import Ndarray
from ..lang.snode import SNode
from .carried import Carried
from .cells import StoredCells, clear_gradients
from .gradients import clear_all_gradients
from .parts import Piece, parts_of, pieces
from .stored import Stored, StoredArray, StoredField
from .versions import CellUse, Removed, Use, Versions, cell_uses_of, needs_both, uses_of


class Step:
    """Something recorded: a launch, a call of a function with its own gradient, or a write of the host."""

    __slots__ = ("custom", "redo", "undo")

    def __init__(self, redo: Callable[[], Any], undo: Callable[[], Any], custom: bool = False) -> None:
        self.custom = custom  # code of the user
        self.redo = redo
        self.undo = undo  # propagates gradients


class Tape:
    """Records launches, and runs their gradients in reverse order at the end of the block.

    Args:
        loss: The scalar to differentiate: a 0-D field or an array of one element with `needs_grad=True`. It becomes zero when recording starts.
            Without it, set the gradients of the outputs yourself, and call `grad`.
        clear_gradients: Set all gradients to zero when recording starts.
        validation: Refuse launches that overwrite values that a gradient needs. Otherwise the tape keeps copies of these values.
        grad_check: Fields whose gradients are compared with finite differences at the end.

    ```python
    with ti.ad.Tape(loss):
        simulate()
    learn(x.grad)
    ```
    """

    computes_tangents = False

    def __init__(self, loss: Any = None, clear_gradients: bool = True, validation: bool = False, grad_check: Any = None) -> None:
        self.loss = loss
        self.clear_gradients = clear_gradients
        self.validation = validation
        self.thread = threading.get_ident()
        self.steps: list[Step] = []
        self.log = AccessLog()
        self.versions = Versions(validation)
        self.carried = Carried("grad")
        self.entered = False
        self.evaluated = False
        self.has_gradients = False  # gradients have been computed while this tape records
        self._checker: Any = None
        if grad_check is not None:
            from .check import GradChecker

            self._checker = GradChecker(loss, grad_check)

    # Recording.
    def __enter__(self) -> Tape:
        if self.entered:
            raise WujiAssertionError("Tape can be entered only once.")
        if self.loss is not None:
            _check_loss(self.loss)
            _fill(self.loss, 0.0)
            if recording.forward_mode() is not None and isinstance(self.loss, Field) and self.loss._leaves()[0].dual is not None:
                _fill(self.loss.dual, 0.0)
        if self.clear_gradients:
            clear_all_gradients()
        if self._checker is not None:
            self._checker.start()
        self.entered = True
        self.thread = threading.get_ident()
        recording.active.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self in recording.active:
            recording.active.remove(self)
        if kind is None and self.loss is not None and not self.evaluated:
            self.grad()
        elif kind is None and not self.evaluated:
            # Its gradients may run later. What others do then is none of its rules.
            self.versions.strict = False
            recording.watch(self)

    def launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launch a kernel, and record it."""
        full = kernel._bind(args, named)
        kept = tuple(
            copy.deepcopy(value) if p.kind == "value" and not isinstance(value, (int, float)) else value
            for p, value in zip(kernel.parameters, full, strict=True)
        )
        forward = recording.forward_mode() is not None
        result = None
        for piece in _pieces(kernel, full, kept, early=self.loss is not None, forward=forward):
            result = self._record(self._all(), kernel, kept, piece)
        if forward:
            _allocate_tangents(kernel._code(full, "forward"))
        return result

    @staticmethod
    def _record(tapes: list[Tape], kernel: Kernel, args: tuple[Any, ...], piece: Piece) -> Any:
        """Run a launch, or a part of one, and record it on tapes."""
        name = kernel.function.__name__
        for tape in tapes:
            tape._check_gradients(kernel, piece.uses)
            tape.versions.launch(len(tape.steps), name, piece.uses, piece.cells)
        for tape in tapes:
            if tape._checker is not None:
                tape._checker.see(piece.code(), args)
        result = piece.redo()
        for tape in tapes:
            removed = tape.versions.launched(len(tape.steps), name)
            tape.log.add(kernel, args)
            tape.carried.launch(kernel, piece.code(), args)

            def undo(log: AccessLog = tape.log, removed: list[Removed] = removed) -> None:
                _end_adjoints(log, removed)
                piece.undo()

            tape.steps.append(Step(piece.redo, undo))
        return result

    def deactivate(self, part: SNode, change: Callable[[], None]) -> None:
        """Record that the host deactivates cells."""
        innermost, *others = reversed(self._all())

        def nothing() -> None:
            """The innermost tape has done it."""

        for tape in (*others, innermost):
            tape._deactivate(StoredCells(part), change if tape is innermost else nothing)

    def _deactivate(self, cells: StoredCells, change: Callable[[], None]) -> None:
        removed, log = self.versions.deactivate(len(self.steps), cells, change), self.log
        # Steps do not refer to the tape: a cycle would keep it alive.
        self.steps.append(Step(change, lambda: _end_adjoints(log, removed)))

    def gradients_run(self) -> None:
        """Remember that gradients have been computed, which this tape has not recorded."""
        self.has_gradients = True

    def _check_gradients(self, kernel: Kernel, uses: list[Use]) -> None:
        """Raise where a launch reads gradients whose computation is not recorded."""
        for use in uses if self.has_gradients else ():
            if use.kind != "writes" and isinstance(use.data, StoredField) and use.data.leaf.kind == "grad":
                raise WujiRuntimeError(
                    f"kernel `{kernel.function.__name__}` reads {use.data.name} at {use.at}, which was computed in the block of this tape: gradients of gradients are not supported\n"
                    "  = help: for second derivatives, use a tape in the block of `ti.ad.FwdMode`, and read `x.grad.dual`",
                    "W0739",
                )

    def _all(self) -> list[Tape]:
        """Return this tape, and those around it."""
        return [tape for tape in recording.active if isinstance(tape, Tape) and tape.thread == self.thread]

    def insert(self, func: Any, args: tuple[Any, ...], named: dict[str, Any] | None = None) -> None:
        """Record a call of something with an attribute `grad` that propagates gradients."""
        given = named or {}

        def undo() -> None:
            if func.grad is None:
                raise WujiRuntimeError(
                    f"function `{getattr(func, '__name__', func)}` has no gradient\n  = help: state it with `@ti.ad.grad_for`"
                )
            func.grad(*args, **given)

        for tape in self._all() or [self]:
            tape.steps.append(Step(lambda: func(*args, **given), undo, custom=True))

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """In the block, keep what launches overwrite, but record nothing."""
        shadow = Overwriting(self)
        with recording.paused():
            recording.active.append(shadow)
            try:
                yield
            finally:
                recording.active.remove(shadow)

    def write(self, written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
        """Record a write of the host. What it overwrites has adjoints of its own if an earlier launch used it."""
        used = self.log.accesses(written)
        forward = recording.forward_mode()
        if forward is not None:
            forward.write(written, clear, redo)
        self._host_writes(written)
        for tape in self._all():
            tape.steps.append(Step(redo, (lambda: clear("grad")) if used else _nothing))

    def _host_writes(self, written: Any) -> None:
        for tape in self._all():
            for data in stored(written):
                tape.versions.write(len(tape.steps), data)
                tape.carried.forget(data)

    def copy(self, to: Any, source: Any) -> None:
        """Record that the host copies one field or array to another."""
        self._host_writes(to)
        forward = recording.forward_mode()
        if forward is not None:
            forward.copy(to, source)

        def undo() -> None:
            propagate(gradient(to), gradient(source))
            if forward is not None:
                propagate(_tangent(gradient(to)), _tangent(gradient(source)))

        for tape in self._all():
            tape.steps.append(Step(lambda: to.copy_from(source), undo))

    # Evaluation.
    def grad(self) -> None:
        """Run the gradients of everything recorded, in reverse order."""
        if not self.entered:
            raise WujiAssertionError("Before evaluating gradients tape must be entered.")
        if self.evaluated:
            raise WujiAssertionError("Gradients of grad can be evaluated only once.")
        if self in recording.active:
            recording.active.remove(self)
        recording.gradients_run()
        if self.loss is not None:
            _fill(gradient(self.loss), 1.0)
        self.replay()
        self.evaluated = True
        recording.unwatch(self)
        if self._checker is not None:
            self._checker.check(self.steps)

    def before_launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Keep what a launch after the block overwrites."""
        full = kernel._bind(args, named)
        self._keep(kernel._code(full, ""), full)

    def _keep(self, code: Specialization, args: tuple[Any, ...]) -> None:
        """Keep what a launch overwrites that is not recorded."""
        for place, number in code.writes:
            if place == "f" and number in code.leaves:
                self.versions.write(len(self.steps), StoredField(code.leaves[number]))
            elif place == "a" and number in code.arrays:
                name, get = code.arrays[number]
                self.versions.write(len(self.steps), StoredArray(get(args), name))
        for access in code.sparse:
            if access.activates or access.deactivates:
                self.before_deactivation(access.part)

    def before_write(self, written: Any) -> None:
        """Keep what the host overwrites after the block."""
        for data in stored(written):
            self.versions.write(len(self.steps), data)

    def before_deactivation(self, part: SNode) -> None:
        """Keep what is in the cells of a part of a tree."""
        self.versions.deactivating(len(self.steps), StoredCells(part))

    def _protect_others(self) -> None:
        """Let other tapes keep what this one changes while its gradients run."""
        custom = any(step.custom for step in self.steps)
        for other in recording.watchers():
            if not isinstance(other, Tape) or other is self:
                continue
            if custom:
                other.versions.keep_all(len(other.steps))
            for data in self.versions.restored():
                if isinstance(data, StoredCells):
                    other.before_deactivation(data.part)
                else:
                    other.versions.write(len(other.steps), data)

    def replay(self) -> None:
        """Propagate gradients through everything recorded."""
        self._protect_others()
        watched = self in recording.watchers()
        recording.unwatch(self)
        try:
            self._run_gradients()
        finally:
            if watched:
                recording.watch(self)

    def _run_gradients(self) -> None:
        with recording.paused():
            self.versions.begin()
            try:
                for number in reversed(range(len(self.steps))):
                    self.versions.bring(number)
                    self.steps[number].undo()
                    if self.steps[number].custom:
                        self.versions.disturb()
            finally:
                self.versions.end()


class Overwriting:
    """Records nothing, but keeps copies of what launches overwrite."""

    computes_tangents = False

    def __init__(self, tape: Tape) -> None:
        self.thread = tape.thread
        self.tapes = [other for other in recording.active if isinstance(other, Tape) and other.thread == tape.thread]

    def launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        full = kernel._bind(args, named)
        code = kernel._code(full, "")
        for tape in self.tapes:
            tape._keep(code, full)
        return kernel._call(full, {})

    def deactivate(self, part: SNode, change: Callable[[], None]) -> None:
        for tape in self.tapes:
            tape.before_deactivation(part)
        change()

    def gradients_run(self) -> None:
        for tape in self.tapes:
            tape.gradients_run()

    def write(self, written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
        self.copy(written, None)

    def copy(self, to: Any, source: Any) -> None:
        for tape in self.tapes:
            tape.before_write(to)


def _pieces(kernel: Kernel, args: tuple[Any, ...], kept: tuple[Any, ...], early: bool, forward: bool) -> Iterator[Piece]:
    """Yield what a launch consists of: itself, or its parts. A kernel without a gradient raises now, or when gradients are computed."""
    mode, gradient_mode = ("forward", "second") if forward else ("", "reverse")
    uses: list[Use] = []
    cells: list[CellUse] = []
    refused: WujiError | None
    try:
        code = kernel._code(args, "reverse")
        uses = uses_of(code, args, forward)
        cells = cell_uses_of(code, uses)
        refused = needs_both(kernel.function.__name__, uses)
    except WujiError as error:
        refused = error
    except (TypeError, OverflowError, ValueError, KeyError):
        # Arguments that do not fit raise in the launch.
        refused = None
    if refused is not None:
        if forward:
            # The gradients of the parts are compiled now.
            _allocate_tangents(kernel._code(args, mode))
        parts = parts_of(kernel, args, gradient_mode, refused)
        if parts is not None:
            yield from pieces(kernel, args, kept, gradient_mode, parts)
            return
        if early and refused.code.startswith("W07"):
            raise refused
    yield Piece(
        lambda: kernel._code(args, mode),
        uses,
        cells,
        lambda: kernel._call(kept, {}, mode),
        lambda: kernel._call(kept, {}, gradient_mode),
    )


def stored(data: Any) -> list[Stored]:
    """Return what a field or array consists of."""
    if isinstance(data, Field):
        return [StoredField(leaf) for leaf in data._leaves()]
    return [StoredArray(data, "")]


def _end_adjoints(log: AccessLog, removed: list[Removed]) -> None:
    """Set the gradients of elements to zero that have been deactivated."""
    for before, after in removed:
        clear_gradients(log.leaves(), before, after)


def _nothing() -> None:
    """Propagate nothing."""


def _tangent(field: Any) -> Any:
    """Return the tangent of a gradient, if it is allocated."""
    if not isinstance(field, Field) or any(leaf.dual is None or leaf.dual.native is None for leaf in field._leaves()):
        return None
    return field.dual


def _allocate_tangents(code: Specialization) -> None:
    """Allocate the tangents of the gradients that a kernel computes."""
    for leaf in code.leaves.values():
        if leaf.grad is not None and leaf.grad.native is not None and leaf.dual is not None and leaf.dual.native is not None:
            allocate_tangent(leaf.grad)


def propagate(to: Any, source: Any) -> None:
    """Propagate gradients through a copy."""
    if to is None:
        return
    if source is not None:
        accumulate(source, to)
    _fill(to, 0.0)


def accumulate(to: Any, added: Any) -> None:
    """Add one field or array to another."""
    values, more = to.to_numpy(), added.to_numpy()
    to.from_numpy({k: values[k] + more[k] for k in values} if isinstance(values, dict) else values + more)


def gradient(data: Any) -> Any:
    """Return the gradient of a field, array or tensor; None if there is none."""
    if isinstance(data, Field):
        return data.grad if data.needs_grad else None
    return gradient_of(data)


def _check_loss(loss: Any) -> None:
    if isinstance(loss, Field):
        if len(loss.shape) != 0:
            raise WujiRuntimeError(f"The loss of `Tape` must be a 0-D field, i.e. scalar, not one of shape {loss.shape}")
        if not loss.needs_grad:
            raise WujiRuntimeError(
                "Gradients of loss are not allocated, please use ti.field(..., needs_grad=True) for all fields that are required by autodiff."
            )
        return
    if isinstance(loss, Ndarray):
        if loss._get_nelement() != 1:
            raise WujiRuntimeError(f"The loss of `Tape` must be an ndarray with only one element, not of shape {loss.shape}")
    elif _native.describe_array(loss) is None:
        raise WujiRuntimeError(f"The loss of `Tape` must be a field, an array or a tensor, not {type(loss).__name__}")
    elif getattr(loss, "numel", lambda: 1)() != 1:
        raise WujiRuntimeError("The loss of `Tape` must be a tensor only contains one element")
    if gradient_of(loss) is None:
        raise WujiRuntimeError("Gradients of loss are not allocated, please set needs_grad=True for all ndarrays that are required by autodiff.")


def _fill(data: Any, value: float) -> None:
    """Fill a field, array or tensor, without recording it."""
    with recording.paused():
        if isinstance(data, (Field, Ndarray)):
            data.fill(value)  # type: ignore[union-attr]
        else:
            data.data.fill_(value)
