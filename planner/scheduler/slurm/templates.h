/* The templates of job scripts in templates/ at build time. */
#ifndef SW_SLURM_TEMPLATES_H
#define SW_SLURM_TEMPLATES_H

extern const char sw_template_slurm_sbatch[], sw_template_srun_sbatch[],
    sw_template_inference_sbatch[];

#endif
