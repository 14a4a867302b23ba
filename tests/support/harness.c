#include "tests/support/harness.h"

#include "core/base/number.h"
#include "core/ir/program.h"
#include "core/programs/compile.h"
#include "runner/rank/batch.h"
#include "runner/checkpoint/move.h"
#include "runner/rank/init.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shared {
    const struct sw_harness *harness;
    struct sw_program_set *set;
    const struct sw_program *program; /* the program to run */
    struct sw_batch batch;            /* for the ranks' reading */
    struct sw_harness_result *result;
    int32_t *rows;                                 /* [steps * global batch, sequence + 1] */
    pthread_mutex_t lock;                          /* ranks gather results one at a time */
    unsigned char *written[SW_HARNESS_MAX_VALUES]; /* [elems]: true once a rank gave the element */
};

struct rank {
    struct shared *shared;
    struct sw_comm *comm;
    pthread_t thread;
    int32_t number;
    struct sw_exchange exchange; /* for saves */
    struct sw_mover *mover;
    char *chunk;
};

static _Noreturn void fail(const struct rank *rank, const char *what, const struct sw_error *err)
{
    fprintf(stderr, "rank %d: %s: %s\n", (int)rank->number, what, err->message);
    _exit(1);
}

/* ---- Data ---- */

static int32_t *make_rows(const struct sw_harness *h)
{
    const struct sw_program_options *o = h->options;
    const int64_t count = h->steps * o->global_batch * (o->sequence_length + 1);
    int32_t *rows = malloc((size_t)count * sizeof *rows);
    uint64_t x = h->seed;
    for (int64_t i = 0; rows != NULL && i < count; i++) {
        if (h->rows != NULL) {
            rows[i] = h->rows[i];
            continue;
        }
        x = x * 6364136223846793005u + 1442695040888963407u;
        rows[i] = (int32_t)((x >> 33) % (uint64_t)o->model.vocab_size);
    }
    return rows;
}

static int batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)err;
    const struct shared *shared = context;
    const struct sw_harness *h = shared->harness;
    const int64_t s = h->options->sequence_length;
    const int64_t first = /* in this step */
        ask->step->micro_step * shared->program->micro_batch + ask->first_row;
    const bool labels = sw_batch_wants_labels(ask);
    int32_t *token = to;
    for (int64_t r = 0; r < ask->rows; r++) {
        const int32_t *row =
            shared->rows +
            ((ask->step->step - 1) * h->options->global_batch + first + r) * (s + 1) +
            (labels ? 1 : 0);
        for (int64_t i = 0; i < s; i++) {
            const int64_t flat = (first + r) * s + i;
            const bool ignored = h->ignored > 0 && flat % h->ignored == h->ignored - 1;
            token[r * s + i] = labels && ignored ? -1 : row[i];
        }
    }
    return 0;
}

static int read_given(const struct shared *shared, const struct sw_ask *ask, const int32_t *given,
                      void *to)
{
    const int64_t first = (ask->step->step - 1) * shared->harness->options->global_batch +
                          ask->step->micro_step * shared->program->micro_batch + ask->first_row;
    memcpy(to, given + first * ask->row_elems,
           (size_t)(ask->rows * ask->row_elems) * sizeof *given);
    return 0;
}

static int read_segments(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    const struct shared *shared = context;
    (void)err;
    return read_given(shared, ask, shared->harness->segments, to);
}

static int read_positions(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    const struct shared *shared = context;
    (void)err;
    return read_given(shared, ask, shared->harness->positions, to);
}

static int read_labels(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    const struct shared *shared = context;
    (void)err;
    return read_given(shared, ask, shared->harness->labels, to);
}

