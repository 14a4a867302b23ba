/* The checks between Slurm's settings. */
#include "core/base/device.h"
#include "planner/scheduler/slurm/internal_settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY "slurm"
enum { SOON_VERSION = 2205, SEGMENT_VERSION = 2405 };

static bool refuse(struct sw_config *c, const struct node *at, const char *message,
                   const char *help)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, help);
    return false;
}

static bool is_launcher_of(const struct sw_cluster_config *cluster)
{
    return cluster->launchers != NULL &&
           cluster->launchers->row[cluster->launcher] == &sw_launcher_slurm;
}

const struct sw_slurm_config *sw_slurm_settings(const struct sw_cluster_config *cluster)
{
    return sw_cluster_settings(cluster, &sw_launcher_slurm);
}

static const char *variable_is_taken(const char *name)
{
    static const char *const prefixes[] = {"SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMI2_", "PMIX_"};
    /* variables that tune Slurm's PMIx plugin and PMIx itself */
    if (strncmp(name, "SLURM_PMIX_", 11) == 0 || strncmp(name, "PMIX_MCA_", 9) == 0)
        return NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return "belongs to Slurm";
    return NULL;
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

/* Position of a setting: in the run, in the cluster, or none (the run as a whole). */
static const struct node *place_of(const struct checking *k, const char *key, const char *inside)
{
    const struct node *maps[] = {sw_node_find(k->root, KEY),
                                 sw_node_find(k->c->keys->cluster_root, KEY)};
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
        {"segment", "segment", k->slurm->segment > 0, SEGMENT_VERSION},
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

/* Refuses a size of another topology than the cluster's, and a segment that no block can hold. */
static void check_topology(struct checking *k)
{
    const struct sw_slurm_config *s = k->slurm;
    const struct {
        const char *key, *topology;
        bool used;
        enum sw_slurm_topology wanted;
    } sizes[] = {
        {"block_nodes", "block", s->block_nodes > 0, SW_TOPOLOGY_BLOCK},
        {"leaf_nodes", "tree", s->leaf_nodes > 0, SW_TOPOLOGY_TREE},
        {"max_switch_wait", "tree", s->max_switch_wait_s > 0, SW_TOPOLOGY_TREE},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].used && s->topology != sizes[i].wanted)
            fail(k, place_of(k, sizes[i].key, NULL),
                 sw_config_format(k->c, "'%s' is of 'topology: %s'", sizes[i].key,
                                  sizes[i].topology),
                 sw_config_format(k->c, "set 'topology: %s', or leave it out", sizes[i].topology));
    if (s->topology == SW_TOPOLOGY_BLOCK && s->block_nodes > 0 && s->segment > s->block_nodes)
        fail(k, place_of(k, "segment", NULL),
             sw_config_format(k->c, "'segment' is %d nodes, and a block has %d ('block_nodes')",
                              (int)s->segment, (int)s->block_nodes),
             "use a smaller one, or leave it out, and it follows from the plan");
}

/* Checks the run's continuation against the job's own settings. */
static void check_continue(struct checking *k)
{
    if (k->slurm->continues == SW_CONTINUE_REQUEUE && k->slurm->requeue == SW_REQUEUE_NO)
        fail(k, place_of(k, "requeue", NULL),
             "'continue: requeue' needs a job that may be requeued, and 'requeue' is false",
             "leave 'requeue' out, or use 'continue: chain'");
}

/* Refuses fewer GPUs than ranks: the job would start and fail. Warns of more. */
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

/* Refuses more than one: sbatch takes one of the three. */
static void check_memory(struct checking *k)
{
    static const char *const keys[] = {"mem", "mem_per_cpu", "mem_per_gpu"};
    const char *const values[] = {k->slurm->mem, k->slurm->mem_per_cpu, k->slurm->mem_per_gpu};
    int32_t last = -1;
    for (int32_t i = 0; i < 3; i++) {
        if (values[i] == NULL)
            continue;
        if (last >= 0)
            fail(k, place_of(k, keys[i], NULL),
                 sw_config_format(k->c, "'%s' and '%s' both say how much memory a job has",
                                  keys[last], keys[i]),
                 "write one of the two; in a run, null takes the cluster's away");
        last = i;
    }
    if (k->slurm->mem_per_gpu != NULL && sw_slurm_gpus(k->slurm) <= 0 &&
        !sw_device_row(k->run->cluster.accelerator.device)->allocated)
        fail(k, place_of(k, "mem_per_gpu", NULL), "'mem_per_gpu' is set, and no GPU is asked for",
             "use 'mem_per_cpu' or 'mem'");
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

/* The row that forbids an option, spelled in full or abbreviated; NULL: none. */
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

/* In --output a backslash keeps % from being expanded, and is removed from the path (seen on
 * 22.05.8): the job ends without a log. */
static void check_directory(struct checking *k)
{
    const struct node *at = written(k->root, "directory");
    if (strchr(k->run->directory, '\\') == NULL || k->c->keys->kind == SW_CONFIG_PLAN)
        return; /* a plan's settings were written before, and are not submitted again */
    fail(k, at != NULL ? at : k->root,
         sw_config_format(k->c,
                          "'directory' has a backslash, which Slurm takes out of the log's "
                          "path: %s",
                          sw_config_quote(k->c, k->run->directory)),
         "use a folder without one");
}

/* With mpirun, srun starts daemons, not ranks: settings of srun for ranks have no effect. */
static void check_mpirun(struct checking *k)
{
    static const char help[] = "leave it out, or use 'mpi: pmix'";
    const struct sw_slurm_config *s = k->slurm;
    const struct {
        const char *key;
        bool used;
    } keys[] = {
        {"srun_options", s->srun_options.count > 0},
        {"cpu_bind", s->cpu_bind != NULL},
        {"gpu_bind", s->gpu_bind != NULL},
        {"container", s->container.kind != SW_CONTAINER_NONE && s->container.image != NULL},
    };
    for (size_t i = 0; sw_slurm_is_mpirun(s->mpi) && i < sizeof keys / sizeof *keys; i++)
        if (keys[i].used)
            fail(k, place_of(k, keys[i].key, NULL),
                 sw_config_format(k->c, "'%s' is for srun, and 'mpi' is mpirun", keys[i].key),
                 help);
}

static void warn_of_mail(struct checking *k)
{
    if (k->slurm->mail_user != NULL && k->slurm->mail_type == NULL)
        sw_config_warn_at(k->c, place_of(k, "mail", "user"),
                          "no mail is sent: 'mail' has a 'user' and no 'type'",
                          "for example: mail: {type: [END, FAIL], user: me@example.org}");
}

/* Checks settings that are wrong with any cluster and run. */
static void check_settings(struct checking *k)
{
    check_version(k);
    check_topology(k);
    check_continue(k);
    check_times(k);
    check_memory(k);
    check_options(k, "directives", NULL, &k->slurm->directives);
    check_options(k, "srun_options", NULL, &k->slurm->srun_options);
    check_container(k);
    check_mpirun(k);
}

static bool check_cluster(struct sw_config *c, const struct node *root,
                          const struct sw_cluster_config *cluster)
{
    const struct sw_run_config run = {.cluster = *cluster};
    struct checking k = {c, root, &run, sw_slurm_settings(cluster), true};
    check_settings(&k);
    return k.good;
}

static bool check_run(struct sw_config *c, const struct node *root, const struct sw_run_config *run)
{
    struct checking k = {c, root, run, sw_slurm_settings(&run->cluster), true};
    check_settings(&k);
    if (is_launcher_of(&run->cluster)) {
        check_gpus(&k);
        check_directory(&k);
        warn_of_mail(&k);
    }
    return k.good;
}

static bool check_job(struct sw_config *c, const struct node *place,
                      const struct sw_run_config *run)
{
    if (sw_slurm_settings(&run->cluster)->continues != SW_CONTINUE_CHAIN)
        return true;
    return refuse(c, place, "'slurm.continue: chain' is for training",
                  "use slurm.continue: requeue");
}

/* ---- Node placement ---- */

static int32_t accelerators_of(const struct sw_cluster_config *cluster, int32_t nodes)
{
    const int64_t all = (int64_t)nodes * cluster->accelerators_per_node;
    return all > INT32_MAX ? INT32_MAX : (int32_t)all;
}

/* sbatch has --segment from 24.05 on. An unknown topology or version: no request. */
static void placement(const struct sw_cluster_config *cluster, struct sw_placement_config *out)
{
    const struct sw_slurm_config *s = sw_slurm_settings(cluster);
    const bool blocks = s->topology == SW_TOPOLOGY_BLOCK;
    out->group = accelerators_of(cluster, blocks ? s->block_nodes : s->leaf_nodes);
    out->segments = blocks && s->block_nodes > 0 && sw_slurm_release(s->version) >= SEGMENT_VERSION;
    out->groups = s->topology == SW_TOPOLOGY_TREE && s->leaf_nodes > 0;
    if (blocks && s->segment > 1 && cluster->nodes % s->segment == 0)
        out->asked = accelerators_of(cluster, s->segment);
}

/* ---- Warnings ---- */

static void warn_of_gpus(struct sw_config *c, const struct node *at,
                         const struct sw_cluster_config *cluster)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(cluster);
    const char *text = slurm->gpus_per_node;
    const int32_t per_node = cluster->accelerators_per_node;
    const int64_t gpus = sw_slurm_gpus(slurm);
    if (at == NULL || text == NULL || !is_launcher_of(cluster) ||
        !sw_device_row(cluster->accelerator.device)->allocated || gpus == per_node ||
        (gpus < per_node && c->keys->kind != SW_CONFIG_CLUSTER)) /* an error in a run */
        return;
    const char *colon = strchr(text, ':');
    const char *type = colon != NULL && strchr(text, ',') == NULL
                           ? sw_config_format(c, "%.*s:", (int)(colon - text), text)
                           : "";
    sw_config_warn_at(
        c, at,
        sw_config_format(
            c, "'gpus_per_node' asks for %" PRId64 " of a node, but 'accelerators_per_node' is %d",
            gpus, (int)per_node),
        sw_config_format(
            c, "did you mean 'gpus_per_node: %s%d', or 'accelerators_per_node: %" PRId64 "'?", type,
            (int)per_node, gpus));
}

static void warn(struct sw_config *c, const struct node *root,
                 const struct sw_cluster_config *cluster)
{
    static const char key[] = "gpus_per_node";
    const struct node *gpus = written(sw_node_find(root, KEY), key);
    warn_of_gpus(c,
                 gpus != NULL ? gpus : sw_node_find(sw_node_find(c->keys->cluster_root, KEY), key),
                 cluster);
}

const struct sw_launcher sw_launcher_slurm = {
    .name = "slurm",
    .key = KEY,
    .fields = sw_slurm_fields,
    .bytes = sizeof(struct sw_slurm_config),
    .about = "settings of the Slurm job; keys that are not written are not in the script",
    .about_in_run = "overrides of the cluster's slurm settings",
    .example_in_run = "{time: '2:00:00'}",
    .time = "time",
    .variable_is_taken = variable_is_taken,
    .variable_help = "what Slurm does is set by the other keys of 'slurm'",
    .check_cluster = check_cluster,
    .check_run = check_run,
    .check_job = check_job,
    .placement = placement,
    .warn = warn,
};

void sw_slurm_time_format(int64_t minutes, char out[SW_TIME_BYTES])
{
    const int64_t days = minutes / 1440, hours = minutes / 60 % 24;
    if (days > 0)
        snprintf(out, SW_TIME_BYTES, "%" PRId64 "-%02" PRId64 ":%02" PRId64 ":00", days, hours,
                 minutes % 60);
    else
        snprintf(out, SW_TIME_BYTES, "%" PRId64 ":%02" PRId64 ":00", hours, minutes % 60);
}
