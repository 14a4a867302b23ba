/* Answers counted_chats.py, a line of JSON for each of the input: of {"tokenizer": PATH,
 * "text": ...} {"ids": [...], "offsets": [begin, end, ...]} in bytes; of {"folder": DIR,
 * "messages": ..., "tools": ..., "variables": ...} {"ids": [...], "counts": [...]}; or {"error":
 * ...}. */
#include "runner/text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last tokenizer and chat template, which many lines may be about. */
struct opened {
    char *path;
    struct sw_tokenizer *tokenizer;
    struct sw_text_scratch *scratch;
    struct sw_chat_template *chat;
};

static void close_opened(struct opened *o)
{
    sw_text_scratch_free(o->scratch);
    sw_tokenizer_free(o->tokenizer);
    sw_chat_template_free(o->chat);
    free(o->path);
    *o = (struct opened){0};
}

static int open_path(struct opened *o, const char *path, bool is_folder, struct sw_error *err)
{
    if (o->path != NULL && strcmp(o->path, path) == 0)
        return 0;
    close_opened(o);
    if ((is_folder ? sw_tokenizer_open_folder(path, &o->tokenizer, err)
                   : sw_tokenizer_open(path, &o->tokenizer, err)) != 0 ||
        sw_text_scratch_new(o->tokenizer, &o->scratch, err) != 0 ||
        (is_folder && sw_chat_template_of_folder(path, &o->chat, err) != 0))
        return -1;
    o->path = strdup(path);
    return 0;
}

static json_t *answer(struct opened *o, const json_t *asked)
{
    const char *folder = json_string_value(json_object_get(asked, "folder"));
    const char *path = json_string_value(json_object_get(asked, "tokenizer"));
    const json_t *text = json_object_get(asked, "text");
    struct sw_chat_talk talk = {.messages = json_object_get(asked, "messages"),
                                .tools = json_object_get(asked, "tools"),
                                .variables = json_object_get(asked, "variables")};
    struct sw_text_spans offsets = {0};
    const struct sw_encode_options options = {.offsets = &offsets};
    struct sw_ids ids = {0};
    struct sw_error err = {0};
    char shown[SW_ERROR_TEXT_BYTES];
    uint8_t *counts = NULL;
    json_t *out = json_object(), *list = json_array(), *more = json_array();
    int status = open_path(o, folder != NULL ? folder : path, folder != NULL, &err);
    if (status == 0 && folder != NULL)
        status =
            sw_chat_encode_counted(o->chat, o->tokenizer, o->scratch, &talk, &ids, &counts, &err);
    else if (status == 0)
        status = sw_tokenizer_encode(o->tokenizer, o->scratch, json_string_value(text),
                                     json_string_length(text), &options, &ids, &err);
    for (size_t i = 0; status == 0 && i < ids.count; i++) {
        json_array_append_new(list, json_integer(ids.id[i]));
        if (counts != NULL)
            json_array_append_new(more, json_integer(counts[i]));
    }
    for (size_t i = 0; status == 0 && i < offsets.count; i++) {
        json_array_append_new(more, json_integer((json_int_t)offsets.span[i].begin));
        json_array_append_new(more, json_integer((json_int_t)offsets.span[i].end));
    }
    if (status == 0) {
        json_object_set(out, "ids", list);
        json_object_set(out, folder != NULL ? "counts" : "offsets", more);
    } else {
        json_object_set_new(out, "error", json_string(sw_error_format(&err, NULL, shown)));
    }
    json_decref(list);
    json_decref(more);
    sw_ids_free(&ids);
    sw_text_spans_free(&offsets);
    free(counts);
    return out;
}

int main(void)
{
    struct opened opened = {0};
    char *line = NULL;
    size_t room = 0;
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) > 0;) {
        json_t *asked = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL);
        json_t *said = answer(&opened, asked);
        json_dumpf(said, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(said);
        json_decref(asked);
    }
    close_opened(&opened);
    free(line);
    return 0;
}
