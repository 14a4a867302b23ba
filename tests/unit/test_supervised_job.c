/* A job's own process with a stand-in for the scheduler and for the ranks: a row for every way in
 * which an attempt ends and a scheduler answers then, with the orders that it gets, the exit code
 * and what is left in the folder. Signals come whenever they like. */
#include "core/base/file.h"
#include "core/run/attempt.h"
#include "core/run/excluded.h"
#include "planner/supervise/supervise.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[512]; /* made for this run, set by main */

/* ---- The scheduler ---- */

/* Answers and orders are letters, one for each call: R runs, G is signaled, O completes, C was
 * cancelled, S nobody answers; of orders t taken, f refused. The last one stands for all others. */
static struct {
    const char *answers, *orders, *link, *gone;
    const char *script;               /* that may be submitted; NULL: the job's own */
    char calls[1024], submitted[256]; /* the arguments of a script that was submitted */
    int32_t starts, restarts;
    time_t end;
} slurm;

static char next_of(const char **letters)
{
    const char letter = **letters;
    if (letter != '\0' && (*letters)[1] != '\0')
        ++*letters;
    return letter;
}

static void note(const char *call, const char *more)
{
    const size_t used = strlen(slurm.calls);
    snprintf(slurm.calls + used, sizeof slurm.calls - used, "%s%s%s%s", used > 0 ? " " : "", call,
             more[0] != '\0' ? "=" : "", more);
}

static int find(struct sw_allocation *out, struct sw_error *err)
{
    static char names[4][4] = {"n1", "n2", "n3", "n4"};
    *out = (struct sw_allocation){.id = "17", .array_id = "17", .itself = "17", .node_count = 4};
    out->restarts = slurm.restarts;
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(sw_hosts_add(&out->hosts, names[i], err), 0);
    return 0;
}

/* The ranks are a program of the test's: start 1 does what FOLDER/start-1 says, and so on. */
static void start(const struct sw_allocation_start *s, struct sw_argv *out)
{
    char nodes[64];
    snprintf(nodes, sizeof nodes, "%d%s%s%s", (int)s->nodes, s->without[0] != '\0' ? "-" : "",
             s->without, s->again ? "+" : "");
    note("start", nodes);
    sw_argv_add(out, "sh");
    sw_argv_add(out, "%s/start-%d", folder, (int)++slurm.starts);
}

static enum sw_allocation_answer answer(char letter, char word[SW_ALLOCATION_WORD_BYTES])
{
    const char *said = letter == 'R'   ? "RUNNING"
                       : letter == 'G' ? "SIGNALING"
                       : letter == 'O' ? "COMPLETING"
                       : letter == 'C' ? "CANCELLED"
                                       : "";
    snprintf(word, SW_ALLOCATION_WORD_BYTES, "%s", said);
    return letter == 'R' || letter == 'G' ? SW_ALLOCATION_RUNS
           : letter == 'C'                ? SW_ALLOCATION_CANCELLED
           : letter == 'O'                ? SW_ALLOCATION_OTHER
                                          : SW_ALLOCATION_SILENT;
}

static enum sw_allocation_answer ask(const char *job, char word[SW_ALLOCATION_WORD_BYTES])
{
    if (strcmp(job, "17") != 0)
        return answer(next_of(&slurm.link), word);
    note("ask", "");
    return answer(next_of(&slurm.answers), word);
}

/* The signal, thirty seconds before, is due a second or two after the first question. */
static bool ends_at(const char *job, time_t *out)
{
    (void)job;
    if (slurm.end == 0)
        slurm.end = time(NULL) + 32;
    *out = slurm.end;
    return true;
}

static void find_gone(const struct sw_allocation *job, struct sw_hosts *out)
{
    (void)job;
    if (slurm.gone != NULL)
        assert_int_equal(sw_hosts_add(out, slurm.gone, NULL), 0);
}

static const char *starter(const char *mpi)
{
    return mpi;
}

