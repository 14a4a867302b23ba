/* What a job script does next: a row for every way in which an attempt may end; what is read from a
 * launcher's words; the nodes that a run does without. */
#include "core/base/file.h"
#include "core/run/next.h"
#include "planner/scheduler/slurm/srun/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[2048]; /* made for this run, set by main */

enum { NO_VERDICT = SW_VERDICT_RUNNING, NOT_BEGUN = -2, NO_CHECKPOINT = -1 };

struct row {
    const char *what;
    int32_t verdict, status;
    int64_t attempt, restarts, first_step, step, checkpoint;
    enum sw_continue how;
    int32_t starts;
    const char *named, *dead; /* a node in attempt.json, a node that does not answer */
    int32_t least, most;      /* plans; the ranks had four nodes */
    enum sw_next_action action;
    int32_t code;
    const char *node, *says;
};

#define REQUEUE .how = SW_CONTINUE_REQUEUE
#define CHAIN .how = SW_CONTINUE_CHAIN
#define GAINED .first_step = 10, .step = 20, .checkpoint = 20
#define NOTHING_GAINED .first_step = 20, .step = 20, .checkpoint = 20
#define NOTHING_KEPT .checkpoint = NO_CHECKPOINT

static const struct row rows[] = {
    {"done", 0, 0, GAINED, REQUEUE, .action = SW_NEXT_END, .code = 0},
    {"done, srun disagrees", 0, 137, GAINED, REQUEUE, .action = SW_NEXT_END, .code = 0},
    {"the loss is no use", 1, 1, GAINED, REQUEUE, .action = SW_NEXT_END, .code = 1},
    {"bad input", 2, 2, GAINED, CHAIN, .action = SW_NEXT_END, .code = 2},
    {"no progress", 93, 93, NOTHING_GAINED, REQUEUE, .action = SW_NEXT_END, .code = 93},
    {"interrupted", 130, 137, GAINED, REQUEUE, .action = SW_NEXT_END, .code = 130},
    {"terminated", 143, 137, GAINED, CHAIN, .action = SW_NEXT_END, .code = 143},

    {"checkpoint signal", 75, 75, GAINED, REQUEUE, .action = SW_NEXT_REQUEUE, .code = 75,
     .says = "resumes from step 20 when the job is requeued"},
    {"checkpoint signal, srun killed the rest", 75, 143, GAINED, REQUEUE, .action = SW_NEXT_REQUEUE,
     .code = 75},
    {"checkpoint signal, chain", 75, 75, GAINED, CHAIN, .action = SW_NEXT_REQUEUE, .code = 75,
     .says = "in the next link of the chain"},
    {"checkpoint signal, alone", 75, 75, GAINED, .action = SW_NEXT_END, .code = 75,
     .says = "submit the script again to resume from step 20"},
    {"checkpoint signal, last attempt", 75, 75, .attempt = 5, GAINED, REQUEUE,
     .action = SW_NEXT_END, .code = 75, .says = "5 attempts were made, and max_attempts is 5"},
    {"checkpoint signal, last restart", 75, 75, .restarts = 4, GAINED, REQUEUE,
     .action = SW_NEXT_END, .code = 75, .says = "5 attempts were made"},

    {"bad node", 76, 76, GAINED, REQUEUE, .named = "n3", .action = SW_NEXT_REQUEUE, .code = 76,
     .node = "n3", .says = "when the job is requeued, without n3"},
    {"bad node, nothing gained", 76, 76, NOTHING_GAINED, REQUEUE, .named = "n3",
     .action = SW_NEXT_REQUEUE, .code = 76, .node = "n3"},
    {"bad node, no checkpoint", 76, 76, NOTHING_KEPT, CHAIN, .named = "n3",
     .action = SW_NEXT_REQUEUE, .code = 76, .node = "n3", .says = "from the beginning"},
    {"bad node, alone", 76, 76, GAINED, .named = "n3", .action = SW_NEXT_END, .code = 76,
     .node = "n3"},
    {"bad node, a plan for three", 76, 76, GAINED, REQUEUE, .named = "n3", .least = 3, .most = 4,
     .action = SW_NEXT_AGAIN, .code = 76, .node = "n3",
     .says = "with the 3 nodes that are left, without n3"},
    {"bad node, a plan for three, alone", 76, 76, GAINED, .named = "n3", .least = 3, .most = 4,
     .action = SW_NEXT_AGAIN, .code = 76, .node = "n3"},
    {"bad node, a plan for three, last attempt", 76, 76, .attempt = 5, GAINED, REQUEUE,
     .named = "n3", .least = 3, .most = 4, .action = SW_NEXT_END, .code = 76, .node = "n3"},
    {"bad node, plans for two and one", 76, 76, GAINED, REQUEUE, .named = "n3", .least = 1,
     .most = 2, .action = SW_NEXT_REQUEUE, .code = 76, .node = "n3"},
    {"bad node, but which", 76, 76, GAINED, REQUEUE, .action = SW_NEXT_REQUEUE, .code = 76},
    {"node does not answer", 3, 3, GAINED, REQUEUE, .named = "n3", .dead = "n3", .least = 3,
     .most = 4, .action = SW_NEXT_AGAIN, .code = 76, .node = "n3", .says = "n3 does not answer"},
    {"another node does not answer", 3, 3, GAINED, REQUEUE, .named = "n2", .dead = "n4",
     .action = SW_NEXT_REQUEUE, .code = 76, .node = "n4"},
    {"dead node, nothing gained", 3, 3, NOTHING_GAINED, REQUEUE, .dead = "n3",
     .action = SW_NEXT_REQUEUE, .code = 76, .node = "n3"},
    {"dead node and nobody to say so", NO_VERDICT, 0, GAINED, REQUEUE, .dead = "n3", .least = 3,
     .most = 4, .action = SW_NEXT_AGAIN, .code = 76, .node = "n3"},
    {"a name that is none", 76, 76, GAINED, REQUEUE, .named = "n3;reboot", .least = 3, .most = 4,
     .action = SW_NEXT_REQUEUE, .code = 76},
    {"dead node after a cancel", 143, 137, GAINED, REQUEUE, .dead = "n3", .least = 3, .most = 4,
     .action = SW_NEXT_END, .code = 143},

    {"a rank was killed", 3, 137, GAINED, REQUEUE, .named = "n3", .action = SW_NEXT_REQUEUE,
     .code = 3, .says = "a cause"},
    {"a rank was killed, chain", 3, 137, GAINED, CHAIN, .named = "n3", .action = SW_NEXT_REQUEUE,
     .code = 3},
    {"a rank was killed, alone", 3, 137, GAINED, .named = "n3", .action = SW_NEXT_END, .code = 3,
     .says = "submit the script again"},
    {"a rank was killed, last attempt", 3, 137, .attempt = 5, GAINED, REQUEUE,
     .action = SW_NEXT_END, .code = 3},
    {"a rank was killed, nothing gained", 3, 137, NOTHING_GAINED, REQUEUE, .action = SW_NEXT_END,
     .code = 3, .says = "no step was gained since step 20"},
    {"a rank was killed, no checkpoint", 3, 137, NOTHING_KEPT, REQUEUE, .action = SW_NEXT_END,
     .code = 3, .says = "there is no checkpoint to resume from"},
    {"a save became whole that nobody could count", 3, 137, .first_step = 10, .step = 10,
     .checkpoint = 20, REQUEUE, .action = SW_NEXT_REQUEUE, .code = 3},
    {"all were killed", NO_VERDICT, 137, GAINED, REQUEUE, .action = SW_NEXT_REQUEUE, .code = 137,
     .says = "for an unknown reason"},
    {"all crashed", NO_VERDICT, 139, GAINED, REQUEUE, .action = SW_NEXT_REQUEUE, .code = 139},
    {"no word, nothing gained", NO_VERDICT, 137, NOTHING_GAINED, REQUEUE, .action = SW_NEXT_END,
     .code = 137},
    {"no word and srun says that all is well", NO_VERDICT, 0, GAINED, REQUEUE,
     .action = SW_NEXT_REQUEUE, .code = 3},
    {"no word, ended from outside", NO_VERDICT, 143, GAINED, REQUEUE, .action = SW_NEXT_END,
     .code = 143},

    {"not begun: bad input", NOT_BEGUN, 2, NOTHING_KEPT, REQUEUE, .starts = 1,
     .action = SW_NEXT_END, .code = 2},
    {"not begun: agreed on", NOT_BEGUN, 3, GAINED, REQUEUE, .starts = 1, .action = SW_NEXT_END,
     .code = 3},
    {"not begun: srun knows nothing of it", NOT_BEGUN, 0, GAINED, REQUEUE, .starts = 1,
     .action = SW_NEXT_AGAIN, .code = 3},
    {"not begun: terminated", NOT_BEGUN, 143, GAINED, REQUEUE, .starts = 1, .action = SW_NEXT_END,
     .code = 143},
    {"not begun: crashed", NOT_BEGUN, 139, NOTHING_KEPT, .starts = 1, .action = SW_NEXT_AGAIN,
     .code = 139, .says = "start 2 of 3 follows"},
    {"not begun: crashed twice", NOT_BEGUN, 137, NOTHING_KEPT, .starts = 2, .action = SW_NEXT_AGAIN,
     .code = 137},
    {"not begun: crashed thrice", NOT_BEGUN, 139, NOTHING_KEPT, REQUEUE, .starts = 3,
     .action = SW_NEXT_END, .code = 139, .says = "after 3 starts"},
    {"not begun: dead node", NOT_BEGUN, 143, GAINED, REQUEUE, .starts = 1, .dead = "n2",
     .action = SW_NEXT_END, .code = 143},
    {"not begun: dead node, crashed", NOT_BEGUN, 1 + 128, GAINED, REQUEUE, .starts = 1,
     .dead = "n2", .least = 3, .most = 4, .action = SW_NEXT_AGAIN, .code = 76, .node = "n2"},
};

