// MLS-MPM of an elastic body by hand: particles sorted by block and cell, a scratchpad in shared memory for each block of the grid.
// `mpm.ptx` is made of it by NVRTC for compute capability 8.0:
//   nvrtc --gpu-architecture=compute_80 --use_fast_math mpm.cu, with `.version 8.1` for older drivers

typedef unsigned int u32;

// ANCHOR: mpm
// Nodes of a block and of the scratchpad along each axis: particles reach two nodes beyond the block of their lowest node.
const int BLOCK = 4, CELLS = BLOCK * BLOCK * BLOCK, REACH = BLOCK + 2, PAD = REACH * REACH * REACH;
const int THREADS = 256;
// Particles of a block that are sorted by cell together.
const int CHUNK = 2 * THREADS;
constexpr float YOUNG = 5e3f, POISSON = 0.3f, GRAVITY = 9.8f;
constexpr float MU = YOUNG / (2 * (1 + POISSON)), LAMBDA = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON));
const int WALL = 3;
// What `totals` counts.
const int OCCUPIED = 0, ACTIVE = 1, PARTICLES = 2, NEXT_SCATTER = 3, NEXT_GATHER = 4, TOTALS = 5;

__device__ int thread_number() { return blockIdx.x * THREADS + threadIdx.x; }

__device__ u32 lanes_below() { return (1u << threadIdx.x % 32) - 1; }

// The lowest of the three nodes around a position along an axis, in units of cells.
__device__ int lowest(float g, int n) { return min((int)fmaxf(g - 0.5f, 0.0f), n - 3); }

__device__ int in_grid(int i, int j, int k, int side) { return (i * side + j) * side + k; }

extern "C" __global__ void __launch_bounds__(THREADS) mpm_clear(u32 *__restrict__ counts, u32 *__restrict__ table, u32 *__restrict__ totals, int blocks) {
    int place = thread_number();
    if (place < blocks) counts[place] = table[place] = 0;
    if (place < TOTALS) totals[place] = 0;
}

// The block of each particle and its rank there. Lanes with the same block share one atomic.
extern "C" __global__ void __launch_bounds__(THREADS) mpm_count(const float4 *__restrict__ particles, u32 *counts, uint2 *__restrict__ homes, int count, int n) {
    int p = thread_number();
    u32 mask = __ballot_sync(~0u, p < count);
    if (p >= count) return;
    float4 x = particles[6 * p];
    int side = n / BLOCK;
    u32 home = in_grid(lowest(x.x * n, n) / BLOCK, lowest(x.y * n, n) / BLOCK, lowest(x.z * n, n) / BLOCK, side);
    u32 peers = __match_any_sync(mask, home);
    int leader = __ffs(peers) - 1;
    u32 first = 0;
    if (threadIdx.x % 32 == leader) first = atomicAdd(counts + home, __popc(peers));
    first = __shfl_sync(mask, first, leader);
    homes[p] = make_uint2(home, first + __popc(peers & lanes_below()));
}

// Reserves a range of the order for the particles of each occupied block, and a number for each of the eight blocks they reach.
extern "C" __global__ void __launch_bounds__(THREADS) mpm_blocks(const u32 *__restrict__ counts, u32 *table, u32 *__restrict__ begins, u32 *__restrict__ occupied, u32 *totals, int side) {
    int place = thread_number(), lane = threadIdx.x % 32;
    u32 many = place < side * side * side ? counts[place] : 0, sum = many, mask = __ballot_sync(~0u, many > 0);
    if (mask == 0) return;
    for (int d = 1; d < 32; d *= 2) {
        u32 before = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += before;
    }
    u32 start = 0, first = 0;
    if (lane == 31) {
        start = atomicAdd(totals + PARTICLES, sum);
        first = atomicAdd(totals + OCCUPIED, __popc(mask));
    }
    start = __shfl_sync(~0u, start, 31);
    first = __shfl_sync(~0u, first, 31);
    if (many == 0) return;
    begins[place] = start + sum - many;
    occupied[first + __popc(mask & lanes_below())] = place;
    for (int o = 0; o < 8; o++) {
        int i = place / (side * side) + (o >> 2), j = place / side % side + (o >> 1 & 1), k = place % side + (o & 1);
        if (i >= side || j >= side || k >= side) continue;
        int near = in_grid(i, j, k, side);
        if (atomicCAS(table + near, 0u, 1u) == 0) table[near] = 1 + atomicAdd(totals + ACTIVE, 1u);
    }
}

