// Draws a trace, or the simulation of a plan, as a picture, a page or a file for Perfetto.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/page/trace_page.h"
#include "core/report/timeline/perfetto.h"
#include "core/report/timeline/timeline_svg.h"
#include "core/report/timeline/trace_index.h"
#include "core/sim/simulator.h"
#include "gflags/gflags.h"
#include "tools/planning/proto_file.h"

DEFINE_string(trace, "", "file of a trace, of //tools:simulate or of a run");
DEFINE_string(plan, "", "file of a plan to simulate, instead of a trace");
DEFINE_string(compare, "",
              "file of another trace (or plan), drawn under the first on the same time axis; "
              "several are separated by commas");
DEFINE_string(profile, "", "with --plan: file of the profile that the plan was made for");
DEFINE_string(
    cluster, "",
    "with --plan: file of the cluster that the plan was made for; with --trace: for memory "
    "limits only");
DEFINE_bool(what_if, false,
            "accept a plan that was made for another profile or cluster, if it fits these");
DEFINE_bool(messages, true, "draw messages (.svg, .html)");
DEFINE_bool(memory, true, "draw memory over time, if the trace has it (.svg, .html)");
DEFINE_bool(critical_path, true, "outline the critical path, if the trace has it (.svg, .html)");
DEFINE_int32(first_step, -1, "first step to draw (.svg, .html); -1: two from the middle");
DEFINE_int32(steps, 2, "number of steps to draw, with --first_step");
DEFINE_int32(devices, 0, "number of devices to draw, the first ones (.svg, .html); 0: all");
DEFINE_string(output, "", "file to write: .svg, .html, or .json for ui.perfetto.dev");
FLAG_RANGE(first_step, -1, 1'000);
FLAG_RANGE(steps, 1, 1'000);
FLAG_RANGE(devices, 0, 1 << 20);

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Draws a timeline of what each device does.\n\n"
    "  bazel run //tools:trace -- --trace=trace.pb --output=timeline.svg\n"
    "  bazel run //tools:trace -- --plan=plan.textproto --profile=... --cluster=... "
    "--output=plan.html\n"
    "  bazel run //tools:trace -- --trace=1f1b.pb --compare=filled.pb --output=both.html\n\n"
    ".svg: a picture. .html: a standalone page with zoom and tooltips. .json: for "
    "ui.perfetto.dev.\nExit codes: 0 done, 1 refused (why is on standard error), 2 wrong command "
    "line.\n";

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("output", FLAGS_output));
  if (FLAGS_trace.empty() == FLAGS_plan.empty()) {
    return CommandLineError("give either --trace or --plan, not both");
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
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, ReadVerifiedPlan(path, cost, FLAGS_what_if));
  SimulateOptions options;
  options.num_steps = std::max(4, FLAGS_first_step + FLAGS_steps + 1);
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, options));
  return ToTrace(simulation, plan);
}

// Reads a trace that can be drawn. Other errors name the file.
absl::StatusOr<Trace> ReadDrawable(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(path));
  const absl::Status status = report::TraceIndex::Create(trace).status();
  if (status.ok()) return trace;
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

// Returns the trace of --trace or --plan, followed by those to compare with.
absl::StatusOr<std::vector<Trace>> Inputs() {
  std::vector<std::string> paths = absl::StrSplit(FLAGS_compare, ',', absl::SkipWhitespace());
  paths.insert(paths.begin(), FLAGS_trace.empty() ? FLAGS_plan : FLAGS_trace);
  std::vector<Trace> traces;
  if (FLAGS_plan.empty()) {
    for (const std::string& path : paths) {
      DPIPE_ASSIGN_OR_RETURN(traces.emplace_back(), ReadDrawable(UserPath(path)));
    }
    return traces;
  }
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         ReadCostModel(UserPath(FLAGS_profile), UserPath(FLAGS_cluster)));
  for (const std::string& path : paths) {
    DPIPE_ASSIGN_OR_RETURN(traces.emplace_back(), SimulatePlan(UserPath(path), cost));
  }
  return traces;
}

absl::StatusOr<std::vector<int64_t>> MemoryLimits() {
  std::vector<int64_t> limits;
  if (FLAGS_cluster.empty()) return limits;
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadCluster(UserPath(FLAGS_cluster)));
  limits.assign(cluster.num_nodes() * cluster.devices_per_node(),
                cluster.memory_bytes_per_device());
  for (const DeviceClass& part : cluster.device_classes()) {
    if (part.memory_bytes() == 0) continue;
    std::fill_n(limits.begin() + part.first_rank(), part.num_devices(), part.memory_bytes());
  }
  return limits;
}

std::string TitleOf(const Trace& trace) {
  const Plan& plan = trace.plan();
  return absl::StrCat(plan.strategy(), ": ", plan.model(), " on ", plan.devices_size(),
                      plan.devices_size() == 1 ? " device" : " devices", ", global batch ",
                      plan.global_batch());
}

absl::StatusOr<std::string> Draw(const std::vector<Trace>& traces) {
  std::vector<report::TitledTrace> titled;
  for (const Trace& trace : traces) titled.push_back({TitleOf(trace), &trace});
  if (absl::EndsWith(FLAGS_output, ".json")) {
    return titled.size() == 1 ? report::PerfettoJson(traces[0]) : report::PerfettoJson(titled);
  }
  report::TimelineOptions options;
  if (FLAGS_first_step >= 0) options.window = {FLAGS_first_step, FLAGS_steps};
  options.num_devices = FLAGS_devices;
  options.draw_messages = FLAGS_messages;
  options.draw_memory = FLAGS_memory;
  options.draw_critical_path = FLAGS_critical_path;
  DPIPE_ASSIGN_OR_RETURN(options.memory_limit_bytes, MemoryLimits());
  if (absl::EndsWith(FLAGS_output, ".html")) return report::TracePage(titled, options);
  return report::ComparisonSvg(titled, options);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Trace> traces, Inputs());
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Draw(traces));
  const std::string path = UserPath(FLAGS_output);
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(path));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  std::printf("Written: %s\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "trace",
      dpipe::tools::kUsage,
      {{"What is drawn", {"trace", "plan", "profile", "cluster", "what_if", "compare", "output"}},
       {"How", {"first_step", "steps", "devices", "messages", "memory", "critical_path"}}},
      {"plan", "profile", "cluster", "trace", "compare", "output", "steps", "devices"}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