static void fill(const struct row *row, struct sw_next_facts *f)
{
    *f = (struct sw_next_facts){.checkpoint_step = row->checkpoint,
                                .restarts = row->restarts,
                                .max_attempts = 5,
                                .how = row->how,
                                .how_key = "slurm.continue",
                                .status = row->status,
                                .starts = row->starts,
                                .nodes = 4,
                                .least = row->least > 0 ? row->least : 4,
                                .most = row->most > 0 ? row->most : 4};
    f->attempt = (struct sw_attempt){.attempt = row->attempt > 0 ? row->attempt : 2,
                                     .verdict = row->verdict,
                                     .first_step = row->first_step,
                                     .step = row->step,
                                     .cause = "a cause"};
    f->attempt_before = f->attempt.attempt - 1;
    if (row->verdict == NOT_BEGUN) { /* what stands there is the attempt before's */
        f->attempt.verdict = SW_VERDICT_REQUEUE;
        f->attempt_before = f->attempt.attempt;
    }
    if (row->named != NULL)
        sw_attempt_add_node(&f->attempt, row->named);
    f->dead = &row->dead;
    f->dead_count = row->dead != NULL;
}

static void expect_next(const struct row *row, const struct sw_next *next)
{
    if (next->action != row->action || next->code != row->code ||
        next->node_count != (row->node != NULL) ||
        (row->node != NULL && strcmp(next->node[0], row->node) != 0) ||
        (row->says != NULL && strstr(next->reason, row->says) == NULL))
        fail_msg("%s: %s %d, %d nodes: '%s'", row->what, sw_next_word(next->action),
                 (int)next->code, (int)next->node_count, next->reason);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct sw_next_facts facts;
        struct sw_next next;
        fill(row, &facts);
        sw_next_after(&facts, &next);
        expect_next(row, &next);
    }
}

