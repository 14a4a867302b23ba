/* Tokens of conversations that count, as transformers says it (counted_chats.py): by beginnings of
 * a template's text, by the generation blocks of its copy. Of drawn conversations, with words that
 * look like special tokens, both methods must agree.
 *
 *     test_counted_chats DIR [DRAWS [SEED]]
 *
 * DIR holds the unpacked fixtures; DRAWS for each of its folders. */
#include "runner/text/chat.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *directory;
static uint64_t draws = 8, seed = 1;

struct folder {
    char path[4096];
    struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    struct sw_chat_template *plain, *copy;
};
struct counted {
    int status;
    struct sw_ids ids;
    uint8_t *counts;
    struct sw_error err;
};

static struct counted count(const struct folder *f, const struct sw_chat_template *chat,
                            const json_t *messages, const json_t *tools)
{
    struct counted c = {0};
    const struct sw_chat_talk talk = {.messages = messages,
                                      .tools = json_is_array(tools) ? tools : NULL};
    c.status = sw_chat_encode_counted(chat, f->t, f->scratch, &talk, &c.ids, &c.counts, &c.err);
    assert_true(c.status == 0 || (c.ids.count == 0 && c.counts == NULL));
    return c;
}

static void free_counted(struct counted *c)
{
    sw_ids_free(&c->ids);
    free(c->counts);
}

static void open_folder(struct folder *f, const char *name)
{
    char path[8192];
    struct sw_error err = {0};
    snprintf(f->path, sizeof f->path, "%s/%s", directory, name);
    snprintf(path, sizeof path, "%s/copy", f->path);
    if (sw_tokenizer_open_folder(f->path, &f->t, &err) != 0 ||
        sw_text_scratch_new(f->t, &f->scratch, &err) != 0 ||
        sw_chat_template_of_folder(f->path, &f->plain, &err) != 0 ||
        sw_chat_template_of_folder(path, &f->copy, &err) != 0)
        fail_msg("%s: %s", name, err.message);
}

static void close_folder(struct folder *f)
{
    sw_text_scratch_free(f->scratch);
    sw_tokenizer_free(f->t);
    sw_chat_template_free(f->plain);
    sw_chat_template_free(f->copy);
}

/* ---- what transformers says ---- */

static void expect(const struct folder *f, const char *method, const struct counted *c,
                   const json_t *one)
{
    const json_t *ids = json_object_get(one, "ids");
    const char *counts = json_string_value(json_object_get(one, "counts"));
    size_t i = 0;
    if (c->status != 0)
        fail_msg("%s: by %s: %s", f->path, method, c->err.message);
    while (i < c->ids.count && i < json_array_size(ids) &&
           c->ids.id[i] == json_integer_value(json_array_get(ids, i)) &&
           (c->counts[i] != 0) == (counts[i] == '1'))
        i++;
    if (i != c->ids.count || i != json_array_size(ids))
        fail_msg("%s: by %s: token %zu of %zu, wanted %zu, of %s", f->path, method, i, c->ids.count,
                 json_array_size(ids), json_dumps(one, JSON_COMPACT));
}

static void check_case(const struct folder *f, const json_t *one, size_t *refused)
{
    const json_t *messages = json_object_get(one, "messages"),
                 *tools = json_object_get(one, "tools");
    struct counted blocks = count(f, f->copy, messages, tools);
    struct counted beginnings = count(f, f->plain, messages, tools);
    expect(f, "blocks", &blocks, one);
    if (beginnings.status == 0 || !json_is_true(json_object_get(one, "refuses")))
        expect(f, "beginnings", &beginnings, one);
    else
        *refused += 1;
    free_counted(&blocks);
    free_counted(&beginnings);
}

