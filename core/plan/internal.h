/* What writing and reading a plan file share: its words and its digest. */
#ifndef SW_PLAN_INTERNAL_H
#define SW_PLAN_INTERNAL_H

#include "core/plan/plan.h"

/* The file starts with these bytes, then the 16 hexadecimal digits of the digest, then a quote. */
#define SW_PLAN_HEAD                                                                               \
    "# Written by 'plan emit'. The digest finds every change: edit the run file and emit again.\n" \
    "schema: shardwright.plan/1\n"                                                                 \
    "digest: '"

enum { SW_PLAN_DIGEST_DIGITS = 16 };

extern const char *const sw_plan_recompute_words[3];
extern const char *const sw_plan_strategy_words[3];
extern const char *const sw_plan_layout_words[2];
extern const char *const sw_plan_residual_words[2];

/* FNV-1a 64 over every byte but the digest's digits. bytes >= the head and the digits. */
uint64_t sw_plan_text_digest(const char *text, size_t bytes);

#endif
