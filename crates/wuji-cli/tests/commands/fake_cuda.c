/* A CUDA driver without a device, for tests: memory is the host's, streams do everything at once, and the one kernel that
 * it knows is the `saxpy` of `wuji doctor --gpu-check`.
 *
 * FAKE_CUDA=name=code makes a function fail with an error of the driver; devices=0 hides the device, memory=N gives it N
 * MiB, busy=1 has a stream that is not ready at once, nonsense=1 an assembler that refuses everything. Commas separate. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int CUresult;
typedef uint64_t Address;
typedef void *Handle;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700
};

#define GRANULE (2ull << 20)
static uint64_t used = 2 << 20;
/* What a kernel has done, which is told later and for good. */
static CUresult fault = SUCCESS;
static _Thread_local Handle current;
static int the_context, the_stream, the_function;

/* What the environment says of a name; the default otherwise. */
static int told(const char *name, int otherwise) {
    const char *all = getenv("FAKE_CUDA");
    size_t length = strlen(name);
    while (all && *all) {
        if (strncmp(all, name, length) == 0 && all[length] == '=')
            return atoi(all + length + 1);
        all = strchr(all, ',');
        all = all ? all + 1 : NULL;
    }
    return otherwise;
}

#define TOTAL ((uint64_t)told("memory", 256) << 20)

#define TELL \
    do { \
        int code_ = told(__func__, SUCCESS); \
        if (code_) \
            return code_; \
    } while (0)
/* Calls that need a context, and fail after a fault. */
#define BEGIN \
    do { \
        TELL; \
        if (!current) \
            return INVALID_CONTEXT; \
        if (fault) \
            return fault; \
    } while (0)

CUresult cuInit(unsigned flags) {
    TELL;
    return flags ? INVALID_VALUE : told("devices", 1) ? SUCCESS : NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
    *version = 12040;
    return SUCCESS;
}

static const struct {
    CUresult code;
    const char *name, *text;
} ERRORS[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

CUresult cuGetErrorName(CUresult code, const char **text) {
    *text = NULL;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code)
            *text = ERRORS[i].name;
    return *text ? SUCCESS : INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
    *text = NULL;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code)
            *text = ERRORS[i].text;
    return *text ? SUCCESS : INVALID_VALUE;
}

/* Devices and contexts. */

CUresult cuDeviceGetCount(int *count) {
    TELL;
    *count = told("devices", 1);
    return SUCCESS;
}

CUresult cuDeviceGet(int *device, int ordinal) {
    TELL;
    *device = ordinal;
    return SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "Imaginary GPU");
    return SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = TOTAL;
    return SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 10: *value = 32; break;
    case 13: *value = 1500000; break;
    case 16: *value = 4; break;
    case 38: *value = 1 << 20; break;
    case 39: *value = 2048; break;
    case 75: *value = 7; break;
    case 76: *value = 0; break;
    case 81: *value = 98304; break;
    case 82: *value = 65536; break;
    case 97: *value = 98304; break;
    case 102: *value = 1; break;
    case 106: *value = 32; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(Handle *context, int device) {
    TELL;
    (void)device;
    *context = &the_context;
    return SUCCESS;
}

CUresult cuCtxGetCurrent(Handle *context) {
    *context = current;
    return SUCCESS;
}

CUresult cuCtxSetCurrent(Handle context) {
    current = context;
    return SUCCESS;
}

CUresult cuCtxSetLimit(int limit, size_t value) {
    (void)limit;
    (void)value;
    return 0;
}

CUresult cuCtxSynchronize(void) {
    BEGIN;
    return SUCCESS;
}

/* Memory. In front of each allocation is its size. */

CUresult cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = TOTAL - used;
    *total = TOTAL;
    return current ? SUCCESS : INVALID_CONTEXT;
}

