"""The texture program of `benches/src/flow/large/texture.rs` in JAX, with and without `jit`.

A pattern is rotated and scaled, both with bilinear resampling, and the two images are blended.
Needs `pip install "jax[cpu]"`, or a build of JAX for a GPU.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp

ANGLE = 0.5
FACTOR = 1.7
ALPHA = 0.6


def pattern(n):
    x, y = jnp.meshgrid(jnp.arange(n) / n - 0.5, jnp.arange(n) / n - 0.5, indexing="ij")
    rings = 0.5 + 0.5 * jnp.sin(60.0 * (x * x + y * y))
    stripes = 0.5 + 0.5 * jnp.sin(40.0 * x)
    return jnp.stack([rings, stripes, rings * stripes], axis=-1).astype(jnp.float32)


def bilinear(image, x, y):
    n = image.shape[0]
    i, j = jnp.floor(x).astype(jnp.int32), jnp.floor(y).astype(jnp.int32)
    w, v = (x - i)[..., None], (y - j)[..., None]

    def at(i, j):
        inside = (i >= 0) & (i < n) & (j >= 0) & (j < n)
        value = image[jnp.clip(i, 0, n - 1), jnp.clip(j, 0, n - 1)]
        return jnp.where(inside[..., None], value, 0.0)

    lower = at(i, j) * (1 - v) + at(i, j + 1) * v
    upper = at(i + 1, j) * (1 - v) + at(i + 1, j + 1) * v
    return lower * (1 - w) + upper * w


def offsets(n):
    line = jnp.arange(n, dtype=jnp.float32) - 0.5 * n
    return jnp.meshgrid(line, line, indexing="ij")


def rotated(image):
    n = image.shape[0]
    x, y = offsets(n)
    s, c = jnp.sin(ANGLE), jnp.cos(ANGLE)
    return bilinear(image, c * x - s * y + 0.5 * n, s * x + c * y + 0.5 * n)


def scaled(image):
    n = image.shape[0]
    x, y = offsets(n)
    return bilinear(image, x / FACTOR + 0.5 * n, y / FACTOR + 0.5 * n)


def blended(image):
    return rotated(image) * ALPHA + scaled(image) * (1 - ALPHA)


def milliseconds(function, image, runs):
    function(image).block_until_ready()
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        function(image).block_until_ready()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paper-size", action="store_true", help="2048 x 2048 pixels instead of 512 x 512")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    n = 2048 if options.paper_size else 512
    image = pattern(n)
    middle = blended(image)[n // 2 : n // 2 + 40, n // 2 : n // 2 + 40]
    print(f"JAX {jax.__version__} on {jax.devices()[0].platform}, {n}^2, ms for an image")
    print(f"with jit     {milliseconds(jax.jit(blended), image, options.runs):.3f}")
    print(f"without jit  {milliseconds(blended, image, options.runs):.3f}")
    print(f"mean of the middle {float(middle.mean()):.6f}")


if __name__ == "__main__":
    main()
