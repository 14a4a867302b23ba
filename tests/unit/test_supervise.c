/* What a job's own process does, as a table: stories of jobs with a scheduler that answers, is
 * silent or refuses, at every place; every row is in one of them; no order of signals, ends and
 * answers goes on for ever. And where what its ranks print goes. */
#include "core/base/file.h"
#include "planner/scheduler/slurm/srun/lines.h"
#include "planner/supervise/transitions.h"
#include "planner/supervise/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ALL_FACTS = 1 << 7 };

/* Rows that a story went through: [state][event][next]. */
static bool was[SW_SUPERVISE_STATE_COUNT][SW_SUPERVISE_EVENT_COUNT][SW_SUPERVISE_STATE_COUNT];

static uint32_t fact_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t fact;
    } facts[] = {{"chains", SW_SUPERVISE_CHAINS},    {"linked", SW_SUPERVISE_LINKED},
                 {"without", SW_SUPERVISE_WITHOUT},  {"excludes", SW_SUPERVISE_EXCLUDES},
                 {"tries", SW_SUPERVISE_TRIES},      {"idle", SW_SUPERVISE_IDLE},
                 {"requeues", SW_SUPERVISE_REQUEUES}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(facts[i].name, name) == 0)
            return facts[i].fact;
    fail_msg("no fact %s", name);
    return 0;
}

static enum sw_supervise_state state_of(const char *name)
{
    for (int s = 0; s < SW_SUPERVISE_STATE_COUNT; s++)
        if (strcmp(sw_transitions_state_name((enum sw_supervise_state)s), name) == 0)
            return (enum sw_supervise_state)s;
    fail_msg("no state %s", name);
    return SW_SUPERVISE_ENDS;
}

static enum sw_supervise_event event_of(const char *name, size_t length)
{
    for (int e = 0; e < SW_SUPERVISE_EVENT_COUNT; e++) {
        const char *known = sw_transitions_event_name((enum sw_supervise_event)e);
        if (strlen(known) == length && strncmp(known, name, length) == 0)
            return (enum sw_supervise_event)e;
    }
    fail_msg("no event %.*s", (int)length, name);
    return SW_SUPERVISE_DONE_EVENT;
}

static int32_t step(struct sw_supervise_machine *machine, enum sw_supervise_event event)
{
    const enum sw_supervise_state from = machine->state;
    const int32_t pause = sw_transitions_step(machine, event);
    if (pause < 0)
        fail_msg("%s has no row for %s", sw_transitions_state_name(from),
                 sw_transitions_event_name(event));
    was[from][event][machine->state] = true;
    return pause;
}

/* States and events in turn; "+fact" and "-fact" stand before a state's event; "EVENT*3": three
 * times, the state being the same in between. Returns the seconds of all pauses. */
static int32_t tell(const char *story)
{
    char text[1024], *saved = NULL;
    struct sw_supervise_machine machine = {.patience = SW_SUPERVISE_PATIENCE};
    int32_t pauses = 0;
    bool begun = false, wants_state = true;
    snprintf(text, sizeof text, "%s", story);
    for (char *word = strtok_r(text, " ", &saved); word != NULL;
         word = strtok_r(NULL, " ", &saved)) {
        if (word[0] == '+' || word[0] == '-') {
            machine.facts = word[0] == '+' ? machine.facts | fact_of(word + 1)
                                           : machine.facts & ~fact_of(word + 1);
        } else if (wants_state) {
            if (!begun)
                machine.state = state_of(word);
            begun = true;
            if (machine.state != state_of(word))
                fail_msg("'%s': %s instead of %s", story, sw_transitions_state_name(machine.state),
                         word);
            wants_state = false;
        } else {
            const char *star = strchr(word, '*');
            const enum sw_supervise_event event = event_of(word, strcspn(word, "*"));
            const enum sw_supervise_state from = machine.state;
            for (long times = star != NULL ? strtol(star + 1, NULL, 10) : 1; times > 0; times--) {
                assert_int_equal(machine.state, from);
                pauses += step(&machine, event);
            }
            wants_state = true;
        }
    }
    if (!sw_transitions_is_end(machine.state))
        fail_msg("'%s' ends in %s", story, sw_transitions_state_name(machine.state));
    return pauses;
}

