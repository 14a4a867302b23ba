/* A device: memory and one function per op kind, implemented in cpu/ and cuda/.
 *
 * Knows programs, never YAML. Used by one thread, the compute thread. */
#ifndef SW_DEVICE_H
#define SW_DEVICE_H

#include "core/ir/op.h"

/* An op's operand: this rank's shard. */
struct sw_tensor {
    void *data;
    enum sw_dtype dtype;
    uint8_t ndim;
    int64_t
        size[SW_MAX_DIMS]; /* local shape; for SW_INDEX_WHOLE size[0] is multiplied by the stack */
    /* elements at the end of each dimension that pad an uneven split (sharding.h): an op that
     * creates the tensor writes zeros there, one that knows the true size skips them. 0 for
     * SW_INDEX_WHOLE, whose ops are elementwise */
    int64_t padding[SW_MAX_DIMS];
    int64_t global[SW_MAX_DIMS]; /* global shape, without padding */
    int64_t start[SW_MAX_DIMS];  /* global offset of this shard in storage order */
    int64_t elems;               /* product of size */
    bool tiled;                  /* true if stored in tiles (core/base/device.h) */
};

/* Numbers that change from step to step. */
struct sw_step {
    int64_t step;       /* from 1: AdamW's bias correction */
    int32_t micro_step; /* from 0 */
    double learning_rate, beta1, beta2, eps, weight_decay, grad_clip;
    double loss_scale; /* factor of the tokens' summed loss: 1 / labels counted in the step */
    /* true if AdamW leaves weights and moments unchanged: no label counts in this step */
    bool no_update;
    /* Largest loss and gradient norm with which a guarded AdamW updates; finite, so that infinity
     * and NaN exceed them. */
    double most_loss, most_norm;
};

/* True if AdamW updates in this step. loss, norm: read only if guarded; equal on all ranks. */
static inline bool sw_step_updates(const struct sw_step *step, bool guarded, double loss,
                                   double norm)
{
    return !step->no_update && (!guarded || (loss <= step->most_loss && norm <= step->most_norm));
}

/* Transport of attention's blocks, implemented over the collectives. The ring consists of inner
 * rings of `inner` consecutive members; inner = size: one ring. `start` begins sending `bytes` from
 * `send` to member `to` and receiving `bytes` from member `from` into `receive`; `wait` completes
 * the oldest start. index: this rank's member number. Never called if size is 1. Schedule:
 * core/ir/ring.h. */
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
    /* True if a row (a token) must get the same bits in whichever row it is. */
    bool batch_invariant;
    /* True if products always use the skinny kernels, however many rows there are, on devices where
     * those are batch invariant (the target's invariant_rows). */
    bool always_skinny;
    /* Serving: slots per rank in the plan, whatever the rows of this call; a device may choose its
     * skinny kernel by them. */
    int64_t planned_slots;
    const float *rope_divisors; /* [SW_ROPE_MOST_PAIRS], the program's; NULL if no op reads them */
};

/* True if a product adds its gradient to the sum in place now. If false it overwrites the sum, as
 * the first product of the first micro-step does. */
static inline bool sw_call_adds_now(const struct sw_call *call)
{
    return sw_op_adds_gradient(call->op) &&
           (!call->op->as.gradient.first || call->step->micro_step > 0);
}

/* Properties that the hardware reports. */
struct sw_device_facts {
    char name[96];        /* "NVIDIA H200" */
    int32_t major, minor; /* compute capability */
    int32_t units;        /* multiprocessors */
    int64_t memory_bytes; /* total, in use or not */
};

/* A box of weights [k, n] to be tiled: `lines` lines from `line`, `columns` columns from `column`.
 * Element (l, c) of the box is at `from` + l * line_apart + c * column_apart, at any alignment. */
struct sw_tile_box {
    const void *from;
    int64_t line, lines, column, columns;
    int64_t line_apart, column_apart; /* bytes */
};

struct sw_device;
struct sw_recording;

