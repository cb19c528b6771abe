/* sim_parser.c: parses function bodies: statements, operands and declarations. It resolves every
 * name but labels as it reads it. Nothing recurses on the input: scopes and expressions have
 * explicit, bounded stacks. Decodes nothing.
 */
#include "sim_parser.h"

#include <stdio.h>
#include <string.h>

/* ---- declarations ---- */

static const struct {
    const char *word;
    enum sim_space space;
} space_words[] = {{".reg", SIM_S_REG},     {".global", SIM_S_GLOBAL}, {".shared", SIM_S_SHARED},
                   {".local", SIM_S_LOCAL}, {".const", SIM_S_CONST},   {".param", SIM_S_PARAM}};

/* .space [.align n] [.v2|.v4] .type name[n][m]...; leaves the lexer after the name and its
 * dimensions. */
/* .attribute(.managed) or .attribute(.unified(1, 2)): simulated memory is one in any case. Ends at
 * the last parenthesis. */
static enum sim_status skip_attribute(struct sim_parser *parser) {
    enum sim_status status = sim_parse_next(parser);
    uint32_t depth = 0;
    while (!status) {
        depth += sim_parse_is(parser, '(');
        depth -= depth && sim_parse_is(parser, ')');
        if (!depth)
            return sim_parse_is(parser, ')')
                       ? SIM_OK
                       : sim_parse_fail(parser, SIM_SYNTAX, "an attribute without parentheses");
        if (parser->lexer.token.kind == SIM_TOK_END)
            return sim_parse_fail(parser, SIM_SYNTAX, "an attribute that never ends");
        status = sim_parse_next(parser);
    }
    return status;
}

/* Consumes a declaration's name and the extents behind it. */
static enum sim_status array_extents(struct sim_parser *parser, struct sim_declaration *d) {
    enum sim_status status = sim_parse_next(parser);
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
                              sim_parse_shown(token), token->text);
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
                   sim_parse_word_is(parser, ".local")) {
            continue; /* hints on a pointer parameter */
        } else if (sim_parse_word_is(parser, ".attribute")) {
            status = skip_attribute(parser);
        } else if (sim_parse_word_is(parser, ".texref") ||
                   sim_parse_word_is(parser, ".samplerref") ||
                   sim_parse_word_is(parser, ".surfref")) {
            d->type = SIM_T_B64;
        } else {
            return sim_parse_fail(parser, SIM_UNSUPPORTED, "unknown type or attribute '%.*s'",
                                  sim_parse_shown(token), token->text);
        }
    }
    if (status)
        return status;
    if (d->type == SIM_T_NONE)
        return sim_parse_fail(parser, SIM_SYNTAX, "a declaration without a type");
    if (token->kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "a declaration without a name");
    d->name = (struct sim_name){token->text, token->length};
    return array_extents(parser, d);
}

/* A symbol as a register of the declared type; 128 bits are two of 64. */
static enum sim_status as_register(struct sim_parser *parser, const struct sim_declaration *d,
                                   struct sim_symbol *symbol) {
    const int wide = d->type == SIM_T_B128;
    if (wide && d->vector > 1)
        return sim_parse_fail(parser, SIM_SYNTAX, "there are no vectors of .b128");
    symbol->kind = SIM_SYM_REG;
    symbol->type = wide ? SIM_T_B64 : d->type;
    symbol->bytes = wide ? 2 : d->vector > 1 ? d->vector : 0;
    return SIM_OK;
}

