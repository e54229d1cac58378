"""Textures on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti

ALL = [f for f in ti.Format if f is not ti.Format.unknown]


@ti.kernel
def fetch_all(tex: ti.types.texture(num_dimensions=2), out: ti.types.ndarray(dtype=ti.math.vec4, ndim=2)):
    for i, j in out:
        out[i, j] = tex.fetch(ti.Vector([i, j]), 0)


@ti.kernel
def store_all(tex: ti.types.rw_texture(num_dimensions=2), given: ti.types.ndarray(dtype=ti.math.vec4, ndim=2)):
    for i, j in tex:
        tex.store(ti.Vector([i, j]), given[i, j])


def as_array(a: np.ndarray) -> Any:
    array = ti.Vector.ndarray(4, ti.f32, a.shape[:-1])
    array.from_numpy(a.astype(np.float32))
    return array


def test_there_are_44_formats() -> None:
    assert len(ti.Format) == 44


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.value)
def test_stored_pixels_are_fetched(fmt: Any) -> None:
    tex = ti.Texture(fmt, (5, 3))
    given = np.random.default_rng(1).random((5, 3, 4))
    if fmt.value.endswith(("u", "i")):
        given = np.floor(given * 100)
    store_all(tex, as_array(given))
    out = as_array(np.zeros((5, 3, 4)))
    fetch_all(tex, out)
    expected = np.zeros((5, 3, 4))
    expected[..., 3] = 1
    expected[..., : tex.num_channels] = given[..., : tex.num_channels]
    # Half a quantization step; more for dark sRGB colors.
    close = 0 if fmt.value.endswith(("u", "i")) else 6e-3 if "srgb" in fmt.value else 2.1e-3 if "8" in fmt.value else 1e-3
    assert np.abs(out.to_numpy() - expected).max() <= close
    assert np.allclose(tex.to_numpy(), expected[..., : tex.num_channels], atol=close)


def test_values_outside_the_format_are_clamped() -> None:
    tex = ti.Texture(ti.Format.rgba8, (1, 1))
    store_all(tex, as_array(np.array([[[2.0, -1.0, 0.5, 1.0]]])))
    assert np.allclose(tex.to_numpy()[0, 0], [1, 0, 128 / 255, 1])


def test_linear_filtering() -> None:
    tex = ti.Texture(ti.Format.r32f, (4, 2))
    field = ti.field(ti.f32, (4, 2))
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    field.from_numpy(values)
    tex.from_field(field)

    @ti.kernel
    def sample(tex: ti.types.texture(2), u: ti.f32, v: ti.f32) -> ti.math.vec4:
        return tex.sample_lod(ti.Vector([u, v]), 0.0)

    def expected(u: float, v: float) -> float:
        x, y = u * 4 - 0.5, v * 2 - 0.5
        i, j = int(np.floor(x)), int(np.floor(y))
        a, b = x - i, y - j
        pick = lambda p, q: values[p % 4, q % 2]  # noqa: E731
        return float(
            pick(i, j) * (1 - a) * (1 - b) + pick(i + 1, j) * a * (1 - b) + pick(i, j + 1) * (1 - a) * b + pick(i + 1, j + 1) * a * b
        )

    for u, v in [(0.125, 0.25), (0.5, 0.5), (0.3, 0.7), (0.0, 0.0), (1.0, 1.0), (-0.3, 2.6), (10.2, -7.1)]:
        found = sample(tex, u, v)
        assert found[0] == pytest.approx(expected(u, v), abs=1e-4)
        assert list(found)[1:] == [0, 0, 1]


def test_1d_and_3d_textures() -> None:
    line, block = ti.Texture(ti.Format.r32f, 4), ti.Texture(ti.Format.r32f, (2, 3, 4))

    @ti.kernel
    def fill(line: ti.types.rw_texture(num_dimensions=1, fmt=ti.Format.r32f, lod=0), block: ti.types.rw_texture(3)):
        for i in range(line.shape[0]):
            line.store(i, i * 2.0)
        for i, j, k in ti.ndrange(2, 3, 4):
            block.store(ti.Vector([i, j, k]), ti.Vector([i + 10.0 * j + 100 * k, 0, 0, 0]))

    @ti.kernel
    def read(line: ti.types.texture(1), block: ti.types.texture(3)) -> ti.f32:
        return line.sample_lod(0.5, 0).x + block.fetch([1, 2, 3], 0).x + block.sample_lod(ti.Vector([0.5, 0.5, 0.5]), 0).x

    fill(line, block)
    assert read(line, block) == pytest.approx(3 + 321 + (0.5 + 10 + 150))


def test_out_of_bounds_fetch_and_store() -> None:
    tex = ti.Texture(ti.Format.rgba32f, (2, 2))

    @ti.kernel
    def run(tex: ti.types.rw_texture(2)) -> ti.f32:
        for i, j in ti.ndrange((-1, 3), (-1, 3)):
            tex.store([i, j], ti.Vector([1.0, 1, 1, 1]))
        return tex.load([-1, 0]).sum() + tex.load([0, 2]).sum() + tex.load([1, 1]).sum()

    assert run(tex) == 4
    assert (tex.to_numpy() == 1).all()


def test_from_fields_and_arrays() -> None:
    data = np.random.default_rng(2).integers(0, 255, (3, 4, 3)).astype(np.uint8)
    tex = ti.Texture(ti.Format.rgba8, (3, 4))
    field = ti.Vector.field(3, ti.u8, (3, 4))
    field.from_numpy(data)
    tex.from_field(field)
    assert np.allclose(tex.to_numpy()[..., :3] * 255, data) and (tex.to_numpy()[..., 3] == 1).all()
    array = ti.Vector.ndarray(4, ti.f32, (3, 4))
    array.fill(0.25)
    tex.from_ndarray(array)
    assert np.allclose(tex.to_numpy(), 0.25, atol=2e-3)


def test_images() -> None:
    Image = pytest.importorskip("PIL.Image")
    data = np.random.default_rng(2).integers(0, 255, (4, 6, 3)).astype(np.uint8)
    for fmt in (ti.Format.rgba8, ti.Format.rgba32f):
        tex = ti.Texture(fmt, (6, 4))
        tex.from_image(Image.fromarray(data))
        back = np.asarray(tex.to_image())
        assert (back[..., :3] == data).all() and (back[..., 3] == 255).all()
        assert np.allclose(tex.to_numpy()[5, 1, :3] * 255, data[1, 5])
    with pytest.raises(ti.TaichiRuntimeError, match="size"):
        tex.from_image(Image.fromarray(data[:2]))


def test_in_an_argpack() -> None:
    pack = ti.types.argpack(tex=ti.types.texture(num_dimensions=2), gain=ti.f32)
    tex = ti.Texture(ti.Format.r32f, (2, 2))
    tex.from_numpy(np.full((2, 2), 3.0))

    @ti.kernel
    def run(p: pack) -> ti.f32:
        return p.tex.fetch([0, 0], 0).x * p.gain

    assert run(pack(tex=tex, gain=2.0)) == 6


def test_in_a_function() -> None:
    @ti.func
    def first(tex: ti.types.texture(num_dimensions=2)):
        return tex.fetch([0, 0], 0)

    @ti.kernel
    def run(tex: ti.types.texture(2)) -> ti.f32:
        return first(tex).x

    tex = ti.Texture(ti.Format.r32f, (2, 2))
    tex.from_numpy(np.full((2, 2), 3.0))
    assert run(tex) == 3


def test_texture_kernels_are_not_specialized_on_size() -> None:
    @ti.kernel
    def last(tex: ti.types.texture(2)) -> ti.f32:
        return tex.fetch([tex.shape[0] - 1, tex.shape[1] - 1], 0).x

    for n in (2, 5):
        tex = ti.Texture(ti.Format.r32f, (n, n))
        tex.from_numpy(np.arange(n * n).reshape(n, n))
        assert last(tex) == n * n - 1


def test_invalid_arguments_are_rejected() -> None:
    tex = ti.Texture(ti.Format.r32f, (2, 2))
    with pytest.raises(ti.TaichiTypeError, match="Format"):
        ti.Texture(ti.f32, (2, 2))
    with pytest.raises(ti.TaichiRuntimeError, match="axes"):
        ti.Texture(ti.Format.r8, (2, 2, 2, 2))
    with pytest.raises(ti.TaichiTypeError, match="field"):
        tex.from_field(3)
    with pytest.raises(ti.TaichiRuntimeError, match="shape"):
        tex.from_numpy(np.zeros((3, 2)))

    @ti.kernel
    def cube(tex: ti.types.texture(num_dimensions=3)):
        pass

    with pytest.raises(ti.TaichiRuntimeTypeError, match="axes"):
        cube(tex)
    with pytest.raises(ti.TaichiRuntimeTypeError, match="tex"):
        cube(np.zeros(3))

    @ti.kernel
    def wrong(tex: ti.types.texture(num_dimensions=2)) -> ti.f32:
        return tex.fetch([1], 0).x

    with pytest.raises(ti.TaichiIndexError, match="2 coordinates"):
        wrong(tex)

    @ti.kernel
    def other(tex: ti.types.rw_texture(num_dimensions=2, fmt=ti.Format.rgba8, lod=0)):
        pass

    with pytest.raises(ti.TaichiRuntimeTypeError, match="format"):
        other(tex)


def test_gradients_flow_through_coordinates_of_a_texture() -> None:
    texture = ti.Texture(ti.Format.r32f, (4, 4))
    texture.from_numpy(np.arange(16, dtype=np.float32).reshape(4, 4) ** 1.5)
    uv = ti.Vector.field(2, ti.f32, 3, needs_grad=True)
    loss = ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def sample(tex: ti.types.texture(num_dimensions=2)):
        for i in uv:
            loss[None] += tex.sample_lod(uv[i], 0.0).x ** 2

    def value(at: np.ndarray) -> float:
        uv.from_numpy(at)
        loss[None] = 0.0
        sample(texture)
        return float(loss[None])

    start = np.array([[0.3, 0.4], [0.55, 0.7], [0.81, 0.2]], dtype=np.float32)
    expected = np.zeros_like(start)
    for at in np.ndindex(start.shape):
        step = np.zeros_like(start)
        step[at] = 1e-2
        expected[at] = (value(start + step) - value(start - step)) / 2e-2
    uv.from_numpy(start)
    with ti.ad.Tape(loss):
        sample(texture)
    assert np.allclose(uv.grad.to_numpy(), expected, rtol=2e-2)


def test_pixels_of_a_texture_are_constants() -> None:
    texture = ti.Texture(ti.Format.r32f, (2, 2))
    x, loss = ti.field(ti.f32, (), needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def paint(tex: ti.types.rw_texture(num_dimensions=2, fmt=ti.Format.r32f, lod=0)):
        for i, j in ti.ndrange(2, 2):
            tex.store(ti.Vector([i, j]), ti.Vector([x[None] * 2.0, 0.0, 0.0, 0.0]))

    @ti.kernel
    def total(tex: ti.types.texture(num_dimensions=2)):
        for i, j in ti.ndrange(2, 2):
            loss[None] += tex.fetch(ti.Vector([i, j]), 0).x * x[None]

    x[None] = 3.0
    with pytest.warns(RuntimeWarning, match="no gradient, so it counts as a constant"), ti.ad.Tape(loss):
        paint(texture)
        total(texture)
    assert loss[None] == 72.0 and x.grad[None] == 24.0


def test_a_shape_that_is_none_is_rejected_like_that_of_a_field():
    for shape in ("a", 1.5, (2.0, 2)):
        with pytest.raises(ti.TaichiRuntimeTypeError, match="is not a valid shape"):
            ti.Texture(ti.Format.r32f, shape)
