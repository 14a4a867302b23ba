/* attempt.json: what is written is read, what is broken is told, and one claims an end. */
#include "core/base/file.h"
#include "core/run/attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[2048]; /* made for this run, set by main */

static void put(const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/attempt.json", folder);
    assert_int_equal(sw_file_write(path, text, strlen(text), 0666, NULL), 0);
}

static void test_written(void **state)
{
    (void)state;
    static const char wanted[] = "{\n"
                                 "  \"schema\": \"shardwright.attempt/1\",\n"
                                 "  \"attempt\": 2,\n"
                                 "  \"verdict\": 76,\n"
                                 "  \"nodes\": [\"n3\", \"n4\"],\n"
                                 "  \"cause\": \"a \\\"cause\\\"\\n\\\"verdict\\\": 0\",\n"
                                 "  \"first_step\": 100,\n"
                                 "  \"step\": 500,\n"
                                 "  \"job\": \"42\",\n"
                                 "  \"idle_jobs\": 1\n"
                                 "}\n";
    struct sw_attempt a = {.attempt = 2,
                           .verdict = SW_VERDICT_BAD_NODE,
                           .first_step = 100,
                           .step = 500,
                           .job = "42",
                           .idle_jobs = 1,
                           .cause = "a \"cause\"\n\"verdict\": 0"},
                      b;
    struct sw_error err = {0};
    char path[4096], *text = NULL, note[256];
    size_t bytes = 0;
    sw_attempt_add_node(&a, "n3");
    sw_attempt_add_node(&a, NULL);
    sw_attempt_add_node(&a, "");
    sw_attempt_add_node(&a, "n4");
    sw_attempt_add_node(&a, "n3");
    assert_int_equal(sw_attempt_write(folder, &a, &err), 0);
    snprintf(path, sizeof path, "%s/attempt.json", folder);
    assert_int_equal(sw_file_read(path, true, 10000, &text, &bytes, NULL), 0);
    assert_string_equal(text, wanted);
    free(text);
    assert_int_equal(sw_attempt_read(folder, &b, note, &err), 0);
    assert_string_equal(note, "");
    assert_memory_equal(&a, &b, sizeof a);
    a.verdict = SW_VERDICT_RUNNING;
    assert_int_equal(sw_attempt_write(folder, &a, &err), 0);
    assert_int_equal(sw_attempt_read(folder, &b, note, &err), 0);
    assert_memory_equal(&a, &b, sizeof a);
}

static void test_many_nodes(void **state)
{
    (void)state;
    struct sw_attempt a = {.attempt = 1};
    for (int32_t i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", (int)i);
        sw_attempt_add_node(&a, name);
    }
    assert_int_equal(a.node_count, SW_ATTEMPT_NODES);
    assert_string_equal(a.node[7], "n7");
}

static void test_missing(void **state)
{
    (void)state;
    struct sw_attempt a;
    struct sw_error err = {0};
    char note[256];
    assert_int_equal(sw_attempt_read("/nowhere/at/all", &a, note, &err), 0);
    assert_string_equal(note, "");
    assert_int_equal(a.attempt, 0);
    assert_int_equal(a.verdict, SW_VERDICT_RUNNING);
}

#define START "{\"schema\": \"shardwright.attempt/1\", \"attempt\": 3"
#define MIDDLE START ", \"verdict\": 0, \"step\": 1, \"first_step\": 0"

