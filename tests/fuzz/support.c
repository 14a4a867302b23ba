#include "tests/fuzz/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files of this input. Their descriptors are made when one is opened, so that a file keeps its
 * identity however often it is opened: cyclic references are found by it. */
static struct fuzz_file files[FUZZ_FILES];
static int descriptors[FUZZ_FILES];
static int32_t file_count, own_count;

static void forget(void)
{
    for (int32_t i = 0; i < file_count; i++) {
        if (i < own_count)
            free(files[i].text);
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    }
    file_count = own_count = 0;
}

static void remember(const char *name, char *text, size_t bytes)
{
    fuzz_require(file_count < FUZZ_FILES, "too many files", name);
    struct fuzz_file *file = &files[file_count];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->text = text;
    file->bytes = bytes;
    descriptors[file_count++] = -1;
}

void fuzz_add_file(const char *name, const char *text, size_t bytes)
{
    remember(name, (char *)text, bytes);
}

/* Where the next line "%%" starts, and where the line behind it does. */
static const char *find_cut(const char *from, const char *end, const char **behind)
{
    for (const char *p = from; end - p >= 3; p++)
        if ((p == from || p[-1] == '\n') && memcmp(p, "%%\n", 3) == 0) {
            *behind = p + 3;
            return p;
        }
    *behind = NULL;
    return end;
}

struct fuzz_file *fuzz_files(const uint8_t *data, size_t bytes, int32_t *count)
{
    static const char nothing[1] = "";
    forget();
    const char *from = bytes > 0 ? (const char *)data : nothing, *end = from + bytes;
    while (from != NULL && file_count < FUZZ_FILES - 2) {
        char name[16] = "main.yaml";
        const char *behind, *cut = find_cut(from, end, &behind);
        const size_t part = (size_t)(cut - from);
        char *text = malloc(part + 1);
        fuzz_require(text != NULL, "no memory", "");
        memcpy(text, from, part);
        text[part] = '\0';
        if (file_count > 0)
            snprintf(name, sizeof name, "%d.yaml", (int)file_count);
        remember(name, text, part);
        own_count = file_count;
        from = behind;
    }
    *count = file_count;
    return files;
}

void fuzz_require(bool good, const char *what, const char *about)
{
    if (good)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", what, about);
    abort();
}

void fuzz_require_plain(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        const bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
        fuzz_require(*p >= 0x20 && *p != 0x7f && !c1, "a control character in a message", text);
    }
}

void fuzz_require_place(const char *file, int32_t line, int32_t column, const char *message)
{
    fuzz_require_plain(file);
    fuzz_require_plain(message);
    fuzz_require(file[0] != '\0' && line >= 1 && column >= 1, "no such place", message);
    fuzz_require(message[0] != '\0', "an error without a message", file);
}

void fuzz_require_positioned(const char *message)
{
    int line = 0, column = 0, used = 0;
    fuzz_require_plain(message);
    const char *at = strchr(message, ':');
    fuzz_require(at != NULL && at > message &&
                     sscanf(at, ":%d:%d: error: %n", &line, &column, &used) == 2 && used > 0,
                 "no FILE:LINE:COLUMN: error: WHAT", message);
    fuzz_require(line >= 1 && column >= 1, "no such place", message);
    fuzz_require(at[used] != '\0', "an error without a message", message);
}

/* ---- The program under test opens these ---- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_stat(const char *path, struct stat *out);
char *__wrap_realpath(const char *path, char *resolved);
int __real_stat(const char *path, struct stat *out);
char *__real_realpath(const char *path, char *resolved);

static int32_t find(const char *path)
{
    for (int32_t i = 0; i < file_count; i++)
        if (strcmp(files[i].name, path) == 0)
            return i;
    return -1;
}

/* Between inputs libFuzzer reads the machine's files, and it writes its findings at any time. */
static bool testing;

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(args, int) : 0;
    va_end(args);
    if (!testing || (flags & O_ACCMODE) != O_RDONLY)
        return __real_open(path, flags, mode);
    const int32_t i = find(path);
    if (i < 0) {
        errno = ENOENT;
        return -1;
    }
    char again[32];
    if (descriptors[i] < 0) {
        descriptors[i] = memfd_create(path, MFD_CLOEXEC);
        fuzz_require(descriptors[i] >= 0 && write(descriptors[i], files[i].text, files[i].bytes) ==
                                                (ssize_t)files[i].bytes,
                     "no memory file", path);
    }
    snprintf(again, sizeof again, "/proc/self/fd/%d", descriptors[i]);
    return __real_open(again, flags);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!testing || mode[0] != 'r')
        return __real_fopen(path, mode);
    const int32_t i = find(path);
    if (i < 0) {
        errno = ENOENT;
        return NULL;
    }
    return fmemopen(files[i].text, files[i].bytes, mode);
}

int __wrap_stat(const char *path, struct stat *out)
{
    if (!testing)
        return __real_stat(path, out);
    const int32_t i = find(path);
    if (i < 0) {
        errno = ENOENT;
        return -1;
    }
    *out = (struct stat){.st_mode = S_IFREG | 0444, .st_size = (off_t)files[i].bytes};
    return 0;
}

char *__wrap_realpath(const char *path, char *resolved)
{
    if (!testing)
        return __real_realpath(path, resolved);
    errno = ENOENT;
    return NULL;
}

/* ---- The program ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    testing = true;
    fuzz_one(data, bytes);
    forget();
    testing = false;
    return 0;
}

#ifndef SW_LIBFUZZER
static int run_file(const char *path)
{
    int status = 3;
    size_t used = 0, capacity = 0;
    uint8_t *bytes = NULL;
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        perror(path);
        return 3;
    }
    do {
        capacity += 1 << 16;
        uint8_t *grown = realloc(bytes, capacity);
        if (grown == NULL)
            goto out;
        bytes = grown;
        used += fread(bytes + used, 1, capacity - used, in);
    } while (used == capacity);
    if (ferror(in) != 0)
        goto out;
    LLVMFuzzerTestOneInput(bytes, used);
    status = 0;
out:
    free(bytes);
    fclose(in);
    return status;
}

static int run_folder(DIR *folder, const char *path, int32_t *ran)
{
    int status = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && status == 0;) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        status = run_file(name);
        ++*ran;
    }
    closedir(folder);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    int32_t ran = 0;
    for (int i = 1; i < argc && status == 0; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder != NULL) {
            status = run_folder(folder, argv[i], &ran);
        } else {
            status = run_file(argv[i]);
            ran++;
        }
    }
    printf("%d inputs\n", (int)ran);
    return status != 0 ? status : ran == 0;
}
#endif
