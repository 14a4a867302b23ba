/* Runs a program on in-process ranks (a thread each, collectives through shared memory) and returns
 * values to compare: losses, gradient norms, and values gathered to global arrays in natural order.
 *
 * Owns threads, executors and result. A failing rank prints a line and ends the process: its peers
 * would wait forever. Link with sw_program, sw_runner, sw_collective, sw_device_cpu. */
#ifndef SW_TEST_HARNESS_H
#define SW_TEST_HARNESS_H

#include "runner/collective/comm.h"
#include "runner/rank/execute.h"

enum { SW_HARNESS_MAX_VALUES = 24 };

/* Called on every rank's thread around step `step` (from 1), between barriers. */
typedef void (*sw_harness_hook)(void *context, int32_t rank, int64_t step, bool begins);

/* Fills a parameter's instance as an unsharded row-major array. Ranks call it concurrently. */
typedef void (*sw_harness_parameter)(void *context, const char *name, int32_t instance,
                                     float *values, int64_t elems);

struct sw_harness {
    const struct sw_program_options *options;
    uint64_t seed;
    double stddev;     /* for initial parameters */
    bool spread_norms; /* true: norm weights are 1 + the generator's value, biases and other zeros
                        * its value, to reveal a forgotten one */
    sw_harness_parameter parameter; /* replaces the generator, fp32; may be NULL */
    void *parameter_context;
    const int32_t *rows; /* [steps * global batch, sequence + 1] tokens; NULL: the generator's */
    /* [steps * global batch, sequence]: required if the options have segments, or positions per
     * row */
    const int32_t *segments, *positions;
    /* The same for labels, instead of the next tokens; the loss is a step's mean over labels other
     * than -1. May be NULL */
    const int32_t *labels;
    int64_t ignored;     /* k > 0: every k-th label of a step is -1 */
    int64_t steps;       /* >= 1 */
    struct sw_step step; /* hyper-parameters; the harness sets step and micro_step */
    const char *const
        *values;          /* names to gather after the last step, NULL-terminated; NULL: none */
    sw_harness_hook hook; /* may be NULL */
    void *hook_context;
    bool unpoisoned; /* true as in a job; false: each call finds the arena after the state poisoned
                      * (sw_executor_options) */
    /* n > 0, when training: after every n-th step a save, whose chunks are discarded, then an
     * evaluation of the next step's batch */
    int64_t save_every, evaluate_every;
    int64_t save_chunk_bytes; /* see sw_exchange_make, at most the set's; 0: the set's */
    /* Another device, and a communicator for it that takes over *comm; both may be NULL. Values are
     * gathered only if the host can read device memory. */
    struct sw_device *(*device)(struct sw_error *err);
    int (*connect)(struct sw_device *device, struct sw_comm **comm, struct sw_error *err);
};

/* A value as on a single device: [stack, size...], in double whatever its dtype. */
struct sw_harness_value {
    char name[SW_NAME_BYTES];
    int64_t elems;
    double *data;
};

struct sw_harness_result {
    int64_t steps;
    double *loss, *grad_norm; /* [steps], from rank 0 */
    double *evaluated;        /* [steps]: the batch's loss before the step; NAN: not evaluated */
    int64_t saved_bytes;      /* over all saves and ranks */
    int64_t arena_bytes, planned_arena_bytes; /* rank 0's executor's; predicted by the program */
    int64_t rank_differences; /* losses, norms or replicas that differ between ranks in a bit */
    int32_t value_count;
    struct sw_harness_value value[SW_HARNESS_MAX_VALUES];
};

/* Runs the harness. Tokens of sequence n are draws n (S + 1) .. n (S + 1) + S of x <-
 * 6364136223846793005 x + 1442695040888963407 mod 2^64, from x = seed, token (x >> 33) mod vocab;
 * inputs are the first S, labels the last S. Step s (from 1) reads sequences from (s - 1)
 * global_batch. Returns 0, or -1 (err filled: the mesh does not fit, memory). Free *out with
 * sw_harness_result_free. */
int sw_harness_run(const struct sw_harness *harness, struct sw_harness_result *out,
                   struct sw_error *err);
void sw_harness_result_free(struct sw_harness_result *result);
/* NULL if not gathered. */
const struct sw_harness_value *sw_harness_find(const struct sw_harness_result *result,
                                               const char *name);
/* max |a - b| / max |b|; 0 if both are all 0, infinity if sizes differ or an element is not
 * finite. */
double sw_harness_difference(const double *a, const double *b, int64_t elems);

/* All meshes of 1, 2, 4 and 8 ranks, in a fixed order. */
enum { SW_HARNESS_MESHES = 35 };
void sw_harness_meshes(struct sw_mesh meshes[SW_HARNESS_MESHES]);

#endif