/* Whatever comes together: what ends a run is never gone on with, and nothing goes on for ever. */
static void test_every_combination(void **state)
{
    (void)state;
    static const int32_t ends[] = {0, 1, 2, 3, 75, 76, 93, 130, 137, 139, 143};
    enum { ENDS = sizeof ends / sizeof ends[0] };
    for (int32_t bits = 0; bits < 1 << 10; bits++)
        for (int32_t e = 0; e < ENDS; e++) {
            struct row row = {.status = ends[e], .verdict = ends[e]};
            struct sw_next_facts f;
            struct sw_next next;
            row.how = (enum sw_continue)((bits & 3) % 3);
            row.attempt = bits & 4 ? 5 : 2;
            row.checkpoint = bits & 8 ? 20 : NO_CHECKPOINT;
            row.step = row.first_step = 20;
            if (bits & 16)
                row.first_step = 10;
            row.dead = bits & 32 ? "n3" : NULL;
            row.named = bits & 64 ? "n2" : NULL;
            row.least = bits & 128 ? 3 : 0;
            if (bits & 256)
                row.verdict = bits & 512 ? NOT_BEGUN : NO_VERDICT;
            row.starts = 1;
            fill(&row, &f);
            sw_next_after(&f, &next);
            const int32_t verdict = row.verdict;
            const bool goes_on = next.action != SW_NEXT_END;
            if (verdict == 0 || verdict == 1 || verdict == 2 || verdict == 93 || verdict == 130 ||
                verdict == 143)
                assert_int_equal(next.action, SW_NEXT_END);
            if (verdict >= 0 && next.action == SW_NEXT_END && verdict != 3 && row.dead == NULL)
                assert_int_equal(next.code, verdict);
            if (next.action == SW_NEXT_REQUEUE)
                assert_true(row.how != SW_CONTINUE_NONE);
            if (goes_on && verdict != NOT_BEGUN)
                assert_true(row.attempt < 5);
            if (goes_on && verdict != NOT_BEGUN)
                assert_true(next.node_count > 0 || row.checkpoint > 0 || verdict == 75 ||
                            verdict == 76 || (verdict < 0 && row.status == 75));
            assert_true(next.action == SW_NEXT_END || next.code != 0);
        }
}

