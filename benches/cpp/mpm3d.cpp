#include <cstddef>
#include <cstring>
#include <omp.h>

namespace {
constexpr int particles = 200000, n = 64, wall = 3;
constexpr float dx = 1.0f / n, dt = 2e-4f, volume = dx * dx * dx * 0.125f, mass = volume, stiffness = 1000,
                gravity = 9.8f;
struct Particle {
    float x[3], v[3], c[9], j;
};
struct Node {
    float v[3], m;
};
struct Place {
    int b[3];
    float f[3], w[3][3];
    explicit Place(const float *x) {
        for (int d = 0; d < 3; d++) {
            float g = x[d] * n;
            b[d] = int(g - 0.5f);
            f[d] = g - b[d];
            float p = 1.5f - f[d], q = f[d] - 1.0f, r = f[d] - 0.5f;
            w[d][0] = 0.5f * p * p, w[d][1] = 0.75f - q * q, w[d][2] = 0.5f * r * r;
        }
    }
};
}  // namespace

extern "C" void cpp_mpm3d(Particle *ps, Node *const *grids, int threads) {
#pragma omp parallel num_threads(threads)
    {
        int t = omp_get_thread_num();
        Node *grid = grids[t];
        memset(grid, 0, sizeof(Node) * n * n * n);
        for (int k = int(long(particles) * t / threads); k < int(long(particles) * (t + 1) / threads); k++) {
            const Particle &p = ps[k];
            Place at(p.x);
            float stress = -dt * 4 * stiffness * volume * (p.j - 1) / (dx * dx), a[9];
            for (int d = 0; d < 9; d++) a[d] = mass * p.c[d];
            a[0] += stress, a[4] += stress, a[8] += stress;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    for (int l = 0; l < 3; l++) {
                        float x = (i - at.f[0]) * dx, y = (j - at.f[1]) * dx, z = (l - at.f[2]) * dx;
                        float w = at.w[0][i] * at.w[1][j] * at.w[2][l];
                        Node &node = grid[((at.b[0] + i) * n + at.b[1] + j) * n + at.b[2] + l];
                        for (int d = 0; d < 3; d++)
                            node.v[d] += w * (mass * p.v[d] + a[3 * d] * x + a[3 * d + 1] * y + a[3 * d + 2] * z);
                        node.m += w * mass;
                    }
        }
#pragma omp barrier
        Node *first = grids[0];
#pragma omp for schedule(static)
        for (int k = 0; k < n * n * n; k++) {
            Node node = first[k];
            for (int o = 1; o < threads; o++) {
                for (int d = 0; d < 3; d++) node.v[d] += grids[o][k].v[d];
                node.m += grids[o][k].m;
            }
            if (node.m > 0) {
                int place[3] = {k / (n * n), k / n % n, k % n};
                float inverse = 1 / node.m;
                for (int d = 0; d < 3; d++) node.v[d] *= inverse;
                node.v[1] -= dt * gravity;
                for (int d = 0; d < 3; d++)
                    if ((place[d] < wall && node.v[d] < 0) || (place[d] + wall > n && node.v[d] > 0)) node.v[d] = 0;
            }
            first[k] = node;
        }
#pragma omp for schedule(static)
        for (int k = 0; k < particles; k++) {
            Particle &p = ps[k];
            Place at(p.x);
            float v[3] = {0, 0, 0}, c[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    for (int l = 0; l < 3; l++) {
                        float x = i - at.f[0], y = j - at.f[1], z = l - at.f[2];
                        float w = at.w[0][i] * at.w[1][j] * at.w[2][l];
                        const Node &node = first[((at.b[0] + i) * n + at.b[1] + j) * n + at.b[2] + l];
                        for (int d = 0; d < 3; d++) {
                            float wv = w * node.v[d];
                            v[d] += wv;
                            c[3 * d] += wv * x, c[3 * d + 1] += wv * y, c[3 * d + 2] += wv * z;
                        }
                    }
            for (int d = 0; d < 9; d++) p.c[d] = c[d] * 4 * n;
            for (int d = 0; d < 3; d++) p.v[d] = v[d], p.x[d] += dt * v[d];
            p.j *= 1 + dt * (p.c[0] + p.c[4] + p.c[8]);
        }
    }
}
