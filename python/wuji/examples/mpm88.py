"""A falling block of fluid: the material point method (MLS-MPM) in 2-D."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

particles, cells = 8192, 128
dx, dt = 1 / cells, 2e-4
density, gravity, border, stiffness = 1.0, 9.8, 3, 400.0
volume = (dx * 0.5) ** 2
mass = volume * density

x = ti.Vector.field(2, ti.f32, shape=particles)
v = ti.Vector.field(2, ti.f32, shape=particles)
affine = ti.Matrix.field(2, 2, ti.f32, shape=particles)
compression = ti.field(ti.f32, shape=particles)
grid_v = ti.Vector.field(2, ti.f32, shape=(cells, cells))
grid_m = ti.field(ti.f32, shape=(cells, cells))


@ti.func
def weights(fx):
    return [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]


@ti.kernel
def begin():
    for p in range(particles):
        x[p] = [ti.random() * 0.4 + 0.2, ti.random() * 0.4 + 0.2]
        v[p] = [0, -1]
        compression[p] = 1


@ti.kernel
def step():
    for I in ti.grouped(grid_m):
        grid_v[I] = [0, 0]
        grid_m[I] = 0
    for p in x:
        base = int(x[p] / dx - 0.5)
        fx = x[p] / dx - base
        w = weights(fx)
        stress = -dt * 4 * stiffness * volume * (compression[p] - 1) / dx**2
        moves = ti.Matrix([[stress, 0], [0, stress]]) + mass * affine[p]
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i].x * w[j].y
            grid_v[base + offset] += weight * (mass * v[p] + moves @ ((offset - fx) * dx))
            grid_m[base + offset] += weight * mass
    for i, j in grid_m:
        if grid_m[i, j] > 0:
            grid_v[i, j] /= grid_m[i, j]
        grid_v[i, j].y -= dt * gravity
        if i < border and grid_v[i, j].x < 0:
            grid_v[i, j].x = 0
        if i > cells - border and grid_v[i, j].x > 0:
            grid_v[i, j].x = 0
        if j < border and grid_v[i, j].y < 0:
            grid_v[i, j].y = 0
        if j > cells - border and grid_v[i, j].y > 0:
            grid_v[i, j].y = 0
    for p in x:
        base = int(x[p] / dx - 0.5)
        fx = x[p] / dx - base
        w = weights(fx)
        new_v = ti.Vector.zero(ti.f32, 2)
        new_affine = ti.Matrix.zero(ti.f32, 2, 2)
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i].x * w[j].y
            g = grid_v[base + offset]
            new_v += weight * g
            new_affine += 4 * weight * g.outer_product((offset - fx) * dx) / dx**2
        v[p] = new_v
        x[p] += dt * v[p]
        compression[p] *= 1 + dt * new_affine.trace()
        affine[p] = new_affine


begin()
gui = ti.GUI("MPM", res=512, background_color=0x112F41)
for _frame in frames(gui):
    for _ in range(50):
        step()
    gui.circles(x.to_numpy(), radius=1.5, color=0x068587)
