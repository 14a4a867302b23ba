/* What a launcher and the ranks said of the end of an attempt, read from the file that a job script
 * keeps: the one rank, host and cause behind the dozens of lines that follow from it. */
#ifndef SW_LAUNCHER_H
#define SW_LAUNCHER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_launcher_word {
    char host[256];    /* "": nobody said it */
    char text[400];    /* "rank 5 (host n3): ended by signal 9 (Killed)"; "": nothing was said */
    bool cannot_start; /* the program cannot be started on that host, while it can on another */
    bool gone;         /* Slurm says that the host is gone */
    bool no_step;      /* srun could not start the ranks */
    bool hung;         /* ranks waited in vain for others of the job to start */
};

enum { SW_LAUNCHER_MISSING = 8 };

/* Nodes of which no rank and no task of Slurm's was heard. */
struct sw_launcher_missing {
    int32_t host[SW_LAUNCHER_MISSING]; /* numbers among those that were asked for */
    int32_t count;                     /* 0 where so many are missing that it says nothing */
};

/* Looks through a text that ends with a 0. The first line of a rank about itself; else what Slurm
 * says of memory, of a node or of the first task that was not merely told to end; where that
 * left with an exit code, the last error that rank 0 told without its name. */
void sw_launcher_parse(const char *text, struct sw_launcher_word *out);
/* Whether a rank on this host, or srun of a task there, says anything in the text. Names count up
 * to their first dot. */
bool sw_launcher_is_heard_of(const char *text, const char *name);
/* Of the hosts [count] that ranks were started on those that the text says nothing of: neither a
 * rank there nor srun of a task there. Names count up to their first dot. None where more than half
 * of the hosts, or more than SW_LAUNCHER_MISSING, are missing. */
void sw_launcher_find_missing(const char *text, const char *const *hosts, int32_t count,
                              struct sw_launcher_missing *out);
/* Both of a file; one that cannot be read says nothing. At most its first 4 MiB count. missing is
 * filled where ranks waited in vain for others; may be NULL. */
void sw_launcher_read(const char *path, const char *const *hosts, int32_t count,
                      struct sw_launcher_word *out, struct sw_launcher_missing *missing);

#endif
