/* `runner` as a user starts it: exit codes, messages, metrics, alone and under mpirun.
 *
 *   test_runner RUNNER FOLDER MPIRUN|none */
#include "core/plan/plan.h"
#include "core/programs/program_set.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { TEXT_BYTES = 4000, MAX_STEPS = 64 };

static const char *runner, *mpirun;
static char folder[2048]; /* made for this run, set by main; the working directory */

/* What one test wants to run. */
struct job {
    const char *name;      /* of the plan and the folder of its results */
    struct sw_mesh mesh;   /* as planned */
    const char *data;      /* path */
    const char *optimizer; /* more keys of the optimizer */
    double holdout;
    int32_t total_steps, evaluate_every_steps;
    uint64_t digest_change[SW_PROGRAM_KINDS]; /* added to the programs' digests */
};

static struct job job_of(const char *name, int32_t dp, int32_t fsdp, int32_t tp, int32_t sp)
{
    return (struct job){.name = name,
                        .mesh = sw_mesh_make(dp, fsdp, tp, sp),
                        .data = "text.txt",
                        .optimizer = "learning_rate: 1.0e-2, min_learning_rate: 1.0e-3, "
                                     "warmup_steps: 2",
                        .total_steps = 8};
}

/* ---- Making plans ---- */

static struct sw_config *read_run(const struct job *job)
{
    char text[4096];
    struct sw_error err = {0};
    const int32_t ranks = sw_mesh_rank_count(&job->mesh);
    const int bytes = snprintf(
        text, sizeof text,
        "name: %s\n"
        "model: {vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
        "num_attention_heads: 4, num_key_value_heads: 2, initializer_range: 0.05}\n"
        "cluster:\n  name: c\n  nodes: 1\n  accelerators_per_node: %d\n"
        "  accelerator: {name: a, device: cpu, memory: 2 GB, peak: {fp32: 100 GFLOP/s}, "
        "memory_bandwidth: 10 GB/s}\n"
        "  links:\n    - {name: l, spans: %d, bandwidth: 1 GB/s, latency: 1 us}\n"
        "  launcher: mpirun\n"
        "sequence_length: 32\nglobal_batch_size: 8\n"
        "precision: {compute: fp32, params: fp32, reduce: fp32}\n"
        "optimizer: {type: adamw, %s, total_steps: %d}\n"
        "data: {path: %s, seed: 3, holdout: %g}\n"
        "evaluate: {every_steps: %d}\n"
        "directory: %s\n",
        job->name, (int)ranks, (int)ranks, job->optimizer, (int)job->total_steps, job->data,
        job->holdout, (int)job->evaluate_every_steps, job->name);
    struct sw_config *config =
        sw_config_read_text("run.yaml", text, (size_t)bytes, SW_CONFIG_RUN, NULL, NULL, 0, &err);
    assert_non_null(config);
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++)
        sw_diagnostic_print(stderr, sw_config_diagnostic(config, i), false);
    assert_int_equal(sw_config_error_count(config), 0);
    return config;
}

