/*
 * sim_parser.c: function bodies. Statements, operands and declarations, with every name but labels
 * resolved as it is read. Nothing here recurses on its input: scopes and expressions have explicit,
 * bounded stacks.
 */
#include "sim_parser.h"

#include <stdio.h>
#include <string.h>

enum sim_status sim_parse_fail(struct sim_parser *parser, enum sim_status status,
                               const char *format, ...) {
    char text[480];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const struct sim_token *token = &parser->lexer.token;
    return sim_fail(parser->error, status, token->line, token->column, "PTX line %u, column %u: %s",
                    token->line, token->column, text);
}

static enum sim_status no_memory(struct sim_parser *parser) {
    return sim_parse_fail(parser, SIM_LIMIT,
                          "parsing needs more memory than the limit of %llu bytes",
                          (unsigned long long)parser->arena->limit);
}

enum sim_status sim_parse_next(struct sim_parser *parser) {
    sim_lexer_next(&parser->lexer);
    if (parser->lexer.token.kind == SIM_TOK_BAD)
        return sim_parse_fail(parser, SIM_SYNTAX, "%s", parser->lexer.problem);
    return SIM_OK;
}

int sim_parse_is(const struct sim_parser *parser, char punctuation) {
    return parser->lexer.token.kind == SIM_TOK_PUNCT &&
           parser->lexer.token.bits == (unsigned char)punctuation;
}

int sim_name_is(struct sim_name name, const char *text) {
    return strlen(text) == name.length && memcmp(text, name.text, name.length) == 0;
}

int sim_parse_word_is(const struct sim_parser *parser, const char *word) {
    const struct sim_token *token = &parser->lexer.token;
    return token->kind == SIM_TOK_WORD &&
           sim_name_is((struct sim_name){token->text, token->length}, word);
}

static int shown(const struct sim_token *token) {
    return token->length > 60 ? 60 : (int)token->length;
}

enum sim_status sim_parse_expect(struct sim_parser *parser, char punctuation) {
    if (!sim_parse_is(parser, punctuation)) {
        const struct sim_token *token = &parser->lexer.token;
        if (token->kind == SIM_TOK_END)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected '%c' before the end of the text",
                                  punctuation);
        return sim_parse_fail(parser, SIM_SYNTAX, "expected '%c' before '%.*s'", punctuation,
                              shown(token), token->text);
    }
    return sim_parse_next(parser);
}

uint32_t sim_hash(const char *text, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

void *sim_grow(struct sim_arena *arena, void *old, uint32_t *capacity, uint32_t need, size_t size) {
    if (need <= *capacity)
        return old;
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted < need)
        wanted = need;
    void *made = sim_arena_alloc(arena, wanted, size);
    if (!made)
        return NULL;
    if (old)
        memcpy(made, old, (size_t)*capacity * size);
    *capacity = wanted;
    return made;
}

/* ---- symbols ---- */

static struct sim_symbol *find_symbol(struct sim_parser *parser, const char *text, size_t length) {
    uint32_t hash = sim_hash(text, length);
    for (struct sim_symbol *s = parser->table[hash % SIM_SYMBOL_TABLE]; s; s = s->chain)
        if (s->hash == hash && s->name.length == length && memcmp(s->name.text, text, length) == 0)
            return s;
    return NULL;
}

