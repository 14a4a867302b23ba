#include "runner/serve/serve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const char **problem, const char **which, const char *what, const char *argument)
{
    *problem = what;
    *which = argument;
    return -1;
}

/* NAN: none. */
static double parse_number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    return end == text || *end != '\0' || errno != 0 ? (double)NAN : value;
}

int sw_serve_arguments(int argc, char **argv, struct sw_serve_options *out, const char **problem,
                       const char **which)
{
    const struct {
        const char *name;
        const char **text; /* NULL: a number */
        double *number;
        double least, most;
        const char *needs;
    } options[] = {
        {"--checkpoint", &out->checkpoint, NULL, 0, 0, NULL},
        {"--listen", &out->listen, NULL, 0, 0, NULL},
        {"--token-file", &out->token_file, NULL, 0, 0, NULL},
        {"--model", &out->model, NULL, 0, 0, NULL},
        {"--chat-template", &out->chat_template, NULL, 0, 0, NULL},
        {"--queue", NULL, &out->queue, 1, 1e6, "--queue is a whole number from 1 to 1000000"},
        {"--connections", NULL, &out->connections, 1, 1e5,
         "--connections is a whole number from 1 to 100000"},
        {"--drain", NULL, &out->drain_s, 0, 86400, "--drain is a whole number from 0 to 86400"},
        {"--client-timeout", NULL, &out->client_timeout_s, 1, 86400,
         "--client-timeout is a whole number from 1 to 86400"},
    };
    enum { OPTIONS = sizeof options / sizeof options[0] };
    *out = (struct sw_serve_options){.listen = "127.0.0.1:8000",
                                     .queue = 64,
                                     .connections = 256,
                                     .drain_s = 30,
                                     .client_timeout_s = 30};
    for (int i = 2; i < argc; i++) {
        size_t o = 0;
        while (o < OPTIONS && strcmp(argv[i], options[o].name) != 0)
            o++;
        if (strcmp(argv[i], "--bytes") == 0) {
            out->bytes = true;
            continue;
        }
        if (o == OPTIONS && argv[i][0] == '-')
            return wrong(problem, which, "unknown option ", argv[i]);
        if (o == OPTIONS && out->plan_path != NULL)
            return wrong(problem, which, "one plan at a time, not also ", argv[i]);
        if (o == OPTIONS) {
            out->plan_path = argv[i];
            continue;
        }
        if (i + 1 == argc || argv[i + 1][0] == '\0')
            return wrong(problem, which, argv[i], " needs a value");
        const char *value = argv[++i];
        if (options[o].text != NULL) {
            *options[o].text = value;
            continue;
        }
        const double number = parse_number(value);
        if (!(number >= options[o].least && number <= options[o].most && number == floor(number)))
            return wrong(problem, which, options[o].needs, "");
        *options[o].number = number;
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "serve needs a plan file", "");
    if (out->checkpoint == NULL)
        return wrong(problem, which, "serve needs --checkpoint DIR", "");
    return 0;
}
