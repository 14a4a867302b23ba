/* Memory of the accelerator that a plan should leave free, and the check of it. */
#include "planner/search/search.h"

#include "planner/command/format.h"

#include <math.h>

int64_t sw_headroom_bytes(const struct sw_run_config *run)
{
    return (int64_t)floor(run->memory_headroom * (double)run->cluster.accelerator.memory_bytes);
}

enum sw_fit_verdict sw_memory_verdict(const struct sw_memory *memory)
{
    if (memory->total > memory->limit)
        return SW_VERDICT_DOES_NOT_FIT;
    return memory->total > memory->limit - memory->headroom ? SW_VERDICT_NO_HEADROOM
                                                            : SW_VERDICT_FITS;
}

enum sw_fit_verdict sw_candidate_verdict(const struct sw_candidate *c)
{
    const bool has_memory = c->reason == SW_FITS || c->reason == SW_REJECT_MEMORY;
    return has_memory ? sw_memory_verdict(&c->memory) : SW_VERDICT_DOES_NOT_FIT;
}

const char *sw_verdict_name(enum sw_fit_verdict verdict)
{
    static const char *const names[SW_VERDICT_COUNT] = {"fits", "fits_without_headroom",
                                                        "does_not_fit"};
    return names[verdict];
}

const char *sw_verdict_text(enum sw_fit_verdict verdict)
{
    static const char *const texts[SW_VERDICT_COUNT] = {"fits", "fits without headroom",
                                                        "does not fit"};
    return texts[verdict];
}

const char sw_memory_whose[] = "exact for runner; torchtitan and its like need more: published "
                               "peaks often lie 30 to 60 % above";

const char *sw_headroom_warning(const struct sw_memory *m, char *buffer, size_t bytes)
{
    char total[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES], rest[SW_FORMAT_BYTES],
        wanted[SW_FORMAT_BYTES];
    const enum sw_fit_verdict verdict = sw_memory_verdict(m);
    buffer[0] = '\0';
    sw_format_bytes((double)m->total, total);
    sw_format_bytes((double)m->limit, limit);
    if (verdict == SW_VERDICT_NO_HEADROOM)
        snprintf(buffer, bytes, "%s: %s of %s are used, %s stay free; memory_headroom asks for %s",
                 sw_verdict_text(verdict), total, limit,
                 sw_format_bytes((double)(m->limit - m->total), rest),
                 sw_format_bytes((double)m->headroom, wanted));
    else if (verdict == SW_VERDICT_DOES_NOT_FIT)
        snprintf(buffer, bytes, "%s: %s of %s are needed, %s more than there is",
                 sw_verdict_text(verdict), total, limit,
                 sw_format_bytes((double)(m->total - m->limit), rest));
    return buffer;
}
