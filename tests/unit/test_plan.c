/* The plan file: what is written is read back, and any edited byte is found. */
#include "core/plan/internal.h"
#include "core/models/parameters.h"
#include "tests/support/recompute.h"
#include "tests/unit/plan_support.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[2048];      /* where everything is written; absolute, without links */
static char path[4096];        /* of a plan there */
static char placed_path[4096]; /* of the last one that plan_in wrote */

static struct sw_decision decision_of(void)
{
    return (struct sw_decision){
        .mesh = {.size = {2, 4, 8, 4}, .order = {SW_TP, SW_DP, SW_SP, SW_FSDP}},
        .train.micro_batch_size = 2,
        .train.accumulation_steps = 1,
        .train.recompute = {sw_test_values(NULL, "n1, h"), 3, sw_test_values(NULL, "y")},
        .train.strategy = SW_ATTENTION_GATHER,
        .train.layout = SW_CONTIGUOUS};
}

static const struct sw_plan_prediction prediction = {1.25, 30000000000, 29000000000, 20.5};

static const uint64_t digests[SW_PROGRAM_KINDS] = {0x0123456789abcdefu, 0xfedcba9876543210u,
                                                   0x0f1e2d3c4b5a6978u};

static char *write_text(const struct sw_run_config *run, size_t *bytes)
{
    char *text = NULL;
    struct sw_error err = {0};
    const struct sw_decision decision = decision_of();
    /* a path with all that YAML could stumble over */
    static char odd[] = "../a b/it's 100%, {\xc3\xa9}: #\n.yaml", plain[] = "cluster.yaml";
    const struct sw_plan_inputs inputs = {{{odd, 0xfedcba9876543210u}, {plain, 7}}, 2};
    FILE *out = open_memstream(&text, bytes);
    assert_int_equal(sw_plan_write(out, run, &inputs, &decision, &prediction, digests, NULL, &err),
                     0);
    fclose(out);
    return text;
}

static void store_at(const char *name, const char *text, size_t bytes)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static void store(const char *text, size_t bytes)
{
    store_at(path, text, bytes);
}

/* Of a ring of rings the plan says so; of any other nothing, so that older plans stay as they are.
 */
static void rings_read_back(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    for (int32_t inner = 0; inner <= 8; inner += 8) {
        char *text = NULL;
        size_t bytes;
        struct sw_plan plan;
        struct sw_program_options options;
        struct sw_decision decision = decision_of();
        decision.train.inner_ring = inner;
        FILE *out = open_memstream(&text, &bytes);
        assert_int_equal(sw_plan_write(out, sw_config_run(config), NULL, &decision, &prediction,
                                       digests, NULL, NULL),
                         0);
        fclose(out);
        store(text, bytes);
        assert_int_equal(strstr(text, "inner_ring") != NULL, inner > 0);
        assert_int_equal(sw_plan_read(path, NULL, &plan, NULL), 0);
        assert_int_equal(plan.decision.train.inner_ring, inner);
        assert_int_equal(sw_plan_program_options(plan.run, &plan.decision, &options, NULL), 0);
        assert_int_equal(options.inner_ring, inner);
        sw_plan_free(&plan);
        free(text);
    }
    sw_config_free(config);
}

