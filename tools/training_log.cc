#include "tools/training_log.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {

void RunningMean::Add(double value) {
  sum_ = decay_ * sum_ + value;
  weight_ = decay_ * weight_ + 1;
}

TrainingLog::TrainingLog(const std::string& path) : path_(path), file_(path, std::ios::trunc) {}

absl::StatusOr<std::unique_ptr<TrainingLog>> TrainingLog::Create(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  auto log = std::unique_ptr<TrainingLog>(new TrainingLog(path));
  DPIPE_RETURN_IF_ERROR(log->Flush());
  return log;
}

void TrainingLog::Write(const LoggedStep& step) {
  nlohmann::ordered_json json;
  json["step"] = step.step;
  json["loss"] = step.loss;
  json["lr"] = step.learning_rate;
  json["images_per_second"] = step.images_per_second;
  json["elapsed_s"] = step.elapsed_s;
  file_ << json.dump() << std::endl;  // flushed: for who follows the file
}

absl::Status TrainingLog::Flush() {
  file_.flush();
  if (file_.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write the log ", path_));
}

}  // namespace dpipe::tools
