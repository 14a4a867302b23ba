#include "planner/scheduler/slurm/accounting.h"

#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/settings.h"

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
static int64_t tres_of(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, length) == 0 && p[length] == '=') {
            const long long value = strtoll(p + length + 1, NULL, 10);
            return value > 0 ? value : 0;
        }
    return 0;
}

const char *sw_slurm_limit_name(enum sw_slurm_limit limit)
{
    static const char *const names[] = {
        [SW_LIMIT_JOB] = "MaxTRES",    [SW_LIMIT_JOB_MINUTES] = "MaxTRESMins",
        [SW_LIMIT_USER] = "MaxTRESPU", [SW_LIMIT_ACCOUNT] = "MaxTRESPA",
        [SW_LIMIT_GROUP] = "GrpTRES",  [SW_LIMIT_GROUP_MINUTES] = "GrpTRESMins"};
    return names[limit];
}

const char *sw_slurm_tres_name(enum sw_slurm_tres tres)
{
    static const char *const names[] = {
        [SW_TRES_NODES] = "nodes", [SW_TRES_GPUS] = "GPUs", [SW_TRES_CPUS] = "processors"};
    return names[tres];
}

/* One field of a line into the limits; returns what follows. */
static const char *limit_field(const char *line, enum sw_slurm_limit limit,
                               struct sw_slurm_limits *out)
{
    static const char *const names[] = {
        [SW_TRES_NODES] = "node", [SW_TRES_GPUS] = "gres/gpu", [SW_TRES_CPUS] = "cpu"};
    char tres[1024];
    line = field(line, tres, sizeof tres);
    for (int32_t k = 0; k < SW_TRES_COUNT; k++)
        out->of[limit][k] = tres_of(tres, names[k]);
    return line;
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
        char wall[64];
        if (*line == '\n')
            continue;
        struct sw_slurm_qos *q = grow((void **)&out->qos, &out->qos_count, sizeof *q, err);
        if (q == NULL)
            return -1;
        const char *p = field(line, q->name, sizeof q->name);
        p = field(p, wall, sizeof wall);
        for (int32_t k = 0; k < SW_LIMITS; k++)
            p = limit_field(p, (enum sw_slurm_limit)k, &q->limits);
        q->max_time = sw_slurm_time_seconds(wall);
    }
    return 0;
}

int sw_slurm_accounting_read_associations(const char *text, bool whole_accounts,
                                          struct sw_slurm_accounting *out, struct sw_error *err)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        static const enum sw_slurm_limit order[] = {SW_LIMIT_JOB, SW_LIMIT_JOB_MINUTES,
                                                    SW_LIMIT_GROUP, SW_LIMIT_GROUP_MINUTES};
        char wall[64], user[64];
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
        for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
            p = limit_field(p, order[k], &a->limits);
        p = field(p, a->default_qos, sizeof a->default_qos);
        field(p, user, sizeof user);
        a->whole_account = whole_accounts;
        a->max_time = sw_slurm_time_seconds(wall);
        if (whole_accounts && user[0] != '\0')
            out->association_count--; /* of somebody */
    }
    return 0;
}

/* What sacctmgr shows of `what`, with these fields. malloc'ed, NULL: it cannot be asked. */
static char *ask(const char *const *what, const char *fields)
{
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    char format[256], *text = NULL;
    const char *argv[8] = {"sacctmgr", "-nP", "show"};
    int32_t count = 3;
    for (; *what != NULL; what++)
        argv[count++] = *what;
    snprintf(format, sizeof format, "format=%s", fields);
    argv[count] = format;
    if (sw_slurm_process(argv, NULL, ANSWER_SECONDS, &result, &ignored) == 0 && !result.timed_out &&
        result.exit_code == 0) {
        text = result.out;
        result.out = NULL;
    }
    sw_process_free(&result);
    return text;
}

