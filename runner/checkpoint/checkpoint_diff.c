#include "core/base/file.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "runner/checkpoint/checkpoint_command.h"
#include "runner/checkpoint/model_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_ELEMENTS = 1 << 17, MOST_ELEMENT_BYTES = 8, SHOWN_BYTES = 80 };

/* A tensor of one directory. */
struct item {
    enum sw_stored_group group;
    const char *file; /* name in the folder */
    const struct sw_safetensor *tensor;
};

struct side {
    struct sw_model_folder folder;
    struct item *item; /* [count], by group and name */
    int32_t count;
};

/* Distance between a group's tensors. */
struct distance {
    double largest, squares, norm;        /* max |a - b|, sum (a - b)^2, sum a^2 */
    int64_t tensors, different, compared; /* compared: as numbers */
};

struct comparison {
    FILE *out;
    struct side side[2];
    struct distance group[SW_STORED_GROUPS];
    char *buffer[2]; /* [CHUNK_ELEMENTS * MOST_ELEMENT_BYTES] */
    int width;       /* the longest name's */
    bool headed;     /* true once the table's head is printed */
    int64_t lines;
};

static const char *const group_names[SW_STORED_GROUPS] = {[SW_STORED_MODEL] = "",
                                                          [SW_STORED_EXP_AVG] = "exp_avg ",
                                                          [SW_STORED_EXP_AVG_SQ] = "exp_avg_sq "};

static int by_name(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    return a->group != b->group ? (a->group > b->group) - (a->group < b->group)
                                : strcmp(a->tensor->name, b->tensor->name);
}

static int open_side(const char *path, struct side *side, struct sw_error *err)
{
    size_t count = 0;
    if (sw_model_folder_open(path, true, &side->folder, err) != 0)
        return -1;
    for (int32_t i = 0; i < side->folder.count; i++)
        count += (size_t)side->folder.file[i].header.count;
    side->item = calloc(count + 1, sizeof *side->item);
    if (side->item == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tensors of '%.200s'", path);
    for (int32_t i = 0; i < side->folder.count; i++) {
        const struct sw_folder_file *file = &side->folder.file[i];
        for (int32_t k = 0; k < file->header.count; k++)
            side->item[side->count++] =
                (struct item){file->group, file->name, &file->header.tensor[k]};
    }
    qsort(side->item, count, sizeof *side->item, by_name);
    return 0;
}

/* ---- Lines ---- */

static char *shown_name(const struct item *item, char buffer[SHOWN_BYTES + 24])
{
    char name[SHOWN_BYTES + 4];
    snprintf(buffer, SHOWN_BYTES + 24, "%s%s", group_names[item->group],
             sw_text_shown(item->tensor->name, SHOWN_BYTES, name));
    return buffer;
}

static void shape_text(const struct sw_safetensor *t, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "%s [", t->dtype_name);
    for (uint8_t d = 0; d < t->ndim && used < bytes; d++)
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%" PRId64, d > 0 ? ", " : "", t->size[d]);
    if (used < bytes)
        snprintf(out + used, bytes - used, "]");
}

static void print_line(struct comparison *c, const struct item *item, const char *what)
{
    char name[SHOWN_BYTES + 24];
    if (!c->headed)
        fprintf(c->out, "%-*s  %10s  %10s\n", c->width, "tensor", "max |a-b|", "|a-b| / |a|");
    c->headed = true;
    c->lines++;
    fprintf(c->out, "%-*s  %s\n", c->width, shown_name(item, name), what);
}

static double relative(double squares, double norm)
{
    return squares == 0 ? 0 : sqrt(squares / norm); /* relative to zero: infinite */
}

/* ---- Numbers ---- */

static double number_at(const char *data, enum sw_stored_dtype dtype, size_t i)
{
    float f;
    double d;
    uint16_t half;
    switch (dtype) {
    case SW_STORED_F32:
        memcpy(&f, data + i * sizeof f, sizeof f);
        return (double)f;
    case SW_STORED_F64:
        memcpy(&d, data + i * sizeof d, sizeof d);
        return d;
    case SW_STORED_BF16:
        memcpy(&half, data + i * sizeof half, sizeof half);
        return (double)sw_bf16_to_float(half);
    case SW_STORED_F16:
        memcpy(&half, data + i * sizeof half, sizeof half);
        return (double)sw_fp16_to_float(half);
    case SW_STORED_U8:
    case SW_STORED_DTYPES:
        break;
    }
    return 0;
}

