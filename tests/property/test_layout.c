/* Layout never lets live buffers overlap: the program is walked as the runner executes it, layer by
 * layer, and every block of the arena remembers whose data it holds. A read must find its own
 * value's data; a collective's operands and scratch must stay untouched until its wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/passes/retarget.h"
#include "core/ir/op.h"
#include "core/ir/serving.h"
#include "core/programs/compile.h"
#include "core/ir/walk.h"
#include "tests/support/recompute.h"
#include "tests/support/rule_draws.h"
#include "tests/support/share.h"

#include <stdlib.h>
#include <string.h>

enum { FLIGHTS = 256 };

static int64_t draws = 100; /* of rules */
static uint64_t seed = 1;
static char about[SW_RULE_DRAW_BYTES]; /* the draw at hand, for messages */

struct walk {
    const struct sw_program *p;
    int64_t *owner; /* per block of SW_ARENA_ALIGNMENT bytes */
    struct {
        bool active;
        int32_t op, layer;
    } flight[FLIGHTS];
    struct sw_walk at;
    bool
        *written; /* [value]: some instance was written (what was never written is initial state) */
};

static int32_t root(const struct sw_program *p, int32_t value)
{
    return p->values[value].alias >= 0 ? p->values[value].alias : value;
}

static void range(const struct walk *w, struct sw_ref ref, int32_t layer, int32_t instance,
                  int64_t *first, int64_t *last, int64_t *tag)
{
    const struct sw_value *value = &w->p->values[root(w->p, ref.value)];
    const int64_t at = value->offset + (instance % value->slots) * value->slot_bytes;
    (void)layer;
    *first = at;
    *last = at + value->slot_bytes - 1;
    *tag = (int64_t)(root(w->p, ref.value) + 1) * 1000 + instance;
}

/* Owners are kept per byte range start of instances; blocks are coarse, so instances that share a
 * block are told apart by checking only whole blocks inside the range and the first byte's block
 * when the value owns all of it. */
static void each(struct walk *w, struct sw_ref ref, int32_t layer, bool write, const char *what)
{
    const struct sw_value *value = &w->p->values[root(w->p, ref.value)];
    const int32_t count = ref.mode == SW_INDEX_WHOLE ? value->stack : 1;
    for (int32_t i = 0; i < count; i++) {
        int32_t instance = ref.mode == SW_INDEX_WHOLE ? i : sw_ref_instance(w->p, ref, layer);
        int64_t first, last, tag;
        range(w, ref, layer, instance, &first, &last, &tag);
        assert_true(instance >= 0 && instance < w->p->values[ref.value].stack);
        assert_true(last < w->p->arena_bytes);
        const bool coarse = value->slot_bytes % SW_ARENA_ALIGNMENT != 0 && value->slots > 1;
        for (int64_t b = first / SW_ARENA_ALIGNMENT; b <= last / SW_ARENA_ALIGNMENT; b++) {
            if (write)
                w->owner[b] = tag;
            else if (coarse ? w->owner[b] / 1000 != tag / 1000 : w->owner[b] != tag)
                if (w->owner[b] != 0 || value->role == SW_ROLE_ACTIVATION)
                    fail_msg("%s: '%s' instance %d is overwritten by '%s'; %s", what, value->name,
                             instance,
                             w->owner[b] > 0 ? w->p->values[w->owner[b] / 1000 - 1].name
                                             : "scratch",
                             about);
        }
    }
}

static void scratch(struct walk *w, const struct sw_op *op, int32_t index, bool write)
{
    const int64_t tag = -(int64_t)index - 1;
    for (int64_t at = 0; at < op->workspace_bytes; at += SW_ARENA_ALIGNMENT) {
        int64_t *owner = &w->owner[(op->workspace_offset + at) / SW_ARENA_ALIGNMENT];
        if (write)
            *owner = tag;
        else
            assert_true(*owner == tag);
    }
}

static void land(struct walk *w, int32_t flight)
{
    const int32_t index = w->flight[flight].op, layer = w->flight[flight].layer;
    const struct sw_op *op = &w->p->ops[index];
    for (uint16_t i = 0; i < op->n_in; i++)
        if (op->kind != SW_OP_ALL_REDUCE)
            each(w, op->in[i], layer, false, "input of a collective in flight");
    for (uint16_t i = 0; i < op->n_out; i++)
        each(w, op->out[i], layer, false, "output of a collective in flight");
    scratch(w, op, index, false);
    w->flight[flight].active = false;
}

