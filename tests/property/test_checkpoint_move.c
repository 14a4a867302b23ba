/* Moving a checkpoint between shards and files with real ranks and messages: threads on meshes of 1
 * to 8, on the CPU device and on one whose memory the host cannot reach; with SW_TEST_MPI the
 * processes of a job. Each rank knows what every element is: a chunk that it collects must have the
 * bytes that the files need there, and what is spread from such chunks on another mesh must be the
 * shard, bit by bit, also where the files have other dtypes. Weights in 8 bits and their scales
 * follow from the files' numbers, whatever the mesh: the bits on all meshes are those of one
 * formula. */
#include "core/base/int4.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/programs/compile.h"
#include "core/ir/serving.h"
#include "runner/checkpoint/move.h"
#include "runner/collective/comm.h"
#include "runner/collective/staged.h"
#include "tests/support/share.h"
#include "tests/support/stacks.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SW_TEST_MPI
#include <mpi.h>
#include <unistd.h>
#else
#include <cmocka.h>
#endif

enum { MAX_RANKS = 8, WIDEST = sizeof(struct sw_int4_block) };

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int n)
{
    return (int)(mix(*state += 0x9e3779b97f4a7c15u) % (uint64_t)n);
}

/* ---- Elements ---- */

/* Of an instance of a row: any bits; or an integer that every dtype has. */
static uint64_t element(const struct sw_state_row *row, int32_t instance, int64_t index)
{
    uint64_t key = (uint64_t)instance << 48 ^ (uint64_t)index;
    for (const char *c = row->name; *c != '\0'; c++)
        key = mix(key + (uint64_t)*c);
    return mix(key);
}

/* The integer. */
static double integer_of(uint64_t bits)
{
    return (double)(int64_t)(bits % 511) - 255;
}

/* In that dtype; returns its bytes. */
static size_t write_element(uint64_t bits, bool integer, enum sw_stored_dtype dtype,
                            unsigned char out[WIDEST])
{
    const size_t width = sw_stored_dtype_bytes(dtype);
    const double wide = integer_of(bits);
    const float single = (float)wide;
    const uint16_t half =
        dtype == SW_STORED_F16 ? sw_fp16_from_float(single) : sw_bf16_from_float(single);
    if (!integer)
        memcpy(out, &bits, width);
    else if (dtype == SW_STORED_F64)
        memcpy(out, &wide, width);
    else if (dtype == SW_STORED_F32)
        memcpy(out, &single, width);
    else
        memcpy(out, &half, width);
    return width;
}

static enum sw_stored_dtype stored(enum sw_dtype dtype)
{
    static const enum sw_stored_dtype of[SW_DTYPE_COUNT] = {
        [SW_F32] = SW_STORED_F32, [SW_BF16_T] = SW_STORED_BF16, [SW_F64] = SW_STORED_F64};
    return of[dtype];
}

/* ---- A job ---- */

/* What all ranks do, one after the other. */
struct job {
    struct sw_program_options options;
    struct sw_program_set *set;
    struct sw_placement *placement;
    unsigned char **file; /* [file_count][bytes] as they have to be */
    int64_t chunk_bytes;
    bool loading, integer;
    bool far; /* on a device whose memory is not the host's */
    bool queued;
};

/* Addresses of device memory that nobody may follow but its device. */
enum { NO_BIT = 64, FAR_BIT = 62 };
struct far_device {
    struct sw_device base;
    struct sw_device_vtable table;
    struct sw_device *cpu;
    int bit;
};

static void *there(struct sw_device *device, const void *address)
{
    const int bit = ((struct far_device *)device)->bit;
    const uintptr_t at = (uintptr_t)address;
    return (void *)(bit == NO_BIT || at == 0 ? at : at ^ (uintptr_t)1 << bit);
}

static void *far_allocate(struct sw_device *device, size_t bytes)
{
    struct sw_device *cpu = ((struct far_device *)device)->cpu;
    return there(device, cpu->vtable->allocate(cpu, bytes));
}

static void far_release(struct sw_device *device, void *memory)
{
    struct sw_device *cpu = ((struct far_device *)device)->cpu;
    cpu->vtable->release(cpu, there(device, memory));
}

static int far_copy_in(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    memcpy(there(device, to), host, bytes);
    return 0;
}

static int far_copy_out(struct sw_device *device, void *host, const void *from, size_t bytes)
{
    memcpy(host, there(device, from), bytes);
    return 0;
}

static int far_copy_box(struct sw_device *device, void *to, size_t to_stride_bytes,
                        const void *from, size_t from_stride_bytes, size_t width_bytes, size_t rows)
{
    struct sw_device *cpu = ((struct far_device *)device)->cpu;
    return cpu->vtable->copy_box(cpu, there(device, to), to_stride_bytes, there(device, from),
                                 from_stride_bytes, width_bytes, rows);
}

