"""Cloth that falls onto a sphere: a mass-spring system."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 64
size = 1.2 / n
dt, steps = 4e-4, 60
gravity = ti.Vector([0.0, -9.8, 0.0])
stiffness, drag = 3e4, 1.0
radius = 0.28
x = ti.Vector.field(3, ti.f32, shape=(n, n))
v = ti.Vector.field(3, ti.f32, shape=(n, n))
shown = ti.Vector.field(2, ti.f32, shape=(n, n))

# Structural, shear and bending springs.
springs = [(a, b) for a in range(-2, 3) for b in range(-2, 3) if (a, b) != (0, 0) and abs(a) + abs(b) <= 2]


@ti.kernel
def begin():
    for i, j in x:
        shake = ti.Vector([ti.random() - 0.5, 0.0, ti.random() - 0.5]) * 0.2 * size
        x[i, j] = ti.Vector([(i + 0.5) * size - 0.6, 0.5, (j + 0.5) * size - 0.6]) + shake
        v[i, j] = [0, 0, 0]


@ti.kernel
def step():
    for i, j in x:
        force = gravity
        for a, b in ti.static(springs):
            if 0 <= i + a < n and 0 <= j + b < n:
                d = x[i + a, j + b] - x[i, j]
                rest = size * (a * a + b * b) ** 0.5
                length = d.norm(1e-9)
                force += stiffness * (length - rest) * d / length
                # Damping along the spring.
                force += 2.0 * (v[i + a, j + b] - v[i, j]).dot(d) / length * d / length
        v[i, j] += force * dt
    for i, j in x:
        v[i, j] *= ti.exp(-drag * dt)
        p = x[i, j]
        if p.norm() < radius:
            normal = p.normalized()
            v[i, j] -= ti.min(v[i, j].dot(normal), 0.0) * normal
            v[i, j] *= 0.995
            x[i, j] = normal * radius
        x[i, j] += v[i, j] * dt


@ti.kernel
def look():
    for i, j in x:
        p = x[i, j]
        depth = 2.0 / (2.0 - p.z)
        shown[i, j] = ti.Vector([0.5 + 0.55 * p.x * depth, 0.55 + 0.55 * (p.y - 0.35 * p.z) * depth])


begin()
gui = ti.GUI("Cloth", res=480, background_color=0x10161C)
for _frame in frames(gui):
    for _ in range(steps):
        step()
    look()
    points = shown.to_numpy()
    gui.circle((0.5, 0.55), radius=480 * 0.55 * radius * 0.97, color=0x33404A)
    gui.lines(points[:-1].reshape(-1, 2), points[1:].reshape(-1, 2), radius=1, color=0xD98C5F)
    gui.lines(points[:, :-1].reshape(-1, 2), points[:, 1:].reshape(-1, 2), radius=1, color=0xE9B48F)
