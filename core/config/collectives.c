/* Points of single collectives: [collective, ranks, bytes over one port, fraction]. */
#include "core/config/internal.h"

#include <math.h>
#include <string.h>

enum { MOST = SW_MAX_COLLECTIVE_CURVES * SW_MAX_CURVE };

static bool complain(struct sw_config *c, const struct node *at, const struct field *field,
                     const char *message)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, sw_config_example(c, field));
    return false;
}

struct point {
    enum sw_collective kind;
    double ranks, size, fraction;
};

static bool read_point(const struct node *node, struct point *out)
{
    double *const number[] = {&out->ranks, &out->size, &out->fraction};
    if (node->kind != NODE_SEQUENCE || node->count != 4 || node->first->kind != NODE_SCALAR)
        return false;
    const struct sw_word *word = sw_words_collective;
    while (word->text != NULL && strcmp(word->text, node->first->text) != 0)
        word++;
    if (word->text == NULL || word->value == SW_SLICE)
        return false;
    out->kind = (enum sw_collective)word->value;
    int32_t i = 0;
    for (const struct node *item = node->first->next; item != NULL; item = item->next, i++)
        if (item->kind != NODE_SCALAR || !item->plain || !sw_number_parse(item->text, number[i]))
            return false;
    return out->ranks >= 2 && out->ranks <= 1 << 30 && floor(out->ranks) == out->ranks &&
           out->size > 0 && out->fraction > 0 && out->fraction <= 1;
}

/* The curve that a point continues, or a new one; NULL: wrong order, or one too many. */
static struct sw_curve *curve_of(struct sw_collective_curves *all, const struct point *p)
{
    const int32_t ranks = (int32_t)p->ranks;
    struct sw_collective_curve *last = all->count > 0 ? &all->of[all->count - 1] : NULL;
    if (last != NULL && last->kind == p->kind && last->ranks == ranks) {
        const bool ascends = p->size > last->curve.point[last->curve.count - 1].size;
        return ascends && last->curve.count < SW_MAX_CURVE ? &last->curve : NULL;
    }
    const bool goes_on = last != NULL && last->kind == p->kind;
    if (goes_on && last->ranks > ranks)
        return NULL;
    for (int32_t i = 0; i < all->count; i++)
        if (all->of[i].kind == p->kind && !goes_on)
            return NULL;
    if (all->count == SW_MAX_COLLECTIVE_CURVES)
        return NULL;
    all->of[all->count] = (struct sw_collective_curve){.kind = p->kind, .ranks = ranks};
    return &all->of[all->count++].curve;
}

static bool read_collectives(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    const struct sw_collective_curves **to =
        (const struct sw_collective_curves **)(void *)((char *)base + field->offset);
    bool good = true;
    *to = NULL;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value,
                                    "a list of [collective, ranks, size, fraction]");
    struct sw_collective_curves *all = sw_config_alloc(c, sizeof *all);
    for (const struct node *item = value->first; item != NULL && all != NULL && good;
         item = item->next) {
        struct point p = {.kind = SW_SLICE};
        if (!read_point(item, &p)) {
            good = complain(c, item, field,
                            sw_config_format(c,
                                             "a point of '%s' must be [collective, ranks, size, "
                                             "fraction], 2 ranks and more and a fraction of at "
                                             "most 1",
                                             field->key));
            continue;
        }
        struct sw_curve *curve = curve_of(all, &p);
        if (curve == NULL)
            good =
                complain(c, item, field,
                         sw_config_format(
                             c,
                             "the points of '%s' must be at most %d curves of at most %d points, "
                             "those of a collective together, ascending in ranks, then in size",
                             field->key, SW_MAX_COLLECTIVE_CURVES, SW_MAX_CURVE));
        else
            curve->point[curve->count++] = (struct sw_curve_point){p.size, p.fraction};
    }
    if (good && all != NULL && all->count > 0)
        *to = all;
    return good;
}

static bool is_empty(const void *at)
{
    return *(const struct sw_collective_curves *const *)at == NULL;
}

static void write_collectives(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_collective_curves *all =
        *(const struct sw_collective_curves *const *)(const void *)((const char *)base +
                                                                    field->offset);
    enum { POINT_BYTES = 2 * 32 + 32 + 16 }; /* a word, three numbers, and separators */
    char text[MOST * POINT_BYTES + 4], size[32], fraction[32];
    size_t used = 0;
    if (all == NULL)
        return;
    text[used++] = '[';
    for (int32_t i = 0; i < all->count; i++)
        for (int32_t k = 0; k < all->of[i].curve.count; k++) {
            const struct sw_curve_point *p = &all->of[i].curve.point[k];
            used += (size_t)snprintf(
                text + used, sizeof text - used, "%s[%s, %d, %s, %s]", i + k > 0 ? ", " : "",
                sw_word(sw_words_collective, (int32_t)all->of[i].kind), all->of[i].ranks,
                sw_real_format(p->size, size), sw_real_format(p->fraction, fraction));
        }
    text[used++] = ']';
    text[used] = '\0';
    w->value(w, field->key, text, STYLE_BARE);
}

const struct field_type sw_type_collectives = {read_collectives, write_collectives, NULL,
                                               INSIDE_NOTHING, is_empty};
