/* Checks of Slurm's settings. Values that pass reach a job script, so they must have Slurm's own
 * forms, without a second meaning. */
#include "core/config/internal.h"
#include "planner/scheduler/slurm/internal_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 200, MAX_NODES = 1000 };

static const char digits[] = "0123456789";

bool sw_text_is_slurm_constraint(const char *text)
{
    return sw_text_consists_of(text, "_.,:=+@/%-&|*[]()", MAX_TEXT) && text[0] != '-';
}

/* "n[1-4,7],login1": brackets in pairs, none inside another. */
bool sw_text_is_slurm_nodes(const char *text)
{
    int32_t depth = 0;
    if (!sw_text_consists_of(text, "_.,-[]", MAX_NODES) || strchr("-,[].", text[0]) != NULL)
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        depth += (*p == '[') - (*p == ']');
        if (depth < 0 || depth > 1 || (depth > 0 && strchr("_.", *p) != NULL))
            return false;
        if (*p == '[' && strchr(digits, p[1]) == NULL)
            return false;
    }
    return depth == 0;
}

/* Reads a whole number of at most `most` digits at *text, and moves behind it; -1: none. */
static int64_t read_number(const char **text, size_t most)
{
    const size_t length = strspn(*text, digits);
    if (length == 0 || length > most)
        return -1;
    const int64_t number = strtoll(*text, NULL, 10);
    *text += length;
    return number;
}

/* Behind a dash hours are those of a day; minutes and seconds behind a colon are less than 60.
 * (Slurm itself accepts 1-99:99:99 as 5 days.) */
bool sw_text_is_slurm_time(const char *text)
{
    if (strcmp(text, "UNLIMITED") == 0 || strcmp(text, "INFINITE") == 0)
        return true;
    int64_t part = read_number(&text, 7);
    if (part < 0)
        return false;
    const bool days = *text == '-';
    if (days) {
        text++;
        part = read_number(&text, 2);
        if (part < 0 || part > 23)
            return false;
    }
    int32_t colons = 0;
    for (; *text == ':'; colons++) {
        text++;
        part = read_number(&text, 2);
        if (part < 0 || part > 59)
            return false;
    }
    return *text == '\0' && colons <= 2;
}

double sw_slurm_time_seconds(const char *time)
{
    double part[3] = {0}, days = 0;
    int32_t parts = 0;
    if (time == NULL || time[0] < '0' || time[0] > '9')
        return INFINITY;
    const char *dash = strchr(time, '-');
    if (dash != NULL) {
        days = strtod(time, NULL);
        time = dash + 1;
    }
    for (const char *p = time; p != NULL && parts < 3; parts++) {
        part[parts] = strtod(p, NULL);
        p = strchr(p, ':');
        p = p == NULL ? NULL : p + 1;
    }
    double seconds = days * 86400;
    if (dash != NULL || parts == 3)
        seconds += part[0] * 3600 + part[1] * 60 + part[2];
    else
        seconds += part[0] * 60 + part[1];
    return seconds > 0 ? seconds : INFINITY;
}

/* "2": at most two leaf switches; "2@1:00:00": wait that long for them. */
bool sw_text_is_slurm_switches(const char *text)
{
    if (text[0] == '0' || read_number(&text, 5) < 0)
        return false;
    return *text == '\0' ||
           (*text == '@' && text[1] != 'U' && text[1] != 'I' && sw_text_is_slurm_time(text + 1));
}

bool sw_text_is_slurm_gpus(const char *text)
{
    if (!sw_text_consists_of(text, "_.,:-", MAX_TEXT) || text[0] == '-')
        return false;
    for (const char *p = text;;) {
        size_t length = strcspn(p, ",");
        const char *colon = memchr(p, ':', length);
        const char *number = colon != NULL ? colon + 1 : p;
        size_t count = strspn(number, digits);
        if (colon == p || count == 0 || count > 6 || number + count != p + length ||
            number[0] == '0')
            return false;
        if (p[length] == 0)
            return true;
        p += length + 1;
    }
}

/* "name", "name:type", "name:count" or "name:type:count", with or without a unit. */
static bool is_gres(const char *text, size_t length)
{
    int32_t colons = 0;
    const char *last = text;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != ':')
            continue;
        colons++;
        if (text + i == last || i + 1 == length)
            return false; /* an empty part */
        last = text + i + 1;
    }
    const size_t rest = (size_t)(text + length - last), count = strspn(last, digits);
    const bool is_count = count > 0 && count < 16 &&
                          (count >= rest || (count + 1 == rest && strchr("KMGTP", last[count])));
    return length > 0 && strchr("0123456789-.", *text) == NULL &&
           (colons < 2 || (colons == 2 && is_count));
}

