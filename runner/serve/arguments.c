#include "runner/serve/serve.h"

#include "core/base/text.h"
#include "runner/text/tokenizer/utf8.h"

#include <string.h>

#define INTO(member) SW_ARGUMENT_TO(struct sw_serve_options, member)
const struct sw_argument sw_serve_rows[] = {
    {"--checkpoint", NULL, "DIR",
     "weights: a checkpoint, a run's folder, or a Hugging Face model directory", INTO(checkpoint)},
    {"--listen", NULL, "ADDRESS",
     "HOST:PORT, PORT or unix:PATH (default: 127.0.0.1:8000; port 0: a free one)", INTO(listen)},
    {"--token-file", NULL, "FILE",
     "its first line is the bearer token that clients must send; needed where other machines reach "
     "the address",
     INTO(token_file)},
    {"--model", NULL, "NAME", "name of the model in the API (default: the run's name)",
     INTO(model)},
    {"--chat-template", NULL, "NAME",
     "llama-3, chatml or mistral, or none, to answer no conversations (default: the model's own; "
     "without one, by its special tokens)",
     INTO(chat_template)},
    {"--bytes", NULL, NULL,
     "each byte of a text is a token; without it a model with no tokenizer takes texts only where "
     "its vocab_size is 256 or its run has data.format: bytes",
     INTO(bytes)},
    {"--queue", NULL, "N",
     "sequences that may wait, half of them one client's; more are answered 429 or 503 (default: "
     "512)",
     INTO(queue), .least = 1, .most = 1000000},
    {"--connections", NULL, "N", "clients at a time (default: 256)", INTO(connections), .least = 1,
     .most = 100000},
    {"--drain", NULL, "S", "seconds from TERM until unfinished answers are cut off (default: 30)",
     INTO(drain_s), .most = 86400},
    {"--deadline", NULL, "S",
     "seconds from a request to the whole answer, else 504 (default: 0, none)", INTO(deadline_s),
     .most = 864000},
    {"--client-timeout", NULL, "S",
     "seconds for a request to arrive, and of silence of a client's machine (default: 30)",
     INTO(client_timeout_s), .least = 1, .most = 86400},
    {.name = NULL}};
#undef INTO

/* True if the name can appear in responses and in a terminal line. */
static bool is_name(const char *text)
{
    const size_t bytes = strlen(text);
    if (sw_utf8_valid(text, bytes) < bytes)
        return false;
    for (; *text != '\0'; text++)
        if (sw_text_hidden(text) > 0)
            return false;
    return true;
}

int sw_serve_arguments(int argc, char **argv, struct sw_serve_options *out, struct sw_error *err)
{
    *out = (struct sw_serve_options){.listen = "127.0.0.1:8000",
                                     .queue = 512,
                                     .connections = 256,
                                     .drain_s = 30,
                                     .client_timeout_s = 30};
    struct sw_command_line line = {.tool = "runner",
                                   .command = "serve",
                                   .options = sw_serve_rows,
                                   .to = out,
                                   .plan = &out->plan_path};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    if (status != 0)
        return status;
    if (out->checkpoint == NULL)
        return sw_fail(err, SW_BAD_INPUT, "serve needs --checkpoint DIR");
    return out->model == NULL || is_name(out->model)
               ? 0
               : sw_fail(err, SW_BAD_INPUT, "--model must be a name in UTF-8, in one line");
}
