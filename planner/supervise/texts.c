/* Actions of each state for a job that generates, scores or serves. */
#include "planner/supervise/supervise_internal.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum sw_supervise_event event;

enum { LISTEN_SECONDS = 1, FIRST_PORT = 20000, PORTS = 10000 };

static event done(bool taken)
{
    return taken ? SW_SUPERVISE_DONE_EVENT : SW_SUPERVISE_REFUSED_EVENT;
}

static bool serves(const struct sw_supervisor *s)
{
    return strcmp(s->set->job, "serve") == 0;
}

/* ---- Files ---- */

/* Number of non-empty lines; a missing file: 0. */
static int64_t count_lines(const char *path)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int64_t count = 0;
    while (in != NULL && getline(&line, &room, in) > 0)
        count += line[strspn(line, " \t\r\n\v\f")] != '\0';
    free(line);
    if (in != NULL)
        fclose(in);
    return count;
}

/* Writes FOLDER/job.json, which `plan status` reads: the same from every task of an array. Tasks on
 * other nodes may have this process's number, so each writes a file of its own first. */
static void tell(const struct sw_supervisor *s, bool of_server)
{
    const struct sw_supervise_settings *set = s->set;
    char path[PATH_MAX], own[PATH_MAX], name[256] = "";
    struct sw_new_file file;
    struct sw_error err = {0};
    if (snprintf(path, sizeof path, "%s/job.json", set->folder) >= (int)sizeof path ||
        snprintf(own, sizeof own, "%s/.job.json.%s", set->folder, s->job.itself) >=
            (int)sizeof own ||
        sw_file_begin(&file, own, 0666, &err) != 0) {
        if (err.status != SW_OK)
            (void)sw_supervise_fail(&err);
        return;
    }
    struct sw_json json = {.out = file.out, .style = SW_JSON_SPACES}, *j = &json;
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.job/1");
    sw_json_text(j, "type", set->job);
    sw_json_text(j, "job", s->job.array_id);
    if (of_server) {
        gethostname(name, sizeof name - 1);
        sw_json_text(j, "host", name);
        sw_json_integer(j, "port", strtol(s->port, NULL, 10));
        sw_json_text(j, "token_file", set->token_file);
    } else {
        sw_json_text(j, "output", set->output);
        sw_json_integer(j, "shards", set->shards);
        sw_json_integer(j, "lines", count_lines(set->input));
    }
    sw_json_end(j);
    fputc('\n', file.out);
    if (sw_file_commit(&file, &err) == 0 && rename(own, path) != 0)
        sw_fail(&err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    if (err.status != SW_OK)
        (void)sw_supervise_fail(&err);
}

/* True if the plan is the one that the script was written with: it has the line "digest: 'HEX'".
 * err: why it could not be read. */
static bool is_own_plan(const struct sw_supervisor *s, struct sw_error *err)
{
    enum { MOST_BYTES = 64 << 20 };
    char line[64], *text = NULL;
    size_t bytes = 0;
    const char *digest = strrchr(s->set->digests, ':');
    snprintf(line, sizeof line, "\ndigest: '%.32s'\n", digest != NULL ? digest + 1 : "");
    if (sw_file_read(s->set->plan, true, MOST_BYTES, &text, &bytes, NULL) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot read '%s': %s", s->set->plan, strerror(errno));
        return false;
    }
    const bool own = strstr(text, line) != NULL;
    free(text);
    return own;
}

bool sw_supervise_begin_texts(struct sw_supervisor *s)
{
    const struct sw_supervise_settings *set = s->set;
    struct sw_error err = {0};
    if (!is_own_plan(s, &err)) {
        if (err.status != SW_OK) {
            s->code = sw_supervise_fail(&err);
            return false;
        }
        fprintf(stderr,
                "%s is another plan than the one that this script was written with; emit both "
                "again\n",
                set->plan);
        s->code = SW_BAD_INPUT;
        return false;
    }
    if (serves(s)) {
        snprintf(s->made, sizeof s->made, "%.4000s/job.json", set->folder);
        (void)unlink(s->made); /* left by an earlier server */
        if (set->port[0] != '\0')
            snprintf(s->port, sizeof s->port, "%s", set->port);
        else
            snprintf(s->port, sizeof s->port, "%d",
                     FIRST_PORT + (int)(strtoll(s->job.id, NULL, 10) % PORTS));
        snprintf(s->listen, sizeof s->listen, "%s:%s", set->host, s->port);
        return true;
    }
    if (set->shards > 1) {
        snprintf(s->made, sizeof s->made, "%.4000s.%05d-of-%05d", set->output, (int)s->job.task,
                 (int)set->shards);
        snprintf(s->shard, sizeof s->shard, "%d/%d", (int)s->job.task, (int)set->shards);
    } else {
        snprintf(s->made, sizeof s->made, "%s", set->output);
    }
    s->lines_before = count_lines(s->made);
    tell(s, false);
    return true;
}

/* ---- The ranks ---- */

static void start(struct sw_supervisor *s)
{
    const struct sw_supervise_settings *set = s->set;
    struct sw_argv words = {0};
    sw_argv_add(&words, "%s", set->job);
    sw_argv_add(&words, "%s", set->plan);
    sw_argv_add(&words, "--checkpoint");
    sw_argv_add(&words, "%s", set->checkpoints);
    if (serves(s)) {
        sw_argv_add(&words, "--listen");
        sw_argv_add(&words, "%s", s->listen);
        sw_argv_add(&words, "--token-file");
        sw_argv_add(&words, "%s", set->token_file);
    } else {
        if (s->shard[0] != '\0') {
            sw_argv_add(&words, "--shard");
            sw_argv_add(&words, "%s", s->shard);
        }
        sw_argv_add(&words, "%s", strcmp(set->job, "generate") == 0 ? "--prompts" : "--texts");
        sw_argv_add(&words, "%s", set->input);
        sw_argv_add(&words, "-o");
        sw_argv_add(&words, "%s", s->made);
        sw_argv_add(&words, "--resume");
    }
    for (int32_t i = 0; i < set->arguments.count; i++)
        sw_argv_add(&words, "%s", set->arguments.word[i]);
    sw_supervise_start(s, &words, false);
    sw_argv_free(&words);
    if (serves(s))
        s->ranks.timer = sw_clock_now();
}

static event do_texts(struct sw_supervisor *s)
{
    if (s->ranks.process == 0)
        start(s);
    const event e = sw_supervise_wait(s);
    if (e == SW_SUPERVISE_WELL_EVENT || e == SW_SUPERVISE_BADLY_EVENT) {
        s->code = s->ranks.status;
        /* a bad request (1, 2) would be bad again */
        if (s->set->how == SW_CONTINUE_REQUEUE && s->code > SW_BAD_INPUT)
            s->machine.facts |= SW_SUPERVISE_REQUEUES;
    }
    return e;
}

static event do_tell(struct sw_supervisor *s)
{
    s->at_limit = true;
    return done(sw_supervise_pass(s, SIGTERM) || s->scheduler->end_ranks(s->job.itself));
}

/* True if a server listens there; waits at most a second. */
static bool listens(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    bool there = false;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *a = list; a != NULL && !there; a = a->ai_next) {
        int error = 0;
        socklen_t length = sizeof error;
        const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        there = connect(fd, a->ai_addr, a->ai_addrlen) == 0;
        if (!there && errno == EINPROGRESS)
            there = poll(&ready, 1, 1000) == 1 &&
                    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
        close(fd);
    }
    freeaddrinfo(list);
    return there;
}

