"""Reaction and diffusion: all patterns of Gray and Scott in one map."""

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, steps = 320, 100
cells = [ti.Vector.field(2, ti.f32, shape=(n, n), name=name) for name in ("a", "b")]
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.kernel
def seed():
    for i, j in cells[0]:
        seeded = i % 20 < 4 and j % 20 < 4
        cells[0][i, j] = tm.vec2(0.5, 0.25 + 0.1 * ti.random()) if seeded else tm.vec2(1, 0)


@ti.kernel
def react(before: ti.template(), after: ti.template()):
    for i, j in before:
        left, right, below, above = (i - 1) % n, (i + 1) % n, (j - 1) % n, (j + 1) % n
        here = before[i, j]
        flow = before[left, j] + before[right, j] + before[i, below] + before[i, above] - 4 * here
        # From bottom to top more is fed, from left to right more is removed.
        feed = 0.012 + 0.06 * j / n
        remove = 0.5 * ti.sqrt(feed) - feed - 0.003 + 0.006 * i / n
        eaten = here.x * here.y * here.y
        change = tm.vec2(feed * (1 - here.x) - eaten, eaten - (feed + remove) * here.y)
        after[i, j] = here + flow * tm.vec2(0.21, 0.105) + change


@ti.kernel
def paint():
    for i, j in pixels:
        t = tm.clamp(cells[0][i, j].y * 2.8, 0.0, 1.0)
        low = tm.mix(tm.vec3(0.02, 0.03, 0.08), tm.vec3(0.1, 0.45, 0.5), min(t * 2, 1.0))
        pixels[i, j] = tm.mix(low, tm.vec3(1.0, 0.93, 0.75), max(t * 2 - 1, 0.0))


seed()
gui = ti.GUI("Gray and Scott", res=n)
for _frame in frames(gui):
    for step in range(steps):
        react(cells[step % 2], cells[(step + 1) % 2])
    paint()
    gui.set_image(pixels)
