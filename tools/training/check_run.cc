#include "tools/training/check_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"
#include "core/base/count.h"
#include "tools/training/prepared_run.h"
#include "tools/training/set_aside.h"

namespace dpipe::tools {
namespace {

// Line break and indentation up to the text of the first line.
constexpr char kNextLine[] = "\n          ";

absl::StatusOr<RunOutline> OutlineOf(const PreparedRun& prepared) {
  const TrainingRun& run = prepared.run();
  const TrainerOptions& options = run.options();
  RunOutline outline;
  outline.first_step = run.first_step();
  outline.num_steps = run.num_steps();
  outline.is_estimated_length = options.num_steps == 0 && run.resumed() == nullptr;
  outline.global_batch = run.plan().global_batch();
  outline.epochs = run.Epoch(run.num_steps());
  const auto& peaks = run.plan().prediction().peak_memory_bytes();
  outline.device_bytes.assign(peaks.begin(), peaks.end());
  outline.disk = prepared.disk_needs();
  outline.place = prepared.place();
  if (!run.checkpoints().resumes_here()) {
    DPIPE_ASSIGN_OR_RETURN(outline.aside,
                           PathsOfRun(options.out, options.log_path, *run.checkpoints().folder()));
  }
  outline.writes = WrittenBy(options);
  return outline;
}

std::string MemoryText(const std::vector<int64_t>& device_bytes) {
  if (device_bytes.empty()) return "not predicted";
  std::vector<std::string> devices;
  for (size_t i = 0; i < device_bytes.size(); ++i) {
    devices.push_back(absl::StrCat("device ", i, " ", FormatBytes(device_bytes[i])));
  }
  return absl::StrCat("predicted peak: ", absl::StrJoin(devices, ", "));
}

}  // namespace

void OnlyCheck(TrainerOptions* options) {
  options->check_only = true;
  options->setup.writes_files = false;
  options->checkpoints.read_only = true;
}

absl::Status CheckRun(const TrainerOptions& options,
                      const std::function<void(const std::string&)>& say) {
  DPIPE_ASSIGN_OR_RETURN(const auto prepared, PreparedRun::Create(options, say));
  DPIPE_ASSIGN_OR_RETURN(const RunOutline outline, OutlineOf(*prepared));
  say(OutlineText(outline));
  return absl::OkStatus();
}

std::vector<std::string> WrittenBy(const TrainerOptions& options) {
  std::vector<std::string> paths = {options.model_out + "/",
                                    options.checkpoints.folder + "/",
                                    options.config_path,
                                    options.log_path,
                                    options.kept_profile_path,
                                    options.kept_cluster_path,
                                    options.setup.data.quarantine_path};
  if (options.setup.max_aspect != 1 || options.setup.data.min_side > 0) {
    paths.push_back(options.setup.data.sizes_path);
  }
  if (options.keep_best) paths.push_back(options.best_out + "/");
  if (options.faults.num_dumps > 0) paths.push_back(options.faults.dump_folder + "/");
  if (options.sample_at_end || options.sample_every > 0) {
    paths.push_back(options.sample_folder + "/");
  }
  if (!options.mllog_path.empty()) paths.push_back(options.mllog_path);
  if (!options.tensorboard_folder.empty()) paths.push_back(options.tensorboard_folder + "/");
  if (options.strategy.frozen() == "cached" && !options.setup.cache_folder.empty()) {
    paths.push_back(options.setup.cache_folder + "/");
  }
  if (options.setup.time_engines) paths.push_back(options.setup.engines);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string OutlineText(const RunOutline& outline) {
  std::string text =
      absl::StrCat("Steps:    ", outline.is_estimated_length ? "about " : "",
                   Count(outline.num_steps, "step"), " of ", Count(outline.global_batch, "image"),
                   absl::StrFormat(", %.2f epochs", outline.epochs));
  if (outline.first_step > 0) absl::StrAppend(&text, "; ", outline.first_step, " are done");
  absl::StrAppend(&text, "\nMemory:   ", MemoryText(outline.device_bytes));
  absl::StrAppend(&text, "\nDisk:     up to ", DescribeDiskNeeds(outline.disk), "; ",
                  outline.place.folder, " has ",
                  outline.place.free_bytes.has_value()
                      ? absl::StrCat(FormatBytes(*outline.place.free_bytes), " free")
                      : "an unknown amount free");
  if (!outline.aside.empty()) {
    absl::StrAppend(
        &text, "\nAside:    earlier run to set aside: ", absl::StrJoin(outline.aside, kNextLine));
  }
  absl::StrAppend(&text, "\nWrites:   ", absl::StrJoin(outline.writes, kNextLine));
  absl::StrAppend(&text, "\nChecked:  the run can start; nothing was written");
  return text;
}

}  // namespace dpipe::tools
