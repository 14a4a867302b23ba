#include "planner/scheduler/slurm/accounting.h"

#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/queue.h"

#include <math.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 5.0

/* Fields that every release has. */
#define SW_SACCTMGR_QOS_OLD "Name,MaxWall,MaxTRES"
#define SW_SACCTMGR_ASSOC_OLD "Account,Partition,QOS,MaxWall,MaxTRES"

/* Copies the next field of a line separated by '|' into out; returns the rest. */
static const char *field(const char *line, char *out, size_t bytes)
{
    const size_t length = strcspn(line, "|\n");
    snprintf(out, bytes, "%.*s", (int)length, line);
    return line + length + (line[length] == '|');
}

/* Seconds of MaxWall and GrpWall; none: INFINITY. "00:00:00" is a limit of no time at all. */
static double wall_of(const char *text)
{
    const double seconds = sw_slurm_duration(text);
    return seconds >= 0 ? seconds : INFINITY;
}

int64_t sw_slurm_limit_of(const char *list, const char *tres)
{
    const size_t length = strlen(tres);
    for (const char *p = list; p != NULL && *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        if (strncasecmp(p, tres, length) != 0 || p[length] != '=')
            continue;
        char *end = NULL;
        const double value = strtod(p + length + 1, &end);
        const double unit = *end == 'K'   ? 1.0 / 1024
                            : *end == 'G' ? 1024
                            : *end == 'T' ? 1024.0 * 1024
                            : *end == 'P' ? 1024.0 * 1024 * 1024
                                          : 1;
        return value >= 0 && value * unit < 9e18 ? (int64_t)(value * unit) : -1;
    }
    return -1;
}

