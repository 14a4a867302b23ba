/* A device: memory and one function per op kind. Implementations in cpu/ and cuda/.
 *
 * Knows programs, never YAML. A device is used by one thread (the compute thread). */
#ifndef SW_DEVICE_H
#define SW_DEVICE_H

#include "core/ir/op.h"

/* One operand as this rank sees it. */
struct sw_tensor {
    void *data;
    enum sw_dtype dtype;
    uint8_t ndim;
    int64_t
        size[SW_MAX_DIMS]; /* local shape; for SW_INDEX_WHOLE size[0] is multiplied by the stack */
    /* of `size`, how many at the end are padding of what is split unevenly (sharding.h): an op that
     * makes the tensor anew writes zeros there, one that knows the size from elsewhere passes them
     * over. None for SW_INDEX_WHOLE, whose ops are elementwise */
    int64_t padding[SW_MAX_DIMS];
    int64_t global[SW_MAX_DIMS]; /* global shape, without padding */
    int64_t start[SW_MAX_DIMS];  /* global offset of this shard in storage order */
    int64_t elems;               /* product of size */
    bool tiled;                  /* lies in tiles (core/base/device.h) */
};

/* What changes from step to step. */
struct sw_step {
    int64_t step;       /* from 1: AdamW's bias correction */
    int32_t micro_step; /* from 0 */
    double learning_rate, beta1, beta2, eps, weight_decay, grad_clip;
    double loss_scale; /* of the sum of the tokens' losses: 1 / labels that count in the step */
    /* true if AdamW leaves weights and moments as they are: a step in which no label counts */
    bool no_update;
    /* Largest loss and gradient norm with which a guarded AdamW updates; finite, so that an
     * infinite or undefined one is above. */
    double most_loss, most_norm;
};

/* True if AdamW updates in this step. loss: of a guarded one; every rank has the same numbers. */
static inline bool sw_step_updates(const struct sw_step *step, bool guarded, double loss,
                                   double norm)
{
    return !step->no_update && (!guarded || (loss <= step->most_loss && norm <= step->most_norm));
}

/* How attention's blocks travel; implemented over the collectives. The ring is made of inner rings
 * of `inner` consecutive members, or is one of all (inner = size). `start` begins sending `bytes`
 * from `send` to member `to` of the whole ring and receiving as much from member `from` into
 * `receive`; `wait` ends the oldest start. index/size: this rank's place in the whole ring; size 1:
 * never called. core/ir/ring.h says what is sent when. */
struct sw_ring {
    int32_t index, size, inner;
    void *context;
    int (*start)(void *context, int32_t to, int32_t from, const void *send, void *receive,
                 size_t bytes, struct sw_error *err);
    int (*wait)(void *context, struct sw_error *err);
};

struct sw_call {
    const struct sw_op *op;
    const struct sw_tensor *in, *out; /* [op->n_in], [op->n_out] */
    void *workspace;                  /* op->workspace_bytes; aligned to SW_ARENA_ALIGNMENT */
    const struct sw_step *step;
    const struct sw_ring *ring; /* attention(_grad) */
    /* Of the program: what is made of a row (a token) may not depend on which row it is, to the
     * bit. */
    bool batch_invariant;
    /* Products use the kernels of few rows, whatever the number of rows, on devices whose results
     * for these are batch invariant (invariant_rows of the target). */
    bool always_skinny;
    /* Of serving: texts that the plan has at a time on a rank, whatever the rows of this call, by
     * which a device may choose how it makes few of them. */
    int64_t planned_slots;
    const float *rope_divisors; /* the program's, of rope: [SW_ROPE_MOST_PAIRS]; may be NULL where
                                   no op reads them */
};

/* Whether a product adds its gradient to the sum in place now; else it writes over what the sum
 * holds, as the first one does in the first micro-step. */
static inline bool sw_call_adds_now(const struct sw_call *call)
{
    return sw_op_adds_gradient(call->op) &&
           (!call->op->as.gradient.first || call->step->micro_step > 0);
}

/* What hardware says of itself. */
struct sw_device_facts {
    char name[96];        /* "NVIDIA H200" */
    int32_t major, minor; /* compute capability */
    int32_t units;        /* multiprocessors */
    int64_t memory_bytes; /* of the device, whoever uses them */
};

/* A box of weights [k, n] on its way into tiles: so many lines from `line` on, so many columns from
 * `column` on. Number (l, c) of the box lies l * line_apart + c * column_apart bytes behind
 * `from`, at any address. */
struct sw_tile_box {
    const void *from;
    int64_t line, lines, column, columns;
    int64_t line_apart, column_apart; /* bytes */
};

struct sw_device;
struct sw_recording;

