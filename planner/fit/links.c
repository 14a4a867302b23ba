/* Fits a link's latency and its bandwidth by size to measured collectives. */
#include "core/base/file.h"
#include "planner/command/options.h"
#include "planner/fit/fit.h"
#include "planner/fit/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 4096, ENOUGH_SIZES = 12 };

static int add(struct sw_fit_links *links, struct sw_fit_link_point point, struct sw_error *err)
{
    if (!(point.bytes > 0 && point.seconds > 0) || point.ranks < 2)
        return 0; /* nccl-tests prints 0.00 for the smallest sizes */
    if (!(point.bytes >= 1 && point.bytes < 1e18 && point.seconds >= 1e-9 && point.seconds < 1e9))
        return sw_fail_at(err, SW_BAD_INPUT, point.place,
                          "a size or a time that no collective has");
    void *room =
        sw_fit_room(links->point, links->count, &links->capacity, sizeof *links->point, err);
    if (room == NULL)
        return -1;
    links->point = room;
    links->point[links->count++] = point;
    return 0;
}

/* Marks an unnamed collective. */
static const enum sw_collective unnamed = SW_SLICE;

static enum sw_collective kind_of(const char *text)
{
    for (const struct sw_word *word = sw_collective_words; word->text != NULL; word++)
        if (strstr(text, word->text) != NULL)
            return (enum sw_collective)word->value;
    return unnamed;
}

/* Columns of nccl-tests' rows; older versions leave out unused ones. */
enum { SIZE, REDOP, ROOT, TIME, ALGBW, BUSBW, WRONG, NCCL_COLUMNS, MOST_WORDS = 32 };
static const char *const nccl_columns[NCCL_COLUMNS] = {"size",  "redop", "root",  "time",
                                                       "algbw", "busbw", "#wrong"};

/* State of reading a file. */
struct reader {
    const char *path;
    int32_t line;
    int32_t listed, group, ranks; /* ranks in its newest list; those in the group of its first */
    int32_t column[NCCL_COLUMNS]; /* -1: none */
    enum sw_collective named;
    struct sw_fit_links *links;
};

static int fail(const struct reader *r, struct sw_error *err, const char *what)
{
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){r->path, r->line, 1}, "%s", what);
}

/* Stores a row's mistake and continues; -1: no memory. */
static int go_on(const struct reader *r, struct sw_error *why, struct sw_error *err)
{
    if (why->status == SW_ENVIRONMENT)
        return sw_fail_as(err, why);
    if (why->status != SW_OK)
        sw_fit_mistake(&r->links->mistakes, why);
    return 0;
}

/* Columns of the two kinds of tables: with a rate as nccl-tests prints it, or with the time. */
static const struct columns {
    const char *collective, *payload, *ranks, *rate, *micros;
} forms[] = {{"collective", "payload_bytes", "gpus", "busbw_GBps", NULL},
             {"op", "message_bytes", "accelerators", NULL, "latency_us"}};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* NULL: neither. */
static const struct columns *form_of(const struct sw_fit_table *t)
{
    for (int32_t i = 0; i < FORMS; i++) {
        const struct columns *f = &forms[i];
        if (sw_fit_table_has(t, f->collective) && sw_fit_table_has(t, f->payload) &&
            sw_fit_table_has(t, f->ranks) &&
            sw_fit_table_has(t, f->rate != NULL ? f->rate : f->micros))
            return f;
    }
    return NULL;
}

bool sw_fit_has_collectives(const char *path)
{
    return sw_fit_has_column(path, forms[0].rate) || sw_fit_has_column(path, forms[1].micros);
}

