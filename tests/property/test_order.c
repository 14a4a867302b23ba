/* What runs is what was priced, in that order: programs of every kind run on a device and a
 * communicator that compute nothing and note each call, and these are compared, op by op, with the
 * price's trace and with the order that core/ir/walk.h promises, written here once more. */
#include "core/cost/cost.h"
#include "core/ir/op.h"
#include "core/ir/walk.h"
#include "runner/rank/execute.h"
#include "tests/support/recompute.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- What is noted ---- */

enum note_kind { NOTE_OP, NOTE_ROUND, NOTE_START, NOTE_WAIT };

/* A call that the executor made. */
struct note {
    enum note_kind kind;
    int32_t op, micro_step; /* of an op; of a round its number */
    enum sw_collective collective;
    struct sw_axes axes;
    uint64_t ticket;
    uint64_t operands; /* of all their addresses */
};

struct recorder {
    struct sw_device device;
    struct sw_comm comm;
    const struct sw_program *program;
    struct note *note; /* [count] */
    int32_t count, capacity;
    uint64_t tickets;
};

static struct note *add_note(struct recorder *r)
{
    if (r->count == r->capacity) {
        r->capacity = r->capacity == 0 ? 4096 : 2 * r->capacity;
        r->note = realloc(r->note, (size_t)r->capacity * sizeof *r->note);
        assert_non_null(r->note);
    }
    r->note[r->count] = (struct note){.ticket = 0};
    return &r->note[r->count++];
}

static uint64_t add_address(uint64_t hash, const void *address)
{
    return (hash ^ (uint64_t)(uintptr_t)address) * UINT64_C(0x100000001b3);
}

/* ---- The device that computes nothing ---- */

static void *allocate(struct sw_device *device, size_t bytes)
{
    (void)device;
    return calloc(1, bytes);
}

static void release(struct sw_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int copy(struct sw_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return 0;
}

static int synchronize(struct sw_device *device, struct sw_error *err)
{
    (void)device;
    (void)err;
    return 0;
}

static int note_op(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct recorder *r = (struct recorder *)device;
    struct note *note = add_note(r);
    (void)err;
    note->kind = NOTE_OP;
    note->op = (int32_t)(call->op - r->program->ops);
    note->micro_step = call->step->micro_step;
    for (uint16_t i = 0; i < call->op->n_in; i++)
        note->operands = add_address(note->operands, call->in[i].data);
    for (uint16_t i = 0; i < call->op->n_out; i++)
        note->operands = add_address(note->operands, call->out[i].data);
    return 0;
}

/* ---- The communicator that sends nothing ---- */

static int note_start(struct sw_comm *comm, const struct sw_collective_call *call, uint64_t *ticket,
                      struct sw_error *err)
{
    struct recorder *r = (struct recorder *)((char *)comm - offsetof(struct recorder, comm));
    struct note *note = add_note(r);
    (void)err;
    note->kind = NOTE_START;
    note->collective = call->kind;
    note->axes = call->axes;
    note->ticket = *ticket = ++r->tickets;
    for (int32_t i = 0; i < call->count; i++)
        note->operands = add_address(add_address(note->operands, call->in[i]), call->out[i]);
    return 0;
}

static int note_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    struct recorder *r = (struct recorder *)((char *)comm - offsetof(struct recorder, comm));
    struct note *note = add_note(r);
    (void)err;
    note->kind = NOTE_WAIT;
    note->ticket = ticket;
    return 0;
}

static const struct sw_comm_vtable comm_vtable = {.start = note_start, .wait = note_wait};

/* ---- What must come ---- */

/* An op as it must be issued. */
struct issue {
    int32_t op, region, layer, micro_step;
    bool priced; /* not among those that the price extrapolates */
};

struct issues {
    struct issue *at; /* [count] */
    int32_t count, capacity;
};

static void add_issue(struct issues *list, struct issue issue)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 4096 : 2 * list->capacity;
        list->at = realloc(list->at, (size_t)list->capacity * sizeof *list->at);
        assert_non_null(list->at);
    }
    list->at[list->count++] = issue;
}

