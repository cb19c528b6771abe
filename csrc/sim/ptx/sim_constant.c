/* sim_constant.c: evaluates constant expressions by precedence, with two explicit, bounded stacks:
 * nesting in the text never deepens the host's stack. Resolves no names. Values are .s64, .u64 or
 * .f64, as in section 4.5 of the PTX manual. Where ptxas 13.0 differs from the manual, this follows
 * ptxas: `&`, `|` and `^` convert as `+` does, `%` is .u64, shift counts are taken modulo 64, `?:`
 * has the type of the operand that it chooses, and `&&`, `||` and `?:` evaluate all operands.
 */
#include "sim_parser.h"

#include <string.h>

static int shown(const struct sim_token *token) {
    return token->length > 60 ? 60 : (int)token->length;
}

/* clang-format off */
#define BINARY(X)                                                                                  \
    X(LOGICAL_OR, "||", 2) X(LOGICAL_AND, "&&", 3)                                                 \
    X(SHIFT_LEFT, "<<", 9) X(SHIFT_RIGHT, ">>", 9)                                                 \
    X(AT_MOST, "<=", 8) X(AT_LEAST, ">=", 8) X(EQUAL, "==", 7) X(DIFFERENT, "!=", 7)               \
    X(OR, "|", 4) X(XOR, "^", 5) X(AND, "&", 6) X(LESS, "<", 8) X(MORE, ">", 8)                    \
    X(ADD, "+", 10) X(SUBTRACT, "-", 10) X(MULTIPLY, "*", 11) X(DIVIDE, "/", 11)                   \
    X(REMAINDER, "%", 11) X(QUESTION, "?", 1) X(COLON, ":", 1)
/* clang-format on */

enum operator{
#define X(name, text, level) BINARY_##name,
    BINARY(X)
#undef X
        OPEN,
    UNARY_NEGATE,
    UNARY_NOT,
    UNARY_INVERT,
    UNARY_SIGNED,
    UNARY_UNSIGNED,
};

static const struct {
    const char *text; /* those of two characters before their first one alone */
    int level;
} binary[] = {
#define X(name, text, level) {text, level},
    BINARY(X)
#undef X
};
enum { BINARY_COUNT = sizeof binary / sizeof *binary, UNARY_LEVEL = 12 };

struct expression {
    struct sim_value values[SIM_MAX_NESTING];
    enum operator ops[SIM_MAX_NESTING];
    uint32_t value_count, op_count;
};

static struct sim_value truth(int holds) {
    return (struct sim_value){.type = SIM_T_S64, .bits = holds != 0};
}

static double real(struct sim_value value) {
    double d;
    memcpy(&d, &value.bits, sizeof d);
    return d;
}

static struct sim_value of_real(double d) {
    struct sim_value value = {.type = SIM_T_F64};
    memcpy(&value.bits, &d, sizeof d);
    return value;
}

static enum sim_status not_an_integer(struct sim_parser *parser, const char *text) {
    return sim_parse_fail(parser, SIM_SYNTAX,
                          "'%s' of a floating-point number in a constant expression", text);
}

static enum sim_status divided_by_zero(struct sim_parser *parser) {
    return sim_parse_fail(parser, SIM_SYNTAX, "division by zero in a constant expression");
}

/* ---- operators on values ---- */

static enum sim_status unary(struct sim_parser *parser, enum operator op, struct sim_value *v) {
    if (v->type == SIM_T_F64) {
        if (op != UNARY_NEGATE)
            return not_an_integer(parser, op == UNARY_NOT      ? "!"
                                          : op == UNARY_INVERT ? "~"
                                                               : "a cast");
        v->bits ^= 1ull << 63;
        return SIM_OK;
    }
    switch (op) {
    case UNARY_NEGATE:
        v->bits = 0 - v->bits;
        break;
    case UNARY_NOT:
        *v = truth(v->bits == 0);
        break;
    case UNARY_INVERT:
        *v = (struct sim_value){.type = SIM_T_U64, .bits = ~v->bits};
        break;
    default:
        v->type = op == UNARY_SIGNED ? SIM_T_S64 : SIM_T_U64;
        break;
    }
    return SIM_OK;
}

