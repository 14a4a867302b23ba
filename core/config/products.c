/* Points of matrix products: [rows, columns, depth, share], a full grid; in a profile, also a grid
 * for each kind of product. Attention's have other names for the same. */
#include "core/config/internal.h"

#include <string.h>

enum { MOST = SW_MAX_PRODUCT_ROWS * SW_MAX_PRODUCT_SIDES * SW_MAX_PRODUCT_SIDES };

/* Size of products of at least a tenth of a millisecond, and the mean share that tiles and depths
 * leave of these, by core/cost/op_time.c. */
static const double large_flops = 0x1p37, large_left = 0.94;

static bool complain(struct sw_config *c, const struct node *at, const struct field *field,
                     const char *message)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, sw_config_example(c, field));
    return false;
}

/* Names of a point's numbers, and plurals of the first three; the least number of depths in a
 * grid. */
struct names {
    const char *one[3], *several[3];
    int32_t least_depths;
    const char *least;
};
static const struct names product_names = {
    {"rows", "columns", "depth"}, {"rows", "columns", "depths"}, 2, "at least 2 of each"};
static const struct names attention_names = {{"heads or queries", "length", "head_dim"},
                                             {"heads or queries", "lengths", "head sizes"},
                                             1,
                                             "at least 2 of the first two"};

static const struct names *names_of(const struct field *field)
{
    return field->custom == &sw_type_attention_grid ? &attention_names : &product_names;
}

/* Four plain numbers. */
static bool read_point(const struct node *node, double out[4])
{
    if (node->kind != NODE_SEQUENCE || node->count != 4)
        return false;
    int32_t i = 0;
    for (const struct node *item = node->first; item != NULL; item = item->next, i++)
        if (item->kind != NODE_SCALAR || !item->plain || !sw_number_parse(item->text, &out[i]))
            return false;
    return out[0] >= 1 && out[1] >= 1 && out[2] >= 1 && out[0] < SW_BIG && out[1] < SW_BIG &&
           out[2] < SW_BIG && out[3] > 0 && out[3] <= 1;
}

/* Appends a size that is larger than the last; false: there is no room, or it is not. */
static bool append(double *sizes, int32_t *count, int32_t room, double size)
{
    if (*count == room || (*count > 0 && size <= sizes[*count - 1]))
        return false;
    sizes[(*count)++] = size;
    return true;
}

/* Reads the sides of the grid from its first points: depths of the first column, columns of the
 * first rows. */
static bool read_sides(const struct node *value, int32_t least_depths, struct sw_products *p)
{
    double at[4];
    bool good = true;
    for (const struct node *item = value->first; item != NULL && good; item = item->next) {
        (void)read_point(item, at);
        const bool first_rows = p->rows == 0 || at[0] == p->row[0];
        const bool first_column = p->columns == 0 || at[1] == p->column[0];
        if (p->rows == 0 || at[0] != p->row[p->rows - 1])
            good = append(p->row, &p->rows, SW_MAX_PRODUCT_ROWS, at[0]);
        if (good && first_rows && (p->columns == 0 || at[1] != p->column[p->columns - 1]))
            good = append(p->column, &p->columns, SW_MAX_PRODUCT_SIDES, at[1]);
        if (good && first_rows && first_column)
            good = append(p->depth, &p->depths, SW_MAX_PRODUCT_SIDES, at[2]);
    }
    return good && p->rows > 1 && p->columns > 1 && p->depths >= least_depths &&
           p->rows * p->columns * p->depths == (int32_t)value->count;
}

/* Reads every point into the grid; the asymptote is from the mean of the large ones. */
static bool read_shares(const struct node *value, struct sw_products *p)
{
    double at[4], sum = 0;
    int32_t i = 0, large = 0;
    for (const struct node *item = value->first; item != NULL; item = item->next, i++) {
        (void)read_point(item, at);
        if (at[0] != p->row[i / (p->columns * p->depths)] ||
            at[1] != p->column[i / p->depths % p->columns] || at[2] != p->depth[i % p->depths])
            return false;
        p->share[i] = at[3];
        if (2 * at[0] * at[1] * at[2] >= large_flops) {
            sum += at[3];
            large++;
        }
    }
    p->asymptote = (large > 0 ? sum / large : p->share[i - 1]) / large_left;
    return true;
}

double sw_accelerator_best_share(const struct sw_accelerator_config *a)
{
    if (a->products != NULL)
        return a->products->asymptote;
    return a->best_product < large_left ? a->best_product / large_left : 1;
}

