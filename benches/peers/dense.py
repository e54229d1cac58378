#!/usr/bin/env python3
"""The dense workloads of `wuji-bench` in Taichi 1.7.4 and numba, on the CPU: the same sizes, arithmetic and memory layout.

Runs Wuji first (`--program`, with `--json`), then the others in the same order, and prints how many times as much Wuji does in a
second. Run by `cargo xtask bench --peers`, which makes an environment with both packages, or as it is.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

N = 1 << 24
SIDE = 4096
BODIES = 8192


def rate(work, run, sync):
    """Work per second: the median of runs that last about a tenth of a second each."""
    run()
    sync()
    start = time.perf_counter()
    run()
    sync()
    once = max(time.perf_counter() - start, 1e-6)
    turns = max(1, int(0.1 / once))
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(turns):
            run()
        sync()
        times.append((time.perf_counter() - start) / turns)
    return work / sorted(times)[len(times) // 2]


def taichi(threads):
    import numpy as np
    import taichi as ti

    ti.init(arch=ti.cpu, cpu_max_num_threads=threads, log_level=ti.ERROR, offline_cache=False)
    done = {}

    x, y = ti.field(ti.f32, N), ti.field(ti.f32, N)

    @ti.kernel
    def saxpy():
        for i in x:
            y[i] = x[i] * 0.0009765625 + y[i]

    done["saxpy"] = rate(3 * 4 * N / 1e9, saxpy, ti.sync)

    u, v = ti.field(ti.f32, (SIDE, SIDE)), ti.field(ti.f32, (SIDE, SIDE))

    @ti.kernel
    def jacobi():
        # Taichi does not check indices: the border is left out, which is less work.
        for i, j in ti.ndrange((1, SIDE - 1), (1, SIDE - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    done["jacobi"] = rate(2 * 4 * SIDE * SIDE / 1e9, jacobi, ti.sync)

    @ti.kernel
    def total() -> ti.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s

    done["sum"] = rate(4 * N / 1e9, total, ti.sync)

    pixels = ti.field(ti.f32, (640, 320))

    @ti.kernel
    def julia():
        for i, j in pixels:
            c = ti.Vector([-0.8, 0.156])
            z = ti.Vector([i / 320 - 1.0, j / 320 - 0.5]) * 2.0
            n = 0
            while z.norm_sqr() < 400.0 and n < 50:
                z = ti.Vector([z[0] * z[0] - z[1] * z[1], z[0] * z[1] * 2.0]) + c
                n += 1
            pixels[i, j] = 1.0 - n * 0.02

    done["julia"] = rate(640 * 320 / 1e6, julia, ti.sync)

    px, py, pz = (ti.field(ti.f32, BODIES) for _ in range(3))
    vx, vy, vz = (ti.field(ti.f32, BODIES) for _ in range(3))
    for k, f in enumerate((px, py, pz)):
        f.from_numpy(np.random.default_rng(k).random(BODIES, dtype=np.float32) - 0.5)

    @ti.kernel
    def nbody():
        for i in px:
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(BODIES):
                dx, dy, dz = px[j] - px[i], py[j] - py[i], pz[j] - pz[i]
                inv = ti.rsqrt(dx * dx + dy * dy + dz * dz + 1e-3)
                s = inv * inv * inv
                ax += dx * s
                ay += dy * s
                az += dz * s
            vx[i] += ax * 1.2207032e-7
            vy[i] += ay * 1.2207032e-7
            vz[i] += az * 1.2207032e-7
        for i in px:
            px[i] += vx[i] * 1e-3
            py[i] += vy[i] * 1e-3
            pz[i] += vz[i] * 1e-3

    done["nbody"] = rate(BODIES * BODIES / 1e9, nbody, ti.sync)
    done["mpm2d"] = taichi_mpm(ti, 2, 8192, 128, 400.0, 0.25)
    done["mpm3d"] = taichi_mpm(ti, 3, 200000, 64, 1000.0, 0.125)
    done["mpm3d_large"] = taichi_mpm(ti, 3, 200000, 128, 1000.0, 0.125)
    return done


def taichi_mpm(ti, dim, particles, grid, stiffness, filled):
    import numpy as np

    dx, dt, wall, gravity = 1.0 / grid, 2e-4, 3, 9.8
    volume0 = dx**dim * filled
    x = ti.Vector.field(dim, ti.f32)
    v = ti.Vector.field(dim, ti.f32)
    c = ti.Matrix.field(dim, dim, ti.f32)
    volume = ti.field(ti.f32)
    momentum = ti.Vector.field(dim, ti.f32)
    mass = ti.field(ti.f32)
    ti.root.dense(ti.i, particles).place(x, v, c, volume)
    axes = ti.ij if dim == 2 else ti.ijk
    ti.root.dense(axes, grid).place(momentum, mass)
    x.from_numpy((np.random.default_rng(1).random((particles, dim), dtype=np.float32) * 0.4 + 0.3))
    volume.fill(1.0)
    neighbours = (3,) * dim

    @ti.kernel
    def substep():
        for I in ti.grouped(mass):
            momentum[I] = ti.zero(momentum[I])
            mass[I] = 0.0
        for p in x:
            at = x[p] * grid
            base = (at - 0.5).cast(int)
            f = at - base.cast(float)
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            stress = -dt * 4.0 * stiffness * volume0 * (volume[p] - 1.0) / (dx * dx)
            affine = ti.Matrix.identity(ti.f32, dim) * stress + c[p] * volume0
            for offset in ti.static(ti.grouped(ti.ndrange(*neighbours))):
                d = (offset.cast(float) - f) * dx
                weight = 1.0
                for k in ti.static(range(dim)):
                    weight *= w[offset[k]][k]
                momentum[base + offset] += (v[p] * volume0 + affine @ d) * weight
                mass[base + offset] += weight * volume0
        for I in ti.grouped(mass):
            if mass[I] > 0.0:
                u = momentum[I] / mass[I]
                u[1] -= dt * gravity
                for k in ti.static(range(dim)):
                    if (I[k] < wall and u[k] < 0.0) or (I[k] + wall > grid and u[k] > 0.0):
                        u[k] = 0.0
                momentum[I] = u
        for p in x:
            at = x[p] * grid
            base = (at - 0.5).cast(int)
            f = at - base.cast(float)
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            velocity = ti.zero(v[p])
            affine = ti.zero(c[p])
            for offset in ti.static(ti.grouped(ti.ndrange(*neighbours))):
                d = offset.cast(float) - f
                weight = 1.0
                for k in ti.static(range(dim)):
                    weight *= w[offset[k]][k]
                u = momentum[base + offset] * weight
                velocity += u
                affine += u.outer_product(d) * (4.0 * grid)
            v[p] = velocity
            c[p] = affine
            x[p] += velocity * dt
            volume[p] *= 1.0 + dt * affine.trace()

    return rate(1, substep, ti.sync)


def numba(threads):
    import numba as nb
    import numpy as np

    nb.set_num_threads(min(threads, nb.config.NUMBA_NUM_THREADS))
    done = {}
    nothing = lambda: None
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)

    @nb.njit(parallel=True, fastmath=True)
    def saxpy(x, y):
        for i in nb.prange(x.size):
            y[i] = x[i] * np.float32(0.0009765625) + y[i]

    done["saxpy"] = rate(3 * 4 * N / 1e9, lambda: saxpy(x, y), nothing)
    u, v = np.ones((SIDE, SIDE), np.float32), np.ones((SIDE, SIDE), np.float32)

    @nb.njit(parallel=True, fastmath=True)
    def jacobi(u, v):
        for i in nb.prange(1, SIDE - 1):
            for j in range(1, SIDE - 1):
                v[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    done["jacobi"] = rate(2 * 4 * SIDE * SIDE / 1e9, lambda: jacobi(u, v), nothing)

    @nb.njit(parallel=True, fastmath=True)
    def total(x):
        s = np.float32(0.0)
        for i in nb.prange(x.size):
            s += x[i]
        return s

    done["sum"] = rate(4 * N / 1e9, lambda: total(x), nothing)
    pixels = np.zeros((640, 320), np.float32)

    @nb.njit(parallel=True, fastmath=True)
    def julia(pixels):
        for i in nb.prange(640):
            for j in range(320):
                a = (np.float32(i) / np.float32(320) - np.float32(1)) * np.float32(2)
                b = (np.float32(j) / np.float32(320) - np.float32(0.5)) * np.float32(2)
                n = 0
                while a * a + b * b < np.float32(400) and n < 50:
                    a, b = a * a - b * b + np.float32(-0.8), a * b * np.float32(2) + np.float32(0.156)
                    n += 1
                pixels[i, j] = np.float32(1) - np.float32(n) * np.float32(0.02)

    done["julia"] = rate(640 * 320 / 1e6, lambda: julia(pixels), nothing)
    p = np.random.default_rng(1).random((3, BODIES), dtype=np.float32) - np.float32(0.5)
    w = np.zeros((3, BODIES), np.float32)

    @nb.njit(parallel=True, fastmath=True)
    def nbody(p, w):
        for i in nb.prange(BODIES):
            ax = ay = az = np.float32(0)
            for j in range(BODIES):
                dx, dy, dz = p[0, j] - p[0, i], p[1, j] - p[1, i], p[2, j] - p[2, i]
                inv = np.float32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + np.float32(1e-3))
                s = inv * inv * inv
                ax += dx * s
                ay += dy * s
                az += dz * s
            w[0, i] += ax * np.float32(1.2207032e-7)
            w[1, i] += ay * np.float32(1.2207032e-7)
            w[2, i] += az * np.float32(1.2207032e-7)

    done["nbody"] = rate(BODIES * BODIES / 1e9, lambda: nbody(p, w), nothing)
    return done


def wuji(program, threads, pairs):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "wuji.json"
        names = "^(saxpy|jacobi|sum|julia|nbody|mpm2d|mpm3d|mpm3d_large)$"
        command = [program, "--filter", names, "--threads", str(threads), "--pairs", str(pairs), "--json", str(out)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        rows = [json.loads(line) for line in out.read_text().splitlines() if line.strip()]
    return {row["workload"]: row["value"] for row in rows}


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the program `wuji-bench`, built already")
    parser.add_argument("--threads", type=int, default=2, help="worker threads of all")
    parser.add_argument("--pairs", type=int, default=9, help="how often `wuji-bench` repeats")
    args = parser.parse_args()
    ours = wuji(args.program, args.threads, args.pairs)
    theirs = {"taichi": taichi(args.threads), "numba": numba(args.threads)}
    print(f"{'workload':<14}{'wuji':>12}{'taichi':>12}{'ratio':>9}{'numba':>12}{'ratio':>9}")
    ratios = {"taichi": [], "numba": []}
    for name, value in ours.items():
        line = f"{name:<14}{value:>12.4g}"
        for peer in ("taichi", "numba"):
            other = theirs[peer].get(name)
            if other is None:
                line += f"{'':>21}"
                continue
            ratios[peer].append(value / other)
            line += f"{other:>12.4g}{value / other:>8.2f}x"
        print(line)
    means = {peer: geometric_mean(r) for peer, r in ratios.items() if r}
    print(f"{'geometric mean':<26}" + "".join(f"{'':>12}{m:>8.2f}x" for m in means.values()))


if __name__ == "__main__":
    main()
