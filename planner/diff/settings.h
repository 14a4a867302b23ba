/* A resolved description as a flat list of key paths and values, and differences between two:
 * "run.cluster.links.nvlink.bandwidth" = "450000000000.0". */
#ifndef SW_PLANNER_DIFF_SETTINGS_H
#define SW_PLANNER_DIFF_SETTINGS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_setting {
    char *key, *value; /* owned by the list */
};

struct sw_settings {
    struct sw_setting *item;
    int32_t count, capacity;
};

/* Adds copies of both. Errors (SW_ENVIRONMENT): memory. */
int sw_settings_add(struct sw_settings *out, const char *key, const char *value,
                    struct sw_error *err);
/* Sorts by key, for sw_settings_compare. */
void sw_settings_sort(struct sw_settings *settings);
void sw_settings_free(struct sw_settings *settings);

/* The value of a key; NULL: not set. */
const char *sw_settings_find(const struct sw_settings *settings, const char *key);

struct sw_setting_change {
    const char *key;
    const char *old_value, *new_value; /* NULL: not set */
};

/* Lists differences, sorted by key, in *out, which the caller frees (NULL: none). old_base and
 * new_base: folders that paths are relative to; paths with the same target are equal. Returns the
 * number of changes, -1 when out of memory. Points into both lists. */
int32_t sw_settings_compare(const struct sw_settings *before, const char *old_base,
                            const struct sw_settings *after, const char *new_base,
                            struct sw_setting_change **out, struct sw_error *err);

/* The value for people: quantities with their unit, paths relative to `base`, at most 200 bytes and
 * an ellipsis. Returns buffer. */
enum { SW_SETTING_TEXT = 256 };
char *sw_setting_format(const char *key, const char *value, const char *base,
                        char buffer[SW_SETTING_TEXT]);

#endif
