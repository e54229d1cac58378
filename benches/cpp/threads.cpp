// The number of OpenMP threads of all loops in this folder.
#include <omp.h>

extern "C" void cpp_set_threads(int threads) { omp_set_num_threads(threads); }
