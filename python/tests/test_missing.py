"""Placeholders for unimplemented parts of Taichi's API: they exist and raise `NotYet`."""

from __future__ import annotations

from typing import Any

import pytest

import wuji as ti
from wuji.exceptions import NotYet

NAMES: dict[Any, list[str]] = {
    ti.aot: ["GfxRuntime140"],
}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in NAMES.items() for name in names])
def test_functions(owner: Any, name: str) -> None:
    with pytest.raises(NotYet, match=name) as caught:
        getattr(owner, name)(1)
    assert caught.value.code == "W0607"
    assert isinstance(caught.value, NotImplementedError)


def test_experimental_real_func_is_deprecated() -> None:
    with pytest.deprecated_call():

        @ti.experimental.real_func
        def twice(x: ti.i32) -> ti.i32:
            return x * 2

    @ti.kernel
    def run(x: ti.i32) -> ti.i32:
        return twice(x)

    assert run(21) == 42


def test_device_capabilities() -> None:
    assert ti.DeviceCapability.spirv_has_int64.value == "spirv_has_int64"
