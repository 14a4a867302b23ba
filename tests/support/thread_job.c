#include "tests/support/thread_job.h"

#include <stdlib.h>
#include <string.h>

static int barrier(void *context)
{
    (void)pthread_barrier_wait(&((struct sw_thread_rank *)context)->job->all);
    return 0;
}

static int broadcast(void *context, void *data, size_t bytes)
{
    struct sw_thread_rank *rank = context;
    if (bytes > sizeof rank->job->data)
        abort();
    if (rank->number == 0)
        memcpy(rank->job->data, data, bytes);
    (void)barrier(context);
    memcpy(data, rank->job->data, bytes);
    return barrier(context);
}

static bool agree(void *context, bool mine)
{
    struct sw_thread_rank *rank = context;
    if (!mine)
        rank->job->agreed = false;
    (void)barrier(context);
    return rank->job->agreed;
}

void sw_thread_job_init(struct sw_thread_job *job, int32_t ranks)
{
    memset(job, 0, sizeof *job);
    job->agreed = true;
    if (pthread_barrier_init(&job->all, NULL, (unsigned)ranks) != 0)
        abort();
}

void sw_thread_job_free(struct sw_thread_job *job)
{
    (void)pthread_barrier_destroy(&job->all);
}

struct sw_nccl_job sw_thread_job_of(struct sw_thread_rank *rank)
{
    return (struct sw_nccl_job){.rank = rank->number,
                                .context = rank,
                                .broadcast = broadcast,
                                .agree = agree,
                                .barrier = barrier};
}
