#include "tools/planning/imported_plan.h"

#include "absl/strings/str_cat.h"
#include "core/base/text/plain_text.h"
#include "core/schedule/file_formats/imported_schedule.h"
#include "core/schedule/file_formats/torch_csv.h"

namespace dpipe::tools {
namespace {

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

// 0, not given, becomes the file's number.
absl::Status Take(const std::string& path, const char* flag, const char* what, int of_file,
                  int* requested) {
  if (*requested != 0 && *requested != of_file) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", of_file, " ", what, "; --", flag,
                                                   "=", *requested, " must be that or left out"));
  }
  *requested = of_file;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> ReadTorchCsv(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string csv, ReadTextFile(path));
  absl::StatusOr<Schedule> schedule = ScheduleFromTorchCsv(path, csv);
  if (!schedule.ok()) return InFile(path, schedule.status());
  return schedule;
}

absl::StatusOr<PlanResult> PlanTorchCsv(const std::string& path, Strategy strategy,
                                        const CostModel& cost, PlanOptions options) {
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ReadTorchCsv(path));
  DPIPE_RETURN_IF_ERROR(
      Take(path, "num_stages", "ranks", schedule.num_devices(), &options.num_stages));
  DPIPE_RETURN_IF_ERROR(Take(path, "num_micro_batches", "micro-batches",
                             schedule.num_micro_batches(), &options.num_micro_batches));
  if (options.stages_per_device != 0) {
    const int stages =
        (schedule.num_stages() + schedule.num_devices() - 1) / schedule.num_devices();
    DPIPE_RETURN_IF_ERROR(
        Take(path, "stages_per_device", "stages on a rank", stages, &options.stages_per_device));
  }
  DPIPE_RETURN_IF_ERROR(ImportSchedule(kImportedSchedule, schedule));
  strategy.set_schedule(kImportedSchedule);
  strategy.set_tune(false);
  options.refine = false;
  return MakePlan(strategy, cost.profile(), cost.cluster(), options);
}

}  // namespace dpipe::tools
