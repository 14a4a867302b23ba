/* Latency and size -> bandwidth curve of a link from measured collectives. */
#include "core/base/file.h"
#include "planner/fit/fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 2048 };

static int add(struct sw_fit_links *links, struct sw_fit_link_point point, const char *path,
               struct sw_error *err)
{
    if (!(point.bytes > 0 && point.seconds > 0) || point.ranks < 2)
        return 0; /* nccl-tests prints 0.00 for the smallest sizes */
    if (!(point.bytes >= 1 && point.bytes < 1e18 && point.seconds >= 1e-9 && point.seconds < 1e9))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, point.line, 1},
                          "a size or a time that no collective has");
    if (links->count == links->capacity) {
        const int32_t capacity = links->capacity == 0 ? 64 : 2 * links->capacity;
        struct sw_fit_link_point *grown = realloc(links->point, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while reading collectives");
        links->point = grown;
        links->capacity = capacity;
    }
    links->point[links->count++] = point;
    return 0;
}

/* What names no collective. */
static const enum sw_collective unnamed = SW_SLICE;

static const struct {
    const char *name;
    enum sw_collective kind;
} kinds[] = {{"all_reduce", SW_ALL_REDUCE},
             {"all_gather", SW_ALL_GATHER},
             {"reduce_scatter", SW_REDUCE_SCATTER},
             {"alltoall", SW_ALL_TO_ALL},
             {"all_to_all", SW_ALL_TO_ALL}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static enum sw_collective kind_of(const char *text)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strstr(text, kinds[i].name) != NULL)
            return kinds[i].kind;
    return unnamed;
}

bool sw_fit_is_collective(const char *word)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(word, kinds[i].name) == 0)
            return true;
    return false;
}

/* Which column of a comma separated line has that name, -1: none. */
static int32_t column_of(const char *header, const char *name)
{
    const size_t bytes = strlen(name);
    int32_t column = 0;
    for (const char *at = header;; column++) {
        const size_t length = strcspn(at, ",\r\n");
        if (length == bytes && strncmp(at, name, bytes) == 0)
            return column;
        if (at[length] != ',')
            return -1;
        at += length + 1;
    }
}

static const char *cell(const char *line, int32_t column)
{
    while (column-- > 0) {
        line += strcspn(line, ",");
        line += *line == ',';
    }
    return line;
}

/* What a file is read with. */
struct reader {
    const char *path;
    int32_t line, ranks;
    enum sw_collective named;
    struct sw_fit_links *links;
};

static int fail(const struct reader *r, struct sw_error *err, const char *what)
{
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){r->path, r->line, 1}, "%s", what);
}

/* Keeps a row's mistake and goes on; -1: no memory. */
static int go_on(const struct reader *r, struct sw_error *why, struct sw_error *err)
{
    if (why->status == SW_ENVIRONMENT)
        return sw_fail_as(err, why);
    if (why->status != SW_OK)
        sw_fit_mistake(&r->links->mistakes, why);
    return 0;
}

static int read_table(FILE *in, struct reader *r, const char *header, struct sw_error *err)
{
    char line[LINE_BYTES];
    const int32_t collective = column_of(header, "collective"),
                  payload = column_of(header, "payload_bytes"), gpus = column_of(header, "gpus"),
                  busbw = column_of(header, "busbw_GBps");
    if (collective < 0 || payload < 0 || gpus < 0 || busbw < 0)
        return fail(r, err,
                    "not nccl-tests output, nor a CSV with the columns "
                    "collective, payload_bytes, gpus and busbw_GBps");
    while (fgets(line, sizeof line, in) != NULL) {
        struct sw_error why = {0};
        r->line++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        struct sw_fit_link_point p = {.ranks = (int32_t)strtol(cell(line, gpus), NULL, 10),
                                      .kind = kind_of(cell(line, collective)),
                                      .line = r->line};
        const double rate = strtod(cell(line, busbw), NULL) * 1e9;
        if (p.kind == unnamed || p.ranks < 2 || !(rate > 0)) {
            fail(r, &why, "a row needs a collective, at least 2 gpus and a busbw_GBps above 0");
        } else {
            p.bytes = sw_links_sent_share(p.kind, p.ranks) * strtod(cell(line, payload), NULL);
            p.seconds = p.bytes / rate;
            (void)add(r->links, p, r->path, &why);
        }
        if (go_on(r, &why, err) != 0)
            return -1;
    }
    return 0;
}