static enum sim_status add_symbol(struct sim_parser *parser, struct sim_name name,
                                  struct sim_symbol **symbol) {
    struct sim_symbol *other = find_symbol(parser, name.text, name.length);
    if (other && other->depth == parser->depth)
        return sim_parse_fail(parser, SIM_SYNTAX, "'%.*s' is declared twice",
                              name.length > 60 ? 60 : (int)name.length, name.text);
    struct sim_symbol *made = sim_arena_alloc(parser->arena, 1, sizeof *made);
    if (!made)
        return no_memory(parser);
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

static enum sim_status open_scope(struct sim_parser *parser) {
    struct sim_parsed *f = parser->parsed;
    if (parser->depth + 1 >= SIM_MAX_NESTING)
        return sim_parse_fail(parser, SIM_LIMIT, "braces nest deeper than %u", SIM_MAX_NESTING);
    uint32_t *parents = sim_grow(parser->arena, f->scope_parent, &f->scope_capacity,
                                 f->scope_count + 1, sizeof *parents);
    if (!parents)
        return no_memory(parser);
    f->scope_parent = parents;
    parents[f->scope_count] = f->scope_count ? parser->scope_ids[parser->depth] : UINT32_MAX;
    parser->depth++;
    parser->scopes[parser->depth] = NULL;
    parser->scope_ids[parser->depth] = f->scope_count++;
    return SIM_OK;
}

static void close_scope(struct sim_parser *parser) {
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
        return no_memory(parser);
    f->reg_types = types;
    types[f->reg_count] = type;
    *reg = f->reg_count++;
    return SIM_OK;
}

/* A register by name: a single one, or the n-th of a range `%r<count>`. */
static enum sim_status find_register(struct sim_parser *parser, const char *text, size_t length,
                                     uint32_t *reg, enum sim_type *type, int *found) {
    *found = 0;
    struct sim_symbol *symbol = find_symbol(parser, text, length);
    if (symbol && (symbol->kind != SIM_SYM_REG || symbol->count))
        return SIM_OK;
    if (!symbol) {
        size_t stem = length;
        while (stem && text[stem - 1] >= '0' && text[stem - 1] <= '9')
            stem--;
        if (stem == length || length - stem > 9)
            return SIM_OK;
        uint64_t index = 0;
        for (size_t i = stem; i < length; i++)
            index = index * 10 + (uint64_t)(text[i] - '0');
        struct sim_symbol *range = find_symbol(parser, text, stem);
        if (!range || range->kind != SIM_SYM_REG || index >= range->count)
            return SIM_OK;
        uint32_t depth = parser->depth; /* the register lives in its range's scope */
        parser->depth = range->depth;
        struct sim_symbol *made = sim_arena_alloc(parser->arena, 1, sizeof *made);
        parser->depth = depth;
        if (!made)
            return no_memory(parser);
        made->name = (struct sim_name){text, (uint32_t)length};
        made->hash = sim_hash(text, length);
        made->depth = range->depth;
        made->kind = SIM_SYM_REG;
        made->type = range->type;
        made->reg = UINT32_MAX;
        /* behind whatever the inner scopes put into the bucket, so that closing them stays last in,
         * first out */
        struct sim_symbol **at = &parser->table[made->hash % SIM_SYMBOL_TABLE];
        while (*at && (*at)->depth > made->depth)
            at = &(*at)->chain;
        made->chain = *at;
        *at = made;
        symbol = made;
        /* spliced after the symbols that were declared later in this scope: order within a bucket
         * is by age */
        made->next_in_scope = parser->scopes[range->depth];
        parser->scopes[range->depth] = made;
    }
    *found = 1;
    if (symbol->reg == UINT32_MAX) {
        enum sim_status status = new_register(parser, symbol->type, &symbol->reg);
        if (status)
            return status;
    }
    *reg = symbol->reg;
    *type = symbol->type;
    return SIM_OK;
}

/* ---- operands ---- */

static enum sim_status operand(struct sim_parser *parser, struct sim_operand *o, int in_call);

static enum sim_status simple_word(struct sim_parser *parser, struct sim_operand *o) {
    struct sim_token token = parser->lexer.token;
    struct sim_name name = {token.text, token.length};
    int found = 0;
    enum sim_status status =
        find_register(parser, token.text, token.length, &o->reg, &o->type, &found);
    if (status)
        return status;
    o->name = name;
    o->scope = parser->parsed ? parser->scope_ids[parser->depth] : 0;
    if (found) {
        o->kind = SIM_O_REG;
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
        } else if (token.text[0] == '%') {
            return sim_parse_fail(parser, SIM_SYNTAX, "unknown register '%.*s'", shown(&token),
                                  token.text);
        } else {
            o->kind = SIM_O_LABEL; /* a label, a function or a table: the decoder knows */
        }
    }
    return sim_parse_next(parser);
}

/* + or - constant, as many times as there are */
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

static enum sim_status address_operand(struct sim_parser *parser, struct sim_operand *o) {
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    struct sim_operand base = {0};
    base.reg = UINT32_MAX;
    if (parser->lexer.token.kind == SIM_TOK_WORD) {
        status = simple_word(parser, &base);
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
            return no_memory(parser);
        if (o->count >= 2)
            return sim_parse_fail(parser, SIM_SYNTAX, "too many parts in an address");
        o->items = items;
        if ((status = sim_parse_next(parser)) || (status = operand(parser, &items[o->count++], 0)))
            return status;
    }
    return sim_parse_expect(parser, ']');
}