static void far_init(struct far_device *far, struct sw_device *cpu, bool reachable)
{
    far->cpu = cpu;
    far->bit = reachable ? NO_BIT : FAR_BIT;
    far->table = *cpu->vtable;
    far->table.in_host_memory = false;
    far->table.allocate = far_allocate;
    far->table.release = far_release;
    far->table.copy_in = far_copy_in;
    far->table.copy_out = far_copy_out;
    far->table.copy_box = far_copy_box;
    far->base.vtable = &far->table;
}

/* ---- Weights in 8 bits ---- */

/* Of output `output` of a matrix: that of all of its inputs. */
static float scale_of(const struct sw_state_row *matrix, int32_t instance, int64_t output)
{
    const bool columns = matrix->parameter->transposed;
    double most = 0;
    for (int64_t i = 0; i < matrix->size[columns ? 0 : 1]; i++) {
        const uint64_t bits = element(
            matrix, instance, (columns ? i : output) * matrix->size[1] + (columns ? output : i));
        most = fmax(most, fabs(integer_of(bits)));
    }
    return (float)(most / (matrix->dtype == SW_E4M3 ? 448 : 127));
}

/* To a multiple of the last place that e4m3 has at that size, and its code. */
static uint8_t e4m3_of(double q)
{
    int exponent;
    (void)frexp(q, &exponent);
    const double place = ldexp(1, (exponent > -5 ? exponent : -5) - 4);
    const double made = fmin(fabs(rint(q / place) * place), 448), part = frexp(made, &exponent);
    const double code = made < 0x1p-6 ? made * 512 : (exponent + 6) * 8 + part * 16 - 8;
    return (uint8_t)((signbit(q) ? 0x80 : 0) + (int)code);
}

/* That element of a row in 8 bits, or of its scales. */
static void write_quantized(const struct sw_state *state, const struct sw_state_row *row,
                            int32_t instance, int64_t index, unsigned char out[WIDEST])
{
    const struct sw_state_row *matrix = row;
    for (int32_t r = 0; row->scales && r < state->count; r++)
        if (state->row[r].parameter == row->parameter && !state->row[r].scales)
            matrix = &state->row[r];
    const int64_t output = row->scales                   ? index
                           : !row->parameter->transposed ? index / matrix->size[1]
                                                         : index % matrix->size[1];
    const float scale = scale_of(matrix, instance, output);
    const double q = integer_of(element(matrix, instance, index)) / (double)scale;
    if (row->scales)
        memcpy(out, &scale, sizeof scale);
    else
        out[0] = row->dtype == SW_E4M3 ? e4m3_of(q) : (unsigned char)(int8_t)rint(q);
}

/* ---- Weights in 4 bits ---- */

/* The block of that index: of 32 inputs, counted in the whole matrix. */
static void write_block(const struct sw_state_row *row, int32_t instance, int64_t index,
                        unsigned char out[WIDEST])
{
    const int64_t columns = row->size[1], i = index / columns, j = index % columns;
    struct sw_int4_block block;
    float x[32];
    for (int64_t k = 0; k < 32; k++)
        x[k] = (float)integer_of(element(row, instance,
                                         row->parameter->transposed ? (32 * i + k) * columns + j
                                                                    : (i * columns + j) * 32 + k));
    sw_int4_quantize(x, &block);
    memcpy(out, &block, sizeof block);
}

/* Block i of a shard that lies in tiles (runner/device/cpu/tiled_int4.c). */
static void take_block(const struct sw_state_row *row, const unsigned char *instance, int64_t i,
                       unsigned char out[WIDEST])
{
    const int64_t at[2] = {i / row->local[1], i % row->local[1]};
    const int outputs_first = !row->parameter->transposed;
    const int64_t column = at[!outputs_first];
    const unsigned char *group =
        instance + (column / 32 * row->local[outputs_first] + at[outputs_first]) * 32 * 18;
    struct sw_int4_block block = {0};
    memcpy(&block.scale, group + 2 * (column % 32), sizeof block.scale);
    for (int k = 0; k < 32; k++) {
        uint32_t word;
        memcpy(&word, group + 64 + k / 8 * 128 + 4 * (column % 32), sizeof word);
        block.codes[k / 2] |= (uint8_t)((word >> (k % 2 * 16 + k % 8 / 2 * 4) & 15) << k % 2 * 4);
    }
    memcpy(out, &block, sizeof block);
}

/* ---- One rank ---- */

