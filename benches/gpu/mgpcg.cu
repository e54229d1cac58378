// Multigrid-preconditioned conjugate gradients on a dense cube by hand. `mgpcg.ptx` is made of it by NVRTC for compute capability 8.0:
//   nvrtc --gpu-architecture=compute_80 --use_fast_math mgpcg.cu, with `.version 8.1` for older drivers
//
// A grid of n^3 cells is stored by colour: first the red cells, whose coordinates have an even sum, then the black ones. A row has
// n / 2 cells of each colour. Cell m of a row has k = 2 m + t with t = (i + j + colour) % 2, so its neighbours, all of the other
// colour, are cells m of the adjacent rows and planes, and cells m + t - 1 and m + t of its own row. A half sweep thus reads half of
// a grid, and writes the other half.

typedef unsigned int u32;

// ANCHOR: mgpcg
const int THREADS = 256;
const int BOTTOM = 20, MOST = 16;

__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ float4 operator*(float a, float4 b) { return make_float4(a * b.x, a * b.y, a * b.z, a * b.w); }
__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ float4 none() { return make_float4(0, 0, 0, 0); }

// The cells of one colour of a grid.
struct Plain {
    const float *x;
    int n;
    __device__ float4 four(int i, int j, int q) const { return ((const float4 *)x)[(i * n + j) * (n / 8) + q]; }
    __device__ float one(int i, int j, int m) const { return x[(i * n + j) * (n / 2) + m]; }
};

// z + beta p.
struct Turned {
    Plain z, p;
    float beta;
    __device__ float4 four(int i, int j, int q) const { return z.four(i, j, q) + beta * p.four(i, j, q); }
    __device__ float one(int i, int j, int m) const { return z.one(i, j, m) + beta * p.one(i, j, m); }
};

// z plus the correction of the coarser level, a grid of s^3 cells: cell m of a row is in coarse cell k = m.
struct Prolonged {
    Plain z;
    const float *coarse;
    int s;
    __device__ const float *row(int i, int j, int colour) const { return coarse + (colour & 1) * (s * s * s / 2) + (i / 2 * s + j / 2) * (s / 2); }
    __device__ float4 four(int i, int j, int q) const {
        int c = i / 2 + j / 2;
        float2 even = ((const float2 *)row(i, j, c))[q], odd = ((const float2 *)row(i, j, c + 1))[q];
        return z.four(i, j, q) + make_float4(even.x, odd.x, even.y, odd.y);
    }
    __device__ float one(int i, int j, int m) const { return z.one(i, j, m) + row(i, j, i / 2 + j / 2 + m)[m / 2]; }
};

// The neighbours of four cells in their row and in the rows beside it; `here` are the cells of the other colour at the same place.
template <class Values> __device__ float4 beside(const Values &values, int n, int i, int j, int q, int colour, float4 here) {
    float4 sum = here;
    if (j > 0) sum = sum + values.four(i, j - 1, q);
    if (j + 1 < n) sum = sum + values.four(i, j + 1, q);
    if ((i + j + colour) % 2) return sum + make_float4(here.y, here.z, here.w, q + 1 < n / 8 ? values.one(i, j, 4 * q + 4) : 0);
    return sum + make_float4(q > 0 ? values.one(i, j, 4 * q - 1) : 0, here.x, here.y, here.z);
}

// The four cells of a thread in each of some consecutive planes.
struct Column {
    int n, i, last, j, q;
    __device__ Column(int n, int planes) : n(n) {
        int thread = blockIdx.x * THREADS + threadIdx.x, width = n / 8, area = n * width;
        q = thread % width;
        j = thread / width % n;
        i = thread / area * planes;
        last = min(i + planes, n);
    }
    // In units of four cells.
    __device__ int at() const { return (i * n + j) * (n / 8) + q; }
};

// Calls `use(place, sum of the six neighbours)` for the cells of a colour of a thread's column; planes are kept in registers.
template <class Values, class Use> __device__ void march(Column c, int colour, const Values &values, const Use &use) {
    if (c.i >= c.last) return;
    float4 below = c.i > 0 ? values.four(c.i - 1, c.j, c.q) : none(), here = values.four(c.i, c.j, c.q);
    for (; c.i < c.last; c.i++) {
        float4 above = c.i + 1 < c.n ? values.four(c.i + 1, c.j, c.q) : none();
        use(c.at(), below + above + beside(values, c.n, c.i, c.j, c.q, colour, here));
        below = here;
        here = above;
    }
}

