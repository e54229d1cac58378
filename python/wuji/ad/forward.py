"""Forward mode: tangents of outputs along one direction of a parameter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..exceptions import WujiAssertionError, WujiRuntimeError
from ..lang import recording
from ..lang.access_log import AccessLog
from ..lang.enums import SNodeGradType
from ..lang.field import Field
from ..lang.kernel import Kernel
from ..lang.ndarray import Ndarray
from ..lang.snode import SNode
from .carried import Carried
from .cells import StoredCells
from .gradients import clear_all_gradients, zero_at

_NO_SEED = (
    "`seed` is not set for non 0-D field, please specify\n"
    "  = help: `seed` has a number for each element of the parameter: the direction of the derivative. [0, 0, 1] is the derivative by the third element"
)


class FwdMode:
    """Makes launches in its block compute tangents, too: a Jacobian-vector product.

    Args:
        loss: The fields or arrays whose tangents are wanted: `loss.dual`. They need `needs_dual=True`.
        param: The field or array to differentiate by, with `needs_dual=True`.
        seed: The direction: a number for each element of `param`. Not needed for a 0-D field.
        clear_gradients: Set all tangents to zero first.

    ```python
    with ti.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0]):
        compute()
    print(y.dual[0])  # dy[0] / dx[0]
    ```
    """

    computes_tangents = True

    def __init__(self, loss: Any, param: Any, seed: Any = None, clear_gradients: bool = True) -> None:
        self.losses = list(loss) if isinstance(loss, (list, tuple)) else [loss]
        self.param = param
        self.seed = seed
        self.clear_gradients = clear_gradients
        self.thread = threading.get_ident()
        self.entered = False
        self.log = AccessLog()
        self.carried = Carried("dual")
        self.mode = "forward"  # or "constant", for launches that end tangents

    def __enter__(self) -> FwdMode:
        if self.entered:
            raise WujiAssertionError("Forward mode manager can be entered only once.")
        if recording.current() is not None:
            raise WujiRuntimeError(
                "`FwdMode` cannot be entered in the block of a tape, or of another `FwdMode`\n"
                "  = help: for second derivatives, use the tape in the block of `FwdMode`, and read `x.grad.dual`",
                "W0734",
            )
        for what, data in [("parameter", self.param), *(("loss", loss) for loss in self.losses)]:
            if not isinstance(data, (Field, Ndarray)):
                raise WujiRuntimeError(f"the {what} of `FwdMode` must be a field or a `ti.ndarray`, not {type(data).__name__}")
            if not _has_dual(data):
                raise WujiRuntimeError(f"the {what} of `FwdMode` has no `dual`\n  = help: create it with `needs_dual=True`")
        seed = self._direction()
        if self.clear_gradients:
            clear_all_gradients(SNodeGradType.DUAL)
        self.param.dual.from_numpy(seed)
        self.entered = True
        self.thread = threading.get_ident()
        recording.active.append(self)
        return self

    def _direction(self) -> Any:
        import numpy

        dual = self.param.dual
        elements = dual.to_numpy()
        if isinstance(elements, dict):
            raise WujiRuntimeError("the parameter of `FwdMode` cannot be a struct field; use one of its members")
        if self.seed is None:
            if elements.size != 1:
                raise WujiRuntimeError(_NO_SEED)
            return numpy.ones_like(elements)
        given = numpy.asarray(self.seed.to_numpy() if isinstance(self.seed, Field) else self.seed, elements.dtype)
        if given.size != elements.size:
            raise WujiAssertionError(f"`seed` has {given.size} numbers, but the parameter has {elements.size}")
        return given.reshape(elements.shape)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self in recording.active:
            recording.active.remove(self)
        self.param.dual.fill(0.0)

    def launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launch a kernel that also computes tangents."""
        full = kernel._bind(args, named)
        result = kernel._call(full, {}, self.mode)
        self.log.add(kernel, full)
        if self.mode == "forward":
            self.carried.launch(kernel, kernel._code(full, "forward"), full)
        return result

    @contextmanager
    def constants(self) -> Iterator[None]:
        """In the block, what launches write has no tangents."""
        before, self.mode = self.mode, "constant"
        try:
            yield
        finally:
            self.mode = before

    def write(self, written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
        """Constants that replace results have no tangents."""
        if self.log.accesses(written):
            clear("dual")

    def deactivate(self, part: SNode, change: Callable[[], None]) -> None:
        """Deactivated elements have no tangents."""
        cells = StoredCells(part)
        before = cells.elements()
        change()
        after = cells.elements()
        for leaf in self.log.leaves():
            if leaf.dual is not None and leaf.dual.native is not None:
                for at in before.get(leaf.key, set()) - after.get(leaf.key, set()):
                    zero_at(leaf.dual, at)

    def gradients_run(self) -> None:
        """Gradients are not tangents."""

    def copy(self, to: Any, source: Any) -> None:
        """Copy the tangents, too."""
        if _has_dual(to):
            with recording.paused():
                if _has_dual(source) and self.mode == "forward":
                    to.dual.copy_from(source.dual)
                else:
                    to.dual.fill(0.0)


def _has_dual(data: Any) -> bool:
    if isinstance(data, Ndarray):
        return data.dual is not None
    return isinstance(data, Field) and all(leaf.dual is not None and leaf.dual.node is not None for leaf in data._leaves())
