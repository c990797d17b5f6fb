/*
 * A wall clock that is set, or runs at another speed, while a program runs: preloaded, it answers instead of the C library. The
 * monotonic clock stays. It allocates no memory, since some programs ask for the time before their own allocator is ready. A program
 * that asks the kernel itself, as those in Go do, is not reached.
 *
 * $WALL_CLOCK_FILE is a file of five words of eight bytes, which another process writes: see wall-clock.ts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { billion = 1000000000 };

struct setting {
    _Atomic uint64_t begun; /* Counts up before each change, */
    int64_t offset;         /* ns ahead, at `since` */
    int64_t since;          /* ns since 1970, of the machine's clock */
    double rate;            /* from then on */
    _Atomic uint64_t done;  /* and after it. */
};

static struct setting *setting;
static int (*next_clock_gettime)(clockid_t, struct timespec *);
static int (*next_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void start(void) {
    next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    /* The oldest of this name waits on another kind of condition. */
    next_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (next_timedwait == NULL) next_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) setting = mapped;
}

static int machine_gettime(clockid_t clock, struct timespec *time) {
    return next_clock_gettime != NULL ? next_clock_gettime(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
}

/* How far the set clock is ahead where the machine's shows `now`, ns. */
static int64_t ahead(int64_t now) {
    if (setting == NULL) return 0;
    for (;;) {
        uint64_t done = atomic_load(&setting->done);
        int64_t by = setting->offset + (int64_t)((setting->rate - 1) * (double)(now - setting->since));
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&setting->begun) == done) return by;
    }
}

static int64_t nanos(const struct timespec *time) { return (int64_t)time->tv_sec * billion + time->tv_nsec; }

/* Before 1970, seconds are negative and nanoseconds are not. */
static struct timespec timespec_of(int64_t nanos) {
    int64_t rest = nanos % billion;
    if (rest < 0) rest += billion;
    return (struct timespec){.tv_sec = (nanos - rest) / billion, .tv_nsec = rest};
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int status = machine_gettime(clock, time);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t now = nanos(time);
        *time = timespec_of(now + ahead(now));
    }
    return status;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}

/* The kernel waits by the machine's clock. A time in the first years after 1970 is one of the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec now;
    if (setting == NULL || until->tv_sec < billion / 2 || machine_gettime(CLOCK_REALTIME, &now) != 0)
        return next_timedwait(cond, mutex, until);
    int64_t left = nanos(until) - (nanos(&now) + ahead(nanos(&now)));
    struct timespec at = timespec_of(nanos(&now) + (left > 0 ? left : 0));
    return next_timedwait(cond, mutex, &at);
}
