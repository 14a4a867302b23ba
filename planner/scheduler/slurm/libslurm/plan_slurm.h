/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * plan-slurm: answers of a Slurm controller through libslurm, as JSON lines. Reads one request a
 * line from standard input and writes the answers, each a line, in the same order:
 *
 *   {"ask":"version"}     {"version":"22.05.8","cluster":"name","enforced":"limits",...}: the
 * controller's
 *   {"ask":"facts"}       {"node":"gpu0","cpus":96,...} {"partition":"gpu",...}
 * {"switch":"leaf0",...}
 *                         {"topology":false} where this libslurm cannot read it, at last
 * {"end":true}
 *   {"ask":"jobs"}        {"job":17,"state":"PENDING","start":0} ...
 * {"end":true}
 *   {"ask":"will_run","options":{"nodes":"2",...}}
 *                         {"start":1763811674,"partition":"gpu","nodes":"gpu[0-1]"},
 * {"refused":"why"} or {"unknown":"option"}: one of the options is not understood
 *   {"error":"why"}       and exit code 3: the controller cannot be asked; 2: the request is none
 *
 * Options are those of sbatch, a flag's value is "". It is started with a time limit: libslurm
 * waits for a controller as long as it likes, and ends a process that has no configuration. */
#ifndef SW_PLAN_SLURM_H
#define SW_PLAN_SLURM_H

#include "planner/scheduler/slurm/libslurm/slurm_compat.h"

#include <jansson.h>

/* The description of a job from sbatch's options; points into them and into itself. */
struct described_job {
    job_desc_msg_t desc;
    char *gres;
    char memory_of_gpu[48];
    char *environment[2];
    const char *unknown; /* an unsupported option; else NULL */
};
/* 0, or -1 with `unknown` set. Free with describe_free. */
int describe_job(const json_t *options, struct described_job *out);
void describe_free(struct described_job *job);

/* Print their lines; -1: see errno. */
int print_version(void);
int print_facts(void);
int print_jobs(void);

#endif
