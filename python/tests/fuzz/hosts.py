"""Random calls of the API with injected faults: results stay right, and every failure is a documented error.

``python -m fuzz.hosts --seconds 60 --seed 1``

Faults: memory limits, a full disk, damaged cache entries, signals, a process that is killed.
A NumPy model of all fields says what the fields must hold, whatever failed before.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wuji as ti

from . import campaign
from .campaign import Failed

_MEMORY_LIMIT = 256 << 20
_TYPES = [(ti.i32, np.int32), (ti.f32, np.float32), (ti.i64, np.int64), (ti.u8, np.uint8)]
# The longest time between a signal and the end of a kernel.
_SIGNAL_SECONDS = 2.0


@ti.kernel
def add(x: ti.template(), value: int):  # type: ignore[valid-type]
    for i in ti.grouped(x):
        x[i] += value


@ti.kernel
def copy(x: ti.template(), y: ti.template()):  # type: ignore[valid-type]
    for i in ti.grouped(x):
        x[i] = y[i]


@ti.kernel
def total(x: ti.template()) -> ti.i64:  # type: ignore[valid-type]
    sum = ti.i64(0)
    for i in ti.grouped(x):
        sum += ti.cast(x[i], ti.i64)
    return sum


@ti.kernel
def scale(x: ti.types.ndarray(), factor: int):  # type: ignore[valid-type]
    for i in ti.grouped(x):
        x[i] = x[i] * factor


@ti.kernel
def forever(x: ti.template()):  # type: ignore[valid-type]
    for i in range(1 << 40):
        # A body that cannot be reduced to its last iteration.
        x[None] = (x[None] * 5 + i) % 1000003


class _Alarm(BaseException):
    """Raised by a signal, as `KeyboardInterrupt` is: it may come while a kernel is compiled."""


class Session:
    """A world, its fields and the model of what they hold."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.fields: list[tuple[Any, Any]] = []
        self.init(2)

    def init(self, threads: int) -> None:
        ti.init(arch=ti.cpu, verbose=False, cpu_max_num_threads=threads, memory_limit=_MEMORY_LIMIT, offline_cache=True,
                offline_cache_file_path=str(self.folder / "cache"))  # fmt: skip
        self.fields = []

    def field(self, number: int) -> tuple[Any, Any]:
        if not self.fields:
            self.new_field(0, (4,))
        return self.fields[number % len(self.fields)]

    def new_field(self, kind: int, shape: tuple[int, ...]) -> None:
        dtype, model = _TYPES[kind % len(_TYPES)]
        self.fields.append((ti.field(dtype, shape), np.zeros(shape, model)))

    def sparse_field(self, size: int) -> None:
        field = ti.field(ti.i32)
        ti.root.pointer(ti.i, size).dense(ti.i, 4).place(field)
        for i in range(size * 4):
            field[i] = 0
        self.fields.append((field, np.zeros(size * 4, np.int32)))

    # Ordinary calls.

    def fill(self, number: int, value: int) -> None:
        field, model = self.field(number)
        field.fill(value)
        model.fill(value)

    def upload(self, number: int, seed: int) -> None:
        field, model = self.field(number)
        model[...] = np.random.default_rng(seed).integers(0, 100, model.shape)
        field.from_numpy(model.copy())

    def launch(self, number: int, value: int) -> None:
        field, model = self.field(number)
        add(field, value)
        model += np.array(value).astype(model.dtype)

    def copy(self, number: int, other: int) -> None:
        (to, to_model), (source, model) = self.field(number), self.field(other)
        if to_model.shape == model.shape:
            copy(to, source)
            to_model[...] = model.astype(to_model.dtype)

    def element(self, number: int, value: int) -> None:
        field, model = self.field(number)
        at = tuple(value % n for n in model.shape)
        field[at] = value % 100
        model[at] = value % 100

    def sum(self, number: int) -> None:
        field, model = self.field(number)
        expect("the sum", total(field), int(model.astype(np.int64).sum()))

    def array(self, size: int, factor: int) -> None:
        array = np.arange(size, dtype=np.int32)
        scale(array, factor)
        expect("an array", array.tolist(), (np.arange(size, dtype=np.int32) * np.int32(factor)).tolist())

    def reset(self, threads: int) -> None:
        self.init(threads)

    # Mistakes. They change nothing.

    def wrong_shape(self, number: int) -> None:
        field, model = self.field(number)
        other = np.zeros((*model.shape, 2), model.dtype)
        expect_error("an array of another shape", lambda: field.from_numpy(other))

    def wrong_index(self, number: int) -> None:
        field, model = self.field(number)
        expect_error("an index with too many axes", lambda: field[tuple([0] * (model.ndim + 1))])

    def wrong_argument(self, number: int) -> None:
        field, _ = self.field(number)
        expect_error("a string for a number", lambda: add(field, "one"))

    # Faults.

    def out_of_memory(self, sparse: bool) -> None:
        def allocate() -> None:
            if sparse:
                field = ti.field(ti.f32)
                ti.root.bitmasked(ti.i, _MEMORY_LIMIT // 2).place(field)
                field[0] = 1.0
            else:
                ti.field(ti.f32, _MEMORY_LIMIT).fill(1.0)

        expect_error("a field larger than the memory limit", allocate)

    def array_out_of_memory(self) -> None:
        expect_error("an ndarray larger than the memory limit", lambda: ti.ndarray(ti.f32, _MEMORY_LIMIT).fill(1.0))

    def disk_full(self, constant: int) -> None:
        """A kernel is compiled while no file can grow."""
        with no_file_grows():
            self._new_kernel(constant)

    def damage_cache(self, seed: int) -> None:
        """Some cache entries are truncated or overwritten, or are no files; their kernels still run."""
        rng = random.Random(seed)
        files = sorted(p for p in (self.folder / "cache").rglob("*") if p.is_file())
        for path in rng.sample(files, min(len(files), 3)):
            how = rng.choice(["truncate", "overwrite", "replace", "fifo"])
            if how == "truncate":
                os.truncate(path, rng.randrange(path.stat().st_size + 1))
            elif how == "overwrite":
                data = bytearray(path.read_bytes())
                for _ in range(4):
                    if data:
                        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                path.write_bytes(bytes(data))
            else:
                path.unlink()
                if how == "replace":
                    path.mkdir()
                else:
                    os.mkfifo(path)
        self.init(2)
        for constant in (1, 2, 3):
            self._new_kernel(constant)

    def interrupt(self, milliseconds: int) -> None:
        """A handler raises during a long kernel."""
        x = ti.field(ti.i64, ())

        def handler(*_: object) -> None:
            raise _Alarm

        before = signal.signal(signal.SIGALRM, handler)
        start = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
            forever(x)
        except _Alarm:
            pass
        else:
            raise Failed("a kernel of 2^40 iterations ended")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if time.monotonic() - start > milliseconds / 1000 + _SIGNAL_SECONDS:
            raise Failed(f"a signal took {time.monotonic() - start:.1f} s")

    def kill(self, milliseconds: int) -> None:
        """Another process that uses the same cache is killed."""
        command = [sys.executable, "-c", "from fuzz import hosts; hosts.work(%r)" % str(self.folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(milliseconds / 1000)
        process.kill()
        process.wait()
        self.init(2)
        for constant in (1, 2, 3):
            self._new_kernel(constant)

    def _new_kernel(self, constant: int) -> None:
        """A kernel of its own for each constant."""
        x = ti.field(ti.i32, 8)

        @ti.kernel
        def multiply():  # type: ignore[no-untyped-def]
            for i in x:
                x[i] = i * constant

        multiply()
        expect("a new kernel", x.to_numpy().tolist(), [i * constant for i in range(8)])

    def check(self) -> None:
        for number, (field, model) in enumerate(self.fields):
            expect(f"field {number}", field.to_numpy().tolist(), model.tolist())


def work(folder: str) -> None:
    """Compile one kernel after another, for a process that will be killed."""
    session = Session(pathlib.Path(folder))
    for constant in range(1, 1000):
        session._new_kernel(constant)


@contextlib.contextmanager
def no_file_grows() -> Iterator[None]:
    """Every write to a file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def expect(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise Failed(f"{what} is {found}, not {expected}")


def expect_error(what: str, call: Callable[[], object]) -> None:
    """A call fails with an error of this package, or one that the documentation names."""
    try:
        call()
    except (ti.WujiError, IndexError, TypeError, ValueError, MemoryError):
        return
    except Exception as error:
        raise Failed(f"{what}: {type(error).__name__}: {error}") from error
    raise Failed(f"{what} is accepted")


Step = tuple[str, tuple[Any, ...]]


def steps(seed: int) -> list[Step]:
    """The calls of a seed."""
    rng = random.Random(seed)
    number = lambda: rng.randrange(8)  # noqa: E731
    shape = lambda: tuple(rng.randint(1, 9) for _ in range(rng.randint(0, 3)))  # noqa: E731
    ordinary: list[Callable[[], Step]] = [
        lambda: ("new_field", (rng.randrange(4), shape())), lambda: ("sparse_field", (rng.randint(1, 5),)),
        lambda: ("fill", (number(), rng.randrange(100))), lambda: ("upload", (number(), rng.randrange(1000))),
        lambda: ("launch", (number(), rng.randrange(5))), lambda: ("copy", (number(), number())),
        lambda: ("element", (number(), rng.randrange(1000))), lambda: ("sum", (number(),)),
        lambda: ("array", (rng.randrange(100), rng.randrange(9))),
    ]  # fmt: skip
    unusual: list[Callable[[], Step]] = [
        lambda: ("reset", (rng.randint(1, 4),)), lambda: ("wrong_shape", (number(),)), lambda: ("wrong_index", (number(),)),
        lambda: ("wrong_argument", (number(),)), lambda: ("out_of_memory", (rng.random() < 0.5,)),
        lambda: ("array_out_of_memory", ()), lambda: ("disk_full", (rng.randrange(1000),)),
        lambda: ("damage_cache", (rng.randrange(1000),)), lambda: ("interrupt", (rng.randint(1, 30),)),
    ]  # fmt: skip
    out: list[Step] = []
    for _ in range(rng.randint(5, 25)):
        out.append(rng.choice(ordinary if rng.random() < 0.7 else unusual)())
    if rng.random() < 0.05:
        out.append(("kill", (rng.randint(100, 800),)))
    return out


def run(chosen: list[Step]) -> None:
    """Run calls in a new world with a cache of its own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="wuji-fuzz-"))
    try:
        session = Session(folder)
        for name, arguments in chosen:
            try:
                getattr(session, name)(*arguments)
            except Failed as failure:
                raise Failed(f"{name}: {failure}") from failure
            except Exception as error:
                raise Failed(f"{name}: {type(error).__name__}: {error}") from error
        session.check()
    finally:
        ti.reset()
        shutil.rmtree(folder, ignore_errors=True)


def failure_of(chosen: list[Step]) -> Failed | None:
    try:
        run(chosen)
    except Failed as failure:
        return failure
    return None


def attempt(seed: int) -> None:
    """Run the calls of a seed; a failure is shrunk to the calls that it needs."""
    warnings.simplefilter("ignore")
    chosen = steps(seed)
    failure = failure_of(chosen)
    if failure is None:
        return
    kind = str(failure).split(" ")[0]
    for k in reversed(range(len(chosen))):
        fewer = chosen[:k] + chosen[k + 1 :]
        smaller = failure_of(fewer)
        if smaller is not None and str(smaller).split(" ")[0] == kind:
            chosen, failure = fewer, smaller
    raise Failed(str(failure), f"# {failure}\nfrom fuzz import hosts\n\nhosts.run({chosen!r})\n")


if __name__ == "__main__":
    campaign.main({"hosts": attempt})
