"""Woodcock tracking through smoke, as in `examples/src/apps/volume.rs`."""

import math

import taichi as ti

import common

BLOCK, IMAGE, BOUNCES = 8, 512, 64
EXTINCTION, ALBEDO = 60.0, 0.95
vec2, vec3 = ti.types.vector(2, ti.f32), ti.types.vector(3, ti.f32)
LAMP, LAMP_POWER, SKY = vec3(1.4, 1.8, -0.6), vec3(60.0, 50.0, 38.0), vec3(0.16, 0.24, 0.4)


@ti.func
def through(origin, direction):
    a = -origin / direction
    b = (1.0 - origin) / direction
    return vec2(ti.max(ti.min(a, b).max(), 0.0), ti.max(a, b).min())


@ti.func
def free_path():
    return -ti.log(1.0 - ti.random(ti.f32)) / EXTINCTION


@ti.func
def any_direction():
    z = ti.random(ti.f32) * 2.0 - 1.0
    phi = ti.random(ti.f32) * (2.0 * math.pi)
    r = ti.sqrt(ti.max(1.0 - z * z, 0.0))
    return vec3(r * ti.cos(phi), r * ti.sin(phi), z)


@ti.data_oriented
class Volume:
    def __init__(self, n):
        self.n, self.passes = n, 0
        self.density = ti.field(ti.f32)
        block = ti.root.pointer(ti.ijk, n // BLOCK)
        block.dense(ti.ijk, BLOCK).place(self.density)
        self.image = ti.Vector.field(3, ti.f32, (IMAGE, IMAGE))
        active = common.blocks(common.from_middle(n) < 0.5, BLOCK)
        common.activate_all(block, active)
        self.voxels = len(active) * BLOCK**3
        self.puff()

    @ti.func
    def sample(self, at):
        cell = ti.cast(ti.floor(at * self.n), ti.i32)
        value = 0.0
        # No reads outside the domain.
        if (cell >= 0).all() and (cell < self.n).all():
            value = self.density[cell]
        return value

    @ti.func
    def lit(self, origin):
        way = LAMP - origin
        distance = way.norm()
        direction = way / distance
        far = through(origin, direction).y
        t = free_path()
        seen = True
        while t < far and seen:
            if ti.random(ti.f32) < self.sample(origin + direction * t):
                seen = False
            t += free_path()
        light = vec3(0.0, 0.0, 0.0)
        if seen:
            light = LAMP_POWER / (4.0 * math.pi * distance * distance)
        return light

    @ti.kernel
    def trace(self):
        for i, j in self.image:
            u = (i + ti.random(ti.f32)) / IMAGE - 0.5
            v = (j + ti.random(ti.f32)) / IMAGE - 0.5
            origin = vec3(0.5, 0.5, -1.5)
            direction = vec3(u * 0.7, v * 0.7, 1.0).normalized()
            span = through(origin, direction)
            t, far = span.x, span.y
            weight = 1.0
            light = vec3(0.0, 0.0, 0.0)
            bounces = 0
            while bounces < BOUNCES:
                t += free_path()
                if t >= far:
                    break
                at = origin + direction * t
                if ti.random(ti.f32) < self.sample(at):
                    weight *= ALBEDO
                    light += self.lit(at) * weight
                    origin = at
                    direction = any_direction()
                    t = 0.0
                    far = through(origin, direction).y
                    bounces += 1
            if bounces < BOUNCES:
                light += SKY * weight
            self.image[i, j] += light

    @ti.kernel
    def puff(self):
        for i, j, k in self.density:
            at = (vec3(i, j, k) + 0.5) / self.n - 0.5
            swell, size = 0.0, 1.0
            for o in range(4):
                f = 9.0 * (1 << o)
                swell += size * ti.sin(at.x * f + 1.3) * ti.sin(at.y * f * 1.1 + o) * ti.cos(at.z * f * 0.9 - 0.4)
                size *= 0.5
            depth = 0.34 + 0.09 * swell - at.norm()
            self.density[i, j, k] = ti.math.clamp(depth * 12.0, 0.0, 1.0)

    def step(self):
        self.passes += 1
        self.trace()

    def sums(self):
        image = self.image.to_numpy().astype("f8").mean(axis=(0, 1)) / self.passes
        return {"voxels": self.voxels, "red": image[0], "blue": image[2]}


def make(small):
    return Volume(64 if small else 256)
