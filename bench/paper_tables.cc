// Plans and simulates every strategy for models, cluster sizes and batches, and writes tables.
//   bazel run //bench:paper_tables
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/paper_grid.h"
#include "bench/paper_report.h"
#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "core/schedule/plan_io.h"
#include "gflags/gflags.h"

DEFINE_string(device, "a100", "a100, h100 or h200: which modelled profiles and clusters");
DEFINE_string(models, "stable_diffusion_v2_1_512,controlnet_v1_0_512,cdm_lsun_256,cdm_imagenet_256",
              "profiles by file name, separated by commas");
DEFINE_string(devices, "8,16,32,64", "numbers of devices, multiples of 8");
DEFINE_string(device_batches, "8,16,32", "samples a device, separated by commas");
DEFINE_string(strategies, "", "strategies, separated by semicolons; empty: every one with a name");
DEFINE_bool(ablations, true, "also diffusionpipe with parts of it taken away");
DEFINE_string(profiles, "", "folder of profiles; empty: data/profiles/modelled/DEVICE");
DEFINE_string(clusters, "", "folder of clusters; empty: data/clusters");
DEFINE_string(out, "out/paper_tables", "folder for paper_tables.md, paper_tables.json and plots");

namespace dpipe::bench {
namespace {

absl::StatusOr<std::string> ProfilesFolder() {
  if (!FLAGS_profiles.empty()) return UserPath(FLAGS_profiles);
  const std::string root = "data/profiles/modelled/";
  if (FLAGS_device == "a100") return root + "a100_80gb";
  if (FLAGS_device == "h100" || FLAGS_device == "h200") return root + FLAGS_device + "_sxm";
  return absl::InvalidArgumentError(
      absl::StrCat("unknown --device=", FLAGS_device, "; there are a100, h100 and h200"));
}

absl::StatusOr<std::vector<int>> Numbers(const char* flag, const std::string& text) {
  std::vector<int> numbers;
  for (const auto& part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number)) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": '", part, "' is no number"));
    }
    numbers.push_back(number);
  }
  if (numbers.empty()) return absl::InvalidArgumentError(absl::StrCat("--", flag, " names none"));
  return numbers;
}

absl::StatusOr<GridOptions> OptionsFromFlags() {
  GridOptions options;
  options.device = FLAGS_device;
  DPIPE_ASSIGN_OR_RETURN(options.profiles_folder, ProfilesFolder());
  options.clusters_folder = FLAGS_clusters.empty() ? "data/clusters" : UserPath(FLAGS_clusters);
  options.models = absl::StrSplit(FLAGS_models, ',', absl::SkipWhitespace());
  DPIPE_ASSIGN_OR_RETURN(options.devices, Numbers("devices", FLAGS_devices));
  DPIPE_ASSIGN_OR_RETURN(options.device_batches, Numbers("device_batches", FLAGS_device_batches));
  options.contenders = NamedContenders();
  if (!FLAGS_strategies.empty()) {
    options.contenders.clear();
    for (const auto& part : absl::StrSplit(FLAGS_strategies, ';', absl::SkipWhitespace())) {
      options.contenders.push_back({std::string(part), std::string(part)});
    }
  }
  if (FLAGS_ablations) options.ablations = AblationContenders();
  return options;
}

absl::Status Run(const std::string& command_line) {
  DPIPE_ASSIGN_OR_RETURN(const GridOptions options, OptionsFromFlags());
  DPIPE_ASSIGN_OR_RETURN(
      const std::vector<CaseResult> results, RunGrid(options, [](const CaseResult& c) {
        std::printf("%s, %d devices, batch %d\n", c.model.c_str(), c.num_devices, c.global_batch);
        std::fflush(stdout);
      }));
  ReportSource source;
  source.command_line = command_line;
  source.machine = report::CollectMachineInfo();
  for (const std::string& model : options.models) {
    ModelProfile profile;
    DPIPE_RETURN_IF_ERROR(
        ReadTextProto(absl::StrCat(options.profiles_folder, "/", model, ".textproto"), &profile));
    source.provenance[model] = profile.provenance();
  }
  const PaperReport report = MakePaperReport(results, source);
  const std::string folder = OutputPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  for (const auto& [name, svg] : report.pictures) {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/" + name, svg));
  }
  DPIPE_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/paper_tables.json", PaperJson(results, source)));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/paper_tables.md", report.markdown));
  std::printf("%s/paper_tables.md\n", folder.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "Plans and simulates every strategy for models, cluster sizes and batches.\n"
      "  bazel run //bench:paper_tables -- --models=sdxl_1024 --devices=8 --device_batches=4");
  std::string command_line = "bazel run //bench:paper_tables --";
  for (int i = 1; i < argc; ++i) absl::StrAppend(&command_line, " ", argv[i]);
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  const absl::Status status = dpipe::bench::Run(command_line);
  if (status.ok()) return 0;
  std::fprintf(stderr, "paper_tables: %s\n", std::string(status.message()).c_str());
  return 1;
}