/* Of "mpirun" ranks get what the job's process hears, as other numbers. */
static int passed(const char *mpi, int heard)
{
    if (strcmp(mpi, "mpirun") != 0)
        return 0;
    return heard == SIGTERM ? SIGUSR2 : heard;
}

static bool answers(const char *node)
{
    note("node", node);
    return true;
}

static bool take(const char *call, const char *more)
{
    note(call, more);
    return next_of(&slurm.orders) == 't';
}

/* Orders are carried by children, which the end of this job is not to end. */
static void expect_ignored(void)
{
    struct sigaction terms;
    assert_int_equal(sigaction(SIGTERM, NULL, &terms), 0);
    assert_true(terms.sa_handler == SIG_IGN);
}

static bool requeue(const char *job, bool hold)
{
    (void)job;
    expect_ignored();
    return take(hold ? "hold" : "requeue", "");
}

static bool release(const char *job)
{
    (void)job;
    return take("release", "");
}

/* "exclude=n2/6": six tasks will do */
static bool exclude(const char *job, const char *nodes, int32_t tasks)
{
    char words[80];
    expect_ignored();
    snprintf(words, sizeof words, tasks > 0 ? "%s/%d" : "%s", nodes, (int)tasks);
    return take(strcmp(job, "17") == 0 ? "exclude" : "exclude-link", words);
}

static bool cancel(const char *job)
{
    return take("cancel", job);
}

static bool end_ranks(const char *job)
{
    return take("end", job);
}

static bool submit(const char *script, const struct sw_arguments_words *arguments, const char *job,
                   const char *without, char number[SW_ALLOCATION_WORD_BYTES])
{
    slurm.submitted[0] = '\0';
    for (int32_t i = 0; i < arguments->count; i++) {
        const size_t used = strlen(slurm.submitted);
        snprintf(slurm.submitted + used, sizeof slurm.submitted - used, "%s%s", i > 0 ? " " : "",
                 arguments->word[i]);
    }
    assert_string_equal(script, slurm.script != NULL ? slurm.script : "job.sbatch");
    assert_string_equal(job, "17");
    snprintf(number, SW_ALLOCATION_WORD_BYTES, "18");
    return take("submit", without);
}

static const struct sw_allocation_ops stand_in = {
    .find = find,
    .start = start,
    .ask = ask,
    .ends_at = ends_at,
    .find_gone = find_gone,
    .starter = starter,
    .passed = passed,
    .answers = answers,
    .requeue = requeue,
    .release = release,
    .exclude = exclude,
    .cancel = cancel,
    .end_ranks = end_ranks,
    .submit = submit,
};

/* ---- The ranks ---- */

static void write_text(const char *name, const char *text)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, strlen(text), 0666, NULL), 0);
}

/* Start `number` ends attempt `attempt` (0: begins none) with this verdict, naming a node, after it
 * did something. */
static void plan_start(int32_t number, const char *first, int64_t attempt, int32_t verdict,
                       const char *node, int32_t status)
{
    char name[32], text[2048], told[1024] = "";
    if (attempt > 0)
        snprintf(told, sizeof told,
                 "echo '{\"schema\": \"shardwright.attempt/1\", \"attempt\": %d, \"verdict\": %d, "
                 "\"nodes\": [%s%s%s], \"cause\": \"a test\", \"step\": 5, \"first_step\": 0, "
                 "\"job\": \"17\"}' >%s/attempt.json\n",
                 (int)attempt, (int)verdict, node != NULL ? "\"" : "", node != NULL ? node : "",
                 node != NULL ? "\"" : "", folder);
    snprintf(name, sizeof name, "start-%d", (int)number);
    snprintf(text, sizeof text, "%s\n%sexit %d\n", first, told, (int)status);
    write_text(name, text);
}

