"""Sparse convolution: network layers on the voxels of a surface."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, block, channels = 64, 4, 8
features = ti.Vector.field(channels, ti.f32)
result = ti.Vector.field(channels, ti.f32)
# Blocks are active near the surface; a bitmask marks the active voxels of a block.
ti.root.pointer(ti.ijk, n // block).bitmasked(ti.ijk, block).place(features, result)

# For each of 27 neighbors and each input channel: weights of all output channels.
weights = ti.Vector.field(channels, ti.f32, shape=(3, 3, 3, channels))
picture = ti.Vector.field(3, ti.f32, shape=(n, n))
pixels = ti.Vector.field(3, ti.f32, shape=(6 * n, 6 * n))


@ti.kernel
def surface():
    """Activate the voxels of a wavy sphere by writing to them."""
    for I in ti.grouped(ti.ndrange(n, n, n)):
        at = (I + 0.5) / n - 0.5
        wave = 0.03 * ti.sin(at.x * 20) * ti.sin(at.y * 20)
        if abs(at.norm() - 0.4 + wave) < 0.02:
            for c in ti.static(range(channels)):
                features[I][c] = ti.random() - 0.5


@ti.kernel
def layer(source: ti.template(), target: ti.template()):
    # A struct-for over active voxels. Inactive neighbors read as zero.
    for i, j, k in target:
        total = ti.Vector.zero(ti.f32, channels)
        for a, b, c in ti.static(ti.ndrange(3, 3, 3)):
            for m in range(channels):
                total += weights[a, b, c, m] * source[i + a - 1, j + b - 1, k + c - 1][m]
        target[i, j, k] = ti.tanh(total)


@ti.kernel
def look(source: ti.template()):
    for i, j in picture:
        color = ti.math.vec3(0.05, 0.07, 0.1)
        for k in range(n):
            v = source[i, j, k]
            # Keep the closest voxel of the column.
            if v.norm_sqr() > 0:
                color = 0.5 + 0.5 * ti.math.vec3(v[0], v[1], v[2])
        picture[i, j] = color
    for i, j in pixels:
        pixels[i, j] = picture[i // 6, j // 6]


rng = np.random.default_rng(1)
mixed = np.linalg.qr(rng.standard_normal((channels, channels)))[0]
near = np.array([0.25, 0.5, 0.25])
falloff = near[:, None, None] * near[:, None] * near
weights.from_numpy((3.2 * falloff[..., None, None] * mixed).astype(np.float32))
surface()
gui = ti.GUI("Sparse convolutions", res=6 * n)
for _frame in frames(gui):
    look(features)
    gui.set_image(pixels)
    layer(features, result)
    layer(result, features)
