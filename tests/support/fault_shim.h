/* File operations that fail, are cut short, or are a process's last ones, at a place that the
 * environment names. As a shared object for LD_PRELOAD, or linked into a test, which forks.
 *
 *   SHIM_UNDER=/FOLDER   operations on what lies below it count, from 1; without it nothing happens
 *   SHIM_AT=N            the operation at which it happens
 *   SHIM_MODE=           fail     it fails, and nothing else does
 *                        fail-on  it fails, and every one behind it
 *                        short    a write writes its first half, and says so
 *                        torn     SIGKILL behind the first half of a write
 *                        before   SIGKILL instead of it
 *                        after    SIGKILL behind it
 *   SHIM_ERRNO=ENOSPC    the reason of failures; default EIO
 *   SHIM_LOG=FILE        every operation, a line "NUMBER NAME PATH" each; appended
 *   SHIM_SYNC=skip       fsync and fdatasync do nothing and succeed
 *   SHIM_FREE=N          every disk has N bytes free
 *   SHIM_RANK=R          only in the process of that rank of a job of Open MPI or Slurm
 *
 * Operations: open, write, pwrite, fsync, fdatasync, rename, link, symlink, unlink, mkdir, rmdir,
 * ftruncate, close, in their variants. What libc does inside of itself, as in fwrite, is not seen.
 * A descriptor is what /proc says it is; a relative path begins where the process is. */
#ifndef SW_TEST_FAULT_SHIM_H
#define SW_TEST_FAULT_SHIM_H

/* Reads the environment again and counts from 0: for a child that was forked. */
void fault_shim_restart(void);

#endif
