/* sim_module.c: parses the file level. One pass over the text finds functions and places the
 * module's variables in memory; a function's body is skipped, and parsed when the first kernel that
 * needs it is requested. Decodes nothing.
 */
#include "../../float_state.h"
#include "sim_parser.h"

#include <stdlib.h>
#include <string.h>

static enum sim_status no_memory(struct sim_parser *parser) {
    char most[64];
    enum sim_status status = sim_arena_why(parser->arena, most, sizeof most);
    return sim_parse_fail(parser, status, "the module needs more memory than %s", most);
}

/* .file 1 "path" [, time, size] */
static enum sim_status file_directive(struct sim_parser *parser) {
    struct sim_module *module = parser->module;
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    if (token->kind != SIM_TOK_INT)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a file number");
    unsigned number = (unsigned)token->bits;
    if ((status = sim_parse_next(parser)))
        return status;
    if (token->kind != SIM_TOK_STRING)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a file name");
    struct sim_file_name *files = sim_grow(parser->arena, module->files, &module->file_capacity,
                                           module->file_count + 1, sizeof *files);
    char *path = sim_arena_alloc(parser->arena, token->length, 1);
    if (!files || !path)
        return no_memory(parser);
    memcpy(path, token->text + 1, token->length - 2);
    module->files = files;
    files[module->file_count++] = (struct sim_file_name){
        number, path,
        strstr(path, "/targets/") || strstr(path, "/cuda/include/") ||
            strstr(path, "/include/crt/") || strstr(path, "/cccl/") ||
            strstr(path, "/cooperative_groups") || strstr(path, "/include/c++/")};
    if ((status = sim_parse_next(parser)))
        return status;
    while (sim_parse_is(parser, ','))
        if ((status = sim_parse_next(parser)) || (status = sim_parse_next(parser)))
            return status;
    return SIM_OK;
}

/* The numbers of .maxntid, .reqntid, .reqnctapercluster, .maxnreg or .minnctapersm: up to three of
 * them, and their product. Larger ones are 4,096. */
static enum sim_status read_bounds(struct sim_parser *parser, uint32_t block[3],
                                   uint64_t *product) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = SIM_OK;
    uint32_t given = 0;
    *product = 1;
    while (!status && token->kind == SIM_TOK_INT) {
        if (given < 3)
            block[given++] = token->bits > 4096 ? 4096 : (uint32_t)token->bits;
        if (!sim_multiply(*product, token->bits, product) || *product > 4096)
            *product = 4096;
        if ((status = sim_parse_next(parser)) == SIM_OK && sim_parse_is(parser, ','))
            status = sim_parse_next(parser);
    }
    return status;
}

/* .entry name (...) ... { } or .func (...) name (...) ... { } or ; */
/* Consumes a word of a function's header, with the numbers of a directive that limits it. */
static enum sim_status header_word(struct sim_parser *parser, struct sim_function *f) {
    const int only = sim_parse_word_is(parser, ".reqntid");
    const int threads = only || sim_parse_word_is(parser, ".maxntid");
    const int cluster = sim_parse_word_is(parser, ".reqnctapercluster");
    const int registers = sim_parse_word_is(parser, ".maxnreg");
    const int blocks = sim_parse_word_is(parser, ".minnctapersm") ||
                       sim_parse_word_is(parser, ".maxnctapersm"); /* its old name */
    enum sim_status status = sim_parse_next(parser);
    if (status || !(threads || cluster || registers || blocks))
        return status;
    uint64_t product;
    uint32_t block[3] = {1, 1, 1};
    status = read_bounds(parser, block, &product);
    if (registers)
        f->max_registers = (unsigned)product;
    else if (blocks)
        f->min_blocks = (unsigned)product;
    else if (cluster)
        f->cluster_blocks = (unsigned)product;
    else
        f->max_threads = (unsigned)product;
    if (only && product)
        memcpy(f->block, block, sizeof f->block);
    return status;
}