static void reads_back(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    const struct sw_run_config *run = sw_config_run(config);
    assert_non_null(run);
    size_t bytes, again_bytes;
    char *text = write_text(run, &bytes), *again = write_text(run, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, again, bytes);
    store(text, bytes);
    struct sw_plan plan;
    struct sw_error err = {0};
    if (sw_plan_read(path, NULL, &plan, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_decision wanted = decision_of();
    assert_memory_equal(&plan.decision.mesh, &wanted.mesh, sizeof wanted.mesh);
    assert_int_equal(plan.decision.train.micro_batch_size, 2);
    assert_int_equal(plan.decision.train.accumulation_steps, 1);
    assert_true(sw_recompute_equal(plan.decision.train.recompute, wanted.train.recompute));
    assert_non_null(strstr(text, "\n  recompute: {values: [n1, h], layers: 3, rest: [y]}\n"));
    assert_int_equal(plan.decision.train.strategy, SW_ATTENTION_GATHER);
    assert_int_equal(plan.decision.train.layout, SW_CONTIGUOUS);
    assert_memory_equal(plan.program_digest, digests, sizeof digests);
    assert_true(plan.prediction.step_seconds == 1.25);
    assert_int_equal(plan.prediction.memory_total, prediction.memory_total);
    assert_int_equal(plan.prediction.arena_bytes, prediction.arena_bytes);
    assert_true(plan.prediction.save_seconds == 20.5);
    assert_int_equal(plan.inputs.count, 2);
    assert_string_equal(plan.inputs.input[0].path, "../a b/it's 100%, {\xc3\xa9}: #\n.yaml");
    assert_true(plan.inputs.input[0].digest == 0xfedcba9876543210u);
    assert_string_equal(plan.inputs.input[1].path, "cluster.yaml");
    assert_true(plan.inputs.input[1].digest == 7);
    char endless[] = "/dev/zero", *looked_at = NULL;
    const struct sw_plan_input device = {endless, 7};
    assert_int_equal(sw_plan_input_check(path, &device, &looked_at), SW_INPUT_MISSING);
    free(looked_at);
    assert_int_equal(plan.run->sequence_length, 1 << 18);
    assert_int_equal(plan.run->cluster.nodes, 64);
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/%s", folder, run->directory);
    assert_string_equal(plan.run->directory, directory);
    /* a plan's run written again for the same folder is the same plan */
    struct sw_plan_run placed;
    assert_int_equal(sw_plan_run_relocate(plan.run, folder, &placed, &err), 0);
    char *third = write_text(&placed.run, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, third, bytes);
    sw_plan_run_free(&placed);
    sw_plan_free(&plan);
    free(text);
    free(again);
    free(third);
    sw_config_free(config);
}

/* ---- Where a plan's paths lead ---- */

static void make_folders(const char *const *below)
{
    char whole[4096];
    for (; *below != NULL; below++) {
        snprintf(whole, sizeof whole, "%s/%s", folder, *below);
        assert_true(mkdir(whole, 0777) == 0 || access(whole, X_OK) == 0);
    }
}

/* Plans the run that a file of this name and with these last lines would describe, in FOLDER/OUT;
 * the plan's text, which the caller frees. */
static char *plan_in(const char *run_name, const char *more, const char *out)
{
    char name[4000], text[4096], directory[4000];
    size_t bytes;
    struct sw_error err = {0};
    struct sw_plan_run placed;
    snprintf(name, sizeof name, "%s/%s", folder, run_name);
    snprintf(directory, sizeof directory, "%s/%s", folder, out);
    snprintf(placed_path, sizeof placed_path, "%s/x.plan.yaml", directory);
    snprintf(text, sizeof text,
             "name: x\n"
             "model: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
             "num_hidden_layers: 2, num_attention_heads: 4}\n"
             "cluster: {name: c, nodes: 1, accelerators_per_node: 1, accelerator: {name: a, "
             "device: cpu, memory: 2 GB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 10 GB/s}}\n"
             "sequence_length: 128\nglobal_batch_size: 8\n%s",
             more);
    struct sw_config *config =
        sw_config_read_text(name, text, strlen(text), SW_CONFIG_RUN, NULL, NULL, 0, &err);
    assert_non_null(sw_config_run(config));
    assert_int_equal(sw_plan_run_relocate(sw_config_run(config), directory, &placed, &err), 0);
    char *plan = write_text(&placed.run, &bytes);
    store_at(placed_path, plan, bytes);
    sw_plan_run_free(&placed);
    sw_config_free(config);
    return plan;
}

static void leads_to(const char *got, const char *below)
{
    char wanted[4096];
    char *whole = sw_path_absolute(got);
    snprintf(wanted, sizeof wanted, "%s%s%s", below[0] == '/' ? "" : folder,
             below[0] == '/' ? "" : "/", below);
    assert_string_equal(whole, wanted);
    free(whole);
}

/* Reads a plan from a working directory, and says what its paths mean there. */
static void expect_paths(const char *from, const char *name, const char *data,
                         const char *directory, const char *checkpoints)
{
    struct sw_plan plan;
    struct sw_error err = {0};
    assert_int_equal(chdir(from), 0);
    if (sw_plan_read(name, NULL, &plan, &err) != 0)
        fail_msg("%s", err.message);
    leads_to(plan.run->data_path, data);
    leads_to(plan.run->directory, directory);
    leads_to(plan.run->checkpoint_directory, checkpoints);
    sw_plan_free(&plan);
}

static void means_the_same_from_anywhere(void **state)
{
    (void)state;
    char tree[4096], moved[4096];
    make_folders((const char *const[]){"tree", "tree/out", "a", "a/longer", "a/longer/place",
                                       "a/longer/place/out", NULL});
    const char more[] = "data: {path: ../data/x.txt}\ninit: {from: ../models/m}\n";
    char *first = plan_in("tree/runs/x.yaml", more, "tree/out");
    snprintf(tree, sizeof tree, "%s/tree", folder);
    expect_paths("/", placed_path, "tree/data/x.txt", "tree/runs/runs/x",
                 "tree/runs/runs/x/checkpoints");
    expect_paths(tree, "out/x.plan.yaml", "tree/data/x.txt", "tree/runs/runs/x",
                 "tree/runs/runs/x/checkpoints");
    strcat(tree, "/out");
    expect_paths(tree, "x.plan.yaml", "tree/data/x.txt", "tree/runs/runs/x",
                 "tree/runs/runs/x/checkpoints");
    /* the same tree elsewhere: the same bytes, and they mean what lies there */
    snprintf(moved, sizeof moved, "%s/a/longer/place", folder);
    char *second = plan_in("a/longer/place/runs/x.yaml", more, "a/longer/place/out");
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "  init:\n    from: '../models/m'\n"));
    expect_paths(moved, "./out/x.plan.yaml", "a/longer/place/data/x.txt",
                 "a/longer/place/runs/runs/x", "a/longer/place/runs/runs/x/checkpoints");
    /* the plan in the run's own folder */
    char *third = plan_in("tree/runs/x.yaml", "directory: ../out\n", "tree/out");
    assert_non_null(strstr(third, "  directory: '.'\n"));
    assert_non_null(strstr(third, "    directory: checkpoints\n"));
    free(first);
    free(second);
    free(third);
    assert_int_equal(chdir(folder), 0);
}

