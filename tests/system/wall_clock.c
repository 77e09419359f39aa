/* Preloaded into the daemon by a test: moves its wall clock, and no other clock, by the
   number of seconds that the file named by WALL_CLOCK_OFFSET_FILE holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long offset(void) {
    const char *path = getenv("WALL_CLOCK_OFFSET_FILE");
    long long seconds = 0;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%lld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, ts);
    if (id == CLOCK_REALTIME && result == 0) ts->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *tv, void *tz) {
    struct timespec ts;
    (void)tz;
    if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (result) *result = ts.tv_sec;
    return ts.tv_sec;
}
