/* Counts the calls by which a process changes files below one folder, and fails or kills at one.
 *
 * Loaded with LD_PRELOAD. `crash_arm` starts the count, so that a server may load everything first
 * and fork. Each counted call is a line of the log: its name and its path.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { GO_ON, FAIL, DIE };

static char under[PATH_MAX];
static size_t under_length;
static long at, count;
static int how, sticky, log_fd = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* how: 0 kills, -1 stops until SIGCONT, else the errno that the call fails with; sticky: so does
   every later one. */
void crash_arm(const char *folder, long nth, int what, int for_good, int log) {
    strncpy(under, folder, sizeof under - 1);
    under_length = strlen(under);
    at = nth, how = what, sticky = for_good, log_fd = log, count = 0;
}

static int counted(const char *name, const char *path) {
    if (!under_length || strncmp(path, under, under_length)) return GO_ON;
    pthread_mutex_lock(&mutex);
    long now = ++count;
    if (log_fd >= 0) {
        char line[PATH_MAX + 32];
        int size = snprintf(line, sizeof line, "%s %s\n", name, path);
        syscall(SYS_write, log_fd, line, (size_t)size);
    }
    pthread_mutex_unlock(&mutex);
    int hit = at && (sticky ? now >= at : now == at);
    if (hit && how == ENOSPC && (!strcmp(name, "unlink") || !strcmp(name, "rmdir"))) hit = 0;
    if (!hit) return GO_ON;
    if (how < 0) {
        syscall(SYS_kill, getpid(), SIGSTOP);
        return GO_ON;
    }
    if (!how) return DIE;
    errno = how;
    return FAIL;
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static int named(const char *name, int folder, const char *path) {
    char whole[2 * PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        if (folder == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX)) return GO_ON;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t size = readlink(link, whole, PATH_MAX - 1);
            if (size < 0) return GO_ON;
            whole[size] = 0;
        }
        strcat(whole, "/");
    }
    strncat(whole, path, PATH_MAX - 1);
    return counted(name, whole);
}

static int opened(const char *name, int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return GO_ON;
    path[size] = 0;
    return counted(name, path);
}

#define DECIDE(decision, call)          \
    switch (decision) {                 \
        case FAIL: return -1;           \
        case DIE: die();                \
        default: return call;           \
    }

/* A kill in the middle of a write leaves half of it. */
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    int saved = errno, decision = opened("write", fd);
    if (decision == DIE) { real(fd, data, size / 2); die(); }
    if (decision == FAIL) return -1;
    errno = saved;
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    REAL(writev);
    DECIDE(opened("write", fd), real(fd, parts, number));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    int decision = opened("write", fd);
    if (decision == DIE) { real(fd, data, size / 2, offset); die(); }
    if (decision == FAIL) return -1;
    return real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite64(fd, data, size, offset);
}

int fsync(int fd) { REAL(fsync); DECIDE(opened("fsync", fd), real(fd)); }
int fdatasync(int fd) { REAL(fdatasync); DECIDE(opened("fsync", fd), real(fd)); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); DECIDE(opened("truncate", fd), real(fd, size)); }
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    DECIDE(opened("truncate", fd), real(fd, size));
}

int rename(const char *from, const char *to) {
    REAL(rename);
    DECIDE(named("rename", AT_FDCWD, to), real(from, to));
}

int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat);
    DECIDE(named("rename", b, to), real(a, from, b, to));
}

int renameat2(int a, const char *from, int b, const char *to, unsigned int flags) {
    REAL(renameat2);
    DECIDE(named("rename", b, to), real(a, from, b, to, flags));
}

int unlink(const char *path) {
    REAL(unlink);
    DECIDE(named("unlink", AT_FDCWD, path), real(path));
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    DECIDE(named("unlink", folder, path), real(folder, path, flags));
}

int rmdir(const char *path) { REAL(rmdir); DECIDE(named("rmdir", AT_FDCWD, path), real(path)); }

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    DECIDE(named("mkdir", AT_FDCWD, path), real(path, mode));
}

#define OPENS(flags) ((flags) & (O_CREAT | O_TRUNC))

#define OPEN(name, first, folder)                                   \
    int name(first const char *path, int flags, ...) {              \
        REAL(name);                                                 \
        va_list more;                                               \
        va_start(more, flags);                                      \
        mode_t mode = va_arg(more, mode_t);                         \
        va_end(more);                                               \
        if (OPENS(flags)) {                                         \
            switch (named("create", folder, path)) {                \
                case FAIL: return -1;                               \
                case DIE: die();                                    \
            }                                                       \
        }                                                           \
        return CALL_##name;                                         \
    }

#define CALL_open real(path, flags, mode)
#define CALL_open64 real(path, flags, mode)
#define CALL_openat real(at_folder, path, flags, mode)
#define CALL_openat64 real(at_folder, path, flags, mode)
#define NOTHING
#define FOLDER int at_folder,
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
OPEN(openat, FOLDER, at_folder)
OPEN(openat64, FOLDER, at_folder)
