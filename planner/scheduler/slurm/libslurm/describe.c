/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * sbatch's options into the struct that libslurm sends: what sbatch makes of each, for the options
 * that decide when and where a job starts. */
#include "planner/scheduler/slurm/libslurm/plan_slurm.h"

#include <ctype.h>
#include <stdbool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a whole number that fills the text. */
static bool read_number(const char *text, uint32_t *out)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value >= NO_VAL)
        return false;
    *out = (uint32_t)value;
    return true;
}

/* "4", "3-4" */
static bool read_nodes(const char *text, job_desc_msg_t *d)
{
    char first[16];
    const char *dash = strchr(text, '-');
    const size_t length = dash != NULL ? (size_t)(dash - text) : strlen(text);
    if (length >= sizeof first)
        return false;
    memcpy(first, text, length);
    first[length] = '\0';
    return read_number(first, &d->min_nodes) &&
           read_number(dash != NULL ? dash + 1 : first, &d->max_nodes);
}

/* Minutes of "90", "24:00:00", "2-12"; a started minute counts. */
static bool read_minutes(const char *text, uint32_t *out)
{
    unsigned long part[3] = {0}, days = 0;
    int parts = 0;
    bool has_days = false;
    if (strcasecmp(text, "UNLIMITED") == 0 || strcasecmp(text, "INFINITE") == 0) {
        *out = INFINITE;
        return true;
    }
    for (const char *p = text; parts < 3;) {
        char *end = NULL;
        if (!isdigit((unsigned char)*p))
            return false;
        const unsigned long value = strtoul(p, &end, 10);
        if (*end == '-' && parts == 0 && !has_days) {
            days = value;
            has_days = true;
        } else {
            part[parts++] = value;
            if (*end == '\0')
                break;
            if (*end != ':')
                return false;
        }
        p = end + 1;
    }
    unsigned long seconds = days * 86400;
    if (has_days || parts == 3)
        seconds += part[0] * 3600 + part[1] * 60 + part[2];
    else
        seconds += part[0] * 60 + part[1];
    *out = seconds == 0 ? INFINITE : (uint32_t)((seconds + 59) / 60);
    return true;
}

/* Megabytes of "16G"; 0 is all of a node's. */
static bool read_memory(const char *text, uint64_t *out)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]))
        return false;
    switch (toupper((unsigned char)*end)) {
    case '\0':
    case 'M':
        break;
    case 'K':
        value = (value + 1023) / 1024;
        break;
    case 'G':
        value *= 1024;
        break;
    case 'T':
        value *= 1024 * 1024;
        break;
    default:
        return false;
    }
    *out = value;
    return *end == '\0' || end[1] == '\0';
}

/* Appends each entry of a list with a prefix: "gres:gpu:h100:8,gres:gpu:a100:2". */
static bool add_gres(struct described_job *job, const char *before, const char *list)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return false;
    fputs(job->gres != NULL ? job->gres : "", out);
    for (const char *p = list; *p != '\0';) {
        const size_t length = strcspn(p, ",");
        fprintf(out, "%s%s%s%.*s", ftell(out) > 0 ? "," : "", SW_SLURM_GRES, before, (int)length,
                p);
        p += length + (p[length] == ',');
    }
    if (fclose(out) != 0) {
        free(text);
        return false;
    }
    free(job->gres);
    job->gres = text;
    job->desc.tres_per_node = text;
    return true;
}

