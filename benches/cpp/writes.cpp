#include <cstddef>

extern "C" void cpp_fill(float a, float *__restrict z, size_t n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) z[i] = a;
}

extern "C" void cpp_triad(float a, const float *__restrict x, const float *__restrict y, float *__restrict z, size_t n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) z[i] = a * x[i] + y[i];
}