static int read_cells(const struct sw_fit_table *t, const struct columns *f,
                      struct sw_fit_links *links, struct sw_error *err)
{
    double ranks, payload, given;
    const char *value = f->rate != NULL ? f->rate : f->micros;
    if (sw_fit_number(t, f->ranks, &ranks, err) != 0 ||
        sw_fit_number(t, f->payload, &payload, err) != 0 ||
        sw_fit_number(t, value, &given, err) != 0)
        return -1;
    struct sw_fit_link_point p = {.kind = kind_of(sw_fit_cell(t, f->collective)),
                                  .place = sw_fit_place(t, value)};
    if (p.kind == unnamed || !(ranks >= 2 && ranks < 1 << 24 && floor(ranks) == ranks) ||
        !(given > 0))
        return sw_fit_fail_row(
            t, err,
            f->rate != NULL
                ? "a row needs a collective, at least 2 gpus and a busbw_GBps above 0"
                : "a row needs an op, at least 2 accelerators and a latency_us above 0");
    if (payload < 0)
        return sw_fail_at(err, SW_BAD_INPUT, sw_fit_place(t, f->payload),
                          "'%s' must be at least 0, not %g", f->payload, payload);
    p.ranks = (int32_t)ranks;
    p.bytes = sw_links_sent_share(p.kind, p.ranks) * payload;
    p.seconds = f->rate != NULL ? p.bytes / (given * 1e9) : given * 1e-6;
    snprintf(p.accelerator, sizeof p.accelerator, "%s", sw_fit_cell(t, "accelerator"));
    return add(links, p, err);
}

static int read_table(FILE *in, struct reader *r, const char *names, struct sw_error *err)
{
    struct sw_fit_table *t = sw_fit_table_go_on(r->path, in, r->line, names, err);
    const struct columns *form = t != NULL ? form_of(t) : NULL;
    int status = -1, read;
    bool any = false;
    if (t != NULL && form == NULL)
        sw_fit_fail_row(t, err,
                        "not nccl-tests output, nor a CSV with the columns collective, "
                        "payload_bytes, gpus and busbw_GBps, or op, message_bytes, accelerators "
                        "and latency_us");
    if (form == NULL)
        goto out;
    do {
        struct sw_error why = {0};
        read = sw_fit_table_next(t, &why);
        any = any || read != 0;
        if (read > 0)
            (void)read_cells(t, form, r->links, &why);
        if (go_on(r, &why, err) != 0)
            goto out;
    } while (read != 0);
    r->line = t->line;
    status = any ? 0 : sw_fit_no_rows(t, err);
out:
    sw_fit_table_close(t);
    return status;
}

/* Splits a line at its blanks, in place. Returns the number of words, at most MOST_WORDS. */
static int32_t split(char *line, char *word[MOST_WORDS])
{
    int32_t count = 0;
    char *rest = NULL;
    for (char *w = strtok_r(line, " \t\r\n", &rest); w != NULL && count < MOST_WORDS;
         w = strtok_r(NULL, " \t\r\n", &rest))
        word[count++] = w;
    return count;
}

/* Reads "#  Rank  0 Group  0 Pid ...", without a group in older versions. Rank 0 begins a list;
 * other groups have collectives of their own. */
static int read_rank(struct reader *r, const char *line, struct sw_error *err)
{
    int rank, group = 0;
    if (sscanf(line, "# Rank %d Group %d", &rank, &group) < 1)
        return 0;
    if (rank == 0) {
        r->listed = r->ranks = 0;
        r->group = group;
    }
    if (rank != r->listed++)
        return fail(r, err,
                    "ranks are missing above this one; give the whole output of nccl-tests");
    r->ranks += group == r->group;
    return 0;
}

/* "#  size  count  type  redop  root  time  algbw  busbw  #wrong ...": out of place, then in place.
 */
static int read_names(struct reader *r, char *line, struct sw_error *err)
{
    char *word[MOST_WORDS];
    const int32_t words = split(line, word);
    if (words < 2 || strcmp(word[1], "size") != 0)
        return 0;
    for (int32_t i = 0; i < NCCL_COLUMNS; i++) {
        r->column[i] = -1;
        for (int32_t w = words - 1; w > 0; w--)
            if (strcmp(word[w], nccl_columns[i]) == 0)
                r->column[i] = w - 1;
    }
    if (r->column[TIME] >= 0 && r->column[ALGBW] >= 0 && r->column[BUSBW] >= 0)
        return 0;
    return fail(r, err,
                "no columns time, algbw and busbw, as of nccl-tests with -C, which prints the time "
                "of the processor; run it without");
}

/* Reads a number in one of the columns; false: none in the row. */
static bool number_of(const struct reader *r, char *const *word, int32_t words, int32_t column,
                      double *out)
{
    char *end;
    const int32_t at = r->column[column];
    if (at < 0 || at >= words)
        return false;
    *out = strtod(word[at], &end);
    return *end == '\0';
}

