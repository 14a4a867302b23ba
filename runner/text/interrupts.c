#include "runner/text/interrupts.h"

#include <stddef.h>
#include <unistd.h>

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void *wait_for_signal(void *context)
{
    const struct sw_interrupts *interrupts = context;
    int number = 0;
    if (sigwait(&interrupts->waited, &number) != 0)
        return NULL;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    interrupts->remove(interrupts->context);
    (void)signal(number, SIG_DFL);
    (void)kill(getpid(), number);
    (void)pthread_sigmask(SIG_UNBLOCK, &interrupts->waited, NULL);
    return NULL;
}

void sw_interrupts_begin(struct sw_interrupts *interrupts)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&interrupts->waited);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(&interrupts->waited, numbers[i]);
    if (pthread_sigmask(SIG_BLOCK, &interrupts->waited, &interrupts->before) != 0)
        return;
    interrupts->holds = true;
    interrupts->waits = pthread_create(&interrupts->thread, NULL, wait_for_signal, interrupts) == 0;
    if (!interrupts->waits)
        sw_interrupts_end(interrupts);
}

void sw_interrupts_hold(struct sw_interrupts *interrupts)
{
    if (!interrupts->waits)
        return;
    (void)pthread_cancel(interrupts->thread);
    (void)pthread_join(interrupts->thread, NULL);
    interrupts->waits = false;
}

void sw_interrupts_end(struct sw_interrupts *interrupts)
{
    sw_interrupts_hold(interrupts);
    if (interrupts->holds)
        (void)pthread_sigmask(SIG_SETMASK, &interrupts->before, NULL);
    interrupts->holds = false;
}
