"""Commands that run programs, and that say something about this machine."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def add_to(commands: Any) -> None:
    run = commands.add_parser("run", help="run a program; `import taichi` is Wuji in it", description=_run.__doc__)
    debug = commands.add_parser("debug", help="run a program with all checks", description=_debug.__doc__)
    for parser, act in ((run, _run), (debug, _debug)):
        parser.add_argument("file", help="a Python program")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program gets")
        parser.set_defaults(act=act, own_errors=False)
    debug.add_argument("--pdb", action="store_true", help="open the debugger where it fails (before the file's name)")
    repl = commands.add_parser("repl", help="a prompt with `ti` in it, where kernels can be typed", description=_repl.__doc__)
    repl.set_defaults(act=_repl, own_errors=False)
    for name in ("example", "gallery"):
        example = commands.add_parser(name, help="list the examples, or run one", description=_example.__doc__)
        example.add_argument("name", nargs="?", help="which; none lists them")
        example.add_argument("-p", "--print", action="store_true", dest="show", help="print its source")
        example.add_argument("-s", "--save", action="store_true", help="copy its source to this folder")
        example.add_argument("arguments", nargs=argparse.REMAINDER, help="what it gets")
        example.set_defaults(act=_example, own_errors=False)
    diagnose = commands.add_parser("diagnose", help="facts about this machine, for reports", description=_diagnose.__doc__)
    diagnose.set_defaults(act=_diagnose)
    cache = commands.add_parser("cache", help="compiled kernels on disk", description=_cache.__doc__)
    cache.add_argument("what", choices=("info", "clean", "clear"), help="how many there are, or remove them (two words for the same)")
    cache.add_argument("-p", "--offline-cache-file-path", dest="path", help="another folder")
    cache.set_defaults(act=_cache)
    doc = commands.add_parser("doc", help="what a name is: `wuji doc svd`", description=_doc.__doc__)
    doc.add_argument("name", nargs="?", help="such as `field`, `math.mix` or `tools.imread`")
    doc.set_defaults(act=_doc)


def _execute(file: str, arguments: list[str]) -> int:
    import runpy

    if not os.path.isfile(file):
        print(f"wuji: there is no file {file}", file=sys.stderr)
        return 2
    from ..compat import taichi  # noqa: F401  so that `import taichi` works

    sys.argv = [file, *arguments]
    # As Python does for a program that it is given.
    sys.path[0] = os.path.dirname(os.path.abspath(file))
    runpy.run_path(file, run_name="__main__")
    return 0


def _run(asked: argparse.Namespace) -> int:
    """Runs a Python program as it is. `import taichi` gives it Wuji."""
    return _execute(asked.file, asked.arguments)


def _debug(asked: argparse.Namespace) -> int:
    """Runs a Python program with `debug=True` for every `init`: indices, overflow and assertions are checked."""
    os.environ["TI_DEBUG"] = "1"
    try:
        return _execute(asked.file, asked.arguments)
    except Exception:
        if not asked.pdb:
            raise
        import pdb
        import traceback

        traceback.print_exc()
        pdb.post_mortem()
        return 1


def _repl(_: argparse.Namespace) -> int:
    """A prompt of Python with `import wuji as ti` done. Kernels can be typed, which Python's own prompt does not allow."""
    import code
    import linecache
    from types import CodeType

    import wuji

    class Console(code.InteractiveConsole):
        """Keeps what is typed, so that the source of a kernel can be found."""

        number = 0

        def runsource(self, source: str, filename: str = "", symbol: str = "single") -> bool:
            Console.number += 1
            name = f"<wuji-{Console.number}>"
            lines = [line + "\n" for line in source.split("\n")]
            linecache.cache[name] = (len(source), None, lines, name)
            return super().runsource(source, name, symbol)

        def runcode(self, code: CodeType) -> None:
            super().runcode(code)

    banner = f"Wuji {wuji.__version__}: `import wuji as ti` is done. Begin with `ti.init()`."
    Console({"ti": wuji, "wuji": wuji, "__name__": "__main__"}).interact(banner=banner, exitmsg="")
    return 0


def _example(asked: argparse.Namespace) -> int:
    """Lists the examples, or runs one of them."""
    from .. import examples

    known = examples.known()
    if asked.name is None:
        width = max(map(len, known))
        for name, sentence in known.items():
            print(f"{name:<{width}}  {sentence}")
        print("\n`wuji example NAME` runs one, `wuji example -p NAME` shows its source.")
        return 0
    name = asked.name.removesuffix(".py")
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        print(f"wuji: there is no example `{name}`" + (f"; did you mean `{near[0]}`?" if near else ""), file=sys.stderr)
        return 2
    path = examples.path(name)
    if asked.show:
        with open(path, encoding="utf-8") as file:
            print(file.read(), end="")
        return 0
    if asked.save:
        import shutil

        target = os.path.join(os.getcwd(), os.path.basename(path))
        if os.path.exists(target):
            print(f"wuji: {target} is there already", file=sys.stderr)
            return 1
        shutil.copyfile(path, target)
        print(target)
        return 0
    return _execute(path, asked.arguments)


def _diagnose(_: argparse.Namespace) -> int:
    """Facts about this machine, this Python and Wuji. Put them into a report when something does not work."""
    from ..tools import diagnose

    diagnose()
    return 0


def _cache(asked: argparse.Namespace) -> int:
    """Looks at compiled kernels on disk, or removes them. Programs that run are not disturbed."""
    from .. import _cache as cache

    if asked.what == "info":
        found = cache.info(asked.path)
        print(f"{found.folder or 'no cache'}: {found.files} kernels, {cache.size(found.bytes)}")
    else:
        found = cache.clean(asked.path)
        print(f"{found.files} kernels removed, {cache.size(found.bytes)}")
    return 0


def _doc(asked: argparse.Namespace) -> int:
    """Says what a name of Wuji is."""
    import pydoc

    import wuji

    if asked.name is None:
        print(wuji.__doc__)
        return 0
    thing: Any = wuji
    for part in asked.name.removeprefix("ti.").removeprefix("wuji.").split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            print(f"wuji: there is no `{asked.name}`", file=sys.stderr)
            return 2
    print(pydoc.plain(pydoc.render_doc(thing, title="%s")))
    return 0