// Calls `use(colour, place, values, sum of their six neighbours)` for both colours.
template <class Values, class Use> __device__ void march_both(Column c, const Values *values, const Use &use) {
    if (c.i >= c.last) return;
    float4 below[2], here[2], above[2];
#pragma unroll
    for (int o = 0; o < 2; o++) {
        below[o] = c.i > 0 ? values[o].four(c.i - 1, c.j, c.q) : none();
        here[o] = values[o].four(c.i, c.j, c.q);
    }
    for (; c.i < c.last; c.i++) {
#pragma unroll
        for (int o = 0; o < 2; o++) above[o] = c.i + 1 < c.n ? values[o].four(c.i + 1, c.j, c.q) : none();
#pragma unroll
        for (int o = 0; o < 2; o++)
            use(1 - o, c.at(), here[1 - o], below[o] + above[o] + beside(values[o], c.n, c.i, c.j, c.q, 1 - o, here[o]));
#pragma unroll
        for (int o = 0; o < 2; o++) {
            below[o] = here[o];
            here[o] = above[o];
        }
    }
}

// Adds the sums of all threads to a number in global memory.
__device__ void reduce(float own, double *sum) {
    __shared__ double warps[THREADS / 32];
    double all = own;
    for (int d = 16; d > 0; d /= 2) all += __shfl_down_sync(~0u, all, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = all;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / 32; w++) all += warps[w];
    atomicAdd(sum, all);
}

__device__ int half(int n) { return n * n * n / 2; }

// The first sweep of a grid of zeros. Its red cells would be r / 6, which nobody reads, since the next sweep replaces them.
extern "C" __global__ void __launch_bounds__(THREADS) mg_first(const float *__restrict__ r, float *__restrict__ z, int n, int planes) {
    const float4 *black = (const float4 *)(r + half(n));
    float4 *out = (float4 *)(z + half(n));
    march(Column(n, planes), 1, Plain{r, n}, [=](int at, float4 near) { out[at] = (1.0f / 6) * (black[at] + (1.0f / 6) * near); });
}

// Half a sweep.
extern "C" __global__ void __launch_bounds__(THREADS) mg_smooth(const float *__restrict__ r, float *z, int n, int planes, int colour) {
    const float4 *own = (const float4 *)(r + colour * half(n));
    float4 *out = (float4 *)(z + colour * half(n));
    march(Column(n, planes), colour, Plain{z + (1 - colour) * half(n), n}, [=](int at, float4 near) { out[at] = (1.0f / 6) * (own[at] + near); });
}

// The same, and its part of r . z.
extern "C" __global__ void __launch_bounds__(THREADS) mg_smooth_dot(const float *__restrict__ r, float *z, int n, int planes, int colour, double *rz) {
    const float4 *own = (const float4 *)(r + colour * half(n));
    float4 *out = (float4 *)(z + colour * half(n));
    float sum = 0;
    march(Column(n, planes), colour, Plain{z + (1 - colour) * half(n), n}, [=, &sum](int at, float4 near) {
        float4 right = own[at], value = (1.0f / 6) * (right + near);
        out[at] = value;
        sum += dot(right, value);
    });
    reduce(sum, rz);
}

// The first half sweep after the coarser level, a grid of s^3 cells. It reads only red cells, so the black ones are not corrected.
extern "C" __global__ void __launch_bounds__(THREADS) mg_prolong(const float *__restrict__ r, float *z, const float *__restrict__ coarse, int n, int planes, int s) {
    const float4 *black = (const float4 *)(r + half(n));
    float4 *out = (float4 *)(z + half(n));
    march(Column(n, planes), 1, Prolonged{{z, n}, coarse, s}, [=](int at, float4 near) { out[at] = (1.0f / 6) * (black[at] + near); });
}

// Half of the sum of the residuals of eight cells, for the right-hand side of the coarser level. The sweep before it ended with the
// black cells, whose residual is zero; there is one red cell in each of the four rows of a coarse cell.
extern "C" __global__ void __launch_bounds__(THREADS) mg_restrict(const float *__restrict__ r, const float *__restrict__ z, float *__restrict__ coarse, int n, int s) {
    int thread = blockIdx.x * THREADS + threadIdx.x, width = n / 8, side = n / 2;
    int q = thread % width, j = thread / width % side, i = thread / (width * side);
    if (i >= side) return;
    Plain right = {r, n}, red = {z, n}, black = {z + half(n), n};
    float4 sum = none();
    for (int row = 0; row < 4; row++) {
        int fi = 2 * i + row / 2, fj = 2 * j + row % 2;
        float4 near = beside(black, n, fi, fj, q, 0, black.four(fi, fj, q));
        if (fi > 0) near = near + black.four(fi - 1, fj, q);
        if (fi + 1 < n) near = near + black.four(fi + 1, fj, q);
        sum = sum + right.four(fi, fj, q) + -6.0f * red.four(fi, fj, q) + near;
    }
    int colour = (i + j) % 2;
    float2 *even = (float2 *)(coarse + colour * half(s) + (i * s + j) * (s / 2)), *odd = (float2 *)(coarse + (1 - colour) * half(s) + (i * s + j) * (s / 2));
    even[q] = make_float2(0.5f * sum.x, 0.5f * sum.z);
    odd[q] = make_float2(0.5f * sum.y, 0.5f * sum.w);
}

