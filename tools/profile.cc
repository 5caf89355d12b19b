// Times every layer of a model on this machine and writes a ModelProfile to plan with.
//   bazel run -c opt //tools:profile -- --model=tiny_sd --output=out/profile.textproto
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backend/device_report.h"
#include "core/base/files/run_paths.h"
#include "core/base/status.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/progress.h"
#include "core/train/job.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"
#include "models/trainable/training_setup.h"
#include "tools/planning/profile_text.h"
#include "tools/planning/proto_file.h"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(
    kind, "",
    "kind of model, stable_diffusion, controlnet or cascade; empty: what the folder says");
DEFINE_string(
    init, "random",
    "weights to run with, random or checkpoint (the folder's); times do not depend on them");
DEFINE_int32(image_size, 0, "image size in pixels a side; 0: the size that the model was made for");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(
    devices, 1,
    "number of devices that are timed at the same time; 0: one for each core, or every GPU");
DEFINE_int32(virtual_devices, 0,
             "on GPUs: split one GPU into this many virtual devices; 0: whole GPUs");
DEFINE_bool(cuda_graphs, false,
            "on GPUs: layers run as recorded CUDA graphs, for runs "
            "that record their passes");
DEFINE_string(engines, "",
              "on GPUs: JSON file that says which engines of cuDNN and cuBLASLt to "
              "use; empty: the first that the libraries propose");
DEFINE_bool(time_engines, false,
            "time the engines of operations that --engines lacks, and add the fastest to the file");
DEFINE_bool(deterministic, true,
            "on GPUs: false lets engines add in an order that varies from run to run");
DEFINE_string(dtype, "fp32", "element type of the computation, fp32 or bf16");
DEFINE_string(local_batches, "1,2,4,8",
              "local batches at which backbones are timed, increasing, separated by commas; those "
              "for which a GPU has no memory are left out");
DEFINE_int32(frozen_quantum, 4, "local batch at which frozen components are timed");
DEFINE_int32(passes, 15,
             "number of timed passes over each component and local batch, in rounds of at least "
             "three, each after one or two passes to warm up");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(output, "", "file for the profile, .textproto or .pb; empty: out/profile.textproto");
FLAG_RANGE(image_size, 0, 4'096);
FLAG_RANGE(devices, 0, 1'024);
FLAG_RANGE(virtual_devices, 0, 1'024);
FLAG_RANGE(frozen_quantum, 1, 65'536);
FLAG_RANGE(passes, 1, 100'000);
DEFINE_string(
    cluster, "",
    "file for the cluster, the measured cost of messages between the devices; empty: none");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Times every layer of a model on this machine, for the planner.\n"
    "  bazel run -c opt //tools:profile -- --model=tiny_sd --local_batches=1,2,4\n"
    "  bazel run -c opt //tools:profile -- --model=stable_diffusion_v2_1 --dtype=bf16 \\\n"
    "      --backend=cuda --local_batches=8,16,32 --output=out/h200.textproto\n"
    "  bazel run //tools:plan -- --profile=out/profile.textproto --cluster=...\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::StatusOr<models::TrainingSetupOptions> SetupOptions(const std::vector<int>& batches) {
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(options.data.folder,
                         models::FindDataFor(options.model_folder, FLAGS_kind, FLAGS_data, Say));
  options.model.kind = FLAGS_kind;
  options.model.image_size = FLAGS_image_size;
  options.backend = FLAGS_backend;
  options.num_devices = FLAGS_devices;
  options.virtual_devices = FLAGS_virtual_devices;
  options.graphs.enabled = FLAGS_cuda_graphs;
  options.engines = FLAGS_engines.empty() ? "" : UserPath(FLAGS_engines);
  options.time_engines = FLAGS_time_engines;
  options.deterministic = FLAGS_deterministic;
  options.global_batch = std::max(batches.back(), FLAGS_frozen_quantum);
  options.frozen_quantum = FLAGS_frozen_quantum;
  DPIPE_ASSIGN_OR_RETURN(options.compute_dtype, ParseComputeDType(FLAGS_dtype));
  if (FLAGS_init == "checkpoint") {
    options.weights = models::TrainingSetupOptions::Weights::kFolder;
  }
  return options;
}

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"cpu", "cuda", "auto"}));
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseComputeDType(FLAGS_dtype).status()));
  DPIPE_RETURN_IF_ERROR(CheckChoice("init", FLAGS_init, {"random", "checkpoint"}));
  return AsCommandLineError(ParseLocalBatches(FLAGS_local_batches).status());
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> batches, ParseLocalBatches(FLAGS_local_batches));
  const std::string output =
      FLAGS_output.empty() ? OutputPath("out/profile.textproto") : UserPath(FLAGS_output);
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(CheckProtoPath(output)));
  if (!FLAGS_cluster.empty()) {
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(CheckProtoPath(FLAGS_cluster)));
  }
  DPIPE_ASSIGN_OR_RETURN(const models::TrainingSetupOptions options, SetupOptions(batches));
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  Say(setup->Describe());
  Device& device = *setup->workers()[0]->device();
  const std::string before = ClockState(device);
  // A batch for which there turns out to be no memory ends the program: what came before is there.
  const auto keep = [&output](const ModelProfile& so_far) {
    const absl::Status written = WriteProto(output, so_far);
    if (!written.ok()) Say(absl::StrCat("What is timed so far: ", written.message()));
  };
  report::Progress progress(report::StandardErrorProgress("profile"));
  const auto show = [&progress](double done) {
    report::ProgressState state;
    state.phase = "profiling";
    state.fraction_done = done;
    progress.Update(state);
  };
  DPIPE_ASSIGN_OR_RETURN(ModelProfile profile,
                         ProfileJob(setup->job(), batches, show, FLAGS_passes, keep));
  progress.Finish();
  for (const std::string& note : setup->TakeDeviceNotes()) Say(note);
  const std::string after = ClockState(device);
  profile.set_provenance(
      absl::StrCat(profile.provenance(), "; before: ", before, "; after: ", after));
  DPIPE_RETURN_IF_ERROR(WriteProto(output, profile));
  Say(ProfileText(profile));
  if (!FLAGS_cluster.empty()) {
    DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(setup->job()));
    DPIPE_RETURN_IF_ERROR(WriteProto(UserPath(FLAGS_cluster), cluster));
    Say(absl::StrCat("Cluster:  ", UserPath(FLAGS_cluster)));
  }
  Say(absl::StrCat("Profile:  ", output));
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "profile",
      dpipe::tools::kUsage,
      {{"What is timed", {"model", "kind", "image_size", "init", "dtype", "data"}},
       {"How", {"local_batches", "frozen_quantum", "passes"}},
       {"Results", {"output", "cluster"}},
       {"Devices", {"backend", "devices", "virtual_devices"}},
       {"GPU libraries", {"engines", "time_engines", "deterministic", "cuda_graphs"}}},
      {"model", "backend", "devices", "dtype", "local_batches", "image_size", "output", "cluster"}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
