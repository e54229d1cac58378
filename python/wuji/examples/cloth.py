"""A cloth of masses and springs falls over a ball."""

import numpy as np

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, steps, dt = 64, 30, 5e-4
stiffness, friction, gravity, radius = 8e3, 60.0, 9.8, 0.32
# Neighbours on one side; those on the other are their negatives. Sides, diagonals, and two apart against folding.
springs = [(1, 0), (0, 1), (1, 1), (1, -1), (2, 0), (0, 2)]

x = ti.Vector.field(3, ti.f32, shape=(n, n))
v = ti.Vector.field(3, ti.f32, shape=(n, n))
force = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.kernel
def begin():
    for i, j in x:
        # Not quite above the middle, so that it slides.
        x[i, j] = tm.vec3((i + 0.5) / n - 0.48, 0.45, (j + 0.5) / n - 0.515)


@ti.kernel
def advance():
    for I in ti.grouped(x):
        total = tm.vec3(0, -gravity, 0)
        for spring in ti.static(springs):
            for side in ti.static((1, -1)):
                offset = side * tm.ivec2(*spring)
                J = I + offset
                if 0 <= J.x < n and 0 <= J.y < n:
                    way = x[J] - x[I]
                    length = way.norm()
                    direction = way / length
                    relaxed = offset.cast(float).norm() / n
                    total += direction * stiffness * (length / relaxed - 1)
                    total += direction * (v[J] - v[I]).dot(direction) * friction
        # Not to `v`: the neighbours may not have read it yet.
        force[I] = total
    for I in ti.grouped(x):
        u = (v[I] + force[I] * dt) * (1 - dt)
        # What touches the ball keeps only the part of its velocity along the ball, and a little less of that.
        if x[I].norm() < radius + 0.012:
            normal = x[I].normalized()
            u = (u - normal * min(u.dot(normal), 0)) * 0.98
        v[I] = u
        x[I] += u * dt


def seen(points):
    """Where points of space are in the picture, and how far away."""
    a, b = 0.6, 0.5
    turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    p = points @ turn.T @ tilt.T
    return p[..., :2] * 0.75 + 0.5, p[..., 2]


def draw(gui):
    """Triangles from back to front, lighter where they face the light."""
    p = x.to_numpy()
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[:-1, 1:], p[1:, 1:]
    corners = np.concatenate([np.stack(t, axis=2).reshape(-1, 3, 3) for t in ((a, c, b), (b, c, d))])
    places, depth = seen(corners)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
    light = 0.35 + 0.65 * np.abs(normal @ np.array([0.4, 0.8, 0.45]))
    color = (np.array([[0.75], [0.12], [0.16]]) * light).clip(0, 1)
    order = np.argsort(-depth.mean(axis=1))
    center, _ = seen(np.zeros((1, 3)))
    gui.circles(center, radius=(radius - 0.01) * 0.75 * gui.res[0], color=0x80858C)
    t = places[order]
    gui.triangles(t[:, 0], t[:, 1], t[:, 2], color=ti.rgb_to_hex(color)[order])


begin()
gui = ti.GUI("Cloth", res=400, background_color=0x10161F)
for _frame in frames(gui):
    for _ in range(steps):
        advance()
    draw(gui)
