#include "core/plan/data_file.h"

#include "core/base/file.h"
#include "core/base/shell.h"
#include "core/base/token_file.h"
#include "core/base/tokenizer_file.h"
#include "core/plan/data_files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 65536, BYTE_VALUES = 256 };

/* The first bytes of a file. */
struct head {
    const unsigned char *byte; /* [bytes] */
    size_t bytes;
    int64_t file_bytes;
};

/* Way to convert a file that is neither tokens nor plain text. */
enum remedy { TOKENIZE, TAKE_TEXTS, UNPACK, FROM_NUMPY };

static const struct form {
    const char *ends; /* ending of its name; case does not matter */
    const char *what;
    enum remedy remedy;
    const char *command; /* for UNPACK; yields the file without that ending */
    const char *begins;  /* first bytes; NULL: not distinctive */
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
    {".mds", "a shard of MDS or LitData", TAKE_TEXTS, NULL, NULL, 0},
    {".idx", "an index of another file", TAKE_TEXTS, NULL, "MMIDIDX", 7},
    {".idx", "an index of another file", TAKE_TEXTS, NULL, "TNTIDX", 6},
    {".litpkds", "a packed data set of TinyLlama", TAKE_TEXTS, NULL, "LITPKDS", 7},
    {".avro", "an Avro table", TAKE_TEXTS, NULL, "Obj\x01", 4},
    {".orc", "an ORC table", TAKE_TEXTS, NULL, "ORC", 3},
    {".sqlite", "a database", TAKE_TEXTS, NULL, "SQLite format 3", 15},
    {".gguf", "a file of weights", TAKE_TEXTS, NULL, "GGUF", 4},
    {".png", "a picture", TAKE_TEXTS, NULL, "\x89PNG", 4},
    {".wav", "a sound or a film", TAKE_TEXTS, NULL, "RIFF", 4},
    {".so", "a program", TAKE_TEXTS, NULL,
     "\x7f"
     "ELF",
     4},
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
    {".7z", "an archive", UNPACK, "7z x", "7z\xbc\xaf\x27\x1c", 6},
    {".rar", "an archive", UNPACK, "unrar x", "Rar!\x1a\x07", 6},
    {".zip", "an archive", UNPACK, "unzip", "PK\x03\x04", 4},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* ---- forms that take more than a few bytes to recognize ---- */

static uint64_t number_at(const struct head *h, size_t at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = bytes; i > 0 && at + bytes <= h->bytes; i--)
        number = number << 8 | h->byte[at + i - 1];
    return number;
}

static bool has_at(const struct head *h, size_t at, const char *text)
{
    const size_t bytes = strlen(text);
    return at + bytes <= h->bytes && memcmp(h->byte + at, text, bytes) == 0;
}

/* RFC 1952: known flags, and the fields of packer and system. */
static bool is_gzip(const struct head *h)
{
    return h->bytes >= 18 && has_at(h, 0, "\x1f\x8b\x08") && (h->byte[3] & 0xe0) == 0 &&
           (h->byte[8] == 0 || h->byte[8] == 2 || h->byte[8] == 4) &&
           (h->byte[9] <= 13 || h->byte[9] == 255);
}

static bool is_bzip2(const struct head *h)
{
    return has_at(h, 0, "BZh") && has_at(h, 4, "1AY&SY");
}

static bool is_tar(const struct head *h)
{
    return has_at(h, 257, "ustar");
}

static bool is_safetensors(const struct head *h)
{
    return h->bytes >= 10 && h->byte[8] == '{' && strchr("\"} ", h->byte[9]) != NULL &&
           h->byte[9] != 0 && number_at(h, 0, 8) <= (uint64_t)h->file_bytes;
}

/* Protocols 4 and 5 begin with the length of the first frame; 2 and 3 with one of few
 * instructions. */
static bool is_pickle(const struct head *h)
{
    if (h->bytes < 11 || h->byte[0] != 0x80)
        return false;
    if (h->byte[1] == 4 || h->byte[1] == 5)
        return h->byte[2] == 0x95 && number_at(h, 3, 8) <= (uint64_t)h->file_bytes;
    const unsigned char next = h->byte[2], then = h->byte[3];
    return (h->byte[1] == 2 || h->byte[1] == 3) &&
           ((strchr("]}(", next) != NULL && next != 0 && (then == 'q' || then == '(')) ||
            has_at(h, 2, "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20") ||
            (next == 'c' && has_at(h, 3, "numpy")) || (next == 'c' && has_at(h, 3, "torch")) ||
            (next == 'c' && has_at(h, 3, "collections")));
}

/* A count n, then n + 1 ascending offsets of 4 bytes from the end of this table: shards of MDS and
 * chunks of LitData, which are named .bin. */
static bool is_shard(const struct head *h)
{
    const uint64_t count = number_at(h, 0, 4);
    uint64_t last = 4 + 4 * (count + 1);
    if (h->bytes < 12 || count == 0 || last > (uint64_t)h->file_bytes || number_at(h, 4, 4) != last)
        return false;
    for (uint64_t i = 1; i <= count && 4 + 4 * (i + 1) <= h->bytes; i++) {
        const uint64_t offset = number_at(h, (size_t)(4 + 4 * i), 4);
        if (offset < last || offset > (uint64_t)h->file_bytes)
            return false;
        last = offset;
    }
    return 4 + 4 * (count + 1) > h->bytes || last == (uint64_t)h->file_bytes;
}

