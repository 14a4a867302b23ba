/* The files of a run's folder that plan looks at: submission.json, and the end of metrics.jsonl. */
#include "core/base/file.h"
#include "core/run/progress.h"
#include "core/run/submission.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[2048]; /* made for this run, set by main */

static void put(const char *name, const char *text, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, bytes, 0666, NULL), 0);
}

static char *get(const char *name)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_read(path, true, 1 << 20, &text, &bytes, NULL), 0);
    return text;
}

static struct sw_submission sample(void)
{
    return (struct sw_submission){.submitted = true,
                                  .token = "0123456789abcdef",
                                  .run = "a \"run\"",
                                  .job = {"42", "43_7"},
                                  .job_count = 2,
                                  .attempt = 3,
                                  .plan_digest = 0xfedcba9876543210,
                                  .script_digest = 1,
                                  .plan = "/a b/x.plan.yaml",
                                  .script = "/a b/x.sbatch",
                                  .log = "/a b/slurm-%j.out",
                                  .checkpoints = "/c",
                                  .submitted_at = "2026-11-22T11:30:00Z",
                                  .cluster = "here",
                                  .mesh = "1,2,2,2",
                                  .nodes = 4,
                                  .ranks = 8,
                                  .steps = 150,
                                  .step_seconds = 0.5,
                                  .low_seconds = 0.25,
                                  .high_seconds = 0.75,
                                  .run_seconds = 0};
}

static void test_record_is_read_as_written(void **state)
{
    (void)state;
    static struct sw_submission a, b;
    char note[256];
    struct sw_error err = {0};
    a = sample();
    assert_int_equal(sw_submission_write(folder, &a, &err), 0);
    assert_int_equal(sw_submission_read(folder, &b, note, &err), 0);
    assert_string_equal(note, "");
    assert_memory_equal(&a, &b, sizeof a);
    char *text = get("submission.json");
    assert_non_null(strstr(text, "\"jobs\": [\"42\", \"43_7\"]"));
    assert_non_null(strstr(text, "\"predicted_run_seconds\": null"));
    assert_non_null(strstr(text, "\"plan_digest\": \"fedcba9876543210\""));
    free(text);
    a.submitted = false;
    a.job_count = 0;
    memset(a.job, 0, sizeof a.job);
    assert_int_equal(sw_submission_write(folder, &a, &err), 0);
    assert_int_equal(sw_submission_read(folder, &b, note, &err), 0);
    assert_memory_equal(&a, &b, sizeof a);
    sw_submission_forget(folder);
    assert_int_equal(sw_submission_read(folder, &b, note, &err), 0);
    assert_string_equal(b.token, "");
    assert_string_equal(note, "");
}

/* The links of a chain, that the job's script wrote down. */
static void test_links(void **state)
{
    (void)state;
    static struct sw_submission a, b;
    static char many[2000];
    char note[256];
    a = sample();
    put("submission.jobs", "44\nx\n42\n-1\n45\n4", 16);
    assert_int_equal(sw_submission_write(folder, &a, NULL), 0);
    assert_int_equal(sw_submission_read(folder, &b, note, NULL), 0);
    assert_int_equal(b.job_count, 5); /* 42, 43_7, 44, 45, 4 */
    assert_string_equal(b.job[2], "44");
    assert_string_equal(b.job[3], "45");
    size_t used = 0;
    for (int i = 100; i < 300; i++)
        used += (size_t)snprintf(many + used, sizeof many - used, "%d\n", i);
    put("submission.jobs", many, used);
    assert_int_equal(sw_submission_read(folder, &b, note, NULL), 0);
    assert_int_equal(b.job_count, SW_SUBMISSION_JOBS);
    assert_string_equal(b.job[SW_SUBMISSION_JOBS - 1], "299");
    assert_int_equal(sw_submission_begin_links(folder, NULL), 0);
    assert_int_equal(sw_submission_begin_links(folder, NULL), 0);
    assert_int_equal(sw_submission_read(folder, &b, note, NULL), 0);
    assert_int_equal(b.job_count, 2);
    sw_submission_forget(folder);
}

