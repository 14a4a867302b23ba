/* Readers of values that are no scalars. */
#include "core/config/internal.h"

#include <string.h>

static bool complain(struct sw_config *c, const struct node *at, const struct field *field,
                     const char *message)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, sw_config_example(c, field));
    return false;
}

static bool read_unsupported(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    (void)base;
    if (value->kind != NODE_BROKEN)
        sw_config_error_at(c, value, sw_config_format(c, "'%s' is not supported", field->key),
                           sw_config_format(c, "leave it out or write '%s: null'", field->key));
    return false;
}

const struct field_type sw_type_unsupported = {.read = read_unsupported};

/* Reads one [a, b] of plain numbers. */
static bool read_pair(const struct node *node, double *a, double *b)
{
    return node->kind == NODE_SEQUENCE && node->count == 2 && node->first->kind == NODE_SCALAR &&
           node->last->kind == NODE_SCALAR && node->first->plain && node->last->plain &&
           sw_number_parse(node->first->text, a) && sw_number_parse(node->last->text, b);
}

/* Checks a fraction, of a peak where the field gives no other maximum. */
static bool check_fraction(struct sw_config *c, const struct field *field, const struct node *node,
                           double fraction)
{
    const double most = field->max > 0 ? field->max : 1;
    if (fraction > 0 && fraction <= most)
        return true;
    const char *message = sw_config_format(
        c, "a fraction of '%s' must be more than 0 and at most %g", field->key, most);
    if (fraction != 0 || !field->brief)
        return complain(c, node, field, message);
    /* 0 is often written for 'none' */
    sw_config_error_at(c, node, message, "leave it out, and its default is taken");
    return false;
}

static bool read_curve(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_curve *curve = (struct sw_curve *)((char *)base + field->offset);
    double all;
    if (value->kind == NODE_SCALAR && value->plain && sw_number_parse(value->text, &all)) {
        if (!check_fraction(c, field, value, all))
            return false;
        *curve = (struct sw_curve){1, {{1, all}}};
        return true;
    }
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value,
                                    field->custom == &sw_type_link_curve
                                        ? "a fraction, a list of [size, fraction] or a file"
                                        : "a fraction or a list of [size, fraction]");
    if (value->count > SW_MAX_CURVE)
        return complain(c, value, field,
                        sw_config_format(c, "'%s' has %d points; at most %d are allowed",
                                         field->key, (int)value->count, SW_MAX_CURVE));
    bool good = true;
    double before = 0;
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        struct sw_curve_point point = {0};
        if (!read_pair(item, &point.size, &point.fraction)) {
            good = complain(
                c, item, field,
                sw_config_format(c, "a point of '%s' must be [size, fraction]", field->key));
            continue;
        }
        if (point.size <= before)
            good = complain(c, item->first, field,
                            sw_config_format(c, "the sizes of '%s' must be positive and ascending",
                                             field->key));
        good = check_fraction(c, field, item->last, point.fraction) && good;
        before = point.size;
        curve->point[curve->count++] = point;
    }
    if (!good)
        curve->count = 0;
    return good;
}

static void write_curve(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_curve *curve = (const struct sw_curve *)((const char *)base + field->offset);
    char text[SW_MAX_CURVE * 64 + 4], size[32], fraction[32];
    size_t used = 0;
    if (curve->count == 0 && field->brief)
        return;
    if (curve->count == 1 && curve->point[0].size == 1) {
        w->value(w, field->key, sw_real_format(curve->point[0].fraction, fraction), STYLE_BARE);
        return;
    }
    text[used++] = '[';
    for (int32_t i = 0; i < curve->count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[%s, %s]", i > 0 ? ", " : "",
                                 sw_real_format(curve->point[i].size, size),
                                 sw_real_format(curve->point[i].fraction, fraction));
    text[used++] = ']';
    text[used] = '\0';
    w->value(w, field->key, text, STYLE_BARE);
}

const struct field_type sw_type_curve = {read_curve, write_curve, NULL, INSIDE_NOTHING, NULL};

