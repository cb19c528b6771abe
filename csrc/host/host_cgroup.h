/* host_cgroup.h: the limits of the cgroups that this process belongs to, versions 1 and 2. */
#ifndef GPUOPT_HOST_CGROUP_H
#define GPUOPT_HOST_CGROUP_H

/* The positive number that a file of a folder begins with; 0 where it begins with none ("max",
 * -1). `second` (may be NULL) receives the number after it. */
long long host_cgroup_number(const char *folder, const char *name, long long *second);

/* The least answer of `at` for the folders of the cgroups in a file like /proc/self/cgroup and of
 * all above them, as /sys/fs/cgroup has them; LLONG_MAX: there is none. */
long long host_cgroup_least(const char *cgroup_file, const char *mount, const char *controller,
                            long long (*at)(const char *folder, int version));

#endif
