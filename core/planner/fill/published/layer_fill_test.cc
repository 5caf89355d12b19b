#include "core/planner/fill/published/layer_fill.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;

std::string Text(const LayerBatch& batch) {
  std::string text =
      absl::StrCat(batch.bubble, ": c", batch.component, " layers ", batch.layers.ToString(),
                   " units [", batch.unit_begin, ", ", batch.unit_end, ") on");
  for (int device : batch.devices) absl::StrAppend(&text, " ", device);
  return text + (batch.is_partial ? ", partial" : "");
}

std::vector<std::string> Texts(const std::vector<LayerBatch>& batches) {
  std::vector<std::string> texts;
  for (const LayerBatch& batch : batches) texts.push_back(Text(batch));
  return texts;
}

// Layers that take `ns` per unit.
FrozenLayers Linear(int num_layers, Nanos ns, int num_units) {
  FrozenLayers layers;
  std::vector<Nanos> times;
  for (int u = 0; u <= num_units; ++u) times.push_back(u * ns);
  layers.layer_ns.assign(num_layers, times);
  return layers;
}

TEST(LayerFillTest, ByHand) {
  // 8 units. On two devices a layer of a takes 4 * 10, one of b 4 * 7. b reads a.
  std::vector<FrozenLayers> components = {Linear(3, 10, 8), Linear(2, 7, 8)};
  components[1].sources = {0};
  LayerFillOptions options;
  options.num_units = 8;
  options.speeds = {1, 1, 1, 1};
  options.local_units = {1, 2, 3};
  // Bubble 0: one layer of a (40), then 2 units per device (20) of the next.
  // Bubble 1, on four devices: its other 4 units (10), then the last layer (20): b is not ready.
  // Bubble 2: b on one device takes 56 per layer.
  const std::vector<LayerBubble> bubbles = {{65, {0, 1}}, {35, {0, 1, 2, 3}}, {60, {3}}};
  EXPECT_THAT(Texts(FillLayers(components, bubbles, options)),
              ElementsAre("0: c0 layers [0, 1) units [0, 8) on 0 1",
                          "0: c0 layers [1, 2) units [0, 4) on 0 1, partial",
                          "1: c0 layers [1, 2) units [4, 8) on 0 1 2 3",
                          "1: c0 layers [2, 3) units [0, 8) on 0 1 2 3",
                          "2: c1 layers [0, 1) units [0, 8) on 3",
                          "3: c1 layers [1, 2) units [0, 8) on 0 1 2 3"));
  options.partial_batch = false;
  EXPECT_THAT(Texts(FillLayers(components, {bubbles[0]}, options)),
              ElementsAre("0: c0 layers [0, 1) units [0, 8) on 0 1",
                          "1: c0 layers [1, 3) units [0, 8) on 0 1 2 3",
                          "1: c1 layers [0, 2) units [0, 8) on 0 1 2 3"));
}

// A small instance, with bubbles that hold part of the work.
struct Instance {
  explicit Instance(RandomStream& random) {
    const auto below = [&random](int n) { return static_cast<int>(random.NextBelow(n)); };
    const int num_devices = 1 + below(4);
    options.num_units = 1 + below(12);
    options.instruction_ns = below(3);
    options.partial_batch = below(4) > 0;
    if (below(2) == 0) options.local_units = {1, 2, 4};
    for (int d = 0; d < num_devices; ++d) options.speeds.push_back(below(3) == 0 ? 0.5 : 1);
    const int num_components = 1 + below(3);
    for (int c = 0; c < num_components; ++c) {
      FrozenLayers& component = components.emplace_back();
      for (int s = 0; s < c; ++s) {
        if (below(3) == 0) component.sources.push_back(s);
      }
      const int num_layers = 1 + below(4);
      for (int l = 0; l < num_layers; ++l) {
        std::vector<Nanos>& times = component.layer_ns.emplace_back(1, 0);
        const Nanos fixed = below(10), per_unit = 1 + below(10);
        for (int u = 1; u <= options.num_units; ++u) times.push_back(fixed + u * per_unit);
      }
    }
    const int num_bubbles = below(5);
    for (int b = 0; b < num_bubbles; ++b) {
      LayerBubble& bubble = bubbles.emplace_back();
      bubble.length_ns = below(150);
      for (int d = 0; d < num_devices; ++d) {
        if (below(2) == 0) bubble.devices.push_back(d);
      }
      if (bubble.devices.empty()) bubble.devices = {below(num_devices)};
    }
  }

  std::vector<FrozenLayers> components;
  std::vector<LayerBubble> bubbles;
  LayerFillOptions options;
};

// Follows a result bubble by bubble and compares each with all that could have been chosen.
class Checker {
 public:
  explicit Checker(const Instance& instance)
      : instance_(instance),
        options_(instance.options),
        layer_(instance.components.size(), 0),
        done_(instance.components.size(), 0) {}

