/*
 * sim_entries.c: the kernels of a PTX text and their parameters, without loading it. Reads the
 * headers of entries alone, so that a text passes which a real GPU accepts and the simulator not.
 * Every character is read once.
 */
#include "sim_parser.h"

#include <string.h>

/* ( .param ..., .param ... ), and past the closing parenthesis. */
static enum sim_status parameters(struct sim_parser *parser, struct sim_param **list,
                                  uint32_t *count) {
    uint32_t capacity = 0;
    enum sim_status status = sim_parse_next(parser);
    while (!status && !sim_parse_is(parser, ')')) {
        struct sim_declaration d;
        if ((status = sim_parse_declaration(parser, &d)))
            return status;
        const int aggregate = d.is_array || d.vector > 1;
        uint64_t bytes = sim_types[d.type].bytes * d.vector;
        if ((d.is_array && !sim_multiply(bytes, d.elements, &bytes)) || bytes > UINT32_MAX)
            return sim_parse_fail(parser, SIM_LIMIT, "a parameter of more than 4 GiB");
        struct sim_param *grown =
            sim_grow(parser->arena, *list, &capacity, *count + 1, sizeof *grown);
        if (!grown)
            return sim_parse_no_memory(parser);
        *list = grown;
        grown[(*count)++] = (struct sim_param){
            .size = (uint32_t)bytes, .type = sim_types[aggregate ? SIM_T_B8 : d.type].name};
        if (!sim_parse_is(parser, ')'))
            status = sim_parse_expect(parser, ',');
    }
    return status ? status : sim_parse_next(parser);
}

/* Past the directives after the parameters. That of .pragma ends with a semicolon of its own. */
static enum sim_status skip_directives(struct sim_parser *parser) {
    enum sim_status status = SIM_OK;
    int pragma = 0;
    while (!status && !sim_parse_is(parser, '{') && (pragma || !sim_parse_is(parser, ';')) &&
           parser->lexer.token.kind != SIM_TOK_END) {
        pragma = sim_parse_word_is(parser, ".pragma") || (pragma && !sim_parse_is(parser, ';'));
        status = sim_parse_next(parser);
    }
    return status;
}

/* From .entry to the body's brace or a declaration's semicolon. */
static enum sim_status entry(struct sim_parser *parser, sim_entry_function *found, void *state) {
    const struct sim_token *token = &parser->lexer.token;
    struct sim_param *list = NULL;
    uint32_t count = 0;
    enum sim_status status = sim_parse_next(parser);
    if (status)
        return status;
    if (token->kind != SIM_TOK_WORD || token->text[0] == '.')
        return sim_parse_fail(parser, SIM_SYNTAX, "a kernel without a name");
    char *name = sim_arena_alloc(parser->arena, (uint64_t)token->length + 1, 1);
    if (!name)
        return sim_parse_no_memory(parser);
    memcpy(name, token->text, token->length);
    status = sim_parse_next(parser);
    if (!status && sim_parse_is(parser, '('))
        status = parameters(parser, &list, &count);
    if (!status)
        status = skip_directives(parser);
    if (!status && sim_parse_is(parser, '{') && found(state, name, list, count))
        status = sim_fail(parser->error, SIM_INTERRUPTED, 0, 0, "interrupted");
    return status;
}

enum sim_status sim_ptx_entries(const char *text, size_t bytes, sim_entry_function *found,
                                void *state, struct sim_error *error) {
    struct sim_arena own = {.limit = 1u << 20}, of_kernel = {.limit = 64u << 20};
    struct sim_parser *parser = sim_arena_alloc(&own, 1, sizeof *parser);
    enum sim_status status = SIM_OK;
    if (!parser)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for the kernels of a text");
    parser->error = error;
    parser->arena = &of_kernel;
    sim_lexer_start(&parser->lexer, text, text + bytes, 1);
    status = sim_parse_next(parser);
    while (!status && parser->lexer.token.kind != SIM_TOK_END) {
        if (sim_parse_word_is(parser, ".entry")) {
            status = entry(parser, found, state);
            sim_arena_free(&of_kernel);
        } else {
            if (sim_parse_is(parser, '{'))
                sim_lexer_skip_body(&parser->lexer); /* to the end where it never closes */
            status = sim_parse_next(parser); /* fails at a token that is none: nothing skips it */
        }
    }
    sim_arena_free(&own);
    return status;
}
