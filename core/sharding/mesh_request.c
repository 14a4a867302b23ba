/* mesh_dim as users write it (LWM's forms) and its meaning on a number of accelerators. */
#include "core/sharding/mesh.h"

#include "core/base/text.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_QUOTED = 80 }; /* most characters of the user's text in a message */

/* One stretch of the text, without the blanks around it. */
struct token {
    const char *at;
    size_t length;
};

/* Number of its characters that a message shows. */
static int shown(struct token token)
{
    return token.length > MAX_QUOTED ? MAX_QUOTED : (int)token.length;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct token trim(const char *at, size_t length)
{
    while (length > 0 && is_blank(*at)) {
        at++;
        length--;
    }
    while (length > 0 && is_blank(at[length - 1]))
        length--;
    return (struct token){at, length};
}

static bool token_is(struct token token, const char *word)
{
    return token.length == strlen(word) && memcmp(token.at, word, token.length) == 0;
}

/* 0, or -1 if the token names no axis. */
static int find_axis(struct token token, uint8_t *axis)
{
    for (uint8_t a = 0; a < SW_AXIS_COUNT; a++) {
        if (token_is(token, sw_axis_name((enum sw_axis)a))) {
            *axis = a;
            return 0;
        }
    }
    return -1;
}

static int parse_size(const char *text, struct token token, int32_t *size, struct sw_error *err)
{
    bool negative = token.length > 1 && token.at[0] == '-';
    int64_t value = 0;
    bool overflow = false;
    for (size_t i = negative; i < token.length; i++) {
        if (token.at[i] < '0' || token.at[i] > '9')
            return sw_fail(err, SW_BAD_INPUT,
                           "mesh_dim '%.*s': '%.*s' is not a whole number; use sizes of at least 1 "
                           "and at most one -1",
                           MAX_QUOTED, text, shown(token), token.at);
        value = overflow ? value : value * 10 + (token.at[i] - '0');
        overflow = value > INT32_MAX;
    }
    if (token.length == 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': a size is missing; write dp,fsdp,tp,sp as in '1,-1,4,1'",
                       MAX_QUOTED, text);
    if (negative && (value != 1 || overflow))
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': '%.*s' is negative; only -1 is (whatever is left)",
                       MAX_QUOTED, text, shown(token), token.at);
    if (overflow)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': '%.*s' is too large; no cluster has so many accelerators",
                       MAX_QUOTED, text, shown(token), token.at);
    if (value == 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': size 0; an axis that is not used has size 1", MAX_QUOTED,
                       text);
    *size = negative ? -1 : (int32_t)value;
    return 0;
}

/* The axis that an item sets; *item becomes the text after its colon. */
static int parse_axis(const char *text, bool named, int index, sw_axis_set seen, struct token *item,
                      uint8_t *axis, struct sw_error *err)
{
    const char *colon = memchr(item->at, ':', item->length);
    if ((colon != NULL) != named)
        return sw_fail(
            err, SW_BAD_INPUT,
            "mesh_dim '%.*s' names some axes and not others; write four sizes, or a name "
            "before each as in 'tp:8,fsdp:-1'",
            MAX_QUOTED, text);
    if (!named) {
        *axis = (uint8_t)index;
        return 0;
    }
    struct token name = trim(item->at, (size_t)(colon - item->at));
    if (find_axis(name, axis) != 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': unknown axis '%.*s'; the axes are dp, fsdp, tp and sp",
                       MAX_QUOTED, text, shown(name), name.at);
    if (seen >> *axis & 1u)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s': axis '%.*s' appears twice; name each at most once",
                       MAX_QUOTED, text, shown(name), name.at);
    *item = trim(colon + 1, (size_t)(item->at + item->length - (colon + 1)));
    return 0;
}

static int count_items(const char *list)
{
    int count = 1;
    for (; *list != '\0'; list++)
        count += *list == ',';
    return count;
}

static int check_sizes(const char *text, const struct sw_mesh_request *request,
                       struct sw_error *err)
{
    int open = 0;
    int64_t product = 1;
    for (int axis = 0; axis < SW_AXIS_COUNT; axis++) {
        if (request->size[axis] == -1)
            open++;
        else
            product *= request->size[axis];
        if (product > INT32_MAX)
            return sw_fail(err, SW_BAD_INPUT,
                           "mesh_dim '%.*s': the product of the sizes is too large; no cluster has "
                           "so many accelerators",
                           MAX_QUOTED, text);
    }
    if (open > 1)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s' has %d sizes of -1; at most one can be "
                       "whatever is left",
                       MAX_QUOTED, text, open);
    return 0;
}

