"""Names of the contract that this version does not have: they are there, and refuse to be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wuji as ti
from wuji.exceptions import NotYet

OPERATIONS = ("add", "mul", "min", "max", "and", "or", "xor")
NAMES: dict[Any, list[str]] = {
    ti.simt.block: "sync sync_all_nonzero sync_any_nonzero sync_count_nonzero mem_sync thread_idx global_thread_idx".split(),
    ti.simt.warp: (
        "active_mask all_nonzero any_nonzero unique ballot match_all match_any shfl_sync_i32 shfl_sync_f32 shfl_up_i32 "
        "shfl_up_f32 shfl_down_i32 shfl_down_f32 shfl_xor_i32 sync"
    ).split(),
    ti.simt.subgroup: (
        "barrier memory_barrier elect all_true any_true all_equal broadcast broadcast_first group_size invocation_id shuffle "
        "shuffle_up shuffle_down shuffle_xor"
    ).split()
    + [f"{kind}_{op}" for kind in ("reduce", "inclusive", "exclusive") for op in OPERATIONS],
    ti.simt.grid: ["memfence"],
    ti.ad: "grad_replaced grad_for clear_all_gradients".split(),
    ti.aot: "export export_as Module GfxRuntime140".split(),
    ti.types.quant: "int fixed float".split(),
    ti.Mesh: "load_meta generate_meta".split(),
}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in NAMES.items() for name in names])
def test_functions(owner: Any, name: str) -> None:
    with pytest.raises(NotYet, match=name) as caught:
        getattr(owner, name)(1)
    assert caught.value.code == "W0607"
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    "use",
    [
        lambda: ti.ad.Tape(),
        lambda: ti.ad.FwdMode(None, None),
        lambda: ti.BitpackedFields(32),
        lambda: ti.quant.int(5, True),
        lambda: ti.simt.block.SharedArray((4,), ti.f32),
        lambda: ti.stop_grad(1.0),
        lambda: ti.Mesh(),
    ],
)
def test_others(use: Callable[[], Any]) -> None:
    with pytest.raises(NotYet, match="not yet in this version"):
        use()


def test_in_a_kernel_the_line_is_named() -> None:
    @ti.kernel
    def run():
        for _ in range(4):
            ti.simt.block.sync()

    with pytest.raises(NotYet, match="test_missing.py") as caught:
        run()
    assert "blocks of threads" in str(caught.value) and "W0607" in str(caught.value)


def test_no_grad_changes_nothing() -> None:
    @ti.ad.no_grad
    def f() -> int:
        return 3

    assert f() == 3


def test_old_name_of_real_func() -> None:
    with pytest.deprecated_call():

        @ti.experimental.real_func
        def twice(x: ti.i32) -> ti.i32:
            return x * 2

    @ti.kernel
    def run(x: ti.i32) -> ti.i32:
        return twice(x)

    assert run(21) == 42


def test_capabilities_have_names() -> None:
    assert ti.DeviceCapability.spirv_has_int64.value == "spirv_has_int64"