/* Writes NAME.plan.yaml. */
static void make_plan(const struct job *job)
{
    struct sw_error err = {0};
    struct sw_config *config = read_run(job);
    const struct sw_run_config *run = sw_config_run(config);
    const int64_t shards = (int64_t)job->mesh.size[SW_DP] * job->mesh.size[SW_FSDP];
    const struct sw_decision decision = {.mesh = job->mesh,
                                         .train.micro_batch_size = 4 / shards, /* two micro-steps */
                                         .train.accumulation_steps = 2,
                                         .train.recompute = sw_recompute_none(),
                                         .train.strategy = SW_ATTENTION_RING,
                                         .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program_set *programs = NULL;
    if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
        sw_program_set_compile(&options, &programs, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_plan_prediction prediction = {0.001, programs->arena_bytes,
                                                  programs->arena_bytes, 0};
    uint64_t digests[SW_PROGRAM_KINDS];
    sw_program_set_digests(programs, digests);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        digests[k] += job->digest_change[k];
    char path[512];
    snprintf(path, sizeof path, "%s.plan.yaml", job->name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(sw_plan_write(file, run, NULL, &decision, &prediction, digests, NULL, &err),
                     0);
    fclose(file);
    sw_program_set_free(programs);
    sw_config_free(config);
}

/* ---- Running ---- */

static char output[1 << 16]; /* of the last command, stdout and stderr */

static int run_command(const char *command)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect_exit(int code, const char *format, ...)
{
    char command[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    const int status = run_command(command);
    if (status != code)
        fail_msg("exit code %d instead of %d: %s\n%s", status, code, command, output);
}

static void expect_output(const char *wanted)
{
    if (strstr(output, wanted) == NULL)
        fail_msg("'%s' is not in:\n%s", wanted, output);
}

static int32_t occurrences(const char *text, const char *what)
{
    int32_t count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

/* "mpirun -np RANKS" with what a container and a small machine need. A job that hangs is ended.
 * Leaks are looked for in the runs of one rank only: MPI unloads the modules that leak, so that no
 * suppression can name them. */
static const char *launch(int32_t ranks)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" timeout -k 5 100 %s "
             "%s --bind-to none --oversubscribe --mca "
             "mpi_yield_when_idle 1 --mca btl self,vader -np %d",
             mpirun, geteuid() == 0 ? "--allow-run-as-root" : "", (int)ranks);
    return text;
}

/* ---- Metrics ---- */

struct metrics {
    int32_t headers, steps, holdouts, saves;
    double loss[MAX_STEPS], grad_norm[MAX_STEPS], rate[MAX_STEPS], mfu[MAX_STEPS];
    double holdout_bits, bigram_bits;
    char header[1024];
};

static double number_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    if (at == NULL)
        fail_msg("no %s in %s", key, line);
    return strtod(at + strlen(key), NULL);
}

static struct metrics read_metrics(const char *name)
{
    struct metrics m = {0};
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/metrics.jsonl", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        assert_int_equal(line[strlen(line) - 1], '\n');
        assert_int_equal(line[strlen(line) - 2], '}');
        if (strstr(line, "\"schema\":\"shardwright.metrics/1\"") != NULL) {
            memcpy(m.header, line, sizeof line);
            m.headers++;
        } else if (strstr(line, "\"checkpoint_step\":") != NULL) {
            m.saves++;
            assert_true(number_after(line, "\"checkpoint_bytes\":") > 0);
            assert_true(number_after(line, "\"durable_seconds\":") > 0);
        } else if (strstr(line, "held_out") != NULL) {
            m.holdouts++;
            m.holdout_bits = number_after(line, "\"held_out_bits_per_token\":");
            m.bigram_bits = number_after(line, "\"bigram_bits_per_token\":");
            assert_int_equal((int64_t)number_after(line, "\"step\":"), m.steps);
        } else {
            assert_in_range(m.steps, 0, MAX_STEPS - 1);
            assert_int_equal((int64_t)number_after(line, "\"step\":"), m.steps + 1);
            assert_int_equal((int64_t)number_after(line, "\"tokens\":"), 8 * 32);
            m.loss[m.steps] = number_after(line, "\"loss\":");
            m.grad_norm[m.steps] = number_after(line, "\"grad_norm\":");
            m.rate[m.steps] = number_after(line, "\"learning_rate\":");
            m.mfu[m.steps] = number_after(line, "\"mfu\":");
            assert_true(number_after(line, "\"tokens_per_second\":") > 0);
            assert_true(number_after(line, "\"arena_bytes\":") > 0);
            m.steps++;
        }
    }
    fclose(file);
    return m;
}

static int32_t count_lines(const char *path)
{
    int32_t lines = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int c = fgetc(file); c != EOF; c = fgetc(file))
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* ---- Tests ---- */

static void test_words(void **state)
{
    (void)state;
    expect_exit(0, "%s --help", runner);
    expect_output("\n  runner train        train what a plan says\n");
    assert_null(strstr(output, "--listen")); /* an option of one command */
    expect_exit(0, "%s help serve", runner);
    expect_output("usage: runner serve NAME.plan.yaml");
    expect_output("--listen ADDRESS");
    expect_exit(2, "%s --verison 2>&1", runner);
    assert_string_equal(output,
                        "runner: error: unknown command '--verison'; did you mean '--version'?\n");
    expect_exit(0, "%s --version", runner);
    expect_output("oneDNN");
    expect_exit(0, "%s --version --json", runner);
    expect_output("\"schema\": \"shardwright.version/1\",");
    expect_exit(2, "%s --version --json=1 2>&1", runner);
    assert_string_equal(
        output, "runner: error: unknown argument '--json=1' of --version; it takes --json\n");
#ifdef __x86_64__
    expect_exit(0, "DNNL_MAX_CPU_ISA=SSE41 %s --version", runner);
    expect_output(", SSE4.1; own kernels, ");
#endif
    expect_exit(3, "%s --help 2>&1 >/dev/full", runner);
    assert_string_equal(output,
                        "runner: error: cannot write the output: No space left on device\n");
    expect_exit(2, "%s 2>&1", runner);
    assert_string_equal(output, "runner: error: give a command; see 'runner --help'\n");
    expect_exit(2, "%s trian 2>&1", runner);
    assert_string_equal(output, "runner: error: unknown command 'trian'; did you mean 'train'?\n");
    expect_exit(2, "%s train 2>&1", runner);
    assert_string_equal(
        output, "runner train: error: train needs a plan file; see 'runner train --help'\n");
    expect_exit(2, "%s train --stpes 3 p 2>&1", runner);
    assert_string_equal(output, "runner train: error: unknown option '--stpes'; did you mean "
                                "'--steps'?\n");
    expect_exit(2, "%s train p --steps 3x 2>&1", runner);
    assert_string_equal(output,
                        "runner train: error: --steps must be a whole number from 1, not '3x'; "
                        "see 'runner train --help'\n");
    expect_exit(2, "%s train p --steps 2>&1", runner);
    assert_string_equal(
        output, "runner train: error: --steps needs a value: N; see 'runner train --help'\n");
    expect_exit(2, "%s train p q 2>&1", runner);
    assert_string_equal(
        output,
        "runner train: error: one plan at a time, not also 'q'; see 'runner train --help'\n");
    expect_exit(2, "%s train '' 2>&1", runner);
    assert_string_equal(
        output, "runner train: error: train needs a plan file; see 'runner train --help'\n");
    expect_exit(2, "%s tokenize --bytes text.txt '' 2>&1", runner);
    assert_string_equal(
        output, "runner: error: tokenize takes --bytes or --tokenizer FILE, then IN... OUT.bin; "
                "see 'runner tokenize --help'\n");
    expect_exit(2, "%s export a 2>&1", runner);
    assert_string_equal(output,
                        "runner: error: export takes CHECKPOINT OUT; see 'runner export --help'\n");
    expect_exit(2, "%s export absent out 2>&1", runner);
    assert_string_equal(output, "absent: error: No such file or directory; a Hugging Face model "
                                "directory or a checkpoint is needed\n");
    expect_exit(2, "%s calibrate a.yaml 2>&1", runner);
    assert_string_equal(
        output,
        "runner calibrate: error: unexpected argument 'a.yaml'; see 'runner calibrate --help'\n");
    expect_exit(0, "%s calibrate --help", runner);
    expect_output("usage: runner calibrate -o PROFILE.yaml [OPTIONS]");
    /* said before anything is measured */
    expect_exit(2, "%s calibrate -o . 2>&1", runner);
    assert_string_equal(output, "runner: error: '.' is not a regular file; name a file to write\n");
    /* once per job, not once per rank */
    expect_exit(2, "OMPI_COMM_WORLD_RANK=1 %s trian 2>&1", runner);
    assert_string_equal(output, "");
    expect_exit(2, "%s train absent.plan.yaml 2>&1", runner);
    assert_string_equal(output, "absent.plan.yaml: error: cannot open the plan: No such file or "
                                "directory; name a NAME.plan.yaml that 'plan emit' wrote\n");
    expect_exit(2, "%s tokenize text.txt 2>&1", runner);
    assert_string_equal(
        output, "runner: error: tokenize takes --bytes or --tokenizer FILE, then IN... OUT.bin; "
                "see 'runner tokenize --help'\n");
}

static void test_one_rank(void **state)
{
    (void)state;
    struct job job = job_of("one", 1, 1, 1, 1);
    job.holdout = 0.1;
    job.total_steps = 40;
    make_plan(&job);
    expect_exit(0, "%s train one.plan.yaml 2>&1", runner);
    expect_output("training one: 40 steps of 256 tokens on mesh 1,1,1,1 (1 rank)");
    expect_output("step 40/40  loss ");
    expect_output("held-out: ");
    const struct metrics m = read_metrics("one");
    assert_int_equal(m.headers, 1);
    assert_int_equal(m.steps, 40);
    assert_int_equal(m.holdouts, 1);
    assert_non_null(strstr(m.header, "\"plan_digest\":\""));
    assert_non_null(strstr(m.header, "\"predicted_step_seconds\":0.001"));
    assert_non_null(strstr(m.header, "\"predicted_memory\":"));
    assert_non_null(strstr(m.header, "\"versions\":{\"shardwright\":\""));
    /* a uniform guess costs log(256); the text has 8 letters of which each fixes the next */
    assert_true(fabs(m.loss[0] - log(256)) < 0.5);
    assert_true(m.loss[39] < 1.5);
    assert_true(fabs(m.rate[0] - 5e-3) < 1e-9 && fabs(m.rate[39] - 1e-3) < 1e-9);
    assert_true(m.mfu[39] > 0 && m.mfu[39] < 2); /* the peak is not this machine's */
    /* the held-out text is like the rest: about the last loss in bits, and the bigram knows it */
    assert_true(fabs(m.holdout_bits - m.loss[39] / log(2)) < 0.5);
    assert_true(m.bigram_bits > 0 && m.bigram_bits < 2);
    /* again: the same losses, appended after a header of their own */
    expect_exit(0, "%s train one.plan.yaml --resume none --overwrite --steps 2 >quiet.txt 2>&1",
                runner);
    char path[] = "one/metrics.jsonl", line[1024];
    FILE *file = fopen(path, "r");
    int32_t lines = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (++lines == 45)
            assert_true(number_after(line, "\"loss\":") == m.loss[0]);
    fclose(file);
    assert_int_equal(lines, 43 + 5);
    /* quietly: the same steps are written, and nothing is said */
    expect_exit(0, "%s train one.plan.yaml --resume none --overwrite --steps 2 --quiet 2>&1",
                runner);
    assert_string_equal(output, "");
    file = fopen(path, "r");
    for (lines = 0; fgets(line, sizeof line, file) != NULL;)
        lines++;
    fclose(file);
    assert_int_equal(lines, 43 + 5 + 5);
    expect_exit(0, "%s train one.plan.yaml --steps 2 --quiet 2>&1", runner); /* is finished */
    assert_string_equal(output, "");
}

/* Started without standard streams, as some daemons do it: what it says goes nowhere, and above all
 * into no file that got the number of one. */
static void test_without_streams(void **state)
{
    (void)state;
    struct job job = job_of("closed", 1, 1, 1, 1);
    char line[1024];
    int32_t lines = 0;
    job.total_steps = 4;
    make_plan(&job);
    expect_exit(0, "%s train closed.plan.yaml <&- >&- 2>&-", runner);
    FILE *file = fopen("closed/metrics.jsonl", "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        assert_int_equal(line[0], '{');
    fclose(file);
    assert_int_equal(lines, 6); /* a header, four steps, the end */
    expect_exit(0, "%s checkpoint verify closed 2>&1", runner);
}

/* Every mesh reads the same sequences and reaches the same losses. */
static void test_meshes(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0)
        skip();
    static const int32_t sizes[][4] = {{1, 1, 1, 1}, {2, 1, 1, 2}, {1, 2, 2, 1}, {1, 2, 2, 2}};
    struct metrics first = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "mesh%d", (int)i);
        struct job job = job_of(name, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
        job.holdout = 0.05;
        make_plan(&job);
        expect_exit(0, "%s %s train %s.plan.yaml 2>&1", launch(sw_mesh_rank_count(&job.mesh)),
                    runner, name);
        assert_int_equal(occurrences(output, "training mesh"), 1); /* rank 0 speaks */
        assert_int_equal(occurrences(output, "held-out: "), 1);
        const struct metrics m = read_metrics(name);
        assert_int_equal(m.steps, 8);
        assert_int_equal(m.holdouts, 1);
        if (i == 0)
            first = m;
        /* docs/architecture.md, How we know: fp32, relative 1e-5 for the first five steps, 1e-4 for
         * all */
        for (int32_t s = 0; s < 8; s++)
            assert_true(fabs(m.loss[s] - first.loss[s]) <= (s < 5 ? 1e-5 : 1e-4) * first.loss[s]);
        assert_true(fabs(m.holdout_bits - first.holdout_bits) <= 1e-4 * first.holdout_bits);
    }
}