/* A comparison's result from the order of its operands, all 0 beside a NaN. Returns 0 for another
 * operator. */
static int compared(enum operator op, int less, int equal, int more, struct sim_value *r) {
    switch (op) {
    case BINARY_LESS:
        *r = truth(less);
        return 1;
    case BINARY_MORE:
        *r = truth(more);
        return 1;
    case BINARY_AT_MOST:
        *r = truth(less | equal);
        return 1;
    case BINARY_AT_LEAST:
        *r = truth(more | equal);
        return 1;
    case BINARY_EQUAL:
        *r = truth(equal);
        return 1;
    case BINARY_DIFFERENT:
        *r = truth(!equal);
        return 1;
    default:
        return 0;
    }
}

static enum sim_status of_reals(struct sim_parser *parser, enum operator op, double a, double b,
                                struct sim_value *r) {
    switch (op) {
    case BINARY_ADD:
        *r = of_real(a + b);
        break;
    case BINARY_SUBTRACT:
        *r = of_real(a - b);
        break;
    case BINARY_MULTIPLY:
        *r = of_real(a * b);
        break;
    case BINARY_DIVIDE:
        if (b == 0)
            return divided_by_zero(parser);
        *r = of_real(a / b);
        break;
    default:
        if (!compared(op, a<b, a == b, a> b, r))
            return not_an_integer(parser, binary[op].text);
    }
    return SIM_OK;
}

static int is_less(struct sim_value a, struct sim_value b, int is_signed) {
    return is_signed ? (int64_t)a.bits < (int64_t)b.bits : a.bits < b.bits;
}

static uint64_t divided(uint64_t a, uint64_t b, int is_signed) {
    if (!is_signed)
        return a / b;
    return b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b); /* the least / -1 wraps */
}

/* The host's `>>` of a negative number is not defined by C. */
static uint64_t shifted_right(struct sim_value a, unsigned count) {
    const uint64_t fill = a.type == SIM_T_S64 && (int64_t)a.bits < 0 ? ~0ull : 0;
    return count ? a.bits >> count | fill << (64 - count) : a.bits;
}

static enum sim_status of_integers(struct sim_parser *parser, enum operator op, struct sim_value a,
                                   struct sim_value b, struct sim_value *r) {
    const int is_signed = a.type == SIM_T_S64 && b.type == SIM_T_S64;
    *r = (struct sim_value){.type = is_signed ? SIM_T_S64 : SIM_T_U64};
    switch (op) {
    case BINARY_ADD:
        r->bits = a.bits + b.bits;
        break;
    case BINARY_SUBTRACT:
        r->bits = a.bits - b.bits;
        break;
    case BINARY_MULTIPLY:
        r->bits = a.bits * b.bits;
        break;
    case BINARY_DIVIDE:
        if (!b.bits)
            return divided_by_zero(parser);
        r->bits = divided(a.bits, b.bits, is_signed);
        break;
    case BINARY_REMAINDER:
        if (!b.bits)
            return divided_by_zero(parser);
        *r = (struct sim_value){.type = SIM_T_U64, .bits = a.bits % b.bits};
        break;
    case BINARY_AND:
        r->bits = a.bits & b.bits;
        break;
    case BINARY_OR:
        r->bits = a.bits | b.bits;
        break;
    case BINARY_XOR:
        r->bits = a.bits ^ b.bits;
        break;
    case BINARY_SHIFT_LEFT:
        *r = (struct sim_value){.type = a.type, .bits = a.bits << (b.bits & 63)};
        break;
    case BINARY_SHIFT_RIGHT:
        *r = (struct sim_value){.type = a.type, .bits = shifted_right(a, b.bits & 63)};
        break;
    case BINARY_LOGICAL_AND:
        *r = truth(a.bits && b.bits);
        break;
    case BINARY_LOGICAL_OR:
        *r = truth(a.bits || b.bits);
        break;
    default:
        compared(op, is_less(a, b, is_signed), a.bits == b.bits, is_less(b, a, is_signed), r);
        break;
    }
    return SIM_OK;
}

static enum sim_status mixed(struct sim_parser *parser) {
    return sim_parse_fail(parser, SIM_SYNTAX,
                          "an integer and a floating-point number in one constant expression, "
                          "which converts neither; write 1.0 for 1");
}

