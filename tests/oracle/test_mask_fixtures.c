/* The attention of a device against NumPy's in float64 (make_mask_fixtures.py): windows, documents,
 * softcaps and sinks, forward and gradients, in every arithmetic. */
#include "core/base/number.h"
#include "core/ir/workspace.h"
#include "runner/device/device.h"
#include "tests/oracle/fixture.h"

enum { STEP = 17, OPERANDS = 10, MOST_HEADS = 4 };

struct mask_case {
    int32_t batch, length, heads, kv_heads, dim, window, documents, sinks;
};

static double tolerance_of(enum sw_dtype t)
{
    return t == SW_BF16_T ? 3e-2 : 2e-5; /* the fixture is in fp32 */
}

static void put(const struct sw_tensor *t, int64_t i, double value)
{
    if (t->dtype == SW_F64)
        ((double *)t->data)[i] = value;
    else if (t->dtype == SW_BF16_T)
        ((uint16_t *)t->data)[i] = sw_bf16_from_float((float)value);
    else
        ((float *)t->data)[i] = (float)value;
}

static double get(const struct sw_tensor *t, int64_t i)
{
    return t->dtype == SW_F64      ? ((const double *)t->data)[i]
           : t->dtype == SW_BF16_T ? (double)sw_bf16_to_float(((const uint16_t *)t->data)[i])
                                   : (double)((const float *)t->data)[i];
}

static struct sw_tensor tensor(enum sw_dtype dtype, uint8_t ndim, int64_t a, int64_t b, int64_t c)
{
    struct sw_tensor t = {.dtype = dtype, .ndim = ndim};
    const int64_t sizes[] = {a, b, c};
    t.elems = 1;
    for (uint8_t d = 0; d < ndim; d++) {
        t.size[d] = t.global[d] = sizes[d];
        t.elems *= sizes[d];
    }
    t.data = calloc((size_t)t.elems, 8);
    assert_non_null(t.data);
    return t;
}

static void fill(const struct sw_tensor *t, uint64_t seed)
{
    for (int64_t i = 0; i < t->elems; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        put(t, i, 2.0 * (2.0 * (double)(seed >> 33) / 0x1p31 - 1));
    }
}

static void read_floats(FILE *in, const struct sw_tensor *t)
{
    for (int64_t i = 0; i < t->elems; i++) {
        float value;
        assert_int_equal(fread(&value, sizeof value, 1, in), 1);
        put(t, i, (double)value);
    }
}

static void run(struct sw_device *device, struct sw_op *op, const struct sw_tensor *in,
                const struct sw_tensor *out)
{
    struct sw_attention_workspace layout;
    struct sw_error err = {0};
    const struct sw_step step = {.step = 1, .loss_scale = 1};
    sw_attention_workspace_of(op, 1, in[0].size, in[1].size, in[0].dtype, &layout);
    op->workspace_bytes = layout.bytes;
    void *workspace = device->vtable->allocate(device, (size_t)layout.bytes + 64);
    const struct sw_call call = {
        .op = op, .in = in, .out = out, .workspace = workspace, .step = &step};
    if (device->vtable->run[op->kind](device, &call, &err) != 0)
        fail_msg("%s", err.message);
    device->vtable->release(device, workspace);
}

static void read_some(FILE *in, float *to, int64_t count)
{
    assert_int_equal(fread(to, sizeof *to, (size_t)count, in), count);
}

static int32_t check(const char *what, int32_t number, double off, double of, double tolerance)
{
    if (off <= tolerance * of) /* not NaN */
        return 0;
    print_error("case %d: %s is off by %g, of %g\n", (int)number, what, off, of);
    return 1;
}

/* Every STEP-th element, as the file has them, by the largest. */
static int32_t matches(FILE *in, const struct sw_tensor *t, int32_t number, const char *what,
                       double tolerance)
{
    double most = 1e-3, off = 0;
    for (int64_t i = 0; i < t->elems; i += STEP) {
        float value;
        read_some(in, &value, 1);
        const double difference = fabs(get(t, i) - (double)value);
        most = fmax(most, fabs((double)value));
        off = difference <= off ? off : difference;
    }
    return check(what, number, off, most, tolerance);
}

/* Sums of many numbers of both signs, by their sizes. */
static int32_t sinks_match(FILE *in, const struct sw_tensor *t, int32_t number, double tolerance)
{
    float value[MOST_HEADS], size[MOST_HEADS];
    int32_t wrong = 0;
    read_some(in, value, t->elems);
    read_some(in, size, t->elems);
    for (int64_t i = 0; i < t->elems; i++)
        wrong +=
            check("dsink", number, fabs(get(t, i) - (double)value[i]), (double)size[i], tolerance);
    return wrong;
}

