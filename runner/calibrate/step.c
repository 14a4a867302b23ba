#include "runner/calibrate/step.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "runner/calibrate/kernels.h"
#include "runner/calibrate/links.h"
#include "runner/collective/comm.h"

#include <stdlib.h>

enum { STEPS = 5, FIRST_STEPS = 2 }; /* the first ones choose kernels and make recordings */

/* Ranks wait for each other a step long. */
static const double longest_s = 30;

/* Of none of the shapes that were measured. As many heads as the ranks of a node can share. */
static struct sw_program_options options_of(int32_t nodes, int32_t local, bool queues)
{
    const int32_t head_dim = queues ? 128 : 32, least = queues ? 12 : 6;
    const int32_t heads = (least + local - 1) / local * local, hidden = heads * head_dim;
    struct sw_program_options o = {
        .model.vocab_size = (queues ? 2048 : 256) * local,
        .model.hidden_size = hidden,
        .model.intermediate_size = 3 * hidden,
        .model.layers = 3,
        .model.heads = heads,
        .model.kv_heads = heads,
        .model.head_dim = head_dim,
        .model.rope.theta = 10000,
        .model.rms_norm_eps = 1e-5,
        .sequence_length = queues ? 2048 : 192,
        .global_batch = 2 * nodes,
        .micro_batch_per_rank = 2,
        .compute = queues ? SW_BF16_T : SW_F32,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = sw_mesh_make(nodes, 1, local, 1),
        .layout = SW_ZIGZAG,
    };
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

static int time_steps(struct sw_executor *executor, struct sw_comm *world, int64_t vocab_size,
                      double *seconds, struct sw_error *err)
{
    double took[STEPS];
    for (int64_t i = 0; i < FIRST_STEPS + STEPS; i++) {
        if (world->size > 1 && world->vtable->barrier(world, err) != 0)
            return -1;
        const double begin = sw_clock_now();
        if (sw_rate_step(executor, vocab_size, i + 1, err) != 0)
            return -1;
        if (i >= FIRST_STEPS)
            took[i - FIRST_STEPS] = sw_clock_now() - begin;
    }
    qsort(took, STEPS, sizeof *took, sw_compare_doubles);
    *seconds = took[STEPS / 2] / world->size;
    return sw_calibrate_sum(world, seconds, 1, err);
}

int sw_calibrate_step(struct sw_rank *rank, int32_t nodes, double *seconds)
{
    const bool queues = rank->device->vtable->mark != NULL;
    const struct sw_program_options options = options_of(nodes, rank->launch->size / nodes, queues);
    struct sw_error *err = &rank->err;
    struct sw_program *program = NULL;
    struct sw_axes groups[SW_MESH_GROUPS];
    if (sw_program_compile(&options, SW_LAID_OUT, &program, err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &rank->programs, err) != 0)
        return -1;
    if (rank->comm != NULL)
        rank->comm->vtable->destroy(rank->comm);
    rank->comm = NULL;
    if (sw_rank_connect(rank, &options.mesh, groups, sw_program_set_axes(rank->programs, groups),
                        longest_s) != 0 ||
        sw_executor_create(rank->programs, rank->device, rank->comm, NULL, &rank->executor, err) !=
            0 ||
        sw_executor_init_state(rank->executor, 1, 0.02, err) != 0)
        return -1;
    return time_steps(rank->executor, rank->comm, options.model.vocab_size, seconds, err);
}
