#include "runner/collective/near.h"

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

/* From one process to one other. What the sender writes and what the receiver writes lie in lines
 * of their own. */
struct box {
    _Alignas(LINE_BYTES) atomic_uint_fast64_t posted; /* messages so far */
    uint64_t address, bytes;                          /* of the last one */
    unsigned char copy[SHORT_BYTES];                  /* of a short one */
    _Alignas(LINE_BYTES) atomic_uint_fast64_t taken;
};

struct bell {
    _Alignas(LINE_BYTES) _Atomic uint32_t rings;
    atomic_int awaited; /* the member that may wake this one; -1: nobody need */
};

/* The shared memory: a bell of each process, then the boxes by sender and receiver. */
struct sw_near {
    int32_t members, index;
    int32_t *process; /* [members] */
    struct bell *bells;
    struct box *boxes; /* [members][members] */
    void *memory;
    size_t bytes;
    int file; /* -1: closed */
};

static struct box *box_of(const struct sw_near *near, int32_t from, int32_t to)
{
    return &near->boxes[(size_t)from * (size_t)near->members + (size_t)to];
}

static void ring(const struct sw_near *near, int32_t member)
{
    struct bell *bell = &near->bells[member];
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->awaited) == near->index)
        (void)syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool sw_near_post(struct sw_near *near, int32_t to, const void *data, size_t bytes)
{
    struct box *box = box_of(near, near->index, to);
    const uint64_t posted = atomic_load_explicit(&box->posted, memory_order_relaxed);
    if (atomic_load_explicit(&box->taken, memory_order_acquire) != posted)
        return false;
    box->address = (uint64_t)(uintptr_t)data;
    box->bytes = bytes;
    if (bytes <= SHORT_BYTES)
        memcpy(box->copy, data, bytes);
    atomic_store_explicit(&box->posted, posted + 1, memory_order_release);
    ring(near, to);
    return true;
}

bool sw_near_is_released(const struct sw_near *near, int32_t to)
{
    const struct box *box = box_of(near, near->index, to);
    return box->bytes <= SHORT_BYTES ||
           atomic_load_explicit(&box->taken, memory_order_acquire) ==
               atomic_load_explicit(&box->posted, memory_order_relaxed);
}

/* Where what is wanted goes behind the first `done` bytes: how many pieces, and *bytes of them. */
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

/* Of another process's memory. -1: errno says why. */
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

int sw_near_take(struct sw_near *near, int32_t from, const struct sw_transfer *wanted, size_t *sent)
{
    struct box *box = box_of(near, from, near->index);
    const uint64_t taken = atomic_load_explicit(&box->taken, memory_order_relaxed);
    if (atomic_load_explicit(&box->posted, memory_order_acquire) == taken)
        return 0;
    *sent = (size_t)box->bytes;
    if (*sent != wanted->bytes || *sent > SHORT_BYTES) {
        if (*sent == wanted->bytes && copy_from(near->process[from], wanted, box->address) != 0)
            return errno == ESRCH ? 0 : -1; /* it has died: whoever watches over it says of what */
    } else if (wanted->block.rows > 0) {
        sw_block_unpack(wanted->data.receive, &wanted->block, wanted->first, (int64_t)*sent,
                        box->copy);
    } else {
        memcpy(wanted->data.receive, box->copy, *sent);
    }
    atomic_store_explicit(&box->taken, taken + 1, memory_order_release);
    ring(near, from);
    return 1;
}

uint32_t sw_near_heard(const struct sw_near *near)
{
    return atomic_load(&near->bells[near->index].rings);
}

void sw_near_sleep(struct sw_near *near, uint32_t heard, int32_t member, double seconds)
{
    struct bell *bell = &near->bells[near->index];
    const struct timespec limit = {(time_t)seconds,
                                   (long)(1e9 * (seconds - (double)(time_t)seconds))};
    atomic_store(&bell->awaited, member);
    /* the kernel compares once more: who rings now either changes that or sees who is awaited */
    (void)syscall(SYS_futex, &bell->rings, FUTEX_WAIT, heard, &limit, NULL, 0);
    atomic_store(&bell->awaited, -1);
}

/* ---- How it begins ---- */

/* What the first process tells the others of the memory that it has made. */
struct place {
    int32_t process, file;
    uint64_t sign; /* stands in the memory, too */
};

static bool all_can(MPI_Comm comm, bool here)
{
    int mine = here, all = 0;
    return MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all != 0;
}