/* Returns the number of feeds. */
static int32_t make_feeds(struct shared *shared, const struct sw_program *program,
                          struct sw_feed out[SW_BATCH_FEEDS])
{
    const struct sw_harness *h = shared->harness;
    const int32_t count = sw_batch_feeds(&shared->batch, program, out);
    for (int32_t i = 0; i < count; i++) {
        sw_feed_reader read = out[i].read;
        if (strstr(out[i].name, "segments") != NULL)
            read = read_segments;
        else if (h->positions != NULL && strcmp(out[i].name, "positions") == 0)
            read = read_positions;
        else if (h->labels != NULL && strcmp(out[i].name, "labels") == 0)
            read = read_labels;
        if (read != out[i].read)
            out[i].context = shared;
        out[i].read = read;
    }
    return count;
}

/* step: from 1. */
static double loss_scale(const struct sw_harness *h, int64_t step)
{
    const int64_t all = h->options->global_batch * h->options->sequence_length;
    int64_t counted = h->ignored > 0 ? all - all / h->ignored : all;
    for (int64_t i = 0; h->labels != NULL && i < all; i++)
        counted -= h->labels[(step - 1) * all + i] < 0;
    return sw_batch_loss_scale(counted);
}

/* ---- Values ---- */

static double load(enum sw_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case SW_F64:
        return ((const double *)data)[i];
    case SW_I32:
        return ((const int32_t *)data)[i];
    case SW_BF16_T:
        return (double)sw_bf16_to_float(((const uint16_t *)data)[i]);
    default:
        return (double)((const float *)data)[i];
    }
}

static void store(enum sw_dtype dtype, void *data, int64_t i, double value)
{
    if (dtype == SW_F64)
        ((double *)data)[i] = value;
    else if (dtype == SW_BF16_T)
        ((uint16_t *)data)[i] = sw_bf16_from_float((float)value);
    else
        ((float *)data)[i] = (float)value;
}

static int32_t find_value(const struct sw_program *program, const char *name)
{
    if (strcmp(name, "logits") == 0)
        return sw_program_output(program, "logits");
    for (int32_t v = 0; v < program->value_count; v++)
        if (strcmp(program->values[v].name, name) == 0)
            return v;
    return -1;
}

static int64_t instance_elems(const struct sw_value *value)
{
    int64_t elems = 1;
    for (uint8_t d = 0; d < value->ndim; d++)
        elems *= value->size[d];
    return elems;
}

static bool is_sequence(uint8_t axis)
{
    return axis == SW_L_SEQ || axis == SW_L_RESIDUAL_SEQ || axis == SW_L_ATTN_SEQ ||
           axis == SW_L_KEY_SEQ;
}

/* Maps each element's storage index to its natural index along the sequence dimension, if any. */
static int64_t natural_index(const struct sw_program *program, const struct sw_value *value,
                             int64_t i)
{
    int64_t inner = 1;
    for (uint8_t d = value->ndim; d-- > 0; inner *= value->size[d])
        if (is_sequence(value->axis[d])) {
            const int64_t n = value->size[d], j = i / inner % n;
            const int64_t position =
                sw_sequence_position(program->sequence_layout, n, program->sequence_shards, j);
            return i + (position - j) * inner;
        }
    return i;
}

/* Stores this rank's shard of a value's instance l; elements already given by another rank must
 * agree. */
static void gather_instance(struct rank *rank, struct sw_executor *executor, int32_t v, int32_t l,
                            struct sw_harness_value *out, unsigned char *written)
{
    struct shared *shared = rank->shared;
    const struct sw_program *p = shared->program;
    const struct sw_value *value = &p->values[v];
    const struct sw_partition_spec *spec = &value->sharding.spec;
    const int64_t n = instance_elems(value), local = sw_value_local_elems(value);
    const size_t bytes = sw_dtype_bytes(value->dtype);
    char *global = calloc((size_t)n, bytes);
    unsigned char *mine = calloc((size_t)n, 1), *ones = malloc((size_t)local);
    if (global == NULL || mine == NULL || ones == NULL)
        fail(rank, "gather", &(struct sw_error){.message = "out of memory"});
    memset(ones, 1, (size_t)local);
    sw_gather(&p->mesh, spec, value->size, value->padded, bytes, rank->number,
              sw_executor_value(executor, p, v, l), global);
    sw_gather(&p->mesh, spec, value->size, value->padded, 1, rank->number, ones, mine);
    for (int64_t i = 0; i < n; i++) {
        if (!mine[i])
            continue;
        const int64_t at = l * n + natural_index(p, value, i);
        const double x = load(value->dtype, global, i);
        if (written[at] && out->data[at] != x)
            shared->result->rank_differences++;
        written[at] = 1;
        out->data[at] = x;
    }
    free(global);
    free(mine);
    free(ones);
}

