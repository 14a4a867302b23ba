#include "runner/rank/cuda_load.h"

#ifdef SW_CUDA_PACKAGES
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* NVIDIA's packages of the libraries that runner-cuda.so needs. */
static const struct {
    const char *library, *package;
} packages[] = {{"libcudart.", "cuda-cudart-" SW_CUDA_PACKAGES},
                {"libcublas", "libcublas-" SW_CUDA_PACKAGES},
                {"libcudnn", "libcudnn9-cuda-"},
                {"libnccl.", "libnccl2"}};

/* cuDNN's package name has only CUDA's major version. */
static const char *package_of(const char *library, char buffer[64])
{
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++)
        if (strncmp(library, packages[i].library, strlen(packages[i].library)) == 0) {
            const char *name = packages[i].package;
            const bool cut = name[strlen(name) - 1] == '-';
            snprintf(buffer, 64, "%s%.*s", name, cut ? (int)strcspn(SW_CUDA_PACKAGES, "-") : 0,
                     SW_CUDA_PACKAGES);
            return buffer;
        }
    return NULL;
}

/* Translates the loader's message, "libcudnn.so.9: cannot open shared object file: No such file or
 * directory". */
static void explain(const char *said, struct sw_error *err)
{
    char library[128], package[64];
    const size_t length = strcspn(said, ":");
    if (strstr(said, ": cannot open shared object file: No such file") == NULL ||
        length >= sizeof library || memchr(said, '/', length) != NULL) {
        (void)sw_fail(err, SW_ENVIRONMENT, "the CUDA device cannot be loaded: %s", said);
        return;
    }
    snprintf(library, sizeof library, "%.*s", (int)length, said);
    if (package_of(library, package) != NULL)
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "the CUDA device needs %s, which is not found here; install NVIDIA's package "
                      "%s, or add the folder of the library to LD_LIBRARY_PATH",
                      library, package);
    else
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "the CUDA device needs %s, which is not found here; install it, or add its "
                      "folder to LD_LIBRARY_PATH",
                      library);
}

/* Path of this program; without /proc (a bare root folder) the name it was started by. */
static bool find_self(char self[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    const char *started = length > 0 ? NULL : (const char *)getauxval(AT_EXECFN);
    if (length > 0 && length < PATH_MAX - 1)
        self[length] = '\0';
    else if (started == NULL || snprintf(self, PATH_MAX, "%s", started) >= PATH_MAX)
        return false;
    return strchr(self, '/') != NULL;
}

/* Finds the file beside the runner (build tree), or from bin/runner in lib/shardwright
 * (installed). */
static bool find(char path[PATH_MAX])
{
    static const char *const candidates[] = {"runner-cuda.so", "../lib/shardwright/runner-cuda.so"};
    char self[PATH_MAX];
    if (!find_self(self))
        return false;
    strrchr(self, '/')[1] = '\0';
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const int wanted = snprintf(path, PATH_MAX, "%s%s", self, candidates[i]);
        if (wanted < PATH_MAX && access(path, R_OK) == 0)
            return true;
    }
    snprintf(path, PATH_MAX, "%.*s", (int)(PATH_MAX / 2), self);
    return false;
}

const struct sw_cuda_module *sw_cuda_module_load(struct sw_error *err)
{
    char path[PATH_MAX] = "";
    if (!find(path)) {
        (void)sw_fail(
            err, SW_ENVIRONMENT,
            "the CUDA device is not here: no runner-cuda.so in %s; copy it there from the "
            "build's folder, or use cpu for cuda: the plan's device, calibrate's --device",
            path);
        return NULL;
    }
    /* local: its symbols stay private. A second call returns the first handle */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        explain(dlerror(), err);
        return NULL;
    }
    const struct sw_cuda_module *module = dlsym(handle, SW_CUDA_MODULE_NAME);
    if (module == NULL || memcmp(module->stamp, &sw_cuda_stamp, sizeof sw_cuda_stamp) != 0) {
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "%s is of another build than this runner; copy both from one build's folder",
                      path);
        return NULL;
    }
    return module;
}
#else
const struct sw_cuda_module *sw_cuda_module_load(struct sw_error *err)
{
    (void)sw_fail(
        err, SW_ENVIRONMENT,
        "this runner was built without CUDA; build it where the CUDA toolkit is, or use cpu for "
        "cuda: the plan's device, calibrate's --device");
    return NULL;
}
#endif
