#include "core/planner/fill/pack.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {
namespace {

// How far one chain has come on the device.
class Progress {
 public:
  Progress(const FrozenWork& work, int chain, int num_units)
      : chain_(work.chains[chain]),
        index_(chain),
        num_units_(num_units),
        overhead_ns_(work.instruction_overhead_ns),
        step_(num_units == 0 ? num_steps() : 0) {}

  bool done() const { return step_ == num_steps(); }

  // [k]: the time of the next k full-batch steps, the first of which may be the rest of a step that
  // a partial batch began. Stops at the first that is longer than `limit`.
  std::vector<Nanos> FullBatchTimes(Nanos limit) const {
    std::vector<Nanos> times = {0};
    for (int step = step_; step < num_steps(); ++step) {
      const int left = step == step_ ? num_units_ - done_units_ : num_units_;
      const bool starts_instruction = chain_.steps[step].new_instruction || step == step_ ||
                                      (step == step_ + 1 && done_units_ > 0);
      const Nanos ns = chain_.step_ns[step][left] + (starts_instruction ? overhead_ns_ : 0);
      if (times.back() + ns > limit) break;
      times.push_back(times.back() + ns);
    }
    return times;
  }

  // Takes the next `count` full-batch steps.
  void Advance(int count, int gap, std::vector<Placement>& out) {
    if (count > 0 && done_units_ > 0) {
      out.push_back({gap, index_, step_, step_ + 1, done_units_, num_units_});
      done_units_ = 0;
      ++step_;
      --count;
    }
    if (count > 0) {
      out.push_back({gap, index_, step_, step_ + count, 0, num_units_});
      step_ += count;
    }
  }

  // The most units of the next step, short of all, that fit in `room` and are worth it; 0 for none.
  int PartialUnits(Nanos room) const {
    if (done()) return 0;
    const std::vector<Nanos>& ns = chain_.step_ns[step_];
    const int left = num_units_ - done_units_;
    int units = left - 1;
    while (units > 0 && ns[units] + overhead_ns_ > room) --units;
    if (units == 0) return 0;
    const Nanos saved_later = ns[left] - ns[left - units];
    return 2 * saved_later >= ns[units] + overhead_ns_ ? units : 0;
  }

  Nanos PartialTime(int units) const { return chain_.step_ns[step_][units] + overhead_ns_; }

  void AdvancePartially(int units, int gap, std::vector<Placement>& out) {
    out.push_back({gap, index_, step_, step_ + 1, done_units_, done_units_ + units});
    done_units_ += units;
  }

 private:
  int num_steps() const { return static_cast<int>(chain_.steps.size()); }

  const Chain& chain_;
  int index_;
  int num_units_;
  Nanos overhead_ns_;
  int step_;            // the first step that not all units have done
  int done_units_ = 0;  // units that have
};

constexpr Nanos kNoLimit = Nanos{1} << 62;

// The steps to take of each of the last two chains, the longest total that fits in `room`.
void TakeLongestPair(std::vector<Progress>& chains, int first, int gap, Nanos& room,
                     std::vector<Placement>& out) {
  const std::vector<Nanos> a = chains[first].FullBatchTimes(room);
  const std::vector<Nanos> b =
      first + 1 < chains.size() ? chains[first + 1].FullBatchTimes(room) : std::vector<Nanos>{0};
  int best_a = 0, best_b = 0;
  for (int i = 0; i < a.size(); ++i) {
    const int j =
        static_cast<int>(std::upper_bound(b.begin(), b.end(), room - a[i]) - b.begin()) - 1;
    // At equal times, more steps: some take no time, and what they make ready may.
    if (a[i] + b[j] >= a[best_a] + b[best_b]) best_a = i, best_b = j;
  }
  room -= a[best_a] + b[best_b];
  chains[first].Advance(best_a, gap, out);
  if (first + 1 < chains.size()) chains[first + 1].Advance(best_b, gap, out);
}

void TakeFullBatches(std::vector<Progress>& chains, int gap, Nanos& room,
                     std::vector<Placement>& out) {
  const int num_chains = static_cast<int>(chains.size());
  int c = 0;
  for (; c + 2 < num_chains; ++c) {
    const std::vector<Nanos> times = chains[c].FullBatchTimes(room);
    room -= times.back();
    chains[c].Advance(static_cast<int>(times.size()) - 1, gap, out);
  }
  if (c < num_chains) TakeLongestPair(chains, c, gap, room, out);
}

// One partial batch of each chain, the longest that fits first.
void TakePartialBatches(std::vector<Progress>& chains, int gap, Nanos& room,
                        std::vector<Placement>& out) {
  std::vector<bool> taken(chains.size(), false);
  while (true) {
    int best = -1, best_units = 0;
    for (int c = 0; c < chains.size(); ++c) {
      const int units = taken[c] ? 0 : chains[c].PartialUnits(room);
      if (units == 0) continue;
      if (best < 0 || chains[c].PartialTime(units) > chains[best].PartialTime(best_units)) {
        best = c, best_units = units;
      }
    }
    if (best < 0) return;
    room -= chains[best].PartialTime(best_units);
    chains[best].AdvancePartially(best_units, gap, out);
    taken[best] = true;
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

Packing Pack(const FrozenWork& work, const std::vector<int>& units, const std::vector<Nanos>& gaps,
             const PackOptions& options) {
  DPIPE_CHECK_EQ(units.size(), work.chains.size());
  std::vector<Progress> chains;
  for (int c = 0; c < units.size(); ++c) chains.emplace_back(work, c, units[c]);
  Packing packing;
  for (int g = 0; g < gaps.size(); ++g) {
    Nanos room = gaps[g];
    if (room >= options.min_gap_ns) {
      TakeFullBatches(chains, g, room, packing.placements);
      if (options.partial_batch) TakePartialBatches(chains, g, room, packing.placements);
    }
    packing.used_ns.push_back(gaps[g] - room);
  }
  for (Progress& chain : chains) {
    const std::vector<Nanos> rest = chain.FullBatchTimes(kNoLimit);
    packing.leftover_ns += rest.back();
    chain.Advance(static_cast<int>(rest.size()) - 1, static_cast<int>(gaps.size()),
                  packing.placements);
  }
  return packing;
}

}  // namespace dpipe
