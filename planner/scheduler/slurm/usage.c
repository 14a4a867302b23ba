#include "planner/scheduler/slurm/usage.h"

#include "planner/scheduler/slurm/internal.h"

#include <ctype.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 5.0
enum { NAME_BYTES = 80 };

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
}

/* Output of scontrol in lines; NULL: no answer. malloc'ed. */
static char *ask(const char *const *argv)
{
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    char *text = NULL;
    if (sw_slurm_process(argv, NULL, ANSWER_SECONDS, &result, &ignored) == 0 && !result.timed_out &&
        result.exit_code == 0) {
        text = result.out;
        result.out = NULL;
    }
    sw_process_free(&result);
    return text;
}

/* Value of a line's key, without "(ID)" behind a name. */
static void name_of(const char *line, const char *key, char out[NAME_BYTES])
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, key, &length);
    if (value != NULL)
        length = strcspn(value, "( \n");
    snprintf(out, NAME_BYTES, "%.*s", value != NULL ? (int)length : 0, value != NULL ? value : "");
}

/* ---- Minutes ---- */

/* Turns "cpu=500(12),mem=N(0)" into "cpu=12,mem=0": the figures in parentheses. Sets *out, and
 * frees its old value; unchanged if the line lacks the key. */
static int keep_used(const char *line, const char *key, char **out, struct sw_error *err)
{
    size_t length = 0;
    const char *from = sw_slurm_find_value(line, key, &length);
    if (from == NULL)
        return 0;
    char *list = malloc(length + 1), *to = list;
    if (list == NULL)
        return out_of_memory(err);
    const char *end = from + length;
    while (from < end) {
        const char *equals = memchr(from, '=', (size_t)(end - from));
        const char *open = equals != NULL ? memchr(equals, '(', (size_t)(end - equals)) : NULL;
        const char *close = open != NULL ? memchr(open, ')', (size_t)(end - open)) : NULL;
        if (close == NULL)
            break;
        if (to != list)
            *to++ = ',';
        to = (char *)memcpy(to, from, (size_t)(equals + 1 - from)) + (equals + 1 - from);
        to = (char *)memcpy(to, open + 1, (size_t)(close - open - 1)) + (close - open - 1);
        from = close + 1;
        from += from < end && *from == ',';
    }
    *to = '\0';
    free(*out);
    *out = list;
    return 0;
}

/* "GrpWall=77(12.50)" */
static double wall_of(const char *line)
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, "GrpWall", &length);
    const char *open = value != NULL ? memchr(value, '(', length) : NULL;
    return open != NULL ? strtod(open + 1, NULL) : -1;
}

static int keep(const char *line, struct sw_slurm_limits *limits, struct sw_error *err)
{
    limits->used_wall = wall_of(line);
    return keep_used(line, "GrpTRESMins", &limits->used, err) != 0 ||
                   keep_used(line, "GrpTRESRunMins", &limits->running, err) != 0
               ? -1
               : 0;
}

/* The association of a line if it is the user's or an account's own; NULL: another one. */
static struct sw_slurm_association *find_association(const char *line, const char *user,
                                                     struct sw_slurm_accounting *accounting)
{
    char account[NAME_BYTES], of[NAME_BYTES], partition[NAME_BYTES];
    name_of(line, "Account", account);
    name_of(line, "UserName", of);
    name_of(line, "Partition", partition);
    for (int32_t i = 0; i < accounting->association_count; i++) {
        struct sw_slurm_association *a = &accounting->association[i];
        if (strcmp(a->account, account) == 0 && strcmp(a->partition, partition) == 0 &&
            strcmp(of, a->whole_account ? "" : user) == 0)
            return a;
    }
    return NULL;
}

int sw_slurm_usage_read(const char *text, const char *user, struct sw_slurm_accounting *accounting,
                        struct sw_error *err)
{
    char name[NAME_BYTES];
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        struct sw_slurm_limits *limits = NULL;
        if (strncmp(line, "QOS=", 4) == 0) {
            name_of(line, "QOS", name);
            for (int32_t i = 0; i < accounting->qos_count; i++)
                if (strcmp(accounting->qos[i].name, name) == 0)
                    limits = &accounting->qos[i].limits;
        } else if (strncmp(line, "ClusterName=", 12) == 0) {
            struct sw_slurm_association *a = find_association(line, user, accounting);
            limits = a != NULL ? &a->limits : NULL;
        }
        if (limits != NULL && keep(line, limits, err) != 0)
            return -1;
    }
    return 0;
}

