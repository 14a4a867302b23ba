/* Measured runs from tables and logs. */
#include "core/base/file.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/programs/compile.h"
#include "planner/fit/fit.h"
#include "planner/fit/table.h"
#include "planner/scheduler/scheduler.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* True for whole numbers, also written 8.0; "16?" is 16 with an uncertain source. */
static bool is_whole(const char *text)
{
    double value;
    const size_t bytes = strlen(text), doubt = bytes > 1 && text[bytes - 1] == '?';
    return sw_fit_parse(text, bytes - doubt, &value) && floor(value) == value && fabs(value) < 1e18;
}

/* The whole number of a field that passed check_numbers; `fallback` if empty. */
static int64_t number(const struct sw_fit_table *t, const char *name, int64_t fallback)
{
    const char *text = sw_fit_cell(t, name);
    return *text == '\0' ? fallback : (int64_t)strtod(text, NULL);
}

/* Columns of whole numbers, if not empty. */
static const char *const whole_columns[] = {
    "d_model",     "n_heads",          "n_layers", "d_ff",      "n_kv_heads", "vocab", "seq_len",
    "n_params",    "n_gpus",           "dp",       "fsdp",      "tp",         "sp_cp", "grad_accum",
    "micro_batch", "local_batch_seqs", "pp",       "zero_stage"};

static int check_numbers(const struct sw_fit_table *t, struct sw_error *err)
{
    double value;
    const char *rate = sw_fit_cell(t, "tok_s_gpu");
    for (size_t i = 0; i < sizeof whole_columns / sizeof whole_columns[0]; i++) {
        const char *name = whole_columns[i], *text = sw_fit_cell(t, name);
        if (*text != '\0' && !is_whole(text))
            return sw_fit_refuse(sw_fit_place(t, name), name, "whole number", text, err);
    }
    if (*rate == '\0' || sw_fit_parse(rate, strlen(rate), &value))
        return 0;
    return sw_fit_refuse(sw_fit_place(t, "tok_s_gpu"), "tok_s_gpu", "number", rate, err);
}

/* Reports all missing columns of the header at once: no row has them. */
static int check_columns(const struct sw_fit_table *t, struct sw_error *err)
{
    static const char *const needed[][2] = {{"tok_s_gpu", NULL},
                                            {"n_gpus", NULL},
                                            {"seq_len", NULL},
                                            {"micro_batch", "local_batch_seqs"},
                                            {"gpu", "cluster"}};
    char missing[128] = "";
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!sw_fit_table_has(t, needed[i][0]) &&
            (needed[i][1] == NULL || !sw_fit_table_has(t, needed[i][1])))
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s%s%s",
                     missing[0] != '\0' ? ", " : "", needed[i][0],
                     needed[i][1] != NULL ? " or " : "", needed[i][1] != NULL ? needed[i][1] : "");
    }
    if (missing[0] == '\0')
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, sw_fit_place(t, ""),
                      "a table of runs lacks columns: %s; 'plan fit --help' says what each is",
                      missing);
}