/* Where in its instance element i of a shard lies, whose row lies in tiles (core/base/device.h). */
static int64_t index_in_tiles(const struct sw_state_row *row, int64_t i)
{
    const int64_t at[2] = {i / row->local[1], i % row->local[1]};
    const int outputs_first = !row->parameter->transposed;
    const int64_t k = row->local[outputs_first], line = at[outputs_first],
                  column = at[!outputs_first];
    const int64_t panel = column / 32, pair = line / 2;
    return panel * 32 * k + pair * 64 + column % 32 * 2 + line % 2;
}

/* Its shard as it has to be, row by row, at the rows' offsets; written, or compared with. */
static int shard(const struct job *job, const struct sw_device *device, int32_t rank, bool compare,
                 unsigned char *state, struct sw_error *err)
{
    const bool host = device->vtable->in_host_memory;
    for (int32_t r = 0; r < job->set->state.count; r++) {
        const struct sw_state_row *row = &job->set->state.row[r];
        bool stored_somewhere = false;
        for (int32_t t = 0; t < job->placement->tensor_count; t++)
            stored_somewhere = stored_somewhere || job->placement->tensor[t].row == r;
        stored_somewhere = stored_somewhere || row->scales;
        int64_t first[SW_MAX_DIMS] = {0};
        sw_shard_offset(&job->options.mesh, &row->sharding.spec, row->padded, rank, first);
        const int64_t elems = row->instance_bytes / (int64_t)sw_dtype_bytes(row->dtype);
        for (int32_t n = 0; n < row->stack; n++) {
            unsigned char *instance = state + row->offset + n * row->instance_bytes;
            unsigned char wanted[WIDEST];
            for (int64_t i = 0; i < elems; i++) {
                size_t width = sw_dtype_bytes(row->dtype);
                const bool tiled = row->tiled && host && sw_device_tiles(device, row->dtype);
                unsigned char block[WIDEST], *at = block;
                if (tiled && row->dtype == SW_I4)
                    take_block(row, instance, i, block);
                else
                    at = instance + (tiled ? index_in_tiles(row, i) : i) * (int64_t)width;
                const int64_t index = sw_test_in_shard(row, first, i);
                if (index >= 0 && row->dtype == SW_I4)
                    write_block(row, n, index, wanted);
                else if (index >= 0 && (sw_has_scales(row->dtype) || row->scales))
                    write_quantized(&job->set->state, row, n, index, wanted);
                else if (index >= 0)
                    (void)write_element(element(row, n, index), job->integer, stored(row->dtype),
                                        wanted);
                else /* padding is zero and stays so */
                    memset(wanted, 0, width);
                if (!compare)
                    memcpy(at, wanted, width);
                else if (stored_somewhere && memcmp(at, wanted, width) != 0)
                    return sw_fail(err, SW_UNMET, "rank %d: %s, instance %d: element %lld",
                                   (int)rank, row->name, (int)n, (long long)i);
            }
        }
    }
    return 0;
}

/* A chunk of the files; copied from them or compared with them. */
static int chunk(const struct job *job, const struct sw_exchange *x, int32_t rank, int32_t round,
                 bool compare, unsigned char *memory, struct sw_error *err)
{
    struct sw_span_of_file span;
    for (int32_t i = 0; sw_exchange_span(x, rank, round, i, &span); i++) {
        const unsigned char *file = job->file[span.file] + span.begin;
        const size_t bytes = (size_t)(span.end - span.begin);
        if (!compare)
            memcpy(memory + span.at, file, bytes);
        else if (memcmp(memory + span.at, file, bytes) != 0)
            return sw_fail(err, SW_UNMET, "rank %d, round %d: %s is not what it should be",
                           (int)rank, (int)round, job->placement->file[span.file].name);
    }
    return 0;
}

static int run_rounds(const struct job *job, const struct sw_exchange *x, int32_t rank,
                      struct sw_mover *mover, struct sw_error *err)
{
    unsigned char *memory = malloc((size_t)x->chunk_bytes + WIDEST);
    int result = memory != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (int32_t round = 0; round < x->rounds && result == 0; round++) {
        const int64_t bytes = sw_exchange_chunk(x, rank, round);
        memset(memory, 0xee, (size_t)x->chunk_bytes + WIDEST);
        if (x->loading)
            result = chunk(job, x, rank, round, false, memory, err) != 0 ||
                             sw_mover_spread(mover, round, memory, err) != 0
                         ? -1
                         : chunk(job, x, rank, round, true, memory, err);
        else
            result = sw_mover_collect(mover, round, memory, err) != 0
                         ? -1
                         : chunk(job, x, rank, round, true, memory, err);
        for (int64_t b = bytes; b < x->chunk_bytes + WIDEST && result == 0; b++)
            if (memory[b] != 0xee)
                result = sw_fail(err, SW_UNMET, "rank %d: wrote behind its chunk", (int)rank);
    }
    free(memory);
    return result;
}

