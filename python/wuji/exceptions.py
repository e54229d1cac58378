"""Exception classes. Each one is also available under Taichi's name for it."""

from __future__ import annotations

from typing import Any


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


class WujiShapeError(WujiTypeError, ValueError):
    """Operands or rows whose shapes do not fit. Also a `ValueError`, as in Taichi."""


class WujiComponentsError(WujiShapeError, IndexError, AssertionError):
    """A vector or matrix has too few or too many components for its type. Also an `IndexError` and an `AssertionError`, as in Taichi."""


class WujiIndexTypeError(WujiIndexError, WujiTypeError):
    """An index that is not an integer. In Taichi a `TypeError` in kernels, and an `IndexError` in Python."""


class WujiSpecError(WujiTypeError, ValueError):
    """Something that does not name a scalar type. Also a `ValueError`, as in Taichi."""


class WujiFormatError(WujiSyntaxError, WujiTypeError, IndexError):
    """A format string that does not fit its arguments. A `SyntaxError` in Taichi, and an `IndexError` in Python."""

    code = "W0603"


class CompilationWarning(SyntaxWarning, UserWarning):
    """Something in a kernel that is legal, but probably not intended. A `SyntaxWarning`, as in Taichi."""


class WujiRuntimeError(WujiError, RuntimeError):
    """An error outside the compiler: in a launch, a field layout or the data."""


class WujiAssertionError(WujiRuntimeError, AssertionError):
    """An assertion failed: an `assert` in a kernel, or what a library function requires of its arguments."""


class NativeError(WujiRuntimeError):
    """An error of the core, as it comes from there. `from_native` makes a more specific one of it."""

    file: str | None
    line: int
    column: int
    notes: list[str]
    help: str | None
    result: Any  # result of a launch that finished despite the error


class WujiOutOfRangeError(WujiAssertionError, IndexError):
    """An element that does not exist was accessed, in a kernel or from Python."""


class WujiRuntimeTypeError(WujiRuntimeError, TypeError):
    """A kernel argument does not match its declared type."""

    @classmethod
    def argument(cls, name: str, needed: object, provided: object) -> WujiRuntimeTypeError:
        return cls(f"Argument `{name}` cannot be converted into required type {needed}; got {provided}")


class WujiArrayError(WujiRuntimeTypeError, ValueError):
    """An array does not match its declared element type or shape. Also a `ValueError`, as in Taichi."""


class WujiArrayShapeError(WujiArrayError, AssertionError):
    """An array has another shape than the field it is copied to. Also an `AssertionError`, as in Taichi."""


class WujiArgumentError(WujiRuntimeTypeError, AssertionError):
    """An argument that a function of the library does not take. Also an `AssertionError`, as in Taichi."""


class WujiConversionError(WujiRuntimeTypeError, OverflowError, ValueError):
    """A value of the host does not fit the type that it is converted to."""


class WujiMemberError(WujiRuntimeTypeError, KeyError):
    """A struct has no such member. Also a `KeyError`, as in Taichi."""

    def __str__(self) -> str:
        # `KeyError.__str__` would quote the message.
        return str(self.args[0]) if self.args else ""


class WujiOptionError(WujiRuntimeTypeError, KeyError, ValueError):
    """An unknown option of `init`, or an invalid value of one. Also a `KeyError`, as in Taichi."""

    def __str__(self) -> str:
        # `KeyError.__str__` would quote the message.
        return str(self.args[0]) if self.args else ""


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
    "CompilationWarning",
    "NotYet",
    "TaichiAssertionError",
    "TaichiCompilationError",
    "TaichiIndexError",
    "TaichiNameError",
    "TaichiRuntimeError",
    "TaichiRuntimeTypeError",
    "TaichiSyntaxError",
    "TaichiTypeError",
    "WujiArgumentError",
    "WujiArrayShapeError",
    "WujiAssertionError",
    "WujiCompilationError",
    "WujiComponentsError",
    "WujiConversionError",
    "WujiError",
    "WujiIndexError",
    "WujiIndexTypeError",
    "WujiMemberError",
    "WujiNameError",
    "WujiOptionError",
    "WujiOutOfRangeError",
    "WujiRuntimeError",
    "WujiRuntimeTypeError",
    "WujiShapeError",
    "WujiSpecError",
    "WujiSyntaxError",
    "WujiTypeError",
]
