// How many threads the loops of this folder use.
#include <omp.h>

extern "C" void cpp_set_threads(int threads) { omp_set_num_threads(threads); }
