"""Values that gradients need and later launches overwrite: a tape keeps copies of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..exceptions import WujiAssertionError, WujiRuntimeError
from .cells import StoredCells
from .stored import Stored, StoredArray, StoredField

# An index for each axis; None is any index.
Slice = tuple[int | None, ...]
# The active elements of fields, before and after cells have been deactivated.
Removed = tuple[dict[Any, set[tuple[int, ...]]], dict[Any, set[tuple[int, ...]]]]
# Later than all steps.
_END = sys.maxsize


class Use:
    """How a launch, or its gradient, uses a field or array."""

    __slots__ = ("at", "data", "kind", "slice")

    def __init__(self, data: Stored, kind: str, where: Slice, at: str) -> None:
        self.data = data
        self.kind = kind  # "old", "new", "reads" or "writes"
        self.slice = where
        self.at = at


class CellUse:
    """How a launch uses the active cells of an independent part of a tree."""

    __slots__ = ("cells", "changes", "deactivates", "loops")

    def __init__(self, cells: StoredCells, loops: bool, changes: bool, deactivates: bool) -> None:
        self.cells = cells
        self.loops = loops
        self.changes = changes or deactivates
        self.deactivates = deactivates


class _Change:
    """A change of active cells that is about to happen."""

    __slots__ = ("before", "elements", "state", "use")

    def __init__(self, state: _State, use: CellUse) -> None:
        self.state = state
        self.use = use
        self.before = use.cells.copy() if use.changes else []
        self.elements = use.cells.elements() if use.deactivates else {}


class Region:
    """Elements of a field or array, or more: values along the first axis on which the index of an access is known."""

    __slots__ = ("axes", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.axes: dict[int, set[int]] = {}

    def add(self, where: Slice) -> None:
        if self.whole:
            return
        for axis, index in enumerate(where):
            if index is not None:
                self.axes.setdefault(axis, set()).add(index)
                return
        self.whole = True
        self.axes.clear()

    @property
    def is_empty(self) -> bool:
        return not self.whole and not self.axes

    def overlaps(self, where: Slice) -> bool:
        """Return whether an element may be in both."""
        if self.whole:
            return True
        for axis, values in self.axes.items():
            index = where[axis] if axis < len(where) else None
            if index is None or index in values:
                return True
        return False


class _State:
    """A field or array that launches on a tape use."""

    def __init__(self, data: Stored | StoredCells) -> None:
        self.data = data
        self.needed = Region()  # what gradients need of the current values
        self.needed_at = ""
        self.seen: Any = None  # the needed values, where the host may write unnoticed
        self.version = 0
        self.copies: list[tuple[int, Any]] = []  # number of the step that overwrites the values, and the values
        self.last: Any = None
        self.now: int | None = None  # the copy that the data holds while gradients run; None is the last values


class Versions:
    """Which values of each field and array the gradients of recorded launches need."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict  # refuse instead of copying
        self._states: dict[Any, _State] = {}
        self._uses: dict[int, list[Use]] = {}  # by number of the step
        self._cell_uses: dict[int, list[CellUse]] = {}
        self._changes: list[_Change] = []

    def _state(self, data: Stored | StoredCells) -> _State:
        found = self._states.get(data.key)
        if found is None:
            found = self._states[data.key] = _State(data)
        return found

    def launch(self, step: int, name: str, uses: list[Use], cells: list[CellUse]) -> None:
        """Get ready for a launch that is about to run."""
        self._changes = [self._prepare(step, use) for use in cells]
        self._cell_uses[step] = cells
        _check_aliases(name, uses)
        refused = needs_both(name, uses)
        if refused is not None:
            raise refused
        for use in uses:
            if use.kind == "old":
                self._need(step, use)
        for use in uses:
            if use.kind == "writes":
                self._overwrite(step, use.data, use.slice, f"(kernel={name}) ", use.at)
        self._uses[step] = uses

    def _prepare(self, step: int, use: CellUse) -> _Change:
        """Get ready for a launch, or an action of the host, that may change active cells."""
        state = self._state(use.cells)
        if use.deactivates:
            state.needed.add(())
            for other in self._fields_of(use.cells):
                if not other.needed.is_empty:
                    self._keep(step, other, "", "")
        return _Change(state, use)

    def _finish(self, step: int, name: str, change: _Change) -> Removed | None:
        """Note what has changed. Return the elements that are gone."""
        state, use = change.state, change.use
        after = use.cells.copy() if use.changes else []
        if after != change.before:
            added = any(now - before for now, before in zip(after, change.before, strict=True))
            if added and (use.loops or use.deactivates):
                raise WujiRuntimeError(
                    f"kernel `{name}` activates cells of a sparse node, and loops over its active cells or deactivates some: its gradient needs {use.cells.name} from before and from after it\n"
                    "  = help: split the kernel in two",
                    "W0736",
                )
            if not state.needed.is_empty:
                state.copies.append((step, change.before))
                state.needed = Region()
        if not use.deactivates:
            state.needed.add(())
            return None
        return change.elements, use.cells.elements()

    def deactivate(self, step: int, cells: StoredCells, change: Callable[[], None]) -> list[Removed]:
        """Let the host deactivate cells. Return the elements that are gone."""
        use = CellUse(cells, False, True, True)
        prepared = self._prepare(step, use)
        change()
        removed = self._finish(step, "", prepared)
        return [] if removed is None else [removed]

    def deactivating(self, step: int, cells: StoredCells) -> None:
        """Get ready for a change of active cells that is not recorded."""
        for state in [*self._fields_of(cells), self._state(cells)]:
            if not state.needed.is_empty:
                self._keep(step, state, "", "")

    def keep_all(self, step: int) -> None:
        """Get ready for anything."""
        for state in self._states.values():
            if not state.needed.is_empty:
                self._check_watched(step, state)
            if not state.needed.is_empty:
                self._keep(step, state, "", "")

    def restored(self) -> list[Stored | StoredCells]:
        """Return what gets other values while gradients run."""
        return [state.data for state in self._states.values() if state.copies]

    def _fields_of(self, cells: StoredCells) -> Iterator[_State]:
        for state in self._states.values():
            if isinstance(state.data, StoredField) and cells.has(state.data.leaf):
                yield state

    def launched(self, step: int, name: str) -> list[Removed]:
        """Note what the gradient of a launch needs of the values that it has left. Return the elements that it has deactivated."""
        removed = [found for change in self._changes if (found := self._finish(step, name, change)) is not None]
        self._changes = []
        for use in self._uses[step]:
            if use.kind == "new":
                self._need(step, use)
        return removed

    def write(self, step: int, data: Stored) -> None:
        """Get ready for a write other than by a recorded launch."""
        self._overwrite(step, data, (None,) * 8, "", "")
        cells = StoredCells.of(data.leaf) if isinstance(data, StoredField) else None
        state = None if cells is None else self._states.get(cells.key)
        if state is not None and not state.needed.is_empty:
            state.copies.append((step, state.data.copy()))
            state.needed = Region()

    def _need(self, step: int, use: Use) -> None:
        state = self._state(use.data)
        if isinstance(use.data, StoredArray):
            self._watch(step, state, use.data)
        state.needed.add(use.slice)
        state.needed_at = use.at

    def _watch(self, step: int, state: _State, data: StoredArray) -> None:
        """Notice writes of the host to the memory of another library, now and later."""
        if not state.needed.is_empty:
            self._check_watched(step, state)
        state.version = data.version
        if data.is_watched and state.needed.is_empty:
            state.seen = data.copy()

    def _check_watched(self, step: int, state: _State) -> None:
        """Keep values that the host has overwritten before this step."""
        data = state.data
        if not isinstance(data, StoredArray):
            return
        if data.version != state.version:
            raise WujiRuntimeError(
                f"values of {data.name} that a gradient needs have been modified by an operation of torch\n"
                f"  = note: a gradient needs the value that is read at {state.needed_at}\n"
                "  = help: let torch write to another tensor, or `clone()` it first",
                "W0738",
            )
        if state.seen is not None and not data.equals(state.seen):
            self._keep(step, state, "", "")

    def _states_of(self, data: Stored) -> Iterator[_State]:
        """Yield what may share elements with a field or array."""
        if isinstance(data, StoredField):
            if data.key in self._states:
                yield self._states[data.key]
            return
        for state in self._states.values():
            if state.data.overlaps(data):
                yield state

    def _overwrite(self, step: int, data: Stored, where: Slice, who: str, at: str) -> None:
        for state in self._states_of(data):
            if state.needed.overlaps(where if state.data.key == data.key else (None,) * 8):
                self._check_watched(step, state)
                if not state.needed.is_empty:
                    self._keep(step, state, who, at)

    def _keep(self, step: int, state: _State, who: str, at: str) -> None:
        if self.strict:
            name = state.data.name
            raise WujiAssertionError(
                f"{who}Breaks the global data access rule. {name[0].upper()}{name[1:]} is overwritten unexpectedly"
                + (f" at {at}" if at else "")
                + (f"\n  = note: a gradient needs the value that is read at {state.needed_at}" if state.needed_at else "")
                + "\n  = help: store to another element, such as `x[t + 1, i]`; without `validation`, the tape keeps a copy"
            )
        state.copies.append((step, state.data.copy() if state.seen is None else state.seen))
        state.needed, state.seen = Region(), None

    # While gradients run.
    def begin(self) -> None:
        """Keep the last values of what has copies."""
        for state in self._states.values():
            if not state.needed.is_empty:
                self._check_watched(_END, state)
        for state in self._states.values():
            if state.copies:
                state.last, state.now = state.data.snapshot() if isinstance(state.data, StoredCells) else state.data.copy(), None

    def bring(self, step: int) -> None:
        """Give fields and arrays the values, and trees the active cells, that the gradient of a launch needs."""
        for cell_use in self._cell_uses.get(step, ()):
            self._bring_one(self._states[cell_use.cells.key], step if cell_use.deactivates else step + 1)
        # Where old values are needed, the others are the same before and after the launch.
        for kind, time in (("new", step + 1), ("old", step)):
            for use in self._uses.get(step, ()):
                if use.kind == kind:
                    self._bring_one(self._states[use.data.key], time)

    def _bring_one(self, state: _State, time: int) -> None:
        if not state.copies:
            return
        wanted = next((n for n, (before, _) in enumerate(state.copies) if before >= time), None)
        if wanted == state.now:
            return
        data, last = state.data, state.last
        if isinstance(data, StoredCells):
            data.restore(last[0] if wanted is None else state.copies[wanted][1])
            disturbed = self._fields_of(data)
        else:
            data.restore(last if wanted is None else state.copies[wanted][1])
            disturbed = self._states_of(data)
        for other in disturbed:
            other.now = -1
        state.now = wanted

    def disturb(self) -> None:
        """Forget which values fields hold: code of the user has run."""
        for state in self._states.values():
            state.now = -1

    def end(self) -> None:
        """Restore the last values."""
        for state in self._states.values():
            if isinstance(state.data, StoredCells) and state.copies and state.now is not None:
                state.data.return_to(state.last)
                state.now = None
        for state in self._states.values():
            if state.copies and state.now is not None:
                state.data.restore(state.last)
            state.last = None


