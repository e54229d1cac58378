/* A mock CUDA driver for tests. Device memory is host memory. Kernels are implemented below in C and found by name: the `saxpy`
 * of `wuji doctor --gpu-check`, and some for tests (`run_kernel`). All other kernels do nothing.
 *
 * FAKE_CUDA is a comma-separated list. `name=code` makes a function fail with a driver error; `devices=N` sets the number of
 * devices, `memory=N` the MiB of each, `paging=0` disables pages on demand, `nonsense=1` makes the assembler reject everything. Streams execute work immediately; with
 * `lazy=1` they execute it when the host synchronizes, and one item per query. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t Address;
typedef void *Handle;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CAPTURING = 900
};

#define GRANULE (2ull << 20)
static uint64_t used = 2 << 20;
/* The fault of a kernel: reported later, and permanently. */
static CUresult fault = SUCCESS;
static _Thread_local Handle current;
/* A context is the address of its device's entry here. */
static int contexts[8];

/* The value of a name in FAKE_CUDA, or the default. */
static int config(const char *name, int otherwise) {
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

static int device_now(void) { return (int)((int *)current - contexts); }

#define TOTAL ((uint64_t)config("memory", 256) << 20)

#define TELL \
    do { \
        int code_ = config(__func__, SUCCESS); \
        if (code_) \
            return code_; \
    } while (0)
/* Calls that require a context, and fail after a fault. */
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
    return flags ? INVALID_VALUE : config("devices", 1) ? SUCCESS : NO_DEVICE;
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
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CAPTURING, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
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
    *count = config("devices", 1);
    return SUCCESS;
}

CUresult cuDeviceGet(int *device, int ordinal) {
    TELL;
    *device = ordinal;
    return ordinal < config("devices", 1) ? SUCCESS : INVALID_DEVICE;
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
    case 89: *value = config("paging", 1); break;
    case 97: *value = 98304; break;
    case 102: *value = 1; break;
    case 106: *value = 32; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(Handle *context, int device) {
    TELL;
    *context = &contexts[device];
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
    BEGIN;
    (void)limit;
    (void)value;
    return 0;
}

static CUresult finish_all(void);

CUresult cuCtxSynchronize(void) {
    BEGIN;
    return finish_all();
}

/* Memory. Each allocation is preceded by its size and device. */

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
    start[0] = bytes;
    start[1] = (size_t)device_now();
    used += bytes;
    *at = (Address)start + 64;
    return SUCCESS;
}

/* Managed memory: the host allocates its pages on first access, too. They do not count as used. */
static struct Managed {
    struct Managed *next;
    void *start;
    size_t bytes;
} *managed;

CUresult cuMemAllocManaged(Address *at, size_t bytes, unsigned flags) {
    BEGIN;
    if (flags != 1 || !bytes || !config("paging", 1))
        return INVALID_VALUE;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return OUT_OF_MEMORY;
    struct Managed *made = malloc(sizeof *made);
    *made = (struct Managed){managed, start, bytes};
    managed = made;
    *at = (Address)start;
    return SUCCESS;
}

/* The managed memory that contains a range. */
static struct Managed **find_managed(Address at, size_t bytes) {
    struct Managed **m = &managed;
    while (*m && (at < (Address)(*m)->start || at + bytes > (Address)(*m)->start + (*m)->bytes))
        m = &(*m)->next;
    return m;
}

