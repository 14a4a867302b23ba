/* Loss, gradient of every parameter and logits of a small model of every family against Hugging
 * Face transformers (make_family_fixtures.py), from the config.json that transformers writes.
 *
 * Beyond windows both sides compute in fp64 first; the fixture is rounded to fp32, 2^-24. Else both
 * compute in fp32. A sum of K fp32 products has a relative error of about eps sqrt(K)
 * with eps = 6e-8; K is at most 64 (the tokens of a weight gradient), and some 20 such sums follow
 * each other through 2 layers and back, their errors adding like a random walk: 6e-8 * 8 * sqrt(20)
 * = 2e-6 on either side. TOLERANCE is five times that; models of five
 * layers with norms on all sides, whose gradients go through twice as many sums, have twice as
 * much. */
#include "tests/oracle/fixture.h"
#include "tests/oracle/fixture_model.h"

#define TOLERANCE 1e-5
#define EXACT 0x1p-23

static const char *folder = "tests/oracle/fixtures/families";

/* The layout is in make_family_fixtures.py. */
static void read_fixture(const char *name, struct fixture *f)
{
    int64_t n[4];
    double x[3];
    memset(f, 0, sizeof *f);
    f->tolerance = TOLERANCE;
    read_model(folder, name, &f->options.model);
    FILE *in = open_fixture(folder, name, "SWFAMILY");
    assert_int_equal(fread(n, sizeof n[0], 4, in), 4);
    assert_int_equal(fread(x, sizeof x[0], 3, in), 3);
    f->options.sequence_length = n[0];
    f->options.global_batch = n[1];
    f->seed = (uint64_t)n[2];
    f->stddev = x[0];
    f->loss = x[1];
    f->grad_norm = x[2];
    read_tensors(in, n[3], f);
    fclose(in);
}

static void check(const char *name, struct sw_mesh mesh)
{
    struct fixture f;
    read_fixture(name, &f);
    use_mesh(&f, mesh);
    const int64_t window = f.options.model.sliding_window;
    if (window > 0 && window < f.options.sequence_length) {
        f.options.compute = f.options.params = f.options.reduce = SW_F64;
        f.tolerance = EXACT;
        assert_int_equal(compare(&f, false) + compare(&f, true), f.count);
        use_mesh(&f, mesh);
        f.tolerance = 2 * TOLERANCE;
    }
    const int32_t gradients = compare(&f, false), logits = compare(&f, true);
    assert_int_equal(gradients + logits, f.count);
    free_fixture(&f);
}

static void on_one_rank(void **state)
{
    check(*state, sw_mesh_make(1, 1, 1, 1));
}

static void on_a_mesh(void **state)
{
    check(*state, sw_mesh_make(1, 2, 2, 2));
}

#define FAMILY(name)                                                                               \
    {#name " on one rank", on_one_rank, NULL, NULL, #name},                                        \
    {                                                                                              \
#name " on 1,2,2,2", on_a_mesh, NULL, NULL, #name                                          \
    }

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        FAMILY(llama),         FAMILY(llama_rope_llama3),
        FAMILY(llama_bias),    FAMILY(llama_rope_linear),
        FAMILY(mistral),       FAMILY(qwen2),
        FAMILY(qwen3),         FAMILY(qwen3_bias),
        FAMILY(olmo2),         FAMILY(olmo2_gqa),
        FAMILY(granite),       FAMILY(granite_tied),
        FAMILY(gemma3),        FAMILY(mistral_window),
        FAMILY(gemma2),        FAMILY(qwen2_window),
        FAMILY(olmo3),         FAMILY(qwen3_window),
        FAMILY(gemma3_window), FAMILY(llama_rope_yarn),
        FAMILY(phi3),          FAMILY(qwen2_rope_yarn),
        FAMILY(phi3_long),     FAMILY(llama_rope_longrope),
        FAMILY(phi4),          FAMILY(olmo3_yarn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