CUresult cuMemAlloc_v2(Address *at, size_t bytes) {
    BEGIN;
    if (bytes > TOTAL - used)
        return OUT_OF_MEMORY;
    size_t *start = malloc(bytes + 64);
    if (!start)
        return OUT_OF_MEMORY;
    *start = bytes;
    used += bytes;
    *at = (Address)start + 64;
    return SUCCESS;
}

CUresult cuMemFree_v2(Address at) {
    BEGIN;
    size_t *start = (size_t *)(at - 64);
    used -= *start;
    free(start);
    return SUCCESS;
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    BEGIN;
    (void)flags;
    *at = malloc(bytes);
    return *at ? SUCCESS : OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *at) {
    BEGIN;
    free(at);
    return SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(Address *device, void *host, unsigned flags) {
    BEGIN;
    (void)flags;
    *device = (Address)host;
    return SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const int *properties, int option) {
    TELL;
    (void)option;
    *bytes = GRANULE;
    return properties[0] == 1 && properties[2] == 1 ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemAddressReserve(Address *at, size_t bytes, size_t alignment, Address wish, uint64_t flags) {
    BEGIN;
    (void)alignment, (void)wish, (void)flags;
    void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes % GRANULE || start == MAP_FAILED)
        return INVALID_VALUE;
    *at = (Address)start;
    return SUCCESS;
}

CUresult cuMemAddressFree(Address at, size_t bytes) {
    BEGIN;
    return munmap((void *)at, bytes) ? INVALID_VALUE : SUCCESS;
}

/* A handle is a size with a bit in front, and counts as used until its mapping is gone. */
CUresult cuMemCreate(uint64_t *memory, size_t bytes, const int *properties, uint64_t flags) {
    BEGIN;
    (void)flags;
    if (bytes % GRANULE || properties[0] != 1 || properties[2] != 1)
        return INVALID_VALUE;
    if (bytes > TOTAL - used)
        return OUT_OF_MEMORY;
    used += bytes;
    *memory = 1ull << 63 | bytes;
    return SUCCESS;
}

CUresult cuMemRelease(uint64_t memory) {
    TELL;
    return memory >> 63 ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemMap(Address at, size_t bytes, size_t offset, uint64_t memory, uint64_t flags) {
    TELL;
    (void)at, (void)flags;
    return memory == (1ull << 63 | bytes) && !offset ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemSetAccess(Address at, size_t bytes, const int *access, size_t count) {
    TELL;
    if (count != 1 || access[0] != 1 || access[2] != 3)
        return INVALID_VALUE;
    if (mprotect((void *)at, bytes, PROT_READ | PROT_WRITE))
        return INVALID_VALUE;
    memset((void *)at, 0xee, bytes);
    return SUCCESS;
}

CUresult cuMemUnmap(Address at, size_t bytes) {
    TELL;
    used -= bytes;
    void *start = mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return start == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

/* Code. A module is a copy of its text. */

static CUresult assemble(const char *text, unsigned count, const int *options, void **values) {
    if (!strstr(text, "nonsense") && !told("nonsense", 0))
        return SUCCESS;
    for (unsigned i = 0; i + 1 < count; i++)
        if (options[i] == 5 && options[i + 1] == 6)
            snprintf(values[i], (size_t)values[i + 1], "ptxas fatal : Not a name of any known instruction: 'nonsense'\n");
    return INVALID_PTX;
}

CUresult cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, const int *options, void **values) {
    BEGIN;
    const char *text = image;
    CUresult code = assemble(text, count, options, values);
    if (code)
        return code;
    *module = strdup(text);
    return SUCCESS;
}

CUresult cuModuleUnload(Handle module) {
    BEGIN;
    free(module);
    return SUCCESS;
}

CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    BEGIN;
    if (strcmp(name, "saxpy") || !strstr(module, "saxpy"))
        return NOT_FOUND;
    *function = &the_function;
    return SUCCESS;
}

struct Link {
    unsigned count;
    const int *options;
    void **values;
    char *code;
};

CUresult cuLinkCreate_v2(unsigned count, const int *options, void **values, struct Link **link) {
    BEGIN;
    *link = calloc(1, sizeof **link);
    (*link)->count = count;
    (*link)->options = options;
    (*link)->values = values;
    return SUCCESS;
}

CUresult cuLinkAddData_v2(struct Link *link, int kind, const void *data, size_t bytes, const char *name, unsigned count,
                          const int *options, void **values) {
    BEGIN;
    (void)name, (void)count, (void)options, (void)values;
    const char *text = data;
    if (kind != 1 || text[bytes - 1])
        return INVALID_VALUE;
    CUresult code = assemble(text, link->count, link->options, link->values);
    if (code)
        return code;
    link->code = malloc(bytes + 4);
    memcpy(link->code, "\x7f" "ELF", 4);
    memcpy(link->code + 4, text, bytes);
    return SUCCESS;
}

CUresult cuLinkComplete(struct Link *link, void **code, size_t *bytes) {
    BEGIN;
    *code = link->code;
    *bytes = strlen(link->code) + 1;
    return SUCCESS;
}

CUresult cuLinkDestroy(struct Link *link) {
    if (!link)
        return INVALID_VALUE;
    free(link->code);
    free(link);
    return SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, Handle function) {
    BEGIN;
    (void)function;
    *value = attribute == 0 ? 1024 : attribute == 4 ? 10 : 0;
    return SUCCESS;
}

CUresult cuFuncSetAttribute(Handle function, int attribute, int value) {
    BEGIN;
    (void)function;
    return attribute == 8 && value <= 98304 ? SUCCESS : INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle function, int threads, size_t shared) {
    BEGIN;
    (void)function, (void)shared;
    *blocks = 2048 / threads;
    return SUCCESS;
}

/* Streams and graphs: work is done at once, or noted while it is captured. */

struct Work {
    enum { SAXPY, FILL } kind;
    Address to, from;
    float factor;
    uint32_t word;
    size_t count;
};

struct Graph {
    size_t length, room;
    struct Work *work;
};

static struct Graph *capture;

static CUresult run(const struct Work *work) {
    if (work->to < 4096) {
        fault = ILLEGAL_ADDRESS;
        return SUCCESS;
    }
    for (size_t i = 0; i < work->count; i++)
        if (work->kind == SAXPY)
            ((float *)work->to)[i] += work->factor * ((float *)work->from)[i];
        else
            ((uint32_t *)work->to)[i] = work->word;
    return SUCCESS;
}

static CUresult enqueue(struct Work work) {
    if (!capture)
        return run(&work);
    if (capture->length == capture->room) {
        capture->room = capture->room * 2 + 16;
        capture->work = realloc(capture->work, capture->room * sizeof work);
    }
    capture->work[capture->length++] = work;
    return SUCCESS;
}

CUresult cuStreamCreate(Handle *stream, unsigned flags) {
    BEGIN;
    *stream = &the_stream;
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}

CUresult cuStreamDestroy_v2(Handle stream) {
    BEGIN;
    return stream == &the_stream ? SUCCESS : INVALID_VALUE;
}

CUresult cuStreamSynchronize(Handle stream) {
    BEGIN;
    return stream == &the_stream && !capture ? SUCCESS : INVALID_VALUE;
}

CUresult cuStreamQuery(Handle stream) {
    static int asked;
    BEGIN;
    (void)stream;
    /* The first time it is not ready, for those who ask for that. */
    return told("busy", 0) && !asked++ ? NOT_READY : SUCCESS;
}

CUresult cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
    BEGIN;
    (void)flags;
    return stream && event ? SUCCESS : INVALID_VALUE;
}

CUresult cuEventCreate(Handle *event, unsigned flags) {
    static double time;
    BEGIN;
    (void)flags;
    double *made = malloc(sizeof *made);
    *made = time += 1;
    *event = made;
    return SUCCESS;
}

CUresult cuEventDestroy_v2(Handle event) {
    BEGIN;
    free(event);
    return SUCCESS;
}

CUresult cuEventRecord(Handle event, Handle stream) {
    BEGIN;
    return event && stream ? SUCCESS : INVALID_VALUE;
}

CUresult cuEventQuery(Handle event) {
    BEGIN;
    return event ? SUCCESS : INVALID_VALUE;
}

CUresult cuEventSynchronize(Handle event) {
    BEGIN;
    return event ? SUCCESS : INVALID_VALUE;
}

CUresult cuEventElapsedTime(float *time, double *from, double *to) {
    BEGIN;
    *time = (float)(*to - *from);
    return SUCCESS;
}

CUresult cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, Handle stream, void **parameters, void **extra) {
    BEGIN;
    (void)shared, (void)stream;
    uint32_t count = *(uint32_t *)parameters[3];
    if (function != &the_function || extra || gy * gz * by * bz != 1 || (uint64_t)gx * bx < count)
        return INVALID_VALUE;
    return enqueue((struct Work){SAXPY, *(Address *)parameters[0], *(Address *)parameters[1], *(float *)parameters[2], 0, count});
}

