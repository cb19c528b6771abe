/* Threads that share a word of memory byte by byte: one thread's access must not hide another's. */
#define KERNEL extern "C" __global__
typedef unsigned char byte;

/* ---- races ---- */
KERNEL void read_after_two(byte *a, byte *out) {
    if (threadIdx.x == 0)
        a[0] = 1;
    if (threadIdx.x == 33)
        a[1] = 2;
    if (threadIdx.x == 65)
        out[0] = a[0]; // bug
}
KERNEL void write_after_two(byte *a, byte *out) {
    if (threadIdx.x == 0)
        a[0] = 1;
    if (threadIdx.x == 33)
        a[1] = 2;
    if (threadIdx.x == 65)
        a[0] = 3; // bug
}
KERNEL void write_after_readers(byte *a, byte *out) {
    if (threadIdx.x == 0)
        out[0] = a[0];
    if (threadIdx.x == 33)
        out[1] = a[1];
    if (threadIdx.x == 65)
        a[0] = 3; // bug
}
KERNEL void word_over_bytes(byte *a, byte *out) {
    if (threadIdx.x == 0)
        a[2] = 1;
    if (threadIdx.x == 33)
        a[1] = 2;
    if (threadIdx.x == 65)
        *(int *)a = 3; // bug
}
KERNEL void blocks(byte *a, byte *out) {
    if (threadIdx.x)
        return;
    if (blockIdx.x < 2)
        ((short *)a)[blockIdx.x] = 1;
    if (blockIdx.x == 2)
        out[0] = a[1]; // bug
}
KERNEL void overstep(byte *a, byte *out) {
    for (int i = 0; i < 6; i++)
        out[3 * threadIdx.x + i] = a[3 * threadIdx.x + i]; // bug
}
KERNEL void shared_readers(byte *a, byte *out) {
    __shared__ byte s[128];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        out[0] = s[0];
    if (threadIdx.x == 33)
        out[1] = s[1];
    if (threadIdx.x == 65)
        s[0] = 3; // bug
    __syncthreads();
    out[threadIdx.x + 2] = s[threadIdx.x];
}
KERNEL void shared_overstep(byte *a, byte *out) {
    __shared__ byte s[512];
    for (int i = 0; i < 4; i++)
        s[3 * threadIdx.x + i] = a[threadIdx.x]; // bug
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

/* ---- none ---- */
KERNEL void pixels(byte *a, byte *out) {
    for (int c = 0; c < 3; c++)
        out[3 * threadIdx.x + c] = a[3 * threadIdx.x + 2 - c];
    __syncthreads();
    a[threadIdx.x] = out[2 * threadIdx.x] + out[threadIdx.x];
}
KERNEL void interleaved(byte *a, byte *out) { /* four warps share each word */
    __shared__ __align__(4) byte s[128];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = lane * 4 + warp;
    a[i] = s[i] = lane;
    a[i] += s[i] += 1;
    __syncthreads();
    out[threadIdx.x] = ((int *)s)[lane] + ((int *)a)[lane];
    __syncthreads();
    if (warp == 0)
        ((int *)s)[lane] = ((int *)a)[lane] = 1;
    __syncthreads();
    s[i] += 2;
    a[i] += s[i];
}
KERNEL void swapped(byte *a, byte *out) {
    int i = threadIdx.x;
    a[i ^ 1] = i;
    __syncwarp();
    byte kept = a[i ^ 2];
    __syncwarp();
    a[i ^ 3] = kept;
    __syncwarp();
    out[i] = a[i ^ 7];
}
KERNEL void one_of_each_block(byte *a, byte *out) {
    if (threadIdx.x == 0) {
        a[blockIdx.x] += a[128];
        out[blockIdx.x] = a[blockIdx.x];
    }
}
KERNEL void neighbours(byte *a, byte *out) {
    int i = threadIdx.x;
    out[i] = a[i] + a[i + 1] + a[i + 2] + a[0] + ((int *)a)[i / 4];
}
