/* `stages` of a run: each stage is the run's own mapping with the stage's keys replaced. Only the
 * tree knows of stages: all reading, checks and reports of a run apply to a stage, at the lines of
 * its values. */
#include "core/base/file.h"
#include "core/config/internal.h"

#include <string.h>

/* Keys of a run that stages may set; the others belong to the run as a whole. */
static const char *const run_keys[] = {"sequence_length",
                                       "global_batch_size",
                                       "mesh_dim",
                                       "nodes",
                                       "micro_batch_size",
                                       "recompute",
                                       "attention",
                                       "rules",
                                       "zero",
                                       "reshard_after_forward",
                                       "optimizer",
                                       "data",
                                       "prefer",
                                       "prefer_within",
                                       "memory_headroom",
                                       "checkpoint",
                                       "evaluate"};
/* Keys of its model that stages may set. */
static const char *const model_keys[] = {"rope_theta", "rope_scaling", "rope_parameters",
                                         "max_position_embeddings"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct field own_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     .offset = offsetof(struct sw_stage_made, name),
     .accept = sw_text_is_stage,
     .expects = SW_STAGE_EXPECTS,
     .example = "long",
     .about = "name of the stage and of its folder in the run's; default: stage1, stage2 ..."},
    {.key = "continue_schedule",
     .type = FIELD_BOOL,
     .offset = offsetof(struct sw_stage_made, continue_schedule),
     .fallback = "false",
     .example = "true",
     .about = "whether step count, learning rate and data position go on where the stage before "
              "ended, so that total_steps counts from its beginning; else they begin anew"},
};

/* ---- The table ---- */

void sw_stages_make_table(struct field out[MAX_FIELDS + 1], const struct field *run)
{
    int32_t count = 0;
    memset(out, 0, (MAX_FIELDS + 1) * sizeof *out);
    for (size_t i = 0; i < COUNT(own_fields); i++)
        out[count++] = own_fields[i];
    for (size_t i = 0; i < COUNT(run_keys) + COUNT(model_keys); i++) {
        const bool of_run = i < COUNT(run_keys);
        struct field *row = &out[count];
        *row = of_run ? *sw_field_find(run, run_keys[i])
                      : *sw_field_find(sw_model_fields, model_keys[i - COUNT(run_keys)]);
        row->required = false;
        count++;
    }
}

void sw_stages_write_reference(FILE *out)
{
    fputs(
        "Each stage is the run with these keys in the place of the run's own; a section is merged "
        "with the run's key by key.\n\n",
        out);
    for (size_t i = 0; i < COUNT(own_fields); i++)
        fprintf(out, "* `%s`: %s\n", own_fields[i].key, own_fields[i].about);
    fputs("* as of the run:", out);
    for (size_t i = 0; i < COUNT(run_keys); i++)
        fprintf(out, "%s `%s`", i > 0 ? "," : "", run_keys[i]);
    fputs("\n* as of its [model](model.md):", out);
    for (size_t i = 0; i < COUNT(model_keys); i++)
        fprintf(out, "%s `%s`", i > 0 ? "," : "", model_keys[i]);
    fputc('\n', out);
}

static void write_schema(struct sw_json *j, const struct field *field)
{
    sw_json_text(j, "type", "array");
    sw_json_integer(j, "maxItems", SW_MAX_STAGES);
    sw_json_object(j, "items");
    sw_json_array(j, "allOf");
    sw_config_schema_object(j, NULL, false, field->fields);
    sw_json_end(j);
    sw_json_end(j);
}

static bool refuse(struct sw_config *c, const struct field *field, struct node *value, void *base)
{
    (void)field;
    (void)base;
    sw_config_error_at(c, value, "'stages' belongs in a run file; a plan is of one stage",
                       "write the plans again with 'plan emit RUN.yaml'");
    return false;
}

const struct field_type sw_type_stages = {refuse, NULL, write_schema, INSIDE_ITEMS, NULL};

/* ---- Trees ---- */

/* Replaces one entry of a mapping by another with its key. */
static void put(struct node *there, const struct node *entry)
{
    struct node *next = there->next;
    *there = *entry;
    there->next = next;
}