static const struct {
    const char *story;
    int32_t pauses_s;
} stories[] = {
    /* no word of Slurm's is needed where all is well */
    {"BEGIN GO CHOOSE DONE TRAIN WELL DECIDE END ENDS", 0},
    {"BEGIN END ENDS", 0},
    {"BEGIN +tries GO CHOOSE DONE PREFLIGHT NOTED PREFLIGHT WELL TRAIN WELL DECIDE END ENDS", 0},
    {"BEGIN GO CHOOSE DONE TRAIN LOOK SHRINK DONE TRAIN LOOK SHRINK REFUSED TRAIN LOOK SHRINK "
     "SILENT TRAIN WELL DECIDE END ENDS",
     0},
    {"BEGIN GO CHOOSE REFUSED NO_PLAN", 0},
    {"BEGIN +without GO CHOOSE REFUSED CHOOSE_ALL DONE TRAIN WELL DECIDE END ENDS", 0},
    {"BEGIN +without +tries GO CHOOSE REFUSED CHOOSE_ALL DONE PREFLIGHT BADLY PROBE REFUSED DECIDE "
     "END ENDS",
     0},
    {"BEGIN +without GO CHOOSE REFUSED CHOOSE_ALL REFUSED NO_PLAN", 0},

    /* the signal before the limit */
    {"TRAIN TIMER TICK REFUSED TRAIN TIMER TICK SILENT TRAIN TIMER TICK DONE REMIND DONE TRAIN "
     "NOTED TRAIN BADLY PROBE REFUSED DECIDE ELSEWHERE ASK RUNS REQUEUE DONE FOLLOWS",
     0},
    {"DECIDE ELSEWHERE ASK SILENT*3 ASK RUNS REQUEUE DONE FOLLOWS", 30},
    {"DECIDE ELSEWHERE ASK SILENT*61 NOT_ANSWERED", 600},
    {"DECIDE ELSEWHERE ASK OVER NOT_ASKED", 0},
    {"DECIDE ELSEWHERE ASK RUNS REQUEUE REFUSED ASK_ANEW RUNS SUBMIT DONE FOLLOWS", 10},
    {"DECIDE ELSEWHERE ASK RUNS REQUEUE REFUSED ASK_ANEW OVER NOT_ASKED", 10},
    {"DECIDE ELSEWHERE ASK RUNS REQUEUE REFUSED ASK_ANEW SILENT*61 NOT_ANSWERED", 610},
    {"DECIDE ELSEWHERE ASK RUNS REQUEUE REFUSED ASK_ANEW RUNS SUBMIT REFUSED ASK RUNS REQUEUE DONE "
     "FOLLOWS",
     20},
    {"DECIDE ELSEWHERE ASK +chains RUNS SUBMIT REFUSED ASK RUNS SUBMIT REFUSED ASK RUNS SUBMIT "
     "REFUSED ASK RUNS SUBMIT REFUSED ASK RUNS SUBMIT REFUSED ASK RUNS SUBMIT REFUSED ASK RUNS "
     "SUBMIT REFUSED NOT_TAKEN",
     60},

    /* nodes that do not answer, in a job that runs, is cancelled, or of which nobody tells */
    {"TRAIN BADLY PROBE DONE CONFIRM RUNS DECIDE +excludes ELSEWHERE ASK RUNS HOLD DONE EXCLUDE "
     "DONE "
     "RELEASE REFUSED*5 RELEASE DONE FOLLOWS",
     5},
    {"TRAIN BADLY PROBE DONE CONFIRM OVER DROP DONE DECIDE ELSEWHERE ASK OVER NOT_ASKED", 0},
    {"TRAIN BADLY PROBE DONE CONFIRM SILENT*61 DROP DONE DECIDE ELSEWHERE ASK SILENT NOT_ANSWERED",
     600},
    {"ASK +excludes RUNS HOLD REFUSED ASK_ANEW RUNS SUBMIT DONE FOLLOWS", 10},
    {"ASK +excludes RUNS HOLD DONE EXCLUDE REFUSED RELEASE DONE FOLLOWS", 0},

    /* again in the same job, and where that cannot be */
    {"DECIDE AGAIN STAY RUNS CHOOSE_AGAIN DONE TRAIN WELL DECIDE END ENDS", 0},
    {"DECIDE AGAIN STAY RUNS +idle CHOOSE_AGAIN DONE TRAIN WELL DECIDE END ENDS", 10},
    {"DECIDE AGAIN STAY SILENT*2 STAY RUNS +tries CHOOSE_AGAIN DONE PREFLIGHT WELL TRAIN WELL "
     "DECIDE END ENDS",
     20},
    {"DECIDE AGAIN STAY RUNS +tries +idle CHOOSE_AGAIN DONE PREFLIGHT WELL TRAIN WELL DECIDE END "
     "ENDS",
     10},
    {"DECIDE AGAIN STAY RUNS CHOOSE_AGAIN REFUSED ASK RUNS REQUEUE DONE FOLLOWS", 0},
    {"DECIDE AGAIN STAY RUNS +linked CHOOSE_AGAIN REFUSED FOLLOW RUNS FOLLOWS", 0},
    {"DECIDE AGAIN STAY OVER ASK OVER NOT_ASKED", 0},
    {"DECIDE AGAIN STAY +linked OVER FOLLOW RUNS FOLLOWS", 0},
    {"DECIDE AGAIN STAY SILENT*61 ASK SILENT NOT_ANSWERED", 600},
    {"DECIDE AGAIN STAY +linked SILENT*60 STAY SILENT FOLLOW SILENT FOLLOWS", 600},

    /* the next stages want another number of nodes */
    {"DECIDE MOVE ASK_STAGE RUNS SUBMIT_STAGE DONE ENDS", 0},
    {"DECIDE +linked MOVE ASK_STAGE RUNS SUBMIT_STAGE DONE CANCEL_LINK DONE ENDS", 0},
    {"DECIDE MOVE ASK_STAGE SILENT*2 ASK_STAGE RUNS SUBMIT_STAGE REFUSED ASK_STAGE RUNS "
     "SUBMIT_STAGE DONE ENDS",
     30},
    {"BEGIN MOVE ASK_STAGE OVER NOT_ASKED", 0},
    {"BEGIN MOVE ASK_STAGE SILENT*61 NOT_ANSWERED", 600},
    {"BEGIN MOVE ASK_STAGE RUNS SUBMIT_STAGE REFUSED ASK_STAGE RUNS SUBMIT_STAGE REFUSED ASK_STAGE "
     "RUNS SUBMIT_STAGE REFUSED ASK_STAGE RUNS SUBMIT_STAGE REFUSED ASK_STAGE RUNS SUBMIT_STAGE "
     "REFUSED ASK_STAGE RUNS SUBMIT_STAGE REFUSED ASK_STAGE RUNS SUBMIT_STAGE REFUSED NOT_TAKEN",
     60},

    /* a chain */
    {"BEGIN +chains GO QUEUE_LINK DONE CHOOSE DONE TRAIN BADLY PROBE REFUSED DECIDE +linked "
     "ELSEWHERE FOLLOW RUNS FOLLOWS",
     0},
    {"BEGIN +chains GO QUEUE_LINK REFUSED CHOOSE DONE TRAIN BADLY PROBE REFUSED DECIDE ELSEWHERE "
     "ASK "
     "RUNS SUBMIT DONE FOLLOWS",
     0},
    {"DECIDE +linked ELSEWHERE FOLLOW OVER LINK_GONE", 0},
    {"DECIDE +linked ELSEWHERE FOLLOW SILENT FOLLOWS", 0},
    {"DECIDE +linked +excludes ELSEWHERE FOLLOW RUNS EXCLUDE_LINK REFUSED*2 EXCLUDE_LINK DONE "
     "FOLLOWS",
     20},
    {"DECIDE +linked +excludes ELSEWHERE FOLLOW SILENT EXCLUDE_LINK REFUSED*7 LINK_STAYS DONE "
     "FOLLOWS",
     60},
    {"DECIDE +linked END CANCEL_LINK DONE ENDS", 0},
    {"DECIDE +linked END CANCEL_LINK REFUSED ENDS", 0},

    /* texts and servers */
    {"TEXTS WELL RECORD DONE ENDS", 0},
    {"TEXTS BADLY RECORD DONE ENDS", 0},
    {"TEXTS TIMER LISTEN REFUSED TEXTS TIMER LISTEN DONE TEXTS NOTED TEXTS WELL RECORD DONE ENDS",
     0},
    {"TEXTS +requeues LIMIT TELL DONE TEXTS BADLY JUDGE DONE ASK_TEXTS SILENT*2 ASK_TEXTS RUNS "
     "REQUEUE_TEXTS DONE TEXTS_FOLLOW",
     20},
    {"TEXTS +requeues LIMIT TELL REFUSED TEXTS BADLY JUDGE REFUSED RECORD DONE ENDS", 0},
    {"TEXTS +requeues BADLY JUDGE DONE ASK_TEXTS OVER TEXTS_OVER DONE RECORD DONE ENDS", 0},
    {"TEXTS +requeues BADLY JUDGE DONE ASK_TEXTS SILENT*61 TEXTS_OVER DONE RECORD DONE ENDS", 600},
    {"TEXTS +requeues BADLY JUDGE DONE ASK_TEXTS RUNS REQUEUE_TEXTS REFUSED TEXTS_STAY DONE RECORD "
     "DONE ENDS",
     0},
};