CUresult cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Handle stream) {
    BEGIN;
    (void)stream;
    memcpy((void *)to, from, bytes);
    return SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Handle stream) {
    BEGIN;
    (void)stream;
    memcpy(to, (void *)from, bytes);
    return SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Handle stream) {
    BEGIN;
    (void)stream;
    memcpy((void *)to, (void *)from, bytes);
    return SUCCESS;
}

struct Side {
    size_t x, y;
    unsigned kind;
    void *host;
    Address device;
    void *array;
    size_t pitch;
};

struct Copy {
    struct Side from, to;
    size_t width, height;
};

CUresult cuMemcpy2DAsync_v2(const struct Copy *copy, Handle stream) {
    BEGIN;
    (void)stream;
    char *from = copy->from.kind == 1 ? copy->from.host : (char *)copy->from.device;
    char *to = copy->to.kind == 1 ? copy->to.host : (char *)copy->to.device;
    for (size_t row = 0; row < copy->height; row++)
        memcpy(to + row * copy->to.pitch, from + row * copy->from.pitch, copy->width);
    return SUCCESS;
}

CUresult cuMemsetD8Async(Address at, unsigned char byte, size_t count, Handle stream) {
    BEGIN;
    (void)stream;
    memset((void *)at, byte, count);
    return SUCCESS;
}