/* True if the option does not affect when and where a job starts. */
static bool says_nothing(const char *name)
{
    static const char *const names[] = {
        "chdir",    "comment",   "error",     "export",       "gpu-bind",   "input",
        "job-name", "mail-type", "mail-user", "mpi",          "no-requeue", "open-mode",
        "output",   "parsable",  "requeue",   "signal",       "wckey",      "kill-on-invalid-dep",
        "no-kill",  "cpu-bind",  "propagate", "get-user-env", "array",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool read_switches(const char *text, job_desc_msg_t *d)
{
    /* "1@10:00": time to wait for so few of them */
    char count[16];
    const size_t length = strcspn(text, "@");
    if (length >= sizeof count)
        return false;
    memcpy(count, text, length);
    count[length] = '\0';
    uint32_t minutes = 0;
    if (!read_number(count, &d->req_switch))
        return false;
    if (text[length] == '@') {
        if (!read_minutes(text + length + 1, &minutes) || minutes >= NO_VAL / 60)
            return false;
        d->wait4switch = minutes * 60;
    }
    return true;
}

/* Member of the struct for an option that is a text there, too. NULL: none. */
static char **text_of(job_desc_msg_t *d, const char *name)
{
    const struct {
        const char *name;
        char **text;
    } texts[] = {{"account", &d->account},
                 {"constraint", &d->features},
                 {"dependency", &d->dependency},
                 {"exclude", &d->exc_nodes},
                 {"licenses", &d->licenses},
                 {"nodelist", &d->req_nodes},
                 {"partition", &d->partition},
                 {"prefer", &d->prefer},
                 {"qos", &d->qos},
                 {"reservation", &d->reservation}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0)
            return texts[i].text;
    return NULL;
}

/* "gres:gpu:16384", in megabytes. */
static bool read_memory_per_gpu(const char *value, struct described_job *job)
{
    uint64_t memory = 0;
    if (!read_memory(value, &memory))
        return false;
    snprintf(job->memory_of_gpu, sizeof job->memory_of_gpu, SW_SLURM_GRES "gpu:%" PRIu64, memory);
    job->desc.mem_per_tres = job->memory_of_gpu;
    return true;
}

static bool read_option(const char *name, const char *value, struct described_job *job)
{
    job_desc_msg_t *d = &job->desc;
    uint32_t number = 0;
    char **text = text_of(d, name);
    if (text != NULL) {
        *text = (char *)value;
        return true;
    }
    if (strcmp(name, "nodes") == 0)
        return read_nodes(value, d);
    if (strcmp(name, "time") == 0)
        return read_minutes(value, &d->time_limit);
    if (strcmp(name, "time-min") == 0)
        return read_minutes(value, &d->time_min);
    if (strcmp(name, "mem") == 0)
        return read_memory(value, &d->pn_min_memory);
    if (strcmp(name, "mem-per-cpu") == 0 && read_memory(value, &d->pn_min_memory)) {
        d->pn_min_memory |= MEM_PER_CPU;
        return true;
    }
    if (strcmp(name, "mem-per-gpu") == 0)
        return read_memory_per_gpu(value, job);
    if (strcmp(name, "gpus-per-node") == 0)
        return add_gres(job, "gpu:", value);
    if (strcmp(name, "gres") == 0)
        return add_gres(job, "", value);
    if (strcmp(name, "switches") == 0)
        return read_switches(value, d);
    if (strcmp(name, "exclusive") == 0) {
        d->shared = strcmp(value, "user") == 0 ? JOB_SHARED_USER : JOB_SHARED_NONE;
        return *value == '\0' || d->shared == JOB_SHARED_USER;
    }
    if (strcmp(name, "ntasks-per-node") == 0 && read_number(value, &number) && number < NO_VAL16) {
        d->ntasks_per_node = (uint16_t)number;
        return true;
    }
    if (strcmp(name, "cpus-per-task") == 0 && read_number(value, &number) && number < NO_VAL16) {
        d->cpus_per_task = d->pn_min_cpus = (uint16_t)number;
        d->bitflags |= JOB_CPUS_SET;
        return true;
    }
    if (strcmp(name, "nice") == 0 && read_number(value + (*value == '-'), &number) &&
        number < NICE_OFFSET - 3) {
        d->nice = *value == '-' ? NICE_OFFSET - number : NICE_OFFSET + number;
        return true;
    }
    if (strcmp(name, "tmp") == 0 && read_number(value, &number)) {
        d->pn_min_tmp_disk = number;
        return true;
    }
#if SW_SLURM_HAS_SEGMENT
    if (strcmp(name, "segment") == 0 && read_number(value, &number) && number < NO_VAL16) {
        d->segment_size = (uint16_t)number;
        return true;
    }
#endif
    return says_nothing(name);
}

int describe_job(const json_t *options, struct described_job *out)
{
    static char environment[] = "PATH=/usr/bin:/bin", script[] = "#!/bin/sh\ntrue\n",
                name[] = "plan", folder[] = "/";
    const char *key = NULL;
    json_t *value = NULL;
    memset(out, 0, sizeof *out);
    job_desc_msg_t *d = &out->desc;
    slurm_init_job_desc_msg(d);
    out->environment[0] = environment;
    d->environment = out->environment; /* must not be empty */
    d->env_size = 1;
    d->script = script;
    d->name = name;
    d->work_dir = folder;
    d->user_id = getuid();
    d->group_id = getgid();
    d->contiguous = 0;
    json_object_foreach((json_t *)options, key, value)
    {
        const char *text = json_string_value(value);
        if (text == NULL || !read_option(key, text, out)) {
            out->unknown = key;
            return -1;
        }
    }
    /* counts tasks and cores as sbatch does */
    uint32_t tasks = d->min_nodes != NO_VAL ? d->min_nodes : 1;
    if (d->ntasks_per_node != NO_VAL16 && d->ntasks_per_node > 0 && d->min_nodes == d->max_nodes) {
        tasks *= d->ntasks_per_node;
        d->num_tasks = tasks;
        d->bitflags |= JOB_NTASKS_SET;
    }
    d->min_cpus = tasks * (d->cpus_per_task != NO_VAL16 ? d->cpus_per_task : 1);
    return 0;
}

void describe_free(struct described_job *job)
{
    free(job->gres);
    job->gres = NULL;
}
