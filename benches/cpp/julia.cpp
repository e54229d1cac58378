#include <cstddef>

extern "C" void cpp_julia(float *pixels, size_t width, size_t height) {
#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < width; i++) {
        for (size_t j = 0; j < height; j++) {
            float x = (i / 320.0f - 1.0f) * 2.0f, y = (j / 320.0f - 0.5f) * 2.0f;
            int n = 0;
            while (x * x + y * y < 400.0f && n < 50) {
                float t = x * x - y * y - 0.8f;
                y = x * y * 2.0f + 0.156f;
                x = t;
                n++;
            }
            pixels[i * height + j] = 1.0f - n * 0.02f;
        }
    }
}
