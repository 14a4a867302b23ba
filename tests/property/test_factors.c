/* Compound factors on random meshes, shapes and shardings: an op whose dimensions are random
 * products of factors, one or two operands and a result, is partitioned and its result brought to a
 * random sharding. All ranks are simulated: what they hold must be the slice of the op on the
 * global arrays. */
#include "core/ir/builder.h"
#include "core/passes/passes.h"
#include "tests/support/simulated_ranks.h"

#include <stdio.h>

enum { CASES = 3000, LETTERS = 5, PATTERN_BYTES = 64, SMALL_RANKS = 8 };

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

/* ---- The row: the factors of the op at hand are drawn (linked with --wrap) ---- */

static const char *drawn_factors;

const char *__real_sw_op_factors(const struct sw_program *program, const struct sw_op *op);
const char *__wrap_sw_op_factors(const struct sw_program *program, const struct sw_op *op);
const char *__wrap_sw_op_factors(const struct sw_program *program, const struct sw_op *op)
{
    return op->kind == SW_OP_SWIGLU ? drawn_factors : __real_sw_op_factors(program, op);
}

/* ---- A trial ---- */

/* One operand: dimensions of letters, major to minor. */
struct operand {
    int ndim, letters[SW_MAX_DIMS]; /* number of letters of each */
    char letter[SW_MAX_DIMS][LETTERS];
    struct sw_axes axes[SW_MAX_DIMS]; /* as it lies, or is declared */
};

struct trial {
    struct sw_mesh mesh;
    int inputs;
    struct operand operand[3]; /* the result behind the inputs */
    struct sw_axes to[SW_MAX_DIMS];
    int64_t size[LETTERS];
    char factors[3 * PATTERN_BYTES];
    uint64_t seed;
};

static void shuffle(uint64_t *rng, char *items, int count)
{
    for (int i = count - 1; i > 0; i--) {
        const int j = below(rng, i + 1);
        const char swap = items[i];
        items[i] = items[j];
        items[j] = swap;
    }
}

static void draw_axes(uint64_t *rng, int ndim, struct sw_axes axes[SW_MAX_DIMS])
{
    char order[SW_AXIS_COUNT] = {SW_DP, SW_FSDP, SW_TP, SW_SP};
    shuffle(rng, order, SW_AXIS_COUNT);
    memset(axes, 0, SW_MAX_DIMS * sizeof *axes);
    for (int i = 0; i < SW_AXIS_COUNT; i++) {
        const int d = below(rng, ndim + 1);
        if (d < ndim)
            axes[d].axis[axes[d].count++] = (uint8_t)order[i];
    }
}

/* Groups the letters into at most SW_MAX_DIMS dimensions. */
static void draw_operand(uint64_t *rng, char *letters, int count, struct operand *o)
{
    memset(o, 0, sizeof *o);
    shuffle(rng, letters, count);
    for (int i = 0; i < count; i++) {
        const bool must_join = count - i > SW_MAX_DIMS - o->ndim;
        if (o->ndim == 0 || (o->ndim < SW_MAX_DIMS && !must_join && below(rng, 3) > 0))
            o->ndim++;
        o->letter[o->ndim - 1][o->letters[o->ndim - 1]++] = letters[i];
    }
    draw_axes(rng, o->ndim, o->axes);
}

