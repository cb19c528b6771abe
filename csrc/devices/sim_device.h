/* sim_device.h: the simulated GPU behind the contract of device.h; with sim_record.h the only place
 * where the library sim/ meets the rest of gpuopt.
 */
#ifndef GPUOPT_SIM_DEVICE_H
#define GPUOPT_SIM_DEVICE_H

#include "../device.h"

extern const struct device_ops sim_device_ops;

/* Writes the names of the simulated GPUs, quoted: "'sim:g80', 'sim:gt200'". */
void sim_device_names(char *list, size_t size);

/* Totals of this process. */
enum sim_traffic {
    SIM_ALLOCATIONS,
    SIM_BYTES_IN,
    SIM_COPIES_IN,
    SIM_BYTES_OUT,
    SIM_COPIES_OUT,
    SIM_TRAFFIC
};
void sim_device_traffic(uint64_t totals[SIM_TRAFFIC]);

/* Number of allocations and textures, and bytes of the allocations, not freed when a queue of this
 * process was closed: a defect of the program, since queues outlive their objects. */
void sim_device_leaks(uint64_t *count, uint64_t *bytes);

/* For devices_ptx_entries. */
enum status sim_device_ptx_entries(const char *ptx, size_t bytes, device_entry_function *found,
                                   void *state);

#endif
