#include "tools/training/training_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/count.h"
#include "core/base/host/available_memory.h"
#include "core/planner/possible_shapes.h"
#include "core/planner/search.h"
#include "core/planner/strategy.h"
#include "core/profile/profile_match.h"
#include "core/report/plan_text.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/train/job.h"
#include "tools/planning/proto_file.h"
#include "tools/run_control/run_stop.h"
#include "tools/run_control/training_orders.h"
#include "tools/run_logs/sample_grid.h"

namespace dpipe::tools {
namespace {

std::string CacheText(const models::CachedInputs& cache, const std::string& folder) {
  const std::string damaged =
      cache.num_damaged == 0
          ? ""
          : absl::StrCat("; ", Count(cache.num_damaged, "damaged record"), " ignored");
  return absl::StrCat("Cache:    ", Count(cache.num_images, "image"), " and ",
                      Count(cache.num_captions, "caption"), ", ", FormatBytes(cache.size_bytes),
                      " in ", folder.empty() ? "memory" : folder, ", ", cache.num_computed,
                      " of them computed now", damaged);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(const TrainerOptions& options,
                                                                 const Say& say,
                                                                 const ShowProgress& show) {
  auto run = std::unique_ptr<TrainingRun>(new TrainingRun(options));
  if (run->leads()) {
    DPIPE_ASSIGN_OR_RETURN(
        run->checkpoints_,
        TrainingCheckpoints::Open(options.checkpoints, options.config_fields, options.config, say));
    if (!options.check_only) DropRunSignals(options, say);
  }
  if (run->leads() && !options.profile_path.empty()) {
    DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                           ReadCostModel(options.profile_path, options.cluster_path));
    run->basis_ = {cost.profile(), cost.cluster()};
  }
  models::TrainingSetupOptions setup = options.setup;
  if (run->resumed() != nullptr) {
    setup.weights_from = absl::StrCat("checkpoint at step ", run->resumed()->step);
  }
  setup.data.first_step_of = [&run](const SampleSource& data) { return run->AgreeOnOrder(data); };
  DPIPE_ASSIGN_OR_RETURN(run->setup_, models::TrainingSetup::Create(setup));
  DPIPE_RETURN_IF_ERROR(run->CheckNotStopped());
  if (run->leads()) {
    DPIPE_RETURN_IF_ERROR(run->DecodeFirstBatches());
    say(run->setup_->Describe());
    run->grid_prompts_ = GridPrompts(options, run->setup_->loader().dataset());
    DPIPE_RETURN_IF_ERROR(CheckGrids(run->setup_->model(), options, run->grid_prompts_, say));
  }
  const bool cached = options.strategy.frozen() == "cached";
  if (cached) DPIPE_RETURN_IF_ERROR(run->BuildCache(say, show));
  run->job_ = cached ? run->setup_->CachedJob() : run->setup_->job();
  DPIPE_RETURN_IF_ERROR(run->CheckBasis());
  DPIPE_RETURN_IF_ERROR(run->FindPlans(say, show));
  for (const std::string& note : run->setup_->TakeDeviceNotes()) say(note);
  if (run->resumed() != nullptr) run->job_.first_step = run->resumed()->step;
  run->job_.max_skipped_in_a_row = options.faults.max_skipped_in_a_row;
  if (run->leads()) {
    say(absl::StrCat("Plan:     ", options.strategy.name(), ", ",
                     report::PlanText(run->plans_.plan)));
    run->ChooseSteps();
  }
  DPIPE_RETURN_IF_ERROR(run->ReceiveOrders());
  if (run->leads()) run->WarnOfMemory(say);
  DPIPE_RETURN_IF_ERROR(run->Start());
  return run;
}

absl::StatusOr<int64_t> TrainingRun::AgreeOnOrder(const SampleSource& data) {
  if (leads()) {
    DPIPE_ASSIGN_OR_RETURN(order_, checkpoints_->OrderFor(data.size(), data.fingerprint()));
  }
  if (processes() == nullptr) return order_.first_step;
  std::map<std::string, std::string> flags = options_.config_fields;
  if (options_.check_only) flags["check"] = "true";  // not a field of the configuration
  DPIPE_RETURN_IF_ERROR(CheckSameRun(processes(), flags, data.size(), data.fingerprint()));
  DPIPE_ASSIGN_OR_RETURN(order_.first_step, AgreeOnFirstStep(processes(), order_.first_step));
  return order_.first_step;
}

// Fails now if the images cannot be decoded, and finds the skipped ones so that they are reported.
absl::Status TrainingRun::DecodeFirstBatches() {
  DPIPE_RETURN_IF_ERROR(setup_->loader().Decode(resumed() == nullptr ? 0 : resumed()->step));
  return setup_->held_out() == nullptr ? absl::OkStatus() : setup_->held_out()->Decode(0);
}

// Takes over the plans and steps that process 0 has chosen.
absl::Status TrainingRun::ReceiveOrders() {
  if (processes() != nullptr) {
    TrainingOrders orders;
    *orders.mutable_plan() = plans_.plan;
    *orders.mutable_self_conditioned() = plans_.self_conditioned;
    orders.set_first_step(job_.first_step);
    orders.set_num_steps(num_steps_);
    DPIPE_ASSIGN_OR_RETURN(orders, AgreeOnOrders(processes(), orders));
    plans_ = {orders.plan(), orders.self_conditioned()};
    job_.first_step = orders.first_step();
    num_steps_ = orders.num_steps();
  }
  job_.optimizer.learning_rate.total_steps = num_steps_;
  return absl::OkStatus();
}

// Warns about CPU memory only: GPU memory is a limit of the plan, while CPU memory may be swapped
// or released by other programs.
void TrainingRun::WarnOfMemory(const Say& say) const {
  if (!job_.workers[0]->device()->has_host_memory()) return;
  const int64_t available = AvailableMemoryBytes();
  const int num_local = processes() == nullptr ? 1 : processes()->address().num_local;
  const auto& peaks = plans_.plan.prediction().peak_memory_bytes();
  int64_t needed = 0;
  for (int i = 0; i < std::min<int>(peaks.size(), job_.workers.size() * num_local); ++i) {
    needed += peaks[i];
  }
  if (available == 0 || needed <= available) return;
  say(absl::StrCat("Warning:  training takes about ", FormatBytes(needed),
                   " of this machine's memory, but only ", FormatBytes(available), " is free"));
}

absl::Status TrainingRun::CheckNotStopped() const {
  const auto& should_stop = options_.setup.should_stop;
  return should_stop && should_stop() ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status TrainingRun::Start() {
  DPIPE_RETURN_IF_ERROR(CheckNotStopped());
  DPIPE_ASSIGN_OR_RETURN(session_,
                         StartSession(job_, plans_.plan, plans_.self_conditioned_or_null()));
  if (leads()) DPIPE_RETURN_IF_ERROR(checkpoints_->Restore(session_.get()));
  return absl::OkStatus();
}

// Caches all images, or only those of this run's steps if they are less than an epoch. A check
// caches only as much as profiling needs.
absl::Status TrainingRun::BuildCache(const Say& say, const ShowProgress& show) {
  int64_t steps = setup_->loader().StepsToSeeAll();
  if (options_.num_steps > 0) steps = std::min(steps, options_.num_steps);
  if (options_.check_only) steps = 1;
  const models::CachedInputs* cache = nullptr;
  const auto build = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(cache, setup_->BuildCache(steps, [&](double done) {
      show("filling the offline cache", done);
    }));
    return absl::OkStatus();
  };
  // The other processes of a host read from the folder what the first one has computed.
  const bool is_shared =
      processes() != nullptr && !options_.setup.cache_folder.empty() && options_.setup.writes_files;
  DPIPE_RETURN_IF_ERROR(is_shared ? processes()->RunFirstOnHost("the offline cache", build)
                                  : build());
  if (leads()) say(CacheText(*cache, options_.setup.cache_folder));
  // Frozen work that cannot be cached fills bubbles.
  if (setup_->cache_is_partial()) strategy_.set_frozen("fill");
  if (!setup_->model().model().BackbonesAreFp32()) KeepFrozenWeightsWhole(strategy_);
  return absl::OkStatus();
}

absl::Status TrainingRun::FindPlans(const Say& say, const ShowProgress& show) {
  std::optional<TrainingPlans> saved;
  if (leads()) {
    DPIPE_ASSIGN_OR_RETURN(saved, checkpoints_->SavedPlans(PlanIsFor()));
  }
  bool make = !saved.has_value();
  if (processes() != nullptr) {
    DPIPE_ASSIGN_OR_RETURN(make, AgreeOnPlanning(processes(), make));
  }
  if (make) return MakePlans(show);
  if (saved.has_value()) plans_ = *std::move(saved);
  return absl::OkStatus();
}

int TrainingRun::num_devices() const {
  const int num_processes = processes() == nullptr ? 1 : processes()->num_processes();
  return static_cast<int>(job_.workers.size()) * num_processes;
}

std::vector<int> TrainingRun::LocalBatches() const {
  std::vector<int> batches = CandidateLocalBatches(options_.setup.global_batch);
  if (options_.max_micro_batch > 0) {
    batches.erase(std::upper_bound(batches.begin(), batches.end(), options_.max_micro_batch),
                  batches.end());
  }
  return batches;
}

absl::Status TrainingRun::CheckBasis() {
  if (!basis_.has_value()) return absl::OkStatus();
  const auto in_file = [](const std::string& path, const absl::Status& status) {
    return status.ok() ? status
                       : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  const ModelProfile described = DescribeJob(job_);
  DPIPE_RETURN_IF_ERROR(in_file(options_.profile_path,
                                CheckProfileMatches(basis_->profile, described, LocalBatches())));
  DPIPE_RETURN_IF_ERROR(in_file(options_.cluster_path,
                                CheckClusterMatches(basis_->cluster, num_devices(),
                                                    job_.workers[0]->device()->has_host_memory())));
  // Fields that are not measured are taken from this run.
  basis_->profile.set_model(described.model());
  basis_->profile.set_self_conditioning_probability(described.self_conditioning_probability());
  basis_->profile.set_optimizer_bytes_per_parameter(described.optimizer_bytes_per_parameter());
  return absl::OkStatus();
}

// Returns everything that determines the plan except the machine's speed. Measuring the speed again
// would give another plan, so it counts only if it was given as files. The number of processes
// affects only the speed, so it does not count.
std::map<std::string, std::string> TrainingRun::PlanIsFor() const {
  std::map<std::string, std::string> plan_for;
  plan_for["strategy"] = strategy_.ShortDebugString();
  if (!options_.profile_path.empty()) {
    plan_for["profile"] = Fingerprint(basis_->profile);
    plan_for["cluster"] = Fingerprint(basis_->cluster);
  }
  plan_for["devices"] = absl::StrCat(num_devices());
  if (job_.workers[0]->device()->kind() == DeviceKind::kCuda) plan_for["backend"] = "cuda";
  // All processes have the same kinds of devices as the first one.
  for (int i = 0; i < num_devices(); ++i) {
    const Device& device = *job_.workers[i % job_.workers.size()]->device();
    absl::StrAppend(&plan_for["threads"], i == 0 ? "" : " ", device.num_threads());
  }
  plan_for["model"] = job_.model->name();
  plan_for["dtype"] = std::string(DTypeName(job_.compute_dtype));
  plan_for["global_batch"] = absl::StrCat(options_.setup.global_batch);
  plan_for["micro_batches"] = absl::StrCat(options_.num_micro_batches);
  plan_for["max_micro_batch"] = absl::StrCat(options_.max_micro_batch);
  plan_for["frozen_quantum"] = absl::StrCat(job_.frozen_quantum);
  if (job_.self_conditioning.probability > 0) {
    plan_for["self_conditioning"] = absl::StrCat(job_.self_conditioning.probability);
  }
  return plan_for;
}

absl::Status TrainingRun::CheckBatch() const {
  ShapeRequest request;
  request.num_devices = num_devices();
  request.global_batch = options_.setup.global_batch;
  request.num_micro_batches = options_.num_micro_batches;
  const bool has_frozen = job_.model->num_components() > job_.model->backbones().size();
  request.frozen_quantum = has_frozen ? job_.frozen_quantum : 1;
  return CheckShapesExist(strategy_, request);
}

// All processes measure at the same time.
absl::Status TrainingRun::MeasureBasis(const ShowProgress& show) {
  auto on_progress = [&](double done) { show("profiling the model on this machine", done); };
  on_progress(0);
  PlanBasis basis;
  DPIPE_ASSIGN_OR_RETURN(basis.cluster, MeasureCluster(job_));
  DPIPE_ASSIGN_OR_RETURN(basis.profile, ProfileJob(job_, LocalBatches(), on_progress));
  if (leads()) basis_ = std::move(basis);
  return absl::OkStatus();
}

// Process 0 plans.
absl::Status TrainingRun::MakePlans(const ShowProgress& show) {
  DPIPE_RETURN_IF_ERROR(CheckBatch());
  if (options_.profile_path.empty()) DPIPE_RETURN_IF_ERROR(MeasureBasis(show));
  if (!leads()) return absl::OkStatus();
  DPIPE_RETURN_IF_ERROR(CheckNotStopped());
  PlanOptions plan_options;
  plan_options.global_batch = options_.setup.global_batch;
  plan_options.num_micro_batches = options_.num_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(PlanResult planned,
                         MakePlan(strategy_, basis_->profile, basis_->cluster, plan_options));
  plans_ = {std::move(planned.plan), std::move(planned.self_conditioned_plan)};
  return absl::OkStatus();
}

void TrainingRun::ChooseSteps() {
  num_steps_ = options_.num_steps;
  if (num_steps_ == 0 && resumed() != nullptr) {
    num_steps_ = resumed()->num_steps;  // keeps the learning rate's schedule
  } else if (num_steps_ == 0) {
    const int64_t step_ns = std::max<int64_t>(1, plans_.plan.prediction().step_ns());
    // A fifth fewer than predicted, so that the learning rate's decay ends before the time does.
    num_steps_ = std::max<int64_t>(1, options_.time_limit_ns / step_ns * 4 / 5);
  }
}

absl::Status TrainingRun::SaveCheckpoint(CheckpointInfo info, bool is_last) {
  info.num_steps = num_steps_;
  info.seed = options_.setup.seed;
  info.global_batch = plans_.plan.global_batch();
  info.dataset_size = setup_->loader().dataset().size();
  info.data_fingerprint = setup_->loader().dataset().fingerprint();
  info.order = order_;
  info.learning_rate = job_.optimizer.learning_rate.At(session_->next_step());
  info.plan_for = PlanIsFor();
  return checkpoints_->Save(*session_, plans_, std::move(info), is_last);
}

double TrainingRun::Epoch(int64_t steps) const {
  return order_.EpochsAt(steps, plans_.plan.global_batch(), setup_->loader().dataset().size());
}

absl::StatusOr<models::NamedTensors> TrainingRun::Weights() const {
  if (last_weights_.has_value()) return *last_weights_;
  return WithUntrained(has_averages() ? kAverageKind : kWeightKind);
}

absl::StatusOr<models::NamedTensors> TrainingRun::WithUntrained(const std::string& kind) const {
  DPIPE_ASSIGN_OR_RETURN(models::NamedTensors weights, session_->Collect(kind));
  for (int c : job_.model->backbones()) {
    const nn::Program& program = job_.model->component(c).program;
    for (int i = 0; i < program.num_parameters(); ++i) {
      const nn::ParameterInfo& parameter = program.parameter(nn::ParameterId(i));
      if (parameter.trainable) continue;
      DPIPE_ASSIGN_OR_RETURN(weights[parameter.name], job_.backbone_parameters->Read(parameter));
    }
  }
  return weights;
}

nn::ParameterSourcePtr TrainingRun::SavedWeights() const {
  if (last_weights_.has_value()) return nn::SourceOf(*last_weights_);
  return nn::SourceOf([this](const nn::ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
    if (!parameter.trainable) return job_.backbone_parameters->Read(parameter);
    return session_->CollectOne(has_averages() ? kAverageKind : kWeightKind, parameter.name);
  });
}

absl::StatusOr<models::NamedTensors> TrainingRun::TrainedWeights() const {
  if (last_trained_weights_.has_value()) return *last_trained_weights_;
  return WithUntrained(kWeightKind);
}

absl::Status TrainingRun::EndSession(bool keeps_weights) {
  if (keeps_weights) {
    DPIPE_ASSIGN_OR_RETURN(last_weights_, Weights());
  }
  if (!has_averages()) {
    last_trained_weights_ = last_weights_;
  } else if (keeps_weights && options_.evaluate_trained && setup_->held_out() != nullptr) {
    DPIPE_ASSIGN_OR_RETURN(last_trained_weights_, TrainedWeights());
  }
  session_ = nullptr;
  return absl::OkStatus();
}

}  // namespace dpipe::tools
