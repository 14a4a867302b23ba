/* The CPU device: memory, and the table from op kinds to functions. */
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/cpu.h"
#include "runner/device/cpu/onednn.h"

#include <stdlib.h>
#include <string.h>

static void *cpu_allocate(struct sw_device *device, size_t bytes)
{
    (void)device;
    return sw_cpu_memory_allocate(bytes);
}

static void cpu_release(struct sw_device *device, void *memory)
{
    (void)device;
    sw_cpu_memory_release(memory);
}

static int cpu_copy(struct sw_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        memcpy(to, from, bytes);
    return 0;
}

static int cpu_copy_box(struct sw_device *device, void *to, size_t to_stride_bytes,
                        const void *from, size_t from_stride_bytes, size_t width_bytes, size_t rows)
{
    if (to_stride_bytes == width_bytes && from_stride_bytes == width_bytes)
        return cpu_copy(device, to, from, width_bytes * rows);
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)to + r * to_stride_bytes, (const char *)from + r * from_stride_bytes,
               width_bytes);
    return 0;
}

static int cpu_synchronize(struct sw_device *device, struct sw_error *err)
{
    (void)device;
    (void)err;
    return 0;
}

static void cpu_destroy(struct sw_device *device)
{
    struct sw_cpu_device *cpu = (struct sw_cpu_device *)device;
    if (cpu == NULL)
        return;
    sw_cpu_matmul_cache_free(cpu->matmuls);
    for (int32_t t = 0; cpu->of_thread != NULL && t < cpu->threads; t++)
        sw_cpu_matmul_cache_free(cpu->of_thread[t]);
    free(cpu->of_thread);
    free(cpu->scratch);
    free(cpu);
}

/* True if the op computes in double: any operand is F64. */
static bool is_f64(const struct sw_call *call)
{
    for (uint16_t i = 0; i < call->op->n_in; i++)
        if (call->in[i].dtype == SW_F64)
            return true;
    for (uint16_t i = 0; i < call->op->n_out; i++)
        if (call->out[i].dtype == SW_F64)
            return true;
    return false;
}

static void cpu_tile(struct sw_device *device, enum sw_dtype dtype, void *to, const void *from,
                     int64_t k, int64_t n, bool turned)
{
    sw_cpu_tile((struct sw_cpu_device *)device, dtype, to, from, k, n, turned);
}

static void cpu_tile_box(struct sw_device *device, enum sw_dtype dtype, void *to, int64_t k,
                         const struct sw_tile_box *box)
{
    (void)device;
    sw_cpu_tile_box(dtype, to, k, box);
}

static void cpu_for_each(struct sw_device *device, int64_t count,
                         void (*each)(void *context, int64_t i, int32_t thread), void *context)
{
    const int32_t threads = device->host_threads;
    SW_PARALLEL_FOR_UNEVEN(threads)
    for (int64_t i = 0; i < count; i++)
        each(context, i, SW_THREAD_INDEX);
}

#define SW_KERNEL(KIND, name)                                                                      \
    static int run_##name(struct sw_device *device, const struct sw_call *call,                    \
                          struct sw_error *err)                                                    \
    {                                                                                              \
        struct sw_cpu_device *cpu = (struct sw_cpu_device *)device;                                \
        return is_f64(call) ? sw_cpu_##name##_f64(cpu, call, err)                                  \
                            : sw_cpu_##name##_f32(cpu, call, err);                                 \
    }
#include "core/ir/ops.def"

static const struct sw_device_vtable cpu_vtable = {
    .name = "cpu",
    .takes = " ring segments sink window softcap halo ",
    .in_host_memory = true,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy_box = cpu_copy_box,
    .tile = cpu_tile,
    .tile_box = cpu_tile_box,
    .for_each = cpu_for_each,
    .tiles = sw_cpu_tiles,
    .synchronize = cpu_synchronize,
    .destroy = cpu_destroy,
    .run =
        {
#define SW_KERNEL(KIND, name) [SW_OP_##KIND] = run_##name,
#include "core/ir/ops.def"
        },
};

/* An elementwise op takes 1 to 4 elements a nanosecond and core; a second thread joins after half a
 * microsecond, and all wait for the last. */
enum { ALONE_ELEMS = 8192 };

struct sw_device *sw_cpu_device_create(int32_t wanted, struct sw_error *err)
{
    int32_t threads = wanted;
#ifdef _OPENMP
    /* OMP_THREAD_LIMIT: no region gets more, and oneDNN must not assume more */
    if (threads > omp_get_thread_limit())
        threads = omp_get_thread_limit();
#endif
    if (threads < 1) {
        sw_fail(err, SW_BAD_INPUT, "a cpu device needs at least one thread, not %d", (int)threads);
        return NULL;
    }
    struct sw_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (cpu == NULL)
        goto out_of_memory;
    cpu->base = (struct sw_device){.vtable = &cpu_vtable, .host_threads = threads};
    cpu->threads = threads;
    cpu->alone_elems = ALONE_ELEMS;
    sw_blockwise_fill(true, &cpu->tables[0]);
    sw_blockwise_fill(false, &cpu->tables[1]);
    cpu->amx = sw_cpu_amx_is_usable(sw_onednn_has_amx());
    cpu->pairs = sw_onednn_has_pairs();
    cpu->scratch = sw_cpu_memory_untouched((size_t)threads * SW_CPU_SCRATCH_BYTES);
    cpu->of_thread = calloc((size_t)threads, sizeof *cpu->of_thread);
    if (cpu->scratch == NULL || cpu->of_thread == NULL)
        goto out_of_memory;
    cpu->matmuls = sw_cpu_matmul_cache_create(err);
    bool failed = cpu->matmuls == NULL;
    for (int32_t t = 0; !failed && t < threads; t++)
        failed = (cpu->of_thread[t] = sw_cpu_matmul_cache_create(err)) == NULL;
    if (failed) {
        cpu_destroy(&cpu->base);
        return NULL;
    }
    return &cpu->base;
out_of_memory:
    sw_fail(err, SW_ENVIRONMENT, "out of memory while creating the cpu device");
    cpu_destroy((struct sw_device *)cpu);
    return NULL;
}
