#!/usr/bin/env python3
"""The applications of `examples/src/apps` in Wuji and in Taichi 1.7.4 on the CPU: same programs, layouts and sizes.

Prints times, their ratio, the difference of the sums, and lines of code. Taichi needs its own environment
(Python 3.9 to 3.13):

    python3 -m venv ~/.cache/wuji-peers
    ~/.cache/wuji-peers/bin/pip install taichi==1.7.4

`--python` selects another interpreter. Run by `cargo xtask peers`, or directly.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENT = pathlib.Path.home() / ".cache/wuji-peers/bin/python"

# Name, steps, tolerance of the sums (random paths agree only on average), source in Rust and in Python.
APPS = [
    ("mpm3d", 8, 1e-3, "mpm3d"),
    ("mpm3d_plain", 8, 1e-3, "mpm3d"),
    ("fem", 8, 1e-3, "fem"),
    # Only the first digits of a nearly converged residual are more than rounding.
    ("mgpcg", 8, 5e-3, "mgpcg"),
    ("sparse_conv", 3, 1e-3, "sparse_conv"),
    ("volume_renderer", 3, 2e-2, "volume_renderer"),
]
RUST = {"sparse_conv": "conv", "volume_renderer": "volume"}


def lines_of_rust(name):
    """Lines of code, without tests and rendering."""
    text = (ROOT / f"examples/src/apps/{RUST.get(name, name)}.rs").read_text().split("#[cfg(test)]")[0]
    text = re.sub(r"\n    fn (picture|size)\(.*?\n    }\n", "\n", text, flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def lines_of_python(name):
    text = re.sub(r'""".*?"""', "", (HERE / f"{name}.py").read_text(), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def result(command, **more):
    """The last line of a program's output, parsed as JSON."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"`{' '.join(map(str, command))}` failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def difference(a, b):
    """The largest relative difference between sums of the same name."""
    if a.keys() != b.keys():
        return math.inf
    return max(abs(a[name] - b[name]) / max(abs(b[name]), 1e-12) for name in a)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these: " + ", ".join(app[0] for app in APPS))
    parser.add_argument("--python", default=os.environ.get("WUJI_PEERS_PYTHON", str(ENVIRONMENT)), help="a Python interpreter with Taichi")
    parser.add_argument("--small", action="store_true", help="small sizes, for a quick test")
    parser.add_argument("--steps", type=int, help="steps of each measurement")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; the fastest median counts")
    parser.add_argument("--threads", type=int, help="worker threads of both systems")
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time on one thread, for a busy machine")
    parser.add_argument("--program", help="the program `apps`, built already")
    parser.add_argument("--json", help="also write one JSON object per line to this file")
    args = parser.parse_args()
    unknown = set(args.names) - {app[0] for app in APPS}
    if unknown:
        parser.error("there is no " + ", ".join(sorted(unknown)))
    probe = subprocess.run([args.python, "-c", "import taichi"], capture_output=True) if pathlib.Path(args.python).exists() else None
    if probe is None or probe.returncode != 0:
        sys.exit(f"error: {args.python} has no Taichi; to install it:\n"
                 "    python3 -m venv ~/.cache/wuji-peers\n    ~/.cache/wuji-peers/bin/pip install taichi==1.7.4")
    program = args.program
    if program is None:
        cargo = os.environ.get("CARGO", "cargo")
        subprocess.run([cargo, "build", "--release", "--bin", "apps"], cwd=ROOT, check=True)
        program = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/apps"

    common = ["--small"] if args.small else []
    if args.cpu_time:
        common += ["--cpu-time", "--threads", "1"]
    elif args.threads:
        common += ["--threads", str(args.threads)]
    print(f"{'app':<16} {'wuji ms':>10} {'taichi ms':>10} {'ratio':>7}  {'sums apart':>10}  {'wuji lines':>10} {'taichi lines':>12}")
    ratios, wrong, out = [], [], open(args.json, "w") if args.json else None
    for name, steps, tolerance, source in APPS:
        if args.names and name not in args.names:
            continue
        words = [name, "--steps", str(args.steps or steps)] + common
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(result([str(program)] + words))
            theirs.append(result([args.python, str(HERE / "taichi_apps.py")] + words))
        a, b = min(ours, key=lambda r: r["ms"]), min(theirs, key=lambda r: r["ms"])
        ratio, apart = b["ms"] / a["ms"], difference(a["sums"], b["sums"])
        ratios.append(ratio)
        verdict = "" if apart <= tolerance else "  DIFFERENT"
        if verdict:
            wrong.append(name)
        code = lines_of_rust(source), lines_of_python(source)
        print(f"{name:<16} {a['ms']:>10.2f} {b['ms']:>10.2f} {ratio:>6.2f}x  {apart:>10.1e}  {code[0]:>10} {code[1]:>12}{verdict}", flush=True)
        if out:
            row = dict(app=name, wuji_ms=a["ms"], taichi_ms=b["ms"], ratio=ratio, apart=apart, wuji_lines=code[0], taichi_lines=code[1])
            print(json.dumps(row), file=out, flush=True)
    if ratios:
        print(f"{'geometric mean':<38} {math.exp(sum(map(math.log, ratios)) / len(ratios)):>6.2f}x")
    if wrong:
        sys.exit("error: results differ: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
