#include "planner/scheduler/slurm/import.h"
#include "planner/scheduler/slurm/internal_settings.h"
#include "planner/scheduler/slurm/settings.h"

#include "core/base/file.h"
#include "core/schema/edit.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Links for machines without a sheet: PCIe 4.0 x16 inside a node (31.5 GB/s after encoding), one
 * port of 100 Gb/s for a node of GPUs and of 10 Gb/s for one of cores. Marked as guesses. */
static const struct sw_catalog_link unknown_inside = {"pcie", "32 GB/s", NULL, "5.7 us", NULL};
static const struct sw_catalog_link gpu_port = {"network", "100 Gb/s", NULL, "10 us", NULL},
                                    core_port = {"network", "10 Gb/s", NULL, "50 us", NULL};

/* Writes a YAML text, in quotes if ambiguous. */
static void write_text(FILE *out, const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};
    bool plain = isalpha((unsigned char)text[0]) != 0;
    for (const char *p = text; *p != '\0'; p++)
        plain = plain && (isalnum((unsigned char)*p) || *p == '_' || *p == '-' || *p == '.');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        plain = plain && strcasecmp(text, words[i]) != 0;
    if (plain) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            fputc('\'', out);
        fputc(*p, out);
    }
    fputc('\'', out);
}

/* Writes a comment, wrapped, behind `indent` spaces. */
static void write_comment(FILE *out, int indent, const char *text)
{
    enum { WIDTH = 108 };
    int at = 0;
    for (const char *p = text; *p != '\0';) {
        const int length = (int)strcspn(p, " ");
        if (at > 0 && at + 1 + length > WIDTH) {
            fputc('\n', out);
            at = 0;
        }
        at += at == 0 ? fprintf(out, "%*s# %.*s", indent, "", length, p)
                      : fprintf(out, " %.*s", length, p);
        p += length;
        p += strspn(p, " ");
    }
    fputc('\n', out);
}

/* Slurm's form of a time. */
static void format_time(double seconds, char *out, size_t bytes)
{
    const int64_t all = (int64_t)seconds, days = all / 86400;
    if (days > 0)
        snprintf(out, bytes, "%" PRId64 "-%02d:%02d:%02d", days, (int)(all / 3600 % 24),
                 (int)(all / 60 % 60), (int)(all % 60));
    else
        snprintf(out, bytes, "%d:%02d:%02d", (int)(all / 3600), (int)(all / 60 % 60),
                 (int)(all % 60));
}

/* "h100:8", or "8" without a type. */
static void format_gpus(const struct sw_import *import, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s%s%d", import->gpu_type, import->gpu_type[0] != '\0' ? ":" : "",
             import->per_node);
}

/* True if folder/sub/name is a file. */
static bool is_there(const char *folder, const char *sub, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s/%s", folder, sub, name) < (int)sizeof path &&
           access(path, R_OK) == 0;
}

/* True if the accelerators are cores, and the node's memory is known (Slurm's default is 1 MB). */
static bool knows_core_memory(const struct sw_import *import)
{
    return !import->has_gpus && !import->named && import->memory_mb / import->per_node > 1;
}

/* Writes the sheet's text as a mapping; for cores, with the memory known to the controller. */
static void write_sheet(FILE *out, const struct sw_import *import)
{
    fputs("accelerator:\n", out);
    for (const char *p = import->sheet->text; *p != '\0';) {
        const size_t length = strcspn(p, "\n");
        if (knows_core_memory(import) && strncmp(p, "memory: ", 8) == 0)
            fprintf(out, "  # of a node's memory, this core's part\n  memory: %" PRId64 " MiB\n",
                    import->memory_mb / import->per_node);
        else
            fprintf(out, "%s%.*s\n", length > 0 ? "  " : "", (int)length, p);
        p += length + (p[length] == '\n');
    }
}

static void write_accelerator(FILE *out, const struct sw_import *import, const char *folder)
{
    char file[80];
    if (import->accelerator != NULL) {
        fputs("accelerator: ", out);
        write_text(out, import->accelerator);
        fputc('\n', out);
        return;
    }
    if (import->sheet == NULL) {
        fputs("accelerator: ", out);
        snprintf(file, sizeof file, "%.64s.yaml",
                 import->gpu_type[0] != '\0' ? import->gpu_type : "gpu");
        write_text(out, file);
        fputc('\n', out);
        return;
    }
    snprintf(file, sizeof file, "%s.yaml", import->sheet->name);
    if (!knows_core_memory(import) && is_there(folder, "../accelerators", file))
        fprintf(out, "accelerator: ../accelerators/%s\n", file);
    else
        write_sheet(out, import);
}

