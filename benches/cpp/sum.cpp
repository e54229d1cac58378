#include <cstddef>

extern "C" float cpp_sum(const float *x, size_t n) {
    float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (size_t i = 0; i < n; i++) total += x[i];
    return total;
}
