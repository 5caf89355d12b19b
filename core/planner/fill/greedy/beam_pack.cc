#include "core/planner/fill/greedy/beam_pack.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace dpipe {
namespace {

// Full-batch steps of a chain, or a partial batch of its next step.
struct Move {
  int chain = 0;
  int steps = 0;  // full-batch steps
  int units = 0;  // of a partial batch; 0: none
};

using Chains = absl::InlinedVector<ChainProgress, 3>;

// A partial packing up to and including some gap. Extends `parent`, an index into the previous
// gap's partial packings.
struct PartialPacking {
  Chains chains;
  int parent = -1;
  absl::InlinedVector<Move, 6> moves;  // in this gap
  Nanos used_ns = 0;                   // in this gap
  Nanos rest_ns = 0;                   // time of all remaining work
};

class Beam {
 public:
  Beam(const std::vector<ChainBatches>& batches, const std::vector<Nanos>& gaps,
       const PackOptions& options)
      : batches_(batches), gaps_(gaps), options_(options), width_(options.beam_width) {
    PartialPacking start;
    start.chains = InitialChains();
    start.rest_ns = Rest(start);
    by_gap_.push_back({std::move(start)});
  }

  Packing Run() {
    for (size_t g = 0; g < gaps_.size(); ++g) {
      next_.clear();
      for (size_t w = 0; w < by_gap_.back().size(); ++w) {
        PartialPacking partial;
        partial.chains = by_gap_.back()[w].chains;
        partial.parent = static_cast<int>(w);
        partial.rest_ns = by_gap_.back()[w].rest_ns;
        if (gaps_[g] >= options_.min_gap_ns) Expand(partial, static_cast<int>(g));
        next_.push_back(std::move(partial));  // leaves this gap empty
      }
      by_gap_.push_back(Best());
    }
    return Trace();
  }

 private:
  Chains InitialChains() const {
    Chains chains;
    for (const ChainBatches& of_chain : batches_) chains.emplace_back(&of_chain);
    return chains;
  }

  static Nanos Rest(const PartialPacking& partial) {
    Nanos sum = 0;
    for (const ChainProgress& chain : partial.chains) sum += chain.RestTime();
    return sum;
  }

  static void Take(PartialPacking& partial, int chain, int count) {
    partial.used_ns += partial.chains[chain].FullBatchTime(count);
    partial.chains[chain].Advance(count, 0, nullptr);
    partial.moves.push_back({chain, count, 0});
  }

  static void TakePartially(PartialPacking& partial, int chain, int units) {
    partial.used_ns += partial.chains[chain].PartialTime(units);
    partial.chains[chain].AdvancePartially(units, 0, nullptr);
    partial.moves.push_back({chain, 0, units});
  }

  // Adds one extension per number of full-batch steps of the second-last chain, each with as many
  // steps of the last chain as then fit.
  void Expand(PartialPacking partial, int gap) {
    const int num_chains = static_cast<int>(partial.chains.size());
    int c = 0;
    for (; c + 2 < num_chains; ++c) {
      Take(partial, c, partial.chains[c].FullBatchSteps(gaps_[gap] - partial.used_ns));
    }
    if (c == num_chains) return;
    const Nanos room = gaps_[gap] - partial.used_ns;
    const bool pair = c + 1 < num_chains;
    const int max_steps = partial.chains[c].FullBatchSteps(room);
    for (int a = 0, b = pair ? partial.chains[c + 1].FullBatchSteps(room) : 0; a <= max_steps;
         ++a) {
      const Nanos left = room - partial.chains[c].FullBatchTime(a);
      while (b > 0 && partial.chains[c + 1].FullBatchTime(b) > left) --b;
      PartialPacking next = partial;
      Take(next, c, a);
      if (pair) Take(next, c + 1, b);
      AddWithPartials(next, gap);
    }
  }

  // Adds extensions of `partial` with a partial batch of each chain, of some chains and of none.
  void AddWithPartials(PartialPacking& partial, int gap) {
    const int num_chains = static_cast<int>(partial.chains.size());
    for (int first = 0; options_.partial_batch && first < num_chains; ++first) {
      PartialPacking next = partial;
      for (int k = 0; k < num_chains; ++k) {
        const int c = (first + k) % num_chains;
        const int units = next.chains[c].PartialUnits(gaps_[gap] - next.used_ns, 0);
        if (units == 0) {
          if (k == 0) break;
          continue;
        }
        TakePartially(next, c, units);
        next.rest_ns = Rest(next);
        next_.push_back(next);
        if (options_.one_partial) break;
      }
    }
    partial.rest_ns = Rest(partial);
    next_.push_back(std::move(partial));
  }

  // Returns the `width_` partial packings of next_ with the least work left, without duplicates.
  // Ties go to the earlier one.
  std::vector<PartialPacking> Best() {
    order_.clear();
    for (size_t i = 0; i < next_.size(); ++i) order_.emplace_back(next_[i].rest_ns, i);
    std::sort(order_.begin(), order_.end());
    std::vector<PartialPacking> kept;
    kept.reserve(width_);
    for (const auto& [rest_ns, i] : order_) {
      if (static_cast<int>(kept.size()) == width_) break;
      PartialPacking& partial = next_[i];
      const bool known = std::any_of(
          kept.begin(), kept.end(),
          [&partial](const PartialPacking& other) { return other.chains == partial.chains; });
      if (!known) kept.push_back(std::move(partial));
    }
    return kept;
  }

  Packing Trace() const {
    Packing packing;
    packing.used_ns.resize(gaps_.size());
    std::vector<const PartialPacking*> path(gaps_.size());
    int w = 0;
    for (size_t g = gaps_.size(); g-- > 0;) {
      path[g] = &by_gap_[g + 1][w];
      w = path[g]->parent;
    }
    Chains chains = InitialChains();
    for (size_t g = 0; g < gaps_.size(); ++g) {
      packing.used_ns[g] = path[g]->used_ns;
      for (const Move& move : path[g]->moves) {
        ChainProgress& chain = chains[move.chain];
        chain.Advance(move.steps, static_cast<int>(g), &packing.placements);
        if (move.units == 0) continue;
        chain.AdvancePartially(move.units, static_cast<int>(g), &packing.placements);
      }
    }
    for (ChainProgress& chain : chains) FinishChain(chain, static_cast<int>(gaps_.size()), packing);
    return packing;
  }

  const std::vector<ChainBatches>& batches_;
  const std::vector<Nanos>& gaps_;
  const PackOptions options_;
  const int width_;
  std::vector<std::vector<PartialPacking>> by_gap_;  // [g]: partial packings before gap g
  std::vector<PartialPacking> next_;
  std::vector<std::pair<Nanos, size_t>> order_;
};

}  // namespace

Packing BeamPack(const std::vector<ChainBatches>& batches, const std::vector<Nanos>& gaps,
                 const PackOptions& options) {
  return Beam(batches, gaps, options).Run();
}

}  // namespace dpipe
