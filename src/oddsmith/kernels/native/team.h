/* Threads that share work: one has a job of some units, and others that called team_help before take units of it. A job is a
   turn, and whoever takes a unit counts it in the same number. */

#ifndef ODDSMITH_TEAM_H
#define ODDSMITH_TEAM_H

#include "vector.h"
#if !defined(_WIN32)
#include <sched.h>
#endif

typedef struct {
    uint64_t turn; /* number of the turn, then the ends of the units that nobody took, 16 bits each */
    int64_t left;  /* units of this turn that are not done yet */
    int64_t turns, helpers;
    void (*work)(const void *job, int64_t unit);
    const void *job;
} team;

#define TEAM_ENDED (~(uint64_t)0)
#define TEAM_PAUSE 32 /* pauses between two looks at the turn */
#define TEAM_WAITS 64 /* looks before a thread that waits lets others have its core */

/* Pauses take little of a core that another thread may share, calls of the system much (a path over 2,000 x 10,000 on two
   cores: 187 ms with a pause at a time and calls after 2,000, 180 with 8 and 256, 174 with 32 and 64). */
INLINE void team_wait(int *waited) {
    for (int k = 0; k < TEAM_PAUSE; k++)
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#else
        __asm__ volatile("");
#endif
#if !defined(_WIN32)
    if (++*waited % TEAM_WAITS == 0) sched_yield();
#endif
}

/* Do a unit that nobody has: the first one, or the last one for helpers. Returns 0 where there is none. */
INLINE int team_step(team *t, int helper) {
    uint64_t turn = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE);
    while (turn != TEAM_ENDED && (turn >> 16 & 0xffff) < (turn & 0xffff)) {
        const uint64_t next = helper ? turn - 1 : turn + (1 << 16);
        const int64_t unit = helper ? (int64_t)(next & 0xffff) : (int64_t)(turn >> 16 & 0xffff);
        if (__atomic_compare_exchange_n(&t->turn, &turn, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            t->work(t->job, unit);
            __atomic_sub_fetch(&t->left, 1, __ATOMIC_RELEASE);
            return 1;
        }
    }
    return 0;
}

/* Do all units of a job, at most 65535, with the others if there is a team. */
INLINE void team_run(team *t, void (*work)(const void *, int64_t), const void *job, int64_t units) {
    if (!t || !__atomic_load_n(&t->helpers, __ATOMIC_RELAXED)) {
        for (int64_t k = 0; k < units; k++) work(job, k);
        return;
    }
    t->work = work, t->job = job, t->left = units;
    __atomic_store_n(&t->turn, ((uint64_t)(++t->turns & 0x7fffffff) << 32) + (uint64_t)units, __ATOMIC_RELEASE);
    while (team_step(t, 0)) {}
    for (int waited = 0; __atomic_load_n(&t->left, __ATOMIC_ACQUIRE) > 0;) team_wait(&waited);
}

#endif
