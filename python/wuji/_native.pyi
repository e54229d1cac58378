"""Interface of the extension module: worlds, memory, a kernel builder, launches.

Types are spelled as in the text of the IR: ``"f32"``, ``"i64x3"``, ``"f32x2x3"``, ``"s0"``.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

from .exceptions import NativeError as NativeError

_Result = TypeVar("_Result")

__version__: str
NODE_KINDS: frozenset[str]  # those that may be below the root
SPARSE_KINDS: frozenset[str]

class ArgumentError(Exception):
    """A value cannot be converted to the type of a parameter or an element. The cause says why."""

def cuda_devices() -> list[tuple[str, tuple[int, int]]]:
    """Return name and compute capability of each NVIDIA GPU."""

@final
class World:
    def __new__(
        cls,
        *,
        interpreter: bool = False,
        cuda: int | None = None,  # device number
        threads: int | None = None,
        math: str = "default",  # "strict", "default", "fast"
        seed: int = 0,
        debug: bool = False,
        check_reads: bool = False,
        check_precision: int | None = None,  # significant bits
        deterministic: bool = False,
        memory_limit: int | None = None,
        cache: str | None = None,  # None: the default folder; "off"; else a folder
        cache_limit: int | None = None,
        log: str | None = None,  # "off", "error", "warn", "info", "debug", "trace"
        tier: str | None = None,  # "fast", "best", "both"
        time_limit: float | None = None,  # seconds
        libdevice: str | None = None,  # GPU only; None: search
        wait_for_launches: bool | None = None,  # GPU only; None: in debug worlds, or as the environment says
        without: Sequence[str] = (),
        lazy: bool = False,  # False: as the environment says
        window: int | None = None,  # launches that wait in a lazy world
        printer: Callable[[str], object] | None = None,  # called with lines, without line breaks
        # Called with message and full text of out-of-bounds accesses in asynchronous launches on a GPU. Without it they are errors of the next
        # synchronizing call.
        dropped: Callable[[str, str], object] | None = None,
    ) -> World: ...
    @property
    def threads(self) -> int: ...
    def synchronize(self) -> None: ...
    def flush(self) -> None:
        """Run the launches that wait in a lazy world."""
    def lazy_statistics(self) -> tuple[int, int, int, int, int, int]:
        """Return launches, their tasks, tasks that ran, windows, known windows and tasks that were made."""
    def flow_graph(self, format: str, optimized: bool) -> str: ...
    def record(self, launches: Callable[[], object]) -> Graph:
        """Record the launches that a function makes on this thread instead of running them. The caller keeps the arrays alive."""
    def kernels(self) -> int: ...
    @property
    def cuda_stream(self) -> int | None: ...
    def finish_compiling(self) -> None: ...
    def explain(self) -> list[str]: ...
    def memory_report(self) -> str: ...
    def memory_used(self) -> int: ...
    def set_log_level(self, level: str) -> None: ...
    def profile(self, on: bool) -> None: ...
    def profile_clear(self) -> None: ...
    def profile_tasks(self) -> list[tuple[str, str, int, float, float, float, float]]:
        """Return kernel, task, count, and seconds: total, minimum, mean, maximum."""
    def profile_trace(self) -> str:
        """Return a JSON trace for Chrome or Perfetto."""
    def profile_report(self) -> str: ...
    def cache_folder(self) -> str | None: ...
    def interrupt(self) -> None: ...
    def close(self) -> None:
        """Close the world and free its memory, arrays included. Later launches, layouts and field accesses raise."""

@final
class Graph:
    """A recorded sequence of launches."""

    def launch(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Quantized:
    """How a number is stored in a word."""

    @staticmethod
    def int(bits: builtins.int, signed: bool) -> Quantized: ...
    @staticmethod
    def fixed(bits: builtins.int, signed: bool, scale: builtins.float, stochastic: bool) -> Quantized: ...
    @staticmethod
    def float(exponent: builtins.int, fraction: builtins.int, signed: bool, stochastic: bool) -> Quantized: ...
    def check(self, compute: str) -> None:
        """Raise if the type cannot store numbers that kernels see as scalars of type ``compute``."""

@final
class Watch:
    """Observes the ranges of fields in all launches of a world."""

    def __new__(cls, world: World) -> Watch: ...
    def add(self, name: str) -> None: ...
    def range(self, field: Field) -> tuple[float, float, float, bool]: ...
    @staticmethod
    def stop(world: World) -> None: ...

# A field, "plain", "int", "fixed", "float" or "shared", and the numbers of the type.
_TypeRow = tuple[str, str, tuple[int, int, bool, float]]

@final
class Tuned:
    """The result of a search for types."""

    reference_bytes: int
    front: list[tuple[int, float, list[_TypeRow]]]
    chosen: int
    runs: int

    def report(self) -> str: ...
    def table(self) -> str: ...
    def svg(self) -> str: ...
    def rust(self) -> str: ...
    def python(self) -> str: ...

def tune_quant(
    run: Callable[..., tuple[list[Any], list[tuple[str, list[float]]]]],
    progress: Callable[[int, int, str], None],
    *,
    error: float | None,
    memory: int | None,
    memory_part: float | None,
    norm: str,
    reserve: float,
    keep: list[str],
    points: int,
) -> Tuned: ...
@final
class Layout:
    """A layout under construction. Node 0 is the root."""

    def __new__(cls, world: World) -> Layout: ...
    def node(
        self,
        parent: int,
        kind: str,  # "dense", "pointer", "bitmasked", "hash", "dynamic", "bit_array"
        axes: Sequence[int],  # 0 to 7
        extents: Sequence[int],  # empty for a hash node without bounds
        chunk: int = 0,  # dynamic: 0 lets the core choose
        morton: bool = False,
    ) -> int: ...
    def place(
        self, node: int, name: str, type: str, offset: Sequence[int] | None = None
    ) -> int:
        """Place a field of a scalar, vector or matrix type; return its number in the tree. Indices are ordered by axis number."""
    def bit_struct(self, bits: int) -> int:
        """Create a word of some bits, in which `place_packed` packs fields; return its number."""
    def shared_exponent(self, bit_struct: int) -> int:
        """Create a group of numbers that share an exponent; return its number in the bit struct."""
    def place_packed(
        self,
        node: int,
        bit_struct: int,
        group: int | None,
        name: str,
        type: str,
        quantized: Sequence[Quantized],  # one for all scalars, or one for each
        offset: Sequence[int] | None = None,
    ) -> int: ...
    def place_in_bit_array(
        self,
        node: int,
        bits: int,
        name: str,
        type: str,
        quantized: Sequence[Quantized],
        offset: Sequence[int] | None = None,
    ) -> int: ...
    def cells(self, node: int, name: str) -> int:
        """Create a field without elements that represents the cells of a node."""
    def finish(self) -> Tree: ...

@final
class Tree:
    def field(self, number: int) -> Field: ...
    def memory_used(self) -> int: ...
    def report(self) -> str: ...
    def clear(self) -> None: ...
    def destroy(self) -> None:
        """Free the memory now. Later uses of the tree raise."""

@final
class Field:
    """A field. Elements are scalars or flat tuples of scalars; components are in row-major order."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def gpu(self) -> int | None: ...
    @property
    def offset(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> str: ...
    @property
    def tree(self) -> Tree: ...
    def get(self, index: tuple[int, ...]) -> Any: ...
    def set(self, index: tuple[int, ...], value: Any) -> None: ...
    def get_part(self, index: tuple[int, ...], component: int) -> Any: ...
    def set_part(self, index: tuple[int, ...], component: int, value: Any) -> None: ...
    def fill(self, value: Any) -> None: ...
    def read_into(self, buffer: object) -> None:
        """Copy all elements, row-major, to a C-contiguous writable buffer of exactly their size."""
    def write_from(self, buffer: object) -> None: ...
    def copy_from(self, other: Field) -> None:
        """Copy all elements from a field of the same type and shape. Layouts may differ."""
    def is_active(self, index: tuple[int, ...]) -> bool: ...
    def activate(self, index: tuple[int, ...]) -> None: ...
    def deactivate(self, index: tuple[int, ...]) -> None: ...
    def deactivate_all(self) -> None: ...
    def append(self, index: tuple[int, ...], value: Any) -> int: ...
    def length(self, index: tuple[int, ...]) -> int: ...
    def count_active(self) -> int: ...
    def active(self) -> list[tuple[int, ...]]: ...
    def packed_bits(self) -> PackedBits | None:
        """Copy the bits of a quantized field, and of the fields that share its exponent. Return None for other fields."""

@final
class PackedBits:
    """The bits of a quantized field at some time, and of the fields that share its exponent."""

    def restore(self) -> None: ...

@final
class Ndarray:
    """A zero-initialized array on the host, or on the GPU of its world.

    Supports DLPack and, on the host, the buffer protocol. The axes of elements come last.
    """

    def __new__(cls, type: str, shape: Sequence[int], world: World | None = None) -> Ndarray: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def get(self, index: tuple[int, ...]) -> Any: ...
    def set(self, index: tuple[int, ...], value: Any) -> None: ...
    def get_part(self, index: tuple[int, ...], component: int) -> Any: ...
    def set_part(self, index: tuple[int, ...], component: int, value: Any) -> None: ...
    def fill(self, value: Any) -> None: ...
    def read_into(self, buffer: object) -> None: ...
    def write_from(self, buffer: object) -> None: ...
    def copy_from(self, other: Ndarray) -> None: ...
    @property
    def is_shared(self) -> bool: ...
    def __dlpack__(self, *, stream: Any = None, **options: Any) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def before_exit() -> None:
    """Stop background compilation. Called at exit."""

def locked(lock: Any, work: Callable[[], _Result]) -> _Result:
    """Call a function while a lock is held. Nothing can come between the two, neither a signal handler nor a trace function."""

def describe_array(value: object) -> tuple[str, tuple[int, ...], bool, bool] | None:
    """Describe an array: scalar type, shape, C-contiguous, writable.

    Accepts an `Ndarray` (element axes last), an object with the buffer protocol, and an object with ``__dlpack__`` on the CPU or an
    NVIDIA GPU. Returns ``None`` for anything else.
    """

# A value, local, label, function or message of the function under construction: a small integer.
Value: TypeAlias = int
# Base of an access: "f" (field), "a" (array), "l" (local), and its number.
Place: TypeAlias = tuple[str, int]

# A mode (``"reverse"`` or ``"forward"``), pairs of a field and the field of its derivatives, and the same for arrays.
Derivatives: TypeAlias = tuple[str, Sequence[tuple[int, int]], Sequence[tuple[int, int]]]

@final
class Builder:
    """A kernel under construction.

    Instructions are appended to the innermost open region. Unreachable code after a jump is checked and dropped. Invalid operands raise
    `NativeError`.
    """

    def __new__(cls, name: str) -> Builder: ...
    # Declarations.
    def file(self, path: str) -> int: ...
    def span(self, file: int, line: int, column: int) -> None:
        """Set the source location of the following instructions; columns count from 1."""
    def struct(self, name: str, fields: Sequence[tuple[str, str]]) -> str: ...
    def tree(self, tree: Tree) -> int:
        """Return the module's number of the tree's first field. Adding a tree twice returns the same number."""
    def array(
        self,
        name: str,
        type: str,
        rank: int,
        writable: bool = True,
        contiguous: bool = True,
        unaliased: bool = False,
    ) -> int: ...
    def param(self, name: str, type: str) -> Value:
        """Declare a by-value parameter, before the first instruction."""
    def result(self, type: str) -> None: ...
    # Values.
    def type_of(self, value: Value) -> str: ...
    def const(self, type: str, value: int | float | bool) -> Value:
        """Emit a scalar constant; integers wrap."""
    def zero(self, type: str) -> Value: ...
    def unary(self, op: str, a: Value) -> Value: ...
    def binary(self, op: str, a: Value, b: Value) -> Value: ...
    def compare(self, op: str, a: Value, b: Value) -> Value: ...
    def select(self, condition: Value, a: Value, b: Value) -> Value: ...
    def fma(self, a: Value, b: Value, c: Value) -> Value: ...
    def convert(self, a: Value, scalar: str) -> Value: ...
    def bitcast(self, a: Value, scalar: str) -> Value: ...
    def splat(self, type: str, a: Value) -> Value: ...
    def compose(self, type: str, parts: Sequence[Value]) -> Value: ...
    def extract(self, a: Value, component: int) -> Value: ...
    def insert(self, a: Value, component: int, part: Value) -> Value: ...
    def extract_dyn(self, a: Value, index: Value) -> Value: ...
    def insert_dyn(self, a: Value, index: Value, part: Value) -> Value: ...
    def shuffle(self, a: Value, components: Sequence[int]) -> Value: ...
    def matmul(self, a: Value, b: Value) -> Value: ...
    def transpose(self, a: Value) -> Value: ...
    def dot(self, a: Value, b: Value) -> Value: ...
    def cross(self, a: Value, b: Value) -> Value: ...
    def outer(self, a: Value, b: Value) -> Value: ...
    def determinant(self, a: Value) -> Value: ...
    def inverse(self, a: Value) -> Value: ...
    def reduce(self, op: str, a: Value) -> Value: ...
    def random(self) -> Value: ...
    def array_extent(self, array: int, axis: int) -> Value: ...
    # Memory. A path has constant components, and one-tuples of values for dynamic components.
    def local(self, name: str, type: str, length: int | None = None, shared: bool = False) -> int:
        """``shared``: an array in the shared memory of a thread block."""
    def share(self, local: int) -> None:
        """Turn a variable of the kernel into one that iterations of parallel loops share, wherever it was and will be accessed."""
    def load(
        self, place: Place, indices: Sequence[Value] = (), path: Sequence[int | tuple[Value]] = ()
    ) -> Value: ...
    def store(
        self,
        place: Place,
        value: Value,
        indices: Sequence[Value] = (),
        path: Sequence[int | tuple[Value]] = (),
        activate: bool = True,
    ) -> None: ...
    def atomic(
        self,
        op: str,
        place: Place,
        value: Value,
        indices: Sequence[Value] = (),
        path: Sequence[int | tuple[Value]] = (),
        activate: bool = True,
    ) -> Value: ...
    def compare_exchange(
        self,
        place: Place,
        expected: Value,
        new: Value,
        indices: Sequence[Value] = (),
        path: Sequence[int | tuple[Value]] = (),
    ) -> Value: ...
    def cell(self, op: str, field: int, indices: Sequence[Value]) -> Value | None:
        """``is_active``, ``activate``, ``deactivate``, ``append``, ``length``."""
    def thread(self, op: str, values: Sequence[Value]) -> Value | None:
        """Emit a warp or block operation: ``thread_index``, ``barrier``, ``ballot``, ..."""
    def cache(self, field: int) -> None: ...
    def assume_range(self, value: Value, base: Value, low: int, high: int) -> Value: ...
    def unique(self, value: Value, count: int | None) -> Value: ...
    # Messages. Pieces are text, or placeholders: a type, and a number of decimals or None.
    def print(
        self, pieces: Sequence[str | tuple[str, int | None]], values: Sequence[Value]
    ) -> None: ...
    def check(
        self,
        condition: Value,
        pieces: Sequence[str | tuple[str, int | None]],
        values: Sequence[Value],
    ) -> None: ...
    def check_index(self, index: Value, length: int) -> None: ...
    # Control flow. Each begin_ opens a region that its end_ closes.
    def begin_if(self, condition: Value) -> None: ...
    def begin_else(self) -> None: ...
    def end_if(self) -> None:
        """Without `begin_else`, the else region is empty."""
    def begin_for(self, low: Value, high: Value, step: Value) -> tuple[int, Value]:
        """Return label and index."""
    def end_for(self) -> None: ...
    def begin_loop(self) -> int: ...
    def end_loop(self) -> None: ...
    def begin_block(self) -> int: ...
    def end_block(self) -> None: ...
    def begin_foreach(
        self,
        domain: int | Sequence[tuple[Value, Value]],  # a field of the module, or bounds
        *,
        block_size: int | None = None,
        serial: bool = False,
        simd: bool | None = None,
    ) -> tuple[int, list[Value]]:
        """Return label and indices."""
    def end_foreach(self) -> bool: ...
    def jump_break(self, label: int) -> None: ...
    def jump_continue(self, label: int) -> None: ...
    def jump_return(self, value: Value | None = None) -> None: ...
    def closed(self) -> bool:
        """Whether the innermost region has ended in a jump."""
    # Functions that are called instead of inlined; they may be recursive.
    def declare(self, name: str, params: Sequence[str], result: str | None) -> int: ...
    def begin_function(self, function: int) -> list[Value]:
        """Return the parameters. Instructions go to this function until `end_function`."""
    def end_function(self) -> None: ...
    def call(self, function: int, arguments: Sequence[Value]) -> Value | None: ...
    def decomposition(self, name: str, scalar: str, size: int) -> int: ...
    # Completion.
    def text(self) -> str: ...
    def finish(self, world: World, arguments: Sequence[tuple[str, int]], derivatives: Sequence[Derivatives] = ()) -> Program:
        """Compile the kernel, or the one that computes its derivatives: those of derivatives, where there are several modes.

        ``arguments`` maps the arguments of a call: ``("p", n)`` is the n-th parameter, ``("a", n)`` the n-th array. Fields are bound
        permanently.
        """
    def finish_parts(
        self, world: World, arguments: Sequence[tuple[str, int]], derivatives: Sequence[Derivatives]
    ) -> list[tuple[Program, Program]]:
        """Compile kernels that do the same one after the other, and their gradients.

        The gradient of a part needs values from before or from after the part only. The first mode is ``"reverse"``; with a second one,
        ``"forward"``, both programs of a part compute tangents.
        """

@final
class Program:
    """A compiled kernel."""

    @property
    def name(self) -> str: ...
    def __call__(self, *arguments: Any) -> Any:
        """Launch the kernel.

        A scalar parameter takes a number (Python or NumPy), other parameters a flat sequence of numbers, an array anything that
        `describe_array` accepts. Returns nothing, a number, or a flat tuple of numbers. Raises `TypeError` or `OverflowError` for numbers
        that do not fit. Returns `NotImplemented`, without launching, if the code was not compiled for such an array.
        """
    def text(self) -> str: ...
    def uses(self) -> list[tuple[int, str, list[tuple[int | None, int] | None], str]]:
        """Of a gradient kernel: how it and its kernel use fields.

        A use has the number of the field, a kind, an index for each axis (a parameter, if any, plus a constant; None is any index), and
        the source line. Kinds: the gradient needs values from before (``"old"``) or after the launch (``"new"``); the kernel ``"reads"``
        or ``"writes"`` elements.
        """
    def array_uses(self) -> list[tuple[int, str, list[tuple[int | None, int] | None], str]]:
        """The same for arrays."""
    def cell_uses(self) -> list[tuple[list[int], bool, bool, bool]]:
        """Of a gradient kernel: how its kernel uses the active cells of sparse trees.

        A use has the fields of the tree, and whether the kernel depends on active cells, activates and deactivates some.
        """

def load_program(
    world: World, text: str, file: str, trees: Sequence[Tree], arguments: Sequence[tuple[str, int]], any_arrays: bool
) -> Program:
    """Compile a kernel from the text of its module, for these trees. ``arguments`` are as in `Builder.finish`.

    With ``any_arrays``, arrays may alias and have any strides, whatever the text says.
    """

@final
class SparseMatrix:
    """A sparse matrix of f32 or f64. Arrays are contiguous with one axis; mismatches raise `ValueError` or `IndexError`."""

    def __new__(
        cls, dtype: str, rows: int, columns: int, at_rows: object, at_columns: object, values: object
    ) -> SparseMatrix:
        """Build a matrix from entries in any order, with i32 indices. Entries at the same position are added up."""
    @property
    def dtype(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def stored(self) -> int:
        """Number of stored entries."""
    def get(self, row: int, column: int) -> float: ...
    def set(self, row: int, column: int, value: float) -> None: ...
    def scaled(self, factor: float) -> SparseMatrix: ...
    def transposed(self) -> SparseMatrix: ...
    def plus(self, other: SparseMatrix, factor: float) -> SparseMatrix:
        """``self + factor * other``."""
    def times(self, other: SparseMatrix) -> SparseMatrix:
        """Return the element-wise product."""
    def product(self, other: SparseMatrix) -> SparseMatrix: ...
    def apply(self, x: object, y: object) -> None:
        """``y = self x``."""
    def conjugate(self, b: object, x: object, tolerance: float, max_steps: int) -> tuple[int, bool]:
        """Solve ``self x = b`` by conjugate gradients, starting at ``x``.

        Returns the number of iterations, and whether the residual is at most ``tolerance`` times the norm of ``b``.
        """
    def triplets(self, at_rows: object, at_columns: object, values: object) -> None:
        """Write all stored entries to arrays of that length."""

@final
class SparseSolver:
    """A factorization of a square matrix: "LLT", "LDLT" or "LU"."""

    def __new__(cls, method: str, ordering: str) -> SparseSolver: ...
    def analyze(self, matrix: SparseMatrix) -> bool: ...
    def factorize(self, matrix: SparseMatrix) -> bool:
        """Factorize; return whether that succeeded."""
    def solve(self, b: object, x: object) -> None: ...

@final
class Window:
    """A window on the display; raises `OSError` without one."""

    def __new__(cls, title: str, position: Sequence[int] | None = None) -> Window: ...
    def show(self, canvas: Canvas) -> None:
        """Show a frame. The first one opens the window and sets its size."""
    def show_frame(self, frame: Frame) -> None: ...
    def events(self) -> list[tuple[str, str, bool, float, float]]:
        """Return the events since the last call.

        An event has a kind (``"key"``, ``"button"``, ``"move"``, ``"wheel"`` or ``"close"``), a key or button, whether it was pressed (or
        scrolled up, for the wheel), and the cursor position in [0, 1], x to the right and y up.
        """
    def close(self) -> None: ...
    def is_open(self) -> bool: ...

@final
class Canvas:
    """Draws on an array of RGBA floats, indexed ``[x, y]`` with x to the right and y up.

    Positions are normalized to [0, 1]; radii are in pixels. Arrays of positions have shape ``(n, 2)``; ``radius`` and ``color`` are
    numbers, or arrays of length n. Colors are integers such as ``0x3388ff``. Arrays must not share memory with the image.
    """

    def __new__(cls, image: npt.NDArray[np.float32]) -> Canvas:
        """Draw on a contiguous array of shape ``(w, h, 4)``."""
    @property
    def image(self) -> npt.NDArray[np.float32]: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    def clear(self, color: int) -> None: ...
    def circle(self, center: object, radius: float, color: int) -> None: ...
    def circles(self, centers: object, radius: object, color: object) -> None: ...
    def line(self, begin: object, end: object, radius: float, color: int) -> None: ...
    def lines(self, begin: object, end: object, radius: object, color: object) -> None: ...
    def triangle(self, a: object, b: object, c: object, color: int) -> None: ...
    def triangles(self, a: object, b: object, c: object, color: object) -> None: ...
    def rectangle(self, x: int, y: int, width: int, height: int, color: int) -> None:
        """Fill a rectangle, in pixels."""
    def text(self, content: str, x: float, top: float, size: float, color: int) -> None:
        """Draw text. ``x`` is the left edge and ``top`` the upper edge of its first line, in pixels."""
    def set_image(self, image: object) -> None:
        """Replace all pixels by an image of the same size: gray, or with up to four channels."""
    def contour(self, values: object, normalize: bool) -> None:
        """Draw a scalar field as colors: those of [0, 1], or of the range of its finite values."""
    def rows(self) -> bytes:
        """Return rows of RGB from top to bottom, one byte per channel."""

@final
class Frame:
    """The picture of a `ui.Window`: RGBA floats and depths, column by column from the left and each column upwards.

    Arrays are contiguous: f32 with rows of vectors, u32 for indices. Positions are normalized to [0, 1]; radii and widths are relative to the
    height. Colors have one row of RGBA for all vertices, or one for each.
    """

    def __new__(cls, width: int, height: int) -> Frame: ...
    def clear(self, color: Sequence[float]) -> None:
        """Start a new picture."""
    def set_image(self, image: object) -> None:
        """Fill everything with an image of shape ``(w, h, 4)``, stretched to the frame. Alpha is ignored."""
    def contour(self, values: object, low: float, high: float) -> None: ...
    def circles(self, centers: object, radii: object, color: object) -> None: ...
    def lines(self, vertices: object, index: object | None, width: float, color: object) -> None: ...
    def triangles(self, vertices: object, index: object | None, color: object) -> None: ...
    def scene(self, scene: Scene) -> None: ...
    def rectangle(self, corner: Sequence[int], extents: Sequence[int], color: Sequence[float]) -> None:
        """Draw a color with alpha over a rectangle, in pixels from the lower left corner."""
    def text(self, content: str, at: Sequence[float], size: float, color: Sequence[float]) -> None:
        """Draw text. ``at`` is the upper left corner of its first line, in pixels from the lower left corner."""
    def pixels(self) -> bytes:
        """Return floats of red, green, blue and alpha in [0, 1]."""
    def depths(self) -> bytes:
        """Return floats: 1 at the near plane of the camera, 0 at its far plane and where nothing is."""
    def rows(self) -> bytes:
        """Return rows of RGB from top to bottom, one byte per channel."""

def check_corners(index: object | None, vertices: int, each: int) -> None:
    """Raise `ValueError` unless indices make whole primitives, with ``each`` of them, of vertices that exist."""

# Position, point to look at, direction up, near plane, far plane.
_Eye: TypeAlias = tuple[Sequence[float], Sequence[float], Sequence[float], float, float]

def camera_matrices(eye: _Eye, fov: float | None, edges: Sequence[float], aspect: float) -> tuple[list[list[float]], list[list[float]]]:
    """Return the rows of the matrices for column vectors: world to camera space, and camera to clip space.

    ``fov`` is in degrees; without it, rays are parallel, between the edges left, right, bottom and top.
    """

@final
class Scene:
    """Meshes, particles, lines, lights and a camera. What cannot be drawn raises `ValueError`."""

    def __new__(cls) -> Scene: ...
    def set_camera(self, eye: _Eye, fov: float | None, edges: Sequence[float]) -> None: ...
    def ambient_light(self, color: Sequence[float]) -> None: ...
    def point_light(self, position: Sequence[float], color: Sequence[float]) -> None: ...
    def mesh(
        self,
        vertices: object,
        index: object | None,
        normals: object | None,
        color: object,
        two_sided: bool,
        wireframe: bool,
        transforms: object | None,  # rows of matrices
    ) -> None: ...
    def particles(self, centers: object, radius: float, radii: object | None, color: object) -> None: ...
    def lines(self, vertices: object, index: object | None, width: float, color: object) -> None: ...
    def take(self) -> Scene:
        """Move everything but the camera and the ambient light to a new scene."""

def text_width(content: str, size: float) -> float:
    """Return the width of a text in pixels."""

@final
class Recording:
    """Encodes frames to a file: ``x.gif``, or ``x.mp4`` with ``ffmpeg``."""

    def __new__(cls, path: str, fps: float) -> Recording: ...
    def push(self, width: int, height: int, rgb: bytes) -> None: ...
    def finish(self) -> None: ...

def read_png(path: str) -> tuple[int, int, int, bytes]:
    """Return width, height, channels (1 to 4) and rows from top to bottom, one byte per channel."""

def write_png(path: str, width: int, height: int, channels: int, data: bytes) -> None: ...

@final
class Tracer:
    """A trace under construction. Nodes are numbers, arrays of them contiguous u32 with one axis. Results are bytes of such arrays."""

    def __new__(cls, lengths: Sequence[int]) -> Tracer:
        """Start a trace of inputs with these numbers of elements. Their nodes are numbered from 0, input after input."""
    def constants(self, values: object) -> bytes: ...
    def value(self, node: int) -> float | None:
        """Return the value of a constant."""
    def apply(self, op: str, operands: Sequence[object]) -> bytes: ...
    def reduce(self, op: str, nodes: object, length: int) -> bytes:
        """Reduce each run of ``length`` nodes to one."""
    def add_at(self, target: object, indices: object, nodes: object) -> bytes: ...
    def block(self, nodes: object) -> None: ...
    # Sparse matrices by rows: rows, columns, where rows start, columns of entries (i64), nodes. Results are the last three.
    def assemble(
        self, rows: int, columns: int, at_rows: object, at_columns: object, nodes: object
    ) -> tuple[bytes, bytes, bytes]: ...
    def multiply(
        self, a: tuple[int, int, object, object, object], b: tuple[int, int, object, object, object]
    ) -> tuple[bytes, bytes, bytes]: ...
    def add(
        self, a: tuple[int, int, object, object, object], b: tuple[int, int, object, object, object]
    ) -> tuple[bytes, bytes, bytes]: ...
    def gradient(self, value: int, variables: object) -> bytes: ...
    def jacobian(self, values: object, variables: object) -> tuple[bytes, bytes, bytes]: ...
    def hessian(self, value: int, variables: object) -> tuple[bytes, bytes, bytes]: ...
    def project_definite(self, nodes: object, size: int) -> bytes:
        """Project symmetric matrices of ``size`` rows, one after the other."""
    def discard(self) -> None: ...
    def finish(self, outputs: Sequence[object]) -> SymbolicTrace: ...

@final
class SymbolicTrace:
    """A recorded computation."""

    @staticmethod
    def from_bytes(data: bytes) -> SymbolicTrace: ...
    def to_bytes(self) -> bytes: ...
    def lengths(self) -> tuple[list[int], list[int]]: ...
    def statistics(self) -> str: ...
    def dot(self) -> str: ...
    def compile(self, world: World, dtype: str, options: dict[str, Any]) -> SymbolicProgram: ...

@final
class SymbolicProgram:
    """A compiled trace."""

    def run(self, inputs: Sequence[object], outputs: Sequence[object]) -> None: ...
    def explain(self) -> str: ...