/* Reads a link's curve, which may stand in a file that clusters of one fabric share. */
static bool read_link_curve(struct sw_config *c, const struct field *field, struct node *value,
                            void *base)
{
    struct sw_link_config *link = base;
    double all;
    if (value->kind != NODE_SCALAR || value->text[0] == 0 || sw_number_parse(value->text, &all))
        return read_curve(c, field, value, base);
    struct node *root = sw_config_follow(c, field, value);
    struct sw_curve_file file = {.error = 0};
    if (root == NULL || !c->hooks->describe(c, SW_CONFIG_CURVE, root, &file))
        return false;
    link->efficiency = file.curve;
    link->efficiency_error = file.error;
    link->efficiency_signed_error = file.signed_error;
    if (file.launch_s > 0 && link->launch_s == file.launch_s) {
        link->launch_error = file.error;
        link->launch_signed_error = file.signed_error;
    }
    if (file.latency_s > 0 && link->latency_s == file.latency_s) {
        link->latency_error = file.error;
        link->latency_signed_error = file.signed_error;
    }
    link->at.efficiency = file.at.points;
    link->collectives = file.collectives;
    link->collectives_error = file.collectives_error;
    link->collectives_signed_error = file.collectives_signed_error;
    link->at.collectives = file.at.collectives;
    link->efficiency_path = root->source->file;
    return true;
}

const struct field_type sw_type_link_curve = {read_link_curve, write_curve, NULL, INSIDE_NOTHING,
                                              NULL};

/* Values stored in `spans` for the words of its row. */
enum { SPANS_NODE = -1, SPANS_ALL = -2 };

/* Sets the accelerators of one domain; 0 if the cluster's sizes, which stand before, are
 * unknown. */
static void resolve_spans(const struct sw_cluster_config *cluster, struct sw_link_config *link)
{
    const int32_t node = cluster->accelerators_per_node;
    link->spans_all = link->spans == SPANS_ALL;
    if (link->spans == SPANS_NODE)
        link->spans = node;
    else if (link->spans_all)
        link->spans = node * cluster->nodes; /* 2^30 at most */
}

/* True if a link given in words joins no more than the one inside it; with other sizes of the
 * cluster it may join more. */
static bool joins_nothing(const struct sw_link_config *link, bool in_words)
{
    return in_words && link->spans > 0 &&
           (link->spans_all ? link->spans <= link[-1].spans : link->spans == link[-1].spans);
}

void sw_cluster_resize(struct sw_cluster_config *cluster, int32_t nodes)
{
    int32_t kept = 0;
    cluster->nodes = nodes;
    if (cluster->beyond.name != NULL && cluster->link_count < SW_MAX_LINKS)
        cluster->link[cluster->link_count++] = cluster->beyond;
    cluster->beyond = (struct sw_link_config){.name = NULL};
    for (int32_t i = 0; i < cluster->link_count; i++) {
        struct sw_link_config *link = &cluster->link[i];
        if (link->spans_all)
            link->spans = nodes * cluster->accelerators_per_node;
        if (kept > 0 && link->spans_all && link->spans <= cluster->link[kept - 1].spans) {
            cluster->beyond = *link;
            continue;
        }
        cluster->link[kept++] = *link;
    }
    for (int32_t i = kept; i < cluster->link_count; i++)
        cluster->link[i] = (struct sw_link_config){.name = NULL};
    cluster->link_count = kept;
}

/* Requires one of the two bandwidths, and derives that of one accelerator. */
static bool read_bandwidth(struct sw_config *c, const struct section *s,
                           const struct sw_cluster_config *cluster, struct sw_link_config *link)
{
    const char *const help = "write 'bandwidth', what one accelerator sends in one direction, or "
                             "'bandwidth_per_node', what all of a node send together";
    if (!sw_section_good(s, "bandwidth", "bandwidth_per_node", NULL))
        return false;
    bool one = sw_section_wrote(s, "bandwidth"), all = sw_section_wrote(s, "bandwidth_per_node");
    /* --set replaces either one of the file */
    const bool sets_one = one && sw_section_place(s, "bandwidth")->source->is_override;
    const bool sets_all = all && sw_section_place(s, "bandwidth_per_node")->source->is_override;
    if (sets_one != sets_all) {
        one = sets_one;
        all = sets_all;
    }
    if (!one && !all)
        sw_config_error_at(c, s->map, "missing key 'bandwidth' or 'bandwidth_per_node'", help);
    if (one && all)
        sw_config_error_at(c, sw_section_place(s, "bandwidth_per_node"),
                           "'bandwidth' and 'bandwidth_per_node' say the same; give one of them",
                           help);
    if (all && !one && cluster->accelerators_per_node > 0)
        link->bandwidth = link->bandwidth_per_node / cluster->accelerators_per_node;
    link->bandwidth_per_node = 0;
    return one != all;
}

