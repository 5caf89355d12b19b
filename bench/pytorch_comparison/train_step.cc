// Training steps on demand, for compare.py: reads lines from standard input, each a number of steps
// to train; answers each with a line of JSON on standard output: what they took, their losses and
// the norms of their gradients before clipping.
// The first line, before any input, says that it is ready, by which plan on what, and what a step
// does to have its inputs.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/backend/choose_devices.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/host/usable_cpus.h"
#include "core/base/phases.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/cuda/loaded_libraries.h"
#include "core/planner/search.h"
#include "core/profile/gpu_account.h"
#include "core/profile/gpu_ceilings.h"
#include "core/profile/gpu_recorder.h"
#include "core/report/plan_text.h"
#include "core/tensor/device.h"
#include "core/tensor/safetensors.h"
#include "core/train/job.h"
#include "gflags/gflags.h"
#include "google/protobuf/text_format.h"
#include "models/folder/find_folders.h"
#include "models/trainable/training_setup.h"
#include "nlohmann/json.hpp"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_int32(image_size, 0, "image size in pixels a side; 0: the size that the model was made for");
DEFINE_int32(batch, 8, "images of a training step, over all devices");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(devices, 1, "number of devices, which share this process's cores, or GPUs");
DEFINE_int32(virtual_devices, 0, "split one GPU into this many virtual devices; 0: whole GPUs");
DEFINE_bool(cuda_graphs, false, "record passes that repeat on a GPU, and launch them as graphs");
DEFINE_string(engines, "",
              "JSON file that says which engines of cuDNN and cuBLASLt to use; empty: the first "
              "that the libraries propose");
DEFINE_bool(time_engines, false,
            "time the engines of operations that --engines lacks, and add the fastest to the file");
DEFINE_bool(deterministic, true, "false lets engines add in an order that varies from run to run");
DEFINE_int32(
    micro_batches, 1,
    "number of micro-batches of a device's or a pipeline's share of the batch; 0: as planned");
DEFINE_string(strategy, "data_parallel", "strategy of several devices");
DEFINE_int32(cached_steps, 0,
             "number of steps whose latents and text embeddings are computed first, for training "
             "the U-Net alone by --strategy=offline_cache; 0: compute them in each step");
DEFINE_string(dtype, "fp32", "element type of the computation, fp32 or bf16; weights are fp32");
DEFINE_double(lr, 1e-5, "learning rate of AdamW");
DEFINE_double(max_grad_norm, 1, "global norm that gradients are clipped to");
DEFINE_uint64(seed, 1, "seed for initial weights, data order, noise and timesteps");
DEFINE_bool(phases, false,
            "say on standard error how long the parts of starting took, and of the first steps");
DEFINE_string(account, "",
              "file for an account of a GPU's time in the steps that are trained last, when "
              "standard input has ended: by class of operation, operation and kernel; also shown "
              "on standard error");
DEFINE_int32(account_steps, 3, "number of steps that --account is of");
DEFINE_string(export_folder, "",
              "folder to write the model to, with the weights that training starts from, and the "
              "inputs of the first --export_steps steps; nothing is trained then");
