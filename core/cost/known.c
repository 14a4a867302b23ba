/* Parts that prices of one program share. */
#include "core/cost/cost.h"
#include "core/ir/walk.h"

#include <stdlib.h>

static enum sw_cost_work work_of(const struct sw_program *p, const struct sw_op *op)
{
    /* streamed weights are read from a gather's result */
    return sw_op_reads(p, op, SW_ROLE_CACHE)                     ? SW_WORK_CACHE
           : sw_op_info(op->kind)->cost_class == SW_CLASS_MATMUL ? SW_WORK_WEIGHTS
                                                                 : SW_WORK_REST;
}

/* ends_of: [value_count], index of a value among the awaited ones, or -1. */
static int16_t find_end(struct sw_cost_known *known, int16_t *ends_of, int32_t value)
{
    if (ends_of[value] < 0)
        ends_of[value] = (int16_t)known->ends++;
    return ends_of[value];
}

static void read_steps(struct sw_cost_known *known, const struct sw_program *p, int16_t *ends_of)
{
    for (int32_t v = 0; v < p->value_count; v++)
        ends_of[v] = -1;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        struct sw_cost_step *step = &known->step[i];
        *step = (struct sw_cost_step){.first_equal = sw_program_first_equal_op(p, i),
                                      .when = sw_walk_when(op),
                                      .axes = sw_axes_set(op->axes)};
        known->once = known->once || op->last_micro_step;
        if (sw_op_is_wait(op->kind)) {
            step->stream = SW_STREAM_WAIT;
            step->ends = find_end(known, ends_of, op->in[0].value);
        } else if (sw_op_is_collective(op->kind)) {
            step->stream = SW_STREAM_COMMUNICATION;
            step->ends = find_end(known, ends_of, op->out[0].value);
            step->of_weights = sw_op_reads(p, op, SW_ROLE_PARAMETER);
        } else {
            step->stream = SW_STREAM_COMPUTE;
            step->work = (uint8_t)work_of(p, op);
            step->of_batch = step->first_equal < i ? known->step[step->first_equal].of_batch
                                                   : sw_traffic_op_of_batch(p, op);
            step->talks = step->axes != 0 && (sw_op_is_ring(op) || sw_op_is_exchange(op->kind));
            step->first_equal = step->talks ? i : step->first_equal;
        }
        if (step->first_equal == i)
            known->first[known->first_count++] = i;
    }
}

int sw_cost_known_make(const struct sw_program *p, struct sw_cost_known *out, struct sw_error *err)
{
    const size_t ops = (size_t)p->op_count + 1;
    int16_t *ends_of = malloc(((size_t)p->value_count + 1) * sizeof *ends_of);
    *out = (struct sw_cost_known){.compute_seconds = malloc(ops * sizeof *out->compute_seconds),
                                  .sent = malloc(ops * sizeof *out->sent),
                                  .step = malloc(ops * sizeof *out->step),
                                  .first = malloc(ops * sizeof *out->first)};
    if (out->compute_seconds == NULL || out->sent == NULL || out->step == NULL ||
        out->first == NULL || ends_of == NULL) {
        free(ends_of);
        sw_cost_known_free(out);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
    }
    read_steps(out, p, ends_of);
    int32_t *first = realloc(out->first, ((size_t)out->first_count + 1) * sizeof *first);
    out->first = first != NULL ? first : out->first;
    sw_cost_known_reset(out);
    free(ends_of);
    return 0;
}

void sw_cost_known_free(struct sw_cost_known *known)
{
    free(known->compute_seconds);
    free(known->sent);
    free(known->step);
    free(known->first);
    *known = (struct sw_cost_known){0};
}

void sw_cost_known_reset(struct sw_cost_known *known)
{
    known->step_bytes = -1;
    for (int32_t i = 0; i < known->first_count; i++)
        known->compute_seconds[known->first[i]] = known->sent[known->first[i]].bytes = -1;
}

void sw_cost_known_meets(struct sw_cost_known *known, const struct sw_workload *workload)
{
    const struct sw_workload now = workload != NULL ? *workload : (struct sw_workload){0};
    const struct sw_workload *of = &known->workload;
    if (of->prompt_tokens == now.prompt_tokens && of->top_share == now.top_share &&
        of->running == now.running)
        return;
    known->workload = now;
    known->step_bytes = -1;
    for (int32_t i = 0; i < known->first_count; i++)
        known->compute_seconds[known->first[i]] = -1;
}

double sw_cost_known_seconds(struct sw_cost_known *known, const struct sw_program *p, int32_t i,
                             const struct sw_cluster_config *cluster,
                             const struct sw_workload *workload)
{
    double *seconds = &known->compute_seconds[known->step[i].first_equal];
    if (*seconds < 0)
        *seconds = sw_cost_compute_seconds_within(p, &p->ops[i], cluster, workload,
                                                  &known->step_bytes, known->shared);
    return *seconds;
}