/* Replaces entries of `into` by those of `from`; sections are merged key by key. */
static void merge(struct node *into, const struct node *from, const struct field *fields)
{
    struct node *next;
    for (struct node *entry = from->first; entry != NULL; entry = next) {
        next = entry->next;
        const struct field *field = sw_field_find(fields, entry->key->text);
        struct node *there = sw_node_find(into, entry->key->text);
        const bool section = field != NULL && field->type == FIELD_SECTION;
        if (there == NULL)
            sw_node_append(into, entry);
        else if (section && there->kind == NODE_MAPPING && entry->kind == NODE_MAPPING)
            merge(there, entry, field->fields);
        else
            put(there, entry);
    }
}

static void take_out(struct node *map, const char *key)
{
    struct node *before = NULL;
    for (struct node *entry = map->first; entry != NULL; before = entry, entry = entry->next) {
        if (strcmp(entry->key->text, key) != 0)
            continue;
        if (before != NULL)
            before->next = entry->next;
        else
            map->first = entry->next;
        if (map->last == entry)
            map->last = before;
        map->count--;
        return;
    }
}

/* Makes a value override the model's file everywhere, as --set does. */
static void set_over(struct node *value, const struct source *source)
{
    value->source = source;
    for (struct node *inside = value->first; inside != NULL; inside = inside->next)
        set_over(inside, source);
}

/* Puts the stage's keys of the model into the model's own mapping. */
static void change_model(struct sw_config *c, struct node *root, struct node *map)
{
    struct node *model = sw_node_find(root, "model");
    struct source *over = NULL;
    for (size_t i = 0; i < COUNT(model_keys); i++) {
        struct node *value = sw_node_find(map, model_keys[i]);
        if (value == NULL)
            continue;
        struct node *copy = sw_config_alloc(c, sizeof *copy);
        if (over == NULL && (over = sw_config_alloc(c, sizeof *over)) != NULL) {
            *over = *value->source;
            over->is_override = true;
        }
        if (copy == NULL || over == NULL)
            return;
        *copy = *value;
        take_out(map, model_keys[i]);
        struct node *followed =
            model == NULL || model->kind == NODE_BROKEN
                ? NULL
                : sw_config_follow(c, sw_field_find(sw_run_fields, "model"), model);
        if (followed == NULL || followed->kind != NODE_MAPPING) {
            if (model != NULL)
                model->kind = NODE_BROKEN;
            continue;
        }
        if (followed != model) {
            const struct node *key = model->key;
            struct node *next = model->next;
            *model = *followed;
            model->key = key;
            model->next = next;
        }
        set_over(copy, over);
        struct node *there = sw_node_find(model, model_keys[i]);
        if (there != NULL)
            put(there, copy);
        else
            sw_node_append(model, copy);
    }
}

/* ---- The list ---- */

/* Text of an item's name; NULL: none that can be read. */
static const char *name_of(const struct node *item)
{
    const struct node *name = sw_node_find(item, "name");
    return name != NULL && name->kind == NODE_SCALAR ? name->text : NULL;
}

void sw_stages_name(struct sw_config *c, struct node *root)
{
    const struct node *list = root->kind == NODE_MAPPING ? sw_node_find(root, "stages") : NULL;
    int32_t number = 0;
    for (struct node *item = list != NULL && list->kind == NODE_SEQUENCE ? list->first : NULL;
         item != NULL; item = item->next) {
        number++;
        if (item->kind != NODE_MAPPING || sw_node_find(item, "name") != NULL)
            continue;
        struct node *key = sw_config_alloc(c, sizeof *key), *name = sw_config_alloc(c, sizeof *key);
        if (key == NULL || name == NULL)
            return;
        *key = (struct node){.kind = NODE_SCALAR,
                             .plain = true,
                             .source = item->source,
                             .line = item->line,
                             .column = item->column,
                             .text = "name"};
        *name = *key;
        name->text = sw_config_format(c, "stage%d", (int)number);
        name->key = key;
        sw_node_append(item, name);
    }
}

