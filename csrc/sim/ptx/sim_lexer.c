/* sim_lexer.c: splits PTX text into tokens, one at a time. Never allocates, never reads at or past
 * `end`, knows no grammar.
 */
#include "sim_parser.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C_SPACE = 1, C_WORD0 = 2, C_WORD = 4, C_DIGIT = 8, C_HEX = 16 };

static unsigned classify(char ch) {
    unsigned char c = (unsigned char)ch;
    if (c >= '0' && c <= '9')
        return C_WORD | C_DIGIT | C_HEX;
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return C_WORD0 | C_WORD | C_HEX;
    if ((c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') || c == '_' || c == '$' || c == '%')
        return C_WORD0 | C_WORD;
    if (c == '.')
        return C_WORD0 | C_WORD;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v')
        return C_SPACE;
    return 0;
}

void sim_lexer_start(struct sim_lexer *lexer, const char *text, const char *end, unsigned line) {
    memset(lexer, 0, sizeof *lexer);
    lexer->at = lexer->line_start = text;
    lexer->end = end;
    lexer->line = line;
}

static void bad(struct sim_lexer *lexer, const char *problem) {
    lexer->token.kind = SIM_TOK_BAD;
    lexer->problem = problem;
}

/* Skips white space and comments. Returns 0 when a comment never ends. */
static int skip_blank(struct sim_lexer *lexer) {
    const char *p = lexer->at, *end = lexer->end;
    while (p < end) {
        if (*p == '\n') {
            p++;
            lexer->line++;
            lexer->line_start = p;
        } else if (classify(*p) & C_SPACE) {
            p++;
        } else if ((*p == '/' && end - p > 1 && p[1] == '/') ||
                   (*p == '#' && p == lexer->line_start)) { /* a line marker: # 1 "file" */
            while (p < end && *p != '\n')
                p++;
        } else if (*p == '/' && end - p > 1 && p[1] == '*') {
            for (p += 2; end - p > 1 && !(p[0] == '*' && p[1] == '/'); p++) {
                if (*p == '\n') {
                    lexer->line++;
                    lexer->line_start = p + 1;
                }
            }
            if (end - p < 2) {
                lexer->at = end;
                return 0;
            }
            p += 2;
        } else {
            break;
        }
    }
    lexer->at = p;
    return 1;
}

static unsigned hex_value(char c) {
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
}

/* 0f and 0d followed by 8 or 16 hexadecimal digits: the bits of a float. */
static void hex_float(struct sim_lexer *lexer, const char *p, unsigned digits) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < digits; i++) {
        if (p >= lexer->end || !(classify(*p) & C_HEX)) {
            lexer->at = p;
            bad(lexer, digits == 8 ? "a 0f literal needs 8 hexadecimal digits"
                                   : "a 0d literal needs 16 hexadecimal digits");
            return;
        }
        bits = bits << 4 | hex_value(*p++);
    }
    lexer->at = p;
    lexer->token.kind = digits == 8 ? SIM_TOK_F32 : SIM_TOK_F64;
    lexer->token.bits = bits;
}

/* Reads a decimal exponent, bounded beyond any effect; returns its end, NULL without digits. */
static const char *exponent(const char *p, const char *end, int64_t *value) {
    enum { MOST = 1000000000 };
    const int negative = p < end && *p == '-';
    int64_t magnitude = 0;
    p += p < end && (*p == '-' || *p == '+');
    const char *digits = p;
    for (; p < end && (classify(*p) & C_DIGIT); p++)
        magnitude = magnitude < MOST ? magnitude * 10 + (*p - '0') : magnitude;
    *value = negative ? -magnitude : magnitude;
    return p > digits ? p : NULL;
}

/* A decimal float, correctly rounded: strtod() rounds digits and an exponent without a point, which
 * no locale reads differently. A 1 replaces the digits beyond those kept unless all are 0: no
 * midpoint of two doubles has more than 767 digits. */
static void decimal_float(struct sim_lexer *lexer, const char *p) {
    enum { DIGITS = 800 };
    char digits[DIGITS + 32];
    int length = 0, point = 0, dropped = 0;
    int64_t shift = 0, scale = 0; /* powers of 10 */
    for (; p < lexer->end && ((classify(*p) & C_DIGIT) || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = 1;
            continue;
        }
        shift -= point;
        if (!length && *p == '0')
            continue;
        if (length < DIGITS) {
            digits[length++] = *p;
        } else {
            dropped |= *p != '0';
            shift++;
        }
    }
    if (p < lexer->end && (*p | 32) == 'e' && !(p = exponent(p + 1, lexer->end, &scale))) {
        bad(lexer, "an exponent without digits");
        return;
    }
    lexer->at = p;
    lexer->token.kind = SIM_TOK_F64;
    if (p < lexer->end && (classify(*p) & C_WORD) && *p != '%')
        bad(lexer, "a malformed number");
    if (!length)
        return; /* zero */
    shift += scale;
    if (dropped) {
        digits[length++] = '1';
        shift--;
    }
    shift = shift > INT32_MAX ? INT32_MAX : shift < -INT32_MAX ? -INT32_MAX : shift;
    snprintf(digits + length, sizeof digits - (size_t)length, "e%d", (int)shift);
    const double value = strtod(digits, NULL);
    if (isinf(value))
        bad(lexer, "a floating-point literal larger than any double");
    memcpy(&lexer->token.bits, &value, sizeof value);
}

