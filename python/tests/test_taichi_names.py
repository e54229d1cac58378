"""Every name of Taichi exists, or raises an error that says what to use instead."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import wuji as ti
from wuji.compat.taichi_names import NAMES

# In a process of its own: `wuji.compat.taichi` changes how integers out of range are treated.
PROGRAM = """
import importlib, json, sys
import wuji.compat.taichi
from wuji.exceptions import NotYet

report = {}
for module, names in json.load(sys.stdin).items():
    try:
        found = importlib.import_module(f"taichi.{module}" if module else "taichi")
    except ImportError as error:
        report[module] = str(error)
        continue
    for name in names.split():
        try:
            getattr(found, name)
        except Exception as error:
            advises = isinstance(error, NotYet) and isinstance(error, AttributeError) and error.code == "W0607"
            report[f"{module}.{name}"] = "advises" if advises else repr(error)
json.dump(report, sys.stdout)
"""


def test_every_name_of_taichi_exists_or_says_what_to_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(NAMES), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {name: what for name, what in report.items() if what != "advises"} == {}
    # What programs use exists; what only says what to use is internal to Taichi, or a part that is not implemented.
    public = [name for name in report if name.count(".") == 1 and not name.startswith(("_", ".")) and "._" not in name]
    assert public == [], public
    assert len(report) < 460


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("from taichi.lang.impl import subscript", "internal to Taichi's compiler"),
        ("from taichi._kernels import ext_arr_to_tensor", "`from_numpy`"),
        ("from taichi.ad._ad import get_all_fields", "`ti.ad.Tape`"),
        ("from taichi.lang.mesh import ConvType", "`ti.Mesh.from_arrays`"),
        ("import taichi.lang.ast.transform as t; t.transform_tree", "internal to Taichi's compiler"),
        ("from taichi.tools.video import interpolate_frames", "`ti.tools.VideoManager`"),
    ],
)
def test_imports_of_missing_names_say_what_to_use(line: str, advice: str) -> None:
    program = f"import wuji.compat.taichi\ntry:\n    {line}\nexcept (ImportError, AttributeError) as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "W0607" in done.stdout and advice in done.stdout, done.stderr


def test_names_are_found_without_the_compatibility_module() -> None:
    assert ti.lang.matrix.TaichiOperations is ti.lang.operators.Operators
    assert ti.lang.kernel_impl._ti_core is ti._lib.core
    assert ti.types.primitive_types.real_types == [ti.f16, ti.f32, ti.f64, float]
    assert not hasattr(ti.lang.impl, "subscript") and not hasattr(ti.lang.matrix, "nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ti.lang.matrix.nothing  # noqa: B018
    with pytest.raises(NotImplementedError, match="internal to Taichi's compiler"):
        ti.lang.impl.subscript  # noqa: B018
