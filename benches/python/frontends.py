#!/usr/bin/env python3
"""The overhead of the Python frontend: the same kernels from Python and from Rust, interleaved in one run.

The workloads are those of `wuji-bench` with the same sizes, layouts and arithmetic. Run by `cargo xtask bench --python`, which builds both.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import wuji as ti

# Worker threads of a library may still spin after a sample. They are asleep after this pause.
PAUSE = 0.004
# Samples shorter than this are repeated within one measurement.
SHORT = 0.02

Workload = tuple[Callable[[], None], Callable[[], np.ndarray], float]


def noise(i: np.ndarray) -> np.ndarray:
    """A deterministic hash of i in [0, 1), the same as in `benches/src/case.rs`."""
    x = i.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def julia() -> Workload:
    pixels = ti.field(ti.f32, (640, 320))

    @ti.kernel
    def paint():
        for i, j in pixels:
            c = ti.Vector([-0.8, 0.156])
            z = ti.Vector([i / 320.0 - 1.0, j / 320.0 - 0.5]) * 2.0
            n = 0
            while z.norm_sqr() < 400.0 and n < 50:
                z = ti.Vector([z.x * z.x - z.y * z.y, z.x * z.y * 2.0]) + c
                n += 1
            pixels[i, j] = 1.0 - n * 0.02

    return paint, pixels.to_numpy, 1e-1


def jacobi() -> Workload:
    side = 4096
    u, v = ti.field(ti.f32), ti.field(ti.f32)
    # A separate tree for each field lets the compiler prove that one is only read and the other only written.
    for field in (u, v):
        tree = ti.FieldsBuilder()
        tree.dense(ti.ij, side).place(field)
        tree.finalize()
    u.from_numpy(noise(np.arange(side * side)).reshape(side, side))

    @ti.kernel
    def sweep():
        for i, j in v:
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    return sweep, v.to_numpy, 1e-5


def nbody() -> Workload:
    bodies, dt, eps = 8192, 1e-3, 1e-3
    x, y, z, u, v, w = (ti.field(ti.f32) for _ in range(6))
    tree = ti.FieldsBuilder()
    for field in (x, y, z, u, v, w):
        tree.dense(ti.i, bodies).place(field)
    tree.finalize()
    for d, field in enumerate((x, y, z)):
        field.from_numpy(noise(3 * np.arange(bodies) + d) - np.float32(0.5))

    @ti.kernel
    def gravity():
        for i in x:
            me = ti.Vector([x[i], y[i], z[i]])
            a = ti.Vector([0.0, 0.0, 0.0])
            for j in range(bodies):
                d = ti.Vector([x[j], y[j], z[j]]) - me
                inv = ti.rsqrt(d.norm_sqr() + eps)
                a += d * (inv * inv * inv)
            u[i] += dt / bodies * a.x
            v[i] += dt / bodies * a.y
            w[i] += dt / bodies * a.z
        for i in x:
            x[i] += dt * u[i]
            y[i] += dt * v[i]
            z[i] += dt * w[i]

    def result() -> np.ndarray:
        return np.concatenate([x.to_numpy(), y.to_numpy(), z.to_numpy()])

    return gravity, result, 1e-4


def mpm2d() -> Workload:
    particles, grid, wall, substeps = 8192, 128, 3, 20
    dx, dt, stiffness, weight_of_all = 1 / grid, 2e-4, 400.0, 9.8
    volume0 = dx * dx * 0.25
    x, v = ti.Vector.field(2, ti.f32), ti.Vector.field(2, ti.f32)
    c, volume = ti.Matrix.field(2, 2, ti.f32), ti.field(ti.f32)
    momentum, mass = ti.Vector.field(2, ti.f32), ti.field(ti.f32)
    tree = ti.FieldsBuilder()
    tree.dense(ti.i, particles).place(x, v, c, volume)
    tree.finalize()
    tree = ti.FieldsBuilder()
    tree.dense(ti.ij, grid).place(momentum, mass)
    tree.finalize()
    at = np.arange(particles)
    x.from_numpy(np.stack([noise(2 * at), noise(2 * at + 1)], axis=1) * np.float32(0.4) + np.float32(0.2))
    v.from_numpy(np.tile(np.float32([0, -1]), (particles, 1)))
    volume.fill(1.0)

    @ti.func
    def spline(f):
        return [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]

    @ti.kernel
    def substep():
        for i, j in mass:
            momentum[i, j] = [0.0, 0.0]
            mass[i, j] = 0.0
        for p in x:
            at = x[p] * float(grid)
            base = (at - 0.5).cast(ti.i32)
            f = at - base.cast(ti.f32)
            w = spline(f)
            stress = -dt * 4.0 * stiffness * volume0 * (volume[p] - 1.0) / (dx * dx)
            affine = ti.Matrix.identity(ti.f32, 2) * stress + c[p] * volume0
            for i, j in ti.static(ti.ndrange(3, 3)):
                offset = ti.Vector([i, j])
                d = (offset.cast(ti.f32) - f) * dx
                weight = w[i].x * w[j].y
                momentum[base + offset] += (v[p] * volume0 + affine @ d) * weight
                mass[base + offset] += weight * volume0
        for i, j in mass:
            m = mass[i, j]
            inverse = 1.0 / m if m > 0.0 else 0.0
            u = momentum[i, j] * inverse
            u.y -= dt * weight_of_all
            if i < wall and u.x < 0.0 or i + wall > grid and u.x > 0.0:
                u.x = 0.0
            if j < wall and u.y < 0.0 or j + wall > grid and u.y > 0.0:
                u.y = 0.0
            momentum[i, j] = u
        for p in x:
            at = x[p] * float(grid)
            base = (at - 0.5).cast(ti.i32)
            f = at - base.cast(ti.f32)
            w = spline(f)
            velocity = ti.Vector([0.0, 0.0])
            affine = ti.Matrix.zero(ti.f32, 2, 2)
            for i, j in ti.static(ti.ndrange(3, 3)):
                offset = ti.Vector([i, j])
                d = offset.cast(ti.f32) - f
                u = momentum[base + offset] * (w[i].x * w[j].y)
                velocity += u
                affine += u.outer_product(d) * (4.0 * grid)
            v[p] = velocity
            c[p] = affine
            x[p] += velocity * dt
            volume[p] *= 1.0 + dt * affine.trace()

    def run() -> None:
        for _ in range(substeps):
            substep()

    return run, x.to_numpy, 1e-4


WORKLOADS = {"julia": julia, "jacobi": jacobi, "nbody": nbody, "mpm2d": mpm2d}
# The work of one run, and its unit.
WORK = {
    "julia": (640 * 320 / 1e6, "Mpix/s"),
    "jacobi": (2 * 4 * 4096**2 / 1e9, "GB/s"),
    "nbody": (8192**2 / 1e9, "Ginter/s"),
    "mpm2d": (20, "substeps/s"),
}


class Rust:
    """The workload in a `wuji-bench --serve` process."""

    def __init__(self, program: str, name: str, options: argparse.Namespace) -> None:
        command = [program, "--serve", name, "--fast-math"]
        command += ["--cpu-time"] if options.cpu_time else ["--threads", str(options.threads)]
        self.process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: str) -> str:
        self.process.stdin.write(f"{request}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise SystemExit(f"error: `{' '.join(self.process.args)}` has ended")
        return answer

    def sample(self, times: int) -> float:
        time.sleep(PAUSE)
        return float(self.ask(f"run {times}")) / times

    def result(self) -> np.ndarray:
        count = int(self.ask("result"))
        return np.frombuffer(self.process.stdout.read(4 * count), "<f4")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def pairs_of(name: str, options: argparse.Namespace) -> list[tuple[float, float]]:
    """Interleaved samples in seconds of Python and Rust, in a new world and a new process."""
    ti.init(arch=ti.cpu, cpu_max_num_threads=options.threads, offline_cache=False, log_level=ti.ERROR)
    run, result, tolerance = WORKLOADS[name]()
    clock = time.process_time if options.cpu_time else time.perf_counter

    def sample(times: int) -> float:
        time.sleep(PAUSE)
        start = clock()
        for _ in range(times):
            run()
        return (clock() - start) / times

    rust = Rust(options.program, name, options)
    sample(1), rust.sample(1)
    ours, theirs = result().ravel(), rust.result()
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not apart <= tolerance:
        raise SystemExit(f"error: {name}: Python and Rust differ by {apart:.1e}, which is more than {tolerance:.0e}")
    ti.finish_compiling()
    rust.ask("finish")
    times = min(200, max(1, math.ceil(SHORT / max(sample(1), rust.sample(1)))))
    sample(times), rust.sample(times)
    pairs = []
    for k in range(options.pairs):
        # Alternate which of them runs first.
        if k % 2 == 0:
            first = sample(times)
            pairs.append((first, rust.sample(times)))
        else:
            second = rust.sample(times)
            pairs.append((sample(times), second))
    rust.close()
    return pairs


def compare(name: str, options: argparse.Namespace) -> float:
    """Prints a row and returns the time in Python relative to Rust."""
    work, unit = WORK[name]
    # Each round allocates the fields at other addresses.
    rounds = [pairs_of(name, options) for _ in range(options.rounds)]
    pairs = [pair for pairs in rounds for pair in pairs]
    rates = [work / statistics.median(seconds) for seconds in zip(*pairs, strict=True)]
    of_round = [statistics.median(a / b for a, b in pairs) for pairs in rounds]
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:<10}{unit:<12}{rates[0]:>10.4g}{rates[1]:>10.4g}{ratio:>10.3f}  ({min(of_round):.3f} to {max(of_round):.3f})", flush=True)
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which workloads: {', '.join(WORKLOADS)}; or `starts`, how long it takes to start and to launch")
    parser.add_argument("--program", required=True, help="the program `wuji-bench`, built already")
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time on one thread, for a busy machine")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="worker threads of both")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with a new world and a new process")
    parser.add_argument("--pairs", type=int, default=9, help="interleaved pairs per round; the row shows medians")
    args = parser.parse_args()
    if args.cpu_time:
        args.threads = 1
    if args.names == ["starts"]:
        import starts

        return starts.main()
    for name in args.names:
        if name not in WORKLOADS:
            parser.error(f"unknown workload `{name}`; there are {', '.join(WORKLOADS)}")
    print(f"{args.threads} threads, median of {args.rounds} x {args.pairs} pairs; time in Python / time in Rust, in total and per round\n")
    print(f"{'workload':<10}{'metric':<12}{'Python':>10}{'Rust':>10}{'time':>10}")
    ratios = [compare(name, args) for name in args.names or WORKLOADS]
    if len(ratios) > 1:
        print(f"{'geometric mean':<42}{statistics.geometric_mean(ratios):>10.3f}")


if __name__ == "__main__":
    main()
