/* Packed chats with masked prompts against the same arithmetic by hand in PyTorch on transformers
 * (make_packed_fixtures.py): twenty steps over micro-steps that count unequal numbers of labels, on
 * one rank and nine meshes. Rows come from the trainer's data, over files of tokens with an index.
 *
 * Both sides compute in fp64 first, where differences are of the order of 1e-12; the gradients in
 * the fixture are rounded to fp32. Then ours computes in fp32: a loss is within 1e-5, and of a
 * gradient, by its norm, 2e-5. */
#include "core/base/token_writer.h"
#include "runner/train/dataset.h"
#include "tests/oracle/fixture.h"
#include "tests/oracle/fixture_model.h"
#include "tests/support/share.h"

enum { MAX_STEPS = 20 };

static const char *folder = "tests/oracle/fixtures", *scratch = ".";

struct chats {
    struct fixture f;
    int64_t steps, data_seed, block, documents, tokens;
    double rate, beta1, beta2, decay, clip;
    int64_t *end;
    int32_t *token;
    uint8_t *counts;
    int64_t counted[MAX_STEPS];
    double loss[MAX_STEPS], norm[MAX_STEPS];
    int32_t *row[4]; /* tokens and one behind, labels, segments, positions of all steps */
};

static void read_bytes(FILE *in, void *to, size_t bytes)
{
    assert_int_equal(fread(to, 1, bytes, in), bytes);
}

static void *make(int64_t count, size_t each)
{
    void *out = calloc((size_t)count, each);
    assert_non_null(out);
    return out;
}

static void read_chats(const char *name, struct chats *c)
{
    int64_t n[9];
    double x[6];
    memset(c, 0, sizeof *c);
    read_model(folder, name, &c->f.options.model);
    FILE *in = open_fixture(folder, name, "SWPACKED");
    read_bytes(in, n, sizeof n);
    read_bytes(in, x, sizeof x);
    c->f.options.sequence_length = n[0];
    c->f.options.global_batch = n[1];
    c->steps = n[2];
    c->f.seed = (uint64_t)n[3];
    c->data_seed = n[4];
    c->block = n[5];
    c->documents = n[6];
    c->tokens = n[7];
    c->f.stddev = x[0];
    c->rate = x[1];
    c->beta1 = x[2];
    c->beta2 = x[3];
    c->decay = x[4];
    c->clip = x[5];
    assert_int_equal(c->steps, MAX_STEPS);
    c->end = make(c->documents, sizeof *c->end);
    c->token = make(c->tokens, sizeof *c->token);
    c->counts = make(c->tokens, 1);
    read_bytes(in, c->end, (size_t)c->documents * sizeof *c->end);
    read_bytes(in, c->token, (size_t)c->tokens * sizeof *c->token);
    read_bytes(in, c->counts, (size_t)c->tokens);
    for (int64_t s = 0; s < c->steps; s++) {
        read_bytes(in, &c->counted[s], sizeof c->counted[s]);
        read_bytes(in, &c->loss[s], sizeof c->loss[s]);
        read_bytes(in, &c->norm[s], sizeof c->norm[s]);
    }
    for (c->f.count = 0; c->f.count < n[8]; c->f.count++) {
        struct tensor *t = &c->f.tensor[c->f.count];
        read_bytes(in, t->name, sizeof t->name);
        read_bytes(in, &t->elems, sizeof t->elems);
        read_numbers(in, t);
    }
    assert_int_equal(fgetc(in), EOF);
    fclose(in);
}

/* Documents [from, to) as a file of tokens and its index. */
static void write_data(const struct chats *c, int64_t from, int64_t to, const char *path)
{
    struct sw_token_writer *out = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_token_writer_open(path, 2, &out, &err), 0);
    for (int64_t d = from; d < to; d++) {
        const int64_t begin = d == 0 ? 0 : c->end[d - 1];
        assert_int_equal(sw_token_writer_add(out, c->token + begin, c->counts + begin,
                                             (size_t)(c->end[d] - begin), &err),
                         0);
        assert_int_equal(sw_token_writer_end(out, &err), 0);
    }
    assert_int_equal(sw_token_writer_commit(out, "{}", &err), 0);
}

/* All rows of all steps by the trainer's data, of two files. */
static void pack_rows(struct chats *c, const char *name)
{
    char path[2][600];
    const int64_t s = c->f.options.sequence_length, batch = c->f.options.global_batch;
    struct sw_error err = {0};
    struct sw_dataset *data = NULL;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s.%d.bin", scratch, name, i);
        write_data(c, i * 31, i == 0 ? 31 : c->documents, path[i]);
    }
    const char *const files[] = {path[0], path[1]};
    const struct sw_dataset_source source = {files, 2};
    const struct sw_dataset_options options = {.source = &source,
                                               .sources = 1,
                                               .pack = true,
                                               .pack_block = (int32_t)c->block,
                                               .seed = (uint64_t)c->data_seed,
                                               .document_end = -1,
                                               .vocab_size = c->f.options.model.vocab_size,
                                               .sequence_length = s};
    if (sw_dataset_open(&options, &data, &err) != 0)
        fail_msg("%s", err.message);
    for (int i = 0; i < 4; i++)
        c->row[i] = make(c->steps * batch * (s + 1), sizeof *c->row[i]);
    for (int64_t step = 0; step < c->steps; step++)
        assert_int_equal(sw_dataset_train_counted(data, step * batch, batch), c->counted[step]);
    for (int64_t r = 0; r < c->steps * batch; r++) {
        const struct sw_row row = {c->row[0] + r * (s + 1), c->row[1] + r * s, c->row[2] + r * s,
                                   c->row[3] + r * s};
        assert_int_equal(sw_dataset_train(data, r, &row, &err), 0);
    }
    sw_dataset_close(data);
}

