/* Writes a run as YAML that reads back to the same description. */
#include "core/config/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sw_real_format(double value, char buffer[32])
{
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(buffer, 32, "%.*e", digits - 1, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    snprintf(buffer, 32, "%.*e", digits - 1, value);
    const char *e = strchr(buffer, 'e');
    int exponent = e != NULL ? atoi(e + 1) : 0;
    if (exponent >= -4 && exponent < 15) {
        int decimals = digits - 1 - exponent;
        snprintf(buffer, 32, "%.*f", decimals > 1 ? decimals : 1, value);
        return buffer;
    }
    /* YAML 1.1 wants a point in a number with an exponent. */
    char mantissa[24];
    snprintf(mantissa, sizeof mantissa, "%.*s", e != NULL ? (int)(e - buffer) : 0, buffer);
    snprintf(buffer, 32, "%s%se%+d", mantissa, strchr(mantissa, '.') != NULL ? "" : ".0", exponent);
    return buffer;
}

static void write_real(FILE *out, double value)
{
    char buffer[32];
    fputs(sw_real_format(value, buffer), out);
}

/* Plain where nobody can misread it, 'single' where it is printable ASCII, "double" otherwise. */
static void write_text(FILE *out, const char *text)
{
    bool plain = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    bool ascii = true;
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        plain = plain && (letter || (*p >= '0' && *p <= '9') || strchr("._/-", *p) != NULL);
        ascii = ascii && *p >= 0x20 && *p < 0x7f;
    }
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; plain && i < sizeof words / sizeof words[0]; i++)
        plain = sw_config_distance(text, words[i]) != 0;
    if (plain) {
        fputs(text, out);
    } else if (ascii) {
        fputc('\'', out);
        for (const char *p = text; *p != 0; p++) {
            if (*p == '\'')
                fputc('\'', out);
            fputc(*p, out);
        }
        fputc('\'', out);
    } else {
        fputc('"', out);
        for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
            bool c1 = p[0] == 0xc2 && p[1] <= 0xa0;
            bool separator = p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9);
            bool mark = p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf;
            bool noncharacter = p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe;
            if (c1) {
                fprintf(out, "\\u%04x", *++p);
            } else if (separator || mark || noncharacter) {
                fprintf(out, "\\u%04x",
                        (unsigned)(p[0] & 0xf) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu));
                p += 2;
            } else if (*p < 0x20 || *p == 0x7f) {
                fprintf(out, "\\x%02x", *p);
            } else {
                if (*p == '"' || *p == '\\')
                    fputc('\\', out);
                fputc(*p, out);
            }
        }
        fputc('"', out);
    }
}

static void write_section(FILE *out, const struct field *fields, const void *base, int32_t indent,
                          bool slurm_above);

static void write_curve(FILE *out, const struct sw_curve *curve)
{
    fputc('[', out);
    for (int32_t i = 0; i < curve->count; i++) {
        fputs(i > 0 ? ", [" : "[", out);
        write_real(out, curve->point[i].size);
        fputs(", ", out);
        write_real(out, curve->point[i].fraction);
        fputc(']', out);
    }
    fputc(']', out);
}

static void write_links(FILE *out, const struct sw_cluster_config *cluster, int32_t indent)
{
    fputs(cluster->link_count == 0 ? " []\n" : "\n", out);
    for (int32_t i = 0; i < cluster->link_count; i++) {
        const struct sw_link_config *link = &cluster->link[i];
        fprintf(out, "%*s- {name: ", (int)indent + 2, "");
        write_text(out, link->name);
        fprintf(out, ", spans: %" PRId32 ", bandwidth: ", link->spans);
        write_real(out, link->bandwidth);
        fputs(", latency: ", out);
        write_real(out, link->latency_s);
        if (link->efficiency.count > 0) {
            fputs(", efficiency: ", out);
            write_curve(out, &link->efficiency);
        }
        fputs(", oversubscription: ", out);
        write_real(out, link->oversubscription);
        fprintf(out, ", rails: %s, direct: %s}\n", link->rails ? "true" : "false",
                link->direct ? "true" : "false");
    }
}

static void write_rules(FILE *out, const struct sw_run_config *run, int32_t indent)
{
    fputs(run->rule_count == 0 ? " {}\n" : "\n", out);
    for (int32_t i = 0; i < run->rule_count; i++) {
        const struct sw_rule_config *rule = &run->rule[i];
        fprintf(out, "%*s", (int)indent + 2, "");
        write_text(out, rule->logical);
        fputs(": [", out);
        for (int32_t j = 0; j < rule->count; j++)
            fprintf(out, "%s%s", j > 0 ? ", " : "", rule->axis[j]);
        fputs("]\n", out);
    }
}

static void write_rope_scaling(FILE *out, const struct sw_rope *rope, int32_t indent)
{
    if (rope->scaling == SW_ROPE_PLAIN)
        return;
    fprintf(out, "%*srope_scaling: {rope_type: %s, factor: ", (int)indent, "",
            rope->scaling == SW_ROPE_LINEAR ? "linear" : "llama3");
    write_real(out, rope->factor);
    if (rope->scaling == SW_ROPE_LLAMA3) {
        fputs(", low_freq_factor: ", out);
        write_real(out, rope->low_freq_factor);
        fputs(", high_freq_factor: ", out);
        write_real(out, rope->high_freq_factor);
        fprintf(out, ", original_max_position_embeddings: %" PRId64, rope->original_positions);
    }
    fputs("}\n", out);
}