// Particle numbers by block, and zeros in the active nodes.
extern "C" __global__ void __launch_bounds__(THREADS) mpm_order(const uint2 *__restrict__ homes, const u32 *__restrict__ begins, u32 *__restrict__ order, float4 *__restrict__ nodes, const u32 *__restrict__ totals, int count) {
    int all = gridDim.x * THREADS, last = totals[ACTIVE] * CELLS;
    for (int p = thread_number(); p < count; p += all) {
        uint2 home = homes[p];
        order[begins[home.x] + home.y] = p;
    }
    for (int at = thread_number(); at < last; at += all) nodes[at] = make_float4(0, 0, 0, 0);
}

// Cofactors and determinant.
__device__ float cofactors(const float *m, float *out) {
#pragma unroll
    for (int e = 0; e < 9; e++) {
        int r = e / 3, c = e % 3, r1 = (r + 1) % 3 * 3, r2 = (r + 2) % 3 * 3, c1 = (c + 1) % 3, c2 = (c + 2) % 3;
        out[e] = m[r1 + c1] * m[r2 + c2] - m[r1 + c2] * m[r2 + c1];
    }
    return m[0] * out[0] + m[1] * out[1] + m[2] * out[2];
}

// Kirchhoff stress of fixed corotated elasticity. The rotation is found by Newton's method: the mean of a matrix and its inverse
// transpose.
__device__ void stress(const float *f, float *out) {
    float r[9], inverse[9];
    float j = cofactors(f, inverse);
    for (int e = 0; e < 9; e++) r[e] = 0.5f * f[e] + 0.5f / j * inverse[e];
    for (int step = 1; step < 6; step++) {
        float scale = 0.5f / cofactors(r, inverse);
#pragma unroll
        for (int e = 0; e < 9; e++) r[e] = 0.5f * r[e] + scale * inverse[e];
    }
#pragma unroll
    for (int e = 0; e < 9; e++) {
        int a = e / 3 * 3, b = e % 3 * 3;
        out[e] = 2 * MU * ((f[a] - r[a]) * f[b] + (f[a + 1] - r[a + 1]) * f[b + 1] + (f[a + 2] - r[a + 2]) * f[b + 2]);
    }
    for (int d = 0; d < 9; d += 4) out[d] += LAMBDA * (j - 1) * j;
}

// Updates the deformation of a particle. `out` is its momentum at the lowest node, without weights, then the change of the momentum
// from node to node along each axis, with the position relative to the lowest node in the last components.
__device__ void deform(float4 *q, float4 *out, int n, float dt) {
    float4 a = q[0], b = q[1], d = q[2], e = q[3], g = q[4], h = q[5];
    const float c[9] = {b.z, b.w, d.x, d.y, d.z, d.w, e.x, e.y, e.z};
    const float f[9] = {e.w, g.x, g.y, g.z, g.w, h.x, h.y, h.z, h.w};
    float turned[9], affine[9];
#pragma unroll
    for (int m = 0; m < 9; m++)
        turned[m] = f[m] + dt * (c[m / 3 * 3] * f[m % 3] + c[m / 3 * 3 + 1] * f[3 + m % 3] + c[m / 3 * 3 + 2] * f[6 + m % 3]);
    q[3] = make_float4(c[6], c[7], c[8], turned[0]);
    q[4] = make_float4(turned[1], turned[2], turned[3], turned[4]);
    q[5] = make_float4(turned[5], turned[6], turned[7], turned[8]);
    stress(turned, affine);
    float volume = 0.125f / ((float)n * n * n);
#pragma unroll
    for (int m = 0; m < 9; m++) affine[m] = (c[m] / n - 4 * dt * n * affine[m]) * volume;
    float x = a.x * n - lowest(a.x * n, n), y = a.y * n - lowest(a.y * n, n), z = a.z * n - lowest(a.z * n, n);
    out[0] = make_float4(volume * a.w - affine[0] * x - affine[1] * y - affine[2] * z, volume * b.x - affine[3] * x - affine[4] * y - affine[5] * z,
                         volume * b.y - affine[6] * x - affine[7] * y - affine[8] * z, volume);
    out[1] = make_float4(affine[0], affine[3], affine[6], x);
    out[2] = make_float4(affine[1], affine[4], affine[7], y);
    out[3] = make_float4(affine[2], affine[5], affine[8], z);
}

// The weight of one of the three nodes around a position along an axis.
__device__ float weight(float at, int node) {
    float away = at - 1.5f + node * 0.5f, square = away * away;
    return node == 1 ? 0.75f - square : 0.5f * square;
}

