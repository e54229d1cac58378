"""Modules that were saved: their kernels, graphs and fields."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _native
from ..exceptions import WujiArrayError, WujiCallError, WujiError, WujiRuntimeError, WujiRuntimeTypeError
from ..graph import Arg, ArgKind, Graph
from ..lang import recording, runtime, signatures
from ..lang.compound import MatrixType, type_by_ir
from ..lang.errors import from_native
from ..lang.kernel import _DROPPED, wrapper
from ..lang.ndarray import Ndarray, flat_value
from ..lang.signatures import MISSING
from .descriptions import LoadedTree, read_field, read_type, scalars
from .module import FORMAT


def _damaged(path: str, why: str) -> WujiRuntimeError:
    return WujiRuntimeError(f"{path} is not a saved module\n  = note: {why}", "W0531")


@contextmanager
def _reading(path: str, what: str) -> Iterator[None]:
    """Report what the parts of a damaged module raise: names that are missing, values of other types, layouts that do not exist."""
    try:
        yield
    except _native.NativeError as e:
        raise from_native(e) from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, AssertionError) as e:
        if isinstance(e, WujiError) and e.code:
            raise
        raise _damaged(path, f"{what}: {type(e).__name__}: {e}") from e


class Files:
    """The files of a module, in a folder or an archive."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        self._archive: zipfile.ZipFile | None = None
        if not os.path.isdir(self.path):
            try:
                self._archive = zipfile.ZipFile(self.path)
            except OSError as e:
                raise WujiRuntimeError(f"cannot read {self.path}\n  = note: {e.strerror or e}", "W0530") from e
            except zipfile.BadZipFile as e:
                raise _damaged(self.path, str(e)) from e

    def read(self, name: str) -> bytes:
        try:
            if self._archive is not None:
                return self._archive.read(name)
            if os.path.isabs(name) or ".." in name.split("/"):
                raise _damaged(self.path, f"it refers to {name}, which is not a part of it")
            with open(os.path.join(self.path, name), "rb") as file:
                return file.read()
        except KeyError as e:
            raise _damaged(self.path, f"it has no {name}") from e
        except FileNotFoundError as e:
            raise _damaged(self.path, f"it has no {name}") from e
        except OSError as e:
            raise WujiRuntimeError(f"cannot read {os.path.join(self.path, name)}\n  = note: {e.strerror or e}", "W0530") from e
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as e:
            if isinstance(e, WujiError):
                raise
            raise _damaged(self.path, str(e)) from e

    def text(self, name: str) -> str:
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as e:
            raise _damaged(self.path, f"{name} is not text: {e}") from e

    def array(self, name: str) -> Any:
        import numpy

        try:
            return numpy.load(io.BytesIO(self.read(name)), allow_pickle=False)
        except (ValueError, EOFError, OSError) as e:
            raise _damaged(self.path, f"{name}: {e}") from e


class LoadedKernel:
    """A kernel of a loaded module. It is called like the kernel that was saved, without its template arguments."""

    _wuji_kind = "kernel"

    def __init__(self, name: str, data: dict[str, Any], files: Files, trees: list[LoadedTree]) -> None:
        self.__name__ = name
        self._world = runtime.current()
        self._file = str(data["file"])
        self._text = files.text(self._file)
        self._trees = [trees[number] for number in data["trees"]]
        self._parameters: list[tuple[str, Any, Any]] = []
        self._arguments: list[tuple[str, int]] = []
        self._steps: list[Callable[[list[Any]], Any]] = []
        self._arrays: dict[int, tuple[str, Any, int]] = {}  # position -> name, element type, number of axes
        params = arrays = 0
        for position, p in enumerate(data["parameters"]):
            self._parameters.append((str(p["name"]), None, p.get("default", MISSING)))
            if "array" in p:
                self._arguments.append(("a", arrays))
                self._arrays[position] = (str(p["name"]), type_by_ir(p["array"]), int(p["ndim"]))
                self._steps.append(lambda args, k=position: args[k]._native if isinstance(args[k], Ndarray) else args[k])  # type: ignore[misc]
                arrays += 1
                continue
            for ty, get in scalars(read_type(p["type"]), lambda args, k=position: args[k]):  # type: ignore[misc]
                self._arguments.append(("p", params))
                self._steps.append(_flattened(ty, get) if isinstance(ty, MatrixType) else get)
                params += 1
        result = data["result"]
        self._wrap = None if result is None else wrapper(read_type(result))
        self._programs: list[_native.Program] = []
        self._warned = False
        # Compiled now, so that a damaged kernel is found when it is loaded.
        self._program(0)

    def _program(self, number: int) -> _native.Program:
        """Return the code: for contiguous arrays that do not alias, or for any arrays."""
        while len(self._programs) <= number:
            trees = [tree.native for tree in self._trees]
            self._programs.append(_native.load_program(self._world.native, self._text, self._file, trees, self._arguments, len(self._programs) > 0))
        return self._programs[number]

    def __call__(self, *args: Any, **named: Any) -> Any:
        if recording.current() is not None:
            raise WujiRuntimeError(f"kernel `{self.__name__}` was loaded from a saved module and has no gradient: it cannot be launched on a tape or in forward mode")
        full = list(signatures.bind(f"kernel `{self.__name__}`", self._parameters, args, named, WujiCallError))
        try:
            given = [step(full) for step in self._steps]
        except (TypeError, ValueError, KeyError, OverflowError) as e:
            raise WujiRuntimeTypeError(f"kernel `{self.__name__}`: {e}", "W0610") from e
        for number in (0, 1):
            try:
                result = self._program(number)(*given)
            except _native.NativeError as e:
                result = self._failed(e)
            except _native.ArgumentError as e:
                raise WujiRuntimeTypeError(f"kernel `{self.__name__}`: {e.__cause__ or e}", "W0610") from e
            if result is not NotImplemented:
                return self._wrap(result) if self._wrap is not None and result is not None else result
        raise self._wrong_array(full)

    def _failed(self, error: _native.NativeError) -> Any:
        config = self._world.config
        if error.code not in _DROPPED or config.debug or config.check_out_of_bound:  # type: ignore[attr-defined]
            raise from_native(error) from None
        if not self._warned:
            self._warned = True
            warnings.warn(str(error), RuntimeWarning, stacklevel=3)
        return getattr(error, "result", None)

    def _wrong_array(self, args: list[Any]) -> WujiError:
        needed = ", ".join(f"`{name}` of {element} with {rank} {'axis' if rank == 1 else 'axes'}" for name, element, rank in self._arrays.values())
        got = ", ".join(f"`{name}` of {_kind(args[position])}" for position, (name, _, _) in self._arrays.items())
        return WujiArrayError(f"kernel `{self.__name__}` was saved for other arrays\n  = note: it takes {needed}\n  = note: it got {got}")

    def __repr__(self) -> str:
        return f"<loaded kernel {self.__name__}({', '.join(name for name, _, _ in self._parameters)})>"


