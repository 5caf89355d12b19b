#include "core/schedule/testing/random_schedule.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace dpipe {
namespace {

// Returns a random integer in [low, high].
int Between(RandomStream& stream, int low, int high) {
  return low + static_cast<int>(stream.NextBelow(high - low + 1));
}

bool OneIn(RandomStream& stream, int n) { return stream.NextBelow(n) == 0; }

// Takes ready slots at random until none are left.
class OrderMaker {
 public:
  OrderMaker(RandomStream& stream, const std::vector<ScheduleChain>& chains, int num_devices,
             bool split_gradients)
      : stream_(stream), split_gradients_(split_gradients), slots_(num_devices) {
    for (const ScheduleChain& chain : chains) {
      const int count = static_cast<int>(chain.devices.size());
      for (int k = 0; k < count; ++k) {
        StageState stage;
        stage.device = chain.devices[k];
        stage.is_first = k == 0;
        stage.is_last = k + 1 == count;
        stage.forward_only = k < chain.num_forward_only;
        stage.forward.assign(chain.num_micro_batches, false);
        stage.gradient.assign(chain.num_micro_batches, false);
        stages_.push_back(stage);
        left_ += chain.num_micro_batches * (stage.forward_only ? 1 : 2);
      }
    }
  }

  std::vector<std::vector<Slot>> Make() {
    const bool in_order = !OneIn(stream_, 3);
    while (left_ > 0) {
      const int s = static_cast<int>(stream_.NextBelow(static_cast<uint32_t>(stages_.size())));
      const int count = static_cast<int>(stages_[s].forward.size());
      switch (stream_.NextBelow(3)) {
        case 0:
          TakeForward(s, in_order ? FirstLeft(stages_[s].forward) : Between(stream_, 0, count - 1));
          break;
        case 1:
          TakeGradient(s,
                       in_order ? FirstLeft(stages_[s].gradient) : Between(stream_, 0, count - 1));
          break;
        default:
          TakeWeights(s);
      }
    }
    return std::move(slots_);
  }

 private:
  struct StageState {
    int device = 0;
    bool is_first = false, is_last = false, forward_only = false;
    std::vector<bool> forward, gradient;  // done, by micro-batch
    int next_weight = 0;
  };

  static int FirstLeft(const std::vector<bool>& done) {
    return static_cast<int>(std::find(done.begin(), done.end(), false) - done.begin());
  }

  void Add(int s, Pass pass, int m) { slots_[stages_[s].device].push_back({pass, m, s}); }

  void TakeForward(int s, int m) {
    StageState& stage = stages_[s];
    if (m == static_cast<int>(stage.forward.size()) || stage.forward[m]) return;
    if (!stage.is_first && !stages_[s - 1].forward[m]) return;
    stage.forward[m] = true;
    --left_;
    Add(s, Pass::kForward, m);
  }

  void TakeGradient(int s, int m) {
    StageState& stage = stages_[s];
    if (stage.forward_only || m == static_cast<int>(stage.forward.size()) || stage.gradient[m] ||
        !stage.forward[m]) {
      return;
    }
    if (!stage.is_last && !stages_[s + 1].gradient[m]) return;
    const bool can_be_whole = stage.next_weight == m;
    if (!can_be_whole && !split_gradients_) return;
    const bool whole = can_be_whole && (!split_gradients_ || OneIn(stream_, 2));
    stage.gradient[m] = true;
    Add(s, whole ? Pass::kBackward : Pass::kInputGrad, m);
    if (!whole) return;
    ++stage.next_weight;
    --left_;
  }

  void TakeWeights(int s) {
    StageState& stage = stages_[s];
    const int m = stage.next_weight;
    if (m == static_cast<int>(stage.gradient.size()) || !stage.gradient[m]) return;
    ++stage.next_weight;
    --left_;
    Add(s, Pass::kWeightGrad, m);
  }