/* Vectors and argument lists hold plain words and constants, never other lists: no recursion. */
static enum sim_status sequence(struct sim_parser *parser, struct sim_operand *o, char end) {
    uint32_t capacity = 0;
    enum sim_status status = sim_parse_next(parser);
    while (!status && !sim_parse_is(parser, end)) {
        struct sim_operand *items =
            sim_grow(parser->arena, o->items, &capacity, o->count + 1, sizeof *items);
        if (!items)
            return no_memory(parser);
        o->items = items;
        struct sim_operand *item = &items[o->count++];
        const struct sim_token *token = &parser->lexer.token;
        if (token->kind == SIM_TOK_WORD) {
            status = simple_word(parser, item);
        } else if (token->kind == SIM_TOK_F32 || token->kind == SIM_TOK_F64) {
            item->kind = SIM_O_FLOAT;
            item->type = token->kind == SIM_TOK_F32 ? SIM_T_F32 : SIM_T_F64;
            item->bits = token->bits;
            status = sim_parse_next(parser);
        } else {
            item->kind = SIM_O_INT;
            status = sim_parse_constant(parser, &item->bits);
        }
        if (!status && !sim_parse_is(parser, end))
            status = sim_parse_expect(parser, ',');
    }
    return status ? status : sim_parse_next(parser);
}

static enum sim_status operand(struct sim_parser *parser, struct sim_operand *o, int in_call) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = SIM_OK;
    memset(o, 0, sizeof *o);
    o->reg = UINT32_MAX;
    if (sim_parse_is(parser, '[')) {
        return address_operand(parser, o);
    } else if (sim_parse_is(parser, '{')) {
        o->kind = SIM_O_VECTOR;
        return sequence(parser, o, '}');
    } else if (sim_parse_is(parser, '(') && in_call) {
        o->kind = SIM_O_LIST;
        return sequence(parser, o, ')');
    } else if (sim_parse_is(parser, '!')) {
        if ((status = sim_parse_next(parser)))
            return status;
        if (token->kind == SIM_TOK_WORD)
            status = simple_word(parser, o);
        if (!status && o->kind != SIM_O_REG)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a predicate after '!'");
        o->negated = 1;
        return status;
    } else if (token->kind == SIM_TOK_F32 || token->kind == SIM_TOK_F64) {
        o->kind = SIM_O_FLOAT;
        o->type = token->kind == SIM_TOK_F32 ? SIM_T_F32 : SIM_T_F64;
        o->bits = token->bits;
        return sim_parse_next(parser);
    } else if (token->kind != SIM_TOK_WORD) {
        const struct sim_lexer before = parser->lexer;
        int minus = sim_parse_is(parser, '-');
        if (minus && (status = sim_parse_next(parser)))
            return status;
        if (minus && (token->kind == SIM_TOK_F32 || token->kind == SIM_TOK_F64)) {
            o->kind = SIM_O_FLOAT;
            o->type = token->kind == SIM_TOK_F32 ? SIM_T_F32 : SIM_T_F64;
            o->bits = token->bits ^ (o->type == SIM_T_F32 ? 1ull << 31 : 1ull << 63);
            return sim_parse_next(parser);
        }
        parser->lexer = before;
        o->kind = SIM_O_INT;
        return sim_parse_constant(parser, &o->bits);
    }
    if ((status = simple_word(parser, o)))
        return status;
    if (o->kind == SIM_O_SYMBOL)
        return displacement(parser, &o->bits);
    if (sim_parse_is(parser, '|')) {
        struct sim_operand *items = sim_arena_alloc(parser->arena, 2, sizeof *items);
        if (!items)
            return no_memory(parser);
        items[0] = *o;
        if ((status = sim_parse_next(parser)))
            return status;
        if (token->kind != SIM_TOK_WORD)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a register after '|'");
        if ((status = simple_word(parser, &items[1])))
            return status;
        *o =
            (struct sim_operand){.kind = SIM_O_PAIR, .items = items, .count = 2, .reg = UINT32_MAX};
    }
    return SIM_OK;
}

/* ---- declarations ---- */

static const struct {
    const char *word;
    enum sim_space space;
} space_words[] = {{".reg", SIM_S_REG},     {".global", SIM_S_GLOBAL}, {".shared", SIM_S_SHARED},
                   {".local", SIM_S_LOCAL}, {".const", SIM_S_CONST},   {".param", SIM_S_PARAM}};