static enum sim_status function_directive(struct sim_parser *parser, int is_entry) {
    struct sim_module *module = parser->module;
    const struct sim_token *token = &parser->lexer.token;
    struct sim_function *f = sim_arena_alloc(parser->arena, 1, sizeof *f);
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    if (!f)
        return no_memory(parser);
    while (sim_parse_word_is(parser, ".noreturn") || sim_parse_word_is(parser, ".unique"))
        if ((status = sim_parse_next(parser)))
            return status;
    f->module = module;
    f->is_entry = is_entry;
    f->header = token->text;
    f->line = f->header_line = token->line;
    for (int depth = 0;
         !status && (depth || !(sim_parse_is(parser, '{') || sim_parse_is(parser, ';')));) {
        depth += sim_parse_is(parser, '(') - sim_parse_is(parser, ')');
        if (token->kind == SIM_TOK_END || depth < 0 || depth > 1)
            return sim_parse_fail(parser, SIM_SYNTAX, "a function header that never ends");
        if (!depth && token->kind == SIM_TOK_WORD && token->text[0] != '.' && !f->name.length)
            f->name = (struct sim_name){token->text, token->length};
        status = depth ? sim_parse_next(parser) : header_word(parser, f);
    }
    if (status)
        return status;
    if (!f->name.length)
        return sim_parse_fail(parser, SIM_SYNTAX, "a function without a name");
    f->c_name = sim_arena_alloc(parser->arena, (uint64_t)f->name.length + 1, 1);
    if (!f->c_name)
        return no_memory(parser);
    memcpy(f->c_name, f->name.text, f->name.length);
    if (sim_parse_is(parser, '{')) {
        f->has_body = 1;
        f->body = parser->lexer.at;
        f->body_line = parser->lexer.line;
        if (!sim_lexer_skip_body(&parser->lexer))
            return sim_parse_fail(parser, SIM_SYNTAX, "the body of '%.60s' never ends", f->c_name);
    }
    f->body_end = parser->lexer.at;
    *module->last_function = f;
    module->last_function = &f->next;
    f->ordinal = ++module->function_count;
    return sim_parse_next(parser);
}

/* ---- variables ---- */

struct initialiser {
    uint8_t *host;
    uint64_t bytes, at, element;
    enum sim_type type;
};

/* A constant as an element of the variable's type, as ptxas converts it: a double is rounded for 4
 * bytes, the bits of a 0f literal stay as they are. */
static enum sim_status initial_constant(struct sim_parser *parser, enum sim_type type,
                                        uint64_t *bits) {
    const unsigned class = sim_types[type].class;
    struct sim_value value = {0};
    enum sim_status status = sim_parse_value(parser, &value);
    const int is_real = value.type == SIM_T_F64 || value.type == SIM_T_F32;
    if (status)
        return status;
    if (class == SIM_C_HALF || (class != SIM_C_BITS && (class == SIM_C_FLOAT) != is_real))
        return sim_parse_fail(parser, SIM_SYNTAX,
                              "%s number as an initial value of a variable of type .%s",
                              is_real ? "a floating-point" : "an integer", sim_types[type].name);
    *bits = value.bits;
    if (value.type == SIM_T_F64 && sim_types[type].bytes == 4) {
        double wide;
        memcpy(&wide, &value.bits, sizeof wide);
        const float narrow = (float)wide;
        *bits = 0;
        memcpy(bits, &narrow, sizeof narrow);
    }
    return SIM_OK;
}

/* An address that is not a variable's is a function's, which may be defined further on. */
static enum sim_status note_function(struct sim_parser *parser, struct sim_function_use use) {
    struct sim_module *module = parser->module;
    struct sim_function_use *uses = sim_grow(parser->arena, module->uses, &module->use_capacity,
                                             module->use_count + 1, sizeof *uses);
    if (!uses)
        return no_memory(parser);
    module->uses = uses;
    uses[module->use_count++] = use;
    return SIM_OK;
}

static uint64_t masked(uint64_t address, uint64_t mask) {
    return (address & mask) >> (mask ? __builtin_ctzll(mask) : 0);
}

