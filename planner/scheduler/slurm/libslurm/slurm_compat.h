/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What differs between the releases of libslurm from 22.05 to 26.05, in one place. Checked against
 * the headers of 22.05.8, 23.02.8, 23.11.11, 24.05.8, 24.11.7, 25.05.8, 25.11.7 and 26.05.3. */
#ifndef SW_SLURM_COMPAT_H
#define SW_SLURM_COMPAT_H

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#include <errno.h>

/* Missing in public headers. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0) &&                                         \
    SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 5, 0)
extern void slurm_free_will_run_response_msg(void *msg);
#else
extern void slurm_free_will_run_response_msg(will_run_response_msg_t *msg);
#endif

/* slurm_get_errno() is gone from 24.11 on; it has always returned errno. */
#define SW_SLURM_ERRNO errno

/* Member for a job's trackable resources. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
#define SW_SLURM_GRES "gres/"
#else
#define SW_SLURM_GRES "gres:"
#endif

/* From 25.05 on only libslurm itself can read the topology: `scontrol show topology` prints it. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
#define SW_SLURM_HAS_TOPOLOGY 0
#define SW_SLURM_PARTITION_TOPOLOGY(partition) ((partition)->topology_name)
#else
#define SW_SLURM_HAS_TOPOLOGY 1
#define SW_SLURM_PARTITION_TOPOLOGY(partition) NULL
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define SW_SLURM_JOB_ID(job) ((job)->step_id.job_id)
#else
#define SW_SLURM_JOB_ID(job) ((job)->job_id)
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define SW_SLURM_FREE_CONF slurm_free_conf
#else
#define SW_SLURM_FREE_CONF slurm_free_ctl_conf
#endif

/* Bits of SelectTypeParameters, which slurm.h no longer has in 26.05, and of PriorityFlags. */
#define SW_SLURM_SOCKETS 0x0002
#define SW_SLURM_CORES 0x0004
#define SW_SLURM_MEMORY 0x0010
#ifdef PRIORITY_FLAGS_MAX_TRES_GRES
#define SW_SLURM_BILLING_MAX (PRIORITY_FLAGS_MAX_TRES | PRIORITY_FLAGS_MAX_TRES_GRES)
#else
#define SW_SLURM_BILLING_MAX PRIORITY_FLAGS_MAX_TRES
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
#define SW_SLURM_HAS_SEGMENT 1
#else
#define SW_SLURM_HAS_SEGMENT 0
#endif

#endif