def _flattened(ty: MatrixType, get: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda args: flat_value(ty, get(args))


def _kind(value: Any) -> str:
    if isinstance(value, Ndarray):
        return f"{value.element_type} and shape {value.shape}"
    found = _native.describe_array(value)
    return type(value).__name__ if found is None else f"{found[0]} and shape {found[1]}"


class LoadedModule:
    """A module that was saved: its kernels, graphs and fields by name. Fields start at zero."""

    def __init__(self, path: Any) -> None:
        files = Files(path)
        self.path = files.path
        try:
            data = json.loads(files.text("module.json"))
        except ValueError as e:
            raise _damaged(self.path, f"module.json: {e}") from e
        except WujiRuntimeError as e:
            if e.code == "W0531" and self._is_foreign(files):
                raise _damaged(self.path, "it is a module of Taichi, which has machine code for Taichi's runtime; save it again with Wuji") from e
            raise
        with _reading(self.path, "module.json"):
            if data["format"] != FORMAT:
                raise _damaged(self.path, f"it has format {data['format']!r}, and this version reads format {FORMAT}; wuji {data.get('wuji')} wrote it")
            self.version = str(data["wuji"])
            self.caps = list(data.get("caps", []))
            trees = [LoadedTree(tree, files.array) for tree in data["trees"]]
            self.fields: dict[str, Any] = {name: read_field(field, trees, name) for name, field in data["fields"].items()}
            self._all: dict[str, LoadedKernel] = {}
            for name, kernel in data["kernels"].items():
                with _reading(self.path, f"kernel {name}"):
                    self._all[name] = LoadedKernel(name, kernel, files, trees)
            self.graphs: dict[str, Graph] = {name: self._graph(graph) for name, graph in data["graphs"].items()}
        of_graphs = {launch["kernel"] for graph in data["graphs"].values() for launch in graph["launches"]}
        self.kernels: dict[str, LoadedKernel] = {name: kernel for name, kernel in self._all.items() if name not in of_graphs}

    @staticmethod
    def _is_foreign(files: Files) -> bool:
        try:
            files.read("__content__")
        except WujiError:
            return False
        return True

    def _graph(self, data: dict[str, Any]) -> Graph:
        args = {str(a["name"]): Arg(ArgKind[a["kind"]], str(a["name"]), type_by_ir(a["type"]), a.get("ndim")) for a in data["args"]}
        launches = []
        for launch in data["launches"]:
            given = tuple(args[a["arg"]] if "arg" in a else a["value"] for a in launch["arguments"])
            launches.append((self._all[launch["kernel"]], given))
        return Graph(launches)

    def get_kernel(self, name: str) -> LoadedKernel:
        return self.kernels[name]

    def get_graph(self, name: str) -> Graph:
        return self.graphs[name]

    def get_field(self, name: str) -> Any:
        return self.fields[name]

    def __repr__(self) -> str:
        parts = (f"{len(part)} {what}" for part, what in ((self.kernels, "kernels"), (self.graphs, "graphs"), (self.fields, "fields")))
        return f"<ti.aot.LoadedModule {self.path}: {', '.join(parts)}>"


def load(path: Any) -> LoadedModule:
    """Load a module that `ti.aot.Module` saved, from a folder or a ``.tcm`` file.

    Its kernels are compiled for the current world, on any backend. Neither their Python source nor the objects they used are needed.
    """
    return LoadedModule(path)
