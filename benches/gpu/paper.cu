// The elasticity operator and the sparse convolution of the sparse paper by hand. `paper.ptx` is made of it by NVRTC for compute
// capability 8.0:
//   nvrtc --gpu-architecture=compute_80 --use_fast_math paper.cu, with `.version 8.1` for older drivers

typedef unsigned int u32;
typedef unsigned long long u64;

// ANCHOR: fem
// Integrals of products of the two hat functions and their derivatives, and of derivatives of corners over a cell.
__device__ constexpr float product(bool da, bool db, int a, int b) {
    return da ? (2 * a - 1) * (db ? 2 * b - 1 : 0.5f) : db ? (2 * b - 1) * 0.5f : a == b ? 1.0f / 3 : 1.0f / 6;
}

__device__ constexpr float overlap(int a, int b, int i, int j) {
    return product(i == 0, j == 0, a & 1, b & 1) * product(i == 1, j == 1, a >> 1 & 1, b >> 1 & 1) * product(i == 2, j == 2, a >> 2, b >> 2);
}

// The stiffness between two corners: rows 0 to 2 for the first Lame parameter, 3 to 5 for the second.
__device__ constexpr float stiffness(int a, int b, int row, int j) {
    return row < 3 ? overlap(a, b, row, j)
                   : overlap(a, b, j, row - 3) + (row - 3 == j ? overlap(a, b, 0, 0) + overlap(a, b, 1, 1) + overlap(a, b, 2, 2) : 0.0f);
}

const int SIDE = 10, PAD = SIDE * SIDE * SIDE, COLUMN = 2;

// A thread block has a block of 8^3 nodes with its surroundings in shared memory: u.x, u.y, u.z, lambda and mu, 512 floats of each in
// global memory. A thread has two nodes of a column; the stiffness is in the instructions. `near` has the numbers of the 27 blocks
// around each block, zero for none.
extern "C" __global__ void __launch_bounds__(256, 3) fem(const float *__restrict__ blocks, const u32 *__restrict__ near, float *__restrict__ forces) {
    __shared__ float pad[5 * PAD];
    u32 block = blockIdx.x, thread = threadIdx.x;
    for (int c = thread; c < PAD; c += 256) {
        int i = c / (SIDE * SIDE), j = c / SIDE % SIDE, k = c % SIDE;
        u32 from = near[block * 27 + (i + 7) / 8 * 9 + (j + 7) / 8 * 3 + (k + 7) / 8];
        int cell = ((i + 7) % 8 * 8 + (j + 7) % 8) * 8 + (k + 7) % 8;
        for (int f = 0; f < 5; f++)
            pad[f * PAD + c] = from ? blocks[(u64)(from - 1) * 2560 + f * 512 + cell] : 0.0f;
    }
    __syncthreads();
    int first = thread / 64 * COLUMN, j = thread / 8 % 8, k = thread % 8;
    float force[COLUMN][3] = {};
#pragma unroll
    for (int a = 0; a < 8; a++) {
        int cell = ((first + 1 - (a & 1)) * SIDE + j + 1 - (a >> 1 & 1)) * SIDE + k + 1 - (a >> 2);
        float sums[COLUMN][6] = {};
#pragma unroll
        for (int b = 0; b < 8; b++) {
            int node = cell + ((b & 1) * SIDE + (b >> 1 & 1)) * SIDE + (b >> 2);
#pragma unroll
            for (int n = 0; n < COLUMN; n++) {
                // Volatile, so that it is loaded again for every cell: all 27 nodes at once would take every register.
                const volatile float *u = pad + node + n * SIDE * SIDE;
                float x = u[0], y = u[PAD], z = u[2 * PAD];
#pragma unroll
                for (int row = 0; row < 6; row++)
                    sums[n][row] += stiffness(a, b, row, 0) * x + stiffness(a, b, row, 1) * y + stiffness(a, b, row, 2) * z;
            }
        }
#pragma unroll
        for (int n = 0; n < COLUMN; n++) {
            const float *material = pad + 3 * PAD + cell + n * SIDE * SIDE;
#pragma unroll
            for (int d = 0; d < 3; d++) force[n][d] += sums[n][d] * material[0] + sums[n][3 + d] * material[PAD];
        }
    }
#pragma unroll
    for (int n = 0; n < COLUMN; n++)
        for (int d = 0; d < 3; d++)
            forces[(u64)block * 1536 + d * 512 + ((first + n) * 8 + j) * 8 + k] = force[n][d];
}
// ANCHOR_END: fem

// ANCHOR: conv
// A thread has two voxels and eight of their sixteen output channels; the weights are in shared memory. `rows` has the row of each
// voxel of a block of 4^3, zero for none, `near` the numbers of the 27 blocks around each block, and `voxels` the block and the cell
// of each row. Row 0 of the input is zero.
extern "C" __global__ void __launch_bounds__(256) conv(const float4 *__restrict__ input, const float4 *__restrict__ weights,
                                                       const u32 *__restrict__ rows, const u32 *__restrict__ near,
                                                       const uint2 *__restrict__ voxels, float4 *__restrict__ output, u64 count) {
    __shared__ float4 shared[27 * 16 * 4];
    for (int w = threadIdx.x; w < 27 * 16 * 4; w += 256) shared[w] = weights[w];
    __syncthreads();
    u32 half = threadIdx.x % 2;
    for (u64 pair = (u64)blockIdx.x * 128 + threadIdx.x / 2; 2 * pair + 1 < count; pair += (u64)gridDim.x * 128) {
        // Rows 2 pair + 1 and 2 pair + 2.
        float sums[2][8] = {};
        uint2 at[2];
        for (int v = 0; v < 2; v++) at[v] = 2 * pair + 1 + v < count ? voxels[2 * pair + 1 + v] : make_uint2(0, 0);
        for (int tap = 0; tap < 27; tap++) {
            u32 row[2];
#pragma unroll
            for (int v = 0; v < 2; v++) {
                int i = at[v].y / 16 + tap / 9 + 3, j = at[v].y / 4 % 4 + tap / 3 % 3 + 3, k = at[v].y % 4 + tap % 3 + 3;
                u32 block = near[at[v].x * 27 + i / 4 * 9 + j / 4 * 3 + k / 4];
                row[v] = rows[block * 64 + (i % 4 * 4 + j % 4) * 4 + k % 4];
            }
            if (row[0] == 0 && row[1] == 0) continue;
#pragma unroll
            for (int q = 0; q < 4; q++) {
                float4 first = input[(u64)row[0] * 4 + q], second = input[(u64)row[1] * 4 + q];
                const float x[2][4] = {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
#pragma unroll
                for (int m = 0; m < 4; m++) {
                    const float4 *w = shared + (tap * 16 + q * 4 + m) * 4 + half * 2;
                    const float c[8] = {w[0].x, w[0].y, w[0].z, w[0].w, w[1].x, w[1].y, w[1].z, w[1].w};
#pragma unroll
                    for (int o = 0; o < 8; o++) {
                        sums[0][o] += x[0][m] * c[o];
                        sums[1][o] += x[1][m] * c[o];
                    }
                }
            }
        }
#pragma unroll
        for (int v = 0; v < 2; v++) {
            if (2 * pair + 1 + v >= count) continue;
            float4 *out = output + (2 * pair + 1 + v) * 4 + half * 2;
            out[0] = make_float4(sums[v][0], sums[v][1], sums[v][2], sums[v][3]);
            out[1] = make_float4(sums[v][4], sums[v][5], sums[v][6], sums[v][7]);
        }
    }
}
// ANCHOR_END: conv
