/* cuda_texture.c: texture objects over linear memory and arrays. Invariant: an array lives as long
 * as its texture object. Knows no kernel.
 */
#include "cuda_queue.h"

#include <stdlib.h>

/* Checks the GPU's limits and names them: the driver only reports "invalid value". */
static enum status check_size(const struct gpu *gpu, const struct device_texture *texture) {
    static const CUdevice_attribute attributes[4][3] = {
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
         CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH},
    };
    const unsigned asked[3] = {texture->width, texture->height, texture->depth};
    int most[3] = {1, 1, 1};
    enum status status = STATUS_OK;
    bool fits = true;
    for (int i = 0; i < 3 && !status; i++) {
        const CUdevice_attribute attribute = attributes[texture->dimensions][i];
        if (attribute)
            status = cuda_check(cuda.cuDeviceGetAttribute(&most[i], attribute, gpu->device),
                                "cuDeviceGetAttribute");
        fits &= asked[i] <= (unsigned)most[i];
    }
    if (!status && !fits)
        return status_fail(STATUS_BAD_VALUE,
                           "cuda:%d: a texture of %u x %u x %u texels is larger than the GPU's "
                           "%d x %d x %d",
                           gpu->ordinal, asked[0], asked[1], asked[2], most[0], most[1], most[2]);
    return status;
}

enum {
    FORMAT_FLOAT32 = CU_AD_FORMAT_FLOAT,
    FORMAT_INT32 = CU_AD_FORMAT_SIGNED_INT32,
    FORMAT_UINT32 = CU_AD_FORMAT_UNSIGNED_INT32,
    FORMAT_UINT8_NORMALISED = CU_AD_FORMAT_UNSIGNED_INT8,
};
static const CUarray_format formats[TEXEL_COUNT] = {
#define TEXEL(name, bytes) [TEXEL_##name] = (CUarray_format)FORMAT_##name,
    DEVICE_TEXELS(TEXEL)
#undef TEXEL
};

static enum status array_open(struct queue *queue, const struct device_texture *texture,
                              CUarray *array) {
    const CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = texture->width,
        .Height = texture->dimensions > 1 ? texture->height : 0,
        .Depth = texture->dimensions > 2 ? texture->depth : 0,
        .Format = formats[texture->texel],
        .NumChannels = texture->channels,
    };
    const size_t bytes = device_texture_bytes(texture);
    *array = NULL;
    enum status status = cuda_check_memory(queue->gpu, cuda.cuArray3DCreate(array, &shape), bytes,
                                           "cuArray3DCreate");
    if (status)
        return status;
    const size_t row = bytes / texture->height / texture->depth;
    const CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = texture->data,
        .srcPitch = row,
        .srcHeight = texture->height,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
        .dstArray = *array,
        .WidthInBytes = row,
        .Height = texture->height,
        .Depth = texture->depth,
    };
    return cuda_check(cuda.cuMemcpy3DAsync(&copy, queue->stream), "cuMemcpy3DAsync");
}

static enum status object_open(const struct device_texture *texture, struct texture *made) {
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    if (made->array) {
        resource.res.array.hArray = made->array;
    } else {
        resource.resType = CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear.devPtr = texture->data;
        resource.res.linear.format = formats[texture->texel];
        resource.res.linear.numChannels = texture->channels;
        resource.res.linear.sizeInBytes = device_texture_bytes(texture);
    }
    const CUaddress_mode outside =
        texture->wrap ? CU_TR_ADDRESS_MODE_WRAP : CU_TR_ADDRESS_MODE_CLAMP;
    CUDA_TEXTURE_DESC sampling = {
        .addressMode = {outside, outside, outside},
        .filterMode = texture->linear_filter ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT,
        .flags = texture->normalised ? CU_TRSF_NORMALIZED_COORDINATES : 0,
    };
    if (texture->texel == TEXEL_INT32 || texture->texel == TEXEL_UINT32)
        sampling.flags |= CU_TRSF_READ_AS_INTEGER;
    return cuda_check(cuda.cuTexObjectCreate(&made->object, &resource, &sampling, NULL),
                      "cuTexObjectCreate");
}

void cuda_texture_end(struct texture **at) {
    struct texture *texture = *at;
    *at = texture->next;
    if (texture->object)
        cuda.cuTexObjectDestroy(texture->object);
    if (texture->array)
        cuda.cuArrayDestroy(texture->array);
    free(texture);
}

enum status cuda_texture_open(struct device *device, const struct device_texture *texture,
                              uint64_t *handle) {
    struct queue *queue = queue_of(device);
    *handle = 0;
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    struct texture *made = malloc(sizeof *made);
    if (!made)
        return cuda_leave(queue->gpu,
                          status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a texture"));
    *made = (struct texture){.next = queue->textures};
    queue->textures = made;
    status = check_size(queue->gpu, texture);
    if (!status && texture->dimensions)
        status = array_open(queue, texture, &made->array);
    if (!status)
        status = object_open(texture, made);
    if (status) {
        cuda.cuStreamSynchronize(queue->stream); /* copies of rows may be in flight */
        cuda_texture_end(&queue->textures);
    } else {
        *handle = made->object;
    }
    return cuda_leave(queue->gpu, status);
}

void cuda_texture_close(struct device *device, uint64_t handle) {
    struct queue *queue = queue_of(device);
    struct texture **at = &queue->textures;
    while (*at && (*at)->object != handle)
        at = &(*at)->next;
    if (!*at || cuda_enter(queue->gpu))
        return;                              /* a lost context has destroyed everything */
    cuda.cuStreamSynchronize(queue->stream); /* a kernel may still read it */
    cuda_texture_end(at);
    cuda_leave(queue->gpu, STATUS_OK);
}
