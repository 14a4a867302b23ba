#include "tests/support/texts.h"

#include "core/base/number.h"
#include "runner/rank/init.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    const struct sw_test_texts *run;
    const struct sw_program_set *set;
    struct sw_comm *comm;
    struct sw_made_text *made; /* [count] */
    pthread_t thread;
    int64_t next, max_tokens, arena_bytes;
    struct sw_engine_counts counts;
};

static _Noreturn void leave(const struct rank *rank, const struct sw_error *err)
{
    fprintf(stderr, "rank %d: %s\n", (int)rank->comm->rank, err->message);
    _exit(1);
}

static void *memory(size_t count, size_t bytes)
{
    void *got = calloc(count > 0 ? count : 1, bytes);
    if (got == NULL)
        _exit(1);
    return got;
}

/* Spreads vectors: initial ones become 1 + the generator's value, others its value. */
static void spread_vectors(const struct rank *rank, struct sw_executor *executor)
{
    struct sw_device *device = sw_executor_device(executor);
    for (int32_t r = 0; r < rank->set->state.count; r++) {
        const struct sw_state_row *row = &rank->set->state.row[r];
        const size_t element = sw_dtype_bytes(row->dtype);
        if (row->ndim != 1 || row->scales)
            continue;
        char *whole = memory((size_t)row->size[0], element);
        char *part = memory((size_t)row->instance_bytes, 1);
        for (int32_t l = 0; l < row->stack; l++) {
            char name[SW_NAME_BYTES + 16];
            if (strcmp(row->name, "final_norm") == 0)
                snprintf(name, sizeof name, "%s", row->name);
            else
                snprintf(name, sizeof name, "%s.%d", row->name, (int)l);
            const uint64_t key = sw_init_key(rank->run->seed, name);
            for (int64_t i = 0; i < row->size[0]; i++) {
                const double value =
                    (row->initial == SW_INITIAL_ONES ? 1 : 0) +
                    (double)(float)(rank->run->stddev * sw_init_normal(key, (uint64_t)i));
                if (row->dtype == SW_F64)
                    ((double *)(void *)whole)[i] = value;
                else if (row->dtype == SW_F32)
                    ((float *)(void *)whole)[i] = (float)value;
                else
                    ((uint16_t *)(void *)whole)[i] = sw_bf16_from_float((float)value);
            }
            sw_device_put(&rank->comm->mesh, &row->sharding.spec, row->size, NULL, element,
                          rank->comm->rank, whole, part);
            if (device->vtable->copy_in(device, sw_executor_state(executor, row, l), part,
                                        (size_t)row->instance_bytes) != 0)
                _exit(1);
        }
        free(whole);
        free(part);
    }
}

static int next_sequence(void *context, struct sw_sequence *out, struct sw_error *err)
{
    struct rank *rank = context;
    (void)err;
    if (rank->next == rank->run->count)
        return 0;
    *out = rank->run->texts[rank->next];
    out->number = rank->next++;
    return 1;
}

static bool take(void *context, const struct sw_sequence *sequence, int64_t index, int32_t token,
                 double logprob, const struct sw_top *top)
{
    const struct rank *rank = context;
    struct sw_made_text *made = &rank->made[sequence->number];
    if (rank->run->took != NULL)
        rank->run->took(rank->comm->rank, sequence->number, index);
    made->tokens[index] = token;
    made->logprobs[index] = logprob;
    made->top[index] = *top;
    made->made = index + 1;
    return true;
}

static void ranked(void *context, const struct sw_sequence *sequence, int64_t index,
                   const struct sw_top *top)
{
    const struct rank *rank = context;
    rank->made[sequence->number].top[rank->max_tokens + index] = *top;
}

static void ended(void *context, const struct sw_sequence *sequence, bool full)
{
    ((const struct rank *)context)->made[sequence->number].full = full;
}

