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

static int32_t agree(void *context, bool mine)
{
    const struct sw_thread_rank *rank = context;
    int32_t lowest = 0;
    rank->job->lacks[rank->number] = !mine;
    (void)barrier(context);
    while (lowest < rank->job->ranks && !rank->job->lacks[lowest])
        lowest++;
    (void)barrier(context);
    return lowest < rank->job->ranks ? lowest : -1;
}

void sw_thread_job_init(struct sw_thread_job *job, int32_t ranks)
{
    memset(job, 0, sizeof *job);
    job->ranks = ranks;
    if ((size_t)ranks > sizeof job->lacks ||
        pthread_barrier_init(&job->all, NULL, (unsigned)ranks) != 0)
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