/* The price goes through the first two of what repeats, behind an iteration that leaves out layers,
 * and through the last iteration. */
enum { PRICED = 2 };

static void expect_region(const struct sw_program *p, int32_t r, int32_t micro_step, bool last,
                          bool priced, struct issues *out)
{
    const struct sw_region *region = &p->regions[r];
    const int32_t lead = region->first_layer % region->period;
    const int32_t end = region->first_layer + region->layers;
    const bool cut = (region->reverse ? end : lead) % region->period != 0;
    for (int32_t i = -1; i < region->repeat; i++)
        for (int32_t o = region->first_op; o < region->first_op + region->op_count; o++) {
            const int32_t iteration = p->ops[o].ahead ? i + 1 : i;
            if (iteration < 0 || (p->ops[o].ahead && iteration == region->repeat) ||
                (p->ops[o].last_micro_step && !last))
                continue;
            const int32_t up = region->reverse ? region->repeat - 1 - iteration : iteration;
            const int32_t layer =
                region->first_layer - lead + up * region->period + p->ops[o].position;
            if (region->layers > 0 && (layer < region->first_layer || layer >= end))
                continue;
            const bool walked = i < PRICED + cut || i == region->repeat - 1;
            add_issue(out, (struct issue){o, r, layer, micro_step, priced && walked});
        }
}

static struct issues expect(const struct sw_program *p)
{
    struct issues out = {0};
    bool once = false;
    for (int32_t i = 0; i < p->op_count; i++)
        once = once || p->ops[i].last_micro_step;
    for (int32_t m = 0; m <= p->accumulation_steps; m++) {
        const bool update = m == p->accumulation_steps;
        const bool last = m == p->accumulation_steps - 1;
        const bool priced = m < PRICED || update || (last && once);
        for (int32_t r = 0; r < p->region_count; r++)
            if ((p->regions[r].phase == SW_PHASE_UPDATE) == update)
                expect_region(p, r, m, last, priced, &out);
    }
    return out;
}

/* ---- The price's order ---- */

static void add_event(void *context, const struct sw_cost_event *e)
{
    add_issue(context, (struct issue){e->op, e->region, e->layer, e->micro_step, true});
}

static void check_price(const struct sw_program *p, const struct sw_cluster_config *cluster,
                        const struct issues *wanted, const char *what)
{
    struct issues priced = {0};
    struct sw_cost cost;
    struct sw_error err = {0};
    const struct sw_workload workload = {.prompt_tokens = 0};
    const struct sw_cost_observer observer = {add_event, &priced};
    if (sw_cost_trace(p, cluster, &workload, &observer, &cost, &err) != 0)
        fail_msg("%s: %s", what, err.message);
    int32_t next = 0;
    for (int32_t i = 0; i < wanted->count; i++) {
        const struct issue *w = &wanted->at[i], *e = &priced.at[next];
        if (!w->priced)
            continue;
        if (next == priced.count || e->op != w->op || e->region != w->region ||
            e->layer != w->layer || e->micro_step != w->micro_step)
            fail_msg("%s: '%s' of layer %d, micro-step %d, is not priced in its place (%d)", what,
                     sw_op_info(p->ops[w->op].kind)->name, (int)w->layer, (int)w->micro_step,
                     (int)next);
        next++;
    }
    assert_int_equal(next, priced.count);
    free(priced.at);
}

/* ---- The executor's order ---- */

static uint64_t add_operand(uint64_t hash, struct sw_executor *x, const struct sw_program *p,
                            struct sw_ref ref, int32_t layer)
{
    const int32_t instance = ref.mode == SW_INDEX_WHOLE ? 0 : sw_ref_instance(p, ref, layer);
    return add_address(hash, sw_executor_value(x, p, ref.value, instance));
}

