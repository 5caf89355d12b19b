// Training steps on demand, for compare.py: reads lines from standard input, each a number of steps
// to train; answers each with a line of JSON on standard output: what they took, and their losses.
// The first line, before any input, says that it is ready.
#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "core/base/time.h"
#include "core/planner/search.h"
#include "core/tensor/safetensors.h"
#include "core/train/job.h"
#include "data/loader.h"
#include "gflags/gflags.h"
#include "models/stable_diffusion/folders.h"
#include "models/trainable/load.h"
#include "nlohmann/json.hpp"

DEFINE_string(model, "tiny_sd", "a built-in model's name, or a folder in diffusers layout");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_int32(image_size, 0, "pixels a side; 0: the size that the model was made for");
DEFINE_int32(batch, 8, "images of a step, over all devices");
DEFINE_int32(devices, 1, "devices that share this process's cores");
DEFINE_int32(micro_batches, 1,
             "that a device's share of the batch, or a pipeline's, is divided into");
DEFINE_string(strategy, "data_parallel", "how several devices work together");
DEFINE_string(dtype, "fp32", "fp32 or bf16: what is computed in; weights are fp32");
DEFINE_double(lr, 1e-5, "learning rate of AdamW");
DEFINE_double(max_grad_norm, 1, "gradients are clipped to this global norm");
DEFINE_uint64(seed, 1, "of initial weights, order of the data, noise and timesteps");
DEFINE_string(export_folder, "",
              "write the model, with the weights that training starts from, and the inputs of the "
              "first --export_steps steps there, and end");
DEFINE_int32(export_steps, 3, "see --export_folder");

namespace dpipe::bench {
namespace {

struct Setup {
  std::unique_ptr<models::TrainableModel> model;
  std::unique_ptr<DataLoader> loader;
  std::unique_ptr<InputProvider> inputs;
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  TrainingJob job;
};

void Say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

DType ComputeType() { return FLAGS_dtype == "bf16" ? DType::kBf16 : DType::kF32; }

AdamWOptions Optimizer() {
  AdamWOptions options;
  options.adamw.beta1 = 0.9f;
  options.adamw.beta2 = 0.999f;
  options.adamw.eps = 1e-8f;
  options.adamw.weight_decay = 0.01f;
  options.learning_rate.peak = static_cast<float>(FLAGS_lr);
  options.learning_rate.warmup_steps = 0;
  options.learning_rate.shape = LrSchedule::Shape::kConstant;
  options.max_grad_norm = FLAGS_max_grad_norm;
  return options;
}

absl::Status MakeInputs(Setup* setup) {
  DPIPE_ASSIGN_OR_RETURN(const std::string data, models::FindDataFolder(FLAGS_data, Say));
  DPIPE_ASSIGN_OR_RETURN(FolderDataset dataset, FolderDataset::Open(data));
  DataLoaderOptions loading;
  loading.global_batch = FLAGS_batch;
  loading.image_size = setup->model->image_size();
  loading.seed = FLAGS_seed;
  DPIPE_ASSIGN_OR_RETURN(setup->loader, DataLoader::Create(std::move(dataset), loading));
  models::InputsOptions drawing;
  drawing.seed = FLAGS_seed;
  drawing.caption_drop = 0;
  drawing.compute_dtype = ComputeType();
  DPIPE_ASSIGN_OR_RETURN(setup->inputs, setup->model->MakeInputs(setup->loader.get(), drawing));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Setup>> MakeSetup() {
  auto setup = std::make_unique<Setup>();
  models::LoadModelOptions loading;
  loading.image_size = FLAGS_image_size;
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, models::FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(setup->model, models::LoadTrainableModel(folder, loading));
  DPIPE_RETURN_IF_ERROR(MakeInputs(setup.get()));
  DPIPE_ASSIGN_OR_RETURN(const auto devices, Device::PartitionCpu(FLAGS_devices));
  setup->workers = StartWorkers(devices);
  TrainingJob& job = setup->job;
  job.model = &setup->model->model();
  for (const auto& worker : setup->workers) job.workers.push_back(worker.get());
  job.inputs = setup->inputs.get();
  job.frozen_parameters = setup->model->frozen_parameters();
  auto parameters = setup->model->InitialParameters(models::TrainableModel::Start::kFolder, 0);
  if (absl::IsNotFound(parameters.status())) {
    parameters =
        setup->model->InitialParameters(models::TrainableModel::Start::kRandom, FLAGS_seed);
  }
  DPIPE_ASSIGN_OR_RETURN(job.backbone_parameters, std::move(parameters));
  job.optimizer = Optimizer();
  job.compute_dtype = ComputeType();
  job.frozen_quantum = FLAGS_batch / FLAGS_devices;
  return setup;
}

// The model, and every input that no component computes, as "<component>.<input>.<step>".
absl::Status Export(const Setup& setup) {
  DPIPE_RETURN_IF_ERROR(setup.model->Save(FLAGS_export_folder, setup.job.backbone_parameters,
                                          models::StoredFormat::kFp32));
  std::vector<Tensor> tensors;
  std::vector<SafetensorsView> views;
  for (int c = 0; c < setup.job.model->num_components(); ++c) {
    const nn::Component& component = setup.job.model->component(c);
    for (ValueId id : component.program.inputs()) {
      const std::string& input = component.program.value(id).name;
      if (component.sources.count(input) > 0) continue;
      for (int step = 0; step < FLAGS_export_steps; ++step) {
        DPIPE_ASSIGN_OR_RETURN(
            const Tensor tensor,
            setup.inputs->Load(component.name, input, step, {0, FLAGS_batch}, Device::Cpu()));
        tensors.push_back(tensor);
        SafetensorsView view;
        view.name = absl::StrCat(component.name, ".", input, ".", step);
        view.dtype = tensor.dtype() == DType::kI32 ? "I32" : "F32";
        for (int d = 0; d < tensor.shape().rank(); ++d) view.shape.push_back(tensor.dim(d));
        view.bytes =
            absl::string_view(static_cast<const char*>(tensor.raw_data()), tensor.size_bytes());
        views.push_back(view);
      }
    }
  }
  return WriteSafetensors(FLAGS_export_folder + "/inputs.safetensors", views);
}

// A large model's parameters are in memory once: neither the job nor profiling keeps any.
absl::StatusOr<std::unique_ptr<LocalSession>> Start(TrainingJob* job) {
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(FLAGS_strategy));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(*job));
  // Enough to plan from: which plan is best is clear here.
  DPIPE_ASSIGN_OR_RETURN(
      const ModelProfile profile,
      ProfileJob(*job, CandidateLocalBatches(FLAGS_batch), nullptr, /*passes=*/1));
  ReleaseCachedMemory(job->workers);
  PlanOptions options;
  options.global_batch = FLAGS_batch;
  options.num_micro_batches = FLAGS_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned, MakePlan(strategy, profile, cluster, options));
  return StartSessionTakingParameters(job, planned.plan);
}

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of a step by what was done, from a trace: of the rank that worked longest.
nlohmann::json Parts(const Trace& trace, int steps) {
  struct Sums {
    double frozen = 0, backbone = 0, optimizer = 0;
    double all() const { return frozen + backbone + optimizer; }
  };
  std::vector<Sums> ranks(trace.plan().num_devices());
  for (const TraceEvent& event : trace.events()) {
    if (event.stream() != TraceEvent::COMPUTE) continue;
    Sums& sums = ranks[event.rank()];
    const double seconds = 1e-9 * static_cast<double>(event.end_ns() - event.start_ns()) / steps;
    switch (trace.plan().devices(event.rank()).instructions(event.instruction()).kind()) {
      case Instruction::LOAD_BATCH:
      case Instruction::FROZEN_FORWARD:
        sums.frozen += seconds;
        break;
      case Instruction::OPTIMIZER_STEP:
        sums.optimizer += seconds;
        break;
      default:
        sums.backbone += seconds;
    }
  }
  Sums most;
  for (const Sums& sums : ranks) {
    if (sums.all() > most.all()) most = sums;
  }
  return {{"frozen", most.frozen}, {"backbone", most.backbone}, {"optimizer", most.optimizer}};
}