static event do_listen(struct sw_supervisor *s)
{
    const struct sw_supervise_settings *set = s->set;
    char name[256] = "";
    const char *here = strcmp(set->host, "0.0.0.0") == 0 ? "127.0.0.1" : set->host;
    if (!listens(here, s->port)) {
        s->ranks.timer = sw_clock_now() + LISTEN_SECONDS * s->second;
        return SW_SUPERVISE_REFUSED_EVENT;
    }
    s->ranks.timer = INFINITY;
    gethostname(name, sizeof name - 1);
    printf("serving at http://%s:%s; the token of requests is in %s\n", name, s->port,
           set->token_file);
    printf("from elsewhere: ssh -N -L %s:%s:%s LOGIN-NODE, then http://127.0.0.1:%s\n", s->port,
           name, s->port, s->port);
    if (fflush(stdout) != 0)
        clearerr(stdout); /* the log is full: not a reason for another exit code than the ranks' */
    tell(s, true);
    return SW_SUPERVISE_DONE_EVENT;
}

/* ---- The end ---- */

static void say_end(const struct sw_supervisor *s)
{
    fprintf(stderr, "it ended with exit code %d%s", (int)s->code,
            s->at_limit ? " at the time limit" : "");
}

/* Another job may succeed after a failure of the environment, if something was made: lines, or a
 * server that listened. */