/* Of an op in a layer, as the device and the communicator are given them. */
static uint64_t operands_of(struct sw_executor *x, const struct sw_program *p,
                            const struct sw_op *op, int32_t layer)
{
    uint64_t hash = 0;
    if (sw_op_is_collective(op->kind)) {
        for (uint16_t i = 0; i < op->n_in; i++)
            hash = add_operand(add_operand(hash, x, p, op->in[i], layer), x, p, op->out[i], layer);
        return hash;
    }
    for (uint16_t i = 0; i < op->n_in; i++)
        hash = add_operand(hash, x, p, op->in[i], layer);
    for (uint16_t i = 0; i < op->n_out; i++)
        hash = add_operand(hash, x, p, op->out[i], layer);
    return hash;
}

/* How the notes are read, one after the other. */
struct reading {
    const struct recorder *recorder;
    struct sw_executor *executor;
    uint64_t *ticket; /* [value_count]: of the newest collective that writes it */
    uint64_t waited;
    int32_t next;
};

/* Whether the next notes are what the op must lead to. */
static bool read_issue(struct reading *r, const struct issue *w)
{
    const struct sw_program *p = r->recorder->program;
    const struct sw_op *op = &p->ops[w->op];
    const struct note *note = &r->recorder->note[r->next];
    if (sw_op_is_wait(op->kind)) {
        const uint64_t ticket = r->ticket[op->in[0].value];
        if (ticket <= r->waited) /* with a later one, or there is nothing under way */
            return true;
        r->waited = ticket;
        return r->next++ < r->recorder->count && note->kind == NOTE_WAIT && note->ticket == ticket;
    }
    if (sw_op_is_exchange(op->kind))
        return r->next++ < r->recorder->count && note->kind == NOTE_ROUND && note->op == w->layer;
    if (r->next++ >= r->recorder->count ||
        note->operands != operands_of(r->executor, p, op, w->layer))
        return false;
    if (!sw_op_is_collective(op->kind))
        return note->kind == NOTE_OP && note->op == w->op && note->micro_step == w->micro_step;
    for (uint16_t i = 0; i < op->n_out; i++)
        r->ticket[op->out[i].value] = note->ticket;
    return note->kind == NOTE_START && note->collective == sw_op_collective(op->kind) &&
           sw_axes_equal(note->axes, op->axes);
}

/* A round of `save` is an op. */
static int note_round(void *context, int32_t round, struct sw_error *err)
{
    struct note *note = add_note(context);
    (void)err;
    *note = (struct note){.kind = NOTE_ROUND, .op = round};
    return 0;
}

static int read_nothing(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)context;
    (void)err;
    memset(to, 0, (size_t)(ask->rows * ask->row_elems));
    return 0;
}

static void check_run(const struct sw_program_set *set, enum sw_program_kind kind, int32_t size,
                      int32_t rank, const struct issues *wanted, const char *what)
{
    const struct sw_program *p = sw_program_set_size(set, kind, size);
    struct sw_device_vtable vtable = {.name = "recorder",
                                      .in_host_memory = true,
                                      .allocate = allocate,
                                      .release = release,
                                      .copy_in = copy,
                                      .copy_out = copy,
                                      .synchronize = synchronize};
    for (int32_t i = 0; i < SW_OP_COUNT; i++)
        vtable.run[i] = note_op;
    struct recorder recorder = {.device = {.vtable = &vtable},
                                .comm = {.vtable = &comm_vtable,
                                         .rank = rank,
                                         .size = sw_mesh_rank_count(&p->mesh),
                                         .mesh = p->mesh},
                                .program = p};
    const struct sw_fetch fetch = {.round = note_round, .context = &recorder};
    struct sw_feed feeds[SW_MAX_PORTS];
    struct sw_error err = {0};
    struct reading r = {.recorder = &recorder,
                        .ticket = calloc((size_t)p->value_count, sizeof *r.ticket)};
    assert_non_null(r.ticket);
    for (int32_t i = 0; i < p->inputs.count; i++)
        feeds[i] = (struct sw_feed){.name = p->inputs.at[i].name, .read = read_nothing};
    if (sw_executor_create(set, &recorder.device, &recorder.comm, NULL, &r.executor, &err) != 0 ||
        sw_executor_run_size(r.executor, kind, size, NULL, feeds, p->inputs.count, &fetch,
                             kind == SW_PROGRAM_SAVE, &err) != 0)
        fail_msg("%s: %s", what, err.message);
    for (int32_t i = 0; i < wanted->count; i++) {
        const struct issue *w = &wanted->at[i];
        if (!read_issue(&r, w))
            fail_msg("%s: '%s' of layer %d, micro-step %d, does not run in its place (%d)", what,
                     sw_op_info(p->ops[w->op].kind)->name, (int)w->layer, (int)w->micro_step,
                     (int)r.next - 1);
    }
    for (; r.next < recorder.count; r.next++) /* what is still under way is waited for at the end */
        assert_int_equal(recorder.note[r.next].kind, NOTE_WAIT);
    sw_executor_free(r.executor);
    free(r.ticket);
    free(recorder.note);
}

