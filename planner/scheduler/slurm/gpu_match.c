/* Recognizes accelerators by names that sites use: family, form factor and gigabytes, in any order
 * and with any separator, as nvml and rocm-smi print them or as administrators write them. */
#include "planner/scheduler/slurm/gpu_catalog.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 6, WORD_BYTES = 64 };
enum form { FORM_UNTOLD, FORM_SXM, FORM_PCIE, FORM_NVL, FORM_ANY };

/* Names of accelerators, with the gigabytes in names of whole ones. */
static const struct family {
    const char *name;
    int32_t size[SIZES]; /* GB, smallest first, 0 ends; none: no name seen has a size */
} families[] = {
    {"a100", {40, 64, 80}},
    {"a30", {24}},
    {"a40", {45, 46, 48}},
    {"b200", {179, 180, 183, 192}},
    {"b300", {268, 270, 275, 288}},
    {"gb200", {184, 186, 189, 192}},
    {"gb300", {277, 279, 284, 288}},
    {"gh200", {96, 120, 141, 144, 480, 624}},
    {"h100", {64, 80, 94, 96}},
    {"h200", {140, 141, 143, 144}},
    {"l40", {45, 46, 48}},
    {"l40s", {45, 46, 48}},
    {"mi210", {64}},
    {"mi250", {64, 128}},
    {"mi250x", {64, 128}},
    {"mi300a", {128}},
    {"mi300x", {192}},
    {"mi325x", {256}},
    {"mi355x", {288}},
    {"p100", {12, 16}},
    {"t4", {15, 16}},
    {"v100", {16, 32}},
    {"v100s", {32}},
    {"a10", {0}},
    {"a16", {0}},
    {"a2", {0}},
    {"a800", {40, 80}},
    {"h20", {96, 141}},
    {"h800", {80}},
    {"k80", {0}},
    {"l4", {0}},
    {"mi100", {32}},
};

/* Sheet for a name. The first row that fits counts; a family without a row has no sheet. */
static const struct card {
    const char *family;
    enum form form;
    int32_t size;        /* GB; 0: any, -1: not given */
    const char *sheet;   /* NULL: none shipped */
    const char *assumed; /* property missing in the name; NULL: none */
    const char *near;    /* file of configs/accelerators that may fit; NULL: none */
} cards[] = {
    {"a100", FORM_PCIE, 0, NULL, NULL, NULL},
    {"a100", FORM_SXM, 40, "a100-sxm-40gb", NULL, NULL},
    {"a100", FORM_SXM, 80, "a100-sxm-80gb", NULL, NULL},
    {"a100", FORM_UNTOLD, 40, "a100-sxm-40gb", "SXM (others are PCIe cards)", NULL},
    {"a100", FORM_UNTOLD, 80, "a100-sxm-80gb", "SXM (others are PCIe cards)", NULL},
    {"a100", FORM_ANY, -1, "a100-sxm-80gb", "80 GB (others have 40 GB)", NULL},
    {"a40", FORM_ANY, 0, "a40-48gb", NULL, NULL},
    {"b200", FORM_ANY, 0, "b200-sxm-180gb", NULL, NULL},
    {"b300", FORM_ANY, 0, "b300-sxm-270gb", NULL, NULL},
    /* their NVLink spans nodes: links of a node and a network would describe another machine */
    {"gb200", FORM_ANY, 0, NULL, NULL, "gb200-186gb"},
    {"gb300", FORM_ANY, 0, NULL, NULL, "gb300-279gb"},
    {"gh200", FORM_ANY, -1, "gh200-96gb", "96 GB (others have 144 GB)", NULL},
    {"gh200", FORM_ANY, 96, "gh200-96gb", NULL, NULL},
    /* nvml's name includes the memory of its processor: 96 GB come with 120 or 480 */
    {"gh200", FORM_ANY, 120, "gh200-96gb", NULL, NULL},
    {"gh200", FORM_ANY, 480, "gh200-96gb", NULL, NULL},
    {"h100", FORM_ANY, 96, NULL, NULL, "h100-sxm-96gb-hbm2e-500w"},
    {"h100", FORM_PCIE, 80, "h100-pcie-80gb", NULL, NULL},
    {"h100", FORM_PCIE, -1, "h100-pcie-80gb", NULL, NULL},
    {"h100", FORM_SXM, 80, "h100-sxm-80gb", NULL, NULL},
    {"h100", FORM_SXM, -1, "h100-sxm-80gb", NULL, NULL},
    {"h100", FORM_UNTOLD, 80, "h100-sxm-80gb", "SXM (others are PCIe cards)", NULL},
    {"h100", FORM_UNTOLD, -1, "h100-sxm-80gb", "SXM (others are PCIe cards)", NULL},
    {"h200", FORM_NVL, 0, NULL, NULL, NULL},
    {"h200", FORM_PCIE, 0, NULL, NULL, NULL},
    {"h200", FORM_ANY, 0, "h200-sxm-141gb", NULL, NULL},
    {"l40s", FORM_ANY, 0, "l40s-48gb", NULL, NULL},
    {"mi250", FORM_ANY, 0, "mi250x-64gb", "MI250X (an MI250 has 104 of its 110 compute units)",
     NULL},
    {"mi250x", FORM_ANY, 0, "mi250x-64gb", NULL, NULL},
    {"mi300x", FORM_ANY, 0, "mi300x-192gb", NULL, NULL},
    {"mi355x", FORM_ANY, 0, "mi355x-288gb", NULL, NULL},
};

