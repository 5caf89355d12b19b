// Trains a built-in model by every exact strategy on several processes of this machine, over Gloo.
// The gradients are those of one device: bit-identical if there is one copy of the weights, to
// rounding if gradients are summed.
//
//   bazel run //tests:process_strategies -- --processes=2,4,8
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "core/base/time.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/launch/local_launcher.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "data/scenes/generator.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/gradients.h"
#include "tests/testlib/training.h"

DEFINE_string(model, "tiny_sd", "tiny_sd or tiny_flux");
DEFINE_string(processes, "2,4,8", "numbers of processes, separated by commas");
DEFINE_string(strategies, "",
              "strategies to train with, separated by commas; empty: every exact one");
DEFINE_bool(
    search, true,
    "also run the plan that each strategy's search chooses, not only pipelines over all processes");
DEFINE_int32(steps, 2, "number of training steps per strategy");
DEFINE_string(data, "/tmp/process_strategies", "folder for the built-in pictures");
FLAG_RANGE(steps, 1, 1'000);

namespace dpipe {
namespace {

using testlib::StepGradients;

constexpr int kGlobalBatch = 16;  // two micro-batches for each of 8 devices, for V schedules
constexpr int kMicroBatchSize = 1;
constexpr int kFrozenQuantum = 1;
constexpr uint64_t kSeed = 4;
// Maximum difference of a gradient summed in another order, relative to its tensor's norm.
constexpr double kRounding = 1e-5;

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

std::vector<std::string> Strategies() {
  if (FLAGS_strategies.empty()) return ExactStrategyNames();
  return absl::StrSplit(FLAGS_strategies, ',');
}

absl::StatusOr<std::unique_ptr<models::TrainingSetup>> SetUp(ProcessGroup* processes) {
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  options.data.folder = FLAGS_data;
  options.num_devices = 1;
  options.processes = processes;
  options.global_batch = kGlobalBatch;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = kSeed;
  return models::TrainingSetup::Create(options);
}

absl::StatusOr<Plan> MakePlan(const nn::Model& model, const std::string& strategy, int num_devices,
                              int num_stages) {
  testlib::PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.global_batch = kGlobalBatch;
  request.micro_batch_size = kMicroBatchSize;
  request.num_stages = num_stages;
  const ModelProfile profile = testlib::SyntheticProfile(
      model, DType::kF32, kFrozenQuantum, CandidateLocalBatches(kGlobalBatch), /*seed=*/3);
  return testlib::MakeTestPlan(profile, request);
}

bool SumsGradients(const Plan& plan) {
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::REDUCE_GRADS) return true;
    }
  }
  return false;
}

// One process of the job.
class Member {
 public:
  explicit Member(ProcessGroup* processes) : processes_(processes) {}

  absl::Status Run() {
    BuiltInDatasetOptions pictures;
    pictures.count = 2 * kGlobalBatch;
    DPIPE_RETURN_IF_ERROR(processes_->RunFirstOnHost(
        "the pictures", [&] { return EnsureBuiltInDataset(FLAGS_data, pictures); }));
    DPIPE_ASSIGN_OR_RETURN(plain_, SetUp(processes_));
    DPIPE_ASSIGN_OR_RETURN(cached_, SetUp(processes_));
    DPIPE_RETURN_IF_ERROR(cached_->BuildCache(FLAGS_steps).status());
    if (leads()) DPIPE_RETURN_IF_ERROR(TrainOnOne());
    for (const std::string& strategy : Strategies()) {
      const bool is_pipeline = FindStrategy(strategy)->partitioner() != "none";
      if (is_pipeline) DPIPE_RETURN_IF_ERROR(Try(strategy, processes_->num_processes()));
      if (!is_pipeline || FLAGS_search) DPIPE_RETURN_IF_ERROR(Try(strategy, 0));
    }
    if (num_wrong_ == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(num_wrong_, " of ", num_tried_, " runs are wrong"));
  }

 private:
  bool leads() const { return processes_->is_leader(); }

