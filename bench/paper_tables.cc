// Plans and simulates every strategy for models, cluster sizes and batches, and writes tables.
//   bazel run //bench:paper_tables
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/simulated/paper_cases.h"
#include "bench/simulated/paper_grid.h"
#include "bench/simulated/paper_report.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/shell_quote.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/search.h"
#include "core/proto/profile.pb.h"
#include "gflags/gflags.h"
#include "tools/profiles/fine_tuning.h"

DEFINE_string(models, "", "file names of profiles, separated by commas; empty: the default grid's");
DEFINE_string(device, "", "GPU of every model, a100, h100 or h200; empty: the default grid's");
DEFINE_string(devices, "8,16,32,64", "numbers of devices, multiples of 8, separated by commas");
DEFINE_string(
    device_batches, "",
    "samples per step and device, increasing, separated by commas; empty: the default grid's");
DEFINE_string(strategies, "",
              "strategies, separated by semicolons; all: all named ones; empty: the default "
              "grid's");
DEFINE_bool(ablations, true, "also ablations of diffusionpipe, on 8 devices");
DEFINE_string(chapters, "comparison,combined,link_speed,fine_tuning",
              "comparison: every strategy on 8 to 64 devices; combined: opendiffusionpipe and "
              "diffusionpipe at equal S, M; link_speed: which strategy wins over which links; "
              "fine_tuning: the same on small clusters, whole and by adapters");
DEFINE_bool(quick, false, "one model, 8 devices, one batch, and only the comparison");
DEFINE_int64(simulation_budget, dpipe::PlanOptions().simulation_budget,
             "approximate number of instructions that each search may simulate; at least 1");
DEFINE_int32(jobs, 1, "number of threads that plan");
DEFINE_bool(resume, true, "keep the plans that are already in --out");
DEFINE_string(profiles, "", "folder of modelled profiles; empty: data/profiles/modelled");
DEFINE_string(clusters, "", "folder of clusters; empty: data/clusters");
DEFINE_string(date, "", "date to write into the tables; empty: today");
DEFINE_string(out, "out/paper_tables", "folder for README.md, results.json and plots");
FLAG_RANGE(simulation_budget, 1, 1e12);
FLAG_RANGE(jobs, 1, 1'024);

namespace dpipe::bench {
namespace {

absl::StatusOr<std::vector<int>> Numbers(const char* flag, const std::string& text) {
  std::vector<int> numbers;
  for (const auto& part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1) {
      return CommandLineError(
          absl::StrCat("--", flag, ": '", part, "' is not a number of at least 1"));
    }
    numbers.push_back(number);
  }
  if (numbers.empty()) return CommandLineError(absl::StrCat("--", flag, " is empty"));
  return numbers;
}

// Returns the default setups, or those of --models, modified by the other flags.
absl::StatusOr<std::vector<ModelSetup>> SetupsFromFlags(const std::vector<ModelSetup>& defaults) {
  std::vector<ModelSetup> setups = defaults;
  if (!FLAGS_models.empty()) {
    setups.clear();
    for (const auto& model : absl::StrSplit(FLAGS_models, ',', absl::SkipWhitespace())) {
      ModelSetup setup{std::string(model), "a100", {4, 16}};
      for (const ModelSetup& known : defaults) {
        if (known.model == model) setup = known;
      }
      setups.push_back(setup);
    }
  }
  for (ModelSetup& setup : setups) {
    if (!FLAGS_device.empty()) setup.device = FLAGS_device;
    if (FLAGS_device_batches.empty()) continue;
    DPIPE_ASSIGN_OR_RETURN(setup.device_batches, Numbers("device_batches", FLAGS_device_batches));
  }
  return setups;
}

std::vector<GridEntry> ContendersFromFlags() {
  if (FLAGS_strategies.empty()) return DefaultContenders();
  if (FLAGS_strategies == "all") return NamedContenders();
  std::vector<GridEntry> contenders;
  for (const auto& part : absl::StrSplit(FLAGS_strategies, ';', absl::SkipWhitespace())) {
    contenders.push_back({std::string(part), std::string(part)});
  }
  return contenders;
}

// Returns `models`, or those of them that --models names.
std::vector<std::string> Chosen(const std::vector<std::string>& models) {
  if (FLAGS_models.empty()) return models;
  std::vector<std::string> chosen;
  for (const auto& model : absl::StrSplit(FLAGS_models, ',', absl::SkipWhitespace())) {
    if (std::count(models.begin(), models.end(), model) > 0) chosen.emplace_back(model);
  }
  return chosen;
}

absl::StatusOr<std::vector<GridCase>> MapCases(const std::string& chapter) {
  if (chapter == kFineTuningChapter) {
    std::vector<std::string> names;
    for (const tools::FineTuning& tuning : tools::FineTunings()) names.push_back(tuning.name());
    return FineTuningCases(Chosen(names));
  }
  const std::string batches = FLAGS_device_batches.empty() ? "1,4,16,64" : FLAGS_device_batches;
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> numbers, Numbers("device_batches", batches));
  return LinkSpeedCases(Chosen(LinkSpeedModels()), numbers);
}

absl::StatusOr<std::vector<GridCase>> CasesOf(const std::string& chapter) {
  if (chapter == kLinkSpeedChapter || chapter == kFineTuningChapter) return MapCases(chapter);
  const bool combined = chapter == "combined";
  if (!combined && chapter != "comparison") {
    return CommandLineError(absl::StrCat("--chapters: there is no chapter '", chapter,
                                         "'; there are comparison, combined, ", kLinkSpeedChapter,
                                         " and ", kFineTuningChapter));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<ModelSetup> setups,
                         SetupsFromFlags(combined ? CombinedSetups() : DefaultSetups()));
  if (combined) return CombinedCases(setups);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> devices, Numbers("devices", FLAGS_devices));
  return ComparisonCases(setups, devices, ContendersFromFlags(), FLAGS_ablations);
}

