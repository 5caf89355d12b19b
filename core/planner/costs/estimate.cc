#include "core/planner/costs/estimate.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/planner/pipeline/pipeline_schedule.h"
#include "core/schedule/messages/param_gathers.h"
#include "core/schedule/placement/boundary.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// With more micro-batches per device than this, a schedule's bubble does not change. With more
// devices than this, it grows in proportion to the number of devices minus one.
constexpr int kRampMicroBatches = 3;
constexpr int kRampDevices = 16;
// The pass times of a micro-batch are scaled to this sum for the simulation at even times.
constexpr double kResolution = 3000;

// Returns a small shape with the same ramp: the maximum number of micro-batches, up to those of the
// shape, with which the ramp is complete.
PipelineShape ShapeOfRamp(const PipelineShape& shape) {
  PipelineShape small = shape;
  small.peak_limit = 0;
  small.num_stages = std::min(shape.num_stages, kRampDevices);
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  int count = std::min(shape.num_micro_batches, kRampMicroBatches * small.num_stages);
  for (; count > 1; --count) {
    ScheduleRequest request;
    request.num_devices = small.num_stages;
    request.num_micro_batches = count;
    request.stages_per_device = shape.stages_per_device;
    if (CheckRequest(shape.schedule, *traits, request).ok()) break;
  }
  small.num_micro_batches = count;
  return small;
}

// Returns the shape with the minimum number of micro-batches that the schedule supports: the
// placement of its stages does not depend on it.
PipelineShape ShapeOfLinks(const PipelineShape& shape) {
  PipelineShape small = shape;
  small.peak_limit = 0;
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  for (int count = 1; count < shape.num_micro_batches; ++count) {
    ScheduleRequest request;
    request.num_devices = shape.num_stages;
    request.num_micro_batches = count;
    request.stages_per_device = shape.stages_per_device;
    if (!CheckRequest(shape.schedule, *traits, request).ok()) continue;
    small.num_micro_batches = count;
    break;
  }
  return small;
}

}  // namespace

StepEstimator::StepEstimator(const Strategy& strategy, const CostModel& cost,
                             std::shared_ptr<EstimateTables> tables)
    : cost_(cost),
      fills_(strategy.frozen() == "fill" && strategy.cross_iteration()),
      cached_(strategy.frozen() == "cached"),
      recomputes_(strategy.recompute() == "full"),
      forward_passes_(1 + cost.profile().self_conditioning_probability()),
      tables_(tables != nullptr ? std::move(tables) : std::make_shared<EstimateTables>()) {
  double sum = 0;
  least_speed_ = cost.SpeedOf(0);
  for (int r = 0; r < cost.num_devices(); ++r) {
    sum += cost.SpeedOf(r);
    least_speed_ = std::min(least_speed_, cost.SpeedOf(r));
  }
  mean_speed_ = sum / cost.num_devices();
}

double StepEstimator::SpeedOf(const PipelineShape& shape) {
  if (mean_speed_ == least_speed_) return mean_speed_;
  const auto [entry, added] =
      speeds_.try_emplace({shape.devices_per_pipeline, shape.num_stages}, 0);
  if (!added) return entry->second;
  for (int d = 0; d < shape.num_stages; ++d) {
    double slowest = cost_.SpeedOf(d * shape.replicas());
    for (int g = 0; g < shape.num_groups(); ++g) {
      const int first = g * shape.devices_per_pipeline + d * shape.replicas();
      for (int i = 0; i < shape.replicas(); ++i) {
        slowest = std::min(slowest, cost_.SpeedOf(first + i));
      }
    }
    entry->second += slowest / shape.num_stages;
  }
  return entry->second;
}

StepEstimator::Passes StepEstimator::PassesOf(const PipelineShape& shape) {
  Passes passes;
  const double speed = SpeedOf(shape);
  for (int backbone : cost_.backbones()) {
    const LayerTimes& times = cost_.Times(backbone, shape.local_batch());
    const LayerRange all = cost_.AllLayers(backbone);
    const double forward = times.Forward(all) / speed;
    passes.forward += forward * forward_passes_;
    passes.input_grad += times.InputGrad(all) / speed + (recomputes_ ? forward : 0);
    passes.weight_grad += times.WeightGrad(all) / speed;
  }
  return passes;
}