/* From the chunks of all owners, as the ranks of a job have them together. */
static int measure(const struct job *job, const struct sw_exchange *x, struct sw_executor *executor,
                   struct sw_scales *scales, struct sw_error *err)
{
    unsigned char *memory = malloc((size_t)x->chunk_bytes + WIDEST);
    int result = memory != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (int32_t owner = 0; owner < x->placement->ranks && result == 0; owner++)
        for (int32_t round = 0; round < x->rounds && result == 0; round++) {
            result = chunk(job, x, owner, round, false, memory, err);
            const struct sw_stretch stretch = sw_exchange_stretch(x, owner, round);
            sw_scales_meet(scales, x, &stretch, (const char *)memory);
        }
    free(memory);
    sw_scales_settle(scales);
    return result != 0 ? -1 : sw_scales_store(scales, x, executor, err);
}

/* Takes the communicator. */
static int run_rank(const struct job *job, struct sw_comm *comm, struct sw_error *err)
{
    struct sw_device *cpu = sw_cpu_device_create(1, err), *device = cpu;
    struct far_device far = {.bit = NO_BIT};
    struct sw_executor *executor = NULL;
    struct sw_mover *mover = NULL;
    struct sw_exchange x = {0};
    struct sw_scales scales = {0};
    const struct sw_state *state = &job->set->state;
    unsigned char *host = calloc(1, (size_t)state->bytes);
    int result = -1;
    if (cpu == NULL || host == NULL)
        goto out;
    if (job->far) {
        far_init(&far, cpu, job->queued);
        device = &far.base;
        comm->queued = job->queued;
        if (!job->queued && sw_comm_staged_create(comm, device, &comm, err) != 0)
            goto out;
    }
    if (sw_executor_create(job->set, device, comm, NULL, &executor, err) != 0 ||
        sw_exchange_make(state, job->placement, &job->options.mesh, job->loading, job->chunk_bytes,
                         &x, err) != 0 ||
        sw_mover_create(&x, executor, &mover, err) != 0)
        goto out;
    if (!job->loading && shard(job, device, comm->rank, false, host, err) != 0)
        goto out;
    char *first = (char *)sw_executor_state(executor, &state->row[0], 0) - state->row[0].offset;
    if (device->vtable->copy_in(device, first, host, (size_t)state->bytes) != 0 ||
        sw_scales_create(state, job->placement, &scales, err) != 0 ||
        (scales.count > 0 && measure(job, &x, executor, &scales, err) != 0))
        goto out;
    sw_mover_quantize(mover, &scales);
    if (run_rounds(job, &x, comm->rank, mover, err) != 0 ||
        device->vtable->copy_out(device, host, first, (size_t)state->bytes) != 0 ||
        shard(job, device, comm->rank, true, host, err) != 0)
        goto out;
    result = 0;
out:
    sw_mover_free(mover);
    sw_scales_free(&scales);
    sw_exchange_free(&x);
    sw_executor_free(executor);
    comm->queued = false;
    if (result == 0)
        result = comm->vtable->barrier(comm, err); /* nobody is left waiting for this rank */
    comm->vtable->destroy(comm);
    if (cpu != NULL)
        cpu->vtable->destroy(cpu);
    free(host);
    return result;
}

/* ---- Jobs ---- */