/* ---- Programs ---- */

static const int32_t meshes[][4] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1},
                                    {1, 1, 1, 2}, {2, 2, 1, 1}, {1, 4, 2, 1}, {1, 2, 1, 4},
                                    {1, 1, 4, 2}, {2, 2, 2, 1}, {2, 1, 2, 2}, {2, 2, 2, 2}};
enum { MESHES = sizeof meshes / sizeof meshes[0], VARIANTS = 8 };

static struct sw_program_options make_options(const struct sw_mesh *mesh, int32_t variant)
{
    static const int32_t layers[] = {1, 2, 3, 5};
    static const uint8_t periods[] = {0, 2, 3};
    const int32_t replicas = mesh->size[SW_DP] * mesh->size[SW_FSDP];
    struct sw_program_options o = {.model = {.vocab_size = 64,
                                             .hidden_size = 64,
                                             .intermediate_size = 128,
                                             .layers = layers[variant % 4],
                                             .period = periods[variant / 4 % 3],
                                             .heads = 8,
                                             .kv_heads = 4,
                                             .head_dim = 8,
                                             .rope.theta = 10000,
                                             .rms_norm_eps = 1e-5,
                                             .tied = variant / 2 % 2 == 1},
                                   .sequence_length = 64,
                                   .global_batch = 16,
                                   .compute = variant / 4 % 2 ? SW_BF16_T : SW_F32,
                                   .params = SW_F32,
                                   .reduce = SW_F32,
                                   .mesh = *mesh,
                                   .layout = variant % 2 ? SW_ZIGZAG : SW_CONTIGUOUS};
    o.micro_batch_per_rank = variant % 3 == 0 ? 16 / replicas : variant % 3 == 1 ? 1 : 3;
    o.recompute = sw_test_recompute((uint32_t)variant, &o.model, o.model.layers);
    sw_rules_default(&o.rules, (enum sw_attention_strategy)(variant % 3));
    if (variant % 2)
        o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
    return o;
}

static void check_program(const struct sw_program_set *set, const struct sw_run_config *run,
                          enum sw_program_kind kind, int32_t size, const char *what)
{
    const struct sw_program *p = sw_program_set_size(set, kind, size);
    char name[160];
    struct issues wanted = expect(p);
    snprintf(name, sizeof name, "%s of %d rows, %s", sw_program_kind_name(kind),
             (int)p->micro_batch, what);
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        double issued = 0;
        for (int32_t i = 0; i < wanted.count; i++)
            issued += wanted.at[i].op == w.op && wanted.at[i].region == w.region;
        assert_true(issued == sw_walk_count(p, &p->regions[w.region], &p->ops[w.op]));
    }
    check_price(p, &run->cluster, &wanted, name);
    const int32_t last = sw_mesh_rank_count(&p->mesh) - 1;
    for (int32_t r = 0; r < 2; r++)
        check_run(set, kind, size, r * last, &wanted, name);
    free(wanted.at);
}

