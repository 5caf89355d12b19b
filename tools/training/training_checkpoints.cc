#include "tools/training/training_checkpoints.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/bytes.h"
#include "core/base/count.h"
#include "core/base/host/available_memory.h"
#include "core/base/text/shell_quote.h"
#include "core/base/time.h"
#include "core/schedule/file_formats/plan_io.h"
#include "google/protobuf/text_format.h"
#include "tools/training/set_aside.h"

namespace dpipe::tools {
namespace {

constexpr char kConfigFile[] = "config.textproto";
constexpr char kPlanFile[] = "plan.textproto";
constexpr char kSelfConditionedPlanFile[] = "self_conditioned_plan.textproto";
constexpr char kRiskFlag[] = "--allow_config_change";
constexpr char kDataFlag[] = "--allow_data_change";

int64_t SizeOfCopy(const SessionState& state) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state.tensors) {
    if (!tensor.is_private) bytes += tensor.part.size_bytes();
  }
  return bytes;
}

std::string PlanText(const Plan& plan) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(plan, &text);
  return text;
}

absl::Status ReadPlanText(const Checkpoint& checkpoint, const std::string& file, Plan* plan) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, checkpoint.Text(file));
  return ParseTextProto(text, absl::StrCat(checkpoint.folder(), "/", file), plan);
}

}  // namespace

FieldPolicy ConfigPolicy(const std::string& field) {
  // The first match counts.
  static const std::vector<std::pair<std::string, FieldPolicy>>* const kPolicies =
      new std::vector<std::pair<std::string, FieldPolicy>>{
          // Where data is stored, and how much of it may be damaged.
          {"data.max_corrupt", FieldPolicy::kFree},
          {"data.max_corrupt_share", FieldPolicy::kFree},
          {"data.cache", FieldPolicy::kFree},
          // Adapter names in the saved model.
          {"model.lora_format", FieldPolicy::kFree},
          // The checkpoint's weights replace the initial ones. (The frozen base of adapters is
          // never random.)
          {"model.init", FieldPolicy::kFree},
          // Choice of data: see OrderFor.
          {"data.path", FieldPolicy::kData},
          {"data.file_column", FieldPolicy::kData},
          {"data.caption_column", FieldPolicy::kData},
          {"data.default_caption", FieldPolicy::kData},
          {"data.optional_captions", FieldPolicy::kData},
          {"data.min_side", FieldPolicy::kData},
          // Shapes or names of tensors.
          {"model.", FieldPolicy::kFixed},
          {"optimizer.moments", FieldPolicy::kFixed},
          // Order of the samples, and the random draws for them.
          {"data.", FieldPolicy::kFixed},
          {"seed", FieldPolicy::kFixed},
          {"global_batch", FieldPolicy::kFixed},
          {"evaluation.share", FieldPolicy::kFixed},
          {"evaluation.data", FieldPolicy::kFixed},
          // Placement and partition of the computation; outputs.
          {"strategy", FieldPolicy::kFree},
          {"backend", FieldPolicy::kFree},
          {"devices", FieldPolicy::kFree},
          {"job.", FieldPolicy::kFree},
          {"virtual_devices", FieldPolicy::kFree},
          {"cuda_graphs", FieldPolicy::kFree},
          {"engines", FieldPolicy::kFree},
          {"time_engines", FieldPolicy::kFree},
          {"deterministic", FieldPolicy::kFree},
          {"micro_batches", FieldPolicy::kFree},
          {"max_micro_batch", FieldPolicy::kFree},
          {"frozen_quantum", FieldPolicy::kFree},
          {"minutes", FieldPolicy::kFree},
          {"profile", FieldPolicy::kFree},
          {"cluster", FieldPolicy::kFree},
          {"evaluation.", FieldPolicy::kFree},
          {"samples.", FieldPolicy::kFree},
          {"output.", FieldPolicy::kFree},
          {"checkpoints.", FieldPolicy::kFree},
          {"faults.", FieldPolicy::kFree},
      };
  for (const auto& [name, policy] : *kPolicies) {
    if (name == field || (name.back() == '.' && absl::StartsWith(field, name))) return policy;
  }
  // What is learnt and how fast: objective, optimizer, lr, ema, steps, dtype.
  return FieldPolicy::kRisky;
}

