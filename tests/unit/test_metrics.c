/* metrics.jsonl, byte for byte. */
#include "runner/train/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define HEADER                                                                                     \
    "{\"schema\":\"shardwright.metrics/1\",\"run\":\"a \\\"quoted\\\" \\\\ run\","                 \
    "\"attempt\":3,\"plan_digest\":\"00000000deadbeef\",\"program_digest\":\"0123456789abcdef\","  \
    "\"evaluate_digest\":\"fedcba9876543210\",\"save_digest\":\"0f1e2d3c4b5a6978\","               \
    "\"mesh_dim\":\"1,2,2,2\",\"axis_order\":\"dp,fsdp,sp,tp\","                                   \
    "\"predicted_step_seconds\":0.25,\"predicted_memory\":3000000000,\"arena_bytes\":12345678,"    \
    "\"job\":\"17\",\"time\":1764478801.125,\"elapsed_seconds\":12.5,\"ranks\":8,"                 \
    "\"first_step\":0,\"last_step\":40,\"evaluation_batches\":2,\"memory_limit\":4000000000,"      \
    "\"versions\":{\"shardwright\":\"9\"}}\n"

static char folder[2048]; /* made for this run, set by main */

static void expect_file(const char *directory, const char *wanted)
{
    char path[5000], text[8192];
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, wanted);
}

static void open_good(const char *directory, struct sw_metrics **metrics)
{
    struct sw_error err = {0};
    if (sw_metrics_open(directory, metrics, &err) != 0)
        fail_msg("%s", err.message);
}

static const struct sw_metrics_start started = {.attempt = 3,
                                                .job = "17",
                                                .time = 1764478801.125,
                                                .elapsed_s = 12.5,
                                                .ranks = 8,
                                                .last_step = 40,
                                                .evaluation_batches = 2,
                                                .memory_limit = 4000000000};

static struct sw_plan plan_of(const struct sw_run_config *run)
{
    return (struct sw_plan){
        .run = run,
        .decision = {.mesh = sw_mesh_make(1, 2, 2, 2)},
        .prediction = {.step_seconds = 0.25, .memory_total = 3000000000, .arena_bytes = 12345678},
        .digest = 0xdeadbeef,
        .program_digest = {0x0123456789abcdef, 0xfedcba9876543210, 0x0f1e2d3c4b5a6978}};
}

static void test_lines(void **state)
{
    (void)state;
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/deep/in/runs", folder);
    const struct sw_run_config run = {.name = "a \"quoted\" \\ run"};
    const struct sw_plan plan = plan_of(&run);
    struct sw_metrics_step step = {.step = 1,
                                   .tokens = 2048,
                                   .loss = 5.5,
                                   .grad_norm = 1.25,
                                   .learning_rate = 3e-6,
                                   .step_seconds = 0.5,
                                   .mfu = 0.375,
                                   .arena_bytes = 12345678,
                                   .elapsed_s = 13.25,
                                   .memory_bytes = 23456789};
    const char *const first =
        HEADER "{\"step\":1,\"loss\":5.5,\"grad_norm\":1.25,\"learning_rate\":3e-06,"
               "\"tokens\":2048,\"step_seconds\":0.5,\"tokens_per_second\":4096,\"mfu\":0.375,"
               "\"arena_bytes\":12345678,\"elapsed_seconds\":13.25,\"memory_bytes\":23456789}\n";
    struct sw_error err = {0};
    struct sw_metrics *metrics = NULL;
    open_good(directory, &metrics);
    assert_int_equal(sw_metrics_header(metrics, &plan, "{\"shardwright\":\"9\"}", &started, &err),
                     0);
    expect_file(directory, HEADER); /* whoever follows the file sees each line at once */
    assert_int_equal(sw_metrics_step(metrics, &step, &err), 0);
    expect_file(directory, first);
    sw_metrics_close(metrics);

    /* a later start goes on in the same file; JSON knows no NaN */
    open_good(directory, &metrics);
    step.step = 2;
    step.loss = (double)NAN;
    step.grad_norm = (double)INFINITY;
    assert_int_equal(sw_metrics_step(metrics, &step, &err), 0);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, (double)NAN, 0.5, &err), 0);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), 0);
    sw_metrics_close(metrics);
    char all[4096];
    snprintf(all, sizeof all,
             "%s{\"step\":2,\"loss\":null,\"grad_norm\":null,\"learning_rate\":3e-06,"
             "\"tokens\":2048,\"step_seconds\":0.5,\"tokens_per_second\":4096,\"mfu\":0.375,"
             "\"arena_bytes\":12345678,\"elapsed_seconds\":13.25,\"memory_bytes\":23456789}\n"
             "{\"step\":2,\"held_out_bits_per_token\":2.5,\"bigram_bits_per_token\":null,"
             "\"seconds\":0.5}\n"
             "{\"step\":2,\"held_out_bits_per_token\":2.5,\"bigram_bits_per_token\":3.75,"
             "\"seconds\":0.5}\n",
             first);
    expect_file(directory, all);
}

