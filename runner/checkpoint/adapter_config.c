#include "runner/checkpoint/adapter_config.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 60, TEXT_BYTES = 1 << 24, PATTERN_BYTES = 200, MOST_RANK = 65536 };

/* ---- Patterns ---- */

/* True for letters, digits, '_', '-' and '.': a name, in which a pattern's '.' is any character. */
static bool is_plain(const char *pattern)
{
    return pattern[strspn(pattern, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-.")] == '\0';
}

/* Translates a character after a '\' in Python's pattern; NULL: not supported. */
static const char *escaped(char c, bool in_brackets, char one[3])
{
    if (c == 'd')
        return in_brackets ? "0-9" : "[0-9]";
    if (c == 'w')
        return in_brackets ? "[:alnum:]_" : "[[:alnum:]_]";
    if (c == '\0' || strchr(".*+?()[]{}|^$\\/-", c) == NULL || (in_brackets && c == ']'))
        return NULL;
    snprintf(one, 3, in_brackets || c == '/' || c == '-' ? "%c" : "\\%c", c);
    return one;
}

/* Translates Python's pattern to POSIX; false: unsupported syntax, or too long. */
static bool translate(const char *from, char out[4 * PATTERN_BYTES])
{
    bool in_brackets = false;
    size_t used = 0;
    if (strlen(from) > PATTERN_BYTES)
        return false;
    for (const char *at = from; *at != '\0'; at++) {
        char one[3] = {*at, '\0', '\0'};
        const char *add = one;
        if ((unsigned char)*at >= 0x80 || (!in_brackets && strchr("{}", *at) != NULL))
            return false;
        if (*at == '\\')
            add = escaped(*++at, in_brackets, one);
        else if (in_brackets)
            in_brackets = *at != ']';
        else if (*at == '[')
            in_brackets = true;
        else if (*at == '(' && at[1] == '?' && at[2] == ':')
            at += 2;
        else if (*at == '(' && at[1] == '?')
            return false;
        else if (strchr("*+?", *at) != NULL && at[1] == '?')
            at++; /* lazy: whole texts match alike */
        else if (strchr("*+?", *at) != NULL && strchr("*+", at[1]) != NULL && at[1] != '\0')
            return false;
        if (add == NULL)
            return false;
        used += (size_t)snprintf(out + used, 4 * PATTERN_BYTES - used, "%s", add);
    }
    return !in_brackets;
}

/* Compiles head + pattern + tail; false: invalid. */
static bool compile(const char *pattern, const char *head, const char *tail, regex_t *out)
{
    char middle[4 * PATTERN_BYTES] = "", whole[4 * PATTERN_BYTES + 32];
    if (!translate(pattern, middle))
        return false;
    snprintf(whole, sizeof whole, "%s%s%s", head, middle, tail);
    return regcomp(out, whole, REG_EXTENDED | REG_NOSUB) == 0;
}

static bool is_pattern(const char *pattern)
{
    regex_t regex;
    if (is_plain(pattern))
        return true;
    if (!compile(pattern, "^(", ")$", &regex))
        return false;
    regfree(&regex);
    return true;
}

/* re.fullmatch on the module or, if `behind`, on its end after a '.'. */
static bool matches(const char *pattern, const char *module, bool behind)
{
    regex_t regex;
    if (!is_plain(pattern)) {
        if (!compile(pattern, behind ? "^(.*\\.)?(" : "^(", ")$", &regex))
            return false;
        const bool found = regexec(&regex, module, 0, NULL, 0) == 0;
        regfree(&regex);
        return found;
    }
    const size_t length = strlen(pattern), all = strlen(module);
    if (length > all || (length < all && (!behind || module[all - length - 1] != '.')))
        return false;
    for (size_t i = 0; i < length; i++)
        if (pattern[i] != '.' && pattern[i] != module[all - length + i])
            return false;
    return true;
}

static bool is_one_of(const json_t *value, const char *const *words)
{
    const char *text = json_string_value(value);
    for (; text != NULL && *words != NULL; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* True if a list of module names, or a pattern, contains the module. */
static bool names(const json_t *value, const char *module)
{
    if (is_one_of(value, (const char *const[]){"all-linear", NULL}))
        return strcmp(module, "lm_head") != 0;
    if (json_is_string(value))
        return matches(json_string_value(value), module, false);
    const size_t all = strlen(module);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));
        const size_t length = strlen(name);
        if (length <= all && strcmp(module + all - length, name) == 0 &&
            (length == all || module[all - length - 1] == '.'))
            return true;
    }
    return false;
}

/* Number of the first pattern that matches the module; `usual` if none. */
static double number_of(const json_t *patterns, const char *module, double usual)
{
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)patterns, pattern,
                        value) if (matches(pattern, module, true)) return json_number_value(value);
    return usual;
}

