/* The constants that prices rest on, each with its value, position and way of scaling it, in one
 * table: `plan explain --sources` lists them and tests their influence. Owns nothing; the room
 * below is the caller's. Counts are left out (compute_units, steps, sizes of tiles). */
#ifndef SW_COST_CONSTANTS_H
#define SW_COST_CONSTANTS_H

#include "core/config/config.h"

/* Owner of a constant. */
enum sw_constant_owner { SW_OWNER_PROFILE, SW_OWNER_ACCELERATOR, SW_OWNER_LINK, SW_OWNER_DEVICE };
enum sw_constant_unit {
    SW_UNIT_SHARE,
    SW_UNIT_SECONDS,
    SW_UNIT_FLOPS,
    SW_UNIT_BYTES,
    SW_UNIT_TIMES,
    SW_UNIT_ELEMENTS
};

/* Reasons why an error, or its sign, is missing. */
enum sw_untold {
    SW_TOLD,
    SW_UNTOLD_SHEET,   /* a peak or a bandwidth that shares refer to: the shares have the errors */
    SW_UNTOLD_NETWORK, /* a property of the network, not a measured rate */
    SW_UNTOLD_ASSUMED,
    SW_UNTOLD_DEFAULT, /* in the default profile, which was fitted to all rows */
    SW_UNTOLD_BESIDE,  /* the link's curve was not measured with it */
    SW_UNTOLD_FILE     /* not given in its file */
};

enum { SW_MOST_CONSTANTS = 36 + 6 * SW_MAX_LINKS, SW_CONSTANT_NAME_BYTES = 96 };

struct sw_constant {
    char name[SW_CONSTANT_NAME_BYTES]; /* "profile.matmul", "links.nvlink.latency" */
    enum sw_constant_owner owner;
    enum sw_constant_unit unit; /* bytes and flops are per second; times is a plain factor */
    int32_t row, link;          /* row of the table; link of the cluster, 0 if it is no link's */
    int32_t points;             /* points of a curve or grids; 1: a number, which is least and
                                   most */
    double least, most;         /* extremes of its points */
    struct sw_place at;         /* position in the cluster's texts; file NULL: a default */
    /* Errors from its description, over rows left out of the fit; error 0: not given. The band is
     * of measured / predicted step times; the errors are of the constant's own predictions: mean
     * |error|, and mean of measured / predicted - 1. */
    double error, band_low, band_high;
    struct sw_signed_error signed_error;
    enum sw_untold untold;
    int32_t runs;
};

/* Lists the cluster's constants; a settled profile counts as given by its own file, if it has one.
 * Returns their number. */
int32_t sw_constants_list(const struct sw_cluster_config *cluster,
                          struct sw_constant out[SW_MOST_CONSTANTS]);

/* Room for scaled grids, since a description only points at grids. */
struct sw_constant_room {
    struct sw_products grid[SW_ATTENTION_PHASES * SW_RATE_DTYPES];
    struct sw_collective_curves collectives;
    struct sw_device_prices device;
};

/* Multiplies that constant, in a curve or grid every point, by `factor`. The constant must belong
 * to this cluster, which uses the room afterwards for grids, curves of collectives and device
 * prices. */
void sw_constant_scale(struct sw_cluster_config *cluster, const struct sw_constant *constant,
                       double factor, struct sw_constant_room *room);

#endif
