// Draws a trace, or the simulation of a plan, as a picture, a page or a file for Perfetto.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "core/report/perfetto.h"
#include "core/report/timeline_svg.h"
#include "core/sim/simulator.h"
#include "gflags/gflags.h"
#include "tools/command_line.h"
#include "tools/proto_file.h"

DEFINE_string(trace, "", "a trace: of //tools:simulate, or of a run");
DEFINE_string(plan, "", "instead of a trace: a plan, which is simulated");
DEFINE_string(profile, "", "with --plan: the profile that it is for");
DEFINE_string(cluster, "", "with --plan: the cluster that it is for");
DEFINE_bool(what_if, false, "take a plan made for another profile or cluster, if it fits this one");
DEFINE_string(title, "", "of the picture; empty: strategy, model and devices");
DEFINE_int32(first_step, -1, "first step to draw (.svg, .html); -1: typical ones");
DEFINE_int32(steps, 2, "how many steps to draw (.svg, .html)");
DEFINE_string(output, "", "file to write: .svg, .html, or .json for ui.perfetto.dev");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Draws what each device does when.\n\n"
    "  bazel run //tools:trace -- --trace=trace.pb --output=timeline.svg\n"
    "  bazel run //tools:trace -- --plan=plan.textproto --profile=... --cluster=... "
    "--output=plan.html\n\n"
    ".svg: a picture. .html: a page by itself, to zoom and to point at. .json: open it in "
    "ui.perfetto.dev.\nExit codes: 0 done, 1 refused (why is on standard error), 2 wrong command "
    "line.\n";

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("output", FLAGS_output));
  if (FLAGS_trace.empty() == FLAGS_plan.empty()) {
    return CommandLineError("one of --trace and --plan is needed, and not both");
  }
  if (!FLAGS_plan.empty()) {
    DPIPE_RETURN_IF_ERROR(RequireFlag("profile", FLAGS_profile));
    DPIPE_RETURN_IF_ERROR(RequireFlag("cluster", FLAGS_cluster));
  }
  for (const char* ending : {".svg", ".html", ".json"}) {
    if (absl::EndsWith(FLAGS_output, ending)) return absl::OkStatus();
  }
  return CommandLineError(
      absl::StrCat("--output=", FLAGS_output, " must end in .svg, .html or .json"));
}

absl::StatusOr<Trace> SimulatePlan(const std::string& path, const CostModel& cost) {
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, ReadVerifiedPlan(UserPath(path), cost, FLAGS_what_if));
  SimulateOptions options;
  options.num_steps = std::max(4, FLAGS_first_step + FLAGS_steps + 1);
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, options));
  return ToTrace(simulation, plan);
}

absl::StatusOr<Trace> Input() {
  if (!FLAGS_trace.empty()) return ReadTrace(UserPath(FLAGS_trace));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         ReadCostModel(UserPath(FLAGS_profile), UserPath(FLAGS_cluster)));
  return SimulatePlan(FLAGS_plan, cost);
}

absl::StatusOr<std::string> Draw(const Trace& trace) {
  if (absl::EndsWith(FLAGS_output, ".json")) return report::PerfettoJson(trace);
  report::TimelineOptions options;
  if (FLAGS_first_step >= 0) options.window = {FLAGS_first_step, FLAGS_steps};
  return report::TimelineSvg(trace, FLAGS_title, options);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  DPIPE_ASSIGN_OR_RETURN(const Trace trace, Input());
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Draw(trace));
  const std::string path = UserPath(FLAGS_output);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  std::printf("Written: %s\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  return dpipe::tools::RunCommand(argc, argv, {"trace", dpipe::tools::kUsage}, dpipe::tools::Main);
}