static void write_pattern(const struct operand *o, char **at)
{
    for (int d = 0; d < o->ndim; d++) {
        *at += sprintf(*at, "%s", o->letters[d] > 1 ? "(" : "");
        for (int i = 0; i < o->letters[d]; i++)
            *(*at)++ = (char)('a' + o->letter[d][i]);
        *at += sprintf(*at, "%s", o->letters[d] > 1 ? ")" : "");
    }
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Major factors divide by all the ways in which their dimensions are split. */
static void draw_sizes(uint64_t *rng, struct trial *t)
{
    for (int l = 0; l < LETTERS; l++)
        t->size[l] = 1;
    for (int i = 0; i <= t->inputs; i++)
        for (int d = 0; d < t->operand[i].ndim; d++) {
            int64_t *size = &t->size[(int)t->operand[i].letter[d][0]];
            *size = common_multiple(*size, sw_axes_size(&t->mesh, t->operand[i].axes[d]));
            if (i == t->inputs)
                *size = common_multiple(*size, sw_axes_size(&t->mesh, t->to[d]));
        }
    for (int l = 0; l < LETTERS; l++)
        t->size[l] *= t->size[l] == 1 ? 1 + below(rng, 3) : 1 + (below(rng, 4) == 0);
}

static struct sw_mesh draw_mesh(uint64_t *rng)
{
    static const int32_t sizes[] = {1, 1, 2, 2, 3, 4};
    struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    char order[SW_AXIS_COUNT] = {0, 1, 2, 3};
    shuffle(rng, order, SW_AXIS_COUNT);
    do {
        for (int a = 0; a < SW_AXIS_COUNT; a++) {
            mesh.size[a] = sizes[below(rng, 6)];
            mesh.order[a] = (uint8_t)order[a];
        }
    } while (sw_mesh_rank_count(&mesh) > SMALL_RANKS);
    return mesh;
}

static struct trial draw_trial(uint64_t seed)
{
    uint64_t rng = seed;
    struct trial t = {.seed = seed, .mesh = draw_mesh(&rng), .inputs = 1 + (below(&rng, 3) == 0)};
    char used[LETTERS], kept[LETTERS];
    int have = 0, results = 0;
    unsigned in_some = 0;
    for (int i = 0; i < t.inputs; i++) {
        char letters[LETTERS];
        int count = 0;
        for (char l = 0; l < LETTERS; l++)
            if (below(&rng, 4) > 0 || (count == 0 && l == LETTERS - 1))
                letters[count++] = l;
        draw_operand(&rng, letters, count, &t.operand[i]);
        for (int k = 0; k < count; k++)
            in_some |= 1u << letters[k];
    }
    for (char l = 0; l < LETTERS; l++)
        if (in_some >> l & 1u)
            used[have++] = l;
    for (int k = 0; k < have; k++) /* most are parallel */
        if (below(&rng, 6) > 0 || (results == 0 && k == have - 1))
            kept[results++] = used[k];
    draw_operand(&rng, kept, results, &t.operand[t.inputs]);
    draw_axes(&rng, t.operand[t.inputs].ndim, t.to);
    draw_sizes(&rng, &t);
    char *at = t.factors;
    for (int i = 0; i <= t.inputs; i++) {
        at += sprintf(at, "%s", i == 0 ? "" : i == t.inputs ? "->" : ",");
        write_pattern(&t.operand[i], &at);
    }
    return t;
}

static int64_t dim_size(const struct trial *t, const struct operand *o, int d, int first)
{
    int64_t size = 1;
    for (int i = first; i < o->letters[d]; i++)
        size *= t->size[(int)o->letter[d][i]];
    return size;
}

/* ---- The op itself, on arrays that are all of the operands or blocks of them ---- */

static void find_ranges(const struct trial *t, const struct operand *o, const struct array *a,
                        int64_t range[LETTERS])
{
    for (int d = 0; d < o->ndim; d++)
        for (int i = 0; i < o->letters[d]; i++) {
            const int l = o->letter[d][i];
            const int64_t here = i > 0 ? t->size[l] : a->shape[d] / dim_size(t, o, d, 1);
            assert_int_equal(here * (i > 0 ? 1 : dim_size(t, o, d, 1)),
                             i > 0 ? t->size[l] : a->shape[d]);
            if (range[l] > 0) /* operands' blocks are of the same elements */
                assert_int_equal(range[l], here);
            range[l] = here;
        }
}

static int64_t index_of(const struct operand *o, const int64_t range[LETTERS],
                        const int64_t at[LETTERS])
{
    int64_t index = 0;
    for (int d = 0; d < o->ndim; d++)
        for (int i = 0; i < o->letters[d]; i++)
            index = index * range[(int)o->letter[d][i]] + at[(int)o->letter[d][i]];
    return index;
}

static struct array run_op(const struct trial *t, const struct array *in)
{
    const struct operand *result = &t->operand[t->inputs];
    int64_t range[LETTERS] = {0}, at[LETTERS], shape[SW_MAX_DIMS], all = 1;
    for (int i = 0; i < t->inputs; i++)
        find_ranges(t, &t->operand[i], &in[i], range);
    for (int d = 0; d < result->ndim; d++) {
        shape[d] = 1;
        for (int i = 0; i < result->letters[d]; i++)
            shape[d] *= range[(int)result->letter[d][i]];
    }
    struct array out = make_array(shape, result->ndim);
    for (int l = 0; l < LETTERS; l++)
        all *= range[l] > 0 ? range[l] : 1;
    for (int64_t k = 0; k < all; k++) {
        int64_t left = k;
        double product = 1;
        for (int l = 0; l < LETTERS; l++) {
            at[l] = range[l] > 0 ? left % range[l] : 0;
            left /= range[l] > 0 ? range[l] : 1;
        }
        for (int i = 0; i < t->inputs; i++)
            product *= in[i].data[index_of(&t->operand[i], range, at)];
        out.data[index_of(result, range, at)] += product;
    }
    return out;
}

/* ---- The program ---- */

static int32_t add_value(struct sw_builder *b, const struct trial *t, const struct operand *o,
                         const struct sw_axes *axes, const char *name)
{
    struct sw_dim dims[SW_MAX_DIMS];
    for (int d = 0; d < o->ndim; d++)
        dims[d] =
            (struct sw_dim){SW_L_NONE, dim_size(t, o, d, 0), dim_size(t, o, d, 1), SW_SIZE_FIXED};
    const int32_t index =
        sw_builder_value(b, name, SW_ROLE_INPUT, SW_F64, (uint8_t)o->ndim, dims, 1);
    struct sw_value *value = &b->program->values[index];
    memcpy(value->declared.spec.dim, axes, (size_t)o->ndim * sizeof *axes);
    value->declared = sw_sharding_normalize(&t->mesh, value->declared);
    value->sharding = value->declared;
    return index;
}

static int32_t add_op(struct sw_builder *b, enum sw_op_kind kind, const int32_t *in, int inputs,
                      int32_t out)
{
    const int32_t op = sw_builder_op(b, kind, SW_STAGE_MODEL);
    for (int i = 0; i < inputs; i++)
        sw_builder_in(b, op, (struct sw_ref){in[i], SW_INDEX_FIXED, 0});
    sw_builder_out(b, op, (struct sw_ref){out, SW_INDEX_FIXED, 0});
    return op;
}

/* op; constrain; cast. `in` gets the operands' values. */
static struct sw_program *build(const struct trial *t, int32_t in[2])
{
    struct sw_program_options options;
    memset(&options, 0, sizeof options);
    struct sw_builder b = {.program = sw_program_new(), .options = &options, .region = -1};
    const struct operand *result = &t->operand[t->inputs];
    assert_non_null(b.program);
    b.program->mesh = options.mesh = t->mesh;
    b.program->layers = 1;
    for (int i = 0; i < t->inputs; i++)
        in[i] = add_value(&b, t, &t->operand[i], t->operand[i].axes, i == 0 ? "a" : "b");
    const int32_t y = add_value(&b, t, result, result->axes, "y");
    const int32_t to = add_value(&b, t, result, t->to, "to"),
                  z = add_value(&b, t, result, t->to, "z");
    b.program->values[y].role = b.program->values[to].role = SW_ROLE_ACTIVATION;
    sw_builder_region(&b, "test", SW_PHASE_FORWARD, 1, false);
    add_op(&b, SW_OP_SWIGLU, in, t->inputs, y);
    add_op(&b, SW_OP_CONSTRAIN, &y, 1, to);
    add_op(&b, SW_OP_CAST, &to, 1, z);
    sw_builder_port(&b, &b.program->outputs, "z", z);
    assert_false(b.failed);
    return b.program;
}

static struct sw_program *partition(const struct trial *t, int32_t in[2])
{
    struct sw_program *logical = build(t, in), *p = NULL;
    struct sw_error err = {0};
    drawn_factors = t->factors;
    if (sw_program_verify(logical, &err) != 0 || sw_partition(logical, &p, &err) != 0 ||
        sw_program_verify(p, &err) != 0)
        fail_msg("seed %llu, %s: %s", (unsigned long long)t->seed, t->factors, err.message);
    sw_program_free(logical);
    return p;
}

/* ---- All ranks ---- */

struct held {
    struct array shard[MAX_RANKS];
    bool there;
};

static void hold(struct held *h, int32_t rank, struct array a)
{
    if (h->there && h->shard[rank].data != NULL)
        free(h->shard[rank].data);
    h->shard[rank] = a;
}

static struct array copy_of(const struct array *a)
{
    struct array copy = make_array(a->shape, SW_MAX_DIMS);
    memcpy(copy.data, a->data, (size_t)elems(a) * sizeof *a->data);
    return copy;
}

static void run_program(const struct trial *t, const struct sw_program *p, const int32_t in[2],
                        struct held *held)
{
    const int32_t ranks = sw_mesh_rank_count(&t->mesh);
    (void)in;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        const int32_t out = op->out[0].value;
        struct array made[MAX_RANKS];
        for (int32_t r = 0; r < ranks; r++) {
            struct array from[2];
            for (uint16_t k = 0; k < op->n_in; k++)
                from[k] = held[op->in[k].value].shard[r];
            made[r] = op->kind == SW_OP_SWIGLU ? run_op(t, from) : copy_of(&from[0]);
        }
        if (sw_op_is_move(op->kind)) {
            const struct sw_reshard_step step = {.kind = sw_op_collective(op->kind),
                                                 .axes = op->axes,
                                                 .dim = (uint8_t)op->as.move.dim,
                                                 .dim_to = (uint8_t)op->as.move.dim_to};
            run_step(&t->mesh, &step, made);
        }
        for (int32_t r = 0; r < ranks; r++)
            hold(&held[out], r, made[r]);
        held[out].there = true;
    }
}