/* name, generic(name), either + constant; mask: the bits of the address that are kept */
static enum sim_status initial_address(struct sim_parser *parser, struct initialiser *init,
                                       uint64_t mask, uint64_t *bits) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = SIM_OK;
    uint64_t more = 0;
    const int generic = sim_parse_word_is(parser, "generic");
    if (generic && ((status = sim_parse_next(parser)) || (status = sim_parse_expect(parser, '('))))
        return status;
    if (token->kind != SIM_TOK_WORD)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a name as an initial value");
    const struct sim_name name = {token->text, token->length};
    const struct sim_symbol *other = sim_module_variable(parser->module, name.text, name.length);
    status = sim_parse_next(parser);
    if (!status && generic)
        status = sim_parse_expect(parser, ')');
    if (!status && sim_parse_is(parser, '+') && (status = sim_parse_next(parser)) == SIM_OK)
        status = sim_parse_constant(parser, &more);
    if (status)
        return status;
    *bits = masked((other ? other->address : 0) + more, mask);
    return other
               ? SIM_OK
               : note_function(parser, (struct sim_function_use){name, init->host + init->at, more,
                                                                 mask, (uint32_t)init->element});
}

static int opens_parenthesis(const struct sim_parser *parser) {
    const char *p = parser->lexer.at;
    while (p < parser->lexer.end && (*p == ' ' || *p == '\t'))
        p++;
    return p < parser->lexer.end && *p == '(';
}

static enum sim_status initial_value(struct sim_parser *parser, struct initialiser *init) {
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status;
    uint64_t bits = 0;
    uint8_t element[16] = {0};
    if (init->at > init->bytes - init->element || init->bytes < init->element)
        return sim_parse_fail(parser, SIM_SYNTAX, "more initial values than elements");
    if (token->kind == SIM_TOK_INT && opens_parenthesis(parser)) { /* mask(address) */
        const uint64_t mask = token->bits;
        if ((status = sim_parse_next(parser)) || (status = sim_parse_expect(parser, '(')) ||
            (status = initial_address(parser, init, mask, &bits)) ||
            (status = sim_parse_expect(parser, ')')))
            return status;
    } else if (token->kind == SIM_TOK_WORD && !sim_parse_word_is(parser, "WARP_SZ")) {
        status = initial_address(parser, init, UINT64_MAX, &bits);
    } else {
        status = initial_constant(parser, init->type, &bits);
    }
    memcpy(element, &bits, sizeof bits); /* little-endian, as the GPU */
    if (!status)
        memcpy(init->host + init->at, element, (size_t)init->element);
    init->at += init->element;
    return status;
}

/* = value, or = { values }, with bounded nesting, which only groups the values */
static enum sim_status initial_values(struct sim_parser *parser, struct initialiser *init) {
    uint32_t depth = 0;
    enum sim_status status = sim_parse_next(parser);
    for (;;) {
        while (!status && sim_parse_is(parser, '{')) {
            if (++depth > SIM_MAX_NESTING)
                return sim_parse_fail(parser, SIM_LIMIT, "braces nest deeper than %u",
                                      SIM_MAX_NESTING);
            status = sim_parse_next(parser);
        }
        if (!status && !sim_parse_is(parser, '}'))
            status = initial_value(parser, init);
        while (!status && depth && sim_parse_is(parser, '}')) {
            depth--;
            status = sim_parse_next(parser);
        }
        if (status || !depth)
            return status;
        status = sim_parse_expect(parser, ',');
    }
}

static enum sim_status own_allocation(struct sim_parser *parser, uint64_t address) {
    struct sim_module *module = parser->module;
    uint64_t *list = sim_grow(parser->arena, module->allocations, &module->allocation_capacity,
                              module->allocation_count + 1, sizeof *list);
    if (!list) {
        sim_memory_release(module->gpu, address, NULL);
        return no_memory(parser);
    }
    module->allocations = list;
    list[module->allocation_count++] = address;
    return SIM_OK;
}

/* Allocates a variable and reads its initial value. */
static enum sim_status place_variable(struct sim_parser *parser, struct sim_symbol *symbol) {
    struct sim_module *module = parser->module;
    struct initialiser init = {
        .bytes = symbol->bytes, .element = sim_types[symbol->type].bytes, .type = symbol->type};
    const uint64_t align = symbol->align > 256 ? symbol->align : 256;
    struct sim_error problem;
    enum sim_status status =
        sim_memory_allocate(module->gpu, symbol->bytes, align, 1, &symbol->address, &problem);
    if (status)
        return sim_parse_fail(parser, status, "%s", problem.text);
    if ((status = own_allocation(parser, symbol->address)))
        return status;
    struct sim_region *region = sim_memory_find(module->gpu, symbol->address);
    init.host = region->host;
    region->read_only = symbol->space == SIM_S_CONST;
    free(region->valid); /* module variables begin as zeros */
    region->valid = NULL;
    return sim_parse_is(parser, '=') ? initial_values(parser, &init) : SIM_OK;
}