/* Checks that a link's name is new: reports, overrides and curves use it. */
static bool is_new_link(struct sw_config *c, const struct section *s,
                        const struct sw_cluster_config *cluster)
{
    const struct sw_link_config *last = &cluster->link[cluster->link_count - 1];
    for (const struct sw_link_config *link = cluster->link; link < last; link++)
        if (last->name != NULL && link->name != NULL && strcmp(link->name, last->name) == 0) {
            sw_config_error_at(c, sw_section_place(s, "name"),
                               sw_config_format(c, "two links have the name '%s'", last->name),
                               "give each its own, for example: nvlink, infiniband");
            return false;
        }
    return true;
}

static bool read_links(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_cluster_config *cluster = base;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value, "a list of mappings");
    if (value->count > SW_MAX_LINKS)
        return complain(c, value, field,
                        sw_config_format(c, "%d links; at most %d are allowed", (int)value->count,
                                         SW_MAX_LINKS));
    bool good = true;
    for (struct node *item = value->first; item != NULL; item = item->next) {
        struct sw_link_config *link = &cluster->link[cluster->link_count++];
        if (item->kind != NODE_MAPPING) {
            good = sw_config_wrong_type(c, field, item, "a list of mappings");
            continue;
        }
        struct section section =
            sw_config_read_section(c, item, field->fields, link, UNKNOWN_ERROR);
        const bool in_words = link->spans < 0;
        good = read_bandwidth(c, &section, cluster, link) && section.bad == 0 && good;
        resolve_spans(cluster, link);
        good = is_new_link(c, &section, cluster) && good;
        if (cluster->link_count < 2 || !sw_section_good(&section, "spans", NULL) ||
            link[-1].spans == 0 || link->spans == 0 || link->spans > link[-1].spans)
            continue;
        if (joins_nothing(link, in_words)) {
            if (link->spans_all)
                cluster->beyond = *link;
            *link = (struct sw_link_config){.name = NULL};
            cluster->link_count--;
            continue;
        }
        sw_config_error_at(
            c, sw_section_place(&section, "spans"),
            sw_config_format(c, "'spans' must ascend from link to link: %d comes after %d",
                             (int)link->spans, (int)link[-1].spans),
            "write the links innermost first");
        good = false;
    }
    return good;
}

static void write_links(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_cluster_config *cluster = base;
    if (cluster->link_count == 0) {
        w->value(w, field->key, "[]", STYLE_BARE);
        return;
    }
    w->open(w, field->key);
    for (int32_t i = 0; i < cluster->link_count; i++) {
        w->open_item(w, cluster->link[i].name);
        sw_config_write_fields(w, field->fields, &cluster->link[i]);
        w->close(w);
    }
    w->close(w);
}

