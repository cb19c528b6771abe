/* sim_symbols.c: finds a loaded module's variables, functions and source files by name or number.
 * Parses nothing.
 */
#include "sim_internal.h"

#include <string.h>

struct sim_symbol *sim_module_variable(const struct sim_module *module, const char *name,
                                       size_t length) {
    uint32_t hash = sim_hash(name, length);
    for (struct sim_symbol *s = module->globals[hash % module->global_table]; s; s = s->chain)
        if (s->hash == hash && s->name.length == length && memcmp(s->name.text, name, length) == 0)
            return s;
    return NULL;
}

struct sim_function *sim_module_function(const struct sim_module *module, const char *name,
                                         size_t length) {
    if (!module->table_size)
        return NULL;
    for (uint32_t i = sim_hash(name, length) % module->table_size; module->by_name[i];
         i = (i + 1) % module->table_size) {
        struct sim_function *f = module->by_name[i];
        if (f->name.length == length && memcmp(f->name.text, name, length) == 0)
            return f;
    }
    return NULL;
}

const char *sim_module_file(const struct sim_module *module, unsigned number, int *system) {
    *system = 0;
    for (uint32_t i = 0; i < module->file_count; i++) {
        if (module->files[i].number == number) {
            *system = module->files[i].system;
            return module->files[i].path;
        }
    }
    return NULL;
}
