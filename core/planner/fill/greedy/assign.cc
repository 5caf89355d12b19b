#include "core/planner/fill/greedy/assign.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace dpipe {
namespace {

// Number of devices that moves may go to: those that finish first. More targets rarely help and
// cost time.
constexpr int kMoveTargets = 4;
// Budget of the local search, in packed gaps times beam width. With many gaps, little work is left
// over and each change is expensive to evaluate.
constexpr int64_t kMaxPackedGaps = 200000;

Nanos Total(const std::vector<Nanos>& v) { return std::accumulate(v.begin(), v.end(), Nanos{0}); }

class Assigner {
 public:
  Assigner(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
           const AssignOptions& options)
      : work_(work),
        devices_(devices),
        options_(options.pack),
        even_(options.even_samples),
        packer_(work) {
    result_.units.assign(devices.size(), std::vector<int>(work.chains.size(), 0));
    result_.packings.resize(devices.size());
    result_.finish_ns.resize(devices.size());
    leftovers_.resize(devices.size());
    for (const DeviceGaps& device : devices) {
      barrier_ns_ = std::max({barrier_ns_, device.end_ns, device.optimizer_ns});
    }
  }

  Assignment Run() {
    const int beam_width = options_.beam_width;
    options_.beam_width = 1;
    if (even_) {
      AssignEvenly();
    } else {
      AssignLongestFirst();
    }
    for (int d = 0; d < devices_.size(); ++d) Repack(d);
    ImproveWhilePossible();
    if (beam_width > 1) {
      options_.beam_width = beam_width;
      leftovers_.assign(devices_.size(), {});
      for (int d = 0; d < devices_.size(); ++d) {
        if (result_.finish_ns[d] > barrier_ns_) Repack(d);
      }
      ImproveWhilePossible();
    }
    return std::move(result_);
  }

 private:
  void AssignEvenly() {
    const int num_devices = static_cast<int>(devices_.size());
    for (int d = 0; d < num_devices; ++d) {
      const int share = EvenShare(work_.num_units, num_devices, d);
      result_.units[d].assign(work_.chains.size(), share);
    }
  }

  bool MayTake(int d, int chain, int units) const {
    const std::vector<int>& max_units = devices_[d].max_units;
    return max_units.empty() || units <= max_units[chain];
  }

  // Returns the least busy device that may take one more unit, or the least busy one if none may.
  int NextDevice(const std::vector<Nanos>& busy, int chain) const {
    int best = -1;
    for (int d = 0; d < static_cast<int>(busy.size()); ++d) {
      if (!MayTake(d, chain, result_.units[d][chain] + 1)) continue;
      if (best < 0 || busy[d] < busy[best]) best = d;
    }
    if (best >= 0) return best;
    return static_cast<int>(std::min_element(busy.begin(), busy.end()) - busy.begin());
  }

  // Assigns units, longest chain first, each to the device with the least busy time.
  void AssignLongestFirst() {
    std::vector<int> order(work_.chains.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
      return work_.chains[a].total_ns.back() > work_.chains[b].total_ns.back();
    });
    std::vector<Nanos> busy;
    for (int d = 0; d < devices_.size(); ++d) {
      busy.push_back(devices_[d].end_ns - OnDevice(d, Total(devices_[d].gaps)));
    }
    for (int c : order) {
      for (int u = 0; u < work_.num_units; ++u) {
        const int d = NextDevice(busy, c);
        const int n = result_.units[d][c]++;
        busy[d] += OnDevice(d, work_.chains[c].total_ns[n + 1] - work_.chains[c].total_ns[n]);
      }
    }
  }

  // Returns the options for packing device d, and charges the budget for it.
  PackOptions Charge(int d) {
    PackOptions options = options_;
    options.max_batch_units = devices_[d].max_batch_units;
    packed_gaps_ += static_cast<int64_t>(devices_[d].gaps.size()) * options.beam_width;
    return options;
  }

  // Returns the time that work of `ns` takes on device d.
  Nanos OnDevice(int d, Nanos ns) const { return TimeAtSpeed(ns, devices_[d].speed); }

  // Returns the finish of device d with `units[c]` units of each chain c.
  Nanos Finish(int d, const std::vector<int>& units) {
    const auto [leftover, added] = leftovers_[d].try_emplace(units, 0);
    if (added) leftover->second = packer_.Leftover(units, devices_[d].gaps, Charge(d));
    return devices_[d].end_ns + OnDevice(d, leftover->second);
  }

