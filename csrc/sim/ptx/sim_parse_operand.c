/* sim_parse_operand.c: parses the operands between an instruction's name and its semicolon: symbols
 * and their scopes, registers, lists. Nesting is bounded by the parser's limit and never uses the
 * host's stack.
 */
#include "sim_parser.h"

#include <stdlib.h>
#include <string.h>

/* ---- symbols ---- */

static struct sim_symbol *find_symbol(struct sim_parser *parser, const char *text, size_t length) {
    uint32_t hash = sim_hash(text, length);
    for (struct sim_symbol *s = parser->table[hash % SIM_SYMBOL_TABLE]; s; s = s->chain)
        if (s->hash == hash && s->name.length == length && memcmp(s->name.text, text, length) == 0)
            return s;
    return NULL;
}

enum sim_status sim_parse_add_symbol(struct sim_parser *parser, struct sim_name name,
                                     struct sim_symbol **symbol) {
    struct sim_symbol *other = find_symbol(parser, name.text, name.length);
    if (other && other->depth == parser->depth)
        return sim_parse_fail(parser, SIM_SYNTAX, "'%.*s' is declared twice",
                              name.length > 60 ? 60 : (int)name.length, name.text);
    struct sim_symbol *made = sim_arena_alloc(parser->arena, 1, sizeof *made);
    if (!made)
        return sim_parse_no_memory(parser);
    made->name = name;
    made->hash = sim_hash(name.text, name.length);
    made->depth = parser->depth;
    made->reg = UINT32_MAX;
    made->chain = parser->table[made->hash % SIM_SYMBOL_TABLE];
    parser->table[made->hash % SIM_SYMBOL_TABLE] = made;
    made->next_in_scope = parser->scopes[parser->depth];
    parser->scopes[parser->depth] = made;
    *symbol = made;
    return SIM_OK;
}

enum sim_status sim_parse_open_scope(struct sim_parser *parser) {
    struct sim_parsed *f = parser->parsed;
    if (parser->depth + 1 >= SIM_MAX_NESTING)
        return sim_parse_fail(parser, SIM_LIMIT, "braces nest deeper than %u", SIM_MAX_NESTING);
    uint32_t *parents = sim_grow(parser->arena, f->scope_parent, &f->scope_capacity,
                                 f->scope_count + 1, sizeof *parents);
    if (!parents)
        return sim_parse_no_memory(parser);
    f->scope_parent = parents;
    parents[f->scope_count] = f->scope_count ? parser->scope_ids[parser->depth] : UINT32_MAX;
    parser->depth++;
    parser->scopes[parser->depth] = NULL;
    parser->scope_ids[parser->depth] = f->scope_count++;
    return SIM_OK;
}

void sim_parse_close_scope(struct sim_parser *parser) {
    for (struct sim_symbol *s = parser->scopes[parser->depth]; s; s = s->next_in_scope)
        parser->table[s->hash % SIM_SYMBOL_TABLE] = s->chain; /* last in, first out */
    parser->scopes[parser->depth] = NULL;
    parser->depth--;
}

static enum sim_status new_register(struct sim_parser *parser, enum sim_type type, uint32_t *reg) {
    struct sim_parsed *f = parser->parsed;
    if (f->reg_count >= parser->module->gpu->limits.registers)
        return sim_parse_fail(parser, SIM_LIMIT, "more than %llu registers",
                              (unsigned long long)parser->module->gpu->limits.registers);
    enum sim_type *types =
        sim_grow(parser->arena, f->reg_types, &f->reg_capacity, f->reg_count + 1, sizeof *types);
    if (!types)
        return sim_parse_no_memory(parser);
    f->reg_types = types;
    types[f->reg_count] = type;
    *reg = f->reg_count++;
    return SIM_OK;
}

