/* fake_nccl.c: a libnccl without GPUs, for the tests of what other ranks can do to a caller.
 *
 * Messages are files in FAKE_NCCL_FOLDER, best in shared memory: ranks are threads or processes.
 * Memory is the host's, as fake_cuda.c has it, and a group ends when its messages have arrived or
 * the communicator is aborted. FAKE_NCCL names a fault and a rank, as "die 1":
 *
 * - "die": the process ends at its first group;
 * - "mute": sends nothing; "short": sends half of its bytes;
 * - "fault": its communicator reports a remote error;
 * - "absent": never joins a communicator; "refuse": fails to join it;
 * - "old": the library is version 2.10.
 *
 * fake_nccl_get("live"): communicators that nobody has aborted; "groups": those that ended well.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int result;
enum { OK, SYSTEM = 2, ARGUMENT = 4, USAGE = 5, REMOTE = 6, IN_PROGRESS = 7 };
enum { RANKS = 16, MESSAGES = 4096 };

struct id {
    char folder[128];
};
struct config {
    size_t size;
    unsigned magic;
    int version, blocking;
};
struct comm {
    struct id id;
    int rank, size, joins;
    atomic_int aborted;
    long sent[RANKS], received[RANKS];
};
struct message {
    struct comm *comm;
    char *address;
    size_t bytes;
    int peer, sends, done;
    long number; /* among those of its peer */
};

static atomic_long live, groups, ids;
static __thread struct message messages[MESSAGES];
static __thread int count, depth;

long fake_nccl_get(const char *what) { return !strcmp(what, "live") ? live : groups; }

static int has_fault(const char *name, int rank) {
    const char *given = getenv("FAKE_NCCL");
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%s %d", name, rank);
    return given && !strcmp(given, wanted);
}

result ncclGetVersion(int *version) {
    *version = getenv("FAKE_NCCL") && !strcmp(getenv("FAKE_NCCL"), "old") ? 21003 : 22800;
    return OK;
}
const char *ncclGetErrorString(result code) {
    return code == USAGE    ? "invalid usage"
           : code == REMOTE ? "remote process exited or there was a network error"
           : code == SYSTEM ? "unhandled system error"
                            : "made by the test";
}
result ncclGetUniqueId(struct id *id) {
    memset(id, 0, sizeof *id);
    snprintf(id->folder, sizeof id->folder, "%s/fake_nccl.%d.%ld", getenv("FAKE_NCCL_FOLDER"),
             (int)getpid(), (long)atomic_fetch_add(&ids, 1));
    return mkdir(id->folder, 0700) ? SYSTEM : OK;
}

static void name_of(char *name, size_t room, const struct comm *comm, const char *what, int from,
                    int to, long number) {
    snprintf(name, room, "%s/%s.%d.%d.%ld", comm->id.folder, what, from, to, number);
}

static struct comm *open_comm(struct id id, int rank, int size) {
    struct comm *comm = calloc(1, sizeof *comm);
    comm->id = id;
    comm->rank = rank;
    comm->size = size;
    live++;
    return comm;
}

result ncclCommInitAll(struct comm **made, int size, const int *devices) {
    struct id id;
    for (int i = 0; i < size; i++)
        for (int k = 0; k < i; k++)
            if (devices[i] == devices[k])
                return USAGE; /* a GPU has one rank */
    if (size > RANKS || ncclGetUniqueId(&id))
        return SYSTEM;
    for (int rank = 0; rank < size; rank++)
        made[rank] = open_comm(id, rank, size);
    return OK;
}

result ncclCommInitRankConfig(struct comm **made, int size, struct id id, int rank,
                              const struct config *config) {
    char name[256];
    if (config->magic != 0xcafebeef || config->size != sizeof *config || config->blocking ||
        rank >= size || size > RANKS)
        return ARGUMENT;
    if (has_fault("refuse", rank))
        return USAGE;
    *made = open_comm(id, rank, size);
    (*made)->joins = 1;
    name_of(name, sizeof name, *made, "join", rank, rank, 0);
    if (!has_fault("absent", rank)) {
        FILE *file = fopen(name, "w");
        if (!file)
            return SYSTEM;
        fclose(file);
    }
    return IN_PROGRESS;
}