static bool starts(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* True if every part of the label's first word is a part of the accelerator's name: "h100_80gb"
 * matches "h100-sxm-80gb". */
static bool label_matches(const char *label, const char *name)
{
    while (*label != '\0' && !isspace((unsigned char)*label)) {
        size_t bytes = 0;
        while (isalnum((unsigned char)label[bytes]))
            bytes++;
        bool found = bytes == 0;
        for (const char *at = name; *at != '\0' && !found;) {
            size_t part = strcspn(at, "-_.");
            found = part == bytes && strncasecmp(at, label, bytes) == 0;
            at += part + (at[part] != '\0');
        }
        if (!found)
            return false;
        label += bytes + (bytes == 0);
    }
    return true;
}

const struct sw_cluster_config *sw_fit_cluster_of(const struct sw_config *config)
{
    const struct sw_run_config *run = sw_config_run(config);
    return run != NULL ? &run->cluster : sw_config_cluster(config);
}

/* Finds a cluster by the row's name for it, else by its accelerator's. */
static const struct sw_cluster_config *find_cluster(const struct sw_fit_set *set, const char *name,
                                                    const char *label)
{
    for (int32_t i = 0; i < set->config_count; i++) {
        const struct sw_cluster_config *c = sw_fit_cluster_of(set->config[i]);
        if (c != NULL &&
            (*name != '\0' ? strcmp(name, c->name) == 0
                           : *label != '\0' && label_matches(label, c->accelerator.name)))
            return c;
    }
    return NULL;
}

static const struct sw_model_config *find_model(const struct sw_fit_set *set, const char *name)
{
    for (int32_t i = 0; i < set->config_count; i++) {
        const struct sw_run_config *run = sw_config_run(set->config[i]);
        const struct sw_model_config *m =
            run != NULL ? &run->model : sw_config_model(set->config[i]);
        if (m == NULL || m->path == NULL)
            continue;
        const char *file = sw_path_name(m->path);
        const size_t bytes = strlen(name);
        if (strncmp(file, name, bytes) == 0 && file[bytes] == '.')
            return m;
    }
    return NULL;
}

/* Makes a model from its sizes. An MLP of two matrices 4 h wide is mapped to our gated one of three
 * with as many parameters, 8/3 h rounded to 64. */
static bool model_by_sizes(const struct sw_fit_table *t, struct sw_model *m)
{
    const char *notes = sw_fit_cell(t, "arch_notes");
    const char *vocabulary = strstr(notes, "vocab"), *mlp = strstr(notes, "mlp");
    const int64_t h = number(t, "d_model", 0), heads = number(t, "n_heads", 0),
                  layers = number(t, "n_layers", 0), width = number(t, "d_ff", 0),
                  kv_heads = number(t, "n_kv_heads", heads),
                  words = number(t, "vocab",
                                 vocabulary != NULL ? strtoll(vocabulary + 5, NULL, 10) : 0);
    if (h < 2 || h > (1 << 24) || heads < 1 || h % heads != 0 || layers < 1 || layers > 10000 ||
        kv_heads < 1 || kv_heads > heads || heads % kv_heads != 0 || (width <= 0 && mlp == NULL))
        return false;
    const double times = width > 0 ? (double)width / (double)h : strtod(mlp + 3, NULL);
    if (!(times > 0 && times < 64))
        return false;
    *m = (struct sw_model){.vocab_size = words,
                           .hidden_size = h,
                           .layers = (int32_t)layers,
                           .heads = (int32_t)heads,
                           .kv_heads = (int32_t)kv_heads,
                           .head_dim = (int32_t)(h / heads),
                           .max_position_embeddings = number(t, "seq_len", 1),
                           .rope.theta = 10000,
                           .rms_norm_eps = 1e-5,
                           .initializer_range = 0.02};
    const bool gated = strcmp(sw_fit_cell(t, "mlp"), "gated") == 0;
    m->intermediate_size =
        gated ? width : (int64_t)(times * 2.0 / 3.0 * (double)h / 64.0 + 0.5) * 64;
    if (m->intermediate_size < 1 || m->vocab_size < 2 || m->vocab_size > 1 << 30)
        return false;
    /* tied or not: whichever is nearer to the row's number of parameters */
    const double table = (double)m->vocab_size * (double)h;
    const double rest = (double)layers * (4.0 * (double)h * (double)h +
                                          3.0 * (double)h * (double)m->intermediate_size);
    const double given = (double)number(t, "n_params", 0);
    const char *tied = sw_fit_cell(t, "tied_embeddings");
    m->tied = *tied != '\0' ? strcmp(tied, "yes") == 0 : given > 0 && given < rest + 1.5 * table;
    return true;
}

/* Skips a row; t (NULL: no table) and the column that causes it. */
static void skip(const struct sw_fit_table *t, struct sw_fit_run *r, const char *column,
                 const char *why)
{
    if (t != NULL)
        r->place = sw_fit_place(t, column);
    sw_text_shown(why, sizeof r->skipped - 4, r->skipped); /* it may quote the table */
}

static const double most_tokens = (double)(INT64_C(1) << 40);

/* Tables of ZeRO-1 and 2 count all ranks that share a batch as dp: those split the state, and are
 * our fsdp. A row's own fsdp gives the part that does. */
static void read_zero(const struct sw_fit_table *t, struct sw_fit_run *r, int64_t *dp,
                      int64_t *fsdp)
{
    const int64_t zero = number(t, "zero_stage", 3);
    r->run.zero = zero == 1 ? SW_ZERO_1 : zero == 2 ? SW_ZERO_2 : SW_ZERO_3;
    r->run.reshard_after_forward = true;
    if (r->run.zero == SW_ZERO_3 || *fsdp > 1)
        return;
    *fsdp = *dp;
    *dp = 1;
}

/* Reads sizes of the mesh and the batch. */
static int read_layout(const struct sw_fit_table *t, struct sw_fit_run *r, struct sw_error *err)
{
    const int64_t ranks = number(t, "n_gpus", 0), sequence = number(t, "seq_len", 0);
    const int64_t tp = number(t, "tp", 1), sp = number(t, "sp_cp", 1);
    int64_t dp = number(t, "dp", 1);
    int64_t fsdp = number(t, "fsdp", dp > 0 && tp > 0 && sp > 0 ? ranks / dp / tp / sp : 0);
    const int64_t accumulation = number(t, "grad_accum", 1);
    const int64_t micro = number(t, "micro_batch", number(t, "local_batch_seqs", 0));
    if (ranks < 1 || ranks > (1 << 24) || sequence < 1 || micro < 1 || accumulation < 1 || dp < 1 ||
        tp < 1 || sp < 1 || fsdp < 1 || dp > ranks || fsdp > ranks || tp > ranks || sp > ranks)
        return sw_fit_fail_row(t, err, "a row needs n_gpus, seq_len and micro_batch of at least 1");
    if (sequence > 1 << 30 || micro > 1 << 16 || accumulation > 1 << 16)
        return sw_fit_fail_row(t, err, "seq_len, micro_batch or grad_accum is too large");
    /* numbers of tokens and bytes must fit into 64 bits */
    if ((double)ranks * (double)micro * (double)accumulation * (double)sequence > most_tokens)
        return sw_fit_fail_row(t, err, "more tokens in a step than 2^40");
    read_zero(t, r, &dp, &fsdp);
    /* in doubles, since four columns may have any size */
    const bool whole = (double)dp * (double)fsdp * (double)tp * (double)sp == (double)ranks;
    r->accelerators = (int32_t)ranks;
    r->decision = (struct sw_decision){
        .mesh = sw_mesh_make((int32_t)dp, (int32_t)fsdp, (int32_t)tp, (int32_t)sp),
        .train.micro_batch_size = micro,
        .train.accumulation_steps = accumulation,
        .train.strategy = SW_ATTENTION_RING,
        .train.layout = SW_ZIGZAG,
        .train.sharding = sw_plan_sharding(&r->run)};
    r->run.sequence_length = sequence;
    r->run.global_batch_size = whole ? dp * fsdp * micro * accumulation : 0;
    r->run.micro_batch_size = micro;
    r->run.mesh_dim = "auto";
    r->run.name = "measured";
    r->run.compute = SW_BF16_T;
    r->run.params = SW_F32;
    r->run.reduce = strcmp(sw_fit_cell(t, "reduce"), "bf16") == 0 ? SW_BF16_T : SW_F32;
    r->run.optimizer.grad_clip = 1;
    r->decision.train.residual_seq_tp = strcmp(sw_fit_cell(t, "residual_seq"), "sp+tp") == 0;
    if (!whole && number(t, "pp", 1) == 1)
        skip(t, r, "n_gpus", "dp x fsdp x tp x sp is not the number of accelerators");
    return 0;
}

/* Gives the cluster the run's number of nodes. */
static void fit_cluster(struct sw_cluster_config *c, int32_t ranks)
{
    if (ranks < c->accelerators_per_node)
        c->accelerators_per_node = ranks;
    c->nodes = (ranks + c->accelerators_per_node - 1) / c->accelerators_per_node;
    if (c->link_count > 0 && c->link[c->link_count - 1].spans < ranks)
        c->link[c->link_count - 1].spans = ranks;
}

/* Rejects rates above the peak: units were mixed up, or one figure is for all accelerators. */
static int check_rate(const struct sw_fit_table *t, struct sw_fit_run *r, struct sw_error *err)
{
    struct sw_program_options options;
    double flops;
    const struct sw_accelerator_config *chip = &r->run.cluster.accelerator;
    if (r->skipped[0] != '\0')
        return 0;
    if (sw_plan_program_options(&r->run, &r->decision, &options, err) != 0 ||
        sw_program_model_flops(&options, &flops, err) != 0)
        return -1;
    const double most = chip->peak_bf16_flops * (double)r->program->tokens_per_step / flops;
    if (r->measured <= most)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, sw_fit_place(t, "tok_s_gpu"),
                      "'tok_s_gpu' of %g is %.3g times what the peak of %s allows this model, "
                      "%.4g: give tokens per second of one accelerator, and check the model's "
                      "sizes",
                      r->measured, r->measured / most, chip->name, most);
}

