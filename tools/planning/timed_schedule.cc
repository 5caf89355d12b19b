#include "tools/planning/timed_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "core/planner/search.h"
#include "core/report/timeline/trace_index.h"
#include "core/schedule/verification/verify.h"
#include "core/sim/simulator.h"
#include "tools/planning/schedule_text.h"
#include "tools/planning/simulation_text.h"

namespace dpipe::tools {
namespace {

constexpr double kNanosPerUnit = 1e6;
constexpr double kMaxTime = 1e6;

Nanos InNanos(double units) { return static_cast<Nanos>(std::llround(units * kNanosPerUnit)); }

// A chain of `num_layers` layers that take these times for one sample.
ComponentProfile Backbone(int index, int num_layers, const PassTimes& times) {
  ComponentProfile backbone;
  backbone.set_name(index == 0 ? "backbone" : absl::StrCat("backbone", index));
  backbone.set_is_backbone(true);
  for (int l = 0; l < num_layers; ++l) {
    LayerProfile* layer = backbone.add_layers();
    layer->set_name(absl::StrCat("layer", l));
    layer->set_kind(TRAINABLE);
    LayerTiming* timing = layer->add_timings();
    timing->set_local_batch(1);
    timing->set_forward_ns(InNanos(times.forward));
    timing->set_input_grad_ns(InNanos(times.input_grad));
    timing->set_weight_grad_ns(InNanos(times.weight_grad));
    if (l + 1 == num_layers) break;
    ValueProfile* value = backbone.add_values();
    value->set_name(absl::StrCat("x", l));
    value->set_producer_layer(l);
    value->add_consumer_layers(l + 1);
    value->set_has_gradient(true);
  }
  return backbone;
}

// One layer per stage, so that there is only one cut.
ModelProfile ProfileOf(const Schedule& schedule, const PassTimes& times) {
  std::map<int, int> layers;  // by backbone
  for (const ScheduleChain& chain : schedule.chains()) {
    layers[chain.backbone] = static_cast<int>(chain.devices.size());
  }
  ModelProfile profile;
  profile.set_model(absl::StrCat(schedule.num_stages(), " equal stages"));
  profile.set_dtype("fp32");
  profile.set_frozen_quantum(1);
  for (const auto& [backbone, count] : layers) {
    *profile.add_components() = Backbone(backbone, count, times);
  }
  return profile;
}

ClusterSpec ClusterOf(const Schedule& schedule, const PassTimes& times) {
  ClusterSpec cluster;
  cluster.set_name("equal devices");
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(schedule.num_devices());
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node()}) {
    link->set_latency_ns(InNanos(times.message));
    link->set_bandwidth_bytes_per_s(1e18);
  }
  return cluster;
}

}  // namespace

absl::StatusOr<PassTimes> ParsePassTimes(const std::string& text) {
  std::vector<double> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double number = 0;
    const bool valid = absl::SimpleAtod(part, &number) && number >= 0 && number <= kMaxTime;
    numbers.push_back(valid ? number : -1);
  }
  const bool valid = (numbers.size() == 3 || numbers.size() == 4) &&
                     *std::min_element(numbers.begin(), numbers.end()) >= 0 &&
                     numbers[0] + numbers[1] + numbers[2] > 0;
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat(
        "times '", text, "': expected the times of a forward, an input-gradient and a ",
        "weight-gradient pass and, if wanted, of a message: 1,1,1 or 1,1.2,0.8,0.1, each from 0 ",
        "to ", kMaxTime));
  }
  return PassTimes{numbers[0], numbers[1], numbers[2], numbers.size() == 4 ? numbers[3] : 0};
}

absl::StatusOr<TimedSchedule> SimulateSchedule(const std::string& name,
                                               const ScheduleRequest& request,
                                               const PassTimes& times) {
  // Its stages and devices do not depend on costs.
  DPIPE_ASSIGN_OR_RETURN(const Schedule shape, MakeSchedule(name, request));
  DPIPE_ASSIGN_OR_RETURN(CostModel cost,
                         CostModel::Create(ProfileOf(shape, times), ClusterOf(shape, times)));
  Strategy strategy = DefaultStrategy();
  strategy.set_name(name);
  strategy.set_schedule(name);
  PlanOptions options;
  options.global_batch = request.num_micro_batches;
  options.num_stages = request.num_devices;
  options.num_micro_batches = request.num_micro_batches;
  options.micro_batch_size = 1;
  options.stages_per_device = request.stages_per_device;
  options.refine = false;
  options.global_norm = false;  // nothing but passes and messages takes time
  DPIPE_ASSIGN_OR_RETURN(const PlanResult result,
                         MakePlan(strategy, cost.profile(), cost.cluster(), options));
  DPIPE_RETURN_IF_ERROR(VerifyPlan(result.plan, cost));
  DPIPE_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOfPlan(result.plan));
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(result.plan, cost));
  Trace trace = ToTrace(simulation, result.plan);
  const double step = static_cast<double>(simulation.stats.step_ns) / kNanosPerUnit;
  return TimedSchedule{std::move(schedule), std::move(cost), std::move(trace), step,
                       simulation.stats.bubble_ratio};
}

absl::StatusOr<std::string> TimedScheduleText(const TimedSchedule& timed, const PassTimes& times) {
  DPIPE_ASSIGN_OR_RETURN(const report::TraceIndex index, report::TraceIndex::Create(timed.trace));
  const std::string costs = absl::StrFormat(
      "Times:      forward %g, input gradient %g, weight gradient %g, message %g\n"
      "Step:       %.6g, bubble ratio %.1f %%\n",
      times.forward, times.input_grad, times.weight_grad, times.message, timed.step,
      100 * timed.bubble_ratio);
  return absl::StrCat(ScheduleText(timed.schedule, costs), "\n", DeviceTable(index, timed.cost));
}

}  // namespace dpipe::tools
