/* Parts of a run's hours, of files written here: runs that finished, were killed, requeued, lost
 * a node, and drawn ones. The parts are those of the story, and always sum up to what was held. */
#include "core/base/file.h"
#include "core/run/hours.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[2048];
static FILE *metrics, *allocations;

static void begin(void)
{
    char path[2200];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    metrics = fopen(path, "w");
    snprintf(path, sizeof path, "%s/allocations.jsonl", folder);
    allocations = fopen(path, "w");
    assert_true(metrics != NULL && allocations != NULL);
}
/* A start on so many ranks whose rank 0 was started then, and was ready after so long. */
static void header(const char *job, int ranks, double started, double ready, int first)
{
    fprintf(metrics,
            "{\"schema\":\"shardwright.metrics/1\",\"attempt\":1,\"predicted_memory\":800,"
            "\"job\":\"%s\",\"time\":%.3f,\"elapsed_seconds\":%.3f,\"ranks\":%d,\"first_step\":%d,"
            "\"last_step\":100,\"memory_limit\":1000}\n",
            job, started + ready, ready, ranks, first);
}
static void step(int number, double seconds, double elapsed)
{
    fprintf(metrics,
            "{\"step\":%d,\"loss\":2,\"step_seconds\":%g,\"mfu\":0.5,\"elapsed_seconds\":%.6f,"
            "\"memory_bytes\":%d}\n",
            number, seconds, elapsed, 700 + number);
}
static void saved(int number, double pause, double durable)
{
    fprintf(metrics, "{\"checkpoint_step\":%d,\"pause_seconds\":%g,\"durable_seconds\":%g}\n",
            number, pause, durable);
}
static void judged(int number, double seconds)
{
    fprintf(metrics, "{\"step\":%d,\"held_out_bits_per_token\":2,\"seconds\":%g}\n", number,
            seconds);
}
static struct sw_hours read_all(const char *job, bool live)
{
    struct sw_hours e;
    struct sw_error err = {0};
    double sum = 0;
    fflush(metrics);
    fflush(allocations);
    if (sw_hours_read(folder, job, live, &e, &err) != 0)
        fail_msg("%s", err.message);
    for (int i = 0; i < SW_TIME_PART_COUNT; i++) {
        assert_true(e.part_s[i] >= 0);
        sum += e.part_s[i];
    }
    assert_true(fabs(sum - e.held_s) <= 1e-9 * e.held_s);
    return e;
}
static void end(void)
{
    fclose(metrics);
    fclose(allocations);
}
static void expect(const struct sw_hours *e, enum sw_time_part part, double seconds)
{
    if (fabs(e->part_s[part] - seconds) > 1e-3)
        fail_msg("%s: %.3f s, not %.3f s", sw_time_part_keys[part], e->part_s[part], seconds);
}
static void job_line(const char *job, int restarts, int accelerators, double began, double ended,
                     double limit)
{
    struct sw_error err = {0};
    assert_int_equal(sw_allocation_note_begin(folder, job, restarts, accelerators, began, &err), 0);
    if (ended > 0)
        assert_int_equal(sw_allocation_note_end(folder, job, restarts, ended, 0, limit, &err), 0);
}

/* Ten steps of a second on 8 ranks, two saves, two evaluations, in a job of 100 s. */
static void a_finished_run(void **state)
{
    (void)state;
    begin();
    job_line("7", 0, 8, 1000, 1100, 600);
    header("7", 8, 1020, 5, 0);
    for (int i = 1; i <= 10; i++) {
        /* 0.1 s between steps, and behind step 5 a pause of 2 s and an evaluation of 3 s */
        step(i, 1, 5 + 1.1 * i + (i > 5 ? 5 : 0));
        if (i == 5)
            judged(5, 3);
        if (i == 6)
            saved(5, 2, 2.5);
    }
    saved(10, 2, 9); /* nobody trains while this is made durable */
    judged(10, 4);
    struct sw_hours e = read_all(NULL, false);
    expect(&e, SW_TIME_STARTS, 8 * 25);
    expect(&e, SW_TIME_STEPS, 8 * 10);
    expect(&e, SW_TIME_SAVES, 8 * 11);
    expect(&e, SW_TIME_EVALUATION, 8 * 7);
    expect(&e, SW_TIME_BETWEEN, 8 * 1);
    expect(&e, SW_TIME_REPEATED, 0);
    expect(&e, SW_TIME_IDLE, 8 * (100 - 25 - 10 - 11 - 7 - 1));
    assert_true(fabs(e.held_s - 800) < 1e-6);
    assert_int_equal(e.steps, 10);
    assert_true(fabs(e.mfu - 0.5) < 1e-12 && fabs(e.held_mfu - 0.5 * 80 / 800) < 1e-12);
    assert_int_equal(e.memory_used, 710);
    assert_int_equal(e.memory_planned, 800);
    assert_int_equal(e.memory_limit, 1000);
    assert_true(e.job_s == 100 && e.job_limit_s == 600);
    assert_string_equal(e.job, "7");
    end();
}

