#include "runner/collective/pulse.h"

#include "core/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <mpi.h>

enum { TAG = 1, HOST_BYTES = 256, BEAT = 1, FAREWELL = 2, LOOK_NS = 200000000 };
static const double beat_s = 1;

struct sw_pulse {
    MPI_Comm comm;
    int32_t next, before;
    char host[HOST_BYTES]; /* the previous rank's */
    double seconds;
    sw_pulse_missed missed;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over; /* guarded by the lock */
    /* used by the thread only */
    MPI_Request sending, receiving;
    int said, heard;
};

static bool is_done(MPI_Request *request)
{
    int done = 0;
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return done != 0;
}

static void say(struct sw_pulse *p, int what)
{
    p->said = what;
    MPI_Isend(&p->said, 1, MPI_INT, p->next, TAG, p->comm, &p->sending);
}

/* Receives the previous rank's messages; true if there was one. */
static bool listen(struct sw_pulse *p, bool *watching)
{
    bool any = false;
    while (*watching && is_done(&p->receiving)) {
        any = true;
        *watching = p->heard != FAREWELL;
        if (*watching)
            MPI_Irecv(&p->heard, 1, MPI_INT, p->before, TAG, p->comm, &p->receiving);
    }
    return any;
}

/* Naps; true if the pulse goes on. */
static bool rest(struct sw_pulse *p)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&p->lock);
    while (!p->over && pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT)
        continue;
    const bool on = !p->over;
    pthread_mutex_unlock(&p->lock);
    return on;
}

static void *beat(void *argument)
{
    struct sw_pulse *p = argument;
    bool watching = true;
    double said_at = -beat_s, looked_at = sw_clock_now(), silence = 0;
    MPI_Irecv(&p->heard, 1, MPI_INT, p->before, TAG, p->comm, &p->receiving);
    do {
        const double now = sw_clock_now(), since = now - looked_at;
        looked_at = now;
        if (now - said_at >= beat_s && is_done(&p->sending)) {
            say(p, BEAT);
            said_at = now;
        }
        /* time in which this process was stopped or had no core proves little */
        silence = listen(p, &watching) ? 0 : silence + (since < beat_s ? since : beat_s);
        if (watching && silence > p->seconds) {
            p->missed(p->context, p->before, p->host, p->seconds);
            watching = false;
        }
    } while (rest(p));
    /* do not wait long for a receiver that does not take its message */
    for (int i = 0; i < 5 && !is_done(&p->sending); i++) {
        const struct timespec nap = {0, LOOK_NS};
        (void)nanosleep(&nap, NULL);
    }
    if (is_done(&p->sending))
        say(p, FAREWELL);
    if (p->receiving != MPI_REQUEST_NULL) {
        MPI_Cancel(&p->receiving);
        MPI_Wait(&p->receiving, MPI_STATUS_IGNORE);
    }
    return NULL;
}

struct sw_pulse *sw_pulse_begin(const char *host, double seconds, sw_pulse_missed missed,
                                void *context)
{
    int rank, size;
    char mine[HOST_BYTES] = "";
    pthread_condattr_t monotonic;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct sw_pulse *p = size > 1 ? calloc(1, sizeof *p) : NULL;
    int all = size > 1 && p != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        free(p);
        return NULL;
    }
    snprintf(mine, sizeof mine, "%s", host);
    p->next = (rank + 1) % size;
    p->before = (rank + size - 1) % size;
    p->seconds = seconds;
    p->missed = missed;
    p->context = context;
    p->sending = p->receiving = MPI_REQUEST_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &p->comm);
    MPI_Sendrecv(mine, HOST_BYTES, MPI_CHAR, p->next, TAG, p->host, HOST_BYTES, MPI_CHAR, p->before,
                 TAG, p->comm, MPI_STATUS_IGNORE);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    all = pthread_create(&p->thread, NULL, beat, p) == 0;
    const bool mine_beats = all != 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all)
        return p;
    if (mine_beats) /* a rank that cannot send must not be missed */
        sw_pulse_end(p);
    return NULL;
}

void sw_pulse_end(struct sw_pulse *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    /* a message may still be under way: MPI_Finalize completes it */
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    if (p->sending == MPI_REQUEST_NULL || is_done(&p->sending))
        free(p);
}
