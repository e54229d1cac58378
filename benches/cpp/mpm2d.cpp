#include <cstddef>
#include <cstring>
#include <omp.h>

namespace {
constexpr int particles = 8192, n = 128, wall = 3;
constexpr float dx = 1.0f / n, dt = 2e-4f, volume = dx * dx * 0.25f, mass = volume, stiffness = 400, gravity = 9.8f;
struct Particle {
    float x[2], v[2], c[4], j;
};
struct Node {
    float v[2], m, pad;
};
struct Place {
    int b[2];
    float f[2], w[2][3];
    explicit Place(const float *x) {
        for (int d = 0; d < 2; d++) {
            float g = x[d] * n;
            b[d] = int(g - 0.5f);
            f[d] = g - b[d];
            float p = 1.5f - f[d], q = f[d] - 1.0f, r = f[d] - 0.5f;
            w[d][0] = 0.5f * p * p, w[d][1] = 0.75f - q * q, w[d][2] = 0.5f * r * r;
        }
    }
};
}  // namespace

extern "C" void cpp_mpm2d(Particle *ps, Node *const *grids, int threads) {
#pragma omp parallel num_threads(threads)
    {
        int t = omp_get_thread_num();
        Node *grid = grids[t];
        memset(grid, 0, sizeof(Node) * n * n);
        for (int k = particles * t / threads; k < particles * (t + 1) / threads; k++) {
            const Particle &p = ps[k];
            Place at(p.x);
            float stress = -dt * 4 * stiffness * volume * (p.j - 1) / (dx * dx);
            float a[4] = {stress + mass * p.c[0], mass * p.c[1], mass * p.c[2], stress + mass * p.c[3]};
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    float x = (i - at.f[0]) * dx, y = (j - at.f[1]) * dx, w = at.w[0][i] * at.w[1][j];
                    Node &node = grid[(at.b[0] + i) * n + at.b[1] + j];
                    node.v[0] += w * (mass * p.v[0] + a[0] * x + a[1] * y);
                    node.v[1] += w * (mass * p.v[1] + a[2] * x + a[3] * y);
                    node.m += w * mass;
                }
        }
#pragma omp barrier
        Node *first = grids[0];
#pragma omp for schedule(static)
        for (int k = 0; k < n * n; k++) {
            Node node = first[k];
            for (int o = 1; o < threads; o++) {
                const Node &other = grids[o][k];
                node.v[0] += other.v[0], node.v[1] += other.v[1], node.m += other.m;
            }
            int place[2] = {k / n, k % n};
            float inverse = node.m > 0 ? 1 / node.m : 0;
            node.v[0] *= inverse;
            node.v[1] = node.v[1] * inverse - dt * gravity;
            for (int d = 0; d < 2; d++)
                if ((place[d] < wall && node.v[d] < 0) || (place[d] + wall > n && node.v[d] > 0)) node.v[d] = 0;
            first[k] = node;
        }
#pragma omp for schedule(static)
        for (int k = 0; k < particles; k++) {
            Particle &p = ps[k];
            Place at(p.x);
            float v[2] = {0, 0}, c[4] = {0, 0, 0, 0};
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    float x = i - at.f[0], y = j - at.f[1], w = at.w[0][i] * at.w[1][j];
                    const Node &node = first[(at.b[0] + i) * n + at.b[1] + j];
                    float wu = w * node.v[0], wv = w * node.v[1];
                    v[0] += wu, v[1] += wv;
                    c[0] += wu * x, c[1] += wu * y, c[2] += wv * x, c[3] += wv * y;
                }
            for (int d = 0; d < 4; d++) p.c[d] = c[d] * 4 * n;
            for (int d = 0; d < 2; d++) p.v[d] = v[d], p.x[d] += dt * v[d];
            p.j *= 1 + dt * (p.c[0] + p.c[3]);
        }
    }
}