/* Without a name, the ratio of the two bandwidths identifies summing collectives: 2 (n-1)/n for
 * all_reduce, (n-1)/n for reduce_scatter; not with two ranks, nor for those that only move (redop
 * none). */
static int read_row(const struct reader *r, char *line, struct sw_error *err)
{
    double size, micros, algbw, busbw, root, wrong;
    char *word[MOST_WORDS];
    const int32_t words = split(line, word), redop = r->column[REDOP];
    if (!number_of(r, word, words, SIZE, &size) || !number_of(r, word, words, TIME, &micros) ||
        !number_of(r, word, words, ALGBW, &algbw) || !number_of(r, word, words, BUSBW, &busbw))
        return 0;
    if (r->ranks < 2)
        return 0; /* reported at the file's end */
    if (number_of(r, word, words, WRONG, &wrong) && wrong > 0)
        return fail(r, err, "its results were wrong, as '#wrong' counts: its time is of no use");
    if (number_of(r, word, words, ROOT, &root) && root >= 0)
        return fail(r, err,
                    "a collective with a root, such as broadcast and reduce: plans have none");
    const bool sums = redop >= 0 && redop < words && strcmp(word[redop], "none") != 0;
    enum sw_collective kind = r->named;
    if (kind == unnamed && sums && algbw > 0 && r->ranks > 2)
        kind = busbw > 1.2 * algbw ? SW_ALL_REDUCE : SW_REDUCE_SCATTER;
    if (kind == unnamed && !(algbw > 0))
        return 0; /* printed as 0.00: too small for a measurement */
    if (kind == unnamed)
        return fail(r, err,
                    "the output does not say which collective this is: all_gather, alltoall or "
                    "another; say --collective all_gather, or put it in the file's name");
    return add(r->links,
               (struct sw_fit_link_point){.bytes = sw_links_sent_share(kind, r->ranks) * size,
                                          .seconds = micros * 1e-6,
                                          .ranks = r->ranks,
                                          .kind = kind,
                                          .place = {r->path, r->line, 1}},
               err);
}

int sw_fit_read_collectives(struct sw_fit_links *links, const char *path,
                            const enum sw_collective *collective, struct sw_error *err)
{
    char line[SW_FIT_LINE_BYTES];
    const int32_t before = links->count, mistakes = links->mistakes.count;
    struct reader r = {.path = path,
                       .column = {0, 3, 4, 5, 6, 7, 8},
                       .named = collective != NULL ? *collective : kind_of(sw_path_name(path)),
                       .links = links};
    int status = -1;
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path}, "cannot read it: %s",
                          strerror(errno));
    int read;
    while ((read = sw_fit_read_line(path, in, r.line, line, err)) > 0) {
        struct sw_error why = {0};
        r.line++;
        if (line[0] == '#') {
            if (collective == NULL && kind_of(line) != unnamed)
                r.named = kind_of(line);
            if (read_rank(&r, line, err) != 0 || read_names(&r, line, err) != 0)
                goto out;
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
            break; /* the other rows would ask the same */
    }
    if (read < 0)
        goto out;
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

/* Span of all ranks in one group over neighbouring accelerators. */
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
    if (*point->accelerator != '\0' && strcmp(point->accelerator, cluster->accelerator.name) != 0)
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
                             span.inside[level], span.members[level], sw_links_node(&span),
                             span.parts[level], point->bytes);
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

/* Fits launch and latency to the quickest collectives: small ones have no other cost, and single
 * slow ones (a cold start) do not count. With several numbers of steps, a straight line through the
 * quickest of each (least squares of the relative error). */