/* Applies the operator on top of the stack. */
static enum sim_status apply(struct sim_parser *parser, struct expression *e) {
    const enum operator op = e->ops[--e->op_count];
    struct sim_value *top = &e->values[e->value_count - 1];
    if (op > OPEN)
        return unary(parser, op, top);
    const struct sim_value a = top[-1], b = *top;
    if ((a.type == SIM_T_F64) != (b.type == SIM_T_F64))
        return mixed(parser);
    if (op == BINARY_COLON) {
        if (top[-2].type == SIM_T_F64)
            return not_an_integer(parser, "?:");
        e->value_count -= 2;
        top[-2] = top[-2].bits ? a : b;
        return SIM_OK;
    }
    if (op == BINARY_QUESTION)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected ':' after '?'");
    e->value_count--;
    return a.type == SIM_T_F64 ? of_reals(parser, op, real(a), real(b), &top[-1])
                               : of_integers(parser, op, a, b, &top[-1]);
}

/* ---- the text ---- */

/* The binary operator at the current token, or -1; skips the second character of a longer one. */
static int binary_operator(struct sim_parser *parser) {
    if (parser->lexer.token.kind != SIM_TOK_PUNCT)
        return -1;
    char first = (char)parser->lexer.token.bits;
    char second = parser->lexer.at < parser->lexer.end ? *parser->lexer.at : 0;
    for (int i = 0; i < BINARY_COUNT; i++) {
        const char *text = binary[i].text;
        if (text[0] == first && (text[1] == 0 || text[1] == second)) {
            if (text[1])
                parser->lexer.at++;
            return i;
        }
    }
    return -1;
}

static enum sim_status too_deep(struct sim_parser *parser) {
    return sim_parse_fail(parser, SIM_LIMIT, "a constant expression nests deeper than %u",
                          SIM_MAX_NESTING);
}

static enum sim_status push_operator(struct sim_parser *parser, struct expression *e,
                                     enum operator op) {
    if (e->op_count == SIM_MAX_NESTING)
        return too_deep(parser);
    e->ops[e->op_count++] = op;
    return sim_parse_next(parser);
}

/* Returns the type of a literal; NONE if the token is none. */
static enum sim_type literal_type(const struct sim_parser *parser) {
    const struct sim_token *token = &parser->lexer.token;
    if (token->kind == SIM_TOK_INT)
        return token->is_unsigned ? SIM_T_U64 : SIM_T_S64;
    if (token->kind == SIM_TOK_F64)
        return SIM_T_F64;
    return sim_parse_word_is(parser, "WARP_SZ") ? SIM_T_S64 : SIM_T_NONE;
}

/* Parses one value with the signs, casts and parentheses before it. */
static enum sim_status expression_value(struct sim_parser *parser, struct expression *e) {
    enum sim_status status = SIM_OK;
    for (;;) {
        const struct sim_token *token = &parser->lexer.token;
        const enum sim_type type = literal_type(parser);
        if (type) {
            if (e->value_count == SIM_MAX_NESTING)
                return too_deep(parser);
            e->values[e->value_count++] = (struct sim_value){
                .type = type, .bits = token->kind == SIM_TOK_WORD ? SIM_LANES : token->bits};
            return sim_parse_next(parser);
        }
        if (token->kind == SIM_TOK_F32)
            return sim_parse_fail(parser, SIM_SYNTAX,
                                  "a 0f literal in an expression; it may only stand alone");
        const int is_signed = sim_parse_word_is(parser, ".s64");
        if (is_signed || sim_parse_word_is(parser, ".u64")) {
            if (!e->op_count || e->ops[e->op_count - 1] != OPEN)
                return sim_parse_fail(parser, SIM_SYNTAX, "expected a constant");
            e->ops[e->op_count - 1] = is_signed ? UNARY_SIGNED : UNARY_UNSIGNED;
            if ((status = sim_parse_next(parser)) || (status = sim_parse_expect(parser, ')')))
                return status;
            continue;
        }
        const int prefix = sim_parse_is(parser, '-')   ? UNARY_NEGATE
                           : sim_parse_is(parser, '!') ? UNARY_NOT
                           : sim_parse_is(parser, '~') ? UNARY_INVERT
                           : sim_parse_is(parser, '(') ? OPEN
                                                       : 0;
        if (!prefix && !sim_parse_is(parser, '+'))
            return sim_parse_fail(parser, SIM_SYNTAX, "expected a constant before '%.*s'",
                                  shown(token), token->text);
        status = prefix ? push_operator(parser, e, (enum operator)prefix) : sim_parse_next(parser);
        if (status)
            return status;
    }
}

