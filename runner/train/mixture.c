#include "runner/train/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of the sequence: rows so far, and each source's rows and deficit, in units of the weights'
 * sum. */
struct state {
    int64_t row, *taken, *deficit; /* [count] */
};

struct sw_mixture {
    int32_t count;
    int64_t *weight, sum;
    struct state mark, now;
};

static void copy(const struct sw_mixture *m, const struct state *from, struct state *to)
{
    to->row = from->row;
    memcpy(to->taken, from->taken, (size_t)m->count * sizeof *to->taken);
    memcpy(to->deficit, from->deficit, (size_t)m->count * sizeof *to->deficit);
}

static void clear(const struct sw_mixture *m, struct state *s)
{
    s->row = 0;
    memset(s->taken, 0, (size_t)m->count * sizeof *s->taken);
    memset(s->deficit, 0, (size_t)m->count * sizeof *s->deficit);
}

/* Takes the next row; returns its source. */
static int32_t take(const struct sw_mixture *m, struct state *s)
{
    int32_t most = 0;
    for (int32_t i = 0; i < m->count; i++) {
        s->deficit[i] += m->weight[i];
        if (s->deficit[i] > s->deficit[most])
            most = i;
    }
    s->deficit[most] -= m->sum;
    s->taken[most]++;
    s->row++;
    return most;
}

int32_t sw_mixture_find(struct sw_mixture *m, int64_t row, int64_t *inside)
{
    int32_t source = 0;
    *inside = row;
    if (m->count == 1)
        return 0;
    if (row < m->now.row)
        copy(m, &m->mark, &m->now);
    if (row < m->now.row)
        clear(m, &m->now);
    while (m->now.row <= row)
        source = take(m, &m->now);
    *inside = m->now.taken[source] - 1;
    return source;
}

void sw_mixture_mark(struct sw_mixture *m, int64_t row)
{
    if (m->count == 1)
        return;
    if (row < m->now.row)
        copy(m, &m->mark, &m->now);
    if (row < m->now.row)
        clear(m, &m->now);
    while (m->now.row < row)
        (void)take(m, &m->now);
    copy(m, &m->now, &m->mark);
}

int sw_mixture_create(const double *weight, int32_t count, struct sw_mixture **out,
                      struct sw_error *err)
{
    struct sw_mixture *m = calloc(1, sizeof *m);
    int64_t *room = calloc((size_t)count * 5, sizeof *room);
    double sum = 0;
    if (m == NULL || room == NULL) {
        free(m);
        free(room);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    }
    m->count = count;
    m->weight = room;
    m->mark = (struct state){0, room + count, room + 2 * count};
    m->now = (struct state){0, room + 3 * count, room + 4 * count};
    for (int32_t i = 0; i < count; i++)
        sum += weight != NULL ? weight[i] : 1;
    for (int32_t i = 0; i < count; i++) {
        m->weight[i] = llround(ldexp((weight != NULL ? weight[i] : 1) / sum, 40));
        m->sum += m->weight[i];
    }
    *out = m;
    return 0;
}

void sw_mixture_free(struct sw_mixture *m)
{
    if (m != NULL)
        free(m->weight);
    free(m);
}
