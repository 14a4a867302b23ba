/* Rate at which a checkpoint's bytes come to the disk, and processor seconds for it, in turns with
 * `cp` and `sync` of as many bytes.
 *
 *   bench_durable FOLDER [MIB [RANKS [ROUNDS [BUSY]]]]
 *
 * A checkpoint of MIB mebibytes, its weights and two moments, is written by RANKS threads as the
 * ranks of a job write it (runner/checkpoint/part.h: slices with their checksums, every file
 * synced), and `cp` copies three such files, which the page cache has, whereupon `sync` syncs them:
 * each ROUNDS times, in new files. With BUSY, ours is written once more in each round while so many
 * processes compute, as training does, and the work that they lose is told as time. Prints the
 * medians, how far the rounds lie apart, and processor seconds without those of kernel threads.
 * Exit status 1: less than 0.9 of the rate of `cp` and `sync`; 3: something failed. FOLDER must not
 * be there yet; it is deleted. */
#include "core/base/clock.h"
#include "runner/checkpoint/part.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 3, MOST_ROUNDS = 99, PATH_BYTES = 512, MOST_BUSY = 64, BUSY_FLOATS = 1 << 18 };

static const char *const names[FILES] = {"model", "optimizer_1", "optimizer_2"};

struct bench {
    const char *folder;
    char ours[PATH_BYTES], peer[PATH_BYTES], source[PATH_BYTES];
    struct sw_placement placement;
    char *data; /* of any rank */
    int32_t ranks, busy_count;
    pid_t busy[MOST_BUSY];
    struct counter *counter; /* [busy_count], shared with these processes */
};

/* Passes of a busy process over its floats. */
struct counter {
    _Alignas(64) atomic_long passes;
};

enum kind { OURS, BESIDE, PEER, KINDS };

/* Figures of each round. */
struct times {
    double seconds[MOST_ROUNDS], cores[MOST_ROUNDS], lost[MOST_ROUNDS];
};

static int run(const char *format, const char *a, const char *b)
{
    char command[3 * PATH_BYTES];
    snprintf(command, sizeof command, format, a, b);
    return system(command) == 0 ? 0 : -1;
}

static int fill_placement(struct sw_placement *p, int64_t bytes, int32_t ranks)
{
    struct sw_error err = {0};
    p->file_count = FILES;
    p->file = calloc(FILES, sizeof *p->file);
    if (p->file == NULL)
        return -1;
    for (int i = 0; i < FILES; i++) {
        snprintf(p->file[i].name, sizeof p->file[i].name, "%s", names[i]);
        p->file[i].data_begin = SW_STORED_DATA_ALIGNMENT;
        p->file[i].bytes = SW_STORED_DATA_ALIGNMENT + bytes / FILES;
    }
    return sw_placement_deal(p, ranks, &err);
}

/* One rank's part, on a thread of its own: the kernel would copy memory that processes share before
 * the disk reads it. */
struct part {
    const struct bench *bench;
    const char *folder;
    int32_t rank;
    bool failed;
};

static void *write_part(void *context)
{
    struct part *p = context;
    struct sw_part part;
    struct sw_error err = {0};
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &none); /* as the saver's thread */
    if (sw_part_open(&p->bench->placement, p->rank, &part, &err) == 0) {
        sw_part_begin_writing(&part, p->folder, 0);
        if (sw_part_write(&part, p->bench->data, part.bytes, &err) == 0)
            (void)sw_part_end_writing(&part, &err);
        sw_part_close(&part);
    }
    p->failed = err.status != SW_OK;
    if (p->failed)
        fprintf(stderr, "bench_durable: %s\n", err.message);
    return NULL;
}

