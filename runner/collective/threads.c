/* Ranks are threads of one process. Each ordered pair of ranks has a mailbox for one message: the
 * sender stores the address there and waits until the receiver has copied the bytes. A short
 * message is copied into the mailbox, and its sender continues. A rank that leaves wakes all that
 * wait for it. */
#include "runner/collective/comm.h"
#include "runner/collective/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 2048 };

struct mailbox {
    const void *data; /* NULL: empty */
    size_t bytes;
    bool awaited;                    /* true if the sender waits until it is empty */
    pthread_cond_t emptied;          /* signals empty, or that a rank left; only the sender waits */
    unsigned char copy[SHORT_BYTES]; /* a short message */
};

/* All mailboxes to one rank. */
struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t filled;   /* signals a filled mailbox, or that a rank left, to the receiver */
    int32_t awaited;         /* sender that the receiver waits for; -1: none */
    struct mailbox *mailbox; /* [ranks] by sender */
    bool *left;              /* [ranks] true for ranks that left, as this inbox knows */
};

/* Owned by all ranks: the last one destroyed frees it. */
struct meeting {
    int32_t ranks, initialised; /* inboxes with mutex and condition */
    struct inbox *inbox;        /* [ranks] */
    pthread_mutex_t mutex;      /* guards users */
    int32_t users;
};

struct threads_transport {
    struct sw_transport transport;
    struct meeting *meeting;
    int32_t rank;
};

/* Undoes inbox_open() for the first `senders` mailboxes. */
static void inbox_close(struct inbox *inbox, int32_t senders)
{
    for (int32_t i = 0; i < senders; i++)
        pthread_cond_destroy(&inbox->mailbox[i].emptied);
    pthread_cond_destroy(&inbox->filled);
    pthread_mutex_destroy(&inbox->mutex);
}

/* -1: the system has no more mutexes or conditions; none is left behind. */
static int inbox_open(struct inbox *inbox, int32_t ranks)
{
    int32_t i = 0;
    inbox->awaited = -1;
    if (pthread_mutex_init(&inbox->mutex, NULL) != 0)
        return -1;
    if (pthread_cond_init(&inbox->filled, NULL) != 0) {
        pthread_mutex_destroy(&inbox->mutex);
        return -1;
    }
    while (i < ranks && pthread_cond_init(&inbox->mailbox[i].emptied, NULL) == 0)
        i++;
    if (i == ranks)
        return 0;
    inbox_close(inbox, i);
    return -1;
}

static void meeting_free(struct meeting *meeting)
{
    for (int32_t i = 0; meeting->inbox != NULL && i < meeting->ranks; i++) {
        if (i < meeting->initialised)
            inbox_close(&meeting->inbox[i], meeting->ranks);
        free(meeting->inbox[i].mailbox);
        free(meeting->inbox[i].left);
    }
    free(meeting->inbox);
    pthread_mutex_destroy(&meeting->mutex);
    free(meeting);
}

/* NULL: out of memory. */
static struct meeting *meeting_new(int32_t ranks)
{
    struct meeting *meeting = calloc(1, sizeof *meeting);
    if (meeting == NULL)
        return NULL;
    if (pthread_mutex_init(&meeting->mutex, NULL) != 0) {
        free(meeting);
        return NULL;
    }
    meeting->ranks = ranks;
    meeting->inbox = calloc((size_t)ranks, sizeof *meeting->inbox);
    for (int32_t i = 0; meeting->inbox != NULL && i < ranks; i++) {
        struct inbox *inbox = &meeting->inbox[i];
        inbox->mailbox = calloc((size_t)ranks, sizeof *inbox->mailbox);
        inbox->left = calloc((size_t)ranks, sizeof *inbox->left);
        if (inbox->mailbox == NULL || inbox->left == NULL || inbox_open(inbox, ranks) != 0)
            break;
        meeting->initialised++;
    }
    if (meeting->initialised < ranks) {
        meeting_free(meeting);
        return NULL;
    }
    return meeting;
}

static int fail_left(int32_t peer, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "rank %d has left", (int)peer);
}

/* Waits until a mailbox is empty or its reader left. Called and returns with the inbox's mutex
 * held. */
static void await_empty(struct inbox *inbox, struct mailbox *mailbox, int32_t reader)
{
    mailbox->awaited = true;
    while (mailbox->data != NULL && !inbox->left[reader])
        pthread_cond_wait(&mailbox->emptied, &inbox->mutex);
    mailbox->awaited = false;
}

static int post(struct threads_transport *t, const struct sw_transfer *send, struct sw_error *err)
{
    struct inbox *inbox = &t->meeting->inbox[send->peer];
    struct mailbox *mailbox = &inbox->mailbox[t->rank];
    int result = 0;
    pthread_mutex_lock(&inbox->mutex);
    await_empty(inbox, mailbox, send->peer); /* an earlier short message */
    const bool awaited = inbox->awaited == t->rank;
    if (inbox->left[send->peer]) {
        result = fail_left(send->peer, err);
    } else {
        mailbox->bytes = send->bytes;
        mailbox->data = send->data.send;
        if (send->bytes <= SHORT_BYTES)
            mailbox->data = memcpy(mailbox->copy, send->data.send, send->bytes);
    }
    pthread_mutex_unlock(&inbox->mutex);
    /* Without the lock, which the woken thread would wait for. */
    if (awaited)
        pthread_cond_signal(&inbox->filled);
    return result;
}