static void keeps_absolute_paths(void **state)
{
    (void)state;
    make_folders((const char *const[]){"tree", "tree/out", NULL});
    char *text = plan_in("tree/runs/x.yaml",
                         "data: {path: /data/x.txt}\ndirectory: /scratch/x\ninit: {from: /hf/m}\n",
                         "tree/out");
    assert_non_null(strstr(text, "    path: '/data/x.txt'\n"));
    assert_non_null(strstr(text, "    from: '/hf/m'\n"));
    assert_non_null(strstr(text, "  directory: '/scratch/x'\n"));
    /* checkpoints lie inside it */
    assert_non_null(strstr(text, "    directory: '/scratch/x/checkpoints'\n"));
    expect_paths("/", placed_path, "/data/x.txt", "/scratch/x", "/scratch/x/checkpoints");
    free(text);
    text = plan_in("tree/runs/x.yaml",
                   "data: {path: x.txt}\ndirectory: /scratch/x\ncheckpoint: {directory: c}\n",
                   "tree/out");
    assert_non_null(strstr(text, "  directory: '/scratch/x'\n"));
    assert_non_null(strstr(text, "    directory: '../runs/c'\n"));
    expect_paths("/", placed_path, "tree/runs/x.txt", "/scratch/x", "tree/runs/c");
    free(text);
    text = plan_in("tree/runs/x.yaml", "data: {path: x.txt}\ncheckpoint: {directory: /scratch/c}\n",
                   "tree/out");
    assert_non_null(strstr(text, "  directory: '../runs/runs/x'\n"));
    expect_paths("/", placed_path, "tree/runs/x.txt", "tree/runs/runs/x", "/scratch/c");
    free(text);
    assert_int_equal(chdir(folder), 0);
}