static int compile(struct sw_fit_run *r, struct sw_error *err)
{
    struct sw_program_options options;
    char detail[256], help[256];
    if (sw_plan_program_options(&r->run, &r->decision, &options, err) != 0)
        return -1;
    if (sw_program_admits(&options, detail, help) != SW_FITS) {
        skip(NULL, r, "", detail);
        return 0;
    }
    sw_program_free(r->program);
    r->program = NULL;
    if (sw_program_compile(&options, SW_LAID_OUT, &r->program, err) != 0)
        return -1;
    r->memory_bytes = r->program->arena_bytes + r->run.cluster.accelerator.reserved_memory_bytes;
    return 0;
}

static const double usual_headroom = 0.05;

static bool leaves_headroom(const struct sw_fit_run *r)
{
    return r->memory_bytes <=
           (1 - usual_headroom) * (double)r->run.cluster.accelerator.memory_bytes;
}

/* "selective" differs between frameworks: all values up to attention's result, or if that does not
 * fit, everything. */
static int compile_selective(struct sw_fit_run *r, struct sw_error *err)
{
    struct sw_layer_values values;
    if (sw_program_layer_values(&r->run.model.shape, NULL, &values, err) != 0)
        return -1;
    r->decision.train.recompute = sw_recompute_all(sw_layer_values_before(values, "y"));
    if (compile(r, err) != 0)
        return -1;
    if (r->skipped[0] != '\0' || leaves_headroom(r))
        return 0;
    r->decision.train.recompute = sw_recompute_full();
    snprintf(r->note, sizeof r->note, "selective recomputation priced as full");
    return compile(r, err);
}