static enum sim_status declare_register(struct sim_parser *parser,
                                        const struct sim_declaration *d) {
    enum sim_status status;
    struct sim_name name = d->name;
    for (;;) {
        struct sim_symbol *symbol;
        if ((status = sim_parse_add_symbol(parser, name, &symbol)))
            return status;
        if ((status = as_register(parser, d, symbol)))
            return status;
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
    enum sim_status status = sim_parse_add_symbol(parser, d->name, &symbol);
    if (status)
        return status;
    symbol->kind = SIM_SYM_VAR;
    symbol->type = d->type;
    symbol->space = d->space;
    symbol->is_extern = is_extern;
    symbol->align = sim_types[d->type].bytes * d->vector;
    symbol->element = d->is_array ? (uint32_t)symbol->align : 0;
    if (d->align > symbol->align)
        symbol->align = d->align;
    if (!sim_multiply(d->elements, sim_types[d->type].bytes * d->vector, &symbol->bytes) ||
        symbol->bytes > (1u << 30))
        return sim_parse_fail(parser, SIM_LIMIT, "'%.*s' is too large",
                              d->name.length > 60 ? 60 : (int)d->name.length, d->name.text);
    struct sim_symbol **list = sim_grow(parser->arena, f->variables, &f->variable_capacity,
                                        f->variable_count + 1, sizeof *list);
    if (!list)
        return sim_parse_no_memory(parser);
    f->variables = list;
    list[f->variable_count++] = symbol;
    *made = symbol;
    return SIM_OK;
}

static enum sim_status declare_static(struct sim_parser *parser, const struct sim_declaration *d) {
    const struct sim_symbol *made;
    struct sim_symbol *symbol;
    enum sim_status status = sim_parse_add_symbol(parser, d->name, &symbol);
    if (status || (status = sim_module_static(parser, d, &made)))
        return status;
    symbol->kind = SIM_SYM_VAR;
    symbol->type = made->type;
    symbol->space = made->space;
    symbol->bytes = made->bytes;
    symbol->align = made->align;
    symbol->element = made->element;
    symbol->address = made->address;
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
        /* either function_name, a label and + number; or inlined_at and three numbers, after which
         * a label belongs to the program */
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
    /* code inlined from a toolkit header is attributed to the calling line, which an earlier .loc
     * named */
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
        return sim_parse_no_memory(parser);
    f->labels = labels;
    labels[f->label_count++] = (struct sim_label){name, parser->scope_ids[parser->depth], f->count};
    return SIM_OK;
}

static enum sim_status operands_of(struct sim_parser *parser, struct sim_statement *s) {
    enum sim_status status;
    const int is_call = s->mnemonic.length >= 4 && memcmp(s->mnemonic.text, "call", 4) == 0,
              is_access = s->mnemonic.length >= 2 && (memcmp(s->mnemonic.text, "ld", 2) == 0 ||
                                                      memcmp(s->mnemonic.text, "st", 2) == 0);
    struct sim_operand operands[SIM_MAX_OPERANDS];
    while (!sim_parse_is(parser, ';')) {
        if (s->count == SIM_MAX_OPERANDS)
            return sim_parse_fail(parser, SIM_UNSUPPORTED, "more than %d operands",
                                  SIM_MAX_OPERANDS);
        if ((status = sim_parse_operand(parser, &operands[s->count++], is_call)))
            return status;
        if (operands[s->count - 1].is_element && is_access)
            operands[s->count - 1].kind = SIM_O_ADDRESS;
        if (!sim_parse_is(parser, ';') && (status = sim_parse_expect(parser, ',')))
            return status;
    }
    s->operands = sim_arena_alloc(parser->arena, s->count ? s->count : 1, sizeof *s->operands);
    if (!s->operands)
        return sim_parse_no_memory(parser);
    memcpy(s->operands, operands, s->count * sizeof *operands);
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
        return sim_parse_no_memory(parser);
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
            status = sim_parse_word(parser, &guard);
        if (status)
            return status;
        if (guard.kind != SIM_O_REG || guard.type != SIM_T_PRED)
            return sim_parse_fail(parser, SIM_SYNTAX, "a guard has to be a predicate register");
        s->guard = guard.reg;
    }
    const struct sim_token *token = &parser->lexer.token;
    if (token->kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected an instruction before '%.*s'",
                              sim_parse_shown(token), token->text);
    s->mnemonic = (struct sim_name){token->text, token->length};
    s->line = token->line;
    s->column = token->column;
    if ((status = sim_parse_next(parser)) || (status = operands_of(parser, s)))
        return status;
    f->count++;
    return sim_parse_next(parser);
}

