#include "planner/slurm/accounting.h"

#include "core/config/config.h"
#include "planner/job/process.h"

#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 5.0

/* The next field of a line that '|' separates, into out; returns what follows. */
static const char *field(const char *line, char *out, size_t bytes)
{
    const size_t length = strcspn(line, "|\n");
    snprintf(out, bytes, "%.*s", (int)length, line);
    return line + length + (line[length] == '|');
}

/* The number of `name` in "node=4,gres/gpu=16"; 0: it is not there. */
static int32_t tres_of(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, length) == 0 && p[length] == '=') {
            const long value = strtol(p + length + 1, NULL, 10);
            return value > 0 && value < INT32_MAX ? (int32_t)value : 0;
        }
    return 0;
}

/* One more zeroed element of *array, which holds count. */
static void *grow(void **array, int32_t *count, size_t bytes, struct sw_error *err)
{
    void *grown = realloc(*array, ((size_t)*count + 1) * bytes);
    if (grown == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for Slurm's accounts");
        return NULL;
    }
    *array = grown;
    return memset((char *)grown + (size_t)(*count)++ * bytes, 0, bytes);
}

int sw_slurm_accounting_read_qos(const char *text, struct sw_slurm_accounting *out,
                                 struct sw_error *err)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        char wall[64], tres[1024];
        if (*line == '\n')
            continue;
        struct sw_slurm_qos *q = grow((void **)&out->qos, &out->qos_count, sizeof *q, err);
        if (q == NULL)
            return -1;
        const char *p = field(line, q->name, sizeof q->name);
        p = field(p, wall, sizeof wall);
        field(p, tres, sizeof tres);
        q->max_time = sw_slurm_time_seconds(wall);
        q->max_nodes = tres_of(tres, "node");
        q->max_gpus = tres_of(tres, "gres/gpu");
    }
    return 0;
}

int sw_slurm_accounting_read_associations(const char *text, struct sw_slurm_accounting *out,
                                          struct sw_error *err)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        char wall[64], tres[1024];
        if (*line == '\n')
            continue;
        struct sw_slurm_association *a =
            grow((void **)&out->association, &out->association_count, sizeof *a, err);
        if (a == NULL)
            return -1;
        const char *p = field(line, a->account, sizeof a->account);
        p = field(p, a->partition, sizeof a->partition);
        p = field(p, a->qos, sizeof a->qos);
        p = field(p, wall, sizeof wall);
        field(p, tres, sizeof tres);
        a->max_time = sw_slurm_time_seconds(wall);
        a->max_nodes = tres_of(tres, "node");
        a->max_gpus = tres_of(tres, "gres/gpu");
    }
    return 0;
}

/* What sacctmgr prints; "" where it cannot be asked. malloc'ed, NULL: it cannot. */
static char *ask(const char *const *argv)
{
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    char *text = NULL;
    if (sw_process_run(argv, NULL, ANSWER_SECONDS, &result, &ignored) == 0 && !result.timed_out &&
        result.exit_code == 0) {
        text = result.out;
        result.out = NULL;
    }
    sw_process_free(&result);
    return text;
}

int sw_slurm_accounting_load(const char *cluster, struct sw_slurm_accounting *out,
                             struct sw_error *err)
{
    char user[128], users[160], clusters[192];
    int status = 0;
    *out = (struct sw_slurm_accounting){0};
    const struct passwd *who = getpwuid(getuid());
    if (who == NULL || !sw_process_exists("sacctmgr"))
        return 0;
    snprintf(user, sizeof user, "%s", who->pw_name);
    snprintf(users, sizeof users, "user=%s", user);
    snprintf(clusters, sizeof clusters, "cluster=%s", cluster);
    const char *const qos[] = {"sacctmgr", "-nP", "show", "qos", "format=Name,MaxWall,MaxTRES",
                               NULL};
    char *text = ask(qos);
    if (text == NULL)
        return 0;
    out->known = true;
    status = sw_slurm_accounting_read_qos(text, out, err);
    free(text);
    const char *const associations[] = {"sacctmgr",
                                        "-nP",
                                        "show",
                                        "assoc",
                                        users,
                                        clusters,
                                        "format=Account,Partition,QOS,MaxWall,MaxTRES",
                                        NULL};
    text = status == 0 ? ask(associations) : NULL;
    if (text != NULL)
        status = sw_slurm_accounting_read_associations(text, out, err);
    free(text);
    const char *const defaults[] = {
        "sacctmgr", "-nP", "show", "user", user, "format=DefaultAccount", NULL};
    text = status == 0 ? ask(defaults) : NULL;
    if (text != NULL)
        field(text, out->default_account, sizeof out->default_account);
    free(text);
    return status;
}

void sw_slurm_accounting_free(struct sw_slurm_accounting *accounting)
{
    free(accounting->qos);
    free(accounting->association);
    *accounting = (struct sw_slurm_accounting){0};
}

const struct sw_slurm_qos *sw_slurm_find_qos(const struct sw_slurm_accounting *accounting,
                                             const char *name)
{
    for (int32_t i = 0; i < accounting->qos_count; i++)
        if (strcmp(accounting->qos[i].name, name) == 0)
            return &accounting->qos[i];
    return NULL;
}

const struct sw_slurm_association *
sw_slurm_find_association(const struct sw_slurm_accounting *accounting, const char *account,
                          const char *partition)
{
    const struct sw_slurm_association *any = NULL;
    const char *wanted = account != NULL ? account : accounting->default_account;
    for (int32_t i = 0; i < accounting->association_count; i++) {
        const struct sw_slurm_association *a = &accounting->association[i];
        if (strcmp(a->account, wanted) != 0)
            continue;
        if (partition != NULL && strcmp(a->partition, partition) == 0)
            return a;
        if (a->partition[0] == '\0')
            any = a;
    }
    return any;
}

bool sw_slurm_list_has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0'))
            return true;
    return false;
}