/* Reports a key that stages may not set: a key of the whole run, or unknown. */
static void refuse_key(struct sw_config *c, const struct node *entry)
{
    const struct field *fields = c->keys->tables->stage;
    const char *key = entry->key->text, *quoted = sw_config_quote(c, key), *list = "";
    if (sw_field_find(c->keys->tables->run, key) != NULL && strcmp(key, "stages") != 0) {
        sw_config_error_at(
            c, entry->key,
            sw_config_format(c, "%s is the same in all stages of a run; a stage cannot set it",
                             quoted),
            "write it outside of 'stages'");
        return;
    }
    const struct field *near = sw_field_meant(c, fields, key, NULL);
    for (const struct field *f = fields; f->key != NULL; f++)
        list = sw_config_format(c, "%s%s%s", list, f > fields ? ", " : "", f->key);
    if (near != NULL)
        sw_config_error_at(
            c, entry->key,
            sw_config_format(c, "unknown key %s; did you mean '%s'?", quoted, near->key), NULL);
    else
        sw_config_error_at(c, entry->key, sw_config_format(c, "unknown key %s of a stage", quoted),
                           sw_config_format(c, "known keys: %s", list));
}

/* Reports mistakes in an item's structure, and removes it; its values are checked when read as the
 * run's. */
static bool check_item(struct sw_config *c, const struct field *field, struct node *item)
{
    struct node *next;
    if (item->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, item, "a list of mappings");
    for (struct node *entry = item->first; entry != NULL; entry = next) {
        next = entry->next;
        if (sw_field_find(c->keys->tables->stage, entry->key->text) != NULL)
            continue;
        refuse_key(c, entry);
        take_out(item, entry->key->text);
    }
    struct node *checkpoint = sw_node_find(item, "checkpoint");
    const struct node *directory =
        checkpoint != NULL ? sw_node_find(checkpoint, "directory") : NULL;
    if (directory != NULL) {
        sw_config_error_at(c, directory->key,
                           "'checkpoint.directory' is the same in all stages of a run: each has a "
                           "folder of its name in it",
                           "write it outside of 'stages'");
        take_out(checkpoint, "directory");
    }
    return true;
}

/* Checks that names, which become folders and files, are unique. */
static void check_names(struct sw_config *c, const struct node *list)
{
    for (const struct node *item = list->first; item != NULL; item = item->next) {
        const char *name = name_of(item);
        for (const struct node *other = list->first; name != NULL && other != item;
             other = other->next) {
            if (name_of(other) == NULL || strcmp(name_of(other), name) != 0)
                continue;
            sw_config_error_at(c, sw_node_find(item, "name"),
                               sw_config_format(c,
                                                "two stages have the name %s, the first in line "
                                                "%d",
                                                sw_config_quote(c, name), (int)other->line),
                               "give each a name of its own, which is that of its folder");
            break;
        }
    }
}

/* The list if it can be read; NULL: reported, or absent. */
static struct node *check_list(struct sw_config *c, const struct node *root)
{
    const struct field *field = sw_field_find(c->keys->tables->run, "stages");
    struct node *list = sw_node_find(root, "stages");
    const struct node *stage = sw_node_find(root, "stage");
    bool good = true;
    if (list == NULL || sw_node_is_null(list) || list->kind == NODE_BROKEN)
        return NULL;
    if (list->kind != NODE_SEQUENCE) {
        (void)sw_config_wrong_type(c, field, list, "a list of mappings");
        return NULL;
    }
    if (list->count > SW_MAX_STAGES) {
        sw_config_error_at(c, list,
                           sw_config_format(c, "%d stages are more than the %d that a run may have",
                                            (int)list->count, SW_MAX_STAGES),
                           "make two runs of them, the second with 'stage: {from: ...}'");
        return NULL;
    }
    if (stage != NULL && list->count > 0)
        sw_config_error_at(c, stage->key, "'stage' makes the run one stage; it has 'stages', too",
                           "leave one of them out");
    const struct node *job = sw_node_find(sw_node_find(root, "job"), "type");
    if (job != NULL && job->kind == NODE_SCALAR && strcmp(job->text, "train") != 0 &&
        list->count > 0)
        sw_config_error_at(c, job, "a run with 'stages' trains",
                           "leave out 'job', or make a run of its own for it");
    for (struct node *item = list->first; item != NULL; item = item->next)
        good = check_item(c, field, item) && good;
    if (!good)
        return NULL;
    check_names(c, list);
    return list->count > 0 ? list : NULL;
}

