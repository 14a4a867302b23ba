/* Runs whose jobs lower their own limits, simulated with the functions that decide so: steps with
 * noise, stragglers, slow phases and drift, saves, evaluations, and nodes that are lost after the
 * limit was lowered. A lower limit never ends a run that its first limit had room for, it is never
 * raised, and at the end runs of two hours and more asked for less than a tenth too much, on
 * average.
 *
 *     test_shrunk_limits [RUNS [SEED]]       the last line is the summary */
#include "planner/supervise/limit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t runs = 1000;
static uint64_t seed = 20261130;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}
static double between(double low, double high)
{
    return low + (high - low) * uniform();
}
/* Draws log-uniformly: as likely between 1 and 2 as between 10 and 20. */
static double between_log(double low, double high)
{
    return low * pow(high / low, uniform());
}
static bool chance(double p)
{
    return uniform() < p;
}
static double normal(void)
{
    const double r = sqrt(-2 * log(1 - uniform()));
    return r * cos(6.283185307179586 * uniform());
}

/* A run as it was drawn; seconds. */
struct run {
    double step, noise, straggler, slow_part, slow_factor, slow_s, drift;
    double pause, durable, evaluation, start, notice, lead, limit, save_s;
    int64_t steps, save_every, evaluate_every, batches;
    int32_t losses;             /* nodes that it can do without */
    double told_slower, slower; /* of a step on the fewest nodes: by the plans, and truly */
};

static double lead_of(double step, double save)
{
    return ceil(fmax(30, 2 * (step + save)));
}

/* Longest wait of the runner for a rank. */
static double stall_of(double longest)
{
    return fmax(60, fmax(fmin(20 * longest, 240), 4 * longest));
}

static struct run draw(void)
{
    struct run r = {0};
    const double all = between_log(600, 48 * 3600);
    r.step = between_log(fmax(0.2, all / 20000), fmin(300, all / 80));
    r.steps = (int64_t)(all / r.step);
    r.noise = between_log(0.003, 0.25);
    r.straggler = chance(0.5) ? between(0, 0.01) : 0;
    r.slow_part = chance(0.6) ? between(0, 0.2) : 0;
    r.slow_factor = between(1.05, 2);
    r.slow_s = between_log(60, fmax(61, 0.05 * all));
    r.drift = between(-0.05, 0.1);
    r.save_every = chance(0.8) ? (int64_t)(between_log(300, 3600) / r.step) + 1 : 0;
    r.durable = between_log(2, 120);
    r.pause = chance(0.5) ? r.durable : between(0.1, 3);
    r.save_s = r.durable * between(0.5, 1.5);
    r.batches = chance(0.8) ? (int64_t)between_log(1, fmax(2, 300 / r.step)) : 0;
    r.evaluate_every =
        chance(0.5) && r.batches > 0 ? (int64_t)(between_log(600, 3600) / r.step) + 1 : 0;
    r.evaluation = (double)r.batches * r.step * between(0.2, 0.5);
    r.start = between_log(15, 240);
    r.lead = lead_of(r.step, r.durable);
    if (chance(0.6)) { /* as emit writes it */
        const double predicted = all * between(0.75, 1.3);
        r.limit = ceil((1.5 * predicted + 600) / 300) * 300;
    } else {
        r.limit = ceil((all * between_log(1.05, 5) + 300) / 60) * 60;
    }
    r.slower = r.told_slower = 1;
    if (r.save_every > 0 && chance(0.3)) {
        const int32_t nodes = 2 + (int32_t)(uniform() * 15);
        r.losses = nodes > 3 && chance(0.3) ? 2 : 1;
        r.told_slower = (double)nodes / (nodes - r.losses);
        r.slower = r.told_slower * between(0.95, 1.04);
    }
    r.notice = uniform() * stall_of(fmax(r.step, r.durable));
    return r;
}

/* ---- One life ---- */

struct life {
    const struct run *run;
    double now;   /* since the job began */
    double limit; /* as it is now */
    double slow_until, fast_until;
    int64_t step, saved;   /* done; durable */
    int32_t shrinks, left; /* nodes that it can still do without */
    double pace;           /* of a step, against one on all nodes */
    double lose_at;        /* a node is lost then; INFINITY */
};

static double step_seconds(struct life *l)
{
    const struct run *r = l->run;
    double seconds = r->step * l->pace * exp(r->noise * normal() - r->noise * r->noise / 2);
    seconds *= 1 + r->drift * (double)l->step / (double)r->steps;
    if (r->straggler > 0 && chance(r->straggler))
        seconds += fmin(seconds * between(1, 7), between(5, 120)); /* a file system that hangs */
    if (r->slow_part > 0 && l->now > l->fast_until) {
        l->slow_until = l->now + r->slow_s * between(0.5, 1.5);
        l->fast_until = l->slow_until + r->slow_s * (1 / r->slow_part - 1) * -log(1 - uniform());
    }
    return l->now < l->slow_until ? seconds * r->slow_factor : seconds;
}