CUresult cuMemsetD32Async(Address at, unsigned word, size_t count, Handle stream) {
    BEGIN;
    (void)stream;
    return enqueue((struct Work){FILL, at, 0, 0, word, count});
}

CUresult cuStreamBeginCapture_v2(Handle stream, int mode) {
    BEGIN;
    (void)stream, (void)mode;
    capture = calloc(1, sizeof *capture);
    return SUCCESS;
}

CUresult cuStreamEndCapture(Handle stream, struct Graph **graph) {
    BEGIN;
    (void)stream;
    *graph = capture;
    capture = NULL;
    return SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(struct Graph **made, const struct Graph *graph, uint64_t flags) {
    BEGIN;
    (void)flags;
    struct Graph *copy = calloc(1, sizeof *copy);
    copy->length = graph->length;
    copy->work = malloc(graph->length * sizeof *graph->work + 1);
    if (graph->length)
        memcpy(copy->work, graph->work, graph->length * sizeof *graph->work);
    *made = copy;
    return SUCCESS;
}

static CUresult discard(struct Graph *graph) {
    free(graph->work);
    free(graph);
    return SUCCESS;
}

CUresult cuGraphDestroy(struct Graph *graph) {
    BEGIN;
    return discard(graph);
}

CUresult cuGraphExecDestroy(struct Graph *graph) {
    BEGIN;
    return discard(graph);
}

CUresult cuGraphLaunch(struct Graph *graph, Handle stream) {
    BEGIN;
    (void)stream;
    for (size_t i = 0; i < graph->length; i++)
        run(&graph->work[i]);
    return SUCCESS;
}
