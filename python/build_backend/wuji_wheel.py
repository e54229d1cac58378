"""Writes the wheel: package sources, extension module, metadata.

`cargo xtask wheel` runs this as a program, with the module that it has built.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import re
import struct
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIRES = ["numpy>=1.23"]
# Libraries that every `manylinux` system has.
MANYLINUX_LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libmvec.so.1",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
}


class Elf:
    """Reads the dynamic dependencies of a 64-bit ELF file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit("error: the module is not a 64-bit ELF file")
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + k * size) for k in range(count)]

    def _section(self, kind: int) -> tuple[int, ...] | None:
        return next((s for s in self.sections if s[1] == kind), None)

    def _text(self, table: tuple[int, ...], offset: int) -> str:
        start = table[4] + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def libraries(self) -> list[str]:
        """Return the shared libraries it depends on."""
        dynamic = self._section(6)
        if dynamic is None:
            return []
        names = self.sections[dynamic[6]]
        entries = struct.iter_unpack("<QQ", self.data[dynamic[4] : dynamic[4] + dynamic[5]])
        return [self._text(names, value) for tag, value in entries if tag == 1]

    def versions(self) -> list[str]:
        """Return the symbol versions it needs, such as ``GLIBC_2.34``."""
        table = self._section(0x6FFFFFFE)
        if table is None:
            return []
        names, found, at = self.sections[table[6]], [], table[4]
        for _ in range(table[7]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(count):
                _, _, _, name, after = struct.unpack_from("<IHHII", self.data, entry)
                found.append(self._text(names, name))
                entry += after
            at += following
        return found


def platform_tag(libraries: list[bytes]) -> str:
    """Return the `manylinux` tag of the oldest sufficient glibc, or a plain `linux` tag if other libraries are needed."""
    elves, machine = [Elf(library) for library in libraries], platform.machine()
    needed = {library for elf in elves for library in elf.libraries()}
    foreign = [l for l in sorted(needed) if l not in MANYLINUX_LIBRARIES and not l.startswith("ld-linux")]
    if foreign:
        print(f"  not portable: depends on {', '.join(foreign)}")
        return f"linux_{machine}"
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", v) for elf in elves for v in elf.versions()]
    major, minor = max(((int(m[1]), int(m[2])) for m in versions if m), default=(2, 17))
    return f"manylinux_{major}_{minor}_{machine}"


def metadata(version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: wuji",
        f"Version: {version}",
        "Summary: A language and compiler for visual computing",
        "Requires-Python: >=3.11",
        *(f"Requires-Dist: {package}" for package in REQUIRES),
        "License-Expression: MIT OR Apache-2.0",
        "License-File: LICENSE-MIT",
        "License-File: LICENSE-APACHE",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Programming Language :: Rust",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def sources() -> list[tuple[str, bytes]]:
    """Return the package files that belong in the wheel."""
    package = ROOT / "python" / "wuji"
    suffixes = {".py", ".pyi", ".typed", ".md", ".json", ".txt"}
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    files = [p for p in files if p.suffix in suffixes or p.name == "py.typed"]
    return [(p.relative_to(package.parent).as_posix(), p.read_bytes()) for p in sorted(files)]


def write(module: bytes, out: Path, version: str, llvm: bytes | None = None, stored: bool = False) -> Path:
    """Write a binary wheel. LLVM is linked into the module, or added as a library."""
    files = [*sources(), ("wuji/_native.abi3.so", module)]
    libraries = [module]
    if llvm is not None:
        files.append(("wuji/lib/libLLVM.so.22.1", llvm))
        libraries.append(llvm)
    return pack(files, f"cp311-abi3-{platform_tag(libraries)}", out, version, stored)


def write_editable(out: Path, version: str) -> Path:
    """Write an editable wheel, which points to the checkout."""
    files = [("wuji.pth", f"{ROOT / 'python'}\n".encode())]
    return pack(files, f"cp311-abi3-linux_{platform.machine()}", out, version)


def pack(files: list[tuple[str, bytes]], tag: str, out: Path, version: str, stored: bool = False) -> Path:
    info = f"wuji-{version}.dist-info"
    files.append((f"{info}/METADATA", metadata(version).encode()))
    wheel = f"Wheel-Version: 1.0\nGenerator: wuji ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files.append((f"{info}/WHEEL", wheel.encode()))
    files.append((f"{info}/entry_points.txt", b"[console_scripts]\nwuji = wuji.__main__:main\n"))
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        files.append((f"{info}/licenses/{licence}", (ROOT / licence).read_bytes()))
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode()))

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"wuji-{version}-{tag}.whl"
    method = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", method, compresslevel=9) as zipped:
        for name, data in files:
            # Reproducible: fixed timestamps.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = method
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            zipped.writestr(entry, data)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Write Wuji's wheel.")
    parser.add_argument("--library", type=Path, required=True, help="the extension module")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--version", required=True)
    parser.add_argument("--llvm", type=Path, help="the LLVM library, for a module that links it dynamically")
    parser.add_argument("--stored", action="store_true", help="do not compress, for a wheel that is repacked later")
    options = parser.parse_args()
    llvm = options.llvm.read_bytes() if options.llvm else None
    path = write(options.library.read_bytes(), options.out, options.version, llvm, options.stored)
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