/* A link to a place of another depth: '..' from there is not what it looks like. */
static void follows_links(void **state)
{
    (void)state;
    char link[4096], real[4096], name[4200];
    make_folders(
        (const char *const[]){"tree", "tree/out", "a", "a/longer", "a/longer/place", NULL});
    snprintf(link, sizeof link, "%s/tree/link", folder);
    snprintf(real, sizeof real, "%s/a/longer/place", folder);
    unlink(link);
    assert_int_equal(symlink(real, link), 0);
    char *text = plan_in("tree/runs/x.yaml", "data: {path: ../data/x.txt}\n", "tree/link");
    assert_non_null(strstr(text, "    path: '../../../tree/data/x.txt'\n"));
    snprintf(name, sizeof name, "%s/x.plan.yaml", real);
    expect_paths("/", name, "tree/data/x.txt", "tree/runs/runs/x", "tree/runs/runs/x/checkpoints");
    /* seen through the link, though nothing of it is there yet */
    struct sw_plan plan;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_read(placed_path, NULL, &plan, &err), 0);
    snprintf(name, sizeof name, "%s/../../../tree/runs/runs/x/checkpoints", link);
    assert_string_equal(plan.run->checkpoint_directory, name);
    sw_plan_free(&plan);
    free(text);
    /* a link above both does not show */
    snprintf(real, sizeof real, "%s/tree", folder);
    snprintf(link, sizeof link, "%s/other", folder);
    unlink(link);
    assert_int_equal(symlink(real, link), 0);
    text = plan_in("other/runs/x.yaml", "data: {path: ../data/x.txt}\n", "other/out");
    assert_non_null(strstr(text, "    path: '../data/x.txt'\n"));
    free(text);
}

static void finds_every_edit(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    size_t bytes;
    char *text = write_text(sw_config_run(config), &bytes);
    struct sw_plan plan;
    for (size_t i = 0; i < bytes; i++) {
        struct sw_error err = {0};
        text[i] ^= 1;
        store(text, bytes);
        assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
        assert_int_equal(err.status, SW_BAD_INPUT);
        assert_string_equal(err.file, path);
        assert_null(plan.config);
        text[i] ^= 1;
    }
    /* whatever stands in the digest's place, the message is one line of printable text */
    char *digest = strstr(text, "digest: '") + 9;
    for (int byte = 0; byte < 256; byte++) {
        struct sw_error err = {0};
        const char kept = digest[3];
        if (kept == (char)byte)
            continue;
        digest[3] = (char)byte;
        store(text, bytes);
        assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
        for (const char *c = err.message; *c != '\0'; c++)
            assert_true(*c >= ' ' && *c <= '~');
        digest[3] = kept;
    }
    for (size_t cut = 0; cut < bytes; cut += 97) {
        struct sw_error err = {0};
        store(text, cut);
        assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
    }
    free(text);
    sw_config_free(config);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    size_t bytes;
    struct sw_plan plan;
    struct sw_error err = {0};
    char *text = write_text(sw_config_run(config), &bytes), wanted[4300];
    *strstr(text, "sequence_length: 2") = 'S';
    store(text, bytes);
    assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
    snprintf(wanted, sizeof wanted,
             "%s:3:10: error: the plan was changed after it was written: its digest is '", path);
    char said[SW_ERROR_TEXT_BYTES];
    assert_memory_equal(sw_error_format(&err, NULL, said), wanted, strlen(wanted));
    memset(&err, 0, sizeof err);
    store("name: x\n", 8);
    assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
    snprintf(
        wanted, sizeof wanted,
        "%s:1:1: error: not a plan file: 'schema' must be 'shardwright.plan/1'; write one with "
        "'plan emit RUN.yaml'",
        path);
    assert_string_equal(sw_error_format(&err, NULL, said), wanted);
    memset(&err, 0, sizeof err);
    assert_int_equal(sw_plan_read("/nonexistent/x", NULL, &plan, &err), -1);
    assert_string_equal(sw_error_format(&err, NULL, said),
                        "/nonexistent/x: error: cannot open the plan: No such file or directory; "
                        "name a NAME.plan.yaml that 'plan emit' wrote");
    free(text);
    sw_config_free(config);
}

