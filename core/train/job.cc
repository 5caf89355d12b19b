#include "core/train/job.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/phases.h"
#include "core/base/philox.h"
#include "core/ops/optimizer/optimizer.h"
#include "core/profile/describe.h"
#include "core/profile/profiler.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {
namespace {

// Returns the sum over all layers, each with the largest batch that it was timed with.
int64_t TotalLayerNs(const ModelProfile& profile) {
  int64_t total = 0;
  for (const ComponentProfile& component : profile.components()) {
    for (const LayerProfile& layer : component.layers()) {
      if (layer.timings().empty()) continue;
      const LayerTiming& timing = *layer.timings().rbegin();
      total += timing.forward_ns() + timing.input_grad_ns() + timing.weight_grad_ns();
    }
  }
  return total;
}

absl::StatusOr<ModelProfile> ParseProfile(const std::string& text, const std::string& whose) {
  ModelProfile profile;
  if (profile.ParseFromString(text)) return profile;
  return absl::InternalError(absl::StrCat("the profile of ", whose, " is not a ModelProfile"));
}

// Returns the profile, among those of all processes, with the largest total layer time: a step is
// as slow as its slowest device. Every process calls this and gets the same one.
absl::StatusOr<ModelProfile> SlowestProfile(ProcessGroup* processes, ModelProfile own) {
  StoreClient& store = processes->store();
  const std::string key = absl::StrCat("profile/", processes->NextNumber(), "/");
  if (!processes->is_leader()) {
    DPIPE_RETURN_IF_ERROR(
        store.SendNote(0, absl::StrCat(key, processes->process()), own.SerializeAsString()));
  }
  for (int p = 1; processes->is_leader() && p < processes->num_processes(); ++p) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string text,
        store.TakeNote(absl::StrCat(key, p), absl::StrCat("the profile of ", store.NameOf(p))));
    DPIPE_ASSIGN_OR_RETURN(ModelProfile other, ParseProfile(text, store.NameOf(p)));
    if (TotalLayerNs(other) > TotalLayerNs(own)) own = std::move(other);
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string slowest,
                         processes->FromLeader("the slowest profile", own.SerializeAsString()));
  return ParseProfile(slowest, store.NameOf(0));
}

// Returns an optimizer step like the runtime's: norm, update, clearing.
ProfilerInputs::OptimizerStepFn WholeOptimizerStep(const AdamWOptions& options,
                                                   const nn::ParameterSet& parameters) {
  std::shared_ptr<StepOptimizer> optimizer = AdamWFactory(options)(parameters);
  return [optimizer](nn::ParameterSet* set) -> absl::Status {
    std::vector<Tensor> grads;
    for (nn::ParameterId id : set->trainable_ids()) grads.push_back(*set->grad(id));
    DPIPE_RETURN_IF_ERROR(ops::SumsOfSquares(grads).status());
    DPIPE_RETURN_IF_ERROR(
        optimizer->Step(/*step=*/0, /*ends_step=*/true, /*global_norm=*/1.0, set));
    set->ZeroGrads();
    return absl::OkStatus();
  };
}

std::string DeviceName(const std::vector<DeviceWorker*>& workers) {
  const Device& device = *workers[0]->device();
  if (device.kind() == DeviceKind::kCuda) {
    return absl::StrCat(workers.size(), " x ", device.name());
  }
  return absl::StrCat(workers.size(), " x ", workers[0]->device()->num_threads(),
                      "-core CPU device");
}

// Adds properties that do not follow from the model.
void AddJob(const TrainingJob& job, ModelProfile* profile) {
  profile->set_self_conditioning_probability(job.self_conditioning.probability);
  profile->set_optimizer_bytes_per_parameter(OptimizerBytesPerParameter(job.optimizer));
}

absl::StatusOr<LocalSessionOptions> SessionOptions(const TrainingJob& job, const Plan& plan,
                                                   const Plan* self_conditioned_plan) {
  LocalSessionOptions options;
  options.plan = plan;
  if (self_conditioned_plan != nullptr) {
    SelfConditionedSteps& steps = options.self_conditioned.emplace();
    steps.plan = *self_conditioned_plan;
    steps.are = [how = job.self_conditioning](int64_t step) {
      return StepSelfConditions(how, step);
    };
  }
  options.model = job.model;
  options.sizes = job.sizes;
  options.workers = job.workers;
  options.processes = job.processes;
  options.inputs = job.inputs;
  options.frozen_parameters = job.frozen_parameters;
  options.initial_parameters = job.backbone_parameters.get();
  options.load_frozen = job.load_frozen;
  options.optimizer = AdamWFactory(job.optimizer);
  if (!plan.compression().empty()) {
    DPIPE_ASSIGN_OR_RETURN(options.reducer,
                           CompressionFactory(plan.compression(), job.compression));
  }
  options.compute_dtype = job.compute_dtype;
  options.graphs = job.graphs;
  options.deadline = job.deadline;
  options.clock = job.clock;
  options.connect = job.connect;
  options.connect_in_job = job.connect_in_job;
  options.first_step = job.first_step;
  options.max_skipped_in_a_row = job.max_skipped_in_a_row;
  options.slow_down = job.slow_down;
  return options;
}

}  // namespace