static void fit_latency(struct sw_cluster_config *cluster, int32_t level,
                        const struct sw_fit_link_point *points, int32_t count)
{
    struct sw_cluster_config only = *cluster;
    struct sw_link_config *link = &cluster->link[level];
    double quickest[STEPS_MAX] = {0}, launch = 0;
    for (int32_t l = 0; l < level; l++)
        launch = cluster->link[l].launch_s > launch ? cluster->link[l].launch_s : launch;
    only.link[level].launch_s = 0;
    for (int32_t i = 0; i < count; i++) {
        struct sw_fit_link_point empty = points[i];
        empty.bytes = 0;
        only.link[level].latency_s = 0;
        const double below = seconds_of(&only, &empty);
        only.link[level].latency_s = 1;
        const double steps = round(seconds_of(&only, &empty) - below);
        const double left = points[i].seconds > below ? points[i].seconds - below : 1e-12;
        if (steps >= 1 && steps < STEPS_MAX) {
            double *least = &quickest[(int32_t)steps];
            *least = *least <= 0 || left < *least ? left : *least;
        }
    }
    double w = 0, s = 0, t = 0, ss = 0, st = 0;
    int32_t kinds = 0;
    for (int32_t i = 1; i < STEPS_MAX; i++) {
        const double weight = quickest[i] > 0 ? 1e-12 / (quickest[i] * quickest[i]) : 0;
        kinds += quickest[i] > 0;
        w += weight;
        s += weight * i;
        t += weight * quickest[i];
        ss += weight * i * i;
        st += weight * i * quickest[i];
    }
    if (kinds == 0)
        return;
    if (kinds > 1) {
        const double slope = (w * st - s * t) / (w * ss - s * s);
        const double start = (t - slope * s) / w;
        link->launch_s = start > 0 && slope >= 0 ? launch + start : 0;
    }
    /* with the launch unchanged, the one remaining factor */
    const double more = link->launch_s > launch ? link->launch_s - launch : 0;
    double each = kinds > 1 ? (st - more * s) / ss : -1;
    for (int32_t i = 1; i < STEPS_MAX && kinds == 1; i++)
        if (quickest[i] > 0)
            each = (quickest[i] - more) / i;
    link->latency_s = each > 0 ? each : 0;
}

/* True if one that sends more took clearly less time. */
static bool beaten_by_larger(const struct sw_fit_link_point *sorted, int32_t count, int32_t index)
{
    for (int32_t i = index + 1; i < count; i++)
        if (sorted[i].seconds < 0.9 * sorted[index].seconds)
            return true;
    return false;
}

/* The cluster with only the bytes of that level. */
static struct sw_cluster_config bare(const struct sw_cluster_config *cluster, int32_t level)
{
    struct sw_cluster_config c = *cluster;
    c.link[level].launch_s = c.link[level].latency_s = 0;
    c.link[level].efficiency = (struct sw_curve){1, {{1, 1}}};
    c.link[level].collectives = NULL;
    for (int32_t l = 0; l < level; l++) {
        c.link[l].launch_s = c.link[l].latency_s = 0;
        c.link[l].bandwidth = 1e30;
    }
    return c;
}

int sw_fit_links_check(const struct sw_cluster_config *cluster, const struct sw_fit_links *links,
                       struct sw_error *err)
{
    const double most = 2; /* switches that sum halve the bytes of a port */
    for (int32_t i = 0; i < links->count; i++) {
        const struct sw_fit_link_point *p = &links->point[i];
        const int32_t level = sw_fit_link_level(cluster, p);
        if (level < 0)
            continue;
        const struct sw_cluster_config full = bare(cluster, level);
        const double times = seconds_of(&full, p) / p->seconds;
        if (times > most)
            return sw_fail_at(err, SW_BAD_INPUT, p->place,
                              "%.3g times what the bandwidth of '%s' allows; check its unit, and "
                              "the link's bandwidth",
                              times, cluster->link[level].name);
    }
    return 0;
}

/* Makes a curve of the points' own shares. */
static void curve_of_points(struct sw_cluster_config *cluster, int32_t level,
                            const struct sw_fit_link_point *sorted, int32_t count)
{
    const struct sw_cluster_config full = bare(cluster, level);
    struct sw_curve curve = {0};
    for (int32_t i = 0; i < count; i++) {
        struct sw_fit_link_point none = sorted[i];
        none.bytes = 0;
        const double left = sorted[i].seconds - seconds_of(cluster, &none);
        if (left < 0.1 * sorted[i].seconds || beaten_by_larger(sorted, count, i))
            continue; /* all latency, or a cold start: not a measure of bandwidth */
        const double share = seconds_of(&full, &sorted[i]) / left;
        const double crossing = crossing_of(cluster, level, &sorted[i]);
        if (curve.count > 0 && curve.point[curve.count - 1].size >= crossing)
            continue;
        curve.point[curve.count++] = (struct sw_curve_point){crossing, share < 1 ? share : 1};
    }
    cluster->link[level].efficiency = curve;
}

