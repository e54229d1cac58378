"""One of the applications in Taichi: python taichi_apps.py NAME [--small] [--steps N] [--threads N] [--cpu-time]"""

import argparse
import importlib

import taichi as ti

import common


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cpu-time", action="store_true", help="measure the CPU time of the process")
    args = parser.parse_args()
    threads = {"cpu_max_num_threads": args.threads} if args.threads else {}
    ti.init(arch=ti.cpu, log_level=ti.ERROR, **threads)
    if args.name == "mpm3d_plain":
        app = importlib.import_module("mpm3d").make(args.small, buckets=False)
    else:
        app = importlib.import_module(args.name).make(args.small)
    common.measure(args.name, app.step, app.sums, args.steps, args.cpu_time)


if __name__ == "__main__":
    main()