static void test_begin(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool link;
        int64_t attempt, restarts;
        int32_t verdict;
        enum sw_next_action action;
        int32_t code;
        int64_t idle_jobs;
    } begins[] = {
        {"a new run", false, 0, 0, NO_VERDICT, SW_NEXT_GO, 0, 0},
        {"a person submits again", false, 3, 0, 143, SW_NEXT_GO, 0, 0},
        {"a person submits again, many times", false, 30, 0, 75, SW_NEXT_GO, 0, 0},
        {"requeued", false, 1, 1, 75, SW_NEXT_GO, 0, 0},
        {"requeued for ever", false, 1, 5, NO_VERDICT, SW_NEXT_END, 3, 0},
        {"link, the one before was never begun", true, 0, 0, NO_VERDICT, SW_NEXT_GO, 0, 0},
        {"link", true, 1, 0, 75, SW_NEXT_GO, 0, 0},
        {"link after a crash", true, 1, 0, 3, SW_NEXT_GO, 0, 0},
        {"link after a node died", true, 1, 0, NO_VERDICT, SW_NEXT_GO, 0, 0},
        {"link of a finished run", true, 1, 0, 0, SW_NEXT_END, 0, 0},
        {"link of an ended run", true, 1, 0, 93, SW_NEXT_END, 0, 0},
        {"link of a cancelled run", true, 1, 0, 143, SW_NEXT_END, 0, 0},
        {"link of an interrupted run", true, 1, 0, 130, SW_NEXT_END, 0, 0},
        {"link after bad input", true, 1, 0, 2, SW_NEXT_END, 0, 0},
        {"the last link", true, 5, 0, 75, SW_NEXT_END, 0, 0},
        {"the last link, jobs that began nothing among them", true, 3, 0, 3, SW_NEXT_END, 0, 2},
        {"a person submits again after those", false, 3, 0, 3, SW_NEXT_GO, 0, 2},
    };
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        struct sw_next_facts f = {.link = begins[i].link,
                                  .restarts = begins[i].restarts,
                                  .max_attempts = 5,
                                  .attempt = {.attempt = begins[i].attempt,
                                              .verdict = begins[i].verdict,
                                              .idle_jobs = begins[i].idle_jobs}};
        struct sw_next next;
        sw_next_begin(&f, &next);
        if (next.action != begins[i].action || next.code != begins[i].code)
            fail_msg("%s: %s %d", begins[i].what, sw_next_word(next.action), (int)next.code);
    }
}

/* ---- What launchers say ---- */

static void expect(const char *text, const char *host, const char *says, bool cannot, bool gone)
{
    struct sw_launcher_word word;
    sw_launcher_parse(text, &sw_srun_lines, &word);
    assert_string_equal(word.host, host);
    assert_string_equal(word.text, says);
    assert_int_equal(word.cannot_start, cannot);
    assert_int_equal(word.gone, gone);
}

static void test_launcher(void **state)
{
    (void)state;
    static const char boilerplate[] =
        "--------------------------------------------------------------------------\n"
        "A process or daemon was unable to complete a TCP connection\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "slurmstepd-n1: error: *** STEP 9.0 ON n1 CANCELLED AT 2026-11-22T11:48:56 ***\n"
        "srun: error: n1: tasks 0-1: Terminated\n"
        "srun: error: n4: task 7: Exited with exit code 143\n";
    char text[4096];
    expect("", "", "", false, false);
    expect(boilerplate, "", "", false, false);
    snprintf(text, sizeof text,
             "%ssrun: error: n3: task 5: Killed\nsrun: error: n2: task 2: Killed", boilerplate);
    expect(text, "n3", "task 5 (host n3): Killed", false, false);
    snprintf(text, sizeof text,
             "%ssrun: error: n3: task 5: Exited with exit code 3\n"
             "rank 5 (host n3): error: ended by signal 11 (Segmentation fault)\n"
             "rank 6 (host n4): error: something else\n",
             boilerplate);
    expect(text, "n3", "rank 5 (host n3): ended by signal 11 (Segmentation fault)", false, false);
    expect("srun: error: n3: task 5: Killed\nslurmstepd-n3: error: Detected 1 oom-kill event(s) in "
           "StepId=9.0. Some of your processes may have been killed by the cgroup out-of-memory "
           "handler.\n",
           "n3", "the kernel ended it: the node's memory, or the job's share of it, ran out", false,
           false);
    expect("srun: error: Node failure on n3\n", "n3", "Slurm says that the node failed", false,
           true);
    expect("srun: error: n2: tasks 2-3: Exited with exit code 127\n", "n2",
           "tasks 2-3 (host n2): the runner does not start there: a library is missing, or the "
           "file itself",
           true, false);
    /* everywhere: no node is to blame */
    expect("srun: error: n2: tasks 2-3: Exited with exit code 127\n"
           "srun: error: n1: tasks 0-1: Exited with exit code 127\n",
           "n2",
           "tasks 2-3 (host n2): the runner does not start there: a library is missing, or the "
           "file itself",
           false, false);
    /* lines that only begin like one */
    expect("rank 5: error\nrank (host n3): error: x\nrank 5 (host n3\nsrun: error: n3: tas\n"
           "srun: error: \nsrun: error: n3: task 5\n",
           "", "", false, false);
    expect("rank 1 (host n1): error: a\033[2Jb\n", "n1", "rank 1 (host n1): a?[2Jb", false, false);
}