/* Facts of a name so far. */
struct told {
    const struct family *family; /* NULL: none is named */
    enum form form;
    int32_t size; /* GB; -1: not given */
    bool odd;     /* true if no whole accelerator of the family has this size */
};

/* ---- Words ---- */

/* The next run of letters and digits, in small letters; false: there is none. */
static bool next_word(const char **text, char word[WORD_BYTES])
{
    const char *p = *text;
    size_t length = 0;
    while (*p != '\0' && !isalnum((unsigned char)*p))
        p++;
    for (; isalnum((unsigned char)*p); p++)
        if (length < WORD_BYTES - 1)
            word[length++] = (char)tolower((unsigned char)*p);
    word[length] = '\0';
    *text = p;
    return length > 0;
}

/* The form factor at the begin of a word ("sxm5", "pcie", "nvl"), followed by a number at most. */
static enum form form_of(const char *word)
{
    static const struct {
        const char *word;
        enum form form;
    } words[] = {{"sxm", FORM_SXM},    {"hgx", FORM_SXM},  {"dgx", FORM_SXM}, {"pcie", FORM_PCIE},
                 {"pciex", FORM_PCIE}, {"pci", FORM_PCIE}, {"nvl", FORM_NVL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        if (strncmp(word, words[i].word, length) == 0 &&
            word[length + strspn(word + length, "0123456789")] == '\0')
            return words[i].form;
    }
    return FORM_UNTOLD;
}

/* Gigabytes of "80gb", "80g", "gpu80", "hbm80g", or of "80" where `bare` numbers count; -1: none.
 */
static int32_t size_of(const char *word, bool bare)
{
    static const char *const before[] = {"gpumem", "gpuram", "vram", "gmem", "gram",
                                         "hbm2e",  "hbm",    "mem",  "gpu",  ""};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const size_t length = strlen(before[i]);
        if (strncmp(word, before[i], length) != 0)
            continue;
        char *end = NULL;
        const char *digits = word + length;
        if (!isdigit((unsigned char)*digits))
            continue;
        const long size = strtol(digits, &end, 10);
        const bool unit =
            strcmp(end, "g") == 0 || strcmp(end, "gb") == 0 || strcmp(end, "gib") == 0;
        /* a memory generation ("hbm3"), a count of GPUs ("gpu4") */
        if (size >= 5 && size < 1000 &&
            (unit || (*end == '\0' && size >= 10 && (bare || length > 0))))
            return (int32_t)size;
    }
    return -1;
}

/* Words that sites put right before a family's name. */
static const char *without_maker(const char *word)
{
    static const char *const makers[] = {"nvidia", "tesla", "instinct", "amd", "gpu"};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        const size_t length = strlen(makers[i]);
        if (strncmp(word, makers[i], length) == 0 && word[length] != '\0')
            return word + length;
    }
    return word;
}

/* The family of a word, and the word joined to it ("h100sxm5", "a100x4", "dgxa100"); *rest: the
 * joined word, "" none. NULL: no family. */
static const struct family *family_of(const char *word, const char **rest, enum form *form)
{
    const struct family *best = NULL;
    word = without_maker(word);
    if ((strncmp(word, "dgx", 3) == 0 || strncmp(word, "hgx", 3) == 0) && word[3] != '\0') {
        *form = FORM_SXM;
        word += 3;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const size_t length = strlen(families[i].name);
        if (strncmp(word, families[i].name, length) != 0 ||
            (best != NULL && strlen(best->name) > length))
            continue;
        const char *glued = word + length;
        const bool count = *glued == 'x' && isdigit((unsigned char)glued[1]) &&
                           glued[1 + strspn(glued + 1, "0123456789")] == '\0';
        if (*glued != '\0' && !count && form_of(glued) == FORM_UNTOLD &&
            (size_of(glued, false) < 0 || isalpha((unsigned char)*glued)))
            continue;
        best = &families[i];
        *rest = glued;
    }
    return best;
}