absl::StatusOr<nlohmann::json> TrainSteps(LocalSession* session, int steps) {
  const double cpu_start = CpuSeconds();
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const RunResult result,
                         session->Run(steps, /*is_last=*/false, /*record=*/true));
  nlohmann::json json;
  json["steps"] = steps;
  json["seconds"] = 1e-9 * static_cast<double>(MonotonicNow() - start);
  json["cpu_seconds"] = CpuSeconds() - cpu_start;
  json["parts"] = Parts(result.trace, steps);
  for (const StepResult& step : result.steps) json["losses"].push_back(step.loss);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  json["peak_rss_bytes"] = int64_t{usage.ru_maxrss} * 1024;
  return json;
}

absl::Status Main() {
  if (FLAGS_dtype != "fp32" && FLAGS_dtype != "bf16") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype=", FLAGS_dtype, ": there are fp32 and bf16"));
  }
  if (FLAGS_devices < 1 || FLAGS_batch < 1 || FLAGS_batch % FLAGS_devices != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--batch=", FLAGS_batch, " does not divide among --devices=", FLAGS_devices));
  }
  DPIPE_ASSIGN_OR_RETURN(const auto setup, MakeSetup());
  if (!FLAGS_export_folder.empty()) return Export(*setup);
  DPIPE_ASSIGN_OR_RETURN(const auto session, Start(&setup->job));
  nlohmann::json ready;
  ready["ready"] = setup->model->Describe();
  std::cout << ready.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    int steps = 0;
    if (!absl::SimpleAtoi(line, &steps) || steps < 1) {
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' is no number of steps"));
    }
    DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, TrainSteps(session.get(), steps));
    std::cout << json.dump() << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage("trains steps on demand, for compare.py");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  const absl::Status status = dpipe::bench::Main();
  if (status.ok()) return 0;
  std::fprintf(stderr, "train_step: %s\n", std::string(status.message()).c_str());
  return 1;
}
