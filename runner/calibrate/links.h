/* Link rates between ranks, with the production collectives between stretches of work: the time a
 * collective adds to the work alone. Ranks that share cores enter it late, each after its turn, and
 * training waits for the last; an idle machine would hide that.
 *
 * The ranks of a job are a mesh: dp over nodes, tp over the ranks of a node. A level's collectives
 * run in all its groups at once, so a shared link is measured as each rank's share, the meaning of
 * `bandwidth` in a cluster file. Owns nothing lasting. */
#ifndef SW_CALIBRATE_LINKS_H
#define SW_CALIBRATE_LINKS_H

#include "runner/collective/collective.h"

enum { SW_LINK_SIZES = 6, SW_LINK_BETWEEN = 3, SW_LINK_POINTS = SW_LINK_SIZES * SW_LINK_BETWEEN };

/* One size: bytes a rank sends in a collective, and the fraction of the bandwidth reached without
 * latency. */
struct sw_link_point {
    double bytes, fraction;
};

/* Collectives that a link is measured with. */
enum { SW_LINK_KINDS = 3, SW_LINK_GROUPS = 2 };
extern const enum sw_collective sw_link_kinds[SW_LINK_KINDS];

/* Fractions of the bandwidth that one kind reaches in groups of `ranks`, by bytes crossing the
 * link. */
struct sw_link_curve {
    enum sw_collective kind;
    int32_t ranks;
    struct sw_link_point point[SW_LINK_POINTS];
};

struct sw_link_rates {
    double latency_s; /* latency of a collective's step, counted as in core/cost/links.c */
    double bandwidth; /* bytes/s, one direction, per rank: best of the sizes */
    int32_t count;    /* points, ascending */
    struct sw_link_point point[SW_LINK_POINTS]; /* means over kinds and groups */
    int32_t curves;                             /* by kind, ranks ascending; 0: none */
    struct sw_link_curve curve[SW_LINK_KINDS * SW_LINK_GROUPS];
    bool rings; /* true if collectives use rings and trees, false if they send directly */
    bool rails; /* true if a rank uses only its own port of the node's */
};

/* Sums `count` doubles over all ranks, in place. Does nothing with one rank. */
int sw_calibrate_sum(struct sw_comm *comm, double *values, int32_t count, struct sw_error *err);

/* Elements (f32) of a rank's input to send `bytes` to a group, at least one per member; below,
 * bytes then sent. */
int64_t sw_link_elems(enum sw_collective kind, int32_t group, int64_t bytes);
int64_t sw_link_bytes(enum sw_collective kind, int32_t group, int64_t elems);

/* Means over groups and kinds for one size: bytes a rank sends, bytes crossing the link, seconds of
 * a call, its latencies. */
struct sw_link_measured {
    double bytes, crossing, seconds, latencies;
};

/* Sets bandwidth and points of `out`, whose latency is known, from sizes that grow by
 * SW_LINK_GROWTH. */
enum { SW_LINK_GROWTH = 8 };
void sw_link_points(struct sw_link_rates *out, const struct sw_link_measured *measured,
                    int32_t count);
/* Adds the curve of one kind in groups of `ranks`, with the points' sizes. A faster curve sets the
 * bandwidth and scales the other fractions down. Where latency exceeds half of the mean's time,
 * kinds cannot be told apart: the curve takes the mean's rate, also for sizes that gave no time
 * (seconds 0). */
void sw_link_add_curve(struct sw_link_rates *out, enum sw_collective kind, int32_t ranks,
                       const struct sw_link_measured *mean, const struct sw_link_measured *measured,
                       int32_t count);

/* Groups whose collectives use the link, and the fraction of a member's sent bytes that crosses
 * it. */
struct sw_link_group {
    struct sw_axes axes; /* more than one member */
    double share;
};

/* Mean bytes/s of all kinds and groups, at the best size. */
double sw_link_reached(const struct sw_link_rates *rates);

/* Collective: every rank passes the same arguments and gets the same figures. groups[count], 1 to
 * SW_LINK_GROUPS, members ascending; the first also gives the latency. Takes about `seconds`, more
 * if a few calls on a slow link take longer. A call that added no time to the work is timed again,
 * then left out; SW_ENVIRONMENT if all were. */
int sw_calibrate_link(struct sw_comm *comm, const struct sw_link_group *groups, int32_t count,
                      double seconds, struct sw_link_rates *out, struct sw_error *err);

#endif
