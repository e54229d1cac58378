"""Matrix-free linear elasticity, as in `examples/src/apps/fem.rs`."""

import math

import numpy as np
import taichi as ti

import common

BLOCK = 8
SOFT, HARD = (1.0, 0.8), (4.0, 3.0)
vec3 = ti.types.vector(3, ti.f32)


def product(derive_a, derive_b, a, b):
    slope_a, slope_b = 2.0 * a - 1.0, 2.0 * b - 1.0
    if derive_a and derive_b:
        return slope_a * slope_b
    if derive_a:
        return slope_a * 0.5
    if derive_b:
        return slope_b * 0.5
    return 1.0 / 3.0 if a == b else 1.0 / 6.0


def overlap(a, b, i, j):
    value = 1.0
    for d in range(3):
        value *= product(i == d, j == d, a >> d & 1, b >> d & 1)
    return value


def stiffness():
    k = np.zeros((8, 8, 2, 3, 3), np.float32)
    for a, b, i, j in np.ndindex(8, 8, 3, 3):
        k[a, b, 0, i, j] = overlap(a, b, i, j)
        k[a, b, 1, i, j] = overlap(a, b, j, i)
        if i == j:
            k[a, b, 1, i, j] += overlap(a, b, 0, 0) + overlap(a, b, 1, 1) + overlap(a, b, 2, 2)
    return k


STIFFNESS = stiffness()


@ti.data_oriented
class Fem:
    def __init__(self, n):
        self.n = n
        self.u, self.r, self.p, self.kp = (ti.Vector.field(3, ti.f32) for _ in range(4))
        self.lam, self.mu = ti.field(ti.f32), ti.field(ti.f32)
        block = ti.root.pointer(ti.ijk, n // BLOCK)
        for field in (self.u, self.r, self.p, self.kp):
            for c in range(3):
                block.dense(ti.ijk, BLOCK).place(field.get_scalar_field(c))
        for field in (self.lam, self.mu):
            block.dense(ti.ijk, BLOCK).place(field)
        distance = common.from_middle(n)
        inside = (distance >= np.float32(0.22)) & (distance < np.float32(0.37))
        solid = np.argwhere(inside).astype(np.int32)
        active = np.unique(np.concatenate([common.blocks(inside, BLOCK), (solid + 1) // BLOCK]), axis=0)
        common.activate_all(block, active.astype(np.int32))
        self.nodes = len(active) * BLOCK**3
        material = np.where((solid[:, 0] < n // 2)[:, None], np.float32(SOFT), np.float32(HARD)).astype(np.float32)
        self.fill(solid, np.ascontiguousarray(material))
        self.bottom = int(solid[:, 1].min()) + n // 32
        self.start = self.left = self.weigh()
        self.turn(0.0)

    @ti.kernel
    def fill(self, at: ti.types.ndarray(), material: ti.types.ndarray()):
        for c in range(at.shape[0]):
            self.lam[at[c, 0], at[c, 1], at[c, 2]] = material[c, 0]
            self.mu[at[c, 0], at[c, 1], at[c, 2]] = material[c, 1]

    @ti.kernel
    def apply(self) -> ti.f64:
        work = ti.f64(0.0)
        for i, j, k in self.p:
            force = vec3(0.0, 0.0, 0.0)
            for a in ti.static(range(8)):
                ci, cj, ck = i - (a & 1), j - (a >> 1 & 1), k - (a >> 2)
                first, second = vec3(0.0, 0.0, 0.0), vec3(0.0, 0.0, 0.0)
                for b in ti.static(range(8)):
                    moved = self.p[ci + (b & 1), cj + (b >> 1 & 1), ck + (b >> 2)]
                    for c in ti.static(range(3)):
                        for d in ti.static(range(3)):
                            first[c] += ti.static(float(STIFFNESS[a, b, 0, c, d])) * moved[d]
                            second[c] += ti.static(float(STIFFNESS[a, b, 1, c, d])) * moved[d]
                force += first * self.lam[ci, cj, ck] + second * self.mu[ci, cj, ck]
            if j <= self.bottom:
                force = vec3(0.0, 0.0, 0.0)
            self.kp[i, j, k] = force
            work += ti.cast(self.p[i, j, k].dot(force), ti.f64)
        return work

    @ti.kernel
    def advance(self, alpha: ti.f32) -> ti.f64:
        left = ti.f64(0.0)
        for i, j, k in self.u:
            self.u[i, j, k] += self.p[i, j, k] * alpha
            rest = self.r[i, j, k] - self.kp[i, j, k] * alpha
            self.r[i, j, k] = rest
            left += ti.cast(rest.norm_sqr(), ti.f64)
        return left

    @ti.kernel
    def turn(self, beta: ti.f32):
        for i, j, k in self.p:
            self.p[i, j, k] = self.r[i, j, k] + self.p[i, j, k] * beta

    @ti.kernel
    def weigh(self) -> ti.f64:
        total = ti.f64(0.0)
        for i, j, k in self.r:
            weight = 0.0
            for a in ti.static(range(8)):
                if self.mu[i - (a & 1), j - (a >> 1 & 1), k - (a >> 2)] > 0.0:
                    weight += 0.125
            if j <= self.bottom:
                weight = 0.0
            self.r[i, j, k] = vec3(0.0, -weight * 1e-3, 0.0)
            total += ti.cast(weight * weight * 1e-6, ti.f64)
        return total

    @ti.kernel
    def energy(self) -> ti.f64:
        total = ti.f64(0.0)
        for i, j, k in self.u:
            total += ti.cast(self.u[i, j, k].norm_sqr(), ti.f64)
        return total

    def step(self):
        alpha = self.left / self.apply()
        left = self.advance(alpha)
        self.turn(left / self.left)
        self.left = left

    def sums(self):
        return {"nodes": self.nodes, "u.u": self.energy(), "residual": math.sqrt(self.left / self.start)}


def make(small):
    return Fem(64 if small else 128)