/* Puts the digest of a text in its place. */
static void sign(char *text)
{
    char digits[17];
    char *at = strstr(text, "digest: '") + strlen("digest: '");
    snprintf(digits, sizeof digits, "%016" PRIx64,
             sw_plan_text_digest(text, strlen(text), (size_t)(at - text)));
    memcpy(at, digits, 16);
}

/* A plan is a description like any other: its keys may stand in any order, and what is wrong with
 * it has a place. */
static void is_a_description(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    size_t bytes;
    char *text = write_text(sw_config_run(config), &bytes);
    char *decision = strstr(text, "decision:\n"), *prediction = strstr(text, "prediction:\n");
    char *program = strstr(text, "programs:\n"), *inputs = strstr(text, "inputs:");
    char *run = strstr(text, "run:\n");
    char *other = calloc(1, 2 * bytes + 200);
    if (other == NULL)
        abort();
    sprintf(other,
            "# mine\n%.*s%.*s\ndigest: '0000000000000000'\n%s%.*s%.*sschema: "
            "shardwright.plan/1\n",
            (int)(prediction - decision), decision, (int)(inputs - program), program, run,
            (int)(run - inputs), inputs, (int)(program - prediction), prediction);
    sign(other);
    store(other, strlen(other));
    struct sw_plan plan, same;
    struct sw_error err = {0};
    if (sw_plan_read(path, NULL, &plan, &err) != 0)
        fail_msg("%d:%d: %s", (int)err.line, (int)err.column, err.message);
    store(text, bytes);
    assert_int_equal(sw_plan_read(path, NULL, &same, &err), 0);
    assert_memory_equal(&plan.decision, &same.decision, sizeof plan.decision);
    assert_memory_equal(plan.program_digest, same.program_digest, sizeof digests);
    assert_int_equal(plan.inputs.count, same.inputs.count);
    assert_string_equal(plan.run->name, same.run->name);
    assert_int_equal(plan.decision_place.line, 2);
    assert_int_equal(same.decision_place.line, 4);
    assert_int_equal(same.program_place[SW_PROGRAM_TRAIN].line, 19);
    assert_int_equal(same.program_place[SW_PROGRAM_EVALUATE].line, 20);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        if (sw_program_traits((enum sw_program_kind)k)->state != SW_STATE_TRAINING)
            continue;
        char row[64];
        snprintf(row, sizeof row, "\n  %s: '%016" PRIx64 "'\n",
                 sw_program_kind_name((enum sw_program_kind)k), digests[k]);
        assert_non_null(strstr(text, row));
    }
    sw_plan_free(&plan);
    sw_plan_free(&same);
    static const struct {
        const char *from, *to, *message;
        int32_t line, column;
    } cases[] = {
        {"values: [", "values: [x",
         "the layers of this model have no xn1; use some of: n1, q0, k0, v0, q1, k1, k2, v2, o, "
         "lse, y, "
         "n2, gate, up, h",
         9, 24},
        {"mesh_dim: '", "mesh_dim: 'x",
         "mesh_dim is not a mesh; write the plan again with 'plan emit'", 5, 3},
        {"axis_order: '", "axis_order: 'tp,",
         "axis_order is not dp, fsdp, tp and sp in some order; write the plan again with 'plan "
         "emit'",
         6, 3},
        {"train: '", "train: '0", NULL, 19, 10},
        {"  evaluate: '", "  evaluat: '", "unknown key 'evaluat'; did you mean 'evaluate'?", 20, 3},
        {"programs:\n", "program: '0123456789abcdef'\nprograms:\n",
         "this plan was written by an older version: it has 'program' in place of 'programs'; "
         "write it again "
         "with 'plan emit'",
         18, 1},
        {"  save: '", "  saves: '", "unknown key 'saves'; did you mean 'save'?", 21, 3},
        {"  save: '", "  # '",
         "this plan was written by an older version: 'programs' has no digest of 'save'; write it "
         "again with 'plan "
         "emit'",
         18, 1},
        {"prediction:", "predicton:", "unknown key 'predicton'; did you mean 'prediction'?", 13, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = strstr(text, cases[i].from);
        sprintf(other, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from));
        sign(other);
        store(other, strlen(other));
        memset(&err, 0, sizeof err);
        assert_int_equal(sw_plan_read(path, NULL, &plan, &err), -1);
        if (cases[i].message != NULL)
            assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.file, path);
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(err.column, cases[i].column);
    }
    /* as many ranks as a mesh may have, and one too many */
    for (int many = 0; many < 2; many++) {
        const char *at = strstr(text, "mesh_dim: '");
        sprintf(other, "%.*smesh_dim: '%s'%s", (int)(at - text), text,
                many ? "1,2,1,1073741824" : "1,1,1,1073741824", strchr(at, '\n'));
        sign(other);
        store(other, strlen(other));
        memset(&err, 0, sizeof err);
        assert_int_equal(sw_plan_read(path, NULL, &plan, &err), many ? -1 : 0);
        if (!many)
            assert_int_equal(plan.decision.mesh.size[SW_SP], 1 << 30);
        sw_plan_free(&plan);
    }
    free(other);
    free(text);
    sw_config_free(config);
}

