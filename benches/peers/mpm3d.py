"""MLS-MPM on a sparse grid, with buckets of particles or without, as in `examples/src/apps/mpm3d.rs`."""

import numpy as np
import taichi as ti

import common

BLOCK, WALL = 4, 3
DT, E, POISSON, GRAVITY = 4e-5, 5e3, 0.3, 9.8
MU = E / (2.0 * (1.0 + POISSON))
LAMBDA = E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON))
vec3, mat3 = ti.types.vector(3, ti.f32), ti.types.matrix(3, 3, ti.f32)


@ti.data_oriented
class Mpm3d:
    def __init__(self, n, buckets, side=None, cache=True):
        self.n, self.buckets, self.cache = n, buckets, cache
        self.dt = DT * min(1.0, 128.0 / n)
        side = side or n // 4
        self.count = 16 * side**3
        self.x, self.v = ti.Vector.field(3, ti.f32), ti.Vector.field(3, ti.f32)
        self.c, self.f = ti.Matrix.field(3, 3, ti.f32), ti.Matrix.field(3, 3, ti.f32)
        ti.root.dense(ti.i, self.count).place(self.x, self.v, self.c, self.f)
        self.momentum, self.mass = ti.Vector.field(3, ti.f32), ti.field(ti.f32)
        self.bucket = ti.field(ti.i32)
        self.block = ti.root.pointer(ti.ijk, n // BLOCK)
        self.block.dense(ti.ijk, BLOCK).place(self.momentum, self.mass)
        self.list = self.block.dynamic(ti.l, 4096, chunk_size=256)
        self.list.place(self.bucket)
        p = np.arange(self.count)
        cube, cell = p // (8 * side**3), p // 8 % side**3
        corner = np.where((cube == 0)[:, None], np.float32([0.2, 0.1, 0.3]), np.float32([0.55, 0.2, 0.4]))
        cells = np.stack([cell // (side * side), cell // side % side, cell % side], axis=1).astype(np.float32)
        jitter = common.noise(3 * p[:, None] + np.arange(3))
        self.x.from_numpy((corner + (cells + jitter) / np.float32(n)).astype(np.float32))
        velocity = np.where((cube == 0)[:, None], np.float32([2.0, 0.0, 0.0]), np.float32([-2.0, -1.0, 0.0]))
        self.v.from_numpy(velocity.astype(np.float32))
        self.f.from_numpy(np.tile(np.eye(3, dtype=np.float32), (self.count, 1, 1)))

    @ti.func
    def base(self, x):
        return ti.cast(ti.floor(x * self.n - 0.5), ti.i32)

    @ti.func
    def spline(self, f):
        return [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]

    @ti.func
    def scatter(self, p, at):
        part = self.x[p] * self.n - at
        w = self.spline(part)
        one = ti.Matrix.identity(ti.f32, 3)
        f = (one + self.c[p] * self.dt) @ self.f[p]
        self.f[p] = f
        stress = (f @ f.transpose() - one) * MU + one * (LAMBDA * ti.log(f.determinant()))
        volume = 0.125 / self.n**3
        affine = stress * (-self.dt * 4.0 * self.n * self.n * volume) + self.c[p] * volume
        for i, j, k in ti.static(ti.ndrange(3, 3, 3)):
            offset = ti.Vector([i, j, k])
            weight = w[i][0] * w[j][1] * w[k][2]
            d = (offset - part) / self.n
            self.momentum[at + offset] += (self.v[p] * volume + affine @ d) * weight
            self.mass[at + offset] += volume * weight

    @ti.func
    def gather(self, p, at):
        x = self.x[p]
        part = x * self.n - at
        w = self.spline(part)
        v, c = ti.Vector.zero(ti.f32, 3), ti.Matrix.zero(ti.f32, 3, 3)
        for i, j, k in ti.static(ti.ndrange(3, 3, 3)):
            offset = ti.Vector([i, j, k])
            u = self.momentum[at + offset] * (w[i][0] * w[j][1] * w[k][2])
            v += u
            c += u.outer_product(offset - part) * (4.0 * self.n)
        self.v[p] = v
        self.c[p] = c
        self.x[p] = x + v * self.dt

    @ti.kernel
    def sort(self):
        for p in self.x:
            at = self.base(self.x[p])
            ti.append(self.list, [at.x >> 2, at.y >> 2, at.z >> 2], p)

    @ti.func
    def base_in(self, p, I):
        at = self.base(self.x[p])
        # Taichi's compiler derives the extent of the accesses from this form.
        corner = ti.rescale_index(self.bucket, self.mass, I)
        for d in ti.static(range(3)):
            at[d] = ti.assume_in_range(at[d], corner[d], 0, BLOCK)
        return at

    @ti.kernel
    def to_grid_by_bucket(self):
        ti.loop_config(block_dim=256)
        if ti.static(self.cache):
            for c in ti.static(range(3)):
                ti.block_local(self.momentum.get_scalar_field(c))
            ti.block_local(self.mass)
        for I in ti.grouped(self.bucket):
            p = self.bucket[I]
            self.scatter(p, self.base_in(p, I))

    @ti.kernel
    def to_grid(self):
        for p in self.x:
            self.scatter(p, self.base(self.x[p]))

    @ti.kernel
    def on_grid(self):
        for i, j, k in self.mass:
            m = self.mass[i, j, k]
            if m > 0.0:
                u = self.momentum[i, j, k] / m
                u.y -= self.dt * GRAVITY
                if j < WALL and u.y < 0.0:
                    u = vec3(0.0, 0.0, 0.0)
                if i < WALL and u.x < 0.0 or i + WALL > self.n and u.x > 0.0:
                    u.x = 0.0
                if j + WALL > self.n and u.y > 0.0:
                    u.y = 0.0
                if k < WALL and u.z < 0.0 or k + WALL > self.n and u.z > 0.0:
                    u.z = 0.0
                self.momentum[i, j, k] = u

    @ti.kernel
    def to_particles_by_bucket(self):
        for I in ti.grouped(self.bucket):
            p = self.bucket[I]
            self.gather(p, self.base_in(p, I))

    @ti.kernel
    def to_particles(self):
        for p in self.x:
            self.gather(p, self.base(self.x[p]))

    @ti.kernel
    def active(self) -> ti.i32:
        count = 0
        for i, j, k in self.block:
            count += 1
        return count

    def step(self):
        self.block.deactivate_all()
        if self.buckets:
            self.sort()
            self.to_grid_by_bucket()
            self.on_grid()
            self.to_particles_by_bucket()
        else:
            self.to_grid()
            self.on_grid()
            self.to_particles()

    def sums(self):
        x, v = self.x.to_numpy().astype("f8"), self.v.to_numpy().astype("f8")
        return {
            "blocks": self.active(),
            "x": x[:, 0].mean(),
            "y": x[:, 1].mean(),
            "v.v": (v * v).sum(axis=1).mean(),
            "volume": np.linalg.det(self.f.to_numpy().astype("f8")).mean(),
        }


def make(small, buckets=True):
    return Mpm3d(32 if small else 128, buckets)
