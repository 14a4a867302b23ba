/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * plan-slurm: requests in, answers out. See plan_slurm.h. */
#include "planner/scheduler/slurm/libslurm/plan_slurm.h"

#include "core/base/error.h"
#include "core/base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_text(const char *key, const char *text)
{
    struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, key, text);
    sw_json_end(&j);
    putchar('\n');
}

static int fail(enum sw_status status, const char *why)
{
    print_text("error", why);
    return (int)status;
}

static bool unreachable(int number)
{
    return number == SLURM_COMMUNICATIONS_CONNECTION_ERROR ||
           number == SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR ||
           number == SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT || number == SLURM_PROTOCOL_VERSION_ERROR ||
           number == ESLURM_PROTOCOL_INCOMPLETE_PACKET;
}

static int will_run(const json_t *options)
{
    struct described_job job;
    will_run_response_msg_t *answer = NULL;
    int status = SW_OK;
    if (!json_is_object(options))
        return fail(SW_BAD_INPUT, "will_run without options");
    if (describe_job(options, &job) != 0) {
        print_text("unknown", job.unknown);
    } else if (slurm_job_will_run2(&job.desc, &answer) != 0 || answer == NULL) {
        const int number = SW_SLURM_ERRNO;
        if (unreachable(number))
            status = fail(SW_ENVIRONMENT, slurm_strerror(number));
        else
            print_text("refused", slurm_strerror(number));
    } else {
        struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
        sw_json_object(&j, NULL);
        sw_json_integer(&j, "start", (int64_t)answer->start_time);
        sw_json_text(&j, "partition", answer->part_name);
        sw_json_text(&j, "nodes", answer->node_list);
        sw_json_end(&j);
        putchar('\n');
    }
    if (answer != NULL)
        slurm_free_will_run_response_msg(answer);
    describe_free(&job);
    return status;
}

static int answer(const json_t *request)
{
    const char *ask = json_string_value(json_object_get(request, "ask"));
    int status = 0;
    if (ask == NULL)
        return fail(SW_BAD_INPUT, "a line is no request");
    if (strcmp(ask, "will_run") == 0)
        return will_run(json_object_get(request, "options"));
    if (strcmp(ask, "version") == 0)
        status = print_version();
    else if (strcmp(ask, "facts") == 0)
        status = print_facts();
    else if (strcmp(ask, "jobs") == 0)
        status = print_jobs();
    else
        return fail(SW_BAD_INPUT, "no such request");
    return status == 0 ? SW_OK : fail(SW_ENVIRONMENT, slurm_strerror(SW_SLURM_ERRNO));
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    int status = SW_OK;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("%d.%02d.%d\n", (int)SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER),
               (int)SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER),
               (int)SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
        return SW_OK;
    }
    if (argc > 1) {
        fprintf(stderr, "plan-slurm is started by plan; it reads requests from standard input\n");
        return SW_BAD_INPUT;
    }
    slurm_init(NULL); /* ends the process if there is no configuration */
    while (status == SW_OK && getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        status = answer(request);
        json_decref(request);
        fflush(stdout);
    }
    free(line);
    slurm_fini();
    return ferror(stdout) ? SW_ENVIRONMENT : status;
}