const char *sw_slurm_limit_name(enum sw_slurm_limit limit)
{
    static const char *const names[] = {[SW_LIMIT_JOB] = "MaxTRES",
                                        [SW_LIMIT_JOB_MINUTES] = "MaxTRESMins",
                                        [SW_LIMIT_USER] = "MaxTRESPU",
                                        [SW_LIMIT_ACCOUNT] = "MaxTRESPA",
                                        [SW_LIMIT_GROUP] = "GrpTRES",
                                        [SW_LIMIT_GROUP_MINUTES] = "GrpTRESMins",
                                        [SW_LIMIT_NODE] = "MaxTRESPerNode",
                                        [SW_LIMIT_LEAST] = "MinTRES",
                                        [SW_LIMIT_GROUP_RUN_MINUTES] = "GrpTRESRunMins",
                                        [SW_LIMIT_USER_RUN_MINUTES] = "MaxTRESRunMinsPU",
                                        [SW_LIMIT_ACCOUNT_RUN_MINUTES] = "MaxTRESRunMinsPA"};
    return names[limit];
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

/* ---- Lines ---- */

enum field_kind { FIELD_END, FIELD_TEXT, FIELD_LIST, FIELD_TRES, FIELD_COUNT, FIELD_WALL };
/* Destination of a field: the index of a limit or count, or the offset of a text. */
struct field_row {
    enum field_kind kind;
    size_t where, bytes;
};

static char *no_memory(struct sw_error *err)
{
    sw_fail(err, SW_ENVIRONMENT, "out of memory for Slurm's accounts");
    return NULL;
}

/* Copy of the next field, malloc'ed; *line becomes the rest. */
static char *take_field(const char **line, struct sw_error *err)
{
    const size_t length = strcspn(*line, "|\n");
    char *text = strndup(*line, length);
    *line += length + ((*line)[length] == '|');
    return text != NULL ? text : no_memory(err);
}

/* Reads a line's fields into a record and its limits; missing ones count as empty. */
static int read_fields(const char *line, const struct field_row *row, void *record,
                       struct sw_slurm_limits *limits, struct sw_error *err)
{
    for (; row->kind != FIELD_END; row++) {
        char *text = take_field(&line, err), *where = (char *)record + row->where;
        if (text == NULL)
            return -1;
        if (row->kind == FIELD_TEXT)
            snprintf(where, row->bytes, "%s", text);
        else if (row->kind == FIELD_COUNT)
            limits->count[row->where] = text[0] != '\0' ? strtoll(text, NULL, 10) : -1;
        else if (row->kind == FIELD_WALL)
            *(double *)((char *)limits + row->where) = wall_of(text);
        if (row->kind == FIELD_LIST) {
            *(char **)where = text;
        } else if (row->kind == FIELD_TRES && text[0] != '\0') {
            limits->tres[row->where] = text;
        } else {
            free(text);
        }
    }
    return 0;
}

#define TEXT_FIELD(type, member)                                                                   \
    {                                                                                              \
        FIELD_TEXT, offsetof(struct type, member), sizeof((struct type *)0)->member                \
    }
#define WALL_FIELD(member)                                                                         \
    {                                                                                              \
        FIELD_WALL, offsetof(struct sw_slurm_limits, member), 0                                    \
    }

/* A qos whose flags and factors are still texts. */
struct qos_line {
    struct sw_slurm_qos qos;
    char flags[512], limit_factor[32], usage_factor[32];
};

static void read_flags(const char *flags, struct sw_slurm_qos *q)
{
    const struct {
        const char *name;
        bool *flag;
    } rows[] = {{"DenyOnLimit", &q->denies},
                {"OverPartQOS", &q->over_partition},
                {"PartitionTimeLimit", &q->lifts_time},
                {"PartitionMaxNodes", &q->lifts_most_nodes},
                {"PartitionMinNodes", &q->lifts_least_nodes},
                {"RequiresReservation", &q->needs_reservation},
                {"Relative", &q->relative},
                {"UsageFactorSafe", &q->safe_factor},
                {"NoDecay", &q->keeps_usage}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        *rows[i].flag = sw_slurm_list_has(flags, rows[i].name);
}

static void free_limits(struct sw_slurm_limits *limits)
{
    for (int32_t k = 0; k < SW_LIMITS; k++)
        free(limits->tres[k]);
    free(limits->used);
    free(limits->running);
}

int sw_slurm_accounting_read_qos(const char *text, struct sw_slurm_accounting *out,
                                 struct sw_error *err)
{
    static const struct field_row rows[] = {TEXT_FIELD(qos_line, qos.name),
                                            WALL_FIELD(max_time),
                                            {FIELD_TRES, SW_LIMIT_JOB, 0},
                                            {FIELD_TRES, SW_LIMIT_JOB_MINUTES, 0},
                                            {FIELD_TRES, SW_LIMIT_USER, 0},
                                            {FIELD_TRES, SW_LIMIT_ACCOUNT, 0},
                                            {FIELD_TRES, SW_LIMIT_GROUP, 0},
                                            {FIELD_TRES, SW_LIMIT_GROUP_MINUTES, 0},
                                            TEXT_FIELD(qos_line, flags),
                                            {FIELD_TRES, SW_LIMIT_NODE, 0},
                                            {FIELD_TRES, SW_LIMIT_LEAST, 0},
                                            {FIELD_TRES, SW_LIMIT_GROUP_RUN_MINUTES, 0},
                                            {FIELD_TRES, SW_LIMIT_USER_RUN_MINUTES, 0},
                                            {FIELD_TRES, SW_LIMIT_ACCOUNT_RUN_MINUTES, 0},
                                            WALL_FIELD(max_wall),
                                            {FIELD_COUNT, SW_COUNT_GROUP_JOBS, 0},
                                            {FIELD_COUNT, SW_COUNT_GROUP_SUBMIT, 0},
                                            {FIELD_COUNT, SW_COUNT_JOBS, 0},
                                            {FIELD_COUNT, SW_COUNT_SUBMIT, 0},
                                            {FIELD_COUNT, SW_COUNT_ACCOUNT_JOBS, 0},
                                            {FIELD_COUNT, SW_COUNT_ACCOUNT_SUBMIT, 0},
                                            TEXT_FIELD(qos_line, limit_factor),
                                            TEXT_FIELD(qos_line, usage_factor),
                                            {0}};
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        struct qos_line read = {.qos.limits.used_wall = -1};
        if (*line == '\n')
            continue;
        struct sw_slurm_qos *q = grow((void **)&out->qos, &out->qos_count, sizeof *q, err);
        if (q == NULL || read_fields(line, rows, &read, &read.qos.limits, err) != 0) {
            free_limits(&read.qos.limits);
            return -1;
        }
        *q = read.qos;
        read_flags(read.flags, q);
        q->limit_factor = strtod(read.limit_factor, NULL);
        q->usage_factor = read.usage_factor[0] != '\0' ? strtod(read.usage_factor, NULL) : 1;
    }
    return 0;
}

/* An association with the name of its user. */
struct association_line {
    struct sw_slurm_association association;
    char user[64];
};

int sw_slurm_accounting_read_associations(const char *text, bool whole_accounts,
                                          struct sw_slurm_accounting *out, struct sw_error *err)
{
    static const struct field_row rows[] = {
        TEXT_FIELD(association_line, association.account),
        TEXT_FIELD(association_line, association.partition),
        {FIELD_LIST, offsetof(struct association_line, association.qos), 0},
        WALL_FIELD(max_time),
        {FIELD_TRES, SW_LIMIT_JOB, 0},
        {FIELD_TRES, SW_LIMIT_JOB_MINUTES, 0},
        {FIELD_TRES, SW_LIMIT_GROUP, 0},
        {FIELD_TRES, SW_LIMIT_GROUP_MINUTES, 0},
        TEXT_FIELD(association_line, association.default_qos),
        TEXT_FIELD(association_line, user),
        TEXT_FIELD(association_line, association.parent),
        {FIELD_TRES, SW_LIMIT_NODE, 0},
        {FIELD_TRES, SW_LIMIT_GROUP_RUN_MINUTES, 0},
        WALL_FIELD(max_wall),
        {FIELD_COUNT, SW_COUNT_GROUP_JOBS, 0},
        {FIELD_COUNT, SW_COUNT_GROUP_SUBMIT, 0},
        {FIELD_COUNT, SW_COUNT_JOBS, 0},
        {FIELD_COUNT, SW_COUNT_SUBMIT, 0},
        {0}};
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        struct association_line read = {
            .association = {.whole_account = whole_accounts, .limits.used_wall = -1}};
        struct sw_slurm_limits *limits = &read.association.limits;
        if (*line == '\n')
            continue;
        for (int32_t k = 0; k < SW_COUNTS; k++)
            limits->count[k] = -1;
        const int status = read_fields(line, rows, &read, limits, err);
        struct sw_slurm_association *a = NULL;
        if (status == 0 && !(whole_accounts && read.user[0] != '\0')) /* another user's */
            a = grow((void **)&out->association, &out->association_count, sizeof *a, err);
        if (a != NULL) {
            *a = read.association;
            continue;
        }
        free_limits(limits);
        free(read.association.qos);
        if (status != 0 || !(whole_accounts && read.user[0] != '\0'))
            return -1;
    }
    return 0;
}