static void test_no_step_is_tried_again(void **state)
{
    (void)state;
    const struct row row = {
        .verdict = NOT_BEGUN, .status = 1, .checkpoint = NO_CHECKPOINT, .starts = 1};
    struct sw_next_facts f;
    struct sw_next next;
    fill(&row, &f);
    sw_launcher_parse("srun: error: Unable to create step for job 7: Job/step already completing\n",
                      &sw_srun_lines, &f.word);
    sw_next_after(&f, &next);
    assert_int_equal(next.action, SW_NEXT_AGAIN);
    assert_non_null(strstr(next.reason, "Unable to create step for job 7"));
}

/* The controller refuses all starts of a job, as just after its own restart: another job follows.
 */
static void test_no_step_in_three_starts_is_another_job(void **state)
{
    (void)state;
    const struct row row = {
        .verdict = NOT_BEGUN, .attempt = 1, .status = 1, GAINED, REQUEUE, .starts = 3};
    struct sw_next_facts f;
    struct sw_next next;
    fill(&row, &f);
    sw_launcher_parse("srun: error: Unable to create step for job 7: Memory required by task is "
                      "not available\n",
                      &sw_srun_lines, &f.word);
    sw_next_after(&f, &next);
    assert_int_equal(next.action, SW_NEXT_REQUEUE);
    assert_int_equal(next.node_count, 0);
}

static void test_refused_steps(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool refused;
    } rows[] = {
        {"srun: error: Unable to create step for job 7: Memory required by task is not available\n",
         true},
        {"srun: error: Unable to create step for job 7: Requested nodes are busy\n", true},
        {"srun: error: Unable to create step for job 7: Socket timed out on send/recv operation\n",
         true},
        {"srun: error: Unable to confirm allocation for job 7: Unable to contact slurm controller "
         "(connect failure)\n",
         true},
        {"srun: Cancelled pending job step with signal 15\nsrun: error: Unable to create step for "
         "job 7: Job/step already completing or completed\n",
         true},
        {"srun: error: Unable to create step for job 7: Job/step already completing or completed\n",
         false},
        {"srun: error: Unable to create step for job 7: Required node not available (down, drained "
         "or reserved)\n",
         false},
        {"srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n", false},
        {"srun: error: Task launch for StepId=7.1 failed on node n2: Communication connection "
         "failure\n",
         false},
        {"srun: error: n2: task 0: Killed\n", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sw_srun_is_refused(rows[i].text) != rows[i].refused)
            fail_msg("%s", rows[i].text);
}

static void test_missing_library_leaves_the_node_out(void **state)
{
    (void)state;
    const struct row row = {
        .verdict = NOT_BEGUN, .status = 143, .checkpoint = NO_CHECKPOINT, REQUEUE, .starts = 1};
    struct sw_next_facts f;
    struct sw_next next;
    fill(&row, &f);
    sw_launcher_parse("srun: error: n2: tasks 2-3: Exited with exit code 127\n", &sw_srun_lines,
                      &f.word);
    sw_next_after(&f, &next);
    assert_int_equal(next.action, SW_NEXT_REQUEUE);
    assert_int_equal(next.code, 76);
    assert_string_equal(next.node[0], "n2");
}

/* ---- A start that waits for ranks that never come ---- */

static const char hung[] =
    "rank 0 (host n1): error: MPI does not start for 60 s: not all of the job's ranks are there\n"
    "rank 3 (host n2.cluster): error: MPI does not start for 60 s: not all of the job's ranks are "
    "there\n"
    "srun: error: n4: tasks 6-7: Killed\n"
    "srun: error: Task launch for StepId=9.0 failed on node n3: Communication connection failure\n"
    "srun: error: Timed out waiting for job step to complete\n";
static const char *const four[] = {"n1", "n2", "n3", "n4"};

static void hang(const struct row *row, const char *text, const char *before, bool link,
                 int64_t idle_jobs, struct sw_next *next)
{
    struct sw_next_facts f;
    fill(row, &f);
    f.hosts = four;
    f.host_count = 4;
    f.ranks_per_node = 2;
    f.link = link;
    f.attempt.idle_jobs = idle_jobs;
    sw_launcher_parse(text, &sw_srun_lines, &f.word);
    sw_launcher_find_missing(text, &sw_srun_lines, four, 4, &f.missing);
    if (before != NULL)
        sw_launcher_find_missing(before, &sw_srun_lines, four, 4, &f.before);
    sw_next_after(&f, next);
}

