// Beam search over the gaps: after each gap, keeps the `beam_width` partial packings with the least
// work left. Internal to pack.h.
//
// Each gap branches on the number of full-batch steps of each of the last two chains, and on the
// partial batches after them. Unlike in pack.h, a partial batch need not be efficient.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/greedy/chain_progress.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// Packs with a beam of options.beam_width. If there are more than two chains, all but the last two
// are not branched on: each gap first takes as many of their steps as fit.
// Time O(gaps * beam_width * steps * log(steps)) for two chains.
Packing BeamPack(const BatchesOfChains& batches, const std::vector<Nanos>& gaps,
                 const PackOptions& options);

// Returns the leftover_ns of that packing, in less time.
Nanos BeamLeftover(const BatchesOfChains& batches, const std::vector<Nanos>& gaps,
                   const PackOptions& options);

// Appends the rest of a chain to a packing, after its last gap.
void FinishChain(ChainProgress& chain, int num_gaps, Packing& packing);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_
