/* What `plan explain --json` tells beyond the mesh itself. Times in s, memory in bytes of a rank.
 */
#include "planner/explain/data.h"

static void number(cJSON *object, const char *key, double value, bool *ok)
{
    *ok = cJSON_AddNumberToObject(object, key, value) != NULL && *ok;
}

static void string(cJSON *object, const char *key, const char *value, bool *ok)
{
    *ok = cJSON_AddStringToObject(object, key, value) != NULL && *ok;
}

/* A new object at the end of an array, NULL without memory. */
static cJSON *append(cJSON *array, bool *ok)
{
    cJSON *object = cJSON_CreateObject();
    if (object != NULL && cJSON_AddItemToArray(array, object))
        return object;
    cJSON_Delete(object);
    *ok = false;
    return NULL;
}

static cJSON *new_array(cJSON *object, const char *key, bool *ok)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    *ok = array != NULL && *ok;
    return array;
}

static void add_kinds(cJSON *object, const int64_t bytes[SW_MEMORY_KIND_COUNT], bool *ok)
{
    for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
        number(object, sw_memory_kind_name((enum sw_memory_kind)k), (double)bytes[k], ok);
}

static void add_layer(cJSON *array, const char *name, int32_t count,
                      const struct sw_layer_memory *m, bool *ok)
{
    cJSON *object = append(array, ok);
    string(object, "name", name, ok);
    number(object, "count", count, ok);
    number(object, "parameters", (double)m->parameters, ok);
    number(object, "gradients", (double)m->gradients, ok);
    number(object, "optimizer", (double)m->optimizer, ok);
    number(object, "saved", (double)m->saved, ok);
}

static void add_memory(cJSON *root, const struct sw_explain *x, bool *ok)
{
    const struct sw_memory_profile *m = &x->memory;
    cJSON *memory = cJSON_AddObjectToObject(root, "memory_profile");
    number(memory, "peak", (double)m->peak_bytes, ok);
    number(memory, "peak_op", m->peak_op, ok);
    number(memory, "arena", (double)m->arena_bytes, ok);
    number(memory, "between_buffers", (double)m->lost_bytes, ok);
    add_kinds(cJSON_AddObjectToObject(memory, "at_peak"), m->at_peak, ok);
    add_kinds(cJSON_AddObjectToObject(memory, "most"), m->most, ok);
    cJSON *layers = new_array(memory, "by_layer", ok);
    add_layer(layers, "layer", m->layers, &m->layer, ok);
    add_layer(layers, "embedding, head, rest", 1, &m->outside, ok);
    cJSON *over = new_array(memory, "over_step", ok);
    for (int32_t r = 0; r < x->program->region_count; r++) {
        const struct sw_region *region = &x->program->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            cJSON *object = append(over, ok);
            string(object, "region", region->name, ok);
            string(object, "op", sw_op_info((enum sw_op_kind)x->program->ops[i].kind)->name, ok);
            number(object, "total", (double)m->live_total[i], ok);
            add_kinds(object, &m->live[(int64_t)i * SW_MEMORY_KIND_COUNT], ok);
        }
    }
}

static void add_window(cJSON *root, const char *key, const struct sw_explain *x,
                       const struct sw_window *w, bool *ok)
{
    static const char *const streams[] = {"compute", "communication", "wait"};
    if (w->region < 0)
        return;
    cJSON *object = cJSON_AddObjectToObject(root, key);
    string(object, "region", x->program->regions[w->region].name, ok);
    number(object, "seconds", w->end - w->start, ok);
    number(object, "compute_seconds", w->compute_seconds, ok);
    number(object, "communication_seconds", w->communication_seconds, ok);
    number(object, "waiting_seconds", w->waiting_seconds, ok);
    cJSON *events = new_array(object, "events", ok);
    for (int32_t i = 0; i < x->timeline.count; i++) {
        const struct sw_cost_event *e = &x->timeline.event[i];
        char axes[64];
        if (e->end <= w->start || e->start >= w->end || e->end <= e->start)
            continue;
        const struct sw_op *op = &x->program->ops[e->op];
        cJSON *event = append(events, ok);
        string(event, "stream", streams[e->stream], ok);
        string(event, "op", sw_op_info((enum sw_op_kind)op->kind)->name, ok);
        if (e->stream == SW_STREAM_COMMUNICATION)
            string(
                event, "axes",
                sw_axes_format(sw_axes_effective(&x->program->mesh, op->axes), axes, sizeof axes),
                ok);
        number(event, "start", e->start - w->start, ok);
        number(event, "end", e->end - w->start, ok);
    }
}

