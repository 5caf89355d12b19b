#include "bench/suite_runner/suite_backends.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/comparison/pipeline_comparison.h"
#include "bench/comparison/simulated_comparison.h"
#include "bench/suite_runner/suite_cases.h"
#include "core/backend/choose_devices.h"
#include "core/base/files/run_paths.h"
#include "core/report/machine.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"

namespace dpipe::bench {
namespace {

absl::Status CheckCores(const SuiteCase& one) {
  const int cores = report::CollectMachineInfo().num_logical_cores();
  if (one.num_devices <= cores) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(one.num_devices, " CPU devices need one core each; ", cores, " are available"));
}

// Requests one GPU, whole or divided.
DeviceRequest GpuRequest(const SuiteCase& one) {
  DeviceRequest request;
  request.backend = "cuda";
  if (one.num_devices == 1) request.count = 1;
  if (one.num_devices > 1) request.virtual_devices = one.num_devices;
  return request;
}

absl::Status CheckGpu(const SuiteCase& one) { return ChooseDevices(GpuRequest(one)).status(); }

ComparisonOptions ComparisonOptionsOf(const SuiteCase& one, const CaseOptions& options) {
  const SuiteGroup& settings = one.settings;
  ComparisonOptions comparison;
  comparison.strategies.assign(settings.strategies().begin(), settings.strategies().end());
  comparison.global_batch = one.global_batch;
  comparison.num_micro_batches = settings.micro_batches();
  comparison.steps = settings.steps();
  comparison.warmup_steps = settings.warmup_steps();
  comparison.repeats = settings.repeats();
  comparison.profiles = settings.profiles();
  comparison.reference_steps = settings.reference_steps();
  comparison.skip_impossible = true;
  if (!options.shared_profiles.empty()) {
    comparison.shared_profile = absl::StrCat(options.shared_profiles, "/", one.id);
  }
  comparison.slow_down = options.slow_down;
  comparison.before_turn = options.before_turn;
  comparison.stop_requested = options.stop_requested;
  return comparison;
}

absl::StatusOr<Comparison> RunHere(const SuiteCase& one, const CaseOptions& options) {
  PipelineComparisonOptions pipeline;
  pipeline.benchmark = "suite";
  pipeline.model = one.model.name();
  models::TrainingSetupOptions& setup = pipeline.setup;
  setup.model.kind = one.model.kind();
  setup.model.image_size = one.model.image_size();
  const std::string& folder = one.model.folder();
  DPIPE_ASSIGN_OR_RETURN(setup.model_folder,
                         models::FindModelFolder(folder.empty() ? one.model.name() : folder));
  DPIPE_ASSIGN_OR_RETURN(
      setup.data.folder,
      models::FindDataFor(setup.model_folder, setup.model.kind, options.data_folder, options.say));
  setup.backend = one.backend;
  if (one.backend == "cuda") {
    setup.num_devices = GpuRequest(one).count;
    setup.virtual_devices = GpuRequest(one).virtual_devices;
  } else {
    setup.num_devices = one.num_devices;
  }
  setup.global_batch = one.global_batch;
  DPIPE_ASSIGN_OR_RETURN(setup.compute_dtype, ParseComputeDType(one.settings.dtype()));
  setup.seed = 1;
  setup.caption_drop = one.model.caption_drop();
  setup.optimizer.learning_rate.peak = 1e-3f;
  setup.optimizer.learning_rate.warmup_steps = 20;
  pipeline.comparison = ComparisonOptionsOf(one, options);
  return ComparePipelines(pipeline, options.say);
}

// Returns a file of the workspace, or one that this program was built with.
std::string WorkspaceFile(const std::string& path) {
  const std::string in_workspace = OutputPath(path);
  return std::filesystem::exists(in_workspace) ? in_workspace : path;
}

absl::StatusOr<Comparison> RunPlanned(const SuiteCase& one, const CaseOptions& options) {
  SimulatedComparisonOptions simulated;
  simulated.model = one.model.name();
  simulated.profile_path = WorkspaceFile(one.model.profile());
  simulated.cluster_path = WorkspaceFile(one.cluster);
  simulated.emulate = one.backend == "emulated";
  simulated.comparison = ComparisonOptionsOf(one, options);
  return CompareBySimulation(simulated);
}

absl::Status Possible(const SuiteCase&) { return absl::OkStatus(); }

const std::vector<SuiteBackend>& Backends() {
  static const auto* const kBackends = new std::vector<SuiteBackend>{
      {"cpu", /*on_this_machine=*/true, /*may_end_program=*/false, CheckCores, RunHere},
      {"simulated", /*on_this_machine=*/false, /*may_end_program=*/false, Possible, RunPlanned},
      {"emulated", /*on_this_machine=*/false, /*may_end_program=*/false, Possible, RunPlanned},
      {"cuda", /*on_this_machine=*/true, /*may_end_program=*/true, CheckGpu, RunHere},
  };
  return *kBackends;
}

}  // namespace

const SuiteBackend* FindBackend(const std::string& name) {
  for (const SuiteBackend& backend : Backends()) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

std::string BackendNames() {
  return absl::StrJoin(Backends(), ", ", [](std::string* out, const SuiteBackend& backend) {
    out->append(backend.name);
  });
}

}  // namespace dpipe::bench