CUresult cuMemAdvise(Address at, size_t bytes, int advice, int device) {
    BEGIN;
    return *find_managed(at, bytes) && advice == 3 && device == device_now() ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(Address at, size_t bytes, int device, Handle stream) {
    BEGIN;
    (void)stream;
    return *find_managed(at, bytes) && device == device_now() ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemFree_v2(Address at) {
    BEGIN;
    finish_all();
    struct Managed **found = find_managed(at, 1);
    if (*found) {
        struct Managed *gone = *found;
        *found = gone->next;
        CUresult code = munmap(gone->start, gone->bytes) ? INVALID_VALUE : SUCCESS;
        free(gone);
        return code;
    }
    size_t *start = (size_t *)(at - 64);
    used -= *start;
    free(start);
    return SUCCESS;
}

/* Pinned host memory: read when the copy executes, not when it is enqueued. */
static struct Pinned {
    struct Pinned *next;
    char *start;
    size_t bytes;
} *pinned;

static int is_pinned(const void *at) {
    for (struct Pinned *p = pinned; p; p = p->next)
        if ((const char *)at >= p->start && (const char *)at < p->start + p->bytes)
            return 1;
    return 0;
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    BEGIN;
    (void)flags;
    struct Pinned *made = malloc(sizeof *made);
    *made = (struct Pinned){pinned, malloc(bytes), bytes};
    pinned = made;
    *at = made->start;
    return *at ? SUCCESS : OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *at) {
    BEGIN;
    finish_all();
    for (struct Pinned **p = &pinned; *p; p = &(*p)->next)
        if ((*p)->start == at) {
            struct Pinned *gone = *p;
            *p = gone->next;
            free(gone);
            break;
        }
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

/* A handle is a size with the top bit set. It counts as used until it is unmapped. */
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

/* Code. A module is a copy of its PTX. */

static CUresult assemble(const char *text, unsigned count, const int *options, void **values) {
    if (!strstr(text, "nonsense") && !config("nonsense", 0))
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

/* A kernel: its name, and the size of each parameter. */
struct Function {
    char name[128];
    size_t sizes[8], count;
};

CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    BEGIN;
    char entry[160];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *at = strstr(module, entry);
    if (!at)
        return NOT_FOUND;
    struct Function *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    const char *end = strchr(at, ')');
    while ((at = strstr(at, ".param .")) && at < end && made->count < 8) {
        const char *line = strchr(at, '\n');
        const char *array = strchr(at, '[');
        int bits = 0;
        if (array && array < line && array < end)
            made->sizes[made->count++] = strtoul(array + 1, NULL, 10);
        else if (sscanf(at, ".param .%*c%d", &bits) == 1)
            made->sizes[made->count++] = (size_t)bits / 8;
        at += 8;
    }
    *function = made;
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

/* Streams and graphs. */

struct Event {
    struct Stream *stream;
    /* How often it was recorded, and how often it completed. */
    uint64_t put, passed;
    double time;
};

struct Work {
    enum { KERNEL, FILL8, FILL32, COPY, RECORD, WAIT } kind;
    struct Function *function;
    char *parameters;
    unsigned blocks, threads;
    Address to, from;
    uint32_t word;
    size_t bytes;
    /* Pageable host memory, captured when the copy was enqueued. */
    char *kept;
    struct Event *event;
    uint64_t put;
    /* Where the event was recorded last when a wait for it was enqueued. */
    struct Stream *recorded;
};

struct Graph {
    size_t length, room;
    struct Work *work;
};

struct Stream {
    struct Stream *next;
    int device;
    struct Graph queue;
    /* Number of completed items. */
    size_t done;
    struct Graph *capture;
};

static struct Stream *streams;
/* The legacy default streams of all devices. */
static struct Stream defaults[8];

static struct Stream *stream_of(Handle handle) {
    return (uintptr_t)handle <= 2 ? &defaults[device_now()] : handle;
}

static void append(struct Graph *graph, struct Work work) {
    if (graph->length == graph->room) {
        graph->room = graph->room * 2 + 16;
        graph->work = realloc(graph->work, graph->room * sizeof work);
    }
    graph->work[graph->length++] = work;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static size_t bytes_at(Address at) { return *(size_t *)(at - 64); }

/* Reports of kernels, in the format of compiled code. */
static void report(const uint64_t *words, unsigned site, unsigned count, const uint64_t *arguments) {
    uint64_t *counters = (uint64_t *)words[2] + 1, *log = (uint64_t *)words[3];
    if (!counters[site]++)
        *(uint64_t *)log[2] = 1;
    uint64_t from = log[0];
    log[0] += 3 + count;
    if (log[0] > log[1])
        return;
    uint64_t *record = log + 3 + from;
    record[0] = 1ull << 63 | (uint64_t)count << 32 | site;
    record[1] = words[5];
    record[2] = words[6];
    memcpy(record + 3, arguments, 8 * count);
}

/* Runs a kernel by name: of several tasks the parallel one, else the serial one. Returns 0 while it is not complete. Its words are the header (temps, interrupt, reports, log, random key,
 * launch, ordinal), then trees, parameters and arrays. */
static int run_kernel(const struct Work *work) {
    const char *name = work->function->name;
    uint64_t *words = (uint64_t *)work->parameters;
    if (!strcmp(name, "saxpy")) {
        Address to = words[0], from = words[1];
        float factor = *(float *)&words[2];
        uint32_t count = *(uint32_t *)&words[3];
        if (to < 4096) {
            fault = ILLEGAL_ADDRESS;
            return 1;
        }
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += factor * ((float *)from)[i];
    } else if (work->threads > 1 ? strstr(name, "spin") || strstr(name, "speak") || strstr(name, "answer")
                                 : strstr(name, "add_one") || strstr(name, "wander") || strstr(name, "scale")) {
        return 1;
    } else if (strstr(name, "spin")) {
        /* Runs until it is interrupted. */
        return *(uint32_t *)words[1] != 0;
    } else if (strstr(name, "add_one")) {
        /* Adds to all floats of the first tree. */
        for (size_t i = 0; i < bytes_at(words[7]) / 4; i++)
            ((float *)words[7])[i] += 1;
    } else if (strstr(name, "wander")) {
        /* Writes out of bounds of a one-dimensional field. */
        uint64_t index = 1000;
        report(words, 0, 1, &index);
    } else if (strstr(name, "speak")) {
        /* Prints its only parameter, an `i32`. */
        uint64_t args[2] = {0, words[7]};
        report(words, 0, 2, args);
    } else if (strstr(name, "scale")) {
        /* Doubles all floats of its only array, which is two-dimensional. */
        int64_t *view = (int64_t *)&words[7];
        for (int64_t i = 0; i < view[1]; i++)
            for (int64_t j = 0; j < view[2]; j++)
                *(float *)(view[0] + i * view[9] + j * view[10]) *= 2;
    } else if (strstr(name, "answer")) {
        /* Returns the `i32` 42. */
        *(int32_t *)words[0] = 42;
    }
    return 1;
}

static int step(struct Stream *stream);

/* Executes one item, if it is ready. Returns 0 while it is not complete. */
static int run(const struct Work *work) {
    switch (work->kind) {
    case KERNEL: return run_kernel(work);
    case FILL8: memset((void *)work->to, (int)work->word, work->bytes); break;
    case FILL32:
        for (size_t i = 0; i < work->bytes / 4; i++)
            ((uint32_t *)work->to)[i] = work->word;
        break;
    case COPY: memcpy((void *)work->to, work->kept ? work->kept : (void *)work->from, work->bytes); break;
    case RECORD:
        work->event->passed = work->put;
        work->event->time = now_ms() + 1e-3 * (double)work->put;
        break;
    case WAIT:
        while (work->event->passed < work->put)
            if (!step(work->recorded))
                return 0;
        break;
    }
    return 1;
}

/* Threads may wait for a stream while others add to it. An item may wait for another stream. */
static pthread_mutex_t work_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static int step_locked(struct Stream *stream) {
    if (fault)
        stream->done = stream->queue.length;
    if (stream->done == stream->queue.length)
        return 1;
    struct Work work = stream->queue.work[stream->done];
    if (!run(&work))
        return 0;
    stream->done++;
    if (stream->done == stream->queue.length)
        stream->done = stream->queue.length = 0;
    return 1;
}

/* Executes the next item of a stream. Returns 0 while it is not complete. */
static int step(struct Stream *stream) {
    pthread_mutex_lock(&work_lock);
    int complete = step_locked(stream);
    pthread_mutex_unlock(&work_lock);
    return complete;
}

static int is_done(const struct Stream *stream) { return stream->done == stream->queue.length; }

static void finish(struct Stream *stream) {
    while (!is_done(stream))
        if (!step(stream))
            usleep(100);
}

static CUresult finish_all(void) {
    for (struct Stream *s = streams; s; s = s->next)
        finish(s);
    for (int d = 0; d < 8; d++)
        finish(&defaults[d]);
    return fault;
}

static CUresult enqueue(Handle handle, struct Work work) {
    struct Stream *stream = stream_of(handle);
    if (stream->device != device_now())
        return INVALID_HANDLE;
    pthread_mutex_lock(&work_lock);
    append(stream->capture ? stream->capture : &stream->queue, work);
    pthread_mutex_unlock(&work_lock);
    if (stream->capture)
        return SUCCESS;
    /* An endless kernel runs concurrently with the host. */
    if (!config("lazy", 0))
        while (!is_done(stream) && step(stream))
            ;
    return SUCCESS;
}

CUresult cuStreamCreate(Handle *stream, unsigned flags) {
    BEGIN;
    struct Stream *made = calloc(1, sizeof *made);
    made->device = device_now();
    made->next = streams;
    streams = made;
    *stream = made;
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}

CUresult cuStreamDestroy_v2(Handle stream) {
    BEGIN;
    finish(stream);
    return SUCCESS;
}

CUresult cuStreamSynchronize(Handle handle) {
    BEGIN;
    struct Stream *stream = stream_of(handle);
    if (stream->capture)
        return CAPTURING;
    finish(stream);
    return fault;
}

CUresult cuStreamQuery(Handle handle) {
    BEGIN;
    struct Stream *stream = stream_of(handle);
    if (stream->capture)
        return CAPTURING;
    if (is_done(stream))
        return SUCCESS;
    for (int n = 0; n < 100 && step(stream); n++)
        ;
    return fault ? fault : NOT_READY;
}

CUresult cuStreamWaitEvent(Handle stream, struct Event *event, unsigned flags) {
    BEGIN;
    (void)flags;
    return event ? enqueue(stream, (struct Work){.kind = WAIT, .event = event, .put = event->put, .recorded = event->stream}) : INVALID_VALUE;
}

CUresult cuEventCreate(struct Event **event, unsigned flags) {
    BEGIN;
    (void)flags;
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}

/* Streams may still refer to it. */
CUresult cuEventDestroy_v2(struct Event *event) {
    BEGIN;
    return event ? SUCCESS : INVALID_VALUE;
}

CUresult cuEventRecord(struct Event *event, Handle stream) {
    BEGIN;
    if (!event)
        return INVALID_VALUE;
    event->stream = stream_of(stream);
    return enqueue(stream, (struct Work){.kind = RECORD, .event = event, .put = ++event->put});
}

CUresult cuEventQuery(struct Event *event) {
    BEGIN;
    if (event->passed < event->put)
        step(event->stream);
    return fault ? fault : event->passed < event->put ? NOT_READY : SUCCESS;
}

CUresult cuEventSynchronize(struct Event *event) {
    BEGIN;
    while (event->passed < event->put && !fault)
        if (!step(event->stream))
            usleep(100);
    return fault;
}

CUresult cuEventElapsedTime(float *time, struct Event *from, struct Event *to) {
    BEGIN;
    *time = (float)(to->time - from->time);
    return SUCCESS;
}

CUresult cuLaunchKernel(struct Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, Handle stream, void **parameters, void **extra) {
    BEGIN;
    (void)shared;
    if (!function || extra || gy * gz * by * bz != 1 || !gx || !bx)
        return INVALID_VALUE;
    size_t bytes = 0;
    for (size_t i = 0; i < function->count; i++)
        bytes += (function->sizes[i] + 7) / 8 * 8;
    char *copy = calloc(1, bytes + 8), *at = copy;
    for (size_t i = 0; i < function->count; i++) {
        memcpy(at, parameters[i], function->sizes[i]);
        at += (function->sizes[i] + 7) / 8 * 8;
    }
    return enqueue(stream, (struct Work){.kind = KERNEL, .function = function, .parameters = copy, .blocks = gx, .threads = bx});
}

CUresult cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Handle stream) {
    BEGIN;
    char *kept = NULL;
    if (!is_pinned(from)) {
        kept = malloc(bytes);
        memcpy(kept, from, bytes);
    }
    return enqueue(stream, (struct Work){.kind = COPY, .to = to, .from = (Address)from, .bytes = bytes, .kept = kept});
}

CUresult cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Handle stream) {
    BEGIN;
    return enqueue(stream, (struct Work){.kind = COPY, .to = (Address)to, .from = from, .bytes = bytes});
}

CUresult cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Handle stream) {
    BEGIN;
    return enqueue(stream, (struct Work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
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
    char *from = copy->from.kind == 1 ? copy->from.host : (char *)copy->from.device;
    char *to = copy->to.kind == 1 ? copy->to.host : (char *)copy->to.device;
    for (size_t row = 0; row < copy->height; row++) {
        struct Work work = {.kind = COPY, .to = (Address)(to + row * copy->to.pitch), .bytes = copy->width};
        work.from = (Address)(from + row * copy->from.pitch);
        if (copy->from.kind == 1 && !is_pinned((void *)work.from)) {
            work.kept = malloc(work.bytes);
            memcpy(work.kept, (void *)work.from, work.bytes);
        }
        CUresult code = enqueue(stream, work);
        if (code)
            return code;
    }
    return SUCCESS;
}

CUresult cuMemsetD8Async(Address at, unsigned char byte, size_t count, Handle stream) {
    BEGIN;
    return enqueue(stream, (struct Work){.kind = FILL8, .to = at, .word = byte, .bytes = count});
}

CUresult cuMemsetD32Async(Address at, unsigned word, size_t count, Handle stream) {
    BEGIN;
    return enqueue(stream, (struct Work){.kind = FILL32, .to = at, .word = word, .bytes = 4 * count});
}

CUresult cuStreamBeginCapture_v2(Handle handle, int mode) {
    BEGIN;
    (void)mode;
    stream_of(handle)->capture = calloc(1, sizeof(struct Graph));
    return SUCCESS;
}

CUresult cuStreamEndCapture(Handle handle, struct Graph **graph) {
    BEGIN;
    *graph = stream_of(handle)->capture;
    stream_of(handle)->capture = NULL;
    return SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(struct Graph **made, const struct Graph *graph, uint64_t flags) {
    BEGIN;
    (void)flags;
    *made = calloc(1, sizeof **made);
    for (size_t i = 0; i < graph->length; i++)
        append(*made, graph->work[i]);
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
    for (size_t i = 0; i < graph->length; i++) {
        struct Work work = graph->work[i];
        if (work.kind == RECORD)
            work.put = ++work.event->put;
        CUresult code = enqueue(stream, work);
        if (code)
            return code;
    }
    return SUCCESS;
}