static double misfit(const struct sw_cluster_config *cluster,
                     const struct sw_fit_link_point *points, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += fabs(log(seconds_of(cluster, &points[i]) / points[i].seconds));
    return sum;
}

/* Fits a curve to many collectives, with a point for each factor of four: a pattern search. `curve`
 * is one of that level's. */
static void curve_of_many(const struct sw_cluster_config *cluster, int32_t level,
                          const struct sw_fit_link_point *sorted, int32_t count,
                          struct sw_curve *curve)
{
    const double first = crossing_of(cluster, level, &sorted[0]),
                 last = crossing_of(cluster, level, &sorted[count - 1]);
    *curve = (struct sw_curve){0};
    for (double size = first > 4096 ? first : 4096;
         curve->count == 0 || (size < 1.5 * last && curve->count < 16); size *= 4)
        curve->point[curve->count++] = (struct sw_curve_point){size, 0.5};
    double least = misfit(cluster, sorted, count);
    for (double step = 1.3; step > 1.004;) {
        bool better = false;
        for (int32_t i = 0; i < 2 * curve->count; i++) {
            double *share = &curve->point[i / 2].fraction;
            const double before = *share, tried = i % 2 == 0 ? before * step : before / step;
            *share = tried > 1 ? 1 : tried < 1e-3 ? 1e-3 : tried;
            const double now = misfit(cluster, sorted, count);
            better = better || now < least - 1e-9;
            if (now < least - 1e-9)
                least = now;
            else
                *share = before;
        }
        step = better ? step : sqrt(step);
    }
}

/* Selects the points of a collective over that many ranks. */
static int32_t select_points(const struct sw_fit_link_point *sorted, int32_t count,
                             enum sw_collective kind, int32_t ranks, struct sw_fit_link_point *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < count; i++)
        if (sorted[i].kind == kind && sorted[i].ranks == ranks)
            out[n++] = sorted[i];
    return n;
}

/* The next number of ranks among the points; 0: none. */
static int32_t next_ranks(const struct sw_fit_link_point *points, int32_t count, int32_t after)
{
    int32_t next = 0;
    for (int32_t i = 0; i < count; i++)
        if (points[i].ranks > after && (next == 0 || points[i].ranks < next))
            next = points[i].ranks;
    return next;
}

/* Fits curves of single collectives, one for each number of ranks with enough measurements. */
static void curves_of_collectives(struct sw_cluster_config *cluster, int32_t level,
                                  const struct sw_fit_link_point *sorted, int32_t count,
                                  struct sw_collective_curves *own)
{
    struct sw_fit_link_point *some = malloc((size_t)count * sizeof *some);
    own->count = 0;
    for (int32_t kind = SW_ALL_GATHER; some != NULL && kind <= SW_ALL_TO_ALL; kind++)
        for (int32_t ranks = 0; (ranks = next_ranks(sorted, count, ranks)) > 0;) {
            const int32_t n = select_points(sorted, count, (enum sw_collective)kind, ranks, some);
            if (n < ENOUGH_SIZES || own->count == SW_MAX_COLLECTIVE_CURVES)
                continue;
            struct sw_collective_curve *one = &own->of[own->count++];
            *one = (struct sw_collective_curve){.kind = (enum sw_collective)kind, .ranks = ranks};
            cluster->link[level].collectives = own;
            curve_of_many(cluster, level, some, n, &one->curve);
        }
    free(some);
}

