/* sim_forms.c: tests whether PTX has a mnemonic, by the grammar in sim_forms.def. It rejects here,
 * before any decoder runs, whatever ptxas would reject. Knows no operands.
 */
#include "sim_forms.h"

#include <string.h>

static const struct form {
    unsigned target;
    const char *text;
} forms[] = {
#define FORM(target, text) {target, text},
#include "sim_forms.def"
#undef FORM
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

static int is_type_group(const char *group) {
    const char *p = *group == '.' ? group : group + 1;
    return sim_type_find(p + 1, strcspn(p + 1, ".,)}({")) != SIM_T_NONE;
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
        const int is_type = sim_type_find(m->parts[i].text, m->parts[i].length) != SIM_T_NONE;
        uint32_t g = 0;
        for (; g < count; g++) {
            if (used >> g & 1)
                continue;
            if (group_has(groups[g], group_end(groups[g]), m->parts[i]))
                break;
            if (is_type && is_type_group(groups[g]))
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