static void test_no_directory(void **state)
{
    (void)state;
    char file[4096], directory[4200], wanted[5000];
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(directory, sizeof directory, "%s/run", file);
    FILE *made = fopen(file, "w");
    assert_non_null(made);
    fclose(made);
    struct sw_metrics *metrics = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_metrics_open(directory, &metrics, &err), -1);
    snprintf(wanted, sizeof wanted, "cannot create the folder '%s': Not a directory", directory);
    assert_string_equal(err.message, wanted);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    err = (struct sw_error){0};
    assert_int_equal(sw_metrics_open(file, &metrics, &err), -1);
    snprintf(wanted, sizeof wanted, "'%s' is not a folder", file);
    assert_string_equal(err.message, wanted);
    assert_null(metrics);
    sw_metrics_close(NULL);
}

/* What a killed run left of a line does not spoil the next one's. */
static void test_torn_line(void **state)
{
    (void)state;
    char directory[4096], path[4200];
    snprintf(directory, sizeof directory, "%s/torn", folder);
    struct sw_metrics *metrics = NULL;
    struct sw_error err = {0};
    open_good(directory, &metrics);
    sw_metrics_close(metrics);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"step\":1}\n{\"st", file);
    fclose(file);
    assert_false(sw_metrics_has_holdout(directory, 2));
    open_good(directory, &metrics);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), 0);
    sw_metrics_close(metrics);
    expect_file(directory, "{\"step\":1}\n{\"step\":2,\"held_out_bits_per_token\":2.5,"
                           "\"bigram_bits_per_token\":3.75,\"seconds\":0.5}\n");
    assert_true(sw_metrics_has_holdout(directory, 2));
    assert_false(sw_metrics_has_holdout(directory, 1));
}

/* Cut behind each of its bytes, a file keeps the whole lines, and a last object whose end of line
 * alone is missing. */
static void test_torn_anywhere(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"b\":\"}\\\"{\"},\"c\":1}\n{\"step\":1,\"x\":\"}\"}\n";
    static const char added[] = "{\"step\":2,\"held_out_bits_per_token\":2.5,\"bigram_bits_per_"
                                "token\":3.75,\"seconds\":0.5}\n";
    const size_t first = strchr(text, '\n') + 1 - text, all = sizeof text - 1;
    char directory[4096], path[4200], wanted[400];
    snprintf(directory, sizeof directory, "%s/anywhere", folder);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    for (size_t cut = 0; cut <= all; cut++) {
        struct sw_metrics *metrics = NULL;
        struct sw_error err = {0};
        open_good(directory, &metrics);
        sw_metrics_close(metrics);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fwrite(text, 1, cut, file);
        fclose(file);
        open_good(directory, &metrics);
        assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), 0);
        sw_metrics_close(metrics);
        const size_t kept = cut >= all - 1 ? all : cut >= first - 1 ? first : 0;
        snprintf(wanted, sizeof wanted, "%.*s%s", (int)kept, text, added);
        expect_file(directory, wanted);
    }
}

