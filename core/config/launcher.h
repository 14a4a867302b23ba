/* Launchers, which start a run's ranks: a word of the key `launcher` and, for some, a section of
 * settings. core reads, checks, writes and describes a section by its field table, and stores it
 * without interpreting it.
 *
 * The caller of a reader gives the list of launchers, which must live as long as the result. NULL:
 * a program that starts no jobs (the runner): sections are skipped unread. */
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
    const char *name;           /* word of `launcher` */
    const char *key;            /* key of its section; NULL: no section and no members below */
    const struct field *fields; /* rows of the section */
    size_t bytes;               /* size of the struct that they fill; all zero: nothing set */
    const char *about, *about_in_run, *example_in_run; /* for schema and reference */
    const char *time; /* key of a job's time limit, which a run's null does not clear; NULL: none */
    /* Reason why an environment variable is reserved, and help; NULL: it may be set. May be
     * NULL. */
    const char *(*variable_is_taken)(const char *name);
    const char *variable_help;
    /* Checks between settings; false: mistakes are reported. Each may be NULL. cluster: checks of a
     * cluster's file that no run can make good; root: its mapping. run: its settings merged with
     * the cluster's. job: keys of a job that does not train; place: the run's `job`. */
    bool (*check_cluster)(struct sw_config *c, const struct node *root,
                          const struct sw_cluster_config *cluster);
    bool (*check_run)(struct sw_config *c, const struct node *root,
                      const struct sw_run_config *run);
    bool (*check_job)(struct sw_config *c, const struct node *place,
                      const struct sw_run_config *run);
    /* Fills in the requests that its scheduler takes about node placement; *out is all 0 before.
     * May be NULL. */
    void (*placement)(const struct sw_cluster_config *cluster, struct sw_placement_config *out);
    /* Warns of settings that are allowed but hardly meant. root: mapping of the cluster's file, or
     * of the run. */
    void (*warn)(struct sw_config *c, const struct node *root,
                 const struct sw_cluster_config *cluster);
};

struct sw_launchers {
    const char *about; /* text on the key `launcher` */
    /* ends with NULL; the first is the default */
    const struct sw_launcher *row[SW_MAX_LAUNCHERS + 1];
};

/* Settings of all launchers of a list, one after another. */
struct sw_launcher_settings {
    _Alignas(max_align_t) unsigned char bytes[SW_SETTINGS_BYTES];
};
/* Offset of one launcher's settings. */
size_t sw_launcher_offset(const struct sw_launchers *launchers, const struct sw_launcher *row);
/* The settings of a row. For a cluster read without a list, or made by hand: those of the first
 * row. */
const void *sw_cluster_settings(const struct sw_cluster_config *cluster,
                                const struct sw_launcher *row);
/* The file of the fabric that any of them names; NULL: none. */
const char *sw_cluster_fabric_path(const struct sw_cluster_config *cluster);

#endif