static void stories_come_true(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        const int32_t pauses = tell(stories[i].story);
        if (pauses != stories[i].pauses_s)
            fail_msg("'%s' pauses for %d s, not %d", stories[i].story, (int)pauses,
                     (int)stories[i].pauses_s);
    }
}

/* A state has an event with whatever facts, or never: nothing depends on luck. */
static void every_row_is_in_a_story(void **state)
{
    (void)state;
    for (int s = 0; s < SW_SUPERVISE_STATE_COUNT; s++)
        for (int e = 0; e < SW_SUPERVISE_EVENT_COUNT; e++) {
            int32_t known = 0;
            for (uint32_t facts = 0; facts < ALL_FACTS; facts++) {
                struct sw_supervise_machine machine = {
                    .state = (enum sw_supervise_state)s,
                    .facts = facts,
                    .patience = facts % 2 == 0 ? 0 : SW_SUPERVISE_PATIENCE};
                if (sw_transitions_step(&machine, (enum sw_supervise_event)e) < 0)
                    continue;
                known++;
                if (!was[s][e][machine.state])
                    fail_msg("no story has %s %s %s",
                             sw_transitions_state_name((enum sw_supervise_state)s),
                             sw_transitions_event_name((enum sw_supervise_event)e),
                             sw_transitions_state_name(machine.state));
            }
            if (known != 0 && known != ALL_FACTS)
                fail_msg("%s knows %s only sometimes",
                         sw_transitions_state_name((enum sw_supervise_state)s),
                         sw_transitions_event_name((enum sw_supervise_event)e));
            if (sw_transitions_is_end((enum sw_supervise_state)s))
                assert_int_equal(known, 0);
        }
}

