/* Lists of hosts, and how Slurm and pdsh write them: "gpu[0-3,7],login1", "rack[0-1]n[01-16]".
 *
 * Owns a list's names. Knows nothing of nodes but how they are called. Pure functions; any thread.
 */
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

/* Appends what a text means; NULL, "" and "(null)" mean nobody. Errors: SW_BAD_INPUT: no list, or
 * more than SW_MAX_HOSTS; SW_ENVIRONMENT: no memory. */
int sw_hosts_expand(const char *text, struct sw_hosts *hosts, struct sw_error *err);
/* Appends one name as it is. Errors: SW_ENVIRONMENT. */
int sw_hosts_add(struct sw_hosts *hosts, const char *name, struct sw_error *err);
/* By name, numbers by their value ("n2" before "n10"); a name stays once. */
void sw_hosts_sort(struct sw_hosts *hosts);
/* hosts must be sorted. */
bool sw_hosts_contain(const struct sw_hosts *hosts, const char *name);
/* How many names both have; both must be sorted. */
int32_t sw_hosts_common(const struct sw_hosts *a, const struct sw_hosts *b);
/* Sorted hosts in the short form; malloc'ed, NULL: no memory. */
char *sw_hosts_compress(const struct sw_hosts *hosts);
void sw_hosts_free(struct sw_hosts *hosts);

#endif