int32_t sw_fit_link(struct sw_cluster_config *cluster, int32_t level,
                    const struct sw_fit_links *links, int32_t without,
                    struct sw_collective_curves *own)
{
    struct sw_fit_link_point *sorted = malloc(((size_t)links->count + 1) * sizeof *sorted);
    const struct sw_fit_link_point *apart = without >= 0 ? &links->point[without] : NULL;
    int32_t count = 0, all = 0;
    for (int32_t i = 0; sorted != NULL && i < links->count; i++)
        all += sw_fit_link_level(cluster, &links->point[i]) == level;
    for (int32_t group = all > SW_MAX_CURVE; sorted != NULL && count == 0 && group >= 0; group--)
        for (int32_t i = 0; i < links->count; i++) {
            const struct sw_fit_link_point *p = &links->point[i];
            const bool left_out = apart != NULL && p->kind == apart->kind &&
                                  p->ranks == apart->ranks &&
                                  (group == 1 || p->bytes == apart->bytes);
            if (!left_out && sw_fit_link_level(cluster, p) == level)
                sorted[count++] = *p;
        }
    if (count > 0) {
        qsort(sorted, (size_t)count, sizeof *sorted, compare_points);
        cluster->link[level].collectives = NULL;
        fit_latency(cluster, level, sorted, count);
        if (count > SW_MAX_CURVE) {
            curve_of_many(cluster, level, sorted, count, &cluster->link[level].efficiency);
            if (own != NULL)
                curves_of_collectives(cluster, level, sorted, count, own);
        } else
            curve_of_points(cluster, level, sorted, count);
    }
    free(sorted);
    return count;
}

/* Interval of left-out sizes, by the numbers of sizes and points: each omission is a fit of its
 * own, which takes time proportional to the points. */
static int32_t left_out_each(const struct sw_fit_link_point *sorted, int32_t count)
{
    enum { MOST = 64, LEAST = 8, MANY = 4096 };
    int32_t sizes = 0;
    for (int32_t i = 0; i < count; i++)
        sizes += i == 0 || sorted[i].bytes != sorted[i - 1].bytes;
    const int32_t afford = count <= MANY ? MOST : (int32_t)((int64_t)MOST * MANY / count);
    const int32_t most = afford > LEAST ? afford : LEAST;
    return (sizes + most - 1) / most;
}

/* Leaves out the points from `first` on that have one size. Returns their number. */
static int32_t leave_out(const struct sw_fit_link_point *some, int32_t count, int32_t first,
                         struct sw_fit_link_point *kept)
{
    int32_t next = first;
    while (next < count && some[next].bytes == some[first].bytes)
        next++;
    memcpy(kept, some, (size_t)first * sizeof *kept);
    memcpy(kept + first, some + next, (size_t)(count - next) * sizeof *kept);
    return next - first;
}

int32_t sw_fit_collectives_error(const struct sw_cluster_config *fitted, int32_t level,
                                 const struct sw_fit_links *links, double *error, double *bias)
{
    const struct sw_collective_curves *own = fitted->link[level].collectives;
    struct sw_fit_link_point *some = malloc(((size_t)links->count + 1) * 2 * sizeof *some);
    struct sw_fit_link_point *kept = some != NULL ? some + links->count + 1 : NULL;
    struct sw_cluster_config tried = *fitted;
    int32_t tested = 0;
    *error = *bias = 0;
    for (int32_t c = 0; some != NULL && own != NULL && c < own->count; c++) {
        struct sw_collective_curves changed = *own;
        tried.link[level].collectives = &changed;
        int32_t count = select_points(links->point, links->count, own->of[c].kind, own->of[c].ranks,
                                      some),
                n = 0;
        for (int32_t i = 0; i < count; i++)
            if (sw_fit_link_level(fitted, &some[i]) == level)
                some[n++] = some[i];
        qsort(some, (size_t)n, sizeof *some, compare_points);
        const int32_t each = left_out_each(some, n);
        for (int32_t i = 0, out, size = 0; i < n; i += out, size++) {
            out = leave_out(some, n, i, kept);
            if (i == 0 || i + out >= n || size % each != 0)
                continue;
            curve_of_many(&tried, level, kept, n - out, &changed.of[c].curve);
            for (int32_t k = i; k < i + out; k++) {
                const double off = sw_fit_link_error(&tried, &some[k]);
                *error += fabs(off);
                *bias += 1 / (1 + off) - 1;
                tested++;
            }
        }
    }
    free(some);
    *error /= tested > 0 ? tested : 1;
    *bias /= tested > 0 ? tested : 1;
    return tested;
}