static bool is_question(enum sw_supervise_state state)
{
    return state == SW_SUPERVISE_CONFIRM || state == SW_SUPERVISE_STAY ||
           state == SW_SUPERVISE_ASK || state == SW_SUPERVISE_ASK_ANEW ||
           state == SW_SUPERVISE_ASK_TEXTS;
}

/* Events come as they like, facts change under way: between two ends of the ranks a controller is
 * asked less than seventy times, and every life ends. */
static void no_life_goes_on_for_ever(void **state)
{
    (void)state;
    srand(20261125);
    for (int32_t walk = 0; walk < 20000; walk++) {
        struct sw_supervise_machine machine = {.state = walk % 4 == 0 ? SW_SUPERVISE_TEXTS
                                                                      : SW_SUPERVISE_BEGIN,
                                               .patience = SW_SUPERVISE_PATIENCE};
        const int silence = rand() % 100; /* how often nobody answers, of a hundred */
        int32_t steps = 0, questions = 0;
        while (!sw_transitions_is_end(machine.state)) {
            struct sw_supervise_machine next = machine;
            const enum sw_supervise_event event =
                rand() % 100 < silence
                    ? SW_SUPERVISE_SILENT_EVENT
                    : (enum sw_supervise_event)(rand() % SW_SUPERVISE_EVENT_COUNT);
            next.facts = (uint32_t)rand() % ALL_FACTS;
            if (sw_transitions_step(&next, event) < 0)
                continue; /* no answer to this question */
            questions += is_question(machine.state);
            if (event == SW_SUPERVISE_WELL_EVENT || event == SW_SUPERVISE_BADLY_EVENT)
                questions = 0;
            machine = next;
            assert_true(++steps < 100000);
            assert_true(questions <= 70);
            assert_true(machine.patience <= SW_SUPERVISE_PATIENCE);
        }
    }
}

