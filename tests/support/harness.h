/* Runs a program on in-process ranks (one thread each, collectives through shared memory) and
 * brings back what tests compare: losses, gradient norms and values gathered to global arrays in
 * natural order.
 *
 * Owns the threads, the executors and the result. A rank that fails prints one line and ends the
 * process: its peers would wait for it forever. Link with sw_program, sw_runner, sw_collective,
 * sw_device_cpu. */
#ifndef SW_TEST_HARNESS_H
#define SW_TEST_HARNESS_H

#include "runner/collective/comm.h"
#include "runner/rank/execute.h"

enum { SW_HARNESS_MAX_VALUES = 24 };

/* Called by every rank's thread around step `step` (from 1); all ranks stand at a barrier before
 * and after. */
typedef void (*sw_harness_hook)(void *context, int32_t rank, int64_t step, bool begins);

/* Fills instance `instance` of a parameter, as an unsharded row-major array. Ranks call it at the
 * same time. */
typedef void (*sw_harness_parameter)(void *context, const char *name, int32_t instance,
                                     float *values, int64_t elems);

struct sw_harness {
    const struct sw_program_options *options;
    uint64_t seed;
    double stddev;     /* of the initial parameters */
    bool spread_norms; /* norm weights are 1 + the generator's value, biases and other zeros its
                        * value, so that a forgotten one shows */
    sw_harness_parameter parameter; /* given instead of the generator's, fp32; may be NULL */
    void *parameter_context;
    const int32_t *rows; /* [steps * global batch, sequence + 1] tokens, given instead of the
                            generator's; may be NULL */
    /* [steps * global batch, sequence]: of the tokens, where the options have segments, and where
     * they have positions of rows */
    const int32_t *segments, *positions;
    /* The same of labels, given instead of the next tokens; the loss is the mean over those of a
     * step that are not -1. May be NULL */
    const int32_t *labels;
    int64_t ignored;     /* k > 0: the label of every k-th token of a step is -1 */
    int64_t steps;       /* >= 1 */
    struct sw_step step; /* hyper-parameters; step and micro_step are set by the harness */
    const char *const
        *values;          /* names to gather after the last step, NULL-terminated; NULL: none */
    sw_harness_hook hook; /* may be NULL */
    void *hook_context;
    bool unpoisoned; /* as in a job; else each call finds the arena behind the state poisoned
                      * (sw_executor_options) */
    /* n > 0, of training: behind every n-th step a save, whose chunks are thrown away, and an
     * evaluation of the next step's batch, in this order */
    int64_t save_every, evaluate_every;
    int64_t save_chunk_bytes; /* as sw_exchange_make, at most the set's; 0: the set's */
    /* Another device than the CPU's, and a communicator for it in place of *comm, which it takes;
     * both may be NULL. Values are gathered only where the host can read the device's memory. */
    struct sw_device *(*device)(struct sw_error *err);
    int (*connect)(struct sw_device *device, struct sw_comm **comm, struct sw_error *err);
};

/* A value on one imaginary device: [stack, size...], doubles whatever it was stored as. */
struct sw_harness_value {
    char name[SW_NAME_BYTES];
    int64_t elems;
    double *data;
};

struct sw_harness_result {
    int64_t steps;
    double *loss, *grad_norm; /* [steps], as rank 0 saw them */
    double *evaluated;        /* [steps]: the batch's loss before the step; NAN: not evaluated */
    int64_t saved_bytes;      /* of all saves and ranks */
    int64_t arena_bytes,
        planned_arena_bytes; /* what rank 0's executor holds, what the program says */
    int64_t
        rank_differences; /* losses, norms or elements of replicas in which ranks differ by a bit */
    int32_t value_count;
    struct sw_harness_value value[SW_HARNESS_MAX_VALUES];
};

/* Tokens of sequence n are draws n (S + 1) .. n (S + 1) + S of x <- 6364136223846793005 x +
 * 1442695040888963407 mod 2^64, from x = seed, token (x >> 33) mod vocab; inputs are the first S,
 * labels the last S. Step s (from 1) reads sequences (s - 1) global_batch onwards. Returns 0, or -1
 * (err filled: the mesh does not fit, memory). *out is the caller's, free with
 * sw_harness_result_free. */
int sw_harness_run(const struct sw_harness *harness, struct sw_harness_result *out,
                   struct sw_error *err);
void sw_harness_result_free(struct sw_harness_result *result);
/* NULL when it was not gathered. */
const struct sw_harness_value *sw_harness_find(const struct sw_harness_result *result,
                                               const char *name);
/* max |a - b| / max |b|; 0 when both are all 0, infinity when the sizes differ or an element is not
 * finite. */
double sw_harness_difference(const double *a, const double *b, int64_t elems);

/* Every mesh of 1, 2, 4 and 8 ranks, in a fixed order. */
enum { SW_HARNESS_MESHES = 35 };
void sw_harness_meshes(struct sw_mesh meshes[SW_HARNESS_MESHES]);

#endif
