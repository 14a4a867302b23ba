/* Slurm's settings: the values that are no scalars, and the checks between settings. What a single
 * value may look like is in checks_slurm.c, the keys are in tables_slurm.c. */
#include "core/base/device.h"
#include "core/base/shell.h"
#include "core/config/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 256, SOON_VERSION = 2205 };

static bool refuse(struct sw_config *c, const struct node *at, const char *message,
                   const char *help)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, help);
    return false;
}

/* ---- Lists of texts ---- */

/* Room for the items of a list, or for one; NULL: reported. */
static const char **make_items(struct sw_config *c, const struct field *field,
                               const struct node *value, int32_t count)
{
    if (count > MAX_ITEMS) {
        refuse(c, value,
               sw_config_format(c, "'%s' has %d items; at most %d are allowed", field->key,
                                (int)count, MAX_ITEMS),
               "put what belongs together into one");
        return NULL;
    }
    return sw_config_alloc(c, sizeof(char *) * ((size_t)count + 1));
}

static bool read_item(struct sw_config *c, const struct field *field, const struct node *item,
                      const char **out)
{
    if (item->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, item, "a list of texts");
    if (!field->accept(item->text))
        return refuse(c, item,
                      sw_config_format(c, "'%s' must be %s, not %s", field->key, field->expects,
                                       sw_config_quote(c, item->text)),
                      sw_config_example(c, field));
    *out = item->text;
    return true;
}

static bool read_texts(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_texts texts = {0};
    const bool list = value->kind == NODE_SEQUENCE;
    if (!list && value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, "a list of texts");
    const char **item = make_items(c, field, value, list ? value->count : 1);
    bool good = item != NULL;
    for (const struct node *node = list ? value->first : value; item != NULL && node != NULL;
         node = list ? node->next : NULL)
        good = read_item(c, field, node, &item[texts.count++]) && good;
    texts.item = item;
    if (good)
        memcpy((char *)base + field->offset, &texts, sizeof texts);
    return good;
}

static bool no_texts(const void *at)
{
    struct sw_texts texts;
    memcpy(&texts, at, sizeof texts);
    return texts.count == 0;
}

static void write_texts(struct writer *w, const struct field *field, const void *base)
{
    struct sw_texts texts;
    char *text = NULL;
    size_t bytes = 0;
    memcpy(&texts, (const char *)base + field->offset, sizeof texts);
    FILE *out = texts.count > 0 ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL)
        return;
    for (int32_t i = 0; i < texts.count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        sw_config_write_text(out, texts.item[i]);
    }
    fputs("]", out);
    if (fclose(out) == 0)
        w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

/* A text, or a list of them. */
static void schema_texts(struct sw_json *j, const struct field *field)
{
    static const char schema[] =
        "\"anyOf\": [{\"type\": [\"string\", \"number\"]}, {\"type\": \"array\", \"items\": "
        "{\"type\": [\"string\", \"number\"]}}]";
    (void)field;
    sw_json_raw(j, NULL, schema, sizeof schema - 1);
}

const struct field_type sw_type_texts = {read_texts, write_texts, schema_texts, INSIDE_NOTHING,
                                         no_texts};

/* Lines of the shell, a list or a text of several; what one opens the same or a later one closes.
 */
static bool read_lines(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_texts texts = {0};
    const bool list = value->kind == NODE_SEQUENCE;
    const char *whole = "";
    if (!list && value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, "a text or a list of lines");
    int32_t count = 0;
    for (const struct node *node = list ? value->first : value; node != NULL;
         node = list ? node->next : NULL) {
        if (node->kind != NODE_SCALAR)
            return sw_config_wrong_type(c, field, node, "a list of lines");
        count++;
        for (const char *p = node->text; *p != '\0'; p++)
            count += *p == '\n';
    }
    const char **item = make_items(c, field, value, count);
    bool good = item != NULL;
    for (const struct node *node = list ? value->first : value; item != NULL && node != NULL;
         node = list ? node->next : NULL)
        for (const char *p = node->text; *p != '\0';) {
            const size_t length = strcspn(p, "\n");
            const char *line = sw_config_copy(c, p, length);
            const char *shown = line + strspn(line, "\t");
            if (!sw_text_is_value(shown))
                good = refuse(c, node,
                              sw_config_format(c, "'%s' must be %s, not %s", field->key,
                                               field->expects, sw_config_quote(c, line)),
                              sw_config_example(c, field));
            item[texts.count++] = line;
            whole = sw_config_format(c, "%s%s%s", whole, whole[0] != '\0' ? "\n" : "", line);
            p += length + (p[length] == '\n');
        }
    texts.item = item;
    const enum sw_shell_place open = good ? sw_shell_leaves_open(whole) : SW_SHELL_WORD;
    if (open != SW_SHELL_WORD)
        good = refuse(c, value,
                      sw_config_format(c, "'%s' ends inside %s, which would go on in the script",
                                       field->key, sw_shell_place_name(open)),
                      "close what is open");
    if (good)
        memcpy((char *)base + field->offset, &texts, sizeof texts);
    return good;
}