absl::StatusOr<std::vector<GridCase>> CasesFromFlags() {
  if (FLAGS_quick) {
    return ComparisonCases({{"stable_diffusion_v2_1_512", "a100", {8}}}, {8}, ContendersFromFlags(),
                           FLAGS_ablations);
  }
  std::vector<GridCase> cases;
  for (const auto& chapter : absl::StrSplit(FLAGS_chapters, ',', absl::SkipWhitespace())) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<GridCase> own, CasesOf(std::string(chapter)));
    cases.insert(cases.end(), own.begin(), own.end());
  }
  return cases;
}

std::string Today() { return absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()); }

absl::StatusOr<ReportSource> SourceOf(const GridOptions& options,
                                      const std::vector<GridCase>& cases,
                                      const std::string& command_line) {
  ReportSource source;
  source.command_line = command_line;
  source.machine = report::CollectMachineInfo();
  source.simulation_budget = options.simulation_budget;
  source.date = FLAGS_date.empty() ? Today() : FLAGS_date;
  for (const GridCase& c : cases) {
    if (source.provenance.count(c.model) > 0) continue;
    DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                           ProfileOf(options, c.chapter, c.model, c.device));
    source.provenance[c.model] = profile.provenance();
  }
  return source;
}

absl::StatusOr<ModelProfile> MakeFineTuning(const std::string& model, const std::string& device) {
  for (const tools::FineTuning& tuning : tools::FineTunings()) {
    if (tuning.name() == model) return tools::FineTuningProfile(tuning, device);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no model '", model, "' to fine-tune: see tools/profiles/fine_tuning.h"));
}

absl::Status WriteReport(const std::string& folder, const std::vector<GridResult>& results,
                         const ReportSource& source) {
  const PaperReport report = MakePaperReport(results, source);
  for (const auto& [name, svg] : report.pictures) {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/" + name, svg));
  }
  return WriteFileAtomically(folder + "/README.md", report.markdown);
}

absl::StatusOr<std::vector<GridResult>> Finished(const std::string& path) {
  std::error_code error;
  if (!FLAGS_resume || !std::filesystem::exists(path, error)) return std::vector<GridResult>();
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ReadPaperJson(text, FLAGS_simulation_budget);
}

absl::Status Run(const std::string& command_line) {
  GridOptions options;
  if (!FLAGS_profiles.empty()) options.profiles_folder = UserPath(FLAGS_profiles);
  if (!FLAGS_clusters.empty()) options.clusters_folder = UserPath(FLAGS_clusters);
  options.simulation_budget = FLAGS_simulation_budget;
  options.jobs = FLAGS_jobs;
  options.profiles_of_chapter[kFineTuningChapter] = MakeFineTuning;
  DPIPE_ASSIGN_OR_RETURN(const std::vector<GridCase> cases, CasesFromFlags());
  DPIPE_ASSIGN_OR_RETURN(const ReportSource source, SourceOf(options, cases, command_line));
  const std::string folder = OutputPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string json_path = folder + "/results.json";
  DPIPE_ASSIGN_OR_RETURN(const std::vector<GridResult> finished, Finished(json_path));
  const Nanos start = MonotonicNow();
  const auto on_finished = [&](const std::vector<GridResult>& results, size_t total,
                               const GridResult& last) {
    std::printf("%zu of %zu, %.0f s: %s, %s, batch %d\n", results.size(), total,
                static_cast<double>(MonotonicNow() - start) / kNanosPerSecond, last.model.c_str(),
                last.cluster.c_str(), last.global_batch);
    std::fflush(stdout);
    return WriteFileAtomically(json_path, PaperJson(results, source));
  };
  DPIPE_ASSIGN_OR_RETURN(std::vector<GridResult> results,
                         RunGrid(options, cases, finished, on_finished));
  DPIPE_RETURN_IF_ERROR(SetWorkBounds(options, &results));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(json_path, PaperJson(results, source)));
  DPIPE_RETURN_IF_ERROR(WriteReport(folder, results, source));
  std::printf("%s/README.md\n", folder.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  std::string command_line = "bazel run //bench:paper_tables --";
  for (int i = 1; i < argc; ++i) {
    absl::StrAppend(&command_line, " ", dpipe::ShellCommand({argv[i]}));
  }
  const dpipe::Command command = {
      "paper_tables",
      "Plans and simulates every strategy for models, cluster sizes and batches.\n"
      "The default grid writes out/paper_tables/README.md. An aborted run resumes.\n"
      "  bazel run //bench:paper_tables -- --quick\n"
      "  bazel run //bench:paper_tables -- --models=sdxl_1024 --devices=8 --device_batches=4\n"
      "  bazel run //bench:paper_tables -- --chapters=link_speed,fine_tuning\n",
      {},
      {"quick", "chapters", "models", "strategies", "device", "devices", "device_batches", "out"}};
  return dpipe::RunCommand(argc, argv, command, [&] { return dpipe::bench::Run(command_line); });
}
