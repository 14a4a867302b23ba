/* core/config: files, characters, YAML syntax, references. */
#include "config_support.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EMPTY                                                                                      \
    "t:1:1: the file is empty | a model has 'hidden_size', an accelerator 'peak', a cluster "      \
    "'nodes', a run 'global_batch_size'; copy one of configs/\n"

static void bytes_are_checked(void **state)
{
    (void)state;
    struct sw_error err = {0};
    static const struct {
        const char *text;
        size_t bytes;
        const char *expected;
    } cases[] = {
        {"", 0, EMPTY},
        {"# only a comment\n", 17, EMPTY},
        {"a: \0", 4, "t:1:4: a NUL character (byte 0x00) | descriptions are plain UTF-8 text\n"},
        {"x: 1\na: caf\xe9\n", 13,
         "t:2:7: not UTF-8 text (byte 0xe9) | descriptions are plain UTF-8 text\n"},
        {"\xff\xfe"
         "a\0",
         4, "t:1:1: not UTF-8 text (byte 0xff) | save the file as UTF-8, not as UTF-16\n"},
        {"a: \x1b[31m", 8,
         "t:1:4: a control character (byte 0x1b) | descriptions are plain UTF-8 text\n"},
        {"a: \xed\xa0\x80", 6,
         "t:1:4: not UTF-8 text (byte 0xed) | descriptions are plain UTF-8 text\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_config *c = sw_config_read_text("t", cases[i].text, cases[i].bytes, SW_CONFIG_RUN,
                                                  &sw_launchers, NULL, 0, &err);
        char *got = report(c);
        assert_string_equal(got, cases[i].expected);
        assert_int_equal(sw_config_error_count(c), 1);
        assert_null(sw_config_run(c));
        free(got);
        sw_config_free(c);
    }
}

static void syntax_is_explained(void **state)
{
    (void)state;
    expect(SW_CONFIG_RUN, "a: b: c\n",
           "t:1:5: not valid YAML: mapping values are not allowed in this context | put a string "
           "that contains ': ' in quotes, and check the indentation\n");
    expect(SW_CONFIG_RUN, "a: 1\nsequence_length:8192\nb: 3\n",
           "t:2:1: not valid YAML: no 'key: value' | write a space behind the colon, as in "
           "'sequence_length: 4096'\n");
    expect(SW_CONFIG_RUN, "a: [1, 2\nb: 3\n",
           "t:2:2: not valid YAML: did not find expected ',' or ']', while parsing a flow sequence "
           "that starts in line 1 | a bracket or brace is not closed, or a comma is missing\n");
    expect(SW_CONFIG_RUN, "a:\n\tb: 3\n",
           "t:2:1: not valid YAML: found character that cannot start any token | indent "
           "with spaces, not with a tab\n");
    expect(SW_CONFIG_RUN, "a: @b\n",
           "t:1:4: not valid YAML: found character that cannot start any token | put the string in "
           "quotes\n");
    expect(SW_CONFIG_RUN, "mesh_dim: !1,2,3,4\n",
           "t:1:13: not valid YAML: did not find expected whitespace or line break | put a string "
           "that starts with '!' in quotes: '!1,-1,4,1'\n");
    expect(SW_CONFIG_RUN, "a: 1\n---\nb: 2\n",
           "t:2:1: a second document in the file | keep one description in a file\n");
    expect(SW_CONFIG_RUN, "? [a]\n: b\n",
           "t:1:3: a key must be a string, not a list or a mapping | put a string that starts with "
           "a bracket or brace in quotes\n");
    expect(SW_CONFIG_RUN, "- a\n",
           "t:1:1: the description of a run must be a mapping, not a list | write 'key: value' "
           "lines\n");
    expect(SW_CONFIG_UNKNOWN, "a: 1\n",
           "t:1:1: neither a model, an accelerator, a profile, a cluster, a run nor a plan | a "
           "model has "
           "'hidden_size', an accelerator 'peak', a profile 'matmul', a cluster 'nodes', a run "
           "'global_batch_size'\n");
}

