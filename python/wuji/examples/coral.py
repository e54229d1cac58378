"""Coral growth: diffusion-limited aggregation on an unbounded sparse grid."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

size, walkers = 400, 2000
full = size * 0.45
coral = ti.field(ti.i32)
ti.root.hash(ti.ij).dense(ti.ij, 16).place(coral)
walker = ti.Vector.field(2, ti.i32, shape=walkers)
reach = ti.field(ti.f32, shape=())
pixels = ti.Vector.field(3, ti.f32, shape=(size, size))


@ti.func
def start():
    """Return a random point on a ring around the coral."""
    angle = ti.random() * 2 * ti.math.pi
    return int(ti.Vector([ti.cos(angle), ti.sin(angle)]) * (reach[None] + 8))


@ti.kernel
def begin():
    coral[0, 0] = 1
    reach[None] = 4
    for k in walker:
        walker[k] = start()


@ti.kernel
def wander(frame: ti.i32, steps: ti.i32):
    for k in walker:
        p = walker[k]
        for _ in range(steps):
            p += int(ti.floor(ti.Vector([ti.random(), ti.random()]) * 3)) - 1
            touches = coral[p.x - 1, p.y] + coral[p.x + 1, p.y] + coral[p.x, p.y - 1] + coral[p.x, p.y + 1] > 0
            if touches:
                # A write activates the cell.
                coral[p] = frame + 1
                ti.atomic_max(reach[None], p.cast(float).norm())
                p = start()
            elif p.cast(float).norm() > reach[None] + 30:
                p = start()
        walker[k] = p


@ti.kernel
def paint(frame: ti.i32):
    for i, j in pixels:
        pixels[i, j] = [0.03, 0.06, 0.1]
    for i, j in coral:
        # A struct-for visits active cells only.
        x, y = i + size // 2, j + size // 2
        if coral[i, j] > 0 and 0 <= x < size and 0 <= y < size:
            age = 1 - coral[i, j] / (frame + 2)
            pixels[x, y] = ti.math.mix(ti.math.vec3(1.0, 0.85, 0.7), ti.math.vec3(0.9, 0.25, 0.3), age)


begin()
gui = ti.GUI("Coral", res=size)
for frame in frames(gui):
    if reach[None] < full:
        wander(frame, 150)
    paint(frame)
    gui.set_image(pixels)
