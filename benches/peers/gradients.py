#!/usr/bin/env python3
"""Gradients of two simulations in Wuji and in other systems on the CPU: same equations, sizes and starts.

    diffmpm  elastic MLS-MPM, 8192 particles, 64 steps: the same program in Wuji and Taichi
    smoke    110 x 110 cells, 100 steps with 6 Jacobi iterations: Wuji, JAX and PyTorch

Each system runs in a process of its own with an interpreter that has it, for example:

    python3 benches/peers/gradients.py --wuji python3 --taichi ~/.cache/wuji-peers/bin/python --jax ~/jax/bin/python

Prints the time of the forward pass, of the gradient (forward and backward), of the first gradient with compilation, and one
number of the gradient. Systems without an interpreter are left out.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
ROUNDS = 7


def measured(forward, gradient, sync=lambda: None):
    """Times of the first gradient, of the forward pass and of the gradient, in milliseconds."""
    def timed(run):
        start = time.perf_counter()
        run()
        sync()
        return (time.perf_counter() - start) * 1e3

    first = timed(gradient)
    timed(forward)
    pairs = [(timed(forward), timed(gradient)) for _ in range(ROUNDS)]
    return dict(first=first, forward=min(p[0] for p in pairs), gradient=min(p[1] for p in pairs))


def diffmpm(ti):
    """The program that Wuji and Taichi share."""
    import numpy as np

    n, grid, steps = 8192, 128, 64
    dx, inv_dx, dt, stiffness = 1 / grid, float(grid), 1e-4, 400.0
    real = ti.f32
    x, v = (ti.Vector.field(2, real, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
    C, F = (ti.Matrix.field(2, 2, real, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
    momentum, velocity = (ti.Vector.field(2, real, shape=(grid, grid), needs_grad=True) for _ in range(2))
    mass = ti.field(real, shape=(grid, grid), needs_grad=True)
    loss = ti.field(real, shape=(), needs_grad=True)
    start = ti.Vector.field(2, real, shape=(), needs_grad=True)

    @ti.kernel
    def clear():
        for i, j in mass:
            momentum[i, j] = [0, 0]
            mass[i, j] = 0
            momentum.grad[i, j] = [0, 0]
            mass.grad[i, j] = 0
            velocity.grad[i, j] = [0, 0]

    @ti.kernel
    def begin():
        for p in range(n):
            v[0, p] = start[None]

    @ti.kernel
    def p2g(t: ti.i32):
        for p in range(n):
            base = ti.cast(x[t, p] * inv_dx - 0.5, ti.i32)
            fx = x[t, p] * inv_dx - ti.cast(base, real)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
            deformed = (ti.Matrix.identity(real, 2) + dt * C[t, p]) @ F[t, p]
            F[t + 1, p] = deformed
            J = deformed.determinant()
            r, s = ti.polar_decompose(deformed)
            volume = stiffness * (J - 1) * J
            cauchy = 2 * stiffness * (deformed - r) @ deformed.transpose() + ti.Matrix([[volume, 0.0], [0.0, volume]])
            affine = C[t, p] - (dt * 4 * inv_dx * inv_dx) * cauchy
            for i in ti.static(range(3)):
                for j in ti.static(range(3)):
                    offset = ti.Vector([i, j])
                    d = (ti.cast(offset, real) - fx) * dx
                    weight = w[i][0] * w[j][1]
                    momentum[base + offset] += weight * (v[t, p] + affine @ d)
                    mass[base + offset] += weight

    @ti.kernel
    def update():
        for i, j in mass:
            u = momentum[i, j] / (mass[i, j] + 1e-10)
            u[1] -= dt * 9.8
            if i < 3 and u[0] < 0:
                u[0] = 0.0
            if i > grid - 3 and u[0] > 0:
                u[0] = 0.0
            if j < 3 and u[1] < 0:
                u[1] = 0.0
            if j > grid - 3 and u[1] > 0:
                u[1] = 0.0
            velocity[i, j] = u

    @ti.kernel
    def g2p(t: ti.i32):
        for p in range(n):
            base = ti.cast(x[t, p] * inv_dx - 0.5, ti.i32)
            fx = x[t, p] * inv_dx - ti.cast(base, real)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            new_v = ti.Vector([0.0, 0.0])
            new_C = ti.Matrix([[0.0, 0.0], [0.0, 0.0]])
            for i in ti.static(range(3)):
                for j in ti.static(range(3)):
                    d = ti.cast(ti.Vector([i, j]), real) - fx
                    u = velocity[base + ti.Vector([i, j])]
                    weight = w[i][0] * w[j][1]
                    new_v += weight * u
                    new_C += 4 * weight * u.outer_product(d) * inv_dx
            v[t + 1, p] = new_v
            x[t + 1, p] = x[t, p] + dt * new_v
            C[t + 1, p] = new_C

    @ti.kernel
    def distance():
        for p in range(n):
            d = x[steps, p] - ti.Vector([0.6, 0.5])
            loss[None] += d.dot(d) / n

    def step(t):
        clear()
        p2g(t)
        update()

    def forward():
        loss[None] = 0
        begin()
        for t in range(steps):
            step(t)
            g2p(t)
        distance()

    def gradient():
        forward()
        for field in (x, v, C, F, start):
            field.grad.fill(0)
        loss.grad[None] = 1
        distance.grad()
        for t in reversed(range(steps)):
            # The grid is not kept.
            step(t)
            g2p.grad(t)
            update.grad()
            p2g.grad(t)
        begin.grad()

    positions = x.to_numpy()
    positions[0] = np.random.default_rng(0).random((n, 2)) * 0.2 + 0.3
    x.from_numpy(positions)
    F.fill(0)
    identity = F.to_numpy()
    identity[0] = np.eye(2)
    F.from_numpy(identity)
    start[None] = [1.0, 0.5]
    return dict(measured(forward, gradient, ti.sync), number=start.grad[None][0])


SIZE, STEPS, ITERATIONS = 110, 100, 6


def smoke_start():
    """Velocity, smoke and target."""
    import numpy as np

    i, j = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    velocity = np.stack([0.6 * np.sin(j * 0.13), 0.4 * np.cos(i * 0.11 + 1)], -1).astype(np.float32)
    smoke = ((i // 12 + j // 12) % 2 == 0).astype(np.float32)
    target = ((i - SIZE // 2) ** 2 + (j - SIZE // 2) ** 2 < 400).astype(np.float32)
    return velocity, smoke, target


def smoke_kernels(ti):
    n = SIZE
    real = ti.f32
    start, first, goal = smoke_start()
    v, moved = (ti.Vector.field(2, real, shape=(STEPS, n, n), needs_grad=True) for _ in range(2))
    smoke, div = (ti.field(real, shape=(STEPS, n, n), needs_grad=True) for _ in range(2))
    p = ti.field(real, shape=(STEPS * ITERATIONS, n, n), needs_grad=True)
    target = ti.field(real, shape=(n, n))
    loss = ti.field(real, shape=(), needs_grad=True)

    @ti.func
    def wrap(i):
        return (i % n + n) % n

    @ti.func
    def sample(field: ti.template(), t, at):
        base = ti.floor(at)
        f = at - base
        a, b = wrap(int(base[0])), wrap(int(base[0]) + 1)
        c, d = wrap(int(base[1])), wrap(int(base[1]) + 1)
        low = field[t, a, c] * (1 - f[0]) + field[t, b, c] * f[0]
        high = field[t, a, d] * (1 - f[0]) + field[t, b, d] * f[0]
        return low * (1 - f[1]) + high * f[1]

    @ti.kernel
    def advect_velocity(t: ti.i32):
        for i, j in ti.ndrange(n, n):
            moved[t, i, j] = sample(v, t - 1, ti.Vector([float(i), float(j)]) - v[t - 1, i, j])

    @ti.kernel
    def advect_smoke(t: ti.i32):
        for i, j in ti.ndrange(n, n):
            smoke[t, i, j] = sample(smoke, t - 1, ti.Vector([float(i), float(j)]) - v[t, i, j])

    @ti.kernel
    def divergence(t: ti.i32):
        for i, j in ti.ndrange(n, n):
            along = moved[t, wrap(i + 1), j][0] - moved[t, wrap(i - 1), j][0]
            across = moved[t, i, wrap(j + 1)][1] - moved[t, i, wrap(j - 1)][1]
            div[t, i, j] = -0.5 * (along + across)

    @ti.kernel
    def jacobi(t: ti.i32, k: ti.i32):
        for i, j in ti.ndrange(n, n):
            along = p[k - 1, wrap(i - 1), j] + p[k - 1, wrap(i + 1), j]
            across = p[k - 1, i, wrap(j - 1)] + p[k - 1, i, wrap(j + 1)]
            p[k, i, j] = (div[t, i, j] + along + across) * 0.25

    @ti.kernel
    def project(t: ti.i32, k: ti.i32):
        for i, j in ti.ndrange(n, n):
            along = p[k, wrap(i + 1), j] - p[k, wrap(i - 1), j]
            across = p[k, i, wrap(j + 1)] - p[k, i, wrap(j - 1)]
            v[t, i, j] = moved[t, i, j] - ti.Vector([along, across]) * 0.5

    @ti.kernel
    def distance():
        for i, j in ti.ndrange(n, n):
            loss[None] += (smoke[STEPS - 1, i, j] - target[i, j]) ** 2 / (n * n)

    def forward():
        for t in range(1, STEPS):
            advect_velocity(t)
            divergence(t)
            for k in range(1, ITERATIONS):
                jacobi(t, t * ITERATIONS + k)
            project(t, t * ITERATIONS + ITERATIONS - 1)
            advect_smoke(t)
        distance()

    def gradient():
        with ti.ad.Tape(loss):
            forward()

    every = v.to_numpy()
    every[0] = start
    v.from_numpy(every)
    every = smoke.to_numpy()
    every[0] = first
    smoke.from_numpy(every)
    target.from_numpy(goal)
    times = measured(forward, gradient, ti.sync)
    return dict(times, number=float(v.grad.to_numpy()[0, 30, 40, 0]))


def smoke_arrays(xp, take, loop):
    """The loss as a function of arrays, for JAX and PyTorch."""
    n = SIZE

    def sample(field, at):
        base = xp.floor(at)
        f = at - base
        index = take(base)
        a, b = index[..., 0] % n, (index[..., 0] + 1) % n
        c, d = index[..., 1] % n, (index[..., 1] + 1) % n
        fx, fy = f[..., 0], f[..., 1]
        if field.ndim == 3:
            fx, fy = fx[..., None], fy[..., None]
        low = field[a, c] * (1 - fx) + field[b, c] * fx
        high = field[a, d] * (1 - fx) + field[b, d] * fx
        return low * (1 - fy) + high * fy

    def step(state, places):
        v, smoke = state
        moved = sample(v, places - v)
        roll = xp.roll
        u, w = moved[..., 0], moved[..., 1]
        div = -0.5 * (roll(u, -1, 0) - roll(u, 1, 0) + roll(w, -1, 1) - roll(w, 1, 1))
        p = xp.zeros_like(div)
        for _ in range(1, ITERATIONS):
            p = (div + roll(p, 1, 0) + roll(p, -1, 0) + roll(p, 1, 1) + roll(p, -1, 1)) * 0.25
        slope = xp.stack([roll(p, -1, 0) - roll(p, 1, 0), roll(p, -1, 1) - roll(p, 1, 1)], -1)
        v = moved - slope * 0.5
        return v, sample(smoke, places - v)

    def loss(v, smoke, target, places):
        v, smoke = loop(lambda state: step(state, places), (v, smoke), STEPS - 1)
        return ((smoke - target) ** 2).sum() / (n * n)

    return loss


def places():
    import numpy as np

    return np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij"), -1).astype(np.float32)


def smoke_jax():
    import jax
    import jax.numpy as jnp

    def loop(step, state, count):
        return jax.lax.scan(lambda state, _: (step(state), None), state, None, length=count)[0]

    loss = smoke_arrays(jnp, lambda x: x.astype(jnp.int32), loop)
    data = [jnp.asarray(a) for a in (*smoke_start(), places())]
    forward, gradient = jax.jit(loss), jax.jit(jax.grad(loss))
    times = measured(lambda: forward(*data).block_until_ready(), lambda: gradient(*data).block_until_ready())
    return dict(times, number=float(gradient(*data)[30, 40, 0]))


def smoke_torch():
    import torch

    def loop(step, state, count):
        for _ in range(count):
            state = step(state)
        return state

    class Arrays:
        floor, zeros_like = torch.floor, torch.zeros_like
        roll = staticmethod(lambda x, by, axis: torch.roll(x, by, axis))
        stack = staticmethod(lambda parts, axis: torch.stack(parts, axis))

    loss = smoke_arrays(Arrays, lambda x: x.long(), loop)
    v, *rest = [torch.as_tensor(a) for a in (*smoke_start(), places())]
    v.requires_grad_()

    def forward():
        with torch.no_grad():
            loss(v, *rest)

    def gradient():
        v.grad = None
        loss(v, *rest).backward()

    times = measured(forward, gradient)
    return dict(times, number=float(v.grad[30, 40, 0]))


def system(name):
    if name == "wuji":
        import wuji as ti
    else:
        import taichi as ti
    more = {} if name == "wuji" else {"offline_cache": False}
    ti.init(arch=ti.cpu, default_fp=ti.f32, **more)
    return ti


RUNS = {
    "diffmpm": {"wuji": lambda: diffmpm(system("wuji")), "taichi": lambda: diffmpm(system("taichi"))},
    "smoke": {
        "wuji": lambda: smoke_kernels(system("wuji")),
        "taichi": lambda: smoke_kernels(system("taichi")),
        "jax": smoke_jax,
        "torch": smoke_torch,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("wuji", "taichi", "jax", "torch"):
        parser.add_argument(f"--{name}", metavar="PYTHON", help=f"an interpreter with {name}")
    parser.add_argument("--only", choices=RUNS, help="only this simulation")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        simulation, name = args.run
        print(json.dumps(RUNS[simulation][name]()))
        return
    print(f"{'simulation':<12}{'system':<10}{'forward':>10}{'gradient':>10}{'of Wuji':>9}{'first':>10}   a number of the gradient")
    for simulation, systems in RUNS.items():
        ours = None
        for name in systems:
            python = getattr(args, name)
            if not python or args.only not in (None, simulation):
                continue
            done = subprocess.run([python, HERE, "--run", simulation, name], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{simulation} in {name} failed:\n{done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            ours = ours or (found["gradient"] if name == "wuji" else None)
            ratio = f"{found['gradient'] / ours:8.2f}x" if ours else " " * 9
            print(f"{simulation:<12}{name:<10}{found['forward']:>7.1f} ms{found['gradient']:>7.1f} ms{ratio}{found['first']:>7.0f} ms   {found['number']:.6g}", flush=True)


if __name__ == "__main__":
    main()