static void check_result(const struct trial *t, const struct sw_program *p, int32_t z,
                         const struct array *global, struct held *held)
{
    const struct sw_value *value = &p->values[z];
    for (int32_t r = 0; r < sw_mesh_rank_count(&t->mesh); r++) {
        const struct array *got = &held[z].shard[r];
        struct array want = make_array(got->shape, SW_MAX_DIMS);
        int64_t local[SW_MAX_DIMS];
        assert_int_equal(
            sw_local_shape(&t->mesh, &value->sharding.spec, value->size, value->unit, local, NULL),
            0);
        for (int d = 0; d < value->ndim; d++)
            assert_int_equal(local[d], got->shape[d]);
        sw_device_put(&t->mesh, &value->sharding.spec, value->size, NULL, sizeof(double), r,
                      global->data, want.data);
        for (int64_t i = 0; i < elems(&want); i++)
            if (want.data[i] != got->data[i])
                fail_msg("seed %llu, %s: rank %d, element %lld is %g, not %g",
                         (unsigned long long)t->seed, t->factors, (int)r, (long long)i,
                         got->data[i], want.data[i]);
        free(want.data);
    }
}

static void run_trial(const struct trial *t)
{
    int32_t in[2];
    struct sw_program *p = partition(t, in);
    struct held *held = calloc((size_t)p->value_count, sizeof *held);
    struct array whole[2];
    uint64_t rng = ~t->seed;
    assert_non_null(held);
    for (int i = 0; i < t->inputs; i++) {
        const struct sw_value *value = &p->values[in[i]];
        whole[i] = make_array(value->size, value->ndim);
        for (int64_t k = 0; k < elems(&whole[i]); k++)
            whole[i].data[k] = below(&rng, 2001) - 1000;
        int64_t local[SW_MAX_DIMS];
        assert_int_equal(
            sw_local_shape(&t->mesh, &value->sharding.spec, value->size, value->unit, local, NULL),
            0);
        for (int32_t r = 0; r < sw_mesh_rank_count(&t->mesh); r++) {
            held[in[i]].shard[r] = make_array(local, value->ndim);
            sw_device_put(&t->mesh, &value->sharding.spec, value->size, NULL, sizeof(double), r,
                          whole[i].data, held[in[i]].shard[r].data);
        }
        held[in[i]].there = true;
    }
    struct array global = run_op(t, whole);
    run_program(t, p, in, held);
    check_result(t, p, sw_program_output(p, "z"), &global, held);
    for (int32_t v = 0; v < p->value_count; v++)
        for (int32_t r = 0; r < MAX_RANKS && held[v].there; r++)
            free(held[v].shard[r].data);
    for (int i = 0; i < t->inputs; i++)
        free(whole[i].data);
    free(global.data);
    free(held);
    sw_program_free(p);
}