/* If the row does not give recomputation and the program that keeps everything leaves no headroom:
 * recomputes norms and the MLP's product, as fused kernels do. */
static int compile_untold(struct sw_fit_run *r, struct sw_error *err)
{
    static const struct sw_name_config names[] = {{.name = "n1"}, {.name = "n2"}, {.name = "h"}};
    const struct sw_recompute_config fused = {
        .values = {names, sizeof names / sizeof names[0], false}, .layers = SW_ALL_LAYERS};
    struct sw_layer_values values;
    r->decision.train.recompute = sw_recompute_none();
    if (compile(r, err) != 0)
        return -1;
    if (r->skipped[0] != '\0' || leaves_headroom(r))
        return 0;
    if (sw_program_layer_values(&r->run.model.shape, NULL, &values, err) != 0)
        return -1;
    if (sw_plan_recompute(&fused, &values, &r->decision.train.recompute, NULL) != 0)
        return 0;
    snprintf(r->note, sizeof r->note, "norms and h priced as made again");
    return compile(r, err);
}

/* Compiles with the row's recomputation. */
static int compile_level(const struct sw_fit_table *t, struct sw_fit_run *r, struct sw_error *err)
{
    const char *level = sw_fit_cell(t, "act_ckpt");
    if (starts(level, "selective"))
        return compile_selective(r, err);
    if (*level == '\0')
        return compile_untold(r, err);
    r->decision.train.recompute = strcmp(level, "True") == 0 || starts(level, "full")
                                      ? sw_recompute_full()
                                      : sw_recompute_none();
    return compile(r, err);
}

static void name_group(struct sw_fit_run *r)
{
    snprintf(r->group, sizeof r->group, "%s%s%s", r->software, *r->software != '\0' ? " on " : "",
             r->run.cluster.accelerator.name);
}

static void skip_cluster(const struct sw_fit_table *t, struct sw_fit_run *r, const char *gpu)
{
    const char *cluster = sw_fit_cell(t, "cluster");
    char why[sizeof r->skipped];
    if (*cluster != '\0')
        snprintf(why, sizeof why, "no cluster '%.60s' was given", cluster);
    else
        snprintf(why, sizeof why, "no cluster was given with accelerator '%.60s'", gpu);
    skip(t, r, *cluster != '\0' ? "cluster" : "gpu", why);
}

