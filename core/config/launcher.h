/* What starts a run's ranks, as core sees it: a word of the key `launcher` and, for some, a section
 * of settings beside it. core reads, checks, writes and describes a section by its field table, and
 * keeps what it says without understanding it.
 *
 * Whoever reads descriptions gives the list of them, which lives as long as what was read. NULL: a
 * program that starts no jobs (the runner): whatever sections there are are skipped unread. */
#ifndef SW_CONFIG_LAUNCHER_H
#define SW_CONFIG_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field; /* internal.h */
struct node;
struct sw_config;
struct sw_cluster_config;
struct sw_placement_config;
struct sw_run_config;

enum { SW_MAX_LAUNCHERS = 8, SW_SETTINGS_BYTES = 1024 };

struct sw_launcher {
    const char *name;           /* as `launcher` has it */
    const char *key;            /* of its section; NULL: it has none, nor anything below */
    const struct field *fields; /* of that */
    size_t bytes; /* of the struct that they are read into; all zero where nothing is set */
    const char *about, *about_in_run, *example_in_run; /* for schema and reference */
    const char *time; /* the key of a job's time limit, which a run's null does not take from the
                         cluster; NULL: none */
    /* Why a variable of the environment is not to be set, and what to do; NULL: it may be. May be
     * NULL. */
    const char *(*variable_is_taken)(const char *name);
    const char *variable_help;
    /* The checks between settings; false: mistakes are reported. Each may be NULL. cluster: of a
     * cluster's file alone, what no run can make good; root: its mapping. run: its own settings and
     * the cluster's. job: what goes with a job that does not train; place: of the run's `job`. */
    bool (*check_cluster)(struct sw_config *c, const struct node *root,
                          const struct sw_cluster_config *cluster);
    bool (*check_run)(struct sw_config *c, const struct node *root,
                      const struct sw_run_config *run);
    bool (*check_job)(struct sw_config *c, const struct node *place,
                      const struct sw_run_config *run);
    /* Fills in what its scheduler can be asked about where nodes lie; *out is all 0 before. May be
     * NULL. */
    void (*placement)(const struct sw_cluster_config *cluster, struct sw_placement_config *out);
    /* Warns of what is allowed and hardly meant. root: of the cluster's file, or of the run. */
    void (*warn)(struct sw_config *c, const struct node *root,
                 const struct sw_cluster_config *cluster);
};

struct sw_launchers {
    const char *about; /* of the key `launcher` */
    const struct sw_launcher
        *row[SW_MAX_LAUNCHERS + 1]; /* ends with NULL; the first: the default */
};

/* Settings of all launchers of a list, one behind the other. */
struct sw_launcher_settings {
    _Alignas(max_align_t) unsigned char bytes[SW_SETTINGS_BYTES];
};
/* Where those of one stand. */
size_t sw_launcher_offset(const struct sw_launchers *launchers, const struct sw_launcher *row);
/* The struct of a row. Of a cluster that was read without a list, or made by hand: as if the row
 * was the first. */
const void *sw_cluster_settings(const struct sw_cluster_config *cluster,
                                const struct sw_launcher *row);
/* The file of the fabric that any of them names; NULL: none does. */
const char *sw_cluster_fabric_path(const struct sw_cluster_config *cluster);

#endif
