"""A path tracer in a room of signed distance fields."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

width, height = 320, 240
bounces, marches = 5, 90
sums = ti.Vector.field(3, ti.f32, shape=(width, height))
pixels = ti.Vector.field(3, ti.f32, shape=(width, height))
vec3 = ti.math.vec3


@ti.func
def distance(p):
    """Return the distance to the nearest surface."""
    ball = (p - vec3(-0.55, 0.45, 0.2)).norm() - 0.45
    q = abs(p - vec3(0.65, 0.35, -0.1)) - vec3(0.35)
    box = ti.max(q, 0.0).norm() + ti.min(q.max(), 0.0) - 0.02
    r = p - vec3(0.1, 0.16, 1.0)
    ring = ti.Vector([ti.Vector([r.x, r.z]).norm() - 0.3, r.y]).norm() - 0.12
    room = ti.min(p.y, 2.2 - p.y, p.z + 1.4, 2.0 - abs(p.x), 3.6 - p.z)
    return ti.min(ball, box, ring, room)


@ti.func
def color(p):
    c = vec3(0.8, 0.78, 0.75)
    if p.x < -1.95:
        c = vec3(0.75, 0.25, 0.2)
    elif p.x > 1.95:
        c = vec3(0.25, 0.5, 0.7)
    elif p.y < 1e-2:
        c = vec3(0.6) if (int(ti.floor(p.x * 2)) + int(ti.floor(p.z * 2))) % 2 == 0 else vec3(0.35)
    elif (p - vec3(0.1, 0.16, 1.0)).norm() < 0.5:
        c = vec3(0.85, 0.65, 0.25)
    return c


@ti.func
def normal(p):
    e = 1e-3
    d = distance(p)
    return vec3(distance(p + vec3(e, 0, 0)) - d, distance(p + vec3(0, e, 0)) - d, distance(p + vec3(0, 0, e)) - d).normalized()


@ti.func
def sample_hemisphere(n):
    """Sample a direction on the hemisphere around a normal, cosine-weighted."""
    z = 2 * ti.random() - 1
    a = 2 * ti.math.pi * ti.random()
    r = ti.sqrt(1 - z * z)
    return (n + 0.999 * vec3(r * ti.cos(a), r * ti.sin(a), z)).normalized()


@ti.kernel
def sample():
    for i, j in sums:
        at = ti.Vector([i + ti.random() - width / 2, j + ti.random() - height / 2]) / height
        p = vec3(0.0, 1.0, 3.5)
        d = vec3(at.x, at.y - 0.05, -1.05).normalized()
        weight = vec3(1.0)
        light = vec3(0.0)
        for _ in range(bounces):
            t = 0.01
            for _march in range(marches):
                step = distance(p + d * t)
                if step < 5e-4 or t > 12:
                    break
                t += step
            p += d * t
            # Area light in the ceiling.
            if p.y > 2.19 and abs(p.x) < 0.7 and abs(p.z - 0.3) < 0.7:
                light = weight * 7.0
                break
            n = normal(p)
            weight *= color(p)
            d = sample_hemisphere(n)
            p += n * 2e-3
        sums[i, j] += light


@ti.kernel
def develop(samples: ti.i32):
    for i, j in pixels:
        c = sums[i, j] / samples
        pixels[i, j] = ti.sqrt(c / (c + 0.6))


gui = ti.GUI("Path tracer", res=(width, height))
samples = 0
for _frame in frames(gui):
    for _ in range(2):
        sample()
        samples += 1
    develop(samples)
    gui.set_image(pixels)