/* "size count type redop root time algbw busbw #wrong ...". Where nothing names the collective the
 * ratio of the two bandwidths tells those that sum: 2 (n-1)/n of an all_reduce, (n-1)/n of a
 * reduce_scatter; with two ranks no ratio does, nor those that only move (redop none). */
static int read_row(const struct reader *r, const char *line, struct sw_error *err)
{
    double size, count, micros, algbw, busbw;
    char type[16], redop[16], root[16];
    if (sscanf(line, "%lf %lf %15s %15s %15s %lf %lf %lf", &size, &count, type, redop, root,
               &micros, &algbw, &busbw) != 8)
        return 0;
    if (r->ranks < 2)
        return 0; /* reported when the file ends */
    enum sw_collective kind = r->named;
    if (kind == unnamed && strcmp(redop, "none") != 0 && algbw > 0 && r->ranks > 2)
        kind = busbw > 1.2 * algbw ? SW_ALL_REDUCE : SW_REDUCE_SCATTER;
    if (kind == unnamed && !(algbw > 0))
        return 0; /* printed as 0.00: too small to tell anything */
    if (kind == unnamed)
        return fail(r, err,
                    "which collective is this? its output does not tell: all_gather, alltoall or "
                    "another; say --collective all_gather, or put the name in the file's");
    return add(r->links,
               (struct sw_fit_link_point){.bytes = sw_links_sent_share(kind, r->ranks) * size,
                                          .seconds = micros * 1e-6,
                                          .ranks = r->ranks,
                                          .kind = kind,
                                          .line = r->line},
               r->path, err);
}

int sw_fit_read_collectives(struct sw_fit_links *links, const char *path, const char *collective,
                            struct sw_error *err)
{
    char line[LINE_BYTES];
    const int32_t before = links->count, mistakes = links->mistakes.count;
    struct reader r = {.path = path,
                       .named = kind_of(collective != NULL ? collective : sw_path_name(path)),
                       .links = links};
    int status = -1;
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path}, "cannot read it: %s",
                          strerror(errno));
    while (fgets(line, sizeof line, in) != NULL) {
        struct sw_error why = {0};
        r.line++;
        if (line[0] == '#') {
            r.ranks += strncmp(line, "#  Rank", 7) == 0;
            if (collective == NULL && kind_of(line) != unnamed)
                r.named = kind_of(line);
            continue;
        }
        if (r.ranks == 0 && strchr(line, ',') != NULL) {
            if (read_table(in, &r, line, err) != 0)
                goto out;
            break;
        }
        const bool unreadable = read_row(&r, line, &why) != 0;
        if (go_on(&r, &why, err) != 0)
            goto out;
        if (unreadable && r.named == unnamed)
            break; /* the other rows ask the same */
    }
    if (links->mistakes.count > mistakes) {
        sw_fail_as(err, &links->mistakes.error[mistakes]);
        goto out;
    }
    if (links->count == before) {
        r.line += r.line == 0;
        fail(&r, err,
             "no measurements; give the whole output of nccl-tests, with its '#  Rank' lines");
        goto out;
    }
    status = 0;
out:
    fclose(in);
    return status;
}

void sw_fit_links_free(struct sw_fit_links *links)
{
    if (links == NULL)
        return;
    free(links->point);
    free(links->mistakes.error);
    memset(links, 0, sizeof *links);
}

