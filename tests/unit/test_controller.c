/* What squeue and sacct print, whatever is in it; Slurm's words in ours; which job is a run's. */
#include "core/base/file.h"
#include "planner/scheduler/slurm/queue.h"
#include "planner/job/log_file.h"
#include "planner/job/status.h"
#include "planner/scheduler/slurm/submit.h"
#include "planner/job/words.h"
#include "planner/scheduler/slurm/words.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define U "\x1f"
#define END "\x1e\n"

static char folder[2048];

static struct sw_queued_jobs parse(const char *text)
{
    struct sw_queued_jobs jobs;
    assert_int_equal(sw_squeue_parse(strdup(text), strlen(text), &jobs, NULL), 0);
    return jobs;
}

static void test_squeue(void **state)
{
    (void)state;
    struct sw_queued_jobs jobs = parse(
        "42" U "RUNNING" U "None" U "4" U "2026-11-22T11:52:34" U "2026-11-22T12:22:34" U
        "2026-11-22T11:52:33" U "1-00:00:08" U "30:00" U "n[1-4]" U "shardwright:ab" U
        "/a b/x.sbatch" U "/a|b" END "43_[1-3]" U "PENDING" U "PartitionTimeLimit" U "1" U "N/A" U
        "N/A" U "2026-11-22T11:52:33" U "0:00" U "UNLIMITED" U "" U "(null)" U "(null)" U "/w" END);
    assert_int_equal(jobs.count, 2);
    const struct sw_queued_job *job = sw_queued_jobs_find(&jobs, "42");
    assert_non_null(job);
    assert_true(job->is_live && job->is_running);
    assert_string_equal(job->reason, "");
    assert_string_equal(job->nodes, "n[1-4]");
    assert_string_equal(job->command, "/a b/x.sbatch");
    assert_string_equal(job->folder, "/a|b");
    assert_true(job->elapsed_seconds == 86408 && job->limit_seconds == 1800);
    assert_int_equal(job->node_count, 4);
    job = &jobs.job[1];
    assert_true(job->is_live && !job->is_running);
    assert_string_equal(job->reason, "PartitionTimeLimit");
    assert_string_equal(job->starts_at, "");
    assert_string_equal(job->comment, "");
    assert_true(isinf(job->limit_seconds));
    assert_null(sw_queued_jobs_find(&jobs, "4"));
    sw_queued_jobs_free(&jobs);
}

/* A user may put anything into comments and folders; lines that are cut are none. */
static void test_hostile_squeue(void **state)
{
    (void)state;
    struct sw_queued_jobs jobs = parse("7" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U "0:01" U
                                       "x" U "n1" U "line\n8" U "\x1b[2J" U "/w" END);
    assert_int_equal(jobs.count, 1);
    assert_string_equal(jobs.job[0].comment, "line?8");
    assert_string_equal(jobs.job[0].command, "?[2J");
    assert_true(jobs.job[0].limit_seconds < 0);
    sw_queued_jobs_free(&jobs);
    static const char *const none[] = {
        "",
        "\n",
        END,
        "squeue: warning\n",
        "7" U "RUNNING" END,
        "7" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U "0:01" U "x" U "n1" U "c" U "d" U "/w",
        "7" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U "0:01" U "x" U "n1" U "c" U "d" U "/w" U
        "more" END,
        "-7" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U "0:01" U "x" U "n1" U "c" U "d" U
        "/w" END,
        "7;x" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U "0:01" U "x" U "n1" U "c" U "d" U
        "/w" END,
        "999999999999999999999999999999999999942" U "RUNNING" U "None" U "1" U "a" U "b" U "c" U
        "0:01" U "x" U "n1" U "c" U "d" U "/w" END};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        jobs = parse(none[i]);
        assert_int_equal(jobs.count, 0);
        sw_queued_jobs_free(&jobs);
    }
    /* a state of a Slurm to come: not over, so that no second job is made */
    jobs = parse("7" U "DREAMING" U "None" U "1" U "a" U "b" U "c" U "0:01" U "x" U "n1" U "c" U
                 "d" U "/w" END);
    assert_true(jobs.job[0].is_live);
    sw_queued_jobs_free(&jobs);
}