static int write_ours(const struct bench *b, const char *folder)
{
    pthread_t thread[MOST_BUSY];
    struct part part[MOST_BUSY];
    int status = 0;
    for (int32_t rank = 0; rank < b->ranks; rank++) {
        part[rank] = (struct part){.bench = b, .folder = folder, .rank = rank};
        if (pthread_create(&thread[rank], NULL, write_part, &part[rank]) != 0)
            exit(3);
    }
    for (int32_t rank = 0; rank < b->ranks; rank++) {
        (void)pthread_join(thread[rank], NULL);
        status |= part[rank].failed ? -1 : 0;
    }
    return status;
}

static int write_peer(const struct bench *b, const char *folder)
{
    return run("cp --reflink=never '%s'/* '%s'/", b->source, folder) != 0 ||
                   run("sync '%s'/*%s", folder, "") != 0
               ? -1
               : 0;
}

/* ---- Busy processes ---- */

/* Adds up an array that the core's own cache holds, until it is killed. */
static _Noreturn void be_busy(struct counter *counter)
{
    static float x[BUSY_FLOATS];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        for (int32_t i = 0; i < BUSY_FLOATS; i++)
            x[i] = x[i] * 0.999f + 1.0f;
        atomic_fetch_add(&counter->passes, 1);
    }
}

static int start_busy(struct bench *b)
{
    fflush(NULL);
    for (int32_t i = 0; i < b->busy_count; i++) {
        b->busy[i] = fork();
        if (b->busy[i] == 0)
            be_busy(&b->counter[i]);
        if (b->busy[i] < 0 || kill(b->busy[i], SIGSTOP) != 0)
            return -1;
    }
    return 0;
}

static void end_busy(struct bench *b)
{
    for (int32_t i = 0; i < b->busy_count; i++)
        if (b->busy[i] > 0 && kill(b->busy[i], SIGKILL) == 0)
            (void)waitpid(b->busy[i], NULL, 0);
}

static void signal_busy(const struct bench *b, int signal)
{
    for (int32_t i = 0; i < b->busy_count; i++)
        (void)kill(b->busy[i], signal);
}

static double passes(const struct bench *b)
{
    double sum = 0;
    for (int32_t i = 0; i < b->busy_count; i++)
        sum += (double)atomic_load(&b->counter[i].passes);
    return sum;
}

/* Passes a second. */
static double busy_rate(const struct bench *b)
{
    const double begin = sw_clock_now(), before = passes(b);
    usleep(700000);
    return (passes(b) - before) / (sw_clock_now() - begin);
}

/* ---- Rounds ---- */

