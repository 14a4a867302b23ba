/* Limits of Slurm sites drawn at random: what plan says of a job against a naive implementation of
 * Slurm's rules (limits_draw.h), which tests/cluster/test_limits.sh holds against a controller.
 *
 *     test_limits_drawn COUNT [SEED]              compares draws
 *     test_limits_drawn write SEED COUNT SAFE N   writes them as commands, named from N, with
 * "naive 0" or 1 test_limits_drawn ask                       scripts of standard input, each ended
 * by a line "end": "1", or "0" and why, as plan says of this controller */
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/script.h"
#include "tests/property/limits_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- A draw as sacctmgr and scontrol would tell of it ---- */

static void write_field(FILE *out, const struct limits *l, enum limit limit)
{
    fputc('|', out);
    write_tres(out, l->tres[limit], "M");
}
static void write_wall(FILE *out, int64_t minutes)
{
    if (minutes >= 0)
        fprintf(out, "%02d:%02d:00", (int)(minutes / 60), (int)(minutes % 60));
}
static void write_count(FILE *out, const struct limits *l, enum count count)
{
    fputc('|', out);
    if (l->count[count] >= 0)
        fprintf(out, "%d", (int)l->count[count]);
}

static void write_qos(FILE *out, const struct qos *q, const char *name)
{
    static const enum limit first[] = {MAX_JOB, MAX_MINS, MAX_PU, MAX_PA, GRP, GRP_MINS};
    static const enum count counts[] = {GRP_JOBS,   GRP_SUBMIT, MAX_JOBS,
                                        MAX_SUBMIT, JOBS_PA,    SUBMIT_PA};
    fprintf(out, "%s|", name);
    write_wall(out, q->limits.wall);
    for (int i = 0; i < 6; i++)
        write_field(out, &q->limits, first[i]);
    fprintf(out, "|%s%s%s%s%s%s", q->deny ? "DenyOnLimit," : "", q->over ? "OverPartQOS," : "",
            q->time ? "PartitionTimeLimit," : "", q->max_nodes ? "PartitionMaxNodes," : "",
            q->min_nodes ? "PartitionMinNodes," : "", q->factor_safe ? "UsageFactorSafe" : "");
    write_field(out, &q->limits, PER_NODE);
    write_field(out, &q->limits, MIN_JOB);
    write_field(out, &q->limits, GRP_RUN);
    fputs("|||", out);
    write_wall(out, q->limits.group_wall);
    for (int i = 0; i < COUNTS; i++)
        write_count(out, &q->limits, counts[i]);
    fputc('|', out);
    if (q->limit_factor > 0)
        fprintf(out, "%f", q->limit_factor);
    fprintf(out, "|%f\n", q->usage_factor);
}

/* Limits of an association with those that it has from above, as the database makes them. */
static struct limits inherit(const struct limits *own, const struct limits *above)
{
    static const enum limit limits[] = {MAX_JOB, MAX_MINS, PER_NODE};
    static const enum count counts[] = {MAX_JOBS, MAX_SUBMIT};
    struct limits out = *own;
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < RESOURCES; r++)
            if (out.tres[limits[k]][r] < 0)
                out.tres[limits[k]][r] = above->tres[limits[k]][r];
    for (int k = 0; k < 2; k++)
        if (out.count[counts[k]] < 0)
            out.count[counts[k]] = above->count[counts[k]];
    if (out.wall < 0)
        out.wall = above->wall;
    return out;
}

static void write_association(FILE *out, const struct limits *l, const char *account,
                              const char *user, const char *parent)
{
    static const enum limit first[] = {MAX_JOB, MAX_MINS, GRP, GRP_MINS};
    static const enum count counts[] = {GRP_JOBS, GRP_SUBMIT, MAX_JOBS, MAX_SUBMIT};
    fprintf(out, "%s||b0,normal|", account);
    write_wall(out, l->wall);
    for (int i = 0; i < 4; i++)
        write_field(out, l, first[i]);
    fprintf(out, "|b0|%s|%s", user, parent);
    write_field(out, l, PER_NODE);
    write_field(out, l, GRP_RUN);
    fputc('|', out);
    write_wall(out, l->group_wall);
    for (int i = 0; i < 4; i++)
        write_count(out, l, counts[i]);
    fputc('\n', out);
}

static void read_accounting(const struct draw *d, struct sw_slurm_accounting *out)
{
    char *text[3] = {NULL};
    size_t bytes[3];
    FILE *file[3];
    struct sw_error err = {0};
    const struct limits mid = inherit(&d->mid, &d->top), user = inherit(&d->user, &mid);
    for (int i = 0; i < 3; i++)
        file[i] = open_memstream(&text[i], &bytes[i]);
    fputs("normal||||||||||||||||||||||1.000000\n", file[0]);
    if (d->part.there)
        write_qos(file[0], &d->part, "a0");
    write_qos(file[0], &d->own, "b0");
    write_association(file[1], &user, "m0", "me", "");
    fputs("root||normal||||||normal|||||||||\n", file[2]);
    write_association(file[2], &d->top, "t0", "", "root");
    write_association(file[2], &mid, "m0", "", "t0");
    for (int i = 0; i < 3; i++)
        fclose(file[i]);
    *out = (struct sw_slurm_accounting){
        .known = true, .no_run_minutes = true, .default_account = "m0"};
    sw_slurm_accounting_enforce(d->safe ? "associations,limits,qos,safe" : "limits,qos", out);
    assert_int_equal(sw_slurm_accounting_read_qos(text[0], out, &err), 0);
    assert_int_equal(sw_slurm_accounting_read_associations(text[1], false, out, &err), 0);
    assert_int_equal(sw_slurm_accounting_read_associations(text[2], true, out, &err), 0);
    for (int i = 0; i < 3; i++)
        free(text[i]);
}

