#include "runner/rank/launch.h"

#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef SW_HAVE_MPI
#include "runner/collective/pulse.h"

#include <mpi.h>
#endif

void sw_launch_print_error(const struct sw_error *err)
{
    char text[SW_ERROR_TEXT_BYTES];
    fprintf(stderr, "%s\n", sw_error_format(err, "runner", text));
}

static void print(const struct sw_launch *launch, const struct sw_error *err, bool with_rank)
{
    char text[SW_ERROR_TEXT_BYTES], line[SW_ERROR_TEXT_BYTES + 320];
    sw_error_format(err, with_rank ? NULL : "runner", text);
    if (with_rank)
        snprintf(line, sizeof line, "rank %d (host %s): %s\n", launch->rank, launch->host, text);
    else
        snprintf(line, sizeof line, "%s\n", text);
    fputs(line, stderr);
    fflush(stderr);
}

int32_t sw_launch_number(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL && *text != '\0')
            return (int32_t)strtol(text, NULL, 10);
    }
    return 0;
}

void sw_launch_name(struct sw_launch *launch)
{
    launch->rank = sw_launch_number();
    if (gethostname(launch->host, sizeof launch->host - 1) != 0)
        snprintf(launch->host, sizeof launch->host, "unknown");
}

static double seconds_of(const char *variable, double usual)
{
    const char *set = getenv(variable);
    char *end = NULL;
    const double seconds = set == NULL ? 0 : strtod(set, &end);
    if (set != NULL && end != set && *end == '\0' && isfinite(seconds) && seconds > 0)
        return seconds;
    return usual;
}

int sw_launch_check_variables(struct sw_error *err)
{
    static const char *const names[] = {"SHARDWRIGHT_STALL_SECONDS", "SHARDWRIGHT_START_SECONDS",
                                        "SHARDWRIGHT_GRACE_SECONDS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *set = getenv(names[i]);
        if (set != NULL && *set != '\0' && seconds_of(names[i], 0) == 0)
            return sw_fail(err, SW_BAD_INPUT, "%s must be a number of seconds above 0, not '%.60s'",
                           names[i], set);
    }
    return 0;
}

double sw_launch_stall_seconds(double longest_s)
{
    return seconds_of("SHARDWRIGHT_STALL_SECONDS",
                      fmax(60, fmax(fmin(20 * longest_s, 240), 4 * longest_s)));
}

double sw_launch_grace_seconds(double usual)
{
    return seconds_of("SHARDWRIGHT_GRACE_SECONDS", usual);
}

const char *sw_launch_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    return job == NULL ? "" : job;
}

int32_t sw_launch_threads(const struct sw_launch *launch)
{
    const char *set = getenv("OMP_NUM_THREADS");
    const long wanted = set == NULL ? 0 : strtol(set, NULL, 10);
    if (wanted > 0)
        return wanted < INT32_MAX ? (int32_t)wanted : INT32_MAX;
    cpu_set_t usable;
    const int32_t online = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
    const int32_t cores = known ? CPU_COUNT(&usable) : online;
    const int32_t threads = cores < online ? cores : cores / launch->local_size;
    return threads > 0 ? threads : 1;
}

#ifdef SW_HAVE_MPI

/* Time for a job's ranks to meet: freshly pulled containers start minutes apart. A user's stall
 * limit is meant for steps and can only lengthen it. */
enum { START_SECONDS = 300, START_GRACE_SECONDS = 5 };

static double start_seconds(void)
{
    const double stall = seconds_of("SHARDWRIGHT_STALL_SECONDS", START_SECONDS);
    return seconds_of("SHARDWRIGHT_START_SECONDS", fmax(stall, START_SECONDS));
}

static bool under_launcher(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                        "PMI2_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (getenv(signs[i]) != NULL)
            return true;
    return false;
}

/* Refuses tasks started by srun without PMIx: each would think it is the whole job. */
static int check_srun(struct sw_launch *launch, struct sw_error *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *task = getenv("SLURM_PROCID");
    if (tasks == NULL || task == NULL || atoi(tasks) <= 1)
        return 0;
    launch->rank = atoi(task);
    return sw_fail(err, SW_BAD_INPUT, "srun started %s tasks without MPI; use srun --mpi=pmix",
                   tasks);
}

