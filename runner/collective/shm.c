#include "runner/collective/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SHORT_BYTES = 4096, LINE_BYTES = 64, PIECES_MAX = 64 };

/* Messages from one process to one other. The sender's and the receiver's words lie in separate
 * cache lines. */
struct box {
    _Alignas(LINE_BYTES) atomic_uint_fast64_t posted; /* messages so far */
    uint64_t address, bytes;                          /* the last message's */
    unsigned char copy[SHORT_BYTES];                  /* a short message */
    _Alignas(LINE_BYTES) atomic_uint_fast64_t taken;
};

struct bell {
    _Alignas(LINE_BYTES) _Atomic uint32_t rings;
    atomic_int awaited; /* member that may wake this one; -1: none */
};

/* The shared memory: a bell per process, then the boxes by sender and receiver. */
struct sw_shm {
    int32_t members, index;
    int32_t *process; /* [members] */
    struct bell *bells;
    struct box *boxes; /* [members][members] */
    void *memory;
    size_t bytes;
    int file; /* -1: closed */
};

static struct box *box_of(const struct sw_shm *shm, int32_t from, int32_t to)
{
    return &shm->boxes[(size_t)from * (size_t)shm->members + (size_t)to];
}

static void ring(const struct sw_shm *shm, int32_t member)
{
    struct bell *bell = &shm->bells[member];
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->awaited) == shm->index)
        (void)syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool sw_shm_post(struct sw_shm *shm, int32_t to, const void *data, size_t bytes)
{
    struct box *box = box_of(shm, shm->index, to);
    const uint64_t posted = atomic_load_explicit(&box->posted, memory_order_relaxed);
    if (atomic_load_explicit(&box->taken, memory_order_acquire) != posted)
        return false;
    box->address = (uint64_t)(uintptr_t)data;
    box->bytes = bytes;
    if (bytes <= SHORT_BYTES)
        memcpy(box->copy, data, bytes);
    atomic_store_explicit(&box->posted, posted + 1, memory_order_release);
    ring(shm, to);
    return true;
}

bool sw_shm_is_released(const struct sw_shm *shm, int32_t to)
{
    const struct box *box = box_of(shm, shm->index, to);
    return box->bytes <= SHORT_BYTES ||
           atomic_load_explicit(&box->taken, memory_order_acquire) ==
               atomic_load_explicit(&box->posted, memory_order_relaxed);
}

/* Destination pieces behind the first `done` bytes: returns their number, and their *bytes. */
static unsigned long pieces_behind(const struct sw_transfer *wanted, size_t done,
                                   struct iovec here[PIECES_MAX], size_t *bytes)
{
    unsigned long count = 0;
    for (*bytes = 0; count < PIECES_MAX && done < wanted->bytes; count++) {
        int64_t offset = (int64_t)done;
        size_t length = wanted->bytes - done;
        if (wanted->block.rows > 0) {
            const size_t together =
                (size_t)sw_block_run(&wanted->block, wanted->first + (int64_t)done, &offset);
            length = together < length ? together : length;
        }
        here[count] = (struct iovec){(char *)wanted->data.receive + offset, length};
        done += length;
        *bytes += length;
    }
    return count;
}

/* Copies from another process's memory; -1 with errno on failure. */
static int copy_from(int32_t process, const struct sw_transfer *wanted, uint64_t address)
{
    for (size_t done = 0; done < wanted->bytes;) {
        struct iovec here[PIECES_MAX];
        size_t bytes = 0;
        const unsigned long count = pieces_behind(wanted, done, here, &bytes);
        const struct iovec there = {(char *)(uintptr_t)address + done, bytes};
        const ssize_t copied = process_vm_readv(process, here, count, &there, 1, 0);
        if (copied <= 0)
            return -1;
        done += (size_t)copied;
    }
    return 0;
}

int sw_shm_take(struct sw_shm *shm, int32_t from, const struct sw_transfer *wanted, size_t *sent)
{
    struct box *box = box_of(shm, from, shm->index);
    const uint64_t taken = atomic_load_explicit(&box->taken, memory_order_relaxed);
    if (atomic_load_explicit(&box->posted, memory_order_acquire) == taken)
        return 0;
    *sent = (size_t)box->bytes;
    if (*sent != wanted->bytes || *sent > SHORT_BYTES) {
        if (*sent == wanted->bytes && copy_from(shm->process[from], wanted, box->address) != 0)
            return errno == ESRCH ? 0 : -1; /* the process died: its watcher reports that */
    } else if (wanted->block.rows > 0) {
        sw_block_unpack(wanted->data.receive, &wanted->block, wanted->first, (int64_t)*sent,
                        box->copy);
    } else {
        memcpy(wanted->data.receive, box->copy, *sent);
    }
    atomic_store_explicit(&box->taken, taken + 1, memory_order_release);
    ring(shm, from);
    return 1;
}

uint32_t sw_shm_heard(const struct sw_shm *shm)
{
    return atomic_load(&shm->bells[shm->index].rings);
}

void sw_shm_sleep(struct sw_shm *shm, uint32_t heard, int32_t member, double seconds)
{
    struct bell *bell = &shm->bells[shm->index];
    const struct timespec limit = {(time_t)seconds,
                                   (long)(1e9 * (seconds - (double)(time_t)seconds))};
    atomic_store(&bell->awaited, member);
    /* the kernel compares again: a ringer either changes `rings` or sees `awaited` */
    (void)syscall(SYS_futex, &bell->rings, FUTEX_WAIT, heard, &limit, NULL, 0);
    atomic_store(&bell->awaited, -1);
}