// Adds the particles of each cell to the scratchpad: a warp has a cell, a lane has one of its 27 nodes and sums in registers.
__device__ void scatter(const float4 *data, const u32 *starts, float *pad) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane >= 27) return;
    int i = lane / 9, j = lane / 3 % 3, k = lane % 3;
    float fi = i, fj = j, fk = k;
    for (int cell = warp; cell < CELLS; cell += THREADS / 32) {
        u32 slot = starts[cell], last = starts[cell + 1];
        if (slot == last) continue;
        float mx = 0, my = 0, mz = 0, mass = 0;
        for (; slot < last; slot++) {
            float4 base = data[4 * slot], x = data[4 * slot + 1], y = data[4 * slot + 2], z = data[4 * slot + 3];
            float w = weight(x.w, i) * weight(y.w, j) * weight(z.w, k);
            mx += w * (base.x + x.x * fi + y.x * fj + z.x * fk);
            my += w * (base.y + x.y * fi + y.y * fj + z.y * fk);
            mz += w * (base.z + x.z * fi + y.z * fj + z.z * fk);
            mass += w * base.w;
        }
        float *to = pad + ((cell / 16 + i) * REACH + cell / 4 % 4 + j) * REACH + cell % 4 + k;
        atomicAdd(to, mx);
        atomicAdd(to + PAD, my);
        atomicAdd(to + 2 * PAD, mz);
        atomicAdd(to + 3 * PAD, mass);
    }
}

// Numbers of the eight blocks that the scratchpad of a block overlaps, plus one; zero for none.
__device__ void neighbours(const u32 *__restrict__ table, u32 place, int side, u32 *near) {
    int o = threadIdx.x;
    if (o >= 8) return;
    int i = place / (side * side) + (o >> 2), j = place / side % side + (o >> 1 & 1), k = place % side + (o & 1);
    near[o] = i < side && j < side && k < side ? table[in_grid(i, j, k, side)] : 0;
}

// The number of a node of the scratchpad in the grid.
__device__ int global_node(int node, const u32 *near) {
    int i = node / (REACH * REACH), j = node / REACH % REACH, k = node % REACH;
    u32 block = near[i / BLOCK * 4 + j / BLOCK * 2 + k / BLOCK];
    return (int)(block - 1) * CELLS + (i % BLOCK * BLOCK + j % BLOCK) * BLOCK + k % BLOCK;
}

// The first slot of each cell, from the counts of its particles: 64 numbers, by one warp.
__device__ void prefix(const u32 *counters, u32 *starts) {
    int lane = threadIdx.x;
    u32 a = counters[2 * lane], both = a + counters[2 * lane + 1], sum = both;
    for (int d = 1; d < 32; d *= 2) {
        u32 before = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += before;
    }
    starts[2 * lane] = sum - both;
    starts[2 * lane + 1] = sum - both + a;
    if (lane == 31) starts[CELLS] = sum;
}

// Particle to grid. A thread block takes blocks of the grid until there are none.
extern "C" __global__ void __launch_bounds__(THREADS, 3) mpm_p2g(float4 *particles, u32 *order, const u32 *__restrict__ begins, const u32 *__restrict__ counts, const u32 *__restrict__ occupied,
                                                                 const u32 *__restrict__ table, float *nodes, u32 *totals, int n, float dt) {
    __shared__ float4 data[4 * CHUNK];
    __shared__ float pad[4 * PAD];
    __shared__ u32 counters[CELLS], starts[CELLS + 1], near[8], work;
    int thread = threadIdx.x, side = n / BLOCK;
    for (;;) {
        if (thread == 0) work = atomicAdd(totals + NEXT_SCATTER, 1u);
        for (int f = thread; f < 4 * PAD; f += THREADS) pad[f] = 0;
        __syncthreads();
        if (work >= totals[OCCUPIED]) return;
        u32 place = occupied[work], begin = begins[place], end = begin + counts[place];
        neighbours(table, place, side, near);
        for (; begin < end; begin += CHUNK) {
            int many = min(end - begin, (u32)CHUNK);
            if (thread < CELLS) counters[thread] = 0;
            __syncthreads();
            u32 number[2], cell[2], rank[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (h * THREADS + thread >= many) continue;
                number[h] = order[begin + h * THREADS + thread];
                float4 x = particles[6 * number[h]];
                cell[h] = (lowest(x.x * n, n) % BLOCK * BLOCK + lowest(x.y * n, n) % BLOCK) * BLOCK + lowest(x.z * n, n) % BLOCK;
                rank[h] = atomicAdd(counters + cell[h], 1u);
            }
            __syncthreads();
            if (thread < 32) prefix(counters, starts);
            __syncthreads();
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (h * THREADS + thread >= many) continue;
                u32 slot = starts[cell[h]] + rank[h];
                deform(particles + 6 * number[h], data + 4 * slot, n, dt);
                order[begin + slot] = number[h];
            }
            __syncthreads();
            scatter(data, starts, pad);
            __syncthreads();
        }
        for (int f = thread; f < 4 * PAD; f += THREADS) {
            float value = pad[f % 4 * PAD + f / 4];
            if (value != 0) atomicAdd(nodes + 4 * global_node(f / 4, near) + f % 4, value);
        }
        __syncthreads();
    }
}

