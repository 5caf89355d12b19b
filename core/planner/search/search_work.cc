#include "core/planner/search/search_work.h"

#include <algorithm>

#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// Cost of lowering and simulating, per device and per micro-batch of a stage on it. In a plan of
// kLargePlan instructions, each one takes twice as long as in a small plan.
constexpr int64_t kPerDevice = 20;
constexpr int64_t kPerMicroBatch = 6;
constexpr double kLargePlan = 50000;
// A filled plan is simulated up to three times.
constexpr int64_t kSimulationsPerFilledPlan = 3;
// Cost of placing frozen work: the minimum, and how many of (gaps x units^2 x layers) of a device
// count as one instruction. Each gap is packed with some of the units of each layer.
constexpr int64_t kMinFilling = 5000;
constexpr int64_t kFillingShare = 800;
// Cost of cutting: per layer, and how many of layers^2 count as one instruction. The latter for any
// cut, and for a V or two-way placement in addition, per device. Most cuts of a V are known from
// another schedule.
constexpr int64_t kCutPerLayer = 8;
constexpr int64_t kSquaredShare = 20;
constexpr int64_t kFoldedShare = 40;
// With more (device, cut at the front, cut at the back) than this, the cut is only nearly exact
// (NestedProblem.max_ranges). How many of layers^2 count as one instruction then.
constexpr int64_t kMaxRanges = 1'000'000;
constexpr int64_t kLargeShare = 10;
// For two backbones in opposite directions, how many of (devices x layers of one x layers of the
// other) count as one instruction.
constexpr int64_t kPairShare = 2;
// Cost of orders: how many passes, over all orders that a generator makes, count as one
// instruction. Per cut of one backbone and of several: the number of orders made, if they depend on
// costs.
constexpr int64_t kPassesShare = 5;
constexpr int64_t kOrdersPerCut = 4;
constexpr int64_t kOrdersPerJoinedCut = 2;

bool IsInARow(const PipelineShape& shape) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  return !traits.ok() ||
         (traits->weight_copies == 1 && traits->stages_per_device <= traits->num_backbones);
}

// True if both backbones are cut together (PlanBuilder::CutPair).
bool IsPair(const PipelineShape& shape) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  return traits.ok() && traits->num_backbones == 2 && traits->stages_per_device == 2;
}

// Returns the stages per device that one micro-batch passes through.
int64_t StagesPerDevice(const PipelineShape& shape) {
  if (shape.stages_per_device > 0) return shape.stages_per_device;
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  return traits.ok() ? std::max(1, traits->stages_per_device / traits->weight_copies) : 1;
}

}  // namespace

SearchWork::SearchWork(const CostModel& cost, bool fills) : cost_(cost), fills_(fills) {
  for (int component : cost.frozen_components()) frozen_layers_ += cost.num_layers(component);
  for (int backbone : cost.backbones()) {
    const int64_t layers = cost.num_layers(backbone);
    layers_ += layers;
    squared_layers_ += layers * layers;
  }
}

int64_t SearchWork::OfFilling(const PipelineShape& shape, int num_devices) const {
  const int64_t units =
      shape.samples_per_group() / std::max(1, cost_.frozen_quantum() * shape.devices_per_pipeline);
  const double packed = static_cast<double>(num_devices) * shape.num_micro_batches *
                        static_cast<double>(units * units) * static_cast<double>(frozen_layers_);
  return std::max(kMinFilling, static_cast<int64_t>(packed / kFillingShare));
}

int64_t SearchWork::OfPlan(const PipelineShape& shape, int num_devices) const {
  const double listed =
      static_cast<double>(num_devices) *
      (kPerMicroBatch * StagesPerDevice(shape) * shape.num_micro_batches + kPerDevice);
  const auto instructions = static_cast<int64_t>(listed * (1 + listed / kLargePlan));
  const int64_t once =
      fills_ ? OfFilling(shape, num_devices) + kSimulationsPerFilledPlan * instructions
             : instructions;
  return once * (cost_.profile().self_conditioning_probability() > 0 ? 2 : 1);
}

int64_t SearchWork::OfOrders(const PipelineShape& shape) const {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  if (!traits.ok()) return 0;
  const int64_t stages = int64_t{shape.num_stages} * StagesPerDevice(shape);
  const int64_t passes = stages * shape.num_micro_batches * (traits->splits_backward ? 3 : 2);
  int64_t orders = 1;
  if (traits->takes_costs) {
    orders = cost_.backbones().size() == 1 ? kOrdersPerCut : kOrdersPerJoinedCut;
  }
  return passes * orders * traits->num_tried / kPassesShare;
}

int64_t SearchWork::OfCut(const PipelineShape& shape) const {
  const int64_t straight =
      kCutPerLayer * layers_ + squared_layers_ / kSquaredShare + OfOrders(shape);
  if (IsPair(shape) && cost_.backbones().size() == 2) {
    const int64_t states = int64_t{shape.num_stages} * cost_.num_layers(cost_.backbones()[0]) *
                           cost_.num_layers(cost_.backbones()[1]);
    return straight + (states > kMaxRanges ? squared_layers_ / kLargeShare : states / kPairShare);
  }
  if (IsInARow(shape)) return straight;
  const int64_t ranges = shape.num_stages * squared_layers_;
  return straight + (ranges > kMaxRanges ? squared_layers_ / kLargeShare : ranges / kFoldedShare);
}

}  // namespace dpipe
