"""Commands that run programs or inspect the installation."""

from __future__ import annotations

import argparse
import builtins
import io
import os
import sys
from types import ModuleType, TracebackType
from typing import Any


def add_to(commands: Any) -> None:
    run = commands.add_parser("run", help="run a program; `import taichi` resolves to Wuji", description=_run.__doc__)
    debug = commands.add_parser("debug", help="run a program in debug mode", description=_debug.__doc__)
    for parser, handler in ((run, _run), (debug, _debug)):
        parser.add_argument("file", help="a Python program")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
        parser.set_defaults(handler=handler, catch_errors=False)
    debug.add_argument("--pdb", action="store_true", help="open the debugger on an exception (place it before the file name)")
    repl = commands.add_parser("repl", help="start a Python prompt that can compile kernels", description=_repl.__doc__)
    repl.set_defaults(handler=_repl, catch_errors=False)
    for name in ("example", "gallery"):
        example = commands.add_parser(name, help="list the examples, or run one", description=_example.__doc__)
        example.add_argument("name", nargs="?", help="name of the example (default: list all)")
        example.add_argument("-p", "--print", action="store_true", dest="show", help="print the source")
        example.add_argument("-s", "--save", action="store_true", help="copy the source to this folder")
        example.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the example")
        example.set_defaults(handler=_example, catch_errors=False)
    diagnose = commands.add_parser("diagnose", help="print system information for bug reports", description=_diagnose.__doc__)
    diagnose.set_defaults(handler=_diagnose)
    cache = commands.add_parser("cache", help="inspect or clear the cache of compiled kernels", description=_cache.__doc__)
    cache.add_argument("what", choices=("info", "clean", "clear"), help="`info` shows the number and size of entries, `clean` and `clear` delete them")
    cache.add_argument("-p", "--offline-cache-file-path", dest="path", help="cache folder (default: that of a new world)")
    cache.set_defaults(handler=_cache)
    doc = commands.add_parser("doc", help="show the documentation of a name: `wuji doc svd`", description=_doc.__doc__)
    doc.add_argument("name", nargs="?", help="such as `field`, `math.mix` or `tools.imread`")
    doc.set_defaults(handler=_doc)


def _execute(file: str, arguments: list[str], post_mortem: bool = False) -> int:
    if not os.path.isfile(file):
        print(f"wuji: no such file: {file}", file=sys.stderr)
        return 2
    from ..compat import taichi  # makes `import taichi` work

    sys.argv = [file, *arguments]
    # Same as `python FILE`.
    sys.path[0] = os.path.dirname(os.path.abspath(file))
    # Processes that `multiprocessing` spawns get this path, and nothing else of what was imported here.
    sys.path.insert(1, os.path.join(os.path.dirname(taichi.__file__), "spawned"))
    main = ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = main
    try:
        with io.open_code(os.path.abspath(file)) as source:
            code = compile(source.read(), file, "exec")
        exec(code, main.__dict__)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            raise  # as of every command in front of `| head`
        trace = _users(error, error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if post_mortem and trace is not None:
            import pdb

            pdb.post_mortem(trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _output_is_closed() -> bool:
    """Return whether standard output is a pipe without a reader."""
    import select

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return False


def _users(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """Return the frames of the program. Errors of Wuji name the source line, so its own frames would only add noise, as for errors of files."""
    from ..exceptions import WujiError
    from ..lang.naming import is_own

    frames: list[TracebackType] = []
    while trace is not None:
        # Frames of this command come first.
        if frames or not is_own(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    if isinstance(error, (WujiError, OSError)) and os.environ.get("TI_PRINT_FULL_TRACEBACK", "0") in ("", "0"):
        frames = [f for f in frames if not is_own(f.tb_frame.f_code.co_filename)]
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def _run(args: argparse.Namespace) -> int:
    """Run a Python program unchanged. `import taichi` resolves to Wuji."""
    return _execute(args.file, args.arguments)


def _debug(args: argparse.Namespace) -> int:
    """Run a Python program with `debug=True` in every `init`: indices, overflow and assertions are checked."""
    os.environ["TI_DEBUG"] = "1"
    return _execute(args.file, args.arguments, post_mortem=args.pdb)


def _repl(_: argparse.Namespace) -> int:
    """Start a Python prompt with `import wuji as ti`. Unlike Python's own prompt, it keeps the source, so kernels can be defined."""
    import code
    import linecache
    from types import CodeType

    import wuji

    class Console(code.InteractiveConsole):
        """Keeps the typed source for the kernel compiler."""

        number = 0

        def runsource(self, source: str, filename: str = "", symbol: str = "single") -> bool:
            Console.number += 1
            name = f"<wuji-{Console.number}>"
            lines = [line + "\n" for line in source.split("\n")]
            linecache.cache[name] = (len(source), None, lines, name)
            return super().runsource(source, name, symbol)

        def runcode(self, code: CodeType) -> None:
            super().runcode(code)

    banner = f"Wuji {wuji.__version__}: `ti` is imported. Start with `ti.init()`."
    Console({"ti": wuji, "wuji": wuji, "__name__": "__main__"}).interact(banner=banner, exitmsg="")
    return 0


def _example(args: argparse.Namespace) -> int:
    """List the examples, or run one."""
    from .. import examples

    known = examples.known()
    if args.name is None:
        width = max(map(len, known))
        for name, sentence in known.items():
            print(f"{name:<{width}}  {sentence}")
        print("\n`wuji example NAME` runs one, `wuji example -p NAME` shows its source.")
        return 0
    name = args.name.removesuffix(".py")
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        print(f"wuji: no such example: `{name}`" + (f"; did you mean `{near[0]}`?" if near else ""), file=sys.stderr)
        return 2
    path = examples.path(name)
    if args.show:
        with open(path, encoding="utf-8") as file:
            print(file.read(), end="")
        return 0
    if args.save:
        import shutil

        target = os.path.join(os.getcwd(), os.path.basename(path))
        if os.path.exists(target):
            print(f"wuji: {target} already exists", file=sys.stderr)
            return 1
        shutil.copyfile(path, target)
        print(target)
        return 0
    return _execute(path, args.arguments)


def _diagnose(_: argparse.Namespace) -> int:
    """Print information about the machine, Python and Wuji. Include it in bug reports."""
    from ..tools import diagnose

    diagnose()
    return 0


def _cache(args: argparse.Namespace) -> int:
    """Inspect or clear the on-disk cache of compiled kernels. Running programs are not affected."""
    from .. import _cache as cache

    if args.what == "info":
        found = cache.info(args.path)
        print(f"{found.folder or 'no cache'}: {found.files} kernels, {cache.size(found.bytes)}")
    else:
        found = cache.clean(args.path)
        print(f"{found.files} kernels removed, {cache.size(found.bytes)}")
    return 0


def _doc(args: argparse.Namespace) -> int:
    """Show the documentation of a name."""
    import pydoc

    import wuji

    if args.name is None:
        print(wuji.__doc__)
        return 0
    target: Any = wuji
    for part in args.name.removeprefix("ti.").removeprefix("wuji.").split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            print(f"wuji: no such name: `{args.name}`", file=sys.stderr)
            return 2
    print(pydoc.plain(pydoc.render_doc(target, title="%s")))
    return 0
