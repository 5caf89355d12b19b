#include "core/schedule/justify_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <tuple>
#include <utility>

#include "core/base/check.h"

namespace dpipe {
namespace {

constexpr uint32_t kSeed = 20260102;
constexpr int kNone = -1;

struct Op {
  Slot slot;
  int device = 0;
  Nanos ns = 0;
};

// From the end of one pass to the start of another at least.
struct Arc {
  int op = 0;
  Nanos delay_ns = 0;
};

// What of a device's time is taken: intervals that do not touch, increasing.
class Line {
 public:
  explicit Line(Nanos ready_ns = 0) {
    if (ready_ns > 0) taken_.emplace_back(0, ready_ns);
  }

  // Takes the first `ns` in one piece from `earliest` on; returns their start.
  Nanos Take(Nanos earliest, Nanos ns) {
    auto after = std::upper_bound(
        taken_.begin(), taken_.end(), earliest,
        [](Nanos time, const std::pair<Nanos, Nanos>& interval) { return time < interval.first; });
    Nanos start = earliest;
    if (after != taken_.begin()) start = std::max(start, std::prev(after)->second);
    for (; after != taken_.end() && after->first < start + ns; ++after) start = after->second;
    if (ns == 0) return start;
    const bool joins_before = after != taken_.begin() && std::prev(after)->second == start;
    const bool joins_after = after != taken_.end() && after->first == start + ns;
    if (joins_before && joins_after) {
      std::prev(after)->second = after->second;
      taken_.erase(after);
    } else if (joins_before) {
      std::prev(after)->second = start + ns;
    } else if (joins_after) {
      after->first = start;
    } else {
      taken_.insert(after, {start, start + ns});
    }
    return start;
  }

 private:
  std::vector<std::pair<Nanos, Nanos>> taken_;
};

// Start times of all passes.
struct Placed {
  std::vector<Nanos> start_ns;  // by op
  Nanos makespan_ns = 0;
};

class Justifier {
 public:
  Justifier(const Schedule& schedule, const JustifyOptions& options)
      : schedule_(schedule), options_(options), random_(kSeed) {
    for (int d = 0; d < schedule.num_devices(); ++d) {
      for (const Slot& slot : schedule.slots(d)) splits_ |= slot.pass == Pass::kWeightGrad;
    }
    MakeOps();
    MakeArcs();
    rank_.resize(ops_.size());
    const std::vector<int> order = ListBy(std::vector<double>(ops_.size(), 0));
    for (size_t i = 0; i < order.size(); ++i) rank_[order[i]] = static_cast<int>(i);
  }

  Schedule Run() {
    Placed best = Justified(Place(ListBy(OwnTimes()), /*backward=*/false));
    while (num_placed_ < options_.max_placed) {
      Placed changed = Justified(Place(ListBy(Changed(best)), /*backward=*/false));
      if (changed.makespan_ns <= best.makespan_ns) best = std::move(changed);
    }
    return OrderOf(best);
  }

 private:
  // Of a stage and micro-batch; kNone where there is no such pass.
  struct PairOps {
    int forward = kNone, gradient = kNone, weights = kNone;
  };

  int AddOp(Pass pass, int stage, int micro_batch, Nanos ns) {
    ops_.push_back({{pass, micro_batch, stage}, schedule_.DeviceOf(stage), ns});
    return static_cast<int>(ops_.size()) - 1;
  }

  void MakeOps() {
    pairs_.resize(schedule_.num_stages());
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      const PassCosts& costs = options_.costs[s];
      const int count = schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches;
      for (int m = 0; m < count; ++m) {
        PairOps pair;
        pair.forward = AddOp(Pass::kForward, s, m, costs.forward);
        if (!schedule_.IsForwardOnly(s) && splits_) {
          pair.gradient = AddOp(Pass::kInputGrad, s, m, costs.input_grad);
          pair.weights = AddOp(Pass::kWeightGrad, s, m, costs.weight_grad);
        } else if (!schedule_.IsForwardOnly(s)) {
          pair.gradient = AddOp(Pass::kBackward, s, m, costs.input_grad + costs.weight_grad);
          pair.weights = pair.gradient;
        }
        pairs_[s].push_back(pair);
      }
    }
    before_.resize(ops_.size());
    after_.resize(ops_.size());
  }