static void gather_values(struct rank *rank, struct sw_executor *executor)
{
    struct shared *shared = rank->shared;
    struct sw_harness_result *result = shared->result;
    for (int32_t i = 0; i < result->value_count; i++) {
        const int32_t v = find_value(shared->program, result->value[i].name);
        for (int32_t l = 0; l < shared->program->values[v].stack; l++)
            gather_instance(rank, executor, v, l, &result->value[i], shared->written[i]);
    }
}

/* Makes vectors normal, around 1 for norms that multiply by their weight: constants 1 and 0 would
 * hide a forgotten one. */
static void spread_norms(struct rank *rank, struct sw_executor *executor)
{
    const struct sw_harness *h = rank->shared->harness;
    const struct sw_program *p = rank->shared->program;
    bool copies = false;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        copies = copies || value->copy;
        const bool zeros = value->initial == SW_INITIAL_ZEROS && !value->copy;
        if (value->role != SW_ROLE_PARAMETER || (value->ndim != 1 && !zeros) || value->scales ||
            value->alias >= 0)
            continue;
        const int64_t n = value->size[0] * (value->ndim > 1 ? value->size[1] : 1);
        const double start = value->initial == SW_INITIAL_ONES ? 1 : 0;
        char *global = malloc((size_t)n * sw_dtype_bytes(value->dtype));
        if (global == NULL)
            fail(rank, "norms", &(struct sw_error){.message = "out of memory"});
        for (int32_t l = 0; l < value->stack; l++) {
            char name[SW_NAME_BYTES + 16];
            if (strcmp(value->name, "final_norm") == 0)
                snprintf(name, sizeof name, "%s", value->name);
            else
                snprintf(name, sizeof name, "%s.%d", value->name, (int)l);
            const uint64_t key = sw_init_key(h->seed, name);
            for (int64_t i = 0; i < n; i++)
                store(value->dtype, global, i,
                      start + (double)(float)(h->stddev * sw_init_normal(key, (uint64_t)i)));
            sw_device_put(&p->mesh, &value->sharding.spec, value->size, value->padded,
                          sw_dtype_bytes(value->dtype), rank->number, global,
                          sw_executor_value(executor, p, v, l));
        }
        free(global);
    }
    struct sw_error err = {0};
    if (copies && sw_executor_settle_state(executor, 0, &err) != 0)
        fail(rank, "norms", &err);
}

static void put_parameters(struct rank *rank, struct sw_executor *executor)
{
    const struct sw_harness *h = rank->shared->harness;
    const struct sw_program *p = rank->shared->program;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->role != SW_ROLE_PARAMETER || value->alias >= 0 || value->copy)
            continue;
        if (value->dtype != SW_F32)
            fail(rank, "parameters", &(struct sw_error){.message = "given ones are fp32"});
        const int64_t n = instance_elems(value);
        float *global = malloc((size_t)n * sizeof *global);
        if (global == NULL)
            fail(rank, "parameters", &(struct sw_error){.message = "out of memory"});
        for (int32_t l = 0; l < value->stack; l++) {
            h->parameter(h->parameter_context, value->name, l, global, n);
            sw_device_put(&p->mesh, &value->sharding.spec, value->size, value->padded,
                          sizeof *global, rank->number, global,
                          sw_executor_value(executor, p, v, l));
        }
        free(global);
    }
    struct sw_error err = {0};
    if (sw_executor_settle_state(executor, 0, &err) != 0)
        fail(rank, "parameters", &err);
}