/* ---- How it begins ---- */

/* The first process's message about the memory it made. */
struct segment {
    int32_t process, file;
    uint64_t sign; /* also stored in the memory */
};

static bool all_can(MPI_Comm comm, bool here)
{
    int mine = here, all = 0;
    return MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all != 0;
}

/* Maps the first process's memory. The sign lies behind all boxes. */
static bool map(struct sw_shm *shm, const struct segment *segment)
{
    char path[64];
    shm->bytes = (size_t)shm->members * sizeof(struct bell) +
                 (size_t)shm->members * (size_t)shm->members * sizeof(struct box);
    const size_t length = shm->bytes + sizeof segment->sign;
    if (shm->index == 0) {
        if (ftruncate(shm->file, (off_t)length) != 0)
            return false;
    } else {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)segment->process, (int)segment->file);
        shm->file = open(path, O_RDWR | O_CLOEXEC);
        struct stat status; /* in another container that number may be another file */
        if (shm->file >= 0 && (fstat(shm->file, &status) != 0 || !S_ISREG(status.st_mode) ||
                               status.st_size != (off_t)length))
            return false;
    }
    shm->memory = shm->file < 0
                      ? MAP_FAILED
                      : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, shm->file, 0);
    if (shm->memory == MAP_FAILED)
        return false;
    shm->bells = shm->memory;
    shm->boxes = (struct box *)(void *)(shm->bells + shm->members);
    shm->bytes = length;
    return true;
}

static uint64_t *sign_of(const struct sw_shm *shm)
{
    return (uint64_t *)(void *)(shm->boxes + (size_t)shm->members * (size_t)shm->members);
}

/* Process numbers differ between containers: reads the other's sign as a check. */
static bool reads_all(const struct sw_shm *shm, const uint64_t *addresses, uint64_t sign)
{
    for (int32_t i = 0; i < shm->members; i++) {
        uint64_t read = 0;
        const struct sw_transfer wanted = {.bytes = sizeof read, .data.receive = &read};
        if (copy_from(shm->process[i], &wanted, addresses[i]) != 0 || read != sign + (uint64_t)i)
            return false;
    }
    return true;
}

static bool share(struct sw_shm *shm, MPI_Comm comm)
{
    struct segment segment = {(int32_t)getpid(), -1, 0};
    if (shm->index == 0) {
        shm->file = memfd_create("shardwright", MFD_CLOEXEC);
        segment.file = shm->file;
        segment.sign = (uint64_t)(uintptr_t)shm ^ ((uint64_t)segment.process << 40);
    }
    const int32_t process = (int32_t)getpid();
    if (MPI_Bcast(&segment, sizeof segment, MPI_BYTE, 0, comm) != MPI_SUCCESS)
        return false;
    bool can = shm->index != 0 || map(shm, &segment);
    if (can && shm->index == 0) {
        *sign_of(shm) = segment.sign;
        for (int32_t i = 0; i < shm->members; i++)
            atomic_store(&shm->bells[i].awaited, -1);
    }
    if (!all_can(comm, can)) /* the first one's memory still exists */
        return false;
    can = shm->index == 0 || (map(shm, &segment) && *sign_of(shm) == segment.sign);
    uint64_t *addresses = calloc((size_t)shm->members, sizeof *addresses);
    volatile uint64_t own = segment.sign + (uint64_t)shm->index;
    const uint64_t address = (uint64_t)(uintptr_t)&own;
    can =
        all_can(comm, can && addresses != NULL) &&
        MPI_Allgather(&address, 1, MPI_UINT64_T, addresses, 1, MPI_UINT64_T, comm) == MPI_SUCCESS &&
        MPI_Allgather(&process, 1, MPI_INT32_T, shm->process, 1, MPI_INT32_T, comm) == MPI_SUCCESS;
    can = all_can(comm, can && reads_all(shm, addresses, segment.sign));
    free(addresses);
    return can;
}

struct sw_shm *sw_shm_create(const void *mpi_comm)
{
    MPI_Comm comm;
    int members = 0, index = 0;
    memcpy(&comm, mpi_comm, sizeof comm);
    if (MPI_Comm_size(comm, &members) != MPI_SUCCESS ||
        MPI_Comm_rank(comm, &index) != MPI_SUCCESS || members < 2)
        return NULL;
    struct sw_shm *shm = calloc(1, sizeof *shm);
    int32_t *process = calloc((size_t)members, sizeof *process);
    if (!all_can(comm, shm != NULL && process != NULL)) {
        free(shm);
        free(process);
        return NULL;
    }
    *shm = (struct sw_shm){
        .members = members, .index = index, .process = process, .memory = MAP_FAILED, .file = -1};
    const bool shared = share(shm, comm);
    if (shm->file >= 0)
        (void)close(shm->file);
    shm->file = -1;
    if (shared)
        return shm;
    sw_shm_free(shm);
    return NULL;
}

void sw_shm_free(struct sw_shm *shm)
{
    if (shm == NULL)
        return;
    if (shm->memory != MAP_FAILED)
        (void)munmap(shm->memory, shm->bytes);
    free(shm->process);
    free(shm);
}