static bool has_size(const struct family *family, int32_t size)
{
    for (int32_t i = 0; i < SIZES && family->size[i] > 0; i++)
        if (family->size[i] == size)
            return true;
    return false;
}

/* ---- Names ---- */

static void take_size(struct told *told, int32_t size, bool sure)
{
    if (size < 0 || told->size > 0)
        return;
    if (has_size(told->family, size)) {
        told->size = size;
    } else if (sure && told->family->size[0] > 0) {
        told->size = size;
        told->odd = true;
    }
}

/* Reads facts of a family from one name: a gres type (whole), or a node's feature, where sizes and
 * slots may belong to other things. */
static void read_name(const char *name, size_t length, bool whole, struct told *told)
{
    char text[256], word[WORD_BYTES];
    const struct family *named = NULL;
    bool after_family = false, after_memory = false;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    for (const char *p = text; named == NULL && next_word(&p, word);) {
        const char *rest = NULL;
        named = family_of(word, &rest, &told->form);
    }
    if (told->family == NULL)
        told->family = named;
    if (told->family == NULL || (named != NULL && named != told->family))
        return;
    for (const char *p = text; next_word(&p, word);) {
        const char *rest = "";
        enum form form = form_of(word);
        if (family_of(word, &rest, &told->form) != NULL)
            form = form_of(rest);
        if (strcmp(word, "hbm3") == 0 && strcmp(told->family->name, "h100") == 0)
            form = FORM_SXM; /* the PCIe card has HBM2e, and the NVL has its own word */
        if (told->form == FORM_UNTOLD && (form == FORM_SXM || named != NULL ||
                                          (form != FORM_UNTOLD && strlen(word) == strlen(text))))
            told->form = form;
        const bool bare = after_memory || (named != NULL && (whole || after_family));
        const int32_t size = *rest != '\0' ? size_of(rest, false) : size_of(word, bare);
        take_size(told, size, whole && (after_family || strchr(word, 'g') != NULL));
        after_family = family_of(word, &rest, &(enum form){FORM_UNTOLD}) != NULL;
        after_memory = strcmp(word, "mem") == 0 || strcmp(word, "vram") == 0 ||
                       strcmp(word, "gmem") == 0 || strcmp(word, "memory") == 0;
    }
}

static struct told read_names(const char *type, const char *features)
{
    struct told told = {.size = -1};
    read_name(type, strlen(type), true, &told);
    for (int32_t pass = 0; pass < 2; pass++) /* the family may come last */
        for (const char *f = features; f != NULL && *f != '\0'; f += *f == ',') {
            const size_t length = strcspn(f, ",");
            read_name(f, length, false, &told);
            f += length;
        }
    return told;
}

/* "1g.10gb", "3g20gb", "mig-40": a word of MIG's. */
static bool has_slice_word(const char *type)
{
    for (const char *p = type; *p != '\0'; p++) {
        const bool starts = p == type || !isalnum((unsigned char)p[-1]);
        if (starts && strncasecmp(p, "mig", 3) == 0 && !isalpha((unsigned char)p[3]))
            return true;
        if (starts && p[0] >= '1' && p[0] <= '7' && (p[1] == 'g' || p[1] == 'G') &&
            (isdigit((unsigned char)p[2 + (p[2] != '\0' && strchr("._-", p[2]) != NULL)]) ||
             !isalnum((unsigned char)p[2])))
            return true;
    }
    return false;
}

bool sw_catalog_is_slice(const char *type)
{
    const struct told told = read_names(type, NULL);
    return has_slice_word(type) ||
           (told.family != NULL && told.odd && told.size < told.family->size[0]);
}

struct sw_catalog_match sw_catalog_match(const char *type, const char *features)
{
    static const char *const forms[] = {"", " sxm", " pcie", " nvl", ""};
    struct sw_catalog_match match = {0};
    const struct told told = read_names(type, features);
    char size[16] = "";
    snprintf(match.known, sizeof match.known, "%s", type);
    if (told.family == NULL || sw_catalog_is_slice(type))
        return match;
    if (told.size > 0)
        snprintf(size, sizeof size, " %d", (int)told.size);
    snprintf(match.known, sizeof match.known, "%s%s%s", told.family->name, forms[told.form], size);
    for (size_t i = 0; i < sizeof cards / sizeof *cards && !told.odd; i++) {
        const struct card *card = &cards[i];
        if (strcmp(card->family, told.family->name) != 0 ||
            (card->form != FORM_ANY && card->form != told.form) ||
            (card->size != 0 && card->size != told.size))
            continue;
        match.sheet = card->sheet != NULL ? sw_catalog_find(card->sheet) : NULL;
        match.assumed = card->assumed;
        match.near = card->near;
        if (match.sheet != NULL)
            snprintf(match.known, sizeof match.known, "%s", match.sheet->name);
        return match;
    }
    return match;
}
