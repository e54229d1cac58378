"""Multigrid-preconditioned conjugate gradients, as in `examples/src/apps/mgpcg.rs`."""

import math

import taichi as ti

import common

LEVELS, BLOCK, SWEEPS, BOTTOM = 5, 8, 2, 20


@ti.data_oriented
class Mgpcg:
    def __init__(self, n, radius):
        self.n = n
        self.r = [ti.field(ti.f32) for _ in range(LEVELS)]
        self.z = [ti.field(ti.f32) for _ in range(LEVELS)]
        self.x, self.p, self.ap = (ti.field(ti.f32) for _ in range(3))
        active = common.blocks(common.from_middle(n // BLOCK) < radius, 1)
        nodes = []
        for level in range(LEVELS):
            block = ti.root.pointer(ti.ijk, max(n >> level, BLOCK) // BLOCK)
            nodes.append(block)
            fields = [self.r[level], self.z[level]]
            if level == 0:
                fields = [self.x, self.p, self.ap] + fields
            for field in fields:
                block.dense(ti.ijk, BLOCK).place(field)
        for level in range(LEVELS):
            common.activate_all(nodes[level], active >> level)
        self.cells = len(active) * BLOCK**3
        self.source(self.r[0])
        self.start = self.left = self.dot(self.r[0], self.r[0])
        self.v_cycle()
        self.rz = self.dot(self.r[0], self.z[0])
        self.turn(self.p, self.z[0], 0.0)

    @ti.func
    def around(self, x, i, j, k):
        return x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]

    @ti.kernel
    def smooth(self, z: ti.template(), r: ti.template(), color: ti.i32):
        for i, j, k in z:
            if (i + j + k) & 1 == color:
                z[i, j, k] = (r[i, j, k] + self.around(z, i, j, k)) / 6.0

    @ti.kernel
    def restrict(self, z: ti.template(), r: ti.template(), coarse: ti.template()):
        for i, j, k in coarse:
            coarse[i, j, k] = 0.0
        for i, j, k in z:
            residual = r[i, j, k] - (6.0 * z[i, j, k] - self.around(z, i, j, k))
            coarse[i >> 1, j >> 1, k >> 1] += residual * 0.5

    @ti.kernel
    def prolongate(self, z: ti.template(), coarse: ti.template()):
        for i, j, k in z:
            z[i, j, k] += coarse[i >> 1, j >> 1, k >> 1]

    @ti.kernel
    def clear(self, x: ti.template()):
        for i, j, k in x:
            x[i, j, k] = 0.0

    @ti.kernel
    def apply(self, p: ti.template(), ap: ti.template()) -> ti.f64:
        total = ti.f64(0.0)
        for i, j, k in p:
            y = 6.0 * p[i, j, k] - self.around(p, i, j, k)
            ap[i, j, k] = y
            total += ti.cast(p[i, j, k] * y, ti.f64)
        return total

    @ti.kernel
    def advance(self, x: ti.template(), r: ti.template(), p: ti.template(), ap: ti.template(), alpha: ti.f32) -> ti.f64:
        left = ti.f64(0.0)
        for i, j, k in x:
            x[i, j, k] += alpha * p[i, j, k]
            rest = r[i, j, k] - alpha * ap[i, j, k]
            r[i, j, k] = rest
            left += ti.cast(rest * rest, ti.f64)
        return left

    @ti.kernel
    def dot(self, a: ti.template(), b: ti.template()) -> ti.f64:
        total = ti.f64(0.0)
        for i, j, k in a:
            total += ti.cast(a[i, j, k] * b[i, j, k], ti.f64)
        return total

    @ti.kernel
    def turn(self, p: ti.template(), z: ti.template(), beta: ti.f32):
        for i, j, k in p:
            p[i, j, k] = z[i, j, k] + beta * p[i, j, k]

    @ti.kernel
    def source(self, r: ti.template()):
        for i, j, k in r:
            scale = 8.0 * math.pi / self.n
            r[i, j, k] = ti.sin(i * scale) * ti.cos(j * scale) * ti.sin(k * scale)

    def sweep(self, level, first):
        self.smooth(self.z[level], self.r[level], first)
        self.smooth(self.z[level], self.r[level], 1 - first)

    def v_cycle(self):
        for level in range(LEVELS - 1):
            self.clear(self.z[level])
            for _ in range(SWEEPS):
                self.sweep(level, 0)
            self.restrict(self.z[level], self.r[level], self.r[level + 1])
        self.clear(self.z[LEVELS - 1])
        for _ in range(BOTTOM):
            self.sweep(LEVELS - 1, 0)
        for _ in range(BOTTOM):
            self.sweep(LEVELS - 1, 1)
        for level in reversed(range(LEVELS - 1)):
            self.prolongate(self.z[level], self.z[level + 1])
            for _ in range(SWEEPS):
                self.sweep(level, 1)

    def step(self):
        alpha = self.rz / self.apply(self.p, self.ap)
        self.left = self.advance(self.x, self.r[0], self.p, self.ap, alpha)
        self.v_cycle()
        rz = self.dot(self.r[0], self.z[0])
        self.turn(self.p, self.z[0], rz / self.rz)
        self.rz = rz

    def sums(self):
        return {"cells": self.cells, "x.x": self.dot(self.x, self.x), "residual": math.sqrt(self.left / self.start)}


def make(small):
    return Mgpcg(512, 0.05 if small else 0.1)
