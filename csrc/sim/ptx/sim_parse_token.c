/* sim_parse_token.c: token helpers of the parser: read the next, compare, fail with line and
 * column. Knows no grammar.
 */
#include "sim_parser.h"

#include <stdio.h>

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

enum sim_status sim_parse_no_memory(struct sim_parser *parser) {
    char most[64];
    enum sim_status status = sim_arena_why(parser->arena, most, sizeof most);
    return sim_parse_fail(parser, status, "parsing needs more memory than %s", most);
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

int sim_parse_word_is(const struct sim_parser *parser, const char *word) {
    const struct sim_token *token = &parser->lexer.token;
    return token->kind == SIM_TOK_WORD &&
           sim_name_is((struct sim_name){token->text, token->length}, word);
}

int sim_parse_shown(const struct sim_token *token) {
    return token->length > 60 ? 60 : (int)token->length;
}

enum sim_status sim_parse_expect(struct sim_parser *parser, char punctuation) {
    if (!sim_parse_is(parser, punctuation)) {
        const struct sim_token *token = &parser->lexer.token;
        if (token->kind == SIM_TOK_END)
            return sim_parse_fail(parser, SIM_SYNTAX, "expected '%c' before the end of the text",
                                  punctuation);
        return sim_parse_fail(parser, SIM_SYNTAX, "expected '%c' before '%.*s'", punctuation,
                              sim_parse_shown(token), token->text);
    }
    return sim_parse_next(parser);
}