const struct field_type sw_type_lines = {read_lines, write_texts, schema_texts, INSIDE_NOTHING,
                                         no_texts};

/* ---- The environment ---- */

/* Why a variable is not to be set; NULL: it may be. */
static const char *variable_is_taken(const char *name)
{
    static const char *const prefixes[] = {"SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMI2_", "PMIX_"};
    static const char *const shell[] = {"BASHOPTS",  "BASH_VERSINFO", "EUID",     "PPID",
                                        "SHELLOPTS", "UID",           "BASH_ENV", "ENV",
                                        "IFS",       "PS4",           "_"};
    /* what Slurm's PMIx plugin and PMIx itself are tuned by */
    if (strncmp(name, "SLURM_PMIX_", 11) == 0 || strncmp(name, "PMIX_MCA_", 9) == 0)
        return NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return "is Slurm's own";
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++)
        if (strcmp(name, shell[i]) == 0)
            return "is the shell's own";
    return NULL;
}

/* Puts one variable where its name stands, or at the end; a value of NULL takes it away. */
static void put_variable(struct sw_variable *item, int32_t *count, const char *name,
                         const char *value)
{
    int32_t i = 0;
    while (i < *count && strcmp(item[i].name, name) != 0)
        i++;
    if (value != NULL) {
        item[i] = (struct sw_variable){name, value};
        *count += i == *count;
    } else if (i < *count) {
        memmove(&item[i], &item[i + 1], sizeof *item * (size_t)(*count - i - 1));
        --*count;
    }
}

static bool read_variable(struct sw_config *c, const struct field *field, const struct node *value)
{
    const char *name = value->key->text;
    if (value->key->kind == NODE_BROKEN || value->kind == NODE_BROKEN)
        return false;
    if (!sw_text_is_variable(name))
        return refuse(c, value->key,
                      sw_config_format(c, "%s is no name of a variable", sw_config_quote(c, name)),
                      "letters, digits and _, no digit first");
    const char *taken = variable_is_taken(name);
    if (taken != NULL)
        return refuse(c, value->key, sw_config_format(c, "the variable '%s' %s", name, taken),
                      "what Slurm does is set by the other keys of 'slurm'");
    if (value->kind != NODE_SCALAR || !sw_text_is_value(value->text))
        return refuse(c, value,
                      sw_config_format(c,
                                       "'%s' must be one line of text without hidden "
                                       "characters, not %s",
                                       name, sw_node_describe(c, value)),
                      sw_config_example(c, field));
    return true;
}

static bool read_environment(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    struct sw_environment before;
    memcpy(&before, (const char *)base + field->offset, sizeof before);
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
    if (value->count + before.count > MAX_ITEMS)
        return refuse(c, value,
                      sw_config_format(c, "'%s' has %d variables; at most %d are allowed",
                                       field->key, (int)(value->count + before.count), MAX_ITEMS),
                      "set the others in a line of setup");
    struct sw_variable *item =
        sw_config_alloc(c, sizeof *item * (size_t)(value->count + before.count + 1));
    if (item == NULL)
        return false;
    if (before.count > 0)
        memcpy(item, before.item, sizeof *item * (size_t)before.count);
    int32_t count = before.count;
    bool good = true;
    for (const struct node *entry = value->first; entry != NULL; entry = entry->next) {
        const bool fine = read_variable(c, field, entry);
        good = good && fine;
        if (fine)
            put_variable(item, &count, entry->key->text,
                         sw_node_is_null(entry) ? NULL : entry->text);
    }
    const struct sw_environment after = {item, count};
    memcpy((char *)base + field->offset, &after, sizeof after);
    return good;
}

static bool no_variables(const void *at)
{
    struct sw_environment environment;
    memcpy(&environment, at, sizeof environment);
    return environment.count == 0;
}

