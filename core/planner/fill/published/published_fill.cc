#include "core/planner/fill/published/published_fill.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/planner/fill/idle_intervals.h"
#include "core/planner/fill/published/common_bubbles.h"
#include "core/planner/fill/published/layer_fill.h"
#include "core/schedule/placement/frozen_exchange.h"

namespace dpipe {
namespace {

// Phases of one group, with the start of their bubble; the largest Nanos for the work after it.
using TimedPhases = std::vector<std::pair<Nanos, FrozenPhase>>;

constexpr int kNone = -1;

class PublishedFiller {
 public:
  PublishedFiller(const Plan& unfilled, const CostModel& cost, const PublishedOptions& options)
      : unfilled_(unfilled),
        cost_(cost),
        options_(options),
        quantum_(cost.frozen_quantum()),
        group_size_(unfilled.devices_per_pipeline()),
        group_samples_(unfilled.global_batch() / (unfilled.num_devices() / group_size_)) {
    fill_.num_units = group_samples_ / quantum_;
    fill_.instruction_ns = cost.profile().launch_overhead_ns();
    fill_.partial_batch = options.partial_batch;
    // No size that is a multiple of the quantum means no partial batch.
    for (int samples : options.local_batches) {
      if (samples % quantum_ == 0) fill_.local_units.push_back(samples / quantum_);
    }
    std::sort(fill_.local_units.begin(), fill_.local_units.end());
    if (!options.local_batches.empty() && fill_.local_units.empty()) fill_.partial_batch = false;
    AddComponents();
  }

  TimedPhases FillGroup(const std::vector<std::vector<IdleInterval>>& idle, int group) {
    const int first_rank = group * group_size_;
    fill_.speeds.clear();
    for (int d = 0; d < group_size_; ++d) {
      fill_.speeds.push_back(cost_.SpeedOf(first_rank + d));
    }
    // Layers take layer_ns / speed, so bubbles are measured in real time.
    GapScale scale = ScaleOfRank(cost_, options_.margin, first_rank);
    scale.speed = 1;
    std::vector<CommonBubble> bubbles;
    std::vector<LayerBubble> lengths;
    for (CommonBubble& bubble : CommonBubbles(idle)) {
      const Nanos length_ns = scale(bubble.length_ns());
      if (length_ns <= 0 || bubble.length_ns() < options_.min_bubble_ns) continue;
      lengths.push_back({length_ns, bubble.devices});
      bubbles.push_back(std::move(bubble));
    }
    TimedPhases phases;
    owner_.assign(components_.size(), std::vector<int>(fill_.num_units, kNone));
    for (const LayerBatch& batch : FillLayers(components_, lengths, fill_)) {
      const bool is_after = batch.bubble == static_cast<int>(bubbles.size());
      const Nanos start_ns =
          is_after ? std::numeric_limits<Nanos>::max() : bubbles[batch.bubble].start_ns;
      phases.emplace_back(start_ns,
                          PhaseOf(batch, is_after ? nullptr : &bubbles[batch.bubble], group));
    }
    return phases;
  }

 private:
  void AddComponents() {
    const std::vector<int>& frozen = cost_.frozen_components();
    for (int c : frozen) {
      FrozenLayers& component = components_.emplace_back();
      for (int source : cost_.SourcesOf(c, cost_.AllLayers(c))) {
        component.sources.push_back(
            static_cast<int>(std::find(frozen.begin(), frozen.end(), source) - frozen.begin()));
      }
      for (int l = 0; l < cost_.num_layers(c); ++l) {
        std::vector<Nanos>& times = component.layer_ns.emplace_back();
        for (int u = 0; u <= fill_.num_units; ++u) times.push_back(LayerTime(c, l, u * quantum_));
      }
    }
  }

  // Returns the time of a layer on some samples of a device, in pieces of at most max_batch.
  Nanos LayerTime(int component, int layer, int samples) const {
    const int limit = options_.max_batch > 0 ? options_.max_batch : samples;
    Nanos sum = 0;
    for (int begin = 0; begin < samples; begin += limit) {
      const int count = std::min(limit, samples - begin);
      sum += cost_.Forward(component, {layer, layer + 1}, count);
      if (begin > 0) sum += fill_.instruction_ns;
      if (layer == 0) sum += cost_.Load(component, count) + fill_.instruction_ns;
    }
    return sum;
  }