/* Collectives run in order: once the newest writer of the value has landed, older ones have. What a
 * step does once is there in one micro-step only. */
static void land_writers(struct walk *w, int32_t value, int32_t layer)
{
    enum { ONCE = SW_WHEN_LAST_MICRO_STEP | SW_WHEN_FIRST_MICRO_STEP };
    bool found = false, once = false, left_out = false;
    for (int32_t i = 0; i < w->p->op_count; i++) {
        if (w->p->ops[i].out == NULL || w->p->ops[i].out[0].value != value)
            continue;
        once = once || w->p->ops[i].last_micro_step;
        left_out = left_out || (sw_walk_when(&w->p->ops[i]) & w->at.skip & ONCE) != 0;
    }
    for (int32_t f = 0; f < FLIGHTS; f++) {
        if (!w->flight[f].active || (!once && w->flight[f].layer != layer))
            continue;
        const struct sw_op *op = &w->p->ops[w->flight[f].op];
        bool writes = false;
        for (uint16_t i = 0; i < op->n_out; i++)
            writes = writes || op->out[i].value == value;
        if (writes)
            land(w, f);
        found = found || writes;
    }
    if (!found && !left_out)
        fail_msg("a wait for '%s' without a collective; %s", w->p->values[value].name, about);
}

static void run_op(struct walk *w, int32_t index, int32_t layer)
{
    const struct sw_op *op = &w->p->ops[index];
    if (op->kind == SW_OP_WAIT) {
        land_writers(w, op->in[0].value, layer);
        return;
    }
    for (uint16_t i = 0; i < op->n_in; i++)
        each(w, op->in[i], layer, false, sw_op_info(op->kind)->name);
    scratch(w, op, index, true);
    for (uint16_t i = 0; i < op->n_out; i++)
        each(w, op->out[i], layer, true, sw_op_info(op->kind)->name);
    if (!sw_op_is_collective(op->kind))
        return;
    for (int32_t f = 0; f < FLIGHTS; f++)
        if (!w->flight[f].active) {
            w->flight[f].active = true;
            w->flight[f].op = index;
            w->flight[f].layer = layer;
            return;
        }
    fail_msg("more than %d collectives in flight", FLIGHTS);
}

static void run_region(struct walk *w)
{
    const struct sw_region *region = &w->p->regions[w->at.region];
    while (sw_walk_iteration(&w->at))
        while (sw_walk_op(&w->at))
            run_op(w, w->at.op, w->at.layer);
    for (int32_t f = 0; f < FLIGHTS; f++)
        if (w->flight[f].active &&
            (region->phase == SW_PHASE_UPDATE || !w->p->ops[w->flight[f].op].last_micro_step))
            fail_msg("%s: a collective is never waited for; %s", region->name, about);
}

static void check_program(const struct sw_program *p)
{
    struct walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->p = p;
    w->owner = calloc((size_t)(p->arena_bytes / SW_ARENA_ALIGNMENT + 2), sizeof *w->owner);
    assert_non_null(w->owner);
    for (int32_t v = 0; v < p->value_count; v++)
        if (sw_program_is_stored(p, v) &&
            (p->values[v].role == SW_ROLE_INPUT || p->values[v].role == SW_ROLE_PARAMETER ||
             p->values[v].role == SW_ROLE_OPTIMIZER))
            each(w, (struct sw_ref){v, SW_INDEX_WHOLE, 0}, 0, true, "initial state");
    for (int32_t step = 0; step < 2; step++) {
        w->at = sw_walk_begin(p);
        while (sw_walk_pass(&w->at))
            while (sw_walk_region(&w->at))
                run_region(w);
    }
    assert_true(p->arena_bytes == p->parameter_bytes + p->weight_bytes + p->gradient_bytes +
                                      p->optimizer_bytes + p->activation_bytes +
                                      p->workspace_bytes);
    free(w->owner);
    free(w);
}

