#!/usr/bin/env python3
"""The workloads of `wuji-bench --gpu` in Taichi or Quadrants, on the same device.

    python3 gpu.py taichi
    python3 gpu.py quadrants --only mpm3d

Prints one JSON object a line: name, size, metric and value, as `wuji-bench --gpu --json` does. A time is the median over many launches between
two synchronizations.
"""

import argparse
import importlib
import json
import sys
import time


def report(name, size, metric, value):
    print(json.dumps(dict(name=name, size=size, metric=metric, value=value)), flush=True)


def median_time(ti, run, runs=15, launches=1):
    times = []
    for _ in range(3):
        run()
    ti.sync()
    for _ in range(runs):
        begun = time.perf_counter()
        for _ in range(launches):
            run()
        ti.sync()
        times.append((time.perf_counter() - begun) / launches)
    return sorted(times)[len(times) // 2]


def dense(ti, wanted, n, side, bodies):
    x, y = ti.field(ti.f32, n), ti.field(ti.f32, n)
    u, v = ti.field(ti.f32, (side, side)), ti.field(ti.f32, (side, side))
    names = "abcdef"
    b = {name: ti.field(ti.f32, bodies) for name in names}
    small = ti.field(ti.f32, 1024)

    @ti.kernel
    def saxpy(a: ti.f32):
        for i in y:
            y[i] = a * x[i] + y[i]

    @ti.kernel
    def total() -> ti.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s

    @ti.kernel
    def jacobi():
        for i, j in v:
            if 0 < i < side - 1 and 0 < j < side - 1:
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    @ti.kernel
    def gravity():
        for i in b["a"]:
            a = ti.Vector([0.0, 0.0, 0.0])
            me = ti.Vector([b["a"][i], b["b"][i], b["c"][i]])
            for j in range(bodies):
                d = ti.Vector([b["a"][j], b["b"][j], b["c"][j]]) - me
                inv = ti.rsqrt(d.norm_sqr() + 1e-4)
                a += d * (inv * inv * inv)
            b["d"][i] += 1e-5 * a[0]
            b["e"][i] += 1e-5 * a[1]
            b["f"][i] += 1e-5 * a[2]

    @ti.kernel
    def one():
        for i in small:
            small[i] += 1.0

    if wanted("saxpy"):
        report("saxpy", f"{n} f32", "GB/s", 12 * n / median_time(ti, lambda: saxpy(0.5)) / 1e9)
    if wanted("sum"):
        report("sum", f"{n} f32", "GB/s", 4 * n / median_time(ti, total) / 1e9)
    if wanted("jacobi"):
        report("jacobi", f"{side}^2 f32", "GB/s", 8 * side * side / median_time(ti, jacobi) / 1e9)
    if wanted("nbody"):
        report("nbody", f"{bodies}", "G pairs/s", bodies * bodies / median_time(ti, gravity) / 1e9)
    if wanted("launch"):
        report("launch", "1024", "us", median_time(ti, one, launches=1000) * 1e6)


def mpm(ti, n, side, args):
    import mpm3d

    for name, buckets in [("mpm3d", True), ("mpm3d plain", False)]:
        if args.variant not in ("both", "buckets" if buckets else "plain"):
            continue
        case = mpm3d.Mpm3d(n, buckets, side, not args.no_cache)
        size = f"{case.count / 1e6:.1f} M in {n}^3"
        begun = time.perf_counter()
        case.step()
        ti.sync()
        report(name, size, "ms first step", (time.perf_counter() - begun) * 1e3)
        for _ in range(2):
            case.step()
        ti.sync()
        steps = args.steps
        begun = time.perf_counter()
        for _ in range(steps):
            case.step()
        ti.sync()
        report(name, size, "ms a substep", (time.perf_counter() - begun) * 1e3 / steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=["taichi", "quadrants"])
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--small", action="store_true", help="small sizes, for a test")
    parser.add_argument("--variant", choices=["both", "plain", "buckets"], default="both", help="of mpm3d")
    parser.add_argument("--grid", type=int, default=0, help="grid size of mpm3d: 128 or 512 nodes along a side; default: both")
    parser.add_argument("--steps", type=int, default=20, help="of mpm3d")
    parser.add_argument("--no-cache", action="store_true", help="no block-local storage, for compilers that fail on it")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, to test without a GPU")
    parser.add_argument("--memory", type=float, default=48.0, help="GB of device memory that the package may reserve")
    args = parser.parse_args()
    ti = importlib.import_module(args.package)
    # The programs say `import taichi`.
    sys.modules["taichi"] = ti
    names = args.only.split(",") if args.only else []

    def wanted(name):
        return not names or name in names

    def init():
        how = dict(arch=ti.cpu) if args.cpu else dict(arch=ti.cuda, device_memory_GB=args.memory)
        ti.init(offline_cache=False, **how)

    init()
    small = args.small
    if any(map(wanted, ["saxpy", "sum", "jacobi", "nbody", "launch"])):
        dense(ti, wanted, 1 << 16 if small else 1 << 28, 256 if small else 16384, 1024 if small else 65536)
    if wanted("mpm3d"):
        sizes = [(32, 8)] if small else [(128, 32), (512, 102)]
        for n, side in [(n, side) for n, side in sizes if args.grid in (0, n)]:
            ti.reset()
            init()
            mpm(ti, n, side, args)


main()
