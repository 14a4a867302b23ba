#include "runner/generate/session.h"

#include "runner/rank/accelerator.h"
#include "runner/checkpoint/loader.h"
#include "runner/rank/gpu_kinds.h"
#include "runner/checkpoint/resume.h"

#include <stdlib.h>
#include <string.h>

static struct sw_place plan_place(const struct sw_session *s)
{
    return (struct sw_place){.file = s->plan_path};
}

/* What the plan says; of a run that says nothing of serving no more texts than there are. *planned:
 * the plan has digests of the programs. */
static struct sw_serving serving_of(const struct sw_run_config *run, int64_t texts, bool *planned)
{
    struct sw_serving serving;
    *planned = sw_plan_serving(run, &serving);
    if (!*planned && texts > 0 && texts < serving.max_batch)
        serving.max_batch = texts;
    return serving;
}

static int compare_digests(struct sw_session *s)
{
    const enum sw_program_kind other = sw_program_set_differs(s->programs, s->plan->program_digest);
    if (other == SW_PROGRAM_KINDS)
        return 0;
    return sw_fail_at(&s->err, SW_BAD_INPUT, plan_place(s),
                      "this runner makes another '%s' program of the plan than the plan tool that "
                      "wrote it; emit the plan again with the plan tool of the same version",
                      sw_program_kind_name(other));
}

static int set_up(struct sw_session *s, uint32_t kinds, int64_t texts)
{
    const struct sw_run_config *run = s->plan->run;
    const int32_t ranks = sw_mesh_rank_count(&s->plan->decision.mesh);
    bool planned;
    const struct sw_serving serving = serving_of(run, texts, &planned);
    struct sw_program_options options;
    if (s->launch->size != ranks)
        return sw_fail_at(&s->err, SW_BAD_INPUT, plan_place(s),
                          "the plan needs %d rank%s, %d %s started; start it with mpirun "
                          "-np %d, or srun --mpi=pmix -n %d",
                          ranks, ranks == 1 ? "" : "s", s->launch->size,
                          s->launch->size == 1 ? "was" : "were", ranks, ranks);
    if (sw_plan_program_options(run, &s->plan->decision, &options, &s->err) != 0 ||
        sw_program_set_compile_serving(&options, &serving, kinds, &s->programs, &s->err) != 0 ||
        (planned && compare_digests(s) != 0))
        return -1;
    s->device = sw_accelerator_device(s->launch, run->cluster.accelerator.device,
                                      sw_launch_threads(s->launch), &s->err);
    return s->device == NULL ? -1 : 0;
}

/* Ranks of different programs would wait for each other's collectives, or mix them up. */
static int check_same(struct sw_session *s)
{
    uint64_t values[1 + SW_PROGRAM_KINDS];
    values[0] = s->plan->digest;
    sw_program_set_digests(s->programs, values + 1);
    return sw_launch_difference(s->launch, values, (int32_t)(sizeof values / sizeof values[0])) < 0
               ? 0
               : sw_fail_at(&s->err, SW_BAD_INPUT, plan_place(s),
                            "not every rank has this plan; give all of them the same file");
}

static int set_up_executor(struct sw_session *s)
{
    struct sw_axes groups[SW_MESH_GROUPS];
    const int32_t count = sw_program_set_axes(s->programs, groups);
    if (sw_accelerator_comm(s->launch, &s->plan->decision.mesh, groups, count, s->device,
                            s->plan->run->cluster.accelerator.device, sw_launch_stall_seconds(0),
                            &s->comm, &s->err) != 0)
        return -1;
    return sw_executor_create(s->programs, s->device, s->comm, NULL, &s->executor, &s->err);
}

enum sw_status sw_session_agree(const struct sw_session *s)
{
    return sw_launch_agree(s->launch, s->err.status == SW_OK ? NULL : &s->err);
}

/* The checkpoint's weights and its tokenizer. */
static enum sw_status load(struct sw_session *s)
{
    struct sw_loading loading = {.folder = s->folder};
    struct sw_manifest manifest = {0};
    if (s->launch->rank == 0)
        (void)sw_resume_named(s->checkpoint, "--checkpoint", s->folder, &s->err);
    sw_launch_broadcast(s->launch, s->folder, sizeof s->folder);
    enum sw_status status = sw_session_agree(s);
    if (status != SW_OK)
        return status;
    (void)sw_loader_load(s->launch, s->programs, s->executor, &s->plan->run->model.shape, &loading,
                         &manifest, &s->err);
    status = sw_session_agree(s);
    if (status != SW_OK)
        return status;
    const struct sw_letters_model model = {.folder = s->folder,
                                           .vocab_size = s->plan->run->model.shape.vocab_size,
                                           .was_bytes = s->plan->run->data_format == SW_DATA_BYTES,
                                           .wants_bytes = s->wants_bytes};
    (void)(sw_letters_open(&model, &s->letters, &s->err) == 0 &&
           sw_engine_create(s->executor, &s->engine, &s->err) == 0);
    return sw_session_agree(s);
}

enum sw_status sw_session_open(struct sw_session *s, uint32_t kinds, int64_t texts)
{
    (void)set_up(s, kinds, texts);
    enum sw_status status = sw_session_agree(s);
    if (status != SW_OK)
        return status;
    if (check_same(s) == 0 && sw_kinds_check(s->launch, s->device, &s->err) == 0)
        (void)set_up_executor(s);
    status = sw_session_agree(s);
    return status != SW_OK ? status : load(s);
}

void sw_session_close(struct sw_session *s)
{
    sw_engine_free(s->engine);
    sw_letters_free(s->letters);
    sw_executor_free(s->executor);
    if (s->comm != NULL)
        s->comm->vtable->destroy(s->comm);
    if (s->device != NULL)
        s->device->vtable->destroy(s->device);
    sw_program_set_free(s->programs);
}

int sw_session_share(struct sw_session *s, char **text, size_t *bytes)
{
    uint64_t length = s->launch->rank == 0 ? *bytes : 0;
    sw_launch_broadcast(s->launch, &length, sizeof length);
    if (s->launch->rank != 0) {
        free(*text);
        *text = malloc((size_t)length + 1);
        *bytes = (size_t)length;
    }
    if (*text == NULL && s->launch->rank != 0)
        sw_fail(&s->err, SW_ENVIRONMENT, "out of memory for the prompts");
    if (sw_session_agree(s) != SW_OK)
        return -1;
    sw_launch_broadcast(s->launch, *text, *bytes);
    (*text)[*bytes] = '\0';
    return 0;
}