double StepEstimator::Ramp(const PipelineShape& shape, const Passes& passes) {
  const PipelineShape small = ShapeOfRamp(shape);
  const auto key = std::make_tuple(small.schedule, small.num_stages, small.num_micro_batches,
                                   small.stages_per_device);
  const double more =
      small.num_stages == shape.num_stages ? 1 : (shape.num_stages - 1.0) / (small.num_stages - 1);
  const auto found = ramps_.find(key);
  if (found != ramps_.end()) return found->second * more;
  const auto [schedule, is_new] = tables_->schedules.try_emplace(key);
  if (is_new) {
    PipelineScheduleOptions options;
    options.num_backbones = static_cast<int>(cost_.backbones().size());
    absl::StatusOr<Schedule> made = MakePipelineSchedule(small, options);
    if (made.ok()) schedule->second = std::make_shared<const Schedule>(*std::move(made));
  }
  const std::shared_ptr<const Schedule>& structure = schedule->second;
  double ramp = 0;
  if (structure != nullptr) {
    // One micro-batch passes through the stages of one chain per backbone.
    int stages = 0;
    for (size_t c = 0; c < structure->chains().size(); ++c) {
      if (c > 0 && structure->chains()[c].backbone == structure->chains()[c - 1].backbone) continue;
      stages += static_cast<int>(structure->chains()[c].devices.size());
    }
    const double unit = kResolution / std::max(1.0, passes.total());
    PassCosts even;
    even.forward = static_cast<Nanos>(passes.forward * unit / stages * small.num_stages);
    even.input_grad = static_cast<Nanos>(passes.input_grad * unit / stages * small.num_stages);
    even.weight_grad = static_cast<Nanos>(passes.weight_grad * unit / stages * small.num_stages);
    const double makespan = static_cast<double>(structure->Makespan(even));
    ramp = structure->BubbleRatio(even) * makespan / kResolution;
  }
  ramps_[key] = ramp;
  return ramp * more;
}

// Stages end at layer boundaries: the longest is about half a layer longer than the mean.
double StepEstimator::Unevenness(const PipelineShape& shape) const {
  if (shape.num_stages == 1) return 0;
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  int stages = shape.num_stages;
  if (traits.ok()) {
    stages *= shape.stages_per_device > 0
                  ? shape.stages_per_device
                  : traits->stages_per_device / traits->weight_copies / traits->num_backbones;
  }
  int layers = cost_.num_layers(cost_.backbone());
  for (int backbone : cost_.backbones()) layers = std::min(layers, cost_.num_layers(backbone));
  return 0.5 * stages / layers;
}

const std::vector<EstimateTables::Crossing>& StepEstimator::Crossings(const PipelineShape& shape) {
  const auto [entry, added] =
      tables_->crossings.try_emplace({shape.schedule, shape.num_stages, shape.stages_per_device});
  if (!added) return entry->second;
  PipelineScheduleOptions options;
  options.num_backbones = static_cast<int>(cost_.backbones().size());
  const absl::StatusOr<Schedule> schedule = MakePipelineSchedule(ShapeOfLinks(shape), options);
  if (!schedule.ok()) return entry->second;
  for (const ScheduleChain& chain : schedule->chains()) {
    const int component = cost_.backbones()[chain.backbone];
    const int layers = cost_.num_layers(component);
    const int stages = static_cast<int>(chain.devices.size());
    if (stages > layers) continue;
    std::vector<BoundaryStage> even;
    for (int k = 0; k < stages; ++k) {
      even.push_back({{k * layers / stages, (k + 1) * layers / stages}, chain.devices[k]});
    }
    const ChainBoundaries boundaries(cost_, component, even);
    const double share =
        static_cast<double>(chain.num_micro_batches) / schedule->num_micro_batches(chain.backbone);
    for (int k = 0; k + 1 < stages; ++k) {
      if (chain.devices[k] == chain.devices[k + 1]) continue;
      entry->second.push_back({chain.devices[k], chain.devices[k + 1],
                               share * boundaries.ForwardBytes(k),
                               share * boundaries.GradientBytes(k)});
    }
  }
  return entry->second;
}

double StepEstimator::InterfacesOf(const PipelineShape& shape) const {
  const int in_node = cost_.cluster().devices_per_node();
  const int interfaces = cost_.interfaces_per_node();
  return std::max(1, interfaces * std::min(shape.replicas(), in_node) / in_node);
}

