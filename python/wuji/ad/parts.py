"""Kernels that run in parts on a tape, because they overwrite values that their own gradients need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..exceptions import WujiError
from ..lang.kernel import Kernel, Specialization
from .cells import StoredCells
from .stored import StoredArray, StoredField
from .versions import CellUse, Use, cell_uses_of, needs_both, uses_of

# With these, a gradient is refused that may exist for parts of its kernel.
_MAY_SPLIT = ("W0706", "W0736")


class Piece:
    """A launch, or a part of one, that a tape records."""

    __slots__ = ("cells", "code", "redo", "undo", "uses")

    def __init__(self, code: Callable[[], Specialization], uses: list[Use], cells: list[CellUse], redo: Callable[[], Any], undo: Callable[[], Any]) -> None:
        self.code = code
        self.uses = uses
        self.cells = cells
        self.redo = redo
        self.undo = undo  # propagates gradients


def parts_of(kernel: Kernel, args: tuple[Any, ...], mode: str, why: WujiError) -> Specialization | None:
    """Return the code of a kernel that runs in parts, because its gradient is refused; None if parts do not help."""
    if why.code not in _MAY_SPLIT:
        return None
    try:
        return kernel._parts(args, mode)
    except WujiError as error:
        if error.code == why.code:
            raise error from None  # it says why there are no parts
        return None


def pieces(kernel: Kernel, args: tuple[Any, ...], kept: tuple[Any, ...], mode: str, parts: Specialization) -> Iterator[Piece]:
    """Yield the parts of a launch."""
    for number, (code, gradient) in enumerate(parts.parts):
        uses = uses_of(gradient, args, mode == "second")

        def redo(number: int = number) -> Any:
            return kernel._call(kept, {}, f"{mode}+parts", (number, 0))

        def undo(number: int = number) -> Any:
            return kernel._call(kept, {}, f"{mode}+parts", (number, 1))

        def code_of(code: Specialization = code) -> Specialization:
            return code

        yield Piece(code_of, uses, cell_uses_of(gradient, uses), redo, undo)


def gradient_in_parts(kernel: Kernel, args: tuple[Any, ...]) -> bool:
    """Run the gradient of a launch whose kernel runs in parts: the kernel again, part by part, and then the gradients of the parts.

    Return whether that was necessary. Fields and arrays have the same values before and after.
    """
    refused: WujiError | None
    try:
        code = kernel._code(args, "reverse")
        refused = needs_both(kernel.function.__name__, uses_of(code, args, False)) if _is_mixed(code) else None
    except WujiError as error:
        refused = error
    except (TypeError, OverflowError, ValueError, KeyError):
        # Arguments that do not fit raise in the launch.
        return False
    if refused is None:
        return False
    parts = parts_of(kernel, args, "reverse", refused)
    if parts is None:
        raise refused
    from .tape import Tape

    tape = Tape(clear_gradients=False)
    copies = list(_written(parts, args))
    try:
        for piece in pieces(kernel, args, args, "reverse", parts):
            Tape._record([tape], kernel, args, piece)
        tape.replay()
    finally:
        for restore in copies:
            restore()
    return True


def _is_mixed(code: Specialization) -> bool:
    """Return whether the gradient may need values of a field or array from before and after the launch."""
    for uses in (code.uses, code.array_uses):
        old, new = ({use[0] for use in uses if use[1] == kind} for kind in ("old", "new"))
        if old & new:
            return True
    return False


def _written(code: Specialization, args: tuple[Any, ...]) -> Iterator[Callable[[], None]]:
    """Copy what a launch may overwrite. Yield functions that write the copies back."""
    known: dict[int, StoredCells] = {}
    for part, gradient in code.parts:
        for access in (*part.sparse, *gradient.sparse):
            known.setdefault(id(access.part._structure), StoredCells(access.part))
    for cells in known.values():
        snapshot = cells.snapshot()
        yield functools.partial(cells.return_to, snapshot)
    for place, number in code.writes:
        if place == "f" and number in code.leaves:
            data: StoredField | StoredArray = StoredField(code.leaves[number])
        elif place == "a" and number in code.arrays:
            name, get = code.arrays[number]
            data = StoredArray(get(args), name)
        else:
            continue
        yield functools.partial(data.restore, data.copy())
