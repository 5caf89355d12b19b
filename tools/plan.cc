// Finds the plan to train a model with on a cluster, and says what it expects of it.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/search.h"
#include "core/report/timeline/timeline_svg.h"
#include "core/schedule/file_formats/torch_csv.h"
#include "core/schedule/generators.h"
#include "core/schedule/verification/verify.h"
#include "gflags/gflags.h"
#include "tools/planning/imported_plan.h"
#include "tools/planning/plan_result_text.h"
#include "tools/planning/proto_file.h"
#include "tools/planning/schedule_text.h"
#include "tools/planning/timed_schedule.h"

DEFINE_string(profile, "", "file of the model's profile (ModelProfile)");
DEFINE_string(cluster, "", "file of the cluster to run on (ClusterSpec)");
DEFINE_string(strategy, "opendiffusionpipe",
              "strategy: a name or a composition of the words that --list shows");
DEFINE_int32(global_batch, 0,
             "samples of a training step, over all devices; required with --profile");
DEFINE_int32(num_stages, 0, "number of stages of a pipeline; 0: search");
DEFINE_int32(num_micro_batches, 0, "number of micro-batches of a pipeline group; 0: search");
DEFINE_int32(micro_batch_size, 0, "samples of a micro-batch; 0: search");
DEFINE_int32(devices_per_pipeline, 0, "number of devices of a pipeline group; 0: search");
DEFINE_int32(
    stages_per_device, 0,
    "number of stages on each device, of schedules that leave it open; 0: the schedule's default");
DEFINE_int64(
    simulation_budget, dpipe::PlanOptions().simulation_budget,
    "approximate number of instructions that the search may simulate; more finds better plans");
DEFINE_bool(exact, false, "fill bubbles optimally, which is possible for small instances only");
DEFINE_int32(candidates, 8, "number of candidates to show");
DEFINE_string(output, "", "file to write the plan to; empty: none");
DEFINE_string(
    output_self_conditioned, "",
    "file to write the plan to of steps with self-conditioning, which run the backbone twice");
DEFINE_bool(list, false, "show the strategies, schedules and partitioners, and exit");
DEFINE_string(schedule, "", "schedule to describe, draw or write, without a model");
DEFINE_string(times, "",
              "with --schedule: times of a stage's forward, input-gradient and weight-gradient "
              "passes and, if wanted, of a message, in any unit: 1,1,1 or 1,1.2,0.8,0.1");
DEFINE_string(picture, "out/schedule.svg", "with --times: file to draw the step to; empty: none");
DEFINE_string(to_torch_csv, "",
              "file to write the schedule to, as torch.distributed.pipelining reads it");
DEFINE_bool(csv_messages, false, "with --to_torch_csv: also write the messages between devices");
DEFINE_bool(
    csv_send_waits, true,
    "with --csv_messages: also write when sends are waited for, as torch 2.15 demands; false "
    "for versions that do not know WAIT_SEND");
DEFINE_string(from_torch_csv, "",
              "schedule file of torch.distributed.pipelining: with --profile, plan in its order; "
              "without, describe it");