static int32_t run_case(FILE *in, struct sw_device *device, enum sw_dtype t, int32_t number)
{
    static const char *const names[] = {"o", "lse", "dq", "dk", "dv"};
    const enum sw_dtype wide = t == SW_F64 ? SW_F64 : SW_F32;
    struct mask_case c;
    double softcap;
    assert_int_equal(fread(&c, sizeof c, 1, in), 1);
    assert_int_equal(fread(&softcap, sizeof softcap, 1, in), 1);
    const int64_t q = (int64_t)c.heads * c.dim, kv = (int64_t)c.kv_heads * c.dim;
    struct sw_tensor of[OPERANDS] = {
        tensor(t, 3, c.batch, c.length, q),          tensor(t, 3, c.batch, c.length, kv),
        tensor(t, 3, c.batch, c.length, kv),         tensor(t, 3, c.batch, c.length, q),
        tensor(wide, 3, c.batch, c.length, c.heads), tensor(t, 3, c.batch, c.length, q)};
    uint16_t n = 6;
    for (int i = 0; i < 3; i++)
        fill(&of[i], (uint64_t)(1000 * number + i + 1));
    fill(&of[5], (uint64_t)(1000 * number + 4));
    if (c.documents) {
        of[n] = tensor(SW_I32, 2, c.batch, c.length, 0);
        assert_int_equal(fread(of[n].data, 4, (size_t)of[n].elems, in), of[n].elems);
        of[n + 1] = of[n];
        n += 2;
    }
    if (c.sinks) {
        of[n] = tensor(wide, 1, c.heads, 0, 0);
        read_floats(in, &of[n++]);
    }
    struct sw_op op = {.kind = SW_OP_ATTENTION, .n_in = n - 3, .n_out = 2};
    op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)c.dim),
                                                       .head_dim = c.dim,
                                                       .group = c.heads / c.kv_heads,
                                                       .sink = c.sinks,
                                                       .window = c.window,
                                                       .softcap = softcap,
                                                       .segments = c.documents,
                                                       .sequence_shards = 1};
    struct sw_tensor given[OPERANDS] = {of[0], of[1], of[2]};
    memcpy(given + 3, of + 6, (size_t)(n - 6) * sizeof *of);
    run(device, &op, given, of + 3);
    struct sw_tensor made[] = {tensor(t, 3, c.batch, c.length, q),
                               tensor(t, 3, c.batch, c.length, kv),
                               tensor(t, 3, c.batch, c.length, kv), tensor(wide, 1, c.heads, 0, 0)};
    op.kind = SW_OP_ATTENTION_GRAD;
    op.n_in = n;
    op.n_out = c.sinks ? 4 : 3;
    run(device, &op, of, made);
    int32_t wrong = 0;
    for (int i = 0; i < 5; i++)
        wrong += matches(in, i < 2 ? &of[3 + i] : &made[i - 2], number, names[i], tolerance_of(t));
    if (c.sinks)
        wrong += sinks_match(in, &made[3], number, tolerance_of(t));
    for (int i = 0; i < n; i++)
        if (i == 0 || of[i].data != of[i - 1].data)
            free(of[i].data);
    for (int i = 0; i < 4; i++)
        free(made[i].data);
    return wrong;
}

static void compare_all(enum sw_dtype t)
{
    struct sw_error err = {0};
    int32_t cases, wrong = 0;
    FILE *in = open_fixture("tests/oracle/fixtures", "masks", "SWMASKS1");
    struct sw_device *device = sw_cpu_device_create(2, &err);
    assert_non_null(device);
    assert_int_equal(fread(&cases, sizeof cases, 1, in), 1);
    for (int32_t i = 0; i < cases; i++)
        wrong += run_case(in, device, t, i);
    assert_int_equal(fgetc(in), EOF);
    assert_int_equal(wrong, 0);
    assert_true(cases > 20);
    device->vtable->destroy(device);
    fclose(in);
}

static void double_is_numpys(void **state)
{
    (void)state;
    compare_all(SW_F64);
}

static void single_is_numpys(void **state)
{
    (void)state;
    compare_all(SW_F32);
}

static void bf16_is_numpys_but_for_rounding(void **state)
{
    (void)state;
    compare_all(SW_BF16_T);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(double_is_numpys),
                                       cmocka_unit_test(single_is_numpys),
                                       cmocka_unit_test(bf16_is_numpys_but_for_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