/* A file of another kind is called what it is, with what to do. */
static void other_kinds(void **state)
{
    (void)state;
    static const struct {
        enum sw_config_kind kind;
        const char *text, *expected;
    } cases[] = {
        {SW_CONFIG_RUN, CLUSTER,
         "t:1:1: this is a cluster, not a run | name it in a run, 'cluster: t', beside model, "
         "sequence_length and global_batch_size, and give that\n"},
        {SW_CONFIG_RUN, MODEL,
         "t:1:1: this is a model, not a run | name it in a run, 'model: t', beside cluster, "
         "sequence_length and global_batch_size, and give that\n"},
        {SW_CONFIG_RUN, ACCELERATOR,
         "t:1:1: this is an accelerator, not a run | a cluster names it, 'accelerator: t'; a run "
         "names the cluster\n"},
        {SW_CONFIG_RUN, "schema: shardwright.plan/1\nrun: {}\n",
         "t:1:1: this is a plan, not a run | give the run file that it was written from; 'plan "
         "check', 'plan diff' and 'runner train' read plans\n"},
        {SW_CONFIG_RUN,
         "schema: shardwright.plan/1\ninputs: [{digest: '0', path: ../runs/x.yaml}]\n",
         "t:1:1: this is a plan, not a run | give the run file that it was written from, "
         "'../runs/x.yaml'; 'plan check', 'plan diff' and 'runner train' read plans\n"},
        {SW_CONFIG_PLAN, RUN_HEAD,
         "t:1:1: this is a run, not a plan | write its plan with 'plan emit t'\n"},
        {SW_CONFIG_MODEL, RUN_HEAD,
         "t:1:1: this is a run, not a model | a model has 'hidden_size' and the other keys of a "
         "config.json\n"},
        {SW_CONFIG_RUN,
         "name: r\nmodel: " CLUSTER "\ncluster: " CLUSTER
         "\nsequence_length: 128\nglobal_batch_size: 8\n",
         "t:2:8: this is a cluster, not a model | a model has 'hidden_size' and the other keys of "
         "a "
         "config.json\n"},
        /* a run with mistakes stays one */
        {SW_CONFIG_RUN, "nodes: 3\nmodel: {}\nsequence_length: 8\nseqence_length: 9\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].expected != NULL) {
            expect(cases[i].kind, cases[i].text, cases[i].expected);
            continue;
        }
        struct sw_config *c = read_named("t", cases[i].text, cases[i].kind, NULL);
        char *got = report(c);
        assert_null(strstr(got, "this is a"));
        free(got);
        sw_config_free(c);
    }
}

static void clever_yaml_is_refused(void **state)
{
    (void)state;
    expect(SW_CONFIG_RUN, RUN_HEAD "prefer: &p fsdp\nrecompute: *p\n",
           "t:7:12: YAML aliases are not supported: '*p' | write the value out, or name another "
           "file\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "<<: {prefer: fsdp}\n",
           "t:6:1: YAML merge keys are not supported | write the keys out, or name another file\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "prefer: !!str fsdp\n",
           "t:6:9: '!!str' is read as a YAML tag, which is not supported here | leave it out: "
           "fsdp\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "prefer: !fast one\n",
           "t:6:9: '!fast' is read as a YAML tag, which is not supported here | put the string in "
           "quotes: '!fast one'\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "data: !mine {seed: 1}\nfreeze: !!seq\n- lm_head\n",
           "t:6:7: '!mine' is read as a YAML tag, which is not supported here | leave it out\n"
           "t:7:9: '!!seq' is read as a YAML tag, which is not supported here | leave it out\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "mesh_dim: \"a\\0b\"\n",
           "t:6:11: a string with a NUL character | remove it\n");
}