static bool has_minutes(const struct sw_slurm_limits *limits)
{
    return limits->tres[SW_LIMIT_GROUP_MINUTES] != NULL || !isinf(limits->max_wall);
}

/* "accounts=lab,uni,root": the user's accounts and those above, malloc'ed, since a site may have
 * thousands of others. NULL: no memory. */
static char *list_accounts(const struct sw_slurm_accounting *accounting)
{
    char *text = NULL;
    size_t bytes = 0;
    const size_t count = (size_t)accounting->association_count;
    bool *listed = calloc(count + 1, sizeof *listed);
    FILE *out = listed != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) {
        free(listed);
        return NULL;
    }
    fputs("accounts=", out);
    for (size_t i = 0; i < count; i++) {
        const struct sw_slurm_association *a = &accounting->association[i];
        if (a->whole_account)
            continue;
        fprintf(out, "%s,", a->account);
        /* a listed account's parents are listed, too */
        while ((a = sw_slurm_find_account(accounting, a->whole_account ? sw_slurm_parent(a)
                                                                       : a->account)) != NULL &&
               !listed[a - accounting->association]) {
            listed[a - accounting->association] = true;
            fprintf(out, "%s,", a->account);
        }
    }
    free(listed);
    return fclose(out) == 0 ? text : NULL;
}

int sw_slurm_usage_load(struct sw_slurm_accounting *accounting, struct sw_error *err)
{
    const struct passwd *who = getpwuid(getuid());
    bool any = false;
    for (int32_t i = 0; i < accounting->qos_count; i++)
        any = any || has_minutes(&accounting->qos[i].limits);
    for (int32_t i = 0; i < accounting->association_count; i++)
        any = any || has_minutes(&accounting->association[i].limits);
    if (!any || accounting->no_limits || who == NULL)
        return 0;
    char *user = strdup(who->pw_name), *accounts = list_accounts(accounting);
    int status = 0;
    if (user == NULL || accounts == NULL) {
        status = out_of_memory(err);
    } else {
        const char *const argv[] = {"scontrol",        "-o",     "show", "assoc_mgr",
                                    "flags=assoc,qos", accounts, NULL};
        char *text = ask(argv);
        status = text != NULL ? sw_slurm_usage_read(text, user, accounting, err) : 0;
        free(text);
    }
    free(accounts);
    free(user);
    return status;
}

/* ---- Licenses ---- */

static int64_t number_of(const char *line, const char *key)
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, key, &length);
    return value != NULL && isdigit((unsigned char)*value) ? strtoll(value, NULL, 10) : 0;
}

int sw_slurm_licenses_read(const char *text, struct sw_slurm_licenses *out, struct sw_error *err)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != 0) {
        if (strncmp(line, "LicenseName=", 12) != 0)
            continue;
        struct sw_slurm_license *grown =
            realloc(out->of, ((size_t)out->count + 1) * sizeof *out->of);
        if (grown == NULL)
            return out_of_memory(err);
        out->of = grown;
        struct sw_slurm_license *license = &out->of[out->count++];
        *license = (struct sw_slurm_license){.total = number_of(line, "Total"),
                                             .used = number_of(line, "Used"),
                                             .free = number_of(line, "Free"),
                                             .reserved = number_of(line, "Reserved")};
        name_of(line, "LicenseName", license->name);
    }
    return 0;
}

int sw_slurm_licenses_load(struct sw_slurm_licenses *out, struct sw_error *err)
{
    const char *const argv[] = {"scontrol", "-o", "show", "licenses", NULL};
    char *text = ask(argv);
    *out = (struct sw_slurm_licenses){.known = text != NULL};
    const int status = text != NULL ? sw_slurm_licenses_read(text, out, err) : 0;
    free(text);
    return status;
}

void sw_slurm_licenses_free(struct sw_slurm_licenses *licenses)
{
    free(licenses->of);
    *licenses = (struct sw_slurm_licenses){0};
}

const struct sw_slurm_license *sw_slurm_licenses_find(const struct sw_slurm_licenses *licenses,
                                                      const char *name)
{
    for (int32_t i = 0; i < licenses->count; i++)
        if (strcmp(licenses->of[i].name, name) == 0)
            return &licenses->of[i];
    return NULL;
}
