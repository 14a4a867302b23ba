/* Expected end of a run against a simulation of its attempts, over drawn terms: steps, saves in the
 * background or not, evaluations, failures, restarts, queues, time limits. The simulation goes step
 * by step and knows no formula; parts must add up, and totals of runs too.
 *
 *     test_run_cost [DRAWS [SEED [RUNS]]]       RUNS simulated of each draw (default 1,000) */
#include "core/cost/run_cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Limits vary by so much, so that no draw rests on which step a signal meets. */
static const double slack = 0.04;
static int failed;
static int draws = 40, runs = 1000;
static uint64_t seed = 20261201;

static double uniform(void) /* in (0, 1) */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

/* Log-uniform in (least, most). */
static double spread(double least, double most)
{
    return least * pow(most / least, uniform());
}

static bool one_in(int32_t n)
{
    return uniform() * n < 1;
}

struct attempt {
    double now, fails; /* since the attempt's start */
    bool failed;
};

/* Goes on for so long; false: a failure came first. */
static bool runs_for(struct attempt *a, double seconds)
{
    if (!a->failed && a->now + seconds >= a->fails) {
        a->now = a->fails;
        a->failed = true;
    } else if (!a->failed) {
        a->now += seconds;
    }
    return !a->failed;
}

struct simulated {
    double wall_s, held_s;
    int64_t failures, jobs;
};

static bool evaluates_after(const struct sw_run_terms *t, int64_t step)
{
    return t->evaluate_s > 0 &&
           (step == t->steps || (t->evaluate_interval > 0 && step % t->evaluate_interval == 0));
}

/* One attempt from *saved on; true: the run is over. */
static bool attempt(const struct sw_run_terms *t, int64_t *saved, struct attempt *a)
{
    int64_t step = *saved, pending = -1; /* a save on its way to the disk */
    double durable_at = 0;
    const int64_t interval = t->interval > 0 ? t->interval : t->steps;
    if (!runs_for(a, t->start_s + (*saved > 0 ? t->load_s : 0)))
        return false;
    while (step < t->steps && a->now < t->limit_s) {
        const bool stepped = runs_for(a, t->step_s);
        if (pending >= 0 && durable_at <= a->now) {
            *saved = pending;
            pending = -1;
        }
        if (!stepped || (evaluates_after(t, step + 1) && !runs_for(a, t->evaluate_s)))
            return false;
        if (pending >= 0 && durable_at <= a->now) {
            *saved = pending;
            pending = -1;
        }
        step++;
        if (step % interval != 0 || step == t->steps)
            continue;
        if (pending >= 0) {
            if (!runs_for(a, durable_at - a->now))
                return false;
            *saved = pending;
            pending = -1;
        }
        if (!runs_for(a, t->pause_s))
            return false;
        pending = step;
        durable_at = a->now + t->durable_s;
    }
    /* the last save of a job or of the run */
    if (pending >= 0 && durable_at > a->now && !runs_for(a, durable_at - a->now))
        return false;
    if (pending >= 0)
        *saved = pending;
    if (!runs_for(a, t->pause_s + t->durable_s))
        return false;
    *saved = step;
    return step == t->steps;
}

static struct simulated simulate(const struct sw_run_terms *t)
{
    struct simulated s = {.jobs = 1};
    int64_t saved = 0;
    for (;;) {
        struct sw_run_terms job = *t;
        job.limit_s *= 1 + slack * (2 * uniform() - 1);
        struct attempt a = {.fails =
                                isinf(t->failure_s) ? INFINITY : -t->failure_s * log(uniform())};
        const bool over = attempt(&job, &saved, &a);
        s.held_s += a.now;
        s.wall_s += a.now;
        if (over)
            return s;
        if (a.failed) {
            s.failures++;
            s.held_s += t->restart_s;
            s.wall_s += t->restart_s;
        } else {
            s.jobs++;
        }
        s.wall_s += t->queue_s;
    }
}

