"""What can go wrong, as classes. Each has the name that programs written for Taichi catch."""

from __future__ import annotations


class WujiError(Exception):
    """Anything that Wuji refuses or reports.

    ``code`` is the number in the book's index of errors, such as ``W0204``; empty where there is none.
    """

    code: str = ""

    def __init__(self, message: str = "", code: str = "") -> None:
        self.said = message  # without the code
        if code:
            self.code = code
            if not message.startswith("error["):
                message = f"error[{code}]: {message}"
        super().__init__(message)


class WujiCompilationError(WujiError):
    """A kernel cannot be compiled."""


class WujiSyntaxError(WujiCompilationError, SyntaxError):
    """Python that the kernel language does not have."""

    def __str__(self) -> str:
        # That of SyntaxError adds a place of its own.
        return str(self.args[0]) if self.args else ""


class WujiNameError(WujiCompilationError, NameError):
    """A name that nothing has."""


class WujiTypeError(WujiCompilationError, TypeError):
    """Types that do not go together."""


class WujiIndexError(WujiCompilationError, IndexError):
    """Indices that do not fit what they are for."""


class WujiRuntimeError(WujiError, RuntimeError):
    """Something went wrong outside of the compiler: in a launch, in a layout, with data."""


class WujiAssertionError(WujiRuntimeError, AssertionError):
    """An assertion of a kernel failed."""


class WujiRuntimeTypeError(WujiRuntimeError, TypeError):
    """An argument of a kernel is not of its type."""

    @classmethod
    def argument(cls, name: str, needed: object, provided: object) -> WujiRuntimeTypeError:
        return cls(f"Argument `{name}` cannot be converted into required type {needed}; it is {provided}")


class WujiArrayError(WujiRuntimeTypeError, ValueError):
    """An array is not of the type that a kernel says. Taichi raises a `ValueError`."""


class WujiCallError(WujiRuntimeTypeError, WujiSyntaxError):
    """A kernel is called with too many arguments, or too few. Taichi raises a `TaichiSyntaxError`."""


class NotYet(WujiError, NotImplementedError):
    """A name of the contract that this version does not have."""


TaichiCompilationError = WujiCompilationError
TaichiSyntaxError = WujiSyntaxError
TaichiNameError = WujiNameError
TaichiTypeError = WujiTypeError
TaichiIndexError = WujiIndexError
TaichiRuntimeError = WujiRuntimeError
TaichiAssertionError = WujiAssertionError
TaichiRuntimeTypeError = WujiRuntimeTypeError

__all__ = [
    "NotYet",
    "TaichiAssertionError",
    "TaichiCompilationError",
    "TaichiIndexError",
    "TaichiNameError",
    "TaichiRuntimeError",
    "TaichiRuntimeTypeError",
    "TaichiSyntaxError",
    "TaichiTypeError",
    "WujiAssertionError",
    "WujiCompilationError",
    "WujiError",
    "WujiIndexError",
    "WujiNameError",
    "WujiRuntimeError",
    "WujiRuntimeTypeError",
    "WujiSyntaxError",
    "WujiTypeError",
]