/* Watch over MPI_Init, which waits forever for a rank that never comes. */
struct start_watch {
    const struct sw_launch *launch;
    double seconds;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void *watch_start(void *argument)
{
    struct start_watch *watch = argument;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)ceil(watch->seconds);
    int status = 0;
    pthread_mutex_lock(&watch->lock);
    while (!watch->over && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
    const bool over = watch->over;
    pthread_mutex_unlock(&watch->lock);
    if (over)
        return NULL;
    fprintf(stderr,
            "rank %d (host %s): error: MPI does not start for %.0f s: not all of the job's ranks "
            "are there; see whether each node starts the runner (SHARDWRIGHT_START_SECONDS waits "
            "longer)\n",
            watch->launch->rank, watch->launch->host, watch->seconds);
    fflush(stderr);
    /* the first process to exit gets the others killed, and a silent one counts as missing */
    (void)sleep(START_GRACE_SECONDS);
    _exit(SW_ENVIRONMENT);
}

/* Runs on the pulse's thread: this rank would wait for the others forever. */
static void end_missed(void *context, int32_t rank, const char *host, double seconds)
{
    struct sw_error err = {0};
    (void)sw_fail(
        &err, SW_ENVIRONMENT,
        "rank %d (host %s) does not answer: nothing from rank %d for %.0f s: it hangs, or "
        "its node or network is gone (SHARDWRIGHT_STALL_SECONDS is how long to wait)",
        rank, host, rank, seconds);
    sw_launch_abort(context, &err, SW_ENVIRONMENT);
}

/* Finds the rank on its node and starts the pulse. */
static void find_local_rank(struct sw_launch *launch)
{
    int rank, size, local, local_rank;
    MPI_Comm node;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    launch->rank = rank;
    launch->size = size;
    launch->local_size = local;
    launch->local_rank = local_rank;
    launch->mpi = true;
    launch->pulse = sw_pulse_begin(launch->host, sw_launch_stall_seconds(0), end_missed, launch);
}

/* provided: as in MPI_Init_thread. Without a watching thread the start may wait forever. */
static int init_mpi(struct sw_launch *launch, int *provided)
{
    struct start_watch watch = {
        .launch = launch, .seconds = start_seconds(), .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t monotonic;
    pthread_t thread;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const bool watched = pthread_create(&thread, NULL, watch_start, &watch) == 0;
    const int status = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, provided);
    if (status == MPI_SUCCESS && *provided == MPI_THREAD_MULTIPLE)
        find_local_rank(launch);
    if (watched) {
        pthread_mutex_lock(&watch.lock);
        watch.over = true;
        pthread_cond_signal(&watch.changed);
        pthread_mutex_unlock(&watch.lock);
        pthread_join(thread, NULL);
    }
    pthread_cond_destroy(&watch.changed);
    return status;
}

int sw_launch_begin(struct sw_launch *launch, struct sw_error *err)
{
    *launch = (struct sw_launch){.size = 1, .local_size = 1};
    sw_launch_name(launch);
    if (!under_launcher()) {
        launch->rank = 0;
        return check_srun(launch, err);
    }
    int provided;
    if (init_mpi(launch, &provided) != MPI_SUCCESS)
        return sw_fail(err, SW_ENVIRONMENT, "MPI does not start");
    launch->mpi = true;
    /* ranks agree on errors while their communication threads may be in a call */
    if (provided < MPI_THREAD_MULTIPLE)
        return sw_fail(err, SW_ENVIRONMENT,
                       "this MPI has no MPI_THREAD_MULTIPLE, which the communication thread needs");
    return 0;
}

void sw_launch_started(struct sw_launch *launch)
{
    sw_pulse_end(launch->pulse);
    launch->pulse = NULL;
}

enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err)
{
    if (!launch->mpi) {
        if (err != NULL)
            print(launch, err, false);
        return err == NULL ? SW_OK : err->status;
    }
    /* a rank that failed because of another knows less than that one */
    const bool blames = err != NULL && err->culprit != 0 && err->culprit != launch->rank + 1;
    const int order = launch->rank + (blames ? launch->size : 0);
    int first = err == NULL ? 2 * launch->size : order;
    int status = err == NULL ? 0 : (int)err->status;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == 2 * launch->size)
        return SW_OK;
    if (err != NULL && first == order)
        print(launch, err, launch->rank != 0);
    MPI_Bcast(&status, 1, MPI_INT, first % launch->size, MPI_COMM_WORLD);
    MPI_Barrier(
        MPI_COMM_WORLD); /* printed before any rank exits and the launcher ends the others */
    return (enum sw_status)status;
}

