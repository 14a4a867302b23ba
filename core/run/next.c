#include "core/run/next.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sw_next_word(enum sw_next_action action)
{
    static const char *const words[] = {[SW_NEXT_GO] = "go",
                                        [SW_NEXT_END] = "end",
                                        [SW_NEXT_AGAIN] = "again",
                                        [SW_NEXT_REQUEUE] = "requeue"};
    return words[action];
}

static void say(struct sw_next *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct sw_next *out, const char *format, ...)
{
    const size_t used = strlen(out->reason);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out->reason + used, sizeof out->reason - used, format, arguments);
    va_end(arguments);
}

static void set(struct sw_next *out, enum sw_next_action action, int32_t code)
{
    out->action = action;
    out->code = code;
}

bool sw_next_is_final(int32_t verdict)
{
    switch (verdict) {
    case SW_VERDICT_DONE:
    case SW_UNMET:
    case SW_BAD_INPUT:
    case SW_VERDICT_NO_PROGRESS:
    case SW_VERDICT_INTERRUPTED:
    case SW_VERDICT_TERMINATED:
        return true;
    default:
        return false;
    }
}

int64_t sw_next_idle_jobs(const struct sw_next_facts *f)
{
    return f->link || f->restarts > 0 ? f->attempt.idle_jobs : 0;
}

/* ---- Before ---- */

void sw_next_begin(const struct sw_next_facts *f, struct sw_next *out)
{
    const struct sw_attempt *a = &f->attempt;
    memset(out, 0, sizeof *out);
    if (f->restarts >= f->max_attempts) {
        set(out, SW_NEXT_END, SW_ENVIRONMENT);
        say(out, "this job was started %" PRId64 " times, and max_attempts is %" PRId64,
            f->restarts + 1, f->max_attempts);
    } else if (f->link && a->attempt > 0 && sw_next_is_final(a->verdict)) {
        say(out,
            "nothing is left to do for this link of the chain: attempt %" PRId64
            " ended with %d (%s)",
            a->attempt, (int)a->verdict, a->cause);
    } else if (f->link && a->attempt + sw_next_idle_jobs(f) >= f->max_attempts) {
        say(out,
            "nothing is left to do for this link of the chain: %" PRId64
            " attempts were made, and max_attempts is %" PRId64,
            a->attempt + sw_next_idle_jobs(f), f->max_attempts);
    }
    if (out->reason[0] != '\0')
        out->action = SW_NEXT_END;
}

/* ---- After ---- */

struct ending {
    const struct sw_next_facts *f;
    struct sw_next *out;
    bool began;    /* true if the ranks began an attempt */
    bool hung;     /* true if not, since MPI waited in vain for some */
    int32_t code;  /* the verdict, or else the exit status */
    bool progress; /* true if a checkpoint has new steps */
};

/* A single time may be lateness; a lost node is among the dead. */
static bool is_missing_again(const struct sw_next_facts *f, int32_t host)
{
    for (int32_t i = 0; i < f->before.count; i++)
        if (f->before.host[i] == host)
            return true;
    return false;
}

/* "; ranks 4-5 (host n3) did not start" */
static void say_missing(struct ending *e)
{
    const struct sw_next_facts *f = e->f;
    const int32_t each = f->ranks_per_node;
    int32_t again = 0, told = 0;
    for (int32_t i = 0; i < f->missing.count; i++) {
        const int32_t host = f->missing.host[i], first = host * each;
        say(e->out, "%s", i == 0 ? "; " : ", ");
        if (each == 1)
            say(e->out, "rank %d ", (int)first);
        else if (each > 1)
            say(e->out, "ranks %d-%d ", (int)first, (int)(first + each - 1));
        say(e->out, "(host %s)", f->hosts[host]);
        again += is_missing_again(f, host);
    }
    if (f->missing.count > 0)
        say(e->out, " did not start%s", again == 0 ? "" : ", ");
    for (int32_t i = 0; i < f->missing.count && again < f->missing.count; i++)
        if (is_missing_again(f, f->missing.host[i]))
            say(e->out, "%s%s", told++ == 0 ? "and " : ", ", f->hosts[f->missing.host[i]]);
    if (again > 0)
        say(e->out, "%snot in the start before either", told > 0 ? " " : "");
}