static void add_difference(struct distance *d, double a, double b)
{
    const double difference = fabs(a - b);
    d->norm += a * a;
    if (a == b || (isnan(a) && isnan(b)))
        return;
    d->squares += difference * difference;
    if (!(difference <= d->largest)) /* NaN stays */
        d->largest = isnan(d->largest) ? d->largest : difference;
}

static int read_part(int handle, const char *path, char *out, size_t bytes, int64_t at,
                     struct sw_error *err)
{
    while (bytes > 0) {
        const ssize_t got = pread(handle, out, bytes, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path},
                              "cannot read it: %s",
                              got == 0 ? "it became shorter" : strerror(errno));
        out += got;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* Compares two tensors of one shape. *same: true if all bits are equal and, for numbers, the
 * dtype. */
static int compare_data(struct comparison *c, const int handle[2], char *const path[2],
                        const struct sw_safetensor *const t[2], struct distance *d, bool *same,
                        struct sw_error *err)
{
    const bool numbers = t[0]->dtype != SW_STORED_DTYPES && t[1]->dtype != SW_STORED_DTYPES;
    const size_t unit[2] = {numbers ? sw_stored_dtype_bytes(t[0]->dtype) : 1,
                            numbers ? sw_stored_dtype_bytes(t[1]->dtype) : 1};
    const int64_t elements = t[0]->bytes / (int64_t)unit[0];
    *same = strcmp(t[0]->dtype_name, t[1]->dtype_name) == 0;
    for (int64_t at = 0; at < elements; at += CHUNK_ELEMENTS) {
        const size_t count =
            elements - at < CHUNK_ELEMENTS ? (size_t)(elements - at) : (size_t)CHUNK_ELEMENTS;
        for (int i = 0; i < 2; i++)
            if (read_part(handle[i], path[i], c->buffer[i], count * unit[i],
                          t[i]->begin + at * (int64_t)unit[i], err) != 0)
                return -1;
        if (*same)
            *same = memcmp(c->buffer[0], c->buffer[1], count * unit[0]) == 0;
        for (size_t i = 0; numbers && i < count; i++)
            add_difference(d, number_at(c->buffer[0], t[0]->dtype, i),
                           number_at(c->buffer[1], t[1]->dtype, i));
    }
    return 0;
}

static int compare_pair(struct comparison *c, const struct item *const item[2], struct distance *d,
                        bool *same, struct sw_error *err)
{
    char *path[2] = {NULL, NULL};
    int handle[2] = {-1, -1}, status = 0;
    for (int i = 0; i < 2 && status == 0; i++) {
        path[i] = sw_path_join(c->side[i].folder.path, item[i]->file);
        handle[i] = path[i] != NULL ? open(path[i], O_RDONLY | O_CLOEXEC) : -1;
        if (handle[i] < 0)
            status = sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path[i]},
                                "cannot read it: %s", strerror(errno));
    }
    if (status == 0)
        status = compare_data(
            c, handle, path,
            (const struct sw_safetensor *const[]){item[0]->tensor, item[1]->tensor}, d, same, err);
    for (int i = 0; i < 2; i++) {
        if (handle[i] >= 0)
            close(handle[i]);
        free(path[i]);
    }
    return status;
}

static bool is_comparable(const struct sw_safetensor *a, const struct sw_safetensor *b)
{
    bool same = a->ndim == b->ndim;
    for (uint8_t d = 0; same && d < a->ndim; d++)
        same = a->size[d] == b->size[d];
    return same && (strcmp(a->dtype_name, b->dtype_name) == 0 ||
                    (a->dtype != SW_STORED_DTYPES && b->dtype != SW_STORED_DTYPES));
}