int32_t sw_launch_difference(const struct sw_launch *launch, const uint64_t *values, int32_t count)
{
    uint64_t bounds[2 * SW_LAUNCH_VALUES]; /* the least value, and the complement of the largest */
    if (!launch->mpi)
        return -1;
    for (int32_t i = 0; i < count; i++) {
        bounds[2 * i] = values[i];
        bounds[2 * i + 1] = ~values[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, bounds, 2 * count, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    for (int32_t i = 0; i < count; i++)
        if (bounds[2 * i] != ~bounds[2 * i + 1])
            return i;
    return -1;
}

void sw_launch_gather(const struct sw_launch *launch, const void *mine, int32_t bytes, void *all)
{
    if (launch->mpi)
        MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else
        memcpy(all, mine, (size_t)bytes);
}

void sw_launch_broadcast(const struct sw_launch *launch, void *data, size_t bytes)
{
    const size_t most = 1 << 30; /* MPI counts in int */
    for (size_t at = 0; launch->mpi && at < bytes; at += most)
        MPI_Bcast((char *)data + at, (int)(bytes - at < most ? bytes - at : most), MPI_BYTE, 0,
                  MPI_COMM_WORLD);
}

/* Naps longer the longer nothing came: a rank needed soon polls often, an idle one costs
 * nothing. */
static void nap(double waited_s)
{
    const double most_s = 5e-3, most_look_s = 2e-4;
    const double seconds = waited_s / 16 < most_s ? waited_s / 16 : most_s;
    if (waited_s < most_look_s) {
        (void)sched_yield();
        return;
    }
    const struct timespec time = {0, (long)(seconds * 1e9)};
    (void)nanosleep(&time, NULL);
}

void sw_launch_pass_on(const struct sw_launch *launch, void *data, size_t bytes)
{
    const size_t most = 1 << 30; /* MPI counts in int */
    for (size_t at = 0; launch->mpi && at < bytes; at += most) {
        const double begin = sw_clock_now();
        MPI_Request request;
        int done = 0;
        MPI_Ibcast((char *)data + at, (int)(bytes - at < most ? bytes - at : most), MPI_BYTE, 0,
                   MPI_COMM_WORLD, &request);
        for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
             MPI_Test(&request, &done, MPI_STATUS_IGNORE))
            nap(sw_clock_now() - begin);
    }
}

int64_t sw_launch_max(const struct sw_launch *launch, int64_t value)
{
    if (launch->mpi)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

void sw_launch_max_floats(const struct sw_launch *launch, float *values, int64_t count)
{
    enum { AT_ONCE = 1 << 24 };
    for (int64_t i = 0; launch->mpi && i < count; i += AT_ONCE)
        MPI_Allreduce(MPI_IN_PLACE, values + i, count - i < AT_ONCE ? (int)(count - i) : AT_ONCE,
                      MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
}

void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err, int code)
{
    if (err != NULL)
        print(launch, err, launch->size > 1);
    if (launch->mpi) {
        /* MPI's own report says less in more lines; mpirun prints it from another process */
        const int nowhere =
            getenv("OMPI_COMM_WORLD_SIZE") != NULL ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere >= 0)
            (void)dup2(nowhere, STDERR_FILENO);
        MPI_Abort(MPI_COMM_WORLD, code);
    }
    _exit(code);
}

void sw_launch_end(struct sw_launch *launch)
{
    sw_launch_started(launch);
    if (launch->mpi)
        MPI_Finalize();
    launch->mpi = false;
}

const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    snprintf(buffer, (size_t)buffer_bytes, "%s", text);
    return buffer;
}

#else

int sw_launch_begin(struct sw_launch *launch, struct sw_error *err)
{
    *launch = (struct sw_launch){.size = 1, .local_size = 1};
    sw_launch_name(launch);
    launch->rank = 0;
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "this runner was built without MPI; install libopenmpi-dev and build again");
    return 0;
}

enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err)
{
    if (err != NULL)
        print(launch, err, false);
    return err == NULL ? SW_OK : err->status;
}

int32_t sw_launch_difference(const struct sw_launch *launch, const uint64_t *values, int32_t count)
{
    (void)launch;
    (void)values;
    (void)count;
    return -1;
}

void sw_launch_gather(const struct sw_launch *launch, const void *mine, int32_t bytes, void *all)
{
    (void)launch;
    memcpy(all, mine, (size_t)bytes);
}

void sw_launch_broadcast(const struct sw_launch *launch, void *data, size_t bytes)
{
    (void)launch;
    (void)data;
    (void)bytes;
}

void sw_launch_pass_on(const struct sw_launch *launch, void *data, size_t bytes)
{
    sw_launch_broadcast(launch, data, bytes);
}

int64_t sw_launch_max(const struct sw_launch *launch, int64_t value)
{
    (void)launch;
    return value;
}

void sw_launch_max_floats(const struct sw_launch *launch, float *values, int64_t count)
{
    (void)launch;
    (void)values;
    (void)count;
}

void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err, int code)
{
    if (err != NULL)
        print(launch, err, false);
    _exit(code);
}

void sw_launch_started(struct sw_launch *launch)
{
    (void)launch;
}

void sw_launch_end(struct sw_launch *launch)
{
    (void)launch;
}

const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes)
{
    snprintf(buffer, (size_t)buffer_bytes, "none");
    return buffer;
}

#endif
