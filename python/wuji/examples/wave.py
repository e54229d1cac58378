"""Water waves: drops, rings and reflections."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 384
speed, damping = 0.25, 0.998
now, last, new = (ti.field(ti.f32, shape=(n, n)) for _ in range(3))
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.kernel
def drop(h: ti.template(), x: ti.f32, y: ti.f32):
    for i, j in h:
        d2 = (i - x * n) ** 2 + (j - y * n) ** 2
        h[i, j] += 3 * ti.exp(-d2 * 0.02)


@ti.kernel
def step(now: ti.template(), last: ti.template(), new: ti.template()):
    for i, j in now:
        # Out-of-bounds reads return zero: the shore is a fixed boundary.
        around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4 * now[i, j]
        new[i, j] = (2 * now[i, j] - last[i, j] + speed * around) * damping


@ti.kernel
def paint(h: ti.template()):
    for i, j in pixels:
        slope = ti.Vector([h[i + 1, j] - h[i - 1, j], h[i, j + 1] - h[i, j - 1]])
        light = ti.math.clamp(0.5 + slope.dot(ti.Vector([0.6, 0.8])), 0, 1)
        pixels[i, j] = ti.math.mix(ti.math.vec3(0.02, 0.1, 0.25), ti.math.vec3(0.75, 0.9, 1.0), light)


gui = ti.GUI("Waves", res=n)
for frame in frames(gui):
    if frame % 20 == 0:
        drop(now, 0.5 + 0.4 * ti.sin(frame * 0.37), 0.5 + 0.4 * ti.cos(frame * 0.23))
    for _ in range(3):
        step(now, last, new)
        now, last, new = new, now, last
    paint(now)
    gui.set_image(pixels)
