/* Prices of single decisions on one mesh, as options.c, order.c and rings.c ask for them. */
#include "planner/search/mesh.h"

#include <math.h>

bool sw_searcher_lacks_memory(const struct sw_searcher *s, const struct sw_sized *sized)
{
    return sized->least_bytes >
           (s->most_bytes > 0 ? s->run->cluster.accelerator.memory_bytes : sw_searcher_limit(s));
}

double sw_candidate_seconds(const struct sw_candidate *c)
{
    return c != NULL && c->reason == SW_FITS ? c->cost.step_seconds : INFINITY;
}

int sw_searcher_try(struct sw_searcher *s, const struct sw_decision *decision,
                    struct sw_candidate *c, struct sw_error *err)
{
    struct sw_sized sized;
    c->reason = SW_REJECT_MEMORY;
    if (sw_searcher_size(s, decision, &sized, err) != 0)
        return -1;
    if (sized.program == NULL || sw_searcher_lacks_memory(s, &sized))
        return 0;
    return sw_searcher_price(s, &sized, false, c, err);
}

int sw_mesh_search_fit(struct sw_searcher *s, const struct sw_mesh_search *l, int32_t way,
                       const struct sw_decision *decision, double than, struct sw_candidate *c,
                       struct sw_error *err)
{
    const struct sw_guess *guess = &l->guess[way];
    struct sw_option option = {.micro_batch_size = decision->train.micro_batch_size};
    if (guess->levels.count == 0)
        return sw_searcher_try(s, decision, c, err);
    sw_guess_option(guess, &option);
    const double times = (double)option.micro_batch_size / guess->sequences;
    return sw_searcher_fit(s, decision, &guess->levels, times, option.level, guess->limit_bytes,
                           than, c, err);
}

bool sw_variant_is_of(const struct sw_variant *v, const struct sw_decision *decision)
{
    return v->strategy == decision->train.strategy && v->layout == decision->train.layout &&
           v->residual_seq_tp == decision->train.residual_seq_tp;
}
