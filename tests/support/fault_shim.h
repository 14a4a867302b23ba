/* File operations that fail, are cut short, or kill the process, at a point set in the environment.
 * A shared object for LD_PRELOAD, or linked into a test, which forks.
 *
 *   SHIM_UNDER=/FOLDER   counts operations below it, from 1; unset: does nothing
 *   SHIM_AT=N            the operation to act on
 *   SHIM_MODE=           fail     it alone fails
 *                        fail-on  it and all later ones fail
 *                        short    a write writes its first half and returns that
 *                        torn     SIGKILL after the first half of a write
 *                        before   SIGKILL instead of it
 *                        after    SIGKILL after it
 *   SHIM_ERRNO=ENOSPC    errno of failures; default EIO
 *   SHIM_LOG=FILE        appends a line "NUMBER NAME PATH" per operation
 *   SHIM_SYNC=skip       fsync and fdatasync do nothing and succeed
 *   SHIM_FREE=N          reports N free bytes on every disk
 *   SHIM_RANK=R          only in that rank's process, under Open MPI or Slurm
 *
 * Operations: open, write, pwrite, fsync, fdatasync, rename, link, symlink, unlink, mkdir, rmdir,
 * ftruncate, close, in their variants. libc's internal calls, as in fwrite, are not seen. /proc
 * gives a descriptor's path; relative paths start at the working directory. */
#ifndef SW_TEST_FAULT_SHIM_H
#define SW_TEST_FAULT_SHIM_H

/* Reads the environment again and counts from 0, in a forked child. */
void fault_shim_restart(void);

#endif