static enum sim_status variable_directive(struct sim_parser *parser, int is_extern) {
    struct sim_module *module = parser->module;
    struct sim_declaration d;
    enum sim_status status = sim_parse_declaration(parser, &d);
    if (status)
        return status;
    if (d.space == SIM_S_REG || d.space == SIM_S_PARAM || d.space == SIM_S_LOCAL)
        return sim_parse_fail(parser, SIM_UNSUPPORTED,
                              "a register, parameter or local variable outside a function");
    struct sim_symbol *symbol = sim_arena_alloc(parser->arena, 1, sizeof *symbol);
    if (!symbol)
        return no_memory(parser);
    uint64_t element = sim_types[d.type].bytes, align = element * d.vector;
    *symbol = (struct sim_symbol){.name = d.name,
                                  .kind = SIM_SYM_VAR,
                                  .type = d.type,
                                  .space = d.space,
                                  .is_extern = is_extern,
                                  .align = d.align > align ? d.align : align,
                                  .element = d.is_array ? (uint32_t)align : 0,
                                  .reg = UINT32_MAX};
    if (sim_module_variable(module, d.name.text, d.name.length))
        return sim_parse_fail(parser, SIM_SYNTAX, "a variable is declared twice");
    if (!sim_multiply(d.elements, align, &symbol->bytes) ||
        symbol->bytes > module->gpu->limits.device_bytes)
        return sim_parse_fail(parser, SIM_LIMIT, "a variable is larger than the simulated memory");
    if (d.space == SIM_S_SHARED) {
        if (!is_extern) {
            module->shared_bytes += symbol->bytes + symbol->align;
            if (module->shared_bytes > (1u << 24))
                return sim_parse_fail(parser, SIM_LIMIT, "more shared memory than any GPU has");
        }
    } else if (!is_extern && (status = place_variable(parser, symbol))) {
        return status; /* kernels that use an external one are refused */
    }
    symbol->hash = sim_hash(d.name.text, d.name.length);
    symbol->chain = module->globals[symbol->hash % module->global_table];
    module->globals[symbol->hash % module->global_table] = symbol;
    symbol->next_in_scope = module->variables;
    module->variables = symbol;
    return sim_parse_expect(parser, ';');
}

/* .section name { ... }: debugging data, ignored */
static enum sim_status section_directive(struct sim_parser *parser) {
    enum sim_status status = sim_parse_next(parser);
    if (!status)
        status = sim_parse_next(parser);
    if (status)
        return status;
    if (!sim_parse_is(parser, '{'))
        return sim_parse_fail(parser, SIM_SYNTAX, "expected '{' after a section's name");
    if (!sim_lexer_skip_body(&parser->lexer))
        return sim_parse_fail(parser, SIM_SYNTAX, "a section that never ends");
    return sim_parse_next(parser);
}

/* Whether a GPU of this compute capability runs PTX for a target. The presets before sm_75, the
 * oldest target of CUDA 13, run what compilers make today. */
static int target_fits(unsigned cc, unsigned target, char letter) {
    if (letter == 'a')
        return target == cc;
    if (letter == 'f')
        return target / 10 == cc / 10 && target <= cc;
    return cc < 75 || target <= cc;
}

static enum sim_status check_target(struct sim_parser *parser, const struct sim_token *token) {
    const struct sim_preset *preset = parser->module->gpu->preset;
    const char letter = token->text[token->length - 1];
    if (target_fits(preset->cc, parser->module->target, letter))
        return SIM_OK;
    return sim_parse_fail(
        parser, SIM_UNSUPPORTED,
        "PTX for %.*s %s; sim:%s has compute capability %u.%u: compile for compute_%u, or load it "
        "on a newer GPU%s",
        token->length > 20 ? 20 : (int)token->length, token->text,
        letter == 'a'   ? "runs on that compute capability alone"
        : letter == 'f' ? "runs on its family of compute capabilities alone"
                        : "needs a GPU of at least that compute capability",
        preset->name, preset->cc / 10, preset->cc % 10, preset->cc < 75 ? 75 : preset->cc,
        letter == 'a' ? " of that very capability" : "");
}