static void duplicates_point_at_the_second(void **state)
{
    (void)state;
    expect(SW_CONFIG_RUN, RUN_HEAD "prefer: time\nprefer: fsdp\ndata: {seed: 1, seed: 2}\n",
           "t:7:1: duplicate key 'prefer', first in line 6 | leave one of them out\n"
           "t:8:17: duplicate key 'seed', first in line 8 | leave one of them out\n");
    struct sw_config *c = read_named("t", RUN_HEAD "foo: 1\nfoo: 2\n", SW_CONFIG_RUN, NULL);
    assert_int_equal(sw_config_error_count(c), 2); /* unknown once, duplicate once */
    sw_config_free(c);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void nesting_fails_fast(void **state)
{
    (void)state;
    size_t bytes = 10u << 20;
    char *text = malloc(bytes + 1);
    static const char *const patterns[] = {"[", "{a: ", "- "};
    static const char *const expected[] = {
        "t:1:65: nested deeper than 64 levels | no description nests so deep: check the brackets "
        "and the indentation\n",
        "t:1:257: nested deeper than 64 levels | no description nests so deep: check the brackets "
        "and the indentation\n",
        "t:1:129: nested deeper than 64 levels | no description nests so deep: check the brackets "
        "and the indentation\n"};
    for (size_t p = 0; p < 3; p++) {
        size_t length = strlen(patterns[p]);
        for (size_t i = 0; i < bytes; i++)
            text[i] = patterns[p][i % length];
        text[bytes] = 0;
        double start = seconds();
        expect(SW_CONFIG_RUN, text, expected[p]);
        assert_true(seconds() - start < 5.0); /* a fraction of a second without sanitizers */
    }
    free(text);
}

static void floods_are_counted_not_kept(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    fputs(RUN_HEAD, out);
    for (int i = 0; i < 500; i++)
        fprintf(out, "zz%d: 1\n", i);
    fclose(out);
    struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, NULL);
    assert_int_equal(sw_config_error_count(c), 500);
    assert_int_equal(sw_config_diagnostic_count(c), 64);
    assert_int_equal(sw_config_diagnostic(c, 0)->line, 6);
    assert_int_equal(sw_config_diagnostic(c, 63)->line, 69);
    assert_null(sw_config_diagnostic(c, 64));
    assert_null(sw_config_diagnostic(c, -1));
    sw_config_free(c);
    free(text);
}

struct folder {
    char path[64];
};

static void put_file(const struct folder *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* The report of a file, with the folder's own path shown as D. */
static void expect_file(const struct folder *folder, const char *name, const char *expected)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    struct sw_error err = {0};
    struct sw_config *c = sw_config_read(path, SW_CONFIG_RUN, &sw_launchers, NULL, 0, &err);
    assert_non_null(c);
    char *got = report(c);
    char shown[4096] = "";
    size_t used = 0, length = strlen(folder->path);
    for (const char *p = got; *p != 0 && used < sizeof shown - 1;) {
        bool is_folder = strncmp(p, folder->path, length) == 0;
        shown[used++] = is_folder ? 'D' : *p;
        p += is_folder ? length : 1;
    }
    shown[used] = 0;
    assert_string_equal(shown, expected);
    free(got);
    sw_config_free(c);
}

