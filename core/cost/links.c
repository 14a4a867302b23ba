#include "core/cost/links.h"

#include <math.h>
#include <string.h>

#include "core/cost/cost.h"

/* Default share of a link's bandwidth that collectives reach with large messages. Inside a node:
 * 370 of 450 GB/s on DGX H100 (Austin et al., "How to Scale Your Model", 2025). Between nodes: 362
 * of 400 GB/s at 1 GiB on four B200 nodes (stas00/ml-engineering, network). */
static const double inside_share = 0.82, outside_share = 0.90;

double sw_links_assumed_share(int32_t level)
{
    return level == 0 ? inside_share : outside_share;
}

/* Bytes per second of one accelerator if all talk at once, at that share of the data sheet's. */
static double at_share(const struct sw_link_config *link, double share)
{
    const double bandwidth = link->bandwidth * share;
    return link->oversubscription > 1 ? bandwidth / link->oversubscription : bandwidth;
}

/* Bytes per second of one accelerator on that level if all talk at once, with that many bytes over
 * each port. */
static double bandwidth_of(const struct sw_cluster_config *cluster, int32_t level, double bytes)
{
    const struct sw_link_config *link = &cluster->link[level];
    return at_share(link,
                    sw_cost_efficiency(&link->efficiency, bytes, sw_links_assumed_share(level)));
}

/* The same for one collective over that many ranks of a domain, which may have a curve of its
 * own. */
static double collective_bandwidth(const struct sw_cluster_config *cluster, int32_t level,
                                   enum sw_collective kind, int32_t ranks, double bytes)
{
    const struct sw_link_config *link = &cluster->link[level];
    const struct sw_collective_curves *all = link->collectives;
    const struct sw_collective_curve *fewer = NULL, *more = NULL;
    for (int32_t i = 0; all != NULL && i < all->count; i++) {
        const struct sw_collective_curve *one = &all->of[i]; /* ranks ascend within a collective */
        if (one->kind == kind && one->ranks <= ranks)
            fewer = one;
        if (one->kind == kind && one->ranks >= ranks && more == NULL)
            more = one;
    }
    if (fewer == NULL)
        return bandwidth_of(cluster, level, bytes);
    double share = sw_cost_efficiency(&fewer->curve, bytes, 1);
    if (more != NULL && more != fewer) {
        const double between =
            log((double)ranks / fewer->ranks) / log((double)more->ranks / fewer->ranks);
        share += between * (sw_cost_efficiency(&more->curve, bytes, 1) - share);
    }
    return at_share(link, share);
}

/* Adjacent axes of a group merged: `size` members every `stride` ranks, blocks of `block`. */
struct group_axis {
    int32_t size, stride, block;
    int32_t piece; /* for the last domain size asked for */
};

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t ceiling(int32_t a, int32_t b)
{
    return (a - 1) / b + 1;
}

/* Shortest piece of a block in a domain of `domain` ranks: blocks follow one another over `ranks`,
 * and each is cut where a domain ends inside it. */
static int32_t least_piece(int32_t block, int32_t domain, int32_t ranks)
{
    if (block % domain == 0)
        return domain;
    if (domain % block == 0)
        return block;
    int32_t common = domain, least = smaller(block, domain);
    for (int32_t rest = block; rest != 0;) {
        const int32_t next = common % rest;
        common = rest;
        rest = next;
    }
    const int32_t blocks = ranks / block;
    if (blocks >= domain / common) /* all possible cuts */
        return common;
    for (int32_t i = 0; i < blocks && least > common; i++) {
        const int32_t start = (int32_t)((int64_t)i * block % domain), end = start + block;
        if (end > domain)
            least = smaller(least, smaller(domain - start, (end - 1) % domain + 1));
    }
    return least;
}

/* Finds the steps of a ring over all ranks, domain by domain: of its n - 1 steps, those on a level
 * connect the domains below. Kept in the span, for many messages. */
static void find_crossed(struct sw_span *span)
{
    int32_t below = span->ranks;
    span->outermost = -1;
    for (int32_t l = 0; l < span->levels; l++) {
        const bool top = l == span->levels - 1;
        const int32_t joined = top ? 1 : ceiling(span->ranks, span->members[l + 1]);
        const bool crosses = span->parts[l] > 1;
        span->ring_steps[l] = crosses ? below - joined : 0;
        span->outermost = crosses ? l : span->outermost;
        below = joined;
    }
}

