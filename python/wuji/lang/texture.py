"""Textures: images that kernels sample, read and write."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from typing import Any

from ..exceptions import WujiIndexError, WujiRuntimeError, WujiRuntimeTypeError, WujiTypeError
from . import context, dtypes, emit, ops, runtime
from .access import ArrayVal
from .compound import NdarrayType, RWTextureType, TextureType, VectorType
from .dtypes import DataType
from .field import MatrixField, ScalarField
from .ndarray import Ndarray, ndarray
from .signatures import MISSING
from .extents import shape_of
from .values import Expr


class Format(enum.Enum):
    """Pixel format of a texture: channels, bits per channel, interpretation.

    The suffix ``u`` or ``i`` means integers, ``f`` means floats. Without a suffix, channels are normalized to [0, 1].
    """

    unknown = "unknown"
    r8 = "r8"
    rg8 = "rg8"
    rgba8 = "rgba8"
    rgba8srgb = "rgba8srgb"
    bgra8 = "bgra8"
    bgra8srgb = "bgra8srgb"
    r8u = "r8u"
    rg8u = "rg8u"
    rgba8u = "rgba8u"
    r8i = "r8i"
    rg8i = "rg8i"
    rgba8i = "rgba8i"
    r16 = "r16"
    rg16 = "rg16"
    rgb16 = "rgb16"
    rgba16 = "rgba16"
    r16u = "r16u"
    rg16u = "rg16u"
    rgb16u = "rgb16u"
    rgba16u = "rgba16u"
    r16i = "r16i"
    rg16i = "rg16i"
    rgb16i = "rgb16i"
    rgba16i = "rgba16i"
    r16f = "r16f"
    rg16f = "rg16f"
    rgb16f = "rgb16f"
    rgba16f = "rgba16f"
    r32u = "r32u"
    rg32u = "rg32u"
    rgb32u = "rgb32u"
    rgba32u = "rgba32u"
    r32i = "r32i"
    rg32i = "rg32i"
    rgb32i = "rgb32i"
    rgba32i = "rgba32i"
    r32f = "r32f"
    rg32f = "rg32f"
    rgb32f = "rgb32f"
    rgba32f = "rgba32f"
    depth16 = "depth16"
    depth24stencil8 = "depth24stencil8"
    depth32f = "depth32f"


class _PixelType:
    """A decoded format: number and type of channels, and whether they are normalized to [0, 1]."""

    def __init__(self, fmt: Format) -> None:
        name = fmt.value
        self.srgb = name.endswith("srgb")
        if name.startswith("depth"):
            self.channels = 1
            self.dtype: DataType = dtypes.u16 if name == "depth16" else dtypes.f32
        else:
            letters = name.removesuffix("srgb").rstrip("0123456789uif")
            digits = name[len(letters) :].removesuffix("srgb")
            self.channels = len(letters)
            bits, last = digits.rstrip("uif"), digits[-1]
            self.dtype = dtypes.by_name(("u" if last.isdigit() else last) + bits)
        self.normalized = self.dtype.kind == "u" and not name.endswith("u")

    @property
    def element(self) -> Any:
        return self.dtype if self.channels == 1 else VectorType(self.channels, self.dtype)

    @property
    def max_value(self) -> int:
        return self.dtype.range()[1]


class Texture:
    """An image with 1, 2 or 3 axes: ``ti.Texture(ti.Format.rgba8, (640, 480))``.

    A kernel takes it as ``ti.types.texture(num_dimensions=2)`` to sample it (``sample_lod``, ``fetch``), or as
    ``ti.types.rw_texture(num_dimensions=2, fmt=..., lod=0)`` to read and write it (``load``, ``store``).
    In kernels, pixels are vectors of 4 floats, whatever the format. There is one mip level.
    """

    def __init__(self, fmt: Format, arr_shape: Any) -> None:
        if not isinstance(fmt, Format) or fmt is Format.unknown:
            raise WujiTypeError(f"a texture needs a `ti.Format`, not {fmt!r}")
        shape = shape_of(arr_shape)
        if not 1 <= len(shape) <= 3 or any(s < 1 for s in shape):
            raise WujiRuntimeError(f"invalid texture shape {shape}: a texture has 1, 2 or 3 axes with at least one pixel each")
        runtime.current()
        self.fmt = fmt
        self.shape = shape
        self.num_dims = len(shape)
        self._kind = _PixelType(fmt)
        self.num_channels = self._kind.channels
        self.dtype = self._kind.dtype
        self._pixels = ndarray(self._kind.element, shape)

    # Conversion of whole images.
    def from_numpy(self, array: Any) -> None:
        """Copy all pixels from an array of the texture's shape, with an optional last axis for channels. Bytes are normalized to [0, 1]."""
        import numpy

        values = numpy.asarray(array)
        if values.ndim == self.num_dims:
            values = values[..., None]
        if values.shape[:-1] != self.shape or not 1 <= values.shape[-1] <= 4:
            raise WujiRuntimeError(f"shape mismatch: image {values.shape}, texture {self.shape}")
        if values.dtype == numpy.uint8 and self._kind.normalized:
            values = values / numpy.float32(255)
        elif values.dtype == numpy.uint8 and self.dtype.is_float:
            values = values.astype(numpy.float32) / numpy.float32(255)
        whole = numpy.zeros((*self.shape, 4), dtype=numpy.float64)
        whole[..., 3] = 1
        whole[..., : values.shape[-1]] = values
        encoded = self._encode(whole[..., : self.num_channels])
        self._pixels.from_numpy(encoded[..., 0] if self.num_channels == 1 else encoded)

    def to_numpy(self) -> Any:
        """Copy all pixels to an array with a last axis for channels. Integer formats give integers, others floats."""
        import numpy

        raw = self._pixels.to_numpy()
        raw = raw[..., None] if self.num_channels == 1 else raw
        if not self._kind.normalized:
            return raw
        values = raw.astype(numpy.float32) / numpy.float32(self._kind.max_value)
        if self._kind.srgb:
            color = values[..., :3]
            values[..., :3] = numpy.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
        return values

    def _encode(self, values: Any) -> Any:
        import numpy

        kind = self._kind
        if not kind.normalized:
            if kind.dtype.is_int:
                values = numpy.clip(numpy.trunc(values), *kind.dtype.range())
            return values.astype(kind.dtype.numpy_name)
        values = numpy.clip(values, 0, 1)
        if kind.srgb:
            color = values[..., :3]
            values[..., :3] = numpy.where(color <= 0.0031308, color * 12.92, 1.055 * color ** (1 / 2.4) - 0.055)
        return numpy.rint(values * kind.max_value).astype(kind.dtype.numpy_name)

    def from_field(self, field: Any) -> None:
        """Copy all pixels from a field of scalars, or of vectors with up to 4 components."""
        if not isinstance(field, (ScalarField, MatrixField)):
            raise WujiTypeError(f"`Texture.from_field` needs a field of scalars or vectors, not {type(field).__name__}")
        self.from_numpy(field.to_numpy())

    def from_ndarray(self, ndarray: Any) -> None:
        """Copy all pixels from an array of scalars, or of vectors with up to 4 components."""
        if not isinstance(ndarray, Ndarray):
            raise WujiTypeError(f"`Texture.from_ndarray` needs an array, not {type(ndarray).__name__}")
        self.from_numpy(ndarray.to_numpy())

    def from_image(self, image: Any) -> None:
        """Copy all pixels from a Pillow image of the same size. Index ``[x, y]`` is column ``x`` of row ``y``."""
        import numpy

        self._need_2d("from_image")
        if not hasattr(image, "getbands"):
            raise WujiRuntimeTypeError(f"`from_image` needs a Pillow image, not {type(image).__name__}")
        if tuple(image.size) != self.shape:
            raise WujiRuntimeError(f"size mismatch: image {tuple(image.size)}, texture {self.shape}")
        if image.mode not in ("L", "LA", "RGB", "RGBA"):
            image = image.convert("RGBA" if "A" in image.getbands() else "RGB")
        self.from_numpy(numpy.swapaxes(numpy.asarray(image), 0, 1))

    def to_image(self) -> Any:
        """Convert to a Pillow image."""
        import numpy
        from PIL import Image  # type: ignore[import-not-found,unused-ignore]

        self._need_2d("to_image")
        values = self.to_numpy()
        if not self._kind.srgb and not self.dtype.is_int or self._kind.normalized:
            values = numpy.rint(numpy.clip(values, 0, 1) * 255)
        pixels = numpy.swapaxes(numpy.clip(values, 0, 255).astype(numpy.uint8), 0, 1)
        if self.num_channels == 1:
            return Image.fromarray(numpy.ascontiguousarray(pixels[..., 0]))
        if self.num_channels == 2:
            pixels = numpy.concatenate([pixels, numpy.zeros_like(pixels[..., :1])], axis=-1)
        return Image.fromarray(numpy.ascontiguousarray(pixels))

    def _need_2d(self, what: str) -> None:
        if self.num_dims != 2:
            raise WujiRuntimeError(f"`Texture.{what}` needs a texture with 2 axes, not {self.num_dims}")

    def __repr__(self) -> str:
        return f"<texture {self.fmt.value}, shape {self.shape}>"

    # Binding to kernels.
    def _wuji_key(self, annotation: Any) -> Any:
        if annotation in (TextureType, RWTextureType):
            return (self.fmt, self.num_dims)
        if not isinstance(annotation, (TextureType, RWTextureType)):
            raise WujiRuntimeTypeError(f"expected {annotation!r}, got a texture")
        if annotation.num_dimensions != self.num_dims:
            raise WujiRuntimeTypeError(f"expected a texture with {annotation.num_dimensions} axes, got {self.num_dims}")
        if isinstance(annotation, RWTextureType) and annotation.fmt not in (None, Format.unknown, self.fmt):
            raise WujiRuntimeTypeError(f"expected a texture of format {annotation.fmt.value}, got {self.fmt.value}")
        return (self.fmt, self.num_dims)

    def _wuji_bind(self, binder: Any, name: str, get: Callable[[tuple[Any, ...]], Any]) -> TextureVal:
        spec = NdarrayType(dtype=self._pixels.element_type, ndim=self.num_dims)
        parameter = _parameter(name, spec)
        array: ArrayVal = binder.array(parameter, spec, name, self._pixels, lambda args: get(args)._pixels)
        return TextureVal(name, self._kind, array)


