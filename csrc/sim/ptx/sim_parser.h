/* sim_parser.h: shared by the parser's files: sim_module.c (file level), sim_parser.c (bodies and
 * declarations), sim_parse_operand.c, sim_constant.c and sim_parse_token.c. All use one lexer and
 * report the first error with line and column.
 */
#ifndef SIM_PARSER_H
#define SIM_PARSER_H

#include "../core/sim_internal.h"

/* ---- lexer ---- */

enum sim_token_kind {
    SIM_TOK_END,
    SIM_TOK_WORD,
    SIM_TOK_INT,
    SIM_TOK_F32,
    SIM_TOK_F64,
    SIM_TOK_STRING,
    SIM_TOK_PUNCT,
    SIM_TOK_BAD
};

struct sim_token {
    enum sim_token_kind kind;
    const char *text;
    uint32_t length;
    unsigned line, column;
    uint64_t bits; /* the value; a float's bits; a punctuation character */
    int is_unsigned;
};

struct sim_lexer {
    const char *at, *end, *line_start;
    unsigned line;
    struct sim_token token; /* the current one */
    const char *problem;    /* why a token is bad */
};

void sim_lexer_start(struct sim_lexer *lexer, const char *text, const char *end, unsigned line);
void sim_lexer_next(struct sim_lexer *lexer);
/* Skips from just inside an opening brace to just past its closing one, without making tokens.
 * Returns 0 if it never closes. */
int sim_lexer_skip_body(struct sim_lexer *lexer);

/* ---- parser ---- */

#define SIM_SYMBOL_TABLE 1024u

struct sim_scope_list {
    struct sim_symbol *first;
};

struct sim_parser {
    struct sim_lexer lexer;
    struct sim_module *module;
    struct sim_arena *arena;
    struct sim_error *error;
    struct sim_parsed *parsed; /* the function being parsed; NULL at file level */
    struct sim_symbol *table[SIM_SYMBOL_TABLE];
    struct sim_symbol **scopes; /* symbols of every open scope */
    uint32_t *scope_ids;
    uint32_t depth;
    unsigned file, source_line; /* the current .loc */
};

struct sim_declaration {
    enum sim_space space;
    enum sim_type type;
    uint64_t align, vector, elements; /* elements: 0 for an unsized array */
    int is_array;
    struct sim_name name;
};

#define SIM_MAX_NESTING 256u

enum sim_status sim_parse_fail(struct sim_parser *parser, enum sim_status status,
                               const char *format, ...) SIM_PRINTF(3, 4);
enum sim_status sim_parse_next(struct sim_parser *parser);
int sim_parse_is(const struct sim_parser *parser, char punctuation);
int sim_parse_word_is(const struct sim_parser *parser, const char *word);
enum sim_status sim_parse_expect(struct sim_parser *parser, char punctuation);
/* ---- sim_constant.c: constant expressions ---- */
struct sim_value {
    enum sim_type type; /* S64, U64, F64; F32 for a 0f literal */
    uint64_t bits;
};
enum sim_status sim_parse_value(struct sim_parser *parser, struct sim_value *value); /* or 0f */
enum sim_status sim_parse_constant(struct sim_parser *parser, uint64_t *bits); /* an integer */

/* sim_module.c: a global or constant variable that a function declares. It is one of the module's,
 * made when the function is first parsed. */
enum sim_status sim_module_static(struct sim_parser *parser, const struct sim_declaration *d,
                                  const struct sim_symbol **made);
enum sim_status sim_parse_declaration(struct sim_parser *parser,
                                      struct sim_declaration *declaration);
enum sim_status sim_parse_skip_statement(struct sim_parser *parser);

/* sim_module.c: a variable of global or constant memory that a function declares: it is the
 * module's, made when the function is first parsed. */
enum sim_status sim_module_static(struct sim_parser *parser, const struct sim_declaration *d,
                                  const struct sim_symbol **made);
enum sim_status sim_parse_function(struct sim_module *module, struct sim_arena *arena,
                                   struct sim_function *function, struct sim_parsed **parsed,
                                   struct sim_error *error);

/* ---- sim_parse_operand.c, and the functions of sim_parser.c that it needs ---- */
enum sim_status sim_parse_add_symbol(struct sim_parser *parser, struct sim_name name,
                                     struct sim_symbol **symbol);
void sim_parse_close_scope(struct sim_parser *parser);
enum sim_status sim_parse_no_memory(struct sim_parser *parser);
enum sim_status sim_parse_open_scope(struct sim_parser *parser);
enum sim_status sim_parse_operand(struct sim_parser *parser, struct sim_operand *o, int in_call);
enum sim_status sim_parse_word(struct sim_parser *parser, struct sim_operand *o);
/* Gives a register, or a vector of them, its numbers. */
enum sim_status sim_parse_number_register(struct sim_parser *parser, struct sim_symbol *symbol);
enum sim_status sim_parse_sequence(struct sim_parser *parser, struct sim_operand *o, char end);
int sim_parse_shown(const struct sim_token *token);

#endif
