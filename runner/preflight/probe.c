#include "runner/preflight/probe.h"

#include "core/base/clock.h"
#include "core/cost/cost.h"
#include "core/cost/links.h"
#include "core/programs/compile.h"
#include "core/ir/walk.h"
#include "runner/calibrate/kernels.h"
#include "runner/calibrate/links.h"
#include "runner/collective/call.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_REPEATS = 3, MOST_REPEATS = 200 };
static const int64_t pair_bytes = 4 << 20, most_elems = 16 << 20;

/* ---- Products and memory ---- */

static int32_t part(int64_t size, int32_t ways)
{
    return (int32_t)(size / ways > 0 ? size / ways : 1);
}

/* A rank's computation for one layer, as a program of one rank. */
static int one_layer(const struct sw_plan *plan, struct sw_program_options *out,
                     struct sw_error *err)
{
    const int32_t tp = plan->decision.mesh.size[SW_TP], sp = plan->decision.mesh.size[SW_SP];
    if (sw_plan_program_options(plan->run, &plan->decision, out, err) != 0)
        return -1;
    struct sw_model *m = &out->model;
    m->layers = 1;
    m->heads = part(m->heads, tp);
    m->kv_heads = part(m->kv_heads, tp);
    if (m->heads % m->kv_heads != 0)
        m->kv_heads = 1;
    m->intermediate_size = part(m->intermediate_size, tp);
    m->vocab_size = part(m->vocab_size, tp);
    out->sequence_length = part(out->sequence_length, sp);
    out->global_batch = out->micro_batch_per_rank;
    out->mesh = sw_mesh_make(1, 1, 1, 1);
    out->recompute = (struct sw_recompute){.values = 0};
    return 0;
}

/* Cluster with the runner's own profile, not a serving engine's. */
static struct sw_cluster_config probed(const struct sw_plan *plan)
{
    struct sw_cluster_config cluster = plan->run->cluster;
    sw_profile_for_training(&cluster);
    return cluster;
}

static double predict(const struct sw_plan *plan, const struct sw_program *p)
{
    const struct sw_cluster_config cluster = probed(plan);
    double seconds = 0;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);)
        seconds += sw_walk_count(p, &p->regions[w.region], &p->ops[w.op]) *
                   sw_cost_compute_seconds(p, &p->ops[w.op], &cluster, NULL);
    return seconds;
}

/* Busy time if the device works on this thread: other threads may have had the core. */
static double now(const struct sw_device *device)
{
    return device->vtable->in_host_memory ? sw_clock_busy() : sw_clock_now();
}

static int run_steps(struct sw_executor *executor, int64_t vocab_size, struct sw_device *device,
                     double budget_s, double *seconds, struct sw_error *err)
{
    const double begin = sw_clock_now();
    *seconds = INFINITY;
    for (int32_t i = 0;
         i <= LEAST_REPEATS || (i < MOST_REPEATS && sw_clock_now() - begin < budget_s); i++) {
        const double from = now(device);
        if (sw_rate_step(executor, vocab_size, i + 1, err) != 0)
            return -1;
        if (i > 0) /* the first creates the kernels and touches the memory */
            *seconds = fmin(*seconds, now(device) - from);
    }
    return 0;
}

int sw_probe_compute(const struct sw_plan *plan, struct sw_device *device, double budget_s,
                     double *seconds, double *predicted_s, struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_program *program = NULL;
    struct sw_program_set *set = NULL;
    struct sw_comm *alone = NULL;
    struct sw_executor *executor = NULL;
    int status = -1;
    if (one_layer(plan, &options, err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &program, err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, err) != 0 ||
        sw_comm_single_create(&alone, err) != 0 ||
        sw_executor_create(set, device, alone, NULL, &executor, err) != 0 ||
        sw_executor_init_state(executor, 1, 0.02, err) != 0)
        goto out;
    *predicted_s = predict(plan, set->program[SW_PROGRAM_TRAIN]);
    status = run_steps(executor, options.model.vocab_size, device, budget_s, seconds, err);
out:
    sw_executor_free(executor);
    if (alone != NULL)
        alone->vtable->destroy(alone);
    sw_program_set_free(set);
    return status;
}

/* ---- Messages and collectives ---- */

/* Waits for everything started, on the device too. */
static int finish(struct sw_comm *comm, struct sw_device *device, uint64_t ticket,
                  struct sw_error *err)
{
    if (comm->vtable->wait(comm, ticket, err) != 0)
        return -1;
    return comm->queued ? device->vtable->synchronize(device, err) : 0;
}

/* Number of repeats, equal on every rank: the slowest rank's. */
static int repeats_for(struct sw_comm *comm, double budget_s, double once_s, int32_t *repeats,
                       struct sw_error *err)
{
    double sum = once_s;
    if (sw_calibrate_sum(comm, &sum, 1, err) != 0)
        return -1;
    const double wanted = budget_s / fmax(sum, 1e-6); /* ranks' times are of similar size */
    *repeats = wanted > MOST_REPEATS ? MOST_REPEATS : (int32_t)fmax(wanted, LEAST_REPEATS);
    return 0;
}

static int exchange(struct sw_comm *comm, struct sw_device *device, int32_t partner, void *send,
                    void *receive, size_t bytes, double *seconds, struct sw_error *err)
{
    uint64_t ticket;
    const double begin = sw_clock_now();
    if (partner < 0)
        return 0;
    if (comm->vtable->transfer(comm, partner, send, bytes, partner, receive, bytes, &ticket, err) !=
            0 ||
        finish(comm, device, ticket, err) != 0)
        return -1;
    *seconds = fmin(*seconds, sw_clock_now() - begin);
    return 0;
}