/* ---- Ranks ---- */

static void barrier(struct rank *rank)
{
    struct sw_error err = {0};
    if (rank->comm->vtable->barrier(rank->comm, &err) != 0)
        fail(rank, "barrier", &err);
}

static void run_hook(struct rank *rank, int64_t step, bool begins)
{
    const struct sw_harness *h = rank->shared->harness;
    if (h->hook == NULL)
        return;
    barrier(rank);
    h->hook(h->hook_context, rank->number, step, begins);
    barrier(rank);
}

static void prepare_saves(struct rank *rank, struct sw_executor *executor)
{
    const struct sw_harness *h = rank->shared->harness;
    const struct sw_program_set *set = rank->shared->set;
    const int64_t bytes = h->save_chunk_bytes > 0 ? h->save_chunk_bytes : set->save.chunk_bytes;
    struct sw_error err = {0};
    rank->chunk = malloc((size_t)bytes);
    if (rank->chunk == NULL ||
        sw_exchange_make(&set->state, &set->placement, &rank->comm->mesh, false, bytes,
                         &rank->exchange, &err) != 0 ||
        sw_mover_create(&rank->exchange, executor, &rank->mover, &err) != 0)
        fail(rank, "saves", &err);
}

static int save_round(void *context, int32_t round, struct sw_error *err)
{
    struct rank *rank = context;
    pthread_mutex_lock(&rank->shared->lock);
    rank->shared->result->saved_bytes += sw_exchange_chunk(&rank->exchange, rank->number, round);
    pthread_mutex_unlock(&rank->shared->lock);
    return sw_mover_collect(rank->mover, round, rank->chunk, err);
}

/* Runs the program `save`, or another exchange's rounds. */
static void save(struct rank *rank, struct sw_executor *executor)
{
    const struct sw_fetch fetch = {.round = save_round, .context = rank};
    const bool planned = rank->shared->harness->save_chunk_bytes == 0;
    struct sw_error err = {0};
    int failed = 0;
    if (planned)
        failed = sw_executor_run(executor, SW_PROGRAM_SAVE, NULL, NULL, 0, &fetch, 1, &err);
    for (int32_t r = 0; !planned && failed == 0 && r < rank->exchange.rounds; r++)
        failed = save_round(rank, r, &err);
    if (failed != 0)
        fail(rank, "save", &err);
}

/* Evaluates the batch of the next step. */
static void evaluate(struct rank *rank, struct sw_executor *executor, int64_t number)
{
    struct shared *shared = rank->shared;
    const struct sw_step step = {.step = number, .loss_scale = loss_scale(shared->harness, number)};
    double loss;
    const struct sw_fetch fetch = {.name = "loss", .number = &loss};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    struct sw_error err = {0};
    const int32_t fed = make_feeds(shared, shared->set->program[SW_PROGRAM_EVALUATE], feeds);
    if (sw_executor_run(executor, SW_PROGRAM_EVALUATE, &step, feeds, fed, &fetch, 1, &err) != 0)
        fail(rank, "evaluation", &err);
    if (rank->number == 0)
        shared->result->evaluated[number - 1] = loss;
}

static void between_steps(struct rank *rank, struct sw_executor *executor, int64_t number)
{
    const struct sw_harness *h = rank->shared->harness;
    if (h->save_every > 0 && number % h->save_every == 0)
        save(rank, executor);
    if (h->evaluate_every > 0 && number % h->evaluate_every == 0 && number < h->steps)
        evaluate(rank, executor, number + 1);
}