static void maps_options(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.more = "rules: {residual_seq: [sp, tp]}\nprecision: {compute: bf16, params: fp32, reduce: "
             "bf16}\n";
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_decision decision = decision_of();
    struct sw_program_options options;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_program_options(run, &decision, &options, &err), 0);
    assert_int_equal(options.model.vocab_size, 32000);
    assert_int_equal(options.model.head_dim, 128);
    assert_int_equal(options.compute, SW_BF16_T);
    assert_int_equal(options.params, SW_F32);
    assert_int_equal(options.reduce, SW_BF16_T);
    assert_true(sw_recompute_equal(options.recompute, decision.train.recompute));
    assert_int_equal(options.layout, SW_CONTIGUOUS);
    assert_int_equal(options.micro_batch_per_rank, 2);
    const struct sw_axes wanted = {2, {SW_SP, SW_TP}};
    assert_true(sw_axes_equal(options.rules.axes[SW_L_RESIDUAL_SEQ], wanted));
    assert_int_equal(options.rules.axes[SW_L_KEY_SEQ].count, 0); /* strategy gather */
    struct sw_run_config wrong = *run;
    wrong.rule[0].logical = "residual_sek";
    assert_int_equal(sw_plan_program_options(&wrong, &decision, &options, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(err.file, "test.yaml"));
    assert_true(err.line > 1 && err.column > 1);
    assert_string_equal(err.message,
                        "unknown logical axis 'residual_sek'; did you mean 'residual_seq'?");
    sw_config_free(config);
}