/* Adds to ran[k] of each kind that is there, to *sizes programs of fewer rows. */
static void check_set(const struct sw_program_set *set, const struct sw_run_config *run,
                      int32_t ran[SW_PROGRAM_KINDS], int32_t *sizes, const char *what)
{
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        for (int32_t size = 0; size < SW_SERVING_SIZES; size++) {
            if (sw_program_set_size(set, (enum sw_program_kind)k, size) == NULL)
                continue;
            check_program(set, run, (enum sw_program_kind)k, size, what);
            ran[k] += size == 0;
            *sizes += size > 0;
        }
}

/* Prefill that takes tokens of running texts too, and its program of many rows, and that program
 * beside chunks: on a target that makes a row alike in all, where no sequence is split. */
static void check_mixing(const struct sw_program_options *training, const struct sw_run_config *run,
                         int32_t ran[SW_PROGRAM_KINDS], int32_t *sizes, const char *what)
{
    struct sw_program_options o = *training;
    o.target = (struct sw_program_target){.invariant_rows = 32, .invariant_elems = 1 << 20};
    const int64_t ways = sw_axes_size(&o.mesh, o.rules.axes[SW_L_BATCH]);
    const struct sw_serving servings[] = {
        {.max_batch = 16, .max_tokens = 64, .token_budget = 24 * ways, .cache = o.compute},
        {.max_batch = 16, .max_tokens = 80, .chunk = 40, .cache = o.compute}};
    const uint32_t kinds =
        1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE | 1u << SW_PROGRAM_READ;
    for (size_t i = 0; i < sizeof servings / sizeof *servings; i++) {
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        if (o.mesh.size[SW_SP] > 1 ||
            sw_program_set_compile_serving(&o, &servings[i], kinds, &set, &err) != 0)
            return;
        check_set(set, run, ran, sizes, what);
        sw_program_set_free(set);
    }
}

static void what_runs_is_what_was_priced(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    const struct sw_run_config *run = sw_config_run(config);
    int32_t ran[SW_PROGRAM_KINDS] = {0}, mixed[SW_PROGRAM_KINDS] = {0}, unsplit = 0;
    int32_t fewer = 0, sizes = 0;
    for (int32_t i = 0; i < MESHES * VARIANTS; i++) {
        const int32_t *size = meshes[i % MESHES], variant = i / MESHES;
        const struct sw_mesh mesh = sw_mesh_make(size[0], size[1], size[2], size[3]);
        const struct sw_program_options o = make_options(&mesh, variant);
        const struct sw_serving serving = {.max_batch = 16,
                                           .max_tokens = 64,
                                           .chunk = variant % 2 ? 16 : 64,
                                           .token_budget = variant % 3 * 256,
                                           .cache = o.compute,
                                           .stream_weights = variant / 2 % 2 == 1,
                                           .gathers =
                                               variant % 3 ? SW_GATHER_QUERIES : SW_GATHER_FEWEST};
        const uint32_t kinds =
            1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE | 1u << SW_PROGRAM_SCORE;
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        char what[96], detail[256], help[256];
        snprintf(what, sizeof what, "mesh %d,%d,%d,%d, variant %d", (int)size[0], (int)size[1],
                 (int)size[2], (int)size[3], (int)variant);
        if (sw_program_admits(&o, detail, help) == SW_FITS) {
            if (sw_program_set_compile(&o, &set, &err) != 0)
                fail_msg("%s: %s", what, err.message);
            check_set(set, run, ran, &fewer, what);
            sw_program_set_free(set);
        }
        if (sw_program_set_compile_serving(&o, &serving, kinds, &set, &err) == 0) {
            check_set(set, run, ran, &fewer, what);
            sw_program_set_free(set);
        }
        check_mixing(&o, run, mixed, &sizes, what);
        unsplit += size[SW_SP] == 1;
    }
    assert_int_equal(fewer, 0); /* its target makes no rows alike */
    assert_true(sizes >= 3 * unsplit);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        assert_int_equal(k == SW_PROGRAM_READ ? mixed[k] : ran[k],
                         k == SW_PROGRAM_READ ? 2 * unsplit : MESHES * VARIANTS);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_runs_is_what_was_priced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