/* Writes the points of a key in a curve's file as those of a link's key. */
static void write_points(FILE *out, const char *text, const char *from, const char *key)
{
    const char *points = strstr(text, from);
    const char *end = points != NULL ? strstr(points, "]]") : NULL;
    if (end == NULL)
        return;
    fprintf(out, "%s: ", key);
    for (points += strlen(from); points < end + 2; points++) {
        fputc(*points, out);
        if (*points == '\n')
            fputs("       ", out);
    }
}

/* Writes "efficiency: [[...], ...]" of a curve whose file is not beside the new one, and the curves
 * of single collectives. */
static void write_curve(FILE *out, const char *file)
{
    const char *text = sw_catalog_curve(file);
    if (text == NULL)
        return;
    fprintf(out, ",\n     # configs/curves/%s\n     ", file);
    write_points(out, text, "\npoints: ", "efficiency");
    if (strstr(text, "\ncollectives: ") == NULL)
        return;
    fputs(",\n     ", out);
    write_points(out, text, "\ncollectives: ", "collectives");
}

static void write_link(FILE *out, const char *spans, bool whole_node,
                       const struct sw_catalog_link *link, const char *folder)
{
    const char *curve = link->curve;
    fprintf(out, "  - {name: %s, spans: %s, bandwidth%s: %s", link->name, spans,
            whole_node ? "_per_node" : "", link->bandwidth);
    if (link->launch != NULL)
        fprintf(out, ", launch: %s", link->launch);
    fprintf(out, ", latency: %s%s", link->latency, whole_node ? ", rails: false" : "");
    if (curve != NULL && is_there(folder, "../curves", curve))
        fprintf(out, ",\n     efficiency: ../curves/%s", curve);
    else if (curve != NULL)
        write_curve(out, curve);
    fputs("}\n", out);
}

/* Writes the network between nodes, once for each level of switches. */
static void write_network(FILE *out, const struct sw_import *import, const char *folder)
{
    const struct sw_catalog_link *network = import->sheet != NULL ? &import->sheet->network : NULL;
    const bool known = network != NULL && network->name != NULL;
    struct sw_catalog_link link = known ? *network : import->has_gpus ? gpu_port : core_port;
    char text[256], spans[16];
    if (known)
        snprintf(text, sizeof text,
                 "assumed: the network that these accelerators usually have, as in "
                 "configs/clusters/%s; a controller does not know its speed",
                 import->sheet->cluster);
    else
        snprintf(text, sizeof text,
                 "a guess: one port of %s for a node; a controller does not "
                 "know its speed",
                 link.bandwidth);
    write_comment(out, 2, text);
    for (int32_t i = 0; i < import->levels; i++) {
        snprintf(spans, sizeof spans, "%d", import->level[i].nodes * import->per_node);
        snprintf(text, sizeof text, "%d nodes %s (the controller's topology)",
                 import->level[i].nodes,
                 import->level[i].block ? "in one block" : "under one switch");
        write_comment(out, 2, text);
        link.name = import->level[i].name;
        write_link(out, spans, !known, &link, folder);
    }
    if (import->levels > 0)
        write_comment(out, 2,
                      import->level[0].block
                          ? "assumed: as fast between these blocks; write oversubscription where "
                            "less joins them. slurm.segment keeps a job's nodes in one block"
                          : "assumed: as fast between these switches; write oversubscription "
                            "where the uplinks have less");
    link.name = import->levels > 0 ? "spine" : known ? network->name : "network";
    write_link(out, "all", !known, &link, folder);
}

static void write_links(FILE *out, const struct sw_import *import, const char *folder)
{
    const struct sw_catalog_link *inside =
        import->sheet != NULL ? &import->sheet->inside : &unknown_inside;
    char text[256];
    if (import->nodes * import->per_node <= 1)
        return; /* one accelerator needs none */
    fputs("links:\n", out);
    if (import->per_node > 1) {
        if (import->sheet != NULL)
            snprintf(text, sizeof text,
                     "assumed: what joins these accelerators inside a node usually, as in "
                     "configs/clusters/%s",
                     import->sheet->cluster);
        else
            snprintf(text, sizeof text, "a guess: a PCIe 4.0 x16 slot each");
        write_comment(out, 2, text);
        write_link(out, "node", false, inside, folder);
    }
    if (import->nodes > 1)
        write_network(out, import, folder);
}

struct written_key {
    const char *key;
    char value[32];
};
enum { TOPOLOGY_KEYS = 3 };

