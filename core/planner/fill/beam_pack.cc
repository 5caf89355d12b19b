#include "core/planner/fill/beam_pack.h"

#include <algorithm>
#include <utility>

namespace dpipe {
namespace {

// A walk after some gap; the walk before it is `parent`, of the gap before.
struct Walk {
  std::vector<ChainProgress> chains;
  int parent = -1;
  std::vector<Placement> placements;  // in this gap
  Nanos used_ns = 0;                  // of this gap
  Nanos rest_ns = 0;                  // if nothing more fitted anywhere
};

class Beam {
 public:
  Beam(const FrozenWork& work, const std::vector<int>& units, const std::vector<Nanos>& gaps,
       const PackOptions& options)
      : gaps_(gaps), options_(options), width_(options.beam_width) {
    Walk start;
    for (size_t c = 0; c < units.size(); ++c) {
      start.chains.emplace_back(work, static_cast<int>(c), units[c], options.max_batch_units);
    }
    start.rest_ns = Rest(start);
    by_gap_.push_back({std::move(start)});
  }

  Packing Run() {
    for (size_t g = 0; g < gaps_.size(); ++g) {
      next_.clear();
      for (size_t w = 0; w < by_gap_.back().size(); ++w) {
        Walk walk;
        walk.chains = by_gap_.back()[w].chains;
        walk.parent = static_cast<int>(w);
        walk.rest_ns = by_gap_.back()[w].rest_ns;
        if (gaps_[g] >= options_.min_gap_ns) Expand(walk, static_cast<int>(g));
        next_.push_back(std::move(walk));  // nothing in this gap
      }
      KeepBest();
      by_gap_.push_back(std::move(next_));
    }
    return Trace();
  }

 private:
  static Nanos Rest(const Walk& walk) {
    Nanos sum = 0;
    for (const ChainProgress& chain : walk.chains) sum += chain.RestTime();
    return sum;
  }

  void Take(Walk& walk, int chain, int count, Nanos ns, int gap) const {
    walk.chains[chain].Advance(count, gap, walk.placements);
    walk.used_ns += ns;
  }

  // All pairs of full-batch steps of the last two chains that leave no room for one more of the
  // second.
  void Expand(Walk walk, int gap) {
    const int num_chains = static_cast<int>(walk.chains.size());
    int c = 0;
    for (; c + 2 < num_chains; ++c) {
      const std::vector<Nanos> times = walk.chains[c].FullBatchTimes(gaps_[gap] - walk.used_ns);
      Take(walk, c, static_cast<int>(times.size()) - 1, times.back(), gap);
    }
    if (c == num_chains) return;
    const Nanos room = gaps_[gap] - walk.used_ns;
    const std::vector<Nanos> a = walk.chains[c].FullBatchTimes(room);
    const bool pair = c + 1 < num_chains;
    const std::vector<Nanos> b =
        pair ? walk.chains[c + 1].FullBatchTimes(room) : std::vector<Nanos>{0};
    for (size_t i = 0; i < a.size(); ++i) {
      const int j =
          static_cast<int>(std::upper_bound(b.begin(), b.end(), room - a[i]) - b.begin()) - 1;
      Walk next = walk;
      Take(next, c, static_cast<int>(i), a[i], gap);
      if (pair) Take(next, c + 1, j, b[j], gap);
      AddWithPartials(next, gap);
    }
  }

  // With a partial batch of each chain, of one, or of none.
  void AddWithPartials(Walk& walk, int gap) {
    const int num_chains = static_cast<int>(walk.chains.size());
    for (int first = 0; options_.partial_batch && first < num_chains; ++first) {
      Walk next = walk;
      for (int k = 0; k < num_chains; ++k) {
        const int c = (first + k) % num_chains;
        const int units = next.chains[c].PartialUnits(gaps_[gap] - next.used_ns, 0);
        if (units == 0) {
          if (k == 0) break;
          continue;
        }
        next.used_ns += next.chains[c].PartialTime(units);
        next.chains[c].AdvancePartially(units, gap, next.placements);
        Walk partial = next;
        partial.rest_ns = Rest(partial);
        next_.push_back(std::move(partial));
      }
    }
    walk.rest_ns = Rest(walk);
    next_.push_back(walk);
  }

  void KeepBest() {
    std::stable_sort(next_.begin(), next_.end(),
                     [](const Walk& a, const Walk& b) { return a.rest_ns < b.rest_ns; });
    std::vector<Walk> kept;
    for (Walk& walk : next_) {
      if (static_cast<int>(kept.size()) == width_) break;
      const bool known = std::any_of(kept.begin(), kept.end(), [&walk](const Walk& other) {
        return other.chains == walk.chains;
      });
      if (!known) kept.push_back(std::move(walk));
    }
    next_ = std::move(kept);
  }

  Packing Trace() {
    Packing packing;
    packing.used_ns.resize(gaps_.size());
    std::vector<const Walk*> path(gaps_.size());
    int w = 0;
    for (size_t g = gaps_.size(); g-- > 0;) {
      path[g] = &by_gap_[g + 1][w];
      w = path[g]->parent;
    }
    for (size_t g = 0; g < gaps_.size(); ++g) {
      packing.used_ns[g] = path[g]->used_ns;
      packing.placements.insert(packing.placements.end(), path[g]->placements.begin(),
                                path[g]->placements.end());
    }
    FinishChains(by_gap_.back().front().chains, static_cast<int>(gaps_.size()), packing);
    return packing;
  }

  const std::vector<Nanos>& gaps_;
  const PackOptions options_;
  const int width_;
  std::vector<std::vector<Walk>> by_gap_;  // [g]: before gap g
  std::vector<Walk> next_;
};

}  // namespace

Packing BeamPack(const FrozenWork& work, const std::vector<int>& units,
                 const std::vector<Nanos>& gaps, const PackOptions& options) {
  return Beam(work, units, gaps, options).Run();
}

}  // namespace dpipe