/* The values that are no scalars; false: this one is not written. */
static bool write_custom(FILE *out, const struct field *field, const void *base, int32_t indent)
{
    const void *at = (const char *)base + (field->offset != FIELD_NOWHERE ? field->offset : 0);
    if (field->read == sw_read_architectures) {
        const struct sw_model_config *model = at;
        fprintf(out, "%*s%s: [%s]\n", (int)indent, "", field->key,
                sw_family_architectures[model->shape.family]);
        return true;
    }
    if (field->read == sw_read_rope && strcmp(field->key, "rope_scaling") == 0)
        write_rope_scaling(out, &((const struct sw_model_config *)at)->shape.rope, indent);
    if (field->read != sw_read_curve && field->read != sw_read_links &&
        field->read != sw_read_rules && field->read != sw_read_betas &&
        field->read != sw_read_reference)
        return false;
    fprintf(out, "%*s%s:", (int)indent, "", field->key);
    if (field->read == sw_read_curve) {
        fputc(' ', out);
        write_curve(out, at);
        fputc('\n', out);
    } else if (field->read == sw_read_links) {
        write_links(out, base, indent);
    } else if (field->read == sw_read_rules) {
        write_rules(out, base, indent);
    } else if (field->read == sw_read_betas) {
        const struct sw_optimizer_config *optimizer = base;
        fputs(" [", out);
        write_real(out, optimizer->beta1);
        fputs(", ", out);
        write_real(out, optimizer->beta2);
        fputs("]\n", out);
    } else {
        fputc('\n', out);
        write_section(out, sw_config_fields(field->kind), at, indent + 2, true);
    }
    return true;
}

/* Whether a quiet setting is its default (0 or false without one). */
static bool is_quiet(const struct field *field, const void *at)
{
    const char *fallback = field->fallback != NULL ? field->fallback : "0";
    int64_t wide = 0;
    int32_t narrow;
    bool truth;
    if (!field->quiet)
        return false;
    switch (field->type) {
    case FIELD_BOOL:
        memcpy(&truth, at, sizeof truth);
        return truth == (strcmp(fallback, "true") == 0);
    case FIELD_INTEGER64:
        memcpy(&wide, at, sizeof wide);
        return wide == strtoll(fallback, NULL, 10);
    default:
        memcpy(&narrow, at, sizeof narrow);
        return narrow == strtoll(fallback, NULL, 10);
    }
}

/* Whether an optional setting without a default is not set, and so not written. */
static bool is_unset(const struct field *field, const void *at)
{
    const char *text;
    int32_t number;
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_PATH:
        memcpy(&text, at, sizeof text);
        return text == NULL;
    case FIELD_INTEGER32:
        memcpy(&number, at, sizeof number);
        return number == 0 && !field->required && field->fallback == NULL;
    default:
        return false;
    }
}

static void write_scalar(FILE *out, const struct field *field, const void *at)
{
    const char *text;
    int64_t wide;
    uint64_t natural;
    int32_t narrow;
    int word;
    double real;
    bool truth;
    switch (field->type) {
    case FIELD_INTEGER32:
        memcpy(&narrow, at, sizeof narrow);
        fprintf(out, "%" PRId32, narrow);
        break;
    case FIELD_INTEGER64:
    case FIELD_BYTES:
        memcpy(&wide, at, sizeof wide);
        if (wide == 0 && field->zero_word != NULL)
            fputs(field->zero_word, out);
        else
            fprintf(out, "%" PRId64, wide);
        break;
    case FIELD_UNSIGNED64:
        memcpy(&natural, at, sizeof natural);
        fprintf(out, "%" PRIu64, natural);
        break;
    case FIELD_BOOL:
        memcpy(&truth, at, sizeof truth);
        fputs(truth ? "true" : "false", out);
        break;
    case FIELD_TEXT:
    case FIELD_PATH:
        memcpy(&text, at, sizeof text);
        write_text(out, text);
        break;
    case FIELD_WORD:
        memcpy(&word, at, sizeof word);
        fputs(field->words[word], out);
        break;
    default:
        memcpy(&real, at, sizeof real);
        write_real(out, real);
        break;
    }
}

static void write_section(FILE *out, const struct field *fields, const void *base, int32_t indent,
                          bool slurm_above)
{
    for (const struct field *field = fields; field->key != NULL; field++) {
        if (field->type == FIELD_CUSTOM) {
            write_custom(out, field, base, indent);
            continue;
        }
        if (field->offset == FIELD_NOWHERE)
            continue;
        const void *at = (const char *)base + field->offset;
        if (field->type == FIELD_SECTION) {
            /* The run's slurm settings are already part of the cluster's. */
            if (field->fields == sw_slurm_fields && !slurm_above)
                continue;
            fprintf(out, "%*s%s:\n", (int)indent, "", field->key);
            write_section(out, field->fields, at, indent + 2, slurm_above);
        } else if (!is_unset(field, at) && !is_quiet(field, at)) {
            fprintf(out, "%*s%s: ", (int)indent, "", field->key);
            write_scalar(out, field, at);
            fputc('\n', out);
        }
    }
}

void sw_run_config_write(FILE *out, const struct sw_run_config *run, int32_t indent)
{
    write_section(out, sw_run_fields, run, indent, false);
}