/* "gpu:h100:8,nvme:1" */
bool sw_text_is_slurm_gres(const char *text)
{
    bool good = sw_text_consists_of(text, "_.,:-", MAX_TEXT);
    for (const char *p = text; good;) {
        const size_t length = strcspn(p, ",");
        good = is_gres(p, length);
        if (p[length] == '\0')
            break;
        p += length + 1;
    }
    return good;
}

/* The count in "gpu:h100:8" or "gpu:8"; 1: no count, 0: no entry of GPUs. */
static int64_t entry_gpus(const char *entry, size_t length)
{
    if (length < 3 || strncmp(entry, "gpu", 3) != 0 || (length > 3 && entry[3] != ':'))
        return 0;
    const char *last = entry + length;
    while (last > entry && last[-1] != ':')
        last--;
    return last > entry && strchr(digits, *last) != NULL ? strtoll(last, NULL, 10) : 1;
}

int64_t sw_slurm_gpus(const struct sw_slurm_config *slurm)
{
    int64_t sum = 0;
    const char *text = slurm->gpus_per_node != NULL ? slurm->gpus_per_node : slurm->gres;
    for (const char *p = text; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        const size_t length = strcspn(p, ",");
        const char *colon = memchr(p, ':', length);
        if (slurm->gpus_per_node != NULL)
            sum += strtoll(colon != NULL ? colon + 1 : p, NULL, 10);
        else
            sum += entry_gpus(p, length);
    }
    return sum > 0 ? sum : -1;
}

bool sw_text_is_slurm_memory(const char *text)
{
    size_t count = strspn(text, digits);
    return count > 0 && count < 16 &&
           (text[count] == 0 || (strchr("KMGT", text[count]) != NULL && text[count + 1] == 0));
}

/* Two digits of the year, a dot, two of the month, and possibly more, as in 23.11.4 or
 * 23.11.4-1. */
bool sw_text_is_slurm_version(const char *text)
{
    static const char form[] = "00.00";
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '.' ? text[i] != '.' : text[i] < '0' || text[i] > '9')
            return false;
    return sw_slurm_release(text) >= 2205 && sw_slurm_release(text) % 100 <= 12 &&
           sw_text_consists_of(text, ".-", 24) && (text[5] == '\0' || text[5] == '.');
}

int32_t sw_slurm_release(const char *text)
{
    return text == NULL ? 0 : (int32_t)(strtol(text, NULL, 10) * 100 + strtol(text + 3, NULL, 10));
}

static bool is_one_of(const char *text, size_t length, const char *const *words)
{
    while (*words != NULL && (strlen(*words) != length || strncmp(*words, text, length) != 0))
        words++;
    return *words != NULL;
}

/* srun's --cpu-bind: an optional quiet or verbose, then the binding. */
bool sw_text_is_slurm_cpu_bind(const char *text)
{
    static const char *const how[] = {"none",  "rank",    "rank_ldom", "sockets",
                                      "cores", "threads", "ldoms",     NULL};
    static const char *const lists[] = {"map_cpu", "mask_cpu", "map_ldom", "mask_ldom", NULL};
    if (strncmp(text, "quiet,", 6) == 0)
        text += 6;
    else if (strncmp(text, "verbose,", 8) == 0)
        text += 8;
    const size_t length = strcspn(text, ":");
    if (text[length] == '\0')
        return is_one_of(text, length, how);
    return is_one_of(text, length, lists) && text[length + 1] != '\0' &&
           strspn(text + length + 1, "0123456789abcdefABCDEFx,*") == strlen(text + length + 1) &&
           strlen(text) < MAX_TEXT;
}

bool sw_text_is_slurm_gpu_bind(const char *text)
{
    return strcmp(text, "none") == 0;
}

/* "afterok:123:124,after:5+10", "singleton"; ',': all of them, '?': one of them. */
bool sw_text_is_slurm_dependency(const char *text)
{
    static const char *const kinds[] = {
        "after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok", NULL};
    const char separator = strchr(text, '?') != NULL ? '?' : ',';
    if (strlen(text) > MAX_TEXT)
        return false;
    for (;;) {
        const size_t length = strcspn(text, ":,?");
        const bool alone = length == 9 && strncmp(text, "singleton", 9) == 0;
        if (!alone && (!is_one_of(text, length, kinds) || text[length] != ':'))
            return false;
        text += length;
        while (!alone && *text == ':') {
            text++;
            if (read_number(&text, 10) < 1)
                return false;
            if (*text == '_' && (text++, *text != '*') && read_number(&text, 8) < 0)
                return false;
            text += *text == '*';
            if (*text == '+' && (text++, read_number(&text, 8) < 0))
                return false;
        }
        if (*text == '\0')
            return true;
        if (*text++ != separator)
            return false;
    }
}

