#include "runner/calibrate/step.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "runner/calibrate/kernels.h"
#include "runner/calibrate/links.h"
#include "runner/collective/comm.h"

#include <stdlib.h>

enum { STEPS = 5, FIRST_STEPS = 2 };

/* Shortest limit of the wait between ranks; a plan's own may be longer. enough_s: time to spend on
 * steps. */
static const double longest_s = 30;
static const double enough_s = 30;

/* A shape that was not measured, with as many heads as a node's ranks can share. */
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

/* The first steps choose kernels and make recordings; with long steps only one more is timed. Times
 * are equal on every rank, and so is the number of steps. */
static int time_steps(struct sw_executor *executor, struct sw_comm *world, int64_t vocab_size,
                      double *seconds, struct sw_error *err)
{
    double took[STEPS], spent = 0;
    int32_t count = 0;
    for (int64_t i = 0; count < STEPS && (count == 0 || spent < enough_s); i++) {
        if (world->size > 1 && world->vtable->barrier(world, err) != 0)
            return -1;
        const double begin = sw_clock_now();
        if (sw_rate_step(executor, vocab_size, i + 1, err) != 0)
            return -1;
        double one = (sw_clock_now() - begin) / world->size;
        if (sw_calibrate_sum(world, &one, 1, err) != 0)
            return -1;
        spent += one;
        if (i >= FIRST_STEPS || (i > 0 && spent > enough_s))
            took[count++] = one;
    }
    qsort(took, (size_t)count, sizeof *took, sw_compare_doubles);
    *seconds = took[count / 2];
    return 0;
}

/* Compiles the programs; a plan's exist already. */
static int compile(struct sw_rank *rank, const struct sw_program_options *options)
{
    struct sw_program *program = NULL;
    if (rank->plan != NULL)
        return 0;
    return sw_program_compile(options, SW_LAID_OUT, &program, &rank->err) != 0
               ? -1
               : sw_program_set_single(program, SW_PROGRAM_TRAIN, &rank->programs, &rank->err);
}

int sw_calibrate_step(struct sw_rank *rank, int32_t nodes, double *seconds)
{
    const bool queues = rank->device->vtable->mark != NULL;
    const struct sw_program_options own = options_of(nodes, rank->launch->size / nodes, queues);
    const struct sw_plan *plan = rank->plan;
    const struct sw_mesh mesh = plan != NULL ? plan->decision.mesh : own.mesh;
    const double rank_s = plan != NULL ? plan->prediction.step_seconds : 0;
    struct sw_error *err = &rank->err;
    struct sw_axes groups[SW_MESH_GROUPS];
    if (compile(rank, &own) != 0)
        return -1;
    if (rank->comm != NULL)
        rank->comm->vtable->destroy(rank->comm);
    rank->comm = NULL;
    if (sw_rank_connect(rank, &mesh, groups, sw_program_set_axes(rank->programs, groups),
                        rank_s > longest_s ? rank_s : longest_s) != 0 ||
        sw_executor_create(rank->programs, rank->device, rank->comm, NULL, &rank->executor, err) !=
            0 ||
        sw_executor_init_state(rank->executor, 1, 0.02, err) != 0)
        return -1;
    return time_steps(rank->executor, rank->comm,
                      plan != NULL ? plan->run->model.shape.vocab_size : own.model.vocab_size,
                      seconds, err);
}