static void test_sacct(void **state)
{
    (void)state;
    static const char text[] =
        "42" U "CANCELLED by 1000" U "4" U "2026-11-22T11:52:34" U "Unknown" U
        "2026-11-22T11:52:33" U "00:10:00" U "02:00:00" U "n[1-4]\n"
        "garbage\n43" U "COMPLETED" U "\n";
    struct sw_queued_jobs jobs;
    assert_int_equal(sw_sacct_parse(strdup(text), sizeof text - 1, &jobs, NULL), 0);
    assert_int_equal(jobs.count, 1);
    assert_string_equal(jobs.job[0].state, "CANCELLED");
    assert_string_equal(jobs.job[0].ended_at, "");
    assert_false(jobs.job[0].is_live);
    assert_true(jobs.job[0].elapsed_seconds == 600 && jobs.job[0].limit_seconds == 7200);
    sw_queued_jobs_free(&jobs);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } rows[] = {{"0:00", 0},
                {"3:04", 184},
                {"2:00:00", 7200},
                {"1-02:03:04", 93784},
                {"30", 1800},
                {"", -1},
                {"x", -1},
                {"1:2:3:4", -1},
                {"1:", -1},
                {"-1", -1},
                {"INVALID", -1},
                {"9999999999", -1},
                {"00:00:01.500", 1.5},
                {"UNLIMITED", INFINITY}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(sw_slurm_duration(rows[i].text) == rows[i].seconds);
}

static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *reason, *says;
        bool never;
    } rows[] = {
        {"Priority", "higher priority", false},
        {"Resources", "enough nodes", false},
        {"PartitionTimeLimit", "never start", true},
        {"AssocGrpGRES", "the account's jobs together use as many accelerators", false},
        {"AssocGrpCPUMinutesLimit", "account has used up its time of CPUs", false},
        {"AssocMaxNodePerJobLimit", "the account does not allow so many nodes in a job", true},
        {"QOSMaxMemoryPerNode", "the QOS does not allow so much memory on a node", true},
        {"QOSMaxGRESMinutesPerJob", "accelerators times its time limit", true},
        {"QOSMaxGRESPerUser",
         "the QOS's jobs together use as many accelerators as they may for you", false},
        {"MaxGRESPerAccount", "as many accelerators as they may for the account", false},
        {"MaxCpuRunMinsPerUser", "running jobs hold as many CPUs as they may for you", false},
        {"QOSMaxJobsPerUserLimit", "the QOS's limit of jobs that run is reached for you", false},
        {"QOSMinGRES", "asks for less accelerators than the QOS wants", true},
        {"QOSMaxWallDurationPerJobLimit", "longer than the QOS allows", true},
        {"ReqNodeNotAvail, UnavailableNodes:n[1-3]", "are back: n[1-3]", false},
        {"ReqNodeNotAvail,_Reserved_for_maintenance", "shorter slurm.time", false},
        {"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
         "partitions",
         "'sinfo -R' says which and why", false},
        {"Dependency", "another job to end", false},
        {"DependencyNeverSatisfied", "never start", true},
        {"BeginTime", "time to begin", false},
        {"JobHeldUser", "'scontrol release 42'", true},
        {"JobHeldAdmin", "administrator", true},
        {"job requeued in held state", "'scontrol release 42'", true},
        {"job_requeued_in_held_state", "'scontrol release 42'", true},
        {"Reservation", "has not begun", false},
        {"ReservationDeleted", "deleted", true},
        {"Reservation of_today was deleted", "deleted", true},
        {"None", "not looked at it", false},
        {"", "not looked at it", false},
        {"SomethingNew", "Slurm says 'SomethingNew'", false},
    };
    char text[512];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool never = !rows[i].never;
        sw_slurm_reason_words(rows[i].reason, "42", text, sizeof text, &never);
        if (strstr(text, rows[i].says) == NULL || never != rows[i].never)
            fail_msg("'%s': '%s'", rows[i].reason, text);
    }
}

/* Every reason of Slurm's has words of ours, which say that a job never starts where it does not,
 * also as scontrol writes it. Words that are cut stay in their buffer. */