double StepEstimator::LinkPath(const PipelineShape& shape) {
  double path = 0;
  for (const EstimateTables::Crossing& crossing : Crossings(shape)) {
    const int from = crossing.from * shape.replicas(), to = crossing.to * shape.replicas();
    const bool inner = cost_.NodeOf(from) == cost_.NodeOf(to);
    const double samples =
        inner ? shape.local_batch() : shape.micro_batch_size() / InterfacesOf(shape);
    path += 2.0 * static_cast<double>(cost_.LatencyBetween(from, to)) +
            (crossing.forward_bytes + crossing.gradient_bytes) * samples /
                cost_.BandwidthBetween(from, to) * kNanosPerSecond;
  }
  return path;
}

// Returns the time of the busiest link or interface, for one micro-batch.
double StepEstimator::LinkPace(const PipelineShape& shape) {
  const ClusterSpec& cluster = cost_.cluster();
  const int replicas = shape.replicas();
  std::vector<double> sent(cluster.num_nodes(), 0);  // bytes per sample, by node
  const SharedLinks& shared = cost_.shared_links();
  std::vector<double> passing(shared.size(), 0);  // bytes, by shared link; those within nodes
  double pace = 0;
  for (const EstimateTables::Crossing& crossing : Crossings(shape)) {
    const int from = crossing.from * replicas, to = crossing.to * replicas;
    if (cost_.NodeOf(from) != cost_.NodeOf(to)) {
      sent[cost_.NodeOf(from)] += crossing.forward_bytes;
      sent[cost_.NodeOf(to)] += crossing.gradient_bytes;
      continue;
    }
    pace = std::max(pace, (crossing.forward_bytes + crossing.gradient_bytes) * shape.local_batch() /
                              cluster.intra_node().bandwidth_bytes_per_s());
    if (cluster.shared_links().empty()) continue;
    for (int i = 0; i < replicas; ++i) {
      for (int link : shared.OnPath(from + i, to + i)) {
        passing[link] += crossing.forward_bytes * shape.local_batch();
      }
      for (int link : shared.OnPath(to + i, from + i)) {
        passing[link] += crossing.gradient_bytes * shape.local_batch();
      }
    }
  }
  for (int link = shared.num_interface_links(); link < shared.size(); ++link) {
    pace = std::max(pace, passing[link] / shared.bandwidth_bytes_per_s(link));
  }
  const double used = InterfacesOf(shape);
  for (double bytes : sent) {
    if (bytes == 0) continue;
    pace = std::max(pace, bytes * shape.micro_batch_size() /
                              (used * cluster.inter_node().bandwidth_bytes_per_s()));
  }
  return pace * kNanosPerSecond;
}

double StepEstimator::FrozenWork(const PipelineShape& shape) const {
  if (cached_) return 0;
  const int share = std::max(1, shape.samples_per_group() / shape.devices_per_pipeline);
  double sum = 0;
  for (int c : cost_.frozen_components()) {
    sum += static_cast<double>(cost_.Load(c, share) + cost_.Forward(c, cost_.AllLayers(c), share));
  }
  return sum * shape.devices_per_pipeline / (fills_ ? mean_speed_ : least_speed_);
}

double StepEstimator::ExposedSync(const PipelineShape& shape, double backward_ns) const {
  std::vector<int> ranks;
  for (int g = 0; g < shape.num_groups(); ++g) {
    for (int i = 0; i < shape.replicas(); ++i) ranks.push_back(g * shape.devices_per_pipeline + i);
  }
  if (ranks.size() < 2) return 0;
  int64_t bytes = 0;
  for (int backbone : cost_.backbones()) {
    bytes += cost_.GradientBytes(backbone, cost_.AllLayers(backbone));
  }
  const double sync = static_cast<double>(cost_.AllReduce(ranks, bytes / shape.num_stages));
  if (!cost_.SpansNodes(ranks)) return std::max(0.0, sync - backward_ns);
  // The stages of a node share its interfaces.
  const int in_node = cost_.cluster().devices_per_node();
  const int interfaces = cost_.interfaces_per_node();
  const int stages = std::max(1, std::min(shape.num_stages, in_node / shape.replicas()));
  const int used = std::min(interfaces, std::max(1, shape.replicas() * interfaces / in_node));
  const double shared = std::max(1.0, static_cast<double>(stages) * used / interfaces);
  return std::max(0.0, sync * shared - backward_ns);
}