static void run_steps(struct rank *rank, struct sw_executor *executor)
{
    struct shared *shared = rank->shared;
    const struct sw_harness *h = shared->harness;
    struct sw_harness_result *result = shared->result;
    double loss, norm = 0;
    const struct sw_fetch fetches[] = {{.name = "loss", .number = &loss},
                                       {.name = "grad_norm", .number = &norm}};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    struct sw_error err = {0};
    const int32_t fed = make_feeds(shared, shared->program, feeds);
    for (int64_t s = 1; s <= h->steps; s++) {
        struct sw_step step = h->step;
        step.step = s;
        step.loss_scale = loss_scale(h, s);
        const enum sw_program_kind kind = h->options->kind;
        run_hook(rank, s, true);
        if (sw_executor_run(executor, kind, &step, feeds, fed, fetches,
                            kind == SW_PROGRAM_TRAIN ? 2 : 1, &err) != 0)
            fail(rank, "step", &err);
        run_hook(rank, s, false);
        pthread_mutex_lock(&shared->lock);
        if (isnan(result->loss[s - 1])) { /* the first rank to arrive */
            result->loss[s - 1] = loss;
            result->grad_norm[s - 1] = norm;
        } else if (result->loss[s - 1] != loss || result->grad_norm[s - 1] != norm) {
            result->rank_differences++;
        }
        pthread_mutex_unlock(&shared->lock);
        between_steps(rank, executor, s);
    }
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;
    struct shared *shared = rank->shared;
    const struct sw_harness *h = shared->harness;
    struct sw_error err = {0};
    struct sw_executor *executor = NULL;
    const struct sw_executor_options options = {.poisons = !h->unpoisoned};
    struct sw_device *device = h->device != NULL ? h->device(&err) : sw_cpu_device_create(1, &err);
    if (device == NULL || (h->connect != NULL && h->connect(device, &rank->comm, &err) != 0))
        fail(rank, "device", &err);
    if (sw_executor_create(shared->set, device, rank->comm, &options, &executor, &err) != 0)
        fail(rank, "executor", &err);
    if (sw_executor_init_state(executor, h->seed, h->stddev, &err) != 0)
        fail(rank, "parameters", &err);
    if (h->spread_norms)
        spread_norms(rank, executor);
    if (h->parameter != NULL)
        put_parameters(rank, executor);
    if (h->save_every > 0)
        prepare_saves(rank, executor);
    run_steps(rank, executor);
    pthread_mutex_lock(&shared->lock);
    shared->result->arena_bytes = sw_executor_arena_bytes(executor);
    gather_values(rank, executor);
    pthread_mutex_unlock(&shared->lock);
    sw_mover_free(rank->mover);
    sw_exchange_free(&rank->exchange);
    free(rank->chunk);
    sw_executor_free(executor);
    barrier(rank); /* no rank is left waiting for this one */
    rank->comm->vtable->destroy(rank->comm);
    device->vtable->destroy(device);
    return NULL;
}

static int run_ranks(struct shared *shared, struct sw_error *err)
{
    const int32_t n = sw_mesh_rank_count(&shared->program->mesh);
    struct sw_comm **comms = calloc((size_t)n, sizeof *comms);
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    int status = -1;
    if (comms == NULL || ranks == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory");
        goto out;
    }
    if (sw_comm_threads_create(&shared->program->mesh, comms, err) != 0)
        goto out;
    for (int32_t r = 0; r < n; r++) {
        ranks[r] = (struct rank){.shared = shared, .comm = comms[r], .number = r};
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0)
            fail(&ranks[r], "thread", &(struct sw_error){.message = "cannot be created"});
    }
    for (int32_t r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
    status = 0;
out:
    free(comms);
    free(ranks);
    return status;
}

