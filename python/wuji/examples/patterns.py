"""Patterns for other examples: the yin-yang symbol."""

import wuji as ti


@ti.func
def _disc(pos, center, radius):
    return (pos - center).norm() < radius


@ti.func
def taichi_logo(pos: ti.template(), scale: float = 1 / 1.11):
    """Return 0 where the symbol is dark and 1 where it is light, at a position in [0, 1]."""
    p = (pos - 0.5) / scale + 0.5
    middle = ti.Vector([0.5, 0.5])
    upper = ti.Vector([0.5, 0.75])
    lower = ti.Vector([0.5, 0.25])
    dark = 0
    if _disc(p, middle, 0.5):
        dark = 1 if p.x < 0.5 else 0
        if _disc(p, upper, 0.25):
            dark = 1
        if _disc(p, lower, 0.25):
            dark = 0
        if _disc(p, upper, 0.08):
            dark = 0
        if _disc(p, lower, 0.08):
            dark = 1
    elif _disc(p, middle, 0.52):
        dark = 1
    return 1 - dark


if __name__ == "__main__":
    from wuji.examples import frames

    ti.init(arch=ti.cpu)
    n = 320
    pixels = ti.field(ti.f32, shape=(n, n))

    @ti.kernel
    def paint():
        for i, j in pixels:
            pixels[i, j] = taichi_logo(ti.Vector([i, j]) / n)

    gui = ti.GUI("Yin and yang", res=n)
    for _frame in frames(gui):
        paint()
        gui.set_image(pixels)