/* "attempt 2 ended after step 12: CAUSE" */
static void say_cause(struct ending *e)
{
    const struct sw_attempt *a = &e->f->attempt;
    const char *cause = e->began && a->verdict != SW_VERDICT_RUNNING ? a->cause : "";
    if (cause[0] == '\0')
        cause = e->f->word.text;
    if (e->began)
        say(e->out, "attempt %" PRId64 " ended", a->attempt);
    else
        say(e->out, "the ranks ended before the first step");
    if (cause[0] != '\0')
        say(e->out, ": %s", cause);
    else
        say(e->out, " with exit code %d for an unknown reason", (int)e->code);
    if (e->hung)
        say_missing(e);
    snprintf(e->out->cause, sizeof e->out->cause, "%.*s", (int)sizeof e->out->cause - 1,
             e->out->reason);
}

static void add_node(struct sw_next *out, const char *node)
{
    if (node[0] == '\0' || out->node_count == SW_ATTEMPT_NODES || !sw_excluded_is_name(node))
        return;
    for (int32_t i = 0; i < out->node_count; i++)
        if (strcmp(out->node[i], node) == 0)
            return;
    snprintf(out->node[out->node_count++], sizeof out->node[0], "%s", node);
}

/* Finds the nodes to exclude from now on. */
static void find_bad_nodes(struct ending *e)
{
    const struct sw_next_facts *f = e->f;
    for (int32_t i = 0; i < f->dead_count; i++)
        add_node(e->out, f->dead[i]);
    if (e->began && f->attempt.verdict == SW_VERDICT_BAD_NODE)
        for (int32_t i = 0; i < f->attempt.node_count; i++)
            add_node(e->out, f->attempt.node[i]);
    if (!e->began && (f->word.cannot_start || f->word.gone))
        add_node(e->out, f->word.host);
    for (int32_t i = 0; e->hung && i < f->missing.count; i++)
        if (is_missing_again(f, f->missing.host[i]))
            add_node(e->out, f->hosts[f->missing.host[i]]);
}

static bool has_plan(const struct ending *e)
{
    const int32_t left = e->f->nodes - e->out->node_count;
    return e->f->nodes > 0 && left >= e->f->least && left <= e->f->most;
}

/* A job that began no attempt counts as one once it is over. */
static bool attempts_remain(struct ending *e, bool elsewhere)
{
    const struct sw_next_facts *f = e->f;
    const int64_t jobs = f->restarts + 1, attempts = f->attempt.attempt + sw_next_idle_jobs(f) +
                                                     (elsewhere && !e->began ? 1 : 0);
    const int64_t made = attempts > jobs ? attempts : jobs;
    if (made < f->max_attempts)
        return true;
    say(e->out, "; it ends here: %" PRId64 " attempts were made, and max_attempts is %" PRId64,
        made, f->max_attempts);
    return false;
}

static void say_nodes(struct sw_next *out)
{
    for (int32_t i = 0; i < out->node_count; i++)
        say(out, "%s%s", i == 0 ? "without " : ", ", out->node[i]);
}

static void say_where(struct ending *e)
{
    const int64_t step = e->f->checkpoint_step;
    if (step > 0)
        say(e->out, " from step %" PRId64, step);
    else
        say(e->out, " from the beginning");
}

/* Continues in another job, if the run may. */
static void go_on_elsewhere(struct ending *e)
{
    if (e->f->how == SW_CONTINUE_NONE) {
        say(e->out, "; submit the script again to resume");
        say_where(e);
        say(e->out, ", or let it with %s", e->f->how_key);
    } else if (attempts_remain(e, true)) {
        set(e->out, SW_NEXT_REQUEUE, e->code);
        say(e->out, "; attempt %" PRId64 " resumes", e->f->attempt.attempt + 1);
        say_where(e);
        say(e->out, " %s%s",
            e->f->how == SW_CONTINUE_CHAIN ? "in the next link of the chain"
                                           : "when the job is requeued",
            e->out->node_count > 0 ? ", " : "");
        say_nodes(e->out);
    }
}