static int receive(struct threads_transport *t, const struct sw_transfer *wanted,
                   struct sw_error *err)
{
    struct inbox *inbox = &t->meeting->inbox[t->rank];
    struct mailbox *mailbox = &inbox->mailbox[wanted->peer];
    pthread_mutex_lock(&inbox->mutex);
    inbox->awaited = wanted->peer;
    while (mailbox->data == NULL && !inbox->left[wanted->peer])
        pthread_cond_wait(&inbox->filled, &inbox->mutex);
    inbox->awaited = -1;
    const void *data = mailbox->data;
    const size_t bytes = mailbox->bytes;
    pthread_mutex_unlock(&inbox->mutex);
    if (data == NULL)
        return fail_left(wanted->peer, err);
    if (bytes != wanted->bytes)
        return sw_fail(err, SW_ENVIRONMENT, "rank %d sent %zu bytes instead of %zu",
                       (int)wanted->peer, bytes, wanted->bytes);
    /* Without the lock: the sender keeps the bytes until the mailbox is empty. */
    if (wanted->block.rows > 0)
        sw_block_unpack(wanted->data.receive, &wanted->block, wanted->first, (int64_t)bytes, data);
    else
        memcpy(wanted->data.receive, data, bytes);
    pthread_mutex_lock(&inbox->mutex);
    mailbox->data = NULL;
    const bool awaited = mailbox->awaited;
    pthread_mutex_unlock(&inbox->mutex);
    if (awaited)
        pthread_cond_signal(&mailbox->emptied);
    return 0;
}

/* Waits until the message was copied. On failure withdraws it, so that no rank reads it later. */
static int await_copied(struct threads_transport *t, int32_t peer, struct sw_error *err)
{
    struct inbox *inbox = &t->meeting->inbox[peer];
    int result = 0;
    pthread_mutex_lock(&inbox->mutex);
    await_empty(inbox, &inbox->mailbox[t->rank], peer);
    if (inbox->mailbox[t->rank].data != NULL)
        result = fail_left(peer, err);
    pthread_mutex_unlock(&inbox->mutex);
    return result;
}

static void threads_leave(struct sw_transport *transport)
{
    struct threads_transport *t = (struct threads_transport *)transport;
    for (int32_t i = 0; i < t->meeting->ranks; i++) {
        struct inbox *inbox = &t->meeting->inbox[i];
        pthread_mutex_lock(&inbox->mutex);
        inbox->left[t->rank] = true;
        pthread_cond_signal(&inbox->filled);
        for (int32_t from = 0; from < t->meeting->ranks; from++)
            pthread_cond_signal(&inbox->mailbox[from].emptied);
        pthread_mutex_unlock(&inbox->mutex);
    }
}

static int threads_exchange(struct sw_transport *transport, const struct sw_transfer *sends,
                            int32_t send_count, const struct sw_transfer *receives,
                            int32_t receive_count, struct sw_error *err)
{
    struct threads_transport *t = (struct threads_transport *)transport;
    int result = 0;
    int32_t posted = 0;
    while (posted < send_count && result == 0)
        result = post(t, &sends[posted++], err);
    for (int32_t i = 0; i < receive_count && result == 0; i++)
        result = receive(t, &receives[i], err);
    /* Also after a failure: a peer may be copying from our memory. Not for long: a peer copies, or
     * leaves since it can no longer get our messages. */
    if (result != 0)
        threads_leave(transport);
    for (int32_t i = 0; i < posted; i++)
        if (sends[i].bytes > SHORT_BYTES && await_copied(t, sends[i].peer, err) != 0)
            result = -1;
    return result;
}

static bool threads_scatters(const struct sw_transport *transport, int32_t peer, int64_t row_bytes)
{
    (void)transport;
    (void)peer;
    return row_bytes > 0;
}

static void threads_destroy(struct sw_transport *transport)
{
    struct threads_transport *t = (struct threads_transport *)transport;
    struct meeting *meeting = t->meeting;
    pthread_mutex_lock(&meeting->mutex);
    const bool last = --meeting->users == 0;
    pthread_mutex_unlock(&meeting->mutex);
    if (last)
        meeting_free(meeting);
    free(t);
}

static const struct sw_transport_vtable threads_vtable = {.exchange = threads_exchange,
                                                          .scatters = threads_scatters,
                                                          .leave = threads_leave,
                                                          .destroy = threads_destroy};

int sw_comm_threads_create(const struct sw_mesh *mesh, struct sw_comm **out, struct sw_error *err)
{
    const int32_t ranks = sw_mesh_rank_count(mesh);
    struct sw_comm **comms = calloc((size_t)ranks, sizeof *comms);
    struct meeting *meeting = meeting_new(ranks);
    int32_t created = 0;
    if (comms == NULL || meeting == NULL) {
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for %d ranks", (int)ranks);
        goto out;
    }
    meeting->users = 1; /* counts this function */
    for (; created < ranks; created++) {
        struct threads_transport *t = calloc(1, sizeof *t);
        if (t == NULL) {
            (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for %d ranks", (int)ranks);
            break;
        }
        *t = (struct threads_transport){{.vtable = &threads_vtable}, meeting, created};
        meeting->users++; /* no other thread uses it yet: the communication threads are idle */
        if (sw_queue_create(mesh, created, ranks, &t->transport, &comms[created], err) != 0)
            break;
    }
    for (int32_t i = 0; created < ranks && i < created; i++)
        comms[i]->vtable->destroy(comms[i]);
    if (--meeting->users > 0)
        meeting = NULL; /* the ranks own it now */

out:
    if (meeting != NULL)
        meeting_free(meeting);
    if (comms != NULL && created == ranks)
        memcpy(out, comms, (size_t)ranks * sizeof(struct sw_comm *));
    free(comms);
    return created == ranks ? 0 : -1;
}