/* A line that does not fit is taken back whole, and kept for later. */
static void test_no_half_line(void **state)
{
    (void)state;
    static const char line[] = "{\"step\":1,\"held_out_bits_per_token\":2.5,"
                               "\"bigram_bits_per_token\":3.75,\"seconds\":0.5}\n";
    char directory[4096], wanted[5000];
    snprintf(directory, sizeof directory, "%s/half", folder);
    struct sw_metrics *metrics = NULL;
    struct sw_error err = {0};
    struct rlimit before, limit;
    open_good(directory, &metrics);
    assert_int_equal(sw_metrics_holdout(metrics, 1, 2.5, 3.75, 0.5, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = sizeof line - 1 + 10; /* room for the beginning of a second line */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const int status = sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    snprintf(wanted, sizeof wanted, "cannot write %s/metrics.jsonl: File too large", directory);
    assert_string_equal(err.message, wanted);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    expect_file(directory, line);
    /* it is written with the next one, before it */
    err = (struct sw_error){0};
    assert_int_equal(sw_metrics_holdout(metrics, 3, 2.5, 3.75, 0.5, &err), 0);
    snprintf(wanted, sizeof wanted, "%s%s%s", line,
             "{\"step\":2,\"held_out_bits_per_token\":2.5,\"bigram_bits_per_token\":3.75,"
             "\"seconds\":0.5}\n",
             "{\"step\":3,\"held_out_bits_per_token\":2.5,\"bigram_bits_per_token\":3.75,"
             "\"seconds\":0.5}\n");
    expect_file(directory, wanted);
    sw_metrics_close(metrics);
    expect_file(directory, wanted);
}

/* A full disk is an error of the step that does not fit, not a silent loss. */
static void test_full_disk(void **state)
{
    (void)state;
    char directory[4096], path[4200];
    if (access("/dev/full", W_OK) != 0)
        skip();
    snprintf(directory, sizeof directory, "%s/full", folder);
    struct sw_metrics *metrics = NULL;
    open_good(directory, &metrics);
    sw_metrics_close(metrics);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/full", path), 0);
    open_good(directory, &metrics);
    struct sw_error err = {0};
    char wanted[5000];
    assert_int_equal(sw_metrics_holdout(metrics, 1, 1, 1, 0.5, &err), -1);
    snprintf(wanted, sizeof wanted, "cannot write %s: No space left on device", path);
    assert_string_equal(err.message, wanted);
    sw_metrics_close(metrics);
}

/* A file that was removed or replaced is begun again, header first. */
static void test_removed(void **state)
{
    (void)state;
    static const char line[] = "{\"step\":2,\"held_out_bits_per_token\":2.5,"
                               "\"bigram_bits_per_token\":3.75,\"seconds\":0.5}\n";
    char directory[4096], path[4200], wanted[8400];
    const struct sw_run_config run = {.name = "a \"quoted\" \\ run"};
    const struct sw_plan plan = plan_of(&run);
    snprintf(directory, sizeof directory, "%s/removed", folder);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    struct sw_metrics *metrics = NULL;
    struct sw_error err = {0};
    open_good(directory, &metrics);
    assert_int_equal(sw_metrics_header(metrics, &plan, "{\"shardwright\":\"9\"}", &started, &err),
                     0);
    assert_int_equal(sw_metrics_renew(metrics, &err), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sw_metrics_renew(metrics, &err), 1);
    assert_int_equal(sw_metrics_renew(metrics, &err), 0);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), 0);
    snprintf(wanted, sizeof wanted, "%s%s", HEADER, line);
    expect_file(directory, wanted);
    /* with its folder */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(sw_metrics_renew(metrics, &err), 1);
    expect_file(directory, HEADER);
    /* what stands there and is not ours is gone on with */
    assert_int_equal(unlink(path), 0);
    FILE *other = fopen(path, "w");
    assert_non_null(other);
    fputs(line, other);
    fclose(other);
    assert_int_equal(sw_metrics_renew(metrics, &err), 1);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), 0);
    snprintf(wanted, sizeof wanted, "%s%s", line, line);
    expect_file(directory, wanted);
    /* and what cannot be opened is an error, until it can be */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(sw_metrics_renew(metrics, &err), -1);
    snprintf(wanted, sizeof wanted, "cannot write %s: Is a directory", path);
    assert_string_equal(err.message, wanted);
    assert_int_equal(sw_metrics_holdout(metrics, 2, 2.5, 3.75, 0.5, &err), -1);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(sw_metrics_renew(metrics, &err), 1);
    snprintf(wanted, sizeof wanted, "%s%s", HEADER, line);
    expect_file(directory, wanted);
    sw_metrics_close(metrics);
}

static void test_loaded(void **state)
{
    (void)state;
    char directory[4096], wanted[2048];
    const struct sw_run_config run = {.name = "a \"quoted\" \\ run"};
    const struct sw_plan plan = plan_of(&run);
    const struct sw_metrics_loaded loaded = {.folder = "a/step-000004",
                                             .bytes = 3353419776,
                                             .reads = 205,
                                             .seconds = 1.5,
                                             .resident_growth_bytes = 21069824};
    snprintf(directory, sizeof directory, "%s/loaded", folder);
    struct sw_metrics *metrics = NULL;
    struct sw_error err = {0};
    open_good(directory, &metrics);
    struct sw_metrics_start from = started;
    from.loaded = loaded;
    assert_int_equal(sw_metrics_header(metrics, &plan, "{\"shardwright\":\"9\"}", &from, &err), 0);
    sw_metrics_close(metrics);
    snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(strstr(HEADER, "\"versions\"") - HEADER),
             HEADER,
             "\"loaded\":{\"folder\":\"a/step-000004\",\"bytes\":3353419776,\"reads\":205,"
             "\"seconds\":1.5,\"resident_growth_bytes\":21069824},",
             strstr(HEADER, "\"versions\""));
    expect_file(directory, wanted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_torn_line),    cmocka_unit_test(test_torn_anywhere),
        cmocka_unit_test(test_no_half_line), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_removed),      cmocka_unit_test(test_loaded),
    };
    snprintf(folder, sizeof folder, "%s/metrics.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed != 0;
}