  // Returns the units of each device of a batch. If all devices are alike, shares go to devices
  // that have run many of their units before, the largest number first; so fewer units move.
  std::vector<SampleRange> SharesOf(const LayerBatch& batch) const {
    const int count = static_cast<int>(batch.devices.size());
    const std::vector<SampleRange> shares =
        SplitEvenly({batch.unit_begin, batch.unit_end}, count, /*quantum=*/1);
    if (!cost_.IsUniform()) return shares;
    std::vector<std::tuple<int, int, int>> common;  // -units in common, share, device
    for (int i = 0; i < count; ++i) {
      std::vector<int> units(group_size_, 0);
      for (int u = shares[i].begin; u < shares[i].end; ++u) {
        const int owner = owner_[batch.component][u];
        if (owner != kNone) ++units[owner];
      }
      for (int d = 0; d < count; ++d) common.emplace_back(-units[batch.devices[d]], i, d);
    }
    std::sort(common.begin(), common.end());
    std::vector<SampleRange> of_device(count);
    std::vector<bool> has_share(count, false), is_given(count, false);
    for (const auto& [units, share, device] : common) {
      if (is_given[share] || has_share[device]) continue;
      is_given[share] = has_share[device] = true;
      of_device[device] = shares[share];
    }
    return of_device;
  }

  // `bubble` is null for work after the pipeline.
  FrozenPhase PhaseOf(const LayerBatch& batch, const CommonBubble* bubble, int group) {
    const int first_sample = group * group_samples_;
    const std::vector<SampleRange> shares = SharesOf(batch);
    FrozenPhase phase;
    for (size_t i = 0; i < shares.size(); ++i) {
      for (int u = shares[i].begin; u < shares[i].end; ++u) {
        owner_[batch.component][u] = batch.devices[i];
      }
      FrozenPiece piece;
      piece.rank = group * group_size_ + batch.devices[i];
      piece.before = bubble != nullptr ? bubble->before[i]
                                       : unfilled_.devices(piece.rank).instructions_size() - 1;
      piece.component = cost_.frozen_components()[batch.component];
      piece.layers = batch.layers;
      const SampleRange samples{first_sample + shares[i].begin * quantum_,
                                first_sample + shares[i].end * quantum_};
      const int limit = options_.max_batch > 0 ? options_.max_batch : samples.size();
      for (int begin = samples.begin; begin < samples.end; begin += limit) {
        piece.samples = {begin, std::min(begin + limit, samples.end)};
        phase.push_back(piece);
      }
    }
    return phase;
  }

  const Plan& unfilled_;
  const CostModel& cost_;
  const PublishedOptions& options_;
  const int quantum_, group_size_, group_samples_;
  LayerFillOptions fill_;
  std::vector<FrozenLayers> components_;  // in the order of cost.frozen_components()
  // By component and unit: the device of the group that ran its last layer.
  std::vector<std::vector<int>> owner_;
};

}  // namespace

std::vector<FrozenPhase> PlaceByPublishedRule(const Plan& unfilled,
                                              const std::vector<StreamEvent>& events,
                                              const CostModel& cost,
                                              const PublishedOptions& options) {
  const std::vector<std::vector<IdleInterval>> idle = IdleIntervals(unfilled, events);
  const int group_size = unfilled.devices_per_pipeline();
  PublishedFiller filler(unfilled, cost, options);
  TimedPhases phases;
  for (int g = 0; g * group_size < unfilled.num_devices(); ++g) {
    const auto first = idle.begin() + g * group_size;
    for (auto& phase : filler.FillGroup({first, first + group_size}, g)) {
      phases.push_back(std::move(phase));
    }
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<FrozenPhase> result;
  for (auto& phase : phases) result.push_back(std::move(phase.second));
  return result;
}

std::vector<std::vector<Nanos>> StartsByRank(const Plan& plan,
                                             const std::vector<StreamEvent>& events) {
  std::vector<std::vector<Nanos>> starts;
  for (const DeviceProgram& program : plan.devices()) {
    starts.emplace_back(program.instructions_size(), kNone);
  }
  for (const StreamEvent& event : events) {
    if (event.step != 1) continue;
    if (event.stream != TraceEvent::COMPUTE && event.stream != TraceEvent::COLLECTIVE) continue;
    starts[event.rank][event.instruction] = event.start_ns;
  }
  for (std::vector<Nanos>& of_rank : starts) {
    Nanos before = 0;
    for (Nanos& start : of_rank) {
      if (start == kNone) start = before;
      before = start;
    }
  }
  return starts;
}

}  // namespace dpipe