/* Evaluating on the way moves nothing and changes no bit of what is trained, on any mesh: its
 * transients lie where training's do. */
static void test_evaluates_on_the_way(void **state)
{
    (void)state;
    static const int32_t sizes[][4] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 2}, {1, 2, 2, 2}};
    const size_t count = strcmp(mpirun, "none") == 0 ? 1 : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++) {
        struct metrics m[2];
        for (int32_t on_the_way = 0; on_the_way < 2; on_the_way++) {
            char name[32];
            snprintf(name, sizeof name, "way%d%d", (int)i, (int)on_the_way);
            struct job job = job_of(name, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
            job.holdout = 0.05;
            job.evaluate_every_steps = on_the_way ? 3 : 0;
            make_plan(&job);
            const int32_t ranks = sw_mesh_rank_count(&job.mesh);
            expect_exit(0, "%s %s train %s.plan.yaml 2>&1", ranks > 1 ? launch(ranks) : "", runner,
                        name);
            m[on_the_way] = read_metrics(name);
            assert_int_equal(m[on_the_way].steps, 8);
        }
        assert_int_equal(m[0].holdouts, 1);
        assert_int_equal(m[1].holdouts, 3); /* after steps 3, 6 and 8 */
        for (int32_t s = 0; s < 8; s++)
            assert_true(m[0].loss[s] == m[1].loss[s] && m[0].grad_norm[s] == m[1].grad_norm[s]);
        assert_true(m[0].holdout_bits == m[1].holdout_bits);
    }
}

/* What is behind PLAN of every command that sets up a rank of a plan; none gets so far as to look.
 */