static void check(const struct sw_program_options *o)
{
    struct sw_error err = {0};
    struct sw_program *p = NULL;
    if (sw_program_compile(o, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    check_program(p);
    sw_program_free(p);
}

static struct sw_program_options options(const struct sw_mesh *mesh)
{
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model.vocab_size = 64;
    o.model.hidden_size = 64;
    o.model.intermediate_size = 128;
    o.model.heads = 8;
    o.model.kv_heads = 4;
    o.model.head_dim = 8;
    o.model.rope.theta = 10000;
    o.model.rms_norm_eps = 1e-5;
    o.sequence_length = 64;
    o.global_batch = 16;
    o.micro_batch_per_rank = 1;
    o.params = o.reduce = SW_F32;
    o.mesh = *mesh;
    return o;
}

static int check_mesh(const struct sw_mesh *mesh, void *context)
{
    int32_t *checked = context;
    struct sw_program_options o = options(mesh);
    uint32_t set = 3 + (uint32_t)*checked;
    /* a share of 3: a mesh has one strategy, and every other choice with it */
    static int turn = 0;
    const int share = sw_test_share();
    for (int variant = turn++ % share; variant < 3 * 2 * 4 * 2 * 2 * 2 * 2; variant += share) {
        int v = variant;
        sw_rules_default(&o.rules, (enum sw_attention_strategy)(v % 3));
        v /= 3;
        if (v % 2)
            o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
        v /= 2;
        const uint32_t level = (uint32_t)(v % 4);
        v /= 4;
        o.model.tied = v % 2;
        v /= 2;
        o.compute = v % 2 ? SW_BF16_T : SW_F32;
        o.keep_copy = variant % 5 == 1;
        v /= 2;
        o.model.layers = v % 2 ? 1 : 4;
        o.model.period = v % 8 == 4 ? 3 : 0;
        o.recompute = sw_test_recompute(level < 3 ? level : set++, &o.model, o.model.layers);
        v /= 2;
        o.kind = v % 2 ? SW_PROGRAM_EVALUATE : SW_PROGRAM_TRAIN;
        o.layout = variant % 5 == 0 ? SW_CONTIGUOUS : SW_ZIGZAG;
        o.micro_batch_per_rank = variant % 2 ? 1 : 16 / (mesh->size[SW_DP] * mesh->size[SW_FSDP]);
        char detail[256], help[256];
        if (sw_program_admits(&o, detail, help) != SW_FITS)
            continue;
        check(&o);
        ++*checked;
    }
    return 0;
}

static void test_no_overlap_on_any_mesh(void **state)
{
    (void)state;
    int32_t checked = 0;
    for (int32_t ranks = 1; ranks <= 8; ranks *= 2)
        assert_int_equal(sw_mesh_enumerate(ranks, check_mesh, &checked), 0);
    assert_true(checked >= 35 * (384 / sw_test_share()));
}

/* A weight that is cast and gathered in two steps, over one axis and then over another. */
static void test_gathers_in_two_steps(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 2);
    for (int32_t layers = 1; layers <= 4; layers++) {
        struct sw_program_options o = options(&mesh);
        sw_rules_default(&o.rules, SW_ATTENTION_RING);
        assert_int_equal(sw_rules_set(&o.rules, "embed", (struct sw_axes){1, {SW_FSDP}}, NULL), 0);
        o.rules.axes[SW_L_MLP] = (struct sw_axes){1, {SW_SP}};
        o.compute = SW_BF16_T;
        o.model.layers = layers;
        o.model.period = (uint8_t)(layers % 3);
        o.layout = SW_ZIGZAG;
        check(&o);
    }
}

/* Training and evaluation under any rows of `rules` that are admitted. */
static void test_no_overlap_under_any_rules(void **state)
{
    (void)state;
    int32_t checked = 0;
    for (int64_t i = 1; i <= draws; i++) {
        static const enum sw_program_kind kinds[] = {SW_PROGRAM_TRAIN, SW_PROGRAM_EVALUATE};
        struct sw_rule_draw d;
        sw_rule_draw_make(seed, i, &d);
        sw_rule_draw_describe(&d, about);
        for (int32_t k = 0; k < 2 && !d.serves; k++) {
            struct sw_program *p = NULL;
            d.options.kind = kinds[k];
            if (sw_program_compile(&d.options, SW_LAID_OUT, &p, NULL) != 0)
                continue;
            check_program(p);
            sw_program_free(p);
            checked++;
        }
    }
    about[0] = '\0';
    assert_true(checked > 0);
}

enum { TEMPLATES = 65536 };
struct template_program {
    struct sw_program_key key;
    struct sw_program *program;
};
struct templates {
    struct template_program of[TEMPLATES];
    struct sw_logicals *logicals;
    int32_t compiled;
};

/* From the beginning, or every other time from a logical program that others were made of. */
static struct sw_program *compile(const struct sw_program_options *o, struct templates *all)
{
    struct sw_program *p = NULL;
    if (o->kind == SW_PROGRAM_TRAIN && all->compiled++ % 2) {
        assert_int_equal(sw_program_compile_with(all->logicals, o, &p, NULL), 0);
        assert_int_equal(sw_program_retarget(p, o, NULL), 0);
    } else {
        assert_int_equal(sw_program_compile(o, SW_LAID_OUT, &p, NULL), 0);
    }
    return p;
}

/* Of one set of options. */
static void retarget(const struct sw_program_options *o, struct templates *all)
{
    struct template_program *templates = all->of;
    char detail[256], help[256];
    if (sw_program_admits(o, detail, help) != SW_FITS)
        return;
    struct sw_program_key key;
    sw_program_structure(o, &key);
    struct sw_program *compiled = compile(o, all);
    int32_t i = 0;
    while (templates[i].program != NULL && memcmp(&templates[i].key, &key, sizeof key) != 0)
        i++;
    assert_true(i < TEMPLATES - 1);
    if (templates[i].program == NULL) {
        templates[i] = (struct template_program){key, compiled};
        return;
    }
    assert_int_equal(sw_program_retarget(templates[i].program, o, NULL), 0);
    assert_true(sw_program_digest(templates[i].program) == sw_program_digest(compiled));
    assert_true(templates[i].program->arena_bytes == compiled->arena_bytes);
    assert_true(sw_program_most_bytes(templates[i].program) >= compiled->arena_bytes);
    sw_program_free(compiled);
}

/* Retargeting a program compiled for another mesh of the same structure, or a logical program and
 * compiling the rest, gives what compiling gives, to the byte. */
static int check_retarget(const struct sw_mesh *mesh, void *context)
{
    struct sw_program_options o = options(mesh);
    o.model.layers = 6;
    o.model.heads = o.model.kv_heads = 64;
    o.model.hidden_size = 512;
    o.model.vocab_size = 256;
    o.model.intermediate_size = 512;
    o.sequence_length = 512;
    o.global_batch = 64;
    for (int variant = 0; variant < 3 * 2 * 3 * 2 * 3; variant++) {
        o.model.kv_heads = variant / 36 == 1 ? 4 : 64; /* 4: copied where tp is larger */
        sw_rules_default(&o.rules, (enum sw_attention_strategy)(variant % 3));
        if (variant / 36 == 2) /* a rule of the user's own */
            o.rules.axes[SW_L_KV_HEADS] = (struct sw_axes){0};
        if (variant / 3 % 2)
            o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
        if (variant % 7 == 3) /* where the sizes of axes say which way it is brought */
            assert_int_equal(sw_rules_set(&o.rules, "table", (struct sw_axes){1, {SW_FSDP}}, NULL),
                             0);
        o.recompute = sw_test_recompute((uint32_t)(variant / 6 % 3), &o.model, o.model.layers);
        if (variant / 6 % 3 == 1) /* 1 to 6 */
            o.recompute.layers = 1 + (mesh->size[SW_DP] + 2 * mesh->size[SW_TP]) % 6;
        o.layout = variant / 18 % 2 ? SW_ZIGZAG : SW_CONTIGUOUS;
        o.compute = variant / 18 % 2 ? SW_BF16_T : SW_F32;
        o.inner_ring = (variant + mesh->size[SW_TP]) % 2 ? mesh->size[SW_SP] / 2 : 0;
        retarget(&o, context);
    }
    return 0;
}

/* The same of serving: a chunk of prompts, a token and scores; weights whole or streamed, queries
 * or keys and values going round, caches and weights in the compute precision and in int8. */
static int check_retarget_serving(const struct sw_mesh *mesh, void *context)
{
    struct sw_program_options training = options(mesh);
    sw_rules_default(&training.rules, SW_ATTENTION_RING);
    training.model.layers = 6;
    training.model.heads = 64;
    training.model.hidden_size = training.model.intermediate_size = 512;
    training.model.vocab_size = 256;
    for (int variant = 0; variant < 3 * 2 * 2 * 2 * 2; variant++) {
        const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_DECODE,
                                              SW_PROGRAM_SCORE};
        const struct sw_serving want = {
            .max_batch = 48,
            .max_tokens = 1536,
            .chunk = 192,
            .token_budget = variant % 4 * 4 * 192,
            .cache = variant / 12 % 2 ? SW_I8 : training.compute,
            .weights = (variant / 3 + variant / 12) % 2 == 0 ? training.compute
                       : variant / 24                        ? SW_E4M3
                                                             : SW_I8,
            .stream_weights = variant / 3 % 2,
            .gathers = variant / 6 % 2 ? SW_GATHER_KV : SW_GATHER_QUERIES};
        struct sw_program_options o;
        training.model.kv_heads = variant / 24 ? 4 : 64;
        if (want.gathers == SW_GATHER_KV && !sw_serving_may_gather_kv(&training, &want))
            continue;
        assert_int_equal(sw_serving_options(&training, &want, kinds[variant % 3], &o, NULL), 0);
        retarget(&o, context);
    }
    return 0;
}