/* The argument: so many times as many. */
static uint64_t times = 1;

static void result_is_slice_of_global(void **state)
{
    (void)state;
    int compound = 0;
    for (uint64_t seed = 1; seed <= CASES * times; seed++) {
        const struct trial t = draw_trial(seed);
        compound += strchr(t.factors, '(') != NULL;
        run_trial(&t);
    }
    assert_true(compound > CASES / 2);
}

/* ---- Tokens that travel to experts ---- */

static struct operand of(int ndim, const char *const dims[SW_MAX_DIMS])
{
    struct operand o = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        for (const char *c = dims[d]; *c != '\0'; c++)
            o.letter[d][o.letters[d]++] = (char)(*c - 'a');
    return o;
}

/* b(sx)e->xbse, here a: batch, b: tokens, c: experts, d: width; or back. */
static void check_tokens(const struct sw_axes to[3], bool back, int32_t moves)
{
    struct trial t = {
        .mesh = sw_mesh_make(2, 2, 1, 2), .inputs = 1, .size = {4, 2, 4, 2, 1}, .seed = 1};
    struct operand tokens = of(3, (const char *const[SW_MAX_DIMS]){"a", "bc", "d"}),
                   slots = of(4, (const char *const[SW_MAX_DIMS]){"c", "a", "b", "d"});
    tokens.axes[0] = slots.axes[1] = (struct sw_axes){2, {SW_DP, SW_FSDP}};
    tokens.axes[1] = slots.axes[2] = (struct sw_axes){1, {SW_SP}};
    t.operand[back] = tokens;
    t.operand[!back] = slots;
    memcpy(t.to, back ? tokens.axes : to, 3 * sizeof *to);
    if (back) /* from where the experts are */
        memcpy(t.operand[0].axes, to, 3 * sizeof *to);
    strcpy(t.factors, back ? "cabd->a(bc)d" : "a(bc)d->cabd");
    int32_t in[2];
    struct sw_program *p = partition(&t, in);
    for (int32_t i = 0; i < p->op_count; i++) {
        assert_true(!sw_op_is_move(p->ops[i].kind) || p->ops[i].kind == SW_OP_ALL_TO_ALL);
        moves -= sw_op_is_move(p->ops[i].kind);
    }
    assert_int_equal(moves, 0);
    sw_program_free(p);
    run_trial(&t);
}

