/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Submits, held, the job that plan-slurm would ask about, through libslurm: what `scontrol show
 * job` says of it is compared with the job that sbatch makes of the same script (settings.py).
 *
 *   submit_held      reads {"nodes":"2",...}, sbatch's options, from standard input; prints the
 * job's number; "unknown OPTION" and exit code 3: plan-slurm leaves it to sbatch */
#include "planner/scheduler/slurm/libslurm/plan_slurm.h"

#include <stdio.h>

int main(void)
{
    struct described_job job;
    submit_response_msg_t *answer = NULL;
    json_t *options = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL);
    int status = 1;
    if (!json_is_object(options)) {
        fprintf(stderr, "submit_held: no options on standard input\n");
        json_decref(options);
        return 2;
    }
    slurm_init(NULL);
    if (describe_job(options, &job) != 0) {
        printf("unknown %s\n", job.unknown);
        status = 3;
    } else {
        job.desc.priority = 0; /* held */
        if (slurm_submit_batch_job(&job.desc, &answer) != 0 || answer == NULL) {
            fprintf(stderr, "submit_held: %s\n", slurm_strerror(SW_SLURM_ERRNO));
        } else {
            printf("%u\n", answer->job_id);
            status = 0;
        }
        if (answer != NULL)
            slurm_free_submit_response_response_msg(answer);
    }
    describe_free(&job);
    json_decref(options);
    slurm_fini();
    return status;
}
