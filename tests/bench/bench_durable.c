/* How fast a checkpoint's bytes come to the disk, beside `cp` and `sync` of as many, in turns.
 *
 *   bench_durable FOLDER [MIB [RANKS [ROUNDS]]]
 *
 * A checkpoint of MIB mebibytes, its weights and two moments, is written by RANKS processes as
 * those of a job write it (runner/checkpoint/part.h: slices with their checksums, every file
 * synced), and `cp` copies three such files, which the page cache has, whereupon `sync` syncs them:
 * each ROUNDS times, in new files. Prints the medians and how far the rounds lie apart. Exit status
 * 1: less than 0.9 of the rate of `cp` and `sync`; 3: something failed. FOLDER must not be there
 * yet; it is deleted. */
#include "core/base/clock.h"
#include "runner/checkpoint/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 3, MOST_ROUNDS = 99, PATH_BYTES = 512 };

static const char *const names[FILES] = {"model", "optimizer_1", "optimizer_2"};

struct bench {
    const char *folder;
    char ours[PATH_BYTES], peer[PATH_BYTES], source[PATH_BYTES];
    struct sw_placement placement;
    char *data; /* of any rank */
    int32_t ranks;
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

/* One rank's part, in a process of its own. */
static int write_part(const struct bench *b, int32_t rank, const char *folder)
{
    struct sw_part part;
    struct sw_error err = {0};
    if (sw_part_open(&b->placement, rank, &part, &err) != 0)
        return 3;
    sw_part_begin_writing(&part, folder, 0);
    const int status = sw_part_write(&part, b->data, part.bytes, &err) != 0 ||
                       sw_part_end_writing(&part, &err) != 0;
    if (status != 0)
        fprintf(stderr, "bench_durable: %s\n", err.message);
    sw_part_close(&part);
    return status != 0 ? 3 : 0;
}

static int write_ours(const struct bench *b, const char *folder)
{
    int status = 0, one;
    fflush(NULL);
    for (int32_t rank = 0; rank < b->ranks; rank++) {
        const pid_t child = fork();
        if (child < 0)
            return -1;
        if (child == 0)
            _exit(write_part(b, rank, folder));
    }
    while (wait(&one) > 0)
        status |= one;
    return status != 0 ? -1 : 0;
}

static int write_peer(const struct bench *b, const char *folder)
{
    return run("cp --reflink=never '%s'/* '%s'/", b->source, folder) != 0 ||
                   run("sync '%s'/*%s", folder, "") != 0
               ? -1
               : 0;
}

/* Seconds of one of them in a new folder, nothing else being under way. Less than 0: it failed. It
 * is done once before: the page cache has the memory then that the first gave back, which a virtual
 * machine had to get from its host page by page. */
static double measure(const struct bench *b, const char *folder,
                      int (*write)(const struct bench *b, const char *folder))
{
    if (run("rm -rf '%s' && mkdir '%s' && sync", folder, folder) != 0 || write(b, folder) != 0 ||
        run("rm -rf '%s' && mkdir '%s' && sync", folder, folder) != 0)
        return -1;
    const double begin = sw_clock_now();
    const int status = write(b, folder);
    const double seconds = sw_clock_now() - begin;
    return status == 0 && run("rm -rf '%s'%s", folder, "") == 0 ? seconds : -1;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median rate, and the least and the most. */
static double report(const char *what, double *seconds, int rounds, double bytes)
{
    qsort(seconds, (size_t)rounds, sizeof *seconds, ascending);
    const double rate = bytes / seconds[rounds / 2] / 1e6;
    printf("%-12s %8.0f MB/s  (%.0f to %.0f)\n", what, rate, bytes / seconds[rounds - 1] / 1e6,
           bytes / seconds[0] / 1e6);
    return rate;
}

static int compare(struct bench *b, int rounds, double bytes)
{
    double ours[MOST_ROUNDS], peer[MOST_ROUNDS];
    if (write_ours(b, b->source) != 0)
        return 3;
    for (int i = 0; i < rounds; i++) /* each is first as often as the other */
        for (int turn = 0; turn < 2; turn++) {
            const bool mine = turn == i % 2;
            double *to = mine ? &ours[i] : &peer[i];
            *to = mine ? measure(b, b->ours, write_ours) : measure(b, b->peer, write_peer);
            if (*to < 0)
                return 3;
        }
    const double mine = report("ours", ours, rounds, bytes);
    const double theirs = report("cp and sync", peer, rounds, bytes);
    printf("%.2f of cp and sync, %d process(es), %.0f MB, %d rounds each\n", mine / theirs,
           (int)b->ranks, bytes / 1e6, rounds);
    return mine < 0.9 * theirs ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct bench b = {.folder = argc > 1 ? argv[1] : "", .ranks = argc > 3 ? atoi(argv[3]) : 1};
    const int64_t bytes = (argc > 2 ? atoll(argv[2]) : 512) << 20;
    const int rounds = argc > 4 ? atoi(argv[4]) : 7;
    if (argc < 2 || bytes < FILES << 20 || b.ranks < 1 || rounds < 1 || rounds > MOST_ROUNDS ||
        strchr(b.folder, '\'') != NULL || strlen(b.folder) > PATH_BYTES / 2) {
        fprintf(stderr, "usage: bench_durable FOLDER [MIB [RANKS [ROUNDS]]]\n");
        return 2;
    }
    snprintf(b.ours, sizeof b.ours, "%s/ours", b.folder);
    snprintf(b.peer, sizeof b.peer, "%s/peer", b.folder);
    snprintf(b.source, sizeof b.source, "%s/source", b.folder);
    b.data = malloc((size_t)bytes);
    int status = 3;
    if (b.data == NULL || mkdir(b.folder, 0777) != 0 || mkdir(b.source, 0777) != 0) {
        perror("bench_durable");
    } else if (fill_placement(&b.placement, bytes, b.ranks) == 0) {
        for (int64_t i = 0; i < bytes; i++) /* no page is like another */
            b.data[i] = (char)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 56);
        status = compare(&b, rounds, (double)bytes);
    }
    (void)run("rm -rf '%s'%s", b.folder, "");
    sw_placement_free(&b.placement);
    free(b.data);
    return status;
}
