/* Tables of a cluster, a run and a plan with launchers' sections inserted. */
#include "core/config/launcher.h"

#include "core/config/internal.h"

#include <assert.h>
#include <string.h>

/* ---- Offsets of settings ---- */

size_t sw_launcher_offset(const struct sw_launchers *launchers, const struct sw_launcher *row)
{
    const size_t whole = _Alignof(max_align_t);
    size_t offset = 0;
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++) {
        if (launchers->row[i] == row)
            return offset;
        offset += (launchers->row[i]->bytes + whole - 1) / whole * whole;
    }
    return 0;
}

const void *sw_cluster_settings(const struct sw_cluster_config *cluster,
                                const struct sw_launcher *row)
{
    return cluster->settings.bytes + sw_launcher_offset(cluster->launchers, row);
}

const char *sw_cluster_fabric_path(const struct sw_cluster_config *cluster)
{
    const struct sw_launchers *launchers = cluster->launchers;
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++) {
        const unsigned char *settings = sw_cluster_settings(cluster, launchers->row[i]);
        for (const struct field *f = launchers->row[i]->fields; f != NULL && f->key != NULL; f++) {
            struct sw_fabric_config fabric = {0};
            if (f->custom == &sw_type_fabric)
                memcpy(&fabric, settings + f->offset, sizeof fabric);
            if (fabric.path != NULL)
                return fabric.path;
        }
    }
    return NULL;
}

const struct node *sw_launcher_time(const struct sw_cluster_config *cluster,
                                    const struct node *root)
{
    const struct sw_launchers *launchers = cluster->launchers;
    if (launchers == NULL)
        return NULL;
    const struct sw_launcher *row = launchers->row[cluster->launcher];
    for (int32_t i = 0; row->time == NULL && launchers->row[i] != NULL; i++)
        row = launchers->row[i];
    return row->time != NULL ? sw_node_find(sw_node_find(root, row->key), row->time) : NULL;
}

const char *sw_launcher_key_with(const struct sw_launchers *launchers,
                                 const struct field_type *type)
{
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++)
        for (const struct field *f = launchers->row[i]->fields; f != NULL && f->key != NULL; f++)
            if (f->custom == type)
                return launchers->row[i]->key;
    return "";
}

/* ---- Tables ---- */

enum unknown_keys sw_unknown_settings(const struct sw_config *c)
{
    return c->keys->launchers == NULL ? UNKNOWN_MAPPINGS : UNKNOWN_ERROR;
}

/* Inserts sections in place of the row that holds them. Returns their number. */
static int32_t insert_sections(struct field *out, const struct field *section,
                               const struct sw_launchers *launchers)
{
    int32_t count = 0;
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++) {
        const struct sw_launcher *row = launchers->row[i];
        if (row->key == NULL)
            continue;
        const size_t offset = sw_launcher_offset(launchers, row);
        assert(offset + row->bytes <= SW_SETTINGS_BYTES);
        out[count] = *section;
        out[count].key = row->key;
        out[count].type = FIELD_SECTION;
        out[count].offset += offset;
        out[count].fields = row->fields;
        out[count].example = section->elsewhere ? row->example_in_run : "{}";
        out[count++].about = section->elsewhere ? row->about_in_run : row->about;
    }
    return count;
}

static void copy_table(struct field out[MAX_FIELDS + 1], const struct field *fields,
                       const struct tables *tables, const struct sw_launchers *launchers)
{
    int32_t count = 0;
    for (; fields->key != NULL; fields++) {
        assert(count + SW_MAX_LAUNCHERS < MAX_FIELDS);
        if (fields->type == FIELD_SETTINGS) {
            count += insert_sections(&out[count], fields, launchers);
            continue;
        }
        struct field *field = &out[count++];
        *field = *fields;
        if (field->custom != NULL && field->custom->inside == INSIDE_DESCRIPTION &&
            (field->kind == SW_CONFIG_CLUSTER || field->kind == SW_CONFIG_RUN))
            field->described = sw_tables_of(tables, field->kind);
        if (strcmp(field->key, "launcher") != 0)
            continue;
        if (launchers == NULL) { /* any word, since none is compared */
            field->type = FIELD_TEXT;
            field->offset = FIELD_NOWHERE;
            continue;
        }
        field->words = tables->words;
        field->fallback = field->example = tables->words[0];
        field->about = launchers->about;
    }
    out[count] = (struct field){.key = NULL};
}

void sw_tables_make(struct tables *out, const struct sw_launchers *launchers)
{
    memset(out->words, 0, sizeof out->words);
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++)
        out->words[i] = launchers->row[i]->name;
    copy_table(out->cluster, sw_cluster_fields, out, launchers);
    copy_table(out->run, sw_run_fields, out, launchers);
    sw_stages_make_table(out->stage, out->run);
    for (struct field *field = out->run; field->key != NULL; field++)
        if (field->custom == &sw_type_stages)
            field->fields = out->stage;
    copy_table(out->plan, sw_plan_fields, out, launchers);
}

static const struct field *fields_of(enum sw_config_kind kind)
{
    switch (kind) {
    case SW_CONFIG_MODEL:
        return sw_model_fields;
    case SW_CONFIG_ACCELERATOR:
        return sw_accelerator_fields;
    case SW_CONFIG_CLUSTER:
        return sw_cluster_fields;
    case SW_CONFIG_RUN:
        return sw_run_fields;
    case SW_CONFIG_PLAN:
        return sw_plan_fields;
    case SW_CONFIG_PROFILE:
        return sw_profile_fields;
    case SW_CONFIG_CURVE:
        return sw_curve_fields;
    case SW_CONFIG_FABRIC:
        return sw_fabric_fields;
    default:
        return NULL;
    }
}

const struct field *sw_tables_of(const struct tables *tables, enum sw_config_kind kind)
{
    return kind == SW_CONFIG_CLUSTER ? tables->cluster
           : kind == SW_CONFIG_RUN   ? tables->run
           : kind == SW_CONFIG_PLAN  ? tables->plan
                                     : fields_of(kind);
}

/* ---- Values that null clears ---- */

static void clear(const struct field *field, void *base)
{
    const size_t bytes = field->type == FIELD_TEXT ? sizeof(char *)
                         : field->type == FIELD_WORD || field->type == FIELD_INTEGER32
                             ? sizeof(int32_t)
                         : field->custom == &sw_type_environment ? sizeof(struct sw_environment)
                         : field->custom == &sw_type_fabric      ? sizeof(struct sw_fabric_config)
                         : field->type == FIELD_CUSTOM           ? sizeof(struct sw_texts)
                                                                 : 0;
    for (const struct field *f = field->fields; f != NULL && f->key != NULL; f++)
        clear(f, (char *)base + field->offset);
    if (field->offset != FIELD_NOWHERE)
        memset((char *)base + field->offset, 0, bytes);
}

void sw_launcher_clear(const struct sw_launchers *launchers, const struct field *fields,
                       const struct field *field, void *base)
{
    for (int32_t i = 0; launchers != NULL && launchers->row[i] != NULL; i++) {
        const struct sw_launcher *row = launchers->row[i];
        bool is_its = row->fields != NULL && fields == row->fields;
        for (const struct field *f = row->fields; f != NULL && f->key != NULL; f++)
            is_its = is_its || (f->fields != NULL && f->fields == fields);
        /* a cluster's time is a ceiling: a run that derives its own from its steps says null, and
         * keeps the ceiling */
        if (is_its && (row->time == NULL || strcmp(field->key, row->time) != 0))
            clear(field, base);
    }
}