/* What the files have to be, from the elements. */
static int make_files(struct job *job, struct sw_error *err)
{
    const struct sw_placement *p = job->placement;
    job->file = calloc((size_t)p->file_count + 1, sizeof *job->file);
    for (int32_t f = 0; job->file != NULL && f < p->file_count; f++)
        job->file[f] = calloc(1, (size_t)p->file[f].bytes);
    for (int32_t t = 0; job->file != NULL && t < p->tensor_count; t++) {
        const struct sw_stored_tensor *tensor = &p->tensor[t];
        const struct sw_state_row *row = &job->set->state.row[tensor->row];
        if (job->file[tensor->file] == NULL)
            break;
        unsigned char *at = job->file[tensor->file] + tensor->offset;
        for (int64_t i = 0; i < sw_test_tensor_elems(tensor); i++)
            at += write_element(element(row, tensor->instance, sw_test_in_file(row, tensor, i)),
                                job->integer, tensor->dtype, at);
    }
    for (int32_t f = 0; job->file != NULL && f < p->file_count; f++)
        if (job->file[f] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    return job->file != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
}

static void free_files(struct job *job)
{
    for (int32_t f = 0; job->file != NULL && f < job->placement->file_count; f++)
        free(job->file[f]);
    free(job->file);
    job->file = NULL;
}

#ifdef SW_TEST_MPI
static int run_job(const struct job *job, struct sw_error *err)
{
    const struct sw_axes every = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    struct sw_comm *comm = NULL;
    return sw_comm_mpi_create(&job->options.mesh, &every, 1, 60, &comm, err) != 0
               ? -1
               : run_rank(job, comm, err);
}
#else
struct rank_thread {
    const struct job *job;
    struct sw_comm *comm;
    pthread_t thread;
    int result;
    struct sw_error err;
};

static void *rank_main(void *argument)
{
    struct rank_thread *rank = argument;
    rank->result = run_rank(rank->job, rank->comm, &rank->err);
    return NULL;
}

static int run_job(const struct job *job, struct sw_error *err)
{
    struct sw_comm *comms[MAX_RANKS];
    struct rank_thread ranks[MAX_RANKS];
    const int32_t count = sw_mesh_rank_count(&job->options.mesh);
    int result = 0;
    if (sw_comm_threads_create(&job->options.mesh, comms, err) != 0)
        return -1;
    for (int32_t r = 0; r < count; r++) {
        ranks[r] = (struct rank_thread){.job = job, .comm = comms[r]};
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0)
            abort();
    }
    for (int32_t r = 0; r < count; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (ranks[r].result != 0) /* the first that is not only told of another's */
            result = strstr(ranks[r].err.message, "has left") != NULL && result != 0
                         ? -1
                         : sw_fail_as(err, &ranks[r].err);
    }
    return result;
}
#endif

/* With a program that saves, or without. */
static int make_set(struct job *job, bool saves, struct sw_error *err)
{
    struct sw_program *program = NULL;
    if (saves)
        return sw_program_set_compile(&job->options, &job->set, err);
    return sw_program_compile(&job->options, SW_LAID_OUT, &program, err) != 0
               ? -1
               : sw_program_set_single(program, SW_PROGRAM_TRAIN, &job->set, err);
}

/* The model as others may have written it: in any order and dtypes, in files with headers of any
 * size, with things between that are none of ours. */
