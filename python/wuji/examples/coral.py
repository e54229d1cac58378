"""A coral grows on a plane without edges, in blocks that come into being."""

import numpy as np

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

block, view, steps = 16, 160, 100
feed, remove, trace = 0.0545, 0.062, 1e-4

# `x` is the food that is missing, `y` the coral: nothing of both, far away, is zero.
planes = []
for name in ("a", "b"):
    plane = ti.Vector.field(2, ti.f32, name=name)
    ti.root.hash(ti.ij, 1 << 20).dense(ti.ij, block).place(plane, offset=(-block << 19, -block << 19))
    planes.append(plane)
pixels = ti.Vector.field(3, ti.f32, shape=(2 * view, 2 * view))


@ti.kernel
def seed(cells: ti.template(), i: ti.i32, j: ti.i32):
    for di, dj in ti.ndrange((-block, block), (-block, block)):
        near = -4 <= di < 4 and -4 <= dj < 4
        cells[i + di, j + dj] = tm.vec2(0.5, 0.25) if near else tm.vec2(0)


@ti.kernel
def react(before: ti.template(), after: ti.template()):
    for i, j in before:
        here = before[i, j]
        flow = before[i - 1, j] + before[i + 1, j] + before[i, j - 1] + before[i, j + 1] - 4 * here
        eaten = (1 - here.x) * here.y * here.y
        later = here + tm.vec2(0.21, 0.105) * flow + eaten - tm.vec2(feed * here.x, (feed + remove) * here.y)
        after[i, j] = later
        if later.y > trace:
            for di, dj in ti.static(((-1, 0), (1, 0), (0, -1), (0, 1))):
                # At the edge of a block, the next one comes into being.
                if (i + di) // block != i // block or (j + dj) // block != j // block:
                    after[i + di, j + dj] += tm.vec2(0)


@ti.kernel
def paint(cells: ti.template()):
    for i, j in pixels:
        amount = tm.clamp(cells[i - view, j - view].y * 2.6, 0.0, 1.0)
        body = tm.mix(tm.vec3(0.85, 0.26, 0.18), tm.vec3(1.0, 0.91, 0.72), amount * amount)
        pixels[i, j] = tm.mix(tm.vec3(0.03, 0.04, 0.08), body, min(amount * 1.8, 1.0))


for at in np.array([[0, 0], [70, 25], [-48, 61], [-20, -75]]):
    seed(planes[0], *at)
gui = ti.GUI("Coral", res=2 * view)
for _frame in frames(gui):
    for _ in range(steps // 2):
        react(planes[0], planes[1])
        react(planes[1], planes[0])
    paint(planes[0])
    gui.set_image(pixels)
