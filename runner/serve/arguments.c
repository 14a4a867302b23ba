#include "runner/serve/serve.h"

int sw_serve_arguments(int argc, char **argv, struct sw_serve_options *out,
                       struct sw_problem *problem)
{
    const struct sw_argument options[] = {
        {.name = "--checkpoint", .text = &out->checkpoint},
        {.name = "--listen", .text = &out->listen},
        {.name = "--token-file", .text = &out->token_file},
        {.name = "--model", .text = &out->model},
        {.name = "--chat-template", .text = &out->chat_template},
        {.name = "--bytes", .flag = &out->bytes},
        {.name = "--queue",
         .number = &out->queue,
         .least = 1,
         .most = 1e6,
         .needs = "--queue is a whole number from 1 to 1000000"},
        {.name = "--connections",
         .number = &out->connections,
         .least = 1,
         .most = 1e5,
         .needs = "--connections is a whole number from 1 to 100000"},
        {.name = "--drain",
         .number = &out->drain_s,
         .most = 86400,
         .needs = "--drain is a whole number from 0 to 86400"},
        {.name = "--deadline",
         .number = &out->deadline_s,
         .most = 864000,
         .needs = "--deadline is a whole number from 0 to 864000"},
        {.name = "--client-timeout",
         .number = &out->client_timeout_s,
         .least = 1,
         .most = 86400,
         .needs = "--client-timeout is a whole number from 1 to 86400"},
        {.name = NULL}};
    *out = (struct sw_serve_options){.listen = "127.0.0.1:8000",
                                     .queue = 512,
                                     .connections = 256,
                                     .drain_s = 30,
                                     .client_timeout_s = 30};
    if (sw_arguments_parse(argc, argv, options, &out->plan_path, NULL, NULL, problem) != 0)
        return -1;
    return out->checkpoint != NULL ? 0 : sw_problem_is(problem, "serve needs --checkpoint DIR", "");
}