/* Keys of slurm about the topology. Returns their number. */
static int32_t topology_keys(const struct sw_import *import, struct written_key out[TOPOLOGY_KEYS])
{
    static const char *const words[] = {
        [SW_TOPOLOGY_FLAT] = "flat", [SW_TOPOLOGY_TREE] = "tree", [SW_TOPOLOGY_BLOCK] = "block"};
    int32_t count = 0;
    if (import->topology == SW_TOPOLOGY_UNKNOWN)
        return 0;
    out[count].key = "topology";
    snprintf(out[count++].value, sizeof out->value, "%s", words[import->topology]);
    const int32_t size = import->block_nodes + import->leaf_nodes; /* one of them is set */
    if (size > 0) {
        out[count].key = import->block_nodes > 0 ? "block_nodes" : "leaf_nodes";
        snprintf(out[count++].value, sizeof out->value, "%d", (int)size);
    }
    if (import->switch_wait_s > 0) {
        out[count].key = "max_switch_wait";
        snprintf(out[count++].value, sizeof out->value, "%.0f s", import->switch_wait_s);
    }
    return count;
}

static void write_slurm(FILE *out, const struct sw_import *import)
{
    char text[128];
    struct written_key keys[TOPOLOGY_KEYS];
    const int32_t key_count = topology_keys(import, keys);
    fputs("slurm:\n", out);
    if (sw_text_is_slurm_version(import->version))
        fprintf(out, "  slurm_version: '%s'\n", import->version);
    fputs("  partition: ", out);
    write_text(out, import->partition);
    for (int32_t i = 0; i < key_count; i++)
        fprintf(out, "\n  %s: %s", keys[i].key, keys[i].value);
    if (import->account[0] != '\0') {
        fputs("\n  account: ", out);
        write_text(out, import->account);
    }
    if (!isinf(import->max_time)) {
        format_time(import->max_time, text, sizeof text);
        fprintf(out, "\n  # the most that a job asks for\n  time: '%s'", text);
    }
    if (import->has_gpus) {
        format_gpus(import, text, sizeof text);
        fprintf(out, "\n  gpus_per_node: '%s'", text);
    }
    if (import->constraint[0] != '\0') {
        fputs("\n  constraint: ", out);
        write_text(out, import->constraint);
    }
    if (import->shared)
        fputs("\n  exclusive: false", out);
    if (import->given_mb > 0)
        fprintf(out, "\n  mem: '%" PRId64 "M'", import->given_mb);
    if (import->cpus_per_task > 0)
        fprintf(out, "\n  cpus_per_task: %d", import->cpus_per_task);
    fputc('\n', out);
}

void sw_import_write(FILE *out, const struct sw_import *import, const char *folder)
{
    char text[512];
    snprintf(text, sizeof text,
             "Read by plan import-cluster from the controller of the Slurm cluster '%s' (Slurm "
             "%s), partition '%s'. It does not know the values called assumed or a guess: 'runner "
             "calibrate' measures them.",
             import->slurm_cluster, import->version, import->partition);
    write_comment(out, 0, text);
    for (int32_t i = 0; i < import->note_count; i++) {
        snprintf(text, sizeof text, "note: %.500s", import->note[i]);
        write_comment(out, 0, text);
    }
    fprintf(out, "name: %s\nnodes: %d\naccelerators_per_node: %d\n", import->name, import->nodes,
            import->per_node);
    write_accelerator(out, import, folder);
    if (import->memory_mb > 1)
        fprintf(out, "host_memory: %" PRId64 " MiB\n", import->memory_mb);
    write_links(out, import, folder);
    fputs("launcher: slurm\n", out);
    write_slurm(out, import);
}

/* ---- Merging into an existing file ---- */

/* Sets one value; *text is replaced. why: the controller's figure, for the note ("": no note). */
static int set(struct sw_import *import, char **text, const char *path, const char *value,
               struct sw_error *err)
{
    char *old = sw_yaml_get(*text, path, err);
    if (old == NULL && err->status != SW_OK)
        return -1;
    /* quotes do not count as a difference */
    const size_t quote = value[0] == '\'';
    const size_t length = strlen(value) - 2 * quote;
    const bool same =
        old != NULL && strlen(old) == length && memcmp(old, value + quote, length) == 0;
    int status = 0;
    if (!same) {
        char *changed = sw_yaml_set(*text, path, value, err);
        status = changed != NULL ? 0 : -1;
        if (status == 0) {
            free(*text);
            *text = changed;
            status = old != NULL
                         ? sw_import_note(import, err, "%s: %.80s became %.80s", path, old, value)
                         : sw_import_note(import, err, "%s: %.80s is new", path, value);
        }
    }
    free(old);
    return status;
}

/* The number that stands at a path; -1: none. */
static double number_at(const char *text, const char *path, struct sw_error *err)
{
    char *value = sw_yaml_get(text, path, err);
    char *end = value;
    const double number = value != NULL ? strtod(value, &end) : -1;
    const bool good = value != NULL && end != value && *end == '\0';
    free(value);
    return good ? number : -1;
}

/* True if the key was written, by hand or by an earlier import. */
static bool stands(const char *text, const char *key, struct sw_error *err)
{
    char *value = sw_yaml_get(text, key, err);
    const bool there = value != NULL && strcmp(value, "true") != 0;
    free(value);
    return there;
}

