#include "runner/train/progress_line.h"

#include "core/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void format_duration(double seconds, char text[32])
{
    const int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, 32, "%" PRId64 " h %02d min", s / 3600, (int)(s / 60 % 60));
    else if (s >= 60)
        snprintf(text, 32, "%" PRId64 " min %02d s", s / 60, (int)(s % 60));
    else
        snprintf(text, 32, "%" PRId64 " s", s);
}

void sw_progress_line_begin(struct sw_progress_line *p, int64_t first)
{
    *p = (struct sw_progress_line){.first = first, .quiet = p->quiet};
    p->started = p->last_line = sw_clock_now();
}

void sw_progress_line_first(struct sw_progress_line *p, int64_t last, double predicted_s)
{
    char time[32];
    if (p->quiet || p->first >= last || isatty(STDERR_FILENO) != 1)
        return;
    if (predicted_s < 1)
        snprintf(time, sizeof time, "%.2g s", predicted_s);
    else
        format_duration(predicted_s, time);
    fprintf(stderr, "step %" PRId64 "/%" PRId64 " is under way, predicted to take %s", p->first + 1,
            last, time);
    fflush(stderr);
    p->line_open = true;
}

void sw_progress_line_step(struct sw_progress_line *p, int64_t step, int64_t last, double loss,
                           double tokens_per_second, bool final)
{
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const int64_t every = last / 20 > 0 ? last / 20 : 1;
    const double time = sw_clock_now();
    char left[32];
    const bool due =
        terminal ? time - p->last_line >= 0.1 : step % every == 0 || time - p->last_line >= 10;
    if (p->quiet || (!due && !final && step != p->first + 1))
        return;
    p->last_line = time;
    format_duration((time - p->started) / (double)(step - p->first) * (double)(last - step), left);
    fprintf(stderr, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  %s left%s",
            terminal ? "\r\033[K" : "", step, last, loss, tokens_per_second, left,
            terminal && !final ? "" : "\n");
    fflush(stderr);
    p->line_open = terminal && !final;
}

void sw_progress_line_end(struct sw_progress_line *p)
{
    if (p->line_open)
        fputc('\n', stderr);
    p->line_open = false;
}
