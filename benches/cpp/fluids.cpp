#include <algorithm>
#include <cstddef>

namespace {
constexpr int n = 512;
constexpr float dt = 0.5f;
inline int clamp(int k) { return std::min(std::max(k, 0), n - 1); }
}  // namespace

extern "C" void cpp_advect(const float *__restrict u, const float *__restrict v, const float *__restrict from,
                           float *__restrict out) {
    constexpr float top = n - 1 - 0.001f;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float x = std::min(std::max(i - dt * u[i * n + j], 0.0f), top);
            float y = std::min(std::max(j - dt * v[i * n + j], 0.0f), top);
            int bx = int(x), by = int(y), k = bx * n + by;
            float fx = x - bx, fy = y - by;
            float low = from[k] + (from[k + 1] - from[k]) * fy;
            float high = from[k + n] + (from[k + n + 1] - from[k + n]) * fy;
            out[i * n + j] = low + (high - low) * fx;
        }
}

extern "C" void cpp_divergence(const float *__restrict u, const float *__restrict v, float *__restrict out) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        const float *up = u + clamp(i - 1) * n, *down = u + clamp(i + 1) * n, *w = v + i * n;
        float *o = out + i * n;
        o[0] = 0.5f * (down[0] - up[0] + w[1] - w[0]);
        for (int j = 1; j < n - 1; j++) o[j] = 0.5f * (down[j] - up[j] + w[j + 1] - w[j - 1]);
        o[n - 1] = 0.5f * (down[n - 1] - up[n - 1] + w[n - 1] - w[n - 2]);
    }
}

extern "C" void cpp_sweep(const float *__restrict p, const float *__restrict divergence, float *__restrict out) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        const float *up = p + clamp(i - 1) * n, *down = p + clamp(i + 1) * n, *q = p + i * n, *d = divergence + i * n;
        float *o = out + i * n;
        o[0] = 0.25f * (up[0] + down[0] + q[0] + q[1] - d[0]);
        for (int j = 1; j < n - 1; j++) o[j] = 0.25f * (up[j] + down[j] + q[j - 1] + q[j + 1] - d[j]);
        o[n - 1] = 0.25f * (up[n - 1] + down[n - 1] + q[n - 2] + q[n - 1] - d[n - 1]);
    }
}

extern "C" void cpp_project(const float *__restrict p, float *__restrict u, float *__restrict v) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        const float *up = p + clamp(i - 1) * n, *down = p + clamp(i + 1) * n, *q = p + i * n;
        float *a = u + i * n, *b = v + i * n;
        for (int j = 0; j < n; j++) a[j] -= 0.5f * (down[j] - up[j]);
        b[0] -= 0.5f * (q[1] - q[0]);
        for (int j = 1; j < n - 1; j++) b[j] -= 0.5f * (q[j + 1] - q[j - 1]);
        b[n - 1] -= 0.5f * (q[n - 1] - q[n - 2]);
    }
}
