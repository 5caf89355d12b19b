#include "tools/training/trained_model.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/base/files/replace_folder.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/json.h"
#include "core/base/text/shell_quote.h"
#include "models/folder/find_folders.h"
#include "models/folder/model_index.h"
#include "models/trainable/load.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kRecordFile[] = "training.json";

std::string RecordJson(const TrainingRecord& record) {
  nlohmann::ordered_json json;
  json["format"] = "dpipe.training";
  json["steps"] = record.steps;
  json["images"] = record.images;
  json["loss"] = record.loss;
  json["ema_decay"] = record.ema_decay;
  json["strategy"] = record.strategy;
  json["data"] = record.data_folder;
  json["command"] = record.command;
  if (!record.held_out_measure.empty()) {
    json["held_out"] = {{"loss", record.held_out_loss}, {"of", record.held_out_measure}};
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<TrainingRecord> ReadTrainingRecord(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kRecordFile);
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, path));
  const auto wrong = [&path](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a training record: ", what));
  };
  TrainingRecord record;
  const auto steps = json.value("steps", nlohmann::json());
  if (!steps.is_number_integer()) return wrong("it has no number \"steps\"");
  record.steps = steps.get<int64_t>();
  const auto held_out = json.value("held_out", nlohmann::json());
  if (held_out.is_null()) return record;
  if (!held_out.is_object() || !held_out.value("loss", nlohmann::json()).is_number() ||
      !held_out.value("of", nlohmann::json()).is_string()) {
    return wrong("\"held_out\" needs a number \"loss\" and a string \"of\"");
  }
  record.held_out_loss = held_out["loss"].get<double>();
  record.held_out_measure = held_out["of"].get<std::string>();
  return record;
}

absl::Status CheckWritable(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  if (!fs::is_directory(folder, error)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " exists but is not a folder"));
  }
  if (fs::is_empty(folder, error) || fs::exists(folder + "/" + kRecordFile, error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " exists but was not made by training (it has no ", kRecordFile,
                   "): choose another --out, or remove it"));
}

absl::Status CheckDoesNotReplaceModel(const std::string& folder, const std::string& model_folder) {
  std::error_code error;
  fs::path at = fs::canonical(model_folder, error);
  while (!error) {  // paths that do not exist yet are not equivalent
    if (fs::equivalent(at, folder, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("will not save to ", folder, ", which would replace ", model_folder,
                       ", the model being trained: choose another --out"));
    }
    if (at == at.root_path()) break;
    at = at.parent_path();
  }
  return absl::OkStatus();
}

absl::Status SaveTrainedModel(const models::TrainableModel& model,
                              const nn::ParameterSource& parameters, models::StoredFormat format,
                              const TrainingRecord& record, const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(CheckWritable(folder));
  const std::string staged = folder + ".partial";
  std::error_code error;
  fs::remove_all(staged, error);  // left over by a run that was killed
  absl::Status status = MakeParentFolder(staged);
  if (status.ok()) status = MakeOwnFolder(staged);
  if (status.ok()) status = model.Save(staged, parameters, format);
  if (status.ok()) status = WriteFileAtomically(staged + "/" + kRecordFile, RecordJson(record));
  if (status.ok()) status = ReplaceFolder(staged, folder);
  // Half a model is useless, and takes room on a full disk.
  if (!status.ok()) fs::remove_all(staged, error);
  return status;
}

absl::StatusOr<std::string> SamplingFolder(const std::string& model, const std::string& trained) {
  // A run of an earlier version is the model's folder itself.
  const std::string in_run = models::ModelOfRun(trained);
  std::error_code error;
  if (model.empty() && fs::exists(in_run + "/model_index.json", error)) return in_run;
  return models::FindModelFolder(model.empty() ? "tiny_sd" : model);
}

absl::StatusOr<std::unique_ptr<models::TrainableLatentModel>> LoadTrainedModel(
    const std::string& model, const std::string& trained,
    const std::function<void(const std::string&)>& say, const models::LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, SamplingFolder(model, trained));
  DPIPE_ASSIGN_OR_RETURN(const models::ModelKind* kind,
                         models::FindLatentKind(folder, /*with_conditions=*/false));
  DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<models::TrainableModel> loaded,
                         kind->load(folder, options));
  auto latent = std::unique_ptr<models::TrainableLatentModel>(
      dynamic_cast<models::TrainableLatentModel*>(loaded.release()));
  DPIPE_CHECK(latent != nullptr) << kind->name;
  const models::LatentPipeline& pipeline = latent->pipeline();
  if (pipeline.parts().folder.index().class_name == models::kControlNetPipelineClass) {
    say(absl::StrCat("Note:     ", folder, " is sampled without its ControlNet; to use it: ",
                     ShellCommand({"bazel", "run", "//tools:score_control", "--",
                                   absl::StrCat("--model=", folder)})));
  }
  for (const std::string& note : pipeline.notes()) say(absl::StrCat("Note:     ", note));
  DPIPE_RETURN_IF_ERROR(pipeline.CheckIsTrained());
  return latent;
}

}  // namespace dpipe::tools
