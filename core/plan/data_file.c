#include "core/plan/data_file.h"

#include "core/base/file.h"
#include "core/base/shell.h"
#include "core/base/tokenizer_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 65536, BYTE_VALUES = 256 };

/* How a file that is neither tokens nor plain text becomes one. */
enum remedy { TOKENIZE, TAKE_TEXTS, UNPACK, FROM_NUMPY };

static const struct form {
    const char *ends; /* its name; without regard to case */
    const char *what;
    enum remedy remedy;
    const char *command; /* of UNPACK; leaves a file without that ending */
    const char *begins;  /* its first bytes; NULL: none that tell */
    size_t begin_bytes;
} forms[] = {
    {".jsonl", "lines of JSON", TOKENIZE, NULL, NULL, 0},
    {".ndjson", "lines of JSON", TAKE_TEXTS, NULL, NULL, 0},
    {".json", "JSON", TAKE_TEXTS, NULL, NULL, 0},
    {".csv", "a table", TAKE_TEXTS, NULL, NULL, 0},
    {".tsv", "a table", TAKE_TEXTS, NULL, NULL, 0},
    {".parquet", "a Parquet table", TAKE_TEXTS, NULL, "PAR1", 4},
    {".arrow", "an Arrow table", TAKE_TEXTS, NULL, "ARROW1", 6},
    {".feather", "an Arrow table", TAKE_TEXTS, NULL, "FEA1", 4},
    {".h5", "an HDF5 file", TAKE_TEXTS, NULL, "\x89HDF", 4},
    {".hdf5", "an HDF5 file", TAKE_TEXTS, NULL, NULL, 0},
    {".tfrecord", "a TFRecord file", TAKE_TEXTS, NULL, NULL, 0},
    {".mds", "an MDS shard", TAKE_TEXTS, NULL, NULL, 0},
    {".idx", "an index of another file", TAKE_TEXTS, NULL, NULL, 0},
    {".pdf", "a PDF document", TAKE_TEXTS, NULL, "%PDF-", 5},
    {".docx", "a Word document", TAKE_TEXTS, NULL, NULL, 0},
    {".pkl", "a pickle of Python", TAKE_TEXTS, NULL, NULL, 0},
    {".pt", "a file of PyTorch", TAKE_TEXTS, NULL, NULL, 0},
    {".pth", "a file of PyTorch", TAKE_TEXTS, NULL, NULL, 0},
    {".safetensors", "a file of weights", TAKE_TEXTS, NULL, NULL, 0},
    {".npy", "a NumPy array", FROM_NUMPY, NULL, "\x93NUMPY", 6},
    {".npz", "NumPy arrays", TAKE_TEXTS, NULL, NULL, 0},
    {".gz", "compressed", UNPACK, "gunzip -k", "\x1f\x8b\x08", 3},
    {".tgz", "an archive", UNPACK, "tar -xf", NULL, 0},
    {".tar", "an archive", UNPACK, "tar -xf", NULL, 0},
    {".zst", "compressed", UNPACK, "zstd -d", "\x28\xb5\x2f\xfd", 4},
    {".xz", "compressed", UNPACK, "xz -dk",
     "\xfd"
     "7zXZ",
     5},
    {".bz2", "compressed", UNPACK, "bunzip2 -k", "BZh", 3},
    {".lz4", "compressed", UNPACK, "lz4 -d", "\x04\x22\x4d\x18", 4},
    {".zip", "an archive", UNPACK, "unzip", "PK\x03\x04", 4},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcasecmp(text + length - tail, end) == 0;
}

bool sw_data_names_tokens(const char *path)
{
    const size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".bin") == 0;
}

bool sw_data_is_bytes(const struct sw_run_config *run)
{
    return run->data_format == SW_DATA_BYTES || !sw_data_names_tokens(run->data_path);
}

/* The first bytes of a file; 0: it cannot be seen, or is no regular one. */
static size_t read_head(const char *path, unsigned char head[HEAD_BYTES])
{
    struct stat info;
    size_t count = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode))
        for (ssize_t got;
             count < HEAD_BYTES && (got = read(file, head + count, HEAD_BYTES - count)) > 0;)
            count += (size_t)got;
    if (file >= 0)
        close(file);
    return count;
}

static const struct form *find_beginning(const unsigned char *head, size_t bytes, size_t least)
{
    for (size_t i = 0; i < FORMS; i++)
        if (forms[i].begins != NULL && forms[i].begin_bytes >= least &&
            bytes >= forms[i].begin_bytes &&
            memcmp(head, forms[i].begins, forms[i].begin_bytes) == 0)
            return &forms[i];
    return NULL;
}