result ncclCommGetAsyncError(struct comm *comm, int *code) {
    char name[256];
    *code = comm->aborted ? SYSTEM : has_fault("fault", comm->rank) ? REMOTE : OK;
    for (int rank = 0; comm->joins && rank < comm->size && !*code; rank++) {
        name_of(name, sizeof name, comm, "join", rank, rank, 0);
        if (access(name, F_OK))
            *code = IN_PROGRESS;
    }
    return OK;
}

/* Its memory stays: another thread may be in a call. */
result ncclCommAbort(struct comm *comm) {
    live -= !atomic_exchange(&comm->aborted, 1);
    return OK;
}

static result push(struct comm *comm, void *address, size_t bytes, int type, int peer, void *stream,
                   int sends) {
    if (type != 1 || peer < 0 || peer >= comm->size || !depth || stream != (void *)1)
        return ARGUMENT;
    if (count == MESSAGES)
        return SYSTEM;
    messages[count++] = (struct message){comm, address, bytes, peer, sends, 0, 0};
    return OK;
}
result ncclSend(void *from, size_t bytes, int type, int peer, struct comm *comm, void *stream) {
    return push(comm, from, bytes, type, peer, stream, 1);
}
result ncclRecv(void *to, size_t bytes, int type, int peer, struct comm *comm, void *stream) {
    return push(comm, to, bytes, type, peer, stream, 0);
}

/* A file appears whole, under its final name. */
static result deliver(struct message *message) {
    char name[256], final[256];
    struct comm *comm = message->comm;
    const size_t bytes = has_fault("short", comm->rank) ? message->bytes / 2 : message->bytes;
    const long number = comm->sent[message->peer]++;
    if (has_fault("mute", comm->rank))
        return OK;
    name_of(name, sizeof name, comm, "part", comm->rank, message->peer, number);
    name_of(final, sizeof final, comm, "data", comm->rank, message->peer, number);
    FILE *file = fopen(name, "wb");
    if (!file)
        return SYSTEM;
    const int whole = fwrite(message->address, 1, bytes, file) == bytes;
    return fclose(file) || !whole || rename(name, final) ? SYSTEM : OK;
}

/* IN_PROGRESS: the message has not come. */
static result receive(struct message *message) {
    char name[256];
    struct stat found;
    struct comm *comm = message->comm;
    name_of(name, sizeof name, comm, "data", message->peer, comm->rank, message->number);
    if (access(name, F_OK))
        return comm->aborted ? SYSTEM : IN_PROGRESS;
    FILE *file = fopen(name, "rb");
    if (!file || stat(name, &found))
        return SYSTEM;
    const size_t bytes = fread(message->address, 1, message->bytes, file);
    fclose(file);
    unlink(name);
    return bytes == message->bytes && (size_t)found.st_size == bytes ? OK : USAGE;
}

/* Messages arrive in any order, also while another one is waited for. */
static result receive_all(void) {
    for (int left = count; left > 0; usleep(500)) {
        left = 0;
        for (int i = 0; i < count; i++) {
            if (messages[i].sends || messages[i].done)
                continue;
            const result code = receive(&messages[i]);
            messages[i].done = code == OK;
            left += code == IN_PROGRESS;
            if (code && code != IN_PROGRESS)
                return code;
        }
    }
    return OK;
}

result ncclGroupStart(void) {
    depth++;
    return OK;
}
result ncclGroupEnd(void) {
    result code = OK;
    if (--depth)
        return OK;
    for (int i = 0; i < count && !code; i++) {
        struct message *message = &messages[i];
        if (has_fault("die", message->comm->rank))
            _exit(3);
        if (message->sends)
            code = deliver(message);
        else
            message->number = message->comm->received[message->peer]++;
    }
    code = code ? code : receive_all();
    count = 0;
    groups += !code;
    return code;
}