/* The n-th register of a range `%r<count>`, which is made when it is first named; NULL: no such. */
static enum sim_status register_of_range(struct sim_parser *parser, const char *text, size_t length,
                                         struct sim_symbol **found) {
    size_t stem = length;
    uint64_t index = 0;
    *found = NULL;
    while (stem && text[stem - 1] >= '0' && text[stem - 1] <= '9')
        stem--;
    if (stem == length || length - stem > 9)
        return SIM_OK;
    for (size_t i = stem; i < length; i++)
        index = index * 10 + (uint64_t)(text[i] - '0');
    struct sim_symbol *range = find_symbol(parser, text, stem);
    if (!range || range->kind != SIM_SYM_REG || index >= range->count)
        return SIM_OK;
    struct sim_symbol *made = sim_arena_alloc(parser->arena, 1, sizeof *made);
    if (!made)
        return sim_parse_no_memory(parser);
    made->name = (struct sim_name){text, (uint32_t)length};
    made->hash = sim_hash(text, length);
    made->depth = range->depth; /* it lives in its range's scope */
    made->kind = SIM_SYM_REG;
    made->type = range->type;
    made->bytes = range->bytes;
    made->reg = UINT32_MAX;
    /* behind the symbols of inner scopes in the bucket, so that closing them stays last in,
     * first out */
    struct sim_symbol **at = &parser->table[made->hash % SIM_SYMBOL_TABLE];
    while (*at && (*at)->depth > made->depth)
        at = &(*at)->chain;
    made->chain = *at;
    *at = made;
    /* after the symbols declared later in this scope: a bucket is ordered by age */
    made->next_in_scope = parser->scopes[range->depth];
    parser->scopes[range->depth] = made;
    *found = made;
    return SIM_OK;
}

/* A register or vector of registers by name; NULL: no register has this name. */
static enum sim_status find_register(struct sim_parser *parser, const char *text, size_t length,
                                     struct sim_symbol **found) {
    struct sim_symbol *symbol = find_symbol(parser, text, length);
    enum sim_status status = SIM_OK;
    *found = symbol && symbol->kind == SIM_SYM_REG && !symbol->count ? symbol : NULL;
    if (!symbol)
        status = register_of_range(parser, text, length, found);
    return status || !*found ? status : sim_parse_number_register(parser, *found);
}

enum sim_status sim_parse_number_register(struct sim_parser *parser, struct sim_symbol *symbol) {
    enum sim_status status = SIM_OK;
    if (symbol->reg != UINT32_MAX)
        return SIM_OK;
    for (uint64_t i = 0; i < (symbol->bytes ? symbol->bytes : 1) && !status; i++) {
        uint32_t reg = 0;
        if ((status = new_register(parser, symbol->type, &reg)) == SIM_OK && !i)
            symbol->reg = reg;
    }
    return status;
}

/* v.x, or v.r: an element of a vector. */
static enum sim_status find_element(struct sim_parser *parser, const struct sim_token *token,
                                    struct sim_operand *o) {
    static const char letters[] = "xyzwrgba";
    struct sim_symbol *vector = NULL;
    const uint32_t length = token->length;
    const char *letter = length > 2 ? strchr(letters, token->text[length - 1]) : NULL;
    if (!letter || !*letter || token->text[length - 2] != '.')
        return SIM_OK;
    const enum sim_status status = find_register(parser, token->text, length - 2, &vector);
    const uint32_t element = (uint32_t)(letter - letters) % 4;
    if (status || !vector || element >= vector->bytes)
        return status;
    o->kind = SIM_O_REG;
    o->type = vector->type;
    o->reg = vector->reg + element;
    return SIM_OK;
}

/* A whole vector: of registers, or of a special register as %tid. */
static enum sim_status whole_vector(struct sim_parser *parser, struct sim_operand *o,
                                    const struct sim_symbol *symbol, int special) {
    o->kind = SIM_O_VECTOR;
    o->count = symbol ? (uint32_t)symbol->bytes : 4;
    o->items = sim_arena_alloc(parser->arena, o->count, sizeof *o->items);
    if (!o->items)
        return sim_parse_no_memory(parser);
    for (uint32_t i = 0; i < o->count; i++) {
        o->items[i] = (struct sim_operand){.kind = SIM_O_REG, .reg = UINT32_MAX};
        if (symbol) {
            o->items[i].type = symbol->type;
            o->items[i].reg = symbol->reg + i;
        } else { /* x, y, z; w is 0 */
            o->items[i].kind = i < 3 ? SIM_O_SPECIAL : SIM_O_INT;
            o->items[i].bits = i < 3 ? (uint64_t)special + i : 0;
        }
    }
    return SIM_OK;
}

/* %tid, %ntid, ...: the number of its x; -1 for any other name. */
static int special_vector(const struct sim_token *token) {
    char name[32];
    if (token->length + 3 > sizeof name || token->text[0] != '%')
        return -1;
    memcpy(name, token->text, token->length);
    memcpy(name + token->length, ".x", 2);
    return sim_special_find(name, token->length + 2);
}

/* ---- operands ---- */

