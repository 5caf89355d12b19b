// Plans strategies, and compares the simulator's prediction of each plan with an execution by the
// real runtime on emulated devices.
//   bazel run //bench:emulation
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
#include "baselines/registry.h"
#include "bench/emulation/emulation_case.h"
#include "bench/emulation/emulation_report.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/shell_quote.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/machine.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gflags/gflags.h"

DEFINE_string(backend, "emulated", "emulated (the only backend)");
DEFINE_string(profile,
              "data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto,"
              "data/profiles/modelled/a100_80gb/controlnet_v1_0_512.textproto,"
              "data/profiles/modelled/a100_80gb/cdm_lsun_256.textproto",
              "profiles, separated by commas");
DEFINE_string(cluster, "data/clusters/a100_8x1.textproto,data/clusters/a100_8x2.textproto",
              "clusters, separated by commas");
DEFINE_string(strategies, "all", "strategies, separated by semicolons; all: every named one");
DEFINE_int32(device_batch, 16,
             "samples per step and device; the global batch is this times the number of devices");
DEFINE_int32(steps, 4, "training steps to run; the first and the last are not counted");
DEFINE_double(time_scale, 0, "minimum real time per unit of emulated time; 0: as fast as possible");
DEFINE_bool(charge_host_time, true,
            "also count the measured time of the runtime's own work as the ranks' time");
DEFINE_string(date, "", "date to write into the tables; empty: today");
DEFINE_string(out, "out/emulation", "folder for README.md and results.json");
DEFINE_double(fail_above, 0, "exit with 1 if any step differs by more than this share; 0: never");
FLAG_RANGE(device_batch, 1, 65'536);
FLAG_RANGE(steps, 3, 1'000);
FLAG_RANGE(time_scale, 0, 1'000);
FLAG_RANGE(fail_above, 0, 1e6);

namespace dpipe::bench {
namespace {

std::vector<std::string> Strategies() {
  if (FLAGS_strategies == "all") return ExactStrategyNames();
  return absl::StrSplit(FLAGS_strategies, ';', absl::SkipWhitespace());
}

// Returns a file given by the user, or one of the project's own.
std::string InputPath(const std::string& path) {
  const std::string given = UserPath(path);
  std::error_code ignored;
  return std::filesystem::exists(given, ignored) ? given : path;
}

absl::Status CheckFlags() {
  if (FLAGS_backend != "emulated") {
    return CommandLineError(
        absl::StrCat("unknown --backend=", FLAGS_backend, "; expected emulated"));
  }
  for (const std::string& strategy : Strategies()) {
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(FindStrategy(strategy).status()));
  }
  return absl::OkStatus();
}

absl::Status RunAll(EmulationReport* report) {
  for (const auto& profile_path : absl::StrSplit(FLAGS_profile, ',', absl::SkipWhitespace())) {
    ModelProfile profile;
    DPIPE_RETURN_IF_ERROR(ReadTextProto(InputPath(std::string(profile_path)), &profile));
    for (const auto& cluster_path : absl::StrSplit(FLAGS_cluster, ',', absl::SkipWhitespace())) {
      ClusterSpec cluster;
      DPIPE_RETURN_IF_ERROR(ReadTextProto(InputPath(std::string(cluster_path)), &cluster));
      const int devices = cluster.num_nodes() * cluster.devices_per_node();
      for (const std::string& strategy : Strategies()) {
        DPIPE_ASSIGN_OR_RETURN(const EmulationResult result,
                               RunEmulationCase(profile, cluster, strategy,
                                                FLAGS_device_batch * devices, report->options));
        std::printf("%-28s %3d devices  %-18s ", result.model.c_str(), result.num_devices,
                    strategy.c_str());
        if (result.ran()) {
          std::printf("%9.2f ms simulated %9.2f ms emulated %+8.3f %%  losses %s\n",
                      result.simulated_step_ns / 1e6, result.emulated_step_ns / 1e6,
                      100 * result.difference(), result.valid() ? "right" : "WRONG");
        } else {
          std::printf("no plan: %s\n", result.refusal.c_str());
        }
        std::fflush(stdout);
        report->results.push_back(result);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Main(const std::string& command_line) {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  EmulationReport report;
  report.command_line = command_line;
  report.date = FLAGS_date.empty() ? absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone())
                                   : FLAGS_date;
  report.machine = report::CollectMachineInfo();
  report.options.num_steps = FLAGS_steps;
  report.options.clock.time_scale = FLAGS_time_scale;
  report.options.clock.charge_host_time = FLAGS_charge_host_time;
  DPIPE_RETURN_IF_ERROR(RunAll(&report));
  const std::string folder = OutputPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/README.md", EmulationMarkdown(report)));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/results.json", EmulationJson(report)));
  const EmulationSummary summary = Summarize(report.results);
  std::printf("\n%d plans: %.3f %% in the median, %.3f %% at worst; %s\n", summary.num_run,
              100 * summary.median, 100 * summary.worst, (folder + "/README.md").c_str());
  if (summary.num_invalid > 0) {
    return absl::InternalError(absl::StrCat(summary.num_invalid, " plans gave wrong losses"));
  }
  if (FLAGS_fail_above > 0 && summary.worst > FLAGS_fail_above) {
    return absl::InternalError(absl::StrCat("a step differs by ", summary.worst,
                                            ", more than --fail_above=", FLAGS_fail_above, ": ",
                                            summary.worst_result->first));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  std::string command_line = "bazel run //bench:emulation --";
  for (int i = 1; i < argc; ++i) command_line += " " + dpipe::ShellCommand({argv[i]});
  const dpipe::Command command = {
      "emulation",
      "Compares simulated with emulated steps: every strategy's plan for every profile and cluster "
      "is\nsimulated, and run by the real runtime on devices that wait for the profiled times."
      "\n\n  bazel run //bench:emulation -- --backend=emulated \\\n      "
      "--cluster=data/clusters/a100_8x8.textproto --strategies='1f1b;diffusionpipe'\n"};
  return dpipe::RunCommand(argc, argv, command, [&] { return dpipe::bench::Main(command_line); });
}
