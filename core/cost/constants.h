/* The constants that prices rest on, each with its value, where it stands and how it is changed:
 * one table, from which `plan explain --sources` lists them and asks what each is worth. Owns
 * nothing but the room below, which is the caller's. Not in it: counts (compute_units, steps,
 * sizes of tiles). */
#ifndef SW_COST_CONSTANTS_H
#define SW_COST_CONSTANTS_H

#include "core/config/config.h"

/* Whose constant it is. */
enum sw_constant_owner { SW_OWNER_PROFILE, SW_OWNER_ACCELERATOR, SW_OWNER_LINK, SW_OWNER_DEVICE };
enum sw_constant_unit {
    SW_UNIT_SHARE,
    SW_UNIT_SECONDS,
    SW_UNIT_FLOPS,
    SW_UNIT_BYTES,
    SW_UNIT_TIMES,
    SW_UNIT_ELEMENTS
};

/* Why no error is told, or none with its sign. */
enum sw_untold {
    SW_TOLD,
    SW_UNTOLD_SHEET, /* a peak or a bandwidth that shares are of, whoever told it: errors are theirs
                      */
    SW_UNTOLD_NETWORK, /* what the network is, not what it reaches */
    SW_UNTOLD_ASSUMED,
    SW_UNTOLD_DEFAULT, /* of the default profile, which was fitted to all rows at hand */
    SW_UNTOLD_BESIDE,  /* the link's curve was not measured beside it */
    SW_UNTOLD_FILE     /* its file says none */
};

enum { SW_MOST_CONSTANTS = 36 + 6 * SW_MAX_LINKS, SW_CONSTANT_NAME_BYTES = 96 };

struct sw_constant {
    char name[SW_CONSTANT_NAME_BYTES]; /* "profile.matmul", "links.nvlink.latency" */
    enum sw_constant_owner owner;
    enum sw_constant_unit unit; /* bytes: per second; flops: FLOP/s; times: a plain factor */
    int32_t row, link;          /* of the table; of the cluster, 0 where it is no link's */
    int32_t points;             /* of a curve or grids; 1: a number, which is least and most */
    double least, most;         /* of its points */
    struct sw_place at;         /* in the cluster's texts; file NULL: it is a default */
    /* What its description says of rows that it was not fitted to; error 0: it says nothing. The
     * band is of measured / predicted step times, the errors of what the constant itself predicts:
     * the mean of |error|, and of measured / predicted - 1. */
    double error, band_low, band_high;
    struct sw_signed_error signed_error;
    enum sw_untold untold;
    int32_t runs;
};

/* Those that the cluster has; a settled profile counts as told by its own file where it stands in
 * one. Returns how many. */
int32_t sw_constants_list(const struct sw_cluster_config *cluster,
                          struct sw_constant out[SW_MOST_CONSTANTS]);

/* Where changed grids stand: a description only points at its own. */
struct sw_constant_room {
    struct sw_products grid[SW_ATTENTION_PHASES * SW_RATE_DTYPES];
    struct sw_collective_curves collectives;
    struct sw_device_prices device;
};

/* The same cluster with that constant, of a curve or grid every point, times `factor`. The constant
 * must be of this cluster, which uses the room from then on where it is
 * a grid, curves of collectives or of the device. */
void sw_constant_scale(struct sw_cluster_config *cluster, const struct sw_constant *constant,
                       double factor, struct sw_constant_room *room);

#endif
