#include "core/schedule/tuning/justify_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace dpipe {
namespace {

// Seeds std::minstd_rand: the standard fixes its sequence, and it is faster than RandomStream. A
// list takes one or two numbers per pass.
constexpr uint32_t kSeed = 20260102;

// The busy time of a device, as increasing intervals that do not touch. A pass of duration 0 has an
// empty interval, so that no other pass spans it.
class BusyTime {
 public:
  explicit BusyTime(Nanos ready_ns = 0) {
    if (ready_ns > 0) intervals_.emplace_back(0, ready_ns);
  }

  // Reserves the first gap of `ns` that starts at `earliest` or later. Returns its start.
  Nanos Reserve(Nanos earliest, Nanos ns) {
    auto after = std::upper_bound(
        intervals_.begin(), intervals_.end(), earliest,
        [](Nanos time, const std::pair<Nanos, Nanos>& interval) { return time < interval.first; });
    Nanos start = earliest;
    if (after != intervals_.begin()) start = std::max(start, std::prev(after)->second);
    for (; after != intervals_.end() && after->first < start + ns; ++after) start = after->second;
    const bool joins_before = after != intervals_.begin() && std::prev(after)->second == start;
    const bool joins_after = after != intervals_.end() && after->first == start + ns;
    if (joins_before && joins_after) {
      std::prev(after)->second = after->second;
      intervals_.erase(after);
    } else if (joins_before) {
      std::prev(after)->second = start + ns;
    } else if (joins_after) {
      after->first = start;
    } else {
      intervals_.insert(after, {start, start + ns});
    }
    return start;
  }

 private:
  std::vector<std::pair<Nanos, Nanos>> intervals_;
};

// Start times of all passes.
struct Placed {
  std::vector<Nanos> start_ns;  // by op
  Nanos makespan_ns = 0;
};

class Justifier {
 public:
  Justifier(const Schedule& schedule, const JustifyOptions& options)
      : options_(options), graph_(schedule, options.times), random_(kSeed) {}

  Schedule Run() {
    Placed best = Justified(Place(graph_.ListBy(graph_.OwnTimes()), /*backward=*/false));
    while (num_placed_ < options_.max_placed) {
      Placed perturbed = Justified(Place(graph_.ListBy(Perturbed(best)), /*backward=*/false));
      if (perturbed.makespan_ns <= best.makespan_ns) best = std::move(perturbed);
    }
    return graph_.OrderedBy(best.start_ns);
  }

 private:
  // Places the passes in the order of the list. If `backward`, times count from the end of the
  // schedule, so the start of a pass here is its end in schedule time.
  Placed Place(const std::vector<int>& list, bool backward) {
    ++num_placed_;
    std::vector<BusyTime> busy;
    for (int d = 0; d < graph_.num_devices(); ++d) {
      busy.emplace_back(backward ? 0 : graph_.ReadyNs(d));
    }
    Placed placed;
    placed.start_ns.resize(graph_.num_ops());
    for (int op : list) {
      Nanos earliest = 0;
      const PassGraph::Op& pass = graph_.op(op);
      for (const PassGraph::Arc& arc : backward ? graph_.After(op) : graph_.Before(op)) {
        const Nanos end = placed.start_ns[arc.op] + graph_.op(arc.op).ns;
        earliest = std::max(earliest, end + arc.delay_ns);
      }
      placed.start_ns[op] = busy[pass.device].Reserve(earliest, pass.ns);
      placed.makespan_ns = std::max(placed.makespan_ns, placed.start_ns[op] + pass.ns);
    }
    return placed;
  }

  // Returns the passes by decreasing end time: a list for the other direction. `backward` is the
  // direction of `placed`.
  std::vector<int> LastFirst(const Placed& placed, bool backward) const {
    std::vector<int> list(graph_.num_ops());
    std::iota(list.begin(), list.end(), 0);
    const auto key = [&](int op) {
      return std::make_tuple(-(placed.start_ns[op] + graph_.op(op).ns), -placed.start_ns[op],
                             backward ? graph_.RankOf(op) : -graph_.RankOf(op));
    };
    std::sort(list.begin(), list.end(), [&](int a, int b) { return key(a) < key(b); });
    return list;
  }

  // Repeats double justification while it shortens the placement and the budget allows it.
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

  // Returns the start times, some of them shifted at random by up to 10% of the makespan.
  std::vector<double> Perturbed(const Placed& placed) {
    std::vector<double> keys(placed.start_ns.begin(), placed.start_ns.end());
    const double share = Chance(0.5) ? 0.05 : 0.3;
    const double width =
        (Chance(0.5) ? 0.02 : 0.1) * Uniform() * static_cast<double>(placed.makespan_ns);
    const int kind = static_cast<int>(random_() % 3);
    const int device = static_cast<int>(random_() % graph_.num_devices());
    for (int op = 0; op < graph_.num_ops(); ++op) {
      if (kind == 1 && graph_.op(op).device != device) continue;
      if (kind == 2 && graph_.op(op).slot.pass != Pass::kWeightGrad) continue;
      if (Chance(kind == 0 ? share : 2 * share)) keys[op] += width * (2 * Uniform() - 1);
    }
    return keys;
  }

  const JustifyOptions& options_;
  const PassGraph graph_;
  std::minstd_rand random_;
  int num_placed_ = 0;
};

}  // namespace

Schedule JustifyOrder(const Schedule& schedule, const JustifyOptions& options) {
  return Justifier(schedule, options).Run();
}

}  // namespace dpipe
