/* A diff as JSON, schema shardwright.diff/1. */
#include "planner/diff/diff.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* cJSON's adders return NULL when memory runs out; this notes it once for a whole document. */
static void number(cJSON *object, const char *key, double value, bool *ok)
{
    *ok = cJSON_AddNumberToObject(object, key, value) != NULL && *ok;
}

static void string(cJSON *object, const char *key, const char *value, bool *ok)
{
    cJSON *added = value == NULL ? cJSON_AddNullToObject(object, key)
                                 : cJSON_AddStringToObject(object, key, value);
    *ok = added != NULL && *ok;
}

static void item(cJSON *object, const char *key, cJSON *value, bool *ok)
{
    if (value == NULL || !cJSON_AddItemToObject(object, key, value)) {
        cJSON_Delete(value);
        *ok = false;
    }
}

static void element(cJSON *array, cJSON *value, bool *ok)
{
    if (value == NULL || !cJSON_AddItemToArray(array, value)) {
        cJSON_Delete(value);
        *ok = false;
    }
}

/* null: there is none, or nothing fits. */
static cJSON *side_object(const struct sw_diff_side *side, bool *ok)
{
    char mesh[64];
    if (side->run == NULL)
        return cJSON_CreateNull();
    cJSON *object = cJSON_CreateObject();
    *ok = cJSON_AddBoolToObject(object, "fits", side->fits) != NULL && *ok;
    string(object, "why_not", side->fits ? NULL : side->why_not, ok);
    if (!side->fits)
        return object;
    string(object, "mesh_dim", sw_mesh_format(&side->chosen.decision.mesh, mesh, sizeof mesh), ok);
    for (int32_t m = 0; m < SW_MEASURE_COUNT; m++)
        number(object, sw_measure_name((enum sw_measure)m), side->measures.value[m], ok);
    return object;
}

static cJSON *changes_array(const struct sw_setting_change *change, int32_t count, bool *ok)
{
    cJSON *array = cJSON_CreateArray();
    for (int32_t i = 0; i < count; i++) {
        cJSON *one = cJSON_CreateObject();
        string(one, "key", sw_diff_key(change[i].key), ok);
        string(one, "old", change[i].old_value, ok);
        string(one, "new", change[i].new_value, ok);
        element(array, one, ok);
    }
    return array;
}

static cJSON *amount_object(const struct sw_traffic *t, bool *ok)
{
    if (t == NULL)
        return cJSON_CreateNull();
    cJSON *object = cJSON_CreateObject();
    number(object, "calls", t->calls, ok);
    number(object, "bytes", round(t->bytes), ok);
    return object;
}

static cJSON *traffic_array(const struct sw_diff_file *f, bool *ok)
{
    char axes[64];
    cJSON *array = cJSON_CreateArray();
    for (int32_t i = 0; i < f->traffic_count; i++) {
        const struct sw_diff_traffic_change *t = &f->traffic[i];
        const struct sw_traffic *any = t->after != NULL ? t->after : t->before;
        cJSON *one = cJSON_CreateObject();
        string(one, "kind", sw_op_info(any->kind)->name, ok);
        string(one, "axes", sw_axes_format(any->axes, axes, sizeof axes), ok);
        string(one, "change",
               t->before == NULL  ? "added"
               : t->after == NULL ? "removed"
                                  : "changed",
               ok);
        item(one, "old", amount_object(t->before, ok), ok);
        item(one, "new", amount_object(t->after, ok), ok);
        element(array, one, ok);
    }
    return array;
}

static cJSON *meshes_array(const struct sw_diff_mesh_change *mesh, int32_t count, bool fitting,
                           bool *ok)
{
    cJSON *array = cJSON_CreateArray();
    for (int32_t i = 0; i < count; i++) {
        const struct sw_diff_verdict *v = fitting ? mesh[i].before : mesh[i].after;
        char text[64];
        snprintf(text, sizeof text, "%d,%d,%d,%d", v->size[0], v->size[1], v->size[2], v->size[3]);
        cJSON *one = cJSON_CreateObject();
        string(one, "mesh_dim", text, ok);
        string(one, "reason", sw_reject_name(v->reason), ok);
        string(one, "detail", v->detail, ok);
        element(array, one, ok);
    }
    return array;
}

static cJSON *meshes_object(const struct sw_diff_file *f, bool *ok)
{
    cJSON *object = cJSON_CreateObject();
    number(object, "old_fit", f->before.fit_count, ok);
    number(object, "new_fit", f->after.fit_count, ok);
    item(object, "rejected", meshes_array(f->mesh, f->rejected_count, false, ok), ok);
    item(object, "fitting", meshes_array(f->mesh + f->rejected_count, f->fitting_count, true, ok),
         ok);
    return object;
}

static cJSON *outcomes_array(const struct sw_diff_file *f, bool *ok)
{
    cJSON *array = cJSON_CreateArray();
    for (int32_t i = 0; i < f->outcome_count; i++) {
        cJSON *one = cJSON_CreateObject();
        string(one, "name", f->outcome[i].condition->name, ok);
        string(one, "condition", f->outcome[i].condition->text, ok);
        string(one, "result", sw_fail_if_verdict_name(f->outcome[i].verdict), ok);
        string(one, "detail", f->outcome[i].detail, ok);
        element(array, one, ok);
    }
    return array;
}

static cJSON *file_object(const struct sw_diff_file *f, bool *ok)
{
    cJSON *object = cJSON_CreateObject();
    string(object, "path", f->path, ok);
    string(object, "status", sw_diff_status_name(f->status), ok);
    string(object, "headline", f->headline, ok);
    item(object, "old", side_object(&f->before, ok), ok);
    item(object, "new", side_object(&f->after, ok), ok);
    item(object, "settings", changes_array(f->setting, f->setting_count, ok), ok);
    item(object, "decision", changes_array(f->choice, f->choice_count, ok), ok);
    item(object, "collectives", traffic_array(f, ok), ok);
    item(object, "meshes", f->mesh == NULL ? cJSON_CreateNull() : meshes_object(f, ok), ok);
    item(object, "fail_if", outcomes_array(f, ok), ok);
    return object;
}

int sw_diff_print_json(FILE *out, const struct sw_diff *diff, struct sw_error *err)
{
    bool ok = true;
    const bool differs = diff->changed + diff->added + diff->removed > 0;
    cJSON *root = cJSON_CreateObject();
    string(root, "schema", "shardwright.diff/1", &ok);
    ok = cJSON_AddBoolToObject(root, "differs", differs) != NULL && ok;
    string(root, "headline", diff->headline, &ok);
    number(root, "changed", diff->changed, &ok);
    number(root, "added", diff->added, &ok);
    number(root, "removed", diff->removed, &ok);
    number(root, "failed", diff->failed, &ok);
    cJSON *files = cJSON_CreateArray();
    for (int32_t i = 0; i < diff->count; i++)
        if (sw_diff_is_shown(diff->file[i]) || diff->file[i]->outcome_count > 0)
            element(files, file_object(diff->file[i], &ok), &ok);
    item(root, "files", files, &ok);
    char *text = ok && root != NULL ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    if (text == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing JSON");
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    return 0;
}
