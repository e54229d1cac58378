"""Conway's game of life with one bit per cell: glider guns.

Only the types and the layout of the boards are special. The kernel computes with ordinary integers, and the compiler handles
a word of 64 cells at a time.
"""

import numpy as np

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, word, scale = 256, 64, 2
bit = ti.types.quant.int(1, signed=False)
now, later = ti.field(bit), ti.field(bit)
for board in (now, later):
    ti.root.dense(ti.ij, (n, n // word)).quant_array(ti.j, word, max_num_bits=word).place(board)

# A Gosper glider gun.
GUN = """
........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................
"""


@ti.kernel
def step(old: ti.template(), new: ti.template()):
    # Cells at the edge stay dead.
    for i, j in ti.ndrange((1, n - 1), (1, n - 1)):
        total = ti.u32(0)
        for di, dj in ti.static(ti.ndrange((-1, 2), (-1, 2))):
            if ti.static(di != 0 or dj != 0):
                total += old[i + di, j + dj]
        new[i, j] = (total == 3) | ((total == 2) & (old[i, j] == 1))


def begin() -> None:
    cells = np.zeros((n, n), np.uint32)
    gun = np.array([[c == "O" for c in line] for line in GUN.split()], np.uint32)
    h, w = gun.shape
    for k in range(4):
        # Every second gun shoots to the left.
        part = gun[:, :: 1 if k % 2 == 0 else -1]
        cells[20 + 60 * k : 20 + 60 * k + h, 20 + 150 * (k % 2) : 20 + 150 * (k % 2) + w] = part
    # Rows of the picture are the second axis, from the bottom.
    now.from_numpy(np.ascontiguousarray(cells.T[:, ::-1]))


begin()
gui = ti.GUI("Life, one bit per cell", res=n * scale)
for _frame in frames(gui):
    for _ in range(2):
        step(now, later)
        step(later, now)
    picture = now.to_numpy().astype(np.float32)
    gui.set_image(ti.tools.imresize(picture, n * scale))