/* By its name; of one that has none of these names, by how it begins. Tokens may begin with any
 * numbers: two of them are no sign. */
static const struct form *find_form(const char *path, const unsigned char *head, size_t bytes)
{
    const size_t least = sw_data_names_tokens(path) ? 4 : 3;
    for (size_t i = 0; i < FORMS; i++)
        if (ends_with(path, forms[i].ends))
            return &forms[i];
    return find_beginning(head, bytes, least);
}

static struct sw_place place_of(const struct sw_run_config *run)
{
    return run->data_place.file != NULL ? run->data_place
                                        : (struct sw_place){.file = run->data_path};
}

static bool is_control(unsigned char byte)
{
    return byte < 0x20 && (byte < '\t' || byte > '\r') && byte != 0x1b;
}

/* Tokens of 2 or 4 bytes are full of bytes that no text has. */
static bool is_text(const unsigned char *head, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (is_control(head[i]))
            return false;
    return bytes > 0;
}

/* llm.c's header: the magic number, then version 1 or 7. */
static bool has_token_header(const unsigned char *head, size_t bytes)
{
    static const unsigned char magic[4] = {0x88, 0xd8, 0x34, 0x01}; /* 20240520 */
    return bytes >= 1024 && memcmp(head, magic, sizeof magic) == 0;
}

/* "path" without its last ending, as one word of the shell. */
static void write_renamed(FILE *out, const char *path, const char *end)
{
    const char *name = sw_path_name(path), *dot = strrchr(name, '.');
    const size_t keep = dot == NULL || dot == name ? strlen(path) : (size_t)(dot - path);
    char *renamed = malloc(keep + strlen(end) + 1);
    if (renamed == NULL)
        return;
    memcpy(renamed, path, keep);
    strcpy(renamed + keep, end);
    sw_shell_write_word(out, renamed);
    free(renamed);
}

/* The command that makes tokens of `path`, and that they are to be named. */
static void write_tokenize(FILE *out, const struct sw_run_config *run, const char *path)
{
    fprintf(out, "runner tokenize --tokenizer ");
    if (run->init_from != NULL && sw_tokenizer_file(run->init_from) != NULL)
        sw_shell_write_word(out, run->init_from);
    else
        fprintf(out, "TOKENIZER.json");
    fputc(' ', out);
    sw_shell_write_word(out, path);
    fputc(' ', out);
    write_renamed(out, path, sw_data_names_tokens(path) ? ".tokens.bin" : ".bin");
}

static void write_remedy(FILE *out, const struct sw_run_config *run, const struct form *form,
                         bool reads_bytes)
{
    switch (form == NULL ? TOKENIZE : form->remedy) {
    case TOKENIZE:
        if (reads_bytes) { /* a .jsonl for a model of bytes */
            fprintf(out, "take its texts out, 'jq -r .text ");
            sw_shell_write_word(out, run->data_path);
            fprintf(out, " >");
            write_renamed(out, run->data_path, ".txt");
            fprintf(out, "', and name those");
            break;
        }
        fprintf(out, "tokenize it, '");
        write_tokenize(out, run, run->data_path);
        fprintf(out, "', and name what that writes");
        break;
    case TAKE_TEXTS:
        fprintf(out, "write its texts to a NAME.txt%s",
                reads_bytes ? ", and name that"
                            : ", or one a line as {\"text\": \"...\"} to a NAME.jsonl, make tokens "
                              "of it with 'runner tokenize', and name those");
        break;
    case UNPACK:
        fprintf(out, "unpack it, '%s ", form->command);
        sw_shell_write_word(out, run->data_path);
        fprintf(out, "'%s",
                reads_bytes ? ", and name the text"
                            : ", make tokens of the text with 'runner tokenize', and "
                              "name those");
        break;
    case FROM_NUMPY:
        fprintf(out,
                "write its numbers as tokens, 'python3 -c \"import numpy, sys; "
                "numpy.load(sys.argv[1]).astype(\\\"<u%d\\\").tofile(sys.argv[2])\" ",
                run->model.shape.vocab_size <= 65536 ? 2 : 4);
        sw_shell_write_word(out, run->data_path);
        fputc(' ', out);
        write_renamed(out, run->data_path, ".bin");
        fprintf(out, "', and name those");
        break;
    }
    fprintf(out, " as data.path, or say data.format: bytes to train on its bytes");
}