/* ---- Asking ---- */

/* Output of sacctmgr for `what`, with these fields. malloc'ed, NULL: it cannot be asked. */
static char *ask(const char *const *what, const char *fields)
{
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    char format[512], *text = NULL;
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

/* The same; a release that does not know all fields knows the first ones. */
static char *ask_all(const char *const *what, const char *fields, const char *first)
{
    char *text = ask(what, fields);
    return text != NULL ? text : ask(what, first);
}

/* Loads the accounts themselves, whose limits hold for all of their users. */
static int load_accounts(const char *clusters, struct sw_slurm_accounting *out,
                         struct sw_error *err)
{
    char accounts[1024];
    const int32_t users = out->association_count;
    size_t used = (size_t)snprintf(accounts, sizeof accounts, "accounts=");
    for (int32_t i = 0; i < users && used < sizeof accounts - 80; i++)
        used += (size_t)snprintf(accounts + used, sizeof accounts - used, "%s%s", i > 0 ? "," : "",
                                 out->association[i].account);
    if (users == 0)
        return 0;
    /* associations without a user are all accounts, up to the root; else the user's own must do */
    const char *const all[] = {"assoc", "user=", clusters, NULL}, *const own[] = {"assoc", accounts,
                                                                                  clusters, NULL};
    int status = 0;
    for (int32_t i = 0; i < 2 && status == 0 && out->association_count == users; i++) {
        char *text = ask_all(i == 0 ? all : own, SW_SACCTMGR_ASSOC, SW_SACCTMGR_ASSOC_OLD);
        status = text != NULL ? sw_slurm_accounting_read_associations(text, true, out, err) : 0;
        free(text);
    }
    return status;
}

void sw_slurm_accounting_enforce(const char *list, struct sw_slurm_accounting *out)
{
    static const char *const whole[] = {"associations", "limits", "qos", "safe", "wckeys"};
    const bool all = list[0] == '\0' || sw_slurm_list_has(list, "all");
    out->no_qos = !all && !sw_slurm_list_has(list, "qos");
    out->no_limits = !all && !sw_slurm_list_has(list, "limits") && !sw_slurm_list_has(list, "safe");
    out->no_safe = !all && !sw_slurm_list_has(list, "safe");
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
    out->no_run_minutes = strtod(sw_slurm_version(slurm), NULL) < 24.05;
    const char *const qos[] = {"qos", NULL},
                      *const associations[] = {"assoc", users, clusters, NULL},
                      *const defaults[] = {"user", user, NULL};
    char *text = ask_all(qos, SW_SACCTMGR_QOS, SW_SACCTMGR_QOS_OLD);
    if (text == NULL)
        return 0;
    out->known = true;
    status = sw_slurm_accounting_read_qos(text, out, err);
    free(text);
    text = status == 0 ? ask_all(associations, SW_SACCTMGR_ASSOC, SW_SACCTMGR_ASSOC_OLD) : NULL;
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
    for (int32_t i = 0; i < accounting->qos_count; i++)
        free_limits(&accounting->qos[i].limits);
    for (int32_t i = 0; i < accounting->association_count; i++) {
        free_limits(&accounting->association[i].limits);
        free(accounting->association[i].qos);
    }
    free(accounting->qos);
    free(accounting->association);
    *accounting = (struct sw_slurm_accounting){0};
}

const struct sw_slurm_qos *sw_slurm_find_qos(const struct sw_slurm_accounting *accounting,
                                             const char *name)
{
    for (int32_t i = 0; i < accounting->qos_count && name != NULL; i++)
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

const char *sw_slurm_parent(const struct sw_slurm_association *account)
{
    if (strcmp(account->account, "root") == 0)
        return "";
    return account->parent[0] != '\0' ? account->parent : "root";
}

const char *sw_slurm_default_qos(const struct sw_slurm_accounting *accounting,
                                 const struct sw_slurm_association *association)
{
    const struct sw_slurm_association *root = sw_slurm_find_account(accounting, "root");
    if (association == NULL || association->qos == NULL || association->qos[0] == '\0')
        return NULL;
    if (association->default_qos[0] != '\0')
        return association->default_qos;
    if (strchr(association->qos, ',') == NULL)
        return association->qos;
    return root != NULL && root->default_qos[0] != '\0' ? root->default_qos : "normal";
}

bool sw_slurm_list_has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0'))
            return true;
    return false;
}