enum sim_status sim_parse_word(struct sim_parser *parser, struct sim_operand *o) {
    struct sim_token token = parser->lexer.token;
    struct sim_name name = {token.text, token.length};
    struct sim_symbol *found = NULL;
    enum sim_status status = find_register(parser, token.text, token.length, &found);
    if (!status && !found)
        status = find_element(parser, &token, o);
    if (status)
        return status;
    o->name = name;
    o->scope = parser->parsed ? parser->scope_ids[parser->depth] : 0;
    if (o->kind == SIM_O_REG) {
        return sim_parse_next(parser);
    } else if (found && found->bytes) {
        status = whole_vector(parser, o, found, 0);
    } else if (found) {
        o->kind = SIM_O_REG;
        o->type = found->type;
        o->reg = found->reg;
    } else if (sim_name_is(name, "_")) {
        o->kind = SIM_O_SINK;
    } else if ((o->symbol = find_symbol(parser, token.text, token.length)) &&
               o->symbol->kind != SIM_SYM_REG) {
        o->kind = SIM_O_SYMBOL;
    } else if ((o->symbol = sim_module_variable(parser->module, token.text, token.length))) {
        o->kind = SIM_O_SYMBOL;
    } else {
        int special = sim_special_find(token.text, token.length);
        o->symbol = NULL;
        if (special >= 0) {
            o->kind = SIM_O_SPECIAL;
            o->bits = (uint64_t)special;
        } else if ((special = special_vector(&token)) >= 0) {
            status = whole_vector(parser, o, NULL, special);
        } else if (token.text[0] == '%') {
            return sim_parse_fail(parser, SIM_SYNTAX, "unknown register '%.*s'",
                                  sim_parse_shown(&token), token.text);
        } else {
            o->kind =
                SIM_O_LABEL; /* a label, a function or a table: the decoder distinguishes them */
        }
    }
    return status ? status : sim_parse_next(parser);
}

/* + or - constant, repeated */
static enum sim_status displacement(struct sim_parser *parser, uint64_t *bits) {
    if (sim_parse_is(parser, '+') || sim_parse_is(parser, '-')) {
        uint64_t value;
        int minus = sim_parse_is(parser, '-');
        enum sim_status status = sim_parse_next(parser);
        if (status || (status = sim_parse_constant(parser, &value)))
            return status;
        *bits += minus ? 0 - value : value;
    }
    return SIM_OK;
}

/* The index behind an array's name. */
static enum sim_status element(struct sim_parser *parser, struct sim_operand *o) {
    uint64_t index;
    enum sim_status status = sim_parse_next(parser);
    if (!status && !o->symbol->element)
        return sim_parse_fail(parser, SIM_SYNTAX, "an index of '%.*s', which is no array",
                              o->name.length > 60 ? 60 : (int)o->name.length, o->name.text);
    if (status || (status = sim_parse_constant(parser, &index)))
        return status;
    o->is_element = 1;
    o->bits = index * o->symbol->element;
    return sim_parse_expect(parser, ']');
}

static enum sim_status address_operand(struct sim_parser *parser, struct sim_operand *o) {
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    struct sim_operand base = {0};
    base.reg = UINT32_MAX;
    if (parser->lexer.token.kind == SIM_TOK_WORD) {
        status = sim_parse_word(parser, &base);
        if (!status && base.kind != SIM_O_REG && base.kind != SIM_O_SYMBOL)
            status =
                sim_parse_fail(parser, SIM_SYNTAX, "unknown name '%.*s' in an address",
                               base.name.length > 60 ? 60 : (int)base.name.length, base.name.text);
        if (!status)
            status = displacement(parser, &base.bits);
    } else {
        status = sim_parse_constant(parser, &base.bits);
    }
    if (status)
        return status;
    *o = base;
    o->kind = SIM_O_ADDRESS;
    if (base.kind != SIM_O_REG)
        o->reg = UINT32_MAX;
    uint32_t capacity = 0;
    while (sim_parse_is(parser, ',')) { /* texture coordinates */
        struct sim_operand *items =
            sim_grow(parser->arena, o->items, &capacity, o->count + 1, sizeof *items);
        if (!items)
            return sim_parse_no_memory(parser);
        if (o->count >= 2)
            return sim_parse_fail(parser, SIM_SYNTAX, "too many parts in an address");
        o->items = items;
        if ((status = sim_parse_next(parser)) ||
            (status = sim_parse_operand(parser, &items[o->count++], 0)))
            return status;
    }
    return sim_parse_expect(parser, ']');
}

static enum sim_status constant_operand(struct sim_parser *parser, struct sim_operand *o) {
    struct sim_value value = {0};
    enum sim_status status = sim_parse_value(parser, &value);
    const int is_integer = value.type == SIM_T_S64 || value.type == SIM_T_U64;
    o->kind = is_integer ? SIM_O_INT : SIM_O_FLOAT;
    o->type = is_integer ? SIM_T_NONE : value.type;
    o->bits = value.bits;
    return status;
}