/* True if the text has the form, in which 0 stands for any digit. */
static bool has_form(const char *text, const char *form)
{
    for (; *form != '\0'; form++, text++)
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
            return false;
    return *text == '\0';
}

/* "now+2hours", "tomorrow", "20:30", "2026-01-31", "2026-01-31T20:30:00" */
bool sw_text_is_slurm_begin(const char *text)
{
    static const char *const times[] = {"now", "today", "tomorrow", "midnight", "noon", NULL};
    static const char *const units[] = {"",      "second", "seconds", "minute", "minutes", "hour",
                                        "hours", "day",    "days",    "week",   "weeks",   NULL};
    static const char *const forms[] = {
        "00:00", "00:00:00", "0000-00-00", "0000-00-00T00:00", "0000-00-00T00:00:00", NULL};
    for (int32_t i = 0; forms[i] != NULL; i++)
        if (has_form(text, forms[i])) {
            const char *time = strchr(text, ':') != NULL ? strchr(text, ':') - 2 : NULL;
            return (time == NULL || (atoi(time) < 24 && atoi(time + 3) < 60)) &&
                   (text[2] == ':' || (atoi(text + 5) >= 1 && atoi(text + 5) <= 12 &&
                                       atoi(text + 8) >= 1 && atoi(text + 8) <= 31));
        }
    const size_t length = strcspn(text, "+");
    if (!is_one_of(text, length, times))
        return false;
    if (text[length] == '\0')
        return true;
    text += length + 1;
    return read_number(&text, 8) >= 0 && is_one_of(text, strlen(text), units);
}

bool sw_text_is_slurm_mail(const char *text)
{
    static const char *const events[] = {
        "NONE",          "BEGIN",          "END",       "FAIL",       "REQUEUE",
        "ALL",           "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT", "TIME_LIMIT_90",
        "TIME_LIMIT_80", "TIME_LIMIT_50",  NULL};
    for (;;) {
        const size_t length = strcspn(text, ",");
        if (!is_one_of(text, length, events))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

bool sw_text_is_mail_address(const char *text)
{
    return sw_text_consists_of(text, "._+-@", MAX_TEXT) && text[0] != '-' && text[0] != '@' &&
           strchr(text, '@') == strrchr(text, '@');
}

/* "USR1", "USR1@300": seconds before the limit; "none". */
bool sw_text_is_slurm_signal(const char *text)
{
    if (strcmp(text, "none") == 0)
        return true;
    if (strncmp(text, "USR1", 4) != 0 && strncmp(text, "USR2", 4) != 0)
        return false;
    if (text[4] == '\0')
        return true;
    const char *lead = text + 5;
    const int64_t seconds = read_number(&lead, 5);
    return text[4] == '@' && seconds > 0 && seconds <= 65535 && *lead == '\0';
}

/* A name, not a path, containing the job's number. Slurm's letters are in sbatch(1), "filename
 * pattern"; those of a task mean nothing to a batch script. */
bool sw_text_is_slurm_log(const char *text)
{
    bool job = false;
    if (!sw_text_is_line(text) || strlen(text) > 128 || text[0] == '.' ||
        strpbrk(text, "/\\\"'") != NULL)
        return false;
    for (const char *p = strchr(text, '%'); p != NULL; p = strchr(p + 1, '%')) {
        p += 1 + strspn(p + 1, digits);
        if (*p == '\0' || strchr("%AajJNnstux", *p) == NULL)
            return false;
        job = job || *p == 'j' || *p == 'J';
    }
    return job;
}

bool sw_slurm_is_mpirun(const char *mpi)
{
    return mpi != NULL && strcmp(mpi, "mpirun") == 0;
}

bool sw_text_is_slurm_mpi(const char *text)
{
    return strcmp(text, "pmix") == 0 || sw_slurm_is_mpirun(text) ||
           (strncmp(text, "pmix_v", 6) == 0 && text[6] >= '1' && text[6] <= '9' &&
            strspn(text + 6, digits) == strlen(text + 6) && strlen(text) < 9);
}
