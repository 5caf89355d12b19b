#include "core/planner/fill/greedy/pack.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "core/base/check.h"
#include "core/planner/fill/greedy/beam_pack.h"
#include "core/planner/fill/greedy/chain_progress.h"

namespace dpipe {
namespace {

// Minimum saving of a partial batch, as a fraction of its own time (pack.h).
constexpr double kMinSaving = 0.5;

// Takes the full-batch steps of the last two chains (or of the only one) with the longest total
// time that fits in `room`.
void TakeLongestPair(std::vector<ChainProgress>& chains, int first, int gap, Nanos& room,
                     std::vector<Placement>* out) {
  const bool pair = first + 1 < static_cast<int>(chains.size());
  const int max_steps = chains[first].FullBatchSteps(room);
  int best_a = 0, best_b = 0;
  Nanos longest = 0;
  for (int a = 0, b = pair ? chains[first + 1].FullBatchSteps(room) : 0; a <= max_steps; ++a) {
    const Nanos ns = chains[first].FullBatchTime(a);
    while (b > 0 && chains[first + 1].FullBatchTime(b) > room - ns) --b;
    const Nanos both = ns + (pair ? chains[first + 1].FullBatchTime(b) : 0);
    // Of equal times, prefers more steps: steps that take no time may make others ready.
    if (both >= longest) longest = both, best_a = a, best_b = b;
  }
  room -= longest;
  chains[first].Advance(best_a, gap, out);
  if (pair) chains[first + 1].Advance(best_b, gap, out);
}

void TakeFullBatches(std::vector<ChainProgress>& chains, int gap, Nanos& room,
                     std::vector<Placement>* out) {
  const int num_chains = static_cast<int>(chains.size());
  int c = 0;
  for (; c + 2 < num_chains; ++c) {
    const int count = chains[c].FullBatchSteps(room);
    room -= chains[c].FullBatchTime(count);
    chains[c].Advance(count, gap, out);
  }
  if (c < num_chains) TakeLongestPair(chains, c, gap, room, out);
}

// Takes at most one partial batch of each chain, or only one, the longest that fits first.
void TakePartialBatches(std::vector<ChainProgress>& chains, int gap, bool only_one, Nanos& room,
                        std::vector<Placement>* out) {
  absl::InlinedVector<bool, 4> taken(chains.size(), false);
  while (true) {
    int best = -1, best_units = 0;
    for (int c = 0; c < chains.size(); ++c) {
      const int units = taken[c] ? 0 : chains[c].PartialUnits(room, kMinSaving);
      if (units == 0) continue;
      if (best < 0 || chains[c].PartialTime(units) > chains[best].PartialTime(best_units)) {
        best = c, best_units = units;
      }
    }
    if (best < 0) return;
    room -= chains[best].PartialTime(best_units);
    chains[best].AdvancePartially(best_units, gap, out);
    taken[best] = true;
    if (only_one) return;
  }
}

}  // namespace

Nanos PlacementTime(const FrozenWork& work, const Placement& placement) {
  const Chain& chain = work.chains[placement.chain];
  const int units = placement.unit_end - placement.unit_begin;
  Nanos sum = 0;
  for (int s = placement.step_begin; s < placement.step_end; ++s) {
    const bool starts = s == placement.step_begin || chain.steps[s].new_instruction;
    sum += chain.step_ns[s][units] + (starts ? work.instruction_overhead_ns : 0);
  }
  return sum;
}

namespace {

// Without `placements`, sets only leftover_ns.
void PackGreedily(const BatchesOfChains& batches, const std::vector<Nanos>& gaps,
                  const PackOptions& options, std::vector<Placement>* placements,
                  Packing* packing) {
  std::vector<ChainProgress> chains;
  chains.reserve(batches.size());
  for (const ChainBatches* of_chain : batches) chains.emplace_back(of_chain);
  if (placements != nullptr) packing->used_ns.reserve(gaps.size());
  for (int g = 0; g < gaps.size(); ++g) {
    Nanos room = gaps[g];
    if (room >= options.min_gap_ns) {
      TakeFullBatches(chains, g, room, placements);
      if (options.partial_batch) {
        TakePartialBatches(chains, g, options.one_partial, room, placements);
      }
    }
    if (placements != nullptr) packing->used_ns.push_back(gaps[g] - room);
  }
  for (ChainProgress& chain : chains) {
    packing->leftover_ns += chain.RestTime();
    chain.Advance(chain.StepsLeft(), static_cast<int>(gaps.size()), placements);
  }
}

}  // namespace

void FinishChain(ChainProgress& chain, int num_gaps, Packing& packing) {
  packing.leftover_ns += chain.RestTime();
  chain.Advance(chain.StepsLeft(), num_gaps, &packing.placements);
}

Packing Pack(const FrozenWork& work, const std::vector<int>& units, const std::vector<Nanos>& gaps,
             const PackOptions& options) {
  return Packer(work).Pack(units, gaps, options);
}

Packer::Packer(const FrozenWork& work) : work_(work) {}
Packer::~Packer() = default;

const std::vector<const ChainBatches*>& Packer::BatchesOf(const std::vector<int>& units,
                                                          int max_batch_units) {
  DPIPE_CHECK_EQ(units.size(), work_.chains.size());
  current_.clear();
  for (int c = 0; c < static_cast<int>(units.size()); ++c) {
    std::unique_ptr<const ChainBatches>& batches = known_[{c, units[c], max_batch_units}];
    if (batches == nullptr) {
      batches = std::make_unique<const ChainBatches>(work_, c, units[c], max_batch_units);
    }
    current_.push_back(batches.get());
  }
  return current_;
}

Packing Packer::Pack(const std::vector<int>& units, const std::vector<Nanos>& gaps,
                     const PackOptions& options) {
  const BatchesOfChains& batches = BatchesOf(units, options.max_batch_units);
  Packing packing;
  PackGreedily(batches, gaps, options, &packing.placements, &packing);
  if (options.beam_width <= 1 || packing.leftover_ns == 0) return packing;
  Packing searched = BeamPack(batches, gaps, options);
  return searched.leftover_ns < packing.leftover_ns ? searched : packing;
}

Nanos Packer::Leftover(const std::vector<int>& units, const std::vector<Nanos>& gaps,
                       const PackOptions& options) {
  const BatchesOfChains& batches = BatchesOf(units, options.max_batch_units);
  Packing packing;
  PackGreedily(batches, gaps, options, nullptr, &packing);
  if (options.beam_width <= 1 || packing.leftover_ns == 0) return packing.leftover_ns;
  return std::min(packing.leftover_ns, BeamLeftover(batches, gaps, options));
}

}  // namespace dpipe
