/* demangle.h: names of C++ functions as programmers write them, by the C++ runtime, if loaded. */
#ifndef GPUOPT_DEMANGLE_H
#define GPUOPT_DEMANGLE_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { DEMANGLE_NAME_MOST = 4096, DEMANGLE_REFERENCES_MOST = 40 };

/* References to earlier parts of a name double its length in the worst case. */
static inline int demangle_is_safe(const char *name) {
    const size_t length = strlen(name);
    int references = 0;
    for (size_t i = 0; i + 1 < length; i++)
        references += (name[i] == 'S' || name[i] == 'T') &&
                      (name[i + 1] == '_' || (name[i + 1] >= '0' && name[i + 1] <= '9'));
    return length > 2 && name[0] == '_' && name[1] == 'Z' && length <= DEMANGLE_NAME_MOST &&
           references <= DEMANGLE_REFERENCES_MOST;
}

/* Writes the demangled name, or the name itself where it is none; cuts it to `bytes`. */
static inline const char *demangle(const char *name, char *to, size_t bytes) {
    typedef char *(*demangle_function)(const char *, char *, size_t *, int *);
    void *const runtime = demangle_is_safe(name) ? dlopen("libstdc++.so.6", RTLD_LAZY) : NULL;
    void *const symbol = runtime ? dlsym(runtime, "__cxa_demangle") : NULL;
    demangle_function function = NULL;
    int failed = -1;
    memcpy(&function, &symbol, sizeof function); /* ISO C has no such cast */
    char *made = function ? function(name, NULL, NULL, &failed) : NULL;
    const char *from = made && !failed ? made : name;
    const size_t length = strlen(from) < bytes ? strlen(from) : bytes - 1;
    memcpy(to, from, length);
    to[length] = 0;
    free(made);
    if (runtime)
        dlclose(runtime);
    return to;
}

/* The same without result, parameters and unnamed namespaces: `ns::scale<float>`. */
static inline const char *demangle_short(const char *name, char *to, size_t bytes) {
    static const char unnamed[] = "(anonymous namespace)::";
    char full[DEMANGLE_NAME_MOST], *from = full;
    demangle(name, full, sizeof full);
    for (char *found; (found = strstr(full, unnamed)) != NULL;)
        memmove(found, found + sizeof unnamed - 1, strlen(found + sizeof unnamed - 1) + 1);
    if (strncmp(from, "void ", 5) == 0)
        from += 5;
    size_t length = strlen(from);
    int depth = 0;
    for (size_t i = length; i-- > 0 && from[length - 1] == ')';) {
        depth += (from[i] == ')') - (from[i] == '(');
        if (!depth) {
            length = i;
            break;
        }
    }
    length = length < bytes ? length : bytes - 1;
    memcpy(to, from, length);
    to[length] = 0;
    return to;
}

#endif