/* The same under rows of `rules`, from a logical program to all meshes of as many ranks. */
struct redrawn {
    struct sw_program_options options;
    struct templates *templates;
};

static int check_retarget_rules(const struct sw_mesh *mesh, void *context)
{
    struct redrawn *drawn = context;
    struct sw_program *p = NULL;
    drawn->options.mesh = *mesh;
    drawn->options.micro_batch_per_rank = 1;
    if (sw_program_compile(&drawn->options, SW_PARTITIONED, &p, NULL) == 0)
        retarget(&drawn->options, drawn->templates);
    sw_program_free(p);
    return 0;
}

static void free_templates(struct templates *templates)
{
    for (int32_t i = 0; i < TEMPLATES; i++)
        sw_program_free(templates->of[i].program);
    sw_logicals_free(templates->logicals);
    free(templates);
}

static struct templates *make_templates(void)
{
    struct templates *templates = calloc(1, sizeof *templates);
    assert_non_null(templates);
    templates->logicals = sw_logicals_new();
    assert_non_null(templates->logicals);
    return templates;
}

static void test_retarget_is_compile_under_any_rules(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= draws / 10; i++) {
        struct redrawn drawn = {.templates = make_templates()};
        struct sw_rule_draw d;
        sw_rule_draw_make(seed, i, &d);
        drawn.options = d.options;
        assert_int_equal(sw_mesh_enumerate(8, check_retarget_rules, &drawn), 0);
        assert_int_equal(sw_mesh_enumerate(16, check_retarget_rules, &drawn), 0);
        free_templates(drawn.templates);
    }
}

static void test_retarget_is_compile(void **state)
{
    (void)state;
    struct templates *templates = make_templates();
    assert_int_equal(sw_mesh_enumerate(64, check_retarget, templates), 0);
    assert_int_equal(sw_mesh_enumerate(32, check_retarget, templates), 0);
    /* 3 divides neither hidden_size nor the batch */
    assert_int_equal(sw_mesh_enumerate(24, check_retarget, templates), 0);
    assert_int_equal(sw_mesh_enumerate(64, check_retarget_serving, templates), 0);
    assert_int_equal(sw_mesh_enumerate(24, check_retarget_serving, templates), 0);
    free_templates(templates);
}

int main(int argc, char **argv)
{
    draws = argc > 1 ? strtoll(argv[1], NULL, 10) : draws;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_overlap_on_any_mesh),
                                       cmocka_unit_test(test_gathers_in_two_steps),
                                       cmocka_unit_test(test_no_overlap_under_any_rules),
                                       cmocka_unit_test(test_retarget_is_compile),
                                       cmocka_unit_test(test_retarget_is_compile_under_any_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