  void Repack(int d) {
    result_.packings[d] = packer_.Pack(result_.units[d], devices_[d].gaps, Charge(d));
    leftovers_[d][result_.units[d]] = result_.packings[d].leftover_ns;
    result_.finish_ns[d] = Finish(d, result_.units[d]);
  }

  struct Change {
    int to = -1;
    std::vector<int> from_units, to_units;
    Nanos worse_finish_ns = 0;  // later finish of the two devices
  };

  // Evaluates moving `give[c]` units of each chain c from `from` to `to` (back, if negative), and
  // updates `best` if the later finish of the two devices improves.
  void Consider(int from, int to, const std::vector<int>& give, Change& best) {
    if (packed_gaps_ > kMaxPackedGaps) return;
    std::vector<int> from_units = result_.units[from], to_units = result_.units[to];
    for (size_t c = 0; c < give.size(); ++c) {
      from_units[c] -= give[c], to_units[c] += give[c];
      if (from_units[c] < 0 || to_units[c] < 0) return;
      const int taker = give[c] > 0 ? to : from;
      if (give[c] != 0 &&
          !MayTake(taker, static_cast<int>(c), give[c] > 0 ? to_units[c] : from_units[c])) {
        return;
      }
    }
    const Nanos to_finish = Finish(to, to_units);
    if (to_finish >= best.worse_finish_ns) return;
    const Nanos finish = std::max(Finish(from, from_units), to_finish);
    if (finish < best.worse_finish_ns) {
      best = {to, std::move(from_units), std::move(to_units), finish};
    }
  }

  // Returns the neighbourhood: one or two units of one chain, alone or together with one or two
  // units of another chain in the same or the opposite direction.
  std::vector<std::vector<int>> Neighbours() const {
    const int num_chains = static_cast<int>(work_.chains.size());
    std::vector<std::vector<int>> gives;
    for (int a = 0; a < num_chains; ++a) {
      std::vector<int> give(num_chains, 0);
      for (give[a] = 1; give[a] <= 2; ++give[a]) {
        gives.push_back(give);
        for (int b = 0; b < num_chains; ++b) {
          if (b == a) continue;
          for (int other : {-2, -1, 1, 2}) {
            if (other > 0 && b < a) continue;
            give[b] = other;
            gives.push_back(give);
          }
          give[b] = 0;
        }
      }
    }
    return gives;
  }

  // Each accepted change lowers the latest finish or the number of devices that have it, so the
  // search ends. The limit only bounds its time.
  void ImproveWhilePossible() {
    const int limit = 4 * static_cast<int>(devices_.size()) + 16;
    for (int i = 0; i < limit && Improve(); ++i) {
    }
  }

  // Applies the best change that makes the last device finish earlier. Returns false if there is
  // none.
  bool Improve() {
    if (even_) return false;
    const std::vector<Nanos>& finish = result_.finish_ns;
    const int last =
        static_cast<int>(std::max_element(finish.begin(), finish.end()) - finish.begin());
    if (finish[last] <= barrier_ns_) return false;  // no delay left to remove
    std::vector<int> targets(devices_.size());
    std::iota(targets.begin(), targets.end(), 0);
    std::stable_sort(targets.begin(), targets.end(),
                     [&finish](int a, int b) { return finish[a] < finish[b]; });
    Change best;
    best.worse_finish_ns = finish[last];
    for (int i = 0; i < targets.size() && i < kMoveTargets; ++i) {
      if (targets[i] == last) continue;
      for (const std::vector<int>& give : Neighbours()) Consider(last, targets[i], give, best);
    }
    if (best.to < 0) return false;
    result_.units[last] = std::move(best.from_units);
    result_.units[best.to] = std::move(best.to_units);
    Repack(last);
    Repack(best.to);
    return true;
  }

  const FrozenWork& work_;
  const std::vector<DeviceGaps>& devices_;
  PackOptions options_;
  const bool even_;
  Packer packer_;
  int64_t packed_gaps_ = 0;
  Nanos barrier_ns_ = 0;  // start of the optimizer step without frozen work
  // By device: cache of the time after its last gap, by units of each chain.
  std::vector<std::map<std::vector<int>, Nanos>> leftovers_;
  Assignment result_;
};

}  // namespace

int EvenShare(int num_units, int num_devices, int d) {
  return num_units * (d + 1) / num_devices - num_units * d / num_devices;
}

Nanos TimeAtSpeed(Nanos ns, double speed) {
  return speed == 1 ? ns : static_cast<Nanos>(std::ceil(static_cast<double>(ns) / speed));
}

Assignment AssignUnits(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                       const AssignOptions& options) {
  DPIPE_CHECK(!devices.empty());
  return Assigner(work, devices, options).Run();
}

}  // namespace dpipe