/* A length of 8 bytes, and its checksum as TensorFlow masks CRC-32C. */
static bool is_tfrecord(const struct head *h)
{
    const uint64_t length = number_at(h, 0, 8);
    uint32_t crc = 0xffffffffu;
    if (h->bytes < 16 || length + 16 > (uint64_t)h->file_bytes || length > (uint64_t)h->file_bytes)
        return false;
    for (size_t i = 0; i < 8; i++) {
        crc ^= h->byte[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    crc = ~crc;
    return number_at(h, 8, 4) == (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u);
}

static const struct {
    const char *ends; /* ending of the row */
    bool (*is)(const struct head *head);
} signs[] = {
    {".gz", is_gzip},
    {".bz2", is_bzip2},
    {".tar", is_tar},
    {".pkl", is_pickle},
    {".safetensors", is_safetensors},
    {".mds", is_shard},
    {".tfrecord", is_tfrecord},
};

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

/* Reads nothing of a file that is missing or not a regular one. */
static void read_head(const char *path, unsigned char buffer[HEAD_BYTES], struct head *head)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        head->file_bytes = info.st_size;
        for (ssize_t got; head->bytes < HEAD_BYTES &&
                          (got = read(file, buffer + head->bytes, HEAD_BYTES - head->bytes)) > 0;)
            head->bytes += (size_t)got;
    }
    if (file >= 0)
        close(file);
}

static const struct form *find_beginning(const struct head *head, size_t least)
{
    for (size_t i = 0; i < FORMS; i++)
        if (forms[i].begins != NULL && forms[i].begin_bytes >= least &&
            head->bytes >= forms[i].begin_bytes &&
            memcmp(head->byte, forms[i].begins, forms[i].begin_bytes) == 0)
            return &forms[i];
    for (size_t k = 0; k < sizeof signs / sizeof signs[0]; k++)
        for (size_t i = 0; signs[k].is(head) && i < FORMS; i++)
            if (strcmp(forms[i].ends, signs[k].ends) == 0)
                return &forms[i];
    return NULL;
}

/* Recognizes a file by its name, or if no name fits, by its first bytes. Tokens may begin with any
 * numbers, so two bytes prove nothing. */
static const struct form *find_form(const char *path, const struct head *head)
{
    const size_t least = sw_data_names_tokens(path) ? 4 : 3;
    for (size_t i = 0; i < FORMS; i++)
        if (ends_with(path, forms[i].ends))
            return &forms[i];
    return find_beginning(head, least);
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

/* False for tokens of 2 or 4 bytes, which have many bytes that text lacks. */
static bool is_text(const struct head *head)
{
    for (size_t i = 0; i < head->bytes; i++)
        if (is_control(head->byte[i]))
            return false;
    return head->bytes > 0;
}

/* Checks tokens at the beginning, as the run will when it reads the file. */
static int check_tokens(const struct sw_run_config *run, const struct head *head,
                        struct sw_error *err)
{
    const int64_t vocab = run->model.shape.vocab_size;
    const struct sw_place nowhere = {.file = NULL};
    struct sw_token_form form;
    struct sw_error why = {0};
    if (sw_token_form(head->byte, head->bytes, head->file_bytes, vocab, nowhere, &form, &why) ==
        0) {
        const unsigned char *first = head->byte + form.begin_bytes;
        const int64_t count = ((int64_t)head->bytes - form.begin_bytes) / form.width;
        const int64_t bad = sw_token_find_bad(first, form.width, count, vocab);
        if (bad < 0)
            return 0;
        sw_token_refuse(sw_token_at(first, form.width, bad), bad, vocab, nowhere, &why);
    }
    return sw_fail_at(err, why.status, place_of(run), "'%.200s': %s", sw_path_name(run->data_path),
                      why.message);
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

/* Writes the command that makes tokens of `path`, and the key to name them. */
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
        write_renamed(out, run->data_path,
                      sw_data_names_tokens(run->data_path) ? ".tokens.bin" : ".bin");
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

static int check_bytes_wanted(const struct sw_run_config *run, const struct head *head,
                              struct sw_error *err)
{
    if (run->model.shape.vocab_size < BYTE_VALUES)
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "bytes need a vocab_size of at least 256, the model has %" PRId64
                          "; use another model, or a .bin file of its tokens",
                          run->model.shape.vocab_size);
    if (sw_token_has_header(head->byte, head->bytes))
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "'%.200s' holds tokens, and data.format is bytes; leave data.format out",
                          sw_path_name(run->data_path));
    return 0;
}