std::vector<int> CandidateLocalBatches(int global_batch) {
  std::vector<int> batches;
  for (int batch = 1; batch <= global_batch; ++batch) {
    if (global_batch % batch == 0) batches.push_back(batch);
  }
  return batches;
}

ModelProfile DescribeJob(const TrainingJob& job) {
  ModelProfile profile =
      DescribeModel(*job.model, job.compute_dtype, job.frozen_quantum, DeviceName(job.workers));
  AddJob(job, &profile);
  return profile;
}

absl::StatusOr<ModelProfile> ProfileJob(const TrainingJob& job,
                                        const std::vector<int>& local_batches,
                                        const std::function<void(double)>& on_progress, int passes,
                                        const std::function<void(const ModelProfile&)>& so_far) {
  const Phase phase("profile");
  ProfilerOptions options;
  std::vector<std::shared_ptr<Device>> devices;
  for (DeviceWorker* worker : job.workers) devices.push_back(worker->device());
  options.usable_bytes = cuda::UsableBytes(devices);
  if (so_far) {
    options.so_far = [&](ModelProfile profile) {
      AddJob(job, &profile);
      so_far(profile);
    };
  }
  if (job.processes == nullptr) options.should_stop = job.should_stop;
  options.passes = passes;
  options.local_batches = local_batches;
  options.frozen_quantum = job.frozen_quantum;
  options.compute_dtype = job.compute_dtype;
  options.graphs = job.graphs.enabled;
  options.device_name = DeviceName(job.workers);
  ProfilerInputs inputs;
  inputs.load = [&job](const nn::Component& component, const std::string& input, int samples,
                       const std::shared_ptr<Device>& device) {
    return job.inputs->Load(component.name, input, job.profiled_step, {0, samples}, device);
  };
  inputs.make_optimizer = [&job](const nn::ParameterSet& parameters) {
    return WholeOptimizerStep(job.optimizer, parameters);
  };
  DPIPE_ASSIGN_OR_RETURN(ModelProfile profile,
                         ProfileModel(*job.model, job.workers, inputs, options, on_progress));
  AddJob(job, &profile);
  // Sessions have separate pools, which could not use memory cached in the workers' pools.
  if (!job.workers[0]->device()->has_host_memory()) ReleaseCachedMemory(job.workers);
  if (job.processes == nullptr) return profile;
  return SlowestProfile(job.processes, std::move(profile));
}

bool StepSelfConditions(const SelfConditioningOptions& options, int64_t step) {
  // A sample number that no batch has, so that the draw differs from all of the step's timesteps.
  constexpr uint32_t kNoSample = 0xffffffff;
  RandomStream stream(options.seed, step, kNoSample, RandomPurpose::kTimestep);
  return stream.NextUniform() < options.probability;
}

void ReleaseCachedMemory(const std::vector<DeviceWorker*>& workers) {
  for (DeviceWorker* worker : workers) worker->device()->allocator().ReleaseCache();
}

absl::StatusOr<std::unique_ptr<LocalSession>> StartSession(const TrainingJob& job, const Plan& plan,
                                                           const Plan* self_conditioned_plan) {
  DPIPE_ASSIGN_OR_RETURN(LocalSessionOptions options,
                         SessionOptions(job, plan, self_conditioned_plan));
  return LocalSession::Create(std::move(options));
}

absl::StatusOr<std::unique_ptr<LocalSession>> StartSessionTakingParameters(
    TrainingJob* job, const Plan& plan, const Plan* self_conditioned_plan) {
  const Phase phase("start the session");
  DPIPE_ASSIGN_OR_RETURN(LocalSessionOptions options,
                         SessionOptions(*job, plan, self_conditioned_plan));
  options.on_parameters_copied = [job] { job->backbone_parameters = nullptr; };
  return LocalSession::Create(std::move(options));
}

}  // namespace dpipe
