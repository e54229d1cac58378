"""Name lookup in a function under compilation."""

from __future__ import annotations

import builtins
from typing import Any

from ...exceptions import WujiNameError
from .source import Source

_MISSING = object()


class Scope:
    """A stack of block scopes. A name defined in a block ends with the block."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.blocks: list[dict[str, Any]] = [{}]
        self.ended: set[str] = set()  # names of closed blocks, for error messages

    def push(self) -> None:
        self.blocks.append({})

    def pop(self) -> None:
        self.ended.update(self.blocks.pop())

    def local(self, name: str) -> Any:
        """Return what a local name is bound to, or `MISSING`."""
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        return _MISSING

    def is_local(self, name: str) -> bool:
        """Return whether the name is a local name that is visible here."""
        return any(name in block for block in self.blocks)

    def define(self, name: str, value: Any) -> None:
        self.blocks[-1][name] = value

    def redefine(self, name: str, value: Any) -> None:
        """Rebind an existing name in the block that defines it."""
        for block in reversed(self.blocks):
            if name in block:
                block[name] = value
                return

    def find(self, name: str) -> Any:
        found = self.local(name)
        if found is not _MISSING:
            return found
        source = self.source
        if name in source.outer:
            return source.outer[name]
        if name in source.globals:
            return source.globals[name]
        found = getattr(builtins, name, _MISSING)
        if found is not _MISSING:
            return found
        raise WujiNameError(f'Name "{name}" is not defined{self._hint(name)}')

    def _hint(self, name: str) -> str:
        if name in self.ended:
            return (
                "\n  = note: it is only defined inside an inner block, such as the body of an `if` or a loop"
                "\n  = help: assign to it before the block"
            )
        import difflib

        known = [*self.source.globals, *self.source.outer, *(n for b in self.blocks for n in b)]
        near = difflib.get_close_matches(name, known, 1)
        return f"\n  = help: did you mean `{near[0]}`?" if near else ""


MISSING = _MISSING
