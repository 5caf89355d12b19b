#include "core/planner/pipeline/shape.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// Keeps samples times any count per sample within 31 bits.
constexpr int kMaxGlobalBatch = 1 << 24;

std::vector<int> Divisors(int n) {
  std::vector<int> divisors;
  for (int d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d != n / d) divisors.push_back(n / d);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

absl::Status DoesNotDivide(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckDevices(const PipelineShape& shape) {
  if (shape.devices_per_pipeline > shape.num_devices) {
    return DoesNotDivide(absl::StrCat("a pipeline of ", shape.devices_per_pipeline,
                                      " devices needs more than the ", shape.num_devices,
                                      " available"));
  }
  if (shape.num_devices % shape.devices_per_pipeline != 0) {
    return DoesNotDivide(absl::StrCat(shape.num_devices,
                                      " devices do not divide into pipelines of ",
                                      shape.devices_per_pipeline));
  }
  if (shape.num_stages > shape.devices_per_pipeline) {
    return DoesNotDivide(absl::StrCat(shape.num_stages, " stages need at least as many devices; a ",
                                      "pipeline has ", shape.devices_per_pipeline));
  }
  if (shape.devices_per_pipeline % shape.num_stages != 0) {
    return DoesNotDivide(absl::StrCat("a pipeline's ", shape.devices_per_pipeline,
                                      " devices do not divide over ", shape.num_stages, " stages"));
  }
  return absl::OkStatus();
}

// Ranks that each update the same weights on their own drift apart.
absl::Status CheckStageRanks(const PipelineShape& shape, const ShapeRequest& request) {
  if (!request.one_rank_per_stage || shape.stage_ranks() == 1) return absl::OkStatus();
  return DoesNotDivide(absl::StrCat(
      "weights that are updated without a sync (sync_every=0) would drift apart on the ",
      shape.stage_ranks(), " ranks of a stage, of ", shape.num_groups(), " pipelines of ",
      shape.num_stages, " stages on ", shape.devices_per_pipeline,
      " devices: set sync_every or request ", shape.num_devices, " stages"));
}

absl::Status CheckBatch(const PipelineShape& shape, const ShapeRequest& request) {
  if (shape.global_batch % shape.num_groups() != 0) {
    return DoesNotDivide(absl::StrCat("a global batch of ", shape.global_batch,
                                      " samples does not divide over ", shape.num_groups(),
                                      " pipelines"));
  }
  const int samples = shape.samples_per_group();
  if (request.micro_batch_size > 0 && request.num_micro_batches == 0 &&
      samples % request.micro_batch_size != 0) {
    return DoesNotDivide(absl::StrCat("a pipeline's ", samples,
                                      " samples do not divide into micro-batches of ",
                                      request.micro_batch_size));
  }
  if (shape.num_micro_batches > samples) {
    return DoesNotDivide(absl::StrCat(shape.num_micro_batches,
                                      " micro-batches are more than a pipeline's ", samples,
                                      " samples"));
  }
  if (samples % shape.num_micro_batches != 0) {
    return DoesNotDivide(absl::StrCat("a pipeline's ", samples, " samples do not divide into ",
                                      shape.num_micro_batches, " micro-batches"));
  }
  if (request.micro_batch_size > 0 && shape.micro_batch_size() != request.micro_batch_size) {
    return DoesNotDivide(absl::StrCat(shape.num_micro_batches, " micro-batches of ",
                                      request.micro_batch_size, " samples are not a pipeline's ",
                                      samples, " samples"));
  }
  if (shape.micro_batch_size() % shape.replicas() != 0) {
    return DoesNotDivide(absl::StrCat("a micro-batch of ", shape.micro_batch_size(),
                                      " samples does not divide over ", shape.replicas(),
                                      " devices of a stage"));
  }
  if (samples % request.frozen_quantum != 0) {
    return DoesNotDivide(absl::StrCat("a pipeline's ", samples,
                                      " samples are not a multiple of the ", request.frozen_quantum,
                                      " samples that frozen components are profiled and run on at "
                                      "a time (--frozen_quantum)"));
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const PipelineShape& shape) {
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(shape.schedule));
  ScheduleRequest request;
  request.num_devices = shape.num_stages;
  request.num_micro_batches = shape.num_micro_batches;
  request.stages_per_device = shape.stages_per_device;
  return CheckRequest(shape.schedule, traits, request);
}

std::vector<int> StageChoices(const ShapeRequest& request, int devices_per_pipeline) {
  if (request.num_stages > 0) return {request.num_stages};
  if (request.schedule == "single") return {1};
  std::vector<int> stages = Divisors(devices_per_pipeline);
  // A pipeline of one stage is data parallelism, which is a schedule of its own ("single").
  if (request.num_devices > 1) stages.erase(stages.begin());
  return stages;
}

// One stage on D devices of a group computes the same as D groups of one device.
std::vector<int> GroupChoices(const ShapeRequest& request) {
  if (request.devices_per_pipeline > 0) return {request.devices_per_pipeline};
  if (request.schedule == "single") return {1};
  return Divisors(request.num_devices);
}

std::vector<int> MicroBatchChoices(const ShapeRequest& request, const PipelineShape& shape) {
  if (request.num_micro_batches > 0) return {request.num_micro_batches};
  const int samples = std::max(1, shape.samples_per_group());
  if (request.micro_batch_size > 0) return {std::max(1, samples / request.micro_batch_size)};
  return Divisors(samples);
}

// Removes the shapes that dense_micro_batches_per_stage excludes. `shapes` differ only in M and are
// sorted by it.
void Thin(const ShapeRequest& request, std::vector<PipelineShape>* shapes) {
  if (request.dense_micro_batches_per_stage == 0 || request.num_micro_batches > 0) return;
  std::vector<PipelineShape> kept;
  for (size_t i = 0; i < shapes->size(); ++i) {
    const PipelineShape& shape = (*shapes)[i];
    const int dense = std::max(2, request.dense_micro_batches_per_stage * shape.num_stages);
    const bool sparse = shape.num_micro_batches > dense && i + 1 < shapes->size() &&
                        !kept.empty() &&
                        2 * shape.num_micro_batches < 3 * kept.back().num_micro_batches;
    if (!sparse) kept.push_back(shape);
  }
  *shapes = std::move(kept);
}

}  // namespace

const char* NameOf(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      return "none";
    case Sharding::kZero1:
      return "zero1";
    case Sharding::kZero3:
      return "zero3";
  }
  return "";
}