  void Check(const std::vector<LayerBatch>& batches) {
    size_t next = 0;
    for (size_t b = 0; b < instance_.bubbles.size(); ++b) {
      SCOPED_TRACE(testing::Message() << "bubble " << b);
      const LayerBubble& bubble = instance_.bubbles[b];
      std::vector<bool> ready;
      for (size_t c = 0; c < layer_.size(); ++c) ready.push_back(IsReady(c));
      longest_ns_ = 0;
      Enumerate(bubble, ready, 0, 0);
      Nanos full_ns = 0;
      for (; next < batches.size() && batches[next].bubble == static_cast<int>(b) &&
             !batches[next].is_partial;
           ++next) {
        ASSERT_TRUE(ready[batches[next].component]);
        full_ns += BatchTime(instance_.components, options_, batches[next]);
        Apply(batches[next]);
      }
      EXPECT_EQ(full_ns, longest_ns_);
      const Nanos expected_ns = LongestPartial(bubble, ready, bubble.length_ns - full_ns);
      Nanos partial_ns = 0;
      if (next < batches.size() && batches[next].bubble == static_cast<int>(b)) {
        ASSERT_TRUE(options_.partial_batch && batches[next].is_partial);
        ++num_partial_;
        partial_ns = BatchTime(instance_.components, options_, batches[next]);
        Apply(batches[next++]);
      }
      EXPECT_EQ(partial_ns, expected_ns);
      num_full_ += full_ns > 0;
    }
    for (; next < batches.size(); ++next) {
      EXPECT_EQ(batches[next].bubble, static_cast<int>(instance_.bubbles.size()));
      EXPECT_TRUE(IsReady(batches[next].component));
      Apply(batches[next]);
    }
    for (size_t c = 0; c < layer_.size(); ++c) EXPECT_EQ(layer_[c], NumLayers(c));
  }
  int num_full() const { return num_full_; }
  int num_partial() const { return num_partial_; }

 private:
  int NumLayers(size_t c) const {
    return static_cast<int>(instance_.components[c].layer_ns.size());
  }
  bool IsReady(size_t c) const {
    for (int s : instance_.components[c].sources) {
      if (layer_[s] < NumLayers(s)) return false;
    }
    return layer_[c] < NumLayers(c);
  }
  Nanos Time(size_t c, LayerRange layers, int begin, int end, const LayerBubble& bubble) const {
    if (layers.empty()) return 0;
    return BatchTime(instance_.components, options_,
                     {0, static_cast<int>(c), layers, begin, end, bubble.devices});
  }

  // Tries all numbers of layers of component c and those after it.
  void Enumerate(const LayerBubble& bubble, const std::vector<bool>& ready, size_t c, Nanos sum) {
    if (sum > bubble.length_ns) return;
    if (c == layer_.size()) {
      longest_ns_ = std::max(longest_ns_, sum);
      return;
    }
    for (int k = 0; k <= (ready[c] ? NumLayers(c) - layer_[c] : 0); ++k) {
      Nanos ns = 0;
      if (k > 0 && done_[c] > 0) {
        ns = Time(c, {layer_[c], layer_[c] + 1}, done_[c], options_.num_units, bubble) +
             Time(c, {layer_[c] + 1, layer_[c] + k}, 0, options_.num_units, bubble);
      } else {
        ns = Time(c, {layer_[c], layer_[c] + k}, 0, options_.num_units, bubble);
      }
      Enumerate(bubble, ready, c + 1, sum + ns);
    }
  }

  Nanos LongestPartial(const LayerBubble& bubble, const std::vector<bool>& ready, Nanos room) {
    Nanos longest = 0;
    const int count = static_cast<int>(bubble.devices.size());
    for (size_t c = 0; options_.partial_batch && c < layer_.size(); ++c) {
      if (!ready[c] || layer_[c] == NumLayers(c)) continue;
      for (int units = 1; done_[c] + units * count < options_.num_units; ++units) {
        const std::vector<int>& listed = options_.local_units;
        if (!listed.empty() && std::count(listed.begin(), listed.end(), units) == 0) continue;
        const Nanos ns =
            Time(c, {layer_[c], layer_[c] + 1}, done_[c], done_[c] + units * count, bubble);
        if (ns <= room) longest = std::max(longest, ns);
      }
    }
    return longest;
  }

  void Apply(const LayerBatch& batch) {
    int& layer = layer_[batch.component];
    int& done = done_[batch.component];
    ASSERT_EQ(batch.layers.begin, layer);
    ASSERT_EQ(batch.unit_begin, done);
    ASSERT_TRUE(batch.layers.size() == 1 || batch.unit_begin == 0);
    if (batch.unit_end < options_.num_units) {
      ASSERT_TRUE(batch.is_partial);
      done = batch.unit_end;
    } else {
      layer = batch.layers.end, done = 0;
    }
  }

  const Instance& instance_;
  const LayerFillOptions& options_;
  std::vector<int> layer_, done_;  // by component
  Nanos longest_ns_ = 0;
  int num_full_ = 0, num_partial_ = 0;
};

TEST(LayerFillTest, EachBubbleHoldsTheLongestOfAllChoices) {
  int num_full = 0, num_partial = 0;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(testing::Message() << "instance " << i);
    RandomStream random(61, i, 0, RandomPurpose::kTest);
    const Instance instance(random);
    Checker checker(instance);
    checker.Check(FillLayers(instance.components, instance.bubbles, instance.options));
    num_full += checker.num_full();
    num_partial += checker.num_partial();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_full, 1000);
  EXPECT_GT(num_partial, 300);
}

}  // namespace
}  // namespace dpipe
