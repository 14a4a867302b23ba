/* Folders as transformers 4 and 5 write them and as people edit them (tokenizer_folders.py): each
 * gives the ids, the stops and the conversations of one of the two versions, or is refused.
 *
 *     test_tokenizer_folders DIR [REFUSED]
 *
 * DIR holds the folders. Fails when one differs from both versions, or more than REFUSED of them
 * are refused (default: any number). */
#include "runner/text/chat.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct folder {
    char path[4096];
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    struct sw_chat_template *chat; /* NULL: it has none, or it is refused */
    const json_t *texts;
};

static char difference[1024];

static bool differs(const char *what, size_t i, const char *found, const json_t *wanted)
{
    char *text = json_dumps(wanted, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(difference, sizeof difference, "%s %zu: %.300s, wanted %.300s", what, i, found, text);
    free(text);
    return false;
}

static bool same_ids(const char *what, size_t i, const int32_t *id, size_t count,
                     const json_t *wanted)
{
    bool same = count == json_array_size(wanted);
    char found[300] = "";
    for (size_t j = 0; j < count; j++) {
        same = same && json_integer_value(json_array_get(wanted, j)) == id[j];
        if (strlen(found) < sizeof found - 16)
            snprintf(found + strlen(found), 16, "%d,", (int)id[j]);
    }
    return same || differs(what, i, found, wanted);
}

static bool encodes(const struct folder *f, const json_t *wanted, bool framed)
{
    const char *what = framed ? "framed" : "plain";
    bool same = true;
    for (size_t i = 0; same && i < json_array_size(f->texts); i++) {
        const json_t *text = json_array_get(f->texts, i);
        const struct sw_encode_options options = {.add_special = framed};
        struct sw_ids ids = {0};
        struct sw_error err = {0};
        if (sw_tokenizer_encode(f->t, f->scratch, json_string_value(text), json_string_length(text),
                                &options, &ids, &err) != 0)
            same = differs(what, i, err.message, json_array_get(wanted, i));
        else
            same = same_ids(what, i, ids.id, ids.count, json_array_get(wanted, i));
        sw_ids_free(&ids);
    }
    return same;
}

static bool is_special(const struct folder *f, const json_t *wanted)
{
    int32_t *id = calloc((size_t)sw_tokenizer_size(f->t) + 1, sizeof *id);
    size_t count = 0;
    for (int32_t i = 0; i < sw_tokenizer_size(f->t); i++)
        if (sw_tokenizer_is_special(f->t, i))
            id[count++] = i;
    const bool same = same_ids("special", 0, id, count, wanted);
    free(id);
    return same;
}

/* Without any end in transformers, ours ends by eos_token and has a note. */
static bool stops(const struct folder *f, const json_t *wanted)
{
    size_t count;
    const int32_t *id = sw_tokenizer_eos(f->t, &count);
    return json_is_null(wanted) ? count <= 1 && (count == 0 || sw_tokenizer_note(f->t, 0) != NULL)
                                : same_ids("stops", 0, id, count, wanted);
}

static bool converses(const struct folder *f, const json_t *asked, const json_t *wanted)
{
    bool same = true;
    for (size_t i = 0; same && i < json_array_size(wanted); i++) {
        const json_t *one = json_array_get(wanted, i);
        const struct sw_chat_talk talk = {.messages = json_object_get(asked, "messages"),
                                          .tools = i == 1 ? json_object_get(asked, "tools") : NULL,
                                          .answer = true};
        struct sw_chars text = {0};
        struct sw_error err = {0};
        if (f->chat == NULL || sw_chat_render(f->chat, &talk, &text, NULL, NULL, &err) != 0)
            same = json_is_object(one) || differs("chat", i, err.message, one);
        else if (sw_chat_template_of_processor(f->chat))
            same = json_is_object(one) || differs("chat", i, text.byte, one);
        else
            same = json_is_string(one) && strcmp(json_string_value(one), text.byte) == 0
                       ? true
                       : differs("chat", i, text.byte, one);
        sw_chars_free(&text);
    }
    return same;
}

static bool reads_as(const struct folder *f, const json_t *expected, const char *version)
{
    const json_t *read = json_object_get(json_object_get(expected, "read"), version);
    return encodes(f, json_object_get(read, "plain"), false) &&
           encodes(f, json_object_get(read, "framed"), true) &&
           is_special(f, json_object_get(read, "special")) &&
           stops(f, json_object_get(read, "stops")) &&
           converses(f, expected, json_object_get(read, "chats"));
}

struct counts {
    int32_t folders, alike, older, newer, refused, unreadable, wrong;
};

static bool can_read(const json_t *expected, const char *version)
{
    const json_t *read = json_object_get(json_object_get(expected, "read"), version);
    return read != NULL && json_object_get(read, "error") == NULL;
}

static void judge(const struct folder *f, const json_t *expected, const char *name,
                  struct counts *c)
{
    const bool can4 = can_read(expected, "4"), can5 = can_read(expected, "5");
    const bool is4 = can4 && reads_as(f, expected, "4");
    char first[sizeof difference];
    memcpy(first, difference, sizeof first);
    const bool is5 = can5 && reads_as(f, expected, "5");
    c->alike += is4 && is5;
    c->older += is4 && !is5;
    c->newer += is5 && !is4;
    c->unreadable += !can4 && !can5;
    if (is4 || is5 || (!can4 && !can5))
        return;
    c->wrong++;
    printf("%s: as neither version reads it\n  4: %s\n  5: %s\n", name,
           can4 ? first : "cannot read it", can5 ? difference : "cannot read it");
}

static void check(const char *directory, const char *name, struct counts *c)
{
    struct folder f = {.t = NULL};
    struct sw_error err = {0};
    char file[4200], text[SW_ERROR_TEXT_BYTES];
    snprintf(f.path, sizeof f.path, "%s/%s", directory, name);
    snprintf(file, sizeof file, "%s/expected.json", f.path);
    json_t *expected = json_load_file(file, JSON_ALLOW_NUL, NULL);
    struct sw_tokenizer *t = NULL;
    if (expected == NULL)
        return;
    c->folders++;
    f.texts = json_object_get(expected, "texts");
    const int opened = sw_tokenizer_open_folder(f.path, &t, &err);
    f.t = t;
    if (opened != 0 || sw_text_scratch_new(t, &f.scratch, &err) != 0) {
        c->refused++;
        c->wrong += err.status != SW_BAD_INPUT;
        printf("refused: %s\n", sw_error_format(&err, NULL, text));
    } else {
        (void)sw_chat_template_of_folder(f.path, &f.chat, &err);
        for (int32_t i = 0; sw_tokenizer_note(t, i) != NULL; i++)
            printf("%s\n", sw_tokenizer_note(t, i));
        judge(&f, expected, name, c);
    }
    sw_chat_template_free(f.chat);
    sw_text_scratch_free(f.scratch);
    sw_tokenizer_free(t);
    json_decref(expected);
}

int main(int argc, char **argv)
{
    struct counts c = {0};
    struct dirent **entry = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: test_tokenizer_folders DIR [REFUSED]\n");
        return 2;
    }
    const int count = scandir(argv[1], &entry, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        check(argv[1], entry[i]->d_name, &c);
        free(entry[i]);
    }
    free(entry);
    printf("%d folders: %d as both versions read them, %d as 4, %d as 5, %d refused, %d that "
           "neither reads, %d wrong\n",
           c.folders, c.alike, c.older, c.newer, c.refused, c.unreadable, c.wrong);
    return c.folders == 0 || c.wrong > 0 || (argc > 2 && c.refused > atoi(argv[2])) ? 1 : 0;
}
