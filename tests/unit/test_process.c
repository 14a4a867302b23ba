/* Programs that plan asks: what they print, how they end, and that none is waited for too long. */
#include "planner/command/process.h"

#include "core/base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const kept[] = {"JOB_CONF=", NULL};
static const char *const dropped[] = {"JOB_", NULL};
static const struct sw_process_client client = {
    .kept = kept, .dropped = dropped, .set = "JOB_TIME=standard", .where = "look elsewhere"};

static struct sw_process_result run(const char *script, const char *input, double limit)
{
    struct sw_process_result result;
    struct sw_error err = {0};
    const char *argv[] = {"sh", "-c", script, NULL};
    assert_int_equal(sw_process_run(&client, argv, input, limit, &result, &err), 0);
    return result;
}

static void gathers_what_is_printed(void **state)
{
    (void)state;
    struct sw_process_result r =
        run("cat; echo first >&2; echo 'sbatch: error: no such thing' >&2; exit 7", "a line\n", 10);
    assert_int_equal(r.exit_code, 7);
    assert_false(r.timed_out);
    assert_string_equal(r.out, "a line\n");
    assert_int_equal(r.out_bytes, 7);
    assert_string_equal(sw_process_complaint(&r), "no such thing");
    sw_process_free(&r);
    r = run("yes x | head -c 3000000; yes error >&2 & sleep 0.2; kill $!", NULL, 20);
    assert_int_equal(r.out_bytes, 3000000);
    assert_true(r.diagnostics_bytes > 0 && r.diagnostics_bytes <= 65536);
    sw_process_free(&r);
    r = run("kill -TERM $$", NULL, 10);
    assert_int_equal(r.exit_code, 128 + SIGTERM);
    assert_string_equal(sw_process_complaint(&r), "");
    sw_process_free(&r);
}

/* With all that it had started: these hold the end of a pipe open while they live. */
static void ends_what_takes_too_long(void **state)
{
    (void)state;
    enum { MOST_MS = 10000 };
    static const char *const scripts[] = {"sleep 60 & sleep 60; wait",
                                          /* the pipes closed and the program still there */
                                          "exec >&- 2>&-; sleep 60"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        int alive[2];
        char byte;
        assert_int_equal(pipe(alive), 0);
        const double start = sw_clock_now();
        struct sw_process_result r = run(scripts[i], NULL, 0.3);
        assert_true(r.timed_out);
        assert_true(sw_clock_now() - start < 10);
        sw_process_free(&r);
        close(alive[1]);
        struct pollfd end = {.fd = alive[0], .events = POLLIN};
        assert_int_equal(poll(&end, 1, MOST_MS), 1);
        assert_int_equal(read(alive[0], &byte, 1), 0);
        close(alive[0]);
    }
}

/* Without what the client or any surrounding job would change; a name is kept as a whole. */
static void environment_is_clean(void **state)
{
    (void)state;
    static const char *const argv[] = {"env", NULL};
    setenv("JOB_ID", "1", 1);
    setenv("JOB_CONF", "/nowhere", 1);
    setenv("JOB_CONFUSED", "1", 1);
    setenv("PMIX_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    struct sw_process_result r = run("env", NULL, 10);
    assert_null(strstr(r.out, "JOB_ID"));
    assert_null(strstr(r.out, "JOB_CONFUSED"));
    assert_null(strstr(r.out, "PMIX_"));
    assert_null(strstr(r.out, "OMPI_"));
    assert_null(strstr(r.out, "de_DE"));
    assert_non_null(strstr(r.out, "JOB_CONF=/nowhere\n"));
    assert_non_null(strstr(r.out, "JOB_TIME=standard\n"));
    assert_non_null(strstr(r.out, "LC_ALL=C\n"));
    sw_process_free(&r);
    /* of nobody in particular */
    assert_int_equal(sw_process_run(NULL, argv, NULL, 10, &r, NULL), 0);
    assert_non_null(strstr(r.out, "JOB_ID=1\n"));
    assert_null(strstr(r.out, "JOB_TIME"));
    assert_null(strstr(r.out, "PMIX_"));
    assert_non_null(strstr(r.out, "LC_ALL=C\n"));
    sw_process_free(&r);
}

/* Within a job: all of its environment, and TERM before KILL. */
static void runs_within_a_job(void **state)
{
    (void)state;
    struct sw_process_result r;
    const char *argv[] = {
        "sh", "-c", "trap 'echo told; exit 9' TERM; echo $SLURM_JOB_ID; sleep 60 & wait", NULL};
    assert_int_equal(setenv("SLURM_JOB_ID", "17", 1), 0);
    assert_int_equal(sw_process_run_within(argv, 0.3, &r, NULL), 0);
    assert_true(r.timed_out);
    assert_int_equal(r.exit_code, 9);
    assert_string_equal(r.out, "17\n");
    sw_process_free(&r);
}

static int code_of(const char *const *argv, int out)
{
    struct sw_error err = {0};
    int status = 0;
    pid_t child;
    assert_int_equal(sw_process_start(argv, out, &child, &err), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return sw_process_code(status);
}

static void starts_what_nobody_waits_for(void **state)
{
    (void)state;
    char text[256] = "";
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    const char *says[] = {"sh", "-c", "cat; echo out; echo error >&2; exit 7", NULL};
    assert_int_equal(code_of(says, fds[1]), 7);
    const char *dies[] = {"sh", "-c", "kill -USR1 $$", NULL};
    assert_int_equal(code_of(dies, -1), 128 + SIGUSR1);
    const char *none[] = {"no-such-program-anywhere", NULL};
    assert_int_equal(code_of(none, fds[1]), 127);
    close(fds[1]);
    assert_true(read(fds[0], text, sizeof text - 1) > 0);
    close(fds[0]);
    assert_string_equal(text,
                        "out\nerror\nerror: cannot start 'no-such-program-anywhere': No such file "
                        "or directory\n");
}

static void says_what_cannot_be_started(void **state)
{
    (void)state;
    struct sw_process_result r;
    struct sw_error err = {0};
    const char *argv[] = {"no-such-program-anywhere", NULL};
    assert_int_equal(sw_process_run(&client, argv, NULL, 1, &r, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, "there is no 'no-such-program-anywhere' on this machine; look "
                                     "elsewhere");
    sw_process_free(&r);
    assert_false(sw_process_exists("no-such-program-anywhere"));
    assert_true(sw_process_exists("sh"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_what_is_printed),
        cmocka_unit_test(ends_what_takes_too_long),
        cmocka_unit_test(environment_is_clean),
        cmocka_unit_test(runs_within_a_job),
        cmocka_unit_test(starts_what_nobody_waits_for),
        cmocka_unit_test(says_what_cannot_be_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