static struct sw_supervise_settings settings(enum sw_continue how)
{
    return (struct sw_supervise_settings){.plan = "/x/run.4.plan.yaml",
                                          .digests = "3:0123456789abcdef,4:fedcba9876543210",
                                          .stages = "",
                                          .next = "",
                                          .elastic = true,
                                          .least = 3,
                                          .most = 4,
                                          .ranks_per_node = 2,
                                          .folder = folder,
                                          .checkpoints = folder,
                                          .runner = "/bin/true",
                                          .container_runner = "",
                                          .script = "job.sbatch",
                                          .how = how,
                                          .max_attempts = 100,
                                          .preflight = "off",
                                          .signal = "",
                                          .exclude = "",
                                          .mpi = "pmix",
                                          .topology = "",
                                          .job = "train",
                                          .input = "",
                                          .output = "",
                                          .host = "",
                                          .port = "",
                                          .token_file = "",
                                          .shards = 1};
}

static void clean(void)
{
    char command[2 * sizeof folder + 64];
    snprintf(command, sizeof command, "rm -rf %s && mkdir -p %s", folder, folder);
    assert_int_equal(system(command), 0);
    memset(&slurm, 0, sizeof slurm);
}

/* ---- One start, and what comes then ---- */

static const struct row {
    const char *what;
    enum sw_continue how;
    int32_t verdict, status;
    const char *node, *gone; /* named in attempt.json, gone for the scheduler */
    const char *answers, *orders, *link;
    int32_t least;
    const char *calls;
    int32_t code;
} rows[] = {
    {"done", SW_CONTINUE_REQUEUE, 0, 0, .answers = "R", .orders = "t", .calls = "start=4",
     .code = 0},
    {"wrong", SW_CONTINUE_REQUEUE, 2, 2, .answers = "R", .orders = "t", .calls = "start=4",
     .code = 2},
    {"saved", SW_CONTINUE_REQUEUE, 75, 75, .answers = "R", .orders = "t",
     .calls = "start=4 ask requeue", .code = 75},
    {"saved, while the signal is delivered", SW_CONTINUE_REQUEUE, 75, 75, .answers = "G",
     .orders = "t", .calls = "start=4 ask requeue", .code = 75},
    {"saved, silence", SW_CONTINUE_REQUEUE, 75, 75, .answers = "SSR", .orders = "t",
     .calls = "start=4 ask ask ask requeue", .code = 75},
    {"saved, cancelled", SW_CONTINUE_REQUEUE, 75, 75, .answers = "C", .orders = "t",
     .calls = "start=4 ask", .code = 75},
    {"saved, ending", SW_CONTINUE_REQUEUE, 75, 75, .answers = "O", .orders = "t",
     .calls = "start=4 ask", .code = 75},
    {"saved, refused", SW_CONTINUE_REQUEUE, 75, 75, .answers = "R", .orders = "ft",
     .calls = "start=4 ask requeue ask submit", .code = 75},
    {"saved, refused, and cancelled", SW_CONTINUE_REQUEUE, 75, 75, .answers = "RO", .orders = "ft",
     .calls = "start=4 ask requeue ask", .code = 75},
    {"saved, alone", SW_CONTINUE_NONE, 75, 75, .answers = "R", .orders = "t", .calls = "start=4",
     .code = 75},
    {"told to end", SW_CONTINUE_REQUEUE, 143, 143, .answers = "R", .orders = "t",
     .calls = "start=4", .code = 143},
    {"a bad node, no plan for the rest", SW_CONTINUE_REQUEUE, 76, 76, .node = "n2", .answers = "R",
     .orders = "tttt", .least = 4, .calls = "start=4 node=n2 ask hold exclude=n2/8 release",
     .code = 76},
    {"a bad node, the release is late", SW_CONTINUE_REQUEUE, 76, 76, .node = "n2", .answers = "R",
     .orders = "ttfft", .least = 4,
     .calls = "start=4 node=n2 ask hold exclude=n2/8 release release release", .code = 76},
    {"a node is gone", SW_CONTINUE_REQUEUE, 75, 75, .gone = "n3", .answers = "R", .orders = "ttt",
     .least = 4, .calls = "start=4 ask ask hold exclude=n3/8 release", .code = 75},
    {"a node is gone, as all are of a job that is cancelled", SW_CONTINUE_REQUEUE, 3, 137,
     .gone = "n3", .answers = "C", .orders = "t", .calls = "start=4 ask", .code = 3},
    {"chain", SW_CONTINUE_CHAIN, 75, 75, .answers = "R", .orders = "t", .link = "O",
     .calls = "submit start=4", .code = 0},
    {"chain, done", SW_CONTINUE_CHAIN, 0, 0, .answers = "R", .orders = "t", .link = "O",
     .calls = "submit start=4 cancel=18", .code = 0},
    {"chain, nobody answers", SW_CONTINUE_CHAIN, 75, 75, .answers = "S", .orders = "t", .link = "S",
     .calls = "submit start=4", .code = 0},
    {"chain, the link was cancelled", SW_CONTINUE_CHAIN, 75, 75, .answers = "R", .orders = "t",
     .link = "C", .calls = "submit start=4", .code = 75},
    {"chain, no link at first", SW_CONTINUE_CHAIN, 75, 75, .answers = "R", .orders = "ft",
     .link = "O", .calls = "submit start=4 ask submit", .code = 0},
    {"chain, a bad node", SW_CONTINUE_CHAIN, 76, 76, .node = "n2", .answers = "R", .orders = "tft",
     .link = "O", .least = 4, .calls = "submit start=4 node=n2 exclude-link=n2 exclude-link=n2",
     .code = 76},
};