FLAG_RANGE(global_batch, 0, 1 << 20);
FLAG_RANGE(num_stages, 0, 65'536);
FLAG_RANGE(num_micro_batches, 0, 65'536);
FLAG_RANGE(micro_batch_size, 0, 1 << 20);
FLAG_RANGE(devices_per_pipeline, 0, 1 << 20);
FLAG_RANGE(stages_per_device, 0, 1'024);
FLAG_RANGE(simulation_budget, 1, 1e12);
FLAG_RANGE(candidates, 1, 100'000);

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Finds the best plan of a strategy for a model on a cluster, and says what to expect of it.\n\n"
    "  bazel run //tools:plan -- --global_batch=256 --output=plan.textproto \\\n"
    "      --profile=data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto \\\n"
    "      --cluster=data/clusters/a100_8x1.textproto\n"
    "  bazel run //tools:plan -- --list\n"
    "  bazel run //tools:plan -- --schedule=zb-v --num_stages=4 --num_micro_batches=8 \\\n"
    "      --times=1,1,1\n"
    "  bazel run //tools:plan -- --schedule=zb-v --num_stages=4 --num_micro_batches=8 \\\n"
    "      --to_torch_csv=zbv.csv\n"
    "  bazel run //tools:plan -- --from_torch_csv=zbv.csv\n"
    "  bazel run //tools:plan -- --from_torch_csv=zbv.csv --global_batch=256 --output=zbv.pb \\\n"
    "      --profile=data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto \\\n"
    "      --cluster=data/clusters/a100_8x1.textproto\n\n"
    "Files are .textproto or binary .pb, by name. Exit codes: 0 done, 1 refused (why is on "
    "standard\nerror), 2 wrong command line, 3 nothing fits in memory.\n";

absl::Status WriteTorchCsv(const Schedule& schedule) {
  TorchCsvOptions options;
  if (FLAGS_csv_messages) options.mode = TorchCsvMode::kWithCommunication;
  options.send_waits = FLAGS_csv_send_waits;
  DPIPE_ASSIGN_OR_RETURN(const std::string csv, TorchCsvFromSchedule(schedule, options));
  const std::string path = UserPath(FLAGS_to_torch_csv);
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(path));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, csv));
  std::printf("CSV:        %s\n", path.c_str());
  return absl::OkStatus();
}

absl::Status ShowTorchCsv() {
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ReadTorchCsv(UserPath(FLAGS_from_torch_csv)));
  std::fputs(ScheduleText(schedule).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status ShowTimedSchedule(const ScheduleRequest& request) {
  absl::StatusOr<PassTimes> times = ParsePassTimes(FLAGS_times);
  if (!times.ok()) return AsCommandLineError(times.status());
  DPIPE_ASSIGN_OR_RETURN(const TimedSchedule timed,
                         SimulateSchedule(FLAGS_schedule, request, *times));
  DPIPE_ASSIGN_OR_RETURN(const std::string text, TimedScheduleText(timed, *times));
  std::fputs(text.c_str(), stdout);
  if (!FLAGS_picture.empty()) {
    report::TimelineOptions options;
    options.draw_memory = false;
    options.window = {2, 1};
    const std::string title = absl::StrCat(FLAGS_schedule, ": ", request.num_devices, " devices, ",
                                           request.num_micro_batches, " micro-batches, times ",
                                           FLAGS_times, " (here in ms)");
    DPIPE_ASSIGN_OR_RETURN(const std::string svg, report::TimelineSvg(timed.trace, title, options));
    const std::string path = UserPath(FLAGS_picture);
    DPIPE_RETURN_IF_ERROR(MakeParentFolder(path));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, svg));
    std::printf("\nPicture:    %s\n", path.c_str());
  }
  return FLAGS_to_torch_csv.empty() ? absl::OkStatus() : WriteTorchCsv(timed.schedule);
}

absl::Status MakeAndWriteSchedule() {
  if (FLAGS_num_stages < 1 || FLAGS_num_micro_batches < 1) {
    return CommandLineError("--schedule needs --num_stages and --num_micro_batches");
  }
  ScheduleRequest request;
  request.num_devices = FLAGS_num_stages;
  request.num_micro_batches = FLAGS_num_micro_batches;
  request.stages_per_device = FLAGS_stages_per_device;
  if (!FLAGS_times.empty()) return ShowTimedSchedule(request);
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(FLAGS_schedule, request));
  std::fputs(ScheduleText(schedule).c_str(), stdout);
  return FLAGS_to_torch_csv.empty() ? absl::OkStatus() : WriteTorchCsv(schedule);
}

