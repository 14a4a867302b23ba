/* Sorts measured collectives so that each group is fitted once, and merges repeated ones if there
 * are too many rows. */
#include "planner/fit/fit.h"

#include <stdlib.h>
#include <string.h>

static int compare_kinds(const struct sw_fit_link_point *x, const struct sw_fit_link_point *y)
{
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->ranks > y->ranks) - (x->ranks < y->ranks);
}

/* Inside a group in the original order, by addresses. */
static int compare_groups(const void *a, const void *b)
{
    const struct sw_fit_link_point *x = *(struct sw_fit_link_point *const *)a,
                                   *y = *(struct sw_fit_link_point *const *)b;
    const int kinds = compare_kinds(x, y);
    return kinds != 0 ? kinds : (x > y) - (x < y);
}

/* Compares measurements without their times. */
static int compare_sizes(const struct sw_fit_link_point *x, const struct sw_fit_link_point *y)
{
    const int kinds = compare_kinds(x, y),
              chips = kinds != 0 ? kinds : strcmp(x->accelerator, y->accelerator);
    return chips != 0 ? chips : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_repeats(const void *a, const void *b)
{
    const struct sw_fit_link_point *x = *(struct sw_fit_link_point *const *)a,
                                   *y = *(struct sw_fit_link_point *const *)b;
    const int sizes = compare_sizes(x, y);
    if (sizes != 0)
        return sizes;
    return x->seconds != y->seconds ? (x->seconds > y->seconds) - (x->seconds < y->seconds)
                                    : (x > y) - (x < y);
}

/* Keeps the median of each size, of two the quicker. Returns the number left. */
static int32_t keep_medians(const struct sw_fit_link_point **points, int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && compare_sizes(points[i], points[next]) == 0;)
            next++;
        points[kept++] = points[i + (next - i - 1) / 2];
    }
    return kept;
}

int sw_fit_links_gather(struct sw_fit_links *links, struct sw_error *err)
{
    const bool many = links->count > SW_FIT_MOST_COLLECTIVES;
    int32_t kept = links->count;
    if (links->count == 0)
        return 0;
    const struct sw_fit_link_point **points = malloc((size_t)links->count * sizeof *points);
    struct sw_fit_link_point *gathered = malloc((size_t)links->count * sizeof *gathered);
    int status = -1;
    if (points == NULL || gathered == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while fitting");
        goto out;
    }
    for (int32_t i = 0; i < links->count; i++)
        points[i] = &links->point[i];
    qsort(points, (size_t)links->count, sizeof *points, many ? compare_repeats : compare_groups);
    if (many)
        kept = keep_medians(points, links->count);
    if (kept > SW_FIT_MOST_COLLECTIVES) {
        sw_fail_at(err, SW_BAD_INPUT, links->point[SW_FIT_MOST_COLLECTIVES].place,
                   "%d collectives of sizes of their own, more than %d; give fewer sizes", kept,
                   SW_FIT_MOST_COLLECTIVES);
        goto out;
    }
    for (int32_t i = 0; i < kept; i++)
        gathered[i] = *points[i];
    free(links->point);
    links->point = gathered;
    links->capacity = links->count;
    links->count = kept;
    gathered = NULL;
    status = 0;
out:
    free(gathered);
    free(points);
    return status;
}