absl::StatusOr<std::unique_ptr<TrainingCheckpoints>> TrainingCheckpoints::Open(
    const CheckpointOptions& options, const ConfigFields& config, const std::string& config_text,
    const Say& say) {
  auto checkpoints = std::unique_ptr<TrainingCheckpoints>(
      new TrainingCheckpoints(options, config, config_text, say));
  DPIPE_ASSIGN_OR_RETURN(checkpoints->folder_, options.read_only
                                                   ? CheckpointFolder::OpenReadOnly(options.folder)
                                                   : CheckpointFolder::Open(options.folder));
  DPIPE_RETURN_IF_ERROR(checkpoints->Choose());
  CheckpointSaver::Options saving;
  saving.retention = options.retention;
  saving.in_background = options.in_background;
  checkpoints->saver_ = std::make_unique<CheckpointSaver>(checkpoints->folder_.get(), saving);
  return checkpoints;
}

absl::Status TrainingCheckpoints::Choose() {
  if (options_.resume == "" || options_.resume == "auto") {
    auto newest = folder_->OpenNewest(say_);
    if (absl::IsDataLoss(newest.status())) {
      return absl::DataLossError(absl::StrCat(newest.status().message(),
                                              ": --resume=never starts over and sets them aside"));
    }
    DPIPE_ASSIGN_OR_RETURN(checkpoint_, std::move(newest));
  } else if (options_.resume != "never") {
    DPIPE_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(options_.resume));
  }
  if (options_.resume == "" && checkpoint_ != nullptr) {
    const CheckpointInfo& info = checkpoint_->info();
    if (info.step < info.num_steps) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder_->path(), " has an unfinished run at step ", info.step, " of ", info.num_steps,
          ": --resume=auto resumes it, --resume=never starts over and sets it aside"));
    }
    checkpoint_ = nullptr;
  }
  if (checkpoint_ != nullptr) {
    resumed_ = checkpoint_->info();
    DPIPE_RETURN_IF_ERROR(CheckConfig());
    // A checkpoint in this run's own folder need not be saved again.
    if (checkpoint_->folder() == folder_->PathOf(resumed_->step)) last_save_step_ = resumed_->step;
  }
  if (checkpoint_ == nullptr) return absl::OkStatus();
  std::error_code error;
  const auto parent = std::filesystem::absolute(checkpoint_->folder()).parent_path();
  resumes_here_ = std::filesystem::equivalent(parent, folder_->path(), error);
  say_(absl::StrCat("Resumed:  ", checkpoint_->folder()));
  return absl::OkStatus();
}

absl::Status TrainingCheckpoints::SetLaterAside() {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> aside,
                         folder_->SetAsideAfter(resumed()->step));
  if (aside.empty()) return absl::OkStatus();
  say_(absl::StrCat("Aside:    ", Count(aside.size(), "later checkpoint"),
                    " that this run does not resume from (", FormatBytes(BytesIn(aside)),
                    ")\n          delete: rm -r ", ShellCommand(aside)));
  return absl::OkStatus();
}

