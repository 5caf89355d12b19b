#include "core/planner/search/candidates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/planner/strategy.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// ShapeRequest.dense_micro_batches_per_stage.
constexpr int kDenseMicroBatchesPerStage = 8;

bool IsAdmissible(const Alternative& alternative, int num_backbones) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(alternative.schedule);
  if (!traits.ok()) return false;
  if (traits->num_backbones != 1 && traits->num_backbones != num_backbones) return false;
  return traits->weight_copies == 1 || alternative.sharding == Sharding::kNone;
}

}  // namespace

std::vector<Alternative> AlternativesOf(const Strategy& strategy, const CostModel& cost) {
  std::vector<Alternative> all;
  const std::vector<ScheduleAlternative> choices = ScheduleAlternatives(strategy);
  for (Sharding sharding : ShardAlternatives(strategy)) {
    for (const ScheduleAlternative& choice : choices) {
      if (choice.shard.empty()) all.push_back({choice.schedule, sharding, choice.partitioner});
    }
  }
  for (const ScheduleAlternative& choice : choices) {
    if (choice.shard.empty()) continue;
    all.push_back({choice.schedule, ShardingOf(choice.shard), choice.partitioner, true});
  }
  // A single alternative is kept, so that its error says what is wrong with it.
  if (all.size() == 1) return all;
  std::vector<Alternative> admissible;
  for (Alternative& alternative : all) {
    if (!IsAdmissible(alternative, static_cast<int>(cost.backbones().size()))) continue;
    admissible.push_back(std::move(alternative));
  }
  return admissible;
}

std::vector<std::pair<int, Strategy>> SimplerStrategies(const Strategy& strategy,
                                                        const CostModel& cost) {
  std::vector<std::pair<int, Strategy>> simpler;
  const Sharding first_sharding = ShardAlternatives(strategy)[0];
  const std::vector<Alternative> alternatives = AlternativesOf(strategy, cost);
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const Alternative& alternative = alternatives[i];
    if (!alternative.has_own_sharding && alternative.sharding != first_sharding &&
        alternative.schedule != "single") {
      continue;
    }
    Strategy& one = simpler.emplace_back(static_cast<int>(i), strategy).second;
    one.set_schedule(alternative.schedule);
    one.set_shard(NameOf(alternative.sharding));
    if (!alternative.partitioner.empty()) one.set_partitioner(alternative.partitioner);
    one.set_frozen("first");
    if (one.recompute() != "full") one.set_recompute("none");
    one.set_tune(false);
  }
  return simpler;
}

Candidate* FindLarger(const Candidate& smaller, int times, std::vector<Candidate>* candidates) {
  const PipelineShape& shape = smaller.shape;
  const auto same =
      std::find_if(candidates->begin(), candidates->end(), [&](const Candidate& candidate) {
        const PipelineShape& other = candidate.shape;
        return candidate.alternative == smaller.alternative &&
               other.num_stages == shape.num_stages &&
               other.num_micro_batches == times * shape.num_micro_batches &&
               other.devices_per_pipeline == shape.devices_per_pipeline &&
               other.frozen_hosts == shape.frozen_hosts;
      });
  return same == candidates->end() ? nullptr : &*same;
}

absl::Status CandidateSource::Check() const {
  if (options_.simulation_budget < 1) {
    return absl::InvalidArgumentError(absl::StrCat("simulation_budget must be at least 1; got ",
                                                   options_.simulation_budget, "; the default is ",
                                                   kDefaultSimulationBudget));
  }
  return CheckRequest(RequestOf(ScheduleAlternatives(strategy_)[0].schedule));
}

ShapeRequest CandidateSource::RequestOf(const std::string& schedule) const {
  ShapeRequest request;
  request.schedule = schedule;
  request.num_devices = cost_.num_devices();
  request.global_batch = options_.global_batch;
  request.num_stages = options_.num_stages;
  request.num_micro_batches = options_.num_micro_batches;
  request.micro_batch_size = options_.micro_batch_size;
  request.devices_per_pipeline = options_.devices_per_pipeline;
  request.stages_per_device = options_.stages_per_device;
  request.dense_micro_batches_per_stage = kDenseMicroBatchesPerStage;
  const bool cuts = !builder_.cached() && !cost_.frozen_components().empty();
  request.frozen_quantum = cuts ? cost_.frozen_quantum() : 1;
  request.one_rank_per_stage = Relaxes(strategy_) && strategy_.sync_every() == 0;
  return request;
}

std::vector<Candidate> CandidateSource::All(StepEstimator* estimator, absl::Status* why) const {
  std::vector<Candidate> candidates;
  const std::vector<Alternative> alternatives = AlternativesOf(strategy_, cost_);
  for (size_t i = 0; i < alternatives.size(); ++i) {
    // Only simpler strategies cover these: the estimates ignore partitioners.
    if (alternatives.size() > 1 && !alternatives[i].partitioner.empty()) continue;
    absl::Status why_not;
    for (PipelineShape& shape : EnumerateShapes(RequestOf(alternatives[i].schedule), &why_not)) {
      // There is nothing to divide, so another alternative is the same.
      const bool is_alone = shape.stage_ranks() == 1;
      if (is_alone && alternatives[i].sharding != alternatives[0].sharding) continue;
      Candidate candidate;
      candidate.shape = std::move(shape);
      candidate.shape.sharding = alternatives[i].sharding;
      candidate.shape.partitioner = alternatives[i].partitioner;
      candidate.alternative = static_cast<int>(i);
      candidate.estimate_ns = estimator->Estimate(candidate.shape);
      if (strategy_.tune()) AddWithFewerHosts(candidate, &candidates);
      candidates.push_back(std::move(candidate));
    }
    if (why->ok()) *why = why_not;
  }
  return candidates;
}

// Adds the same candidate with heavy frozen components on some of the devices only.
void CandidateSource::AddWithFewerHosts(Candidate candidate,
                                        std::vector<Candidate>* candidates) const {
  for (int hosts : builder_.FrozenHostCounts(candidate.shape)) {
    candidate.shape.frozen_hosts = hosts;
    candidates->push_back(candidate);
  }
}

}  // namespace dpipe
