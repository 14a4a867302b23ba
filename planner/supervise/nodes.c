/* The job's nodes: those on which ranks are started and with which plan, and those that do not
 * answer. */
#include "planner/supervise/supervise_internal.h"

#include "core/base/file.h"
#include "core/run/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sw_attempt sw_supervise_attempt(const struct sw_supervisor *s)
{
    struct sw_attempt attempt;
    char note[256];
    if (sw_attempt_read(s->folder, &attempt, note, NULL) != 0)
        attempt = (struct sw_attempt){.verdict = SW_VERDICT_RUNNING};
    return attempt;
}

/* ---- The choice ---- */

/* "a,b"; malloc'ed. NULL: no memory. */
static char *join(const struct sw_argv *names)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    for (int32_t i = 0; i < names->count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", names->item[i]);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void sw_supervise_set_excluded(struct sw_supervisor *s)
{
    struct sw_argv names = {0};
    if (s->set->exclude[0] != '\0')
        sw_argv_add(&names, "%s", s->set->exclude);
    for (int32_t i = 0; i < s->excluded->count; i++)
        sw_argv_add(&names, "%s", s->excluded->node[i].node);
    free(s->leave_out);
    s->leave_out = s->excluded->count > 0 ? join(&names) : NULL;
    sw_argv_free(&names);
    s->machine.facts &= ~(uint32_t)SW_SUPERVISE_EXCLUDES;
    if (s->leave_out != NULL)
        s->machine.facts |= SW_SUPERVISE_EXCLUDES;
}

/* The digest of the plan for that many nodes, in "3:0123456789abcdef,4:...". */
static bool find_digest(const char *digests, int32_t nodes, char out[20])
{
    for (const char *p = digests; *p != '\0'; p += *p == ',') {
        char *end;
        const long count = strtol(p, &end, 10);
        const size_t length = strcspn(end, ",");
        if (*end == ':' && count == nodes && length > 1 && length <= 17) {
            snprintf(out, 20, "%.*s", (int)length - 1, end + 1);
            return true;
        }
        p = end + length;
    }
    return false;
}

/* "/x/run.4.plan.yaml" for another number of nodes. */
void sw_supervise_plan_of(const struct sw_supervisor *s, int32_t nodes, char out[PATH_MAX])
{
    static const char ending[] = ".plan.yaml";
    const char *plan = s->set->plan;
    char most[32], own[32];
    snprintf(most, sizeof most, ".%d%s", (int)s->set->most, ending);
    const size_t length = strlen(plan), tail = strlen(most);
    if (s->set->elastic && length > tail && strcmp(plan + length - tail, most) == 0)
        snprintf(out, PATH_MAX, "%.*s.%d%s", (int)(length - tail), plan, (int)nodes, ending);
    else
        snprintf(out, PATH_MAX, "%s", plan);
    snprintf(own, sizeof own, ".%d%s", (int)nodes, ending);
    sw_supervise_stage_plan(s, s->set->elastic ? own : ending, out);
}

/* Orders nodes, since the price assumes that neighbouring ranks share a block; otherwise the
 * scheduler sorts by name. */
static void arrange(struct sw_supervisor *s)
{
    s->arranged = s->set->topology[0] != '\0' && s->scheduler->arrange != NULL &&
                  s->used.count > 1 && s->scheduler->arrange(&s->job, &s->used);
    if (!s->arranged)
        return;
    char *names = join(&s->used);
    fprintf(stderr, "ranks are started %s: %s\n",
            strcmp(s->set->topology, "block") == 0 ? "block by block"
                                                   : "leaf switch by leaf switch",
            names != NULL ? names : "");
    free(names);
}

bool sw_supervise_choose(struct sw_supervisor *s)
{
    char choice[PATH_MAX];
    sw_argv_free(&s->used);
    sw_argv_free(&s->without);
    for (int32_t i = 0; i < s->job.hosts.count; i++) {
        const char *host = s->job.hosts.name[i];
        sw_argv_add(sw_excluded_has(s->excluded, host) ? &s->without : &s->used, "%s", host);
    }
    free(s->without_list);
    s->without_list = join(&s->without);
    const int32_t nodes = s->job.node_count - s->without.count;
    s->machine.facts &= ~(uint32_t)(SW_SUPERVISE_WITHOUT | SW_SUPERVISE_TRIES);
    if (s->without.count > 0)
        s->machine.facts |= SW_SUPERVISE_WITHOUT;
    snprintf(choice, sizeof choice, "%d %s", (int)nodes,
             s->without_list != NULL ? s->without_list : "");
    if (strcmp(s->set->preflight, "off") != 0 && strcmp(choice, s->tried) != 0)
        s->machine.facts |= SW_SUPERVISE_TRIES;
    arrange(s);
    sw_supervise_plan_of(s, nodes, s->plan);
    return find_digest(s->digests, nodes, s->digest);
}

/* ---- Nodes that do not answer ---- */

/* The job's name for "n3" or "n3.cluster.site"; NULL: not one of its nodes. */
static const char *own_name(const struct sw_supervisor *s, const char *name, size_t length)
{
    for (int32_t whole = 1; whole >= 0; whole--) {
        const size_t wanted = whole ? length : strcspn(name, ".");
        for (int32_t i = 0; i < s->job.hosts.count && wanted <= length; i++) {
            const char *host = s->job.hosts.name[i];
            if (strlen(host) == wanted && strncmp(host, name, wanted) == 0)
                return host;
        }
    }
    return NULL;
}

static void suspect(const struct sw_supervisor *s, const char *name, size_t length,
                    struct sw_hosts *out)
{
    const char *host = own_name(s, name, length);
    for (int32_t i = 0; host != NULL && i < out->count; i++)
        if (strcmp(out->name[i], host) == 0)
            return;
    if (host != NULL)
        (void)sw_hosts_add(out, host, NULL);
}

/* Suspects the node that reports another one's loss, "(host n1)": it may be the one that is cut
 * off. */
static void suspect_named(const struct sw_supervisor *s, struct sw_hosts *out)
{
    static const char mark[] = "(host ";
    const struct sw_attempt attempt = sw_supervise_attempt(s);
    for (int32_t i = 0; i < attempt.node_count; i++)
        suspect(s, attempt.node[i], strlen(attempt.node[i]), out);
    for (const char *p = attempt.cause; (p = strstr(p, mark)) != NULL;) {
        p += sizeof mark - 1;
        const size_t length = strcspn(p, ")");
        if (p[length] == ')')
            suspect(s, p, length, out);
    }
}

/* Suspects nodes from which a start that hung heard neither a rank nor a task: dead, or late. */
static void suspect_unheard(const struct sw_supervisor *s, struct sw_hosts *out)
{
    enum { MOST_BYTES = 64 << 20, MOST_UNHEARD = 8 };
    char *text = NULL;
    size_t bytes = 0;
    if (sw_file_read(s->launcher, true, MOST_BYTES, &text, &bytes, NULL) != 0)
        return;
    const bool hung = strstr(text, ": MPI does not start for ") != NULL;
    for (int32_t i = 0, found = 0; hung && i < s->used.count && found < MOST_UNHEARD; i++) {
        if (sw_launcher_is_heard_of(text, s->scheduler->lines, s->used.item[i]))
            continue;
        suspect(s, s->used.item[i], strlen(s->used.item[i]), out);
        found++;
    }
    free(text);
}

void sw_supervise_probe(struct sw_supervisor *s)
{
    struct sw_hosts suspects = {0};
    sw_hosts_free(&s->dead);
    s->scheduler->find_gone(&s->job, &s->dead);
    suspect_named(s, &suspects);
    suspect_unheard(s, &suspects);
    for (int32_t i = 0; i < suspects.count; i++)
        if (!s->scheduler->answers(suspects.name[i]))
            (void)sw_hosts_add(&s->dead, suspects.name[i], NULL);
    sw_hosts_sort(&s->dead); /* each once */
    sw_hosts_free(&suspects);
}
