#include "runner/serve/serve.h"

int sw_serve_arguments(int argc, char **argv, struct sw_serve_options *out,
                       struct sw_problem *problem)
{
    const struct sw_argument options[] = {
        {.name = "--checkpoint",
         .value = "DIR",
         .about = "weights: a checkpoint, a run's folder, or a Hugging Face model directory",
         .text = &out->checkpoint},
        {.name = "--listen",
         .value = "ADDRESS",
         .about = "HOST:PORT, PORT or unix:PATH (default: 127.0.0.1:8000; port 0: a free one)",
         .text = &out->listen},
        {.name = "--token-file",
         .value = "FILE",
         .about = "its first line is what clients must show; needed where other machines reach the "
                  "address",
         .text = &out->token_file},
        {.name = "--model",
         .value = "NAME",
         .about = "by which clients call it (default: the run's name)",
         .text = &out->model},
        {.name = "--chat-template",
         .value = "NAME",
         .about = "llama-3, chatml or mistral (default: the model's own; without one, by its "
                  "special tokens)",
         .text = &out->chat_template},
        {.name = "--bytes",
         .about = "each byte of a text is a token; without it a model with no tokenizer takes "
                  "texts only where its vocab_size is 256 or its run has data.format: bytes",
         .flag = &out->bytes},
        {.name = "--queue",
         .value = "N",
         .about = "texts that may wait, half of them one client's; more are told to come again "
                  "(default: 512)",
         .number = &out->queue,
         .least = 1,
         .most = 1e6,
         .needs = "--queue is a whole number from 1 to 1000000"},
        {.name = "--connections",
         .value = "N",
         .about = "clients at a time (default: 256)",
         .number = &out->connections,
         .least = 1,
         .most = 1e5,
         .needs = "--connections is a whole number from 1 to 100000"},
        {.name = "--drain",
         .value = "S",
         .about = "seconds from TERM to when what is not done is cut off (default: 30)",
         .number = &out->drain_s,
         .most = 86400,
         .needs = "--drain is a whole number from 0 to 86400"},
        {.name = "--deadline",
         .value = "S",
         .about = "seconds from a request to the whole answer, else 504 (default: 0, none)",
         .number = &out->deadline_s,
         .most = 864000,
         .needs = "--deadline is a whole number from 0 to 864000"},
        {.name = "--client-timeout",
         .value = "S",
         .about = "seconds for a request to arrive (default: 30)",
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