/* Whole segments fill the domains outside of a group. */
int32_t sw_links_domain(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                        int32_t level)
{
    const int32_t spans = cluster->link[level].spans, asked = mesh->domain;
    if (asked == 0 || spans <= asked)
        return spans;
    return spans <= cluster->placement.group ? asked : spans - spans % asked;
}

int32_t sw_links_segment(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh)
{
    const struct sw_placement_config *placement = &cluster->placement;
    const int32_t per_node = cluster->accelerators_per_node;
    int64_t product = 1;
    int32_t segment = 1;
    if (placement->asked > 0 || !placement->segments)
        return placement->asked;
    for (int32_t i = SW_AXIS_COUNT - 1; i >= 0 && product <= placement->group; i--) {
        segment = (int32_t)product;
        product *= mesh->size[mesh->order[i]];
    }
    segment = product <= placement->group ? (int32_t)product : segment;
    const bool whole = segment % per_node == 0 && segment > per_node;
    return whole && cluster->nodes % (segment / per_node) == 0 ? segment : 0;
}

void sw_links_settle(struct sw_cluster_config *cluster, const struct sw_mesh *mesh)
{
    int32_t kept = 0;
    for (int32_t l = 0; l < cluster->link_count; l++) {
        struct sw_link_config link = cluster->link[l];
        if (l < cluster->link_count - 1)
            link.spans = sw_links_domain(cluster, mesh, l);
        if (kept == 0 || link.spans > cluster->link[kept - 1].spans)
            cluster->link[kept++] = link;
        else if (link.spans_all)
            cluster->beyond = link;
    }
    for (int32_t l = kept; l < cluster->link_count; l++)
        cluster->link[l] = (struct sw_link_config){.name = NULL};
    cluster->link_count = kept;
}

/* A search calls this for every placement of every mesh. If axes that are not neighbours are cut at
 * once, the product of their worst cases is taken: a bound. */
void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out)
{
    const sw_axis_set set = sw_axes_set(axes);
    struct group_axis axis[SW_AXIS_COUNT];
    int32_t count = 0, stride = 1, ranks = 1;
    for (int32_t i = SW_AXIS_COUNT - 1; i >= 0; i--) {
        const int32_t a = mesh->order[i], size = mesh->size[a];
        if (set & (1u << a) && size > 1) {
            if (count == 0 || axis[count - 1].block != stride)
                axis[count++] = (struct group_axis){1, stride, stride, 1};
            axis[count - 1].size *= size;
            axis[count - 1].block *= size;
            ranks *= size;
        }
        stride *= size;
    }
    out->ranks = ranks;
    out->levels = cluster->link_count;
    int32_t below = 1, least = 1; /* ranks of a domain one level below, and members of the
                                     group there */
    for (int32_t l = 0; l < cluster->link_count; l++) {
        const bool top = l == cluster->link_count - 1;
        const int32_t domain = top ? stride : sw_links_domain(cluster, mesh, l);
        int32_t most = 1, parts = 1, next = 1;
        out->members[l] = least;
        if (least == ranks) {
            out->inside[l] = ranks;
            out->parts[l] = 1;
            continue;
        }
        for (int32_t i = 0; i < count; i++) {
            struct group_axis *a = &axis[i];
            if (a->stride >= domain)
                break; /* one member in each domain, and in those further out */
            const int32_t within = smaller(a->block, domain);
            const int32_t members = a->block <= domain ? a->size : ceiling(domain, a->stride);
            most *= members;
            parts *= a->stride >= below ? members : ceiling(within + below - a->piece, below);
            if (top)
                continue;
            a->piece = least_piece(a->block, domain, stride);
            next *= a->piece > a->stride ? a->piece / a->stride : 1;
        }
        out->inside[l] = most;
        out->parts[l] = smaller(smaller(parts, most), ceiling(domain, below));
        below = domain;
        least = next;
    }
    find_crossed(out);
}

void sw_links_cut(struct sw_span *span, int32_t levels)
{
    span->levels = levels;
    while (span->outermost >= 0 && (span->outermost >= levels || span->parts[span->outermost] <= 1))
        span->outermost--;
}

uint16_t sw_links_placement(const struct sw_mesh *mesh, sw_axis_set group)
{
    unsigned placement = 0, inside = 0;
    for (int32_t i = SW_AXIS_COUNT - 1; i >= 0; i--) {
        const uint8_t axis = mesh->order[i];
        if (mesh->size[axis] <= 1)
            continue;
        if (group >> axis & 1u)
            placement |= inside << (SW_AXIS_COUNT * axis);
        inside |= 1u << axis;
    }
    return (uint16_t)placement;
}