static struct sw_run_terms draw_terms(void)
{
    struct sw_run_terms t = {.steps = (int64_t)spread(2, 2000), .step_s = spread(0.1, 30)};
    const double all_s = (double)t.steps * t.step_s;
    t.interval = one_in(6) ? 0 : 1 + (int64_t)(uniform() * (double)t.steps / (one_in(2) ? 3 : 20));
    const double work_s = (double)(t.interval > 0 ? t.interval : t.steps) * t.step_s;
    t.pause_s = one_in(5) ? 0 : uniform() * 0.2 * work_s;
    t.durable_s = one_in(3) ? 0 : uniform() * (one_in(4) ? 1.5 : 0.5) * work_s;
    t.evaluate_interval = one_in(3) ? 0 : 1 + (int64_t)(uniform() * (double)t.steps / 5);
    t.evaluate_s = one_in(2) ? 0 : uniform() * fmin(2 * t.step_s, 0.2 * work_s);
    t.start_s = uniform() * 0.1 * all_s;
    t.load_s = uniform() * 0.05 * all_s;
    t.restart_s = uniform() * 0.1 * all_s;
    t.queue_s = one_in(2) ? 0 : uniform() * 0.2 * all_s;
    /* at least one attempt in seven should reach its next checkpoint */
    const double stretch_s = work_s + t.pause_s + t.durable_s + t.start_s + t.load_s;
    t.failure_s = one_in(4) ? INFINITY : fmax(stretch_s / 2, spread(0.05, 20) * all_s);
    t.limit_s = one_in(2)
                    ? INFINITY
                    : t.start_s + t.load_s +
                          fmax(10 * (t.step_s + t.pause_s + t.durable_s), spread(0.1, 1.2) * all_s);
    /* failures are rarer than ends of jobs that seldom save */
    if (!isinf(t.limit_s) && t.limit_s < 4 * work_s)
        t.failure_s = fmax(t.failure_s, 4 * t.limit_s);
    return t;
}

static void check_parts(const struct sw_run_time *e)
{
    const double sum = e->steps_s + e->save_s + e->evaluate_s + e->start_s + e->repeated_s +
                       e->restart_s + e->queue_s;
    assert_true(fabs(sum - e->wall_s) <= 1e-9 * e->wall_s);
    assert_true(fabs(e->wall_s - e->queue_s - e->held_s) <= 1e-9 * e->wall_s);
    assert_true(e->save_s >= 0 && e->start_s >= 0 && e->repeated_s >= 0 && e->failures >= 0 &&
                e->jobs >= 1);
}

/* Means agree to 2 % and four standard errors. A draw in 300 may not: where the limit is about what
 * the run takes and saves are rare, a second job hangs on what one failure loses. */
static void check_draw(int32_t i)
{
    const struct sw_run_terms t = draw_terms();
    struct sw_run_time e;
    sw_run_time(&t, &e);
    check_parts(&e);
    double wall = 0, square = 0, held = 0, failures = 0, jobs = 0;
    for (int32_t k = 0; k < runs; k++) {
        const struct simulated s = simulate(&t);
        wall += s.wall_s;
        square += s.wall_s * s.wall_s;
        held += s.held_s;
        failures += (double)s.failures;
        jobs += (double)s.jobs;
    }
    wall /= runs, held /= runs, failures /= runs, jobs /= runs;
    const double error = sqrt(fmax(0, square / runs - wall * wall) / runs);
    /* ends of jobs are whole: between those of the shortest and the longest limit */
    struct sw_run_time least = e, most = e;
    struct sw_run_terms other = t;
    other.limit_s = t.limit_s * (1 + slack);
    sw_run_time(&other, &least);
    other.limit_s = t.limit_s * (1 - slack);
    sw_run_time(&other, &most);
    const bool near =
        wall >= 0.98 * least.wall_s - 4 * error && wall <= 1.02 * most.wall_s + 4 * error &&
        held >= 0.98 * least.held_s - 4 * error && held <= 1.02 * most.held_s + 4 * error;
    if (!near)
        print_message(
            "draw %d: wall %g to %g expected, %g simulated (+-%g); held %g, %g; failures "
            "%g, %g; jobs %g, %g\n  steps %lld x %g, every %lld, pause %g durable %g start "
            "%g load %g failure %g restart %g queue %g limit %g evaluate %g every %lld\n",
            i, least.wall_s, most.wall_s, wall, error, e.held_s, held, e.failures, failures, e.jobs,
            jobs, (long long)t.steps, t.step_s, (long long)t.interval, t.pause_s, t.durable_s,
            t.start_s, t.load_s, t.failure_s, t.restart_s, t.queue_s, t.limit_s, t.evaluate_s,
            (long long)t.evaluate_interval);
    failed += !near;
}

static void expected_ends_as_simulated(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++)
        check_draw(i);
    assert_true(failed * 300 <= draws);
}

int main(int argc, char **argv)
{
    draws = argc > 1 ? atoi(argv[1]) : draws;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    runs = argc > 3 ? atoi(argv[3]) : runs;
    print_message("%d draws, seed %llu, %d runs each\n", draws, (unsigned long long)seed, runs);
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_ends_as_simulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