/* Allocates memory; host pages are touched before messages are timed. */
static void *allocate(struct sw_device *device, size_t bytes)
{
    void *memory = device->vtable->allocate(device, bytes);
    if (memory != NULL && device->vtable->in_host_memory)
        memset(memory, 0, bytes);
    return memory;
}

int sw_probe_pair(struct sw_comm *comm, struct sw_device *device, int32_t partner, double budget_s,
                  double *rate, struct sw_error *err)
{
    const size_t bytes = (size_t)pair_bytes;
    void *send = allocate(device, bytes), *receive = allocate(device, bytes);
    double seconds = INFINITY, once = INFINITY;
    int32_t repeats = 0;
    int status = send != NULL && receive != NULL
                     ? 0
                     : sw_fail(err, SW_ENVIRONMENT, "out of memory for messages");
    if (status == 0)
        status = exchange(comm, device, partner, send, receive, bytes, &once, err);
    if (status == 0)
        status = repeats_for(comm, budget_s, isinf(once) ? 0 : once, &repeats, err);
    for (int32_t i = 0; i < repeats && status == 0; i++)
        status = exchange(comm, device, partner, send, receive, bytes, &seconds, err);
    *rate = isinf(seconds) ? NAN : (double)bytes / seconds;
    if (send != NULL)
        device->vtable->release(device, send);
    if (receive != NULL)
        device->vtable->release(device, receive);
    return status;
}

static bool is_probed(enum sw_collective kind)
{
    return kind == SW_ALL_GATHER || kind == SW_REDUCE_SCATTER || kind == SW_ALL_REDUCE;
}

int32_t sw_probe_groups(const struct sw_plan *plan, const struct sw_program *program,
                        struct sw_probe_group out[SW_PROBE_GROUPS])
{
    const struct sw_cluster_config cluster = probed(plan);
    int64_t most[SW_PROBE_GROUPS] = {0};
    int32_t count = 0;
    for (int32_t i = 0; i < program->op_count; i++) {
        const struct sw_op *op = &program->ops[i];
        if (!sw_op_is_collective(op->kind) || !is_probed(sw_op_collective(op->kind)))
            continue;
        const struct sw_axes axes = sw_axes_effective(&program->mesh, op->axes);
        const int32_t group = sw_axes_size(&program->mesh, axes);
        const enum sw_collective kind = sw_op_collective(op->kind);
        const int64_t bytes = sw_op_communication_bytes(program, op);
        int32_t at = 0;
        while (at < count && !sw_axes_equal(out[at].axes, axes))
            at++;
        if (group < 2 || at == SW_PROBE_GROUPS || bytes <= most[at])
            continue;
        count += at == count;
        most[at] = bytes;
        out[at] = (struct sw_probe_group){
            .axes = axes, .kind = kind, .elems = sw_link_elems(kind, group, bytes)};
        if (out[at].elems > most_elems / group)
            out[at].elems = most_elems / group * group;
        struct sw_span span;
        sw_links_span(&cluster, &program->mesh, axes, &span);
        out[at].predicted_s = sw_links_seconds(&cluster, &span, kind,
                                               (double)sw_link_bytes(kind, group, out[at].elems));
    }
    return count;
}

static int call_once(struct sw_comm *comm, struct sw_device *device,
                     const struct sw_collective_call *call, double *seconds, struct sw_error *err)
{
    uint64_t ticket;
    if (comm->vtable->barrier(comm, err) != 0)
        return -1;
    const double begin = sw_clock_now();
    if (comm->vtable->start(comm, call, &ticket, err) != 0 ||
        finish(comm, device, ticket, err) != 0)
        return -1;
    *seconds = fmin(*seconds, sw_clock_now() - begin);
    return 0;
}

int sw_probe_collective(struct sw_comm *comm, struct sw_device *device,
                        const struct sw_probe_group *group, double budget_s, double *seconds,
                        struct sw_error *err)
{
    const struct sw_device_vtable *on = device->vtable;
    const int32_t ranks = sw_axes_size(&comm->mesh, group->axes);
    struct sw_collective_call call = {.kind = group->kind};
    sw_collective_call_shape(&call, group->kind, 1, &group->elems, 0, 0);
    call.axes = group->axes;
    call.dtype = SW_F32;
    const struct sw_collective_slots slots = sw_call_slots(&call, ranks);
    const size_t in = (size_t)group->elems * sizeof(float);
    const size_t workspace = (size_t)(slots.slots * slots.slot_bytes);
    void *send = allocate(device, in), *receive = allocate(device, in * (size_t)ranks);
    call.workspace = allocate(device, workspace > 0 ? workspace : 1);
    call.in[0] = send;
    call.out[0] = group->kind == SW_ALL_REDUCE ? send : receive;
    double once = INFINITY;
    int32_t repeats = 0;
    int status = send != NULL && receive != NULL && call.workspace != NULL
                     ? 0
                     : sw_fail(err, SW_ENVIRONMENT, "out of memory for a collective");
    if (status == 0)
        status = call_once(comm, device, &call, &once, err);
    if (status == 0)
        status = repeats_for(comm, budget_s, once, &repeats, err);
    *seconds = once;
    for (int32_t i = 0; i < repeats && status == 0; i++)
        status = call_once(comm, device, &call, seconds, err);
    if (call.workspace != NULL)
        on->release(device, call.workspace);
    if (receive != NULL)
        on->release(device, receive);
    if (send != NULL)
        on->release(device, send);
    return status;
}