absl::Status CheckPlanFlags() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("profile", FLAGS_profile));
  DPIPE_RETURN_IF_ERROR(RequireFlag("cluster", FLAGS_cluster));
  DPIPE_RETURN_IF_ERROR(CheckAtLeast({{"global_batch", FLAGS_global_batch, 1}}));
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(FindStrategy(FLAGS_strategy).status()));
  // Before a search that would be lost otherwise.
  for (const std::string& path : {FLAGS_output, FLAGS_output_self_conditioned}) {
    if (!path.empty()) DPIPE_RETURN_IF_ERROR(AsCommandLineError(CheckProtoPath(path)));
  }
  return absl::OkStatus();
}

absl::Status WritePlanFile(const char* what, const std::string& flag, const Plan& plan) {
  if (flag.empty()) return absl::OkStatus();
  const std::string path = UserPath(flag);
  DPIPE_RETURN_IF_ERROR(WriteProto(path, plan));
  std::printf("%s%s\n", what, path.c_str());
  return absl::OkStatus();
}

absl::Status MakeAndWritePlan() {
  DPIPE_RETURN_IF_ERROR(CheckPlanFlags());
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         ReadCostModel(UserPath(FLAGS_profile), UserPath(FLAGS_cluster)));
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(FLAGS_strategy));
  PlanOptions options;
  options.global_batch = FLAGS_global_batch;
  options.num_stages = FLAGS_num_stages;
  options.num_micro_batches = FLAGS_num_micro_batches;
  options.micro_batch_size = FLAGS_micro_batch_size;
  options.simulation_budget = FLAGS_simulation_budget;
  options.devices_per_pipeline = FLAGS_devices_per_pipeline;
  options.stages_per_device = FLAGS_stages_per_device;
  options.exact = FLAGS_exact;
  options.num_candidates = FLAGS_candidates;
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(
      const PlanResult result,
      FLAGS_from_torch_csv.empty()
          ? MakePlan(strategy, cost.profile(), cost.cluster(), options)
          : PlanTorchCsv(UserPath(FLAGS_from_torch_csv), strategy, cost, options));
  const Nanos planning_ns = MonotonicNow() - start;
  std::printf("%s\n", PlanResultText(result, cost, planning_ns).c_str());
  if (!FLAGS_output.empty()) DPIPE_RETURN_IF_ERROR(VerifyPlan(result.plan, cost));
  if (!FLAGS_output_self_conditioned.empty() && result.self_conditioned_plan.devices_size() > 0) {
    DPIPE_RETURN_IF_ERROR(VerifyPlan(result.self_conditioned_plan, cost));
  }
  DPIPE_RETURN_IF_ERROR(WritePlanFile("Written:    ", FLAGS_output, result.plan));
  if (result.self_conditioned_plan.devices_size() > 0) {
    DPIPE_RETURN_IF_ERROR(
        WritePlanFile("Twice:      ", FLAGS_output_self_conditioned, result.self_conditioned_plan));
  }
  if (FLAGS_to_torch_csv.empty()) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfPlan(result.plan));
  return WriteTorchCsv(schedule);
}

absl::Status Main() {
  if (FLAGS_list) {
    std::fputs(ListText().c_str(), stdout);
    return absl::OkStatus();
  }
  if (!FLAGS_from_torch_csv.empty() && FLAGS_profile.empty()) return ShowTorchCsv();
  if (!FLAGS_schedule.empty()) return MakeAndWriteSchedule();
  return MakeAndWritePlan();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "plan",
      dpipe::tools::kUsage,
      {{"What is planned", {"profile", "cluster", "strategy", "global_batch", "list"}},
       {"Results", {"output", "output_self_conditioned", "candidates"}},
       {"Search",
        {"num_stages", "num_micro_batches", "micro_batch_size", "devices_per_pipeline",
         "stages_per_device", "simulation_budget", "exact"}},
       {"Schedules without a model", {"schedule", "times", "picture"}},
       {"PyTorch schedules", {"to_torch_csv", "csv_messages", "csv_send_waits", "from_torch_csv"}}},
      {"profile", "cluster", "strategy", "global_batch", "output", "list", "num_micro_batches",
       "num_stages", "candidates", "schedule"}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