/* .space [.align n] [.v2|.v4] .type name[n][m]...; leaves the lexer after the name and its
 * dimensions. */
enum sim_status sim_parse_declaration(struct sim_parser *parser, struct sim_declaration *d) {
    enum sim_status status = SIM_OK;
    const struct sim_token *token = &parser->lexer.token;
    memset(d, 0, sizeof *d);
    d->vector = d->elements = 1;
    for (size_t i = 0; i < sizeof space_words / sizeof *space_words; i++)
        if (sim_parse_word_is(parser, space_words[i].word))
            d->space = space_words[i].space;
    if (!d->space)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a state space before '%.*s'",
                              shown(token), token->text);
    while (!status && !(status = sim_parse_next(parser)) && token->kind == SIM_TOK_WORD &&
           token->text[0] == '.') {
        enum sim_type type = sim_type_find(token->text + 1, token->length - 1);
        if (type != SIM_T_NONE) {
            d->type = type;
        } else if (sim_parse_word_is(parser, ".align")) {
            if ((status = sim_parse_next(parser)))
                return status;
            d->align = token->bits;
            if (token->kind != SIM_TOK_INT || !d->align || (d->align & (d->align - 1)) ||
                d->align > 4096)
                return sim_parse_fail(parser, SIM_SYNTAX,
                                      "an alignment is a power of two up to 4096");
        } else if (sim_parse_word_is(parser, ".v2") || sim_parse_word_is(parser, ".v4")) {
            d->vector = (uint64_t)(token->text[2] - '0');
        } else if (sim_parse_word_is(parser, ".ptr") || sim_parse_word_is(parser, ".global") ||
                   sim_parse_word_is(parser, ".shared") || sim_parse_word_is(parser, ".const") ||
                   sim_parse_word_is(parser, ".local") || sim_parse_word_is(parser, ".attribute")) {
            continue; /* hints on a pointer parameter */
        } else if (sim_parse_word_is(parser, ".texref") ||
                   sim_parse_word_is(parser, ".samplerref") ||
                   sim_parse_word_is(parser, ".surfref")) {
            d->type = SIM_T_B64;
        } else {
            return sim_parse_fail(parser, SIM_UNSUPPORTED, "unknown type or attribute '%.*s'",
                                  shown(token), token->text);
        }
    }
    if (status)
        return status;
    if (d->type == SIM_T_NONE)
        return sim_parse_fail(parser, SIM_SYNTAX, "a declaration without a type");
    if (token->kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "a declaration without a name");
    d->name = (struct sim_name){token->text, token->length};
    status = sim_parse_next(parser);
    while (!status && sim_parse_is(parser, '[')) {
        uint64_t n = 0;
        d->is_array = 1;
        if (!(status = sim_parse_next(parser)) && !sim_parse_is(parser, ']'))
            status = sim_parse_constant(parser, &n);
        if (!status && !sim_multiply(d->elements, n, &d->elements))
            return sim_parse_fail(parser, SIM_LIMIT, "an array of more than 2^64 elements");
        if (!status)
            status = sim_parse_expect(parser, ']');
    }
    return status;
}

static enum sim_status declare_register(struct sim_parser *parser,
                                        const struct sim_declaration *d) {
    enum sim_status status;
    struct sim_name name = d->name;
    for (;;) {
        struct sim_symbol *symbol;
        if ((status = add_symbol(parser, name, &symbol)))
            return status;
        symbol->kind = SIM_SYM_REG;
        symbol->type = d->type;
        if (sim_parse_is(parser, '<')) {
            if ((status = sim_parse_next(parser)))
                return status;
            if (parser->lexer.token.kind != SIM_TOK_INT)
                return sim_parse_fail(parser, SIM_SYNTAX, "expected a number of registers");
            symbol->count = parser->lexer.token.bits;
            if (symbol->count > parser->module->gpu->limits.registers)
                return sim_parse_fail(parser, SIM_LIMIT,
                                      "%llu registers are more than the limit of %llu",
                                      (unsigned long long)symbol->count,
                                      (unsigned long long)parser->module->gpu->limits.registers);
            if ((status = sim_parse_next(parser)) || (status = sim_parse_expect(parser, '>')))
                return status;
        }
        if (!sim_parse_is(parser, ','))
            return SIM_OK;
        if ((status = sim_parse_next(parser)))
            return status;
        if (parser->lexer.token.kind != SIM_TOK_WORD)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a register's name");
        name = (struct sim_name){parser->lexer.token.text, parser->lexer.token.length};
        if ((status = sim_parse_next(parser)))
            return status;
    }
}