static void what_follows_an_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct sw_supervise_settings set = settings(row->how);
        clean();
        slurm.answers = row->answers;
        slurm.orders = row->orders;
        slurm.link = row->link != NULL ? row->link : "";
        slurm.gone = row->gone;
        if (row->least > 0)
            set.least = row->least;
        plan_start(1, ":", 1, row->verdict, row->node, row->status);
        const int code = sw_supervise(&set, &stand_in);
        if (strcmp(slurm.calls, row->calls) != 0)
            fail_msg("%s: '%s', not '%s'", row->what, slurm.calls, row->calls);
        if (code != row->code)
            fail_msg("%s: exit code %d, not %d", row->what, code, (int)row->code);
        struct sw_attempt attempt;
        char note_text[256];
        assert_int_equal(sw_attempt_read(folder, &attempt, note_text, NULL), 0);
        assert_int_equal(attempt.verdict, row->verdict);
    }
}

/* A job that has a plan for three goes on with three, and does not ask four again. */
static void goes_on_without_a_node(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings(SW_CONTINUE_REQUEUE);
    struct sw_excluded excluded;
    clean();
    slurm.answers = "R";
    slurm.orders = "t";
    plan_start(1, ":", 1, 76, "n2", 76);
    plan_start(2, ":", 2, 0, NULL, 0);
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4 node=n2 ask start=3-n2+");
    assert_int_equal(sw_excluded_read(folder, &excluded, NULL), 0);
    assert_true(sw_excluded_has(&excluded, "n2"));
    /* so does the next job; where there is no plan for three, it goes on with all */
    slurm.calls[0] = '\0';
    plan_start(3, ":", 3, 0, NULL, 0);
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=3-n2");
    slurm.calls[0] = '\0';
    plan_start(4, ":", 4, 0, NULL, 0);
    set.digests = "4:fedcba9876543210";
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4");
    set.digests = "5:fedcba9876543210";
    assert_int_equal(sw_supervise(&set, &stand_in), 2);
}

static void tries_nodes_before_it_trains(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings(SW_CONTINUE_REQUEUE);
    clean();
    set.preflight = "quick";
    slurm.answers = "R";
    slurm.orders = "t";
    static const char *const arguments[] = {"--steps", "5"};
    set.arguments = (struct sw_arguments_words){arguments, 2}; /* of the training alone */
    plan_start(1,
               "case \"$*\" in *preflight*--steps*) exit 99 ;; *preflight*) ;; *) exit 99 ;; esac",
               0, 0, NULL, 0);
    plan_start(2, "case \"$*\" in *train*'--steps 5') ;; *) exit 99 ;; esac", 1, 0, NULL, 0);
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4 start=4");
}