static double log2_ceiling(int32_t n)
{
    double steps = 0;
    while (n > 1) {
        n = (n + 1) / 2;
        steps++;
    }
    return steps;
}

double sw_links_sent_share(enum sw_collective kind, int32_t ranks)
{
    const double part = (double)(ranks - 1) / ranks;
    return kind == SW_ALL_REDUCE ? 2 * part : part;
}

/* all_gather and reduce_scatter are one flat ring, an all_reduce a ring or chain inside a node, up
 * and down, and a tree between nodes (NCCL, src/graph/tuning.cc). */
double sw_links_steps(bool direct, enum sw_collective kind, bool inside_node, int32_t parts,
                      int32_t ring_steps)
{
    if (direct) /* to all members at once; all_reduce: once to sum, once to distribute */
        return kind == SW_ALL_REDUCE ? 2 : 1;
    if (kind == SW_ALL_TO_ALL)
        return inside_node ? log2_ceiling(parts) : parts - 1;
    if (kind != SW_ALL_REDUCE)
        return ring_steps;
    return 2 * (inside_node ? parts - 1 : log2_ceiling(parts));
}

/* A flat ring's traffic passes each of its edges, also those out of a domain: all that a rank
 * sends, over the m ports that the domain's members of the group have together (NCCL makes a ring
 * for each port; other groups use theirs). So an algorithm's bus bandwidth (nccl-tests) is that of
 * a node's ports, for any number of nodes. An all_reduce over two domains, of any size, is two
 * trees of two, each of which sends half of the array one way: the array once instead of 2 (n - 1)
 * / n times (kwen2501 and AddyLaddy of NCCL in NVIDIA/nccl issue 235 and nccl-tests issues 22 and
 * 290). */
double sw_links_crossing(bool direct, enum sw_collective kind, int32_t ranks, int32_t inside,
                         int32_t members, int32_t node, int32_t domains, double bytes)
{
    const double n = ranks, M = inside, m = members, each = node;
    if (!direct && kind == SW_ALL_REDUCE && domains == 2 && inside == ranks)
        return bytes * n / (2 * (n - 1) * m);
    if (!direct)
        return kind == SW_ALL_TO_ALL ? bytes * (n - m) / (n - 1) : bytes / m;
    /* every member's own blocks leave the domain */
    if (kind == SW_ALL_TO_ALL || node <= 1)
        return bytes * (M - m) / (n - 1);
    /* by node: inside it the blocks for each node, out of it each block once to each node */
    return inside <= node ? bytes * (M - 1) * (n / each) / (n - 1)
                          : bytes * (M - m) / (each * (n - 1));
}

int32_t sw_links_node(const struct sw_span *span)
{
    return span->levels <= 1 || span->members[1] == span->inside[0] ? span->inside[0] : 1;
}

/* Launch of a collective, once for any links: the largest of the links up to its outermost, since a
 * link without a value launches as those inside it. */
static double launch_of(const struct sw_cluster_config *cluster, int32_t outermost)
{
    double most = 0;
    for (int32_t l = 0; l <= outermost; l++)
        most = cluster->link[l].launch_s > most ? cluster->link[l].launch_s : most;
    return most;
}

/* True for the software's own sums inside the innermost domain. */
static bool is_direct(const struct sw_cluster_config *cluster, const struct sw_span *span,
                      enum sw_collective kind, int32_t level)
{
    return cluster->link[level].direct || (cluster->profile.reduces_directly &&
                                           kind == SW_ALL_REDUCE && sw_links_outermost(span) == 0);
}

double sw_links_port_bytes(const struct sw_cluster_config *cluster, const struct sw_span *span,
                           enum sw_collective kind, double bytes)
{
    const int32_t l = sw_links_outermost(span);
    return l < 0 ? 0
                 : sw_links_crossing(is_direct(cluster, span, kind, l), kind, span->ranks,
                                     span->inside[l], span->members[l], sw_links_node(span),
                                     span->parts[l], bytes);
}