// All sweeps of the coarsest level, at most 16^3 cells, by one thread block in shared memory, with a border of zeros.
extern "C" __global__ void __launch_bounds__(1024) mg_bottom(const float *__restrict__ r, float *__restrict__ z, int n) {
    const int SIDE = MOST + 2;
    __shared__ float shared[SIDE * SIDE * SIDE];
    for (int c = threadIdx.x; c < SIDE * SIDE * SIDE; c += 1024) shared[c] = 0;
    // Two cells of each colour: cell m of a colour is number 0 or 1024 further.
    int places[2][2];
    float right[2][2];
    for (int colour = 0; colour < 2; colour++)
        for (int c = 0; c < 2; c++) {
            int cell = threadIdx.x + c * 1024, m = cell % (n / 2), j = cell / (n / 2) % n, i = cell / (n / 2) / n;
            int k = 2 * m + (i + j + colour) % 2;
            places[colour][c] = i < n ? ((i + 1) * SIDE + j + 1) * SIDE + k + 1 : -1;
            right[colour][c] = i < n ? r[colour * half(n) + cell] : 0;
        }
    __syncthreads();
    for (int step = 0; step < 4 * BOTTOM; step++) {
        // Red first in the first sweeps, black first in the others.
        int colour = (step + step / (2 * BOTTOM)) % 2;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            int at = colour ? places[1][c] : places[0][c];
            if (at < 0) continue;
            float near = shared[at - 1] + shared[at + 1] + shared[at - SIDE] + shared[at + SIDE] + shared[at - SIDE * SIDE] + shared[at + SIDE * SIDE];
            shared[at] = (1.0f / 6) * ((colour ? right[1][c] : right[0][c]) + near);
        }
        __syncthreads();
    }
    for (int colour = 0; colour < 2; colour++)
        for (int c = 0; c < 2; c++)
            if (places[colour][c] >= 0) z[colour * half(n) + threadIdx.x + c * 1024] = shared[places[colour][c]];
}

extern "C" __global__ void mg_clear(double *sums, int count) {
    for (int c = threadIdx.x; c < count; c += THREADS) sums[c] = 0;
}

// Starts with a solution of zero; b . b.
extern "C" __global__ void __launch_bounds__(THREADS) mg_start(const float4 *__restrict__ b, float4 *__restrict__ r, float4 *__restrict__ x, float4 *__restrict__ p, int fours, double *sum) {
    float own = 0;
    for (int c = blockIdx.x * THREADS + threadIdx.x; c < fours; c += gridDim.x * THREADS) {
        float4 value = b[c];
        r[c] = value;
        x[c] = p[c] = none();
        own += dot(value, value);
    }
    reduce(own, sum);
}

// The next search direction, p = z + beta p, and p . A p. Neighbours are computed again, so that A p need not be stored.
extern "C" __global__ void __launch_bounds__(THREADS) mg_direct(const float *__restrict__ z, const float *__restrict__ old, float *__restrict__ p, int n, int planes, const double *rz, const double *before, double *pap) {
    float beta = before ? (float)(*rz / *before) : 0, sum = 0;
    const Turned values[2] = {{{z, n}, {old, n}, beta}, {{z + half(n), n}, {old + half(n), n}, beta}};
    march_both(Column(n, planes), values, [=, &sum](int colour, int at, float4 own, float4 near) {
        ((float4 *)(p + colour * half(n)))[at] = own;
        sum += 6 * dot(own, own) - dot(own, near);
    });
    reduce(sum, pap);
}

// A step along p, and r . r.
extern "C" __global__ void __launch_bounds__(THREADS) mg_step(const float *__restrict__ p, float *__restrict__ x, float *__restrict__ r, int n, int planes, const double *rz, const double *pap, double *left) {
    float alpha = *rz / *pap, sum = 0;
    const Plain values[2] = {{p, n}, {p + half(n), n}};
    march_both(Column(n, planes), values, [=, &sum](int colour, int at, float4 own, float4 near) {
        float4 *xs = (float4 *)(x + colour * half(n)), *rs = (float4 *)(r + colour * half(n));
        xs[at] = xs[at] + alpha * own;
        float4 rest = rs[at] + -alpha * (6.0f * own + -1.0f * near);
        rs[at] = rest;
        sum += dot(rest, rest);
    });
    reduce(sum, left);
}
// ANCHOR_END: mgpcg
