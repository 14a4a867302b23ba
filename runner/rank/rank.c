#include "runner/rank/rank.h"

#include "core/ir/workspace_collective.h"
#include "runner/rank/accelerator.h"
#include "runner/rank/gpu_kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct sw_place plan_place(const struct sw_rank *rank)
{
    return (struct sw_place){.file = rank->plan_path};
}

/* ---- Compiling ---- */

int sw_rank_open_device(struct sw_rank *rank, enum sw_device_kind kind)
{
    rank->kind = kind;
    rank->device =
        sw_accelerator_device(rank->launch, kind, sw_launch_threads(rank->launch), &rank->err);
    return rank->device == NULL ? -1 : 0;
}

static int check_size(struct sw_rank *rank)
{
    const int32_t ranks = sw_mesh_rank_count(&rank->plan->decision.mesh);
    if (rank->launch->size == ranks)
        return 0;
    return sw_fail_at(&rank->err, SW_BAD_INPUT, plan_place(rank),
                      "the plan needs %d rank%s, %d %s started; start it with mpirun -np %d, or "
                      "srun --mpi=pmix -n %d",
                      ranks, ranks == 1 ? "" : "s", rank->launch->size,
                      rank->launch->size == 1 ? "was" : "were", ranks, ranks);
}

/* Compares digests; a training plan has none for serving programs, and a serving plan none for
 * training. */
static int check_digests(struct sw_rank *rank)
{
    const uint64_t *planned = rank->plan->program_digest;
    bool told = false;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        told = told || (rank->programs->program[k] != NULL && planned[k] != 0);
    const enum sw_program_kind other = sw_program_set_differs(rank->programs, planned);
    if (!told || other == SW_PROGRAM_KINDS)
        return 0;
    return sw_plan_refuse_program(rank->plan, other, &rank->err);
}

/* Compiles. A run that does not mention serving gets at most `texts` slots. */
static int compile(struct sw_rank *rank, uint32_t kinds, int64_t texts)
{
    struct sw_program_options options;
    struct sw_serving serving;
    if (sw_plan_program_options(rank->plan->run, &rank->plan->decision, &options, &rank->err) != 0)
        return -1;
    if (kinds == 0)
        return sw_program_set_compile(&options, &rank->programs, &rank->err);
    if (!sw_plan_serving(rank->plan->run, &rank->plan->decision, &serving) && texts > 0 &&
        texts < serving.max_batch) {
        serving.planned_batch = serving.max_batch;
        serving.max_batch = texts;
    }
    return sw_program_set_compile_serving(&options, &serving, kinds, &rank->programs, &rank->err);
}

int sw_rank_compile(struct sw_rank *rank, uint32_t serving, int64_t texts)
{
    return check_size(rank) != 0 || compile(rank, serving, texts) != 0 || check_digests(rank) != 0
               ? -1
               : sw_rank_open_device(rank, rank->plan->run->cluster.accelerator.device);
}

int sw_rank_compile_training(struct sw_rank *rank)
{
    if (sw_rank_compile(rank, 0, 0) != 0)
        return -1;
    if (rank->plan->program_digest[SW_PROGRAM_TRAIN] != 0)
        return 0;
    return sw_fail_at(&rank->err, SW_BAD_INPUT, plan_place(rank),
                      "the plan is for serving and has no training program; remove 'job' from the "
                      "run and emit it again");
}

/* ---- Joining the others ---- */

/* Checks equality: ranks with different programs would wait for, or mix up, each other's
 * collectives. */
static int check_same(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count)
{
    enum { PLAN = 1 + SW_PROGRAM_KINDS };
    _Static_assert(PLAN + SW_RANK_SAME <= SW_LAUNCH_VALUES, "room for all that is compared");
    uint64_t values[PLAN + SW_RANK_SAME] = {0};
    if (rank->plan != NULL)
        values[0] = rank->plan->digest;
    if (rank->programs != NULL)
        sw_program_set_digests(rank->programs, values + 1);
    for (int32_t i = 0; i < count; i++)
        values[PLAN + i] = same[i].value;
    const int32_t other = sw_launch_difference(rank->launch, values, PLAN + count);
    if (other < 0)
        return 0;
    if (other < PLAN)
        return sw_fail_at(&rank->err, SW_BAD_INPUT, plan_place(rank),
                          "not every rank has this plan; give all of them the same file");
    const struct sw_rank_same *s = &same[other - PLAN];
    return sw_fail_at(&rank->err, SW_BAD_INPUT, (struct sw_place){.file = s->file}, "%s",
                      s->otherwise);
}

enum sw_status sw_rank_meet(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count)
{
    const enum sw_status status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    if (check_same(rank, same, count) == 0)
        (void)sw_gpus_check_alike(rank->launch, rank->device, &rank->err);
    return sw_rank_agree(rank);
}

