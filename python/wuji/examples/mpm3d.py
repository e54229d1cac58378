"""Two jelly cubes that collide: MPM in 3-D on a sparse grid."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, block = 40, 4
side = n // 4
particles = 16 * side**3
dt = 2.5e-4
young, poisson = 1e3, 0.3
mu = young / (2 * (1 + poisson))
lam = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
gravity, wall = 9.8, 3
volume = 0.125 / n**3

x = ti.Vector.field(3, ti.f32)
v = ti.Vector.field(3, ti.f32)
affine = ti.Matrix.field(3, 3, ti.f32)
deformation = ti.Matrix.field(3, 3, ti.f32)
ti.root.dense(ti.i, particles).place(x, v, affine, deformation)

# Blocks of grid nodes are activated on write. Each block has a list of its particles.
momentum = ti.Vector.field(3, ti.f32)
mass = ti.field(ti.f32)
bucket = ti.field(ti.i32)
blocks = ti.root.pointer(ti.ijk, n // block)
blocks.dense(ti.ijk, block).place(momentum, mass)
lists = blocks.dynamic(ti.l, 4096, chunk_size=256)
lists.place(bucket)


@ti.func
def base(p):
    """Return the lowest of the 27 grid nodes around a particle."""
    return ti.floor(x[p] * n - 0.5, ti.i32)


@ti.func
def weights(f):
    return [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2]


@ti.kernel
def begin():
    for p in x:
        cube, cell = p // (8 * side**3), p // 8 % side**3
        at = ti.Vector([cell // side**2, cell // side % side, cell % side])
        corner = ti.Vector([0.2, 0.1, 0.3]) if cube == 0 else ti.Vector([0.55, 0.2, 0.4])
        x[p] = corner + (at + ti.Vector([ti.random(), ti.random(), ti.random()])) / n
        v[p] = ti.Vector([2.0, 0.0, 0.0]) if cube == 0 else ti.Vector([-2.0, -1.0, 0.0])
        deformation[p] = ti.Matrix.identity(ti.f32, 3)


@ti.kernel
def sort():
    for p in x:
        ti.append(lists, base(p) // block, p)


@ti.func
def near(p, i, j, k):
    """Return the base of a particle in the list of a block. It lies in the block; `assume_in_range` tells the compiler."""
    at, first = base(p), ti.Vector([i, j, k]) * block
    for d in ti.static(range(3)):
        at[d] = ti.assume_in_range(at[d], first[d], 0, block)
    return at


@ti.kernel
def to_grid():
    # Accumulate in a scratchpad per block, then add it to the grid.
    ti.block_local(momentum, mass)
    for i, j, k, l in bucket:
        p = bucket[i, j, k, l]
        at = near(p, i, j, k)
        f = x[p] * n - at
        w = weights(f)
        one = ti.Matrix.identity(ti.f32, 3)
        F = (one + dt * affine[p]) @ deformation[p]
        deformation[p] = F
        # Neo-Hookean elasticity.
        stress = mu * (F @ F.transpose() - one) + one * lam * ti.log(F.determinant())
        moves = -dt * 4 * n * n * volume * stress + volume * affine[p]
        for offset in ti.static(ti.grouped(ti.ndrange(3, 3, 3))):
            weight = w[offset[0]].x * w[offset[1]].y * w[offset[2]].z
            momentum[at + offset] += weight * (volume * v[p] + moves @ ((offset - f) / n))
            mass[at + offset] += weight * volume


@ti.kernel
def on_grid():
    for I in ti.grouped(mass):
        if mass[I] > 0:
            u = momentum[I] / mass[I]
            u.y -= dt * gravity
            for d in ti.static(range(3)):
                if (I[d] < wall and u[d] < 0) or (I[d] > n - wall and u[d] > 0):
                    u[d] = 0
            momentum[I] = u


@ti.kernel
def to_particles():
    for i, j, k, l in bucket:
        p = bucket[i, j, k, l]
        at = near(p, i, j, k)
        f = x[p] * n - at
        w = weights(f)
        new_v = ti.Vector.zero(ti.f32, 3)
        new_affine = ti.Matrix.zero(ti.f32, 3, 3)
        for offset in ti.static(ti.grouped(ti.ndrange(3, 3, 3))):
            u = w[offset[0]].x * w[offset[1]].y * w[offset[2]].z * momentum[at + offset]
            new_v += u
            new_affine += 4 * n * u.outer_product(offset - f)
        v[p], affine[p] = new_v, new_affine
        x[p] += dt * new_v


begin()
gui = ti.GUI("Jelly", res=480, background_color=0x10161C)
for _frame in frames(gui):
    for _ in range(16):
        # Clear the grid: deactivate all blocks. Writes activate those that are needed.
        blocks.deactivate_all()
        sort()
        to_grid()
        on_grid()
        to_particles()
    p = x.to_numpy()
    shown = p[:, :2] * 0.85 + 0.05 + 0.2 * (p[:, 2:] - 0.3)
    half = particles // 2
    gui.circles(shown[:half], radius=2, color=0x4FA3E0)
    gui.circles(shown[half:], radius=2, color=0xF2855E)
