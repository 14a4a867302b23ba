/* A resolved description as a flat list of key paths and values, and what differs between two.
 *
 * The list is read from what sw_run_config_write and sw_plan_write wrote, so every setting is in it
 * as soon as a plan file has it: "run.cluster.links.nvlink.bandwidth" = "450000000000". */
#ifndef SW_PLANNER_DIFF_SETTINGS_H
#define SW_PLANNER_DIFF_SETTINGS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_setting {
    char *key;         /* the list's own */
    const char *value; /* in the list's text */
};

struct sw_settings {
    char *text;
    struct sw_setting *item; /* sorted by key */
    int32_t count, capacity;
};

/* Takes over text (malloc'ed, NUL-terminated), also when it fails. Free with sw_settings_free.
 * Errors (SW_ENVIRONMENT): memory; a text that is not of that form. */
int sw_settings_read(char *text, struct sw_settings *out, struct sw_error *err);
void sw_settings_free(struct sw_settings *settings);

/* The value of a key; NULL: not set. */
const char *sw_settings_find(const struct sw_settings *settings, const char *key);

struct sw_setting_change {
    const char *key;
    const char *old_value, *new_value; /* NULL: not set */
};

/* Lists what differs, sorted by key, into *out, which the caller frees (NULL when nothing does).
 * old_base and new_base: the folders that paths are seen from; a path that means the same from both
 * is the same. Returns the number of changes, -1 when memory runs out. Points into both lists. */
int32_t sw_settings_compare(const struct sw_settings *before, const char *old_base,
                            const struct sw_settings *after, const char *new_base,
                            struct sw_setting_change **out, struct sw_error *err);

/* The value for people: quantities with their unit, paths seen from `base`, at most 200 bytes and
 * an ellipsis. Returns buffer. */
enum { SW_SETTING_TEXT = 256 };
char *sw_setting_format(const char *key, const char *value, const char *base,
                        char buffer[SW_SETTING_TEXT]);

#endif