static int read_run(struct sw_fit_set *set, const struct sw_fit_table *t, struct sw_fit_run *r,
                    struct sw_error *err)
{
    const char *model = sw_fit_cell(t, "model"), *gpu = sw_fit_cell(t, "gpu");
    const char *precision = sw_fit_cell(t, "precision"), *fp8 = sw_fit_cell(t, "fp8");
    const char *software = sw_fit_cell(t, "software");
    r->place = sw_fit_place(t, "");
    r->measured = strtod(sw_fit_cell(t, "tok_s_gpu"), NULL);
    snprintf(r->model, sizeof r->model, "%s", model);
    if (*sw_fit_cell(t, "skip") != '\0') {
        snprintf(r->label, sizeof r->label, "%.20s %.12s", model, gpu);
        skip(t, r, "skip", sw_fit_cell(t, "skip"));
        return 0;
    }
    if (check_numbers(t, err) != 0)
        return -1;
    if (!(r->measured > 0))
        return sw_fit_fail_row(t, err, "a row needs tok_s_gpu, tokens per second and accelerator");
    if (*software != '\0' && !sw_text_is_name(software)) /* it becomes a profile's name */
        return sw_fit_refuse(sw_fit_place(t, "software"), "software",
                             "name of letters, digits, '.', '_' or '-'", software, err);
    if (read_layout(t, r, err) != 0)
        return -1;
    snprintf(r->label, sizeof r->label, "%.20s %.12s x%d s%" PRId64 " b%" PRId64, model, gpu,
             r->accelerators, r->run.sequence_length, r->decision.train.micro_batch_size);
    if (strstr(precision, "fp8") != NULL || (*fp8 != '\0' && strcmp(fp8, "0") != 0))
        skip(t, r, *fp8 != '\0' ? "fp8" : "precision", "fp8, which is not supported");
    else if (number(t, "pp", 1) != 1)
        skip(t, r, "pp", "pipeline parallelism, which is not supported");
    const struct sw_cluster_config *cluster = find_cluster(set, sw_fit_cell(t, "cluster"), gpu);
    const struct sw_model_config *known = find_model(set, model);
    if (r->skipped[0] != '\0')
        return 0;
    if (cluster == NULL) {
        skip_cluster(t, r, gpu);
        return 0;
    }
    r->run.cluster = *cluster;
    snprintf(r->software, sizeof r->software, "%s", software);
    name_group(r);
    fit_cluster(&r->run.cluster, r->accelerators);
    r->run.model.path = t->path;
    if (known != NULL)
        r->run.model = *known;
    else if (!model_by_sizes(t, &r->run.model.shape)) {
        skip(t, r, "model", "no model file of that name was given, and the row has no sizes");
        return 0;
    }
    return compile_level(t, r, err) != 0 ? -1 : check_rate(t, r, err);
}