static const struct {
    const char *name, *arguments;
    enum sw_program_kind first; /* of its programs */
} on_ranks[] = {{"train", "", SW_PROGRAM_TRAIN},
                {"evaluate", "--checkpoint none", SW_PROGRAM_TRAIN},
                {"preflight", "", SW_PROGRAM_TRAIN},
                {"generate", "--checkpoint none --prompt a", SW_PROGRAM_PREFILL},
                {"score", "text.txt --checkpoint none", SW_PROGRAM_SCORE},
                {"serve", "--checkpoint none --listen 127.0.0.1:0", SW_PROGRAM_PREFILL}};
enum { ON_RANKS = sizeof on_ranks / sizeof on_ranks[0] };

/* `serve` is left out where the build has no HTTP. */
static bool is_built(const char *command)
{
    if (strcmp(command, "serve") != 0)
        return true;
    expect_exit(0, "%s --version", runner);
    return strstr(output, "HTTP: none") == NULL;
}

static void test_wrong_plans(void **state)
{
    (void)state;
    struct job job = job_of("two", 1, 2, 1, 1);
    make_plan(&job);
    for (int32_t c = 0; c < ON_RANKS; c++) {
        if (!is_built(on_ranks[c].name))
            continue;
        expect_exit(2, "%s %s two.plan.yaml %s 2>&1", runner, on_ranks[c].name,
                    on_ranks[c].arguments);
        assert_string_equal(output,
                            "two.plan.yaml: error: the plan needs 2 ranks, 1 was started; start it "
                            "with mpirun -np 2, or srun --mpi=pmix -n 2\n");
    }
    if (strcmp(mpirun, "none") != 0) {
        expect_exit(2, "%s %s train two.plan.yaml 2>&1", launch(3), runner);
        expect_output("two.plan.yaml: error: the plan needs 2 ranks, 3 were started; start it ");
        assert_int_equal(occurrences(output, "the plan needs"), 1); /* not once per rank */
        job = job_of("single", 1, 1, 1, 1);
        make_plan(&job);
        expect_exit(2, "%s %s train single.plan.yaml 2>&1", launch(3), runner);
        expect_output("single.plan.yaml: error: the plan needs 1 rank, 3 were started; start it "
                      "with mpirun -np 1, or srun --mpi=pmix -n 1\n");
    }
    expect_exit(0, "sed 's/sequence_length: 32/sequence_length: 64/' two.plan.yaml "
                   ">edited.plan.yaml");
    expect_exit(2, "%s train edited.plan.yaml 2>&1", runner);
    expect_output("edited.plan.yaml:3:10: error: the plan was changed after it was written");
}

static void expect_another(int32_t command, enum sw_program_kind kind)
{
    char said[256];
    snprintf(said, sizeof said,
             ":3: error: this version makes another '%s' program of the plan than the version that "
             "wrote it, or numbers it otherwise; write it again with 'plan emit': its checkpoints "
             "can be resumed\n",
             sw_program_kind_name(kind));
    expect_exit(2, "%s %s other.plan.yaml %s 2>&1", runner, on_ranks[command].name,
                on_ranks[command].arguments);
    assert_memory_equal(output, "other.plan.yaml:", strlen("other.plan.yaml:"));
    assert_string_equal(strstr(output, ":3: "), said);
}

static void test_other_programs(void **state)
{
    (void)state;
    struct job job = job_of("other", 1, 1, 1, 1);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        if (sw_program_traits((enum sw_program_kind)k)->state != SW_STATE_TRAINING)
            continue;
        memset(job.digest_change, 0, sizeof job.digest_change);
        job.digest_change[k] = 1;
        make_plan(&job);
        expect_another(0, (enum sw_program_kind)k);
    }
    for (int32_t c = 1; c < ON_RANKS; c++) {
        memset(job.digest_change, 0, sizeof job.digest_change);
        job.digest_change[on_ranks[c].first] = 1;
        make_plan(&job);
        if (is_built(on_ranks[c].name))
            expect_another(c, on_ranks[c].first);
    }
    assert_int_equal(access("other/metrics.jsonl", F_OK), -1);
}

/* srun without --mpi=pmix starts tasks that know nothing of each other. */
static void test_srun_without_mpi(void **state)
{
    (void)state;
    struct job job = job_of("srun", 1, 1, 1, 1);
    make_plan(&job);
    const char *const tasks = "env -u OMPI_COMM_WORLD_SIZE -u PMIX_RANK -u PMI_RANK -u PMI2_RANK "
                              "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID";
    expect_exit(2, "%s=0 %s train srun.plan.yaml 2>&1", tasks, runner);
    assert_string_equal(output,
                        "runner: error: srun started 2 tasks without MPI; use srun --mpi=pmix\n");
    expect_exit(2, "%s=1 %s train srun.plan.yaml 2>&1", tasks, runner);
    assert_string_equal(output, "");
}

/* Tokens 0 to 6, but for 260 at one position. */
static void write_large_token(const char *path, int32_t count, int32_t position)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int32_t i = 0; i < count; i++) {
        const unsigned char token[2] = {(unsigned char)(i == position ? 4 : i % 7),
                                        i == position ? 1 : 0};
        fwrite(token, 2, 1, file);
    }
    fclose(file);
}

static void test_wrong_data(void **state)
{
    (void)state;
    struct job job = job_of("nodata", 1, 1, 1, 1);
    job.data = "absent.txt";
    make_plan(&job);
    expect_exit(2, "%s train nodata.plan.yaml 2>&1", runner);
    expect_output("absent.txt: error: cannot open the data file: No such file or directory; name "
                  "one that every node has as data.path in the run file and emit the plan again\n");
    assert_int_equal(occurrences(output, "\n"), 1);
    assert_int_equal(access("nodata", F_OK), -1); /* nothing was begun */
    if (geteuid() == 0)
        return; /* root reads everything */
    expect_exit(0, "cp text.txt secret.txt && chmod 0 secret.txt");
    job.data = "secret.txt";
    make_plan(&job);
    expect_exit(3, "%s train nodata.plan.yaml 2>&1", runner);
    expect_output("secret.txt: error: cannot open the data file: Permission denied; it must be "
                  "readable on every node\n");
}

/* Behind what plan looks at; of several ranks, one reads it. Whichever does, the job says it once
 * and all its ranks leave before anything is trained. */