def _parameter(name: str, spec: NdarrayType) -> Any:
    """Return a kernel parameter for the array of pixels."""
    from .arguments import Parameter

    return Parameter(name, name, spec, MISSING, False)


class TextureVal:
    """A texture in a kernel."""

    def __init__(self, name: str, kind: _PixelType, array: ArrayVal) -> None:
        self.name = name
        self.kind = kind
        self.array = array

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Number of pixels along each axis."""
        return self.array.shape

    def _wuji_domain(self, cx: context.Compilation) -> ArrayVal:
        return self.array

    def fetch(self, index: Any, lod: Any = 0) -> Any:
        """Return the pixel at an index as a vector of 4 floats; zeros outside the texture."""
        at, inside = self._clamp(index, "fetch")
        return ops.select(inside, self._pixel(at), 0.0)

    def load(self, index: Any) -> Any:
        """Return the pixel at an index as a vector of 4 floats; zeros outside the texture."""
        return self.fetch(index)

    def store(self, index: Any, value: Any) -> None:
        """Write a pixel. Writes outside the texture are dropped."""
        at, inside = self._clamp(index, "store")
        b = context.builder()
        b.begin_if(inside.id)
        self.array._wuji_subscript(context.current(), at).store(self._encoded(value))
        b.end_if()

    def sample_lod(self, uv: Any, lod: Any = 0.0) -> Any:
        """Sample with linear filtering at normalized coordinates in [0, 1]. Coordinates outside wrap around."""
        at = self._parts(uv, "sample_lod")
        near: list[tuple[list[Any], Any]] = []
        for x, size in zip(at, self.shape, strict=True):
            t = ops.sub(ops.mul(emit.convert(x, dtypes.f32), emit.convert(size, dtypes.f32)), 0.5)
            whole = ops.floor(t)
            first = emit.modulo(emit.convert(whole, dtypes.i32), size)
            following = emit.modulo(ops.add(first, 1), size)
            near.append(([first, following], ops.sub(t, whole)))
        color: Any = None
        for corner in itertools.product((0, 1), repeat=len(near)):
            weight: Any = None
            for k, (_, w) in zip(corner, near, strict=True):
                part = w if k else ops.sub(1.0, w)
                weight = part if weight is None else ops.mul(weight, part)
            pixel = self._pixel([places[k] for k, (places, _) in zip(corner, near, strict=True)])
            share = ops.mul(pixel, weight)
            color = share if color is None else ops.add(color, share)
        return color

    def _parts(self, index: Any, what: str) -> list[Any]:
        parts = emit.components(index) if isinstance(index, Expr) else list(index) if hasattr(index, "__iter__") else [index]
        if len(parts) != self.array.ndim:
            raise WujiIndexError(f"`{what}` of texture `{self.name}` takes {self.array.ndim} coordinates, not {len(parts)}")
        return parts

    def _clamp(self, index: Any, what: str) -> tuple[list[Any], Expr]:
        """Clamp coordinates to the texture; also return whether they were inside."""
        at: list[Any] = []
        inside: Any = None
        for x, size in zip(self._parts(index, what), self.shape, strict=True):
            x = emit.convert(x, dtypes.i32)
            here = ops.logical_and(ops.cmp_ge(x, 0), ops.cmp_lt(x, size))
            inside = here if inside is None else ops.logical_and(inside, here)
            at.append(ops.max(ops.min(x, ops.sub(size, 1)), 0))
        return at, inside

    def _pixel(self, at: list[Any]) -> Expr:
        """Load a pixel as a vector of 4 floats."""
        raw = self.array._wuji_subscript(context.current(), at).load()
        values: list[Any] = [emit.convert(v, dtypes.f32) for v in emit.components(raw)]
        if self.kind.normalized:
            values = [ops.mul(v, 1.0 / self.kind.max_value) for v in values]
            if self.kind.srgb:
                values[:3] = map(_from_srgb, values[:3])
        rest = [0.0, 0.0, 0.0, 1.0]
        return emit.compose([*values, *rest[len(values) :]], (4,), dtypes.f32)

    def _encoded(self, value: Any) -> Any:
        given = emit.expr(value)
        values: list[Any] = emit.components(given) if given.shape else [given] * self.kind.channels
        if len(given.shape) > 1 or len(values) < self.kind.channels:
            raise WujiTypeError(f"cannot store {emit.describe(given)} to a texture with {self.kind.channels} channels")
        values = values[: self.kind.channels]
        if self.kind.normalized:
            values = [ops.max(ops.min(emit.convert(v, dtypes.f32), 1.0), 0.0) for v in values]
            if self.kind.srgb:
                values[:3] = map(_to_srgb, values[:3])
            values = [ops.round(ops.mul(v, float(self.kind.max_value))) for v in values]
        values = [emit.convert(v, self.kind.dtype) for v in values]
        return values[0] if len(values) == 1 else emit.compose(values, (len(values),), self.kind.dtype)

    def __repr__(self) -> str:
        return f"the texture `{self.name}`"


def _from_srgb(v: Any) -> Any:
    bright = ops.pow(ops.mul(ops.add(v, 0.055), 1 / 1.055), 2.4)
    return ops.select(ops.cmp_le(v, 0.04045), ops.mul(v, 1 / 12.92), bright)


def _to_srgb(v: Any) -> Any:
    bright = ops.sub(ops.mul(ops.pow(v, 1 / 2.4), 1.055), 0.055)
    return ops.select(ops.cmp_le(v, 0.0031308), ops.mul(v, 12.92), bright)


__all__ = ["Format", "Texture"]