static void references_are_followed(void **state)
{
    (void)state;
    struct folder folder = {"/tmp/sw_config_XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    char sub[128];
    snprintf(sub, sizeof sub, "%s/sub", folder.path);
    assert_int_equal(mkdir(sub, 0700), 0);
    put_file(&folder, "model.yaml", MODEL "\n");
    put_file(&folder, "sub/accelerator.yaml", ACCELERATOR "\n");
    put_file(&folder, "sub/cluster.yaml",
             "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: accelerator.yaml\n");
    put_file(&folder, "run.yaml",
             "name: r\nmodel: model.yaml\ncluster: ./sub/../sub/cluster.yaml\n"
             "sequence_length: 1\nglobal_batch_size: 1\ndata: {path: ../x/text.txt}\n"
             "init: {from: models/m}\n");
    char path[256];
    snprintf(path, sizeof path, "%s/sub/../run.yaml", folder.path);
    struct sw_error err = {0};
    struct sw_config *c = sw_config_read(path, SW_CONFIG_UNKNOWN, &sw_launchers, NULL, 0, &err);
    assert_int_equal(sw_config_get_kind(c), SW_CONFIG_RUN);
    const struct sw_run_config *run = sw_config_run(c);
    assert_non_null(run);
    snprintf(path, sizeof path, "%s/sub/cluster.yaml", folder.path);
    assert_string_equal(run->cluster.path, path);
    assert_string_equal(run->data_path, "/tmp/x/text.txt");
    snprintf(path, sizeof path, "%s/models/m", folder.path);
    assert_string_equal(run->init_from, path);
    snprintf(path, sizeof path, "%s/runs/r/checkpoints", folder.path);
    assert_string_equal(run->checkpoint_directory, path);
    sw_config_free(c);

    /* Mistakes of all files in one report: the run's, then those it names, in that order. */
    put_file(&folder, "bad_model.yaml", "vocab_size: x\n");
    put_file(&folder, "many.yaml",
             "name: r\nmodel: bad_model.yaml\ncluster: nowhere.yaml\nsequence_length: 0\n"
             "global_batch_size: 1\n");
    expect_file(&folder, "many.yaml",
                "D/many.yaml:3:10: cannot open 'D/nowhere.yaml': no such file | a path is relative "
                "to the file that names it\n"
                "D/many.yaml:4:18: 'sequence_length' must be at least 1, not 0 | for example: "
                "sequence_length: 32768\n"
                "D/bad_model.yaml:1:1: missing key 'hidden_size' | for example: hidden_size: 4096\n"
                "D/bad_model.yaml:1:1: missing key 'intermediate_size' | for example: "
                "intermediate_size: 11008\n"
                "D/bad_model.yaml:1:1: missing key 'num_hidden_layers' | for example: "
                "num_hidden_layers: 32\n"
                "D/bad_model.yaml:1:1: missing key 'num_attention_heads' | for example: "
                "num_attention_heads: 32\n"
                "D/bad_model.yaml:1:13: 'vocab_size' must be an integer, not the string 'x' | for "
                "example: vocab_size: 32000\n");

    put_file(&folder, "hub.yaml",
             "name: r\nmodel: meta-llama/Llama-3.1-8B\ncluster: [a]\nsequence_length: 1\n"
             "global_batch_size: 1\n");
    expect_file(
        &folder, "hub.yaml",
        "D/hub.yaml:2:8: cannot open 'D/meta-llama/Llama-3.1-8B': no such file | models are not "
        "downloaded here: save its config.json, and name that file\n"
        "D/hub.yaml:3:10: 'cluster' must be a path or a mapping, not a list | for example: "
        "cluster: ../clusters/h100-8x8.yaml\n");
    put_file(&folder, "sub/loop.yaml",
             "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: ../cycle.yaml\n");
    put_file(&folder, "cycle.yaml",
             "name: r\nmodel: model.yaml\ncluster: sub/loop.yaml\nsequence_length: 1\n"
             "global_batch_size: 1\n");
    expect_file(&folder, "cycle.yaml",
                "D/sub/loop.yaml:4:14: cyclic reference: D/cycle.yaml -> D/sub/loop.yaml -> "
                "D/cycle.yaml | name another file here, or write its keys in place of its name\n");
    put_file(&folder, "dir.yaml",
             "name: r\nmodel: sub\ncluster: [a]\nsequence_length: 1\n"
             "global_batch_size: 1\n");
    expect_file(
        &folder, "dir.yaml",
        "D/dir.yaml:2:8: cannot open 'D/sub': it is a directory | a path is relative to the "
        "file that names it\n"
        "D/dir.yaml:3:10: 'cluster' must be a path or a mapping, not a list | for example: "
        "cluster: ../clusters/h100-8x8.yaml\n");
    char path_of_pipe[256];
    snprintf(path_of_pipe, sizeof path_of_pipe, "%s/pipe", folder.path);
    assert_int_equal(mkfifo(path_of_pipe, 0600), 0);
    put_file(&folder, "waits.yaml",
             "name: r\nmodel: pipe\ncluster: [a]\nsequence_length: 1\n"
             "global_batch_size: 1\n");
    expect_file(
        &folder, "waits.yaml",
        "D/waits.yaml:2:8: cannot open 'D/pipe': it is not a regular file | a path is relative to "
        "the "
        "file that names it\n"
        "D/waits.yaml:3:10: 'cluster' must be a path or a mapping, not a list | for example: "
        "cluster: ../clusters/h100-8x8.yaml\n");
    expect_file(&folder, "sub",
                "D/sub:0:0: cannot open 'D/sub': it is a directory | name a YAML file of text that "
                "you may read\n");
    expect_file(&folder, "none.yaml",
                "D/none.yaml:0:0: cannot open 'D/none.yaml': no such file | a path is relative to "
                "the working directory\n");

    static const char *const names[] = {
        "model.yaml", "sub/accelerator.yaml", "sub/cluster.yaml", "run.yaml", "bad_model.yaml",
        "many.yaml",  "sub/loop.yaml",        "cycle.yaml",       "dir.yaml", "waits.yaml",
        "pipe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    rmdir(sub);
    rmdir(folder.path);
}

static void byte_order_marks_are_skipped(void **state)
{
    (void)state;
    struct folder folder = {"/tmp/sw_config_XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    put_file(&folder, "bom.yaml", "\xef\xbb\xbf{prefer: x}\n");
    char path[256];
    snprintf(path, sizeof path, "%s/bom.yaml", folder.path);
    struct sw_error err = {0};
    struct sw_config *c = sw_config_read(path, SW_CONFIG_RUN, &sw_launchers, NULL, 0, &err);
    assert_int_equal(sw_config_error_count(c), 6); /* five missing keys and the word */
    assert_int_equal(sw_config_diagnostic(c, 5)->column, 10);
    sw_config_free(c);
    unlink(path);
    rmdir(folder.path);
}

static void diagnostics_print_with_a_caret(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct sw_config *c = read_named(
        "t", RUN_HEAD "data: {\tpath: caf\xc3\xa9, sed: 1}\nwrong\x7e: 1\n", SW_CONFIG_RUN, NULL);
    sw_diagnostic_print(out, sw_config_diagnostic(c, 0), false);
    sw_config_free(c);
    struct sw_diagnostic whole = {.file = "f", .message = "gone", .help = "look again"};
    sw_diagnostic_print(out, &whole, false);
    struct sw_diagnostic note = {
        .file = "f", .line = 1, .column = 2, .message = "m", .source_line = "ab", .is_note = true};
    sw_diagnostic_print(out, &note, true);
    fclose(out);
    assert_string_equal(text, "t:6:21: error: unknown key 'sed'; did you mean 'seed'?\n"
                              "    data: { path: caf\xc3\xa9, sed: 1}\n"
                              "                        ^\n"
                              "f: error: gone\n"
                              "    help: look again\n"
                              "\033[1mf:1:2:\033[0m \033[1;36mnote:\033[0m m\n"
                              "    ab\n"
                              "     \033[1;36m^\033[0m\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_checked),
        cmocka_unit_test(syntax_is_explained),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(clever_yaml_is_refused),
        cmocka_unit_test(duplicates_point_at_the_second),
        cmocka_unit_test(nesting_fails_fast),
        cmocka_unit_test(floods_are_counted_not_kept),
        cmocka_unit_test(references_are_followed),
        cmocka_unit_test(byte_order_marks_are_skipped),
        cmocka_unit_test(diagnostics_print_with_a_caret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