static void add_times(cJSON *root, const struct sw_explain *x, bool *ok)
{
    cJSON *ops = new_array(root, "ops", ok);
    for (int32_t i = 0; i < x->kind_count; i++) {
        cJSON *object = append(ops, ok);
        string(object, "kind", sw_op_info(x->kind[i].kind)->name, ok);
        number(object, "calls", x->kind[i].calls, ok);
        number(object, "seconds", x->kind[i].seconds, ok);
        number(object, "recompute_seconds", x->kind[i].again_seconds, ok);
    }
    number(root, "slowed_seconds", x->slowed_seconds, ok);
}

static void add_axes(cJSON *root, const struct sw_explain *x, bool *ok)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    cJSON *axes = new_array(root, "axes", ok);
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = x->program->mesh.order[i];
        const struct sw_placement *p = &x->placement[axis];
        cJSON *object = append(axes, ok);
        string(object, "axis", sw_axis_name((enum sw_axis)axis), ok);
        number(object, "size", p->size, ok);
        number(object, "stride", p->stride, ok);
        number(object, "ranks_per_node", p->per_node, ok);
        number(object, "nodes", p->nodes, ok);
        string(object, "link", p->link >= 0 ? cluster->link[p->link].name : "", ok);
        number(object, "bandwidth", p->link >= 0 ? cluster->link[p->link].bandwidth : 0, ok);
        number(object, "communication_seconds", x->axis[axis].total_seconds, ok);
        number(object, "exposed_seconds", x->axis[axis].exposed_seconds, ok);
        number(object, "hidden_seconds", x->axis[axis].hidden_seconds, ok);
    }
}

static void add_choices(cJSON *root, const struct sw_explain *x, bool *ok)
{
    cJSON *choices = new_array(root, "choices", ok);
    for (int32_t i = 0; i < x->choice_count; i++) {
        const struct sw_choice *c = &x->choice[i];
        cJSON *object = append(choices, ok);
        string(object, "choice", c->name, ok);
        string(object, "chosen", c->chosen, ok);
        string(object, "other", c->other, ok);
        string(object, "why", c->why, ok);
        string(object, "reason", sw_reject_name(c->reason), ok);
        number(object, "step_seconds", c->step_seconds, ok);
        number(object, "memory", (double)c->total_bytes, ok);
    }
}

void sw_explain_json(cJSON *root, const struct sw_explain *x, bool rejected, bool *ok)
{
    char mesh[64];
    add_memory(root, x, ok);
    add_times(root, x, ok);
    add_axes(root, x, ok);
    cJSON *timeline = cJSON_AddObjectToObject(root, "timeline");
    add_window(timeline, "forward_layer", x, &x->forward, ok);
    add_window(timeline, "backward_layer", x, &x->backward, ok);
    add_choices(root, x, ok);
    if (!rejected)
        return;
    cJSON *array = new_array(root, "rejected", ok);
    for (int32_t i = x->all->feasible; i < x->all->count; i++) {
        const struct sw_candidate *c = &x->all->mesh[i];
        cJSON *object = append(array, ok);
        string(object, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), ok);
        string(object, "reason", sw_reject_name(c->reason), ok);
        string(object, "detail", c->detail, ok);
        string(object, "help", c->help, ok);
    }
}