static enum sim_status declare_variable(struct sim_parser *parser, const struct sim_declaration *d,
                                        int is_extern, struct sim_symbol **made) {
    struct sim_parsed *f = parser->parsed;
    struct sim_symbol *symbol;
    enum sim_status status = add_symbol(parser, d->name, &symbol);
    if (status)
        return status;
    symbol->kind = SIM_SYM_VAR;
    symbol->type = d->type;
    symbol->space = d->space;
    symbol->is_extern = is_extern;
    symbol->align = sim_types[d->type].bytes * d->vector;
    if (d->align > symbol->align)
        symbol->align = d->align;
    if (!sim_multiply(d->elements, sim_types[d->type].bytes * d->vector, &symbol->bytes) ||
        symbol->bytes > (1u << 30))
        return sim_parse_fail(parser, SIM_LIMIT, "'%.*s' is too large",
                              d->name.length > 60 ? 60 : (int)d->name.length, d->name.text);
    struct sim_symbol **list = sim_grow(parser->arena, f->variables, &f->variable_capacity,
                                        f->variable_count + 1, sizeof *list);
    if (!list)
        return no_memory(parser);
    f->variables = list;
    list[f->variable_count++] = symbol;
    *made = symbol;
    return SIM_OK;
}

/* ---- statements ---- */

enum sim_status sim_parse_skip_statement(struct sim_parser *parser) {
    while (!sim_parse_is(parser, ';')) {
        if (parser->lexer.token.kind == SIM_TOK_END)
            return sim_parse_fail(parser, SIM_SYNTAX, "a statement that never ends");
        enum sim_status status = sim_parse_next(parser);
        if (status)
            return status;
    }
    return sim_parse_next(parser);
}

/* .loc file line column [, function_name label, inlined_at file line column] */
static enum sim_status location(struct sim_parser *parser) {
    uint64_t numbers[3] = {0, 0, 0};
    enum sim_status status = sim_parse_next(parser);
    int inlined = 0, system;
    for (int i = 0; !status && i < 3 && parser->lexer.token.kind == SIM_TOK_INT; i++) {
        numbers[i] = parser->lexer.token.bits;
        status = sim_parse_next(parser);
    }
    while (!status && sim_parse_is(parser, ',')) {
        inlined = 1;
        if ((status = sim_parse_next(parser)))
            break;
        /* function_name and a label, + a number; or inlined_at and three numbers, after which a
         * label is the program's */
        const int named = sim_parse_word_is(parser, "function_name");
        status = sim_parse_next(parser);
        if (!status && named)
            status = sim_parse_next(parser);
        if (!status && named && sim_parse_is(parser, '+') &&
            (status = sim_parse_next(parser)) == SIM_OK)
            status = sim_parse_next(parser);
        while (!status && !named && parser->lexer.token.kind == SIM_TOK_INT)
            status = sim_parse_next(parser);
    }
    if (status)
        return status;
    /* work inlined from a toolkit header belongs to the line that called it, which a .loc before
     * this one named */
    sim_module_file(parser->module, (unsigned)numbers[0], &system);
    if (!(inlined && system) && numbers[1] && numbers[1] < UINT32_MAX) {
        parser->file = (unsigned)numbers[0];
        parser->source_line = (unsigned)numbers[1];
    }
    return SIM_OK;
}

static enum sim_status add_label(struct sim_parser *parser, struct sim_name name) {
    struct sim_parsed *f = parser->parsed;
    struct sim_label *labels =
        sim_grow(parser->arena, f->labels, &f->label_capacity, f->label_count + 1, sizeof *labels);
    if (!labels)
        return no_memory(parser);
    f->labels = labels;
    labels[f->label_count++] =
        (struct sim_label){name, parser->scope_ids[parser->depth], f->count, 0};
    return SIM_OK;
}

