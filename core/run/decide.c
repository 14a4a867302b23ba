#include "core/run/decide.h"

#include "core/base/file.h"
#include "core/checkpoint/store.h"

#include <stdlib.h>
#include <string.h>

/* Step of the newest checkpoint to resume from, as far as known without reading it. */
static int64_t find_checkpoint(const struct sw_decide_request *r)
{
    char note[SW_STORE_NOTE_BYTES], *path = NULL;
    char *usual = r->checkpoints == NULL ? sw_path_join(r->folder, "checkpoints") : NULL;
    const char *folder = r->checkpoints != NULL ? r->checkpoints : usual;
    int64_t step = -1;
    if (folder != NULL && sw_store_newest(folder, NULL, &path, note, NULL) == 0 && path != NULL)
        step = sw_store_step_of(sw_path_name(path));
    free(path);
    free(usual);
    return step;
}

static const char *nodes_folder(const struct sw_decide_request *r)
{
    return r->nodes_folder != NULL ? r->nodes_folder : r->folder;
}

static int find_facts(struct sw_decide_request *r, struct sw_error *err)
{
    struct sw_next_facts *f = &r->facts;
    struct sw_launcher_word ignored;
    char note[256];
    if (sw_attempt_read(r->folder, &f->attempt, note, err) != 0)
        return -1;
    f->checkpoint_step = find_checkpoint(r);
    sw_launcher_read(r->launcher, r->lines, f->hosts, f->host_count, &f->word, &f->missing);
    sw_launcher_read(r->launcher_before, r->lines, f->hosts, f->host_count, &ignored, &f->before);
    return 0;
}

/* Records excluded nodes for later jobs of the run, and for people. */
static void remember(const struct sw_decide_request *r, const struct sw_next *next,
                     struct sw_excluded *excluded, struct sw_error *trouble)
{
    for (int32_t i = 0; i < next->node_count; i++) {
        struct sw_excluded_node node = {.attempt = r->facts.attempt.attempt};
        if (sw_excluded_has(excluded, next->node[i]))
            continue;
        snprintf(node.node, sizeof node.node, "%s", next->node[i]);
        snprintf(node.job, sizeof node.job, "%s", r->job);
        snprintf(node.reason, sizeof node.reason, "%.500s", next->reason);
        (void)sw_excluded_add(nodes_folder(r), &node, trouble);
        if (excluded->count < SW_EXCLUDED_NODES)
            excluded->node[excluded->count++] = node;
    }
}

/* Corrects attempt.json if the ranks ended before they began an attempt: its verdict is then the
 * previous one's, not this job's. A run that is done, or running in another job, keeps its
 * verdict. */
static void write_down(const struct sw_decide_request *r, const struct sw_next *next,
                       struct sw_error *trouble)
{
    const struct sw_next_facts *f = &r->facts;
    struct sw_attempt attempt = f->attempt;
    const bool runs = attempt.verdict == SW_VERDICT_RUNNING;
    if (!r->after || attempt.attempt == 0 || attempt.attempt > f->attempt_before ||
        (next->action != SW_NEXT_END && next->action != SW_NEXT_REQUEUE))
        return;
    /* the job before a link or a restart is over */
    if (runs && !f->link && f->restarts == 0)
        return;
    attempt.idle_jobs = sw_next_idle_jobs(f) + 1;
    if (!runs && attempt.verdict != SW_VERDICT_DONE) {
        attempt.verdict = next->code;
        attempt.node_count = 0;
        for (int32_t i = 0; i < next->node_count; i++)
            sw_attempt_add_node(&attempt, next->node[i]);
        snprintf(attempt.cause, sizeof attempt.cause, "%s", next->cause);
        snprintf(attempt.job, sizeof attempt.job, "%s", r->job);
    }
    (void)sw_attempt_write(r->folder, &attempt, trouble);
}

int sw_decide(struct sw_decide_request *r, struct sw_next *out, struct sw_excluded *excluded,
              struct sw_error *trouble, struct sw_error *err)
{
    *trouble = (struct sw_error){0};
    if (find_facts(r, err) != 0 || sw_excluded_read(nodes_folder(r), excluded, err) != 0)
        return -1;
    if (r->after)
        sw_next_after(&r->facts, out);
    else
        sw_next_begin(&r->facts, out);
    remember(r, out, excluded, trouble);
    write_down(r, out, trouble);
    return 0;
}
