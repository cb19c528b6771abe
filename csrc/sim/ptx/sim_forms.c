/* sim_forms.c: tests whether PTX has a mnemonic, by the grammar in sim_forms.def. It rejects here,
 * before any decoder runs, whatever ptxas would reject. Knows no operands.
 */
#include "sim_forms.h"

#include <string.h>

static const struct form {
    unsigned target;
    const char *text;
} forms[] = {
#define SPECIFIC(target) ((target) | SIM_FORM_SPECIFIC)
#define FORM(target, text) {target, text},
#include "sim_forms.def"
#undef FORM
#undef SPECIFIC
};

/* One ".part", "(...)" or "{...}" of a form; `end` is just past it. */
static const char *group_end(const char *group) {
    const char close = *group == '(' ? ')' : *group == '{' ? '}' : 0;
    if (close)
        return strchr(group, close) + 1;
    return group + 1 + strcspn(group + 1, ".({");
}

static int alternative_is(const char *text, size_t length, struct sim_name part) {
    if (length && text[length - 1] == '*')
        return part.length >= length - 1 && memcmp(part.text, text, length - 1) == 0;
    return part.length == length && memcmp(part.text, text, length) == 0;
}

static int group_has(const char *group, const char *end, struct sim_name part) {
    for (const char *p = group; p < end; p++) {
        if (*p != '.')
            continue;
        const size_t length = strcspn(p + 1, ".,)}({");
        if (alternative_is(p + 1, length, part))
            return 1;
        p += length;
    }
    return 0;
}

/* Types of registers, and the formats of conversions. */
static int is_type(const char *text, size_t length) {
    static const char *const formats[] = {
#define SIM_X(id, name, mantissa, bias, most, nan, bits) name,
        SIM_SMALL_FORMATS(SIM_X)
#undef SIM_X
            "ue8m0x2",
        "tf32", "f32x2"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strlen(formats[i]) == length && memcmp(formats[i], text, length) == 0)
            return 1;
    return sim_type_find(text, length) != SIM_T_NONE;
}

static int is_type_group(const char *group) {
    const char *p = *group == '.' ? group : group + 1;
    return is_type(p + 1, strcspn(p + 1, ".,)}({"));
}

/* Each part matches a group of its own, types in the form's order, and no required group remains.
 */
static int matches(const struct form *form, const struct sim_mnemonic *m) {
    const char *groups[SIM_MAX_PARTS];
    uint32_t count = 0, used = 0;
    for (const char *p = form->text + m->parts[0].length; *p; p = group_end(p))
        if (count == SIM_MAX_PARTS)
            return 0;
        else
            groups[count++] = p;
    for (uint32_t i = 1; i < m->count; i++) {
        const int in_order = is_type(m->parts[i].text, m->parts[i].length);
        uint32_t g = 0;
        for (; g < count; g++) {
            if (used >> g & 1)
                continue;
            if (group_has(groups[g], group_end(groups[g]), m->parts[i]))
                break;
            if (in_order && is_type_group(groups[g]))
                return 0;
        }
        if (g == count)
            return 0;
        used |= 1u << g;
    }
    for (uint32_t g = 0; g < count; g++)
        if (!(used >> g & 1) && *groups[g] != '{')
            return 0;
    return 1;
}

/* Returns 0 for a form that PTX lacks; else the lowest target that has it, or 1 if any target has
 * it or the opcode has no rows. */
unsigned sim_form_target(const struct sim_mnemonic *m) {
    const struct sim_name opcode = m->parts[0];
    unsigned least = 0, known = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *text = forms[i].text;
        if (strncmp(text, opcode.text, opcode.length) != 0 || !strchr(".({", text[opcode.length]))
            continue;
        known = 1;
        if (!matches(&forms[i], m))
            continue;
        const unsigned target = forms[i].target ? forms[i].target : 1;
        if (!least || target < least)
            least = target;
    }
    for (uint32_t i = 1; i < m->count; i++)
        if (least && least < 90 &&
            (sim_name_is(m->parts[i], "cluster") || sim_name_is(m->parts[i], "shared::cluster")))
            least = 90;
    return known ? least : 1;
}

/* ---- features that are not simulated ---- */

static const struct {
    const char *opcode, *part, *feature; /* a word of the mnemonic, or NULL: every form */
} lacks[] = {
    {"mma", NULL, "tensor cores"},
    {"wmma", NULL, "tensor cores"},
    {"wgmma", NULL, "tensor cores"},
    {"tcgen05", NULL, "tensor cores and their memory"},
    {"ldmatrix", NULL, "matrix fragments of tensor cores"},
    {"stmatrix", NULL, "matrix fragments of tensor cores"},
    {"movmatrix", NULL, "matrix fragments of tensor cores"},
    {"cp", "tensor", "tensor copies (TMA)"},
    {"cp", "reduce", "bulk copies that reduce"},
    {"cp", "cp_mask", "bulk copies with a byte mask"},
    {"tensormap", NULL, "tensor copies (TMA)"},
    {"fence", "tensormap::generic", "tensor copies (TMA)"},
    {"fma", "oob", "the out-of-bounds values of tensor copies (TMA)"},
    {"multimem", NULL, "memory of several GPUs (multimem)"},
    {"clusterlaunchcontrol", NULL, "cluster launch control"},
    {"st", "bulk", "bulk stores"},
    {"cvt", "rs", "stochastic rounding"},
    {"sured", "b64", "64-bit reductions of texels"},
    {"tex", "base", "fetches by base level"},
    {"tex", "2dms", "textures of several samples"},
    {"tex", "a2dms", "textures of several samples"},
    {"redux", "f32", "warp-wide reductions of floating-point numbers"},
    {"stacksave", NULL, "a stack that kernels move"},
    {"stackrestore", NULL, "a stack that kernels move"},
    {"alloca", NULL, "a stack that kernels move"},
};

const char *sim_form_lacks(const struct sim_mnemonic *m, int has_form) {
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        if (!sim_name_is(m->parts[0], lacks[i].opcode) || (has_form && !lacks[i].part))
            continue;
        for (uint32_t p = 0; p < m->count; p++)
            if (!lacks[i].part || sim_name_is(m->parts[p], lacks[i].part))
                return lacks[i].feature;
    }
    /* of parts of words: vadd2, vmax4, vset, ... */
    if (!has_form && m->parts[0].length > 3 && m->parts[0].text[0] == 'v' &&
        !sim_name_is(m->parts[0], "vote"))
        return "video instructions";
    return NULL;
}
