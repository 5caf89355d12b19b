// Trains by several strategies over links that the kernel shapes, and shows throughput by speed.
//   bazel run //bench:slow_network
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/comparison/link_speeds.h"
#include "bench/comparison/pipeline_main.h"
#include "bench/suite_runner/suite_process.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/host/stop_request.h"
#include "core/base/text/shell_quote.h"
#include "core/comm/rendezvous/launch/shaped_network.h"
#include "core/command_line/command_line.h"
#include "core/report/page/results_page.h"
#include "core/report/results/results.h"
#include "core/report/results/results_table.h"
#include "gflags/gflags.h"

DEFINE_string(speeds, "100mbit,1gbit,10gbit,unshaped",
              "speeds of the links, separated by commas; one comparison is run per speed");
DECLARE_int32(nproc);
DECLARE_string(out);

namespace dpipe::bench {
namespace {

PipelineProgram Program() {
  PipelineProgram program;
  program.name = "slow_network";
  program.summary = "Trains Stable Diffusion by processes with shaped links between them,";
  program.defaults = {
      {"nproc", "2"},
      {"repeats", "5"},
      {"on_clusters", "false"},
      {"strategies", "data_parallel,zero1,gpipe,1f1b,zb-v,diffusionpipe,opendiffusionpipe"}};
  return program;
}

absl::Status Write(const Results& results, const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/results.json", report::ResultsToJson(results)));
  const std::string markdown =
      absl::StrCat("# Throughput by speed of the link\n\n", LinkSpeedsMarkdown(results), "\n",
                   LinkSpeedsSummary(results), "\n", report::ResultsMarkdown(results));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/tables.md", markdown));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/throughput.svg", LinkSpeedsSvg(results)));
  DPIPE_ASSIGN_OR_RETURN(const std::string page, report::ResultsPage(results, {}));
  return WriteFileAtomically(folder + "/report.html", page);
}

// Runs this program again with `--link=speed`. Returns its results as those of the user's command.
absl::StatusOr<Results> CompareAt(const std::string& speed, const std::string& folder,
                                  const std::vector<std::string>& given, const StopRequest& stop) {
  std::vector<std::string> arguments = given;
  arguments.push_back(absl::StrCat("--out=", folder));
  DPIPE_RETURN_IF_ERROR(
      RunProcess(OwnCommand(arguments, absl::StrCat("--link=", speed)),
                 [&]() -> std::string { return stop.signal() == nullptr ? "" : stop.signal(); }));
  DPIPE_ASSIGN_OR_RETURN(const std::string json, ReadFile(folder + "/results.json"));
  DPIPE_ASSIGN_OR_RETURN(Results results, report::ResultsFromJson(json));
  for (CaseResult& one : *results.mutable_cases()) {
    one.set_id(absl::StrCat(one.model(), ".", speed));
    one.set_command_line(absl::StrCat("bazel run //bench:slow_network -- ", ShellCommand(given)));
    (*one.mutable_flags())["out"] = FLAGS_out;
  }
  return results;
}

absl::Status Run(const std::vector<std::string>& arguments) {
  const std::vector<std::string> speeds = absl::StrSplit(FLAGS_speeds, ',', absl::SkipEmpty());
  if (speeds.empty()) return CommandLineError("--speeds is empty");
  for (const std::string& speed : speeds) {
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseLinkSpeed(speed).status()));
  }
  {
    const auto network = ShapedNetwork::Create(2, 1e9);
    if (absl::IsFailedPrecondition(network.status())) {
      std::printf("Skipped: %s.\n", std::string(network.status().message()).c_str());
      return absl::OkStatus();
    }
    DPIPE_RETURN_IF_ERROR(network.status());
  }
  const std::string folder =
      FLAGS_out.empty() ? OutputPath("out/slow_network") : UserPath(FLAGS_out);
  const StopRequest stop;
  Results all;
  all.set_benchmark("slow_network");
  for (const std::string& speed : speeds) {
    std::printf("\n== Link: %s\n", LinkSpeedText(ParseLinkSpeed(speed).value()).c_str());
    std::fflush(stdout);
    DPIPE_ASSIGN_OR_RETURN(const Results one,
                           CompareAt(speed, absl::StrCat(folder, "/", speed), arguments, stop));
    all.mutable_cases()->MergeFrom(one.cases());
    DPIPE_RETURN_IF_ERROR(Write(all, folder));  // what is there survives an interruption
  }
  std::printf("\n%s\n%s\nReport:   %s/report.html\nPicture:  %s/throughput.svg\n",
              LinkSpeedsText(all).c_str(), LinkSpeedsSummary(all).c_str(), folder.c_str(),
              folder.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  using namespace dpipe;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const std::string& argument : arguments) {
    if (absl::StartsWith(argument, "--link=")) {
      return bench::PipelineMain(bench::Program(), argc, argv);
    }
  }
  Command command;
  command.name = "slow_network";
  command.usage =
      "Trains by several strategies in two processes with a shaped link between them, speed by\n"
      "speed, and shows throughput by speed beside what was predicted. Takes all flags of\n"
      "sd_pipeline. Needs root and iproute2; without them it says so and does nothing.\n"
      "  bazel run //bench:slow_network -- --speeds=100mbit,1gbit --repeats=5\n";
  command.groups = {{"Links", {"speeds", "nproc"}}};
  return RunCommand(argc, argv, command, [&] { return bench::Run(arguments); });
}