static double used_seconds(int who)
{
    struct rusage used;
    if (getrusage(who, &used) != 0)
        return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double core_seconds(void)
{
    return used_seconds(RUSAGE_SELF) + used_seconds(RUSAGE_CHILDREN);
}

/* One of them in a new folder. It is done once before: the page cache has the memory then that the
 * first gave back, which a virtual machine had to get from its host page by page. */
static int measure(const struct bench *b, enum kind kind, struct times *times, int round)
{
    const char *folder = kind == PEER ? b->peer : b->ours;
    int (*const write)(const struct bench *b, const char *folder) =
        kind == PEER ? write_peer : write_ours;
    if (run("rm -rf '%s' && mkdir '%s' && sync", folder, folder) != 0 || write(b, folder) != 0 ||
        run("rm -rf '%s' && mkdir '%s' && sync", folder, folder) != 0)
        return -1;
    if (kind == BESIDE)
        signal_busy(b, SIGCONT);
    const double before = kind == BESIDE ? busy_rate(b) : 0, done = passes(b);
    const double cores = core_seconds(), begin = sw_clock_now();
    const int status = write(b, folder);
    times->seconds[round] = sw_clock_now() - begin;
    times->cores[round] = core_seconds() - cores;
    if (kind == BESIDE) {
        const double made = passes(b) - done;
        const double usual = (before + busy_rate(b)) / 2;
        times->lost[round] = times->seconds[round] - made / usual;
        signal_busy(b, SIGSTOP);
    }
    return status == 0 ? run("rm -rf '%s'%s", folder, "") : -1;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

/* Median seconds. */
static double report(const char *what, struct times *times, int rounds, double bytes)
{
    const double seconds = median(times->seconds, rounds);
    printf("%-12s %7.2f s (%.2f to %.2f) %6.0f MB/s %6.2f core-seconds\n", what, seconds,
           times->seconds[0], times->seconds[rounds - 1], bytes / seconds / 1e6,
           median(times->cores, rounds));
    return seconds;
}

static int compare(struct bench *b, int rounds, double bytes)
{
    static struct times times[KINDS];
    if (write_ours(b, b->source) != 0)
        return 3;
    for (int i = 0; i < rounds; i++) /* each is first as often as the others */
        for (int turn = 0; turn < KINDS; turn++) {
            const enum kind kind = (enum kind)((turn + i) % KINDS);
            if ((kind != BESIDE || b->busy_count > 0) && measure(b, kind, &times[kind], i) != 0)
                return 3;
        }
    const double mine = report("ours", &times[OURS], rounds, bytes);
    const double theirs = report("cp and sync", &times[PEER], rounds, bytes);
    const double cores = times[OURS].cores[rounds / 2] / times[PEER].cores[rounds / 2];
    printf("%.2f of the time of cp and sync, %.2f of the cores', %d writer(s), %.0f MB, %d rounds "
           "each\n",
           mine / theirs, cores, (int)b->ranks, bytes / 1e6, rounds);
    if (b->busy_count > 0) {
        const double beside = report("beside", &times[BESIDE], rounds, bytes);
        printf("%.2f of the time of cp and sync beside %d busy process(es), which lose %.2f s\n",
               beside / theirs, (int)b->busy_count, median(times[BESIDE].lost, rounds));
    }
    return 0.9 * mine > theirs ? 1 : 0;
}

/* Memory like that of the saver's snapshot. */
static char *allocate(int64_t bytes)
{
    const size_t page = 2 << 20, size = ((size_t)bytes + page - 1) / page * page;
    char *memory = aligned_alloc(page, size);
    if (memory != NULL)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

int main(int argc, char **argv)
{
    struct bench b = {.folder = argc > 1 ? argv[1] : "", .ranks = argc > 3 ? atoi(argv[3]) : 1};
    const int64_t bytes = (argc > 2 ? atoll(argv[2]) : 512) << 20;
    const int rounds = argc > 4 ? atoi(argv[4]) : 7;
    b.busy_count = argc > 5 ? atoi(argv[5]) : 0;
    if (argc < 2 || bytes < FILES << 20 || b.ranks < 1 || b.ranks > MOST_BUSY || b.busy_count < 0 ||
        b.busy_count > MOST_BUSY || rounds < 1 || rounds > MOST_ROUNDS ||
        strchr(b.folder, '\'') != NULL || strlen(b.folder) > PATH_BYTES / 2) {
        fprintf(stderr, "usage: bench_durable FOLDER [MIB [RANKS [ROUNDS [BUSY]]]]\n");
        return 2;
    }
    snprintf(b.ours, sizeof b.ours, "%s/ours", b.folder);
    snprintf(b.peer, sizeof b.peer, "%s/peer", b.folder);
    snprintf(b.source, sizeof b.source, "%s/source", b.folder);
    b.data = allocate(bytes);
    b.counter = mmap(NULL, MOST_BUSY * sizeof *b.counter, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 3;
    if (b.data == NULL || b.counter == MAP_FAILED || mkdir(b.folder, 0777) != 0 ||
        mkdir(b.source, 0777) != 0) {
        perror("bench_durable");
    } else if (start_busy(&b) == 0 && fill_placement(&b.placement, bytes, b.ranks) == 0) {
        for (int64_t i = 0; i < bytes; i++) /* no page is like another */
            b.data[i] = (char)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 56);
        status = compare(&b, rounds, (double)bytes);
    }
    end_busy(&b);
    (void)run("rm -rf '%s'%s", b.folder, "");
    sw_placement_free(&b.placement);
    free(b.data);
    return status;
}
