#include <cstddef>

template <int K>
static void rows(float a, const float *__restrict x, float *__restrict y, size_t n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        float along = 0;
        for (int k = 0; k < K; k++) along += x[K * i + k] * y[K * i + k];
        for (int k = 0; k < K; k++) y[K * i + k] -= a * along * x[K * i + k];
    }
}

extern "C" void cpp_rows2(float a, const float *x, float *y, size_t n) { rows<2>(a, x, y, n); }
extern "C" void cpp_rows3(float a, const float *x, float *y, size_t n) { rows<3>(a, x, y, n); }
extern "C" void cpp_rows4(float a, const float *x, float *y, size_t n) { rows<4>(a, x, y, n); }
