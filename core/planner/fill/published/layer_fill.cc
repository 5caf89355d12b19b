#include "core/planner/fill/published/layer_fill.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/planner/fill/greedy/assign.h"

namespace dpipe {
namespace {

class LayerFiller {
 public:
  LayerFiller(const std::vector<FrozenLayers>& components, const LayerFillOptions& options)
      : components_(components), options_(options), progress_(components.size()) {}

  std::vector<LayerBatch> Run(const std::vector<LayerBubble>& bubbles) {
    for (size_t b = 0; b < bubbles.size(); ++b) Fill(static_cast<int>(b), bubbles[b]);
    std::vector<int> all(options_.speeds.size());
    std::iota(all.begin(), all.end(), 0);
    for (size_t c = 0; c < components_.size(); ++c) {
      const int component = static_cast<int>(c);
      TakeLayers(static_cast<int>(bubbles.size()), all, component, LayersLeft(component));
    }
    return std::move(batches_);
  }

 private:
  struct Progress {
    int layer = 0;       // the first one that some units have not passed
    int done_units = 0;  // units that have passed it
  };

  int NumLayers(int c) const { return static_cast<int>(components_[c].layer_ns.size()); }
  int LayersLeft(int c) const { return NumLayers(c) - progress_[c].layer; }

  void Fill(int bubble, const LayerBubble& of) {
    std::vector<int> ready;
    for (size_t c = 0; c < components_.size(); ++c) {
      const int component = static_cast<int>(c);
      const auto& sources = components_[c].sources;
      if (LayersLeft(component) > 0 &&
          std::all_of(sources.begin(), sources.end(), [this](int s) { return !LayersLeft(s); })) {
        ready.push_back(component);
      }
    }
    if (ready.empty()) return;
    std::vector<std::vector<Nanos>> times;
    for (int c : ready) times.push_back(TimesOfLayers(c, of.devices));
    Choice best;
    Choose(times, of.length_ns, {}, 0, &best);
    for (size_t i = 0; i < ready.size(); ++i) {
      TakeLayers(bubble, of.devices, ready[i], best.counts[i]);
    }
    if (options_.partial_batch) TakePartial(bubble, of, ready, of.length_ns - best.total_ns);
  }

  // Returns, by number of layers, the time of the component's next layers on these devices.
  std::vector<Nanos> TimesOfLayers(int c, const std::vector<int>& devices) const {
    std::vector<Nanos> times = {0};
    const Progress& at = progress_[c];
    for (int l = at.layer; l < NumLayers(c); ++l) {
      // Another instruction begins with the first layer and after the rest of a layer.
      const bool begins = l == at.layer || (l == at.layer + 1 && at.done_units > 0);
      const int units = options_.num_units - (l == at.layer ? at.done_units : 0);
      times.push_back(times.back() + (begins ? options_.instruction_ns : 0) +
                      LayerTime(c, l, units, devices));
    }
    return times;
  }

  Nanos LayerTime(int c, int layer, int units, const std::vector<int>& devices) const {
    const int count = static_cast<int>(devices.size());
    Nanos longest = 0;
    for (int i = 0; i < count; ++i) {
      const int share = units / count + (i < units % count ? 1 : 0);
      longest = std::max(
          longest, TimeAtSpeed(components_[c].layer_ns[layer][share], options_.speeds[devices[i]]));
    }
    return longest;
  }

  // Numbers of layers, by ready component, and their total time.
  struct Choice {
    std::vector<int> counts;
    Nanos total_ns = -1;
  };