int sw_rank_connect(struct sw_rank *rank, const struct sw_mesh *mesh, const struct sw_axes *groups,
                    int32_t count, double longest_s)
{
    return sw_accelerator_comm(rank->launch, mesh, groups, count, rank->device, rank->kind,
                               sw_launch_stall_seconds(longest_s), &rank->comm, &rank->err);
}

static int create_executor(struct sw_rank *rank)
{
    if (sw_executor_create(rank->programs, rank->device, rank->comm, NULL, &rank->executor,
                           &rank->err) != 0)
        return -1;
    const struct sw_collective_slots slots = sw_collective_slots(
        SW_ALL_REDUCE, rank->launch->size, SW_RANK_VOTES, sizeof(float), false, false);
    rank->vote_workspace = aligned_alloc(
        SW_ARENA_ALIGNMENT,
        (size_t)((slots.slots * slots.slot_bytes / SW_ARENA_ALIGNMENT + 1) * SW_ARENA_ALIGNMENT));
    return rank->vote_workspace != NULL ? 0 : sw_fail(&rank->err, SW_ENVIRONMENT, "out of memory");
}

enum sw_status sw_rank_join(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count,
                            double longest_s)
{
    struct sw_axes groups[SW_MESH_GROUPS];
    const enum sw_status status = sw_rank_meet(rank, same, count);
    if (status != SW_OK)
        return status;
    if (sw_rank_connect(rank, &rank->plan->decision.mesh, groups,
                        sw_program_set_axes(rank->programs, groups), longest_s) == 0)
        (void)create_executor(rank);
    return sw_rank_agree(rank);
}

void sw_rank_close(struct sw_rank *rank)
{
    sw_executor_free(rank->executor);
    if (rank->comm != NULL)
        rank->comm->vtable->destroy(rank->comm);
    if (rank->device != NULL)
        rank->device->vtable->destroy(rank->device);
    sw_program_set_free(rank->programs);
    free(rank->vote_workspace);
}

/* ---- Agreement ---- */

enum sw_status sw_rank_agree(const struct sw_rank *rank)
{
    return sw_launch_agree(rank->launch, rank->err.status == SW_OK ? NULL : &rank->err);
}

int sw_rank_vote(struct sw_rank *rank, float *flags, int32_t count, struct sw_error *err)
{
    struct sw_comm *comm = rank->comm;
    struct sw_collective_call call;
    uint64_t ticket;
    if (comm->size == 1)
        return 0;
    memset(&call, 0, sizeof call);
    call.kind = SW_ALL_REDUCE;
    call.axes = (struct sw_axes){SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    call.dtype = SW_F32;
    call.count = 1;
    call.in[0] = flags;
    call.out[0] = flags;
    call.elems[0] = count;
    call.outer = call.n = call.middle = call.m = 1;
    call.inner = count;
    call.workspace = rank->vote_workspace;
    return comm->vtable->start(comm, &call, &ticket, err) != 0 ||
                   comm->vtable->wait(comm, ticket, err) != 0
               ? -1
               : 0;
}

/* ---- A command ---- */

/* Reads the plan; its digest must match: a script must not start a newer plan than its own. */
static void read_plan(struct sw_rank *rank, struct sw_plan *plan, const uint64_t *digest)
{
    if (sw_plan_read(rank->plan_path, NULL, plan, &rank->err) != 0)
        return;
    rank->plan = plan;
    if (digest != NULL && plan->digest != *digest)
        sw_fail_at(&rank->err, SW_BAD_INPUT, plan_place(rank),
                   "it has digest %016" PRIx64
                   ", the script that starts it was written for %016" PRIx64
                   ": the run was emitted again since; use the script that is there now",
                   plan->digest, *digest);
}

int sw_rank_run(const struct sw_rank_command *command)
{
    struct sw_launch launch;
    struct sw_plan plan;
    struct sw_rank rank = {.launch = &launch, .plan_path = command->plan_path};
    if (sw_launch_check_variables(&rank.err) != 0) {
        if (sw_launch_number() == 0)
            sw_launch_print_error(&rank.err);
        return (int)rank.err.status;
    }
    if (sw_launch_begin(&launch, &rank.err) != 0) {
        if (launch.rank == 0)
            sw_launch_print_error(&rank.err);
        return (int)rank.err.status;
    }
    if (command->plan_path != NULL)
        read_plan(&rank, &plan, command->digest);
    int status = (int)sw_rank_agree(&rank);
    if (status == SW_OK && !command->starts_itself)
        sw_launch_started(&launch);
    if (status == SW_OK)
        status = command->run(&rank, command->options);
    sw_rank_close(&rank);
    if (rank.plan != NULL)
        sw_plan_free(&plan);
    sw_launch_end(&launch);
    return status;
}
