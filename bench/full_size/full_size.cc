// Trains a full-size model for a few steps as a pipeline over CPU devices, then the same steps on
// one of these devices. The losses must be equal to the last bit, because samples, micro-batches
// and threads per device are the same.
//   bazel run -c opt //bench/full_size
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/shell_quote.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/ops/product/weight.h"
#include "core/planner/search.h"
#include "core/planner/strategy.h"
#include "core/report/machine.h"
#include "core/report/plan_text.h"
#include "core/train/job.h"
#include "data/loader.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"
#include "nlohmann/json.hpp"

DEFINE_string(model, "stable_diffusion_v2_1",
              "name of a built-in model, or a folder in diffusers layout; weights are the folder's "
              "or, if it has none, random");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_int32(image_size, 256, "image size in pixels per side");
DEFINE_int32(stages, 2,
             "number of pipeline stages, each on a CPU device with its share of the cores");
DEFINE_int32(global_batch, 2, "images per training step");
DEFINE_int32(micro_batches, 2, "number of micro-batches per training step");
DEFINE_int32(steps, 3, "number of training steps, of the pipeline and of the one device");
DEFINE_string(dtype, "bf16",
              "element type of the computation, fp32 or bf16; trained weights are fp32");
DEFINE_int32(lora_rank, 0, "rank of low-rank adapters, which alone are trained; 0: none");
DEFINE_string(base_dtype, "fp32", "type in which weights that adapters adapt are kept");
DEFINE_string(frozen_dtype, "fp32", "type in which the text encoders' weights are kept");
DEFINE_int32(max_sequence_length, 0, "tokens of a caption for T5; 0: the model's usual number");
DEFINE_string(strategy, "diffusionpipe", "strategy of the pipeline");
DEFINE_double(lr, 1e-5, "learning rate of AdamW");
DEFINE_uint64(seed, 1, "seed for random weights, data order, noise and timesteps");
DEFINE_bool(one_device, true, "also train the same steps on one device, and compare the losses");
DEFINE_string(json, "", "also write the results to this file");
FLAG_RANGE(image_size, 8, 4'096);
FLAG_RANGE(stages, 1, 1'024);
FLAG_RANGE(global_batch, 1, 65'536);
FLAG_RANGE(micro_batches, 1, 65'536);
FLAG_RANGE(steps, 1, 1'000'000);
FLAG_RANGE(lr, 0, 1'000);
FLAG_RANGE(lora_rank, 0, 1'024);
FLAG_RANGE(max_sequence_length, 0, 512);

namespace dpipe::bench {
namespace {

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

int64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

class FullSize {
 public:
  absl::Status Run(const std::string& command_line) {
    DPIPE_RETURN_IF_ERROR(Load());
    DPIPE_RETURN_IF_ERROR(Profile());
    std::vector<DeviceWorker*> workers;
    for (const auto& worker : workers_) workers.push_back(worker.get());
    DPIPE_ASSIGN_OR_RETURN(const RunResult pipeline, Train(FLAGS_strategy, FLAGS_stages, workers));
    results_["losses_equal"] = nullptr;
    absl::Status outcome;
    if (FLAGS_one_device) {
      DPIPE_ASSIGN_OR_RETURN(const RunResult alone, Train("data_parallel", 1, {workers[0]}));
      outcome = Compare(pipeline, alone);
      results_["losses_equal"] = outcome.ok();
    }
    results_["command"] = command_line;
    results_["machine"] = report::DescribeMachine(report::CollectMachineInfo());
    results_["peak_rss_bytes"] = PeakResidentBytes();
    if (!FLAGS_json.empty()) {
      DPIPE_RETURN_IF_ERROR(
          WriteFileAtomically(UserPath(FLAGS_json), results_.dump(/*indent=*/1) + "\n"));
    }
    return outcome;
  }

 private:
  absl::Status Load() {
    models::LoadModelOptions loading;
    loading.image_size = FLAGS_image_size;
    loading.lora.rank = FLAGS_lora_rank;
    loading.max_sequence_length = FLAGS_max_sequence_length;
    DPIPE_ASSIGN_OR_RETURN(loading.base_storage, ops::ParseWeightStorage(FLAGS_base_dtype));
    DPIPE_ASSIGN_OR_RETURN(loading.frozen_storage, ops::ParseWeightStorage(FLAGS_frozen_dtype));
    DPIPE_ASSIGN_OR_RETURN(const std::string folder, models::FindModelFolder(FLAGS_model));
    DPIPE_ASSIGN_OR_RETURN(model_, models::LoadTrainableModel(folder, loading));
    Say(absl::StrCat("Model:    ", model_->Describe(), ", ", FLAGS_dtype));
    if (model_->has_weights()) start_ = models::TrainableModel::Start::kFolder;
    Say(absl::StrCat("Weights:  ", model_->DescribeStart(start_, FLAGS_seed), "; ",
                     model_->DescribeFrozen()));
    Say(absl::StrCat("Machine:  ", report::DescribeMachine(report::CollectMachineInfo())));
    DPIPE_ASSIGN_OR_RETURN(const std::string data, models::FindDataFolder(FLAGS_data, Say));
    DPIPE_ASSIGN_OR_RETURN(FolderDataset dataset, FolderDataset::Open(data));
    DataLoaderOptions reading;
    reading.global_batch = FLAGS_global_batch;
    reading.image_size = model_->image_size();
    reading.seed = FLAGS_seed;
    DPIPE_ASSIGN_OR_RETURN(loader_, DataLoader::Create(std::move(dataset), reading));
    models::InputsOptions drawing;
    drawing.seed = FLAGS_seed;
    DPIPE_ASSIGN_OR_RETURN(drawing.compute_dtype, ParseComputeDType(FLAGS_dtype));
    DPIPE_ASSIGN_OR_RETURN(inputs_, model_->MakeInputs(loader_.get(), drawing));
    DPIPE_ASSIGN_OR_RETURN(const auto devices, Device::PartitionCpu(FLAGS_stages));
    workers_ = StartWorkers(devices);
    return absl::OkStatus();
  }

  absl::StatusOr<TrainingJob> MakeJob(const std::vector<DeviceWorker*>& workers) const {
    TrainingJob job;
    job.model = &model_->model();
    job.workers = workers;
    job.inputs = inputs_.get();
    job.frozen_parameters = model_->frozen_parameters();
    job.load_frozen = [this](int component, LayerRange layers) {
      return model_->LoadFrozen(component, layers);
    };
    DPIPE_ASSIGN_OR_RETURN(job.backbone_parameters, model_->InitialSource(start_, FLAGS_seed));
    job.optimizer.learning_rate.peak = static_cast<float>(FLAGS_lr);
    DPIPE_ASSIGN_OR_RETURN(job.compute_dtype, ParseComputeDType(FLAGS_dtype));
    job.frozen_quantum = FLAGS_global_batch / FLAGS_micro_batches;
    job.deadline = absl::Minutes(20);  // a pass of a stage takes seconds
    return job;
  }

  // Profiles on all devices at once, as in training.
  absl::Status Profile() {
    const Nanos start = MonotonicNow();
    std::vector<DeviceWorker*> workers;
    for (const auto& worker : workers_) workers.push_back(worker.get());
    DPIPE_ASSIGN_OR_RETURN(const TrainingJob job, MakeJob(workers));
    DPIPE_ASSIGN_OR_RETURN(profile_, ProfileJob(job, {FLAGS_global_batch / FLAGS_micro_batches},
                                                nullptr, /*passes=*/1));
    ReleaseCachedMemory(workers);
    Say(absl::StrCat("Profile:  in ", FormatDuration(MonotonicNow() - start), ", peak RSS ",
                     FormatBytes(PeakResidentBytes())));
    return absl::OkStatus();
  }

  absl::StatusOr<RunResult> Train(const std::string& strategy_name, int stages,
                                  const std::vector<DeviceWorker*>& workers) {
    DPIPE_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(strategy_name));
    if (!model_->model().BackbonesAreFp32()) KeepFrozenWeightsWhole(strategy);
    TrainingJob devices;  // avoids a copy of the model
    devices.workers = workers;
    DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(devices));
    PlanOptions options;
    options.global_batch = FLAGS_global_batch;
    options.num_stages = stages;
    options.num_micro_batches = FLAGS_micro_batches;
    DPIPE_ASSIGN_OR_RETURN(const PlanResult planned,
                           MakePlan(strategy, profile_, cluster, options));
    const Plan& plan = planned.plan;
    Say(absl::StrCat("\nPlan:     ", strategy_name, ", ", report::PlanText(plan)));
    DPIPE_ASSIGN_OR_RETURN(TrainingJob job, MakeJob(workers));
    DPIPE_ASSIGN_OR_RETURN(const auto session, StartSessionTakingParameters(&job, plan));
    DPIPE_ASSIGN_OR_RETURN(
        RunResult result,
        session->Run(FLAGS_steps, /*is_last=*/true, /*record=*/false, [](const StepResult& step) {
          Say(absl::StrFormat("step %d: loss %.9g, %s", step.step + 1, step.loss,
                              FormatDuration(step.duration_ns)));
        }));
    Report(plan, strategy_name, result);
    return result;
  }

  void Report(const Plan& plan, const std::string& strategy, const RunResult& result) {
    nlohmann::json run;
    run["strategy"] = strategy;
    run["devices"] = plan.num_devices();
    run["predicted_step_seconds"] = 1e-9 * plan.prediction().step_ns();
    for (const StepResult& step : result.steps) {
      run["losses"].push_back(step.loss);
      run["step_seconds"].push_back(1e-9 * static_cast<double>(step.duration_ns));
    }
    for (size_t r = 0; r < result.peak_memory_bytes.size(); ++r) {
      const int64_t measured = result.peak_memory_bytes[r];
      const int64_t predicted = plan.prediction().peak_memory_bytes(static_cast<int>(r));
      Say(absl::StrCat("device ", r, ": peak ", FormatBytes(measured), " in tensors, ",
                       FormatBytes(predicted), " predicted"));
      run["peak_tensor_bytes"].push_back(measured);
      run["predicted_peak_bytes"].push_back(predicted);
    }
    run["peak_rss_bytes_so_far"] = PeakResidentBytes();
    Say(absl::StrCat("peak RSS of the process so far: ", FormatBytes(PeakResidentBytes())));
    results_["runs"].push_back(std::move(run));
  }

  static absl::Status Compare(const RunResult& pipeline, const RunResult& alone) {
    for (size_t i = 0; i < alone.steps.size(); ++i) {
      if (pipeline.steps[i].sample_losses == alone.steps[i].sample_losses &&
          pipeline.steps[i].loss == alone.steps[i].loss) {
        continue;
      }
      return absl::InternalError(absl::StrFormat("step %d: loss %.9g as a pipeline, %.9g alone",
                                                 i + 1, pipeline.steps[i].loss,
                                                 alone.steps[i].loss));
    }
    Say(absl::StrCat("\nAll ", alone.steps.size(),
                     " losses are equal to one device's, bit by bit."));
    return absl::OkStatus();
  }

  std::unique_ptr<models::TrainableModel> model_;
  models::TrainableModel::Start start_ = models::TrainableModel::Start::kRandom;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<InputProvider> inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  ModelProfile profile_;
  nlohmann::json results_;
};

absl::Status Main(const std::string& command_line) {
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseComputeDType(FLAGS_dtype).status()));
  if (FLAGS_global_batch % FLAGS_micro_batches != 0) {
    return CommandLineError(
        absl::StrCat("--global_batch=", FLAGS_global_batch,
                     " does not divide into --micro_batches=", FLAGS_micro_batches));
  }
  return FullSize().Run(command_line);
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  std::string command_line = "bazel run -c opt //bench/full_size --";
  for (int i = 1; i < argc; ++i) {
    absl::StrAppend(&command_line, " ", dpipe::ShellCommand({argv[i]}));
  }
  const dpipe::Command command = {
      "full_size",
      "Trains a full-size model as a pipeline and on one device, and compares the losses.\n"
      "  bazel run -c opt //bench/full_size -- --model=stable_diffusion_v2_1 --steps=3\n"};
  return dpipe::RunCommand(argc, argv, command, [&] { return dpipe::bench::Main(command_line); });
}
