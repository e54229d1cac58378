"""A volumetric path tracer on a sparse density grid."""

import wuji as ti
from wuji.examples import frames

ti.init(arch=ti.cpu)

n, block, size = 64, 8, 256
bounces = 64
extinction, albedo = 60.0, 0.95
vec2, vec3 = ti.math.vec2, ti.math.vec3
lamp, power, sky = vec3(1.4, 1.8, -0.6), vec3(60, 50, 38), vec3(0.16, 0.24, 0.4)

density = ti.field(ti.f32)
ti.root.pointer(ti.ijk, n // block).dense(ti.ijk, block).place(density)
sums = ti.Vector.field(3, ti.f32, shape=(size, size))
pixels = ti.Vector.field(3, ti.f32, shape=(size, size))


@ti.kernel
def puff():
    """Fill a billowing sphere. Only voxels with smoke are written, so only their blocks are allocated."""
    for I in ti.grouped(ti.ndrange(n, n, n)):
        at = (I + 0.5) / n - 0.5
        swell, scale = 0.0, 1.0
        for o in range(4):
            f = 9.0 * (1 << o)
            swell += scale * ti.sin(at.x * f + 1.3) * ti.sin(at.y * f * 1.1 + o) * ti.cos(at.z * f * 0.9 - 0.4)
            scale *= 0.5
        depth = 0.34 + 0.09 * swell - at.norm()
        if depth > 0:
            density[I] = ti.min(depth * 12, 1.0)


@ti.func
def smoke(at):
    # Out-of-bounds and inactive voxels read as zero.
    return density[ti.floor(at * n, ti.i32)]


@ti.func
def through(origin, direction):
    """Return where a ray enters and leaves the unit cube."""
    a, b = -origin / direction, (1 - origin) / direction
    return vec2(ti.max(ti.min(a, b).max(), 0.0), ti.max(a, b).min())


@ti.func
def free_path():
    """Sample the distance to the next collision at maximum density (delta tracking)."""
    return -ti.log(1 - ti.random()) / extinction


@ti.func
def lit(origin):
    """Return the light from the lamp if it is not occluded."""
    way = lamp - origin
    distance = way.norm()
    direction = way / distance
    far = through(origin, direction).y
    t = free_path()
    seen = True
    while t < far and seen:
        seen = ti.random() >= smoke(origin + direction * t)
        t += free_path()
    return power / (4 * ti.math.pi * distance**2) if seen else vec3(0)


@ti.func
def sample_sphere():
    z, phi = 2 * ti.random() - 1, 2 * ti.math.pi * ti.random()
    r = ti.sqrt(1 - z * z)
    return vec3(r * ti.cos(phi), r * ti.sin(phi), z)


@ti.kernel
def trace():
    for i, j in sums:
        at = vec2(i + ti.random(), j + ti.random()) / size - 0.5
        origin = vec3(0.5, 0.5, -1.5)
        direction = vec3(0.7 * at, 1).normalized()
        span = through(origin, direction)
        t, far = span.x, span.y
        weight, light, met = 1.0, vec3(0), 0
        while met < bounces:
            t += free_path()
            if t >= far:
                light += sky * weight
                break
            p = origin + direction * t
            if ti.random() < smoke(p):
                weight *= albedo
                light += lit(p) * weight
                origin, direction, t = p, sample_sphere(), 0.0
                far = through(origin, direction).y
                met += 1
        sums[i, j] += light


@ti.kernel
def develop(passes: ti.i32):
    for i, j in pixels:
        mean = sums[i, j] / passes
        pixels[i, j] = (mean / (1 + mean)) ** (1 / 2.2)


puff()
gui = ti.GUI("Smoke", res=size)
for frame in frames(gui):
    trace()
    develop(frame + 1)
    gui.set_image(pixels)