static double norm_of(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (x[i] - (y != NULL ? y[i] : 0)) * (x[i] - (y != NULL ? y[i] : 0));
    return sqrt(sum);
}

static void compare_gradients(const struct chats *c, const struct sw_harness_result *result,
                              double within)
{
    for (int32_t i = 0; i < c->f.count; i++) {
        const struct tensor *t = &c->f.tensor[i];
        const struct sw_harness_value *v = sw_harness_find(result, t->name);
        assert_non_null(v);
        assert_int_equal(v->elems, t->elems);
        const double off = norm_of(v->data, t->data, t->elems);
        if (!(off <= within * norm_of(t->data, NULL, t->elems)))
            fail_msg("%s is off by %g of its norm", t->name,
                     off / norm_of(t->data, NULL, t->elems));
    }
}

/* steps: 1, with gradients; or all of them. */
static void run(const struct chats *c, const struct sw_program_options *options, int64_t steps,
                double within_loss, double within_gradient)
{
    const char *names[MAX_TENSORS + 1] = {NULL};
    for (int32_t i = 0; steps == 1 && i < c->f.count; i++)
        names[i] = c->f.tensor[i].name;
    const struct sw_harness harness = {.options = options,
                                       .seed = c->f.seed,
                                       .stddev = c->f.stddev,
                                       .spread_norms = true,
                                       .rows = c->row[0],
                                       .labels = c->row[1],
                                       .segments = c->row[2],
                                       .positions = c->row[3],
                                       .steps = steps,
                                       .step = {.learning_rate = c->rate,
                                                .beta1 = c->beta1,
                                                .beta2 = c->beta2,
                                                .eps = 1e-6,
                                                .weight_decay = c->decay,
                                                .grad_clip = c->clip},
                                       .values = names};
    struct sw_harness_result result;
    struct sw_error err = {0};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s", err.message);
    for (int64_t s = 0; s < steps; s++)
        if (!(fabs(result.loss[s] - c->loss[s]) <= within_loss * c->loss[s]))
            fail_msg("step %d: loss %.12g, wanted %.12g", (int)s + 1, result.loss[s], c->loss[s]);
    if (!(fabs(result.grad_norm[0] - c->norm[0]) <= within_gradient * c->norm[0]))
        fail_msg("gradient norm %.12g, wanted %.12g", result.grad_norm[0], c->norm[0]);
    if (steps == 1)
        compare_gradients(c, &result, within_gradient);
    assert_int_equal(result.rank_differences, 0);
    sw_harness_result_free(&result);
}

static void check(const char *name)
{
    static const int32_t meshes[][4] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1},
                                        {1, 1, 1, 2}, {1, 2, 1, 2}, {2, 1, 2, 1}, {1, 1, 2, 2},
                                        {2, 2, 1, 2}, {1, 2, 2, 2}};
    static size_t turn = 0;
    const size_t share = (size_t)sw_test_share();
    struct chats c;
    read_chats(name, &c);
    pack_rows(&c, name);
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++)
        for (int single = 0; single < 2; single++) {
            if (turn++ % share != 0)
                continue;
            const int32_t *m = meshes[i];
            struct fixture f = c.f;
            use_mesh(&f, sw_mesh_make(m[0], m[1], m[2], m[3]));
            f.options.micro_batch_per_rank = 1;
            f.options.segments = f.options.row_positions = true;
            f.options.kind = SW_PROGRAM_TRAIN;
            if (!single)
                f.options.compute = f.options.params = f.options.reduce = SW_F64;
            run(&c, &f.options, 1, single ? 1e-5 : 1e-10, single ? 2e-5 : 0x1p-23);
            run(&c, &f.options, c.steps, single ? 1e-5 : 1e-10, single ? 2e-5 : 1e-10);
        }
    for (int i = 0; i < 4; i++)
        free(c.row[i]);
    free(c.end);
    free(c.token);
    free(c.counts);
    free_fixture(&c.f);
}

static void a_llama_with_yarn(void **state)
{
    (void)state;
    check("packed_llama");
}

static void a_mistral_with_a_window(void **state)
{
    (void)state;
    check("packed_mistral");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        scratch = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_llama_with_yarn),
                                       cmocka_unit_test(a_mistral_with_a_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
