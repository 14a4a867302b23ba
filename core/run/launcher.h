/* The cause of an attempt's end, from the file that a job keeps of its launcher's and ranks'
 * output: the one rank, host and cause behind the dozens of lines that follow from it. The ranks'
 * own lines are parsed here; a launcher's by functions from its scheduler's row. */
#ifndef SW_LAUNCHER_H
#define SW_LAUNCHER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_launcher_word {
    char host[256];    /* "": no line names it */
    char text[400];    /* "rank 5 (host n3): ended by signal 9 (Killed)"; "": none */
    bool cannot_start; /* true if the program cannot be started on that host, but can on another */
    bool gone;         /* true if the scheduler reports the host gone */
    bool no_step;      /* true if the launcher could not start the ranks */
    bool hung;         /* true if ranks waited in vain for others to start */
    bool by_itself;    /* true if the rank left with an exit code: it may have said more than its
                          launcher */
};

/* Sources of a line; a later one here says more about the cause. */
enum sw_launcher_tells {
    SW_LAUNCHER_NOTHING,
    SW_LAUNCHER_STEP,   /* the ranks could not be started */
    SW_LAUNCHER_TASK,   /* the launcher, on how a rank ended */
    SW_LAUNCHER_NODE,   /* a node failed */
    SW_LAUNCHER_MEMORY, /* a node's memory ran out */
    SW_LAUNCHER_RANK    /* a rank, on itself */
};

/* Readers of a launcher's lines; constants, which own nothing. */
struct sw_launcher_lines {
    /* True if a line is the launcher's own, not a rank's. */
    bool (*is_own)(const char *line);
    /* Kind of one of its own lines; fills out with sw_launcher_word_set unless it returns
     * SW_LAUNCHER_NOTHING. */
    enum sw_launcher_tells (*read)(const char *line, struct sw_launcher_word *out);
    /* The host of the rank in one of its own lines, inside the line, which ends with a newline or a
     * 0; first: true if that is rank 0, or ranks from 0 on. Returns the length of the name; 0:
     * none. */
    size_t (*host_of)(const char *line, const char **host, bool *first);
};

enum { SW_LAUNCHER_MISSING = 8 };

/* Nodes from which neither a rank nor the launcher wrote a line. */
struct sw_launcher_missing {
    int32_t host[SW_LAUNCHER_MISSING]; /* indexes among the given hosts */
    int32_t count;                     /* 0 if so many are missing that it means nothing */
};

/* lines, here and below: NULL for an unknown launcher; then only the ranks' own lines count.
 *
 * Parses a text that ends with a 0. Prefers the first line of a rank about itself; else the
 * launcher's lines about memory, about a node, or about the first rank that was not merely told to
 * end; if that rank left with an exit code, the last error of rank 0 without its name, about itself
 * or a file that it read. */
void sw_launcher_parse(const char *text, const struct sw_launcher_lines *lines,
                       struct sw_launcher_word *out);
/* True if a rank on this host, or the launcher of one there, wrote a line. Names count up to their
 * first dot. */
bool sw_launcher_is_heard_of(const char *text, const struct sw_launcher_lines *lines,
                             const char *name);
/* Finds the hosts [count] of started ranks without a line from either a rank or its launcher. Names
 * count up to their first dot. None if more than half of the hosts, or more than
 * SW_LAUNCHER_MISSING, are missing. */
void sw_launcher_find_missing(const char *text, const struct sw_launcher_lines *lines,
                              const char *const *hosts, int32_t count,
                              struct sw_launcher_missing *out);
/* Does both for a file; an unreadable one has no lines. Only its first 4 MiB count. If no rank gave
 * a reason and the file's disk is full, that is the reason, since nothing else could be written.
 * missing is filled if ranks waited in vain for others; may be NULL. */
void sw_launcher_read(const char *path, const struct sw_launcher_lines *lines,
                      const char *const *hosts, int32_t count, struct sw_launcher_word *out,
                      struct sw_launcher_missing *missing);

/* Fills a word, for readers of lines: the host's name with its length, and the text, with
 * characters replaced that a terminal should not see. Clears the rest. */
void sw_launcher_word_set(struct sw_launcher_word *out, const char *host, size_t host_bytes,
                          const char *text);

#endif