static void write_environment(struct writer *w, const struct field *field, const void *base)
{
    struct sw_environment environment;
    memcpy(&environment, (const char *)base + field->offset, sizeof environment);
    if (environment.count == 0) {
        if (field->required)
            w->value(w, field->key, "{}", STYLE_BARE);
        return;
    }
    w->open(w, field->key);
    for (int32_t i = 0; i < environment.count; i++)
        w->value(w, environment.item[i].name, environment.item[i].value, STYLE_TEXT);
    w->close(w);
}

static void schema_environment(struct sw_json *j, const struct field *field)
{
    static const char schema[] = "\"type\": \"object\", \"additionalProperties\": {\"type\": "
                                 "[\"string\", \"number\", \"null\"]}";
    (void)field;
    sw_json_raw(j, NULL, schema, sizeof schema - 1);
}

const struct field_type sw_type_environment = {read_environment, write_environment,
                                               schema_environment, INSIDE_ANY_KEY, no_variables};

/* ---- The fabric ---- */

bool sw_config_describe_fabric(struct sw_config *c, struct node *root, struct sw_fabric_config *out)
{
    if (root->kind != NODE_MAPPING) {
        if (root->kind != NODE_BROKEN)
            sw_config_error_at(
                c, root,
                sw_config_format(c, "the description of a fabric must be a mapping, not %s",
                                 sw_node_describe(c, root)),
                "write 'environment: {NCCL_SOCKET_IFNAME: eth0}'");
        return false;
    }
    *out = (struct sw_fabric_config){.path = root->source->file};
    if (sw_config_read_section(c, root, sw_fabric_fields, out, UNKNOWN_ERROR).bad != 0)
        return false;
    if (out->name == NULL)
        out->name = "fabric";
    return true;
}

static bool read_fabric(struct sw_config *c, const struct field *field, struct node *value,
                        void *base)
{
    struct node *root = sw_config_follow(c, field, value);
    return root != NULL && sw_config_is_kind(c, root, value, SW_CONFIG_FABRIC) &&
           sw_config_describe_fabric(
               c, root, (struct sw_fabric_config *)(void *)((char *)base + field->offset));
}

static bool no_fabric(const void *at)
{
    struct sw_fabric_config fabric;
    memcpy(&fabric, at, sizeof fabric);
    return fabric.name == NULL;
}

static void write_fabric(struct writer *w, const struct field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;
    if (no_fabric(at))
        return;
    w->open(w, field->key);
    sw_config_write_fields(w, sw_fabric_fields, at);
    w->close(w);
}

static void schema_fabric(struct sw_json *j, const struct field *field)
{
    (void)field;
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", "string");
    sw_json_end(j);
    sw_config_schema_object(j, NULL, false, sw_fabric_fields);
    sw_json_end(j);
}

const struct field_type sw_type_fabric = {read_fabric, write_fabric, schema_fabric,
                                          INSIDE_DESCRIPTION, no_fabric};

/* ---- What null takes away ---- */

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

void sw_slurm_clear(const struct field *fields, const struct field *field, void *base)
{
    bool is_slurm = fields == sw_slurm_fields;
    for (const struct field *f = sw_slurm_fields; f->key != NULL; f++)
        is_slurm = is_slurm || (f->fields != NULL && f->fields == fields);
    /* a cluster's time is the most that its jobs ask for: a run that leaves its own to the number
     * of its steps says null, and keeps that */
    if (is_slurm && strcmp(field->key, "time") != 0)
        clear(field, base);
}

/* ---- Checks between settings ---- */

struct checking {
    struct sw_config *c;
    const struct node *root;
    const struct sw_run_config *run;
    const struct sw_slurm_config *slurm;
    bool good;
};

static const struct node *written(const struct node *map, const char *key)
{
    const struct node *value = sw_node_find(map, key);
    return value != NULL && !sw_node_is_null(value) ? value : NULL;
}

/* Where a setting stands: in the run, in the cluster, nowhere (the run as a whole). */
static const struct node *place_of(const struct checking *k, const char *key, const char *inside)
{
    const struct node *maps[] = {sw_node_find(k->root, "slurm"), k->c->cluster_slurm};
    for (size_t i = 0; i < 2; i++) {
        const struct node *value = written(maps[i], key);
        const struct node *inner = value != NULL && inside != NULL ? written(value, inside) : value;
        if (inner != NULL)
            return inner;
    }
    return k->root;
}

static void fail(struct checking *k, const struct node *at, const char *message, const char *help)
{
    k->good = refuse(k->c, at, message, help);
}