/* ---- Reading ---- */

static bool is_empty(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (sw_json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static bool is_any(const json_t *value)
{
    return value != NULL;
}

static bool is_lora(const json_t *value)
{
    return is_one_of(value, (const char *const[]){"LORA", NULL});
}

static bool is_task(const json_t *value)
{
    return is_empty(value) || is_one_of(value, (const char *const[]){"CAUSAL_LM", NULL});
}

static bool is_bias(const json_t *value)
{
    return is_empty(value) || is_one_of(value, (const char *const[]){"none", NULL});
}

/* True for supported initializations: others begin from a changed base model. */
static bool is_start(const json_t *value)
{
    return is_empty(value) || json_is_true(value) ||
           is_one_of(value, (const char *const[]){"gaussian", "eva", "orthogonal", NULL});
}

static bool is_rank(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 1 &&
           json_integer_value(value) <= MOST_RANK;
}

static bool is_number(const json_t *value)
{
    return json_is_number(value) && isfinite(json_number_value(value));
}

static bool is_flag(const json_t *value)
{
    return is_empty(value) || json_is_true(value);
}

static bool is_modules(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0 && is_pattern(json_string_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return false;
    return json_is_array(value) && json_array_size(value) > 0;
}

static bool is_modules_or_none(const json_t *value)
{
    return is_empty(value) || is_modules(value);
}

static bool are_numbers(const json_t *value, bool (*fits)(const json_t *))
{
    const char *pattern;
    json_t *number;
    if (is_empty(value))
        return true;
    if (!sw_json_is_object(value))
        return false;
    json_object_foreach((json_t *)value, pattern,
                        number) if (!is_pattern(pattern) || !fits(number)) return false;
    return true;
}

static bool are_ranks(const json_t *value)
{
    return are_numbers(value, is_rank);
}

static bool are_alphas(const json_t *value)
{
    return are_numbers(value, is_number);
}

static bool are_layers(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_integer(json_array_get(value, i)))
            return false;
    return is_empty(value) || json_is_integer(value) || json_is_array(value);
}

static bool is_text_or_none(const json_t *value)
{
    return is_empty(value) || json_is_string(value);
}

/* Known keys with a test of their values. */
static const struct rule {
    const char *key;
    bool (*fits)(const json_t *value);
    const char *wanted;
    bool needed;
} rules[] = {
    {"peft_type", is_lora, "LORA", true},
    {"r", is_rank, "a rank from 1 to 65536", true},
    {"lora_alpha", is_number, "a number", true},
    {"target_modules", is_modules, "a list of modules, or a pattern of plain parts", true},
    {"task_type", is_task, "CAUSAL_LM", false},
    {"bias", is_bias, "none", false},
    {"init_lora_weights", is_start,
     "true, false, gaussian, eva or orthogonal: others stand on a model that they changed; save it "
     "again with PEFT's path_initial_model_for_weight_conversion",
     false},
    {"use_rslora", is_flag, "true or false", false},
    {"rank_pattern", are_ranks, "ranks by patterns of plain parts", false},
    {"alpha_pattern", are_alphas, "numbers by patterns of plain parts", false},
    {"exclude_modules", is_modules_or_none, "a list of modules, or a pattern of plain parts",
     false},
    {"layers_to_transform", are_layers, "numbers of layers", false},
    {"base_model_name_or_path", is_text_or_none, "a path", false},
    /* keys of training, of other layer types, of the text's origin */
    {"lora_dropout", is_any, "", false},
    {"inference_mode", is_any, "", false},
    {"auto_mapping", is_any, "", false},
    {"revision", is_any, "", false},
    {"peft_version", is_any, "", false},
    {"megatron_core", is_any, "", false},
    {"loftq_config", is_any, "", false},
    {"eva_config", is_any, "", false},
    {"corda_config", is_any, "", false},
    {"lora_ga_config", is_any, "", false},
    {"qalora_group_size", is_any, "", false},
    {"runtime_config", is_any, "", false},
    {"ensure_weight_tying", is_any, "", false},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static int check_keys(const char *path, const json_t *root, struct sw_error *err)
{
    const struct sw_place place = {.file = path};
    char shown[SHOWN_BYTES + 4], text[SHOWN_BYTES + 4];
    const char *key;
    json_t *value;
    for (int32_t i = 0; i < RULES; i++) {
        value = json_object_get(root, rules[i].key);
        if (value == NULL && !rules[i].needed)
            continue;
        if (value == NULL)
            return sw_fail_at(err, SW_BAD_INPUT, place, "has no '%s'", rules[i].key);
        if (rules[i].fits(value))
            continue;
        const char *found = json_string_value(value);
        return sw_fail_at(err, SW_BAD_INPUT, place, "its '%s' is %s%s%s, not %s", rules[i].key,
                          found != NULL ? "'" : "",
                          found != NULL ? sw_text_shown(found, SHOWN_BYTES, text) : "another",
                          found != NULL ? "'" : "", rules[i].wanted);
    }
    json_object_foreach((json_t *)root, key, value)
    {
        int32_t known = 0;
        while (known < RULES && strcmp(rules[known].key, key) != 0)
            known++;
        if (known == RULES && !is_empty(value))
            return sw_fail_at(err, SW_BAD_INPUT, place,
                              "it has '%s', which is not supported; train an adapter without it, "
                              "or merge it into its model with PEFT",
                              sw_text_shown(key, SHOWN_BYTES, shown));
    }
    return 0;
}

int sw_adapter_config_parse(const char *path, const char *text, size_t bytes,
                            struct sw_adapter_config *out, struct sw_error *err)
{
    struct sw_place place = {.file = path};
    struct sw_json_mistake why;
    *out = (struct sw_adapter_config){0};
    json_t *root = sw_json_load(text, bytes, SW_JSON_TWICE, &why);
    if (root == NULL) {
        place.line = why.line;
        place.column = why.column;
        return why.what == NULL
                   ? sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", path)
                   : sw_fail_at(err, SW_BAD_INPUT, place, "not valid JSON: %s", why.what);
    }
    const int status = sw_json_is_object(root)
                           ? check_keys(path, root, err)
                           : sw_fail_at(err, SW_BAD_INPUT, place, "is not a JSON object");
    if (status != 0) {
        json_decref(root);
        return -1;
    }
    const char *base = json_string_value(json_object_get(root, "base_model_name_or_path"));
    *out =
        (struct sw_adapter_config){.root = root,
                                   .base = base != NULL ? base : "",
                                   .rank = (int32_t)json_integer_value(json_object_get(root, "r")),
                                   .alpha = json_number_value(json_object_get(root, "lora_alpha")),
                                   .rslora = json_is_true(json_object_get(root, "use_rslora"))};
    return 0;
}

int sw_adapter_config_read(const char *folder, struct sw_adapter_config *out, struct sw_error *err)
{
    char *text = NULL, *path = sw_path_join(folder, SW_ADAPTER_CONFIG);
    size_t bytes;
    int status = -1;
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", folder);
    if (sw_file_read(path, true, TEXT_BYTES, &text, &bytes, NULL) != 0)
        sw_fail_at(err, sw_path_status(errno, false), (struct sw_place){.file = path},
                   "cannot be read: %s", strerror(errno));
    else
        status = sw_adapter_config_parse(path, text, bytes, out, err);
    free(text);
    free(path);
    return status;
}

void sw_adapter_config_free(struct sw_adapter_config *config)
{
    json_decref(config->root);
    *config = (struct sw_adapter_config){0};
}

/* ---- Its adapters ---- */

/* True if layers_to_transform excludes the module's layer. */
static bool is_of_other_layer(const json_t *layers, const char *module)
{
    static const char before[] = "model.layers.";
    if (is_empty(layers) || strncmp(module, before, sizeof before - 1) != 0)
        return !is_empty(layers);
    const json_int_t layer = strtoll(module + sizeof before - 1, NULL, 10);
    if (json_is_integer(layers))
        return json_integer_value(layers) != layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == layer)
            return false;
    return true;
}

void sw_adapter_config_of(const struct sw_adapter_config *config, const char *module, int32_t *rank,
                          double *scale)
{
    const json_t *root = config->root, *targets = json_object_get(root, "target_modules"),
                 *excluded = json_object_get(root, "exclude_modules"),
                 *layers = json_object_get(root, "layers_to_transform");
    *rank = 0;
    *scale = 0;
    if (!names(targets, module) || (!is_empty(excluded) && names(excluded, module)) ||
        (json_is_array(targets) && is_of_other_layer(layers, module)))
        return;
    *rank = (int32_t)number_of(json_object_get(root, "rank_pattern"), module, config->rank);
    *scale = sw_lora_scale(number_of(json_object_get(root, "alpha_pattern"), module, config->alpha),
                           *rank, config->rslora);
}

const char *sw_adapter_config_difference(const struct sw_adapter_config *config,
                                         const struct sw_lora *lora, int32_t layers,
                                         char buffer[240])
{
    for (int32_t layer = 0; layer < layers; layer++)
        for (int32_t t = 0; t < SW_LORA_TARGETS; t++) {
            char module[64];
            int32_t rank;
            double scale;
            snprintf(module, sizeof module, "model.layers.%" PRId32 ".%s", layer,
                     sw_lora_modules[t]);
            sw_adapter_config_of(config, module, &rank, &scale);
            if (rank == lora->rank[t] && (rank == 0 || scale == lora->scale[t]))
                continue;
            if (rank == 0 || lora->rank[t] == 0)
                snprintf(buffer, 240, "its target_modules %s %s, and 'lora.targets' %s",
                         rank == 0 ? "leave out" : "have", module,
                         rank == 0 ? "has it" : "does not");
            else if (rank != lora->rank[t])
                snprintf(buffer, 240,
                         "its rank for %s is %" PRId32 ", and that of 'lora' is %" PRId32, module,
                         rank, lora->rank[t]);
            else
                snprintf(buffer, 240,
                         "it multiplies the adapter of %s by %.9g (lora_alpha / r), and 'lora' by "
                         "%.9g",
                         module, scale, lora->scale[t]);
            return buffer;
        }
    return NULL;
}

/* ---- Writing ---- */

/* Writes integers without a fraction, as people do. */
static void write_number(struct sw_json *j, const char *key, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        sw_json_integer(j, key, (int64_t)value);
    else
        sw_json_digits(j, key, value, 17);
}

static void write_patterns(struct sw_json *j, const struct sw_adapter_facts *facts)
{
    sw_json_inline(j, "alpha_pattern");
    for (int32_t t = 0; t < SW_LORA_TARGETS; t++)
        if (facts->lora.rank[t] > 0 && facts->alpha_of[t] > 0)
            write_number(j, sw_lora_names[t], facts->alpha_of[t]);
    sw_json_end(j);
    sw_json_inline(j, "rank_pattern");
    for (int32_t t = 0; t < SW_LORA_TARGETS; t++)
        if (facts->lora.rank[t] > 0 && facts->lora.rank[t] != facts->rank)
            sw_json_integer(j, sw_lora_names[t], facts->lora.rank[t]);
    sw_json_end(j);
}

int sw_adapter_config_json(const struct sw_adapter_facts *facts, char **out, struct sw_error *err)
{
    size_t bytes = 0;
    *out = NULL;
    struct sw_json j = {.out = open_memstream(out, &bytes), .style = SW_JSON_SPACES};
    if (j.out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the adapter's configuration");
    sw_json_object(&j, NULL);
    sw_json_text(&j, "peft_type", "LORA");
    sw_json_text(&j, "task_type", "CAUSAL_LM");
    sw_json_text(&j, "base_model_name_or_path", facts->base);
    sw_json_null(&j, "revision");
    sw_json_integer(&j, "r", facts->rank);
    write_number(&j, "lora_alpha", facts->alpha);
    sw_json_array(&j, "target_modules");
    for (int32_t t = 0; t < SW_LORA_TARGETS; t++)
        if (facts->lora.rank[t] > 0)
            sw_json_text(&j, NULL, sw_lora_names[t]);
    sw_json_end(&j);
    write_patterns(&j, facts);
    sw_json_bool(&j, "use_rslora", facts->rslora);
    sw_json_bool(&j, "use_dora", false);
    sw_json_raw(&j, "lora_dropout", "0.0", 3);
    sw_json_text(&j, "bias", "none");
    sw_json_bool(&j, "fan_in_fan_out", false);
    sw_json_bool(&j, "init_lora_weights", true);
    sw_json_bool(&j, "inference_mode", true);
    sw_json_null(&j, "modules_to_save");
    sw_json_null(&j, "layers_to_transform");
    sw_json_null(&j, "layers_pattern");
    sw_json_null(&j, "auto_mapping");
    sw_json_end(&j);
    fputc('\n', j.out);
    const bool failed = ferror(j.out) != 0;
    if (fclose(j.out) == 0 && !failed)
        return 0;
    free(*out);
    *out = NULL;
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the adapter's configuration");
}