static bool read_products(struct sw_config *c, const struct field *field, struct node *value,
                          void *base)
{
    const struct sw_products **to =
        (const struct sw_products **)(void *)((char *)base + field->offset);
    const struct names *n = names_of(field);
    double at[4];
    *to = NULL;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(
            c, field, value,
            sw_config_format(c, "a list of [%s, %s, %s, share]", n->one[0], n->one[1], n->one[2]));
    if (value->count > MOST)
        return complain(c, value, field,
                        sw_config_format(c, "'%s' has %d points; at most %d are allowed",
                                         field->key, (int)value->count, MOST));
    bool good = true;
    for (const struct node *item = value->first; item != NULL; item = item->next)
        if (!read_point(item, at))
            good = complain(c, item, field,
                            sw_config_format(c,
                                             "a point of '%s' must be [%s, %s, %s, share], sizes "
                                             "of 1 and more and a share of at most 1",
                                             field->key, n->one[0], n->one[1], n->one[2]));
    struct sw_products *p = good ? sw_config_alloc(c, sizeof *p) : NULL;
    if (p == NULL)
        return false;
    if (!read_sides(value, n->least_depths, p) || !read_shares(value, p))
        return complain(c, value, field,
                        sw_config_format(c,
                                         "the points of '%s' must be a grid of at most %d %s, %d "
                                         "%s and %d %s, %s, ascending",
                                         field->key, SW_MAX_PRODUCT_ROWS, n->several[0],
                                         SW_MAX_PRODUCT_SIDES, n->several[1], SW_MAX_PRODUCT_SIDES,
                                         n->several[2], n->least));
    *to = p;
    return true;
}

static bool is_empty(const void *at)
{
    return *(const struct sw_products *const *)at == NULL;
}

static void write_products(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_products *p =
        *(const struct sw_products *const *)(const void *)((const char *)base + field->offset);
    enum { POINT_BYTES = 4 * 32 + 16 }; /* four numbers and separators */
    char text[MOST * POINT_BYTES + 4], number[4][32];
    size_t used = 0;
    if (p == NULL)
        return;
    text[used++] = '[';
    for (int32_t i = 0; i < p->rows * p->columns * p->depths; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[%s, %s, %s, %s]",
                                 i > 0 ? ", " : "",
                                 sw_real_format(p->row[i / (p->columns * p->depths)], number[0]),
                                 sw_real_format(p->column[i / p->depths % p->columns], number[1]),
                                 sw_real_format(p->depth[i % p->depths], number[2]),
                                 sw_real_format(p->share[i], number[3]));
    text[used++] = ']';
    text[used] = '\0';
    w->value(w, field->key, text, STYLE_BARE);
}

const struct field_type sw_type_products = {read_products, write_products, NULL, INSIDE_NOTHING,
                                            is_empty};

const struct field_type sw_type_attention_grid = {read_products, write_products, NULL,
                                                  INSIDE_NOTHING, is_empty};

/* ---- Grids of a profile ---- */

enum { GRIDS = SW_PRODUCT_KINDS * SW_RATE_DTYPES };

static bool has_none(const void *at)
{
    const struct sw_products *const *grid = at;
    int32_t i = 0;
    while (i < GRIDS && grid[i] == NULL)
        i++;
    return i == GRIDS;
}

/* True if the value can be written as a list: a bf16 grid, the same for every kind. */
static bool is_list(const struct sw_products *const grid[SW_PRODUCT_KINDS][SW_RATE_DTYPES])
{
    for (int32_t k = 0; k < SW_PRODUCT_KINDS; k++)
        if (grid[k][SW_RATE_FP32] != NULL || grid[k][SW_RATE_BF16] != grid[0][SW_RATE_BF16])
            return false;
    return true;
}

/* The row of a list, as the grid of the first kind. */
static struct field list_field(const struct field *field)
{
    struct field list = *field;
    list.offset += SW_RATE_BF16 * sizeof(const struct sw_products *);
    return list;
}

static bool read_by_kind(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    const struct sw_products *(*grid)[SW_RATE_DTYPES] =
        (const struct sw_products *(*)[SW_RATE_DTYPES])(void *)((char *)base + field->offset);
    memset(grid, 0, GRIDS * sizeof **grid);
    if (value->kind == NODE_MAPPING)
        return sw_config_read_section(c, value, field->fields, base, UNKNOWN_ERROR).bad == 0;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value,
                                    "a list of [rows, columns, depth, share] or a mapping");
    const struct field list = list_field(field);
    if (!read_products(c, &list, value, base))
        return false;
    for (int32_t k = 1; k < SW_PRODUCT_KINDS; k++)
        grid[k][SW_RATE_BF16] = grid[0][SW_RATE_BF16];
    return true;
}

static void write_by_kind(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_products *const(*grid)[SW_RATE_DTYPES] =
        (const struct sw_products *const(*)[SW_RATE_DTYPES])(const void *)((const char *)base +
                                                                           field->offset);
    const struct field list = list_field(field);
    if (is_list(grid)) {
        write_products(w, &list, base);
        return;
    }
    w->open(w, field->key);
    sw_config_write_fields(w, field->fields, base);
    w->close(w);
}

static void schema_by_kind(struct sw_json *j, const struct field *field)
{
    sw_json_array(j, "anyOf");
    sw_json_raw(j, NULL, field->schema, strlen(field->schema));
    sw_config_schema_object(j, NULL, false, field->fields);
    sw_json_end(j);
}

const struct field_type sw_type_products_by_kind = {read_by_kind, write_by_kind, schema_by_kind,
                                                    INSIDE_FIELDS, has_none};
