/* py_dlpack.h: DLPack's structs, of its versions 1.x
 * (https://dmlc.github.io/dlpack/latest/c_api.html), for py_dlpack.c and py_exchange.c.
 */
#ifndef GPUOPT_PY_DLPACK_H
#define GPUOPT_PY_DLPACK_H

#include <stdint.h>

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in items; NULL: C order */
    uint64_t byte_offset;
};

enum { DL_MAJOR = 1, DL_DIMENSIONS_MAX = 64 };

#endif