absl::Status CheckShape(const PipelineShape& shape, const ShapeRequest& request) {
  DPIPE_RETURN_IF_ERROR(CheckDevices(shape));
  DPIPE_RETURN_IF_ERROR(CheckStageRanks(shape, request));
  DPIPE_RETURN_IF_ERROR(CheckBatch(shape, request));
  return CheckSchedule(shape);
}

// Returns the error that no choice of D can avoid; OK if there is none.
absl::Status CheckStages(const ShapeRequest& request) {
  if (request.schedule == "single" && request.num_stages > 1) {
    return DoesNotDivide(
        absl::StrCat("schedule 'single' has 1 stage; requested ", request.num_stages));
  }
  if (request.num_stages > request.num_devices) {
    return DoesNotDivide(absl::StrCat(request.num_stages,
                                      " stages need at least as many devices; there are ",
                                      request.num_devices));
  }
  if (request.num_stages > 0 && request.num_devices % request.num_stages != 0) {
    return DoesNotDivide(absl::StrCat(request.num_devices, " devices do not divide over ",
                                      request.num_stages, " stages"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const ShapeRequest& request) {
  if (request.global_batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the global batch must be at least 1 sample; got ", request.global_batch));
  }
  if (request.global_batch > kMaxGlobalBatch) {
    return absl::InvalidArgumentError(absl::StrCat("the global batch must be at most ",
                                                   kMaxGlobalBatch, " samples; got ",
                                                   request.global_batch));
  }
  const std::pair<const char*, int> counts[] = {
      {"num_stages", request.num_stages},
      {"num_micro_batches", request.num_micro_batches},
      {"micro_batch_size", request.micro_batch_size},
      {"devices_per_pipeline", request.devices_per_pipeline},
      {"stages_per_device", request.stages_per_device}};
  for (const auto& [name, value] : counts) {
    if (value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be at least 1, or 0 for a search; got ", value));
    }
  }
  return absl::OkStatus();
}

std::vector<PipelineShape> EnumerateShapes(const ShapeRequest& request, absl::Status* why) {
  std::vector<PipelineShape> shapes;
  *why = CheckStages(request);
  if (!why->ok()) return shapes;
  PipelineShape shape;
  shape.schedule = request.schedule;
  shape.num_devices = request.num_devices;
  shape.global_batch = request.global_batch;
  shape.stages_per_device = request.stages_per_device;
  for (int devices : GroupChoices(request)) {
    shape.devices_per_pipeline = devices;
    for (int stages : StageChoices(request, devices)) {
      shape.num_stages = stages;
      shape.num_micro_batches = 1;
      absl::Status status = CheckDevices(shape);
      if (!status.ok()) {
        if (why->ok() && request.devices_per_pipeline > 0) *why = status;
        continue;
      }
      std::vector<PipelineShape> of_numbers;
      for (int micro_batches : MicroBatchChoices(request, shape)) {
        shape.num_micro_batches = micro_batches;
        status = CheckShape(shape, request);
        if (status.ok()) {
          of_numbers.push_back(shape);
        } else if (why->ok()) {
          *why = status;
        }
      }
      Thin(request, &of_numbers);
      shapes.insert(shapes.end(), of_numbers.begin(), of_numbers.end());
    }
  }
  std::sort(shapes.begin(), shapes.end(), [](const PipelineShape& a, const PipelineShape& b) {
    return std::tie(a.num_stages, a.num_micro_batches, a.devices_per_pipeline) <
           std::tie(b.num_stages, b.num_micro_batches, b.devices_per_pipeline);
  });
  return shapes;
}

}  // namespace dpipe