static void check_version(struct checking *k)
{
    const struct {
        const char *key, *name;
        bool used;
        int32_t since;
    } gates[] = {
        {"segment", "segment", k->slurm->segment > 0, 2405},
        {"requeue", "requeue: expedite", k->slurm->requeue == SW_REQUEUE_EXPEDITE, 2511},
    };
    const int32_t version = sw_slurm_release(k->slurm->version);
    for (size_t i = 0; version >= SOON_VERSION && i < sizeof gates / sizeof *gates; i++)
        if (gates[i].used && version < gates[i].since)
            fail(k, place_of(k, gates[i].key, NULL),
                 sw_config_format(k->c, "'%s' needs Slurm %02d.%02d, and 'slurm_version' is %s",
                                  gates[i].name, (int)gates[i].since / 100,
                                  (int)gates[i].since % 100, k->slurm->version),
                 "leave it out, or correct 'slurm_version' (sinfo --version)");
}

/* What the run wants of its job against what the job says of itself. */
static void check_continue(struct checking *k)
{
    if (k->slurm->continues == SW_CONTINUE_REQUEUE && k->slurm->requeue == SW_REQUEUE_NO)
        fail(k, place_of(k, "requeue", NULL),
             "'continue: requeue' needs a job that may be requeued, and 'requeue' is false",
             "leave 'requeue' out, or use 'continue: chain'");
}

/* Fewer GPUs than ranks: the job would start and fail. Of more a warning is enough. */
static void check_gpus(struct checking *k)
{
    const int64_t gpus = sw_slurm_gpus(k->slurm);
    const int32_t per_node = k->run->cluster.accelerators_per_node;
    const bool both = k->slurm->gpus_per_node != NULL && k->slurm->gres != NULL &&
                      sw_slurm_gpus(&(struct sw_slurm_config){.gres = k->slurm->gres}) > 0;
    const char *key = k->slurm->gpus_per_node != NULL ? "gpus_per_node" : "gres";
    if (both)
        fail(k, place_of(k, "gres", NULL), "'gres' and 'gpus_per_node' both ask for GPUs",
             "write them in one of the two");
    else if (sw_device_row(k->run->cluster.accelerator.device)->allocated && gpus > 0 &&
             gpus < per_node)
        fail(k, place_of(k, key, NULL),
             sw_config_format(
                 k->c, "'%s' asks for %" PRId64 " of a node, but 'accelerators_per_node' is %d",
                 key, gpus, (int)per_node),
             sw_config_format(k->c,
                              "each rank needs one: ask for %d, or use "
                              "'accelerators_per_node: %" PRId64 "'",
                              (int)per_node, gpus));
}

static void check_times(struct checking *k)
{
    const struct sw_slurm_config *s = k->slurm;
    const double limit = sw_slurm_time_seconds(s->time);
    const char *at = s->signal != NULL ? strchr(s->signal, '@') : NULL;
    if (s->time != NULL && s->time_min != NULL && sw_slurm_time_seconds(s->time_min) > limit)
        fail(k, place_of(k, "time_min", NULL),
             sw_config_format(k->c, "'time_min' (%s) is more than 'time' (%s)", s->time_min,
                              s->time),
             "it is what the limit may be shortened to");
    if (at != NULL && s->time != NULL && strtod(at + 1, NULL) >= limit)
        fail(k, place_of(k, "signal", NULL),
             sw_config_format(k->c, "'signal' comes %s s before a limit of %s: at once", at + 1,
                              s->time),
             "leave the seconds out, and they follow from the plan");
    const char *name = sw_word(sw_words_signal, k->run->checkpoint_signal);
    if (s->signal != NULL && strcmp(s->signal, "none") != 0 && name != NULL &&
        strncmp(s->signal, name, 4) != 0)
        fail(k, place_of(k, "signal", NULL),
             sw_config_format(k->c, "'signal' is %.4s, but the ranks save at %s", s->signal, name),
             sw_config_format(k->c, "use 'signal: %s', or 'checkpoint: {signal: %.4s}'", name,
                              s->signal));
}

/* The row that forbids an option, spelled in full or not; NULL: none. */
static const struct sw_option_row *find_option(const char *name, size_t length)
{
    const struct sw_option_row *row = sw_option_rows, *longer = NULL;
    for (; row->name != NULL; row++) {
        if (strncmp(row->name, name, length) != 0)
            continue;
        if (row->name[length] == '\0')
            return row->key != NULL || row->why != NULL ? row : NULL;
        if (longer == NULL && (row->key != NULL || row->why != NULL))
            longer = row;
    }
    return longer;
}

