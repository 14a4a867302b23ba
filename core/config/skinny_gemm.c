/* Points of products of few rows: [rows, bytes, bytes of weights per second]. */
#include "core/config/internal.h"

static bool complain(struct sw_config *c, const struct node *at, const struct field *field,
                     const char *message)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, sw_config_example(c, field));
    return false;
}

/* Three plain numbers. */
static bool read_triple(const struct node *node, double out[3])
{
    if (node->kind != NODE_SEQUENCE || node->count != 3)
        return false;
    int32_t i = 0;
    for (const struct node *item = node->first; item != NULL; item = item->next, i++)
        if (item->kind != NODE_SCALAR || !item->plain || !sw_number_parse(item->text, &out[i]))
            return false;
    return true;
}

static bool read_point(struct sw_config *c, const struct field *field, const struct node *item,
                       struct sw_skinny_gemm *skinny)
{
    double value[3];
    if (!read_triple(item, value))
        return complain(c, item, field,
                        sw_config_format(c,
                                         "a point of '%s' must be [rows, bytes, bytes per second]",
                                         field->key));
    if (!(value[0] > 0 && value[0] < SW_BIG && value[1] > 0 && value[1] < SW_BIG &&
          value[2] > 1 / SW_BIG && value[2] < SW_BIG))
        return complain(
            c, item, field,
            sw_config_format(c, "the numbers of a point of '%s' must be more than 0 and below 1e30",
                             field->key));
    const struct sw_skinny_gemm_point *before =
        skinny->count > 0 ? &skinny->point[skinny->count - 1] : NULL;
    if (before != NULL &&
        (value[0] < before->rows || (value[0] == before->rows && value[1] <= before->bytes)))
        return complain(
            c, item, field,
            sw_config_format(c, "the points of '%s' must be ascending in rows, then in bytes",
                             field->key));
    skinny->point[skinny->count++] = (struct sw_skinny_gemm_point){value[0], value[1], value[2]};
    return true;
}

static bool read_skinny_gemm(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    struct sw_skinny_gemm *skinny = (struct sw_skinny_gemm *)(void *)((char *)base + field->offset);
    skinny->count = 0;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value, "a list of [rows, bytes, bytes per second]");
    if (value->count > SW_MAX_SKINNY_GEMM)
        return complain(c, value, field,
                        sw_config_format(c, "'%s' has %d points; at most %d are allowed",
                                         field->key, (int)value->count, SW_MAX_SKINNY_GEMM));
    bool good = true;
    for (const struct node *item = value->first; item != NULL; item = item->next)
        good = read_point(c, field, item, skinny) && good;
    if (!good)
        skinny->count = 0;
    return good;
}

static bool is_empty(const void *at)
{
    return ((const struct sw_skinny_gemm *)at)->count == 0;
}

static void write_skinny_gemm(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_skinny_gemm *skinny =
        (const struct sw_skinny_gemm *)(const void *)((const char *)base + field->offset);
    char text[SW_MAX_SKINNY_GEMM * 104 + 4], number[3][32];
    size_t used = 0;
    if (is_empty(skinny))
        return;
    text[used++] = '[';
    for (int32_t i = 0; i < skinny->count; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s[%s, %s, %s]", i > 0 ? ", " : "",
                             sw_real_format(skinny->point[i].rows, number[0]),
                             sw_real_format(skinny->point[i].bytes, number[1]),
                             sw_real_format(skinny->point[i].bandwidth, number[2]));
    text[used++] = ']';
    text[used] = '\0';
    w->value(w, field->key, text, STYLE_BARE);
}

const struct field_type sw_type_skinny_gemm = {read_skinny_gemm, write_skinny_gemm, NULL,
                                               INSIDE_NOTHING, is_empty};