/* ---- Stages ---- */

/* Start `number` ends an attempt of a stage. */
static void plan_stage(int32_t number, const char *stage, int64_t attempt, int32_t verdict,
                       int64_t step)
{
    char name[32], text[2048];
    snprintf(name, sizeof name, "start-%d", (int)number);
    snprintf(text, sizeof text,
             "case \"$*\" in *run.%s.4.plan.yaml*) ;; *) exit 99 ;; esac\nmkdir -p %s/%s\n"
             "echo '{\"schema\": \"shardwright.attempt/1\", \"attempt\": %d, \"verdict\": %d, "
             "\"nodes\": [], \"cause\": \"a test\", \"step\": %d, \"first_step\": 0, "
             "\"job\": \"17\"}' >%s/%s/attempt.json\nexit %d\n",
             stage, folder, stage, (int)attempt, (int)verdict, (int)step, folder, stage,
             (int)verdict);
    write_text(name, text);
}

static struct sw_supervise_settings settings_staged(enum sw_continue how)
{
    struct sw_supervise_settings set = settings(how);
    clean();
    slurm.answers = "R";
    slurm.orders = "t";
    slurm.link = "O";
    set.plan = "/x/run.short.4.plan.yaml";
    set.stages = "short/5/4:0123456789abcdef,3:1 long/7/4:fedcba9876543210";
    return set;
}

/* One job trains a stage after the other; the next job begins with the one that is not done. */
static void stages_share_a_job(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings_staged(SW_CONTINUE_REQUEUE);
    plan_stage(1, "short", 1, 75, 3);
    assert_int_equal(sw_supervise(&set, &stand_in), 75);
    assert_string_equal(slurm.calls, "start=4 ask requeue");
    plan_stage(2, "short", 2, 0, 5);
    plan_stage(3, "long", 1, 75, 2);
    slurm.calls[0] = '\0';
    assert_int_equal(sw_supervise(&set, &stand_in), 75);
    assert_string_equal(slurm.calls, "start=4 ask start=4+ ask requeue");
    plan_stage(4, "long", 2, 0, 7);
    slurm.calls[0] = '\0';
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4");
    /* nothing is left */
    slurm.calls[0] = '\0';
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "");
}

/* Between two stages somebody cancels the job: no ranks are started. */
static void a_cancelled_job_begins_no_stage(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings_staged(SW_CONTINUE_REQUEUE);
    slurm.answers = "C";
    plan_stage(1, "short", 1, 0, 5);
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4 ask ask");
}

/* Stages on another number of nodes are another job's, which begins when this one is over. */
static void other_nodes_are_another_job(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings_staged(SW_CONTINUE_REQUEUE);
    set.next = "/x/run.huge.sbatch";
    plan_stage(1, "short", 1, 0, 5);
    plan_stage(2, "long", 1, 0, 7);
    slurm.script = set.next;
    slurm.orders = "ft";
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "start=4 ask start=4+ ask submit ask submit");
    /* a job that is requeued although its stages are done */
    slurm.calls[0] = '\0';
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    assert_string_equal(slurm.calls, "ask submit");
}

static void stages_are_not_started_over(void **state)
{
    (void)state;
    static const char *const wrong[] = {"short", "short/5",      "short/x/4:1", "/5/4:1",
                                        "a/b/c", "sh.ort/5/4:1", "short/5/"};
    static const char *const arguments[] = {"--resume", "none", "--overwrite"};
    struct sw_supervise_settings set = settings_staged(SW_CONTINUE_REQUEUE);
    set.arguments = (struct sw_arguments_words){arguments, 3};
    assert_int_equal(sw_supervise(&set, &stand_in), 2);
    set.arguments.count = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set.stages = wrong[i];
        assert_int_equal(sw_supervise(&set, &stand_in), 2);
    }
    assert_string_equal(slurm.calls, "");
}

/* ---- Arguments of the runner ---- */

