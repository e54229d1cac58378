// Hand-written kernels that GPU benchmarks are compared with. `reference.ptx` is made of it by NVRTC for compute capability 8.0:
//   nvrtc --gpu-architecture=compute_80 --use_fast_math reference.cu, with `.version 8.1` for older drivers

typedef unsigned long long u64;

// Read bandwidth: the kernel does nothing else.
extern "C" __global__ void read_all(const float4 *x, float *out, u64 n) {
    float sum = 0.0f;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * step) {
        float4 a = x[i];
        float4 b = i + step < n ? x[i + step] : make_float4(0, 0, 0, 0);
        float4 c = i + 2 * step < n ? x[i + 2 * step] : make_float4(0, 0, 0, 0);
        float4 d = i + 3 * step < n ? x[i + 3 * step] : make_float4(0, 0, 0, 0);
        sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w)) + ((c.x + c.y) + (c.z + c.w)) + ((d.x + d.y) + (d.z + d.w));
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

// All pairs: each block loads tiles of 256 bodies into shared memory.
extern "C" __global__ void gravity(const float *x, const float *y, const float *z, float *u, float *v, float *w, u64 n) {
    __shared__ float4 tile[256];
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    float mx = x[i], my = y[i], mz = z[i], ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (u64 first = 0; first < n; first += 256) {
        u64 k = first + threadIdx.x;
        tile[threadIdx.x] = make_float4(x[k], y[k], z[k], 0.0f);
        __syncthreads();
#pragma unroll 32
        for (int j = 0; j < 256; j++) {
            float4 q = tile[j];
            float dx = q.x - mx, dy = q.y - my, dz = q.z - mz;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
            float s = r * r * r;
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
        __syncthreads();
    }
    u[i] += ax * 1e-5f;
    v[i] += ay * 1e-5f;
    w[i] += az * 1e-5f;
}
