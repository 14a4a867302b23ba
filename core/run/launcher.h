/* What a launcher and the ranks said of the end of an attempt, read from the file that a job keeps
 * of it: the one rank, host and cause behind the dozens of lines that follow from it. The ranks'
 * own lines are known here; a launcher's are read by functions that its scheduler's row hands in.
 */
#ifndef SW_LAUNCHER_H
#define SW_LAUNCHER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_launcher_word {
    char host[256];    /* "": nobody said it */
    char text[400];    /* "rank 5 (host n3): ended by signal 9 (Killed)"; "": nothing was said */
    bool cannot_start; /* the program cannot be started on that host, while it can on another */
    bool gone;         /* the scheduler says that the host is gone */
    bool no_step;      /* the launcher could not start the ranks */
    bool hung;         /* ranks waited in vain for others of the job to start */
    bool by_itself; /* the rank left with an exit code: it may have said more than its launcher */
};

/* Whose word a line is; the later one here tells more of the cause. */
enum sw_launcher_tells {
    SW_LAUNCHER_NOTHING,
    SW_LAUNCHER_STEP,   /* the ranks could not be started */
    SW_LAUNCHER_TASK,   /* how a rank ended, of its launcher */
    SW_LAUNCHER_NODE,   /* a node failed */
    SW_LAUNCHER_MEMORY, /* a node's memory ran out */
    SW_LAUNCHER_RANK    /* a rank's own */
};

/* How a launcher's lines are read; constants, which own nothing. */
struct sw_launcher_lines {
    /* Whether a line is the launcher's own, not a rank's. */
    bool (*is_own)(const char *line);
    /* What a line of its own tells; out is filled with sw_launcher_word_set where that is anything
     * but SW_LAUNCHER_NOTHING. */
    enum sw_launcher_tells (*read)(const char *line, struct sw_launcher_word *out);
    /* The host of the rank that a line of its own speaks of, inside the line, which ends with a
     * newline or a 0; first: whether that is rank 0 or some that begin with it. Returns the bytes
     * of the name; 0: it speaks of none. */
    size_t (*host_of)(const char *line, const char **host, bool *first);
};

enum { SW_LAUNCHER_MISSING = 8 };

/* Nodes of which neither a rank nor the launcher said a word. */
struct sw_launcher_missing {
    int32_t host[SW_LAUNCHER_MISSING]; /* numbers among those that were asked for */
    int32_t count;                     /* 0 where so many are missing that it says nothing */
};

/* lines, everywhere: NULL where nothing is known of the launcher; then the ranks' own lines count.
 *
 * Looks through a text that ends with a 0. The first line of a rank about itself; else what the
 * launcher says of memory, of a node or of the first rank that was not merely told to end; where
 * that left with an exit code, the last error that rank 0 told without its name, of itself or
 * of a file that it read. */
void sw_launcher_parse(const char *text, const struct sw_launcher_lines *lines,
                       struct sw_launcher_word *out);
/* Whether a rank on this host, or the launcher of one there, says anything in the text. Names count
 * up to their first dot. */
bool sw_launcher_is_heard_of(const char *text, const struct sw_launcher_lines *lines,
                             const char *name);
/* Of the hosts [count] that ranks were started on those that the text says nothing of: neither a
 * rank there nor the launcher of one. Names count up to their first dot. None where more than half
 * of the hosts, or more than SW_LAUNCHER_MISSING, are missing. */
void sw_launcher_find_missing(const char *text, const struct sw_launcher_lines *lines,
                              const char *const *hosts, int32_t count,
                              struct sw_launcher_missing *out);
/* Both of a file; one that cannot be read says nothing. At most its first 4 MiB count. Where no
 * rank gave a reason and the disk of the file is full, that is the reason: nobody could write
 * another. missing is filled where ranks waited in vain for others; may be NULL. */
void sw_launcher_read(const char *path, const struct sw_launcher_lines *lines,
                      const char *const *hosts, int32_t count, struct sw_launcher_word *out,
                      struct sw_launcher_missing *missing);

/* Fills a word, for who reads lines: the host's name of that many bytes, and the text, of which
 * what no terminal should see is replaced. All else is cleared. */
void sw_launcher_word_set(struct sw_launcher_word *out, const char *host, size_t host_bytes,
                          const char *text);

#endif