static int compare_items(struct comparison *c, const struct item *const item[2],
                         struct sw_error *err)
{
    const struct sw_safetensor *a = item[0]->tensor, *b = item[1]->tensor;
    struct distance own = {0, 0, 0, 0, 0, 0}, *all = &c->group[item[0]->group];
    char what[640], shape[2][160];
    bool same = false;
    all->tensors++;
    if (!is_comparable(a, b)) {
        shape_text(a, shape[0], sizeof shape[0]);
        shape_text(b, shape[1], sizeof shape[1]);
        snprintf(what, sizeof what, "%s, but %s", shape[0], shape[1]);
        all->different++;
        print_line(c, item[0], what);
        return 0;
    }
    if (compare_pair(c, item, &own, &same, err) != 0)
        return -1;
    all->compared++;
    all->norm += own.norm;
    all->squares += own.squares;
    if (!(own.largest <= all->largest))
        all->largest = isnan(all->largest) ? all->largest : own.largest;
    if (same)
        return 0;
    all->different++;
    if (a->dtype == SW_STORED_DTYPES)
        snprintf(what, sizeof what, "%s that differ", a->dtype_name);
    else if (strcmp(a->dtype_name, b->dtype_name) == 0)
        snprintf(what, sizeof what, "%10.3g  %10.3g", own.largest, relative(own.squares, own.norm));
    else
        snprintf(what, sizeof what, "%10.3g  %10.3g  %s, but %s", own.largest,
                 relative(own.squares, own.norm), a->dtype_name, b->dtype_name);
    print_line(c, item[0], what);
    return 0;
}

static void print_totals(const struct comparison *c)
{
    static const char *const names[SW_STORED_GROUPS] = {"model", "exp_avg", "exp_avg_sq"};
    for (int i = 0; i < SW_STORED_GROUPS; i++) {
        const struct distance *d = &c->group[i];
        if (d->tensors == 0)
            continue;
        fprintf(c->out, "%s: %" PRId64 " of %" PRId64 " tensors differ", names[i], d->different,
                d->tensors);
        if (d->compared > 0)
            fprintf(c->out, ", max %.3g, relative %.3g", d->largest, relative(d->squares, d->norm));
        fputc('\n', c->out);
    }
}

static int compare(struct comparison *c, struct sw_error *err)
{
    char what[640], name[SHOWN_BYTES + 24];
    int32_t at[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        for (int32_t k = 0; k < c->side[i].count; k++) {
            const int width = (int)strlen(shown_name(&c->side[i].item[k], name));
            c->width = width > c->width ? width : c->width;
        }
    while (at[0] < c->side[0].count || at[1] < c->side[1].count) {
        const struct item *const item[2] = {&c->side[0].item[at[0]], &c->side[1].item[at[1]]};
        const int order = at[0] == c->side[0].count   ? 1
                          : at[1] == c->side[1].count ? -1
                                                      : by_name(item[0], item[1]);
        if (order == 0) {
            if (compare_items(c, item, err) != 0)
                return -1;
        } else {
            const int i = order < 0 ? 0 : 1;
            c->group[item[i]->group].tensors++;
            c->group[item[i]->group].different++;
            snprintf(what, sizeof what, "only in %.600s", c->side[i].folder.path);
            print_line(c, item[i], what);
        }
        at[0] += order <= 0;
        at[1] += order >= 0;
    }
    return 0;
}

int sw_checkpoint_diff(FILE *out, const char *a, const char *b, int *differs, struct sw_error *err)
{
    struct comparison c = {.out = out};
    const char *const path[2] = {a, b};
    int status = 0;
    for (int i = 0; i < 2 && status == 0; i++) {
        c.buffer[i] = malloc((size_t)CHUNK_ELEMENTS * MOST_ELEMENT_BYTES);
        status = c.buffer[i] == NULL
                     ? sw_fail(err, SW_ENVIRONMENT, "out of memory for comparing checkpoints")
                     : open_side(path[i], &c.side[i], err);
    }
    if (status == 0)
        status = compare(&c, err);
    if (status == 0) {
        *differs = c.lines > 0;
        if (*differs)
            print_totals(&c);
        else
            fprintf(out, "equal\n");
    }
    for (int i = 0; i < 2; i++) {
        free(c.buffer[i]);
        free(c.side[i].item);
        sw_model_folder_free(&c.side[i].folder);
    }
    return status;
}