/* sm_90, sm_90a, sm_100f; other words, as texmode_independent, say nothing here. */
static enum sim_status read_target(struct sim_parser *parser, const struct sim_token *token) {
    const char last = token->text[token->length - 1];
    unsigned target = 0;
    for (uint32_t i = 3;
         i < token->length && i < 7 && token->text[i] >= '0' && token->text[i] <= '9'; i++)
        target = target * 10 + (unsigned)(token->text[i] - '0');
    parser->module->target = target;
    parser->module->specific = last == 'a' || last == 'f';
    return target ? check_target(parser, token) : SIM_OK;
}

static enum sim_status header_directive(struct sim_parser *parser) {
    int target = sim_parse_word_is(parser, ".target"),
        size = sim_parse_word_is(parser, ".address_size");
    const struct sim_token *token = &parser->lexer.token;
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    if (size && (token->kind != SIM_TOK_INT || token->bits != 64))
        return sim_parse_fail(parser, SIM_UNSUPPORTED, "only 64-bit addresses are supported");
    if (target && (token->kind != SIM_TOK_WORD || !token->length))
        return sim_parse_fail(parser, SIM_SYNTAX, "expected a target, as sm_90");
    if (target && (status = read_target(parser, token)))
        return status;
    status = sim_parse_next(parser);
    while (!status && target && sim_parse_is(parser, ',')) /* sm_90a, debug */
        if ((status = sim_parse_next(parser)) == SIM_OK)
            status = sim_parse_next(parser);
    return status;
}

static struct sim_function *function_named(struct sim_module *module, const struct sim_token *t) {
    struct sim_function *f = module->functions;
    while (f && (f->name.length != t->length || memcmp(f->name.text, t->text, t->length)))
        f = f->next;
    return f;
}

/* .alias name, function; the name was declared, and becomes a function of the same text. */
static enum sim_status alias_directive(struct sim_parser *parser) {
    struct sim_function *both[2];
    enum sim_status status = SIM_OK;
    for (int i = 0; i < 2; i++) {
        if ((status = sim_parse_next(parser)))
            return status;
        if (!(both[i] = function_named(parser->module, &parser->lexer.token)))
            return sim_parse_fail(parser, SIM_SYNTAX, "an alias of what is no function");
        if ((status = sim_parse_next(parser)) || (!i && !sim_parse_is(parser, ',')))
            return status ? status : sim_parse_fail(parser, SIM_SYNTAX, "expected ','");
    }
    if (both[0]->has_body || !both[1]->has_body)
        return sim_parse_fail(parser, SIM_SYNTAX,
                              "an alias has no body, and the function that it stands for has one");
    both[0]->has_body = 1;
    both[0]->header = both[1]->header;
    both[0]->header_line = both[1]->header_line;
    both[0]->body = both[1]->body;
    both[0]->body_line = both[1]->body_line;
    both[0]->body_end = both[1]->body_end;
    return sim_parse_expect(parser, ';');
}

static enum sim_status directives(struct sim_parser *parser) {
    enum sim_status status = sim_parse_next(parser);
    int is_extern = 0;
    while (!status && parser->lexer.token.kind != SIM_TOK_END) {
        if (sim_parse_word_is(parser, ".version") || sim_parse_word_is(parser, ".target") ||
            sim_parse_word_is(parser, ".address_size")) {
            status = header_directive(parser);
        } else if (sim_parse_word_is(parser, ".extern") || sim_parse_word_is(parser, ".visible") ||
                   sim_parse_word_is(parser, ".weak") || sim_parse_word_is(parser, ".common")) {
            is_extern |= sim_parse_word_is(parser, ".extern");
            status = sim_parse_next(parser);
            continue;
        } else if (sim_parse_word_is(parser, ".entry")) {
            status = function_directive(parser, 1);
        } else if (sim_parse_word_is(parser, ".func")) {
            status = function_directive(parser, 0);
        } else if (sim_parse_word_is(parser, ".file")) {
            status = file_directive(parser);
        } else if (sim_parse_word_is(parser, ".section")) {
            status = section_directive(parser);
        } else if (sim_parse_word_is(parser, ".alias")) {
            status = alias_directive(parser);
        } else if (sim_parse_word_is(parser, ".pragma")) {
            status = sim_parse_skip_statement(parser);
        } else if (sim_parse_is(parser, ';')) {
            status = sim_parse_next(parser);
        } else {
            status = variable_directive(parser, is_extern);
        }
        is_extern = 0;
    }
    return status;
}

