"""Gray-Scott reaction-diffusion: spots that divide."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 256
feed, kill = 0.0367, 0.0649
spread = ti.Vector([0.16, 0.08])
substances = [ti.Vector.field(2, ti.f32, shape=(n, n)) for _ in range(2)]
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.kernel
def begin(uv: ti.template()):
    for i, j in uv:
        inside = (i // 16 * 7 + j // 16 * 3) % 23 == 0 and i % 16 < 8 and j % 16 < 8
        uv[i, j] = [0.5, 0.25 + 0.05 * ti.random()] if inside else [1.0, 0.0]


@ti.kernel
def step(now: ti.template(), new: ti.template()):
    for i, j in now:
        # Periodic boundary.
        around = ti.Vector([0.0, 0.0])
        for a, b in ti.static([(-1, 0), (1, 0), (0, -1), (0, 1)]):
            around += now[(i + a) % n, (j + b) % n]
        u, v = now[i, j][0], now[i, j][1]
        reaction = u * v * v
        change = ti.Vector([feed * (1 - u) - reaction, reaction - (feed + kill) * v])
        new[i, j] = now[i, j] + spread * (around - 4 * now[i, j]) + change


@ti.kernel
def paint(uv: ti.template()):
    for i, j in pixels:
        v = ti.math.clamp(uv[i, j][1] * 3, 0, 1)
        pixels[i, j] = ti.math.mix(ti.math.vec3(0.95, 0.93, 0.85), ti.math.vec3(0.1, 0.3, 0.5), v) * (1 - 0.3 * v * v)


begin(substances[0])
gui = ti.GUI("Reaction and diffusion", res=n)
for _frame in frames(gui):
    for k in range(60):
        step(substances[k % 2], substances[1 - k % 2])
    paint(substances[0])
    gui.set_image(pixels)
