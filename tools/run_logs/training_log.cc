#include "tools/run_logs/training_log.h"

#include <filesystem>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

constexpr int64_t kMaxLogBytes = int64_t{4} << 30;  // about 15 million steps

// Returns the lines of `text` for steps up to `step`. Drops an incomplete last line.
std::string LinesUpTo(int64_t step, const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto json = ParseJsonObject(line, "a line");
    if (!json.ok() || !json->contains("step") || !(*json)["step"].is_number_integer()) continue;
    if ((*json)["step"].get<int64_t>() <= step) absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

}  // namespace

void RunningMean::Add(double value) {
  sum_ = decay_ * sum_ + value;
  weight_ = decay_ * weight_ + 1;
}

absl::StatusOr<std::unique_ptr<TrainingLog>> TrainingLog::Create(const std::string& path,
                                                                 int64_t first_step) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  std::error_code error;
  std::string kept;
  if (first_step > 0 && std::filesystem::exists(path, error)) {
    DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxLogBytes));
    kept = LinesUpTo(first_step, text);
  }
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, kept));
  DPIPE_ASSIGN_OR_RETURN(auto file, AppendFile::Open(path, AppendFile::Start::kKeep));
  return std::unique_ptr<TrainingLog>(new TrainingLog(std::move(file)));
}

void TrainingLog::OnStep(const StepReport& step) {
  nlohmann::ordered_json json;
  json["step"] = step.step;
  json["loss"] = step.loss;
  json["mean_loss"] = step.mean_loss;
  if (!(step.grad_norm < 0)) json["grad_norm"] = step.grad_norm;  // NaN becomes null
  json["lr"] = step.learning_rate;
  json["images_per_second"] = step.images_per_second;
  json["step_s"] = step.seconds;
  json["elapsed_s"] = step.elapsed_s;
  json["epoch"] = step.epoch;
  json["peak_memory_bytes"] = step.peak_memory_bytes;
  if (step.share_of_peak > 0) json["share_of_peak"] = step.share_of_peak;
  file_->Append(json.dump() + "\n");
}

void TrainingLog::OnEvaluation(const EvaluationReport& evaluation) {
  nlohmann::ordered_json json;
  json["step"] = evaluation.step;
  json["eval_loss"] = evaluation.mean;
  json["weights"] = evaluation.weights;
  json["quantiles"] = evaluation.quantiles;
  json["eval_losses"] = evaluation.losses;
  file_->Append(json.dump() + "\n");
}

void TrainingLog::OnSamples(const SamplesReport& samples) {
  nlohmann::ordered_json json;
  json["step"] = samples.step;
  json["samples"] = samples.path;
  file_->Append(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::Status TrainingLog::Flush() { return file_->Flush(); }

}  // namespace dpipe::tools
