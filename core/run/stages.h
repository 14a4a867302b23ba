/* Stages of a run: trainings one after another, each in a folder of its name inside the run's.
 *
 *     {"schema": "shardwright.stages/1", "run": "toy", "stages": [
 *      {"name": "short", "steps": 6, "first_step": 0, "step_seconds": 0.1,
 *       "fewest_nodes": 4, "nodes": 4}, ...]}
 *
 * `plan emit` writes FOLDER/stages.json; a run without stages has none. Each stage's own
 * attempt.json has its progress. */
#ifndef SW_RUN_STAGES_H
#define SW_RUN_STAGES_H

#include "core/run/attempt.h"

enum { SW_STAGES = 64, SW_STAGE_NAME_BYTES = 72 };

struct sw_stage {
    char name[SW_STAGE_NAME_BYTES];
    int64_t steps;               /* last step; 0: unknown */
    int64_t first_step;          /* step that it starts after */
    double step_seconds;         /* predicted; 0: unknown */
    int32_t fewest_nodes, nodes; /* fewest and most nodes that it runs on; 0: unknown */
};
struct sw_stages {
    int32_t count; /* 0: the run has no stages */
    struct sw_stage stage[SW_STAGES];
};

/* Reads FOLDER/stages.json; a missing file: count 0. A broken one counts as missing, with a note.
 * Errors: SW_ENVIRONMENT. */
int sw_stages_read(const char *folder, struct sw_stages *out, char note[256], struct sw_error *err);
/* Replaces the file, unless its contents are equal; for a run without stages, removes it. Errors:
 * SW_ENVIRONMENT. */
int sw_stages_write(const char *folder, const char *run, const struct sw_stages *stages,
                    struct sw_error *err);

/* Index of the run's current stage, by the folders' attempt.json: the last that has begun, or if
 * that is done, the next; `count`: all are done. 0: none has begun. */
int32_t sw_stages_current(const char *folder, const struct sw_stages *stages);
/* Steps of all stages, and those of the stages before `stage`. */
int64_t sw_stages_steps(const struct sw_stages *stages, int32_t stage);

#endif