static int parse(const char *text, struct sw_mesh_request *out, struct sw_error *err)
{
    *out = (struct sw_mesh_request){.order = {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    struct token all = trim(text, strlen(text));
    if (all.length == 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim is empty; write auto, or dp,fsdp,tp,sp as in '1,-1,4,1'");
    if (token_is(all, "auto")) {
        out->is_auto = true;
        return 0;
    }
    int32_t distance;
    if (sw_text_is_near(text, "auto", &distance))
        return sw_fail(err, SW_BAD_INPUT,
                       "mesh_dim '%.*s' is neither auto nor sizes as in '1,-1,4,1'; did you mean "
                       "'auto'?",
                       MAX_QUOTED, text);
    const char *list = all.at;
    struct sw_mesh_request request = *out;
    request.keep_order = *list == '!';
    list += request.keep_order;
    const int count = count_items(list);
    const bool named = strchr(list, ':') != NULL;
    if (named ? count > SW_AXIS_COUNT : count != SW_AXIS_COUNT)
        return sw_fail(
            err, SW_BAD_INPUT,
            "mesh_dim '%.*s' has %d size%s, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1'%s",
            MAX_QUOTED, text, count, count == 1 ? "" : "s",
            count < SW_AXIS_COUNT ? ", or names as in 'tp:8,fsdp:-1'" : "");
    request.keep_order = request.keep_order || named;
    sw_axis_set seen = 0;
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(list, ",");
        struct token item = trim(list, length);
        uint8_t axis = 0;
        if (parse_axis(text, named, i, seen, &item, &axis, err) != 0 ||
            parse_size(text, item, &request.size[axis], err) != 0)
            return -1;
        request.order[SW_AXIS_COUNT - count + i] = axis;
        seen |= (sw_axis_set)(1u << axis);
        list += length + 1;
    }
    /* axes without a name have size 1, so their order has no effect */
    for (uint8_t axis = 0, at = 0; axis < SW_AXIS_COUNT; axis++)
        if ((seen >> axis & 1u) == 0) {
            request.order[at++] = axis;
            request.size[axis] = 1;
        }
    if (check_sizes(text, &request, err) != 0)
        return -1;
    *out = request;
    return 0;
}

int sw_mesh_request_parse(const char *text, struct sw_mesh_request *out, struct sw_error *err)
{
    struct sw_error why = {0};
    if (parse(text, out, &why) == 0)
        return 0;
    /* the text may contain control characters of a terminal */
    for (char *p = why.message; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            *p = '?';
    return sw_fail_as(err, &why);
}

/* The request as a user would write it, for messages. */
static void format_request(const struct sw_mesh_request *request, char *buffer, size_t bytes)
{
    struct sw_mesh mesh = {.order = {0}};
    memcpy(mesh.size, request->size, sizeof mesh.size);
    sw_mesh_format(&mesh, buffer, bytes);
}

int sw_mesh_request_resolve(const struct sw_mesh_request *request, int32_t accelerators,
                            struct sw_mesh *out, struct sw_error *err)
{
    if (request->is_auto)
        return sw_fail(err, SW_UNMET, "mesh_dim auto has no sizes of its own; search for a mesh");
    char text[64];
    format_request(request, text, sizeof text);
    struct sw_mesh mesh = sw_mesh_make(request->size[SW_DP], request->size[SW_FSDP],
                                       request->size[SW_TP], request->size[SW_SP]);
    int32_t product = 1;
    int open = -1;
    for (int axis = 0; axis < SW_AXIS_COUNT; axis++) {
        if (mesh.size[axis] == -1)
            open = axis;
        else
            product *= mesh.size[axis];
    }
    if (open >= 0 && (accelerators < product || accelerators % product != 0))
        return sw_fail(err, SW_UNMET,
                       "mesh_dim %s needs a multiple of %" PRId32 " accelerators, but there %s "
                       "%" PRId32,
                       text, product, accelerators == 1 ? "is" : "are", accelerators);
    if (open < 0 && product != accelerators)
        return sw_fail(err, SW_UNMET,
                       "mesh_dim %s needs %" PRId32 " accelerator%s, but there %s %" PRId32
                       "; write -1 for the axis that takes whatever is left",
                       text, product, product == 1 ? "" : "s", accelerators == 1 ? "is" : "are",
                       accelerators);
    if (open >= 0)
        mesh.size[open] = accelerators / product;
    if (request->keep_order)
        memcpy(mesh.order, request->order, sizeof mesh.order);
    *out = mesh;
    return 0;
}

bool sw_mesh_request_admits(const struct sw_mesh_request *request, const struct sw_mesh *mesh)
{
    for (int axis = 0; axis < SW_AXIS_COUNT && !request->is_auto; axis++) {
        if (request->size[axis] != -1 && request->size[axis] != mesh->size[axis])
            return false;
    }
    return true;
}