/* name: .branchtargets L0, L1, ...; */
static enum sim_status branch_targets(struct sim_parser *parser, struct sim_name name) {
    struct sim_symbol *symbol;
    struct sim_operand list = {0};
    enum sim_status status = sim_parse_add_symbol(parser, name, &symbol);
    if (status)
        return status;
    symbol->kind = SIM_SYM_TABLE;
    if ((status = sim_parse_sequence(parser, &list, ';')))
        return status;
    symbol->targets = sim_arena_alloc(parser->arena, 1, sizeof *symbol->targets);
    if (!symbol->targets)
        return sim_parse_no_memory(parser);
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
        status = declare_static(parser, &d);
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
        status = sim_parse_open_scope(parser);
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

struct sim_formals {
    struct sim_symbol ***items;
    uint32_t *count, capacity;
};

/* Declares a formal parameter or result as a variable, which calls fill or read, and appends it. */
static enum sim_status formal(struct sim_parser *parser, const struct sim_declaration *d,
                              struct sim_symbol *in_register, int is_return,
                              struct sim_formals *list) {
    struct sim_symbol *symbol = NULL, **grown;
    enum sim_status status = declare_variable(parser, d, 0, &symbol);
    if (status)
        return status;
    symbol->in_register = in_register;
    symbol->is_entry_param = parser->parsed->function->is_entry;
    symbol->role = is_return ? SIM_RETURNED : SIM_RECEIVED;
    grown = sim_grow(parser->arena, *list->items, &list->capacity, *list->count + 1, sizeof *grown);
    if (!grown)
        return sim_parse_no_memory(parser);
    *list->items = grown;
    grown[(*list->count)++] = symbol;
    return SIM_OK;
}

/* A parameter in registers: one variable for each element of a vector. */
static enum sim_status register_formal(struct sim_parser *parser, struct sim_declaration *d,
                                       int is_return, struct sim_formals *list) {
    struct sim_symbol *whole;
    enum sim_status status = sim_parse_add_symbol(parser, d->name, &whole);
    if (status || (status = as_register(parser, d, whole)))
        return status;
    const uint32_t count = whole->bytes ? (uint32_t)whole->bytes : 1;
    if (count > 1 && (status = sim_parse_number_register(parser, whole)))
        return status;
    d->space = SIM_S_PARAM;
    d->type = whole->type == SIM_T_PRED ? SIM_T_U32 : whole->type;
    d->vector = 1;
    for (uint32_t i = 0; i < count && !status; i++) {
        struct sim_symbol *each = sim_arena_alloc(parser->arena, 1, sizeof *each);
        char *name = sim_arena_alloc(parser->arena, 20, 1); /* no name of a program */
        if (!each || !name)
            return sim_parse_no_memory(parser);
        d->name =
            (struct sim_name){name, (uint32_t)snprintf(name, 20, "(%c%u.%u", is_return ? 'r' : 'p',
                                                       *list->count & 0xffff, i)};
        *each = *whole;
        each->reg = whole->reg + i;
        status = formal(parser, d, count > 1 ? each : whole, is_return, list);
    }
    return status;
}

/* ( .param ..., .param ... ): formal parameters, or the return value */
static enum sim_status formals(struct sim_parser *parser, struct sim_symbol ***items,
                               uint32_t *count, int is_return) {
    struct sim_formals list = {items, count, 0};
    enum sim_status status = sim_parse_expect(parser, '(');
    while (!status && !sim_parse_is(parser, ')')) {
        struct sim_declaration d;
        if ((status = sim_parse_declaration(parser, &d)))
            return status;
        if (d.space == SIM_S_REG && !parser->parsed->function->is_entry && !d.is_array)
            status = register_formal(parser, &d, is_return, &list);
        else if (d.space == SIM_S_PARAM)
            status = formal(parser, &d, NULL, is_return, &list);
        else
            status = sim_parse_fail(parser, SIM_UNSUPPORTED,
                                    "a parameter that is neither in .param space nor a register");
        if (!status && !sim_parse_is(parser, ')'))
            status = sim_parse_expect(parser, ',');
    }
    return status ? status : sim_parse_next(parser);
}

static enum sim_status function_text(struct sim_parser *parser) {
    struct sim_function *function = parser->parsed->function;
    struct sim_parsed *f = parser->parsed;
    enum sim_status status = sim_parse_open_scope(parser);
    sim_lexer_start(&parser->lexer, function->header, function->body_end, function->header_line);
    if (!status)
        status = sim_parse_next(parser);
    if (!status && sim_parse_is(parser, '(')) /* before the name: return values */
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
            sim_parse_close_scope(parser);
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