/* Whatever the moment: in a job that is over no order is given. */
static void nothing_is_ordered_in_a_job_that_is_over(void **state)
{
    (void)state;
    for (uint32_t facts = 0; facts < ALL_FACTS; facts++) {
        struct sw_supervise_machine machine = {
            .state = SW_SUPERVISE_ASK, .facts = facts, .patience = SW_SUPERVISE_PATIENCE};
        (void)sw_transitions_step(&machine, SW_SUPERVISE_OVER_EVENT);
        assert_int_equal(machine.state, SW_SUPERVISE_NOT_ASKED);
        machine = (struct sw_supervise_machine){
            .state = SW_SUPERVISE_ASK_ANEW, .facts = facts, .patience = SW_SUPERVISE_PATIENCE};
        (void)sw_transitions_step(&machine, SW_SUPERVISE_OVER_EVENT);
        assert_int_equal(machine.state, SW_SUPERVISE_NOT_ASKED);
        machine = (struct sw_supervise_machine){
            .state = SW_SUPERVISE_ASK_TEXTS, .facts = facts, .patience = SW_SUPERVISE_PATIENCE};
        (void)sw_transitions_step(&machine, SW_SUPERVISE_OVER_EVENT);
        assert_int_equal(machine.state, SW_SUPERVISE_TEXTS_OVER);
    }
}

/* ---- What the ranks print ---- */

#define RULER "--------------------------------------------------------------------------"