int32_t sw_stages_take(struct sw_config *c, struct node *root, int32_t index,
                       const struct sw_run_config *earlier)
{
    struct sw_stage_made *made = sw_config_alloc(c, sizeof *made);
    const struct node *list = root->kind == NODE_MAPPING ? check_list(c, root) : NULL;
    struct node *item = list != NULL ? list->first : NULL;
    if (root->kind == NODE_MAPPING)
        take_out(root, "stages");
    for (int32_t i = 0; item != NULL && i < index; i++)
        item = item->next;
    if (item == NULL || made == NULL)
        return 0;
    *made =
        (struct sw_stage_made){.index = index,
                               .count = list->count,
                               .map = item,
                               .last_line = item->next != NULL ? item->next->line - 1 : INT32_MAX,
                               .earlier = earlier};
    c->keys->stage = made;
    for (size_t i = 0; i < COUNT(own_fields); i++) {
        struct node *value = sw_node_find(item, own_fields[i].key);
        if (value != NULL && !sw_node_is_null(value))
            (void)sw_config_read_field(c, &own_fields[i], value, made);
        take_out(item, own_fields[i].key);
    }
    made->root = root;
    change_model(c, root, item);
    merge(root, item, c->keys->tables->run);
    return made->count;
}

/* ---- The run ---- */

/* Checks that a stage continues at the step where the one before ended. */
static bool check_steps(struct sw_config *c, const struct sw_run_config *run)
{
    const struct sw_stage_made *made = c->keys->stage;
    const struct sw_run_config *before = made->earlier;
    if (!made->continue_schedule || before == NULL || before->stage.name == NULL ||
        run->optimizer.total_steps > before->optimizer.total_steps)
        return true;
    const struct node *at = sw_node_find(sw_node_find(made->map, "optimizer"), "total_steps");
    sw_config_error_at(
        c, at != NULL ? at : made->map,
        sw_config_format(c,
                         "stage '%s' continues behind step %lld of '%s', and its 'total_steps', "
                         "which count from there, are %lld",
                         made->name, (long long)before->optimizer.total_steps, before->stage.name,
                         (long long)run->optimizer.total_steps),
        sw_config_format(c, "for example: optimizer: {total_steps: %lld}",
                         (long long)before->optimizer.total_steps * 2));
    return false;
}

/* Checks moments between stages: int8 codes convert neither to nor from other types. */
static bool check_moments(struct sw_config *c, const struct sw_run_config *run)
{
    const struct sw_stage_made *made = c->keys->stage;
    const struct sw_run_config *before = made->earlier;
    if (before == NULL || before->stage.name == NULL ||
        (before->optimizer.moments == SW_CODES) == (run->optimizer.moments == SW_CODES))
        return true;
    const struct node *at = sw_node_find(sw_node_find(made->root, "optimizer"), "moments");
    sw_config_error_at(
        c, at != NULL ? at : made->map,
        sw_config_format(c,
                         "stage '%s' begins with the moments of '%s', which are %s "
                         "and cannot become %s",
                         made->name, before->stage.name,
                         sw_word(sw_words_moments, (int32_t)before->optimizer.moments),
                         sw_word(sw_words_moments, (int32_t)run->optimizer.moments)),
        "use moments: int8 in all stages, or in none");
    return false;
}

bool sw_stages_settle(struct sw_config *c, struct sw_run_config *run)
{
    const struct sw_stage_made *made = c->keys->stage;
    if (made == NULL)
        return true;
    if (made->name == NULL || !check_steps(c, run) || !check_moments(c, run))
        return false;
    if (made->continue_schedule && made->index == 0) {
        sw_config_error_at(c, made->map, "the first stage has none before it to continue",
                           "leave out its 'continue_schedule'");
        return false;
    }
    const char *folder = run->directory;
    run->directory = sw_config_join(c, folder, made->name);
    run->checkpoint_directory = run->checkpoint_directory == NULL
                                    ? sw_config_join(c, run->directory, "checkpoints")
                                    : sw_config_join(c, run->checkpoint_directory, made->name);
    run->stage = (struct sw_stage_config){
        .name = made->name,
        .number = made->index + 1,
        .count = made->count,
        .from = made->earlier != NULL ? made->earlier->checkpoint_directory : NULL,
        .continue_schedule = made->continue_schedule,
        .steps_before = made->continue_schedule ? made->earlier->optimizer.total_steps : 0,
        .place = {made->map->source->file, made->map->line, made->map->column}};
    return true;
}