/* Question that plan supervise asks a minute after the last time. */
static void look(struct life *l, const struct sw_pace *pace, double attempt_began, double start,
                 int64_t first)
{
    const struct run *r = l->run;
    double needs;
    const struct sw_limit_facts facts = {.now_s = l->now - attempt_began,
                                         .left_s = l->limit - l->now,
                                         .last_step = r->steps,
                                         .save_every = r->save_every,
                                         .evaluate_every = r->evaluate_every,
                                         .first_step = first,
                                         .evaluation_batches = r->batches,
                                         .save_s = r->save_s,
                                         .lead_s = r->lead,
                                         .start_s = start,
                                         .losses = l->left,
                                         .slower = l->left > 0 ? r->told_slower : 1};
    const int64_t minutes = sw_limit_shrink(pace, &facts, &needs);
    assert_true(minutes >= 0);
    if (minutes == 0)
        return;
    assert_true(needs > 0 && l->limit - (double)minutes * 60 >= l->now + needs - 1e-6);
    l->limit -= (double)minutes * 60;
    if (l->shrinks++ == 0 && l->left > 0 && chance(0.7))
        l->lose_at = l->now + between(0, 1) * (double)(r->steps - l->step) * r->step;
}

/* Trains until the end, or until a node is lost. false: that. */
static bool attempt(struct life *l, double start, double *eval_pending)
{
    const struct run *r = l->run;
    struct sw_pace pace;
    const double began = l->now;
    const int64_t first = l->step;
    double looked = l->now, durable_at = INFINITY, pause = 0, durable = 0;
    int64_t saving = 0;
    sw_pace_begin(&pace);
    while (l->step < r->steps) {
        const double seconds = step_seconds(l);
        l->now += seconds + r->step * 0.002;
        if (l->now > l->lose_at)
            return false;
        l->step++;
        sw_pace_add_step(&pace, l->step, seconds, l->now - began);
        if (l->now > durable_at) {
            sw_pace_add_save(&pace, pause, durable);
            l->saved = saving;
            durable_at = INFINITY;
        }
        if (l->step < r->steps && r->save_every > 0 && l->step % r->save_every == 0) {
            saving = l->step;
            durable = r->durable * between(0.7, 1.5);
            pause = r->pause >= r->durable ? durable : r->pause * between(0.7, 1.5);
            durable_at = l->now + durable;
            l->now += pause;
        }
        if (l->step < r->steps && r->evaluate_every > 0 && l->step % r->evaluate_every == 0) {
            const double took = r->evaluation * l->pace * between(0.9, 1.15);
            l->now += took;
            sw_pace_add_evaluation(&pace, took);
        }
        if (l->now - looked > 60) {
            look(l, &pace, began, start, first);
            looked = l->now;
        }
    }
    l->now += r->durable * between(0.7, 1.5);
    *eval_pending = r->evaluation * l->pace * between(0.9, 1.15);
    l->now += *eval_pending;
    return true;
}

static void live(const struct run *r, struct life *l)
{
    double pending, start = r->start * between(0.8, 1.2);
    *l = (struct life){.run = r,
                       .limit = r->limit,
                       .left = r->losses,
                       .pace = 1,
                       .lose_at = INFINITY,
                       .fast_until = r->slow_s * between(0, 10)};
    l->now = start;
    while (!attempt(l, start, &pending)) {
        l->lose_at = INFINITY;
        l->left--;
        l->pace = 1 + (r->slower - 1) * (double)(r->losses - l->left) / r->losses;
        l->step = l->saved;
        start = r->start * between(0.7, 1.5);
        l->now += r->notice * between(0, 1) + start;
        if (l->left > 0 && chance(0.3))
            l->lose_at = l->now + between(0, 1) * (double)(r->steps - l->step) * r->step;
    }
}

static void no_run_is_ended_early(void **state)
{
    (void)state;
    double over = 0, most = 0, asked = 0;
    int64_t shrunk = 0, lost = 0, shrinks = 0, early = 0;
    int long_runs = 0;
    for (int64_t i = 0; i < runs; i++) {
        struct life l;
        const struct run r = draw();
        live(&r, &l);
        const double ends = l.now, room = r.lead + 60;
        const bool fits = ends <= r.limit - room;
        shrunk += l.shrinks > 0;
        shrinks += l.shrinks;
        lost += l.left < r.losses;
        assert_true(l.limit <= r.limit && (l.limit == r.limit || l.shrinks > 0));
        if (fits && ends > l.limit - room) {
            early++;
            printf("run %d of seed: ends at %.0f s, limit %.0f s, then %.0f s (%d times); %d steps "
                   "of %.1f s, "
                   "slow %.2f x %.2f of %.0f s, lost %d of %d, save %d\n",
                   (int)i, ends, r.limit, l.limit, (int)l.shrinks, (int)r.steps, r.step,
                   r.slow_part, r.slow_factor, r.slow_s, (int)(r.losses - l.left), (int)r.losses,
                   (int)r.save_every);
        }
        if (!fits || ends < 2 * 3600)
            continue;
        long_runs++;
        over += l.limit / ends - 1;
        asked += r.limit / ends - 1;
        most = fmax(most, l.limit / ends - 1);
    }
    printf("%d runs, %d with a lower limit (%.1f times each), %d lost a node: %d ended early; of "
           "%d runs of "
           "two hours and more the limit was %.1f %% too much, at first %.0f %%, at most %.0f %%\n",
           (int)runs, (int)shrunk, shrunk > 0 ? (double)shrinks / (double)shrunk : 0, (int)lost,
           (int)early, long_runs, 100 * over / long_runs, 100 * asked / long_runs, 100 * most);
    assert_int_equal(early, 0);
    assert_true(long_runs > 0 && over / long_runs < 0.10);
    assert_true(lost > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_run_is_ended_early)};
    if (argc > 1)
        runs = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