  RandomStream& stream_;
  const bool split_gradients_;
  std::vector<std::vector<Slot>> slots_;
  std::vector<StageState> stages_;
  int left_ = 0;  // forward passes and weight gradients not yet taken
};

// Returns random devices for a chain of `num_stages` stages.
std::vector<int> RandomDevices(RandomStream& stream, int num_stages, int num_devices) {
  std::vector<int> devices;
  for (int k = 0; k < num_stages; ++k) devices.push_back(Between(stream, 0, num_devices - 1));
  return devices;
}

// Returns devices for a second chain: each stage k is on a different device than in the first.
std::vector<int> OtherDevices(RandomStream& stream, const std::vector<int>& devices,
                              int num_devices) {
  std::vector<int> others;
  for (int device : devices) {
    others.push_back((device + Between(stream, 1, num_devices - 1)) % num_devices);
  }
  return others;
}

bool AllHold(const std::vector<ScheduleChain>& chains, int num_devices) {
  std::vector<bool> holds(num_devices, false);
  for (const ScheduleChain& chain : chains) {
    for (int device : chain.devices) holds[device] = true;
  }
  return std::count(holds.begin(), holds.end(), true) == num_devices;
}

std::vector<ScheduleChain> RandomChains(RandomStream& stream, const RandomScheduleOptions& options,
                                        int num_devices) {
  std::vector<ScheduleChain> chains;
  const int num_backbones = static_cast<int>(options.num_layers.size());
  const int num_micro_batches = options.max_micro_batches;
  for (int b = 0; b < num_backbones; ++b) {
    ScheduleChain chain;
    chain.backbone = b;
    chain.num_micro_batches = Between(stream, 1, num_micro_batches);
    const int max_stages =
        std::min(options.num_layers[b], num_devices * options.max_stages_per_device);
    chain.devices = RandomDevices(stream, Between(stream, 1, max_stages), num_devices);
    chains.push_back(chain);
    if (num_devices == 1 || !OneIn(stream, 3)) continue;
    chain.devices = OtherDevices(stream, chain.devices, num_devices);
    chain.num_micro_batches = Between(stream, 1, num_micro_batches);
    chains.push_back(chain);
  }
  if (!OneIn(stream, 4)) return chains;
  for (ScheduleChain& chain : chains) {  // add a first lap
    chain.num_forward_only = static_cast<int>(chain.devices.size());
    const std::vector<int> lap = chain.devices;
    chain.devices.insert(chain.devices.end(), lap.begin(), lap.end());
  }
  return chains;
}

}  // namespace

Schedule RandomOrder(RandomStream& stream, const std::vector<ScheduleChain>& chains,
                     int num_devices, bool split_gradients) {
  auto schedule = Schedule::Create("random", chains,
                                   OrderMaker(stream, chains, num_devices, split_gradients).Make());
  DPIPE_CHECK(schedule.ok()) << schedule.status().message();
  return *std::move(schedule);
}

Schedule RandomSchedule(RandomStream& stream, const RandomScheduleOptions& options) {
  const int num_micro_batches = Between(stream, 1, options.max_micro_batches);
  if (options.several_stages) {
    // Every device must hold a stage: retry with fewer devices until that is so.
    for (int num_devices = Between(stream, 1, options.max_devices);;
         num_devices = Between(stream, 1, num_devices)) {
      const std::vector<ScheduleChain> chains = RandomChains(stream, options, num_devices);
      if (AllHold(chains, num_devices)) {
        return RandomOrder(stream, chains, num_devices, options.split_gradients);
      }
    }
  }
  ScheduleChain chain;
  chain.num_micro_batches = num_micro_batches;
  const int num_devices = Between(stream, 1, std::min(options.max_devices, options.num_layers[0]));
  for (int k = 0; k < num_devices; ++k) chain.devices.push_back(k);
  return RandomOrder(stream, {chain}, num_devices, options.split_gradients);
}

}  // namespace dpipe
