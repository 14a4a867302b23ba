/* Lists of hosts in the notation of Slurm and pdsh: "gpu[0-3,7],login1", "rack[0-1]n[01-16]".
 *
 * Owns a list's names. Knows only the names of nodes. Pure functions; any thread. */
#ifndef SW_SCHEDULER_HOSTLIST_H
#define SW_SCHEDULER_HOSTLIST_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SW_MAX_HOSTS = 1 << 20 };

/* An array of names, each malloc'ed. All zero: empty. */
struct sw_hosts {
    char **name;
    int32_t count, room;
};

/* Appends the hosts of a text; NULL, "" and "(null)" have none. Errors: SW_BAD_INPUT: no list, or
 * more than SW_MAX_HOSTS; SW_ENVIRONMENT: no memory. */
int sw_hosts_expand(const char *text, struct sw_hosts *hosts, struct sw_error *err);
/* Appends one name unchanged. Errors: SW_ENVIRONMENT. */
int sw_hosts_add(struct sw_hosts *hosts, const char *name, struct sw_error *err);
/* Sorts by name, numbers by their value ("n2" before "n10"); removes duplicates. */
void sw_hosts_sort(struct sw_hosts *hosts);
/* hosts must be sorted. */
bool sw_hosts_contain(const struct sw_hosts *hosts, const char *name);
/* Number of common names; both must be sorted. */
int32_t sw_hosts_common(const struct sw_hosts *a, const struct sw_hosts *b);
/* Sorted hosts in the short form; malloc'ed, NULL: no memory. */
char *sw_hosts_compress(const struct sw_hosts *hosts);
void sw_hosts_free(struct sw_hosts *hosts);

#endif
