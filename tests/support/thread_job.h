/* A job whose ranks are threads, for communicators that need one to start (sw_comm_nccl_create). */
#ifndef SW_TEST_THREAD_JOB_H
#define SW_TEST_THREAD_JOB_H

#include "runner/collective/nccl.h"

#include <pthread.h>

struct sw_thread_job {
    pthread_barrier_t all;
    char data[256]; /* broadcast data */
    bool lacks[64]; /* by rank, in the current vote */
    int32_t ranks;
};

/* One of its threads. */
struct sw_thread_rank {
    struct sw_thread_job *job;
    int32_t number;
};

void sw_thread_job_init(struct sw_thread_job *job, int32_t ranks);
void sw_thread_job_free(struct sw_thread_job *job);
/* Both must outlive the communicator. */
struct sw_nccl_job sw_thread_job_of(struct sw_thread_rank *rank);

#endif
