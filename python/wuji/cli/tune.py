"""The command ``wuji tune``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from typing import Any

_QUANT = """Choose the bits of fields: the least memory below an error bound, or the smallest error within a budget.

The program has a function `program(trial)`, which creates its fields with types of the trial, runs, and ends with outputs:

    def program(trial):
        ti.init(arch=ti.cpu)
        x = ti.field(trial.type("x", ti.f32))
        trial.place(ti.root.dense(ti.i, 64), x=x)
        ...
        trial.output("x", x)

It runs with ordinary types first, and the range of each field is observed. Then it runs with quantized types, and its
outputs are compared. Prints the ranges, the Pareto front of memory and error, a plot, and code.
"""

_EXAMPLES = """examples:
  wuji tune quant sim.py --error 1e-3                   the least memory with at most this error
  wuji tune quant sim.py --memory-part 0.5              the smallest error in half the memory
  wuji tune quant sim.py --error 1e-3 --plot front.svg  also write the plot
"""


def add_to(commands: Any) -> None:
    tune = commands.add_parser("tune", help="choose the types of fields", description="Choose the types of fields.")
    kinds = tune.add_subparsers(dest="kind", metavar="WHAT", required=True)
    quant = kinds.add_parser(
        "quant", help="choose the bits of quantized types", description=_QUANT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    quant.add_argument("file", help="a Python program")
    goal = quant.add_mutually_exclusive_group(required=True)
    goal.add_argument("--error", type=float, help="search the least memory with at most this error")
    goal.add_argument("--memory", type=int, metavar="BYTES", help="search the smallest error with at most this memory")
    goal.add_argument("--memory-part", type=float, metavar="PART", help="the same, with a part of the memory of the ordinary types")
    quant.add_argument("--program", default="program", metavar="NAME", help="name of the function (default: program)")
    quant.add_argument("--norm", default="rms", choices=("rms", "max"), help="compare root mean squares, or the largest differences (default: rms)")
    quant.add_argument("--reserve", type=float, default=0.1, metavar="PART", help="part that is added to the observed ranges (default: 0.1)")
    quant.add_argument("--keep", default="", metavar="NAMES", help="fields that keep their types, separated by commas")
    quant.add_argument("--points", type=int, default=10, metavar="N", help="about how many combinations are run (default: 10)")
    quant.add_argument("--code", default="python", choices=("python", "rust"), help="language of the code (default: python)")
    quant.add_argument("--plot", metavar="FILE", help="write the plot to an SVG file")
    quant.set_defaults(handler=_quant)


def _quant(args: argparse.Namespace) -> int:
    from .. import tune

    if not os.path.isfile(args.file):
        print(f"wuji: no such file: {args.file}", file=sys.stderr)
        return 2
    program = getattr(_load(args.file), args.program, None)
    if not callable(program):
        print(f"wuji: {args.file} has no function `{args.program}`; see `wuji tune quant --help`", file=sys.stderr)
        return 2
    found = tune.quant(
        program,
        error=args.error,
        memory=args.memory,
        memory_part=args.memory_part,
        norm=args.norm,
        reserve=args.reserve,
        keep=[name for name in args.keep.split(",") if name],
        points=args.points,
    )
    print(f"{found.report()}\n{found.code(args.code)}", end="")
    if args.plot:
        found.save_plot(args.plot)
        print(f"wrote {args.plot}", file=sys.stderr)
    return 0


def _load(file: str) -> Any:
    """Import a file. It is not `__main__`: what it does only as a program, it does not do here."""
    # `import taichi` works in the file.
    importlib.import_module("wuji.compat.taichi").install()
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("wuji_tuned_program", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Kernels look up their source by the module.
    sys.modules["wuji_tuned_program"] = module
    spec.loader.exec_module(module)
    return module
