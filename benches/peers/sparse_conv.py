"""A sparse 3x3x3 convolution with 16 channels, as in `examples/src/apps/conv.rs`."""

import numpy as np
import taichi as ti

import common

CHANNELS, BLOCK = 16, 4


@ti.data_oriented
class Conv:
    def __init__(self, n):
        self.n = n
        self.input, self.output = (ti.Vector.field(CHANNELS, ti.f32) for _ in range(2))
        block = ti.root.pointer(ti.ijk, n // BLOCK)
        for field in (self.input, self.output):
            block.dense(ti.ijk, BLOCK).place(field)
        self.weights = ti.Vector.field(CHANNELS, ti.f32, (3, 3, 3, CHANNELS))
        weights = common.noise(np.arange(27 * CHANNELS * CHANNELS)) - np.float32(0.5)
        self.weights.from_numpy(weights.reshape(3, 3, 3, CHANNELS, CHANNELS))
        active = common.blocks(np.abs(common.from_middle(n) - np.float32(0.4)) < 0.01, BLOCK)
        self.voxels = len(active) * BLOCK**3
        common.activate_all(block, active)
        c = np.indices((BLOCK, BLOCK, BLOCK)).reshape(3, -1).T
        at = (active[:, None, :] * BLOCK + c[None, :, :]).reshape(-1, 3)
        number = ((at[:, 0].astype(np.int64) * n + at[:, 1]) * n + at[:, 2])[:, None] * CHANNELS + np.arange(CHANNELS)
        self.fill(at.astype(np.int32), common.noise(number))
        self.at = at

    @ti.kernel
    def fill(self, at: ti.types.ndarray(), values: ti.types.ndarray()):
        for v, m in ti.ndrange(at.shape[0], CHANNELS):
            self.input[at[v, 0], at[v, 1], at[v, 2]][m] = values[v, m]

    @ti.kernel
    def convolve(self):
        for i, j, k in self.output:
            total = ti.Vector.zero(ti.f32, CHANNELS)
            for a, b, c in ti.static(ti.ndrange(3, 3, 3)):
                for m in range(CHANNELS):
                    total += self.weights[a, b, c, m] * self.input[i + a - 1, j + b - 1, k + c - 1][m]
            self.output[i, j, k] = total

    @ti.kernel
    def total(self, square: ti.template()) -> ti.f64:
        total = ti.f64(0.0)
        for i, j, k in self.output:
            for m in ti.static(range(CHANNELS)):
                v = ti.cast(self.output[i, j, k][m], ti.f64)
                total += v * v if ti.static(square) else ti.abs(v)
        return total

    def step(self):
        self.convolve()

    def sums(self):
        return {"voxels": self.voxels, "abs": self.total(False), "squares": self.total(True)}


def make(small):
    return Conv(64 if small else 128)
