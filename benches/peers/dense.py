#!/usr/bin/env python3
"""The dense workloads of `wuji-bench` in Taichi 1.7.4 and numba, on the CPU.

Sizes, arithmetic and memory layout are the same everywhere, with fast math.
Wuji, Taichi and numba run in separate processes and take turns, workload by workload. In every round each runs for about 0.1 s, and
the order rotates from round to round, so that changes of the clock frequency affect all of them equally. A row shows the medians of
the rounds: work per second, and the speedup of Wuji. Run by `cargo xtask bench --peers`, which makes an environment with both
packages, or directly.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time

N = 1 << 24
SIDE = 4096
BODIES = 8192

# The work of one run in a peer, and its unit per second.
WORK = {
    "saxpy": (3 * 4 * N / 1e9, "GB/s"),
    "jacobi": (2 * 4 * SIDE * SIDE / 1e9, "GB/s"),
    "sum": (4 * N / 1e9, "GB/s"),
    "julia": (640 * 320 / 1e6, "Mpix/s"),
    "nbody": (BODIES * BODIES / 1e9, "Ginter/s"),
    "mpm2d": (1.0, "substeps/s"),
    "mpm3d": (1.0, "substeps/s"),
    "mpm3d_large": (1.0, "substeps/s"),
}
# The workloads that each peer implements.
HAVE = {"taichi": list(WORK), "numba": ["saxpy", "jacobi", "sum", "julia", "nbody"]}

# Seconds of one sample, and the pause between samples: spinning worker threads are asleep after that.
SAMPLE = 0.1
PAUSE = 0.004


def taichi(threads):
    """Factories of workloads: each returns the function to run and the one that synchronizes."""
    import numpy as np
    import taichi as ti

    ti.init(arch=ti.cpu, cpu_max_num_threads=threads, log_level=ti.ERROR, offline_cache=False)

    def make_saxpy():
        x, y = ti.field(ti.f32, N), ti.field(ti.f32, N)

        @ti.kernel
        def saxpy():
            for i in x:
                y[i] = x[i] * 0.0009765625 + y[i]

        return saxpy

    def make_jacobi():
        u, v = ti.field(ti.f32, (SIDE, SIDE)), ti.field(ti.f32, (SIDE, SIDE))

        @ti.kernel
        def jacobi():
            # Taichi does not check indices: the loop skips the border, which is less work.
            for i, j in ti.ndrange((1, SIDE - 1), (1, SIDE - 1)):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

        return jacobi

    def make_sum():
        x = ti.field(ti.f32, N)

        @ti.kernel
        def total() -> ti.f32:
            s = 0.0
            for i in x:
                s += x[i]
            return s

        return total

    def make_julia():
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

        return julia

    def make_nbody():
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

        return nbody

    return {
        "saxpy": make_saxpy,
        "jacobi": make_jacobi,
        "sum": make_sum,
        "julia": make_julia,
        "nbody": make_nbody,
        "mpm2d": lambda: taichi_mpm(ti, 2, 8192, 128, 400.0, 0.25),
        "mpm3d": lambda: taichi_mpm(ti, 3, 200000, 64, 1000.0, 0.125),
        "mpm3d_large": lambda: taichi_mpm(ti, 3, 200000, 128, 1000.0, 0.125),
    }, ti.sync


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

    return substep


def numba(threads):
    """Like `taichi`; calls are synchronous."""
    import numba as nb
    import numpy as np

    nb.set_num_threads(min(threads, nb.config.NUMBA_NUM_THREADS))
    kernel = nb.njit(parallel=True, fastmath=True)

    def make_saxpy():
        x, y = np.ones(N, np.float32), np.ones(N, np.float32)

        @kernel
        def saxpy(x, y):
            for i in nb.prange(x.size):
                y[i] = x[i] * np.float32(0.0009765625) + y[i]

        return lambda: saxpy(x, y)

    def make_jacobi():
        u, v = np.ones((SIDE, SIDE), np.float32), np.ones((SIDE, SIDE), np.float32)

        @kernel
        def jacobi(u, v):
            for i in nb.prange(1, SIDE - 1):
                for j in range(1, SIDE - 1):
                    v[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

        return lambda: jacobi(u, v)

    def make_sum():
        x = np.ones(N, np.float32)

        @kernel
        def total(x):
            s = np.float32(0.0)
            for i in nb.prange(x.size):
                s += x[i]
            return s

        return lambda: total(x)

    def make_julia():
        pixels = np.zeros((640, 320), np.float32)

        @kernel
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

        return lambda: julia(pixels)

    def make_nbody():
        p = np.random.default_rng(1).random((3, BODIES), dtype=np.float32) - np.float32(0.5)
        w = np.zeros((3, BODIES), np.float32)

        @kernel
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

        return lambda: nbody(p, w)

    makers = {
        "saxpy": make_saxpy,
        "jacobi": make_jacobi,
        "sum": make_sum,
        "julia": make_julia,
        "nbody": make_nbody,
    }
    return makers, lambda: None


PEERS = {"taichi": taichi, "numba": numba}


def serve(peer, name, threads):
    """Answers requests as `wuji-bench --serve` does: `run N` with the elapsed seconds, `work` with the work of one run,
    `finish` with a word."""
    # The packages print their versions to stdout. Keep that out of the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    makers, sync = PEERS[peer](threads)
    run = makers[name]()
    for line in sys.stdin:
        words = line.split()
        if words[0] == "finish":
            print("done", file=answers, flush=True)
            continue
        if words[0] == "work":
            print(WORK[name][0], file=answers, flush=True)
            continue
        start = time.perf_counter()
        for _ in range(int(words[1])):
            run()
        sync()
        print(f"{time.perf_counter() - start:.9f}", file=answers, flush=True)


class Contender:
    """A child process that runs one workload on request."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.work = self.ask("work")
        self.ask("run 1")
        self.ask("finish")
        once = max(min(self.ask("run 1") for _ in range(2)), 1e-6)
        self.turns = max(1, round(SAMPLE / once))

    def ask(self, request):
        try:
            print(request, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"error: {' '.join(self.process.args)} ended with {self.process.wait()}")
        return None if answer == "done" else float(answer)

    def sample(self):
        """Work per second."""
        return self.work * self.turns / self.ask(f"run {self.turns}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def median(numbers):
    numbers = sorted(numbers)
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else 0.5 * (numbers[half - 1] + numbers[half])


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def compare(name, args):
    """Work per second in each round, by contender."""
    threads = ["--threads", str(args.threads)]
    commands = {"wuji": [args.program, "--serve", name, "--fast-math", *threads]}
    for peer in PEERS:
        if name in HAVE[peer]:
            commands[peer] = [sys.executable, __file__, "--serve", peer, name, *threads]
    contenders = {who: Contender(command) for who, command in commands.items()}
    rates = {who: [] for who in contenders}
    order = list(contenders)
    for _ in range(args.rounds):
        for who in order:
            time.sleep(PAUSE)
            rates[who].append(contenders[who].sample())
        order = order[1:] + order[:1]
    for contender in contenders.values():
        contender.end()
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the program `wuji-bench`, built already")
    parser.add_argument("--filter", default="", help="only workloads whose name matches this regular expression")
    parser.add_argument("--threads", type=int, default=2, help="worker threads of each contender")
    parser.add_argument("--rounds", type=int, default=9, help="rounds; each contender runs once per round")
    parser.add_argument("--json", help="also write a JSON object for each row to this file")
    parser.add_argument("--serve", nargs=2, metavar=("PEER", "WORKLOAD"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(*args.serve, args.threads)
    if not args.program:
        parser.error("the following arguments are required: --program")
    names = [name for name in WORK if re.search(args.filter, name)]
    if not names:
        parser.error(f"no workload matches; there are {', '.join(WORK)}")
    rows = []
    ratios = {peer: [] for peer in PEERS}
    print(f"{'workload':<14}{'':>12}{'wuji':>10}" + "".join(f"{peer:>10}{'ratio':>9}" for peer in PEERS))
    for name in names:
        unit = WORK[name][1]
        rounds = compare(name, args)
        rates = {who: median(all_of_it) for who, all_of_it in rounds.items()}
        line = f"{name:<14}{unit:>12}{rates['wuji']:>10.4g}"
        for peer in PEERS:
            if peer not in rounds:
                line += f"{'':>19}"
                continue
            ratio = median(ours / theirs for ours, theirs in zip(rounds["wuji"], rounds[peer]))
            ratios[peer].append(ratio)
            rows.append({"workload": name, "metric": unit, "peer": peer, "value": rates["wuji"], "reference": rates[peer], "ratio": ratio})
            line += f"{rates[peer]:>10.4g}{ratio:>8.2f}x"
        print(line, flush=True)
    line = f"{'geometric mean':<36}"
    for peer, all_of_it in ratios.items():
        if all_of_it:
            mean = geometric_mean(all_of_it)
            line += f"{'':>10}{mean:>8.2f}x"
            rows.append({"workload": "geomean", "metric": "ratio", "peer": peer, "value": mean, "reference": 1.0, "ratio": mean})
    print(line)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