// The velocity of a node after gravity and boundary conditions.
__device__ float4 velocity(float4 node, int i, int j, int k, int n, float dt) {
    if (node.w <= 0) return make_float4(0, 0, 0, 0);
    float inverse = 1 / node.w, x = node.x * inverse, y = node.y * inverse - dt * GRAVITY, z = node.z * inverse;
    if (j < WALL && y < 0) x = y = z = 0;
    if ((i < WALL && x < 0) || (i + WALL > n && x > 0)) x = 0;
    if (j + WALL > n && y > 0) y = 0;
    if ((k < WALL && z < 0) || (k + WALL > n && z > 0)) z = 0;
    return make_float4(x, y, z, 0);
}

// Gathers the velocity around a particle and moves it.
__device__ void gather(float4 *q, const float4 *pad, int ci, int cj, int ck, int n, float dt) {
    float4 at = q[0];
    int bi = lowest(at.x * n, n), bj = lowest(at.y * n, n), bk = lowest(at.z * n, n);
    float x = at.x * n - bi, y = at.y * n - bj, z = at.z * n - bk;
    float v[3] = {}, c[9] = {};
    const float wz[3] = {weight(z, 0), weight(z, 1), weight(z, 2)};
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const float4 *row = pad + ((bi - ci + i) * REACH + bj - cj + j) * REACH + bk - ck;
            float w = weight(x, i) * weight(y, j), line[3] = {};
#pragma unroll
            for (int k = 0; k < 3; k++) {
                float4 node = row[k];
                const float u[3] = {w * wz[k] * node.x, w * wz[k] * node.y, w * wz[k] * node.z};
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    line[d] += u[d];
                    c[3 * d + 2] += u[d] * (k - z);
                }
            }
#pragma unroll
            for (int d = 0; d < 3; d++) {
                v[d] += line[d];
                c[3 * d] += line[d] * (i - x);
                c[3 * d + 1] += line[d] * (j - y);
            }
        }
    float scale = 4.0f * n;
    q[0] = make_float4(at.x + dt * v[0], at.y + dt * v[1], at.z + dt * v[2], v[0]);
    q[1] = make_float4(v[1], v[2], c[0] * scale, c[1] * scale);
    q[2] = make_float4(c[2] * scale, c[3] * scale, c[4] * scale, c[5] * scale);
    *(float2 *)(q + 3) = make_float2(c[6] * scale, c[7] * scale);
    ((float *)(q + 3))[2] = c[8] * scale;
}

// Grid to particle. The velocity of the nodes is computed while they are loaded.
extern "C" __global__ void __launch_bounds__(THREADS, 3) mpm_g2p(float4 *particles, const u32 *__restrict__ order, const u32 *__restrict__ begins, const u32 *__restrict__ counts, const u32 *__restrict__ occupied,
                                                                 const u32 *__restrict__ table, const float4 *__restrict__ nodes, u32 *totals, int n, float dt) {
    __shared__ float4 pad[PAD];
    __shared__ u32 near[8], work;
    int thread = threadIdx.x, side = n / BLOCK;
    for (;;) {
        if (thread == 0) work = atomicAdd(totals + NEXT_GATHER, 1u);
        __syncthreads();
        if (work >= totals[OCCUPIED]) return;
        u32 place = occupied[work], begin = begins[place], end = begin + counts[place];
        neighbours(table, place, side, near);
        __syncthreads();
        int ci = place / (side * side) * BLOCK, cj = place / side % side * BLOCK, ck = place % side * BLOCK;
        if (thread < PAD) {
            int i = thread / (REACH * REACH), j = thread / REACH % REACH, k = thread % REACH, node = global_node(thread, near);
            pad[thread] = node < 0 ? make_float4(0, 0, 0, 0) : velocity(nodes[node], ci + i, cj + j, ck + k, n, dt);
        }
        __syncthreads();
        for (u32 at = begin + thread; at < end; at += THREADS) gather(particles + 6 * order[at], pad, ci, cj, ck, n, dt);
        __syncthreads();
    }
}
// ANCHOR_END: mpm