/* Stores the addresses of functions in the variables whose initial values they are. */
static enum sim_status resolve_uses(struct sim_parser *parser) {
    struct sim_module *module = parser->module;
    for (; module->use_count; module->use_count--) {
        const struct sim_function_use *use = &module->uses[module->use_count - 1];
        struct sim_function *f = sim_module_function(module, use->name.text, use->name.length);
        if (!f)
            return sim_fail(parser->error, SIM_SYNTAX, 0, 0,
                            "'%.*s', whose address is an initial value, is not defined",
                            use->name.length > 60 ? 60 : (int)use->name.length, use->name.text);
        const uint64_t bits = masked(sim_function_address(f) + use->more, use->mask);
        f->address_taken = 1;
        memcpy(use->host, &bits, use->bytes < sizeof bits ? use->bytes : sizeof bits);
    }
    return SIM_OK;
}

static enum sim_status make_static(struct sim_parser *parser, const struct sim_declaration *d,
                                   struct sim_symbol *symbol) {
    const uint64_t align = sim_types[d->type].bytes * d->vector;
    *symbol = (struct sim_symbol){.name = d->name,
                                  .kind = SIM_SYM_VAR,
                                  .type = d->type,
                                  .space = d->space,
                                  .align = d->align > align ? d->align : align};
    if (!sim_multiply(d->elements, align, &symbol->bytes) ||
        symbol->bytes > parser->module->gpu->limits.device_bytes)
        return sim_parse_fail(parser, SIM_LIMIT, "a variable is larger than the simulated memory");
    const enum sim_status status = place_variable(parser, symbol);
    return status ? status : resolve_uses(parser);
}

enum sim_status sim_module_static(struct sim_parser *parser, const struct sim_declaration *d,
                                  const struct sim_symbol **made) {
    struct sim_module *module = parser->module;
    struct sim_arena *const arena = parser->arena;
    enum sim_status status = SIM_OK;
    for (struct sim_symbol *s = module->statics; s; s = s->next_in_scope)
        if (s->name.text == d->name.text) { /* the function was parsed for another kernel */
            while (!status && !sim_parse_is(parser, ';') && parser->lexer.token.kind != SIM_TOK_END)
                status = sim_parse_next(parser);
            *made = s;
            return status;
        }
    parser->arena = &module->arena; /* the variable outlives the parsed function */
    struct sim_symbol *symbol = sim_arena_alloc(parser->arena, 1, sizeof *symbol);
    status = symbol ? make_static(parser, d, symbol) : no_memory(parser);
    parser->arena = arena;
    if (status)
        return status;
    symbol->next_in_scope = module->statics;
    module->statics = symbol;
    *made = symbol;
    return SIM_OK;
}

static enum sim_status index_functions(struct sim_parser *parser) {
    struct sim_module *module = parser->module;
    uint64_t size = (uint64_t)module->function_count * 2 + 16;
    module->by_name = sim_arena_alloc(parser->arena, size, sizeof(struct sim_function *));
    module->entries = sim_arena_alloc(parser->arena, (uint64_t)module->function_count + 1,
                                      sizeof(struct sim_function *));
    if (!module->by_name || !module->entries)
        return no_memory(parser);
    module->table_size = (uint32_t)size;
    for (struct sim_function *f = module->functions; f; f = f->next) {
        uint32_t i = sim_hash(f->name.text, f->name.length) % module->table_size;
        for (; module->by_name[i]; i = (i + 1) % module->table_size)
            if (module->by_name[i]->name.length == f->name.length &&
                memcmp(module->by_name[i]->name.text, f->name.text, f->name.length) == 0)
                break;
        struct sim_function *other = module->by_name[i];
        if (other && other->has_body && f->has_body)
            return sim_fail(parser->error, SIM_SYNTAX, f->line, 1,
                            "PTX line %u: function '%.60s' is defined twice", f->line, f->c_name);
        if (!other || f->has_body)
            module->by_name[i] = f; /* a definition replaces its declaration */
        if (f->is_entry && f->has_body)
            module->entries[module->entry_count++] = f;
    }
    return resolve_uses(parser);
}

