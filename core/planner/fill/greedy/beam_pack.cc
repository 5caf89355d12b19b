#include "core/planner/fill/greedy/beam_pack.h"

#include <algorithm>
#include <iterator>
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
  Beam(const BatchesOfChains& batches, const std::vector<Nanos>& gaps, const PackOptions& options)
      : batches_(batches), gaps_(gaps), options_(options), width_(options.beam_width) {
    PartialPacking start;
    start.chains = InitialChains();
    for (const ChainProgress& chain : start.chains) start.rest_ns += chain.RestTime();
    current_.push_back(std::move(start));
  }

  Packing Run() {
    std::vector<std::vector<PartialPacking>> by_gap;
    for (size_t g = 0; g < gaps_.size(); ++g) {
      Extend(static_cast<int>(g));
      by_gap.push_back(current_);
    }
    return Trace(by_gap);
  }

  Nanos LeftoverNs() {
    for (size_t g = 0; g < gaps_.size(); ++g) {
      if (current_[0].rest_ns == 0) break;
      Extend(static_cast<int>(g));
    }
    return current_[0].rest_ns;
  }

 private:
  Chains InitialChains() const {
    Chains chains;
    for (const ChainBatches* of_chain : batches_) chains.emplace_back(of_chain);
    return chains;
  }

  // Replaces the partial packings before a gap by those after it.
  void Extend(int gap) {
    kept_.clear();
    for (size_t w = 0; w < current_.size(); ++w) {
      PartialPacking partial;
      partial.chains = current_[w].chains;
      partial.parent = static_cast<int>(w);
      partial.rest_ns = current_[w].rest_ns;
      if (gaps_[gap] >= options_.min_gap_ns) Expand(partial, gaps_[gap]);
      Offer(partial);  // leaves this gap empty
    }
    std::swap(current_, kept_);
  }

  static void Take(PartialPacking& partial, int chain, int count) {
    ChainProgress& progress = partial.chains[chain];
    partial.used_ns += progress.FullBatchTime(count);
    partial.rest_ns -= progress.RestTime();
    progress.Advance(count, 0, nullptr);
    partial.rest_ns += progress.RestTime();
    partial.moves.push_back({chain, count, 0});
  }

  static void TakePartially(PartialPacking& partial, int chain, int units) {
    ChainProgress& progress = partial.chains[chain];
    partial.used_ns += progress.PartialTime(units);
    partial.rest_ns -= progress.RestTime();
    progress.AdvancePartially(units, 0, nullptr);
    partial.rest_ns += progress.RestTime();
    partial.moves.push_back({chain, 0, units});
  }

  // Offers one extension per number of full-batch steps of the second-last chain, each with as many
  // steps of the last chain as then fit.
  void Expand(PartialPacking partial, Nanos gap_ns) {
    const int num_chains = static_cast<int>(partial.chains.size());
    int c = 0;
    for (; c + 2 < num_chains; ++c) {
      Take(partial, c, partial.chains[c].FullBatchSteps(gap_ns - partial.used_ns));
    }
    if (c == num_chains) return;
    const Nanos room = gap_ns - partial.used_ns;
    const bool pair = c + 1 < num_chains;
    const int max_steps = partial.chains[c].FullBatchSteps(room);
    for (int a = 0, b = pair ? partial.chains[c + 1].FullBatchSteps(room) : 0; a <= max_steps;
         ++a) {
      const Nanos left = room - partial.chains[c].FullBatchTime(a);
      while (b > 0 && partial.chains[c + 1].FullBatchTime(b) > left) --b;
      PartialPacking next = partial;
      Take(next, c, a);
      if (pair) Take(next, c + 1, b);
      OfferWithPartials(next, gap_ns);
    }
  }

  // Offers `partial` with a partial batch of each chain, of some chains and of none.
  void OfferWithPartials(const PartialPacking& partial, Nanos gap_ns) {
    const int num_chains = static_cast<int>(partial.chains.size());
    for (int first = 0; options_.partial_batch && first < num_chains; ++first) {
      int units = partial.chains[first].PartialUnits(gap_ns - partial.used_ns, 0);
      if (units == 0) continue;
      PartialPacking next = partial;
      for (int k = 0; k < num_chains; ++k) {
        const int c = (first + k) % num_chains;
        if (k > 0) units = next.chains[c].PartialUnits(gap_ns - next.used_ns, 0);
        if (units == 0) continue;
        TakePartially(next, c, units);
        Offer(next);
        if (options_.one_partial) break;
      }
    }
    Offer(partial);
  }

  // Keeps the `width_` partial packings with the least work left, without duplicates. Ties go to
  // the one offered first.
  void Offer(const PartialPacking& partial) {
    const bool is_full = static_cast<int>(kept_.size()) == width_;
    if (is_full && partial.rest_ns >= kept_.back().rest_ns) return;
    auto place = kept_.end();
    while (place != kept_.begin() && std::prev(place)->rest_ns > partial.rest_ns) --place;
    for (auto same = place; same != kept_.begin();) {
      --same;
      if (same->rest_ns != partial.rest_ns) break;
      if (same->chains == partial.chains) return;
    }
    if (is_full) {
      std::move_backward(place, std::prev(kept_.end()), kept_.end());
      *place = partial;
    } else {
      kept_.insert(place, partial);
    }
  }

  Packing Trace(const std::vector<std::vector<PartialPacking>>& by_gap) const {
    Packing packing;
    packing.used_ns.resize(gaps_.size());
    std::vector<const PartialPacking*> path(gaps_.size());
    int w = 0;
    for (size_t g = gaps_.size(); g-- > 0;) {
      path[g] = &by_gap[g][w];
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

  const BatchesOfChains& batches_;
  const std::vector<Nanos>& gaps_;
  const PackOptions& options_;
  const int width_;
  std::vector<PartialPacking> current_;  // before the current gap
  std::vector<PartialPacking> kept_;     // after it, so far
};

}  // namespace

Packing BeamPack(const BatchesOfChains& batches, const std::vector<Nanos>& gaps,
                 const PackOptions& options) {
  return Beam(batches, gaps, options).Run();
}

Nanos BeamLeftover(const BatchesOfChains& batches, const std::vector<Nanos>& gaps,
                   const PackOptions& options) {
  return Beam(batches, gaps, options).LeftoverNs();
}

}  // namespace dpipe