/* Start `number` keeps its words, and ends as plan_start has it. */
static void plan_start_told(int32_t number, int64_t attempt, int32_t verdict, const char *node)
{
    char first[800];
    snprintf(first, sizeof first, "echo \"$*\" >%s/words-%d%s", folder, (int)number,
             attempt > 0 ? "" : "\necho 'rank 0 (host n1): error: MPI does not start for 180 s'");
    plan_start(number, first, attempt, verdict, node, verdict);
}

static void expect_words(int32_t number, const char *words)
{
    static const char digest[] = "--digest 0123456789abcdef";
    char path[600], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/words-%d", folder, (int)number);
    assert_int_equal(sw_file_read(path, true, 4096, &text, &bytes, NULL), 0);
    const char *at = strstr(text, "--digest ");
    assert_non_null(at);
    at += strlen(digest);
    at += *at == ' ';
    if (strncmp(at, words, strlen(words)) != 0 || strcmp(at + strlen(words), "\n") != 0)
        fail_msg("start %d gets '%s', not '%s'", (int)number, at, words);
    free(text);
}

/* What the first start of a run is told of checkpoints; the words of all others; of both. */
static const struct {
    const char *word[6];
    int32_t count;
    const char *first, *later;
} told[] = {
    {{"--steps", "5", "--resume", "none", "--overwrite", "--quiet"},
     6,
     "--steps 5 --resume none --overwrite --quiet",
     "--steps 5 --quiet"},
    {{"--resume=none", "--overwrite"}, 2, "--resume=none --overwrite", ""},
    {{"--resume", "old/step-000005", "--steps=5"},
     3,
     "--resume old/step-000005 --steps=5",
     "--steps=5"},
    {{"-_resume", "none", "--steps", "5"}, 4, "-_resume none --steps 5", "--steps 5"},
    {{"--steps", "5"}, 2, "--steps 5", "--steps 5"},
};

static struct sw_supervise_settings settings_told(size_t row, enum sw_continue how)
{
    struct sw_supervise_settings set = settings(how);
    clean();
    slurm.answers = "R";
    slurm.orders = "t";
    slurm.link = "O";
    set.arguments = (struct sw_arguments_words){told[row].word, told[row].count};
    return set;
}

/* Once an attempt has begun its checkpoints are the run's, in this job, requeued, and in a link. */
static void only_the_first_start_starts_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        struct sw_supervise_settings set = settings_told(i, SW_CONTINUE_REQUEUE);
        plan_start_told(1, 1, 76, "n2");
        plan_start_told(2, 2, 75, NULL);
        assert_int_equal(sw_supervise(&set, &stand_in), 75);
        assert_string_equal(slurm.calls,
                            "start=4 node=n2 ask start=3-n2+ ask hold exclude=n2/6 release");
        expect_words(1, told[i].first);
        expect_words(2, told[i].later);

        set = settings_told(i, SW_CONTINUE_REQUEUE);
        slurm.restarts = 1;
        plan_start_told(1, 2, 75, NULL);
        assert_int_equal(sw_supervise(&set, &stand_in), 75);
        expect_words(1, told[i].later);

        for (int32_t link = 0; link < 2; link++) {
            set = settings_told(i, SW_CONTINUE_CHAIN);
            set.link = link == 1;
            plan_start_told(1, 1, 75, NULL);
            assert_int_equal(sw_supervise(&set, &stand_in), 0);
            assert_string_equal(slurm.calls, "submit start=4");
            expect_words(1, link == 1 ? told[i].later : told[i].first);
            assert_string_equal(slurm.submitted, told[i].later);
        }

        set = settings_told(i, SW_CONTINUE_REQUEUE);
        slurm.orders = "ft"; /* no requeue: another job is submitted */
        plan_start_told(1, 1, 75, NULL);
        assert_int_equal(sw_supervise(&set, &stand_in), 75);
        assert_string_equal(slurm.calls, "start=4 ask requeue ask submit");
        assert_string_equal(slurm.submitted, told[i].later);
    }
}