/* The slowest level bounds the transfer, since levels are pipelined; latencies add. all_reduce is
 * reduce_scatter + all_gather. */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_collective kind, double bytes)
{
    if (span->ranks <= 1)
        return 0;
    double slowest = 0, latency = 0;
    for (int32_t l = 0; l <= span->outermost; l++) {
        const struct sw_link_config *link = &cluster->link[l];
        if (span->parts[l] <= 1)
            continue;
        const bool direct = is_direct(cluster, span, kind, l);
        const double crossing =
            sw_links_crossing(direct, kind, span->ranks, span->inside[l], span->members[l],
                              sw_links_node(span), span->parts[l], bytes);
        const bool own_sums = direct && !link->direct; /* curves of collectives do not apply to
                                                          it */
        const double seconds =
            crossing / (own_sums
                            ? bandwidth_of(cluster, l, crossing)
                            : collective_bandwidth(cluster, l, kind, span->inside[l], crossing));
        if (seconds > slowest)
            slowest = seconds;
        latency += sw_links_steps(direct, kind, l == 0, span->parts[l], span->ring_steps[l]) *
                   link->latency_s;
    }
    return launch_of(cluster, span->outermost) + latency + slowest;
}

int32_t sw_links_outermost(const struct sw_span *span)
{
    return span->outermost;
}

int32_t sw_links_fastest(const struct sw_cluster_config *cluster)
{
    int32_t l = 0;
    while (l + 1 < cluster->link_count &&
           at_share(&cluster->link[l + 1], 1) >= at_share(cluster->link, 1))
        l++;
    return l < cluster->link_count ? l : -1;
}

bool sw_links_leave_fastest(const struct sw_cluster_config *cluster, const struct sw_span *span)
{
    const int32_t l = sw_links_outermost(span);
    return l > 0 && l > sw_links_fastest(cluster);
}

/* All ranks send at once. Only the last rank of a domain sends out of it: on its own port with
 * rails, else over the ports of its group's m members together. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes)
{
    const int32_t l = sw_links_outermost(span);
    if (l < 0)
        return 0;
    double slowest = 0;
    for (int32_t i = 0; i <= l; i++) {
        const double ports = cluster->link[i].rails ? 1 : span->members[i];
        const double seconds = bytes / (bandwidth_of(cluster, i, bytes) * ports);
        if (span->parts[i] > 1 && seconds > slowest)
            slowest = seconds;
    }
    return slowest + launch_of(cluster, l) + cluster->link[l].latency_s;
}

int32_t sw_links_inner_ring(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                            struct sw_axes axes)
{
    const int32_t l = sw_links_fastest(cluster);
    const struct sw_axes splits = sw_axes_effective(mesh, axes);
    if (l < 0 || splits.count != 1)
        return 0;
    int32_t stride = 1; /* distance of neighbours in the group */
    for (int32_t i = SW_AXIS_COUNT - 1; mesh->order[i] != splits.axis[0]; i--)
        stride *= mesh->size[mesh->order[i]];
    const int32_t ranks = mesh->size[splits.axis[0]], domain = sw_links_domain(cluster, mesh, l);
    const int32_t inner = domain / stride;
    return domain % stride == 0 && inner > 1 && inner < ranks && ranks % inner == 0 ? inner : 0;
}

/* Only the ranks of a domain's last inner ring send out of it. */
double sw_links_across_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                               int32_t inner, double bytes)
{
    const int32_t outermost = sw_links_outermost(span);
    double slowest = 0;
    if (outermost < 0)
        return 0;
    for (int32_t l = 0; l <= outermost; l++) {
        const int32_t members = span->members[l] < inner ? span->members[l] : inner;
        const double ports = cluster->link[l].rails ? members : span->members[l];
        const double seconds = bytes * members / (bandwidth_of(cluster, l, bytes) * ports);
        if (span->parts[l] > 1 && seconds > slowest)
            slowest = seconds;
    }
    return slowest + launch_of(cluster, outermost) + cluster->link[outermost].latency_s;
}

/* Partners follow from tensors, not from positions of ranks: each level that the group spans is
 * assumed to carry all bytes, the slowest counts, and messages start on the outermost. */
double sw_links_exchange_seconds(const struct sw_cluster_config *cluster,
                                 const struct sw_span *span, double bytes, double messages)
{
    const int32_t outermost = sw_links_outermost(span);
    if (outermost < 0 || messages <= 0)
        return 0;
    double slowest = 0;
    for (int32_t l = 0; l <= outermost; l++) {
        const double seconds = bytes / bandwidth_of(cluster, l, bytes / messages);
        if (span->parts[l] > 1 && seconds > slowest)
            slowest = seconds;
    }
    return slowest + launch_of(cluster, outermost) + messages * cluster->link[outermost].latency_s;
}

double sw_links_overlap_tokens(const struct sw_cluster_config *cluster, int32_t level,
                               double peak_flops)
{
    return peak_flops / cluster->link[level].bandwidth;
}