static int merge_slurm(struct sw_import *import, char **text, struct sw_error *err)
{
    char value[160];
    char *time = sw_yaml_get(*text, "slurm.time", err);
    const double limit = time != NULL ? sw_slurm_time_seconds(time) : -1;
    int status = 0;
    free(time);
    snprintf(value, sizeof value, "'%.150s'", import->partition);
    status = set(import, text, "slurm.partition", value, err);
    if (status == 0 && sw_text_is_slurm_version(import->version)) {
        snprintf(value, sizeof value, "'%.30s'", import->version);
        status = set(import, text, "slurm.slurm_version", value, err);
    }
    if (status == 0 && import->has_gpus) {
        char gpus[128];
        format_gpus(import, gpus, sizeof gpus);
        snprintf(value, sizeof value, "'%s'", gpus);
        status = set(import, text, "slurm.gpus_per_node", value, err);
    }
    if (status == 0 && import->constraint[0] != '\0' && !stands(*text, "slurm.constraint", err)) {
        snprintf(value, sizeof value, "'%s'", import->constraint);
        status = set(import, text, "slurm.constraint", value, err);
    }
    if (status == 0 && import->shared && !stands(*text, "slurm.exclusive", err))
        status = set(import, text, "slurm.exclusive", "false", err);
    if (status == 0 && import->given_mb > 0 && !stands(*text, "slurm.mem", err)) {
        snprintf(value, sizeof value, "'%" PRId64 "M'", import->given_mb);
        status = set(import, text, "slurm.mem", value, err);
    }
    struct written_key keys[TOPOLOGY_KEYS];
    const int32_t key_count = topology_keys(import, keys);
    for (int32_t i = 0; status == 0 && i < key_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "slurm.%s", keys[i].key);
        status = set(import, text, path, keys[i].value, err);
    }
    /* a smaller number may be intended */
    const double cpus = number_at(*text, "slurm.cpus_per_task", err);
    if (status == 0 && import->cpus_per_task > 0 && (cpus < 0 || cpus > import->cpus_per_task)) {
        snprintf(value, sizeof value, "%d", import->cpus_per_task);
        status = set(import, text, "slurm.cpus_per_task", value, err);
    }
    if (status == 0 && !isinf(import->max_time) && (limit < 0 || limit > import->max_time)) {
        char longest[64];
        format_time(import->max_time, longest, sizeof longest);
        snprintf(value, sizeof value, "'%s'", longest);
        status = set(import, text, "slurm.time", value, err);
    }
    return status;
}

/* Notes values that stay although the controller has others. */
static int note_kept(struct sw_import *import, const char *text, struct sw_error *err)
{
    char *accelerator = sw_yaml_get(text, "accelerator", err);
    char *name = sw_yaml_get(text, "accelerator.name", err);
    const char *shown = accelerator != NULL ? sw_path_name(accelerator) : name;
    int status = 0;
    if (shown != NULL && import->sheet != NULL && strstr(shown, import->sheet->name) == NULL)
        status = sw_import_note(import, err,
                                "accelerator: %.100s is kept; the controller's '%s' "
                                "would be %s",
                                shown, import->gpu_type, import->sheet->name);
    for (int32_t i = 0; status == 0 && i < import->levels; i++)
        status = sw_import_note(import, err,
                                "links are kept; %d nodes, %d accelerators, are %s: see that a "
                                "link spans them",
                                import->level[i].nodes, import->level[i].nodes * import->per_node,
                                import->level[i].block ? "in one block" : "under one switch");
    free(accelerator);
    free(name);
    return status;
}

char *sw_import_merge(struct sw_import *import, const char *text, struct sw_error *err)
{
    char value[64];
    char *out = strdup(text);
    if (out == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while merging a cluster");
        return NULL;
    }
    snprintf(value, sizeof value, "%d", import->nodes);
    int status = set(import, &out, "nodes", value, err);
    snprintf(value, sizeof value, "%d", import->per_node);
    if (status == 0)
        status = set(import, &out, "accelerators_per_node", value, err);
    char *memory = status == 0 ? sw_yaml_get(out, "host_memory", err) : NULL;
    if (status == 0 && memory == NULL && import->memory_mb > 1) {
        snprintf(value, sizeof value, "%" PRId64 " MiB", import->memory_mb);
        status = set(import, &out, "host_memory", value, err);
    }
    free(memory);
    if (status == 0 && import->named)
        status = set(import, &out, "accelerator",
                     import->accelerator != NULL ? import->accelerator : import->sheet->name, err);
    if (status == 0)
        status = merge_slurm(import, &out, err);
    if (status == 0)
        status = note_kept(import, out, err);
    if (status == 0 && err->status == SW_OK)
        return out;
    free(out);
    return NULL;
}
