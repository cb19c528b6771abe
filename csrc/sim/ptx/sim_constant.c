/* sim_constant.c: evaluates constant expressions by precedence, with two explicit, bounded stacks:
 * nesting in the text never deepens the host's stack. Resolves no names.
 */
#include "sim_parser.h"

static int shown(const struct sim_token *token) {
    return token->length > 60 ? 60 : (int)token->length;
}

enum { OP_NEG = 1, OP_NOT, OP_INV, OP_OPEN, OP_BINARY };

struct operator_row {
    const char *text;
    int level;
};
static const struct operator_row operators[] = {
    {"||", 1}, {"&&", 2}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7},
    {"==", 6}, {"!=", 6}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
    {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

struct expression {
    uint64_t values[SIM_MAX_NESTING];
    int ops[SIM_MAX_NESTING]; /* OP_*, or OP_BINARY + row */
    uint32_t value_count, op_count;
};

static enum sim_status apply(struct sim_parser *parser, struct expression *e) {
    int op = e->ops[--e->op_count];
    uint64_t *top = &e->values[e->value_count - 1];
    if (op == OP_NEG || op == OP_NOT || op == OP_INV) {
        *top = op == OP_NEG ? 0 - *top : op == OP_NOT ? *top == 0 : ~*top;
        return SIM_OK;
    }
    uint64_t b = *top, a = top[-1], r = 0;
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    const char *text = operators[op - OP_BINARY].text;
    if ((*text == '/' || *text == '%') && b == 0)
        return sim_parse_fail(parser, SIM_SYNTAX, "division by zero in a constant expression");
    switch (*text + (text[1] << 8)) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = sb == -1 ? 0 - a : (uint64_t)(sa / sb);
        break; /* INT64_MIN / -1 wraps */
    case '%':
        r = sb == -1 ? 0 : (uint64_t)(sa % sb);
        break;
    case '&':
        r = a & b;
        break;
    case '|':
        r = a | b;
        break;
    case '^':
        r = a ^ b;
        break;
    case '<':
        r = sa < sb;
        break;
    case '>':
        r = sa > sb;
        break;
    case '<' + ('<' << 8):
        r = b > 63 ? 0 : a << b;
        break;
    case '>' + ('>' << 8):
        r = (uint64_t)(sa >> (b > 63 ? 63 : b));
        break;
    case '<' + ('=' << 8):
        r = sa <= sb;
        break;
    case '>' + ('=' << 8):
        r = sa >= sb;
        break;
    case '=' + ('=' << 8):
        r = a == b;
        break;
    case '!' + ('=' << 8):
        r = a != b;
        break;
    case '|' + ('|' << 8):
        r = a || b;
        break;
    case '&' + ('&' << 8):
        r = a && b;
        break;
    default:
        break;
    }
    e->value_count--;
    top[-1] = r;
    return SIM_OK;
}

/* The binary operator at the current token, or -1; skips the second character of a longer one. */
static int binary_operator(struct sim_parser *parser) {
    if (parser->lexer.token.kind != SIM_TOK_PUNCT)
        return -1;
    char first = (char)parser->lexer.token.bits;
    char second = parser->lexer.at < parser->lexer.end ? *parser->lexer.at : 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *text = operators[i].text;
        if (text[0] == first && (text[1] == 0 || text[1] == second)) {
            if (text[1])
                parser->lexer.at++;
            return (int)i;
        }
    }
    return -1;
}

static enum sim_status push_operator(struct sim_parser *parser, struct expression *e, int op) {
    if (e->op_count == SIM_MAX_NESTING)
        return sim_parse_fail(parser, SIM_LIMIT, "a constant expression nests deeper than %u",
                              SIM_MAX_NESTING);
    e->ops[e->op_count++] = op;
    return sim_parse_next(parser);
}

/* Parses one value with the signs and parentheses before it. */
static enum sim_status expression_value(struct sim_parser *parser, struct expression *e) {
    enum sim_status status = SIM_OK;
    for (;;) {
        const struct sim_token *token = &parser->lexer.token;
        if (token->kind == SIM_TOK_INT) {
            if (e->value_count == SIM_MAX_NESTING)
                return sim_parse_fail(parser, SIM_LIMIT,
                                      "a constant expression nests deeper than %u",
                                      SIM_MAX_NESTING);
            e->values[e->value_count++] = token->bits;
            return sim_parse_next(parser);
        }
        if (token->kind == SIM_TOK_WORD && token->length == 4 && token->text[0] == '.') {
            /* a cast, (.s64) or (.u64): both are 64 bits here */
            if (!e->op_count || e->ops[e->op_count - 1] != OP_OPEN)
                return sim_parse_fail(parser, SIM_SYNTAX, "expected a constant");
            e->op_count--;
            if ((status = sim_parse_next(parser)) || (status = sim_parse_expect(parser, ')')))
                return status;
            continue;
        }
        int op = sim_parse_is(parser, '-')   ? OP_NEG
                 : sim_parse_is(parser, '!') ? OP_NOT
                 : sim_parse_is(parser, '~') ? OP_INV
                 : sim_parse_is(parser, '(') ? OP_OPEN
                                             : 0;
        if (!op && !sim_parse_is(parser, '+'))
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a constant before '%.*s'",
                                  shown(token), token->text);
        status = op ? push_operator(parser, e, op) : sim_parse_next(parser);
        if (status)
            return status;
    }
}

static int op_level(int op) {
    return op == OP_OPEN ? 0 : op < OP_BINARY ? 11 : operators[op - OP_BINARY].level;
}

enum sim_status sim_parse_constant(struct sim_parser *parser, uint64_t *bits) {
    struct expression e;
    e.value_count = e.op_count = 0;
    uint32_t open = 0;
    enum sim_status status;
    for (;;) {
        if ((status = expression_value(parser, &e)))
            return status;
        open = 0;
        for (uint32_t i = 0; i < e.op_count; i++)
            open += e.ops[i] == OP_OPEN;
        while (open && sim_parse_is(parser, ')')) {
            while (e.ops[e.op_count - 1] != OP_OPEN)
                if ((status = apply(parser, &e)))
                    return status;
            e.op_count--;
            open--;
            if ((status = sim_parse_next(parser)))
                return status;
        }
        int row = binary_operator(parser);
        if (row < 0)
            break;
        while (e.op_count && op_level(e.ops[e.op_count - 1]) >= operators[row].level)
            if ((status = apply(parser, &e)))
                return status;
        if ((status = push_operator(parser, &e, OP_BINARY + row)))
            return status;
    }
    if (open)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected ')' in a constant expression");
    while (e.op_count)
        if ((status = apply(parser, &e)))
            return status;
    *bits = e.values[0];
    return SIM_OK;
}