absl::Status TrainingCheckpoints::CheckConfig() const {
  ConfigFields saved = resumed()->config;
  saved.insert(options_.defaults.begin(), options_.defaults.end());
  const std::vector<FieldDifference> differences = CompareConfigs(saved, config_, ConfigPolicy);
  const absl::Status matches =
      CheckDifferences(differences, {{FieldPolicy::kRisky, kRiskFlag, options_.allow_config_change},
                                     {FieldPolicy::kData, kDataFlag, options_.allow_data_change}});
  if (!matches.ok()) {
    return absl::Status(matches.code(),
                        absl::StrCat(checkpoint_->folder(), ": ", matches.message()));
  }
  for (const FieldDifference& difference : differences) {
    if (difference.policy == FieldPolicy::kRisky || difference.policy == FieldPolicy::kData) {
      say_(absl::StrCat("Changed:  ", DescribeDifference(difference)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TrainingPlans>> TrainingCheckpoints::SavedPlans(
    const std::map<std::string, std::string>& plan_for) {
  if (checkpoint_ == nullptr) return std::optional<TrainingPlans>();
  std::vector<std::string> changes;
  if (options_.replan) changes.push_back("as requested");
  for (const FieldDifference& difference : CompareConfigs(
           resumed()->plan_for, plan_for, [](const std::string&) { return FieldPolicy::kFree; })) {
    changes.push_back(DescribeDifference(difference));
  }
  if (!changes.empty()) {
    say_(absl::StrCat("Plan:     a new one, ", absl::StrJoin(changes, "; "),
                      ": results agree up to rounding"));
    return std::optional<TrainingPlans>();
  }
  TrainingPlans plans;
  DPIPE_RETURN_IF_ERROR(ReadPlanText(*checkpoint_, kPlanFile, &plans.plan));
  const absl::Status second =
      ReadPlanText(*checkpoint_, kSelfConditionedPlanFile, &plans.self_conditioned);
  if (!second.ok() && !absl::IsNotFound(second)) return second;  // most models have one plan
  return std::optional<TrainingPlans>(std::move(plans));
}

std::string TrainingCheckpoints::FlagsOfNewRun() const {
  // A checkpoint's folder is OUT/checkpoints/step_00000010, or OUT.checkpoints/... of versions in
  // which OUT was the model's folder.
  const std::string parent = std::filesystem::path(checkpoint_->folder()).parent_path();
  absl::string_view out = parent;
  if (!absl::ConsumeSuffix(&out, "/checkpoints") && !absl::ConsumeSuffix(&out, ".checkpoints")) {
    out = "OUT";
  }
  return ShellCommand({absl::StrCat("--model=", out), "--init=checkpoint"});
}

absl::StatusOr<DataOrder> TrainingCheckpoints::OrderFor(int64_t size,
                                                        const std::string& fingerprint) const {
  if (checkpoint_ == nullptr) return DataOrder();
  const CheckpointInfo& saved = *resumed();
  const bool has_other_samples =
      !saved.data_fingerprint.empty() && saved.data_fingerprint != fingerprint;
  if (saved.dataset_size == size && !has_other_samples) return saved.order;
  if (options_.allow_data_change) {
    DataOrder order;
    order.first_step = saved.step;
    if (saved.dataset_size > 0) {
      order.epochs_before =
          saved.order.EpochsAt(saved.step, saved.global_batch, saved.dataset_size);
    }
    say_(absl::StrCat("Order:    starts over at step ", saved.step, ": the data set had ",
                      saved.dataset_size, " samples and has ", size,
                      saved.dataset_size == size ? " others" : "",
                      " now; weights, optimizer, averages and step are kept"));
    return order;
  }
  if (saved.dataset_size != size) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint_->folder(), ": the data set had ", saved.dataset_size, " samples and has ", size,
        " now; ", kDataFlag, " resumes with a new order of the samples, ", FlagsOfNewRun(),
        " starts a new run with the saved weights"));
  }
  if (options_.allow_config_change) {
    say_(absl::StrCat("Changed:  the data set's fingerprint: ", saved.data_fingerprint, " -> ",
                      fingerprint));
    return saved.order;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      checkpoint_->folder(), ": names, captions or sizes of the data set's ", size,
      " samples have changed; ", kRiskFlag, " resumes in the same order, ", kDataFlag,
      " resumes in a new one, ", FlagsOfNewRun(), " starts a new run with the saved weights"));
}

absl::Status TrainingCheckpoints::Restore(LocalSession* session) {
  if (checkpoint_ == nullptr) return absl::OkStatus();
  DPIPE_RETURN_IF_ERROR(session->Restore(resumed_->num_updates, checkpoint_->reader()));
  checkpoint_ = nullptr;
  return absl::OkStatus();
}

absl::Status TrainingCheckpoints::Tolerate(const absl::Status& status) const {
  if (status.ok()) return status;
  // Not ResourceExhausted, which programs report as too little memory by an exit code of its own.
  if (options_.stop_on_error) return absl::UnavailableError(status.message());
  say_(absl::StrCat("Warning:  ", status.message(), "; training continues"));
  return absl::OkStatus();
}

absl::Status TrainingCheckpoints::Settle() {
  const absl::Status status = saver_->Wait();
  for (const std::string& note : saver_->TakeNotes()) say_(absl::StrCat("Warning:  ", note));
  if (!status.ok()) last_save_step_ = -1;
  return status;
}

// Keeps an eighth free for the next step and for other programs.
bool TrainingCheckpoints::HasRoomForCopy(const SessionState& state) {
  const int64_t available = AvailableMemoryBytes(), size = SizeOfCopy(state);
  const bool has_room = available == 0 || size < available - available / 8;
  if (std::exchange(had_room_, has_room) && !has_room) {
    say_(
        absl::StrFormat("Warning:  no room for a copy of the state (%s, but only %s free): "
                        "training waits while checkpoints are written",
                        FormatBytes(size), FormatBytes(available)));
  }
  return has_room;
}

absl::Status TrainingCheckpoints::Save(const LocalSession& session, const TrainingPlans& plans,
                                       CheckpointInfo info, bool is_last) {
  const auto is_saved = [&] { return session.next_step() == last_save_step_; };
  if (is_saved() && !is_last) return absl::OkStatus();  // SAVE_NOW coincided with a regular save
  // Finish the copy that is being written first: the next one needs its memory.
  const absl::Status before = Settle();
  if (!before.ok() && is_last) {
    say_(absl::StrCat("Warning:  ", before.message()));
  } else {
    DPIPE_RETURN_IF_ERROR(Tolerate(before));
  }
  if (is_saved()) return absl::OkStatus();
  CheckpointContent content;
  DPIPE_ASSIGN_OR_RETURN(content.state, session.State());
  info.step = content.state.next_step;
  info.num_updates = content.state.num_updates;
  info.config = config_;
  last_save_step_ = info.step;
  content.info = std::move(info);
  content.texts[kConfigFile] = config_text_;
  content.texts[kPlanFile] = PlanText(plans.plan);
  if (const Plan* plan = plans.self_conditioned_or_null()) {
    content.texts[kSelfConditionedPlanFile] = PlanText(*plan);
  }
  saver_->set_in_background(options_.in_background && HasRoomForCopy(content.state));
  const absl::Status saved = saver_->Save(std::move(content));
  if (!saved.ok()) last_save_step_ = -1;  // so that it is tried again
  return is_last ? WithRemedy(saved) : Tolerate(saved);
}

absl::Status TrainingCheckpoints::WithRemedy(const absl::Status& status) const {
  if (status.ok()) return status;
  const bool has_saved = saver_->stats().num_saved > 0;
  const int64_t newest = has_saved ? saver_->stats().last_step : resumed_ ? resumed_->step : 0;
  const std::string from = newest == 0
                               ? "starts over"
                               : absl::StrCat("resumes from step ", newest, ", the newest saved");
  return absl::UnavailableError(absl::StrCat(status.message(), "; --resume=auto ", from, ", once ",
                                             folder_->path(), " can be written"));
}

bool TrainingCheckpoints::MakeRoom(int64_t bytes,
                                   const std::function<std::optional<int64_t>()>& free_bytes) {
  const auto lacks_room = [&] { return free_bytes().value_or(bytes) < bytes; };
  const auto steps = folder_->Steps();
  if (!steps.ok() || !lacks_room()) return false;
  int64_t removable = 0;
  for (const int64_t step : *steps) removable += BytesIn({folder_->PathOf(step)});
  if (*free_bytes() + removable < bytes) return false;
  for (const int64_t step : *steps) {
    if (!folder_->Remove(step).ok()) break;
    say_(absl::StrCat("Warning:  ", folder_->PathOf(step),
                      " was removed to make room for the model"));
    if (!lacks_room()) return true;
  }
  return false;
}

absl::Status TrainingCheckpoints::Finish() {
  const Nanos stall_ns = saver_->stats().total_stall_ns;  // training does not wait for the rest
  const absl::Status status = Settle();
  const CheckpointSaver::Stats& stats = saver_->stats();
  if (stats.num_saved > 0) {
    say_(absl::StrFormat("Saved:    %s, %s, the last of %s; training waited %s for each",
                         folder_->PathOf(stats.last_step), FormatBytes(stats.bytes),
                         Count(stats.num_saved, "checkpoint"),
                         FormatDuration(stall_ns / stats.num_saved)));
  }
  return WithRemedy(status);
}

}  // namespace dpipe::tools