static void test_missing(void **state)
{
    (void)state;
    static const char *const names[] = {"n1", "n3", "n4", "n11", "n5", "n"};
    struct sw_launcher_missing missing;
    struct sw_launcher_word word;
    sw_launcher_parse(hung, &sw_srun_lines, &word);
    assert_true(word.hung);
    sw_launcher_find_missing(hung, &sw_srun_lines, four, 4, &missing);
    assert_int_equal(missing.count, 1);
    assert_int_equal(missing.host[0], 2);
    /* who says nothing of most nodes says nothing */
    sw_launcher_find_missing(hung, &sw_srun_lines, names, 6, &missing);
    assert_int_equal(missing.count, 0);
    sw_launcher_find_missing("", &sw_srun_lines, four, 4, &missing);
    assert_int_equal(missing.count, 0);
    sw_launcher_find_missing(hung, &sw_srun_lines, NULL, 0, &missing);
    assert_int_equal(missing.count, 0);
    sw_launcher_parse("rank 0 (host n1): error: rank 5 (host n3) does not answer: nothing from "
                      "rank 5 for 60 s: it hangs, or its node or network is gone\n",
                      &sw_srun_lines, &word);
    assert_true(word.hung);
    sw_launcher_parse("rank 0 (host n1): error: ended by signal 11\n", &sw_srun_lines, &word);
    assert_false(word.hung);
}

#define HUNG NOT_BEGUN, 3, GAINED

