"""Rising smoke: an incompressible fluid on a grid."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 256
dt, sweeps = 0.03, 40
velocity = [ti.Vector.field(2, ti.f32, shape=(n, n)) for _ in range(2)]
smoke = [ti.field(ti.f32, shape=(n, n)) for _ in range(2)]
pressure = [ti.field(ti.f32, shape=(n, n)) for _ in range(2)]
divergence = ti.field(ti.f32, shape=(n, n))


@ti.func
def at(field: ti.template(), p):
    """Interpolate a field bilinearly, clamped at the border."""
    p = ti.math.clamp(p, 0.0, n - 1.001)
    base = int(p)
    f = p - base
    i, j = base[0], base[1]
    low = ti.math.mix(field[i, j], field[i + 1, j], f.x)
    high = ti.math.mix(field[i, j + 1], field[i + 1, j + 1], f.x)
    return ti.math.mix(low, high, f.y)


@ti.kernel
def advect(v: ti.template(), old: ti.template(), new: ti.template()):
    for i, j in new:
        p = ti.Vector([i, j]) - v[i, j] * dt * n * 0.5
        new[i, j] = at(old, p)


@ti.kernel
def stir(v: ti.template(), s: ti.template(), t: ti.f32):
    for i, j in s:
        p = ti.Vector([i, j]) / n
        d = (p - ti.Vector([0.5 + 0.1 * ti.sin(t * 0.7), 0.1])).norm()
        if d < 0.06:
            s[i, j] = 1.0
            v[i, j] += ti.Vector([ti.sin(t) * 0.6, 2.0]) * dt
        v[i, j].y += s[i, j] * dt * 0.8
        s[i, j] *= 0.998
        # Walls.
        if i == 0 or i == n - 1:
            v[i, j].x = 0
        if j == 0 or j == n - 1:
            v[i, j].y = 0


@ti.kernel
def diverge(v: ti.template()):
    for i, j in divergence:
        divergence[i, j] = 0.5 * (v[i + 1, j].x - v[i - 1, j].x + v[i, j + 1].y - v[i, j - 1].y)


@ti.kernel
def relax(old: ti.template(), new: ti.template()):
    for i, j in new:
        new[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - divergence[i, j])


@ti.kernel
def project(v: ti.template(), p: ti.template()):
    for i, j in v:
        v[i, j] -= 0.5 * ti.Vector([p[i + 1, j] - p[i - 1, j], p[i, j + 1] - p[i, j - 1]])


gui = ti.GUI("Smoke", res=n)
for frame in frames(gui):
    for _ in range(2):
        stir(velocity[0], smoke[0], frame * 0.1)
        diverge(velocity[0])
        for k in range(sweeps):
            relax(pressure[k % 2], pressure[1 - k % 2])
        project(velocity[0], pressure[0])
        advect(velocity[0], velocity[0], velocity[1])
        advect(velocity[0], smoke[0], smoke[1])
        velocity.reverse()
        smoke.reverse()
    gui.set_image(smoke[0])
