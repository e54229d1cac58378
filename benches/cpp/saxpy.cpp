#include <cstddef>

extern "C" void cpp_saxpy(float a, const float *__restrict x, float *__restrict y, size_t n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}