/* The same; a release that does not know all of the fields knows the first. */
static char *ask_all(const char *const *what, const char *fields, const char *first)
{
    char *text = ask(what, fields);
    return text != NULL ? text : ask(what, first);
}

/* The accounts of the user: what they limit holds for all of their users. */
static int load_accounts(const char *clusters, struct sw_slurm_accounting *out,
                         struct sw_error *err)
{
    char accounts[1024];
    size_t used = (size_t)snprintf(accounts, sizeof accounts, "accounts=");
    for (int32_t i = 0; i < out->association_count && used < sizeof accounts - 80; i++)
        used += (size_t)snprintf(accounts + used, sizeof accounts - used, "%s%s", i > 0 ? "," : "",
                                 out->association[i].account);
    if (out->association_count == 0)
        return 0;
    const char *const what[] = {"assoc", accounts, clusters, NULL};
    char *text = ask(what, SW_SACCTMGR_ASSOC);
    const int status =
        text != NULL ? sw_slurm_accounting_read_associations(text, true, out, err) : 0;
    free(text);
    return status;
}

void sw_slurm_accounting_enforce(const char *list, struct sw_slurm_accounting *out)
{
    static const char *const whole[] = {"associations", "limits", "qos", "safe", "wckeys"};
    const bool all = list[0] == '\0' || sw_slurm_list_has(list, "all");
    out->no_qos = !all && !sw_slurm_list_has(list, "qos");
    out->no_limits = !all && !sw_slurm_list_has(list, "limits") && !sw_slurm_list_has(list, "safe");
    out->no_associations = !all;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (sw_slurm_list_has(list, whole[i]))
            out->no_associations = false;
}

int sw_slurm_accounting_load(const struct sw_slurm *slurm, struct sw_slurm_accounting *out,
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
    snprintf(clusters, sizeof clusters, "cluster=%s", sw_slurm_cluster(slurm));
    sw_slurm_accounting_enforce(sw_slurm_enforced(slurm), out);
    const char *const qos[] = {"qos", NULL},
                      *const associations[] = {"assoc", users, clusters, NULL},
                      *const defaults[] = {"user", user, NULL};
    char *text = ask_all(qos, SW_SACCTMGR_QOS, "Name,MaxWall,MaxTRES");
    if (text == NULL)
        return 0;
    out->known = true;
    status = sw_slurm_accounting_read_qos(text, out, err);
    free(text);
    text = status == 0
               ? ask_all(associations, SW_SACCTMGR_ASSOC, "Account,Partition,QOS,MaxWall,MaxTRES")
               : NULL;
    if (text != NULL)
        status = sw_slurm_accounting_read_associations(text, false, out, err);
    free(text);
    if (status == 0)
        status = load_accounts(clusters, out, err);
    text = status == 0 ? ask(defaults, "DefaultAccount") : NULL;
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
        if (a->whole_account || strcmp(a->account, wanted) != 0)
            continue;
        if (partition != NULL && strcmp(a->partition, partition) == 0)
            return a;
        if (a->partition[0] == '\0')
            any = a;
    }
    return any;
}

const struct sw_slurm_association *
sw_slurm_find_account(const struct sw_slurm_accounting *accounting, const char *account)
{
    for (int32_t i = 0; i < accounting->association_count; i++)
        if (accounting->association[i].whole_account &&
            strcmp(accounting->association[i].account, account) == 0)
            return &accounting->association[i];
    return NULL;
}

const struct sw_slurm_qos *sw_slurm_default_qos(const struct sw_slurm_accounting *accounting,
                                                const struct sw_slurm_association *association)
{
    if (association == NULL)
        return NULL;
    if (association->default_qos[0] != '\0')
        return sw_slurm_find_qos(accounting, association->default_qos);
    return sw_slurm_list_has(association->qos, "normal") ? sw_slurm_find_qos(accounting, "normal")
                                                         : NULL;
}

bool sw_slurm_list_has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0'))
            return true;
    return false;
}