static void test_token_too_large(void **state)
{
    (void)state;
    static const int32_t sizes[][4] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {2, 1, 2, 1}};
    write_large_token("large.bin", 40000, 39000);
    const size_t meshes = strcmp(mpirun, "none") == 0 ? 1 : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < meshes; i++) {
        char name[32];
        snprintf(name, sizeof name, "large%d", (int)i);
        struct job job = job_of(name, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
        job.data = "large.bin";
        make_plan(&job);
        if (i == 0)
            expect_exit(2, "%s train %s.plan.yaml 2>&1", runner, name);
        else
            expect_exit(2, "%s %s train %s.plan.yaml 2>&1", launch(sw_mesh_rank_count(&job.mesh)),
                        runner, name);
        expect_output("large.bin: error: token 260 at position 39000 is not below the model's "
                      "vocab_size 256; use a model made for these tokens, or tokenize again\n");
        assert_int_equal(occurrences(output, "error: "), 1);
        assert_null(strstr(output, "MPI_ABORT"));
        assert_null(strstr(output, "step 1"));
    }
}

/* The metrics don't fit: said once, whole lines in the file, and the run goes on. A last checkpoint
 * that does not fit is an error. */
static void test_disk_full(void **state)
{
    (void)state;
    struct job job = job_of("full", 1, 1, 1, 1);
    job.total_steps = 40;
    make_plan(&job);
    expect_exit(3, "trap '' XFSZ; ulimit -f 4; %s train full.plan.yaml 2>&1", runner);
    expect_output("the checkpoint of step 40 is abandoned: ");
    expect_output(
        "runner: error: the run is done, but its last checkpoint could not be written to ");
    expect_output("full/checkpoints: cannot write 'model-00001-of-00001.safetensors': File too "
                  "large\n");
    expect_output("note: cannot write ");
    expect_output("full/metrics.jsonl: File too large; the run continues, and tries again at "
                  "every step\n");
    expect_output("step 40/40 ");
    assert_int_equal(occurrences(output, "note: "), 1);
    const struct metrics m = read_metrics("full");
    assert_in_range(m.steps, 1, 39);
    if (access("/dev/full", W_OK) != 0)
        return;
    expect_exit(0, "rm full/metrics.jsonl && ln -s /dev/full full/metrics.jsonl");
    expect_exit(0, "%s train full.plan.yaml 2>&1", runner);
    expect_output("full/metrics.jsonl: No space left on device; the run continues, and");
    assert_int_equal(occurrences(output, "note: "), 1);
    if (strcmp(mpirun, "none") == 0)
        return;
    job = job_of("full2", 1, 1, 2, 1);
    make_plan(&job);
    expect_exit(0, "mkdir full2 && ln -s /dev/full full2/metrics.jsonl");
    expect_exit(0, "%s %s train full2.plan.yaml 2>&1", launch(2), runner);
    expect_output("full2/metrics.jsonl: No space left on device; the run continues, and");
    assert_int_equal(occurrences(output, "note: "), 1);
}

static void test_no_directory(void **state)
{
    (void)state;
    struct job job = job_of("taken", 1, 1, 1, 1);
    make_plan(&job);
    expect_exit(0, "echo >taken");
    expect_exit(3, "%s train taken.plan.yaml 2>&1", runner);
    expect_output("runner: error: 'taken' is not a folder\n");
    assert_int_equal(occurrences(output, "\n"), 1);
}

/* One rank's node lacks the data: the job ends with its message instead of waiting for it. */
static void test_data_on_one_node_only(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0 || access("/proc/self/cwd", F_OK) != 0)
        skip();
    struct job job = job_of("apart", 1, 2, 1, 1);
    job.data = "/proc/self/cwd/text.txt";
    make_plan(&job);
    assert_int_equal(mkdir("elsewhere", 0777), 0);
    expect_exit(2,
                "%s %s train \"$PWD\"/apart.plan.yaml : %s -np 1 --wdir \"$PWD\"/elsewhere %s "
                "train \"$PWD\"/apart.plan.yaml 2>&1",
                launch(1), runner, geteuid() == 0 ? "--allow-run-as-root" : "", runner);
    expect_output("rank 1 (host ");
    expect_output("): /proc/self/cwd/text.txt: error: cannot open the data file: No such file or "
                  "directory; name one that every node has ");
    assert_int_equal(occurrences(output, "cannot open"), 1);
}

/* One program of two ranks: after "runner train" the first has `first`, the second
 * `second`, in that folder. */
static void expect_different(const char *command, const char *first, const char *folder_of_second,
                             const char *second, const char *message)
{
    expect_exit(2, "%s %s %s %s : %s -np 1 --wdir \"$PWD\"/%s %s %s %s 2>&1", launch(1), runner,
                command, first, geteuid() == 0 ? "--allow-run-as-root" : "", folder_of_second,
                runner, command, second);
    expect_output(message);
    assert_int_equal(occurrences(output, "error: "), 1);
}

static void test_ranks_that_differ(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0)
        skip();
    struct job job = job_of("same", 1, 2, 1, 1);
    make_plan(&job);
    expect_different(
        "train", "same.plan.yaml --steps 2", ".", "same.plan.yaml --steps 3",
        "runner: error: not every rank has the same --steps; give all of them the same\n");
    job = job_of("differs", 1, 1, 2, 1);
    make_plan(&job);
    for (int32_t c = 0; c < ON_RANKS; c++) {
        char first[128], second[128];
        snprintf(first, sizeof first, "same.plan.yaml %s", on_ranks[c].arguments);
        snprintf(second, sizeof second, "differs.plan.yaml %s", on_ranks[c].arguments);
        if (is_built(on_ranks[c].name))
            expect_different(on_ranks[c].name, first, ".", second,
                             "same.plan.yaml: error: not every rank has this plan; give all of "
                             "them the same file\n");
    }
    if (access("/proc/self/cwd", F_OK) != 0)
        return;
    job = job_of("length", 1, 2, 1, 1);
    job.data = "/proc/self/cwd/text.txt";
    make_plan(&job);
    expect_exit(0, "mkdir shorter && head -c 3000 text.txt >shorter/text.txt");
    expect_different("train", "length.plan.yaml", "shorter", "../length.plan.yaml",
                     "/proc/self/cwd/text.txt: error: the data file has another length on some "
                     "node; copy it to all\n");
}

