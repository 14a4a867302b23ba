#include "tests/support/fake_gpu.h"

#include <stdlib.h>

/* Entries >= 0 are marks. */
struct sw_recording {
    int32_t count;
    struct {
        int32_t mark;
        double seconds;
    } item[4096];
};

static struct sw_fake_gpu *gpu_of(struct sw_device *device)
{
    return (struct sw_fake_gpu *)device;
}

struct block {
    size_t bytes;
};

/* Address range to count from, never accessed. */
static void *fake_allocate(struct sw_device *device, size_t bytes)
{
    struct sw_fake_gpu *gpu = gpu_of(device);
    if (gpu->used_bytes + (int64_t)bytes > gpu->memory_bytes)
        return NULL;
    struct block *block = malloc(sizeof *block);
    if (block == NULL)
        return NULL;
    block->bytes = bytes;
    gpu->used_bytes += (int64_t)bytes;
    gpu->most_bytes = gpu->used_bytes > gpu->most_bytes ? gpu->used_bytes : gpu->most_bytes;
    gpu->arenas++;
    return block;
}

static void fake_release(struct sw_device *device, void *memory)
{
    gpu_of(device)->used_bytes -= (int64_t)((struct block *)memory)->bytes;
    free(memory);
}

static int fake_copy_in(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    (void)device, (void)to, (void)host, (void)bytes;
    return 0;
}

static int fake_copy_out(struct sw_device *device, void *host, const void *from, size_t bytes)
{
    (void)device, (void)host, (void)from, (void)bytes;
    return -1; /* results are not computed, so no test may read them */
}

static int fake_copy_box(struct sw_device *device, void *to, size_t to_stride_bytes,
                         const void *from, size_t from_stride_bytes, size_t width_bytes,
                         size_t rows)
{
    (void)device, (void)to, (void)to_stride_bytes, (void)from, (void)from_stride_bytes;
    (void)width_bytes, (void)rows;
    return 0;
}

static int fake_synchronize(struct sw_device *device, struct sw_error *err)
{
    if (gpu_of(device)->recording != NULL)
        return sw_fail(err, SW_ENVIRONMENT, "a wait while a recording is made");
    return 0;
}

static int64_t fake_free_bytes(struct sw_device *device)
{
    return gpu_of(device)->memory_bytes - gpu_of(device)->used_bytes;
}

static int fake_facts(struct sw_device *device, struct sw_device_facts *out, struct sw_error *err)
{
    (void)err;
    *out = (struct sw_device_facts){.name = "NVIDIA H200",
                                    .major = 9,
                                    .units = 132,
                                    .memory_bytes = gpu_of(device)->memory_bytes};
    return 0;
}

static int fake_record_begin(struct sw_device *device, struct sw_error *err)
{
    struct sw_fake_gpu *gpu = gpu_of(device);
    gpu->recording = calloc(1, sizeof *gpu->recording);
    return gpu->recording != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
}

static int fake_record_end(struct sw_device *device, struct sw_recording **out,
                           struct sw_error *err)
{
    struct sw_fake_gpu *gpu = gpu_of(device);
    (void)err;
    if (out == NULL)
        free(gpu->recording);
    else
        *out = gpu->recording;
    gpu->recording = NULL;
    return 0;
}

/* Queues `seconds` of work, or (mark >= 0) a mark. */
static int queue(struct sw_fake_gpu *gpu, int32_t mark, double seconds, struct sw_error *err)
{
    struct sw_recording *recording = gpu->recording;
    if (recording == NULL) {
        gpu->clock_s += seconds;
        if (mark >= 0)
            gpu->passed_s[mark] = gpu->clock_s;
        return 0;
    }
    if (recording->count == sizeof recording->item / sizeof recording->item[0])
        return sw_fail(err, SW_ENVIRONMENT, "the stand-in's recordings are shorter");
    recording->item[recording->count].mark = mark;
    recording->item[recording->count++].seconds = seconds;
    return 0;
}

static int fake_replay(struct sw_device *device, struct sw_recording *recording,
                       struct sw_error *err)
{
    for (int32_t i = 0; i < recording->count; i++)
        if (queue(gpu_of(device), recording->item[i].mark, recording->item[i].seconds, err) != 0)
            return -1;
    return 0;
}

static void fake_recording_free(struct sw_device *device, struct sw_recording *recording)
{
    (void)device;
    free(recording);
}