/* "'NAME' WHY; REMEDY" */
static int refuse(const struct sw_run_config *run, const struct form *form, bool reads_bytes,
                  const char *why, struct sw_error *err)
{
    char *remedy = NULL;
    size_t bytes;
    FILE *out = open_memstream(&remedy, &bytes);
    if (out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    write_remedy(out, run, form, reads_bytes);
    const bool written = fclose(out) == 0;
    if (written)
        sw_fail_at(err, SW_BAD_INPUT, place_of(run), "'%.200s' %s; %s",
                   sw_path_name(run->data_path), why, remedy);
    free(remedy);
    return written ? -1 : sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
}

static int check_bytes_wanted(const struct sw_run_config *run, const unsigned char *head,
                              size_t bytes, struct sw_error *err)
{
    if (run->model.shape.vocab_size < BYTE_VALUES)
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "bytes need a vocab_size of at least 256, the model has %" PRId64
                          "; use another model, or a .bin file of its tokens",
                          run->model.shape.vocab_size);
    if (has_token_header(head, bytes))
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "'%.200s' holds tokens, and data.format is bytes; leave data.format out",
                          sw_path_name(run->data_path));
    return 0;
}

static int check(const struct sw_run_config *run, const unsigned char *head, size_t bytes,
                 struct sw_error *err)
{
    static const struct form other = {.remedy = TAKE_TEXTS};
    char why[320];
    if (run->data_format == SW_DATA_BYTES)
        return check_bytes_wanted(run, head, bytes, err);
    const char *tokenizer = run->init_from != NULL ? sw_tokenizer_file(run->init_from) : NULL;
    const bool reads_bytes = run->model.shape.vocab_size == BYTE_VALUES && tokenizer == NULL;
    const struct form *form = find_form(run->data_path, head, bytes);
    if (form != NULL) {
        snprintf(why, sizeof why, "is %s, neither tokens nor plain text", form->what);
        return refuse(run, form, reads_bytes, why, err);
    }
    if (sw_data_names_tokens(run->data_path)) {
        if (!is_text(head, bytes))
            return 0;
        return refuse(run, reads_bytes ? &other : NULL, reads_bytes,
                      "is plain text, but a name that ends in .bin means tokens", err);
    }
    if (has_token_header(head, bytes))
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "'%.200s' holds tokens, but its name does not end in .bin; rename it",
                          sw_path_name(run->data_path));
    if (run->model.shape.vocab_size < BYTE_VALUES)
        return check_bytes_wanted(run, head, bytes, err);
    if (run->model.shape.vocab_size != BYTE_VALUES)
        snprintf(why, sizeof why,
                 "is not a file of tokens (NAME.bin), and the bytes of a text are not tokens of a "
                 "model whose vocab_size is %" PRId64,
                 run->model.shape.vocab_size);
    else if (tokenizer != NULL)
        snprintf(why, sizeof why,
                 "is not a file of tokens (NAME.bin), and init.from has a tokenizer, '%s'",
                 tokenizer);
    else if (bytes > 0 && memchr(head, 0, bytes) != NULL)
        snprintf(why, sizeof why, "is neither tokens (NAME.bin) nor plain text, it has zero bytes");
    else
        return 0;
    return refuse(run, reads_bytes ? &other : NULL, reads_bytes, why, err);
}

int sw_data_check(const struct sw_run_config *run, struct sw_error *err)
{
    unsigned char *head = malloc(HEAD_BYTES);
    if (head == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    const int status = check(run, head, read_head(run->data_path, head), err);
    free(head);
    return status;
}

int sw_data_check_text(const char *path, const char *text, size_t bytes, struct sw_error *err)
{
    const struct sw_place at = {.file = path};
    const unsigned char *head = (const unsigned char *)text;
    const size_t looked = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    const struct form *form = is_text(head, looked) ? NULL : find_beginning(head, looked, 3);
    if (form != NULL && form->remedy == UNPACK)
        return sw_fail_at(err, SW_BAD_INPUT, at, "is %s, no text; unpack it with '%s' first",
                          form->what, form->command);
    if (form != NULL)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "is %s, no text; write its texts to a NAME.txt, or one a line as "
                          "{\"text\": \"...\"} to a NAME.jsonl",
                          form->what);
    if (memchr(head, 0, looked) == NULL)
        return 0;
    const bool utf16 =
        looked >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0);
    return sw_fail_at(err, SW_BAD_INPUT, at, "has zero bytes, which no text in UTF-8 has; %s",
                      utf16 ? "convert it with 'iconv -f UTF-16 -t UTF-8'"
                            : "name a text, or say --bytes to make a token of each byte");
}