/* Each step multiplies the weights by about -1e5: soon the softmax has one winner, and nothing is
 * learned for ever after. */
static void test_gradient_zero(void **state)
{
    (void)state;
    struct job job = job_of("nan", 1, 1, 1, 1);
    job.optimizer = "learning_rate: 1000, min_learning_rate: 0, weight_decay: 100, "
                    "schedule: constant";
    make_plan(&job);
    expect_exit(1, "%s train nan.plan.yaml 2>&1", runner);
    const char *message = strstr(output, "error: the gradient norm of step ");
    assert_non_null(message);
    char *rest;
    const long long step = strtoll(message + 33, &rest, 10);
    assert_in_range(step, 2, 8);
    assert_string_equal(rest, " is zero, so nothing is learned any more; use a lower "
                              "learning_rate or more warmup_steps\n");
    /* that step is still reported, in JSON, and is the last */
    char last[64];
    snprintf(last, sizeof last, "{\"step\":%lld,", step);
    expect_exit(0, "tail -n 1 nan/metrics.jsonl");
    expect_output(last);
    expect_exit(0, "grep -x '  \"verdict\": 1,' nan/attempt.json");
}

/* Starts the runner on NAME.plan.yaml with stderr to NAME.txt. */
static pid_t start(const char *name)
{
    char plan[256], text[256];
    snprintf(plan, sizeof plan, "%s.plan.yaml", name);
    snprintf(text, sizeof text, "%s.txt", name);
    const pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        if (freopen(text, "w", stderr) != NULL)
            execl(runner, runner, "train", plan, (char *)NULL);
        _exit(99);
    }
    return child;
}

/* Until NAME/metrics.jsonl has that many lines, or 20 s are over. */
static void wait_for_lines(const char *name, int32_t lines)
{
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", name);
    for (int32_t i = 0; i < 2000; i++) {
        if (access(path, F_OK) == 0 && count_lines(path) >= lines)
            return;
        usleep(10000);
    }
}

/* Waits for it; its stderr is in `output`. */
static int finish(pid_t child, const char *name)
{
    char text[256];
    int status;
    snprintf(text, sizeof text, "%s.txt", name);
    assert_int_equal(waitpid(child, &status, 0), child);
    FILE *file = fopen(text, "r");
    assert_non_null(file);
    output[fread(output, 1, sizeof output - 1, file)] = '\0';
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Ends `child` after so many lines of metrics. */
static int stop(pid_t child, const char *name, int signal_number)
{
    wait_for_lines(name, 3);
    kill(child, signal_number);
    return finish(child, name);
}

static void expect_attempt(const char *name, int32_t attempt, const char *verdict,
                           const char *cause)
{
    char wanted[600];
    expect_exit(0, "cat %s/attempt.json", name);
    snprintf(wanted, sizeof wanted, "  \"attempt\": %d,\n  \"verdict\": %s,\n", (int)attempt,
             verdict);
    expect_output(wanted);
    snprintf(wanted, sizeof wanted, "  \"cause\": \"%s", cause);
    expect_output(wanted);
}

/* A signal ends the run after the current step; more of them within a second are the same one. */
static void test_signal(void **state)
{
    (void)state;
    struct job job = job_of("stop", 1, 1, 1, 1);
    job.total_steps = 1000000;
    make_plan(&job);
    const pid_t child = start("stop");
    wait_for_lines("stop", 3);
    kill(child, SIGTERM);
    kill(child, SIGINT);
    kill(child, SIGTERM);
    assert_int_equal(finish(child, "stop"), 143);
    const char *heard = strstr(output, ": stops after step ");
    assert_non_null(heard);
    assert_null(strstr(heard + 1, ": stops after step ")); /* once */
    const char *line = strstr(output, "stopped after step ");
    assert_non_null(line);
    assert_non_null(strstr(line, " of 1000000; the checkpoint is in "));
    /* the last line of the metrics is that step */
    char last[64];
    snprintf(last, sizeof last, "{\"step\":%lld,", strtoll(line + 19, NULL, 10));
    expect_exit(0, "tail -n 2 stop/metrics.jsonl");
    expect_output(last);
    expect_attempt("stop", 1, "143", "SIGTERM, after step ");
    expect_exit(0, "head -n 1 stop/metrics.jsonl");
    expect_output("\"attempt\":1,");
}

static void test_verdicts(void **state)
{
    (void)state;
    struct job job = job_of("ends", 1, 1, 1, 1);
    job.total_steps = 1000000;
    make_plan(&job);
    assert_int_equal(stop(start("ends"), "ends", SIGINT), 130);
    expect_attempt("ends", 1, "130", "SIGINT, after step ");
    expect_exit(0, "rm ends/metrics.jsonl");
    assert_int_equal(stop(start("ends"), "ends", SIGUSR1), 75);
    expect_attempt("ends", 2, "75", "the checkpoint signal, after step ");
    expect_exit(0, "rm ends/metrics.jsonl");
    assert_int_equal(stop(start("ends"), "ends", SIGHUP), 143);
    expect_attempt("ends", 3, "143", "SIGHUP, after step ");
    expect_exit(0, "head -n 1 ends/metrics.jsonl");
    expect_output("\"attempt\":3,");
    /* a killed watcher takes its rank along, and nothing says how that ended */
    expect_exit(0, "rm ends/metrics.jsonl");
    assert_int_equal(stop(start("ends"), "ends", SIGKILL), 137);
    expect_attempt("ends", 4, "null", "");
    expect_exit(0, "%s train ends.plan.yaml --steps 2 2>&1", runner);
    expect_attempt("ends", 5, "0", "every step was done");
    /* a broken file counts as none, and no claim of an earlier attempt with that number does */
    expect_exit(0, "echo '{\"attempt\": 7' >ends/attempt.json && touch ends/.attempt-1.ended");
    expect_exit(0, "%s train ends.plan.yaml --steps 1 2>&1", runner);
    expect_output("note: ");
    expect_output("ends/attempt.json: line 2: ");
    expect_output("; this counts as the first attempt\n");
    expect_attempt("ends", 1, "0", "every step was done");
    expect_exit(1, "ls -A ends | grep ended"); /* nothing is left */
}

/* The rank, not its watcher, dies: one line, and the verdict. */
static void test_rank_dies(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *exit_code, *words;
    } deaths[] = {
        {SIGKILL, "3", "ended by signal 9 (Killed) after step "},
        {SIGSEGV, "3", "ended by signal 11 (Segmentation fault) after step "},
        {SIGBUS, "76", "ended by signal 7 (Bus error) after step "},
    };
    struct job job = job_of("dies", 1, 1, 1, 1);
    job.total_steps = 1000000;
    make_plan(&job);
    /* a sanitizer would report these signals and leave with a code of its own */
    const char *usual = getenv("ASAN_OPTIONS");
    char options[512];
    snprintf(options, sizeof options, "%s:handle_segv=0:handle_sigbus=0",
             usual != NULL ? usual : "");
    assert_int_equal(setenv("ASAN_OPTIONS", options, 1), 0);
    for (int32_t i = 0; i < 3; i++) {
        char cause[512], host[256] = "";
        assert_int_equal(gethostname(host, sizeof host - 1), 0);
        expect_exit(0, "rm -f dies/metrics.jsonl");
        const pid_t child = start("dies");
        wait_for_lines("dies", 3);
        expect_exit(0, "kill -%d $(cat /proc/%d/task/%d/children)", deaths[i].number, (int)child,
                    (int)child);
        assert_int_equal(finish(child, "dies"), atoi(deaths[i].exit_code));
        snprintf(cause, sizeof cause, "rank 0 (host %s): error: %s", host, deaths[i].words);
        expect_output(cause);
        assert_int_equal(occurrences(output, "error: "), 1);
        snprintf(cause, sizeof cause, "rank 0 (host %s): %s", host, deaths[i].words);
        expect_attempt("dies", i + 1, deaths[i].exit_code, cause);
        snprintf(cause, sizeof cause, "\"nodes\": [\"%s\"]", host);
        expect_output(cause);
    }
    options[strlen(options) - strlen(":handle_segv=0:handle_sigbus=0")] = '\0';
    assert_int_equal(setenv("ASAN_OPTIONS", options, 1), 0);
    expect_exit(1, "ls | grep -w core");
}

