"""A path tracer for distance functions: blobs, a mirror, sun and sky."""

import wuji as ti
import wuji.math as tm
from wuji.examples import frames

ti.init(arch=ti.cpu)

n = 256
far, close, bounces = 20.0, 1e-3, 4
sun, sun_light = tm.vec3(0.58, 0.62, -0.53), tm.vec3(3.4, 2.9, 2.2)
image = ti.Vector.field(3, ti.f32, shape=(n, n))
pixels = ti.Vector.field(3, ti.f32, shape=(n, n))


@ti.dataclass
class Surface:
    color: tm.vec3
    mirror: ti.i32


@ti.func
def join(a, b, width):
    """The smaller distance, with a smooth bridge where both are about the same."""
    h = tm.clamp(0.5 + 0.5 * (b - a) / width, 0.0, 1.0)
    return tm.mix(b, a, h) - width * h * (1 - h)


@ti.func
def ring(p):
    return tm.vec2(p.xz.norm() - 0.55, p.y).norm() - 0.16


@ti.func
def blobs(p):
    a = (p - tm.vec3(-0.35, 0.35, 0.0)).norm() - 0.36
    b = (p - tm.vec3(0.15, 0.62, 0.1)).norm() - 0.26
    return join(join(a, b, 0.25), ring(p - tm.vec3(0.0, 0.14, 0.0)), 0.18)


@ti.func
def ball(p):
    return (p - tm.vec3(0.75, 0.32, -0.45)).norm() - 0.32


@ti.func
def scene(p):
    """The distance to the nearest thing."""
    return min(p.y, blobs(p), ball(p))


@ti.func
def surface(p):
    met = Surface(tm.mix(tm.vec3(0.85, 0.2, 0.12), tm.vec3(0.95, 0.65, 0.2), tm.clamp(p.y * 1.2, 0.0, 1.0)), 0)
    if ball(p) < 2 * close:
        met = Surface(tm.vec3(0.92, 0.9, 0.86), 1)
    elif p.y < 2 * close:
        odd = tm.mod(ti.floor(p.x * 2) + ti.floor(p.z * 2), 2.0) > 0.5
        met.color = tm.vec3(0.62 if odd else 0.32)
    return met


@ti.func
def reach(origin, direction):
    """How far a ray gets."""
    t = 0.0
    steps = 0
    while steps < 100 and t < far:
        d = scene(origin + direction * t)
        if d < close:
            break
        t += d
        steps += 1
    return t


@ti.func
def normal(p):
    """Which way the distance grows."""
    grows = tm.vec3(0)
    for i in ti.static(range(3)):
        e = ti.Vector.unit(3, i, ti.f32) * 5e-4
        grows[i] = scene(p + e) - scene(p - e)
    return grows.normalized()


@ti.func
def scattered(normal):
    """A direction on the side of the normal, more likely near it: a point on a sphere on top of the surface."""
    z = ti.random() * 2 - 1
    phi = ti.random() * 2 * tm.pi
    r = ti.sqrt(max(1 - z * z, 0))
    return (normal + 0.999 * tm.vec3(r * ti.cos(phi), r * ti.sin(phi), z)).normalized()


@ti.kernel
def trace():
    """Adds one path to every pixel."""
    for i, j in image:
        u, v = (i + ti.random()) / n - 0.5, (j + ti.random()) / n - 0.5
        origin = tm.vec3(0.1, 1.25, -3.2)
        direction = tm.vec3(u * 0.9, v * 0.9 - 0.27, 1).normalized()
        weight, light = tm.vec3(1), tm.vec3(0)
        bounce = 0
        while bounce < bounces:
            t = reach(origin, direction)
            if t >= far:
                light += weight * tm.mix(tm.vec3(0.75, 0.82, 0.95), tm.vec3(0.2, 0.38, 0.75), max(direction.y, 0.0))
                break
            at = origin + direction * t
            up = normal(at)
            met = surface(at)
            weight *= met.color
            origin = at + up * 3 * close
            if met.mirror:
                direction = tm.reflect(direction, up)
            else:
                # The sun is too small to be met by chance: look for it.
                facing = up.dot(sun)
                if facing > 0 and reach(origin, sun) >= far:
                    light += weight * sun_light * facing / tm.pi
                direction = scattered(up)
            bounce += 1
        image[i, j] += light


@ti.kernel
def develop(paths: ti.f32):
    """The mean of all paths, through a curve that keeps the highlights."""
    for i, j in image:
        c = image[i, j] / paths
        pixels[i, j] = ti.pow(ti.max(c / (c * 0.6 + 0.55), 0), 1 / 2.2)


gui = ti.GUI("Paths", res=n)
for frame in frames(gui):
    trace()
    develop(frame + 1)
    gui.set_image(pixels)
