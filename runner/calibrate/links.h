/* What the links between ranks reach, measured with the production collectives between stretches of
 * work: what a collective adds to the time of the work alone. Ranks that share cores come late to
 * it, each when it had its turn, and training waits for the last; an idle machine would not show
 * it.
 *
 * The ranks of a job are a mesh: dp over nodes, tp over the ranks of a node. A level's collectives
 * run in all its groups at once, so a link that ranks share is measured as each rank's share, which
 * is what `bandwidth` of a cluster file means. Owns nothing that lasts. */
#ifndef SW_CALIBRATE_LINKS_H
#define SW_CALIBRATE_LINKS_H

#include "runner/collective/collective.h"

enum { SW_LINK_SIZES = 6, SW_LINK_BETWEEN = 3, SW_LINK_POINTS = SW_LINK_SIZES * SW_LINK_BETWEEN };

/* One size: bytes that a rank sends in a collective, and the share of the bandwidth it reaches
 * once the latency is taken off. */
struct sw_link_point {
    double bytes, fraction;
};

/* The kinds of collective that a link is measured with. */
enum { SW_LINK_KINDS = 3, SW_LINK_GROUPS = 2 };
extern const enum sw_collective sw_link_kinds[SW_LINK_KINDS];

/* What one kind reaches in groups of so many, by bytes that cross the link, in shares of the
 * bandwidth. */
struct sw_link_curve {
    enum sw_collective kind;
    int32_t ranks;
    struct sw_link_point point[SW_LINK_POINTS];
};

struct sw_link_rates {
    double latency_s; /* of one step of a collective, as core/cost/links.c counts steps */
    double bandwidth; /* bytes/s, one direction, per rank: the best of the sizes */
    int32_t count;    /* points, ascending */
    struct sw_link_point point[SW_LINK_POINTS]; /* of all kinds and groups: their mean */
    int32_t curves;                             /* kind by kind, ranks ascending; 0: none */
    struct sw_link_curve curve[SW_LINK_KINDS * SW_LINK_GROUPS];
    bool rings; /* collectives go in rings and trees; else straight to each receiver */
    bool rails; /* a rank alone does not use the ports of its node's other ranks */
};

/* Adds up `count` doubles over all ranks, in place. Nothing to do with one rank. */
int sw_calibrate_sum(struct sw_comm *comm, double *values, int32_t count, struct sw_error *err);

/* The elements (f32) of a rank's input for it to send `bytes` to a group, at least one to each
 * member, and what it then sends. */
int64_t sw_link_elems(enum sw_collective kind, int32_t group, int64_t bytes);
int64_t sw_link_bytes(enum sw_collective kind, int32_t group, int64_t elems);

/* One size over all groups and kinds: means of the bytes that a rank sends and of those that cross
 * the link, of a call's time and of the latencies in it. */
struct sw_link_measured {
    double bytes, crossing, seconds, latencies;
};

/* Sets bandwidth and points of `out`, whose latency is known, from sizes that grow from one to the
 * next by SW_LINK_GROWTH. */
enum { SW_LINK_GROWTH = 8 };
void sw_link_points(struct sw_link_rates *out, const struct sw_link_measured *measured,
                    int32_t count);
/* Adds what one kind reached in groups of so many, after the points, of as many sizes; where it was
 * faster than all that stands there the bandwidth becomes its own, and their shares less. Sizes of
 * which latency is more than half of the mean's time do not tell kinds apart: they have its rate,
 * as have those whose time told nothing (seconds 0). */
void sw_link_add_curve(struct sw_link_rates *out, enum sw_collective kind, int32_t ranks,
                       const struct sw_link_measured *mean, const struct sw_link_measured *measured,
                       int32_t count);

/* Groups whose collectives use the link, and the share of what a member sends that crosses it. */
struct sw_link_group {
    struct sw_axes axes; /* more than one member */
    double share;
};

/* Bytes/s that all kinds and groups reach in the mean, at the best of the sizes. */
double sw_link_reached(const struct sw_link_rates *rates);

/* Collective: every rank calls it with the same arguments and gets the same figures. groups[count],
 * at least one and at most SW_LINK_GROUPS, members ascending; the first also gives the latency.
 * Takes about `seconds`, more on a link so slow that a few calls take longer. A call that took no
 * longer than the work beside it is timed again, and then left out; SW_ENVIRONMENT where none did.
 */
int sw_calibrate_link(struct sw_comm *comm, const struct sw_link_group *groups, int32_t count,
                      double seconds, struct sw_link_rates *out, struct sw_error *err);

#endif
