/* Attention of a sequence around a ring, causal, forward and backward: what contiguous and zigzag
 * parts of it take.
 *
 *   bench_ring [bf16|fp32 [TOKENS [HEADS [KV_HEADS [HEAD_DIM [RANKS [ROUNDS]]]]]]]
 *   bench_ring masks [TOKENS [HEADS [KV_HEADS [HEAD_DIM [RANKS [ROUNDS [WINDOW]]]]]]]
 *
 * The ranks are threads of this process with a core's work each. Of a ring of two the rank that has
 * most to do has something to do in every step: with a core for each rank its processor time is
 * attention's own time. Prints for each layout the median of it over rounds, the layouts in turns,
 * and their ratio; a ring of P of bare attention gains (2P - 1) / P.
 *
 * masks: beside the causal mask in bf16, zigzag, a window and documents of drawn lengths. Of each
 * what the busiest rank takes, of all its work and messages, for what it would take if time went by
 * the pairs of queries and keys that see each other: at most 1.25 is wanted. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/ir/workspace.h"
#include "runner/collective/comm.h"
#include "runner/device/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 16, ROUNDS_MOST = 64, TICKETS = 4 };

struct shape {
    enum sw_dtype dtype;
    int64_t tokens, heads, kv_heads, dim, ranks, rounds;
    enum sw_sequence_layout layout;
    int64_t window;           /* 0: none */
    const int32_t *documents; /* [tokens], by position; NULL: one */
};

struct rank {
    const struct shape *shape;
    struct sw_comm *comm;
    struct sw_device *device;
    struct sw_op forward, backward;
    struct sw_tensor in[8], given[5], out[2], gradients[3]; /* backward's, forward's */
    void *workspace;
    uint64_t ticket[TICKETS];
    int32_t first, count; /* of the tickets that were not waited for */
    double seconds;
    pthread_t thread;
};

static int leave(const char *what)
{
    fprintf(stderr, "bench_ring: %s\n", what);
    exit(3);
}

static int start(void *context, int32_t to, int32_t from, const void *send, void *receive,
                 size_t bytes, struct sw_error *err)
{
    struct rank *r = context;
    if (r->count == TICKETS)
        return sw_fail(err, SW_ENVIRONMENT, "more than %d messages at once", TICKETS);
    return r->comm->vtable->transfer(r->comm, to, send, bytes, from, receive, bytes,
                                     &r->ticket[(r->first + r->count++) % TICKETS], err);
}

static int wait(void *context, struct sw_error *err)
{
    struct rank *r = context;
    const uint64_t ticket = r->ticket[r->first];
    r->first = (r->first + 1) % TICKETS;
    r->count--;
    return r->comm->vtable->wait(r->comm, ticket, err);
}

/* This rank's part of [1, tokens, width], filled with numbers in [-1, 1]. */
static struct sw_tensor tensor_of(const struct rank *r, enum sw_dtype dtype, int64_t width,
                                  uint64_t seed)
{
    const int64_t part = r->shape->tokens / r->shape->ranks;
    struct sw_tensor t = {.dtype = dtype,
                          .ndim = 3,
                          .size = {1, part, width},
                          .global = {1, r->shape->tokens, width},
                          .start = {0, r->comm->rank * part, 0},
                          .elems = part * width};
    t.data = r->device->vtable->allocate(r->device, (size_t)t.elems * sw_dtype_bytes(dtype));
    if (t.data == NULL)
        leave("out of memory");
    uint64_t state = (seed * 31 + (uint64_t)r->comm->rank) * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < t.elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float value = (float)(state >> 40) * 0x1p-23f - 1;
        if (dtype == SW_F32)
            ((float *)t.data)[i] = value;
        else
            ((uint16_t *)t.data)[i] = sw_bf16_from_float(value);
    }
    return t;
}

/* Of queries, as they are stored, and of keys by position. */
static void add_documents(struct rank *r)
{
    const struct shape *s = r->shape;
    const int64_t part = s->tokens / s->ranks;
    for (int i = 0; i < 2; i++) {
        struct sw_tensor *t = &r->in[6 + i];
        *t = (struct sw_tensor){.dtype = SW_I32, .ndim = 2, .size = {1, i == 0 ? part : s->tokens}};
        t->elems = t->size[1];
        t->data = r->device->vtable->allocate(r->device, (size_t)t->elems * sizeof(int32_t));
        if (t->data == NULL)
            leave("out of memory");
        for (int64_t j = 0; j < t->elems; j++)
            ((int32_t *)t->data)[j] =
                s->documents[i == 1 ? j
                                    : sw_sequence_position(s->layout, s->tokens, (int32_t)s->ranks,
                                                           r->comm->rank * part + j)];
        r->given[3 + i] = *t;
    }
    r->forward.n_in = 5;
    r->forward.as.attention.segments = true;
}