/* Whoever reads standard error may go away, and so may the metrics. */
static void test_goes_on(void **state)
{
    (void)state;
    struct job job = job_of("on", 1, 1, 1, 1);
    job.total_steps = 60;
    make_plan(&job);
    expect_exit(0,
                "(%s train on.plan.yaml; echo $? >on.code) 2>&1 | head -n 1; "
                "grep -qx 0 on.code",
                runner);
    struct metrics m = read_metrics("on");
    assert_int_equal(m.steps, 60);
    job.total_steps = 1000000;
    make_plan(&job);
    expect_exit(0, "rm -r on");
    const pid_t child = start("on");
    wait_for_lines("on", 3);
    expect_exit(0, "rm on/metrics.jsonl");
    wait_for_lines("on", 3);
    expect_exit(0, "mv on/metrics.jsonl on/old.jsonl");
    wait_for_lines("on", 3);
    kill(child, SIGTERM);
    assert_int_equal(finish(child, "on"), 143);
    assert_int_equal(occurrences(output, "on/metrics.jsonl was removed; it is begun again\n"), 2);
    assert_int_equal(occurrences(output, "note: "), 2);
    expect_exit(0, "head -n 1 on/metrics.jsonl");
    expect_output("\"schema\":\"shardwright.metrics/1\"");
}

/* A signal that reaches one rank only: all stop after the same step. */
static void test_signal_to_one_rank(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0)
        skip();
    struct job job = job_of("stop2", 1, 1, 1, 2);
    job.total_steps = 1000000;
    make_plan(&job);
    expect_exit(143,
                "(for i in $(seq 2000); do sleep 0.01; "
                "[ \"$(wc -l 2>/dev/null <stop2/metrics.jsonl)\" -gt 2 ] 2>/dev/null && break; "
                "done; kill -TERM \"$(cat rank1.pid)\") & "
                "%s %s train stop2.plan.yaml : %s -np 1 sh -c 'echo $$ >rank1.pid; exec %s train "
                "stop2.plan.yaml' 2>&1",
                launch(1), runner, geteuid() == 0 ? "--allow-run-as-root" : "", runner);
    const char *line = strstr(output, "stopped after step ");
    assert_non_null(line);
    /* a header, and the checkpoint's line */
    assert_int_equal(strtoll(line + 19, NULL, 10), count_lines("stop2/metrics.jsonl") - 2);
}

/* Held-out text for minutes: the header and two steps are written before it begins. */
static struct job long_tail(const char *name, int32_t tp)
{
    struct job job = job_of(name, 1, 1, tp, 1);
    expect_exit(0, "[ -e long.txt ] || yes abcdefgh | head -c 40000000 >long.txt");
    job.data = "long.txt";
    job.holdout = 0.5;
    job.total_steps = 2;
    make_plan(&job);
    return job;
}

static void expect_no_held_out_loss(const char *name)
{
    expect_output(
        "stopped after step 2 of 2, before the held-out loss was known; the checkpoint is in ");
    assert_null(strstr(output, "held-out: "));
    const struct metrics m = read_metrics(name);
    assert_int_equal(m.steps, 2);
    assert_int_equal(m.holdouts, 0);
}

/* A signal also ends the evaluation, which then has nothing to say. */
static void test_signal_held_out(void **state)
{
    (void)state;
    long_tail("tail1", 1);
    const pid_t child = start("tail1");
    wait_for_lines("tail1", 3);
    usleep(200000);
    kill(child, SIGINT);
    assert_int_equal(finish(child, "tail1"), 130);
    expect_no_held_out_loss("tail1");
}

static void test_signal_held_out_to_one_rank(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0)
        skip();
    long_tail("tail2", 2);
    expect_exit(143,
                "(for i in $(seq 2000); do sleep 0.01; "
                "[ \"$(wc -l 2>/dev/null <tail2/metrics.jsonl)\" -gt 2 ] 2>/dev/null && break; "
                "done; sleep 0.2; kill -TERM \"$(cat tail.pid)\") & "
                "%s %s train tail2.plan.yaml : %s -np 1 sh -c 'echo $$ >tail.pid; exec %s train "
                "tail2.plan.yaml' 2>&1",
                launch(1), runner, geteuid() == 0 ? "--allow-run-as-root" : "", runner);
    expect_no_held_out_loss("tail2");
}

