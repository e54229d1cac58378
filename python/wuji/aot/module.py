"""Modules: kernels, graphs and fields that are saved, to be loaded and run without their source."""

from __future__ import annotations

import datetime
import io
import json
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _native
from ..exceptions import NotYet, WujiArgumentError, WujiCompilationError, WujiRuntimeError, WujiTypeError
from ..graph import Arg, ArgKind, Graph
from ..lang import context, emit, runtime
from ..lang.arguments import Parameter
from ..lang.compound import ElementRank, MatrixType, NdarrayType
from ..lang.context import Compilation
from ..lang.errors import from_native
from ..lang.field import Field
from ..lang.kernel import BoundKernel, Kernel, Specialization
from ..lang.naming import label
from ..lang.ndarray import Ndarray, ndarray
from ..lang.real import result_type
from ..lang.signatures import MISSING
from .descriptions import describe_field, describe_tree, describe_type

FORMAT = 1


class Module:
    """Kernels, graphs and fields to save.

    ```python
    module = ti.aot.Module()
    module.add_field("x", x)
    module.add_kernel(step)
    module.save("folder")          # or module.archive("file.tcm")

    module = ti.aot.load("folder")
    module.kernels["step"](0.01)
    ```
    """

    def __init__(self, arch: Any = None, caps: Any = None) -> None:
        """Create an empty module.

        Args:
            arch: Accepted and ignored: what is saved runs on every backend.
            caps: Device capabilities, which are saved with the module.
        """
        world = runtime.current()
        current = world.config.arch
        if arch is not None and arch is not current:
            warnings.warn(f"AOT compilation to a different arch than the current one is not yet supported, switching to {current}; modules run on every backend", stacklevel=2)
        self._arch = current
        self._caps = [getattr(cap, "value", str(cap)) for cap in caps or []]
        self._kernels: dict[str, dict[str, Any]] = {}
        self._graphs: dict[str, dict[str, Any]] = {}
        self._fields: dict[str, Any] = {}
        self._texts: dict[str, str] = {}  # of kernels, by file
        self._trees: list[tuple[Any, Any]] = []  # the tree, and its root
        self._content: list[str] = []

    # What is added.
    def add_field(self, name: str, field: Any) -> None:
        """Add a field, so that programs that load the module can access it. The elements are not saved."""
        if not isinstance(field, Field):
            raise WujiArgumentError(f"`add_field` needs a field, not {type(field).__name__}")
        if field._order is not None:
            raise NotYet(f"field {label(field.name)} is an attribute of a mesh with `reorder=True`, which cannot be saved yet", "W0607")
        self._tree_of(field)
        self._fields[name] = field

    def add_kernel(self, kernel_fn: Any, template_args: dict[str, Any] | None = None, name: str | None = None) -> None:
        """Add a kernel.

        Args:
            kernel_fn: The kernel, or a method that is one.
            template_args: Values of its `ti.template()` parameters, and arrays for parameters without an element type or a number of axes.
            name: What it is called in the module; by default the name of the function.
        """
        kernel, own = _kernel_of(kernel_fn)
        self._enter(name or kernel.function.__name__, kernel, self._arguments(kernel, own, template_args or {}))
        self._content.append(f"kernel:{name or kernel.function.__name__}")

    @contextmanager
    def add_kernel_template(self, kernel_fn: Any) -> Iterator[KernelTemplate]:
        """Add a kernel with template parameters, once for each `instantiate`.

        ```python
        with module.add_kernel_template(clear) as template:
            template.instantiate(a=x)       # the kernel "clear(a=x)"
        ```
        """
        yield KernelTemplate(kernel_fn, self)

    def add_graph(self, name: str, graph: Any) -> None:
        """Add a graph, with the kernels that it launches."""
        if not isinstance(graph, Graph):
            raise WujiArgumentError(f"`add_graph` needs a graph, not {type(graph).__name__}")
        launches = []
        for number, (kernel_fn, args) in enumerate(graph._launches):
            kernel, own = _kernel_of(kernel_fn)
            parameters = kernel.parameters[len(own) :]
            given = {p.name: _sample(arg) if isinstance(arg, Arg) else arg for p, arg in zip(parameters, args, strict=True)}
            entered = self._enter(f"{name}.{number}.{kernel.function.__name__}", kernel, self._arguments(kernel, own, given))
            passed = [(p, arg) for p, arg in zip(parameters, args, strict=True) if p.kind != "template"]
            launches.append({"kernel": entered, "arguments": [_describe_argument(p, arg) for p, arg in passed]})
        described = {"args": [_describe_arg(arg) for arg in graph._args.values()], "launches": launches}
        self._graphs[name] = described
        self._content.append(f"cgraph:{name}")

    # How kernels are entered.
    def _arguments(self, kernel: Kernel, own: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...]:
        """Return arguments of the types that the kernel is saved for."""
        name = kernel.function.__name__
        unknown = set(given) - {p.name for p in kernel.parameters}
        if unknown:
            raise WujiArgumentError(f"kernel `{name}` has no parameter `{sorted(unknown)[0]}`")
        args = list(own)
        for p in kernel.parameters[len(own) :]:
            if p.kind == "template":
                if p.name not in given:
                    raise WujiTypeError(f"kernel `{name}` is saved for one value of its template parameter `{p.name}`\n  = help: pass it: `template_args={{'{p.name}': ...}}`")
                args.append(given[p.name])
            elif p.kind == "array":
                args.append(_sample_array(name, p, given.get(p.name)))
            elif p.kind == "value":
                args.append(None)  # code does not depend on it
            else:
                raise NotYet(f"parameter `{p.name}` of kernel `{name}` is {_KINDS.get(p.kind, p.kind)}; kernels with such parameters cannot be saved yet", "W0607")
        return tuple(args)

    def _enter(self, name: str, kernel: Kernel, args: tuple[Any, ...]) -> str:
        cx, text = _compiled(kernel, args)
        parameters = []
        for p, value in zip(kernel.parameters, args, strict=True):
            if p.kind == "array":
                element = value.element_type.ir if isinstance(value, Ndarray) else emit.element(value).ir
                parameters.append({"name": p.name, "array": element, "ndim": len(value.shape)})
            elif p.kind == "value":
                known = {"name": p.name, "type": describe_type(p.type)}
                if p.default is not MISSING and isinstance(p.default, (bool, int, float)):
                    known["default"] = p.default
                parameters.append(known)
        result = result_type(kernel.function)
        # In the order in which the kernel first uses them.
        trees = list(dict.fromkeys(self._tree(tree, node) for tree, node in zip(cx.trees, cx.nodes, strict=True)))
        described = {"parameters": parameters, "result": None if result is None else describe_type(result), "trees": trees, "file": self._file(name, text)}
        self._kernels[name] = described
        return name

    def _file(self, name: str, text: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
        for number in range(len(self._texts) + 1):
            file = f"kernels/{base}{f'_{number}' if number else ''}.wir"
            if self._texts.setdefault(file, text) == text:
                return file
        raise AssertionError(name)

    def _tree(self, tree: Any, node: Any) -> int:
        for number, (known, _) in enumerate(self._trees):
            if known == tree:
                return number
        if node is None:
            raise WujiRuntimeError("a kernel uses a field whose layout is gone, so it cannot be saved", "W0132")
        root = node.path_from_root()[0]
        describe_tree(root, lambda _: None)  # raises if it cannot be saved
        self._trees.append((tree, root))
        return len(self._trees) - 1

    def _tree_of(self, field: Any) -> int:
        numbers = [self._tree(leaf.ready().tree, leaf.node) for leaf in field._leaves()]
        return numbers[0]

    # Files.
    def _files(self) -> dict[str, bytes]:
        """Return the contents of all files, by name."""
        from .. import __version__

        files: dict[str, bytes] = {}
        trees = []
        for number, (tree, root) in enumerate(self._trees):
            trees.append(describe_tree(root, lambda leaf, tree=tree, number=number: _save_constant(files, number, tree, leaf)))  # type: ignore[misc]
        description = {
            "format": FORMAT, "wuji": __version__, "arch": self._arch.name, "caps": self._caps, "trees": trees, "kernels": self._kernels, "graphs": self._graphs,
            "fields": {name: describe_field(field, self._tree_of) for name, field in self._fields.items()},
        }  # fmt: skip
        files["module.json"] = json.dumps(description, indent=1).encode()
        files["__content__"] = "\n".join(self._content).encode()
        files["__version__"] = __version__.encode()
        files.update((name, text.encode()) for name, text in self._texts.items())
        return files

    def save(self, filepath: Any) -> None:
        """Write the module to a folder, which is created."""
        folder = os.fspath(filepath)
        try:
            for name, contents in self._files().items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(contents)
        except OSError as e:
            raise WujiRuntimeError(f"cannot write to {folder}\n  = note: {e.strerror or e}", "W0530") from e

    def archive(self, filepath: Any) -> None:
        """Write the module to one file, a ZIP archive whose name ends in ``.tcm``. The same module gives the same bytes."""
        path = os.fspath(filepath)
        if not path.endswith(".tcm"):
            raise WujiArgumentError(f"AOT module artifact archive must ends with .tcm: {path}")
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise WujiArgumentError(f"Output directory doesn't exist: {os.path.dirname(path)}")
        fixed = datetime.datetime(2000, 12, 1).timetuple()[:6]
        try:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, contents in sorted(self._files().items()):
                    archive.writestr(zipfile.ZipInfo(name, fixed), contents, zipfile.ZIP_DEFLATED)
        except OSError as e:
            raise WujiRuntimeError(f"cannot write to {path}\n  = note: {e.strerror or e}", "W0530") from e


class KernelTemplate:
    """A kernel with template parameters, to be added to a module several times."""

    def __init__(self, kernel_fn: Any, aot_module: Module) -> None:
        self._kernel_fn = kernel_fn
        self._aot_module = aot_module

    def instantiate(self, **kwargs: Any) -> None:
        """Add the kernel for these values of its template parameters: numbers, or fields that were added to the module.

        Its name has them: ``kernel(a=x, n=3)``, where ``x`` is the name of a field in the module.
        """
        given = ", ".join(f"{key}={self._value(value)}" for key, value in kwargs.items())
        kernel, _ = _kernel_of(self._kernel_fn)
        self._aot_module.add_kernel(self._kernel_fn, kwargs, f"{kernel.function.__name__}({given})")

    def _value(self, value: Any) -> str:
        if isinstance(value, (int, float, bool)):
            return str(value)
        for name, field in self._aot_module._fields.items():
            if field is value:
                return name
        raise WujiRuntimeError(f"Arg type must be of type int/float/boolean or taichi field. Type {type(value)} is not supported, or the field was not added to the module with `add_field`")


_KINDS = {"pack": "an argument pack", "object": "a texture or a sparse matrix builder"}


def _kernel_of(kernel_fn: Any) -> tuple[Kernel, tuple[Any, ...]]:
    """Return a kernel, with the object that it is a method of."""
    if isinstance(kernel_fn, BoundKernel):
        return kernel_fn.kernel, (kernel_fn.instance,)
    if isinstance(kernel_fn, Kernel):
        return kernel_fn, ()
    raise WujiArgumentError(f"only kernels can be saved, not {type(kernel_fn).__name__}")


def _compiled(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Compilation, str]:
    """Compile a kernel, and return its text."""
    world = runtime.current()
    name = kernel.function.__name__
    cx = Compilation(_native.Builder(name), world, name)

    def build() -> Specialization:
        source = kernel.source
        source.refresh()
        return context.run(cx, lambda: kernel._build(cx, source, args, True, ""))

    try:
        code = context.exclusively(build)
    except _native.NativeError as e:
        raise from_native(e) from None
    # Positions name files, not where they are on this machine.
    return cx, re.sub(r'(?m)^(file F\d+ )"(?:.*[/\\])?([^"/\\]*)"$', r'\1"\2"', code.program.text())


def _sample_array(kernel: str, p: Parameter, given: Any) -> Any:
    """Return an array of the type that a kernel is saved for."""
    if given is not None and not isinstance(given, NdarrayType):
        if isinstance(given, Ndarray):
            return given
        raise WujiTypeError(f"parameter `{p.name}` of kernel `{kernel}` is an array: pass a `ti.ndarray` or a `ti.types.ndarray(...)` in `template_args`, not {type(given).__name__}")
    spec: NdarrayType = given if given is not None else p.type
    if spec.dtype is None or isinstance(spec.dtype, ElementRank) or spec.ndim is None:
        missing = "number of axes" if spec.ndim is None else "element type"
        raise WujiCompilationError(
            f"parameter `{p.name}` of kernel `{kernel}` does not have a {missing}, and the kernel is saved for one\n"
            f"  = help: annotate it, as in `ti.types.ndarray(dtype=ti.f32, ndim=2)`, or pass `template_args={{'{p.name}': ...}}`"
        )
    return ndarray(spec.dtype, (1,) * spec.ndim)


def _sample(arg: Arg) -> Any:
    """Return what a kernel is saved for that gets an argument of a graph."""
    if arg.tag is ArgKind.NDARRAY:
        assert arg.ndim is not None
        return ndarray(arg.dtype, (1,) * arg.ndim)
    return None


def _describe_arg(arg: Arg) -> dict[str, Any]:
    if arg.tag not in (ArgKind.SCALAR, ArgKind.MATRIX, ArgKind.NDARRAY):
        raise NotYet(f"argument `{arg.name}` of the graph is a texture; such graphs cannot be saved yet", "W0607")
    described = {"name": arg.name, "kind": arg.tag.name, "type": describe_type(arg.dtype)}
    return {**described, "ndim": arg.ndim} if arg.ndim is not None else described


def _describe_argument(p: Parameter, arg: Any) -> dict[str, Any]:
    if isinstance(arg, Arg):
        return {"arg": arg.name}
    if emit.is_number(arg):
        return {"value": arg if isinstance(arg, (bool, int, float)) else arg.item()}
    if p.kind == "value" and isinstance(p.type, MatrixType) and hasattr(arg, "to_list"):
        return {"value": arg.to_list()}
    raise WujiRuntimeError(f"parameter `{p.name}` of a kernel in the graph is bound to {emit.describe(arg)}, which cannot be saved\n  = help: make it an argument of the graph")


def _save_constant(files: dict[str, bytes], number: int, tree: Any, leaf: Any) -> str | None:
    """Save the elements of a constant field, and return the name of the file."""
    if not leaf.constant:
        return None
    import numpy

    native = leaf.native
    values = numpy.empty(native.shape, dtype=leaf.type.replace("i", "int"))
    native.read_into(values)
    out = io.BytesIO()
    numpy.save(out, values, allow_pickle=False)
    files[f"data/{number}.npy"] = out.getvalue()
    return f"data/{number}.npy"


__all__ = ["KernelTemplate", "Module"]
