/* Hides features of the processor from the program that it is preloaded into (Linux, x86-64).
 *
 * HIDDEN_FEATURES: avx512, or avx2 (and all that builds on it). CPUID is made to fault, and the handler answers with the
 * hidden bits cleared, as a processor without them would.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ARCH_SET_CPUID
#define ARCH_SET_CPUID 0x1012
#endif

static int hides_avx2;

static void faults(unsigned long on) { syscall(SYS_arch_prctl, ARCH_SET_CPUID, !on); }

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)registers[REG_RIP];
    (void)info;
    if (at[0] != 0x0f || at[1] != 0xa2) {
        signal(number, SIG_DFL);
        return;
    }
    unsigned leaf = registers[REG_RAX], sub = registers[REG_RCX], a, b, c, d;
    faults(0);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(sub));
    faults(1);
    if (leaf == 7 && sub == 0) {
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
        if (hides_avx2) b &= ~(1u << 5);
    }
    if (leaf == 7 && sub == 1) a = b = c = d = 0;
    if (leaf == 1 && hides_avx2) c &= ~(1u << 12 | 1u << 28 | 1u << 29);
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hide(void) {
    const char *hidden = getenv("HIDDEN_FEATURES");
    struct sigaction action;
    if (!hidden) return;
    hides_avx2 = !strcmp(hidden, "avx2");
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, 0);
    faults(1);
}
