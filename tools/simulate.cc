// Runs a plan in the simulator, or by the runtime on emulated devices, and says where the time
// goes.
#include <cstdio>
#include <string>
#include <utility>

#include "baselines/registry.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/emulation/compare_traces.h"
#include "core/emulation/emulate.h"
#include "core/schedule/verification/verify.h"
#include "core/sim/simulator.h"
#include "gflags/gflags.h"
#include "tools/planning/imported_plan.h"
#include "tools/planning/proto_file.h"
#include "tools/planning/simulation_text.h"

DEFINE_string(plan, "", "file of the plan, as //tools:plan writes it");
DEFINE_string(from_torch_csv, "",
              "schedule file of torch.distributed.pipelining to plan by, instead of --plan");
DEFINE_string(strategy, "opendiffusionpipe",
              "with --from_torch_csv: strategy that says all but the schedule, as //tools:plan's");
DEFINE_int32(global_batch, 0,
             "with --from_torch_csv: samples of a training step, over all devices; required there");
DEFINE_string(profile, "", "file of the profile that the plan was made for");
DEFINE_string(cluster, "", "file of the cluster that the plan was made for");
DEFINE_bool(what_if, false,
            "take a plan that was made for another profile or cluster, if it fits these");
DEFINE_int32(steps, 4,
             "number of training steps to run, 3 to 1000; the first and the last are not counted");
DEFINE_string(backend, "simulated",
              "simulated; or emulated: run by the real runtime, one thread for each device, on "
              "devices that wait as long as the profile says");
DEFINE_double(
    time_scale, 0,
    "with --backend=emulated: least real time of a unit of emulated time; 0: as fast as possible");
DEFINE_string(output, "", "file to write the trace to, for //tools:trace; empty: none");
FLAG_RANGE(global_batch, 0, 1 << 20);
FLAG_RANGE(steps, 3, 1'000);
FLAG_RANGE(time_scale, 0, 1'000);

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Simulates training steps of a plan: step time against its lower bound, where every device's\n"
    "time goes and why it idles, memory, the critical path, and the traffic on links and "
    "interfaces.\nWith --backend=emulated the real runtime runs the plan, and what differs from "
    "the "
    "simulation is\ntold too.\n\n"
    "  bazel run //tools:simulate -- --plan=plan.textproto \\\n"
    "      --profile=data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto \\\n"
    "      --cluster=data/clusters/a100_8x1.textproto --output=trace.pb\n"
    "  bazel run //tools:simulate -- --from_torch_csv=zbv.csv --global_batch=256 \\\n"
    "      --profile=... --cluster=...\n\n"
    "Files are .textproto or binary .pb, by name. Exit codes: 0 done, 1 refused (why is on "
    "standard\nerror), 2 wrong command line.\n";

absl::Status CheckFlags() {
  if (FLAGS_from_torch_csv.empty()) {
    DPIPE_RETURN_IF_ERROR(RequireFlag("plan", FLAGS_plan));
  } else if (!FLAGS_plan.empty()) {
    return CommandLineError("--plan and --from_torch_csv exclude each other");
  } else {
    DPIPE_RETURN_IF_ERROR(CheckAtLeast({{"global_batch", FLAGS_global_batch, 1}}));
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(FindStrategy(FLAGS_strategy).status()));
  }
  DPIPE_RETURN_IF_ERROR(RequireFlag("profile", FLAGS_profile));
  DPIPE_RETURN_IF_ERROR(RequireFlag("cluster", FLAGS_cluster));
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"simulated", "emulated"}));
  return FLAGS_output.empty() ? absl::OkStatus() : AsCommandLineError(CheckProtoPath(FLAGS_output));
}

// Says how the emulated run differs, and puts it in the simulated one's place.
absl::Status EmulateInstead(const Plan& plan, const CostModel& cost, const Simulation& simulation,
                            Trace* trace, TraceStats* stats) {
  EmulateOptions options;
  options.num_steps = FLAGS_steps;
  options.clock.time_scale = FLAGS_time_scale;
  DPIPE_ASSIGN_OR_RETURN(const Emulation emulation, Emulate(plan, cost, options));
  DPIPE_ASSIGN_OR_RETURN(
      const TraceDifference difference,
      CompareTraces(plan, simulation.events, EventsOf(emulation.trace), WorksAcrossSteps(plan)));
  std::printf(
      "Emulated:   %.3f %% from the simulated step of %s; they part at: %s\n"
      "            losses %s: %.1e from training without plan or runtime; took %s\n\n",
      100 * difference.relative(), FormatDuration(difference.expected_step_ns).c_str(),
      DifferenceText(plan, difference.first).c_str(),
      emulation.loss_error <= kEmulatedLossTolerance ? "right" : "WRONG", emulation.loss_error,
      FormatDuration(emulation.real_ns).c_str());
  *trace = emulation.trace;
  *stats = emulation.stats;
  return absl::OkStatus();
}

absl::StatusOr<Plan> PlanToSimulate(const CostModel& cost) {
  if (FLAGS_from_torch_csv.empty()) {
    return ReadVerifiedPlan(UserPath(FLAGS_plan), cost, FLAGS_what_if);
  }
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(FLAGS_strategy));
  PlanOptions options;
  options.global_batch = FLAGS_global_batch;
  DPIPE_ASSIGN_OR_RETURN(PlanResult result,
                         PlanTorchCsv(UserPath(FLAGS_from_torch_csv), strategy, cost, options));
  DPIPE_RETURN_IF_ERROR(VerifyPlan(result.plan, cost));
  return std::move(result.plan);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         ReadCostModel(UserPath(FLAGS_profile), UserPath(FLAGS_cluster)));
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, PlanToSimulate(cost));
  SimulateOptions options;
  options.num_steps = FLAGS_steps;
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, options));
  Trace trace = ToTrace(simulation, plan);
  TraceStats stats = simulation.stats;
  if (FLAGS_backend == "emulated") {
    DPIPE_RETURN_IF_ERROR(EmulateInstead(plan, cost, simulation, &trace, &stats));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         SimulationText(trace, cost, stats.step_ns, stats.bubble_ratio));
  std::fputs(text.c_str(), stdout);
  if (FLAGS_output.empty()) return absl::OkStatus();
  const std::string path = UserPath(FLAGS_output);
  DPIPE_RETURN_IF_ERROR(WriteProto(path, trace));
  std::printf("\nTrace:      %s\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "simulate",
      dpipe::tools::kUsage,
      {{"What is simulated", {"plan", "from_torch_csv", "strategy", "global_batch", "what_if"}},
       {"How", {"steps", "backend", "time_scale"}}},
      {"plan", "profile", "cluster", "steps", "output"}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