/* All ranks in one group over neighbouring accelerators. */
static struct sw_span span_of(const struct sw_cluster_config *cluster, int32_t ranks)
{
    const struct sw_mesh mesh = sw_mesh_make(1, ranks, 1, 1);
    struct sw_span span;
    sw_links_span(cluster, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
    return span;
}

int32_t sw_fit_link_level(const struct sw_cluster_config *cluster,
                          const struct sw_fit_link_point *point)
{
    if (cluster->link_count == 0 || point->ranks > cluster->link[cluster->link_count - 1].spans)
        return -1;
    const struct sw_span span = span_of(cluster, point->ranks);
    return sw_links_outermost(&span);
}

static double seconds_of(const struct sw_cluster_config *cluster,
                         const struct sw_fit_link_point *point)
{
    const struct sw_span span = span_of(cluster, point->ranks);
    return sw_links_seconds(cluster, &span, point->kind, point->bytes);
}

/* Bytes over one port of a level. */
static double crossing_of(const struct sw_cluster_config *cluster, int32_t level,
                          const struct sw_fit_link_point *point)
{
    const struct sw_span span = span_of(cluster, point->ranks);
    return sw_links_crossing(cluster->link[level].direct, point->kind, span.ranks,
                             span.inside[level], span.members[level], point->bytes);
}

double sw_fit_link_error(const struct sw_cluster_config *cluster,
                         const struct sw_fit_link_point *point)
{
    return seconds_of(cluster, point) / point->seconds - 1;
}

static int compare_points(const void *a, const void *b)
{
    const struct sw_fit_link_point *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* The latency that the quickest of the collectives leaves room for: small ones take it and nothing
 * else, and single slow ones (a cold start) do not count. */
static double latency_of(const struct sw_cluster_config *cluster, int32_t level,
                         const struct sw_fit_link_point *points, int32_t count)
{
    double least = -1;
    for (int32_t i = 0; i < count; i++) {
        struct sw_cluster_config only = *cluster;
        struct sw_fit_link_point empty = points[i];
        empty.bytes = 0;
        only.link[level].latency_s = 0;
        const double below = seconds_of(&only, &empty);
        only.link[level].latency_s = 1;
        const double steps = seconds_of(&only, &empty) - below;
        const double each = points[i].seconds > below ? (points[i].seconds - below) / steps : 0;
        least = least < 0 || each < least ? each : least;
    }
    return least > 0 ? least : 0;
}

/* Whether one that sends more took clearly less time. */
static bool beaten_by_larger(const struct sw_fit_link_point *sorted, int32_t count, int32_t index)
{
    for (int32_t i = index + 1; i < count; i++)
        if (sorted[i].seconds < 0.9 * sorted[index].seconds)
            return true;
    return false;
}

int32_t sw_fit_link(struct sw_cluster_config *cluster, int32_t level,
                    const struct sw_fit_links *links, int32_t without)
{
    struct sw_fit_link_point *sorted = malloc(((size_t)links->count + 1) * sizeof *sorted);
    int32_t count = 0;
    for (int32_t i = 0; sorted != NULL && i < links->count; i++)
        if (i != without && sw_fit_link_level(cluster, &links->point[i]) == level)
            sorted[count++] = links->point[i];
    if (count > 0) {
        qsort(sorted, (size_t)count, sizeof *sorted, compare_points);
        struct sw_link_config *link = &cluster->link[level];
        struct sw_curve curve = {0};
        link->latency_s = latency_of(cluster, level, sorted, count);
        struct sw_cluster_config empty = *cluster, full = *cluster;
        full.link[level].latency_s = 0;
        full.link[level].efficiency = (struct sw_curve){1, {{1, 1}}};
        for (int32_t l = 0; l < level; l++) {
            full.link[l].latency_s = 0;
            full.link[l].bandwidth = 1e30;
        }
        /* thinned out to what a curve holds */
        const int32_t every = (count + SW_MAX_CURVE - 1) / SW_MAX_CURVE;
        for (int32_t i = 0; i < count; i += every) {
            struct sw_fit_link_point none = sorted[i];
            none.bytes = 0;
            const double left = sorted[i].seconds - seconds_of(&empty, &none);
            if (left < 0.1 * sorted[i].seconds || beaten_by_larger(sorted, count, i))
                continue; /* all latency, or a cold start: says nothing of the bandwidth */
            const double share = seconds_of(&full, &sorted[i]) / left;
            const double crossing = crossing_of(cluster, level, &sorted[i]);
            if (curve.count > 0 && curve.point[curve.count - 1].size >= crossing)
                continue;
            curve.point[curve.count++] = (struct sw_curve_point){crossing, share < 1 ? share : 1};
        }
        link->efficiency = curve;
    }
    free(sorted);
    return count;
}