void sw_config_move_stages(struct sw_config *config, const char *folder)
{
    const struct sw_run_config *before = NULL;
    for (int32_t i = 0; i <= config->keys->later_count; i++) {
        struct sw_run_config *run =
            i == 0 ? config->keys->run : config->keys->later[i - 1]->keys->run;
        const size_t length = strlen(run->directory);
        const bool inside = strncmp(run->checkpoint_directory, run->directory, length) == 0 &&
                            run->checkpoint_directory[length] == '/';
        run->directory = sw_config_join(config, folder, run->stage.name);
        if (inside)
            run->checkpoint_directory = sw_config_join(config, run->directory, "checkpoints");
        if (before != NULL)
            run->stage.from = before->checkpoint_directory;
        before = run;
    }
}

int64_t sw_run_steps(const struct sw_run_config *run)
{
    return run->optimizer.total_steps - run->stage.steps_before;
}

/* ---- The command line ---- */

static bool has_override(const struct node *node, int32_t index)
{
    if (node->source->is_override && node->source->index == index)
        return true;
    for (const struct node *inside = node->first; inside != NULL; inside = inside->next)
        if (has_override(inside, index))
            return true;
    return false;
}

/* True if a later override sets the same key. */
static bool is_replaced(const struct sw_override *overrides, int32_t override_count, int32_t i)
{
    const size_t key = strcspn(overrides[i].text, "=") + 1;
    for (int32_t j = i + 1; j < override_count; j++)
        if (strncmp(overrides[i].text, overrides[j].text, key) == 0)
            return true;
    return false;
}

void sw_stages_check_override(struct sw_config *c, const struct sw_override *overrides,
                              int32_t override_count)
{
    for (int32_t i = 0; i < override_count && c->keys->stage != NULL; i++) {
        const char *text = overrides[i].text;
        const int32_t index = SW_OVERRIDE_INDEX + i;
        bool taken = has_override(c->keys->stage->root, index);
        for (int32_t k = 0; k < c->keys->later_count && !taken; k++) {
            const struct sw_stage_made *made = c->keys->later[k]->keys->stage;
            taken = made == NULL || has_override(made->root, index);
        }
        if (taken || strncmp(text, "stages", 6) == 0 || is_replaced(overrides, override_count, i))
            continue;
        struct source *source =
            sw_config_new_source(c, "--set", sw_config_copy(c, text, strlen(text)), strlen(text));
        if (source == NULL)
            return;
        source->is_override = true;
        source->index = index;
        const struct node *at = sw_node_new(c, source, NODE_SCALAR, 1, 1);
        if (at != NULL)
            sw_config_warn_at(c, at, "this has no effect: every stage sets its own value",
                              sw_config_format(c, "set it in a stage: --set stages.%s.%s",
                                               c->keys->stage->name,
                                               strncmp(text, "model.", 6) == 0 ? text + 6 : text));
    }
}

/* ---- Messages ---- */

static bool is_same(const struct stored_diagnostic *a, const struct stored_diagnostic *b)
{
    return a->line == b->line && a->column == b->column &&
           strcmp(a->source->file, b->source->file) == 0 && strcmp(a->message, b->message) == 0;
}

void sw_stages_take_messages(struct sw_config *c, struct sw_config *later)
{
    const struct sw_stage_made *made = later->keys->stage;
    const int32_t own = c->stored_count;
    for (int32_t i = 0; i < later->stored_count; i++) {
        const struct stored_diagnostic *d = &later->stored[i];
        bool known = false;
        for (int32_t j = 0; j < own && !known; j++)
            known = is_same(&c->stored[j], d);
        if (known)
            continue;
        const bool inside = made != NULL && strcmp(d->source->file, made->map->source->file) == 0 &&
                            d->line >= made->map->line && d->line <= made->last_line;
        sw_config_take_message(
            c, d,
            inside || made == NULL || made->name == NULL
                ? d->message
                : sw_config_format(c, "%s (in stage '%s')", d->message, made->name));
    }
}
