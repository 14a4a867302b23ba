/* `plan check` and `plan schema`. */
#include "planner/command.h"

#include <inttypes.h>
#include <string.h>

/* A run's mesh_dim and rules are only understood by trying them. */
static int check_run(const char *path, const struct sw_run_config *run)
{
    struct sw_search search = {0};
    struct sw_error err = {0};
    if (sw_search_run(run, &search, &err) != 0)
        return sw_command_fail(&err);
    int status = SW_OK;
    if (search.feasible == 0)
        status = sw_command_unmet(run, &search);
    else
        printf("%s: ok, a run: %d of %d meshes fit\n", path, search.feasible, search.count);
    sw_search_free(&search);
    return status;
}

static int check_plan(const char *path)
{
    struct sw_plan plan = {0};
    struct sw_program_options options;
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    int status = SW_OK;
    if (sw_plan_read(path, &plan, &err) != 0)
        return sw_command_fail(&err);
    if (sw_plan_program_options(plan.run, &plan.decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &program, &err) != 0) {
        sw_fail_context(&err, "%s", path);
        status = sw_command_fail(&err);
        goto out;
    }
    if (sw_program_digest(program) != plan.program_digest) {
        sw_fail(&err, SW_BAD_INPUT,
                "%s: error: this version of plan makes another program of it; write it again with "
                "'plan emit'",
                path);
        status = sw_command_fail(&err);
        goto out;
    }
    printf("%s: ok, a plan, digest %016" PRIx64 "\n", path, plan.digest);
out:
    sw_program_free(program);
    sw_plan_free(&plan);
    return status;
}

static int check_file(const struct sw_options *options, const char *path)
{
    static const char *const names[] = {"a model", "an accelerator", "a cluster", "a run",
                                        "a plan"};
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read(path, SW_CONFIG_UNKNOWN, options->override, options->override_count, &err);
    if (config == NULL)
        return sw_command_fail(&err);
    const enum sw_config_kind kind = sw_config_get_kind(config);
    int status = SW_OK;
    if (sw_command_diagnose(config, true) > 0)
        status = SW_BAD_INPUT;
    else if (kind == SW_CONFIG_PLAN)
        status = check_plan(path);
    else if (kind == SW_CONFIG_RUN)
        status = check_run(path, sw_config_run(config));
    else
        printf("%s: ok, %s\n", path, kind < SW_CONFIG_UNKNOWN ? names[kind] : "a description");
    sw_config_free(config);
    return status;
}

/* Of several files' exit codes the gravest: the environment, then bad input, then a run that fits
 * nowhere. */
int sw_command_check(const struct sw_options *options)
{
    struct sw_error err = {0};
    int status = SW_OK;
    if (options->file_count == 0) {
        sw_fail(&err, SW_BAD_INPUT, "which files? as in 'plan check configs/runs/*.yaml'");
        return sw_command_fail(&err);
    }
    for (int32_t i = 0; i < options->file_count; i++) {
        const int one = check_file(options, options->files[i]);
        status = one > status ? one : status;
    }
    return status;
}

int sw_command_schema(const struct sw_options *options)
{
    static const char *const names[] = {"model", "accelerator", "cluster", "run"};
    static const enum sw_config_kind kinds[] = {SW_CONFIG_MODEL, SW_CONFIG_ACCELERATOR,
                                                SW_CONFIG_CLUSTER, SW_CONFIG_RUN};
    struct sw_error err = {0};
    if (options->file_count != 1) {
        sw_fail(&err, SW_BAD_INPUT, "one kind: 'plan schema model|accelerator|cluster|run'");
        return sw_command_fail(&err);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(options->files[0], names[i]) == 0) {
            sw_config_schema(stdout, kinds[i]);
            return SW_OK;
        }
    const char *near = sw_command_nearest(options->files[0], names, 4);
    if (near != NULL)
        sw_fail(&err, SW_BAD_INPUT, "no schema '%.40s'; did you mean '%s'?", options->files[0],
                near);
    else
        sw_fail(&err, SW_BAD_INPUT, "no schema '%.40s'; use model, accelerator, cluster or run",
                options->files[0]);
    return sw_command_fail(&err);
}