/* One rank is gone: the others do not wait for it. */
static void test_killed_rank(void **state)
{
    (void)state;
    if (strcmp(mpirun, "none") == 0)
        skip();
    struct job job = job_of("killed", 1, 2, 2, 1);
    job.total_steps = 1000000;
    make_plan(&job);
    expect_exit(137,
                "(for i in $(seq 2000); do sleep 0.01; "
                "[ \"$(wc -l 2>/dev/null <killed/metrics.jsonl)\" -gt 2 ] 2>/dev/null && break; "
                "done; kill -KILL \"$(cat killed.pid)\") & "
                "%s %s train killed.plan.yaml : %s -np 1 sh -c 'echo $$ >killed.pid; exec %s train "
                "killed.plan.yaml' 2>&1",
                launch(3), runner, geteuid() == 0 ? "--allow-run-as-root" : "", runner);
    expect_output("signal 9");
    expect_exit(0, "tail -c 2 killed/metrics.jsonl");
    assert_string_equal(output, "}\n");
}

static void test_tokenize(void **state)
{
    (void)state;
    expect_exit(0, "%s tokenize --bytes text.txt text.bin 2>&1", runner);
    assert_string_equal(output, "");
    struct job job = job_of("tokens", 1, 1, 1, 1), bytes = job_of("bytes", 1, 1, 1, 1);
    job.data = "text.bin";
    make_plan(&job);
    make_plan(&bytes);
    expect_exit(0, "%s train tokens.plan.yaml --steps 2 2>&1", runner);
    /* with as many threads as it takes by itself */
    expect_exit(0, "env -u OMP_NUM_THREADS %s train bytes.plan.yaml --steps 2 2>&1", runner);
    const struct metrics a = read_metrics("tokens"), b = read_metrics("bytes");
    assert_int_equal(a.steps, 2);
    assert_true(a.loss[0] == b.loss[0] && a.loss[1] == b.loss[1]);
}

/* Words of a tokenizer are trained on like any tokens; each file ends with the token that is named.
 */
static void test_tokenize_words(void **state)
{
    (void)state;
    FILE *file = fopen("words.json", "w");
    assert_non_null(file);
    fputs("{\"added_tokens\":[{\"id\":255,\"content\":\"<end>\",\"special\":true}],"
          "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{",
          file);
    for (int c = 3; c < 255; c++) /* none is left out: an added token gets the next id */
        if (c >= 'A' && c <= 'z' && c != '\\')
            fprintf(file, "\"%c\":%d,", c, c);
        else if (c != 128 && c != 129)
            fprintf(file, "\"#%d\":%d,", c, c);
    fputs("\"#0\":0,\"\304\240\":1,\"\304\212\":2,\"th\":128,\"the\":129},"
          "\"merges\":[\"t h\",\"th e\"]}}",
          file);
    assert_int_equal(fclose(file), 0);
    expect_exit(2, "%s tokenize --tokenizer words.json --end '<eos>' text.txt w.bin 2>&1", runner);
    assert_string_equal(output, "runner: error: --end: the tokenizer has no token '<eos>'\n");
    expect_exit(2, "%s tokenize --tokenizer absent.json text.txt w.bin 2>&1", runner);
    assert_string_equal(output, "absent.json: error: cannot read the tokenizer: No such file or "
                                "directory; name a tokenizer.json\n");
    expect_exit(2, "%s tokenize --tokenizer . text.txt w.bin 2>&1", runner);
    assert_string_equal(output, ".: error: the folder has no tokenizer.json; use --bytes for "
                                "bytes\n");
    expect_exit(2, "%s tokenize --bytes --end x text.txt w.bin 2>&1", runner);
    assert_string_equal(output, "runner: error: bytes have no special tokens; leave out --end\n");
    expect_exit(2, "%s tokenize --tokenizer 2>&1", runner);
    assert_string_equal(
        output,
        "runner: error: --tokenizer needs a value: FILE or DIR; see 'runner tokenize --help'\n");
    expect_exit(2, "%s tokenize --token a b c 2>&1", runner);
    assert_string_equal(output,
                        "runner: error: unknown option '--token'; see 'runner tokenize --help'\n");
    expect_exit(0, "%s tokenize --tokenizer words.json text.txt text.txt w.bin 2>&1", runner);
    expect_output(" of 2 documents, ");
    expect_output("note: no token ends a document; name one with --end\n");
    expect_exit(0,
                "%s tokenize --tokenizer words.json --end '<end>' text.txt text.txt text.txt "
                "text.txt w.bin 2>&1",
                runner);
    expect_output(" of 4 documents, ");
    expect_output("; for a vocab_size of 256 or more\n");
    struct job job = job_of("words", 1, 1, 1, 1);
    job.data = "w.bin";
    make_plan(&job);
    expect_exit(0, "%s train words.plan.yaml --steps 2 2>&1", runner);
    assert_int_equal(read_metrics("words").steps, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_without_streams),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_evaluates_on_the_way),
        cmocka_unit_test(test_wrong_plans),
        cmocka_unit_test(test_other_programs),
        cmocka_unit_test(test_srun_without_mpi),
        cmocka_unit_test(test_wrong_data),
        cmocka_unit_test(test_token_too_large),

        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_data_on_one_node_only),
        cmocka_unit_test(test_ranks_that_differ),
        cmocka_unit_test(test_gradient_zero),
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_rank_dies),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_signal_to_one_rank),
        cmocka_unit_test(test_signal_held_out),
        cmocka_unit_test(test_signal_held_out_to_one_rank),
        cmocka_unit_test(test_killed_rank),
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_tokenize_words),
    };
    if (argc != 4) {
        fprintf(stderr, "usage: test_runner RUNNER FOLDER MPIRUN|none\n");
        return 2;
    }
    runner = argv[1];
    mpirun = argv[3];
    (void)setenv("OMP_NUM_THREADS", "1", 1); /* threads that wait burn what other tests need */
    snprintf(folder, sizeof folder, "%s/runner.XXXXXX", argv[2]);
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror(folder);
        return 1;
    }
    FILE *text = fopen("text.txt", "w");
    for (int32_t i = 0; i < TEXT_BYTES; i++)
        fputc("abcdefgh"[i % 8], text);
    fclose(text);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("/") != 0 || system(command) != 0 || failed != 0;
}
