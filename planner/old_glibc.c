/* plan-portable only: functions whose newest symbols need a glibc later than 2.28 (RHEL 8's), by
 * symbols that every glibc of x86-64 has. `ld --wrap=NAME` sends each call here
 * (planner/CMakeLists.txt lists the names). Dynamic, not static: users and groups are looked up by
 * the site's own NSS modules, which a static program of another glibc cannot load. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

/* Before 2.34 these are in libpthread, which plan-portable links; the dynamic linker finds a name
 * and a version in any library. */
#define OLD(name, version) __asm__(".symver old_" #name "," #name "@GLIBC_" version)

OLD(exp, "2.2.5");
OLD(log, "2.2.5");
OLD(log2, "2.2.5");
OLD(pow, "2.2.5");
OLD(pthread_create, "2.2.5");
OLD(pthread_join, "2.2.5");
OLD(pthread_detach, "2.2.5");
OLD(pthread_sigmask, "2.2.5");
OLD(pthread_condattr_setclock, "2.3.3");
OLD(__xstat, "2.2.5");
OLD(__lxstat, "2.2.5");
OLD(__fxstat, "2.2.5");
OLD(__libc_start_main, "2.2.5");

double old_exp(double x), old_log(double x), old_log2(double x), old_pow(double x, double y);
double __wrap_exp(double x);
double __wrap_log(double x);
double __wrap_log2(double x);
double __wrap_pow(double x, double y);

double __wrap_exp(double x)
{
    return old_exp(x);
}
double __wrap_log(double x)
{
    return old_log(x);
}
double __wrap_log2(double x)
{
    return old_log2(x);
}
double __wrap_pow(double x, double y)
{
    return old_pow(x, y);
}

typedef void *thread_main(void *argument);
int old_pthread_create(pthread_t *out, const pthread_attr_t *attributes, thread_main *run,
                       void *to);
int old_pthread_join(pthread_t thread, void **result);
int old_pthread_detach(pthread_t thread);
int old_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int old_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, thread_main *run,
                          void *to);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, thread_main *run,
                          void *to)
{
    return old_pthread_create(out, attributes, run, to);
}
int __wrap_pthread_join(pthread_t thread, void **result)
{
    return old_pthread_join(thread, result);
}
int __wrap_pthread_detach(pthread_t thread)
{
    return old_pthread_detach(thread);
}
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return old_pthread_sigmask(how, set, before);
}
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
    return old_pthread_condattr_setclock(attributes, clock);
}

/* Layout of struct stat on x86-64 since its beginning. */
enum { STAT_VERSION = 1 };
int old___xstat(int version, const char *path, struct stat *out);
int old___lxstat(int version, const char *path, struct stat *out);
int old___fxstat(int version, int fd, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
int __wrap_lstat(const char *path, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);

int __wrap_stat(const char *path, struct stat *out)
{
    return old___xstat(STAT_VERSION, path, out);
}
int __wrap_lstat(const char *path, struct stat *out)
{
    return old___lxstat(STAT_VERSION, path, out);
}
int __wrap_fstat(int fd, struct stat *out)
{
    return old___fxstat(STAT_VERSION, fd, out);
}

/* Since 2.34 glibc runs a program's constructors itself if `begin` is NULL, as in current start
 * files; older ones call `begin` and `end`, which their own start files provided. */
typedef int program_main(int argc, char **argv, char **environment);
typedef void begin_call(int argc, char **argv, char **environment);
typedef void end_call(void);
extern begin_call *const __init_array_start[], *const __init_array_end[];
extern end_call *const __fini_array_start[], *const __fini_array_end[];

static void begin(int argc, char **argv, char **environment)
{
    for (begin_call *const *call = __init_array_start; call < __init_array_end; call++)
        (*call)(argc, argv, environment);
}

static void end(void)
{
    for (end_call *const *call = __fini_array_end; call > __fini_array_start;)
        (*--call)();
}

int old___libc_start_main(program_main *main, int argc, char **argv, begin_call *begin,
                          end_call *end, end_call *loader_end, void *stack_end);
int __wrap___libc_start_main(program_main *main, int argc, char **argv, begin_call *none,
                             end_call *nor_this, end_call *loader_end, void *stack_end);

int __wrap___libc_start_main(program_main *main, int argc, char **argv, begin_call *none,
                             end_call *nor_this, end_call *loader_end, void *stack_end)
{
    (void)none;
    (void)nor_this;
    return old___libc_start_main(main, argc, argv, begin, end, loader_end, stack_end);
}
