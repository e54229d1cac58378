"""Code that the Taichi programs share: the same input, shapes and timing as `examples/src/apps`."""

import json
import time

import numpy as np
import taichi as ti


def noise(i):
    """A deterministic hash of i in [0, 1), the same as `wuji_examples::apps::noise`."""
    x = np.asarray(i).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(31))) >> np.uint64(40)
    return x.astype(np.float32) / np.float32(1 << 24)


def from_middle(n):
    """The distance of each cell of a unit cube of n^3 cells from its center."""
    c = ((np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n) - np.float32(0.5)) ** 2
    return np.sqrt(c[:, None, None] + c[None, :, None] + c[None, None, :])


def blocks(inside, block):
    """The block coordinates of the blocks with at least one cell inside."""
    n = inside.shape[0] // block
    parts = inside.reshape(n, block, n, block, n, block).any(axis=(1, 3, 5))
    return np.argwhere(parts).astype(np.int32)


@ti.kernel
def activate_all(node: ti.template(), at: ti.types.ndarray()):
    for b in range(at.shape[0]):
        ti.activate(node, [at[b, 0], at[b, 1], at[b, 2]])


def measure(app, step, sums, steps, cpu_time):
    """Runs the steps after two warm-up steps, and prints the same line as `apps --measure`."""
    clock = time.process_time if cpu_time else time.perf_counter
    times = []
    for _ in range(steps + 2):
        start = clock()
        step()
        ti.sync()
        times.append((clock() - start) * 1e3)
    rest = sorted(times[2:])
    line = dict(app=app, ms=rest[len(rest) // 2], least_ms=rest[0], first_ms=times[0], sums=sums())
    print(json.dumps(line), flush=True)