static void prepare(struct rank *r)
{
    const struct shape *s = r->shape;
    struct sw_attention_workspace layout;
    for (int i = 0; i < 3; i++) {
        const int64_t width = (i == 0 ? s->heads : s->kv_heads) * s->dim;
        r->in[i] = tensor_of(r, s->dtype, width, (uint64_t)i + 1);
        r->gradients[i] = tensor_of(r, s->dtype, width, 0);
    }
    r->in[3] = r->out[0] = tensor_of(r, s->dtype, s->heads * s->dim, 0);
    r->in[4] = r->out[1] = tensor_of(r, SW_F32, s->heads, 0);
    r->in[5] = tensor_of(r, s->dtype, s->heads * s->dim, 4);
    r->forward = (struct sw_op){.kind = SW_OP_ATTENTION, .n_in = 3, .n_out = 2};
    r->forward.axes = (struct sw_axes){1, {SW_SP}};
    r->forward.as.attention =
        (struct sw_attention_attributes){.scale = 1 / sqrt((double)s->dim),
                                         .head_dim = (int32_t)s->dim,
                                         .group = (int32_t)(s->heads / s->kv_heads),
                                         .window = s->window,
                                         .halo = s->window > 0,
                                         .sequence_shards = (int32_t)s->ranks,
                                         .sequence_layout = (int32_t)s->layout};
    memcpy(r->given, r->in, 3 * sizeof *r->in);
    if (s->documents != NULL)
        add_documents(r);
    r->backward = r->forward;
    r->backward.kind = SW_OP_ATTENTION_GRAD;
    r->backward.n_in += 3;
    r->backward.n_out = 3;
    sw_attention_workspace_of(&r->backward, (int32_t)s->ranks, r->in[0].size, r->in[1].size,
                              s->dtype, &layout);
    r->forward.workspace_bytes = r->backward.workspace_bytes = layout.bytes;
    r->workspace = r->device->vtable->allocate(r->device, (size_t)layout.bytes + 64);
    if (r->workspace == NULL)
        leave("out of memory");
}

static void *attend(void *argument)
{
    struct rank *r = argument;
    struct sw_error err = {0};
    const struct sw_ring ring = {.index = r->comm->rank,
                                 .size = (int32_t)r->shape->ranks,
                                 .inner = (int32_t)r->shape->ranks,
                                 .context = r,
                                 .start = start,
                                 .wait = wait};
    struct sw_call call = {
        .op = &r->forward, .in = r->given, .out = r->out, .workspace = r->workspace, .ring = &ring};
    const double begun = sw_clock_busy();
    if (r->device->vtable->run[SW_OP_ATTENTION](r->device, &call, &err) != 0)
        leave(err.message);
    call.op = &r->backward;
    call.in = r->in;
    call.out = r->gradients;
    if (r->device->vtable->run[SW_OP_ATTENTION_GRAD](r->device, &call, &err) != 0)
        leave(err.message);
    r->seconds = sw_clock_busy() - begun;
    return NULL;
}

/* Seconds of the rank that has most to do. */
static double round_of(const struct shape *shape)
{
    static struct rank ranks[RANKS_MOST]; /* too large for a stack */
    struct sw_comm *comms[RANKS_MOST] = {NULL};
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, (int32_t)shape->ranks);
    struct sw_error err = {0};
    double most = 0;
    if (sw_comm_threads_create(&mesh, comms, &err) != 0)
        leave(err.message);
    for (int64_t i = 0; i < shape->ranks; i++) {
        ranks[i] = (struct rank){.shape = shape, .comm = comms[i]};
        ranks[i].device = sw_cpu_device_create(1, &err);
        if (ranks[i].device == NULL)
            leave(err.message);
        prepare(&ranks[i]);
    }
    for (int64_t i = 0; i < shape->ranks; i++)
        if (pthread_create(&ranks[i].thread, NULL, attend, &ranks[i]) != 0)
            leave("no more threads");
    for (int64_t i = 0; i < shape->ranks; i++) {
        struct rank *r = &ranks[i];
        (void)pthread_join(r->thread, NULL);
        most = r->seconds > most ? r->seconds : most;
    }
    for (int64_t i = 0; i < shape->ranks; i++) {
        struct rank *r = &ranks[i];
        r->comm->vtable->destroy(r->comm);
        for (int t = 0; t < (shape->documents != NULL ? 8 : 6); t++)
            r->device->vtable->release(r->device, r->in[t].data);
        for (int t = 0; t < 3; t++)
            r->device->vtable->release(r->device, r->gradients[t].data);
        r->device->vtable->release(r->device, r->workspace);
        r->device->vtable->destroy(r->device);
    }
    return most;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- Masks ---- */

