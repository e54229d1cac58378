"""Exception classes. Each one is also available under Taichi's name for it."""

from __future__ import annotations


class WujiError(Exception):
    """Base class of all errors that Wuji raises.

    ``code`` identifies the error in the documentation's error index, such as ``W0204``. It is empty for errors without a page there.
    """

    code: str = ""

    def __init__(self, message: str = "", code: str = "") -> None:
        self.message = message  # without the `error[...]` prefix
        if code:
            self.code = code
            if not message.startswith("error["):
                message = f"error[{code}]: {message}"
        super().__init__(message)


class WujiCompilationError(WujiError):
    """A kernel cannot be compiled."""


class WujiSyntaxError(WujiCompilationError, SyntaxError):
    """The kernel language does not support this Python construct."""

    def __str__(self) -> str:
        # `SyntaxError.__str__` would append its own file and line.
        return str(self.args[0]) if self.args else ""


class WujiNameError(WujiCompilationError, NameError):
    """An undefined name."""


class WujiTypeError(WujiCompilationError, TypeError):
    """Incompatible types."""


class WujiIndexError(WujiCompilationError, IndexError):
    """Wrong number or kind of indices."""


class WujiRuntimeError(WujiError, RuntimeError):
    """An error outside the compiler: in a launch, a field layout or the data."""


class WujiAssertionError(WujiRuntimeError, AssertionError):
    """An `assert` in a kernel failed."""


class WujiOutOfRangeError(WujiAssertionError, IndexError):
    """An element that does not exist was accessed, in a kernel or from Python."""


class WujiRuntimeTypeError(WujiRuntimeError, TypeError):
    """A kernel argument does not match its declared type."""

    @classmethod
    def argument(cls, name: str, needed: object, provided: object) -> WujiRuntimeTypeError:
        return cls(f"Argument `{name}` cannot be converted to required type {needed}; got {provided}")


class WujiArrayError(WujiRuntimeTypeError, ValueError):
    """An array does not match its declared element type or shape. Also a `ValueError`, as in Taichi."""


class WujiCallError(WujiRuntimeTypeError, WujiSyntaxError):
    """A kernel call has the wrong number of arguments. Also a `SyntaxError`, as in Taichi."""


class NotYet(WujiError, NotImplementedError):
    """A part of Taichi's API that is not implemented yet."""


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
    "WujiOutOfRangeError",
    "WujiRuntimeError",
    "WujiRuntimeTypeError",
    "WujiSyntaxError",
    "WujiTypeError",
]