static enum sim_status instruction(struct sim_parser *parser) {
    struct sim_parsed *f = parser->parsed;
    if (f->count >= parser->module->gpu->limits.instructions)
        return sim_parse_fail(parser, SIM_LIMIT, "more than %llu instructions",
                              (unsigned long long)parser->module->gpu->limits.instructions);
    struct sim_statement *statements =
        sim_grow(parser->arena, f->statements, &f->capacity, f->count + 1, sizeof *statements);
    if (!statements)
        return no_memory(parser);
    f->statements = statements;
    struct sim_statement *s = &statements[f->count];
    memset(s, 0, sizeof *s);
    s->guard = UINT32_MAX;
    s->file = parser->file;
    s->source_line = parser->source_line;
    enum sim_status status = SIM_OK;
    if (sim_parse_is(parser, '@')) {
        if ((status = sim_parse_next(parser)))
            return status;
        if (sim_parse_is(parser, '!')) {
            s->guard_negated = 1;
            if ((status = sim_parse_next(parser)))
                return status;
        }
        struct sim_operand guard = {0};
        if (parser->lexer.token.kind == SIM_TOK_WORD)
            status = simple_word(parser, &guard);
        if (status)
            return status;
        if (guard.kind != SIM_O_REG || guard.type != SIM_T_PRED)
            return sim_parse_fail(parser, SIM_SYNTAX, "a guard has to be a predicate register");
        s->guard = guard.reg;
    }
    const struct sim_token *token = &parser->lexer.token;
    if (token->kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected an instruction before '%.*s'",
                              shown(token), token->text);
    s->mnemonic = (struct sim_name){token->text, token->length};
    s->line = token->line;
    s->column = token->column;
    int is_call = s->mnemonic.length >= 4 && memcmp(s->mnemonic.text, "call", 4) == 0;
    struct sim_operand operands[SIM_MAX_OPERANDS];
    if ((status = sim_parse_next(parser)))
        return status;
    while (!sim_parse_is(parser, ';')) {
        if (s->count == SIM_MAX_OPERANDS)
            return sim_parse_fail(parser, SIM_UNSUPPORTED, "more than %d operands",
                                  SIM_MAX_OPERANDS);
        if ((status = operand(parser, &operands[s->count++], is_call)))
            return status;
        if (!sim_parse_is(parser, ';') && (status = sim_parse_expect(parser, ',')))
            return status;
    }
    s->operands = sim_arena_alloc(parser->arena, s->count ? s->count : 1, sizeof *s->operands);
    if (!s->operands)
        return no_memory(parser);
    memcpy(s->operands, operands, s->count * sizeof *operands);
    f->count++;
    return sim_parse_next(parser);
}

/* name: .branchtargets L0, L1, ...; */
static enum sim_status branch_targets(struct sim_parser *parser, struct sim_name name) {
    struct sim_symbol *symbol;
    struct sim_operand list = {0};
    enum sim_status status = add_symbol(parser, name, &symbol);
    if (status)
        return status;
    symbol->kind = SIM_SYM_TABLE;
    if ((status = sequence(parser, &list, ';')))
        return status;
    symbol->targets = sim_arena_alloc(parser->arena, 1, sizeof *symbol->targets);
    if (!symbol->targets)
        return no_memory(parser);
    *symbol->targets = (struct sim_label_list){list.items, list.count};
    return SIM_OK;
}

static enum sim_status directive(struct sim_parser *parser) {
    struct sim_declaration d;
    struct sim_symbol *symbol;
    int is_extern = 0;
    enum sim_status status = SIM_OK;
    if (sim_parse_word_is(parser, ".loc"))
        return location(parser);
    if (sim_parse_word_is(parser, ".pragma"))
        return sim_parse_skip_statement(parser);
    while (sim_parse_word_is(parser, ".extern") || sim_parse_word_is(parser, ".visible") ||
           sim_parse_word_is(parser, ".weak")) {
        is_extern |= sim_parse_word_is(parser, ".extern");
        if ((status = sim_parse_next(parser)))
            return status;
    }
    if ((status = sim_parse_declaration(parser, &d)))
        return status;
    if (d.space == SIM_S_REG)
        status = declare_register(parser, &d);
    else if (d.space == SIM_S_GLOBAL || d.space == SIM_S_CONST)
        return sim_parse_fail(parser, SIM_UNSUPPORTED,
                              "a global or constant variable inside a function");
    else
        status = declare_variable(parser, &d, is_extern, &symbol);
    return status ? status : sim_parse_expect(parser, ';');
}