/* The digits of an integer in a base. */
static void integer(struct sim_lexer *lexer, const char *p, unsigned base) {
    const char *end = lexer->end, *digits = p;
    uint64_t value = 0;
    int overflow = 0;
    for (; p < end && (classify(*p) & C_HEX) && hex_value(*p) < base; p++) {
        const unsigned digit = hex_value(*p);
        overflow |= value > (UINT64_MAX - digit) / base;
        value = value * base + digit;
    }
    lexer->at = p;
    if (p == digits) {
        bad(lexer, "a number without digits");
        return;
    }
    lexer->token.is_unsigned = value > INT64_MAX || (p < end && *p == 'U');
    p += p < end && *p == 'U';
    lexer->at = p;
    lexer->token.kind = SIM_TOK_INT;
    lexer->token.bits = value;
    if (overflow)
        bad(lexer, "an integer literal that does not fit 64 bits");
    else if (base == 8 && p < end && (classify(*p) & C_DIGIT))
        bad(lexer, "a digit that octal does not have: numbers that begin with 0 are octal");
    else if (p < end && (classify(*p) & C_WORD) && *p != '.' && *p != '%')
        bad(lexer, "a malformed number");
}

static void number(struct sim_lexer *lexer) {
    const char *p = lexer->at, *end = lexer->end;
    const char second = end - p > 1 ? (char)(p[1] | 32) : 0;
    if (*p == '0' && (second == 'f' || second == 'd')) {
        hex_float(lexer, p + 2, second == 'f' ? 8 : 16);
        return;
    }
    if (*p == '0' && (second == 'x' || second == 'b')) {
        integer(lexer, p + 2, second == 'x' ? 16 : 2);
        return;
    }
    const char *after = p;
    while (after < end && (classify(*after) & C_DIGIT))
        after++;
    /* 8.b8 is a number and a directive. */
    const int directive = end - after > 1 && *after == '.' && (after[1] | 32) != 'e' &&
                          (classify(after[1]) & (C_WORD0 | C_DIGIT)) == C_WORD0;
    if (after < end && !directive && (*after == '.' || (*after | 32) == 'e'))
        decimal_float(lexer, p);
    else
        integer(lexer, p, *p == '0' ? 8 : 10);
}

static void word(struct sim_lexer *lexer) {
    const char *p = lexer->at, *end = lexer->end;
    int directive = *p == '.'; /* .reg.b32 is two words, ld.global.b32 is one */
    for (p++;;) {
        while (p < end && (classify(*p) & C_WORD) && !(directive && *p == '.'))
            p++;
        /* shared::cluster is one word; a label's colon is no part of it */
        if (end - p > 2 && p[0] == ':' && p[1] == ':' && (classify(p[2]) & C_WORD))
            p += 2;
        else
            break;
    }
    lexer->token.kind = SIM_TOK_WORD;
    lexer->at = p;
}

static void string(struct sim_lexer *lexer) {
    const char *p = lexer->at + 1;
    while (p < lexer->end && *p != '"' && *p != '\n')
        p += *p == '\\' && lexer->end - p > 1 ? 2 : 1;
    if (p >= lexer->end || *p != '"') {
        lexer->at = p < lexer->end ? p : lexer->end;
        bad(lexer, "a string that never ends");
        return;
    }
    lexer->at = p + 1;
    lexer->token.kind = SIM_TOK_STRING;
}

void sim_lexer_next(struct sim_lexer *lexer) {
    struct sim_token *token = &lexer->token;
    int complete = skip_blank(lexer);
    memset(token, 0, sizeof *token);
    token->line = lexer->line;
    token->column = (unsigned)(lexer->at - lexer->line_start) + 1;
    token->text = lexer->at;
    if (!complete) {
        bad(lexer, "a comment that never ends");
    } else if (lexer->at >= lexer->end) {
        token->kind = SIM_TOK_END;
    } else {
        unsigned class = classify(*lexer->at);
        const char *next = lexer->at + 1 < lexer->end ? lexer->at + 1 : "";
        if (class & C_DIGIT) {
            number(lexer);
        } else if (*lexer->at == '.' && (classify(*next) & C_DIGIT)) {
            decimal_float(lexer, lexer->at);
        } else if (class & C_WORD0 &&
                   (*lexer->at != '%' || classify(*next) & (C_WORD0 | C_DIGIT))) {
            word(lexer);
        } else if (*lexer->at == '"') {
            string(lexer);
        } else {
            token->kind = SIM_TOK_PUNCT;
            token->bits = (unsigned char)*lexer->at++;
            if (token->bits < 32 || token->bits > 126)
                bad(lexer, "a character that PTX does not have");
        }
    }
    token->length = (uint32_t)(lexer->at - token->text);
}

int sim_lexer_skip_body(struct sim_lexer *lexer) {
    const char *p = lexer->at, *end = lexer->end;
    uint64_t depth = 1;
    for (; p < end; p++) {
        switch (*p) {
        case '\n':
            lexer->line++;
            lexer->line_start = p + 1;
            break;
        case '{':
            depth++;
            break;
        case '}':
            if (--depth == 0) {
                lexer->at = p + 1;
                return 1;
            }
            break;
        case '"':
        case '/':
            lexer->at = p;
            if (*p == '"') {
                struct sim_token kept = lexer->token;
                string(lexer);
                int ended = lexer->token.kind == SIM_TOK_STRING;
                lexer->token = kept;
                if (!ended)
                    return 0;
                p = lexer->at - 1;
            } else if (end - p > 1 && (p[1] == '/' || p[1] == '*')) {
                if (!skip_blank(lexer))
                    return 0;
                p = lexer->at - 1;
            }
            break;
        default:
            break;
        }
    }
    lexer->at = end;
    return 0;
}