/* A vector as the last argument of a call: its elements take its place. */
static enum sim_status spread(struct sim_parser *parser, struct sim_operand *o,
                              uint32_t *capacity) {
    const struct sim_operand vector = o->items[o->count - 1];
    struct sim_operand *items =
        sim_grow(parser->arena, o->items, capacity, o->count - 1 + vector.count, sizeof *items);
    if (!items)
        return sim_parse_no_memory(parser);
    memcpy(items + o->count - 1, vector.items, vector.count * sizeof *items);
    o->items = items;
    o->count += vector.count - 1;
    return SIM_OK;
}

/* Vectors and argument lists hold plain words and constants, never other lists: no recursion. */
enum sim_status sim_parse_sequence(struct sim_parser *parser, struct sim_operand *o, char end) {
    uint32_t capacity = 0;
    enum sim_status status = sim_parse_next(parser);
    while (!status && !sim_parse_is(parser, end)) {
        struct sim_operand *items =
            sim_grow(parser->arena, o->items, &capacity, o->count + 1, sizeof *items);
        if (!items)
            return sim_parse_no_memory(parser);
        o->items = items;
        struct sim_operand *item = &items[o->count++];
        const struct sim_token *token = &parser->lexer.token;
        status = token->kind == SIM_TOK_WORD && !sim_parse_word_is(parser, "WARP_SZ")
                     ? sim_parse_word(parser, item)
                     : constant_operand(parser, item);
        if (!status && item->kind == SIM_O_VECTOR)
            status = end == ')' ? spread(parser, o, &capacity)
                                : sim_parse_fail(parser, SIM_SYNTAX, "a vector within a vector");
        if (!status && !sim_parse_is(parser, end))
            status = sim_parse_expect(parser, ',');
    }
    return status ? status : sim_parse_next(parser);
}

/* Reads the second of two results, after |. */
static enum sim_status pair_operand(struct sim_parser *parser, struct sim_operand *o) {
    enum sim_status status;
    struct sim_operand *items = sim_arena_alloc(parser->arena, 2, sizeof *items);
    if (!items)
        return sim_parse_no_memory(parser);
    items[0] = *o;
    if ((status = sim_parse_next(parser)))
        return status;
    if (parser->lexer.token.kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a register after '|'");
    if ((status = sim_parse_word(parser, &items[1])))
        return status;
    *o = (struct sim_operand){.kind = SIM_O_PAIR, .items = items, .count = 2, .reg = UINT32_MAX};
    return SIM_OK;
}

enum sim_status sim_parse_operand(struct sim_parser *parser, struct sim_operand *o, int in_call) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = SIM_OK;
    memset(o, 0, sizeof *o);
    o->reg = UINT32_MAX;
    if (sim_parse_is(parser, '[')) {
        return address_operand(parser, o);
    } else if (sim_parse_is(parser, '{')) {
        o->kind = SIM_O_VECTOR;
        status = sim_parse_sequence(parser, o, '}');
        return status || !sim_parse_is(parser, '|') ? status : pair_operand(parser, o);
    } else if (sim_parse_is(parser, '(') && in_call) {
        o->kind = SIM_O_LIST;
        return sim_parse_sequence(parser, o, ')');
    } else if (sim_parse_is(parser, '!')) {
        const struct sim_lexer before = parser->lexer;
        if ((status = sim_parse_next(parser)))
            return status;
        if (token->kind != SIM_TOK_WORD || sim_parse_word_is(parser, "WARP_SZ")) {
            parser->lexer = before;
            return constant_operand(parser, o);
        }
        status = sim_parse_word(parser, o);
        if (!status && o->kind != SIM_O_REG)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a predicate after '!'");
        o->negated = 1;
        return status;
    } else if (token->kind != SIM_TOK_WORD || sim_parse_word_is(parser, "WARP_SZ")) {
        return constant_operand(parser, o);
    }
    if ((status = sim_parse_word(parser, o)))
        return status;
    if (o->kind == SIM_O_SYMBOL && sim_parse_is(parser, '['))
        return element(parser, o);
    if (o->kind == SIM_O_SYMBOL)
        return displacement(parser, &o->bits);
    if (sim_parse_is(parser, '|'))
        return pair_operand(parser, o);
    while (!status && sim_parse_is(parser, '+') && (o->kind == SIM_O_REG || o->kind == SIM_O_SUM)) {
        o->kind = SIM_O_SUM;
        status = displacement(parser, &o->bits);
    }
    return status;
}
