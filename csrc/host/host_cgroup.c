/* host_cgroup.c: walks a process's cgroups. Each group limits those within it, so that the least
 * limit on the way to the root holds.
 */
#include "host_cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 + 64 };

long long host_cgroup_number(const char *folder, const char *name, long long *second) {
    char path[PATH_BYTES + 64], line[64] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char *end = line;
    if (!fgets(line, sizeof line, file))
        *line = 0;
    fclose(file);
    const long long first = strtoll(line, &end, 10);
    if (second)
        *second = strtoll(end, NULL, 10);
    return end > line && first > 0 ? first : 0;
}

/* A container may see its own group as the root, whatever the path says: a missing folder is no
 * reason to stop. */
static long long least_along(const char *mount, const char *group, int version,
                             long long (*at)(const char *folder, int version)) {
    char folder[PATH_BYTES];
    long long least = LLONG_MAX;
    const char *below = strcmp(group, "/") ? group : ""; /* the root is the mount itself */
    if (snprintf(folder, sizeof folder, "%s%s", mount, below) >= (int)sizeof folder)
        return least;
    for (size_t length = strlen(folder);; folder[length] = 0) {
        const long long found = at(folder, version);
        least = found < least ? found : least;
        while (length > strlen(mount) && folder[length - 1] != '/')
            length--;
        if (length <= strlen(mount))
            return least;
        length--;
    }
}

static bool has_controller(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

long long host_cgroup_least(const char *cgroup_file, const char *mount, const char *controller,
                            long long (*at)(const char *folder, int version)) {
    char line[PATH_BYTES], version_1[PATH_BYTES];
    long long least = LLONG_MAX;
    FILE *file = fopen(cgroup_file, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        char *controllers = strchr(line, ':'), *group;
        if (!controllers || !(group = strchr(controllers + 1, ':')))
            continue;
        *controllers++ = *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const bool unified = !*controllers;
        if (!unified && !has_controller(controllers, controller))
            continue;
        long long found;
        if (unified) {
            found = least_along(mount, group, 2, at);
        } else {
            snprintf(version_1, sizeof version_1, "%s/%s", mount, controllers);
            found = least_along(version_1, group, 1, at);
            least = found < least ? found : least;
            /* a controller of two names has a link */
            snprintf(version_1, sizeof version_1, "%s/%s", mount, controller);
            if (strcmp(controllers, controller) != 0)
                found = least_along(version_1, group, 1, at);
        }
        least = found < least ? found : least;
    }
    if (file)
        fclose(file);
    return least;
}