struct sw_device_vtable {
    const char *name;    /* "cpu", "cuda" */
    bool in_host_memory; /* true if the host may read and write allocated memory */
    const char *takes;   /* op attributes only a device listing them executes (op.h), each name
                          * between spaces; NULL: none */
    /* Fresh zeroed memory; NULL if there is none. */
    void *(*allocate)(struct sw_device *device, size_t bytes);
    void (*release)(struct sw_device *device, void *memory);
    int (*copy_in)(struct sw_device *device, void *to, const void *host, size_t bytes);
    int (*copy_out)(struct sw_device *device, void *host, const void *from, size_t bytes);
    /* Copies `rows` rows of width_bytes within the device's memory, in the order of its ops. Source
     * and destination do not overlap. */
    int (*copy_box)(struct sw_device *device, void *to, size_t to_stride_bytes, const void *from,
                    size_t from_stride_bytes, size_t width_bytes, size_t rows);
    /* Tiles weights [k, n] (`turned`: stored [n, k]) of bf16 or 8 bits (core/base/device.h). NULL:
     * the device has no tiles. */
    void (*tile)(struct sw_device *device, enum sw_dtype dtype, void *to, const void *from,
                 int64_t k, int64_t n, bool turned);
    /* Tiles one box on the caller's thread; threads may tile different boxes at once. */
    void (*tile_box)(struct sw_device *device, enum sw_dtype dtype, void *to, int64_t k,
                     const struct sw_tile_box *box);
    /* Calls each(context, i, thread) once for every i in [0, count), in roughly that order, on
     * `host_threads` host threads, 0 <= thread < host_threads; returns when all are done. NULL:
     * sw_device_for_each uses the caller's thread. */
    void (*for_each)(struct sw_device *device, int64_t count,
                     void (*each)(void *context, int64_t i, int32_t thread), void *context);
    /* True if weights of this type that a plan tiles are really tiled: on some processors products
     * are faster from the declared layout. NULL: always true. */
    bool (*tiles)(enum sw_dtype dtype);
    int (*synchronize)(struct sw_device *device, struct sw_error *err);
    void (*destroy)(struct sw_device *device);
    /* Members from here to `run` may be NULL; a device that queues its work and returns at once has
     * them. */
    /* Sets the values that ops read, before each micro-step and before the update. */
    int (*set_step)(struct sw_device *device, const struct sw_step *step, struct sw_error *err);
    int64_t (*free_bytes)(struct sw_device *device); /* free device memory; -1: unknown */
    int (*facts)(struct sw_device *device, struct sw_device_facts *out, struct sw_error *err);
    /* Ops queued between begin and end do not run: they form a recording, which `replay` queues any
     * number of times with the newest step. `out` NULL: discards it. */
    int (*record_begin)(struct sw_device *device, struct sw_error *err);
    int (*record_end)(struct sw_device *device, struct sw_recording **out, struct sw_error *err);
    int (*replay)(struct sw_device *device, struct sw_recording *recording, struct sw_error *err);
    void (*recording_free)(struct sw_device *device, struct sw_recording *recording);
    /* Queues a timestamp of the device's clock; a recorded one is taken anew at each replay. index:
     * from 0; while recording, at most the largest used before. */
    int (*mark)(struct sw_device *device, int32_t index, struct sw_error *err);
    /* Seconds between two marks' latest timestamps; call after `synchronize`. -1: unknown. */
    double (*mark_seconds)(struct sw_device *device, int32_t from, int32_t to);
    /* NULL for kinds the device does not execute (constrain, collectives, wait). */
    int (*run[SW_OP_COUNT])(struct sw_device *device, const struct sw_call *call,
                            struct sw_error *err);
};

struct sw_device {
    const struct sw_device_vtable *vtable;
    int32_t host_threads; /* threads of for_each; 0: one */
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

/* True if weights of this type that the plan tiles are really tiled. */
static inline bool sw_device_tiles(const struct sw_device *device, enum sw_dtype dtype)
{
    return device->vtable->tiles == NULL || device->vtable->tiles(dtype);
}

/* threads: OpenMP threads of this rank (>= 1). The caller frees the device with its `destroy`. */
struct sw_device *sw_cpu_device_create(int32_t threads, struct sw_error *err);

#endif