Nanos StepEstimator::Finish(const PipelineShape& shape, const Passes& passes, double pipeline_ns,
                            bool syncs) {
  const double backward = (passes.input_grad + passes.weight_grad) / shape.num_stages;
  double optimizer = 0;
  for (int backbone : cost_.backbones()) {
    optimizer += static_cast<double>(
        cost_.Optimizer(backbone, cost_.AllLayers(backbone), shape.state_shards()));
  }
  optimizer /= shape.num_stages * SpeedOf(shape);
  const double backbone = pipeline_ns + optimizer + (syncs ? ExposedSync(shape, backward) : 0);
  const double work = shape.num_micro_batches * passes.total() / shape.num_stages + optimizer;
  const double frozen = FrozenWork(shape) / shape.devices_per_pipeline;
  // A filled step takes the longer of its backbone's time and all work evenly shared.
  return static_cast<Nanos>(fills_ ? std::max(backbone, work + frozen) : backbone + frozen);
}

Nanos StepEstimator::Estimate(const PipelineShape& shape) {
  return EstimateOf(shape, PassesOf(shape), recomputes_ ? 3 : 2);
}

Nanos StepEstimator::EstimateRecomputing(const PipelineShape& shape, double share) {
  Passes passes = PassesOf(shape);
  passes.input_grad += share * passes.forward / forward_passes_;
  return EstimateOf(shape, passes, 2 + share);
}

double StepEstimator::Gathers(const PipelineShape& shape, double num_passes) const {
  if (shape.sharding != Sharding::kZero3 || shape.num_stages > 1) return 0;
  std::vector<int> ranks(shape.num_devices);
  std::iota(ranks.begin(), ranks.end(), 0);
  double sum = 0;
  for (int backbone : cost_.backbones()) {
    const int64_t bytes =
        GatheredBytes(cost_, backbone, cost_.AllLayers(backbone), /*keeps_frozen=*/false);
    sum += static_cast<double>(cost_.AllGather(ranks, bytes));
  }
  return sum * num_passes * shape.num_micro_batches;
}

Nanos StepEstimator::Ideal(const PipelineShape& shape, double ramp_share) {
  const Passes passes = PassesOf(shape);
  const double pipeline = (shape.num_micro_batches + ramp_share * Ramp(shape, passes)) *
                          passes.total() / shape.num_stages;
  return static_cast<Nanos>(static_cast<double>(Finish(shape, passes, pipeline, false)) *
                            SpeedOf(shape) / mean_speed_);
}

Nanos StepEstimator::EstimateOf(const PipelineShape& shape, const Passes& passes,
                                double num_passes) {
  const double per_device = passes.total() / shape.num_stages;
  const double pace = std::max(per_device * (1 + Unevenness(shape)), LinkPace(shape));
  const double pipeline = (shape.num_micro_batches + Ramp(shape, passes)) * pace + LinkPath(shape);
  return Finish(shape, passes, std::max(pipeline, Gathers(shape, num_passes)));
}

Nanos StepEstimator::EstimateCut(const PipelineShape& shape, const PipelineCut& cut,
                                 const Schedule& schedule) {
  std::vector<PassCosts> costs = StagePassCosts(schedule, cut, shape, cost_);
  std::vector<double> loads(schedule.num_devices(), 0);
  for (int s = 0; s < schedule.num_stages(); ++s) {
    const ScheduleChain& chain = schedule.chains()[schedule.ChainOf(s)];
    costs[s].forward = static_cast<Nanos>(costs[s].forward * forward_passes_);
    loads[schedule.DeviceOf(s)] += static_cast<double>(chain.num_micro_batches) *
                                   (costs[s].forward + costs[s].input_grad + costs[s].weight_grad);
  }
  const double largest = *std::max_element(loads.begin(), loads.end());
  const double waits = std::max(0.0, shape.num_micro_batches * LinkPace(shape) - largest);
  const bool recomputes = std::count(cut.recompute.begin(), cut.recompute.end(), true) > 0;
  const double pipeline = static_cast<double>(schedule.Makespan(costs)) + waits + LinkPath(shape);
  return Finish(shape, PassesOf(shape), std::max(pipeline, Gathers(shape, recomputes ? 3 : 2)));
}

}  // namespace dpipe