static const struct {
    const char *line;
    enum sw_output_route route;
} lines[] = {
    {"step 1/8  loss 5.5", SW_OUTPUT_LOG},
    {"", SW_OUTPUT_LOG},
    {"rank 0 (host n1): MPI does not start for 180 s: not all are there", SW_OUTPUT_BOTH},
    {"rank 1 (host n1): MPI does not start for 180 s: not all are there", SW_OUTPUT_ASIDE},
    {"rank 1 (host n1): ended by signal 9", SW_OUTPUT_BOTH},
    {"rank 1 of 8 is there", SW_OUTPUT_LOG},
    {"error: it fails", SW_OUTPUT_BOTH},
    {"runner train: error: it fails", SW_OUTPUT_BOTH},
    {"runner-2: error: it fails", SW_OUTPUT_LOG},
    {"srun: error: n2: task 3: Killed", SW_OUTPUT_ASIDE},
    {"slurmstepd-n3: error: *** STEP 1.0 ON n3 CANCELLED", SW_OUTPUT_ASIDE},
    {"slurmstepd: error: Detected 1 oom-kill event", SW_OUTPUT_ASIDE},
    {"[n3:01234] *** Process received signal ***", SW_OUTPUT_ASIDE},
    {"[n3][[1,2],3][btl.c:12] recv failed", SW_OUTPUT_ASIDE},
    {"[1, 2]: a list", SW_OUTPUT_LOG},
    {"*** An error occurred in MPI_Init", SW_OUTPUT_ASIDE},
    {RULER, SW_OUTPUT_ASIDE},
    {"It looks like MPI_INIT failed for some reason", SW_OUTPUT_ASIDE},
    {"checkpoint of step 4: 3 MB", SW_OUTPUT_LOG},
    {"note: the data end", SW_OUTPUT_LOG},
    {"step 2/8 error: in the middle", SW_OUTPUT_LOG},
    {RULER, SW_OUTPUT_ASIDE},
    {"step 2/8  loss 5.4", SW_OUTPUT_LOG},
    {"--- a short ruler", SW_OUTPUT_LOG},
};

static void lines_go_where_they_are_looked_for(void **state)
{
    (void)state;
    struct sw_output_lines seen = {.launcher = &sw_srun_lines};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (sw_output_route(&seen, lines[i].line) != lines[i].route)
            fail_msg("'%s' does not go to place %d", lines[i].line, (int)lines[i].route);
    /* a ruler that has no other ends by itself */
    assert_int_equal(sw_output_route(&seen, RULER), SW_OUTPUT_ASIDE);
    for (int32_t i = 0; i < 39; i++)
        assert_int_equal(sw_output_route(&seen, "step"), SW_OUTPUT_ASIDE);
    assert_int_equal(sw_output_route(&seen, "step"), SW_OUTPUT_LOG);
}

/* All that is written is in the file when the end is there, also a last line without an end, and
 * one of a megabyte. */
static void what_launchers_say_is_kept(void **state)
{
    (void)state;
    enum { LONG = 1 << 20 };
    char path[64], *text = NULL, *line = malloc(LONG + 8);
    size_t bytes = 0;
    int in = -1;
    snprintf(path, sizeof path, "launcher-%d.log", (int)getpid());
    struct sw_output *output = sw_output_begin(path, &sw_srun_lines, &in, NULL);
    assert_non_null(output);
    assert_non_null(line);
    memset(line, 'x', LONG + 8);
    memcpy(line, "srun: ", 6);
    line[LONG] = '\n';
    for (size_t done = 0; done <= LONG;) {
        const ssize_t wrote = write(in, line + done, LONG + 1 - done);
        assert_true(wrote > 0);
        done += (size_t)wrote;
    }
    assert_true(write(in, "a step\nsrun: end", 16) == 16);
    close(in);
    sw_output_end(output);
    assert_int_equal(sw_file_read(path, true, 2 * LONG, &text, &bytes, NULL), 0);
    assert_int_equal(bytes, LONG + 1 + 9);
    assert_memory_equal(text, line, LONG + 1);
    assert_string_equal(text + LONG + 1, "srun: end");
    assert_int_equal(unlink(path), 0);
    free(text);
    free(line);
    /* nothing said: no file */
    output = sw_output_begin(path, &sw_srun_lines, &in, NULL);
    assert_non_null(output);
    close(in);
    sw_output_end(output);
    assert_int_equal(access(path, F_OK), -1);
    sw_output_end(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stories_come_true), /* first: the next one looks at its rows */
        cmocka_unit_test(every_row_is_in_a_story),
        cmocka_unit_test(no_life_goes_on_for_ever),
        cmocka_unit_test(nothing_is_ordered_in_a_job_that_is_over),
        cmocka_unit_test(lines_go_where_they_are_looked_for),
        cmocka_unit_test(what_launchers_say_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