static void score(struct rank *rank, struct sw_engine *engine)
{
    struct sw_error err = {0};
    const int64_t slots = sw_engine_slots(engine), longest = sw_engine_max_tokens(engine);
    float **to = memory((size_t)slots, sizeof *to);
    float *logprobs = memory((size_t)(slots * longest), sizeof *logprobs);
    for (int64_t first = 0; first < rank->run->count; first += slots) {
        const int64_t left = rank->run->count - first, n = left < slots ? left : slots;
        for (int64_t i = 0; i < n; i++)
            to[i] = logprobs + i * longest;
        if (sw_engine_score(engine, rank->run->texts + first, n, to, &err) != 0)
            leave(rank, &err);
        for (int64_t i = 0; i < n; i++)
            for (int64_t t = 0; t + 1 < rank->run->texts[first + i].token_count; t++)
                rank->made[first + i].logprobs[t] = (double)to[i][t];
    }
    free(to);
    free(logprobs);
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;
    struct sw_error err = {0};
    struct sw_executor *executor = NULL;
    struct sw_engine *engine = NULL;
    const struct sw_test_texts *run = rank->run;
    struct sw_device *device =
        run->device != NULL ? run->device(&err) : sw_cpu_device_create(1, &err);
    const struct sw_executor_options options = {.poisons = !run->unpoisoned};
    const struct sw_engine_calls calls = {
        .next = next_sequence, .token = take, .ranked = ranked, .ended = ended, .context = rank};
    if (device == NULL ||
        (run->connect != NULL &&
         run->connect(run->context, rank->set, device, &rank->comm, &err) != 0) ||
        sw_executor_create(rank->set, device, rank->comm, &options, &executor, &err) != 0 ||
        sw_executor_init_state(executor, rank->run->seed, rank->run->stddev, &err) != 0 ||
        sw_engine_create(executor, &engine, &err) != 0)
        leave(rank, &err);
    sw_engine_pause_at(engine, run->pause_every);
    spread_vectors(rank, executor);
    if (rank->run->scores)
        score(rank, engine);
    else if (sw_engine_run(engine, &calls, &err) != 0)
        leave(rank, &err);
    rank->arena_bytes = sw_executor_arena_bytes(executor);
    rank->counts = *sw_engine_counts(engine);
    sw_engine_free(engine);
    sw_executor_free(executor);
    if (rank->comm->vtable->barrier(rank->comm, &err) != 0)
        leave(rank, &err);
    rank->comm->vtable->destroy(rank->comm);
    device->vtable->destroy(device);
    return NULL;
}

static struct sw_made_text *room(int64_t count, int64_t max_tokens)
{
    struct sw_made_text *made = memory((size_t)count, sizeof *made);
    for (int64_t i = 0; i < count; i++) {
        made[i].tokens = memory((size_t)max_tokens + 1, sizeof *made[i].tokens);
        made[i].logprobs = memory((size_t)max_tokens + 1, sizeof *made[i].logprobs);
        made[i].top = memory(2 * (size_t)max_tokens + 1, sizeof *made[i].top);
    }
    return made;
}

static void forget(struct sw_made_text *made, int64_t count)
{
    for (int64_t i = 0; made != NULL && i < count; i++) {
        free(made[i].tokens);
        free(made[i].logprobs);
        free(made[i].top);
    }
    free(made);
}

static bool same(const struct sw_made_text *a, const struct sw_made_text *b, int64_t count,
                 int64_t max_tokens)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i].made != b[i].made || a[i].full != b[i].full ||
            memcmp(a[i].tokens, b[i].tokens, (size_t)max_tokens * sizeof *a[i].tokens) != 0 ||
            memcmp(a[i].logprobs, b[i].logprobs, (size_t)max_tokens * sizeof *a[i].logprobs) != 0 ||
            memcmp(a[i].top, b[i].top, (2 * (size_t)max_tokens + 1) * sizeof *a[i].top) != 0)
            return false;
    return true;
}

int sw_test_texts_run(struct sw_test_texts *run, struct sw_error *err)
{
    const uint32_t making =
        1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE | 1u << SW_PROGRAM_READ;
    uint32_t kinds = run->scores ? 1u << SW_PROGRAM_SCORE : making;
    for (int64_t i = 0; i < run->count; i++)
        kinds |= run->texts[i].scored ? making | 1u << SW_PROGRAM_SCORE : 0;
    const int32_t n = sw_mesh_rank_count(&run->options->mesh);
    struct sw_program_set *set = NULL;
    run->made = NULL;
    if (sw_program_set_compile_serving(run->options, &run->serving, kinds, &set, err) != 0)
        return -1;
    int64_t max_tokens = 0;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        if (set->program[k] != NULL)
            max_tokens = set->program[k]->max_tokens;
    struct sw_comm **comms = memory((size_t)n, sizeof *comms);
    struct rank *ranks = memory((size_t)n, sizeof *ranks);
    if (sw_comm_threads_create(&run->options->mesh, comms, err) != 0)
        _exit(1);
    for (int32_t r = 0; r < n; r++) {
        ranks[r] = (struct rank){.run = run,
                                 .set = set,
                                 .comm = comms[r],
                                 .max_tokens = max_tokens,
                                 .made = room(run->count, max_tokens)};
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0)
            _exit(1);
    }
    for (int32_t r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
    run->made = ranks[0].made;
    run->cached_tokens = ranks[0].counts.cached_tokens;
    run->reads = ranks[0].counts.reads;
    run->inside = ranks[0].counts.inside;
    run->prefill_rows = ranks[0].counts.prefill_rows;
    run->decode_rows = ranks[0].counts.decode_rows;
    run->arena_bytes = ranks[0].arena_bytes;
    run->planned_arena_bytes = set->arena_bytes;
    run->other_ranks = 0;
    for (int32_t r = 1; r < n; r++) {
        run->other_ranks += !same(ranks[r].made, run->made, run->count, max_tokens);
        forget(ranks[r].made, run->count);
    }
    free(comms);
    free(ranks);
    sw_program_set_free(set);
    return 0;
}

void sw_test_texts_free(struct sw_test_texts *run)
{
    forget(run->made, run->count);
    run->made = NULL;
}