static void test_all_reasons(void **state)
{
    (void)state;
    FILE *in = fopen("tests/support/slurm_reasons.txt", "re");
    char line[256], text[512], small[24];
    int32_t count = 0;
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        for (int32_t spelling = 0; spelling < 2; spelling++) {
            bool never = false;
            for (char *p = line + 2; spelling == 1 && *p != '\0'; p++)
                if (*p == ' ')
                    *p = '_';
            sw_slurm_reason_words(line + 2, "42", text, sizeof text, &never);
            if (strstr(text, "Slurm says") != NULL || never != (line[0] == '!'))
                fail_msg("'%s': '%s'%s", line + 2, text, never ? ", never" : "");
            /* what holds a job for good names what to do */
            if (strstr(text, "held") != NULL && strstr(line, "HeldAdmin") == NULL)
                assert_non_null(strstr(text, "'scontrol "));
            sw_slurm_reason_words(line + 2, "42", small, sizeof small, NULL);
            assert_int_equal(strncmp(small, text, sizeof small - 1), 0);
        }
        count++;
    }
    fclose(in);
    assert_true(count > 200);
}

static void test_ids(void **state)
{
    (void)state;
    char id[32];
    assert_int_equal(sw_sbatch_parse_id("42\n", id, sizeof id), 0);
    assert_string_equal(id, "42");
    assert_int_equal(sw_sbatch_parse_id("welcome to the cluster\n4711;big\n", id, sizeof id), 0);
    assert_string_equal(id, "4711");
    static const char *const none[] = {
        "", "\n", "Submitted batch job 42\n", "42x\n", "0\n", "-3\n", "42\nbye\n", "99999999999\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(sw_sbatch_parse_id(none[i], id, sizeof id), -1);
}

/* An sbatch that does what it is told, before all others on PATH. */
static enum sw_submitted submit_with(const char *lines, char id[32], struct sw_error *err)
{
    char bin[2100], sbatch[2200], *path;
    snprintf(bin, sizeof bin, "%s/bin", folder);
    snprintf(sbatch, sizeof sbatch, "%s/sbatch", bin);
    assert_true(mkdir(bin, 0700) == 0 || errno == EEXIST);
    FILE *f = fopen(sbatch, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", lines);
    fclose(f);
    assert_int_equal(chmod(sbatch, 0700), 0);
    const char *was = getenv("PATH");
    assert_true(asprintf(&path, "%s:%s", bin, was) > 0);
    char *before = strdup(was);
    setenv("PATH", path, 1);
    *err = (struct sw_error){0};
    const enum sw_submitted done = sw_slurm_submit("x.sbatch", "t", "runs/x", id, 32, err);
    setenv("PATH", before, 1);
    free(before);
    free(path);
    return done;
}

/* Only what sbatch surely refused is no job; what was killed while it spoke may be one. */
static void test_submit(void **state)
{
    (void)state;
    struct sw_error err;
    char id[32] = "";
    assert_int_equal(submit_with("echo '42;cluster'", id, &err), SW_SUBMIT_DONE);
    assert_string_equal(id, "42");
    assert_int_equal(submit_with("echo 'sbatch: error: no such partition' >&2; exit 1", id, &err),
                     SW_SUBMIT_NONE);
    assert_int_equal(err.status, SW_UNMET);
    assert_string_equal(err.message, "Slurm refuses the job: no such partition");
    /* a site's plugin explains in several lines; all are told */
    assert_int_equal(
        submit_with("printf 'sbatch: error: you must name an account\\nsbatch: error: "
                    "see \\033[1mhttps://help\\033[0m\\r\\n\\nsbatch: lua: not today\\n"
                    "sbatch: error: Batch job submission failed: Unspecified error\\n' "
                    ">&2; exit 1",
                    id, &err),
        SW_SUBMIT_NONE);
    assert_string_equal(err.message,
                        "Slurm refuses the job: you must name an account; see "
                        "?[1mhttps://help?[0m; lua: not today; Batch job submission failed: "
                        "Unspecified error");
    assert_int_equal(submit_with("for i in $(seq 200); do echo \"sbatch: error: line $i of the "
                                 "site's rules\"; done >&2; exit 1",
                                 id, &err),
                     SW_SUBMIT_NONE);
    assert_non_null(strstr(err.message, "; line 20 of the site's rules; "));
    assert_string_equal(err.message + strlen(err.message) - 3, "...");
    assert_int_equal(submit_with("exit 1", id, &err), SW_SUBMIT_UNSURE);
    assert_string_equal(err.message, "sbatch did not say what became of the job; 'plan status "
                                     "runs/x' finds it, if there is one");
    assert_int_equal(submit_with("yes | head -c 270000000; echo 43", id, &err), SW_SUBMIT_UNSURE);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message,
                        "sbatch did not say what became of the job: 'sbatch' printed more than "
                        "fits into memory or 256 MiB; 'plan status runs/x' finds it, if there is "
                        "one");
}

static void touch(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, "x\n", 2, 0666, NULL), 0);
}

