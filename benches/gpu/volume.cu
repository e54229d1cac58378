// Volumetric path tracing by hand: persistent threads, each of which starts the next path when its own ends. `volume.ptx` is made of
// it by NVRTC for compute capability 8.0:
//   nvrtc --gpu-architecture=compute_80 --use_fast_math volume.cu, with `.version 8.1` for older drivers

typedef unsigned int u32;

// ANCHOR: volume
const int THREADS = 128;
const int B = 8;

struct Volume {
    // The number of each block of densities; block 0 is empty.
    const u32 *__restrict__ table;
    const float *__restrict__ blocks;
    // Blocks along each axis.
    u32 ni, nj, nk;
    float resolution;
    float3 size;
};

__device__ float3 along(float3 a, float3 b, float t) { return make_float3(a.x + b.x * t, a.y + b.y * t, a.z + b.z * t); }

// xoroshiro64*, seeded with the number of a path, so that a picture does not depend on which thread traces it.
struct Random {
    u32 a, b;
    __device__ static u32 mix(u32 x) {
        x = (x ^ x >> 16) * 0x7feb352du;
        x = (x ^ x >> 15) * 0x846ca68bu;
        return x ^ x >> 16;
    }
    __device__ void seed(u32 path, u32 run) {
        a = mix(path ^ mix(run + 0x9e3779b9u));
        b = mix(a + path) | 1;
    }
    // In 0..1, without 1.
    __device__ float next() {
        u32 out = a * 0x9e3779bbu, c = a ^ b;
        a = (a << 26 | a >> 6) ^ c ^ c << 9;
        b = c << 13 | c >> 19;
        return (out >> 8) * (1.0f / 16777216.0f);
    }
};

__device__ float density(const Volume &v, float3 at) {
    u32 i = (int)(at.x * v.resolution), j = (int)(at.y * v.resolution), k = (int)(at.z * v.resolution);
    if (i / B >= v.ni || j / B >= v.nj || k / B >= v.nk) return 0;
    u32 block = v.table[(i / B * v.nj + j / B) * v.nk + k / B];
    return block ? __ldg(v.blocks + block * (B * B * B) + (i % B * B + j % B) * B + k % B) : 0;
}

struct Path {
    float3 origin, direction;
    float t, far, weight, light;
    // On the way to the lamp: the reciprocal of the squared distance; otherwise zero.
    float falloff;
    int bounces;
    u32 pixel;
    Random random;

    // Goes on in another direction, from the place where the ray enters the volume.
    __device__ void send(const Volume &v, float3 to) {
        direction = to;
        float ax = -origin.x / to.x, bx = (v.size.x - origin.x) / to.x, ay = -origin.y / to.y, by = (v.size.y - origin.y) / to.y;
        float az = -origin.z / to.z, bz = (v.size.z - origin.z) / to.z;
        t = fmaxf(fmaxf(fminf(ax, bx), fminf(ay, by)), fmaxf(fminf(az, bz), 0.0f));
        far = fminf(fminf(fmaxf(ax, bx), fmaxf(ay, by)), fmaxf(az, bz));
    }

    // Starts at the camera.
    __device__ void look(const Volume &v, u32 path, u32 side, u32 samples, u32 run) {
        random.seed(path, run);
        pixel = path / samples;
        float x = (pixel / side + random.next()) / side - 0.5f, y = (pixel % side + random.next()) / side - 0.5f;
        float scale = rsqrtf(0.49f * (x * x + y * y) + 1);
        origin = make_float3(v.size.x * 0.5f, v.size.y * 0.5f, -1.5f);
        send(v, make_float3(x * 0.7f * scale, y * 0.7f * scale, scale));
        weight = 1;
        light = falloff = 0;
        bounces = 0;
    }

    // The next possible collision: true if it is a real one or the end of the ray.
    __device__ bool advance(const Volume &v, float mean_free_path) {
        t -= __logf(1 - random.next()) * mean_free_path;
        if (t >= far) return true;
        float d = density(v, along(origin, direction, t));
        return d > 0 && random.next() < d;
    }

    // Scatters, looks at the lamp or returns from there: true at the end of the path.
    __device__ bool turn(const Volume &v, float albedo, float3 lamp, int limit) {
        bool out = t >= far;
        if (falloff > 0) {
            if (out) light += falloff * weight;
            falloff = 0;
            float z = random.next() * 2 - 1, r = sqrtf(fmaxf(1 - z * z, 0.0f)), sine, cosine;
            __sincosf(random.next() * 6.2831853f, &sine, &cosine);
            send(v, make_float3(r * cosine, r * sine, z));
            return bounces == limit;
        }
        if (out) return true;
        weight *= albedo;
        bounces++;
        origin = along(origin, direction, t);
        float3 way = along(lamp, origin, -1);
        float inverse = rsqrtf(way.x * way.x + way.y * way.y + way.z * way.z);
        send(v, make_float3(way.x * inverse, way.y * inverse, way.z * inverse));
        falloff = inverse * inverse;
        return false;
    }
};

extern "C" __global__ void volume_start(u32 *next) { *next = 0; }

// Adds `samples` paths to every pixel. Idle lanes of a warp take the next paths with one atomic.
extern "C" __global__ void __launch_bounds__(THREADS) volume(const u32 *__restrict__ table, const float *__restrict__ blocks, float *pixels, u32 *next, u32 ni, u32 nj, u32 nk, float resolution, u32 side,
                                                             u32 samples, int limit, u32 run, float extinction, float albedo, float lamp_x, float lamp_y, float lamp_z) {
    float scale = B / resolution;
    const Volume v = {table, blocks, ni, nj, nk, resolution, make_float3(ni * scale, nj * scale, nk * scale)};
    float3 lamp = make_float3(lamp_x, lamp_y, lamp_z);
    u32 total = side * side * samples, lane = threadIdx.x % 32;
    float mean_free_path = 1 / extinction;
    Path path;
    bool busy = false, left = true;
    for (;;) {
        u32 idle = __ballot_sync(~0u, !busy);
        if (idle && left) {
            u32 first = 0;
            if (lane == 0) first = atomicAdd(next, __popc(idle));
            first = __shfl_sync(~0u, first, 0);
            u32 number = first + __popc(idle & ((1u << lane) - 1));
            if (!busy && number < total) {
                path.look(v, number, side, samples, run);
                busy = true;
            }
            left = first + __popc(idle) < total;
        } else if (idle == ~0u) {
            return;
        }
        if (busy && path.advance(v, mean_free_path) && path.turn(v, albedo, lamp, limit)) {
            if (path.light > 0) atomicAdd(pixels + path.pixel, path.light);
            busy = false;
        }
    }
}
// ANCHOR_END: volume