static void module_free(struct sim_module *module) {
    for (uint32_t i = 0; i < module->entry_count; i++) {
        if (!module->entries[i]->kernel)
            continue;
        struct sim_arena arena =
            module->entries[i]->kernel->arena; /* the arena holds the kernel itself */
        sim_arena_free(&arena);
    }
    for (uint32_t i = 0; i < module->allocation_count; i++)
        sim_memory_release(module->gpu, module->allocations[i], NULL);
    sim_arena_free(&module->arena);
    free(module);
}

enum sim_status sim_module_load(struct sim_gpu *gpu, const char *text, size_t bytes,
                                struct sim_module **out, struct sim_error *error) {
    struct sim_module *module = NULL;
    struct sim_parser *parser;
    enum sim_status status;
    *out = NULL;
    if (bytes > gpu->limits.ptx_bytes || bytes > UINT32_MAX / 2)
        return sim_fail(error, SIM_LIMIT, 0, 0, "%zu bytes of PTX are more than the limit of %llu",
                        bytes, (unsigned long long)gpu->limits.ptx_bytes);
    pthread_mutex_lock(&gpu->lock);
    status = SIM_NO_MEMORY;
    module = calloc(1, sizeof *module);
    if (!module)
        goto done;
    module->arena.limit = gpu->limits.parse_bytes;
    module->gpu = gpu;
    module->bytes = bytes;
    module->last_function = &module->functions;
    module->global_table = 1024;
    module->globals =
        sim_arena_alloc(&module->arena, module->global_table, sizeof *module->globals);
    module->text = sim_arena_alloc(&module->arena, (uint64_t)bytes + 1, 1);
    parser = sim_arena_alloc(&module->arena, 1, sizeof *parser);
    if (!module->text || !module->globals || !parser)
        goto done;
    const fenv_t before = float_state_enter_all(); /* for constants */
    memcpy(module->text, text, bytes);
    parser->module = module;
    parser->arena = &module->arena;
    parser->error = error;
    sim_lexer_start(&parser->lexer, module->text, module->text + bytes, 1);
    if (bytes && module->text[bytes - 1] == 0) /* the text may include a C string's NUL */
        parser->lexer.end--;
    if ((status = directives(parser)) == SIM_OK)
        status = index_functions(parser);
    float_state_leave_all(before);
    if (status)
        goto done;
    module->next = gpu->modules;
    gpu->modules = module;
    *out = module;
done:
    if (status && module)
        module_free(module);
    pthread_mutex_unlock(&gpu->lock);
    if (status == SIM_NO_MEMORY)
        return sim_fail(error, status, 0, 0, "out of memory for a module of %zu bytes", bytes);
    return status;
}

void sim_module_unload(struct sim_module *module) {
    if (!module)
        return;
    struct sim_gpu *gpu = module->gpu;
    pthread_mutex_lock(&gpu->lock);
    for (struct sim_module **at = &gpu->modules; *at; at = &(*at)->next) {
        if (*at == module) {
            *at = module->next;
            break;
        }
    }
    module_free(module);
    pthread_mutex_unlock(&gpu->lock);
}

size_t sim_module_kernels(const struct sim_module *module) { return module->entry_count; }

const char *sim_module_kernel_name(const struct sim_module *module, size_t index) {
    return index < module->entry_count ? module->entries[index]->c_name : NULL;
}

enum sim_status sim_module_symbol(struct sim_module *module, const char *name, uint64_t *address,
                                  uint64_t *bytes, struct sim_error *error) {
    const struct sim_symbol *symbol = sim_module_variable(module, name, strlen(name));
    if (!symbol || symbol->space == SIM_S_SHARED || symbol->is_extern)
        return sim_fail(error, SIM_NOT_FOUND, 0, 0,
                        "the module has no global or constant variable '%.100s'", name);
    *address = symbol->address;
    *bytes = symbol->bytes;
    return SIM_OK;
}