static void test_hung_start(void **state)
{
    (void)state;
    static const char alone[] = "rank 0 (host n1): error: MPI does not start for 60 s: x\n";
    static const char two[] = "rank 0 (host n1): error: MPI does not start for 60 s: x\n"
                              "rank 6 (host n4): error: MPI does not start for 60 s: x\n";
    char all[2048], other[2048];
    /* who came in this start and in the one before; NULL: that one began something */
    const char *const n3 = hung, *const n2_n3 = two, *const nobody = all, *const n2 = other;
    const struct {
        struct row row;
        const char *lacks, *lacked;
        bool link;
        int64_t idle_jobs;
    } hangs[] = {
        /* one that does not come once may be late */
        {{"late", HUNG, REQUEUE, .starts = 1, .least = 3, .most = 4, .action = SW_NEXT_AGAIN,
          .code = 3, .says = "; ranks 4-5 (host n3) did not start; start 2 of 3 follows"},
         n3,
         NULL,
         false,
         0},
        {{"one, then another", HUNG, REQUEUE, .starts = 2, .least = 3, .most = 4,
          .action = SW_NEXT_AGAIN, .code = 3, .says = "did not start; start 3 of 3 follows"},
         n3,
         n2,
         false,
         0},
        {{"three go on", HUNG, REQUEUE, .starts = 2, .least = 3, .most = 4, .action = SW_NEXT_AGAIN,
          .code = 76, .node = "n3",
          .says = "; ranks 4-5 (host n3) did not start, not in the start before either; attempt 3 "
                  "resumes from step 20 with the 3 nodes that are left, without n3"},
         n3,
         n3,
         false,
         0},
        {{"two do not come, one of them again", HUNG, REQUEUE, .starts = 2, .least = 3, .most = 4,
          .action = SW_NEXT_AGAIN, .code = 76, .node = "n3",
          .says = "; ranks 2-3 (host n2), ranks 4-5 (host n3) did not start, and n3 not in the "
                  "start before either; attempt 3 resumes"},
         n2_n3,
         n3,
         false,
         0},
        {{"another job goes on", HUNG, REQUEUE, .starts = 2, .action = SW_NEXT_REQUEUE, .code = 76,
          .node = "n3", .says = "when the job is requeued, without n3"},
         n3,
         n3,
         false,
         0},
        {{"killed by srun", NOT_BEGUN, 137, GAINED, CHAIN, .starts = 2, .action = SW_NEXT_REQUEUE,
          .code = 76, .node = "n3"},
         n3,
         n3,
         false,
         0},
        {{"it does not answer: not late", HUNG, CHAIN, .starts = 1, .dead = "n3",
          .action = SW_NEXT_REQUEUE, .code = 76, .node = "n3",
          .says = "did not start; n3 does not answer; attempt 3 resumes"},
         n3,
         NULL,
         false,
         0},
        {{"nobody else may go on", NOT_BEGUN, 3, NOTHING_KEPT, .starts = 2, .action = SW_NEXT_AGAIN,
          .code = 3, .says = "either; start 3 of 3 follows"},
         n3,
         n3,
         false,
         0},
        {{"nobody else may go on, and it does not answer", NOT_BEGUN, 3, NOTHING_KEPT, .starts = 1,
          .dead = "n3", .action = SW_NEXT_END, .code = 76, .node = "n3"},
         n3,
         NULL,
         false,
         0},
        {{"all came", HUNG, REQUEUE, .starts = 1, .action = SW_NEXT_AGAIN, .code = 3,
          .says = "start 2 of 3 follows"},
         nobody,
         NULL,
         false,
         0},
        {{"srun ended the others", NOT_BEGUN, 143, GAINED, CHAIN, .starts = 1,
          .action = SW_NEXT_AGAIN, .code = 143},
         nobody,
         NULL,
         false,
         0},
        /* all starts of a job hung: one other job, of either kind, and no more */
        {{"thrice", HUNG, REQUEUE, .starts = 3, .action = SW_NEXT_REQUEUE, .code = 3,
          .says = "; attempt 3 resumes from step 20 when the job is requeued"},
         nobody,
         nobody,
         false,
         0},
        {{"thrice, chain", HUNG, CHAIN, .starts = 3, .action = SW_NEXT_REQUEUE, .code = 3,
          .says = "; attempt 3 resumes from step 20 in the next link of the chain"},
         nobody,
         nobody,
         false,
         0},
        {{"thrice, in a link", HUNG, CHAIN, .starts = 3, .action = SW_NEXT_REQUEUE, .code = 3},
         nobody,
         nobody,
         true,
         0},
        {{"thrice, srun ended the others", NOT_BEGUN, 143, GAINED, CHAIN, .starts = 3,
          .action = SW_NEXT_REQUEUE, .code = 3},
         nobody,
         nobody,
         false,
         0},
        {{"thrice, nothing kept", NOT_BEGUN, 3, NOTHING_KEPT, REQUEUE, .starts = 3,
          .action = SW_NEXT_END, .code = 3, .says = "after 3 starts"},
         nobody,
         nobody,
         false,
         0},
        {{"thrice, alone", HUNG, .starts = 3, .action = SW_NEXT_END, .code = 3,
          .says = "after 3 starts"},
         nobody,
         nobody,
         false,
         0},
        {{"in the second job in a row, requeued", HUNG, REQUEUE, .starts = 3, .restarts = 1,
          .action = SW_NEXT_END, .code = 3, .says = "after 3 starts"},
         nobody,
         nobody,
         false,
         1},
        {{"in the second job in a row, chain", HUNG, CHAIN, .starts = 3, .action = SW_NEXT_END,
          .code = 3, .says = "after 3 starts"},
         nobody,
         nobody,
         true,
         1},
        {{"after many attempts, in the second job in a row", HUNG, REQUEUE, .attempt = 4,
          .starts = 3, .restarts = 1, .action = SW_NEXT_END, .code = 3, .says = "after 3 starts"},
         nobody,
         nobody,
         false,
         1},
        {{"restarted often, and each began something", HUNG, REQUEUE, .attempt = 3, .starts = 3,
          .restarts = 3, .action = SW_NEXT_REQUEUE, .code = 3},
         nobody,
         nobody,
         false,
         0},
        {{"submitted again by a person", HUNG, REQUEUE, .starts = 3, .action = SW_NEXT_REQUEUE,
          .code = 3},
         nobody,
         nobody,
         false,
         1},
        /* nodes that are left out one after the other do not make it endless either */
        {{"jobs that began nothing are attempts", HUNG, CHAIN, .starts = 2, .action = SW_NEXT_END,
          .code = 76, .node = "n3", .says = "5 attempts were made, and max_attempts is 5"},
         n3,
         n3,
         true,
         2},
    };
    snprintf(all, sizeof all,
             "%ssrun: error: n2: tasks 2-3: Killed\nsrun: error: n3: task 4: "
             "Killed\nsrun: error: n4: task 6: Killed\n",
             alone);
    snprintf(other, sizeof other,
             "%ssrun: error: n3: task 4: Killed\nsrun: error: n4: task 6: Killed\n", alone);
    for (size_t i = 0; i < sizeof hangs / sizeof hangs[0]; i++) {
        const struct row *row = &hangs[i].row;
        struct sw_next next;
        hang(row, hangs[i].lacks, hangs[i].lacked, hangs[i].link, hangs[i].idle_jobs, &next);
        expect_next(row, &next);
    }
}

/* ---- Nodes that a run does without ---- */

static void test_excluded(void **state)
{
    (void)state;
    static struct sw_excluded excluded;
    struct sw_excluded_node node = {
        .node = "n3", .attempt = 2, .job = "42", .reason = "a \"b\"\nc"};
    struct sw_error err = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/excluded_nodes.jsonl", folder);
    (void)unlink(path);
    assert_int_equal(sw_excluded_read(folder, &excluded, &err), 0);
    assert_int_equal(excluded.count, 0);
    assert_int_equal(sw_excluded_add(folder, &node, &err), 0);
    snprintf(node.node, sizeof node.node, "gpu-07.cluster");
    assert_int_equal(sw_excluded_add(folder, &node, &err), 0);
    assert_int_equal(sw_excluded_add(folder, &node, &err), 0);
    assert_int_equal(sw_excluded_read(folder, &excluded, &err), 0);
    assert_int_equal(excluded.count, 2);
    assert_string_equal(excluded.node[0].node, "n3");
    assert_string_equal(excluded.node[0].reason, "a \"b\"\nc");
    assert_string_equal(excluded.node[0].job, "42");
    assert_int_equal(excluded.node[0].attempt, 2);
    assert_int_equal(strlen(excluded.node[0].date), strlen("2026-11-22T11:36:13Z"));
    assert_true(sw_excluded_has(&excluded, "gpu-07.cluster"));
    assert_false(sw_excluded_has(&excluded, "n"));
}