/* Ranks that began no attempt saved nothing: the next ones are told the same. */
static void a_start_that_began_nothing_is_no_first_one(void **state)
{
    (void)state;
    const struct sw_supervise_settings set = settings_told(0, SW_CONTINUE_REQUEUE);
    plan_start_told(1, 0, 3, NULL);
    plan_start_told(2, 1, 0, NULL);
    assert_int_equal(sw_supervise(&set, &stand_in), 0);
    expect_words(1, told[0].first);
    expect_words(2, told[0].first);
}

/* ---- Signals ---- */

/* Whatever comes, and in whatever order: before the ranks' word, after it, at their end. */
static void signals_end_nothing_here(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        const struct sw_supervise_settings set = settings(SW_CONTINUE_REQUEUE);
        char first[128];
        clean();
        slurm.answers = "SR";
        slurm.orders = "t";
        snprintf(first, sizeof first, "kill -%d $PPID; (sleep 0.03; kill -%d %d) & sleep 0.02",
                 signals[i], signals[i], (int)getpid());
        plan_start(1, first, 1, 75, NULL, 75);
        assert_int_equal(sw_supervise(&set, &stand_in), 75);
        assert_string_equal(slurm.calls, "start=4 ask ask requeue");
    }
}

/* Where the scheduler tells no rank, each signal is passed, and the one that is due has a prefix.
 */
static void signals_are_passed(void **state)
{
    static const struct {
        int heard;
        const char *told;
    } rows[] = {
        {SIGTERM, "USR2"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGHUP, "HUP"}, {0, "USR1"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_supervise_settings set = settings(SW_CONTINUE_REQUEUE);
        char first[256];
        clean();
        set.mpi = "mpirun";
        if (rows[i].heard == 0)
            set.signal = "B:USR1@30";
        slurm.answers = "R";
        slurm.orders = "t";
        snprintf(first, sizeof first,
                 "trap 'told=1' %s; kill -%d $PPID; i=0; while [ -z \"$told\" ]; do sleep 0.02; "
                 "i=$((i + 1)); [ $i -lt 500 ] || exit 99; done",
                 rows[i].told, rows[i].heard);
        plan_start(1, first, 1, 75, NULL, 75);
        assert_int_equal(sw_supervise(&set, &stand_in), 75);
        assert_string_equal(slurm.calls, "start=4 ask requeue");
    }
}

/* The signal before the limit comes once, and only to ranks that are there: it is sent when due. */
static void the_ranks_are_reminded(void **state)
{
    (void)state;
    struct sw_supervise_settings set = settings(SW_CONTINUE_REQUEUE);
    clean();
    set.signal = "USR2@30";
    slurm.answers = "R";
    slurm.orders = "t";
    plan_start(1,
               "trap 'told=1' USR2; i=0; while [ -z \"$told\" ]; do sleep 0.02; i=$((i + 1)); "
               "[ $i -lt 500 ] || exit 99; done",
               1, 75, NULL, 75);
    assert_int_equal(sw_supervise(&set, &stand_in), 75);
    assert_string_equal(slurm.calls, "start=4 ask requeue");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_an_end),
        cmocka_unit_test(goes_on_without_a_node),
        cmocka_unit_test(tries_nodes_before_it_trains),
        cmocka_unit_test(stages_share_a_job),
        cmocka_unit_test(a_cancelled_job_begins_no_stage),
        cmocka_unit_test(other_nodes_are_another_job),
        cmocka_unit_test(stages_are_not_started_over),
        cmocka_unit_test(signals_end_nothing_here),
        cmocka_unit_test(signals_are_passed),
        cmocka_unit_test(the_ranks_are_reminded),
        cmocka_unit_test(only_the_first_start_starts_over),
        cmocka_unit_test(a_start_that_began_nothing_is_no_first_one),
    };
    if (argc != 2)
        return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    setenv("SHARDWRIGHT_PAUSE_SECONDS", "0.01", 1);
    unsetenv("SHARDWRIGHT_RUNNER");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