/* What is wrong with the sample after one text in it is exchanged for another. */
static const char *complaint(const char *from, const char *to, char note[256])
{
    static struct sw_submission a, b;
    static char changed[16384];
    a = sample();
    assert_int_equal(sw_submission_write(folder, &a, NULL), 0);
    char *text = get("submission.json"), *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    put("submission.json", changed, strlen(changed));
    assert_int_equal(sw_submission_read(folder, &b, note, NULL), 0);
    assert_string_equal(b.token, "");
    assert_int_equal(b.job_count, 0);
    return note;
}

static void test_broken_record_is_none(void **state)
{
    (void)state;
    char note[256];
    static struct sw_submission record;
    assert_string_equal(complaint("submission/1", "submission/2", note),
                        "its schema is not shardwright.submission/1");
    assert_string_equal(complaint("\"submitted\"", "\"lost\"", note),
                        "'state' is neither submitting nor submitted");
    static const char *const jobs[] = {"\"4 2\"",   "\"-1\"", "\"\"",  "42",
                                       "\"42;rm\"", "\"0\"",  "\"4_\""};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        assert_string_equal(complaint("\"42\"", jobs[i], note),
                            "'jobs' is not a list of at most 64 job ids");
    assert_string_equal(complaint("[\"42\", \"43_7\"]", "[]", note),
                        "'state', 'token' and 'jobs' do not go together");
    assert_string_equal(complaint("0123456789abcdef", "", note),
                        "'state', 'token' and 'jobs' do not go together");
    assert_string_equal(complaint("\"nodes\": 4", "\"nodes\": -4", note),
                        "'nodes' is missing or wrong");
    assert_string_equal(complaint("\"nodes\": 4", "\"nodes\": 4294967296", note),
                        "'nodes' is missing or wrong");
    assert_string_equal(complaint("\"steps\": 150", "\"steps\": 1.5", note),
                        "'steps' is missing or wrong");
    assert_string_equal(complaint("\"script\"", "\"scripf\"", note),
                        "'script' is missing or wrong");
    assert_string_equal(complaint("a \\\"run\\\"", "a\\u001b[2J", note),
                        "'run' is missing or wrong");
    assert_non_null(strstr(complaint("/c\"", "/c\\u0000d\"", note), "line 13: "));
    assert_string_equal(complaint("fedc", "FEDC", note), "'plan_digest' is missing or wrong");
    put("submission.json", "", 0);
    assert_int_equal(sw_submission_read(folder, &record, note, NULL), 0);
    assert_true(note[0] != '\0' && record.token[0] == '\0');
    sw_submission_forget(folder);
    char path[4096];
    snprintf(path, sizeof path, "%s/submission.json", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(sw_submission_read(folder, &record, note, NULL), 0);
    assert_true(note[0] != '\0' && record.token[0] == '\0');
    assert_int_equal(rmdir(path), 0);
}

#define HEADER(attempt)                                                                            \
    "{\"schema\":\"shardwright.metrics/1\",\"run\":\"r\",\"attempt\":" #attempt                    \
    ",\"plan_digest\":\"0123456789abcdef\",\"mesh_dim\":\"1,2,2,2\","                              \
    "\"predicted_step_seconds\":0.5}\n"
#define STEP(n, seconds)                                                                           \
    "{\"step\":" #n ",\"loss\":" #n ".5,\"grad_norm\":1,\"tokens\":8,\"step_seconds\":" #seconds   \
    ",\"tokens_per_second\":16}\n"

static void test_progress(void **state)
{
    (void)state;
    static const char text[] = HEADER(1) STEP(1, 9) STEP(2, 9) HEADER(2) STEP(2, 4)
        STEP(3, 1) "{\"checkpoint_step\":3,\"checkpoint_bytes\":1}\n" STEP(
            4, 2) "{\"step\":4,\"held_out_bits_per_token\":3.5}\n"
                  "{\"step\":5,\"loss\":1";
    struct sw_progress p;
    put("metrics.jsonl", text, sizeof text - 1);
    assert_int_equal(sw_progress_read(folder, &p, NULL), 0);
    assert_true(p.started);
    assert_int_equal(p.attempt, 2);
    assert_string_equal(p.mesh, "1,2,2,2");
    assert_string_equal(p.plan_digest, "0123456789abcdef");
    assert_int_equal(p.step, 4);
    assert_int_equal(p.steps_seen, 3);
    assert_true(p.step_seconds == 2 && p.loss == 4.5 && p.predicted_seconds == 0.5);
    assert_int_equal(p.checkpoint_step, 3);
    assert_true(p.held_out_bits == 3.5 && p.age_seconds < 60);
    /* a tail that begins inside a line */
    sw_progress_parse(text + 20, sizeof text - 21, false, &p);
    assert_int_equal(p.step, 4);
    sw_progress_parse("{\"step\":5,\"step_seconds\":1}\n", 28, false, &p);
    assert_int_equal(p.step, 0);
    sw_progress_parse("{\"step\":5,\"loss\":null,\"step_seconds\":1}\n", 40, true, &p);
    assert_int_equal(p.step, 5);
    assert_true(isnan(p.loss));
}

static void test_progress_without_a_file(void **state)
{
    (void)state;
    char path[4096];
    struct sw_progress p;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    (void)unlink(path);
    assert_int_equal(sw_progress_read(folder, &p, NULL), 0);
    assert_false(p.started);
    assert_int_equal(p.step, 0);
    assert_int_equal(mkfifo(path, 0666), 0); /* nobody writes: not waited for */
    assert_int_equal(sw_progress_read(folder, &p, NULL), 0);
    assert_false(p.started);
    unlink(path);
}

/* The newest header stands megabytes before the end. */
static void test_progress_of_a_long_run(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    struct sw_progress p;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fputs(HEADER(1) STEP(1, 9) HEADER(2), out);
    for (int i = 1; i <= 40000; i++)
        fprintf(out, "{\"step\":%d,\"loss\":1.25,\"step_seconds\":0.25,\"tokens_per_second\":16}\n",
                i);
    fclose(out);
    assert_true(bytes > 2 << 20);
    put("metrics.jsonl", text, bytes);
    assert_int_equal(sw_progress_read(folder, &p, NULL), 0);
    assert_int_equal(p.attempt, 2);
    assert_int_equal(p.step, 40000);
    assert_true(p.step_seconds == 0.25 && p.predicted_seconds == 0.5);
    free(text);
}

static void test_hostile_metrics(void **state)
{
    (void)state;
    static const char *const lines[] = {"[]\n",
                                        "null\n",
                                        "{\"step\":-1,\"step_seconds\":1}\n",
                                        "{\"step\":1e99,\"step_seconds\":1}\n",
                                        "{\"step\":\"7\",\"step_seconds\":1}\n",
                                        "{\"step\":7}\n",
                                        "\n\n",
                                        "{{{{\n",
                                        "{\"schema\":\"shardwright.metrics/2\",\"attempt\":3}\n"};
    struct sw_progress p;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sw_progress_parse(lines[i], strlen(lines[i]), true, &p);
        assert_false(p.started);
        assert_int_equal(p.step, 0);
        assert_true(p.step_seconds == 0);
    }
    sw_progress_parse("{\"schema\":\"shardwright.metrics/1\",\"mesh_dim\":\"\\u001b[2J\\n\"}\n", 60,
                      true, &p);
    assert_string_equal(p.mesh, "?[2J?");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    if (sw_file_make_folder(folder, NULL) != 0)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_is_read_as_written),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_broken_record_is_none),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_without_a_file),
        cmocka_unit_test(test_progress_of_a_long_run),
        cmocka_unit_test(test_hostile_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