def needs_both(name: str, uses: list[Use]) -> WujiRuntimeError | None:
    """Return an error if a gradient needs an element as it was before and as it is after the launch."""
    old = {use.data.key for use in uses if use.kind == "old"}
    for use in uses:
        if use.kind != "new" or use.data.key not in old:
            continue
        written = Region()
        for other in uses:
            if other.kind == "writes" and other.data.key == use.data.key:
                written.add(other.slice)
        before = [u for u in uses if u.kind == "old" and u.data.key == use.data.key and written.overlaps(u.slice)]
        if before and written.overlaps(use.slice):
            return WujiRuntimeError(
                f"the gradient of kernel `{name}` needs values of {use.data.name} from before and from after it\n"
                f"  = note: it reads the value from before at {before[0].at}, and the one from after at {use.at}\n"
                "  = help: write to another field, or split the kernel in two",
                "W0736",
            )
    return None


def _check_aliases(name: str, uses: list[Use]) -> None:
    """Raise if a kernel writes to an array, and its gradient needs values of another argument that shares memory with it."""
    for use in uses:
        if use.kind not in ("old", "new") or not isinstance(use.data, StoredArray):
            continue
        for other in uses:
            if other.kind != "writes" or other.data is use.data or not use.data.overlaps(other.data):
                continue
            written = Region()
            written.add(other.slice)
            if other.data.key != use.data.key or written.overlaps(use.slice):
                raise WujiRuntimeError(
                    f"arguments of kernel `{name}` share memory: it writes to {other.data.name}, and its gradient needs values of {use.data.name}\n"
                    f"  = note: it reads at {use.at}, and writes at {other.at}\n"
                    "  = help: pass arrays that do not overlap",
                    "W0706",
                )