static void check_options(struct checking *k, const char *key, const char *inside,
                          const struct sw_texts *options)
{
    const struct node *list = place_of(k, key, inside);
    const struct node *item = list->kind == NODE_SEQUENCE ? list->first : list;
    for (int32_t i = 0; i < options->count; i++) {
        const struct node *at = item != NULL ? item : list;
        const char *name = options->item[i] + 2;
        const size_t length = sw_option_name_length(options->item[i]);
        const struct sw_option_row *row = find_option(name, length);
        item = item != NULL && item != list ? item->next : NULL;
        if (row == NULL)
            continue;
        const bool whole = strlen(row->name) == length;
        const char *what = whole ? sw_config_format(k->c, "'--%s'", row->name)
                                 : sw_config_format(k->c, "'--%.*s' is short for '--%s', which",
                                                    (int)length, name, row->name);
        if (row->key != NULL)
            fail(k, at, sw_config_format(k->c, "%s has a key of its own", what),
                 sw_config_format(k->c, "use 'slurm: {%s: ...}'", row->key));
        else
            fail(k, at,
                 sw_config_format(k->c, "%s cannot be one of '%s'%s", what,
                                  inside != NULL ? inside : key, whole ? "" : "; write it in full"),
                 row->why);
    }
}

static void check_container(struct checking *k)
{
    const struct sw_container_config *container = &k->slurm->container;
    if (container->kind == SW_CONTAINER_NONE)
        return;
    if (container->image == NULL &&
        (container->mounts.count > 0 || container->options.count > 0 || container->runner != NULL))
        fail(k, place_of(k, "container", NULL), "'container' has no 'image'",
             "for example: container: {image: /images/train.sqsh}");
    const size_t length = container->image != NULL ? strlen(container->image) : 0;
    if (container->kind == SW_CONTAINER_PYXIS && length > 4 &&
        strcmp(container->image + length - 4, ".sif") == 0)
        fail(k, place_of(k, "container", "image"),
             "'image' is a file of apptainer or singularity, which pyxis cannot start",
             "add 'type: apptainer' or 'type: singularity', or name an image of enroot (.sqsh)");
    if (container->kind == SW_CONTAINER_PYXIS)
        check_options(k, "container", "options", &container->options);
}

/* In --output a backslash means that % is not expanded, and is taken out of the path (seen on
 * 22.05.8): the job ends without a log. */
static void check_directory(struct checking *k)
{
    const struct node *at = written(k->root, "directory");
    if (strchr(k->run->directory, '\\') == NULL || k->c->kind == SW_CONFIG_PLAN)
        return; /* what a plan holds was written, and is not submitted again */
    fail(k, at != NULL ? at : k->root,
         sw_config_format(k->c,
                          "'directory' has a backslash, which Slurm takes out of the log's "
                          "path: %s",
                          sw_config_quote(k->c, k->run->directory)),
         "use a folder without one");
}

static void warn_of_mail(struct checking *k)
{
    if (k->slurm->mail_user != NULL && k->slurm->mail_type == NULL)
        sw_config_warn_at(k->c, place_of(k, "mail", "user"),
                          "no mail is sent: 'mail' has a 'user' and no 'type'",
                          "for example: mail: {type: [END, FAIL], user: me@example.org}");
}

/* What is wrong whatever the cluster and the run are. */
static void check_settings(struct checking *k)
{
    check_version(k);
    check_continue(k);
    check_times(k);
    check_options(k, "directives", NULL, &k->slurm->directives);
    check_options(k, "srun_options", NULL, &k->slurm->srun_options);
    check_container(k);
}

bool sw_config_check_slurm_of_cluster(struct sw_config *c, const struct node *root,
                                      const struct sw_cluster_config *cluster)
{
    const struct sw_run_config run = {.cluster = *cluster};
    struct checking k = {c, root, &run, &run.cluster.slurm, true};
    check_settings(&k);
    return k.good;
}

bool sw_config_check_slurm(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run)
{
    struct checking k = {c, root, run, &run->cluster.slurm, true};
    check_settings(&k);
    if (run->cluster.launcher == SW_LAUNCHER_SLURM) {
        check_gpus(&k);
        check_directory(&k);
        warn_of_mail(&k);
    }
    return k.good;
}