static void test_logs(void **state)
{
    (void)state;
    char path[PATH_MAX], found[PATH_MAX];
    sw_log_expand("/r/100%%/%x-%j-%A.out%", "42", "", "name", path);
    assert_string_equal(path, "/r/100%/name-42-42.out%");
    snprintf(path, sizeof path, "%s/slurm-4.out", folder);
    touch("slurm-42.out");
    touch("slurm-4.srun");
    touch("slurm-3.out");
    assert_false(sw_log_find(path, found));
    touch("slurm-4.out");
    assert_true(sw_log_find(path, found));
    assert_string_equal(found, path);
    usleep(20000);
    touch("slurm-4.2.out");
    assert_true(sw_log_find(path, found));
    assert_string_equal(found + strlen(found) - 13, "slurm-4.2.out");
}

/* Of an array: a task's, or the newest of them; not those of another job. */
static void test_logs_of_tasks(void **state)
{
    (void)state;
    char pattern[PATH_MAX], path[PATH_MAX], found[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/slurm-%%A_%%a.out", folder);
    sw_log_expand(pattern, "7", "3", "name", path);
    assert_string_equal(path + strlen(path) - 13, "slurm-7_3.out");
    sw_log_expand(pattern, "7", "", "name", path);
    touch("slurm-7.out");
    touch("slurm-77_1.out");
    touch("slurm-7_x.out");
    assert_false(sw_log_find(path, found));
    touch("slurm-7_12.out");
    assert_true(sw_log_find(path, found));
    assert_string_equal(found + strlen(found) - 14, "slurm-7_12.out");
    usleep(20000);
    touch("slurm-7_3.out");
    assert_true(sw_log_find(path, found));
    assert_string_equal(found + strlen(found) - 13, "slurm-7_3.out");
}

static void test_ids_of_arrays(void **state)
{
    (void)state;
    assert_true(sw_job_id_is_of("42", "42"));
    assert_true(sw_job_id_is_of("42_3", "42"));
    assert_true(sw_job_id_is_of("42_[0-98:2%90]", "42"));
    assert_true(sw_job_id_is_of("42_3", "42_3"));
    assert_false(sw_job_id_is_of("42", "42_3"));
    assert_false(sw_job_id_is_of("42_31", "42_3"));
    assert_false(sw_job_id_is_of("421", "42"));
    assert_false(sw_job_id_is_of("42", ""));
}

/* Whose a job is: by its comment, its number, or while it lives its script. */
static void test_owner(void **state)
{
    (void)state;
    static struct sw_run_status s;
    snprintf(s.submission.token, sizeof s.submission.token, "ab");
    snprintf(s.submission.script, sizeof s.submission.script, "/x.sbatch");
    snprintf(s.submission.job[0], sizeof s.submission.job[0], "42");
    s.submission.job_count = 1;
    struct sw_queued_job job = {.id = "42", .comment = "", .command = ""};
    assert_true(sw_status_owns(&s, &job));
    job.comment = "shardwright:cd"; /* the number was given again */
    assert_false(sw_status_owns(&s, &job));
    job = (struct sw_queued_job){.id = "43", .comment = "shardwright:ab", .command = ""};
    assert_true(sw_status_owns(&s, &job));
    job =
        (struct sw_queued_job){.id = "43", .comment = "", .command = "/x.sbatch", .is_live = true};
    assert_true(sw_status_owns(&s, &job));
    job.is_live = false;
    assert_false(sw_status_owns(&s, &job));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0 || sw_file_make_folder(folder, NULL) != 0)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_squeue),        cmocka_unit_test(test_hostile_squeue),
        cmocka_unit_test(test_sacct),         cmocka_unit_test(test_durations),
        cmocka_unit_test(test_reasons),       cmocka_unit_test(test_all_reasons),
        cmocka_unit_test(test_ids),           cmocka_unit_test(test_logs),
        cmocka_unit_test(test_logs_of_tasks), cmocka_unit_test(test_ids_of_arrays),
        cmocka_unit_test(test_owner),         cmocka_unit_test(test_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
