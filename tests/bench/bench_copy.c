/* Bytes per second that memcpy copies on this machine when `PROCESSES` do so at the same time, each
 * from and to memory of its own: what the ranks of a job have when all of them copy.
 *
 *   bench_copy BYTES PROCESSES
 *
 * Prints the rate of one of them while all are at it, waiting for a core included: the mean of a
 * second and at least five copies. Pages are touched before. */
#include "core/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 5, LEAST_SECONDS = 1 };

/* Seconds that one copy took this process, waiting for a core included. */
static double measure(size_t bytes, int ready, int go)
{
    char *from = malloc(bytes), *to = malloc(bytes), word = 0;
    double mean = -1;
    size_t count = 0;
    if (from == NULL || to == NULL)
        goto out;
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    if (write(ready, &word, 1) != 1 || read(go, &word, 1) != 1)
        goto out;
    const double begin = sw_clock_now();
    while (count < LEAST_ROUNDS || sw_clock_now() - begin < LEAST_SECONDS) {
        memcpy(to, from, bytes);
        from[count++ % bytes]++;
    }
    mean = (sw_clock_now() - begin) / (double)count;
out:
    free(from);
    free(to);
    return mean;
}

int main(int argc, char **argv)
{
    const long long bytes = argc == 3 ? atoll(argv[1]) : 0;
    const int processes = argc == 3 ? atoi(argv[2]) : 0;
    int ready[2], go[2], results[2];
    if (bytes < 1 || processes < 1 || pipe(ready) != 0 || pipe(go) != 0 || pipe(results) != 0) {
        fprintf(stderr, "usage: bench_copy BYTES PROCESSES\n");
        return 2;
    }
    for (int i = 0; i < processes; i++) {
        const pid_t pid = fork();
        if (pid < 0)
            return 3;
        if (pid == 0) {
            const double seconds = measure((size_t)bytes, ready[1], go[0]);
            _exit(write(results[1], &seconds, sizeof seconds) == sizeof seconds ? 0 : 3);
        }
    }
    char word = 0;
    for (int i = 0; i < processes; i++)
        if (read(ready[0], &word, 1) != 1)
            return 3;
    for (int i = 0; i < processes; i++)
        if (write(go[1], &word, 1) != 1)
            return 3;
    double sum = 0;
    for (int i = 0; i < processes; i++) {
        double seconds = -1;
        if (read(results[0], &seconds, sizeof seconds) != sizeof seconds || seconds <= 0)
            return 3;
        sum += seconds;
    }
    while (wait(NULL) > 0)
        continue;
    printf("%.6g\n", (double)bytes / (sum / processes));
    return 0;
}