/* Pairs of the rank that has most. */
static double area_of(const struct shape *s)
{
    const int64_t part = s->tokens / s->ranks;
    double most = 0;
    for (int64_t rank = 0; rank < s->ranks; rank++) {
        double pairs = 0;
        for (int64_t i = 0; i < part; i++) {
            const int64_t q =
                sw_sequence_position(s->layout, s->tokens, (int32_t)s->ranks, rank * part + i);
            int64_t first = s->window > 0 && q >= s->window ? q - s->window + 1 : 0;
            if (s->documents != NULL) /* ascending: the first position of its own */
                first = first > s->documents[q] ? first : s->documents[q];
            pairs += (double)(q - first + 1);
        }
        most = pairs > most ? pairs : most;
    }
    return most;
}

static double median_of(const struct shape *s)
{
    double seconds[ROUNDS_MOST];
    for (int64_t round = 0; round < s->rounds; round++)
        seconds[round] = round_of(s);
    qsort(seconds, (size_t)s->rounds, sizeof *seconds, by_size);
    return seconds[s->rounds / 2];
}

/* A document's number is its first position; lengths from 1 to an eighth of the sequence, short
 * ones more often. */
static int32_t *draw_documents(int64_t tokens)
{
    int32_t *document = malloc((size_t)tokens * sizeof *document);
    uint64_t state = 1;
    if (document == NULL)
        leave("out of memory");
    for (int64_t i = 0, left = 0, first = 0; i < tokens; i++, left--) {
        if (left == 0) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double drawn = (double)(state >> 40) * 0x1p-24;
            left = 1 + (int64_t)(pow(drawn, 3) * (double)tokens / 8);
            first = i;
        }
        document[i] = (int32_t)first;
    }
    return document;
}

static void compare_masks(struct shape s, int64_t window)
{
    int32_t *documents = draw_documents(s.tokens);
    s.layout = SW_ZIGZAG;
    const double causal = median_of(&s), whole = area_of(&s);
    printf("bf16, %lld tokens over %lld ranks, causal: %.1f ms\n", (long long)s.tokens,
           (long long)s.ranks, causal * 1e3);
    for (int kind = 0; kind < 4; kind++) {
        s.layout = kind % 2 == 0 ? SW_ZIGZAG : SW_CONTIGUOUS;
        s.window = kind < 2 ? window : 0;
        s.documents = kind < 2 ? NULL : documents;
        const double share = area_of(&s) / whole, seconds = median_of(&s);
        printf("%s, %s: %.1f ms, %.4f of the pairs: %.3f of the share\n",
               kind < 2 ? "window" : "documents", kind % 2 == 0 ? "zigzag" : "contiguous",
               seconds * 1e3, share, seconds / causal / share);
    }
    free(documents);
}

int main(int argc, char **argv)
{
    struct shape s = {SW_BF16_T, 8192, 12, 12, 64, 2, 5, SW_CONTIGUOUS, 0, NULL};
    int64_t window = 4096;
    int64_t *sizes[] = {&s.tokens, &s.heads, &s.kv_heads, &s.dim, &s.ranks, &s.rounds, &window};
    double seconds[2][ROUNDS_MOST];
    if (argc > 1 && strcmp(argv[1], "fp32") == 0)
        s.dtype = SW_F32;
    for (int i = 2; i < argc && i < 9; i++)
        *sizes[i - 2] = atoll(argv[i]);
    if (s.ranks < 2 || s.ranks > RANKS_MOST || s.rounds < 1 || s.rounds > ROUNDS_MOST ||
        s.kv_heads < 1 || s.heads % s.kv_heads != 0 || s.tokens % (2 * s.ranks) != 0)
        return leave("2 to 16 ranks, 1 to 64 rounds, and tokens that divide by 2 * ranks");
    if (argc > 1 && strcmp(argv[1], "masks") == 0) {
        compare_masks(s, window);
        return 0;
    }
    for (int64_t round = 0; round < s.rounds; round++)
        for (int layout = 0; layout < 2; layout++) {
            s.layout = layout == 0 ? SW_CONTIGUOUS : SW_ZIGZAG;
            seconds[layout][round] = round_of(&s);
        }
    for (int layout = 0; layout < 2; layout++)
        qsort(seconds[layout], (size_t)s.rounds, sizeof(double), by_size);
    const double contiguous = seconds[0][s.rounds / 2], zigzag = seconds[1][s.rounds / 2];
    printf("%s, %lld tokens over %lld ranks: contiguous %.1f ms, zigzag %.1f ms: %.3f times as "
           "fast, of %.3f\n",
           s.dtype == SW_F32 ? "fp32" : "bf16", (long long)s.tokens, (long long)s.ranks,
           contiguous * 1e3, zigzag * 1e3, contiguous / zigzag,
           (double)(2 * s.ranks - 1) / (double)s.ranks);
    return 0;
}