def cell_uses_of(code: Any, uses: list[Use]) -> list[CellUse]:
    """Return how a launch uses the active cells of sparse trees."""
    found = []
    for access in code.sparse:
        cells = StoredCells(access.part)
        writes = any(use.kind == "writes" and isinstance(use.data, StoredField) and cells.has(use.data.leaf) for use in uses)
        found.append(CellUse(cells, access.loops, access.activates or writes, access.deactivates))
    return found


def uses_of(code: Any, args: tuple[Any, ...], with_tangents: bool) -> list[Use]:
    """Return how a launch with these arguments uses fields and arrays."""
    values = list(code.take(args))

    def index(part: tuple[int | None, int] | None) -> int | None:
        if part is None:
            return None
        parameter, offset = part
        if parameter is None:
            return offset
        value = values[code.positions[parameter]]
        return int(value) + offset if hasattr(value, "__index__") else None

    fields = {number: StoredField(leaf, with_tangents) for number, leaf in code.leaves.items()}
    arrays = {number: StoredArray(get(args), name) for number, (name, get) in code.arrays.items()}
    return [
        Use(stored[number], kind, tuple(index(part) for part in where), at)
        for stored, uses in ((fields, code.uses), (arrays, code.array_uses))
        for number, kind, where, at in uses
        if number in stored
    ]