static int check(const struct sw_run_config *run, const struct head *head, struct sw_error *err)
{
    static const struct form other = {.remedy = TAKE_TEXTS};
    char why[320];
    if (run->data_format == SW_DATA_BYTES)
        return check_bytes_wanted(run, head, err);
    const char *tokenizer = run->init_from != NULL ? sw_tokenizer_file(run->init_from) : NULL;
    const bool reads_bytes = run->model.shape.vocab_size == BYTE_VALUES && tokenizer == NULL;
    const struct form *form = find_form(run->data_path, head);
    if (form != NULL) {
        snprintf(why, sizeof why, "is %s, neither tokens nor plain text", form->what);
        return refuse(run, form, reads_bytes, why, err);
    }
    if (sw_data_names_tokens(run->data_path)) {
        if (!is_text(head))
            return head->bytes > 0 ? check_tokens(run, head, err) : 0;
        return refuse(run, reads_bytes ? &other : NULL, reads_bytes,
                      "is plain text, but a name that ends in .bin means tokens", err);
    }
    if (sw_token_has_header(head->byte, head->bytes))
        return sw_fail_at(err, SW_BAD_INPUT, place_of(run),
                          "'%.200s' holds tokens, but its name does not end in .bin; rename it",
                          sw_path_name(run->data_path));
    if (run->model.shape.vocab_size < BYTE_VALUES)
        return check_bytes_wanted(run, head, err);
    if (run->model.shape.vocab_size != BYTE_VALUES)
        snprintf(why, sizeof why,
                 "is not a file of tokens (NAME.bin), and the bytes of a text are not tokens of a "
                 "model whose vocab_size is %" PRId64,
                 run->model.shape.vocab_size);
    else if (tokenizer != NULL)
        snprintf(why, sizeof why,
                 "is not a file of tokens (NAME.bin), and init.from has a tokenizer, '%s'",
                 tokenizer);
    else if (head->bytes > 0 && memchr(head->byte, 0, head->bytes) != NULL)
        snprintf(why, sizeof why, "is neither tokens (NAME.bin) nor plain text, it has zero bytes");
    else
        return 0;
    return refuse(run, reads_bytes ? &other : NULL, reads_bytes, why, err);
}

/* Checks one file, the only one of `run`. */
static int check_one(const struct sw_run_config *run, struct sw_error *err)
{
    unsigned char *buffer = malloc(HEAD_BYTES);
    struct head head = {.byte = buffer};
    if (buffer == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    read_head(run->data_path, buffer, &head);
    const int status = check(run, &head, err);
    free(buffer);
    return status;
}

/* Refuses a mixture of tokens and texts as bytes. */
static int check_kind(const struct sw_run_config *run, const char *path, struct sw_place place,
                      struct sw_error *err)
{
    const bool first = sw_data_is_bytes(run);
    if (run->data_format == SW_DATA_BYTES || !sw_data_names_tokens(path) == first)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, place,
                      "'%.200s' is a %s, and '%.200s' a %s; name files "
                      "of one kind",
                      sw_path_name(path), first ? ".bin of tokens" : "text",
                      sw_path_name(run->data_path), first ? "text" : ".bin of tokens");
}

static int check_files(const struct sw_run_config *run, const struct sw_paths *paths,
                       struct sw_run_config *one, struct sw_error *err)
{
    struct sw_data_files files;
    int status = 0;
    if (sw_data_files_find(paths, &files, NULL) != 0)
        return 0; /* the reader reports it */
    for (int32_t i = 0; status == 0 && i < files.items; i++)
        for (int32_t j = files.begin[i]; status == 0 && j < files.begin[i + 1]; j++) {
            one->data_path = files.path[j];
            one->data_place = paths->item[i].place;
            status = check_kind(run, files.path[j], one->data_place, err);
            status = status == 0 ? check_one(one, err) : status;
        }
    sw_data_files_free(&files);
    return status;
}

int sw_data_check(const struct sw_run_config *run, struct sw_error *err)
{
    struct sw_run_config *one = malloc(sizeof *one);
    if (one == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    *one = *run;
    const int status = check_files(run, &run->data_paths, one, err) != 0 ||
                               check_files(run, &run->data_validation, one, err) != 0
                           ? -1
                           : 0;
    free(one);
    return status;
}

int sw_data_check_text(const char *path, const char *text, size_t bytes, struct sw_error *err)
{
    const struct sw_place at = {.file = path};
    const size_t looked = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    const struct head head = {(const unsigned char *)text, looked, (int64_t)bytes};
    const struct form *form = is_text(&head) ? NULL : find_beginning(&head, 3);
    if (form != NULL && form->remedy == UNPACK)
        return sw_fail_at(err, SW_BAD_INPUT, at, "is %s, no text; unpack it with '%s' first",
                          form->what, form->command);
    if (form != NULL)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "is %s, no text; write its texts to a NAME.txt, or one a line as "
                          "{\"text\": \"...\"} to a NAME.jsonl",
                          form->what);
    if (memchr(text, 0, looked) == NULL)
        return 0;
    const bool utf16 =
        looked >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
    return sw_fail_at(err, SW_BAD_INPUT, at, "has zero bytes, which no text in UTF-8 has; %s",
                      utf16 ? "convert it with 'iconv -f UTF-16 -t UTF-8'"
                            : "name a text, or say --bytes to make a token of each byte");
}
