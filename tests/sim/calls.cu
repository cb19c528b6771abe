// calls.cu: virtual functions, tables of functions, and memory that kernels allocate.
struct Shape {
    __device__ virtual float area(float x) const = 0;
    __device__ virtual int id() const { return 7; }
};
struct Square : Shape {
    float k;
    __device__ Square(float k) : k(k) {}
    __device__ float area(float x) const override { return k * x * x; }
};
struct Circle : Shape {
    __device__ float area(float x) const override { return 3 * x; }
    __device__ int id() const override { return 9; }
};
__device__ int twice(int x) { return 2 * x; }
__device__ int cube(int x) { return x * x * x; }
typedef int (*function)(int);
__device__ function table[3] = {twice, cube, nullptr};
struct Record {
    char c;
    int *p;
    short q;
    function f;
};
__device__ int numbers[4] = {1, 2, 3, 4};
__device__ Record record = {'a', numbers + 2, 5, twice};

// Lanes of a warp call different functions, and some none.
extern "C" __global__ void calls(float *o, int *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Square square(2);
    Circle circle;
    Shape *shape = i % 3 ? (Shape *)&square : (Shape *)&circle;
    if (i < n) {
        o[i] = shape->area((float)i);
        p[i] = shape->id() + table[i & 1](i) + record.f(record.p[0] + record.q);
    }
}

extern "C" __global__ void null_call(int *p) { p[threadIdx.x] = table[threadIdx.x + 2](1); }

extern "C" __global__ void list(int *o, int n) {
    struct Node {
        int value;
        Node *next;
    } *head = nullptr;
    for (int k = 0; k < n; k++) {
        Node *node = (Node *)malloc(sizeof(Node));
        node->value = threadIdx.x + k;
        node->next = head;
        head = node;
    }
    int sum = 0;
    while (head) {
        Node *next = head->next;
        sum += head->value;
        free(head);
        head = next;
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void none(int *o) { o[threadIdx.x] = malloc(9 << 20) == nullptr; }

extern "C" __global__ void twice_freed(int *o) {
    int *p = (int *)malloc(4);
    free(p);
    free(p);
}

extern "C" __global__ void unwritten(int *o) {
    int *p = (int *)malloc(4);
    o[0] = p[0];
}

// buffer: o f32 70 zero
// buffer: p s32 70 zero
// buffer: q s32 128 zero
// launch: calls 3 32 0 o p s32:70
// expect: o[0] 0 2 8 9 32 50 18
// expect: p[0] 25 24 27 52 31 148 37
// expect: o[66] 198
// launch: list 2 64 0 q s32:10
// expect: q[0] 45 55 65
// expect: q[127] 675
// launch: list 2 64 0 q s32:20
// expect: q[63] 1450
// launch: none 1 2 0 q
// expect: q[0] 1 1
// launch: null_call 1 1 0 p
// finding: BAD_CALL calls.cu:40
// launch: twice_freed 1 1 0 p
// finding: USE_AFTER_FREE calls.cu:68
// launch: unwritten 1 1 0 p
// finding: UNINITIALISED calls.cu:73