static int foreign(uint64_t *rng, const struct sw_state *state, struct sw_placement *p,
                   struct sw_error *err)
{
    *p = (struct sw_placement){0};
    if (sw_stored_tensors(state, SW_STORED_SAVED, &p->tensor, &p->tensor_count, err) != 0)
        return -1;
    while (p->tensor[p->tensor_count - 1].group != SW_STORED_MODEL)
        p->tensor_count--;
    p->file = calloc((size_t)p->tensor_count, sizeof *p->file);
    if (p->file == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    struct sw_stored_file *file = NULL;
    for (int32_t i = 0; i < p->tensor_count; i++) {
        const int32_t j = i + below(rng, p->tensor_count - i);
        const struct sw_stored_tensor swap = p->tensor[i];
        p->tensor[i] = p->tensor[j];
        p->tensor[j] = swap;
        struct sw_stored_tensor *t = &p->tensor[i];
        if (file == NULL || below(rng, 8) == 0) {
            file = &p->file[p->file_count++];
            file->first_tensor = i;
            file->data_begin = file->bytes = 9 + below(rng, 500);
        }
        file->bytes += below(rng, 3) == 0 ? below(rng, 40) : 0;
        t->dtype = (enum sw_stored_dtype)below(rng, SW_STORED_U8);
        t->bytes = sw_test_tensor_elems(t) * (int64_t)sw_stored_dtype_bytes(t->dtype);
        t->file = p->file_count - 1;
        t->offset = file->bytes;
        file->bytes += t->bytes + (below(rng, 8) == 0 ? below(rng, 200) : 0);
        file->tensor_count++;
    }
    return 0;
}

static struct sw_program_options random_model(uint64_t *rng)
{
    static const enum sw_dtype dtypes[] = {SW_F32, SW_F32, SW_BF16_T, SW_F64};
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model.vocab_size = below(rng, 2) ? 48 : 144;
    static const int32_t hidden[] = {48, 24, 22, 5}; /* the last two are split unevenly */
    o.model.hidden_size = hidden[below(rng, 4)];
    o.model.intermediate_size = below(rng, 2) ? 48 : 96;
    o.model.layers = 1 + below(rng, 3);
    o.model.heads = below(rng, 2) ? 8 : 6;
    o.model.kv_heads = below(rng, 2) ? 2 : 1;
    o.model.head_dim = below(rng, 2) ? 2 : 6;
    o.model.rope.theta = 10000;
    o.model.rms_norm_eps = 1e-5;
    o.model.tied = below(rng, 2);
    o.model.qkv_bias = below(rng, 2);
    o.model.mlp_bias = below(rng, 4) == 0;
    o.model.qk_norm = below(rng, 2);
    o.model.fused = !o.model.qkv_bias && !o.model.mlp_bias && o.model.layers != 2;
    o.sequence_length = 48;
    o.global_batch = 840; /* for any number of ranks along dp */
    o.micro_batch_per_rank = 1;
    o.params = dtypes[below(rng, 4)];
    o.compute = o.reduce = o.params == SW_F64 ? SW_F64 : SW_F32;
    o.layout = SW_CONTIGUOUS;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    if (below(rng, 3) == 0 && /* replicas of matrices, too */
        sw_rules_set(&o.rules, "embed", (struct sw_axes){1, {SW_SP}}, NULL) != 0)
        abort(); /* as one of several ranks, too */
    return o;
}

/* Of so many ranks, that the model can run on. */
static void choose_mesh(uint64_t *rng, int32_t ranks, struct sw_program_options *o)
{
    do {
        o->mesh = sw_mesh_make(1, 1, 1, 1);
        for (int32_t left = ranks, factor = 2; left > 1;) {
            if (left % factor != 0) {
                factor++;
                continue;
            }
            o->mesh.size[below(rng, SW_AXIS_COUNT)] *= factor;
            left /= factor;
        }
        for (int i = SW_AXIS_COUNT - 1; i > 0; i--) {
            const int j = below(rng, i + 1);
            const uint8_t swap = o->mesh.order[i];
            o->mesh.order[i] = o->mesh.order[j];
            o->mesh.order[j] = swap;
        }
    } while (sw_program_admits(o, NULL, NULL) != SW_FITS);
}

static int deal_and_run(uint64_t *rng, struct job *job, struct sw_error *err)
{
    static const int32_t slices[] = {64, 100, 512, 4096, 1 << 20};
    static const int64_t chunks[] = {0, 64, 333, 1024, 4096, 20000, 100000};
    job->placement->slice_bytes = slices[below(rng, 5)];
    job->chunk_bytes = chunks[below(rng, 7)];
    if (job->chunk_bytes == 64 && below(rng, 4) > 0) /* takes long */
        job->chunk_bytes = 0;
    const int64_t most = job->set->save.chunk_bytes;
    if (most > 0 && (job->chunk_bytes == 0 || job->chunk_bytes > most))
        job->chunk_bytes = most;
    return sw_placement_deal(job->placement, sw_mesh_rank_count(&job->options.mesh), err) != 0 ||
                   make_files(job, err) != 0
               ? -1
               : run_job(job, err);
}

/* Saved on one mesh, loaded on another, or loaded from others' files. */
static int try(uint64_t *rng, int32_t from_ranks, int32_t to_ranks, int device,
               struct sw_error *err)
{
    struct sw_placement p = {0};
    struct job save = {.placement = &p, .far = device > 0, .queued = device == 2}, load = save;
    struct sw_test_stacks stacks = {.count = 0};
    const bool others = below(rng, 2), stacked = below(rng, 2);
    int result = -1;
    save.options = load.options = random_model(rng);
    choose_mesh(rng, from_ranks, &save.options);
    choose_mesh(rng, to_ranks, &load.options);
    load.loading = true;
    load.integer = others;
    if (make_set(&save, below(rng, 2), err) != 0 || make_set(&load, below(rng, 2), err) != 0)
        goto out;
    if (stacked)
        sw_test_stack(mix(*rng), &save.set->state, &load.set->state, &stacks);
    if (!others && (sw_placement_make(&save.set->state, from_ranks, &p, err) != 0 ||
                    deal_and_run(rng, &save, err) != 0))
        goto out;
    if ((others && foreign(rng, &load.set->state, &p, err) != 0) ||
        deal_and_run(rng, &load, err) != 0)
        goto out;
    result = 0;
out:
    free_files(&save);
    free_files(&load);
    sw_program_set_free(save.set);
    sw_program_set_free(load.set);
    sw_placement_free(&p);
    return result;
}

/* Others' files become the state of a server, with weights in 8 bits or in bf16, that may lie in
 * tiles: whole ones on some meshes. */
static int quantize(uint64_t *rng, int32_t ranks, int device, struct sw_error *err)
{
    struct sw_placement p = {0};
    struct job job = {.placement = &p,
                      .far = device > 0,
                      .queued = device == 2,
                      .loading = true,
                      .integer = true,
                      .options = random_model(rng)};
    static const enum sw_dtype formats[] = {SW_I8, SW_E4M3, SW_BF16_T, SW_I4};
    const enum sw_dtype weights = formats[below(rng, 4)];
    const struct sw_serving serving = {.max_batch = 4,
                                       .max_tokens = 48,
                                       .cache = SW_F32,
                                       .weights = weights == SW_BF16_T ? SW_F32 : weights,
                                       .stream_weights = below(rng, 2) && weights != SW_I4};
    job.options.params = job.options.compute = weights == SW_BF16_T ? SW_BF16_T : SW_F32;
    job.options.reduce = SW_F32;
    job.options.target.weight_tiles = below(rng, 4) > 0;
    if (below(rng, 2)) {
        job.options.model.hidden_size = job.options.model.vocab_size = 64 << below(rng, 2);
        job.options.model.intermediate_size = 96;
        job.options.model.heads = 8;
        job.options.model.head_dim = 8 << below(rng, 2);
    }
    if (weights == SW_I4) { /* groups of all ranks that share heads */
        job.options.model.hidden_size = 32 << below(rng, 2);
        job.options.model.intermediate_size = 32 * job.options.model.heads;
        job.options.model.head_dim = 32;
    }
    sw_rules_default(&job.options.rules, SW_ATTENTION_RING);
    choose_mesh(rng, ranks, &job.options);
    const int result =
        sw_program_set_compile_serving(&job.options, &serving, 1u << SW_PROGRAM_DECODE, &job.set,
                                       err) != 0 ||
                foreign(rng, &job.set->state, &p, err) != 0 || deal_and_run(rng, &job, err) != 0
            ? -1
            : 0;
    free_files(&job);
    sw_program_set_free(job.set);
    sw_placement_free(&p);
    return result;
}

#ifdef SW_TEST_MPI
int main(int argc, char **argv)
{
    int provided = 0, rank = 0, ranks = 0;
    uint64_t rng = 56;
    struct sw_error err = {0};
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return 3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int trial = 0; trial < 12; trial++)
        if (try(&rng, ranks, ranks, trial % 4 == 3, &err) != 0 ||
            quantize(&rng, ranks, trial % 4 == 3, &err) != 0) {
            fprintf(stderr, "checkpoint_move_mpi: trial %d: %s\n", trial, err.message);
            _exit(1);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("checkpoint_move_mpi: ok");
    MPI_Finalize();
    return 0;
}
#else
/* The argument: one of so many trials is made. */
static int part = 1;

static void test_on_device(int device, uint64_t seed, int trials)
{
    uint64_t rng = seed;
    for (int trial = 0; trial < trials / part; trial++) {
        struct sw_error err = {0};
        const int32_t from = 1 + trial % MAX_RANKS, to = 1 + below(&rng, MAX_RANKS);
        if (try(&rng, from, to, device, &err) != 0)
            fail_msg("trial %d, %d ranks to %d: %s", trial, (int)from, (int)to, err.message);
    }
}

static void test_host_memory(void **state)
{
    (void)state;
    test_on_device(0, 1, 96);
}

static void test_far_memory(void **state)
{
    (void)state;
    test_on_device(1, 2, 48);
    test_on_device(2, 3, 48);
}

/* The meshes that runs are promised to move between: parameters and both moments, bit by bit. */
static void check_named_meshes(int64_t hidden_size)
{
    static const int32_t meshes[][SW_AXIS_COUNT] = {
        {1, 1, 1, 1}, {2, 2, 1, 2}, {1, 8, 1, 1}, {1, 1, 2, 4}, {1, 2, 2, 2},
        {1, 1, 1, 3}, {1, 3, 1, 1}, {1, 1, 2, 3}, {1, 5, 1, 1}, {3, 1, 2, 1}};
    uint64_t rng = 4;
    struct sw_placement p = {0};
    struct job save = {.placement = &p, .options = random_model(&rng)};
    struct sw_error err = {0};
    save.options.model.heads = 8;
    save.options.model.kv_heads = 2;
    save.options.model.hidden_size = hidden_size;
    save.options.model.qkv_bias = save.options.model.qk_norm = true;
    save.options.params = save.options.compute = save.options.reduce = SW_F32;
    sw_rules_default(&save.options.rules, SW_ATTENTION_RING);
    save.options.mesh = sw_mesh_make(1, 2, 2, 2);
    assert_int_equal(make_set(&save, true, &err), 0);
    assert_int_equal(sw_placement_make(&save.set->state, 8, &p, &err), 0);
    int32_t groups[3] = {0};
    for (int32_t t = 0; t < p.tensor_count; t++)
        groups[p.tensor[t].group]++;
    assert_true(groups[SW_STORED_MODEL] > 0);
    assert_int_equal(groups[SW_STORED_EXP_AVG], groups[SW_STORED_MODEL]);
    assert_int_equal(groups[SW_STORED_EXP_AVG_SQ], groups[SW_STORED_MODEL]);
    if (deal_and_run(&rng, &save, &err) != 0)
        fail_msg("saving: %s", err.message);
    free_files(&save);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        struct job load = {.placement = &p, .options = save.options, .loading = true};
        load.options.mesh = sw_mesh_make(meshes[m][0], meshes[m][1], meshes[m][2], meshes[m][3]);
        if (make_set(&load, true, &err) != 0 || deal_and_run(&rng, &load, &err) != 0)
            fail_msg("mesh %zu: %s", m, err.message);
        free_files(&load);
        sw_program_set_free(load.set);
    }
    sw_program_set_free(save.set);
    sw_placement_free(&p);
}