  void AddArc(int from, int to, Nanos delay_ns) {
    after_[from].push_back({to, delay_ns});
    before_[to].push_back({from, delay_ns});
  }

  static Nanos DelayOf(const std::vector<Nanos>& delays, int stage) {
    return delays.empty() ? 0 : delays[stage];
  }

  void MakeArcs() {
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      const int next = schedule_.Next(s);
      const int limit = options_.stage_limits.empty() ? 0 : options_.stage_limits[s];
      for (int m = 0; m < static_cast<int>(pairs_[s].size()); ++m) {
        const PairOps& pair = pairs_[s][m];
        if (next >= 0) {
          AddArc(pair.forward, pairs_[next][m].forward, DelayOf(options_.forward_delay_ns, s));
        }
        if (pair.gradient == kNone) continue;
        if (next < 0) {
          AddArc(pair.forward, pair.gradient, 0);
        } else {
          AddArc(pairs_[next][m].gradient, pair.gradient,
                 DelayOf(options_.gradient_delay_ns, next));
        }
        if (pair.weights != pair.gradient) AddArc(pair.gradient, pair.weights, 0);
        if (limit > 0 && m >= limit) AddArc(pairs_[s][m - limit].weights, pair.forward, 0);
      }
    }
  }

  // When passes start in the schedule as it is.
  std::vector<double> OwnTimes() const {
    std::vector<double> times(ops_.size(), 0);
    const std::vector<std::vector<Nanos>> starts = schedule_.StartTimes(options_.costs);
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      for (size_t i = 0; i < starts[d].size(); ++i) {
        const Slot& slot = schedule_.slots(d)[i];
        const PairOps& pair = pairs_[slot.stage][slot.micro_batch];
        const int op = slot.pass == Pass::kForward      ? pair.forward
                       : slot.pass == Pass::kWeightGrad ? pair.weights
                                                        : pair.gradient;
        times[op] = static_cast<double>(starts[d][i]);
        // Of a schedule that splits only some, the rest of a joint pass.
        if (slot.pass == Pass::kBackward && splits_) {
          times[pair.weights] = static_cast<double>(starts[d][i] + ops_[op].ns);
        }
      }
    }
    return times;
  }

  // Every pass after those before it, otherwise the smaller key first.
  std::vector<int> ListBy(const std::vector<double>& keys) const {
    std::vector<int> missing(ops_.size());
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t op = 0; op < ops_.size(); ++op) {
      missing[op] = static_cast<int>(before_[op].size());
      if (missing[op] == 0) ready.emplace(keys[op], static_cast<int>(op));
    }
    std::vector<int> list;
    list.reserve(ops_.size());
    while (!ready.empty()) {
      const int op = ready.top().second;
      ready.pop();
      list.push_back(op);
      for (const Arc& arc : after_[op]) {
        if (--missing[arc.op] == 0) ready.emplace(keys[arc.op], arc.op);
      }
    }
    DPIPE_CHECK_EQ(list.size(), ops_.size());
    return list;
  }

  // In the order of the list. Backwards, times are counted from the end, and a pass's start is the
  // end of it.
  Placed Place(const std::vector<int>& list, bool backward) {
    ++num_placed_;
    std::vector<Line> lines;
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      lines.emplace_back(backward ? 0 : DelayOf(options_.ready_ns, d));
    }
    Placed placed;
    placed.start_ns.resize(ops_.size());
    for (int op : list) {
      Nanos earliest = 0;
      for (const Arc& arc : backward ? after_[op] : before_[op]) {
        earliest = std::max(earliest, placed.start_ns[arc.op] + ops_[arc.op].ns + arc.delay_ns);
      }
      placed.start_ns[op] = lines[ops_[op].device].Take(earliest, ops_[op].ns);
      placed.makespan_ns = std::max(placed.makespan_ns, placed.start_ns[op] + ops_[op].ns);
    }
    return placed;
  }

  // The passes from the one that ends last, which is a list for the other direction.
  std::vector<int> LastFirst(const Placed& placed, bool backward) const {
    std::vector<int> list(ops_.size());
    std::iota(list.begin(), list.end(), 0);
    const auto key = [&](int op) {
      return std::make_tuple(-(placed.start_ns[op] + ops_[op].ns), -placed.start_ns[op],
                             backward ? rank_[op] : -rank_[op]);
    };
    std::sort(list.begin(), list.end(), [&](int a, int b) { return key(a) < key(b); });
    return list;
  }

  Placed Justified(Placed placed) {
    while (num_placed_ + 2 <= options_.max_placed) {
      const Placed right = Place(LastFirst(placed, /*backward=*/false), /*backward=*/true);
      Placed left = Place(LastFirst(right, /*backward=*/true), /*backward=*/false);
      if (left.makespan_ns >= placed.makespan_ns) break;
      placed = std::move(left);
    }
    return placed;
  }

  double Uniform() { return static_cast<double>(random_() % 65536) / 65536; }
  bool Chance(double p) { return Uniform() < p; }

  // Start times, some of them changed by up to a few hundredths of the makespan.
  std::vector<double> Changed(const Placed& placed) {
    std::vector<double> keys(placed.start_ns.begin(), placed.start_ns.end());
    const double share = Chance(0.5) ? 0.05 : 0.3;
    const double width =
        (Chance(0.5) ? 0.02 : 0.1) * Uniform() * static_cast<double>(placed.makespan_ns);
    const int kind = static_cast<int>(random_() % 3);
    const int device = static_cast<int>(random_() % schedule_.num_devices());
    for (size_t op = 0; op < ops_.size(); ++op) {
      if (kind == 1 && ops_[op].device != device) continue;
      if (kind == 2 && ops_[op].slot.pass != Pass::kWeightGrad) continue;
      if (Chance(kind == 0 ? share : 2 * share)) keys[op] += width * (2 * Uniform() - 1);
    }
    return keys;
  }

  Schedule OrderOf(const Placed& placed) const {
    std::vector<int> list(ops_.size());
    std::iota(list.begin(), list.end(), 0);
    std::sort(list.begin(), list.end(), [&](int a, int b) {
      return std::make_pair(placed.start_ns[a], rank_[a]) <
             std::make_pair(placed.start_ns[b], rank_[b]);
    });
    std::vector<std::vector<Slot>> slots(schedule_.num_devices());
    std::vector<std::array<int, 4>> next(schedule_.num_stages(), {0, 0, 0, 0});
    for (int op : list) {
      Slot slot = ops_[op].slot;
      slot.micro_batch = next[slot.stage][static_cast<int>(slot.pass)]++;
      slots[ops_[op].device].push_back(slot);
    }
    auto schedule = Schedule::Create(schedule_.name(), schedule_.chains(), std::move(slots));
    DPIPE_CHECK(schedule.ok()) << schedule.status();
    return *std::move(schedule);
  }

  const Schedule& schedule_;
  const JustifyOptions& options_;
  std::minstd_rand random_;
  bool splits_ = false;
  std::vector<Op> ops_;
  std::vector<std::vector<PairOps>> pairs_;       // [stage][micro-batch]
  std::vector<std::vector<Arc>> before_, after_;  // by op
  std::vector<int> rank_;  // by op: its place in one order that all arcs allow
  int num_placed_ = 0;
};

}  // namespace

Schedule JustifyOrder(const Schedule& schedule, const JustifyOptions& options) {
  return Justifier(schedule, options).Run();
}

}  // namespace dpipe