  absl::Status TrainOnOne() {
    DPIPE_ASSIGN_OR_RETURN(const Plan plan,
                           MakePlan(plain_->model().model(), "data_parallel", 1, 1));
    TrainingJob alone = plain_->job();
    alone.processes = nullptr;
    DPIPE_ASSIGN_OR_RETURN(expected_, testlib::GradientsOf(alone, plan, FLAGS_steps));
    return absl::OkStatus();
  }

  // The first process plans, and the others wait for its plan.
  absl::Status Try(const std::string& strategy, int num_stages) {
    const bool cached = FindStrategy(strategy)->frozen() == "cached";
    const TrainingJob job = cached ? cached_->CachedJob() : plain_->job();
    Plan plan;
    if (leads()) {
      DPIPE_ASSIGN_OR_RETURN(
          plan, MakePlan(*job.model, strategy, processes_->num_processes(), num_stages));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::string text,
                           processes_->FromLeader("a plan", plan.SerializeAsString()));
    if (!plan.ParseFromString(text))
      return absl::InternalError("the leader's plan cannot be parsed");
    const Nanos start = MonotonicNow();
    DPIPE_ASSIGN_OR_RETURN(const auto actual, testlib::GradientsOf(job, plan, FLAGS_steps));
    if (leads()) Compare(strategy, num_stages, plan, actual, MonotonicNow() - start);
    return absl::OkStatus();
  }

  void Compare(const std::string& strategy, int num_stages, const Plan& plan,
               const std::vector<StepGradients>& actual, Nanos took) {
    const std::string difference = testlib::FirstDifference(expected_, actual);
    const double relative = testlib::LargestRelativeDifference(expected_, actual);
    const bool good = SumsGradients(plan) ? relative < kRounding : difference.empty();
    ++num_tried_;
    num_wrong_ += good ? 0 : 1;
    Say(absl::StrFormat(
        "%-24s %d processes, %s: %s, %s", strategy, plan.num_devices(),
        num_stages == 0 ? absl::StrCat("as chosen by the search, ", plan.stages_size(), " stages")
                        : absl::StrCat(plan.stages_size(), " stages"),
        difference.empty()
            ? "same bits"
            : absl::StrFormat("%s%.1e apart", good ? "" : "WRONG: " + difference + ", ", relative),
        FormatDuration(took)));
  }

  ProcessGroup* const processes_;
  std::unique_ptr<models::TrainingSetup> plain_, cached_;
  std::vector<StepGradients> expected_;
  int num_tried_ = 0, num_wrong_ = 0;
};

absl::Status RunMember() {
  DPIPE_ASSIGN_OR_RETURN(const auto address, JobAddressFromEnvironment(ProcessEnvironment));
  ProcessGroupOptions options;
  options.listener_fd = InheritedListener().value_or(-1);
  DPIPE_ASSIGN_OR_RETURN(const auto processes, ProcessGroup::Join(*address, options));
  const ExitWithJob end(&processes->store());
  const absl::Status status = Member(processes.get()).Run();
  if (!status.ok()) processes->store().Fail(status);
  return status;
}

absl::Status RunAll(const std::vector<std::string>& arguments) {
  for (const auto& text : absl::StrSplit(FLAGS_processes, ',')) {
    LaunchOptions options;
    options.arguments = arguments;
    if (!absl::SimpleAtoi(text, &options.num_processes) || options.num_processes < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("--processes=", FLAGS_processes, " must be numbers of 2 or more"));
    }
    const Nanos start = MonotonicNow();
    DPIPE_ASSIGN_OR_RETURN(const int exit_code, LaunchLocalProcesses(options));
    if (exit_code != 0) {
      return absl::InternalError(
          absl::StrCat(options.num_processes, " processes ended with exit code ", exit_code));
    }
    Say(absl::StrCat(options.num_processes, " processes: done in ",
                     FormatDuration(MonotonicNow() - start)));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const dpipe::Command command = {
      "process_strategies",
      "Trains a built-in model with every exact strategy on several processes, and compares the\n"
      "gradients with those of one device.\n"
      "  bazel run //tests:process_strategies -- --processes=2,4,8\n"};
  return dpipe::RunCommand(argc, argv, command, [&] {
    return dpipe::StartedByLauncher() ? dpipe::RunMember() : dpipe::RunAll(arguments);
  });
}
