/* Pages of Markdown from the field tables: every key with its type, default and meaning.
 * docs/reference holds the pages. */
#include "core/config/internal.h"

#include <math.h>
#include <string.h>

/* Mappings around a table, inside out; NULL: the file itself. */
struct path {
    const struct path *outer;
    const char *key;
    bool list; /* true for a list of mappings */
};

static void write_path(FILE *out, const struct path *path)
{
    if (path == NULL)
        return;
    write_path(out, path->outer);
    fprintf(out, "%s%s.", path->key, path->list ? "[]" : "");
}

/* Writes text in a table's cell, which a bar would end. */
static void write_cell(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void write_code(FILE *out, const char *text)
{
    fputc('`', out);
    write_cell(out, text);
    fputc('`', out);
}

static void write_limit(FILE *out, double limit)
{
    char buffer[32];
    if (fabs(limit) < 1e16 && limit == floor(limit))
        fprintf(out, "%.0f", limit);
    else
        fputs(sw_real_format(limit, buffer), out);
}

/* Skips limits that only keep arithmetic finite. */
static void write_range(FILE *out, const struct field *field)
{
    const bool limited = field->min != 0 || field->max != 0 || field->above_min;
    const bool above = limited && field->max < SW_MANY;
    if (!limited)
        return;
    fputs(field->above_min ? ", more than " : above ? ", " : ", at least ", out);
    write_limit(out, field->min);
    if (!above)
        return;
    fputs(field->above_min ? ", at most " : " to ", out);
    write_limit(out, field->max);
}

static void write_words(FILE *out, const struct field *field)
{
    int32_t value;
    const char *word = sw_field_word(field, 0, &value);
    for (int32_t i = 0; word != NULL; i++) {
        const char *next = sw_field_word(field, i + 1, &value);
        fputs(i == 0 ? "" : next == NULL ? " or " : ", ", out);
        write_code(out, word);
        word = next;
    }
}

/* Writes the words of the first enum of a JSON Schema, with `before` in front; nothing without an
 * enum. */
static void write_schema_words(FILE *out, const char *schema, const char *before)
{
    const char *word = schema != NULL ? strstr(schema, "\"enum\": [") : NULL;
    if (word == NULL)
        return;
    word += strlen("\"enum\": [");
    while (*word == '"') {
        const char *end = strchr(word + 1, '"');
        fprintf(out, "%s`%.*s`", before, (int)(end - word - 1), word + 1);
        before = ", ";
        word = end + (end[1] == ',' ? strlen("\", ") : strlen("\""));
    }
}

/* Describes a value that is no scalar by the row's fields, words, JSON Schema or example. */
static void write_custom(FILE *out, const struct field *field)
{
    const bool list = field->example[0] == '[', mapping = field->example[0] == '{';
    if (field->fields != NULL) {
        fputs(field->custom == &sw_type_products_by_kind ? "list, or mapping, below"
              : list                                     ? "list of mappings, below"
                                                         : "mapping, below",
              out);
    } else if (field->custom->inside == INSIDE_DESCRIPTION) {
        const char *kind = sw_config_kind_name(field->kind);
        fprintf(out, "%s%smapping with the keys of a [%s file](%s.md)",
                field->kind == SW_CONFIG_PROFILE ? "`" SW_PROFILE_AUTO "`, " : "",
                field->kind == SW_CONFIG_RUN ? "" : "path, or ", kind, kind);
    } else if (field->words != NULL) {
        fputs(list ? "list of " : "", out);
        write_words(out, field);
    } else if (field->expects != NULL) {
        fputs(field->custom == &sw_type_texts ? "list: " : "", out);
        write_cell(out, field->expects);
    } else if (field->custom == &sw_type_curve || field->custom == &sw_type_link_curve) {
        fprintf(out, "number, more than 0, at most %g, or list%s", field->max > 0 ? field->max : 1,
                field->custom == &sw_type_link_curve ? ", or path" : "");
    } else if (list || mapping) {
        fputs(list ? "list" : "mapping", out);
        write_schema_words(out, field->schema, list ? " of " : " to lists of ");
    } else if (strcmp(field->example, "null") == 0 || strcmp(field->example, "false") == 0) {
        fputs("only ", out);
        write_code(out, field->example);
    } else {
        fputs(field->example[0] == '\'' ? "string" : "number", out);
    }
}

static void write_type(FILE *out, const struct field *field)
{
    static const char *const quantities[] = {
        [FIELD_BYTES] = "[size](#units)",        [FIELD_BANDWIDTH] = "[bandwidth](#units)",
        [FIELD_SECONDS] = "[time](#units)",      [FIELD_FLOPS] = "[rate](#units)",
        [FIELD_DURATION] = "[duration](#units)", [FIELD_POWER] = "[power](#units)",
        [FIELD_SHARE] = "percentage or fraction"};
    switch (field->type) {
    case FIELD_INTEGER32:
    case FIELD_INTEGER64:
        fputs("integer", out);
        write_range(out, field);
        if (field->zero_word != NULL) {
            fputs(", or ", out);
            write_code(out, field->zero_word);
        }
        for (int32_t i = 0; field->words != NULL && field->words[i] != NULL; i++) {
            fputs(i == 0 ? ", or " : ", ", out);
            write_code(out, field->words[i]);
        }
        break;
    case FIELD_UNSIGNED64:
        fputs("integer, 0 to 18446744073709551615", out);
        break;
    case FIELD_REAL:
        fputs("number", out);
        write_range(out, field);
        break;
    case FIELD_BOOL:
        fputs("`true` or `false`", out);
        break;
    case FIELD_TEXT:
        fputs(field->expects == NULL ? "string"
              : field->commas        ? "string or list: "
                                     : "string: ",
              out);
        write_cell(out, field->expects != NULL ? field->expects : "");
        break;
    case FIELD_PATH:
        fputs("path", out);
        break;
    case FIELD_WORD:
        write_words(out, field);
        break;
    case FIELD_BYTES:
    case FIELD_BANDWIDTH:
    case FIELD_SECONDS:
    case FIELD_FLOPS:
    case FIELD_DURATION:
    case FIELD_POWER:
    case FIELD_SHARE:
        fputs(quantities[field->type], out);
        write_range(out, field);
        break;
    case FIELD_SECTION:
        fputs("mapping, below", out);
        break;
    case FIELD_SETTINGS: /* replaced by sections */
        break;
    case FIELD_CUSTOM:
        write_custom(out, field);
        break;
    }
}

static void write_row(FILE *out, const struct path *path, const struct field *field)
{
    fputs("| `", out);
    write_path(out, path);
    fprintf(out, "%s` | ", field->key);
    write_type(out, field);
    fputs(" | ", out);
    if (field->required)
        fputs("required", out);
    else if (field->fallback != NULL)
        write_code(out, field->fallback);
    fputs(" | ", out);
    write_code(out, field->example);
    fputs(" | ", out);
    write_cell(out, field->about);
    fputs(" |\n", out);
}

/* Writes one table, then one for each mapping in it. */
static void write_table(FILE *out, const struct path *path, const struct field *fields)
{
    fputs("| key | value | default | example | meaning |\n| --- | --- | --- | --- | --- |\n", out);
    for (const struct field *field = fields; field->key != NULL; field++)
        if (!field->old)
            write_row(out, path, field);
    for (const struct field *field = fields; field->key != NULL; field++) {
        const struct path inside = {path, field->key, field->example[0] == '['};
        if (field->fields == NULL || field->old)
            continue;
        fputs("\n## ", out);
        write_path(out, path);
        fprintf(out, "%s\n\n", field->key);
        if (field->custom == &sw_type_stages)
            sw_stages_write_reference(out);
        else
            write_table(out, &inside, field->fields);
    }
}

/* True if a table or one below it has quantities. */
static bool has_units(const struct field *fields)
{
    for (const struct field *field = fields; field->key != NULL; field++)
        if ((field->type >= FIELD_BYTES && field->type <= FIELD_POWER) ||
            (field->fields != NULL && has_units(field->fields)))
            return true;
    return false;
}

/* Names of values in recompute, and in the printed program. */
static void write_values(FILE *out)
{
    fputs(
        "\n## Values of a layer\n\nThe names that `recompute` takes, in the order in which a layer "
        "makes them; `plan search` and `plan explain` print the same. A\nmodel has not all of "
        "them.\n\n| name | value |\n| --- | --- |\n",
        out);
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++) {
        fprintf(out, "| `%s` | ", sw_layer_value_name(i));
        write_cell(out, sw_layer_value_about(i));
        fputs(" |\n", out);
    }
}