static int prepare(struct shared *shared, struct sw_error *err)
{
    const struct sw_harness *h = shared->harness;
    struct sw_harness_result *result = shared->result;
    result->steps = h->steps;
    result->planned_arena_bytes = shared->set->arena_bytes;
    result->loss = malloc((size_t)h->steps * sizeof *result->loss);
    result->grad_norm = malloc((size_t)h->steps * sizeof *result->grad_norm);
    result->evaluated = malloc((size_t)h->steps * sizeof *result->evaluated);
    shared->rows = make_rows(h);
    if (result->loss == NULL || result->grad_norm == NULL || result->evaluated == NULL ||
        shared->rows == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (int64_t s = 0; s < h->steps; s++)
        result->loss[s] = result->grad_norm[s] = result->evaluated[s] = (double)NAN;
    for (int32_t i = 0; h->values != NULL && h->values[i] != NULL; i++) {
        const int32_t v = find_value(shared->program, h->values[i]);
        if (v < 0)
            return sw_fail(err, SW_BAD_INPUT, "the program has no value '%s'", h->values[i]);
        if (i == SW_HARNESS_MAX_VALUES)
            return sw_fail(err, SW_BAD_INPUT, "too many values to gather");
        const struct sw_value *value = &shared->program->values[v];
        struct sw_harness_value *out = &result->value[result->value_count++];
        snprintf(out->name, sizeof out->name, "%s", h->values[i]);
        out->elems = value->stack * instance_elems(value);
        out->data = calloc((size_t)out->elems, sizeof *out->data);
        shared->written[i] = calloc((size_t)out->elems, 1);
        if (out->data == NULL || shared->written[i] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory");
        for (int64_t e = 0; e < out->elems; e++)
            out->data[e] = (double)NAN; /* shows an element that no rank gives */
    }
    return 0;
}

/* Compiles all training programs if several are run. */
static int compile(struct shared *shared, struct sw_error *err)
{
    const struct sw_harness *h = shared->harness;
    struct sw_program *program = NULL;
    if (h->save_every > 0 || h->evaluate_every > 0)
        return sw_program_set_compile(h->options, &shared->set, err);
    return sw_program_compile(h->options, SW_LAID_OUT, &program, err) != 0
               ? -1
               : sw_program_set_single(program, h->options->kind, &shared->set, err);
}

int sw_harness_run(const struct sw_harness *harness, struct sw_harness_result *out,
                   struct sw_error *err)
{
    int status = -1;
    struct shared shared = {.harness = harness, .result = out};
    shared.batch = (struct sw_batch){batch, &shared, false};
    memset(out, 0, sizeof *out);
    pthread_mutex_init(&shared.lock, NULL);
    if (compile(&shared, err) != 0)
        goto out;
    shared.program = shared.set->program[harness->options->kind];
    if (prepare(&shared, err) != 0 || run_ranks(&shared, err) != 0)
        goto out;
    status = 0;
out:
    if (status != 0)
        sw_harness_result_free(out);
    for (int32_t i = 0; i < SW_HARNESS_MAX_VALUES; i++)
        free(shared.written[i]);
    free(shared.rows);
    pthread_mutex_destroy(&shared.lock);
    sw_program_set_free(shared.set);
    return status;
}

void sw_harness_result_free(struct sw_harness_result *result)
{
    if (result == NULL)
        return;
    for (int32_t i = 0; i < result->value_count; i++)
        free(result->value[i].data);
    free(result->loss);
    free(result->grad_norm);
    free(result->evaluated);
    memset(result, 0, sizeof *result);
}

const struct sw_harness_value *sw_harness_find(const struct sw_harness_result *result,
                                               const char *name)
{
    for (int32_t i = 0; i < result->value_count; i++)
        if (strcmp(result->value[i].name, name) == 0)
            return &result->value[i];
    return NULL;
}

double sw_harness_difference(const double *a, const double *b, int64_t elems)
{
    double difference = 0, largest = 0;
    for (int64_t i = 0; i < elems; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i]))
            return (double)INFINITY;
        difference = fmax(difference, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    if (difference == 0)
        return 0;
    return difference / largest;
}

void sw_harness_meshes(struct sw_mesh meshes[SW_HARNESS_MESHES])
{
    int32_t count = 0;
    for (int32_t ranks = 1; ranks <= 8; ranks *= 2)
        for (int32_t dp = 1; dp <= ranks; dp *= 2)
            for (int32_t fsdp = 1; dp * fsdp <= ranks; fsdp *= 2)
                for (int32_t tp = 1; dp * fsdp * tp <= ranks; tp *= 2)
                    meshes[count++] = sw_mesh_make(dp, fsdp, tp, ranks / (dp * fsdp * tp));
}