static int level_of(enum operator op) {
    return op == OPEN ? 0 : op > OPEN ? UNARY_LEVEL : binary[op].level;
}

/* Applies what binds tighter than `level`, down to the nearest open parenthesis. */
static enum sim_status reduce(struct sim_parser *parser, struct expression *e, int level) {
    enum sim_status status = SIM_OK;
    while (!status && e->op_count && level_of(e->ops[e->op_count - 1]) >= level)
        status = apply(parser, e);
    return status;
}

static enum sim_status close_parentheses(struct sim_parser *parser, struct expression *e) {
    enum sim_status status = SIM_OK;
    uint32_t open = 0;
    for (uint32_t i = 0; i < e->op_count; i++)
        open += e->ops[i] == OPEN;
    for (; !status && open && sim_parse_is(parser, ')'); open--) {
        if ((status = reduce(parser, e, 1)))
            return status;
        e->op_count--;
        status = sim_parse_next(parser);
    }
    return status;
}

/* The `?` that a `:` belongs to comes to the top of the stack. 0: there is none, so that the colon
 * is not of this expression. */
static enum sim_status find_question(struct sim_parser *parser, struct expression *e, int *found) {
    enum sim_status status = SIM_OK;
    uint32_t open = 0;
    for (uint32_t i = 0; i < e->op_count; i++)
        open = e->ops[i] == OPEN ? 0 : e->ops[i] == BINARY_QUESTION ? open + 1 : open;
    *found = open != 0;
    while (open && !status && e->ops[e->op_count - 1] != BINARY_QUESTION)
        status = apply(parser, e);
    return status;
}

static enum sim_status parse_expression(struct sim_parser *parser, struct sim_value *value) {
    struct expression e;
    e.value_count = e.op_count = 0;
    enum sim_status status;
    for (;;) {
        if ((status = expression_value(parser, &e)) || (status = close_parentheses(parser, &e)))
            return status;
        const struct sim_lexer before = parser->lexer;
        const int op = binary_operator(parser);
        int found = 1;
        if (op < 0)
            break;
        if (op == BINARY_COLON)
            status = find_question(parser, &e, &found);
        else /* `?:` groups to the right, all others to the left */
            status = reduce(parser, &e, binary[op].level + (op == BINARY_QUESTION));
        if (!found) {
            parser->lexer = before;
            break;
        }
        if (!status && op == BINARY_COLON) {
            e.ops[e.op_count - 1] = BINARY_COLON;
            status = sim_parse_next(parser);
        } else if (!status) {
            status = push_operator(parser, &e, (enum operator)op);
        }
        if (status)
            return status;
    }
    if ((status = reduce(parser, &e, 1)))
        return status;
    if (e.op_count)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected ')' in a constant expression");
    *value = e.values[0];
    return SIM_OK;
}

enum sim_status sim_parse_constant(struct sim_parser *parser, uint64_t *bits) {
    struct sim_value value = {0};
    enum sim_status status = parse_expression(parser, &value);
    if (!status && value.type == SIM_T_F64)
        return sim_parse_fail(parser, SIM_SYNTAX, "expected an integer constant");
    *bits = value.bits;
    return status;
}

enum sim_status sim_parse_value(struct sim_parser *parser, struct sim_value *value) {
    const struct sim_lexer before = parser->lexer;
    const int minus = sim_parse_is(parser, '-');
    enum sim_status status = minus ? sim_parse_next(parser) : SIM_OK;
    if (!status && parser->lexer.token.kind == SIM_TOK_F32) {
        *value = (struct sim_value){.type = SIM_T_F32, .bits = parser->lexer.token.bits};
        value->bits ^= minus ? 1ull << 31 : 0;
        return sim_parse_next(parser);
    }
    parser->lexer = before;
    return status ? status : parse_expression(parser, value);
}