static const char *const intros[] = {
    "A model: the keys of a Hugging Face `config.json`, which is itself a valid model file. "
    "Of its other keys, those that\nchange no arithmetic are noted and ignored; those that do "
    "are refused, and so are kinds of models that are not supported.",
    "One accelerator, a GPU or a core of a CPU: what its data sheet says. What software "
    "reaches on "
    "it is a [profile](profile.md).",
    ("The nodes of a job, the accelerators in them and the networks between them. A link's "
     "`bandwidth` is that of *one accelerator*\nin one direction: a node of eight with one "
     "400 Gb/s port has 50 Gb/s for each. Where only the sum of a node is known,\nwrite "
     "`bandwidth_per_node: 400 Gb/s`; `plan check` prints both figures. B is a byte, b a bit. "
     "With `spans: node` and `spans: all`\nthe links follow `nodes` and "
     "`accelerators_per_node`, so that `--set cluster.nodes=128` is all that a larger job "
     "needs."),
    ("What to train, on which cluster, with which data. `plan search`, `explain` and `emit` "
     "read it. Every scalar can be\nreplaced on the command line by its key as it stands here: "
     "`--set optimizer.learning_rate=1e-4`; `model.` and `cluster.`\ngo before the keys of the "
     "files that are named, and a link goes by its name: `cluster.links.nvlink.bandwidth`.\n"
     "A whole mapping with a new name adds a link: "
     "`'cluster.links.ib={name: ib, spans: all, bandwidth: 25 GB/s, latency: 6 us}'`."),
    ("What `plan emit` decided, for `runner train`. The digest finds every change: edit the "
     "run file and emit again."),
    ("What software reaches on an accelerator: the fractions of its peaks that every predicted "
     "time rests on, and the band\naround the times. `runner calibrate` and `plan fit` write "
     "profiles; configs/profiles has some of published software."),
    ("A measured curve, for the links of several clusters of one fabric: what `efficiency` of "
     "a "
     "[cluster's](cluster.md) links\nmay name."),
    ("A kind of network between nodes: the variables that NCCL and Open MPI want set on it. "
     "`%s.fabric` of a cluster names\none, and the job script exports them; "
     "`%s.environment` goes before. configs/fabrics has the usual ones."),
};
_Static_assert(sizeof intros / sizeof *intros == SW_CONFIG_UNKNOWN, "an intro for each kind");

