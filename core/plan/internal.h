/* Shared by writing and reading a plan file: its start and its digest. */
#ifndef SW_PLAN_INTERNAL_H
#define SW_PLAN_INTERNAL_H

#include "core/plan/plan.h"
#include "core/programs/compile.h"

/* A file that is written starts with these bytes, then the 16 hexadecimal digits of the digest,
 * then a quote. */
#define SW_PLAN_HEAD                                                                               \
    "# Written by 'plan emit'. The digest finds every change: edit the run file and emit again.\n" \
    "schema: shardwright.plan/1\n"                                                                 \
    "digest: '"

enum { SW_PLAN_DIGEST_DIGITS = 16 };

/* Storage for the names of a description of recomputation. */
struct sw_recompute_names {
    struct sw_name_config values[SW_LAYER_VALUES], rest[SW_LAYER_VALUES];
};
/* Describes recomputation as in files; *out refers to names. */
void sw_plan_name_recompute(struct sw_recompute recompute, struct sw_recompute_names *names,
                            struct sw_recompute_config *out);

/* A hash of every byte but the digest's digits, which start at `at`; at + 16 <= bytes. */
uint64_t sw_plan_text_digest(const char *text, size_t bytes, size_t at);

#endif
