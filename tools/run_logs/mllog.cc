#include "tools/run_logs/mllog.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"

namespace dpipe::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPoint[] = "POINT_IN_TIME";
constexpr char kStart[] = "INTERVAL_START";
constexpr char kStop[] = "INTERVAL_END";
constexpr int64_t kStatsEvery = 100;  // steps

}  // namespace

int64_t UnixMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

MlLog::MlLog(const Options& options, std::unique_ptr<AppendFile> file)
    : options_(options), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<MlLog>> MlLog::Create(const Options& options) {
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(options.path));
  const auto start = options.append ? AppendFile::Start::kKeep : AppendFile::Start::kEmpty;
  DPIPE_ASSIGN_OR_RETURN(auto file, AppendFile::Open(options.path, start));
  return std::unique_ptr<MlLog>(new MlLog(options, std::move(file)));
}

void MlLog::Write(const char* type, const char* key, const Json& value, const Json& metadata,
                  int64_t time_ms) {
  Json line;
  line["namespace"] = "";
  line["time_ms"] = time_ms;
  line["event_type"] = type;
  line["key"] = key;
  line["value"] = value;
  line["metadata"] = metadata;
  file_->Append(
      absl::StrCat(":::MLLOG ", line.dump(-1, ' ', false, Json::error_handler_t::replace), "\n"));
}

void MlLog::Point(const char* key, const Json& value, const Json& metadata) {
  Write(kPoint, key, value, metadata, options_.clock());
}

void MlLog::OnStart(const RunStart& start) {
  global_batch_ = start.global_batch;
  evaluation_samples_ = start.evaluation_samples;
  steps_ = start.first_step;
  Write(kStart, "init_start", nullptr, Json::object(), options_.init_start_ms);
  Point("seed", start.seed);
  Point("global_batch_size", start.global_batch);
  Point("train_samples", start.training_samples);
  Point("eval_samples", start.evaluation_samples);
  Point("opt_name", "adamw");
  Point("opt_base_learning_rate", options_.learning_rate);
  Point("strategy", start.strategy, {{"model", start.model}, {"devices", start.num_devices}});
  Write(kStop, "init_stop", nullptr, Json::object(), options_.clock());
  Write(kStart, "run_start", nullptr, {{"first_step", start.first_step}}, options_.clock());
  EpochStart(start.first_step * start.global_batch / start.training_samples + 1);
}

void MlLog::EpochStart(int64_t number) {
  epoch_ = number;
  Write(kStart, "epoch_start", nullptr,
        {{"epoch_num", number}, {"samples_count", steps_ * global_batch_}}, options_.clock());
}

void MlLog::EpochStop(int64_t number) {
  Write(kStop, "epoch_stop", nullptr,
        {{"epoch_num", number}, {"samples_count", steps_ * global_batch_}}, options_.clock());
}

void MlLog::OnStep(const StepReport& step) {
  steps_ = step.step;
  if (step.step % kStatsEvery == 0) {
    Point("tracked_stats",
          {{"loss", step.mean_loss},
           {"throughput", step.images_per_second},
           {"learning_rate", step.learning_rate}},
          {{"step", step.step}});
  }
  // A batch may end one epoch and begin the next; with a small data set it may span several.
  for (const auto now = static_cast<int64_t>(std::floor(step.epoch)); epoch_ <= now;) {
    EpochStop(epoch_);
    EpochStart(epoch_ + 1);
  }
}

void MlLog::OnEvaluation(const EvaluationReport& evaluation) {
  const int64_t now = options_.clock();
  const Json place = {{"epoch_num", evaluation.epoch},
                      {"samples_count", evaluation.step * global_batch_}};
  Write(kStart, "eval_start", nullptr, place,
        now - static_cast<int64_t>(evaluation.seconds * 1000));
  Json metadata = place;
  metadata["metric"] = "held_out_loss";
  metadata["weights"] = evaluation.weights;
  metadata["quantiles"] = evaluation.quantiles;
  metadata["losses"] = evaluation.losses;
  metadata["eval_samples"] = evaluation_samples_;
  Write(kPoint, "eval_error", evaluation.mean, metadata, now);
  Write(kStop, "eval_stop", nullptr, place, now);
}

void MlLog::OnEnd(const RunEnd& end) {
  if (epoch_ > 0) EpochStop(epoch_);
  const bool success = end.status.ok() && end.stopped_by.empty();
  Json metadata = {{"status", success ? "success" : "aborted"},
                   {"samples_count", end.samples},
                   {"step", end.steps}};
  if (!end.stopped_by.empty()) metadata["reason"] = end.stopped_by;
  if (!end.status.ok()) metadata["reason"] = std::string(end.status.message());
  Write(kStop, "run_stop", nullptr, metadata, options_.clock());
}

absl::Status MlLog::Flush() { return file_->Flush(); }

}  // namespace dpipe::tools