static void schema_links(struct sw_json *j, const struct field *field)
{
    sw_json_text(j, "type", "array");
    sw_json_integer(j, "maxItems", SW_MAX_LINKS);
    sw_json_object(j, "items");
    sw_json_array(j, "allOf");
    sw_config_schema_object(j, NULL, false, field->fields);
    sw_json_end(j);
    sw_json_array(j, "oneOf");
    for (int32_t i = 0; i < 2; i++) {
        sw_json_inline(j, NULL);
        sw_json_array(j, "required");
        sw_json_text(j, NULL, i == 0 ? "bandwidth" : "bandwidth_per_node");
        sw_json_end(j);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
}

const struct field_type sw_type_links = {read_links, write_links, schema_links, INSIDE_ITEMS, NULL};

/* Reads the mesh axes of one rule: a list of strings, one text, or nothing. */
static bool read_axes(struct sw_config *c, struct node *value, struct sw_rule_config *rule)
{
    static const char *const axes[] = {"dp", "fsdp", "tp", "sp"};
    if (sw_node_is_null(value))
        return true;
    if (value->kind == NODE_BROKEN)
        return false;
    bool good = true, is_list = value->kind == NODE_SEQUENCE;
    for (const struct node *item = is_list ? value->first : value; item != NULL;
         item = is_list ? item->next : NULL) {
        int32_t axis = 0;
        while (axis < 4 && (item->kind != NODE_SCALAR || strcmp(item->text, axes[axis]) != 0))
            axis++;
        const char *message = NULL;
        if (axis == 4 && item->kind == NODE_SCALAR)
            message = sw_config_format(c, "unknown mesh axis %s", sw_config_quote(c, item->text));
        else if (axis == 4)
            message = sw_config_format(c, "a mesh axis must be a string, not %s",
                                       sw_node_describe(c, item));
        for (int32_t i = 0; message == NULL && i < rule->count; i++)
            if (rule->axis[i] == axes[axis])
                message = sw_config_format(c, "the mesh axis '%s' appears twice", axes[axis]);
        if (message == NULL) {
            rule->axis[rule->count++] = axes[axis];
            continue;
        }
        if (item->kind != NODE_BROKEN)
            sw_config_error_at(c, item, message, "mesh axes: dp, fsdp, tp, sp, each at most once");
        good = false;
    }
    return good;
}

static bool read_rules(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_run_config *run = base;
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
    if (value->count > SW_MAX_RULES)
        return complain(c, value, field,
                        sw_config_format(c, "%d rules; at most %d are allowed", (int)value->count,
                                         SW_MAX_RULES));
    bool good = true;
    for (struct node *item = value->first; item != NULL; item = item->next) {
        const struct node *key = item->key;
        if (key->kind == NODE_BROKEN) {
            good = false;
            continue;
        }
        if (!sw_text_is_name(key->text)) {
            sw_config_error_at(c, key,
                               sw_config_format(c, "%s is not the name of a logical axis",
                                                sw_config_quote(c, key->text)),
                               sw_config_example(c, field));
            good = false;
            continue;
        }
        struct sw_rule_config *rule = &run->rule[run->rule_count++];
        *rule = (struct sw_rule_config){
            .logical = key->text,
            .place = {.file = key->source->file, .line = key->line, .column = key->column}};
        good = read_axes(c, item, rule) && good;
    }
    return good;
}

static void write_rules(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_run_config *run = base;
    if (run->rule_count == 0) {
        w->value(w, field->key, "{}", STYLE_BARE);
        return;
    }
    w->open(w, field->key);
    for (int32_t i = 0; i < run->rule_count; i++) {
        const struct sw_rule_config *rule = &run->rule[i];
        char text[64];
        size_t used = (size_t)snprintf(text, sizeof text, "[");
        for (int32_t j = 0; j < rule->count; j++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", j > 0 ? ", " : "",
                                     rule->axis[j]);
        snprintf(text + used, sizeof text - used, "]");
        w->value(w, rule->logical, text, STYLE_BARE);
    }
    w->close(w);
}

const struct field_type sw_type_rules = {read_rules, write_rules, NULL, INSIDE_ANY_KEY, NULL};

static bool read_betas(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_optimizer_config *optimizer = base;
    double beta1, beta2;
    if (!read_pair(value, &beta1, &beta2))
        return sw_config_wrong_type(c, field, value,
                                    value->kind == NODE_SEQUENCE ? "two numbers"
                                                                 : "a list of two numbers");
    bool good = true;
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        double beta = item == value->first ? beta1 : beta2;
        if (beta >= 0 && beta < 1)
            continue;
        good = complain(c, item, field,
                        sw_config_format(c, "a beta must be at least 0 and less than 1, not %s",
                                         sw_config_shown(c, item->text)));
    }
    optimizer->beta1 = beta1;
    optimizer->beta2 = beta2;
    return good;
}

static void write_betas(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_optimizer_config *optimizer = base;
    char text[80], beta1[32], beta2[32];
    snprintf(text, sizeof text, "[%s, %s]", sw_real_format(optimizer->beta1, beta1),
             sw_real_format(optimizer->beta2, beta2));
    w->value(w, field->key, text, STYLE_BARE);
}

const struct field_type sw_type_betas = {read_betas, write_betas, NULL, INSIDE_NOTHING, NULL};

static bool read_reference(struct sw_config *c, const struct field *field, struct node *value,
                           void *base)
{
    void *out = (char *)base + field->offset;
    struct node *root = sw_config_follow(c, field, value);
    return root != NULL && c->hooks->is_kind(c, root, value, field->kind) &&
           c->hooks->describe(c, field->kind, root, out);
}

static void write_reference(struct writer *w, const struct field *field, const void *base)
{
    w->open(w, field->key);
    sw_config_write_fields(w, field->described, (const char *)base + field->offset);
    w->close(w);
}

static void schema_reference(struct sw_json *j, const struct field *field)
{
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", "string");
    sw_json_end(j);
    sw_config_schema_object(j, NULL, field->kind == SW_CONFIG_MODEL, field->described);
    sw_json_end(j);
}

const struct field_type sw_type_reference = {read_reference, write_reference, schema_reference,
                                             INSIDE_DESCRIPTION, NULL};