static void tokens_travel_in_an_all_to_all(void **state)
{
    (void)state;
    const struct sw_axes dp = {1, {SW_DP}}, fsdp = {1, {SW_FSDP}}, sp = {1, {SW_SP}},
                         both = {2, {SW_FSDP, SW_SP}}, none = {0, {0}};
    for (int back = 0; back < 2; back++) {
        check_tokens((const struct sw_axes[]){fsdp, dp, sp}, back, 1);
        check_tokens((const struct sw_axes[]){both, dp, none}, back, 2); /* of two dimensions */
    }
}

/* ---- Rows that are wrong ---- */

static void verify_finds(struct trial t, int64_t size, int64_t unit, const char *message)
{
    int32_t in[2];
    struct sw_error err = {0};
    struct sw_program *p = build(&t, in);
    drawn_factors = t.factors;
    p->values[in[0]].size[1] = p->values[in[0]].padded[1] = size;
    p->values[in[0]].unit[1] = unit;
    assert_int_equal(sw_program_verify(p, &err), message != NULL ? -1 : 0);
    if (message != NULL)
        assert_non_null(strstr(err.message, message));
    sw_program_free(p);
}

static void wrong_compounds_are_found(void **state)
{
    (void)state;
    struct trial t = {
        .mesh = sw_mesh_make(1, 1, 1, 1), .inputs = 1, .size = {4, 2, 4, 2, 1}, .seed = 1};
    t.operand[0] = of(3, (const char *const[SW_MAX_DIMS]){"a", "bc", "d"});
    t.operand[1] = of(4, (const char *const[SW_MAX_DIMS]){"c", "a", "b", "d"});
    strcpy(t.factors, "a(bc)d->cabd");
    verify_finds(t, 8, 4, NULL);
    verify_finds(t, 12, 4, "'a' is not as long as the factors of its dimension");
    verify_finds(t, 8, 2, "'a' may be split inside of its dimension's minor factors");
    strcpy(t.factors, "a(bc)d->a(cb)d");
    verify_finds(t, 8, 4, "'y' has another number of dimensions than its op's factors");
}

/* '.' is one letter over what the others leave. */
static void rest_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint8_t ndim, count, factor[SW_MAX_DIMS];
    } read[] = {
        {"x.e,", 4, 4, {24, SW_FACTOR_REST, SW_FACTOR_REST + 1, 5}},
        {"x.e,", 3, 3, {24, SW_FACTOR_REST, 5}},
        {"x.e,", 2, 2, {24, 5}},
        {".->", 2, 2, {SW_FACTOR_REST, SW_FACTOR_REST + 1}},
        {"(ab).", 3, 3, {1, SW_FACTOR_REST, SW_FACTOR_REST + 1}},
        {"1", 1, 1, {SW_FACTOR_SCALAR}},
        {"abc|", 2, 3, {1, 2, 3}},
    };
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        struct sw_dims dims;
        const char *end = sw_dims_read(read[i].pattern, read[i].ndim, &dims);
        assert_int_equal(end - read[i].pattern, strcspn(read[i].pattern, ",-|"));
        assert_int_equal(dims.count, read[i].count);
        assert_memory_equal(dims.factor, read[i].factor, read[i].count);
        assert_int_equal(dims.inner, i == 4 ? 1u << 2 : 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_is_slice_of_global),
        cmocka_unit_test(tokens_travel_in_an_all_to_all),
        cmocka_unit_test(wrong_compounds_are_found),
        cmocka_unit_test(rest_is_read),
    };
    if (argc > 1)
        times = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