static void do_without(struct ending *e)
{
    const struct sw_next_facts *f = e->f;
    const int32_t left = f->nodes - e->out->node_count;
    if (!e->began || e->code != SW_VERDICT_REQUEUE)
        e->out->code = e->code = SW_VERDICT_BAD_NODE;
    if (f->dead_count > 0)
        say(e->out, "; %s%s not answer", f->dead[0],
            f->dead_count > 1 ? " and others do" : " does");
    if (has_plan(e)) {
        if (!attempts_remain(e, false))
            return;
        set(e->out, SW_NEXT_AGAIN, e->code);
        say(e->out, "; attempt %" PRId64 " resumes", f->attempt.attempt + 1);
        say_where(e);
        say(e->out, " with the %d nodes that are left, ", (int)left);
        say_nodes(e->out);
        return;
    }
    go_on_elsewhere(e);
}

/* Starts again after no attempt was begun: MPI's own start fails now and then. */
static void start_again(struct ending *e)
{
    const struct sw_next_facts *f = e->f;
    if (f->starts < SW_NEXT_STARTS) {
        set(e->out, SW_NEXT_AGAIN, e->code);
        say(e->out, "; start %d of %d follows", f->starts + 1, SW_NEXT_STARTS);
    } else if ((e->hung || f->word.no_step) && f->how != SW_CONTINUE_NONE &&
               f->checkpoint_step >= 0 && f->attempt.attempt > 0 &&
               sw_next_idle_jobs(f) + 1 < SW_NEXT_IDLE_JOBS) {
        /* other nodes may work; a launcher's 143 would end the run for the next job */
        if (sw_next_is_final(e->code))
            e->out->code = e->code = SW_ENVIRONMENT;
        go_on_elsewhere(e);
    } else {
        say(e->out, "; it ends here, after %d starts", f->starts);
    }
}

/* Recovers from an unplanned end. */
static void recover(struct ending *e)
{
    if (e->f->checkpoint_step < 0)
        say(e->out, "; there is no checkpoint to resume from");
    else if (!e->progress)
        say(e->out, "; it ends here: no step was gained since step %" PRId64,
            e->f->attempt.first_step);
    else
        go_on_elsewhere(e);
}

void sw_next_after(const struct sw_next_facts *f, struct sw_next *out)
{
    const struct sw_attempt *a = &f->attempt;
    struct ending e = {.f = f, .out = out, .began = a->attempt > f->attempt_before};
    e.hung = !e.began && f->word.hung;
    const bool told = e.began && a->verdict != SW_VERDICT_RUNNING;
    memset(out, 0, sizeof *out);
    e.code = told ? a->verdict : f->status;
    if (!told && e.code == SW_VERDICT_DONE)
        e.code = SW_ENVIRONMENT; /* the launcher's code for ranks that it lost */
    e.progress = a->step > a->first_step || f->checkpoint_step > a->first_step;
    set(out, SW_NEXT_END, e.code);
    if (told && e.code == SW_VERDICT_DONE)
        return;
    say_cause(&e);
    /* a rank that ended by itself leaves its launcher with 143, from those that had to follow */
    const bool said = f->word.text[0] != '\0';
    if (sw_next_is_final(e.code) && (told || !said))
        return;
    find_bad_nodes(&e);
    /* the ranks agreed on the error; a crash leaves their launcher with 128 and more */
    const bool agreed = e.code == SW_UNMET || e.code == SW_BAD_INPUT || e.code == SW_ENVIRONMENT ||
                        e.code == SW_VERDICT_INTERRUPTED;
    if (!e.began && agreed && f->status != 0 && !f->word.no_step && !e.hung && out->node_count == 0)
        return;
    /* they answer now: using them is better than ending */
    if (e.hung && f->dead_count == 0 && f->how == SW_CONTINUE_NONE && !has_plan(&e))
        out->node_count = 0;
    if (out->node_count > 0)
        do_without(&e);
    else if (!e.began)
        start_again(&e);
    else if (e.code == SW_VERDICT_REQUEUE)
        go_on_elsewhere(&e);
    else
        recover(&e);
}
