/* The line that says how far a run is. Knows nothing but numbers; writes to stderr. */
#ifndef SW_PROGRESS_LINE_H
#define SW_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

struct sw_progress_line {
    double started, last_line;
    int64_t first;  /* steps that were done when it started */
    bool line_open; /* the terminal's line has no end yet */
    bool quiet;     /* the caller's: nothing is written */
};

/* Keeps `quiet`. */
void sw_progress_line_begin(struct sw_progress_line *progress, int64_t first);
/* On a terminal, before the first step: its number, and how long it is to take. The line of the
 * first step replaces it. */
void sw_progress_line_first(struct sw_progress_line *p, int64_t last, double predicted_s);
/* On a terminal one line that is written over, at most ten times a second; else a line about every
 * twentieth of the run, or every 10 s. final: whatever the time. */
void sw_progress_line_step(struct sw_progress_line *progress, int64_t step, int64_t last,
                           double loss, double tokens_per_second, bool final);
/* Before anything else is said. */
void sw_progress_line_end(struct sw_progress_line *progress);

#endif