/* Killed behind step 8, with a checkpoint of step 5; requeued; done. */
static void a_requeued_run(void **state)
{
    (void)state;
    begin();
    job_line("7", 0, 4, 1000, 0, 0);
    header("7", 4, 1010, 0, 0);
    for (int i = 1; i <= 8; i++)
        step(i, 1, i);
    saved(5, 0, 1);
    struct sw_hours e = read_all(NULL, true);
    expect(&e, SW_TIME_STEPS, 4 * 8); /* it may still save */
    e = read_all(NULL, false);
    expect(&e, SW_TIME_STEPS, 4 * 5);
    expect(&e, SW_TIME_REPEATED, 4 * 3);
    assert_int_equal(e.repeated_steps, 3);
    job_line("7", 1, 4, 2000, 2030, 60);
    header("7", 4, 2010, 0, 5);
    for (int i = 6; i <= 10; i++)
        step(i, 2, 2 * (i - 5));
    saved(10, 1, 1);
    e = read_all(NULL, false);
    expect(&e, SW_TIME_STEPS, 4 * (5 + 5 * 2));
    expect(&e, SW_TIME_REPEATED, 4 * 3);
    expect(&e, SW_TIME_STARTS, 4 * 20);
    expect(&e, SW_TIME_SAVES, 4 * 1);
    expect(&e, SW_TIME_IDLE, 4 * (30 - 10 - 10 - 1));
    assert_int_equal(e.attempts, 2);
    assert_true(e.job_s == 30 && e.job_limit_s == 60);
    end();
}

/* Four nodes of two; one is lost, three go on in the same job, after a silence. */
static void a_lost_node(void **state)
{
    (void)state;
    begin();
    job_line("9", 0, 8, 1000, 1100, 0);
    header("9", 8, 1000, 10, 0);
    for (int i = 1; i <= 10; i++)
        step(i, 1, 10 + i);
    saved(10, 0, 0.5);
    step(11, 1, 21);
    header("9", 6, 1050, 4, 10);
    for (int i = 11; i <= 20; i++)
        step(i, 2, 4 + 2 * (i - 10));
    saved(20, 1, 1);
    struct sw_hours e = read_all("9", false);
    expect(&e, SW_TIME_STEPS, 8 * 10 + 6 * 20);
    expect(&e, SW_TIME_REPEATED, 8 * 1);
    expect(&e, SW_TIME_STARTS, 8 * 10 + 8 * 29 + 6 * 4);
    expect(&e, SW_TIME_IDLE, 2 * 25 + 8 * 25);
    assert_true(fabs(e.held_s - 800) < 1e-6);
    e = read_all("10", false); /* another job */
    assert_true(e.attempts == 0 && e.held_s == 0);
    end();
}

/* mpirun: nobody wrote of a job. And what older programs wrote has no times. */
static void without_a_record(void **state)
{
    (void)state;
    begin();
    header("", 2, 1000, 3, 0);
    for (int i = 1; i <= 4; i++)
        step(i, 1, 3 + i);
    saved(4, 0, 2);
    struct sw_hours e = read_all(NULL, false);
    assert_true(fabs(e.held_s - 2 * 9) < 1e-6);
    expect(&e, SW_TIME_IDLE, 0);
    fprintf(metrics, "{\"schema\":\"shardwright.metrics/1\",\"attempt\":2}\n"
                     "{\"step\":5,\"step_seconds\":1.5}\n{\"step\":6,\"step_sec");
    e = read_all(NULL, true);
    expect(&e, SW_TIME_STEPS, 2 * 4 + 1.5);
    end();
}

/* Lives drawn step by step beside a sum that is kept here. */
static void drawn_lives(void **state)
{
    (void)state;
    srand(7);
    for (int life = 0; life < 200; life++) {
        double now = 1000, held = 0;
        int done = 0, durable = 0, jobs = 1 + rand() % 4;
        begin();
        for (int j = 0; j < jobs; j++) {
            const double began = now;
            char job[16];
            snprintf(job, sizeof job, "%d", 40 + (rand() % 2 ? j : 0));
            const int starts = 1 + rand() % 3;
            now += rand() % 30;
            for (int s = 0; s < starts; s++) {
                const double started = now, ready = 1 + rand() % 9;
                const int ranks = s == 0 ? 8 : 8 - 2 * (rand() % 2), last = durable + rand() % 20;
                done = durable;
                header(job, ranks, started, ready, done);
                now += ready;
                while (done < last) {
                    const double seconds = 0.5 + rand() % 4;
                    now += seconds + 0.25;
                    step(++done, seconds, now - started);
                    if (rand() % 5 == 0) {
                        durable = done;
                        saved(done, 0.5, 0.5);
                        now += 0.5;
                    }
                }
                now += rand() % 5; /* until the next start, or the job's end */
            }
            job_line(job, j, 8, began, now, 0);
            held += 8 * (now - began);
            now += 100;
        }
        const struct sw_hours e = read_all(NULL, false);
        if (fabs(e.held_s - held) > 1e-3)
            fail_msg("life %d: %.3f accelerator-seconds held, not %.3f", life, e.held_s, held);
        assert_int_equal(e.steps, durable);
        end();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_run), cmocka_unit_test(a_requeued_run),
        cmocka_unit_test(a_lost_node),    cmocka_unit_test(without_a_record),
        cmocka_unit_test(drawn_lives),
    };
    snprintf(folder, sizeof folder, "%s/hours.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
