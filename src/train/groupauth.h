/* groupauth.h - two leaders prove to each other that they are of one group.
 *
 * Four messages of fixed sizes, before anything else is sent. Neither the key
 * nor any token is in them.
 *
 *   caller -> answerer   hello     which group, which processes, a nonce
 *   answerer -> caller   answer    another nonce, MAC("answer", hello)
 *   caller -> answerer   proof     MAC("proof", hello, answer)
 *   answerer -> caller   verdict   let in, or the reason why not; with a MAC
 *
 * The MAC is libsodium's crypto_auth under the group's key. Each MAC covers all
 * messages before it and the name of its own message. So a recorded handshake
 * cannot be replayed (the other side's nonce is new), an answerer's own bytes
 * cannot be sent back to it (the names differ), and ranks, world size, group,
 * attempt and port cannot be exchanged on the way. What comes after the
 * handshake on the connection has no MAC.
 *
 *     firn_grp_shake_call(&s, key, &claim);       or firn_grp_shake_expect()
 *     ... send what it returns ...
 *     while ((n = firn_grp_shake_room(&s, &at)) > 0) {
 *         ... read up to n bytes to `at` ...
 *         out = firn_grp_shake_take(&s, nread);
 *         ... send out.n bytes, if any ...
 *     }
 *     an answerer whose state is SHAKE_JUDGE decides: firn_grp_shake_judge()
 *
 * Nothing here touches a socket or the clock.
 */
#ifndef TRAIN_GROUPAUTH_H
#define TRAIN_GROUPAUTH_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRP_KEY = 32,
    GRP_NONCE = 32,
    GRP_MAC = 32,
    GRP_WHY = 128, /* the reason of a verdict, with its 0 */
    SHAKE_HELLO_BYTES = 56 + GRP_NONCE, /* of the messages */
    SHAKE_ANSWER_BYTES = 8 + GRP_NONCE + GRP_MAC,
    SHAKE_PROOF_BYTES = GRP_MAC,
    SHAKE_VERDICT_BYTES = 4 + GRP_WHY + GRP_MAC
};

/* What a caller says of itself, and what an answerer expects it to say. */
struct grp_claim {
    int kind;       /* 1: joins at process 0; 2: calls another leader */
    uint64_t name;  /* a hash of the group's name: job, attempt, port */
    uint64_t shape; /* a hash of the placement: firn_group.shape */
    int world;      /* processes of the group */
    int first;      /* rank of the caller */
    int nprocs;     /* processes of the caller's host */
    int port;       /* where the caller listens */
    int called;     /* the port that is called */
};

enum shake_state {
    SHAKE_WANTS_HELLO,   /* answerer */
    SHAKE_WANTS_PROOF,   /* answerer */
    SHAKE_JUDGE,         /* answerer: the key is proven, the claim is not */
    SHAKE_WANTS_ANSWER,  /* caller */
    SHAKE_WANTS_VERDICT, /* caller */
    SHAKE_DONE,          /* both: the other one is a member and is let in */
    SHAKE_NO_MEMBER,     /* both: the other one does not have the key */
    SHAKE_REFUSED        /* both: it has, and `why` tells what is wrong */
};

struct grp_shake {
    enum shake_state state;
    const unsigned char *key; /* borrowed */
    struct grp_claim claim;   /* the caller's: own, or as it came */
    size_t nread;             /* bytes of the message that is waited for */
    unsigned char hello[SHAKE_HELLO_BYTES];
    unsigned char answer[SHAKE_ANSWER_BYTES];
    unsigned char proof[SHAKE_PROOF_BYTES];
    unsigned char verdict[SHAKE_VERDICT_BYTES];
    char why[GRP_WHY];
};

struct shake_out {
    const unsigned char *at;
    size_t n;
};

/* 64 hexadecimal digits to bytes; false: they are not. */
bool firn_grp_key_read(unsigned char key[GRP_KEY], const char *hex);
void firn_grp_key_wipe(void *bytes, size_t n);
/* FIRN_EINVAL where the library was built without libsodium. */
enum firn_status firn_grp_auth_ready(struct firn_error *err);
/* A number that the key and these bytes give, and that tells nothing of the
 * key. */
uint64_t firn_grp_key_number(const unsigned char key[GRP_KEY],
                             const void *bytes, size_t n);

/* Begins as caller; returns the hello. */
struct shake_out firn_grp_shake_call(struct grp_shake *s,
                                     const unsigned char key[GRP_KEY],
                                     const struct grp_claim *claim);
/* Begins as answerer. */
void firn_grp_shake_expect(struct grp_shake *s,
                           const unsigned char key[GRP_KEY]);
/* Where the next bytes go, and how many at most; 0: none are waited for. */
size_t firn_grp_shake_room(struct grp_shake *s, unsigned char **at);
/* n bytes have come there; returns what is to be sent now. */
struct shake_out firn_grp_shake_take(struct grp_shake *s, size_t n);
/* An answerer's decision in SHAKE_JUDGE; `why` NULL: let in. */
struct shake_out firn_grp_shake_judge(struct grp_shake *s, const char *why);

#endif