struct sw_device_vtable {
    const char *name;    /* "cpu", "cuda" */
    bool in_host_memory; /* what it allocates may be read and written as any memory */
    const char *takes;   /* attributes that ask for a device with them (op.h): names with spaces
                            around each; NULL: none */
    /* Fresh memory, zeroed; NULL when there is none. */
    void *(*allocate)(struct sw_device *device, size_t bytes);
    void (*release)(struct sw_device *device, void *memory);
    int (*copy_in)(struct sw_device *device, void *to, const void *host, size_t bytes);
    int (*copy_out)(struct sw_device *device, void *host, const void *from, size_t bytes);
    /* Rows of width_bytes that begin so far apart on either side, within the device's memory, in
     * the order of its ops. The two do not overlap. */
    int (*copy_box)(struct sw_device *device, void *to, size_t to_stride_bytes, const void *from,
                    size_t from_stride_bytes, size_t width_bytes, size_t rows);
    /* Weights [k, n] of bf16 or 8 bits, `turned` [n, k], into tiles of [k, n] (core/base/device.h).
     * NULL: of a device without them. */
    void (*tile)(struct sw_device *device, enum sw_dtype dtype, void *to, const void *from,
                 int64_t k, int64_t n, bool turned);
    /* The same for a part, on the caller's thread; several may do so at once, with other boxes. */
    void (*tile_box)(struct sw_device *device, enum sw_dtype dtype, void *to, int64_t k,
                     const struct sw_tile_box *box);
    /* Calls each(context, i, thread) once for every i of [0, count), in about that order, on
     * `host_threads` threads of the host, 0 <= thread < host_threads; all are done when it returns.
     * NULL: sw_device_for_each does so on the caller's. */
    void (*for_each)(struct sw_device *device, int64_t count,
                     void (*each)(void *context, int64_t i, int32_t thread), void *context);
    /* Whether weights of this type that a plan has in tiles lie so: on some processors products are
     * faster where they stay as they are declared. NULL: all do. */
    bool (*tiles)(enum sw_dtype dtype);
    int (*synchronize)(struct sw_device *device, struct sw_error *err);
    void (*destroy)(struct sw_device *device);
    /* Those down to `run` may be NULL: for a device that queues its work and returns at once. */
    /* Before each micro-step and before the update: what their ops read. */
    int (*set_step)(struct sw_device *device, const struct sw_step *step, struct sw_error *err);
    int64_t (*free_bytes)(struct sw_device *device); /* of device memory; -1: unknown */
    int (*facts)(struct sw_device *device, struct sw_device_facts *out, struct sw_error *err);
    /* What is queued between begin and end does not run but becomes a recording, which `replay`
     * queues as often as wanted with the newest step. `out` NULL: gives it up. */
    int (*record_begin)(struct sw_device *device, struct sw_error *err);
    int (*record_end)(struct sw_device *device, struct sw_recording **out, struct sw_error *err);
    int (*replay)(struct sw_device *device, struct sw_recording *recording, struct sw_error *err);
    void (*recording_free)(struct sw_device *device, struct sw_recording *recording);
    /* Queues a mark of the device's clock, in a recording too, each replay of which passes it anew.
     * index: from 0; none may be larger, while a recording is made, than the largest before. */
    int (*mark)(struct sw_device *device, int32_t index, struct sw_error *err);
    /* Seconds from one mark to another, as passed last; after `synchronize`. -1: unknown. */
    double (*mark_seconds)(struct sw_device *device, int32_t from, int32_t to);
    /* NULL for kinds a device does not execute (constrain, collectives, wait). */
    int (*run[SW_OP_COUNT])(struct sw_device *device, const struct sw_call *call,
                            struct sw_error *err);
};

struct sw_device {
    const struct sw_device_vtable *vtable;
    int32_t host_threads; /* of for_each; 0: one */
};

static inline int32_t sw_device_host_threads(const struct sw_device *device)
{
    return device->vtable->for_each == NULL || device->host_threads < 1 ? 1 : device->host_threads;
}

static inline void sw_device_for_each(struct sw_device *device, int64_t count,
                                      void (*each)(void *context, int64_t i, int32_t thread),
                                      void *context)
{
    if (device->vtable->for_each != NULL) {
        device->vtable->for_each(device, count, each, context);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        each(context, i, 0);
}

/* Of a type that the plan has in tiles. */
static inline bool sw_device_tiles(const struct sw_device *device, enum sw_dtype dtype)
{
    return device->vtable->tiles == NULL || device->vtable->tiles(dtype);
}

/* threads: OpenMP threads of this rank (>= 1). The caller destroys it through its vtable. */
struct sw_device *sw_cpu_device_create(int32_t threads, struct sw_error *err);

#endif