static int fake_mark(struct sw_device *device, int32_t index, struct sw_error *err)
{
    struct sw_fake_gpu *gpu = gpu_of(device);
    if (index >= (int32_t)(sizeof gpu->passed_s / sizeof gpu->passed_s[0]) ||
        (gpu->recording != NULL && index >= gpu->mark_count))
        return sw_fail(err, SW_ENVIRONMENT, "mark %d is too many", (int)index);
    gpu->mark_count = index >= gpu->mark_count ? index + 1 : gpu->mark_count;
    return queue(gpu, index, gpu->mark_s, err);
}

static double fake_mark_seconds(struct sw_device *device, int32_t from, int32_t to)
{
    return gpu_of(device)->passed_s[to] - gpu_of(device)->passed_s[from];
}

static double bytes_of(const struct sw_tensor *tensors, int32_t count)
{
    double bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += (double)tensors[i].elems * (double)sw_dtype_bytes(tensors[i].dtype);
    return bytes;
}

/* Twice the multiply-adds of matrix products and attention; 0: memory-bound. */
static double flops_of(const struct sw_call *call)
{
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1];
    const double tokens = (double)x->size[0] * (double)x->size[1];
    switch (call->op->kind) {
    case SW_OP_LINEAR:
    case SW_OP_LINEAR_T:
    case SW_OP_LM_HEAD_STATS:
        return 2 * tokens * (double)w->elems;
    case SW_OP_LM_HEAD_GRAD:
        return 6 * tokens * (double)w->elems;
    case SW_OP_LM_HEAD_DX:
        return 4 * tokens * (double)w->elems;
    case SW_OP_LINEAR_DW:
        return 2 * (double)x->elems * (double)w->size[2];
    case SW_OP_ATTENTION: /* two products, half of each masked */
        return 2 * (double)x->elems * (double)x->size[1];
    case SW_OP_ATTENTION_GRAD: /* five */
        return 5 * (double)x->elems * (double)x->size[1];
    default:
        return 0;
    }
}

/* By the ops' cost rules: all operands once, of an embedding the tokens' rows. */
static double moved_bytes(const struct sw_call *call)
{
    const double in = bytes_of(call->in, call->op->n_in),
                 out = bytes_of(call->out, call->op->n_out);
    if (call->op->kind == SW_OP_EMBEDDING)
        return bytes_of(call->in, 1) + out +
               (double)call->out->elems * (double)sw_dtype_bytes(call->in[1].dtype);
    if (call->op->kind == SW_OP_EMBEDDING_GRAD)
        return 3 * bytes_of(call->in + 1, 1) + (sw_call_adds_now(call) ? 0 : out);
    return in + out;
}

static int fake_run(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct sw_fake_gpu *gpu = gpu_of(device);
    const double flops = flops_of(call);
    const double bytes = moved_bytes(call);
    const bool narrow = call->in[0].dtype == SW_BF16_T;
    const double seconds =
        flops > 0 ? flops / (narrow ? gpu->bf16_flops : gpu->fp32_flops) : bytes / gpu->bandwidth;
    return queue(gpu, -1, gpu->launch_s + seconds, err);
}

void sw_fake_gpu_init(struct sw_fake_gpu *gpu)
{
    *gpu = (struct sw_fake_gpu){.table = {.name = "cuda",
                                          .allocate = fake_allocate,
                                          .release = fake_release,
                                          .copy_in = fake_copy_in,
                                          .copy_out = fake_copy_out,
                                          .copy_box = fake_copy_box,
                                          .synchronize = fake_synchronize,
                                          .free_bytes = fake_free_bytes,
                                          .facts = fake_facts,
                                          .record_begin = fake_record_begin,
                                          .record_end = fake_record_end,
                                          .replay = fake_replay,
                                          .recording_free = fake_recording_free,
                                          .mark = fake_mark,
                                          .mark_seconds = fake_mark_seconds},
                                .launch_s = 2e-6,
                                .mark_s = 1.3e-6,
                                .bf16_flops = 600e12,
                                .fp32_flops = 45e12,
                                .bandwidth = 3.6e12,
                                .memory_bytes = 150LL * 1000 * 1000 * 1000};
    for (int32_t kind = 0; kind < SW_OP_COUNT; kind++)
        gpu->table.run[kind] = fake_run;
    gpu->base.vtable = &gpu->table;
}