static void test_named_meshes(void **state)
{
    (void)state;
    check_named_meshes(48); /* split unevenly by 5 */
    check_named_meshes(22); /* and by 4 */
}

static struct sw_program_options small_model(void)
{
    uint64_t rng = 9;
    struct sw_program_options o = random_model(&rng);
    o.params = o.compute = o.reduce = SW_F32;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    o.mesh = sw_mesh_make(1, 2, 1, 1);
    return o;
}

/* A rank that leaves in the middle ends the others' rounds. */
static void *leave_early(void *argument)
{
    struct rank_thread *rank = argument;
    rank->comm->vtable->destroy(rank->comm);
    return NULL;
}

/* The bits on every mesh are those of one formula, which knows none. */
static void test_weights_in_few_bits(void **state)
{
    (void)state;
    uint64_t rng = 8;
    for (int32_t i = 0; i < 60 / part; i++) {
        const int32_t ranks = i % 3 == 0 ? 1 + below(&rng, 3) : 4 + 4 * below(&rng, 2);
        struct sw_error err = {0};
        if (quantize(&rng, ranks, i % 5 < 2 ? i % 5 + 1 : 0, &err) != 0)
            fail_msg("case %d, %d ranks: %s", (int)i, (int)ranks, err.message);
    }
}

static void test_errors(void **state)
{
    (void)state;
    struct sw_placement p = {0};
    struct job job = {.placement = &p, .options = small_model()};
    struct sw_error err = {0};
    struct sw_comm *comms[2];
    char text[160];
    assert_int_equal(make_set(&job, true, &err), 0);
    assert_int_equal(sw_placement_make(&job.set->state, 2, &p, &err), 0);
    p.tensor[0].dtype = SW_STORED_F64;
    p.tensor[0].bytes *= 2; /* of the embedding: whatever lies behind it does not matter here */
    assert_int_equal(run_job(&job, &err), -1);
    assert_string_equal(err.message, "model.embed_tokens.weight is f32 in the state, not F64");
    p.tensor[0].dtype = SW_STORED_F32;
    p.tensor[0].bytes /= 2;

    err = (struct sw_error){0};
    assert_int_equal(sw_placement_deal(&p, 3, &err), 0);
    assert_int_equal(run_job(&job, &err), -1);
    assert_string_equal(err.message, "an exchange between 3 ranks on 2");

    err = (struct sw_error){0};
    assert_int_equal(sw_placement_deal(&p, 2, &err), 0);
    job.chunk_bytes = job.set->save.chunk_bytes + 1;
    assert_int_equal(run_job(&job, &err), -1);
    snprintf(text, sizeof text,
             "messages of %lld bytes between a checkpoint and its state, `save` has room for %lld",
             (long long)job.chunk_bytes, (long long)job.chunk_bytes - 1);
    assert_string_equal(err.message, text);

    err = (struct sw_error){0};
    job.chunk_bytes = 0;
    assert_int_equal(make_files(&job, &err), 0);
    assert_int_equal(sw_comm_threads_create(&job.options.mesh, comms, &err), 0);
    struct rank_thread ranks[2] = {{.job = &job, .comm = comms[0]},
                                   {.job = &job, .comm = comms[1]}};
    assert_int_equal(pthread_create(&ranks[0].thread, NULL, rank_main, &ranks[0]), 0);
    assert_int_equal(pthread_create(&ranks[1].thread, NULL, leave_early, &ranks[1]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(ranks[i].thread, NULL);
    assert_int_equal(ranks[0].result, -1);
    assert_string_equal(ranks[0].err.message,
                        "rank 0: transfer to rank 1, from rank 1: rank 1 has left");
    free_files(&job);
    sw_placement_free(&p);
    sw_program_set_free(job.set);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory),  cmocka_unit_test(test_far_memory),
        cmocka_unit_test(test_named_meshes), cmocka_unit_test(test_weights_in_few_bits),
        cmocka_unit_test(test_errors),
    };
    if (argc > 1)
        part = (int)strtol(argv[1], NULL, 10);
    if (part < 1 || part > 4) {
        fprintf(stderr, "usage: test_checkpoint_move [PART], one of so many trials, at most 4\n");
        return 2;
    }
    part *= sw_test_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
