#include <cmath>
#include <cstddef>

extern "C" void cpp_nbody(float *__restrict x, float *__restrict y, float *__restrict z, float *__restrict u,
                          float *__restrict v, float *__restrict w, size_t n) {
    const float eps = 1e-3f, dt = 1e-3f, mass = 1.0f / n;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        float ax = 0, ay = 0, az = 0, xi = x[i], yi = y[i], zi = z[i];
#pragma omp simd reduction(+ : ax, ay, az)
        for (size_t j = 0; j < n; j++) {
            float dx = x[j] - xi, dy = y[j] - yi, dz = z[j] - zi;
            float inv = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + eps);
            float s = inv * inv * inv;
            ax += dx * s, ay += dy * s, az += dz * s;
        }
        u[i] += dt * ax * mass, v[i] += dt * ay * mass, w[i] += dt * az * mass;
    }
    for (size_t i = 0; i < n; i++) x[i] += dt * u[i], y[i] += dt * v[i], z[i] += dt * w[i];
}