static enum sim_status statement(struct sim_parser *parser) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status;
    if (sim_parse_is(parser, ';'))
        return sim_parse_next(parser);
    if (sim_parse_is(parser, '{')) {
        status = open_scope(parser);
        return status ? status : sim_parse_next(parser);
    }
    if (token->kind == SIM_TOK_WORD && token->text[0] == '.')
        return directive(parser);
    if (token->kind == SIM_TOK_WORD) {
        const char *p = parser->lexer.at;
        while (p < parser->lexer.end && (*p == ' ' || *p == '\t'))
            p++;
        if (p < parser->lexer.end && *p == ':') {
            struct sim_name name = {token->text, token->length};
            if ((status = sim_parse_next(parser)) || (status = sim_parse_next(parser)))
                return status;
            if (sim_parse_word_is(parser, ".branchtargets"))
                return branch_targets(parser, name);
            if (sim_parse_word_is(parser, ".callprototype") ||
                sim_parse_word_is(parser, ".calltargets"))
                return sim_parse_skip_statement(parser);
            return add_label(parser, name);
        }
    }
    return instruction(parser);
}

/* ( .param ..., .param ... ): formal parameters, or the return value */
static enum sim_status formals(struct sim_parser *parser, struct sim_symbol ***list,
                               uint32_t *count, int is_return) {
    uint32_t capacity = 0;
    enum sim_status status = sim_parse_expect(parser, '(');
    while (!status && !sim_parse_is(parser, ')')) {
        struct sim_declaration d;
        struct sim_symbol *symbol, **grown;
        if ((status = sim_parse_declaration(parser, &d)))
            return status;
        if (d.space != SIM_S_PARAM)
            return sim_parse_fail(parser, SIM_UNSUPPORTED,
                                  "a parameter that is not in .param space");
        if ((status = declare_variable(parser, &d, 0, &symbol)))
            return status;
        symbol->is_entry_param = parser->parsed->function->is_entry;
        symbol->is_return = is_return;
        if (!(grown = sim_grow(parser->arena, *list, &capacity, *count + 1, sizeof *grown)))
            return no_memory(parser);
        *list = grown;
        grown[(*count)++] = symbol;
        if (!sim_parse_is(parser, ')'))
            status = sim_parse_expect(parser, ',');
    }
    return status ? status : sim_parse_next(parser);
}

static enum sim_status function_text(struct sim_parser *parser) {
    struct sim_function *function = parser->parsed->function;
    struct sim_parsed *f = parser->parsed;
    enum sim_status status = open_scope(parser);
    sim_lexer_start(&parser->lexer, function->header, function->body_end, function->header_line);
    if (!status)
        status = sim_parse_next(parser);
    if (!status && sim_parse_is(parser, '(')) /* before the name: what it returns */
        status = formals(parser, &f->returns, &f->return_count, 1);
    if (!status && parser->lexer.token.kind == SIM_TOK_WORD && parser->lexer.token.text[0] != '.')
        status = sim_parse_next(parser);
    if (!status && sim_parse_is(parser, '('))
        status = formals(parser, &f->params, &f->param_count, 0);
    if (status)
        return status;
    sim_lexer_start(&parser->lexer, function->body, function->body_end, function->body_line);
    if ((status = sim_parse_next(parser)))
        return status;
    while (!status) {
        if (sim_parse_is(parser, '}')) {
            if (parser->depth == 1)
                return SIM_OK;
            close_scope(parser);
            status = sim_parse_next(parser);
        } else if (parser->lexer.token.kind == SIM_TOK_END) {
            return sim_parse_fail(parser, SIM_SYNTAX, "a function body that never ends");
        } else {
            status = statement(parser);
        }
    }
    return status;
}

enum sim_status sim_parse_function(struct sim_module *module, struct sim_arena *arena,
                                   struct sim_function *function, struct sim_parsed **parsed,
                                   struct sim_error *error) {
    struct sim_parser *parser = sim_arena_alloc(arena, 1, sizeof *parser);
    if (parser) {
        parser->module = module;
        parser->arena = arena;
        parser->error = error;
        parser->parsed = sim_arena_alloc(arena, 1, sizeof *parser->parsed);
        parser->scopes = sim_arena_alloc(arena, SIM_MAX_NESTING, sizeof *parser->scopes);
        parser->scope_ids = sim_arena_alloc(arena, SIM_MAX_NESTING, sizeof *parser->scope_ids);
    }
    if (!parser || !parser->parsed || !parser->scopes || !parser->scope_ids)
        return sim_fail(error, SIM_NO_MEMORY, function->line, 1, "out of memory while parsing %s",
                        function->c_name);
    parser->parsed->function = function;
    *parsed = parser->parsed;
    return function_text(parser);
}
