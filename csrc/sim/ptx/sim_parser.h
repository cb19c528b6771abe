/*
 * sim_parser.h: between the parser's parts: sim_module.c (what stands at file level), sim_parser.c
 * (bodies and declarations) and sim_parse_operand.c. All drive one lexer and report the first error
 * with its place.
 */
#ifndef SIM_PARSER_H
#define SIM_PARSER_H

#include "../sim_internal.h"

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
enum sim_status sim_parse_constant(struct sim_parser *parser, uint64_t *bits);
enum sim_status sim_parse_declaration(struct sim_parser *parser,
                                      struct sim_declaration *declaration);
enum sim_status sim_parse_skip_statement(struct sim_parser *parser);
uint32_t sim_hash(const char *text, size_t length);
int sim_name_is(struct sim_name name, const char *text);
void *sim_grow(struct sim_arena *arena, void *old, uint32_t *capacity, uint32_t need, size_t size);

/* ---- sim_parse_operand.c, and what it needs of sim_parser.c ---- */
enum sim_status sim_parse_add_symbol(struct sim_parser *parser, struct sim_name name,
                                     struct sim_symbol **symbol);
void sim_parse_close_scope(struct sim_parser *parser);
enum sim_status sim_parse_no_memory(struct sim_parser *parser);
enum sim_status sim_parse_open_scope(struct sim_parser *parser);
enum sim_status sim_parse_operand(struct sim_parser *parser, struct sim_operand *o, int in_call);
enum sim_status sim_parse_word(struct sim_parser *parser, struct sim_operand *o);
enum sim_status sim_parse_sequence(struct sim_parser *parser, struct sim_operand *o, char end);
int sim_parse_shown(const struct sim_token *token);

#endif