static size_t check_cases(const struct folder *f, size_t *refused)
{
    char path[8192], *line = NULL;
    size_t room = 0, cases = 0;
    snprintf(path, sizeof path, "%s/cases.jsonl", f->path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (ssize_t bytes; (bytes = getline(&line, &room, file)) > 0; cases++) {
        json_t *one = json_loadb(line, (size_t)bytes, 0, NULL);
        assert_non_null(one);
        check_case(f, one, refused);
        json_decref(one);
    }
    free(line);
    fclose(file);
    return cases;
}

/* ---- drawn ---- */

static uint64_t drawn(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static json_t *draw_text(void)
{
    static const char *const words[] = {"a",
                                        "the ",
                                        " Wort",
                                        "\303\251",
                                        "e\314\201",
                                        "\314\270x",
                                        "\346\227\245",
                                        "\n",
                                        "\n\n",
                                        "  ",
                                        "\342\226\201",
                                        "\360\237\230\200",
                                        "3.14",
                                        "<|im_end|>",
                                        "</s>",
                                        "<s>",
                                        "[INST]",
                                        "<think>",
                                        "</think>",
                                        "<|end|>",
                                        "<|assistant|>",
                                        "\302\240",
                                        "<end_of_turn>",
                                        "<|eot_id|>",
                                        "<tool_call>",
                                        "\t"};
    char text[256] = "";
    for (uint64_t i = drawn(7); i > 0; i--)
        strcat(text, words[drawn(sizeof words / sizeof words[0])]);
    return json_string(text);
}

static json_t *draw_talk(void)
{
    json_t *messages = json_array();
    if (drawn(2) == 0)
        json_array_append_new(messages,
                              json_pack("{s:s,s:o}", "role", "system", "content", draw_text()));
    for (uint64_t i = 1 + drawn(4); i > 0; i--) {
        json_t *answer = json_pack("{s:s,s:o}", "role", "assistant", "content", draw_text());
        json_array_append_new(messages,
                              json_pack("{s:s,s:o}", "role", "user", "content", draw_text()));
        if (drawn(4) == 0)
            json_object_set_new(answer, "reasoning_content", draw_text());
        if (drawn(4) == 0)
            json_object_set_new(answer, "tool_calls",
                                json_pack("[{s:{s:s,s:{s:o}}}]", "function", "name", "add",
                                          "arguments", "a", draw_text()));
        json_array_append_new(messages, answer);
        if (drawn(8) == 0)
            json_array_append_new(
                messages, json_pack("{s:s,s:o}", "role", "assistant", "content", draw_text()));
    }
    return messages;
}

/* true if both methods count; they must agree then. */
static bool check_draw(const struct folder *f, uint64_t at)
{
    json_t *messages = draw_talk();
    struct counted blocks = count(f, f->copy, messages, NULL);
    struct counted beginnings = count(f, f->plain, messages, NULL);
    const bool both = blocks.status == 0 && beginnings.status == 0;
    if (both ? blocks.ids.count != beginnings.ids.count ||
                   memcmp(blocks.ids.id, beginnings.ids.id,
                          blocks.ids.count * sizeof *blocks.ids.id) != 0 ||
                   memcmp(blocks.counts, beginnings.counts, blocks.ids.count) != 0
             : beginnings.status == 0 ||
                   (blocks.status == 0 && strstr(beginnings.err.message, "cannot be told") == NULL))
        fail_msg("%s: draw %llu: %s: %s", f->path, (unsigned long long)at, beginnings.err.message,
                 json_dumps(messages, JSON_COMPACT));
    free_counted(&blocks);
    free_counted(&beginnings);
    json_decref(messages);
    return both;
}

static void test_folders(void **state)
{
    (void)state;
    size_t cases = 0, refused = 0, both = 0, folders = 0;
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        struct folder f = {0};
        if (entry->d_name[0] == '.')
            continue;
        open_folder(&f, entry->d_name);
        cases += check_cases(&f, &refused);
        for (uint64_t i = 0; i < draws; i++)
            both += check_draw(&f, i);
        close_folder(&f);
        folders++;
    }
    closedir(open);
    assert_true(cases > 0 && refused < cases / 6 && both >= folders * draws / 2);
    printf("%zu conversations as transformers counts them, %zu of which the method of beginnings "
           "refuses; %zu of %llu drawn ones counted by both methods\n",
           cases, refused, both, (unsigned long long)(folders * draws));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folders)};
    if (argc < 2)
        return 2;
    directory = argv[1];
    draws = argc > 2 ? strtoull(argv[2], NULL, 10) : draws;
    seed = argc > 3 ? strtoull(argv[3], NULL, 10) : seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
