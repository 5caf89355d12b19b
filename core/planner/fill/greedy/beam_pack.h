// Packing by several walks over the gaps at once, of which those are kept that have least left.
//
// A walk's choices in one gap: how many full-batch steps of the one chain and, then, of the other,
// and which partial batches besides, worth it or not. Internal to pack.h.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/greedy/chain_progress.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// With options.beam_width walks. O(gaps * width * steps * log) for two chains; with more, those
// beyond the second go first, each as far as fits.
Packing BeamPack(const std::vector<ChainBatches>& batches, const std::vector<Nanos>& gaps,
                 const PackOptions& options);

// Appends what is left of a chain to a packing, after its last gap.
void FinishChain(ChainProgress& chain, int num_gaps, Packing& packing);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_BEAM_PACK_H_