/* Its memory is that of the first one. The sign lies behind all boxes. */
static bool map(struct sw_near *near, const struct place *place)
{
    char path[64];
    near->bytes = (size_t)near->members * sizeof(struct bell) +
                  (size_t)near->members * (size_t)near->members * sizeof(struct box);
    const size_t length = near->bytes + sizeof place->sign;
    if (near->index == 0) {
        if (ftruncate(near->file, (off_t)length) != 0)
            return false;
    } else {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place->process, (int)place->file);
        near->file = open(path, O_RDWR | O_CLOEXEC);
        struct stat status; /* in another container that number is another file */
        if (near->file >= 0 && (fstat(near->file, &status) != 0 || !S_ISREG(status.st_mode) ||
                                status.st_size != (off_t)length))
            return false;
    }
    near->memory = near->file < 0
                       ? MAP_FAILED
                       : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, near->file, 0);
    if (near->memory == MAP_FAILED)
        return false;
    near->bells = near->memory;
    near->boxes = (struct box *)(void *)(near->bells + near->members);
    near->bytes = length;
    return true;
}

static uint64_t *sign_of(const struct sw_near *near)
{
    return (uint64_t *)(void *)(near->boxes + (size_t)near->members * (size_t)near->members);
}

/* Numbers of processes mean nothing between containers: what is read must be the other's sign. */
static bool reads_all(const struct sw_near *near, const uint64_t *addresses, uint64_t sign)
{
    for (int32_t i = 0; i < near->members; i++) {
        uint64_t read = 0;
        const struct sw_transfer wanted = {.bytes = sizeof read, .data.receive = &read};
        if (copy_from(near->process[i], &wanted, addresses[i]) != 0 || read != sign + (uint64_t)i)
            return false;
    }
    return true;
}

static bool share(struct sw_near *near, MPI_Comm comm)
{
    struct place place = {(int32_t)getpid(), -1, 0};
    if (near->index == 0) {
        near->file = memfd_create("shardwright", MFD_CLOEXEC);
        place.file = near->file;
        place.sign = (uint64_t)(uintptr_t)near ^ ((uint64_t)place.process << 40);
    }
    const int32_t process = (int32_t)getpid();
    if (MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, comm) != MPI_SUCCESS)
        return false;
    bool can = near->index != 0 || map(near, &place);
    if (can && near->index == 0) {
        *sign_of(near) = place.sign;
        for (int32_t i = 0; i < near->members; i++)
            atomic_store(&near->bells[i].awaited, -1);
    }
    if (!all_can(comm, can)) /* and the first one's memory stands */
        return false;
    can = near->index == 0 || (map(near, &place) && *sign_of(near) == place.sign);
    uint64_t *addresses = calloc((size_t)near->members, sizeof *addresses);
    volatile uint64_t own = place.sign + (uint64_t)near->index;
    const uint64_t address = (uint64_t)(uintptr_t)&own;
    can =
        all_can(comm, can && addresses != NULL) &&
        MPI_Allgather(&address, 1, MPI_UINT64_T, addresses, 1, MPI_UINT64_T, comm) == MPI_SUCCESS &&
        MPI_Allgather(&process, 1, MPI_INT32_T, near->process, 1, MPI_INT32_T, comm) == MPI_SUCCESS;
    can = all_can(comm, can && reads_all(near, addresses, place.sign));
    free(addresses);
    return can;
}

struct sw_near *sw_near_create(const void *mpi_comm)
{
    MPI_Comm comm;
    int members = 0, index = 0;
    memcpy(&comm, mpi_comm, sizeof comm);
    if (MPI_Comm_size(comm, &members) != MPI_SUCCESS ||
        MPI_Comm_rank(comm, &index) != MPI_SUCCESS || members < 2)
        return NULL;
    struct sw_near *near = calloc(1, sizeof *near);
    int32_t *process = calloc((size_t)members, sizeof *process);
    if (!all_can(comm, near != NULL && process != NULL)) {
        free(near);
        free(process);
        return NULL;
    }
    *near = (struct sw_near){
        .members = members, .index = index, .process = process, .memory = MAP_FAILED, .file = -1};
    const bool shared = share(near, comm);
    if (near->file >= 0)
        (void)close(near->file);
    near->file = -1;
    if (shared)
        return near;
    sw_near_free(near);
    return NULL;
}

void sw_near_free(struct sw_near *near)
{
    if (near == NULL)
        return;
    if (near->memory != MAP_FAILED)
        (void)munmap(near->memory, near->bytes);
    free(near->process);
    free(near);
}