/* ---- What plan says ---- */

static bool plan_admits(const struct draw *d, char why[256])
{
    struct sw_slurm_nodes nodes = {.cpus = NODE_CPUS,
                                   .sockets = 1,
                                   .cores_per_socket = NODE_CPUS,
                                   .threads_per_core = 1,
                                   .memory_mb = NODE_MEM,
                                   .gres = "gpu:h100:4",
                                   .usable = true};
    struct sw_slurm_partition p = {.name = "p0",
                                   .up = true,
                                   .max_time =
                                       d->max_time > 0 ? (double)d->max_time * 60 : INFINITY,
                                   .default_time = (double)d->default_time * 60,
                                   .max_nodes = (int32_t)d->max_nodes,
                                   .min_nodes = (int32_t)d->min_nodes,
                                   .max_cpus_per_node = (int32_t)d->max_cpus,
                                   .most = {.mb = d->max_mem, .per_cpu = d->max_mem_cpu},
                                   .given = {.mb = d->def_mem, .per_cpu = d->def_mem_cpu},
                                   .whole_nodes = d->exclusive_partition,
                                   .billing = d->weights ? "CPU=1.0,Mem=0.25G,GRES/gpu=2.0" : NULL,
                                   .qos = d->lists_other_qos ? "normal" : NULL,
                                   .own_qos = d->part.there ? "a0" : NULL};
    struct sw_error err = {0};
    struct sw_slurm_accounting accounting;
    struct sw_job_request request = {0};
    char *script = NULL;
    size_t bytes;
    assert_int_equal(sw_hosts_expand("gpu[0-3]", &nodes.hosts, &err), 0);
    assert_int_equal(sw_hosts_expand("gpu[0-3]", &p.hosts, &err), 0);
    const struct sw_slurm_facts facts = {.nodes = &nodes,
                                         .nodes_count = 1,
                                         .partition = &p,
                                         .partition_count = 1,
                                         .site = {.max_array = 1001, .whole_cores = true}};
    read_accounting(d, &accounting);
    FILE *out = open_memstream(&script, &bytes);
    write_job(out, d, "#SBATCH ", "\n", 0);
    fclose(out);
    assert_int_equal(sw_slurm_request_read(script, &request, &err), 0);
    const bool good = sw_slurm_admits(&request, &facts, &accounting, NULL, why);
    sw_job_request_free(&request);
    free(script);
    sw_slurm_accounting_free(&accounting);
    sw_hosts_free(&nodes.hosts);
    sw_hosts_free(&p.hosts);
    return good;
}

static uint64_t count = 1000, seed = 1;

static void plan_and_the_naive_rules_agree(void **state)
{
    (void)state;
    uint64_t started = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct draw d;
        char why[256];
        draw_site(seed, i, i % 2 != 0, &d);
        const bool naive = naive_starts(&d);
        started += naive;
        if (plan_admits(&d, why) == naive)
            continue;
        write_commands(stderr, &d, 0, 0);
        fail_msg("draw %d of seed %d: plan says '%s', the rules that it %s", (int)i, (int)seed, why,
                 naive ? "starts" : "never starts");
    }
    /* draws where all is one answer would prove nothing */
    assert_true(started > count / 5 && started < count * 4 / 5);
    print_message("%d draws of seed %d, %d of which start\n", (int)count, (int)seed, (int)started);
}

/* ---- For a real controller ---- */

static int ask(void)
{
    struct sw_error err = {0};
    struct sw_slurm_facts facts = {0};
    struct sw_slurm_accounting accounting = {0};
    char script[8192] = "", line[512];
    struct sw_slurm *slurm = sw_slurm_open(SW_SLURM_AUTO, &err);
    if (slurm == NULL || sw_slurm_load(slurm, &facts, &err) != 0 ||
        sw_slurm_accounting_load(slurm, &accounting, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        struct sw_job_request request = {0};
        char why[256];
        if (strcmp(line, "end\n") != 0) {
            strncat(script, line, sizeof script - strlen(script) - 1);
            continue;
        }
        const bool good = sw_slurm_request_read(script, &request, &err) == 0 &&
                          sw_slurm_admits(&request, &facts, &accounting, NULL, why);
        printf("%d %s\n", good, good ? "" : why);
        sw_job_request_free(&request);
        script[0] = '\0';
    }
    sw_slurm_accounting_free(&accounting);
    sw_slurm_facts_free(&facts);
    sw_slurm_close(slurm);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plan_and_the_naive_rules_agree)};
    if (argc == 2 && strcmp(argv[1], "ask") == 0)
        return ask();
    if (argc == 6 && strcmp(argv[1], "write") == 0) {
        for (int i = 0; i < atoi(argv[3]); i++) {
            struct draw d;
            draw_site(strtoull(argv[2], NULL, 10), (uint64_t)i, argv[4][0] == '1', &d);
            write_commands(stdout, &d, atoi(argv[5]) + i, i);
            printf("naive %d\n", naive_starts(&d));
        }
        return 0;
    }
    if (argc > 1)
        count = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