static void test_excluded_broken(void **state)
{
    (void)state;
    static struct sw_excluded excluded;
    static const char text[] = "{\"node\": \"n1\"}\nno json\n\n{\"node\": 4}\n"
                               "{\"node\": \"--reboot\"}\n{\"node\": \"a b\"}\n{\"node\": \"n2\"}";
    char path[4096];
    snprintf(path, sizeof path, "%s/excluded_nodes.jsonl", folder);
    assert_int_equal(sw_file_write(path, text, strlen(text), 0666, NULL), 0);
    assert_int_equal(sw_excluded_read(folder, &excluded, NULL), 0);
    assert_int_equal(excluded.count, 2);
    assert_string_equal(excluded.node[1].node, "n2");
}

/* Before training began rank 0 says what is wrong without a name. */
static void test_error_without_name(void **state)
{
    (void)state;
    struct sw_launcher_word word;
    sw_launcher_parse("runner: error: cannot create the folder '/x': Read-only file system\n"
                      "srun: error: n2: tasks 2-3: Exited with exit code 3\n"
                      "srun: error: n1: tasks 0-1: Exited with exit code 3\n",
                      &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0 (host n1): cannot create the folder '/x': "
                                   "Read-only file system");
    assert_string_equal(word.host, "n1");
    sw_launcher_parse(
        "srun: error: n1: task 0: Exited with exit code 2\nrunner: error: no such data\n",
        &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0 (host n1): no such data");
    /* srun does not say where rank 0 was */
    sw_launcher_parse(
        "runner: error: no such data\nsrun: error: n2: task 2: Exited with exit code 2\n"
        "srun: error: n3: tasks 10-11: Exited with exit code 2\n",
        &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0: no such data");
    /* nor where it read a file that is wrong, or its own options */
    sw_launcher_parse(
        "/a b/x.plan.yaml:3:10: error: the plan was changed after it was written; emit it\n"
        "srun: error: n2: tasks 2-3: Exited with exit code 2\n",
        &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0: /a b/x.plan.yaml:3:10: error: the plan was changed "
                                   "after it was written; emit it");
    sw_launcher_parse("x.plan.yaml: error: it has digest 7\n"
                      "srun: error: n1: tasks 0-1: Exited with exit code 2\n",
                      &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0 (host n1): x.plan.yaml: error: it has digest 7");
    sw_launcher_parse("runner train: error: no such option\n"
                      "srun: error: n1: tasks 0-1: Exited with exit code 2\n",
                      &sw_srun_lines, &word);
    assert_string_equal(word.text, "rank 0 (host n1): no such option");
    /* others' words, and a launcher's own, are no rank's */
    sw_launcher_parse("module: error: no x.yaml: error: y\nsrun: error: x.yaml: error: z\n"
                      "srun: error: n1: task 0: Exited with exit code 2\n",
                      &sw_srun_lines, &word);
    assert_string_equal(word.text, "task 0 (host n1): Exited with exit code 2");
    /* what was given up before is not why a rank was killed, or the node failed */
    sw_launcher_parse("runner: error: the checkpoint of step 5 is abandoned: x\n"
                      "srun: error: n3: task 5: Killed\n",
                      &sw_srun_lines, &word);
    assert_string_equal(word.text, "task 5 (host n3): Killed");
    sw_launcher_parse("runner: error: the checkpoint of step 5 is abandoned: x\n"
                      "srun: error: Node failure on n3\n",
                      &sw_srun_lines, &word);
    assert_true(word.gone);
    sw_launcher_parse("runner: error: x\nsrun: error: n2: tasks 2-3: Exited with exit code 127\n",
                      &sw_srun_lines, &word);
    assert_true(word.cannot_start);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_without_name),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_every_combination),
        cmocka_unit_test(test_begin),
        cmocka_unit_test(test_launcher),
        cmocka_unit_test(test_no_step_is_tried_again),
        cmocka_unit_test(test_no_step_in_three_starts_is_another_job),
        cmocka_unit_test(test_refused_steps),
        cmocka_unit_test(test_missing_library_leaves_the_node_out),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_hung_start),
        cmocka_unit_test(test_excluded),
        cmocka_unit_test(test_excluded_broken),
    };
    snprintf(folder, sizeof folder, "%s/next-XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
