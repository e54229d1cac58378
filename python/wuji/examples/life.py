"""Conway's game of life on a torus."""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, scale = 128, 4
now = ti.field(ti.i32, shape=(n, n))
count = ti.field(ti.i32, shape=(n, n))


@ti.func
def alive(i, j):
    return now[(i + n) % n, (j + n) % n]


@ti.kernel
def begin():
    for i, j in now:
        now[i, j] = ti.random() < 0.3


@ti.kernel
def step():
    for i, j in now:
        total = 0
        for di, dj in ti.static(ti.ndrange((-1, 2), (-1, 2))):
            if ti.static(di != 0 or dj != 0):
                total += alive(i + di, j + dj)
        count[i, j] = total
    for i, j in now:
        now[i, j] = count[i, j] == 3 or (now[i, j] == 1 and count[i, j] == 2)


begin()
gui = ti.GUI("Life", res=n * scale)
for _frame in frames(gui):
    step()
    cells = now.to_numpy().astype(np.float32)
    gui.set_image(ti.tools.imresize(cells, n * scale))