/* key: of the section that replaces %s. */
static void write_intro(FILE *out, const char *intro, const char *key)
{
    for (const char *place; (place = strstr(intro, "%s")) != NULL; intro = place + strlen("%s"))
        fprintf(out, "%.*s%s", (int)(place - intro), intro, key);
    fputs(intro, out);
}

int sw_config_reference(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers)
{
    struct tables tables;
    static const struct {
        const char *name, *plain;
        char dimension;
    } units[] = {
        {"size", "bytes", 'B'},       {"bandwidth", "bytes per second", 'b'},
        {"time", "seconds", 's'},     {"rate", "floating-point operations per second", 'f'},
        {"duration", "seconds", 't'}, {"power", "watts", 'W'}};
    sw_tables_make(&tables, launchers);
    const struct field *fields = sw_tables_of(&tables, kind);
    if (fields == NULL)
        return -1;
    fprintf(out,
            "<!-- Written by docs/make_reference.sh from the field tables in core/config. -->\n\n"
            "# Keys of %s %s file\n\n",
            kind == SW_CONFIG_ACCELERATOR ? "an" : "a", sw_config_kind_name(kind));
    write_intro(out, intros[kind], sw_launcher_key_with(launchers, &sw_type_fabric));
    fprintf(out,
            "\n\nPaths are relative to the file that names them. %s keys and wrong types are "
            "errors.\n\n",
            kind == SW_CONFIG_MODEL ? "Duplicate" : "Unknown and duplicate");
    write_table(out, NULL, fields);
    if (kind == SW_CONFIG_RUN)
        write_values(out);
    if (!has_units(fields))
        return 0;
    fputs("\n## Units\n\nA quantity is a number with a unit, as in `80 GB`; a bare number is in "
          "the unit of the second column.\n\n| quantity | bare number | units |\n| --- | --- | --- "
          "|\n",
          out);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        fprintf(out, "| %s | %s | %s |\n", units[i].name, units[i].plain,
                sw_quantity_units(units[i].dimension));
    return 0;
}