static event do_judge(struct sw_supervisor *s)
{
    const bool made =
        serves(s) ? access(s->made, F_OK) == 0 : count_lines(s->made) > s->lines_before;
    if (!made) {
        say_end(s);
        fputs(" without any output: it is not tried again\n", stderr);
    } else if (!s->at_limit && s->job.restarts >= s->set->max_attempts) {
        say_end(s);
        fprintf(stderr, ", after %" PRId64 " new jobs: it is not tried again\n",
                s->set->max_attempts);
    } else {
        return SW_SUPERVISE_DONE_EVENT;
    }
    return SW_SUPERVISE_REFUSED_EVENT;
}

static event do_texts_follow(struct sw_supervisor *s)
{
    say_end(s);
    fputs(", and resumes in a new job\n", stderr);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_texts_stay(struct sw_supervisor *s)
{
    say_end(s);
    fprintf(stderr, ", and %s does not requeue it: 'plan submit' resumes it\n",
            s->scheduler->title);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_texts_over(struct sw_supervisor *s)
{
    say_end(s);
    fprintf(stderr, ", and is not requeued: %s says '%s' of it; 'plan submit' resumes it\n",
            s->scheduler->title, s->word[0] != '\0' ? s->word : "nothing");
    return SW_SUPERVISE_DONE_EVENT;
}

/* Appends to FOLDER/job.ended: a line for every task. */
static event do_record(struct sw_supervisor *s)
{
    char path[PATH_MAX], line[160];
    snprintf(path, sizeof path, "%.4000s/job.ended", s->set->folder);
    const int bytes = snprintf(line, sizeof line, "%.64s %" PRId64 " %d\n", s->job.array_id,
                               s->job.task, (int)s->code);
    /* in one write: tasks end side by side */
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)bytes) != bytes)
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_end(struct sw_supervisor *s)
{
    (void)s;
    return SW_SUPERVISE_DONE_EVENT;
}

const sw_supervise_do sw_supervise_texts[SW_SUPERVISE_STATE_COUNT] = {
    [SW_SUPERVISE_TEXTS] = do_texts,
    [SW_SUPERVISE_LISTEN] = do_listen,
    [SW_SUPERVISE_TELL] = do_tell,
    [SW_SUPERVISE_JUDGE] = do_judge,
    [SW_SUPERVISE_ASK_TEXTS] = sw_supervise_ask,
    [SW_SUPERVISE_REQUEUE_TEXTS] = sw_supervise_requeue,
    [SW_SUPERVISE_TEXTS_STAY] = do_texts_stay,
    [SW_SUPERVISE_TEXTS_OVER] = do_texts_over,
    [SW_SUPERVISE_RECORD] = do_record,
    [SW_SUPERVISE_ENDS] = do_end,
    [SW_SUPERVISE_TEXTS_FOLLOW] = do_texts_follow,
};
