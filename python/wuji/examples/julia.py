"""An animated Julia set: one thread per pixel."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 320
pixels = ti.field(ti.f32, shape=(2 * n, n))


@ti.func
def squared(z):
    return ti.Vector([z[0] ** 2 - z[1] ** 2, 2 * z[0] * z[1]])


@ti.kernel
def paint(t: ti.f32):
    for i, j in pixels:
        c = ti.Vector([-0.8, ti.cos(t) * 0.2])
        z = ti.Vector([i / n - 1, j / n - 0.5]) * 2
        steps = 0
        while z.norm() < 20 and steps < 50:
            z = squared(z) + c
            steps += 1
        pixels[i, j] = 1 - steps * 0.02


gui = ti.GUI("Julia", res=(2 * n, n))
for frame in frames(gui):
    paint(frame * 0.03)
    gui.set_image(pixels)
