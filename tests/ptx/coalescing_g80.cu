// gpu: g80
// CC 1.x per half-warp: aligned, in order, offset by one float, and permuted inside the segment.
// buffer: in f32 4096 iota
// buffer: out f32 4096 zero
// launch: copy 1 256 0 in out s32:0 s32:0
// counter: global_transactions 32
// counter: global_bytes_moved 2048
// counter: global_load_transactions 16
// counter: global_load_bytes_moved 1024
// counter: global_store_transactions 16
// counter: global_store_bytes_moved 1024
// launch: copy 1 256 0 in out s32:1 s32:0
// counter: global_transactions 512
// counter: global_load_bytes_moved 8192
// launch: copy 1 256 0 in out s32:0 s32:1
// counter: global_transactions 512
extern "C" __global__ void copy(const float *in, float *out, int offset, int permute) {
    int i = (threadIdx.x ^ permute) + offset;
    out[i] = in[i];
}