int sw_fit_add_config(struct sw_fit_set *set, struct sw_config *config, struct sw_error *err)
{
    if (set->config_count == SW_FIT_MAX_CONFIGS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d descriptions", SW_FIT_MAX_CONFIGS);
    set->config[set->config_count++] = config;
    return 0;
}

static struct sw_fit_run *add_run(struct sw_fit_set *set, struct sw_error *err)
{
    if (set->count == set->capacity) {
        const int32_t capacity = set->capacity == 0 ? 64 : 2 * set->capacity;
        struct sw_fit_run *grown = realloc(set->run, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory while reading measurements");
            return NULL;
        }
        set->run = grown;
        set->capacity = capacity;
    }
    struct sw_fit_run *r = &set->run[set->count++];
    memset(r, 0, sizeof *r);
    return r;
}

/* Drops the last run, which has a mistake; NULL: none was added. */
static void drop(struct sw_fit_set *set, struct sw_fit_run *r)
{
    if (r == NULL)
        return;
    sw_program_free(r->program);
    set->count--;
}

bool sw_fit_has_column(const char *path, const char *column)
{
    struct sw_fit_table *t = sw_fit_table_open(path, NULL);
    const bool found = t != NULL && sw_fit_table_has(t, column);
    sw_fit_table_close(t);
    return found;
}

static int add_row(struct sw_fit_set *set, const struct sw_fit_table *t, struct sw_error *err)
{
    struct sw_fit_run *r = add_run(set, err);
    if (r != NULL && read_run(set, t, r, err) == 0)
        return 0;
    drop(set, r);
    return -1;
}

int sw_fit_read_csv(struct sw_fit_set *set, const char *path, struct sw_error *err)
{
    struct sw_fit_table *t = sw_fit_table_open(path, err);
    const int32_t before = set->mistakes.count;
    int status = -1, read;
    bool any = false;
    if (t == NULL || check_columns(t, err) != 0)
        goto out;
    do {
        struct sw_error why = {0};
        read = sw_fit_table_next(t, &why);
        any = any || read != 0;
        if (read > 0 && set->count == SW_FIT_MOST_RUNS) {
            sw_fail_at(err, SW_BAD_INPUT, sw_fit_place(t, ""),
                       "more than %d runs; give fewer, such as medians of those that are alike",
                       SW_FIT_MOST_RUNS);
            goto out;
        }
        if (read > 0)
            (void)add_row(set, t, &why);
        if (why.status == SW_ENVIRONMENT) {
            sw_fail_as(err, &why);
            goto out;
        }
        if (why.status != SW_OK)
            sw_fit_mistake(&set->mistakes, &why);
    } while (read != 0);
    if (set->mistakes.count > before)
        sw_fail_as(err, &set->mistakes.error[before]);
    else
        status = any ? 0 : sw_fit_no_rows(t, err);
out:
    sw_fit_table_close(t);
    return status;
}

/* The median of `step_seconds` after the first two steps, which warm up. */
static int median_step(const char *path, double *out, struct sw_error *err)
{
    enum { WARM_STEPS = 2 };
    static const char key[] = "\"step_seconds\":";
    char line[SW_FIT_LINE_BYTES];
    int32_t lines = 0, seen = 0, count = 0, capacity = 0;
    int status = -1, read;
    double *steps = NULL;
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path}, "cannot read it: %s",
                          strerror(errno));
    while ((read = sw_fit_read_line(path, in, lines++, line, err)) > 0) {
        const char *at = strstr(line, key);
        if (at == NULL || strstr(line, "\"step\":") == NULL || seen++ < WARM_STEPS)
            continue;
        void *room = sw_fit_room(steps, count, &capacity, sizeof *steps, err);
        if (room == NULL)
            goto out;
        steps = room;
        steps[count] = strtod(at + sizeof key - 1, NULL);
        count += steps[count] > 0 && isfinite(steps[count]);
    }
    if (read < 0)
        goto out;
    if (count == 0) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, seen + 1, 1},
                   "fewer than %d steps; let it run longer", WARM_STEPS + 1);
        goto out;
    }
    qsort(steps, (size_t)count, sizeof *steps, sw_compare_doubles);
    *out = steps[count / 2];
    status = 0;
out:
    fclose(in);
    free(steps);
    return status;
}

int sw_fit_read_metrics(struct sw_fit_set *set, const char *plan_path, const char *metrics_path,
                        struct sw_error *err)
{
    double seconds;
    char mesh[64];
    if (set->plan_count == SW_FIT_MAX_CONFIGS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d plans", SW_FIT_MAX_CONFIGS);
    if (median_step(metrics_path, &seconds, err) != 0)
        return -1;
    struct sw_plan *plan = &set->plan[set->plan_count];
    if (sw_plan_read(plan_path, &sw_launchers, plan, err) != 0)
        return -1;
    set->plan_count++;
    struct sw_fit_run *r = add_run(set, err);
    if (r == NULL)
        return -1;
    r->run = *plan->run;
    r->place = (struct sw_place){.file = metrics_path};
    r->decision = plan->decision;
    snprintf(r->software, sizeof r->software, "shardwright");
    name_group(r);
    r->accelerators = sw_mesh_rank_count(&plan->decision.mesh);
    snprintf(r->model, sizeof r->model, "%s %s", plan->run->name,
             sw_mesh_format(&plan->decision.mesh, mesh, sizeof mesh));
    snprintf(r->label, sizeof r->label, "%s b%" PRId64, r->model,
             r->decision.train.micro_batch_size);
    r->measured = (double)plan->run->global_batch_size * (double)plan->run->sequence_length /
                  (seconds * r->accelerators);
    return compile(r, err);
}

void sw_fit_free(struct sw_fit_set *set)
{
    if (set == NULL)
        return;
    for (int32_t i = 0; i < set->count; i++)
        sw_program_free(set->run[i].program);
    for (int32_t i = 0; i < set->config_count; i++)
        sw_config_free(set->config[i]);
    for (int32_t i = 0; i < set->plan_count; i++)
        sw_plan_free(&set->plan[i]);
    free(set->run);
    free(set->mistakes.error);
    memset(set, 0, sizeof *set);
}
