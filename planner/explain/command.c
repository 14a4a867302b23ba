/* `plan explain`: where the memory and the time of one mesh go, and why it was chosen. */
#include "planner/explain/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beside its place and then renamed: a reader never finds half a page. */
static int write_page(const char *path, const char *text, size_t bytes, struct sw_error *err)
{
    char temporary[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(EISDIR));
    if (snprintf(temporary, sizeof temporary, "%.*s.%s.%ld", folder, path, path + folder,
                 (long)getpid()) >= (int)sizeof temporary)
        return sw_fail(err, SW_ENVIRONMENT, "the path '%.60s...' is too long", path);
    const int handle = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (handle < 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    size_t done = 0;
    errno = 0;
    while (done < bytes) {
        const ssize_t n = write(handle, text + done, bytes - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    bool ok = done == bytes && fsync(handle) == 0;
    ok = close(handle) == 0 && ok;
    if (ok && rename(temporary, path) == 0)
        return 0;
    sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    unlink(temporary);
    return -1;
}

static int write_html(const char *path, const struct sw_explain *x, struct sw_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the page");
    sw_html_page(memory, x);
    bool ok = ferror(memory) == 0;
    ok = fclose(memory) == 0 && ok;
    const int status = ok ? write_page(path, text, bytes, err)
                          : sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the page");
    free(text);
    return status;
}

/* Every mesh of the cluster, for comparison when mesh_dim names one; *requested tells. */
static int search_all(const struct sw_run_config *run, const struct sw_search *search,
                      struct sw_search *all, bool *requested, struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_run_config open = *run;
    *requested = sw_mesh_request_parse(run->mesh_dim, &request, NULL) == 0 && !request.is_auto &&
                 search->count == 1;
    if (!*requested)
        return 0;
    open.mesh_dim = "auto";
    return sw_search_run(&open, all, err);
}

static int tell(const struct sw_options *options, const struct sw_explain *x, struct sw_error *err)
{
    if (options->html != NULL && write_html(options->html, x, err) != 0)
        return -1;
    if (options->program)
        sw_program_print(stdout, x->program);
    else if (options->json)
        return sw_json_explain(stdout, x, options->rejected, err);
    else if (options->html == NULL)
        sw_explain_text(stdout, x, options->rejected);
    return 0;
}

int sw_command_explain(const struct sw_options *options)
{
    struct sw_session session;
    struct sw_search search = {0}, others = {0};
    struct sw_explain x = {0};
    struct sw_error err = {0};
    bool requested = false;
    int status = sw_session_open(options, false, &session);
    if (status != SW_OK)
        goto out;
    const struct sw_run_config *run = &session.run;
    if (sw_search_run(run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    /* one mesh that only lacks memory can be explained: that is when one wants to know most */
    if (search.feasible == 0 && (search.count != 1 || search.mesh[0].reason != SW_REJECT_MEMORY)) {
        status = sw_command_unmet(run, &search);
        goto out;
    }
    if (search_all(run, &search, &others, &requested, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    struct sw_search *all = requested ? &others : &search;
    struct sw_run_config any = *run;
    if (requested)
        any.mesh_dim = "auto";
    const bool reasons = options->rejected || options->html != NULL;
    if ((reasons && sw_search_explain(&any, all, all->feasible, all->count, &err) != 0) ||
        sw_explain_make(run, &search.mesh[0], all, requested, &x, &err) != 0 ||
        tell(options, &x, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible == 0)
        status = sw_command_unmet(run, &search);
out:
    sw_explain_free(&x);
    sw_search_free(&others);
    sw_search_free(&search);
    sw_session_free(&session);
    return status;
}