DEFINE_int32(export_steps, 3, "number of steps whose inputs --export_folder gets");
FLAG_RANGE(image_size, 0, 4'096);
FLAG_RANGE(batch, 1, 65'536);
FLAG_RANGE(devices, 1, 1'024);
FLAG_RANGE(virtual_devices, 0, 1'024);
FLAG_RANGE(micro_batches, 0, 65'536);
FLAG_RANGE(cached_steps, 0, 1'000'000);
FLAG_RANGE(lr, 0, 1'000);
FLAG_RANGE(max_grad_norm, 0, 1e30);
FLAG_RANGE(export_steps, 1, 1'000);
FLAG_RANGE(account_steps, 1, 1'000);

namespace dpipe::bench {
namespace {

void Say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

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

int NumDevices() { return FLAGS_virtual_devices > 0 ? FLAGS_virtual_devices : FLAGS_devices; }

// True if the backend is cpu, or auto and that takes the CPU.
bool OnCpus() {
  static const bool on_cpus = [] {
    if (FLAGS_backend != "auto") return FLAGS_backend == "cpu";
    DeviceRequest request;
    request.backend = FLAGS_backend;
    request.count = NumDevices();
    request.virtual_devices = FLAGS_virtual_devices;
    const auto chosen = ChooseDevices(request);
    return !chosen.ok() || chosen->devices[0]->kind() == DeviceKind::kCpu;
  }();
  return on_cpus;
}

// As many images as a pass of the backbone has, so that smaller passes take less memory throughout;
// PyTorch takes as many. On a GPU the largest even part of 16 at most: a VAE encoder's first
// tensors of 64 images of 512 pixels have 2^31 elements, which nn::Forward refuses.
int FrozenQuantum() {
  const int share = std::max(1, FLAGS_batch / NumDevices() / std::max(1, FLAGS_micro_batches));
  int quantum = OnCpus() ? share : std::min(share, 16);
  while (share % quantum != 0) --quantum;
  return quantum;
}

// On a GPU as many as keep a whole step's pictures from being waited for: PyTorch's inputs are on
// the GPU before it starts. On CPUs one, which takes its time from the cores that are measured.
int PrefetchThreads() {
  if (OnCpus()) return 1;
  return std::clamp(FindUsableCpus().count / 2, 1, 8);
}

// What of having a step's inputs is part of its time.
std::string AboutInputs(bool on_gpu) {
  if (FLAGS_cached_steps > 0) {
    return absl::StrCat("latents and text embeddings are read from a cache and noise is drawn ",
                        on_gpu ? "a step ahead, beside the step before it" : "within each step");
  }
  const std::string decoding = absl::StrCat("each step's pictures are decoded and resized by ",
                                            PrefetchThreads(), " thread(s) ahead; ");
  return decoding + (!on_gpu ? "its noise is drawn within it"
                             : "its noise is drawn and its inputs are copied to the GPU a step "
                               "ahead, beside the step before it; what is waited for counts");
}

// With the folder's weights, or random ones where it has none.
absl::StatusOr<std::unique_ptr<models::TrainingSetup>> MakeSetup(const std::string& cache_folder) {
  models::TrainingSetupOptions options;
  {
    const Phase phase("find the model and make the data");
    DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
    DPIPE_ASSIGN_OR_RETURN(options.data.folder, models::FindDataFolder(FLAGS_data, Say));
  }
  options.model.image_size = FLAGS_image_size;
  options.backend = FLAGS_backend;
  options.num_devices = NumDevices();
  options.virtual_devices = FLAGS_virtual_devices;
  options.graphs.enabled = FLAGS_cuda_graphs;
  options.graphs.say = Say;
  options.engines = FLAGS_engines.empty() ? "" : UserPath(FLAGS_engines);
  options.time_engines = FLAGS_time_engines;
  options.deterministic = FLAGS_deterministic;
  options.global_batch = FLAGS_batch;
  DPIPE_ASSIGN_OR_RETURN(options.compute_dtype, ParseComputeDType(FLAGS_dtype));
  options.frozen_quantum = FrozenQuantum();
  options.prefetch_threads = PrefetchThreads();
  options.seed = FLAGS_seed;
  options.caption_drop = 0;
  options.cache_folder = cache_folder;
  options.optimizer = Optimizer();
  options.weights = models::TrainingSetupOptions::Weights::kFolderIfAny;
  return models::TrainingSetup::Create(options);
}

// The model, and every input that no component computes, as "<component>.<input>.<step>".
absl::Status Export(const models::TrainingSetup& setup) {
  const TrainingJob& job = setup.job();
  DPIPE_RETURN_IF_ERROR(setup.model().Save(UserPath(FLAGS_export_folder), *job.backbone_parameters,
                                           models::StoredFormat::kFp32));
  std::vector<Tensor> tensors;
  std::vector<SafetensorsView> views;
  for (int c = 0; c < job.model->num_components(); ++c) {
    const nn::Component& component = job.model->component(c);
    for (ValueId id : component.program.inputs()) {
      const std::string& input = component.program.value(id).name;
      if (component.sources.count(input) > 0) continue;
      for (int step = 0; step < FLAGS_export_steps; ++step) {
        DPIPE_ASSIGN_OR_RETURN(
            const Tensor tensor,
            job.inputs->Load(component.name, input, step, {0, FLAGS_batch}, Device::Cpu()));
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
  return WriteSafetensors(UserPath(FLAGS_export_folder) + "/inputs.safetensors", views);
}

// Those that the plan can have.
std::vector<int> LocalBatches() {
  // One device has nothing to choose: all others would be timed for nothing.
  if (NumDevices() == 1 && FLAGS_micro_batches > 0 && FLAGS_batch % FLAGS_micro_batches == 0) {
    return {FLAGS_batch / FLAGS_micro_batches};
  }
  if (FLAGS_micro_batches == 0) return CandidateLocalBatches(FLAGS_batch);
  std::vector<int> batches;
  for (int batch : CandidateLocalBatches(FLAGS_batch)) {
    if (batch * FLAGS_micro_batches <= FLAGS_batch) batches.push_back(batch);
  }
  return batches;
}

absl::StatusOr<Plan> PlanOf(TrainingJob* job) {
  const bool cached = FLAGS_cached_steps > 0;
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy,
                         FindStrategy(cached ? "offline_cache" : FLAGS_strategy));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(*job));
  // Enough to plan from: which plan is best is clear here.
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                         ProfileJob(*job, LocalBatches(), nullptr, /*passes=*/1));
  ReleaseCachedMemory(job->workers);
  const Phase phase("plan");
  PlanOptions options;
  options.global_batch = FLAGS_batch;
  options.num_micro_batches = FLAGS_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned, MakePlan(strategy, profile, cluster, options));
  return planned.plan;
}

// A large model's parameters are in memory once: neither the job nor profiling keeps any.
absl::StatusOr<std::unique_ptr<LocalSession>> Start(TrainingJob* job) {
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, PlanOf(job));
  return StartSessionTakingParameters(job, plan);
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

int64_t Largest(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

absl::StatusOr<nlohmann::json> TrainSteps(LocalSession* session, int steps) {
  const Phase phase("train steps");
  const double cpu_start = CpuSeconds();
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const RunResult result,
                         session->Run(steps, /*is_last=*/false, /*record=*/true));
  nlohmann::json json;
  json["steps"] = steps;
  json["seconds"] = 1e-9 * static_cast<double>(MonotonicNow() - start);
  json["cpu_seconds"] = CpuSeconds() - cpu_start;
  json["parts"] = Parts(result.trace, steps);
  for (const StepResult& step : result.steps) {
    json["losses"].push_back(step.loss);
    json["grad_norms"].push_back(step.grad_norm);
    json["step_seconds"].push_back(1e-9 * static_cast<double>(step.duration_ns));
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  json["peak_rss_bytes"] = int64_t{usage.ru_maxrss} * 1024;
  json["peak_device_bytes"] = Largest(result.peak_memory_bytes);
  return json;
}

// Trains the last steps, and says where the GPU's time went.
absl::Status Account(const GpuCeilings& ceilings, const std::string& device,
                     LocalSession* session) {
  DPIPE_ASSIGN_OR_RETURN(const auto recorder, StartGpuRecorder(ceilings));
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json trained, TrainSteps(session, FLAGS_account_steps));
  DPIPE_ASSIGN_OR_RETURN(const GpuRecording recording, recorder->Stop());
  const GpuAccount account = MakeGpuAccount(recording, ceilings, FLAGS_account_steps, device);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(account, &text)) {
    return absl::InternalError("the account of the GPU's time has no text form");
  }
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(UserPath(FLAGS_account), text));
  Say(GpuAccountText(account, /*max_operations=*/20, /*max_kernels=*/24));
  Say(absl::StrCat("Recorded steps took ",
                   1e3 * trained["seconds"].get<double>() / FLAGS_account_steps, " ms each"));
  return absl::OkStatus();
}

absl::Status Main() {
  if (FLAGS_phases) RecordPhases();
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseComputeDType(FLAGS_dtype).status()));
  if (FLAGS_devices < 1 || FLAGS_batch < 1 || FLAGS_virtual_devices < 0 ||
      FLAGS_batch % NumDevices() != 0) {
    return CommandLineError(
        absl::StrCat("--batch=", FLAGS_batch, " does not divide among ", NumDevices(), " devices"));
  }
  if (!FLAGS_account.empty() && (OnCpus() || FLAGS_cuda_graphs || NumDevices() > 1)) {
    return CommandLineError("--account: it is of one GPU, and not of recorded graphs");
  }
  const ScratchFolder cache;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, MakeSetup(cache.path()));
  if (!FLAGS_export_folder.empty()) return Export(*setup);
  Say(setup->Describe());
  TrainingJob job = setup->job();
  if (FLAGS_cached_steps > 0) {
    DPIPE_RETURN_IF_ERROR(setup->BuildCache(FLAGS_cached_steps).status());
    job = setup->CachedJob();
  }
  GpuCeilings ceilings;
  if (!FLAGS_account.empty()) {
    const Phase phase("measure the GPU's ceilings");
    DPIPE_ASSIGN_OR_RETURN(ceilings, MeasureGpuCeilings(job.workers[0]));
    ReleaseCachedMemory(job.workers);
  }
  DPIPE_ASSIGN_OR_RETURN(const auto session, Start(&job));
  nlohmann::json ready;
  ready["ready"] =
      absl::StrCat(setup->model().Describe(), ", on ", setup->workers()[0]->device()->name());
  ready["plan"] = report::PlanText(session->plan());
  ready["inputs"] = AboutInputs(setup->workers()[0]->device()->kind() == DeviceKind::kCuda);
  ready["frozen_quantum"] = job.frozen_quantum;
  // On a CPU there are none.
  if (!OnCpus()) ready["libraries"] = LoadedCudaLibraries();
  std::cout << ready.dump() << std::endl;
  if (FLAGS_phases) Say(absl::StrCat("Starting took:\n", PhasesText(RecordedPhases())));
  for (std::string line; std::getline(std::cin, line);) {
    int steps = 0;
    if (!absl::SimpleAtoi(line, &steps) || steps < 1) {
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' is not a number of steps"));
    }
    DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, TrainSteps(session.get(), steps));
    std::cout << json.dump() << std::endl;
    for (const std::string& note : setup->TakeDeviceNotes()) Say(note);
  }
  if (FLAGS_phases) Say(absl::StrCat("All took:\n", PhasesText(RecordedPhases())));
  if (FLAGS_account.empty()) return absl::OkStatus();
  return Account(ceilings, setup->workers()[0]->device()->name(), session.get());
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "train_step",
      "Trains steps on demand, for compare.py: reads numbers of steps from standard input.\n"};
  return dpipe::RunCommand(argc, argv, command, []() -> absl::Status {
    const absl::Status status = dpipe::bench::Main();
    if (!absl::IsResourceExhausted(status)) return status;
    // What compare.py knows a lack of memory by, whoever found it out.
    return absl::ResourceExhaustedError(absl::StrCat("out of memory: ", status.message()));
  });
}
