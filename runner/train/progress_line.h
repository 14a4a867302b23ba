/* Progress line of a run. Knows only numbers; writes to stderr. */
#ifndef SW_PROGRESS_LINE_H
#define SW_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

struct sw_progress_line {
    double started, last_line;
    int64_t first;  /* steps done at the start */
    bool line_open; /* true if the terminal's line is unfinished */
    bool quiet;     /* true to write nothing; set by the caller */
};

/* Starts; keeps `quiet`. */
void sw_progress_line_begin(struct sw_progress_line *progress, int64_t first);
/* On a terminal, before the first step: its number and predicted time, until that step's line
 * replaces it. */
void sw_progress_line_first(struct sw_progress_line *p, int64_t last, double predicted_s);
/* On a terminal overwrites one line, at most ten times a second; else writes a line about every
 * twentieth of the run, or every 10 s. final: writes in any case. */
void sw_progress_line_step(struct sw_progress_line *progress, int64_t step, int64_t last,
                           double loss, double tokens_per_second, bool final);
/* Finishes the line; call before other output. */
void sw_progress_line_end(struct sw_progress_line *progress);

#endif
