/* Keys of other software. */
#include "core/config/internal.h"

#include <string.h>

const char *sw_key_elsewhere(const char *key)
{
    static const char *const names[][2] = {{"lr", "learning_rate"},
                                           {"min_lr", "min_learning_rate"},
                                           {"max_grad_norm", "grad_clip"},
                                           {"max_steps", "total_steps"},
                                           {"train_steps", "total_steps"},
                                           {"batch_size", "global_batch_size"},
                                           {"train_batch_size", "global_batch_size"},
                                           {"seq_len", "sequence_length"},
                                           {"seq_length", "sequence_length"},
                                           {"max_seq_len", "sequence_length"},
                                           {"context_length", "sequence_length"},
                                           {"activation_checkpointing", "recompute"},
                                           {"gradient_checkpointing", "recompute"},
                                           {"mesh", "mesh_dim"},
                                           {"output_dir", "directory"},
                                           {"num_nodes", "nodes"},
                                           {"gpus_per_node", "accelerators_per_node"},
                                           {"walltime", "time"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], key) == 0)
            return names[i][1];
    return NULL;
}
