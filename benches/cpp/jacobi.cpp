#include <cstddef>
#include <vector>

extern "C" void cpp_jacobi(const float *__restrict u, float *__restrict v, size_t n) {
    static const std::vector<float> zeros(n, 0.0f);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        const float *mid = u + i * n;
        const float *up = i > 0 ? mid - n : zeros.data();
        const float *down = i + 1 < n ? mid + n : zeros.data();
        float *out = v + i * n;
        out[0] = 0.25f * (up[0] + down[0] + mid[1]);
        for (size_t j = 1; j + 1 < n; j++) out[j] = 0.25f * (up[j] + down[j] + mid[j - 1] + mid[j + 1]);
        out[n - 1] = 0.25f * (up[n - 1] + down[n - 1] + mid[n - 2]);
    }
}