static void test_broken(void **state)
{
    (void)state;
    static const struct {
        const char *text, *note;
    } cases[] = {
        {"", "line 1: '[' or '{' expected near end of file"},
        {"[]", "it names no schema"},
        {"{\"attempt\": 1, \"attempt\": 2}", "line 1: duplicate object key near '\"attempt\"'"},
        {"{\"schema\": 1}", "it names no schema"},
        {"{\"schema\": \"shardwright.attempt/2\"}", "its schema is not shardwright.attempt/1"},
        {"{\"schema\": \"shardwright.attempt/1\", \"attempt\": 0}",
         "'attempt' is not a number from 1"},
        {"{\"schema\": \"shardwright.attempt/1\", \"attempt\": 1.5}",
         "'attempt' is not a number from 1"},
        {START ", \"verdict\": 256}", "'verdict' is neither null nor an exit code"},
        {START ", \"verdict\": -1}", "'verdict' is neither null nor an exit code"},
        {START ", \"verdict\": null, \"step\": -1}",
         "'step' and 'first_step' are not numbers from 0"},
        {MIDDLE ", \"nodes\": \"n1\"}", "'nodes' is not a list of at most 8 names"},
        {MIDDLE ", \"nodes\": [1]}", "'nodes' is not a list of at most 8 names"},
        {MIDDLE ", \"nodes\": [\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}",
         "'nodes' is not a list of at most 8 names"},
        {MIDDLE ", \"nodes\": [], \"job\": 5, \"cause\": \"\"}",
         "'job' and 'cause' are no short texts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_attempt a;
        struct sw_error err = {0};
        char note[256];
        put(cases[i].text);
        assert_int_equal(sw_attempt_read(folder, &a, note, &err), 0);
        assert_string_equal(note, cases[i].note);
        assert_int_equal(a.attempt, 0);
        assert_int_equal(a.node_count, 0);
    }
}

static void test_unreadable(void **state)
{
    (void)state;
    char path[4096], wanted[4200], note[256];
    struct sw_attempt a;
    struct sw_error err = {0};
    snprintf(path, sizeof path, "%s/attempt.json", folder);
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(sw_attempt_read(folder, &a, note, &err), -1);
    snprintf(wanted, sizeof wanted, "cannot read %s: Is a directory", path);
    assert_string_equal(err.message, wanted);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    err = (struct sw_error){0};
    assert_int_equal(sw_attempt_write(folder, &a, &err), -1);
    snprintf(wanted, sizeof wanted, "cannot write '%s': Is a directory", path);
    assert_string_equal(err.message, wanted);
    assert_int_equal(rmdir(path), 0);
}

static void test_claims(void **state)
{
    (void)state;
    assert_false(sw_attempt_is_claimed(folder, 3));
    assert_true(sw_attempt_claim(folder, 3));
    assert_true(sw_attempt_is_claimed(folder, 3));
    assert_false(sw_attempt_claim(folder, 3));
    assert_true(sw_attempt_claim(folder, 4));
    sw_attempt_unclaim(folder, 3);
    sw_attempt_unclaim(folder, 4);
    assert_true(sw_attempt_claim(folder, 3));
    sw_attempt_unclaim(folder, 3);
    /* the others have gone on without this one */
    const struct sw_attempt later = {.attempt = 4, .verdict = SW_VERDICT_RUNNING};
    assert_int_equal(sw_attempt_write(folder, &later, NULL), 0);
    assert_false(sw_attempt_claim(folder, 3));
    assert_true(sw_attempt_claim(folder, 4));
    sw_attempt_unclaim(folder, 4);
    assert_true(sw_attempt_claim("/nowhere/at/all", 1));
    assert_true(sw_attempt_claim("/nowhere/at/all", 1));
}

static void test_verdicts(void **state)
{
    (void)state;
    struct sw_error err = {.status = SW_BAD_INPUT, .message = "no such thing"};
    assert_int_equal(sw_attempt_verdict(&err), 2);
    err = (struct sw_error){.status = SW_ENVIRONMENT, .message = "out of memory"};
    assert_int_equal(sw_attempt_verdict(&err), 3);
    snprintf(err.message, sizeof err.message, "rank 3: uncorrectable ECC error encountered");
    assert_int_equal(sw_attempt_verdict(&err), 76);
}

/* As on a full disk: no file can be made beside it. */
static void test_written_over(void **state)
{
    (void)state;
    char aside[4096], path[4096], note[256];
    struct sw_attempt a = {.attempt = 3, .verdict = SW_VERDICT_RUNNING, .job = "42"}, read;
    struct sw_error err = {0};
    snprintf(aside, sizeof aside, "%s/.attempt.json.%ld", folder, (long)getpid());
    snprintf(path, sizeof path, "%s/attempt.json", folder);
    assert_int_equal(sw_attempt_write(folder, &a, &err), 0);
    assert_int_equal(mkdir(aside, 0700), 0);
    a.verdict = SW_ENVIRONMENT;
    snprintf(a.cause, sizeof a.cause, "rank 0 (host n1): cannot write: No space left on device");
    assert_int_equal(sw_attempt_write(folder, &a, &err), 0);
    assert_int_equal(sw_attempt_read(folder, &read, note, &err), 0);
    assert_string_equal(note, "");
    assert_int_equal(read.verdict, SW_ENVIRONMENT);
    assert_string_equal(read.cause, a.cause);
    /* a shorter one leaves nothing of the longer one behind it */
    a.cause[0] = '\0';
    assert_int_equal(sw_attempt_write(folder, &a, &err), 0);
    assert_int_equal(sw_attempt_read(folder, &read, note, &err), 0);
    assert_string_equal(note, "");
    assert_string_equal(read.cause, "");
    /* where there is none to write over, it says what is wrong with the new one */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sw_attempt_write(folder, &a, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_non_null(strstr(err.message, "cannot write"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(aside), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),    cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_missing),    cmocka_unit_test(test_broken),
        cmocka_unit_test(test_unreadable), cmocka_unit_test(test_claims),
        cmocka_unit_test(test_verdicts),   cmocka_unit_test(test_written_over),
    };
    snprintf(folder, sizeof folder, "%s/attempt.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed != 0;
}