/* `freeze`: names of parameters, each of which means something, and something is left to train. */
static void freeze_of_a_run(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.more = "freeze: [model.embed_tokens, 'model.layers.*.mlp']\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    const struct sw_decision decision = decision_of();
    struct sw_program_options options;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_program_options(&run, &decision, &options, &err), 0);
    assert_string_equal(options.freeze, "model.embed_tokens,model.layers.*.mlp");
    assert_int_equal(sw_parameters_count(&options.model, options.freeze), 4);
    run.freeze = "model.norm,model.layers.3.mlp";
    assert_int_equal(sw_plan_program_options(&run, &decision, &options, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(err.file, "test.yaml"));
    assert_true(err.line > 1 && err.column > 1);
    assert_string_equal(err.message,
                        "the model has no parameter 'model.layers.3.mlp' to freeze; use names as "
                        "model.embed_tokens and model.layers.*.mlp: layers are frozen together");
    err = (struct sw_error){0};
    run.freeze = "model,lm_head";
    assert_int_equal(sw_plan_program_options(&run, &decision, &options, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_string_equal(err.message, "'freeze' leaves no parameter to train; name fewer of them");
    sw_config_free(config);
}

/* `optimizer.no_decay`: the same names; the others decay as they are declared to. */
static void no_decay_of_a_run(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.more = "optimizer: {no_decay: ['model.layers.*.mlp', lm_head]}\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    const struct sw_decision decision = decision_of();
    struct sw_program_options options;
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_program_options(&run, &decision, &options, &err), 0);
    assert_int_equal(sw_program_compile(&options, SW_SCHEDULED, &program, &err), 0);
    int32_t decaying = 0, updates = 0;
    for (int32_t i = 0; i < program->op_count; i++) {
        const struct sw_op *op = &program->ops[i];
        if (op->kind != SW_OP_ADAMW)
            continue;
        const char *name = program->values[op->in[0].value].name;
        const bool decays = strcmp(name, "embedding") == 0 || strcmp(name, "wq") == 0 ||
                            strcmp(name, "wk") == 0 || strcmp(name, "wv") == 0 ||
                            strcmp(name, "wo") == 0;
        assert_int_equal(op->as.adamw.decay, decays);
        decaying += decays;
        updates++;
    }
    assert_int_equal(decaying, 5);
    assert_int_equal(updates, 12);
    sw_program_free(program);
    run.optimizer.no_decay = "model.layers.3.mlp";
    assert_int_equal(sw_plan_program_options(&run, &decision, &options, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_true(err.line > 1 && err.column > 1);
    assert_string_equal(err.message,
                        "the model has no parameter 'model.layers.3.mlp' that 'no_decay' could "
                        "name; use names as model.embed_tokens and model.layers.*.mlp: layers are "
                        "named together");
    sw_config_free(config);
}

/* Names are looked up in the values of the model's own program, and told in its order. */
static void recompute_of_a_run(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.more = "recompute: {values: [h, n1, n1], layers: 3, rest: [n1]}\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    const struct sw_layer_values has = sw_test_layer_values(&run.model.shape);
    struct sw_recompute_names names;
    struct sw_recompute found;
    struct sw_recompute_config written;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_recompute(&run.recompute, &has, &found, &err), 0);
    assert_true(sw_layer_values_equal(found.values, sw_test_values(NULL, "n1, h")));
    assert_int_equal(found.layers, 3);
    assert_true(sw_layer_values_equal(found.rest, sw_test_values(NULL, "n1")));
    sw_plan_name_recompute(found, &names, &written);
    assert_int_equal(written.values.count, 2);
    assert_string_equal(written.values.of[0].name, "n1");
    assert_string_equal(written.values.of[1].name, "h");
    assert_int_equal(written.rest.count, 1);
    const struct sw_recompute_config old = {.layers = SW_ALL_LAYERS, .before_attention = true};
    assert_int_equal(sw_plan_recompute(&old, &has, &found, &err), 0);
    assert_true(sw_layer_values_equal(found.values,
                                      sw_test_values(NULL, "n1, q0, k0, v0, q1, k1, k2, v2")));
    sw_config_free(config);
    t.more = "recompute: {values: [n1, qn, up+b]}\n";
    config = sw_test_read_run(&t);
    run = *sw_config_run(config);
    assert_int_equal(sw_plan_recompute(&run.recompute, &has, &found, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(err.file, "test.yaml"));
    assert_int_equal(err.column, 26);
    assert_string_equal(
        err.message, "the layers of this model have no qn, up+b; use some of: n1, q0, k0, v0, q1, "
                     "k1, k2, v2, o, lse, y, n2, gate, up, h");
    sw_config_free(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(rings_read_back),
        cmocka_unit_test(means_the_same_from_anywhere),
        cmocka_unit_test(keeps_absolute_paths),
        cmocka_unit_test(follows_links),
        cmocka_unit_test(finds_every_edit),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(maps_options),
        cmocka_unit_test(freeze_of_a_run),
        cmocka_unit_test(no_decay_of_a_run),
        cmocka_unit_test(recompute_of_a_run),
        cmocka_unit_test(is_a_description),
    };
    char *here = realpath(argc > 1 ? argv[1] : "build/tests", NULL);
    if (here == NULL)
        return 2;
    snprintf(folder, sizeof folder, "%.1500s/unit_plan_files", here);
    free(here);
    snprintf(path, sizeof path, "%s/x.plan.yaml", folder);
    if (mkdir(folder, 0777) != 0 && access(folder, X_OK) != 0)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