  // Sets `best` to the choice with the longest time of at most `room`; of equals, to one with most
  // layers, which may make other components ready.
  static void Choose(const std::vector<std::vector<Nanos>>& times, Nanos room, Choice chosen,
                     int num_layers, Choice* best) {
    const size_t c = chosen.counts.size();
    if (c == 0) chosen.total_ns = 0;
    if (c == times.size()) {
      const int most = std::accumulate(best->counts.begin(), best->counts.end(), 0);
      if (chosen.total_ns < best->total_ns) return;
      if (chosen.total_ns == best->total_ns && num_layers <= most) return;
      *best = std::move(chosen);
      return;
    }
    const int fitting = static_cast<int>(std::upper_bound(times[c].begin(), times[c].end(), room) -
                                         times[c].begin()) -
                        1;
    // The last component takes as many layers as fit.
    for (int k = c + 1 == times.size() ? fitting : 0; k <= fitting; ++k) {
      Choice next = chosen;
      next.counts.push_back(k);
      next.total_ns += times[c][k];
      Choose(times, room - times[c][k], std::move(next), num_layers + k, best);
    }
  }

  // Takes the component's next `count` layers: the rest of the one that is begun, then whole ones.
  void TakeLayers(int bubble, const std::vector<int>& devices, int c, int count) {
    Progress& at = progress_[c];
    int end = at.layer + count;
    LayerBatch batch{bubble, c, {at.layer, end}, 0, options_.num_units, devices};
    if (count > 0 && at.done_units > 0) {
      batch.layers.end = at.layer + 1;
      batch.unit_begin = at.done_units;
      batches_.push_back(batch);
      batch.layers = {at.layer + 1, end};
      batch.unit_begin = 0;
    }
    if (count > 0) at = {end, 0};
    if (!batch.layers.empty()) batches_.push_back(std::move(batch));
  }

  void TakePartial(int bubble, const LayerBubble& of, const std::vector<int>& ready, Nanos room) {
    const int count = static_cast<int>(of.devices.size());
    int best = -1, best_units = 0;
    Nanos longest = 0;
    for (int c : ready) {
      if (LayersLeft(c) == 0) continue;
      const Progress& at = progress_[c];
      std::vector<int> sizes = options_.local_units;
      if (sizes.empty()) {
        sizes.resize(std::max(0, (options_.num_units - at.done_units - 1) / count));
        std::iota(sizes.begin(), sizes.end(), 1);
      }
      for (int units : sizes) {
        if (units * count >= options_.num_units - at.done_units) break;
        const Nanos ns =
            options_.instruction_ns + LayerTime(c, at.layer, units * count, of.devices);
        if (ns > room || ns <= longest) continue;
        longest = ns, best = c, best_units = units * count;
      }
    }
    if (best < 0) return;
    Progress& at = progress_[best];
    batches_.push_back({bubble,
                        best,
                        {at.layer, at.layer + 1},
                        at.done_units,
                        at.done_units + best_units,
                        of.devices,
                        /*is_partial=*/true});
    at.done_units += best_units;
  }

  const std::vector<FrozenLayers>& components_;
  const LayerFillOptions& options_;
  std::vector<Progress> progress_;  // by component
  std::vector<LayerBatch> batches_;
};

}  // namespace

Nanos BatchTime(const std::vector<FrozenLayers>& components, const LayerFillOptions& options,
                const LayerBatch& batch) {
  const int count = static_cast<int>(batch.devices.size());
  const int units = batch.unit_end - batch.unit_begin;
  Nanos sum = options.instruction_ns;
  for (int l = batch.layers.begin; l < batch.layers.end; ++l) {
    Nanos longest = 0;
    for (int i = 0; i < count; ++i) {
      const int share = units / count + (i < units % count ? 1 : 0);
      longest = std::max(longest, TimeAtSpeed(components[batch.component].layer_ns[l][share],
                                              options.speeds[batch.devices[i]]));
    }
    sum += longest;
  }
  return sum;
}

std::vector<LayerBatch> FillLayers(const std::vector<FrozenLayers>& components,
                                   const std::vector<LayerBubble>& bubbles,
                                   const LayerFillOptions& options) {
  return LayerFiller(components, options).Run(bubbles);
}

}  // namespace dpipe
